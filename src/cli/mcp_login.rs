//! `aish-helper mcp login ALIAS` and `mcp logout ALIAS`. The browser's answer comes back to a listener on
//! this machine that lives as long as the login.

use std::io::IsTerminal;
use std::net::Ipv4Addr;
use std::process::Stdio;
use std::time::Duration;

use reqwest::Url;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::mcp::count;
use super::print;
use crate::client::connect::{self, Existing};
use crate::client::signals::Signals;
use crate::config::mcp::{Auth, Server, Transport};
use crate::config::{self, Overrides, env_overrides};
use crate::error::{Context, Error, Kind, Result};
use crate::mcp::auth::{Identity, Login, Place, Tokens, signs};
use crate::paths::{self, Paths};
use crate::protocol::Request;
use crate::protocol::tools::{McpRequest, ServerInfo};
use crate::safety::text::one_line;

/// How long a person may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// How long a browser may take to say what it wants.
const REQUEST: Duration = Duration::from_secs(10);

/// The most that a browser may say; an answer is some hundred bytes.
const MAX_BYTES: usize = 16 << 10;

/// Where on this machine the browser is sent.
const PATH: &str = "/callback";

/// Logs in to a server: the person does so in a browser, and the tokens are kept.
///
/// # Errors
/// There is no such server, it wants no login, or the login fails; [`Kind::Interrupted`] on Ctrl-C.
pub fn run(paths: &Paths, alias: &str) -> Result<()> {
    let url = server(paths, alias)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context(|| "cannot start the runtime".into())?;
    let signals = Signals::catch()?;
    let result = runtime.block_on(async {
        tokio::select! {
            biased;
            ended = ended(&signals) => Err(match ended {
                Ok(()) => Error::new(Kind::Interrupted, "interrupted; not logged in"),
                Err(e) => e,
            }),
            result = login(paths, alias, &url) => result,
        }
    });
    // Whatever waits for a name or a lock yet is not waited for.
    runtime.shutdown_background();
    result?;
    // What follows ends at once on Ctrl-C.
    drop(signals);
    print(&format!("logged in to {alias}\n"))?;
    reconnect(paths, alias)
}

/// Waits for Ctrl-C and its like.
async fn ended(signals: &Signals) -> Result<()> {
    let set_up = || "cannot set up signals".into();
    let end = signals.end.try_clone().context(set_up)?;
    let end = tokio::net::UnixStream::from_std(end).context(set_up)?;
    end.readable().await.context(set_up)
}

/// Forgets the tokens of a server.
///
/// # Errors
/// There is no such server, or the file cannot be removed.
pub fn logout(paths: &Paths, alias: &str) -> Result<()> {
    let url = server(paths, alias)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .context(|| "cannot start the runtime".into())?;
    let tokens = Tokens::new(paths.state.clone());
    if !runtime.block_on(tokens.forget(url.as_str()))? {
        return print(&format!("there was no login to {alias}\n"));
    }
    print(&format!("logged out of {alias}\n"))?;
    reconnect(paths, alias)
}

/// The URL of a server to which one can log in.
fn server(paths: &Paths, alias: &str) -> Result<Url> {
    let config = config::load(paths, &Overrides::from_map(&env_overrides()?)?)?;
    let target = match config.mcp.servers.get(alias) {
        Some(server) => configured(server)?,
        None => by_hand(paths, alias)?.ok_or_else(|| {
            Error::usage(format!("no MCP server is called {alias}"))
                .hint("see them with: aish-helper mcp list")
        })?,
    };
    Url::parse(&target).map_err(|_| Error::config(format!("{alias}: {target} is no web address")))
}

fn configured(server: &Server) -> Result<String> {
    let alias = &server.alias;
    let Transport::Http { url, auth, headers } = &server.transport else {
        return Err(Error::usage(format!(
            "{alias} is a command, and there is no login to one"
        ))
        .hint("give it what it needs in its env"));
    };
    let set = match auth {
        Auth::Token(_) => "auth_token",
        Auth::Env(_) => "auth_env",
        Auth::Cmd(_) => "auth_cmd",
        Auth::None => match headers.iter().find(|(n, _)| signs(n)) {
            Some((name, _)) => name,
            None => return Ok(url.clone()),
        },
    };
    Err(
        Error::config(format!("{alias} has {set}, which goes before a login"))
            .hint(format!("take {set} out of the configuration, then log in")),
    )
}

/// A server that the running daemon was told of, which is in no file.
fn by_hand(paths: &Paths, alias: &str) -> Result<Option<String>> {
    let servers: Vec<ServerInfo> =
        connect::glance(paths, &mcp(McpRequest::List)?)?.unwrap_or_default();
    let server = servers
        .into_iter()
        .find(|s| s.alias == alias && !s.configured);
    // The daemon tells no values of a query. Nor do tokens know of it: they are the path's.
    let place = |target: String| target.split('?').next().map(str::to_string);
    Ok(server.and_then(|s| place(s.target)))
}

fn mcp(request: McpRequest) -> Result<Request> {
    Ok(Request::Mcp {
        request,
        cwd: super::call::cwd(),
        overrides: env_overrides()?,
    })
}

async fn login(paths: &Paths, alias: &str, url: &Url) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .context(|| "cannot listen for the browser".into())?;
    let port = listener
        .local_addr()
        .context(|| "cannot listen for the browser".into())?
        .port();
    let redirect = format!("http://127.0.0.1:{port}{PATH}");
    let login = Login {
        tokens: &Tokens::new(paths.state.clone()),
        server: url.clone(),
        from: Place::named(url),
        challenge: None,
        identity: Identity::default(),
        redirect: &redirect,
    };
    login
        .run(async |page| {
            print(&format!(
                "To log in to {alias}, open this page in a browser on this machine:\n\n{page}\n\n\
                 waiting for it; Ctrl-C ends\n"
            ))?;
            open(&page);
            let state = page.query_pairs().find(|(name, _)| name == "state");
            let state = state.map(|(_, value)| value.into_owned());
            answer(&listener, &redirect, &state.unwrap_or_default()).await
        })
        .await
}

/// Tries to open the page for the person, who has its address on the terminal anyway.
fn open(page: &Url) {
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
        // Where it fails, the person opens the page.
        let _ = std::process::Command::new(opener)
            .arg(page.as_str())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
    }
}

/// Waits for the browser's answer to the question of this state. Every connection is served by itself:
/// browsers open some that they do not use.
async fn answer(listener: &TcpListener, redirect: &str, state: &str) -> Result<Url> {
    let (send, mut answers) = mpsc::channel(1);
    let late = tokio::time::sleep(PATIENCE);
    tokio::pin!(late);
    // Ends with this function, and with it all that is still open.
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            Some(answer) = answers.recv() => return Ok(answer),
            () = &mut late => {
                return Err(Error::runtime("nobody has logged in within 5 minutes")
                    .hint("run it again when you are at the browser"));
            }
            accepted = listener.accept() => {
                let (stream, _) = accepted.context(|| "cannot listen for the browser".into())?;
                let (redirect, state) = (redirect.to_owned(), state.to_owned());
                let send = send.clone();
                open.spawn(async move {
                    let served = serve(stream, &redirect, &state);
                    if let Ok(Some(answer)) = tokio::time::timeout(REQUEST, served).await {
                        // Another may have been first.
                        let _ = send.try_send(answer);
                    }
                });
            }
            Some(_) = open.join_next() => {}
        }
    }
}

/// Serves one request; the URL that was asked for, if it is the answer.
async fn serve(mut stream: TcpStream, redirect: &str, state: &str) -> Option<Url> {
    let mut head = Vec::new();
    let target = loop {
        if stream.read_buf(&mut head).await.ok()? == 0 || head.len() > MAX_BYTES {
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
    let url = url.filter(|url| url.path() == PATH);
    let ours = url
        .as_ref()
        .is_some_and(|url| url.query_pairs().any(|(n, v)| n == "state" && v == state));
    let (status, page) = if ours {
        (
            "200 OK",
            "aish has its answer. You can close this page and go back to the terminal.\n",
        )
    } else if url.is_some() {
        (
            "400 Bad Request",
            "This is no answer to the login that aish waits for. Use the page that it shows.\n",
        )
    } else {
        ("404 Not Found", "There is nothing here.\n")
    };
    let response = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\nreferrer-policy: no-referrer\r\nx-content-type-options: nosniff\r\n\
         connection: close\r\n\r\n{page}",
        page.len()
    );
    // A browser that does not wait for the page has brought its answer all the same.
    let _ = stream.write_all(response.as_bytes()).await;
    let _ = stream.shutdown().await;
    url.filter(|_| ours)
}

/// Tells a running daemon, and how the server is then. Where none runs there is nothing to tell, and where
/// it fails the login still stands.
fn reconnect(paths: &Paths, alias: &str) -> Result<()> {
    let request = mcp(McpRequest::Reconnect {
        alias: alias.to_owned(),
    })?;
    // A look, which is answered at once, does not wait until the server is up.
    let replied = match connect::existing(paths, &mcp(McpRequest::List)?) {
        Ok(Existing::Serves(_)) => connect::request::<ServerInfo>(paths, &request),
        Ok(Existing::Leaves(_) | Existing::Absent) => return Ok(()),
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
