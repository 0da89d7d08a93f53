//! From the protocol's content to what the rest of the house keeps: text, pictures, and a line for all else.
//!
//! Everything here comes from a server. Text for the model stays as it is, since a terminal gets it through
//! the text sink; types, names and URIs become part of lines of our own, and are made fit for that here.

use rmcp::model::{
    CallToolResult, ContentBlock, GetPromptResult, ReadResourceResult, ResourceContents, Role,
};
use serde_json::json;

use super::types::CallResult;
use crate::chat::{Annotations, Image, Tool};
use crate::config::mcp::Server;
use crate::error::{Error, Result};
use crate::safety::text::{self, one_line};
use crate::secret::fingerprint;

/// The pictures of one result that are kept, and the most bytes of each in base64.
const MAX_IMAGES: usize = 8;
const MAX_IMAGE: usize = 5 << 20;

/// What models take. A request with another is refused as a whole, and so is each one after it.
const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// How much is shown of a type, a name, a URI.
const MAX_NAME: usize = 200;

/// The notes of one result that a person is shown; a server could make a line of each link in 16 MiB.
const MAX_NOTES: usize = 8;

/// The longest name of a tool, as the specification has it.
const MAX_TOOL: usize = 128;

/// What a tool may say of itself: it is part of every request.
const MAX_DESCRIPTION: usize = 8 << 10;
const MAX_SCHEMA: usize = 64 << 10;

/// The schema of a tool that has none worth the name.
const ANY_OBJECT: &str = r#"{"type":"object"}"#;

/// What a tool of the server `alias` said, with at most `max_bytes` of its text.
pub(super) fn result(alias: &str, result: CallToolResult, max_bytes: usize) -> CallResult {
    let mut told = Told::default();
    for block in result.content {
        told.block(block);
    }
    // Servers that have both repeat the one in the other.
    if let Some(value) = result.structured_content.filter(|v| !v.is_null())
        && !told.says
    {
        let value = value.to_string();
        told.note(format!("structured content, {}", size(value.len())));
        told.lines.push(value);
    }
    if told.links {
        told.notes.push(format!("llm -r {alias}:URI reads a link"));
    }
    let text = told.lines.join("\n");
    let bytes = text.len() as u64;
    CallResult {
        text: if text.trim().is_empty() {
            "[no output]".to_owned()
        } else {
            cut(text, max_bytes)
        },
        is_error: result.is_error == Some(true),
        notes: told.notes(),
        images: told.images,
        bytes,
    }
}

/// A tool as the catalog has it. None for one that cannot be named.
pub(super) fn tool(server: &Server, tool: &rmcp::model::Tool) -> Option<Tool> {
    let (alias, name) = (&server.alias, &*tool.name);
    // What is shown is what is meant: nothing invisible, nothing that needs a stand-in.
    let fit = !name.is_empty()
        && name.len() <= MAX_TOOL
        && !name.contains(char::is_whitespace)
        && text::strict(name) == name;
    if !fit {
        return None;
    }
    let hints = tool.annotations.as_ref();
    let title = tool
        .title
        .as_ref()
        .or_else(|| hints.and_then(|h| h.title.as_ref()));
    let description = tool.description.as_deref().unwrap_or_default();
    let mut tool = Tool {
        name: format!("{alias}.{name}"),
        server: alias.clone(),
        tool: name.to_owned(),
        title: title
            .filter(|t| !t.trim().is_empty())
            .map(|t| t.chars().take(MAX_NAME).collect()),
        description: cut(description.to_owned(), MAX_DESCRIPTION),
        schema: schema(tool),
        annotations: Annotations {
            read_only: hints.and_then(|h| h.read_only_hint),
            destructive: hints.and_then(|h| h.destructive_hint),
            idempotent: hints.and_then(|h| h.idempotent_hint),
            open_world: hints.and_then(|h| h.open_world_hint),
        },
        trusted: server.trust_annotations,
        identity: String::new(),
    };
    // Annotations may go missing when a server is connected to again, the title with them: whoever holds this
    // against what was allowed looks at them by themselves.
    tool.identity = fingerprint([
        &*server.identity(),
        &tool.name,
        &tool.description,
        &tool.schema,
    ]);
    Some(tool)
}

/// What a tool takes in JSON, nearly.
pub(super) fn size_of(tool: &Tool) -> usize {
    let words = json!([tool.name, tool.title, tool.description]);
    words.to_string().len() + tool.schema.len()
}

/// The text of a tool's schema, which providers refuse if it is not one of an object.
fn schema(tool: &rmcp::model::Tool) -> String {
    let schema = &tool.input_schema;
    let text = match schema.get("type") {
        Some(kind) if kind == "object" => serde_json::to_string(&**schema).ok(),
        Some(_) => None,
        None => {
            let mut schema = (**schema).clone();
            schema.insert("type".into(), "object".into());
            serde_json::to_string(&schema).ok()
        }
    };
    // No line for each in the log, which the server could fill.
    text.filter(|t| t.len() <= MAX_SCHEMA)
        .unwrap_or_else(|| ANY_OBJECT.to_owned())
}

/// The text of a resource.
///
/// # Errors
/// It has no text.
pub(super) fn resource(result: &ReadResourceResult, max_bytes: usize) -> Result<String> {
    let mut told = Told::default();
    for contents in &result.contents {
        told.contents(contents, false);
    }
    if !told.says && !told.notes.is_empty() {
        return Err(Error::runtime(format!(
            "there is no text: {}",
            told.notes().join("; ")
        )));
    }
    Ok(cut(told.lines.join("\n"), max_bytes))
}

/// The text of a prompt; with who says what where it is a conversation.
pub(super) fn prompt(result: &GetPromptResult) -> String {
    let talks = result.messages.iter().any(|m| m.role != Role::User);
    let mut parts = Vec::new();
    for message in &result.messages {
        let mut told = Told::default();
        told.block(message.content.clone());
        let who = match message.role {
            Role::Assistant => "Assistant:\n",
            _ => "User:\n",
        };
        let text = told.lines.join("\n");
        parts.push(if talks { format!("{who}{text}") } else { text });
    }
    parts.join("\n\n")
}

/// What was said, as it becomes lines.
#[derive(Default)]
struct Told {
    lines: Vec<String>,
    notes: Vec<String>,
    /// Notes that are only counted.
    more: usize,
    images: Vec<Image>,
    /// There is text among it.
    says: bool,
    /// There are links to resources among it.
    links: bool,
}

impl Told {
    /// Names something that is no text: in its place, and for the person.
    fn name(&mut self, what: String) {
        self.lines.push(format!("[{what}]"));
        self.note(what);
    }

    fn block(&mut self, block: ContentBlock) {
        match block {
            ContentBlock::Text(t) => self.text(t.text),
            ContentBlock::Image(i) => self.image(&i.mime_type, &i.data),
            ContentBlock::Audio(a) => {
                let what = format!("{}, {}", mime(Some(&a.mime_type)), size(decoded(&a.data)));
                self.name(format!("audio: {what}"));
            }
            ContentBlock::Resource(r) => self.contents(&r.resource, true),
            ContentBlock::ResourceLink(link) => {
                let uri = one_line(&link.uri, MAX_NAME);
                self.name(format!("resource link: {uri}"));
                self.links = true;
            }
            // The protocol's crate may learn more.
            _ => self.lines.push("[content of an unknown type]".to_owned()),
        }
    }

    fn text(&mut self, text: String) {
        self.says |= !text.trim().is_empty();
        if !text.is_empty() {
            self.lines.push(text);
        }
    }

    /// A resource that came with the answer, or is the answer: then its text needs no header.
    fn contents(&mut self, contents: &ResourceContents, embedded: bool) {
        match contents {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                if embedded {
                    let uri = one_line(uri, MAX_NAME);
                    self.name(format!("resource: {uri}"));
                }
                self.text(text.clone());
            }
            ResourceContents::BlobResourceContents {
                uri,
                mime_type,
                blob,
                ..
            } => {
                let uri = one_line(uri, MAX_NAME);
                let what = format!(
                    "{uri}, {}, {}",
                    mime(mime_type.as_deref()),
                    size(decoded(blob))
                );
                self.name(format!("resource: {what}"));
            }
            _ => self
                .lines
                .push("[a resource of an unknown type]".to_owned()),
        }
    }

    fn image(&mut self, kind: &str, data: &str) {
        let mut what = format!("{}, {}", mime(Some(kind)), size(decoded(data)));
        let kind = kind.trim().to_ascii_lowercase();
        let fault = if !IMAGES.contains(&kind.as_str()) {
            Some("not of a kind that models take")
        } else if data.len() > MAX_IMAGE {
            Some("too large to pass on")
        } else if self.images.len() == MAX_IMAGES {
            Some("one too many to pass on")
        } else {
            match base64(data) {
                Some(data) => {
                    self.images.push(Image { mime: kind, data });
                    None
                }
                None => Some("damaged"),
            }
        };
        if let Some(fault) = fault {
            what = format!("{what}, {fault}");
        }
        self.name(format!("image: {what}"));
    }

    fn note(&mut self, note: String) {
        match self.notes.len() < MAX_NOTES {
            true => self.notes.push(note),
            false => self.more += 1,
        }
    }

    /// The notes, with a word for those that were only counted.
    fn notes(&mut self) -> Vec<String> {
        let mut notes = std::mem::take(&mut self.notes);
        if self.more > 0 {
            notes.push(format!("… {} more", self.more));
        }
        notes
    }
}

/// Base64 without the line breaks that some put in; None if it is none.
fn base64(data: &str) -> Option<String> {
    let data: String = data.split_ascii_whitespace().collect();
    let digits = data.trim_end_matches('=');
    let fit = !digits.is_empty()
        && data.len().is_multiple_of(4)
        && data.len() - digits.len() <= 2
        && digits
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/');
    fit.then_some(data)
}

/// How many bytes base64 stands for, near enough.
fn decoded(data: &str) -> usize {
    data.trim_end_matches('=').len() * 3 / 4
}

fn mime(kind: Option<&str>) -> String {
    match kind.map(str::trim) {
        None | Some("") => "of no type".to_owned(),
        Some(kind) => one_line(kind, 64),
    }
}

/// A size in a few characters: `12 KB`.
fn size(bytes: usize) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        0..1000 => format!("{bytes} bytes"),
        1000..1_000_000 => format!("{} KB", bytes.div_ceil(1000)),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// At most `max` bytes of a text: its head, up to the end of a line if one is near, and a line that says what
/// was left out.
pub(super) fn cut(mut text: String, max: usize) -> String {
    let total = text.len();
    if total <= max {
        return text;
    }
    let note = |left: usize| format!("\n[… {left} of {total} bytes left out]");
    // The number in it can only become shorter.
    let room = max.checked_sub(note(total).len());
    let mut end = room.unwrap_or(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let Some(room) = room else {
        text.truncate(end);
        return text;
    };
    if let Some(line) = text[..end].rfind('\n')
        && line >= room - room / 8
    {
        end = line;
    }
    text.truncate(end);
    text.push_str(&note(total - end));
    text
}

#[cfg(test)]
mod tests;
