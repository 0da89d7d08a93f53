//! The private marks of the plugin in the output of a shell.
//!
//! A mark is `ESC ] 7717 ; NONCE ; KIND [; FIELD…] ESC \`. The nonce is known to the recorder and the shell only, so that no
//! output can forge a mark: anything without it is ordinary output.
//!
//! `ESC ] 7717 ; hello ; SHELL ESC \` is from a shell that has no nonce, such as one that has replaced the shell that had. Any
//! output can forge it: it only asks for less to be recorded, and for the nonce in a file that no output can read.

use crate::protocol::ShellId;

/// The beginning of every mark, before the nonce.
const INTRODUCER: &[u8] = b"\x1b]7717;";

/// The word of a greeting in place of the nonce.
const GREETING: &[u8] = b"hello;";

/// Maximum length of a mark's fields. The plugin cuts command lines to 32 KiB, of which each byte may be encoded in three.
const MAX_FIELDS: usize = 128 << 10;

/// A report of the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// `start;SHELL;SECONDS[;TEXT]`: a command is about to run. Without a text the history forgets the command.
    CommandStart {
        /// `SHELL@STARTED_MS`.
        command_id: String,
        /// The command line.
        text: Option<String>,
    },
    /// `end;EXIT`: the command has ended.
    CommandEnd {
        /// Its exit code.
        exit: i32,
    },
    /// `prompt`: the prompt is about to be drawn.
    Prompt,
    /// `bye`: the shell exits.
    Bye,
    /// `hello;SHELL`: a shell without the nonce is about to draw its first prompt.
    Hello(ShellId),
}

/// A part of a shell's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputPart<'a> {
    /// Bytes for the terminal.
    Bytes(&'a [u8]),
    /// A mark, which the terminal must not get.
    Mark(Mark),
}

/// Splits the output of a shell into bytes and marks, wherever a read may have cut it. Holds back only bytes that may belong to
/// a mark.
pub struct MarkParser {
    marks: PrefixParser,
    /// Of bytes that are not a mark with the nonce.
    greetings: PrefixParser,
}

/// Finds the sequences that begin with a prefix.
struct PrefixParser {
    /// Empty if there are none.
    prefix: Vec<u8>,
    state: State,
}

impl std::fmt::Debug for MarkParser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the nonce.
        f.debug_struct("MarkParser").finish_non_exhaustive()
    }
}

#[derive(Debug)]
enum State {
    /// This number of bytes of the prefix has been read and is held back.
    Output(usize),
    /// The fields of a mark, and whether its end has begun.
    Fields(Vec<u8>, bool),
}

impl MarkParser {
    /// Creates a parser for the marks with this nonce. With an empty one there are no marks.
    pub fn new(nonce: &str) -> MarkParser {
        let parser = |prefix| PrefixParser {
            prefix,
            state: State::Output(0),
        };
        let (marks, greetings) = match nonce {
            "" => (Vec::new(), Vec::new()),
            nonce => (
                [INTRODUCER, nonce.as_bytes(), b";"].concat(),
                [INTRODUCER, GREETING].concat(),
            ),
        };
        MarkParser {
            marks: parser(marks),
            greetings: parser(greetings),
        }
    }

    /// Parses the next bytes.
    pub fn push(&mut self, bytes: &[u8], emit: &mut impl FnMut(OutputPart<'_>)) {
        let greetings = &mut self.greetings;
        self.marks.push(bytes, &mut |part| match part {
            PrefixPart::Bytes(bytes) => greetings.push(bytes, &mut |part| match part {
                PrefixPart::Bytes(bytes) => emit(OutputPart::Bytes(bytes)),
                PrefixPart::Fields(fields) => {
                    let shell = str::from_utf8(fields).ok().map(ShellId::parse);
                    if let Some(Ok(shell)) = shell {
                        emit(OutputPart::Mark(Mark::Hello(shell)));
                    }
                }
            }),
            PrefixPart::Fields(fields) => {
                let held = greetings.held();
                if !held.is_empty() {
                    emit(OutputPart::Bytes(&held));
                }
                if let Some(mark) = mark(fields) {
                    emit(OutputPart::Mark(mark));
                }
            }
        });
    }

    /// Returns the bytes that were held back; nothing follows.
    pub fn finish(mut self) -> Vec<u8> {
        let mut held = Vec::new();
        let last = self.marks.held();
        let greetings = &mut self.greetings;
        greetings.push(&last, &mut |part| {
            if let PrefixPart::Bytes(bytes) = part {
                held.extend_from_slice(bytes);
            }
        });
        held.extend(greetings.held());
        held
    }
}

/// A part of what a [`PrefixParser`] gets.
enum PrefixPart<'a> {
    Bytes(&'a [u8]),
    /// The bytes between the prefix and the end of the sequence.
    Fields(&'a [u8]),
}

impl PrefixParser {
    fn push(&mut self, bytes: &[u8], emit: &mut impl FnMut(PrefixPart<'_>)) {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = match std::mem::replace(&mut self.state, State::Output(0)) {
                State::Output(held) => self.output(held, rest, emit),
                State::Fields(fields, ends) => self.fields(fields, ends, rest, emit),
            };
        }
    }

    /// Takes the bytes that are held back.
    fn held(&mut self) -> Vec<u8> {
        match std::mem::replace(&mut self.state, State::Output(0)) {
            State::Output(held) => self.prefix.get(..held).unwrap_or_default().to_vec(),
            // A mark that was cut off: it contains the nonce.
            State::Fields(..) => Vec::new(),
        }
    }

    /// Emits output up to the fields of a mark, and returns the rest.
    fn output<'b>(
        &mut self,
        held: usize,
        bytes: &'b [u8],
        emit: &mut impl FnMut(PrefixPart<'_>),
    ) -> &'b [u8] {
        if held > 0 {
            let expected = self.prefix.get(held..).unwrap_or_default();
            let same = common(expected, bytes);
            if same == expected.len() {
                self.state = State::Fields(Vec::new(), false);
                return bytes.get(same..).unwrap_or_default();
            }
            if same == bytes.len() {
                self.state = State::Output(held + same);
                return &[];
            }
            // Only the first byte of the prefix is an ESC, so that no mark can begin in the bytes that were held back.
            emit(PrefixPart::Bytes(
                self.prefix.get(..held).unwrap_or_default(),
            ));
        }
        if self.prefix.is_empty() {
            emit(PrefixPart::Bytes(bytes));
            return &[];
        }
        for start in memchr::memchr_iter(0x1b, bytes) {
            let (before, from) = bytes.split_at(start);
            let same = common(&self.prefix, from);
            if same < self.prefix.len() && same < from.len() {
                continue;
            }
            if !before.is_empty() {
                emit(PrefixPart::Bytes(before));
            }
            if same == self.prefix.len() {
                self.state = State::Fields(Vec::new(), false);
                return from.get(same..).unwrap_or_default();
            }
            self.state = State::Output(same);
            return &[];
        }
        emit(PrefixPart::Bytes(bytes));
        &[]
    }

    /// Collects the fields of a mark, and returns the rest. A mark that is cut off or malformed is discarded: it contains the
    /// nonce.
    fn fields<'b>(
        &mut self,
        mut fields: Vec<u8>,
        ends: bool,
        bytes: &'b [u8],
        emit: &mut impl FnMut(PrefixPart<'_>),
    ) -> &'b [u8] {
        if ends {
            if let Some(rest) = bytes.strip_prefix(b"\\") {
                emit(PrefixPart::Fields(&fields));
                return rest;
            }
            // The ESC begins another sequence.
            self.state = State::Output(1);
            return bytes;
        }
        let end = bytes.iter().position(|byte| *byte < 0x20 || *byte == 0x7f);
        let (more, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
        if fields.len() + more.len() > MAX_FIELDS {
            return rest;
        }
        fields.extend_from_slice(more);
        match rest.strip_prefix(b"\x1b") {
            Some(rest) => {
                self.state = State::Fields(fields, true);
                rest
            }
            None if rest.is_empty() => {
                self.state = State::Fields(fields, false);
                rest
            }
            None => rest,
        }
    }
}

/// Returns the length of the common beginning.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn mark(fields: &[u8]) -> Option<Mark> {
    let mut parts = fields.splitn(4, |byte| *byte == b';');
    let mut next = || parts.next().and_then(|part| std::str::from_utf8(part).ok());
    match next()? {
        "prompt" => Some(Mark::Prompt),
        "bye" => Some(Mark::Bye),
        "end" => Some(Mark::CommandEnd {
            exit: next()?.parse().ok()?,
        }),
        "start" => {
            let shell = ShellId::parse(next()?).ok()?;
            let seconds: f64 = next()?.parse().ok()?;
            // As the daemon computes it from the hook's event. A float to integer cast saturates.
            let started_ms = (seconds * 1000.0) as u64;
            Some(Mark::CommandStart {
                command_id: format!("{shell}@{started_ms}"),
                text: parts.next().map(decoded),
            })
        }
        _ => None,
    }
}

/// Decodes `%XX`.
fn decoded(text: &[u8]) -> String {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match (*byte, digit(after.first()), digit(after.get(1))) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
                rest = after.get(2..).unwrap_or_default();
            }
            _ => bytes.push(*byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NONCE: &str = "00112233445566778899aabbccddeeff";

    /// Parses the parts in turn. Returns the bytes, and each mark with the number of bytes before it.
    fn parse(parts: &[&[u8]]) -> (Vec<u8>, Vec<(usize, Mark)>) {
        let mut parser = MarkParser::new(NONCE);
        let (mut output, mut marks) = (Vec::new(), Vec::new());
        for part in parts {
            parser.push(part, &mut |part| match part {
                OutputPart::Bytes(bytes) => {
                    assert!(!bytes.is_empty());
                    output.extend_from_slice(bytes);
                }
                OutputPart::Mark(mark) => marks.push((output.len(), mark)),
            });
        }
        output.extend(parser.finish());
        (output, marks)
    }

    fn sample() -> (Vec<u8>, Vec<u8>, Vec<(usize, Mark)>) {
        let mark = |fields: &str| format!("\x1b]7717;{NONCE};{fields}\x1b\\");
        let start = mark("start;7-1;1700000000.2512345678;a;b%0A%25\u{e9}");
        let stream = format!(
            "one{}{}\x1b[1mtwo\x1b{start}three{}",
            mark("end;130"),
            mark("prompt"),
            mark("start;7-1;2.5")
        );
        let marks = vec![
            (3, Mark::CommandEnd { exit: 130 }),
            (3, Mark::Prompt),
            (
                11,
                Mark::CommandStart {
                    command_id: "7-1@1700000000251".into(),
                    text: Some("a;b\n%\u{e9}".into()),
                },
            ),
            (
                16,
                Mark::CommandStart {
                    command_id: "7-1@2500".into(),
                    text: None,
                },
            ),
        ];
        (
            stream.into_bytes(),
            b"one\x1b[1mtwo\x1bthree".to_vec(),
            marks,
        )
    }

    #[test]
    fn marks_are_found_wherever_a_read_cuts_them() {
        let (stream, output, marks) = sample();
        for cut in 0..=stream.len() {
            let (a, b) = stream.split_at(cut);
            assert_eq!(
                parse(&[a, b]),
                (output.clone(), marks.clone()),
                "cut at {cut}"
            );
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(parse(&bytes), (output, marks));
    }

    #[test]
    fn without_the_nonce_a_mark_is_output() {
        for forged in [
            "\x1b]7717;0000;prompt\x1b\\".to_owned(),
            format!("\x1b]7717;{};prompt\x1b\\", NONCE.replace("ff", "fe")),
            format!("\x1b]7717;{}prompt\x1b\\", NONCE),
            "\x1b]7717;;prompt\x1b\\\x1b\x1b]\x1b]7717".to_owned(),
        ] {
            let whole = parse(&[forged.as_bytes()]);
            assert_eq!(whole, (forged.clone().into_bytes(), vec![]));
            let bytes: Vec<&[u8]> = forged.as_bytes().chunks(1).collect();
            assert_eq!(parse(&bytes), whole);
        }
    }

    #[test]
    fn a_shell_without_the_nonce_is_heard_wherever_a_read_cuts_it() {
        let stream = format!(
            "a\x1b]7717;hello;7-1\x1b\\b\x1b]7717;hello;../x\x1b\\c\x1b]7717;hel\x1b]7717;{NONCE};bye\x1b\\d\x1b]7717;h"
        );
        let hello = Mark::Hello(ShellId::parse("7-1").unwrap());
        let output = b"abc\x1b]7717;held\x1b]7717;h".to_vec();
        let wanted = (output, vec![(1, hello), (13, Mark::Bye)]);
        for cut in 0..=stream.len() {
            let (a, b) = stream.as_bytes().split_at(cut);
            assert_eq!(parse(&[a, b]), wanted, "cut at {cut}");
        }
    }

    #[test]
    fn a_torn_mark_hides_only_itself() {
        for (torn, output) in [
            ("start;7-1;1.5;ab\r\nnext", "\r\nnext"),
            ("end;1\x1b[31mred", "\x1b[31mred"),
            ("end;1\x1b", ""),
            ("nonsense\x1b\\x", "x"),
            ("end;much\x1b\\x", "x"),
            ("start;../x;1.5;a\x1b\\x", "x"),
        ] {
            let stream = format!("a\x1b]7717;{NONCE};{torn}");
            let expected = (format!("a{output}").into_bytes(), vec![]);
            assert_eq!(parse(&[stream.as_bytes()]), expected, "{torn:?}");
            let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
            assert_eq!(parse(&bytes), expected, "{torn:?}");
        }
    }

    #[test]
    fn only_a_possible_mark_is_held_back() {
        let mut parser = MarkParser::new(NONCE);
        let mut pushed = |bytes: &[u8]| {
            let mut output = Vec::new();
            parser.push(bytes, &mut |part| match part {
                OutputPart::Bytes(bytes) => output.extend_from_slice(bytes),
                OutputPart::Mark(mark) => panic!("{mark:?}"),
            });
            output
        };
        assert_eq!(pushed(b"a\x1b"), b"a");
        assert_eq!(pushed(b"[1"), b"\x1b[1");
        assert_eq!(pushed(b"b\x1b]7717;0"), b"b");
        assert_eq!(pushed(b"x"), b"\x1b]7717;0x");
    }

    proptest! {
        #[test]
        fn output_passes_unchanged_whatever_the_reads(
            parts in prop::collection::vec(
                prop_oneof![
                    prop::collection::vec(any::<u8>(), 0..20),
                    Just(b"\x1b]7717;0011".to_vec()),
                    Just(b"\x1b".to_vec()),
                ],
                0..8,
            )
        ) {
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(parse(&parts), (parts.concat(), vec![]));
        }
    }
}
