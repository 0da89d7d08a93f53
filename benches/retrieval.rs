//! Quality and speed of tool search: recall@5 and MRR of graded queries over the tools of six real servers, if `./test.sh`
//! has installed them, and the times of indexing and querying ten thousand tools.
//!
//! `AISH_TEST_TOOLS=$PWD/target/test-tools cargo bench --bench retrieval`

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a measurement that cannot go on has failed"
)]

#[path = "../tests/real/graded.rs"]
mod graded;
#[expect(dead_code, reason = "each bench uses its part")]
mod support;

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use aish::chat::ToolDefinition;
use aish::tools::search::{RESULT_LIMIT, RetrieveRequest, ToolIndex, retrieve};
use aish::tools::split;
use serde_json::json;
use support::{Samples, memory, row, table};

/// Number of tools in the large catalog.
const TOOLS: usize = 10_000;
/// Number of times it is indexed, and of runs of each query.
const ROUNDS: usize = 5;
const ASKED: usize = 200;
/// Limit of the median time of any query; if exceeded, the bench exits with 1.
const QUERY_BAR_MS: f64 = 10.0;

const VERBS: &[&str] = &[
    "get", "list", "create", "update", "delete", "search", "archive", "export", "import", "merge",
    "assign", "close", "lock", "watch", "copy", "move", "share", "schedule", "cancel", "validate",
];
const NOUNS: &[&str] = &[
    "issue",
    "invoice",
    "customer",
    "pull_request",
    "ticket",
    "page",
    "calendar_event",
    "contact",
    "file",
    "folder",
    "channel",
    "message",
    "deployment",
    "pipeline",
    "secret",
    "database",
    "table",
    "dashboard",
    "alert",
    "report",
];

fn main() {
    let installed = std::env::var_os("AISH_TEST_TOOLS");
    match &installed {
        Some(installed) => quality(Path::new(installed)),
        None => println!("no quality: AISH_TEST_TOOLS names no place with real servers\n"),
    }
    let slowest = speed();
    if slowest > QUERY_BAR_MS {
        eprintln!("a query took {slowest:.1} ms (median); the bar is {QUERY_BAR_MS} ms");
        std::process::exit(1);
    }
}

/// Results of the graded queries, and the size of the definitions that are not sent to the model.
fn quality(installed: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let tools = runtime.block_on(graded::catalog(installed));
    let mut rows = vec![row(["questions", "number", "recall@5", "MRR"])];
    let mut missed = Vec::new();
    for (name, held_out) in [("looked at", false), ("held out", true)] {
        let grades = graded::grade(&tools, held_out);
        rows.push(vec![
            name.to_owned(),
            grades.questions.to_string(),
            format!("{:.3}", grades.recall),
            format!("{:.3}", grades.mrr),
        ]);
        missed.extend(grades.missed);
    }
    table(&rows);
    println!("not all found of: {}\n", missed.join("; "));
    let index = ToolIndex::new(&tools);
    let declared = |tools: &[ToolDefinition]| tools.iter().map(size).sum::<usize>();
    let mut answers = Samples::default();
    for question in graded::questions() {
        let wanted = RetrieveRequest {
            query: question,
            limit: RESULT_LIMIT.0,
            brief: false,
        };
        let answer = retrieve(&tools, &index, &wanted);
        answers.number(tokens(answer.to_string().len()));
    }
    let mut servers: Vec<&str> = tools.iter().map(|tool| tool.server.as_str()).collect();
    servers.dedup();
    let few = split::split_tools(servers);
    let (direct, split) = (tokens(declared(&tools)), tokens(declared(&few)));
    println!(
        "with every request: {direct:.0} tokens for {} tools, {split:.0} for the {} of the split: {:.0} % less. \
         An answer of retrieve_tools takes {:.0} (median).\n",
        tools.len(),
        few.len(),
        100.0 - 100.0 * split / direct,
        answers.median()
    );
}

/// Size of a tool definition in a request, in bytes.
fn size(tool: &ToolDefinition) -> usize {
    let schema: serde_json::Value = serde_json::from_str(&tool.schema).unwrap();
    let function =
        json!({"name": tool.name, "description": tool.description, "parameters": schema});
    json!({"type": "function", "function": function})
        .to_string()
        .len()
}

/// A token is about four bytes of English or JSON.
fn tokens(bytes: usize) -> f64 {
    bytes as f64 / 4.0
}

/// A catalog far larger than any real one.
fn many() -> Vec<ToolDefinition> {
    let tool = |n: usize| {
        let verb = VERBS[n % VERBS.len()];
        let noun = NOUNS[n / VERBS.len() % NOUNS.len()];
        let server = format!("server{}", n / (VERBS.len() * NOUNS.len()));
        let thing = noun.replace('_', " ");
        let parameter = |what: &str| json!({"type": "string", "description": format!("The {what} of the {thing}")});
        let schema = json!({
            "type": "object",
            "properties": {
                format!("{noun}_id"): parameter("identifier"),
                "title": parameter("title"),
                "owner": parameter("owner, as in the directory of the organization"),
                "filter": {"type": "object", "properties": {
                    "state": parameter("state"),
                    "since": parameter("time of the last change, in ISO 8601"),
                    "labels": {"type": "array", "items": parameter("label")},
                }},
            },
            "required": [format!("{noun}_id")],
        });
        ToolDefinition {
            name: format!("{server}.{verb}_{noun}"),
            tool: format!("{verb}_{noun}"),
            description: format!(
                "Lets you {verb} one {thing} or several in the workspace number {n}. Needs the permission to {verb}. Returns the {thing} \
                 with all of its fields, and an error where it is not found or the rate limit was reached."
            ),
            schema: schema.to_string(),
            server,
            ..ToolDefinition::default()
        }
    };
    (0..TOOLS).map(tool).collect()
}

/// Measures the large catalog. Returns the median time of the slowest query, in milliseconds.
fn speed() -> f64 {
    let mut slowest = 0.0_f64;
    let tools = many();
    let bytes: usize = tools.iter().map(size).sum();
    println!("{TOOLS} tools, {:.1} MB\n", bytes as f64 / 1e6);
    let resident = || memory(std::process::id(), "VmRSS");
    let before = resident();
    let index = ToolIndex::new(&tools);
    let taken = before.zip(resident()).map(|(before, after)| after - before);
    let mut rows = vec![row(["10,000 tools", "ms"])];
    let mut reads = Samples::default();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        black_box(ToolIndex::new(&tools));
        reads.time(start.elapsed());
    }
    rows.push(vec!["index".to_owned(), reads.shown()]);
    for question in [
        "merge a pull request",
        "list the open issues that were changed last week",
        "permission workspace fields error found rate limit state owner title",
        "workspace 1234",
        "something that nobody has",
    ] {
        let mut asked = Samples::default();
        for _ in 0..ASKED {
            let start = Instant::now();
            black_box(index.search(question, 5));
            asked.time(start.elapsed());
        }
        slowest = slowest.max(asked.median());
        rows.push(vec![question.to_owned(), asked.shown()]);
    }
    table(&rows);
    if let Some(taken) = taken {
        println!("memory of the index: {taken:.0} MB\n");
    }
    slowest
}
