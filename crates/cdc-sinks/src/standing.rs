//! A target stands, when it is claimed, where it stood when it was looked at.
//!
//! Between the two it may be away for a while, and it may have moved: the last commit of the run before came through, whose end
//! the server saw late, or a server that came back has lost commits that it had not written to its disk. Ticks were cut, and
//! tables checked, for where it stood then: to go on would write rows twice, or pass rows by. So it is to be looked at again.

use cdc_core::connector::JobIdentity;
use cdc_core::tick::Tick;
use cdc_core::{Error, Result, codes};

/// Refuses a claim of a target that stands at `now` (0: it has no progress) where `seen`, what was looked at, says otherwise.
pub(crate) fn stands_as_seen(
    place: &str,
    seen: Option<&(JobIdentity, Option<Tick>)>,
    job: &JobIdentity,
    now: i64,
) -> Result<()> {
    let Some((_, tick)) = seen.filter(|(looked, _)| looked == job) else { return Ok(()) };
    let then = tick.unwrap_or(0);
    if i64::try_from(then) == Ok(now) {
        return Ok(());
    }
    Err(Error::transient(
        codes::TARGET_BUSY,
        format!("{place}: it stands at tick {now} now, and stood at tick {then} when it was looked at"),
    )
    .note("a commit of the run before has come through meanwhile, or its server has lost commits")
    .help("start again: it goes on from where the target stands"))
}
