//! The record: every act is in it, tied to what it came of, and before the act where it permits it.

mod acts;
mod links;

use serde_json::Value;

/// A field of a record that must be text.
fn text<'v>(record: &'v Value, field: &str) -> &'v str {
    let value = record.pointer(&format!("/{}", field.replace('.', "/")));
    let value = value.and_then(Value::as_str);
    value.unwrap_or_else(|| panic!("no {field} in {record:#}"))
}
