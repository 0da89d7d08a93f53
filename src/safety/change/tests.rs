use super::*;
use crate::safety::redact::ours;

fn tool() -> Tool {
    Tool {
        description:
            "Writes a file.\nMakes its directory.\nSays how long it is.\nTakes text.\nNo more."
                .into(),
        schema:
            r#"{"type":"object","properties":{"path":{"type":"string"},"text":{"type":"string"}}}"#
                .into(),
        annotations: Annotations {
            destructive: Some(true),
            ..Annotations::default()
        },
        ..Tool::default()
    }
}

fn shown(lines: &[Line]) -> Vec<String> {
    let line = |l: &Line| format!("{}{}", l.sign, l.text);
    lines.iter().map(line).collect()
}

#[test]
fn what_is_the_same_differs_in_nothing() {
    let before = Seen::of(&tool(), ours());
    assert!(!differs(&before, &tool(), ours()));
    assert_eq!(difference(&before, &tool(), ours(), None), []);
    let turned = Tool {
        schema: r#"{ "properties": {"text":{"type":"string"}, "path":{"type":"string"}}, "type":"object" }"#.into(),
        title: Some("Write".into()),
        identity: "another".into(),
        ..tool()
    };
    assert!(!differs(&before, &turned, ours()));
    assert_eq!(difference(&before, &turned, ours(), None), []);
}

#[test]
fn every_hint_in_every_direction() {
    let all = [None, Some(true), Some(false)];
    let set = |hint: usize, says: Option<bool>| {
        let mut annotations = Annotations::default();
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
        let seen = Seen {
            annotations: was,
            ..Seen::of(&tool(), ours())
        };
        let tool = Tool {
            annotations: is,
            ..tool()
        };
        // What is not said any more is still in force.
        assert_eq!(in_force(was, is), set(hint, now.or(before)));
        let changed = now.is_some() && now != before;
        assert_eq!(
            differs(&seen, &tool, ours()),
            changed,
            "{hint} {before:?} {now:?}"
        );
        assert_eq!(difference(&seen, &tool, ours(), None).is_empty(), !changed);
    }
}

#[test]
fn a_difference_shows_what_was_and_what_is_with_the_lines_around() {
    let before = Seen::of(&tool(), ours());
    let mut now = tool();
    now.description = now
        .description
        .replace("Takes text.", "Takes text, and sends it on.");
    now.annotations.destructive = Some(false);
    assert!(differs(&before, &now, ours()));
    assert_eq!(
        shown(&difference(&before, &now, ours(), None)),
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
    assert!(differs(&before, &now, ours()));
    let lines = shown(&difference(&before, &now, ours(), None));
    assert!(lines.contains(&"-    \"text\": {".to_owned()), "{lines:#?}");
    assert!(lines.contains(&"+    \"url\": {".to_owned()), "{lines:#?}");
}

#[test]
fn a_schema_that_is_none_is_compared_as_text() {
    let before = Seen {
        schema: "{".into(),
        ..Seen::of(&tool(), ours())
    };
    let broken = |schema: &str| Tool {
        schema: schema.into(),
        ..tool()
    };
    assert!(!differs(&before, &broken("{"), ours()));
    assert!(differs(&before, &tool(), ours()) && differs(&before, &broken("{}"), ours()));
}

#[test]
fn a_book_is_cut_and_costs_no_more_than_a_page() {
    let book = |seed: u64| -> String {
        let line = |n: u64| format!("{}\n", n.wrapping_mul(seed) % 977);
        (0..200_000).map(line).collect()
    };
    let before = Seen {
        description: book(6_364_136_223_846_793_005),
        ..Seen::of(&tool(), ours())
    };
    let now = Tool {
        description: book(1_442_695_040_888_963_407),
        ..tool()
    };
    let lines = difference(&before, &now, ours(), None);
    assert_eq!(lines.len(), LINES + 1);
    assert!(lines[LINES].text.ends_with(" more lines"));
}

/// A server that puts its own key into its words has not changed with another key, and neither is kept.
#[test]
fn no_secret_is_kept_and_none_is_a_change() {
    let with = |key: &str| Tool {
        description: format!("Asks the API. Use the key {key} for it."),
        schema: format!(r#"{{"properties":{{"key":{{"default":"{key}"}}}}}}"#),
        ..tool()
    };
    let key = |c: &str| format!("ghp_{}", c.repeat(9));
    let (one, other) = (key("aB3x"), key("Zq81"));
    let seen = Seen::of(&with(&one), ours());
    assert!(
        !seen.description.contains(&one) && !seen.schema.contains(&one),
        "{seen:?}"
    );
    for now in [&one, &other] {
        assert!(!differs(&seen, &with(now), ours()));
        assert_eq!(difference(&seen, &with(now), ours(), None), []);
    }
    // What was kept before the key was known for one.
    let raw = Seen {
        description: with(&one).description,
        schema: with(&one).schema,
        ..seen.clone()
    };
    assert!(!differs(&raw, &with(&one), ours()) && !differs(&raw, &with(&other), ours()));
    let more = Tool {
        description: format!("{} And sends it on.", with(&one).description),
        ..with(&one)
    };
    let lines = shown(&difference(&seen, &more, ours(), None)).join("\n");
    assert!(differs(&seen, &more, ours()) && lines.contains("sends it on"));
    assert!(!lines.contains(&one), "{lines}");
}
