use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

/// The smallest PNG there is, more or less.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn call(answer: Value, max: usize) -> CallResult {
    result("fs", serde_json::from_value(answer).expect("a result"), max)
}

fn tool_of(value: Value) -> Option<Tool> {
    let server = Server {
        trust_annotations: true,
        ..Server::at("fs", "http://localhost/")
    };
    tool(&server, &serde_json::from_value(value).expect("a tool"))
}

#[test]
fn text_blocks_are_joined_by_lines() {
    let said = call(
        json!({"content": [
            {"type": "text", "text": "one"},
            {"type": "text", "text": ""},
            {"type": "text", "text": "two \u{1b}[2J"},
        ], "structuredContent": {"n": 1}}),
        100,
    );
    assert_eq!(
        said.text, "one\ntwo \u{1b}[2J",
        "as it is: it goes to the model"
    );
    assert_eq!(said.bytes, 12);
    assert!(!said.is_error);
    assert!(said.notes.is_empty() && said.images.is_empty());
}

#[test]
fn an_error_says_so_and_nothing_has_words_too() {
    let said = call(
        json!({"content": [{"type": "text", "text": "no"}], "isError": true}),
        100,
    );
    assert_eq!((said.text.as_str(), said.is_error), ("no", true));
    for nothing in [
        json!({"content": []}),
        json!({"content": [{"type": "text", "text": " \n"}]}),
        json!({"content": [], "structuredContent": null}),
        json!({"isError": true}),
    ] {
        assert_eq!(call(nothing, 100).text, "[no output]");
    }
}

#[test]
fn structured_content_stands_in_for_text() {
    let said = call(
        json!({"content": [
            {"type": "text", "text": ""},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        ], "structuredContent": {"b": [1, 2], "a": "x"}}),
        1000,
    );
    assert_eq!(
        said.text,
        "[audio: audio/wav, 3 bytes]\n{\"b\":[1,2],\"a\":\"x\"}"
    );
    assert_eq!(
        said.notes,
        ["audio: audio/wav, 3 bytes", "structured content, 19 bytes"]
    );
}

#[test]
fn what_is_no_text_is_named_in_its_place() {
    let said = call(
        json!({"content": [
            {"type": "text", "text": "see"},
            {"type": "image", "data": PNG, "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "hello"}},
            {"type": "resource", "resource": {"uri": "file:///b.pdf", "mimeType": "application/pdf", "blob": "A".repeat(16_000)}},
            {"type": "resource_link", "uri": "file:///c", "name": "c"},
        ]}),
        1000,
    );
    assert_eq!(
        said.text,
        "see\n[image: image/png, 70 bytes]\n[resource: file:///a.txt]\nhello\n\
         [resource: file:///b.pdf, application/pdf, 12 KB]\n[resource link: file:///c]"
    );
    assert_eq!(
        said.notes,
        [
            "image: image/png, 70 bytes",
            "resource: file:///a.txt",
            "resource: file:///b.pdf, application/pdf, 12 KB",
            "resource link: file:///c",
            "llm -r fs:URI reads a link",
        ]
    );
    assert_eq!(
        said.images,
        [Image {
            mime: "image/png".into(),
            data: PNG.into()
        }]
    );
}

#[test]
fn notes_are_few() {
    let link = json!({"type": "resource_link", "uri": "a:b", "name": "c"});
    let said = call(json!({"content": vec![link; 1000]}), 100);
    assert_eq!(said.notes.len(), 10);
    assert_eq!(said.notes[8], "llm -r fs:URI reads a link");
    assert_eq!(said.notes[9], "… 992 more");
}

#[test]
fn names_from_a_server_stay_on_their_line() {
    let evil = "x]\n\u{1b}[2J\u{202e}";
    let said = call(
        json!({"content": [
            {"type": "image", "data": "", "mimeType": evil},
            {"type": "audio", "data": "", "mimeType": evil},
            {"type": "resource", "resource": {"uri": evil, "text": "t"}},
            {"type": "resource", "resource": {"uri": evil, "mimeType": evil, "blob": ""}},
            {"type": "resource_link", "uri": evil.repeat(1000), "name": evil},
        ]}),
        100_000,
    );
    for line in said
        .text
        .lines()
        .chain(said.notes.iter().map(String::as_str))
    {
        assert!(!line.contains(['\u{1b}', '\u{202e}', '\n']), "{line:?}");
        assert!(line.chars().count() < 300, "{line:?}");
    }
    assert_eq!(said.text.lines().count(), 6, "{}", said.text);
}

#[test]
fn pictures_that_no_model_takes_are_named_only() {
    let image = |data: &str, mime: &str| json!({"type": "image", "data": data, "mimeType": mime});
    for (data, mime, why) in [
        (PNG, "image/svg+xml", "not of a kind that models take"),
        (PNG, "text/html", "not of a kind that models take"),
        (
            "A".repeat(MAX_IMAGE + 4).as_str(),
            "image/png",
            "too large to pass on",
        ),
        ("AAA", "image/png", "damaged"),
        ("", "image/png", "damaged"),
        ("AA==AAAA", "image/png", "damaged"),
        ("A===", "image/png", "damaged"),
        ("AA\"}", "image/png", "damaged"),
    ] {
        let said = call(json!({"content": [image(data, mime)]}), 1000);
        assert!(said.images.is_empty(), "{mime} {why}");
        assert!(said.text.contains(why), "{}", said.text);
        assert!(said.notes[0].contains(why), "{:?}", said.notes);
    }
    let said = call(
        json!({"content": [image("iVBO\r\nRw==\n", "Image/PNG")]}),
        1000,
    );
    let kept = Image {
        mime: "image/png".into(),
        data: "iVBORw==".into(),
    };
    assert_eq!(said.images, [kept]);
    let many = vec![image(PNG, "image/png"); MAX_IMAGES + 1];
    let said = call(json!({"content": many}), 10_000);
    assert_eq!(said.images.len(), MAX_IMAGES);
    assert_eq!(said.notes.len(), MAX_IMAGES + 1);
    assert!(said.text.ends_with("one too many to pass on]"));
}

#[test]
fn large_results_are_cut_near_the_end_of_a_line_and_say_so() {
    let text = "a line of the result\n".repeat(1000);
    let said = call(json!({"content": [{"type": "text", "text": text}]}), 500);
    assert!(said.text.len() <= 500);
    assert_eq!(said.bytes, 21_000);
    let (kept, note) = said.text.rsplit_once('\n').expect("a note");
    assert!(text.starts_with(kept) && kept.ends_with("result"));
    let left = 21_000 - kept.len();
    assert_eq!(note, format!("[… {left} of 21000 bytes left out]"));
    // One line only: cut where the room ends.
    let said = call(
        json!({"content": [{"type": "text", "text": "é".repeat(1000)}]}),
        500,
    );
    assert!(
        (490..=500).contains(&said.text.len()),
        "{}",
        said.text.len()
    );
}

#[test]
fn a_result_of_100_mb_is_cut() {
    let text = "x".repeat(100_000_000);
    let block = ContentBlock::text(text);
    let said = result("fs", CallToolResult::success(vec![block]), 65_536);
    assert!(said.text.len() <= 65_536);
    assert_eq!(said.bytes, 100_000_000);
}

proptest! {
    #[test]
    fn what_is_cut_is_the_head_and_never_too_long(
        lines in proptest::collection::vec("[a-zé😀\u{301}]{0,40}", 0..20),
        max in 0_usize..400,
    ) {
        let text = lines.join("\n");
        let kept = cut(text.clone(), max);
        prop_assert!(kept.len() <= max);
        if text.len() <= max {
            prop_assert_eq!(kept, text);
        } else if let Some((head, note)) = kept.rsplit_once("\n[… ") {
            prop_assert!(text.starts_with(head));
            let left = text.len() - head.len();
            prop_assert_eq!(note, format!("{left} of {} bytes left out]", text.len()));
        } else {
            prop_assert!(text.starts_with(&kept));
            prop_assert!(max < 60, "there was room for a note");
        }
    }

    #[test]
    fn no_name_of_a_tool_can_hide_anything(name in any::<String>()) {
        if let Some(tool) = tool_of(json!({"name": name.as_str(), "inputSchema": {}})) {
            prop_assert_eq!(text::strict(&tool.name), format!("fs.{name}"));
        }
    }
}

#[test]
fn a_tool_is_what_its_server_says() {
    let tool = tool_of(json!({
        "name": "read_file",
        "description": "Reads a file.",
        "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}},
        "annotations": {"title": "Read", "readOnlyHint": true, "destructiveHint": false},
    }));
    let tool = tool.expect("a tool");
    assert_eq!(tool.identity.len(), 64);
    assert_eq!(
        tool,
        Tool {
            identity: tool.identity.clone(),
            name: "fs.read_file".into(),
            server: "fs".into(),
            tool: "read_file".into(),
            title: Some("Read".into()),
            description: "Reads a file.".into(),
            schema: r#"{"type":"object","properties":{"path":{"type":"string"}}}"#.into(),
            annotations: Annotations {
                read_only: Some(true),
                destructive: Some(false),
                idempotent: None,
                open_world: None,
            },
            trusted: true,
        }
    );
    let titled =
        json!({"name": "a", "title": "A", "inputSchema": {}, "annotations": {"title": "B"}});
    assert_eq!(tool_of(titled).expect("a tool").title.as_deref(), Some("A"));
}

#[test]
fn a_tool_of_which_anything_else_is_said_is_another_tool() {
    let plain = json!({"name": "a", "description": "Reads.", "inputSchema": {"type": "object"}});
    let of = |more: Value| {
        let mut tool = plain.clone();
        let all = tool.as_object_mut().expect("an object");
        all.extend(more.as_object().expect("an object").clone());
        tool_of(tool).expect("a tool").identity
    };
    let same = of(json!({}));
    for kept in [
        json!({"annotations": {"readOnlyHint": true}}),
        json!({"title": "A"}),
    ] {
        assert_eq!(of(kept), same);
    }
    for more in [
        json!({"name": "b"}),
        json!({"description": "Reads it."}),
        json!({"inputSchema": {"type": "object", "required": ["x"]}}),
    ] {
        assert_ne!(of(more.clone()), same, "{more}");
    }
    let elsewhere = Server::at("fs", "http://localhost/elsewhere");
    let there = tool(&elsewhere, &serde_json::from_value(plain).expect("a tool"));
    assert_ne!(there.expect("a tool").identity, same);
}

#[test]
fn tools_that_cannot_be_named_are_left_out() {
    for name in [
        "".to_owned(),
        "two words".into(),
        "a\nb".into(),
        "\u{1b}[2J".into(),
        "a\u{200b}b".into(),
        "a\u{202e}b".into(),
        "a\u{a0}b".into(),
        "x".repeat(MAX_TOOL + 1),
    ] {
        assert_eq!(
            tool_of(json!({"name": name, "inputSchema": {}})),
            None,
            "{name:?}"
        );
    }
    for name in ["x.y", "a/b-c_d", "größe"] {
        assert!(tool_of(json!({"name": name, "inputSchema": {}})).is_some());
    }
    let longest = json!({"name": "x".repeat(MAX_TOOL), "inputSchema": {}});
    assert!(tool_of(longest).is_some());
}

#[test]
fn a_schema_is_always_one_of_an_object() {
    let schema = |schema: Value| {
        tool_of(json!({"name": "x", "inputSchema": schema}))
            .expect("a tool")
            .schema
    };
    assert_eq!(schema(json!({})), ANY_OBJECT);
    assert_eq!(schema(json!({"type": "string"})), ANY_OBJECT);
    assert_eq!(schema(json!({"type": ["object", "null"]})), ANY_OBJECT);
    assert_eq!(
        schema(json!({"properties": {"a": {}}})),
        r#"{"properties":{"a":{}},"type":"object"}"#
    );
    let huge = json!({"type": "object", "description": "x".repeat(MAX_SCHEMA)});
    assert_eq!(schema(huge), ANY_OBJECT);
}

#[test]
fn a_tool_cannot_say_so_much_that_nothing_else_has_room() {
    let tool =
        tool_of(json!({"name": "x", "description": "long ".repeat(10_000), "inputSchema": {}}));
    assert!(tool.expect("a tool").description.len() <= MAX_DESCRIPTION);
}

#[test]
fn a_resource_is_its_text_or_an_error() {
    let read = |contents: Value, max| {
        let result = serde_json::from_value(json!({"contents": contents})).expect("a result");
        resource(&result, max)
    };
    let text = json!({"uri": "a", "text": "one"});
    let blob = json!({"uri": "b", "mimeType": "image/png", "blob": "AAAA"});
    assert_eq!(read(json!([text]), 100).expect("text"), "one");
    assert_eq!(
        read(json!([text, blob]), 100).expect("text"),
        "one\n[resource: b, image/png, 3 bytes]"
    );
    assert_eq!(read(json!([]), 100).expect("empty"), "");
    assert_eq!(read(json!([text]), 2).expect("text"), "on");
    let error = read(json!([blob]), 100).expect_err("no text");
    assert_eq!(
        error.message,
        "there is no text: resource: b, image/png, 3 bytes"
    );
}

#[test]
fn a_prompt_is_its_text_with_who_speaks() {
    let text = |messages: Value| {
        prompt(&serde_json::from_value(json!({"messages": messages})).expect("a result"))
    };
    let says = |role: &str, t: &str| json!({"role": role, "content": {"type": "text", "text": t}});
    assert_eq!(text(json!([])), "");
    assert_eq!(
        text(json!([says("user", "a"), says("user", "b")])),
        "a\n\nb"
    );
    assert_eq!(
        text(json!([says("user", "a"), says("assistant", "b")])),
        "User:\na\n\nAssistant:\nb"
    );
    let resource = json!({"role": "user", "content": {"type": "resource", "resource": {"uri": "u", "text": "t"}}});
    assert_eq!(text(json!([resource])), "[resource: u]\nt");
}
