//! The record, asked: `aish-helper activity` over what a real daemon has written.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::fakes::provider::{Provider, Script};
use crate::record::links::call_and_command;
use crate::support::helper::{Helper, ProgramResult, records};
use crate::support::pty::Zsh;
use crate::tools::Tools;

fn activity(helper: &Helper, args: &[&str]) -> ProgramResult {
    helper.call(["activity"].iter().chain(args)).run()
}

fn list(helper: &Helper, args: &[&str]) -> Vec<Value> {
    let args = [&["list", "--json", "--limit", "1000"], args].concat();
    let list = activity(helper, &args).json();
    list.as_array().expect("a list").clone()
}

fn ids(entries: &[Value]) -> Vec<&str> {
    entries
        .iter()
        .map(|e| e["id"].as_str().expect("an id"))
        .collect()
}

fn jsonl(text: &str) -> Vec<Value> {
    text.lines()
        .map(|l| serde_json::from_str(l).expect("JSON"))
        .collect()
}

/// Two prompts, of which the first calls two tools: one is allowed by a rule, one has nobody to ask.
fn called() -> Tools {
    let answers = [
        Script::calls("", &[("c1", "fs.read", r#"{"path":"/a"}"#)]),
        Script::calls("", &[("c2", "fs.write", r#"{"path":"/b"}"#)]),
        Script::tokens(["done"]),
        Script::tokens(["second answer"]),
    ];
    let tools = Tools::new(answers, "[mcp.auto_approve]\n\"fs.read\" = true\n");
    let words = ["ask", "--shell", "s1", "--", "call both"];
    assert_eq!(tools.helper.call(words).run().code, 4);
    tools.helper.ask("and then");
    tools
}

#[test]
fn what_was_done_is_listed_filtered_and_counted() {
    let tools = called();
    let helper = &tools.helper;
    let all = list(helper, &[]);
    // Each record of the journal is one act, newest first.
    let mut journal: Vec<String> = std::fs::read_dir(helper.path("data/journal"))
        .unwrap()
        .flat_map(|e| records(&e.unwrap().path()))
        .map(|r| r["id"].as_str().unwrap().to_owned())
        .collect();
    journal.sort();
    journal.reverse();
    assert_eq!(ids(&all), journal);
    for option in ["--type", "--status", "--intent-type", "--server", "--tool"] {
        let field = match option {
            "--intent-type" => "operation",
            other => other.trim_start_matches("--"),
        };
        let values: std::collections::BTreeSet<&str> =
            all.iter().filter_map(|e| e[field].as_str()).collect();
        assert!(!values.is_empty(), "{option}");
        for value in values {
            let wanted: Vec<&Value> = all.iter().filter(|e| e[field] == value).collect();
            let found = list(helper, &[option, value]);
            assert_eq!(found.iter().collect::<Vec<_>>(), wanted, "{option} {value}");
            let stats = activity(helper, &["stats", "--json", option, value]).json();
            assert_eq!(stats["all"]["count"], wanted.len());
        }
    }
    let calls = list(helper, &["--type", "tool"]);
    let ended: Vec<_> = calls
        .iter()
        .map(|e| (&e["tool"], &e["status"], &e["decided_by"]))
        .collect();
    assert_eq!(
        ended[1],
        (&json!("read"), &json!("success"), &json!("rule"))
    );
    assert_eq!(
        (ended[0].0, ended[0].1),
        (&json!("write"), &json!("blocked"))
    );
    assert_eq!(
        list(helper, &["--tool", "fs.read,fs:write", "--type", "tool"]),
        calls
    );
    let session = all[0]["session"].as_str().unwrap();
    let part = &session[session.len() - 8..];
    assert!(list(helper, &["--session", part]).len() >= 10);
    assert_eq!(list(helper, &["--since", "1h"]).len(), all.len());
    assert_eq!(list(helper, &["--until", "1h"]), [] as [Value; 0]);
    let middle = all[3]["time"].as_str().unwrap();
    let (before, after) = (
        list(helper, &["--until", middle]),
        list(helper, &["--since", middle]),
    );
    assert_eq!(before.len() + after.len(), all.len());
    assert!(after.contains(&all[3]) && !before.contains(&all[3]));

    let text = activity(helper, &["list", "--limit", "3"]).ok();
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("older actions are not shown"),
        "{text}"
    );
    assert!(lines[1].starts_with("time") && lines.len() >= 5, "{text}");
    // The newest is the last row.
    let newest = all[0]["id"].as_str().unwrap();
    assert!(
        lines[lines.len() - 1].contains(&newest[newest.len() - 8..]),
        "{text}"
    );
    let text = activity(helper, &["stats"]).ok();
    let row = text.lines().find(|l| l.starts_with("fs.read"));
    let cells: Vec<&str> = row.expect("the tool").split_whitespace().collect();
    assert_eq!(cells[..4], ["fs.read", "1", "0.0", "%"], "{text}");
}

#[test]
fn a_value_that_is_none_is_a_mistake_that_names_those_there_are() {
    let tools = called();
    for (args, said) in [
        (
            ["--status", "eror"],
            &["success, error, denied, blocked, interrupted", "'error'"][..],
        ),
        (["--intent-type", "delete"], &["read, write, destructive"]),
        (
            ["--type", "tol"],
            &["prompt, answer, approval, tool", "'tool'"],
        ),
        (["--server", "gs"], &["'gs'", "recorded are: fs"]),
        (
            ["--tool", "fs.raed"],
            &["did you mean fs.read?", "fs.read, fs.write"],
        ),
        (["--session", "zzz"], &["no session has 'zzz' in its id"]),
        (["--since", "yesterday"], &["2026-11-01", "7d"]),
        (["--until", "2026-99-01"], &["is not a date or time span"]),
        (["--limit", "0"], &["0 is not in 1.."]),
    ] {
        let args = [&["list"], &args[..]].concat();
        let error = activity(&tools.helper, &args).fails(2);
        for part in said {
            assert!(error.contains(part), "{args:?}: {error}");
        }
    }
    activity(&tools.helper, &["show", "zzz"]).fails(2);
    let error = activity(&tools.helper, &["export", "--format", "xml"]).fails(2);
    assert!(error.contains("jsonl, csv"), "{error}");
}

#[test]
fn an_act_is_shown_with_its_chain() {
    let tools = called();
    let helper = &tools.helper;
    let call = &list(helper, &["--tool", "read", "--type", "tool"])[0];
    let id = call["id"].as_str().unwrap();
    // Its end is enough.
    let shown = activity(helper, &["show", &id[id.len() - 12..], "--json"]).json();
    assert_eq!(shown["act"]["id"], id);
    let record = helper.records_of("tool").remove(0);
    assert_eq!(shown["act"]["record"], record);
    let chain: Vec<&str> = shown["chain"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["type"].as_str().unwrap())
        .filter(|t| *t != "session" && *t != "server")
        .collect();
    assert_eq!(chain[..3], ["prompt", "answer", "approval"]);
    assert_eq!(chain.last(), Some(&"answer"));
    assert_eq!(chain.iter().filter(|t| **t == "tool").count(), 2);
    assert_eq!(chain.iter().filter(|t| **t == "prompt").count(), 1);
    let text = activity(helper, &["show", id]).ok();
    assert!(
        text.contains("▶ ") && text.contains("mcp.auto_approve"),
        "{text}"
    );
    assert!(text.contains("\"path\": \"/a\""), "{text}");
}

#[test]
fn the_index_may_be_deleted_and_follows_the_journal() {
    let tools = called();
    let helper = &tools.helper;
    let before = list(helper, &[]);
    let index = helper.path("state/activity.sqlite");
    assert_eq!(
        std::fs::metadata(&index).unwrap().permissions().mode() & 0o777,
        0o600
    );
    std::fs::remove_file(&index).unwrap();
    assert_eq!(list(helper, &[]), before);
    std::fs::write(
        &index,
        "no database, but long enough to be taken for one".repeat(50),
    )
    .unwrap();
    let run = activity(helper, &["list"]);
    assert!(run.stderr.contains("is damaged; rebuilding it"), "{run:?}");
    assert_eq!(list(helper, &[]), before);
    // A torn line waits until it is whole, or cut off.
    let file = helper.sessions().remove(0);
    let mut torn = std::fs::OpenOptions::new()
        .append(true)
        .open(&file)
        .unwrap();
    torn.write_all(b"{\"v\":1,\"id\":\"").unwrap();
    assert_eq!(list(helper, &[]), before);
    helper.call(["stop"]).run().ok();
    std::fs::remove_file(&file).unwrap();
    let left = list(helper, &[]);
    assert!(left.iter().all(|e| e["type"] != "prompt"), "{left:?}");
    std::fs::remove_dir_all(helper.path("data/journal")).unwrap();
    assert_eq!(list(helper, &[]), [] as [Value; 0]);
    let text = activity(helper, &["list"]).ok();
    assert_eq!(text, "no recorded action matches\n");
    assert_eq!(activity(helper, &["export"]).ok(), "");
}

#[test]
fn an_export_has_every_record_as_it_is() {
    let tools = called();
    let helper = &tools.helper;
    let mut all = list(helper, &[]);
    all.reverse();
    let lines = jsonl(&activity(helper, &["export"]).ok());
    assert_eq!(ids(&lines), ids(&all));
    let journal = helper.records();
    for line in &lines {
        let id = &line["id"];
        let kept = journal.iter().find(|r| r["id"] == *id);
        assert!(kept.is_none_or(|r| *r == line["record"]), "{line}");
    }
    assert!(
        lines
            .iter()
            .filter(|l| journal.contains(&l["record"]))
            .count()
            >= 10
    );
    let newest = jsonl(&activity(helper, &["export", "--limit", "2", "--format", "jsonl"]).ok());
    assert_eq!(newest, lines[lines.len() - 2..]);

    let csv = activity(helper, &["export", "--format", "csv", "--type", "tool"]).ok();
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let head = reader.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(|r| r.unwrap()).collect();
    assert_eq!(rows.len(), 2);
    let cell = |row: usize, name: &str| {
        let at = head.iter().position(|h| h == name).expect("the column");
        rows[row][at].to_owned()
    };
    let tool = helper.records_of("tool").remove(0);
    assert_eq!(cell(0, "arguments"), r#"{"path":"/a"}"#);
    assert_eq!(
        cell(0, "result_sha256"),
        tool["result_sha256"].as_str().unwrap()
    );
    assert_eq!(cell(0, "prompt"), tool["ids"]["prompt"].as_str().unwrap());
    assert_eq!(
        cell(0, "operation"),
        tool["action"]["operation"].as_str().unwrap()
    );
    assert_eq!(
        (cell(0, "status"), cell(0, "decided_by")),
        ("success".into(), "rule".into())
    );
}

/// Whatever a model, a person or a server says: no terminal obeys it, and no spreadsheet.
#[test]
fn hostile_texts_stay_texts() {
    let hostile = "=HYPERLINK(\"http://x\")\u{1b}]0;owned\u{7}\u{202e}\n+1";
    let helper = Helper::with(Provider::answering(move |_| Script::tokens([hostile])));
    helper.ask("@SUM(1)\u{1b}[2J");
    let zsh = Zsh::start(&helper.home);
    for args in [
        &["list"][..],
        &["export"],
        &["export", "--format", "csv"],
        &["list", "--json"],
    ] {
        let text = activity(&helper, args).ok();
        let bad = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
        assert!(
            !text.contains(bad) && !text.contains('\u{202e}'),
            "{args:?} {text:?}"
        );
    }
    drop(zsh);
    let answer = list(&helper, &["--type", "answer"]).remove(0);
    let text = activity(&helper, &["show", answer["id"].as_str().unwrap()]).ok();
    assert!(
        !text.contains('\u{1b}') && text.contains("HYPERLINK"),
        "{text:?}"
    );
    let csv = activity(&helper, &["export", "--format", "csv"]).ok();
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let texts: Vec<String> = reader
        .records()
        .flat_map(|r| r.unwrap().iter().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert!(
        texts.iter().any(|t| t.starts_with("'=HYPERLINK")),
        "{texts:?}"
    );
    assert!(texts.iter().any(|t| t.starts_with("'@SUM")), "{texts:?}");
    assert!(
        !texts
            .iter()
            .any(|t| t.starts_with(['=', '+', '-', '@', '\t']))
    );
}

#[test]
fn many_ask_at_once() {
    let tools = called();
    let helper = &tools.helper;
    let asked: Vec<_> = (0..6)
        .map(|_| helper.call(["activity", "list", "--json"]).start())
        .collect();
    let answers: Vec<Value> = asked.into_iter().map(|r| r.finish().json()).collect();
    assert!(answers.iter().all(|a| *a == answers[0]));
    assert!(!answers[0].as_array().unwrap().is_empty());
}

#[test]
fn journals_of_before_are_in_the_record_too() {
    let helper = Helper::saying("ok");
    let session = "01930000-0000-7000-8000-000000000001";
    let at = |n: u64| format!("01930000-00{n:02x}-7000-8000-000000000000");
    let record = |n: u64, more: Value| {
        let mut record = json!({"v": 1, "id": at(n), "at_ms": 0x0193_0000_0000_u64 + n});
        let fields = more.as_object().unwrap();
        record.as_object_mut().unwrap().extend(fields.clone());
        format!("{record}\n")
    };
    let lines = [
        record(
            1,
            json!({"type": "session", "session": session, "shell": "s"}),
        ),
        record(
            2,
            json!({"type": "user", "text": "old", "content": "old", "shell": "s", "cwd": "/"}),
        ),
        record(
            3,
            json!({"type": "assistant", "text": "CMD: ls", "model": "m", "finish": "stop", "ms": 7}),
        ),
        record(
            4,
            json!({"type": "approval", "call": "c", "name": "fs.read", "decision": "server", "arguments": "{}"}),
        ),
        record(
            5,
            json!({"type": "tool", "call": "c", "name": "fs.read", "status": "success", "text": "x", "bytes": 1, "ms": 2}),
        ),
        record(
            6,
            json!({"type": "decision", "token": "t", "choice": "run", "proposed": "ls", "command": "ls"}),
        ),
        record(
            7,
            json!({"type": "exec", "token": "t", "command": "ls", "exit": 2, "output": null}),
        ),
    ];
    std::fs::create_dir_all(helper.path("data/journal")).unwrap();
    let file = helper.path("data/journal").join(format!("{session}.jsonl"));
    std::fs::write(file, lines.concat()).unwrap();
    assert_eq!(list(&helper, &["--status", "error"])[0]["what"], "ls");
    assert_eq!(list(&helper, &["--server", "fs"]).len(), 2);
    let shown = activity(&helper, &["show", &at(5), "--json"]).json();
    assert_eq!(shown["chain"].as_array().unwrap().len(), 6);
    let text = activity(&helper, &["show", &at(5)]).ok();
    assert!(text.contains("fs.read"), "{text}");
}

#[test]
fn a_table_fits_the_terminal() {
    let helper = Helper::saying(
        "a long answer that is longer than any terminal is wide, and goes on and on for a while",
    );
    helper.ask("a question that is just as long as the answer to it will be, and no shorter than that either");
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("stty cols 80; clear; NO_COLOR=1 aish-helper activity list");
    let screen = zsh.screen();
    let lines: Vec<&str> = screen.lines().filter(|l| l.contains("success")).collect();
    assert!(lines.len() >= 2, "{screen}");
    assert!(
        lines.iter().all(|l| l.trim_end().chars().count() <= 80),
        "{screen}"
    );
    assert!(
        lines.iter().any(|l| l.trim_end().ends_with('…')),
        "{screen}"
    );
}

#[test]
fn a_table_on_a_narrow_terminal_keeps_the_description() {
    let helper = Helper::saying("a long answer that does not fit into a narrow terminal");
    helper.ask("a question that does not fit into a narrow terminal either");
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("stty cols 60; clear; NO_COLOR=1 aish-helper activity list");
    let screen = zsh.screen();
    let lines: Vec<&str> = screen.lines().filter(|l| l.contains("success")).collect();
    assert!(lines.iter().any(|line| line.contains('…')), "{screen}");
    for line in lines.iter().filter(|line| line.contains('…')) {
        let (_, what) = line.split_once("success").expect("a status");
        assert!(what.trim().chars().count() >= 24, "{line}\n{screen}");
        assert!(line.trim_end().chars().count() <= 60, "{line}\n{screen}");
    }
    // The id is what `activity show` takes.
    assert!(screen.contains("  id"), "{screen}");
}

/// From the command that was typed to the command that ran.
#[test]
fn the_chain_of_a_call_begins_with_the_command_that_was_typed() {
    let (tools, _) = call_and_command();
    let helper = &tools.helper;
    let types = |chain: &[Value]| -> Vec<String> {
        let types = chain.iter().map(|e| e["type"].as_str().expect("a type"));
        types
            .filter(|t| *t != "session")
            .map(str::to_owned)
            .collect()
    };
    let wanted = [
        "shell_command",
        "prompt",
        "answer",
        "approval",
        "tool",
        "answer",
        "command_approval",
        "command_result",
    ];
    // Whichever act of it is asked about.
    for kind in ["tool", "command_result", "shell_command", "prompt"] {
        let acts = list(helper, &["--type", kind]);
        let act = acts.iter().find(|a| {
            kind != "shell_command"
                || a["what"]
                    .as_str()
                    .is_some_and(|w| w.contains("llm write it"))
        });
        let id = act.expect("the act")["id"]
            .as_str()
            .expect("an id")
            .to_owned();
        let shown = activity(helper, &["show", &id, "--json"]).json();
        let chain = shown["chain"].as_array().expect("a chain");
        assert_eq!(types(chain), wanted, "{kind}");
        let text = activity(helper, &["show", &id]).ok();
        assert!(text.contains("print made-$((6*7))"), "{text}");
    }
    let tool = &list(helper, &["--type", "tool"])[0];
    assert_eq!(
        (&tool["decided_by"], &tool["status"]),
        (&json!("person"), &json!("success"))
    );
}

/// A session with this many records, in a separate file; returns its id.
fn made(helper: &Helper, number: usize, records: usize) -> String {
    let session = format!("01930000-0000-7000-8000-{number:012x}");
    let text: String = (0..records)
        .map(|n| {
            let record = json!({
                "v": 1, "id": format!("01930000-0001-7{:03x}-8000-{n:012x}", number % 4096),
                "at_ms": 0x0193_0000_0001_u64, "type": "user", "text": format!("words {n}"),
                "content": "", "shell": "s", "cwd": "/",
            });
            format!("{record}\n")
        })
        .collect();
    let dir = helper.path("data/journal");
    std::fs::create_dir_all(&dir).expect("the journal");
    std::fs::write(dir.join(format!("{session}.jsonl")), text).expect("a session");
    session
}

#[test]
fn a_bar_shows_how_far_it_is_and_ctrl_c_leaves_what_can_be_used() {
    let helper = Helper::saying("ok");
    // A shell whose hooks would report its own commands.
    helper.home.zshrc("");
    for number in 0..400 {
        made(&helper, number, 200);
    }
    let mut zsh = Zsh::start(&helper.home);
    zsh.send("aish-helper activity stats\r");
    zsh.wait_text("reading the journal");
    zsh.send("\x03");
    zsh.prompt();
    let screen = zsh.screen();
    assert!(
        !screen.contains("80,000 actions"),
        "it was too fast: {screen}"
    );
    // What was begun is gone on with, and shown on a terminal alone.
    let run = activity(&helper, &["stats", "--json"]);
    assert_eq!(run.stderr, "");
    assert_eq!(run.json()["all"]["count"], 80_000);
    std::fs::remove_file(helper.path("state/activity.sqlite")).unwrap();
    zsh.run("clear; aish-helper activity stats");
    let screen = zsh.screen();
    assert!(
        screen.contains("80,000 actions: 80,000 success"),
        "{screen}"
    );
    assert!(!screen.contains("reading the journal"), "{screen}");
    assert!(String::from_utf8_lossy(&zsh.raw()).contains('━'));
    zsh.exit();
}

#[test]
fn what_is_dropped_from_the_journal_is_no_act_any_more() {
    let helper = Helper::saying("ok");
    let (first, second) = (made(&helper, 1, 30), made(&helper, 2, 5));
    let shells = helper.path("data/journal/shells.jsonl");
    let command = |n: u64| {
        json!({
            "v": 1, "id": format!("01930000-0002-7000-8000-{n:012x}"), "at_ms": 0x0193_0000_0002_u64,
            "type": "command", "shell": "s", "command": format!("true {n}"), "cwd": "/", "tty": "",
            "start_ms": n, "duration_ms": 1, "exit": 0, "session": null,
        })
    };
    let lines = |from: u64| -> String { (from..20).map(|n| format!("{}\n", command(n))).collect() };
    std::fs::write(&shells, lines(0)).unwrap();
    assert_eq!(list(&helper, &[]).len(), 55);
    // As retention does: a shorter file takes the place of the old one, and conversations go whole.
    let new = helper.path("data/journal/new");
    std::fs::write(&new, lines(12)).unwrap();
    std::fs::rename(&new, &shells).unwrap();
    std::fs::remove_file(helper.path("data/journal").join(format!("{first}.jsonl"))).unwrap();
    let left = list(&helper, &[]);
    assert_eq!(left.len(), 13);
    assert_eq!(left[0]["what"], "true 19");
    activity(&helper, &["list", "--session", &first]).fails(2);
    assert_eq!(list(&helper, &["--session", &second]).len(), 5);
    // And grows again past its old length before anybody asks.
    let mut all = lines(12);
    for n in 20..90 {
        all.push_str(&format!("{}\n", command(n)));
    }
    std::fs::write(&new, all).unwrap();
    std::fs::rename(&new, &shells).unwrap();
    assert_eq!(list(&helper, &["--type", "shell_command"]).len(), 78);
}

#[test]
fn a_secret_of_before_is_neither_shown_nor_exported() {
    const TOKEN: &str = concat!("ghp_", "q7Rk2ZpL9vXw3TbN5mHs8YdJ4cFg6aQe1uVo");
    let helper = Helper::saying("ok");
    let session = "01930000-0000-7000-8000-000000000001";
    let id = "01930000-0001-7000-8000-000000000000";
    // The list shows no more than the beginning, in whose last column the secret begins.
    let text = format!("{} {TOKEN} behind", "x".repeat(150));
    let record = json!({
        "v": 1, "id": id, "at_ms": 0x0193_0000_0001_u64, "type": "user", "text": text,
        "content": text, "shell": "s", "cwd": "/",
    });
    std::fs::create_dir_all(helper.path("data/journal")).unwrap();
    let file = helper.path("data/journal").join(format!("{session}.jsonl"));
    std::fs::write(file, format!("{record}\n")).unwrap();
    for args in [
        &["list"][..],
        &["list", "--json"],
        &["show", id],
        &["show", id, "--json"],
        &["export"],
        &["export", "--format", "csv"],
    ] {
        let text = activity(&helper, args).ok();
        assert!(!text.contains(&TOKEN[..8]), "{args:?}: {text}");
        assert!(
            text.contains("[REDACTED") || args[0] == "list",
            "{args:?}: {text}"
        );
    }
    let index = std::fs::read(helper.path("state/activity.sqlite")).unwrap();
    let secret = TOKEN.as_bytes();
    assert!(
        !index.windows(8).any(|w| *w == secret[..8]),
        "not in the index either"
    );
}
