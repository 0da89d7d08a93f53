//! A look at the running daemon while a person types: it must not be felt.

use std::time::Duration;

use serde::de::DeserializeOwned;

use super::{Greeting, Probe, greet_as, probe};
use crate::error::{Context, Result};
use crate::paths::Paths;
use crate::protocol::{self, Failure, Hello, Request, kind};

/// How long an answer may take that a person waits for with Tab.
const GLANCE: Duration = Duration::from_millis(500);

/// Asks one thing of the running daemon while a person types: `None` where there is none, or no answer soon.
///
/// # Errors
/// The socket directory is not safe, or the request fails.
pub fn glance<T: DeserializeOwned>(paths: &Paths, request: &Request) -> Result<Option<T>> {
    let Probe::Ready(stream, pid) = probe(paths)? else {
        return Ok(None);
    };
    let hello = Hello {
        read_only: true,
        ..Hello::ours()
    };
    let Ok(Greeting::Served(mut connection)) = greet_as(&hello, stream, pid, Some(request), GLANCE)
    else {
        return Ok(None);
    };
    let set = connection.stream.set_read_timeout(Some(GLANCE));
    set.context(|| "cannot set up the socket".into())?;
    match connection.read() {
        Ok(Some((kind::REPLY, body))) => protocol::parse(&body).map(Some),
        Ok(Some((kind::FAILURE, body))) => Err(protocol::parse::<Failure>(&body)?.into()),
        _ => Ok(None),
    }
}
