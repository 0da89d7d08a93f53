//! Settings of a session: an option of the prompt comes first, then the session, then the configuration.

use serde_json::{Value, json};

use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;

const MORE: &str = "[models.second]\nbase_url = \"BASE\"\nmodel = \"second-1\"\n[toolsets]\nminimal = [\"files\"]\n";

fn helper() -> Helper {
    let helper = Helper::with(Provider::answering(|_| Script::tokens(["ok"])));
    let more = MORE.replace("BASE", &helper.provider.base_url());
    helper.config(&more);
    for name in ["coding", "review"] {
        let path = helper.path("config/prompts").join(format!("{name}.toml"));
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::fs::write(path, format!("system = \"I am {name}.\"")).expect("a pack");
    }
    helper
}

/// Runs `session config` with these words, and returns value and origin of each setting.
fn config(helper: &Helper, words: &[&str]) -> Vec<(Value, Value)> {
    let words = ["session", "config"].iter().chain(words).chain(&["--json"]);
    let settings = helper.call(words).run().json();
    let settings = settings.as_array().expect("a list").clone();
    let pair = |setting: &Value| (setting["value"].clone(), setting["origin"].clone());
    settings.iter().map(pair).collect()
}

/// Asks in the shell `s1`, and returns the model and the system prompt of the request.
fn ask(helper: &Helper, options: &[&str]) -> (String, String) {
    let words = ["ask", "--shell", "s1"]
        .iter()
        .chain(options)
        .chain(&["--", "hi"]);
    helper.call(words).run().ok();
    let requests = helper.provider.requests();
    let last = requests.last().expect("a request");
    let (_, system) = helper.messages(requests.len() - 1).swap_remove(0);
    let model = last.json["model"].as_str().expect("a model").to_owned();
    (model, system)
}

#[test]
fn request_beats_session_beats_configuration() {
    let helper = helper();
    let text = std::fs::read_to_string(helper.path("config/config.toml")).expect("a file");
    helper.config_file(&format!("default_prompt = \"review\"\n{text}"));
    assert_eq!(
        config(&helper, &["get", "--shell", "s1"]),
        [
            (json!("fake"), json!("default_model")),
            (json!("review"), json!("default_prompt")),
            (json!(null), json!("default")),
        ]
    );
    assert_eq!(helper.sessions().len(), 0, "reading creates no session");
    assert_eq!(ask(&helper, &[]).1, "I am review.");
    let set = [
        "set",
        "--shell",
        "s1",
        "prompt=@coding",
        "model=second",
        "tools=@minimal",
    ];
    assert_eq!(
        config(&helper, &set),
        [
            (json!("second"), json!("session")),
            (json!("@coding"), json!("session")),
            (json!("@minimal"), json!("session")),
        ]
    );
    let coding = "I am coding.".to_owned();
    assert_eq!(ask(&helper, &[]), ("second-1".into(), coding.clone()));
    assert_eq!(
        ask(&helper, &["-m", "fake", "--prompt", "review"]),
        ("fake-1".into(), "I am review.".into())
    );
    helper.call(["restart"]).run().ok();
    assert_eq!(ask(&helper, &[]), ("second-1".into(), coding), "kept");

    // By the id of the session, and from any shell.
    let list = helper.call(["session", "list", "--json"]).run().json();
    let id = list[0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(
        config(&helper, &["get", &id, "model"]),
        [(json!("second"), json!("session"))]
    );
    assert_eq!(
        config(&helper, &["unset", &id, "model", "prompt"])[..2],
        [
            (json!("fake"), json!("default_model")),
            (json!("review"), json!("default_prompt")),
        ]
    );
    assert_eq!(
        config(&helper, &["set", &id, "tools="])[2],
        (json!(null), json!("default"))
    );
    assert_eq!(ask(&helper, &[]), ("fake-1".into(), "I am review.".into()));
    let new = ["session", "new", "--shell", "s1"];
    helper.call(new).run().ok();
    let text = helper
        .call(["session", "config", "get", "--shell", "s1"])
        .run()
        .ok();
    assert_eq!(
        text,
        "model   fake    default_model in the configuration\nprompt  review  default_prompt in the configuration\ntools   all     built in\n"
    );
}

#[test]
fn wrong_settings_change_nothing() {
    let helper = helper();
    let fails = |code, words: &[&str]| {
        let words = ["session", "config", "set", "--shell", "s1"]
            .iter()
            .chain(words);
        helper.call(words).run().fails(code)
    };
    for (code, words, message) in [
        (2, &["prompt=@codng"][..], "did you mean @coding?"),
        (2, &["tools=@minimla"], "did you mean @minimal?"),
        (3, &["model=secnd"], "second"),
        (2, &["promt=x"], "did you mean prompt?"),
        (2, &["prompt"], "no value"),
        (
            2,
            &["prompt=@coding", "tools=a b"],
            "not a selection of tools",
        ),
    ] {
        let error = fails(code, words);
        assert!(error.contains(message), "{words:?}: {error}");
    }
    let error = helper.call(["session", "config", "get", "1f"]).run().stderr;
    assert!(error.contains("1f"), "{error}");
    assert_eq!(helper.sessions().len(), 0);
}

#[test]
fn a_selection_of_names_that_do_not_exist_is_told_when_it_is_set_and_with_each_prompt() {
    let helper = helper();
    let line = "[aish] the selection names zzz, which does not exist; there are aish, fs, ";
    let set = ["session", "config", "set", "--shell", "s1", "tools=zzz"];
    let told = helper.call(set).run();
    assert!(told.stderr.contains(line), "{}", told.stderr);
    for _ in 0..2 {
        let asked = helper.call(["ask", "--shell", "s1", "--", "hi"]).run();
        assert!(asked.stderr.contains(line), "{}", asked.stderr);
    }
    let set = ["session", "config", "set", "--shell", "s1", "tools=fs"];
    assert_eq!(helper.call(set).run().stderr, "");
}
