//! Reading: one question for the workspace, one for each path outside of it.

use std::sync::atomic::{AtomicUsize, Ordering};

use aish::chat::CallStatus;
use aish::protocol::tools::ApprovalVerdict;
use aish::protocol::{AskRequest, Event};
use serde_json::json;

use super::{Work, answer_all};
use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;

#[test]
fn the_workspace_is_asked_about_once_and_named() {
    let work = Work::calling(
        &[
            ("read_file", json!({"path": "src/main.rs"})),
            ("list_dir", json!({"path": "."})),
            ("grep", json!({"pattern": "fn m"})),
            ("find_files", json!({"pattern": "*.rs"})),
            ("search", json!({"query": "main", "in": "files"})),
        ],
        "",
    );
    work.write("src/main.rs", "fn main() {}\n");
    let mut client = work.ask("x");
    let question = client.question();
    assert_eq!(question.tool.name, "read_file");
    let root = work.path("").display().to_string();
    let root = root.trim_end_matches('/');
    assert_eq!(question.effect.workspace.as_deref(), Some(root));
    assert!(
        question
            .offers
            .contains(&aish::safety::policy::ApprovalScope::Reads)
    );
    client.say(&question, ApprovalVerdict::Reads);
    client.end();
    let results = work.results();
    assert_eq!(results[0], "1\tfn main() {}\n");
    assert!(results[1].contains("src/"), "{results:?}");
    assert!(
        results[2].contains("src/main.rs") && results[2].contains("fn main"),
        "{results:?}"
    );
    assert!(results[3].contains("src/main.rs"), "{results:?}");
    assert!(results[4].contains("src/main.rs"), "{results:?}");
    // Each call has its approval in the journal, the later ones by the grant.
    let approvals = work.helper.records_of("approval");
    let decisions: Vec<&str> = approvals
        .iter()
        .map(|r| r["decision"].as_str().unwrap())
        .collect();
    assert_eq!(decisions, ["reads", "rule", "rule", "rule", "rule"]);
    assert!(
        approvals[1]["reason"].as_str().unwrap().contains(root),
        "{approvals:?}"
    );
}

#[test]
fn a_path_outside_is_asked_about_with_its_real_path_whatever_is_allowed() {
    let work = Work::calling(
        &[
            ("read_file", json!({"path": "link"})),
            ("read_file", json!({"path": "../outside.txt"})),
            ("read_file", json!({"path": "inside.txt"})),
        ],
        "[policy.rules]\n\"fs.read\" = \"allow\"\n\"aish.read_file\" = \"allow\"\n",
    );
    let outside = work.helper.home.path("outside.txt");
    std::fs::write(&outside, "private\n").unwrap();
    let outside = outside.canonicalize().unwrap();
    std::os::unix::fs::symlink(&outside, work.path("link")).unwrap();
    work.write("inside.txt", "public\n");
    let mut client = work.ask("x");
    let questions = answer_all(&mut client, &ApprovalVerdict::No { words: None });
    assert_eq!(questions.len(), 2, "{questions:#?}");
    for question in &questions {
        assert_eq!(question.effect.statement.as_deref(), outside.to_str());
        assert_eq!(question.effect.workspace, None);
        assert!(question.offers.is_empty(), "{question:?}");
        assert!(
            question.why.starts_with("it is outside of "),
            "{}",
            question.why
        );
    }
    let results = work.results();
    assert_eq!(results[0], "[denied by the user]");
    assert_eq!(results[2], "1\tpublic\n");
}

#[test]
fn a_detour_through_a_directory_outside_is_named() {
    let work = Work::calling(
        &[(
            "read_file",
            json!({"path": "../beside/../project/inside.txt"}),
        )],
        "[policy.rules]\n\"fs.read\" = \"allow\"\n",
    );
    work.write("inside.txt", "public\n");
    work.write("../beside/a", "");
    let mut client = work.ask("x");
    let questions = answer_all(&mut client, &ApprovalVerdict::Once);
    assert_eq!(questions.len(), 1, "{questions:#?}");
    let root = work.path("").display().to_string();
    let root = root.trim_end_matches('/');
    let beside = work.path("../beside").canonicalize().unwrap();
    let beside = beside.display();
    assert!(
        questions[0].why.starts_with(&format!(
            "its path leads through {beside}, outside of {root}"
        )),
        "{}",
        questions[0].why
    );
    assert_eq!(work.results(), ["1\tpublic\n"]);
}

#[test]
fn characters_of_patterns_in_the_names_of_files_are_only_characters() {
    let dirs = [
        "app/[slug]",
        "app/(marketing)",
        "app/[...x]",
        "app/{a}",
        "app/*",
    ];
    let mut calls = vec![("grep", json!({"pattern": "needle"}))];
    for dir in dirs {
        calls.push(("list_dir", json!({ "path": dir })));
        calls.push(("grep", json!({"pattern": "needle", "path": dir})));
        calls.push((
            "write_file",
            json!({"path": format!("{dir}/[id].txt"), "content": "new\n"}),
        ));
    }
    // What is protected stays so.
    calls.push(("read_file", json!({"path": "app/[slug]/.bashrc"})));
    for calls in calls.chunks(6) {
        let work = Work::calling(
            calls,
            "[policy.rules]\n\"fs.read\" = \"allow\"\n\"fs.write\" = \"allow\"\n",
        );
        for dir in dirs {
            work.write(&format!("{dir}/page.tsx"), "needle\n");
            work.write(&format!("{dir}/.bashrc"), "needle\n");
        }
        let mut client = work.ask("x");
        let questions = answer_all(&mut client, &ApprovalVerdict::No { words: None });
        let asked = calls
            .iter()
            .filter(|(tool, _)| *tool == "read_file")
            .count();
        assert_eq!(questions.len(), asked, "{questions:#?}");
        for ((tool, arguments), result) in calls.iter().zip(work.results()) {
            match *tool {
                "grep" => {
                    let searched = dirs.iter().filter(|dir| match arguments["path"].as_str() {
                        Some(path) => path == **dir,
                        None => true,
                    });
                    for dir in searched {
                        assert!(
                            result.contains(&format!("{dir}/page.tsx:1:needle")),
                            "{result}"
                        );
                        let (hits, left_out) = result.split_once("[not searched: ").unwrap();
                        assert!(!hits.contains(".bashrc"), "{result}");
                        assert!(left_out.contains(&format!("{dir}/.bashrc")), "{result}");
                    }
                }
                "list_dir" => assert!(result.contains("page.tsx"), "{result}"),
                "write_file" => assert!(result.starts_with("added "), "{result}"),
                _ => assert_eq!(result, "[denied by the user]"),
            }
        }
    }
}

#[test]
fn an_added_directory_belongs_to_the_workspace_of_the_session() {
    let work = Work::calling(
        &[("read_file", json!({"path": "../other/a.txt"}))],
        "[policy.rules]\n\"fs.read\" = \"allow\"\n",
    );
    let other = work.helper.home.path("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("a.txt"), "there\n").unwrap();
    let mut client = work.ask_as(AskRequest {
        can_answer: true,
        text: "x".to_owned(),
        add_dirs: vec!["../other".to_owned()],
        ..AskRequest::default()
    });
    assert!(answer_all(&mut client, &ApprovalVerdict::Stop).is_empty());
    assert_eq!(work.results(), ["1\tthere\n"]);
}

#[test]
fn a_directory_that_does_not_exist_is_not_added() {
    let work = Work::calling(&[], "");
    let ask = |dirs: &[&str]| {
        let cwd = work.path("");
        let mut args = vec!["ask", "--shell", "s1"];
        args.extend(dirs.iter().flat_map(|dir| ["--add-dir", *dir]));
        args.extend(["--", "x"]);
        work.helper.call(args).dir(cwd).run()
    };
    let failed = ask(&["../nonexist"]);
    assert_eq!(failed.code, 2, "{}", failed.stderr);
    assert!(failed.stderr.contains("--add-dir: "), "{}", failed.stderr);
    assert!(
        failed.stderr.contains("give an existing directory"),
        "{}",
        failed.stderr
    );
    // Later prompts of the session still have the tools.
    assert_eq!(ask(&[]).code, 0);
    let sent = &work.helper.provider.requests()[0].json;
    assert!(sent["tools"].to_string().contains("read_file"), "{sent}");
}

#[test]
fn a_failed_read_says_why() {
    let work = Work::calling(
        &[("read_file", json!({"path": "x.pdf"}))],
        "[policy.rules]\n\"fs.read\" = \"allow\"\n",
    );
    work.write("x.pdf", "%PDF-1.4\n");
    let seen = work.ask("x").end();
    let ends = seen.events(|event| match event {
        Event::ToolCallFinished(end) => Some((end.status, end.head.clone())),
        _ => None,
    });
    assert_eq!(ends[0].0, CallStatus::ToolError);
    assert!(ends[0].1.contains("is a PDF document"), "{ends:?}");
}

#[test]
fn rules_and_selections_decide_what_is_offered_and_allowed() {
    let work = Work::calling(
        &[
            ("read_file", json!({"path": "a"})),
            ("grep", json!({"pattern": "x"})),
        ],
        "[policy.rules]\n\"aish.read_file\" = \"deny\"\n\"fs.read\" = \"allow\"\n",
    );
    work.write("a", "x\n");
    let mut client = work.ask_as(AskRequest {
        can_answer: true,
        text: "x".to_owned(),
        tools: Some("fs,git".to_owned()),
        ..AskRequest::default()
    });
    assert!(answer_all(&mut client, &ApprovalVerdict::Stop).is_empty());
    let offered = work.offered(0);
    assert!(offered.contains(&"edit_file".to_owned()) && offered.contains(&"git".to_owned()));
    assert!(!offered.contains(&"shell".to_owned()), "{offered:?}");
    assert!(!offered.contains(&"fetch_url".to_owned()), "{offered:?}");
    let results = work.results();
    assert!(results[0].contains("denied by the user's rule policy.rules.\"aish.read_file\""));
    assert!(results[1].contains("a:1"), "{results:?}");
}

#[test]
fn aish_own_files_and_start_up_files_are_asked_about_whatever_is_allowed() {
    let work = Work::calling(
        &[
            ("read_file", json!({"path": "../aish/config/config.toml"})),
            (
                "write_file",
                json!({"path": ".git/hooks/pre-commit", "content": "#!/bin/sh\n"}),
            ),
            (
                "write_file",
                json!({"path": ".mcp.json", "content": "{}\n"}),
            ),
            (
                "write_file",
                json!({"path": ".vscode/tasks.json", "content": "{}\n"}),
            ),
            ("write_file", json!({"path": ".aish.toml", "content": "\n"})),
            (
                "write_file",
                json!({"path": "fine.txt", "content": "fine\n"}),
            ),
        ],
        "[policy.rules]\n\"fs.read\" = \"allow\"\n\"fs.write\" = \"allow\"\n",
    );
    let mut client = work.ask("x");
    let questions = answer_all(&mut client, &ApprovalVerdict::No { words: None });
    assert_eq!(questions.len(), 5, "{questions:#?}");
    assert_eq!(work.read("fine.txt"), "fine\n");
    assert!(!work.path(".mcp.json").exists() && !work.path(".git/hooks").exists());
}

#[test]
fn a_search_leaves_out_what_each_read_is_asked_about() {
    let search = json!({"pattern": "policy|needle", "path": "."});
    let config = json!({"pattern": "policy", "path": "aish"});
    let work = Work::calling(
        &[("grep", search), ("grep", config)],
        "[policy.rules]\n\"fs.read\" = \"allow\"\n",
    );
    let home = work.helper.home.path("");
    std::fs::write(home.join("notes.txt"), "a needle\n").unwrap();
    std::fs::write(home.join(".bashrc"), "# needle in a start-up file\n").unwrap();
    std::fs::hard_link(home.join(".bashrc"), home.join("other")).unwrap();
    let mut client = work.ask_as(AskRequest {
        can_answer: true,
        text: "x".to_owned(),
        cwd: home.display().to_string(),
        ..AskRequest::default()
    });
    // The directory itself is searched after a yes.
    let questions = answer_all(&mut client, &ApprovalVerdict::Once);
    assert_eq!(questions.len(), 1, "{questions:#?}");
    let results = work.results();
    assert!(results[0].contains("notes.txt:1:a needle"), "{results:?}");
    assert!(!results[0].contains("fs.read"), "{results:?}");
    assert!(!results[0].contains("start-up file"), "{results:?}");
    let (_, remark) = results[0].split_once("[not searched: ").unwrap();
    for name in [".bashrc", "aish", "other"] {
        assert!(remark.contains(name), "{name}: {remark}");
    }
    assert!(results[1].contains("[policy.rules]"), "{results:?}");
}

#[test]
fn many_hits_are_paged() {
    let count = AtomicUsize::new(0);
    let provider =
        Provider::answering(move |request| match count.fetch_add(1, Ordering::Relaxed) {
            0 => Script::calls("", &[("c0", "grep", "{\"pattern\": \"needle\"}")]),
            1 => {
                let text = request.json.to_string();
                let told = text.split("read_result with key ").nth(1);
                let words: Vec<&str> = told.expect("how to go on").split(' ').collect();
                let [key, "and", "offset", offset, ..] = words[..] else {
                    panic!("{words:?}");
                };
                let offset: u64 = offset.parse().expect("a number");
                let arguments = json!({"key": key, "offset": offset}).to_string();
                Script::calls("", &[("c1", "read_result", &arguments)])
            }
            _ => Script::tokens(["done"]),
        });
    let work = Work::with(
        Helper::with(provider),
        "[policy.rules]\n\"fs.read\" = \"allow\"\n",
    );
    let lines: Vec<String> = (0..6000)
        .map(|n| format!("needle number {n} of many"))
        .collect();
    work.write("a.txt", &lines.join("\n"));
    let mut client = work.ask("x");
    assert!(answer_all(&mut client, &ApprovalVerdict::Once).is_empty());
    let results = work.results();
    let first = results[0].matches("of many").count();
    assert!((1..lines.len()).contains(&first), "{first}");
    let next = format!("needle number {first} of many");
    assert!(
        !results[0].contains(&next) && results[1].contains(&next),
        "{results:?}"
    );
}

#[test]
fn what_cannot_be_read_is_said_in_one_line() {
    let work = Work::calling(
        &[
            ("read_file", json!({"path": "fifo"})),
            ("read_file", json!({"path": "maine.rs"})),
            ("read_file", json!({"path": "."})),
            ("read_file", json!({"path": "binary"})),
            ("read_file", json!({})),
            ("read_file", json!({"path": "loop/x"})),
            ("read_file", json!({"path": "main.rs", "offset": 0})),
        ],
        "[policy.rules]\n\"fs.read\" = \"allow\"\n",
    );
    nix::unistd::mkfifo(&work.path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    work.write("main.rs", "fn main() {}\n");
    std::fs::write(work.path("binary"), [0u8, 1, 2, 3, 0, 5]).unwrap();
    std::os::unix::fs::symlink("loop", work.path("loop")).unwrap();
    let mut client = work.ask("x");
    assert!(answer_all(&mut client, &ApprovalVerdict::Stop).is_empty());
    let results = work.results();
    let expected = [
        "FIFO",
        "main.rs",
        "list_dir",
        "binary",
        "missing field `path`",
        "symbolic links",
        "offset must be at least 1, not 0",
    ];
    for (result, expected) in results.iter().zip(expected) {
        assert!(result.contains(expected), "{expected} in {result:?}");
        assert_eq!(result.trim_end().lines().count(), 1, "{result}");
    }
}

#[test]
fn an_unknown_tool_is_answered_with_the_nearest_name() {
    let work = Work::calling(
        &[
            ("readfile", json!({"path": "a"})),
            ("aish.read_file", json!({"path": "a", "offset": "1"})),
            ("quite_different", json!({})),
        ],
        "[policy.rules]\n\"fs.read\" = \"allow\"\n",
    );
    work.write("a", "text\n");
    let mut client = work.ask("x");
    assert!(answer_all(&mut client, &ApprovalVerdict::Stop).is_empty());
    assert_eq!(
        work.results(),
        [
            "[not called: there is no tool named readfile; did you mean read_file?]",
            "1\ttext\n",
            "[not called: there is no tool named quite_different]",
        ]
    );
}

#[test]
fn an_image_that_the_model_does_not_take_is_told_to_both() {
    for (images, is_sent) in [("", false), ("images = true\n", true)] {
        let script = [
            Script::calls("", &[("c0", "read_file", "{\"path\": \"a.png\"}")]),
            Script::tokens(["done"]),
        ];
        let more = "[policy.rules]\n\"fs.read\" = \"allow\"\n";
        let work = Work::new(script, more);
        let more = format!("{images}[tools]\nbuiltin = true\n{more}");
        work.helper.config(&more);
        let png =
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";
        std::fs::write(work.path("a.png"), png).unwrap();
        let seen = work.ask("x").end();
        let notes = seen.events(|event| match event {
            Event::ToolCallFinished(end) => Some(end.notes.join("; ")),
            _ => None,
        });
        let note = "image not sent: this model is not configured for images";
        assert_eq!(notes[0].contains(note), !is_sent, "{notes:?}");
        assert_eq!(work.results()[0].contains(note), !is_sent, "{notes:?}");
        let sent = work.helper.provider.requests()[1].json.to_string();
        assert_eq!(sent.contains("data:image/png;base64,"), is_sent, "{sent}");
    }
}
