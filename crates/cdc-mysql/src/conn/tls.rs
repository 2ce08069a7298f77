//! Secure connections: from the options and their files to what the library takes, and what its errors mean.
//!
//! The files are read and looked at here, for each connection: the library would say "no such file" without
//! a name, and only after the server had been asked. A file that was put right, or a certificate that was
//! renewed, counts from the next connection on.

use crate::config::{Config, Named, Tls};
use cdc_core::{Error, Result, codes};
use mysql_async::{ClientIdentity, IoError, SslOpts};
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{AlertDescription, CertificateError, InconsistentKeys, RootCertStore};
use std::fs::File;
use std::io::Read;
use std::sync::Once;

/// The host under which `verify-ca` asks. The library leaves a wrong name in a certificate be if the error's text
/// holds "NotValidForName", and since rustls 0.23.20 it does not (mysql_async issue 404); but the text names the
/// host that was asked for. Any other failure of a certificate names no host, so it stays one. No host is named
/// like this: `.invalid` is reserved (RFC 2606).
const ANY_HOST: &str = "NotValidForName.invalid";

/// What no certificate, key or password is larger than.
const MOST_BYTES: u64 = 1 << 20;

/// What the library is told, or nothing where TLS is not asked for.
///
/// # Errors
/// `FILE_UNREADABLE`, `TLS_FAILED`, each naming the option and the file.
pub(super) fn options(config: &Config) -> Result<Option<SslOpts>> {
    if config.tls == Tls::Disabled || config.socket.is_some() {
        return Ok(None);
    }
    // else a second provider that some other crate builds in would leave the choice open, and that is a panic
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // the program has chosen another, which will do
        let _ = ring::default_provider().install_default();
    });
    let mut options = SslOpts::default();
    if let Some(file) = &config.tls_ca {
        let text = read(file, "tls_ca")?;
        ensure_authorities(&text, file)?;
        options = options.with_root_certs(vec![text.into()]).with_disable_built_in_roots(true);
    }
    if let (Some(cert), Some(key)) = (&config.tls_cert, &config.tls_key) {
        let (cert_text, key_text) = (read(cert, "tls_cert")?, read(key, "tls_key")?);
        ensure_identity((&cert_text, cert), (&key_text, key))?;
        options = options.with_client_identity(Some(ClientIdentity::new(cert_text.into(), key_text.into())));
    }
    Ok(Some(match config.tls {
        Tls::Disabled | Tls::Preferred | Tls::Required => options.with_danger_accept_invalid_certs(true),
        Tls::VerifyCa => {
            options.with_danger_skip_domain_validation(true).with_danger_tls_hostname_override(Some(ANY_HOST))
        }
        Tls::VerifyIdentity => options,
    }))
}

/// A small file. Only a regular one: it is read for every connection, and a pipe has nothing the second time.
pub(super) fn read(file: &Named, option: &str) -> Result<Vec<u8>> {
    let unreadable = |why: &str| {
        Error::definite(
            codes::FILE_UNREADABLE,
            format!("file {file} of option \"{option}\" cannot be read: {why}"),
        )
        .help("relative paths are from the folder of the pipeline file")
    };
    // before it is opened: to open a pipe that nobody writes to would wait
    match std::fs::metadata(&file.path) {
        Err(error) => return Err(unreadable(&error.to_string())),
        Ok(meta) if !meta.is_file() => return Err(unreadable("it is no regular file")),
        Ok(meta) if meta.len() > MOST_BYTES => return Err(unreadable("it is larger than 1 MB")),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    File::open(&file.path)
        .and_then(|opened| opened.take(MOST_BYTES).read_to_end(&mut bytes))
        .map_err(|error| unreadable(&error.to_string()))?;
    Ok(bytes)
}

fn unusable(file: &Named, option: &str, why: &str) -> Error {
    Error::definite(codes::TLS_FAILED, format!("file {file} of option \"{option}\" cannot be used: {why}"))
}

fn certificates(text: &[u8], file: &Named, option: &str) -> Result<Vec<CertificateDer<'static>>> {
    let help = "it is a PEM file: -----BEGIN CERTIFICATE-----, ..";
    let found: Vec<_> = CertificateDer::pem_slice_iter(text)
        .collect::<Result<_, _>>()
        .map_err(|e: pem::Error| unusable(file, option, &e.to_string()).help(help))?;
    if found.is_empty() {
        return Err(unusable(file, option, "it holds no certificate").help(help));
    }
    Ok(found)
}

fn ensure_authorities(text: &[u8], file: &Named) -> Result<()> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(text, file, "tls_ca")? {
        store.add(certificate).map_err(|e| {
            unusable(file, "tls_ca", &e.to_string())
                .help("it is the certificate of the authority that signed the server's")
        })?;
    }
    Ok(())
}

fn ensure_identity(cert: (&[u8], &Named), key: (&[u8], &Named)) -> Result<()> {
    let chain = certificates(cert.0, cert.1, "tls_cert")?;
    let private = PrivateKeyDer::from_pem_slice(key.0).map_err(|e| {
        let why = match e {
            pem::Error::NoItemsFound => "it holds no private key, or one under a pass phrase".to_owned(),
            other => other.to_string(),
        };
        unusable(key.1, "tls_key", &why)
            .help("openssl pkey -in KEY -out KEY.pem writes it as PEM without a pass phrase")
    })?;
    match CertifiedKey::from_der(chain, private, &ring::default_provider()) {
        Ok(_) => Ok(()),
        Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err(unusable(key.1, "tls_key", &format!("it is not the key of the certificate in {}", cert.1))
                .help("give the source the key with which the certificate was asked for"))
        }
        Err(rustls::Error::InvalidCertificate(why)) => Err(unusable(cert.1, "tls_cert", &why.to_string())
            .help("it begins with the client's own certificate")),
        Err(other) => {
            Err(unusable(key.1, "tls_key", &other.to_string())
                .help("RSA, ECDSA and Ed25519 keys can be used"))
        }
    }
}

/// The server does not offer TLS.
pub(super) fn not_offered(place: &str, tls: Tls) -> Error {
    Error::definite(codes::TLS_FAILED, format!("server at {place} offers no TLS, and tls = {tls} needs it"))
        .help("give the server a certificate (ssl_ca, ssl_cert, ssl_key in its my.cnf), or write tls = preferred where nobody else is on the way")
}

/// The server refuses connections without TLS.
pub(super) fn needed(place: &str, tls: Tls) -> Error {
    Error::definite(
        codes::TLS_FAILED,
        format!("server at {place} refuses connections without TLS, and tls = {tls} makes one"),
    )
    .help("write tls = verify-identity with tls_ca, or at least tls = required")
}

/// If TLS failed: why.
pub(super) fn failed(error: &mysql_async::Error, config: &Config, place: &str) -> Option<Error> {
    let failed = |why: String| {
        Error::definite(codes::TLS_FAILED, format!("secure connection to {place} failed: {why}"))
    };
    let error = match error {
        mysql_async::Error::Io(IoError::Io(io)) => io.get_ref()?.downcast_ref::<rustls::Error>()?,
        // of the options, which were looked at; what is left is a host that cannot stand in a certificate
        mysql_async::Error::Io(IoError::Tls(other)) => {
            let why = if config.secret_place { "the host is no name".to_owned() } else { other.to_string() };
            return Some(failed(why).help("url names the server's host as it stands in its certificate"));
        }
        _ => return None,
    };
    Some(match error {
        rustls::Error::InvalidCertificate(why) => certificate_refused(why, config, &failed),
        rustls::Error::AlertReceived(alert) => {
            let error = failed(format!("the server ends it with \"{alert:?}\""));
            match alert {
                AlertDescription::UnknownCA
                | AlertDescription::BadCertificate
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::DecryptError
                    if config.tls_cert.is_some() =>
                {
                    error.help("the authority that signed tls_cert must be in the server's ssl_ca, and the certificate must be valid today")
                }
                _ => error.help("see the server's tls_version and tls_ciphersuites; TLS 1.2 and 1.3 are built"),
            }
        }
        other => failed(other.to_string()).help(
            "see SHOW GLOBAL VARIABLES LIKE 'tls%' and 'ssl%', or write tls = disabled where nobody else is on the way",
        ),
    })
}

fn certificate_refused(why: &CertificateError, config: &Config, failed: &dyn Fn(String) -> Error) -> Error {
    let of_host = |names: &[String]| {
        let error = if config.secret_place {
            failed("the server's certificate is not of the host in url".to_owned())
        } else if names.is_empty() {
            failed(format!("the server's certificate names no host, and url names \"{}\"", config.host))
        } else {
            let names: Vec<_> = names.iter().map(|name| format!("\"{}\"", host_of(name))).collect();
            failed(format!(
                "the server's certificate is of {}, and url names \"{}\"",
                names.join(", "),
                config.host
            ))
        };
        error.help(
            "write in url a name that stands in the certificate, or tls = verify-ca where it names none",
        )
    };
    let authority = match &config.tls_ca {
        Some(file) => format!("an authority in {file}"),
        None => "a public authority".to_owned(),
    };
    match why {
        CertificateError::NotValidForName => of_host(&[]),
        CertificateError::NotValidForNameContext { presented, .. } => of_host(presented),
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            failed(format!("the server's certificate is not signed by {authority}"))
                .help("tls_ca names the authority that signed it: see SHOW GLOBAL VARIABLES LIKE 'ssl_ca' at the server")
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            failed("the server's certificate has expired".to_owned())
                .help("renew it at the server, then ALTER INSTANCE RELOAD TLS (MariaDB: FLUSH SSL)")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            failed("the server's certificate is not valid yet".to_owned())
                .help("see that the clocks of both machines are right")
        }
        other => failed(format!("the server's certificate cannot be used: {other}"))
            .help("give the server a certificate of version 3 that is signed by an authority of its own, and that authority to tls_ca"),
    }
}

/// rustls gives names as `DnsName("db.example")` or `IpAddress(10.0.0.1)`.
fn host_of(presented: &str) -> &str {
    let inner = presented.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.map_or(presented, |name| name.trim_matches('"'))
}
