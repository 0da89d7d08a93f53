//! The five tools that a model sees where there are too many to show each: what they are called, what they take, and
//! what it means. Pure.
//!
//! They go out with every request, so they are short. What is wrong with a call is said in words by which the model can
//! mend it.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::search::LIMIT;
use crate::chat::{Operation, Tool};

/// The tool that finds others.
pub const RETRIEVE: &str = "retrieve_tools";
/// The tool that reads on in a long result.
pub const READ_RESULT: &str = "read_result";

/// The most letters of the servers' names that the model is told.
const SERVERS: usize = 400;

/// A call through one of the three variants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The server's alias.
    pub server: String,
    /// The tool's name there.
    pub tool: String,
    /// The one text of its arguments.
    pub arguments: String,
}

/// The tools for a model whose servers are these.
pub fn tools<'a>(servers: impl IntoIterator<Item = &'a str>) -> Vec<Tool> {
    let mut tools = FIXED.clone();
    let mut names = String::new();
    for server in servers {
        if names.len() > SERVERS {
            names.push_str(", …");
            break;
        }
        if !names.is_empty() {
            names.push_str(", ");
        }
        names.push_str(server);
    }
    if let Some(retrieve) = tools.iter_mut().find(|tool| tool.name == RETRIEVE) {
        retrieve.description += &format!(" Servers: {names}.");
    }
    tools
}

/// The tool that reads on in a long result, where the others are offered each by itself.
pub fn read_result() -> Option<Tool> {
    FIXED.iter().find(|tool| tool.name == READ_RESULT).cloned()
}

static FIXED: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let retrieve = json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What the tool should do, in a few words"},
            "limit": {"type": "integer", "minimum": 1, "maximum": LIMIT.1, "default": LIMIT.0},
            "detail": {
                "type": "string",
                "enum": ["full", "brief"],
                "description": "brief leaves out inputSchema",
            },
        },
        "required": ["query"],
    });
    let mut tools = vec![tool(
        RETRIEVE,
        "Finds tools of the connected servers. Each comes with its inputSchema and with call_with, the tool to call it with.",
        &retrieve,
    )];
    tools.extend(Operation::ALL.map(|variant| {
        let (what, meant) = match variant {
            Operation::Read => ("a tool that changes nothing", "look up, list, search"),
            Operation::Write => ("a tool that creates or changes something", "create, send, set"),
            Operation::Destructive => (
                "a tool that may destroy something",
                "delete, overwrite, revoke",
            ),
        };
        let word = variant.as_str();
        let description =
            format!("Calls {what} ({meant}), with intent.operation_type \"{word}\". First find it with {RETRIEVE}.");
        tool(variant.variant(), &description, &call(variant))
    }));
    tools.push(tool(
        READ_RESULT,
        "Reads on in a result that was cut; the result names the key and the next offset.",
        &json!({
            "type": "object",
            "properties": {
                "key": {"type": "string"},
                "offset": {"type": "integer", "minimum": 0, "description": "In bytes"},
                "limit": {"type": "integer", "minimum": 1},
            },
            "required": ["key"],
        }),
    ));
    tools
});

fn tool(name: &str, description: &str, schema: &Value) -> Tool {
    Tool {
        name: name.to_owned(),
        tool: name.to_owned(),
        description: description.to_owned(),
        schema: schema.to_string(),
        ..Tool::default()
    }
}

/// What a variant takes. The flat form of the intent is told of and no part of the schema: each key would go out three
/// times with every request. `intent` is not required there, since some servers check calls against it.
fn call(variant: Operation) -> Value {
    let words = Operation::ALL.map(Operation::as_str);
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "server:tool"},
            "args": {"type": "object", "description": "The tool's arguments, by its inputSchema"},
            "args_json": {"type": "string", "description": "The same as JSON text, in place of args"},
            "intent": {
                "type": "object",
                "description": format!(
                    "Required: what this call does. Or flat: intent_operation_type (\"{}\"), intent_data_sensitivity, intent_reason",
                    variant.as_str()
                ),
                "properties": {
                    "operation_type": {"type": "string", "enum": words},
                    "data_sensitivity": {
                        "type": "string",
                        "enum": ["public", "internal", "private", "unknown"],
                    },
                    "reason": {"type": "string", "description": "Why, for the user who is asked"},
                },
                "required": ["operation_type"],
            },
        },
        "required": ["name"],
    })
}

/// All that a variant takes. What is not among it was meant for the tool: without it the call would be another one.
const KEYS: [&str; 7] = [
    "name",
    "args",
    "args_json",
    "intent",
    "intent_operation_type",
    "intent_data_sensitivity",
    "intent_reason",
];

/// What a call through `variant` is to call.
///
/// # Errors
/// That cannot be told: what the model is told.
pub fn target(variant: Operation, arguments: &Map<String, Value>) -> Result<Target, String> {
    let variant = variant.variant();
    let name = match given(arguments, "name") {
        Some(Value::String(name)) => name.as_str(),
        Some(_) => return Err("Invalid name: must be a string, 'server:tool'".into()),
        None => return Err(format!("name is required for {variant}: 'server:tool'")),
    };
    // No alias has either sign in it, and a tool's name may have both.
    let parts = name.split_once([':', '.']);
    let Some((server, tool)) =
        parts.filter(|(server, tool)| !server.is_empty() && !tool.is_empty())
    else {
        return Err(format!(
            "Invalid name '{name}': must be 'server:tool', as {RETRIEVE} tells it"
        ));
    };
    if let Some(other) = arguments.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!(
            "Unknown parameter '{other}' of {variant}: arguments of the tool itself go into args"
        ));
    }
    let args = match given(arguments, "args") {
        None => None,
        Some(Value::Object(map)) => Some(map.clone()),
        Some(_) => {
            return Err("Invalid args: must be an object; JSON text goes into args_json".into());
        }
    };
    let text = match given(arguments, "args_json") {
        None => None,
        Some(Value::String(text)) if text.trim().is_empty() => None,
        Some(Value::String(text)) => Some(
            serde_json::from_str::<Map<String, Value>>(text).map_err(|e| {
                format!("Invalid args_json: must be the text of one JSON object: {e}")
            })?,
        ),
        Some(_) => {
            return Err("Invalid args_json: must be a string; an object goes into args".into());
        }
    };
    let args = match (args, text) {
        (Some(args), Some(text)) if args != text => {
            return Err("args and args_json disagree: give one of the two".into());
        }
        (args, text) => args.or(text).unwrap_or_default(),
    };
    Ok(Target {
        server: server.to_owned(),
        tool: tool.to_owned(),
        arguments: Value::Object(args).to_string(),
    })
}

/// What a call says of a key; nothing where it says `null`.
fn given<'v>(arguments: &'v Map<String, Value>, key: &str) -> Option<&'v Value> {
    arguments.get(key).filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests;
