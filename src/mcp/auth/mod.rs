//! OAuth 2.1 login with PKCE, and the tokens it yields.
//!
//! `rmcp` implements the protocol steps. This module adds: `url_guard`, which URLs named by a server may be requested;
//! `store`, where tokens are kept and which server may receive them; `refresh`, which renews a token and never uses a
//! refresh token twice.
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization>

mod login;
mod refresh;
mod store;
mod url_guard;

pub use self::login::{ClientIdentity, OAuthLogin};
pub use self::store::TokenStore;
pub use crate::address::NetworkZone;

/// Whether this header carries credentials. If the configuration sets it, no OAuth token is sent.
pub fn is_authorization_header(header: &str) -> bool {
    header.eq_ignore_ascii_case("authorization")
}
