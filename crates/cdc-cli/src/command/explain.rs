//! `cdc explain`: what a pipeline does, as text, as a graph, as JSON.

use super::load;
use crate::args::{ExplainArgs, PlanFormat};
use crate::exit::Exit;
use crate::logging::{Form, Log, Told};
use crate::output::print;
use cdc_core::plan::explain;

/// Shows the plan of a file.
pub fn explain(args: &ExplainArgs, told: &Told) -> Exit {
    let log = Log::new(if args.format == PlanFormat::Json { Form::Document } else { Form::Lines }, told);
    let (_, plan) = match load(&args.file, &args.settings.parameters(), true, &log) {
        Ok(loaded) => loaded,
        Err(exit) => return exit,
    };
    let mut text = match args.format {
        PlanFormat::Text => explain::to_text(&plan),
        PlanFormat::Mermaid => explain::to_mermaid(&plan),
        PlanFormat::Dot => explain::to_dot(&plan),
        PlanFormat::Json => explain::to_json(&plan),
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    match print(&text) {
        Ok(()) => Exit::Done,
        Err(error) => log.failed(&error, None),
    }
}
