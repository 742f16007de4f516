//! TLS 1.3 with a certificate that nobody signed: whoever connects knows its fingerprint from the
//! rendezvous file, so there are no names and no authorities.

use super::key::{BYTES, Bytes, Fingerprint};
use forebay_types::{Code, Error, Result};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring as provider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct, ServerConfig,
    ServerConnection, SignatureScheme,
};
use std::sync::{Arc, OnceLock};

/// What a connection's keys give to a proof that is bound to it.
const CHANNEL: &[u8] = b"EXPORTER-forebay-channel";

/// A certificate made here, its key in the memory of this process only.
pub(crate) struct Identity {
    pub config: Arc<ServerConfig>,
    pub fingerprint: Fingerprint,
}

/// Accepts the certificates of those fingerprints.
#[derive(Debug)]
struct Pinned {
    known: Vec<Fingerprint>,
    algorithms: WebPkiSupportedAlgorithms,
    seen: Arc<OnceLock<Fingerprint>>,
}

fn ours() -> Arc<CryptoProvider> {
    Arc::new(provider::default_provider())
}

fn internal(e: impl std::fmt::Display) -> Error {
    Error::internal(format!("TLS cannot be set up: {e}"))
}

impl Identity {
    /// A new one.
    pub fn new() -> Result<Identity> {
        let made = rcgen::generate_simple_self_signed(vec!["forebay".to_owned()]).map_err(internal)?;
        let certificate = made.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let fingerprint = Fingerprint::of(&certificate);
        let mut config = ServerConfig::builder_with_provider(ours())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(internal)?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key.into())
            .map_err(internal)?;
        // Every connection proves itself anew; a ticket would only be one more thing to steal.
        config.send_tls13_tickets = 0;
        Ok(Identity { config: Arc::new(config), fingerprint })
    }
}

/// The accepting side of a connection.
pub(crate) fn accepting(config: &Arc<ServerConfig>) -> Result<Connection> {
    ServerConnection::new(config.clone()).map(Connection::from).map_err(internal)
}

/// The connecting side, which takes those certificates; `seen` learns which one was shown.
pub(crate) fn connecting(known: Vec<Fingerprint>, seen: Arc<OnceLock<Fingerprint>>) -> Result<Connection> {
    let provider = ours();
    let algorithms = provider.signature_verification_algorithms;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(internal)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned { known, algorithms, seen }))
        .with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    config.enable_sni = false;
    let name = ServerName::try_from("forebay").map_err(internal)?;
    ClientConnection::new(Arc::new(config), name).map(Connection::from).map_err(internal)
}

/// A number that both ends of this TLS connection know and nobody else.
pub(crate) fn channel(connection: &Connection) -> Result<Bytes> {
    let out = [0; BYTES];
    match connection {
        Connection::Client(c) => c.export_keying_material(out, CHANNEL, None),
        Connection::Server(c) => c.export_keying_material(out, CHANNEL, None),
    }
    .map_err(internal)
}

/// What a failure of TLS means to the user.
pub(crate) fn explain(e: &rustls::Error, seen: Option<&Fingerprint>) -> Error {
    match (e, seen) {
        (rustls::Error::InvalidCertificate(_), Some(seen)) => Error::new(
            Code::Refused,
            format!(
                "the certificate of the other side ({seen}) is in no rendezvous file of this user's Forebay home: \
                 it is not the agent meant, or began anew; copy its HOST.json here again"
            ),
        ),
        (rustls::Error::InvalidMessage(_), _) => Error::new(
            Code::Refused,
            "the other side speaks no TLS where it is due: it is no Forebay, or its rendezvous file is an old one",
        ),
        _ => Error::new(Code::Refused, format!("TLS failed: {e}")),
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let seen = Fingerprint::of(certificate);
        let _ = self.seen.set(seen);
        match self.known.contains(&seen) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 is not spoken here".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
