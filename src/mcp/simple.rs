//! What a server says, in our own types.

use rmcp::model::{
    CallToolResult, ContentBlock, GetPromptResult, ReadResourceResult, ResourceContents,
};

use super::types::CallResult;
use crate::chat::{Annotations, Tool};
use crate::config::mcp::Server;
use crate::error::{Error, Result};

pub(super) fn result(_alias: &str, result: CallToolResult, max_bytes: usize) -> CallResult {
    let text: Vec<&str> = result
        .content
        .iter()
        .filter_map(|c| match c {
            ContentBlock::Text(t) => Some(t.text.as_str()),
            _ => None,
        })
        .collect();
    let mut text = text.join("\n");
    let bytes = text.len() as u64;
    cut(&mut text, max_bytes);
    CallResult {
        text,
        is_error: result.is_error == Some(true),
        bytes,
        ..CallResult::default()
    }
}

pub(super) fn tool(server: &Server, tool: &rmcp::model::Tool) -> Option<Tool> {
    let name = &*tool.name;
    if name.is_empty() || name.chars().count() > 128 || name.chars().any(char::is_control) {
        return None;
    }
    let is_object = tool.input_schema.get("type").is_some_and(|t| t == "object");
    let schema = if is_object {
        serde_json::to_string(&*tool.input_schema).ok()?
    } else {
        r#"{"type":"object"}"#.to_owned()
    };
    let hints = tool.annotations.as_ref();
    Some(Tool {
        name: format!("{}.{name}", server.alias),
        server: server.alias.clone(),
        tool: name.to_owned(),
        title: tool.title.clone(),
        description: tool.description.as_deref().unwrap_or_default().to_owned(),
        schema,
        annotations: Annotations {
            read_only: hints.and_then(|h| h.read_only_hint),
            destructive: hints.and_then(|h| h.destructive_hint),
            idempotent: hints.and_then(|h| h.idempotent_hint),
            open_world: hints.and_then(|h| h.open_world_hint),
        },
        trusted: server.trust,
    })
}

pub(super) fn resource(result: &ReadResourceResult, max_bytes: usize) -> Result<String> {
    let mut text = String::new();
    for content in &result.contents {
        match content {
            ResourceContents::TextResourceContents { text: t, .. } => text.push_str(t),
            _ => return Err(Error::runtime("it is no text")),
        }
    }
    cut(&mut text, max_bytes);
    Ok(text)
}

pub(super) fn prompt(result: &GetPromptResult) -> String {
    let texts: Vec<&str> = result
        .messages
        .iter()
        .filter_map(|m| match &m.content {
            ContentBlock::Text(t) => Some(t.text.as_str()),
            _ => None,
        })
        .collect();
    texts.join("\n\n")
}

fn cut(text: &mut String, max_bytes: usize) {
    let fits = |at: &usize| *at <= max_bytes;
    if let Some((end, _)) = text
        .char_indices()
        .rev()
        .find(|(at, c)| fits(&(at + c.len_utf8())))
    {
        let end = text[end..]
            .chars()
            .next()
            .map_or(end, |c| end + c.len_utf8());
        text.truncate(end);
    } else {
        text.clear();
    }
}
