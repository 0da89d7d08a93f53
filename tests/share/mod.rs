//! Sharing sessions: pages in buckets, sharing after each answer, projects, and kills at every step.

mod auto;
mod interop;
mod kill;
mod recordings;
mod s3;

use std::fs;

use serde_json::Value;

use crate::fakes::s3::{ACCESS_KEY, SECRET_KEY};
use crate::support::helper::{Helper, ProgramCall};

/// Prepares a call from a shell that has the credentials of the bucket.
fn with_keys<const N: usize>(helper: &Helper, words: [&str; N]) -> ProgramCall {
    helper
        .call(words)
        .env("TEST_ACCESS", ACCESS_KEY)
        .env("TEST_SECRET", SECRET_KEY)
}

/// Returns the id of the only session.
fn session(helper: &Helper) -> String {
    let sessions = helper.sessions();
    let name = sessions[0].file_stem().expect("a name");
    name.to_string_lossy().into_owned()
}

/// Returns the shares as `session shares --json` lists them.
fn listed(helper: &Helper) -> Vec<Value> {
    let json = helper.call(["session", "shares", "--json"]).run().ok();
    let shares: Value = serde_json::from_str(&json).expect("JSON");
    shares.as_array().expect("a list").clone()
}

/// Returns the names of the pages and recordings on this machine.
fn pages(helper: &Helper) -> Vec<String> {
    let entries = fs::read_dir(helper.path("data/shares"));
    let entries = entries.into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".html") || name.ends_with(".cast"))
        .collect()
}

/// Checks that no file of aish has the secret key.
fn assert_no_secret(helper: &Helper) {
    fn walk(dir: &std::path::Path) {
        for entry in fs::read_dir(dir).expect("a directory").flatten() {
            let kind = entry.file_type().expect("a type");
            if kind.is_dir() {
                walk(&entry.path());
            } else if kind.is_file() {
                let text = fs::read(entry.path()).unwrap_or_default();
                let text = String::from_utf8_lossy(&text);
                assert!(!text.contains(SECRET_KEY), "{}", entry.path().display());
            }
        }
    }
    walk(&helper.path("."));
}
