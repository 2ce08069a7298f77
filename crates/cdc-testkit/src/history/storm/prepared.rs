//! XA transactions: prepared by one session, ended by another, later.

use std::fmt::Write as _;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use rand::Rng;
use rand::rngs::StdRng;

use super::{Door, Lost, Session, Shared, WAIT_FOR_SERVER, rest};
use crate::servers::{Server, ServerKind};

pub(super) const CREATE: &str = "
CREATE DATABASE soak_x CHARSET utf8mb4;
CREATE TABLE soak_x.xk (id BIGINT NOT NULL PRIMARY KEY, n INT NOT NULL, w VARCHAR(60));
CREATE TABLE soak_x.xn (n INT NOT NULL, w VARCHAR(60));
CREATE TABLE soak_x.`x y-z` (`the key` VARCHAR(30) NOT NULL PRIMARY KEY, `a``b` INT);
";

/// Those that are prepared: name, and the turn in which it is ended.
type Pending = Vec<(String, u64)>;

const GREETING: &str = "SET time_zone = '+00:00', innodb_lock_wait_timeout = 2, lock_wait_timeout = 5;\n\
                        SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;\nUSE soak_x;";

pub(super) fn client(mut rng: StdRng, kind: ServerKind, door: &Door, shared: &Shared) -> Result<()> {
    let mut pending: Pending = Vec::new();
    let mut turn = 0;
    let mut ender: Option<Session> = None;
    while !shared.stop.load(Ordering::SeqCst) {
        let Some(open) = &mut ender else {
            let mut opened = Session::open(door)?;
            match opened.run(&format!("{GREETING}\nXA RECOVER;"), &shared.refusals) {
                Ok(rows) => {
                    // a crash may have come between a PREPARE and its answer, or a COMMIT and its answer
                    let known = branches(&rows);
                    pending.retain(|(name, _)| known.contains(name));
                    for name in known {
                        if !pending.iter().any(|(other, _)| *other == name) {
                            pending.push((name, turn + 2));
                        }
                    }
                    ender = Some(opened);
                }
                Err(Lost) => thread::sleep(WAIT_FOR_SERVER),
            }
            continue;
        };
        turn += 1;
        if let Some(at) = pending.iter().position(|(_, due)| *due <= turn) {
            let (name, _) = pending.swap_remove(at);
            let verb = if rng.random_ratio(2, 3) { "COMMIT" } else { "ROLLBACK" };
            match open.run(&format!("XA {verb} '{name}';\nXA RECOVER;"), &shared.refusals) {
                // the session that prepared it has not quite ended
                Ok(rows) if branches(&rows).contains(&name) => pending.push((name, turn + 1)),
                Ok(_) => {}
                Err(Lost) => {
                    shared.lost.fetch_add(1, Ordering::SeqCst);
                    ender = None;
                }
            }
        } else {
            let (sql, name) = branch(&mut rng, turn);
            let mut session = Session::open(door)?;
            // noted before it is prepared: whoever sees it finds its log
            let done = session.run(&format!("{GREETING}\n{};", kind.show_log_status()), &shared.refusals);
            let done = done.and_then(|rows| {
                if let (Some(name), Some(row)) = (&name, rows.first()) {
                    let log = row.split('\t').next().unwrap_or_default().to_owned();
                    shared.logs.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), log);
                }
                session.run(&sql, &shared.refusals)
            });
            shared.transactions.fetch_add(1, Ordering::SeqCst);
            match (done, name) {
                (Ok(_), Some(name)) => {
                    shared.prepared.fetch_add(1, Ordering::SeqCst);
                    pending.push((name, turn + rng.random_range(1..12)));
                }
                (Ok(_), None) => {}
                // what became of it is seen by the next that ends others
                (Err(Lost), _) => ender = None,
            }
            // its end frees the branch for another session
        }
        rest(Duration::from_millis(rng.random_range(20..400)), shared);
    }
    Ok(())
}

/// The statements of a branch, and its name if it is left prepared.
fn branch(rng: &mut StdRng, turn: u64) -> (String, Option<String>) {
    let name = format!("soak-{turn}");
    let mut sql = format!("XA START '{name}';\n");
    let count = if rng.random_ratio(1, 12) { 400 } else { rng.random_range(0..6) };
    for number in 0..count {
        let (id, n) = (turn * 1000 + number, rng.random_range(0..100));
        // rows of its own: what is prepared holds its locks, and nobody is to wait for them
        let before = turn.saturating_sub(40 + rng.random_range(0..20)) * 1000;
        _ = match rng.random_range(0..10) {
            0..4 => writeln!(sql, "INSERT INTO xk (id, n, w) VALUES ({id}, {n}, REPEAT('ä{n}', {}));", n % 9),
            4..6 => writeln!(sql, "INSERT INTO xn (n, w) VALUES ({n}, 'w'), ({n}, 'w'), ({}, NULL);", n % 7),
            6 => writeln!(sql, "INSERT INTO `x y-z` VALUES ('k{id}', {n});"),
            7 => writeln!(sql, "UPDATE xk SET n = n + 1 WHERE id = {before};"),
            8 => writeln!(sql, "UPDATE xk SET id = {id} + 500, w = NULL WHERE id = {before} + 1;"),
            _ => writeln!(sql, "DELETE FROM xk WHERE id = {before} + 2;"),
        };
    }
    _ = writeln!(sql, "XA END '{name}';");
    match rng.random_range(0..10) {
        0 => _ = writeln!(sql, "XA ROLLBACK '{name}';"),
        1..3 => _ = writeln!(sql, "XA COMMIT '{name}' ONE PHASE;"),
        _ => {
            _ = writeln!(sql, "XA PREPARE '{name}';");
            return (sql, Some(name));
        }
    }
    (sql, None)
}

/// Names from the rows of XA RECOVER.
fn branches(rows: &[String]) -> Vec<String> {
    rows.iter().filter_map(|row| row.split('\t').nth(3)).map(ToOwned::to_owned).collect()
}

/// Ends every branch that is left, and asks the server that none is.
pub(super) fn end_all(server: &Server) -> Result<()> {
    let recover = || -> Result<Vec<String>> {
        Ok(branches(&server.sql("XA RECOVER")?.lines().map(ToOwned::to_owned).collect::<Vec<_>>()))
    };
    for (number, name) in recover()?.iter().enumerate() {
        let verb = if number % 3 < 2 { "COMMIT" } else { "ROLLBACK" };
        // one whose rows deadlocked answers with an error, and is gone; what is left is asked for below
        let _ = server.sql(&format!("XA {verb} '{name}'"));
    }
    let left = recover()?;
    ensure!(left.is_empty(), "the server still holds {left:?} prepared");
    Ok(())
}
