//! Logging in to servers (OAuth 2.1 with PKCE), and the tokens that come of it.
//!
//! The protocol's steps are `rmcp`'s. What is ours: where a server may send us (`guard`), who may have a
//! token and where it lies (`store`), and that one refresh token is not used twice (`refresh`).
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization>

mod guard;
mod login;
mod refresh;
mod store;

pub use self::login::{Identity, Login};
pub use self::store::Tokens;
pub use crate::address::Place;

/// Whether a header of this name proves to a server who asks, so that the token of a login is not sent.
pub fn signs(header: &str) -> bool {
    header.eq_ignore_ascii_case("authorization")
}
