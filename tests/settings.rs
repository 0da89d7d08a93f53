//! The documents that are generated from the settings table.

use std::fs;
use std::path::Path;

use aish::config::reference;

/// Compares a committed document with the generated one, or writes it where `AISH_UPDATE_DOCS` is set.
fn check(name: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    if std::env::var_os("AISH_UPDATE_DOCS").is_some() {
        fs::write(&path, generated).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == generated,
        "{name} differs from the settings table; regenerate it with: AISH_UPDATE_DOCS=1 cargo test --test it settings::"
    );
}

#[test]
fn reference_matches_the_settings_table() {
    check("docs/settings.md", &reference::markdown());
}

#[test]
fn starter_matches_the_settings_table() {
    check("examples/config.toml", &reference::starter());
}

#[test]
fn schema_matches_the_settings_table() {
    check("docs/config.schema.json", &reference::json_schema());
}
