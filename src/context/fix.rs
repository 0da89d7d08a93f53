//! The request to correct a command that failed.

use crate::history::record::CommandOutput;

/// Instructions for explaining a failure and correcting the command.
pub const FIX_PROMPT: &str = "\
A command of the user failed in zsh, on the system named below. Reply in exactly this form, as plain text without Markdown:
one short line that says what went wrong;
one short line that says what the corrected command does;
CMD: the corrected command
The command is one zsh command line that does what the user wanted. Guess no output that you do not have. \
If no command corrects it, leave the CMD line out and say in the second line what to do.";

/// A command that failed.
#[derive(Debug)]
pub struct FailedCommand<'a> {
    /// The command line.
    pub command: &'a str,
    /// Its exit code.
    pub exit: i32,
    /// The directory that the shell is in.
    pub cwd: &'a str,
    /// Its output, if it could be read from the terminal.
    pub output: Option<&'a CommandOutput>,
}

/// Returns the user message of a request to correct a command: all known facts about the failure.
pub fn fix_request(failed: &FailedCommand<'_>) -> String {
    let head = |rest: &str| {
        format!(
            "$ {}\n[exit {}, in {:?}; {rest}]",
            failed.command, failed.exit, failed.cwd
        )
    };
    let Some(output) = failed.output else {
        return head("output not captured");
    };
    let mut out = head("output below");
    out.push_str("\n<output>\n");
    super::push_output(&mut out, output);
    out.push_str("\n</output>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_command_and_how_it_ended() {
        let failed = FailedCommand {
            command: "git stauts",
            exit: 1,
            cwd: "/a b",
            output: None,
        };
        let request = "$ git stauts\n[exit 1, in \"/a b\"; output not captured]";
        assert_eq!(fix_request(&failed), request);
        let output = CommandOutput {
            head: "not a git command".into(),
            tail: String::new(),
            omitted: 0,
        };
        let failed = FailedCommand {
            output: Some(&output),
            ..failed
        };
        let request = "$ git stauts\n[exit 1, in \"/a b\"; output below]\n<output>\nnot a git command\n</output>";
        assert_eq!(fix_request(&failed), request);
    }
}
