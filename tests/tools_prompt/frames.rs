//! Frames around calls, views of new tools, and the last answer.

use aish::protocol::tools::{CallFinished, CallStarted, NewTools, ToolInfo};

use super::*;
use crate::support::home::source_plugin;

fn begin_event(rule: Option<&str>) -> Event {
    Event::ToolCallStarted(CallStarted {
        id: "1".into(),
        name: "fs.read".into(),
        arguments: r#"{"path":"/etc/hosts"}"#.into(),
        rule: rule.map(str::to_owned),
        operation: OperationClass::Read,
        warning: None,
        prints: false,
    })
}

fn end_event(status: CallStatus, head: &str, more: usize) -> Event {
    Event::ToolCallFinished(CallFinished {
        id: "1".into(),
        name: "fs.read".into(),
        status,
        duration_ms: 230,
        bytes: 1204,
        head: head.into(),
        more,
        notes: vec!["image/png, 3 KB".into()],
    })
}

#[test]
fn a_call_has_a_frame_between_parts_of_the_answer() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    zsh.send("clear; aish-helper ask x\r");
    let mut prompt = daemon.prompt();
    prompt.text("Let me **look**");
    prompt.event(&begin_event(Some("mcp.auto_approve.\"fs.*\"")));
    prompt.event(&Event::ToolCallProgress {
        text: format!("reading \x1b[2J{}", "3 of 4 ".repeat(40)),
    });
    // Progress is on the line of the spinner, cut to the width.
    zsh.wait_for("the progress", |s| {
        s.contents()
            .lines()
            .last()
            .is_some_and(|l| l.contains("reading ‹\\x1b›[2J3 of 4 ") && l.trim_end().ends_with('…'))
    });
    prompt.event(&end_event(
        CallStatus::Success,
        "127.0.0.1\tlocalhost\n\x1b]0;x\x07",
        12,
    ));
    prompt.text("It is there.");
    prompt.reply("stop");
    zsh.prompt();
    let screen = zsh.screen();
    let wanted = "Let me look\n  ┌ r fs.read {\"path\":\"/etc/hosts\"}\n  │ allowed by mcp.auto_approve.\"fs.*\"\n  \
                  │ 127.0.0.1       localhost\n  │ \\x1b]0;x\\x07\n  │ [image/png, 3 KB]\n  \
                  │ … 12 more lines: llm :last\n  └ 230 ms · 1,204 bytes\n";
    let lines: Vec<&str> = screen.lines().map(str::trim_end).collect();
    let screen = lines.join("\n");
    assert!(screen.contains(wanted), "{screen}");
    assert!(screen.contains("\nIt is there.\n"), "{screen}");
    assert!(!screen.contains("reading"), "{screen}");
    let raw = String::from_utf8_lossy(&zsh.raw()).into_owned();
    assert!(raw.contains("\x1b[2mfs.read {"), "dim: {raw:?}");
    assert!(!raw.contains("\x1b]0;x"), "{raw:?}");
}

#[test]
fn the_status_of_a_call_is_shown() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    zsh.send("clear; aish-helper ask --raw x >out\r");
    let mut prompt = daemon.prompt();
    for status in [
        CallStatus::Denied,
        CallStatus::InvalidCall,
        CallStatus::CallFailed,
        CallStatus::Interrupted,
        CallStatus::ToolError,
    ] {
        prompt.event(&end_event(status, "", 0));
        prompt.text("so\n");
    }
    let why = "Intent mismatch: tool is call_tool_read but intent declares write";
    let mut blocked = end_event(CallStatus::Blocked, why, 0);
    if let Event::ToolCallFinished(end) = &mut blocked {
        end.notes.clear();
    }
    prompt.event(&blocked);
    prompt.reply("stop");
    zsh.prompt();
    // A file gets only the answer.
    assert_eq!(home.read("out"), "so\n".repeat(5));
    let screen = zsh.screen();
    for text in [
        "  └ denied\n",
        "  └ invalid call\n",
        "  └ failed · 230 ms · 1,204 bytes\n",
        "  └ interrupted · 230 ms",
        "  └ the tool reports an error · 230 ms",
        &format!("  └ fs.read · blocked: {why}\n"),
    ] {
        assert!(screen.contains(text), "{text}\n{screen}");
    }
}

fn new_tools(tools: usize) -> Event {
    let tool = |n: usize| ToolInfo {
        name: format!("fs.tool{n}"),
        server: "fs".into(),
        title: None,
        description: "Reads a file.\x1b[2J\n".to_owned()
            + &"All of it is read. ".repeat(10)
            + "END",
        read_only: Some(true),
        destructive: None,
        idempotent: None,
        open_world: None,
        trusted: false,
        operation: OperationClass::Write,
        schema: json!({"type": "object", "required": ["path"], "properties": {
            "path": {"type": "string"}, "lines": {"type": "integer"}}}),
    };
    Event::NewTools(NewTools {
        server: "fs".into(),
        target: "npx server-filesystem /home".into(),
        first: true,
        tools: (1..=tools).map(tool).collect(),
    })
}

#[test]
fn new_tools_are_shown_in_a_line_each_before_the_question() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    zsh.send("clear; aish-helper ask x\r");
    let mut prompt = daemon.prompt();
    prompt.text("Let me **look**");
    prompt.event(&new_tools(1));
    prompt.event(&Event::ApprovalRequested(Box::new(question("{}"))));
    zsh.wait_text(KEYS);
    let screen = zsh.screen();
    let lines: Vec<&str> = screen.lines().map(str::trim_end).collect();
    let screen = lines.join("\n");
    let wanted = "Let me look
  ┌ new server fs, 1 tool · at npx server-filesystem /home
  │ w tool1  Reads a file.‹\\x1b›[2J All of it is read. All of it is read. All of it is read. All of…
  └ descriptions and schemas: ? at the question, or llm :mcp tools fs
┌ w github.create_issue ";
    assert!(screen.contains(wanted), "{screen}");
    // The rest is behind [?]: every word of the server's tools, except for the one of the question.
    let mut of_server = question("{}");
    (of_server.tool.server, of_server.tool.name) = ("fs".into(), "fs.tool2".into());
    verdict(press(&zsh, &mut prompt, "n"));
    prompt.event(&new_tools(2));
    prompt.event(&Event::ApprovalRequested(Box::new(of_server)));
    zsh.wait_text("w fs.tool2 ");
    let seen = zsh.raw().len();
    zsh.press_until("?", "takes  ");
    zsh.wait_text("w tool1  reads, says fs; treated as a write (trust_annotations is off)");
    let raw = String::from_utf8_lossy(&zsh.raw()[seen..]).into_owned();
    assert_eq!(raw.matches("END").count(), 1, "{raw:?}");
    verdict(press(&zsh, &mut prompt, "n"));
    // More tools than the screen has lines are all printed, without a pager.
    let seen = zsh.raw().len();
    prompt.event(&new_tools(30));
    prompt.text("That was it.");
    prompt.reply("stop");
    zsh.prompt();
    let raw = String::from_utf8_lossy(&zsh.raw()[seen..]).into_owned();
    assert!(
        raw.contains("tool1\x1b") && raw.contains("tool30\x1b"),
        "{raw:?}"
    );
    assert!(!raw.contains("\x1b[2J"), "{raw:?}");
}

#[test]
fn without_a_terminal_new_tools_are_plain() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    for (flags, lines) in [("", 3), ("--json ", 0)] {
        zsh.send(format!("aish-helper ask {flags}x >out 2>err\r"));
        let mut prompt = daemon.prompt();
        prompt.event(&new_tools(1));
        prompt.reply("stop");
        zsh.prompt();
        let err = home.read("err");
        assert_eq!(err.lines().count(), lines, "{err}");
        assert!(!err.contains('\x1b'), "{err:?}");
    }
    let out = home.read("out");
    let line: serde_json::Value =
        serde_json::from_str(out.lines().next().expect("a line")).expect("JSON");
    assert_eq!(line["type"], "new_tools");
    assert_eq!(line["first"], true);
    assert_eq!(line["tools"][0]["name"], "fs.tool1");
}

#[test]
fn json_has_a_line_for_each() {
    let (home, daemon) = home();
    let mut zsh = Zsh::start(&home);
    zsh.send("aish-helper ask --json x >out 2>err\r");
    let mut prompt = daemon.prompt();
    prompt.event(&begin_event(None));
    prompt.event(&Event::ToolCallProgress { text: "1".into() });
    prompt.event(&end_event(CallStatus::Success, "x", 0));
    prompt.reply("stop");
    zsh.prompt();
    let kinds: Vec<String> = home
        .read("out")
        .lines()
        .map(|l| serde_json::from_str::<serde_json::Value>(l).expect("JSON")["type"].to_string())
        .collect();
    assert_eq!(
        kinds,
        [
            "\"tool_call_started\"",
            "\"tool_call_progress\"",
            "\"tool_call_finished\"",
            "\"answer\""
        ]
    );
    assert_eq!(home.read("err"), "");
}

#[test]
fn two_shells_never_see_each_others_question() {
    let (home, daemon) = home();
    let one = Zsh::start(&home);
    let two = Zsh::start(&home);
    let mut first = asked(
        &one,
        &daemon,
        "aish-helper ask one",
        &question("{\"shell\":\"one\"}"),
    );
    let mut second = asked(
        &two,
        &daemon,
        "aish-helper ask two",
        &question("{\"shell\":\"two\"}"),
    );
    assert_eq!(
        (first.ask.text.as_str(), second.ask.text.as_str()),
        ("one", "two")
    );
    one.wait_text("│ shell  \"one\"");
    two.wait_text("│ shell  \"two\"");
    assert_eq!(
        verdict(press(&two, &mut second, "y")).1,
        "{\"shell\":\"two\"}"
    );
    assert_eq!(first.reaction_within(Duration::from_millis(200)), None);
    assert_eq!(
        verdict(press(&one, &mut first, "n")).0,
        ApprovalVerdict::No { words: None }
    );
    assert!(!one.screen().contains("\"two\"") && !two.screen().contains("\"one\""));
    for prompt in [&mut first, &mut second] {
        prompt.reply("stop");
    }
}

#[test]
fn the_last_answer_is_shown_whole() {
    let (home, daemon) = home();
    home.zshrc(&source_plugin());
    home.program("pages", "#!/bin/sh\nprintf 'paged %s\\n' \"$(wc -l)\"\n");
    let mut zsh = Zsh::start(&home);
    let result: Vec<String> = (1..=100).map(|n| format!("line {n}\x1b[2J")).collect();
    let records = |lines: usize| {
        vec![
            json!({"type": "user", "prompt": "what?"}),
            json!({"type": "assistant", "text": "", "calls": [{"id": "1", "name": "fs.read", "arguments": "{}"}]}),
            json!({"type": "tool", "name": "fs.read", "status": "success", "text": result[..lines].join("\n"),
                "duration_ms": 230, "bytes": 1204}),
            json!({"type": "assistant", "text": "That."}),
        ]
    };
    daemon.remembers(records(2));
    let whole = "[calls fs.read {}]\n┌ fs.read · success · 230 ms · 1,204 bytes\n│ line 1\\x1b[2J\n│ line 2\\x1b[2J\n└\nThat.\n";
    assert_eq!(zsh.eval("llm :last"), whole);
    zsh.run("PAGER=pages llm :last");
    assert!(
        zsh.screen().contains("│ line 2\\x1b[2J\n"),
        "it fits: {}",
        zsh.screen()
    );
    daemon.remembers(records(100));
    zsh.run("clear; PAGER='pages -x' llm :last");
    assert!(zsh.screen().contains("paged 104\n"), "{}", zsh.screen());
    zsh.run("clear; PAGER=no-such-program llm :last 2>/dev/null");
    assert!(
        zsh.screen().contains("│ line 100\\x1b[2J\n"),
        "{}",
        zsh.screen()
    );
    let lines = zsh.eval("llm :last | cat");
    assert_eq!(lines.lines().count(), 104);
}
