//! Quality of the tool search: graded questions over the tools of real servers. Shared by the test that asserts the scores and
//! the bench that prints them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aish::chat::ToolDefinition;
use aish::config::mcp::{HandshakeMode, ServerSettings, ServerTransport};
use aish::mcp::{ServerCredentials, ServerPool};
use aish::secret::Secret;
use aish::tools::search::ToolIndex;
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Questions. Every other one was used to tune the search; the rest is held out.
const QUESTIONS: &str = include_str!("../../benches/retrieval.jsonl");

/// Time limit for the start of all servers.
const PATIENCE: Duration = Duration::from_secs(60);

/// Tools of six real servers, from the directory where `./test.sh` has installed them.
pub async fn catalog(installed: &Path) -> Arc<[ToolDefinition]> {
    let place = TempDir::new().expect("a directory");
    let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
    let pool = ServerPool::new(place.path().to_owned(), tasks, cancel);
    let npm = |name: &str| {
        let file = format!("node_modules/@modelcontextprotocol/server-{name}/dist/index.js");
        (node(installed), installed.join(file))
    };
    let python = installed.join("python/bin/python");
    let module = |name: &str| {
        let starts = python.with_file_name(format!("mcp-server-{name}"));
        (python.clone(), starts)
    };
    let servers = [
        ("everything", npm("everything")),
        ("files", npm("filesystem")),
        ("git", module("git")),
        ("github", npm("github")),
        ("memory", npm("memory")),
        ("time", module("time")),
    ];
    for (alias, (program, script)) in servers {
        let text = |path: &Path| path.to_str().expect("a path of text").to_owned();
        let mut args = vec![text(&script)];
        if alias == "files" {
            args.push(text(place.path()));
        }
        let server = ServerSettings {
            transport: ServerTransport::Stdio {
                command: text(&program),
                args,
                env: Vec::new(),
            },
            lifecycle: HandshakeMode::Legacy,
            ..ServerSettings::with_url(alias, "")
        };
        let path = std::env::var("PATH").expect("a variable that everybody has");
        let home = place.path().to_str().expect("a path of text");
        let env = [("PATH", path.as_str()), ("HOME", home)];
        let env = env.map(|(name, value)| (name.to_owned(), Secret::new(value)));
        let credentials = ServerCredentials {
            bearer: None,
            env: env.to_vec(),
        };
        pool.start(server, true, async { Ok(credentials) });
    }
    let catalog = pool.catalog(PATIENCE).await;
    assert!(catalog.unavailable.is_empty(), "{:?}", catalog.unavailable);
    pool.shutdown().await;
    catalog.tools
}

/// A recent `node`: the one installed as a package, or the system's.
pub fn node(installed: &Path) -> PathBuf {
    let packages = std::fs::read_dir(installed.join("node_modules")).expect("node_modules");
    packages
        .map(|e| e.expect("an entry"))
        .filter(|e| e.file_name().to_string_lossy().starts_with("node-"))
        .map(|e| e.path().join("bin/node"))
        .find(|p| p.exists())
        .unwrap_or_else(|| PathBuf::from("node"))
}

/// Scores of a set of questions.
#[derive(Debug, Default)]
pub struct Grades {
    /// Number of questions.
    pub questions: usize,
    /// Recall at 5: share of the right tools among the first five results.
    pub recall: f64,
    /// Mean reciprocal rank of the first right tool.
    pub mrr: f64,
    /// Questions whose right tools are not all among the first five results.
    pub missed: Vec<String>,
}

/// All questions.
pub fn questions() -> impl Iterator<Item = String> {
    QUESTIONS.lines().map(|line| {
        let graded: Value = serde_json::from_str(line).expect("a question");
        graded["query"].as_str().expect("a text").to_owned()
    })
}

/// Scores the tuning half of the questions, or the held-out half.
pub fn grade(tools: &[ToolDefinition], held_out: bool) -> Grades {
    let index = ToolIndex::new(tools);
    let mut grades = Grades::default();
    let half = QUESTIONS.lines().skip(usize::from(held_out)).step_by(2);
    for line in half {
        let graded: Value = serde_json::from_str(line).expect("a question");
        let question = graded["query"].as_str().expect("a text");
        let right: Vec<String> = graded["right"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|name| name.as_str().expect("a name").replacen(':', ".", 1))
            .collect();
        for name in &right {
            let there = tools.iter().any(|tool| tool.name == *name);
            assert!(there, "{name} is not a tool any more");
        }
        let found = index.search(question, tools.len());
        let is_right = |(at, _): &(usize, f32)| right.contains(&tools[*at].name);
        let hits = found.iter().take(5).filter(|one| is_right(one)).count();
        let first = found.iter().position(is_right);
        grades.questions += 1;
        grades.recall += hits as f64 / right.len() as f64;
        grades.mrr += first.map_or(0.0, |at| 1.0 / (at + 1) as f64);
        if hits < right.len() {
            grades.missed.push(question.to_owned());
        }
    }
    grades.recall /= grades.questions as f64;
    grades.mrr /= grades.questions as f64;
    grades
}
