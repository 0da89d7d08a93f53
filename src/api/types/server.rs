//! The objects of the server itself.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A one-use ticket of `aish-helper web`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Ticket {
    /// The ticket.
    #[schema(max_length = 200, pattern = "^[0-9A-Za-z]*$")]
    pub ticket: String,
}

/// A bearer for the browser.
#[derive(Debug, Serialize, ToSchema)]
pub struct TicketBearer {
    /// For the header `Authorization: Bearer`.
    pub bearer: String,
}

/// The server answers.
#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// `ok`.
    pub status: &'static str,
}

/// The version of the program.
#[derive(Debug, Serialize, ToSchema)]
pub struct Version {
    /// `aish`.
    pub name: &'static str,
    /// `MAJOR.MINOR.PATCH`.
    pub version: &'static str,
    /// Version of the API, as it appears in its paths.
    pub api: &'static str,
}
