//! The token of another aish server: asking for it, checking and storing it.

use std::io::Read;

use tokio::runtime::Runtime;

use super::setup_dialog::{self, SetupDialog};
use crate::address;
use crate::broker::Broker;
use crate::broker::aish_server::server_endpoint;
use crate::config::{key, server_tokens};
use crate::error::{Error, ErrorContext, Result};
use crate::paths::Paths;
use crate::secret::Secret;

/// Maximum size of a token on stdin.
const MAX_TOKEN: u64 = 64 << 10;

/// A server, and the means to get and check its token.
pub struct ServerAccess<'a> {
    paths: &'a Paths,
    broker: Broker,
    runtime: Runtime,
    origin: String,
}

impl<'a> ServerAccess<'a> {
    /// Prepares the access to the server at this URL.
    ///
    /// # Errors
    /// The URL is not that of a server.
    pub fn new(paths: &'a Paths, url: &str) -> Result<ServerAccess<'a>> {
        // The URL is not repeated: it may contain a password.
        let origin = address::server_origin(url)
            .map_err(|why| Error::usage(format!("the URL of the other aish server {why}")))?;
        Ok(ServerAccess {
            paths,
            broker: Broker::new(),
            runtime: setup_dialog::runtime()?,
            origin,
        })
    }

    /// Returns the origin of the server.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Asks for the token until the server accepts it. A stored one is tried first. Returns the version of the server.
    ///
    /// # Errors
    /// The server does not answer, or there is no terminal to ask on.
    pub fn ready(&self) -> Result<String> {
        let version = self.version()?;
        let stored = server_tokens::load(self.paths, &self.origin)?;
        let mut refusal = match stored.map(|token| self.check(&token)) {
            Some(Ok(())) => return Ok(version),
            Some(Err(e)) if e.key_rejected => Some(e),
            Some(Err(e)) => return Err(e),
            None => None,
        };
        let dialog = SetupDialog::open(self.paths)?;
        dialog.print(&format!(
            "{} is aish {}. On that machine, aish-helper serve token show prints its token.\n",
            self.origin, version
        ))?;
        loop {
            if let Some(e) = refusal.take() {
                dialog.report_failure(&e)?;
            }
            let question = format!("Token of {} (hidden): ", self.origin);
            let typed = dialog.ask(&question, false)?;
            let typed = typed.filter(|typed| !typed.is_empty());
            let typed = typed.ok_or_else(|| Error::usage("no token was given"))?;
            let Some(token) = dialog.checked_key(&typed, "token")? else {
                continue;
            };
            match self.check(&token) {
                Ok(()) => {
                    server_tokens::store(self.paths, &self.origin, &token)?;
                    return Ok(version);
                }
                Err(e) if e.key_rejected => refusal = Some(e),
                Err(e) => return Err(e),
            }
        }
    }

    /// Stores the token on stdin, if the server accepts it.
    ///
    /// # Errors
    /// The server refuses it or does not answer, or the token cannot be stored.
    pub fn take_token(&self) -> Result<()> {
        let mut typed = Vec::new();
        let read = std::io::stdin().take(MAX_TOKEN).read_to_end(&mut typed);
        read.context(|| "cannot read the token from stdin".into())?;
        let token = key::checked(&typed)
            .map_err(|fault| Error::usage(format!("the token on stdin {fault}")))?;
        let token = Secret::new(token);
        self.version()?;
        self.check(&token)?;
        server_tokens::store(self.paths, &self.origin, &token)
    }

    /// Asks who the server is, before a token is sent.
    fn version(&self) -> Result<String> {
        let endpoint = server_endpoint(&self.origin, None);
        self.runtime.block_on(self.broker.server_version(&endpoint))
    }

    fn check(&self, token: &Secret) -> Result<()> {
        let endpoint = server_endpoint(&self.origin, Some(token.clone()));
        self.runtime
            .block_on(self.broker.check_server_token(&endpoint))
    }
}
