//! The configuration, and the keys that it speaks of. A key itself is never looked at.

use std::collections::BTreeMap;

use super::Check;
use crate::broker::detect;
use crate::config::{self, Config, Key, Overrides, env_overrides, key};
use crate::error::Result;
use crate::paths::Paths;

/// So many faults of the file are shown.
const FAULTS: usize = 5;

fn overrides() -> Result<Overrides> {
    Overrides::from_map(&env_overrides()?)
}

/// Can the configuration be used?
pub(super) fn config(paths: &Paths) -> Vec<Check> {
    if config::read(paths).is_err() {
        return config::problems(paths)
            .iter()
            .take(FAULTS)
            .map(|p| {
                let remedy = "correct it; see every fault with: aish-helper config check";
                Check::fail("config", p.to_string(), remedy)
            })
            .collect();
    }
    let resolved = overrides().and_then(|over| config::load(paths, &over));
    let current = resolved.and_then(|c| Ok((c.current()?.map(|m| m.name.clone()), c)));
    vec![match current {
        Err(e) => Check::error("config", &e),
        Ok((current, config)) => Check::ok("config", summary(&config, current.as_deref())),
    }]
}

fn summary(config: &Config, current: Option<&str>) -> String {
    let file = config
        .file
        .as_ref()
        .map_or("no file, and none is needed".to_string(), |path| {
            path.display().to_string()
        });
    match current {
        Some(name) => format!("{file}; the model is {name}"),
        None => format!("{file}; no model is configured"),
    }
}

/// Are the keys there that the configuration speaks of?
pub(super) fn keys(paths: &Paths) -> Vec<Check> {
    let over = overrides().unwrap_or_default();
    match config::load(paths, &over) {
        Ok(config) => judge(&config, &key::variables()),
        Err(_) => vec![Check::warn(
            "keys",
            "not looked for: the configuration cannot be read",
            "correct it first",
        )],
    }
}

fn judge(config: &Config, variables: &BTreeMap<String, String>) -> Vec<Check> {
    if config.models.is_empty() {
        let set = detect::variables().find(|name| variables.contains_key(*name));
        return vec![Check::ok(
            "keys",
            match set {
                Some(name) => format!("none is configured; {name} in the environment is used"),
                None => "none is configured, and none is in the environment".to_string(),
            },
        )];
    }
    let current = config.default_model.as_deref();
    let mut good = Vec::new();
    let mut checks = Vec::new();
    for (name, model) in &config.models {
        match &model.key {
            Key::None => good.push(format!("{name} needs none")),
            Key::Cmd(_) => good.push(format!("{name} has a key_cmd")),
            Key::Env(variable) if variables.contains_key(variable) => {
                good.push(format!("{name} has {variable}"));
            }
            Key::Env(variable) => {
                let message = format!("the variable {variable} of model {name} is not set");
                let remedy = format!("export {variable}=…, in .zshrc for every shell");
                checks.push(if current == Some(name) {
                    Check::fail("keys", message, remedy)
                } else {
                    Check::warn("keys", message, remedy)
                });
            }
        }
    }
    if !good.is_empty() {
        checks.push(Check::ok("keys", good.join(", ")));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    fn home(text: &str) -> (tempfile::TempDir, Paths) {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(home.path(), 1).unwrap();
        std::fs::create_dir(&paths.config).unwrap();
        std::fs::write(paths.config.join("config.toml"), text).unwrap();
        (home, paths)
    }

    const TWO: &str = "default_model = \"a\"\n\
        [models.a]\nbase_url = \"https://a.example/v1\"\nmodel = \"m\"\nkey_env = \"A_KEY\"\n\
        [models.b]\nbase_url = \"https://b.example/v1\"\nmodel = \"m\"\nkey_env = \"B_KEY\"\n";

    #[test]
    fn every_fault_of_the_file_has_a_line() {
        let (_home, paths) = home("colour = 1\n[shell]\nconfirm_cmd = 1\n");
        let checks = config(&paths);
        assert_eq!(checks.len(), 2);
        assert!(checks.iter().all(|c| c.state == State::Fail));
        assert!(checks[0].message.contains("config.toml:1: colour"));
        assert_eq!(keys(&paths)[0].state, State::Warn);
    }

    #[test]
    fn an_unset_key_fails_for_the_default_model_only() {
        let (_home, paths) = home(TWO);
        assert_eq!(
            config(&paths)[0].state,
            State::Ok,
            "that is the matter of keys"
        );
        let config = config::load(&paths, &Overrides::default()).unwrap();
        let states = |set: &[&str]| -> Vec<State> {
            let variables = set
                .iter()
                .map(|name| ((*name).to_string(), "s3cret".to_string()))
                .collect();
            let checks = judge(&config, &variables);
            assert!(!format!("{checks:?}").contains("s3cret"));
            checks.iter().map(|c| c.state).collect()
        };
        assert_eq!(states(&["A_KEY", "B_KEY"]), [State::Ok]);
        assert_eq!(states(&["A_KEY"]), [State::Warn, State::Ok]);
        assert_eq!(states(&["B_KEY"]), [State::Fail, State::Ok]);
    }

    #[test]
    fn without_models_the_environment_counts() {
        let variables = BTreeMap::from([("GROQ_API_KEY".to_string(), "s3cret".to_string())]);
        let checks = judge(&Config::default(), &variables);
        assert!(checks[0].message.contains("GROQ_API_KEY"));
        assert!(!checks[0].message.contains("s3cret"));
    }
}
