//! Taking tables in behind the start.
//!
//! A table comes in when the pipeline's patterns have changed between two runs, or when a table that was not captured
//! gets the name of one that is (the swap of a nightly rebuild). Neither its structure nor its rows are known at the log
//! reader's position, which may be far behind what the server has now. So it gets a start of its own: a position P0 of now
//! with the structure in force there, found exactly as that of a whole pipeline is. Then
//!
//! - what the log does to the table in transactions up to P0 is passed over (its structure is of behind them);
//! - its copy begins as that of any table. Every low watermark must hold P0, so all that was passed over is in its
//!   chunks;
//! - the others go on from where they are, and are not copied again.
//!
//! A table that is gone by now has a P0 too: the log reader may still have rows of it in front of it, and they are passed
//! over in the same way. Where it went to under another name that is captured, it comes in under that. That it is gone is told, without a
//! structure: a target may have it from a run before.
//!
//! A target hears of it in a tick of its own between two transactions: the table is created, and emptied if something of
//! that name is there already.

use super::discover::list_tables;
use super::{Capture, CaptureItem, Message, Result, begin_now};
use crate::config::Config;
use crate::conn::connect;
use crate::ddl;
use crate::gtid::GtidSet;
use crate::server::Server;
use crate::snapshot::reconcile::TransactionSet;
use crate::snapshot::watermark::{self, Watermark};
use cdc_core::plan::pattern::TableSet;
use cdc_core::schema_change::SchemaChange;
use cdc_core::{Error, TableId, codes};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc};

/// A table's own start.
#[derive(Debug)]
pub(super) struct Adoption {
    pub(super) table: TableId,
    /// P0, as transactions.
    pub(super) gtids: GtidSet,
    /// `None`: it is gone.
    pub(super) found: Option<Found>,
}

/// What was found of it.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) definition: ddl::Definition,
    /// P0, for watermarks.
    pub(super) base: Watermark,
}

/// What makes another replica id of a pipeline's.
const OTHER: u32 = 0x8000_0000;

const RETRY: Duration = Duration::from_millis(500);

/// Looks for a table's start until there is one.
pub(super) async fn find(
    config: Config,
    server: Server,
    table: TableId,
    messages: mpsc::Sender<Message>,
    one_at_a_time: Arc<Mutex<()>>,
) {
    // they read the log under one id
    let _turn = one_at_a_time.lock().await;
    // MariaDB ends the stream of whoever has the same id: the log reader's must go on
    let server_id = config.server_id ^ OTHER;
    let config = Config { tables: TableSet::only([&table]), server_id, ..config };
    loop {
        let message = match try_find(&config, &server, &table).await {
            Ok((gtids, found)) => {
                Message::Adopted(Box::new(Ok(Adoption { table: table.clone(), gtids, found })))
            }
            Err(error) if error.is_transient() || error.code() == codes::SERVER_ID_IN_USE => {
                tokio::time::sleep(RETRY).await;
                continue;
            }
            Err(error) => {
                Message::Adopted(Box::new(Err(error.note(format!("table \"{table}\" is to be taken in")))))
            }
        };
        // the capture may be gone
        let _ = messages.send(message).await;
        return;
    }
}

async fn try_find(config: &Config, server: &Server, table: &TableId) -> Result<(GtidSet, Option<Found>)> {
    let mut conn = connect(config).await?;
    let begun = begin_now(&mut conn, server, config, &|_| ()).await;
    let (log, _) = match begun {
        Ok(begun) => begun,
        Err(error) if error.code() == codes::NO_TABLES => {
            // not there before P0, and not behind it
            let gtids = watermark::committed(&mut conn, server).await?;
            let (_, all) = list_tables(&mut conn).await?;
            let _ = conn.disconnect().await;
            if all.contains(table) {
                return Err(Error::transient(codes::NO_TABLES, format!("\"{table}\" came just now")));
            }
            return Ok((gtids, None));
        }
        Err(error) => {
            let _ = conn.disconnect().await;
            return Err(error);
        }
    };
    let _ = conn.disconnect().await;
    let gtids = log.gtids().clone();
    let Some(definition) = log.structures().definition(table) else { return Ok((gtids, None)) };
    let base = Watermark::of_position(server.flavor, log.gtids(), log.boundary());
    Ok((gtids, Some(Found { definition, base })))
}

impl Capture {
    /// A table is to be taken in; nothing of it is given out until its start is found.
    pub(super) fn begin_adoption(&mut self, table: TableId) {
        self.log.expect(table.clone());
        let (config, server) = (self.config.clone(), self.server.clone());
        let turns = self.finding.clone();
        tokio::spawn(find(config, server, table, self.messages.0.clone(), turns));
    }

    /// Tables whose start has been found come in, at a boundary behind everything that the target has.
    pub(super) fn adopt(&mut self) -> Result<()> {
        if self.adopted.is_empty() || !self.log.at_boundary() || !self.is_past_hold() {
            return Ok(());
        }
        for adoption in std::mem::take(&mut self.adopted) {
            let table = adoption.table;
            // dropped, or renamed, while its start was looked for
            if !self.log.ahead().contains_key(&table) {
                continue;
            }
            // what a statement did to it behind P0, and the log reader has passed, is not in what was found
            if self.log.has_missed(&table, &adoption.gtids) {
                self.begin_adoption(table);
                continue;
            }
            let Some(found) = adoption.found else {
                self.log.adopt_nothing(&table, adoption.gtids);
                // A target may be ahead of this run: the run before has taken the table in there, from a server that had it still,
                // and no word of the log says that it is gone again, since to the log it has never come.
                let gone = SchemaChange::DropTable { table };
                self.tell_schema(vec![gone], None, None);
                self.out.push_back(CaptureItem::TransactionEnd);
                continue;
            };
            // rows behind P0 that were passed over are only in a snapshot of behind them
            let passed = Watermark::of_position(self.server.flavor, self.log.gtids(), self.log.boundary());
            for more in [&found.base, &passed] {
                self.reconciler.given_out(more);
                self.base.add_all(more);
            }
            let schema = self.log.adopt(found.definition, adoption.gtids);
            self.take_in(&schema)?;
        }
        self.start_splitter();
        Ok(())
    }
}

/// What a capture says of a server that is not the one its state belongs to.
pub(super) fn moved_while_copying(now: &str, before: &str) -> Error {
    Error::definite(
        codes::SERVER_CHANGED,
        format!("the url led to server {now} while tables were being copied from server {before}"),
    )
    .help("let the url lead to the first server again until the copy is complete; or copy anew from this one")
}
