//! The command line and the admin commands, one file per command.

pub mod activity;
pub mod args;
pub mod ask;
pub mod available_models;
mod call;
mod changes;
mod clipboard;
pub mod completions;
pub mod config;
pub mod daemon;
pub mod doctor;
mod dry_run;
mod fix;
mod helper;
mod last_answer;
pub mod launcher;
mod man_page;
pub mod mcp;
mod mcp_import;
pub mod mcp_login;
pub mod model;
mod model_add;
pub mod model_install;
pub mod onboarding;
mod output;
pub mod policy;
mod prompt;
mod record;
mod record_view;
pub mod recording;
pub mod redact;
pub mod replay;
pub mod sandbox;
pub mod server;
mod server_token;
pub mod session;
mod session_config;
mod session_picker;
mod setup_dialog;
mod share;
pub mod stats;
pub mod status;
mod table;
pub mod tools;

use std::ffi::OsString;
use std::io::{IsTerminal, Read, Write};

use args::{Cli, CliCommand, ConfigCommand, ModelCommand};
use clap::{Args, CommandFactory, FromArgMatches, Parser};

use crate::client::propose::{self, ProposalStep};
use crate::client::{capture, connect, env_review, styled_line, terminal};
use crate::config::{ConfigOverrides, env_overrides};
use crate::error::{Error, ErrorContext, ErrorKind, Result};
use crate::paths::{Paths, make_dir, make_fifo};
use crate::protocol::Request;
use crate::safety::text;

/// Parses the command line; `--help` and `--version` print and exit.
///
/// `ask` and what the plugin runs for an approved command are the hot path, a daemon and a recorder run for long, and a sandbox runs
/// three stages: only their own parsers are built. If such a parser fails, the full parser runs and reports the error.
///
/// # Errors
/// The command line is invalid.
pub fn parse() -> Result<Cli> {
    let mut words = std::env::args_os();
    let program = words.next().unwrap_or_default();
    let words: Vec<OsString> = words.collect();
    if launcher::is_launcher(&program) {
        return launcher::parse(&program, words).map(|args| Cli {
            command: CliCommand::Launch(args),
        });
    }
    let command = match words.first().and_then(|word| word.to_str()) {
        Some("ask") => parse_alone(words).map(CliCommand::Ask),
        Some("propose") => parse_alone(words).map(CliCommand::Propose),
        Some("capture") => parse_alone(words).map(CliCommand::Capture),
        Some("exec-done") => parse_alone(words).map(CliCommand::ExecDone),
        Some("fix") => parse_alone(words).map(CliCommand::Fix),
        Some("daemon") => parse_alone(words).map(CliCommand::Daemon),
        Some("record") => parse_alone(words).map(CliCommand::Record),
        Some("sandbox") => parse_alone(words).map(CliCommand::Sandbox),
        Some("record-pane") => parse_alone(words).map(CliCommand::RecordPane),
        Some(record::RELAY) => Some(CliCommand::RecordRelay {
            words: words.into_iter().skip(1).collect(),
        }),
        _ => None,
    };
    if let Some(command) = command {
        return Ok(Cli { command });
    }
    Cli::try_parse().map_err(|e| usage_error(&e, std::env::args_os().skip(1)))
}

/// Parses the arguments of one command; `None` if they are wrong or ask for help.
fn parse_alone<A: Args + FromArgMatches>(words: Vec<OsString>) -> Option<A> {
    let parser = clap::Command::new("aish").version(env!("CARGO_PKG_VERSION"));
    let matches = A::augment_args(parser).try_get_matches_from(words);
    match matches.and_then(|matches| A::from_arg_matches(&matches)) {
        Err(e) if e.kind() == clap::error::ErrorKind::DisplayVersion => e.exit(),
        parsed => parsed.ok(),
    }
}

/// Maximum size of the list of changed variables.
const MAX_CHANGES: u64 = 1 << 20;

/// Converts an error of clap to one line and a hint.
fn usage_error(e: &clap::Error, words: impl Iterator<Item = OsString>) -> Error {
    let mut command = &Cli::command();
    let mut path = String::from("aish-helper");
    let mut wrong = String::new();
    for word in words {
        let word = word.to_string_lossy().into_owned();
        let Some(inner) = command.find_subcommand(&word) else {
            wrong = word;
            break;
        };
        path.push_str(&format!(" {word}"));
        command = inner;
    }
    let groups = command.get_subcommands().filter(|c| !c.is_hide_set());
    let mut groups = groups.filter(|group| group.find_subcommand(&wrong).is_some());
    // Several groups have words such as `list`: none of them is named.
    let group = groups.next().filter(|_| groups.next().is_none());
    match group.filter(|_| e.kind() == clap::error::ErrorKind::InvalidSubcommand) {
        Some(group) => clap_error(e, &format!("{path} {} {wrong} --help", group.get_name())),
        None if path == "aish-helper ask" => clap_error(e, "llm :help, or aish-helper ask --help"),
        None => clap_error(e, &format!("{path} --help")),
    }
}

/// Converts an error of clap to one line and a hint, which ends in the place that says more. Help texts are printed
/// unchanged.
fn clap_error(e: &clap::Error, see: &str) -> Error {
    use clap::error::ErrorKind;
    if !e.use_stderr() || e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        e.exit();
    }
    let rendered = e.to_string();
    let summary: Vec<&str> = rendered
        .lines()
        .map(str::trim)
        .take_while(|l| !l.is_empty())
        .collect();
    let summary = summary.join(" ");
    let summary = summary.strip_prefix("error: ").unwrap_or(&summary);
    let summary = summary.replace("invalid digit found in string", "not a whole number");
    let tip = rendered
        .lines()
        .find_map(|l| l.trim().strip_prefix("tip: "));
    let tip = tip.map(|t| format!("{t}; ")).unwrap_or_default();
    Error::usage(summary).hint(format!("{tip}see: {see}"))
}

/// Runs the parsed command and returns the exit code.
///
/// # Errors
/// The command failed; the kind of the error determines the exit code.
pub fn run(cli: Cli) -> Result<u8> {
    let paths = Paths::from_env;
    match cli.command {
        CliCommand::Ask(args) => return ask::run(&paths()?, args),
        CliCommand::Attach(args) => return ask::attach(&paths()?, args),
        CliCommand::Status(args) => status::run(&paths()?, args.json, args.shell)?,
        CliCommand::Start => daemon::start(&paths()?)?,
        CliCommand::Stop(args) => daemon::stop(&paths()?, args.now)?,
        CliCommand::Restart(args) => daemon::restart(&paths()?, args.now)?,
        CliCommand::Daemon(args) => daemon::run(paths()?, args.detach)?,
        CliCommand::Serve(args) => server::serve(&paths()?, args)?,
        CliCommand::Web(args) => server::web(&paths()?, args)?,
        CliCommand::Output(args) => return output::run(&paths()?, args),
        CliCommand::Doctor(args) => return doctor::run(paths(), args.json),
        CliCommand::Config(ConfigCommand::Path(args)) => {
            print(&config::path(&paths()?, args.json)?)?
        }
        CliCommand::Config(ConfigCommand::Check(args)) => {
            let (text, code) = config::check(&paths()?, args.json);
            match args.json {
                true => print(&text)?,
                false => print_wrapped(&text)?,
            }
            return Ok(code);
        }
        CliCommand::Config(ConfigCommand::Show(args)) => {
            let overrides = ConfigOverrides::from_map(&env_overrides()?)?;
            // Not wrapped: the values are TOML that can be copied.
            print(&config::show(&paths()?, &overrides, args.json)?)?
        }
        CliCommand::Model(ModelCommand::List {
            filter,
            available,
            names,
            json,
            shell,
        }) => match names {
            true => model::names(&paths()?)?,
            false => model::list(&paths()?, shell, filter, available, json)?,
        },
        CliCommand::Model(ModelCommand::Add(args)) => model_add::run(&paths()?, args)?,
        CliCommand::Model(ModelCommand::Use {
            name,
            shell,
            save,
            json,
        }) => model::choose(&paths()?, &name, shell, save, json)?,
        CliCommand::Model(ModelCommand::Refresh(args)) => {
            available_models::refresh(&paths()?, args.json)?
        }
        CliCommand::Model(ModelCommand::Install(args)) => model::install(&paths()?, &args)?,
        CliCommand::Prompt(command) => prompt::run(&paths()?, command)?,
        CliCommand::Session(command) => session::run(&paths()?, command)?,
        CliCommand::Mcp(command) => mcp::run(&paths()?, command)?,
        CliCommand::Stats(args) => stats::run(&paths()?, &args)?,
        CliCommand::Activity(command) => activity::run(&paths()?, command)?,
        CliCommand::Policy(command) => policy::run(&paths()?, command)?,
        CliCommand::Recording(command) => recording::run(&paths()?, command)?,
        CliCommand::Replay(args) => replay::run(&paths()?, &args)?,
        CliCommand::Record(args) => return record::run(&paths()?, args),
        CliCommand::Sandbox(args) => return sandbox::run(args),
        CliCommand::Redact(args) => redact::run(&paths()?, &args)?,
        CliCommand::Tools(command) => tools::run(&paths()?, command)?,
        CliCommand::Call(command) => return call::run(&paths()?, command),
        CliCommand::Changes(command) => return changes::run(&paths()?, command),
        CliCommand::Helper(command) => return helper::run(&paths()?, command),
        CliCommand::Completions { program } => print(&completions::zsh_completions(program))?,
        CliCommand::Man { page } => print(&man_page::render(page)?)?,
        CliCommand::Propose(args) => {
            let edited = match args.edited {
                Some(token) => {
                    let mut text = String::new();
                    std::io::stdin()
                        .read_to_string(&mut text)
                        .context(|| "cannot read the edited command".into())?;
                    Some((token, text))
                }
                None => None,
            };
            let step = match (args.check, args.incomplete, args.interrupted) {
                (true, ..) => ProposalStep::Check,
                (_, true, _) => ProposalStep::AskIncomplete,
                (.., true) => ProposalStep::Interrupted,
                _ => ProposalStep::Ask,
            };
            let cwd = call::current_directory();
            let outcome = propose::propose(&paths()?, &args.shell, &cwd, edited, step)?;
            // Not through the text sink: the zsh function needs exactly the bytes that were shown.
            write(&format!("{}\n", outcome.lines()))?;
        }
        CliCommand::Capture(args) => match args.pump {
            Some(pty) => capture::pump(&paths()?, &args.shell, &args.token, &pty)?,
            None => {
                let nonce = nonce()?;
                let path = capture::start(&args.shell, &args.token, &nonce)?;
                write(&format!("{path}\n"))?;
            }
        },
        CliCommand::MakeTuiFifo { shell } => {
            let paths = paths()?;
            paths.prepare_run()?;
            make_dir(&paths.driven_shells())?;
            make_fifo(&paths.driven_shells().join(shell.as_str()))?;
        }
        // Not through the text sink: the zsh function needs exactly the bytes of the command.
        CliCommand::Fix(args) => write(&fix::run(paths, args)?)?,
        CliCommand::Launch(args) => return launcher::run(args),
        CliCommand::RecordPane(args) => record::pane(args)?,
        CliCommand::RecordRelay { words } => return record::relay(words),
        CliCommand::ReviewEnv => {
            let mut changes = Vec::new();
            std::io::stdin()
                .take(MAX_CHANGES)
                .read_to_end(&mut changes)
                .context(|| "cannot read the changed variables".into())?;
            let review = env_review::review(&changes)?;
            for notice in review.notices {
                // A closed stderr cannot be reported anywhere.
                let _ = writeln!(std::io::stderr(), "[aish] {notice}");
            }
            review
                .accepted
                .iter()
                .try_for_each(|name| write(&format!("{name}\n")))?;
        }
        CliCommand::ExecDone(args) => {
            let request = Request::ExecDone {
                shell: args.shell,
                token: args.token,
                nonce: nonce()?,
                exit: args.exit,
            };
            connect::request::<()>(&paths()?, &request)?;
        }
    }
    Ok(0)
}

/// Reads the nonce of an approval. A terminal has none: a shell with an older plugin must not wait for it.
fn nonce() -> Result<String> {
    let stdin = std::io::stdin();
    match stdin.is_terminal() {
        true => Ok(String::new()),
        false => capture::read_nonce(stdin),
    }
}

/// Prints text with untrusted parts through the text sink.
///
/// # Errors
/// Writing to stdout failed; a closed pipe is not an error.
pub fn print(text: &str) -> Result<()> {
    write(&text::prose(text))
}

/// Prints styled lines, with colours on a terminal that shows them.
fn print_styled(lines: &[styled_line::StyledLine]) -> Result<()> {
    let in_colour = terminal::colors(&std::io::stdout());
    let mut text = String::new();
    for line in lines {
        styled_line::paint(line, in_colour, &mut text);
        text.push('\n');
    }
    write(&text)
}

/// Prints lines with untrusted parts. A terminal gets them wrapped at word ends.
fn print_wrapped(text: &str) -> Result<()> {
    print_hanging(text, 2)
}

/// Prints lines as [`print_wrapped`], with `hang` columns before what follows.
fn print_hanging(text: &str, hang: usize) -> Result<()> {
    let text = text::prose(text);
    match columns() {
        Some(width) => write(&styled_line::wrap_text(&text, width, hang)),
        None => write(&text),
    }
}

/// Width of the terminal on stdout; `None` when stdout is not a terminal, so lines are not cut.
fn columns() -> Option<usize> {
    let stdout = std::io::stdout();
    stdout
        .is_terminal()
        .then(|| crate::client::terminal::size(&stdout).0)
}

fn write(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context(|| "cannot write to stdout".into()),
    }
}

/// Prints a value as one line of JSON.
///
/// # Errors
/// Writing to stdout failed.
pub fn print_json<T: serde::Serialize>(value: &T) -> Result<()> {
    write(&json_line(value)?)
}

/// Formats a value as one line of JSON that is safe to show on a terminal.
///
/// # Errors
/// The value cannot be represented as JSON.
pub fn json_line<T: serde::Serialize>(value: &T) -> Result<String> {
    let mut line = Vec::new();
    crate::safety::json::append_json_line(value, &mut line).context(|| "cannot print".into())?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// Prints an error and its hint on stderr.
pub fn report(e: &Error) {
    let prefix = if e.kind == ErrorKind::Interrupted {
        "[aish]"
    } else {
        "aish:"
    };
    let mut stderr = std::io::stderr();
    let mut out = format!("{prefix} {}\n", text::one_line(&e.message, 1000));
    if let Some(hint) = &e.hint {
        out.push_str(&format!("  {}\n", text::one_line(hint, 1000)));
    }
    if stderr.is_terminal() {
        let width = crate::client::terminal::size(&stderr).0;
        out = out
            .lines()
            .map(|line| styled_line::wrapped(line, width, 2))
            .collect();
    }
    // A closed stderr cannot be reported anywhere.
    let _ = stderr.write_all(out.as_bytes());
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn a_usage_error_names_the_help_of_the_command_that_was_meant() {
        for (words, message, see) in [
            (
                &["session", "list", "--limit", "x"][..],
                "not a whole number",
                "aish-helper session list --help",
            ),
            (
                &["shares", "list"],
                "'shares'",
                "aish-helper session shares --help",
            ),
            (&["nosuch"], "'nosuch'", "aish-helper --help"),
            (&["list"], "'list'", "aish-helper --help"),
            (
                &["ask", "--nosuch"],
                "--nosuch",
                "llm :help, or aish-helper ask --help",
            ),
        ] {
            let line = ["aish-helper"].iter().chain(words);
            let fault = Cli::try_parse_from(line).expect_err("wrong words");
            let error = usage_error(&fault, words.iter().map(OsString::from));
            assert!(error.message.contains(message), "{error:?}");
            let hint = error.hint.unwrap_or_default();
            assert!(hint.ends_with(&format!("see: {see}")), "{hint}");
        }
    }

    #[test]
    fn a_usage_error_may_quote_words_that_are_not_utf8() {
        let words = ["session".into(), OsString::from_vec(b"\xff".to_vec())];
        let line = std::iter::once("aish-helper".into()).chain(words.clone());
        let fault = Cli::try_parse_from(line).expect_err("wrong words");
        let hint = usage_error(&fault, words.into_iter()).hint;
        assert_eq!(hint.as_deref(), Some("see: aish-helper session --help"));
    }
}
