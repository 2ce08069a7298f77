//! Functions: to come.
