//! `aish-helper config path|check|show`. Each function returns the text to print.

use serde_json::{Value, json};

use super::json_line;

use crate::api;
use crate::client::config_question::CONFIRM_HINT;
use crate::config::origin::{EffectiveSetting, SettingOrigin};
use crate::config::resolve::resolve_with_origins;
use crate::config::{self, ConfigOverrides, ConfigProblem};
use crate::error::{ErrorKind, Result};
use crate::paths::Paths;

/// Returns the path of the file, which need not exist.
///
/// # Errors
/// Both `config.toml` and `aish.json` exist.
pub fn path(paths: &Paths, json: bool) -> Result<String> {
    let (path, exists) = config::config_path(paths)?;
    let path = path.display().to_string();
    if json {
        return json_line(&json!({"path": path, "exists": exists}));
    }
    Ok(format!("{path}\n"))
}

/// Returns the faults of the file, a line each, and the exit code: 0 or 3.
pub fn check(paths: &Paths, json: bool) -> (String, u8) {
    let mut problems = config::file_problems(paths);
    problems.extend(certificate_problem(paths));
    let code = if problems.is_empty() {
        0
    } else {
        ErrorKind::Config.exit_code()
    };
    // Not with a problem: then the file is not used at all.
    let pending = match config::pending_changes(paths) {
        Ok(Some(changes)) if problems.is_empty() => changes.summaries(),
        _ => Vec::new(),
    };
    let text = if json {
        let list: Vec<Value> = problems.iter().map(problem_json).collect();
        // Serializing fails only for maps whose keys are not strings.
        json_line(&json!({"ok": list.is_empty(), "problems": list, "not_in_force": pending}))
            .unwrap_or_default()
    } else if problems.is_empty() {
        match config::config_path(paths) {
            Ok((path, true)) if !pending.is_empty() => format!(
                "{}: no problem found\nnot in force: {}; {CONFIRM_HINT}\n",
                path.display(),
                pending.join("; ")
            ),
            Ok((path, true)) => format!("{}: no problem found\n", path.display()),
            _ => "there is no configuration file, and none is needed\n".to_string(),
        }
    } else {
        problems.iter().map(|p| format!("{p}\n")).collect()
    };
    (text, code)
}

/// Returns why the server could not use the files that its settings name.
fn certificate_problem(paths: &Paths) -> Option<ConfigProblem> {
    let file = config::read_file(paths).ok()?;
    let (config, settings) = resolve_with_origins(&file, &ConfigOverrides::default()).ok()?;
    let error = api::check_certificate(&config.server).err()?;
    let key = "server.certificate";
    let line = settings.iter().find(|setting| setting.key == key);
    Some(ConfigProblem {
        line: line.and_then(|setting| match setting.origin {
            SettingOrigin::File(line) => Some(line),
            _ => None,
        }),
        file: file.path?,
        key: key.to_owned(),
        message: error.message,
    })
}

fn problem_json(p: &ConfigProblem) -> Value {
    json!({
        "file": p.file.display().to_string(),
        "line": p.line,
        "key": p.key,
        "message": p.message,
    })
}

/// Returns every value in force with its origin; secrets are replaced.
///
/// # Errors
/// The configuration cannot be loaded.
pub fn show(paths: &Paths, over: &ConfigOverrides, json: bool) -> Result<String> {
    let file = config::read_file(paths)?;
    let (_, settings) = resolve_with_origins(&file, over)?;
    let path = file.path.as_ref().map(|p| p.display().to_string());
    if json {
        let list: Vec<Value> = settings.iter().map(setting_json).collect();
        return json_line(&json!({"file": path, "settings": list}));
    }
    let lines: Vec<String> = settings
        .iter()
        .map(|s| format!("{} = {}", s.key, s.value))
        .collect();
    // Long values must not push the column of origins off the screen.
    let width = lines
        .iter()
        .map(|line| line.chars().count())
        .filter(|n| *n <= 60)
        .max()
        .unwrap_or_default();
    let file = path.as_deref().unwrap_or_default();
    Ok(lines
        .iter()
        .zip(&settings)
        .map(|(line, s)| match s.origin {
            SettingOrigin::Default => format!("{line:width$}  # default\n"),
            SettingOrigin::File(n) => format!("{line:width$}  # {file}:{n}\n"),
            SettingOrigin::Env(name) => format!("{line:width$}  # environment {name}\n"),
            SettingOrigin::Flag(name) => format!("{line:width$}  # flag {name}\n"),
        })
        .collect())
}

fn setting_json(s: &EffectiveSetting) -> Value {
    let (source, line, name) = match s.origin {
        SettingOrigin::Default => ("default", None, None),
        SettingOrigin::File(line) => ("file", Some(line), None),
        SettingOrigin::Env(name) => ("environment", None, Some(name)),
        SettingOrigin::Flag(name) => ("flag", None, Some(name)),
    };
    json!({"key": s.key, "value": s.value, "source": source, "line": line, "name": name})
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn home(text: &str) -> (tempfile::TempDir, Paths) {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(home.path(), 1).unwrap();
        std::fs::create_dir(&paths.config).unwrap();
        if !text.is_empty() {
            std::fs::write(paths.config.join("config.toml"), text).unwrap();
        }
        (home, paths)
    }

    const SECRETS: &str = r#"default_model = "a"
[models.a]
base_url = "https://a.example/v1"
model = "m"
key_cmd = "echo s3cret"
headers = { X-Title = "aish", X-Custom = "s3cret", Cookie = "s3cret" }
serve.command = ["run", "--api-key", "s3cret", "{port}"]
"#;

    #[test]
    fn path_reports_whether_the_file_exists() {
        let (_home, paths) = home("");
        let text = path(&paths, true).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["exists"], false);
        assert!(
            path(&paths, false)
                .unwrap()
                .ends_with("/config/config.toml\n")
        );
    }

    #[test]
    fn check_prints_a_line_for_each_problem_and_exits_with_3() {
        let (_home, paths) = home("colour = 1\n[shell]\nconfirm_cmd = 1\n");
        let file = paths.config.join("config.toml");
        let file = file.display();
        let (text, code) = check(&paths, false);
        let (first, second) = text.split_once('\n').unwrap();
        let unknown = format!("{file}:1: colour: unknown key; the keys here are default_model, ");
        assert!(first.starts_with(&unknown), "{first}");
        assert_eq!(
            second,
            format!("{file}:3: shell.confirm_cmd: must be true or false, not a number\n")
        );
        assert_eq!(code, 3);
        let value: Value = serde_json::from_str(&check(&paths, true).0).unwrap();
        assert_eq!(value["ok"], false);
        assert_eq!(value["problems"][1]["line"], 3);
        assert_eq!(value["problems"][1]["key"], "shell.confirm_cmd");
    }

    #[test]
    fn check_opens_the_files_of_the_certificate() {
        let (home, paths) = home("");
        let [certificate, key] = ["a.pem", "a.key"].map(|name| home.path().join(name));
        let text = format!("[server]\ncertificate = {certificate:?}\ncertificate_key = {key:?}\n");
        std::fs::write(paths.config.join("config.toml"), text).unwrap();
        let (text, code) = check(&paths, false);
        assert_eq!(code, 3);
        assert!(
            text.contains(":2: server.certificate: cannot read "),
            "{text}"
        );
        std::fs::write(&certificate, "nothing").unwrap();
        let (text, _) = check(&paths, false);
        assert!(text.contains("has no certificate in PEM form"), "{text}");
    }

    #[test]
    fn check_without_a_file_succeeds() {
        let (_home, paths) = home("");
        assert_eq!(check(&paths, false).1, 0);
        assert_eq!(
            check(&paths, true).0,
            "{\"ok\":true,\"problems\":[],\"not_in_force\":[]}\n"
        );
    }

    #[test]
    fn show_prints_the_origin_of_each_value() {
        let (_home, paths) = home("[shell]\noutput_bytes = 1000\n");
        let map = BTreeMap::from([("AISH_CONFIRM_CMD".to_string(), "no".to_string())]);
        let over = ConfigOverrides::from_map(&map).unwrap();
        let text = show(&paths, &over, false).unwrap();
        let file = paths.config.join("config.toml");
        let squeezed: Vec<String> = text
            .lines()
            .map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert!(
            squeezed.contains(&"shell.confirm_cmd = false # environment AISH_CONFIRM_CMD".into()),
            "{text}"
        );
        assert!(
            squeezed.contains(&format!("shell.output_bytes = 1000 # {}:2", file.display())),
            "{text}"
        );
        assert!(
            squeezed.contains(&"context.commands = 10 # default".into()),
            "{text}"
        );
    }

    #[test]
    fn show_replaces_secrets() {
        let (_home, paths) = home(&SECRETS.replace("https://a.example", "http://127.0.0.1:1"));
        for json in [false, true] {
            let text = show(&paths, &ConfigOverrides::default(), json).unwrap();
            assert!(!text.contains("s3cret"), "{text}");
            assert!(
                text.contains("[REDACTED]") && text.contains("echo …"),
                "{text}"
            );
            assert!(text.contains("aish"), "harmless headers are shown: {text}");
        }
        let config = config::load(&paths, &ConfigOverrides::default()).unwrap();
        assert!(!format!("{config:?}").contains("s3cret"));
        assert!(!format!("{:?}", config::read_file(&paths).unwrap()).contains("s3cret"));
    }
}
