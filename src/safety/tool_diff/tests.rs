use super::*;
use crate::safety::redact::global_redactor;

fn tool() -> ToolDefinition {
    ToolDefinition {
        description:
            "Writes a file.\nMakes its directory.\nSays how long it is.\nTakes text.\nNo more."
                .into(),
        schema:
            r#"{"type":"object","properties":{"path":{"type":"string"},"text":{"type":"string"}}}"#
                .into(),
        annotations: ToolAnnotations {
            destructive: Some(true),
            ..ToolAnnotations::default()
        },
        ..ToolDefinition::default()
    }
}

fn shown(lines: &[DiffLine]) -> Vec<String> {
    let line = |l: &DiffLine| format!("{}{}", l.sign, l.text);
    lines.iter().map(line).collect()
}

#[test]
fn what_is_the_same_differs_in_nothing() {
    let before = ShownTool::of(&tool(), global_redactor());
    assert!(!is_changed(&before, &tool(), global_redactor()));
    assert_eq!(difference(&before, &tool(), global_redactor(), None), []);
    let turned = ToolDefinition {
        schema: r#"{ "properties": {"text":{"type":"string"}, "path":{"type":"string"}}, "type":"object" }"#.into(),
        identity: "another".into(),
        ..tool()
    };
    assert!(!is_changed(&before, &turned, global_redactor()));
    assert_eq!(difference(&before, &turned, global_redactor(), None), []);
}

/// A permanent rule allows a tool only as the user saw it, and the model also reads the title and what comes back.
#[test]
fn a_changed_title_or_output_schema_is_a_change() {
    let output = |schema: &str| ToolDefinition {
        output_schema: Some(schema.into()),
        ..tool()
    };
    let titled = |title: &str| ToolDefinition {
        title: Some(title.into()),
        ..tool()
    };
    let (one, other) = (r#"{"a":1,"b":2}"#, r#"{"a":1,"b":3}"#);
    for (before, now, lines) in [
        (tool(), titled("Write"), ["+title: Write"].as_slice()),
        (titled("Write"), tool(), &["-title: Write"]),
        (
            titled("Write"),
            titled("Read"),
            &["-title: Write", "+title: Read"],
        ),
        (tool(), output("7"), &["+output schema: 7"]),
        (output("7"), tool(), &["-output schema: 7"]),
        (
            output(one),
            output(other),
            &[
                " output schema: {",
                "   \"a\": 1,",
                "-  \"b\": 2",
                "+  \"b\": 3",
                " }",
            ],
        ),
    ] {
        let seen = ShownTool::of(&before, global_redactor());
        assert!(is_changed(&seen, &now, global_redactor()), "{now:?}");
        let difference = difference(&seen, &now, global_redactor(), None);
        assert_eq!(shown(&difference), lines);
    }
    // Another order of keys is none, and neither is what an earlier version did not store.
    let seen = ShownTool::of(&output(one), global_redactor());
    let turned = output(r#"{"b":2,"a":1}"#);
    assert!(!is_changed(&seen, &turned, global_redactor()));
    let stored = ShownTool {
        title: None,
        output_schema: None,
        ..seen
    };
    let now = ToolDefinition {
        title: Some("Read".into()),
        ..output(other)
    };
    assert!(!is_changed(&stored, &now, global_redactor()));
    assert_eq!(difference(&stored, &now, global_redactor(), None), []);
}

#[test]
fn every_hint_in_every_direction() {
    let all = [None, Some(true), Some(false)];
    let set = |hint: usize, says: Option<bool>| {
        let mut annotations = ToolAnnotations::default();
        let hints = [
            &mut annotations.read_only,
            &mut annotations.destructive,
            &mut annotations.idempotent,
            &mut annotations.open_world,
        ];
        *hints.into_iter().nth(hint).expect("a hint") = says;
        annotations
    };
    for (hint, before, now) in (0..4)
        .flat_map(|h| all.map(|b| (h, b)))
        .flat_map(|(h, b)| all.map(|n| (h, b, n)))
    {
        let (was, is) = (set(hint, before), set(hint, now));
        let seen = ShownTool {
            annotations: was,
            ..ShownTool::of(&tool(), global_redactor())
        };
        let tool = ToolDefinition {
            annotations: is,
            ..tool()
        };
        // A hint that is no longer sent is still in force.
        assert_eq!(in_force(was, is), set(hint, now.or(before)));
        let changed = now.is_some() && now != before;
        assert_eq!(
            is_changed(&seen, &tool, global_redactor()),
            changed,
            "{hint} {before:?} {now:?}"
        );
        assert_eq!(
            difference(&seen, &tool, global_redactor(), None).is_empty(),
            !changed
        );
    }
}

#[test]
fn a_difference_shows_what_was_and_what_is_with_the_lines_around() {
    let before = ShownTool::of(&tool(), global_redactor());
    let mut now = tool();
    now.description = now
        .description
        .replace("Takes text.", "Takes text, and sends it on.");
    now.annotations.destructive = Some(false);
    assert!(is_changed(&before, &now, global_redactor()));
    assert_eq!(
        shown(&difference(&before, &now, global_redactor(), None)),
        [
            " Writes a file.",
            " Makes its directory.",
            " Says how long it is.",
            "-Takes text.",
            "+Takes text, and sends it on.",
            " No more.",
            " …",
            "-may destroy: yes",
            "+may destroy: no",
        ]
    );
    let mut now = tool();
    now.schema = now.schema.replace(
        "\"text\":{\"type\":\"string\"}",
        "\"url\":{\"type\":\"string\"}",
    );
    assert!(is_changed(&before, &now, global_redactor()));
    let lines = shown(&difference(&before, &now, global_redactor(), None));
    assert!(lines.contains(&"-    \"text\": {".to_owned()), "{lines:#?}");
    assert!(lines.contains(&"+    \"url\": {".to_owned()), "{lines:#?}");
}

#[test]
fn a_schema_that_is_none_is_compared_as_text() {
    let before = ShownTool {
        schema: "{".into(),
        ..ShownTool::of(&tool(), global_redactor())
    };
    let broken = |schema: &str| ToolDefinition {
        schema: schema.into(),
        ..tool()
    };
    assert!(!is_changed(&before, &broken("{"), global_redactor()));
    assert!(
        is_changed(&before, &tool(), global_redactor())
            && is_changed(&before, &broken("{}"), global_redactor())
    );
}

#[test]
fn a_book_is_cut_and_costs_no_more_than_a_page() {
    let book = |seed: u64| -> String {
        let line = |n: u64| format!("{}\n", n.wrapping_mul(seed) % 977);
        (0..200_000).map(line).collect()
    };
    let before = ShownTool {
        description: book(6_364_136_223_846_793_005),
        ..ShownTool::of(&tool(), global_redactor())
    };
    let now = ToolDefinition {
        description: book(1_442_695_040_888_963_407),
        ..tool()
    };
    let lines = difference(&before, &now, global_redactor(), None);
    assert_eq!(lines.len(), LINES + 1);
    assert!(lines[LINES].text.ends_with(" more lines"));
}

/// A server that puts its own key into its words has not changed with another key, and neither is kept.
#[test]
fn no_secret_is_kept_and_none_is_a_change() {
    let with = |key: &str| ToolDefinition {
        description: format!("Asks the API. Use the key {key} for it."),
        schema: format!(r#"{{"properties":{{"key":{{"default":"{key}"}}}}}}"#),
        ..tool()
    };
    let key = |c: &str| format!("ghp_{}", c.repeat(9));
    let (one, other) = (key("aB3x"), key("Zq81"));
    let seen = ShownTool::of(&with(&one), global_redactor());
    assert!(
        !seen.description.contains(&one) && !seen.schema.contains(&one),
        "{seen:?}"
    );
    for now in [&one, &other] {
        assert!(!is_changed(&seen, &with(now), global_redactor()));
        assert_eq!(difference(&seen, &with(now), global_redactor(), None), []);
    }
    // A text that was kept before the key was known to be one.
    let raw = ShownTool {
        description: with(&one).description,
        schema: with(&one).schema,
        ..seen.clone()
    };
    assert!(
        !is_changed(&raw, &with(&one), global_redactor())
            && !is_changed(&raw, &with(&other), global_redactor())
    );
    let more = ToolDefinition {
        description: format!("{} And sends it on.", with(&one).description),
        ..with(&one)
    };
    let lines = shown(&difference(&seen, &more, global_redactor(), None)).join("\n");
    assert!(is_changed(&seen, &more, global_redactor()) && lines.contains("sends it on"));
    assert!(!lines.contains(&one), "{lines}");
}
