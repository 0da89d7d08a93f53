//! A deterministic mutator of byte strings.

use super::{Shape, Target, json};

/// Maximum number of inputs that are kept beside the corpus.
const MAX_LEARNED: usize = 128;

/// Characters with a meaning for terminals, lines and encodings.
pub const CHARACTERS: &[&str] = &[
    "\0",
    "\t",
    "\n",
    "\r",
    "\r\n",
    "\x1b",
    "\x1b]52;c;",
    "\x7f",
    "\u{85}",
    "\u{9b}",
    "\u{ad}",
    "\u{200b}",
    "\u{200d}",
    "\u{202e}",
    "\u{2028}",
    "\u{2066}",
    "\u{fe0f}",
    "\u{feff}",
    "\u{fffd}",
    "\u{10ffff}",
    "\u{e0041}",
    "\u{301}",
    "é",
    "日",
    "👩‍💻",
    "🇩",
    "\"",
    "'",
    "\\",
    "\\u0000",
    "\\ud83d",
    "\\ude00",
    "`",
    "$",
    "%00",
    " ",
    "   ",
];

/// Numbers at the limits of types and of the program.
pub const NUMBERS: &[u64] = &[
    0,
    1,
    7,
    8,
    63,
    64,
    65,
    127,
    128,
    255,
    256,
    257,
    1000,
    1024,
    4095,
    4096,
    4097,
    16384,
    65535,
    65536,
    65537,
    1 << 20,
    i32::MAX as u64,
    1 << 31,
    u32::MAX as u64,
    1 << 32,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];

/// Pseudo-random numbers (splitmix64).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns a generator that depends on the content, so that a target can be repeated with an input alone.
    pub fn of(content: &[u8]) -> Random {
        let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        Random(content.iter().fold(0xcbf2_9ce4_8422_2325, fnv))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`, or 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.below(from.len())]
    }
}

/// Splits an input into pieces of random sizes: single bytes, or a few large pieces.
pub fn pieces(input: &[u8]) -> Vec<&[u8]> {
    let mut random = Random::of(input);
    let largest = *random.pick(&[1, 3, 16, 300, 5000, usize::MAX]);
    // Hundreds of thousands of pieces take long and show nothing new.
    let largest = largest.max(input.len() / 1000).min(input.len()).max(1);
    let mut pieces = Vec::new();
    let mut rest = input;
    while !rest.is_empty() {
        let size = (1 + random.below(largest)).min(rest.len());
        let (piece, after) = rest.split_at(size);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Same as [`pieces`], split between characters.
pub fn text_pieces(text: &str) -> Vec<&str> {
    let mut pieces_of_text = Vec::new();
    let (mut from, mut to) = (0, 0);
    for piece in pieces(text.as_bytes()) {
        to += piece.len();
        if text.is_char_boundary(to) {
            pieces_of_text.push(&text[from..to]);
            from = to;
        }
    }
    pieces_of_text
}

/// Produces inputs from a corpus.
pub struct Mutator {
    random: Random,
    corpus: Vec<Vec<u8>>,
    learned: Vec<Vec<u8>>,
    tokens: &'static [&'static str],
    usual_size: usize,
    max_size: usize,
    /// The values in the corpus, if the inputs are JSON.
    values: Option<json::Values>,
}

impl Mutator {
    pub fn new(seed: u64, corpus: Vec<Vec<u8>>, target: &Target) -> Mutator {
        Mutator {
            random: Random::new(seed),
            values: (target.shape == Shape::Json).then(|| json::Values::new(&corpus)),
            corpus,
            learned: Vec::new(),
            tokens: target.tokens,
            usual_size: target.usual_size,
            max_size: 32 * target.usual_size,
        }
    }

    /// Adds an input to mutate further, occasionally.
    pub fn learn(&mut self, input: Vec<u8>) {
        if input.len() > self.usual_size || self.random.below(16) > 0 {
            return;
        }
        if self.learned.len() < MAX_LEARNED {
            self.learned.push(input);
        } else {
            let at = self.random.below(MAX_LEARNED);
            self.learned[at] = input;
        }
    }

    /// Returns the next input.
    pub fn mutate(&mut self) -> Vec<u8> {
        let mut input = self.base().clone();
        let steps = 1 + self.random.below(6);
        if self.random.below(4) > 0
            && let Some(values) = &self.values
            && let Some(text) = values.mutate(&input, steps, &mut self.random)
        {
            input = text;
            // Cut off, it would not be JSON.
            if input.len() <= self.max_size {
                return input;
            }
        }
        for _ in 0..steps {
            self.step(&mut input);
        }
        let max = match self.random.below(1000) {
            0 => self.max_size,
            _ => self.usual_size,
        };
        if max == self.max_size && !input.is_empty() {
            let at = self.random.below(input.len());
            let end = input.len().min(at + 1 + self.random.below(64));
            let times = self.random.below(self.max_size / (end - at));
            let part = input[at..end].repeat(times);
            input.splice(at..at, part);
        }
        input.truncate(max);
        input
    }

    fn base(&mut self) -> &Vec<u8> {
        let at = self.random.below(self.corpus.len() + self.learned.len());
        self.learned
            .get(at)
            .unwrap_or_else(|| &self.corpus[at - self.learned.len()])
    }

    fn step(&mut self, input: &mut Vec<u8>) {
        let at = self.random.below(input.len() + 1);
        let end = (at + 1 + self.random.below(32)).min(input.len());
        match self.random.below(16) {
            0 if at < end => input[at] ^= 1 << self.random.below(8),
            1 if at < end => input[at] = self.random.next() as u8,
            2 => input.truncate(at),
            3 => drop(input.drain(at.min(end)..end)),
            4 => {
                let times = 1 + self.random.below(8);
                let part = input[at.min(end)..end].repeat(times);
                input.splice(at..at, part);
            }
            5 => {
                let number = *self.random.pick(NUMBERS);
                let bytes = number.to_le_bytes();
                let size = *self.random.pick(&[1, 2, 4, 8]);
                for (to, byte) in input[at..].iter_mut().zip(&bytes[..size]) {
                    *to = *byte;
                }
            }
            6 => {
                // In place of the digits there.
                let number = self.random.pick(NUMBERS).to_string();
                let from = input[at..]
                    .iter()
                    .position(u8::is_ascii_digit)
                    .map_or(at, |n| at + n);
                let digits = input[from..]
                    .iter()
                    .take_while(|b| b.is_ascii_digit())
                    .count();
                input.splice(from..from + digits, number.into_bytes());
            }
            7 => {
                let other = self.base().clone();
                let from = self.random.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            8 | 9 => {
                // A line of another input, which keeps the syntax of most formats.
                let other = self.base().clone();
                let lines: Vec<&[u8]> = other.split_inclusive(|b| *b == b'\n').collect();
                if !lines.is_empty() {
                    let line = self.random.pick(&lines).to_vec();
                    let starts = line_starts(input);
                    let at = *self.random.pick(&starts);
                    input.splice(at..at, line);
                }
            }
            10 => {
                let starts = line_starts(input);
                let line = self.random.below(starts.len());
                let end = starts.get(line + 1).map_or(input.len(), |next| *next);
                input.drain(starts[line]..end);
            }
            11 => {
                let text = self.random.pick(CHARACTERS).as_bytes().to_vec();
                input.splice(at..at, text);
            }
            12 => {
                let token = self.random.pick(self.tokens).as_bytes().to_vec();
                input.splice(at.min(end)..end, token);
            }
            _ => {
                let token = self.random.pick(self.tokens).as_bytes().to_vec();
                input.splice(at..at, token);
            }
        }
    }
}

fn line_starts(input: &[u8]) -> Vec<usize> {
    let ends = input.iter().enumerate().filter(|(_, b)| **b == b'\n');
    std::iter::once(0)
        .chain(ends.map(|(at, _)| at + 1))
        .collect()
}
