//! `aish-helper model add`: choose a server, check its key, pick a model from its list, and write it down.
//!
//! Values missing on the command line are asked on the terminal. Without one, all of them must be given.

mod named_server;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use chrono::Utc;
use tokio::runtime::Runtime;

use self::named_server::{NamedServer, hosted_names, local_names};
use super::args::AddModelArgs;
use super::setup_dialog::{self, MAX_SHOWN, SetupDialog, write_model};
use super::table::model_facts;
use super::{model, print_wrapped};
use crate::broker::autodetect::BASE_URL_VARIABLE;
use crate::broker::key_probe::{KeyOwner, ServerOffer, key_owner};
use crate::broker::{Broker, ModelEndpoint, catalog};
use crate::config::{self, Config, ConfigOverrides, key};
use crate::error::{Error, ErrorKind, Result};
use crate::paths::Paths;
use crate::safety::text::one_line;
use crate::secret::Secret;

/// Number of models that are listed at once.
const LISTED: usize = 15;

/// Adds a model to the configuration.
///
/// # Errors
/// The server refuses access or offers no model, the configuration cannot be changed, the user leaves, or something is
/// missing and there is no terminal.
pub fn run(paths: &Paths, args: AddModelArgs) -> Result<()> {
    model::check_may_write(paths)?;
    let (file, _) = config::config_path(paths)?;
    if file
        .extension()
        .is_some_and(|extension| extension == "json")
    {
        let message = format!("cannot change {}: aish writes TOML only", file.display());
        return Err(Error::config(message).hint("add the model there by hand"));
    }
    let setup = AddedModel {
        dialog: SetupDialog::open(paths).ok(),
        runtime: setup_dialog::runtime()?,
        broker: Broker::new(),
        config: config::load(paths, &ConfigOverrides::default())?,
        variables: key::process_variables(),
        args,
    };
    if let Some(name) = &setup.args.name {
        setup.check_name(name).map_err(Error::usage)?;
    }
    // Before a key is sent.
    if setup.args.server.is_none() {
        setup.dialog("the server")?;
    }
    if setup.args.model.is_none() {
        setup.dialog("--model MODEL")?;
    }
    let found = setup.connect()?;
    let id = setup.pick(&found)?;
    let name = setup.name(&found, &id)?;
    let make_default = setup.make_default(&name)?;
    let endpoint = ModelEndpoint {
        model: id,
        ..found.offer.endpoint
    };
    write_model(
        paths,
        &name,
        &endpoint,
        found.variable.as_deref(),
        make_default,
    )?;
    let what = match make_default {
        true => ", which is the default model now",
        false => "",
    };
    let next = match setup.dialog {
        Some(_) => format!("try: llm -m {name} What is the capital of France?"),
        // A program can add one too.
        None => "it takes effect once you confirm it at the next llm in a terminal".to_owned(),
    };
    print_wrapped(&format!(
        "added {name}{what} ({}); it is configured in {}\n  {next}\n",
        one_line(&endpoint.model, MAX_SHOWN),
        file.display()
    ))
}

/// A model on its way into the configuration.
struct AddedModel<'a> {
    /// `None` without a terminal.
    dialog: Option<SetupDialog<'a>>,
    runtime: Runtime,
    broker: Broker,
    config: Config,
    /// The environment.
    variables: BTreeMap<String, String>,
    args: AddModelArgs,
}

/// A server that gave access.
struct ReachedServer {
    name: String,
    /// Whether it is known by name.
    is_known: bool,
    offer: ServerOffer,
    /// The variable with its key.
    variable: Option<String>,
}

/// A key, and the variable that it comes from; `None` if it was typed.
type GivenKey = (Secret, Option<String>);

impl AddedModel<'_> {
    /// Asks for the server and its key until the server lists its models. Values given on the command line are not asked again.
    fn connect(&self) -> Result<ReachedServer> {
        let mut refused: Option<NamedServer> = None;
        loop {
            let was_refused = refused.is_some();
            let server = match refused.take() {
                Some(server) => server,
                None => self.server()?,
            };
            let given = self.key(&server, was_refused)?;
            let failure = match self.ask_server(&server, given) {
                Ok(reached) => return Ok(reached),
                Err(e) => e,
            };
            let may_ask =
                self.args.key_env.is_none() && (self.args.server.is_none() || failure.key_rejected);
            match &self.dialog {
                Some(dialog) if may_ask && failure.kind != ErrorKind::Interrupted => {
                    dialog.report_failure(&failure)?;
                    // Another key may do.
                    refused = failure.key_rejected.then_some(server);
                }
                _ => return Err(failure),
            }
        }
    }

    /// Asks a server for its models.
    fn ask_server(&self, server: &NamedServer, given: Option<GivenKey>) -> Result<ReachedServer> {
        if let Some((key, _)) = &given {
            self.check_owner(server, key)?;
        }
        let (key, variable) = given.unzip();
        self.say(&format!(
            "  asking {} …\n",
            one_line(server.name(), MAX_SHOWN)
        ))?;
        let offer = match server {
            NamedServer::Hosted(hosted) => {
                let key = key.unwrap_or_else(|| Secret::new(""));
                self.runtime.block_on(self.broker.try_key(hosted, key))?
            }
            NamedServer::Other { base_url, .. } => {
                config::check_base_url(base_url, key.is_some()).map_err(Error::config)?;
                self.runtime
                    .block_on(self.broker.try_server(base_url, key))?
            }
        };
        Ok(ReachedServer {
            name: server.name().to_owned(),
            is_known: server.is_known(),
            offer,
            variable: variable.flatten(),
        })
    }

    /// Refuses to send a key to another provider than its own. To any other server it is sent only if the user wants it.
    fn check_owner(&self, server: &NamedServer, key: &Secret) -> Result<()> {
        let KeyOwner::Known(owner) = key_owner(key) else {
            return Ok(());
        };
        if let NamedServer::Hosted(hosted) = server
            && hosted.name == owner.name
        {
            return Ok(());
        }
        if let (NamedServer::Other { name, .. }, Some(dialog)) = (server, &self.dialog) {
            let (owner, name) = (owner.name, one_line(name, MAX_SHOWN));
            let question =
                format!("That is a key of {owner}. Send it to {name}? [y/N], then Enter: ");
            if self.agrees(dialog, &question, false)? {
                return Ok(());
            }
        }
        let message = format!("the key belongs to {}, and was not sent", owner.name);
        let mut error = Error::usage(message).hint("give a key of the server: --key-env VARIABLE");
        error.key_rejected = true;
        Err(error)
    }

    /// Returns the server of the command line, or asks for one.
    fn server(&self) -> Result<NamedServer> {
        if let Some(typed) = &self.args.server {
            return NamedServer::from_words(typed).map_err(|reason| {
                let typed = one_line(typed, MAX_SHOWN);
                Error::usage(format!("{typed}: {reason}")).hint(format!(
                    "name one of {}, {}, or give the base URL of a server",
                    hosted_names(),
                    local_names()
                ))
            });
        }
        let dialog = self.dialog("the server")?;
        dialog.print(&format!(
            "Providers: {}\nServers on this machine: {}\n",
            hosted_names(),
            local_names()
        ))?;
        loop {
            let typed = self.answer(dialog, "Which, or the base URL of a server? ")?;
            if typed.is_empty() {
                continue;
            }
            match NamedServer::from_words(&typed) {
                Ok(server) => return Ok(server),
                Err(reason) => dialog.print(&format!("  {}: {reason}.\n", one_line(&typed, 40)))?,
            }
        }
    }

    /// Returns the key for a server: from the variable of the command line, from the usual variable, or typed. One that was
    /// refused is not offered again.
    fn key(&self, server: &NamedServer, was_refused: bool) -> Result<Option<GivenKey>> {
        if let Some(variable) = &self.args.key_env {
            return self.key_in(variable).map(Some);
        }
        let question = match server {
            NamedServer::Hosted(hosted) => {
                // With this variable the key is for another server.
                let is_for_another = hosted.name == "openai" && self.is_set(BASE_URL_VARIABLE);
                let set = hosted.variables().find(|name| self.is_set(name));
                if let Some(variable) = set.filter(|_| !was_refused && !is_for_another)
                    && self.uses(variable)?
                {
                    return self.key_in(variable).map(Some);
                }
                format!("API key of {} (hidden): ", hosted.name)
            }
            // A server at its usual place on this machine.
            NamedServer::Other { .. } if server.is_known() && !was_refused => return Ok(None),
            NamedServer::Other { .. } => match &self.dialog {
                Some(_) => "API key of the server (hidden; Enter if none): ".to_owned(),
                None => return Ok(None),
            },
        };
        let dialog = self.dialog("--key-env VARIABLE")?;
        loop {
            let typed = dialog.ask(&question, false)?.ok_or_else(left)?;
            match (typed.trim().is_empty(), server) {
                (true, NamedServer::Hosted(_)) => {}
                (true, NamedServer::Other { .. }) => return Ok(None),
                (false, _) => {
                    if let Some(key) = dialog.checked_key(&typed, "key")? {
                        return Ok(Some((key, None)));
                    }
                }
            }
        }
    }

    fn is_set(&self, variable: &str) -> bool {
        let value = self.variables.get(variable);
        value.is_some_and(|value| !value.trim().is_empty())
    }

    /// Whether the key in the provider's usual variable is to be used; without a terminal it is.
    fn uses(&self, variable: &str) -> Result<bool> {
        match &self.dialog {
            Some(dialog) => {
                self.agrees(dialog, &format!("Use the key in {variable}? [Y/n] "), true)
            }
            None => Ok(true),
        }
    }

    fn key_in(&self, variable: &str) -> Result<GivenKey> {
        let value = self.variables.get(variable).ok_or_else(|| {
            // Not quoted: a common mistake is to give the key itself.
            Error::usage("the variable that --key-env names is not set")
                .hint("give the name of an exported variable: --key-env OPENAI_API_KEY")
        })?;
        let key = key::checked(value.as_bytes())
            .map_err(|fault| Error::config(format!("the variable {variable} {fault}")))?;
        Ok((Secret::new(key), Some(variable.to_owned())))
    }

    /// Returns the model of the command line, or lets the user pick one from the list.
    fn pick(&self, found: &ReachedServer) -> Result<String> {
        let models = &found.offer.models;
        if let Some(id) = &self.args.model {
            let latest = format!("{id}:latest");
            if !models
                .iter()
                .any(|listed| listed == id || *listed == latest)
            {
                let shown = one_line(id, MAX_SHOWN);
                self.say(&format!(
                    "  note: the list of {} does not have {shown}\n",
                    found.name
                ))?;
            }
            return Ok(id.clone());
        }
        let dialog = self.dialog("--model MODEL")?;
        pick_listed(dialog, &found.name, &found.offer)?.ok_or_else(left)
    }

    /// Returns the name of the command line, or asks for one. Without a question it is the name of a known server,
    /// that of the model, or SERVER/MODEL.
    fn name(&self, found: &ReachedServer, id: &str) -> Result<String> {
        if let Some(name) = &self.args.name {
            return Ok(name.clone());
        }
        let (server, both) = (found.name.clone(), format!("{}/{id}", found.name));
        let candidates = match found.is_known {
            true => [server, both, id.to_owned()],
            false => [id.to_owned(), both, server],
        };
        // A server must not get the prompts that are meant for a known one because of how it names its models.
        let is_meant_for_another = |name: &str| {
            let server = name.split('/').next().unwrap_or_default();
            !found.is_known && config::KNOWN_SERVERS.iter().any(|k| k.name == server)
        };
        let free = candidates
            .iter()
            .find(|name| self.check_name(name).is_ok() && !is_meant_for_another(name));
        let Some(dialog) = self.dialog.as_ref().filter(|_| self.args.model.is_none()) else {
            return free.cloned().ok_or_else(|| {
                Error::usage("no name is free for the model").hint("give one: --name NAME")
            });
        };
        loop {
            let question = match free {
                Some(free) => format!("Its name in aish? Enter for {free}: "),
                None => "Its name in aish? ".to_owned(),
            };
            let typed = self.answer(dialog, &question)?;
            let name = match (typed.is_empty(), free) {
                (true, Some(free)) => free.clone(),
                _ => typed,
            };
            match self.check_name(&name) {
                Ok(()) => return Ok(name),
                Err(reason) => dialog.print(&format!("  {reason}.\n"))?,
            }
        }
    }

    fn check_name(&self, name: &str) -> std::result::Result<(), String> {
        config::check_model_name(name)?;
        match self.config.models.contains_key(name) {
            true => Err(format!("a model named {name} is configured already")),
            false => Ok(()),
        }
    }

    /// Whether the model becomes the default one: if it is the only one, or the user wants it.
    fn make_default(&self, name: &str) -> Result<bool> {
        if self.args.default || self.config.models.is_empty() {
            return Ok(true);
        }
        match &self.dialog {
            Some(dialog) if self.args.model.is_none() => {
                let now = match &self.config.default_model {
                    Some(default) => format!(", in place of {default}"),
                    None => String::new(),
                };
                let question = format!("Make {name} the default model{now}? [y/N], then Enter: ");
                self.agrees(dialog, &question, false)
            }
            _ => Ok(false),
        }
    }

    fn agrees(&self, dialog: &SetupDialog<'_>, question: &str, default: bool) -> Result<bool> {
        loop {
            match self.answer(dialog, question)?.to_lowercase().as_str() {
                "" => return Ok(default),
                "y" | "yes" => return Ok(true),
                "n" | "no" => return Ok(false),
                _ => dialog.print("  Type y or n.\n")?,
            }
        }
    }

    fn answer(&self, dialog: &SetupDialog<'_>, question: &str) -> Result<String> {
        let typed = dialog.ask(question, true)?.ok_or_else(left)?;
        Ok(typed.trim().to_owned())
    }

    /// Returns the dialog, which asks for the `missing` values.
    fn dialog(&self, missing: &str) -> Result<&SetupDialog<'_>> {
        self.dialog.as_ref().ok_or_else(|| {
            Error::usage(format!("there is no terminal to ask for {missing}")).hint(
                "give all values: aish-helper model add SERVER|URL --model MODEL [--key-env VARIABLE] [--name NAME]",
            )
        })
    }

    fn say(&self, text: &str) -> Result<()> {
        match &self.dialog {
            Some(dialog) => dialog.print(text),
            None => Ok(()),
        }
    }
}

fn left() -> Error {
    Error::new(ErrorKind::Interrupted, "nothing was added")
}

/// Lets the user pick a model from the list of a server; `None` means that the user leaves.
///
/// # Errors
/// The terminal is lost, or Ctrl-C.
pub(super) fn pick_listed(
    dialog: &SetupDialog<'_>,
    server: &str,
    offer: &ServerOffer,
) -> Result<Option<String>> {
    let models = &offer.models;
    let mut word = String::new();
    loop {
        let matches = matching(models, &word);
        dialog.print(&shown_list(server, offer, &matches, &word))?;
        let best = matches.first().copied();
        let question = match best {
            Some(best) => format!(
                "Which? A number, a part of a name, Enter for {}: ",
                one_line(best, MAX_SHOWN)
            ),
            None => "Which? A part of a name, Enter for the whole list: ".to_owned(),
        };
        let Some(typed) = dialog.ask(&question, true)? else {
            return Ok(None);
        };
        let typed = typed.trim();
        if typed.is_empty() {
            match best {
                Some(best) => return Ok(Some(best.to_owned())),
                None => word.clear(),
            }
            continue;
        }
        // A number of what is shown; any other is a part of a name, such as 70 for a model with 70b.
        let number = typed.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
        let numbered = number.and_then(|at| matches.iter().take(LISTED).nth(at));
        let exact = models.iter().find(|id| **id == typed);
        if let Some(id) = numbered.copied().or(exact.map(String::as_str)) {
            return Ok(Some(id.to_owned()));
        }
        typed.clone_into(&mut word);
    }
}

/// Returns the models whose name contains the word, in any case.
fn matching<'m>(models: &'m [String], word: &str) -> Vec<&'m str> {
    let word = word.to_lowercase();
    let found = models.iter().map(String::as_str);
    found
        .filter(|id| id.to_lowercase().contains(&word))
        .collect()
}

/// Formats the first of the models, each with its known properties.
fn shown_list(server: &str, offer: &ServerOffer, matches: &[&str], word: &str) -> String {
    let endpoint = &offer.endpoint;
    let section = catalog::section(endpoint.dialect, endpoint.is_mistral, &endpoint.base_url);
    let mut out = match (matches.len(), word) {
        (0, _) => format!("  no model of {server} matches {}\n", one_line(word, 40)),
        (n, "") => format!("Models of {server}: {n}\n"),
        (n, word) => format!(
            "Models of {server} that match {}: {n}\n",
            one_line(word, 40)
        ),
    };
    for (at, id) in matches.iter().take(LISTED).enumerate() {
        let known = section.and_then(|section| catalog::find(section, id, Utc::now()));
        let known = known.unwrap_or_default();
        let rates = known.price.map(|price| price.current.base);
        let facts = model_facts(known.window, rates.map(|rates| (rates.input, rates.output)));
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {:>2}  {}{facts}", at + 1, one_line(id, MAX_SHOWN));
    }
    if let more @ 1.. = matches.len().saturating_sub(LISTED) {
        let _ = writeln!(out, "      … {more} more; type a part of a name");
    }
    out
}
