//! The sinks of this build, by their word in the language.
//!
//! [`descriptors`] is what the language checks options against; [`open`] and [`reader`] take a plan that was
//! checked so, and check again what they use: a plan may also be built by a program.

use cdc_core::catalog::ConnectorDescriptor;
use cdc_core::connector::{Sink, TargetReader};
use cdc_core::plan::SinkPlan;
use cdc_core::{Error, Result, codes};
use std::path::{Path, PathBuf};

/// What this build can write to.
pub fn descriptors() -> Vec<ConnectorDescriptor> {
    vec![
        #[cfg(feature = "sqlite")]
        crate::sqlite::descriptor(),
        #[cfg(feature = "mysql")]
        crate::mysql::descriptor(),
        #[cfg(feature = "postgres")]
        crate::postgres::descriptor(),
        #[cfg(feature = "jsonl")]
        crate::jsonl::descriptor(),
        #[cfg(feature = "stdout")]
        crate::stdout::descriptor(),
        #[cfg(feature = "null")]
        crate::null::descriptor(),
    ]
}

/// Makes the sink of a plan; touches nothing yet. Paths are relative to `base`, the folder of the pipeline
/// file.
///
/// # Errors
/// `UNKNOWN_CONNECTOR`, `MISSING_OPTION`, `OPTION_VALUE`, `OPTION_NOT_YET`.
#[cfg_attr(
    not(any(feature = "sqlite", feature = "mysql", feature = "postgres", feature = "jsonl")),
    allow(unused_variables)
)]
pub fn open(plan: &SinkPlan, base: &Path) -> Result<Box<dyn Sink>> {
    match plan.connector.as_str() {
        #[cfg(feature = "sqlite")]
        "sqlite" => {
            Ok(Box::new(crate::sqlite::SqliteSink::new(crate::sqlite::SqliteOptions::from_plan(plan, base)?)))
        }
        #[cfg(feature = "mysql")]
        "mysql" => {
            Ok(Box::new(crate::mysql::MysqlSink::new(crate::mysql::MysqlOptions::from_plan(plan, base)?)))
        }
        #[cfg(feature = "postgres")]
        "postgres" => {
            let options = crate::postgres::PostgresOptions::from_plan(plan, base)?;
            Ok(Box::new(crate::postgres::PostgresSink::new(options)))
        }
        #[cfg(feature = "jsonl")]
        "jsonl" => Ok(Box::new(crate::jsonl::JsonlSink::from_plan(plan, base)?)),
        #[cfg(feature = "stdout")]
        "stdout" => Ok(Box::new(crate::stdout::StdoutSink::from_plan(plan)?)),
        #[cfg(feature = "null")]
        "null" => Ok(Box::new(crate::null::NullSink::new())),
        _ => Err(unknown(plan)),
    }
}

/// Makes the reader of a plan's target, for `cdc verify`; `None` for targets that cannot be read back by key.
///
/// # Errors
/// As [`open`].
#[cfg_attr(not(any(feature = "sqlite", feature = "mysql", feature = "postgres")), allow(unused_variables))]
pub fn reader(plan: &SinkPlan, base: &Path) -> Result<Option<Box<dyn TargetReader>>> {
    match plan.connector.as_str() {
        #[cfg(feature = "sqlite")]
        "sqlite" => {
            let options = crate::sqlite::SqliteOptions::from_plan(plan, base)?;
            Ok(Some(Box::new(crate::sqlite::SqliteReader::new(options))))
        }
        #[cfg(feature = "mysql")]
        "mysql" => {
            let options = crate::mysql::MysqlOptions::from_plan(plan, base)?;
            Ok(Some(Box::new(crate::mysql::MysqlReader::new(options))))
        }
        #[cfg(feature = "postgres")]
        "postgres" => {
            let options = crate::postgres::PostgresOptions::from_plan(plan, base)?;
            Ok(Some(Box::new(crate::postgres::PostgresReader::new(options))))
        }
        name if descriptors().iter().any(|d| d.name == name) => Ok(None),
        _ => Err(unknown(plan)),
    }
}

fn unknown(plan: &SinkPlan) -> Error {
    let known: Vec<String> = descriptors().iter().map(|d| format!("\"{}\"", d.name)).collect();
    Error::definite(
        codes::UNKNOWN_CONNECTOR,
        format!("sink \"{}\": this build has no sink \"{}\"", plan.name, plan.connector),
    )
    .help(format!("it has {}", known.join(", ")))
}

/// A required path option, relative to `base`.
#[cfg_attr(not(any(feature = "sqlite", feature = "jsonl")), allow(dead_code))]
pub(crate) fn path_option(plan: &SinkPlan, base: &Path) -> Result<PathBuf> {
    match plan.options.text("path") {
        None => Err(Error::definite(
            codes::MISSING_OPTION,
            format!("sink \"{}\": option \"path\" is missing", plan.name),
        )
        .help(format!("write sink {} = {} {{ path = \"..\" }}", plan.name, plan.connector))),
        Some(text) if text.is_empty() || text.contains('\0') => Err(Error::definite(
            codes::OPTION_VALUE,
            format!("sink \"{}\": option \"path\" names no file", plan.name),
        )),
        Some(text) => {
            let path = base.join(text);
            // A relative path begins with "./", so that no part of it can be taken for a url or an option.
            Ok(if path.is_relative() { Path::new(".").join(path) } else { path })
        }
    }
}

/// An option that is one of some words; the first is the default.
#[cfg_attr(
    not(any(
        feature = "sqlite",
        feature = "mysql",
        feature = "postgres",
        feature = "jsonl",
        feature = "stdout"
    )),
    allow(dead_code)
)]
pub(crate) fn word_option(plan: &SinkPlan, name: &str, words: &[&'static str]) -> Result<&'static str> {
    let default = words.first().copied().unwrap_or_default();
    let Some(text) = plan.options.text(name) else { return Ok(default) };
    words.iter().copied().find(|w| *w == text).ok_or_else(|| {
        Error::definite(
            codes::OPTION_VALUE,
            format!("sink \"{}\": option \"{name}\" cannot be \"{text}\"", plan.name),
        )
        .help(format!("it can be {}", words.join(", ")))
    })
}
