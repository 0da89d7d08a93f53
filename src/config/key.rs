//! Keys of models: reading them from a variable or a command, and storing them. No message contains a key.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use super::known_servers::KNOWN_SERVERS;
use super::mcp::{ServerTransport, TokenSource};
use super::model::{KeySource, ModelSettings};
use super::settings::Config;
use super::table_reader::shown_key;
pub use super::value_checks::checked_key as checked;
use super::value_checks::nearest_name;
use crate::error::{Error, ErrorContext as _, Result};
use crate::paths::{Paths, make_dir, replace_file, replace_secret_file};
use crate::secret::Secret;

/// Number of files that are tried for a key.
const MAX_KEY_FILES: u32 = 1000;

/// Returns the variables that may hold the key of a model, best first: its `key_env`, and for the server of a known
/// provider the other usual name of the same key. Empty for a model without `key_env`.
pub fn key_variables(model: &ModelSettings) -> impl Iterator<Item = &str> {
    let own = match &model.key {
        KeySource::Env(variable) => Some(variable.as_str()),
        KeySource::None | KeySource::Cmd(_) => None,
    };
    // Only to the provider itself: another server was given the one variable and no other.
    let known = KNOWN_SERVERS
        .iter()
        .find(|known| known.base_url == model.base_url && known.key_env == own);
    own.into_iter()
        .chain(known.and_then(|known| known.other_key_env))
}

/// Returns the key of a model that has `key_env`, from `variables`, after the name of its variable; `None` for any other
/// model.
///
/// # Errors
/// The variable is unset (the message has file, line, key and the most similar variable), or its value is not a key.
pub fn key_from_variables(
    config: &Config,
    model: &ModelSettings,
    variables: &BTreeMap<String, String>,
) -> Result<Option<(String, String)>> {
    let KeySource::Env(variable) = &model.key else {
        return Ok(None);
    };
    let set = key_variables(model).find_map(|name| {
        let value = variables.get(name).filter(|v| !v.trim().is_empty())?;
        Some((name, value))
    });
    let Some((variable, value)) = set else {
        let message = unset(variable, variables.keys().map(String::as_str));
        return Err(
            Error::config(format!("{}: {message}", place(config, model, "key_env")))
                .hint(format!("run: export {variable}=…, then ask again")),
        );
    };
    let key = checked(value.as_bytes()).map_err(|fault| {
        let place = place(config, model, "key_env");
        Error::config(format!("{place}: the variable {variable} {fault}"))
    })?;
    Ok(Some((variable.to_owned(), key)))
}

/// Returns the key that a model's `key_cmd` printed.
///
/// # Errors
/// The output is not a key.
pub fn key_from_output(config: &Config, model: &ModelSettings, output: &[u8]) -> Result<String> {
    checked(output).map_err(|fault| {
        let place = place(config, model, "key_cmd");
        Error::config(format!("{place}: the output of the command {fault}"))
            .hint("the command must print the key and nothing else")
    })
}

/// Returns the place of `key` in the file, for messages.
fn place(config: &Config, model: &ModelSettings, key: &str) -> String {
    match &config.file {
        Some(file) if model.key_line > 0 => format!(
            "{}:{}: models.{}.{key}",
            file.display(),
            model.key_line,
            shown_key(&model.name)
        ),
        _ => "the environment variable AISH_KEY_ENV".to_string(),
    }
}

/// The message for a variable that is unset, with the most similar variable of `names`.
pub(super) fn unset<'n>(variable: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    match nearest_name(variable, names) {
        Some(near) => format!("the variable {variable} is not set; did you mean {near}?"),
        None => format!("the variable {variable} is not set"),
    }
}

/// A key that was stored in a file.
#[derive(Debug)]
pub struct StoredKey {
    /// The `key_cmd` that prints it.
    pub command: String,
    /// The file.
    pub file: PathBuf,
}

/// Stores a key for the model `name` in a new file that only the user can read. Files of other models are left as they are.
///
/// # Errors
/// The file cannot be written, or its path is not UTF-8.
pub fn store_key(paths: &Paths, name: &str, key: &Secret) -> Result<StoredKey> {
    let dir = paths.keys();
    make_dir(&dir)?;
    // The configuration is often in a git repository, which may be published.
    replace_file(&dir.join(".gitignore"), b"*\n")?;
    // No name of a model has a percent sign. A file that begins with a point could be that of git.
    let name = name.replace('/', "%2F");
    let name = match name.strip_prefix('.') {
        Some(rest) => format!("%2E{rest}"),
        None => name,
    };
    let mut number = 1;
    let file = loop {
        let file = dir.join(match number {
            1 => name.clone(),
            n => format!("{name}%{n}"),
        });
        let new = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&file);
        match new {
            Ok(_) => break file,
            // It may be the key of a model that has another name by now.
            Err(e) if e.kind() == ErrorKind::AlreadyExists && number < MAX_KEY_FILES => number += 1,
            Err(e) => return Err(e).context(|| format!("cannot create {}", file.display())),
        }
    };
    let Some(text) = file.to_str() else {
        let message = format!("cannot keep a key in {}: it is not UTF-8", file.display());
        let _ = std::fs::remove_file(&file);
        return Err(Error::config(message).hint("set AISH_HOME to a directory whose path is UTF-8"));
    };
    replace_secret_file(&file, key.expose().as_bytes())?;
    Ok(StoredKey {
        command: format!("cat '{}'", text.replace('\'', r"'\''")),
        file,
    })
}

/// Returns the variables of this process that are UTF-8 and not blank.
pub fn process_variables() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(_, value)| !value.trim().is_empty())
        .collect()
}

/// Returns the secrets in a configuration and in the variables that it names, each with its kind. No command is run.
pub fn configured_secrets(config: &Config) -> Vec<(&'static str, String)> {
    let (variables, mut all) = (process_variables(), Vec::new());
    let value = |name: &str| variables.get(name).map(|text| text.trim().to_owned());
    for model in config.models.values() {
        let headers = model.headers.iter();
        all.extend(headers.map(|(_, value)| ("model-header", value.clone())));
        all.extend(key_variables(model).filter_map(|name| Some(("model-key", value(name)?))));
    }
    for server in config.mcp.servers.values() {
        let ServerTransport::Http { auth, headers, .. } = &server.transport else {
            continue;
        };
        let token = match auth {
            TokenSource::Token(token) => Some(token.expose().to_owned()),
            TokenSource::Env(name) => value(name),
            TokenSource::None | TokenSource::Cmd(_) => None,
        };
        let headers = headers.iter().map(|(_, value)| value.clone());
        all.extend(headers.chain(token).map(|value| ("mcp-secret", value)));
    }
    let password = config.server.password.iter();
    all.extend(password.map(|password| ("server-password", password.0.expose().to_owned())));
    let share = &config.share;
    let names = [
        Some(&share.secret_key_env),
        share.session_token_env.as_ref(),
    ];
    let values = names.into_iter().flatten().filter_map(|name| value(name));
    all.extend(values.map(|value| ("s3-key", value)));
    all
}

/// Returns the names of the variables of this process.
pub(super) fn variable_names() -> Vec<String> {
    process_variables().into_keys().collect()
}

#[cfg(test)]
mod tests {
    use super::super::value_checks::KEY_MAX;
    use super::*;

    #[test]
    fn key_is_one_visible_word() {
        assert_eq!(checked(b" sk-1\r\n"), Ok("sk-1".into()));
        for bad in [
            &b""[..],
            b"\n",
            b"a b",
            b"a\nb",
            b"a\0",
            "é".as_bytes(),
            b"\xff",
        ] {
            assert!(checked(bad).is_err(), "{bad:?}");
        }
        assert!(checked(&[b'a'; KEY_MAX + 1]).is_err());
    }

    #[test]
    fn stored_key_is_private_and_its_command_prints_it() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(&home.path().join("o'brien $(x)"), 1).unwrap();
        let StoredKey { command, .. } = store_key(&paths, "openai", &Secret::new("sk-1")).unwrap();
        assert!(!command.contains("sk-1"));
        let file = paths.keys().join("openai");
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(&paths.keys())), (0o600, 0o700));
        let output = std::process::Command::new("/bin/sh")
            .args(["-c", &command])
            .output()
            .unwrap();
        assert_eq!(output.stdout, b"sk-1");
        // Another model may use the file.
        let second = store_key(&paths, "openai", &Secret::new("sk-2")).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"sk-1");
        assert_eq!(std::fs::read(&second.file).unwrap(), b"sk-2");
        for name in [".gitignore", "..", "a/b", "a%2Fb"] {
            let stored = store_key(&paths, name, &Secret::new("sk-3")).unwrap();
            assert_eq!(stored.file.parent(), Some(paths.keys().as_path()));
            assert_eq!(std::fs::read(&stored.file).unwrap(), b"sk-3", "{name}");
        }
        let ignored = std::fs::read(paths.keys().join(".gitignore"));
        assert_eq!(ignored.unwrap(), b"*\n");
    }

    #[test]
    fn another_name_of_a_key_counts_for_the_provider_itself_only() {
        let mut model = ModelSettings {
            base_url: "https://generativelanguage.googleapis.com/v1beta".into(),
            key: KeySource::Env("GEMINI_API_KEY".into()),
            ..ModelSettings::default()
        };
        let config = Config::default();
        let variables = |names: &[&str]| -> BTreeMap<String, String> {
            let set = names
                .iter()
                .map(|name| (name.to_string(), format!("of-{name}")));
            set.collect()
        };
        let key = |model: &ModelSettings, names: &[&str]| {
            let found = key_from_variables(&config, model, &variables(names)).ok()?;
            found.map(|(name, key)| {
                assert_eq!(key, format!("of-{name}"));
                name
            })
        };
        let google = ["GOOGLE_API_KEY"];
        assert_eq!(key(&model, &google).as_deref(), Some("GOOGLE_API_KEY"));
        let both = ["GEMINI_API_KEY", "GOOGLE_API_KEY"];
        assert_eq!(key(&model, &both).as_deref(), Some("GEMINI_API_KEY"));
        model.base_url = "https://proxy.example/v1beta".into();
        assert_eq!(key(&model, &google), None);
        model.base_url = "https://generativelanguage.googleapis.com/v1beta".into();
        model.key = KeySource::Env("MY_KEY".into());
        assert_eq!(key(&model, &google), None);
    }

    #[test]
    fn invalid_key_is_not_shown() {
        let mut model = ModelSettings {
            name: "m".into(),
            key: KeySource::Env("K".into()),
            key_line: 3,
            ..ModelSettings::default()
        };
        let config = Config {
            file: Some("/c".into()),
            ..Config::default()
        };
        let map = |v: &str| BTreeMap::from([("K".to_string(), v.to_string())]);
        assert_eq!(
            key_from_variables(&config, &model, &map("sk-1")).unwrap(),
            Some(("K".into(), "sk-1".into()))
        );
        let error = key_from_variables(&config, &model, &map("sk-1 sk-1")).unwrap_err();
        assert!(
            error
                .message
                .starts_with("/c:3: models.m.key_env: the variable K is not a key"),
            "{error}"
        );
        assert!(!error.to_string().contains("sk-1"));
        assert!(key_from_variables(&config, &model, &map(" ")).is_err());
        let error = key_from_output(&config, &model, b"gpg: sk-1 failed").unwrap_err();
        assert!(!error.to_string().contains("sk-1"));
        model.key = KeySource::None;
        assert_eq!(
            key_from_variables(&config, &model, &map("sk-1")).unwrap(),
            None
        );
    }
}
