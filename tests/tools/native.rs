//! Reasoning that its provider wants returned, over rounds, prompts and restarts of the daemon.

use serde_json::Value;

use super::Tools;
use crate::fakes::provider::anthropic::{self, Block};
use crate::fakes::provider::gemini::{self, Part};
use crate::fakes::provider::responses::{self, Item};
use crate::fakes::provider::{Provider, Request, Script};
use crate::support::helper::{Helper, records};

/// Tools with a provider of this format, which checks what is sent back.
fn tools(
    provider: &str,
    mut answer: impl FnMut(&Request, usize) -> Script + Send + 'static,
) -> Tools {
    let mut n = 0;
    let answering = Provider::answering(move |request| {
        n += 1;
        answer(request, n)
    });
    let tools = Tools::with(Helper::with(answering), "");
    let url = tools.server.url();
    tools.helper.config(&format!(
        "provider = \"{provider}\"\n[mcp.servers.fs]\nurl = \"{url}\"\n[mcp.auto_approve]\n\"fs.*\" = true\n"
    ));
    tools
}

/// Two prompts, the second with another daemon. Returns how often the text is in each request.
fn sent(tools: &Tools, text: &str) -> Vec<usize> {
    let first = tools.ask("what is in it?").end();
    assert_eq!(first.text(), "Let me look.\nIt says so.");
    tools.helper.call(["stop"]).run().ok();
    tools.helper.call(["start"]).run().ok();
    tools.ask("sure?").end();
    let requests = tools.helper.provider.requests();
    let count = |request: &Request| request.json.to_string().matches(text).count();
    requests.iter().map(count).collect()
}

#[test]
fn anthropic_gets_its_thinking_back() {
    let tools = tools("anthropic", |request, n| {
        let blocks: &[Block<'_>] = match n {
            1 => &[
                Block::Thinking("hm"),
                Block::Text("Let me look."),
                Block::Call("toolu_1", "fs__read", "{\"path\":\"/é\"}"),
            ],
            _ => &[Block::Thinking("so"), Block::Text("It says so.")],
        };
        anthropic::answer(
            request,
            blocks,
            if n == 1 { "tool_use" } else { "end_turn" },
        )
    });
    assert_eq!(sent(&tools, "\"type\":\"thinking\""), [0, 1, 2]);
    let all = records(&tools.helper.sessions()[0]);
    let answers: Vec<&Value> = all.iter().filter(|r| r["type"] == "assistant").collect();
    assert_eq!(answers[0]["native"]["dialect"], "anthropic");
    let classes = ["prompt_tokens", "cache_read_tokens", "cache_write_tokens"];
    assert_eq!(
        classes.map(|class| answers[0][class].as_u64()),
        [Some(327), Some(300), Some(20)]
    );
}

#[test]
fn openai_gets_its_reasoning_back() {
    let tools = tools("openai", |request, n| {
        let items: &[Item<'_>] = match n {
            1 => &[
                Item::Reasoning("hm"),
                Item::Text("Let me look."),
                Item::Call("call_1", "fs__read", "{\"path\":\"/é\"}"),
            ],
            _ => &[Item::Reasoning("so"), Item::Text("It says so.")],
        };
        responses::answer(request, items, "completed")
    });
    assert_eq!(sent(&tools, "\"type\":\"reasoning\""), [0, 1, 2]);
}

#[test]
fn gemini_gets_its_signatures_back() {
    let tools = tools("gemini", |request, n| {
        let parts: &[Part<'_>] = match n {
            1 => &[
                Part::Thought("hm"),
                Part::Text("Let me look."),
                Part::Call("", "fs__read", "{\"path\":\"/é\"}"),
            ],
            _ => &[Part::Text("It says so."), Part::Signature],
        };
        gemini::answer(request, parts, "STOP")
    });
    assert_eq!(sent(&tools, "\"thoughtSignature\":\"sig+"), [0, 1, 2]);
}

/// An answer with a secret is stored and sent back without its reasoning, and the secret is in neither.
#[test]
fn answer_with_a_secret_is_sent_back_without_its_reasoning() {
    const TOKEN: &str = concat!("ghp_", "q7Rk2ZpL9vXw3TbN5mHs8YdJ4cFg6aQe1uVo");
    let tools = tools("anthropic", |request, n| {
        let text = format!("Use {TOKEN}.");
        let blocks: &[Block<'_>] = match n {
            1 => &[
                Block::Thinking(&text),
                Block::Text("Let me look."),
                Block::Call("toolu_1", "fs__read", "{}"),
            ],
            _ => &[Block::Text("It says so.")],
        };
        anthropic::answer(
            request,
            blocks,
            if n == 1 { "tool_use" } else { "end_turn" },
        )
    });
    assert_eq!(sent(&tools, "\"type\":\"thinking\""), [0, 0, 0]);
    let all = records(&tools.helper.sessions()[0]);
    let text = serde_json::to_string(&all).expect("JSON");
    assert!(
        !text.contains(TOKEN) && !text.contains("\"native\""),
        "{text}"
    );
}

/// The events of a prompt, each with fields that docs/json.md names.
fn documented_events(tools: &Tools) -> Vec<Value> {
    let document = include_str!("../../docs/json.md");
    let run = tools
        .helper
        .call(["ask", "--json", "--shell", "s1", "x"])
        .run();
    let lines = run.ok();
    let events: Vec<Value> = lines
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    for event in &events {
        let kind = event["type"].as_str().unwrap();
        assert!(document.contains(&format!("`{kind}`")), "{kind}");
        for field in event
            .as_object()
            .unwrap()
            .keys()
            .filter(|key| *key != "type")
        {
            assert!(document.contains(&format!("`{field}`")), "{kind}: {field}");
        }
    }
    events
}

#[test]
fn json_has_the_same_events_for_every_provider() {
    let call = "{\"path\":\"/é\"}";
    let providers = [
        tools("anthropic", move |request, n| {
            let first = [
                Block::Thinking("hm"),
                Block::Text("Look."),
                Block::Call("toolu_1", "fs__read", call),
            ];
            match n {
                1 => anthropic::answer(request, &first, "tool_use"),
                _ => anthropic::answer(request, &[Block::Text("So.")], "end_turn"),
            }
        }),
        tools("openai", move |request, n| {
            let first = [
                Item::Reasoning("hm"),
                Item::Text("Look."),
                Item::Call("call_1", "fs__read", call),
            ];
            let items = if n == 1 {
                &first[..]
            } else {
                &[Item::Text("So.")]
            };
            responses::answer(request, items, "completed")
        }),
        tools("gemini", move |request, n| {
            let first = [
                Part::Thought("hm"),
                Part::Text("Look."),
                Part::Call("", "fs__read", call),
            ];
            let parts = if n == 1 {
                &first[..]
            } else {
                &[Part::Text("So."), Part::Signature]
            };
            gemini::answer(request, parts, "STOP")
        }),
        tools("chat", move |_, n| match n {
            1 => Script::calls("<think>hm</think>Look.", &[("a", "fs.read", call)]),
            _ => Script::tokens(["So."]),
        }),
    ];
    for tools in providers {
        let events = documented_events(&tools);
        let text = |kind: &str| -> String {
            let of_kind = events.iter().filter(|event| event["type"] == kind);
            of_kind
                .map(|event| event["text"].as_str().unwrap())
                .collect()
        };
        assert_eq!(
            (text("reasoning"), text("text")),
            ("hm".into(), "Look.\nSo.".into())
        );
        let of_kind = |kind: &str| events.iter().find(|event| event["type"] == kind).unwrap();
        let started = of_kind("tool_call_started");
        assert_eq!(
            (&started["name"], &started["arguments"]),
            (&"fs.read".into(), &call.into())
        );
        assert_eq!(of_kind("tool_call_finished")["status"], "success");
        let answer = events.last().unwrap();
        assert_eq!(
            (&answer["type"], &answer["finish"]),
            (&"answer".into(), &"stop".into())
        );
        assert!(
            answer["prompt_tokens"].as_u64() > Some(0)
                && answer["completion_tokens"].as_u64() > Some(0)
        );
        assert!(
            answer["model"].as_str().unwrap().contains("fake"),
            "{answer}"
        );
        assert!(answer.get("cost").is_some() && answer.get("show_cost").is_none());
    }
}
