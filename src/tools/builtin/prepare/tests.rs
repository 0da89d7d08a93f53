use super::*;

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
