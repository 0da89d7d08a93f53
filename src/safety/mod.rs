//! Pure safety checks: the text sink, the policy, redaction, tool diffs. No IO, no clock.

pub mod budget;
mod char_class;
pub mod command;
pub mod command_extractor;
pub mod confusables;
pub mod intent;
pub mod job_notices;
pub mod json;
pub mod json_text;
pub mod own_names;
pub mod percent;
pub mod policy;
pub mod protected_paths;
pub mod redact;
pub mod shell_syntax;
pub mod text;
pub mod tool_diff;
pub mod utf8;
