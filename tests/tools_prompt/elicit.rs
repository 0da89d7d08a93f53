//! Elicitations of MCP servers.

use aish::protocol::tools::{CallFinished, ElicitationPrompt};
use serde_json::Value;

use super::*;

fn form(schema: Value) -> Event {
    Event::ElicitationRequested(Box::new(ElicitationPrompt {
        id: "e1".into(),
        server: "github".into(),
        message: "Who are you?\n\x1b[2J\u{202e}".into(),
        schema: Some(schema),
        url: None,
        digest: String::new(),
    }))
}

fn page(url: &str) -> Event {
    Event::ElicitationRequested(Box::new(ElicitationPrompt {
        id: "e1".into(),
        server: "github".into(),
        message: "Sign in".into(),
        schema: None,
        url: Some(url.into()),
        digest: String::new(),
    }))
}

/// Starts a prompt during which an MCP server asks.
fn begin(zsh: &Zsh<'_>, daemon: &Daemon, event: &Event) -> Prompt {
    zsh.send("clear; aish-helper ask x; print code=$?\r");
    let mut prompt = daemon.prompt();
    prompt.event(event);
    prompt
}

fn answer(reaction: Reaction) -> (String, Option<Value>) {
    match reaction {
        Reaction::Elicit {
            id,
            content,
            action,
            ..
        } => {
            assert_eq!(id, "e1");
            (action.as_str().to_owned(), content)
        }
        other => panic!("{other:?}"),
    }
}

/// Types a line once the terminal has shown a text and waits for one.
fn fill(zsh: &Zsh<'_>, hint: &str, line: &str) {
    zsh.wait_for(hint, |screen| {
        let text = screen.contents();
        let mut lines = text.trim_end().lines().rev();
        lines.next().is_some_and(|l| l.trim_end() == ">")
            && lines.next().is_some_and(|l| l.contains(hint))
    });
    zsh.send(format!("{line}\r"));
}

#[test]
fn a_form_is_filled_field_by_field_and_shown_before_it_is_sent() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let schema = json!({
        "type": "object",
        "properties": {
            "a_name": {"type": "string", "title": "Your name", "description": "as on the badge", "minLength": 2},
            "b_age": {"type": "integer", "minimum": 0, "maximum": 150},
            "c_ok": {"type": "boolean", "default": true},
            "d_color": {"type": "string", "default": "r", "oneOf": [
                {"const": "r", "title": "Red"}, {"const": "g", "title": "Gr\u{435}en"}]},
            "e_tags": {"type": "array", "items": {"type": "string", "enum": ["x", "y", "z"]}, "minItems": 1},
            "f_note": {"type": "string"},
        },
        "required": ["a_name", "b_age", "d_color", "e_tags"],
    });
    let mut prompt = begin(&zsh, &daemon, &form(schema));
    // Keys typed before the first field is visible are discarded, so the first line may come too early.
    let name = "text, at least 2 characters";
    zsh.wait_text(name);
    zsh.press_until("J\r", "that is not text, at least 2 characters");
    fill(&zsh, "that is not text", "Jörg");
    fill(&zsh, "a whole number, 0 to 150", "200");
    fill(&zsh, "that is not a whole number, 0 to 150", "42");
    fill(&zsh, "y or n; Enter: y; Esc: cancel", "");
    fill(
        &zsh,
        "one of these, its number or its text; Enter: Red; Esc: cancel",
        "3",
    );
    fill(&zsh, "not one of the choices", "2");
    fill(
        &zsh,
        "any of these, numbers or texts with commas, at least 1 of them",
        "z,1",
    );
    fill(&zsh, "text; Enter: leave it out", "");
    zsh.wait_text("send? [y] yes  [n] no  [e] edit again");
    let screen = zsh.screen();
    for text in [
        "┌ server github asks you  it gets your answer; it must not ask for passwords or keys here",
        "│ Who are you?\n│ ‹\\x1b›[2J‹\\u{202e}›\n",
        "│ a_name  Your name  as on the badge\n",
        "│   1) Red\n│   2) Gr‹U+0435›en\n",
        "│ this is sent:\n│ a_name   \"Jörg\"\n│ b_age    42\n│ c_ok     true\n│ d_color  \"g\"\n│ e_tags   [\"z\", \"x\"]\n└ send?",
    ] {
        assert!(screen.contains(text), "{text}\n{screen}");
    }
    let (action, content) = answer(press(&zsh, &mut prompt, "y"));
    assert_eq!(action, "accept");
    assert_eq!(
        content,
        Some(
            json!({"a_name": "Jörg", "b_age": 42, "c_ok": true, "d_color": "g", "e_tags": ["z", "x"]})
        )
    );
    prompt.reply("stop");
    zsh.prompt();
}

#[test]
fn a_form_can_be_declined_filled_again_or_left() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]});
    let hint = "a number";

    let mut prompt = begin(&zsh, &daemon, &form(schema.clone()));
    zsh.press_until("1\r", "send? [y] yes");
    zsh.press_until("e", hint);
    fill(&zsh, hint, "2");
    zsh.wait_text("│ n  2\n└ send?");
    held(&zsh, &mut prompt, "y");
    assert_eq!(
        answer(press(&zsh, &mut prompt, "n")),
        ("decline".into(), None)
    );
    prompt.reply("stop");
    zsh.prompt();

    let mut prompt = begin(&zsh, &daemon, &form(schema.clone()));
    zsh.wait_text(hint);
    assert_eq!(
        answer(press(&zsh, &mut prompt, "\x1b")),
        ("cancel".into(), None)
    );
    prompt.reply("stop");
    zsh.prompt();
    assert!(zsh.screen().contains("code=0"), "{}", zsh.screen());

    // Ctrl-C ends the turn too.
    let mut prompt = begin(&zsh, &daemon, &form(schema));
    zsh.wait_text(hint);
    assert_eq!(
        answer(press(&zsh, &mut prompt, "\x03")),
        ("cancel".into(), None)
    );
    prompt.cancelled();
    prompt.reply("interrupted");
    zsh.prompt();
    assert!(zsh.screen().contains("code=130"), "{}", zsh.screen());
}

#[test]
fn an_invalid_form_is_declined() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let schema = json!({"type": "object", "properties": {"x\x1b[2J": {"type": "object"}}});
    let mut prompt = begin(&zsh, &daemon, &form(schema));
    assert_eq!(answer(prompt.reaction()), ("decline".into(), None));
    prompt.reply("stop");
    zsh.prompt();
    let screen = zsh.screen();
    assert!(
        screen.contains("its form has a field of an unsupported type: x‹\\x1b›[2J"),
        "{screen}"
    );
}

#[test]
fn a_page_is_opened_only_by_the_user() {
    let (home, daemon) = home();
    for program in ["xdg-open", "open"] {
        home.program(
            program,
            "#!/bin/sh\nprintf %s \"$1\" >$HOME/opened.new\nmv $HOME/opened.new $HOME/opened\n",
        );
    }
    let mut zsh = Zsh::start(&home);
    let url = "https://bank.example@evil.example:8443/login?next=\u{43e}";
    let mut prompt = begin(&zsh, &daemon, &page(url));
    zsh.wait_text("[o] open it  [y] already open  [n] no");
    let screen = zsh.screen();
    assert!(
        screen.contains(
            "│ Sign in\n│ page at  evil.example:8443\n│ https://bank.example@evil.example:8443/login?next=‹U+043E›\n"
        ),
        "{screen}"
    );
    assert!(!home.path("opened").exists());
    assert_eq!(
        answer(press(&zsh, &mut prompt, "n")),
        ("decline".into(), None)
    );
    prompt.reply("stop");
    zsh.prompt();

    let mut prompt = begin(&zsh, &daemon, &page(url));
    zsh.wait_text("[n] no");
    assert_eq!(
        answer(press(&zsh, &mut prompt, "y")),
        ("accept".into(), None)
    );
    prompt.reply("stop");
    zsh.prompt();
    assert!(!home.path("opened").exists(), "nothing was opened so far");

    let mut prompt = begin(&zsh, &daemon, &page(url));
    zsh.wait_text("[n] no");
    assert_eq!(
        answer(press(&zsh, &mut prompt, "o")),
        ("accept".into(), None)
    );
    prompt.reply("stop");
    zsh.prompt();
    zsh.run("until [[ -e ~/opened ]]; do :; done");
    assert_eq!(home.read("opened"), url);

    // An address that is not a web address is shown and never opened.
    let mut prompt = begin(&zsh, &daemon, &page("file:///etc/passwd"));
    assert_eq!(answer(prompt.reaction()), ("decline".into(), None));
    zsh.wait_text("not a web address, so it is not opened\n│ file:///etc/passwd\n└ declined");
    assert!(!zsh.screen().contains("[o] open") && !zsh.screen().contains("[y] "));
    prompt.reply("stop");
    zsh.prompt();
}

#[test]
fn without_a_terminal_the_question_is_dismissed() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    zsh.send("setsid -w aish-helper ask x </dev/null >out 2>err; print code=$?\r");
    let mut prompt = daemon.prompt();
    prompt.event(&form(json!({})));
    assert_eq!(answer(prompt.reaction()), ("no_terminal".into(), None));
    prompt.reply("stop");
    zsh.prompt();
    assert!(zsh.screen().contains("code=4"), "{}", zsh.screen());
    assert_eq!(
        home.read("err"),
        "[aish] server github: denied: no terminal to ask on\n"
    );
}

#[test]
fn the_end_of_a_call_withdraws_its_question() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let mut prompt = begin(
        &zsh,
        &daemon,
        &form(json!({"properties": {"n": {"type": "number"}}})),
    );
    zsh.wait_text("a number");
    prompt.event(&Event::ToolCallFinished(CallFinished {
        id: "1".into(),
        name: "github.create_issue".into(),
        status: CallStatus::CallFailed,
        duration_ms: 30_000,
        bytes: 0,
        head: String::new(),
        more: 0,
        notes: Vec::new(),
    }));
    zsh.wait_text("the question was withdrawn");
    prompt.reply("stop");
    zsh.prompt();
    assert!(
        zsh.screen()
            .contains("github.create_issue · failed · 30.0 s"),
        "{}",
        zsh.screen()
    );
}
