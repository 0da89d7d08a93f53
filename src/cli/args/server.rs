//! `aish-helper serve` and `aish-helper web`.

use clap::{Args, Subcommand};

/// `aish-helper serve`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ServeArgs {
    /// What to do instead of starting the server
    #[command(subcommand)]
    pub command: Option<ServeCommand>,
    /// Listen on this address of this machine
    #[arg(long, value_name = "ADDRESS")]
    pub hostname: Option<String>,
    /// Listen on this port; 0 serves only the socket api.sock
    #[arg(long)]
    pub port: Option<u16>,
}

/// Commands about the HTTP server.
#[derive(Debug, Subcommand)]
pub enum ServeCommand {
    /// Stop the server
    Stop,
    /// Show where the server listens
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show or replace the token that clients send
    #[command(subcommand)]
    Token(TokenCommand),
    /// Unpair all browsers, so that they can no longer answer questions
    Unpair,
}

/// Commands about the token.
#[derive(Debug, Clone, Copy, Subcommand)]
pub enum TokenCommand {
    /// Print the token
    Show,
    /// Replace the token; open pages must be reopened, and all browsers are unpaired
    Rotate,
}

/// `aish-helper web`
#[derive(Debug, Args)]
pub struct WebArgs {
    /// Open this session, given by its id or a unique part of it
    #[arg(value_name = "SESSION")]
    pub session: Option<String>,
    /// Print the address instead of opening the browser; it can be used once, within a minute
    #[arg(long)]
    pub print: bool,
    /// Let the browser answer questions about tool calls, after you have compared a code; for 12 hours, or until the server stops
    #[arg(long)]
    pub approve: bool,
}
