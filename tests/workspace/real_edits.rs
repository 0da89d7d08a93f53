//! Edits that were really made, exact and disturbed.
//!
//! They are not ours to commit: `AISH_EDITS` names a file with one commit a line, as JSON with the `path`, the text before
//! (`file`), the `edits` to make one after the other (`old`, `new`, and the first `line`), and the text after (`result`).

use std::ffi::OsStr;
use std::fmt::Write as _;

use aish::workspace::edit::{EditRequest, edit};
use aish::workspace::failure::WorkspaceError;
use aish::workspace::text_file::TextFile;
use serde_json::Value;

struct RealEdit {
    old: String,
    new: String,
    line: usize,
}

struct EditCase {
    path: String,
    file: String,
    edits: Vec<RealEdit>,
    result: String,
}

fn cases(path: &OsStr) -> Vec<EditCase> {
    let text = std::fs::read_to_string(path).expect("the cases");
    let string = |value: &Value| value.as_str().expect("a text").to_owned();
    let read = |line: &str| {
        let case: Value = serde_json::from_str(line).expect("JSON");
        let edits = case["edits"].as_array().expect("edits").iter();
        EditCase {
            path: string(&case["path"]),
            file: string(&case["file"]),
            edits: edits
                .map(|edit| RealEdit {
                    old: string(&edit["old"]),
                    new: string(&edit["new"]),
                    line: edit["line"].as_u64().expect("a number") as usize,
                })
                .collect(),
            result: string(&case["result"]),
        }
    };
    text.lines().map(read).collect()
}

fn apply(bytes: &[u8], old: &str, new: &str) -> Result<(Vec<u8>, usize), WorkspaceError> {
    let file = TextFile::parse(bytes)?;
    let request = EditRequest {
        old,
        new,
        replace_all: false,
    };
    let outcome = edit(&file, bytes, request)?;
    Ok((outcome.bytes, outcome.places[0]))
}

#[derive(Default)]
struct Figures {
    edits: usize,
    right: usize,
    refused: usize,
    wrong_place: usize,
    wrong_text: usize,
    examples: String,
}

impl Figures {
    fn count(
        &mut self,
        case: &EditCase,
        edit: &RealEdit,
        expected: &[u8],
        result: Result<(Vec<u8>, usize), WorkspaceError>,
    ) {
        self.edits += 1;
        let what = match result {
            Ok((bytes, _)) if bytes == expected => {
                self.right += 1;
                return;
            }
            Ok((_, line)) if line.abs_diff(edit.line) > edit.old.lines().count() => {
                self.wrong_place += 1;
                format!("wrong place {line} for {}", edit.line)
            }
            Ok((bytes, _)) => {
                self.wrong_text += 1;
                let got = String::from_utf8_lossy(&bytes).into_owned();
                let want = String::from_utf8_lossy(expected).into_owned();
                let pair = got.lines().zip(want.lines()).find(|(a, b)| a != b);
                format!("wrong text {pair:?}")
            }
            Err(error) => {
                self.refused += 1;
                if expected == b"refused" {
                    return;
                }
                error.message
            }
        };
        if self.examples.lines().count() < 12 {
            writeln!(self.examples, "    {}:{}: {what}", case.path, edit.line).expect("text");
        }
    }

    fn print(&self, name: &str) {
        let share = 100.0 * self.right as f64 / self.edits.max(1) as f64;
        eprintln!(
            "{name}: {} edits, right {} ({share:.2} %), refused {}, wrong text {}, wrong place {}\n{}",
            self.edits, self.right, self.refused, self.wrong_text, self.wrong_place, self.examples
        );
    }
}

/// Disturbs a text.
type Disturb = fn(&str) -> String;

fn with_trailing_space(text: &str) -> String {
    by_line(text, |index, line| {
        if index % 2 == 0 {
            format!("{line}  ")
        } else {
            line.to_owned()
        }
    })
}

fn without_trailing_space(text: &str) -> String {
    by_line(text, |_, line| {
        line.trim_end_matches([' ', '\t']).to_owned()
    })
}

fn tabs_to_spaces(text: &str) -> String {
    by_line(text, |_, line| {
        let rest = line.trim_start_matches('\t');
        " ".repeat(4 * (line.len() - rest.len())) + rest
    })
}

fn spaces_to_tabs(text: &str) -> String {
    by_line(text, |_, line| {
        let rest = line.trim_start_matches(' ');
        let spaces = line.len() - rest.len();
        "\t".repeat(spaces / 4) + &" ".repeat(spaces % 4) + rest
    })
}

fn indented(text: &str) -> String {
    by_line(text, |_, line| {
        if line.is_empty() {
            String::new()
        } else {
            format!("    {line}")
        }
    })
}

fn typographic(text: &str) -> String {
    let mut opens = true;
    let quote = |c: char| match c {
        '"' => {
            opens = !opens;
            if opens { '”' } else { '“' }
        }
        '\'' => '’',
        c => c,
    };
    text.chars().map(quote).collect()
}

fn dashes(text: &str) -> String {
    text.replace(" - ", " – ")
}

fn no_break_spaces(text: &str) -> String {
    by_line(text, |_, line| {
        let rest = line.trim_start();
        let indent = &line[..line.len() - rest.len()];
        indent.to_owned() + &rest.replacen(' ', "\u{A0}", 1)
    })
}

fn crlf(text: &str) -> String {
    text.replace('\n', "\r\n")
}

fn marked(text: &str) -> String {
    format!("\u{FEFF}{text}")
}

fn by_line(text: &str, change: impl Fn(usize, &str) -> String) -> String {
    let lines: Vec<String> = text
        .split('\n')
        .enumerate()
        .map(|(index, line)| match line {
            "" => String::new(),
            line => change(index, line),
        })
        .collect();
    lines.join("\n")
}

/// Bytes of the file after an edit that was made exactly.
fn expected(before: &str, edit: &RealEdit) -> String {
    before.replacen(&edit.old, &edit.new, 1)
}

fn each_edit(cases: &[EditCase], mut check: impl FnMut(&EditCase, &RealEdit, &str, &str)) {
    for case in cases {
        let mut text = case.file.clone();
        for edit in &case.edits {
            let after = expected(&text, edit);
            check(case, edit, &text, &after);
            text = after;
        }
        assert_eq!(text, case.result, "{}", case.path);
    }
}

#[test]
fn real_edits_are_made_exactly_or_refused() {
    let Some(path) = std::env::var_os("AISH_EDITS") else {
        return;
    };
    let cases = cases(&path);
    eprintln!("{} commits", cases.len());
    let mut exact = Figures::default();
    each_edit(&cases, |case, edit, before, after| {
        exact.count(
            case,
            edit,
            after.as_bytes(),
            apply(before.as_bytes(), &edit.old, &edit.new),
        );
    });
    exact.print("exact");
    assert_eq!(exact.right, exact.edits);

    let model: [(&str, Disturb); 10] = [
        ("model adds trailing space", with_trailing_space),
        ("model drops trailing space", without_trailing_space),
        ("model writes spaces for tabs", tabs_to_spaces),
        ("model writes tabs for spaces", spaces_to_tabs),
        ("model indents more", indented),
        ("model writes CRLF", crlf),
        ("model writes a byte order mark", marked),
        ("model writes typographic quotes", typographic),
        ("model writes dashes", dashes),
        ("model writes no-break spaces", no_break_spaces),
    ];
    let mut disturbed = Figures::default();
    for (name, disturb) in model {
        let mut figures = Figures::default();
        each_edit(&cases, |case, edit, before, after| {
            let (old, new) = (disturb(&edit.old), disturb(&edit.new));
            if old == edit.old || old == new {
                return;
            }
            let result = apply(before.as_bytes(), &old, &new);
            figures.count(case, edit, after.as_bytes(), result);
        });
        figures.print(name);
        disturbed.add(&figures);
    }
    let file: [(&str, Disturb); 6] = [
        ("file has CRLF", crlf),
        ("file has a byte order mark", marked),
        ("file has CRLF and a byte order mark", |text| {
            marked(&crlf(text))
        }),
        ("file has typographic quotes", typographic_everywhere),
        ("file has trailing space", |text| {
            by_line(text, |_, line| format!("{line} "))
        }),
        ("file is indented with tabs", spaces_to_tabs),
    ];
    for (name, disturb) in file {
        let mut figures = Figures::default();
        each_edit(&cases, |case, edit, before, after| {
            let changed = disturb(before);
            if changed == before {
                return;
            }
            let result = apply(changed.as_bytes(), &edit.old, &edit.new);
            // Only unchanged lines keep what was done to the file; what the model writes counts as it is written.
            let matches = |bytes: &[u8]| {
                loosely(bytes) == loosely(after.as_bytes())
                    || loosely(bytes) == loosely(disturb(after).as_bytes())
            };
            let exact = disturb(after).into_bytes();
            let result = result.map(|(bytes, line)| match matches(&bytes) {
                true => (exact.clone(), line),
                false => (bytes, line),
            });
            figures.count(case, edit, &exact, result);
        });
        figures.print(name);
        disturbed.add(&figures);
    }
    disturbed.print("disturbed, all");

    let mut stale = Figures::default();
    each_edit(&cases, |case, edit, _, after| {
        if after.contains(&edit.old) || edit.old.trim().is_empty() {
            return;
        }
        let result = apply(after.as_bytes(), &edit.old, &edit.new);
        stale.count(case, edit, b"refused", result);
    });
    stale.print("stale");

    let mut ambiguous = Figures::default();
    each_edit(&cases, |case, _, before, _| {
        let mut lines: Vec<&str> = before
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        lines.sort_unstable();
        let twice = lines
            .windows(2)
            .find(|pair| pair[0] == pair[1])
            .map(|pair| pair[0]);
        let Some(line) = twice else { return };
        let edit = RealEdit {
            old: line.to_owned(),
            new: format!("{line} changed"),
            line: 0,
        };
        let result = apply(before.as_bytes(), &edit.old, &edit.new);
        ambiguous.count(case, &edit, b"refused", result);
    });
    ambiguous.print("ambiguous");
    assert_eq!(stale.refused, stale.edits);
    assert_eq!(ambiguous.refused, ambiguous.edits);
    // A text without its trailing space can be the exact text of another place.
    assert!(
        disturbed.wrong_place * 10_000 <= disturbed.edits,
        "{}",
        disturbed.examples
    );
    assert!(disturbed.right * 100 >= disturbed.edits * 97);
}

impl Figures {
    fn add(&mut self, other: &Figures) {
        self.edits += other.edits;
        self.right += other.right;
        self.refused += other.refused;
        self.wrong_text += other.wrong_text;
        self.wrong_place += other.wrong_place;
    }
}

fn typographic_everywhere(text: &str) -> String {
    text.replace('"', "”").replace('\'', "’")
}

/// A text without what a disturbance of the file changes.
fn loosely(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes)
        .replace('”', "\"")
        .replace('’', "'");
    by_line(&text, |_, line| line.trim_end().replace('\t', "    "))
}
