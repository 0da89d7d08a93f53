//! Pure safety checks: the text sink, the policy, redaction, tool diffs. No IO, no clock.

pub mod alike;
pub mod change;
mod char_class;
pub mod intent;
pub mod json;
pub mod policy;
pub mod redact;
pub mod text;
pub mod utf8;
