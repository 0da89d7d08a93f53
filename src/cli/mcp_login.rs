//! `aish-helper mcp login ALIAS` and `mcp logout ALIAS`. The browser's redirect arrives at a loopback listener
//! that exists only during the login.

use std::io::IsTerminal;
use std::net::Ipv4Addr;
use std::process::Stdio;
use std::time::Duration;

use reqwest::Url;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::print;
use super::table::count;
use crate::client::config_question;
use crate::client::connect::{self, ExistingDaemon};
use crate::client::signals::SignalPipes;
use crate::config::mcp::{ServerSettings, ServerTransport, TokenSource};
use crate::config::{self, Config, ConfigOverrides, env_overrides};
use crate::error::{Error, ErrorContext, ErrorKind, Result};
use crate::mcp::auth::{
    ClientIdentity, NetworkZone, OAuthLogin, TokenStore, is_authorization_header,
};
use crate::paths::{self, Paths};
use crate::protocol::Request;
use crate::protocol::tools::{McpRequest, ServerInfo};
use crate::safety::text::one_line;

/// Maximum time for the user to finish the login in the browser.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(300);

/// Maximum time for one browser connection to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of a request head; a redirect takes a few hundred bytes.
const MAX_REQUEST_BYTES: usize = 16 << 10;

/// Path of the redirect URI.
const CALLBACK_PATH: &str = "/callback";

/// Logs in to a server in the browser and stores the tokens.
///
/// # Errors
/// The server is unknown or does not use a login, or the login fails; [`ErrorKind::Interrupted`] on Ctrl-C.
pub fn log_in(paths: &Paths, alias: &str) -> Result<()> {
    // Before anything is sent to an address that no person has seen.
    let overrides = ConfigOverrides::from_map(&env_overrides()?)?;
    let config = config_question::confirmed(paths, &overrides)?;
    let url = login_url(paths, &config, alias)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context(|| "cannot start the runtime".into())?;
    let signals = SignalPipes::catch()?;
    let result = runtime.block_on(async {
        tokio::select! {
            biased;
            interrupted = wait_for_interrupt(&signals) => Err(match interrupted {
                Ok(()) => Error::new(ErrorKind::Interrupted, "interrupted; not logged in"),
                Err(e) => e,
            }),
            result = authorize(paths, alias, &url) => result,
        }
    });
    // Do not wait for a name lookup or a lock that is still pending.
    runtime.shutdown_background();
    result?;
    // From here on Ctrl-C ends the process immediately.
    drop(signals);
    print(&format!("logged in to {alias}\n"))?;
    reconnect_server(paths, alias)
}

/// Waits for Ctrl-C, hang-up or termination.
async fn wait_for_interrupt(signals: &SignalPipes) -> Result<()> {
    let set_up = || "cannot set up signals".into();
    let end = signals.end.try_clone().context(set_up)?;
    let end = tokio::net::UnixStream::from_std(end).context(set_up)?;
    end.readable().await.context(set_up)
}

/// Deletes the stored tokens of a server.
///
/// # Errors
/// The server is unknown, or the token file cannot be removed.
pub fn log_out(paths: &Paths, alias: &str) -> Result<()> {
    let config = config::load(paths, &ConfigOverrides::from_map(&env_overrides()?)?)?;
    let url = login_url(paths, &config, alias)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .context(|| "cannot start the runtime".into())?;
    let tokens = TokenStore::new(paths.state.clone());
    if !runtime.block_on(tokens.forget(url.as_str()))? {
        return print(&format!("not logged in to {alias}\n"));
    }
    print(&format!("logged out of {alias}\n"))?;
    reconnect_server(paths, alias)
}

/// Returns the URL of a server that supports a login.
fn login_url(paths: &Paths, config: &Config, alias: &str) -> Result<Url> {
    let target = match config.mcp.servers.get(alias) {
        Some(server) => configured_url(server)?,
        None => unconfigured_url(paths, alias)?.ok_or_else(|| {
            Error::usage(format!("no MCP server is called {alias}"))
                .hint("list the servers with: aish-helper mcp list")
        })?,
    };
    Url::parse(&target)
        .map_err(|_| Error::config(format!("{alias}: {target} is not a web address")))
}

fn configured_url(server: &ServerSettings) -> Result<String> {
    let alias = &server.alias;
    let ServerTransport::Http { url, auth, headers } = &server.transport else {
        return Err(Error::usage(format!(
            "{alias} is a program, not an HTTP server, so it has no login"
        ))
        .hint("pass it credentials through its env table"));
    };
    let set = match auth {
        TokenSource::Token(_) => "auth_token",
        TokenSource::Env(_) => "auth_env",
        TokenSource::Cmd(_) => "auth_cmd",
        TokenSource::None => match headers.iter().find(|(n, _)| is_authorization_header(n)) {
            Some((name, _)) => name,
            None => return Ok(url.clone()),
        },
    };
    Err(Error::config(format!(
        "{alias} has {set}, which takes precedence over a login"
    ))
    .hint(format!("remove {set} from the configuration, then log in")))
}

/// Returns the URL of a server that was connected at run time and is not in the configuration.
fn unconfigured_url(paths: &Paths, alias: &str) -> Result<Option<String>> {
    let servers: Vec<ServerInfo> =
        connect::try_query(paths, &mcp_request(McpRequest::List)?)?.unwrap_or_default();
    let server = servers
        .into_iter()
        .find(|s| s.alias == alias && !s.configured);
    // The daemon masks query values, and tokens are stored per path.
    let without_query = |target: String| target.split('?').next().map(str::to_string);
    Ok(server.and_then(|s| without_query(s.target)))
}

fn mcp_request(request: McpRequest) -> Result<Request> {
    Ok(Request::Mcp {
        request,
        cwd: super::call::current_directory(),
        overrides: env_overrides()?,
    })
}

async fn authorize(paths: &Paths, alias: &str, url: &Url) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .context(|| "cannot listen for the browser".into())?;
    let port = listener
        .local_addr()
        .context(|| "cannot listen for the browser".into())?
        .port();
    let redirect = format!("http://127.0.0.1:{port}{CALLBACK_PATH}");
    let login = OAuthLogin {
        tokens: &TokenStore::new(paths.state.clone()),
        server: url.clone(),
        from: NetworkZone::named(url),
        challenge: None,
        identity: ClientIdentity::default(),
        redirect: &redirect,
    };
    login
        .run(async |page| {
            print(&format!(
                "To log in to {alias}, open this page in a browser on this machine:\n\n{page}\n\n\
                 waiting for the browser; Ctrl-C cancels\n"
            ))?;
            open_browser(&page);
            let state = page.query_pairs().find(|(name, _)| name == "state");
            let state = state.map(|(_, value)| value.into_owned());
            receive_redirect(&listener, &redirect, &state.unwrap_or_default()).await
        })
        .await
}

/// Tries to open the page in a browser; its address is on the terminal in any case.
fn open_browser(page: &Url) {
    let display = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| paths::variable(name).is_some());
    let opener = match cfg!(target_os = "macos") {
        true => "open",
        false if display => "xdg-open",
        false => return,
    };
    if !std::io::stdout().is_terminal() {
        return;
    }
    if let Some(opener) = paths::on_path(opener).first() {
        // On failure the user opens the printed address.
        let _ = std::process::Command::new(opener)
            .arg(page.as_str())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
    }
}

/// Waits for the redirect that carries `state`. Connections are served concurrently, because browsers open
/// some that they never use.
async fn receive_redirect(listener: &TcpListener, redirect: &str, state: &str) -> Result<Url> {
    let (send, mut answers) = mpsc::channel(1);
    let expired = tokio::time::sleep(LOGIN_TIMEOUT);
    tokio::pin!(expired);
    // Dropped with this function, which closes the remaining connections.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(answer) = answers.recv() => return Ok(answer),
            () = &mut expired => {
                return Err(Error::runtime("the login was not finished within 5 minutes")
                    .hint("run the command again, then log in on the page that it prints"));
            }
            accepted = listener.accept() => {
                let (stream, _) = accepted.context(|| "cannot listen for the browser".into())?;
                let (redirect, state) = (redirect.to_owned(), state.to_owned());
                let send = send.clone();
                connections.spawn(async move {
                    let served = serve_request(stream, &redirect, &state);
                    if let Ok(Some(answer)) = tokio::time::timeout(REQUEST_TIMEOUT, served).await {
                        // The channel is full when another connection delivered the redirect first.
                        let _ = send.try_send(answer);
                    }
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Serves one request and returns its URL when it is the awaited redirect.
async fn serve_request(mut stream: TcpStream, redirect: &str, state: &str) -> Option<Url> {
    let mut head = Vec::new();
    let target = loop {
        if stream.read_buf(&mut head).await.ok()? == 0 || head.len() > MAX_REQUEST_BYTES {
            return None;
        }
        let mut headers = [httparse::EMPTY_HEADER; 100];
        let mut request = httparse::Request::new(&mut headers);
        if request.parse(&head).ok()?.is_complete() {
            break (request.method == Some("GET"))
                .then_some(request.path)
                .flatten()
                .map(str::to_owned);
        }
    };
    let url = Url::parse(redirect).ok()?;
    let url = target.and_then(|t| url.join(&t).ok());
    let url = url.filter(|url| url.path() == CALLBACK_PATH);
    let is_redirect = url
        .as_ref()
        .is_some_and(|url| url.query_pairs().any(|(n, v)| n == "state" && v == state));
    let (status, page) = if is_redirect {
        (
            "200 OK",
            "Login received. You can close this page and return to the terminal.\n",
        )
    } else if url.is_some() {
        (
            "400 Bad Request",
            "This request does not belong to the current login. Open the address that aish printed.\n",
        )
    } else {
        ("404 Not Found", "Not found.\n")
    };
    let response = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\nreferrer-policy: no-referrer\r\nx-content-type-options: nosniff\r\n\
         connection: close\r\n\r\n{page}",
        page.len()
    );
    // The redirect counts even if the browser does not read the page.
    let _ = stream.write_all(response.as_bytes()).await;
    let _ = stream.shutdown().await;
    url.filter(|_| is_redirect)
}

/// Reconnects the server in a running daemon and prints its status. The login is kept even if this fails; without
/// a daemon there is nothing to do.
fn reconnect_server(paths: &Paths, alias: &str) -> Result<()> {
    let request = mcp_request(McpRequest::Reconnect {
        alias: alias.to_owned(),
    })?;
    // The list is answered immediately, without waiting for the server to start.
    let replied = match connect::existing(paths, &mcp_request(McpRequest::List)?) {
        Ok(ExistingDaemon::Serves(_)) => connect::request::<ServerInfo>(paths, &request),
        Ok(ExistingDaemon::Leaves(_) | ExistingDaemon::Absent) => return Ok(()),
        Err(e) => Err(e),
    };
    let line = match replied {
        Ok(info) => match info.error {
            Some(error) => format!(
                "{alias}: {}: {}",
                info.status.as_str(),
                one_line(&error, 200)
            ),
            None => format!(
                "{alias}: {}, {}",
                info.status.as_str(),
                count(info.tools, "tool")
            ),
        },
        Err(e) => one_line(&e.message, 300),
    };
    print(&format!("{line}\n"))
}
