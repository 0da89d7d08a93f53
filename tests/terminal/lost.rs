//! A tmux that is lost while it is read: the server dies, or the pane is closed. The shell ends with its pane, so the prompt comes
//! from another process, as that of a script or of a background job does.

use super::multiplexer::{Kind, Shell};
use crate::support::helper::Helper;

/// Asks about a failed command while a `tmux` on the `PATH` of the daemon runs `script`, which has the real one's arguments. Returns
/// what the client prints beside the answer.
fn ask(script: &str) -> String {
    let helper = Helper::saying("fine");
    // Once, and not when the test itself calls tmux.
    let fake = format!(
        "#!/bin/sh\n\
         if [ -e \"$HOME/armed\" ] && [ \"$1\" = -S ]; then\n\
         rm \"$HOME/armed\"\n\
         {script}\n\
         fi\n\
         exec /usr/bin/tmux \"$@\"\n"
    );
    helper.home.program("tmux", &fake);
    let mut shell = Shell::start(&helper, Kind::Tmux, "PROMPT='$ '");
    // A pane that stays, so that the server does.
    shell.tmux(&["split-window", "-d", "exec sleep 1000"]);
    shell.run("print -rn -- $_aish[id] >$HOME/id");
    shell.run("sh -c 'echo the cause; exit 7'");
    let armed = helper.home.path("armed");
    std::fs::write(&armed, "").expect("a file");
    let id = helper.home.read("id");
    let asked = helper.call(["ask", "--shell", &id, "--", "fix it"]).run();
    assert!(!armed.exists(), "tmux was asked: {asked:?}");
    assert_eq!((asked.code, &*asked.stdout), (0, "fine\n"), "{asked:?}");
    let content = helper.content();
    assert!(
        content.contains("echo the cause") && !content.contains("<output"),
        "{content}"
    );
    // The next prompt is asked as usual.
    assert_eq!(helper.ask("and now"), "fine\n");
    asked.stderr
}

/// Checks that the line about the missing output is the only one, and that it begins with one of the reasons.
fn check(printed: &str, reasons: &[&str]) {
    let lines: Vec<&str> = printed.lines().collect();
    let [line] = &lines[..] else {
        panic!("one line: {printed:?}")
    };
    let start = "[aish] sh -c 'echo the cause; exit 7' exited with 7; ";
    let reason = line.strip_prefix(start).expect(printed);
    let is_told = reasons.iter().any(|known| reason.starts_with(known));
    assert!(is_told, "{printed:?}");
}

#[test]
fn a_server_that_dies_while_it_is_read_costs_one_line() {
    // The client has its connection, and the stopped server has not answered when it is killed.
    let printed = ask("server=${TMUX#*,} server=${server%%,*}\n\
         kill -STOP $server\n\
         /usr/bin/tmux \"$@\" &\n\
         until ls -l /proc/$!/fd 2>/dev/null | grep -q socket: ; do :; done\n\
         kill -KILL $server\n\
         wait $!\n\
         exit");
    check(
        &printed,
        &[
            "tmux failed: server exited unexpectedly",
            "tmux failed: lost server",
        ],
    );
}

#[test]
fn a_server_that_has_died_costs_one_line() {
    let printed = ask("server=${TMUX#*,} server=${server%%,*}\n\
         kill -KILL $server");
    check(
        &printed,
        &[
            "tmux failed: no server running on",
            "tmux failed: server exited unexpectedly",
        ],
    );
}

#[test]
fn a_pane_that_is_closed_while_it_is_read_costs_one_line() {
    // After the first of the commands that read it.
    let printed = ask("closed=\n\
         for argument do\n\
         shift\n\
         set -- \"$@\" \"$argument\"\n\
         [ \"$argument$closed\" != ';' ] || { closed=1; set -- \"$@\" kill-pane -t \"$TMUX_PANE\" ';'; }\n\
         done");
    check(&printed, &["tmux failed: can't find pane: %0"]);
}

#[test]
fn a_pane_that_is_closed_before_it_is_read_costs_one_line() {
    let printed = ask("/usr/bin/tmux -S \"$2\" kill-pane -t \"$TMUX_PANE\"");
    check(&printed, &["tmux failed: can't find pane: %0"]);
}
