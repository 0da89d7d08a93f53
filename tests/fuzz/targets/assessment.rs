//! The assessment of command lines.

use aish::chat::OperationClass;
use aish::safety::command::{CommandClass, CommandPlace, assess};

use crate::fuzz::{Shape, Target};

pub const TARGET: Target = Target {
    name: "assessment",
    run,
    shape: Shape::Bytes,
    usual_size: 512,
    tokens: &[
        "rm -rf ",
        "curl x",
        " | sh",
        "sudo ",
        "bash -c '",
        "eval ",
        "find . -exec ",
        "\\;",
        "$(",
        "${",
        "${(",
        "$((",
        "((",
        "))",
        ")",
        "(",
        "{ ",
        "; }",
        "[[ ",
        " ]]",
        "`",
        "\"",
        "'",
        "$'",
        "<<EOF\n",
        "\nEOF\n",
        "<<<",
        "<(",
        "=(",
        "*(",
        "(e:",
        "&!",
        ">|",
        "> /dev/sda",
        "for x (",
        "for x in ",
        "; do ",
        "; done",
        "repeat 3 ",
        "case x in ",
        "esac",
        "if ",
        "then ",
        "fi",
        "f() ",
        "function ",
        "always",
        "&&",
        "||",
        ";",
        "\n",
        "\\\n",
        " # ",
        "x=",
        "x=(",
        "$x",
        "~",
        "*",
        "\u{a0}",
        "\u{1b}",
    ],
};

const PLACE: CommandPlace<'static> = CommandPlace {
    cwd: "/home/me/project",
    home: "/home/me",
    workspace: &[],
};

fn run(input: &[u8]) -> bool {
    let command = String::from_utf8_lossy(input);
    let assessed = assess(&command, &PLACE);
    assert_eq!(
        assessed,
        assess(&command, &PLACE),
        "the same text has the same class"
    );
    assert_eq!(assessed.effects.last(), Some(&assessed.class));
    assert!(assessed.reasons.len() <= 5);
    let is_destructive = assessed.operation() == OperationClass::Destructive;
    assert_eq!(is_destructive, assessed.class >= CommandClass::Unknown);
    assert_eq!(is_destructive, assessed.warning().is_some());
    assert!(!assessed.needs_typed_yes() || is_destructive);
    // What follows a deletion cannot hide it, unless it makes the whole unreadable.
    let whole = assess(&format!("rm -rf /\n{command}"), &PLACE);
    assert!(whole.class >= CommandClass::Unknown, "{command:?}");
    assessed.class != CommandClass::Unknown
}
