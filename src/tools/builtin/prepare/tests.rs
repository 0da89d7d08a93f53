use super::*;

#[test]
fn errors_in_arguments_name_the_field() {
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Arguments {
        #[serde(rename = "path")]
        _path: String,
        #[serde(rename = "offset")]
        _offset: Option<u64>,
        #[serde(default, rename = "all")]
        _all: bool,
    }
    for (arguments, message) in [
        (r#"{"path":1}"#, "path must be a string, not integer `1`"),
        (
            r#"{"path":"a","offset":"two"}"#,
            "offset must be a whole number, not string \"two\"",
        ),
        (
            r#"{"path":"a","offset":1.5}"#,
            "offset must be a whole number, not floating point `1.5`",
        ),
        (
            r#"{"path":"a","all":"yes"}"#,
            "all must be true or false, not string \"yes\"",
        ),
        ("{}", "missing field `path`"),
        (
            r#"{"path":"a","x":1}"#,
            "unknown field `x`, expected one of `path`, `offset`, `all`",
        ),
    ] {
        let error = parse::<Arguments>(arguments).unwrap_err();
        assert_eq!(error.message, format!("the arguments are wrong: {message}"));
    }
}

#[test]
fn a_text_that_is_an_integer_or_a_boolean_is_one_where_the_schema_wants_it() {
    let given = r#"{"limit":"x","offset":" 2","path":"3"}"#;
    let expected = r#"{"limit":"x","offset":2,"path":"3"}"#;
    assert_eq!(with_types(READ_FILE, given), expected);
    assert_eq!(with_types("unknown", given), given);
    let given = r#"{"fixed":"yes","files_only":"False","ignore_case":"true","pattern":"true"}"#;
    let expected = r#"{"files_only":false,"fixed":"yes","ignore_case":true,"pattern":"true"}"#;
    let typed: Value = serde_json::from_str(&with_types(GREP, given)).unwrap();
    assert_eq!(typed, serde_json::from_str::<Value>(expected).unwrap());
}

#[test]
fn numbers_beyond_the_schema_are_refused() {
    for (tool, arguments, message) in [
        (
            SHELL,
            r#"{"command":"ls","timeout":0}"#,
            "timeout must be from 1 to 3600, not 0",
        ),
        (
            SHELL,
            r#"{"command":"ls","timeout":99999}"#,
            "timeout must be from 1 to 3600, not 99999",
        ),
        (
            SHELL,
            r#"{"command":"ls","timeout":-1}"#,
            "timeout must be from 1 to 3600, not -1",
        ),
        (
            READ_FILE,
            r#"{"path":"f","offset":0}"#,
            "offset must be at least 1, not 0",
        ),
        (
            READ_FILE,
            r#"{"path":"f","limit":99999}"#,
            "limit must be from 1 to 2000, not 99999",
        ),
        (
            LIST_DIR,
            r#"{"depth":99}"#,
            "depth must be from 1 to 5, not 99",
        ),
        (
            GREP,
            r#"{"pattern":"x","context":21}"#,
            "context must be from 0 to 20, not 21",
        ),
        (
            GIT,
            r#"{"command":"log","max_count":0}"#,
            "max_count must be from 1 to 1000, not 0",
        ),
    ] {
        let error = check_ranges(tool, arguments).unwrap_err();
        assert_eq!(error.message, format!("the arguments are wrong: {message}"));
    }
    for (tool, arguments) in [
        (SHELL, r#"{"command":"ls","timeout":3600}"#),
        (READ_FILE, r#"{"path":"f","offset":1,"limit":null}"#),
        (READ_FILE, "[]"),
        ("unknown", r#"{"timeout":0}"#),
    ] {
        assert!(check_ranges(tool, arguments).is_ok(), "{arguments}");
    }
}

#[test]
fn a_pattern_that_is_a_path_begins_at_its_directory() {
    for (pattern, place, rest) in [
        ("./src/*.rs", "d/./src", "/*.rs"),
        ("./*.rs", "d/.", "/*.rs"),
        ("./src/main.rs", "d/./src", "main.rs"),
        ("../x/**/*.rs", "d/../x", "/**/*.rs"),
        ("/w/src/*.rs", "/w/src/", "/*.rs"),
        ("/w/s*/a/*.rs", "/w/", "/s*/a/*.rs"),
        ("/*.rs", "/", "/*.rs"),
        ("~/p/{a,b}/c", "~/p/", "/{a,b}/c"),
    ] {
        let expected = Some((place.to_owned(), rest.to_owned()));
        assert_eq!(split_pattern("d", pattern), expected, "{pattern}");
    }
    for pattern in ["*.rs", "src/**/*.rs", "main", "~", ".gitignore"] {
        assert_eq!(split_pattern("d", pattern), None, "{pattern}");
    }
}
