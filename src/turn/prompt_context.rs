//! Builds the context that is sent with a prompt: recent commands, attachments, instructions.

use super::rules_in_force::RequestContext;
use super::surroundings::{self, Surroundings};
use crate::config::ContextSettings;
use crate::config::packs::PromptPack;
use crate::context::{self, FinishedCommand, ObservedCommand, ShellContext};
use crate::error::{Error, Result};
use crate::history::record::{RecordBody, UsedPack};
use crate::protocol::{AskRequest, Attachment};
use crate::services::SharedServices;
use crate::services::model::ChosenModel;
use crate::session::conversation::{Session, since_last_prompt};
use crate::session::feed::TurnFeed;
use crate::session::lock;

/// Maximum size of an attached MCP resource in bytes, as for an attached file.
const RESOURCE_BYTES: usize = 1 << 20;

/// Returns the prompt with its context, and a notice if the output of a failed command is missing. Each command is part
/// of one prompt only, so that the notice appears once.
pub fn content(
    services: &SharedServices,
    session: &Session,
    chosen: &ChosenModel,
    ask: &AskRequest,
    surroundings: &Surroundings,
) -> (String, Option<String>) {
    let commands = match &ask.shell {
        Some(shell) if !surroundings.without_commands => {
            let last_prompt = session.last_prompt_ms(shell);
            lock(&services.shells).since(shell, last_prompt, chosen.config.context.commands)
        }
        _ => Vec::new(),
    };
    // The plugin records more variables than the configuration allows for the model.
    let names = &chosen.config.context.env;
    let wanted = |var: &&String| {
        var.split_once('=')
            .is_some_and(|(name, _)| names.iter().any(|n| n == name))
    };
    let env: Vec<String> = match commands.last() {
        Some(RecordBody::ShellCommand { env, .. }) => env.iter().filter(wanted).cloned().collect(),
        _ => Vec::new(),
    };
    session.with_records(|records| {
        let facts = ShellContext {
            cwd: &ask.cwd,
            git: surroundings.git.as_deref(),
            commands: commands
                .iter()
                .filter_map(|body| match body {
                    RecordBody::ShellCommand {
                        command,
                        cwd,
                        exit,
                        duration_ms,
                        ..
                    } => Some(ObservedCommand {
                        command,
                        cwd,
                        exit: *exit,
                        duration_ms: *duration_ms,
                    }),
                    _ => None,
                })
                .collect(),
            env: &env,
            finished: since_last_prompt(records)
                .iter()
                .filter_map(|r| exec_fact(&r.body))
                .collect(),
            attachments: ask
                .attachments
                .iter()
                .map(|a| (a.name.as_str(), a.text.as_str()))
                .collect(),
        };
        (
            context::render_prompt(&ask.text, &facts),
            context::unseen_failure(&ask.text, &facts),
        )
    })
}

fn exec_fact(body: &RecordBody) -> Option<FinishedCommand<'_>> {
    match body {
        RecordBody::CommandResult {
            command,
            exit,
            output,
            ..
        } => Some(FinishedCommand {
            command,
            exit: *exit,
            output: output.as_ref(),
        }),
        _ => None,
    }
}

/// Returns the system prompt: the instructions of the pack, of the configuration, or the built-in ones with facts about system and
/// date, and what configuration and pack add. With tools, instructions for using them follow; `split` selects those for tools
/// that the model finds by search.
pub fn system_prompt(
    chosen: &ChosenModel,
    request: &RequestContext,
    tools: bool,
    split: bool,
) -> String {
    let surroundings = &request.surroundings;
    let of_pack = |key| request.pack.as_ref().and_then(|pack| pack.text(key));
    let base = of_pack("system").or(chosen.config.system_prompt.as_deref());
    let mut prompt = match base {
        Some(text) => text.to_owned(),
        None => with_facts(context::SYSTEM_PROMPT, &surroundings.facts),
    };
    let project_file = surroundings.project_file.as_ref();
    let project_file = project_file.map(|(name, text)| context::render_project_file(name, text));
    let of_tools = match (tools, split) {
        (false, _) => None,
        (true, true) => Some(context::SPLIT_PROMPT),
        (true, false) => Some(context::TOOLS_PROMPT),
    };
    let parts = [
        chosen.config.system_append.as_deref(),
        of_pack("system_append"),
        of_tools,
        of_pack("tools").filter(|_| tools),
        of_pack("format"),
        of_pack("safety"),
        project_file.as_deref(),
    ];
    for part in parts.into_iter().flatten() {
        prompt.push('\n');
        prompt.push_str(part);
    }
    prompt
}

/// Returns what the journal keeps of a pack.
pub fn used_pack(pack: &PromptPack) -> UsedPack {
    UsedPack {
        name: pack.name.clone(),
        version: pack.text("version").map(str::to_owned),
        sha256: pack.sha256.clone(),
    }
}

/// Returns the system prompt for a single command.
pub fn command_prompt(settings: &ContextSettings) -> String {
    with_facts(context::COMMAND_PROMPT, &surroundings::facts(settings))
}

fn with_facts(instructions: &str, facts: &str) -> String {
    match facts {
        "" => instructions.to_owned(),
        facts => format!("{instructions}\n{facts}"),
    }
}

/// Reads the MCP resources attached to a prompt, `alias:uri`.
///
/// # Errors
/// A resource cannot be read. The prompt fails, since it refers to the resource.
pub async fn resources(
    services: &SharedServices,
    feed: &TurnFeed,
    names: &[String],
) -> Result<Vec<Attachment>> {
    let mut read = Vec::new();
    for name in names {
        let Some((alias, uri)) = name.split_once(':') else {
            return Err(Error::usage(format!("not a resource name: {name}"))
                .hint("a resource is SERVER:URI; see them with: llm :mcp resources"));
        };
        let get = services
            .mcp
            .resource(alias, uri, RESOURCE_BYTES, feed.cancel_token());
        let text = feed.unless_cancelled(get).await?;
        read.push(Attachment {
            name: name.clone(),
            text,
        });
    }
    Ok(read)
}
