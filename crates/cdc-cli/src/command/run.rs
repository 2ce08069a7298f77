//! `cdc run`: the engine on its own thread, its state on the screen or in lines.
//!
//! ```text
//!   Ctrl-C ──► Stop ──► engine (thread cdc-engine) ──► Report or error ─► join
//!                          │ Messages   ▲ status
//!                          ▼            │
//!                       main thread: View ──► standard error
//! ```
//!
//! The main thread waits for messages, a short while each time, looks at the status when the view wants it, and
//! sees the engine's end. Rows of a `stdout` sink are the engine's to write; nothing else goes to standard
//! output, so they can be piped.

mod live;
mod progress;
mod view;

use super::load;
use crate::args::{LogFormat, RunArgs};
use crate::exit::{Exit, INTERRUPTED};
use crate::logging::{Form, Log, Told};
use crate::output::takes_a_view;
use cdc_core::plan::Plan;
use cdc_core::{Error, Result, codes};
use cdc_runtime::{Message, Report, RunOptions, StatusHandle, Stop};
use std::io::{IsTerminal, stdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use view::View;

/// How long the main thread waits for a message before it looks around: what an end may go unseen.
const GLANCE: Duration = Duration::from_millis(20);

/// Runs a pipeline to its end.
pub fn run(args: &RunArgs, told: &Told) -> Exit {
    let form = if args.log_format == LogFormat::Json { Form::JsonLines } else { Form::Lines };
    let log = Log::new(form, told);
    let (file, plan) = match load(&args.file, &args.settings.parameters(), false, &log) {
        Ok(loaded) => loaded,
        Err(exit) => return exit,
    };
    let stop = Stop::default();
    if let Err(error) = stop_on_signals(&stop) {
        return log.failed(&error, None);
    }
    let options = RunOptions {
        base: file.base.clone(),
        state: super::state_folder(args.state.as_deref(), &plan, &file.base),
        workers: usize::from(args.workers),
        until: args.until.clone().unwrap_or_default(),
        wait: Duration::from_secs(args.wait),
    };
    let (status, messages) = StatusHandle::new();
    let mut view = View::new(log.clone(), file, &plan, wants_live(args.log_format, &plan));
    view.started(&plan, &options);
    let engine = match start(plan, options, status.clone(), stop.clone()) {
        Ok(engine) => engine,
        Err(error) => return log.failed(&error, None),
    };
    watch(&engine, &messages, &status, &stop, &mut view);
    let result = engine
        .join()
        .unwrap_or_else(|_| Err(Error::definite(codes::INTERNAL, "the engine ended without an answer")));
    view.ended(&result, &status.get())
}

/// A live view needs a terminal that nobody else writes to.
fn wants_live(format: LogFormat, plan: &Plan) -> bool {
    let feeds_stdout =
        plan.sinks.iter().any(|s| s.connector == "stdout" && plan.flows.iter().any(|f| f.sink == s.name));
    format == LogFormat::Auto && takes_a_view() && !(feeds_stdout && stdout().is_terminal())
}

/// The first signal stops the run, the second one the process.
fn stop_on_signals(stop: &Stop) -> Result<()> {
    let stop = stop.clone();
    ctrlc::set_handler(move || {
        if stop.is_told() {
            std::process::exit(INTERRUPTED);
        }
        stop.stop();
    })
    .map_err(|e| Error::definite(codes::INTERNAL, format!("signals cannot be handled: {e}")))
}

fn start(
    plan: Plan,
    options: RunOptions,
    status: StatusHandle,
    stop: Stop,
) -> Result<JoinHandle<Result<Report>>> {
    thread::Builder::new()
        .name("cdc-engine".to_owned())
        .spawn(move || cdc_runtime::run(&plan, &options, &status, &stop))
        .map_err(|e| Error::definite(codes::INTERNAL, format!("no thread for the engine: {e}")))
}

/// Shows the run until the engine has ended; afterwards every message has been shown.
fn watch(
    engine: &JoinHandle<Result<Report>>,
    messages: &Receiver<Message>,
    status: &StatusHandle,
    stop: &Stop,
    view: &mut View,
) {
    let mut told = false;
    while !engine.is_finished() {
        match messages.recv_timeout(GLANCE) {
            Ok(message) => view.message(&message),
            Err(RecvTimeoutError::Timeout) => {}
            // cannot be: `status` can send
            Err(RecvTimeoutError::Disconnected) => thread::sleep(GLANCE),
        }
        if stop.is_told() && !told {
            told = true;
            view.stopping();
        }
        view.glance(status);
    }
    messages.try_iter().for_each(|message| view.message(&message));
}
