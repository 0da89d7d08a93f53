//! Conversion of MCP content blocks to text, images and placeholder lines.
//!
//! All input comes from a server. Text for the model is kept as it is: the terminal sink removes control characters
//! when it is shown. Types, names and URIs become part of aish's own lines and are cleaned here.
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-result>

use rmcp::model::{
    CallToolResult, ContentBlock, GetPromptResult, ReadResourceResult, ResourceContents, Role,
};
use serde_json::json;

use crate::chat::{ImageContent, ToolAnnotations, ToolDefinition};
use crate::config::mcp::ServerSettings;
use crate::error::{Error, Result};
use crate::safety::text::{self, one_line};
use crate::secret::fingerprint;
use crate::tools::source::CallResult;

/// Maximum number of images of one result, and maximum base64 size of each in bytes.
const MAX_IMAGES: usize = 8;
const MAX_IMAGE_BYTES: usize = 5 << 20;

/// Image types that models accept. One unsupported image makes the provider reject this and every later request.
const IMAGE_TYPES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Maximum length in characters of a type, name or URI in a placeholder.
const MAX_NAME_CHARS: usize = 200;

/// Maximum number of notes of one result; a server could send 16 MiB of links.
const MAX_NOTES: usize = 8;

/// Maximum length of a tool name in the MCP specification.
const MAX_TOOL_NAME_BYTES: usize = 128;

/// Maximum size in bytes of a tool's description and schema, which are part of every request.
const MAX_DESCRIPTION_BYTES: usize = 8 << 10;
const MAX_SCHEMA_BYTES: usize = 64 << 10;

/// Schema of a tool whose own schema is unusable.
const ANY_OBJECT_SCHEMA: &str = r#"{"type":"object"}"#;

/// Converts the result of a tool of server `alias`, with at most `max_bytes` of text.
pub fn call_result(alias: &str, result: CallToolResult, max_bytes: usize) -> CallResult {
    let mut converted = ConvertedContent::default();
    for block in result.content {
        converted.block(block);
    }
    // Servers that send both repeat the structured content as text.
    if let Some(value) = result.structured_content.filter(|v| !v.is_null())
        && !converted.has_text
    {
        let value = value.to_string();
        converted.note(format!("structured content, {}", format_size(value.len())));
        converted.lines.push(value);
    }
    if converted.has_links {
        converted
            .notes
            .push(format!("llm -r {alias}:URI reads a link"));
    }
    let text = converted.lines.join("\n");
    let bytes = text.len() as u64;
    CallResult {
        text: if text.trim().is_empty() {
            "[no output]".to_owned()
        } else {
            truncate(text, max_bytes)
        },
        is_error: result.is_error == Some(true),
        notes: converted.notes(),
        images: converted.images,
        bytes,
        ..CallResult::default()
    }
}

/// Converts a listed tool; `None` if its name cannot be used.
pub fn convert_tool(server: &ServerSettings, tool: &rmcp::model::Tool) -> Option<ToolDefinition> {
    let (alias, name) = (&server.alias, &*tool.name);
    // The name a person approves must be the name that is called: no invisible or replaced characters.
    let usable = !name.is_empty()
        && name.len() <= MAX_TOOL_NAME_BYTES
        && !name.contains(char::is_whitespace)
        && text::strict(name) == name;
    if !usable {
        return None;
    }
    let hints = tool.annotations.as_ref();
    let title = tool
        .title
        .as_ref()
        .or_else(|| hints.and_then(|h| h.title.as_ref()));
    let description = tool.description.as_deref().unwrap_or_default();
    let full_title = title.cloned();
    let output_schema = tool.output_schema.as_deref();
    let mut tool = ToolDefinition {
        name: format!("{alias}.{name}"),
        server: alias.clone(),
        tool: name.to_owned(),
        title: title
            .filter(|t| !t.trim().is_empty())
            .map(|t| t.chars().take(MAX_NAME_CHARS).collect()),
        description: truncate(description.to_owned(), MAX_DESCRIPTION_BYTES),
        schema: schema_text(tool),
        output_schema: output_schema.and_then(|schema| serde_json::to_string(schema).ok()),
        annotations: ToolAnnotations {
            read_only: hints.and_then(|h| h.read_only_hint),
            destructive: hints.and_then(|h| h.destructive_hint),
            idempotent: hints.and_then(|h| h.idempotent_hint),
            open_world: hints.and_then(|h| h.open_world_hint),
        },
        trusted: server.trust_annotations,
        identity: String::new(),
    };
    // Annotations are left out: some servers stop sending them after a reconnect, and their changes are compared
    // separately, with `in_force`.
    tool.identity = fingerprint([
        &*server.identity(),
        &tool.name,
        full_title.as_deref().unwrap_or_default(),
        &tool.description,
        &tool.schema,
        tool.output_schema.as_deref().unwrap_or_default(),
    ]);
    Some(tool)
}

/// Approximate size of a tool as JSON.
pub(super) fn tool_size(tool: &ToolDefinition) -> usize {
    let words = json!([tool.name, tool.title, tool.description]);
    let schemas = tool.schema.len() + tool.output_schema.as_ref().map_or(0, String::len);
    words.to_string().len() + schemas
}

/// JSON text of a tool's schema, with `"type": "object"`, which providers require.
fn schema_text(tool: &rmcp::model::Tool) -> String {
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
    // Not logged: a server could fill the log with it.
    text.filter(|t| t.len() <= MAX_SCHEMA_BYTES)
        .unwrap_or_else(|| ANY_OBJECT_SCHEMA.to_owned())
}

/// Returns the text of a resource, at most `max_bytes` of it.
///
/// # Errors
/// The resource has no text.
pub fn resource_text(result: &ReadResourceResult, max_bytes: usize) -> Result<String> {
    let mut converted = ConvertedContent::default();
    for contents in &result.contents {
        converted.contents(contents, false);
    }
    if !converted.has_text && !converted.notes.is_empty() {
        return Err(Error::runtime(format!(
            "not text: {}",
            converted.notes().join("; ")
        )));
    }
    Ok(truncate(converted.lines.join("\n"), max_bytes))
}

/// Returns the text of a prompt, with the role before each message if there is more than one role.
pub fn prompt_text(result: &GetPromptResult) -> String {
    let has_roles = result.messages.iter().any(|m| m.role != Role::User);
    let mut parts = Vec::new();
    for message in &result.messages {
        let mut converted = ConvertedContent::default();
        converted.block(message.content.clone());
        let who = match message.role {
            Role::Assistant => "Assistant:\n",
            _ => "User:\n",
        };
        let text = converted.lines.join("\n");
        parts.push(if has_roles {
            format!("{who}{text}")
        } else {
            text
        });
    }
    parts.join("\n\n")
}

/// Content blocks converted so far.
#[derive(Default)]
struct ConvertedContent {
    lines: Vec<String>,
    notes: Vec<String>,
    /// Number of notes left out.
    omitted_notes: usize,
    images: Vec<ImageContent>,
    /// There is a text block that is not blank.
    has_text: bool,
    /// There is a resource link.
    has_links: bool,
}

impl ConvertedContent {
    /// Adds a placeholder for content that is not text, in the text and as a note.
    fn placeholder(&mut self, description: String) {
        self.lines.push(format!("[{description}]"));
        self.note(description);
    }

    fn block(&mut self, block: ContentBlock) {
        match block {
            ContentBlock::Text(t) => self.text(t.text),
            ContentBlock::Image(i) => self.image(&i.mime_type, &i.data),
            ContentBlock::Audio(a) => {
                let description = format!(
                    "{}, {}",
                    mime(Some(&a.mime_type)),
                    format_size(decoded_size(&a.data))
                );
                self.placeholder(format!("audio: {description}"));
            }
            ContentBlock::Resource(r) => self.contents(&r.resource, true),
            ContentBlock::ResourceLink(link) => {
                let uri = one_line(&link.uri, MAX_NAME_CHARS);
                self.placeholder(format!("resource link: {uri}"));
                self.has_links = true;
            }
            // Newer content types of `rmcp`.
            _ => self.lines.push("[content of an unknown type]".to_owned()),
        }
    }

    fn text(&mut self, text: String) {
        self.has_text |= !text.trim().is_empty();
        if !text.is_empty() {
            self.lines.push(text);
        }
    }

    /// Adds an embedded resource, or one that was read; the text of the latter needs no header.
    fn contents(&mut self, contents: &ResourceContents, embedded: bool) {
        match contents {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                if embedded {
                    let uri = one_line(uri, MAX_NAME_CHARS);
                    self.placeholder(format!("resource: {uri}"));
                }
                self.text(text.clone());
            }
            ResourceContents::BlobResourceContents {
                uri,
                mime_type,
                blob,
                ..
            } => {
                let uri = one_line(uri, MAX_NAME_CHARS);
                let description = format!(
                    "{uri}, {}, {}",
                    mime(mime_type.as_deref()),
                    format_size(decoded_size(blob))
                );
                self.placeholder(format!("resource: {description}"));
            }
            _ => self
                .lines
                .push("[a resource of an unknown type]".to_owned()),
        }
    }

    fn image(&mut self, kind: &str, data: &str) {
        let mut description = format!("{}, {}", mime(Some(kind)), format_size(decoded_size(data)));
        let kind = kind.trim().to_ascii_lowercase();
        let problem = if !IMAGE_TYPES.contains(&kind.as_str()) {
            Some("not a type that models accept")
        } else if data.len() > MAX_IMAGE_BYTES {
            Some("too large")
        } else if self.images.len() == MAX_IMAGES {
            Some("too many images")
        } else {
            match clean_base64(data) {
                Some(data) => {
                    self.images.push(ImageContent {
                        mime: kind,
                        data: data.into(),
                    });
                    None
                }
                None => Some("damaged"),
            }
        };
        if let Some(problem) = problem {
            description = format!("{description}, {problem}");
        }
        self.placeholder(format!("image: {description}"));
    }

    fn note(&mut self, note: String) {
        match self.notes.len() < MAX_NOTES {
            true => self.notes.push(note),
            false => self.omitted_notes += 1,
        }
    }

    /// The notes, with the number of those left out.
    fn notes(&mut self) -> Vec<String> {
        let mut notes = std::mem::take(&mut self.notes);
        if self.omitted_notes > 0 {
            notes.push(format!("… {} more", self.omitted_notes));
        }
        notes
    }
}

/// Removes line breaks from base64; `None` if the data is invalid.
fn clean_base64(data: &str) -> Option<String> {
    let data: String = data.split_ascii_whitespace().collect();
    let digits = data.trim_end_matches('=');
    let usable = !digits.is_empty()
        && data.len().is_multiple_of(4)
        && data.len() - digits.len() <= 2
        && digits
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/');
    usable.then_some(data)
}

/// Approximate decoded size of base64 data.
fn decoded_size(data: &str) -> usize {
    data.trim_end_matches('=').len() * 3 / 4
}

fn mime(kind: Option<&str>) -> String {
    match kind.map(str::trim) {
        None | Some("") => "no type".to_owned(),
        Some(kind) => one_line(kind, 64),
    }
}

/// Formats a size: `12 KB`.
fn format_size(bytes: usize) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        0..1000 => format!("{bytes} bytes"),
        1000..1_000_000 => format!("{} KB", bytes.div_ceil(1000)),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Truncates `text` to `max` bytes including a note of how much is missing. Cuts at a line end if one is near.
pub(super) fn truncate(mut text: String, max: usize) -> String {
    let total = text.len();
    if total <= max {
        return text;
    }
    let note = |left: usize| format!("\n[… {left} of {total} bytes left out]");
    // The number in the final note has at most as many digits as `total`.
    let limit = max.checked_sub(note(total).len());
    let mut end = limit.unwrap_or(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let Some(limit) = limit else {
        text.truncate(end);
        return text;
    };
    if let Some(line) = text[..end].rfind('\n')
        && line >= limit - limit / 8
    {
        end = line;
    }
    text.truncate(end);
    text.push_str(&note(total - end));
    text
}

#[cfg(test)]
mod tests;
