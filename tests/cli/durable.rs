//! No acknowledged answer is lost, whenever the daemon is killed.

use std::io::Write;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};

use crate::fakes::provider::{Provider, Script};
use crate::support::helper::{Helper, records};

/// Answers each prompt with its last message, backwards, word by word.
fn mirror() -> Helper {
    Helper::with(Provider::answering(|request| {
        let messages = request.json["messages"].as_array().expect("messages");
        let last = messages.last().expect("a message");
        Script::tokens(answer(last["content"].as_str().expect("text")))
    }))
}

fn answer(prompt: &str) -> Vec<String> {
    prompt
        .split(' ')
        .rev()
        .map(|word| format!("{word} "))
        .collect()
}

#[test]
fn every_answer_that_was_shown_is_in_the_journal() {
    let helper = mirror();
    helper.call(["start"]).run().ok();
    let mut answered = Vec::new();
    let mut killed = 0;
    for n in 0..40_u64 {
        let prompt = format!(
            "prompt {n} {}",
            "and many more words ".repeat(n as usize * 20)
        );
        let prompt = prompt.trim();
        let ask = helper.call(["ask", "--shell", "s1", "--", prompt]).start();
        // The kill hits anywhere from the connect to long after the reply; the delay only spreads the kills.
        std::thread::sleep(Duration::from_micros(n * 7919 % 40 * 1000));
        if let Some(pid) = helper.listener() {
            killed += usize::from(kill(pid, Signal::SIGKILL).is_ok());
        }
        let run = ask.finish();
        if run.code == 0 {
            assert_eq!(run.stdout.trim_end(), answer(prompt).concat().trim_end());
            answered.push(prompt.to_owned());
        } else {
            run.fails(1);
        }
    }
    assert!(killed > 20, "{killed}");
    // Opening the session repairs an incomplete last line.
    helper.ask("the last one");
    let records = helper.records();
    for prompt in &answered {
        let index = records
            .iter()
            .position(|r| r["type"] == "user" && r["prompt"] == prompt.as_str())
            .expect("the prompt");
        assert_eq!(records[index + 1]["type"], "assistant");
        assert_eq!(records[index + 1]["text"], answer(prompt).concat());
        assert_eq!(records[index + 1]["finish"], "stop");
    }
    // A kill right after a file was created leaves it empty, which no list of sessions shows.
    let mut sessions = helper.sessions();
    sessions.retain(|file| std::fs::metadata(file).expect("a file").len() > 0);
    assert_eq!(sessions.len(), 1);
}

#[test]
fn an_incomplete_last_line_is_removed_and_nothing_else() {
    let helper = mirror();
    helper.ask("one two");
    helper.call(["stop"]).run().ok();
    let file = helper.sessions().remove(0);
    let before = std::fs::read(&file).unwrap();
    let first = records(&file);
    let cuts = [
        &b"{"[..],
        b"{\"v\":1,\"id\":\"\xe2\x9c",
        b"\0\0\0\0",
        b"{\"v\":1}",
    ];
    for (n, fragment) in cuts.iter().enumerate() {
        let mut out = std::fs::OpenOptions::new()
            .append(true)
            .open(&file)
            .unwrap();
        out.write_all(fragment).unwrap();
        drop(out);
        helper.ask("again");
        assert_eq!(helper.messages(n + 1).len(), 4 + 2 * n);
        helper.call(["stop"]).run().ok();
        assert!(std::fs::read(&file).unwrap().starts_with(&before));
        assert_eq!(records(&file).len(), first.len() + 2 * (n + 1));
    }
    // An invalid line in the middle is kept and ignored.
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen('\n', "\nno record at all\n", 1)).unwrap();
    helper.ask("again");
    assert_eq!(helper.messages(cuts.len() + 1).len(), 4 + 2 * cuts.len());
    assert!(
        std::fs::read_to_string(&file)
            .unwrap()
            .contains("\nno record at all\n")
    );
}

#[test]
fn a_journal_of_a_later_version_is_kept() {
    let helper = mirror();
    helper.ask("one");
    helper.call(["stop"]).run().ok();
    let file = helper.sessions().remove(0);
    let mut text = std::fs::read_to_string(&file).unwrap();
    text.push_str("{\"v\":9,\"id\":\"x\",\"at_ms\":1,\"type\":\"hologram\",\"depth\":3}\n");
    std::fs::write(&file, &text).unwrap();
    helper.ask("two");
    assert_eq!(helper.messages(1).len(), 4);
    assert!(std::fs::read_to_string(&file).unwrap().starts_with(&text));
}

#[test]
fn every_text_that_was_shown_before_a_kill_is_in_the_history() {
    let words: Vec<String> = (0..4000)
        .map(|n| match n % 7 {
            0 => format!("Wörter {n}: "),
            1 => "see http://127.0.0.1:8080/v1 and ".to_owned(),
            2 => "\n- `sk` and password = secret\n".to_owned(),
            3 => "```sh\necho $HOME\n```\n".to_owned(),
            _ => format!("and {n} more words "),
        })
        .collect();
    let answer = words.clone();
    let helper = Helper::with(Provider::answering(move |_| Script::tokens(&answer)));
    let whole = words.concat();
    let mut cut_off = 0;
    for n in 0..200_u64 {
        // On a busy machine, many kills hit before the answer begins.
        if n >= 40 && cut_off > 5 {
            break;
        }
        helper.call(["start"]).run().ok();
        let shell = format!("s{n}");
        let ask = helper.call(["ask", "--shell", &shell, "--", "x"]).start();
        // The kill hits anywhere in the answer; the delay only spreads the kills.
        std::thread::sleep(Duration::from_micros(5_000 + n * 7919 % 40 * 2000));
        if let Some(pid) = helper.listener() {
            let _ = kill(pid, Signal::SIGKILL);
        }
        let shown = ask.finish().stdout;
        let shown = shown.trim_end();
        assert!(whole.starts_with(shown), "{shown}");
        let history = helper.call(["session", "show", "--shell", &shell]).run();
        if shown.is_empty() {
            continue;
        }
        let history = history.ok();
        cut_off += usize::from(history.contains("[cut off: the daemon was killed]"));
        assert!(
            history.contains(shown),
            "{n}: shown {:?}\nhistory {:?}",
            &shown[shown.len().saturating_sub(200)..],
            &history[history.len().saturating_sub(300)..]
        );
    }
    assert!(cut_off > 5, "{cut_off}");
}
