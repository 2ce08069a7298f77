//! A flow bound to the schema of one of its tables: what happens to each row.
//!
//! (Being written: see the signatures.)
