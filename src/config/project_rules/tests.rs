use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use super::*;
use crate::safety::policy::{CallRequest, ExactCall, GrantSet, PolicyDecision, decide};

/// A directory `a/b` with these files in `a` and in `a/b`.
fn project(outer: &str, inner: &str) -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let inside = root.path().join("a/b");
    fs::create_dir_all(&inside).unwrap();
    for (dir, text) in [("a", outer), ("a/b", inner)] {
        if !text.is_empty() {
            fs::write(root.path().join(dir).join(NAME), text).unwrap();
        }
    }
    (root, inside)
}

fn around(cwd: &Path) -> ProjectRules {
    ProjectRules::around(&Config::default(), cwd)
}

fn in_force(own: &RuleSet, cwd: &Path) -> (RuleSet, Vec<String>) {
    let config = Config {
        policy: own.clone(),
        ..Config::default()
    };
    rules_in_force(&config, cwd)
}

fn rules(all: &[PolicyRule]) -> Vec<(String, RuleEffect, String)> {
    let own = |r: &PolicyRule| (r.subject.to_string(), r.effect, r.source.clone());
    all.iter().map(own).collect()
}

/// The decision on a call that the user's rules allow.
fn decided(project: ProjectRules) -> PolicyDecision {
    let call = ExactCall {
        server: "fs",
        tool: "read",
        identity: "i",
        arguments: "{}",
    };
    let own = RuleSet {
        default: DefaultRule {
            effect: RuleEffect::Allow,
            source: "policy.default".into(),
        },
        list: vec![PolicyRule {
            subject: RuleSubject::parse("fs.*").unwrap(),
            effect: RuleEffect::Allow,
            source: "own".into(),
        }],
        project: project.rules,
    };
    decide(&CallRequest::new(call), &own, &GrantSet::default(), 0)
}

#[test]
fn users_rules_are_unchanged_without_a_project_file() {
    let (_root, inside) = project("", "");
    assert_eq!(around(&inside), ProjectRules::default());
    assert_eq!(around(Path::new("not/absolute")), ProjectRules::default());
    let own = RuleSet::default();
    assert_eq!(in_force(&own, &inside), (own, Vec::new()));
}

#[test]
fn rules_of_all_enclosing_projects_apply_with_their_source() {
    let outer = "[policy]\ndefault = 'deny'\n[policy.rules]\n'fs.*' = 'deny'\nshell = 'ask'\n";
    let inner = "\u{feff}# mine\r\n[policy]\r\ndefault = 'ask'\r\nrules.'op:write' = 'ask'\r\n";
    let (root, inside) = project(outer, inner);
    let at = |dir: &str, rest: &str| format!("{}/{dir}/{NAME}:{rest}", root.path().display());
    let found = around(&inside.join("no/such"));
    assert_eq!(
        rules(&found.rules),
        [
            (
                "op:write".into(),
                RuleEffect::Ask,
                at("a/b", "4: policy.rules.\"op:write\"")
            ),
            (
                "fs.*".into(),
                RuleEffect::Deny,
                at("a", "4: policy.rules.\"fs.*\"")
            ),
            (
                "shell".into(),
                RuleEffect::Ask,
                at("a", "5: policy.rules.shell")
            ),
        ]
    );
    assert_eq!(found.notices, Vec::<String>::new());
    let (all, _) = in_force(&RuleSet::default(), &inside);
    assert_eq!(
        (all.default.effect, all.default.source.as_str()),
        (RuleEffect::Deny, &*at("a", "2: policy.default"))
    );
    assert_eq!(all.project, found.rules);
    assert_eq!(
        decided(found),
        PolicyDecision::Deny(at("a", "4: policy.rules.\"fs.*\""))
    );
}

#[test]
fn weaker_default_does_not_loosen_the_users_default() {
    let (_root, inside) = project("", "[policy]\ndefault = 'ask'\n");
    let mut own = RuleSet::default();
    for (word, expected) in [
        (RuleEffect::Deny, RuleEffect::Deny),
        (RuleEffect::Ask, RuleEffect::Ask),
        (RuleEffect::Allow, RuleEffect::Ask),
    ] {
        own.default.effect = word;
        let (all, _) = in_force(&own, &inside);
        assert_eq!(all.default.effect, expected);
        assert_eq!(all.default == own.default, word == expected);
    }
}

#[test]
fn allow_rule_is_reported_and_other_rules_apply() {
    let text = "[policy]\ndefault = 'allow'\n[policy.rules]\n'fs.read' = 'allow'\n'sensitivity:public' = 'allow'\n'fs.*' = 'deny'\n";
    let (root, inside) = project("", text);
    let found = around(&inside);
    let wrong = |line: usize, key: &str| {
        let path = root.path().join("a/b").join(NAME);
        format!(
            "{}:{line}: {key}: a project can only \"ask\" and \"deny\": this rule is ignored",
            path.display()
        )
    };
    assert_eq!(
        found.notices,
        [
            wrong(2, "policy.default"),
            wrong(4, "policy.rules.\"fs.read\""),
            wrong(5, "policy.rules.\"sensitivity:public\""),
        ]
    );
    assert_eq!(found.default, None);
    assert_eq!(rules(&found.rules).len(), 1);
    assert!(matches!(decided(found), PolicyDecision::Deny(_)));
}

#[test]
fn invalid_file_makes_everything_ask() {
    let cases = [
        (
            "[policy.rules]\n'fs.*' = 'dney'\n",
            ":2: policy.rules.\"fs.*\": unknown value; did you mean \"deny\"?",
        ),
        (
            "[policy.rules]\nfs.read = 'deny'\n",
            ":2: policy.rules.fs: put a name with a dot in quotes: \"alias.tool\" = \"deny\"",
        ),
        ("[polcy]\n", ":1: polcy: unknown key; did you mean policy?"),
        (
            "[mcp.auto_approve]\n'fs.*' = true\n",
            ":1: mcp: unknown key; the keys here are share, policy",
        ),
        (
            "a = 1\npolicy = 2\n",
            ":1: a: unknown key; the keys here are share, policy",
        ),
        ("[policy\n", ":1: not valid TOML: "),
    ];
    for (text, expected) in cases {
        let (_root, inside) = project(text, "");
        let found = around(&inside);
        let [notice] = &found.notices[..] else {
            panic!("{:?}", found.notices);
        };
        assert!(notice.contains(expected), "{notice}");
        assert!(
            notice.ends_with("; until the file is corrected, everything is asked about here, \"fs.write\" and network are denied, and nothing is shared"),
            "{notice}"
        );
        for own in BuiltinAction::ALL {
            let rules = RuleSet {
                project: found.rules.clone(),
                ..RuleSet::default()
            };
            let word = match own {
                BuiltinAction::Shell => Some(RuleEffect::Ask),
                // Only tools read files, and their question is asked by the gate.
                BuiltinAction::FsRead => None,
                BuiltinAction::FsWrite | BuiltinAction::Network => Some(RuleEffect::Deny),
            };
            assert_eq!(rules.rule_for_action(own).map(|r| r.effect), word);
        }
        assert!(
            matches!(decided(found), PolicyDecision::Ask(why) if why.ends_with(": is not valid"))
        );
    }
    // The valid rules of the file apply too.
    let (_root, inside) = project("x = 1\n[policy.rules]\n'fs.*' = 'deny'\n", "");
    assert!(matches!(decided(around(&inside)), PolicyDecision::Deny(_)));
}

#[test]
fn unreadable_file_makes_everything_ask() {
    type Make = fn(&Path);
    let make: [(Make, &str); 5] = [
        (
            |path| fs::create_dir(path).unwrap(),
            "is not a regular file",
        ),
        (
            |path| symlink("/no/such", path).unwrap(),
            "cannot be opened: ",
        ),
        (
            |path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
            "is not a regular file",
        ),
        (
            |path| fs::write(path, "#".repeat(65 * 1024)).unwrap(),
            "is larger than 64 KiB, the limit for files that aish reads",
        ),
        (
            |path| fs::write(path, b"\xff").unwrap(),
            "is not UTF-8 text",
        ),
    ];
    for (make, expected) in make {
        let (_root, inside) = project("", "");
        make(&inside.join(NAME));
        let found = around(&inside);
        assert!(
            found.notices.concat().contains(expected),
            "{:?}",
            found.notices
        );
        assert!(matches!(decided(found), PolicyDecision::Ask(_)));
    }
}

#[test]
fn file_that_others_can_write_applies_through_a_link() {
    let (root, inside) = project("", "[policy]\ndefault = 'deny'\n");
    let real = root.path().join("real");
    fs::rename(inside.join(NAME), &real).unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o666)).unwrap();
    symlink(&real, inside.join(NAME)).unwrap();
    let found = around(&inside);
    assert_eq!(found.default.map(|d| d.effect), Some(RuleEffect::Deny));
    assert_eq!(found.notices, Vec::<String>::new());
}

#[test]
fn lookup_without_a_project_file_is_fast() {
    let home = tempfile::tempdir().unwrap();
    let deep = home.path().join("a/b/c/d/e/f");
    std::fs::create_dir_all(&deep).unwrap();
    let own = RuleSet::default();
    let look = |_| {
        let begun = std::time::Instant::now();
        let (rules, notices) = in_force(&own, &deep);
        let took = begun.elapsed();
        assert!(rules == own && notices.is_empty());
        took
    };
    // The best of many runs, to leave out the load of the machine.
    let best = (0..200).map(look).min().unwrap();
    println!("{best:?}");
    assert!(best < std::time::Duration::from_micros(100), "{best:?}");
}

#[test]
fn a_project_can_only_disable_sharing() {
    let (_root, inside) = project("[share]\nmode = \"disabled\"\n", "");
    let found = around(&inside);
    let source = found.sharing_disabled.unwrap();
    assert!(source.ends_with("/a/.aish.toml:2: share.mode"), "{source}");
    assert!(found.rules.is_empty() && found.notices.is_empty());
    for (text, ignored) in [
        ("[share]\nmode = \"auto\"\n", 1),
        ("[share]\nmode = \"manual\"\n", 1),
        ("[share]\ntarget = \"s3\"\nbucket = \"evil\"\n", 2),
        ("[share]\nnonsense = 1\n", 1),
    ] {
        let (_root, inside) = project(text, "");
        let found = around(&inside);
        assert_eq!(found.sharing_disabled, None, "{text}");
        assert!(found.rules.is_empty(), "{text}");
        assert_eq!(found.notices.len(), ignored, "{text}: {:?}", found.notices);
        for notice in &found.notices {
            assert!(notice.contains("can only disable sharing"), "{notice}");
        }
    }
    // What cannot be read may have been meant to disable.
    for text in ["[share]\nmode = \"of\"\n", "share = 1\n", "[share\n"] {
        let (_root, inside) = project(text, "");
        assert!(around(&inside).sharing_disabled.is_some(), "{text}");
    }
}
