//! A client of the server that is asked a transaction at a time, and that outlives nothing: when the server
//! goes, so does the session.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, PipeReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

use crate::servers::Server;

/// How to get at a server that may be down for now.
#[derive(Debug, Clone)]
pub(super) struct Door {
    program: PathBuf,
    args: Vec<std::ffi::OsString>,
}

impl Door {
    pub(super) fn of(server: &Server) -> Result<Door> {
        let command = server.socket_command("mysql")?;
        let args = command.get_args().map(ToOwned::to_owned).collect();
        Ok(Door { program: command.get_program().into(), args })
    }
}

/// The errors that clients were answered with: how often each, and the first of its kind.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<BTreeMap<u16, (u64, String)>>);

impl Refusals {
    fn note(&self, code: u16, line: &str, sql: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, _) = all.entry(code).or_insert_with(|| (0, format!("{line}\n  in: {}", sql.trim())));
        *count += 1;
    }

    pub(super) fn all(&self) -> BTreeMap<u16, (u64, String)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The server went away.
#[derive(Debug)]
pub(super) struct Lost;

/// A connection; ended by Drop as a client ends that is killed.
#[derive(Debug)]
pub(super) struct Session {
    child: Child,
    input: ChildStdin,
    output: BufReader<PipeReader>,
    asked: u64,
}

impl Session {
    /// Starts a client. Whether the server is there shows with the first statement.
    pub(super) fn open(door: &Door) -> Result<Session> {
        // both streams in one pipe: an error stands where the rows would
        let (reader, writer) = std::io::pipe()?;
        let mut child = Command::new(&door.program)
            .args(&door.args)
            .args(["--batch", "--skip-column-names", "--unbuffered", "--force", "--skip-reconnect"])
            .arg("--default-character-set=utf8mb4")
            .env_remove("MYSQL_PWD")
            .stdin(Stdio::piped())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .spawn()
            .context("starting the mysql client")?;
        let input = child.stdin.take().context("the client has no input")?;
        Ok(Session { child, input, output: BufReader::new(reader), asked: 0 })
    }

    /// Runs statements, goes on after those that fail, and returns the rows.
    pub(super) fn run(&mut self, sql: &str, refusals: &Refusals) -> Result<Vec<String>, Lost> {
        self.asked += 1;
        let end = format!("-- end {} --", self.asked);
        let asked = format!("{}\nSELECT '{end}';\n", sql.trim_end());
        self.input.write_all(asked.as_bytes()).map_err(|_| Lost)?;
        self.input.flush().map_err(|_| Lost)?;
        let mut rows = Vec::new();
        let mut line = Vec::new();
        loop {
            line.clear();
            match self.output.read_until(b'\n', &mut line) {
                Ok(1..) => {}
                _ => return Err(Lost),
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end_matches('\n');
            if text == end {
                return Ok(rows);
            }
            if let Some(code) = refusal(text) {
                if LOST.contains(&code) {
                    return Err(Lost);
                }
                refusals.note(code, text, sql);
            } else {
                rows.push(text.to_owned());
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a client says of a server that is not there, is going, or has gone.
const LOST: &[u16] = &[1053, 1152, 1184, 1927, 2002, 2003, 2006, 2013, 2055, 3169, 4031];

/// The number in `ERROR 1213 (40001) at line 7: ..`
fn refusal(line: &str) -> Option<u16> {
    let number = line.strip_prefix("ERROR ")?;
    number[..number.find(' ')?].trim_end_matches(':').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_by_their_number() {
        assert_eq!(refusal("ERROR 1213 (40001) at line 7: Deadlock found"), Some(1213));
        assert_eq!(refusal("ERROR 2002 (HY000): Can't connect"), Some(2002));
        assert_eq!(refusal("ERROR at line 7"), None);
        assert_eq!(refusal("12\tERROR 1"), None);
    }
}
