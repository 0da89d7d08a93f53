//! The HTTP API and the page: they watch the sessions and make requests, as clients of the socket do.
//!
//! Nothing listens until `aish-helper serve`, `aish-helper web` or `[server] enabled` says so. [`ApiServer`] starts and stops
//! the listeners, `guard` decides who is served, [`routes`] has the operations, `stream` the events. `docs/api.md` describes
//! the API for its users.

mod credentials;
mod cursor;
mod event_order;
mod events;
mod exact_json;
mod extract;
mod file_body;
mod global_stream;
mod guard;
mod listener;
mod own_headers;
mod pages;
mod pairing;
mod problem;
mod proposals;
mod question;
mod recordings;
mod request_body;
pub mod routes;
mod searched_text;
mod server;
mod stream;
mod tls;
mod types;
mod wire;

use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::services::SharedServices;
use credentials::Credentials;

pub use credentials::{kept_tokens, token, token_file};
pub use listener::PeerCheck;
pub use pairing::PairingId;
pub use server::{ApiServer, ListenAddress, check_certificate};

/// Maximum number of event streams at a time.
const MAX_STREAMS: usize = 160;

/// What the handlers share.
#[derive(Debug, Clone)]
pub struct ApiState(Arc<ApiParts>);

/// See [`ApiState`].
#[derive(Debug)]
pub struct ApiParts {
    services: Arc<SharedServices>,
    credentials: Credentials,
    /// Origins whose pages may use the API.
    cors: Vec<String>,
    /// Refused answers to questions: since when they are counted, and how many.
    refusals: Mutex<Option<(Instant, u32)>>,
    /// Free places for event streams.
    streams: Arc<Semaphore>,
    /// The redacted form of a recording.
    last_cast: recordings::LastCast,
    searched_texts: searched_text::SearchedTexts,
    /// Cancelled when the server stops.
    end: CancellationToken,
    /// Cancelled when all work must end.
    cancel: CancellationToken,
}

impl Deref for ApiState {
    type Target = ApiParts;

    fn deref(&self) -> &ApiParts {
        &self.0
    }
}
