//! Whole streams, read by the codec and by an independent reading of their events, which must agree.
//!
//! A file has one event's data per line. The directory of a format holds its files: `tests/fixtures/streams`, and for
//! recordings of real providers, which are not ours to commit, the directory in `AISH_RECORDINGS`.

use std::path::{Path, PathBuf};

use aish::broker::provider::StreamError;
use aish::broker::provider::chat::names;
use aish::broker::provider::quirks::ServerQuirks;
use aish::broker::sse::SseDecoder;
use serde_json::Value;

use super::*;

/// What both readings give.
#[derive(Debug, Default, PartialEq)]
struct Reading {
    text: String,
    reasoning: String,
    /// Name and arguments.
    calls: Vec<(String, Value)>,
    finish: Option<FinishReason>,
    /// Tokens of prompt and answer.
    usage: (u64, u64),
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn by_codec(dialect: Dialect, events: &[&str]) -> std::result::Result<Reading, StreamError> {
    let (mut answer, mut items) = (dialect.answer(), Vec::new());
    let mut decoder = SseDecoder::new();
    for event in events {
        let event = format!("data: {event}\n\n");
        decoder.feed(event.as_bytes(), |event| answer.event(&event, &mut items))?;
    }
    answer.end(&mut items);
    let mut reading = Reading::default();
    for item in items {
        match item {
            StreamItem::Text(text) => reading.text.push_str(&text),
            StreamItem::Reasoning(text) => reading.reasoning.push_str(&text),
            _ => {}
        }
    }
    let url = reqwest::Url::parse("http://127.0.0.1").unwrap();
    let names = names(&url, &[], &[], ServerQuirks::default());
    let progress = answer.progress_mut();
    let parse = |text: &str| serde_json::from_str(text).unwrap_or_default();
    let calls = progress.calls.take(&names, &[]);
    reading.calls = calls
        .iter()
        .map(|c| (c.name.clone(), parse(&c.arguments)))
        .collect();
    reading.finish = progress.finish;
    let usage = progress.usage.unwrap_or_default();
    reading.usage = (usage.prompt_tokens, usage.completion_tokens);
    Ok(reading)
}

fn of_anthropic(events: &[Value]) -> Reading {
    let mut reading = Reading::default();
    let mut inputs: Vec<(u64, String, Value, String)> = Vec::new();
    let (mut input, mut output) = ([0; 3], 0);
    for event in events {
        let index = event["index"].as_u64().unwrap_or_default();
        let block = &event["content_block"];
        let delta = &event["delta"];
        match text(&event["type"]) {
            "content_block_start" => {
                reading.text += text(&block["text"]);
                reading.reasoning += text(&block["thinking"]);
                if block["type"] == "tool_use" {
                    let name = text(&block["name"]).to_owned();
                    inputs.push((index, name, block["input"].clone(), String::new()));
                }
            }
            "content_block_delta" => {
                reading.text += text(&delta["text"]);
                reading.reasoning += text(&delta["thinking"]);
                if let Some(call) = inputs.iter_mut().rev().find(|call| call.0 == index) {
                    call.3 += text(&delta["partial_json"]);
                }
            }
            // A recording may go on with the next answer.
            "message_stop" => break,
            "message_delta" => {
                reading.finish = Some(match text(&delta["stop_reason"]) {
                    "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
                    "refusal" => FinishReason::ContentFilter,
                    "pause_turn" => FinishReason::Paused,
                    _ => FinishReason::Stop,
                });
            }
            _ => {}
        }
        for usage in [&event["usage"], &event["message"]["usage"]] {
            let count = |name: &str| usage[name].as_u64().unwrap_or_default();
            let counts = [
                "input_tokens",
                "cache_read_input_tokens",
                "cache_creation_input_tokens",
            ];
            for (sum, name) in input.iter_mut().zip(counts) {
                *sum = count(name).max(*sum);
            }
            output = count("output_tokens").max(output);
        }
    }
    let call = |(_, name, start, pieces): (u64, String, Value, String)| match pieces.is_empty() {
        true => (name, start),
        false => (name, serde_json::from_str(&pieces).unwrap_or_default()),
    };
    reading.calls = inputs.into_iter().map(call).collect();
    reading.usage = (input.iter().sum(), output);
    reading
}

fn of_responses(events: &[Value]) -> Reading {
    let mut reading = Reading::default();
    for event in events {
        let item = &event["item"];
        match text(&event["type"]) {
            "response.output_text.delta" | "response.refusal.delta" => {
                reading.text += text(&event["delta"]);
            }
            "response.reasoning_summary_part.added" if event["summary_index"] != 0 => {
                reading.reasoning += "\n\n";
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                reading.reasoning += text(&event["delta"]);
            }
            "response.output_item.done"
                if item["type"] == "function_call" && item["status"] == "completed" =>
            {
                let arguments = serde_json::from_str(text(&item["arguments"]));
                reading.calls.push((
                    text(&item["name"]).to_owned(),
                    arguments.unwrap_or_default(),
                ));
            }
            "response.completed" | "response.incomplete" => {
                let response = &event["response"];
                let reason = text(&response["incomplete_details"]["reason"]);
                reading.finish = Some(match (text(&response["status"]), reason) {
                    ("incomplete", "content_filter") => FinishReason::ContentFilter,
                    ("incomplete", _) => FinishReason::Length,
                    _ => FinishReason::Stop,
                });
                let count = |name: &str| response["usage"][name].as_u64().unwrap_or_default();
                reading.usage = (count("input_tokens"), count("output_tokens"));
                break;
            }
            _ => {}
        }
    }
    reading
}

fn of_gemini(events: &[Value]) -> Reading {
    let mut reading = Reading::default();
    let mut counts = [0; 4];
    for event in events {
        let candidate = &event["candidates"][0];
        for part in candidate["content"]["parts"]
            .as_array()
            .into_iter()
            .flatten()
        {
            match part["thought"] == true {
                true => reading.reasoning += text(&part["text"]),
                false => reading.text += text(&part["text"]),
            }
            let call = &part["functionCall"];
            // Of a call whose arguments come in later parts nothing is taken: it was not asked for.
            if call["name"].is_string() && call["willContinue"] != true {
                let arguments = match call.get("args") {
                    Some(arguments) => arguments.clone(),
                    None => serde_json::json!({}),
                };
                reading
                    .calls
                    .push((text(&call["name"]).to_owned(), arguments));
            }
        }
        match text(&candidate["finishReason"]) {
            "" => {}
            "MAX_TOKENS" => reading.finish = Some(FinishReason::Length),
            _ => reading.finish = Some(FinishReason::Stop),
        }
        let names = [
            "promptTokenCount",
            "candidatesTokenCount",
            "thoughtsTokenCount",
            "toolUsePromptTokenCount",
        ];
        for (most, name) in counts.iter_mut().zip(names) {
            *most = event["usageMetadata"][name]
                .as_u64()
                .unwrap_or(0)
                .max(*most);
        }
    }
    reading.usage = (counts[0] + counts[3], counts[1] + counts[2]);
    reading
}

/// Chat completions, as OpenAI and the servers that imitate it send them.
fn of_chat(events: &[Value]) -> Reading {
    let mut reading = Reading::default();
    let mut calls: Vec<(u64, String, String)> = Vec::new();
    for event in events {
        let choice = &event["choices"][0];
        let delta = &choice["delta"];
        match &delta["content"] {
            Value::String(content) => reading.text += content,
            // Mistral.
            Value::Array(parts) => {
                for part in parts {
                    reading.text += text(&part["text"]);
                    for thought in part["thinking"].as_array().into_iter().flatten() {
                        reading.reasoning += text(&thought["text"]);
                    }
                }
            }
            _ => {}
        }
        reading.reasoning += match &delta["reasoning_content"] {
            Value::String(thought) => thought,
            _ => text(&delta["reasoning"]),
        };
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = call["index"].as_u64().unwrap_or_default();
            let function = &call["function"];
            let (name, pieces) = (text(&function["name"]), text(&function["arguments"]));
            match calls.iter_mut().find(|(known, ..)| *known == index) {
                Some((_, _, arguments)) => *arguments += pieces,
                None => calls.push((index, name.to_owned(), pieces.to_owned())),
            }
        }
        match text(&choice["finish_reason"]) {
            "" => {}
            "length" => reading.finish = Some(FinishReason::Length),
            "content_filter" => reading.finish = Some(FinishReason::ContentFilter),
            _ => reading.finish = Some(FinishReason::Stop),
        }
        for usage in [&event["usage"], &event["x_groq"]["usage"]] {
            let count = |name: &str| usage[name].as_u64();
            if let (Some(input), Some(output)) =
                (count("prompt_tokens"), count("completion_tokens"))
            {
                // xAI does not count reasoning as a part of the answer.
                let reasoning = usage["completion_tokens_details"]["reasoning_tokens"].as_u64();
                let apart = reasoning.filter(|n| count("total_tokens") == Some(input + output + n));
                reading.usage = (input, output + apart.unwrap_or(0));
            }
        }
    }
    // Reasoning of models whose server leaves it in the text.
    if let Some(rest) = reading.text.trim_start().strip_prefix("<think>") {
        let (thought, answer) = rest.split_once("</think>").unwrap_or((rest, ""));
        let answer = answer.trim_start().to_owned();
        reading.reasoning += thought;
        reading.text = answer;
    }
    let arguments = |text: &str| match text.is_empty() {
        true => serde_json::json!({}),
        false => serde_json::from_str(text).unwrap_or_default(),
    };
    let calls = calls.into_iter();
    reading.calls = calls
        .map(|(_, name, text)| (name, arguments(&text)))
        .collect();
    reading
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn codec_and_independent_reading_agree_on_every_stream() {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/streams");
    let recordings = std::env::var_os("AISH_RECORDINGS").map(PathBuf::from);
    type Read = fn(&[Value]) -> Reading;
    let formats: [(&str, Dialect, Read); 4] = [
        ("chat", Dialect::Chat, of_chat),
        ("gemini", Dialect::Gemini, of_gemini),
        ("anthropic", Dialect::Anthropic, of_anthropic),
        ("responses", Dialect::Responses, of_responses),
    ];
    let mut wrong = Vec::new();
    for (name, dialect, read) in formats {
        let own = files(&ours.join(name));
        assert!(!own.is_empty(), "{name}");
        let recorded = recordings.iter().flat_map(|dir| files(&dir.join(name)));
        for file in own.into_iter().chain(recorded) {
            let text = std::fs::read_to_string(&file).unwrap();
            let lines: Vec<&str> = text
                .lines()
                .filter(|line| !line.trim().is_empty())
                .collect();
            let file = file.display();
            let codec = by_codec(dialect, &lines);
            let events = lines.iter().map(|l| serde_json::from_str(l));
            let Ok(events) = events.collect::<serde_json::Result<Vec<Value>>>() else {
                assert!(matches!(codec, Err(StreamError::BadJson(_))), "{file}");
                continue;
            };
            let fails = |e: &Value| {
                matches!(e["type"].as_str(), Some("error" | "response.failed"))
                    || !matches!(e["error"], Value::Null)
                    || e["choices"][0]["finish_reason"] == "error"
            };
            // A second message before the end of the first: the streams of two answers were mixed.
            let before_stop = events.iter().take_while(|e| e["type"] != "message_stop");
            let starts = before_stop.filter_map(|e| e["message"]["id"].as_str());
            let is_mixed = starts.collect::<std::collections::BTreeSet<_>>().len() > 1;
            match is_mixed || events.iter().any(fails) {
                true => assert!(
                    matches!(
                        codec,
                        Err(StreamError::Server(_) | StreamError::Temporary(..))
                    ),
                    "{file}: {codec:?}"
                ),
                false => {
                    let read = Ok(read(&events));
                    if codec != read {
                        wrong.push(format!("{file}\n  codec: {codec:?}\n  read:  {read:?}"));
                    }
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
