//! Builds the context that is sent with a prompt: recent commands, attachments, instructions.

use crate::context::{self, FinishedCommand, ObservedCommand, ShellContext};
use crate::error::{Error, Result};
use crate::history::record::RecordBody;
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
) -> (String, Option<String>) {
    let commands = match &ask.shell {
        Some(shell) => {
            let last_prompt = session.last_prompt_ms(shell);
            lock(&services.shells).since(shell, last_prompt, chosen.config.context.commands)
        }
        None => Vec::new(),
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

/// Returns the system prompt: the configured one, or the default with facts about the system, and what the user adds. With tools, it ends with
/// instructions for using them; `split` selects those for tools that the model finds by search.
pub fn system_prompt(chosen: &ChosenModel, tools: bool, split: bool) -> String {
    let mut prompt = match &chosen.config.system_prompt {
        Some(configured) => configured.clone(),
        None => format!("{}\n{}", context::SYSTEM_PROMPT, system_facts()),
    };
    if let Some(more) = &chosen.config.system_append {
        prompt.push('\n');
        prompt.push_str(more);
    }
    if tools {
        prompt.push('\n');
        prompt.push_str(match split {
            true => context::SPLIT_PROMPT,
            false => context::TOOLS_PROMPT,
        });
    }
    prompt
}

/// Returns the system prompt for a single command.
pub fn command_prompt() -> String {
    format!("{}\n{}", context::COMMAND_PROMPT, system_facts())
}

fn system_facts() -> String {
    format!(
        "System: {} ({}).",
        std::env::consts::OS,
        std::env::consts::ARCH
    )
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
