//! What the question looks like.

use std::time::Duration;

use aish::protocol::tools::Verdict;

use super::*;

/// The lines of the screen from the frame on.
fn frame(zsh: &Zsh<'_>) -> Vec<String> {
    let screen = zsh.screen();
    let lines: Vec<&str> = screen.lines().map(str::trim_end).collect();
    let at = lines
        .iter()
        .position(|l| l.starts_with('┌'))
        .expect("a frame");
    lines[at..].iter().map(|l| (*l).to_owned()).collect()
}

#[test]
fn the_question_says_what_is_called_with_what() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let body = "It crashes. ".repeat(100) + "End.";
    assert_eq!(body.len(), 1204);
    let arguments = format!(r#"{{"title":"Crash on start","body":"{body}"}}"#);
    let mut prompt = asked(&zsh, &daemon, "aish-helper ask x", &question(&arguments));
    zsh.wait_text(KEYS);
    assert_eq!(
        frame(&zsh),
        [
            "┌ github.create_issue                                   writes · destructive? no · server github",
            "│ title  \"Crash on start\"",
            "│ body   \"It crashes. It crashes. It crashes. It crashes. It crashes. It crashes. It cr…\" (1,204 bytes, ↓ to read all)",
            "└ run? [y]es  [n]o  [a]lways for this session  [s]erver for this session  [e]dit  [d]eny and tell the model why  [?]",
        ]
    );
    // The tail must have been seen before a yes counts.
    press_until(&zsh, "y", "End.\"");
    let screen = zsh.screen();
    assert!(
        screen.contains("not yet: read the arguments to their end first"),
        "{screen}"
    );
    assert_eq!(prompt.reaction_within(Duration::from_millis(200)), None);
    assert_eq!(
        verdict(press(&zsh, &mut prompt, "y")),
        (Verdict::Once, arguments)
    );
    prompt.reply("stop");
    zsh.prompt();
}

#[test]
fn more_than_a_screen_is_read_page_by_page() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let lines: Vec<String> = (1..=150).map(|n| format!("line {n}")).collect();
    let arguments = serde_json::json!({ "body": lines.join("\n") }).to_string();
    for key in ["a", "s"] {
        let mut prompt = asked(&zsh, &daemon, "aish-helper ask x", &question(&arguments));
        zsh.wait_text("↓ to read all");
        press_until(
            &zsh,
            key,
            "more lines: [space] read on  [k] back  [G] to the end  [q]uit reading",
        );
        assert!(zsh.screen().contains("line 47") && !zsh.screen().contains("line 48"));
        // Leaving in the middle is not having read it.
        press_until(&zsh, "q", "run? [y]es");
        press_until(&zsh, key, "more lines: [space]");
        press_until(&zsh, " ", "line 94\\n");
        press_until(&zsh, "k", "line 1\\n");
        press_until(&zsh, "\x1b[B", "line 94\\n");
        press_until(&zsh, "j", "line 141\\n");
        press_until(&zsh, "\x1b[6~", "line 150\"");
        let (said, sent) = verdict(press(&zsh, &mut prompt, key));
        assert_eq!(sent, arguments);
        assert_eq!(
            said,
            if key == "a" {
                Verdict::Tool
            } else {
                Verdict::Reads
            }
        );
        prompt.reply("stop");
        zsh.prompt();
    }
}

#[test]
fn what_is_hostile_is_seen_and_does_nothing() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let mut question = question(
        &serde_json::json!({
            "path": "/h\u{43e}me/\u{202e}txt.exe\u{200b}",
            "esc": "\x1b]0;owned\x07\x1b[2J\x1b[1;1H",
            "c1": "\u{9b}2J",
            "\x1b[31mkey": "‹U+0041›",
        })
        .to_string(),
    );
    question.tool.name = "git\u{1d5c1}ub.cre\u{430}te\x1b[2J".into();
    question.tool.server = "github\u{200b}".into();
    question.tool.description = "harmless\r\x1b[1A\x1b[2K└ run? \u{202e}".into();
    question.target = "https://x/\x1b]52;c;aGk=\x07".into();
    let before = zsh.raw().len();
    let mut prompt = asked(&zsh, &daemon, "NO_COLOR=1 aish-helper ask x", &question);
    zsh.wait_text(KEYS);
    let shown = frame(&zsh).join("\n");
    for text in [
        "git‹U+1D5C1›ub.cre‹U+0430›te‹\\x1b›[2J",
        "server github‹U+200B›",
        "path             \"/h‹U+043E›me/‹\\u{202e}›txt.exe‹\\u{200b}›\"",
        "esc              \"\\u001b]0;owned\\u0007\\u001b[2J\\u001b[1;1H\"",
        "c1               \"‹\\u{9b}›2J\"",
        "\"\\u001b[31mkey\"  \"‹\\u{2039}›U+0041‹\\u{203a}›\"",
    ] {
        assert!(shown.contains(text), "{text}\n{shown}");
    }
    press_until(&zsh, "?", "schema");
    let shown = frame(&zsh).join("\n");
    assert!(
        shown.contains("harmless‹\\r›‹\\x1b›[1A‹\\x1b›[2K└ run? ‹\\u{202e}›"),
        "{shown}"
    );
    assert!(
        shown.contains("https://x/‹\\x1b›]52;c;aGk=‹\\x07›"),
        "{shown}"
    );
    // Enter alone is no.
    assert_eq!(
        verdict(press(&zsh, &mut prompt, "\r")).0,
        Verdict::No { words: None }
    );
    prompt.reply("stop");
    zsh.prompt();
    let raw = zsh.raw();
    let out = String::from_utf8_lossy(&raw[before..]).into_owned();
    for sequence in [
        "\x1b]0;",
        "\x1b]52",
        "\x1b[31m",
        "\x1b[1;1H",
        "\u{202e}",
        "\u{200b}",
        "\u{9b}",
    ] {
        // zsh's own `clear` homes the cursor.
        let times = out.matches(sequence).count();
        assert_eq!(times, 0, "{sequence:?} {out:?}");
    }
}

#[test]
fn all_that_is_known_is_shown_on_request() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let mut question = question("{}");
    question.tool.trusted = false;
    question.of = 3;
    let mut prompt = asked(&zsh, &daemon, "aish-helper ask x", &question);
    zsh.wait_text(KEYS);
    press_until(&zsh, "?", "\"type\": \"string\"");
    zsh.wait_for("the keys again", |s| {
        s.contents().matches("└ run?").count() >= 2
    });
    let lines = frame(&zsh);
    assert_eq!(
        lines[0],
        "┌ github.create_issue  1 of 3                writes · destructive? no (its word) · server github"
    );
    assert_eq!(lines[1], "│ no arguments");
    let at = lines
        .iter()
        .rposition(|l| l.starts_with("│ server "))
        .expect("details");
    assert_eq!(
        lines[at - 8..at - 3],
        [
            "│ y                yes, this once, with these arguments",
            "│ n, Enter         no",
            "│ a                yes, and in this session to this tool, whatever its arguments",
            "│ s                yes, and in this session to all 14 tools, 4 of them may write (its word) of this server",
            "│ e                edit the arguments, then be asked again",
        ]
    );
    assert_eq!(
        lines[at..at + 10],
        [
            "│ server           github at https://mcp.example/github",
            "│ title            Create an issue",
            "│ only reads       no",
            "│ may destroy      no",
            "│ safe to repeat   not said",
            "│ reaches outside  yes",
            "│ trusted          no, this is its server's word alone",
            "│ description      Files an issue.",
            "│                  In a repository.",
            "│ schema",
        ]
    );
    verdict(press(&zsh, &mut prompt, "s"));
    zsh.wait_text("server for this session: all 14 tools, 4 of them may write (its word)");
    prompt.reply("stop");
    zsh.prompt();
}

#[test]
fn few_columns_tear_no_words_and_hide_no_keys() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let tty = zsh.eval("print -rn -- $TTY");
    let columns = |n: u32| format!("stty -F {} cols {n} rows 12", tty.trim());
    let mut question = question(&json!({"text": "word ".repeat(200)}).to_string());
    question.tool.name = "files.move".into();
    question.tool.server = "files".into();
    question.tool.description =
        "Moves a file or a directory from one place to another place of it".into();
    for width in [40, 60] {
        let line = format!("{}; aish-helper ask x", columns(width));
        let mut prompt = asked(&zsh, &daemon, &line, &question);
        zsh.wait_text(KEYS);
        if width == 40 {
            assert_eq!(
                frame(&zsh)[1..3],
                ["│ writes · destructive? no · server", "│   files"]
            );
        }
        // All at once, and nothing of it is passed over.
        press_until(&zsh, "j", "more: [space] [k] [G] [q]");
        press_until(&zsh, "G", "word \"");
        press_until(&zsh, "?", "more: [space] [k] [G] [q]");
        let seen = zsh.raw().len();
        press_until(&zsh, "\x1b[F", "\"type\": \"object\"");
        zsh.wait_for("the keys again", |s| {
            s.contents().trim_end().ends_with(KEYS)
        });
        let raw = String::from_utf8_lossy(&zsh.raw()[seen..]).into_owned();
        for word in question.tool.description.split(' ') {
            assert!(raw.contains(word), "{word}: {raw:?}");
        }
        assert_eq!(verdict(press(&zsh, &mut prompt, "y")).0, Verdict::Once);
        prompt.reply("stop");
        zsh.prompt();
    }
    zsh.run(&format!("stty -F {} cols 120 rows 50", tty.trim()));
}

#[test]
fn the_keys_fit_96_columns() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let tty = zsh.eval("print -rn -- $TTY");
    let line = format!("stty -F {} cols 96; aish-helper ask x", tty.trim());
    let mut prompt = asked(&zsh, &daemon, &line, &question("{}"));
    zsh.wait_text(KEYS);
    assert_eq!(frame(&zsh).len(), 3, "{}", zsh.screen());
    verdict(press(&zsh, &mut prompt, "n"));
    prompt.reply("stop");
    zsh.prompt();
}

#[test]
fn a_narrow_terminal_and_one_that_changes_show_all_of_it() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    let tty = zsh.eval("print -rn -- $TTY");
    let columns = |n: u32| format!("stty -F {} cols {n} rows 40", tty.trim());
    let line = format!("{}; aish-helper ask x; {}", columns(20), columns(120));
    let arguments = r#"{"title":"a rather long title it is"}"#;
    let mut prompt = asked(&zsh, &daemon, &line, &question(arguments));
    zsh.wait_text(KEYS);
    assert_eq!(
        frame(&zsh),
        [
            "┌ github.create_issu",
            "│   e",
            "│ writes ·",
            "│   destructive? no",
            "│   · server github",
            "│ title  \"a rather l",
            "│        ong title i",
            "│        t is\"",
            "└ run? [y]es  [n]o",
            "  [a]lways this session",
            "  [s]erver this session",
            "  [e]dit",
            "  [d]eny, say why",
            "  [?]",
        ]
    );
    // From another terminal, as a window that is dragged: the question is drawn anew.
    let status = std::process::Command::new("stty")
        .args(["-F", tty.trim(), "cols", "120", "rows", "50"])
        .status()
        .expect("stty");
    assert!(status.success());
    zsh.wait_text("│ title  \"a rather long title it is\"");
    assert_eq!(verdict(press(&zsh, &mut prompt, "y")).0, Verdict::Once);
    prompt.reply("stop");
    zsh.prompt();
}
