//! `--dry-run`: prints the request that a prompt would send.

use std::io::IsTerminal;

use serde_json::{Value, json};

use super::{print, print_json};
use crate::client::output::AnswerOutput;
use crate::client::output_options::{OutputFormat, OutputOptions};
use crate::client::request_loop::{RequestEnd, RequestLoop};
use crate::client::text_format::grouped;
use crate::error::Result;
use crate::paths::Paths;
use crate::protocol::{self, AskRequest, Request, RequestPreview};
use crate::safety::budget::usd;
use crate::safety::text::{one_line, prose};

/// Maximum number of characters shown of a URL.
const MAX_URL: usize = 500;

/// Prints the request on stdout, and what it would cost on stderr.
///
/// # Errors
/// The prompt could not be sent.
pub fn show(paths: &Paths, ask: AskRequest, as_json: bool) -> Result<u8> {
    let mut output = AnswerOutput::new(OutputOptions {
        format: OutputFormat::ProgressOnly,
        reasoning: false,
    });
    let request = Request::Preview(Box::new(ask));
    let mut request_loop = RequestLoop::begin(paths, &request, &mut output)?;
    let preview: RequestPreview = match request_loop.follow()? {
        RequestEnd::Reply(body) => protocol::parse(&body)?,
        RequestEnd::Failed(failure) => return Err(failure.into()),
        RequestEnd::OutputClosed => return Ok(0),
    };
    drop(request_loop);
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
