//! Requests about the HTTP server.

use serde::{Deserialize, Serialize};

/// A request about the HTTP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum ServerRequest {
    /// Starts it, unless it runs. What is absent is taken from the configuration.
    Start {
        /// The address to listen on.
        hostname: Option<String>,
        /// The port; 0 for the unix socket only.
        port: Option<u16>,
    },
    /// Stops it.
    Stop,
    /// Describes it.
    Status,
    /// Starts it if needed, and makes a ticket for a browser.
    Ticket {
        /// The session to show, by its id or a unique part of it.
        session: Option<String>,
    },
    /// Replaces the token.
    Rotate,
    /// Starts it if needed, and begins to pair a browser, which then may answer questions.
    Pair {
        /// The session to show, by its id or a unique part of it.
        session: Option<String>,
    },
    /// Waits until the browser has opened the page, and returns the code that it shows.
    PairingCode {
        /// [`ServerReply::pairing`] of the reply to [`ServerRequest::Pair`].
        handle: String,
    },
    /// Says whether the browser shows the code.
    DecidePairing {
        /// [`ServerReply::pairing`] of the reply to [`ServerRequest::Pair`].
        handle: String,
        /// Whether the browser may answer questions.
        accept: bool,
    },
    /// Ends all pairings.
    Unpair,
}

/// The reply to a [`ServerRequest`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerReply {
    /// Where the server listens; `None` if it does not run.
    pub status: Option<ServerStatus>,
    /// Why it does not run although the configuration, or the daemon before, wants it.
    #[serde(default)]
    pub failure: Option<String>,
    /// The address that opens the page once, for [`ServerRequest::Ticket`] and [`ServerRequest::Pair`].
    pub ticket_url: Option<String>,
    /// For [`ServerRequest::Stop`]: whether it ran.
    pub has_stopped: bool,
    /// For [`ServerRequest::Pair`]: names the pairing. Only the client that has asked for it knows it.
    #[serde(default)]
    pub pairing: Option<String>,
    /// For [`ServerRequest::PairingCode`]: the code; `None` if no browser has opened the page in time.
    #[serde(default)]
    pub pairing_code: Option<String>,
    /// For [`ServerRequest::Unpair`]: how many browsers were paired.
    #[serde(default)]
    pub unpaired: usize,
}

/// Where the HTTP server listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// The address.
    pub hostname: String,
    /// The port; 0 if it listens on the unix socket only.
    pub port: u16,
    /// The address of the page, if it has a port.
    pub url: Option<String>,
    /// The unix socket.
    pub socket: String,
    /// How many browsers may answer questions.
    #[serde(default)]
    pub paired_browsers: usize,
}
