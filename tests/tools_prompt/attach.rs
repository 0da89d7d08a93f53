//! A client that follows a turn of another client: its output, the answers that it may give, and how it leaves.

use aish::protocol::QuestionOutcome;
use aish::protocol::tools::CallStarted;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::*;

/// A client that follows the turn of the prompt `why`.
fn following(zsh: &Zsh<'_>, daemon: &Daemon, line: &str) -> Prompt {
    zsh.send(format!("clear; {line}\r"));
    let mut prompt = daemon.prompt();
    prompt.event(&Event::Attached {
        session: "2026-session-1a2b3c4d".into(),
        prompt: "why\nso".into(),
        running: true,
        started_ms: 1,
    });
    prompt
}

fn closed(answered_in: Option<&str>, outcome: QuestionOutcome) -> Event {
    Event::QuestionClosed {
        id: "q1".into(),
        answered_in: answered_in.map(str::to_owned),
        outcome,
    }
}

/// The terminal of a shell, as events name it.
fn tty(zsh: &mut Zsh<'_>) -> String {
    let tty = zsh.eval("print -rn -- $TTY");
    tty.strip_prefix("/dev/").expect("a device").to_owned()
}

#[test]
fn a_follower_shows_the_answer_and_can_answer_questions() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let tty = tty(&mut zsh);
    for line in [
        "aish-helper attach --shell 1-2 3c4d",
        "aish-helper ask --shell 1-2 --attach 3c4d",
    ] {
        let mut prompt = following(&zsh, &daemon, &format!("{line}; print code=$?"));
        let attach = prompt.attach.as_ref().expect("no prompt, just following");
        assert_eq!(attach.session.as_deref(), Some("3c4d"));
        assert_eq!(attach.tty.as_ref(), Some(&tty));
        assert!(attach.can_answer);
        zsh.wait_text("session 1a2b3c4d is answering “why so”; Ctrl-C stops the answer");
        prompt.text("so far ");
        zsh.wait_text("so far");
        prompt.event(&Event::ApprovalRequested(Box::new(question("{}"))));
        zsh.wait_text(KEYS);
        let (given, arguments) = verdict(press(&zsh, &mut prompt, "y"));
        assert_eq!((given, &arguments[..]), (ApprovalVerdict::Once, "{}"));
        prompt.event(&closed(Some(&tty), QuestionOutcome::AllowedOnce));
        prompt.text("and the rest");
        prompt.reply("stop");
        zsh.prompt();
        let screen = zsh.screen();
        assert!(
            screen.contains("and the rest") && screen.contains("code=0"),
            "{screen}"
        );
        assert!(!screen.contains("answered in"), "{screen}");
    }
    // Words make it a prompt.
    zsh.send("aish-helper ask --attach 3c4d and now\r");
    let mut prompt = daemon.prompt();
    assert!(prompt.attach.is_none() && prompt.ask.text == "and now");
    prompt.reply("stop");
    zsh.prompt();
}

#[test]
fn an_edit_that_was_not_used_is_said() {
    let (home, daemon) = home();
    home.program("editor", "#!/bin/sh\nprintf '{\"a\":\"new\"}' >\"$1\"\n");
    let mut zsh = Zsh::start(&home);
    let line = "EDITOR=editor aish-helper ask x";
    let mut prompt = asked(&zsh, &daemon, line, &question("{\"a\":\"old\"}"));
    zsh.wait_text(KEYS);
    zsh.press_until("e", "edited");
    prompt.event(&closed(Some("the page"), QuestionOutcome::AllowedOnce));
    zsh.wait_text("answered in the page: allowed once; your edit was not used");
    prompt.reply("stop");
    zsh.prompt();
}

#[test]
fn a_question_answered_elsewhere_leaves_the_screen() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    for (answered_in, outcome, text) in [
        (
            Some("pts/33"),
            QuestionOutcome::AllowedOnce,
            "answered in pts/33: allowed once",
        ),
        (
            None,
            QuestionOutcome::Denied,
            "answered in another terminal: denied",
        ),
        (
            None,
            QuestionOutcome::TimedOut,
            "nobody answered in time: denied",
        ),
        (
            None,
            QuestionOutcome::Withdrawn,
            "the question was withdrawn",
        ),
    ] {
        let mut prompt = asked(&zsh, &daemon, "aish-helper ask x", &question("{}"));
        zsh.wait_text(KEYS);
        prompt.event(&closed(answered_in, outcome));
        zsh.wait_text(text);
        prompt.text("the answer");
        prompt.reply("stop");
        zsh.prompt();
        assert_eq!(zsh.screen().matches(text).count(), 1, "{}", zsh.screen());
        prompt.left();
    }
    assert_eq!(
        zsh.eval("stty -a | grep -ow -e '-*echo' -e '-*icanon' -e '-*isig'"),
        "isig\nicanon\necho\n"
    );
}

#[test]
fn an_answer_that_comes_too_late_is_reported() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let mut prompt = asked(&zsh, &daemon, "aish-helper ask x", &question("{}"));
    zsh.wait_text(KEYS);
    press(&zsh, &mut prompt, "y");
    prompt.event(&closed(Some("pts/33"), QuestionOutcome::Denied));
    zsh.wait_text("[aish] too late: answered in pts/33: denied");
    prompt.reply("stop");
    zsh.prompt();
}

#[test]
fn a_question_closed_in_the_replay_is_not_asked_again() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let mut prompt = following(&zsh, &daemon, "aish-helper attach");
    let begin = CallStarted {
        id: "c1".into(),
        name: "github.create_issue".into(),
        arguments: "{}".into(),
        rule: None,
        operation: question("{}").operation,
        warning: None,
        prints: false,
    };
    prompt.events(&[
        Event::ApprovalRequested(Box::new(question("{}"))),
        closed(Some("pts/33"), QuestionOutcome::AllowedTool),
        Event::ToolCallStarted(begin),
    ]);
    zsh.wait_text("[aish] github.create_issue: answered in pts/33: the tool is allowed");
    zsh.wait_text("┌ w github.create_issue");
    prompt.reply("stop");
    zsh.prompt();
    assert!(!zsh.screen().contains(KEYS), "{}", zsh.screen());
    prompt.left();
}

#[test]
fn ctrl_c_stops_the_answer_and_other_signals_only_leave_it() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let mut prompt = following(&zsh, &daemon, "aish-helper attach; print code=$?");
    zsh.wait_text("is answering");
    zsh.send("\x03");
    prompt.cancelled();
    prompt.reply("interrupted");
    zsh.prompt();
    assert!(zsh.screen().contains("code=130"), "{}", zsh.screen());
    // Ctrl-\ while the answer streams, and a hang-up while a question is open.
    let mut prompt = following(&zsh, &daemon, "aish-helper attach; print code=$?");
    zsh.wait_text("is answering");
    zsh.send("\x1c");
    prompt.left();
    zsh.prompt();
    let screen = zsh.screen();
    assert!(
        screen.contains(
            "[aish] stopped following; the answer continues\n  llm :attach 1a2b3c4d shows it"
        ),
        "{screen}"
    );
    let line = "sh -c 'echo $$ >pid; exec aish-helper attach'; print code=$?";
    let mut prompt = following(&zsh, &daemon, line);
    prompt.event(&Event::ApprovalRequested(Box::new(question("{}"))));
    zsh.wait_text(KEYS);
    let pid: i32 = home.read("pid").trim().parse().expect("a pid");
    kill(Pid::from_raw(pid), Signal::SIGTERM).expect("it runs");
    prompt.left();
    zsh.prompt();
    let screen = zsh.screen();
    assert!(
        screen.contains("stopped following; the answer continues"),
        "{screen}"
    );
}

#[test]
fn a_follower_with_blocked_output_leaves_the_turn_running() {
    let (home, daemon) = home();
    let (read, write) = nix::unistd::pipe().expect("a pipe");
    let mut command = std::process::Command::new(crate::support::home::helper());
    command
        .args(["attach", "--raw"])
        .env_clear()
        .envs(home.env());
    command.stdin(std::process::Stdio::null());
    command.stdout(write.try_clone().expect("a descriptor"));
    command.stderr(std::process::Stdio::piped());
    let client = command.spawn().expect("aish-helper starts");
    let mut prompt = daemon.prompt();
    prompt.event(&Event::Attached {
        session: "2026-session-1a2b3c4d".into(),
        prompt: "why".into(),
        running: true,
        started_ms: 1,
    });
    // More than the pipe holds.
    for _ in 0..10 {
        prompt.text(&"0123456789\n".repeat(1000));
    }
    let deadline = Instant::now() + PATIENCE;
    let mut fds = [nix::poll::PollFd::new(
        std::os::fd::AsFd::as_fd(&write),
        nix::poll::PollFlags::POLLOUT,
    )];
    while nix::poll::poll(&mut fds, nix::poll::PollTimeout::ZERO).expect("poll") > 0 {
        assert!(Instant::now() < deadline, "the pipe never fills");
        std::thread::yield_now();
    }
    let pid = Pid::from_raw(i32::try_from(client.id()).expect("a pid"));
    kill(pid, Signal::SIGTERM).expect("the client runs");
    prompt.left();
    let output = client.wait_with_output().expect("the client exits");
    drop(read);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("stopped following; the answer continues"),
        "{stderr}"
    );
    assert_eq!(output.status.code(), Some(130));
}

#[test]
fn an_answer_cut_off_by_the_daemon_says_how_to_see_the_rest() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    zsh.send("aish-helper ask x; print code=$?\r");
    let mut prompt = daemon.prompt();
    prompt.event(&Event::TurnStarted {
        session: "2026-session-1a2b3c4d".into(),
        model: "fake".into(),
    });
    prompt.text("the beginning\n");
    zsh.wait_text("the beginning");
    drop(prompt);
    zsh.prompt();
    let screen = zsh.screen();
    assert!(
        screen.contains("show the rest with: llm --attach 1a2b3c4d"),
        "{screen}"
    );
    assert!(screen.contains("code=1"), "{screen}");
}

#[test]
fn notices_and_closed_questions_break_between_words() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    zsh.run("stty cols 50");
    let mut prompt = following(&zsh, &daemon, "aish-helper attach");
    zsh.wait_text("only leaves it");
    prompt.event(&Event::ApprovalRequested(Box::new(question("{}"))));
    zsh.wait_text(KEYS);
    let before = zsh.raw().len();
    prompt.event(&closed(None, QuestionOutcome::Denied));
    zsh.wait_text("answered in another terminal: denied");
    let raw = String::from_utf8_lossy(&zsh.raw()[before..]).into_owned();
    assert!(
        raw.contains("\r\nanswered in another terminal: denied\r\n"),
        "{raw:?}"
    );
    prompt.reply("stop");
    zsh.prompt();
    let raw = String::from_utf8_lossy(&zsh.raw()).into_owned();
    let notice = raw.split("[aish] ").nth(1).expect("a notice");
    let lines: Vec<&str> = notice.split("\r\n").take(3).collect();
    assert!(
        lines.iter().all(|line| line.chars().count() <= 50),
        "{lines:?}"
    );
    assert!(notice.contains("“why so”;\r\nCtrl-C stops"), "{notice:?}");
}

#[test]
fn a_background_prompt_returns_at_once() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    zsh.send("aish-helper ask --background why so\r");
    let mut prompt = daemon.prompt();
    assert!(prompt.ask.background && !prompt.ask.can_answer);
    assert_eq!(prompt.ask.text, "why so");
    prompt.accept();
    zsh.prompt();
    assert!(
        zsh.screen().contains(
            "\nsession 1a2b3c4d: the answer continues in the background; llm :attach 1a2b3c4d shows it\n<2>"
        ),
        "{}",
        zsh.screen()
    );
    zsh.send("aish-helper ask --background --json why\r");
    daemon.prompt().accept();
    zsh.prompt();
    assert!(
        zsh.screen()
            .contains("{\"session\":\"2026-session-1a2b3c4d\",\"prompt_id\":\"p\"}"),
        "{}",
        zsh.screen()
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_stopped_client_shows_the_rest_when_it_continues() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let tty = zsh.eval("print -rn -- $TTY");
    zsh.send("aish-helper ask --raw x\r");
    let mut prompt = daemon.prompt();
    prompt.text("one ");
    zsh.wait_text("one");
    zsh.send("\x1a");
    zsh.wait_text("suspended");
    zsh.prompt();
    // Much more than a socket buffer holds is the daemon's concern; this fits.
    prompt.text("two\n");
    assert_eq!(zsh.eval("stty -a | grep -o ' echo '"), " echo \n");
    zsh.send("fg\r");
    zsh.wait_text("two");
    // Nothing has come for a while, so the spinner shows again, and keys are not echoed.
    zsh.wait_text("⠙");
    let modes = std::process::Command::new("stty")
        .args(["-a", "-F", &tty])
        .output()
        .expect("stty");
    let modes = String::from_utf8_lossy(&modes.stdout).into_owned();
    assert!(modes.contains(" -echo "), "{modes}");
    prompt.text("three\n");
    prompt.reply("stop");
    zsh.prompt();
    let screen = zsh.screen();
    assert!(screen.contains("\ntwo\nthree\n"), "{screen}");
    assert_eq!(zsh.eval("stty -a | grep -o ' echo '"), " echo \n");
}
