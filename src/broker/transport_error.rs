//! Errors below HTTP, as one line for the user.

use std::error::Error as StdError;
use std::io;

use reqwest::Url;

use super::endpoint::authority;
use super::http1;
use crate::error::Error;

/// An error of the connection to a provider.
#[derive(Debug)]
pub enum TransportError {
    /// From reqwest.
    Network(reqwest::Error),
    /// From the client for plain HTTP to this machine.
    Loopback(http1::Http1Error),
}

impl TransportError {
    /// Returns one line for the user; `url` is the address of the request.
    pub fn error(&self, url: &Url) -> Error {
        match self {
            TransportError::Network(error) => network(url, error),
            TransportError::Loopback(http1::Http1Error::Connect(e)) => {
                no_connection(url, io_words(e))
            }
            TransportError::Loopback(http1::Http1Error::Exchange(e)) => broken(url, &io_words(e)),
        }
    }
}

/// Whether the server closed an idle connection just when it was used again. The server has not seen the request, so
/// the request may be repeated.
pub fn closed_while_idle(error: &reqwest::Error) -> bool {
    !error.is_connect()
        && causes(error).any(|e| {
            let text = e.to_string();
            text.contains("connection closed before message completed")
                || io_kind(e) == Some(io::ErrorKind::ConnectionReset)
        })
}

fn network(url: &Url, error: &reqwest::Error) -> Error {
    let at = authority(url);
    if let Some(tls) = causes(error).find_map(tls_error) {
        let reason = match tls {
            rustls::Error::InvalidMessage(_) => {
                return Error::runtime(format!("{at} does not speak TLS")).hint(
                    "if the server speaks plain HTTP, base_url begins with http://, not https://",
                );
            }
            rustls::Error::InvalidCertificate(fault) => match fault_words(fault) {
                Some((words, hint)) => {
                    let message = format!("no secure connection to {at}: {words}");
                    return Error::runtime(message).hint(hint);
                }
                None => format!("its certificate is not trusted: {fault:?}"),
            },
            other => other.to_string(),
        };
        return Error::runtime(format!("no secure connection to {at}: {reason}")).hint(
            "a private certificate authority belongs in the system's certificates, or in SSL_CERT_FILE; the daemon takes a new value when it is restarted: aish-helper restart",
        );
    }
    if causes(error).any(|e| e.to_string().starts_with("dns error")) {
        let host = url.host_str().unwrap_or("?");
        return Error::runtime(format!("cannot find the host {host}"))
            .hint("check base_url in the configuration, and whether the network is up");
    }
    let last = causes(error)
        .last()
        .map_or_else(|| "no reason given".to_owned(), ToString::to_string);
    if error.is_connect() {
        return no_connection(
            url,
            match causes(error).find_map(io_kind) {
                _ if error.is_timeout() => io_words(&io::ErrorKind::TimedOut.into()),
                Some(io::ErrorKind::ConnectionRefused) => {
                    io_words(&io::ErrorKind::ConnectionRefused.into())
                }
                _ => last,
            },
        );
    }
    broken(url, &last)
}

/// Returns what is wrong with a certificate, in words, and what to do; `None` for what trust alone would mend.
fn fault_words(fault: &rustls::CertificateError) -> Option<(&'static str, &'static str)> {
    use rustls::CertificateError as Fault;
    match fault {
        Fault::NotValidForName | Fault::NotValidForNameContext { .. } => Some((
            "its certificate is for another name",
            "use a name that is in the certificate",
        )),
        Fault::Expired | Fault::ExpiredContext { .. } => {
            Some(("its certificate has expired", "renew it there"))
        }
        Fault::NotValidYet | Fault::NotValidYetContext { .. } => Some((
            "its certificate is not valid yet",
            "check the clocks of both machines",
        )),
        Fault::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => Some((
            "its certificate is that of an authority",
            "it needs one for a server: with openssl req -x509 add -addext basicConstraints=CA:FALSE",
        )),
        _ => None,
    }
}

fn no_connection(url: &Url, reason: String) -> Error {
    Error::runtime(format!("cannot connect to {}: {reason}", authority(url)))
        .hint("check that the server runs and that base_url is right")
}

fn broken(url: &Url, reason: &str) -> Error {
    Error::runtime(format!(
        "the connection to {} broke: {reason}",
        authority(url)
    ))
    .hint("try again; if it stays so, look at the server's log")
}

/// Formats an IO error without its number.
fn io_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset".to_owned(),
        io::ErrorKind::TimedOut => "no answer in time".to_owned(),
        _ => error.to_string(),
    }
}

/// The error and its causes, from the outside in.
fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    std::iter::from_fn(move || {
        let cause = next?;
        next = cause.source();
        Some(cause)
    })
}

/// The innermost error inside nested IO errors, whose `source` skips the error that they wrap.
fn innermost<'a>(mut error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    while let Some(inner) = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref)
    {
        error = inner;
    }
    error
}

fn io_kind(error: &(dyn StdError + 'static)) -> Option<io::ErrorKind> {
    innermost(error).downcast_ref().map(io::Error::kind)
}

fn tls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    innermost(error).downcast_ref()
}
