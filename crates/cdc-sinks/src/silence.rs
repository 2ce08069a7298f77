//! A server that does not answer: is it at work, or is nobody there? What holds for each server that is asked over a network.
//!
//! A statement may take hours (an ALTER of a large table), so there is no time after which it has failed. But a machine
//! may hang and a network may swallow what is sent, and then no packet ever says so: what TCP probes is answered by a kernel or a
//! proxy in between. So when nothing has come for `answer_timeout`, another connection asks what our session does:
//!
//! | what it finds | what follows |
//! |---|---|
//! | no connection, or no answer within `connect_timeout` | nobody is there: the connection is given up |
//! | our session waits for us outside a statement, or is gone | what it was sent, or its answer, was lost: given up |
//! | our session sends or receives within one | a slow network, for [`TRANSFERS`] looks; then given up |
//! | our session is at work | we wait on |
//! | the server answers, and does not tell (no connection left; a proxy with numbers of its own) | we wait on |
//!
//! To give up a connection is what the protocols of the sinks know as a lost one.
//!
//! What we send takes time as well: it is given a second more for each [`BYTES_A_SECOND`].

use std::time::Duration;

/// The slowest network that is not taken for a silent one.
const BYTES_A_SECOND: usize = 64 << 10;

/// How often a session may be found to send or receive, without a byte of it coming here.
const TRANSFERS: u32 = 10;

/// What another connection saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    Nobody,
    Transfer,
    AtWork,
}

/// How often in a row our session was found to send or receive, while one answer is waited for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Looks {
    transfers: u32,
}

impl Looks {
    /// Is the connection to be given up behind one more look?
    pub(crate) fn is_over(&mut self, seen: Seen) -> bool {
        self.transfers = if seen == Seen::Transfer { self.transfers + 1 } else { 0 };
        seen == Seen::Nobody || self.transfers > TRANSFERS
    }
}

/// How long so many bytes may take to send.
pub(crate) fn sending(bytes: usize) -> Duration {
    Duration::from_secs((bytes / BYTES_A_SECOND) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_network_is_waited_for_and_not_for_ever() {
        let mut looks = Looks::default();
        let mut over = |seen, times: u32| (0..times).map(|_| looks.is_over(seen)).collect::<Vec<_>>();
        assert!(!over(Seen::Transfer, TRANSFERS).contains(&true));
        // work in between begins it anew
        assert_eq!(over(Seen::AtWork, 1), [false]);
        assert!(!over(Seen::Transfer, TRANSFERS).contains(&true));
        assert_eq!(over(Seen::Transfer, 1), [true]);
        assert!(Looks::default().is_over(Seen::Nobody));
        assert_eq!([sending(0), sending(BYTES_A_SECOND * 3)].map(|d| d.as_secs()), [0, 3]);
    }
}
