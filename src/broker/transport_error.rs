//! Errors below HTTP, as one line for the user.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use reqwest::Url;

use super::endpoint::authority;
use super::{http1, retry};
use crate::error::Error;
use crate::http_client::tls_failure::{TlsFailure, causes, innermost, tls_failure};

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
            // Some servers end idle connections without the message that closes TLS, which rustls reports in an error of IO.
            let kind = e.downcast_ref().map(io::Error::kind);
            text.contains("connection closed before message completed")
                || io_kind(e) == Some(io::ErrorKind::ConnectionReset)
                || kind == Some(io::ErrorKind::UnexpectedEof)
        })
}

fn network(url: &Url, error: &reqwest::Error) -> Error {
    let at = authority(url);
    match tls_failure(error) {
        None => {}
        Some(TlsFailure::NotSpoken) => {
            return Error::runtime(format!("{at} does not speak TLS")).hint(
                "if the server speaks plain HTTP, base_url begins with http://, not https://",
            );
        }
        Some(TlsFailure::Refused { reason, hint }) => {
            return Error::runtime(format!("no secure connection to {at}: {reason}")).hint(hint);
        }
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

fn no_connection(url: &Url, reason: String) -> Error {
    Error::runtime(format!("cannot connect to {}: {reason}", authority(url)))
        .hint("check that the server runs and that base_url is right")
}

fn broken(url: &Url, reason: &str) -> Error {
    Error::runtime(format!(
        "the connection to {} broke: {reason}",
        authority(url)
    ))
    .hint("try again; if the problem persists, see the server's log")
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

fn io_kind(error: &(dyn StdError + 'static)) -> Option<io::ErrorKind> {
    innermost(error).downcast_ref().map(io::Error::kind)
}

/// Returns the error for a server that sent nothing for `timeout`.
pub fn silence_error(url: &Url, timeout: Duration) -> Error {
    let (at, time) = (authority(url), retry::readable(timeout));
    Error::runtime(format!("{at} has been silent for {time}")).hint(
        "the server may be overloaded or loading the model; `timeout` of the model sets how long to wait",
    )
}
