//! Architecture rules, checked against the sources: imports, IO, panics, file sizes.

mod circles;
mod source;

use std::collections::BTreeSet;
use std::path::Path;

/// The areas of the crate, from the lowest layer to the highest, each with the areas it may import. An area may import
/// only areas that precede it in this table, so that there are no import cycles. An area consists of a module and
/// its submodules, except for submodules that are listed as areas themselves.
const AREAS: &[(&str, &[&str])] = &[
    ("chat", &[]),
    ("safety", &["chat"]),
    ("secret", &[]),
    ("error", &[]),
    ("address", &[]),
    ("child_group", &[]),
    ("paths", &["error"]),
    ("http_client", &["address", "paths"]),
    // The files of the user's project; prints nothing, and decides nothing about calls.
    ("workspace", &["chat", "child_group", "error"]),
    // Pages of the web for the model.
    ("web", &["address", "error", "http_client"]),
    // Runs a command with as few rights as possible; knows nothing of sessions or models.
    ("sandbox", &["error", "safety"]),
    ("protocol", &["chat", "error"]),
    (
        "config",
        &["address", "chat", "error", "paths", "safety", "secret"],
    ),
    // The record types of the journal: `context` needs them, but not the files.
    ("history::record", &["chat"]),
    ("context", &["chat", "history::record"]),
    (
        "history",
        &["chat", "error", "history::record", "paths", "safety"],
    ),
    (
        "broker",
        &[
            "address",
            "chat",
            "child_group",
            "error",
            "http_client",
            "safety",
            "secret",
        ],
    ),
    ("recording", &["error", "paths", "protocol", "safety"]),
    // Reads the scrollback of terminals, as `context::align` takes it.
    ("terminal", &["context", "error", "paths"]),
    // The trait that MCP servers and the built-in tools implement.
    ("tools::source", &["chat", "safety"]),
    (
        "mcp",
        &[
            "address",
            "chat",
            "child_group",
            "config",
            "error",
            "http_client",
            "paths",
            "safety",
            "secret",
            "tools::source",
        ],
    ),
    // Python helpers: their registry, environments and workers.
    (
        "python",
        &["chat", "child_group", "error", "paths", "safety", "sandbox"],
    ),
    // The built-in tools, through which a model finds and calls others.
    (
        "tools",
        &[
            "address",
            "chat",
            "child_group",
            "error",
            "paths",
            "python",
            "safety",
            "sandbox",
            "tools::source",
            "web",
            "workspace",
        ],
    ),
    // The sessions, and the feed of the turn that runs in each.
    (
        "session",
        &[
            "chat",
            "context",
            "error",
            "history",
            "history::record",
            "paths",
            "protocol",
            "safety",
            "workspace",
        ],
    ),
    // Services shared by turns and requests: models, keys, MCP servers, the audit log.
    (
        "services",
        &[
            "broker",
            "chat",
            "child_group",
            "config",
            "error",
            "history",
            "history::record",
            "mcp",
            "paths",
            "protocol",
            "python",
            "safety",
            "secret",
            "session",
            "tools",
        ],
    ),
    // Independent of sockets and clients, because a turn can outlive the client that started it.
    (
        "turn",
        &[
            "broker",
            "chat",
            "config",
            "context",
            "error",
            "history",
            "history::record",
            "mcp",
            "paths",
            "protocol",
            "python",
            "recording",
            "safety",
            "sandbox",
            "services",
            "session",
            "terminal",
            "tools",
            "tools::source",
            "workspace",
        ],
    ),
    // Sessions as pages: what is shown, its page, and the register of shares.
    (
        "share",
        &[
            "address",
            "chat",
            "error",
            "history::record",
            "http_client",
            "paths",
            "protocol",
            "recording",
            "safety",
            "secret",
        ],
    ),
    // Requests of clients of the socket and of the HTTP API, other than prompts.
    (
        "requests",
        &[
            "address",
            "chat",
            "config",
            "error",
            "history",
            "history::record",
            "mcp",
            "paths",
            "protocol",
            "recording",
            "safety",
            "services",
            "session",
            "share",
            "tools",
            "turn",
            "workspace",
        ],
    ),
    // The HTTP API and the page: another watcher of the sessions, and another maker of requests.
    (
        "api",
        &[
            "chat",
            "config",
            "error",
            "history",
            "history::record",
            "paths",
            "protocol",
            "recording",
            "requests",
            "safety",
            "secret",
            "services",
            "session",
            "share",
            "turn",
        ],
    ),
    ("daemon::shell_events", &["context", "protocol", "session"]),
    (
        "daemon",
        &[
            "api",
            "broker",
            "chat",
            "config",
            "daemon::shell_events",
            "error",
            "history",
            "history::record",
            "mcp",
            "paths",
            "protocol",
            "recording",
            "requests",
            "safety",
            "secret",
            "services",
            "session",
            "terminal",
            "tools",
            "turn",
            "workspace",
        ],
    ),
    // Recordings of terminals, written and read without the daemon.
    ("recording", &["error", "paths", "protocol", "safety"]),
    // Must start fast and stay small: of the daemon it imports only the protocol.
    (
        "client",
        &[
            "chat",
            "config",
            "error",
            "paths",
            "protocol",
            "recording",
            "safety",
        ],
    ),
    (
        "cli",
        &[
            "address",
            "api",
            "broker",
            "chat",
            "client",
            "config",
            "daemon",
            "error",
            "history",
            "http_client",
            "mcp",
            "paths",
            "protocol",
            "python",
            "recording",
            "safety",
            "sandbox",
            "secret",
            "share",
            "terminal",
        ],
    ),
    ("main", &["cli"]),
];

/// Imports of an area that only some of its modules may use: the importing area, the imported area, and these modules.
const ONLY: &[(&str, &str, &[&str])] = &[
    // Model selection; creation of the broker; the check of a model for `doctor`.
    (
        "services",
        "broker",
        &["services", "services::model", "services::model::chosen"],
    ),
    ("daemon", "broker", &["daemon"]),
    ("turn", "broker", &["turn::model_request"]),
    (
        "turn",
        "context",
        &[
            "turn::compaction",
            "turn::model_request",
            "turn::outcome",
            "turn::prompt_context",
            "turn::last_command",
            "turn::left_out",
            "turn::rounds",
            "turn::terminal_output",
        ],
    ),
    // `aish-helper daemon`; the dialogs that set up a model and the doctor, which probe providers.
    ("cli", "daemon", &["cli::daemon"]),
    (
        "cli",
        "broker",
        &[
            "cli::onboarding",
            "cli::setup_dialog",
            "cli::model_add",
            "cli::model_add::named_server",
            "cli::doctor::model",
            "cli::server_token",
        ],
    ),
    // Everything else that the command line needs from a server goes through the broker.
    ("cli", "http_client", &["cli::model_install::download"]),
    // `aish-helper activity` queries the journal itself, so that the daemon needs no index.
    (
        "cli",
        "history",
        &[
            "cli::activity",
            "cli::activity::export",
            "cli::activity::stats",
            "cli::activity::progress",
            "cli::activity::show",
            "cli::args::activity",
            "cli::stats",
        ],
    ),
    // A login needs the user's browser, so the client runs it rather than the daemon.
    ("cli", "mcp", &["cli::mcp_login"]),
    // The doctor reads the register of shares, which may be what stops the daemon's requests.
    ("cli", "share", &["cli::doctor::files"]),
];

/// Expressions that only some modules of `api`, `requests`, `services`, `turn` and `daemon` may contain: only one module sends requests to
/// models.
const USES: &[(&str, &[&str])] = &[
    (
        ".broker",
        &["services::model", "turn::model_request", "requests"],
    ),
    (".stream(", &["turn::model_request"]),
    (".ask_server(", &["turn::model_request"]),
    // A route that is registered elsewhere would be missing from the document of the API.
    (".route(", &["api::routes"]),
];

/// Top-level modules that may still have import circles between their files. Delete an entry once its circles are gone;
/// the test fails for an entry that is not needed.
const CIRCLES: &[&str] = &[];

/// Modules without IO, async code and clocks.
const PURE: &[&str] = &[
    "address",
    "broker::error_response",
    "broker::provider",
    "broker::retry",
    "broker::sse",
    "broker::wire_names",
    "chat",
    "client::render",
    "config::continue_setting",
    "config::file",
    "config::import",
    "config::masking",
    "config::mcp",
    "config::model",
    "config::origin",
    "config::policy_rules",
    "config::reference",
    "config::resolve",
    "config::section",
    "config::setting",
    "config::setting_types",
    "config::settings",
    "config::syntax_tree",
    "config::table_reader",
    "config::toml_text",
    "config::value_checks",
    "context",
    "daemon::shell_events",
    "error",
    "history::index::row",
    "history::record",
    "protocol",
    "python::metadata",
    "recording::alternate_screen",
    "recording::event",
    "recording::marks",
    "safety",
    "sandbox::denials",
    "sandbox::linux::mount_table",
    "sandbox::path_rules",
    "secret",
    "tools::results::split_points",
    "tools::builtin::definitions",
    "tools::search",
    "tools::split",
    "turn::machine",
    "turn::outcome",
    "web::page_text",
    "workspace::difference",
    "workspace::edit",
    "workspace::file_kind",
    "workspace::line_window",
    "workspace::patch",
    "workspace::text_file",
];

const IMPURE: &[&str] = &[
    "async fn",
    "async move",
    ".await",
    "tokio",
    "std::fs",
    "std::io::std",
    "std::net::Tcp",
    "std::os::unix::net",
    "std::process",
    "std::thread",
    "std::env",
    "SystemTime::now",
    "Instant::now",
    "reqwest::Client",
];

const PANICS: &[&str] = &[
    ".unwrap()",
    ".expect(\"",
    "panic!",
    "unreachable!",
    "todo!",
    "unimplemented!",
    "dbg!",
];

const PRINTS: &[&str] = &[
    "println!",
    "eprintln!",
    "print!",
    "eprint!",
    "io::stdout",
    "io::stderr",
    "stdout()",
    "stderr()",
];

const ENVIRONMENT: &[&str] = &["env::var", "env::set_var", "env::remove_var"];

/// Maximum number of lines of a file without its tests, and lower limits for some files.
const LINES: usize = 500;
const SMALL: &[(&str, usize)] = &[("src/main.rs", 40), ("zsh/aish.plugin.zsh", 40)];

/// A file: its path relative to the project's root, and its content.
type File = (String, String);

/// Violations of the rules, one line each.
fn faults(files: &[File]) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in files {
        unfinished(path, text, &mut faults);
        if path.ends_with(".rs") && path.starts_with("src/") {
            if path.ends_with("tests.rs") {
                continue;
            }
            let module = source::module(path);
            // `main` is a separate crate that uses the library from outside.
            let (module, code) = if path == "src/main.rs" {
                (
                    vec!["main".to_owned()],
                    source::code(text).replace("aish::", "crate::"),
                )
            } else {
                (module, source::code(text))
            };
            size(path, source::lines(text), &mut faults);
            layers(path, &code, &module, &mut faults);
            words(path, &code, &module, &mut faults);
        } else if path.starts_with("zsh/") {
            size(path, text.lines().count(), &mut faults);
            zsh(path, text, &mut faults);
        }
    }
    faults
}

fn size(path: &str, lines: usize, faults: &mut Vec<String>) {
    let small = SMALL.iter().find(|(name, _)| *name == path);
    let limit = small.map_or(LINES, |(_, limit)| *limit);
    if lines > limit {
        faults.push(format!("{path}: {lines} lines; the limit is {limit}"));
    }
}

/// Whether `module` is `area` or below it.
fn is_in(module: &[String], area: &str) -> bool {
    let mut names = module.iter();
    area.split("::")
        .all(|part| names.next().is_some_and(|n| n == part))
}

/// Most specific area of a module.
fn area_of(module: &[String]) -> Option<&'static str> {
    AREAS
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| is_in(module, name))
        .max_by_key(|name| name.len())
}

fn layers(path: &str, code: &str, module: &[String], faults: &mut Vec<String>) {
    if module.is_empty() {
        return;
    }
    let Some(area) = area_of(module) else {
        faults.push(format!("{path}: belongs to no area; add its area to AREAS"));
        return;
    };
    for (import, item) in edges(code, module, area) {
        let is_allowed = AREAS
            .iter()
            .find(|(name, _)| *name == area)
            .is_some_and(|(_, imports)| imports.contains(&import));
        if !is_allowed {
            faults.push(format!("{path}: {area} must not import {import} ({item})"));
        }
        let restricted = ONLY
            .iter()
            .find(|(importer, imported, _)| *importer == area && *imported == import);
        if restricted.is_some_and(|(_, _, modules)| !modules.contains(&module.join("::").as_str()))
        {
            faults.push(format!(
                "{path}: this module of {area} must not import {import} ({item})"
            ));
        }
    }
}

/// Returns the other areas that the code imports, each with an imported path.
fn edges(code: &str, module: &[String], area: &str) -> Vec<(&'static str, String)> {
    source::imports(code, module)
        .iter()
        .filter_map(|path| Some((area_of(path)?, path.join("::"))))
        .filter(|(import, _)| *import != area)
        .collect()
}

/// Checks for expressions that are forbidden, or allowed only in some modules.
fn words(path: &str, code: &str, module: &[String], faults: &mut Vec<String>) {
    let mut forbid = |words: &[&str], reason: &str| {
        for (number, line) in code.lines().enumerate() {
            for word in words.iter().filter(|word| has_word(line, word)) {
                faults.push(format!("{path}:{}: {word}: {reason}", number + 1));
            }
        }
    };
    forbid(PANICS, "the program must not panic");
    forbid(&["allow(dead_code"], "delete unused code");
    if !["config", "paths"].iter().any(|area| is_in(module, area)) {
        forbid(
            ENVIRONMENT,
            "only config and paths may read the environment",
        );
    }
    // The sandbox looks at what the command inherits, and prints nothing.
    let is_inherited = module.join("::") == "sandbox::linux::descriptors";
    if !["cli", "client", "main"]
        .iter()
        .any(|area| is_in(module, area))
        && !is_inherited
    {
        forbid(PRINTS, "only cli and client may print");
    }
    if ["api", "requests", "services", "turn", "daemon"]
        .iter()
        .any(|area| is_in(module, area))
    {
        for (word, modules) in USES {
            if !modules.contains(&module.join("::").as_str()) {
                forbid(&[*word], "only the turn task sends requests to models");
            }
        }
    }
    if PURE.iter().any(|area| is_in(module, area)) {
        forbid(IMPURE, "not allowed in a pure module");
    }
}

/// Whether `line` contains `word` and not only as the end of a longer word.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(i, _)| {
        let before = line[..i].chars().next_back();
        !word.starts_with(char::is_alphanumeric)
            || !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

fn unfinished(path: &str, text: &str, faults: &mut Vec<String>) {
    // Split, so that this file does not match.
    for word in [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X:"),
    ] {
        if text.contains(word) {
            faults.push(format!(
                "{path}: {word}: record unfinished work in an issue, not in a file"
            ));
        }
    }
}

fn zsh(path: &str, text: &str, faults: &mut Vec<String>) {
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = line
            .split(|c: char| c.is_whitespace() || ";|&(){}`".contains(c))
            .filter(|w| !w.is_empty())
            .collect();
        let expands = words
            .windows(2)
            .any(|w| w[0] == "print" && w[1].starts_with('-') && w[1].contains('P'));
        if words.contains(&"echo") || expands {
            let message = "print with `print -r --`, which interprets no escapes";
            faults.push(format!("{path}:{}: {message}", number + 1));
        }
    }
}

/// Returns all files that the rules apply to.
fn project() -> Vec<File> {
    fn walk(root: &Path, dir: &str, files: &mut Vec<File>) {
        for entry in std::fs::read_dir(root.join(dir)).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{dir}/{}", entry.file_name().to_string_lossy());
            if entry.file_type().unwrap().is_dir() {
                walk(root, &path, files);
            } else if let Ok(text) = std::fs::read_to_string(entry.path()) {
                files.push((path, text));
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for dir in ["benches", "completions", "examples", "src", "tests", "zsh"] {
        walk(root, dir, &mut files);
    }
    for file in ["install.sh", "test.sh"] {
        files.push((
            file.to_owned(),
            std::fs::read_to_string(root.join(file)).unwrap(),
        ));
    }
    files
}

#[test]
fn architecture_rules_hold() {
    let files = project();
    assert!(files.len() > 100, "{} files", files.len());
    let faults = faults(&files);
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn files_of_a_module_do_not_import_each_other_in_a_circle() {
    let files: Vec<circles::SourceFile> = project()
        .into_iter()
        .filter(|(path, _)| path.starts_with("src/") && path.ends_with(".rs"))
        .filter(|(path, _)| !path.ends_with("tests.rs") && path != "src/main.rs")
        .map(|(path, text)| (source::module(&path), source::code(&text)))
        .collect();
    let (allowed, faults): (Vec<_>, Vec<_>) = circles::circles(&files)
        .into_iter()
        .partition(|(module, _)| CIRCLES.contains(&module.as_str()));
    let faults: Vec<String> = faults.into_iter().map(|(_, text)| text).collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    for module in CIRCLES {
        let is_needed = allowed.iter().any(|(name, _)| name == module);
        assert!(
            is_needed,
            "{module} no longer has a circle: remove it from CIRCLES"
        );
    }
}

/// An unused entry would hide a later violation.
#[test]
fn tables_have_no_unused_entries() {
    let mut used = BTreeSet::new();
    let mut uses = BTreeSet::new();
    let mut modules = Vec::new();
    for (path, text) in project() {
        if !path.starts_with("src/") || !path.ends_with(".rs") || path.ends_with("tests.rs") {
            continue;
        }
        let (module, code) = if path == "src/main.rs" {
            (
                vec!["main".to_owned()],
                source::code(&text).replace("aish::", "crate::"),
            )
        } else {
            (source::module(&path), source::code(&text))
        };
        if let Some(area) = area_of(&module) {
            for (import, _) in edges(&code, &module, area) {
                used.insert((area, import, module.join("::")));
            }
        }
        for (word, _) in USES.iter().filter(|(word, _)| code.contains(word)) {
            uses.insert((*word, module.join("::")));
        }
        modules.push(module);
    }
    for (word, allowed) in USES {
        for module in *allowed {
            let is_used = uses.contains(&(*word, (*module).to_owned()));
            assert!(
                is_used,
                "{module} does not contain {word}: remove it from USES"
            );
        }
    }
    let is_used =
        |area: &str, import: &str| used.iter().any(|(a, i, _)| *a == area && *i == import);
    for (index, (area, imports)) in AREAS.iter().enumerate() {
        for import in *imports {
            assert!(
                is_used(area, import),
                "{area} does not import {import}: remove it from AREAS"
            );
            let precedes = AREAS.iter().take(index).any(|(name, _)| name == import);
            assert!(precedes, "{import} must precede {area} in AREAS");
        }
    }
    for (area, import, allowed) in ONLY {
        for module in *allowed {
            let edge = (*area, *import, (*module).to_owned());
            assert!(
                used.contains(&edge),
                "{module} does not import {import}: remove it from ONLY"
            );
        }
    }
    for name in PURE.iter().chain(AREAS.iter().map(|(name, _)| name)) {
        let exists = *name == "main" || modules.iter().any(|m| is_in(m, name));
        assert!(exists, "there is no module {name}");
    }
}

#[test]
fn every_rule_can_fail() {
    let fails = |path: &str, text: &str, expected: &str| {
        let faults = faults(&[(path.to_owned(), text.to_owned())]);
        assert!(
            faults.len() == 1 && faults[0].contains(expected),
            "{path}: {text}\n{faults:#?}"
        );
    };
    let long = "x();\n".repeat(LINES + 1);
    fails("src/chat.rs", &long, "501 lines");
    fails("src/main.rs", &"x();\n".repeat(41), "41 lines");
    fails("zsh/aish.plugin.zsh", &"x\n".repeat(41), "41 lines");
    fails("src/new.rs", "", "no area");
    fails(
        "src/protocol.rs",
        "use crate::config::Config;",
        "must not import config",
    );
    fails(
        "src/history/journal.rs",
        "use crate::{context::content, error::Error};",
        "must not import context",
    );
    fails(
        "src/client/ask.rs",
        "fn f(x: crate::daemon::Daemon) {}",
        "must not import daemon",
    );
    fails(
        "src/turn/machine.rs",
        "use crate::daemon::Daemon;",
        "must not import daemon ",
    );
    fails(
        "src/daemon/attach.rs",
        "use crate::broker::Broker;",
        "this module of daemon must not import broker",
    );
    fails(
        "src/cli/status.rs",
        "use crate::daemon::Daemon;",
        "this module of cli must not import daemon",
    );
    fails(
        "src/main.rs",
        "use aish::config::load;",
        "must not import config",
    );
    let request = "daemon\n.stream(x)";
    fails("src/daemon/attach.rs", request, "the turn task");
    fails("src/turn/plan.rs", "services.broker.x", "the turn task");
    for word in ["std::env::var(\"A\");", "env::vars_os();"] {
        fails("src/cli/ask.rs", word, "environment");
    }
    for word in ["println!(\"\");", "x(io::stderr);", "eprint!(\"\");"] {
        fails("src/broker/body.rs", word, "print");
    }
    for word in [
        "x.unwrap();",
        "x.expect(\"y\");",
        "panic!(\"\");",
        "dbg!(x);",
        "unreachable!();",
    ] {
        fails("src/config/mod.rs", word, "panic");
    }
    fails("src/config/mod.rs", "#[allow(dead_code)]", "unused code");
    for word in [
        "std::fs::read(x)",
        "x.await",
        "Instant::now()",
        "use tokio::time;",
        "SystemTime::now()",
    ] {
        fails("src/context/mod.rs", word, "pure");
    }
    fails("src/chat.rs", concat!("// TO", "DO: it"), "unfinished");
    fails("zsh/functions/x", "  print -rP -- $x", "print -r --");
    fails("zsh/functions/x", "x && echo y", "print -r --");
}

#[test]
fn correct_code_passes() {
    for (path, text) in [
        (
            "src/chat.rs",
            "#[cfg(test)]\nmod tests { fn f() { x.unwrap(); std::fs::read(y) } }",
        ),
        (
            "src/chat.rs",
            "// std::fs, panic!\nlet s = \"println! .await\";",
        ),
        (
            "src/services/model.rs",
            "connection.expect(kind::ENV); command.stderr(Stdio::null());",
        ),
        ("src/chat.rs", "#[cfg(test)]\nmod tests {\n"),
        (
            "src/turn/model_request.rs",
            "use crate::{context, chat::Chunk}; use crate::turn::machine::Turn; services.broker.stream(x)",
        ),
        ("src/paths.rs", "std::env::var_os(x)"),
        ("src/cli/mod.rs", "io::stdout()"),
        ("src/lib.rs", "pub mod chat;"),
        (
            "zsh/functions/x",
            "# echo\nprint -r -- \"$P\"; print -rn -- -P",
        ),
    ] {
        let faults = faults(&[(path.to_owned(), text.to_owned())]);
        assert!(faults.is_empty(), "{faults:#?}");
    }
}
