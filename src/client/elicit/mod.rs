//! Elicitation: an MCP server asks the user something while one of its tools runs, with a form or a page to open.
//!
//! The question names the server, which also gets the answer. Only an answer that was shown in full and confirmed is sent.

pub mod form_field;

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use serde_json::{Map, Value};

use self::form_field::{FormField, form_fields};
use super::argument_lines;
use super::styled_line::{SpanStyle, StyledLine, StyledSpan, fold, span, spans, wrap};
use super::terminal_prompt::{EditedLine, PromptEnd, PromptKey, PromptResult, TerminalPrompt};
use crate::protocol::tools::{ElicitationAction, ElicitationPrompt};
use crate::safety::confusables;

const CTRL_D: u8 = 4;
const ESCAPE: u8 = 0x1b;

/// The user's answer to an elicitation.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitationAnswer {
    /// Accepted, with the object for a form.
    Accept(Option<Value>),
    /// Declined.
    Decline,
    /// Dismissed without an answer.
    Cancel,
}

/// Asks the user on the terminal.
///
/// # Errors
/// The question ended without an answer.
pub fn ask(
    prompt: &mut TerminalPrompt<'_>,
    elicit: &ElicitationPrompt,
) -> PromptResult<ElicitationAnswer> {
    let result = match &elicit.url {
        Some(url) => open_page(prompt, elicit, url),
        None => form(prompt, elicit),
    };
    if let Err(end) = &result {
        prompt.write_end(end);
    }
    result
}

/// Writes the server's name and message.
fn write_head(
    prompt: &TerminalPrompt<'_>,
    elicit: &ElicitationPrompt,
    note: &str,
) -> PromptResult<()> {
    let server = confusables::marked_name(&elicit.server);
    let head = [
        span(format!("server {server} asks you"), SpanStyle::Bold),
        span(format!("  it gets your answer; {note}"), SpanStyle::Dim),
    ];
    for (n, line) in fold(&head, prompt.width(), 2).iter().enumerate() {
        prompt.frame_line(if n == 0 { "┌" } else { "│" }, line)?;
    }
    for part in elicit.message.lines() {
        let part: Vec<StyledSpan> =
            spans(confusables::marked_pieces(part), SpanStyle::Plain).collect();
        write_spans(prompt, &part)?;
    }
    Ok(())
}

fn write_spans(prompt: &TerminalPrompt<'_>, text: &[StyledSpan]) -> PromptResult<()> {
    let lines = fold(text, prompt.width(), 2);
    lines
        .iter()
        .try_for_each(|line| prompt.frame_line("│", line))
}

fn write_note(prompt: &TerminalPrompt<'_>, text: &str) -> PromptResult<()> {
    write_spans(prompt, &[span(text, SpanStyle::Dim)])
}

fn form(
    prompt: &mut TerminalPrompt<'_>,
    elicit: &ElicitationPrompt,
) -> PromptResult<ElicitationAnswer> {
    let schema = elicit.schema.clone().unwrap_or(Value::Null);
    write_head(prompt, elicit, "it must not ask for passwords or keys here")?;
    let fields = match form_fields(&schema) {
        Ok(fields) => fields,
        Err(reason) => {
            let line: StyledLine =
                spans(confusables::marked_pieces(&reason), SpanStyle::Plain).collect();
            write_spans(prompt, &line)?;
            prompt.write(&format!("{} declined\n", prompt.dim("└")))?;
            return Ok(ElicitationAnswer::Decline);
        }
    };
    let mut content = Map::new();
    'fill: loop {
        prompt.settle()?;
        for field in &fields {
            match fill_field(prompt, field)? {
                Some(Some(value)) => {
                    content.insert(field.name.clone(), value);
                }
                Some(None) => {
                    content.remove(&field.name);
                }
                None => {
                    prompt.write(&format!("{} cancelled\n", prompt.dim("└")))?;
                    return Ok(ElicitationAnswer::Cancel);
                }
            }
        }
        loop {
            let object = Value::Object(content.clone());
            write_note(prompt, "this is sent:")?;
            for line in argument_lines::lines(&object.to_string(), prompt.width(), true).lines {
                prompt.frame_line("│", &line)?;
            }
            match choose(
                prompt,
                "send? [y] yes  [n] no  [e] edit again ",
                (b'e', "edit"),
            )? {
                Some(b'y') => return Ok(ElicitationAnswer::Accept(Some(object))),
                Some(b'e') => continue 'fill,
                Some(ESCAPE) => return Ok(ElicitationAnswer::Cancel),
                Some(_) => return Ok(ElicitationAnswer::Decline),
                None => {}
            }
        }
    }
}

/// Asks for one field until its value is valid. Returns `None` if the user cancelled, `Some(None)` for a field left out.
fn fill_field(
    prompt: &mut TerminalPrompt<'_>,
    field: &FormField,
) -> PromptResult<Option<Option<Value>>> {
    let mut name: Vec<StyledSpan> =
        spans(confusables::marked_pieces(&field.name), SpanStyle::Name).collect();
    for about in &field.about {
        name.push(span("  ", SpanStyle::Plain));
        name.extend(spans(confusables::marked_pieces(about), SpanStyle::Plain));
    }
    write_spans(prompt, &name)?;
    for (n, choice) in field.choices().iter().enumerate() {
        let mut line = vec![span(format!("  {}) ", n + 1), SpanStyle::Dim)];
        line.extend(spans(
            confusables::marked_pieces(&choice.title),
            SpanStyle::Plain,
        ));
        write_spans(prompt, &line)?;
    }
    let mut hint = vec![span("  ", SpanStyle::Plain)];
    let text = format!("{}; Esc: cancel", field.hint());
    hint.extend(spans(confusables::marked_pieces(&text), SpanStyle::Dim));
    write_spans(prompt, &hint)?;
    loop {
        prompt.write("> ")?;
        match prompt.edit_line("")? {
            EditedLine::Cancelled => return Ok(None),
            EditedLine::Accepted(text) => match field.take(&text) {
                Ok(value) => return Ok(Some(value)),
                Err(reason) => write_note(prompt, &format!("  {reason}"))?,
            },
        }
    }
}

fn open_page(
    prompt: &mut TerminalPrompt<'_>,
    elicit: &ElicitationPrompt,
    url: &str,
) -> PromptResult<ElicitationAnswer> {
    loop {
        write_head(
            prompt,
            elicit,
            "aish does not see what you enter on its page",
        )?;
        let host = host(url);
        let mut line = vec![span("page at  ", SpanStyle::Dim)];
        match host {
            Some(host) => line.push(span(confusables::marked_name(host), SpanStyle::Bold)),
            None => line.push(span(
                "not a web address, so it is not opened",
                SpanStyle::Bold,
            )),
        }
        write_spans(prompt, &line)?;
        // The exact address, not wrapped as prose.
        let whole: Vec<StyledSpan> =
            spans(confusables::marked_pieces(url), SpanStyle::Plain).collect();
        for line in wrap(&whole, prompt.width(), 2) {
            prompt.frame_line("│", &line)?;
        }
        if host.is_none() {
            prompt.write(&format!("{} declined\n", prompt.dim("└")))?;
            return Ok(ElicitationAnswer::Decline);
        }
        let keys = "[o] open it  [y] already open  [n] no ";
        return Ok(match choose(prompt, keys, (b'o', "open"))? {
            Some(b'o') => {
                if !open_browser(url) {
                    prompt.write("no browser could be started; open the page yourself\n")?;
                }
                ElicitationAnswer::Accept(None)
            }
            Some(b'y') => ElicitationAnswer::Accept(None),
            Some(ESCAPE) => ElicitationAnswer::Cancel,
            Some(_) => ElicitationAnswer::Decline,
            None => continue,
        });
    }
}

/// Waits for y, n, Esc or the key of `extra` with its word. Returns `None` if the question must be drawn again.
fn choose(
    prompt: &mut TerminalPrompt<'_>,
    keys: &str,
    extra: (u8, &'static str),
) -> PromptResult<Option<u8>> {
    prompt.choose(keys, &|key| match key {
        PromptKey::Byte(b'y' | b'Y') => Some((b'y', "yes")),
        PromptKey::Byte(b'n' | b'N' | b'\r' | b'\n' | CTRL_D) => Some((b'n', "no")),
        PromptKey::Escape => Some((ESCAPE, "cancelled")),
        PromptKey::Byte(key) if key.to_ascii_lowercase() == extra.0 => Some(extra),
        _ => None,
    })
}

/// Returns the host and port of a web address; `None` if it is not a plain web address.
fn host(url: &str) -> Option<&str> {
    let rest = ["https://", "http://"].iter().find_map(|scheme| {
        url.get(..scheme.len())
            .filter(|s| s.eq_ignore_ascii_case(scheme))
            .map(|s| &url[s.len()..])
    })?;
    // Browsers treat \ as /.
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let host = rest[..end].rsplit('@').next().unwrap_or_default();
    let odd = url.chars().any(|c| c.is_control() || c.is_whitespace());
    (!host.is_empty() && !odd).then_some(host)
}

/// Opens an address in the user's browser. Returns whether the browser could be started.
fn open_browser(url: &str) -> bool {
    let program = match cfg!(target_os = "macos") {
        true => "open",
        false => "xdg-open",
    };
    Command::new(program)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C on this terminal must not end the browser.
        .process_group(0)
        .spawn()
        .is_ok()
}

/// Returns the action and content to send to the server, if it still waits; without an answer it is `cancel`.
pub fn action(
    answer: &PromptResult<ElicitationAnswer>,
) -> Option<(ElicitationAction, Option<Value>)> {
    match answer {
        Ok(ElicitationAnswer::Accept(content)) => {
            Some((ElicitationAction::Accept, content.clone()))
        }
        Ok(ElicitationAnswer::Decline) => Some((ElicitationAction::Decline, None)),
        Ok(ElicitationAnswer::Cancel) | Err(PromptEnd::Interrupted) => {
            Some((ElicitationAction::Cancel, None))
        }
        Err(PromptEnd::NoTerminal(_)) => Some((ElicitationAction::NoTerminal, None)),
        Err(
            PromptEnd::DaemonGone
            | PromptEnd::Withdrawn
            | PromptEnd::AnsweredElsewhere(_)
            | PromptEnd::ClosedBefore,
        ) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::host;

    #[test]
    fn the_host_of_an_address_is_the_one_a_browser_visits() {
        for (url, to) in [
            ("https://a.example/x", Some("a.example")),
            ("HTTPS://a.example:8443?x", Some("a.example:8443")),
            ("https://bank.example@evil.example/", Some("evil.example")),
            ("https://evil.example\\@bank.example/", Some("evil.example")),
            ("file:///etc/passwd", None),
            ("javascript:alert(1)", None),
            ("https:///x", None),
            ("https://a.example/ x", None),
        ] {
            assert_eq!(host(url), to, "{url}");
        }
    }
}
