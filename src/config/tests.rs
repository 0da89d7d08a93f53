use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use proptest::prelude::*;

use super::file::{FileFormat, parse};
use super::origin::SettingOrigin;
use super::reference::starter;
use super::resolve::{resolve, resolve_with_origins};
use super::setting::{SectionSpec, SectionType, ValueKind};
use super::*;

fn home() -> (tempfile::TempDir, Paths) {
    let home = tempfile::tempdir().unwrap();
    let paths = Paths::under(home.path(), 1).unwrap();
    fs::create_dir(&paths.config).unwrap();
    (home, paths)
}

fn home_with(text: &str) -> (tempfile::TempDir, Paths) {
    let (home, paths) = home();
    fs::write(paths.config.join("config.toml"), text).unwrap();
    (home, paths)
}

fn overrides(pairs: &[(&str, &str)]) -> Result<ConfigOverrides> {
    let map = pairs.iter().map(|(k, v)| ((*k).into(), (*v).into()));
    ConfigOverrides::from_map(&map.collect())
}

fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let own = |(k, v): &(&str, &str)| ((*k).to_string(), (*v).to_string());
    pairs.iter().map(own).collect()
}

fn faults(text: &str, format: FileFormat) -> Vec<String> {
    match parse(text, format, std::path::Path::new("/c")) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

/// A valid model with one more line (line 4).
/// Removes the list of known keys from a fault, so that tests do not depend on the list of settings.
/// `unknown_keys_are_rejected_in_every_section` checks the lists.
pub(super) fn without_known_keys(fault: &str) -> &str {
    fault.split("; the keys here are ").next().unwrap_or(fault)
}

fn model_with(line: &str) -> String {
    format!("[models.gpt]\nbase_url = \"https://a.example/v1\"\nmodel = \"m\"\n{line}\n")
}

const GOOD: &str = r#"default_model = "gpt"
[models.gpt]
base_url = "https://a.example/v1"
model = "m"
[models.llama]
base_url = "http://127.0.0.1:8080/v1"
model = "l"
[shell]
confirm_cmd = false
[context]
commands = 3
"#;

#[test]
fn no_file_is_a_valid_configuration() {
    let home = tempfile::tempdir().unwrap();
    let paths = Paths::under(home.path(), 1).unwrap();
    let config = load(&paths, &ConfigOverrides::default()).unwrap();
    assert_eq!(config, Config::default());
    assert_eq!(config.current().unwrap(), None);
    assert_eq!(file_problems(&paths), []);
}

#[test]
fn starter_is_valid_as_it_is_and_sets_nothing() {
    let (_home, paths) = home_with(&starter());
    let mut config = load(&paths, &ConfigOverrides::default()).unwrap();
    config.file = None;
    assert_eq!(config, Config::default());
}

/// The starter file with its settings uncommented; with `alternatives`, including those that exclude others.
fn uncommented(alternatives: bool) -> String {
    let live = |line: &str| match line.strip_prefix("##") {
        Some(rest) if alternatives => rest.to_owned(),
        Some(_) => String::new(),
        None => match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') => rest.to_owned(),
            _ => line.to_owned(),
        },
    };
    starter().lines().map(|line| live(line) + "\n").collect()
}

#[test]
fn starter_is_valid_with_every_setting_uncommented() {
    let whole = uncommented(false);
    let file = parse(&whole, FileFormat::Toml, std::path::Path::new("/c")).unwrap();
    let (config, settings) = resolve_with_origins(&file, &ConfigOverrides::default()).unwrap();
    assert_eq!(
        config.system_prompt.as_deref(),
        Some("Answer in one sentence.")
    );
    assert_eq!(
        config.models["local"].key,
        KeySource::Env("OPENAI_API_KEY".into())
    );
    assert_eq!(
        config.models["local"].serve.as_ref().unwrap().idle,
        Duration::from_secs(600)
    );
    assert_eq!(config.mcp.servers.len(), 1);
    assert_eq!(config.policy.list.len(), 6);
    let unset: Vec<_> = settings
        .iter()
        .filter(|s| s.origin == SettingOrigin::Default)
        .collect();
    assert!(
        unset.is_empty(),
        "every default is in the starter: {unset:?}"
    );
    // Except for the examples, it sets the defaults.
    assert_eq!(
        (config.shell, config.context),
        (ShellSettings::default(), ContextSettings::default())
    );
    let tools = ToolSettings {
        search_url: None,
        ..config.tools
    };
    assert_eq!(
        (config.history, tools),
        (HistorySettings::default(), ToolSettings::default())
    );
}

/// Every section of the settings table.
fn sections(section: &'static SectionSpec, all: &mut Vec<&'static SectionSpec>) {
    all.push(section);
    for spec in section.settings {
        if let ValueKind::Section(inner) | ValueKind::NamedSections(inner) = spec.kind {
            sections(inner, all);
        }
    }
}

fn all_sections() -> Vec<&'static SectionSpec> {
    let mut all = Vec::new();
    sections(const { &Config::SECTION }, &mut all);
    all
}

#[test]
fn every_declaration_is_complete() {
    let starter = uncommented(true);
    for section in all_sections() {
        for spec in section.settings {
            let name = format!("{}.{}", section.path, spec.key);
            assert!(!spec.doc.is_empty(), "{name} has no description");
            assert!(
                spec.doc.concat().ends_with('.'),
                "{name}: the description is sentences"
            );
            let is_number = matches!(
                spec.kind,
                ValueKind::Integer | ValueKind::Number | ValueKind::Seconds | ValueKind::Duration
            );
            assert_eq!(spec.bounds.is_some(), is_number, "{name}: bounds");
            let is_table = matches!(spec.kind, ValueKind::Section(_));
            let default = (spec.default)(spec);
            assert!(
                is_table || default.is_some() || spec.example.is_some(),
                "{name} has neither a default nor an example"
            );
            let mentions = [
                format!("\n{} = ", spec.key),
                format!("{}]\n", spec.key),
                format!(".{}.", spec.key),
                format!("[{}.", spec.key),
            ];
            assert!(
                mentions.iter().any(|m| starter.contains(m)),
                "the starter lacks {name}"
            );
        }
    }
}

#[test]
fn unknown_keys_are_rejected_in_every_section() {
    for section in all_sections() {
        let path = section.path.replace("NAME", "a").replace("ALIAS", "a");
        let header = match &*path {
            "" => String::new(),
            path => format!("[{path}]\n"),
        };
        let found = faults(&format!("{header}qqqq = 1\n"), FileFormat::Toml);
        let keys: Vec<_> = section.settings.iter().map(|spec| spec.key).collect();
        let unknown = format!("unknown key; the keys here are {}", keys.join(", "));
        assert!(
            found.iter().any(|fault| fault.ends_with(&unknown)),
            "{path}: {found:?}"
        );
    }
}

/// `[policy] wait` is the setting that the how-to adds: nothing but its declaration in `settings` makes these hold.
#[test]
fn one_declaration_makes_a_setting() {
    let read = |text: &str| {
        let file = parse(text, FileFormat::Toml, std::path::Path::new("/c")).unwrap();
        let (config, settings) = resolve_with_origins(&file, &ConfigOverrides::default()).unwrap();
        let setting = settings
            .into_iter()
            .find(|s| s.key == "policy.wait")
            .unwrap();
        (config.approvals.wait, setting.value, setting.origin)
    };
    let minutes = |n: u64| Duration::from_secs(60 * n);
    assert_eq!(
        read(""),
        (minutes(10), "10m".into(), SettingOrigin::Default)
    );
    assert_eq!(
        read("[policy]\nwait = '90m'"),
        (minutes(90), "90m".into(), SettingOrigin::File(2))
    );
    assert_eq!(read("[policy]\nwait = '120s'").1, "2m");
    let expected = "must be a duration from \"1s\" to \"7d\", such as \"90s\", \"10m\" or \"2h\"";
    for bad in [
        "'10 m'",
        "'8d'",
        "'0s'",
        "'m'",
        "'10'",
        "'-1m'",
        "'99999999999999999999d'",
        "'é'",
    ] {
        let found = faults(&format!("[policy]\nwait = {bad}"), FileFormat::Toml);
        assert_eq!(found, [format!("/c:2: policy.wait: {expected}")], "{bad}");
    }
    assert_eq!(
        faults("[policy]\nwait = 10", FileFormat::Toml),
        [format!("/c:2: policy.wait: {expected}, not a number")]
    );
    assert!(starter().contains("\n#wait = \"10m\"\n"));
    assert!(
        reference::markdown().contains("| `wait` | duration, `\"1s\"` to `\"7d\"` | `\"10m\"` |")
    );
    assert!(reference::json_schema().contains("\"default\": \"10m\""));
}

#[test]
fn each_fault_has_its_line_and_key() {
    let table: &[(&str, &str)] = &[
        (
            "base_urll = 1",
            "/c:4: models.gpt.base_urll: unknown key; did you mean base_url?",
        ),
        (
            "Temprature = 1",
            "/c:4: models.gpt.Temprature: unknown key; did you mean temperature?",
        ),
        (
            "\"a\\u001b b\" = 1",
            "/c:4: models.gpt.\"a\\u{1b} b\": unknown key",
        ),
        (
            "api_key = 'sk-secret'",
            "/c:4: models.gpt.api_key: unknown key; keys are not kept in this file: use key_env (the name of a variable) or key_cmd (a command that prints the key)",
        ),
        (
            "key = 'sk-secret'",
            "/c:4: models.gpt.key: unknown key; keys are not kept in this file: use key_env (the name of a variable) or key_cmd (a command that prints the key)",
        ),
        (
            "key_env = 'sk-secret'",
            "/c:4: models.gpt.key_env: must be the name of an environment variable, such as OPENAI_API_KEY",
        ),
        (
            "key_env = 'A'\nkey_cmd = 'b'",
            "/c:5: models.gpt.key_cmd: give key_env or key_cmd, not both",
        ),
        (
            "key_cmd = ['sk-secret']",
            "/c:4: models.gpt.key_cmd: must be a string, not a list",
        ),
        (
            "key_cmd = ''",
            "/c:4: models.gpt.key_cmd: must not be empty",
        ),
        (
            "provider = 'opnai'",
            "/c:4: models.gpt.provider: unknown value; did you mean \"openai\"?",
        ),
        (
            "provider = 'zzz'",
            "/c:4: models.gpt.provider: unknown value; the values are \"openai\", \"chat\", \"anthropic\", \"gemini\", \"mistral\"",
        ),
        (
            "temperature = 3",
            "/c:4: models.gpt.temperature: must be a number from 0 to 2, not 3",
        ),
        (
            "temperature = nan",
            "/c:4: models.gpt.temperature: must be a number from 0 to 2, not NaN",
        ),
        (
            "temperature = 'hot'",
            "/c:4: models.gpt.temperature: must be a number from 0 to 2, not a string",
        ),
        (
            "max_tokens = 0",
            "/c:4: models.gpt.max_tokens: must be a whole number from 1 to 10000000, not 0",
        ),
        (
            "max_tokens = 1.5",
            "/c:4: models.gpt.max_tokens: must be a whole number from 1 to 10000000, not 1.5",
        ),
        (
            "max_tokens = 99999999999999999999",
            "/c:4: models.gpt.max_tokens: must be a whole number from 1 to 10000000, not a number beyond 64 bits",
        ),
        (
            "max_tokens = 2026-01-01",
            "/c:4: models.gpt.max_tokens: must be a whole number from 1 to 10000000, not a date",
        ),
        (
            "use_tool_role = 'no'",
            "/c:4: models.gpt.use_tool_role: must be true or false, not a string",
        ),
        (
            "price = { input = 1 }",
            "/c:4: models.gpt.price.output: missing",
        ),
        (
            "price = { input = -1, output = 1 }",
            "/c:4: models.gpt.price.input: must be a number from 0 to 100000, not -1",
        ),
        (
            "headers = 'sk-secret'",
            "/c:4: models.gpt.headers: must be a table, not a string",
        ),
        (
            "headers = { 'a b' = 'sk-secret' }",
            "/c:4: models.gpt.headers.\"a b\": not a valid header name",
        ),
        (
            "headers = { A = \"sk-secret\\r\\nB: c\" }",
            "/c:4: models.gpt.headers.A: a header's value is one line of visible characters",
        ),
        (
            "headers = { Host = 'a' }",
            "/c:4: models.gpt.headers.Host: this header is set by aish itself",
        ),
        (
            "key_env = 'A'\nheaders = { authorization = 'sk-secret' }",
            "/c:5: models.gpt.headers.authorization: the key is sent in this header already",
        ),
        (
            "[models.b]\nbase_url = 'http://[::1]'\nmodel = 'm'\nserve = { command = [] }",
            "/c:7: models.b.serve.command: must not be empty",
        ),
        (
            "[models.b]\nbase_url = 'http://[::1]'\nmodel = 'm'\nserve = { command = ['x', '80'] }",
            "/c:7: models.b.serve.command: must contain {port}, which stands for the port that aish chooses",
        ),
        (
            "timeout = 0",
            "/c:4: models.gpt.timeout: must be a whole number from 1 to 86400, not 0",
        ),
        (
            "[models.'a\u{200b}b']\nbase_url = 'http://a'\nmodel = 'b'",
            "/c:4: models.\"a\\u{200b}b\": a model's name has 1 to 64 of the characters A-Z a-z 0-9 . _ : / -",
        ),
        (
            "[models.b]\nmodel = 'b'",
            "/c:4: models.b.base_url: missing",
        ),
        (
            "[context]\nenv = ['LANG',\n 'OPENAI_API_KEY']",
            "/c:6: context.env: looks like a secret by its name, and would be sent to the model",
        ),
        (
            "[context]\nenv = ['A=B']",
            "/c:5: context.env: must be the name of an environment variable, such as OPENAI_API_KEY",
        ),
        (
            "[shell]\nterminal_programs = ['a b']",
            "/c:5: shell.terminal_programs: a program's name alone, without its directory or options",
        ),
        (
            "[shell]\noutput_bytes = 1",
            "/c:5: shell.output_bytes: must be a whole number from 256 to 1048576, not 1",
        ),
        (
            "[histry]",
            "/c:4: histry: unknown key; did you mean history?",
        ),
        ("[[history]]", "/c:4: history: must be a table, not a list"),
        (
            "a = b",
            "/c:4: not valid TOML: string values must be quoted, expected literal string",
        ),
        ("model = 'again'", "/c:4: not valid TOML: duplicate key"),
    ];
    for (line, expected) in table {
        let found = faults(&model_with(line), FileFormat::Toml);
        let first = found.first().map(|fault| without_known_keys(fault));
        assert_eq!(first, Some(*expected), "{line}");
        assert!(!found.concat().contains("sk-secret"), "{found:?}");
    }
}

#[test]
fn addresses_are_checked() {
    let table: &[(&str, &str)] = &[
        ("ftp://a.example", "must begin with http:// or https://"),
        ("a.example/v1", "must begin with http:// or https://"),
        ("127.0.0.1:18765", "must begin with http:// or https://"),
        ("localhost:18765", "must begin with http:// or https://"),
        (
            "http://:1",
            "must be an address such as https://api.openai.com/v1 (empty host)",
        ),
        (
            "https://u:sk-secret@a.example",
            "must not contain a user name or password: use key_env, key_cmd or headers",
        ),
        (
            "https://a.example/?v=1&api-key=sk-secret",
            "must not contain a key: use key_env, key_cmd or headers",
        ),
        ("https://a.example/#sk-secret", "must not contain #"),
        (
            "https://a.example/v1/chat/completions/",
            "must end before /chat/completions, which aish adds",
        ),
        (
            "https://a.example/v1/messages",
            "must end before /messages, which aish adds",
        ),
        (
            "https://a.example/\\tb",
            "must be an address such as https://api.openai.com/v1, without spaces",
        ),
    ];
    for (url, expected) in table {
        let text = format!("[models.a]\nmodel = 'm'\nbase_url = \"{url}\"");
        assert_eq!(
            faults(&text, FileFormat::Toml),
            [format!("/c:3: models.a.base_url: {expected}")]
        );
    }
}

#[test]
fn key_is_never_sent_unencrypted_over_a_network() {
    let faults_of = |url: &str, extra: &str| {
        let text = format!("[models.a]\nmodel = 'm'\nbase_url = '{url}'\n{extra}");
        faults(&text, FileFormat::Toml)
    };
    let refused = [
        "http://a.example/v1",
        "http://8.8.8.8/v1",
        "http://gpu.local/v1",
        "http://localhost.evil.example/v1",
        "http://127.0.0.1.evil.example/v1",
        "http://100.128.0.1/v1",
        "http://[2001:db8::1]/v1",
        "http://[::ffff:8.8.8.8]/v1",
    ];
    for url in refused {
        for extra in [
            "key_env = 'A'",
            "key_cmd = 'a'",
            "headers = { X-Auth = 'a' }",
        ] {
            let found = faults_of(url, extra);
            assert!(
                found.concat().contains("in clear"),
                "{url} {extra}: {found:?}"
            );
        }
        assert_eq!(
            faults_of(url, "headers = { X-Title = 'a' }"),
            Vec::<String>::new()
        );
    }
    let fine = [
        "https://a.example/v1",
        "http://localhost:1/v1",
        "http://127.0.0.1:1/v1",
        "http://0x7f.1/v1",
        "http://[::1]:1/v1",
        "http://192.168.1.2/v1",
        "http://100.64.0.1/v1",
        "http://[fd00::1]/v1",
    ];
    for url in fine {
        assert_eq!(
            faults_of(url, "key_env = 'A'"),
            Vec::<String>::new(),
            "{url}"
        );
    }
}

#[test]
fn served_model_must_be_on_this_machine() {
    let text = "[models.a]\nmodel = 'm'\nbase_url = 'http://192.168.1.2/v1'\nserve = { command = ['x{port}'] }";
    let found = faults(text, FileFormat::Toml);
    assert!(
        found[0].starts_with("/c:3: models.a.base_url: must be on this machine"),
        "{found:?}"
    );
}

#[test]
fn json_reports_the_same_faults_as_toml() {
    let text = r#"{
  // comments and a final comma are fine
  "default_model": "gtp",
  "models": {
    "gpt": {
      "base_urll": "https://a.example",
      "model": null,
      "max_tokens": 1e3,
    },
  },
  "shell": []
}"#;
    assert_eq!(
        faults(text, FileFormat::Json),
        [
            "/c:3: default_model: no model named \"gtp\"; did you mean gpt?",
            "/c:5: models.gpt.base_url: missing",
            "/c:6: models.gpt.base_urll: unknown key; did you mean base_url?",
            "/c:7: models.gpt.model: must be a string, not null",
            "/c:8: models.gpt.max_tokens: must be a whole number from 1 to 10000000, not 1000",
            "/c:11: shell: must be a table, not a list",
        ]
    );
    assert_eq!(
        faults("{\n\"a\": 1,\n\"a\": 2}", FileFormat::Json),
        ["/c:3: not valid here: this key appears twice in one object"]
    );
    assert_eq!(
        faults("{\n'a': 1}", FileFormat::Json),
        ["/c:2: not valid JSON: Single-quoted strings are not allowed"]
    );
    assert_eq!(
        faults("[]", FileFormat::Json),
        ["/c:1: must be a table, not a list"]
    );
    assert_eq!(faults("", FileFormat::Json), Vec::<String>::new());
    let deep = "[".repeat(100_000);
    assert_eq!(faults(&deep, FileFormat::Json).len(), 1);
    assert_eq!(faults(&format!("a = {deep}"), FileFormat::Toml).len(), 1);
}

#[test]
fn json_and_toml_give_equal_configurations() {
    let json = r#"{"default_model": "gpt", "models": {
        "gpt": {"base_url": "https://a.example/v1", "model": "m"},
        "llama": {"base_url": "http://127.0.0.1:8080/v1", "model": "l"}},
        "shell": {"confirm_cmd": false}, "context": {"commands": 3}}"#;
    let read = |text, format| {
        let file = parse(text, format, std::path::Path::new("/c")).unwrap();
        let mut config = resolve(&file, &ConfigOverrides::default()).unwrap();
        config.models.values_mut().for_each(|m| m.line = 0);
        config
    };
    assert_eq!(read(GOOD, FileFormat::Toml), read(json, FileFormat::Json));
}

#[test]
fn flags_beat_environment_beats_file_beats_default() {
    let (_home, paths) = home_with(GOOD);
    let file = read_file(&paths).unwrap();
    let origin = |over: &ConfigOverrides, key: &str| {
        let (config, settings) = resolve_with_origins(&file, over).unwrap();
        let setting = settings.into_iter().find(|s| s.key == key).unwrap();
        (config, setting.origin)
    };
    let default = ConfigOverrides::default();
    let (config, from) = origin(&default, "default_model");
    assert_eq!(
        (config.default_model.as_deref(), from),
        (Some("gpt"), SettingOrigin::File(1))
    );
    let env = overrides(&[
        ("AISH_MODEL", "llama"),
        ("AISH_KEY", "^x"),
        ("AISH_CONTEXT_COMMANDS", "0"),
    ])
    .unwrap();
    let (config, from) = origin(&env, "default_model");
    assert_eq!(
        (config.default_model.as_deref(), from),
        (Some("llama"), SettingOrigin::Env("AISH_MODEL"))
    );
    assert_eq!(config.context.commands, 0);
    let flag = env.with_model(Some("gpt".into()));
    let (config, from) = origin(&flag, "default_model");
    assert_eq!(
        (config.default_model.as_deref(), from),
        (Some("gpt"), SettingOrigin::Flag("--model"))
    );
    assert!(
        SettingOrigin::Default < SettingOrigin::File(9)
            && SettingOrigin::File(9) < SettingOrigin::Env("")
            && SettingOrigin::Env("") < SettingOrigin::Flag("")
    );
    let (config, from) = origin(&default, "shell.confirm_cmd");
    assert_eq!(
        (config.shell.confirm_cmd, from),
        (false, SettingOrigin::File(9))
    );
    let env = overrides(&[("AISH_CONFIRM_CMD", "YES"), ("AISH_SYSTEM_PROMPT", "x")]).unwrap();
    let (config, from) = origin(&env, "shell.confirm_cmd");
    assert_eq!(
        (config.shell.confirm_cmd, from),
        (true, SettingOrigin::Env("AISH_CONFIRM_CMD"))
    );
    assert_eq!(config.system_prompt.as_deref(), Some("x"));
    assert_eq!(
        origin(&default, "shell.output_bytes").1,
        SettingOrigin::Default
    );
}

#[test]
fn tool_role_and_images_of_a_model_are_read() {
    let of = |line: &str| {
        let file = parse(
            &model_with(line),
            FileFormat::Toml,
            std::path::Path::new("/c"),
        )
        .unwrap();
        let config = resolve(&file, &ConfigOverrides::default()).unwrap();
        let model = &config.models["gpt"];
        (model.use_tool_role, model.images)
    };
    assert_eq!(of(""), (true, false));
    assert_eq!(of("use_tool_role = false\nimages = true"), (false, true));
}

#[test]
fn environment_alone_can_define_a_model() {
    let over = overrides(&[
        ("AISH_BASE_URL", "https://a.example/v1"),
        ("AISH_MODEL", "some/model"),
        ("AISH_KEY_ENV", "MY_KEY"),
    ])
    .unwrap();
    let config = resolve(&ConfigFile::default(), &over).unwrap();
    let model = config.current().unwrap().unwrap();
    assert_eq!(
        (model.name.as_str(), model.model.as_str()),
        ("env", "some/model")
    );
    assert_eq!(model.key, KeySource::Env("MY_KEY".into()));
    let error =
        key::key_from_variables(&config, model, &variables(&[("MY_KEYS", "x")])).unwrap_err();
    assert_eq!(
        error.message,
        "the environment variable AISH_KEY_ENV: the variable MY_KEY is not set; did you mean MY_KEYS?"
    );
}

#[test]
fn another_aish_server_is_a_model_that_its_origin_names() {
    let chosen = |pairs: &[(&str, &str)], flag: Option<&str>| {
        let over = overrides(pairs)?.with_model(flag.map(str::to_owned));
        let config = resolve(&ConfigFile::default(), &over)?;
        let model = config.current()?.cloned();
        Ok::<_, Error>(model.expect("a model"))
    };
    let server = ("AISH_SERVER", "https://H.example:443/");
    let env = [
        server,
        ("AISH_MODEL", "m"),
        ("AISH_BASE_URL", "https://a.example/v1"),
    ];
    for model in [
        chosen(&[server], None),
        chosen(&env, None),
        chosen(&[], Some("https://h.example")),
    ] {
        let model = model.unwrap();
        assert_eq!(model.name, "https://h.example");
        assert_eq!(model.base_url, "https://h.example");
        assert!(model.is_aish_server && model.key == KeySource::None);
    }
    assert_eq!(chosen(&[server], Some("openai")).unwrap().name, "openai");
    for (pairs, flag) in [
        (vec![("AISH_SERVER", "http://h.example")], None),
        (vec![("AISH_SERVER", "openai")], None),
        (vec![("AISH_SERVER", "https://u:secret@h")], None),
        (vec![], Some("https://h/secret")),
        (vec![("AISH_MODEL", "ftp://secret")], None),
    ] {
        let error = chosen(&pairs, flag).unwrap_err();
        assert!(error.message.contains("the other aish server"), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[test]
fn invalid_variable_is_named_in_the_error() {
    let table: &[(&[(&str, &str)], &str)] = &[
        (
            &[("AISH_CONFIRM_CMD", "maybe")],
            "AISH_CONFIRM_CMD: must be true or false",
        ),
        (
            &[("AISH_CONTEXT_COMMANDS", "101")],
            "AISH_CONTEXT_COMMANDS: must be a whole number from 0 to 100",
        ),
        (
            &[("AISH_BASE_URL", "https://a.example")],
            "AISH_BASE_URL: needs AISH_MODEL, the model's name on that server",
        ),
        (
            &[("AISH_BASE_URL", "a")],
            "AISH_BASE_URL: must begin with http:// or https://",
        ),
        (
            &[
                ("AISH_BASE_URL", "http://a.example"),
                ("AISH_MODEL", "m"),
                ("AISH_KEY_ENV", "K"),
            ],
            "AISH_BASE_URL: the key would cross the network in cleartext: use https://, or a numeric private address",
        ),
        (
            &[("AISH_KEY_ENV", "K")],
            "AISH_KEY_ENV: is set without AISH_BASE_URL",
        ),
        (
            &[("AISH_KEY_ENV", "sk-x")],
            "AISH_KEY_ENV: must be the name of an environment variable, such as OPENAI_API_KEY",
        ),
    ];
    for (pairs, expected) in table {
        let error = overrides(pairs).unwrap_err();
        assert_eq!(
            error.message,
            format!("the environment variable {expected}")
        );
        assert_eq!(error.kind, crate::error::ErrorKind::Config);
    }
    assert_eq!(
        overrides(&[("AISH_CONFIRM_CMD", "")]).unwrap(),
        ConfigOverrides::default()
    );
    let (_home, paths) = home_with(GOOD);
    let error = load(&paths, &overrides(&[("AISH_MODEL", "lama")]).unwrap()).unwrap_err();
    assert_eq!(
        error.message,
        "the environment variable AISH_MODEL: no model named \"lama\"; did you mean llama?"
    );
    let error = load(
        &paths,
        &ConfigOverrides::default().with_model(Some("zzz".into())),
    )
    .unwrap_err();
    assert_eq!(
        error.message,
        "no model named \"zzz\"; configured: gpt, llama"
    );
}

#[test]
fn single_model_is_the_default_and_several_are_an_error() {
    let one = model_with("");
    let file = parse(&one, FileFormat::Toml, std::path::Path::new("/c")).unwrap();
    let config = resolve(&file, &ConfigOverrides::default()).unwrap();
    assert_eq!(config.current().unwrap().unwrap().name, "gpt");
    let two = GOOD.replace("default_model = \"gpt\"", "");
    let file = parse(&two, FileFormat::Toml, std::path::Path::new("/c")).unwrap();
    let error = resolve(&file, &ConfigOverrides::default())
        .unwrap()
        .current()
        .unwrap_err();
    assert!(error.message.ends_with("gpt, llama"), "{error}");
}

#[test]
fn load_reports_the_first_fault_and_the_number_of_others() {
    let (_home, paths) = home_with("[shell]\nconfirm = 1\n[context]\ncommand = 1\nenvs = 1\n");
    let error = load(&paths, &ConfigOverrides::default()).unwrap_err();
    let file = paths.config.join("config.toml");
    assert_eq!(
        error.to_string(),
        format!(
            "{}:2: shell.confirm: unknown key; did you mean confirm_cmd?\n  and 2 more; see all with: aish-helper config check",
            file.display()
        )
    );
}

#[test]
fn unset_key_variable_is_reported_with_its_line() {
    let (_home, paths) = home_with(&model_with("key_env = 'CARGO_MANIFEST_DIRR'"));
    let found = file_problems(&paths);
    assert_eq!(
        found[0].to_string(),
        format!(
            "{}:4: models.gpt.key_env: the variable CARGO_MANIFEST_DIRR is not set; did you mean CARGO_MANIFEST_DIR?",
            paths.config.join("config.toml").display()
        )
    );
    let config = load(&paths, &ConfigOverrides::default()).unwrap();
    let error = key::key_from_variables(
        &config,
        &config.models["gpt"],
        &variables(&[("CARGO_MANIFEST_DIR", "x")]),
    )
    .unwrap_err();
    assert_eq!(error.message, found[0].to_string());
}

#[test]
fn unset_variables_of_servers_are_reported_with_their_lines() {
    let (_home, paths) = home_with(
        "[mcp.servers.a]\nurl = 'https://a.example'\nauth_env = 'AISH_NO_SUCH_A'\n\
         [mcp.servers.b]\ncommand = 'b'\n\
         env = { X = '$AISH_NO_SUCH_B', Y = '$CARGO_MANIFEST_DIR', Z = 'AISH_NO_SUCH_C' }\n\
         [mcp.servers.c]\nurl = 'https://c.example'\nauth_env = 'AISH_NO_SUCH_D'\ndisabled = true\n\
         [mcp.servers.d]\nurl = 'https://d.example'\nauth_env = 'AISH_NO_SUCH_E'\nauth_token = 't'\n",
    );
    let found = file_problems(&paths);
    let found: Vec<_> = found.iter().map(|p| (p.line, p.key.as_str())).collect();
    assert_eq!(
        found,
        [
            (Some(3), "mcp.servers.a.auth_env"),
            (Some(6), "mcp.servers.b.env.X")
        ]
    );
}

#[test]
fn toml_and_json_together_are_an_error() {
    let (_home, paths) = home_with("");
    fs::write(paths.config.join("aish.json"), "{}").unwrap();
    let error = load(&paths, &ConfigOverrides::default()).unwrap_err();
    assert!(
        error.message.contains("config.toml") && error.message.contains("aish.json"),
        "{error}"
    );
    assert!(config_path(&paths).is_err());
    assert!(add_model(&paths, "a", "", false).is_err());
    fs::remove_file(paths.config.join("config.toml")).unwrap();
    let config = load(&paths, &ConfigOverrides::default()).unwrap();
    assert_eq!(config.file, Some(paths.config.join("aish.json")));
}

#[test]
fn file_that_others_can_write_is_refused() {
    let (_home, paths) = home_with("");
    let file = paths.config.join("config.toml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o646)).unwrap();
    let error = load(&paths, &ConfigOverrides::default()).unwrap_err();
    assert_eq!(
        error.message,
        format!(
            "{}: may be written by other users (mode 0646), but aish trusts it: run chmod go-w on it",
            file.display()
        )
    );
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(load(&paths, &ConfigOverrides::default()).is_ok());
}

#[test]
fn link_is_followed_and_a_fifo_is_refused() {
    let (home, paths) = home();
    let file = paths.config.join("config.toml");
    let real = home.path().join("dotfiles.toml");
    fs::write(&real, GOOD).unwrap();
    std::os::unix::fs::symlink(&real, &file).unwrap();
    assert_eq!(
        load(&paths, &ConfigOverrides::default())
            .unwrap()
            .models
            .len(),
        2
    );
    let entry = "base_url = 'http://127.0.0.1:1/v1'\nmodel = 'm'";
    add_model(&paths, "new", entry, true).unwrap();
    assert!(fs::symlink_metadata(&file).unwrap().is_symlink());
    assert!(fs::read_to_string(&real).unwrap().contains("[models.new]"));
    fs::remove_file(&real).unwrap();
    let error = load(&paths, &ConfigOverrides::default()).unwrap_err();
    assert!(error.message.contains("cannot be opened"), "{error}");
    fs::remove_file(&file).unwrap();
    nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let error = load(&paths, &ConfigOverrides::default()).unwrap_err();
    assert!(error.message.ends_with("is not a regular file"), "{error}");
}

#[test]
fn invalid_utf8_is_reported_with_its_line() {
    let (_home, paths) = home();
    fs::write(paths.config.join("config.toml"), b"# a\n# \xff\n").unwrap();
    let error = load(&paths, &ConfigOverrides::default()).unwrap_err();
    assert!(
        error.message.ends_with("config.toml:2: is not UTF-8 text"),
        "{error}"
    );
}

#[test]
fn stamp_changes_with_the_file() {
    let (_home, paths) = home();
    let none = ConfigStamp::of(&paths);
    assert_eq!(none, ConfigStamp::of(&paths));
    let file = paths.config.join("config.toml");
    fs::write(&file, "").unwrap();
    let empty = ConfigStamp::of(&paths);
    assert_ne!(none, empty);
    fs::write(&file, "#").unwrap();
    assert_ne!(empty, ConfigStamp::of(&paths));
}

#[test]
fn add_model_keeps_every_other_byte() {
    let entry = "base_url = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"";
    let head = "[models.new]\n";
    let cases = [
        ("", format!("default_model = \"new\"\n\n{head}{entry}\n")),
        (
            "# mine\r\n[shell]",
            format!("default_model = \"new\"\n\n# mine\r\n[shell]\n\n{head}{entry}\n"),
        ),
        (
            "# é\ndefault_model = 'old' # why\n[models.old]\nbase_url = 'http://a'\nmodel = 'm'\n",
            format!(
                "# é\ndefault_model = \"new\" # why\n[models.old]\nbase_url = 'http://a'\nmodel = 'm'\n\n{head}{entry}\n"
            ),
        ),
        (
            "\u{feff}# é\n",
            format!("\u{feff}default_model = \"new\"\n\n# é\n\n{head}{entry}\n"),
        ),
    ];
    for (old, expected) in cases {
        let (_home, paths) = home_with(old);
        let file = paths.config.join("config.toml");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        add_model(&paths, "new", entry, true).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), expected);
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600,
            "others cannot read what was added"
        );
        assert_eq!(
            fs::read_dir(&paths.config).unwrap().count(),
            1,
            "no temporary file is left"
        );
        let config = load(&paths, &ConfigOverrides::default()).unwrap();
        assert_eq!(config.current().unwrap().unwrap().name, "new");
        // A second model whose name needs quotes; the default stays.
        add_model(&paths, "a/b:1.5", entry, false).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text, format!("{expected}\n[models.\"a/b:1.5\"]\n{entry}\n"));
    }
}

#[test]
fn add_model_refuses_what_would_break_the_file() {
    let entry = "base_url = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"";
    let cases = [
        (GOOD, "gpt", entry, "a model named gpt already exists"),
        (GOOD, "a b", entry, "a model's name has"),
        (GOOD, "new", "modle = 1", "the changed file would be wrong"),
        ("shell = 1", "new", entry, "shell: must be a table"),
        (
            "models = { a = { base_url = 'http://a', model = 'm' } }",
            "new",
            entry,
            "not valid TOML",
        ),
    ];
    for (old, name, entry, expected) in cases {
        let (_home, paths) = home_with(old);
        let error = add_model(&paths, name, entry, true).unwrap_err();
        assert!(error.message.contains(expected), "{error}");
        assert_eq!(
            fs::read_to_string(paths.config.join("config.toml")).unwrap(),
            old
        );
    }
    let (_home, paths) = home();
    fs::write(paths.config.join("aish.json"), "{}").unwrap();
    let error = add_model(&paths, "new", entry, true).unwrap_err();
    assert!(
        error.to_string().contains("models by hand: new, with"),
        "{error}"
    );
}

#[test]
fn set_default_changes_one_value() {
    let (_home, paths) = home_with(GOOD);
    set_default(&paths, "llama").unwrap();
    let text = fs::read_to_string(paths.config.join("config.toml")).unwrap();
    assert_eq!(
        text,
        GOOD.replace("default_model = \"gpt\"", "default_model = \"llama\"")
    );
    let error = set_default(&paths, "lama").unwrap_err();
    assert_eq!(
        error.message,
        "no model named \"lama\"; did you mean llama?"
    );
}

#[test]
fn concurrent_additions_are_all_kept() {
    let (_home, paths) = home();
    let entry = "base_url = 'http://127.0.0.1:1/v1'\nmodel = 'm'";
    std::thread::scope(|s| {
        for i in 0..8 {
            let paths = &paths;
            s.spawn(move || add_model(paths, &format!("m{i}"), entry, true).unwrap());
        }
    });
    assert_eq!(
        load(&paths, &ConfigOverrides::default())
            .unwrap()
            .models
            .len(),
        8
    );
}

#[test]
fn add_model_makes_the_directory() {
    let home = tempfile::tempdir().unwrap();
    let paths = Paths::under(&home.path().join("new"), 1).unwrap();
    let entry = "base_url = 'http://127.0.0.1:1/v1'\nmodel = 'm'";
    add_model(&paths, "a", entry, false).unwrap();
    assert_eq!(
        load(&paths, &ConfigOverrides::default())
            .unwrap()
            .models
            .len(),
        1
    );
}

/// Fragments of configurations in any order, with arbitrary text between them.
fn soup() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        proptest::sample::select(vec![
            "[models.a]",
            "[models.\"\"]",
            "[models]",
            "base_url = ",
            "model = ",
            "\"http://é\"",
            "\"https://a\"",
            "key_env = ",
            "headers = {",
            "}",
            "\"\\u0000\"",
            "serve.command = [",
            "]",
            "price = {",
            "input = 1e999",
            "default_model = ",
            "[shell]",
            "output_bytes = ",
            "-1",
            "0xffffffffffffffffff",
            "nan",
            "1979-05-27",
            "{",
            "\"models\":",
            "{\"a\":",
            ",",
            ":",
            "null",
            "//",
            "\u{feff}",
            "\"\"\"",
        ])
        .prop_map(String::from),
        any::<String>(),
        Just("\n".to_string()),
    ];
    proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn parser_never_panics(text in soup()) {
        for format in [FileFormat::Toml, FileFormat::Json] {
            let lines = text.split('\n').count();
            match parse(&text, format, std::path::Path::new("/c")) {
                Ok(file) => {
                    let (config, _) = resolve_with_origins(&file, &ConfigOverrides::default()).unwrap();
                    prop_assert!(config.current().is_ok() || config.models.len() > 1);
                }
                Err(problems) => {
                    prop_assert!(!problems.is_empty());
                    for p in problems {
                        prop_assert!(p.line.is_some_and(|n| (1..=lines).contains(&n)));
                        prop_assert!(!p.to_string().contains('\n'));
                    }
                }
            }
        }
    }

    #[test]
    fn toml_string_round_trips(text in any::<String>()) {
        let doc = format!("a = {}", toml_string(&text));
        let root = toml::de::DeTable::parse(&doc).unwrap();
        prop_assert_eq!(root.get_ref().get("a").unwrap().get_ref().as_str(), Some(text.as_str()));
    }

    #[test]
    fn overrides_never_panic(name in proptest::sample::select(override_variables().collect::<Vec<_>>()), value in any::<String>()) {
        if let Ok(over) = overrides(&[(name, &value)]) {
            let _ = resolve(&ConfigFile::default(), &over);
        }
    }
}
