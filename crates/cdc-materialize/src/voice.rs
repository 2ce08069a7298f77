//! When views speak: the ticks whose changes go out.
//!
//! Views are silent while a table that they read is being copied: at first, and again when one of them has to be copied anew. Whoever cuts
//! ticks says so here *before* the tick in question is closed, so every worker finds the same answer for a tick whenever it asks, and a replay
//! of a tick finds the one of the first time.

use cdc_core::tick::Tick;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Spans of ticks, ascending: from the first at which views speak to the first at which they are silent again.
#[derive(Debug, Default)]
pub struct Voice(Mutex<Vec<(Tick, Tick)>>);

/// What a checkpoint must know of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spoken {
    /// Targets have what views said in front of this tick, at which a table began to be copied anew; `None`: nothing is being copied anew.
    pub until: Option<Tick>,
    /// The first tick at which views speak, or spoke; `None`: not known yet.
    pub from: Option<Tick>,
}

impl Voice {
    /// As a checkpoint has it.
    pub fn of(spoken: Spoken) -> Voice {
        let before = spoken.until.map(|until| (0, until));
        let later = spoken.from.map(|from| (from, Tick::MAX));
        Voice(Mutex::new(before.into_iter().chain(later).collect()))
    }

    fn spans(&self) -> MutexGuard<'_, Vec<(Tick, Tick)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what is said at a tick go out?
    pub fn speaks(&self, tick: Tick) -> bool {
        self.spans().iter().any(|(from, until)| (*from..*until).contains(&tick))
    }

    /// Views speak from this tick on, which is behind all that was told.
    pub fn speak(&self, from: Tick) {
        self.spans().push((from, Tick::MAX));
    }

    /// Views are silent from this tick on, until they are told otherwise.
    pub fn hush(&self, from: Tick) {
        let mut spans = self.spans();
        if let Some(last) = spans.last_mut() {
            last.1 = last.1.min(from);
        }
        // they had not begun
        spans.retain(|(from, until)| from < until);
    }

    /// The first tick, this one or a later one, at which views begin to speak.
    pub fn begins(&self, at: Tick) -> Option<Tick> {
        self.spans().iter().map(|(from, _)| *from).find(|from| *from >= at)
    }

    /// From which tick they speak without an end; `None`: they are silent, and are to be told.
    pub fn last(&self) -> Option<Tick> {
        self.spans().last().filter(|(_, until)| *until == Tick::MAX).map(|(from, _)| *from)
    }

    /// What a checkpoint of a tick has to say.
    pub fn at(&self, tick: Tick) -> Spoken {
        let spans = self.spans();
        let next = spans.iter().find(|(_, until)| *until > tick).map(|(from, _)| *from);
        let until = match next {
            // it is spoken at the tick
            Some(from) if from <= tick => None,
            _ => spans.iter().rev().find(|(_, until)| *until <= tick).map(|(_, until)| *until),
        };
        Spoken { until, from: next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spoken(until: Option<Tick>, from: Option<Tick>) -> Spoken {
        Spoken { until, from }
    }

    #[test]
    fn silence_at_first_and_again() {
        let voice = Voice::of(Spoken::default());
        assert!(!voice.speaks(1) && voice.last().is_none() && voice.begins(0).is_none());
        assert_eq!(voice.at(3), Spoken::default());
        voice.speak(5);
        assert_eq!(
            (voice.speaks(4), voice.speaks(5), voice.last(), voice.begins(0)),
            (false, true, Some(5), Some(5))
        );
        assert_eq!((voice.at(4), voice.at(5)), (spoken(None, Some(5)), spoken(None, Some(5))));
        voice.hush(9);
        assert_eq!((voice.speaks(8), voice.speaks(9), voice.last()), (true, false, None));
        assert_eq!((voice.begins(0), voice.begins(6)), (Some(5), None));
        // a checkpoint of a tick in front of it knows nothing of it
        assert_eq!((voice.at(8), voice.at(9)), (spoken(None, Some(5)), spoken(Some(9), None)));
        // told again, and hushed before they begin: as if nothing had been told
        voice.hush(11);
        assert_eq!(voice.at(11), spoken(Some(9), None));
        voice.speak(20);
        assert_eq!((voice.at(8), voice.at(19)), (spoken(None, Some(5)), spoken(Some(9), Some(20))));
        voice.hush(20);
        assert_eq!((voice.at(20), voice.speaks(20), voice.last()), (spoken(Some(9), None), false, None));
        voice.speak(30);
        assert_eq!((voice.at(29), voice.at(30)), (spoken(Some(9), Some(30)), spoken(None, Some(30))));
        // from a checkpoint: what was said in front of it does not come again
        let later = Voice::of(voice.at(29));
        assert_eq!((later.at(29), later.speaks(29), later.speaks(30)), (voice.at(29), false, true));
        assert_eq!(Voice::of(spoken(Some(9), None)).at(12), spoken(Some(9), None));
    }
}
