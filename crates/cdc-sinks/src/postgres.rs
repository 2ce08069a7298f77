//! PostgreSQL as a target: exactly once, a transaction of the target per commit.
//!
//! # What is in the database
//!
//! In the schema that the option `schema` names: the tables of the flows, and two of ours, as at every target that
//! holds its progress.
//!
//! ```text
//! _cdc_progress (pipeline, sink, job_id, epoch, tick, binding, run, updated_at; key pipeline, sink)
//! _cdc_tables   (pipeline, sink, name; key all three): the tables that this pipeline and sink write
//! ```
//!
//! How column types are stored and why: `postgres/types.rs`. Writing rows: `postgres/write.rs`. Schema changes, which
//! are part of the transaction too: `postgres/ddl.rs`. The connection: `postgres/conn.rs`.
//!
//! # The commit protocol
//!
//! *Seat.* (pipeline, sink) has one *seat* in the database: an advisory lock of a session. Whoever writes holds it as
//! long as the session lasts. A session that takes the seat first ends the one that holds it (`pg_terminate_backend`;
//! both log in with the same account) and waits until that is gone. It is not what fences: it makes sure that
//! nothing of the session before is still under way, a COMMIT whose answer was lost above all, and that no row is
//! locked by a session that nobody drives any more (a process that is paused, a connection whose other end has
//! vanished: the server would keep such a session for hours).
//!
//! *claim*: take the seat; in one transaction read the row of (pipeline, sink) and lock it, write it back with
//! `epoch + 1` and our name in `run`, remember `epoch` and `tick`.
//!
//! *begin* (before the first write after a commit): BEGIN, read the row; another epoch than ours ends it there.
//! After a lost connection: read the row *before* the seat is taken, so that a run that was fenced off while it slept
//! does not end its successor's session.
//!
//! *commit(t, binding)*: in the same transaction as all rows and schema changes of the ticks up to t,
//! `UPDATE _cdc_progress SET tick = t, binding = .. WHERE pipeline = .. AND sink = .. AND epoch = ours AND
//! tick = previous`; one row must change; then COMMIT.
//!
//! Why this is exactly once:
//!
//! 1. *All or nothing.* Rows, DDL, tick and binding are one transaction of the target, so at every instant the
//!    database shows all changes of the ticks up to `tick` and nothing of a later one. A restart reads `tick` and
//!    `binding` and goes on behind them. (With `synchronous_commit = off` at the server a crash of the *server* may take
//!    back the last commits; they are then behind our checkpoint, and the start refuses that, as it refuses any target
//!    that is behind.)
//! 2. *One writer.* Epochs only grow, and each is handed out under a lock of the row, so no two runs hold the same
//!    one. Let an old run try to commit after a new one has claimed: its UPDATE waits for a claim that is under way
//!    (READ COMMITTED looks at the row again when it has waited), looks for its own epoch and finds none; 0 rows
//!    change and it rolls back. Let it have updated the row before: then the claim waits for its end and reads the
//!    tick that it committed. So between a claim and the next one only the claimer's commits can take effect, however
//!    long an old process slept, on whatever host, and whether or not its session could be ended.
//! 3. *A lost answer.* If the connection breaks while COMMIT is under way, the transaction may have become durable all
//!    the same. A new session takes the seat, after which the old one has ended: what it was told to commit is
//!    committed or never will be. Now the row says which. The sink looks at once; if the server cannot be reached at that
//!    moment, the committer replays the ticks later, and *begin* finds our epoch with another tick than `previous`. As
//!    no one else can hold our epoch, that tick is our own lost commit. Changes of ticks that it covers are passed over,
//!    so nothing is written twice: not a row of a table without key, not a row that a trigger counts. (A table emptied
//!    or dropped in between cannot be told to lie before or behind it: then a longer commit is refused. The committer
//!    tries the very commit that was lost, so it does not happen.)
//!    Names may have changed hands in it: what is made ready to be written meanwhile may have another shape by then, or another name. It is
//!    not made anew, which would leave an empty table, and not refused.
//!
//! *prepare* makes a table in a small transaction of its own where none is open, epoch checked: an empty table in
//! front of its first tick harms nothing.
//!
//! # Rows that nobody accounts for
//!
//! A row at the target that the pipeline did not write would stay there for ever. So a table that is there already
//! must be empty or be listed in `_cdc_tables` for this pipeline and sink; a new progress row (another job) clears the
//! list. Nothing is emptied by itself.
//!
//! # What waits and what stops
//!
//! A lock that another program holds is waited for as long as option `lock_timeout` says, then the error says so and
//! the committer tries again; likewise with a deadlock, a server that restarts, has no connection left, no room on
//! its disk, or is read-only for a moment. What the data or the set-up causes (a constraint, a missing right, a type)
//! stops. See `postgres/error.rs`.

mod array;
mod conn;
mod ddl;
mod error;
mod look;
mod options;
mod preflight;
mod reader;
mod silence;
mod sink;
mod sql;
mod tls;
mod types;
mod write;

pub use options::{NulPolicy, PostgresOptions, descriptor};
pub use reader::PostgresReader;
pub use sink::PostgresSink;

/// Where each pipeline and sink stands.
const PROGRESS: &str = "_cdc_progress";
/// Which tables they write.
const TABLES: &str = "_cdc_tables";
