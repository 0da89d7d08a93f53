//! zsh's notices about background jobs, which have the text of the job: it may be a line that is not recorded.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

/// The lines that are recorded. A notice about a job that is in none of them is private.
#[derive(Debug, Default)]
pub struct RecordedLines<'c> {
    lines: Vec<&'c str>,
    /// Their letters, each after a line end.
    letters: OnceLock<String>,
}

impl<'c> RecordedLines<'c> {
    /// Collects the lines.
    pub fn new(lines: impl IntoIterator<Item = &'c str>) -> RecordedLines<'c> {
        RecordedLines {
            lines: lines.into_iter().collect(),
            letters: OnceLock::new(),
        }
    }

    /// Returns where the private notices are, with their line ends.
    pub fn private_notices(&self, text: &str) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let mut end = 0;
        let mut lines = text.split_inclusive('\n').peekable();
        while let Some(line) = lines.next() {
            let start = end;
            end += line.len();
            let Some(job) = job_of(line) else {
                continue;
            };
            let mut job = job.to_owned();
            // The other processes of a pipeline follow, each on a row of its own.
            while let Some(line) = lines.next_if(|line| process_of(line).is_some()) {
                job.push_str(process_of(line).unwrap_or_default());
                end += line.len();
            }
            if !self.has(&job) {
                found.push(start..end);
            }
        }
        found
    }

    /// Returns the text without the private notices, and their number of rows.
    pub fn without_private_notices<'t>(&self, text: &'t str) -> (Cow<'t, str>, usize) {
        let private = self.private_notices(text);
        if private.is_empty() {
            return (Cow::Borrowed(text), 0);
        }
        let (mut kept, mut at, mut rows) = (String::with_capacity(text.len()), 0, 0);
        for notice in private {
            kept.push_str(text.get(at..notice.start).unwrap_or_default());
            rows += text
                .get(notice.clone())
                .map_or(0, |rows| rows.lines().count());
            at = notice.end;
        }
        kept.push_str(text.get(at..).unwrap_or_default());
        (Cow::Owned(kept), rows)
    }

    /// Whether a job is in one of the lines. zsh prints it in its own layout, and at most 80 characters of a process.
    fn has(&self, job: &str) -> bool {
        let all = || {
            self.lines
                .iter()
                .fold(String::new(), |all, line| all + "\n" + &letters(line))
        };
        self.letters.get_or_init(all).contains(&letters(job))
    }
}

/// Whether a text has a notice about the end of a job that the command did not start: zsh prints one when the next command starts or
/// ends too.
pub fn has_other_job(text: &str, command: &str) -> bool {
    // Commands such as `jobs` and `fg` print the other states.
    let is_listed = |line: &str| {
        [" running ", " continued "]
            .iter()
            .any(|state| line.contains(state))
    };
    let is_other = |job: &str| !letters(command).contains(&letters(job));
    text.lines()
        .any(|line| job_of(line).is_some_and(is_other) && !is_listed(line))
}

/// Returns the text of the job in the first row of a notice: `[1]  + done       make`, with `setopt long_list_jobs`
/// `[1]  + 4711 done       make`.
fn job_of(line: &str) -> Option<&str> {
    let (number, rest) = line.strip_prefix('[')?.split_once("]  ")?;
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    let rest = rest.strip_prefix(['+', '-', ' '])?.strip_prefix(' ')?;
    let state = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    is_number
        .then(|| state_and_text(state.trim_start()))
        .flatten()
}

/// Returns the text of a process in another row of a notice: `       done       cat`.
fn process_of(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("       ")?;
    let state = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
    state_and_text(state)
}

/// Returns what follows a state such as `done`, `exit 1` or `suspended (tty input)`, which blanks fill up.
fn state_and_text(text: &str) -> Option<&str> {
    let (state, job) = text.trim_end().split_once("  ")?;
    state
        .starts_with(|c: char| c.is_ascii_lowercase())
        .then(|| job.trim())
}

/// Returns the letters and digits of a text.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_about_the_job_of_another_command_is_told() {
        let has = |line: &str, command| has_other_job(&format!("x\n{line}\nx"), command);
        assert!(has("[1]  + done       sleep 1", "ls"));
        assert!(!has("[1]  + done       sleep 1", "sleep 1 & wait"));
        assert!(!has("[1]  + continued  sleep 1", "fg"));
        assert!(!has("[1]  + running    sleep 1", "jobs"));
        assert!(!has("[1] 4711", "ls"));
    }

    #[test]
    fn a_notice_about_a_job_that_is_not_recorded_is_removed() {
        let commands = ["make -j4 &", "(sleep 1;ls) & false", "seq 9|sort|cat &"];
        let recorded = RecordedLines::new(commands);
        for (line, is_kept) in [
            ("[1]  + done       make -j4", true),
            ("[12]  - exit 2     make -j4", true),
            ("[1]    4711 terminated  ( sleep 1; ls; )", true),
            (
                "[1]  + done       seq 9 | \n       exit 1     sort | cat",
                true,
            ),
            (
                "[1]  + done       seq 9 | \n       done       private",
                false,
            ),
            ("[2]  + done       sh -c 'sleep 1; : private'", false),
            ("[2]  + 4711 suspended (tty input)  private", false),
            (
                "[2]  + exit 1     private | \n       4712 done       cat",
                false,
            ),
            // Lines of programs.
            ("[1] 4711", true),
            ("[1]+  Done                    private", true),
            ("[x]  + done       private", true),
            ("       done       private", true),
        ] {
            let text = format!("one\n{line}\ntwo");
            let (kept, rows) = recorded.without_private_notices(&text);
            let wanted = if is_kept { text.as_str() } else { "one\ntwo" };
            assert_eq!(kept, wanted);
            let removed = if is_kept { 0 } else { line.lines().count() };
            assert_eq!(rows, removed, "{line}");
        }
    }
}
