//! TLS for the server: without it nothing but this machine may connect.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::error::{Error, ErrorContext, Result};

/// Maximum size of a file with certificates or a key, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Reads a certificate with its chain, and its key, both in PEM files.
///
/// # Errors
/// A file cannot be read or has something else, others can read the key, or it does not belong to the certificate.
pub fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor> {
    let chain: std::result::Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(&read(certificate)?).collect();
    let chain = chain.unwrap_or_default();
    if chain.is_empty() {
        return Err(wrong(certificate, "has no certificate in PEM form"));
    }
    let mode = fs::metadata(key).map(|meta| meta.permissions().mode());
    if mode.is_ok_and(|mode| mode & 0o007 != 0) {
        return Err(wrong(key, "can be read by other users").hint("chmod 600 makes it private"));
    }
    // An error of the parser could quote the key.
    let private = PrivateKeyDer::from_pem_slice(&read(key)?)
        .map_err(|_| wrong(key, "has no private key in PEM form"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_no_client_auth())
        .and_then(|builder| builder.with_single_cert(chain, private));
    let mut config =
        config.map_err(|e| wrong(key, &format!("does not match the certificate: {e}")))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn wrong(path: &Path, what: &str) -> Error {
    Error::config(format!("{} {what}", path.display()))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes));
    read.context(|| format!("cannot read {}", path.display()))?;
    Ok(bytes)
}
