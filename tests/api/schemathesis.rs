//! Schemathesis makes valid and invalid requests from the document of the API, and compares the answers with it.

use std::process::Command;

use super::Server;
use crate::support::helper::Helper;

/// Requests for each operation in the phase of random ones: about a minute in all.
const EXAMPLES: &str = "30";
/// Maximum memory of the daemon after all requests, in bytes. A debug build needs 50 MB.
const MAX_MEMORY: u64 = 150 << 20;

#[test]
#[ignore = "needs Schemathesis; ./test.sh runs it with AISH_TEST_SCHEMATHESIS"]
fn the_server_does_what_the_document_says() {
    let program = std::env::var_os("AISH_TEST_SCHEMATHESIS").unwrap_or_default();
    if program.is_empty() {
        // test.sh has said why.
        return;
    }
    let helper = Helper::saying("yes");
    let server = Server::start(&helper);
    let daemon = helper.daemon();
    let address = format!("http://127.0.0.1:{}", server.port);
    let output = Command::new(program)
        .env_clear()
        .envs(helper.home.env())
        .current_dir(helper.home.path(""))
        .arg("--config-file")
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/api/schemathesis.toml"
        ))
        .args(["run", &format!("{address}/openapi.json")])
        .args([
            "--header",
            &format!("Authorization: Bearer {}", server.token),
        ])
        .args(["--checks", "all"])
        .args(["--phases", "examples,coverage,fuzzing,stateful"])
        .args(["--seed", "1", "--max-examples", EXAMPLES])
        .args(["--continue-on-failure", "--request-timeout", "30"])
        .args(["--generation-database", "none"])
        .args(["--warnings", "off", "--no-color"])
        .output()
        .expect("Schemathesis runs");
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{report}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(report.contains("Stateful (in "), "{report}");

    assert_eq!(helper.daemon(), daemon);
    assert_eq!(helper.ask("Do you still answer?"), "yes\n");
    let status = helper.call(["status", "--json"]).run().json();
    let memory = status["memory_bytes"].as_u64().expect("a number");
    assert!(memory < MAX_MEMORY, "{memory}");
    let log = helper.home.read("aish/state/daemon.log");
    assert!(!log.contains("panicked"), "{log}");
}
