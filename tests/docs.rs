//! The documents agree with the code that they quote.

use std::fs;
use std::path::Path;

fn document(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The documents that users read first.
fn user_guide() -> String {
    document("README.md") + &document("docs/usage.md")
}

#[test]
fn user_guide_names_every_variable_and_key() {
    let guide = user_guide();
    for name in aish::config::override_variables() {
        assert!(guide.contains(name), "{name}");
    }
    for name in aish::broker::autodetect::variables().filter(|v| v.ends_with("_KEY")) {
        assert!(guide.contains(name), "{name}");
    }
    let plugin = document("zsh/aish.plugin.zsh");
    let settings = plugin.lines().filter_map(|l| l.strip_prefix("#   AISH_"));
    for name in settings.filter_map(|l| l.split_whitespace().next()) {
        assert!(guide.contains(&format!("AISH_{name}")), "{name}");
    }
}

#[test]
fn user_guide_names_every_exit_code() {
    use aish::error::ErrorKind;
    let guide = user_guide();
    for kind in [
        ErrorKind::Runtime,
        ErrorKind::Usage,
        ErrorKind::Config,
        ErrorKind::Approval,
        ErrorKind::Interrupted,
    ] {
        assert!(
            guide.contains(&format!("| {} |", kind.exit_code())),
            "{kind:?}"
        );
    }
}

/// One word for it in everything that users read.
#[test]
fn user_documents_say_session() {
    let names = [
        "README.md",
        "docs/usage.md",
        "docs/history.md",
        "docs/tools.md",
        "docs/settings.md",
        "docs/journal.md",
        "docs/config.schema.json",
        "examples/config.toml",
        "completions/_llm",
        "completions/_aish-helper",
        "zsh/functions/_aish_meta",
    ];
    for name in names {
        let text = document(name).to_lowercase();
        // A chat template is a property of a model.
        let text = text
            .replace("chat template", "")
            .replace("chat\n# template", "");
        for word in ["conversation", " chat ", " thread "] {
            assert!(!text.contains(word), "{name}: {word}");
        }
    }
}

/// All Markdown files of the project, relative to its root.
fn documents() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for dir in ["", "docs", "docs/dev", "docs/dev/how-to"] {
        for entry in fs::read_dir(root.join(dir)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "md") {
                let relative = path.strip_prefix(root).unwrap();
                found.push(relative.to_str().unwrap().to_owned());
            }
        }
    }
    assert!(found.len() > 10, "{found:?}");
    found
}

#[test]
fn linked_files_exist() {
    for name in documents() {
        let text = document(&name);
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(&name);
        let dir = dir.parent().unwrap();
        for link in text.split("](").skip(1).filter_map(|t| t.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            if !link.contains("://") && !file.is_empty() {
                assert!(dir.join(file).exists(), "{name} links to {link}");
            }
        }
    }
}

#[test]
fn glossary_names_types_that_exist() {
    let sources: String = documents_of("src").concat();
    let glossary = document("docs/dev/glossary.md");
    let (mut checked, mut missing) = (0, Vec::new());
    for row in glossary.lines().filter(|line| line.starts_with("| ")) {
        let cell = row.split('|').nth(2).unwrap_or_default();
        for path in cell.split('`').skip(1).step_by(2) {
            let Some(name) = path.rsplit("::").next() else {
                continue;
            };
            let is_type = name.starts_with(char::is_uppercase);
            if is_type && !path.contains('/') {
                checked += 1;
                if !sources.contains(name) {
                    missing.push(path.to_owned());
                }
            }
        }
    }
    assert!(missing.is_empty(), "not in the sources: {missing:?}");
    assert!(checked > 30, "only {checked} types found");
}

/// The text of every Rust file below `dir`.
fn documents_of(dir: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut dirs = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(dir)];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                texts.push(fs::read_to_string(path).unwrap());
            }
        }
    }
    texts
}

#[test]
fn the_page_knows_a_prompt_that_nobody_typed() {
    let page = document("web/src/state/items.ts");
    for (name, text) in [
        ("CONTINUED", aish::chat::CONTINUED),
        ("CONTINUED_SHOWN", aish::chat::CONTINUED_SHOWN),
    ] {
        assert!(
            page.contains(&format!("const {name} = {text:?};")),
            "{name}"
        );
    }
}
