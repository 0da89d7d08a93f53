//! How well tools are found: questions with the right answers over the tools of real servers, and what comes of them.
//! The test that asserts it and the bench that prints it share this.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aish::chat::Tool;
use aish::config::mcp::{Lifecycle, Server, Transport};
use aish::mcp::{Credentials, Pool};
use aish::secret::Secret;
use aish::tools::search::Index;
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The questions: every other one was looked at while the words and weights were chosen, the rest was not.
const QUESTIONS: &str = include_str!("../../benches/retrieval.jsonl");

/// So long all servers together may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// The tools of six real servers, from the place where `./test.sh` has installed them.
pub async fn catalog(installed: &Path) -> Arc<[Tool]> {
    let place = TempDir::new().expect("a directory");
    let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
    let pool = Pool::new(place.path().to_owned(), tasks, cancel);
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
        let server = Server {
            transport: Transport::Stdio {
                command: text(&program),
                args,
                env: Vec::new(),
            },
            lifecycle: Lifecycle::Legacy,
            ..Server::at(alias, "")
        };
        let path = std::env::var("PATH").expect("a variable that everybody has");
        let home = place.path().to_str().expect("a path of text");
        let env = [("PATH", path.as_str()), ("HOME", home)];
        let env = env.map(|(name, value)| (name.to_owned(), Secret::new(value)));
        let credentials = Credentials {
            bearer: None,
            env: env.to_vec(),
        };
        pool.start(server, true, async { Ok(credentials) });
    }
    let catalog = pool.catalog(PATIENCE).await;
    assert!(catalog.without.is_empty(), "{:?}", catalog.without);
    pool.shutdown().await;
    catalog.tools
}

/// A node that is new enough: the one that came as a package, or that of the system.
pub fn node(installed: &Path) -> PathBuf {
    let packages = std::fs::read_dir(installed.join("node_modules")).expect("node_modules");
    packages
        .map(|e| e.expect("an entry"))
        .filter(|e| e.file_name().to_string_lossy().starts_with("node-"))
        .map(|e| e.path().join("bin/node"))
        .find(|p| p.exists())
        .unwrap_or_else(|| PathBuf::from("node"))
}

/// What came of some questions.
#[derive(Debug, Default)]
pub struct Grades {
    /// How many there were.
    pub questions: usize,
    /// Of the right tools, how many are among the first five.
    pub recall: f64,
    /// One over the place of the first right tool.
    pub mrr: f64,
    /// The questions whose right tools are not all among the first five.
    pub missed: Vec<String>,
}

/// All questions.
pub fn questions() -> impl Iterator<Item = String> {
    QUESTIONS.lines().map(|line| {
        let graded: Value = serde_json::from_str(line).expect("a question");
        graded["query"].as_str().expect("a text").to_owned()
    })
}

/// Asks the questions of one half, those of the other where `held_out`.
pub fn grade(tools: &[Tool], held_out: bool) -> Grades {
    let index = Index::new(tools);
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
            assert!(there, "{name} is no tool any more");
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
