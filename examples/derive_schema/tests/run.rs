//! The example, run as its header says: what it prints is in `expected.txt` (anew with `UPDATE_EXPECT=1`).

use anyhow::{Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn changes_are_derived_refused_and_made_again() -> Result<()> {
    let output = Command::new(env!("CARGO_BIN_EXE_derive_schema")).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout)?;
    let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expected.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&expected, &printed)?;
    }
    assert_eq!(printed, fs::read_to_string(expected)?);
    Ok(())
}
