//! Acceptance case 76 for what only MariaDB has: accounts by ed25519, by the socket and by methods that are not built,
//! and what 10.11 and 11.8 offer by themselves. Each test starts both.

mod common;

use anyhow::{Context, Result, ensure};
use cdc_core::codes;
use cdc_mysql::config::{Config, Named, Tls};
use cdc_testkit::certs::Certs;
use cdc_testkit::servers::{Server, ServerKind, ServerOptions, fresh_dir, remove_dir};
use common::connecting::{check_refused, is_secure};
use common::{assert_all_equal, config, snapshot};
use std::process::Command;

const BOTH: [ServerKind; 2] = [ServerKind::MariaDb1011, ServerKind::MariaDb118];

const GRANTS: &str = "GRANT SELECT, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO";

const TABLE: &str = "CREATE DATABASE c76; CREATE TABLE c76.t (id INT PRIMARY KEY, v INT); \
                     INSERT INTO c76.t VALUES (1, 1), (2, 2);";

fn account(server: &Server, user: &str, password: &str, tls: Tls) -> Config {
    let mut config = config(server, &["c76.t"]);
    (config.user, config.password, config.tls) = (user.to_owned(), Some(password.to_owned()), tls);
    config
}

/// Preflight, log and chunks.
async fn check_copy(server: &Server, config: Config) -> Result<()> {
    let copy = snapshot(config).await?;
    ensure!(copy.rows("t").len() == 2, "{:?}", copy.rows("t"));
    assert_all_equal(server, &copy).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_76_accounts_by_ed25519() -> Result<()> {
    for kind in BOTH {
        let folder = fresh_dir("certs")?;
        let certs = Certs::make(&folder)?;
        let server = Server::start(certs.server_options(ServerOptions::of(kind)))?;
        // longer than what an RSA key holds: it is not sent
        let long = "p".repeat(200);
        server.sql(&format!(
            "{TABLE} INSTALL SONAME 'auth_ed25519';
             CREATE USER ed IDENTIFIED VIA ed25519 USING PASSWORD('secret'); {GRANTS} ed;
             CREATE USER long_one IDENTIFIED VIA ed25519 USING PASSWORD('{long}');
             CREATE USER one_of_two IDENTIFIED VIA ed25519 USING PASSWORD('secret') OR mysql_native_password USING PASSWORD('other');
             CREATE USER with_ssl IDENTIFIED VIA ed25519 USING PASSWORD('secret') REQUIRE SSL"
        ))?;
        for tls in [Tls::Disabled, Tls::Preferred, Tls::Required, Tls::VerifyIdentity] {
            let account = |user: &str, password: &str| {
                let mut config = account(&server, user, password, tls);
                config.tls_ca = tls.is_verifying().then(|| Named::from(&*certs.path("ca.pem")));
                config
            };
            let secure = tls != Tls::Disabled;
            for (user, password) in [("ed", "secret"), ("long_one", &long), ("one_of_two", "secret")] {
                let is = is_secure(&account(user, password))
                    .await
                    .with_context(|| format!("{kind}, {user}, {tls}"))?;
                ensure!(is == secure, "{kind}, {user}, {tls}");
            }
            for password in ["wrong", ""] {
                check_refused(&account("ed", password), codes::ACCESS_DENIED, &["\"ed\"", "CREATE USER"])
                    .await?;
            }
            // the client answers one question
            for password in ["other", "wrong"] {
                let says = ["\"one_of_two\"", "asks for mysql_native_password", "CREATE USER"];
                check_refused(&account("one_of_two", password), codes::ACCESS_DENIED, &says).await?;
            }
            check_copy(&server, account("ed", "secret")).await?;
        }
        let with_ssl = |tls: Tls| account(&server, "with_ssl", "secret", tls);
        check_refused(&with_ssl(Tls::Disabled), codes::ACCESS_DENIED, &["\"with_ssl\"", "tls = required"])
            .await?;
        ensure!(is_secure(&with_ssl(Tls::Preferred)).await?);
        drop(server);
        remove_dir(&folder)?;
    }
    Ok(())
}

/// One in 256 is spoilt by the client library, which takes a zero for the end of what the server sends.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_76_a_login_by_ed25519_is_not_a_matter_of_luck() -> Result<()> {
    let server = Server::start(ServerOptions::of(ServerKind::MariaDb118))?;
    server.sql(&format!(
        "{TABLE} INSTALL SONAME 'auth_ed25519';
         CREATE USER ed IDENTIFIED VIA ed25519 USING PASSWORD('secret'); {GRANTS} ed"
    ))?;
    let by_tcp = account(&server, "ed", "secret", Tls::Disabled);
    let by_socket = Config { socket: Some(Named::from(server.socket())), ..by_tcp.clone() };
    for n in 0..600 {
        for config in [&by_tcp, &by_socket] {
            let conn = cdc_mysql::conn::connect(config).await.with_context(|| format!("login {n}"))?;
            conn.disconnect().await?;
        }
    }
    let refused = server.sql("SHOW GLOBAL STATUS LIKE 'Access_denied_errors'")?;
    eprintln!("spoilt: {refused}");
    Ok(())
}

/// 10.11 offers no TLS before it is given a certificate; 11.8 makes itself one, which nobody has signed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_76_what_a_server_offers_by_itself() -> Result<()> {
    let folder = fresh_dir("certs")?;
    let certs = Certs::make(&folder)?;
    for kind in BOTH {
        let server = Server::start(ServerOptions::of(kind))?;
        server.sql(TABLE)?;
        let by_itself = kind == ServerKind::MariaDb118;
        let cdc = |tls: Tls| {
            let mut config = account(&server, "cdc", "cdc", tls);
            config.tls_ca = tls.is_verifying().then(|| Named::from(&*certs.path("ca.pem")));
            config
        };
        ensure!(!is_secure(&cdc(Tls::Disabled)).await?, "{kind}");
        ensure!(is_secure(&cdc(Tls::Preferred)).await? == by_itself, "{kind}");
        check_copy(&server, cdc(Tls::Preferred)).await?;
        if by_itself {
            ensure!(is_secure(&cdc(Tls::Required)).await?);
            check_copy(&server, cdc(Tls::Required)).await?;
            for tls in [Tls::VerifyCa, Tls::VerifyIdentity] {
                let says = ["the server's certificate", "ca.pem", "tls_ca"];
                check_refused(&cdc(tls), codes::TLS_FAILED, &says).await?;
            }
        } else {
            for tls in [Tls::Required, Tls::VerifyCa, Tls::VerifyIdentity] {
                let says = ["offers no TLS", &format!("tls = {tls}"), "ssl_cert"];
                check_refused(&cdc(tls), codes::TLS_FAILED, &says).await?;
            }
        }
    }
    remove_dir(&folder)
}

/// The server asks the operating system who is at the other end of the socket.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_76_accounts_by_socket() -> Result<()> {
    let me = String::from_utf8(Command::new("id").arg("-un").output()?.stdout)?;
    let me = me.trim();
    for kind in BOTH {
        let server = Server::start(ServerOptions::of(kind))?;
        server.sql(&format!(
            "{TABLE} CREATE USER IF NOT EXISTS '{me}'@localhost; ALTER USER '{me}'@localhost IDENTIFIED VIA unix_socket;
             {GRANTS} '{me}'@localhost; CREATE USER somebody IDENTIFIED VIA unix_socket"
        ))?;
        let mut config = account(&server, me, "", Tls::Preferred);
        config.socket = Some(Named::from(server.socket()));
        for password in [None, Some("whatever".to_owned())] {
            config.password = password;
            check_copy(&server, config.clone()).await.with_context(|| kind.to_string())?;
        }
        config.user = "somebody".to_owned();
        check_refused(&config, codes::ACCESS_DENIED, &["\"somebody\"", "CREATE USER"]).await?;
        let over_tcp = account(&server, "somebody", "x", Tls::Preferred);
        check_refused(&over_tcp, codes::ACCESS_DENIED, &["\"somebody\"", "CREATE USER"]).await?;
    }
    Ok(())
}

/// Only 11.8 has `parsec`.
#[tokio::test]
async fn case_76_a_method_that_is_not_built() -> Result<()> {
    let server = Server::start(ServerOptions::of(ServerKind::MariaDb118))?;
    server
        .sql("INSTALL SONAME 'auth_parsec'; CREATE USER p IDENTIFIED VIA parsec USING PASSWORD('secret')")?;
    for tls in [Tls::Disabled, Tls::Required] {
        let says = ["\"p\"", "parsec", "IDENTIFIED VIA ed25519 USING PASSWORD("];
        let error = check_refused(&account(&server, "p", "secret", tls), codes::ACCESS_DENIED, &says).await?;
        ensure!(!error.to_string().contains("caching_sha2_password"), "{error}");
    }
    Ok(())
}
