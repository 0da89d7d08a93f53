//! The configuration: a file of the user, one of a project and the environment, and what follows from them.
//!
//! An input has these parts, separated by lines `# project` and `# env`. A first part that begins with `{` is `aish.json`,
//! and also a file of another MCP client to import.

use std::collections::BTreeMap;
use std::fs;

use aish::chat::{OperationClass, ToolAnnotations};
use aish::config::resolve::resolve_with_origins;
use aish::config::{self, Config, ConfigOverrides, KeySource};
use aish::paths::Paths;
use aish::safety::policy::{
    BuiltinAction, CallRequest, ExactCall, GrantSet, RuleEffect, RuleSet, decide, explain,
};
use tempfile::TempDir;

use crate::fuzz::mutator::Random;
use crate::fuzz::{Shape, Target};

pub const TARGET: Target = Target {
    name: "config",
    run,
    shape: Shape::Bytes,
    usual_size: 4 << 10,
    tokens: &[
        "[models.a]\n",
        "[mcp.servers.b]\n",
        "[policy.rules]\n",
        "[policy]\n",
        "[mcp]\n",
        "[mcp.auto_approve]\n",
        "[history]\n",
        "[shell]\n",
        "[tools]\n",
        "[context]\n",
        "[intent_declaration]\n",
        "[models.a.serve]\n",
        "[models.a.headers]\n",
        "base_url = \"https://x/v1\"\n",
        "model = \"m\"\n",
        "key_env = \"K\"\n",
        "key_cmd = \"pass\"\n",
        "default_model = \"a\"\n",
        "url = \"https://h/mcp\"\n",
        "command = \"c\"\n",
        "args = [\"-y\"]\n",
        "env = { A = \"$B\" }\n",
        "\"b.*\" = \"allow\"\n",
        "\"op:read\" = \"ask\"\n",
        "shell = \"deny\"\n",
        "default = \"allow\"\n",
        "\"fs.write\" = \"deny\"\n",
        "\"sensitivity:private\" = \"ask\"\n",
        "# project\n",
        "# env\n",
        "AISH_MODEL=a\n",
        "AISH_BASE_URL=http://127.0.0.1/v1\n",
        "AISH_KEY_ENV=K\n",
        "AISH_CONFIRM_CMD=false\n",
        "\"\"\"",
        "'''",
        "= ",
        "[[",
        "]]",
        "{",
        "}",
        "\"mcpServers\":",
        "\"command\":",
        "\"models\":",
        "${env:X}",
        "${X:-y}",
        "inf",
        "nan",
        "0x10",
        "1979-05-27T07:32:00Z",
        "trust_annotations = true\n",
    ],
};

struct Dirs {
    home: TempDir,
    paths: Paths,
}

impl Dirs {
    fn new() -> Dirs {
        // In memory where that is possible: the files are written for every input.
        let home = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| TempDir::new())
            .expect("a directory");
        let paths = Paths::under(home.path(), 0).expect("an absolute path");
        fs::create_dir_all(&paths.config).expect("a directory");
        Dirs { home, paths }
    }
}

/// Effects on calls of several kinds, and on actions of aish.
fn effects(rules: &RuleSet, config: &Config) -> Vec<RuleEffect> {
    let mut effects = Vec::new();
    let aliases = config.mcp.servers.keys().map(String::as_str);
    for server in aliases.take(3).chain(["other"]) {
        for read_only in [None, Some(true), Some(false)] {
            for configured in [true, false] {
                let call = ExactCall {
                    server,
                    tool: "search",
                    identity: "i",
                    arguments: "{}",
                };
                let request = CallRequest {
                    annotations: ToolAnnotations {
                        read_only,
                        destructive: read_only,
                        ..ToolAnnotations::default()
                    },
                    trusted: true,
                    configured,
                    ..CallRequest::new(call)
                };
                let decision = decide(&request, rules, &GrantSet::default(), 1);
                assert_eq!(
                    explain(&request, rules, &GrantSet::default(), 1).effect,
                    decision.effect()
                );
                if !configured {
                    assert_ne!(
                        decision.effect(),
                        RuleEffect::Allow,
                        "a server without configuration"
                    );
                }
                effects.push(decision.effect());
            }
        }
    }
    effects.extend(BuiltinAction::ALL.map(|action| {
        let rule = rules.rule_for_action(action);
        rule.map_or(RuleEffect::Allow, |rule| rule.effect)
    }));
    effects
}

/// Checks what is derived from a configuration.
fn check_config(config: &Config) {
    let _ = format!("{config:?}");
    if let Ok(Some(model)) = config.current() {
        assert!(config.models.contains_key(&model.name));
    }
    for (name, model) in &config.models {
        assert_eq!(name, &model.name);
        assert!(config.model(name).is_ok());
        config::check_base_url(&model.base_url, model.key != KeySource::None)
            .expect("an address that was checked");
        let variables = BTreeMap::from([("K".to_owned(), "a-key-of-some-length".to_owned())]);
        let _ = config::key::key_from_variables(config, model, &variables);
        let _ = config::mcp::shown_url(&model.base_url);
    }
    for (alias, server) in &config.mcp.servers {
        assert_eq!(alias, &server.alias);
        assert!(config::mcp::is_alias(alias));
        assert_eq!(server.identity(), server.clone().identity());
        assert!(!server.target().is_empty());
        server.variables();
    }
    for tools in [0, 1, 40, usize::MAX] {
        config.tools.splits(tools);
    }
    config::key::configured_secrets(config);
}

fn overrides(text: &str) -> Option<ConfigOverrides> {
    let map = text.lines().filter_map(|line| line.split_once('='));
    let map = map
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    ConfigOverrides::from_map(&map).ok()
}

/// Writes to a valid file as aish does, and checks that nothing else changes.
fn check_edits(paths: &Paths, config: &Config, original: &str) {
    let file = paths.config.join("config.toml");
    let effect = |config: &Config| {
        let call = ExactCall {
            server: "fuzzed",
            tool: "t",
            identity: "i",
            arguments: "{}",
        };
        decide(
            &CallRequest::new(call),
            &config.policy,
            &GrantSet::default(),
            1,
        )
        .effect()
    };
    let table = (
        "fuzzed".to_owned(),
        "url = \"http://127.0.0.1/\"".to_owned(),
    );
    if config::add_servers(paths, &[table]).is_ok() {
        let changed =
            config::load(paths, &ConfigOverrides::default()).expect("a file that aish wrote");
        let mut servers = changed.mcp.servers.clone();
        assert!(servers.remove("fuzzed").is_some());
        assert_eq!(
            (&servers, &changed.models),
            (&config.mcp.servers, &config.models)
        );
        let before = effect(&changed);
        if config::allow_always(paths, "fuzzed.t", "by a test").is_ok() {
            let allowed =
                config::load(paths, &ConfigOverrides::default()).expect("a file that aish wrote");
            assert!(allowed.policy.list.len() <= changed.policy.list.len() + 1);
            assert!(effect(&allowed) <= before);
            config::remove_rule(paths, "fuzzed.t").expect("the rule that was added");
            let removed =
                config::load(paths, &ConfigOverrides::default()).expect("a file that aish wrote");
            assert!(
                effect(&removed) >= before,
                "removing a rule for allowing tightens"
            );
        }
    }
    fs::write(file, original).expect("a file");
}

fn check_import(text: &str, paths: &Paths) {
    let Ok(entries) = config::import::read(text, |_| false) else {
        return;
    };
    let servers = entries.into_iter().filter_map(|entry| entry.server.ok());
    let servers: Vec<_> = servers.map(|server| (server.alias, server.table)).collect();
    if servers.is_empty() {
        return;
    }
    config::add_servers(paths, &servers).expect("what is imported is valid");
    let config = config::load(paths, &ConfigOverrides::default()).expect("a file that aish wrote");
    assert_eq!(config.mcp.servers.len(), servers.len());
    check_config(&config);
    fs::remove_file(paths.config.join("config.toml")).expect("a file that aish wrote");
}

fn run(input: &[u8]) -> bool {
    thread_local! {
        static DIRS: Dirs = Dirs::new();
    }
    DIRS.with(|dirs| run_in(dirs, input))
}

fn run_in(Dirs { home, paths }: &Dirs, input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    let (user, rest) = text.split_once("# project\n").unwrap_or((&text, ""));
    let (project, environment) = rest.split_once("# env\n").unwrap_or((rest, ""));
    let is_json = user.starts_with('{');
    let name = if is_json { "aish.json" } else { "config.toml" };
    // A panic leaves the files of an earlier input behind.
    let _ = fs::remove_file(paths.config.join("aish.json"));
    let _ = fs::remove_file(paths.config.join("config.toml"));
    // A few of the inputs, because writing a file safely takes long.
    let is_chosen = Random::of(input).below(16) == 0;
    if is_json && is_chosen {
        check_import(user, paths);
    }
    let file = paths.config.join(name);
    // The bytes as they are, where they are not text.
    match std::str::from_utf8(input) {
        Ok(_) => fs::write(&file, user),
        Err(_) => fs::write(&file, input),
    }
    .expect("a file");
    fs::write(home.path().join(".aish.toml"), project).expect("a file");
    let read = config::read_file(paths);
    let problems = config::file_problems(paths);
    let accepted = match &read {
        Err(e) => {
            assert!(!problems.is_empty(), "{}", e.message);
            assert!(problems.iter().all(|p| !p.to_string().is_empty()));
            false
        }
        Ok(parsed) => {
            let config = config::load(paths, &ConfigOverrides::default());
            if let Ok(config) = &config {
                check_config(config);
                check_project(config, home);
                if !is_json && is_chosen {
                    check_edits(paths, config, user);
                }
            }
            if let Some(overrides) = overrides(environment)
                && let Ok((config, origins)) = resolve_with_origins(parsed, &overrides)
            {
                check_config(&config);
                assert!(!origins.is_empty());
            }
            config.is_ok()
        }
    };
    let _ = fs::remove_file(file);
    accepted
}

/// A project only tightens.
fn check_project(config: &Config, home: &TempDir) {
    let (rules, _) = config::rules_in_force(config, home.path());
    let own = effects(&config.policy, config);
    let with_project = effects(&rules, config);
    for (own, effect) in own.iter().zip(&with_project) {
        assert!(effect >= own, "{effect:?} instead of {own:?}");
    }
    let is_denied = rules
        .rule_for_action(BuiltinAction::FsWrite)
        .is_some_and(|r| r.effect == RuleEffect::Deny);
    if is_denied && rules.project != Vec::new() {
        let _ = config::check_may_write(config, home.path());
    }
    for operation in OperationClass::ALL {
        assert_eq!(
            OperationClass::from_name(operation.as_str()),
            Some(operation)
        );
    }
}
