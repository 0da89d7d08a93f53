//! What the rest of the house knows of MCP: no type of the protocol's crate goes past this border.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::chat::{Image, Tool};
use crate::secret::Secret;

/// What a server needs beyond its configuration, from the shell that first uses it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Credentials {
    /// Sent as `Authorization: Bearer`.
    pub bearer: Option<Secret>,
    /// The whole environment of a stdio server.
    pub env: Vec<(String, Secret)>,
}

/// How long servers may take to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// One at a URL.
    pub begin: Duration,
    /// One at a URL, of that time, to say whether it is a modern one.
    pub discover: Duration,
    /// A command, which may have to fetch its program first.
    pub begin_stdio: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            begin: Duration::from_secs(10),
            discover: Duration::from_secs(5),
            begin_stdio: Duration::from_secs(60),
        }
    }
}

/// Whether a server can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It is being connected to.
    Starting,
    /// Its tools can be called.
    Ready,
    /// It cannot be reached, or has gone; it is tried again with growing pauses.
    Failed,
    /// It wants a person to log in: `aish-helper mcp login`.
    Login,
    /// The configuration or a person has turned it off.
    Disabled,
}

impl Status {
    /// The word for it in lists.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Starting => "starting",
            Status::Ready => "ready",
            Status::Failed => "failed",
            Status::Login => "login",
            Status::Disabled => "disabled",
        }
    }
}

/// How a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// What it is called here.
    pub alias: String,
    /// Its URL, or its command, without what may be secret.
    pub target: String,
    /// Its name and version, in its own words.
    pub version: Option<String>,
    /// The protocol's version that is spoken with it.
    pub protocol: Option<String>,
    /// How many tools it offers.
    pub tools: usize,
    /// Whether it can be used.
    pub status: Status,
    /// What went wrong last.
    pub error: Option<String>,
    /// It is in the config, and not only connected by hand.
    pub configured: bool,
}

/// Is told how a server is, once with each change of its [`Status`] but for the start: a try that fails like the one
/// before it is none. [`Status::Disabled`] is one that was connected, and was let go.
#[derive(Clone)]
pub struct Witness(Arc<dyn Fn(State) + Send + Sync>);

impl Witness {
    /// One that does this. It must not wait, nor ask the pool for anything.
    pub fn new(tell: impl Fn(State) + Send + Sync + 'static) -> Witness {
        Witness(Arc::new(tell))
    }

    pub(super) fn tell(&self, state: State) {
        (self.0)(state);
    }
}

impl Default for Witness {
    fn default() -> Witness {
        Witness::new(drop)
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Witness")
    }
}

/// The tools of all servers that are ready, at one time.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// By alias, then in the server's order. No two have the same name.
    pub tools: Arc<[Tool]>,
    /// The servers that a prompt goes without: alias, and why in a few words.
    pub without: Vec<(String, String)>,
    /// Where each name is in `tools`.
    pub names: Arc<HashMap<String, usize>>,
}

impl Catalog {
    /// The catalog of these tools.
    pub fn new(tools: Arc<[Tool]>, without: Vec<(String, String)>) -> Catalog {
        let names = tools.iter().enumerate().map(|(i, t)| (t.name.clone(), i));
        let names = Arc::new(names.collect());
        Catalog {
            tools,
            without,
            names,
        }
    }

    /// The tool of that name, `alias.tool`.
    pub fn find(&self, name: &str) -> Option<&Tool> {
        self.tools.get(*self.names.get(name)?)
    }
}

/// What a tool said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallResult {
    /// Its text blocks joined, with a placeholder line for each thing that is no text; the structured
    /// content where there is no text. Cut at the size asked for, with a note of what was left out.
    pub text: String,
    /// The tool says that it failed (`isError`); the text says why.
    pub is_error: bool,
    /// Its pictures.
    pub images: Vec<Image>,
    /// What it holds beside text, a line each: `image: image/png, 12 KB`; in brackets, most stand in the text too.
    pub notes: Vec<String>,
    /// The size of what it said, before anything was cut.
    pub bytes: u64,
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// The person stopped it.
    Interrupted,
    /// It was not the call that was approved, or what it calls has changed since; nothing was sent.
    NotApproved,
    /// Everything else, in one line for the person: a JSON-RPC error, the transport's, the time limit.
    Failed(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Interrupted => f.write_str("interrupted"),
            CallError::NotApproved => {
                f.write_str("not called: the tool or its server is not as it was when it was allowed, or that was too long ago")
            }
            CallError::Failed(why) => f.write_str(why),
        }
    }
}

/// What happens while a call runs.
#[derive(Debug)]
pub enum CallEvent {
    /// How far it has got, in a line.
    Progress(String),
    /// The server asks the person; no answer is `cancel`.
    Elicit(Elicit, oneshot::Sender<Elicited>),
}

/// What a server wants to know.
#[derive(Debug, Clone, PartialEq)]
pub struct Elicit {
    /// The server's alias.
    pub server: String,
    /// What it says.
    pub message: String,
    /// Form mode: the JSON Schema of the answer.
    pub schema: Option<serde_json::Value>,
    /// URL mode: the page.
    pub url: Option<String>,
}

/// The person's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Elicited {
    /// With the object that was asked for; none in URL mode.
    Accept(Option<serde_json::Value>),
    /// No.
    Decline,
    /// Neither: the question was put away.
    Cancel,
}

/// A resource or a template of such.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// The server's alias.
    pub server: String,
    /// Its URI, or the template's.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
    /// Its type.
    pub mime: Option<String>,
    /// The URI is a template (RFC 6570).
    pub template: bool,
}

/// A prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// `alias.prompt`.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The names of its arguments, and whether each must be given.
    pub arguments: Vec<(String, bool)>,
}
