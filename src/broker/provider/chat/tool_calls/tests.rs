use proptest::prelude::*;

use super::*;

fn add(calls: &mut CallAssembler, piece: &str) -> Result<(), StreamError> {
    calls.add(serde_json::from_str(piece).unwrap(), false)
}

/// The calls that these pieces make: id, name, arguments.
fn made(pieces: &[&str]) -> Vec<(String, String, String)> {
    let mut calls = CallAssembler::default();
    for piece in pieces {
        add(&mut calls, piece).unwrap();
    }
    list(calls.take(&WireNames::default(), &[]))
}

fn list(calls: Vec<ToolCall>) -> Vec<(String, String, String)> {
    let parts = |c: ToolCall| (c.id, c.name, c.arguments);
    calls.into_iter().map(parts).collect()
}

fn call(id: &str, name: &str, arguments: &str) -> (String, String, String) {
    (id.into(), name.into(), arguments.into())
}

#[test]
fn the_order_is_that_of_the_indices() {
    let made = made(&[
        r#"{"index":1,"id":"b","function":{"name":"y","arguments":"{"}}"#,
        r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{"}}"#,
        r#"{"index":1,"function":{"arguments":"}"}}"#,
        r#"{"index":0,"function":{"arguments":" }"}}"#,
    ]);
    assert_eq!(made, [call("a", "x", "{ }"), call("b", "y", "{}")]);
}

#[test]
fn what_is_left_out_or_of_another_type_is_borne() {
    for (piece, expected) in [
        (r#"{"function":{"name":"x"}}"#, call("call_1", "x", "")),
        (
            r#"{"index":null,"id":null,"type":null,"function":{"name":"x","arguments":null}}"#,
            call("call_1", "x", ""),
        ),
        (
            r#"{"id":7,"function":{"name":"x","arguments":""}}"#,
            call("call_1", "x", ""),
        ),
        (
            r#"{"id":"a","function":{"name":null,"arguments":"{}"}}"#,
            call("a", "", "{}"),
        ),
        (
            r#"{"id":"a","function":{"name":"x","arguments":{"k": [1, "é"]}}}"#,
            call("a", "x", r#"{"k": [1, "é"]}"#),
        ),
        (
            r#"{"id":"a","function":{"name":"x","arguments":"\u00e9\n"}}"#,
            call("a", "x", "é\n"),
        ),
        (r#"{"id":"a","function":null}"#, call("a", "", "")),
    ] {
        assert_eq!(made(&[piece]), [expected], "{piece}");
    }
    assert_eq!(
        made(&["{}", r#"{"index":0}"#]),
        [],
        "nothing at all is no call"
    );
}

#[test]
fn an_id_may_come_before_the_name() {
    let name = r#"{"id":"a","function":{"name":"x"}}"#;
    for pieces in [
        [r#"{"id":"a"}"#, name, r#"{"function":{"arguments":"{}"}}"#],
        [
            r#"{"id":"a"}"#,
            name,
            r#"{"id":"a","function":{"arguments":"{}"}}"#,
        ],
    ] {
        assert_eq!(made(&pieces), [call("a", "x", "{}")]);
    }
}

#[test]
fn what_comes_behind_whole_arguments_under_the_same_name_is_another_call() {
    let whole = r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{\"k\":\"}\"}"}}"#;
    assert_eq!(
        made(&[whole, whole]),
        [
            call("a", "x", r#"{"k":"}"}"#),
            call("call_1", "x", r#"{"k":"}"}"#)
        ]
    );
    let half = r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{\"}"}}"#;
    let rest = r#"{"index":0,"id":"a","function":{"name":"x","arguments":"\":1}"}}"#;
    assert_eq!(made(&[half, rest]), [call("a", "x", r#"{"}":1}"#)]);
}

#[test]
fn what_goes_back_with_a_call_stays_as_it_came() {
    let extra = |pieces: &[&str]| -> Vec<Option<String>> {
        let mut calls = CallAssembler::default();
        for piece in pieces {
            add(&mut calls, piece).unwrap();
        }
        let calls = calls.take(&WireNames::default(), &[]);
        calls.into_iter().map(|call| call.extra).collect()
    };
    let signed =
        r#"{"index":0,"id":"a","function":{"name":"x"},"extra_content":{"g": {"s":"\u00e9="}}}"#;
    let plain = r#"{"index":1,"id":"b","function":{"name":"x"},"extra_content":null}"#;
    let later = r#"{"index":1,"extra_content":{"n":1.0}}"#;
    let expected = r#"{"g": {"s":"\u00e9="}}"#;
    assert_eq!(extra(&[signed, plain]), [Some(expected.into()), None]);
    let both = [Some(expected.into()), Some(r#"{"n":1.0}"#.into())];
    assert_eq!(extra(&[signed, plain, later]), both);
    assert_eq!(extra(&[later]), [], "it makes no call");
    let long = format!(r#"{{"id":"a","extra_content":"{}"}}"#, "x".repeat(64 << 10));
    assert!(add(&mut CallAssembler::default(), &long).is_err());
}

#[test]
fn ids_of_the_conversation_are_not_given_again() {
    let said = ["call_1", "call_2", "a"].map(|id| ToolCall {
        id: id.to_owned(),
        name: "x".to_owned(),
        ..ToolCall::default()
    });
    let messages = [ChatMessage::calling(String::new(), said.to_vec())];
    let mut calls = CallAssembler::default();
    for piece in [
        r#"{"function":{"name":"x"}}"#,
        r#"{"id":"a","function":{"name":"x"}}"#,
        r#"{"id":"call_3","function":{"name":"x"}}"#,
    ] {
        add(&mut calls, piece).unwrap();
    }
    let calls = list(calls.take(&WireNames::default(), &messages));
    let ids: Vec<&str> = calls.iter().map(|(id, ..)| id.as_str()).collect();
    assert_eq!(ids, ["call_4", "call_5", "call_3"]);
}

#[test]
fn names_come_back_by_the_table() {
    let names = WireNames::new(["fs.read"], [], false);
    let mut calls = CallAssembler::default();
    for name in ["fs__read", "fs.read", "fs__write"] {
        let piece = format!(r#"{{"function":{{"name":"{name}"}}}}"#);
        add(&mut calls, &piece).unwrap();
    }
    let named: Vec<String> = calls
        .take(&names, &[])
        .into_iter()
        .map(|c| c.name)
        .collect();
    assert_eq!(named, ["fs.read", "fs.read", "fs__write"]);
}

#[test]
fn whole_means_that_no_arguments_are_cut() {
    for (arguments, whole) in [
        ("", false),
        ("{", false),
        (r#"{"a":"}"#, false),
        (r#"{"a":"\\\"}"#, false),
        (r#"{"a":"\\"}"#, true),
        ("{}", true),
        (r#"{"a":[{}]}"#, true),
    ] {
        let mut nesting = JsonNesting::default();
        for letter in arguments.chars() {
            nesting.follow(letter.encode_utf8(&mut [0; 4]));
        }
        assert_eq!(nesting.is_complete(), whole, "{arguments}");
    }
    assert!(!CallAssembler::default().is_complete());
}

fn any_piece() -> impl Strategy<Value = String> {
    let index = prop_oneof![
        Just(""),
        Just("\"index\":0,"),
        Just("\"index\":-1,"),
        Just("\"index\":9,")
    ];
    let id = prop_oneof![
        Just("null"),
        Just("\"\""),
        Just("\"a\""),
        Just("\"call_1\"")
    ];
    let name = prop_oneof![Just("null"), Just("\"x\""), Just("\"y\"")];
    let arguments = prop_oneof![
        Just("null"),
        Just("\"{\""),
        Just("\"}\""),
        Just("{}"),
        Just("7")
    ];
    (index, id, name, arguments).prop_map(|(index, id, name, arguments)| {
        format!(r#"{{{index}"id":{id},"function":{{"name":{name},"arguments":{arguments}}}}}"#)
    })
}

proptest! {
    #[test]
    fn every_call_has_an_id_of_its_own_and_nothing_is_lost(
        pieces in proptest::collection::vec(any_piece(), 0..60),
    ) {
        let mut calls = CallAssembler::default();
        for piece in &pieces {
            prop_assert_eq!(add(&mut calls, piece), Ok(()));
        }
        let calls = calls.take(&WireNames::default(), &[]);
        let ids: HashSet<&String> = calls.iter().map(|c| &c.id).collect();
        prop_assert!(ids.len() == calls.len() && ids.iter().all(|id| !id.is_empty()));
        let letters = |text: &str| text.chars().filter(|c| "{}7".contains(*c)).count();
        let said: usize = pieces
            .iter()
            .filter_map(|p| p.rsplit_once("\"arguments\":")?.1.strip_suffix("}}"))
            .map(letters)
            .sum();
        let kept: usize = calls.iter().map(|c| letters(&c.arguments)).sum();
        prop_assert_eq!(said, kept);
    }
}
