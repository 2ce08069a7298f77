//! What views' tables hold, durable by tick: a SQLite file in the state folder.
//!
//! # Why it and the checkpoint never disagree
//! A checkpoint of tick K is written in two steps: the rows that changed up to K are written here, in one transaction that also says K; then
//! the checkpoint's file appears. Between the two a crash leaves the store one step ahead. So the same transaction notes what each row was
//! before it, and at which tick (`undo`). A start finds the store at the checkpoint's tick, or one step ahead of it: then it takes that step back.
//! Anything else is not ours to mend and is refused.
//!
//! # While a table is copied anew
//! Views are silent from some tick on then ([`cdc_materialize::voice`]), and a start must know what the tables held in front of it, since that is what targets
//! have been told. So the first checkpoint behind that tick keeps a copy of all rows as they were in front of it (`said`, under that tick), in the
//! same transaction. It is dropped one checkpoint after the one that says that views have spoken again: until then a step back may need it.
//!
//! The cost of a checkpoint is in proportion to what has changed since the one before, not to what is held.
//!
//! # Why SQLite
//! It is in the program already (a target), is made for this, and was measured against a copy-on-write tree and a log-structured store: see
//! ARCHITECTURE.md, "State of views".

use cdc_core::schema::TableId;
use cdc_core::tick::Tick;
use cdc_core::{Error, Result, Row, codes};
use cdc_materialize::inputs::{Held, InputChange, InputRow, TableChanges};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// The version of the format; another one is refused.
const FORMAT: i64 = 1;

/// The store.
#[derive(Debug)]
pub struct ViewStore {
    path: PathBuf,
    conn: Connection,
    /// Tables by their numbers.
    tables: BTreeMap<TableId, i64>,
    /// What it holds is of this tick.
    tick: Tick,
    /// The tick at which views had fallen silent, if they were silent.
    until: Option<Tick>,
    /// The ticks of which there are copies of what was said.
    copies: Vec<Tick>,
}

/// Of all states: older ones have no copies of what was said.
const SAID: &str = "
CREATE TABLE IF NOT EXISTS said (until INTEGER NOT NULL, input INTEGER NOT NULL, key BLOB NOT NULL, row BLOB, times INTEGER NOT NULL, PRIMARY KEY (until, input, key)) WITHOUT ROWID;
";

const SCHEMA: &str = "
CREATE TABLE meta (format INTEGER NOT NULL, tick INTEGER NOT NULL, before INTEGER NOT NULL);
CREATE TABLE inputs (id INTEGER PRIMARY KEY, database TEXT NOT NULL, name TEXT NOT NULL, UNIQUE (database, name));
CREATE TABLE rows (input INTEGER NOT NULL, key BLOB NOT NULL, row BLOB, times INTEGER NOT NULL, PRIMARY KEY (input, key)) WITHOUT ROWID;
CREATE TABLE undo (input INTEGER NOT NULL, key BLOB NOT NULL, row BLOB, times INTEGER, PRIMARY KEY (input, key)) WITHOUT ROWID;
";

impl ViewStore {
    /// Opens the store of a state folder as of a checkpoint's tick; 0: a new one. `until`: the tick at which views had fallen silent then.
    ///
    /// # Errors
    /// `STATE_CORRUPT` if it is of another tick; `STATE_UNREADABLE`, `STATE_VERSION`.
    pub fn open(dir: &Path, checkpoint: Tick, until: Option<Tick>) -> Result<ViewStore> {
        let path = dir.join("views.sqlite");
        if checkpoint == 0 {
            for suffix in ["", "-wal", "-shm"] {
                let file = dir.join(format!("views.sqlite{suffix}"));
                if file.exists() {
                    std::fs::remove_file(&file).map_err(|e| unusable(&path, &e.to_string()))?;
                }
            }
        }
        let failed = |e: rusqlite::Error| unusable(&path, &e.to_string());
        let conn = Connection::open(&path).map_err(failed)?;
        // durable when COMMIT returns
        conn.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536",
        )
        .map_err(failed)?;
        if checkpoint == 0 {
            conn.execute_batch(&format!("BEGIN; {SCHEMA} INSERT INTO meta VALUES ({FORMAT}, 0, 0); COMMIT"))
                .map_err(failed)?;
        }
        let found: Option<(i64, u64, u64)> = conn
            .query_row("SELECT format, tick, before FROM meta", [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .optional()
            .map_err(|e| unusable(&path, &e.to_string()))?;
        let mut store =
            ViewStore { path, conn, tables: BTreeMap::new(), tick: checkpoint, until, copies: Vec::new() };
        match found {
            Some((format, ..)) if format != FORMAT => {
                return Err(Error::definite(
                    codes::STATE_VERSION,
                    format!("{} has format {format}, this program writes {FORMAT}", store.path.display()),
                )
                .help("go on with the program that wrote it, or copy anew: remove the state folder and the targets' tables and progress"));
            }
            Some((_, tick, _)) if tick == checkpoint => {}
            Some((_, _, before)) if before == checkpoint => store.step_back(checkpoint)?,
            Some((_, tick, _)) => {
                return Err(Error::definite(
                    codes::STATE_CORRUPT,
                    format!(
                        "{} is of tick {tick}, and the checkpoint is of tick {checkpoint}",
                        store.path.display()
                    ),
                )
                .note("both are of one state folder: one of them was put back or removed by itself")
                .help("copy anew: remove the state folder and the targets' tables and progress"));
            }
            None => return Err(unusable(&store.path, "it is empty")),
        }
        store.conn.execute_batch(SAID).map_err(|e| unusable(&store.path, &e.to_string()))?;
        let kept = until.map_or("NULL".to_owned(), |until| until.to_string());
        store
            .conn
            .execute_batch(&format!("DELETE FROM said WHERE until IS NOT {kept}"))
            .map_err(|e| unusable(&store.path, &e.to_string()))?;
        store.copies.extend(until);
        let tables: Vec<(i64, String, String)> = {
            let mut select = store.prepare("SELECT id, database, name FROM inputs")?;
            let rows = select
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                .and_then(Iterator::collect);
            rows.map_err(|e| unusable(&store.path, &e.to_string()))?
        };
        store.tables = tables.into_iter().map(|(id, d, t)| (TableId::new(d, t), id)).collect();
        Ok(store)
    }

    fn prepare(&self, sql: &str) -> Result<rusqlite::CachedStatement<'_>> {
        self.conn.prepare_cached(sql).map_err(|e| unusable(&self.path, &e.to_string()))
    }

    fn step_back(&mut self, tick: Tick) -> Result<()> {
        let path = self.path.clone();
        let failed = |e: rusqlite::Error| unusable(&path, &e.to_string());
        let sql = format!(
            "BEGIN;
             DELETE FROM rows WHERE EXISTS (SELECT 1 FROM undo u WHERE u.input = rows.input AND u.key = rows.key);
             INSERT INTO rows SELECT input, key, row, times FROM undo WHERE times IS NOT NULL;
             DELETE FROM undo; UPDATE meta SET tick = {tick}, before = {tick}; COMMIT"
        );
        self.conn.execute_batch(&sql).map_err(failed)
    }

    /// The tick that it holds.
    pub fn tick(&self) -> Tick {
        self.tick
    }

    /// All rows, by table.
    ///
    /// # Errors
    /// `STATE_UNREADABLE`, `STATE_CORRUPT`.
    pub fn load(&self) -> Result<Held> {
        self.rows("SELECT key, row, times FROM rows WHERE input = ?")
    }

    /// All rows as they were when views fell silent; none if they are not silent.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn said(&self) -> Result<Held> {
        match self.until {
            Some(until) => {
                self.rows(&format!("SELECT key, row, times FROM said WHERE until = {until} AND input = ?"))
            }
            None => Ok(Held::new()),
        }
    }

    fn rows(&self, sql: &str) -> Result<Held> {
        let mut out = BTreeMap::new();
        let failed = |e: rusqlite::Error| unusable(&self.path, &e.to_string());
        for (table, id) in &self.tables {
            let mut rows = Vec::new();
            let mut select = self.prepare(sql)?;
            let mut found = select.query([id]).map_err(failed)?;
            while let Some(row) = found.next().map_err(failed)? {
                let packed = |index: usize| -> Result<Option<Row>> {
                    let bytes = row
                        .get_ref(index)
                        .map_err(failed)?
                        .as_blob_or_null()
                        .map_err(|_| corrupt(&self.path))?;
                    bytes.map(|bytes| Row::from_bytes(bytes).ok_or_else(|| corrupt(&self.path))).transpose()
                };
                let times: i64 = row.get(2).map_err(failed)?;
                let Some(key) = packed(0)? else { return Err(corrupt(&self.path)) };
                rows.push(match packed(1)? {
                    Some(row) => InputRow::Keyed { key, row },
                    None => InputRow::Counted { row: key, times },
                });
            }
            out.insert(table.clone(), rows);
        }
        Ok(out)
    }

    /// Makes changes durable, as of a tick: those since the tick before.
    ///
    /// `until`: views have fallen silent at that tick, and have not spoken again. Where that is news, `before` has the changes in front of it.
    ///
    /// # Errors
    /// `STATE_UNREADABLE`: nothing has changed then.
    pub fn save(
        &mut self,
        tick: Tick,
        until: Option<Tick>,
        before: Option<TableChanges>,
        changes: TableChanges,
    ) -> Result<()> {
        for (table, _) in before.iter().flatten().chain(&changes) {
            if !self.tables.contains_key(table) {
                self.conn
                    .execute(
                        "INSERT INTO inputs (database, name) VALUES (?, ?)",
                        params![&*table.database, &*table.table],
                    )
                    .map_err(|e| unusable(&self.path, &e.to_string()))?;
                self.tables.insert(table.clone(), self.conn.last_insert_rowid());
            }
        }
        let before = before.map(|before| self.net(before));
        let net = self.net(changes);
        let failed = {
            let path = self.path.clone();
            move |e: rusqlite::Error| unusable(&path, &e.to_string())
        };
        self.write(tick, until, before.as_ref(), &net).map_err(&failed)?;
        // that of the step before stays, which may be taken back to
        let earlier = std::mem::replace(&mut self.until, until);
        self.tick = tick;
        self.copies.extend(until.filter(|until| !self.copies.contains(until)));
        let (kept, gone) = self.copies.iter().partition(|copy| [earlier, until].contains(&Some(**copy)));
        self.copies = kept;
        for copy in Vec::<Tick>::from_iter(gone) {
            self.conn.execute("DELETE FROM said WHERE until = ?", [copy]).map_err(&failed)?;
        }
        Ok(())
    }

    /// Of a key that changed more than once the last counts; counts add up.
    fn net(&self, changes: TableChanges) -> Net {
        let mut net = Net::default();
        for (table, changes) in changes {
            let Some(id) = self.tables.get(&table) else { continue };
            for change in changes {
                match change {
                    InputChange::Keyed { key, row } => {
                        let times = i64::from(row.is_some());
                        net.insert((*id, key), (row, times));
                    }
                    InputChange::Counted { row, times } => {
                        net.entry((*id, row)).or_insert((None, 0)).1 += times;
                    }
                }
            }
        }
        net
    }

    fn write(
        &mut self,
        tick: Tick,
        until: Option<Tick>,
        before: Option<&Net>,
        net: &Net,
    ) -> rusqlite::Result<()> {
        let tx = self.conn.transaction()?;
        {
            tx.execute("DELETE FROM undo", [])?;
            if let (Some(before), Some(until)) = (before, until) {
                apply(&tx, before)?;
                tx.execute(
                    "INSERT OR REPLACE INTO said SELECT ?1, input, key, row, times FROM rows",
                    [until],
                )?;
            }
            apply(&tx, net)?;
            tx.execute("UPDATE meta SET before = tick, tick = ?1", [tick])?;
        }
        tx.commit()
    }
}

/// By table and key: the row, or how often it is there more.
type Net = HashMap<(i64, Row), (Option<Row>, i64), foldhash::fast::FixedState>;

/// Changes the rows, and notes of each what it was in front of the transaction.
fn apply(tx: &Transaction<'_>, net: &Net) -> rusqlite::Result<()> {
    // in the order of the table, so that each page is touched once
    let mut changes: Vec<(i64, &[u8], Option<&Row>, i64)> =
        net.iter().map(|((id, key), (row, times))| (*id, key.as_bytes(), row.as_ref(), *times)).collect();
    changes.sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
    let mut undo = tx.prepare_cached(
        "INSERT OR IGNORE INTO undo SELECT ?1, ?2, r.row, r.times FROM (SELECT 1) LEFT JOIN rows r ON r.input = ?1 AND r.key = ?2",
    )?;
    let mut put = tx.prepare_cached("INSERT OR REPLACE INTO rows VALUES (?1, ?2, ?3, 1)")?;
    let mut delete = tx.prepare_cached("DELETE FROM rows WHERE input = ?1 AND key = ?2")?;
    let mut count = tx.prepare_cached(
        "INSERT INTO rows VALUES (?1, ?2, NULL, ?3) ON CONFLICT DO UPDATE SET times = times + excluded.times",
    )?;
    let mut none = tx.prepare_cached("DELETE FROM rows WHERE input = ?1 AND key = ?2 AND times = 0")?;
    for (id, key, row, times) in changes {
        undo.execute(params![id, key])?;
        match (row, times) {
            (Some(row), _) => {
                put.execute(params![id, key, row.as_bytes()])?;
            }
            // of a keyed table: gone; of another one: as often as before
            (None, 0) => {
                let keyed: Option<bool> = tx
                    .prepare_cached("SELECT row IS NOT NULL FROM rows WHERE input = ?1 AND key = ?2")?
                    .query_row(params![id, key], |row| row.get(0))
                    .optional()?;
                if keyed == Some(true) {
                    delete.execute(params![id, key])?;
                }
            }
            (None, times) => {
                count.execute(params![id, key, times])?;
                none.execute(params![id, key])?;
            }
        }
    }
    Ok(())
}

fn unusable(path: &Path, what: &str) -> Error {
    Error::definite(codes::STATE_UNREADABLE, format!("state of views {}: {what}", path.display()))
        .help("the state folder must be a folder on a local disk that this account may write; choose another with --state")
}

fn corrupt(path: &Path) -> Error {
    Error::definite(codes::STATE_CORRUPT, format!("state of views {}: a row that is none", path.display()))
        .help("copy anew: remove the state folder and the targets' tables and progress")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::Value;

    fn row(values: &[i64]) -> Row {
        Row::pack(values.iter().map(|v| Value::Int(*v)))
    }

    fn keyed(key: i64, value: Option<i64>) -> (TableId, Vec<InputChange>) {
        let change = InputChange::Keyed { key: row(&[key]), row: value.map(|v| row(&[key, v])) };
        (TableId::new("shop", "t"), vec![change])
    }

    fn counted(value: i64, times: i64) -> (TableId, Vec<InputChange>) {
        (TableId::new("shop", "log"), vec![InputChange::Counted { row: row(&[value]), times }])
    }

    fn held(store: &ViewStore) -> Vec<String> {
        shown(store.load().unwrap())
    }

    fn shown(rows: Held) -> Vec<String> {
        let mut out: Vec<String> = rows
            .into_iter()
            .flat_map(|(table, rows)| rows.into_iter().map(move |row| format!("{} {row:?}", table.table)))
            .map(|text| text.replace("Keyed ", "").replace("Counted ", ""))
            .collect();
        out.sort();
        out
    }

    #[test]
    fn a_store_that_is_one_step_ahead_goes_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = ViewStore::open(dir.path(), 0, None).unwrap();
        store
            .save(
                5,
                None,
                None,
                vec![
                    keyed(1, Some(10)),
                    keyed(2, Some(20)),
                    keyed(1, Some(11)),
                    counted(7, 2),
                    counted(8, 1),
                ],
            )
            .unwrap();
        let at_5 = held(&store);
        assert_eq!(at_5.len(), 4);
        drop(store);
        let mut store = ViewStore::open(dir.path(), 5, None).unwrap();
        assert_eq!(held(&store), at_5);
        store
            .save(
                9,
                None,
                None,
                vec![
                    keyed(1, None),
                    keyed(2, Some(21)),
                    keyed(3, Some(30)),
                    counted(7, -1),
                    counted(8, -1),
                    counted(9, 3),
                    keyed(4, Some(1)),
                    keyed(4, None),
                ],
            )
            .unwrap();
        let at_9 = held(&store);
        assert_eq!(at_9.len(), 4, "{at_9:?}");
        drop(store);
        // the checkpoint of 9 was not written
        let mut store = ViewStore::open(dir.path(), 5, None).unwrap();
        assert_eq!(held(&store), at_5);
        // other ticks in the second try
        store.save(8, None, None, vec![keyed(2, Some(21))]).unwrap();
        store.save(10, None, None, vec![]).unwrap();
        drop(store);
        let error = ViewStore::open(dir.path(), 5, None).unwrap_err();
        assert_eq!(error.code(), codes::STATE_CORRUPT);
        assert_eq!(held(&ViewStore::open(dir.path(), 8, None).unwrap()).len(), 4);
        // a first start begins with nothing
        assert!(held(&ViewStore::open(dir.path(), 0, None).unwrap()).is_empty());
    }

    #[test]
    fn what_was_said_is_kept_until_it_cannot_be_gone_back_to() {
        let dir = tempfile::tempdir().unwrap();
        let open = |tick, until| ViewStore::open(dir.path(), tick, until).unwrap();
        let said = |store: &ViewStore| shown(store.said().unwrap());
        let mut store = open(0, None);
        store.save(5, None, None, vec![keyed(1, Some(10)), keyed(2, Some(20)), counted(7, 2)]).unwrap();
        let at_5 = held(&store);
        assert!(said(&store).is_empty());
        // views fall silent at 7: the change in front of it was said, those behind it were not
        let save_9 = |store: &mut ViewStore| {
            let behind = vec![keyed(1, None), keyed(2, None), keyed(3, Some(30)), counted(7, -2)];
            store.save(9, Some(7), Some(vec![keyed(2, Some(21)), counted(8, 1)]), behind).unwrap();
        };
        save_9(&mut store);
        let (at_7, at_9) = (said(&store), held(&store));
        assert_eq!((at_7.len(), at_9.len()), (4, 2), "{at_7:?} {at_9:?}");
        assert!(at_7.iter().any(|row| row.contains("21")), "{at_7:?}");
        drop(store);
        // the checkpoint of 9 was not written: nothing of it is left, and it is made once more
        let mut store = open(5, None);
        assert_eq!((held(&store), said(&store)), (at_5, vec![]));
        save_9(&mut store);
        drop(store);
        let mut store = open(9, Some(7));
        assert_eq!((held(&store), said(&store)), (at_9, at_7.clone()));
        // silent still: the copy is of then
        store.save(11, Some(7), None, vec![keyed(1, Some(12))]).unwrap();
        assert_eq!(said(&store), at_7);
        // spoken, and the checkpoint that says so is not written
        store.save(13, None, None, vec![keyed(1, Some(13))]).unwrap();
        drop(store);
        let mut store = open(11, Some(7));
        assert_eq!(said(&store), at_7);
        store.save(13, None, None, vec![keyed(1, Some(13))]).unwrap();
        store.save(15, None, None, vec![]).unwrap();
        let left: i64 = store.conn.query_row("SELECT COUNT(*) FROM said", [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0);
        // silent once more, before it was forgotten that they had been
        store.save(17, Some(16), Some(vec![]), vec![]).unwrap();
        assert_eq!(said(&store).len(), 3);
    }

    #[test]
    fn counts_that_cancel_out_leave_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = ViewStore::open(dir.path(), 0, None).unwrap();
        store.save(1, None, None, vec![counted(7, 2), counted(7, -2), counted(8, 1)]).unwrap();
        store.save(2, None, None, vec![counted(8, 1), counted(8, -1)]).unwrap();
        assert_eq!(held(&store).len(), 1);
        store.save(3, None, None, vec![counted(8, -1)]).unwrap();
        assert!(held(&store).is_empty());
    }
}
