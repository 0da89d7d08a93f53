//! A zsh with the plugin in a real tmux or GNU screen.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::PATIENCE;
use crate::support::helper::Helper;
use crate::support::home::source_plugin;

/// A multiplexer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// tmux.
    Tmux,
    /// The tmux that `AISH_TEST_TMUX35` names; the test puts it into the `PATH`.
    Tmux35,
    /// GNU screen, in a tmux that is its terminal.
    Screen,
    /// A shell in tmux whose pane the daemon records.
    RecordedPane,
    /// A shell in tmux that the relay records.
    Relay,
}

impl Kind {
    /// Returns the source of its outputs, as `aish-helper output` names it.
    pub fn source(self) -> &'static str {
        match self {
            Kind::Tmux | Kind::Tmux35 => "tmux",
            Kind::Screen => "screen",
            Kind::RecordedPane | Kind::Relay => "recording",
        }
    }
}

/// A zsh in a multiplexer. It counts its prompts in the file `prompted`, once it reads keys itself: what is typed sooner is echoed
/// by the terminal, as part of the output before the prompt.
pub struct Shell<'a> {
    pub helper: &'a Helper,
    kind: Kind,
    prompts: usize,
}

impl<'a> Shell<'a> {
    /// Starts the multiplexer with 80 columns and a zsh with this prompt, and waits for it.
    pub fn start(helper: &'a Helper, kind: Kind, prompt: &str) -> Shell<'a> {
        let home = &helper.home;
        let zshrc = format!(
            "HISTSIZE=1000\nSAVEHIST=0\nsetopt interactive_comments\n{prompt}\n{}\ntypeset -gi prompted=0\n\
             tell_prompt() {{ [[ $CONTEXT != start ]] || print -r -- $(( ++prompted )) >|$HOME/prompted }}\n\
             autoload -Uz add-zle-hook-widget\nadd-zle-hook-widget line-init tell_prompt\n",
            source_plugin()
        );
        std::fs::write(home.path(".zshrc"), zshrc).expect(".zshrc");
        for dir in ["tmux", "screens"] {
            std::fs::create_dir_all(home.path(dir)).expect("a directory");
        }
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(home.path("screens"), mode).expect("a mode");
        let screenrc =
            "startup_message off\ndefscrollback 5000\ndefutf8 on\ntermcapinfo * ti@:te@\n";
        std::fs::write(home.path(".screenrc"), screenrc).expect(".screenrc");
        if kind == Kind::RecordedPane {
            let config = home.read("aish/config/config.toml");
            let panes = "[record]\npanes = \"tmux\"\n";
            helper.config_file(&match config.contains("[record]\n") {
                true => config.replace("[record]\n", panes),
                false => config + panes,
            });
        }
        // The daemon, so that it knows the first command too.
        helper.call(["start"]).run().ok();
        let mut shell = Shell {
            helper,
            kind,
            prompts: 0,
        };
        let program: &[&str] = match kind {
            Kind::Tmux | Kind::Tmux35 | Kind::RecordedPane => &["zsh", "-d"],
            Kind::Relay => &["aish-helper", "record", "--", "zsh", "-d"],
            Kind::Screen => &["screen", "-U", "-S", "aish", "zsh", "-d"],
        };
        let size = [
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "80",
            "-y",
            "24",
        ];
        shell.tmux(&[&size, program].concat());
        shell.wait();
        if kind == Kind::RecordedPane {
            // The recorder leaves its nonce for the shell, which takes it before a prompt.
            let notices = helper.path("run/notices");
            shell.until("the recorder is ready", || {
                std::fs::read_dir(&notices).is_ok_and(|mut files| files.next().is_some())
            });
            shell.run("");
        }
        shell
    }

    fn env(&self) -> Vec<(&'static str, String)> {
        let home = &self.helper.home;
        let mut env = home.env();
        env.push(("TMUX_TMPDIR", home.path("tmux").display().to_string()));
        env.push(("SCREENDIR", home.path("screens").display().to_string()));
        env.push(("SHELL", "/bin/zsh".to_owned()));
        env
    }

    /// Runs tmux with its server of this home.
    pub fn tmux(&self, args: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.args(args).env_clear().envs(self.env());
        command.current_dir(self.helper.home.path(""));
        let output = command.output().expect("tmux is installed");
        assert!(output.status.success(), "{args:?}: {output:?}");
        output
    }

    /// Types keys.
    pub fn keys(&self, text: &str) {
        self.tmux(&["send-keys", "-l", "--", text]);
    }

    /// Presses a key by its name in tmux.
    pub fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// What the terminal shows, with its scrollback.
    pub fn screen(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p", "-S", "-"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Waits for the next prompt.
    pub fn wait(&mut self) {
        self.prompts += 1;
        let wanted = self.prompts;
        let prompted = || {
            self.helper
                .home
                .read("prompted")
                .trim()
                .parse()
                .unwrap_or(0)
        };
        self.until("the next prompt", || prompted() >= wanted);
    }

    /// Waits until something holds.
    pub fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds() {
            assert!(Instant::now() < deadline, "{what}\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the screen has this text.
    pub fn wait_text(&self, text: &str) {
        self.until(text, || self.screen().contains(text));
    }

    /// Presses a key until it has an effect: a question discards keys until none has come for a while.
    pub fn answer(&self, key: &str, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.screen().contains(text) {
            assert!(Instant::now() < deadline, "{text}\n{}", self.screen());
            self.press(key);
            let pressed = Instant::now();
            while pressed.elapsed() < Duration::from_millis(900) && !self.screen().contains(text) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// Types a command, in several lines if it has them, and waits for the next prompt.
    pub fn run(&mut self, command: &str) {
        // The lines of a command are read one after the other, whenever they come.
        for line in command.split('\n') {
            self.keys(line);
            self.press("Enter");
        }
        self.wait();
    }

    /// Returns what `aish-helper output --json` prints for the command number `command`.
    pub fn output(&mut self, command: usize) -> Value {
        let mut told = || {
            self.run(&format!(
                "aish-helper output --json --command {command} >$HOME/out.json"
            ));
            serde_json::from_str(&self.helper.home.read("out.json")).expect("JSON")
        };
        // On a busy machine a terminal may take longer than a prompt waits for it.
        let is_late = |told: &Value| {
            let reason = told["reason"].as_str();
            reason.is_some_and(|reason| reason.contains("did not answer within"))
        };
        let first = told();
        let mut more = (0..5).map(|_| told());
        match is_late(&first) {
            true => more.find(|told| !is_late(told)).unwrap_or(first),
            false => first,
        }
    }
}

impl Drop for Shell<'_> {
    fn drop(&mut self) {
        let mut kill = Command::new("tmux");
        // Fails if the server has ended already.
        let _ = kill
            .arg("kill-server")
            .env_clear()
            .envs(self.env())
            .output();
        if self.kind == Kind::Screen {
            let mut quit = Command::new("screen");
            quit.args(["-S", "aish", "-X", "quit"]);
            let _ = quit.env_clear().envs(self.env()).output();
        }
    }
}
