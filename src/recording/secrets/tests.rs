use std::collections::BTreeSet;

use aho_corasick::AhoCorasick;

use super::*;
use crate::recording::part::RecordingPart;
use crate::recording::screen::ScreenEmulator;
use crate::recording::tests::TestRecording;
use crate::recording::{asciicast, transcript};
use crate::safety::redact::tests::samples::samples_of;

/// Width of the recorded terminal.
const COLS: u16 = 40;
const ROWS: u16 = 12;

/// Longest part of a secret that may be left: what is known of its form, such as `github_pat_`.
const PART: usize = 12;

/// The whole recording as text.
fn whole_text(recording: &Recording, secrets: &RecordingSecrets) -> String {
    let mut text = Vec::new();
    let part = RecordingPart::whole(recording);
    transcript::export(recording, &part, secrets, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// Secrets with the text around them, in all formats that the redactor knows, several of each. Made up by chance, so that some
/// do not look random enough; those that the redactor does not find in plain text are none of this module's business.
fn samples() -> Vec<(String, String)> {
    let redactor = Redactor::default();
    let all = [7, 21, 58].into_iter().flat_map(samples_of);
    let samples: Vec<_> = all
        .filter(|(_, text, secret)| !redactor.redact(text).contains(secret))
        .map(|(_, text, secret)| (text.replace("\r\n", "\n"), secret))
        .collect();
    assert!(samples.len() >= 200, "{}", samples.len());
    samples
}

/// Finds parts of secrets.
struct LeakFinder {
    parts: Vec<String>,
    finder: AhoCorasick,
}

impl LeakFinder {
    fn new(samples: &[(String, String)]) -> LeakFinder {
        let mut parts = BTreeSet::new();
        for (_, secret) in samples {
            for line in secret.split(['\n', '\\']) {
                let line: Vec<char> = line.chars().collect();
                let windows = line.windows(PART.min(line.len().max(1)));
                parts.extend(windows.map(|part| part.iter().collect::<String>()));
            }
        }
        parts.retain(|part| part.len() >= 6 && !part.starts_with('-') && !part.ends_with('-'));
        // Names the format, and is the same in every key.
        parts.retain(|part| {
            !"-----BEGIN RSA PRIVATE KEY----------END OPENSSH PRIVATE KEY-----"
                .contains(part.as_str())
        });
        let parts: Vec<String> = parts.into_iter().collect();
        LeakFinder {
            finder: AhoCorasick::new(&parts).unwrap(),
            parts,
        }
    }

    fn check(&self, style: &str, place: &str, text: &str) {
        if let Some(hit) = self.finder.find(text) {
            let start = hit.start().saturating_sub(60);
            let around =
                &String::from_utf8_lossy(&text.as_bytes()[start..(hit.end() + 60).min(text.len())]);
            let part = &self.parts[hit.pattern().as_usize()];
            panic!("{style}: {part:?} is in the {place}: {around:?}");
        }
    }
}

/// The rows of a screen, joined where they are full, as a person reads on.
fn shown(screen: &ScreenEmulator) -> String {
    let mut text = String::new();
    for line in screen.terminal().screen().visible_lines() {
        let row = line.text();
        text.push_str(row.trim_end());
        if !line.is_wrapped() && row.ends_with(' ') {
            text.push('\n');
        }
    }
    text
}

/// Exports a recording, and checks that no secret is in the exports or shows up when the cast is played.
fn check_exports(style: &str, recording: &Recording, leaks: &LeakFinder) -> (String, String) {
    let secrets =
        RecordingSecrets::find(recording, &Redactor::default(), &OwnNames::default()).unwrap();
    let mut cast = Vec::new();
    asciicast::export(
        recording,
        &RecordingPart::whole(recording),
        &secrets,
        &mut cast,
    )
    .unwrap();
    let cast = String::from_utf8(cast).unwrap();
    let text = whole_text(recording, &secrets);
    leaks.check(style, "text", &text);
    leaks.check(style, "text without line ends", &text.replace('\n', ""));
    let mut screen = ScreenEmulator::new(recording.start.cols, recording.start.rows).unwrap();
    let mut output = String::new();
    for line in cast.lines().skip(1) {
        let (_, code, data): (f64, String, String) = serde_json::from_str(line).unwrap();
        leaks.check(style, &code, &data);
        if code == "o" {
            screen.feed(data.as_bytes());
            leaks.check(style, "frame", &shown(&screen));
            output.push_str(&data);
        }
    }
    leaks.check(style, "cast", &cast);
    let plain = strip_ansi_escapes::strip_str(&output);
    leaks.check(style, "cast without escapes", &plain);
    leaks.check(
        style,
        "cast without escapes and line ends",
        &plain.replace('\n', ""),
    );
    (cast, text)
}

/// Makes a recording with a piece of output per sample, and checks its exports.
fn check(style: &str, cols: u16, mut write: impl FnMut(&mut TestRecording, &str, &str)) {
    let samples = samples();
    let leaks = LeakFinder::new(&samples);
    let mut recording = TestRecording::new(cols, ROWS);
    for (text, secret) in &samples {
        recording.wait(1000).output("output before\r\n");
        write(&mut recording, text, secret);
        recording.output("\r\nbetween\r\n");
    }
    let (cast, text) = check_exports(style, &recording.open(), &leaks);
    // What is not a secret is still there, except after a private key whose end was erased.
    for export in [cast, text] {
        assert!(
            export.matches("between").count() * 20 > samples.len() * 19,
            "{style}"
        );
    }
}

fn terminal_text(text: &str) -> String {
    text.replace('\n', "\r\n")
}

#[test]
fn secrets_in_plain_output_are_not_exported() {
    check("plain", 200, |recording, text, _| {
        recording.output(terminal_text(text));
    });
}

#[test]
fn colored_secrets_are_not_exported() {
    check("colored", 200, |recording, text, secret| {
        // A colour in the middle, and one for each character.
        let (a, b) = secret.split_at(secret.len() / 2);
        let colored = text.replace(secret, &format!("\x1b[1m{a}\x1b[38;5;200m{b}\x1b[0m"));
        recording.output(terminal_text(&colored));
        recording.output("\r\n");
        let each: String = secret
            .chars()
            .map(|c| format!("\x1b[3{}m{c}", c as u32 % 8))
            .collect();
        recording.output(terminal_text(&text.replace(secret, &each)));
    });
}

#[test]
fn secrets_split_over_writes_are_not_exported() {
    check("split", 200, |recording, text, _| {
        let text = terminal_text(text);
        for (at, piece) in text.as_bytes().chunks(3).enumerate() {
            recording.wait(10).output(piece);
            if at % 5 == 0 {
                recording
                    .output("\x1b[3")
                    .output("1m")
                    .output("\x1b]0;title\x07");
            }
        }
    });
}

#[test]
fn secrets_wrapped_by_the_terminal_are_not_exported() {
    for cols in [COLS, 23] {
        check("wrapped", cols, |recording, text, _| {
            recording.output(terminal_text(text));
        });
    }
}

#[test]
fn secrets_wrapped_by_the_program_are_not_exported() {
    check("hard-wrapped", COLS, |recording, text, _| {
        for line in text.lines() {
            let chars: Vec<char> = line.chars().collect();
            for row in chars.chunks(usize::from(COLS)) {
                let row: String = row.iter().collect();
                recording.output(row + "\r\n");
            }
        }
    });
    // As zle does: the first character of the next row makes the terminal wrap, and is printed again.
    check("zle", COLS, |recording, text, _| {
        for line in text.lines() {
            let chars: Vec<char> = line.chars().collect();
            let rows: Vec<String> = chars
                .chunks(usize::from(COLS))
                .map(|row| row.iter().collect())
                .collect();
            recording.output(rows.join(" \r") + "\r\n");
        }
    });
}

/// Nobody types a private key.
fn is_typed(secret: &str) -> bool {
    !secret.contains('\n') && secret.len() < 160
}

#[test]
fn secrets_that_are_typed_are_not_exported() {
    // Redrawn with each key.
    check("redrawn", 220, |recording, text, secret| {
        for line in text.lines().filter(|_| is_typed(secret)) {
            let chars: Vec<char> = line.chars().collect();
            for end in 1..=chars.len() {
                let typed: String = chars[..end].iter().collect();
                recording.wait(100_000).output(format!("\r\x1b[K$ {typed}"));
            }
            recording.output("\r\n");
        }
    });
    // The last word is recoloured with each key.
    check("highlighted", 220, |recording, text, secret| {
        for line in text.lines().filter(|_| is_typed(secret)) {
            let mut word = String::new();
            for c in line.chars() {
                recording.output(c.to_string());
                word.push(c);
                if c == ' ' {
                    word.clear();
                }
                let back = "\x08".repeat(word.chars().count());
                recording.output(format!("{back}\x1b[4m\x1b[32m{word}\x1b[0m"));
            }
            recording.output("\r\n");
        }
    });
}

#[test]
fn secrets_drawn_out_of_order_are_not_exported() {
    check("moved", 1000, |recording, text, _| {
        for line in text.lines().filter(|line| (1..900).contains(&line.len())) {
            let chars: Vec<char> = line.chars().collect();
            let (a, b) = chars.split_at(chars.len() / 2);
            let (a, b): (String, String) = (a.iter().collect(), b.iter().collect());
            recording.output(format!("\x1b[{}G{b}", a.len() + 1));
            recording.output(format!("\r{a}\x1b[1B\r\n"));
        }
    });
    // Characters inserted before others.
    check("inserted", 1000, |recording, text, _| {
        for line in text.lines().filter(|line| (1..900).contains(&line.len())) {
            let (a, b) = line.split_at(line.len() / 3);
            recording.output(format!("{b}\r\x1b[4h{a}\x1b[4l\r\n"));
        }
    });
}

#[test]
fn secrets_that_are_gone_at_once_are_not_exported() {
    check("erased", 1000, |recording, text, _| {
        let lines: Vec<&str> = text.lines().collect();
        recording.output(lines.join("\r\n") + "\r\x1b[K\x1b[2J\x1b[H\r\n");
    });
    check("scrolled", 200, |recording, text, _| {
        let text = terminal_text(text);
        recording.output(format!("{text}{}", "\r\nx".repeat(100)));
    });
    check("alternate", 200, |recording, text, _| {
        let text = terminal_text(text);
        recording.output(format!("\x1b[?1049h\x1b[H{text}\x1b[?1049l"));
    });
}

/// A secret is known from the place where its name is beside it.
#[test]
fn a_value_is_redacted_everywhere_once_it_is_known() {
    let mut recording = TestRecording::new(80, 24);
    recording.output("what is Qw7zKp93Lx here?\r\nQw7zKp93L\r\n");
    recording.command("1-a@1", "curl -u me:Qw7zKp93Lx http://x", "ok\r\n");
    recording
        .output("password=Qw7zKp93Lx\r\n")
        .output("日本 password=\x1b[1mQw7zKp93Lx\r\n");
    let leaks = LeakFinder::new(&[(String::new(), "Qw7zKp93Lx".into())]);
    let (cast, text) = check_exports("known", &recording.open(), &leaks);
    assert!(
        text.contains("what is ********** here?\n*********\n"),
        "{text}"
    );
    assert!(text.contains("日本 password=**********\n"), "{text}");
    assert!(cast.contains("[REDACTED"), "{cast}");
}

#[test]
fn values_of_the_configuration_are_redacted() {
    let redactor = Redactor::default();
    redactor.add_secret("model-key", "plain-Words-that-are-a-key");
    let mut recording = TestRecording::new(16, 24);
    recording.output("see plain-Words-that-are-a-key\r\n");
    let recording = recording.open();
    let secrets = RecordingSecrets::find(&recording, &redactor, &OwnNames::default()).unwrap();
    let text = whole_text(&recording, &secrets);
    assert_eq!(text, "see [REDACTED:model-key]******\n");
    assert_eq!(secrets.len(), 26);
}

/// The mark takes the place of the secret, so that everything else stays where it was.
#[test]
fn replacements_keep_the_layout() {
    let mut recording = TestRecording::new(80, 24);
    let key = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    recording.output(format!("│ {key} │\r\n│ {} │\r\n", "x".repeat(40)));
    let recording = recording.open();
    let secrets =
        RecordingSecrets::find(&recording, &Redactor::default(), &OwnNames::default()).unwrap();
    let text = whole_text(&recording, &secrets);
    let mark = "[REDACTED:github-token]";
    let filled = format!("{mark}{}", "*".repeat(40 - mark.len()));
    let expected = format!("│ {filled} │\n│ {} │\n", "x".repeat(40));
    assert_eq!(text, expected);
}

/// Names take as much room as before, however they are written.
#[test]
fn names_of_the_user_are_replaced_in_place() {
    let names = OwnNames::new("/home/annabel", "annabel", "lab");
    let mut recording = TestRecording::new(20, 12);
    // In colours, key by key, over two writes, wrapped, and at a place of the screen.
    recording
        .output("\x1b[32manna\x1b[1mbel\x1b[m@la")
        .output("b:~%\r\n");
    for key in "cd /home/annabel/x".chars() {
        recording.wait(1).output(key.to_string());
    }
    recording.output("\r\n0123456789ab/home/annabel/y\r\n");
    recording.output("\x1b[6;3Hbel\x1b[6;1Hxx\x1b[7;1H-annabel|");
    recording.output("\r\n\\/home\\/annabel\\/z\r\n");
    recording.command("1-a@1", "ls /home/annabel", "/home/annabel2\r\n");
    let recording = recording.open();
    let secrets = RecordingSecrets::find(&recording, &Redactor::default(), &names).unwrap();
    let part = RecordingPart::whole(&recording);
    let (mut cast, mut text) = (Vec::new(), Vec::new());
    asciicast::export(&recording, &part, &secrets, &mut cast).unwrap();
    transcript::export(&recording, &part, &secrets, &mut text).unwrap();
    let (cast, text) = (
        String::from_utf8(cast).unwrap(),
        String::from_utf8(text).unwrap(),
    );
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "user***@***:~%");
    assert_eq!(lines[1], "cd ~************/x");
    assert_eq!(lines[2], "0123456789ab~************/y");
    assert!(text.contains("-user***|"), "{text}");
    // As JSON may have it.
    assert!(!text.contains("home\\/") && text.contains("\\/z"), "{text}");
    // A longer path is not the home directory, but it has the name.
    assert!(text.contains("/home/user***2"), "{text}");
    assert!(cast.contains("\"ls ~\""), "{cast}");
    assert!(!cast.contains("annabel"), "{cast}");
    assert_eq!(secrets.count(0, u64::MAX), 0);
}

#[test]
fn a_part_begins_at_the_prompt_of_its_first_command_and_ends_with_its_last() {
    let mut recording = TestRecording::new(80, 24);
    recording.event(RecordingEvent::Resize { cols: 60, rows: 20 });
    recording
        .output("$ before\r\n")
        .command("1-a@1", "before", "one\r\n");
    recording.wait(2_000_000).output("$ first\r\n");
    recording.command(
        "1-a@2",
        "first",
        "token=ghp_0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX\r\n",
    );
    recording.output("$ last\r\n").wait(3_000_000);
    recording.command("1-a@3", "last", "three\r\n");
    recording
        .output("$ behind\r\n")
        .command("1-a@4", "behind", "four\r\n");
    let recording = recording.open();
    let all = crate::recording::commands::commands(&recording).unwrap();
    let part = RecordingPart::of_commands(&recording, &all[1], &all[2]).unwrap();
    assert_eq!((part.cols, part.rows), (60, 20));
    assert_eq!(part.length_us(&recording).unwrap(), 5_000_000);
    let names = OwnNames::default();
    let secrets = RecordingSecrets::find(&recording, &Redactor::default(), &names).unwrap();
    let offset = |at: Option<crate::recording::reader::EventPosition>| at.unwrap().offset;
    assert_eq!(secrets.count(part.from.offset, offset(part.to)), 1);
    assert_eq!(secrets.count(0, part.from.offset), 0);
    let (mut cast, mut text) = (Vec::new(), Vec::new());
    asciicast::export(&recording, &part, &secrets, &mut cast).unwrap();
    transcript::export(&recording, &part, &secrets, &mut text).unwrap();
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "$ first\ntoken=[REDACTED:github-token]*****************\n$ last\nthree\n"
    );
    let cast = String::from_utf8(cast).unwrap();
    assert!(
        cast.contains("\"cols\":60") && cast.contains("\"timestamp\":1700000000"),
        "{cast}"
    );
    // Its time begins with it: the command without an end mark ends where the next prompt is.
    let second = cast.lines().nth(1).unwrap();
    assert!(second.starts_with("[2.000000, \"o\""), "{second}");
    let mut cut = TestRecording::new(80, 24);
    cut.output("$ a\r\n").event(RecordingEvent::CommandStart {
        command_id: "1-a@1".into(),
        text: Some("a".into()),
    });
    cut.output("one\r\n").event(RecordingEvent::Prompt);
    cut.output("two\r\n");
    let cut = cut.open();
    let all = crate::recording::commands::commands(&cut).unwrap();
    let part = RecordingPart::of_commands(&cut, &all[0], &all[0]).unwrap();
    let mut text = Vec::new();
    transcript::export(&cut, &part, &RecordingSecrets::default(), &mut text).unwrap();
    assert_eq!(String::from_utf8(text).unwrap(), "one\n");
}

#[test]
fn a_notice_about_a_job_that_is_not_in_the_history_is_not_exported() {
    let mut recording = TestRecording::new(80, 24);
    recording.command("1-a@1", "make -j4 &", "[2] 4711\r\n");
    recording.output("$ \r\n[1]  + done       ( sleep 3; : meet the doctor; )\r\n$ ");
    recording.command("1-a@2", "ls", "[2]  + exit 2     make -j4\r\nfile\r\n");
    let recording = recording.open();
    let secrets =
        RecordingSecrets::find(&recording, &Redactor::default(), &OwnNames::default()).unwrap();
    let text = whole_text(&recording, &secrets);
    assert!(!text.contains("doctor"), "{text}");
    assert!(text.contains(&format!("\n{}\n", "*".repeat(49))), "{text}");
    assert!(
        text.contains("[2]  + exit 2     make -j4\nfile\n"),
        "{text}"
    );
}
