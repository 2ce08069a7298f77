//! The program under the soak: its pipeline, its runs, its state and its target.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::target::Target;
use super::{CATCH_UP, STILL, cdc};
use crate::child::Guarded;
use crate::say;

/// The file of the pipeline. Mode `evolve`: the target is what the source is.
pub fn pipeline(port: u16, tables: &[&str], chunk_rows: u32, readers: u32, sink: &str) -> String {
    format!(
        "pipeline {{
  name             = \"soak\"
  checkpoint       = {{ dir = \"state\", every = \"300ms\" }}
  on_schema_change = evolve
}}

source src = mysql {{
  url           = \"mysql://127.0.0.1:{port}\"
  user          = \"cdc\"
  password      = \"${{CDC_PASSWORD}}\"
  tables        = {tables:?}
  server_id     = 5500
  chunk_rows    = {chunk_rows}
  chunk_readers = {readers}
}}

sink dw = {sink}

src.* => dw.\"{{database}}.{{table}}\"
"
    )
}

/// One run of the program, that prints into a file of its own. Killed by Drop.
pub struct Run {
    child: Guarded,
    number: u64,
    printed: PathBuf,
}

impl Run {
    /// `fault`: where a program that has named steps ends (`cdc_core::faults`).
    pub fn start(
        program: &Path,
        folder: &Path,
        number: u64,
        workers: u16,
        args: &[&str],
        fault: Option<&str>,
    ) -> Result<Run> {
        let printed = folder.join(format!("run-{number:03}.log"));
        let file = File::create(&printed)?;
        let mut command = cdc(program, folder, "run");
        command.args(["--log-format", "plain", "--workers"]).arg(workers.to_string()).args(args);
        command.stdout(file.try_clone()?).stderr(file);
        if let Some(fault) = fault {
            command.env("FAILPOINTS", fault);
        }
        Ok(Run { child: Guarded::spawn(&mut command)?, number, printed })
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn interrupt(&self) -> Result<()> {
        self.child.interrupt()
    }

    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.ended()
    }

    pub fn wait(&mut self, most: Duration) -> Result<ExitStatus> {
        self.child.wait(most)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.printed).unwrap_or_default()).into_owned()
    }

    /// Whether all tables were copied.
    pub fn was_whole(&self) -> bool {
        self.text().contains("every table is whole")
    }

    /// Whether it ended because a server could not be reached.
    pub fn found_no_server(&self) -> bool {
        let text = self.text();
        let mut errors = text.lines().filter_map(|line| {
            let (_, rest) = line.split_once("error[")?;
            rest.split_once(']')
        });
        errors.next_back().is_some_and(|(code, rest)| {
            matches!(code, "E1001" | "E1006" | "E1007" | "E2001")
                || (code == "E2006" && rest.contains("the connection was lost"))
        })
    }

    /// Whether it ended before it had said anything.
    pub fn said_nothing(&self) -> bool {
        self.text().is_empty()
    }

    /// The end of what it printed.
    pub fn last_words(&self) -> String {
        let text = self.text();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

/// `cdc run --until caught-up` to its good end.
pub fn catch_up(
    program: &Path,
    folder: &Path,
    target: &Target,
    workers: u16,
    starts: &mut u64,
) -> Result<()> {
    *starts += 1;
    let begun = Instant::now();
    let mut run = Run::start(program, folder, *starts, workers, &["--until", "caught-up"], None)?;
    let mut tick = (0, Instant::now());
    let status = loop {
        if let Some(status) = run.ended()? {
            break status;
        }
        let now = target.tick().unwrap_or(tick.0);
        if now != tick.0 {
            tick = (now, Instant::now());
        }
        if tick.1.elapsed() > STILL || begun.elapsed() > CATCH_UP {
            bail!("it does not catch up; the last tick is {}\n{}", tick.0, run.last_words());
        }
        thread::sleep(Duration::from_millis(20));
    };
    ensure!(status.success(), "cdc failed ({status})\n{}", run.last_words());
    Ok(())
}

fn checkpoints(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder.join("state")) else { return Ok(found) };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("checkpoint-") {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Whether the newest checkpoint, which no target is behind, has no table that is still being copied.
pub fn is_whole(folder: &Path) -> bool {
    let newest = checkpoints(folder).unwrap_or_default().pop().and_then(|p| fs::read_to_string(p).ok());
    let body = newest.as_deref().and_then(|text| text.split_once('\n')).map_or("", |(_, body)| body);
    serde_json::from_str::<Value>(body)
        .is_ok_and(|value| value["sources"]["src"]["copying"].as_array().is_some_and(Vec::is_empty))
}

/// What the checkpoints need of the server: logs, and prepared XA transactions, whose rows are read again. `None` while
/// there is no checkpoint, or one is just being replaced.
pub fn needed(folder: &Path) -> Result<Option<(Vec<String>, Vec<String>)>> {
    let (mut logs, mut branches) = (Vec::new(), Vec::new());
    let found = checkpoints(folder)?;
    for path in &found {
        let Ok(text) = fs::read_to_string(path) else { return Ok(None) };
        let Some((_, body)) = text.split_once('\n') else { return Ok(None) };
        let value: Value = serde_json::from_str(body)?;
        let state = &value["sources"]["src"];
        logs.push(state["position"]["file"].as_str().context("a checkpoint without a log")?.to_owned());
        for name in state["branches"].as_object().into_iter().flat_map(|all| all.keys()) {
            branches.push(branch(name).with_context(|| format!("a branch named {name}"))?);
        }
    }
    Ok((!found.is_empty()).then_some((logs, branches)))
}

/// The first part of `x'736f616b2d33',x'',1` as text.
fn branch(name: &str) -> Option<String> {
    let digits = name.strip_prefix("x'")?.split('\'').next()?;
    let bytes: Option<Vec<u8>> =
        (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()).collect();
    String::from_utf8(bytes?).ok()
}

/// The newest checkpoint without the tables' structures.
pub fn state(folder: &Path) -> String {
    let Some(text) = checkpoints(folder).unwrap_or_default().pop().and_then(|p| fs::read_to_string(p).ok())
    else {
        return "no checkpoint\n".into();
    };
    let body = text.split_once('\n').map_or("", |(_, body)| body);
    let Ok(mut value) = serde_json::from_str::<Value>(body) else {
        return "no checkpoint that can be read\n".into();
    };
    if let Some(sources) = value.get_mut("sources").and_then(Value::as_object_mut) {
        for source in sources.values_mut().filter_map(Value::as_object_mut) {
            source.remove("structures");
            source.remove("present");
        }
    }
    format!("checkpoint: {value:.2000}\n")
}

/// What `cdc verify` said.
pub struct Verified {
    pub tables: usize,
    pub rows: u64,
    pub differing: u64,
}

/// `cdc verify`, which must find nothing.
pub fn verify(program: &Path, folder: &Path) -> Result<Verified> {
    let output =
        cdc(program, folder, "verify").args(["--format", "json"]).output().context("starting cdc verify")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    fs::write(folder.join("verify.json"), printed.as_bytes())?;
    let report: Value = serde_json::from_str(&printed).with_context(|| {
        format!("cdc verify ({}): {printed}{}", output.status, String::from_utf8_lossy(&output.stderr))
    })?;
    let tables = report["tables"].as_array().cloned().unwrap_or_default();
    for table in tables.iter().filter(|table| table["differing"] != 0) {
        say!("differs: {table:.3000}");
    }
    let (rows, differing) = (report["rows"].as_u64(), report["differing"].as_u64());
    let verified = Verified {
        tables: tables.len(),
        rows: rows.context("no number of rows")?,
        differing: differing.context("no number of differences")?,
    };
    ensure!(
        output.status.success() && verified.differing == 0,
        "cdc verify finds {} differences in {} rows; its report is verify.json",
        verified.differing,
        verified.rows
    );
    Ok(verified)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_named_as_the_clients_name_them() {
        assert_eq!(branch("x'736f616b2d33',x'',1").as_deref(), Some("soak-3"));
        assert_eq!(branch("soak-3"), None);
    }
}
