//! What an answer costs, how it is shown, and the budget.

use std::path::Path;

use serde_json::{Value, json};

use crate::fakes::provider::anthropic::{self, Block};
use crate::fakes::provider::{Part, Provider, Request, Script};
use crate::support::helper::Helper;
use crate::support::pty::Zsh;

/// What the fake reports costs with this model: 7 tokens at $2, 300 read from the cache at $0.20, 20 written to it at $2.50,
/// 40 of the answer at $10, per million.
const COST: f64 = (7.0 * 2.0 + 300.0 * 0.2 + 20.0 * 2.5 + 40.0 * 10.0) / 1e6;

fn helper(more: &str) -> Helper {
    let answer = |request: &_| anthropic::answer(request, &[Block::Text("Fine.")], "end_turn");
    with(Provider::answering(answer), more)
}

fn with(provider: Provider, more: &str) -> Helper {
    let helper = Helper::with(provider);
    let base_url = helper.provider.base_url();
    helper.config_file(&format!(
        "[tools]\nbuiltin = false\n[models.sonnet]\nprovider = \"anthropic\"\nbase_url = \"{base_url}\"\nmodel = \"claude-sonnet-5\"\n{more}"
    ));
    helper
}

/// These events, and then a wait until the gate opens.
fn held(events: &[String]) -> Script {
    let events = events.iter().map(|event| Part::from(event.as_str()));
    Script::events(events.chain([Part::Gate("hold")]))
}

fn near(value: &Value, expected: f64) {
    let value = value.as_f64().expect("a number");
    assert!((value - expected).abs() < 1e-9, "{value} is not {expected}");
}

#[test]
fn the_cost_is_shown_recorded_and_summed() {
    let helper = helper("");
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("llm one");
    let first = "327 in (300 cached) · 40 out · $0.000524 · session $0.000524";
    assert!(
        zsh.screen().replace("\n  ", " ").contains(first),
        "{}",
        zsh.screen()
    );
    zsh.run("llm two");
    let second = "$0.000524 · session $0.0010";
    assert!(
        zsh.screen().replace("\n  ", " ").contains(second),
        "{}",
        zsh.screen()
    );
    let answer = &helper.records_of("assistant")[0];
    near(&answer["cost"], COST);
    assert_eq!(answer["provider"], "127.0.0.1");
    assert_eq!(answer.get("cost_estimated"), None);

    let run = helper.call(["ask", "--json", "--shell", "s1", "x"]).run();
    let lines: Vec<Value> = run
        .ok()
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let answer = lines.last().unwrap();
    near(&answer["cost"], COST);
    near(&answer["session_cost"], COST);
    assert_eq!(answer["cost_estimated"], false);
}

#[test]
fn what_was_used_is_summed_by_day_model_provider_and_session() {
    let failing = |request: &Request| match request.json.to_string().contains("four") {
        true => Script::status(401, "{}"),
        false => anthropic::answer(request, &[Block::Text("Fine.")], "end_turn"),
    };
    let helper = with(Provider::answering(failing), "");
    assert!(
        helper
            .call(["stats"])
            .run()
            .ok()
            .ends_with(": no requests\n")
    );
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("llm one");
    zsh.run("llm two");
    helper.call(["ask", "--shell", "s1", "three"]).run().ok();
    let today = chrono::Local::now().date_naive().to_string();
    let json = |args: &[&str]| -> Value {
        let args = [&["stats", "--json"], args].concat();
        serde_json::from_str(&helper.call(args).run().ok()).unwrap()
    };
    let stats = json(&[]);
    let total = &stats["total"];
    assert_eq!(total["requests"], 3);
    assert_eq!(total["input_tokens"], 3 * 327);
    assert_eq!(total["cache_read_tokens"], 3 * 300);
    assert_eq!(total["output_tokens"], 3 * 40);
    near(&total["cost"], 3.0 * COST);
    near(&total["cache_share"], 300.0 / 327.0);
    assert_eq!(total["unpriced_requests"], 0);
    assert_eq!(stats["days"][0]["day"], today);
    assert_eq!(stats["providers"][0]["provider"], "127.0.0.1");
    assert_eq!(stats["models"][0]["model"], "sonnet");
    let mut of_sessions: Vec<_> = (0..2)
        .map(|n| stats["sessions"][n]["requests"].as_u64().unwrap())
        .collect();
    of_sessions.sort_unstable();
    assert_eq!(of_sessions, [1, 2]);
    let session = helper.records_of("session")[0]["session"].clone();
    let session = session.as_str().unwrap();
    let own = json(&["--by", "model", "--session", session]);
    assert_eq!(own["total"]["requests"], own["models"][0]["requests"]);
    assert_eq!(own.get("days"), None);
    assert_eq!(json(&["--until", "1d"])["total"]["requests"], 0);

    zsh.run("llm :stats");
    let screen = zsh.screen();
    for part in ["3 requests", "failed", "█", "sonnet", "92 %", "$0.0016"] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    // A failed request counts as one, and costs nothing.
    helper.call(["ask", "--shell", "s1", "four"]).run();
    let stats = json(&[]);
    assert_eq!(stats["total"]["requests"], 4);
    assert_eq!(stats["total"]["failures"], 1);
    near(&stats["total"]["cost"], 3.0 * COST);
}

#[test]
fn models_are_listed_with_window_and_price() {
    let helper = helper(
        "[models.own]\nbase_url = \"http://127.0.0.1:1/v1\"\nmodel = \"x\"\nprice = { input = 0, output = 0 }\ncontext_window = 8192\n",
    );
    let list = helper.call(["model", "list"]).run().ok();
    assert!(
        list.contains(" · 1M · $2 in, $10 out per million"),
        "{list}"
    );
    assert!(list.contains(" · 8k · free"), "{list}");
    let list: Value =
        serde_json::from_str(&helper.call(["model", "list", "--json"]).run().ok()).unwrap();
    let sonnet = list
        .as_array()
        .unwrap()
        .iter()
        .find(|m| m["name"] == "sonnet")
        .unwrap();
    assert_eq!(
        (
            sonnet["context_window"].as_u64(),
            sonnet["output_price"].as_f64()
        ),
        (Some(1_000_000), Some(10.0))
    );
}

#[test]
fn it_is_shown_when_and_where_it_is_wanted() {
    for (config, terminal, pipe) in [
        ("", true, false),
        ("[ui]\ncost = \"always\"\n", true, true),
        ("[ui]\ncost = \"never\"\n", false, false),
        ("price = { input = 0, output = 0 }\n", false, false),
        (
            "price = { input = 0, output = 0 }\n[ui]\ncost = \"always\"\n",
            true,
            true,
        ),
    ] {
        let helper = helper(config);
        let run = helper.call(["ask", "x"]).run();
        assert_eq!(run.stderr.contains('$'), pipe, "{config}: {run:?}");
        let mut zsh = Zsh::start(&helper.home);
        zsh.run("llm one");
        let screen = zsh.screen();
        assert!(screen.contains("327 in (300 cached)"), "{screen}");
        assert_eq!(screen.contains('$'), terminal, "{config}: {screen}");
    }
    let unknown = helper("");
    unknown.config_file(&unknown_model(&unknown));
    let mut zsh = Zsh::start(&unknown.home);
    zsh.run("llm one");
    assert!(zsh.screen().contains("40 out · $?"), "{}", zsh.screen());
    assert_eq!(unknown.records_of("assistant")[0].get("cost"), None);
}

fn unknown_model(helper: &Helper) -> String {
    let text = std::fs::read_to_string(helper.path("config/config.toml")).unwrap();
    text.replace("claude-sonnet-5", "claude-nonesuch-9")
}

#[test]
fn an_interrupted_answer_is_estimated() {
    let provider = Provider::answering(|request| {
        let events = anthropic::events(request, &[Block::Text("A begin, and an end.")], "end_turn");
        let half = events.len() / 2;
        held(&events[..half])
    });
    let helper = with(provider, "");
    let running = helper.call(["ask", "--shell", "s1", "x"]).start();
    helper.provider.wait_gate("hold");
    running.signal(nix::sys::signal::Signal::SIGINT);
    running.finish();
    let answer = &helper.records_of("assistant")[0];
    let cost = answer["cost"].as_f64().unwrap();
    assert!(cost > 0.0005, "the request is paid: {answer}");
    assert_eq!(answer["cost_estimated"], true);
}

fn spending(helper: &Helper) -> String {
    std::fs::read_to_string(helper.path("state/spending.jsonl")).unwrap_or_default()
}

#[test]
fn the_budget_limits_the_answer_and_refuses_what_does_not_fit() {
    let helper = helper("[budget]\nday = 0.05\n");
    helper.ask("x");
    let max_tokens = |n: usize| helper.provider.requests()[n].json["max_tokens"].as_u64();
    let preview = || {
        let words = ["ask", "--dry-run", "--json", "--shell", "s1", "--new", "x"];
        let preview = helper.call(words).run();
        preview.json()["body"]["max_tokens"].as_u64()
    };
    let before = spending(&helper);
    let next = preview();
    assert!(next < max_tokens(0), "{next:?}");
    assert_eq!(
        (preview(), spending(&helper)),
        (next, before),
        "nothing is reserved"
    );
    let limit = max_tokens(0).unwrap();
    assert!((1024..5000).contains(&limit), "{limit}");
    // The session of another shell shares the day.
    helper.call(["ask", "--shell", "s2", "x"]).run().ok();
    assert!(max_tokens(1).unwrap() < limit);

    helper.change_config(
        &std::fs::read_to_string(helper.path("config/config.toml"))
            .unwrap()
            .replace("day = 0.05", "day = 0.012"),
    );
    let words = helper.call(["ask", "--shell", "s1", "x"]).run().fails(1);
    assert!(
        words.contains("the budget of $0.0120 per day does not allow this request: $0.0010 is spent or reserved, and the request can cost $0.01"),
        "{words}"
    );
    assert!(
        words.contains("raise or remove `day` in [budget]"),
        "{words}"
    );
    let preview = ["ask", "--dry-run", "--shell", "s1", "x"];
    let shown = helper.call(preview).run();
    let refused = "it would not be sent: the budget of $0.0120 per day does not allow this request";
    assert!(shown.stderr.contains(refused), "{shown:?}");
    assert!(shown.ok().contains("claude-sonnet-5"));
    assert_eq!(helper.provider.requests().len(), 2, "no request is made");
}

#[test]
fn a_prompt_is_left_out_of_later_requests_only_if_the_provider_refused_it() {
    let elsewhere = "the model fake is not available in your region";
    let helper = with(
        Provider::answering(move |request| {
            let sent = request.json.to_string();
            let refused = |message: &str| {
                let body = json!({"error": {"message": message}});
                Script::status(400, &body.to_string())
            };
            if sent.contains("and now") {
                anthropic::answer(request, &[Block::Text("Fine.")], "end_turn")
            } else if sent.contains("refuse this") {
                refused("prompt is too long")
            } else {
                refused(elsewhere)
            }
        }),
        "max_tokens = 1024\n[budget]\nprompt = 0.05\n",
    );
    let ask = |words: &[&str]| helper.call([&["ask", "--shell", "s1"], words].concat());
    let left_out = "later requests leave this prompt out";
    let refused = ask(&["refuse this"]).run().fails(1);
    assert!(refused.contains("(400)"), "{refused}");
    assert!(refused.contains(left_out), "{refused}");
    let failed = ask(&["an error of the region"]).run().fails(1);
    assert!(failed.contains(elsewhere), "{failed}");
    assert!(!failed.contains(left_out), "{failed}");
    helper.kill_daemon();
    ask(&["and now"]).run().ok();
    let requests = helper.provider.requests();
    let sent = &requests.last().expect("a request").json["messages"];
    assert_eq!(sent.as_array().map(Vec::len), Some(3), "{sent}");
    assert!(sent.to_string().contains("of the region"), "{sent}");

    let long = "many words ".repeat(20_000);
    let refused = ask(&["--new"]).stdin(long.as_str()).run().fails(1);
    assert!(refused.contains("per prompt does not allow"), "{refused}");
    assert!(refused.contains(", or attach less"), "{refused}");
    assert!(!refused.contains(left_out), "{refused}");
    let refused = ask(&["and then"]).run().fails(1);
    assert!(
        refused.contains("start a new session with `llm --new`"),
        "{refused}"
    );
    assert_eq!(helper.provider.requests().len(), requests.len());
    // The journal has them all, each with its failure.
    let answers = helper.records_of("assistant");
    let left_out: Vec<_> = answers.iter().map(|a| a["refused"] == true).collect();
    assert_eq!(left_out, [true, false, false, false, false]);
}

#[test]
fn refused_prompts_are_left_out_at_once_and_suspects_after_a_second_refusal() {
    let helper = with(
        Provider::answering(move |request| {
            let messages = &request.json["messages"];
            let sent = messages.to_string();
            let last = messages.as_array().and_then(|all| all.last());
            let is_wrong_key = last.is_some_and(|m| m.to_string().contains("wrong key"));
            let refused = |status, message: &str| {
                let body = json!({"error": {"message": message}});
                Script::status(status, &body.to_string())
            };
            if sent.contains("filtered") {
                anthropic::answer(request, &[], "refusal")
            } else if sent.contains("forbidden") {
                refused(400, "the prompt was flagged")
            } else if is_wrong_key {
                refused(401, "no such key")
            } else if sent.contains("strange") {
                refused(400, "invalid request")
            } else {
                anthropic::answer(request, &[Block::Text("Fine.")], "end_turn")
            }
        }),
        "max_tokens = 1024\n",
    );
    let ask = |words: &str| helper.call(["ask", "--shell", "s1", words]).run();
    let sent = || helper.provider.requests().pop().expect("a request").json["messages"].to_string();
    let this = "later requests leave this prompt out";
    for words in ["filtered", "forbidden one", "forbidden two"] {
        let refused = ask(words).fails(1);
        assert!(refused.contains(this), "{refused}");
        assert!(!refused.contains("output that came"), "{refused}");
    }
    ask("good").ok();
    assert!(
        !sent().contains("forbidden") && !sent().contains("filtered"),
        "{}",
        sent()
    );

    ask("strange").fails(1);
    ask("wrong key").fails(1);
    let refused = ask("innocent").fails(1);
    let earlier = "later requests leave out earlier prompts that were not answered; if they are refused too, start a new session with `llm --new`";
    assert!(refused.contains(earlier), "{refused}");
    ask("good again").ok();
    assert!(
        sent().contains("innocent") && sent().contains("wrong key"),
        "{}",
        sent()
    );
    assert!(!sent().contains("strange"), "{}", sent());
}

#[test]
fn a_budget_needs_a_known_price() {
    let helper = helper("[budget]\nsession = 1\n");
    helper.config_file(&unknown_model(&helper));
    let words = helper.call(["ask", "--shell", "s1", "x"]).run().fails(1);
    assert!(
        words.contains("the price of the model is unknown"),
        "{words}"
    );
    assert!(words.contains("[models.sonnet]: price = {"), "{words}");
    assert!(helper.provider.requests().is_empty());
}

#[test]
fn what_a_killed_daemon_had_reserved_counts_as_spent() {
    let provider = Provider::answering(|request| {
        let events = anthropic::events(request, &[Block::Text("A begin, and an end.")], "end_turn");
        held(&events[..3])
    });
    let helper = with(provider, "max_tokens = 2000\n[budget]\nmonth = 0.05\n");
    let running = helper.call(["ask", "--shell", "s1", "x"]).start();
    helper.provider.wait_gate("hold");
    helper.kill_daemon();
    running.finish();
    assert!(
        spending(&helper).contains("\"opens\""),
        "{}",
        spending(&helper)
    );
    // 0.05 less two reservations of more than 0.02 leave too little.
    let second = helper.call(["ask", "--shell", "s1", "x"]).start();
    helper.until("the second request", || {
        helper.provider.requests().len() == 2
    });
    let third = helper.call(["ask", "--shell", "s2", "x"]).run().fails(1);
    assert!(third.contains("per month does not allow"), "{third}");
    helper.provider.open("hold");
    second.finish();
}

#[test]
fn a_raised_budget_is_confirmed_before_it_counts() {
    let helper = helper("[budget]\nday = 0.001\n");
    helper.call(["ask", "--shell", "s1", "x"]).run().fails(1);
    let config = helper.path("config/config.toml");
    raise(&config);
    let words = helper.call(["ask", "--shell", "s1", "x"]).run();
    assert!(words.stderr.contains("are not in force"), "{words:?}");
    assert!(
        words.stderr.contains("the budget of $0.0010 per day"),
        "{words:?}"
    );
    assert!(helper.provider.requests().is_empty(), "{words:?}");
}

fn raise(config: &Path) {
    let text = std::fs::read_to_string(config).unwrap();
    std::fs::write(config, text.replace("day = 0.001", "day = 100")).unwrap();
}
