//! Checks of the configuration and of the keys that it names. Never reads a key.

use std::collections::BTreeMap;

use super::CheckResult;
use crate::broker::autodetect;
use crate::client::config_question::CONFIRM_HINT;
use crate::config::key::{self, key_variables};
use crate::config::{self, Config, ConfigChanges, ConfigOverrides, KeySource, env_overrides};
use crate::error::Result;
use crate::paths::Paths;

/// Maximum number of configuration faults shown.
const MAX_FAULTS: usize = 5;

fn overrides() -> Result<ConfigOverrides> {
    ConfigOverrides::from_map(&env_overrides()?)
}

/// Checks that the configuration is valid.
pub(super) fn check_config(paths: &Paths) -> Vec<CheckResult> {
    if config::read_file(paths).is_err() {
        return config::file_problems(paths)
            .iter()
            .take(MAX_FAULTS)
            .map(|p| {
                let remedy = "correct the file; list every fault with: aish-helper config check";
                CheckResult::fail("config", p.to_string(), remedy)
            })
            .collect();
    }
    let resolved = overrides().and_then(|over| config::load(paths, &over));
    let current = resolved.and_then(|c| Ok((c.current()?.map(|m| m.name.clone()), c)));
    let mut checks = vec![match current {
        Err(e) => CheckResult::error("config", &e),
        Ok((current, config)) => match config::pending_changes(paths) {
            Ok(Some(changes)) => CheckResult::warn("config", waiting(&changes), CONFIRM_HINT),
            _ => CheckResult::ok("config", summary(&config, current.as_deref())),
        },
    }];
    // Unset variables have checks of their own.
    let mistakes = config::read_file(paths).map_or(Vec::new(), |file| config::mistakes(&file));
    checks.extend(mistakes.iter().take(MAX_FAULTS).map(|p| {
        let remedy = "correct the file, then check it with: aish-helper config check";
        CheckResult::warn("config", p.to_string(), remedy)
    }));
    checks
}

/// Says which changes of the file are not in force.
fn waiting(changes: &ConfigChanges) -> String {
    format!(
        "changes that loosen it are not in force: {}",
        changes.summaries().join("; ")
    )
}

fn summary(config: &Config, current: Option<&str>) -> String {
    let file = config
        .file
        .as_ref()
        .map_or("no file, none is needed".to_string(), |path| {
            path.display().to_string()
        });
    match current {
        Some(name) => format!("{file}; the model is {name}"),
        None => format!("{file}; no model is configured"),
    }
}

/// Checks that the variables named by the configuration are set.
pub(super) fn check_keys(paths: &Paths) -> Vec<CheckResult> {
    let over = overrides().unwrap_or_default();
    match config::load_confirmed(paths, &over) {
        Ok(config) => check_models(&config, &key::process_variables()),
        Err(_) => vec![CheckResult::warn(
            "keys",
            "not checked: the configuration cannot be read",
            "correct the configuration first",
        )],
    }
}

/// Whether configured models wait for a confirmation.
pub(super) fn has_unconfirmed(paths: &Paths) -> bool {
    let config = config::load_confirmed(paths, &ConfigOverrides::default());
    config.is_ok_and(|config| !config.unconfirmed_models.is_empty())
}

fn check_models(config: &Config, variables: &BTreeMap<String, String>) -> Vec<CheckResult> {
    if config.models.is_empty() && !config.unconfirmed_models.is_empty() {
        let message = "not checked: the configured models wait for a confirmation";
        return vec![CheckResult::warn("keys", message, CONFIRM_HINT)];
    }
    if config.models.is_empty() {
        let set = autodetect::variables().find(|name| variables.contains_key(*name));
        return vec![CheckResult::ok(
            "keys",
            match set {
                Some(name) => format!("none is configured; {name} in the environment is used"),
                None => "none is configured, and none is in the environment".to_string(),
            },
        )];
    }
    let current = config.default_model.as_deref();
    let mut usable = Vec::new();
    let mut checks = Vec::new();
    for (name, model) in &config.models {
        match &model.key {
            _ if model.is_aish_server => usable.push(format!("{name} has a token of its own")),
            KeySource::None => usable.push(format!("{name} needs none")),
            KeySource::Cmd(_) => usable.push(format!("{name} has a key_cmd")),
            KeySource::Env(variable) => {
                let set = key_variables(model).find(|name| variables.contains_key(*name));
                if let Some(set) = set {
                    usable.push(format!("{name} has {set}"));
                    continue;
                }
                let message = format!("the variable {variable} of model {name} is not set");
                let remedy = format!("export {variable}=…, in .zshrc for every shell");
                checks.push(if current == Some(name) {
                    CheckResult::fail("keys", message, remedy)
                } else {
                    CheckResult::warn("keys", message, remedy)
                });
            }
        }
    }
    if !usable.is_empty() {
        checks.push(CheckResult::ok("keys", usable.join(", ")));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::super::CheckState;
    use super::*;

    fn home(text: &str) -> (tempfile::TempDir, Paths) {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(home.path(), 1).unwrap();
        std::fs::create_dir(&paths.config).unwrap();
        std::fs::write(paths.config.join("config.toml"), text).unwrap();
        (home, paths)
    }

    const TWO_MODELS: &str = "default_model = \"a\"\n\
        [models.a]\nbase_url = \"https://a.example/v1\"\nmodel = \"m\"\nkey_env = \"A_KEY\"\n\
        [models.b]\nbase_url = \"https://b.example/v1\"\nmodel = \"m\"\nkey_env = \"B_KEY\"\n";

    #[test]
    fn every_fault_of_the_file_is_reported() {
        let (_home, paths) = home("colour = 1\n[shell]\nconfirm_cmd = 1\n");
        let checks = check_config(&paths);
        assert_eq!(checks.len(), 2);
        assert!(checks.iter().all(|c| c.state == CheckState::Fail));
        assert!(checks[0].message.contains("config.toml:1: colour"));
        assert_eq!(check_keys(&paths)[0].state, CheckState::Warn);
    }

    #[test]
    fn an_unset_key_fails_for_the_default_model_only() {
        let (_home, paths) = home(TWO_MODELS);
        assert_eq!(
            check_config(&paths)[0].state,
            CheckState::Ok,
            "the keys have a check of their own"
        );
        let config = config::load(&paths, &ConfigOverrides::default()).unwrap();
        let states = |set: &[&str]| -> Vec<CheckState> {
            let variables = set
                .iter()
                .map(|name| ((*name).to_string(), "s3cret".to_string()))
                .collect();
            let checks = check_models(&config, &variables);
            assert!(!format!("{checks:?}").contains("s3cret"));
            checks.iter().map(|c| c.state).collect()
        };
        assert_eq!(states(&["A_KEY", "B_KEY"]), [CheckState::Ok]);
        assert_eq!(states(&["A_KEY"]), [CheckState::Warn, CheckState::Ok]);
        assert_eq!(states(&["B_KEY"]), [CheckState::Fail, CheckState::Ok]);
    }

    #[test]
    fn without_models_the_environment_is_used() {
        let variables = BTreeMap::from([("GROQ_API_KEY".to_string(), "s3cret".to_string())]);
        let checks = check_models(&Config::default(), &variables);
        assert!(checks[0].message.contains("GROQ_API_KEY"));
        assert!(!checks[0].message.contains("s3cret"));
    }

    #[test]
    fn models_that_wait_for_a_confirmation_are_not_called_absent() {
        let (_home, paths) = home(TWO_MODELS);
        assert!(!has_unconfirmed(&paths), "a first run");
        crate::paths::make_dir(&paths.state).unwrap();
        for damaged in ["", "garbage"] {
            std::fs::write(paths.state.join("config-seen.json"), damaged).unwrap();
            assert!(has_unconfirmed(&paths), "{damaged}");
            let check = &check_keys(&paths)[0];
            assert_eq!(check.state, CheckState::Warn);
            assert!(check.message.contains("confirmation"), "{check:?}");
        }
    }
}
