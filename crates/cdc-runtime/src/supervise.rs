//! What happens when a part of the process fails in a way that is nobody's input: it ends at once.
//!
//! A worker that panics would leave its siblings waiting for it for ever (measured: a run with two workers
//! hangs). So a panic anywhere in the process prints what happened and ends the process; the next start goes on
//! from the targets' progress, which a panic cannot have touched. What is caught on purpose (`cdc_core::panics`) is not meant.

use cdc_core::{Error, codes};

/// The exit code of a process that ended by a panic.
pub const PANIC_EXIT: i32 = 101;

/// From now on a panic of any thread ends the process with [`PANIC_EXIT`].
pub fn exit_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        // of a library, on what a server sends: an error like any other
        if cdc_core::panics::is_caught() {
            return;
        }
        let thread = std::thread::current();
        let what = panic
            .payload()
            .downcast_ref::<&str>()
            .map(ToString::to_string)
            .or_else(|| panic.payload().downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".to_owned());
        let place = panic.location().map_or(String::new(), |l| format!("{}:{}", l.file(), l.line()));
        let error = Error::definite(
            codes::WORKER_PANIC,
            format!("thread \"{}\" failed: {what}", thread.name().unwrap_or("unnamed")),
        )
        .note(format!("at {place}"))
        .note("nothing that was not committed has reached a target")
        .help("start it again; if it fails again, report it with this message");
        eprintln!("{error}");
        std::process::exit(PANIC_EXIT);
    }));
}
