//! Connections (acceptance case 76): TLS in every mode, certificates that are right and wrong, the methods by
//! which accounts are let in, sockets, secrets from files, and servers that do not answer. One test at a time,
//! on one server, whose certificates change under it.

mod common;

use anyhow::{Context, Result, ensure};
use cdc_core::codes;
use cdc_mysql::config::{Config, Named, Tls};
use cdc_mysql::conn::connect;
use cdc_testkit::certs::Certs;
use cdc_testkit::servers::{Server, ServerKind, ServerOptions};
use common::connecting::{check_refused, cipher, is_secure};
use common::{assert_all_equal, config, config_at, snapshot};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, MutexGuard};

/// A server, and certificates that it may show. MySQL begins with its own.
struct World {
    server: Server,
    certs: Certs,
}

/// The certificate and key that a MariaDB shows: it is told other ones only when it starts, but reads these again.
const SHOWN: [&str; 2] = ["shown-cert.pem", "shown-key.pem"];

async fn world() -> MutexGuard<'static, World> {
    static WORLD: OnceLock<Mutex<World>> = OnceLock::new();
    WORLD.get_or_init(|| Mutex::new(make_world().expect("a server"))).lock().await
}

fn make_world() -> Result<World> {
    let server = Server::start(ServerOptions::of_this_run())?;
    let certs = Certs::make(server.datadir().join("certs"))?;
    certs.server("elsewhere", &["db.example", "10.99.99.99"])?;
    certs.expired_server("expired")?;
    certs.client("late", true)?;
    server.sql(
        "CREATE DATABASE c76; CREATE TABLE c76.t (id INT PRIMARY KEY, v INT); INSERT INTO c76.t VALUES (1, 1), (2, 2);
         CREATE USER ssl_only IDENTIFIED BY 'x' REQUIRE SSL; CREATE USER x509_only IDENTIFIED BY 'x' REQUIRE X509;
         CREATE USER `empty` IDENTIFIED BY ''; CREATE USER locked IDENTIFIED BY 'x' ACCOUNT LOCK;
         CREATE USER expired IDENTIFIED BY 'x' PASSWORD EXPIRE;
         GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO ssl_only, x509_only, `empty`, locked, expired",
    )?;
    Ok(World { server, certs })
}

impl World {
    /// From now on the server is `NAME-cert.pem` of our authority.
    fn is(&mut self, name: &str) -> Result<()> {
        let files = ["cert", "key"].map(|what| self.file(&format!("{name}-{what}.pem")));
        if !self.server.kind().is_mariadb() {
            let [cert, key] = &files;
            return self.certificate(&self.file("ca.pem"), cert, key);
        }
        for (file, shown) in files.iter().zip(SHOWN) {
            std::fs::copy(file, self.file(shown))?;
        }
        if self.server.sql("SELECT @@ssl_cert")?.trim() == self.file(SHOWN[0]).to_string_lossy() {
            self.server.sql("FLUSH SSL").map(drop)
        } else {
            let options = self.certs.server_options_as("shown", ServerOptions::default()).extra;
            self.begins_with(options)
        }
    }

    /// From now on the server shows what MySQL made for itself.
    fn is_mysqls_own(&self) -> Result<()> {
        self.certificate(Path::new("ca.pem"), Path::new("server-cert.pem"), Path::new("server-key.pem"))
    }

    fn certificate(&self, ca: &Path, cert: &Path, key: &Path) -> Result<()> {
        let (ca, cert, key) = (ca.display(), cert.display(), key.display());
        self.server.sql(&format!(
            "SET GLOBAL ssl_ca = '{ca}', GLOBAL ssl_cert = '{cert}', GLOBAL ssl_key = '{key}'; ALTER INSTANCE RELOAD TLS"
        ))?;
        Ok(())
    }

    /// From now on the server offers no TLS.
    fn offers_none(&mut self) -> Result<()> {
        if self.server.kind().is_mariadb() {
            return self.begins_with(vec!["--skip-ssl".to_owned()]);
        }
        self.server
            .sql("SET GLOBAL ssl_cert = 'none.pem'; ALTER INSTANCE RELOAD TLS NO ROLLBACK ON ERROR")?;
        Ok(())
    }

    /// From now on the server knows these versions of TLS.
    fn knows(&mut self, versions: &str) -> Result<()> {
        if self.server.kind().is_mariadb() {
            let mut options = self.server.options_mut().extra.clone();
            options.retain(|option| !option.starts_with("--tls-version="));
            options.push(format!("--tls-version={versions}"));
            return self.begins_with(options);
        }
        self.server.sql(&format!("SET GLOBAL tls_version = '{versions}'; ALTER INSTANCE RELOAD TLS"))?;
        Ok(())
    }

    fn begins_with(&mut self, options: Vec<String>) -> Result<()> {
        self.server.options_mut().extra = options;
        self.server.restart()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.certs.path(name)
    }

    fn named(&self, name: &str) -> Option<Named> {
        Some(Named::from(&*self.file(name)))
    }

    fn config(&self, tls: Tls) -> Config {
        let mut config = config(&self.server, &["c76.t"]);
        config.tls = tls;
        if tls.is_verifying() {
            config.tls_ca = self.named("ca.pem");
        }
        config
    }

    fn account(&self, user: &str, password: &str, tls: Tls) -> Config {
        let mut config = self.config(tls);
        (config.user, config.password) = (user.to_owned(), Some(password.to_owned()));
        config
    }

    fn with_client(&self, mut config: Config, cert: &str, key: &str) -> Config {
        (config.tls_cert, config.tls_key) = (self.named(cert), self.named(key));
        config
    }
}

#[tokio::test]
async fn case_76_tls_modes() -> Result<()> {
    let mut world = world().await;
    world.is("server")?;
    let mut plain = world.config(Tls::Disabled);
    ensure!(!is_secure(&plain).await?);
    for tls in [Tls::Preferred, Tls::Required, Tls::VerifyCa, Tls::VerifyIdentity] {
        ensure!(is_secure(&world.config(tls)).await?, "{tls}");
    }
    let mut by_name = world.config(Tls::VerifyIdentity);
    by_name.host = "localhost".to_owned();
    ensure!(is_secure(&by_name).await?);
    // a server that insists
    world.server.sql("SET GLOBAL require_secure_transport = ON")?;
    // 10.11 says that access is denied, and names the client's address
    let (code, says) = match world.server.kind() {
        ServerKind::MariaDb1011 => (codes::ACCESS_DENIED, "\"cdc\""),
        _ => (codes::TLS_FAILED, "tls = disabled"),
    };
    let refused = check_refused(&plain, code, &["at 127.0.0.1", says, "tls = required"]).await;
    plain.secret_place = true;
    let hidden = check_refused(&plain, code, &["at ***"]).await;
    let secure = is_secure(&world.config(Tls::Preferred)).await;
    world.server.sql("SET GLOBAL require_secure_transport = OFF")?;
    refused?;
    ensure!(!hidden?.to_string().contains(&format!(":{}", world.server.port())));
    ensure!(secure?);
    // the older protocol
    world.knows("TLSv1.2")?;
    let older = cipher(&world.config(Tls::VerifyIdentity)).await;
    world.knows("TLSv1.2,TLSv1.3")?;
    ensure!(older?.starts_with("ECDHE"));
    Ok(())
}

#[tokio::test]
async fn case_76_a_server_without_tls() -> Result<()> {
    let mut world = world().await;
    world.offers_none()?;
    ensure!(!is_secure(&world.config(Tls::Preferred)).await?);
    for tls in [Tls::Required, Tls::VerifyCa, Tls::VerifyIdentity] {
        let says = ["offers no TLS", &format!("tls = {tls}"), "ssl_cert"];
        check_refused(&world.config(tls), codes::TLS_FAILED, &says).await?;
    }
    check_refused(
        &world.account("ssl_only", "x", Tls::Preferred),
        codes::ACCESS_DENIED,
        &["\"ssl_only\"", "does not offer"],
    )
    .await?;
    Ok(())
}

#[tokio::test]
async fn case_76_mysqls_own_certificates_mysql_only() -> Result<()> {
    let world = world().await;
    world.is_mysqls_own()?;
    ensure!(is_secure(&world.config(Tls::Preferred)).await?);
    ensure!(is_secure(&world.config(Tls::Required)).await?);
    let mut config = world.config(Tls::VerifyCa);
    config.tls_ca = Some(Named::from(&*world.server.datadir().join("ca.pem")));
    ensure!(is_secure(&config).await?);
    // they name no host
    config.tls = Tls::VerifyIdentity;
    check_refused(&config, codes::TLS_FAILED, &["names no host", "\"127.0.0.1\"", "tls = verify-ca"]).await?;
    config.tls_ca = None;
    check_refused(&config, codes::TLS_FAILED, &["a public authority"]).await?;
    Ok(())
}

#[tokio::test]
async fn case_76_a_server_that_is_not_who_it_should_be() -> Result<()> {
    let mut world = world().await;
    let other = Certs::make(world.server.datadir().join("other"))?;
    world.is("server")?;
    for tls in [Tls::VerifyCa, Tls::VerifyIdentity] {
        let mut config = world.config(tls);
        config.tls_ca = Some(Named::from(&*other.path("ca.pem")));
        check_refused(
            &config,
            codes::TLS_FAILED,
            &["not signed by an authority in", "other/ca.pem", "ssl_ca"],
        )
        .await?;
        config.tls_ca = Some(Named { path: other.path("ca.pem"), secret: true });
        let text = check_refused(&config, codes::TLS_FAILED, &["authority in \"***\""]).await?.to_string();
        ensure!(!text.contains("ca.pem"), "{text}");
    }
    world.is("elsewhere")?;
    ensure!(is_secure(&world.config(Tls::VerifyCa)).await?, "verify-ca asks for the host");
    let mut config = world.config(Tls::VerifyIdentity);
    check_refused(&config, codes::TLS_FAILED, &["\"db.example\", \"10.99.99.99\"", "\"127.0.0.1\""]).await?;
    config.secret_place = true;
    let text = check_refused(&config, codes::TLS_FAILED, &["not of the host in url"]).await?.to_string();
    ensure!(!text.contains("127.0.0.1") && !text.contains("db.example"), "{text}");
    // MySQL itself does not start with these
    for (name, says) in
        [("expired", ["has expired", "ALTER INSTANCE RELOAD TLS"]), ("client", ["cannot be used", "tls_ca"])]
    {
        let port = listen_as(&world.certs, name)?;
        for tls in [Tls::VerifyCa, Tls::VerifyIdentity] {
            let mut config = world.config(tls);
            config.port = port;
            check_refused(&config, codes::TLS_FAILED, &says).await?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_76_client_certificates_on_every_connection() -> Result<()> {
    let mut world = world().await;
    world.is("server")?;
    let refused = world.account("ssl_only", "x", Tls::Disabled);
    check_refused(&refused, codes::ACCESS_DENIED, &["\"ssl_only\"", "tls = required"]).await?;
    ensure!(is_secure(&world.account("ssl_only", "x", Tls::Preferred)).await?);
    let mut config = world.account("x509_only", "x", Tls::VerifyIdentity);
    check_refused(&config, codes::ACCESS_DENIED, &["\"x509_only\"", "tls_cert"]).await?;
    config = world.with_client(config, "client-cert.pem", "client-key.pem");
    ensure!(is_secure(&config).await?);
    // preflight, log and chunks
    let copy = snapshot(config).await?;
    ensure!(copy.rows("t").len() == 2);
    assert_all_equal(&world.server, &copy).await?;
    // certificates that the server does not take
    let config = world.account("x509_only", "x", Tls::Required);
    let late = world.with_client(config.clone(), "late-cert.pem", "late-key.pem");
    check_refused(&late, codes::TLS_FAILED, &["CertificateExpired", "tls_cert", "ssl_ca"]).await?;
    let other = Certs::make(world.server.datadir().join("other"))?;
    let mut foreign = config;
    (foreign.tls_cert, foreign.tls_key) = (
        Some(Named::from(&*other.path("client-cert.pem"))),
        Some(Named::from(&*other.path("client-key.pem"))),
    );
    check_refused(&foreign, codes::TLS_FAILED, &["tls_cert", "ssl_ca"]).await?;
    Ok(())
}

#[tokio::test]
async fn case_76_files_that_cannot_be_used() -> Result<()> {
    let mut world = world().await;
    world.is("server")?;
    std::fs::write(world.file("garbage.pem"), b"\xff\x00 no certificate")?;
    std::fs::write(world.file("broken.pem"), "-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n")?;
    std::fs::write(
        world.file("hollow.pem"),
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    )?;
    std::fs::write(
        world.file("hollow-key.pem"),
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    )?;
    std::fs::write(world.file("empty.pem"), "")?;
    let mut config = world.config(Tls::VerifyIdentity);
    for (file, code) in [
        ("missing.pem", codes::FILE_UNREADABLE),
        (".", codes::FILE_UNREADABLE),
        ("garbage.pem", codes::TLS_FAILED),
        ("broken.pem", codes::TLS_FAILED),
        ("hollow.pem", codes::TLS_FAILED),
        ("empty.pem", codes::TLS_FAILED),
        ("client-key.pem", codes::TLS_FAILED),
    ] {
        config.tls_ca = world.named(file);
        check_refused(&config, code, &["tls_ca", file]).await?;
    }
    let config = world.config(Tls::Required);
    for (cert, key, code, option) in [
        ("missing.pem", "client-key.pem", codes::FILE_UNREADABLE, "tls_cert"),
        ("client-cert.pem", "missing.pem", codes::FILE_UNREADABLE, "tls_key"),
        ("garbage.pem", "client-key.pem", codes::TLS_FAILED, "tls_cert"),
        ("hollow.pem", "client-key.pem", codes::TLS_FAILED, "tls_cert"),
        ("client-cert.pem", "client-cert.pem", codes::TLS_FAILED, "tls_key"),
        ("client-cert.pem", "hollow-key.pem", codes::TLS_FAILED, "tls_key"),
        ("client-cert.pem", "server-key.pem", codes::TLS_FAILED, "is not the key of the certificate"),
    ] {
        check_refused(&world.with_client(config.clone(), cert, key), code, &[option, "\""]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn case_76_accounts_and_passwords() -> Result<()> {
    let mut world = world().await;
    world.is("server")?;
    for tls in [Tls::Disabled, Tls::Required] {
        let secure = tls == Tls::Required;
        ensure!(is_secure(&world.config(tls)).await? == secure, "{tls}");
        for (user, password) in [("cdc", "wrong"), ("cdc", ""), ("nobody", "x"), ("empty", "x")] {
            let refused = world.account(user, password, tls);
            check_refused(&refused, codes::ACCESS_DENIED, &[&format!("\"{user}\""), "CREATE USER"]).await?;
        }
        ensure!(is_secure(&world.account("empty", "", tls)).await? == secure);
        let mut none = world.account("empty", "", tls);
        none.password = None;
        ensure!(is_secure(&none).await? == secure);
        for user in ["locked", "expired"] {
            check_refused(&world.account(user, "x", tls), codes::ACCESS_DENIED, &[user]).await?;
        }
    }
    Ok(())
}

/// MariaDB has no `caching_sha2_password`, and none of its methods has a cache.
#[tokio::test]
async fn case_76_methods_cold_and_warm_mysql_only() -> Result<()> {
    let mut world = world().await;
    world.is("server")?;
    world.server.sql(
        "CREATE USER sha256 IDENTIFIED WITH sha256_password BY 'x';
         GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO sha256",
    )?;
    for tls in [Tls::Disabled, Tls::Required] {
        let secure = tls == Tls::Required;
        // cold: the whole password goes to the server, without TLS under its RSA key; warm: a proof of it does
        for round in ["cold", "warm"] {
            if round == "cold" {
                world.server.sql("FLUSH PRIVILEGES")?;
            }
            ensure!(is_secure(&world.config(tls)).await? == secure, "{round}, {tls}");
        }
        for round in ["cold", "warm"] {
            if round == "cold" {
                world.server.sql("FLUSH PRIVILEGES")?;
            }
            check_refused(
                &world.account("cdc", "wrong", tls),
                codes::ACCESS_DENIED,
                &["\"cdc\"", "CREATE USER"],
            )
            .await?;
        }
        let says = ["\"sha256\"", "sha256_password", "IDENTIFIED WITH caching_sha2_password"];
        check_refused(&world.account("sha256", "x", tls), codes::ACCESS_DENIED, &says).await?;
        let mut hidden = world.account("sha256", "x", tls);
        hidden.secret_user = true;
        let text = check_refused(&hidden, codes::ACCESS_DENIED, &["\"***\""]).await?.to_string();
        ensure!(!text.contains("\"sha256\""), "{text}");
    }
    // longer than what the server's RSA key can hold
    let long = "p".repeat(230);
    world.server.sql(&format!("CREATE USER long_one IDENTIFIED BY '{long}'"))?;
    let error = check_refused(
        &world.account("long_one", &long, Tls::Disabled),
        codes::TLS_FAILED,
        &["tls = required"],
    )
    .await?;
    ensure!(!error.to_string().contains("pp"));
    ensure!(is_secure(&world.account("long_one", &long, Tls::Required)).await?);
    Ok(())
}

#[tokio::test]
async fn case_76_sockets() -> Result<()> {
    let world = world().await;
    world.server.sql("FLUSH PRIVILEGES")?;
    let mut config = Config::new("mysql://db.example:1", "cdc", Some("cdc"), &["c76.t".to_owned()])?;
    config.socket = Some(Named::from(world.server.socket()));
    // a socket is secure by itself: the cold password needs no key, and REQUIRE SSL does not concern it
    ensure!(!is_secure(&config).await?);
    let copy = snapshot(Config { server_id: 7900, ..config.clone() }).await?;
    assert_all_equal(&world.server, &copy).await?;
    let file = world.file("no-socket");
    std::fs::write(&file, "")?;
    for (path, why) in [(&file, "refused"), (&world.file("missing.sock"), "No such file")] {
        config.socket = Some(Named::from(&**path));
        check_refused(&config, codes::CONNECT_FAILED, &[why, &path.display().to_string(), "@@socket"])
            .await?;
    }
    config.socket = Some(Named { path: file, secret: true });
    ensure!(
        !check_refused(&config, codes::CONNECT_FAILED, &["***"]).await?.to_string().contains("no-socket")
    );
    config.socket = Some(Named::from(Path::new(&format!("/{}", "x".repeat(200)))));
    let error = connect(&config).await.err().context("it connected")?;
    ensure!(error.code() == codes::CONNECT_FAILED && !error.is_transient(), "{error}");
    Ok(())
}

#[tokio::test]
async fn case_76_password_from_a_file() -> Result<()> {
    let mut world = world().await;
    world.is("server")?;
    let file = world.file("password");
    let mut config = world.config(Tls::Preferred);
    (config.password, config.password_file) = (None, world.named("password"));
    check_refused(&config, codes::FILE_UNREADABLE, &["password_file"]).await?;
    for text in ["cdc", "cdc\n", "cdc\r\n"] {
        std::fs::write(&file, text)?;
        cipher(&config).await.with_context(|| format!("{text:?}"))?;
    }
    // only one newline is not the password's
    for text in ["cdc\n\n", " cdc", "", "secret"] {
        std::fs::write(&file, text)?;
        let error = check_refused(&config, codes::ACCESS_DENIED, &["\"cdc\""]).await?;
        ensure!(!error.to_string().contains("secret"), "{error}");
    }
    std::fs::write(&file, b"se\xffcret")?;
    let error = check_refused(&config, codes::FILE_NOT_TEXT, &["password_file"]).await?;
    ensure!(!error.to_string().contains("cret"), "{error}");
    Ok(())
}

/// Listens, and gives each connection to `serve`; the thread ends with the process.
fn listen(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream));
        }
    });
    Ok(port)
}

/// A packet of the protocol.
fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_le_bytes();
    [&length[..3], &[number], payload].concat()
}

/// The greeting of a server; with TLS in its offer, or without.
fn greeting(tls: bool) -> Vec<u8> {
    let capabilities: u32 = 0x00ff_f7df | if tls { 0x800 } else { 0 };
    let [a, b, c, d] = capabilities.to_le_bytes();
    let mut payload = b"\x0a9.7.0\0\x01\0\0\x0012345678\0".to_vec();
    payload.extend([a, b, 0xff, 2, 0, c, d, 21]);
    payload.extend([0; 10]);
    payload.extend(b"123456789012\0caching_sha2_password\0");
    packet(0, &payload)
}

/// A server that shows this certificate, and says no more.
fn listen_as(certs: &Certs, name: &str) -> Result<u16> {
    let chain = CertificateDer::pem_file_iter(certs.path(&format!("{name}-cert.pem")))?
        .collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(certs.path(&format!("{name}-key.pem")))?;
    let config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
    let config = Arc::new(config);
    listen(move |mut stream| {
        let _ = stream.write_all(&greeting(true));
        // the request for TLS
        let _ = stream.read_exact(&mut [0; 36]);
        if let Ok(mut session) = rustls::ServerConnection::new(config.clone()) {
            let _ = session.complete_io(&mut stream);
        }
        hold(stream);
    })
}

fn hold(mut stream: TcpStream) {
    // until the client goes
    while stream.read(&mut [0; 1024]).is_ok_and(|n| n > 0) {}
}

#[tokio::test]
async fn case_76_servers_that_do_not_answer() -> Result<()> {
    let quick = |port: u16, tls: Tls| {
        let mut config = config_at(port, &["c76.t"]);
        (config.connect_timeout, config.tls) = (Duration::from_millis(300), tls);
        config
    };
    // at whatever step it falls silent
    let silent = listen(hold)?;
    let after_greeting = listen(|mut stream| {
        let _ = stream.write_all(&greeting(true));
        hold(stream);
    })?;
    for port in [silent, after_greeting] {
        for tls in [Tls::Disabled, Tls::Preferred] {
            let begun = Instant::now();
            check_refused(
                &quick(port, tls),
                codes::CONNECT_FAILED,
                &["did not answer within 300ms", "127.0.0.1"],
            )
            .await?;
            ensure!(begun.elapsed() < Duration::from_secs(2));
        }
    }
    let mut hidden = quick(silent, Tls::Disabled);
    hidden.secret_place = true;
    ensure!(
        !check_refused(&hidden, codes::CONNECT_FAILED, &["***"]).await?.to_string().contains("127.0.0.1")
    );
    // a port where nobody listens
    let mut config = config_at(1, &["c76.t"]);
    check_refused(&config, codes::CONNECT_FAILED, &["127.0.0.1:1", "refused"]).await?;
    config.secret_place = true;
    let text = check_refused(&config, codes::CONNECT_FAILED, &["***", "refused"]).await?.to_string();
    ensure!(!text.contains("127.0.0.1"), "{text}");
    // a host that nobody knows
    let mut config = config_at(3306, &["c76.t"]);
    config.host = "no-such-host.invalid".to_owned();
    check_refused(&config, codes::CONNECT_FAILED, &["no-such-host.invalid:3306"]).await?;
    config.secret_place = true;
    let text = check_refused(&config, codes::CONNECT_FAILED, &["***"]).await?.to_string();
    ensure!(!text.contains("no-such-host"), "{text}");
    Ok(())
}

#[tokio::test]
async fn case_76_servers_that_are_none() -> Result<()> {
    let answers: [&'static [u8]; 5] = [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x05\0\0\0\x0a9.7",
        b"\x01\0\0\0\xff",
    ];
    for answer in answers {
        let port = listen(move |mut stream| {
            let _ = stream.write_all(answer);
        })?;
        let mut config = config_at(port, &["c76.t"]);
        config.connect_timeout = Duration::from_secs(2);
        check_refused(&config, codes::CONNECT_FAILED, &["127.0.0.1"]).await?;
    }
    // no TLS where it was offered
    let port = listen(|mut stream| {
        let _ = stream.write_all(&greeting(true));
        let _ = stream.read(&mut [0; 36]);
        let _ = stream.write_all(b"this is no handshake of TLS");
        hold(stream);
    })?;
    check_refused(&config_at(port, &["c76.t"]), codes::TLS_FAILED, &["127.0.0.1"]).await?;
    // an RSA key that is none, on which the library panics
    for key in [&b"\x01no key"[..], b""] {
        let port = listen(move |mut stream| {
            let _ = stream.write_all(&greeting(false));
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(&packet(2, b"\x01\x04"));
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(&packet(4, key));
            hold(stream);
        })?;
        check_refused(&config_at(port, &["c76.t"]), codes::TLS_FAILED, &["tls = required"]).await?;
    }
    Ok(())
}
