//! Successful answers, in the forms that servers send.

use super::*;
use crate::fakes::provider::{MODEL, finish_event, text_event};

#[tokio::test]
async fn answer_streams_with_model_and_usage() {
    let provider = Provider::start([Script::tokens(["Paris", ", of ", "course"])]);
    let outcome = ask(&broker(), &endpoint(&provider.base_url())).await;
    assert_eq!(outcome.result.as_ref().unwrap(), &FinishReason::Stop);
    assert_eq!(outcome.text(), "Paris, of course");
    let model = StreamItem::Model(MODEL.to_owned());
    assert!(outcome.chunks.contains(&model), "{outcome:?}");
    let usage = StreamItem::Usage(TokenUsage {
        prompt_tokens: 7,
        completion_tokens: 3,
        ..TokenUsage::default()
    });
    let last = &outcome.chunks[outcome.chunks.len() - 2..];
    assert_eq!(last, [usage, StreamItem::Done(FinishReason::Stop)]);
}

#[tokio::test]
async fn reasoning_in_tags_is_no_text() {
    let provider = Provider::start([Script::tokens(["<th", "ink>a", "</think>", "\n\nb"])]);
    let outcome = ask(&broker(), &endpoint(&provider.base_url())).await;
    assert_eq!(
        (outcome.reasoning(), outcome.text()),
        ("a".into(), "b".into())
    );
}

#[tokio::test]
async fn connection_is_reused() {
    for client in CLIENTS {
        let provider = Provider::start((0..5).map(|i| Script::tokens([i.to_string()]))).key(KEY);
        let (broker, tasks) = tracked();
        for i in 0..5 {
            let outcome = ask(&broker, &client(&provider)).await;
            assert_eq!(outcome.text(), i.to_string());
            tasks.wait().await;
        }
        assert_eq!(provider.connections(), 1);
        assert!(provider.requests().iter().all(|r| r.connection == 0));
    }
}

#[tokio::test]
async fn body_left_open_after_the_answer_causes_no_delay() {
    for client in CLIENTS {
        let parts = [
            text_event("ok").as_str().into(),
            finish_event("stop").as_str().into(),
            "data: [DONE]\n\n".into(),
            Part::Gate("end"),
        ];
        let provider = Provider::start([Script::events(parts)]).key(KEY);
        let (broker, tasks) = tracked();
        assert_eq!(ask(&broker, &client(&provider)).await.text(), "ok");
        // The broker waits for the end of the body after the answer, for a limited time.
        assert_eq!(tasks.len(), 1);
        tasks.wait().await;
        blocking(move || provider.wait_closed(1)).await;
    }
}

#[tokio::test]
async fn settings_and_key_are_sent() {
    let provider = Provider::start([Script::tokens(["ok"])]).key(KEY);
    let mut endpoint = endpoint(&provider.base_url());
    endpoint.key = Some(Secret::new(KEY));
    endpoint.temperature = Some(0.5);
    endpoint.max_tokens = Some(100);
    endpoint.headers = vec![("X-Team".to_owned(), "blue".to_owned())];
    assert_eq!(ask(&broker(), &endpoint).await.text(), "ok");
    let request = &provider.requests()[0];
    assert_eq!(request.header("x-team"), Some("blue"));
    assert_eq!(request.json["model"], "test-model");
    assert_eq!(request.json["temperature"], 0.5);
    assert_eq!(request.json["max_tokens"], 100);
    assert_eq!(request.json["messages"][1]["content"], "hello");
}

#[tokio::test]
async fn many_tokens_are_delivered_in_few_chunks() {
    for client in CLIENTS {
        let tokens: Vec<String> = (0..20_000).map(|i| format!("t{i} ")).collect();
        let script = Script::tokens(&tokens);
        for script in [script.clone(), script.buffered()] {
            let provider = Provider::start([script]).key(KEY);
            let outcome = ask(&broker(), &client(&provider)).await;
            assert_eq!(outcome.text(), tokens.concat());
            let sent = outcome.chunks.len();
            assert!(sent < 2_000, "{sent} chunks for 20,000 tokens");
        }
    }
}

#[tokio::test]
async fn each_token_is_delivered_without_waiting_for_the_next() {
    let provider = Arc::new(Provider::start([Script::events([
        Part::from(text_event("one").as_str()),
        Part::Gate("one"),
        Part::from(text_event("two").as_str()),
        Part::Gate("two"),
        Part::from(finish_event("stop").as_str()),
    ])]));
    let (broker, endpoint) = (broker(), endpoint(&provider.base_url()));
    let (sender, mut receiver) = mpsc::channel(8);
    let request = tokio::spawn(async move {
        let cancel = CancellationToken::new();
        broker
            .stream(&endpoint, &prompt(), &[], &permit(), &cancel, &sender)
            .await
    });
    for word in ["one", "two"] {
        loop {
            match receiver.recv().await.unwrap() {
                StreamItem::Text(text) => break assert_eq!(text, word),
                other => assert!(matches!(other, StreamItem::Model(_)), "{other:?}"),
            }
        }
        provider.open(word);
    }
    assert_eq!(request.await.unwrap().unwrap(), FinishReason::Stop);
}

#[tokio::test]
async fn stream_split_at_every_byte() {
    let stream = [
        ": OPENROUTER PROCESSING\r\n\r\n",
        "data:{\"choices\":[{\"delta\":{\"content\":\"é👩‍💻\"}}]}\r\n\r\n",
        "data: {\"choices\":[],\ndata: \"usage\":null}\n\n",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\r\r",
        "data: [DONE]\n\n",
    ]
    .concat();
    let bytes = stream.as_bytes();
    let provider = Provider::start((0..=bytes.len()).map(|i| {
        // An empty chunk would end the body.
        let pieces = [&bytes[..i], &bytes[i..]];
        let parts = pieces.iter().filter(|p| !p.is_empty());
        Script::events(parts.map(|p| Part::Bytes(p.to_vec())))
    }));
    let (broker, endpoint) = (broker(), endpoint(&provider.base_url()));
    for i in 0..=bytes.len() {
        let outcome = ask(&broker, &endpoint).await;
        assert_eq!(
            outcome.result.as_ref().unwrap(),
            &FinishReason::Stop,
            "at {i}"
        );
        assert_eq!(outcome.text(), "é👩‍💻", "at {i}");
    }
}

#[tokio::test]
async fn invalid_utf8_is_replaced() {
    let mut event = text_event("a@b").into_bytes();
    let at = event.iter().position(|b| *b == b'@').unwrap();
    event[at] = 0xFF;
    let finish = finish_event("stop").into_bytes();
    let outcome = ask_events([Part::Bytes(event), Part::Bytes(finish)]).await;
    assert_eq!(outcome.text(), "a\u{FFFD}b");
    assert_eq!(outcome.result.unwrap(), FinishReason::Stop);
}

#[tokio::test]
async fn answer_without_done_is_complete() {
    let outcome = ask_events([text_event("all").as_str(), &finish_event("length")]).await;
    assert_eq!(outcome.text(), "all");
    assert_eq!(outcome.result.unwrap(), FinishReason::Length);
}

#[tokio::test]
async fn answer_without_a_finish_reason_is_complete() {
    let outcome = ask_events([text_event("all").as_str(), "data: [DONE]\n\n"]).await;
    assert_eq!(outcome.result.unwrap(), FinishReason::Stop);
}

#[tokio::test]
async fn finished_answer_survives_a_lost_connection() {
    let outcome = ask_events([
        Part::from(text_event("all").as_str()),
        Part::from(finish_event("stop").as_str()),
        Part::Cut,
    ])
    .await;
    assert_eq!(outcome.text(), "all");
    assert_eq!(outcome.result.unwrap(), FinishReason::Stop);
}

#[tokio::test]
async fn finished_answer_does_not_wait_for_the_end_of_the_body() {
    let provider = Provider::start([Script::events([
        Part::from(text_event("all").as_str()),
        Part::from(finish_event("stop").as_str()),
        Part::Gate("never"),
    ])]);
    // A wait for the end would fail after the idle timeout, which is long enough for a provider on a busy machine.
    let outcome = ask(&broker(), &endpoint(&provider.base_url())).await;
    assert_eq!(outcome.text(), "all");
    assert_eq!(outcome.result.unwrap(), FinishReason::Stop);
}

#[tokio::test]
async fn completion_without_streaming_is_accepted() {
    let body = r#" {"model":"m","choices":[{"message":{"content":"whole"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
    for script in [
        Script::status(200, body),
        Script::Body("text/event-stream", vec![body.into()]),
        Script::Body(
            "",
            vec![body[..1].into(), body[1..2].into(), body[2..].into()],
        ),
    ] {
        let outcome = ask_once(script).await;
        assert_eq!(outcome.text(), "whole");
        assert_eq!(outcome.result.unwrap(), FinishReason::Stop);
    }
}

#[tokio::test]
async fn stream_of_any_content_type_is_accepted() {
    for content_type in ["application/json", "text/plain", "application/octet-stream"] {
        let parts = vec![
            "\n\n".into(),
            text_event("hi").as_str().into(),
            finish_event("stop").as_str().into(),
        ];
        let outcome = ask_once(Script::Body(content_type, parts)).await;
        assert_eq!(outcome.text(), "hi", "{content_type}");
    }
}

#[tokio::test]
async fn reasoning_is_separate_from_the_text() {
    let thought = text_event("hm").replace("\"content\"", "\"reasoning_content\"");
    let outcome = ask_events([thought.as_str(), &text_event("yes"), &finish_event("stop")]).await;
    assert_eq!(outcome.text(), "yes");
    let reasoning = StreamItem::Reasoning("hm".to_owned());
    assert!(outcome.chunks.contains(&reasoning), "{outcome:?}");
}

/// Streams until the gate, ends the request with `end`, and waits until the server sees the disconnect.
async fn closes_when(end: fn(CancellationToken, mpsc::Receiver<StreamItem>)) {
    for client in CLIENTS {
        let script = [Part::from(text_event("one").as_str()), Part::Gate("never")];
        let provider = Arc::new(Provider::start([Script::events(script)]).key(KEY));
        let (broker, endpoint) = (broker(), client(&provider));
        let (sender, mut receiver) = mpsc::channel(8);
        let cancel = CancellationToken::new();
        let token = cancel.clone();
        let request = tokio::spawn(async move {
            broker
                .stream(&endpoint, &prompt(), &[], &permit(), &token, &sender)
                .await
        });
        let first = receiver.recv().await.unwrap();
        assert_eq!(first, StreamItem::Text("one".to_owned()));
        let stuck = Arc::clone(&provider);
        blocking(move || stuck.wait_gate("never")).await;
        end(cancel, receiver);
        assert_eq!(request.await.unwrap().unwrap(), FinishReason::Interrupted);
        blocking(move || provider.wait_closed(1)).await;
    }
}

#[tokio::test]
async fn cancelling_closes_the_upstream_connection() {
    closes_when(|cancel, receiver| {
        cancel.cancel();
        drop(receiver);
    })
    .await;
}

#[tokio::test]
async fn dropping_the_receiver_closes_the_upstream_connection() {
    closes_when(|_, receiver| drop(receiver)).await;
}

#[tokio::test]
async fn cancelling_before_the_answer_closes_the_upstream_connection() {
    let provider = Arc::new(Provider::start([Script::Hang]));
    let (broker, endpoint) = (broker(), endpoint(&provider.base_url()));
    let (sender, receiver) = mpsc::channel(8);
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    let request = tokio::spawn(async move {
        broker
            .stream(&endpoint, &prompt(), &[], &permit(), &token, &sender)
            .await
    });
    let asked = Arc::clone(&provider);
    blocking(move || asked.wait_requests(1)).await;
    cancel.cancel();
    assert_eq!(request.await.unwrap().unwrap(), FinishReason::Interrupted);
    blocking(move || provider.wait_closed(1)).await;
    drop(receiver);
}

#[tokio::test]
async fn a_surrogate_pair_split_over_two_events_is_joined_and_half_of_one_replaced() {
    let event =
        |delta: &str| format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n");
    let call = |arguments: &str| {
        event(&format!(
            r#"{{"tool_calls":[{{"index":0,"id":"c","function":{{"name":"x","arguments":"{arguments}"}}}}]}}"#
        ))
    };
    let events = [
        event(r#"{"content":"a\ud83d"}"#),
        event(r#"{"reasoning_content":"\ud83d"}"#),
        event(r#"{"content":""}"#),
        event(r#"{"content":"\ude00b"}"#),
        event(r#"{"reasoning_content":"\ude01"}"#),
        event(r#"{"content":"\ud83dc\ude00d\ud83d\ude02\ud83d"}"#),
        call(r#"{\"e\":\"\ud83d"#),
        call(r#"\ude00\\ud83d\"}"#),
        finish_event("tool_calls"),
    ];
    let events = events.iter().map(|event| Part::from(event.as_str()));
    let provider = Provider::start([Script::events(events)]);
    let outcome = ask(&broker(), &endpoint(&provider.base_url())).await;
    assert_eq!(outcome.text(), "a😀b\u{fffd}c\u{fffd}d😂\u{fffd}");
    let reasoning: String = outcome
        .chunks
        .iter()
        .filter_map(|chunk| match chunk {
            StreamItem::Reasoning(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(reasoning, "😁");
    assert_eq!(outcome.calls()[0].arguments, r#"{"e":"😀\ud83d"}"#);
}
