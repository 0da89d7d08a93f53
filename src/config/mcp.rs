//! `[mcp]`: the servers whose tools a model may be offered, and what needs no question.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::secret::Secret;

/// `[mcp]`
#[derive(Debug, Clone, PartialEq)]
pub struct Mcp {
    /// The servers by alias, `[a-z0-9][a-z0-9-]{0,19}`.
    pub servers: BTreeMap<String, Server>,
    /// `alias.tool` or `alias.*`: called without a question.
    pub auto_approve: BTreeMap<String, bool>,
    /// How many rounds of calls one prompt may take.
    pub max_tool_depth: u32,
    /// How much of one result the model gets, in bytes.
    pub max_result_bytes: usize,
}

impl Default for Mcp {
    fn default() -> Self {
        Mcp {
            servers: BTreeMap::new(),
            auto_approve: BTreeMap::new(),
            max_tool_depth: 8,
            max_result_bytes: 65_536,
        }
    }
}

/// One server.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// What it is called here.
    pub alias: String,
    /// How to reach it.
    pub transport: Transport,
    /// The longest time that a call may take.
    pub timeout: Duration,
    /// Which of the protocol's beginnings to try.
    pub lifecycle: Lifecycle,
    /// Its annotations are believed: what it says is read-only may run side by side.
    pub trust: bool,
    /// The tools that are offered; `None` is all.
    pub tools: Option<Vec<String>>,
    /// It is not connected to.
    pub disabled: bool,
}

impl Server {
    /// Seconds that a call may take where the file does not say.
    pub const TIMEOUT: u32 = 60;

    /// A server at a URL, with nothing else said about it.
    pub fn at(alias: impl Into<String>, url: impl Into<String>) -> Server {
        Server {
            alias: alias.into(),
            transport: Transport::Http {
                url: url.into(),
                auth: Auth::None,
                headers: Vec::new(),
            },
            timeout: Duration::from_secs(Server::TIMEOUT.into()),
            lifecycle: Lifecycle::Auto,
            trust: false,
            tools: None,
            disabled: false,
        }
    }

    /// Its URL, or its command with its arguments.
    pub fn target(&self) -> String {
        match &self.transport {
            Transport::Http { url, .. } => url.clone(),
            Transport::Stdio { command, args, .. } => {
                let mut words = vec![command.clone()];
                words.extend(args.iter().cloned());
                words.join(" ")
            }
        }
    }
}

/// How a server is reached.
#[derive(Clone, PartialEq)]
pub enum Transport {
    /// Streamable HTTP.
    Http {
        /// Its endpoint.
        url: String,
        /// Where its bearer token comes from.
        auth: Auth,
        /// Sent with every request; values may be secrets.
        headers: Vec<(String, String)>,
    },
    /// A command that is started here.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment beyond the few variables that every program needs. A value that is `$NAME`
        /// stands for that variable of the shell that first uses the server.
        env: Vec<(String, String)>,
    },
}

impl fmt::Debug for Transport {
    /// Without headers, arguments and environment, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Transport::Http { url, .. } => write!(f, "Http({url})"),
            Transport::Stdio { command, .. } => write!(f, "Stdio({command})"),
        }
    }
}

/// Where a bearer token comes from.
#[derive(Clone, Default, PartialEq)]
pub enum Auth {
    /// There is none, or one from `aish-helper mcp login`.
    #[default]
    None,
    /// The file has it (`auth_token`).
    Token(Secret),
    /// This environment variable (`auth_env`).
    Env(String),
    /// The output of this command, run by `/bin/sh -c` (`auth_cmd`).
    Cmd(String),
}

/// Which of the protocol's beginnings to try.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Lifecycle {
    /// `server/discover`, then `initialize`. The default for HTTP.
    #[default]
    Auto,
    /// `initialize` alone (up to 2025-11-25). The default for stdio, where a server that ignores
    /// discovery costs seconds.
    Legacy,
    /// `server/discover` alone (2026-07-28).
    Modern,
}
