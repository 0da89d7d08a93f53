//! Failures of a prompt: each is reported in one line, with a hint.

use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::cli::prompt::half;
use crate::fakes::provider::{Part, Provider, Script, text_event};
use crate::support::helper::Helper;

const KEY: &str = "sk-0123456789abcdefCANARY";

/// Writes a config with one model that has these lines.
fn model(helper: &Helper, lines: &str) {
    helper.config_file(&format!(
        "default_model = \"fake\"\n[models.fake]\nmodel = \"fake-1\"\n{lines}\n"
    ));
}

#[test]
fn an_unreachable_provider_is_named() {
    let helper = Helper::new([]);
    // A bound port without a listener: connections are refused, and no other process can take it.
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    model(&helper, &format!("base_url = \"http://{closed}/v1\""));
    let run = helper.call(["ask", "--shell", "s1", "x"]).run();
    assert_eq!(run.stdout, "");
    let error = run.fails(1);
    assert!(error.contains(&closed.to_string()), "{error}");
    model(&helper, "base_url = \"http://no-such-host.invalid/v1\"");
    let error = helper.call(["ask", "--shell", "s1", "x"]).run().fails(1);
    assert!(error.contains("no-such-host.invalid"), "{error}");
    // The failed prompts are recorded, and sent with the next one.
    helper.config("");
    let provider = Provider::start([Script::tokens(["ok"])]);
    model(&helper, &format!("base_url = \"{}\"", provider.base_url()));
    helper.ask("now");
    let messages = provider.requests()[0].json["messages"].clone();
    assert_eq!(messages.as_array().unwrap().len(), 6);
}

#[test]
fn a_key_is_sent_but_never_shown() {
    let provider = Provider::start([
        Script::tokens(["ok"]),
        Script::status(
            401,
            r#"{"error":{"message":"Incorrect API key: sk-0123456789abcdefCANARY"}}"#,
        ),
        Script::tokens(["ok"]),
    ])
    .key(KEY);
    let helper = Helper::with(provider);
    let base_url = format!("base_url = \"{}\"", helper.provider.base_url());
    model(&helper, &format!("{base_url}\nkey_env = \"FAKE_KEY\""));
    let call = |args: &[&str]| helper.call(args).env("FAKE_KEY", KEY);
    let mut runs = Vec::new();
    runs.push(call(&["ask", "--shell", "s1", "--json", "x"]).run());
    let refused = call(&["ask", "--shell", "s1", "x"]).run();
    assert!(refused.stderr.contains("FAKE_KEY"), "{refused:?}");
    runs.push(refused);
    for args in [
        &["status"][..],
        &["status", "--json"],
        &["config", "show"],
        &["config", "show", "--json"],
        &["config", "check"],
        &["model", "list", "--json"],
        &["session", "show", "--json", "--shell", "s1"],
    ] {
        runs.push(call(args).run());
    }
    assert_eq!(runs[1].code, 1);

    model(
        &helper,
        &format!("{base_url}\nkey_cmd = \"printf %s {KEY}\""),
    );
    runs.push(helper.call(["ask", "x"]).run());
    runs.push(helper.call(["config", "show"]).run());
    for run in &runs {
        assert!(run.code == 0 || run.code == 1, "{run:?}");
        let shown = format!("{}{}", run.stdout, run.stderr);
        assert!(!shown.contains("CANARY"), "{run:?}");
    }
    // The whole home, except the config written by the user.
    let mut dirs = vec![helper.path("")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let kind = std::fs::symlink_metadata(&path).unwrap().file_type();
            if kind.is_dir() && !path.ends_with("config") {
                dirs.push(path);
            } else if kind.is_file() {
                let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
                assert!(!text.contains("CANARY"), "{}", path.display());
            }
        }
    }
    let argv = std::fs::read(format!("/proc/{}/cmdline", helper.daemon()));
    if let Ok(argv) = argv {
        assert!(!String::from_utf8_lossy(&argv).contains("CANARY"));
    }
}

#[test]
fn a_key_is_fetched_for_a_prompt_and_again_after_a_rejection() {
    let provider = Provider::start([
        Script::tokens(["ok"]),
        Script::status(404, "no"),
        Script::status(401, "no"),
        Script::tokens(["ok"]),
    ]);
    let helper = Helper::with(provider.key(KEY));
    let runs = helper.path("runs");
    let (base_url, file) = (helper.provider.base_url(), runs.display());
    model(
        &helper,
        &format!("base_url = \"{base_url}\"\nkey_cmd = \"echo >> {file}; printf {KEY}\""),
    );
    helper.call(["start"]).run().ok();
    let status = helper.call(["status"]).run().ok();
    assert!(status.contains("its key_cmd runs when"), "{status}");
    assert!(!runs.exists());
    let count = || std::fs::read(&runs).unwrap().len();
    assert_eq!(helper.ask("x"), "ok\n");
    helper.call(["ask", "x"]).run().fails(1);
    helper.call(["ask", "x"]).run().fails(1);
    assert_eq!(count(), 1);
    assert_eq!(helper.ask("x"), "ok\n");
    assert_eq!(count(), 2);
}

#[test]
fn an_invalid_config_is_reported_with_its_place() {
    let helper = Helper::new([]);
    let path = helper.path("config/config.toml");
    let at = |line: usize| format!("{}:{line}: ", path.display());
    let base_url = format!("base_url = \"{}\"", helper.provider.base_url());
    for (lines, line, says) in [
        (
            format!("{base_url}\ntemperatur = 1"),
            5,
            "did you mean temperature?",
        ),
        (
            format!("{base_url}\nmax_tokens = \"many\""),
            5,
            "max_tokens",
        ),
        (
            format!("{base_url}\nkey_env = \"FAKE_KEI\""),
            5,
            "did you mean FAKE_KEY?",
        ),
        (format!("{base_url}\nkey_cmd = \"echo a b\""), 5, "key_cmd"),
    ] {
        model(&helper, &lines);
        let call = helper.call(["ask", "x"]).env("FAKE_KEY", KEY);
        let error = call.run().fails(3);
        assert!(error.contains(&at(line)), "{error}");
        assert!(error.contains(says), "{error}");
    }
    model(&helper, &format!("{base_url}\nkey_cmd = \"exit 1\""));
    let error = helper.call(["ask", "x"]).run().fails(3);
    assert!(error.contains("key_cmd of model fake failed"), "{error}");

    helper.config("");
    std::fs::write(helper.path("config/aish.json"), "{}").unwrap();
    let error = helper.call(["ask", "x"]).run().fails(3);
    assert!(
        error.contains("config.toml") && error.contains("aish.json"),
        "{error}"
    );
    std::fs::remove_file(helper.path("config/aish.json")).unwrap();
    let error = helper
        .call(["ask", "x"])
        .env("AISH_MODEL", "fakr")
        .run()
        .fails(3);
    assert!(
        error.contains("AISH_MODEL") && error.contains("fake"),
        "{error}"
    );
}

#[test]
fn a_changed_config_is_read_again() {
    let helper = Helper::saying("ok");
    helper.ask("x");
    let daemon = helper.daemon();
    let base_url = format!("base_url = \"{}\"", helper.provider.base_url());
    model(&helper, &format!("{base_url}\ntemperature = 0.5"));
    helper.ask("x");
    let last = helper.provider.requests().pop().unwrap();
    assert_eq!(last.json["temperature"], 0.5);
    model(&helper, "base_ur = \"http://x\"");
    helper.call(["ask", "x"]).run().fails(3);
    model(&helper, &base_url);
    helper.ask("x");
    assert_eq!(helper.daemon(), daemon);
}

#[test]
fn a_daemon_killed_during_an_answer_is_reported_in_one_line() {
    let helper = Helper::new([half("never"), Script::tokens(["second"])]);
    let ask = helper.call(["ask", "--shell", "s1", "first"]).start();
    ask.stdout.wait_text("half ");
    helper.kill_daemon();
    let run = ask.finish();
    assert_eq!(run.stdout, "half \n");
    let error = run.fails(1);
    assert!(
        error.contains("what has arrived is kept; ask again for the rest"),
        "{error}"
    );
    assert_eq!(helper.ask("go on"), "second\n");
    let messages = helper.messages(1);
    assert_eq!(messages[1].1, "first");
    assert_eq!(messages[2].1, "half ");
    assert_eq!(messages.len(), 4);
    let shown = helper.call(["session", "show", "--shell", "s1"]).run().ok();
    assert!(
        shown.contains("half\n[cut off: the daemon was killed]\n"),
        "{shown}"
    );
    let partial = helper.path("data/partial");
    assert_eq!(std::fs::read_dir(partial).expect("it is there").count(), 0);
    let records = helper.records();
    let types: Vec<&str> = records
        .iter()
        .map(|r| r["type"].as_str().unwrap())
        .collect();
    assert_eq!(types, ["session", "user", "assistant", "user", "assistant"]);
    assert_eq!(records[2]["finish"], "cut_off");
}

#[test]
fn an_answer_cut_off_by_a_kill_keeps_its_proposed_commands() {
    let parts = ["half\n", "CMD: touch made\n", "and more "];
    let events = parts.map(|text| Part::from(text_event(text).as_str()));
    let script = Script::events(events.into_iter().chain([Part::Gate("never")]));
    let helper = Helper::new([script, Script::tokens(["second"])]);
    let ask = helper.call(["ask", "--shell", "s1", "first"]).start();
    ask.stdout.wait_text("and more ");
    helper.kill_daemon();
    ask.finish().fails(1);
    assert_eq!(helper.ask("go on"), "second\n");
    assert_eq!(helper.records_of("assistant")[0]["text"], parts.concat());
}

#[test]
fn a_prompt_without_a_model_leaves_no_session() {
    let helper = Helper::new([]);
    let call = |args: &[&str]| {
        let run = helper.call(["ask", "--shell", "s1"]).args(args).run();
        run.fails(3)
    };
    call(&["-m", "missing", "x"]);
    helper.config_file(&format!(
        "default_model = \"m\"\n[models.m]\nbase_url = \"{}\"\nmodel = \"m\"\nkey_env = \"NO_SUCH_KEY\"\n",
        helper.provider.base_url()
    ));
    let error = call(&["x"]);
    assert!(error.contains("NO_SUCH_KEY"), "{error}");
    assert!(helper.sessions().is_empty());
}

#[test]
fn a_socket_directory_that_others_control_is_refused() {
    let helper = Helper::new([]);
    let run_dir = helper.path("run");
    let refused = |says: &str| {
        for args in [&["ask", "x"][..], &["start"], &["status"], &["stop"]] {
            let error = helper.call(args).run().fails(1);
            assert!(error.contains(says), "{error}");
            assert!(error.contains(&*run_dir.to_string_lossy()), "{error}");
            assert_eq!(error.lines().count(), 2, "{error}");
        }
    };
    let elsewhere = helper.home.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let private = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(&elsewhere, private.clone()).unwrap();
    symlink(&elsewhere, &run_dir).unwrap();
    refused("symbolic link");
    std::fs::remove_file(&run_dir).unwrap();

    std::fs::write(&run_dir, "").unwrap();
    refused("is not a directory");
    std::fs::remove_file(&run_dir).unwrap();

    std::fs::create_dir(&run_dir).unwrap();
    std::fs::set_permissions(&run_dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    refused("mode 0755");
    std::fs::set_permissions(&run_dir, private).unwrap();
    // Only root can change the owner of a directory.
    if std::os::unix::fs::chown(&run_dir, Some(1), None).is_ok() {
        refused("belongs to uid 1");
    }
    std::fs::remove_dir(&run_dir).unwrap();
    helper.call(["start"]).run().ok();
}

#[test]
fn an_unwritable_home_is_named() {
    let helper = Helper::new([]);
    // Even root cannot create a directory in /proc.
    let call = helper.call(["ask", "x"]).env("AISH_HOME", "/proc/aish");
    let error = call.run().fails(1);
    assert!(error.contains("/proc/aish"), "{error}");
    assert!(error.contains("AISH_HOME"), "{error}");
    std::fs::remove_dir_all(helper.path("state")).unwrap();
    std::fs::write(helper.path("state"), "in the way").unwrap();
    let error = helper.call(["ask", "x"]).run().fails(1);
    assert!(
        error.contains("state") && error.contains("AISH_HOME"),
        "{error}"
    );
}

#[test]
fn an_unwritable_history_does_not_prevent_an_answer() {
    let helper = Helper::saying("ok");
    std::fs::write(helper.path("data"), "in the way").unwrap();
    for words in ["one", "two"] {
        let run = helper.call(["ask", "--shell", "s1", words]).run();
        assert!(run.stderr.contains("cannot"), "{run:?}");
        assert!(run.stderr.contains("data"), "{run:?}");
        assert!(run.stderr.lines().count() <= 2, "{run:?}");
        assert_eq!(run.ok(), "ok\n");
    }
    // The session continues in memory.
    assert_eq!(helper.messages(1).len(), 4);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_reported_and_leaves_no_partial_line() {
    let helper = Helper::saying("ok");
    helper.ask("one");
    let size = std::fs::metadata(&helper.sessions()[0]).unwrap().len();
    // Space for a part of the next record in either file.
    for (shell, room) in [("s1", size + 20), ("s2", 20)] {
        helper.limit_files(Some(room));
        let run = helper.call(["ask", "--shell", shell, "not recorded"]).run();
        let notices = run.stderr.matches("cannot write the history").count();
        assert_eq!(notices, 1, "{run:?}");
        assert_eq!(run.ok(), "ok\n");
    }
    helper.limit_files(None);
    let call = helper.call(["ask", "--shell", "s1", "recorded"]);
    let run = call.run();
    assert_eq!(run.stderr, "");
    run.ok();
    // The session is complete in memory.
    assert_eq!(helper.messages(3).len(), 6);
    let users = helper.records_of("user");
    let texts: Vec<&str> = users
        .iter()
        .map(|r| r["prompt"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["one", "recorded"]);
}

#[test]
fn an_unset_or_relative_home_is_handled() {
    let helper = Helper::saying("ok");
    let call = helper.call(["ask", "x"]).env_remove("HOME");
    assert_eq!(call.run().ok(), "ok\n");
    let call = helper.call(["ask", "x"]).env("AISH_HOME", "aish");
    let error = call.run().fails(3);
    assert!(error.contains("relative"), "{error}");
}

#[test]
fn escape_sequences_of_a_provider_are_not_sent_to_the_terminal() {
    // Error messages of a provider are untrusted too.
    let body = r#"{"error":{"message":"\u001b]0;title\u0007 bad \u202e request\nsecond line"}}"#;
    let helper = Helper::new([Script::status(400, body)]);
    let error = helper.call(["ask", "x"]).run().fails(1);
    let obeyed = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!error.contains(obeyed), "{error:?}");
    assert!(error.contains("request"), "{error:?}");
}

#[test]
fn an_unknown_argument_is_reported_in_two_lines() {
    let helper = Helper::new([]);
    let error = helper.call(["ask", "--bogus", "x"]).run().fails(2);
    assert!(error.contains("unexpected argument '--bogus'"), "{error}");
    assert!(error.contains("see: llm :help"), "{error}");
    assert_eq!(error.lines().count(), 2, "{error}");
    let error = helper.call(["config", "bogus"]).run().fails(2);
    assert!(error.contains("see: aish-helper config --help"), "{error}");
}
