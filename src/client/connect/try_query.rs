//! A quick query of the running daemon, for completion: it must not delay typing.

use std::time::Duration;

use serde::de::DeserializeOwned;

use super::{HelloReply, SocketProbe, greet_as, probe};
use crate::error::{ErrorContext, Result};
use crate::paths::Paths;
use crate::protocol::{self, Hello, Request, RequestFailure, kind};

/// How long an answer may take while the user waits for a completion.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Queries the running daemon. Returns `None` if no daemon is running or it does not answer in time.
///
/// # Errors
/// The socket directory is not safe, or the request fails.
pub fn try_query<T: DeserializeOwned>(paths: &Paths, request: &Request) -> Result<Option<T>> {
    let SocketProbe::Connected(stream, pid) = probe(paths)? else {
        return Ok(None);
    };
    let hello = Hello {
        read_only: true,
        ..Hello::current()
    };
    let Ok(HelloReply::Served(mut connection)) =
        greet_as(&hello, stream, pid, Some(request), TIMEOUT)
    else {
        return Ok(None);
    };
    let set = connection.stream.set_read_timeout(Some(TIMEOUT));
    set.context(|| "cannot set up the socket".into())?;
    match connection.read() {
        Ok(Some((kind::REPLY, body))) => protocol::parse(&body).map(Some),
        Ok(Some((kind::FAILURE, body))) => Err(protocol::parse::<RequestFailure>(&body)?.into()),
        _ => Ok(None),
    }
}
