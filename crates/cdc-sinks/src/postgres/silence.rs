//! A server that does not answer: is it at work, or is nobody there?
//!
//! A statement may take hours, so there is no time after which it has failed. But a machine may hang and a network may
//! swallow what is sent, and then no packet ever says so: what TCP probes is answered by a kernel or a proxy in between. So when nothing
//! has come for `answer_timeout`, another connection asks what our session does:
//!
//! | what it finds | what follows |
//! |---|---|
//! | no connection, or no answer within `connect_timeout` | nobody is there: the connection is given up |
//! | our session waits for us outside a statement, or is gone | what it was sent, or its answer, was lost: given up |
//! | our session waits for the network within one | a slow network, for [`TRANSFERS`] looks; then given up |
//! | our session is at work | we wait on |
//! | the server answers, and does not tell (no connection left) | we wait on |
//!
//! To give up a connection is to let go of the socket: whoever waits for an answer is told that it was lost, which the protocol knows.
//! A session that lives on without us holds the seat until the next connection ends it.
//!
//! What we send takes time as well: a request is given a second more for each [`BYTES_A_SECOND`].

use super::conn::Conn;
use super::options::PostgresOptions;
use std::time::Duration;

/// The slowest network that is not taken for a silent one.
const BYTES_A_SECOND: usize = 64 << 10;

/// How often a session may be found to wait for the network, without a byte of it coming here.
const TRANSFERS: u32 = 10;

/// How long an answer is waited for.
pub(crate) enum Patience {
    /// A session begins: nothing that is asked takes long.
    Within(Duration),
    /// As the module says.
    Watched(Box<Watch>),
}

/// How our session is looked at.
pub(crate) struct Watch {
    pub(crate) options: PostgresOptions,
    /// Our session's number at the server.
    pub(crate) pid: i32,
}

/// What another connection saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nobody,
    Transfer,
    AtWork,
}

impl Patience {
    /// How long nothing may come of so many bytes that are sent.
    pub(crate) fn most(&self, bytes: usize) -> Duration {
        let quiet = match self {
            Patience::Within(most) => *most,
            Patience::Watched(watch) => watch.options.answer_timeout,
        };
        quiet + Duration::from_secs((bytes / BYTES_A_SECOND) as u64)
    }

    /// Nothing has come for that long: is the connection to be given up? `transfers` counts from look to look.
    pub(crate) fn is_over(&self, transfers: &mut u32) -> bool {
        let Patience::Watched(watch) = self else { return true };
        let seen = watch.look();
        *transfers = if seen == Seen::Transfer { *transfers + 1 } else { 0 };
        seen == Seen::Nobody || *transfers > TRANSFERS
    }
}

impl Watch {
    fn look(&self) -> Seen {
        let sql = format!(
            "SELECT coalesce(state, ''), coalesce(wait_event_type, '') FROM pg_stat_activity WHERE pid = {}",
            self.pid
        );
        let conn = match Conn::reach(&self.options) {
            Ok(conn) => conn,
            // it is there, and has no connection left, or starts, or stops
            Err(error) if error.is_answer() => return Seen::AtWork,
            Err(_) => return Seen::Nobody,
        };
        let Ok(rows) = conn.rows(&sql) else { return Seen::Nobody };
        let field = |i: usize| rows.first().and_then(|r| r.get(i)?.as_deref()).unwrap_or_default();
        if rows.is_empty() { Seen::Nobody } else { doing(field(0), field(1)) }
    }
}

/// By what `pg_stat_activity` says.
fn doing(state: &str, waits_for: &str) -> Seen {
    match (state, waits_for) {
        ("active" | "fastpath function call", "Client") => Seen::Transfer,
        // not told to this account
        ("active" | "fastpath function call" | "", _) => Seen::AtWork,
        _ => Seen::Nobody,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_session_does_is_told_by_its_state() {
        for (state, waits_for, seen) in [
            ("active", "", Seen::AtWork),
            ("active", "Lock", Seen::AtWork),
            ("active", "Client", Seen::Transfer),
            ("idle in transaction", "Client", Seen::Nobody),
            ("idle", "Client", Seen::Nobody),
            ("", "", Seen::AtWork),
        ] {
            assert_eq!(doing(state, waits_for), seen, "{state} {waits_for}");
        }
    }
}
