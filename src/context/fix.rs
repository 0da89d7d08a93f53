//! The request to correct a command that failed.

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
}

/// Returns the user message of a request to correct a command. Whatever else is known about the failure, such as its output,
/// is added here.
pub fn fix_request(failed: &FailedCommand<'_>) -> String {
    format!(
        "$ {}\n[exit {}, in {:?}; output not captured]",
        failed.command, failed.exit, failed.cwd
    )
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
        };
        let request = "$ git stauts\n[exit 1, in \"/a b\"; output not captured]";
        assert_eq!(fix_request(&failed), request);
    }
}
