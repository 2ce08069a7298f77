//! Certificates for tests: an authority, certificates of a server and of a client, and some that are wrong.
//!
//! MySQL's own have no names and no extensions, so a strict client refuses them; these are as they should be.
//!
//! ```no_run
//! use cdc_testkit::certs::Certs;
//! use cdc_testkit::servers::{Server, ServerOptions};
//!
//! # fn main() -> anyhow::Result<()> {
//! let folder = std::env::temp_dir().join("certs");
//! let certs = Certs::make(&folder)?;
//! let server = Server::start(certs.server_options(ServerOptions::default()))?;
//! # Ok(())
//! # }
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};

use crate::servers::ServerOptions;

/// A folder with `ca.pem`, `server-cert.pem`, `server-key.pem`, `client-cert.pem`, `client-key.pem`.
#[derive(Debug)]
pub struct Certs {
    folder: PathBuf,
    authority: Issuer<'static, KeyPair>,
}

impl Certs {
    /// Makes the folder and all of its files anew. The server is `127.0.0.1`, `::1` and `localhost`.
    pub fn make(folder: impl Into<PathBuf>) -> Result<Certs> {
        let folder = folder.into();
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let mut params = named("test ca", &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        fs::write(folder.join("ca.pem"), params.self_signed(&key)?.pem())?;
        let certs = Certs { folder, authority: Issuer::new(params, key) };
        certs.server("server", &["127.0.0.1", "::1", "localhost"])?;
        certs.client("client", false)?;
        Ok(certs)
    }

    /// A server's certificate for these hosts (addresses or names): `NAME-cert.pem`, `NAME-key.pem`.
    pub fn server(&self, name: &str, hosts: &[&str]) -> Result<()> {
        let mut params = named(name, hosts)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(name, params)
    }

    /// A server's certificate for 127.0.0.1 that was valid until 2020.
    pub fn expired_server(&self, name: &str) -> Result<()> {
        let mut params = named(name, &["127.0.0.1"])?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.not_before = date_time_ymd(2019, 1, 1);
        params.not_after = date_time_ymd(2020, 1, 1);
        self.sign(name, params)
    }

    /// A client's certificate, perhaps one that was valid until 2020: `NAME-cert.pem`, `NAME-key.pem`.
    pub fn client(&self, name: &str, expired: bool) -> Result<()> {
        let mut params = named(name, &["client"])?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if expired {
            params.not_before = date_time_ymd(2019, 1, 1);
            params.not_after = date_time_ymd(2020, 1, 1);
        }
        self.sign(name, params)
    }

    fn sign(&self, name: &str, mut params: CertificateParams) -> Result<()> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let cert = params.signed_by(&key, &self.authority)?;
        fs::write(self.path(&format!("{name}-cert.pem")), cert.pem())?;
        fs::write(self.path(&format!("{name}-key.pem")), key.serialize_pem())?;
        Ok(())
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A file in it.
    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// The options of a server that is `server-cert.pem` and lets `ca.pem`'s clients in.
    pub fn server_options(&self, options: ServerOptions) -> ServerOptions {
        self.server_options_as("server", options)
    }

    /// The options of a server that is `NAME-cert.pem`.
    pub fn server_options_as(&self, name: &str, options: ServerOptions) -> ServerOptions {
        let option = |option: &str, file: String| format!("--{option}={}", self.path(&file).display());
        options
            .with(option("ssl-ca", "ca.pem".to_owned()))
            .with(option("ssl-cert", format!("{name}-cert.pem")))
            .with(option("ssl-key", format!("{name}-key.pem")))
    }
}

fn named(name: &str, hosts: &[&str]) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(hosts.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}
