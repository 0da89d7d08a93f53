//! `aish-helper serve` and `aish-helper web`.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::args::{ServeArgs, ServeCommand, TokenCommand, WebArgs};
use super::{print, print_json, print_wrapped};
use crate::api;
use crate::client::config_question::waiting_settings;
use crate::client::connect::{self, ExistingDaemon};
use crate::client::output::print_notice;
use crate::client::pairing_question;
use crate::error::{Error, ErrorContext, ErrorKind, Result};
use crate::paths::{self, Paths};
use crate::protocol::{Request, ServerReply, ServerRequest, ServerStatus};

/// Starts, stops or describes the HTTP server of the daemon.
///
/// # Errors
/// The daemon cannot be reached, or the server cannot be started.
pub fn serve(paths: &Paths, args: ServeArgs) -> Result<()> {
    let ServeArgs {
        command,
        hostname,
        port,
    } = args;
    match command {
        None => {
            let reply = request(paths, ServerRequest::Start { hostname, port });
            let waiting = waiting_settings(paths, "server");
            let reply = reply.map_err(|e| match &waiting {
                Some(waiting) => Error {
                    message: format!("{}; {waiting}", e.message),
                    ..e
                },
                None => e,
            })?;
            let status = reply.status.ok_or_else(stopped)?;
            let waiting = waiting.map_or(String::new(), |line| {
                format!("{line}, then start the server again\n")
            });
            print(&format!(
                "{}{waiting}it runs until: aish-helper serve stop\n",
                shown(&status)
            ))
        }
        Some(ServeCommand::Stop) => {
            let has_stopped = request(paths, ServerRequest::Stop)?.has_stopped;
            print(match has_stopped {
                true => "the HTTP server has stopped\n",
                false => "the HTTP server is not running\n",
            })
        }
        Some(ServeCommand::Unpair) => {
            let unpaired = request(paths, ServerRequest::Unpair)?.unpaired;
            print(&match unpaired {
                0 => "no browser was paired\n".to_owned(),
                count => {
                    format!("unpaired browsers, which can no longer answer questions: {count}\n")
                }
            })
        }
        Some(ServeCommand::Status { json }) => status(paths, json),
        Some(ServeCommand::Token(TokenCommand::Show)) => {
            let token = api::token(&api::token_file(paths))?;
            print(&format!("{token}\n"))
        }
        Some(ServeCommand::Token(TokenCommand::Rotate)) => {
            request(paths, ServerRequest::Rotate)?;
            print("the token was replaced; aish-helper serve token show prints the new one\n")
        }
    }
}

fn stopped() -> Error {
    Error::runtime("the HTTP server has stopped").hint("see daemon.log in the state directory")
}

fn request(paths: &Paths, request: ServerRequest) -> Result<ServerReply> {
    connect::request(paths, &Request::Server(request))
}

fn status(paths: &Paths, json: bool) -> Result<()> {
    // Does not start a daemon.
    let found = connect::existing(paths, &Request::Server(ServerRequest::Status))?;
    let ServerReply {
        status, failure, ..
    } = match found {
        ExistingDaemon::Serves(mut connection) => connection.reply()?,
        ExistingDaemon::Leaves(_) | ExistingDaemon::Absent => ServerReply::default(),
    };
    if json {
        let status = serde_json::json!({
            "running": status.is_some(), "server": status, "failure": failure
        });
        return print_json(&status);
    }
    match (status, failure) {
        (Some(status), _) => print(&shown(&status)),
        (None, Some(failure)) => {
            print_wrapped(&format!("the HTTP server is not running: {failure}\n"))
        }
        (None, None) => print("the HTTP server is not running; start it: aish-helper serve\n"),
    }
}

fn shown(status: &ServerStatus) -> String {
    let page = status
        .url
        .as_ref()
        .map(|url| format!("page and API: {url}\n"));
    let paired = match status.paired_browsers {
        0 => String::new(),
        count => format!("paired browsers, which may answer questions: {count}\n"),
    };
    format!(
        "{}socket: {}\n{paired}",
        page.unwrap_or_default(),
        status.socket
    )
}

/// Opens the page in a browser.
///
/// # Errors
/// The server cannot be started, there is no such session, or the browser was not paired.
pub fn web(paths: &Paths, args: WebArgs) -> Result<()> {
    let session = args.session;
    let wanted = match args.approve {
        true => ServerRequest::Pair { session },
        false => ServerRequest::Ticket { session },
    };
    let reply = request(paths, wanted)?;
    let url = reply.ticket_url.ok_or_else(stopped)?;
    let page = reply
        .status
        .and_then(|status| status.url)
        .unwrap_or_default();
    match !args.print && open(paths, &url)? {
        true => print(&format!("opened {page} in the browser\n"))?,
        false => {
            print(&format!("{url}\n"))?;
            let opened = match args.print {
                true => "open the address in a browser",
                false => "no browser could be opened: open the address in one",
            };
            let waits = match args.approve {
                true => "; waiting for a browser to open it",
                false => "",
            };
            print_notice(&format!("{opened}; it works once, and for a minute{waits}"));
        }
    }
    match args.approve {
        true => pair(paths, &page, &reply.pairing.ok_or_else(stopped)?),
        false => Ok(()),
    }
}

/// Pairs the browser that opens the page, if it shows the same code as this terminal.
fn pair(paths: &Paths, page: &str, handle: &str) -> Result<()> {
    let not_paired = |message: &str| {
        Error::new(ErrorKind::Approval, message).hint("start again: aish-helper web --approve")
    };
    let handle = handle.to_owned();
    let waited = ServerRequest::PairingCode {
        handle: handle.clone(),
    };
    let Some(code) = request(paths, waited)?.pairing_code else {
        return Err(not_paired("no browser has opened the page within a minute"));
    };
    let answer = pairing_question::ask(page, &code);
    let accept = matches!(answer, Ok(true));
    request(paths, ServerRequest::DecidePairing { handle, accept })?;
    match answer? {
        true => print("the browser is paired; aish-helper serve unpair ends the pairing\n"),
        false => Err(not_paired("the browser is not paired")),
    }
}

/// Opens an address with a ticket in the browser. The ticket must not be an argument, which other users can see: the browser
/// gets a file that only the user can read, and that leads to it. Returns false where no browser can be opened.
fn open(paths: &Paths, url: &str) -> Result<bool> {
    let Some(opener) = opener() else {
        return Ok(false);
    };
    let file = paths.run.join("web.html");
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
         <meta http-equiv=\"refresh\" content=\"0;url={url}\"><title>aish</title>"
    );
    paths::replace_unsynced(&file, page.as_bytes())
        .context(|| format!("cannot write {}", file.display()))?;
    let opened = Command::new(opener)
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    Ok(opened.is_ok_and(|status| status.success()))
}

/// Returns the program that opens a file in the browser.
fn opener() -> Option<PathBuf> {
    if cfg!(target_os = "macos") {
        return paths::on_path("open").into_iter().next();
    }
    let has_display = ["DISPLAY", "WAYLAND_DISPLAY"];
    let has_display = has_display
        .iter()
        .any(|name| paths::variable(name).is_some());
    has_display
        .then(|| paths::on_path("xdg-open").into_iter().next())
        .flatten()
}
