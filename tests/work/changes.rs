//! Changing files: exactly the difference that is shown is written, and it can be undone.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use aish::protocol::tools::ApprovalVerdict;
use serde_json::json;

use super::{Work, answer_all, difference};
use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;
use crate::support::pty::Zsh;

const READS: &str = "[policy.rules]\n\"fs.read\" = \"allow\"\n";

#[test]
fn the_difference_is_shown_and_is_what_is_written() {
    let work = Work::calling(
        &[(
            "edit_file",
            json!({"path": "a.txt", "old_text": "two", "new_text": "2"}),
        )],
        READS,
    );
    work.write("a.txt", "one\ntwo\nthree\n");
    let mut client = work.ask("x");
    let question = client.question();
    assert_eq!(
        difference(&question),
        ["@a.txt  +1 -1", " one", "-two", "+2", " three"]
    );
    assert_eq!(
        work.read("a.txt"),
        "one\ntwo\nthree\n",
        "not before the answer"
    );
    client.say(&question, ApprovalVerdict::Once);
    client.end();
    assert_eq!(work.read("a.txt"), "one\n2\nthree\n");
    assert!(
        work.results()[0].starts_with("changed "),
        "{:?}",
        work.results()
    );
}

#[test]
fn a_file_that_changes_while_the_question_is_open_is_not_written() {
    let work = Work::calling(
        &[(
            "edit_file",
            json!({"path": "a.txt", "old_text": "two", "new_text": "2"}),
        )],
        READS,
    );
    work.write("a.txt", "one\ntwo\n");
    let mut client = work.ask("x");
    let question = client.question();
    work.write("a.txt", "one\ntwo\nmore\n");
    client.say(&question, ApprovalVerdict::Once);
    client.end();
    assert_eq!(work.read("a.txt"), "one\ntwo\nmore\n");
    assert!(
        work.results()[0].contains("changed"),
        "{:?}",
        work.results()
    );
}

#[test]
fn what_was_read_must_still_be_there() {
    let script = [
        ("read_file", json!({"path": "a.txt"})),
        (
            "edit_file",
            json!({"path": "a.txt", "old_text": "two", "new_text": "2"}),
        ),
        ("write_file", json!({"path": "a.txt", "content": "all\n"})),
    ];
    // The user changes the file before the model makes its second call.
    let path: Arc<OnceLock<PathBuf>> = Arc::default();
    let changed = Arc::clone(&path);
    let count = AtomicUsize::new(0);
    let provider = Provider::answering(move |_| {
        let n = count.fetch_add(1, Ordering::Relaxed);
        if n == 1 {
            std::fs::write(changed.get().unwrap(), "one\ntwo\nchanged by the user\n").unwrap();
        }
        match script.get(n) {
            Some((tool, arguments)) => {
                Script::calls("", &[(&format!("c{n}"), tool, &arguments.to_string())])
            }
            None => Script::tokens(["done"]),
        }
    });
    let work = Work::with(Helper::with(provider), "");
    work.write("a.txt", "one\ntwo\n");
    path.set(work.path("a.txt")).unwrap();
    let mut client = work.ask("x");
    assert_eq!(answer_all(&mut client, &ApprovalVerdict::Once).len(), 1);
    let results = work.results();
    for result in &results[1..] {
        assert!(
            result.contains("has changed since you read it"),
            "{results:?}"
        );
    }
    assert_eq!(work.read("a.txt"), "one\ntwo\nchanged by the user\n");
}

#[test]
fn an_edit_of_the_arguments_is_asked_about_anew() {
    let work = Work::calling(
        &[("write_file", json!({"path": "a.txt", "content": "first\n"}))],
        READS,
    );
    let mut client = work.ask("x");
    let question = client.question();
    let edited = "{\"path\":\"a.txt\",\"content\":\"second\\n\"}";
    client.say_of(&question, ApprovalVerdict::Once, edited);
    let again = client.question();
    assert_eq!(difference(&again), ["@new file a.txt  +1 -0", "+second"]);
    assert_eq!(again.arguments, edited);
    assert!(!work.path("a.txt").exists());
    client.say(&again, ApprovalVerdict::Once);
    client.end();
    assert_eq!(work.read("a.txt"), "second\n");
    assert!(
        work.results()[0].contains("the user changed the arguments"),
        "{:?}",
        work.results()
    );
}

#[test]
fn what_was_read_must_still_be_there_after_a_restart() {
    let calls = [
        ("read_file", json!({"path": "a.txt"})),
        ("write_file", json!({"path": "b.txt", "content": "model\n"})),
        ("write_file", json!({"path": "a.txt", "content": "all\n"})),
        (
            "edit_file",
            json!({"path": "b.txt", "old_text": "model", "new_text": "x"}),
        ),
    ];
    let mut script: Vec<Script> = Vec::new();
    for (n, (tool, arguments)) in calls.iter().enumerate() {
        let id = format!("c{n}");
        script.push(Script::calls("", &[(&id, tool, &arguments.to_string())]));
        if n % 2 == 1 {
            script.push(Script::tokens(["done"]));
        }
    }
    let work = Work::new(
        script,
        "[policy.rules]\n\"fs.read\" = \"allow\"\n\"fs.write\" = \"allow\"\n",
    );
    work.write("a.txt", "one\n");
    let mut client = work.ask("x");
    assert!(answer_all(&mut client, &ApprovalVerdict::Once).is_empty());
    assert_eq!(work.read("b.txt"), "model\n");
    work.helper.call(["stop"]).run().ok();
    work.write("a.txt", "one\nof the user\n");
    work.write("b.txt", "model\nof the user\n");
    work.helper.call(["start"]).run().ok();
    let mut client = work.ask("y");
    assert!(answer_all(&mut client, &ApprovalVerdict::Once).is_empty());
    let results = work.results();
    assert_eq!(results.len(), 4, "the session goes on: {results:?}");
    for result in &results[2..] {
        assert!(
            result.contains("has changed since you read it"),
            "{results:?}"
        );
    }
    assert_eq!(work.read("a.txt"), "one\nof the user\n");
    assert_eq!(work.read("b.txt"), "model\nof the user\n");
}

#[test]
fn what_may_not_be_written_is_refused_before_a_question() {
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+1\n*** End Patch";
    let work = Work::calling(
        &[
            (
                "edit_file",
                json!({"path": "a.txt", "old_text": "one", "new_text": "1"}),
            ),
            ("write_file", json!({"path": "a.txt", "content": "1\n"})),
            ("patch", json!({"patch": patch})),
        ],
        READS,
    );
    work.write("a.txt", "one\n");
    let read_only = std::fs::Permissions::from_mode(0o444);
    std::fs::set_permissions(work.path("a.txt"), read_only).unwrap();
    let mut client = work.ask("x");
    assert!(answer_all(&mut client, &ApprovalVerdict::Once).is_empty());
    for result in work.results() {
        assert!(result.contains("is read-only (mode 444)"), "{result}");
    }
    assert_eq!(work.read("a.txt"), "one\n");
}

/// It would fail after the answer: each name would get its own version of the one file.
#[test]
fn a_patch_of_two_names_of_one_file_is_refused_before_a_question() {
    let hunk = |name: &str| format!("*** Update File: {name}\n@@\n-old\n+{name}\n");
    let patch = format!("*** Begin Patch\n{}{}*** End Patch", hunk("f"), hunk("g"));
    let work = Work::calling(&[("patch", json!({"patch": patch}))], READS);
    work.write("f", "old\n");
    std::fs::hard_link(work.path("f"), work.path("g")).expect("a link");
    let mut client = work.ask("x");
    assert!(answer_all(&mut client, &ApprovalVerdict::Once).is_empty());
    let results = work.results();
    assert!(results[0].contains("g: is changed twice"), "{results:?}");
    assert_eq!(work.read("f"), "old\n");
}

#[test]
fn a_file_that_moves_is_shown_as_one() {
    let patch = "*** Begin Patch\n*** Update File: old.txt\n*** Move to: new.txt\n@@\n two\n-three\n+3\n*** End Patch";
    let work = Work::calling(&[("patch", json!({"patch": patch}))], READS);
    work.write("old.txt", "one\ntwo\nthree\n");
    let mut client = work.ask("x");
    let question = client.question();
    assert_eq!(
        difference(&question),
        [
            "@moved old.txt → new.txt  +1 -1",
            " one",
            " two",
            "-three",
            "+3"
        ]
    );
    client.say(&question, ApprovalVerdict::Once);
    client.end();
    assert_eq!(work.read("new.txt"), "one\ntwo\n3\n");
    assert!(!work.path("old.txt").exists());
}

#[test]
fn a_move_to_the_same_file_by_another_path_is_a_change() {
    let patch = "*** Begin Patch\n*** Update File: a\n*** Move to: sub/../a\n@@\n-1\n+2\n*** Update File: ./b\n*** Move to: b\n@@\n-1\n+2\n*** End Patch";
    let work = Work::calling(&[("patch", json!({"patch": patch}))], READS);
    std::fs::create_dir(work.path("sub")).expect("a directory");
    work.write("a", "1\n");
    work.write("b", "1\n");
    let mut client = work.ask("x");
    answer_all(&mut client, &ApprovalVerdict::Once);
    assert_eq!(
        (work.read("a"), work.read("b")),
        ("2\n".into(), "2\n".into()),
        "{:?}",
        work.results()
    );
}

#[test]
fn a_patch_changes_all_files_or_none_and_deletions_count_as_destructive() {
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+1\n*** Add File: new/b.txt\n+b\n*** Delete File: c.txt\n*** Delete File: link\n*** End Patch";
    let broken = "*** Begin Patch\n*** Add File: d.txt\n+d\n*** Update File: a.txt\n@@\n-absent\n+x\n*** End Patch";
    let work = Work::calling(
        &[
            ("patch", json!({"patch": broken})),
            ("patch", json!({"patch": patch})),
        ],
        "[policy.rules]\n\"fs.read\" = \"allow\"\n\"fs.write\" = \"allow\"\n",
    );
    work.write("a.txt", "one\n");
    work.write("c.txt", "c\n");
    work.write("target", "stays\n");
    std::os::unix::fs::symlink("target", work.path("link")).unwrap();
    let mut client = work.ask("x");
    let questions = answer_all(&mut client, &ApprovalVerdict::Once);
    let shown = difference(&questions[0]).join("\n");
    assert!(shown.contains("it is a symbolic link"), "{shown}");
    assert!(!work.path("link").is_symlink() && work.read("target") == "stays\n");
    // `fs.write` allows changes; what deletes needs a rule about its class.
    assert_eq!(questions.len(), 1, "{questions:#?}");
    assert_eq!(
        questions[0].operation,
        aish::chat::OperationClass::Destructive
    );
    assert!(!work.path("d.txt").exists());
    assert_eq!(
        (work.read("a.txt").as_str(), work.read("new/b.txt").as_str()),
        ("1\n", "b\n")
    );
    assert!(!work.path("c.txt").exists());
}

#[test]
fn a_refused_edit_has_the_nearest_lines_for_who_may_read_the_file() {
    let edit = json!({"path": "a.txt", "old_text": "alpha\ngamma\n", "new_text": "x"});
    let patch = json!({"patch": "*** Begin Patch\n*** Update File: a.txt\n@@\n alpha\n-gamma\n+x\n*** End Patch"});
    let line = "1\talpha";
    for (rule, is_shown) in [("allow", true), ("ask", false)] {
        let rules = format!("[policy.rules]\n\"fs.read\" = \"{rule}\"\n");
        let calls = [("edit_file", edit.clone()), ("patch", patch.clone())];
        let work = Work::calling(&calls, &rules);
        work.write("a.txt", "alpha\nbeta\n");
        let mut client = work.ask("x");
        let questions = answer_all(&mut client, &ApprovalVerdict::Once);
        assert_eq!(questions.is_empty(), is_shown, "{questions:#?}");
        for result in work.results() {
            assert!(
                result.contains("not in the file") || result.contains("not found"),
                "{result}"
            );
            assert_eq!(result.contains(line), is_shown, "{rule}: {result}");
        }
        // A person who calls the tool at a terminal may see the lines in any case.
        let mut zsh = Zsh::start(&work.helper.home);
        let dir = work.path("").display().to_string();
        let error = zsh.eval(&format!(
            "(cd {dir}; aish-helper call tool-write --tool-name=aish:edit_file --json_args '{edit}' 2>&1)"
        ));
        let lines = "nearest lines of the file:\n     1\talpha\n     2\tbeta\n";
        assert!(error.ends_with(lines), "{error}");
        let by_hand = |variant: &str, tool: &str, arguments: &serde_json::Value| {
            let (tool, arguments) = (format!("--tool-name=aish:{tool}"), arguments.to_string());
            let call = ["call", variant, &tool, "--json_args", &arguments];
            work.helper.call(call).dir(work.path("")).run()
        };
        let refused = by_hand("tool-write", "edit_file", &edit);
        let error = refused.stderr;
        assert_eq!(refused.code, if is_shown { 2 } else { 4 }, "{error}");
        assert_eq!(error.contains("alpha"), is_shown, "{error}");
        // What aish's own tools do is known.
        for (tool, arguments) in [
            ("edit_file", &edit),
            ("write_file", &json!({"path": "a.txt", "content": ""})),
            ("shell", &json!({"command": "rm a.txt"})),
        ] {
            let error = by_hand("tool-read", tool, arguments).fails(2);
            assert!(
                error.contains("writes, use aish-helper call tool-write"),
                "{error}"
            );
        }
        assert_eq!(work.read("a.txt"), "alpha\nbeta\n");
    }
}

#[test]
fn a_file_is_not_written_in_the_place_of_a_directory_or_with_nul() {
    let calls = [
        ("write_file", json!({"path": "new/", "content": "x"})),
        ("write_file", json!({"path": "new", "content": "a\0b"})),
        (
            "patch",
            json!({"patch": "*** Begin Patch\n*** Add File: new\n+a\0b\n*** End Patch"}),
        ),
    ];
    let rules = "[policy.rules]\n\"fs.read\" = \"allow\"\n\"fs.write\" = \"allow\"\n";
    let work = Work::calling(&calls, rules);
    work.ask("x").end();
    let expected = ["that of a directory", "a NUL character", "a NUL character"];
    for (result, reason) in work.results().iter().zip(expected) {
        assert!(result.contains(reason), "{result}");
    }
    assert!(!work.path("new").exists());
}

#[test]
fn similar_names_go_only_to_who_may_read_the_directory() {
    let missing = |path: &str| {
        let arguments = json!({"path": path, "old_text": "a", "new_text": "b"});
        ("edit_file", arguments)
    };
    for (rule, is_shown) in [("allow", true), ("ask", false)] {
        let rules = format!("[policy.rules]\n\"fs.read\" = \"{rule}\"\n");
        let work = Work::calling(&[missing("notes.tx"), missing("../other/notes.tx")], &rules);
        work.write("notes.txt", "a\n");
        work.write("../other/notes.txt", "a\n");
        let mut client = work.ask("x");
        // Nothing about a file that may not be read is revealed before a yes.
        let questions = answer_all(&mut client, &ApprovalVerdict::Once);
        assert_eq!(questions.len(), if is_shown { 1 } else { 2 });
        let results = work.results();
        for (result, is_shown) in results.iter().zip([is_shown, false]) {
            assert!(result.contains("no such file"), "{result}");
            assert_eq!(result.contains("notes.txt"), is_shown, "{rule}: {result}");
        }
    }
}

#[test]
fn undo_restores_every_byte_and_the_model_is_told() {
    let calls = [
        ("write_file", json!({"path": "new.txt", "content": "new\n"})),
        (
            "edit_file",
            json!({"path": "run.sh", "old_text": "two", "new_text": "2"}),
        ),
    ];
    let work = Work::calling(&calls, "[policy.rules]\n\"fs.write\" = \"allow\"\n");
    let original = "one\r\ntwo\r\nno newline at the end";
    work.write("run.sh", original);
    let mode = PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(work.path("run.sh"), mode).unwrap();
    work.ask("x").end();
    assert_eq!(work.read("run.sh"), original.replace("two", "2"));
    let diff = work
        .helper
        .call(["changes", "diff", "--shell", "s1"])
        .run()
        .ok();
    assert!(
        diff.contains("-two") && diff.contains("+2") && diff.contains("new file"),
        "{diff}"
    );
    let undone = work
        .helper
        .call(["changes", "undo", "--shell", "s1"])
        .run()
        .ok();
    assert_eq!(
        undone
            .lines()
            .map(|line| line.split(' ').next().unwrap())
            .filter(|word| ["restored", "removed"].contains(word))
            .collect::<std::collections::BTreeSet<_>>()
            .len(),
        2,
        "{undone}"
    );
    assert_eq!(work.read("run.sh"), original);
    let mode = std::fs::metadata(work.path("run.sh"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o755);
    assert!(!work.path("new.txt").exists());
    let record = &work.helper.records_of("undo")[0];
    assert_eq!(record["restored"].as_array().unwrap().len(), 2);
    // Nothing is left to undo.
    let again = work.helper.call(["changes", "undo", "--shell", "s1"]).run();
    assert_eq!(again.code, 2, "{again:?}");
}

#[test]
fn undo_says_that_changes_of_commands_are_not_kept() {
    for has_command in [true, false] {
        let mut calls = vec![("write_file", json!({"path": "a.txt", "content": "1\n"}))];
        if has_command {
            calls.push(("shell", json!({"command": "print 2 >b.txt"})));
        }
        let rules = "[policy.rules]\n\"fs.write\" = \"allow\"\nshell = \"allow\"\n";
        let work = Work::calling(&calls, rules);
        work.ask("x").end();
        let undo = || work.helper.call(["changes", "undo", "--shell", "s1"]).run();
        let undone = undo().ok();
        assert!(undone.starts_with("removed  "), "{undone}");
        let is_said = undone.contains("commands of this prompt may have changed files too");
        assert_eq!(is_said, has_command, "{undone}");
        assert!(
            undo()
                .stderr
                .contains("only changes made by the file tools are kept")
        );
    }
}

#[test]
fn undo_names_what_was_changed_since() {
    let calls = [
        (
            "write_file",
            json!({"path": "a.txt", "content": "by the model\n"}),
        ),
        (
            "write_file",
            json!({"path": "b.txt", "content": "by the model\n"}),
        ),
    ];
    let work = Work::calling(&calls, "[policy.rules]\n\"fs.write\" = \"allow\"\n");
    work.ask("x").end();
    work.write("a.txt", "by the user\n");
    let refused = work.helper.call(["changes", "undo", "--shell", "s1"]).run();
    assert_eq!(refused.code, 1);
    assert_eq!(
        work.read("b.txt"),
        "by the model\n",
        "nothing is half undone"
    );
    let skipped = work
        .helper
        .call(["changes", "undo", "--skip", "--shell", "s1"])
        .run()
        .ok();
    assert!(
        skipped.contains("kept") && skipped.contains("a.txt"),
        "{skipped}"
    );
    assert_eq!(work.read("a.txt"), "by the user\n");
    assert!(!work.path("b.txt").exists());
    let again = work
        .helper
        .call(["changes", "undo", "--shell", "s1"])
        .run()
        .fails(1);
    // The lines above it say why: a file that may not be written has not changed.
    assert!(
        again.contains("only files that --skip has kept are left"),
        "{again}"
    );
    let shown = work.helper.call(["changes", "diff", "--shell", "s1"]).run();
    assert!(shown.ok().contains("a.txt"));
    work.write("a.txt", "by the model\n");
    work.helper
        .call(["changes", "undo", "--shell", "s1"])
        .run()
        .ok();
    assert!(!work.path("a.txt").exists());
}

#[test]
fn a_difference_that_is_too_large_for_a_question_is_refused() {
    let work = Work::calling(
        &[(
            "patch",
            json!({"patch": "*** Begin Patch\n*** Delete File: dump\n*** End Patch"}),
        )],
        READS,
    );
    work.write("dump", &"x\n".repeat(1 << 20));
    work.ask("x").end();
    let results = work.results();
    assert!(results[0].contains("too large to be shown"), "{results:?}");
    assert!(work.path("dump").exists());
}

#[test]
fn kept_copies_are_deleted_with_their_session() {
    let work = Work::calling(
        &[("write_file", json!({"path": "a.txt", "content": "x"}))],
        "[policy.rules]\n\"fs.write\" = \"allow\"\n",
    );
    work.ask("x").end();
    let kept = || {
        std::fs::read_dir(work.helper.path("data/undo"))
            .unwrap()
            .count()
    };
    assert_eq!(kept(), 1);
    let id = std::fs::read_dir(work.helper.path("data/undo"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .file_name();
    let id = id.to_str().unwrap().to_owned();
    work.helper
        .call(["session", "delete", "--yes", &id])
        .run()
        .ok();
    assert_eq!(kept(), 0);
}
