//! Keys: where they are, and what one must look like. The text of a key
//! passes through and is never put into a message.

use std::collections::BTreeMap;

use super::edit::replace;
use super::mcp::{Auth, Transport};
use super::table::shown_key;
use super::{Config, Key, Model, nearest};
use crate::error::{Error, Result};
use crate::paths::{Paths, make_dir};
use crate::secret::Secret;

/// Longer than any token; a bound for a `key_cmd` that prints something else.
const MAX_BYTES: usize = 16 * 1024;

/// The key of a model whose key is in a variable, out of `variables`; `None` for any other model.
///
/// # Errors
/// The variable is not set (the message has file, line, key and the nearest variable that is), or what
/// it holds is no key.
pub fn from_env(
    config: &Config,
    model: &Model,
    variables: &BTreeMap<String, String>,
) -> Result<Option<String>> {
    let Key::Env(variable) = &model.key else {
        return Ok(None);
    };
    let Some(value) = variables.get(variable).filter(|v| !v.trim().is_empty()) else {
        let message = unset(variable, variables.keys().map(String::as_str));
        return Err(
            Error::config(format!("{}: {message}", place(config, model, "key_env")))
                .hint(format!("run: export {variable}=…, then ask again")),
        );
    };
    checked(value.as_bytes()).map(Some).map_err(|why| {
        let place = place(config, model, "key_env");
        Error::config(format!("{place}: the variable {variable} {why}"))
    })
}

/// The key out of what a model's `key_cmd` printed.
///
/// # Errors
/// That is no key.
pub fn from_output(config: &Config, model: &Model, output: &[u8]) -> Result<String> {
    checked(output).map_err(|why| {
        let place = place(config, model, "key_cmd");
        Error::config(format!("{place}: the output of the command {why}"))
            .hint("the command must print the key and nothing else")
    })
}

/// What goes into a header: one word of visible characters.
///
/// # Errors
/// It is something else; in words that follow what it is.
pub fn checked(bytes: &[u8]) -> std::result::Result<String, &'static str> {
    if bytes.len() > MAX_BYTES {
        return Err("is longer than any key");
    }
    let key = bytes.trim_ascii();
    if key.is_empty() {
        return Err("is empty");
    }
    match std::str::from_utf8(key) {
        Ok(text) if key.iter().all(u8::is_ascii_graphic) => Ok(text.to_string()),
        _ => Err("is no key: it holds spaces, line breaks or other odd characters"),
    }
}

/// Where the file says how to get the key.
fn place(config: &Config, model: &Model, key: &str) -> String {
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

pub(super) fn unset<'n>(variable: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    match nearest(variable, names) {
        Some(near) => format!("the variable {variable} is not set; did you mean {near}?"),
        None => format!("the variable {variable} is not set"),
    }
}

/// Keeps a key in a file of its own, which the user alone can read; the `key_cmd` that prints it.
///
/// # Errors
/// The file cannot be written, or its path cannot be written down.
pub fn keep(paths: &Paths, name: &str, key: &Secret) -> Result<String> {
    let dir = paths.keys();
    make_dir(&dir)?;
    let path = dir.join(name);
    let Some(text) = path.to_str() else {
        let message = format!("cannot keep a key in {}: it is not UTF-8", path.display());
        return Err(Error::config(message).hint("set AISH_HOME to a directory whose path is"));
    };
    // Many keep their configuration under git, and some publish it.
    replace(&dir.join(".gitignore"), "*\n")?;
    replace(&path, key.expose())?;
    Ok(format!("cat '{}'", text.replace('\'', r"'\''")))
}

/// Takes back what [`keep`] kept.
pub fn forget(paths: &Paths, name: &str) {
    // Where it is not there, it is forgotten already.
    let _ = std::fs::remove_file(paths.keys().join(name));
}

/// This process's variables that are text and not empty.
pub fn variables() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(_, value)| !value.is_empty())
        .collect()
}

/// The secrets that a configuration has, or whose variable it names and this process has, each with its kind. No
/// command is run.
pub fn secrets(config: &Config) -> Vec<(&'static str, String)> {
    let (variables, mut all) = (variables(), Vec::new());
    let of = |name: &String| variables.get(name).map(|value| value.trim().to_owned());
    for model in config.models.values() {
        let headers = model.headers.iter();
        all.extend(headers.map(|(_, value)| ("model-header", value.clone())));
        if let Key::Env(name) = &model.key {
            all.extend(of(name).map(|key| ("model-key", key)));
        }
    }
    for server in config.mcp.servers.values() {
        let Transport::Http { auth, headers, .. } = &server.transport else {
            continue;
        };
        let token = match auth {
            Auth::Token(token) => Some(token.expose().to_owned()),
            Auth::Env(name) => of(name),
            Auth::None | Auth::Cmd(_) => None,
        };
        let headers = headers.iter().map(|(_, value)| value.clone());
        all.extend(headers.chain(token).map(|value| ("mcp-secret", value)));
    }
    all
}

/// The names alone, for messages.
pub(super) fn variable_names() -> Vec<String> {
    variables().into_keys().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_visible_word() {
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
        assert!(checked(&[b'a'; MAX_BYTES + 1]).is_err());
    }

    #[test]
    fn a_kept_key_is_private_and_its_command_prints_it() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(&home.path().join("o'brien $(x)"), 1).unwrap();
        let command = keep(&paths, "openai", &Secret::new("sk-1")).unwrap();
        assert!(!command.contains("sk-1"));
        let file = paths.keys().join("openai");
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(&paths.keys())), (0o600, 0o700));
        let output = std::process::Command::new("/bin/sh")
            .args(["-c", &command])
            .output()
            .unwrap();
        assert_eq!(output.stdout, b"sk-1");
        keep(&paths, "openai", &Secret::new("sk-2")).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"sk-2");
        forget(&paths, "openai");
        assert!(!file.exists());
    }

    #[test]
    fn a_bad_key_is_not_shown() {
        let mut model = Model {
            name: "m".into(),
            key: Key::Env("K".into()),
            key_line: 3,
            ..Model::default()
        };
        let config = Config {
            file: Some("/c".into()),
            ..Config::default()
        };
        let map = |v: &str| BTreeMap::from([("K".to_string(), v.to_string())]);
        assert_eq!(
            from_env(&config, &model, &map("sk-1")).unwrap(),
            Some("sk-1".into())
        );
        let error = from_env(&config, &model, &map("sk-1 sk-1")).unwrap_err();
        assert!(
            error
                .message
                .starts_with("/c:3: models.m.key_env: the variable K is no key"),
            "{error}"
        );
        assert!(!error.to_string().contains("sk-1"));
        assert!(from_env(&config, &model, &map(" ")).is_err());
        let error = from_output(&config, &model, b"gpg: sk-1 failed").unwrap_err();
        assert!(!error.to_string().contains("sk-1"));
        model.key = Key::None;
        assert_eq!(from_env(&config, &model, &map("sk-1")).unwrap(), None);
    }
}
