//! The targets of cdc: SQLite, MySQL and MariaDB, PostgreSQL, lines in a file, lines on standard output, and a target that only counts.
//!
//! A sink implements [`cdc_core::connector::Sink`]; [`registry`] finds it by the connector's word. What a
//! reader of the target may rely on:
//!
//! | sink | delivery | after a crash | where it stands is kept |
//! |---|---|---|---|
//! | `sqlite` | net changes, one transaction of the target a commit | exactly once: rows, schema changes, tick and binding are one transaction, fenced by an epoch | in the target, `_cdc_progress` |
//! | `mysql` | net changes, one transaction of the target a commit | exactly once: rows, tick and binding are one transaction, fenced by an epoch; a schema change is made once, and found made | in the target, `_cdc_progress` |
//! | `postgres` | net changes, one transaction of the target a commit | exactly once, in the same way | in the target, `_cdc_progress` |
//! | `jsonl` | every change, in the order of the source | at least once: a tick may come again whole; every line carries its tick | in the state folder |
//! | `stdout` | every change, in the order of the source | at least once | in the state folder |
//! | `null` | every change, read and summed up | starts counting anew | nowhere |
//!
//! The commit protocol and why it cannot lose, double or mix ticks is argued at the top of [`sqlite`] and, where a
//! schema change commits by itself, of [`mysql`].
//!
//! Absent on purpose: threads and retries. A sink does one thing when it is called, and says of each error
//! whether another try may help; the committer of `cdc-runtime` waits and calls again.

#[cfg(any(
    feature = "sqlite",
    feature = "mysql",
    feature = "postgres",
    feature = "jsonl",
    feature = "stdout"
))]
#[cfg_attr(not(any(feature = "sqlite", feature = "postgres")), allow(dead_code))]
mod default;
#[cfg(any(feature = "jsonl", feature = "stdout"))]
mod format;
#[cfg(feature = "jsonl")]
pub mod jsonl;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "null")]
pub mod null;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod pending;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod registry;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod silence;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "sqlite", feature = "mysql", feature = "postgres"))]
mod standing;
#[cfg(feature = "stdout")]
pub mod stdout;
#[cfg(any(
    feature = "sqlite",
    feature = "mysql",
    feature = "postgres",
    feature = "jsonl",
    feature = "stdout",
    feature = "null"
))]
#[cfg_attr(
    not(any(
        feature = "sqlite",
        feature = "mysql",
        feature = "jsonl",
        feature = "stdout",
        feature = "null"
    )),
    allow(dead_code)
)]
mod text;

pub use registry::{descriptors, open, reader};
