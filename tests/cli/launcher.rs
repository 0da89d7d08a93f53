//! The launcher `aish`, with a real tmux, a real zsh and the user's start-up files.

use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use pty_process::blocking::Command as PtyCommand;

use crate::record::recording::Recorded;
use crate::support::PATIENCE;
use crate::support::home::{Home, source_plugin};
use crate::support::pty::Zsh;

/// A home with its own tmux server, which ends with the test.
struct Terminals {
    home: Home,
}

impl Terminals {
    /// Creates a home whose `.zshrc` does not load the plugin.
    fn new() -> Terminals {
        let home = Home::new();
        home.zshrc("");
        std::fs::create_dir(home.path("tmux")).expect("a directory");
        Terminals { home }
    }

    fn env(&self) -> Vec<(&'static str, String)> {
        let mut env = self.home.env();
        env.retain(|(name, _)| *name != "ZDOTDIR");
        env.push(("TMUX_TMPDIR", self.home.path("tmux").display().to_string()));
        env
    }

    /// Prepares `aish` with these arguments.
    fn aish(&self, args: &[&str]) -> PtyCommand {
        PtyCommand::new("aish")
            .args(args)
            .env_clear()
            .envs(self.env())
    }

    /// Starts `aish` in a terminal.
    fn start(&self, args: &[&str]) -> Zsh<'_> {
        Zsh::spawn(&self.home, self.aish(args))
    }

    fn tmux(&self, args: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.args(args).env_clear().envs(self.env());
        let output = command.output().expect("tmux runs");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Names of the sessions, each with the number of its terminals.
    fn sessions(&self) -> String {
        self.tmux(&["list-sessions", "-F", "#{session_name}:#{session_attached}"])
    }

    /// The notice that a shell is recorded, in its rows.
    fn recorded_line(&self) -> String {
        format!(
            "[aish] the output of this shell, not your input, is recorded in {} (off: aish\n  --no-tmux --no-record)",
            self.home.path("aish/data/recordings").display()
        )
    }

    /// Number of recordings.
    fn recordings(&self) -> usize {
        let dir = std::fs::read_dir(self.home.path("aish/data/recordings"));
        dir.map_or(0, Iterator::count)
    }

    /// Waits until the list of sessions is this one; tmux notices a closed terminal later.
    fn until_sessions(&self, wanted: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.sessions() != wanted {
            assert!(Instant::now() < deadline, "{}", self.sessions());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn config(&self, text: &str) {
        let dir = self.home.path("aish/config");
        std::fs::create_dir_all(&dir).expect("a directory");
        std::fs::write(dir.join("config.toml"), text).expect("the config");
    }

    /// Runs `aish` by this name without a terminal.
    fn without_terminal(&self, args: &[&str], name: &str) -> Output {
        let mut command = Command::new(self.home.path("bin/aish"));
        command.arg0(name).args(args).env_clear().envs(self.env());
        command.stdin(Stdio::null()).current_dir(self.home.path(""));
        command.output().expect("aish runs")
    }
}

impl Drop for Terminals {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// Runs a line at the prompt and waits for its output, which must not be part of the line.
fn says(zsh: &Zsh<'_>, line: &str, text: &str) {
    zsh.send(format!("{line}\r"));
    zsh.wait_text(text);
}

/// Checks that the shell has the plugin, and whether it runs in tmux.
fn has_plugin(zsh: &Zsh<'_>, place: &str) {
    says(
        zsh,
        "print -r -- plugin:${(t)_aish}:${TMUX:+tmux}.",
        &format!("plugin:association:{place}."),
    );
}

const PROMPT: &str = "PS1='<1> '\n";

#[test]
fn aish_starts_a_zsh_with_the_plugin_in_a_tmux_session() {
    let terminals = Terminals::new();
    let zsh = terminals.start(&[]);
    zsh.wait_text("<1>");
    has_plugin(&zsh, "tmux");
    assert_eq!(terminals.sessions(), "aish:1\n");
    // The daemon runs, and knows the shell from its first prompt on.
    says(
        &zsh,
        "aish-helper status --json | tr -d ' ' | grep -c '\"shells\":1'; print shown",
        "1\nshown",
    );
    // A later window, too.
    terminals.tmux(&["new-window"]);
    zsh.wait_text("1:zsh*");
    zsh.wait_text("<1>");
    has_plugin(&zsh, "tmux");
}

#[test]
fn start_up_files_are_read_as_without_aish() {
    let terminals = Terminals::new();
    let home = &terminals.home;
    let note = |file: &str| {
        format!(
            "print -r -- {file} ${{ZDOTDIR-unset}} ${{(t)ZDOTDIR-}} ${{HISTFILE-unset}} ${{(%):-%x}} ${{options[login]}} >>$HOME/order\n"
        )
    };
    let last = "env | grep -v -e '^SHLVL=' -e '^_=' -e '^AISH_LAUNCHED=' -e '^AISH_RECORDING=' | sort >>$HOME/order; print -r -- $fpath $- >>$HOME/order\n";
    let dir = home.path("dot files");
    std::fs::create_dir(&dir).expect("a directory");
    for (zshenv, zdotdir) in [
        ("", None),
        ("", Some(dir.display().to_string())),
        ("export ZDOTDIR=\"$HOME/dot files\"\n", None),
        ("ZDOTDIR=\"$HOME/dot files\"\n", None),
        (
            "setopt err_return ksh_arrays no_unset sh_word_split\nfalse\n",
            None,
        ),
        ("return 1\n", None),
    ] {
        for place in [home.path(""), dir.clone()] {
            std::fs::write(place.join(".zshenv"), note("zshenv") + zshenv).expect("a file");
            for name in ["zprofile", "zlogin"] {
                std::fs::write(place.join(format!(".{name}")), note(name)).expect("a file");
            }
            let zshrc = format!(
                "{}setopt no_unset\nunsetopt ksh_arrays\nautoload -Uz compinit\ncompinit -u\nPS1='<1> '\n",
                note("zshrc")
            );
            std::fs::write(place.join(".zshrc"), zshrc).expect("a file");
        }
        for login in [false, true] {
            let run = |program: &str, args: &[&str]| {
                let mut command = PtyCommand::new(program).args(args).env_clear();
                command = command.envs(terminals.env());
                if let Some(dir) = &zdotdir {
                    command = command.env("ZDOTDIR", dir);
                }
                let _ = std::fs::remove_file(home.path("order"));
                let zsh = Zsh::spawn(home, command);
                zsh.wait_text("<1>");
                says(
                    &zsh,
                    &format!("unsetopt err_return; {{ {} }}; print en''d", last.trim()),
                    "end",
                );
                home.read("order")
            };
            let login = login.then_some("-l");
            let plain = run("zsh", login.as_slice());
            let launched = run("aish", &[&["--no-tmux"], login.as_slice()].concat());
            assert!(
                plain.contains("zshrc ") && launched.contains("zshrc "),
                "{plain}\n{launched}"
            );
            let plain: Vec<&str> = plain.lines().collect();
            // By this variable a shell inside knows that it is recorded.
            let is_common = |line: &&str| !line.starts_with("AISH_RECORDED_TTY=");
            let launched: Vec<&str> = launched.lines().filter(is_common).collect();
            // The last line has what the plugin adds.
            assert_eq!(
                plain[..plain.len() - 1],
                launched[..launched.len() - 1],
                "{zshenv} {login:?}"
            );
        }
    }
    let launch = concat!(env!("CARGO_MANIFEST_DIR"), "/zsh/launch");
    let mut files: Vec<_> = std::fs::read_dir(launch)
        .expect("a directory")
        .map(|f| f.expect("a file").file_name())
        .collect();
    files.sort();
    assert_eq!(
        files,
        [".zshenv", "_aish_launch"],
        "nothing was written there"
    );
}

#[test]
fn the_plugin_is_loaded_once_whatever_zshrc_does() {
    let terminals = Terminals::new();
    let home = &terminals.home;
    for text in [
        source_plugin(),
        "precmd_functions=()".to_owned(),
        "precmd() { true }\nunset precmd_functions".to_owned(),
        "setopt ksh_arrays sh_word_split no_unset err_return aliases\nalias builtin=false local=false".to_owned(),
        "emulate sh".to_owned(),
        "print ${nosuch:?is not set}".to_owned(),
        "return 1".to_owned(),
        "unsetopt rcs; cd /".to_owned(),
    ] {
        std::fs::write(home.path(".zshrc"), format!("{PROMPT}{text}\n")).expect(".zshrc");
        let zsh = terminals.start(&["--no-tmux"]);
        zsh.wait_text("<1>");
        says(
            &zsh,
            "emulate zsh; unalias -a; print -r -- count:${#${(M)precmd_functions:#_aish_precmd}}:${+functions[_aish_launch]}:${#zsh_scheduled_events}:${+functions[llm]}.",
            "count:1:0:0:1.",
        );
    }
}

#[test]
fn an_error_in_zshenv_is_shown_and_the_plugin_is_loaded() {
    let terminals = Terminals::new();
    std::fs::write(
        terminals.home.path(".zshenv"),
        "print ${nosuch:?is not set}\n",
    )
    .expect("a file");
    let zsh = terminals.start(&["--no-tmux"]);
    zsh.wait_text("nosuch: is not set");
    has_plugin(&zsh, "");
}

#[test]
fn a_zshrc_that_leaves_zsh_does_so() {
    let terminals = Terminals::new();
    let home = &terminals.home;
    std::fs::write(home.path(".zshrc"), "exec bash --norc --noprofile -i").expect(".zshrc");
    let zsh = terminals.start(&["--no-tmux"]);
    zsh.wait_text("bash-");
    says(
        &zsh,
        "echo $BASH_VERSION | cut -c2; echo ${ZDOTDIR-un}set",
        ".\nunset",
    );
    drop(zsh);
    std::fs::write(home.path(".zshrc"), "exit 7").expect(".zshrc");
    assert_eq!(terminals.start(&["--no-tmux"]).ended(), Some(7));
}

#[test]
fn without_tmux_zsh_runs_in_the_relay() {
    let terminals = Terminals::new();
    let zsh = terminals.start(&["--no-tmux"]);
    zsh.wait_text("<1>");
    let first = zsh.screen();
    assert!(first.starts_with(&terminals.recorded_line()), "{first}");
    // The relay takes the place of `aish`.
    says(&zsh, "print pid:$PPID.", &format!("pid:{}.", zsh.pid()));
    has_plugin(&zsh, "");
    // A call in it.
    says(
        &zsh,
        "aish; print code:$?.",
        "[aish] this shell was started by aish already\ncode:0.",
    );
    assert_eq!(terminals.sessions(), "");
    assert_eq!(terminals.recordings(), 1);
    // Without a recording.
    let zsh = terminals.start(&["--no-tmux", "--no-record"]);
    zsh.wait_text("<1>");
    assert!(zsh.screen().starts_with("<1>"), "{}", zsh.screen());
    has_plugin(&zsh, "");
    assert_eq!(terminals.recordings(), 1);
}

#[test]
fn a_recorded_shell_has_the_plugin_whatever_zshrc_says() {
    for (program, args) in [("aish", &["record"][..]), ("aish-helper", &["record"])] {
        let terminals = Terminals::new();
        let home = &terminals.home;
        std::fs::write(
            home.path(".zshrc"),
            "setopt hist_ignore_space\nPS1='<1> '\n",
        )
        .expect(".zshrc");
        let command = PtyCommand::new(program).args(args).env_clear();
        let zsh = Zsh::spawn(home, command.envs(terminals.env()));
        zsh.wait_text("<1>");
        has_plugin(&zsh, "");
        says(&zsh, " print hid''den", "hidden\n");
        says(&zsh, "print sh''own", "shown\n");
        zsh.send("exit 3\r");
        assert_eq!(zsh.ended(), Some(3));
        let recorded = Recorded::only(home);
        assert!(recorded.contains("shown") && !recorded.contains("hidden"));
        assert_eq!(recorded.start.command, None);
    }
    // A command is run as it is given.
    let terminals = Terminals::new();
    let words = [
        "record",
        "--",
        "zsh",
        "-c",
        "print plugin:${(t)_aish}:$ZDOTDIR:",
    ];
    let zsh = terminals.start(&words);
    zsh.wait_text("plugin:::");
}

#[test]
fn in_a_recorded_terminal_the_shell_is_not_recorded_twice() {
    let terminals = Terminals::new();
    let command = PtyCommand::new("aish-helper").args(["record", "--", "zsh"]);
    let zsh = Zsh::spawn(&terminals.home, command.env_clear().envs(terminals.env()));
    zsh.wait_text("<1>");
    says(
        &zsh,
        "aish --no-tmux",
        "[aish] this terminal is recorded already: ",
    );
    has_plugin(&zsh, "");
    assert_eq!(terminals.recordings(), 1);
}

#[test]
fn a_zshrc_that_replaces_the_shell_by_aish_still_gives_a_zsh() {
    let terminals = Terminals::new();
    std::fs::write(terminals.home.path(".zshrc"), "exec aish --no-tmux").expect(".zshrc");
    let zsh = terminals.start(&["--no-tmux"]);
    zsh.wait_text("zsh starts without .zshrc");
    zsh.send("print alive$((1+1))\r");
    zsh.wait_text("alive2");
}

#[test]
fn a_call_in_a_session_of_aish_does_nothing() {
    let terminals = Terminals::new();
    let zsh = terminals.start(&[]);
    zsh.wait_text("<1>");
    for line in ["aish", "aish --new", "zsh -fc aish"] {
        says(
            &zsh,
            &format!("clear; {line}; print code:$?."),
            "[aish] this shell was started by aish already\ncode:0.",
        );
    }
    assert_eq!(terminals.sessions(), "aish:1\n");
}

#[test]
fn in_another_tmux_session_the_pane_gets_a_zsh_with_the_plugin() {
    let terminals = Terminals::new();
    let command = PtyCommand::new("tmux").args(["new-session", "-s", "mine", "zsh"]);
    let zsh = Zsh::spawn(&terminals.home, command.env_clear().envs(terminals.env()));
    zsh.wait_text("<1>");
    says(
        &zsh,
        "aish",
        "[aish] tmux runs in this terminal already: zsh starts in this pane",
    );
    has_plugin(&zsh, "tmux");
    assert_eq!(terminals.sessions(), "mine:1\n");
    // In a recorded shell of the pane, whose terminal is another one.
    says(
        &zsh,
        "PS1=recor''ded: aish-helper record -- zsh -f",
        "recorded:",
    );
    says(
        &zsh,
        "clear; aish",
        "[aish] tmux runs in this terminal already: zsh starts in this pane",
    );
    has_plugin(&zsh, "tmux");
    assert_eq!(terminals.sessions(), "mine:1\n");
    // The pane of another terminal, from which this one was started.
    let pane = terminals.tmux(&[
        "display-message",
        "-p",
        "-t",
        "mine",
        "#{socket_path},1,0 #{pane_id}",
    ]);
    let (tmux, pane) = pane.trim().split_once(' ').expect("two words");
    let command = terminals.aish(&[]).env("TMUX", tmux).env("TMUX_PANE", pane);
    let other = Zsh::spawn(&terminals.home, command);
    has_plugin(&other, "tmux");
    assert_eq!(terminals.sessions(), "aish:1\nmine:1\n");
}

#[test]
fn a_lost_terminal_is_attached_again() {
    let terminals = Terminals::new();
    let zsh = terminals.start(&[]);
    zsh.wait_text("<1>");
    says(&zsh, "kept=yes; print -r -- ${kept}!", "yes!");
    drop(zsh);
    terminals.until_sessions("aish:0\n");
    let zsh = terminals.start(&[]);
    zsh.wait_text("aish: session aish; aish --new starts another");
    says(&zsh, "print -r -- again:$kept.", "again:yes.");
    // It is attached now, so the next terminal gets its own.
    let other = terminals.start(&[]);
    other.wait_text("<1>");
    assert_eq!(terminals.sessions(), "aish:1\naish-2:1\n");
    drop((zsh, other));
    terminals.until_sessions("aish:0\naish-2:0\n");
    let zsh = terminals.start(&["--new"]);
    zsh.wait_text("<1>");
    assert_eq!(terminals.sessions(), "aish:0\naish-2:0\naish-3:1\n");
}

#[test]
fn a_session_belongs_to_its_directory() {
    let terminals = Terminals::new();
    terminals.config("[tmux]\nsession_prefix = \"my\"\n");
    let dir = terminals.home.path("web site;");
    std::fs::create_dir(&dir).expect("a directory");
    let in_dir = |args: &[&str]| {
        let line = format!("cd '{}' && exec aish {}", dir.display(), args.join(" "));
        let command = PtyCommand::new("sh").args(["-c", &line]);
        Zsh::spawn(&terminals.home, command.env_clear().envs(terminals.env()))
    };
    let zsh = in_dir(&[]);
    zsh.wait_text("<1>");
    says(&zsh, "print -r -- here:${PWD:t}.", "here:web site;.");
    assert_eq!(terminals.sessions(), "my-web_site:1\n");
    drop(zsh);
    terminals.until_sessions("my-web_site:0\n");
    let other = terminals.aish(&[]);
    std::fs::create_dir(terminals.home.path("b")).expect("a directory");
    let line = format!("cd '{}' && exec aish", terminals.home.path("b").display());
    drop(other);
    let command = PtyCommand::new("sh").args(["-c", &line]);
    let other = Zsh::spawn(&terminals.home, command.env_clear().envs(terminals.env()));
    other.wait_text("<1>");
    assert_eq!(terminals.sessions(), "my-b:1\nmy-web_site:0\n");
    let again = in_dir(&[]);
    again.wait_text("aish: session my-web_site");
    drop((again, other));
    terminals.until_sessions("my-b:0\nmy-web_site:0\n");
    terminals.config("[tmux]\nsession_prefix = \"my\"\nattach_on_start = false\n");
    let zsh = in_dir(&[]);
    zsh.wait_text("<1>");
    assert_eq!(
        terminals.sessions(),
        "my-b:0\nmy-web_site:0\nmy-web_site-2:1\n"
    );
}

#[test]
fn environment_umask_and_directory_are_those_of_the_terminal() {
    let terminals = Terminals::new();
    // A server that was started with other ones.
    terminals.tmux(&["new-session", "-d", "-s", "mine", "-c", "/", "sleep 1000"]);
    let script = "umask 0027; cd bin; exec aish";
    let command = PtyCommand::new("sh").args(["-c", script]);
    let command = command.env_clear().envs(terminals.env());
    let zsh = Zsh::spawn(
        &terminals.home,
        command.env("SPECIAL", "a\nb=; c").env("TERM_PROGRAM", "x"),
    );
    zsh.wait_text("<1>");
    says(
        &zsh,
        "print -r -- ${(q+)SPECIAL} $(umask) ${PWD:t} $TERM_PROGRAM",
        "$'a\\nb=; c' 027 bin tmux",
    );
    let run = terminals.home.path("aish/run");
    let mut names = std::fs::read_dir(run)
        .expect("a directory")
        .map(|f| f.expect("a file").file_name());
    assert!(!names.any(|n| n.to_string_lossy().starts_with("pane")));
}

#[test]
fn without_a_usable_tmux_zsh_starts_and_one_line_says_why() {
    let terminals = Terminals::new();
    let home = &terminals.home;
    let start = |name: &str, value: &str| {
        let zsh = Zsh::spawn(home, terminals.aish(&[]).env(name, value));
        zsh.wait_text("<1>");
        has_plugin(&zsh, "");
        zsh.screen()
    };
    let one_line = |screen: &str, line: &str| {
        assert!(
            screen.starts_with(&format!("[aish] {line}\n<1>")),
            "{screen}"
        );
    };
    one_line(
        &start("TERM", "dumb"),
        "tmux cannot draw on a terminal of the type dumb: zsh starts without tmux",
    );
    home.program("tmux", "#!/bin/sh\necho tmux 2.9a\n");
    one_line(
        &start("X", ""),
        "tmux 2.9a is older than 3.0: zsh starts without tmux",
    );
    home.program(
        "tmux",
        "#!/bin/sh\n[ $2 = -V ] && exec echo tmux 3.3a\necho 'lost server' >&2; exit 1\n",
    );
    one_line(
        &start("X", ""),
        "tmux failed: lost server: zsh starts without tmux",
    );
    home.program("tmux", "#!/bin/sh\nexec sleep 1000\n");
    one_line(
        &start("X", ""),
        "tmux does not answer within 3 s: zsh starts without tmux",
    );
    home.program("tmux", "#!/nowhere\n");
    assert!(start("X", "").starts_with("[aish] tmux cannot run: "));
    std::fs::remove_file(home.path("bin/tmux")).expect("the fake");
    let path = home.path("bin").display().to_string();
    one_line(
        &start("PATH", &path),
        "tmux is not installed: zsh starts without tmux",
    );
}

#[test]
fn another_multiplexer_is_not_nested() {
    let terminals = Terminals::new();
    for (name, value, term, line) in [
        (
            "STY",
            "1.pts-0.host",
            "screen.xterm-256color",
            "screen runs in this terminal already: zsh starts in this pane",
        ),
        (
            "ZELLIJ",
            "0",
            "xterm-256color",
            "zellij runs in this terminal already: zsh starts in this pane",
        ),
    ] {
        let command = terminals.aish(&[]).env(name, value).env("TERM", term);
        let zsh = Zsh::spawn(&terminals.home, command);
        zsh.wait_text("<1>");
        assert!(
            zsh.screen().starts_with(&format!("[aish] {line}\n")),
            "{}",
            zsh.screen()
        );
        has_plugin(&zsh, "");
    }
    // A terminal that was started from screen.
    let command = terminals.aish(&[]).env("STY", "1.pts-0.host");
    let zsh = Zsh::spawn(&terminals.home, command);
    has_plugin(&zsh, "tmux");
}

#[test]
fn a_daemon_that_hangs_does_not_hold_up_the_shell() {
    let terminals = Terminals::new();
    let home = &terminals.home;
    let start = || {
        let zsh = terminals.start(&["--no-tmux"]);
        zsh.wait_text("<1>");
        zsh
    };
    drop(start());
    let uid = nix::unistd::getuid().as_raw();
    let paths = aish::paths::Paths::under(&home.path("aish"), uid).expect("paths");
    let daemon = aish::client::connect::listener_pid(&paths).expect("a daemon");
    let daemon = nix::unistd::Pid::from_raw(daemon);
    kill(daemon, Signal::SIGSTOP).expect("the daemon lives");
    let started = Instant::now();
    let zsh = start();
    // A client waits five seconds for a greeting.
    assert!(
        started.elapsed() < Duration::from_secs(4),
        "{:?}",
        started.elapsed()
    );
    has_plugin(&zsh, "");
    kill(daemon, Signal::SIGCONT).expect("the daemon lives");
}

#[test]
fn what_fails_besides_is_one_line_and_zsh_starts() {
    let terminals = Terminals::new();
    let screen = |name: &str, value: &str| {
        let zsh = Zsh::spawn(
            &terminals.home,
            terminals.aish(&["--no-tmux"]).env(name, value),
        );
        zsh.wait_text("<1>");
        zsh.screen()
    };
    let text = screen("AISH_HOME", "relative");
    assert!(
        text.starts_with("[aish] AISH_HOME is a relative path: relative\n"),
        "{text}"
    );
    // A data directory that cannot be created costs the recording and the daemon.
    std::fs::create_dir_all(terminals.home.path("other")).expect("a directory");
    std::fs::write(terminals.home.path("other/data"), "").expect("a file in the way");
    let other = terminals.home.path("other").display().to_string();
    let text = screen("AISH_HOME", &other);
    let lines: Vec<&str> = text.lines().collect();
    let (reason, rest) = lines.split_first().expect("a line");
    assert!(
        reason.starts_with("[aish] cannot create the directory ")
            && text
                .replace('\n', "")
                .contains("zsh starts without a recording"),
        "{text}"
    );
    assert!(
        rest.iter()
            .all(|line| !line.contains("aish]") && !line.contains("aish:")),
        "{text}"
    );
    terminals.config("[tmux]\nattach_on_start = 3\n");
    let text = screen("X", "");
    assert!(
        text.starts_with("[aish] ") && text.contains("config.toml:2") && text.contains("\n<1>"),
        "{text}"
    );
}

#[test]
fn any_shell_of_the_user_gets_a_zsh() {
    let terminals = Terminals::new();
    terminals.home.program("zsh", "#!/bin/sh\nexit 3\n");
    std::fs::remove_file(terminals.home.path("bin/zsh")).expect("the fake");
    for shell in ["/usr/bin/fish", "/bin/bash", "", "/nowhere/zsh", "zsh", "/"] {
        let zsh = Zsh::spawn(
            &terminals.home,
            terminals.aish(&["--no-tmux"]).env("SHELL", shell),
        );
        zsh.wait_text("<1>");
        says(
            &zsh,
            "print -r -- shell:$SHELL:${ZSH_VERSION:+zsh}.",
            &format!("shell:{shell}:zsh."),
        );
    }
    // One that cannot be started.
    terminals.home.program("zsh", "no program");
    let own = terminals.home.path("bin/zsh").display().to_string();
    let zsh = Zsh::spawn(
        &terminals.home,
        terminals.aish(&["--no-tmux"]).env("SHELL", own),
    );
    zsh.wait_text("<1>");
}

#[test]
fn a_zshenv_of_the_system_that_sets_zdotdir_is_respected() {
    let terminals = Terminals::new();
    let home = &terminals.home;
    std::fs::create_dir(home.path("system")).expect("a directory");
    std::fs::write(home.path("system/.zshrc"), format!("{PROMPT}print system")).expect(".zshrc");
    let own = home.path("bin/zsh").display().to_string();
    let start = || {
        let zsh = Zsh::spawn(home, terminals.aish(&["--no-tmux"]).env("SHELL", &own));
        zsh.wait_text("<1>");
        zsh
    };
    home.program(
        "zsh",
        "#!/bin/sh\n: ${ZDOTDIR:=$HOME/system}; export ZDOTDIR; exec /usr/bin/zsh \"$@\"\n",
    );
    let zsh = start();
    let system = format!("{}\nsystem\n<1>", terminals.recorded_line());
    assert!(zsh.screen().starts_with(&system), "{}", zsh.screen());
    has_plugin(&zsh, "");
    drop(zsh);
    home.program(
        "zsh",
        "#!/bin/sh\nZDOTDIR=$HOME/system; export ZDOTDIR; exec /usr/bin/zsh \"$@\"\n",
    );
    let zsh = start();
    let line = "[aish] /etc/zshenv sets ZDOTDIR, so llm works only if .zshrc loads the plugin\n";
    let line = format!("{line}{system}");
    assert!(zsh.screen().starts_with(&line), "{}", zsh.screen());
}

#[test]
fn without_a_terminal_it_is_an_error() {
    let terminals = Terminals::new();
    let output = terminals.without_terminal(&[], "aish");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        said,
        "aish: aish needs a terminal: stdin or stdout is something else\n  in a script use: aish-helper ask\n"
    );
    let output = terminals.without_terminal(&["--nonsense"], "aish");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).ends_with("see: aish --help\n"));
}

#[test]
fn as_a_login_shell_it_does_what_zsh_does() {
    let terminals = Terminals::new();
    std::fs::write(terminals.home.path(".zprofile"), "print profile\n").expect(".zprofile");
    let text = |output: Output| String::from_utf8(output.stdout).expect("text");
    // As ssh HOST COMMAND does.
    let output = terminals.without_terminal(
        &[
            "-c",
            "print -r -- $0:$1:${+functions[llm]}:$options[login]",
            "a",
            "b",
        ],
        "-aish",
    );
    assert_eq!(text(output), "profile\na:b:0:on\n");
    let output = terminals.without_terminal(&["-c", "exit 5"], "aish");
    assert_eq!(output.status.code(), Some(5));
    // As ssh HOST < SCRIPT does.
    let output = terminals.without_terminal(&[], "-aish");
    assert_eq!(text(output), "profile\n");
    std::fs::remove_file(terminals.home.path(".zprofile")).expect("the file");
    // In a terminal, with tmux.
    let zsh = Zsh::spawn(&terminals.home, terminals.aish(&[]).arg0("-aish"));
    zsh.wait_text("<1>");
    says(&zsh, "print -r -- login:$options[login].", "login:on.");
    has_plugin(&zsh, "tmux");
    terminals.tmux(&["new-window"]);
    zsh.wait_text("1:zsh*");
    zsh.wait_text("<1>");
    says(&zsh, "print -r -- login:$options[login].", "login:on.");
}
