//! Places in the output whose characters are secret, and the characters shown in their place.

use std::collections::HashMap;

/// Number of places of one chunk.
const CHUNK: u64 = 64 * 64;

/// Maximum number of characters of marks that are kept; further secrets are shown as asterisks only.
const MAX_MARKS: usize = 1 << 16;

/// A set of places. It needs a bit for each byte of those parts of the output that contain secrets.
#[derive(Debug, Default)]
pub struct PositionSet {
    chunks: HashMap<u64, Box<[u64; 64]>>,
    /// The characters of the mark, such as `[REDACTED:kind]`, at the beginning of a secret that is long enough.
    marks: HashMap<u64, char>,
    len: u64,
}

impl PositionSet {
    /// Adds the characters of a secret, in its order. `mark` takes their place, filled with asterisks.
    pub fn add(&mut self, places: impl Iterator<Item = u64>, mark: &str) {
        let places: Vec<u64> = places.collect();
        // The screen is searched after each write, and finds the same secret again.
        let is_new = places.iter().any(|place| !self.contains(*place));
        if !is_new {
            return;
        }
        let is_marked = places.iter().any(|place| self.marks.contains_key(place));
        for place in &places {
            self.insert(*place);
        }
        let has_room = mark.len() <= places.len() && self.marks.len() < MAX_MARKS;
        if !mark.is_empty() && has_room && !is_marked {
            self.marks.extend(places.into_iter().zip(mark.chars()));
        }
    }

    /// Adds the places of another set; its marks replace those of this one.
    pub fn extend(&mut self, other: PositionSet) {
        for (chunk, bits) in other.chunks {
            let own = self
                .chunks
                .entry(chunk)
                .or_insert_with(|| Box::new([0; 64]));
            for (own, more) in own.iter_mut().zip(bits.iter()) {
                self.len += u64::from((more & !*own).count_ones());
                *own |= more;
            }
        }
        self.marks = other.marks;
    }

    /// Returns the replacement for the character at `place`; `None` if it is not secret.
    pub fn replacement(&self, place: u64) -> Option<char> {
        self.contains(place)
            .then(|| self.marks.get(&place).copied().unwrap_or('*'))
    }

    /// Returns the number of places.
    pub fn len(&self) -> u64 {
        self.len
    }

    fn contains(&self, place: u64) -> bool {
        let (chunk, word, bit) = split(place);
        let words = self.chunks.get(&chunk);
        words
            .and_then(|words| words.get(word))
            .is_some_and(|bits| bits & bit != 0)
    }

    fn insert(&mut self, place: u64) {
        let (chunk, word, bit) = split(place);
        let words = self
            .chunks
            .entry(chunk)
            .or_insert_with(|| Box::new([0; 64]));
        if let Some(bits) = words.get_mut(word) {
            self.len += u64::from(*bits & bit == 0);
            *bits |= bit;
        }
    }
}

fn split(place: u64) -> (u64, usize, u64) {
    let within = place % CHUNK;
    // Below 64.
    let word = usize::try_from(within / 64).unwrap_or_default();
    (place / CHUNK, word, 1 << (within % 64))
}
