//! The fuzz targets with their corpus and a few thousand mutations of it, the same in each run.

use crate::fuzz::TARGETS;

/// Number of mutations for each target.
const MUTATIONS: usize = 3000;

fn check(name: &str) {
    let target = TARGETS.iter().find(|t| t.name == name).unwrap();
    let mut passed = 0;
    for (path, input) in target.corpus() {
        passed += usize::from((target.run)(&input));
        // Visible only if the next input panics.
        println!("{} holds", path.display());
    }
    assert!(
        passed > 0,
        "no input of the corpus passes the outermost check"
    );
    let mut mutator = target.mutator(1);
    for _ in 0..MUTATIONS {
        let input = mutator.mutate();
        match target.try_run(&input) {
            Some(true) => mutator.learn(input),
            Some(false) => {}
            None => {
                let input = target.shrink(input);
                let text = String::from_utf8_lossy(&input);
                panic!("add to tests/fixtures/fuzz/{name}: {input:?}\n{text:?}");
            }
        }
    }
}

#[test]
fn socket() {
    check("socket");
}

#[test]
fn fifo() {
    check("fifo");
}

#[test]
fn config() {
    check("config");
}

#[test]
fn sse() {
    check("sse");
}

#[test]
fn mcp() {
    check("mcp");
}

#[test]
fn redact() {
    check("redact");
}

#[test]
fn sink() {
    check("sink");
}

#[test]
fn command() {
    check("command");
}

#[test]
fn assessment() {
    check("assessment");
}
