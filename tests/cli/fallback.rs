//! Other models: those that answer when the chosen one cannot, and the one for single commands.

use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;

/// A helper whose model `a` is at `a`, with the fallbacks `b` and `c`.
fn helper(a: &str, b: &Provider, c: Provider, more: &str) -> Helper {
    let helper = Helper::with(c);
    let (b, c) = (b.base_url(), helper.provider.base_url());
    helper.config_file(&format!(
        "default_model = \"a\"\n[models.a]\nbase_url = \"{a}\"\nmodel = \"m-a\"\nfallback = [\"b\", \"c\"]\n{more}\
         [models.b]\nbase_url = \"{b}\"\nmodel = \"m-b\"\n[models.c]\nbase_url = \"{c}\"\nmodel = \"m-c\"\n"
    ));
    helper
}

fn saying(text: &'static str) -> Provider {
    Provider::answering(move |_| Script::tokens([text]))
}

#[test]
fn the_next_model_answers_when_one_cannot_be_reached() {
    let b = saying("from b");
    // Nothing listens on port 1.
    let helper = helper("http://127.0.0.1:1/v1", &b, saying("from c"), "");
    let run = helper.call(["ask", "--shell", "s1", "x"]).run();
    assert!(run.stderr.contains("127.0.0.1:1"), "{run:?}");
    assert!(run.stderr.contains("; b answers instead"), "{run:?}");
    assert_eq!(run.ok(), "from b\n");
    assert_eq!(b.requests()[0].json["model"], "m-b");
    let answers = helper.records_of("assistant");
    let models: Vec<_> = answers
        .iter()
        .map(|r| (r["model"].as_str(), r["finish"].as_str()))
        .collect();
    assert_eq!(
        models,
        [(Some("a"), Some("error")), (Some("b"), Some("stop"))]
    );
    // The next prompt has the one question and the answer of b.
    helper.call(["ask", "--shell", "s1", "y"]).run().ok();
    let messages = b.requests()[1].json["messages"].as_array().unwrap().clone();
    let roles: Vec<_> = messages
        .iter()
        .map(|m| m["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    assert_eq!(
        b.requests()[0].json["messages"].as_array().unwrap().len(),
        2
    );
}

#[test]
fn a_long_wait_and_a_failing_server_lead_to_the_next() {
    let wait = Script::Status(429, vec![("retry-after", "120".to_owned())], b"{}".to_vec());
    let a = Provider::answering(move |_| wait.clone());
    let b = Provider::answering(|_| Script::status(503, "{}"));
    let helper = helper(&a.base_url(), &b, saying("from c"), "");
    let run = helper.call(["ask", "x"]).run();
    assert!(
        run.stderr
            .contains("asks to wait 2 minutes: {}; b answers instead"),
        "{run:?}"
    );
    assert!(run.stderr.contains("; c answers instead"), "{run:?}");
    assert_eq!(run.ok(), "from c\n");
    assert_eq!(a.requests().len(), 1);
}

#[test]
fn nothing_else_leads_to_another_model() {
    // A refused key, a wrong request, and an answer that has begun.
    let begun = || {
        Script::Raw(vec!["HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"part\"}}]}\n\n".into()])
    };
    for script in [
        Script::status(401, "{}"),
        Script::status(400, "{}"),
        begun(),
    ] {
        let a = Provider::answering(move |_| script.clone());
        let b = saying("from b");
        let helper = helper(&a.base_url(), &b, saying("from c"), "");
        helper.call(["ask", "x"]).run().fails(1);
        assert!(b.requests().is_empty());
    }
}

#[test]
fn unknown_names_are_faults_of_the_configuration() {
    let helper = helper("http://127.0.0.1:1/v1", &saying("b"), saying("c"), "");
    let text = std::fs::read_to_string(helper.path("config/config.toml")).unwrap();
    helper.change_config(
        &(text.replace("[\"b\", \"c\"]", "[\"bb\"]") + "[jobs]\ncommand = \"zz\"\n"),
    );
    let run = helper.call(["config", "check"]).run();
    for words in [
        "models.a.fallback",
        "no model named \"bb\"",
        "jobs.command",
        "no model named \"zz\"",
    ] {
        assert!(
            run.stdout.contains(words) || run.stderr.contains(words),
            "{words}: {run:?}"
        );
    }
}

#[test]
fn single_commands_are_written_by_the_model_of_the_job() {
    let a = saying("ls a");
    let b = saying("ls b");
    let helper = helper(&a.base_url(), &b, saying("ls c"), "");
    let text = std::fs::read_to_string(helper.path("config/config.toml")).unwrap();
    helper.config_file(&(text + "[jobs]\ncommand = \"b\"\n"));
    let command = |more: &[&str]| {
        let args = [more, &["--command", "--", "list"]].concat();
        helper
            .call([&["ask", "--shell", "s1"], &args[..]].concat())
            .run()
            .ok()
    };
    assert_eq!(command(&[]), "ls b\n");
    assert_eq!(command(&["-m", "c"]), "ls c\n");
    assert_eq!(helper.ask("x"), "ls a\n");
}
