//! A real zsh on a pty, with an emulated screen.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pty_process::blocking::{Command, Pty, open};

use super::PATIENCE;
use super::home::Home;

const ROWS: NonZeroU16 = NonZeroU16::new(50).unwrap();
const COLS: NonZeroU16 = NonZeroU16::new(120).unwrap();

/// Silence of the terminal before a key is sent; longer than the silence that a question waits for.
const SILENCE: Duration = Duration::from_millis(200);

/// Interval at which an unanswered key is pressed again; a question takes a key that comes sooner for one that is held.
const REPEAT: Duration = Duration::from_millis(900);

/// Time limit for the effect of a key that has changed the screen.
const EFFECT: Duration = Duration::from_secs(10);

/// Arguments that record a zsh.
pub const RECORD: &[&str] = &["record", "--", "zsh", "-d", "-i"];

struct Terminal {
    parser: vt100::Parser,
    raw: Vec<u8>,
    closed: bool,
}

/// An interactive zsh. Tests send keys and wait for the screen.
pub struct Zsh<'a> {
    home: &'a Home,
    pty: Arc<Pty>,
    child: Child,
    terminal: Arc<(Mutex<Terminal>, Condvar)>,
    reader: Option<JoinHandle<()>>,
    prompts: usize,
}

impl<'a> Zsh<'a> {
    /// Starts zsh with the `.zshrc` of `home` and waits for its first prompt.
    pub fn start(home: &'a Home) -> Zsh<'a> {
        let mut zsh = Zsh::launch(home);
        zsh.prompt();
        zsh
    }

    /// Starts zsh without waiting for a prompt.
    pub fn launch(home: &'a Home) -> Zsh<'a> {
        let mut command = Command::new("zsh");
        // -d: ignores the system's /etc/zsh/zshrc.
        command = command.args(["-d", "-i"]).env_clear().envs(home.env());
        Zsh::spawn(home, command)
    }

    /// Starts a zsh that is recorded, and waits for its first prompt.
    pub fn record(home: &'a Home) -> Zsh<'a> {
        let mut zsh = Zsh::launch_program(home, "aish-helper", RECORD);
        zsh.prompt();
        zsh
    }

    /// Starts a program in place of zsh.
    pub fn launch_program(home: &'a Home, program: &str, args: &[&str]) -> Zsh<'a> {
        let command = Command::new(program).args(args);
        Zsh::spawn(home, command.env_clear().envs(home.env()))
    }

    /// Starts a program in the home.
    pub fn spawn(home: &'a Home, command: Command) -> Zsh<'a> {
        let (pty, pts) = open().expect("a pty");
        pty.resize(pty_process::Size::new(ROWS.get(), COLS.get()))
            .expect("a size");
        let child = command
            .current_dir(home.path(""))
            .spawn(pts)
            .expect("the program starts");
        let pty = Arc::new(pty);
        let terminal = Arc::new((
            Mutex::new(Terminal {
                parser: vt100::Parser::new(ROWS, COLS, 0),
                raw: Vec::new(),
                closed: false,
            }),
            Condvar::new(),
        ));
        let reader = std::thread::spawn({
            let (pty, terminal) = (Arc::clone(&pty), Arc::clone(&terminal));
            move || {
                let mut buffer = [0; 65536];
                loop {
                    // Fails when the last process has closed the terminal.
                    let n = (&*pty).read(&mut buffer).unwrap_or(0);
                    let mut t = terminal.0.lock().expect("terminal");
                    if n == 0 {
                        t.closed = true;
                    } else {
                        t.parser.process(&buffer[..n]);
                        t.raw.extend_from_slice(&buffer[..n]);
                    }
                    terminal.1.notify_all();
                    if n == 0 {
                        return;
                    }
                }
            }
        });
        Zsh {
            home,
            pty,
            child,
            terminal,
            reader: Some(reader),
            prompts: 0,
        }
    }

    /// Types keys.
    pub fn send(&self, keys: impl AsRef<[u8]>) {
        (&*self.pty).write_all(keys.as_ref()).expect("typing");
    }

    /// Waits until the screen satisfies `wanted`; a failure prints the screen.
    pub fn wait_for(&self, what: &str, wanted: impl Fn(&vt100::Screen) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut t = self.terminal.0.lock().expect("terminal");
        while !wanted(t.parser.screen()) {
            let left = deadline.saturating_duration_since(Instant::now());
            if t.closed || left.is_zero() {
                // Released first: the dump on failure takes the lock.
                drop(t);
                panic!("time limit reached while waiting for {what}");
            }
            t = self.terminal.1.wait_timeout(t, left).expect("terminal").0;
        }
    }

    /// Answers a question with a key and waits until the screen satisfies `wanted`.
    pub fn answer(&self, key: &str, wanted: impl Fn(&vt100::Screen) -> bool) {
        self.press(key, |t| wanted(t.parser.screen()));
    }

    /// Presses a key and waits until the terminal gets `text`, without a colour change inside.
    pub fn press_until(&self, key: &str, text: &str) {
        let seen = self.raw().len();
        let text = text.as_bytes();
        self.press(key, |t| {
            t.raw[seen..].windows(text.len()).any(|part| part == text)
        });
    }

    /// Presses a key and waits until `done` holds. A question discards keys until none has come for 100 ms, which the screen
    /// does not show; so the key is sent when the terminal has been silent for longer, and again if it changes nothing.
    fn press(&self, key: &str, done: impl Fn(&Terminal) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut t = self.terminal.0.lock().expect("terminal");
        loop {
            t = self.silence(t, &done);
            if done(&t) {
                return;
            }
            if t.closed || Instant::now() > deadline {
                drop(t);
                panic!("{key:?} was not taken");
            }
            let seen = t.raw.len();
            self.send(key);
            let ignored = |t: &mut Terminal| t.raw.len() == seen && !t.closed;
            let waited = self.terminal.1.wait_timeout_while(t, REPEAT, ignored);
            let (changed, silent) = waited.expect("terminal");
            t = changed;
            if !silent.timed_out() {
                // Taken, most likely: a second key would reach the next question or the shell.
                let waiting = |t: &mut Terminal| !done(t) && !t.closed;
                let waited = self.terminal.1.wait_timeout_while(t, EFFECT, waiting);
                t = waited.expect("terminal").0;
            }
        }
    }

    /// Waits until the terminal has got nothing for a while, or `done` holds.
    fn silence<'t>(
        &self,
        mut t: MutexGuard<'t, Terminal>,
        done: &impl Fn(&Terminal) -> bool,
    ) -> MutexGuard<'t, Terminal> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = t.raw.len();
            let same = |t: &mut Terminal| t.raw.len() == seen && !done(t) && !t.closed;
            let waited = self.terminal.1.wait_timeout_while(t, SILENCE, same);
            let (now, silent) = waited.expect("terminal");
            t = now;
            if silent.timed_out() || done(&t) || t.closed || Instant::now() > deadline {
                return t;
            }
        }
    }

    /// Waits until `text` is on the screen.
    pub fn wait_text(&self, text: &str) {
        self.wait_for(text, |screen| screen.contents().contains(text));
    }

    /// Waits until the terminal has got these bytes after the first `seen`.
    pub fn wait_raw(&self, seen: usize, bytes: &[u8]) {
        let deadline = Instant::now() + PATIENCE;
        let mut t = self.terminal.0.lock().expect("terminal");
        while !t.raw[seen..].windows(bytes.len()).any(|part| part == bytes) {
            let left = deadline.saturating_duration_since(Instant::now());
            if t.closed || left.is_zero() {
                drop(t);
                panic!("time limit reached while waiting for {bytes:?}");
            }
            t = self.terminal.1.wait_timeout(t, left).expect("terminal").0;
        }
    }

    /// Waits for the next prompt.
    pub fn prompt(&mut self) {
        self.prompts += 1;
        let prompt = format!("<{}>", self.prompts);
        self.wait_for(&prompt, |screen| {
            let text = screen.contents();
            text.lines().last().is_some_and(|l| l.contains(&prompt))
        });
    }

    /// Presses Ctrl-C until the next prompt is there: zsh loses one that comes while its line editor draws.
    pub fn interrupt(&mut self) {
        let prompt = format!("<{}>", self.prompts + 1);
        self.answer("\x03", |screen| {
            let text = screen.contents();
            text.lines().last().is_some_and(|l| l.contains(&prompt))
        });
        self.prompt();
    }

    /// Types a line and waits for the next prompt.
    pub fn run(&mut self, line: &str) {
        self.send(line);
        self.send("\r");
        self.prompt();
    }

    /// Runs a line and returns its output, including stderr.
    pub fn eval(&mut self, line: &str) -> String {
        self.run(&format!("{{ {line}; }} >$HOME/out 2>&1"));
        self.home.read("out")
    }

    /// Rows of the screen, down to the last one with text.
    pub fn rows(&self) -> Vec<Vec<vt100::Cell>> {
        let t = self.terminal.0.lock().expect("terminal");
        let screen = t.parser.screen();
        let (rows, cols) = screen.size();
        let cells = |row| (0..cols.get()).filter_map(move |col| screen.cell(row, col).cloned());
        let mut rows: Vec<Vec<vt100::Cell>> =
            (0..rows.get()).map(|row| cells(row).collect()).collect();
        let is_blank =
            |row: &Vec<vt100::Cell>| row.iter().all(|cell| cell.contents().trim().is_empty());
        rows.truncate(
            rows.iter()
                .rposition(|row| !is_blank(row))
                .map_or(0, |last| last + 1),
        );
        rows
    }

    /// Text on the screen.
    pub fn screen(&self) -> String {
        let t = self.terminal.0.lock().expect("terminal");
        t.parser.screen().contents()
    }

    /// All bytes written to the terminal.
    pub fn raw(&self) -> Vec<u8> {
        self.terminal.0.lock().expect("terminal").raw.clone()
    }

    /// Process id of the shell.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the program has ended and returns its exit code.
    pub fn ended(mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("its state") {
                return status.code();
            }
            assert!(Instant::now() < deadline, "it did not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Changes the size of the terminal.
    pub fn resize(&self, rows: u16, cols: u16) {
        let count = |n| NonZeroU16::new(n).expect("a size");
        let mut t = self.terminal.0.lock().expect("terminal");
        t.parser.screen_mut().set_size(count(rows), count(cols));
        drop(t);
        let size = pty_process::Size::new(rows, cols);
        self.pty.resize(size).expect("a size");
    }

    /// Waits until the program has exited. Returns its exit code and everything that the terminal got.
    pub fn wait(mut self) -> (Option<i32>, Vec<u8>) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("the state of the program") {
                break status;
            }
            assert!(Instant::now() < deadline, "the program did not exit");
            std::thread::sleep(Duration::from_millis(5));
        };
        let t = self.terminal.0.lock().expect("terminal");
        let open = |t: &mut Terminal| !t.closed;
        let waited = self.terminal.1.wait_timeout_while(t, PATIENCE, open);
        let raw = waited.expect("terminal").0.raw.clone();
        (status.code(), raw)
    }

    /// Types `exit` and waits until zsh has exited.
    pub fn exit(mut self) {
        // Ctrl-U first: a key that was sent again may have reached the line, and `yexit` would not end the shell.
        self.send("\x15exit\r");
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait().expect("the state of zsh").is_none() {
            assert!(Instant::now() < deadline, "zsh did not exit");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Zsh<'_> {
    fn drop(&mut self) {
        // Fails if zsh has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let raw = self.raw();
            eprintln!(
                "--- screen\n{}\n--- raw\n{:?}",
                self.screen(),
                String::from_utf8_lossy(&raw)
            );
            return;
        }
        // A detached child may keep the terminal open, so the reader thread is not joined.
        drop(self.reader.take());
    }
}
