//! tmux: `pipe-pane`, guarded so that a pipe of the user stays, see tmux(1).

use super::{TerminalIdentity, run};
use crate::error::{Error, Result};

/// Lets tmux start a program that gets the output of the shell's pane, unless the pane has a pipe already or is not the
/// terminal of the shell. The last argument of the program is `format`, in which tmux expands its formats.
///
/// # Errors
/// tmux fails, or a variable of the shell is not what tmux sets.
pub async fn start(identity: &TerminalIdentity, program: &[String], format: &str) -> Result<()> {
    let socket = identity.variable("TMUX").unwrap_or_default();
    let socket = socket.split(',').next().unwrap_or_default();
    let pane = identity.variable("TMUX_PANE").unwrap_or_default();
    let Some((condition, pipe)) = commands(pane, &identity.tty, program, format) else {
        return Err(Error::runtime(
            "the shell is not in a pane of tmux that can be recorded",
        ));
    };
    #[rustfmt::skip]
    let args = ["-S", socket, "if-shell", "-F", "-t", pane, &condition, "", &pipe];
    run::output(identity, "tmux", &args).await?;
    Ok(())
}

/// Returns the condition under which nothing is done, and the command for tmux otherwise.
fn commands(pane: &str, tty: &str, program: &[String], format: &str) -> Option<(String, String)> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_tty = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    let valid = pane.strip_prefix('%').is_some_and(is_number)
        && !tty.is_empty()
        && tty.bytes().all(is_tty)
        && !program.iter().any(|word| word.contains(char::is_control));
    if !valid {
        return None;
    }
    // Both in one command of tmux, so that no other client comes between. The shell may have taken the variables along into
    // another terminal.
    let condition = format!("#{{||:#{{pane_pipe}},#{{!=:#{{pane_tty}},{tty}}}}}");
    let words = program.iter().map(|word| expanded_to(&quoted(word)));
    let words: Vec<String> = words.collect();
    let line = format!("exec {} {}", words.join(" "), quoted(format));
    Some((
        condition,
        format!("pipe-pane -O -t {pane} {}", quoted(&line)),
    ))
}

/// Quotes a word for a shell, and for tmux, which reads single quotes as a shell does.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns the text that tmux expands to this one: as a format, and by strftime.
fn expanded_to(text: &str) -> String {
    text.replace('#', "##").replace('%', "%%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_are_quoted_for_tmux_and_the_shell() {
        assert_eq!(quoted("it's"), r"'it'\''s'");
        let program = ["/a b/#{x} 50%".to_owned()];
        let (condition, pipe) = commands("%3", "/dev/pts/4", &program, "#{y}").unwrap();
        assert_eq!(condition, "#{||:#{pane_pipe},#{!=:#{pane_tty},/dev/pts/4}}");
        let line = "exec '/a b/##{x} 50%%' '#{y}'";
        assert_eq!(pipe, format!("pipe-pane -O -t %3 {}", quoted(line)));
    }

    #[test]
    fn what_tmux_does_not_set_is_refused() {
        let program = ["x".to_owned()];
        for (pane, tty) in [
            ("", "/dev/pts/4"),
            ("%", "/dev/pts/4"),
            ("%1;kill-server", "/dev/pts/4"),
            ("1", "/dev/pts/4"),
            ("%1", ""),
            ("%1", "/dev/pts/4},1"),
        ] {
            assert_eq!(commands(pane, tty, &program, ""), None, "{pane} {tty}");
        }
        assert_eq!(commands("%1", "/dev/pts/4", &["a\nb".to_owned()], ""), None);
    }
}
