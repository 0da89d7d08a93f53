//! What a hostile MCP server sends: tools, results, resources and prompts.

use std::sync::Arc;

use aish::chat::{OperationClass, ToolDefinition};
use aish::config::mcp::ServerSettings;
use aish::mcp::ToolCatalog;
use aish::mcp::content::{call_result, convert_tool, prompt_text, resource_text};
use aish::safety::intent::{check_intent, parse_intent};
use aish::safety::policy::canonical_arguments;
use aish::safety::redact::Redactor;
use aish::safety::tool_diff::{ShownTool, difference, is_changed};
use aish::tools::search::{RetrieveRequest, ToolIndex, retrieve};
use aish::tools::split::parse_call_target;
use rmcp::model::{CallToolResult, GetPromptResult, ListToolsResult, ReadResourceResult, Tool};
use serde_json::{Map, Value};

use crate::fuzz::mutator::Random;
use crate::fuzz::{Shape, Target};

pub const TARGET: Target = Target {
    name: "mcp",
    run,
    shape: Shape::Json,
    usual_size: 4 << 10,
    tokens: &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "null",
        "true",
        "false",
        "\"\"",
        "\"tools\":",
        "\"name\":",
        "\"title\":",
        "\"description\":",
        "\"inputSchema\":",
        "\"outputSchema\":",
        "\"type\":\"object\"",
        "\"type\":\"string\"",
        "\"properties\":",
        "\"annotations\":",
        "\"readOnlyHint\":true",
        "\"destructiveHint\":false",
        "\"content\":",
        "\"type\":\"text\"",
        "\"text\":",
        "\"type\":\"image\"",
        "\"data\":",
        "\"mimeType\":",
        "\"type\":\"resource_link\"",
        "\"uri\":",
        "\"resource\":",
        "\"blob\":",
        "\"structuredContent\":",
        "\"isError\":true",
        "\"contents\":",
        "\"messages\":",
        "\"role\":\"assistant\"",
        "\"intent\":",
        "\"operation_type\":\"read\"",
        "\"args_json\":",
        "\"args\":",
        "server:tool",
        "\\u001b",
        "\\u202e",
        "\\ud83d",
        "1e999",
        "123456789012345678901234567890",
        "AAAA",
        "\"query\":",
    ],
};

/// Characters that a terminal acts on.
fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn check_result(result: CallToolResult, max: usize) {
    let again = call_result("srv", result.clone(), max);
    let converted = call_result("srv", result, max);
    assert_eq!(format!("{converted:?}"), format!("{again:?}"));
    assert!(
        converted.text.len() <= max.max("[no output]".len()),
        "{} of {max}",
        converted.text.len()
    );
    assert!(!converted.text.is_empty() || max == 0);
    assert!(converted.images.len() <= 8 && converted.notes.len() <= 10);
    for note in &converted.notes {
        assert!(
            !note.contains(is_control) && note.chars().count() < 400,
            "{note:?}"
        );
    }
    for image in &converted.images {
        assert!(image.mime.starts_with("image/") && !image.data.is_empty());
        assert!(
            image
                .data
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b))
        );
    }
}

/// Checks one tool, and that a change of what the user saw is noticed.
fn check_tool(server: &ServerSettings, tool: &Tool, redactor: &Redactor) -> Option<ToolDefinition> {
    let converted = convert_tool(server, tool)?;
    assert_eq!(
        convert_tool(server, tool).unwrap().identity,
        converted.identity
    );
    assert_eq!(converted.name, format!("srv.{}", converted.tool));
    assert_eq!(converted.tool, &*tool.name);
    assert!(
        !converted
            .name
            .contains(|c: char| is_control(c) || c.is_whitespace()),
        "{:?}",
        converted.name
    );
    assert!(converted.schema.len() <= 64 << 10 && converted.description.len() <= 8 << 10);
    let schema: Map<String, Value> = serde_json::from_str(&converted.schema).expect("an object");
    assert_eq!(schema.get("type"), Some(&Value::from("object")));
    let seen = ShownTool::of(&converted, redactor);
    assert!(!is_changed(&seen, &converted, redactor));
    assert!(difference(&seen, &converted, redactor, None).is_empty());
    let change = |change: fn(&mut Tool)| {
        let mut other = tool.clone();
        change(&mut other);
        convert_tool(server, &other).expect("only the name can make a tool unusable")
    };
    let with_title =
        change(|t| t.title = Some(format!("{} x", t.title.as_deref().unwrap_or_default())));
    let with_text = change(|t| {
        t.description = Some(format!("x{}", t.description.as_deref().unwrap_or_default()).into())
    });
    let with_output = change(|t| {
        let mut schema = t.output_schema.as_deref().cloned().unwrap_or_default();
        schema.insert(format!("x{}", schema.len()), Value::Null);
        t.output_schema = Some(Arc::new(schema));
    });
    for other in [&with_title, &with_text, &with_output] {
        assert_ne!(other.identity, converted.identity);
    }
    // A description that is cut off may have changed after the cut.
    if with_text.description != converted.description {
        assert!(is_changed(&seen, &with_text, redactor));
        let lines = difference(&seen, &with_text, redactor, None);
        assert!(
            !lines.is_empty() && lines.len() <= 401,
            "{} lines",
            lines.len()
        );
    }
    Some(converted)
}

fn check_tools(tools: &[Tool], redactor: &Redactor, random: &mut Random) {
    let server = ServerSettings {
        trust_annotations: random.below(2) == 0,
        ..ServerSettings::with_url("srv", "http://127.0.0.1/")
    };
    let converted: Vec<_> = tools
        .iter()
        .filter_map(|tool| check_tool(&server, tool, redactor))
        .collect();
    let tools: Arc<[ToolDefinition]> = converted.into();
    let catalog = ToolCatalog::new(tools.clone(), Vec::new());
    for tool in tools.iter() {
        assert_eq!(catalog.find(&tool.name).map(|t| &t.name), Some(&tool.name));
        let query = tool.description.chars().take(100).collect();
        let wanted = RetrieveRequest {
            query,
            limit: 5,
            brief: false,
        };
        let answer = retrieve(&tools, &ToolIndex::new(&tools), &wanted);
        assert!(serde_json::from_str::<Value>(&answer.to_string()).is_ok());
    }
}

/// Arguments of a call of a `call_tool_*` tool, which come from the model.
fn check_call(arguments: &Map<String, Value>) -> bool {
    let mut parsed = false;
    for variant in OperationClass::ALL {
        let target = parse_call_target(variant, arguments);
        if let Ok(target) = &target {
            assert!(!target.server.is_empty() && !target.tool.is_empty());
            let canonical = canonical_arguments(&target.arguments).expect("JSON");
            assert_eq!(canonical_arguments(&canonical).expect("JSON"), canonical);
        }
        if let Ok(intent) = parse_intent(variant, arguments) {
            parsed |= target.is_ok();
            for strict in [true, false] {
                check_intent(
                    variant,
                    &intent,
                    "a:b",
                    (Default::default(), strict),
                    strict,
                );
            }
        }
    }
    let _ = RetrieveRequest::parse(arguments);
    parsed
}

fn run(input: &[u8]) -> bool {
    thread_local! {
        static REDACTOR: Redactor = Redactor::default();
    }
    let mut random = Random::of(input);
    let mut deep = false;
    if let Ok(tools) = serde_json::from_slice::<ListToolsResult>(input) {
        deep |= !tools.tools.is_empty();
        REDACTOR.with(|redactor| check_tools(&tools.tools, redactor, &mut random));
    }
    if let Ok(result) = serde_json::from_slice::<CallToolResult>(input) {
        deep |= !result.content.is_empty();
        check_result(result, *random.pick(&[1, 20, 40, 100, 1000, 65_536]));
    }
    if let Ok(result) = serde_json::from_slice::<ReadResourceResult>(input) {
        let max = random.below(300);
        match resource_text(&result, max) {
            Ok(text) => assert!(text.len() <= max),
            Err(e) => assert!(!e.message.contains(is_control), "{:?}", e.message),
        }
        deep = true;
    }
    if let Ok(result) = serde_json::from_slice::<GetPromptResult>(input) {
        prompt_text(&result);
        deep = true;
    }
    if let Ok(arguments) = serde_json::from_slice::<Map<String, Value>>(input) {
        deep |= check_call(&arguments);
    }
    deep
}
