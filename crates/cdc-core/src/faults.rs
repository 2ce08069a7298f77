//! Named steps at which a test can end the program as `kill -9` does, or make it wait.
//!
//! A step is named where it is taken, `faults::at("checkpoint.renamed")`, and listed in [`STEPS`], so that a test can
//! go through all of them and none is forgotten. Without the feature `failpoints` a call is nothing; with it, which only
//! test builds have, the environment says what happens, in the words of the crate `fail`:
//!
//! ```text
//! FAILPOINTS="checkpoint.renamed=2*off->return"     the third time it gets there, it is dead
//! FAILPOINTS="sink.commit=sleep(500)"               every time it waits half a second
//! ```
//!
//! `return` ends the process at once: no destructor runs, nothing is flushed, no connection says good-bye.

/// Every step that has a name: the name, and what has been done when it is reached.
pub const STEPS: &[(&str, &str)] = &[
    ("snapshot.chunk-read", "a chunk's rows and its high watermark are read, and nothing of it is given out"),
    ("snapshot.chunk-given", "rows of a chunk stand in the open tick"),
    ("tick.closed", "a tick's end is on its way to the sinks"),
    (
        "bindings.noted",
        "what ticks cover is durable, of a sink that cannot hold it, and nothing of them is written",
    ),
    ("sink.written", "a batch is written into the open transaction of a target"),
    ("sink.commit", "everything of a tick is written, and COMMIT is not sent"),
    ("sink.committed", "a target has committed, and nobody has been told"),
    (
        "schema.apply",
        "the rows in front of a schema change are written, and the target's statement is not sent",
    ),
    ("schema.applied", "a statement of a schema change has been executed at the target"),
    (
        "refusal.noted",
        "that a target refuses a step of a schema change is durable, and the tick is not yet written without it",
    ),
    (
        "views.saved",
        "what views' tables hold is durable as of a tick, and the checkpoint of it is not written",
    ),
    ("views.speak", "a checkpoint says at which tick views speak, and they have not spoken"),
    ("checkpoint.partial", "a checkpoint is written and durable, under the name of an unfinished one"),
    ("checkpoint.renamed", "it has its name, and the folder is not synced"),
    ("checkpoint.saved", "it is durable, and older ones are still there"),
];

/// The step of this name has been reached.
#[inline]
pub fn at(step: &'static str) {
    #[cfg(feature = "failpoints")]
    active::at(step);
    #[cfg(not(feature = "failpoints"))]
    let _ = step;
}

/// Takes what the environment says. To be held as long as the program runs.
#[must_use]
pub fn from_environment() -> impl Sized {
    #[cfg(feature = "failpoints")]
    return fail::FailScenario::setup();
}

#[cfg(feature = "failpoints")]
mod active {
    pub(super) fn at(step: &'static str) {
        debug_assert!(super::STEPS.iter().any(|(name, _)| *name == step), "{step} is not listed");
        fail::fail_point!(step, |_| die());
    }

    fn die() {
        use nix::sys::signal::{Signal, kill};
        // an abort would leave a dump of the memory, which takes seconds
        let _ = kill(nix::unistd::Pid::this(), Signal::SIGKILL);
        loop {
            std::thread::park();
        }
    }
}
