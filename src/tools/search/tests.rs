use super::*;

fn tool(name: &str, description: &str, schema: Value) -> ToolDefinition {
    let (server, tool) = name.split_once('.').unwrap();
    ToolDefinition {
        name: name.to_owned(),
        server: server.to_owned(),
        tool: tool.to_owned(),
        description: description.to_owned(),
        schema: schema.to_string(),
        ..ToolDefinition::default()
    }
}

fn some() -> Vec<ToolDefinition> {
    vec![
        tool(
            "github.create_issue",
            "Opens a ticket in a repository",
            json!({"type": "object", "properties": {"title": {"type": "string"}, "labels": {"type": "array",
                "items": {"type": "object", "properties": {"colour": {"description": "as in a rainbow"}}}}}}),
        ),
        tool("github.list-issues", "All tickets", json!({})),
        tool(
            "fs.readFile",
            "Gives back what is stored on disk",
            json!({}),
        ),
        tool("fs.HTTPServer.start", "Serves a directory", json!({})),
    ]
}

fn best(query: &str) -> Option<String> {
    let tools = some();
    let found = ToolIndex::new(&tools).search(query, 1);
    found.first().map(|(at, _)| tools[*at].name.clone())
}

#[test]
fn names_are_split_at_word_and_camel_case_boundaries() {
    for (query, name) in [
        ("read a file", "fs.readFile"),
        ("files reading", "fs.readFile"),
        ("http", "fs.HTTPServer.start"),
        ("server", "fs.HTTPServer.start"),
        ("create issue", "github.create_issue"),
        ("creating issues", "github.create_issue"),
        ("github list", "github.list-issues"),
        ("title", "github.create_issue"),
        ("colours", "github.create_issue"),
        ("rainbow", "github.create_issue"),
        ("make a bug", "github.create_issue"),
        ("cat", "fs.readFile"),
        ("a folder", "fs.HTTPServer.start"),
    ] {
        assert_eq!(best(query).as_deref(), Some(name), "{query}");
    }
    for nothing in ["", "  ", "the", "zzz", "\u{1b}[2J"] {
        assert_eq!(best(nothing), None, "{nothing:?}");
    }
}

#[test]
fn terms_match_without_endings_and_in_any_script() {
    for (a, b) in [
        ("files", "file"),
        ("creating", "creates"),
        ("created", "create"),
        ("entries", "entry"),
        ("stopped", "stop"),
        ("directories", "directory"),
        ("processes", "processing"),
        ("Große", "große"),
    ] {
        assert_eq!(tokenize(a), tokenize(b), "{a} {b}");
    }
    assert_eq!(tokenize("读取文件").len(), 4);
    assert_eq!(
        tokenize("getHTTPUrl_v2.0"),
        ["get", "http", "url", "v2", "0"]
    );
    assert_eq!(tokenize("status thing red as"), ["status", "thing", "red"]);
    assert!(tokenize(&"x".repeat(41)).is_empty());
}

#[test]
fn equal_scores_keep_their_order_and_the_limit_holds() {
    let same: Vec<ToolDefinition> = (0..50)
        .map(|n| tool(&format!("s.same{n}"), "the very same", json!({})))
        .collect();
    let index = ToolIndex::new(&same);
    let found = index.search("very same", 20);
    let at: Vec<usize> = found.iter().map(|(at, _)| *at).collect();
    assert_eq!(at, (0..20).collect::<Vec<_>>());
    assert!(ToolIndex::new(&[]).search("anything", 5).is_empty());
}

#[test]
fn the_answer_contains_what_the_next_call_needs() {
    let mut tools = some();
    tools[0].annotations.destructive = Some(true);
    tools[2].annotations.read_only = Some(true);
    tools[2].annotations.open_world = Some(false);
    let index = ToolIndex::new(&tools);
    let ask = |arguments: Value| {
        let wanted = RetrieveRequest::parse(arguments.as_object().unwrap()).unwrap();
        retrieve(&tools, &index, &wanted)
    };
    let answer = ask(json!({"query": "create an issue", "limit": 1}));
    let first = &answer["tools"][0];
    assert_eq!(first["name"], "github:create_issue");
    assert_eq!(first["server"], "github");
    assert_eq!(first["description"], "Opens a ticket in a repository");
    assert_eq!(
        first["inputSchema"]["properties"]["title"]["type"],
        "string"
    );
    assert_eq!(first["annotations"], json!({"destructiveHint": true}));
    assert_eq!(first["call_with"], "call_tool_destructive");
    assert!(first["score"].as_f64().unwrap() > 0.0);
    assert_eq!(answer["tools"].as_array().unwrap().len(), 1);
    let answer = ask(json!({"query": "readFile", "detail": "brief"}));
    let first = answer["tools"][0].as_object().unwrap();
    assert!(!first.contains_key("inputSchema"));
    assert_eq!(
        first["annotations"],
        json!({"readOnlyHint": true, "openWorldHint": false})
    );
    assert_eq!(first["call_with"], "call_tool_read");
    assert_eq!(
        ask(json!({"query": "tickets"}))["tools"][0]["call_with"],
        "call_tool_write",
        "a tool without annotations"
    );
}

#[test]
fn empty_queries_and_answers_say_what_to_do_next() {
    let tools = some();
    let index = ToolIndex::new(&tools);
    let ask = |query: &str| {
        let wanted = RetrieveRequest {
            query: query.to_owned(),
            limit: 5,
            brief: false,
        };
        retrieve(&tools, &index, &wanted)
    };
    let servers = json!([{"server": "fs", "tools": 2}, {"server": "github", "tools": 2}]);
    for (query, word) in [("", "query is empty"), ("zzz", "Nothing was found")] {
        let answer = ask(query);
        assert_eq!(answer["servers"], servers);
        let instructions = answer["usage_instructions"].as_str().unwrap();
        assert!(instructions.contains(word), "{instructions}");
    }
    let wanted = RetrieveRequest::parse(&Map::new()).unwrap();
    assert_eq!((wanted.limit, wanted.brief), (5, false));
    let answer = retrieve(&[], &ToolIndex::new(&[]), &wanted);
    assert!(
        answer["usage_instructions"]
            .as_str()
            .unwrap()
            .contains("no tools")
    );
}

#[test]
fn invalid_arguments_are_reported() {
    for (arguments, message) in [
        (json!({"query": 1}), "query must be a string"),
        (
            json!({"limit": 0}),
            "limit must be a whole number from 1 to 20",
        ),
        (
            json!({"limit": 21}),
            "limit must be a whole number from 1 to 20",
        ),
        (
            json!({"limit": "5"}),
            "limit must be a whole number from 1 to 20",
        ),
        (json!({"detail": "all"}), "detail must be full or brief"),
        (json!({"detail": 1}), "detail must be full or brief"),
    ] {
        let read = RetrieveRequest::parse(arguments.as_object().unwrap());
        assert_eq!(read, Err(message.to_owned()));
    }
    let null = json!({"query": null, "limit": null, "detail": null});
    assert!(RetrieveRequest::parse(null.as_object().unwrap()).is_ok());
}
