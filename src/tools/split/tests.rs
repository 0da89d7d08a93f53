use super::*;

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no object"),
    }
}

fn target_of(value: Value) -> Result<CallTarget, String> {
    parse_call_target(OperationClass::Read, &map(value))
}

#[test]
fn the_five_tools_have_complete_schemas() {
    let tools = split_tools(["fs", "git"]);
    let names: Vec<&str> = tools.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "retrieve_tools",
            "call_tool_read",
            "call_tool_write",
            "call_tool_destructive",
            "read_result"
        ]
    );
    for tool in &tools {
        let schema: Value = serde_json::from_str(&tool.schema).unwrap();
        assert_eq!(schema["type"], "object", "{}", tool.name);
        // Keywords that some providers reject at the top level.
        for word in ["anyOf", "oneOf", "allOf"] {
            assert!(schema.get(word).is_none(), "{}", tool.name);
        }
        for key in schema["required"].as_array().unwrap() {
            let key = key.as_str().unwrap();
            assert!(schema["properties"].get(key).is_some(), "{key}");
        }
        if OperationClass::from_call_tool_name(&tool.name).is_some() {
            let properties = schema["properties"].as_object().unwrap();
            assert!(properties.keys().all(|k| PARAMETERS.contains(&k.as_str())));
            for key in PARAMETERS {
                assert!(tool.schema.contains(key), "{}: {key}", tool.name);
            }
        }
    }
    assert!(tools[0].description.ends_with(" Servers: fs, git."));
}

/// The definitions are sent with every request.
#[test]
fn the_five_definitions_take_less_than_a_thousand_tokens() {
    let size = |t: &ToolDefinition| t.name.len() + t.description.len() + t.schema.len();
    let many: Vec<String> = (0..500).map(|n| format!("server-{n}")).collect();
    let tools = split_tools(many.iter().map(String::as_str));
    let bytes: usize = tools.iter().map(size).sum();
    assert!(bytes < 4000, "{bytes} bytes");
    assert!(
        tools[0].description.ends_with(", …."),
        "{}",
        tools[0].description
    );
}

#[test]
fn a_target_accepts_both_separators_and_normalises_its_arguments() {
    let read = |server: &str, tool: &str, arguments: &str| {
        Ok(CallTarget {
            server: server.into(),
            tool: tool.into(),
            arguments: arguments.into(),
        })
    };
    for (call, expected) in [
        (json!({"name": "fs:read"}), read("fs", "read", "{}")),
        (json!({"name": "fs.read"}), read("fs", "read", "{}")),
        (json!({"name": "fs:a.b:c"}), read("fs", "a.b:c", "{}")),
        (json!({"name": "fs.a:b.c"}), read("fs", "a:b.c", "{}")),
        (
            json!({"name": "fs:read", "args": null, "args_json": " "}),
            read("fs", "read", "{}"),
        ),
        (
            json!({"name": "fs:read", "args": {"b": 1.5, "a": "é"}}),
            read("fs", "read", "{\"b\":1.5,\"a\":\"é\"}"),
        ),
        (
            json!({"name": "fs:read", "args_json": " { \"b\" : 1.50, \"a\": \"\\u00e9\" } "}),
            read("fs", "read", "{\"b\":1.5,\"a\":\"é\"}"),
        ),
        (
            json!({"name": "fs:read", "args": {"a": 1, "b": 2}, "args_json": "{\"b\":2,\"a\":1}"}),
            read("fs", "read", "{\"a\":1,\"b\":2}"),
        ),
        // Of two equal keys the last counts, as in every JSON parser.
        (
            json!({"name": "fs:read", "args_json": "{\"a\":1,\"a\":2}"}),
            read("fs", "read", "{\"a\":2}"),
        ),
    ] {
        assert_eq!(target_of(call.clone()), expected, "{call}");
    }
}

#[test]
fn errors_tell_the_model_how_to_correct_the_call() {
    for (call, message) in [
        (
            json!({}),
            "name is required for call_tool_read: 'server:tool'",
        ),
        (
            json!({"name": 7}),
            "Invalid name: must be a string, 'server:tool'",
        ),
        (
            json!({"name": "read"}),
            "Invalid name 'read': must be 'server:tool', as listed by retrieve_tools",
        ),
        (
            json!({"name": ":read"}),
            "Invalid name ':read': must be 'server:tool', as listed by retrieve_tools",
        ),
        (
            json!({"name": "fs:"}),
            "Invalid name 'fs:': must be 'server:tool', as listed by retrieve_tools",
        ),
        (
            json!({"name": "fs:read", "path": "/"}),
            "Unknown parameter 'path' of call_tool_read: arguments of the tool itself go into args",
        ),
        (
            json!({"name": "fs:read", "args": "{}"}),
            "Invalid args: must be an object; JSON text goes into args_json",
        ),
        (
            json!({"name": "fs:read", "args_json": {}}),
            "Invalid args_json: must be a string; an object goes into args",
        ),
        (
            json!({"name": "fs:read", "args": {"a": 1}, "args_json": "{\"a\":2}"}),
            "args and args_json disagree: give one of the two",
        ),
        (
            json!({"name": "fs:read", "args": {}, "args_json": "{\"a\":2}"}),
            "args and args_json disagree: give one of the two",
        ),
    ] {
        assert_eq!(target_of(call.clone()), Err(message.to_owned()), "{call}");
    }
    for text in ["[]", "{", "null", "{} {}", "{\"a\":1e999}"] {
        let why = target_of(json!({"name": "fs:read", "args_json": text})).unwrap_err();
        let begin = "Invalid args_json: must be the text of one JSON object: ";
        assert!(why.starts_with(begin), "{text}: {why}");
    }
}
