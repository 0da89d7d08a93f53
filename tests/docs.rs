//! The documents agree with the code that they quote.

use std::fs;
use std::path::Path;

fn document(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

#[test]
fn readme_names_every_variable_and_key() {
    let readme = document("README.md");
    for name in aish::config::override_variables() {
        assert!(readme.contains(name), "{name}");
    }
    for name in aish::broker::autodetect::variables().filter(|v| v.ends_with("_KEY")) {
        assert!(readme.contains(name), "{name}");
    }
    let plugin = document("zsh/aish.plugin.zsh");
    let settings = plugin.lines().filter_map(|l| l.strip_prefix("#   AISH_"));
    for name in settings.filter_map(|l| l.split_whitespace().next()) {
        assert!(readme.contains(&format!("AISH_{name}")), "{name}");
    }
}

#[test]
fn readme_names_every_exit_code() {
    use aish::error::ErrorKind;
    let readme = document("README.md");
    for kind in [
        ErrorKind::Runtime,
        ErrorKind::Usage,
        ErrorKind::Config,
        ErrorKind::Approval,
        ErrorKind::Interrupted,
    ] {
        assert!(
            readme.contains(&format!("| {} |", kind.exit_code())),
            "{kind:?}"
        );
    }
}

#[test]
fn linked_files_exist() {
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = document(name);
        for link in text.split("](").skip(1).filter_map(|t| t.split(')').next()) {
            if !link.contains("://") {
                let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(link);
                assert!(path.exists(), "{name} links to {link}");
            }
        }
    }
}
