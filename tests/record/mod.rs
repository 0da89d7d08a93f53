//! The record: every act is in it, tied to what it came of, and before the act where it permits it.

mod acts;
#[cfg(target_os = "linux")]
mod full;
#[cfg(target_os = "linux")]
mod kill;
pub mod links;
mod retention;
mod version1;

use serde_json::Value;

/// A field of a record that must be text.
fn text<'v>(record: &'v Value, field: &str) -> &'v str {
    let value = record.pointer(&format!("/{}", field.replace('.', "/")));
    let value = value.and_then(Value::as_str);
    value.unwrap_or_else(|| panic!("no {field} in {record:#}"))
}
