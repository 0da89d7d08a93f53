use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::config::mcp::{ServerTransport, TokenSource};
use crate::secret::Secret;

fn server(url: &str) -> ServerSettings {
    ServerSettings::with_url("fs", url)
}

fn tool(name: &str, destructive: Option<bool>) -> ToolDefinition {
    ToolDefinition {
        name: format!("fs.{name}"),
        server: "fs".into(),
        tool: name.into(),
        description: "Does it.".into(),
        schema: "{}".into(),
        annotations: ToolAnnotations {
            destructive,
            ..ToolAnnotations::default()
        },
        ..ToolDefinition::default()
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir.join("tools")).expect("the files");
    entries.map(|e| e.expect("an entry").path()).collect()
}

#[test]
fn what_was_shown_is_known_after_a_restart_of_that_server_alone() {
    let state = tempfile::tempdir().expect("a directory");
    let here = server("https://a.example/mcp");
    let tools = [tool("read", None), tool("write", Some(true))];
    let known = ToolHistory::new(state.path());
    assert!(known.is_new(&here));
    assert_eq!(known.unseen(&here, &tools).len(), 2);
    known.shown(&here, &tools[..1]);
    assert_eq!(known.unseen(&here, &tools), [&tools[1]]);
    known.shown(&here, &tools);
    let known = ToolHistory::new(state.path());
    assert!(!known.is_new(&here) && known.unseen(&here, &tools).is_empty());
    assert!(known.is_new(&server("https://b.example/mcp")));
    let other = ServerSettings {
        alias: "git".into(),
        ..here.clone()
    };
    assert!(known.is_new(&other));
    let [file] = &files(state.path())[..] else {
        panic!("one file: {:?}", files(state.path()));
    };
    let mode = fs::metadata(file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!known.changed(&here, &tools[1]));
    assert!(known.changed(&here, &tool("write", Some(false))));
    for changed in [
        ToolDefinition {
            title: Some("Write".into()),
            ..tools[1].clone()
        },
        ToolDefinition {
            output_schema: Some("{}".into()),
            ..tools[1].clone()
        },
    ] {
        assert!(known.changed(&here, &changed), "{changed:?}");
    }
    assert!(
        !known
            .difference(&here, &tool("write", Some(false)))
            .is_empty()
    );
}

#[test]
fn a_file_that_is_broken_or_of_another_time_has_shown_nothing() {
    let state = tempfile::tempdir().expect("a directory");
    let here = server("https://a.example/mcp");
    let tools = [tool("read", None)];
    ToolHistory::new(state.path()).shown(&here, &tools);
    let file = files(state.path()).remove(0);
    let whole = fs::read_to_string(&file).expect("text");
    for broken in [
        "",
        "{",
        &whole[..whole.len() / 2],
        &whole.replace("\"v\":1", "\"v\":2"),
    ] {
        fs::write(&file, broken).expect("written");
        let known = ToolHistory::new(state.path());
        assert!(known.is_new(&here), "{broken}");
        // And it is repaired.
        known.shown(&here, &tools);
        assert_eq!(fs::read_to_string(&file).expect("text"), whole);
    }
    // Where nothing can be written, it is known while the daemon lives.
    let known = ToolHistory::new(&file);
    known.shown(&here, &tools);
    assert!(known.unseen(&here, &tools).is_empty());
}

#[test]
fn no_secret_is_kept_not_even_in_a_name() {
    let state = tempfile::tempdir().expect("a directory");
    let with = |secret: &str| {
        let mut server = server(&format!("https://a.example/mcp?key={secret}"));
        if let ServerTransport::Http { auth, headers, .. } = &mut server.transport {
            *auth = TokenSource::Token(Secret::new(secret));
            headers.push(("X-Key".into(), secret.into()));
        }
        server
    };
    let known = ToolHistory::new(state.path());
    for secret in ["1234", "5678"] {
        known.shown(&with(secret), &[tool("read", None)]);
    }
    let files = files(state.path());
    assert_eq!(files.len(), 1, "{files:?}");
    let text = fs::read_to_string(&files[0]).expect("text");
    assert!(!text.contains("1234") && !text.contains("5678"), "{text}");
}

#[test]
fn what_a_server_forgets_to_say_stays_in_force() {
    let state = tempfile::tempdir().expect("a directory");
    let here = server("https://a.example/mcp");
    let known = ToolHistory::new(state.path());
    let catalog = |destructive| {
        let tools = [tool("read", None), tool("write", destructive)];
        ToolCatalog::new(tools.into(), vec![("git".into(), "gone".into())])
    };
    let held = |known: &ToolHistory, catalog: &ToolCatalog| {
        let held = known.in_force(catalog.clone(), |_| Some(here.clone()));
        assert_eq!(held.unavailable, catalog.unavailable);
        let found = held.find("fs.write").expect("the tool");
        found.annotations.destructive
    };
    let silent = catalog(None);
    assert_eq!(held(&known, &silent), None);
    known.shown(&here, &*catalog(Some(true)).tools);
    assert_eq!(held(&known, &silent), Some(true));
    assert_eq!(held(&known, &silent), Some(true));
    assert_eq!(held(&known, &catalog(Some(false))), Some(false));
    // Seen without it, it still has it.
    known.shown(&here, &*silent.tools);
    assert_eq!(held(&known, &silent), Some(true));
    assert_eq!(held(&ToolHistory::new(state.path()), &silent), Some(true));
}

#[test]
fn what_was_never_shown_stays_in_force_too() {
    let state = tempfile::tempdir().expect("a directory");
    let here = server("https://a.example/mcp");
    let held = |known: &ToolHistory, tools: &[ToolDefinition]| {
        let catalog = ToolCatalog::new(tools.into(), Vec::new());
        let held = known.in_force(catalog, |_| Some(here.clone()));
        held.find("fs.write").map(|t| t.annotations.destructive)
    };
    let known = ToolHistory::new(state.path());
    let silent = [tool("write", None)];
    assert_eq!(held(&known, &silent), Some(None));
    assert_eq!(held(&known, &[tool("write", Some(true))]), Some(Some(true)));
    assert_eq!(held(&known, &silent), Some(Some(true)));
    // It was still shown to nobody, and gone for a while.
    assert!(known.is_new(&here) && known.unseen(&here, &silent).len() == 1);
    assert_eq!(held(&known, &[tool("read", Some(false))]), None);
    let known = ToolHistory::new(state.path());
    assert_eq!(held(&known, &silent), Some(Some(true)));
    // Seen without it, it still has it; a hint that is sent again is used.
    known.shown(&here, &silent);
    assert_eq!(held(&known, &silent), Some(Some(true)));
    assert_eq!(
        held(&known, &[tool("write", Some(false))]),
        Some(Some(false))
    );
}

#[test]
fn a_server_with_ever_new_names_fills_no_memory_and_takes_nothing_back() {
    let mut tools = ServerTools::default();
    let says = |destructive| tool("", Some(destructive)).annotations;
    for n in 0..MAX_REMOVED {
        tools.annotations.insert(format!("a{n:05}"), says(false));
    }
    tools.annotations.insert("rm".into(), says(true));
    tools.annotations.insert("here".into(), says(false));
    tools.annotations.insert("there".into(), says(false));
    tools.bound(&BTreeSet::from(["here"]));
    let left: Vec<&str> = tools.annotations.keys().map(String::as_str).collect();
    assert_eq!(left, ["here", "rm"]);
    for n in 0..2 * MAX_REMOVED {
        tools.annotations.insert(format!("z{n:05}"), says(true));
    }
    tools.bound(&BTreeSet::from(["here"]));
    assert_eq!(tools.annotations.len(), MAX_REMOVED + 1);
    assert!(tools.annotations.contains_key("here"));
}
