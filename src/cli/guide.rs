//! The first run on a terminal when there is no model: a short guide, then the prompt is answered.
//!
//! Everything is asked and said on `/dev/tty`: stdout belongs to the answer. A key is tried before it
//! is kept, in a file of its own; it is in no argument, log or history.

use std::io::Write;

use super::{model, model_install};
use crate::broker::candidate::{Owner, owner};
use crate::broker::detect::{self, HOSTED, Hosted, LOCALS};
use crate::broker::{Broker, Endpoint};
use crate::client::line;
use crate::client::terminal::Tty;
use crate::config::{self, key, toml_string};
use crate::error::{Context, Error, Result};
use crate::paths::Paths;
use crate::safety::text::{one_line, prose};
use crate::secret::Secret;

/// The name of the model at a server that the person has named.
const SERVER: &str = "server";

/// The most that is shown of what failed.
const CHARS: usize = 300;

/// Guides the person to a model.
///
/// # Errors
/// The person has chosen none (then it is `nothing`), or the terminal has gone.
pub fn run(paths: &Paths, nothing: Error) -> Result<()> {
    let Ok(tty) = Tty::open() else {
        return Err(nothing);
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context(|| "cannot start the runtime".into())?;
    let guide = Guide {
        paths,
        tty,
        runtime,
        broker: Broker::new(),
    };
    match guide.menu()? {
        Next::Done => Ok(()),
        Next::Menu | Next::Leave => Err(nothing),
    }
}

struct Guide<'a> {
    paths: &'a Paths,
    tty: Tty,
    runtime: tokio::runtime::Runtime,
    broker: Broker,
}

/// Where it goes on.
enum Next {
    /// There is a model now.
    Done,
    Menu,
    Leave,
}

/// Whose a key is, as the person says.
enum Whose {
    Known(&'static Hosted),
    /// The key is not to be used.
    Back,
    Leave,
}

impl Guide<'_> {
    fn menu(&self) -> Result<Next> {
        self.say(&menu_text())?;
        loop {
            let Some(choice) = self.ask("Which? [1-4, q] ", true)? else {
                return Ok(Next::Leave);
            };
            let next = match choice.trim() {
                "1" => self.paste()?,
                "2" => self.local()?,
                "3" => self.tiny()?,
                "4" => self.server()?,
                "q" | "Q" => Next::Leave,
                _ => Next::Menu,
            };
            if !matches!(next, Next::Menu) {
                return Ok(next);
            }
        }
    }

    /// A key of a known provider.
    fn paste(&self) -> Result<Next> {
        loop {
            let question = "Paste the key; it is not shown (Enter: back): ";
            let Some(typed) = self.ask(question, false)? else {
                return Ok(Next::Leave);
            };
            if typed.trim().is_empty() {
                return Ok(Next::Menu);
            }
            let Some(key) = self.key(&typed)? else {
                continue;
            };
            let hosted = match owner(&key) {
                Owner::Known(hosted) => hosted,
                Owner::Foreign(name) => {
                    self.say(&format!(
                        "  That is a key of {name}, whose interface aish does not speak;\n  \
                         OpenRouter offers its models.\n"
                    ))?;
                    continue;
                }
                Owner::Unknown => match self.whose()? {
                    Whose::Known(hosted) => hosted,
                    Whose::Back => continue,
                    Whose::Leave => return Ok(Next::Leave),
                },
            };
            self.say(&format!("  asking {} …\n", hosted.name))?;
            let tried = self.broker.try_key(hosted, key);
            match self.runtime.block_on(tried) {
                Ok(endpoint) => match self.keep(hosted.name, &endpoint) {
                    Ok(()) => return Ok(Next::Done),
                    Err(e) => self.failed(&e)?,
                },
                Err(e) => self.failed(&e)?,
            }
        }
    }

    /// Which provider a key belongs to that could be anybody's.
    fn whose(&self) -> Result<Whose> {
        let names: Vec<&str> = HOSTED.iter().map(|h| h.name).collect();
        let names = names.join(", ");
        self.say(&format!("  One of: {names}\n"))?;
        loop {
            let Some(typed) = self.ask("  Whose key is it? (Enter: back): ", true)? else {
                return Ok(Whose::Leave);
            };
            let typed = typed.trim().to_lowercase();
            if typed.is_empty() || typed == "q" {
                return Ok(Whose::Back);
            }
            let by_name = HOSTED.iter().find(|h| h.name == typed);
            if let Some(hosted) = by_name {
                return Ok(Whose::Known(hosted));
            }
            let typed = one_line(&typed, 40);
            self.say(&format!("  {typed} is none of these:\n    {names}\n"))?;
        }
    }

    /// A server on this machine, which the person starts meanwhile.
    fn local(&self) -> Result<Next> {
        self.say("  Start it in another terminal, for example: ollama run llama3.2\n")?;
        if self.ask("  Enter when it runs: ", true)?.is_none() {
            return Ok(Next::Leave);
        }
        let nothing = std::collections::BTreeMap::new();
        let found = detect::detect(&self.broker, &nothing, &LOCALS);
        match self.runtime.block_on(found) {
            // The daemon will find it just so, and says what it uses.
            Ok(Some(_)) => Ok(Next::Done),
            Ok(None) => {
                let ports: Vec<String> = LOCALS.iter().map(|l| l.port.to_string()).collect();
                self.say(&format!(
                    "  No server with a model answers on 127.0.0.1, ports {}.\n",
                    ports.join(", ")
                ))?;
                Ok(Next::Menu)
            }
            Err(e) => {
                self.failed(&e)?;
                Ok(Next::Menu)
            }
        }
    }

    fn tiny(&self) -> Result<Next> {
        let result = model::set_up(self.paths, &mut |line| {
            // The installation goes on where the terminal has gone; the next question will tell.
            let _ = self.say(&format!("  {}\n", one_line(line, CHARS)));
        });
        match result {
            Ok(()) => {
                self.say(&format!("  {}\n", model_install::NOTE))?;
                Ok(Next::Done)
            }
            Err(e) => {
                self.failed(&e)?;
                Ok(Next::Menu)
            }
        }
    }

    /// A server that speaks as OpenAI's does, wherever it is.
    fn server(&self) -> Result<Next> {
        loop {
            self.say("Its base URL, such as http://192.168.1.5:8000/v1\n")?;
            let question = "  (Enter: back): ";
            let Some(base_url) = self.ask(question, true)? else {
                return Ok(Next::Leave);
            };
            let base_url = base_url.trim();
            if base_url.is_empty() {
                return Ok(Next::Menu);
            }
            if let Err(why) = config::check_base_url(base_url, false) {
                self.say(&format!("  It {why}.\n"))?;
                continue;
            }
            let question = "Its key, which is not shown (Enter: it wants none): ";
            let Some(typed) = self.ask(question, false)? else {
                return Ok(Next::Leave);
            };
            let key = if typed.trim().is_empty() {
                None
            } else {
                let Some(key) = self.key(&typed)? else {
                    continue;
                };
                // Before the key is sent, not after.
                if let Err(why) = config::check_base_url(base_url, true) {
                    self.say(&format!("  {why}.\n"))?;
                    continue;
                }
                Some(key)
            };
            let tried = self.broker.try_server(base_url, key);
            let kept = self
                .runtime
                .block_on(tried)
                .and_then(|endpoint| self.keep(SERVER, &endpoint));
            match kept {
                Ok(()) => return Ok(Next::Done),
                Err(e) => self.failed(&e)?,
            }
        }
    }

    /// What was pasted, if it can be a key.
    fn key(&self, typed: &str) -> Result<Option<Secret>> {
        match key::checked(typed.as_bytes()) {
            Ok(key) => Ok(Some(Secret::new(key))),
            Err(why) => {
                self.say(&format!("  What was pasted {why}.\n"))?;
                Ok(None)
            }
        }
    }

    /// Writes down a model that works, and its key.
    fn keep(&self, name: &str, endpoint: &Endpoint) -> Result<()> {
        model::may_write(self.paths)?;
        let mut table = format!(
            "base_url = {}\nmodel = {}\n",
            toml_string(&endpoint.base_url),
            toml_string(&endpoint.model)
        );
        if let Some(secret) = &endpoint.key {
            let command = key::keep(self.paths, name, secret)?;
            table.push_str(&format!("key_cmd = {}\n", toml_string(&command)));
        }
        config::add_model(self.paths, name, &table, true)
            .inspect_err(|_| key::forget(self.paths, name))?;
        let (file, _) = config::path(self.paths)?;
        let key = match endpoint.key {
            Some(_) => format!(",\n  the key in {}", self.paths.keys().join(name).display()),
            None => String::new(),
        };
        self.say(&format!(
            "  {} is used from now on; that is written in\n  {}{key}\n\n",
            one_line(&endpoint.model, CHARS),
            file.display()
        ))
    }

    /// Asks for a line; `None` is the wish to leave. The terminal is as it was but for that time.
    fn ask(&self, question: &str, echo: bool) -> Result<Option<String>> {
        let keys = self.tty.keys()?;
        self.say(question)?;
        line::read(&self.tty, &keys, echo)
    }

    fn failed(&self, e: &Error) -> Result<()> {
        // The hint would speak of a configuration that does not exist yet.
        self.say(&format!(
            "  That failed: {}.\n",
            one_line(&e.message, CHARS)
        ))
    }

    /// Shows text that may hold untrusted parts.
    fn say(&self, text: &str) -> Result<()> {
        (&self.tty.file)
            .write_all(prose(text).as_bytes())
            .context(|| "cannot write to the terminal".into())
    }
}

fn menu_text() -> String {
    let names: Vec<&str> = HOSTED.iter().map(|h| h.name).collect();
    format!(
        "There is no model yet. Four ways to one, then your prompt is answered:\n\
         \x20 1  paste an API key\n\
         \x20    ({})\n\
         \x20 2  start a local server (Ollama, llama.cpp, LM Studio)\n\
         \x20 3  install a tiny model here, only for trying things out (about 100 MB)\n\
         \x20 4  name any other server that is compatible with OpenAI's\n\
         \x20 q  leave\n",
        names.join(", ")
    )
}
