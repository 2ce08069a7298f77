//! What a session of ours does, by `pg_stat_activity`: for a server that does not answer ([`crate::silence`]).
//!
//! To give up a connection is to let go of the socket: whoever waits for an answer is told that it was lost, which the protocol knows.
//! A session that lives on without us holds the seat until the next connection ends it.

use super::conn::Conn;
use super::options::PostgresOptions;
use crate::silence::{Looks, Seen, sending};
use std::time::Duration;

/// How long an answer is waited for.
pub(crate) enum Patience {
    /// A session begins: nothing that is asked takes long.
    Within(Duration),
    /// As [`crate::silence`] says.
    Watched(Box<Watch>),
}

/// How our session is looked at.
pub(crate) struct Watch {
    pub(crate) options: PostgresOptions,
    /// Our session's number at the server.
    pub(crate) pid: i32,
}

impl Patience {
    /// How long nothing may come of so many bytes that are sent.
    pub(crate) fn most(&self, bytes: usize) -> Duration {
        let quiet = match self {
            Patience::Within(most) => *most,
            Patience::Watched(watch) => watch.options.answer_timeout,
        };
        quiet + sending(bytes)
    }

    /// Nothing has come for that long: is the connection to be given up?
    pub(crate) fn is_over(&self, looks: &mut Looks) -> bool {
        match self {
            Patience::Within(_) => true,
            Patience::Watched(watch) => looks.is_over(watch.look()),
        }
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
