//! The parts of a prompt: its context, its tools, and its record.

use std::sync::Arc;

use super::last_command::{self, LastOutput};
use super::prompt_context::{self, FailedAgain};
use super::rules_in_force::{self, RequestContext};
use super::sent_context::SentContext;
use super::surroundings::Surroundings;
use super::terminal_output::{self, WantedOutput};
use super::tool_exposure::{self, SelectedTools};
use super::work_scope;
use crate::config::ToolSelection;
use crate::config::packs::PromptPack;
use crate::error::{Error, Result};
use crate::history::record::RecordBody;
use crate::mcp::ToolCatalog;
use crate::protocol::{AskRequest, OutputChoice, SettingName, ShellId};
use crate::safety::policy::TERMINAL_OUTPUT_RULE;
use crate::services::SharedServices;
use crate::services::mcp_startup::PendingStart;
use crate::services::model::ChosenModel;
use crate::session::conversation::Session;
use crate::session::feed::TurnFeed;

/// Context window, in tokens, up to which no built-in tools are offered, and up to which a model that aish serves gets neither recent
/// commands nor the state of the git repository.
const SMALL_WINDOW: u32 = 8192;

/// The parts of the prompt of a client.
#[derive(Debug)]
pub struct PromptParts {
    /// The request.
    pub ask: AskRequest,
    /// The tools to offer.
    pub tools: ToolSelection,
    /// The prompt pack, if one is used.
    pub pack: Option<Arc<PromptPack>>,
    /// MCP servers to start.
    pub servers: Option<PendingStart>,
    /// The id of the prompt; `None` for one that is not sent.
    pub prompt_id: Option<String>,
}

impl PromptParts {
    /// Adapts the model to the prompt.
    ///
    /// # Errors
    /// The prompt has images and the model takes none.
    pub fn fit(&self, chosen: &mut ChosenModel) -> Result<()> {
        chosen.endpoint.thinks = self.ask.think;
        if !self.ask.images.is_empty() && chosen.is_aish_server {
            let message = format!("{} takes no images over HTTP", chosen.name);
            return Err(Error::usage(message)
                .hint("choose a model that is configured on this machine: -m NAME"));
        }
        if !self.ask.images.is_empty() && !chosen.endpoint.images {
            return Err(Error::usage(format!(
                "the model \"{}\" is not configured for images",
                chosen.name
            ))
            .hint(format!(
                "if it accepts them, set images = true in [models.{}]; otherwise choose another with -m",
                chosen.name
            )));
        }
        Ok(())
    }
}

/// A prompt with its context and its tools.
#[derive(Debug)]
pub struct PreparedPrompt {
    /// The shell.
    pub shell: Option<ShellId>,
    /// The record of the prompt.
    pub user: RecordBody,
    /// The tools; `None` if the prompt uses none.
    pub tools: Option<(ToolCatalog, SelectedTools)>,
    /// The rules that decide on its calls.
    pub request: RequestContext,
    /// Whether images are sent.
    pub has_images: bool,
    /// Whether it decides about the output of the last command: it is not about its input only.
    pub decides_output: bool,
    /// A failed command of the user that the prompt asks about and whose output is missing.
    pub again: Option<FailedAgain>,
}

impl PreparedPrompt {
    /// Waits for the tools, reads the resources, and renders the prompt.
    ///
    /// # Errors
    /// The rules of the directory or a resource cannot be read, or the turn was cancelled.
    pub async fn new(
        services: &SharedServices,
        feed: &TurnFeed,
        session: &Session,
        chosen: &mut ChosenModel,
        parts: PromptParts,
    ) -> Result<PreparedPrompt> {
        let PromptParts {
            mut ask,
            tools: mut selection,
            mut pack,
            servers,
            prompt_id,
        } = parts;
        let is_small = is_small(chosen);
        let withholds_output = chosen.is_aish_server && ask.output == OutputChoice::Auto;
        if chosen.is_aish_server {
            // The server has its own tools, and gets only what the user has written, attached and approved.
            selection = ToolSelection::Matching(Vec::new());
            pack = None;
            if withholds_output {
                ask.output = OutputChoice::Never;
            }
        }
        let (server, tool) = TERMINAL_OUTPUT_RULE;
        let terminal = ask
            .shell
            .as_ref()
            .filter(|_| !is_small && ask.output != OutputChoice::Never)
            .filter(|_| selection.matches(&format!("{server}.{tool}")))
            .filter(|_| chosen.config.context.output_bytes > 0)
            .map(|shell| WantedOutput::of(shell, &ask));
        let terminal = match terminal {
            Some(wanted) if terminal_output::is_readable(services, &wanted).await => Some(wanted),
            _ => None,
        };
        // Their descriptions would fill much of a small window.
        let has_space = chosen.window.is_none_or(|window| window > SMALL_WINDOW);
        let is_offered = !is_small && has_space && !selection.is_none();
        let offered = match chosen.config.tools.builtin && is_offered {
            true => {
                let all = services.helpers.catalog(&services.paths).await;
                let helpers = SelectedTools::helpers(&selection, &all);
                (SelectedTools::work_tools(&selection, &helpers), helpers)
            }
            false => Default::default(),
        };
        let prompt = prompt_id.as_deref();
        let work =
            work_scope::offered_work(services, session, chosen, &ask, offered, prompt).await?;
        // Once for the whole turn, so that the directory's rules also apply to servers connected meanwhile.
        let with_tools = !selection.is_none()
            && (terminal.is_some() || work.is_some() || tool_exposure::any(services, chosen));
        if with_tools {
            apply_rules(feed, chosen, &ask.cwd).await?;
        }
        let mut selected = SelectedTools::new(selection);
        let all = tool_exposure::catalog(services, feed, chosen, servers).await?;
        let catalog = selected.of(all);
        if let Some(text) = selected.unmatched(&catalog, work.is_some()) {
            feed.notice(text);
        }
        let of_session = || session.setting(SettingName::Tools.as_str());
        let named = ask.tools.clone().or_else(of_session);
        if let Some(text) = named.filter(|_| !chosen.is_aish_server) {
            let (config, connected) = (&chosen.config, selected.connected());
            for line in tool_exposure::unknown_names(services, config, &text, connected).await {
                feed.notice(line);
            }
        }
        let read = prompt_context::resources(services, feed, &ask.resources).await?;
        ask.attachments.extend(read);
        let commands = last_command::recent(services, session, chosen, &ask);
        let (mut surroundings, mut last) = tokio::join!(
            Surroundings::look(&chosen.config.context, &ask.cwd),
            last_command::output(services, session, chosen, &ask, &commands)
        );
        if is_small {
            surroundings.git = None;
            surroundings.without_commands = true;
            if ask.output == OutputChoice::Auto {
                last = LastOutput::NotWanted;
            }
        }
        if chosen.is_aish_server {
            surroundings = Surroundings {
                without_commands: true,
                ..Surroundings::default()
            };
        }
        let content = prompt_context::content(
            services,
            session,
            chosen,
            &ask,
            &surroundings,
            &commands,
            last,
        );
        let withheld = match withholds_output {
            true => last_command::withheld_output(&ask, &commands),
            false => None,
        };
        let has_commands = !surroundings.without_commands && !commands.is_empty();
        let context = SentContext {
            // It is named with the commands, and as the place where the built-in tools work.
            has_directory: has_commands || work.is_some(),
            has_commands,
            has_git: surroundings.git.is_some(),
            project_file: surroundings
                .project_file
                .as_ref()
                .map(|(name, _)| name.clone()),
        };
        let told = ask
            .tells_context
            .then(|| context.announce_new_parts(&services.paths.state));
        let notices = [
            told.flatten(),
            content.interrupted,
            content.notice,
            withheld,
        ];
        for text in notices.into_iter().flatten() {
            feed.notice(text);
        }
        let mut request = RequestContext::from(&ask);
        request.pack.clone_from(&pack);
        request.surroundings = surroundings;
        request.terminal = terminal;
        request.work = work;
        let has_images = !ask.images.is_empty();
        let is_about_commands = ask.attachments.is_empty() && !commands.is_empty();
        let decides_output = is_about_commands || ask.output != OutputChoice::Auto;
        let user = RecordBody::User {
            text: ask.text,
            content: content.text,
            output: content.output,
            shell: ask.shell.as_ref().map(ShellId::to_string),
            cwd: ask.cwd.clone(),
            images: std::mem::take(&mut ask.images),
            pack: pack.as_deref().map(prompt_context::used_pack),
        };
        Ok(PreparedPrompt {
            shell: ask.shell,
            user,
            tools: with_tools.then_some((catalog, selected)),
            request,
            has_images,
            decides_output,
            again: content.again,
        })
    }
}

/// Whether aish serves the model and its window is small. Lines before the words of a prompt make a tiny model answer nonsense.
fn is_small(chosen: &ChosenModel) -> bool {
    let model = chosen.config.models.get(&chosen.name);
    let is_small = |window| window <= SMALL_WINDOW;
    model.is_some_and(|m| m.serve.is_some() && m.context_window.is_none_or(is_small))
}

/// Adds the project rules of a directory, and reports faults in them.
///
/// # Errors
/// They cannot be read.
pub async fn apply_rules(feed: &TurnFeed, chosen: &mut ChosenModel, cwd: &str) -> Result<()> {
    for text in rules_in_force::apply(&mut chosen.config, cwd).await? {
        feed.notice(text);
    }
    Ok(())
}
