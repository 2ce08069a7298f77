//! Connections that must succeed, securely or not, or be refused with the right words.

use anyhow::{Context, Result, ensure};
use cdc_core::diagnostic::Code;
use cdc_core::{Error, codes};
use cdc_mysql::config::Config;
use cdc_mysql::conn::connect;
use mysql_async::prelude::Queryable;
use std::time::{Duration, Instant};

/// Connects, and gives the cipher; empty without TLS.
pub async fn cipher(config: &Config) -> Result<String> {
    let mut conn = connect(config).await?;
    let row: Option<(String, String)> = conn.query_first("SHOW SESSION STATUS LIKE 'Ssl_cipher'").await?;
    conn.disconnect().await?;
    Ok(row.context("no status")?.1)
}

/// Whether a connection is under TLS.
pub async fn is_secure(config: &Config) -> Result<bool> {
    Ok(!cipher(config).await?.is_empty())
}

/// A connection must fail at once with this code, and say these things, one of them as help.
pub async fn check_refused(config: &Config, code: Code, says: &[&str]) -> Result<Error> {
    let begun = Instant::now();
    let error = connect(config).await.err().context("it connected")?;
    let text = error.to_string();
    eprintln!("{text}");
    ensure!(begun.elapsed() < Duration::from_secs(5), "it took {:?}", begun.elapsed());
    ensure!(error.code() == code, "another code: {text}");
    ensure!(error.is_transient() == (code == codes::CONNECT_FAILED), "consequence: {text}");
    ensure!(!error.diagnostic().help.is_empty(), "no help: {text}");
    for part in says {
        ensure!(text.contains(part), "\"{part}\" is not in: {text}");
    }
    Ok(error)
}
