//! `aish-helper doctor`, for the days on which nothing works.

use std::process::{Command, Output};

use serde_json::Value;

use crate::fakes::provider::{MODEL, Provider};
use crate::support::home::{Home, helper};

/// What the doctor found.
struct Findings {
    code: Option<i32>,
    checks: Vec<Value>,
}

impl Findings {
    /// The checks of that name.
    fn of(&self, name: &str) -> Vec<&Value> {
        self.checks.iter().filter(|c| c["check"] == name).collect()
    }

    /// The state of the one check of that name.
    fn state(&self, name: &str) -> &str {
        let all = self.of(name);
        assert_eq!(all.len(), 1, "{name}: {:#?}", self.checks);
        all[0]["state"].as_str().unwrap()
    }
}

fn command(home: &Home) -> Command {
    let mut command = Command::new(helper());
    command.arg("doctor").env_clear().envs(home.env());
    command
}

fn findings(output: &Output) -> Findings {
    let checks: Vec<Value> =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    assert!(output.stderr.is_empty(), "{output:?}");
    for check in &checks {
        let keys: Vec<_> = check.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["check", "state", "message", "remedy"], "{check}");
        assert_eq!(check["state"] == "ok", check["remedy"].is_null(), "{check}");
    }
    let failed = checks.iter().any(|c| c["state"] == "fail");
    assert_eq!(output.status.code(), Some(i32::from(failed)), "{checks:#?}");
    Findings {
        code: output.status.code(),
        checks,
    }
}

fn doctor(home: &Home) -> Findings {
    findings(&command(home).arg("--json").output().unwrap())
}

#[test]
fn a_fresh_home_without_a_daemon_is_fine_and_stays_so() {
    let home = Home::new();
    let found = doctor(&home);
    assert_eq!(found.code, Some(0), "{:#?}", found.checks);
    for good in [
        "zsh",
        "plugin",
        "socket",
        "permissions",
        "journal",
        "config",
        "keys",
    ] {
        assert_eq!(found.state(good), "ok", "{good}");
    }
    for unknown in ["hooks", "endpoint"] {
        assert_eq!(found.state(unknown), "warn", "{unknown}");
    }
    assert!(
        !home.path("aish/run").exists(),
        "the doctor starts no daemon"
    );
}

#[test]
fn a_line_a_check_and_the_remedy_below() {
    let home = Home::new();
    std::fs::create_dir(home.path("aish/config")).unwrap();
    std::fs::write(home.path("aish/config/config.toml"), "colour = 1\n").unwrap();
    let output = command(&home).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let at = lines
        .iter()
        .position(|l| l.starts_with("fail  config      "))
        .unwrap_or_else(|| panic!("{text}"));
    assert!(
        lines[at].contains("config.toml:1: colour: unknown key"),
        "{text}"
    );
    assert!(
        lines[at + 1].starts_with("                  → correct it"),
        "{text}"
    );
    assert!(text.contains("ok    zsh "), "{text}");
}

#[test]
fn a_socket_directory_that_is_not_ours_alone_fails() {
    let home = Home::new();
    std::fs::create_dir(home.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink(home.path("elsewhere"), home.path("aish/run")).unwrap();
    let found = doctor(&home);
    assert_eq!(found.state("socket"), "fail");
    let check = found.of("socket")[0];
    assert!(
        check["message"].as_str().unwrap().contains("symbolic link"),
        "{check}"
    );
}

#[test]
fn without_a_home_or_with_a_bad_one_it_still_speaks() {
    let home = Home::new();
    let mut unset = command(&home);
    unset.arg("--json").env_remove("HOME");
    assert_eq!(findings(&unset.output().unwrap()).state("plugin"), "ok");

    let mut relative = command(&home);
    relative.arg("--json").env("AISH_HOME", "here");
    let found = findings(&relative.output().unwrap());
    assert_eq!(found.state("directories"), "fail");
    assert_eq!(found.state("zsh"), "ok");

    let mut nothing = command(&home);
    nothing.arg("--json").env("PATH", "/nowhere");
    assert_eq!(findings(&nothing.output().unwrap()).state("zsh"), "fail");
}

#[test]
fn another_llm_is_named() {
    let home = Home::new();
    home.program("llm", "#!/bin/sh\n");
    let found = doctor(&home);
    let check = found.of("llm")[0];
    assert_eq!(check["state"], "warn");
    assert!(check["remedy"].as_str().unwrap().contains("command llm"));
}

#[test]
fn a_daemon_and_its_model_are_asked() {
    let provider = Provider::start([]);
    let home = Home::new();
    let table = format!(
        "[models.fake]\nbase_url = \"{}\"\nmodel = \"{MODEL}\"\n",
        provider.base_url()
    );
    std::fs::create_dir(home.path("aish/config")).unwrap();
    std::fs::write(home.path("aish/config/config.toml"), table).unwrap();
    let start = Command::new(helper())
        .arg("start")
        .env_clear()
        .envs(home.env())
        .output()
        .unwrap();
    assert!(start.status.success(), "{start:?}");
    let found = doctor(&home);
    assert_eq!(found.state("socket"), "ok");
    assert_eq!(found.state("endpoint"), "ok", "{:#?}", found.checks);
    assert_eq!(found.state("hooks"), "warn", "heard, but no shell is open");
    assert_eq!(provider.requests().len(), 1, "asked once");
}
