//! Where events come from: a server, or files.

use super::event::{self, kind};
use super::files::FileLog;
use crate::server::Server;
use cdc_core::panics::caught_async;
use cdc_core::{Diagnostic, Error};
use futures_util::StreamExt;
use mysql_async::BinlogStream;
use mysql_common::binlog::consts::BinlogChecksumAlg;
use mysql_common::binlog::events::Event;
use std::sync::Arc;

/// A log that events are read from, one after the other.
pub(super) enum EventSource {
    /// A server's stream.
    Network(Box<BinlogStream>),
    /// Files.
    Files(FileLog),
}

/// What comes out of a log.
pub(super) enum Incoming {
    /// An event.
    Event(Box<Event>),
    /// A file begins; in the server's stream an event says so.
    File {
        /// Its name, without its folder.
        name: Arc<str>,
        /// Who wrote it.
        server: Server,
    },
    /// There is no more, with what is to be told about it. Asked again it is the same.
    End(Option<Box<Diagnostic>>),
}

/// Why nothing comes.
pub(super) enum Lost {
    /// The server has ended the stream.
    Ended,
    /// The connection failed, or the server said no.
    Connection(mysql_async::Error),
    /// Bytes that are no event.
    Torn(String),
    /// Of files.
    Failed(Error),
}

/// Compares the stored checksum with the bytes. A format description says itself whether there are checksums, and has
/// one in any case: if it fits a log that has them, the byte that says so is wrong.
pub(super) fn verify_checksum(event: &Event) -> Result<(), String> {
    const CRC32: BinlogChecksumAlg = BinlogChecksumAlg::BINLOG_CHECKSUM_ALG_CRC32;
    event::verify_checksum(event)?;
    let is_off = !matches!(event.footer().get_checksum_alg(), Ok(Some(CRC32)));
    if event.header().event_type_raw() == kind::FORMAT_DESCRIPTION
        && is_off
        && event.checksum().is_some_and(|stored| u32::from_le_bytes(stored) == event.calc_checksum(CRC32))
    {
        return Err("it says that there are no checksums, and has one".into());
    }
    Ok(())
}

impl EventSource {
    /// The next; may be dropped while it waits.
    ///
    /// The library reads an event's length and then takes so many bytes, whether they are there or not: an event that
    /// was torn on its way makes it panic. That is caught here, and is an error as any other; the stream is not used
    /// again.
    pub(super) async fn next(&mut self) -> Result<Incoming, Lost> {
        match self {
            EventSource::Network(stream) => match caught_async(stream.next()).await {
                Ok(Some(Ok(event))) => Ok(Incoming::Event(Box::new(event))),
                Ok(Some(Err(error))) => Err(Lost::Connection(error)),
                Ok(None) => Err(Lost::Ended),
                Err(_) => Err(Lost::Torn("its lengths do not fit the bytes that came".into())),
            },
            EventSource::Files(files) => files.next().await.map_err(Lost::Failed),
        }
    }
}
