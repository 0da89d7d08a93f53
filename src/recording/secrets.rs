//! Finds the secrets in a recording: which characters of its output must not be exported.
//!
//! A terminal shows a secret in more ways than its bytes in a row: with colours in between, split over writes, wrapped over
//! two rows, drawn out of order, or key by key while a command line is typed and redrawn. So the search has two views of
//! the output: the stream of drawn characters without everything else, and the screen after each write. What is found in
//! either leads back to the bytes that drew it. A second pass searches for parts of the values that the first one found,
//! which also finds them where nothing shows that they are secret, and half typed.

mod partial_values;
mod position_set;

use std::collections::BTreeMap;
use std::ops::Range;

use avt::parser::Function;

use super::commands::commands;
use super::event::RecordingEvent;
use super::functions::FunctionParser;
use super::origin_screen::{OriginScreen, PlacedText};
use super::reader::Recording;
use crate::error::Result;
use crate::safety::job_notices::RecordedLines;
use crate::safety::own_names::OwnNames;
use crate::safety::redact::Redactor;

use partial_values::PartialValues;
use position_set::PositionSet;

/// How much output is drawn before the screen is searched, if it came without a pause.
const STEP: usize = 4 << 10;

/// The stream is searched in blocks of this size.
const BLOCK: usize = 64 << 10;

/// How much of a block is searched again with the next one: as far as the redactor looks around a secret, and a long key.
const OVERLAP: usize = 20 << 10;

/// Maximum number of values that are searched for in the second pass.
const MAX_VALUES: usize = 10_000;

/// The parts of a recording that must not be exported.
#[derive(Debug, Default)]
pub struct RecordingSecrets {
    redactor: Redactor,
    positions: PositionSet,
    values: PartialValues,
    names: OwnNames,
    /// Where each value was first and last found; only values that are not the beginning of another one.
    found: Vec<Range<u64>>,
}

impl RecordingSecrets {
    /// Searches a recording. `redactor` has the known values. `names` are replaced like secrets, by `~`, `user` and `host`.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn find(
        recording: &Recording,
        redactor: &Redactor,
        names: &OwnNames,
    ) -> Result<RecordingSecrets> {
        let none = PartialValues::default();
        let commands = commands(recording)?;
        let recorded = RecordedLines::new(commands.iter().filter_map(|c| c.text.as_deref()));
        let of_user = OfUser {
            redactor,
            names,
            recorded: &recorded,
        };
        let first = SecretSearch::run(recording, of_user, &none)?;
        let values = PartialValues::new(first.values.keys());
        let found = distinct(&first.values);
        let positions = match values.is_empty() {
            true => first.positions,
            false => {
                let second = SecretSearch::run(recording, of_user, &values)?;
                let mut positions = first.positions;
                positions.extend(second.positions);
                positions
            }
        };
        Ok(RecordingSecrets {
            redactor: redactor.clone(),
            positions,
            values,
            names: names.clone(),
            found,
        })
    }

    /// Returns the number of different values that were found in a part of the output.
    pub fn count(&self, from: u64, to: u64) -> usize {
        let is_within = |places: &&Range<u64>| places.start < to && places.end > from;
        self.found.iter().filter(is_within).count()
    }

    /// Returns what takes the place of the character at `place`; `None` if it is not secret.
    pub fn replacement(&self, place: u64) -> Option<char> {
        self.positions.replacement(place)
    }

    /// Redacts a text that belongs to the recording, such as a command line.
    pub fn redact(&self, text: &str) -> String {
        let text = self.values.redact(&self.redactor.redact(text));
        self.names.replace(&text).0
    }

    /// Returns the redactor with the known values.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Returns the number of secret characters.
    pub fn len(&self) -> u64 {
        self.positions.len()
    }

    /// Returns whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What must not be exported, and is known before the search.
#[derive(Clone, Copy)]
struct OfUser<'s> {
    redactor: &'s Redactor,
    names: &'s OwnNames,
    /// The notices of zsh have the texts of jobs, of which only those in these lines may be exported.
    recorded: &'s RecordedLines<'s>,
}

/// One pass over a recording.
struct SecretSearch<'s> {
    of_user: OfUser<'s>,
    partial: &'s PartialValues,
    /// The values, and where each was first and last found.
    values: BTreeMap<String, Range<u64>>,
    positions: PositionSet,
    /// Drawn characters that have not been searched, after those that are searched again.
    stream: PlacedText,
    /// The same for the rows that have scrolled off the screen: a key can have more lines than the screen.
    transcript: PlacedText,
    /// The last function was a carriage return: a line feed after it is the same line end.
    after_return: bool,
}

impl<'s> SecretSearch<'s> {
    fn run(
        recording: &Recording,
        of_user: OfUser<'s>,
        partial: &'s PartialValues,
    ) -> Result<SecretSearch<'s>> {
        let mut search = SecretSearch {
            of_user,
            partial,
            values: BTreeMap::new(),
            positions: PositionSet::default(),
            stream: PlacedText::default(),
            transcript: PlacedText::default(),
            after_return: false,
        };
        let start = &recording.start;
        let Some(mut screen) = OriginScreen::new(start.cols, start.rows) else {
            return Ok(search);
        };
        let mut parser = FunctionParser::new();
        let mut buffer = vec![0; STEP];
        let mut events = recording.events()?;
        while let Some(line) = events.next_event()? {
            match line.event {
                RecordingEvent::Output { bytes } => {
                    let end = line.offset + bytes;
                    recording.each_output(line.offset, end, &mut buffer, |at, piece| {
                        search.step(&mut parser, &mut screen, at, piece);
                        true
                    })?;
                }
                RecordingEvent::Resize { cols, rows } => screen.resize(cols, rows),
                _ => {}
            }
        }
        screen.append_screen(&mut search.transcript);
        let rest = [
            std::mem::take(&mut search.stream),
            std::mem::take(&mut search.transcript),
        ];
        for block in &rest {
            search.search(block);
        }
        Ok(search)
    }

    fn step(
        &mut self,
        parser: &mut FunctionParser,
        screen: &mut OriginScreen,
        at: u64,
        piece: &[u8],
    ) {
        let mut has_drawn = false;
        parser.push(piece, at, &mut |place, function| {
            has_drawn |= !matches!(function, Function::Sgr(_));
            self.add_to_stream(place, &function);
            screen.apply(place, function);
            if screen.is_full() {
                self.search_screen(screen);
            }
        });
        if has_drawn {
            self.search_screen(screen);
        }
        if self.stream.text.len() >= BLOCK {
            let stream = std::mem::take(&mut self.stream);
            self.stream = self.search_block(stream);
        }
        if self.transcript.text.len() >= BLOCK {
            let transcript = std::mem::take(&mut self.transcript);
            self.transcript = self.search_block(transcript);
        }
    }

    fn add_to_stream(&mut self, place: u64, function: &Function) {
        let text = &mut self.stream.text;
        let after_return = std::mem::take(&mut self.after_return);
        match function {
            Function::Print(c) => self.stream.push(*c, place),
            Function::Sgr(_) | Function::Si | Function::So | Function::Gzd4(_) => {}
            Function::Decset(_) | Function::Decrst(_) | Function::Sm(_) | Function::Rm(_) => {}
            // Programs move on instead of printing spaces.
            Function::Cuf(_) | Function::Ht => text.push(' '),
            Function::Cr => {
                self.after_return = true;
                text.push('\n');
            }
            Function::Lf if after_return => {}
            _ => text.push('\n'),
        }
    }

    fn search_screen(&mut self, screen: &mut OriginScreen) {
        for text in screen.take_texts(&mut self.transcript) {
            self.search(&text);
        }
    }

    /// Searches a block, and returns the part that is searched again with the next one.
    fn search_block(&mut self, block: PlacedText) -> PlacedText {
        self.search(&block);
        let mut from = block.text.len().saturating_sub(OVERLAP);
        while !block.text.is_char_boundary(from) {
            from -= 1;
        }
        let kept = block.places.partition_point(|(at, _)| *at < from);
        let kept = block.places.get(kept..).unwrap_or_default().iter();
        PlacedText {
            text: block.text.get(from..).unwrap_or_default().to_owned(),
            places: kept.map(|(at, place)| (at - from, *place)).collect(),
        }
    }

    fn search(&mut self, text: &PlacedText) {
        let OfUser {
            redactor,
            names,
            recorded,
        } = self.of_user;
        for notice in recorded.private_notices(&text.text) {
            let places = text.places_of(notice.start, notice.end);
            self.positions.add(places, "");
        }
        for found in redactor.find(&text.text) {
            let (start, end) = (found.range.start, found.range.end);
            if let Some(value) = text.text.get(start..end) {
                self.keep(value, text.places_of(start, end));
            }
            let mark = format!("[REDACTED:{}]", found.kind);
            self.positions.add(text.places_of(start, end), &mark);
        }
        for range in self.partial.find(&text.text) {
            self.positions
                .add(text.places_of(range.start, range.end), "");
        }
        for name in names.find(&text.text) {
            let places = text.places_of(name.range.start, name.range.end);
            self.positions.add(places, name.replacement);
        }
    }

    fn keep(&mut self, value: &str, places: impl Iterator<Item = u64>) {
        let (first, last) = places.fold((u64::MAX, 0), |(first, last), place| {
            (first.min(place), last.max(place + 1))
        });
        if let Some(known) = self.values.get_mut(value) {
            *known = known.start.min(first)..known.end.max(last);
        } else if self.values.len() < MAX_VALUES {
            self.values.insert(value.to_owned(), first..last);
        }
    }
}

/// Returns the places of the values that are the beginning of no other: a value that is typed is found several times.
fn distinct(values: &BTreeMap<String, Range<u64>>) -> Vec<Range<u64>> {
    let mut next = values.keys().skip(1);
    values
        .iter()
        .filter(|(value, _)| !next.next().is_some_and(|next| next.starts_with(*value)))
        .map(|(_, places)| places.clone())
        .collect()
}

#[cfg(test)]
mod tests;
