//! The hooks: one event per command, no delay at the prompt whatever the state of the daemon.

use std::io::Read;
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::support::events::{Events, make_fifo, open_fifo};
use crate::support::home::{Home, source_plugin};
use crate::support::pty::Zsh;

#[test]
fn a_command_is_reported_with_all_its_fields() {
    let home = Home::with_stub(":");
    home.zshrc(&format!(
        "export VIRTUAL_ENV=/venv SECRET=hush\nAISH_ENV='VIRTUAL_ENV UNSET a[$(touch$IFS$HOME/pwned)]'\n{}",
        source_plugin()
    ));
    let events = Events::listen(&home);
    let mut zsh = Zsh::start(&home);
    let cwd = home.path("").canonicalize().expect("cwd");

    let hello = events.hello();
    assert_eq!(hello.fields.len(), 6);
    assert_eq!(hello.text(1), zsh.pid().to_string());
    assert!(hello.text(2).starts_with("/dev/"), "{hello:?}");
    assert!(hello.text(3).starts_with("5."), "{hello:?}");

    zsh.run("cd / && (exit 7)");
    let cmd = events.cmd();
    assert_eq!(cmd.shell, hello.shell);
    assert_eq!(cmd.seq, hello.seq + 1);
    assert_eq!(cmd.text(1), zsh.pid().to_string());
    assert_eq!(cmd.text(2), hello.text(2));
    let (start, end) = (cmd.text(3), cmd.text(4));
    let (start, end): (f64, f64) = (start.parse().expect("start"), end.parse().expect("end"));
    assert!(start > 1.7e9 && start <= end, "{start} {end}");
    assert_eq!(cmd.text(5), "7");
    assert_eq!(
        std::path::Path::new(&cmd.text(6))
            .canonicalize()
            .expect("cwd"),
        cwd,
        "where it was started, not where it went"
    );
    assert_eq!(cmd.text(7), "VIRTUAL_ENV=/venv");
    assert_eq!(cmd.text(8), "cd / && (exit 7)");

    zsh.run("sh -c 'exit 42'");
    assert_eq!(events.cmd().text(5), "42");
    zsh.run("");
    zsh.run("llm what's up");
    let cmd = events.cmd();
    assert_eq!(
        cmd.text(8),
        "llm what's up",
        "an empty line is not a command; the typed line is reported"
    );
    assert!(!home.path("pwned").exists());
    let pid = zsh.pid().to_string();
    zsh.exit();
    let bye = events.next();
    assert_eq!((bye.text(0), bye.text(1)), ("bye".to_owned(), pid));
}

#[test]
fn the_exit_code_is_still_there_for_the_user() {
    let home = Home::with_stub(":");
    home.zshrc(&format!(
        "theirs() {{ seen+=($?:${{(j.,.)pipestatus}}) }}\nprecmd_functions+=(theirs)\n{}\nlast() {{ seen+=($?) }}\nprecmd_functions+=(last)",
        source_plugin()
    ));
    let mut zsh = Zsh::start(&home);
    zsh.run("seen=()");
    zsh.run("false | (exit 3)");
    assert_eq!(zsh.eval("print -r -- $? $seen"), "3 0:0 0 3:1,3 3\n");
    zsh.run("mkdir -p one/two");
    zsh.run("print -r -- $_ $! >out");
    assert_eq!(home.read("out"), "one/two 0\n");
}

#[test]
fn any_bytes_arrive_as_they_are() {
    let home = Home::with_stub(":");
    let events = Events::listen(&home);
    let mut zsh = Zsh::start(&home);
    events.hello();
    zsh.run("mkdir $'new\\nline' && cd $'new\\nline'");
    events.cmd();
    zsh.run("true one\x16\x0atwo");
    let cmd = events.cmd();
    assert_eq!(cmd.text(8), "true one\ntwo");
    assert!(cmd.text(6).ends_with("/new\nline"), "{cmd:?}");

    // Every byte, valid UTF-8 or not, in several chunks. A keyboard cannot type that, so the hook is called directly.
    let mut long: Vec<u8> = b"true ".to_vec();
    long.extend((0..9000u32).flat_map(|i| {
        let b = (i % 255 + 1) as u8;
        if b.is_ascii_control() || b == b'\'' {
            vec![b'.']
        } else {
            vec![b]
        }
    }));
    std::fs::write(home.path("long"), &long).expect("long");
    zsh.run("cmd=\"$(<~/long)\"");
    events.cmd();
    zsh.run("_aish_preexec \"$cmd\" \"$cmd\" \"$cmd\"; _aish_precmd");
    assert_eq!(events.cmd().fields[8], long);
}

#[test]
fn a_huge_command_is_cut() {
    let home = Home::with_stub(":");
    let events = Events::listen(&home);
    let mut zsh = Zsh::start(&home);
    events.hello();
    zsh.run("cmd=\"true ${(l:50000::é:)}\"");
    events.cmd();
    zsh.run("_aish_preexec \"$cmd\" \"$cmd\" \"$cmd\"; _aish_precmd");
    let cmd = events.cmd();
    let text = &cmd.fields[8];
    assert!(text.len() <= 32768, "{}", text.len());
    assert!(text.starts_with("true éé".as_bytes()));
    assert!(text.ends_with(" …[cut]".as_bytes()));
}

#[test]
fn a_command_with_a_leading_space_is_not_reported() {
    let home = Home::with_stub(":");
    let events = Events::listen(&home);
    let mut zsh = Zsh::start(&home);
    events.hello();
    zsh.run(" true told");
    assert_eq!(
        events.cmd().text(8),
        " true told",
        "only where the user asked for it"
    );
    zsh.run("setopt hist_ignore_space");
    events.cmd();
    zsh.run(" export TOKEN=secret");
    zsh.run("true told again");
    assert_eq!(events.cmd().text(8), "true told again");
}

#[test]
fn fifty_shells_never_mix() {
    let home = Home::with_stub(":");
    let events = Events::listen(&home);
    let text = "x".repeat(9000);
    std::fs::write(
        home.path("many.zsh"),
        format!(
            "setopt no_monitor\nfor i in {{1..50}}; do\n  {{ _aish[id]=shell-$i _aish[seq]=0\n  repeat 4 _aish_send cmd $i {text}; print $i >>sent }} &\ndone\nwait\n"
        ),
    )
    .expect("many.zsh");
    let mut zsh = Zsh::start(&home);
    events.hello();
    zsh.run("source ~/many.zsh");
    assert_eq!(home.read("sent").lines().count(), 50);
    events.mark();
    // Every event that arrives is complete. A full pipe may drop some, but never the first.
    let mut whole = 0;
    loop {
        let event = events.next();
        if event.shell == "mark" {
            break;
        }
        if let Some(n) = event.shell.strip_prefix("shell-") {
            assert_eq!(event.text(1), n);
            assert_eq!(event.text(2), text);
            whole += 1;
        }
    }
    assert!(whole > 0);
}

#[test]
fn the_daemon_is_started_once_if_nobody_reads_the_fifo() {
    let home = Home::with_stub(
        "[[ $1 == start ]] && print -r -- started >>$HOME/starts; mkfifo $HOME/done 2>/dev/null; : >$HOME/done",
    );
    let mut zsh = Zsh::start(&home);
    // Reading the FIFO waits for the stub's end.
    zsh.run("while [[ ! -p done ]]; do :; done; cat done");
    zsh.run("true");
    assert_eq!(home.read("starts"), "started\n");
    assert_eq!(zsh.eval("jobs; print -r -- $!"), "0\n");
}

#[test]
fn a_dead_daemon_is_started_again_with_growing_delays() {
    let home =
        Home::with_stub("[[ $1 == start ]] && print -r -- started >>$HOME/starts && : >$HOME/done");
    // The stub waits until the test reads the FIFO.
    nix::unistd::mkfifo(&home.path("done"), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    let mut zsh = Zsh::start(&home);
    zsh.run("cat done");
    zsh.run("true");
    assert_eq!(home.read("starts"), "started\n");
    assert_eq!(
        zsh.eval("print -r -- $_aish[start_delay] $(( _aish[start_at] > _aish[started] + 9 ))"),
        "20 1\n"
    );
    // As if the delay had passed.
    zsh.run("_aish[start_at]=0");
    zsh.run("cat done");
    zsh.run("true");
    assert_eq!(home.read("starts"), "started\nstarted\n");
    assert_eq!(zsh.eval("print -r -- $_aish[start_delay]"), "40\n");
    zsh.run("_aish[start_at]=0 _aish[start_delay]=600");
    zsh.run("cat done");
    assert_eq!(
        zsh.eval("print -r -- $_aish[start_delay]"),
        "600\n",
        "the delay is bounded"
    );
    // After an hour of service the daemon gets the short delay again.
    zsh.run("(( _aish[started] -= 3601 )); _aish[start_at]=0");
    zsh.run("cat done");
    assert_eq!(zsh.eval("print -r -- $_aish[start_delay]"), "20\n");
}

#[test]
fn a_notice_of_the_daemon_is_printed_once() {
    let home = Home::with_stub(":");
    let events = Events::listen(&home);
    let mut zsh = Zsh::start(&home);
    let shell = events.hello().shell;
    let dir = home.path("aish/run/notices");
    std::fs::create_dir(&dir).expect("the directory");
    std::fs::write(
        dir.join(&shell),
        "0192\tthe answer to “x” is done: llm :attach shows it\x1b]0;x\x07\n0193\t“y” failed\n",
    )
    .expect("a notice");
    zsh.run("");
    let screen = zsh.screen();
    assert!(
        screen.contains("\n[aish] the answer to “x” is done: llm :attach shows it^[]0;x^G\n[aish] “y” failed\n<2>"),
        "{screen}"
    );
    let left = std::fs::read_dir(&dir).expect("the directory").count();
    assert_eq!(left, 0, "printed and removed");
    zsh.run("(exit 3)");
    assert_eq!(zsh.screen().matches("is done").count(), 1);
    // A notice for another shell stays, and the exit code is still the command's.
    std::fs::write(dir.join("1-2"), "for another shell\n").expect("a notice");
    std::fs::write(dir.join(&shell), "second\n").expect("a notice");
    zsh.run("(exit 3)");
    assert_eq!(zsh.eval("print -r -- $?"), "3\n");
    assert!(zsh.screen().contains("\n[aish] second\n"));
    assert!(dir.join("1-2").exists());
}

#[test]
fn without_a_fifo_nothing_is_printed_or_written() {
    let home = Home::with_stub(":");
    let run = home.path("aish/run");
    std::fs::create_dir_all(&run).expect("run");
    for what in ["nothing", "file", "directory", "dangling", "fifo"] {
        let path = run.join("events");
        match what {
            "file" => std::fs::write(&path, "").expect("a file"),
            "directory" => std::fs::create_dir(&path).expect("a directory"),
            "dangling" => std::os::unix::fs::symlink("/nowhere", &path).expect("a link"),
            // Without a reader.
            "fifo" => drop(make_fifo(&home)),
            _ => {}
        }
        let mut zsh = Zsh::start(&home);
        zsh.run("true one");
        zsh.run("true two");
        assert_eq!(zsh.screen(), "<1> true one\n<2> true two\n<3> ", "{what}");
        match what {
            "file" => assert_eq!(std::fs::read(&path).expect("it is"), b"", "{what}"),
            "directory" => std::fs::remove_dir(&path).expect("it is"),
            _ => {}
        }
        if what != "directory" {
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[test]
fn a_reader_that_stopped_reading_costs_only_events() {
    let home = Home::with_stub(":");
    let path = make_fifo(&home);
    // Open but never read, like a daemon under SIGSTOP.
    let mut reader = open_fifo(&path);
    let mut zsh = Zsh::start(&home);
    zsh.run("cmd=\"true ${(l:30000::x:)}\"");
    for _ in 0..6 {
        zsh.run("_aish_preexec \"$cmd\" \"$cmd\" \"$cmd\"; _aish_precmd");
    }
    assert_eq!(
        zsh.eval("print -r -- $_aish[hello]"),
        "\n",
        "the next that listens is greeted anew"
    );
    // The reader continues, and gets a new hello of this shell.
    let mut got = Vec::new();
    let mut buffer = vec![0; 65536];
    while poll(
        &mut [PollFd::new(reader.as_fd(), PollFlags::POLLIN)],
        PollTimeout::ZERO,
    )
    .expect("poll")
        > 0
    {
        let n = reader.read(&mut buffer).expect("read");
        got.extend_from_slice(&buffer[..n]);
    }
    zsh.run("true");
    let n = reader.read(&mut buffer).expect("read");
    assert!(
        String::from_utf8_lossy(&buffer[..n]).contains("hello\0"),
        "greeted anew"
    );
}

#[test]
fn a_listener_that_dies_and_comes_back_is_greeted_again() {
    let home = Home::with_stub(":");
    let events = Events::listen(&home);
    let mut zsh = Zsh::start(&home);
    let first = events.hello();
    drop(events);
    zsh.run("true forgotten");
    zsh.run("true unread");
    std::fs::remove_file(home.path("aish/run/events")).expect("the FIFO");
    let events = Events::listen(&home);
    zsh.run("true kept");
    let again = events.hello();
    assert_eq!(again.shell, first.shell);
    assert_eq!(events.cmd().text(8), "true unread");
    assert_eq!(events.cmd().text(8), "true kept");
}

#[test]
fn ctrl_z_and_background_jobs_behave() {
    let home = Home::with_stub(":");
    let events = Events::listen(&home);
    let mut zsh = Zsh::start(&home);
    events.hello();
    zsh.send("sh -c 'echo started; kill -STOP $$; echo resumed'\r");
    zsh.prompt();
    assert_eq!(events.cmd().text(5), "147");
    zsh.run("fg");
    assert_eq!(events.cmd().text(8), "fg");
    assert!(zsh.screen().contains("resumed"));
}
