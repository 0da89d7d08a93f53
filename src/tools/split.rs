//! The five tools that replace a long tool list: `retrieve_tools`, three `call_tool_*` tools for the operation classes,
//! and `read_result`. Pure.
//!
//! They are sent with every request, so they are short. An error about a call explains to the model how to correct it.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::builtin::{RETRIEVE_TOOLS, read_result_tool, retrieve_tools_tool};
use crate::chat::{OperationClass, ToolDefinition};
use crate::safety::json_text;

/// Maximum number of bytes of server names in a tool description.
const MAX_SERVER_NAMES_BYTES: usize = 400;

/// The tool and arguments that a `call_tool_*` call refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallTarget {
    /// The server's alias.
    pub server: String,
    /// The tool's name at its server.
    pub tool: String,
    /// The arguments, as the text of a JSON object.
    pub arguments: String,
}

/// Returns the five tools for a model with access to these servers.
pub fn split_tools<'a>(servers: impl IntoIterator<Item = &'a str>) -> Vec<ToolDefinition> {
    let mut tools = DEFINITIONS.clone();
    let mut names = String::new();
    for server in servers {
        if names.len() > MAX_SERVER_NAMES_BYTES {
            names.push_str(", …");
            break;
        }
        if !names.is_empty() {
            names.push_str(", ");
        }
        names.push_str(server);
    }
    if let Some(retrieve) = tools.iter_mut().find(|tool| tool.name == RETRIEVE_TOOLS) {
        retrieve.description += &format!(" Servers: {names}.");
    }
    tools
}

static DEFINITIONS: LazyLock<Vec<ToolDefinition>> = LazyLock::new(|| {
    let mut tools = vec![retrieve_tools_tool()];
    tools.extend(OperationClass::ALL.map(|variant| {
        let (target, examples) = match variant {
            OperationClass::Read => ("a tool that changes nothing", "look up, list, search"),
            OperationClass::Write => ("a tool that creates or changes something", "create, send, set"),
            OperationClass::Destructive => (
                "a tool that may destroy something",
                "delete, overwrite, revoke",
            ),
        };
        let word = variant.as_str();
        let description =
            format!("Calls {target} ({examples}), with intent.operation_type \"{word}\". First find it with {RETRIEVE_TOOLS}.");
        proxy_tool(variant.call_tool_name(), &description, &call_schema(variant))
    }));
    tools.push(read_result_tool());
    tools
});

fn proxy_tool(name: &str, description: &str, schema: &Value) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        tool: name.to_owned(),
        description: description.to_owned(),
        schema: schema.to_string(),
        ..ToolDefinition::default()
    }
}

/// Returns the schema of a `call_tool_*` tool. The flat form of the intent is described and not part of the schema,
/// because each key would be sent three times with every request. `intent` is not listed as required there, since some
/// providers validate calls against the schema.
fn call_schema(variant: OperationClass) -> Value {
    let words = OperationClass::ALL.map(OperationClass::as_str);
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "server:tool"},
            "args": {"type": "object", "description": "The tool's arguments, by its inputSchema"},
            "args_json": {"type": "string", "description": "Same as args, as JSON text"},
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
                    "reason": {"type": "string", "description": "Reason, shown to the user"},
                },
                "required": ["operation_type"],
            },
        },
        "required": ["name"],
    })
}

/// All parameters of a `call_tool_*` tool. Any other key was meant for the tool itself; dropping it would change the
/// call.
const PARAMETERS: [&str; 7] = [
    "name",
    "args",
    "args_json",
    "intent",
    "intent_operation_type",
    "intent_data_sensitivity",
    "intent_reason",
];

/// Returns the call that a call through `variant` refers to.
///
/// # Errors
/// The arguments are invalid; the text is for the model.
pub fn parse_call_target(
    variant: OperationClass,
    arguments: &Map<String, Value>,
) -> Result<CallTarget, String> {
    let variant = variant.call_tool_name();
    let name = match value_of(arguments, "name") {
        Some(Value::String(name)) => name.as_str(),
        Some(_) => return Err("Invalid name: must be a string, 'server:tool'".into()),
        None => return Err(format!("name is required for {variant}: 'server:tool'")),
    };
    // An alias contains neither separator; a tool's name may contain both.
    let parts = name.split_once([':', '.']);
    let Some((server, tool)) =
        parts.filter(|(server, tool)| !server.is_empty() && !tool.is_empty())
    else {
        return Err(format!(
            "Invalid name '{name}': must be 'server:tool', as listed by {RETRIEVE_TOOLS}"
        ));
    };
    if let Some(other) = arguments
        .keys()
        .find(|key| !PARAMETERS.contains(&key.as_str()))
    {
        return Err(format!(
            "Unknown parameter '{other}' of {variant}: arguments of the tool itself go into args"
        ));
    }
    let args = match value_of(arguments, "args") {
        None => None,
        Some(Value::Object(map)) => Some(map.clone()),
        Some(_) => {
            return Err("Invalid args: must be an object; JSON text goes into args_json".into());
        }
    };
    let text =
        match value_of(arguments, "args_json") {
            None => None,
            Some(Value::String(text)) if text.trim().is_empty() => None,
            Some(Value::String(text)) => Some(json_text::parse_object(text).map_err(|e| {
                format!("Invalid args_json: must be the text of one JSON object: {e}")
            })?),
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
    Ok(CallTarget {
        server: server.to_owned(),
        tool: tool.to_owned(),
        arguments: json_text::text(&args),
    })
}

/// Returns the value of a key; `null` counts as absent.
fn value_of<'v>(arguments: &'v Map<String, Value>, key: &str) -> Option<&'v Value> {
    arguments.get(key).filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests;
