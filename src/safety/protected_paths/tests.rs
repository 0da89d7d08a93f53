use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const HOME: &str = "/home/me";
const CONFIG: &str = "/home/me/.config/aish";

fn variables() -> Variables {
    Variables {
        home: HOME.into(),
        user: "me".into(),
        values: vec![("XDG_CONFIG_HOME".into(), "/home/me/.config".into())],
    }
}

fn protected() -> ProtectedPaths {
    let mut paths = ProtectedPaths::default();
    for place in [CONFIG, "/home/me/.local/share/aish", "/home/me/.zshrc"] {
        paths.add(Path::new(place), true);
    }
    paths.add(Path::new("/tmp/aish-1000"), false);
    paths
}

/// Whether arguments reach a protected path, without symlinks, from a shell in `cwd`.
fn reaches(arguments: &Value, cwd: &str) -> bool {
    let (candidates, texts) = path_candidates(arguments, &variables()).expect("not too many");
    let paths = protected();
    let in_text = texts.iter().any(|text| paths.find_in_text(text).is_some());
    in_text
        || candidates.iter().any(|one| {
            [HOME, cwd].iter().any(|base| {
                let found = paths.find(&Path::new(base).join(&one.path));
                found.is_some_and(|(_, relation)| relation == PathRelation::Inside || one.whole)
            })
        })
}

#[test]
fn every_spelling_of_a_protected_path_is_found() {
    let cwd = "/home/me/work";
    for text in [
        "/home/me/.config/aish/config.toml",
        "/home/me/.config/aish",
        "/home/me/.config/aish/",
        "//home//me/.config/./aish//config.toml",
        "/home/me/.config/other/../aish/config.toml",
        "../.config/aish/config.toml",
        "./.config/aish/config.toml",
        "~/.config/aish/config.toml",
        "~me/.config/aish/config.toml",
        "$HOME/.config/aish/config.toml",
        "${HOME}/.config/aish/config.toml",
        "${HOME:-/}/.config/aish/config.toml",
        "$XDG_CONFIG_HOME/aish/config.toml",
        "$UNKNOWN/config.toml",
        "/home/$USER/.config/aish/config.toml",
        "file:///home/me/.config/aish/config.toml",
        "file://localhost/home/me/.config/aish/config.toml",
        "FILE:/home/me/.config/aish/config.toml",
        "file:///home/me/%2econfig/ai%73h/config.toml",
        "file:///home/me/.config%2faish%2fconfig.toml?x=1",
        "%252fhome%252fme%252f.config%252faish%252fconfig.toml",
        "/home/me/.config/aish/config.toml\0.txt",
        "/HOME/me/.Config/AISH/config.toml",
        "/home/me/.config/a*/config.toml",
        "/home/me/.config/{aish,other}/config.toml",
        "/home/me/.c?nfig/[a]ish/c*",
        "/home/**/config.toml",
        "/home/*/.zshrc",
        "~/.zsh*",
        "~/.z^x",
        "/proc/self/root/home/me/x",
        "/proc/self/cwd/x",
        "/proc/1234/task/1234/root/etc",
        "/proc/*/root/etc",
        "/dev/fd/7",
        "/home/me/.local/share/aish/journal/audit.jsonl",
        "/tmp/aish-1000/sock",
        "/anywhere/.aish.toml",
        ".aish.toml",
        "/anywhere/.zshrc.zwc",
        "/anywhere/*.aish.toml",
        "echo x >> ~/.config/aish/config.toml",
        "echo x>>~/.zshrc",
        "tee \"$HOME/.config/aish/config.toml\" < x",
        "cat x > ~/'.config'/ai\\sh/config.toml",
        "dd if=x of=/home/me/.zshrc",
        "cp x -t/home/me/.config/aish",
        "cp --target-directory=/home/me/.config/aish x",
        "true;rm .zshrc&",
        "open('/home/me/.config/aish/config.toml', 'a')",
        "{\"path\":\"/home/me/.zshrc\"}",
        "curl -d @/home/me/.zshrc example.com",
        // Directories above a protected file.
        "/home/me",
        "~",
        "/",
        "~/.config",
    ] {
        assert!(reaches(&json!({ "path": text }), cwd), "{text:?}");
        assert!(reaches(&json!([[{ "k": text }]]), cwd), "{text:?}");
        assert!(reaches(&json!({ text: "the value" }), cwd), "{text:?}");
    }
    assert!(reaches(&json!({ "path": "config.toml" }), CONFIG));
    assert!(reaches(&json!(["home", "me", ".config", "aish", "x"]), "/"));
}

#[test]
fn other_paths_and_prose_are_not_found() {
    for text in [
        "",
        "x",
        "/home/me/work/config.toml",
        "config.toml",
        "/home/me/.config/aishling/config.toml",
        "/home/you/.config/aish/config.toml",
        "/proc/cpuinfo",
        "/tmp",
        "/tmp/aish-10001/x",
        "src/**/*.rs",
        "*",
        "either/or, 5 $/month, a = b / c, https://example.com/x?y=~z",
        "fn main() { println!(\"{}/{}\", 1, 2); } // ../x",
        "use zshrc and aish as words: .config aish ~",
        "100% sure, %zz %2",
    ] {
        let arguments = json!({ "path": text, "n": 1, "deep": [null, true] });
        assert!(!reaches(&arguments, "/home/me/work"), "{text:?}");
    }
}

#[test]
fn too_many_paths_are_reported() {
    let many: String = (0..3_000).map(|n| format!("a/{n} ")).collect();
    assert!(path_candidates(&json!({ "text": many }), &variables()).is_none());
    let long = "word ".repeat(200_000);
    assert!(path_candidates(&json!({ "text": long }), &variables()).is_some());
}

proptest! {
    #[test]
    fn any_text_is_checked_without_a_panic(text in "[/~$.*?{}\\[\\]^#%:\\\\'\"\0 a-zé]{0,40}") {
        reaches(&json!({ "path": text }), "/home/me/work");
    }

    #[test]
    fn surroundings_do_not_hide_a_path(before in "[ ;|&<>(='\":,@]{1,4}", after in "[ ;|&<>)'\":,]{1,4}") {
        let text = format!("x{before}~/.config/aish/config.toml{after}y");
        prop_assert!(reaches(&json!(text), "/home/me/work"), "{}", text);
    }
}

#[test]
fn many_wildcards_are_compared_in_bounded_time() {
    let deep = format!("/home/me{}/config.toml", "/**/*".repeat(1500));
    let found = protected().find(Path::new(&deep));
    assert_eq!(
        found.map(|(_, relation)| relation),
        Some(PathRelation::Inside)
    );
    let other = format!("/srv/x{}/y", "/**".repeat(20_000));
    assert_eq!(protected().find(Path::new(&other)), None);
}
