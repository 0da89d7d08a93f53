//! `[mcp]` as the user wrote it, with the line of every setting.

use std::collections::BTreeMap;
use std::fmt;

use super::mcp::{Lifecycle, variable};
use super::table::{At, Table, shown_key};
use super::{key, policy, rules};
use crate::address;

/// The beginnings by the word that names them.
const LIFECYCLES: &[(&str, Lifecycle)] = &[
    ("auto", Lifecycle::Auto),
    ("legacy", Lifecycle::Legacy),
    ("modern", Lifecycle::Modern),
];

/// `[mcp]`
#[derive(Debug, Clone, Default)]
pub(super) struct WrittenMcp {
    pub servers: BTreeMap<String, WrittenServer>,
    pub auto_approve: BTreeMap<String, At<bool>>,
    pub max_tool_depth: Option<At<u32>>,
    pub max_result_bytes: Option<At<u32>>,
}

/// One `[mcp.servers.ALIAS]`.
#[derive(Clone)]
pub(super) struct WrittenServer {
    pub reach: Reach,
    pub timeout: Option<At<u32>>,
    pub lifecycle: Option<At<Lifecycle>>,
    pub trust_annotations: Option<At<bool>>,
    pub tools: Option<At<Vec<String>>>,
    pub disabled: Option<At<bool>>,
}

/// `url` or `command`, and what belongs to each.
#[derive(Clone)]
pub(super) enum Reach {
    Url {
        url: At<String>,
        auth_token: Option<At<String>>,
        auth_env: Option<At<String>>,
        auth_cmd: Option<At<String>>,
        headers: Vec<(String, At<String>)>,
    },
    Command {
        command: At<String>,
        args: Option<At<Vec<String>>>,
        env: Vec<(String, At<String>)>,
    },
}

impl fmt::Debug for WrittenServer {
    /// Says nothing of tokens, headers, arguments and environment: they may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Reach::Url { url: reach, .. } | Reach::Command { command: reach, .. }) = &self.reach;
        write!(f, "WrittenServer({:?})", reach.value)
    }
}

impl WrittenServer {
    /// The variables of the shell that it needs: the setting that names each, its line, the name.
    pub fn variables(&self) -> Vec<(String, usize, &str)> {
        if self.disabled.as_ref().is_some_and(|at| at.value) {
            return Vec::new();
        }
        match &self.reach {
            // The token itself is used where both are given.
            Reach::Url {
                auth_token: None,
                auth_env: Some(at),
                ..
            } => vec![("auth_env".to_string(), at.line, &*at.value)],
            Reach::Url { .. } => Vec::new(),
            Reach::Command { env, .. } => env
                .iter()
                .filter_map(|(name, at)| {
                    let key = format!("env.{}", shown_key(name));
                    Some((key, at.line, variable(&at.value)?))
                })
                .collect(),
        }
    }
}

/// Reads `[mcp]`; the aliases in it, right or not, go to `aliases`.
pub(super) fn read<'t>(mut t: Table<'t>, aliases: &mut Vec<&'t str>) -> WrittenMcp {
    let mut mcp = WrittenMcp::default();
    if let Some(servers) = t.table("servers") {
        for (alias, table) in servers.named_tables() {
            aliases.push(alias);
            if let Err(message) = rules::alias(alias) {
                servers.fault(table.line(), alias, message);
            }
            if let Some(server) = read_server(table) {
                mcp.servers.insert(alias.to_string(), server);
            }
        }
    }
    if let Some(table) = t.table("auto_approve") {
        for (name, value) in table.named_booleans() {
            match approved_name(&name, aliases) {
                Ok(()) => {
                    mcp.auto_approve.insert(name, value);
                }
                Err(message) => table.fault(value.line, &name, message),
            }
        }
    }
    mcp.max_tool_depth = t.integer("max_tool_depth", 1..=100);
    mcp.max_result_bytes = t.integer("max_result_bytes", 1024..=16_777_216);
    t.finish();
    mcp
}

fn read_server(mut t: Table<'_>) -> Option<WrittenServer> {
    let url = t.checked("url", |url| rules::server_url(url).map(drop));
    let command = t.string("command");
    let args = t.strings("args", |_| Ok(()));
    let env = t.table("env").map_or(Vec::new(), |env| {
        let all = env.named_strings();
        for (name, value) in &all {
            if let Err(message) = rules::variable_name(name) {
                env.fault(value.line, name, message);
            } else if let Err(message) = rules::server_variable(&value.value) {
                env.fault(value.line, name, message);
            }
        }
        all
    });
    let auth_token = t.checked("auth_token", |token| match rules::token_variable(token) {
        Some(name) => Err(format!(
            "this is the token itself: write auth_env = \"{name}\""
        )),
        None => key::checked(token.as_bytes())
            .map(drop)
            .map_err(str::to_string),
    });
    let auth_env = t.checked("auth_env", rules::variable_name);
    let auth_cmd = t.string("auth_cmd");
    let has_auth = ["auth_token", "auth_env", "auth_cmd"]
        .iter()
        .any(|key| t.has(key));
    let headers = t.table("headers").map_or(Vec::new(), |headers| {
        let all = headers.named_strings();
        for (name, value) in &all {
            if let Err(message) = rules::server_header(name, &value.value) {
                headers.fault(value.line, name, message);
            } else if has_auth && name.eq_ignore_ascii_case("authorization") {
                let message = "the token is sent in this header already";
                headers.fault(value.line, name, message);
            }
        }
        all
    });
    let timeout = t.integer("timeout", 1..=86_400);
    let lifecycle = t.word("lifecycle", LIFECYCLES);
    let trust_annotations = t.boolean("trust_annotations");
    let tools = t.strings("tools", |_| Ok(()));
    let disabled = t.boolean("disabled");

    let (has_url, has_command) = (t.has("url"), t.has("command"));
    if has_url && has_command {
        t.fault_at("command", "give url or command, not both");
    } else if !has_url && !has_command {
        let message = "missing: a server has a url, or a command that is started here";
        t.fault(t.line(), "url", message);
    } else {
        let (wanted, others) = if has_url {
            ("command", &["args", "env"][..])
        } else {
            (
                "url",
                &["auth_token", "auth_env", "auth_cmd", "headers"][..],
            )
        };
        for key in others {
            t.fault_at(key, &format!("only a server with a {wanted} has this"));
        }
    }
    let secret = has_auth
        || headers
            .iter()
            .any(|(name, _)| !rules::is_public_header(name));
    if let Some(at) = &url
        && let Ok(parsed) = rules::server_url(&at.value)
        && secret
        && let Err(message) = address::clear_text(&parsed)
    {
        t.fault(at.line, "url", message);
    }
    t.finish();
    let reach = match (url, command) {
        (Some(url), _) => Reach::Url {
            url,
            auth_token,
            auth_env,
            auth_cmd,
            headers,
        },
        (None, Some(command)) => Reach::Command { command, args, env },
        (None, None) => return None,
    };
    Some(WrittenServer {
        reach,
        timeout,
        lifecycle,
        trust_annotations,
        tools,
        disabled,
    })
}

/// `alias.tool` or `alias.*`.
fn approved_name(name: &str, aliases: &[&str]) -> Result<(), String> {
    let form = "must be \"alias.tool\", or \"alias.*\" for all tools of a server";
    let Some((alias, tool)) = name.split_once('.') else {
        return Err(form.into());
    };
    policy::known(alias, tool, aliases)?;
    // Anything else with a star would name one odd tool, and look like many.
    if tool.is_empty() || (tool != "*" && tool.contains('*')) {
        return Err(form.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
