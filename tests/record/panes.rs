//! Recordings of panes of a real tmux.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use aish::recording::event::{GapReason, RecordingEvent, RecordingSource};
use aish::recording::list::is_being_written;
use nix::sys::signal::{Signal, kill};

use super::recording::{Recorded, command, recordings};
use crate::support::helper::Helper;
use crate::support::home::source_plugin;

/// A server of tmux with one pane.
struct Tmux<'a> {
    helper: &'a Helper,
    aish_home: PathBuf,
}

impl<'a> Tmux<'a> {
    /// Starts a daemon that records panes, and a server whose pane runs `program`.
    fn start(helper: &'a Helper, program: &str) -> Tmux<'a> {
        Tmux::with_home(helper, &helper.path("."), program)
    }

    fn with_home(helper: &'a Helper, aish_home: &Path, program: &str) -> Tmux<'a> {
        helper
            .home
            .zshrc(&format!("setopt hist_ignore_space\n{}", source_plugin()));
        // Tells when the daemon's command has run.
        helper.home.program(
            "tmux",
            "#!/bin/sh\n/usr/bin/tmux \"$@\"\ncode=$?\necho $code >>\"$HOME/tmux-calls\"\nexit $code\n",
        );
        let tmux = Tmux {
            helper,
            aish_home: aish_home.to_owned(),
        };
        let start = helper.call(["start"]).env("AISH_HOME", &tmux.aish_home);
        start.run().ok();
        tmux.run(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "100",
            "-y",
            "30",
            program,
        ]);
        tmux
    }

    fn output(&self, args: &[&str]) -> Output {
        let output = Command::new("/usr/bin/tmux")
            .arg("-S")
            .arg(self.helper.home.path("tmux"))
            .args(args)
            .env_clear()
            .envs(self.helper.home.env())
            .env("AISH_HOME", &self.aish_home)
            .current_dir(self.helper.home.path(""))
            .output();
        output.expect("tmux is installed")
    }

    fn run(&self, args: &[&str]) -> String {
        let output = self.output(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn type_line(&self, line: &str) {
        self.run(&["send-keys", "-t", "0", "-l", line]);
        self.run(&["send-keys", "-t", "0", "Enter"]);
    }

    /// Waits until the screen shows the text.
    fn wait_text(&self, text: &str) {
        self.helper
            .until(&format!("{text:?} is on the screen"), || {
                self.run(&["capture-pane", "-p", "-t", "0"]).contains(text)
            });
    }

    /// Waits until the recorder has left the nonce for the shell. Returns the recording.
    fn wait_recorder(&self) -> PathBuf {
        let notices = self.aish_home.join("run/notices");
        self.helper.until("the recorder is ready", || {
            fs::read_dir(&notices).is_ok_and(|mut files| files.next().is_some())
        });
        let dirs = self.recordings();
        assert_eq!(dirs.len(), 1);
        dirs[0].clone()
    }

    fn recordings(&self) -> Vec<PathBuf> {
        recordings(&self.aish_home.join("data/recordings"))
    }

    /// Waits until the recording is complete.
    fn read(&self, dir: &Path) -> Recorded {
        self.helper
            .until("the recording has ended", || !is_being_written(dir));
        Recorded::read(dir)
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{:?}", self.output(&["capture-pane", "-p", "-t", "0"]));
        }
        self.output(&["kill-server"]);
    }
}

/// Process id of the recorder of this process's home.
fn recorder(home: &Path) -> u32 {
    let home = home.to_string_lossy();
    let is_recorder = |pid: &u32| {
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.contains("\0record-pane\0") && command.contains(&*home)
    };
    let names = fs::read_dir("/proc").expect("/proc").flatten();
    let mut pids = names.filter_map(|name| name.file_name().to_str()?.parse().ok());
    pids.find(is_recorder).expect("a recorder")
}

/// Number of bytes that a process has read.
fn bytes_read(pid: u32) -> u64 {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).expect("the recorder lives");
    let read = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    read.expect("a number").parse().expect("a number")
}

#[test]
fn a_pane_is_recorded_with_its_commands_and_without_the_daemon() {
    let helper = Helper::saying("x");
    helper.config("[record]\npanes = \"tmux\"\n");
    let tmux = Tmux::start(&helper, "zsh -d -i");
    tmux.wait_text("<1>");
    let dir = tmux.wait_recorder();
    tmux.type_line("print o''ne");
    tmux.wait_text("<2>");
    tmux.type_line(" print hunter$((1 + 1))");
    tmux.wait_text("<3>");
    helper.kill_daemon();
    tmux.run(&["resize-window", "-x", "90", "-y", "25"]);
    let pid = recorder(&helper.home.path(""));
    let before = bytes_read(pid);
    // Much output after the password, by which the test sees that the recorder has the password.
    let sh = "sh -c 'stty -echo; echo ask${x}ed; read x; echo $x; seq 20000; read y; stty echo'";
    tmux.type_line(sh);
    tmux.wait_text("asked");
    tmux.type_line("hunter2");
    // All of it: what the recorder reads once the echo is on again is recorded.
    helper.until("the recorder has the output", || {
        bytes_read(pid) - before > 128_000
    });
    tmux.type_line("");
    tmux.wait_text("<4>");
    tmux.type_line("print t''wo");
    tmux.wait_text("<5>");
    let screen = tmux.run(&["capture-pane", "-p", "-S", "-", "-t", "0"]);
    assert!(!screen.contains("7717"), "{screen}");
    tmux.type_line("exit 3");
    let recorded = tmux.read(&dir);
    assert_eq!(
        recorded.commands(),
        [
            command("print o''ne", 0),
            (None, 0),
            command(sh, 0),
            command("print t''wo", 0)
        ]
    );
    assert!(recorded.output_of("print o''ne").starts_with("one\r\n"));
    assert!(!recorded.contains("hunter") && !recorded.contains("7717"));
    let reasons: Vec<GapReason> = recorded.gaps().iter().map(|(reason, _)| *reason).collect();
    // The first prompt, the forgotten command, the password.
    assert_eq!(reasons[..2], [GapReason::NotInHistory; 2]);
    assert!(
        reasons[2..]
            .iter()
            .all(|reason| *reason == GapReason::EchoOff)
            && reasons.len() > 2
    );
    assert_eq!((recorded.start.cols, recorded.start.rows), (100, 30));
    assert_eq!(recorded.start.source, RecordingSource::Tmux);
    assert!(!recorded.start.term.is_empty() && recorded.start.shell.is_some());
    let resized = |event: &RecordingEvent| *event == RecordingEvent::Resize { cols: 90, rows: 25 };
    assert_eq!(recorded.events().filter(|event| resized(event)).count(), 1);
    assert_eq!(
        recorded.events().last(),
        Some(&RecordingEvent::End { exit: None })
    );
}

#[test]
fn a_pipe_of_the_user_stays() {
    let helper = Helper::saying("x");
    helper.config("[record]\npanes = \"tmux\"\n");
    let tmux = Tmux::start(&helper, "sh");
    tmux.run(&["pipe-pane", "-t", "0", "cat >>mine"]);
    tmux.type_line("exec zsh -d -i");
    tmux.wait_text("<1>");
    helper.until("the daemon has asked tmux", || {
        helper.home.read("tmux-calls") == "0\n"
    });
    tmux.type_line("print mi''ne");
    tmux.wait_text("<2>");
    helper.until("the user's program has the output", || {
        helper.home.read("mine").contains("mine\r\n")
    });
    assert_eq!(tmux.recordings(), Vec::<PathBuf>::new());
}

#[test]
fn a_pipe_that_the_user_opens_later_stays() {
    let helper = Helper::saying("x");
    helper.config("[record]\npanes = \"tmux\"\n");
    let tmux = Tmux::start(&helper, "zsh -d -i");
    tmux.wait_text("<1>");
    let dir = tmux.wait_recorder();
    tmux.type_line("print o''ne");
    tmux.wait_text("<2>");
    // tmux closes the pipe of the recorder for it.
    tmux.run(&["pipe-pane", "-t", "0", "cat >>mine"]);
    let recorded = tmux.read(&dir);
    assert_eq!(recorded.commands(), [command("print o''ne", 0)]);
    // One prompt later the shell knows that nobody takes its marks out of the output.
    let notices = helper.path("run/notices");
    helper.until("the recorder has told the shell", || {
        fs::read_dir(&notices).is_ok_and(|mut files| files.next().is_some())
    });
    tmux.type_line("true");
    tmux.wait_text("<3>");
    tmux.type_line("print be''hind");
    tmux.wait_text("behind\n<4>");
    helper.until("the user's program has the output", || {
        helper.home.read("mine").contains("behind\r\n")
    });
    let mine = helper.home.read("mine");
    let (_, behind) = mine.split_once("<3>").expect(&mine);
    assert!(!behind.contains("7717"), "{mine:?}");
    // A new shell in the pane greets the daemon, which asks tmux again.
    tmux.type_line("exec zsh -d -i");
    helper.until("the daemon has asked tmux again", || {
        helper.home.read("tmux-calls") == "0\n0\n"
    });
    tmux.type_line("print mi''ne");
    helper.until("the user's program has the output", || {
        helper.home.read("mine").contains("mine\r\n")
    });
    assert_eq!(tmux.recordings(), [dir]);
}

#[test]
fn open_panes_follow_the_configuration() {
    let helper = Helper::saying("x");
    let on = || helper.config("[record]\npanes = \"tmux\"\n");
    let tmux = Tmux::start(&helper, "zsh -d -i");
    tmux.wait_text("<1>");
    on();
    // The end of the command makes the daemon look.
    tmux.type_line("print be''fore");
    let dir = tmux.wait_recorder();
    tmux.wait_text("<2>");
    tmux.type_line("true");
    tmux.wait_text("<3>");
    tmux.type_line("print o''ne");
    tmux.wait_text("<4>");
    helper.config("");
    tmux.type_line("print se''cret");
    tmux.wait_text("secret\n<5>");
    let recorded = tmux.read(&dir);
    assert_eq!(recorded.commands(), [command("print o''ne", 0)]);
    assert!(!recorded.contains("se''cret") && !recorded.contains("secret"));
    // The recorder tells the shell before it ends, and the shell has read that its marks are no longer read.
    helper.until("the recorder has ended", || {
        // tmux notices that the program at the end of a pipe has ended when it has more output for it.
        tmux.type_line("");
        tmux.run(&["display-message", "-p", "-t", "0", "#{pane_pipe}"])
            .trim()
            == "0"
    });
    let notices = helper.path("run/notices");
    helper.until("the recorder has told the shell", || {
        tmux.type_line("");
        let files = fs::read_dir(&notices).expect("a directory");
        files.count() == 0
    });

    // On again, and this time the user has a pipe.
    tmux.run(&["pipe-pane", "-t", "0", "cat >>mine"]);
    let calls = helper.home.read("tmux-calls");
    on();
    tmux.type_line("print mi''ne");
    helper.until("the daemon has asked tmux", || {
        helper.home.read("tmux-calls") != calls
    });
    helper.until("the user's program has the output", || {
        helper.home.read("mine").contains("mine\r\n")
    });
    helper.config("");
    tmux.type_line("print st''ays");
    helper.until("the user's program has the output", || {
        helper.home.read("mine").contains("stays\r\n")
    });
    assert!(!helper.home.read("mine").contains("7717"));
    assert_eq!(tmux.recordings(), [dir]);
}

#[test]
fn a_shell_that_has_replaced_another_one_is_recorded() {
    let helper = Helper::saying("x");
    let on = || helper.config("[record]\npanes = \"tmux\"\n");
    let tmux = Tmux::start(&helper, "zsh -d -i");
    tmux.wait_text("<1>");
    tmux.type_line("true");
    tmux.wait_text("<2>");
    // Several, so that the one that runs is not found by chance.
    for _ in 0..3 {
        tmux.type_line("clear; exec zsh -d -i");
        tmux.wait_text("<1>");
        tmux.type_line("true");
        tmux.wait_text("<2>");
    }
    // With `marks 40.`, the shell has the nonce.
    let until_marks = |shown: &str| {
        helper.until(&format!("the shell says marks {shown}"), || {
            tmux.type_line("clear; print marks ${#_aish[marks]}.");
            let screen = tmux.run(&["capture-pane", "-p", "-t", "0"]);
            screen.contains(&format!("marks {shown}."))
        });
    };
    on();
    until_marks("40");
    let dir = tmux.recordings()[0].clone();
    tmux.type_line("print o''ne");
    tmux.wait_text("one\n");
    // Now one replaces a recorded shell, and gets the nonce from the recorder.
    tmux.type_line("clear; exec zsh -d -i");
    tmux.wait_text("<1>");
    until_marks("40");
    tmux.type_line("print t''wo");
    tmux.wait_text("two\n");
    helper.config("");
    tmux.type_line("print th''ree");
    tmux.wait_text("three\n");
    let recorded = tmux.read(&dir);
    let commands = recorded.commands();
    for wanted in ["print o''ne", "print t''wo"] {
        assert!(commands.contains(&command(wanted, 0)), "{commands:?}");
    }
    assert!(!recorded.contains("three"));
    // The shell that runs now learns that nobody reads its marks.
    until_marks("0");
    on();
    until_marks("40");
    tmux.type_line("print fo''ur");
    tmux.wait_text("four\n");
    tmux.type_line("exit");
    let recorded = tmux.read(&tmux.recordings()[1]);
    assert!(recorded.output_of("print fo''ur").starts_with("four\r\n"));
}

/// Size of the burst, and of the same with CR before each LF: six times what the server of tmux may grow.
const BURST: (u64, u64) = (50_000_000, 50_625_000);
/// Size at which the recording of the burst stops.
const RECORDED: u64 = 4 << 20;

#[test]
fn a_burst_while_the_daemon_is_stopped_holds_up_neither_the_shell_nor_tmux() {
    let helper = Helper::saying("x");
    helper.config(&format!(
        "[record]\npanes = \"tmux\"\nmax_bytes = {RECORDED}\n"
    ));
    let tmux = Tmux::start(&helper, "zsh -d -i");
    tmux.wait_text("<1>");
    let dir = tmux.wait_recorder();
    // 80 bytes a line. The first burst fills the history of the pane.
    let burst = |bytes: u64| format!("yes ${{(l:79::burst :)}} | head -c {bytes}");
    tmux.type_line(&burst(1_000_000));
    tmux.wait_text("<2>");
    let server = tmux.run(&["display-message", "-p", "#{pid}"]);
    let server = server.trim().parse().expect("a process id");
    let daemon = helper.daemon();
    kill(daemon, Signal::SIGSTOP).expect("the daemon lives");
    let before = memory(server, "VmRSS");
    tmux.type_line(&burst(BURST.0));
    tmux.wait_text("<3>");
    let grown = memory(server, "VmHWM").saturating_sub(before);
    // More lines than the FIFO of the daemon holds are not needed here: `zsh::hooks` has them.
    tmux.type_line("print stop''ped");
    tmux.wait_text("stopped\n<4>");
    helper.kill_daemon();
    tmux.type_line("print kill''ed");
    tmux.wait_text("killed\n<5>");
    assert!(grown <= 8192, "the server of tmux has grown by {grown} KiB");
    tmux.type_line("exit");
    let recorded = tmux.read(&dir);
    let size = recorded.output.len() as u64;
    assert!(size <= RECORDED, "{size}");
    let gaps: u64 = recorded.gaps().iter().map(|(_, bytes)| bytes).sum();
    let total = size + gaps;
    let least = BURST.1 + 1_000_000;
    assert!((least..least + 50_000).contains(&total), "{size} + {gaps}");
    let left_out = recorded.gaps().into_iter();
    let left_out = left_out.filter(|(reason, _)| *reason == GapReason::Limit);
    let left_out: u64 = left_out.map(|(_, bytes)| bytes).sum();
    assert!(left_out >= BURST.1 - RECORDED, "{left_out}");
}

/// Memory of a process in KiB.
fn memory(pid: u32, line: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let line = status.lines().find_map(|text| text.strip_prefix(line));
    let digits = line
        .expect("a line")
        .trim_matches([':', ' ', '\t', 'k', 'B']);
    digits.parse().expect("a number")
}

#[test]
fn only_the_terminal_of_the_pane_is_recorded_and_only_if_configured() {
    let helper = Helper::saying("x");
    helper.config("[record]\npanes = \"tmux\"\n");
    // A relay in the pane: the variables are those of the pane, the terminal is another one.
    let tmux = Tmux::start(&helper, "aish-helper record -- zsh -d -i");
    tmux.wait_text("<1>");
    helper.until("the daemon has asked tmux", || {
        helper.home.read("tmux-calls") == "0\n"
    });
    assert_eq!(
        tmux.run(&["display-message", "-p", "-t", "0", "#{pane_pipe}"]),
        "0\n"
    );
    tmux.type_line("print o''ne");
    tmux.wait_text("<2>");
    tmux.type_line("exit");
    let [dir] = &tmux.recordings()[..] else {
        panic!("one recording")
    };
    let recorded = tmux.read(dir);
    assert_eq!(recorded.start.source, RecordingSource::Relay);
    assert_eq!(recorded.commands(), [command("print o''ne", 0)]);
    drop(tmux);

    helper.config("");
    let tmux = Tmux::start(&helper, "zsh -d -i");
    tmux.wait_text("<1>");
    tmux.type_line("print marks ${#_aish[marks]}");
    tmux.wait_text("marks 0");
    assert_eq!(helper.home.read("tmux-calls"), "0\n");
}

#[test]
fn odd_directories_reach_the_recorder() {
    let helper = Helper::saying("x");
    let odd = helper.home.path("it's 50% #{x} \"$y\" `z`");
    fs::create_dir_all(odd.join("config")).expect("a directory");
    fs::create_dir_all(odd.join("state")).expect("a directory");
    fs::write(odd.join("state/context-notice"), "").expect("a marker");
    fs::write(
        odd.join("config/config.toml"),
        "[record]\npanes = \"tmux\"\n",
    )
    .expect("a config");
    let tmux = Tmux::with_home(&helper, &odd, "zsh -d -i");
    tmux.wait_text("<1>");
    let dir = tmux.wait_recorder();
    tmux.type_line("exit");
    assert_eq!(tmux.read(&dir).start.source, RecordingSource::Tmux);
    helper.call(["stop"]).env("AISH_HOME", &odd).run().ok();
}
