use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

/// A minimal PNG.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn call(answer: Value, max: usize) -> CallResult {
    call_result("fs", serde_json::from_value(answer).expect("a result"), max)
}

fn tool_of(value: Value) -> Option<ToolDefinition> {
    let server = ServerSettings {
        trust_annotations: true,
        ..ServerSettings::with_url("fs", "http://localhost/")
    };
    convert_tool(&server, &serde_json::from_value(value).expect("a tool"))
}

#[test]
fn text_blocks_are_joined_with_newlines() {
    let result = call(
        json!({"content": [
            {"type": "text", "text": "one"},
            {"type": "text", "text": ""},
            {"type": "text", "text": "two \u{1b}[2J"},
        ], "structuredContent": {"n": 1}}),
        100,
    );
    assert_eq!(
        result.text, "one\ntwo \u{1b}[2J",
        "unchanged, as the model gets it"
    );
    assert_eq!(result.bytes, 12);
    assert!(!result.is_error);
    assert!(result.notes.is_empty() && result.images.is_empty());
}

#[test]
fn errors_are_marked_and_empty_results_get_a_placeholder() {
    let result = call(
        json!({"content": [{"type": "text", "text": "no"}], "isError": true}),
        100,
    );
    assert_eq!((result.text.as_str(), result.is_error), ("no", true));
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
fn structured_content_is_used_when_there_is_no_text() {
    let result = call(
        json!({"content": [
            {"type": "text", "text": ""},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        ], "structuredContent": {"b": [1, 2], "a": "x"}}),
        1000,
    );
    assert_eq!(
        result.text,
        "[audio: audio/wav, 3 bytes]\n{\"b\":[1,2],\"a\":\"x\"}"
    );
    assert_eq!(
        result.notes,
        ["audio: audio/wav, 3 bytes", "structured content, 19 bytes"]
    );
}

#[test]
fn other_content_becomes_placeholders() {
    let result = call(
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
        result.text,
        "see\n[image: image/png, 70 bytes]\n[resource: file:///a.txt]\nhello\n\
         [resource: file:///b.pdf, application/pdf, 12 KB]\n[resource link: file:///c]"
    );
    assert_eq!(
        result.notes,
        [
            "image: image/png, 70 bytes",
            "resource: file:///a.txt",
            "resource: file:///b.pdf, application/pdf, 12 KB",
            "resource link: file:///c",
            "llm -r fs:URI reads a link",
        ]
    );
    assert_eq!(
        result.images,
        [ImageContent {
            mime: "image/png".into(),
            data: PNG.into()
        }]
    );
}

#[test]
fn number_of_notes_is_limited() {
    let link = json!({"type": "resource_link", "uri": "a:b", "name": "c"});
    let result = call(json!({"content": vec![link; 1000]}), 100);
    assert_eq!(result.notes.len(), 10);
    assert_eq!(result.notes[8], "llm -r fs:URI reads a link");
    assert_eq!(result.notes[9], "… 992 more");
}

#[test]
fn server_names_cannot_add_lines() {
    let evil = "x]\n\u{1b}[2J\u{202e}";
    let result = call(
        json!({"content": [
            {"type": "image", "data": "", "mimeType": evil},
            {"type": "audio", "data": "", "mimeType": evil},
            {"type": "resource", "resource": {"uri": evil, "text": "t"}},
            {"type": "resource", "resource": {"uri": evil, "mimeType": evil, "blob": ""}},
            {"type": "resource_link", "uri": evil.repeat(1000), "name": evil},
        ]}),
        100_000,
    );
    for line in result
        .text
        .lines()
        .chain(result.notes.iter().map(String::as_str))
    {
        assert!(!line.contains(['\u{1b}', '\u{202e}', '\n']), "{line:?}");
        assert!(line.chars().count() < 300, "{line:?}");
    }
    assert_eq!(result.text.lines().count(), 6, "{}", result.text);
}

#[test]
fn unsupported_images_become_placeholders() {
    let image = |data: &str, mime: &str| json!({"type": "image", "data": data, "mimeType": mime});
    for (data, mime, reason) in [
        (PNG, "image/svg+xml", "not a type that models accept"),
        (PNG, "text/html", "not a type that models accept"),
        (
            "A".repeat(MAX_IMAGE_BYTES + 4).as_str(),
            "image/png",
            "too large",
        ),
        ("AAA", "image/png", "damaged"),
        ("", "image/png", "damaged"),
        ("AA==AAAA", "image/png", "damaged"),
        ("A===", "image/png", "damaged"),
        ("AA\"}", "image/png", "damaged"),
    ] {
        let result = call(json!({"content": [image(data, mime)]}), 1000);
        assert!(result.images.is_empty(), "{mime} {reason}");
        assert!(result.text.contains(reason), "{}", result.text);
        assert!(result.notes[0].contains(reason), "{:?}", result.notes);
    }
    let result = call(
        json!({"content": [image("iVBO\r\nRw==\n", "Image/PNG")]}),
        1000,
    );
    let kept = ImageContent {
        mime: "image/png".into(),
        data: "iVBORw==".into(),
    };
    assert_eq!(result.images, [kept]);
    let many = vec![image(PNG, "image/png"); MAX_IMAGES + 1];
    let result = call(json!({"content": many}), 10_000);
    assert_eq!(result.images.len(), MAX_IMAGES);
    assert_eq!(result.notes.len(), MAX_IMAGES + 1);
    assert!(result.text.ends_with("too many images]"));
}

#[test]
fn large_results_are_truncated_at_a_line_end_with_a_note() {
    let text = "a line of the result\n".repeat(1000);
    let result = call(json!({"content": [{"type": "text", "text": text}]}), 500);
    assert!(result.text.len() <= 500);
    assert_eq!(result.bytes, 21_000);
    let (kept, note) = result.text.rsplit_once('\n').expect("a note");
    assert!(text.starts_with(kept) && kept.ends_with("result"));
    let left = 21_000 - kept.len();
    assert_eq!(note, format!("[… {left} of 21000 bytes left out]"));
    // Without a line end nearby, the text is cut at the limit.
    let result = call(
        json!({"content": [{"type": "text", "text": "é".repeat(1000)}]}),
        500,
    );
    assert!(
        (490..=500).contains(&result.text.len()),
        "{}",
        result.text.len()
    );
}

#[test]
fn result_of_100_mb_is_truncated() {
    let text = "x".repeat(100_000_000);
    let block = ContentBlock::text(text);
    let result = call_result("fs", CallToolResult::success(vec![block]), 65_536);
    assert!(result.text.len() <= 65_536);
    assert_eq!(result.bytes, 100_000_000);
}

proptest! {
    #[test]
    fn truncated_text_is_a_prefix_within_the_limit(
        lines in proptest::collection::vec("[a-zé😀\u{301}]{0,40}", 0..20),
        max in 0_usize..400,
    ) {
        let text = lines.join("\n");
        let kept = truncate(text.clone(), max);
        prop_assert!(kept.len() <= max);
        if text.len() <= max {
            prop_assert_eq!(kept, text);
        } else if let Some((head, note)) = kept.rsplit_once("\n[… ") {
            prop_assert!(text.starts_with(head));
            let left = text.len() - head.len();
            prop_assert_eq!(note, format!("{left} of {} bytes left out]", text.len()));
        } else {
            prop_assert!(text.starts_with(&kept));
            prop_assert!(max < 60, "a note would have fitted");
        }
    }

    #[test]
    fn tool_names_contain_only_visible_characters(name in any::<String>()) {
        if let Some(tool) = tool_of(json!({"name": name.as_str(), "inputSchema": {}})) {
            prop_assert_eq!(text::strict(&tool.name), format!("fs.{name}"));
        }
    }
}

#[test]
fn tool_fields_are_converted() {
    let tool = tool_of(json!({
        "name": "read_file",
        "description": "Reads a file.",
        "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}},
        "outputSchema": {"type": "object"},
        "annotations": {"title": "Read", "readOnlyHint": true, "destructiveHint": false},
    }));
    let tool = tool.expect("a tool");
    assert_eq!(tool.identity.len(), 64);
    assert_eq!(
        tool,
        ToolDefinition {
            identity: tool.identity.clone(),
            name: "fs.read_file".into(),
            server: "fs".into(),
            tool: "read_file".into(),
            title: Some("Read".into()),
            description: "Reads a file.".into(),
            schema: r#"{"type":"object","properties":{"path":{"type":"string"}}}"#.into(),
            output_schema: Some(r#"{"type":"object"}"#.into()),
            annotations: ToolAnnotations {
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
fn identity_changes_with_name_title_description_schemas_and_server() {
    let plain = json!({"name": "a", "description": "Reads.", "inputSchema": {"type": "object"}});
    let of = |more: Value| {
        let mut tool = plain.clone();
        let all = tool.as_object_mut().expect("an object");
        all.extend(more.as_object().expect("an object").clone());
        tool_of(tool).expect("a tool").identity
    };
    let same = of(json!({}));
    assert_eq!(of(json!({"annotations": {"readOnlyHint": true}})), same);
    for more in [
        json!({"name": "b"}),
        json!({"title": "A"}),
        json!({"description": "Reads it."}),
        json!({"outputSchema": {"type": "object"}}),
        json!({"inputSchema": {"type": "object", "required": ["x"]}}),
    ] {
        assert_ne!(of(more.clone()), same, "{more}");
    }
    let elsewhere = ServerSettings::with_url("fs", "http://localhost/elsewhere");
    let other = convert_tool(&elsewhere, &serde_json::from_value(plain).expect("a tool"));
    assert_ne!(other.expect("a tool").identity, same);
}

#[test]
fn tools_with_invalid_names_are_left_out() {
    for name in [
        "".to_owned(),
        "two words".into(),
        "a\nb".into(),
        "\u{1b}[2J".into(),
        "a\u{200b}b".into(),
        "a\u{202e}b".into(),
        "a\u{a0}b".into(),
        "x".repeat(MAX_TOOL_NAME_BYTES + 1),
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
    let longest = json!({"name": "x".repeat(MAX_TOOL_NAME_BYTES), "inputSchema": {}});
    assert!(tool_of(longest).is_some());
}

#[test]
fn schema_is_always_an_object_schema() {
    let schema = |schema: Value| {
        tool_of(json!({"name": "x", "inputSchema": schema}))
            .expect("a tool")
            .schema
    };
    assert_eq!(schema(json!({})), ANY_OBJECT_SCHEMA);
    assert_eq!(schema(json!({"type": "string"})), ANY_OBJECT_SCHEMA);
    assert_eq!(
        schema(json!({"type": ["object", "null"]})),
        ANY_OBJECT_SCHEMA
    );
    assert_eq!(
        schema(json!({"properties": {"a": {}}})),
        r#"{"properties":{"a":{}},"type":"object"}"#
    );
    let huge = json!({"type": "object", "description": "x".repeat(MAX_SCHEMA_BYTES)});
    assert_eq!(schema(huge), ANY_OBJECT_SCHEMA);
}

#[test]
fn tool_descriptions_are_truncated() {
    let tool =
        tool_of(json!({"name": "x", "description": "long ".repeat(10_000), "inputSchema": {}}));
    assert!(tool.expect("a tool").description.len() <= MAX_DESCRIPTION_BYTES);
}

#[test]
fn resource_is_text_or_an_error() {
    let read = |contents: Value, max| {
        let result = serde_json::from_value(json!({"contents": contents})).expect("a result");
        resource_text(&result, max)
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
    assert_eq!(error.message, "not text: resource: b, image/png, 3 bytes");
}

#[test]
fn prompt_is_text_with_roles() {
    let text = |messages: Value| {
        prompt_text(&serde_json::from_value(json!({"messages": messages})).expect("a result"))
    };
    let has_text =
        |role: &str, t: &str| json!({"role": role, "content": {"type": "text", "text": t}});
    assert_eq!(text(json!([])), "");
    assert_eq!(
        text(json!([has_text("user", "a"), has_text("user", "b")])),
        "a\n\nb"
    );
    assert_eq!(
        text(json!([has_text("user", "a"), has_text("assistant", "b")])),
        "User:\na\n\nAssistant:\nb"
    );
    let resource = json!({"role": "user", "content": {"type": "resource", "resource": {"uri": "u", "text": "t"}}});
    assert_eq!(text(json!([resource])), "[resource: u]\nt");
}
