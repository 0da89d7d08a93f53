use super::line_kind::MAX_HELD;
use super::*;
use proptest::prelude::*;

fn run(chunks: &[&str]) -> (String, Vec<String>) {
    let mut filter = CommandExtractor::default();
    let (mut text, mut commands) = (String::new(), Vec::new());
    let mut take = |piece| match piece {
        AnswerPiece::Text(t) => text.push_str(&t),
        AnswerPiece::Command { text, .. } => commands.push(text),
    };
    for chunk in chunks {
        filter.push(chunk, &mut take);
    }
    filter.finish(&mut take);
    (text, commands)
}

#[test]
fn lines_with_the_mark_are_taken_out() {
    for (answer, text, commands) in [
        ("a\nCMD: ls -l\nb", "a\nb", vec!["ls -l"]),
        ("CMD: ls", "", vec!["ls"]),
        ("   CMD:ls\r\n", "", vec!["ls"]),
        (
            "    CMD: indented code\n",
            "    CMD: indented code\n",
            vec![],
        ),
        ("say CMD: ls\n", "say CMD: ls\n", vec![]),
        ("CMD\nCMD", "CMD\nCMD", vec![]),
        ("CMD:\n", "CMD:\n", vec![]),
        (
            "CMD: `ls`\nCMD: echo `date`\n",
            "",
            vec!["ls", "echo `date`"],
        ),
        ("\n\nCMD: a\n\nCMD: b\n", "\n\n\n", vec!["a", "b"]),
        ("CMD: größe '  two'\n", "", vec!["größe '  two'"]),
        (
            "- CMD: ls\n* CMD: `pwd`\n`CMD: id`\n",
            "",
            vec!["ls", "pwd", "id"],
        ),
        (
            "- CM\n`CMD: a` and `b`\n`CMD: a\n",
            "- CM\n`CMD: a` and `b`\n`CMD: a\n",
            vec![],
        ),
        ("-  CMD: a\n**CMD:** a\n", "-  CMD: a\n**CMD:** a\n", vec![]),
    ] {
        assert_eq!(
            run(&[answer]),
            (
                text.into(),
                commands.iter().map(|c| c.to_string()).collect()
            ),
            "{answer:?}"
        );
    }
}

#[test]
fn a_fence_around_nothing_but_commands_goes_with_them() {
    for (answer, text, commands) in [
        ("a\n```sh\nCMD: ls\n```\nb\n", "a\nb\n", vec!["ls"]),
        (
            "~~~~\n\nCMD: a\n \nCMD: b\n\n~~~~~ \r\nb",
            "b",
            vec!["a", "b"],
        ),
        ("  ```\n  CMD: ls\n  ```", "", vec!["ls"]),
        ("```sh\nCMD: ls", "", vec!["ls"]),
        // Quoted in other code, before or after it, the line is code.
        (
            "```sh\nx\nCMD: ls\ny\n```\nz",
            "```sh\nx\nCMD: ls\ny\n```\nz",
            vec![],
        ),
        (
            "```sh\nx\nCMD: ls\n```\nz",
            "```sh\nx\nCMD: ls\n```\nz",
            vec![],
        ),
        (
            "```\nCMD: ls\n\nx\n```\nCMD: a\n",
            "```\nCMD: ls\n\nx\n```\n",
            vec!["a"],
        ),
        (
            "```\nCMD: ls\nCMD:\n```\n",
            "```\nCMD: ls\nCMD:\n```\n",
            vec![],
        ),
        // A block without commands is unchanged, including bullets in it.
        ("```\n\n```\nb", "```\n\n```\nb", vec![]),
        (
            "```\n- CMD: a\n`CMD: b`\n```",
            "```\n- CMD: a\n`CMD: b`\n```",
            vec![],
        ),
        ("````\nx\n```\nCMD: ls\n", "````\nx\n```\nCMD: ls\n", vec![]),
        (
            "``` a`b\nCMD: ls\n``` a`b\n",
            "``` a`b\n``` a`b\n",
            vec!["ls"],
        ),
        // In an item of a list or a quotation.
        (
            "- ```\n  x\n  CMD: a\n  ```\nCMD: b\n",
            "- ```\n  x\n  CMD: a\n  ```\n",
            vec!["b"],
        ),
        (
            "10. > ```\n    x\n    CMD: a\n    ```\nCMD: b\n",
            "10. > ```\n    x\n    CMD: a\n    ```\n",
            vec!["b"],
        ),
        ("1. ```\n   CMD: a\n   ```\nx", "x", vec!["a"]),
        ("1.5 ```\nCMD: a\n", "1.5 ```\n", vec!["a"]),
        ("```sh", "```sh", vec![]),
        ("``", "``", vec![]),
    ] {
        let expected = (
            text.to_string(),
            commands.iter().map(|c| c.to_string()).collect::<Vec<_>>(),
        );
        assert_eq!(run(&[answer]), expected, "{answer:?}");
        for (at, _) in answer.char_indices() {
            let (a, b) = answer.split_at(at);
            assert_eq!(run(&[a, b]), expected, "{a:?} + {b:?}");
        }
    }
}

#[test]
fn a_fence_that_is_cut_off_is_shown_with_its_commands() {
    for (answer, text) in [
        ("```sh\n\n", "```sh\n\n"),
        ("```sh\nCMD: l", "```sh\nCMD: l"),
        ("```sh\nCMD: ls\n", "```sh\nCMD: ls\n"),
        ("```sh\nCMD: ls\n``", "```sh\nCMD: ls\n``"),
    ] {
        let mut filter = CommandExtractor::default();
        let mut shown = String::new();
        let mut take = |piece| {
            if let AnswerPiece::Text(t) = piece {
                shown.push_str(&t);
            }
        };
        filter.push(answer, &mut take);
        filter.cut_off(&mut take);
        assert_eq!(shown, text, "{answer:?}");
    }
}

#[test]
fn an_indented_fence_closes_a_block_however_it_is_split() {
    let answer = "```\ntext\n  ```\nCMD: ls\n```\nCMD: rm x\nother\n```\n";
    for (at, _) in answer.char_indices() {
        let (_, proposed) = run(&[&answer[..at], &answer[at..]]);
        assert_eq!(proposed, ["ls"], "{answer:?} at {at}");
    }
}

#[test]
fn a_line_in_a_comment_is_no_proposal() {
    for (answer, commands) in [
        ("<!--\nCMD: rm x\n-->\nCMD: ls\n", vec!["ls"]),
        ("see <!-- this\nCMD: rm x\n-->\nCMD: ls\n", vec!["ls"]),
        ("<!-- a -->\nCMD: ls\n", vec!["ls"]),
        ("```\n<!--\n```\nCMD: ls\n", vec!["ls"]),
        ("<!--\n```\nCMD: rm x\n```\n", vec![]),
        ("it`s <!--\nCMD: rm x\n-->\nCMD: ls\n", vec!["ls"]),
        ("<pre>\nCMD: rm x\n</pre>\nCMD: ls\n", vec!["ls"]),
        ("<div>\nCMD: ls\n</div>\n", vec!["ls"]),
    ] {
        for (at, _) in answer.char_indices() {
            let (text, proposed) = run(&[&answer[..at], &answer[at..]]);
            assert_eq!(proposed, commands, "{answer:?} at {at}");
            assert_eq!(text.contains("CMD: rm x"), answer.contains("rm x"));
        }
    }
}

/// Models indent code blocks in lists in many ways, and quote in them what must not run.
#[test]
fn a_line_in_an_indented_or_unusual_code_block_is_no_proposal() {
    let long = format!(
        "``` {}\nfoo\nCMD: rm x\n```\nCMD: ls\n",
        "x".repeat(MAX_HELD)
    );
    for (answer, commands) in [
        (
            "- a\n    - b\n      ```\n      foo\nCMD: rm x\n      ```\nCMD: ls\n",
            vec!["ls"],
        ),
        (
            "1. a\n    ```\n    CMD: rm x\n    ```\nCMD: ls\n",
            vec!["ls"],
        ),
        ("1. a\n    ```\nCMD: rm x\n    ```\nCMD: ls\n", vec!["ls"]),
        ("-\t```\n\tfoo\nCMD: rm x\n\t```\nCMD: ls\n", vec!["ls"]),
        ("\t~~~\n\tfoo\nCMD: rm x\n\t~~~\nCMD: ls\n", vec!["ls"]),
        ("```\rfoo\nCMD: rm x\n```\nCMD: ls\n", vec!["ls"]),
        (&long, vec!["ls"]),
    ] {
        for (at, _) in answer.char_indices() {
            let (text, proposed) = run(&[&answer[..at], &answer[at..]]);
            assert_eq!(proposed, commands, "{answer:?} at {at}");
            assert!(text.contains("CMD: rm x"), "{text:?}");
        }
    }
}

#[test]
fn what_is_held_is_bounded() {
    for part in [
        format!("```{}", "x".repeat(MAX_HELD)),
        format!("```\n{}", " ".repeat(MAX_HELD + 1)),
        format!("```\n{}", "\n".repeat(LONGEST)),
        format!("```\n{}", "CMD: a\n".repeat(LONGEST / 7)),
        format!("CMD:\n```\n{}", "a".repeat(LONGEST + 1)),
        format!("CMD:\n```\n{}", "a\n".repeat(MOST_LINES)),
    ] {
        let mut filter = CommandExtractor::default();
        let mut shown = String::new();
        filter.push(&part, &mut |piece| {
            if let AnswerPiece::Text(t) = piece {
                shown.push_str(&t);
            }
        });
        assert_eq!(shown, part);
    }
}

#[test]
fn text_is_held_only_while_it_may_be_a_mark() {
    let mut filter = CommandExtractor::default();
    let mut seen = String::new();
    let mut take = |p| {
        if let AnswerPiece::Text(t) = p {
            seen.push_str(&t);
        }
    };
    filter.push("C", &mut take);
    filter.push("an", &mut take);
    assert_eq!(seen, "Can");
}

#[test]
fn half_a_command_is_never_offered() {
    let mut filter = CommandExtractor::default();
    let mut pieces = Vec::new();
    filter.push("ok\nCMD: rm -rf /tmp/x", &mut |p| pieces.push(p));
    filter.cut_off(&mut |p| pieces.push(p));
    assert_eq!(
        pieces,
        [
            AnswerPiece::Text("ok\n".into()),
            AnswerPiece::Text("CMD: rm -rf /tmp/x".into())
        ]
    );
}

#[test]
fn a_line_without_end_is_text_and_is_not_kept() {
    let long = format!("CMD: {}", "x".repeat(LONGEST * 2));
    let (text, commands) = run(&[&long, "y\nCMD: ls\n"]);
    assert_eq!(commands, ["ls"]);
    assert_eq!(text.len(), long.len() + 2);
}

proptest! {
    #[test]
    fn any_split_gives_the_same(answer in "(CMD: ?|C|CM|D:| |a|\n|é|`|```|```\n|~|- |\r|'|<<a|\\(|\\)|\\|\\\n|CMD:\n```\n){0,40}", cuts in proptest::collection::vec(0usize..80, 0..6)) {
        let mut at: Vec<usize> = cuts.into_iter().filter(|c| *c <= answer.len() && answer.is_char_boundary(*c)).collect();
        at.sort_unstable();
        let mut chunks = Vec::new();
        let mut from = 0;
        for cut in at {
            chunks.push(&answer[from..cut]);
            from = cut;
        }
        chunks.push(&answer[from..]);
        prop_assert_eq!(run(&chunks), run(&[&answer]));
    }
}

/// Asserts the text and the commands of an answer, for the whole answer and for every split of it.
fn assert_commands(answer: &str, text: &str, commands: &[&str]) {
    let expected = (
        text.to_owned(),
        commands.iter().map(|c| c.to_string()).collect::<Vec<_>>(),
    );
    assert_eq!(run(&[answer]), expected, "{answer:?}");
    for (at, _) in answer.char_indices() {
        let (a, b) = answer.split_at(at);
        assert_eq!(run(&[a, b]), expected, "{a:?} + {b:?}");
    }
}

#[test]
fn a_command_takes_lines_until_it_is_complete() {
    for (answer, text, commands) in [
        (
            "a\nCMD: for i in 1 2; do\n  echo $i\n\ndone\nb\n",
            "a\nb\n",
            &["for i in 1 2; do\n  echo $i\n\ndone"][..],
        ),
        (
            "CMD: cat > x <<'E'\n```sh\nit's\n```\nE\nCMD: ls\n",
            "",
            &["cat > x <<'E'\n```sh\nit's\n```\nE", "ls"],
        ),
        ("CMD: ls \\\r\n  -l\r\nb", "b", &["ls \\\n  -l"]),
        (
            "CMD: git commit -m 'a\n\nb'",
            "",
            &["git commit -m 'a\n\nb'"],
        ),
        // Inside a code block too.
        (
            "```sh\nCMD: if true; then\n  ls\nfi\nCMD: id\n```\nb",
            "b",
            &["if true; then\n  ls\nfi", "id"],
        ),
        // The shortest text that is complete.
        ("CMD: ls\n  -l\n", "  -l\n", &["ls"]),
    ] {
        assert_commands(answer, text, commands);
    }
}

#[test]
fn of_a_command_that_is_never_complete_the_first_line_is_proposed() {
    let long = format!("CMD: for i in 1; do\n{}done\n", "ls\n".repeat(MOST_LINES));
    let text = long.split_once('\n').expect("lines").1.to_owned();
    assert_eq!(run(&[&long]), (text, vec!["for i in 1; do".to_owned()]));
    for (answer, text, commands) in [
        (
            "CMD: echo don't\nThis runs *it*.\n",
            "This runs *it*.\n",
            &["echo don't"][..],
        ),
        ("CMD: (ls\nCMD: id\nb", "b", &["(ls", "id"]),
        ("CMD: (ls\n```\nx\n```\n", "```\nx\n```\n", &["(ls"]),
        ("CMD: (ls\nCMD: (id\nb\n", "b\n", &["(ls", "(id"]),
        ("```\nCMD: (ls\n```\n", "", &["(ls"]),
        // Such a code block has other text than commands.
        ("```\nCMD: (ls\nx\n```\n", "```\nCMD: (ls\nx\n```\n", &[]),
    ] {
        assert_commands(answer, text, commands);
    }
}

#[test]
fn a_code_block_below_the_mark_is_one_command() {
    for (answer, text, commands) in [
        (
            "a\nCMD:\n\n```zsh\nfor i in 1; do\n  ls\ndone\nid\n```\nb\n",
            "a\nb\n",
            &["for i in 1; do\n  ls\ndone\nid"][..],
        ),
        ("CMD: ```sh\nls\n```", "", &["ls"]),
        ("CMD:\n  ~~~\n    ls\n  ```\n  ~~~~ \n", "", &["ls\n```"]),
        ("CMD:\n```\nls\n", "", &["ls"]),
        ("CMD:\n```\n(ls\n```\n", "", &["(ls"]),
        ("CMD:\n```\nCMD: ls\n```\n", "CMD:\n", &["ls"]),
        ("CMD:\n```\n\n```\nb", "CMD:\n```\n\n```\nb", &[]),
        (
            "CMD:\n\nls\n```\nx\n```\n",
            "CMD:\n\nls\n```\nx\n```\n",
            &[],
        ),
        ("CMD: ```ls```\n", "", &["```ls```"]),
        // Quoted in a code block it is text.
        (
            "````\nCMD:\n```\nls\n```\n````\n",
            "````\nCMD:\n```\nls\n```\n````\n",
            &[],
        ),
        (
            "<!--\nCMD:\n```\nls\n```\n-->\n",
            "<!--\nCMD:\n```\nls\n```\n-->\n",
            &[],
        ),
    ] {
        assert_commands(answer, text, commands);
    }
}

#[test]
fn a_command_of_several_lines_that_is_cut_off_is_text() {
    for answer in [
        "a\nCMD: for i in 1; do\n  ls\ndo",
        "CMD:\n```\nls\n",
        "CMD:\n```\nls\n``",
        "CMD:\n",
    ] {
        for (at, _) in answer.char_indices() {
            let mut filter = CommandExtractor::default();
            let mut shown = String::new();
            let mut take = |piece| match piece {
                AnswerPiece::Text(t) => shown.push_str(&t),
                AnswerPiece::Command { text, .. } => panic!("{text:?} is offered"),
            };
            filter.push(&answer[..at], &mut take);
            filter.push(&answer[at..], &mut take);
            filter.cut_off(&mut take);
            assert_eq!(shown, answer);
        }
    }
}
