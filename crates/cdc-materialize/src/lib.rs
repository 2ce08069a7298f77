//! Header to come.
