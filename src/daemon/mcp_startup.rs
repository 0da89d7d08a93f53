//! Starts the configured MCP servers, with what they need of the shell that first uses them: variables that
//! hold tokens, and the environment of those that run here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use super::Daemon;
use super::client_link::{ClientHandle, ClientVariables};
use super::keys::KeyCommands;
use crate::config::mcp::{ServerSettings, ServerTransport, TokenSource, variable_reference};
use crate::config::{Config, key};
use crate::error::{Error, Result};
use crate::mcp::{ConnectionStatus, ServerCredentials};
use crate::secret::Secret;
use crate::session::lock;

/// What every program needs of the shell's environment; a server gets this and what its `env` lists.
const ENVIRONMENT: &[&str] = &[
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ",
    "USER",
];

/// Servers for which another shell may have what those that used them so far have not.
pub type MissingEnvMap = Mutex<BTreeMap<String, MissingEnv>>;

/// What such a server was started with.
#[derive(Debug)]
pub struct MissingEnv {
    server: ServerSettings,
    /// The shell that used it last has not set a variable that it needs.
    variable: bool,
    /// The values of `auth_env` that it was started with. One that was refused is not tried again.
    tokens: Vec<Secret>,
}

/// Servers that a request should start, and the variables of the client's environment that they need.
#[derive(Debug, Default)]
pub struct PendingStart {
    servers: Vec<ServerSettings>,
    variables: ClientVariables,
}

/// Collects what the configured servers that should start need of the client's environment: those that are new or have
/// changed, those that lacked a variable, and those that refused a token.
///
/// # Errors
/// The client has hung up.
pub async fn collect(
    daemon: &Daemon,
    client: &ClientHandle,
    config: &Config,
) -> Result<PendingStart> {
    let mut servers = daemon.mcp.pending_start(&config.mcp.servers);
    let more = lacking(daemon, config);
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
pub fn refresh(daemon: &Daemon, pending: PendingStart, config: &Config) {
    let PendingStart { servers, variables } = pending;
    if servers.is_empty() {
        return;
    }
    let wanted = daemon.mcp.pending_start(&config.mcp.servers);
    let lacking = lacking(daemon, config);
    for server in servers {
        let wanted = wanted.contains(&server);
        if (wanted || lacking.contains(&server)) && !in_vain(daemon, &server, wanted, &variables) {
            start(daemon, server, true, &variables);
        }
    }
}

/// Collects and starts at once.
///
/// # Errors
/// The client has hung up.
pub async fn refresh_for(daemon: &Daemon, client: &ClientHandle, config: &Config) -> Result<()> {
    refresh(daemon, collect(daemon, client, config).await?, config);
    Ok(())
}

/// The servers that have failed for want of a variable, and those that have refused the token in one.
fn lacking(daemon: &Daemon, config: &Config) -> Vec<ServerSettings> {
    let mut lacking = lock(&daemon.lacking);
    if lacking.is_empty() {
        return Vec::new();
    }
    lacking.retain(|alias, lack| config.mcp.servers.get(alias) == Some(&lack.server));
    let states = daemon.mcp.states();
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

/// Whether a start would end as the last one has: the person was told already, and would be with every prompt.
fn in_vain(
    daemon: &Daemon,
    server: &ServerSettings,
    wanted: bool,
    variables: &BTreeMap<String, String>,
) -> bool {
    let lacking = lock(&daemon.lacking);
    let Some(lack) = lacking.get(&server.alias).filter(|l| l.server == *server) else {
        return false;
    };
    let refused = || token(server, variables).is_some_and(|t| lack.tokens.contains(&t));
    !missing(server, variables).is_empty() || !wanted && !lack.variable && refused()
}

/// Starts one server by hand, with what this shell has for it.
///
/// # Errors
/// The client has gone.
pub async fn start_now(
    daemon: &Daemon,
    client: &ClientHandle,
    server: ServerSettings,
    configured: bool,
) -> Result<()> {
    let names: Vec<String> = needs(&server).collect();
    let variables = match names.is_empty() {
        true => BTreeMap::new(),
        false => client.variables(names).await?,
    };
    start(daemon, server, configured, &variables);
    Ok(())
}

fn start(
    daemon: &Daemon,
    server: ServerSettings,
    configured: bool,
    variables: &BTreeMap<String, String>,
) {
    note_lack(daemon, &server, variables);
    let keys = daemon.models.keys().clone();
    // It was started before: what its command has printed may be what has failed.
    if let Some(command) = auth_cmd(&server)
        && let Some(known) = keys.known(command)
        && daemon.mcp.states().iter().any(|s| s.alias == server.alias)
    {
        keys.forget(command, &known);
    }
    let credentials = credentials(&server, variables, keys);
    daemon.mcp.start(server, configured, credentials);
}

/// Notes what another shell may have in place of what a server is now started with.
fn note_lack(daemon: &Daemon, server: &ServerSettings, variables: &BTreeMap<String, String>) {
    let mut lacking = lock(&daemon.lacking);
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

/// The value of `auth_env` in the shell that asks.
fn token(server: &ServerSettings, variables: &BTreeMap<String, String>) -> Option<Secret> {
    match &server.transport {
        ServerTransport::Http {
            auth: TokenSource::Env(name),
            ..
        } => get(variables, name).map(Secret::new),
        _ => None,
    }
}

/// The names of the variables that a server needs; the base environment need not be set.
fn needs(server: &ServerSettings) -> impl Iterator<Item = String> {
    let base = match &server.transport {
        ServerTransport::Http { .. } => &[],
        ServerTransport::Stdio { .. } => ENVIRONMENT,
    };
    let base = base.iter().map(|name| (*name).to_string());
    base.chain(server.variables())
}

fn missing(server: &ServerSettings, variables: &BTreeMap<String, String>) -> Vec<String> {
    let mut names = server.variables();
    names.retain(|name| get(variables, name).is_none());
    names.sort();
    names.dedup();
    names
}

/// The value of a variable that the client has set: a name alone comes with an empty value.
fn get<'v>(variables: &'v BTreeMap<String, String>, name: &str) -> Option<&'v str> {
    let value = variables.get(name)?;
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

/// What a server gets: ready at once, but for a token that a command prints.
fn credentials(
    server: &ServerSettings,
    variables: &BTreeMap<String, String>,
    keys: KeyCommands,
) -> impl Future<Output = Result<ServerCredentials>> + Send + use<> {
    let alias = server.alias.clone();
    let auth = match &server.transport {
        ServerTransport::Http { auth, .. } => auth.clone(),
        ServerTransport::Stdio { .. } => TokenSource::None,
    };
    let from_variable = match &auth {
        TokenSource::Env(name) => get(variables, name).map(str::to_string),
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
                let value = from_variable.unwrap_or_default();
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

/// The whole environment of a server that runs here.
fn environment(
    server: &ServerSettings,
    variables: &BTreeMap<String, String>,
) -> Vec<(String, Secret)> {
    let ServerTransport::Stdio { env, .. } = &server.transport else {
        return Vec::new();
    };
    let base = ENVIRONMENT
        .iter()
        .filter_map(|name| Some(((*name).to_string(), get(variables, name)?)));
    let listed = env.iter().filter_map(|(name, value)| {
        let value = match variable_reference(value) {
            Some(of_shell) => get(variables, of_shell)?,
            None => value,
        };
        Some((name.clone(), value))
    });
    // In a map: what is listed wins over the base.
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

    fn set(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let own = |(n, v): &(&str, &str)| ((*n).to_string(), (*v).to_string());
        pairs.iter().map(own).collect()
    }

    #[test]
    fn a_child_gets_the_base_and_what_is_listed() {
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
    fn what_is_missing_is_named() {
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
    async fn a_token_comes_from_where_the_file_says() {
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
