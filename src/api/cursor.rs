//! Positions in the events of a session.
//!
//! A cursor says how much of the session a client has got, in a form that is still right after the daemon was restarted and
//! the running answer has become a record. Clients treat it as opaque.

use std::fmt;
use std::str::FromStr;

/// Length of the end of a round's id that a cursor holds, in characters.
const ROUND: usize = 12;

/// A position in the events of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Number of records that were delivered completely.
    pub record: usize,
    /// Number of events delivered of the next record: 1 for its start, then one for each tool call.
    pub part: usize,
    /// Number of events delivered since the last complete record that belong to no record yet.
    pub live: u64,
    /// The end of the id of the round whose answer was begun; empty if there is none.
    pub round: String,
    /// Number of bytes delivered of that answer.
    pub text: usize,
    /// Tag of the feed whose events were delivered; empty if there is none.
    pub feed: String,
    /// Number of its entries that were delivered.
    pub entry: usize,
    /// Number of the tool call whose output was delivered, among those of the feed that print; 0 if there is none.
    pub call: usize,
    /// Number of bytes delivered of that output.
    pub output: usize,
}

impl Cursor {
    /// Returns the position after this number of records.
    pub fn after(records: usize) -> Cursor {
        Cursor {
            record: records,
            ..Cursor::default()
        }
    }

    /// Whether this can be a position in a session with this number of records.
    pub fn fits(&self, records: usize) -> bool {
        self.record < records || self.record == records && self.part == 0
    }

    /// Whether the answer of this round was begun.
    pub fn is_of(&self, round: &str) -> bool {
        !self.round.is_empty() && tail(round) == self.round
    }

    /// Begins the answer of a round.
    pub fn begin(&mut self, round: &str) {
        tail(round).clone_into(&mut self.round);
        self.text = 0;
    }

    /// Ends the answer that was begun.
    pub fn end_answer(&mut self) {
        self.round.clear();
        self.text = 0;
    }

    /// Counts output of a tool call as delivered.
    pub fn count_output(&mut self, call: usize, bytes: usize) {
        if self.call != call {
            (self.call, self.output) = (call, 0);
        }
        self.output += bytes;
    }

    /// Begins the events of a feed.
    pub fn begin_feed(&mut self, tag: &str) {
        tag.clone_into(&mut self.feed);
        (self.entry, self.call, self.output) = (0, 0, 0);
    }

    /// Counts the next record as delivered.
    pub fn end_record(&mut self) {
        self.record += 1;
        self.part = 0;
        self.live = 0;
    }
}

fn tail(round: &str) -> &str {
    round
        .get(round.len().saturating_sub(ROUND)..)
        .unwrap_or(round)
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cursor {
            record,
            part,
            live,
            round,
            text,
            feed,
            entry,
            call,
            output,
        } = self;
        write!(
            f,
            "{record}.{part}.{live}.{round}.{text}.{feed}.{entry}.{call}.{output}"
        )
    }
}

/// The text is no cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidCursor;

impl FromStr for Cursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Cursor, InvalidCursor> {
        let fields: Vec<&str> = text.split('.').collect();
        let [record, part, live, round, text, feed, entry, call, output] = fields[..] else {
            return Err(InvalidCursor);
        };
        Ok(Cursor {
            record: number(record)?,
            part: number(part)?,
            live: number(live)? as u64,
            round: name(round)?,
            text: number(text)?,
            feed: name(feed)?,
            entry: number(entry)?,
            call: number(call)?,
            output: number(output)?,
        })
    }
}

/// Numbers beyond this are no positions of a session.
const MAX: usize = 1 << 40;

fn number(text: &str) -> Result<usize, InvalidCursor> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let number = text.parse().ok().filter(|n| is_number && *n < MAX);
    number.ok_or(InvalidCursor)
}

fn name(text: &str) -> Result<String, InvalidCursor> {
    let is_name = text.len() <= ROUND && text.bytes().all(|b| b.is_ascii_alphanumeric());
    match is_name {
        true => Ok(text.to_owned()),
        false => Err(InvalidCursor),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let mut cursor = Cursor::after(12);
        cursor.begin("0198f3c2-0000-7000-8000-0123456789ab");
        cursor.text = 512;
        cursor.live = 7;
        cursor.feed = "1a2b3c4d".to_owned();
        cursor.entry = 3;
        cursor.count_output(2, 9);
        let text = cursor.to_string();
        assert_eq!(text, "12.0.7.0123456789ab.512.1a2b3c4d.3.2.9");
        assert_eq!(text.parse(), Ok(cursor.clone()));
        assert!(cursor.is_of("0198f3c2-0000-7000-8000-0123456789ab"));
        assert!(!cursor.is_of("0198f3c2-0000-7000-8000-0123456789ac"));
        assert_eq!("0.0.0..0..0.0.0".parse(), Ok(Cursor::default()));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "1",
            "1.2.3",
            "-1.0.0..0..0.0.0",
            "+1.0.0..0..0.0.0",
            "1.0.0..0..0.0.0.0",
            "1.0.0.<script>.0..0.0.0",
            "1.0.0..0../.0.0.0",
            "99999999999999999999.0.0..0..0.0.0",
            "1.0.0.\n.0..0.0.0",
        ] {
            assert_eq!(text.parse::<Cursor>(), Err(InvalidCursor), "{text}");
        }
    }
}
