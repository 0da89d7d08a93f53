//! One prompt: the request, the output, and the exit code.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::fakes::provider::{Part, Script, finish_event, text_event};
use crate::support::helper::Helper;

/// A stream that waits at the gate `gate` after `half`.
pub fn half(gate: &'static str) -> Script {
    Script::events([
        Part::from(text_event("half ").as_str()),
        Part::Gate(gate),
        Part::from(text_event("whole").as_str()),
        Part::from(finish_event("stop").as_str()),
        Part::from("data: [DONE]\n\n"),
    ])
}

#[test]
fn a_prompt_is_sent_as_typed() {
    let helper = Helper::saying("ok");
    let words = [
        "it's",
        "\"q\"",
        "$HOME",
        "`x`",
        "*",
        "\\n",
        "é日本👩‍💻",
        " a  b ",
        "\t",
        "-m",
        "--json",
        "--",
    ];
    let call = helper.call(["ask", "--"]).args(words);
    assert_eq!(call.run().ok(), "ok\n");
    assert_eq!(helper.content(), words.join(" "));
    // After the first word nothing is parsed as an option, with or without `--`.
    let call = helper.call(["ask", "why", "-m", "none", "--json", "-h"]);
    assert_eq!(call.run().ok(), "ok\n");
    assert_eq!(helper.content(), "why -m none --json -h");
}

#[test]
fn a_prompt_on_a_descriptor_arrives_byte_for_byte() {
    let helper = Helper::saying("ok");
    let program = crate::support::home::helper();
    let ask = format!("exec {program} ask --prompt-fd 9 9<prompt");
    let long = "it's a `long` line\t \n\n".repeat(50_000);
    for prompt in [
        "--json -m x",
        "  what's \\ $up;\t\n 'x' ",
        "é日本👩‍💻\n",
        &long,
    ] {
        // zsh ends a here-string with a newline.
        std::fs::write(helper.home.path("prompt"), format!("{prompt}\n")).unwrap();
        assert_eq!(helper.program("sh").args(["-c", &ask]).run().ok(), "ok\n");
        assert!(helper.content().ends_with(prompt), "{} bytes", prompt.len());
    }
    let call = helper.call(["ask", "--prompt-fd", "77"]);
    assert!(call.run().fails(2).contains("cannot read /dev/fd/77"));
    let call = helper.call(["ask", "--prompt-fd", "0", "word"]);
    assert!(call.run().fails(2).contains("cannot be used with"));
}

#[test]
fn invalid_utf8_in_a_prompt_is_replaced() {
    let helper = Helper::saying("ok");
    let word = OsStr::from_bytes(b"caf\xe9");
    helper.call(["ask", "--"]).args([word]).run().ok();
    assert_eq!(helper.content(), "caf\u{fffd}");
    let file = helper.home.path("x");
    std::fs::write(&file, "text").unwrap();
    let odd = helper.home.path("").join(OsStr::from_bytes(b"caf\xe9.txt"));
    std::fs::rename(file, &odd).unwrap();
    let call = helper.call(["ask", "-f"]).args([odd.as_os_str()]);
    call.args(["x"]).run().ok();
    assert!(helper.content().contains("caf\u{fffd}.txt"));
}

#[test]
fn stdin_is_attached() {
    let helper = Helper::saying("ok");
    let call = helper.call(["ask", "review", "this"]).stdin("+new\n-old\n");
    call.run().ok();
    let attached = "<file name=\"stdin\">\n+new\n-old\n</file>\n\nreview this";
    assert_eq!(helper.content(), attached);

    let file = helper.home.path("err.log");
    std::fs::write(&file, "boom\n").unwrap();
    let call = helper.call(["ask", "explain"]).stdin_file(file);
    call.run().ok();
    assert_eq!(
        helper.content(),
        "<file name=\"stdin\">\nboom\n</file>\n\nexplain"
    );

    // An empty pipe attaches nothing.
    helper.call(["ask", "x"]).stdin("").run().ok();
    assert_eq!(helper.content(), "x");
}

#[test]
fn files_are_attached_in_order() {
    let helper = Helper::saying("ok");
    std::fs::write(helper.home.path("a b"), "A\n").unwrap();
    std::fs::write(helper.home.path("c"), "C").unwrap();
    let call = helper.call(["ask", "-f", "a b", "--file", "c", "compare"]);
    call.stdin("S").run().ok();
    let file = |name: &str, text: &str| format!("<file name={name:?}>\n{text}\n</file>\n");
    let all = [file("a b", "A"), file("c", "C"), file("stdin", "S")].concat();
    assert_eq!(helper.content(), format!("{all}\ncompare"));
}

#[test]
fn an_unreadable_file_is_named_and_nothing_is_sent() {
    let helper = Helper::new([]);
    std::fs::write(helper.home.path("binary"), b"\x7fELF\0\0").unwrap();
    for (file, says) in [("none.txt", "none.txt"), ("binary", "not text"), ("/", "/")] {
        let error = helper.call(["ask", "-f", file, "x"]).run().fails(2);
        assert!(error.contains(says), "{error}");
    }
    let error = helper.call(["ask", "x"]).stdin(b"a\0b").run().fails(2);
    assert!(error.contains("stdin is not text"), "{error}");
    assert!(helper.provider.requests().is_empty());
}

#[test]
fn stdin_is_the_prompt_without_words() {
    let helper = Helper::saying("ok");
    let call = helper.call(["ask"]).stdin("why is\nthe sky blue?");
    assert_eq!(call.run().ok(), "ok\n");
    assert_eq!(helper.content(), "why is\nthe sky blue?");
    let sent = helper.provider.requests().len();
    for call in [
        helper.call(["ask"]),
        helper.call(["ask", ""]),
        helper.call(["ask", " "]).stdin("\n"),
    ] {
        let error = call.run().fails(2);
        assert!(error.contains("the prompt is empty"), "{error}");
    }
    assert_eq!(helper.provider.requests().len(), sent);
}

#[test]
fn json_lines_come_in_order() {
    let helper = Helper::new([Script::tokens(["Hi\n", "CMD: ls\n", "by", "e"])]);
    let out = helper.call(["ask", "--json", "x"]).run().ok();
    let lines: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let mut types: Vec<&str> = lines.iter().map(|l| l["type"].as_str().unwrap()).collect();
    types.dedup();
    assert_eq!(
        types,
        ["turn_started", "text", "proposal", "text", "answer"]
    );
    let text: String = lines.iter().filter_map(|l| l["text"].as_str()).collect();
    assert_eq!(text, "Hi\nbye");
    assert_eq!(
        lines.iter().find(|l| l["type"] == "proposal").unwrap()["command"],
        "ls"
    );
    let last = lines.last().unwrap();
    assert_eq!(last["finish"], "stop");
    assert_eq!(last["prompt_tokens"], 7);
    assert_eq!(last["completion_tokens"], 4);
    assert_eq!(last["proposals"], 1);
    assert_eq!(last["session"], lines[0]["session"]);

    // A failure is a JSON line too, and the exit code is the same.
    helper.config("[shel]\n");
    let run = helper.call(["ask", "--json", "x"]).run();
    let line: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(line["type"], "error");
    assert_eq!(line["kind"], "config");
    run.fails(3);
}

#[test]
fn output_on_a_pipe_is_plain_text() {
    let answer = "# H\n\n**b** `c`\x1b[31m\u{202e}\r\x07 | a | b |\nCMD: ls\x1b[2K\n";
    let helper = Helper::with(crate::fakes::provider::Provider::answering(move |_| {
        Script::tokens([answer])
    }));
    for call in [
        helper.call(["ask", "x"]),
        helper.call(["ask", "x"]).env("NO_COLOR", "1"),
        helper.call(["ask", "--raw", "x"]),
    ] {
        let run = call.run();
        assert_eq!(run.stderr, "");
        let out = run.ok();
        assert!(out.starts_with("# H\n\n**b** `c`"), "{out:?}");
        assert!(out.contains("CMD: ls"), "{out:?}");
        assert!(out.ends_with('\n'));
        let hidden = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!out.contains(hidden), "{out:?}");
    }
}

#[test]
fn a_closed_output_pipe_ends_the_request() {
    let line = Part::Repeat(text_event("line\n").into_bytes(), 1_000_000);
    let helper = Helper::new([Script::events([line])]);
    let run = helper
        .program("zsh")
        .args(["-fc", "aish-helper ask x | head -1; print $pipestatus"])
        .run();
    assert_eq!(run.stderr, "");
    assert_eq!(run.ok(), "line\n0 0\n");
    helper.provider.wait_closed(1);
    helper.until_finish("interrupted");
}

#[test]
fn each_exit_code_has_its_cause() {
    let helper = Helper::new([
        Script::tokens(["ok"]),
        Script::status(400, r#"{"error":{"message":"no such thing"}}"#),
    ]);
    helper.call(["ask", "x"]).run().ok();
    let error = helper.call(["ask", "x"]).run().fails(1);
    assert!(error.contains("no such thing"), "{error}");
    for args in [
        &["ask", "--no-such-option", "x"][..],
        &["ask", "--new", "-c", "x"],
        &["no-such-command"],
    ] {
        let run = helper.call(args).run();
        assert_eq!(run.code, 2, "{run:?}");
    }
    let call = helper.call(["ask", "--shell", "../x", "x"]);
    call.run().fails(2);
    let error = helper.call(["ask", "-m", "fak", "x"]).run().fails(3);
    assert!(error.contains("did you mean fake?"), "{error}");
}

#[test]
fn ctrl_c_stops_at_once_and_keeps_the_partial_answer() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let helper = Helper::new([half("on"), Script::tokens(["second"])]);
        let ask = helper.call(["ask", "--shell", "s1", "first"]).start();
        ask.stdout.wait_text("half ");
        let since = Instant::now();
        ask.signal(signal);
        let run = ask.finish();
        // About 0.1 s on an idle machine. It must not wait for the provider.
        assert!(since.elapsed() < Duration::from_secs(5));
        assert_eq!(run.code, 130, "{run:?}");
        assert_eq!(run.stdout, "half \n");
        assert_eq!(run.stderr, "[aish] interrupted; what has arrived is kept\n");
        helper.provider.wait_closed(1);

        assert_eq!(helper.ask("go on"), "second\n");
        let answers = helper.records_of("assistant");
        assert_eq!(answers[0]["finish"], "interrupted");
        assert_eq!(answers[0]["text"], "half ");
        let messages = helper.messages(1);
        assert_eq!(messages[2], ("assistant".to_owned(), "half ".to_owned()));
        assert_eq!(messages[3], ("user".to_owned(), "go on".to_owned()));
    }
}

#[test]
fn ctrl_c_before_the_first_word_stops() {
    let helper = Helper::new([Script::Hang, Script::tokens(["second"])]);
    let ask = helper.call(["ask", "--shell", "s1", "first"]).start();
    helper.provider.wait_requests(1);
    ask.signal(Signal::SIGINT);
    let run = ask.finish();
    assert_eq!((run.code, run.stdout.as_str()), (130, ""), "{run:?}");
    helper.provider.wait_closed(1);
    helper.ask("again");
    assert_eq!(helper.messages(1).len(), 4);
}

#[test]
fn ctrl_c_stops_a_prompt_whose_reader_does_not_read() {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    use std::io::Write;
    for format in ["--raw", "--json"] {
        let helper = Helper::new([half("never")]);
        let (_reader, mut writer) = std::io::pipe().unwrap();
        fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        // A full pipe, as with `| less`.
        while writer.write(&[b'.'; 4096]).is_ok() {}
        fcntl(&writer, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
        let call = helper.call(["ask", "--shell", "s1", format, "x"]);
        let ask = call.stdout(writer).start();
        helper.provider.wait_gate("never");
        ask.signal(Signal::SIGINT);
        assert_eq!(ask.finish().code, 130);
        helper.provider.wait_closed(1);
        helper.until_finish("interrupted");
    }
}

#[test]
fn a_killed_client_leaves_a_complete_turn() {
    let helper = Helper::new([half("on"), Script::tokens(["second"])]);
    let ask = helper.call(["ask", "--shell", "s1", "first"]).start();
    ask.stdout.wait_text("half ");
    ask.signal(Signal::SIGKILL);
    assert_eq!(ask.finish().code, 128 + 9);
    helper.provider.wait_closed(1);
    helper.until_finish("interrupted");
    helper.ask("go on");
    assert_eq!(helper.messages(1)[2].1, "half ");
}

#[test]
fn an_incomplete_answer_is_reported() {
    let ends = |reason: &str| {
        let parts = [
            text_event("part"),
            finish_event(reason),
            "data: [DONE]\n\n".to_owned(),
        ];
        Script::events(parts.iter().map(String::as_str))
    };
    let helper = Helper::new([
        ends("length"),
        ends("content_filter"),
        Script::tokens(["ok"]),
    ]);
    for says in ["reached the model's output limit", "content filter ended"] {
        let run = helper.call(["ask", "--shell", "s1", "x"]).run();
        assert!(run.stderr.contains(says), "{run:?}");
        assert_eq!(run.ok(), "part\n");
    }
    helper.ask("x");
    assert_eq!(helper.messages(2)[2].1, "part");
}

#[test]
fn the_oldest_answers_are_left_out_beyond_the_context_window() {
    let helper = Helper::saying("ok");
    let base_url = helper.provider.base_url();
    helper.config_file(&format!(
        "[models.small]\nbase_url = \"{base_url}\"\nmodel = \"m\"\ncontext_window = 2000\nmax_tokens = 100\n"
    ));
    let mut cuts = Vec::new();
    for n in 0..4 {
        let words = format!("{n} {}", "word ".repeat(400));
        let run = helper.call(["ask", "--shell", "s1", &words]).run();
        if run.stderr.contains(" left out") {
            cuts.push(n);
        }
        run.ok();
    }
    // Each cut leaves room, so that not every prompt needs one.
    assert!(
        !cuts.is_empty() && cuts[0] > 0 && cuts.len() < 3,
        "{cuts:?}"
    );
    let messages = helper.messages(3);
    assert_eq!(messages[0].0, "system");
    assert!(messages.len() < 8);
    assert!(messages.last().unwrap().1.starts_with("3 "));
    assert_eq!(helper.records_of("user").len(), 4);
}

#[test]
fn a_single_command_is_generated_outside_of_the_session() {
    let helper = Helper::new([
        Script::tokens(["```zsh\n", "ls -l\n", "```\n"]),
        Script::tokens(["CMD: du -sh\n"]),
        Script::tokens(["\n"]),
        Script::tokens(["ok"]),
    ]);
    let ask = ["ask", "--shell", "s1", "--command", "--", "list files"];
    for expected in ["ls -l\n", "du -sh\n"] {
        let run = helper.call(ask).run();
        assert_eq!(run.stderr, "");
        assert_eq!(run.ok(), expected);
    }
    let error = helper.call(ask).run().fails(1);
    assert!(error.contains("no command"), "{error}");
    assert!(helper.records().is_empty());
    // It is recorded in the audit log, which holds records outside of sessions.
    let records = helper.audit_records();
    let count = |kind: &str| records.iter().filter(|a| a["type"] == kind).count();
    assert_eq!((count("user"), count("assistant")), (3, 3), "{records:?}");
    assert_eq!(records[0]["prompt"], "list files");
    assert_eq!(records[0]["ids"]["prompt"], records[1]["ids"]["prompt"]);
    helper.ask("x");
    assert_eq!(helper.messages(3).len(), 2);
}

#[test]
fn a_prompt_of_ten_megabytes_is_answered() {
    let helper = Helper::saying("ok");
    let text = "wörter \"und\" \\ zeichen\n".repeat(10 << 20 >> 4);
    assert!(text.len() > 10 << 20);
    let call = helper.call(["ask", "sum up"]).stdin(text.as_str());
    assert_eq!(call.run().ok(), "ok\n");
    assert!(helper.content().contains(text.trim_end()));
    let call = helper.call(["ask"]).stdin(vec![b'x'; 25 << 20]);
    let error = call.run().fails(2);
    assert!(error.contains("too large"), "{error}");
}

#[test]
fn an_image_is_sent_to_a_model_that_takes_images() {
    let helper = Helper::saying("a cat");
    let png = b"\x89PNG\r\n\x1a\n\0\0cat";
    std::fs::write(helper.home.path("cat.bin"), png).unwrap();
    let ask = || helper.call(["ask", "--shell", "s1", "-f", "cat.bin", "what is this"]);
    let error = ask().run().fails(2);
    assert!(
        error.contains("not configured for images") && error.contains("images = true"),
        "{error}"
    );
    assert_eq!(helper.provider.requests().len(), 0);
    helper.config("images = true\n");
    let run = ask().run();
    assert!(
        run.stderr
            .contains("[aish] attached: cat.bin (image/png, 13 bytes)")
    );
    assert_eq!(run.ok(), "a cat\n");
    let parts = |n: usize| helper.provider.requests()[n].json["messages"][1]["content"].clone();
    let url = "data:image/png;base64,iVBORw0KGgoAAGNhdA==";
    assert_eq!(parts(0)[1]["image_url"]["url"], url);
    assert_eq!(parts(0)[0]["text"], "what is this");
    // The next request of the session sends it again, also after a restart.
    helper.kill_daemon();
    helper.call(["ask", "--shell", "s1", "and now"]).run().ok();
    assert_eq!(parts(1), parts(0));
}

#[test]
fn the_text_files_of_a_directory_are_attached() {
    let helper = Helper::saying("ok");
    let file = |name: &str, content: &[u8]| {
        let path = helper.home.path("src").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    };
    file("a.rs", b"fn a() {}\n");
    file("sub/b.rs", b"fn b() {}\n");
    file(".env", b"hidden");
    file("target/c.rs", b"built");
    file(".gitignore", b"target\n");
    // A repository whose configuration names a program.
    let git = |args: &[&str]| {
        helper
            .program("git")
            .args(["-C", "src"])
            .args(args)
            .run()
            .ok()
    };
    git(&["init", "-q"]);
    let canary = helper.home.path("canary");
    git(&[
        "config",
        "core.fsmonitor",
        &format!("touch {}; false", canary.display()),
    ]);
    file("d.bin", b"\0binary");
    file("e.txt", &vec![b'e'; 1 << 20]);
    std::os::unix::fs::symlink("/etc/passwd", helper.home.path("src/link")).unwrap();
    nix::unistd::mkfifo(&helper.home.path("src/fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let run = helper.call(["ask", "-f", "src", "review"]).run();
    let line = "[aish] attached: src (2 text files, 20 bytes; left out: 1 binary, 1 beyond 1 MB or 200 files)\n";
    assert_eq!(run.stderr, line);
    run.ok();
    let files = "<file name=\"src/a.rs\">\nfn a() {}\n</file>\n<file name=\"src/sub/b.rs\">\nfn b() {}\n</file>\n";
    assert_eq!(helper.content(), format!("{files}\nreview"));
    assert!(!canary.exists(), "the repository's program did not run");
    // Without a repository, and of a part of it.
    std::fs::remove_dir_all(helper.home.path("src/.git")).unwrap();
    std::fs::remove_dir_all(helper.home.path("src/target")).unwrap();
    helper.call(["ask", "-f", "src", "review"]).run().ok();
    assert_eq!(helper.content(), format!("{files}\nreview"));
    let home = helper.home.path("");
    let call = helper
        .call(["ask", "-f"])
        .args([home.as_os_str()])
        .args(["x"]);
    assert!(call.run().fails(2).contains("too large"));
    std::fs::create_dir(helper.home.path("empty")).unwrap();
    let error = helper.call(["ask", "-f", "empty", "x"]).run().fails(2);
    assert!(error.contains("no text files"), "{error}");
}
