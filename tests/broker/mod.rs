//! The broker with a scripted provider, over TCP.

use std::sync::Arc;
use std::time::Duration;

use aish::broker::{Broker, ModelEndpoint, StreamItem};
use aish::chat::{
    AssistantMessage, ChatMessage, Dialect, FinishReason, NativeAnswer, TokenUsage, ToolDefinition,
    ToolResult,
};
use aish::error::Result;
use aish::safety::budget::{self, RequestBound, SpendingPermit};
use aish::secret::Secret;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::fakes::provider::{Part, Provider, Script};

mod answers;
mod anthropic;
mod detect;
mod estimates;
mod failures;
mod gemini;
mod recorded_requests;
mod recordings;
mod responses;
mod retries;
mod servers;
mod tools;

const KEY: &str = "sk-0123456789abcdef";

/// An endpoint at `base_url` with default settings.
fn endpoint(base_url: &str) -> ModelEndpoint {
    ModelEndpoint {
        dialect: Dialect::Chat,
        is_mistral: false,
        base_url: base_url.to_owned(),
        model: "test-model".to_owned(),
        key: None,
        headers: Vec::new(),
        temperature: None,
        max_tokens: None,
        idle_timeout: Duration::from_secs(10),
        thinks: false,
        use_tool_role: true,
        images: false,
        key_name: None,
    }
}

/// Endpoints at a provider that requires [`KEY`], one per HTTP client: like remote endpoints, URLs with a password use
/// the general client.
const CLIENTS: [fn(&Provider) -> ModelEndpoint; 2] = [
    |provider| with_key(&provider.base_url()),
    |provider| with_key(&format!("http://user:pass@{}/v1", provider.addr())),
];

fn with_key(base_url: &str) -> ModelEndpoint {
    ModelEndpoint {
        key: Some(Secret::new(KEY)),
        ..endpoint(base_url)
    }
}

fn prompt() -> Vec<ChatMessage> {
    vec![
        ChatMessage::System("be brief".to_owned()),
        ChatMessage::user("hello"),
    ]
}

/// A broker with short retry delays.
fn broker() -> Arc<Broker> {
    Arc::new(Broker::with_pause(Duration::from_millis(1)))
}

/// The same, with the tracker of the tasks that run after an answer.
fn tracked() -> (Broker, TaskTracker) {
    let tasks = TaskTracker::new();
    tasks.close();
    let broker = Broker::with_pause(Duration::from_millis(1)).tracked_by(tasks.clone());
    (broker, tasks)
}

/// The result of one request.
#[derive(Debug)]
struct Outcome {
    result: Result<FinishReason>,
    chunks: Vec<StreamItem>,
}

impl Outcome {
    /// Returns the error, which must have a hint, be short, and not contain the key.
    fn error(&self) -> String {
        let error = self.result.as_ref().unwrap_err();
        assert!(error.hint.is_some(), "no hint: {error:?}");
        assert!(error.message.chars().count() < 500, "too long: {error:?}");
        let shown = error.to_string();
        assert_eq!(shown.lines().count(), 2, "{shown:?}");
        assert!(!shown.contains(KEY), "{shown}");
        shown
    }

    fn notices(&self) -> Vec<&str> {
        self.chunks
            .iter()
            .filter_map(|c| match c {
                StreamItem::Notice(n) => Some(n.as_str()),
                _ => None,
            })
            .collect()
    }

    fn text(&self) -> String {
        let text = |c: &StreamItem| match c {
            StreamItem::Text(t) => Some(t.clone()),
            _ => None,
        };
        self.chunks.iter().filter_map(text).collect()
    }
}

impl Outcome {
    fn native(&self) -> Option<Arc<NativeAnswer>> {
        self.chunks.iter().find_map(|c| match c {
            StreamItem::Native(native) => Some(native.clone()),
            _ => None,
        })
    }

    fn reasoning(&self) -> String {
        let text = |c: &StreamItem| match c {
            StreamItem::Reasoning(t) => Some(t.clone()),
            _ => None,
        };
        self.chunks.iter().filter_map(text).collect()
    }

    /// The conversation with this answer and a result for each of its calls.
    fn follow(&self, mut messages: Vec<ChatMessage>) -> Vec<ChatMessage> {
        let calls = self.calls();
        let results: Vec<ChatMessage> = calls
            .iter()
            .map(|call| {
                ChatMessage::Tool(ToolResult {
                    id: call.id.clone(),
                    name: call.name.clone(),
                    text: format!("result of {}", call.id),
                    ..ToolResult::default()
                })
            })
            .collect();
        messages.push(ChatMessage::Assistant(AssistantMessage {
            text: self.text(),
            calls,
            native: self.native(),
        }));
        messages.extend(results);
        messages
    }
}

/// Sends a prompt to a provider that answers with `script` once.
async fn ask_once(script: Script) -> Outcome {
    let provider = Provider::start([script]);
    ask(&broker(), &endpoint(&provider.base_url())).await
}

/// Sends a prompt that is answered with an event stream of these parts.
async fn ask_events<T: Into<Part>>(parts: impl IntoIterator<Item = T>) -> Outcome {
    ask_once(Script::events(parts)).await
}

/// Runs blocking code without blocking the client, which uses the same runtime.
async fn blocking<T: Send + 'static>(task: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(task).await.unwrap()
}

async fn ask(broker: &Broker, endpoint: &ModelEndpoint) -> Outcome {
    ask_with(broker, endpoint, &prompt(), &[]).await
}

async fn ask_with(
    broker: &Broker,
    endpoint: &ModelEndpoint,
    messages: &[ChatMessage],
    tools: &[ToolDefinition],
) -> Outcome {
    let (sender, mut receiver) = mpsc::channel(64);
    let cancel = CancellationToken::new();
    let answer = async move {
        let result = broker
            .stream(endpoint, messages, tools, &permit(), &cancel, &sender)
            .await;
        drop(sender);
        result
    };
    let collect = async {
        let mut chunks = Vec::new();
        while let Some(chunk) = receiver.recv().await {
            chunks.push(chunk);
        }
        chunks
    };
    let (result, chunks) = tokio::join!(answer, collect);
    Outcome { result, chunks }
}

/// A permit without a limit.
fn permit() -> SpendingPermit {
    let bound = RequestBound {
        price: None,
        prompt_tokens: 0,
        answer_tokens: 0,
    };
    budget::decide(&[None; 4], &[0.0; 4], bound).expect("no budget")
}
