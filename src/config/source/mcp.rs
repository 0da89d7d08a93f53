//! `[mcp]`: nothing of it comes from the environment, since a variable must not loosen what the file says.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Origin, Picker, REDACTED, seconds, usize_of};
use crate::config::mcp::{
    Auth, Lifecycle, Mcp, Server, Transport, shown_url, shown_words, variable,
};
use crate::config::rules;
use crate::config::servers::{Reach, WrittenMcp, WrittenServer};
use crate::config::table::{At, shown_key};
use crate::secret::Secret;

pub(super) fn resolve(p: &mut Picker, written: &WrittenMcp) -> Mcp {
    let default = Mcp::default();
    let max_tool_depth = p.pick(
        "mcp.max_tool_depth",
        None,
        &written.max_tool_depth,
        default.max_tool_depth,
    );
    let max_result_bytes = usize_of(p.pick(
        "mcp.max_result_bytes",
        None,
        &written.max_result_bytes,
        u32::try_from(default.max_result_bytes).unwrap_or(u32::MAX),
    ));
    let servers: BTreeMap<String, Server> = written
        .servers
        .iter()
        .map(|(alias, w)| (alias.clone(), server(p, alias, w)))
        .collect();
    Mcp {
        servers,
        max_tool_depth,
        max_result_bytes,
    }
}

fn server(p: &mut Picker, alias: &str, w: &WrittenServer) -> Server {
    let prefix = format!("mcp.servers.{}", shown_key(alias));
    let key = |k: &str| format!("{prefix}.{k}");
    let transport = transport(p, &prefix, &w.reach);
    let usual = match transport {
        Transport::Http { .. } => Lifecycle::Auto,
        Transport::Stdio { .. } => Lifecycle::Legacy,
    };
    let word = |at: &At<Lifecycle>| at.clone().map(|l| l.word().to_string());
    p.pick(
        &key("lifecycle"),
        None,
        &w.lifecycle.as_ref().map(word),
        usual.word().to_string(),
    );
    Server {
        alias: alias.to_string(),
        transport,
        timeout: seconds(p.pick(&key("timeout"), None, &w.timeout, Server::TIMEOUT)),
        lifecycle: w.lifecycle.as_ref().map_or(usual, |at| at.value),
        trust_annotations: p.pick(&key("trust_annotations"), None, &w.trust_annotations, false),
        tools: p.optional(&key("tools"), None, &w.tools),
        disabled: p.pick(&key("disabled"), None, &w.disabled, false),
    }
}

fn transport(p: &mut Picker, prefix: &str, reach: &Reach) -> Transport {
    let key = |k: &str| format!("{prefix}.{k}");
    let values = |all: &[(String, At<String>)]| -> Vec<(String, String)> {
        let own = |(n, v): &(String, At<String>)| (n.clone(), v.value.clone());
        all.iter().map(own).collect()
    };
    match reach {
        Reach::Url {
            url,
            auth_token,
            auth_env,
            auth_cmd,
            headers,
        } => {
            p.note(key("url"), shown_url(&url.value), Origin::File(url.line));
            if let Some(at) = auth_token {
                p.note(key("auth_token"), REDACTED, Origin::File(at.line));
            }
            if let Some(at) = auth_env {
                p.note(key("auth_env"), at.value.clone(), Origin::File(at.line));
            }
            if let Some(at) = auth_cmd {
                let shown = super::program_only(&at.value);
                p.note(key("auth_cmd"), shown, Origin::File(at.line));
            }
            for (name, at) in headers {
                let shown = match rules::is_public_header(name) {
                    true => &at.value,
                    false => REDACTED,
                };
                let key = key(&format!("headers.{}", shown_key(name)));
                p.note(key, shown, Origin::File(at.line));
            }
            let auth = match (auth_token, auth_env, auth_cmd) {
                (Some(at), _, _) => Auth::Token(Secret::new(at.value.trim())),
                (None, Some(at), _) => Auth::Env(at.value.clone()),
                (None, None, Some(at)) => Auth::Cmd(at.value.clone()),
                (None, None, None) => Auth::None,
            };
            Transport::Http {
                url: url.value.clone(),
                auth,
                headers: values(headers),
            }
        }
        Reach::Command { command, args, env } => {
            p.note(
                key("command"),
                command.value.clone(),
                Origin::File(command.line),
            );
            if let Some(at) = args {
                let shown = json!(shown_words(&at.value));
                p.note(key("args"), shown, Origin::File(at.line));
            }
            for (name, at) in env {
                // The name of a variable tells nothing; its value may be the secret.
                let shown = variable(&at.value).map_or(REDACTED, |_| at.value.as_str());
                let key = key(&format!("env.{}", shown_key(name)));
                p.note(key, shown, Origin::File(at.line));
            }
            Transport::Stdio {
                command: command.value.clone(),
                args: args.as_ref().map_or(Vec::new(), |at| at.value.clone()),
                env: values(env),
            }
        }
    }
}
