//! `[mcp]`: the servers whose tools a model may be offered.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::rules;
use super::source::REDACTED;
use crate::secret::{Secret, fingerprint};

/// The most characters of an alias.
const ALIAS: usize = 20;

/// Whether a server may be called this: `[a-z0-9][a-z0-9-]{0,19}`.
pub fn is_alias(text: &str) -> bool {
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=ALIAS).contains(&text.len()) && text.chars().all(fine) && !text.starts_with('-')
}

/// An alias that is like `name` and that is not taken; `server` where nothing of the name can be used.
pub fn alias_like(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let mut like = String::new();
    for c in name.chars().map(|c| c.to_ascii_lowercase()) {
        if c.is_ascii_alphanumeric() {
            like.push(c);
        } else if !like.is_empty() && !like.ends_with('-') {
            like.push('-');
        }
    }
    like.truncate(ALIAS);
    let like = match like.trim_end_matches('-') {
        "" => "server",
        like => like,
    };
    if !taken(like) {
        return like.to_string();
    }
    let numbered = |n: u32| {
        let end = format!("-{n}");
        let head: String = like.chars().take(ALIAS - end.len()).collect();
        format!("{}{end}", head.trim_end_matches('-'))
    };
    let mut n = 2;
    while taken(&numbered(n)) {
        n += 1;
    }
    numbered(n)
}

/// An alias for the server at a URL, out of its host's name: `mcp.github.com` is `github`, `127.0.0.1` is
/// `local`. It is not one that is taken.
///
/// # Errors
/// The URL is none; in words that follow it.
pub fn alias_of_url(url: &str, taken: impl Fn(&str) -> bool) -> Result<String, String> {
    let url = rules::server_url(url)?;
    let host = url.host_str().unwrap_or_default();
    if crate::address::is_loopback(&url) {
        return Ok(alias_like("local", taken));
    }
    if host.parse::<std::net::IpAddr>().is_ok() || host.starts_with('[') {
        return Ok(alias_like(host.trim_matches(['[', ']']), taken));
    }
    // What says that it is a server of this kind names none, and what comes last is the registry's.
    let labels: Vec<&str> = host.split('.').filter(|l| !l.is_empty()).collect();
    let own = &labels[..labels.len().saturating_sub(1)];
    let plain = |label: &&&str| !matches!(**label, "www" | "mcp" | "api" | "app" | "server");
    let label = own.iter().find(plain).or(labels.first());
    Ok(alias_like(label.unwrap_or(&host), taken))
}

/// Checks the address of a server that a person names.
///
/// # Errors
/// In words that follow what they typed.
pub fn check_url(url: &str) -> Result<(), String> {
    rules::server_url(url).map(drop)
}

/// The variable that a value of `env` stands for, where it is `$NAME`.
pub fn variable(value: &str) -> Option<&str> {
    let name = value.strip_prefix('$')?;
    (!name.is_empty() && rules::variable_name(name).is_ok()).then_some(name)
}

/// A server's address with the values of its query taken out, which may be secrets: `https://a.example/mcp?k=…`.
pub fn shown_url(url: &str) -> String {
    let Some((place, query)) = url.split_once('?') else {
        return url.to_string();
    };
    let hidden = |pair: &str| match pair.split_once('=') {
        Some((name, _)) => format!("{name}=…"),
        None => "…".to_string(),
    };
    let query: Vec<String> = query.split('&').map(hidden).collect();
    format!("{place}?{}", query.join("&"))
}

/// The words of a command with what may be secret taken out: what follows an option that names a secret or
/// a header, the value behind such a name and `=`, and addresses that hold a password or a key.
pub fn shown_words(words: &[String]) -> Vec<String> {
    let mut hide = false;
    words
        .iter()
        .map(|word| {
            let hidden = std::mem::replace(&mut hide, false);
            if hidden && !word.starts_with("--") || holds_secret(word) {
                return REDACTED.to_string();
            }
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word.as_str(), None),
            };
            let secret = is_header_option(name) || rules::is_secret_name(name);
            match value {
                Some(_) if secret => format!("{name}={REDACTED}"),
                Some(value) if holds_secret(value) => format!("{name}={REDACTED}"),
                _ => {
                    hide = secret && value.is_none() && word.starts_with('-');
                    match word.contains("://") {
                        true => shown_url(word),
                        false => word.clone(),
                    }
                }
            }
        })
        .collect()
}

fn is_header_option(name: &str) -> bool {
    matches!(name, "-H" | "-e" | "--header" | "--headers" | "--env")
}

/// An address with a password or a key in it, or what is sent as a header.
fn holds_secret(text: &str) -> bool {
    if text.to_ascii_lowercase().contains("bearer ") {
        return true;
    }
    text.contains("://")
        && reqwest::Url::parse(text).is_ok_and(|url| {
            url.password().is_some() || url.query_pairs().any(|(n, _)| rules::is_secret_name(&n))
        })
}

/// `[mcp]`
#[derive(Debug, Clone, PartialEq)]
pub struct Mcp {
    /// The servers by alias, `[a-z0-9][a-z0-9-]{0,19}`.
    pub servers: BTreeMap<String, Server>,
    /// How many rounds of calls one prompt may take.
    pub max_tool_depth: u32,
    /// How much of one result the model gets, in bytes.
    pub max_result_bytes: usize,
}

impl Default for Mcp {
    fn default() -> Self {
        Mcp {
            servers: BTreeMap::new(),
            max_tool_depth: 8,
            max_result_bytes: 65_536,
        }
    }
}

/// One server.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// What it is called here.
    pub alias: String,
    /// How to reach it.
    pub transport: Transport,
    /// The longest time that a call may take.
    pub timeout: Duration,
    /// Which of the protocol's beginnings to try.
    pub lifecycle: Lifecycle,
    /// Its annotations are believed: what it says is read-only counts as that for rules, and may run side by side.
    pub trust_annotations: bool,
    /// The tools that are offered; `None` is all.
    pub tools: Option<Vec<String>>,
    /// It is not connected to.
    pub disabled: bool,
}

impl Server {
    /// Seconds that a call may take where the file does not say.
    pub const TIMEOUT: u32 = 60;

    /// A server at a URL, with nothing else said about it.
    pub fn at(alias: impl Into<String>, url: impl Into<String>) -> Server {
        Server {
            alias: alias.into(),
            transport: Transport::Http {
                url: url.into(),
                auth: Auth::None,
                headers: Vec::new(),
            },
            timeout: Duration::from_secs(Server::TIMEOUT.into()),
            lifecycle: Lifecycle::Auto,
            trust_annotations: false,
            tools: None,
            disabled: false,
        }
    }

    /// The variables of a shell without which it cannot be started.
    pub fn variables(&self) -> Vec<String> {
        match &self.transport {
            Transport::Http {
                auth: Auth::Env(name),
                ..
            } => vec![name.clone()],
            Transport::Http { .. } => Vec::new(),
            Transport::Stdio { env, .. } => env
                .iter()
                .filter_map(|(_, value)| variable(value).map(str::to_string))
                .collect(),
        }
    }

    /// Its URL, or its command with its arguments, without values that may be secret.
    pub fn target(&self) -> String {
        match &self.transport {
            Transport::Http { url, .. } => shown_url(url),
            Transport::Stdio { command, args, .. } => {
                let mut words = vec![command.clone()];
                words.extend(shown_words(args));
                words.join(" ")
            }
        }
    }

    /// Tells how it is reached from every other way, also where [`Server::target`] is the same: a
    /// [`fingerprint`] of its whole transport.
    pub fn identity(&self) -> String {
        let parts = |all: &'_ [(String, String)]| -> Vec<String> {
            let both = all.iter().flat_map(|(name, value)| [name, value]);
            both.cloned().collect()
        };
        let all = match &self.transport {
            Transport::Http { url, auth, headers } => {
                let (kind, value) = match auth {
                    Auth::None => ("none", ""),
                    Auth::Token(token) => ("token", token.expose()),
                    Auth::Env(name) => ("env", name.as_str()),
                    Auth::Cmd(command) => ("cmd", command.as_str()),
                };
                let fixed = ["http", url.as_str(), kind, value].map(str::to_string);
                [fixed.to_vec(), parts(headers)].concat()
            }
            Transport::Stdio { command, args, env } => {
                let fixed = ["stdio".into(), command.clone(), args.len().to_string()];
                [fixed.to_vec(), args.clone(), parts(env)].concat()
            }
        };
        fingerprint(all.iter().map(String::as_str))
    }
}

/// How a server is reached.
#[derive(Clone, PartialEq)]
pub enum Transport {
    /// Streamable HTTP.
    Http {
        /// Its endpoint.
        url: String,
        /// Where its bearer token comes from.
        auth: Auth,
        /// Sent with every request; values may be secrets.
        headers: Vec<(String, String)>,
    },
    /// A command that is started here.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment beyond the few variables that every program needs. A value that is `$NAME`
        /// stands for that variable of the shell that first uses the server.
        env: Vec<(String, String)>,
    },
}

impl fmt::Debug for Transport {
    /// Without headers, arguments and environment, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Transport::Http { url, .. } => write!(f, "Http({})", shown_url(url)),
            Transport::Stdio { command, .. } => write!(f, "Stdio({command})"),
        }
    }
}

/// Where a bearer token comes from.
#[derive(Clone, Default, PartialEq)]
pub enum Auth {
    /// There is none, or one from `aish-helper mcp login`.
    #[default]
    None,
    /// The file has it (`auth_token`).
    Token(Secret),
    /// This environment variable (`auth_env`).
    Env(String),
    /// The output of this command, run by `/bin/sh -c` (`auth_cmd`).
    Cmd(String),
}

/// Which of the protocol's beginnings to try.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Lifecycle {
    /// `server/discover`, then `initialize`. The default for HTTP.
    #[default]
    Auto,
    /// `initialize` alone (up to 2025-11-25). The default for stdio, where a server that ignores
    /// discovery costs seconds.
    Legacy,
    /// `server/discover` alone (2026-07-28).
    Modern,
}

impl Lifecycle {
    /// The word in the file.
    pub fn word(self) -> &'static str {
        match self {
            Lifecycle::Auto => "auto",
            Lifecycle::Legacy => "legacy",
            Lifecycle::Modern => "modern",
        }
    }
}
