//! Secure connections: rustls under the client library.
//!
//! `preferred` and `required` encrypt and verify nobody, as with the server's own clients. `verify-ca` accepts a
//! certificate of another host if an authority in `tls_ca` has signed it; `verify-identity` does not. With `tls_cert` and
//! `tls_key` the server is shown who we are.

use super::conn::read;
use super::options::{PostgresOptions, Tls};
use cdc_core::{Error, Result, codes};
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

type RustlsError = tokio_rustls::rustls::Error;

/// What the library is told; nothing where TLS is not asked for.
///
/// # Errors
/// `FILE_UNREADABLE`, `TLS_FAILED`, each naming the option and the file.
pub(crate) fn connector(options: &PostgresOptions) -> Result<Option<Connector>> {
    if options.tls == Tls::Disabled || options.socket.is_some() {
        return Ok(None);
    }
    let provider = Arc::new(ring::default_provider());
    let failed = |why: String| Error::definite(codes::TLS_FAILED, format!("TLS cannot be set up: {why}"));
    let authorities = match &options.tls_ca {
        Some(path) => Some(authorities(path, &provider)?),
        None => None,
    };
    let verifier = Arc::new(Verifier {
        provider: provider.clone(),
        authorities,
        any_host: options.tls == Tls::VerifyCa,
    });
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| failed(e.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let config = match (&options.tls_cert, &options.tls_key) {
        (Some(cert), Some(key)) => {
            let (chain, private) = identity(cert, key)?;
            config.with_client_auth_cert(chain, private).map_err(|e| match e {
                RustlsError::InconsistentKeys(_) => {
                    unusable(key, "tls_key", "it is not the key of the certificate")
                        .help(format!("the certificate is in {}", cert.display()))
                }
                other => unusable(cert, "tls_cert", &other.to_string()),
            })?
        }
        _ => config.with_no_client_auth(),
    };
    Ok(Some(Connector(Arc::new(config))))
}

fn unusable(path: &Path, option: &str, why: &str) -> Error {
    Error::definite(
        codes::TLS_FAILED,
        format!("file \"{}\" of option \"{option}\" cannot be used: {why}", path.display()),
    )
}

/// A client's certificate, with those that lead to its authority behind it, and its private key.
fn identity(cert: &Path, key: &Path) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    let chain: std::result::Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(&read(cert, "tls_cert")?).collect();
    let help = "it is a PEM file: -----BEGIN CERTIFICATE-----, ..";
    let chain = chain.map_err(|e| unusable(cert, "tls_cert", &e.to_string()).help(help))?;
    if chain.is_empty() {
        return Err(unusable(cert, "tls_cert", "it holds no certificate").help(help));
    }
    let private = PrivateKeyDer::from_pem_slice(&read(key, "tls_key")?).map_err(|e| {
        unusable(key, "tls_key", &e.to_string()).help(
            "it is a PEM file with one private key, without a pass phrase: -----BEGIN PRIVATE KEY-----, ..",
        )
    })?;
    Ok((chain, private))
}

fn authorities(path: &Path, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>> {
    let unusable = |why: String| {
        unusable(path, "tls_ca", &why).help("it is a PEM file of the authority that signed the server's certificate: -----BEGIN CERTIFICATE-----, ..")
    };
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&read(path, "tls_ca")?) {
        let certificate = certificate.map_err(|e| unusable(e.to_string()))?;
        store.add(certificate).map_err(|e| unusable(e.to_string()))?;
    }
    if store.is_empty() {
        return Err(unusable("it holds no certificate".to_owned()));
    }
    WebPkiServerVerifier::builder_with_provider(store.into(), provider.clone())
        .build()
        .map_err(|e| unusable(e.to_string()))
}

/// Decides whether a server is who it says.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// Nobody is verified without.
    authorities: Option<Arc<WebPkiServerVerifier>>,
    any_host: bool,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, RustlsError> {
        let Some(authorities) = &self.authorities else { return Ok(ServerCertVerified::assertion()) };
        let verified =
            authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // the name is looked at last: everything else is right
            Err(RustlsError::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.any_host => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, RustlsError> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, RustlsError> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Makes connections secure.
#[derive(Clone)]
pub(crate) struct Connector(Arc<ClientConfig>);

impl<S> MakeTlsConnect<S> for Connector
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Secured<S>;
    type TlsConnect = To;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<To> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        Ok(To { config: self.0.clone(), name })
    }
}

/// A handshake with this host.
pub(crate) struct To {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl<S> TlsConnect<S> for To
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Secured<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Secured<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        let connecting = TlsConnector::from(self.config).connect(self.name, stream);
        Box::pin(async move { connecting.await.map(|stream| Secured(Box::new(stream))) })
    }
}

/// A connection inside TLS.
pub(crate) struct Secured<S>(Box<TlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Secured<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.get_mut().0).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Secured<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.get_mut().0).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.get_mut().0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.get_mut().0).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> tokio_postgres::tls::TlsStream for Secured<S> {
    /// None: it would need the hash that the certificate's signature names, and rustls does not tell it. The server
    /// asks for it only where a login insists on it.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}
