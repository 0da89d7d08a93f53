//! The values that the helper holds itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};

use super::AHEAD;
use super::filter::{SearchResult, SecretMatch, SecretMatcher};
use super::shape;

/// Maximum number of values without a slot; the one that was used longest ago is evicted. Values with a slot, those that
/// the helper itself uses, are never evicted: there are as many as there are settings.
const MOST: usize = 1024;

/// Bytes of all values that are few.
const FEW: usize = 16 << 10;

/// A shorter value is no key, and may be part of any word.
const MIN: usize = 8;

/// The least part of a value, cut off by the end of a text, that counts as part of it.
const PART: usize = 6;

/// A value that the helper holds.
#[derive(Debug, Clone)]
struct KnownValue {
    kind: Arc<str>,
    value: Arc<str>,
    /// What it is the value of. Another value of the same slot replaces it.
    slot: Option<Arc<str>>,
    /// When it was learned again, as a number that grows.
    used: Arc<AtomicU64>,
}

/// Values and what finds them.
#[derive(Debug, Default)]
pub(super) struct Known {
    values: Vec<KnownValue>,
    clock: Arc<AtomicU64>,
    /// Every spelling, with which value's it is.
    spellings: Vec<(Vec<u8>, usize)>,
    finder: Option<AhoCorasick>,
    longest: usize,
    /// How many have been learned in all.
    pub(super) learned: u64,
}

impl Known {
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Whether this value is known in this slot, and notes that it is in use.
    pub(super) fn has(&self, slot: Option<&str>, value: &str) -> bool {
        let same = |known: &&KnownValue| {
            &*known.value == value && (slot.is_none() || known.slot.as_deref() == slot)
        };
        let found = self.values.iter().find(same);
        if let Some(known) = found {
            known.used.store(self.tick(), Ordering::Relaxed);
        }
        found.is_some()
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    /// These and one more, which replaces the value of the same slot.
    pub(super) fn with(&self, slot: Option<&str>, kind: &str, value: &str) -> Known {
        let mut values = self.values.clone();
        match slot {
            Some(slot) => values.retain(|known| {
                // The same value without a slot is not needed twice.
                known.slot.as_deref() != Some(slot)
                    && (known.slot.is_some() || &*known.value != value)
            }),
            None if values.iter().filter(|v| v.slot.is_none()).count() >= MOST => {
                let used = |known: &KnownValue| known.used.load(Ordering::Relaxed);
                let free = values.iter().enumerate().filter(|(_, v)| v.slot.is_none());
                if let Some((at, _)) = free.min_by_key(|(_, known)| used(known)) {
                    values.remove(at);
                }
            }
            None => {}
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let kind: String = kind.chars().filter(|&c| plain(c)).collect();
        values.push(KnownValue {
            kind: kind.into(),
            value: value.into(),
            slot: slot.map(Into::into),
            used: Arc::new(AtomicU64::new(self.tick())),
        });
        let mut spellings: Vec<_> = values
            .iter()
            .enumerate()
            .flat_map(|(at, known)| spellings(&known.value).into_iter().map(move |s| (s, at)))
            .collect();
        spellings.sort();
        spellings.dedup_by(|a, b| a.0 == b.0);
        let patterns = spellings.iter().map(|(spelling, _)| spelling);
        // The fastest kind takes about a kilobyte for each byte of a value.
        let few = spellings.iter().map(|(s, _)| s.len()).sum::<usize>() < FEW;
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(few.then_some(AhoCorasickKind::DFA))
            // It would stop at each byte with which some value begins.
            .prefilter(false)
            .build(patterns);
        Known {
            longest: spellings.iter().map(|(s, _)| s.len()).max().unwrap_or(0),
            learned: self.learned + 1,
            clock: self.clock.clone(),
            values,
            spellings,
            finder: finder.ok(),
        }
    }

    /// Where at the end of `head` a value begins that was cut off.
    pub(super) fn begun(&self, head: &[u8]) -> Option<usize> {
        let begun = |(value, _): &(Vec<u8>, usize)| {
            let most = (value.len() - 1).min(head.len());
            // The last byte is compared first: this is asked for every part of an answer.
            (PART..=most)
                .rev()
                .find(|&n| head.last() == Some(&value[n - 1]) && head.ends_with(&value[..n]))
                .map(|n| head.len() - n)
        };
        self.spellings.iter().filter_map(begun).min()
    }

    /// Where at the start of `tail` a value ends that was cut off.
    pub(super) fn ended(&self, tail: &[u8]) -> Option<usize> {
        let ended = |(value, _): &(Vec<u8>, usize)| {
            let most = (value.len() - 1).min(tail.len());
            (PART..=most)
                .rev()
                .find(|&n| tail.starts_with(&value[value.len() - n..]))
        };
        self.spellings.iter().filter_map(ended).max()
    }
}

impl SecretMatcher for Known {
    fn next(&self, text: &[u8], from: usize, _: usize, last: bool) -> SearchResult {
        let certain = match last {
            true => text.len(),
            false => (text.len() + 1).saturating_sub(self.longest).max(from),
        };
        let found = self
            .finder
            .as_ref()
            .and_then(|f| f.find(Input::new(text).range(from..)))
            .filter(|found| found.start() < certain);
        match found {
            Some(found) => {
                let (_, value) = self.spellings[found.pattern().as_usize()];
                SearchResult::Hit(SecretMatch {
                    range: found.range(),
                    kind: self.values[value].kind.clone(),
                    more: None,
                })
            }
            None => SearchResult::Wait(certain),
        }
    }
}

/// How a value may be written: as it is, within JSON, within an address. Of an endless one the start and the rest are known apart.
fn spellings(value: &str) -> Vec<Vec<u8>> {
    let json = serde_json::Value::from(value).to_string();
    let json = json.trim_matches('"').to_string();
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_.~".contains(b);
    let mut address = String::new();
    for byte in value.as_bytes() {
        match plain(byte) {
            true => address.push(char::from(*byte)),
            false => address.push_str(&format!("%{byte:02X}")),
        }
    }
    let all = [value.to_string(), json, address];
    let pieces = all.iter().flat_map(|s| s.as_bytes().chunks(AHEAD));
    let mut pieces: Vec<_> = pieces
        .filter(|p| p.len() >= MIN)
        .map(<[u8]>::to_vec)
        .collect();
    pieces.dedup();
    pieces
}

/// Whether taking this value out everywhere leaves ordinary text whole.
pub(super) fn worth(value: &str) -> bool {
    const ORDINARY: &[&str] = &[
        "anonymous",
        "changeme",
        "database",
        "debugging",
        "default",
        "development",
        "disabled",
        "enabled",
        "integration",
        "local",
        "localhost",
        "password",
        "placeholder",
        "postgres",
        "postgresql",
        "production",
        "readonly",
        "staging",
        "testing",
        "undefined",
        "username",
        "verbose",
    ];
    let lower = value.to_ascii_lowercase();
    let path = value.starts_with(['/', '~', '.'])
        && !value.contains(char::is_whitespace)
        && !shape::is_random(value.as_bytes());
    // A port, a date, an address.
    let number = value.len() < 16
        && value
            .bytes()
            .all(|b| b.is_ascii_digit() || b".:-".contains(&b));
    let ordinary = path || number || ORDINARY.contains(&lower.as_str());
    value.chars().count() >= MIN
        && !ordinary
        // One letter over and over is a line of a table.
        && value.bytes().any(|b| Some(&b) != value.as_bytes().first())
}

/// Whether a variable of this name is meant to be secret.
pub(super) fn speaks_of_secret(name: &str) -> bool {
    const WORDS: &[&str] = &[
        "AUTH",
        "COOKIE",
        "CREDENTIAL",
        "DSN",
        "KEY",
        "PASS",
        "PAT",
        "PRIVATE",
        "PWD",
        "SECRET",
        "SESSION",
        "TOKEN",
    ];
    let name = name.to_ascii_uppercase();
    let mut parts = name.split(|c: char| !c.is_ascii_alphanumeric());
    // `PAT` alone is a word: `PATH` is none.
    parts.any(|part| {
        WORDS.iter().any(|w| {
            if *w == "PAT" {
                part == *w
            } else {
                part.contains(w)
            }
        })
    })
}
