//! Where a source can be read on from.
//!
//! A position says "everything up to here has been given out"; reading on from it gives exactly what comes
//! after. It is opaque to all but the connector that made it: MySQL orders positions by GTID set, and GTID
//! sets are only partially ordered (`cdc_mysql::gtid`), so there is no `Ord` here.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A resume point of one source.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Position {
    /// The transactions given out, as the server writes a GTID set; empty where there are no GTIDs.
    #[cfg_attr(feature = "serde", serde(default))]
    pub gtids: Arc<str>,
    /// The log file of the last thing given out.
    pub file: Arc<str>,
    /// The byte in that file behind the last event given out.
    pub offset: u64,
    /// Inside a transaction: how many of its row changes have been given out. 0 at a boundary.
    #[cfg_attr(feature = "serde", serde(default))]
    pub rows: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.offset)?;
        if self.rows > 0 {
            write!(f, "+{}", self.rows)?;
        }
        if !self.gtids.is_empty() {
            write!(f, " ({})", self.gtids)?;
        }
        Ok(())
    }
}

/// The positions of all sources that a tick covers: what is committed with the tick.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Binding {
    /// By the source's name in the pipeline.
    pub positions: BTreeMap<String, Position>,
}
