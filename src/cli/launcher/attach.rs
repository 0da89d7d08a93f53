//! `aish attach URL`: a zsh whose prompts another aish server answers.

use std::ffi::OsString;
use std::io::IsTerminal;

use super::daemon_start::DaemonStart;
use super::notice;
use super::shell::Shell;
use crate::cli::args::AttachServerArgs;
use crate::cli::print;
use crate::cli::server_token::ServerAccess;
use crate::config::SERVER_VARIABLE;
use crate::error::{Error, Result};
use crate::paths::{Paths, process_environment};

/// Checks the server and its token, and becomes the shell.
///
/// # Errors
/// The URL is not that of a server, the server refuses the token or does not answer, or there is no terminal.
pub(super) fn run(args: AttachServerArgs) -> Result<u8> {
    let paths = Paths::from_env()?;
    let access = ServerAccess::new(&paths, &args.url)?;
    let origin = access.origin();
    if args.token_stdin {
        access.take_token()?;
        print(&format!(
            "the token of {origin} is stored; a shell that asks this server: aish attach {origin}\n"
        ))?;
        return Ok(0);
    }
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        let message = "aish attach needs a terminal: stdin or stdout is something else";
        let hint = "to store only a token: aish attach --token-stdin URL";
        return Err(Error::usage(message).hint(hint));
    }
    let version = access.ready()?;
    let shell = Shell::find(false)?;
    DaemonStart::spawn().finish();
    let environment = process_environment().filter(|(name, _)| name != SERVER_VARIABLE);
    let server = (OsString::from(SERVER_VARIABLE), OsString::from(origin));
    let environment: Vec<_> = environment.chain([server]).collect();
    notice(&format!(
        "llm asks {origin} (aish {version}) in this shell; exit ends that"
    ));
    Err(shell.exec(Some(&environment)))
}
