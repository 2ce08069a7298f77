//! What a session of ours does, by SHOW PROCESSLIST: for a server that does not answer ([`crate::silence`]).
//!
//! To give up a connection is what the protocol above knows as a lost one: what was open is rolled back by the server, or its
//! session is ended when the next one takes the lock; the committer writes it again.

use crate::silence::{Looks, Seen, sending};
use cdc_core::panics::caught_async;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, IoError, OptsBuilder};
use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;
use tokio::time::timeout;

/// How long an answer is waited for.
#[derive(Debug, Clone)]
pub(crate) enum Patience {
    /// A session begins: nothing that is asked takes long.
    Within(Duration),
    /// As [`crate::silence`] says.
    Watched(Box<Watch>),
}

/// How our session is looked at.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    pub(crate) opts: OptsBuilder,
    /// Our session's number at the server.
    pub(crate) id: u32,
    pub(crate) answer: Duration,
    pub(crate) connect: Duration,
}

impl Patience {
    /// Waits for what comes of `bytes` that are sent.
    pub(crate) async fn wait<T>(
        &self,
        bytes: usize,
        work: impl Future<Output = mysql_async::Result<T>>,
    ) -> mysql_async::Result<T> {
        let sending = sending(bytes);
        let watch = match self {
            Patience::Within(most) => {
                return timeout(*most + sending, work).await.unwrap_or_else(|_| Err(silent(*most)));
            }
            Patience::Watched(watch) => watch,
        };
        let mut work = pin!(work);
        let mut most = watch.answer + sending;
        let mut looks = Looks::default();
        loop {
            if let Ok(done) = timeout(most, &mut work).await {
                return done;
            }
            let seen = tokio::select! {
                biased;
                done = &mut work => return done,
                seen = watch.look() => seen,
            };
            if looks.is_over(seen) {
                return Err(silent(most));
            }
            most = watch.answer;
        }
    }
}

impl Watch {
    async fn look(&self) -> Seen {
        let asking = async {
            let mut conn = Conn::new(self.opts.clone()).await?;
            let own: Option<u32> = conn.query_first("SELECT CONNECTION_ID()").await?;
            let sessions: Vec<mysql_async::Row> = conn.query("SHOW PROCESSLIST").await?;
            // whether the server hears the goodbye does not matter
            let _ = conn.disconnect().await;
            Ok::<_, mysql_async::Error>((own, sessions))
        };
        let (own, sessions) = match timeout(self.connect, caught_async(asking)).await {
            Ok(Ok(Ok(seen))) => seen,
            // it is there, and has no connection left, or starts, or stops; or asks for what the library panics on
            Ok(Ok(Err(mysql_async::Error::Server(_))) | Err(_)) => return Seen::AtWork,
            Ok(Ok(Err(_))) | Err(_) => return Seen::Nobody,
        };
        let session = |id: u32| {
            let text = |row: &mysql_async::Row, i: usize| {
                row.get_opt::<Option<String>, _>(i)
                    .and_then(std::result::Result::ok)
                    .flatten()
                    .unwrap_or_default()
            };
            let row = sessions.iter().find(|row| text(row, 0) == id.to_string())?;
            Some((text(row, 4), text(row, 6)))
        };
        match session(self.id) {
            Some((command, state)) => doing(&command, &state),
            // numbers that are told are those of sessions, and ours is gone
            None if own.is_some_and(|own| session(own).is_some()) => Seen::Nobody,
            None => Seen::AtWork,
        }
    }
}

/// By the columns Command and State of SHOW PROCESSLIST.
fn doing(command: &str, state: &str) -> Seen {
    match command {
        "Sleep" => Seen::Nobody,
        _ if ["sending to client", "writing to net", "reading from net"]
            .contains(&&*state.to_ascii_lowercase()) =>
        {
            Seen::Transfer
        }
        _ => Seen::AtWork,
    }
}

fn silent(waited: Duration) -> mysql_async::Error {
    let text = format!("no answer within {waited:?}");
    mysql_async::Error::Io(IoError::Io(io::Error::new(io::ErrorKind::TimedOut, text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_session_does_is_told_by_the_list() {
        for (command, state, seen) in [
            ("Sleep", "", Seen::Nobody),
            ("Query", "altering table", Seen::AtWork),
            ("Query", "", Seen::AtWork),
            ("Query", "Sending to client", Seen::Transfer),
            ("Query", "Reading from net", Seen::Transfer),
            ("Killed", "", Seen::AtWork),
        ] {
            assert_eq!(doing(command, state), seen, "{command} {state}");
        }
    }
}
