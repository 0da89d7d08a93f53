//! Recordings by the relay: a real zsh in a real terminal.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use aish::recording::event::{GapReason, RecordingEvent, RecordingLine, RecordingStart};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::helper::Helper;
use crate::support::home::{Home, helper, source_plugin};
use crate::support::pty::{RECORD, Zsh};

/// A recording as its files say.
#[derive(Debug)]
pub struct Recorded {
    pub dir: PathBuf,
    pub start: RecordingStart,
    pub lines: Vec<RecordingLine>,
    pub output: Vec<u8>,
}

impl Recorded {
    /// Reads the only recording of a home.
    pub fn only(home: &Home) -> Recorded {
        let dirs = recordings(&home.path("aish/data/recordings"));
        assert_eq!(dirs.len(), 1, "{dirs:?}");
        Recorded::read(&dirs[0])
    }

    /// Reads and checks a recording.
    pub fn read(dir: &Path) -> Recorded {
        let output = fs::read(dir.join("output")).expect("the output");
        let text = fs::read_to_string(dir.join("events.jsonl")).expect("the events");
        assert!(text.ends_with('\n'), "{text}");
        let lines = text.lines().map(serde_json::from_str);
        let mut lines: Vec<RecordingLine> = lines.map(|line| line.expect(&text)).collect();
        let RecordingEvent::Start(start) = lines.remove(0).event else {
            panic!("no start: {text}")
        };
        // Read independently of the writer: each byte belongs to one event, in order.
        let (mut offset, mut us) = (0, 0);
        for line in &lines {
            assert_eq!(line.offset, offset, "{line:?} in {text}");
            assert!(line.us >= us, "{text}");
            us = line.us;
            if let RecordingEvent::Output { bytes } = line.event {
                assert!(bytes > 0);
                offset += bytes;
            }
        }
        assert_eq!(output.len() as u64, offset, "{text}");
        Recorded {
            dir: dir.to_owned(),
            start,
            lines,
            output,
        }
    }

    pub fn events(&self) -> impl Iterator<Item = &RecordingEvent> {
        self.lines.iter().map(|line| &line.event)
    }

    pub fn gaps(&self) -> Vec<(GapReason, u64)> {
        let gaps = self.events().filter_map(|event| match event {
            RecordingEvent::Gap { reason, bytes } => Some((*reason, *bytes)),
            _ => None,
        });
        gaps.collect()
    }

    /// Text of each command with its exit code.
    pub fn commands(&self) -> Vec<(Option<String>, i32)> {
        let mut commands = Vec::new();
        let mut running = None;
        for event in self.events() {
            match event {
                RecordingEvent::CommandStart { command_id, text } => {
                    running = Some((command_id.clone(), text.clone()));
                }
                RecordingEvent::CommandEnd { command_id, exit } => {
                    let (id, text) = running.take().expect("a command");
                    assert_eq!(id, *command_id);
                    commands.push((text, *exit));
                }
                _ => {}
            }
        }
        commands
    }

    /// Output between the start and the end of a command.
    pub fn output_of(&self, command: &str) -> String {
        let is_start = |line: &&RecordingLine| matches!(&line.event, RecordingEvent::CommandStart { text, .. } if text.as_deref() == Some(command));
        let start = self.lines.iter().find(is_start).expect(command);
        let is_end = |line: &&RecordingLine| {
            line.us >= start.us && matches!(line.event, RecordingEvent::CommandEnd { .. })
        };
        let end = self.lines.iter().find(is_end).expect("an end");
        let at = |line: &RecordingLine| usize::try_from(line.offset).expect("an offset");
        String::from_utf8_lossy(&self.output[at(start)..at(end)]).into_owned()
    }

    /// Whether any file of the recording contains these bytes.
    pub fn contains(&self, text: &str) -> bool {
        ["output", "events.jsonl"].iter().any(|file| {
            let bytes = fs::read(self.dir.join(file)).expect("a file");
            has(&bytes, text)
        })
    }
}

/// Directories of the recordings, oldest first.
pub fn recordings(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let mut dirs: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    dirs.sort();
    dirs
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

pub fn command(text: &str, exit: i32) -> (Option<String>, i32) {
    (Some(text.to_owned()), exit)
}

#[test]
fn the_output_is_what_the_terminal_got_and_marks_are_nowhere() {
    let home = Home::with_stub(":");
    fs::remove_file(home.path("bin/aish-helper")).expect("the stub");
    std::os::unix::fs::symlink(crate::support::home::helper(), home.path("bin/aish-helper"))
        .expect("the helper");
    let mut zsh = Zsh::record(&home);
    let nonce = zsh.eval("print -rn -- ${${_aish[marks]#*;}%;}");
    assert_eq!(nonce.len(), 32, "{nonce:?}");
    // Neither a program nor its environment knows the nonce, and no descriptor is left open.
    let seen = zsh.eval(
        "cat /proc/$$/environ; env; typeset -x; ls -l /proc/self/fd; set | grep -av '^_aish='",
    );
    assert!(!seen.contains(&nonce), "{seen}");
    assert!(!zsh.eval("print -r -- ${AISH_MARKS_FD-unset}").contains(':'));
    zsh.run("print one; (exit 3)");
    zsh.run("printf '\\e]7717;0000;prompt\\e\\\\forged\\n'");
    zsh.run("for i in 1 2\rdo print $i%\rdone");
    // The lines of the loop have no prompts of their own to wait for.
    zsh.run("seq 20000 | tail -n 15000");
    zsh.send("exit 7\r");
    let (code, raw) = zsh.wait();
    assert_eq!(code, Some(7));

    let recorded = Recorded::only(&home);
    let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode(&recorded.dir), 0o700);
    for file in ["output", "events.jsonl"] {
        assert_eq!(mode(&recorded.dir.join(file)), 0o600);
    }
    assert_eq!(recorded.gaps(), []);
    // The recorder itself prints a line before, and one after.
    let text = String::from_utf8_lossy(&raw);
    let (first, _) = text.split_once("\r\n").expect("a line");
    assert!(first.contains("is recorded in "), "{first}");
    let own = raw.len() - first.len() - 2 - recorded.output.len();
    assert!(
        raw[first.len() + 2..].starts_with(&recorded.output) && own < 200,
        "{} and {}",
        raw.len(),
        recorded.output.len()
    );
    assert!(!recorded.contains(&nonce));
    assert!(
        recorded
            .output_of("printf '\\e]7717;0000;prompt\\e\\\\forged\\n'")
            .starts_with("\x1b]7717;0000;prompt\x1b\\forged\r\n")
    );
    assert!(
        recorded
            .output_of("print one; (exit 3)")
            .starts_with("one\r\n")
    );
    assert!(
        recorded
            .output_of("for i in 1 2\ndo print $i%\ndone")
            .starts_with("1%\r\n2%\r\n")
    );
    let commands = recorded.commands();
    assert!(
        commands.contains(&command("print one; (exit 3)", 3)),
        "{commands:?}"
    );
    assert!(matches!(
        recorded.events().last(),
        Some(RecordingEvent::End { exit: Some(7) })
    ));
    assert_eq!(
        recorded.start.command.as_deref(),
        Some(
            &RECORD[2..]
                .iter()
                .map(|s| (*s).to_owned())
                .collect::<Vec<_>>()[..]
        )
    );
    assert_eq!((recorded.start.cols, recorded.start.rows), (120, 50));
}

#[test]
fn a_command_has_the_id_that_the_journal_knows() {
    let helper = Helper::saying("x");
    let mut zsh = Zsh::record(&helper.home);
    helper.call(["start"]).run().ok();
    zsh.run("true");
    zsh.run("print -r -- 50% $((1 + 1))");
    zsh.run("true");
    let shells = helper.path("data/journal/shells.jsonl");
    helper.until("the command is in the journal", || {
        fs::read_to_string(&shells)
            .unwrap_or_default()
            .contains("50%")
    });
    zsh.exit();
    let recorded = Recorded::only(&helper.home);
    let id = recorded.events().find_map(|event| match event {
        RecordingEvent::CommandStart { command_id, text } if text.as_ref()?.contains("50%") => {
            Some(command_id.clone())
        }
        _ => None,
    });
    let id = id.expect("the command");
    let journal = fs::read_to_string(&shells).expect("the journal");
    assert!(
        journal.contains(&format!("\"command\":\"{id}\"")),
        "{id} in {journal}"
    );
}

#[test]
fn a_shell_inside_gets_the_nonce_with_its_first_command() {
    let home = Home::new();
    let mut zsh = Zsh::record(&home);
    zsh.send("zsh -d -i\r");
    zsh.wait_for("the prompt of the inner shell", |screen| {
        screen.contents().matches("<1>").count() == 2
    });
    zsh.send("print -r -- in''ner; exit 5\r");
    zsh.wait_text("inner\n");
    zsh.prompt();
    zsh.exit();
    let recorded = Recorded::only(&home);
    assert!(has(&recorded.output, "inner\r\n"));
    let mut outer = None;
    let ended = recorded.events().find_map(|event| match event {
        RecordingEvent::CommandStart { command_id, text } => {
            if text.as_deref() == Some("zsh -d -i") {
                outer = Some(command_id.clone());
            }
            None
        }
        RecordingEvent::CommandEnd { command_id, exit } => {
            (outer.as_ref() == Some(command_id)).then_some(*exit)
        }
        _ => None,
    });
    assert_eq!(ended, Some(5), "the command that started the inner shell");
}

#[test]
fn a_password_prompt_leaves_a_gap() {
    let home = Home::new();
    nix::unistd::mkfifo(&home.path("gate"), nix::sys::stat::Mode::S_IRWXU).expect("a gate");
    let mut zsh = Zsh::record(&home);
    zsh.send(
        // The line itself does not contain what the screen is searched for. At `ready` the relay has seen the echo on.
        "sh -c 'echo re${x}ady; read x <gate; echo be${x}fore; stty -echo; echo ask${x}ed; read x; echo got $x; read y; stty echo; echo shown'\r",
    );
    zsh.wait_text("ready");
    fs::write(home.path("gate"), "\n").expect("the gate");
    zsh.wait_text("before\nasked");
    zsh.send("hunter2\r");
    zsh.wait_text("got hunter2");
    zsh.send("\r");
    zsh.prompt();
    zsh.exit();
    let recorded = Recorded::only(&home);
    assert!(!recorded.contains("hunter2"));
    // `got hunter2`; its line end stays. `asked` was printed before anything was typed.
    let gap: u64 = recorded.gaps().iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(gap, 11, "{:?}", recorded.gaps());
    assert!(recorded.contains("asked"));
    assert!(
        recorded
            .gaps()
            .iter()
            .all(|(reason, _)| *reason == GapReason::EchoOff)
    );
    assert!(recorded.contains("before\r\n") && recorded.contains("\r\nshown\r\n"));
}

#[test]
fn what_follows_a_password_prompt_has_its_own_line() {
    let home = Home::new();
    let mut zsh = Zsh::record(&home);
    // As getpass(3) does: prompt and line end are printed while the echo is off.
    let line =
        "sh -c 'stty -echo; printf pass; printf \"word: \"; read x; echo; stty echo; echo shown'";
    zsh.send(format!("{line}\r"));
    zsh.wait_text("password: ");
    zsh.send("hunter2\r");
    zsh.wait_text("shown");
    zsh.prompt();
    zsh.exit();
    let recorded = Recorded::only(&home);
    assert!(!recorded.contains("hunter2"));
    let output = recorded.output_of(line);
    assert!(output.contains("\r\nshown\r\n"), "{output:?}");
}

#[test]
fn a_command_that_the_history_forgets_leaves_a_gap() {
    let home = Home::new();
    home.zshrc(&format!("setopt hist_ignore_space\n{}", source_plugin()));
    let mut zsh = Zsh::record(&home);
    zsh.run("print before");
    zsh.run(" print hunter$((1 + 1))");
    zsh.run("print after");
    zsh.exit();
    let recorded = Recorded::only(&home);
    for secret in ["hunter2", "hunter$"] {
        assert!(!recorded.contains(secret), "{secret}");
    }
    let commands = [
        command("print before", 0),
        (None, 0),
        command("print after", 0),
    ];
    assert_eq!(recorded.commands(), commands);
    assert!(
        matches!(recorded.gaps()[..], [(GapReason::NotInHistory, bytes)] if bytes > 30),
        "{:?}",
        recorded.gaps()
    );
    assert!(recorded.output_of("print after").starts_with("after\r\n"));
}

#[test]
fn sizes_and_the_alternate_screen_are_recorded() {
    let home = Home::new();
    let mut zsh = Zsh::record(&home);
    zsh.resize(40, 100);
    zsh.run("while [[ $(stty size) != '40 100' ]] { }");
    zsh.run("printf '\\e[?1049'; sleep 0.05; printf 'hfull\\e[?1049lback\\n'");
    zsh.exit();
    let recorded = Recorded::only(&home);
    let resized = |event: &RecordingEvent| {
        matches!(
            event,
            RecordingEvent::Resize {
                cols: 100,
                rows: 40
            }
        )
    };
    assert_eq!(recorded.events().filter(|e| resized(e)).count(), 1);
    let changes: Vec<(String, bool)> = recorded
        .lines
        .iter()
        .filter_map(|line| match line.event {
            RecordingEvent::AlternateScreen { on } => {
                let end = usize::try_from(line.offset).expect("an offset");
                let before = &recorded.output[end - 8..end];
                Some((String::from_utf8_lossy(before).into_owned(), on))
            }
            _ => None,
        })
        .collect();
    let expected = [
        ("\x1b[?1049h".to_owned(), true),
        ("\x1b[?1049l".to_owned(), false),
    ];
    assert_eq!(changes, expected);
}

#[test]
fn a_killed_daemon_changes_nothing() {
    let helper = Helper::saying("x");
    helper.call(["start"]).run().ok();
    let mut zsh = Zsh::record(&helper.home);
    zsh.run("print one");
    helper.kill_daemon();
    zsh.run("print two");
    zsh.exit();
    let recorded = Recorded::only(&helper.home);
    assert_eq!(
        recorded.commands()[..2],
        [command("print one", 0), command("print two", 0)]
    );
    assert_eq!(recorded.gaps(), []);
}

#[test]
fn exit_codes_modes_and_environment_are_those_of_the_command() {
    let home = Home::new();
    let mut zsh = Zsh::start(&home);
    zsh.run("before=$(stty -g)");
    for (command, code) in [
        ("sh -c 'stty raw -echo; exit 7'", "7"),
        ("sh -c 'kill -TERM $$'", "143"),
        ("sh -c 'kill -KILL $$'", "137"),
        ("no-such-program", "127"),
        ("/etc/passwd", "126"),
        ("true", "0"),
    ] {
        zsh.run(&format!("aish-helper record -- {command}; code=$?"));
        assert_eq!(
            zsh.eval("print -r -- $code"),
            format!("{code}\n"),
            "{command}"
        );
    }
    assert_eq!(
        zsh.eval("[[ $(stty -g) == $before ]] && print same"),
        "same\n"
    );
    // Both start no recording.
    let screen = zsh.screen();
    assert!(screen.contains("aish: cannot run no-such-program"));
    assert!(screen.contains("[aish] the output of this command, not your input, is recorded in "));
    let last = recordings(&home.path("aish/data/recordings"));
    let last = last
        .iter()
        .max()
        .expect("a recording")
        .display()
        .to_string();
    let id = &last[last.len() - 8..];
    assert!(
        screen.contains(&format!("recorded as {id} (0:0"))
            && screen.contains(&format!("aish-helper replay {id} plays it")),
        "{screen}"
    );
    assert_eq!(recordings(&home.path("aish/data/recordings")).len(), 4);
    zsh.run("umask 027; exec 7>$HOME/seven; X=y aish-helper record -- sh -c 'umask; echo $X; echo to seven >&7; tty -s && stty size' >&1");
    zsh.wait_text("0027");
    zsh.wait_text("50 120");
    assert_eq!(home.read("seven"), "to seven\n");
    zsh.exit();
}

#[test]
fn a_recorded_shell_is_not_recorded_again() {
    let home = Home::new();
    let mut zsh = Zsh::record(&home);
    zsh.run("aish-helper status");
    let id = recordings(&home.path("aish/data/recordings"))[0].clone();
    let id = id.file_name().expect("an id").to_string_lossy();
    let id = id.rsplit('-').next().expect("an id")[4..].to_owned();
    zsh.wait_text(&format!("recording this terminal is recorded: {id}"));
    zsh.run("aish-helper record -- true; code=$?");
    zsh.wait_text(&format!("this shell is already recorded: {id}"));
    assert_eq!(zsh.eval("print -r -- $code"), "2\n");
    // An installation without the plugin says only that.
    let apart = home.path("apart/bin/aish-helper");
    fs::create_dir_all(home.path("apart/bin")).expect("a directory");
    if fs::hard_link(helper(), &apart).is_err() {
        fs::copy(helper(), &apart).expect("a copy");
    }
    let refused = zsh.eval("apart/bin/aish-helper record 2>&1");
    assert!(
        refused.starts_with("aish: this shell is already recorded")
            && refused.contains("exit ends that recording"),
        "{refused}"
    );
    // Another terminal with the same variable, as in a multiplexer.
    zsh.run("script -qec 'aish-helper record -- true' /dev/null; code=$?");
    assert_eq!(zsh.eval("print -r -- $code"), "0\n");
    zsh.exit();
    assert_eq!(recordings(&home.path("aish/data/recordings")).len(), 2);
}

#[test]
fn without_a_recording_the_shell_starts_all_the_same() {
    let home = Home::new();
    fs::create_dir_all(home.path("aish/data")).expect("data");
    fs::write(home.path("aish/data/recordings"), "").expect("a file in the way");
    let mut zsh = Zsh::record(&home);
    zsh.wait_text("aish: not recorded: cannot create");
    assert_eq!(
        zsh.eval("print -r -- $((6 * 7)) ${#_aish[marks]}"),
        "42 0\n"
    );
    // No process stays between.
    assert_eq!(zsh.eval("print -r -- $$"), format!("{}\n", zsh.pid()));
    zsh.exit();
}

#[test]
fn a_closed_terminal_ends_the_shell_and_the_recording() {
    let helper = Helper::saying("x");
    let home = &helper.home;
    let mut zsh = Zsh::record(home);
    let pid: i32 = zsh.eval("print -r -- $$").trim().parse().expect("a pid");
    zsh.send("print half-typed-secret");
    zsh.wait_text("half-typed-secret");
    let relay = Pid::from_raw(i32::try_from(zsh.pid()).expect("a pid"));
    kill(relay, Signal::SIGHUP).expect("the relay lives");
    let (code, _) = zsh.wait();
    assert_eq!(code, Some(129));
    helper.until("the shell has ended", || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z")
    });
    let recorded = Recorded::only(home);
    assert!(matches!(
        recorded.events().last(),
        Some(RecordingEvent::End { exit: None })
    ));
    assert!(!recorded.contains("half-typed-secret"));
}

/// A file size limit in place of a full disk, which `full_disk` has where the system permits.
#[test]
fn a_disk_that_cannot_be_written_leaves_a_counted_gap() {
    let home = Home::new();
    let mut zsh = Zsh::record(&home);
    let limit = |bytes: &str| {
        let status = std::process::Command::new("prlimit")
            .args([
                format!("--pid={}", zsh.pid()),
                format!("--fsize={bytes}:unlimited"),
            ])
            .status();
        assert!(status.expect("prlimit").success());
    };
    limit("5000");
    // 8,000 bytes with CR and LF.
    zsh.send("repeat 800 { print 12345678 }\r");
    zsh.wait_text("<2>");
    limit("unlimited");
    zsh.prompt();
    zsh.run("print after");
    zsh.exit();
    let recorded = Recorded::only(&home);
    let gaps = recorded.gaps();
    assert!(
        gaps.iter()
            .all(|(reason, _)| *reason == GapReason::DiskFull),
        "{gaps:?}"
    );
    let bytes: u64 = gaps.iter().map(|(_, bytes)| bytes).sum();
    assert!((3000..9000).contains(&bytes), "{gaps:?}");
    // What the shell said meanwhile is kept.
    assert!(
        recorded
            .commands()
            .contains(&command("repeat 800 { print 12345678 }", 0))
    );
    assert!(recorded.output.len() < 6000, "{}", recorded.output.len());
    assert!(recorded.output_of("print after").starts_with("after\r\n"));
}
