//! The estimate of tokens against what providers counted for recorded requests.
//!
//! Runs with recordings only, which are not ours to commit: `exchanges.jsonl` in the directory of `AISH_RECORDINGS`, written by
//! `cassettes.py` beside this file. A request whose messages begin with those of an earlier one, for the same model with the
//! same tools, continues its conversation.

use std::collections::BTreeMap;
use std::path::PathBuf;

use aish::chat::tokens::{request_tokens, tool_tokens};
use aish::services::token_ratios::{TokenCounter, TokenRatios};

use super::recorded_requests::{Reason, Request, converted};

/// Tokens of a long request. One of aish has more: its instructions and its tools take that many.
const LONG: u64 = 500;

/// Estimated tokens before the model's ratio.
fn estimate(request: &Request) -> f64 {
    request_tokens(&request.messages, &request.model)
        .iter()
        .sum::<f64>()
        + request.tools.iter().map(tool_tokens).sum::<f64>()
}

/// Finds the latest part of the conversation that the request continues.
fn continued(requests: &[Request], at: usize) -> Option<usize> {
    let request = &requests[at];
    let is_before = |earlier: &Request| {
        earlier.dialect == request.dialect
            && earlier.model == request.model
            && earlier.tools == request.tools
            && earlier.messages.len() < request.messages.len()
            && request.messages.starts_with(&earlier.messages)
    };
    let before = (0..requests.len()).filter(|before| is_before(&requests[*before]));
    before.max_by_key(|before| requests[*before].messages.len())
}

/// Reads the recorded requests, each once, and counts those that are left out.
fn requests(lines: &str) -> (Vec<Request>, BTreeMap<Reason, usize>) {
    let (mut requests, mut left_out): (Vec<Request>, BTreeMap<_, _>) = Default::default();
    for line in lines.lines() {
        let request = converted(line).and_then(|request| {
            let is_same = |other: &Request| {
                (other.dialect, &other.model) == (request.dialect, &request.model)
                    && other.messages == request.messages
                    && other.tools == request.tools
            };
            match requests.iter().any(is_same) {
                true => Err("recorded twice"),
                false => Ok(request),
            }
        });
        match request {
            Ok(request) => requests.push(request),
            Err(reason) => *left_out.entry(reason).or_default() += 1,
        }
    }
    (requests, left_out)
}

/// Returns the estimate of a request relative to its real tokens, after another one has been answered.
fn measured(request: &Request, answered: Option<&Request>, session: &str) -> f64 {
    let ratios = TokenRatios::default();
    let has_tools = |request: &Request| !request.tools.is_empty();
    if let Some(answered) = answered {
        let (estimate, real) = (estimate(answered), answered.real);
        let counter = counter(&answered.model, session);
        ratios.learn(counter, has_tools(answered), estimate, real);
    }
    let counter = counter(&request.model, "this session");
    let scale = ratios.get(counter, has_tools(request));
    scale.tokens(estimate(request)) / request.real as f64
}

fn counter<'a>(model: &'a str, session: &'a str) -> TokenCounter<'a> {
    TokenCounter {
        base_url: "",
        model,
        session,
    }
}

fn is_close(ratio: &f64) -> bool {
    (0.9..=1.1).contains(ratio)
}

/// Prints and returns the value below which a twentieth of the ratios is, and the share within 10 %.
fn distribution(name: &str, mut ratios: Vec<f64>) -> (f64, f64) {
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| ratios[((ratios.len() - 1) as f64 * share).round() as usize];
    let [p5, p50, p95] = [0.05, 0.5, 0.95].map(at);
    let number = ratios.len();
    let close = ratios.iter().filter(|ratio| is_close(ratio)).count() as f64 / number as f64;
    println!(
        "{name:34} {number:5}  p5 {p5:.2}  p50 {p50:.2}  p95 {p95:.2}  within 10 %: {close:.2}"
    );
    (p5, close)
}

#[test]
fn estimates_keep_the_bar_on_recorded_conversations() {
    let Some(dir) = std::env::var_os("AISH_RECORDINGS").map(PathBuf::from) else {
        return;
    };
    let Ok(lines) = std::fs::read_to_string(dir.join("exchanges.jsonl")) else {
        return;
    };
    let (requests, left_out) = requests(&lines);
    println!("left out: {left_out:?}");
    let mut figures: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (at, request) in requests.iter().enumerate() {
        let mut add = |kind: &str, ratio: f64| {
            let dialect = format!("{:?}", request.dialect);
            for name in [dialect.as_str(), "all"] {
                let name = format!("{kind}, {name}");
                figures.entry(name).or_default().push(ratio);
            }
        };
        if let Some(before) = continued(&requests, at) {
            let ratio = measured(request, Some(&requests[before]), "this session");
            add("later", ratio);
            if request.real >= LONG {
                add("later, long", ratio);
            }
            if !is_close(&ratio) {
                let Request {
                    model, real, file, ..
                } = request;
                println!("{ratio:.2} of {real} {model} {file}");
            }
            continue;
        }
        add("first", measured(request, None, ""));
        let is_same =
            |other: &&Request| (other.dialect, &other.model) == (request.dialect, &request.model);
        if let Some(other) = requests[..at].iter().rfind(is_same) {
            let ratio = measured(request, Some(other), "another session");
            add("first, known model", ratio);
        }
    }
    let figures: BTreeMap<String, (f64, f64)> = figures
        .into_iter()
        .map(|(name, ratios)| (name.clone(), distribution(&name, ratios)))
        .collect();
    assert!(figures["first, all"].0 >= 0.95);
    assert!(figures["first, known model, all"].0 >= 0.95);
    // Not all of them: some gateways count tokens that they did not show, and the shortest have 20 tokens.
    assert!(figures["later, all"].1 >= 0.8);
    assert!(figures["later, long, all"].1 >= 0.85);
}
