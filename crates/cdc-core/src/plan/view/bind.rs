//! Views as operators over typed columns.
