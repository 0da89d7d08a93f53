//! Models that servers offer: listed after a manual refresh, used as SERVER/MODEL, and written to the configuration.

use serde_json::{Value, json};

use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;
use crate::support::pty::Zsh;

fn helper() -> Helper {
    let list = json!({ "data": [
        { "id": "qwen3:8b" }, { "id": "big-2" }, { "id": "text-embed-1" }, { "id": "gpt-4.1-mini" }, { "id": "a\u{1b}[2Jb" }
    ] });
    let provider = Provider::answering(|_| Script::tokens(["ok"]));
    let provider = provider.models(Script::status(200, &list.to_string()));
    let helper = Helper::with(provider.only_key("s3cret-key-1"));
    helper.config("key_env = \"WORK_KEY\"\nmax_tokens = 7\n");
    helper
}

fn run(helper: &Helper, words: &[&str]) -> crate::support::helper::ProgramCall {
    helper.call(words).env("WORK_KEY", "s3cret-key-1")
}

#[test]
fn lists_of_servers_are_fetched_by_hand_and_filtered() {
    let helper = helper();
    let text = run(&helper, &["model", "list"]).run().ok();
    assert!(!text.contains("qwen3"), "{text}");
    assert_eq!(
        helper.provider.requests().len(),
        0,
        "nothing is asked unasked"
    );
    let text = run(&helper, &["model", "refresh"]).run().ok();
    assert!(text.starts_with("fake: 5 models\n"), "{text}");
    let text = run(&helper, &["model", "list"]).run().ok();
    assert!(text.starts_with("* fake "), "{text}");
    for line in [
        "fake (http://127.0.0.1",
        "  fake/qwen3:8b\n",
        "  fake/a‹\\x1b›[2Jb\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let text = run(&helper, &["model", "list", "--filter", "QWEN"])
        .run()
        .ok();
    assert!(
        text.contains("fake/qwen3:8b") && !text.contains("big-2"),
        "{text}"
    );
    let text = run(&helper, &["model", "list", "--filter", "zzz"])
        .run()
        .ok();
    assert_eq!(text, "no model matches\n");
    let available = ["model", "list", "--available", "--json", "--filter", "big"];
    let available = run(&helper, &available).run().json();
    assert_eq!(available[0]["name"], "fake/big-2");
    assert_eq!(available.as_array().map(Vec::len), Some(1));

    // The completion gets every name that can be typed.
    let names = run(&helper, &["model", "list", "--names"]).run().ok();
    let names: Vec<&str> = names.lines().collect();
    assert!(
        names.contains(&"fake") && names.contains(&"fake/qwen3:8b"),
        "{names:?}"
    );
    assert!(
        !names.iter().any(|name| name.contains('\u{1b}')),
        "{names:?}"
    );

    // A server that is down keeps its list.
    let refused = helper
        .call(["model", "refresh"])
        .env("WORK_KEY", "wrong")
        .run()
        .ok();
    assert!(refused.starts_with("! fake: "), "{refused}");
    assert!(!refused.contains("wrong"), "{refused}");
    let text = run(&helper, &["model", "list"]).run().ok();
    assert!(text.contains("fake/qwen3:8b"), "{text}");
}

#[test]
fn server_and_model_name_a_model_without_a_section() {
    let helper = helper();
    let last = || {
        helper
            .provider
            .requests()
            .last()
            .expect("a request")
            .json
            .clone()
    };
    run(&helper, &["ask", "-m", "fake/big-2", "--", "hi"])
        .run()
        .ok();
    assert_eq!(last()["model"], "big-2");
    assert_eq!(last().get("max_tokens"), None, "of the other model");
    let shell = ["model", "use", "--shell", "s1", "fake/qwen3:8b"];
    let text = run(&helper, &shell).run().ok();
    assert_eq!(text, "fake/qwen3:8b is now the model of this session\n");
    run(&helper, &["ask", "--shell", "s1", "--", "hi"])
        .run()
        .ok();
    assert_eq!(last()["model"], "qwen3:8b");
    let answers = helper.records_of("assistant");
    assert_eq!(answers.last().expect("an answer")["model"], "fake/qwen3:8b");

    let error = run(&helper, &["ask", "-m", "nowhere/big-2", "--", "hi"])
        .run()
        .fails(3);
    assert!(
        error.contains("no model named \"nowhere/big-2\""),
        "{error}"
    );
    run(&helper, &["model", "refresh"]).run().ok();
    let error = run(&helper, &["model", "use", "--shell", "s1", "qwen"])
        .run()
        .fails(3);
    assert!(error.contains("servers offer: fake/qwen3:8b"), "{error}");
    // A known server needs no section, only its key.
    let error = run(&helper, &["ask", "-m", "mistral/some-model", "--", "hi"])
        .run()
        .fails(3);
    assert!(error.contains("MISTRAL_API_KEY"), "{error}");
    let error = run(&helper, &["ask", "-m", "mistral", "--", "hi"])
        .run()
        .fails(3);
    assert!(error.contains("MISTRAL_API_KEY"), "{error}");
}

#[test]
fn saved_model_is_in_the_configuration() {
    let helper = helper();
    // At a terminal: what a script writes is confirmed first.
    helper.home.zshrc("export WORK_KEY=s3cret-key-1\n");
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("aish-helper model use --shell s1 fake/qwen3:8b --save");
    let screen = zsh.screen();
    assert!(
        screen.contains("fake/qwen3:8b is now the model of this session and by default"),
        "{screen}"
    );
    let config = std::fs::read_to_string(helper.path("config/config.toml")).expect("a file");
    assert!(
        config.contains("default_model = \"fake/qwen3:8b\"\n"),
        "{config}"
    );
    let section = format!(
        "[models.\"fake/qwen3:8b\"]\nbase_url = \"{}\"\nmodel = \"qwen3:8b\"\nkey_env = \"WORK_KEY\"\n",
        helper.provider.base_url()
    );
    assert!(config.contains(&section), "{config}");
    let models: Value = run(&helper, &["model", "list", "--json"]).run().json();
    let names: Vec<&str> = models
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|m| m["name"].as_str())
        .collect();
    assert_eq!(names, ["fake", "fake/qwen3:8b"]);
    // It does not become a separate server.
    run(&helper, &["model", "refresh"]).run().ok();
    let names = run(&helper, &["model", "list", "--names"]).run().ok();
    assert!(names.contains("\nfake/big-2\n"), "{names}");
    assert!(!names.contains("fake/qwen3:8b/"), "{names}");
    // Again, and without a shell.
    run(&helper, &["model", "use", "fake/qwen3:8b"]).run().ok();
    run(&helper, &["model", "use", "fake"]).run().ok();
    run(&helper, &["model", "use", "nowhere/x"]).run().fails(3);
}
