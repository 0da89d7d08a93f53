//! Starts the configured MCP servers with variables from the shell that first uses them: tokens, and the environment of
//! stdio servers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use super::SharedServices;
use super::client_handle::{ClientHandle, ClientVariables};
use super::key_commands::KeyCommands;
use crate::config::mcp::{ServerSettings, ServerTransport, TokenSource, variable_reference};
use crate::config::{Config, key};
use crate::error::{Error, Result};
use crate::mcp::{ConnectionStatus, ServerCredentials};
use crate::secret::Secret;
use crate::session::lock;

/// Variables of the shell's environment that every stdio server gets, in addition to those in its `env` table.
const BASE_ENVIRONMENT: &[&str] = &[
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ",
    "USER",
];

/// Servers that another shell may be able to start, by alias: a variable was unset or its token was rejected.
pub type MissingEnvMap = Mutex<BTreeMap<String, MissingEnv>>;

/// The last start of such a server.
#[derive(Debug)]
pub struct MissingEnv {
    server: ServerSettings,
    /// A required variable was unset in the shell that used the server last.
    variable: bool,
    /// Values of `auth_env` used so far. A rejected token is not tried again.
    tokens: Vec<Secret>,
}

/// Servers that a request should start, and the variables of the client's environment that they need.
#[derive(Debug, Default)]
pub struct PendingStart {
    servers: Vec<ServerSettings>,
    variables: ClientVariables,
}

/// Returns the configured servers that should start, with their variables from the client's environment: servers that are
/// new or changed, that lacked a variable, or that rejected a token.
///
/// # Errors
/// The client has hung up.
pub async fn collect(
    services: &SharedServices,
    client: &ClientHandle,
    config: &Config,
) -> Result<PendingStart> {
    let mut servers = services.mcp.pending_start(&config.mcp.servers);
    let more = lacking(services, config);
    servers.extend(
        more.into_iter()
            .filter(|s| !servers.contains(s))
            .collect::<Vec<_>>(),
    );
    if servers.is_empty() || client.is_read_only {
        return Ok(PendingStart::default());
    }
    let names: BTreeSet<String> = servers.iter().flat_map(needs).collect();
    let variables = match names.is_empty() {
        true => ClientVariables::new(),
        false => client.variables(names.into_iter().collect()).await?,
    };
    Ok(PendingStart { servers, variables })
}

/// Starts the collected servers in the background, unless another request has started them meanwhile.
pub fn refresh(services: &SharedServices, pending: PendingStart, config: &Config) {
    let PendingStart { servers, variables } = pending;
    if servers.is_empty() {
        return;
    }
    let wanted = services.mcp.pending_start(&config.mcp.servers);
    let lacking = lacking(services, config);
    for server in servers {
        let wanted = wanted.contains(&server);
        if (wanted || lacking.contains(&server))
            && !would_fail_again(services, &server, wanted, &variables)
        {
            start(services, server, true, &variables);
        }
    }
}

/// Collects the servers that should start, and starts them.
///
/// # Errors
/// The client has hung up.
pub async fn refresh_for(
    services: &SharedServices,
    client: &ClientHandle,
    config: &Config,
) -> Result<()> {
    refresh(services, collect(services, client, config).await?, config);
    Ok(())
}

/// Returns the servers that failed because a variable was unset, or that rejected the token in it.
fn lacking(services: &SharedServices, config: &Config) -> Vec<ServerSettings> {
    let mut lacking = lock(&services.missing_env);
    if lacking.is_empty() {
        return Vec::new();
    }
    lacking.retain(|alias, lack| config.mcp.servers.get(alias) == Some(&lack.server));
    let states = services.mcp.states();
    let lacks = |lack: &&MissingEnv| {
        let status = match lack.variable {
            true => ConnectionStatus::Failed,
            false => ConnectionStatus::LoginRequired,
        };
        let mut of_it = states.iter().filter(|s| s.alias == lack.server.alias);
        of_it.any(|s| s.status == status)
    };
    let lacking = lacking.values().filter(lacks);
    lacking.map(|lack| lack.server.clone()).collect()
}

/// Returns whether a start would fail as the last one did. The user has seen that failure and must not get it with every
/// prompt.
fn would_fail_again(
    services: &SharedServices,
    server: &ServerSettings,
    wanted: bool,
    variables: &ClientVariables,
) -> bool {
    let lacking = lock(&services.missing_env);
    let Some(lack) = lacking.get(&server.alias).filter(|l| l.server == *server) else {
        return false;
    };
    let refused = || token(server, variables).is_some_and(|t| lack.tokens.contains(&t));
    !missing(server, variables).is_empty() || !wanted && !lack.variable && refused()
}

/// Starts one server at the user's request, with the variables of this shell.
///
/// # Errors
/// The client has hung up.
pub async fn start_now(
    services: &SharedServices,
    client: &ClientHandle,
    server: ServerSettings,
    configured: bool,
) -> Result<()> {
    let names: Vec<String> = needs(&server).collect();
    let variables = match names.is_empty() {
        true => ClientVariables::new(),
        false => client.variables(names).await?,
    };
    start(services, server, configured, &variables);
    Ok(())
}

fn start(
    services: &SharedServices,
    server: ServerSettings,
    configured: bool,
    variables: &ClientVariables,
) {
    note_lack(services, &server, variables);
    let keys = services.models.keys().clone();
    // A restart: the cached token may be the reason for the failure.
    if let Some(command) = auth_cmd(&server)
        && let Some(known) = keys.known(command)
        && services
            .mcp
            .states()
            .iter()
            .any(|s| s.alias == server.alias)
    {
        keys.forget(command, &known);
    }
    let credentials = credentials(&server, variables, keys);
    services.mcp.start(server, configured, credentials);
}

/// Records which variable is unset and which token is used, for a later start from another shell.
fn note_lack(services: &SharedServices, server: &ServerSettings, variables: &ClientVariables) {
    let mut lacking = lock(&services.missing_env);
    let before = lacking.remove(&server.alias);
    let before = before.filter(|lack| lack.server == *server);
    let mut tokens = before.map(|lack| lack.tokens).unwrap_or_default();
    let token = token(server, variables);
    tokens.extend(
        token
            .filter(|t| !tokens.contains(t))
            .into_iter()
            .collect::<Vec<_>>(),
    );
    let lack = MissingEnv {
        server: server.clone(),
        variable: !missing(server, variables).is_empty(),
        tokens,
    };
    if lack.variable || !lack.tokens.is_empty() {
        lacking.insert(server.alias.clone(), lack);
    }
}

/// Returns the value of `auth_env` in the client's shell.
fn token(server: &ServerSettings, variables: &ClientVariables) -> Option<Secret> {
    match &server.transport {
        ServerTransport::Http {
            auth: TokenSource::Env(name),
            ..
        } => get(variables, name).map(Secret::new),
        _ => None,
    }
}

/// Returns the names of the variables to request for a server. Those of the base environment may be unset.
fn needs(server: &ServerSettings) -> impl Iterator<Item = String> {
    let base = match &server.transport {
        ServerTransport::Http { .. } => &[],
        ServerTransport::Stdio { .. } => BASE_ENVIRONMENT,
    };
    let base = base.iter().map(|name| (*name).to_string());
    base.chain(server.variables())
}

fn missing(server: &ServerSettings, variables: &ClientVariables) -> Vec<String> {
    let mut names = server.variables();
    names.retain(|name| get(variables, name).is_none());
    names.sort();
    names.dedup();
    names
}

/// Returns the value of a variable. An empty value means an unset variable, see [`ClientVariables`].
fn get<'v>(variables: &'v ClientVariables, name: &str) -> Option<&'v str> {
    let value = variables.get(name)?.expose();
    (!value.is_empty()).then_some(value)
}

fn lacks(missing: &[String]) -> String {
    match missing {
        [one] => format!("needs ${one}, which is not set in this shell"),
        all => format!(
            "needs ${}, which are not set in this shell",
            all.join(", $")
        ),
    }
}

fn auth_cmd(server: &ServerSettings) -> Option<&str> {
    match &server.transport {
        ServerTransport::Http {
            auth: TokenSource::Cmd(command),
            ..
        } => Some(command),
        _ => None,
    }
}

/// Returns the credentials of a server. The future waits only if a command has to print the token.
fn credentials(
    server: &ServerSettings,
    variables: &ClientVariables,
    keys: KeyCommands,
) -> impl Future<Output = Result<ServerCredentials>> + Send + use<> {
    let alias = server.alias.clone();
    let auth = match &server.transport {
        ServerTransport::Http { auth, .. } => auth.clone(),
        ServerTransport::Stdio { .. } => TokenSource::None,
    };
    let from_variable = match &auth {
        TokenSource::Env(name) => get(variables, name).map(Secret::new),
        _ => None,
    };
    let env = environment(server, variables);
    let missing = missing(server, variables);
    async move {
        if !missing.is_empty() {
            return Err(Error::config(lacks(&missing)));
        }
        let bearer = match auth {
            TokenSource::None => None,
            TokenSource::Token(token) => Some(token),
            TokenSource::Env(name) => {
                let value = from_variable.as_ref().map_or("", Secret::expose);
                let token = key::checked(value.as_bytes())
                    .map_err(|why| Error::config(format!("the variable {name} {why}")))?;
                Some(Secret::new(token))
            }
            TokenSource::Cmd(command) => {
                let whose = format!("the auth_cmd of server {alias}");
                let read = |output: &[u8]| {
                    key::checked(output)
                        .map_err(|why| Error::config(format!("the output of {whose} {why}")))
                };
                Some(keys.get(&command, &whose, read).await?)
            }
        };
        Ok(ServerCredentials { bearer, env })
    }
}

/// Returns the whole environment of a stdio server.
fn environment(server: &ServerSettings, variables: &ClientVariables) -> Vec<(String, Secret)> {
    let ServerTransport::Stdio { env, .. } = &server.transport else {
        return Vec::new();
    };
    let base = BASE_ENVIRONMENT
        .iter()
        .filter_map(|name| Some(((*name).to_string(), get(variables, name)?)));
    let listed = env.iter().filter_map(|(name, value)| {
        let value = match variable_reference(value) {
            Some(of_shell) => get(variables, of_shell)?,
            None => value,
        };
        Some((name.clone(), value))
    });
    // Collected into a map, so that the `env` table overrides the base.
    let all: BTreeMap<String, &str> = base.chain(listed).collect();
    all.into_iter()
        .map(|(name, value)| (name, Secret::new(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stdio(env: &[(&str, &str)]) -> ServerSettings {
        let own = |(n, v): &(&str, &str)| ((*n).to_string(), (*v).to_string());
        ServerSettings {
            transport: ServerTransport::Stdio {
                command: "x".into(),
                args: Vec::new(),
                env: env.iter().map(own).collect(),
            },
            ..ServerSettings::with_url("s", "")
        }
    }

    fn http(auth: TokenSource) -> ServerSettings {
        ServerSettings {
            transport: ServerTransport::Http {
                url: "https://a.example".into(),
                auth,
                headers: Vec::new(),
            },
            ..ServerSettings::with_url("s", "")
        }
    }

    fn set(pairs: &[(&str, &str)]) -> ClientVariables {
        let own = |(n, v): &(&str, &str)| ((*n).to_string(), Secret::new(*v));
        pairs.iter().map(own).collect()
    }

    #[test]
    fn a_stdio_server_gets_the_base_environment_and_its_env_table() {
        let server = stdio(&[("A", "literal"), ("B", "$OF_SHELL"), ("TERM", "dumb")]);
        let names: Vec<String> = needs(&server).collect();
        assert!(names.contains(&"PATH".to_string()) && names.contains(&"OF_SHELL".to_string()));
        assert!(!names.contains(&"A".to_string()));
        let shell = set(&[
            ("PATH", "/bin"),
            ("TERM", "xterm"),
            ("OF_SHELL", "v"),
            ("SECRET", "not listed"),
            ("LANG", ""),
        ]);
        let env: Vec<(String, String)> = environment(&server, &shell)
            .into_iter()
            .map(|(n, v)| (n, v.expose().to_string()))
            .collect();
        let own = |n: &str, v: &str| (n.to_string(), v.to_string());
        assert_eq!(
            env,
            [
                own("A", "literal"),
                own("B", "v"),
                own("PATH", "/bin"),
                own("TERM", "dumb")
            ]
        );
    }

    #[test]
    fn unset_variables_are_named() {
        let server = stdio(&[("B", "$ONE"), ("C", "$TWO"), ("D", "$ONE")]);
        assert_eq!(missing(&server, &set(&[("TWO", "x")])), ["ONE"]);
        assert_eq!(missing(&server, &set(&[("ONE", "")])), ["ONE", "TWO"]);
        assert_eq!(
            lacks(&missing(&server, &set(&[]))),
            "needs $ONE, $TWO, which are not set in this shell"
        );
        let server = http(TokenSource::Env("TOKEN".into()));
        assert_eq!(
            lacks(&missing(&server, &set(&[]))),
            "needs $TOKEN, which is not set in this shell"
        );
    }

    #[tokio::test]
    async fn a_token_comes_from_the_configured_source() {
        let bearer = async |auth: TokenSource, variables: &[(&str, &str)]| {
            let credentials = credentials(&http(auth), &set(variables), KeyCommands::default());
            let bearer = credentials.await.map(|c| c.bearer);
            bearer.map(|b| b.map(|s| s.expose().to_string()))
        };
        assert_eq!(bearer(TokenSource::None, &[]).await.unwrap(), None);
        let token = TokenSource::Token(Secret::new("t"));
        assert_eq!(bearer(token, &[]).await.unwrap().unwrap(), "t");
        let env = || TokenSource::Env("T".into());
        assert_eq!(bearer(env(), &[("T", " e ")]).await.unwrap().unwrap(), "e");
        let error = bearer(env(), &[("T", "s3cret s3cret")]).await.unwrap_err();
        assert_eq!(
            error.message,
            "the variable T is not a key: it has spaces, line breaks or other unusual characters"
        );
        let cmd = |text: &str| TokenSource::Cmd(text.into());
        assert_eq!(bearer(cmd("printf c"), &[]).await.unwrap().unwrap(), "c");
        let error = bearer(env(), &[]).await.unwrap_err();
        assert_eq!(error.message, "needs $T, which is not set in this shell");
        let error = bearer(cmd("exit 3"), &[]).await.unwrap_err();
        assert!(
            error.message.starts_with("the auth_cmd of server s failed"),
            "{error}"
        );
        let error = bearer(cmd("printf 's3cret s3cret'"), &[])
            .await
            .unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}
