use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::super::super::file::{FileFormat, parse};
use super::super::super::{ConfigOverrides, load};
use super::*;

const COMMENT: &str = "allowed at a prompt on 2026-11-22";
const NEW: &str = "# allowed at a prompt on 2026-11-22\n\"gh.star\" = \"allow\"\n";

fn home(text: &str) -> (tempfile::TempDir, Paths) {
    let home = tempfile::tempdir().unwrap();
    let paths = Paths::under(home.path(), 1).unwrap();
    fs::create_dir(&paths.config).unwrap();
    fs::write(paths.config.join("config.toml"), text).unwrap();
    (home, paths)
}

fn text(paths: &Paths) -> String {
    fs::read_to_string(paths.config.join("config.toml")).unwrap()
}

/// The places where a rule can be inserted: the text before and after it.
const PLACES: &[(&str, &str)] = &[
    ("[policy.rules]\n", ""),
    ("", "\n[shell] # last\n"),
    (
        "# é\n[policy.rules] # mine\n",
        "# \"a.b\" = \"ask\"\n\n[shell]\n",
    ),
    (
        "[policy.rules]\n'a.b' = 'deny' # why\n",
        "\n# about shells\n[shell]\nconfirm_cmd = true\n",
    ),
    (
        "[policy.rules]\nshell = 'ask'\n",
        "[policy]\ndefault = 'ask'\n",
    ),
    ("[shell]\n[policy.rules]\n\"gh.x\" = \"allow\"\n", "# end\n"),
];

#[test]
fn rule_is_added_below_the_others_and_removed_again() {
    for (before, after) in PLACES {
        let before = match before.is_empty() {
            true => "[policy]\n[policy.rules]\n",
            false => before,
        };
        for crlf in [false, true] {
            let own = |text: &str| match crlf {
                true => text.replace('\n', "\r\n"),
                false => text.to_owned(),
            };
            let old = own(&format!("{before}{after}"));
            let (_home, paths) = home(&old);
            allow_always(&paths, "gh.star", COMMENT).unwrap();
            assert_eq!(text(&paths), own(&format!("{before}{NEW}{after}")));
            let rules = load(&paths, &ConfigOverrides::default())
                .unwrap()
                .policy
                .list;
            let rule = rules.iter().find(|r| r.subject.to_string() == "gh.star");
            assert_eq!(rule.map(|r| r.effect), Some(RuleEffect::Allow));
            // Once is enough.
            allow_always(&paths, "gh.star", COMMENT).unwrap();
            assert_eq!(text(&paths), own(&format!("{before}{NEW}{after}")));
            remove_rule(&paths, "gh.star").unwrap();
            assert_eq!(text(&paths), old);
        }
    }
}

#[test]
fn missing_rules_table_is_created() {
    let table = format!("[policy.rules]\n{NEW}");
    let cases = [
        ("", table.clone()),
        ("# mine\n", format!("# mine\n\n{table}")),
        ("\u{feff}# mine", format!("\u{feff}# mine\n\n{table}")),
        (
            "[shell]\nconfirm_cmd = true # yes\n# end\n",
            format!("[shell]\nconfirm_cmd = true # yes\n# end\n\n{table}"),
        ),
        (
            "[policy]\ndefault = 'deny'\n\n# s\n[shell]\n",
            format!("[policy]\ndefault = 'deny'\n\n{table}\n# s\n[shell]\n"),
        ),
        (
            "[mcp.auto_approve]\n'gh.get' = true",
            format!("[mcp.auto_approve]\n'gh.get' = true\n\n{table}"),
        ),
    ];
    for (old, expected) in cases {
        let (_home, paths) = home(old);
        allow_always(&paths, "gh.star", COMMENT).unwrap();
        assert_eq!(text(&paths), expected);
        remove_rule(&paths, "gh.star").unwrap();
        assert_eq!(text(&paths), expected.replace(NEW, ""));
    }
}

#[test]
fn stricter_rule_is_kept_and_named() {
    let cases = [
        (
            "[policy.rules]\n'gh.star' = 'ask'\n",
            ":2: policy.rules.\"gh.star\" says ask already, which takes precedence over \"allow\"",
        ),
        (
            "[policy.rules]\n'gh.*' = 'deny'\n",
            ":2: policy.rules.\"gh.*\" says deny already, which takes precedence over \"allow\"",
        ),
        (
            "\n[mcp.auto_approve]\n'gh.star' = false\n",
            ":3: mcp.auto_approve.\"gh.star\" says ask already, which takes precedence over \"allow\"",
        ),
        (
            "policy = { rules = { shell = 'deny' } }\n",
            ": its rules are not on separate lines",
        ),
        (
            "policy.rules = { shell = 'deny' }\n",
            ": its rules are not on separate lines",
        ),
        (
            "[shell]\nconfirm_cmd = 1\n",
            ":2: shell.confirm_cmd: must be true or false, not a number",
        ),
    ];
    for (old, expected) in cases {
        let (_home, paths) = home(old);
        let error = allow_always(&paths, "gh.star", COMMENT).unwrap_err();
        assert!(error.message.ends_with(expected), "{error}");
        assert!(error.hint.is_some());
        assert_eq!(text(&paths), old);
    }
}

#[test]
fn rule_is_written_for_tools_only() {
    let (_home, paths) = home("");
    for name in [
        "gh.*", "gh.", "gh", ".x", "gh.a*", "op:read", "shell", "", "Gh.x",
    ] {
        assert!(allow_always(&paths, name, COMMENT).is_err(), "{name}");
        assert_eq!(text(&paths), "");
    }
}

#[test]
fn names_and_comments_are_escaped() {
    let (_home, paths) = home("[shell]\n");
    let name = "gh.a\"b\n'c'\\ = \u{1b}[31m";
    allow_always(
        &paths,
        name,
        "allowed at a prompt\n[policy]\ndefault = 'allow'",
    )
    .unwrap();
    let config = load(&paths, &ConfigOverrides::default()).unwrap();
    assert_eq!(config.policy.default.effect, RuleEffect::Ask);
    assert_eq!(config.policy.list[0].subject.to_string(), name);
    remove_rule(&paths, name).unwrap();
    assert_eq!(text(&paths), "[shell]\n\n[policy.rules]\n");
}

#[test]
fn only_allow_rules_can_be_removed() {
    let old = "policy.rules.'a.b' = 'allow' # mine\n# keep\n[mcp.auto_approve]\n'a.c' = true\n'a.b' = true\n'a.d' = false\n";
    let (_home, paths) = home(old);
    for (name, expected) in [
        (
            "a.d",
            ":6: mcp.auto_approve.\"a.d\" says ask: only an \"allow\" rule can be removed",
        ),
        (
            "aa.c",
            ": no rule or grant is named \"aa.c\"; did you mean a.c?",
        ),
        ("zz", ": no rule or grant is named zz"),
    ] {
        let error = remove_rule(&paths, name).unwrap_err();
        assert!(error.message.ends_with(expected), "{error}");
        assert_eq!(text(&paths), old);
    }
    // In both tables; comments of the user's own stay.
    remove_rule(&paths, "a.b").unwrap();
    assert_eq!(
        text(&paths),
        "# keep\n[mcp.auto_approve]\n'a.c' = true\n'a.d' = false\n"
    );
    // A line that holds another rule is not removed.
    let old = "[policy]\nrules = { 'a.b' = 'allow', 'a.c' = 'deny' }\n";
    let (_home, paths) = home(old);
    assert!(remove_rule(&paths, "a.b").is_err());
    assert_eq!(text(&paths), old);
}

#[test]
fn file_that_denies_writing_is_not_written() {
    let old = "[policy.rules]\n'fs.write' = 'deny'\n'a.b' = 'allow'\n";
    let (_home, paths) = home(old);
    let table = "base_url = 'http://127.0.0.1:1/v1'\nmodel = 'm'";
    for result in [
        allow_always(&paths, "gh.star", COMMENT),
        remove_rule(&paths, "a.b"),
        super::super::add_model(&paths, "m", table, true),
        super::super::add_servers(&paths, &[("s".into(), "command = 's'".into())]).map(drop),
    ] {
        let error = result.unwrap_err();
        let end = ":2: policy.rules.\"fs.write\" says deny, so aish does not change this file";
        assert!(error.message.ends_with(end), "{error}");
        assert_eq!(text(&paths), old);
    }
}

#[test]
fn json_file_is_not_changed() {
    let (_home, paths) = home("");
    fs::remove_file(paths.config.join("config.toml")).unwrap();
    let json = "{\"policy\": {\"rules\": {\"a.b\": \"allow\"}}}";
    fs::write(paths.config.join("aish.json"), json).unwrap();
    let error = allow_always(&paths, "gh.star", COMMENT).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("write it by hand, under policy.rules: \"gh.star\" = \"allow\""),
        "{error}"
    );
    let error = remove_rule(&paths, "a.b").unwrap_err();
    assert!(
        error.to_string().ends_with("remove it by hand: \"a.b\""),
        "{error}"
    );
}

/// Files that are right: tables in any order, written in every way there is, with comments between them.
fn files() -> impl Strategy<Value = String> {
    let policy = proptest::sample::select(vec![
        "",
        "[policy]\ndefault = 'ask'\n",
        "[policy.rules]\n",
        "[policy.rules]\nshell = 'ask' # é\n'a.b' = 'allow'\n",
        "[policy]\nrules.shell = \"\"\"\ndeny\"\"\"\n",
        "[policy]\nrules.shell = 'deny'\ndefault = 'deny'\nrules.'x.y' = 'ask'\n",
        "[policy]\nrules = { shell = 'deny' }\n",
    ]);
    let other = proptest::sample::select(vec![
        "",
        "[shell]\nconfirm_cmd = true\n",
        "[context]\nenv = [\n  'A', # one\n  'B',\n]\n",
        "[mcp.auto_approve]\n'a.b' = true\n",
        "[models.x]\nbase_url = 'http://127.0.0.1/v1'\nmodel = '''a\nb'''\n",
    ]);
    let comment = proptest::sample::select(vec![
        "",
        "\n",
        "# é [policy.rules]\n",
        "\n\n  # x\n",
        "\t\n",
    ]);
    (
        policy,
        other.clone(),
        other,
        [comment.clone(), comment.clone(), comment.clone(), comment],
        any::<[bool; 3]>(),
    )
        .prop_map(|(policy, one, two, c, [crlf, first, open])| {
            let two = if one == two { "" } else { two };
            let middle = match first {
                true => [policy, one],
                false => [one, policy],
            };
            let text = [c[0], middle[0], c[1], middle[1], c[2], two, c[3]].concat();
            let text = if open {
                text.trim_end_matches('\n')
            } else {
                &text
            };
            match crlf {
                true => text.replace('\n', "\r\n"),
                false => text.to_owned(),
            }
        })
}

proptest! {
    #[test]
    fn all_other_bytes_are_unchanged(old in files(), tool in "[a-z .\"'\\\\é]{1,8}") {
        let name = format!("gh.{tool}");
        let rules = |text: &str| {
            let file = parse(text, FileFormat::Toml, Path::new("/c")).unwrap();
            let mut all: Vec<_> = file_rules(&file).map(|rule| (rule.name, rule.effect)).collect();
            all.sort();
            all
        };
        let before = rules(&old);
        let Some(new) = with_rule(&old, &name, COMMENT) else {
            // Where rules share a line with others, or are apart from each other.
            prop_assert!(old.contains("rules = {") || old.contains("rules.'x.y'"), "{old}");
            return Ok(());
        };
        let after = rules(&new);
        let mut expected = before.clone();
        expected.push((name.clone(), RuleEffect::Allow));
        expected.sort();
        prop_assert_eq!(after, expected);
        // One piece more, and an end to the last line.
        let whole = match old.is_empty() || old.ends_with('\n') {
            true => old.clone(),
            false if old.contains("\r\n") => format!("{old}\r\n"),
            false => format!("{old}\n"),
        };
        let one_more = |at: usize| {
            let (before, after) = (&whole[..at], &whole[at..]);
            new.strip_prefix(before).is_some_and(|rest| rest.ends_with(after))
        };
        let mut borders = (0..=whole.len()).filter(|at| whole.is_char_boundary(*at));
        prop_assert!(borders.any(one_more), "{old:?}\n{new:?}");
        prop_assert_eq!(new.contains("\r\n"), old.contains("\r\n"));
        prop_assert!(!new.contains("\r\n") || !new.replace("\r\n", "").contains('\n'));

        let table = ["policy", "rules"];
        let back = without_rule(&new, table, &name).unwrap();
        prop_assert_eq!(rules(&back), before);
        // The head of a new table stays.
        let heads = |text: &str| text.lines().filter(|line| *line == "[policy.rules]").count();
        if heads(&back) == heads(&whole) {
            prop_assert_eq!(&back, &whole);
        }
        prop_assert!(!back.contains(COMMENT));
    }
}
