//! Takes `CMD:` lines out of the answer as it arrives. Pure.

/// What starts a proposal, at the beginning of a line.
const MARK: &str = "CMD:";

/// A longer line is no command that a person could check: it stays text.
const LONGEST: usize = 64 << 10;

/// The answer, cut into text and proposals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text to show.
    Text(String),
    /// A command, exactly.
    Command(String),
}

/// Where in a line the stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// What came of the line so far may still become the mark.
    Start,
    /// In a line of text.
    Text,
    /// Behind the mark.
    Command,
}

/// The state between two chunks: at most the beginning of a line, or one command.
#[derive(Debug)]
pub struct Filter {
    at: At,
    held: String,
}

impl Default for Filter {
    fn default() -> Self {
        Filter {
            at: At::Start,
            held: String::new(),
        }
    }
}

impl Filter {
    /// Takes a chunk; gives each piece that is decided. Text is held back only while it may be a mark,
    /// which is for at most three spaces and three letters.
    pub fn push(&mut self, chunk: &str, emit: &mut impl FnMut(Piece)) {
        let mut text = String::new();
        for line in chunk.split_inclusive('\n') {
            self.push_line(line, &mut text, emit);
        }
        flush(&mut text, emit);
    }

    fn push_line(&mut self, mut part: &str, text: &mut String, emit: &mut impl FnMut(Piece)) {
        if self.at == At::Start {
            // The mark is short: look at it with what was held, then go on with the rest.
            let taken = part
                .len()
                .min(part.char_indices().nth(8).map_or(part.len(), |(i, _)| i));
            self.held.push_str(&part[..taken]);
            part = &part[taken..];
            match mark(&self.held) {
                Mark::Open => return,
                Mark::No => {
                    text.push_str(&self.held);
                    self.at = if self.held.ends_with('\n') {
                        At::Start
                    } else {
                        At::Text
                    };
                    self.held.clear();
                }
                Mark::Yes(length) => {
                    self.held.drain(..length);
                    self.at = At::Command;
                    if let Some(rest) = self.held.strip_suffix('\n') {
                        let rest = rest.to_string();
                        self.end_command(&rest, true, text, emit);
                    }
                }
            }
            if part.is_empty() {
                return;
            }
        }
        match self.at {
            At::Text | At::Start => {
                text.push_str(part);
                self.at = if part.ends_with('\n') {
                    At::Start
                } else {
                    At::Text
                };
            }
            At::Command => {
                self.held.push_str(part);
                if let Some(command) = self.held.strip_suffix('\n') {
                    let command = command.to_string();
                    self.end_command(&command, true, text, emit);
                } else if self.held.len() > LONGEST {
                    text.push_str(MARK);
                    text.push_str(&self.held);
                    self.held.clear();
                    self.at = At::Text;
                }
            }
        }
    }

    fn end_command(
        &mut self,
        command: &str,
        newline: bool,
        text: &mut String,
        emit: &mut impl FnMut(Piece),
    ) {
        self.at = At::Start;
        self.held.clear();
        let command = strip(command);
        if command.is_empty() {
            text.push_str(MARK);
            if newline {
                text.push('\n');
            }
        } else {
            flush(text, emit);
            emit(Piece::Command(command.to_string()));
        }
    }

    /// The answer is complete. A command at the very end counts without its LF.
    pub fn finish(&mut self, emit: &mut impl FnMut(Piece)) {
        let held = std::mem::take(&mut self.held);
        let mut text = String::new();
        if self.at == At::Command {
            self.end_command(&held, false, &mut text, emit);
        } else {
            text = held;
        }
        self.at = At::Start;
        flush(&mut text, emit);
    }

    /// The answer was cut off: what is held is text, since half a command must not be offered.
    pub fn cut_off(&mut self, emit: &mut impl FnMut(Piece)) {
        let mut text = String::new();
        if self.at == At::Command {
            text.push_str(MARK);
        }
        text.push_str(&std::mem::take(&mut self.held));
        self.at = At::Start;
        flush(&mut text, emit);
    }
}

fn flush(text: &mut String, emit: &mut impl FnMut(Piece)) {
    if !text.is_empty() {
        emit(Piece::Text(std::mem::take(text)));
    }
}

/// Spaces around the command, the CR of a CRLF, and the backticks that models like to put around it.
fn strip(command: &str) -> &str {
    let command = command.trim_matches([' ', '\t', '\r']);
    match command.strip_prefix('`').and_then(|c| c.strip_suffix('`')) {
        Some(inner) if !inner.contains('`') => inner.trim_matches([' ', '\t']),
        _ => command,
    }
}

enum Mark {
    Yes(usize),
    No,
    Open,
}

/// Up to three spaces and the mark. One backtick in front (`` `CMD: ls` ``) is no mark: that is prose.
fn mark(line: &str) -> Mark {
    let indent = line.bytes().take_while(|b| *b == b' ').count();
    let rest = &line[indent..];
    if indent > 3 {
        Mark::No
    } else if rest.starts_with(MARK) {
        Mark::Yes(indent + MARK.len())
    } else if MARK.starts_with(rest) {
        Mark::Open
    } else {
        Mark::No
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(chunks: &[&str]) -> (String, Vec<String>) {
        let mut filter = Filter::default();
        let (mut text, mut commands) = (String::new(), Vec::new());
        let mut take = |piece| match piece {
            Piece::Text(t) => text.push_str(&t),
            Piece::Command(c) => commands.push(c),
        };
        for chunk in chunks {
            filter.push(chunk, &mut take);
        }
        filter.finish(&mut take);
        (text, commands)
    }

    #[test]
    fn lines_with_the_mark_are_taken_out() {
        for (answer, text, commands) in [
            ("a\nCMD: ls -l\nb", "a\nb", vec!["ls -l"]),
            ("CMD: ls", "", vec!["ls"]),
            ("   CMD:ls\r\n", "", vec!["ls"]),
            (
                "    CMD: indented code\n",
                "    CMD: indented code\n",
                vec![],
            ),
            ("say CMD: ls\n", "say CMD: ls\n", vec![]),
            ("CMD\nCMD", "CMD\nCMD", vec![]),
            ("CMD:\n", "CMD:\n", vec![]),
            (
                "CMD: `ls`\nCMD: echo `date`\n",
                "",
                vec!["ls", "echo `date`"],
            ),
            ("\n\nCMD: a\n\nCMD: b\n", "\n\n\n", vec!["a", "b"]),
            ("CMD: größe '  two'\n", "", vec!["größe '  two'"]),
        ] {
            assert_eq!(
                run(&[answer]),
                (
                    text.into(),
                    commands.iter().map(|c| c.to_string()).collect()
                ),
                "{answer:?}"
            );
        }
    }

    #[test]
    fn text_is_held_only_while_it_may_be_a_mark() {
        let mut filter = Filter::default();
        let mut seen = String::new();
        let mut take = |p| {
            if let Piece::Text(t) = p {
                seen.push_str(&t);
            }
        };
        filter.push("C", &mut take);
        filter.push("an", &mut take);
        assert_eq!(seen, "Can");
    }

    #[test]
    fn half_a_command_is_never_offered() {
        let mut filter = Filter::default();
        let mut pieces = Vec::new();
        filter.push("ok\nCMD: rm -rf /tmp/x", &mut |p| pieces.push(p));
        filter.cut_off(&mut |p| pieces.push(p));
        assert_eq!(
            pieces,
            [
                Piece::Text("ok\n".into()),
                Piece::Text("CMD: rm -rf /tmp/x".into())
            ]
        );
    }

    #[test]
    fn a_line_without_end_is_text_and_is_not_kept() {
        let long = format!("CMD: {}", "x".repeat(LONGEST * 2));
        let (text, commands) = run(&[&long, "y\nCMD: ls\n"]);
        assert_eq!(commands, ["ls"]);
        assert_eq!(text.len(), long.len() + 2);
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same(answer in "(CMD: ?|C|CM|D:| |a|\n|é|`|\r){0,40}", cuts in proptest::collection::vec(0usize..80, 0..6)) {
            let mut at: Vec<usize> = cuts.into_iter().filter(|c| *c <= answer.len() && answer.is_char_boundary(*c)).collect();
            at.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in at {
                chunks.push(&answer[from..cut]);
                from = cut;
            }
            chunks.push(&answer[from..]);
            prop_assert_eq!(run(&chunks), run(&[&answer]));
        }
    }
}
