//! The work of a coding agent in a real terminal: a failing test is read, two files are changed with their differences shown, the
//! test passes in the sandbox, and `llm :undo` restores every byte.

use serde_json::{Value, json};

use crate::fakes::provider::Script;
use crate::support::helper::Helper;
use crate::support::pty::Zsh;

const ADD: &str = "# Adds two numbers.\nadd() { echo $(( $1 - $2 )) }\n";
const TEST: &str = "source ./lib/add.zsh\nsource ./lib/twice.zsh\n[[ $(add 2 3) == 5 ]] || { echo \"add 2 3: $(add 2 3), not 5\"; exit 1 }\n[[ $(twice 4) == 8 ]] || { echo \"twice 4: $(twice 4), not 8\"; exit 1 }\necho all tests passed\n";
const TWICE: &str = "twice() { echo $(( $1 * 3 )) }  # no line end here";

fn call(n: usize, tool: &str, arguments: &Value) -> Script {
    let id = format!("c{n}");
    Script::calls("", &[(&id, tool, &arguments.to_string())])
}

/// Presses a key until the screen has this text.
fn press(zsh: &Zsh<'_>, key: &str, text: &str) {
    zsh.answer(key, |screen| screen.contents().contains(text));
}

#[test]
fn a_failing_test_is_repaired_in_a_terminal_and_taken_back() {
    let test = json!({"command": "zsh -f test.zsh"});
    let edit_add = json!({"path": "lib/add.zsh", "old_text": "$1 - $2", "new_text": "$1 + $2"});
    let edit_twice = json!({"path": "lib/twice.zsh", "old_text": "$1 * 3", "new_text": "$1 * 2"});
    let script = [
        call(1, "shell", &test),
        call(2, "read_file", &json!({"path": "test.zsh"})),
        call(3, "grep", &json!({"pattern": "echo", "path": "lib"})),
        call(4, "edit_file", &edit_add),
        call(5, "edit_file", &edit_twice),
        call(6, "shell", &test),
        Script::tokens(["Both functions are right now."]),
        Script::tokens(["I see."]),
    ];
    let helper = Helper::new(script);
    helper.config("[tools]\nbuiltin = true\n");
    let project = helper.home.path("project");
    for dir in [".git", "lib"] {
        std::fs::create_dir_all(project.join(dir)).expect("a directory");
    }
    for (name, text) in [
        ("lib/add.zsh", ADD),
        ("test.zsh", TEST),
        ("lib/twice.zsh", TWICE),
    ] {
        std::fs::write(project.join(name), text).expect("a file");
    }
    let read = |name: &str| std::fs::read_to_string(project.join(name)).expect("a file");
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("cd project");
    zsh.send("llm make the test pass\r");

    zsh.wait_text("zsh -f test.zsh");
    press(&zsh, "y", "add 2 3: -1, not 5");
    zsh.wait_text("all reads in");
    press(&zsh, "r", "+add() { echo $(( $1 + $2 )) }");
    let shown = zsh.screen();
    for line in [
        "lib/add.zsh  +1 -1",
        "-add() { echo $(( $1 - $2 )) }",
        "+add() { echo $(( $1 + $2 )) }",
    ] {
        assert!(shown.contains(line), "{line} in\n{shown}");
    }
    assert_eq!(read("lib/add.zsh"), ADD);
    press(&zsh, "y", "+twice() { echo $(( $1 * 2 )) }");
    let second = "command  \"zsh -f test.zsh\"";
    zsh.answer("y", |screen| screen.contents().matches(second).count() >= 2);
    press(&zsh, "y", "Both functions are right now.");
    zsh.prompt();
    assert!(
        zsh.screen().contains("all tests passed"),
        "{}",
        zsh.screen()
    );
    assert_eq!(read("lib/add.zsh"), ADD.replace('-', "+"));
    assert_eq!(
        read("lib/twice.zsh"),
        TWICE.replace("* 3", "* 2"),
        "the missing line end stays"
    );

    let requests = helper.provider.requests();
    let results: Vec<String> = requests[6].json["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().expect("text").to_owned())
        .collect();
    assert!(results[0].starts_with("[exit 1 after"), "{results:?}");
    assert!(
        results[1].contains("4\t[[ $(twice 4) == 8 ]]"),
        "{results:?}"
    );
    assert!(results[2].contains("lib/add.zsh:2"), "{results:?}");
    assert!(results[5].starts_with("[exit 0 after"), "{results:?}");
    assert!(results[5].contains("all tests passed"), "{results:?}");

    let undone = zsh.eval("llm :undo");
    assert_eq!(
        undone
            .lines()
            .filter(|line| line.starts_with("restored"))
            .count(),
        2,
        "{undone}"
    );
    assert_eq!(read("lib/add.zsh"), ADD);
    assert_eq!(read("lib/twice.zsh"), TWICE);
    zsh.run("llm what now");
    let requests = helper.provider.requests();
    let messages = requests[7].json["messages"].as_array().expect("messages");
    let last = messages.last().expect("a message")["content"]
        .as_str()
        .expect("text");
    assert!(
        last.contains("<undone>The user took back your changes in: "),
        "{last}"
    );

    // The record shows all of it.
    let of = |kind: &str| helper.records_of(kind).len();
    assert_eq!((of("approval"), of("tool"), of("undo")), (6, 6, 1));
    let decisions: Vec<String> = helper
        .records_of("approval")
        .iter()
        .map(|record| record["decision"].as_str().expect("a decision").to_owned())
        .collect();
    assert_eq!(decisions, ["once", "reads", "rule", "once", "once", "once"]);
}
