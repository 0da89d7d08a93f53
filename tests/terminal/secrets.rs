//! Secrets of all formats in the output of a command in a real tmux: none reaches the model, neither with a prompt nor by the tool.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use aho_corasick::AhoCorasick;
use aish::safety::redact::Redactor;

use super::multiplexer::{Kind, Shell};
use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;
use samples::samples_of;

#[path = "../../src/safety/redact/tests/samples.rs"]
mod samples;

/// Columns of the terminal.
const COLUMNS: usize = 80;

/// Longest part of a secret that may be left: what is known of its form, such as `github_pat_`.
const PART: usize = 12;

/// Texts with a secret, and the secrets, several of each format. Made up by chance, so that some do not look random enough; those
/// that the redactor does not find in plain text are left out.
fn samples() -> Vec<(String, String)> {
    let redactor = Redactor::default();
    let all = [7, 21, 58].into_iter().flat_map(samples_of);
    let found = all.filter(|(_, text, secret)| !redactor.redact(text).contains(secret));
    let samples: Vec<(String, String)> = found
        .map(|(_, text, secret)| (text.trim_end().to_owned(), secret))
        .collect();
    assert!(samples.len() >= 200, "{}", samples.len());
    samples
}

/// Starts a helper whose model calls the tool `terminal_output` when the prompt names it, without a question.
fn helper() -> Helper {
    let provider = Provider::answering(|request| {
        let messages = request.json["messages"].as_array().expect("messages");
        let last = messages.last().expect("a message");
        let text = last["content"].as_str().unwrap_or_default();
        match last["role"] == "user" && text.ends_with("by the tool") {
            true => Script::calls("", &[("c1", "terminal_output", r#"{"lines":2000}"#)]),
            false => Script::tokens(["fine"]),
        }
    });
    let helper = Helper::with(provider);
    helper.config(
        "[context]\noutput_bytes = 262144\n[mcp]\nmax_result_bytes = 1000000\n\
         [policy.rules]\n\"shell.output\" = \"allow\"\n",
    );
    helper
}

#[test]
fn a_secret_is_removed_wherever_a_program_prints_it() {
    let helper = Helper::saying("fine");
    let mut shell = Shell::start(&helper, Kind::Tmux, "PROMPT='$ '");
    let token = concat!("ghp_", "abcdefghijklmnopqrstuvwxyz0123456789");
    let password = "q7Rk2ZpL9vXw3TbN";
    for command in [
        format!("printf '%070d' 0; echo {token} end"),
        format!("printf 'x'; echo {token} end"),
        format!("login() {{ echo \"as${{2}}0\"; false; }}; login --password {password} end"),
    ] {
        shell.run(&command);
        shell.run("llm --output what is this");
        let content = last_content(&helper);
        assert!(content.contains("<output"), "{content}");
        for secret in ["abcdefgh", "q7Rk2Z"] {
            assert!(!content.contains(secret), "{content}");
        }
    }
}

/// Checks that no request has a part of a secret.
fn check_requests(helper: &Helper, samples: &[(String, String)]) {
    let mut parts = BTreeSet::new();
    for (_, secret) in samples {
        for line in secret.split(['\n', '\\']) {
            let line: Vec<char> = line.chars().filter(|c| *c != '-').collect();
            let windows = line.windows(PART.min(line.len().max(1)));
            parts.extend(windows.map(|part| part.iter().collect::<String>()));
        }
    }
    // The names of the formats of private keys are in every one of them.
    let names = "BEGIN RSA PRIVATE KEY, END RSA PRIVATE KEY, BEGIN OPENSSH PRIVATE KEY, END OPENSSH PRIVATE KEY";
    parts.retain(|part| part.len() >= 6 && !names.contains(part.as_str()));
    let parts: Vec<String> = parts.into_iter().collect();
    let finder = AhoCorasick::new(&parts).expect("a finder");
    for request in helper.provider.requests() {
        let body = request.json.to_string();
        let leaks: BTreeSet<&str> = finder
            .find_iter(&body)
            .map(|found| &body[found.start()..found.end()])
            .collect();
        assert!(leaks.is_empty(), "{leaks:?} in {body}");
    }
}

/// Returns the content of the last message of the last request.
fn last_content(helper: &Helper) -> String {
    let last = helper.provider.requests().pop().expect("a request");
    let messages = last.json["messages"].as_array().expect("messages");
    let content = messages
        .last()
        .and_then(|message| message["content"].as_str());
    content.expect("text").to_owned()
}

/// Returns the number of marks in what the last request ends with, which is the whole output: its first and last line are there.
fn marks(helper: &Helper) -> usize {
    let content = last_content(helper);
    for line in ["the first line", "the last line"] {
        assert!(content.contains(line), "{line}: {content}");
    }
    content.matches("[REDACTED:").count()
}

/// Asks about the output of the last command, with the output sent with the prompt and by the tool.
fn check_output(helper: &Helper, shell: &mut Shell<'_>, samples: &[(String, String)]) {
    shell.run("llm --output what is this");
    assert!(last_content(helper).contains("<output command="));
    let sent = marks(helper);
    shell.run("llm look at it by the tool");
    let told = marks(helper);
    check_requests(helper, samples);
    assert!(
        sent >= samples.len() && told >= samples.len(),
        "{sent} and {told} of {}",
        samples.len()
    );
}

/// Prints all secrets, as `styled` writes the line of one, and checks what the model gets.
fn check(kind: Kind, styled: impl Fn(&str, &str) -> String) {
    let samples = samples();
    let helper = helper();
    let mut shell = Shell::start(&helper, kind, "PROMPT='$ '");
    let mut text = "the first line\n".to_owned();
    for (line, secret) in &samples {
        writeln!(text, "{}", styled(line, secret)).expect("a line");
    }
    text.push_str("the last line\n");
    std::fs::write(helper.home.path("text"), text).expect("a file");
    shell.run("cat $HOME/text");
    check_output(&helper, &mut shell, &samples);
}

#[test]
fn plain_secrets_do_not_reach_the_model() {
    check(Kind::Tmux, |line, _| line.to_owned());
}

#[test]
fn coloured_secrets_do_not_reach_the_model() {
    check(Kind::Tmux, coloured);
}

/// Returns the line with a colour before each character.
fn coloured(line: &str, _: &str) -> String {
    let mut text = String::new();
    for (n, c) in line.chars().enumerate() {
        write!(text, "\x1b[{}m{c}", 31 + n % 7).expect("a character");
    }
    text + "\x1b[0m"
}

/// Returns the line with its secret in two rows.
fn wrapped(line: &str, secret: &str) -> String {
    let length = secret.lines().next().map_or(0, str::len);
    pushed(line, line.find(secret).expect("the secret") + length / 2)
}

/// Returns the line with so much before it that the character number `at` is the first one of a row.
fn pushed(line: &str, at: usize) -> String {
    match COLUMNS.checked_sub(at + 1) {
        Some(dots) => format!("{} {line}", ".".repeat(dots)),
        None => line.to_owned(),
    }
}

#[test]
fn wrapped_secrets_do_not_reach_the_model() {
    check(Kind::Tmux, wrapped);
}

#[test]
fn secrets_at_the_start_of_a_row_do_not_reach_the_model() {
    check(Kind::Tmux, |line, secret| {
        pushed(line, line.find(secret).expect("the secret"))
    });
}

#[test]
fn coloured_and_wrapped_secrets_of_a_recording_do_not_reach_the_model() {
    for kind in [Kind::RecordedPane, Kind::Relay] {
        check(kind, |line, secret| {
            coloured(&wrapped(line, secret), secret)
        });
    }
}

#[test]
fn wrapped_secrets_in_screen_do_not_reach_the_model() {
    check(Kind::Screen, wrapped);
}

#[test]
fn secrets_that_a_program_breaks_at_the_edge_do_not_reach_the_model() {
    check(Kind::Tmux, |line, secret| {
        let mut text = String::new();
        for row in wrapped(line, secret).lines() {
            for (n, c) in row.chars().enumerate() {
                text.extend((n > 0 && n % COLUMNS == 0).then_some('\n'));
                text.push(c);
            }
            text.push('\n');
        }
        text
    });
}

#[test]
fn secrets_that_a_program_echoes_do_not_reach_the_model() {
    let samples = samples();
    let helper = helper();
    let mut shell = Shell::start(&helper, Kind::Tmux, "PROMPT='$ '");
    let mut text = "the first line\n".to_owned();
    for (line, _) in &samples {
        writeln!(text, "{line}").expect("a line");
    }
    text.push_str("the last line\n");
    let file = helper.home.path("text");
    std::fs::write(&file, text).expect("a file");
    shell.keys("print rea''dy; cat >/dev/null");
    shell.press("Enter");
    // The terminal echoes what is typed from here on.
    shell.wait_text("\nready\n");
    shell.tmux(&["load-buffer", file.to_str().expect("a path")]);
    shell.tmux(&["paste-buffer"]);
    shell.wait_text("the last line");
    shell.press("C-d");
    shell.wait();
    check_output(&helper, &mut shell, &samples);
}

#[test]
fn secrets_in_command_lines_do_not_reach_the_model() {
    let samples = samples();
    let helper = helper();
    let mut shell = Shell::start(&helper, Kind::Tmux, "PROMPT='$ '");
    for batch in samples.chunks(80) {
        for some in batch.chunks(10) {
            let words = some
                .iter()
                .map(|(line, _)| format!(" '{}'", line.replace('\'', "'\\''")));
            shell.run(&format!("false{}", words.collect::<String>()));
        }
        shell.run("llm fix it");
        let content = last_content(&helper);
        assert!(
            content.matches("[REDACTED:").count() >= batch.len(),
            "{content}"
        );
    }
    // The screen has all of them, and one output.
    shell.run("echo harmless");
    shell.run("llm --output what is this");
    let content = last_content(&helper);
    assert!(content.contains("\nharmless\n</output>"), "{content}");
    shell.run("llm look at it by the tool");
    assert!(last_content(&helper).ends_with("\nharmless"));
    check_requests(&helper, &samples);
}
