use proptest::prelude::*;

use super::super::ChatAnswer;
use super::*;
use crate::broker::provider::AnswerCodec;
use crate::broker::sse::SseEvent;
use crate::chat::StreamItem;

/// Events of text in the form in which providers send them, padding included.
const REAL_FORMS: &[&str] = &[
    // OpenAI pads each event to a random length.
    r#"{"id":"c-1","object":"chat.completion.chunk","created":1,"model":"m","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":" the"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"x7Qw2"}"#,
    // Mistral.
    r#"{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" the"},"finish_reason":null,"logprobs":null}],"p":"abcdefghij"}"#,
    // Random white space before the last brace.
    r#"{"choices":[{"index":0,"delta":{"content":" the"}}]            }"#,
    // OpenRouter.
    r#"{"id":"gen-1","provider":"P","model":"p/m","object":"chat.completion.chunk","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":" the","reasoning":null},"finish_reason":null,"native_finish_reason":null,"logprobs":null}]}"#,
    // llama.cpp, with running counts.
    r#"{"choices":[{"finish_reason":null,"index":0,"delta":{"content":" the"}}],"created":1763800000,"id":"chatcmpl-1","model":"m","system_fingerprint":"b1-2","object":"chat.completion.chunk","timings":{"prompt_n":1,"predicted_n":17,"predicted_ms":12.25e1,"draft":[]}}"#,
    // Log probabilities, and an escape in the text.
    r#"{"choices":[{"index":0,"delta":{"content":" the","tool_calls":null,"refusal":null},"logprobs":{"content":[{"token":" the","logprob":-0.5,"bytes":[32,116],"top_logprobs":[]}]}}]}"#,
    "{\r\n \"choices\" : [ {\t\"delta\" : { \"content\" : \"\\u0020the\" } } ]\n}\n",
];

#[test]
fn events_of_real_providers_take_the_short_way() {
    for data in REAL_FORMS {
        let event = TextEvent::scan(data.as_bytes());
        assert_eq!(event.map(|e| e.text).as_deref(), Some(" the"), "{data}");
    }
    for (delta, text, reasoning) in [
        (r#""content":"é👩‍💻""#, "é👩‍💻", ""),
        (r#""content":"\"q\"\n\ud83d\ude00""#, "\"q\"\n😀", ""),
        (r#""content":null,"reasoning_content":"hm""#, "", "hm"),
        (r#""reasoning":"hm","reasoning_content":"hm""#, "", "hm"),
        (r#""reasoning":"hm","content":"a""#, "a", "hm"),
        (r#""role":"assistant","content":"""#, "", ""),
    ] {
        let data = format!(r#"{{"choices":[{{"delta":{{{delta}}}}}]}}"#);
        let event = TextEvent::scan(data.as_bytes()).unwrap();
        assert_eq!((&*event.text, &*event.reasoning), (text, reasoning));
    }
}

#[test]
fn events_with_more_than_text_are_left_to_the_parser() {
    for data in [
        "",
        "[DONE]",
        "{}",
        r#"{"choices":[]}"#,
        r#"{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}"#,
        r#"{"choices":[{"delta":{"content":"a","refusal":"b"}}]}"#,
        r#"{"choices":[{"delta":{"content":["a"]}}]}"#,
        r#"{"choices":[{"delta":{"content":"a"}},{"index":1}]}"#,
        r#"{"choices":[{"index":1,"delta":{"content":"a"}}]}"#,
        r#"{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":1}}"#,
        r#"{"choices":[{"delta":{"content":"a"}}],"error":null}"#,
        r#"{"choices":[{"delta":{"content":"a","tool_calls":[{"id":"1"}]}}]}"#,
        r#"{"choices":[{"delta":{"content":"a","content":"b"}}]}"#,
        r#"{"choices":[{"delta":{"content":"a"}}],"choices":[]}"#,
        r#"{"choices":[{"delta":{"content":"\ud83d"}}]}"#,
        r#"{"choices":[{"delta":{"content":"\q"}}]}"#,
        r#"{"choices":[{"delta":{"content":"a"}}],"p":01}"#,
        r#"{"choices":[{"delta":{"content":"a"}}],"err\u006fr":"b"}"#,
        r#"{"choices":[{"delta":{"content":"a"}}]}}"#,
    ] {
        assert_eq!(TextEvent::scan(data.as_bytes()), None, "{data}");
    }
    let nested = format!(
        r#"{{"choices":[{{"delta":{{}}}}],"p":{}{}}}"#,
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    assert_eq!(TextEvent::scan(nested.as_bytes()), None);
}

/// State and chunks after `data`, in an answer that knows the model already or not yet.
fn outcome(
    data: &[u8],
    model: bool,
    take: impl Fn(
        &mut ChatAnswer,
        &SseEvent<'_>,
        &mut Vec<StreamItem>,
    ) -> Result<(), super::super::StreamError>,
) -> String {
    let mut answer = ChatAnswer::default();
    let mut chunks = Vec::new();
    if model {
        let first = SseEvent {
            name: b"",
            data: br#"{"model":"m","choices":[]}"#,
            id: b"",
        };
        answer.parse(&first, &mut chunks).unwrap();
    }
    let event = SseEvent {
        name: b"",
        data,
        id: b"",
    };
    let result = take(&mut answer, &event, &mut chunks);
    format!("{result:?} {answer:?} {chunks:?}")
}

/// Checks that an event means the same with the scan and without it.
fn assert_same(data: &[u8]) {
    for model in [false, true] {
        assert_eq!(
            outcome(data, model, <ChatAnswer as AnswerCodec>::event),
            outcome(data, model, ChatAnswer::parse),
            "{}",
            String::from_utf8_lossy(data)
        );
    }
}

#[test]
fn a_changed_byte_means_the_same_to_both() {
    for data in REAL_FORMS {
        let data = data.as_bytes();
        for at in 0..data.len() {
            assert_same(&data[..at]);
            let mut shorter = data.to_vec();
            shorter.remove(at);
            assert_same(&shorter);
            for byte in *b"\"\\{}[],:0 n\x01\xFF" {
                let mut changed = data.to_vec();
                changed[at] = byte;
                assert_same(&changed);
                changed = data.to_vec();
                changed.insert(at, byte);
                assert_same(&changed);
            }
        }
    }
}

/// JSON text of a value that no key expects in particular, now and then broken.
fn any_value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("-0.5e+3".to_owned()),
        Just("0".to_owned()),
        Just("\"\"".to_owned()),
        Just("01".to_owned()),
        Just("1e999".to_owned()),
        Just(r#""\ud83d""#.to_owned()),
        Just(r#""a\n\"\\""#.to_owned()),
        "[a-zA-Z0-9é ]{0,20}".prop_map(|text| format!("\"{text}\"")),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3)
                .prop_map(|items| format!("[{}]", items.join(","))),
            proptest::collection::vec((key(), inner), 0..3).prop_map(object),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("content".to_owned()),
        Just("obfuscation".to_owned()),
        Just("p".to_owned()),
        Just("choices".to_owned()),
        Just("delta".to_owned()),
        Just(r"m\u006fdel".to_owned()),
        "[a-z_]{0,8}",
    ]
}

fn object(members: Vec<(String, String)>) -> String {
    let members: Vec<String> = members
        .into_iter()
        .map(|(key, value)| format!("\"{key}\":{value}"))
        .collect();
    format!("{{{}}}", members.join(","))
}

/// An object in any order, of `known` keys, some of them missing, with `any` others.
fn shuffled(known: Vec<(&'static str, BoxedStrategy<String>)>) -> impl Strategy<Value = String> {
    let known: Vec<_> = known
        .into_iter()
        .map(|(key, value)| (Just(key.to_owned()), value, 0..12))
        .collect();
    let other = proptest::collection::vec((key(), any_value()), 0..3);
    (known, other)
        .prop_map(|(known, other)| {
            let known = known
                .into_iter()
                .flat_map(|(key, value, times)| match times {
                    0 => vec![],
                    1 => vec![(key.clone(), value.clone()), (key, value)],
                    _ => vec![(key, value)],
                });
            known.chain(other).collect::<Vec<_>>()
        })
        .prop_shuffle()
        .prop_map(object)
}

fn one_of(values: &'static [&'static str]) -> BoxedStrategy<String> {
    let usual = proptest::sample::select(values).prop_map(str::to_owned);
    prop_oneof![9 => usual, 1 => any_value()].boxed()
}

fn event() -> impl Strategy<Value = String> {
    let texts = &["\"a\"", r#""\u00e9\n""#, "\"\"", "null", "\"👩‍💻\""];
    let delta = shuffled(vec![
        ("content", one_of(texts)),
        ("reasoning", one_of(&["null", "\"\"", "\"r\""])),
        ("reasoning_content", one_of(&["null", "\"c\""])),
        ("refusal", one_of(&["null", "null", "\"no\""])),
        ("tool_calls", one_of(&["null", "[]"])),
    ]);
    let choice = shuffled(vec![
        ("index", one_of(&["0", "0", "null", "1"])),
        ("delta", delta.boxed()),
        ("finish_reason", one_of(&["null", "null", "\"stop\""])),
    ]);
    let choices = proptest::collection::vec(choice, 0..3)
        .prop_map(|choices| format!("[{}]", choices.join(",")));
    let top = shuffled(vec![
        ("model", one_of(&["\"m\"", "\"n\"", "\"\""])),
        ("choices", choices.boxed()),
        ("usage", one_of(&["null", "{\"prompt_tokens\":1}"])),
    ]);
    (top, "[ \n\t]{0,3}").prop_map(|(event, space)| {
        let event = event.replace("\":", &format!("\"{space}:{space}"));
        format!("{space}{event}{space}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]
    #[test]
    fn any_event_means_the_same_to_scan_and_parser(event in event()) {
        assert_same(event.as_bytes());
    }
}
