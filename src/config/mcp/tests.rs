use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use super::super::file::{FileFormat, parse};
use super::super::mcp::{self, HandshakeMode, ServerSettings, ServerTransport, TokenSource};
use super::super::resolve::{resolve, resolve_with_origins};
use super::super::{Config, ConfigOverrides, McpSettings};
use crate::config::tests::without_known_keys;
use crate::secret::{REDACTED, Secret};

fn config(text: &str, format: FileFormat) -> Config {
    let file = parse(text, format, Path::new("/c")).unwrap();
    resolve(&file, &ConfigOverrides::default()).unwrap()
}

fn faults(text: &str) -> Vec<String> {
    match parse(text, FileFormat::Toml, Path::new("/c")) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

/// A valid server with more lines (from line 3).
fn http_with(lines: &str) -> String {
    format!("[mcp.servers.a]\nurl = 'https://a.example/mcp'\n{lines}\n")
}

const WHOLE: &str = r#"
[mcp]
max_tool_depth = 3
max_result_bytes = 2048
[mcp.servers.tracker]
url = "https://tracker.example/mcp"
auth_token = " t0ken "
headers = { X-Team = "blue" }
timeout = 5
lifecycle = "modern"
trust_annotations = true
tools = ["search"]
disabled = true
[mcp.servers.f-1]
command = "files"
args = ["--root", "/x"]
env = { A = "b", KEY = "$FILES_KEY" }
[mcp.auto_approve]
"tracker.search" = true
"tracker.*" = false
"later.x.y" = true
"#;

#[test]
fn every_setting_arrives() {
    let mcp = config(WHOLE, FileFormat::Toml).mcp;
    assert_eq!((mcp.max_tool_depth, mcp.max_result_bytes), (3, 2048));
    let tracker = &mcp.servers["tracker"];
    assert_eq!(
        tracker.transport,
        ServerTransport::Http {
            url: "https://tracker.example/mcp".into(),
            auth: TokenSource::Token(Secret::new("t0ken")),
            headers: vec![("X-Team".into(), "blue".into())],
        }
    );
    assert_eq!(tracker.timeout, Duration::from_secs(5));
    assert_eq!(tracker.lifecycle, HandshakeMode::Modern);
    assert!(tracker.trust_annotations && tracker.disabled);
    assert_eq!(tracker.tools.as_deref(), Some(&["search".to_string()][..]));
    let files = &mcp.servers["f-1"];
    assert_eq!(
        files.transport,
        ServerTransport::Stdio {
            command: "files".into(),
            args: vec!["--root".into(), "/x".into()],
            env: vec![
                ("A".into(), "b".into()),
                ("KEY".into(), "$FILES_KEY".into())
            ],
        }
    );
    assert_eq!(files.lifecycle, HandshakeMode::Legacy);
    assert_eq!(files.timeout, Duration::from_secs(60));
    assert_eq!((files.trust_annotations, files.disabled), (false, false));
    assert_eq!(files.tools, None);
}

#[test]
fn json_means_the_same() {
    let json = r#"{"mcp": {"max_tool_depth": 3, "max_result_bytes": 2048, "servers": {
        "tracker": {"url": "https://tracker.example/mcp", "auth_token": "t0ken",
            "headers": {"X-Team": "blue"}, "timeout": 5, "lifecycle": "modern", "trust_annotations": true,
            "tools": ["search"], "disabled": true},
        "f-1": {"command": "files", "args": ["--root", "/x"], "env": {"A": "b", "KEY": "$FILES_KEY"}}},
        "auto_approve": {"tracker.search": true, "tracker.*": false, "later.x.y": true}}}"#;
    assert_eq!(
        config(json, FileFormat::Json).mcp,
        config(WHOLE, FileFormat::Toml).mcp
    );
}

#[test]
fn absent_section_gives_the_defaults() {
    assert_eq!(config("", FileFormat::Toml).mcp, McpSettings::default());
    assert_eq!(
        config("[mcp]\n", FileFormat::Toml).mcp,
        McpSettings::default()
    );
    let http = config(&http_with(""), FileFormat::Toml).mcp;
    assert_eq!(
        http.servers["a"],
        mcp::ServerSettings::with_url("a", "https://a.example/mcp")
    );
}

#[test]
fn token_precedes_variable_and_variable_precedes_command() {
    let auth = |lines: &str| {
        let config = config(&http_with(lines), FileFormat::Toml);
        match &config.mcp.servers["a"].transport {
            ServerTransport::Http { auth, .. } => auth.clone(),
            ServerTransport::Stdio { .. } => TokenSource::None,
        }
    };
    let all = "auth_cmd = 'c'\nauth_env = 'E'\nauth_token = 't'";
    assert!(auth(all) == TokenSource::Token(Secret::new("t")));
    assert!(auth("auth_cmd = 'c'\nauth_env = 'E'") == TokenSource::Env("E".into()));
    assert!(auth("auth_cmd = 'c'") == TokenSource::Cmd("c".into()));
    assert!(auth("") == TokenSource::None);
}

#[test]
fn each_fault_has_its_line_and_key() {
    let http: &[(&str, &str)] = &[
        (
            "tool = []",
            "/c:3: mcp.servers.a.tool: unknown key; did you mean tools?",
        ),
        ("qqqq = 1", "/c:3: mcp.servers.a.qqqq: unknown key"),
        (
            "command = 'x'",
            "/c:3: mcp.servers.a.command: give url or command, not both",
        ),
        (
            "args = []",
            "/c:3: mcp.servers.a.args: only a server with a command can have this key",
        ),
        (
            "env = { A = 'b' }",
            "/c:3: mcp.servers.a.env: only a server with a command can have this key",
        ),
        (
            "auth_env = 's3cret-x'",
            "/c:3: mcp.servers.a.auth_env: must be the name of an environment variable, such as OPENAI_API_KEY",
        ),
        (
            "auth_token = 's3cret s3cret'",
            "/c:3: mcp.servers.a.auth_token: is not a key: it has spaces, line breaks or other unusual characters",
        ),
        (
            "auth_token = '${TRACKER}'",
            "/c:3: mcp.servers.a.auth_token: auth_token holds the token itself; for a variable write auth_env = \"TRACKER\"",
        ),
        (
            "auth_cmd = ['s3cret']",
            "/c:3: mcp.servers.a.auth_cmd: must be a string, not a list",
        ),
        (
            "auth_env = 'A'\nheaders = { authorization = 's3cret' }",
            "/c:4: mcp.servers.a.headers.authorization: the token is sent in this header already",
        ),
        (
            "headers = { Mcp-Session-Id = 's3cret' }",
            "/c:3: mcp.servers.a.headers.Mcp-Session-Id: this header is set by aish itself",
        ),
        (
            "headers = { A = \"s3cret\\r\\nB: c\" }",
            "/c:3: mcp.servers.a.headers.A: a header's value is one line of visible characters",
        ),
        (
            "timeout = 0",
            "/c:3: mcp.servers.a.timeout: must be a whole number from 1 to 86400, not 0",
        ),
        (
            "lifecycle = 'modren'",
            "/c:3: mcp.servers.a.lifecycle: unknown value; did you mean \"modern\"?",
        ),
        (
            "trust_annotations = 'yes'",
            "/c:3: mcp.servers.a.trust_annotations: must be true or false, not a string",
        ),
        (
            "tools = 'search'",
            "/c:3: mcp.servers.a.tools: must be a list of strings, not a string",
        ),
        (
            "tools = ['a',\n '']",
            "/c:4: mcp.servers.a.tools: must not be empty",
        ),
        (
            "disabled = 1",
            "/c:3: mcp.servers.a.disabled: must be true or false, not a number",
        ),
    ];
    for (lines, expected) in http {
        let found = faults(&http_with(lines));
        let first = found.first().map(|fault| without_known_keys(fault));
        assert_eq!(first, Some(*expected), "{lines}");
        assert!(!found.concat().contains("s3cret"), "{found:?}");
    }
    let whole: &[(&str, &str)] = &[
        (
            "[mcp]\nserver = 1",
            "/c:2: mcp.server: unknown key; did you mean servers?",
        ),
        (
            "[mcp]\nmax_tool_depth = 0",
            "/c:2: mcp.max_tool_depth: must be a whole number from 1 to 100, not 0",
        ),
        (
            "[mcp]\nmax_result_bytes = 1",
            "/c:2: mcp.max_result_bytes: must be a whole number from 1024 to 16777216, not 1",
        ),
        ("mcp = []", "/c:1: mcp: must be a table, not a list"),
        (
            "[mcp.servers.a]\ntrust_annotations = true",
            "/c:1: mcp.servers.a.url: missing: a server has a url, or a command that is started here",
        ),
        (
            "[mcp.servers.Git_Hub]\nurl = 'https://a'",
            "/c:1: mcp.servers.Git_Hub: an alias has 1 to 20 of the characters a-z 0-9 -, and does not begin with -",
        ),
        (
            "[mcp.servers.a]\ncommand = 'x'\nauth_token = 's3cret'",
            "/c:3: mcp.servers.a.auth_token: only a server with a url can have this key",
        ),
        (
            "[mcp.servers.a]\ncommand = 'x'\nheaders = { A = 's3cret' }",
            "/c:3: mcp.servers.a.headers: only a server with a url can have this key",
        ),
        (
            "[mcp.servers.a]\ncommand = 'x'\nenv = { 'A-B' = 's3cret' }",
            "/c:3: mcp.servers.a.env.A-B: must be the name of an environment variable, such as OPENAI_API_KEY",
        ),
        (
            "[mcp.servers.a]\ncommand = 'x'\nenv = { A = '${B}/s3cret' }",
            "/c:3: mcp.servers.a.env.A: write $NAME for a variable of the shell, without other text",
        ),
        (
            "[mcp.auto_approve]\nsearch = true",
            "/c:2: mcp.auto_approve.search: must be \"alias.tool\", or \"alias.*\" for all tools of a server",
        ),
        (
            "[mcp.auto_approve]\n'*' = true",
            "/c:2: mcp.auto_approve.\"*\": must be \"alias.tool\", or \"alias.*\" for all tools of a server",
        ),
        (
            "[mcp.auto_approve]\n'a.get_*' = true",
            "/c:2: mcp.auto_approve.\"a.get_*\": must be \"alias.tool\", or \"alias.*\" for all tools of a server",
        ),
        (
            "[mcp.auto_approve]\n'a.b' = 'yes'",
            "/c:2: mcp.auto_approve.\"a.b\": must be true or false, not a string",
        ),
        (
            "[mcp.auto_approve]\nfs.read = true",
            "/c:2: mcp.auto_approve.fs: put a name with a dot in quotes: \"alias.tool\" = true",
        ),
        (
            "[mcp.auto_approve]\n'Github.search' = true\n[mcp.servers.github]\nurl = 'https://a'",
            "/c:2: mcp.auto_approve.\"Github.search\": no server has this alias; did you mean \"github.search\"?",
        ),
    ];
    for (text, expected) in whole {
        let found = faults(text);
        assert_eq!(found.first().map(String::as_str), Some(*expected), "{text}");
        assert!(!found.concat().contains("s3cret"), "{found:?}");
    }
}

#[test]
fn addresses_are_checked_and_no_token_goes_in_clear() {
    let of = |url: &str, more: &str| faults(&format!("[mcp.servers.a]\nurl = '{url}'\n{more}"));
    for (url, expected) in [
        ("ftp://a", "must begin with http:// or https://"),
        (
            "https://u:s3cret@a.example",
            "must not contain a user name or password: use auth_env, auth_cmd or headers",
        ),
        (
            "https://a.example/?api_key=s3cret",
            "must not contain a key: use auth_env, auth_cmd or headers",
        ),
        ("https://a.example/#s3cret", "must not contain #"),
    ] {
        assert_eq!(
            of(url, ""),
            [format!("/c:2: mcp.servers.a.url: {expected}")]
        );
    }
    for more in [
        "auth_token = 't'",
        "auth_env = 'T'",
        "auth_cmd = 't'",
        "headers = { X-Auth = 't' }",
    ] {
        let found = of("http://a.example/mcp", more);
        assert!(found.concat().contains("in clear"), "{more}: {found:?}");
        assert_eq!(of("http://127.0.0.1:1/mcp", more), [""; 0], "{more}");
        assert_eq!(of("https://a.example/mcp", more), [""; 0], "{more}");
    }
    assert_eq!(of("http://a.example/mcp", ""), [""; 0]);
}

#[test]
fn shown_values_hold_no_secret() {
    let text = r#"
[mcp.servers.a]
url = "https://a.example/mcp"
auth_token = "s3cret"
auth_cmd = "print s3cret"
headers = { X-Key = "s3cret", User-Agent = "me" }
[mcp.servers.b]
command = "npx"
args = ["-y", "pkg", "--api-key", "s3cret", "--token=s3cret", "--header", "Authorization: s3cret",
        "postgres://u:s3cret@h/db", "https://h/?api_key=s3cret", "Bearer s3cret", "last"]
env = { A = "s3cret", B = "$SHOWN" }
"#;
    let file = parse(text, FileFormat::Toml, Path::new("/c")).unwrap();
    let (config, settings) = resolve_with_origins(&file, &ConfigOverrides::default()).unwrap();
    let shown: String = settings
        .iter()
        .map(|s| format!("{} = {}\n", s.key, s.value))
        .collect();
    assert!(!shown.contains("s3cret"), "{shown}");
    for line in [
        format!("mcp.servers.a.auth_token = \"{REDACTED}\""),
        "mcp.servers.a.auth_cmd = \"print …\"".to_string(),
        format!("mcp.servers.a.headers.X-Key = \"{REDACTED}\""),
        "mcp.servers.a.headers.User-Agent = \"me\"".to_string(),
        "mcp.servers.a.lifecycle = \"auto\"".to_string(),
        "mcp.servers.b.lifecycle = \"legacy\"".to_string(),
        "mcp.servers.b.env.B = \"$SHOWN\"".to_string(),
        "mcp.max_tool_depth = 8".to_string(),
    ] {
        assert!(shown.contains(&line), "{line}\n{shown}");
    }
    let target = config.mcp.servers["b"].target();
    assert_eq!(
        target,
        format!(
            "npx -y pkg --api-key {REDACTED} --token={REDACTED} --header {REDACTED} \
             {REDACTED} {REDACTED} {REDACTED} last"
        )
    );
    assert!(!format!("{config:?} {file:?}").contains("s3cret"));
}

#[test]
fn aliases_of_aish_are_reserved() {
    for alias in ["aish", "helper"] {
        let text = format!("[mcp.servers.{alias}]\nurl = 'https://x.example/mcp'\n");
        let read = parse(&text, FileFormat::Toml, Path::new("/c"));
        // A fault is found where the file is read, or where its values are.
        let message = match read {
            Err(problems) => format!("{problems:?}"),
            Ok(file) => {
                let resolved = resolve(&file, &ConfigOverrides::default());
                resolved.unwrap_err().message
            }
        };
        assert!(
            message.contains("is reserved for the tools of aish"),
            "{message}"
        );
    }
}

#[test]
fn alias_is_derived_from_a_name_or_url() {
    let free = |_: &str| false;
    for (name, alias) in [
        ("GitHub MCP!", "github-mcp"),
        ("--", "server"),
        ("é", "server"),
        ("a-very-long-name-of-a-server", "a-very-long-name-of"),
        ("mcp_server_time", "mcp-server-time"),
    ] {
        assert_eq!(mcp::free_alias(name, free), alias);
        assert!(mcp::is_alias(alias));
    }
    assert_eq!(mcp::free_alias("Helper", free), "helper-2");
    assert_eq!(mcp::free_alias("a", |a| a == "a" || a == "a-2"), "a-3");
    let long = "abcdefghijklmnopqrst";
    assert_eq!(mcp::free_alias(long, |a| a == long), "abcdefghijklmnopqr-2");
    for (url, alias) in [
        ("https://mcp.github.com/x", "github"),
        ("https://api.githubcopilot.com/mcp/", "githubcopilot"),
        ("https://docs.mcp.cloudflare.com/sse", "docs"),
        ("http://localhost:3000", "local"),
        ("http://[::1]:3000", "local"),
        ("http://192.168.1.7/mcp", "192-168-1-7"),
        ("https://mcp.ai", "mcp"),
        ("http://box/mcp", "box"),
    ] {
        assert_eq!(
            mcp::free_alias_for_url(url, free).as_deref(),
            Ok(alias),
            "{url}"
        );
    }
    assert!(mcp::free_alias_for_url("nonsense", free).is_err());
    for bad in ["", "-a", "A", "a.b", "a_b", "abcdefghijklmnopqrstu"] {
        assert!(!mcp::is_alias(bad), "{bad}");
    }
}

#[test]
fn query_values_are_not_shown() {
    for (url, shown) in [
        ("https://a.example/mcp", "https://a.example/mcp"),
        (
            "https://a.example/mcp?k=s3cret",
            "https://a.example/mcp?k=…",
        ),
        (
            "https://a.example/?v=1&s3cret&k=s3=cret",
            "https://a.example/?v=…&…&k=…",
        ),
        ("https://a.example/?", "https://a.example/?…"),
    ] {
        let server = ServerSettings::with_url("a", url);
        assert_eq!(server.target(), shown);
        assert!(!format!("{server:?}").contains("s3"), "{server:?}");
    }
    // The identities differ nevertheless.
    let identity = |url: &str| ServerSettings::with_url("a", url).identity();
    assert_ne!(
        identity("https://a.example/?k=1"),
        identity("https://a.example/?k=2")
    );
    let mut child = ServerSettings::with_url("a", "");
    child.transport = ServerTransport::Stdio {
        command: "npx".into(),
        args: vec!["https://a.example/?k=s3cret".into()],
        env: Vec::new(),
    };
    assert_eq!(child.target(), "npx https://a.example/?k=…");
}

/// Two servers can have equal targets and different identities.
#[test]
fn servers_with_different_transports_have_different_identities() {
    let http = |auth: TokenSource, headers: &[(&str, &str)]| ServerSettings {
        transport: ServerTransport::Http {
            url: "https://a.example/mcp".into(),
            auth,
            headers: owned(headers),
        },
        ..ServerSettings::with_url("a", "")
    };
    let stdio = |args: &[&str], env: &[(&str, &str)]| ServerSettings {
        transport: ServerTransport::Stdio {
            command: "x".into(),
            args: args.iter().map(|a| (*a).to_string()).collect(),
            env: owned(env),
        },
        ..ServerSettings::with_url("a", "")
    };
    let alike = [
        http(TokenSource::None, &[]),
        http(TokenSource::Env("T".into()), &[]),
        http(TokenSource::Cmd("T".into()), &[]),
        http(TokenSource::Token(Secret::new("T")), &[]),
        http(TokenSource::Token(Secret::new("U")), &[]),
        http(TokenSource::None, &[("X-Team", "blue")]),
        http(TokenSource::None, &[("X-Team", "red")]),
        stdio(&["-e", "A"], &[]),
        stdio(&["-e", "B"], &[]),
        stdio(&["-e", "A"], &[("B", "c")]),
        stdio(&["-e", "A"], &[("B", "d")]),
        stdio(&["-e", "A", "B", "c"], &[]),
    ];
    assert_eq!(alike[7].target(), alike[8].target());
    let identities: BTreeSet<String> = alike.iter().map(ServerSettings::identity).collect();
    assert_eq!(identities.len(), alike.len());
    let trusted = ServerSettings {
        trust_annotations: true,
        ..alike[0].clone()
    };
    assert_eq!(trusted.identity(), alike[0].identity());
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(n, v): &(&str, &str)| ((*n).to_string(), (*v).to_string());
    pairs.iter().map(own).collect()
}
