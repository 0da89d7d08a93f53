use std::time::Duration;

use super::super::quirks::ServerQuirks;
use super::*;
use crate::broker::ModelEndpoint;
use crate::broker::wire_names::WireNames;
use crate::chat::ChatMessage;
use crate::chat::Dialect;

fn endpoint() -> ModelEndpoint {
    ModelEndpoint {
        dialect: Dialect::Chat,
        is_mistral: false,
        base_url: "http://h/v1".to_owned(),
        model: "m".to_owned(),
        key: None,
        headers: Vec::new(),
        temperature: Some(0.5),
        max_tokens: Some(9),
        idle_timeout: Duration::from_secs(1),
        thinks: false,
        use_tool_role: true,
        images: false,
        key_name: None,
    }
}

fn body(quirks: ServerQuirks) -> String {
    let messages = [
        ChatMessage::System("s".to_owned()),
        ChatMessage::user("a \"b\"\n"),
    ];
    String::from_utf8(
        request_body(&endpoint(), &messages, &[], &WireNames::default(), quirks).unwrap(),
    )
    .unwrap()
}

/// Parses a list of `data:` bodies.
fn read(
    events: &[&str],
) -> (
    ChatAnswer,
    Vec<StreamItem>,
    std::result::Result<(), StreamError>,
) {
    let (mut answer, mut out) = (ChatAnswer::default(), Vec::new());
    for data in events {
        let event = SseEvent {
            name: b"",
            data: data.as_bytes(),
            id: b"",
        };
        if let Err(fault) = answer.event(&event, &mut out) {
            return (answer, out, Err(fault));
        }
    }
    (answer, out, Ok(()))
}

fn text(events: &[&str]) -> Vec<StreamItem> {
    let (_, out, result) = read(events);
    assert_eq!(result, Ok(()), "{events:?}");
    out
}

fn says(t: &str) -> StreamItem {
    StreamItem::Text(t.to_owned())
}

#[test]
fn a_request_holds_only_what_is_set() {
    assert_eq!(
        body(ServerQuirks::default()),
        r#"{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"a \"b\"\n"}],"stream":true,"stream_options":{"include_usage":true},"temperature":0.5,"max_tokens":9}"#
    );
    let quirks = ServerQuirks {
        no_stream_options: true,
        max_completion_tokens: true,
        ..ServerQuirks::default()
    };
    assert!(
        body(quirks).ends_with(r#""stream":true,"temperature":0.5,"max_completion_tokens":9}"#)
    );
}

#[test]
fn quirks_are_learned_once() {
    let none = ServerQuirks::default();
    let refusal = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.";
    let learned = none
        .learn(&endpoint(), &WireNames::default(), refusal)
        .unwrap();
    assert!(learned.max_completion_tokens && !learned.no_stream_options);
    assert_eq!(
        learned.learn(&endpoint(), &WireNames::default(), refusal),
        None
    );
    let both = learned
        .learn(&endpoint(), &WireNames::default(), "extra: stream_options")
        .unwrap();
    assert!(both.max_completion_tokens && both.no_stream_options);
    assert_eq!(
        none.learn(&endpoint(), &WireNames::default(), "model is wrong"),
        None
    );
    let mut unlimited = endpoint();
    unlimited.max_tokens = None;
    assert_eq!(none.learn(&unlimited, &WireNames::default(), refusal), None);
}

#[test]
fn a_refusal_of_dots_is_learned_if_dots_were_sent() {
    let none = ServerQuirks::default();
    let dotted = WireNames::new(["fs.read"], [], true);
    for refusal in [
        "Invalid 'tools[0].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
        "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'",
        "Function name was fs.read but must be a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum length of 64.",
    ] {
        let learned = none.learn(&endpoint(), &dotted, refusal).unwrap();
        assert!(learned.no_dots);
        assert_eq!(learned.learn(&endpoint(), &dotted, refusal), None);
        assert_eq!(
            none.learn(&endpoint(), &WireNames::default(), refusal),
            None
        );
    }
    assert_eq!(none.learn(&endpoint(), &dotted, "no such model name"), None);
}

#[test]
fn the_forms_of_a_delta() {
    let delta = |d: &str| format!(r#"{{"choices":[{{"index":0,"delta":{d}}}]}}"#);
    for (form, expected) in [
        ("{}", ""),
        ("null", ""),
        (r#"{"role":"assistant"}"#, ""),
        (r#"{"content":null}"#, ""),
        (r#"{"content":""}"#, ""),
        (r#"{"content":"a"}"#, "a"),
        (r#"{"content":"\u00e9\n\ud83d\ude00"}"#, "é\n😀"),
        (
            r#"{"content":[{"type":"text","text":"b"},{"type":"x"}]}"#,
            "b",
        ),
        (r#"{"refusal":"no"}"#, "no"),
        (r#"{"content":7,"new":{"deep":[1]},"tool_calls":[]}"#, ""),
    ] {
        let expected: Vec<StreamItem> = [says(expected)]
            .into_iter()
            .filter(|_| !expected.is_empty())
            .collect();
        assert_eq!(text(&[&delta(form)]), expected, "{form}");
    }
}

#[test]
fn text_is_joined_and_reasoning_kept_apart() {
    let out = text(&[
        r#"{"choices":[{"delta":{"reasoning_content":"hm","reasoning":"hm"}}]}"#,
        r#"{"choices":[{"delta":{"reasoning":"m"}}]}"#,
        r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"?"}]}]}}]}"#,
        r#"{"choices":[{"delta":{"content":"a"}}]}"#,
        r#"{"choices":[{"delta":{"content":"b"}}]}"#,
    ]);
    assert_eq!(out, [StreamItem::Reasoning("hmm?".to_owned()), says("ab")]);
}

#[test]
fn only_the_choice_of_index_0_counts() {
    let two = r#"{"choices":[{"index":1,"delta":{"content":"x"},"finish_reason":"length"},{"index":0,"delta":{"content":"a"}}]}"#;
    let (answer, out, _) = read(&[two, r#"{"choices":[{"index":2,"delta":{"content":"y"}}]}"#]);
    assert_eq!(out, [says("a")]);
    assert_eq!(answer.progress.finish, None);
}

#[test]
fn the_model_is_reported_once_and_the_last_usage_counts() {
    let (answer, out, _) = read(&[
        r#"{"model":"gpt","choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}"#,
        r#"{"model":"gpt","choices":[{"delta":{},"finish_reason":"stop"}],"usage":null}"#,
        r#"{"model":"gpt","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}"#,
        "[DONE]",
        "whatever follows",
    ]);
    assert_eq!(out, [says("a"), StreamItem::Model("gpt".to_owned())]);
    assert_eq!(answer.progress.usage.map(|u| u.completion_tokens), Some(2));
    assert_eq!(
        (answer.progress.finish, answer.progress.done),
        (Some(FinishReason::Stop), true)
    );
}

#[test]
fn finish_reasons() {
    for (reason, expected) in [
        (r#""stop""#, Some(FinishReason::Stop)),
        (r#""eos""#, Some(FinishReason::Stop)),
        (r#""length""#, Some(FinishReason::Length)),
        (r#""content_filter""#, Some(FinishReason::ContentFilter)),
        (r#""""#, None),
        ("null", None),
    ] {
        let data = format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":{reason}}}]}}"#);
        assert_eq!(read(&[&data]).0.progress.finish, expected, "{reason}");
    }
}

#[test]
fn temporary_errors_have_their_status() {
    for (error, status) in [
        (r#"{"message":"m","code":503}"#, 503),
        (r#"{"message":"m","code":"429"}"#, 429),
        (r#"{"message":"m","type":"server_error"}"#, 500),
        (r#"{"message":"m","type":"overloaded_error"}"#, 529),
        (r#"{"message":"m","code":14,"status":"UNAVAILABLE"}"#, 503),
    ] {
        let data = format!(r#"{{"error":{error}}}"#);
        let expected = Err(StreamError::Temporary(status, "m".to_owned()));
        assert_eq!(read(&[&data]).2, expected, "{error}");
    }
}

#[test]
fn errors_in_every_form() {
    for (data, words) in [
        (r#"{"error":{"message":"refused","code":403}}"#, "refused"),
        (r#"{"error":"plain"}"#, "plain"),
        (r#"{"object":"error","message":"old vLLM"}"#, "old vLLM"),
        (r#"{"detail":[{"loc":["a"],"msg":"FastAPI"}]}"#, "FastAPI"),
        (r#"{"error":{"code":5}}"#, r#"{"code":5}"#),
        (
            r#"{"choices":[{"delta":{"content":""},"finish_reason":"error"}],"error":{"message":"upstream"}}"#,
            "upstream",
        ),
    ] {
        assert_eq!(
            read(&[data]).2,
            Err(StreamError::Server(words.to_owned())),
            "{data}"
        );
    }
    let event = SseEvent {
        name: b"error",
        data: b"not even JSON",
        id: b"",
    };
    assert_eq!(
        ChatAnswer::default().event(&event, &mut Vec::new()),
        Err(StreamError::Server("not even JSON".to_owned()))
    );
}

#[test]
fn other_events_are_ignored_or_refused() {
    assert_eq!(text(&["", r#"{"type":"ping"}"#, r#"{"error":null}"#]), []);
    for bad in ["{", "nonsense", r#"{"choices":"x"}"#] {
        assert_eq!(
            read(&[bad]).2,
            Err(StreamError::BadJson(bad.to_owned())),
            "{bad}"
        );
    }
    // Nested deeply enough to overflow the stack of a recursive parser.
    let deep = format!(r#"{{"choices":{}"#, "[".repeat(100_000));
    assert!(matches!(read(&[&deep]).2, Err(StreamError::BadJson(_))));
}

#[test]
fn invalid_utf8_is_shown_as_such() {
    let event = SseEvent {
        name: b"",
        data: b"{\"choices\":[{\"delta\":{\"content\":\"a\xFFb\"}}]}",
        id: b"",
    };
    let mut out = Vec::new();
    ChatAnswer::default().event(&event, &mut out).unwrap();
    assert_eq!(out, [says("a\u{FFFD}b")]);
}

#[test]
fn a_whole_completion_is_an_answer() {
    let (mut answer, mut out) = (ChatAnswer::default(), Vec::new());
    let body = br#"{"object":"chat.completion","model":"gpt","choices":[{"index":0,"message":{"role":"assistant","content":"all"},"finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
    answer.whole(body, &mut out).unwrap();
    assert_eq!(out, [says("all"), StreamItem::Model("gpt".to_owned())]);
    assert_eq!(
        (answer.progress.finish, answer.progress.done),
        (Some(FinishReason::Length), true)
    );
    let other = ChatAnswer::default().whole(br#"{"status":"ok"}"#, &mut out);
    assert_eq!(
        other,
        Err(StreamError::Server(r#"{"status":"ok"}"#.to_owned()))
    );
}

#[test]
fn the_event_name_and_done_count_for_events_of_text_as_well() {
    let plain = |t: &str| format!(r#"{{"model":"m","choices":[{{"delta":{{"content":"{t}"}}}}]}}"#);
    let (a, b, c) = (plain("a"), plain("b"), plain("\\n\\\""));
    let stop = r#"{"choices":[{"delta":{"content":"!"},"finish_reason":"stop"}]}"#;
    let (answer, out, _) = read(&[&a, &b, &c, stop, &plain("?"), "[DONE]", &plain("late")]);
    let expected = [
        says("a"),
        StreamItem::Model("m".to_owned()),
        says("b\n\"!?"),
    ];
    assert_eq!(out, expected);
    assert_eq!(answer.progress.finish, Some(FinishReason::Stop));
    let error = SseEvent {
        name: b"error",
        data: b.as_bytes(),
        id: b"",
    };
    assert!(
        ChatAnswer::default()
            .event(&error, &mut Vec::new())
            .is_err()
    );
}

#[test]
fn common_text_is_borrowed() {
    let body: ChatEvent<'_> =
        serde_json::from_str(r#"{"model":"m","choices":[{"delta":{"content":"plain"}}]}"#).unwrap();
    assert!(matches!(body.model.unwrap().text, Cow::Borrowed("m")));
    let delta = body.choices.unwrap().remove(0).delta.unwrap();
    assert!(matches!(delta.content.text, Cow::Borrowed("plain")));
}
