//! Copies one table exactly as it is at one position, while it is written to, with cdc-mysql alone: rows of
//! chunks and changes of the log are applied to a map by key, in the order in which they come.
//!
//! ```text
//! CDC_PASSWORD=cdc cargo run -p example-snapshot-table -- mysql://127.0.0.1:3306 cdc shop.orders
//! ```

use cdc_core::Row;
use cdc_mysql::binlog::rows::KeyExtractor;
use cdc_mysql::capture::{Capture, CaptureItem};
use cdc_mysql::config::{Config, StartMode};
use std::collections::BTreeMap;
use std::io::Write;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, user, table] = &arguments[..] else {
        return Err(
            "usage: snapshot_table mysql://HOST:PORT USER DATABASE.TABLE (the password is in CDC_PASSWORD)"
                .into(),
        );
    };
    let password = std::env::var("CDC_PASSWORD").ok();
    let mut config = Config::new(url, user, password.as_deref(), std::slice::from_ref(table))?;
    config.start = StartMode::Snapshot;
    let mut capture = Capture::start(config).await?;
    let mut copy: BTreeMap<Row, Row> = BTreeMap::new();
    loop {
        match capture.next().await? {
            CaptureItem::Chunk { schema, rows, .. } => {
                let mut keys = KeyExtractor::new(&schema, schema.key().unwrap_or_default());
                copy.extend(rows.into_iter().map(|row| (keys.key(&row), row)));
            }
            CaptureItem::Changes { schema, changes, .. } => {
                let mut keys = KeyExtractor::new(&schema, schema.key().unwrap_or_default());
                for change in changes {
                    if let Some(before) = change.before {
                        copy.remove(&keys.key(&before));
                    }
                    if let Some(after) = change.after {
                        copy.insert(keys.key(&after), after);
                    }
                }
            }
            CaptureItem::Notice(notice) => writeln!(std::io::stderr(), "{notice}")?,
            CaptureItem::End => break,
            _ => {}
        }
    }
    let mut out = std::io::stdout().lock();
    for row in copy.values() {
        writeln!(out, "{row:?}")?;
    }
    writeln!(std::io::stderr(), "{} rows at {}", copy.len(), capture.position())?;
    Ok(())
}
