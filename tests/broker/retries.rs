//! Which requests are retried.

use std::time::{Instant, SystemTime};

use super::*;
use crate::fakes::provider::text_event;

fn limited(after: &str) -> Script {
    Script::Status(429, vec![("retry-after", after.to_owned())], Vec::new())
}

#[tokio::test]
async fn server_errors_are_retried() {
    for code in [429, 500, 502, 503, 504] {
        let provider = Provider::start([
            Script::status(code, "busy"),
            Script::status(code, "busy"),
            Script::tokens(["at last"]),
        ]);
        let outcome = ask(&broker(), &endpoint(&provider.base_url())).await;
        assert_eq!(outcome.text(), "at last");
        let notices = outcome.notices();
        assert_eq!(notices.len(), 2);
        assert!(
            notices[1].contains("trying again") && notices[1].ends_with("(2 of 3)"),
            "{notices:?}"
        );
    }
}

#[tokio::test]
async fn number_of_retries_is_limited() {
    let provider = Provider::start((0..4).map(|_| Script::status(503, r#"{"detail":"busy"}"#)));
    let outcome = ask(&broker(), &endpoint(&provider.base_url())).await;
    let error = outcome.error();
    assert!(
        error.contains("failed (503) 4 times in a row: busy"),
        "{error}"
    );
}

#[tokio::test]
async fn retry_after_in_seconds_or_as_a_date_is_respected() {
    for date in [false, true] {
        let at = SystemTime::now() + Duration::from_secs(2);
        let after = if date {
            httpdate::fmt_http_date(at)
        } else {
            "1".to_owned()
        };
        let provider = Provider::start([limited(&after), Script::tokens(["ok"])]);
        let start = Instant::now();
        let outcome = ask(&broker(), &endpoint(&provider.base_url())).await;
        assert_eq!(outcome.text(), "ok");
        // A date has a resolution of one second.
        assert!(start.elapsed() > Duration::from_millis(900), "{after}");
        assert!(
            outcome.notices()[0].contains("limits the rate"),
            "{outcome:?}"
        );
    }
}

#[tokio::test]
async fn excessive_retry_after_is_not_respected() {
    let far = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100_000_000));
    for (after, said) in [
        ("31", "asks to wait 31 s"),
        ("3600", "asks to wait 60 minutes"),
        ("99999999999999999999999", "asks to wait more than a year"),
        (&far, "asks to wait more than a year"),
        ("-5", "cannot be read"),
        ("soon", "cannot be read"),
        ("", "cannot be read"),
    ] {
        let error = ask_once(limited(after)).await.error();
        assert!(error.contains(said), "{after:?}: {error}");
    }
}

#[tokio::test]
async fn waiting_for_a_retry_can_be_cancelled() {
    let provider = Provider::start([limited("25")]);
    let (broker, endpoint) = (broker(), endpoint(&provider.base_url()));
    let (sender, mut receiver) = mpsc::channel(8);
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    let start = Instant::now();
    let request = tokio::spawn(async move {
        broker
            .stream(&endpoint, &prompt(), &[], &permit(), &token, &sender)
            .await
    });
    let notice = receiver.recv().await.unwrap();
    assert!(matches!(notice, StreamItem::Notice(_)), "{notice:?}");
    cancel.cancel();
    assert_eq!(request.await.unwrap().unwrap(), FinishReason::Interrupted);
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn started_answer_is_not_retried() {
    let outcome = ask_events([Part::from(text_event("once").as_str()), Part::Cut]).await;
    assert_eq!(outcome.text(), "once");
    assert!(outcome.error().contains("cut off"));
}

#[tokio::test]
async fn connection_closed_while_idle_is_replaced() {
    for client in CLIENTS {
        let provider = Provider::start([
            Script::tokens(["one"]),
            Script::Raw(vec![]),
            Script::tokens(["two"]),
        ])
        .key(KEY);
        let (broker, endpoint) = (broker(), client(&provider));
        assert_eq!(ask(&broker, &endpoint).await.text(), "one");
        assert_eq!(ask(&broker, &endpoint).await.text(), "two");
        assert_eq!(provider.connections(), 2);
    }
}

#[tokio::test]
async fn rejected_stream_options_are_remembered() {
    let provider = Provider::answering(|request| {
        if request.json.get("stream_options").is_some() {
            Script::status(
                422,
                r#"{"detail":[{"loc":["body","stream_options"],"msg":"extra fields not permitted"}]}"#,
            )
        } else {
            Script::tokens(["ok"])
        }
    });
    let (broker, endpoint) = (broker(), endpoint(&provider.base_url()));
    for _ in 0..2 {
        assert_eq!(ask(&broker, &endpoint).await.text(), "ok");
    }
    assert_eq!(provider.requests().len(), 3);
}

#[tokio::test]
async fn required_max_completion_tokens_is_remembered() {
    let provider = Provider::answering(|request| {
        if request.json.get("max_tokens").is_some() {
            Script::status(
                400,
                r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."}}"#,
            )
        } else {
            Script::tokens(["ok"])
        }
    });
    let (broker, mut endpoint) = (broker(), endpoint(&provider.base_url()));
    endpoint.max_tokens = Some(50);
    for _ in 0..2 {
        assert_eq!(ask(&broker, &endpoint).await.text(), "ok");
    }
    let requests = provider.requests();
    assert_eq!(requests.len(), 3);
    assert_eq!(requests[2].json["max_completion_tokens"], 50);
}

#[tokio::test]
async fn repeated_rejections_end_the_request() {
    let provider = Provider::answering(|_| {
        Script::status(
            400,
            "stream_options and max_completion_tokens are not known",
        )
    });
    let (broker, mut endpoint) = (broker(), endpoint(&provider.base_url()));
    endpoint.max_tokens = Some(50);
    let outcome = ask(&broker, &endpoint).await;
    assert!(outcome.error().contains("rejects the request (400)"));
    assert_eq!(provider.requests().len(), 2);
}

/// Some providers have begun their answer with status 200 when they notice that they are overloaded.
#[tokio::test]
async fn overload_before_the_answer_is_retried() {
    let error = |event: &str| Script::events([&*format!("data: {event}\n\n")]);
    for event in [
        r#"{"error":{"code":502,"message":"Provider returned error"}}"#,
        r#"{"error":{"code":"429","message":"slow down"}}"#,
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
    ] {
        let provider = Provider::start([error(event), Script::tokens(["ok"])]);
        let outcome = ask(&broker(), &endpoint(&provider.base_url())).await;
        assert_eq!(outcome.text(), "ok", "{event}");
        assert_eq!(outcome.notices().len(), 1, "{outcome:?}");
    }
    // Not for good, and not after a part of the answer.
    let event = r#"{"error":{"code":502,"message":"Provider returned error"}}"#;
    let provider = Provider::start((0..4).map(|_| error(event)));
    let outcome = ask(&broker(), &endpoint(&provider.base_url())).await;
    assert!(outcome.error().contains("Provider returned error"));
    let begun = [text_event("Part"), format!("data: {event}\n\n")];
    let provider = Provider::start([Script::events(begun.iter().map(String::as_str))]);
    let outcome = ask(&broker(), &endpoint(&provider.base_url())).await;
    assert!(outcome.error().contains("Provider returned error"));
    assert_eq!(outcome.text(), "Part");
    let event = r#"{"error":{"code":400,"message":"no"}}"#;
    let provider = Provider::start([error(event)]);
    assert!(
        ask(&broker(), &endpoint(&provider.base_url()))
            .await
            .error()
            .contains("no")
    );
}

#[tokio::test]
async fn a_used_up_limit_is_not_retried() {
    for code in ["enforced_spend_limit_reached", "insufficient_quota"] {
        let body = format!(r#"{{"error":{{"message":"limit","code":"{code}"}}}}"#);
        let outcome = ask_once(Script::status(429, &body)).await;
        assert!(outcome.error().contains("no credit"), "{code}");
    }
}

#[tokio::test]
async fn rejected_alternatives_at_the_root_of_a_schema_are_remembered() {
    let provider = Provider::answering(|request| {
        let schema = &request.json["tools"][0]["function"]["parameters"];
        if ["anyOf", "oneOf", "allOf"]
            .iter()
            .any(|key| schema.get(key).is_some())
        {
            Script::status(
                400,
                r#"{"error":{"message":"Invalid schema for function 'a': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf' at the top level."}}"#,
            )
        } else {
            Script::tokens(["ok"])
        }
    });
    let tools = [ToolDefinition {
        name: "a.b".to_owned(),
        schema:
            r#"{"type":"object","anyOf":[{"required":["k"]}],"properties":{"k":{"anyOf":[{}]}}}"#
                .to_owned(),
        ..ToolDefinition::default()
    }];
    let (broker, endpoint) = (broker(), endpoint(&provider.base_url()));
    for _ in 0..2 {
        let outcome = ask_with(&broker, &endpoint, &prompt(), &tools).await;
        assert_eq!(outcome.text(), "ok");
    }
    let requests = provider.requests();
    assert_eq!(requests.len(), 3);
    let schema = &requests[2].json["tools"][0]["function"]["parameters"];
    assert_eq!(
        *schema,
        serde_json::json!({"type": "object", "properties": {"k": {"anyOf": [{}]}}})
    );
}
