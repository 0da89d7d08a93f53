//! MCP conformance suite, client side, for a revision with and one without `initialize`. The client is the example
//! `mcp-conformance`. The suite defines the required scenarios; this test checks that all of them ran and the client's
//! exit codes, which the suite does not check.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::{node, package};
use crate::support::home::helper;

/// Scenarios with a faulty server, at which the client must fail.
const REFUSED: [&str; 7] = [
    "auth/iss-normalized",
    "auth/iss-supported-missing",
    "auth/iss-unexpected",
    "auth/iss-wrong-issuer",
    "auth/metadata-issuer-mismatch",
    "auth/resource-mismatch",
    "auth/scope-retry-limit",
];

/// Scenarios that pass but are not on the suite's list of requirements yet.
const MORE: [&str; 1] = ["json-schema-2020-12-preservation"];

/// Scenarios that a revision requires of a client.
fn required(revision: &str) -> BTreeSet<String> {
    let file = package("conformance").with_file_name(format!("../requirements/{revision}.yaml"));
    let text = fs::read_to_string(file).expect("the requirements");
    let (_, client) = text.split_once("\nclient:\n").expect("a client's part");
    let names = client.lines().map_while(|l| l.strip_prefix("  - "));
    names.chain(MORE).map(str::to_owned).collect()
}

/// Path of the example client.
fn client() -> PathBuf {
    let client = Path::new(helper()).with_file_name("examples/mcp-conformance");
    assert!(client.exists(), "build it: cargo build --examples");
    client
}

/// Results of a run of the suite.
struct Suite {
    dir: TempDir,
    said: String,
}

impl Suite {
    /// Runs the suite with these arguments.
    fn run(args: &[&str]) -> Suite {
        let dir = TempDir::new().expect("a directory");
        // Saves the exit codes, which the suite only prints.
        let wrapper = dir.path().join("client");
        let script = format!(
            "#!/bin/sh\n'{}' \"$@\"\ncode=$?\n\
             echo \"$MCP_CONFORMANCE_SCENARIO $code\" >>'{}'\nexit $code\n",
            client().display(),
            dir.path().join("codes").display()
        );
        fs::write(&wrapper, script).expect("a script");
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).expect("executable");
        let output = Command::new(node())
            .arg(package("conformance"))
            .args(["client", "--timeout", "60000", "-o", "out", "--command"])
            .arg(&wrapper)
            .args(args)
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .output()
            .expect("node runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Suite { dir, said }
    }

    /// Failure of a scenario; `None` if it passed.
    fn failure_of(&self, name: &str) -> Option<String> {
        let codes = fs::read_to_string(self.dir.path().join("codes")).unwrap_or_default();
        let code = codes
            .lines()
            .find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
        let expected = if REFUSED.contains(&name) { "1" } else { "0" };
        if code != Some(expected) {
            return Some(format!("{name}: exit code {code:?}"));
        }
        let checks = self.checks(name);
        let is = |c: &&Value, status: &str| c["status"] == status;
        let bad = |c: &&Value| is(c, "FAILURE") || is(c, "WARNING");
        let bad: Vec<_> = checks.iter().filter(bad).collect();
        if !bad.is_empty() || !checks.iter().any(|c| is(&c, "SUCCESS")) {
            return Some(format!("{name}: of {} checks: {bad:#?}", checks.len()));
        }
        None
    }

    /// Checks of a scenario, from `out/NAME-TIME/checks.json`.
    fn checks(&self, name: &str) -> Vec<Value> {
        let out = self.dir.path().join("out");
        let start = out.join(format!("{name}-20"));
        let start = start.to_str().expect("text");
        let all = fs::read_dir(out.join(name).parent().expect("out")).expect("results");
        let found = all
            .map(|e| e.expect("an entry").path())
            .find(|p| p.to_str().expect("text").starts_with(start));
        let file = found.expect("its results").join("checks.json");
        serde_json::from_slice(&fs::read(file).expect("its checks")).expect("JSON")
    }
}

/// Asserts that all required scenarios of a revision pass.
fn conforms(revision: &str) {
    let suite = Suite::run(&["--requirements", revision]);
    let required = required(revision);
    assert!(required.len() > 15, "{required:?}");
    for name in &required {
        // The suite starts all clients at once, and some scenarios measure time. A scenario that failed on a busy
        // machine is repeated alone.
        if let Some(first) = suite.failure_of(name) {
            let alone = Suite::run(&["--spec-version", revision, "--scenario", name]);
            let again = alone.failure_of(name);
            assert_eq!(again, None, "{first}\n{}\n{}", suite.said, alone.said);
        }
    }
}

#[test]
#[ignore = "needs the conformance suite; ./test.sh runs it with AISH_TEST_TOOLS"]
fn required_scenarios_pass_for_both_revisions() {
    conforms("2026-07-28");
    conforms("2025-11-25");
}
