use std::path::Path;

use super::super::file::{FileFormat, parse};
use super::super::origin::SettingOrigin;
use super::super::overrides::override_variables;
use super::super::resolve::{resolve, resolve_with_origins};
use super::super::{Config, ConfigOverrides, ExposureSetting};
use crate::chat::{DataSensitivity, OperationClass};
use crate::config::tests::without_known_keys;
use crate::safety::policy::{BuiltinAction, PolicyRule, RuleEffect, RuleSubject};

fn config(text: &str, format: FileFormat) -> Config {
    let file = parse(text, format, Path::new("/c")).unwrap();
    resolve(&file, &ConfigOverrides::default()).unwrap()
}

fn faults(text: &str) -> Vec<String> {
    match parse(text, FileFormat::Toml, Path::new("/c")) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

const WHOLE: &str = r#"
[tools]
exposure = "split"
split_threshold = 10000
[intent_declaration]
strict_server_validation = false
[history]
max_days = 1
max_records = 4000000000
max_bytes = 1048576
[policy]
default = "deny"
[policy.rules]
"github.create_issue" = "deny"
"github.*" = "allow"
"later.x.y" = "ask"
"op:read" = "allow"
"sensitivity:private" = "ask"
shell = "allow"
"fs.write" = "deny"
network = "deny"
[mcp.auto_approve]
"fs.write" = true
"fs.*" = false
"#;

#[test]
fn every_setting_arrives() {
    let config = config(WHOLE, FileFormat::Toml);
    assert_eq!(config.tools.exposure, ExposureSetting::Split);
    assert_eq!(config.tools.split_threshold, 10_000);
    assert!(!config.intent_declaration.strict_server_validation);
    let history = config.history;
    assert_eq!(
        (history.max_days, history.max_records, history.max_bytes),
        (1, 4_000_000_000, 1 << 20)
    );
    let default = &config.policy.default;
    assert_eq!(
        (default.effect, default.source.as_str()),
        (RuleEffect::Deny, "policy.default")
    );
    let tool = |server: &str, tool: &str| RuleSubject::Tool(server.into(), tool.into());
    let expected = [
        (
            RuleSubject::Server("fs".into()),
            RuleEffect::Ask,
            "mcp.auto_approve.\"fs.*\"",
        ),
        // In auto_approve, fs.write is always a tool.
        (
            tool("fs", "write"),
            RuleEffect::Allow,
            "mcp.auto_approve.\"fs.write\"",
        ),
        (
            RuleSubject::Action(BuiltinAction::FsWrite),
            RuleEffect::Deny,
            "policy.rules.\"fs.write\"",
        ),
        (
            RuleSubject::Server("github".into()),
            RuleEffect::Allow,
            "policy.rules.\"github.*\"",
        ),
        (
            tool("github", "create_issue"),
            RuleEffect::Deny,
            "policy.rules.\"github.create_issue\"",
        ),
        (
            tool("later", "x.y"),
            RuleEffect::Ask,
            "policy.rules.\"later.x.y\"",
        ),
        (
            RuleSubject::Operation(OperationClass::Read),
            RuleEffect::Allow,
            "policy.rules.\"op:read\"",
        ),
        (
            RuleSubject::Sensitivity(DataSensitivity::Private),
            RuleEffect::Ask,
            "policy.rules.\"sensitivity:private\"",
        ),
        (
            RuleSubject::Action(BuiltinAction::Network),
            RuleEffect::Deny,
            "policy.rules.network",
        ),
        (
            RuleSubject::Action(BuiltinAction::Shell),
            RuleEffect::Allow,
            "policy.rules.shell",
        ),
    ];
    let expected = expected.map(|(subject, word, source)| PolicyRule {
        subject,
        effect: word,
        source: source.into(),
    });
    let mut list = config.policy.list;
    list.sort_by(|a, b| a.source.cmp(&b.source));
    assert_eq!(list, expected);
}

#[test]
fn json_means_the_same() {
    let json = r#"{"tools": {"exposure": "split", "split_threshold": 10000},
        "intent_declaration": {"strict_server_validation": false},
        "history": {"max_days": 1, "max_records": 4000000000, "max_bytes": 1048576},
        "policy": {"default": "deny", "rules": {"fs.write": "deny", "github.*": "allow",
            "github.create_issue": "deny", "later.x.y": "ask", "network": "deny", "op:read": "allow",
            "sensitivity:private": "ask", "shell": "allow"}},
        "mcp": {"auto_approve": {"fs.*": false, "fs.write": true}}}"#;
    assert_eq!(
        config(json, FileFormat::Json),
        config(WHOLE, FileFormat::Toml)
    );
}

#[test]
fn absent_sections_give_the_defaults() {
    let mut empty = config("[policy]\n[policy.rules]\n[tools]\n", FileFormat::Toml);
    empty.file = None;
    assert_eq!(empty, Config::default());
    assert_eq!(Config::default().policy.default.effect, RuleEffect::Ask);
}

#[test]
fn permissions_come_from_the_file_and_never_from_a_variable() {
    let file = parse(WHOLE, FileFormat::Toml, Path::new("/c")).unwrap();
    // With every variable set.
    let set = [
        ("AISH_SERVER", "https://a.example"),
        ("AISH_MODEL", "m"),
        ("AISH_BASE_URL", "https://a.example/v1"),
        ("AISH_KEY_ENV", "K"),
        ("AISH_SYSTEM_PROMPT", "x"),
        ("AISH_CONFIRM_CMD", "no"),
        ("AISH_CONTEXT_COMMANDS", "1"),
    ];
    assert!(
        set.into_iter()
            .map(|(name, _)| name)
            .eq(override_variables())
    );
    let own = set.map(|(name, value)| (name.to_string(), value.to_string()));
    let over = ConfigOverrides::from_map(&own.into()).unwrap();
    let (_, settings) = resolve_with_origins(&file, &over).unwrap();
    let origin = |key: &str| {
        settings
            .iter()
            .find(|s| s.key == key)
            .map(|s| (s.value.to_string(), s.origin))
    };
    let found = [
        ("policy.default", "\"deny\"", 12),
        ("policy.rules.\"github.*\"", "\"allow\"", 15),
        ("policy.rules.shell", "\"allow\"", 19),
        ("mcp.auto_approve.\"fs.*\"", "false", 24),
        ("tools.exposure", "\"split\"", 3),
        ("tools.split_threshold", "10000", 4),
        ("intent_declaration.strict_server_validation", "false", 6),
        ("history.max_days", "1", 8),
        ("history.max_records", "4000000000", 9),
        ("history.max_bytes", "1048576", 10),
    ];
    for (key, value, line) in found {
        assert_eq!(
            origin(key),
            Some((value.to_string(), SettingOrigin::File(line))),
            "{key}"
        );
    }
}

#[test]
fn each_fault_has_its_line_and_key() {
    let table: &[(&str, &str)] = &[
        (
            "[policy]\ndefualt = 'ask'",
            "/c:2: policy.defualt: unknown key; did you mean default?",
        ),
        ("[policy]\nqqqq = 'ask'", "/c:2: policy.qqqq: unknown key"),
        (
            "[policy]\ndefault = 'denny'",
            "/c:2: policy.default: unknown value; did you mean \"deny\"?",
        ),
        (
            "[policy]\ndefault = true",
            "/c:2: policy.default: must be a string, not true or false",
        ),
        (
            "[policy]\nrules = ['a.b']",
            "/c:2: policy.rules: must be a table, not a list",
        ),
        (
            "[policy.rules]\n'a.b' = 'zzz'",
            "/c:2: policy.rules.\"a.b\": unknown value; the values are \"allow\", \"ask\", \"deny\"",
        ),
        (
            "[policy.rules]\n'a.b' = false",
            "/c:2: policy.rules.\"a.b\": must be a string, not true or false",
        ),
        (
            "[policy.rules]\nfs.write = 'deny'",
            "/c:2: policy.rules.fs: put a name with a dot in quotes: \"alias.tool\" = \"deny\"",
        ),
        (
            "[policy.rules]\nshel = 'deny'",
            "/c:2: policy.rules.shel: unknown rule; did you mean \"shell\"?",
        ),
        (
            "[policy.rules]\nfoo = 'deny'",
            "/c:2: policy.rules.foo: must be \"alias.tool\", \"alias.*\", \"op:read\", \"sensitivity:private\", shell, \"fs.read\", \"fs.write\" or network",
        ),
        (
            "[policy.rules]\n'a.get_*' = 'deny'",
            "/c:2: policy.rules.\"a.get_*\": must be \"alias.tool\", \"alias.*\", \"op:read\", \"sensitivity:private\", shell, \"fs.read\", \"fs.write\" or network",
        ),
        (
            "[policy.rules]\n'op:reed' = 'deny'",
            "/c:2: policy.rules.\"op:reed\": must be op:read, op:write or op:destructive",
        ),
        (
            "[policy.rules]\n'sensitivity:secret' = 'deny'",
            "/c:2: policy.rules.\"sensitivity:secret\": must be sensitivity:public, :internal, :private or :unknown",
        ),
        (
            "[policy.rules]\n'a.b' = 'allow'\n'sensitivity:public' = 'allow'",
            "/c:3: policy.rules.\"sensitivity:public\": a declaration of the model can only make a rule stricter: write \"ask\" or \"deny\"",
        ),
        (
            "[policy.rules]\n'Github.search' = 'deny'\n[mcp.servers.github]\nurl = 'https://a'",
            "/c:2: policy.rules.\"Github.search\": no server has this alias; did you mean \"github.search\"?",
        ),
        (
            "[policy.rules]\n'Git_Hub.*' = 'deny'",
            "/c:2: policy.rules.\"Git_Hub.*\": an alias has 1 to 20 of the characters a-z 0-9 -, and does not begin with -",
        ),
        (
            "[tools]\nexposure = 'splt'",
            "/c:2: tools.exposure: unknown value; did you mean \"split\"?",
        ),
        (
            "[tools]\nsplit_threshold = 0",
            "/c:2: tools.split_threshold: must be a whole number from 1 to 10000, not 0",
        ),
        (
            "[tools]\nsplit_threshhold = 5",
            "/c:2: tools.split_threshhold: unknown key; did you mean split_threshold?",
        ),
        (
            "[intent_declaration]\nstrict = true",
            "/c:2: intent_declaration.strict: unknown key; did you mean strict_server_validation?",
        ),
        (
            "[history]\nmax_bytes = 256",
            "/c:2: history.max_bytes: must be a whole number from 1048576 to 4000000000, not 256",
        ),
        (
            "[history]\nmax_days = 0",
            "/c:2: history.max_days: must be a whole number from 1 to 36500, not 0",
        ),
        ("[polcy]", "/c:1: polcy: unknown key; did you mean policy?"),
    ];
    for (text, expected) in table {
        let found = faults(text);
        let found: Vec<&str> = found
            .iter()
            .map(|fault| without_known_keys(fault))
            .collect();
        assert_eq!(found, [*expected], "{text}");
    }
}

#[test]
fn write_tool_of_a_server_called_fs_can_have_an_ask_rule() {
    let text = "[policy.rules]\n'fs.write' = 'ask'\n[mcp.servers.fs]\ncommand = 'x'\n";
    let rules = config(text, FileFormat::Toml).policy;
    assert_eq!(rules.list[0].effect, RuleEffect::Ask);
    // The rule does not apply to the configuration file.
    assert_eq!(rules.rule_for_action(BuiltinAction::FsWrite), None);
}
