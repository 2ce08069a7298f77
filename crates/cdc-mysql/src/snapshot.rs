//! The snapshot: many chunk readers beside one log reader, with no lock.
//!
//! # What is to be shown
//!
//! A table is copied while it is written to. From the moment every chunk is mended and the log reader has
//! reached the greatest high watermark, the target holds exactly what the source held at the log reader's
//! position, and keeps doing so as the log goes on.
//!
//! # The steps
//!
//! *Start.* G0 = `gtid_executed`, then W0 = the written end of the log. The log is read from G0. Row events up
//! to W0 are not given out; their transactions count as *given out and forgotten*. (G0 alone loses rows where
//! commit order is not log order: a transaction inside G0 may be visible while an earlier one in the log is
//! not. W0 alone is wrong since the log runs ahead of what a SELECT can see.)
//!
//! *Log.* Each row event is given out at once, and noted in *touched*: key -> (the transaction, what is now
//! known of the row). One entry a key; a later event takes the entry over, and with it the transaction.
//!
//! *Chunk.* (1) It is announced: from here on nothing is forgotten until its low watermark is known.
//! (2) LW = `gtid_executed`, accepted only if it holds every transaction that was given out and forgotten; if
//! it does not, it is asked for again. (3) SELECT. (4) HW = the written end of the log. (5) When the log
//! reader has reached HW (at that *mend position*), each row is looked up in touched by its key: touched by
//! a transaction that is not in LW and known whole or deleted: the row is dropped, the log has said
//! the newer thing; known in some columns only: those are laid over the row; unknown: the key is read again as
//! a small chunk; else the row is given out as it was read.
//!
//! A row is unknown where a partial image moves it to another key, or where the log does not tell a value that has
//! changed: its target's row goes, and it is queued as a small chunk, which is read when its LW holds that
//! transaction. Until then it is missing at the target, which is why the table is not whole before.
//!
//! A chunk is thrown away and read again if the log holds a DDL of its table that is not in LW, up to the mend
//! position; if the server answers that the table has changed; or if the structure in force at
//! the mend position is not the one it was selected with.
//!
//! # Why it is right
//!
//! Take a key k, a chunk that covers it with watermarks LW and HW, and let T1 < T2 < .. be the transactions
//! on k in log order. Row locks make engine commit order of transactions *on k* equal to log order, so what the
//! SELECT saw of k is the state after some Tm.
//!
//! - *Nothing stale is given out.* Every transaction in LW is visible to the SELECT (LW's property: a
//!   transaction is counted in `gtid_executed` only after its engine commit). Let Tj be the last transaction on
//!   k that the log reader has given out at the mend position. If Tj is not in LW and its entry is still
//!   in touched, the row is dropped or overlaid. If Tj is in LW, the SELECT saw Tj or newer (m >= j). If Tj's
//!   entry has been forgotten, Tj is in LW by the check of step 2 or, if it was forgotten after the announcement,
//!   by the rule that nothing is forgotten then that is not in the LW of every chunk in flight. So a row given out
//!   is at least as new as all that the log has said of k.
//! - *Nothing from the future stays.* The SELECT may have seen Tm that the log reader had not reached. All it
//!   saw lies at or before HW, which was taken after it, from the log's written end. The log reader has reached
//!   HW when the chunk is mended. So m <= j: with the above, m = j, or the row was dropped or overlaid
//!   because the log had said Tj.
//! - *Nothing is lost.* A row is dropped only where the log has given out a whole row or a delete for the key,
//!   which the target has. A key that the SELECT did not see was not there at Tm; if a later transaction made
//!   it, that one is not in LW, the log gives it out.
//! - *A key is never judged by chunk bounds.* Bounds are compared by the server only, in its own collation;
//!   the log's events are looked up by key alone.
//! - *Restart.* Touched is lost. All transactions given out before count as forgotten, so the
//!   check of step 2 makes every later LW hold them. Finished chunks are those whose rows every sink has committed.
//!
//! The order between a chunk's rows and the log's events of the same key is their order in the one stream that
//! [`Capture`](crate::capture::Capture) gives out: rows of a chunk enter at the mend position.
//!
//! **The check of step 2 carries the proof**; everything else about forgetting is economy. `tests/model.rs`
//! explores the decisions of [`reconcile`] against a simulated server, and takes rules out to
//! see that they are needed.
//!
//! # MariaDB
//!
//! The steps are the same with other watermarks ([`watermark`]): LW is the position of a consistent snapshot, in which the
//! SELECT then runs; a transaction is in it if it begins in front of it. The start needs no G0 beside W0, for the
//! snapshot's position is exact. The proof uses two properties of LW and HW only: what is in LW is visible to the SELECT (a
//! snapshot stands between two commits, and the log has their order), and what the SELECT saw lies at or before HW. The second is
//! not given by LW: an instant ALTER shows through an older snapshot, and engines without snapshots are read as of now; HW
//! is the written end after the SELECT. A chunk that saw such an ALTER is thrown away, since the ALTER is in the log in front
//! of HW and not in LW. To which server positions belong matters: with chunks open, another server is refused.
//!
//! # Tables that come in later, and tables that are copied again
//!
//! A table that is taken in behind the start ignores what the log did to it up to a position P0 of its own, and every LW must
//! hold P0 (`capture::adopt`). One whose rows changed without row events, or whose key changed while it was copied, is
//! copied from its beginning: the DDL that did it stands in the log, so a chunk whose LW does not hold it is void, which is all
//! that is needed. A table without a key cannot be mended row by row and is read in one pass from a snapshot that is
//! known to be exact (`capture::exact`).
//!
//! # Where touched lives
//!
//! In the task of the log reader, in front of the distribution over workers. An announcement is a function call
//! and is acknowledged when it returns; a chunk is mended in one place. The cost of a look-up per log event
//! and per chunk row is paid on one core while a table is being copied, and nothing afterwards.

pub mod chunk;
pub mod reconcile;
pub mod spill;
pub mod splitter;
pub mod watermark;
