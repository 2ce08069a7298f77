//! What the tests of this workspace share, and what the demo and the benchmarks stand on.
//!
//! - [`certs`]: certificates for secure connections, right and wrong ones;
//! - [`servers`]: real database servers, each with its own data folder and port, ended with the test;
//! - [`history`]: random transactions from several clients, repeatable by seed;
//! - [`proxy`]: a connection that can be cut, refused, stalled or slowed;
//! - [`views`]: views of tables that change at random, and each as the source answers it;
//! - [`markdown`]: cases written as prose, input and expected output.

pub mod certs;
pub mod history;
pub mod markdown;
pub mod proxy;
pub mod servers;
pub mod views;
