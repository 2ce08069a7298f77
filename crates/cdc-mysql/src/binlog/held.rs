//! Rows of a transaction of MariaDB that may still be taken back.
//!
//! As a rule the log holds no transaction that was rolled back, and no statement that was. But MariaDB writes both with
//! their rows where the transaction made or dropped a temporary table too, which cannot be undone: the transaction ends in
//! ROLLBACK, the statements in ROLLBACK TO (measured on 10.11 and 11.8; rows of a non-transactional table stand in
//! transactions of their own, which end in COMMIT). No event in front of the rows tells. So the rows of every transaction are
//! held back up to its end, or up to a limit: what is taken back behind that is refused, as nothing that was given out
//! can be taken back.

use super::LogItem;

/// What a transaction may hold back, in bytes of its events.
const LIMIT: usize = 4 << 20;

/// Rows that are held back.
#[derive(Debug, Default)]
pub(super) struct Held {
    items: Vec<LogItem>,
    bytes: usize,
    /// Some were given out.
    released: bool,
    savepoints: Vec<Savepoint>,
}

#[derive(Debug)]
struct Savepoint {
    name: String,
    items: usize,
    rows: u64,
}

impl Held {
    /// Takes rows in; gives all back when they become too many. `bytes`: of the event.
    pub(super) fn push(&mut self, item: LogItem, bytes: usize) -> Vec<LogItem> {
        self.bytes += bytes;
        self.items.push(item);
        if !self.released && self.bytes <= LIMIT {
            return Vec::new();
        }
        self.released = true;
        std::mem::take(&mut self.items)
    }

    /// Notes a savepoint behind so many rows of the transaction; one of that name from before is gone.
    pub(super) fn savepoint(&mut self, name: String, rows: u64) {
        self.savepoints.retain(|s| s.name != name);
        self.savepoints.push(Savepoint { name, items: self.items.len(), rows });
    }

    /// Takes back what came behind a savepoint: the transaction's rows up to it. `None` if that cannot be done.
    pub(super) fn back_to(&mut self, name: String) -> Option<u64> {
        if self.released {
            return None;
        }
        let at = self.savepoints.iter().position(|s| s.name == name)?;
        self.savepoints.truncate(at + 1);
        let savepoint = &self.savepoints[at];
        self.items.truncate(savepoint.items);
        Some(savepoint.rows)
    }

    /// Takes everything back; false if some was given out.
    pub(super) fn take_back(&mut self) -> bool {
        self.items.clear();
        !self.released
    }

    /// Everything, at the transaction's end.
    pub(super) fn release(self) -> Vec<LogItem> {
        self.items
    }
}

/// The savepoint that a statement names last, in lower case: names are compared so.
pub(super) fn savepoint_of(statement: &str) -> String {
    let trimmed = statement.trim_end_matches([';', ' ']);
    let name = match trimmed.strip_suffix('`') {
        Some(quoted) => quoted.split_once('`').map_or(quoted, |(_, name)| name),
        None => trimmed.rsplit(' ').next().unwrap_or(trimmed),
    };
    name.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollback_takes_back_what_came_behind_the_savepoint() {
        let mut held = Held::default();
        let item = || LogItem::Moved;
        assert!(held.push(item(), 10).is_empty());
        held.savepoint(savepoint_of("SAVEPOINT `A b`"), 1);
        assert!(held.push(item(), 10).is_empty());
        held.savepoint(savepoint_of("SAVEPOINT c"), 2);
        assert!(held.push(item(), 10).is_empty());
        assert_eq!(held.back_to(savepoint_of("ROLLBACK TO `a B`")), Some(1));
        assert_eq!(held.back_to(savepoint_of("ROLLBACK TO c")), None);
        assert!(held.push(item(), 10).is_empty());
        assert_eq!(held.release().len(), 2);
    }

    #[test]
    fn too_much_is_given_out_and_cannot_be_taken_back() {
        let mut held = Held::default();
        assert!(held.push(LogItem::Moved, LIMIT).is_empty());
        held.savepoint("s".to_owned(), 1);
        assert_eq!(held.push(LogItem::Moved, 1).len(), 2);
        assert_eq!(held.push(LogItem::Moved, 1).len(), 1);
        assert!(held.back_to("s".to_owned()).is_none() && !held.take_back());
    }
}
