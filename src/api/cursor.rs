//! Positions in the events of a session.
//!
//! A cursor says how much of the session a client has got, in a form that is still right after the daemon was restarted and
//! the running answer has become a record. Clients treat it as opaque.

use std::fmt;
use std::str::FromStr;

use crate::session::feed::{FeedPosition, TurnFeed};

/// Length of the end of the id of a session, and maximum length of the tag of a feed, in characters.
const TAIL: usize = 12;

/// Maximum length of the id of a round, in characters.
const MAX_ID: usize = 36;

/// A position in the events of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Number of records that were delivered completely.
    pub record: usize,
    /// Number of events delivered of the next record: 1 for its start, then one for each tool call.
    pub part: usize,
    /// Number of events delivered since the last complete record that belong to no record yet.
    pub live: u64,
    /// Id of the round whose answer was begun; empty if there is none. The whole id: a client learns which answer was discarded
    /// even if only the cursor still has its id.
    pub round: String,
    /// Number of bytes delivered of that answer.
    pub text: usize,
    /// Tag of the feed whose events were delivered; empty if there is none.
    pub feed: String,
    /// How much of the feed was delivered.
    pub position: FeedPosition,
}

impl Cursor {
    /// Returns the position after this number of records.
    pub fn after(records: usize) -> Cursor {
        Cursor {
            record: records,
            ..Cursor::default()
        }
    }

    /// Returns the cursor as clients of the session get it: it is valid only there.
    pub fn text_in(&self, session: &str) -> String {
        format!("{self}.{}", tail(session))
    }

    /// Reads a cursor of a session.
    ///
    /// # Errors
    /// The text is not a cursor, or one of another session.
    pub fn parse_in(session: &str, text: &str) -> Result<Cursor, InvalidCursor> {
        let (cursor, of) = text.rsplit_once('.').ok_or(InvalidCursor)?;
        match of == tail(session) {
            true => cursor.parse(),
            false => Err(InvalidCursor),
        }
    }

    /// Whether the answer of this round was begun.
    pub fn is_of(&self, round: &str) -> bool {
        !self.round.is_empty() && self.round == round
    }

    /// Begins the answer of a round.
    pub fn begin(&mut self, round: &str) {
        round.clone_into(&mut self.round);
        self.text = 0;
    }

    /// Ends the answer that was begun.
    pub fn end_answer(&mut self) {
        self.round.clear();
        self.text = 0;
    }

    /// Begins the events of a feed, unless they were begun.
    pub fn begin_feed(&mut self, feed: &TurnFeed) {
        if self.feed != feed.tag {
            feed.tag.clone_into(&mut self.feed);
            self.position = feed.position_behind(self.record);
        }
    }

    /// Counts the next record as delivered.
    pub fn end_record(&mut self) {
        self.record += 1;
        self.part = 0;
        self.live = 0;
    }
}

fn tail(id: &str) -> &str {
    id.get(id.len().saturating_sub(TAIL)..).unwrap_or(id)
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
            position,
        } = self;
        let FeedPosition {
            entry,
            call,
            output,
        } = position;
        write!(
            f,
            "{record}.{part}.{live}.{round}.{text}.{feed}.{entry}.{call}.{output}"
        )
    }
}

/// The text is not a cursor.
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
            round: id(round, MAX_ID)?,
            text: number(text)?,
            feed: id(feed, TAIL)?,
            position: FeedPosition {
                entry: number(entry)?,
                call: number(call)?,
                output: number(output)?,
            },
        })
    }
}

/// Numbers beyond this are not positions of a session.
const MAX: usize = 1 << 40;

fn number(text: &str) -> Result<usize, InvalidCursor> {
    // Only as it is written: no sign and no leading zero.
    let is_written = |n: &usize| *n < MAX && n.to_string() == text;
    text.parse().ok().filter(is_written).ok_or(InvalidCursor)
}

fn id(text: &str, longest: usize) -> Result<String, InvalidCursor> {
    let is_id_char = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    match text.len() <= longest && text.bytes().all(is_id_char) {
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
        cursor.position = FeedPosition {
            entry: 3,
            call: 2,
            output: 9,
        };
        let text = cursor.to_string();
        assert_eq!(
            text,
            "12.0.7.0198f3c2-0000-7000-8000-0123456789ab.512.1a2b3c4d.3.2.9"
        );
        assert_eq!(text.parse(), Ok(cursor.clone()));
        assert!(cursor.is_of("0198f3c2-0000-7000-8000-0123456789ab"));
        assert!(!cursor.is_of("0198f3c2-0000-7000-8000-0123456789ac"));
        assert_eq!("0.0.0..0..0.0.0".parse(), Ok(Cursor::default()));
        let (session, other) = (
            "0198f3c2-0000-7000-8000-00000000000a",
            "0198f3c2-0000-7000-8000-00000000000b",
        );
        let text = cursor.text_in(session);
        assert_eq!(
            text,
            "12.0.7.0198f3c2-0000-7000-8000-0123456789ab.512.1a2b3c4d.3.2.9.00000000000a"
        );
        assert_eq!(Cursor::parse_in(session, &text), Ok(cursor.clone()));
        assert_eq!(Cursor::parse_in(other, &text), Err(InvalidCursor));
        assert_eq!(
            Cursor::parse_in(session, &cursor.to_string()),
            Err(InvalidCursor)
        );
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "1",
            "1.2.3",
            "-1.0.0..0..0.0.0",
            "+1.0.0..0..0.0.0",
            "01.0.0..0..0.0.0",
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
