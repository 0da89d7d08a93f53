use serde_json::json;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::chat::ToolAnnotations;
use crate::safety::policy::{
    self, Approved, CallRequest, ExactCall, GrantSet, PolicyDecision, RuleSet,
};

const NOW_MS: u64 = 1_000_000;

struct SourceFixture {
    source: BuiltinSource,
    results: Arc<ResultStore>,
    cancel: CancellationToken,
    _dir: TempDir,
}

fn bench(searchable: Vec<ToolDefinition>) -> SourceFixture {
    let dir = TempDir::new().unwrap();
    let results = Arc::new(ResultStore::new(dir.path().join("results")));
    let source = BuiltinSource::new(
        Arc::default(),
        results.clone(),
        searchable.into(),
        "session-1",
        1000,
    );
    SourceFixture {
        source,
        results,
        cancel: CancellationToken::new(),
        _dir: dir,
    }
}

fn builtin_call<'a>(tool: &'a str, arguments: &'a str) -> ExactCall<'a> {
    ExactCall {
        server: ALIAS,
        tool,
        identity: BUILTIN_IDENTITY,
        arguments,
    }
}

/// The approval that the default rules give.
fn approve(call: ExactCall<'_>) -> Approved {
    let definition = retrieve_tools_tool();
    let request = CallRequest {
        annotations: definition.annotations,
        trusted: definition.trusted,
        ..CallRequest::new(call)
    };
    let (rules, grants) = (RuleSet::default(), GrantSet::default());
    match policy::decide(&request, &rules, &grants, NOW_MS) {
        PolicyDecision::Allow(approved, _) => approved,
        other => panic!("not allowed: {other:?}"),
    }
}

impl SourceFixture {
    async fn call(&self, approved: Approved, call: ExactCall<'_>) -> Result<CallResult, CallError> {
        let (events, _receiver) = mpsc::channel(1);
        let request = SourceCall {
            approved,
            call,
            now_ms: NOW_MS,
            max_bytes: 1 << 20,
            events: &events,
            cancel: &self.cancel,
        };
        self.source.call(request).await
    }

    async fn run(&self, tool: &str, arguments: Value) -> Result<CallResult, CallError> {
        let arguments = arguments.to_string();
        let call = builtin_call(tool, &arguments);
        self.call(approve(call), call).await
    }
}

fn server_tool(server: &str, tool: &str) -> ToolDefinition {
    ToolDefinition {
        name: format!("{server}.{tool}"),
        server: server.to_owned(),
        tool: tool.to_owned(),
        schema: json!({"type": "object"}).to_string(),
        ..ToolDefinition::default()
    }
}

#[test]
fn lists_two_read_only_tools_under_its_alias() {
    let bench = bench(Vec::new());
    let tools = bench.source.list();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, [RETRIEVE_TOOLS, READ_RESULT]);
    for tool in tools.iter() {
        assert_eq!(tool.server, bench.source.alias());
        assert!(tool.trusted && tool.annotations.reads_only());
        assert_eq!(find_builtin(&tool.name), Some(tool));
        assert_eq!(
            find_builtin(&format!("{}.{}", tool.server, tool.tool)),
            None
        );
    }
}

#[test]
fn built_in_tool_that_writes_needs_approval() {
    let annotations = ToolAnnotations {
        read_only: Some(false),
        ..ToolAnnotations::default()
    };
    let schema = json!({"type": "object"});
    for annotations in [annotations, ToolAnnotations::default()] {
        let tool = definitions::builtin_tool("save", "Saves.", &schema, annotations);
        let request = CallRequest {
            annotations: tool.annotations,
            trusted: tool.trusted,
            ..CallRequest::new(builtin_call(&tool.name, "{}"))
        };
        let (rules, grants) = (RuleSet::default(), GrantSet::default());
        let decision = policy::decide(&request, &rules, &grants, NOW_MS);
        assert!(matches!(decision, PolicyDecision::Ask(_)), "{decision:?}");
    }
}

#[tokio::test]
async fn retrieve_tools_ranks_the_tools_of_the_session() {
    let bench = bench(vec![
        server_tool("fs", "read_file"),
        server_tool("git", "commit"),
    ]);
    let result = bench
        .run(RETRIEVE_TOOLS, json!({"query": "commit"}))
        .await
        .unwrap();
    assert!(!result.is_error);
    assert_eq!(result.bytes, result.text.len() as u64);
    let answer: Value = serde_json::from_str(&result.text).unwrap();
    assert_eq!(answer["tools"][0]["name"], "git:commit");
    assert_eq!(answer["tools"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn read_result_reads_only_the_results_of_its_session() {
    let bench = bench(Vec::new());
    let own = bench
        .results
        .store("session-1", "the whole text", NOW_MS)
        .unwrap();
    let foreign = bench
        .results
        .store("session-2", "a secret", NOW_MS)
        .unwrap();
    let read = bench
        .run(READ_RESULT, json!({"key": own, "offset": 4}))
        .await
        .unwrap();
    assert!(read.text.ends_with("\nwhole text"), "{}", read.text);
    assert!(!read.is_error);
    let denied = bench
        .run(READ_RESULT, json!({"key": foreign}))
        .await
        .unwrap();
    assert!(denied.is_error && !denied.text.contains("secret"));
}

#[tokio::test]
async fn wrong_arguments_are_an_error_result_for_the_model() {
    let bench = bench(Vec::new());
    let result = bench
        .run(RETRIEVE_TOOLS, json!({"query": 1}))
        .await
        .unwrap();
    assert_eq!(
        (result.text.as_str(), result.is_error),
        ("query must be a string", true)
    );
    let result = bench.run(READ_RESULT, json!({})).await.unwrap();
    assert!(result.is_error && result.text.starts_with("key is required"));
}

#[tokio::test]
async fn unknown_tools_and_malformed_arguments_fail() {
    let bench = bench(Vec::new());
    let unknown = bench.run("delete_everything", json!({})).await;
    assert_eq!(
        unknown,
        Err(CallError::Failed(
            "aish has no tool delete_everything".to_owned()
        ))
    );
    let malformed = bench.run(RETRIEVE_TOOLS, json!([])).await;
    assert!(matches!(malformed, Err(CallError::Failed(_))));
}

#[tokio::test]
async fn an_approval_covers_only_its_own_call() {
    let bench = bench(Vec::new());
    let approved_call = builtin_call(RETRIEVE_TOOLS, r#"{"query":"a"}"#);
    for other in [
        builtin_call(RETRIEVE_TOOLS, r#"{"query":"b"}"#),
        builtin_call(READ_RESULT, r#"{"query":"a"}"#),
        ExactCall {
            identity: "another",
            ..approved_call
        },
        ExactCall {
            server: "fs",
            ..approved_call
        },
    ] {
        let result = bench.call(approve(approved_call), other).await;
        assert_eq!(result, Err(CallError::NotApproved), "{other:?}");
    }
}

#[tokio::test]
async fn a_cancelled_call_is_interrupted() {
    let bench = bench(Vec::new());
    bench.cancel.cancel();
    let result = bench.run(RETRIEVE_TOOLS, json!({"query": "x"})).await;
    assert_eq!(result, Err(CallError::Interrupted));
}
