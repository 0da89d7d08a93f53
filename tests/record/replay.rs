//! `aish-helper replay` in a real terminal.

use super::recordings::RecordingFixture;
use crate::support::helper::Helper;
use crate::support::home::Home;
use crate::support::pty::Zsh;

const ID: &str = "0193a000-0000-7000-8000-0000000000a1";

/// Three commands, 20 seconds apart, each with output at its start and end.
fn session() -> RecordingFixture {
    let mut recording = RecordingFixture::new(ID, 60, 12);
    for number in 1..=3 {
        recording
            .wait_ms(10_000)
            .command(number, &format!("run {number}"));
        recording
            .wait_ms(100)
            .output(format!("\x1b[32mbegin {number}\x1b[0m\r\n"));
        recording
            .wait_ms(9_900)
            .output(format!("middle {number}\r\n"));
        recording
            .wait_ms(10_000)
            .output(format!("finish {number}\r\n"))
            .command_end(number, 0);
    }
    recording.end(0);
    recording
}

/// Starts zsh and the replay, with a marked line before it.
fn replay<'h>(home: &'h Home, options: &str) -> Zsh<'h> {
    let mut zsh = Zsh::start(home);
    zsh.run("print before-the-replay; stty -a >$HOME/modes-before");
    zsh.send(format!("aish-helper replay {ID} {options}\r"));
    zsh
}

/// Ends zsh after a replay; its terminal must be as before.
fn check_restored(mut zsh: Zsh<'_>, home: &Home) {
    zsh.prompt();
    zsh.run("stty -a >$HOME/modes-after");
    assert_eq!(home.read("modes-before"), home.read("modes-after"));
    zsh.wait_for("a cursor", |screen| !screen.hide_cursor());
    // Lines wrap again: the last word on it counts.
    let raw = zsh.raw();
    let last = |mode: &[u8]| raw.windows(mode.len()).rposition(|part| part == mode);
    assert!(last(b"\x1b[?7h") > last(b"\x1b[?7l"));
    zsh.exit();
}

#[test]
fn a_replay_pauses_seeks_and_steps_and_restores_the_terminal() {
    let home = Home::new();
    session().save(&home.path("aish"));
    let zsh = replay(&home, "--idle 0");
    zsh.wait_text("▶ 0:00 / 1:30");
    zsh.send(" ");
    zsh.wait_text("‖ 0:0");
    // Forward to 5 and 10 seconds: the first command is shown without waiting for it.
    zsh.send("\x1b[C\x1b[C\x1b[C");
    zsh.wait_text("begin 1");
    zsh.wait_text("1/3 $ run 1");
    let screen = zsh.screen();
    assert!(
        !screen.contains("middle 1") && !screen.contains("before-the-replay"),
        "{screen}"
    );
    // Back again: what was drawn later is gone.
    zsh.send("\x1b[D\x1b[D");
    zsh.wait_for("an earlier screen", |s| !s.contents().contains("begin 1"));
    zsh.send("]");
    zsh.wait_text("‖ 0:10 / 1:30");
    zsh.send("]]");
    zsh.wait_text("‖ 1:10 / 1:30");
    zsh.wait_text("3/3 $ run 3");
    zsh.wait_text("finish 2");
    zsh.send("[");
    zsh.wait_text("‖ 0:40 / 1:30");
    zsh.wait_text("2/3 $ run 2");
    zsh.send("++-");
    zsh.wait_text("1.5×");
    // To the end, and one event back from there by tenths.
    zsh.send("9\x1b[C\x1b[C");
    zsh.wait_text("‖ 1:30 / 1:30");
    zsh.wait_text("finish 3");
    zsh.send("q");
    check_restored(zsh, &home);
}

#[test]
fn a_replay_plays_to_its_end_and_leaves_the_last_screen() {
    let home = Home::new();
    session().save(&home.path("aish"));
    let zsh = replay(&home, "--speed 100 --idle 100ms");
    zsh.wait_text("finish 3");
    zsh.wait_for("the screen without the status line", |s| {
        let text = s.contents();
        text.contains("begin 1") && text.contains("finish 3") && !text.contains(" / 1:30")
    });
    check_restored(zsh, &home);
}

#[test]
fn a_replay_begins_at_a_command() {
    let home = Home::new();
    session().save(&home.path("aish"));
    let zsh = replay(&home, "--command 3");
    zsh.wait_text("3/3 $ run 3");
    zsh.wait_text("finish 2");
    zsh.send("\x03");
    check_restored(zsh, &home);
    let mut zsh = Zsh::start(&home);
    let refused = zsh.eval(&format!("aish-helper replay {ID} --command 4 >/dev/tty"));
    assert!(
        refused.contains("no command 4, it has 3 commands"),
        "{refused}"
    );
    zsh.exit();
}

/// Nothing of the output reaches the terminal but what is drawn.
#[test]
fn output_cannot_reach_the_terminal() {
    let home = Home::new();
    let mut recording = RecordingFixture::new(ID, 60, 12);
    let hostile = [
        "\x1b]0;pwned-title\x07",
        "\x1b]52;c;cHduZWQ=\x07",
        "\x1b[c\x1b[6n\x1b[>q\x1b[?1000h\x1b[?2004h\x1b[21t",
        "\x1bP+q544e\x1b\\",
        "\x1b]1337;File=:AAAA\x07\x1b_Gf=24;AAAA\x1b\\",
        "\u{9d}0;pwned-c1\u{9c}",
        "\x1b[?1049h\x1b[?1049l\x1bc\x07\x7f\x0e",
        "\u{202e}reversed\u{202c}",
    ];
    recording
        .output(hostile.concat())
        .output("harmless\r\n")
        .wait_ms(60_000)
        .end(0);
    recording.save(&home.path("aish"));
    let zsh = replay(&home, "");
    let seen = zsh.raw().len();
    zsh.wait_text("harmless");
    zsh.send("q");
    check_restored_after(zsh, &home, |raw| {
        let drawn = String::from_utf8_lossy(&raw[seen..]).into_owned();
        for absent in [
            "pwned",
            "cHduZWQ",
            "\x1b]",
            "\x1b[c",
            "\x1b[6n",
            "\x1bP",
            "\x1b_",
            "\x1b[?1000",
            "\x1bc",
            "\u{202e}",
            "\u{9d}",
            "1337",
            "\x1b[?1049",
        ] {
            assert!(!drawn.contains(absent), "{absent:?} in {drawn:?}");
        }
    });
}

fn check_restored_after(zsh: Zsh<'_>, home: &Home, check: impl FnOnce(&[u8])) {
    zsh.wait_for("the end of the replay", |s| {
        !s.contents().contains(" / 1:00")
    });
    check(&zsh.raw());
    check_restored(zsh, home);
}

#[test]
fn a_larger_recording_is_cropped() {
    let home = Home::new();
    let mut recording = RecordingFixture::new(ID, 200, 100);
    for row in 1..=100 {
        recording.output(format!(
            "\x1b[{row};1Hrow {row} {}{row}-end",
            "x".repeat(130)
        ));
    }
    recording.wait_ms(60_000).end(0);
    recording.save(&home.path("aish"));
    let zsh = replay(&home, "");
    // The last rows, where the cursor is.
    zsh.wait_text("row 100 xxx");
    let screen = zsh.screen();
    assert!(
        screen.contains("row 52 ") && !screen.contains("row 51 "),
        "{screen}"
    );
    assert!(!screen.contains("-end"), "{screen}");
    assert_eq!(screen.lines().count(), 50, "{screen}");
    zsh.send("q");
    check_restored(zsh, &home);
}

#[test]
fn a_replay_can_be_stopped_and_continued() {
    let home = Home::new();
    session().save(&home.path("aish"));
    let mut zsh = replay(&home, "");
    zsh.wait_text(" / 1:30");
    zsh.send("]\x1a");
    zsh.prompt();
    zsh.wait_text("suspended");
    zsh.run("stty -a >$HOME/modes-after");
    assert_eq!(home.read("modes-before"), home.read("modes-after"));
    zsh.send("fg\r");
    zsh.wait_text(" / 1:30");
    zsh.wait_text("1/3 $ run 1");
    zsh.send("q");
    check_restored(zsh, &home);
}

#[test]
fn a_killed_replay_restores_the_terminal() {
    let home = Home::new();
    session().save(&home.path("aish"));
    let zsh = replay(&home, "");
    zsh.wait_text(" / 1:30");
    let pids = std::process::Command::new("pgrep")
        .args(["-P", &zsh.pid().to_string()])
        .output()
        .unwrap();
    let pid: i32 = String::from_utf8(pids.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(pid),
        nix::sys::signal::Signal::SIGTERM,
    )
    .unwrap();
    zsh.wait_text("the replay was ended");
    check_restored(zsh, &home);
}

#[test]
fn without_a_terminal_the_text_is_offered() {
    let helper = Helper::new([]);
    session().save(&helper.path(""));
    let refused = helper.call(["replay", ID]).run().fails(2);
    assert!(refused.contains("--format text"), "{refused}");
    for options in [["--speed", "0"], ["--idle", "soon"], ["--command", "0"]] {
        helper.call(["replay", ID]).args(options).run().fails(2);
    }
}
