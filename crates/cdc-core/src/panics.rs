//! Panics of libraries that are results here.
//!
//! A panic anywhere ends the process (`cdc_runtime::supervise`): it is nobody's input. But some libraries panic on what a server sends.
//! Whoever calls such a one calls it through here, and the hook, which runs in front of any catching, lets it pass.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::thread;

thread_local! {
    static CAUGHT: Cell<u32> = const { Cell::new(0) };
}

/// Does something; a panic is its result.
///
/// # Errors
/// What it has panicked with.
pub fn caught<T>(work: impl FnOnce() -> T) -> thread::Result<T> {
    CAUGHT.set(CAUGHT.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(work));
    CAUGHT.set(CAUGHT.get() - 1);
    result
}

/// The same of a future, on whichever threads it is polled.
///
/// # Errors
/// What it has panicked with.
pub async fn caught_async<T>(work: impl Future<Output = T>) -> thread::Result<T> {
    let mut work = pin!(work);
    poll_fn(|context| match caught(|| work.as_mut().poll(context)) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(done)) => Poll::Ready(Ok(done)),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// Will a panic of this thread be caught?
pub fn is_caught() -> bool {
    CAUGHT.get() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_panics_is_a_result_and_is_known_to_be_one() {
        assert!(!is_caught());
        assert!(matches!(caught(is_caught), Ok(true)));
        assert!(caught(|| caught(|| panic!("inner"))).is_ok_and(|inner| inner.is_err()));
        assert!(!is_caught());
    }
}
