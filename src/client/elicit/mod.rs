//! What a server asks the person while a call of theirs runs: a form, field by field, or a page to open.
//!
//! It is the server that asks, and that gets the answer: both are said. Nothing is sent that was not shown
//! whole and agreed to.

pub mod field;

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use serde_json::{Map, Value};

use self::field::{Field, fields};
use super::approve::{arguments, pager};
use super::asking::{Answered, Asking, Happened, Key, Over, Typed};
use super::frame::{Bit, Ink, Line, bit, bits, fold, wrap};
use crate::protocol::tools::{Elicit, ElicitationAction};
use crate::safety::alike;

/// What the person said.
#[derive(Debug, PartialEq)]
pub enum Answer {
    /// Yes; the object that a form asked for.
    Accept(Option<Value>),
    /// No.
    Decline,
    /// Not now.
    Cancel,
}

/// Asks.
///
/// # Errors
/// There was no answer.
pub fn ask(asking: &mut Asking<'_>, elicit: &Elicit) -> Answered<Answer> {
    let result = match &elicit.url {
        Some(url) => page(asking, elicit, url),
        None => form(asking, elicit),
    };
    if let Err(over) = &result {
        pager::ended(asking, over);
    }
    result
}

/// Who asks, and what they say.
fn head(asking: &Asking<'_>, elicit: &Elicit, note: &str) -> Answered<()> {
    let server = alike::name(&elicit.server);
    let head = [
        bit(format!("server {server} asks you"), Ink::Bold),
        bit(format!("  it gets your answer; {note}"), Ink::Dim),
    ];
    for (n, line) in fold(&head, asking.width(), 2).iter().enumerate() {
        asking.line(if n == 0 { "┌" } else { "│" }, line)?;
    }
    for part in elicit.message.lines() {
        let part: Vec<Bit> = bits(alike::pieces(part), Ink::Plain).collect();
        put(asking, &part)?;
    }
    Ok(())
}

fn put(asking: &Asking<'_>, text: &[Bit]) -> Answered<()> {
    let lines = fold(text, asking.width(), 2);
    lines.iter().try_for_each(|line| asking.line("│", line))
}

fn say(asking: &Asking<'_>, text: &str) -> Answered<()> {
    put(asking, &[bit(text, Ink::Dim)])
}

fn form(asking: &mut Asking<'_>, elicit: &Elicit) -> Answered<Answer> {
    let schema = elicit.schema.clone().unwrap_or(Value::Null);
    head(asking, elicit, "it must not ask for passwords or keys here")?;
    let fields = match fields(&schema) {
        Ok(fields) => fields,
        Err(why) => {
            let line: Line = bits(alike::pieces(&why), Ink::Plain).collect();
            put(asking, &line)?;
            asking.say(&format!("{} declined\n", asking.dim("└")))?;
            return Ok(Answer::Decline);
        }
    };
    let mut content = Map::new();
    'anew: loop {
        asking.settle()?;
        for field in &fields {
            match fill(asking, field)? {
                Some(Some(value)) => {
                    content.insert(field.name.clone(), value);
                }
                Some(None) => {
                    content.remove(&field.name);
                }
                None => {
                    asking.say(&format!("{} cancelled\n", asking.dim("└")))?;
                    return Ok(Answer::Cancel);
                }
            }
        }
        loop {
            let object = Value::Object(content.clone());
            say(asking, "this is sent:")?;
            for line in arguments::lines(&object.to_string(), asking.width(), true).lines {
                asking.line("│", &line)?;
            }
            match choose(asking, "send? [y]es  [n]o  [e]dit again ", b"e")? {
                Some(b'y') => return Ok(Answer::Accept(Some(object))),
                Some(b'e') => continue 'anew,
                Some(0x1b) => return Ok(Answer::Cancel),
                Some(_) => return Ok(Answer::Decline),
                None => {}
            }
        }
    }
}

/// Asks for one field until it is right. `None`: the person has had enough.
fn fill(asking: &mut Asking<'_>, field: &Field) -> Answered<Option<Option<Value>>> {
    let mut name: Vec<Bit> = bits(alike::pieces(&field.name), Ink::Name).collect();
    for about in &field.about {
        name.push(bit("  ", Ink::Plain));
        name.extend(bits(alike::pieces(about), Ink::Plain));
    }
    put(asking, &name)?;
    for (n, choice) in field.choices().iter().enumerate() {
        let mut line = vec![bit(format!("  {}) ", n + 1), Ink::Dim)];
        line.extend(bits(alike::pieces(&choice.title), Ink::Plain));
        put(asking, &line)?;
    }
    let mut hint = vec![bit("  ", Ink::Plain)];
    let text = format!("{}; Esc: cancel", field.hint());
    hint.extend(bits(alike::pieces(&text), Ink::Dim));
    put(asking, &hint)?;
    loop {
        asking.say("> ")?;
        match asking.typed("")? {
            Typed::None => return Ok(None),
            Typed::Line(text) => match field.take(&text) {
                Ok(value) => return Ok(Some(value)),
                Err(why) => say(asking, &format!("  {why}"))?,
            },
        }
    }
}

fn page(asking: &mut Asking<'_>, elicit: &Elicit, url: &str) -> Answered<Answer> {
    loop {
        head(
            asking,
            elicit,
            "what you do on its page is between you and the page",
        )?;
        let host = host(url);
        let mut line = vec![bit("page at  ", Ink::Dim)];
        match host {
            Some(host) => line.push(bit(alike::name(host), Ink::Bold)),
            None => line.push(bit("no web address: it is not opened", Ink::Bold)),
        }
        put(asking, &line)?;
        // Exact, and not prose.
        let whole: Vec<Bit> = bits(alike::pieces(url), Ink::Plain).collect();
        for line in wrap(&whole, asking.width(), 2) {
            asking.line("│", &line)?;
        }
        if host.is_none() {
            asking.say(&format!("{} declined\n", asking.dim("└")))?;
            return Ok(Answer::Decline);
        }
        let keys = "[o]pen it  [y]es, opened by hand  [n]o ";
        return Ok(match choose(asking, keys, b"o")? {
            Some(b'o') => {
                if !open(url) {
                    asking.say("no browser could be started; open the page by hand\n")?;
                }
                Answer::Accept(None)
            }
            Some(b'y') => Answer::Accept(None),
            Some(0x1b) => Answer::Cancel,
            Some(_) => Answer::Decline,
            None => continue,
        });
    }
}

/// Waits for y, n, Esc or one of `more`; `None` when the question must be drawn again.
fn choose(asking: &mut Asking<'_>, keys: &str, more: &[u8]) -> Answered<Option<u8>> {
    loop {
        asking.say(&format!("{} {keys}", asking.dim("└")))?;
        let (key, word) = match asking.answer()? {
            Happened::Changed => {
                asking.say("\n")?;
                return Ok(None);
            }
            Happened::Key(Key::Byte(b'y' | b'Y')) => (b'y', "yes"),
            Happened::Key(Key::Byte(b'n' | b'N' | b'\r' | b'\n' | 4)) => (b'n', "no"),
            Happened::Key(Key::Escape) => (0x1b, "cancelled"),
            Happened::Key(Key::Byte(key)) if more.contains(&key.to_ascii_lowercase()) => {
                let word = if key.eq_ignore_ascii_case(&b'o') {
                    "open"
                } else {
                    "edit"
                };
                (key.to_ascii_lowercase(), word)
            }
            Happened::Key(_) => {
                asking.say("\nthat is none of the keys\n")?;
                continue;
            }
        };
        asking.say(&format!("{word}\n"))?;
        return Ok(Some(key));
    }
}

/// Where a web address leads, port included; none where it is no plain one.
fn host(url: &str) -> Option<&str> {
    let rest = ["https://", "http://"].iter().find_map(|scheme| {
        url.get(..scheme.len())
            .filter(|s| s.eq_ignore_ascii_case(scheme))
            .map(|s| &url[s.len()..])
    })?;
    // A browser takes \ for /.
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let host = rest[..end].rsplit('@').next().unwrap_or_default();
    let odd = url.chars().any(|c| c.is_control() || c.is_whitespace());
    (!host.is_empty() && !odd).then_some(host)
}

/// Hands an address to the person's browser, whose output is not ours.
fn open(url: &str) -> bool {
    let program = match cfg!(target_os = "macos") {
        true => "open",
        false => "xdg-open",
    };
    Command::new(program)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C here is not for it.
        .process_group(0)
        .spawn()
        .is_ok()
}

/// The words of the protocol for what was said; without an answer it is `cancel`.
pub fn action(answer: &Answered<Answer>) -> Option<(ElicitationAction, Option<Value>)> {
    match answer {
        Ok(Answer::Accept(content)) => Some((ElicitationAction::Accept, content.clone())),
        Ok(Answer::Decline) => Some((ElicitationAction::Decline, None)),
        Ok(Answer::Cancel) | Err(Over::Stop) => Some((ElicitationAction::Cancel, None)),
        Err(Over::NoTerminal(_)) => Some((ElicitationAction::NoTerminal, None)),
        Err(Over::Gone | Over::Withdrawn) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::host;

    #[test]
    fn where_an_address_leads() {
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
