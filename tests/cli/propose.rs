//! Commands that a model proposes: the question on a terminal, the decision in the journal, the output
//! in the next prompt.

use std::collections::BTreeMap;

use aish::client::connect;
use aish::paths::Paths;
use aish::protocol::{CommandChoice, DecisionReply, Proposal, Request, kind};
use serde_json::Value;

use crate::cli::daemon::processes;
use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;
use crate::support::home::source_plugin;
use crate::support::pty::Zsh;
use crate::support::shell_id;
use crate::support::terminal;

/// End of the line of keys.
const QUESTION: &str = "[q] quit ";

/// A helper whose model proposes these commands in every answer.
fn proposing(commands: &[&str]) -> Helper {
    let lines: Vec<String> = commands.iter().map(|c| format!("CMD: {c}\n")).collect();
    let helper = Helper::with(Provider::answering(move |_| Script::tokens(lines.clone())));
    helper.home.zshrc("");
    helper
}

/// Plays the part of the zsh function.
struct Offer<'a> {
    helper: &'a Helper,
    zsh: Zsh<'a>,
    /// Length of the terminal output when the last `propose` was typed.
    seen: usize,
}

/// Output of `propose`: its first line and the command.
#[derive(Debug)]
struct Verdict {
    code: String,
    words: Vec<String>,
    command: String,
    stderr: String,
}

impl Verdict {
    fn token(&self) -> &str {
        &self.words[1]
    }

    fn nonce(&self) -> &str {
        &self.words[3]
    }
}

impl<'a> Offer<'a> {
    /// Sends a prompt that is answered with proposals.
    fn new(helper: &'a Helper) -> Offer<'a> {
        let offer = Offer {
            helper,
            zsh: Zsh::start(&helper.home),
            seen: 0,
        };
        offer.ask();
        offer
    }

    fn ask(&self) {
        self.ask_with("AISH_CONFIRM_CMD", "");
    }

    /// Sends the prompt with a variable in its environment.
    fn ask_with(&self, variable: &str, value: &str) {
        let ask = ["ask", "--shell", "s1", "--offer", "--", "do it"];
        let ask = self.helper.call(ask).env(variable, value);
        assert_eq!(ask.run().code, 10);
    }

    /// Starts `propose` on the terminal.
    fn propose(&mut self, before: &str, more: &str) {
        let _ = std::fs::remove_file(self.helper.home.path("code"));
        self.seen = self.zsh.raw().len();
        // Ctrl-U first removes what an earlier key left on the line.
        self.zsh.send(format!(
            "\x15clear; {before} aish-helper propose --shell s1 {more} >verdict 2>err; print -r -- $? >code\r"
        ));
    }

    /// Waits until the question is visible.
    fn question(&self) {
        self.helper.until("the question is visible", || {
            self.shown().contains(QUESTION)
        });
    }

    /// Terminal output since the last `propose`.
    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.zsh.raw()[self.seen..]).into_owned()
    }

    /// Presses a key until it has an effect; keys pressed too early are discarded.
    fn press(&mut self, key: &str) -> Verdict {
        let code = self.helper.home.path("code");
        self.press_until(key, &|_| code.exists());
        self.zsh.prompt();
        self.verdict()
    }

    fn press_until(&self, key: &str, done: &dyn Fn(&str) -> bool) {
        self.helper.until(&format!("{key:?} is taken"), || {
            self.zsh.send(key);
            let pressed = std::time::Instant::now();
            while pressed.elapsed() < std::time::Duration::from_millis(900) {
                if done(&self.shown()) {
                    return true;
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            false
        });
    }

    fn verdict(&self) -> Verdict {
        let output = self.helper.home.read("verdict");
        let (first, command) = output.split_once('\n').unwrap_or((&output, ""));
        Verdict {
            code: self.helper.home.read("code").trim().to_owned(),
            words: first.split(' ').map(str::to_owned).collect(),
            command: command.strip_suffix('\n').unwrap_or(command).to_owned(),
            stderr: self.helper.home.read("err"),
        }
    }

    /// Starts `propose` and answers its question.
    fn decide(&mut self, key: &str) -> Verdict {
        self.propose("", "");
        self.question();
        self.press(key)
    }

    /// Runs an approved command as the zsh function does, and returns its exit code.
    fn run(&mut self, verdict: &Verdict) {
        assert_eq!(verdict.words[0], "run", "{verdict:?}");
        std::fs::write(self.helper.home.path("command"), &verdict.command).unwrap();
        let (token, nonce) = (verdict.token(), verdict.nonce());
        // On one line: the next prompt must not come before the output has been drained.
        self.zsh.run(&format!(
            "\x15ptys=(${{(f)\"$(aish-helper capture --shell s1 {token} <<<{nonce})\"}}); \
             eval \"$(<command)\" >$ptys[1] 2>$ptys[2]; \
             aish-helper exec-done --shell s1 {token} --exit $? <<<{nonce}; print $? >done"
        ));
        assert_eq!(self.helper.home.read("done"), "0\n");
    }

    /// Reports the end of an approved command that was not run.
    fn end(&self, verdict: &Verdict) {
        assert_eq!(verdict.words[0], "run", "{verdict:?}");
        let report = ["exec-done", "--shell", "s1", verdict.token(), "--exit", "0"];
        self.helper.call(report).stdin(verdict.nonce()).run().ok();
    }

    /// Sends a prompt and returns the context that the model gets with it.
    fn model_context(&self) -> String {
        self.helper.ask("and now?");
        self.helper.content()
    }
}

fn text<'v>(record: &'v Value, key: &str) -> &'v str {
    record[key].as_str().expect("text")
}

#[test]
fn each_key_is_recorded_with_its_decision() {
    let helper = proposing(&["print one", "print two"]);
    let mut offer = Offer::new(&helper);
    for (key, action, recorded) in [
        ("y", "run", "run"),
        ("Y", "run", "run"),
        ("n", "no", "no"),
        ("\r", "no", "no"),
        ("i", "insert", "insert"),
        ("q", "quit", "quit"),
        ("\x04", "quit", "quit"),
    ] {
        offer.ask();
        let verdict = offer.decide(key);
        assert_eq!(
            (&*verdict.code, &*verdict.words[0]),
            ("0", action),
            "{key:?}"
        );
        let decision = helper.records_of("command_approval").pop().unwrap();
        assert_eq!(text(&decision, "choice"), recorded);
        assert_eq!(text(&decision, "proposed"), "print one");
        match action {
            "run" => {
                assert_eq!(verdict.words[2], "capture");
                offer.end(&verdict);
            }
            "insert" => {
                assert_eq!(verdict.stderr, "[aish] 1 left: llm :attach offers it\n");
            }
            "quit" => {
                offer.zsh.run("\x15aish-helper propose --shell s1 >verdict");
                assert_eq!(helper.home.read("verdict"), "none\n");
                continue;
            }
            _ => {}
        }
        assert_eq!(text(&decision, "token"), verdict.token());
        let command = if action == "no" { "" } else { "print one" };
        assert_eq!(verdict.command, command);
        // The next proposal is offered.
        assert_eq!(offer.decide("n").code, "0");
        let decision = helper.records_of("command_approval").pop().unwrap();
        assert_eq!(text(&decision, "proposed"), "print two");
    }
}

#[test]
fn after_ctrl_c_the_proposals_keep_waiting() {
    let helper = proposing(&["print one", "print two"]);
    let mut offer = Offer::new(&helper);
    let verdict = offer.decide("\x03");
    assert_eq!((&*verdict.code, &*verdict.words[0]), ("130", ""));
    let interrupted = "[aish] interrupted; this command was not run\n";
    assert_eq!(verdict.stderr, interrupted);
    assert!(helper.records_of("command_approval").is_empty());
    let call = helper
        .call(["propose", "--shell", "s1", "--interrupted"])
        .run();
    assert_eq!(call.stderr, "[aish] 2 left: llm :attach offers them\n");
    assert_eq!(offer.decide("n").code, "0");
    let decision = helper.records_of("command_approval").pop().unwrap();
    assert_eq!(text(&decision, "proposed"), "print one");
}

#[test]
fn ctrl_c_works_as_soon_as_the_question_is_visible() {
    let helper = proposing(&["print one"]);
    let mut offer = Offer::new(&helper);
    offer.propose("", "");
    offer.question();
    offer.zsh.send("y\x03y");
    let code = helper.home.path("code");
    helper.until("Ctrl-C ends the command", || code.exists());
    offer.zsh.prompt();
    assert_eq!(offer.verdict().code, "130");
}

#[test]
fn an_edited_command_is_shown_again_and_runs_as_edited() {
    let helper = proposing(&["print one"]);
    let mut offer = Offer::new(&helper);
    let verdict = offer.decide("e");
    assert_eq!(
        (&*verdict.words[0], &*verdict.command),
        ("edit", "print one")
    );
    assert!(helper.records_of("command_approval").is_empty());
    offer.propose(
        "print -rn -- $'print two\\nprint three' |",
        &format!("--edited {}", verdict.token()),
    );
    offer.question();
    assert!(offer.zsh.screen().contains("print two‹\\n›"));
    let verdict = offer.press("y");
    assert_eq!(verdict.command, "print two\nprint three");
    let decision = helper.records_of("command_approval").pop().unwrap();
    assert_eq!(text(&decision, "proposed"), "print one");
    assert_eq!(text(&decision, "command"), "print two\nprint three");
    offer.end(&verdict);
    // An empty edited command is a denial.
    offer.ask();
    let token = offer.decide("e").token().to_owned();
    let call = helper.call(["propose", "--shell", "s1", "--edited", &token]);
    let output = call.stdin(" \n").run().ok();
    assert_eq!(output, format!("no {token}\n"));
}

#[test]
fn yes_is_typed_in_full_for_a_command_that_could_hurt() {
    // Typing the whole word after the key is a habit.
    for rest in ["es\r", "yes\r"] {
        yes_is_typed(rest);
    }
}

fn yes_is_typed(rest: &str) {
    let helper = proposing(&["rm -rf /somewhere/else"]);
    let mut offer = Offer::new(&helper);
    offer.propose("", "");
    offer.question();
    helper.until("the keys are visible", || {
        offer.shown().contains("[yes] run")
    });
    offer.press_until("yes", &|shown| shown.contains("it must not be pasted"));
    // One key is not enough, and Enter after it returns to the question.
    offer.press_until("y", &|shown| shown.contains("> y"));
    assert!(offer.shown().contains("type yes to run it"));
    offer.zsh.send("\r");
    helper.until("the reason is visible", || {
        offer.shown().contains("not run: type the whole word yes")
    });
    helper.until("the question is visible again", || {
        offer.shown().matches(QUESTION).count() == 2
    });
    offer.press_until("y", &|shown| shown.matches("> y").count() >= 2);
    offer.zsh.send(rest);
    let code = helper.home.path("code");
    helper.until("the command is accepted", || code.exists());
    offer.zsh.prompt();
    assert_eq!(offer.verdict().words[0], "run");
}

#[test]
fn the_keys_are_explained() {
    let helper = proposing(&["print one"]);
    let mut offer = Offer::new(&helper);
    offer.propose("", "");
    offer.question();
    offer.press_until("x", &|shown| {
        shown.contains("not one of the keys; press ? for help")
    });
    offer.press_until("?", &|shown| shown.matches(QUESTION).count() == 2);
    let shown = offer.shown();
    assert!(
        shown.contains("put the command on the command line and run nothing"),
        "{shown}"
    );
    // Not offered here.
    assert!(!shown.contains("first run your command"), "{shown}");
    assert_eq!(shown.matches("run this command?").count(), 1, "{shown}");
    assert_eq!(offer.press("n").words[0], "no");
}

#[test]
fn keys_typed_before_the_question_are_discarded() {
    let helper = proposing(&["print one"]);
    let mut offer = Offer::new(&helper);
    // The keys arrive before the question is drawn.
    offer.propose("read -s -k 1 x; ", "");
    offer.zsh.send("xy");
    offer.question();
    let verdict = offer.press("n");
    assert_eq!(verdict.words[0], "no", "{verdict:?}");
    offer.ask();
    offer.propose("read -s -k 1 x; ", "");
    offer.zsh.send("xyyyyyyyy\ry");
    offer.question();
    assert_eq!(offer.press("n").words[0], "no");
}

#[test]
fn a_key_held_down_does_not_answer_it() {
    let helper = proposing(&["echo run"]);
    let mut offer = Offer::new(&helper);
    offer.propose("", "");
    offer.question();
    let code = helper.home.path("code");
    for _ in 0..30 {
        offer.zsh.send("y");
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!code.exists(), "{}", offer.shown());
    }
    assert_eq!(offer.press("y").words[0], "run");
}

#[test]
fn a_key_held_on_the_first_of_three_proposals_runs_only_that_one() {
    let helper = proposing(&["echo one", "echo two", "echo three"]);
    let mut offer = Offer::new(&helper);
    let first = offer.decide("y");
    assert_eq!(first.command, "echo one");
    offer.end(&first);
    let code = helper.home.path("code");
    offer.propose("", "");
    offer.question();
    // Auto-repeat begins up to 660 ms after the press, here as slowly as terminals do.
    for _ in 0..8 {
        std::thread::sleep(std::time::Duration::from_millis(150));
        offer.zsh.send("y");
        assert!(!code.exists(), "{}", offer.shown());
    }
    // Another key counts immediately, unless it arrives together with a repeat, as in a paste.
    std::thread::sleep(std::time::Duration::from_millis(150));
    let released = std::time::Instant::now();
    offer.zsh.send("n");
    offer.helper.until("the key is taken", || code.exists());
    let waited = released.elapsed();
    assert!(waited < std::time::Duration::from_millis(700), "{waited:?}");
    offer.zsh.prompt();
    assert_eq!(offer.verdict().words[0], "no");
    assert_eq!(offer.decide("y").command, "echo three");
}

#[test]
fn the_key_of_a_decision_is_known_to_the_next_question() {
    let helper = proposing(&["echo one", "echo two"]);
    let ask = ["ask", "--shell", "s1", "--offer", "--", "do it"];
    assert_eq!(helper.call(ask).run().code, 10);
    let paths = Paths::under(&helper.path(""), nix::unistd::getuid().as_raw()).unwrap();
    let next = || -> Proposal {
        let next = Request::NextProposal {
            shell: shell_id("s1"),
            cwd: "/".into(),
            overrides: BTreeMap::new(),
        };
        let proposal: Option<Proposal> = connect::request(&paths, &next).unwrap();
        proposal.unwrap()
    };
    let first = next();
    assert_eq!(first.last_key, None);
    let run = Request::Decide {
        shell: shell_id("s1"),
        token: first.token,
        choice: CommandChoice::Run,
        command: first.command,
        cwd: "/".into(),
        asked: true,
        continues: false,
        key: Some(b'y'),
        overrides: BTreeMap::new(),
    };
    terminal::request::<DecisionReply>(&paths.socket(), &run).unwrap();
    assert_eq!(next().last_key.map(|last| last.key), Some(b'y'));
}

#[test]
fn a_proposal_longer_than_the_screen_must_be_read_to_its_end() {
    let long = format!("print {} end-of-it", "x".repeat(20_000));
    let helper = proposing(&[&long]);
    let mut offer = Offer::new(&helper);
    offer.propose("", "");
    offer.zsh.wait_text("read on");
    assert!(!offer.zsh.screen().contains("[y]"));
    // A page has 46 lines of 118 columns: four pages.
    // The last line says that a command of this length is not analysed.
    offer.zsh.wait_text("125 more lines");
    for next in ["79 more lines", "33 more lines", "[y] run"] {
        offer.zsh.send("yyy");
        offer.press_until(" ", &|shown| shown.contains(next));
        assert_eq!(helper.home.read("code"), "");
    }
    assert!(offer.zsh.screen().contains("end-of-it"));
    let verdict = offer.press("y");
    assert_eq!(verdict.command, long);
}

#[test]
fn a_question_shows_every_byte() {
    let command = "rm x\x1b[31337m \u{202e}y\u{200b}z\ra     b\tc";
    let helper = proposing(&[command]);
    let mut offer = Offer::new(&helper);
    let verdict = offer.decide("n");
    let raw = String::from_utf8_lossy(&offer.zsh.raw()).into_owned();
    for hidden in ["\x1b[31337m", "\u{202e}", "\u{200b}"] {
        assert!(!raw.contains(hidden), "{raw:?}");
    }
    assert!(raw.contains("31337m"), "{raw:?}");
    assert_eq!(verdict.words[0], "no");
    let decision = helper.records_of("command_approval").pop().unwrap();
    assert_eq!(text(&decision, "proposed"), command);
}

#[test]
fn output_is_shown_live_and_sent_to_the_model_without_colours() {
    let helper = proposing(&["print -P '%F{red}red%f'; print -u2 error; (exit 3)"]);
    let mut offer = Offer::new(&helper);
    let verdict = offer.decide("y");
    offer.run(&verdict);
    assert!(
        offer.zsh.screen().contains("\nred\nerror\n"),
        "{}",
        offer.zsh.screen()
    );
    let content = offer.model_context();
    assert!(
        content.contains("exit=\"3\">\nred\nerror\n</output>"),
        "{content}"
    );
    let exec = helper.records_of("command_result").pop().unwrap();
    assert_eq!(exec["exit"], 3);
    assert_eq!(exec["output"]["head"], "red\nerror\n");
    assert_eq!(exec["token"], verdict.token());
    // The output is sent to the model only once.
    helper.ask("again");
    assert_eq!(helper.content(), "again");
}

#[cfg(target_os = "linux")]
#[test]
fn a_pump_ends_with_its_command_or_its_terminal() {
    use nix::fcntl::OFlag;
    use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
    let helper = proposing(&["print one", "cat gate"]);
    let mut offer = Offer::new(&helper);
    let verdict = offer.decide("y");
    offer.run(&verdict);
    let pump_has_ended = || processes(&helper, "--pump").is_empty();
    helper.until("the pump has ended", pump_has_ended);
    let verdict = offer.decide("y");
    let (token, nonce) = (verdict.token(), verdict.nonce());
    let gate = helper.home.path("gate");
    nix::unistd::mkfifo(&gate, nix::sys::stat::Mode::S_IRWXU).unwrap();
    // A terminal that can be closed under a job that keeps the pty open; the daemon gets no report.
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let terminal = posix_openpt(flags).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let line = format!(
        "trap '' HUP; exec >log 2>&1; exec 3>$(echo {nonce} | aish-helper capture --shell s1 {token} | head -n 1); cat >&3 <gate &"
    );
    let call = helper.program("setsid").args(["-w", "-c", "sh", "-c"]);
    let call = call
        .args([line])
        .stdin_file(ptsname_r(&terminal).unwrap().into());
    call.run().ok();
    helper.until("the pump runs", || !pump_has_ended());
    drop(terminal);
    helper.until("the pump has ended", pump_has_ended);
    std::fs::write(gate, "end\n").unwrap();
}

#[test]
fn head_and_tail_of_a_long_output_are_kept() {
    let helper = proposing(&["seq 1 20000"]);
    helper.config("[shell]\noutput_bytes = 256\n");
    let mut offer = Offer::new(&helper);
    let verdict = offer.decide("y");
    offer.run(&verdict);
    let content = offer.model_context();
    assert!(content.contains("\n1\n2\n3\n"), "{content}");
    assert!(content.contains("19999\n20000\n</output>"), "{content}");
    assert!(content.contains("bytes left out"), "{content}");
    assert!(content.len() < 600, "{content}");
}

#[test]
fn a_background_job_continues_to_print() {
    let helper = proposing(&["(read -r x <gate; print -r -- late $x) &!"]);
    let mut offer = Offer::new(&helper);
    let gate = helper.home.path("gate");
    nix::unistd::mkfifo(&gate, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let verdict = offer.decide("y");
    offer.run(&verdict);
    std::fs::write(&gate, "words\n").unwrap();
    offer.zsh.wait_text("late words");
    assert!(offer.model_context().contains("[no output]"));
}

#[test]
fn a_job_that_never_stops_printing_does_not_block() {
    let helper = proposing(&["print begin; yes noise & print $! >job"]);
    let mut offer = Offer::new(&helper);
    let verdict = offer.decide("y");
    // The output continues above every prompt, so the test waits for the file.
    let (token, nonce) = (verdict.token(), verdict.nonce());
    std::fs::write(helper.home.path("command"), &verdict.command).unwrap();
    offer.zsh.send(format!(
        "\x15ptys=(${{(f)\"$(aish-helper capture --shell s1 {token} <<<{nonce})\"}}); \
         eval \"$(<command)\" >$ptys[1] 2>$ptys[2]; \
         aish-helper exec-done --shell s1 {token} --exit $? <<<{nonce}; kill $(<job); print $? >done\r"
    ));
    helper.until("the command has ended", || {
        helper.home.read("done") == "0\n"
    });
    let content = offer.model_context();
    assert!(content.contains("exit=\"0\">\nbegin\n"), "{content}");
}

#[test]
fn an_interactive_program_has_the_terminal() {
    let helper = proposing(&["cd / && my-editor x"]);
    helper.config("[shell]\nterminal_programs = [\"my-editor\"]\n");
    let mut offer = Offer::new(&helper);
    let verdict = offer.decide("y");
    assert_eq!(verdict.words[2], "terminal");
    let call = helper.call(["exec-done", "--shell", "s1", verdict.token(), "--exit", "1"]);
    call.stdin(verdict.nonce()).run().ok();
    assert!(offer.model_context().contains("output not captured"));
}

#[test]
fn without_a_terminal_nothing_is_run() {
    for config in ["", "[shell]\nconfirm_cmd = false\n"] {
        let helper = proposing(&["print one"]);
        helper.config(config);
        let call = helper.call(["ask", "--shell", "s1", "--offer", "x"]);
        assert_eq!(call.run().code, 10);
        // A separate session has no terminal, wherever the tests run.
        let call = helper.program("setsid").args(["-w", "aish-helper"]);
        let run = call.args(["propose", "--shell", "s1"]).run();
        assert_eq!(run.stdout, "");
        let error = run.fails(4);
        assert!(error.contains("no terminal"), "{error}");
        assert!(helper.records_of("command_approval").is_empty());
        // Without --offer nothing is offered after the answer.
        let call = helper.call(["ask", "--shell", "s1", "x"]);
        assert_eq!(call.run().ok(), "CMD: print one\n");
    }
}

#[test]
fn questions_can_be_disabled() {
    let helper = proposing(&["print one"]);
    let mut offer = Offer::new(&helper);
    for (confirm, config) in [("", "[shell]\nconfirm_cmd = false\n"), ("false", "")] {
        helper.config(config);
        // Of the shell: for the prompt and for the decision.
        offer.ask_with("AISH_CONFIRM_CMD", confirm);
        offer.propose(&format!("AISH_CONFIRM_CMD={confirm}"), "");
        offer.zsh.prompt();
        let verdict = offer.verdict();
        assert_eq!(verdict.words[0], "run", "{verdict:?}");
        assert_eq!(
            helper.records_of("command_approval").pop().unwrap()["choice"],
            "run"
        );
        offer.end(&verdict);
    }
}

/// The pump may be unable to answer for minutes, for example while Ctrl-S stops the terminal.
#[test]
fn a_pump_that_sends_no_output_does_not_hold_up_a_stop() {
    let helper = proposing(&["print one"]);
    let ask = ["ask", "--shell", "s1", "--offer", "--", "do it"];
    assert_eq!(helper.call(ask).run().code, 10);
    let paths = Paths::under(&helper.path(""), nix::unistd::getuid().as_raw()).unwrap();
    let shell = || shell_id("s1");
    let next = Request::NextProposal {
        shell: shell(),
        cwd: "/".into(),
        overrides: BTreeMap::new(),
    };
    let proposal: Option<Proposal> = connect::request(&paths, &next).unwrap();
    let Proposal { token, command, .. } = proposal.unwrap();
    let run = Request::Decide {
        shell: shell(),
        token: token.clone(),
        choice: CommandChoice::Run,
        command,
        cwd: "/".into(),
        asked: true,
        continues: false,
        key: None,
        overrides: BTreeMap::new(),
    };
    let decided = terminal::request::<DecisionReply>(&paths.socket(), &run).unwrap();
    let capture = Request::Capture {
        shell: shell(),
        token: token.clone(),
        nonce: decided.nonce.clone(),
    };
    let mut pump = connect::to_daemon(&paths, &capture).unwrap();
    pump.reply::<u64>().unwrap();
    let done = helper.call(["exec-done", "--shell", "s1", &token, "--exit", "0"]);
    let done = done.stdin(&*decided.nonce).start();
    // The daemon asks for the output; nothing is sent.
    assert_eq!(
        pump.read().unwrap().map(|(kind, _)| kind),
        Some(kind::EVENT)
    );
    helper.call(["stop"]).run().ok();
    done.finish();
    // Recorded without its output, and the connection was closed.
    let results = helper.records_of("command_result");
    assert_eq!(results.len(), 1);
    assert!(results[0]["output"].is_null(), "{results:?}");
    assert!(!matches!(pump.read(), Ok(Some(_))));
}

#[test]
fn an_unapproved_command_runs_only_if_questions_are_disabled() {
    let helper = proposing(&["print one"]);
    helper.config("[shell]\nconfirm_cmd = false\n");
    let ask = ["ask", "--shell", "s1", "--offer", "--", "do it"];
    assert_eq!(helper.call(ask).run().code, 10);
    let paths = Paths::under(&helper.path(""), nix::unistd::getuid().as_raw()).unwrap();
    let next = Request::NextProposal {
        shell: shell_id("s1"),
        cwd: "/".into(),
        overrides: BTreeMap::new(),
    };
    let proposal: Option<Proposal> = connect::request(&paths, &next).unwrap();
    let Proposal {
        token,
        command,
        confirm,
        ..
    } = proposal.unwrap();
    assert!(!confirm);
    // The setting has changed since.
    helper.config("[shell]\nconfirm_cmd = true\n");
    let decide = |overrides| {
        let request = Request::Decide {
            shell: shell_id("s1"),
            token: token.clone(),
            choice: CommandChoice::Run,
            command: command.clone(),
            cwd: "/".into(),
            asked: false,
            continues: false,
            key: None,
            overrides,
        };
        terminal::request::<DecisionReply>(&paths.socket(), &request)
    };
    let error = decide(BTreeMap::new()).unwrap_err();
    assert_eq!(error.message, "not run: shell.confirm_cmd says ask");
    assert!(helper.records_of("command_approval").is_empty());
    // The command still waits, and the environment overrides the file.
    let wants_none = ("AISH_CONFIRM_CMD".to_owned(), "false".to_owned());
    decide([wants_none].into()).unwrap();
    let decision = helper.records_of("command_approval").pop().unwrap();
    assert_eq!(text(&decision, "reason"), "shell.confirm_cmd");
}

#[test]
fn a_token_is_valid_once_and_for_its_shell() {
    let helper = proposing(&["print one"]);
    let mut offer = Offer::new(&helper);
    let token = offer.decide("e").token().to_owned();
    let exec_done = |shell: &str, nonce: &str| {
        let call = helper.call(["exec-done", "--shell", shell, &token, "--exit", "0"]);
        call.stdin(nonce).run()
    };
    // Not approved yet, and of another shell.
    exec_done("s1", "").fails(1);
    let call = helper.call(["propose", "--shell", "s2", "--edited", &token]);
    assert_eq!(call.stdin("print two").run().ok(), "none\n");
    let approved = offer.decide("y");
    assert_eq!(approved.token(), token);
    // The command does not know the nonce.
    for nonce in ["", "0", &token] {
        let error = exec_done("s1", nonce).fails(4);
        assert!(error.contains("not from the shell"), "{error}");
        let capture = Request::Capture {
            shell: shell_id("s1"),
            token: token.clone(),
            nonce: nonce.to_owned(),
        };
        let paths = Paths::under(&helper.path(""), nix::unistd::getuid().as_raw()).unwrap();
        let captured = connect::request::<u64>(&paths, &capture);
        assert!(captured.is_err(), "{captured:?}");
    }
    let nonce = approved.nonce();
    for (shell, code) in [("s2", 1), ("s1", 0), ("s1", 1)] {
        let run = exec_done(shell, nonce);
        assert_eq!(run.code, code, "{run:?}");
    }
    let refused = |offer: &mut Offer<'_>, line: &str| {
        offer
            .zsh
            .run(&format!("\x15clear; {line} >out 2>err; print $? >code"));
        assert_eq!(helper.home.read("code"), "1\n", "{line}");
        assert_eq!(helper.home.read("out"), "");
    };
    refused(
        &mut offer,
        &format!("aish-helper capture --shell s1 {token}"),
    );
    offer.ask();
    refused(
        &mut offer,
        &format!("print x | aish-helper propose --shell s1 --edited {token}"),
    );
    assert_eq!(helper.records_of("command_result").len(), 1);
    assert_eq!(helper.records_of("command_approval").len(), 1);
}

#[test]
fn another_shell_gets_no_output_of_an_approved_command() {
    let helper = proposing(&["print one"]);
    let mut offer = Offer::new(&helper);
    let verdict = offer.decide("y");
    let token = verdict.token();
    offer.zsh.run(&format!(
        "\x15aish-helper capture --shell s2 {token} >out 2>err; print $? >code"
    ));
    assert_eq!(helper.home.read("code"), "1\n");
    assert_eq!(helper.home.read("out"), "");
    assert_eq!(
        helper.home.read("err"),
        "aish: the output cannot be captured: no approved command has this token\n  \
         see: aish-helper doctor\n"
    );
    offer.run(&verdict);
}

#[test]
fn a_new_answer_replaces_the_old_proposals() {
    let helper = proposing(&["print one", "print two"]);
    let mut offer = Offer::new(&helper);
    let old_token = offer.decide("e").token().to_owned();
    offer.ask();
    let verdict = offer.decide("y");
    assert_ne!(verdict.token(), old_token);
    let call = helper.call(["propose", "--shell", "s1", "--edited", &old_token]);
    let error = call.stdin("print x").run().fails(1);
    assert!(error.contains("no longer waiting"), "{error}");
}

#[test]
fn a_command_that_ends_under_another_daemon_is_recorded() {
    for end in [
        |helper: &Helper| drop(helper.call(["restart"]).run().ok()),
        Helper::kill_daemon,
    ] {
        let helper = proposing(&["print one"]);
        let mut offer = Offer::new(&helper);
        let verdict = offer.decide("y");
        let token = verdict.token();
        let nonce = verdict.nonce();
        let line = format!(
            "\x15pty=${{${{(f)\"$(aish-helper capture --shell s1 {token} <<<{nonce})\"}}[1]}}; exec 5>$pty"
        );
        offer.zsh.run(&line);
        // A pump that waits for the end of its command does not keep the daemon running.
        end(&helper);
        offer.zsh.run("print still-$((40 + 2)) >&5; exec 5>&-");
        offer.zsh.wait_text("still-42");
        let report = ["exec-done", "--shell", "s1", token, "--exit", "7"];
        helper.call(report).run().ok();
        let content = offer.model_context();
        assert!(content.contains("exit=\"7\">"), "{content}");
        assert!(content.contains("output not captured"), "{content}");
        helper.call(report).run().fails(1);
        // In another session and directory.
        let elsewhere = ["ask", "--shell", "s1", "--new", "fix it"];
        helper.call(elsewhere).dir("/".into()).run().ok();
        let home = format!("in {:?}", helper.home.path(""));
        let home = home.trim_end_matches(['/', '"']);
        let content = helper.content();
        assert!(content.contains(home), "{home} in {content}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_approval_that_cannot_be_recorded_runs_nothing() {
    let helper = proposing(&["print one", "print two"]);
    let mut offer = Offer::new(&helper);
    offer.propose("", "");
    offer.question();
    helper.limit_files(Some(1));
    let verdict = offer.press("y");
    assert_eq!(
        (&*verdict.code, &*verdict.words[0]),
        ("1", ""),
        "{verdict:?}"
    );
    assert!(
        verdict
            .stderr
            .contains("not run: the approval could not be recorded"),
        "{verdict:?}"
    );
    helper.limit_files(None);
    assert!(helper.records_of("command_approval").is_empty());
    assert_eq!(offer.decide("y").command, "print two");
}

#[test]
fn a_pager_is_disabled_while_output_is_captured() {
    let helper = proposing(&["git -C repo log --stat"]);
    let git = |args: &[&str]| {
        let call = helper.program("git").args(["-C", "repo"]).args(args);
        call.run().ok();
    };
    helper
        .program("git")
        .args(["init", "-q", "repo"])
        .run()
        .ok();
    for (name, value) in [
        ("user.name", "me"),
        ("user.email", "me@example.org"),
        ("core.pager", "less"),
    ] {
        git(&["config", name, value]);
    }
    // Many more lines than the 50 of the screen.
    for n in 1..=40 {
        git(&["commit", "-q", "--allow-empty", "-m", &format!("step {n}.")]);
    }
    helper
        .home
        .zshrc(&format!("export PAGER=less LESS=\n{}", source_plugin()));
    let mut offer = Offer::new(&helper);
    offer.seen = offer.zsh.raw().len();
    offer.zsh.send("llm do it\r");
    offer.question();
    offer.press_until("y", &|shown| shown.contains("step 40."));
    offer.zsh.prompt();
    // `press_until` may have sent one key too many.
    offer.zsh.send("\x15");
    assert!(
        offer.shown().contains("step 1."),
        "the output was not paged"
    );
    assert_eq!(
        offer.zsh.eval("typeset -p PAGER; print $+GIT_PAGER"),
        "export PAGER=less\n0\n"
    );
    let ran = helper.records_of("command_result").pop().unwrap();
    let output = ran["output"].to_string();
    assert_eq!(ran["exit"], 0);
    assert!(output.contains("step 40.") && output.contains("step 1."));
}

#[test]
fn a_stopped_captured_command_continues_without_errors() {
    let step = "sh -c 'echo step-$1; [ $1 != 1 ] || read x <gate' sh";
    let command = format!("for i in 1 2 3; do {step} $i; done");
    let helper = proposing(&[&command, "cd /; echo here-$ZSH_SUBSHELL"]);
    helper.home.zshrc(&source_plugin());
    let gate = helper.home.path("gate");
    nix::unistd::mkfifo(&gate, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut offer = Offer::new(&helper);
    offer.seen = offer.zsh.raw().len();
    offer.zsh.send("llm do it\r");
    offer.question();
    offer.press_until("y", &|shown| shown.contains("step-1\r\n"));
    offer.zsh.send("\x1a");
    offer.zsh.prompt();
    // `press_until` may have sent one key too many.
    offer.zsh.send("\x15");
    assert_eq!(offer.zsh.eval("print $+PAGER $+GIT_PAGER"), "0 0\n");
    helper.until("the stop is recorded", || {
        !helper.records_of("command_result").is_empty()
    });
    offer.zsh.send("fg\r");
    std::fs::write(&gate, "go on\n").unwrap();
    offer.zsh.prompt();
    // The fork may end a moment after fg comes back.
    offer.zsh.wait_text("step-3");
    offer.zsh.wait_text("no more commands are offered");
    let shown = offer.shown();
    assert!(!shown.contains("here-1") && !shown.contains("no approved command"));
    assert_eq!(helper.records_of("command_result").len(), 1);
    assert_eq!(
        offer.zsh.eval("print -r -- ${PWD:#$HOME} $ZSH_SUBSHELL"),
        "0\n"
    );
}

#[test]
fn a_denied_command_is_not_offered_and_the_rule_is_named() {
    let helper = proposing(&["print one", "print t\u{202e}wo"]);
    // Also if questions are disabled.
    helper.config("[shell]\nconfirm_cmd = false\n[policy.rules]\nshell = \"deny\"\n");
    let call = helper.call(["ask", "--shell", "s1", "--offer", "x"]);
    assert_eq!(call.run().code, 10);
    for command in ["print one", "print t‹\\u{202e}›wo"] {
        let run = helper.call(["propose", "--shell", "s1"]).run();
        assert!(run.stdout.starts_with("no "), "{run:?}");
        let why = "[aish] not offered: policy.rules.shell says deny: ";
        assert_eq!(run.stderr, format!("{why}{command}\n"));
        let decision = helper.records_of("command_approval").pop().unwrap();
        assert_eq!(text(&decision, "choice"), "denied");
        assert_eq!(text(&decision, "reason"), "policy.rules.shell");
    }
    let call = helper.call(["propose", "--shell", "s1"]);
    assert_eq!(call.run().ok(), "none\n");
    assert_eq!(helper.records_of("command_approval").len(), 2);
}

#[test]
fn a_default_of_deny_counts_for_commands_without_a_rule() {
    let confirm = "[shell]\nconfirm_cmd = false\n[policy]\ndefault = \"deny\"\n";
    for (rules, expected) in [
        ("", "policy.default says deny"),
        ("[policy.rules]\n\"op:read\" = \"allow\"\n", ""),
        ("[policy.rules]\nshell = \"allow\"\n", ""),
    ] {
        let helper = proposing(&["print one"]);
        helper.config(&format!("{confirm}{rules}"));
        let call = helper.call(["ask", "--shell", "s1", "--offer", "x"]);
        assert_eq!(call.run().code, 10);
        let run = helper.call(["propose", "--shell", "s1"]).run();
        assert_eq!(
            run.stderr.contains("not offered"),
            !expected.is_empty(),
            "{rules}: {run:?}"
        );
        assert!(run.stderr.contains(expected), "{rules}: {run:?}");
    }
}

#[test]
fn a_command_that_a_rule_does_not_cover_is_asked_about_with_the_reason() {
    let helper = proposing(&["print x >> ~/.zshrc"]);
    helper.config("[policy.rules]\nshell = \"allow\"\n");
    let mut offer = Offer::new(&helper);
    offer.propose("", "");
    offer.question();
    let verdict = offer.press("n");
    offer.zsh.wait_text("asked because of: it reaches ");
    assert_eq!(verdict.code, "0", "{verdict:?}");
}

#[test]
fn a_project_rule_asks_about_commands_that_a_user_rule_allows() {
    let helper = proposing(&["print one"]);
    helper.config("[policy.rules]\nshell = \"allow\"\n");
    let mut offer = Offer::new(&helper);
    offer.propose("", "");
    offer.zsh.prompt();
    offer.end(&offer.verdict());
    let decision = helper.records_of("command_approval").pop().unwrap();
    assert_eq!(text(&decision, "reason"), "policy.rules.shell");

    let project = helper.home.path(".aish.toml");
    std::fs::write(&project, "[policy.rules]\nshell = \"ask\"\n").unwrap();
    offer.ask();
    offer.propose("", "");
    offer.question();
    let verdict = offer.press("y");
    offer.zsh.wait_text("asked because of: ");
    offer.end(&verdict);
    let decision = helper.records_of("command_approval").pop().unwrap();
    assert!(decision.get("reason").is_none(), "{decision}");

    // The project file was written while the question was open.
    offer.ask();
    offer.propose("", "");
    offer.question();
    std::fs::write(&project, "[policy.rules]\nshell = \"deny\"\n").unwrap();
    let verdict = offer.press("y");
    assert_eq!((&*verdict.code, &*verdict.words[0]), ("4", ""));
    let why = format!("{}:2: policy.rules.shell says deny", project.display());
    assert!(verdict.stderr.contains(&why), "{verdict:?}");
    assert_eq!(helper.records_of("command_approval").len(), 2);
}

#[test]
fn errors_of_a_project_file_are_reported_where_its_rules_apply() {
    let ask = |answer: &'static str| {
        let helper = Helper::saying(answer);
        std::fs::write(helper.home.path(".aish.toml"), "[policy.rules\n").unwrap();
        let output = helper.call(["ask", "--shell", "s1", "--", "do it"]).run();
        assert_eq!(output.code, 0, "{output:?}");
        output.stderr
    };
    let output = ask("CMD: print one\n");
    assert_eq!(output.matches(".aish.toml:1").count(), 1, "{output}");
    assert_eq!(ask("There is nothing to do.\n"), "");
}

#[test]
fn a_denied_command_runs_in_no_shell_and_the_next_prompt_works() {
    let helper = proposing(&["touch ran-1", "touch ran-2"]);
    helper.home.zshrc(&source_plugin());
    helper.config("[policy.rules]\nshell = \"deny\"\n");
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("llm do it");
    for n in 1..=2 {
        zsh.wait_text(&format!("says deny: touch ran-{n}"));
        assert!(!helper.home.path(&format!("ran-{n}")).exists());
    }
    let blocked = helper.call(["activity", "list", "--status", "blocked", "--json"]);
    assert_eq!(blocked.run().json().as_array().map(Vec::len), Some(2));
    helper.config("[policy.rules]\nshell = \"allow\"\n");
    zsh.run("llm do it");
    for n in 1..=2 {
        assert!(helper.home.path(&format!("ran-{n}")).exists());
    }
}
