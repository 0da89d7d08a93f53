//! The journal: every action is recorded with the ids of what caused it, and an approval is on disk before the action.

mod audit_log;
mod export;
#[cfg(target_os = "linux")]
mod full_disk;
#[cfg(target_os = "linux")]
mod kill;
mod kill_client;
pub mod links;
#[cfg(target_os = "linux")]
mod panes;
#[cfg(target_os = "linux")]
pub mod recording;
pub mod recordings;
mod replay;
mod retention;
mod version1;

use serde_json::Value;

/// Returns a field of a record, which must be text. A dot in `field` leads into an object.
fn text<'v>(record: &'v Value, field: &str) -> &'v str {
    let value = record.pointer(&format!("/{}", field.replace('.', "/")));
    let value = value.and_then(Value::as_str);
    value.unwrap_or_else(|| panic!("no {field} in {record:#}"))
}
