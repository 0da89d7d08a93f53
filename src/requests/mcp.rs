//! Serves the requests about MCP servers: list, connect, disconnect, tools, resources, prompts.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::chat::ToolDefinition;
use crate::config::mcp::{
    ServerSettings, ServerTransport, TokenSource, check_url, free_alias_for_url, is_alias,
    is_reserved_alias,
};
use crate::config::{Config, ConfigOverrides, nearest_name};
use crate::error::{Error, ErrorKind, Result};
use crate::mcp::{ConnectionStatus, ServerState};
use crate::protocol::tools::{
    FoundTool, McpRequest, PromptInfo, ResourceInfo, ServerInfo, ServerStatus, ToolInfo,
};
use crate::protocol::{self, kind};
use crate::safety::policy::{BuiltinAction, RuleEffect, RuleSubject};
use crate::services::client_handle::ClientHandle;
use crate::services::{SharedServices, mcp_startup, tool_history};
use crate::tools::builtin;
use crate::turn::rules_in_force;
use crate::turn::tool_view::tool_info;

/// How long a list waits for servers that are starting.
const STARTING: Duration = Duration::from_secs(1);
/// How long `connect` waits for a server.
const CONNECTING: Duration = Duration::from_secs(10);

/// Serves one request about MCP servers. Returns the reply frame.
///
/// # Errors
/// The configuration is wrong, the named item does not exist, or a server fails.
pub async fn serve(
    services: &SharedServices,
    client: &ClientHandle,
    request: McpRequest,
    cwd: &str,
) -> Result<Vec<u8>> {
    // Environment variables and options do not affect servers.
    let mut config = services.models.config(&ConfigOverrides::default())?;
    if matches!(
        request,
        McpRequest::Connect { .. } | McpRequest::Reconnect { .. }
    ) {
        // Faults in a project's file are reported with the next prompt.
        rules_in_force::apply(&mut config, cwd).await?;
    }
    match &request {
        // Connecting one server does not start the others.
        McpRequest::Connect { .. } | McpRequest::Reconnect { .. } => {}
        _ => mcp_startup::refresh_for(services, client, &config).await?,
    }
    match request {
        McpRequest::List => {
            settle(services, client, None, STARTING).await?;
            reply(&list(services, &config))
        }
        McpRequest::Tools { alias } => {
            let tools = tools(services, client, &config, alias.as_deref()).await?;
            let of_server = |t: &&ToolDefinition| alias.as_ref().is_none_or(|a| t.server == *a);
            let tools: Vec<ToolInfo> = tools.iter().filter(of_server).map(tool_info).collect();
            reply(&tools)
        }
        McpRequest::Tool { name } => {
            if let Some(tool) = builtin::find_work_tool(&name) {
                return reply(&tool_info(tool));
            }
            let alias = name.split_once('.').map(|(alias, _)| alias);
            let tools = tools(services, client, &config, alias).await?;
            let tool = tools.iter().find(|t| t.name == name).map(tool_info);
            let tool = tool.ok_or_else(|| no_such_tool(&name, &tools))?;
            reply(&tool)
        }
        McpRequest::Search { query, limit } => {
            reply(&search(services, client, &config, query, limit).await?)
        }
        McpRequest::Connect { url, alias } => {
            let info = connect(services, client, &config, url, alias).await?;
            reply(&info)
        }
        McpRequest::Disconnect { alias } => {
            known(services, &config, &alias)?;
            let states = services.mcp.states();
            let off = |s: &ServerState| s.alias == alias && s.status == ConnectionStatus::Disabled;
            let connected = !states.iter().any(off);
            services.mcp.disconnect(&alias)?;
            reply(&connected)
        }
        McpRequest::Reconnect { alias } => {
            let (server, configured) = known(services, &config, &alias)?;
            let info = start(services, client, &config, server, configured).await?;
            reply(&info)
        }
        McpRequest::Resources { alias } => {
            ready(services, client, &config, alias.as_deref()).await?;
            let work = services
                .mcp
                .resources(alias.as_deref(), client.feed.cancel_token());
            let found = work.await?;
            let infos: Vec<ResourceInfo> = found
                .into_iter()
                .map(|r| ResourceInfo {
                    server: r.server,
                    uri: r.uri,
                    name: r.name,
                    description: r.description,
                    mime: r.mime,
                    template: r.template,
                })
                .collect();
            reply(&infos)
        }
        McpRequest::Prompts { alias } => {
            ready(services, client, &config, alias.as_deref()).await?;
            let work = services
                .mcp
                .prompts(alias.as_deref(), client.feed.cancel_token());
            let found = work.await?;
            let infos: Vec<PromptInfo> = found
                .into_iter()
                .map(|p| PromptInfo {
                    name: p.name,
                    description: p.description,
                    arguments: p.arguments,
                })
                .collect();
            reply(&infos)
        }
        McpRequest::Prompt { name, arguments } => {
            let Some((alias, prompt)) = name.split_once('.') else {
                let message = format!("not a prompt name: {name}; write SERVER.PROMPT");
                return Err(Error::usage(message).hint("see them with: llm :mcp prompts"));
            };
            ready(services, client, &config, Some(alias)).await?;
            let work = services
                .mcp
                .prompt(alias, prompt, &arguments, client.feed.cancel_token());
            reply(&work.await?)
        }
    }
}

fn reply<T: Serialize>(body: &T) -> Result<Vec<u8>> {
    protocol::json_frame(kind::REPLY, body)
}

/// Returns the servers of the daemon and those of the configuration that were not started.
pub fn list(services: &SharedServices, config: &Config) -> Vec<ServerInfo> {
    let waiting = services.mcp.pending_start(&config.mcp.servers);
    let states = services.mcp.states().into_iter();
    let tools = services.mcp.tools();
    let mut infos: Vec<ServerInfo> = states.map(|s| info(config, s, &tools)).collect();
    for server in config.mcp.servers.values() {
        if infos.iter().any(|i| i.alias == server.alias) {
            continue;
        }
        infos.push(ServerInfo {
            alias: server.alias.clone(),
            target: server.target(),
            version: None,
            protocol: None,
            tools: 0,
            status: match waiting.contains(server) {
                true => ServerStatus::Idle,
                false => ServerStatus::Disabled,
            },
            error: None,
            hints: Vec::new(),
            configured: true,
        });
    }
    infos.sort_by(|a, b| a.alias.cmp(&b.alias));
    infos
}

fn info(config: &Config, state: ServerState, tools: &[ToolDefinition]) -> ServerInfo {
    let state = refused(config, state);
    let hints = match state.status {
        ConnectionStatus::Ready => hints(config, &state.alias, tools),
        _ => Vec::new(),
    };
    ServerInfo {
        alias: state.alias,
        target: state.target,
        version: state.version,
        protocol: state.protocol,
        tools: state.tools,
        status: server_status(state.status),
        error: state.error,
        hints,
        configured: state.configured,
    }
}

fn server_status(status: ConnectionStatus) -> ServerStatus {
    match status {
        ConnectionStatus::Starting => ServerStatus::Starting,
        ConnectionStatus::Ready => ServerStatus::Ready,
        ConnectionStatus::Failed => ServerStatus::Failed,
        ConnectionStatus::LoginRequired => ServerStatus::Login,
        ConnectionStatus::Disabled => ServerStatus::Disabled,
    }
}

/// Returns a hint for each tool named in the configuration that the server does not offer: most likely a typing error.
fn hints(config: &Config, alias: &str, tools: &[ToolDefinition]) -> Vec<String> {
    let offers = |name: &str| tools.iter().any(|t| t.server == alias && t.tool == name);
    let server = config.mcp.servers.get(alias);
    let listed = server.iter().flat_map(|s| s.tools.iter().flatten());
    let listed = listed.map(|name| ("tools", name.as_str()));
    let ruled = config
        .policy
        .list
        .iter()
        .filter_map(|rule| match &rule.subject {
            RuleSubject::Tool(server, name) if server == alias => {
                Some((&*rule.source, name.as_str()))
            }
            _ => None,
        });
    listed
        .chain(ruled)
        .filter(|(_, name)| !offers(name))
        .map(|(key, name)| format!("{key} names {name}, which the server does not offer"))
        .collect()
}

/// Reports a server with a configured token that asks for a login as failed: it rejects the token, and a login would not
/// help.
fn refused(config: &Config, mut state: ServerState) -> ServerState {
    let server = config.mcp.servers.get(&state.alias);
    let has_token = server.is_some_and(|s| match &s.transport {
        ServerTransport::Http { auth, headers, .. } => {
            let signs = |(name, _): &(String, String)| name.eq_ignore_ascii_case("authorization");
            *auth != TokenSource::None || headers.iter().any(signs)
        }
        ServerTransport::Stdio { .. } => false,
    });
    if state.configured && has_token && state.status == ConnectionStatus::LoginRequired {
        state.status = ConnectionStatus::Failed;
        state.error = Some(format!(
            "it rejects its token (HTTP 401): see [mcp.servers.{}]",
            state.alias
        ));
    }
    state
}

/// Returns the settings of a server, and whether they come from the configuration.
fn known(
    services: &SharedServices,
    config: &Config,
    alias: &str,
) -> Result<(ServerSettings, bool)> {
    if let Some(server) = config.mcp.servers.get(alias) {
        return Ok((server.clone(), true));
    }
    if let Some(server) = services.mcp.server(alias) {
        return Ok((server, false));
    }
    let states = services.mcp.states();
    let names = states.iter().map(|s| s.alias.as_str());
    let names = names.chain(config.mcp.servers.keys().map(String::as_str));
    Err(match nearest_name(alias, names) {
        Some(near) => Error::usage(format!(
            "no MCP server is called {alias}; did you mean {near}?"
        )),
        None => Error::usage(format!("no MCP server is called {alias}")),
    }
    .hint("see them with: llm :mcp list"))
}

/// Returns the error for a tool that no server offers.
pub fn no_such_tool(name: &str, tools: &[ToolDefinition]) -> Error {
    let names = tools.iter().map(|t| t.name.as_str());
    match nearest_name(name, names) {
        Some(near) => Error::usage(format!("no tool is called {name}; did you mean {near}?")),
        None => Error::usage(format!("no tool is called {name}")),
    }
    .hint("see them with: llm :mcp tools")
}

/// Waits until all servers, or the one named, have started or failed. Returns the state of the one named.
async fn settle(
    services: &SharedServices,
    client: &ClientHandle,
    alias: Option<&str>,
    patience: Duration,
) -> Result<Option<ServerState>> {
    let patience = match client.is_read_only {
        true => Duration::ZERO,
        false => patience,
    };
    let settled = async {
        services.mcp.wait_until_settled(alias, patience).await;
        Ok(())
    };
    client.unless_cancelled(settled).await?;
    let mut states = services.mcp.states().into_iter();
    Ok(states.find(|s| alias.is_none_or(|a| s.alias == a)))
}

/// Waits until all servers have been started or have failed, or until the named server is ready.
///
/// # Errors
/// The server is not ready, or the client has hung up.
pub async fn ready(
    services: &SharedServices,
    client: &ClientHandle,
    config: &Config,
    alias: Option<&str>,
) -> Result<()> {
    let Some(alias) = alias else {
        return settle(services, client, None, STARTING).await.map(drop);
    };
    known(services, config, alias)?;
    match settle(services, client, Some(alias), STARTING).await? {
        Some(state) if state.status == ConnectionStatus::Ready => Ok(()),
        Some(state) => Err(not_ready(&refused(config, state))),
        None => {
            let message = format!("the MCP server {alias} is turned off");
            let hint = format!("turn it on with: llm :mcp connect {alias}");
            Err(Error::runtime(message).hint(hint))
        }
    }
}

/// Returns the error for a server that is not ready.
fn not_ready(state: &ServerState) -> Error {
    let alias = &state.alias;
    let why = state.error.as_deref();
    let message = match state.status {
        ConnectionStatus::Starting => format!("the MCP server {alias} is still starting"),
        status => format!(
            "the MCP server {alias} cannot be used: {}",
            why.unwrap_or(status.as_str())
        ),
    };
    let hint = match state.status {
        ConnectionStatus::LoginRequired => format!("log in with: aish-helper mcp login {alias}"),
        ConnectionStatus::Starting => "try again in a moment, or see: llm :mcp list".to_string(),
        _ => format!("see: llm :mcp list; then try: llm :mcp connect {alias}"),
    };
    Error::runtime(message).hint(hint)
}

async fn tools(
    services: &SharedServices,
    client: &ClientHandle,
    config: &Config,
    alias: Option<&str>,
) -> Result<Arc<[ToolDefinition]>> {
    if !client.is_read_only {
        ready(services, client, config, alias).await?;
    }
    Ok(services.mcp.tools())
}

/// Searches the tools.
async fn search(
    services: &SharedServices,
    client: &ClientHandle,
    config: &Config,
    query: String,
    limit: usize,
) -> Result<Vec<FoundTool>> {
    ready(services, client, config, None).await?;
    // The pool's own list, which prompts use too, so that its index is reused.
    let tools = tool_history::catalog(services, Duration::ZERO).await.tools;
    let work = services.finder.search(&tools, query, limit);
    let found = client.unless_cancelled(work).await?.into_iter();
    let found = found.filter_map(|(at, score)| Some((tools.get(at)?, score)));
    let info = |(tool, score): (&ToolDefinition, f32)| FoundTool {
        score,
        call_with: tool.annotations.operation().call_tool_name().to_string(),
        tool: tool_info(tool),
    };
    Ok(found.map(info).collect())
}

/// Connects to a URL, or reconnects a configured server by its alias.
async fn connect(
    services: &SharedServices,
    client: &ClientHandle,
    config: &Config,
    url: String,
    alias: Option<String>,
) -> Result<ServerInfo> {
    if alias.is_none() && is_alias(&url) {
        let (server, configured) = known(services, config, &url)?;
        return start(services, client, config, server, configured).await;
    }
    check_url(&url).map_err(|why| {
        Error::usage(format!("cannot connect: the address {why}"))
            .hint("try: llm :mcp connect https://HOST/mcp")
    })?;
    if let Some(alias) = alias.as_ref().filter(|a| !is_alias(a)) {
        return Err(Error::usage(format!("{alias} cannot be an alias"))
            .hint("an alias has 1 to 20 of the characters a-z 0-9 -, and does not begin with -"));
    }
    if let Some(alias) = alias.as_ref().filter(|a| is_reserved_alias(a)) {
        return Err(Error::usage(format!("{alias} cannot be an alias"))
            .hint("it is reserved for the tools of aish itself; choose another one"));
    }
    let listed = list(services, config);
    let is_there = |info: &ServerInfo| {
        let server = known(services, config, &info.alias);
        server.is_ok_and(
            |(s, _)| matches!(s.transport, ServerTransport::Http { url: u, .. } if u == url),
        )
    };
    let same = |info: &&ServerInfo| match &alias {
        Some(alias) => info.alias == *alias,
        None => is_there(info),
    };
    let server = match (listed.iter().find(same), alias) {
        (Some(there), _) if is_there(there) => known(services, config, &there.alias)?,
        (Some(there), _) => {
            let (alias, target) = (&there.alias, &there.target);
            let message = format!("a server named {alias} already exists: {target}");
            return Err(Error::usage(message).hint(format!(
                "choose another alias, or: llm :mcp disconnect {alias}"
            )));
        }
        (None, Some(alias)) => (ServerSettings::with_url(alias, url), false),
        (None, None) => {
            // The alias derives from the host name, which the host chooses: it must not match the user's rules.
            let rules = || config.policy.list.iter().map(|r| r.subject.to_string());
            let ruled = |alias: &str| rules().any(|r| r.split('.').next() == Some(alias));
            let taken = |alias: &str| listed.iter().any(|i| i.alias == alias) || ruled(alias);
            let alias = free_alias_for_url(&url, taken).map_err(Error::usage)?;
            (ServerSettings::with_url(alias, url), false)
        }
    };
    start(services, client, config, server.0, server.1).await
}

/// Starts a server and waits until it is ready. A server outside of the configuration is disconnected if it fails,
/// unless it needs a login.
async fn start(
    services: &SharedServices,
    client: &ClientHandle,
    config: &Config,
    server: ServerSettings,
    configured: bool,
) -> Result<ServerInfo> {
    let rule = config.policy.rule_for_action(BuiltinAction::Network);
    if let Some(rule) = rule.filter(|r| !configured && r.effect == RuleEffect::Deny) {
        let message = format!("cannot connect: {} says deny", rule.source);
        let hint = "write the server into the configuration, or change that rule";
        return Err(Error::usage(message).hint(hint));
    }
    let alias = server.alias.clone();
    mcp_startup::start_now(services, client, server, configured).await?;
    let state = match settle(services, client, Some(&alias), CONNECTING).await {
        Ok(Some(state)) if state.status == ConnectionStatus::Ready => {
            return Ok(info(config, state, &services.mcp.tools()));
        }
        Ok(state) => state.map(|s| refused(config, s)),
        Err(e) => {
            give_up(services, &alias, configured);
            return Err(e);
        }
    };
    let Some(state) = state else {
        return Err(Error::new(
            ErrorKind::Interrupted,
            format!("the server {alias} was disconnected meanwhile"),
        ));
    };
    let target = &state.target;
    if state.status == ConnectionStatus::LoginRequired {
        let message = format!("{alias} ({target}) wants you to log in");
        return Err(Error::runtime(message).hint(format!("run: aish-helper mcp login {alias}")));
    }
    // It keeps starting in the background: a program may have to be downloaded first.
    if configured && state.status == ConnectionStatus::Starting {
        return Err(not_ready(&state));
    }
    give_up(services, &alias, configured);
    let why = match &state.error {
        Some(why) => why.clone(),
        None => format!("no answer within {} s", CONNECTING.as_secs()),
    };
    let hint = match configured {
        true => "check its lines in the configuration, and see: llm :mcp list",
        false => "check the address; a server with a token goes into the configuration",
    };
    Err(Error::runtime(format!("cannot connect to {alias} ({target}): {why}")).hint(hint))
}

fn give_up(services: &SharedServices, alias: &str, configured: bool) {
    if !configured {
        // It may be gone already.
        let _ = services.mcp.disconnect(alias);
    }
}
