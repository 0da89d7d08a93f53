//! `aish-helper helper` with a real python3, on a terminal and without one.

use std::path::PathBuf;

use serde_json::Value;

use crate::support::helper::{Helper, ProgramResult};
use crate::support::pty::Zsh;

const TOOLS: &str = r#"import sys
def shout(text: str, times: int = 1) -> str:
    """Makes text loud.

    Args:
        text: What is said.
    """
    print("working", file=sys.stderr)
    return " ".join([text.upper()] * times)
def fails() -> str:
    "Raises."
    raise ValueError("no\x1b[2J")
def bare(x): pass
"#;

fn home_with(source: &str) -> Helper {
    let helper = Helper::saying("fine");
    std::fs::write(helper.home.path("tools.py"), source).unwrap();
    helper
}

fn copy(helper: &Helper) -> PathBuf {
    helper.path("config/helpers/tools.py")
}

fn run(helper: &Helper, args: &[&str]) -> ProgramResult {
    helper.call(["helper"].iter().chain(args)).run()
}

/// Calls a function in a workspace below the home.
fn test(helper: &Helper, args: &[&str]) -> ProgramResult {
    let workspace = helper.home.path("workspace");
    std::fs::create_dir_all(&workspace).unwrap();
    let words = ["helper", "test"];
    helper.call(words.iter().chain(args)).dir(workspace).run()
}

/// Adds the file in a terminal with `--yes`, and returns its output.
fn add(helper: &Helper) -> String {
    let mut zsh = Zsh::start(&helper.home);
    let text = zsh.eval("aish-helper helper add tools.py --yes; print -r -- exit $?");
    zsh.exit();
    text
}

#[test]
fn file_is_shown_and_added_after_a_yes() {
    let helper = home_with(TOOLS);
    let mut zsh = Zsh::start(&helper.home);
    zsh.send("aish-helper helper add tools.py\r");
    zsh.wait_text("[y] add it");
    let screen = zsh.screen();
    for part in [
        "helper file tools.py is new; 13 lines; adding it runs its code",
        "return \" \".join([text.upper()] * times)",
        "no packages",
    ] {
        assert!(screen.contains(part), "{part}\n{screen}");
    }
    assert!(!copy(&helper).exists());
    zsh.press_until("y", "added tools.py: 2 tools: helper.shout, helper.fails");
    zsh.wait_text("tools.py: function bare: it has no docstring");
    zsh.prompt();
    assert_eq!(std::fs::read_to_string(copy(&helper)).unwrap(), TOOLS);
    zsh.exit();

    let listed = run(&helper, &["list", "--json"]).json();
    assert_eq!(listed["files"][0]["file"], "tools.py");
    assert_eq!(
        listed["files"][0]["tools"],
        serde_json::json!(["shout", "fails"])
    );
    assert_eq!(listed["problems"].as_array().unwrap().len(), 1);
    let text = run(&helper, &["list"]).ok();
    assert!(text.starts_with("tools.py    shout, fails\n"), "{text}");

    let arguments = ["shout", "--json_args", r#"{"text": "a", "times": 2}"#];
    let tested = test(&helper, &arguments);
    assert_eq!((tested.stdout.as_str(), tested.code), ("A A\n", 0));
    assert_eq!(tested.stderr, "working\n");
    let tested = test(&helper, &["fails", "--json"]);
    assert_eq!(tested.code, 1);
    let result: Value = serde_json::from_str(&tested.stdout).unwrap();
    assert_eq!(result["is_error"], true);
    // What a helper says reaches a terminal through the sink only.
    let tested = test(&helper, &["helper.fails"]);
    assert_eq!(
        tested.stdout,
        "ValueError: no\\x1b[2J (tools.py, line 12)\n"
    );

    // The sandbox would have to make the whole home writable.
    let tested = run(&helper, &["test", "shout", "--json_args", "{}"]);
    assert_eq!(tested.code, 1);
    let reason = "does not run in a workspace that contains the home directory; change to a directory below it";
    assert!(tested.stderr.contains(reason), "{}", tested.stderr);

    let page = run(&helper, &["doc", "shout"]).ok();
    for part in [
        "helper.shout (tools.py; writes)",
        "shout(text: str, times: int = 1) -> str",
        "\"description\": \"What is said.\"",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    assert!(run(&helper, &["doc"]).ok().contains("helper.fails"));
    let unknown = run(&helper, &["doc", "nothing"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("no helper is called nothing"));
}

#[test]
fn nothing_is_added_after_a_no_or_without_reading_on() {
    let long = format!("{TOOLS}{}", "# more\n".repeat(200));
    for (source, key, question) in [
        (TOOLS, "n", "[y] add it"),
        (long.as_str(), "q", "more lines: [space] read on"),
    ] {
        let helper = home_with(source);
        let mut zsh = Zsh::start(&helper.home);
        zsh.send("aish-helper helper add tools.py; print exit $?\r");
        zsh.wait_text(question);
        zsh.press_until(key, "nothing was added or installed");
        zsh.wait_text("exit 130");
        zsh.prompt();
        zsh.exit();
        assert!(!copy(&helper).exists());
        let listed = run(&helper, &["list"]).ok();
        assert!(listed.starts_with("no helpers yet"), "{listed}");
    }
}

#[test]
fn yes_counts_only_at_a_terminal() {
    let helper = home_with(TOOLS);
    for args in [&["add", "tools.py"][..], &["add", "tools.py", "--yes"]] {
        let script = "exec setsid -w aish-helper helper \"$@\"";
        let refused = helper
            .program("sh")
            .args(["-c", script, "sh"])
            .args(args)
            .run();
        assert_eq!(refused.code, 4, "{refused:?}");
        assert!(
            refused
                .stderr
                .contains("a helper can only be added in a terminal, and no terminal to ask on"),
            "{refused:?}"
        );
        assert!(!copy(&helper).exists());
    }
    let text = add(&helper);
    assert!(
        text.contains("added tools.py: 2 tools") && text.contains("exit 0"),
        "{text}"
    );
}

#[test]
fn package_from_elsewhere_is_asked_about_even_with_yes() {
    let source = format!(
        "# /// script\n# dependencies = [\"tinypkg @ file:///nowhere/tinypkg-1-py3-none-any.whl\"]\n# ///\n{TOOLS}"
    );
    let helper = home_with(&source);
    let mut zsh = Zsh::start(&helper.home);
    zsh.send("aish-helper helper add tools.py --yes; print exit $?\r");
    zsh.wait_text(
        "package tinypkg does not come from the package index, but from file:///nowhere/",
    );
    zsh.press_until("n", "nothing was added or installed");
    zsh.wait_text("exit 130");
    zsh.prompt();
    zsh.exit();
    assert!(!copy(&helper).exists());
}

#[test]
fn package_that_cannot_be_installed_is_named() {
    let source =
        format!("# /// script\n# dependencies = [\"aish-no-such-package==9\"]\n# ///\n{TOOLS}");
    let helper = home_with(&source);
    let mut zsh = Zsh::start(&helper.home);
    let text = zsh.eval("PIP_NO_INDEX=1 aish-helper helper add tools.py --yes; print exit $?");
    zsh.exit();
    assert!(
        text.contains("the dependencies cannot be installed: "),
        "{text}"
    );
    assert!(
        text.contains("aish-no-such-package==9") && text.contains("exit 1"),
        "{text}"
    );
    assert!(!copy(&helper).exists());
    let left = std::fs::read_dir(helper.path("data/helpers")).unwrap();
    let names: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["lock"]);
}

#[test]
fn removal_asks_and_a_change_is_told() {
    let helper = home_with(TOOLS);
    add(&helper);
    std::fs::write(copy(&helper), TOOLS.replace("upper", "lower")).unwrap();
    let tested = run(
        &helper,
        &["test", "shout", "--json_args", r#"{"text": "a"}"#],
    );
    assert_eq!(tested.code, 2);
    assert!(
        tested
            .stderr
            .contains("tools.py was changed after it was added and is not used; add it again"),
        "{tested:?}"
    );
    // Another name has nothing to do with that file.
    let unknown = run(&helper, &["test", "nosuch"]);
    assert!(!unknown.stderr.contains("tools.py"), "{unknown:?}");
    assert!(
        run(&helper, &["list"])
            .ok()
            .starts_with("tools.py    not used\n")
    );

    let mut zsh = Zsh::start(&helper.home);
    zsh.send("aish-helper helper remove tools\r");
    zsh.wait_text("Delete it for good? [y/N]");
    zsh.send("n\r");
    zsh.wait_text("nothing was deleted");
    zsh.prompt();
    assert!(copy(&helper).exists());
    let question = |screen: &vt100::Screen| screen.contents().matches("Delete it").count() == 2;
    zsh.send("aish-helper helper remove tools\r");
    zsh.wait_for("the second question", question);
    zsh.send("y\r");
    zsh.wait_text("removed tools.py");
    zsh.exit();
    assert!(!copy(&helper).exists());
    let gone = run(&helper, &["remove", "tools.py", "--yes"]);
    assert_eq!(gone.code, 2);
    assert!(gone.stderr.contains("no helper file tools.py was added"));
}

#[test]
fn call_by_hand_is_interrupted_by_ctrl_c() {
    let source = "def waits() -> str:\n    \"Waits.\"\n    print('is waiting')\n    import time\n    time.sleep(600)\n";
    let helper = home_with(source);
    add(&helper);
    let zsh = Zsh::start(&helper.home);
    zsh.send("mkdir workspace && cd workspace && aish-helper helper test waits; print exit $?\r");
    zsh.wait_text("is waiting");
    assert!(helper.workers() > 0);
    zsh.send("\x03");
    zsh.wait_text("[aish] interrupted");
    helper.until("the worker is gone", || helper.workers() == 0);
    drop(zsh);
}
