//! Known values: secrets that the helper itself holds, such as API keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};

use super::AHEAD;
use super::stage::{SearchPlace, SearchResult, SecretMatch, SecretMatcher};
use super::value_class;

/// Maximum number of values without a slot; the least recently used one is evicted. Values with a slot, which the helper
/// uses itself, are never evicted: their number is bounded by the configuration.
const MAX_VALUES: usize = 1024;

/// Maximum size of all spellings for which the fastest automaton is built.
const DFA_LIMIT: usize = 16 << 10;

/// Minimum length; a shorter value is not a key, and may be part of any word.
const MIN_LENGTH: usize = 8;

/// Minimum length of a truncated value at the end of a text that is recognised as part of it.
const MIN_PART: usize = 6;

/// A known value.
#[derive(Debug, Clone)]
struct KnownValue {
    kind: Arc<str>,
    value: Arc<str>,
    /// The setting that the value belongs to. A new value of the same slot replaces it.
    slot: Option<Arc<str>>,
    /// Logical time of the last use.
    used: Arc<AtomicU64>,
}

/// The known values and the automaton that finds them.
#[derive(Debug, Default)]
pub(super) struct KnownValues {
    values: Vec<KnownValue>,
    clock: Arc<AtomicU64>,
    /// Every spelling, with the index of its value.
    spellings: Vec<(Vec<u8>, usize)>,
    finder: Option<AhoCorasick>,
    longest: usize,
    /// Number of values added so far.
    pub(super) added: u64,
}

impl KnownValues {
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Whether this value is known in this slot. Marks it as used.
    pub(super) fn contains(&self, slot: Option<&str>, value: &str) -> bool {
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

    /// Returns these values and one more, which replaces the value of the same slot.
    pub(super) fn with(&self, slot: Option<&str>, kind: &str, value: &str) -> KnownValues {
        let mut values = self.values.clone();
        match slot {
            Some(slot) => values.retain(|known| {
                // The slot also replaces the same value without a slot.
                known.slot.as_deref() != Some(slot)
                    && (known.slot.is_some() || &*known.value != value)
            }),
            None if values.iter().filter(|v| v.slot.is_none()).count() >= MAX_VALUES => {
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
        // A DFA takes about a kilobyte for each byte of a value.
        let fits_dfa = spellings.iter().map(|(s, _)| s.len()).sum::<usize>() < DFA_LIMIT;
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(fits_dfa.then_some(AhoCorasickKind::DFA))
            // A prefilter does not pay off: it stops at every byte with which some value begins.
            .prefilter(false)
            .build(patterns);
        KnownValues {
            longest: spellings.iter().map(|(s, _)| s.len()).max().unwrap_or(0),
            added: self.added + 1,
            clock: self.clock.clone(),
            values,
            spellings,
            finder: finder.ok(),
        }
    }

    /// Returns where a known value begins that is cut off at the end of `head`.
    pub(super) fn truncated_at_end(&self, head: &[u8]) -> Option<usize> {
        let start = |(value, _): &(Vec<u8>, usize)| {
            let max = (value.len() - 1).min(head.len());
            // The last byte is compared first: this runs for every chunk of an answer.
            (MIN_PART..=max)
                .rev()
                .find(|&n| head.last() == Some(&value[n - 1]) && head.ends_with(&value[..n]))
                .map(|n| head.len() - n)
        };
        self.spellings.iter().filter_map(start).min()
    }

    /// Returns where a known value may begin that the end of `text` leaves open, however little of it is there.
    pub(super) fn open_at_end(&self, text: &[u8]) -> usize {
        let start = |(value, _): &(Vec<u8>, usize)| {
            let longest = (value.len() - 1).min(text.len());
            let mut lengths = (1..=longest).rev();
            let open = lengths
                .find(|&n| text.last() == Some(&value[n - 1]) && text.ends_with(&value[..n]));
            open.map(|n| text.len() - n)
        };
        self.spellings
            .iter()
            .filter_map(start)
            .min()
            .unwrap_or(text.len())
    }

    /// Returns where a known value ends whose beginning is cut off at the start of `tail`.
    pub(super) fn truncated_at_start(&self, tail: &[u8]) -> Option<usize> {
        let end = |(value, _): &(Vec<u8>, usize)| {
            let max = (value.len() - 1).min(tail.len());
            (MIN_PART..=max)
                .rev()
                .find(|&n| tail.starts_with(&value[value.len() - n..]))
        };
        self.spellings.iter().filter_map(end).max()
    }
}

impl SecretMatcher for KnownValues {
    type State = ();

    fn next(&self, (): &mut (), text: &[u8], place: SearchPlace) -> SearchResult {
        let SearchPlace { from, last, .. } = place;
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

/// Returns the spellings of a value: verbatim, in JSON, in a URL. A value longer than the search window is split.
fn spellings(value: &str) -> Vec<Vec<u8>> {
    let json = serde_json::Value::from(value).to_string();
    let json = json.trim_matches('"').to_string();
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_.~".contains(b);
    let mut url = String::new();
    for byte in value.as_bytes() {
        match plain(byte) {
            true => url.push(char::from(*byte)),
            false => url.push_str(&format!("%{byte:02X}")),
        }
    }
    let all = [value.to_string(), json, url];
    let pieces = all.iter().flat_map(|s| s.as_bytes().chunks(AHEAD));
    let mut pieces: Vec<_> = pieces
        .filter(|p| p.len() >= MIN_LENGTH)
        .map(<[u8]>::to_vec)
        .collect();
    pieces.dedup();
    pieces
}

/// Whether the value can be redacted everywhere without destroying ordinary text.
pub(super) fn is_redactable(value: &str) -> bool {
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
    let is_path = value.starts_with(['/', '~', '.'])
        && !value.contains(char::is_whitespace)
        && !value_class::is_random(value.as_bytes());
    // A port, a date, an IP address.
    let is_number = value.len() < 16
        && value
            .bytes()
            .all(|b| b.is_ascii_digit() || b".:-".contains(&b));
    let is_ordinary = is_path || is_number || ORDINARY.contains(&lower.as_str());
    value.chars().count() >= MIN_LENGTH
        && !is_ordinary
        // A repeated character, such as `--------`, is a horizontal rule of a table.
        && value.bytes().any(|b| Some(&b) != value.as_bytes().first())
}

/// Whether the name of a variable indicates a secret.
pub(super) fn names_secret(name: &str) -> bool {
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
    // `PAT` must be a whole word, since `PATH` contains it.
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
