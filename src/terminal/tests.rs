use super::*;

fn identity(variables: &[(&str, &str)]) -> TerminalIdentity {
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    TerminalIdentity {
        tty: String::new(),
        variables: variables.collect(),
    }
}

#[test]
fn the_innermost_terminal_is_asked_first() {
    let kinds = |variables: &[(&str, &str)]| identity(variables).kinds();
    let tmux = [("TMUX", "/tmp/s,1,0"), ("TMUX_PANE", "%1")];
    let kitty = [("KITTY_WINDOW_ID", "1"), ("KITTY_LISTEN_ON", "unix:/k")];
    assert_eq!(kinds(&[tmux, kitty].concat()), [TerminalKind::Tmux]);
    assert_eq!(
        kinds(&[&tmux[..], &[("STY", "1.x")]].concat()),
        [TerminalKind::Tmux, TerminalKind::Screen]
    );
    assert_eq!(kinds(&kitty), [TerminalKind::Kitty]);
    // The terminal is on another machine.
    assert_eq!(
        kinds(&[&kitty[..], &[("SSH_CONNECTION", "1 2 3 4")]].concat()),
        []
    );
    assert_eq!(kinds(&[("TERM_PROGRAM", "vscode")]), []);
    assert_eq!(kinds(&[("TMUX", ""), ("TMUX_PANE", "")]), []);
}

#[tokio::test]
async fn a_program_gets_the_variables_of_a_terminal_only() {
    let identity = identity(&[("STY", "1.x"), ("AISH_OTHER", "y")]);
    let echo = ["-c", "echo $STY ${AISH_OTHER-none}"];
    let printed = run::output(&identity, "sh", &echo).await;
    assert_eq!(printed.unwrap(), "1.x none\n");
}

#[tokio::test]
async fn a_program_that_prints_lines_without_end_is_refused() {
    for end in ["\\n", "\\r"] {
        let script = format!("head -c 300000 /dev/zero | tr '\\0' '{end}'");
        let printed = run::output(&identity(&[]), "sh", &["-c", &script]).await;
        assert_eq!(printed.unwrap_err().message, "sh printed too many lines");
    }
}
