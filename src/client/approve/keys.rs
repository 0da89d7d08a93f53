//! The keys of the question: which there are, what they mean, and why some are not there.

use crate::client::asking::Asking;
use crate::protocol::tools::{Question, Verdict};
use crate::safety::alike;
use crate::safety::policy::{CHANGED, GRANT_MS, UNCONFIGURED};
use crate::safety::text::one_line;

/// The rule that asks about everything: nothing that a person has to be told.
pub const DEFAULT: &str = "policy.default";

/// Behind the words on what a yes for good does.
pub const AGAIN: &str = "[A] again: yes, always   any other key: back ";

/// A key of the question.
struct Key {
    /// Without it among the offers the key is not there.
    offer: Option<&'static str>,
    /// In full, and where the line would not hold that.
    words: [&'static str; 2],
}

const fn key(offer: Option<&'static str>, wide: &'static str, short: &'static str) -> Key {
    Key {
        offer,
        words: [wide, short],
    }
}

const KEYS: [Key; 9] = [
    key(None, "run?", "run?"),
    key(None, "[y]es ", "[y]es "),
    key(None, "[n]o ", "[n]o "),
    key(
        Some("tool"),
        "[t]ool for this session ",
        "[t]ool this session ",
    ),
    key(
        Some("reads"),
        "[r]eads for this session ",
        "[r]eads this session ",
    ),
    key(Some("always"), "[A]lways ", "[A]lways "),
    key(None, "[e]dit ", "[e]dit "),
    key(None, "[d]eny and say why ", "[d]eny, say why "),
    key(None, "[?]", "[?]"),
];

/// The line of the keys.
pub fn line(asking: &Asking<'_>, question: &Question) -> String {
    let there = |key: &&Key| key.offer.is_none_or(|offer| offers(question, offer));
    let words = |n: usize| KEYS.iter().filter(there).map(move |key| key.words[n]);
    let wide = 1 + words(0).map(|key| 1 + key.len()).sum::<usize>();
    let form = usize::from(wide + 2 > asking.size.0);
    let mut out = asking.dim("└");
    let mut column = 1;
    for key in words(form) {
        if column > 2 && column + 1 + key.trim_end().len() > asking.size.0.saturating_sub(2) {
            out.push_str("\n ");
            column = 1;
        }
        out.push(' ');
        out.push_str(key);
        column += 1 + key.len();
    }
    out.push(' ');
    out
}

/// The column where a line of the keys ends.
pub fn end(line: &str) -> usize {
    let last = line.rsplit('\n').next().unwrap_or_default();
    match last.rsplit_once('└') {
        Some((_, keys)) => 1 + keys.trim_start_matches("\x1b[0m").len(),
        None => last.len(),
    }
}

pub fn offers(question: &Question, offer: &str) -> bool {
    question.offers.iter().any(|o| o == offer)
}

/// What a key says that goes beyond this once, and in words; or why it is not there.
///
/// # Errors
/// It says nothing here.
pub fn beyond(byte: u8, question: &Question) -> Result<(Verdict, String), String> {
    let (offer, verdict, words) = match byte {
        b't' | b'T' => (
            "tool",
            Verdict::Tool,
            "this tool for this session".to_string(),
        ),
        b'r' | b'R' => {
            let words = format!("reads for this session: {}", reads(question));
            ("reads", Verdict::Reads, words)
        }
        _ => ("always", Verdict::Always, "always".to_string()),
    };
    if !offers(question, offer) {
        return Err(withheld(question, offer));
    }
    // It is the key that used to mean less.
    if byte == b'a' {
        return Err(match offers(question, "tool") {
            true => "always is [A], with Shift; for this session alone it is [t]".to_string(),
            false => "always is [A], with Shift".to_string(),
        });
    }
    Ok((verdict, words))
}

/// Why an answer would have no effect.
fn withheld(question: &Question, offer: &str) -> String {
    let server = alike::name(&question.tool.server);
    if offer == "reads" && super::look::reads_only(&question.tool) {
        return format!(
            "that would not cover this call, which is taken for: {}",
            question.operation.as_str()
        );
    }
    if offer == "reads" {
        return format!("server {server} does not say of this tool that it only reads");
    }
    // All that the session can be told, and no more: it is the rule that cannot be.
    if offer == "always" && offers(question, "tool") && question.why != UNCONFIGURED {
        return format!(
            "no rule can be kept: server {server} was connected by hand, or aish may not write the configuration"
        );
    }
    match question.why.as_str() {
        why if why.starts_with(DEFAULT) || why == CHANGED => {
            "this can be allowed one call at a time only".to_string()
        }
        UNCONFIGURED if offer == "always" => {
            format!("server {server} was connected by hand: no rule can allow it anything")
        }
        UNCONFIGURED => "this can be allowed one call at a time only".to_string(),
        rule => format!("{} asks every time", one_line(rule, 200)),
    }
}

/// The tools that `reads` would allow.
pub fn reads(question: &Question) -> String {
    let (total, writing) = question.server_tools;
    let word = match question.tool.trusted {
        true => "",
        false => " (its word)",
    };
    let server = alike::name(&question.tool.server);
    let reading = total.saturating_sub(writing);
    format!("{reading} of the {total} tools of {server}, which only read{word}")
}

/// What a yes for good does.
pub fn forever(question: &Question) -> String {
    format!(
        "always: your config.toml gets a rule that allows {}, whatever its arguments, in every session",
        alike::name(&question.tool.name)
    )
}

/// The keys and what they do.
pub fn explained(question: &Question) -> Vec<(&'static str, String)> {
    let hours = GRANT_MS / 3_600_000;
    let session = format!("for this session, until the daemon ends, {hours} hours at most");
    let mut keys = vec![
        ("y", "yes, this once, with these arguments".to_string()),
        ("n, Enter", "no".to_string()),
    ];
    let beyond = [
        (
            "t",
            "tool",
            format!("yes, and {session}, to this tool, whatever its arguments"),
        ),
        (
            "r",
            "reads",
            format!("yes, and {session}, to {}", reads(question)),
        ),
        (
            "A",
            "always",
            "yes, and from now on to this tool: a rule in your config.toml (asks for a second A)"
                .to_string(),
        ),
    ];
    for (key, offer, does) in beyond {
        if offers(question, offer) {
            keys.push((key, does));
        }
    }
    for (key, does) in [
        ("e", "edit the arguments, then be asked again"),
        ("d", "no, and the model is told why"),
        ("↓", "read the arguments to their end"),
        ("Ctrl-C", "no, and the turn ends"),
    ] {
        keys.push((key, does.to_string()));
    }
    keys
}
