//! `aish-helper ask` and `aish-helper attach`: the command line of one prompt, and following its answer.

use std::io::IsTerminal;

use super::call::current_directory;
use super::server_token::ServerAccess;
use super::{args, dry_run, model, onboarding, print, print_json};
use crate::client::ask::{self, AskOutcome};
use crate::client::attachments::PromptAttachments;
use crate::client::command_suggestion;
use crate::client::output_options::{OutputFormat, OutputOptions};
use crate::client::prompt_input::{self, PromptSource};
use crate::client::terminal::{ControllingTty, tty_name};
use crate::client::text_format::short_id;
use crate::client::{config_question, pack_question};
use crate::config::env_overrides;
use crate::error::{Error, ErrorKind, Result};
use crate::paths::{Paths, terminal_variables, work_variables};
use crate::protocol::{
    AskPurpose, AskRequest, AttachRequest, OutputChoice, SessionChoice, ShellId,
};

/// Exit code that informs the zsh function that proposed commands are waiting.
const PROPOSALS_WAITING: u8 = 10;

/// Converts zsh's `EPOCHREALTIME`, seconds with a fraction, to milliseconds.
fn milliseconds(seconds: &str) -> Option<u64> {
    let seconds: f64 = seconds.parse().ok()?;
    // The same arithmetic as for events of the hooks, so that both give the same number.
    Some((seconds * 1000.0) as u64)
}

/// Sends a prompt and shows the answer. If no model is configured, helps the user to configure one and asks again.
///
/// # Errors
/// The request failed.
pub fn run(paths: &Paths, args: args::AskArgs) -> Result<u8> {
    let options = output_options(args.json, args.raw, args.think);
    let has_input = !args.words.is_empty()
        || args.prompt_fd.is_some()
        || !args.files.is_empty()
        || args.input.is_some()
        || args.edit;
    if args.attach.is_some() && !has_input && !prompt_input::stdin_has_data() {
        return follow(paths, args.attach, args.shell, options, args.offer);
    }
    if args.edit {
        paths.prepare_run()?;
    }
    let words = match args.prompt_fd {
        Some(fd) => vec![prompt_input::read_descriptor(fd)?.into()],
        None => args.words,
    };
    let source = PromptSource {
        words: &words,
        unquoted: args.prompt_fd.is_some(),
        files: &args.files,
        input: args.input.as_deref(),
        edit_in: args.edit.then_some(&*paths.run),
        // Only for words that a person typed: a script may pass words of others, which must not pick files.
        mentions: args.shell.is_some() && !args.literal && !args.submitted && !args.command,
    };
    let (text, attached) = match args.follow {
        // The daemon knows what to say.
        true => (String::new(), PromptAttachments::new()),
        false => prompt_input::read_prompt(&source)?,
    };
    let mut request = AskRequest {
        session: if args.new {
            SessionChoice::New
        } else if args.continue_ {
            SessionChoice::Continue
        } else {
            args.attach
                .clone()
                .map_or(SessionChoice::Shell, SessionChoice::Attach)
        },
        shell: args.shell,
        model: args.model,
        text,
        attachments: attached.texts,
        images: attached.images,
        cwd: std::env::current_dir()
            .map(|d| d.display().to_string())
            .unwrap_or_default(),
        started_ms: args.started.as_deref().and_then(milliseconds),
        purpose: match args.command {
            true => AskPurpose::Command,
            false => AskPurpose::Prompt,
        },
        overrides: env_overrides()?,
        tools: match args.no_tools {
            true => Some("none".to_owned()),
            false => args.tools,
        },
        pack: args.prompt,
        think: args.think,
        resources: args.resources,
        background: args.background,
        // Without a terminal the client declines each question itself, with a notice that names the tool.
        can_answer: !args.background && !args.command,
        tty: tty_name(),
        follows: args.follow,
        submitted: args.submitted,
        add_dirs: args.add_dir,
        work_env: work_variables(),
        terminal: terminal_variables(),
        line: prompt_input::read_line(args.line_fd),
        output: match (args.output, args.no_output) {
            (true, _) => OutputChoice::Always,
            (_, true) => OutputChoice::Never,
            _ => OutputChoice::Auto,
        },
        tells_context: false,
    };
    if args.dry_run {
        return dry_run::show(paths, request, args.json);
    }
    if request.shell.is_some() && !(args.json || args.command || args.background) {
        request.tells_context = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
    }
    if args.background {
        let accepted = ask::ask_in_background(paths, request)?;
        if args.json {
            print_json(&accepted)?;
        } else {
            let id = short_id(&accepted.session);
            print(&format!(
                "session {id}: the answer continues in the background; llm :attach {id} shows it\n"
            ))?;
        }
        return Ok(0);
    }
    let once = || -> Result<std::result::Result<u8, Error>> {
        if args.command {
            return Ok(command_suggestion::suggest(paths, request.clone())?.map_or(Ok(0), Err));
        }
        Ok(exit_code(confirmed(paths, &request, options)?, args.offer))
    };
    match once()? {
        Ok(code) => Ok(code),
        // In a script or a pipe nobody can answer questions about the configuration.
        Err(e)
            if !args.json
                && std::io::stdin().is_terminal()
                && std::io::stdout().is_terminal()
                && std::io::stderr().is_terminal() =>
        {
            onboarding::run(paths, e)?;
            once()?
        }
        Err(e) => Err(e),
    }
}

/// Sends a request, and asks the person about a loosened configuration and an unapproved prompt pack first.
fn confirmed(paths: &Paths, request: &AskRequest, options: OutputOptions) -> Result<AskOutcome> {
    let mut outcome = ask::ask(paths, request.clone(), options)?;
    if let AskOutcome::ConfigChanged(changes) = &outcome {
        config_question::ask(paths, changes)?;
        outcome = ask::ask(paths, request.clone(), options)?;
    }
    if let AskOutcome::PackUnapproved(pack) = &outcome {
        pack_question::ask(paths, pack)?;
        outcome = ask::ask(paths, request.clone(), options)?;
    }
    Ok(outcome)
}

/// Replaces the older part of a session by a summary, which is shown.
///
/// # Errors
/// There is no such session, it has nothing to summarize, or the request failed.
pub fn compact(
    paths: &Paths,
    id: Option<String>,
    model: Option<String>,
    shell: Option<ShellId>,
    json: bool,
) -> Result<()> {
    let session = match (id, &shell) {
        (Some(id), _) => SessionChoice::Attach(id),
        (None, Some(_)) => SessionChoice::Shell,
        (None, None) => SessionChoice::Continue,
    };
    let request = AskRequest {
        // A session that is named by its id does not become that of the shell.
        shell: shell.filter(|_| session == SessionChoice::Shell),
        session,
        model,
        text: "summarize the session".to_owned(),
        purpose: AskPurpose::Compaction,
        cwd: current_directory(),
        overrides: env_overrides()?,
        can_answer: true,
        tty: tty_name(),
        ..AskRequest::default()
    };
    let outcome = confirmed(paths, &request, output_options(json, false, false))?;
    exit_code(outcome, false).map(drop)
}

/// Follows the running answer of a session, or shows its last answer.
///
/// # Errors
/// There is no such session, or the request failed.
pub fn attach(paths: &Paths, args: args::AttachArgs) -> Result<u8> {
    if let Some(url) = args.id.as_deref().filter(|id| id.contains("://")) {
        return attach_server(paths, url, args.shell).map(|()| 0);
    }
    let options = output_options(args.json, args.raw, args.think);
    follow(paths, args.id, args.shell, options, args.offer)
}

/// Lets another aish server answer the prompts of the session of a shell.
fn attach_server(paths: &Paths, url: &str, shell: Option<ShellId>) -> Result<()> {
    if shell.is_none() {
        let message = "the server is attached in a shell";
        return Err(Error::usage(message)
            .hint("in a shell: llm :attach URL; for a new shell: aish attach URL"));
    }
    let access = ServerAccess::new(paths, url)?;
    access.ready()?;
    model::choose(paths, access.origin(), shell, false, false)
}

fn follow(
    paths: &Paths,
    session: Option<String>,
    shell: Option<ShellId>,
    options: OutputOptions,
    offer: bool,
) -> Result<u8> {
    let request = AttachRequest {
        session,
        shell,
        can_answer: ControllingTty::open().is_ok(),
        tty: tty_name(),
    };
    exit_code(ask::attach(paths, request, options)?, offer)
}

fn output_options(json: bool, raw: bool, think: bool) -> OutputOptions {
    let format = match (json, raw) {
        (true, _) => OutputFormat::Json,
        (_, true) => OutputFormat::Raw,
        _ => OutputFormat::Auto,
    };
    OutputOptions {
        format,
        reasoning: think,
    }
}

/// Returns the exit code of an answered prompt, or the error if no model is configured.
fn exit_code(outcome: AskOutcome, offer: bool) -> std::result::Result<u8, Error> {
    match outcome {
        AskOutcome::Answered(answer) if offer && answer.proposals > 0 => Ok(PROPOSALS_WAITING),
        AskOutcome::Answered(_) => Ok(0),
        AskOutcome::DeniedWithoutTerminal => Ok(ErrorKind::Approval.exit_code()),
        AskOutcome::NothingConfigured(e) => Err(e),
        AskOutcome::ConfigChanged(_) => Err(Error::config(
            "the configuration has changed again since it was shown",
        )
        .hint("run llm again to see the difference")),
        AskOutcome::PackUnapproved(_) => Err(Error::config(
            "the prompt pack has changed again since it was shown",
        )
        .hint("run llm again to see it")),
    }
}
