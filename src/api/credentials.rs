//! Who may use the API: the token, the bearers of browsers, and one-use tickets.
//!
//! The token is in a file that only the user can read. A browser gets a bearer for a ticket that `aish-helper web` has made;
//! all browsers share one bearer, which lives in the runtime directory, so that an open page survives a restart of the daemon.
//! It does not allow answering questions: for that a browser is paired (`pairing`).
//! Values are compared by their SHA-256, so that the time of a comparison reveals nothing about them.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::pairing::{PairingId, PairingState, Pairings, Sha, random, sha};
use crate::error::{Error, ErrorContext, Result};
use crate::history::journal::now_ms;
use crate::paths::{self, Paths};
use crate::safety::redact::global_redactor;
use crate::secret::Secret;
use crate::session::lock;

/// How long a ticket is valid.
const TICKET_LIFETIME: Duration = Duration::from_secs(60);
/// Wrong passwords within [`GUESS_WINDOW`], after which none is checked.
const MAX_GUESSES: usize = 10;
/// How long a wrong password counts.
const GUESS_WINDOW: Duration = Duration::from_secs(60);
/// Maximum number of tickets that wait to be used.
const MAX_TICKETS: usize = 16;
/// Maximum size of a token file, in bytes.
const MAX_FILE: u64 = 256;

/// How a request has proved that it may be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// With the token, the password, or as a process of the user on the unix socket.
    Token,
    /// With the bearer of the browsers.
    Browser,
    /// With the bearer of a browser that the person has paired at a terminal. Only it may answer questions.
    Paired(PairingId),
    /// With the bearer of a browser whose pairing the person has not confirmed. It may only ask for the decision.
    Unconfirmed(PairingId),
}

/// The values that a request can prove itself with.
#[derive(Debug)]
pub struct Credentials {
    password: Option<Secret>,
    values: Mutex<Values>,
    tickets: Mutex<Vec<(Sha, Instant)>>,
    /// When wrong passwords came. A token cannot be guessed.
    guesses: Mutex<Vec<Instant>>,
    /// The browsers that may answer questions.
    pub pairings: Pairings,
}

/// The result of checking a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuessResult {
    /// It is the password of the configuration.
    Right,
    /// It is another one, or none is configured.
    Wrong,
    /// It was not checked: there were too many wrong ones.
    TooMany,
}

#[derive(Debug)]
struct Values {
    token: Sha,
    browser: Secret,
    browser_sha: Sha,
}

/// Returns the file of the token.
pub fn token_file(paths: &Paths) -> PathBuf {
    paths.state.join("server-token")
}

/// Returns the token, and creates it if there is none.
///
/// # Errors
/// The file cannot be read or written.
pub fn token(path: &Path) -> Result<String> {
    match read(path)? {
        Some(token) => Ok(token),
        None => create(path),
    }
}

/// Replaces the token and the bearer of the browsers: those that clients have are void. A running server must be restarted.
///
/// # Errors
/// A file cannot be written.
pub fn replace(paths: &Paths) -> Result<()> {
    // The token last: until all is done, the old one counts.
    create(&browser_file(paths))?;
    create(&token_file(paths)).map(drop)
}

/// Returns the token and the bearer of the browsers, as far as they exist and can be read.
pub fn kept_tokens(paths: &Paths) -> Vec<Secret> {
    let files = [token_file(paths), browser_file(paths)];
    let tokens = files.iter().filter_map(|file| read(file).ok()?);
    tokens.map(Secret::new).collect()
}

fn browser_file(paths: &Paths) -> PathBuf {
    paths.run.join("browser-token")
}

fn create(path: &Path) -> Result<String> {
    let token = random();
    if let Some(dir) = path.parent() {
        paths::make_dir(dir)?;
    }
    paths::replace_secret_file(path, token.as_bytes())
        .context(|| format!("cannot write {}", path.display()))?;
    Ok(token)
}

fn read(path: &Path) -> Result<Option<String>> {
    let file = match paths::read_own(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        file => file.context(|| format!("cannot read {}", path.display()))?,
    };
    let mut text = String::new();
    file.take(MAX_FILE)
        .read_to_string(&mut text)
        .context(|| format!("cannot read {}", path.display()))?;
    let token = text.trim();
    // An emptied file must not let everybody in.
    if token.len() < 32 {
        return Err(
            Error::runtime(format!("the token in {} is too short", path.display()))
                .hint("replace it: aish-helper serve token rotate"),
        );
    }
    Ok(Some(token.to_owned()))
}

impl Credentials {
    /// Reads or creates the values.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn load(paths: &Paths, password: Option<Secret>) -> Result<Credentials> {
        let values = load(&token_file(paths), &browser_file(paths))?;
        if let Some(password) = &password {
            global_redactor().add_secret("server-password", password.expose());
        }
        Ok(Credentials {
            password,
            values: Mutex::new(values),
            tickets: Mutex::default(),
            guesses: Mutex::default(),
            pairings: Pairings::default(),
        })
    }

    /// Makes a ticket, which is valid once and for a minute.
    pub fn ticket(&self) -> Secret {
        let ticket = uuid::Uuid::new_v4().simple().to_string();
        global_redactor().add_secret("server-ticket", &ticket);
        let mut tickets = lock(&self.tickets);
        tickets.retain(|(_, made)| made.elapsed() < TICKET_LIFETIME);
        if tickets.len() == MAX_TICKETS {
            tickets.remove(0);
        }
        tickets.push((sha(&ticket), Instant::now()));
        Secret::new(ticket)
    }

    /// Takes a ticket, and returns the bearer for it.
    pub fn redeem(&self, ticket: &str) -> Option<Secret> {
        let ticket = sha(ticket);
        let mut tickets = lock(&self.tickets);
        tickets.retain(|(_, made)| made.elapsed() < TICKET_LIFETIME);
        let at = tickets.iter().position(|(known, _)| *known == ticket)?;
        tickets.remove(at);
        Some(self.browser())
    }

    /// Returns the access that a bearer gives.
    pub fn bearer(&self, value: &str) -> Option<Access> {
        let value = sha(value);
        if let Some((id, state, _)) = self.pairings.of_bearer(&value, now_ms()) {
            return Some(match state {
                PairingState::Paired => Access::Paired(id),
                _ => Access::Unconfirmed(id),
            });
        }
        let values = lock(&self.values);
        if value == values.token {
            return Some(Access::Token);
        }
        (value == values.browser_sha).then_some(Access::Browser)
    }

    /// Returns the bearer that all browsers share.
    pub fn browser(&self) -> Secret {
        lock(&self.values).browser.clone()
    }

    /// Checks a password.
    pub fn password(&self, value: &str) -> GuessResult {
        let Some(password) = self.password.as_ref().filter(|p| !p.expose().is_empty()) else {
            return GuessResult::Wrong;
        };
        let mut guesses = lock(&self.guesses);
        guesses.retain(|at| at.elapsed() < GUESS_WINDOW);
        if guesses.len() >= MAX_GUESSES {
            return GuessResult::TooMany;
        }
        if sha(value) == sha(password.expose()) {
            return GuessResult::Right;
        }
        guesses.push(Instant::now());
        GuessResult::Wrong
    }

    /// Whether a password is set.
    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }
}

fn load(token_file: &Path, browser_file: &Path) -> Result<Values> {
    let (token, browser) = (token(token_file)?, token(browser_file)?);
    for value in [&token, &browser] {
        global_redactor().add_secret("server-token", value);
    }
    Ok(Values {
        token: sha(&token),
        browser_sha: sha(&browser),
        browser: Secret::new(browser),
    })
}
