//! The example, run as its header says: what it prints is in `expected.txt` (anew with `UPDATE_EXPECT=1`).

use anyhow::{Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

fn printed(args: &[&str]) -> Result<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_upsert_materializer")).args(args).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn what_it_prints() -> Result<()> {
    let printed = printed(&[])?;
    let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expected.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&expected, &printed)?;
    }
    assert_eq!(printed, fs::read_to_string(expected)?);
    Ok(())
}

/// The file's lines backwards, time by time, give the same.
#[test]
fn another_order_gives_the_same() -> Result<()> {
    let text = include_str!("../changes.txt");
    let mut other = String::new();
    for time in text.split_inclusive("close\n") {
        let mut lines: Vec<&str> = time.lines().filter(|line| *line != "close").collect();
        lines.reverse();
        other += &format!("{}\nclose\n", lines.join("\n"));
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("other.txt");
    fs::write(&path, other)?;
    let behind_the_name = |text: String| text.split_once(".txt\n").map(|(_, rest)| rest.to_owned());
    let path = path.to_str().unwrap_or_default();
    let (first, second) = (behind_the_name(printed(&[])?), behind_the_name(printed(&[path])?));
    ensure!(first.is_some() && first == second, "{first:?}\n{second:?}");
    Ok(())
}
