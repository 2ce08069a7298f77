//! Lines of JSON on standard output. What a line looks like: `format.rs`.
//!
//! At least once: a tick's lines are flushed when it commits, and what was flushed cannot be taken back, so
//! a restart may give out the last ticks again, whole; every line carries its tick. Only whole lines are
//! written, so a line is torn only where the reader itself went away.
//!
//! A reader that closes the pipe (`cdc run .. | head`) ends the pipeline with a definite error: the next
//! write would fail in the same way.

use crate::format::{FORMATS, Formatter};
use crate::registry::word_option;
use cdc_core::catalog::{ConnectorDescriptor, ConnectorRole, OptionDescriptor, OptionKind};
use cdc_core::connector::{
    Delivery, JobIdentity, Resume, Sink, TargetBatch, TargetSchemaChange, TargetTable,
};
use cdc_core::plan::SinkPlan;
use cdc_core::position::Binding;
use cdc_core::tick::Tick;
use cdc_core::{Error, Result, codes};
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;

/// Within a tick, lines go out in pieces of at least this many bytes.
const PIECE: usize = 64 * 1024;

/// The connector, for the language.
pub fn descriptor() -> ConnectorDescriptor {
    ConnectorDescriptor {
        name: "stdout",
        role: ConnectorRole::Sink,
        help: "writes every change to standard output, a line of JSON each; at least once",
        options: vec![OptionDescriptor {
            name: "format",
            kind: OptionKind::Choice(FORMATS),
            required: false,
            default: Some("debezium-json"),
            help: "what a line looks like: Debezium's envelope, Canal's flat message, or tick, table, key and row",
            not_yet: None,
        }],
        example: "sink feed = stdout { format = \"debezium-json\" }",
    }
}

/// The sink.
pub struct StdoutSink {
    formatter: Formatter,
    buffer: Vec<u8>,
    output: Box<dyn Write + Send>,
}

impl StdoutSink {
    /// The sink of a plan.
    ///
    /// # Errors
    /// `OPTION_VALUE`.
    pub fn from_plan(plan: &SinkPlan) -> Result<StdoutSink> {
        Ok(StdoutSink::to(Box::new(io::stdout()), word_option(plan, "format", FORMATS)?))
    }

    /// A sink that writes its lines to `output`, in one of the formats `debezium-json`, `canal-json` and `plain`.
    pub fn to(output: Box<dyn Write + Send>, format: &str) -> StdoutSink {
        StdoutSink { formatter: Formatter::new(format), buffer: Vec::new(), output }
    }

    fn drain(&mut self) -> Result<()> {
        let result = self.output.write_all(&self.buffer).and_then(|()| self.output.flush());
        // Part of it may be out; it is never written a second time within this run.
        self.buffer.clear();
        result.map_err(|e| match e.kind() {
            ErrorKind::BrokenPipe => {
                Error::definite(codes::TARGET_WRITE, "the reader of standard output has closed it")
                    .help("a restart gives out again what it did not take")
            }
            _ => Error::definite(codes::TARGET_WRITE, format!("writing to standard output failed: {e}")),
        })
    }
}

impl Sink for StdoutSink {
    fn delivery(&self) -> Delivery {
        Delivery::Log
    }

    fn inspect(&mut self, _job: &JobIdentity) -> Result<Option<Resume>> {
        Ok(None)
    }

    fn holds_progress(&self) -> bool {
        false
    }

    fn check(&mut self, _table: &TargetTable) -> Result<()> {
        Ok(())
    }

    fn claim(&mut self, job: &JobIdentity) -> Result<()> {
        self.formatter.pipeline = job.pipeline.clone();
        Ok(())
    }

    fn prepare(&mut self, table: &Arc<TargetTable>) -> Result<()> {
        self.formatter.prepare(table);
        Ok(())
    }

    fn write(&mut self, batch: &TargetBatch) -> Result<()> {
        self.formatter.batch(&mut self.buffer, batch);
        if self.buffer.len() >= PIECE { self.drain() } else { Ok(()) }
    }

    fn apply(&mut self, change: &TargetSchemaChange) -> Result<()> {
        self.formatter.schema_change(change);
        Ok(())
    }

    fn commit(&mut self, tick: Tick, _binding: &Binding) -> Result<()> {
        self.formatter.schema_changes(&mut self.buffer, tick);
        if self.buffer.is_empty() { Ok(()) } else { self.drain() }
    }

    fn rollback(&mut self) {
        self.buffer.clear();
        self.formatter.rollback();
    }
}
