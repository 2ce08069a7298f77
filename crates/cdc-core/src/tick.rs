//! The job's logical time.
//!
//! A tick is zero or more whole source transactions, plus the rows of mended chunks, bound to the source
//! positions it covers ([`Binding`](crate::position::Binding)). It is the Timely timestamp. Ticks count from
//! 1 over the whole life of a job, restarts included; 0 is "nothing committed yet".
//!
//! "Last" ticks are inclusive (`committed` = the last tick that is durable); "next" ticks are exclusive
//! frontiers (`open` = the first tick that may still get changes). Names say which.

/// A tick, counted from 1.
pub type Tick = u64;
