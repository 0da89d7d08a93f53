//! The broker against a provider that follows a script, over real TCP.

use std::sync::Arc;
use std::time::Duration;

use aish::broker::{Broker, Chunk, Endpoint};
use aish::chat::{Finish, Message, Usage};
use aish::error::Result;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::fakes::provider::{MODEL, Provider, Script};

/// An endpoint at `base_url`, with no more than it needs.
fn endpoint(base_url: &str) -> Endpoint {
    Endpoint {
        base_url: base_url.to_owned(),
        model: "test-model".to_owned(),
        key: None,
        headers: Vec::new(),
        temperature: None,
        max_tokens: None,
        idle_timeout: Duration::from_secs(10),
        key_name: None,
    }
}

fn prompt() -> Vec<Message> {
    vec![
        Message::System("be brief".to_owned()),
        Message::User("hello".to_owned()),
    ]
}

/// A broker that does not pause long before another try.
fn broker() -> Arc<Broker> {
    Arc::new(Broker::with_pause(Duration::from_millis(1)))
}

/// What came of one request.
#[derive(Debug)]
struct Outcome {
    result: Result<Finish>,
    chunks: Vec<Chunk>,
}

impl Outcome {
    fn text(&self) -> String {
        let text = |c: &Chunk| match c {
            Chunk::Text(t) => Some(t.clone()),
            _ => None,
        };
        self.chunks.iter().filter_map(text).collect()
    }
}

async fn ask(broker: &Broker, endpoint: &Endpoint) -> Outcome {
    let (sender, mut receiver) = mpsc::channel(64);
    let cancel = CancellationToken::new();
    let messages = prompt();
    let answer = async move {
        let result = broker.stream(endpoint, &messages, &cancel, &sender).await;
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

#[tokio::test]
async fn an_answer_streams_with_model_and_usage() {
    let provider = Provider::start([Script::tokens(["Paris", ", of ", "course"])]);
    let outcome = ask(&broker(), &endpoint(&provider.base_url())).await;
    assert_eq!(
        outcome.result.as_ref().unwrap(),
        &Finish::Stop,
        "{outcome:?}"
    );
    assert_eq!(outcome.text(), "Paris, of course");
    assert!(outcome.chunks.contains(&Chunk::Model(MODEL.to_owned())));
    assert!(outcome.chunks.contains(&Chunk::Usage(Usage {
        prompt_tokens: 7,
        completion_tokens: 3
    })));
    assert_eq!(outcome.chunks.last(), Some(&Chunk::Done(Finish::Stop)));
}
