//! Driven shells: a real shell with `llm :tui` in a terminal, and requests over HTTP.

use serde_json::{Value, json};

use super::Server;
use crate::support::helper::Helper;
use crate::support::multiplexer::Multiplexer;
use crate::support::pty::Zsh;

const APPEND: &str = "/v1/tui/append-prompt";
const SUBMIT: &str = "/v1/tui/submit-prompt";
const NOTICE: &str = "/v1/tui/show-notice";

fn shells(server: &Server) -> Vec<Value> {
    let list = server.get("/v1/tui");
    list["shells"].as_array().expect("shells").clone()
}

/// Sends a request that is refused, and returns why.
fn refused(server: &Server, path: &str, body: &Value, status: u16) -> String {
    let problem = server.send("POST", path, Some(body)).problem(status);
    format!("{}: {}", problem["message"], problem["hint"]).replace('"', "")
}

/// Submits; the terminal is asked for its state and answers.
fn submit(server: &Server, zsh: &Zsh<'_>) -> Value {
    let seen = zsh.raw().len();
    std::thread::scope(|scope| {
        let submitted = scope.spawn(|| server.post(SUBMIT, &json!({}), 200));
        zsh.wait_raw(seen, b"\x1b[5n");
        zsh.send("\x1b[0n");
        submitted.join().expect("a response")
    })
}

#[test]
fn a_prompt_is_put_on_the_command_line_and_submitted() {
    let helper = Helper::saying("Hello from the model.");
    let server = Server::start(&helper);
    let mut zsh = Zsh::start(&helper.home);
    // Not before the person has said so in the shell.
    assert_eq!(shells(&server), [] as [Value; 0]);
    let text = json!({ "text": "what does $(touch pwned); do?\n`touch pwned`" });
    let none = refused(&server, APPEND, &text, 409);
    assert_eq!(none, "no shell is driven: type llm :tui in the shell");
    zsh.run("llm :tui");
    let [shell] = &shells(&server)[..] else {
        panic!("one shell");
    };
    let tty = zsh.eval("print -r -- $TTY");
    assert_eq!(shell["tty"], tty.trim());
    assert_eq!(shell["is_default"], true);
    if cfg!(target_os = "linux") {
        let home = std::fs::canonicalize(helper.path("..")).unwrap();
        assert_eq!(shell["cwd"], home.to_str().unwrap());
    }
    let id = zsh.eval("print -r -- $_aish[id]");
    assert_eq!(shell["shell_id"], id.trim());
    let taken = server.post(APPEND, &text, 200);
    assert_eq!(taken["shell_id"], id.trim());
    zsh.wait_text("> llm -- what does $(touch pwned); do?\n`touch pwned`");
    server.post(
        APPEND,
        &json!({ "text": " and more", "shell_id": id.trim() }),
        200,
    );
    zsh.wait_text("`touch pwned` and more");
    // Shown above the line, which stays.
    let notice = json!({ "text": "look\n\u{1b}[31mhere \u{202e}x" });
    server.post(NOTICE, &notice, 200);
    zsh.wait_text("[aish] look‹\\n›‹\\x1b›[31mhere ");
    let raw = zsh.raw();
    assert!(!raw.windows(5).any(|part| part == b"\x1b[31m"));
    assert!(!raw.windows(3).any(|part| part == "\u{202e}".as_bytes()));
    submit(&server, &zsh);
    zsh.wait_text("Hello from the model.");
    zsh.prompt();
    let prompts = helper.records_of("user");
    assert_eq!(
        prompts[0]["prompt"],
        "what does $(touch pwned); do?\n`touch pwned` and more"
    );
    assert!(!helper.home.path("pwned").exists());
    let [shell] = &shells(&server)[..] else {
        panic!("one shell");
    };
    assert_eq!(shell["session_id"], server.last_session());
    // The line is in the history, in a form of which nothing runs where no hook sees it.
    for again in ["fc -e true", " r", "fc -s"] {
        zsh.run(again);
        assert!(!helper.home.path("pwned").exists(), "{again}");
    }
    let prompts = helper.records_of("user");
    assert_eq!(prompts.len(), 4);
    assert!(
        prompts
            .iter()
            .all(|record| record["prompt"] == prompts[0]["prompt"])
    );
    zsh.run("llm :tui off");
    assert_eq!(shells(&server), [] as [Value; 0]);
}

#[test]
fn what_a_shell_or_the_server_refuses() {
    let helper = Helper::saying("Hello.");
    let server = Server::start(&helper);
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("llm :tui");
    for (path, body, status) in [
        (APPEND, json!({}), 422),
        (APPEND, json!({ "text": "" }), 422),
        (APPEND, json!({ "text": "a\u{1b}[31m" }), 422),
        (APPEND, json!({ "text": "a\rb" }), 422),
        (APPEND, json!({ "text": "a\u{0}b" }), 422),
        (APPEND, json!({ "text": "a\u{9b}b" }), 422),
        (APPEND, json!({ "text": "a\u{202e}b" }), 422),
        (APPEND, json!({ "text": "x".repeat((16 << 10) + 1) }), 422),
        (NOTICE, json!({ "text": "x".repeat((16 << 10) + 1) }), 422),
        (APPEND, json!({ "text": "x", "shell_id": "1-2-3" }), 404),
        (SUBMIT, json!({ "shell_id": "../events" }), 404),
        (SUBMIT, json!({ "shell": "x" }), 422),
    ] {
        refused(&server, path, &body, status);
    }
    let unknown = server.send_with("POST", SUBMIT, "", Some(&json!({})));
    assert_eq!(unknown.status, 401);
    assert!(refused(&server, SUBMIT, &json!({}), 409).contains("holds no prompt"));
    zsh.send("print mine");
    zsh.wait_text("> print mine");
    let text = json!({ "text": "; a prompt" });
    for (path, body) in [(APPEND, &text), (SUBMIT, &json!({}))] {
        let reason = refused(&server, path, body, 409);
        assert!(
            reason.contains("holds something other than a prompt"),
            "{reason}"
        );
    }
    zsh.wait_text("> print mine");
    zsh.send("\x15");
    // While a command runs; and nothing happens later.
    zsh.send("print re''ady; IFS= read -r line\r");
    zsh.wait_text("\nready");
    let reason = refused(&server, APPEND, &text, 409);
    assert!(reason.contains("is running a command"), "{reason}");
    zsh.run("");
    let long = "é".repeat((8 << 10) - 1);
    server.post(APPEND, &json!({ "text": format!("\t{long}") }), 200);
    zsh.send("\x15print -r -- em''pty\r");
    zsh.wait_text("\nempty\n");
    zsh.prompt();
    assert_eq!(helper.records_of("user").len(), 0);
}

#[test]
fn the_shell_that_was_used_last_is_driven_until_it_ends() {
    let helper = Helper::saying("Hello.");
    let server = Server::start(&helper);
    let (mut one, mut two) = (Zsh::start(&helper.home), Zsh::start(&helper.home));
    one.run("llm :tui");
    two.run("llm :tui");
    assert_eq!(shells(&server).len(), 2);
    one.run("true");
    let default = || {
        let shells = shells(&server);
        let default = shells.iter().find(|shell| shell["is_default"] == true);
        default.map(|shell| shell["tty"].as_str().unwrap_or_default().to_owned())
    };
    let tty = one.eval("print -r -- $TTY");
    helper.until("the last shell", || {
        default().as_deref() == Some(tty.trim())
    });
    server.post(NOTICE, &json!({ "text": "for the first" }), 200);
    one.wait_text("[aish] for the first");
    two.run("true");
    let tty = two.eval("print -r -- $TTY");
    helper.until("the other shell", || {
        default().as_deref() == Some(tty.trim())
    });
    server.post(APPEND, &json!({ "text": "for the second" }), 200);
    two.wait_text("> llm -- for the second");
    two.send("\x15");
    // The shells stay driven over a restart of the daemon.
    helper.call(["restart"]).run().ok();
    helper.until("the server", || {
        std::net::TcpStream::connect(("127.0.0.1", server.port)).is_ok()
    });
    assert_eq!(shells(&server).len(), 2);
    let other = two.eval("print -r -- $_aish[id]");
    server.post(
        APPEND,
        &json!({ "text": "after a restart", "shell_id": other.trim() }),
        200,
    );
    two.wait_text("> llm -- after a restart");
    // A new zsh in the place of one, and a shell that ends while a child has inherited its FIFO.
    two.send("\x15exec zsh -d -i\r");
    helper.until("one shell", || shells(&server).len() == 1);
    one.run("( while :; do sleep 1; done ) &!");
    let child = one.eval("print -r -- $!");
    one.exit();
    helper.until("no shell", || shells(&server).is_empty());
    let child = nix::unistd::Pid::from_raw(child.trim().parse().unwrap());
    nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGKILL).unwrap();
}

#[test]
fn a_terminal_answers_by_itself() {
    let helper = Helper::saying("Hello from the model.");
    let server = Server::start(&helper);
    let (_tmux, mut zsh) = Multiplexer::tmux(&helper);
    zsh.prompt();
    zsh.run("llm :tui");
    server.post(APPEND, &json!({ "text": "what's up; true" }), 200);
    zsh.wait_text("> llm -- what's up; true");
    server.post(SUBMIT, &json!({}), 200);
    zsh.wait_text("Hello from the model.");
    zsh.prompt();
    assert_eq!(helper.records_of("user")[0]["prompt"], "what's up; true");
}

#[test]
fn a_submission_chooses_no_files_and_runs_no_command_unasked() {
    let helper = Helper::saying("CMD: print r''an\n");
    helper.config("[shell]\nconfirm_cmd = false\n");
    std::fs::write(helper.home.path("secret.txt"), "do not send this\n").unwrap();
    let server = Server::start(&helper);
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("llm :tui");
    server.post(
        APPEND,
        &json!({ "text": "@secret.txt and < secret.txt" }),
        200,
    );
    submit(&server, &zsh);
    zsh.wait_text("[y] run");
    let content = helper.content();
    assert!(
        content.contains("@secret.txt and < secret.txt"),
        "{content}"
    );
    assert!(!content.contains("do not send this"), "{content}");
    zsh.press_until("n", "<");
    zsh.prompt();
    // Also if a person presses Enter: the words may have come just before.
    zsh.send("llm -- see ");
    zsh.wait_text("> llm -- see ");
    server.post(APPEND, &json!({ "text": "@secret.txt again" }), 200);
    zsh.send("\r");
    zsh.wait_text("@secret.txt again\n  $ print r''an");
    assert!(!helper.content().contains("do not send this"));
    zsh.press_until("n", "<");
    zsh.prompt();
    // A prompt that a person has typed is the person's.
    zsh.run("llm @secret.txt again");
    zsh.wait_text("\nran\n");
    assert!(helper.content().contains("do not send this"));
}
