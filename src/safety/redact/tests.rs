use std::cell::Cell;

use proptest::prelude::*;

use super::rules::all_rules;
use super::*;

mod alarms;
mod columns;
mod commands;
mod dialogues;
mod formats;
mod forms;
mod objects;
mod pairs;
mod recall;
mod rows;
pub(crate) mod samples;
mod settled;
mod signs;
mod unfinished;

use samples::{ALNUM, BASE64, HEX, TestRandom, URL64, pem};

thread_local! {
    /// Number of bytes that the rules have inspected.
    pub(crate) static INSPECTED: Cell<usize> = const { Cell::new(0) };
}

#[test]
fn a_keyword_that_repeats_costs_a_few_kilobytes_at_each_place() {
    let ends = [
        "", "=", ": ", " -x ", "=a://", "=(", "-", "=auth=", "EXAMPLE", "-----\n",
    ];
    for rule in all_rules() {
        for end in ends {
            let unit = format!("{}{end}", rule.key);
            let text = unit.repeat(2 * AHEAD / unit.len());
            INSPECTED.set(0);
            RULES.at(text.as_bytes(), 8 * unit.len(), false);
            assert!(INSPECTED.get() < AHEAD / 2, "{unit:?}: {INSPECTED:?}");
        }
    }
}

#[test]
fn a_renewed_value_replaces_the_one_before_and_nothing_in_use_is_evicted() {
    let redactor = Redactor::default();
    let value = |name: &str, n: usize| format!("{name}-{n:04}-kZ83hdPq");
    let is_known = |text: &str| redactor.redact(text).contains("[REDACTED:");
    redactor.replace_secret("key of a", "key", &value("in-use", 0));
    for n in 0..1500 {
        redactor.replace_secret("token of b", "token", &value("renewed", n));
    }
    assert!(is_known(&value("renewed", 1499)));
    assert!(!is_known(&value("renewed", 1498)));
    redactor.add_secret("seen", &value("kept", 0));
    for n in 0..1200 {
        redactor.add_secret("seen", &value("seen", n));
        // A value that is learned repeatedly is in use.
        redactor.add_secret("seen", &value("kept", 0));
    }
    for used in [value("in-use", 0), value("renewed", 1499), value("kept", 0)] {
        assert!(is_known(&used), "{used}");
    }
    assert!(is_known(&value("seen", 1199)) && !is_known(&value("seen", 0)));
    // The same value in two slots stays until both have another.
    redactor.replace_secret("key of c", "key", &value("in-use", 0));
    redactor.replace_secret("key of a", "key", &value("other", 0));
    assert!(is_known(&value("in-use", 0)));
    redactor.replace_secret("key of c", "key", &value("other", 1));
    assert!(!is_known(&value("in-use", 0)));
}

/// Pushes `text` in chunks that end at these positions.
fn streamed(redactor: &Redactor, text: &[u8], ends: &[usize]) -> (Vec<u8>, Vec<FoundSecret>) {
    let mut stream = redactor.stream();
    let mut out = Vec::new();
    let mut at = 0;
    for &end in ends {
        let end = end.clamp(at, text.len());
        stream.push(&text[at..end], &mut out);
        at = end;
    }
    stream.push(&text[at..], &mut out);
    stream.finish(&mut out);
    (out, stream.take_found())
}

#[test]
fn known_values_are_redacted_in_every_encoding() {
    let redactor = Redactor::default();
    redactor.add_secret("model-key", "pa\"ss/wörd one");
    redactor.add_secret("model-key", "pa\"ss/wörd one");
    let text = r#"a pa"ss/wörd one b "pa\"ss/wörd one" c pa%22ss%2Fw%C3%B6rd%20one"#;
    let mark = "[REDACTED:model-key]";
    assert_eq!(
        redactor.redact(text),
        format!("a {mark} b \"{mark}\" c {mark}")
    );
}

#[test]
fn a_secret_of_a_command_line_is_found_behind_anything() {
    let redactor = Redactor::default();
    redactor.add_found("curl -u me --password q7Rk2ZpL9vXw3TbN x");
    redactor.add_found("deploy --password correcthorsebattery");
    assert_eq!(redactor.value_count(), 1);
    let out = redactor.redact("000q7Rk2ZpL9vXw3TbN000");
    assert!(!out.contains("q7Rk2"), "{out}");
}

#[test]
fn values_that_would_destroy_ordinary_text_are_ignored() {
    let redactor = Redactor::default();
    for value in [
        "",
        "short",
        "1234567",
        "localhost",
        "/usr/local/bin",
        "production",
        "--------",
        "192.168.0.1",
        "20260101",
    ] {
        redactor.add_secret("x", value);
        assert!(redactor.known_values().is_empty(), "{value}");
    }
    redactor.add_variable("x", "EDITOR", "emacsclient");
    redactor.add_variable("x", "PATHS", "alpha-beta-gamma");
    assert!(redactor.known_values().is_empty());
    redactor.add_variable("x", "MY_TOKEN", "emacsclient");
    assert_eq!(redactor.redact("emacsclient"), "[REDACTED:x]");
}

#[test]
fn no_part_of_a_known_value_is_shown_where_a_format_begins_in_its_mark() {
    let redactor = Redactor::default();
    redactor.add_secret("known", "pa\"ss/word one");
    let text = "curl -u pa\"ss/word one https://x";
    assert_eq!(redactor.redact(text), "curl -u [REDACTED:known] https://x");
    let (out, _) = streamed(&redactor, text.as_bytes(), &[9, 15]);
    assert_eq!(String::from_utf8_lossy(&out), redactor.redact(text));
}

#[test]
fn json_stays_json_where_a_mark_replaces_a_number_or_half_an_escape() {
    let redactor = Redactor::default();
    for text in [
        r#"{"token":"\u0EF1234ijkl"}"#,
        r#"{"password": 123456789012345, "a": 1}"#,
    ] {
        let redacted = redactor.redact_json(text);
        assert!(
            serde_json::from_str::<serde_json::Value>(&redacted).is_ok(),
            "{redacted}"
        );
    }
}

#[test]
fn a_known_value_within_a_format_gives_one_mark() {
    let redactor = Redactor::default();
    redactor.add_secret("model-key", "hunter2hunter2");
    let text = "ä hunter2hunter2, password=Zq8!hunter2hunter2x and ghp_0123456789abcdefghijABCDEFGHIJ012345 hunter2hunter2";
    let found = redactor.find(text);
    let shown: Vec<_> = found
        .iter()
        .map(|f| (&*f.kind, &text[f.range.clone()]))
        .collect();
    assert_eq!(shown[0], ("model-key", "hunter2hunter2"));
    assert!(
        shown.contains(&("github-token", "ghp_0123456789abcdefghijABCDEFGHIJ012345")),
        "{shown:?}"
    );
    assert_eq!(shown.last(), Some(&("model-key", "hunter2hunter2")));
    assert!(!redactor.redact(text).contains("hunter2"));
}

#[test]
fn the_ends_of_a_truncated_text_contain_no_partial_secret() {
    let redactor = Redactor::default();
    let value = "correct-horse-battery-staple";
    redactor.add_secret("model-key", value);
    for at in 6..value.len() - 6 {
        let (head, tail) = redactor.redact_ends(
            &format!("x {}", &value[..at]),
            &format!("{} y", &value[at..]),
        );
        assert_eq!(
            (&*head, &*tail),
            ("x [REDACTED:cut]", "[REDACTED:cut] y"),
            "{at}"
        );
    }
    let token = format!("ghp_{}", TestRandom(3).of(ALNUM, 36));
    for at in 4..token.len() {
        let (head, _) = redactor.redact_ends(&format!("x {}", &token[..at]), "y");
        assert!(!head.contains("ghp_"), "{head}");
    }
    let (_, tail) = redactor.redact_ends("", &format!("{} y", &token[10..]));
    assert_eq!(tail, "[REDACTED:cut] y");
    let pem = pem(&mut TestRandom(1), 20);
    let (head, tail) = redactor.redact_ends(
        &format!("a\n{}", &pem[..500]),
        &format!("{}\nb", &pem[500..]),
    );
    assert_eq!(
        (&*head, &*tail),
        ("a\n[REDACTED:private-key]", "[REDACTED:cut]\nb")
    );
    assert_eq!(
        redactor.redact_ends("plain words", "and more"),
        ("plain words".into(), "and more".into())
    );
}

#[test]
fn invalid_utf8_passes_unchanged() {
    let mut text = b"\xff\xfe ghp_0123456789abcdefghijABCDEFGHIJ012345\xff".to_vec();
    text.extend([0, 0x80, b'\n']);
    let (out, found) = streamed(&Redactor::default(), &text, &[3, 9]);
    assert_eq!(out, b"\xff\xfe [REDACTED:github-token]\xff\x00\x80\n");
    assert_eq!(found[0].range, 3..43);
}

#[test]
fn a_stream_buffers_a_bounded_amount() {
    let redactor = Redactor::default();
    redactor.add_secret("model-key", &"k3y".repeat(20));
    let mut stream = redactor.stream();
    let (mut taken, mut given) = (0, Vec::new());
    let mut held = 0;
    for n in 0..2000 {
        let line = format!(
            "line {n} token=abcDEF123456ghiJKL789 -----BEGIN RSA PRIVATE KEY----- eyJhbGciOi\n"
        );
        stream.push(line.as_bytes(), &mut given);
        taken += line.len();
        held = held.max(taken.saturating_sub(given.len() + 2000 * 40));
        assert!(
            stream.values.buffered() + stream.formats.buffered() < 4 * AHEAD,
            "{n}"
        );
    }
    // A secret without an end is skipped, not buffered.
    for _ in 0..500 {
        stream.push(&[b'A'; 1000], &mut given);
    }
    stream.push(b" ghp_", &mut given);
    for _ in 0..500 {
        stream.push(&[b'A'; 1000], &mut given);
        assert!(stream.formats.buffered() < 4 * AHEAD);
    }
}

/// Fragments: secrets, halves of secrets, and the keywords that identify them.
fn piece() -> impl Strategy<Value = String> {
    let secrets = recall::samples();
    let all: Vec<String> = secrets.into_iter().map(|(_, text, _)| text).collect();
    let whole = prop::sample::select(all.clone());
    let half = (prop::sample::select(all), 0.0..1.0f64).prop_map(|(text, part)| {
        let at = (text.len() as f64 * part) as usize;
        let at = (0..=at)
            .rev()
            .find(|&at| text.is_char_boundary(at))
            .unwrap_or(0);
        text[..at].to_string()
    });
    let keys: Vec<_> = all_rules().iter().map(|r| r.key.to_string()).collect();
    prop_oneof![
        3 => whole,
        2 => half,
        2 => prop::sample::select(keys),
        2 => prop::sample::select(vec![" ", "\n", "=", "\"", ": ", "\\n", ".", "known-value-one", "known-val", "ä", "://u:", "@h"]).prop_map(str::to_string),
        1 => "[a-zA-Z0-9+/=_.-]{0,80}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_output_does_not_depend_on_the_chunks(
        pieces in prop::collection::vec(piece(), 0..12),
        long in prop::option::of(1usize..40_000),
        mut ends in prop::collection::vec(0usize..60_000, 0..20),
        bytewise in prop::bool::weighted(0.2),
    ) {
        let redactor = Redactor::default();
        redactor.add_secret("known", "known-value-one");
        redactor.add_secret("other", "one-and-the-other");
        let mut text = pieces.concat();
        if let Some(n) = long {
            text.push_str(&"aB3/".repeat(n / 4));
            text.push_str(&pieces.concat());
        }
        let whole = streamed(&redactor, text.as_bytes(), &[]);
        if bytewise && text.len() < 5000 {
            ends = (0..text.len()).collect();
        }
        ends.iter_mut().for_each(|e| *e %= text.len() + 1);
        ends.sort_unstable();
        let cut = streamed(&redactor, text.as_bytes(), &ends);
        prop_assert_eq!(&cut.0, &whole.0);
        prop_assert_eq!(&cut.1, &whole.1);
        let redacted = redactor.redact(&text);
        prop_assert_eq!(redacted.as_bytes(), &whole.0[..]);
        let out = String::from_utf8(whole.0).unwrap();
        prop_assert!(!out.contains("known-value-one"));
        let mut end = 0;
        for found in &whole.1 {
            prop_assert!(found.range.start >= end && found.range.end > found.range.start);
            end = found.range.end;
        }
    }
}

#[test]
fn the_sources_of_this_project_contain_no_secrets() {
    // Except files of secrets made up for tests.
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut dirs = vec![
        root.join("src"),
        root.join("zsh"),
        root.join("docs"),
        root.join("completions"),
    ];
    let mut read = 0;
    let mut alarms = Vec::new();
    let mut look = |path: &std::path::Path| {
        let Ok(text) = std::fs::read_to_string(path) else {
            return;
        };
        read += text.len();
        for found in Redactor::default().find(&text) {
            alarms.push(format!(
                "{}: {} {}",
                path.display(),
                found.kind,
                &text[found.range]
            ));
        }
    };
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            match path.is_dir() {
                true if path.ends_with("redact") => {}
                false if path.ends_with("tests.rs") => {}
                true => dirs.push(path),
                false => look(&path),
            }
        }
    }
    for file in [
        "Cargo.lock",
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "install.sh",
    ] {
        look(&root.join(file));
    }
    assert!(read > 1_000_000, "{read}");
    assert!(alarms.is_empty(), "{}", alarms.join("\n"));
}
