use std::path::Path;

use super::super::file::{FileFormat, parse};
use super::super::mcp::{ServerSettings, ServerTransport, TokenSource};
use super::super::resolve::resolve;
use super::super::{Config, ConfigOverrides};
use super::*;
use crate::secret::Secret;

fn import(text: &str) -> Vec<ImportEntry> {
    read(text, |alias| alias == "known").unwrap()
}

/// The configuration of the imported lines.
fn config(found: &[ImportEntry]) -> Config {
    let tables = found.iter().flat_map(|i| &i.server);
    let text: String = tables
        .map(|f| format!("[mcp.servers.{}]\n{}\n", f.alias, f.table))
        .collect();
    let file = parse(&text, FileFormat::Toml, Path::new("/c")).unwrap();
    resolve(&file, &ConfigOverrides::default()).unwrap()
}

fn taken(found: &[ImportEntry], name: &str) -> ImportedServer {
    let one = found.iter().find(|i| i.name == name).unwrap();
    one.server.clone().unwrap()
}

fn refused<'i>(found: &'i [ImportEntry], name: &str) -> &'i str {
    let one = found.iter().find(|i| i.name == name).unwrap();
    one.server.as_ref().unwrap_err()
}

fn http(server: &ServerSettings) -> (&str, &TokenSource, &[(String, String)]) {
    match &server.transport {
        ServerTransport::Http { url, auth, headers } => (url, auth, headers),
        ServerTransport::Stdio { .. } => panic!("no http: {server:?}"),
    }
}

fn stdio(server: &ServerSettings) -> (String, Vec<(String, String)>) {
    match &server.transport {
        ServerTransport::Stdio { command, args, env } => {
            (format!("{command} {}", args.join(" ")), env.clone())
        }
        ServerTransport::Http { .. } => panic!("no stdio: {server:?}"),
    }
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(n, v): &(&str, &str)| ((*n).to_string(), (*v).to_string());
    list.iter().map(own).collect()
}

/// As desktop clients write it.
const DESKTOP: &str = r#"{
  "globalShortcut": "",
  "mcpServers": {
    "filesystem": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/me/My \"Files\""]
    },
    "github": {
      "command": "docker",
      "args": ["run", "-i", "--rm", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN", "ghcr.io/github/github-mcp-server"],
      "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": "ghp_s3cret", "EMPTY": "", "PORT": 8080}
    },
    "known": {"command": "x"}
  }
}"#;

#[test]
fn servers_of_a_desktop_client_are_imported() {
    let found = import(DESKTOP);
    assert_eq!(
        refused(&found, "known"),
        "a server named known already exists"
    );
    let servers = config(&found).mcp.servers;
    assert_eq!(servers.len(), 2);
    assert_eq!(
        stdio(&servers["filesystem"]).0,
        "npx -y @modelcontextprotocol/server-filesystem /Users/me/My \"Files\""
    );
    assert_eq!(
        stdio(&servers["github"]).1,
        pairs(&[
            ("GITHUB_PERSONAL_ACCESS_TOKEN", "ghp_s3cret"),
            ("PORT", "8080")
        ])
    );
    let github = taken(&found, "github");
    assert!(github.secret && github.notes.is_empty());
    assert!(!taken(&found, "filesystem").secret);
    assert!(!format!("{found:?}").contains("s3cret"));
}

/// As editors write it: comments, `servers`, inputs that the editor prompts for.
const EDITOR: &str = r#"{
  // prompted for once
  "inputs": [{"type": "promptString", "id": "perplexity-key", "password": true}],
  "servers": {
    "Perplexity": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "server-perplexity-ask"],
      "env": {"PERPLEXITY_API_KEY": "${input:perplexity-key}", "OTHER": "${env:HOME_OF}", "MIX": "a${env:B}"},
    },
    "remote": {
      "type": "http",
      "url": "https://api.example.com/mcp",
      "headers": {"Authorization": "Bearer ${input:api-token}", "X-Mode": "ro", "Content-Type": "application/json", "X-Dyn": "${env:Z}"}
    },
    "here": {"type": "stdio", "command": "python", "args": ["${workspaceFolder}/server.py"]},
    "old": {"type": "sse", "url": "https://old.example.com/sse"},
  }
}"#;

#[test]
fn servers_of_an_editor_are_imported() {
    let found = import(EDITOR);
    let servers = config(&found).mcp.servers;
    assert_eq!(
        stdio(&servers["perplexity"]).1,
        pairs(&[
            ("OTHER", "$HOME_OF"),
            ("PERPLEXITY_API_KEY", "$PERPLEXITY_API_KEY")
        ])
    );
    let perplexity = taken(&found, "Perplexity");
    assert_eq!(perplexity.variables, ["HOME_OF", "PERPLEXITY_API_KEY"]);
    assert_eq!(perplexity.notes, ["env.MIX"]);
    let (url, auth, headers) = http(&servers["remote"]);
    assert_eq!(url, "https://api.example.com/mcp");
    assert!(*auth == TokenSource::Env("API_TOKEN".into()));
    assert_eq!(headers, pairs(&[("X-Mode", "ro")]));
    let remote = taken(&found, "remote");
    assert_eq!(remote.notes, ["headers.Content-Type", "headers.X-Dyn"]);
    assert_eq!(
        refused(&found, "here"),
        "has a variable in its command, which aish does not fill in"
    );
    assert!(refused(&found, "old").contains("SSE"));
    let deeper = format!("{{\"mcp\": {EDITOR}}}");
    assert_eq!(config(&import(&deeper)).mcp, config(&found).mcp);
}

/// As agents on the command line write it, with all their spellings.
const AGENTS: &str = r#"{"mcpServers": {
    "Literal Token": {"url": "https://a.example/mcp", "headers": {"authorization": "bearer t0ken"}},
    "literal-token": {"serverUrl": "https://b.example/mcp", "headers": {"Authorization": "Bearer ${B_TOKEN:-none}"}},
    "basic": {"httpUrl": "https://c.example/mcp", "headers": {"Authorization": "Basic dTpw"}, "timeout": 30000},
    "off": {"command": ["uvx", "mcp-server-git"], "disabled": true, "autoApprove": ["git_log"], "cwd": "/x"},
    "off-too": {"command": "x", "enabled": false},
    "clear": {"url": "http://far.example/mcp", "headers": {"Authorization": "Bearer t0ken"}},
    "key": {"url": "https://d.example/mcp?api_key=s3cret"},
    "bad": 1,
    "empty": {},
    "a name that is much too long for one": {"command": "x"}
}}"#;

#[test]
fn other_spellings_are_imported() {
    let found = import(AGENTS);
    let servers = config(&found).mcp.servers;
    assert!(*http(&servers["literal-token"]).1 == TokenSource::Token(Secret::new("t0ken")));
    let (url, auth, _) = http(&servers["literal-token-2"]);
    assert_eq!(url, "https://b.example/mcp");
    assert!(*auth == TokenSource::Env("B_TOKEN".into()));
    assert_eq!(
        http(&servers["basic"]).2,
        pairs(&[("Authorization", "Basic dTpw")])
    );
    assert_eq!(taken(&found, "basic").notes, ["timeout"]);
    assert!(servers["off"].disabled && servers["off-too"].disabled);
    assert_eq!(stdio(&servers["off"]).0, "uvx mcp-server-git");
    assert_eq!(taken(&found, "off").notes, ["autoApprove", "cwd"]);
    assert!(refused(&found, "clear").contains("in clear"));
    assert!(refused(&found, "key").contains("must not contain a key"));
    assert!(!format!("{found:?}").contains("s3cret"));
    assert_eq!(refused(&found, "bad"), "is not a table");
    assert_eq!(refused(&found, "empty"), "has neither a url nor a command");
    assert!(servers.contains_key("a-name-that-is-much"));
}

/// A server must not become another one, and nothing may get lost without a word.
#[test]
fn values_of_a_wrong_type_are_refused_or_noted() {
    let found = import(
        r#"{"mcpServers": {
            "args": {"command": "npx", "args": ["-y", {"x": 1}, "pkg"]},
            "words": {"command": ["npx", ["pkg"]]},
            "env": {"command": "x", "env": ["A=b"]},
            "header": {"url": "https://a.example/mcp", "headers": {"X-A": ["b"]}},
            "off": {"command": "x", "disabled": true, "enabled": false}
        }}"#,
    );
    let reason = |key| format!("has a value in its {key} that is not a text");
    assert_eq!(refused(&found, "args"), reason("args"));
    assert_eq!(refused(&found, "words"), reason("command"));
    assert_eq!(taken(&found, "env").notes, ["env"]);
    assert_eq!(taken(&found, "header").notes, ["headers.X-A"]);
    assert!(config(&found).mcp.servers["off"].disabled);
}

#[test]
fn file_without_servers_is_an_error() {
    let none = |_: &str| false;
    assert_eq!(
        read("[]", none).unwrap_err(),
        "has no servers: neither mcpServers nor servers is in it"
    );
    assert!(read("{\"mcpServers\": []}", none).is_err());
    assert_eq!(
        read("{\n'a': 1}", none).unwrap_err(),
        "line 2: not valid JSON: Single-quoted strings are not allowed"
    );
    assert_eq!(read("{\"mcpServers\": {}}", none).unwrap(), []);
}
