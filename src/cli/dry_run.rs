//! `--dry-run`: prints the request that a prompt would send.

use std::io::IsTerminal;

use serde_json::{Value, json};

use super::{print, print_json};
use crate::client::output::AnswerOutput;
use crate::client::output_options::{OutputFormat, OutputOptions};
use crate::client::request_loop::{RequestEnd, RequestLoop};
use crate::client::text_format::grouped;
use crate::client::{config_question, pack_question};
use crate::error::Result;
use crate::paths::Paths;
use crate::protocol::{self, AskRequest, Request, RequestFailure, RequestPreview};
use crate::safety::budget::usd;
use crate::safety::text::{one_line, prose};

/// Maximum number of characters shown of a URL.
const MAX_URL: usize = 500;

/// Prints the request on stdout, and its estimated cost on stderr.
///
/// # Errors
/// The prompt could not be sent.
pub fn show(paths: &Paths, ask: AskRequest, as_json: bool) -> Result<u8> {
    let mut output = AnswerOutput::new(OutputOptions {
        format: OutputFormat::ProgressOnly,
        reasoning: false,
    });
    let request = Request::Preview(Box::new(ask));
    let preview: RequestPreview = loop {
        let mut request_loop = RequestLoop::begin(paths, &request, &mut output)?;
        let end = request_loop.follow()?;
        drop(request_loop);
        match end {
            RequestEnd::Reply(body) => break protocol::parse(&body)?,
            RequestEnd::OutputClosed => return Ok(0),
            // Each question is asked once for the parts that it shows, as for a prompt.
            RequestEnd::Failed(failure) => match failure {
                RequestFailure {
                    config_changes: Some(changes),
                    ..
                } => config_question::ask(paths, &changes)?,
                RequestFailure {
                    unapproved_pack: Some(pack),
                    ..
                } => pack_question::ask(paths, &pack)?,
                failure => return Err(failure.into()),
            },
        }
    };
    let body: Value = protocol::parse(preview.body.as_bytes())?;
    if as_json {
        print_json(&json!({
            "url": preview.url,
            "model": preview.model,
            "session": preview.session,
            "body": body,
            "tokens": preview.tokens,
            "cost": preview.cost,
        }))?;
        return Ok(0);
    }
    let text = format!("{body:#}\n");
    match std::io::stdout().is_terminal() {
        true => print(&prose(&text))?,
        // The bytes of the texts, for other programs.
        false => print(&text)?,
    }
    let cost = match preview.cost {
        Some(0.0) => String::new(),
        Some(cost) => format!(" · ~{} before the answer", usd(cost)),
        None => " · price unknown".to_owned(),
    };
    output.notice(&format!(
        "not sent: POST {} · {} · ~{} tokens{cost}",
        one_line(&preview.url, MAX_URL),
        one_line(&preview.model, MAX_URL),
        grouped(preview.tokens),
    ));
    Ok(0)
}
