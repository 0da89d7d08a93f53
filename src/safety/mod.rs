//! What stands between untrusted bytes and the person at the terminal.

pub mod alike;
pub mod change;
mod glyph;
pub mod intent;
pub mod json;
pub mod policy;
pub mod redact;
pub mod text;
pub mod utf8;
