//! Prints every change of some tables as it is committed, with cdc-mysql alone.
//!
//! ```text
//! CDC_PASSWORD=cdc cargo run -p example-tail-binlog -- mysql://127.0.0.1:3306 cdc 'shop.*'
//! ```

use cdc_mysql::capture::{Capture, CaptureItem};
use cdc_mysql::config::{Config, StartMode};
use std::io::Write;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, user, table] = &arguments[..] else {
        return Err(
            "usage: tail_binlog mysql://HOST:PORT USER DATABASE.TABLE (the password is in CDC_PASSWORD)"
                .into(),
        );
    };
    let password = std::env::var("CDC_PASSWORD").ok();
    let mut config = Config::new(url, user, password.as_deref(), std::slice::from_ref(table))?;
    config.start = StartMode::Latest;
    let mut capture = Capture::start(config).await?;
    let mut out = std::io::stdout().lock();
    loop {
        match capture.next().await? {
            CaptureItem::Changes { schema, origin, changes } => {
                for change in changes {
                    let (before, after) = (change.before, change.after);
                    writeln!(out, "{} {} {:?} {before:?} -> {after:?}", origin.gtid, schema.id, change.op)?;
                }
            }
            CaptureItem::Schema { statement, .. } => writeln!(out, "schema: {statement}")?,
            CaptureItem::TransactionEnd => writeln!(out, "commit at {}", capture.position())?,
            CaptureItem::Notice(notice) => writeln!(out, "{notice}")?,
            CaptureItem::End => return Ok(()),
            CaptureItem::Chunk { .. } | CaptureItem::Moved | CaptureItem::TableWhole(_) => {}
        }
    }
}
