//! TLS server with an untrusted certificate: self-signed for `localhost` and 127.0.0.1, created with
//! `openssl req -x509`, valid for a hundred years.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;

use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection};

const CERTIFICATE: &[u8] = include_bytes!("tls/cert.der");
const KEY: &[u8] = include_bytes!("tls/key.der");

/// Accepts one connection and starts the handshake. Returns the address.
pub fn self_signed() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    let config =
        ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from(CERTIFICATE)],
                PrivatePkcs8KeyDer::from(KEY).into(),
            )
            .unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut tls = ServerConnection::new(Arc::new(config)).unwrap();
        // The client aborts the handshake, as the test expects.
        while tls.is_handshaking() && tls.complete_io(&mut stream).is_ok() {}
    });
    addr
}
