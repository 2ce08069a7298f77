//! Evaluation: to come.
