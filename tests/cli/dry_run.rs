//! `--dry-run`: the request as it would be sent, without secrets, and nothing sent or recorded.

use serde_json::{Value, json};

use crate::fakes::provider::{Provider, Script, anthropic, gemini, responses};
use crate::support::helper::Helper;
use crate::support::pty::Zsh;
use crate::tools::Tools;
use crate::tools::rounds::ALL;

fn dry(helper: &Helper, words: &[&str]) -> Value {
    let words = ["ask", "--shell", "s1", "--dry-run", "--json"]
        .iter()
        .chain(words);
    helper.call(words).run().json()
}

#[test]
fn request_is_the_one_that_is_sent_in_every_dialect() {
    let chat = |_: &_| Script::tokens(["ok"]);
    let anthropic =
        |request: &_| anthropic::answer(request, &[anthropic::Block::Text("ok")], "end_turn");
    let responses =
        |request: &_| responses::answer(request, &[responses::Item::Text("ok")], "completed");
    let gemini = |request: &_| gemini::answer(request, &[gemini::Part::Text("ok")], "STOP");
    let cases: [(&str, Provider); 4] = [
        ("chat", Provider::answering(chat)),
        ("anthropic", Provider::answering(anthropic)),
        ("openai", Provider::answering(responses)),
        ("gemini", Provider::answering(gemini)),
    ];
    for (provider, fake) in cases {
        let helper = Helper::with(fake);
        helper.config(&format!(
            "provider = \"{provider}\"\nprice = {{ input = 2, output = 8 }}\n"
        ));
        helper
            .call(["ask", "--shell", "s1", "--", "first"])
            .run()
            .ok();
        let shown = dry(&helper, &["--", "second é"]);
        assert_eq!(
            helper.provider.requests().len(),
            1,
            "{provider}: nothing is sent"
        );
        assert_eq!(
            helper.records_of("user").len(),
            1,
            "{provider}: nothing is recorded"
        );
        helper
            .call(["ask", "--shell", "s1", "--", "second é"])
            .run()
            .ok();
        let sent = &helper.provider.requests()[1];
        assert_eq!(shown["body"], sent.json, "{provider}");
        let url = shown["url"].as_str().expect("a URL");
        assert!(url.starts_with(&helper.provider.base_url()), "{url}");
        let tokens = shown["tokens"].as_u64().expect("tokens");
        assert!((100..2000).contains(&tokens), "{provider}: {tokens}");
        let cost = shown["cost"].as_f64().expect("a cost");
        assert!((cost - tokens as f64 * 2e-6).abs() < 1e-12, "{cost}");
        assert!(shown["session"].is_string());
    }
}

#[test]
fn tools_are_part_of_it_and_nothing_is_left_behind() {
    let provider = Provider::answering(|_| Script::tokens(["ok"]));
    let tools = Tools::with(Helper::with(provider), ALL);
    let helper = &tools.helper;
    let shown = dry(helper, &["--", "hi"]);
    assert_eq!(helper.sessions().len(), 0, "no session is created");
    assert_eq!(shown["session"], json!(null));
    let none = dry(helper, &["--tools", "none", "--", "hi"]);
    assert!(none["body"].get("tools").is_none());
    helper.call(["ask", "--shell", "s1", "--", "hi"]).run().ok();
    assert_eq!(shown["body"], helper.provider.requests()[0].json);
    assert_eq!(shown["body"]["tools"].as_array().expect("tools").len(), 3);

    // Continuing a session does not make it that of the shell.
    let other = |words: &[&str]| {
        let words = ["ask", "--shell", "s2", "--dry-run", "--json"]
            .iter()
            .chain(words);
        helper.call(words).run().json()
    };
    let continued = other(&["-c", "--", "again"]);
    assert!(continued["session"].is_string());
    let messages = continued["body"]["messages"].as_array().expect("messages");
    assert_eq!(messages.len(), 4, "{messages:?}");
    assert_eq!(other(&["--", "again"])["session"], json!(null));
}

#[test]
fn secrets_are_removed_and_failures_are_those_of_a_prompt() {
    let helper = Helper::with(Provider::answering(|_| Script::tokens(["ok"])));
    let key = "sk-proj-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGh";
    let text = helper
        .call(["ask", "--dry-run", "--", &format!("my key is {key}")])
        .run();
    assert!(
        text.stderr.contains("not sent: POST ") && text.stderr.contains(" tokens"),
        "{}",
        text.stderr
    );
    let text = text.ok();
    assert!(!text.contains(key) && text.contains("[REDACTED:"), "{text}");
    let failure = helper.call(["ask", "--dry-run", "--prompt", "@gone", "--", "x"]);
    assert!(failure.run().fails(2).contains("no prompt pack named"));
    assert_eq!(helper.provider.requests().len(), 0);
}

#[test]
fn terminal_gets_no_control_characters() {
    let helper = Helper::with(Provider::answering(|_| Script::tokens(["ok"])));
    helper.home.zshrc("");
    std::fs::write(helper.home.path("f"), "a\u{9b}2Jb\u{202e}c").expect("a file");
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("aish-helper ask --dry-run -f f -- hi");
    let raw = String::from_utf8_lossy(&zsh.raw()).into_owned();
    assert!(raw.contains("\"messages\": ["), "{raw}");
    assert!(
        !raw.contains('\u{9b}') && !raw.contains('\u{202e}'),
        "{raw}"
    );
}
