//! `aish-helper call`: calls a tool from the command line.

use std::io::{Read, Write};

use super::args::{CallCommand, ManualCallArgs};
use super::{print, print_json, report};
use crate::chat::{CallStatus, OperationClass};
use crate::client::output::AnswerOutput;
use crate::client::output_options::{OutputFormat, OutputOptions};
use crate::client::request_loop::{RequestEnd, RequestLoop};
use crate::client::terminal;
use crate::config::env_overrides;
use crate::error::{Error, ErrorContext, ErrorKind, Result};
use crate::paths::{Paths, work_variables};
use crate::protocol::tools::{self, ManualCallResult};
use crate::protocol::{self, Request};
use crate::safety::text;

/// Calls the tool and returns the exit code.
///
/// # Errors
/// The call has no result. Why a call was not made is printed here.
pub fn run(paths: &Paths, command: CallCommand) -> Result<u8> {
    let (operation, args) = match command {
        CallCommand::ToolRead(args) => (OperationClass::Read, args),
        CallCommand::ToolWrite(args) => (OperationClass::Write, args),
        CallCommand::ToolDestructive(args) => (OperationClass::Destructive, args),
    };
    let (json, is_approved) = (args.json, args.yes);
    let call = call_request(operation, args)?;
    let answers_yes = is_approved.then(|| call.arguments.clone());
    let request = Request::Call(Box::new(call));
    let mut output = AnswerOutput::new(OutputOptions {
        format: OutputFormat::ProgressOnly,
        reasoning: false,
    });
    let mut request_loop = RequestLoop::begin(paths, &request, &mut output)?;
    request_loop.answers_yes = answers_yes;
    let mut called: ManualCallResult = match request_loop.follow()? {
        RequestEnd::Reply(body) => protocol::parse(&body)?,
        RequestEnd::Failed(failure) => return Err(failure.into()),
        RequestEnd::OutputClosed => return Ok(0),
    };
    drop(request_loop);
    called.why = called.why.map(in_command_line_terms);
    if json {
        print_json(&called)?;
    } else if called.why.is_none() {
        let output = called.text.trim_end_matches('\n');
        print(&format!("{output}\n"))?;
    }
    let reason = called.why.unwrap_or_default();
    let kind = match (called.status, called.kind) {
        (CallStatus::Success, _) => return Ok(0),
        // The tool's own error message was printed.
        (CallStatus::ToolError, _) => return Ok(ErrorKind::Runtime.exit_code()),
        (_, kind) => kind.unwrap_or(ErrorKind::Runtime),
    };
    // Below the reason why an edit is refused, there may be lines of the file.
    let (reason, lines) = reason.split_once('\n').unwrap_or((&reason, ""));
    let error = Error::new(kind, reason);
    let error = match kind {
        ErrorKind::Usage => error.hint(
            "see: aish-helper tools search, aish-helper mcp tool NAME, aish-helper call --help",
        ),
        _ => error,
    };
    report(&error);
    // A closed stderr cannot be reported anywhere.
    let _ = std::io::stderr().write_all(text::prose(lines).as_bytes());
    Ok(kind.exit_code())
}

/// Replaces the names of model-facing tools and fields in an error with the command-line options.
fn in_command_line_terms(mut message: String) -> String {
    for (model_term, option) in [
        ("call_tool_", "aish-helper call tool-"),
        ("retrieve_tools", "aish-helper tools search"),
        ("intent.data_sensitivity", "--sensitivity"),
        ("intent.reason", "--reason"),
    ] {
        message = message.replace(model_term, option);
    }
    message
}

fn call_request(operation: OperationClass, args: ManualCallArgs) -> Result<tools::ManualCall> {
    Ok(tools::ManualCall {
        operation,
        name: args.tool_name,
        arguments: read_arguments(args.json_args)?,
        reason: args.reason,
        sensitivity: args.sensitivity,
        cwd: current_directory(),
        overrides: env_overrides()?,
        tty: terminal::tty_name(),
        work_env: work_variables(),
    })
}

/// Returns the JSON object of `--json_args`; `-` reads stdin.
pub(super) fn read_arguments(given: String) -> Result<String> {
    let arguments = match given.as_str() {
        "-" => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .context(|| "cannot read the arguments from stdin".into())?;
            text
        }
        _ => given,
    };
    if let Err(e) = serde_json::from_str::<serde_json::Map<_, serde_json::Value>>(&arguments) {
        return Err(
            Error::usage(format!("--json_args is not a JSON object: {e}"))
                .hint("for example: --json_args '{\"path\": \"notes.txt\"}'"),
        );
    }
    Ok(arguments)
}

/// Returns the working directory, or an empty string if it cannot be read.
pub(super) fn current_directory() -> String {
    std::env::current_dir()
        .map(|d| d.display().to_string())
        .unwrap_or_default()
}
