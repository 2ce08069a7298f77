//! The MySQL source: copies tables as they are now and goes on with every later change.
//!
//! What is asked of a server: the binary log on and in row format with full images, GTIDs, an account that may
//! SELECT the tables and read the log ([`preflight`] says what is missing, with the statement that mends it).
//!
//! In ten lines:
//!
//! - [`capture::Capture`] is the whole source as one stream: rows of mended chunks and changes of the log, in an
//!   order in which applying them one after the other gives the source's state.
//! - [`snapshot`] holds the algorithm that makes this right, and its proof.
//! - [`binlog::LogReader`] is the log alone, transaction by transaction, each row decoded with the structure that
//!   was in force at its position ([`structure`]), which follows the DDL in the log ([`ddl`]).
//! - [`decode`] turns wire bytes into values: the same value from the log and from a SELECT.
//!
//! The crate needs tokio and knows neither Timely nor any target: see the examples `tail_binlog` and
//! `snapshot_table`.

pub mod binlog;
pub mod capture;
pub mod charsets;
pub mod config;
pub mod conn;
pub mod ddl;
pub mod decode;
pub mod descriptor;
pub mod gtid;
pub mod narrow;
pub mod preflight;
pub mod server;
pub mod snapshot;
pub mod structure;
