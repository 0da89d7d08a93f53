//! A new user of each provider, in a real terminal: a key in the environment, a prompt, reasoning, a tool call that is
//! approved, the answer, and its cost.

use serde_json::json;

use super::Tools;
use crate::fakes::provider::anthropic::{self, Block};
use crate::fakes::provider::gemini::{self, Part};
use crate::fakes::provider::responses::{self, Item};
use crate::fakes::provider::{
    Provider, Request, Script, Shape, call_events, finish_event, text_event,
};
use crate::support::helper::Helper;
use crate::support::pty::Zsh;

const KEY: &str = "k-0123456789abcdef";
const CALL: &str = "{\"path\":\"/é\"}";

/// Asks twice: the first answer calls a tool, the second says what is in the file.
fn first_answer(
    provider: &str,
    model: &str,
    answer: impl Fn(&Request, usize) -> Script + Send + 'static,
) {
    let mut n = 0;
    let fake = Provider::answering(move |request| {
        n += 1;
        answer(request, n)
    });
    let tools = Tools::with(Helper::with(fake.key(KEY)), "");
    tools.helper.config_file(&format!(
        "default_model = \"new\"\n[models.new]\nprovider = \"{provider}\"\nbase_url = \"{}\"\nmodel = \"{model}\"\n\
         key_env = \"THE_KEY\"\n{}[mcp.servers.fs]\nurl = \"{}\"\n",
        tools.helper.provider.base_url(),
        // No catalogue knows the server.
        match provider {
            "chat" => "price = { input = 1, output = 2 }\n",
            _ => "",
        },
        tools.server.url(),
    ));
    let mut zsh = Zsh::start(&tools.helper.home);
    zsh.run(&format!("export THE_KEY={KEY}"));
    zsh.run("clear");
    zsh.send("llm --think what is in it?\r");
    zsh.wait_text("[?]");
    let asked = zsh.screen();
    assert!(
        asked.contains("fs.read") && asked.contains("\"/é\""),
        "{provider}: {asked}"
    );
    zsh.press_until("y", "It says so.");
    zsh.prompt();
    let screen = zsh.screen();
    for part in [
        "│ First I look",
        "└ thought for ",
        "Let me look.",
        "It says so.",
        " in ",
        " out · $",
        " · session $",
    ] {
        assert!(screen.contains(part), "{provider}: {part}: {screen}");
    }
    let requests = tools.helper.provider.requests();
    assert_eq!(requests.len(), 2, "{provider}");
    assert_eq!(
        tools.helper.provider.take_violations(),
        [""; 0],
        "{provider}"
    );
    let shown = String::from_utf8_lossy(&zsh.raw()).into_owned();
    assert_eq!(
        shown.matches(KEY).count(),
        1,
        "{provider}: the key is on the line that set it and nowhere else"
    );
}

#[test]
fn with_anthropic() {
    first_answer("anthropic", "claude-haiku-4-5", |request, n| match n {
        1 => {
            let blocks = [
                Block::Thinking("First I look"),
                Block::Text("Let me look."),
                Block::Call("toolu_1", "fs__read", CALL),
            ];
            anthropic::answer(request, &blocks, "tool_use")
        }
        _ => anthropic::answer(request, &[Block::Text("It says so.")], "end_turn"),
    });
}

#[test]
fn with_openai() {
    first_answer("openai", "gpt-5.4-mini", |request, n| {
        let items: &[Item<'_>] = match n {
            1 => &[
                Item::Reasoning("First I look"),
                Item::Text("Let me look."),
                Item::Call("call_1", "fs__read", CALL),
            ],
            _ => &[Item::Text("It says so.")],
        };
        responses::answer(request, items, "completed")
    });
}

#[test]
fn with_gemini() {
    first_answer("gemini", "gemini-2.5-flash", |request, n| {
        let parts: &[Part<'_>] = match n {
            1 => &[
                Part::Thought("First I look"),
                Part::Text("Let me look."),
                Part::Call("", "fs__read", CALL),
            ],
            _ => &[Part::Text("It says so."), Part::Signature],
        };
        gemini::answer(request, parts, "STOP")
    });
}

/// An answer in chat completions with this delta of reasoning, or the last one.
fn chat(n: usize, reasoning: &serde_json::Value) -> Script {
    if n > 1 {
        return Script::tokens(["It says ", "so."]);
    }
    let delta = json!({ "choices": [{ "index": 0, "delta": reasoning }] });
    let mut events = vec![format!("data: {delta}\n\n"), text_event("Let me look.")];
    events.extend(call_events(
        Shape::Fragments,
        &[("a12345678", "fs.read", CALL)],
    ));
    events.push(finish_event("tool_calls"));
    let usage = json!({ "choices": [], "usage": { "prompt_tokens": 70, "completion_tokens": 9 } });
    events.push(format!("data: {usage}\n\ndata: [DONE]\n\n"));
    Script::events(events.iter().map(String::as_str))
}

#[test]
fn with_mistral() {
    first_answer("mistral", "mistral-small-latest", |_, n| {
        let text = json!({ "type": "text", "text": "First I look" });
        chat(
            n,
            &json!({ "content": [{ "type": "thinking", "thinking": [text] }] }),
        )
    });
}

/// DeepSeek, Kimi and most servers of open models.
#[test]
fn with_chat_completions() {
    first_answer("chat", "m", |_, n| {
        chat(n, &json!({ "reasoning_content": "First I look" }))
    });
}
