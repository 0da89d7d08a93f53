//! `[mcp.servers.ALIAS]`: the MCP servers, and how aliases are chosen.
//!
//! No setting of this file can be overridden by an environment variable, because a variable must not loosen the rules
//! of the file.

use std::fmt;
use std::time::Duration;

use super::masking::{
    mask_arguments, mask_command, mask_header, mask_server_variable, mask_url, mask_whole,
};
pub use super::masking::{shown_url, shown_words};
use super::section::section;
use super::setting_types::word_setting;
use super::table_reader::{TableReader, shown_key};
use super::value_checks::{
    ALIAS_MAX, check_server_header, check_server_variable, check_token, check_variable_name,
    is_public_header, server_url,
};
pub use super::value_checks::{check_url, is_alias, is_reserved_alias, variable_reference};
use crate::address;
use crate::secret::{Secret, fingerprint};

/// Returns a free alias that resembles `name`, or `server` if no character of the name is allowed.
pub fn free_alias(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let mut like = String::new();
    for c in name.chars().map(|c| c.to_ascii_lowercase()) {
        if c.is_ascii_alphanumeric() {
            like.push(c);
        } else if !like.is_empty() && !like.ends_with('-') {
            like.push('-');
        }
    }
    like.truncate(ALIAS_MAX);
    let like = match like.trim_end_matches('-') {
        "" => "server",
        like => like,
    };
    let taken = |alias: &str| is_reserved_alias(alias) || taken(alias);
    if !taken(like) {
        return like.to_string();
    }
    let numbered = |n: u32| {
        let end = format!("-{n}");
        let head: String = like.chars().take(ALIAS_MAX - end.len()).collect();
        format!("{}{end}", head.trim_end_matches('-'))
    };
    let mut n = 2;
    while taken(&numbered(n)) {
        n += 1;
    }
    numbered(n)
}

/// Returns a free alias for the server at a URL, from its host name: `github` for `mcp.github.com`, `local` for
/// `127.0.0.1`.
///
/// # Errors
/// The URL is not valid; the message is to be appended to the URL.
pub fn free_alias_for_url(url: &str, taken: impl Fn(&str) -> bool) -> Result<String, String> {
    let url = server_url(url)?;
    let host = url.host_str().unwrap_or_default();
    if crate::address::is_loopback(&url) {
        return Ok(free_alias("local", taken));
    }
    if host.parse::<std::net::IpAddr>().is_ok() || host.starts_with('[') {
        return Ok(free_alias(host.trim_matches(['[', ']']), taken));
    }
    // Generic labels do not identify a server, and neither does the top-level domain.
    let labels: Vec<&str> = host.split('.').filter(|l| !l.is_empty()).collect();
    let candidates = &labels[..labels.len().saturating_sub(1)];
    let specific = |label: &&&str| !matches!(**label, "www" | "mcp" | "api" | "app" | "server");
    let label = candidates.iter().find(specific).or(labels.first());
    Ok(free_alias(label.unwrap_or(&host), taken))
}

section! {
    /// An MCP server whose tools the model may call. It has either a `url` or a `command`.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ServerSettings in "mcp.servers.ALIAS" {
        /// How long a call may take, in seconds.
        timeout: Duration = Duration::from_secs(60), in_seconds(), range(1, 86_400);
        /// How the connection is initialized: `"modern"` is `server/discover` alone, `"legacy"` is `initialize` alone, `"auto"` tries
        /// the former and then the latter. The default is `"auto"` with a `url` and `"legacy"` with a `command`.
        lifecycle: HandshakeMode = HandshakeMode::Auto;
        /// Trust the server's tool annotations: a tool that is annotated as read-only counts as read-only for the rules,
        /// and its calls may run in parallel.
        trust_annotations: bool = false;
        /// The tools that are offered to the model. The default is all tools of the server.
        tools: Option<Vec<String>> = None, example("[\"search\", \"get_issue\"]");
        /// Do not connect to the server.
        disabled: bool = false;
    }
    derived {
        /// The alias of the server, `[a-z0-9][a-z0-9-]{0,19}`.
        alias: String = String::new();
        /// How to reach the server.
        transport: ServerTransport = ServerTransport::default();
    }
    finish finish_server, inputs TransportSettings {
        /// The endpoint of the server (Streamable HTTP). `https://` is required where a token or a secret header is sent,
        /// unless the server is on this machine or has a numeric private address.
        url: Option<String> = None, check(check_url), mask(mask_url), example("\"https://mcp.example.com/mcp\"");
        /// The name of the environment variable that holds the bearer token.
        auth_env: Option<String> = None, check(check_variable_name), example("\"TRACKER_TOKEN\"");
        /// A command that prints the bearer token, run by `/bin/sh -c`. `auth_env` takes precedence.
        auth_cmd: Option<String> = None, mask(mask_command), alternative("\"pass show tracker\"");
        /// The bearer token itself. It takes precedence over `auth_env` and `auth_cmd`.
        auth_token: Option<String> = None, check(check_token), mask(mask_whole), alternative("\"t0ken\"");
        /// Additional headers of every request. Values of headers other than well-known harmless ones are masked.
        headers: Vec<(String, String)> = Vec::new(), check_entry(check_server_header), mask_entry(mask_header),
            example("X-Team = \"blue\"");
        /// The program that aish starts as the server (stdio). Cannot be combined with `url`, `auth_*` or `headers`.
        command: Option<String> = None, alternative("\"npx\"");
        /// The arguments of the program.
        args: Option<Vec<String>> = None, mask(mask_arguments),
            alternative("[\"-y\", \"@modelcontextprotocol/server-filesystem\", \"/home/me/notes\"]");
        /// The environment of the program, in addition to the few variables that every program needs. A value `$NAME` is
        /// that variable of the shell that first uses the server.
        env: Vec<(String, String)> = Vec::new(), check_entry(check_server_variable), mask_entry(mask_server_variable),
            alternative("LOG_LEVEL = \"warn\"\nAPI_KEY = \"$FILES_KEY\"");
    };
}

/// Combines the transport settings and checks that they are consistent.
fn finish_server(
    server: &mut ServerSettings,
    reader: &TableReader<'_>,
    settings: TransportSettings,
) {
    server.alias = reader.name().to_owned();
    let has = |key: &&str| reader.has(key);
    let (has_url, has_command) = (reader.has("url"), reader.has("command"));
    const HTTP_SETTINGS: [&str; 4] = ["auth_token", "auth_env", "auth_cmd", "headers"];
    let has_auth = ["auth_token", "auth_env", "auth_cmd"].iter().any(has);
    let (needed, misplaced) = match has_url {
        true => ("command", &["args", "env"][..]),
        false => ("url", &HTTP_SETTINGS[..]),
    };
    if has_url && has_command {
        reader.fault_at("command", "give url or command, not both");
    } else if !has_url && !has_command {
        let message = "missing: a server has a url, or a command that is started here";
        reader.fault(reader.line(), "url", message);
    } else {
        for key in misplaced {
            reader.fault_at(
                key,
                format!("only a server with a {needed} can have this key"),
            );
        }
    }
    if has_auth && let Some(headers) = reader.table("headers") {
        for (name, _) in &settings.headers {
            if name.eq_ignore_ascii_case("authorization") {
                headers.fault_at(name, "the token is sent in this header already");
            }
        }
    }
    let has_secret = has_auth || settings.headers.iter().any(|(n, _)| !is_public_header(n));
    if has_secret
        && let Some(Ok(url)) = settings.url.as_deref().map(server_url)
        && let Err(message) = address::check_key_transport(&url)
    {
        reader.fault_at("url", message);
    }
    if has_command && !reader.has("lifecycle") {
        server.lifecycle = HandshakeMode::Legacy;
        reader.replace_default("lifecycle", HandshakeMode::Legacy.word());
    }
    server.transport = match (settings.url, settings.command) {
        (None, Some(command)) => ServerTransport::Stdio {
            command,
            args: settings.args.unwrap_or_default(),
            env: settings.env,
        },
        (url, _) => ServerTransport::Http {
            url: url.unwrap_or_default(),
            auth: match (settings.auth_token, settings.auth_env, settings.auth_cmd) {
                (Some(token), _, _) => TokenSource::Token(Secret::new(token.trim())),
                (None, Some(name), _) => TokenSource::Env(name),
                (None, None, Some(command)) => TokenSource::Cmd(command),
                (None, None, None) => TokenSource::None,
            },
            headers: settings.headers,
        },
    };
}

impl ServerSettings {
    /// A server at a URL, with the defaults for everything else.
    pub fn with_url(alias: impl Into<String>, url: impl Into<String>) -> ServerSettings {
        ServerSettings {
            alias: alias.into(),
            transport: ServerTransport::Http {
                url: url.into(),
                auth: TokenSource::None,
                headers: Vec::new(),
            },
            ..ServerSettings::default()
        }
    }

    /// The variables of the shell that the server needs to start.
    pub fn variables(&self) -> Vec<String> {
        let settings = self.variable_settings().into_iter();
        settings.map(|(_, variable)| variable).collect()
    }

    /// The settings that name a variable of the shell, each with that variable.
    pub(super) fn variable_settings(&self) -> Vec<(String, String)> {
        match &self.transport {
            ServerTransport::Http {
                auth: TokenSource::Env(name),
                ..
            } => vec![("auth_env".to_owned(), name.clone())],
            ServerTransport::Http { .. } => Vec::new(),
            ServerTransport::Stdio { env, .. } => env
                .iter()
                .filter_map(|(name, value)| {
                    let key = format!("env.{}", shown_key(name));
                    Some((key, variable_reference(value)?.to_owned()))
                })
                .collect(),
        }
    }

    /// The URL, or the command with its arguments, without values that may be secret.
    pub fn target(&self) -> String {
        match &self.transport {
            ServerTransport::Http { url, .. } => shown_url(url),
            ServerTransport::Stdio { command, args, .. } => {
                let mut words = vec![command.clone()];
                words.extend(shown_words(args));
                words.join(" ")
            }
        }
    }

    /// Identifies the transport, secrets included, by a [`fingerprint`]. Servers with the same [`ServerSettings::target`] can
    /// have different identities.
    pub fn identity(&self) -> String {
        let flattened = |pairs: &'_ [(String, String)]| -> Vec<String> {
            let values = pairs.iter().flat_map(|(name, value)| [name, value]);
            values.cloned().collect()
        };
        let all = match &self.transport {
            ServerTransport::Http { url, auth, headers } => {
                let (kind, value) = match auth {
                    TokenSource::None => ("none", ""),
                    TokenSource::Token(token) => ("token", token.expose()),
                    TokenSource::Env(name) => ("env", name.as_str()),
                    TokenSource::Cmd(command) => ("cmd", command.as_str()),
                };
                let fixed = ["http", url.as_str(), kind, value].map(str::to_string);
                [fixed.to_vec(), flattened(headers)].concat()
            }
            ServerTransport::Stdio { command, args, env } => {
                let fixed = ["stdio".into(), command.clone(), args.len().to_string()];
                [fixed.to_vec(), args.clone(), flattened(env)].concat()
            }
        };
        fingerprint(all.iter().map(String::as_str))
    }
}

/// How to reach a server.
#[derive(Clone, PartialEq)]
pub enum ServerTransport {
    /// Streamable HTTP.
    Http {
        /// The endpoint.
        url: String,
        /// Where the bearer token comes from.
        auth: TokenSource,
        /// Sent with every request; values may be secrets.
        headers: Vec<(String, String)>,
    },
    /// A program that aish starts.
    Stdio {
        /// The program.
        command: String,
        /// The arguments.
        args: Vec<String>,
        /// The environment, in addition to the few variables that every program needs. A value `$NAME` is
        /// that variable of the shell that first uses the server.
        env: Vec<(String, String)>,
    },
}

impl Default for ServerTransport {
    fn default() -> ServerTransport {
        ServerTransport::Http {
            url: String::new(),
            auth: TokenSource::None,
            headers: Vec::new(),
        }
    }
}

impl fmt::Debug for ServerTransport {
    /// Without headers, arguments and environment, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerTransport::Http { url, .. } => write!(f, "Http({})", shown_url(url)),
            ServerTransport::Stdio { command, .. } => write!(f, "Stdio({command})"),
        }
    }
}

/// Where a bearer token comes from.
#[derive(Clone, Default, PartialEq)]
pub enum TokenSource {
    /// No token, or the one from `aish-helper mcp login`.
    #[default]
    None,
    /// The token itself (`auth_token`).
    Token(Secret),
    /// This environment variable (`auth_env`).
    Env(String),
    /// The output of this command, run by `/bin/sh -c` (`auth_cmd`).
    Cmd(String),
}

/// Which handshakes of the protocol to try.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HandshakeMode {
    /// `server/discover`, then `initialize`. The default for HTTP.
    #[default]
    Auto,
    /// `initialize` alone (up to 2025-11-25). The default for stdio, where waiting for a server that ignores
    /// discovery takes seconds.
    Legacy,
    /// `server/discover` alone (2026-07-28).
    Modern,
}

impl HandshakeMode {
    /// Returns the value as written in the file.
    pub fn word(self) -> &'static str {
        match self {
            HandshakeMode::Auto => "auto",
            HandshakeMode::Legacy => "legacy",
            HandshakeMode::Modern => "modern",
        }
    }
}

word_setting!(
    HandshakeMode,
    [
        HandshakeMode::Auto,
        HandshakeMode::Legacy,
        HandshakeMode::Modern
    ],
    HandshakeMode::word
);

#[cfg(test)]
mod tests;
