//! `aish-helper doctor`, with and without a working installation.

use std::collections::HashSet;
use std::process::{Command, Output};

use serde_json::Value;

use crate::fakes::provider::{MODEL, Provider};
use crate::support::home::{Home, helper};
use crate::support::pty::Zsh;

/// Exit code and checks of one run of the doctor.
struct DoctorReport {
    code: Option<i32>,
    checks: Vec<Value>,
}

impl DoctorReport {
    /// Returns the checks of this name.
    fn named(&self, name: &str) -> Vec<&Value> {
        self.checks.iter().filter(|c| c["check"] == name).collect()
    }

    /// Returns the state of the only check of this name.
    fn state(&self, name: &str) -> &str {
        let all = self.named(name);
        assert_eq!(all.len(), 1, "{name}: {:#?}", self.checks);
        all[0]["state"].as_str().unwrap()
    }
}

fn command(home: &Home) -> Command {
    let mut command = Command::new(helper());
    command.arg("doctor").env_clear().envs(home.env());
    command
}

fn parse_report(output: &Output) -> DoctorReport {
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
    DoctorReport {
        code: output.status.code(),
        checks,
    }
}

fn doctor(home: &Home) -> DoctorReport {
    parse_report(&command(home).arg("--json").output().unwrap())
}

#[test]
fn a_fresh_home_passes_and_no_daemon_is_started() {
    let home = Home::new();
    let report = doctor(&home);
    assert_eq!(report.code, Some(0), "{:#?}", report.checks);
    for good in [
        "zsh",
        "plugin",
        "socket",
        "permissions",
        "journal",
        "config",
        "keys",
    ] {
        assert_eq!(report.state(good), "ok", "{good}");
    }
    for unknown in ["hooks", "endpoint"] {
        assert_eq!(report.state(unknown), "warn", "{unknown}");
    }
    assert!(
        !home.path("aish/run").exists(),
        "the doctor must not start a daemon"
    );
}

#[test]
fn each_check_is_one_line_with_its_remedy_below() {
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
        lines[at + 1].starts_with("                  → correct the file"),
        "{text}"
    );
    assert!(text.contains("ok    zsh "), "{text}");
}

#[test]
fn a_symbolic_link_as_socket_directory_fails() {
    let home = Home::new();
    std::fs::create_dir(home.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink(home.path("elsewhere"), home.path("aish/run")).unwrap();
    let report = doctor(&home);
    assert_eq!(report.state("socket"), "fail");
    let check = report.named("socket")[0];
    assert!(
        check["message"].as_str().unwrap().contains("symbolic link"),
        "{check}"
    );
}

#[test]
fn the_doctor_runs_without_home_or_with_an_invalid_one() {
    let home = Home::new();
    let mut unset = command(&home);
    unset.arg("--json").env_remove("HOME");
    assert_eq!(parse_report(&unset.output().unwrap()).state("plugin"), "ok");

    let mut relative = command(&home);
    relative.arg("--json").env("AISH_HOME", "here");
    let report = parse_report(&relative.output().unwrap());
    assert_eq!(report.state("directories"), "fail");
    assert_eq!(report.state("zsh"), "ok");

    let mut nothing = command(&home);
    nothing.arg("--json").env("PATH", "/nowhere");
    assert_eq!(
        parse_report(&nothing.output().unwrap()).state("zsh"),
        "fail"
    );
}

#[test]
fn another_program_named_llm_is_reported() {
    let home = Home::new();
    home.program("llm", "#!/bin/sh\n");
    let report = doctor(&home);
    let check = report.named("llm")[0];
    assert_eq!(check["state"], "warn");
    assert!(check["remedy"].as_str().unwrap().contains("command llm"));
}

#[test]
fn a_running_daemon_and_its_model_are_checked() {
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
    let report = doctor(&home);
    assert_eq!(report.state("socket"), "ok");
    assert_eq!(report.state("endpoint"), "ok", "{:#?}", report.checks);
    assert_eq!(
        report.state("hooks"),
        "warn",
        "the daemon listens, but no shell is open"
    );
    assert_eq!(provider.requests().len(), 1, "asked once");
}

#[test]
fn on_a_narrow_terminal_no_word_is_broken() {
    let home = Home::new();
    let text = "[models.m]\nbase_url = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\nfoo = 1\n";
    std::fs::create_dir_all(home.path("aish/config")).unwrap();
    std::fs::write(home.path("aish/config/config.toml"), text).unwrap();
    let mut zsh = Zsh::start(&home);
    // The daemon starts after the first prompt and hears of the shell at a later one, which changes the report.
    while !zsh
        .eval("aish-helper doctor --json")
        .contains("1 shell is open")
    {}
    for command in ["config check", "doctor"] {
        let whole = zsh.eval(&format!("aish-helper {command} | cat"));
        zsh.run(&format!("stty cols 50; clear; aish-helper {command}"));
        let screen = zsh.screen();
        let shown: HashSet<&str> = screen.split_whitespace().collect();
        // Only a path may be longer than a line.
        let mut words = whole.split_whitespace().filter(|word| !word.contains('/'));
        assert!(whole.lines().any(|line| line.len() > 100), "{whole}");
        assert_eq!(words.find(|word| !shown.contains(word)), None, "{screen}");
    }
}
