//! The catalogue of known models: prices, context windows, limits of the answer. Pure.
//!
//! The data is part of the program and written by `catalog/update.py`. A model that is not in it is unknown; nothing is
//! guessed from a similar name.

use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use reqwest::Url;

use crate::chat::Dialect;
use crate::safety::budget::{ModelPrice, RateTable, TokenRates};

/// A `[SECTION]` per provider, then a line per model with the fields, separated by tabs: patterns of the name, context
/// window, limit of the answer, prices. A pattern has `*` for any text and `#` for a digit; one that begins with `!`
/// excludes a name. The first line that matches counts. The prices are alternatives separated by `; `, of which the last
/// that is in force counts: a condition (a date from which on, or a time of the day in UTC), then the
/// rates of input, output, cache reads and cache writes, then `>TOKENS` with the rates of longer requests.
const MODELS: &str = include_str!("catalog/models.txt");

/// Facts about a model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KnownModel {
    /// The context window, in tokens.
    pub window: Option<u32>,
    /// The most tokens of an answer.
    pub max_output: Option<u32>,
    /// The price.
    pub price: Option<ModelPrice>,
}

/// Returns the section for a server that speaks `dialect` at `base_url`; `None` if its models are not known.
pub fn section(dialect: Dialect, is_mistral: bool, base_url: &str) -> Option<&'static str> {
    let url = Url::parse(base_url.trim()).ok();
    let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
    let is_at = |domain: &str| {
        let sub = host.strip_suffix(domain);
        sub.is_some_and(|sub| sub.is_empty() || sub.ends_with('.'))
    };
    match dialect {
        Dialect::Responses => return Some("openai"),
        Dialect::Anthropic => return Some("anthropic"),
        Dialect::Gemini => return Some("gemini"),
        Dialect::Chat if is_mistral => return Some("mistral"),
        Dialect::Chat => {}
    }
    let hosts = [
        ("api.openai.com", "openai"),
        ("api.anthropic.com", "anthropic"),
        ("generativelanguage.googleapis.com", "gemini"),
        ("api.mistral.ai", "mistral"),
        ("api.deepseek.com", "deepseek"),
        ("api.moonshot.ai", "moonshot"),
        ("api.moonshot.cn", "moonshot"),
        ("api.x.ai", "xai"),
        ("api.groq.com", "groq"),
        ("api.cerebras.ai", "cerebras"),
        ("api.together.ai", "together"),
        ("api.together.xyz", "together"),
        ("api.fireworks.ai", "fireworks"),
        ("openrouter.ai", "openrouter"),
    ];
    let found = hosts.into_iter().find(|(domain, _)| is_at(domain));
    found.map(|(_, section)| section)
}

/// Returns the facts about a model of a section at this time.
pub fn find(section: &str, model: &str, now: DateTime<Utc>) -> Option<KnownModel> {
    let model = model.trim().trim_start_matches("models/").to_lowercase();
    let mut fields = lines(section)
        .map(|line| line.split('\t'))
        .find(|fields| is_named(fields.clone().next().unwrap_or_default(), &model))?
        .skip(1);
    let mut number = || fields.next().and_then(|field| field.parse().ok());
    let (window, max_output) = (number(), number());
    Some(KnownModel {
        window,
        max_output,
        price: prices(fields.next().unwrap_or_default(), now),
    })
}

fn lines(section: &str) -> impl Iterator<Item = &'static str> {
    let begin = format!("[{section}]");
    let mut lines = MODELS.lines();
    lines.by_ref().find(|line| *line == begin);
    lines.take_while(|line| !line.starts_with('['))
}

/// Whether the patterns of a line match a name in lower case.
fn is_named(patterns: &str, model: &str) -> bool {
    let mut found = false;
    for pattern in patterns.split(' ') {
        match pattern.strip_prefix('!') {
            Some(excluded) if matches(excluded.as_bytes(), model.as_bytes()) => return false,
            Some(_) => {}
            None => found |= matches(pattern.as_bytes(), model.as_bytes()),
        }
    }
    found
}

/// Matches without recursion: on a mismatch, the last `*` takes one byte more.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(b'#') if name[n].is_ascii_digit() => (p, n) = (p + 1, n + 1),
            Some(byte) if *byte == name[n] => (p, n) = (p + 1, n + 1),
            _ => {
                let Some((at, taken)) = star else {
                    return false;
                };
                star = Some((at, taken + 1));
                (p, n) = (at + 1, taken + 1);
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

fn prices(text: &str, now: DateTime<Utc>) -> Option<ModelPrice> {
    let mut price: Option<ModelPrice> = None;
    for alternative in text.split("; ") {
        let (condition, rates) = match alternative.split_once(' ') {
            Some((word, rest)) if word.contains(['-', ':']) && word.len() > 1 => (Some(word), rest),
            _ => (None, alternative),
        };
        let table = rate_table(rates)?;
        let price = price.get_or_insert_default();
        if condition.is_none_or(|condition| is_in_force(condition, now)) {
            let before = std::mem::replace(&mut price.current, table);
            price.other.push(before);
        } else {
            price.other.push(table);
        }
    }
    price
}

/// Whether a date has come, or a time of the day is now.
fn is_in_force(condition: &str, now: DateTime<Utc>) -> bool {
    if let Ok(start) = condition.parse::<NaiveDate>() {
        return now.date_naive() >= start;
    }
    let time = |text| NaiveTime::parse_from_str(text, "%H:%M").ok();
    let times = condition.split_once('-');
    let Some((Some(start), Some(end))) = times.map(|(start, end)| (time(start), time(end))) else {
        return false;
    };
    let now = now.time();
    match start <= end {
        true => start <= now && now < end,
        false => start <= now || now < end,
    }
}

fn rate_table(text: &str) -> Option<RateTable> {
    let mut parts = text.split(" >");
    let base = token_rates(parts.next()?)?;
    let tiers = parts.map(|part| {
        let (start, rates) = part.split_once(' ')?;
        Some((start.parse().ok()?, token_rates(rates)?))
    });
    Some(RateTable {
        base,
        tiers: tiers.collect::<Option<_>>()?,
    })
}

fn token_rates(text: &str) -> Option<TokenRates> {
    let mut rates = text.split(' ').map(|word| word.parse().ok());
    Some(TokenRates {
        input: rates.next()??,
        output: rates.next()??,
        cache_read: rates.next().flatten(),
        cache_write: rates.next().flatten(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: &str) -> DateTime<Utc> {
        time.parse().unwrap()
    }

    fn now() -> DateTime<Utc> {
        at("2026-12-01T12:00:00Z")
    }

    #[test]
    fn every_line_can_be_read() {
        let mut section = "";
        let mut count = 0;
        for line in MODELS.lines().filter(|line| !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix('[') {
                section = name.trim_end_matches(']');
                continue;
            }
            let fields: Vec<&str> = line.split('\t').collect();
            assert_eq!(fields.len(), 4, "{line}");
            for number in &fields[1..3] {
                assert!(*number == "-" || number.parse::<u32>().is_ok(), "{line}");
            }
            assert!(
                fields[3].is_empty() || prices(fields[3], now()).is_some(),
                "{line}"
            );
            // Its own patterns name it or an earlier line.
            let first = fields[0].split(' ').next().unwrap();
            let name = first.replace('*', "").replace('#', "1");
            assert!(find(section, &name, now()).is_some(), "{line}");
            count += 1;
        }
        assert!(count > 700, "{count}");
    }

    #[derive(serde::Deserialize)]
    struct PricedUsage {
        section: String,
        model: String,
        prompt: u64,
        read: u64,
        write: u64,
        out: u64,
        usd: f64,
    }

    /// What genai-prices computes for these usages at 02:30 UTC; `AISH_PRICES` names a file with more of them.
    #[test]
    fn usages_cost_what_genai_prices_says() {
        let fixture = include_str!("../../tests/fixtures/prices.jsonl").to_owned();
        let more =
            std::env::var_os("AISH_PRICES").map(|file| std::fs::read_to_string(file).unwrap());
        let mut count = 0;
        for line in fixture.lines().chain(more.unwrap_or_default().lines()) {
            let priced: PricedUsage = serde_json::from_str(line).unwrap();
            let known = find(&priced.section, &priced.model, at("2026-12-01T02:30:00Z"));
            let usage = crate::chat::TokenUsage {
                prompt_tokens: priced.prompt,
                completion_tokens: priced.out,
                cache_read_tokens: priced.read,
                cache_write_tokens: priced.write,
                ..Default::default()
            };
            let cost = known.unwrap().price.unwrap().cost(&usage);
            assert!((cost - priced.usd).abs() <= 1e-9, "{line}: {cost}");
            count += 1;
        }
        assert!(count >= 50, "{count}");
    }

    #[test]
    fn models_are_found_by_pattern() {
        let find = |section, model| find(section, model, now());
        let sonnet = find("anthropic", "claude-sonnet-5-20260601").unwrap();
        assert_eq!(sonnet.window, Some(1_000_000));
        let price = sonnet.price.unwrap().current.base;
        assert_eq!((price.input, price.output), (2.0, 10.0));
        assert_eq!(
            (price.cache_read, price.cache_write),
            (Some(0.2), Some(2.5))
        );
        assert_eq!(find("anthropic", "claude-sonnet-5-2026060"), None);
        assert_eq!(find("openai", "gpt-5-nonesuch"), None);
        assert_eq!(find("nonesuch", "gpt-5"), None);
        assert!(find("openai", "GPT-5").is_some());
        let speech = find("gemini", "gemini-2.5-pro-preview-tts").unwrap();
        assert_ne!(speech, find("gemini", "models/gemini-2.5-pro").unwrap());
    }

    #[test]
    fn the_longest_request_has_prices_of_its_own() {
        let price = find("openai", "gpt-5.4", now()).unwrap().price.unwrap();
        let [(start, rates)] = &price.current.tiers[..] else {
            panic!("{price:?}");
        };
        assert_eq!((*start, rates.input), (272_000, 5.0));
    }

    #[test]
    fn conditions_choose_the_price() {
        let text = "1 2; 01:00-04:00 3 4; 2027-01-01 5 6; 22:00-01:00 7 8 - 9";
        let input = |time: &str| prices(text, at(time)).unwrap().current.base.input;
        assert_eq!(input("2026-12-01T12:00:00Z"), 1.0);
        assert_eq!(input("2026-12-01T01:00:00Z"), 3.0);
        assert_eq!(input("2027-01-01T02:00:00Z"), 5.0);
        assert_eq!(input("2027-01-01T23:59:00Z"), 7.0);
        assert_eq!(input("2027-01-01T00:59:00Z"), 7.0);
        let price = prices(text, now()).unwrap();
        let others: Vec<f64> = price.other.iter().map(|table| table.base.input).collect();
        assert!(others.ends_with(&[3.0, 5.0, 7.0]), "{others:?}");
        assert_eq!(price.other.last().unwrap().base.cache_write, Some(9.0));
    }

    #[test]
    fn patterns_match_like_globs() {
        for (pattern, name, expected) in [
            ("a*c", "abbc", true),
            ("a*c", "acb", false),
            ("*x*", "axb", true),
            ("*ab", "aab", true),
            ("m-##", "m-12", true),
            ("m-##", "m-1x", false),
            ("", "", true),
            ("*", "", true),
            ("a", "", false),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), name.as_bytes()),
                expected,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn sections_follow_the_dialect_or_the_host() {
        let chat = |url| section(Dialect::Chat, false, url);
        assert_eq!(chat("https://openrouter.ai/api/v1"), Some("openrouter"));
        assert_eq!(chat("https://api.x.ai/v1"), Some("xai"));
        assert_eq!(chat("https://notapi.x.ai/v1"), None);
        assert_eq!(chat("http://127.0.0.1:11434/v1"), None);
        assert_eq!(
            section(Dialect::Anthropic, false, "http://127.0.0.1:1"),
            Some("anthropic")
        );
        assert_eq!(
            section(Dialect::Chat, true, "http://127.0.0.1:1"),
            Some("mistral")
        );
    }
}
