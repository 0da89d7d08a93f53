//! First run on a terminal without a model: a menu to set one up, after which the prompt is answered.

use super::model_add::pick_listed;
use super::setup_dialog::{self, MAX_SHOWN, SetupDialog};
use super::{model, model_install};
use crate::broker::Broker;
use crate::broker::autodetect::{self, HOSTED_PROVIDERS, HostedProvider, LOCAL_SERVERS};
use crate::broker::key_probe::{KeyOwner, key_owner};
use crate::config;
use crate::error::{Error, Result};
use crate::paths::Paths;
use crate::safety::text::one_line;

/// Name of the configured model for a server entered by the user.
const CUSTOM_MODEL: &str = "server";

/// Runs the menu until a model is set up.
///
/// # Errors
/// Returns `no_model` if the user leaves the menu; otherwise the terminal failed.
pub fn run(paths: &Paths, no_model: Error) -> Result<()> {
    let Ok(dialog) = SetupDialog::open(paths) else {
        return Err(no_model);
    };
    let onboarding = Onboarding {
        paths,
        dialog,
        runtime: setup_dialog::runtime()?,
        broker: Broker::new(),
    };
    match onboarding.menu()? {
        DialogStep::Done => Ok(()),
        DialogStep::Menu | DialogStep::Leave => Err(no_model),
    }
}

struct Onboarding<'a> {
    paths: &'a Paths,
    dialog: SetupDialog<'a>,
    runtime: tokio::runtime::Runtime,
    broker: Broker,
}

/// Next step of the dialog.
enum DialogStep {
    /// A model is set up.
    Done,
    Menu,
    Leave,
}

/// Provider that the user names for a key.
enum ProviderChoice {
    Provider(&'static HostedProvider),
    /// Discard the key.
    Back,
    Leave,
}

impl Onboarding<'_> {
    fn menu(&self) -> Result<DialogStep> {
        self.dialog.print(&menu_text())?;
        loop {
            let Some(choice) = self.dialog.ask("Which? [1-4, q] ", true)? else {
                return Ok(DialogStep::Leave);
            };
            let next = match choice.trim() {
                "1" => self.paste_key()?,
                "2" => self.use_local_server()?,
                "3" => self.install_tiny_model()?,
                "4" => self.use_custom_server()?,
                "q" | "Q" => DialogStep::Leave,
                _ => {
                    self.dialog.print("  Type 1 to 4, or q.\n")?;
                    DialogStep::Menu
                }
            };
            if !matches!(next, DialogStep::Menu) {
                return Ok(next);
            }
        }
    }

    /// Sets up a hosted provider from a pasted key.
    fn paste_key(&self) -> Result<DialogStep> {
        loop {
            let question = "API key (hidden; Enter: back): ";
            let Some(typed) = self.dialog.ask(question, false)? else {
                return Ok(DialogStep::Leave);
            };
            if typed.trim().is_empty() {
                return Ok(DialogStep::Menu);
            }
            let Some(key) = self.dialog.checked_key(&typed, "key")? else {
                continue;
            };
            let hosted = match key_owner(&key) {
                KeyOwner::Known(hosted) => hosted,
                KeyOwner::Unknown => match self.ask_provider()? {
                    ProviderChoice::Provider(hosted) => hosted,
                    ProviderChoice::Back => continue,
                    ProviderChoice::Leave => return Ok(DialogStep::Leave),
                },
            };
            loop {
                self.dialog
                    .print(&format!("  asking {} …\n", hosted.name))?;
                let tried = self.broker.try_key(hosted, key.clone());
                let saved = self
                    .runtime
                    .block_on(tried)
                    .and_then(|offer| self.dialog.save_default(hosted.name, &offer.endpoint));
                let Err(failure) = saved else {
                    return Ok(DialogStep::Done);
                };
                self.dialog.report_failure(&failure)?;
                if failure.key_rejected {
                    break;
                }
                let again = "  Press Enter to try the same key again (b: back): ";
                match self.dialog.ask(again, true)? {
                    None => return Ok(DialogStep::Leave),
                    Some(typed) if typed.trim().is_empty() => {}
                    Some(_) => break,
                }
            }
        }
    }

    /// Asks which provider a key belongs to if its format does not show it.
    fn ask_provider(&self) -> Result<ProviderChoice> {
        let names: Vec<&str> = HOSTED_PROVIDERS.iter().map(|h| h.name).collect();
        let names = names.join(", ");
        self.dialog.print(&format!("  One of: {names}\n"))?;
        loop {
            let Some(typed) = self
                .dialog
                .ask("  Whose key is it? (Enter: back): ", true)?
            else {
                return Ok(ProviderChoice::Leave);
            };
            let typed = typed.trim().to_lowercase();
            if typed.is_empty() || typed == "q" {
                return Ok(ProviderChoice::Back);
            }
            let by_name = HOSTED_PROVIDERS.iter().find(|h| h.name == typed);
            if let Some(hosted) = by_name {
                return Ok(ProviderChoice::Provider(hosted));
            }
            let typed = one_line(&typed, 40);
            self.dialog
                .print(&format!("  {typed} is not one of these:\n    {names}\n"))?;
        }
    }

    /// Waits for the user to start a local server, then looks for it.
    fn use_local_server(&self) -> Result<DialogStep> {
        self.dialog
            .print("  Start the server in another terminal, for example: ollama run llama3.2\n")?;
        if self
            .dialog
            .ask("  Press Enter when it is running: ", true)?
            .is_none()
        {
            return Ok(DialogStep::Leave);
        }
        let no_variables = std::collections::BTreeMap::new();
        let found = autodetect::detect(&self.broker, &no_variables, &LOCAL_SERVERS);
        match self.runtime.block_on(found) {
            // The daemon detects the server in the same way and reports which model it uses.
            Ok(Some(_)) => Ok(DialogStep::Done),
            Ok(None) => {
                let ports: Vec<String> = LOCAL_SERVERS.iter().map(|l| l.port.to_string()).collect();
                self.dialog.print(&format!(
                    "  No server with a model answers on 127.0.0.1, ports {}.\n",
                    ports.join(", ")
                ))?;
                Ok(DialogStep::Menu)
            }
            Err(e) => {
                self.dialog.report_failure(&e)?;
                Ok(DialogStep::Menu)
            }
        }
    }

    fn install_tiny_model(&self) -> Result<DialogStep> {
        let result = model::set_up(self.paths, &mut |line| {
            // The installation continues if the terminal is gone; the next question reports the error.
            let _ = self
                .dialog
                .print(&format!("  {}\n", one_line(line, MAX_SHOWN)));
        });
        match result {
            Ok(()) => {
                self.dialog
                    .print(&format!("  {}\n", model_install::QUALITY_NOTE))?;
                Ok(DialogStep::Done)
            }
            Err(e) => {
                self.dialog.report_failure(&e)?;
                Ok(DialogStep::Menu)
            }
        }
    }

    /// Sets up an OpenAI-compatible server at an address entered by the user.
    fn use_custom_server(&self) -> Result<DialogStep> {
        loop {
            self.dialog
                .print("Base URL of the server, for example http://192.168.1.5:8000/v1\n")?;
            let question = "  (Enter: back): ";
            let Some(base_url) = self.dialog.ask(question, true)? else {
                return Ok(DialogStep::Leave);
            };
            let base_url = base_url.trim();
            if base_url.is_empty() {
                return Ok(DialogStep::Menu);
            }
            if let Err(reason) = config::check_base_url(base_url, false) {
                self.dialog.print(&format!("  It {reason}.\n"))?;
                continue;
            }
            let question = "API key of the server (hidden; Enter if none): ";
            let Some(typed) = self.dialog.ask(question, false)? else {
                return Ok(DialogStep::Leave);
            };
            let key = if typed.trim().is_empty() {
                None
            } else {
                let Some(key) = self.dialog.checked_key(&typed, "key")? else {
                    continue;
                };
                // Checked before the key is sent.
                if let Err(reason) = config::check_base_url(base_url, true) {
                    self.dialog.print(&format!("  {reason}.\n"))?;
                    continue;
                }
                Some(key)
            };
            let tried = self.broker.try_server(base_url, key);
            let mut offer = match self.runtime.block_on(tried) {
                Ok(offer) => offer,
                Err(e) => {
                    self.dialog.report_failure(&e)?;
                    continue;
                }
            };
            if offer.models.len() > 1 {
                match pick_listed(&self.dialog, CUSTOM_MODEL, &offer)? {
                    Some(model) => offer.endpoint.model = model,
                    None => return Ok(DialogStep::Leave),
                }
            }
            match self.dialog.save_default(CUSTOM_MODEL, &offer.endpoint) {
                Ok(()) => return Ok(DialogStep::Done),
                Err(e) => self.dialog.report_failure(&e)?,
            }
        }
    }
}

fn menu_text() -> String {
    let names: Vec<&str> = HOSTED_PROVIDERS.iter().map(|h| h.name).collect();
    format!(
        "No model is set up yet. Choose one, then your prompt is answered:\n\
         \x20 1  paste an API key\n\
         \x20    ({})\n\
         \x20 2  use a server that you start on this machine (Ollama, llama.cpp, LM Studio)\n\
         \x20 3  install a tiny model here, only for trying aish out (127 MB)\n\
         \x20 4  use any other OpenAI-compatible server\n\
         \x20 q  quit\n",
        names.join(", ")
    )
}
