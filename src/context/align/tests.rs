use super::*;

fn cut(
    screen: &Screen,
    commands: &[KnownCommand<'_>],
    running: RunningLine<'_>,
    wanted: usize,
) -> Option<ScreenOutput> {
    super::cut(screen, commands, running, wanted, &|| false)
}

fn screen(columns: usize, rows: &[&str]) -> Screen {
    let rows = rows.iter().map(|text| ScreenRow {
        text: (*text).to_owned(),
        wrapped: false,
    });
    Screen {
        rows: rows.collect(),
        columns,
        end_mark: '%',
        ..Screen::default()
    }
}

fn commands<'a>(texts: &[&'a str]) -> Vec<KnownCommand<'a>> {
    let command = |text: &&'a str| KnownCommand {
        text,
        cwd: "/src",
        exit: 0,
        unrecorded_after: Some(&[]),
        open_line: &OpenLine::Marked(None),
    };
    texts.iter().map(command).collect()
}

/// Cuts the output of the last command.
fn last(screen: &Screen, known: &[&str]) -> Option<Vec<String>> {
    let running = RunningLine {
        text: Some("llm fix it"),
        words: None,
        cwd: "/src",
    };
    cut(screen, &commands(known), running, 1).map(|output| output.lines)
}

#[test]
fn the_output_stands_between_two_prompts() {
    let screen = screen(80, &["$ make", "cc a.c", "a.c:1: error", "$ llm fix it"]);
    assert_eq!(
        last(&screen, &["make"]).unwrap(),
        ["cc a.c", "a.c:1: error"]
    );
    // Another command ran last.
    assert_eq!(last(&screen, &["make", "ls"]), None);
}

#[test]
fn the_last_lines_of_an_output_are_no_part_of_the_prompt() {
    let rows = [
        "~/parcel on main",
        "❯ cargo build",
        "   Compiling parcel v0.1.0",
        "error[E0308]: mismatched types",
        " --> src/main.rs:2:23",
        "  |",
        "2 |     let weight: u32 = \"7\";",
        "  |                 ---   ^^^ expected `u32`, found `&str`",
        "",
        "error: could not compile `parcel` due to 1 previous error",
        "~/parcel on main",
        "❯ llm fix it",
    ];
    let cwd = "/home/me/parcel";
    let command = |text| KnownCommand {
        text,
        cwd,
        exit: 0,
        unrecorded_after: Some(&[]),
        open_line: &OpenLine::Marked(None),
    };
    let running = RunningLine {
        text: Some("llm fix it"),
        words: None,
        cwd,
    };
    let known = [command("cd ../parcel; clear"), command("cargo build")];
    let output = cut(&screen(100, &rows), &known, running, 1).unwrap();
    assert_eq!(output.lines, &rows[2..10]);
}

#[test]
fn many_secrets_in_a_command_line_are_compared_in_linear_time() {
    // Neither row has all of the command, so that every way of reading it is tried.
    let row = "$ false".to_owned() + &" 'x key, b'".repeat(24);
    let text = "false".to_owned() + &" '[REDACTED:token], b'".repeat(24) + " end";
    let known = [text.as_str(), "true"];
    let rows = [&*row, "$ true", "$ llm fix it"];
    assert_eq!(last(&screen(400, &rows), &known).unwrap(), [""; 0]);
    // The same, with a secret in each line.
    let text = "cat <<end".to_owned() + &"\n[REDACTED:token]".repeat(24) + "\nend";
    let heredoc = ["> some words of a text"; 24];
    let rows = [
        &["$ cat <<end"],
        &heredoc[..],
        &["> en", "$ true", "$ llm fix it"],
    ]
    .concat();
    assert_eq!(last(&screen(80, &rows), &[&text, "true"]).unwrap(), [""; 0]);
}

#[test]
fn secrets_in_a_command_line_are_passed_over() {
    let text = "login -u '[REDACTED:token]' -p '[REDACTED:password]' [REDACTED:token]";
    let rows = [
        "$ login -u 'ghp_0123456789012345678",
        "90' -p 'a' -p' tail",
        "denied",
        "$ llm fix it",
    ];
    assert_eq!(last(&screen(36, &rows), &[text]).unwrap(), ["denied"]);
    let other = text.replace("-p", "-q");
    assert_eq!(last(&screen(36, &rows), &[&other]), None);
}

#[test]
fn an_output_that_repeats_the_command_line_is_searched_in_time() {
    let long = "make        ".repeat(20_000);
    let screen = Screen {
        tells_wraps: true,
        ..screen(80, &["$ make", &long, "$ llm fix it"])
    };
    let begun = std::time::Instant::now();
    let output = last(&screen, &["ls", "cd x", "make"]);
    assert_eq!(output.unwrap(), [long.trim_end()]);
    // Comparing each of the lines with the others takes minutes.
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
}

#[test]
fn a_window_that_may_be_another_one_must_show_the_running_line() {
    // A terminal that was started from this window has inherited its variables, and the same command ran there.
    let mut screen = screen(80, &["$ make", "the other error", "$ code .", "$ "]);
    assert_eq!(last(&screen, &["make"]), None);
    screen.is_confirmed = true;
    assert_eq!(last(&screen, &["make"]).unwrap()[0], "the other error");
}

#[test]
fn rows_above_the_first_line_are_the_output_of_the_command_before_it_only() {
    let screen = Screen {
        is_cut: true,
        ..screen(80, &["2999", "3000", "$ ls", "a.c", "$ llm fix it"])
    };
    let running = RunningLine {
        text: Some("llm fix it"),
        words: None,
        cwd: "/src",
    };
    let known = commands(&["echo one; false", "seq 3000", "ls"]);
    let output = cut(&screen, &known, running, 2).unwrap();
    assert_eq!(output.lines, ["2999", "3000"]);
    assert!(cut(&screen, &known, running, 3).is_none());
}

/// Returns what the plugin reports of a line that is not recorded.
fn typed(line: &str) -> UnrecordedLine {
    let shown: Vec<u8> = line.bytes().filter(u8::is_ascii_graphic).take(32).collect();
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(16_777_619);
    let hash: u32 = shown.iter().fold(2_166_136_261, step);
    UnrecordedLine::parse(&format!("{} {hash}", shown.len()))
}

/// Cuts the output of the last command, after which other lines were entered.
fn before(rows: &[&str], known: &[&str], after: Option<&[UnrecordedLine]>) -> Option<Vec<String>> {
    let screen = Screen {
        is_cut: true,
        ..screen(40, rows)
    };
    let mut known = commands(known);
    known.last_mut().unwrap().unrecorded_after = after;
    let running = RunningLine {
        text: Some("llm fix it"),
        words: None,
        cwd: "/src",
    };
    cut(&screen, &known, running, 1).map(|output| output.lines)
}

#[test]
fn lines_that_are_not_recorded_end_an_output_whatever_their_prompt() {
    let (blank, unknown) = (UnrecordedLine::Blank, UnrecordedLine::Unknown);
    let twice = [typed(" echo private; false"), typed(" echo private")];
    let long = "a line that goes on in the next row, as zsh wraps it";
    for (rows, after, wanted) in [
        // The prompt of the first one has an exit code that no other prompt has.
        (
            &[
                "~ $ false",
                "1 ~ $ ls x",
                "no x",
                "2 ~ $  echo private; false",
                "private",
                "1 ~ $  echo private",
                "private",
                "~ $ llm fix it",
            ][..],
            Some(&twice[..]),
            Some("no x"),
        ),
        // It prints what looks like a prompt.
        (
            &[
                "~ $ ls x",
                "no x",
                "2 ~ $  print '~ $ private'",
                "~ $ private",
                "~ $ llm fix it",
            ],
            Some(&[typed(" print '~ $ private'")]),
            Some("no x"),
        ),
        // A blank line before it, and what Ctrl-L left behind.
        (
            &[
                "$ ls x",
                "no x",
                "$",
                "$  private",
                "private",
                "$ llm fix it",
            ],
            Some(&[blank, typed(" private")]),
            Some("no x"),
        ),
        (
            &[
                "$ ls x",
                "no x",
                "$  priv",
                "$  private",
                "private",
                "$ llm fix it",
            ],
            Some(&[typed(" private")]),
            Some("no x"),
        ),
        // An abandoned one that takes two rows, and one after another prompt, of which the height is not known.
        (
            &[
                "$ ls x",
                "no x",
                "$ a line that goes on in the next row, as",
                " zsh wraps it",
                "$ llm fix it",
            ],
            Some(&[typed(long)]),
            Some("no x"),
        ),
        (
            &["❯ ls x", "no x", "~ on main", "╰─ private", "❯ llm fix it"],
            Some(&[typed("private")]),
            None,
        ),
        // A suggestion that was not taken is behind an abandoned one.
        (
            &["$ ls x", "no x", "$ priv ate words", "$ llm fix it"],
            Some(&[typed("priv")]),
            Some("no x"),
        ),
        // It is not on the screen as it was typed, nothing is known of it, or nobody counted.
        (
            &["$ ls x", "no x", "$  private", "$ llm fix it"],
            Some(&[typed(" other")]),
            None,
        ),
        (
            &["$ ls x", "no x", "$  private", "$ llm fix it"],
            Some(&[unknown]),
            None,
        ),
        (
            &["$ ls x", "no x", "$  private", "$ llm fix it"],
            None,
            None,
        ),
        // Only its output is left.
        (
            &["private", "private", "$ llm fix it"],
            Some(&[typed(" private")]),
            None,
        ),
        (
            &["no x", "no y", "$ llm fix it"],
            Some(&[]),
            Some("no x\nno y"),
        ),
    ] {
        let output = before(rows, &["false", "ls x"], after);
        assert_eq!(
            output.map(|lines| lines.join("\n")).as_deref(),
            wanted,
            "{rows:#?}"
        );
    }
}

#[test]
fn an_output_that_is_cut_at_a_line_like_a_prompt_is_told_as_a_part() {
    let (blank, private) = (UnrecordedLine::Blank, typed(" private"));
    let running = RunningLine {
        text: Some("llm fix it"),
        words: None,
        cwd: "/src",
    };
    for (rows, between, wanted, is_partial) in [
        (
            &["$ ls x", "one", "$ x", "two", "$  private", "$ llm fix it"][..],
            &[private][..],
            "one",
            true,
        ),
        (
            &["$ ls x", "one", "two", "$  private", "$ llm fix it"],
            &[private],
            "one\ntwo",
            false,
        ),
        (
            &["$ ls x", "one", "$ x", "two", "$", "$ llm fix it"],
            &[blank],
            "one",
            true,
        ),
        (
            &["$ ls x", "one", "$", "$", "$  private", "$ llm fix it"],
            &[blank, blank, private],
            "one",
            false,
        ),
    ] {
        let mut known = commands(&["ls x"]);
        known[0].unrecorded_after = Some(between);
        let output = cut(&screen(40, rows), &known, running, 1).unwrap();
        assert_eq!(
            (&*output.lines.join("\n"), output.is_partial),
            (wanted, is_partial),
            "{rows:#?}"
        );
    }
}

#[test]
fn a_command_that_clears_the_screen_is_found_by_what_is_left() {
    let running = RunningLine {
        text: Some("llm fix it"),
        words: None,
        cwd: "/home/me/parcel",
    };
    let cleared = |rows: &[&str], known: &[&str], wanted| {
        let screen = Screen {
            is_confirmed: true,
            ..screen(40, rows)
        };
        let output = cut(&screen, &commands(known), running, wanted)?;
        assert!(output.is_tail);
        Some(output.lines.join("\n"))
    };
    let known = ["ls", "clear && make"];
    let rows = ["a.c:1: error", "~/parcel on main", "$ llm fix it"];
    assert_eq!(cleared(&rows, &known, 1).unwrap(), "a.c:1: error");
    let rows = ["a.c:1: error", "$ pwd", "/src", "$ llm fix it"];
    let known = ["ls", "clear; make", "pwd"];
    assert_eq!(cleared(&rows, &known, 2).unwrap(), "a.c:1: error");
    // The line that runs now ran before.
    let rows = ["a.c:1: error", "$ llm fix it"];
    let known = ["llm fix it", "clear; make"];
    assert_eq!(cleared(&rows, &known, 1).unwrap(), "a.c:1: error");
    // It clears nothing, an older command is on the screen, or a line that nobody knows.
    let rows = ["a.c:1: error", "$ llm fix it"];
    assert_eq!(cleared(&rows, &["ls", "make clear-all"], 1), None);
    let rows = ["2 > ls", "a.c", "$ llm fix it"];
    assert_eq!(cleared(&rows, &["ls", "clear; make"], 1), None);
    let rows = ["$  private", "x", "$ llm fix it"];
    assert_eq!(cleared(&rows, &["ls", "clear; make"], 1), None);
    assert_eq!(cleared(&["$ llm fix it"], &["ls", "clear; make"], 1), None);
}

/// tmux keeps the line as it was drawn before it was entered, with the long form of a transient prompt.
#[test]
fn a_line_that_was_drawn_again_in_the_first_row_is_no_output() {
    let long = ["", "╭─ ~ on main ✘ 1"];
    let copy = |line: &str| format!("╰─❯ {line}          11:26:35");
    let found = |rows: &[&str], known: &[&str], words: Option<&str>, wanted| {
        let screen = Screen {
            is_confirmed: true,
            ..screen(100, rows)
        };
        let running = RunningLine {
            text: words.is_none().then_some("llm fix it"),
            words,
            cwd: "/home/me",
        };
        let output = cut(&screen, &commands(known), running, wanted)?;
        Some((output.lines.join("\n"), output.is_partial))
    };
    let entered = ["❯ llm fix it"];
    let copied = copy("llm fix it");
    let copied = [copied.as_str()];
    let rows = [&long[..], &copied, &entered].concat();
    assert_eq!(found(&rows, &["ls", "clear; false"], None, 1), None);
    // What the command printed stays.
    let rows = [&["no rule"], &long[..], &copied, &entered].concat();
    let output = found(&rows, &["ls", "clear; make"], None, 1);
    assert_eq!(output.unwrap().0, "no rule");
    // The first line below is that of another command.
    let listed = copy("ls /x");
    let below = [&listed, "❯ ls /x", "no such file", "❯ llm fix it"];
    let rows = [&long[..], &below].concat();
    assert_eq!(
        found(&rows, &["pwd", "clear && true", "ls /x"], None, 2),
        None
    );
    let output = found(&rows, &["pwd", "clear && true", "ls /x"], None, 1);
    assert_eq!(output.unwrap(), ("no such file".to_owned(), false));
    // A private line, of which only the arguments of its program are known.
    let private = copy(" aish-helper output --json > out");
    let rows = [&long[..], &[&private, "❯  aish-helper output --json > out"]].concat();
    assert_eq!(
        found(&rows, &["ls", "clear"], Some("output --json"), 1),
        None
    );
    // Ctrl-L has left the prompt above it.
    let bare = copy("");
    let rows = [
        &["❯ make", "no rule"],
        &long[..],
        &[&bare],
        &long,
        &copied,
        &entered,
    ]
    .concat();
    assert_eq!(
        found(&rows, &["make"], None, 1).unwrap(),
        ("no rule".to_owned(), false)
    );
    // A long prompt of one row that looks otherwise: its line is given to no command that cleared the screen.
    let rows = ["me@host ~ > llm fix it", "$ llm fix it"];
    assert_eq!(found(&rows, &["ls", "clear"], None, 1), None);
    // A message that ends with the next line stays, in doubt.
    let rows = ["$ make", "to fix: llm fix it", "$ llm fix it"];
    let output = found(&rows, &["make"], None, 1).unwrap();
    assert_eq!(output, ("to fix: llm fix it".to_owned(), true));
}

#[test]
fn a_line_of_which_ctrl_l_has_left_the_beginning_is_no_output() {
    let rows = ["$ make", "no rule", "$ llm", "$ llm fix it"];
    assert_eq!(
        last_after(&rows, &[("make", &[])]).unwrap(),
        ("no rule".to_owned(), false)
    );
    let rows = ["$ make", "no rule", "$ ls", "$ ls x", "$ llm fix it"];
    let running = RunningLine {
        text: Some("llm fix it"),
        words: None,
        cwd: "/src",
    };
    let output = cut(&screen(80, &rows), &commands(&["make", "ls x"]), running, 2);
    assert_eq!(output.unwrap().lines, ["no rule"]);
    let rows = [
        "~ on main",
        "$ make",
        "no rule",
        "~ on main",
        "$ llm f",
        "~ on main",
        "$ llm fix it",
    ];
    assert_eq!(
        last_after(&rows, &[("make", &[])]).unwrap(),
        ("no rule".to_owned(), false)
    );
    // It was edited after that, or the command has printed it.
    for rows in [
        ["$ make", "no rule", "$ private", "$ llm fix it"],
        ["$ make", "no rule", "$ llm fix it", "$ llm fix it"],
    ] {
        assert!(last_after(&rows, &[("make", &[])]).unwrap().1, "{rows:?}");
    }
}

#[test]
fn a_prompt_that_was_left_behind_is_no_output() {
    for (rows, known, wanted, is_partial) in [
        // By Ctrl-L with a right prompt, and by a widget that prints.
        (
            &[
                "~/a > make",
                "done",
                "~/a >                             [12:00]",
                "~/a > llm fix it",
            ][..],
            &["make"][..],
            "done",
            false,
        ),
        (
            &[
                "~/a on x > make",
                "done",
                "~/a on x >",
                "a message",
                "~/a on x > llm fix it",
            ],
            &["make"],
            "done",
            false,
        ),
        // It may be a line of the output.
        (
            &["$ make", "done", "$", "end", "$ llm fix it"],
            &["make"],
            "done\n$\nend",
            true,
        ),
        (
            &["$ echo '$'", "$", "$ llm fix it"],
            &["echo '$'"],
            "$",
            true,
        ),
        // The command has the sign in a word, or the rest of the prompt is above it.
        (
            &["$ echo $HOME", "/me", "$", "$ llm fix it"],
            &["echo $HOME"],
            "/me",
            true,
        ),
        (
            &[
                "/src",
                "> echo x > x",
                "x",
                "/src",
                ">",
                "/src",
                "> llm fix it",
            ],
            &["echo x > x"],
            "x",
            false,
        ),
        // Two rows that are alike are a prompt or an output.
        (
            &["total 42", "x true", "total 42", "x llm fix it"],
            &["true"],
            "total 42",
            true,
        ),
    ] {
        let screen = screen(40, rows);
        let running = RunningLine {
            text: Some("llm fix it"),
            words: None,
            cwd: "/src",
        };
        let output = cut(&screen, &commands(known), running, 1).unwrap();
        assert_eq!(
            (&*output.lines.join("\n"), output.is_partial),
            (wanted, is_partial),
            "{rows:#?}"
        );
    }
}

#[test]
fn an_output_without_a_line_end_is_found_where_zsh_leaves_it() {
    let with = |open_line: OpenLine, rows: &[&str], known: &[&str]| {
        let mut known = commands(known);
        for command in &mut known {
            command.open_line = &open_line;
        }
        let running = RunningLine {
            text: Some("llm fix it"),
            words: None,
            cwd: "/src",
        };
        let output = cut(&screen(20, rows), &known, running, 1).unwrap();
        (output.lines.join("\n"), output.is_partial)
    };
    // The mark is above a blank row with which the prompt begins.
    let rows = [
        "",
        "~",
        "> ls",
        "a",
        "",
        "~",
        "> make",
        "50%               ",
        "",
        "~",
        "> llm fix it",
    ];
    assert_eq!(
        with(OpenLine::Marked(None), &rows, &["ls", "make"]),
        ("50".to_owned(), false)
    );
    // The same before two prompts.
    let rows = [
        "vm $ ls",
        "vm $ make",
        "fatalvm $ llm fix it",
        "fine",
        "vm $ make",
        "fatalvm $ llm fix it",
    ];
    let known = ["ls", "make", "llm fix it", "make"];
    assert_eq!(
        with(OpenLine::Continued, &rows, &known),
        ("fatal".to_owned(), false)
    );
    // Without that option, text before a prompt is a part of it.
    let rows = ["vm $ . venv", "(venv) vm $ make", "(venv) vm $ llm fix it"];
    assert_eq!(
        with(OpenLine::Marked(None), &rows, &[". venv", "make"]),
        (String::new(), false)
    );
    assert_eq!(
        with(
            OpenLine::Overdrawn,
            &["vm $ make", "vm $ llm fix it"],
            &["make"]
        ),
        (String::new(), true)
    );
    // The user has another mark, or none.
    for (mark, row, lines) in [
        ("⏎", "50%⏎              ", "50%"),
        ("⏎", "50⏎", "50"),
        ("<>", "fine<>             ", "fine"),
        ("", "50%               ", "50%"),
    ] {
        let rows = ["vm $ make", row, "vm $ llm fix it"];
        let mark = OpenLine::Marked(Some(mark.to_owned()));
        assert_eq!(with(mark, &rows, &["make"]), (lines.to_owned(), false));
    }
}

#[test]
fn a_command_that_shows_its_own_line_is_not_cut_behind_it() {
    let rows = [
        "$ ls",
        "a",
        "$ tmux capture-pane -p",
        "$ ls",
        "a",
        "$ tmux capture-pane -p",
        "$ llm fix it",
    ];
    assert_eq!(
        last(&screen(40, &rows), &["ls", "tmux capture-pane -p"]),
        None
    );
    // The same command, each with its line.
    let rows = ["$ make", "a", "$ make", "b", "$ llm fix it"];
    assert_eq!(last(&screen(40, &rows), &["make", "make"]).unwrap(), ["b"]);
}

#[test]
fn the_last_line_of_the_same_output_is_no_part_of_the_prompt() {
    let run = ["$ make", "first", "error 2"];
    let rows = [&run[..], &run, &run, &["$ llm fix it"]].concat();
    let output = last(&screen(40, &rows), &["make", "make", "make"]);
    assert_eq!(output.unwrap(), ["first", "error 2"]);
}

/// Cuts the last of some commands, each with the lines that were entered after it: its output, and whether it is partial.
fn last_after(rows: &[&str], known: &[(&str, &[UnrecordedLine])]) -> Option<(String, bool)> {
    let running = RunningLine {
        text: Some("llm fix it"),
        words: None,
        cwd: "/src",
    };
    let known: Vec<KnownCommand<'_>> = known
        .iter()
        .map(|(text, lines)| KnownCommand {
            text,
            cwd: "/src",
            exit: 0,
            unrecorded_after: Some(lines),
            open_line: &OpenLine::Marked(None),
        })
        .collect();
    let output = cut(&screen(80, rows), &known, running, 1)?;
    Some((output.lines.join("\n"), output.is_partial))
}

#[test]
fn a_prompt_whose_sign_tells_the_exit_code_is_a_prompt() {
    let private = [typed(" echo private")];
    let begin = [":) ls /no", "no such file"];
    let end = [
        ":)  echo private",
        "private",
        ":) mk",
        "run 2",
        ":( llm fix it",
    ];
    let rows = [&begin[..], &[":( mk", "run 1"], &end].concat();
    let known: [(&str, &[_]); 3] = [("ls /no", &[]), ("mk", &private), ("mk", &[])];
    assert_eq!(last_after(&rows, &known).unwrap(), ("run 2".into(), false));
    // Nothing but the same command follows the other sign: it may be a message.
    let rows = [&[":( mk", "run 1"], &end[..]].concat();
    assert_eq!(
        last_after(&rows, &known[1..]).unwrap(),
        ("run 2".into(), true)
    );
    // The mode of the line editor.
    let rows = [
        "❯ true",
        "❯ mk",
        "run 1",
        "❯  echo private",
        "private",
        "❮ mk",
        "run 2",
        "❯ llm fix it",
    ];
    let known: [(&str, &[_]); 3] = [("true", &[]), ("mk", &private), ("mk", &[])];
    assert_eq!(last_after(&rows, &known), None);
    // An abandoned line has the text of the command.
    let lines = [typed("mk"), private[0]];
    let rows = [
        "❯ true",
        "❯ mk",
        "❯  echo private",
        "private",
        "❮ mk",
        "run",
        "❯ llm fix it",
    ];
    let known: [(&str, &[_]); 2] = [("true", &lines), ("mk", &[])];
    assert_eq!(last_after(&rows, &known), None);
    // A message about the command is not a line of it.
    let rows = [
        "❯ true",
        "❯ gti",
        "zsh: command not found: gti",
        "❯ llm fix it",
    ];
    let known: [(&str, &[_]); 3] = [("gti", &[]), ("true", &[]), ("gti", &[])];
    let output = "zsh: command not found: gti".to_owned();
    assert_eq!(last_after(&rows, &known).unwrap(), (output, false));
}

#[test]
fn an_expanded_line_may_stand_behind_a_sign() {
    let rows = [
        "vm:~$ls /a",
        "no a",
        "vm:~$ echo private",
        "private",
        "vm:~$!ls",
        "ls /a",
        "no a again",
        "vm:~$llm fix it",
    ];
    let known: [(&str, &[_]); 2] = [("ls /a", &[typed(" echo private")]), ("ls /a", &[])];
    assert_eq!(
        last_after(&rows, &known).unwrap(),
        ("no a again".into(), false)
    );
}

#[test]
fn a_row_that_is_no_part_of_the_prompt_is_no_reason_to_cut() {
    // A blank line, or a private one, was entered before each command.
    let private = typed(" export A=1");
    for (between, unrecorded) in [("~ %", UnrecordedLine::Blank), ("~ %  export A=1", private)] {
        let names = ["ls a", "ls b", "ls c", "ls d", "ls e"];
        let mut rows = Vec::new();
        for name in names {
            rows.extend([
                format!("~ % {name}"),
                format!("no {name}"),
                between.to_owned(),
            ]);
        }
        rows.push("~ % llm fix it".to_owned());
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        let lines = [unrecorded];
        let known = names.map(|name| (name, &lines[..]));
        let (output, _) = last_after(&rows, &known).unwrap();
        assert_eq!(output, "no ls e", "{between}");
    }
    // The outputs of one program end alike.
    let end = "error: could not compile due to 1 error";
    let names = ["cargo check", "cargo build", "cargo test", "cargo clippy"];
    let mut rows = Vec::new();
    for name in names {
        rows.extend([
            format!("➜ src {name}"),
            format!("of {name}"),
            end.to_owned(),
        ]);
    }
    rows.push("➜ src llm fix it".to_owned());
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let (output, _) = last_after(&rows, &names.map(|name| (name, &[][..]))).unwrap();
    assert_eq!(output, format!("of cargo clippy\n{end}"));
}

#[test]
fn a_row_of_the_prompt_may_tell_more_at_times() {
    let of = |upper: [&str; 4]| {
        let [one, two, three, four] = upper;
        let rows = [
            one,
            "❯ true",
            two,
            "❯ ls a",
            "no a",
            three,
            "❯ sleep 2; ls b",
            "no b",
            four,
            "❯ llm fix it",
        ];
        let known = ["true", "ls a", "sleep 2; ls b"].map(|name| (name, &[][..]));
        last_after(&rows, &known).unwrap()
    };
    let wanted = ("no b".to_owned(), false);
    assert_eq!(of(["/src", "/src", "/src", "/src took 2s"]), wanted);
    let exit = [
        "✔ /src git:main",
        "✔ /src git:main",
        "✘ 1 /src git:main",
        "✘ 2 /src git:main",
    ];
    assert_eq!(of(exit), wanted);
    // It may be a line of the output.
    assert!(of(["/src", "/src", "/src", "→ exit 2"]).1);
}

#[test]
fn what_a_cleared_screen_leaves_is_no_output() {
    let rows = ["$ clear; make", "", "", "no rule", "$ llm fix it"];
    let known = [("clear; make", &[][..])];
    assert_eq!(last_after(&rows, &known).unwrap().0, "no rule");
    assert!(clears("cd x && clear") && clears("tput reset") && clears("if a; then clear; fi"));
    assert!(!clears("git reset --hard") && !clears("tput setaf 1; make"));
}

/// Returns the rows of commands with their outputs, each after a prompt of one or more rows, and of the prompt that runs now.
fn session(prompt: &str, runs: &[(&str, &str)]) -> Vec<String> {
    let entered = |text: &str| format!("{prompt}{text}");
    let rows = runs.iter().flat_map(|(text, output)| {
        let text = entered(text);
        let rows = text.lines().chain(output.lines());
        rows.map(str::to_owned).collect::<Vec<_>>()
    });
    let last = entered("llm fix it");
    rows.chain(last.lines().map(str::to_owned)).collect()
}

#[test]
fn outputs_that_end_alike_lose_no_line() {
    let of = |program, name| (program, name);
    let failed = "no x\nFAILED";
    for (prompt, runs, is_partial) in [
        // Runs of the same command, more of them than are examined.
        ("me /src\n$ ", vec![of("ls /no", "no such file"); 14], false),
        ("me /src $ ", vec![of("ls /no", "no such file"); 14], false),
        ("$ ", vec![of("sh -c 'a; b'", failed); 14], false),
        (
            "$ ",
            vec![of("nosuch", "command not found: nosuch"); 5],
            false,
        ),
        // Two or three programs in turn: the prompt may have such a row at times.
        (
            "me /src\n$ ",
            [of("sh a", failed), of("zsh b", failed)].repeat(3),
            true,
        ),
        (
            "me /src $ ",
            vec![
                of("grep a", failed),
                of("ls b", failed),
                of("sed c", failed),
            ],
            true,
        ),
        (
            "$ ",
            [of("true", ""), of("sh a", failed), of("zsh b", failed)].repeat(2),
            true,
        ),
        (
            "$ ",
            [of("sh a", failed), of("zsh b", failed)].repeat(3),
            true,
        ),
        // A line with a sign, with a file in the directory, or with the directory itself.
        ("$ ", vec![of("eslint .", "no x\n✖ 3 problems"); 3], true),
        (
            "$ ",
            vec![of("cc a.c", "no x\n/src/a.c:1: error"); 3],
            false,
        ),
        (
            "$ ",
            vec![of("make", "no x\nmake: Leaving directory '/src'"); 3],
            false,
        ),
        (
            "me /src $ ",
            vec![of("npm t", "npm ERR! code 1\nnpm ERR! path /src"); 3],
            false,
        ),
    ] {
        let rows = session(prompt, &runs);
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        let known: Vec<_> = runs.iter().map(|(name, _)| (*name, &[][..])).collect();
        let wanted = runs.last().unwrap().1.to_owned();
        let told = last_after(&rows, &known);
        assert_eq!(told, Some((wanted, is_partial)), "{rows:#?}");
    }
}

#[test]
fn the_footers_of_answers_are_no_part_of_the_prompt() {
    // A command, a line that is not recorded, and a prompt, again and again.
    for (between, line) in [
        ("", UnrecordedLine::Blank),
        (" export A=1", typed(" export A=1")),
        ("typo", typed("typo")),
    ] {
        for prompt in ["me /src\n$ ", "me /src $ "] {
            let programs = [
                "ls", "cat", "grep", "sed", "awk", "make", "cc", "tr", "wc", "go",
            ];
            let outputs = programs.map(|name| format!("first\nno {name}"));
            let rounds = programs.iter().zip(&outputs);
            let mut runs: Vec<(&str, &str)> = rounds
                .flat_map(|(name, output)| {
                    [
                        (*name, &**output),
                        (between, ""),
                        ("llm fix it", "fine\nfake · 0.0 s"),
                    ]
                })
                .collect();
            runs.pop();
            let rows = session(prompt, &runs);
            let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
            let lines = [line];
            let known = runs.iter().filter(|(text, _)| *text != between);
            let known: Vec<(&str, &[_])> = known
                .map(|(text, _)| {
                    (
                        *text,
                        if text.starts_with("llm") {
                            &[][..]
                        } else {
                            &lines
                        },
                    )
                })
                .collect();
            let wanted = "first\nno go".to_owned();
            assert_eq!(
                last_after(&rows, &known),
                Some((wanted, false)),
                "{rows:#?}"
            );
        }
    }
}

#[test]
fn a_row_above_the_lines_of_three_programs_belongs_to_the_prompt() {
    let runs = [
        ("true", ""),
        ("ls x", "no x"),
        ("cat y", "no y"),
        ("cc z", "no z"),
    ];
    for prompt in ["me at work\n$ ", "╭─me at work\n╰○ "] {
        let rows = session(prompt, &runs);
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        let known = runs.map(|(name, _)| (name, &[][..]));
        assert_eq!(last_after(&rows, &known), Some(("no z".to_owned(), false)));
    }
    // The frame reveals it for one program too.
    let runs = [("ls x", "no x"); 3];
    let rows = session("╭─me at work\n╰○ ", &runs);
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let known = runs.map(|(name, _)| (name, &[][..]));
    assert_eq!(last_after(&rows, &known), Some(("no x".to_owned(), false)));
}

#[test]
fn a_private_line_is_found_behind_signs_and_before_them() {
    for (prompt, of_private, private) in [
        ("❯❯ ", "❯❯ ", " echo private"),
        ("/src main\n❯❯❯ ", "/src main\n❯❯❯ ", " echo private"),
        ("╭─ /src ─╮\n╰─❯ ", "╭─ /src ─╮\n╰─❯ ", " echo private"),
        // A row that may continue in the next one ends with a sign.
        (
            "╭─ /src ─────────────────────╮\n╰─❯ ",
            "╭─ /src ─────────────────────╮\n╰─❯ ",
            " echo private",
        ),
        (
            "/src on main took 12ms ✔\n❯ ",
            "/src on main took 12ms ✔\n❯ ",
            " echo private",
        ),
        ("▶▶ ", "▶▶ ", "echo private"),
        // The exit code, or a sign, is another one.
        ("/src ❯ ", "2 /src ❯ ", " echo private"),
        ("✔ me /src ❯ ", "✘ 2 me /src ❯ ", " echo private"),
        (
            "➜  src git:(main) ✗ ",
            "✘  src git:(main) ✗ ",
            " echo private",
        ),
        // The line begins or ends with a character that the fingerprint does not cover.
        ("$ ", "$ ", " echo privé"),
        ("$ ", "$ ", " echo private 漢字 é"),
        ("❯❯ ", "❯❯ ", " écho private"),
    ] {
        let mut rows = session(prompt, &[("true", ""), ("ls x", "no x")]);
        let last = rows.split_off(rows.len() - prompt.lines().count());
        rows.extend(
            format!("{of_private}{private}\nprivate")
                .lines()
                .map(str::to_owned),
        );
        rows.extend(last);
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        let lines = [typed(private)];
        let known: [(&str, &[_]); 2] = [("true", &[]), ("ls x", &lines)];
        let wanted = Some(("no x".to_owned(), false));
        assert_eq!(last_after(&rows, &known), wanted, "{rows:#?}");
    }
}

#[test]
fn an_output_behind_a_right_prompt_is_told_as_missing() {
    let usual = "~ > true                    0 at 11:59";
    for (other, own, tells_wraps, is_partial) in [
        (
            usual,
            "~ > ls x                    1 at 12:00",
            false,
            false,
        ),
        (
            usual,
            "~ > ls x                    1 at 12:00 first",
            false,
            true,
        ),
        (
            usual,
            "~ > ls x                    1 at 12:00 first",
            true,
            false,
        ),
        // A full row goes on in the next one.
        (
            usual,
            "~ > ls x                    1 at 12:00 first word of the o",
            false,
            true,
        ),
        // By chance it ends where a right prompt does.
        (
            usual,
            "~ > ls x                    1 at 12:00 first word of the",
            false,
            true,
        ),
        // Without the exit code, and only with it.
        (
            usual,
            "~ > ls x                      at 12:00",
            false,
            false,
        ),
        (
            "~ > true                       12:00",
            "~ > ls x                    1 12:00",
            false,
            false,
        ),
        // Another right prompt than usual, and the end of one.
        (
            "~ > true",
            "~ > ls x                                             [1]",
            false,
            false,
        ),
        (
            "~ > true",
            "~ > ls x                             [1] first",
            false,
            true,
        ),
        // The other run of the command was drawn in the same window.
        (
            "~ > ls x                    0 at 11:59 first",
            "~ > ls x                    1 at 12:00 first",
            false,
            true,
        ),
    ] {
        // The window was made wider: only the line that runs now has its right prompt at the edge.
        let right = other.trim_end_matches(" first").rsplit_once("        ");
        let last = format!(
            "~ > llm fix it{:>43}",
            right.map_or("", |(_, right)| right.trim())
        );
        let rows = [other, own, last.trim_end()];
        let screen = Screen {
            tells_wraps,
            ..screen(58, &rows)
        };
        let running = RunningLine {
            text: Some("llm fix it"),
            words: None,
            cwd: "/src",
        };
        let known = [
            if other.contains("ls x") {
                "ls x"
            } else {
                "true"
            },
            "ls x",
        ];
        let output = cut(&screen, &commands(&known), running, 1).unwrap();
        assert_eq!(output.is_partial, is_partial, "{own}");
    }
    // No right prompt is at the edge.
    let rows = [
        usual,
        "~ > ls x                    1 at 12:00",
        "~ > llm fix it",
    ];
    let known: [(&str, &[_]); 2] = [("true", &[]), ("ls x", &[])];
    assert_eq!(last_after(&rows, &known), Some((String::new(), true)));
}

#[test]
fn a_line_that_is_drawn_again_is_no_output() {
    let running = RunningLine {
        text: Some("llm fix it"),
        words: None,
        cwd: "/src",
    };
    let rows = ["/src", "❯ make x", "❯ make x", "no rule", "❯ llm fix it"];
    let output = cut(&screen(40, &rows), &commands(&["make x"]), running, 1).unwrap();
    assert_eq!(
        (&*output.lines, output.is_tail),
        (&["no rule".to_owned()][..], false)
    );
    // Nothing else may be between the two.
    let rows = [
        "$ cat log",
        "of old",
        "$ cat log",
        "no rule",
        "$ llm fix it",
    ];
    let output = cut(&screen(40, &rows), &commands(&["cat log"]), running, 1).unwrap();
    assert!(output.is_tail);
}

/// Cuts the command number `wanted`, counted from the last one: its output, and whether it is partial.
fn nth_after(
    screen: &Screen,
    known: &[(&str, &[UnrecordedLine])],
    wanted: usize,
) -> Option<(String, bool)> {
    let running = RunningLine {
        text: Some("llm fix it"),
        words: None,
        cwd: "/src",
    };
    let known: Vec<KnownCommand<'_>> = known
        .iter()
        .map(|(text, lines)| KnownCommand {
            text,
            cwd: "/src",
            exit: 0,
            unrecorded_after: Some(lines),
            open_line: &OpenLine::Marked(None),
        })
        .collect();
    let output = cut(screen, &known, running, wanted)?;
    Some((output.lines.join("\n"), output.is_partial))
}

#[test]
fn an_abandoned_line_with_the_text_of_a_command_is_not_its_line() {
    let rows = [
        "$ ls",
        "a.c",
        "$ make",
        "no rule",
        "$ make",
        "$ make",
        "$ llm fix it",
    ];
    let screen = screen(40, &rows);
    let lines = [typed("make"), typed("make")];
    let known: [(&str, &[_]); 2] = [("ls", &[]), ("make", &lines)];
    for (wanted, output) in [(1, "no rule"), (2, "a.c")] {
        let told = nth_after(&screen, &known, wanted);
        assert_eq!(told, Some((output.to_owned(), false)), "{wanted}");
    }
}

#[test]
fn a_prompt_with_an_exit_code_makes_no_older_run_a_better_choice() {
    // A private line precedes the last of more runs than are examined.
    let private = [typed(" nosuch")];
    let mut rows: Vec<String> = (0..13)
        .flat_map(|run| ["me /src $ mk".to_owned(), format!("run {run}")])
        .collect();
    let end = [
        "me /src $  nosuch",
        "private",
        "[127] me /src $ mk",
        "run 13",
        "me /src $ llm fix it",
    ];
    rows.extend(end.map(str::to_owned));
    let shown: Vec<&str> = rows.iter().map(String::as_str).collect();
    let mut known: Vec<(&str, &[_])> = vec![("mk", &[]); 14];
    known[12].1 = &private;
    let told = nth_after(&screen(40, &shown), &known, 1);
    assert_eq!(told, Some(("run 13".to_owned(), false)));
    // Two commands in turn, one of which fails, and lines that are not recorded.
    let asked = [typed("llm why")];
    let (mut rows, mut code) = (Vec::new(), "");
    let mut known: Vec<(&str, &[_])> = Vec::new();
    let mut outputs = Vec::new();
    for (run, name) in "FEFqqFFEEEFFFqFFEEFEF".chars().enumerate() {
        let text = match name {
            'F' => "sh -c 'exit 3'",
            'E' => "date",
            _ => "llm why",
        };
        rows.push(format!("{code}me /src $ {text}"));
        rows.push(format!("output {run}"));
        code = if name == 'F' { "[3] " } else { "" };
        match known.last_mut() {
            Some(last) if name == 'q' => last.1 = &asked,
            _ => {
                known.push((text, &[]));
                outputs.push(format!("output {run}"));
            }
        }
    }
    rows.push(format!("{code}me /src $ llm fix it"));
    // The first of two such lines is missing.
    rows.retain(|row| row != "output 3");
    let at = rows.iter().position(|row| row == "me /src $ llm why");
    rows.remove(at.unwrap());
    let shown: Vec<&str> = rows.iter().map(String::as_str).collect();
    for (wanted, output) in (1..8).zip(outputs.into_iter().rev()) {
        let told = nth_after(&screen(40, &shown), &known, wanted);
        assert_eq!(told, Some((output, false)), "{wanted} of {rows:#?}");
    }
}

#[test]
fn an_output_ends_at_a_line_of_another_command() {
    let rows = [
        "$ ls",
        "a.c",
        "$ cat log",
        "first",
        "$ ls",
        "old",
        "$ llm fix it",
    ];
    let known: [(&str, &[_]); 2] = [("ls", &[]), ("cat log", &[])];
    assert_eq!(last_after(&rows, &known), Some(("first".into(), true)));
    // The command names it.
    let names = "echo '$ ls'; echo end";
    let rows = ["$ ls", "a.c", "$ echo '$ ls'; echo end", "$ ls", "end"];
    let rows = [&rows[..], &["$ llm fix it"]].concat();
    let known: [(&str, &[_]); 2] = [("ls", &[]), (names, &[])];
    assert_eq!(last_after(&rows, &known), Some(("$ ls\nend".into(), false)));
}

#[test]
fn an_output_ends_at_an_abandoned_line_that_ctrl_l_has_left() {
    let list = ["-- file --", "bin/  games/"];
    let home = "~/src $";
    let of = |prompt: &str, output: &[&str], left: &[&str], option: OpenLine| {
        let entered = |line: &str| format!("{prompt} {line}");
        let (own, next) = (entered("ls x"), entered("llm fix it"));
        let (own, next): (Vec<&str>, Vec<&str>) = (own.lines().collect(), next.lines().collect());
        let left: Vec<String> = left.iter().map(|row| row.replace('@', prompt)).collect();
        let left: Vec<&str> = left.iter().flat_map(|row| row.lines()).collect();
        let rows = [&own[..], output, &left, &next].concat();
        let mut known = commands(&["ls x"]);
        known[0].open_line = &option;
        let running = RunningLine {
            text: Some("llm fix it"),
            words: None,
            cwd: "/src",
        };
        let output = cut(&screen(60, &rows), &known, running, 1).unwrap();
        (output.lines.join("\n"), output.is_partial)
    };
    let cut_at = |output: &str| (output.to_owned(), true);
    for prompt in [
        home,
        "/src %",
        "❯",
        "me@host:/src$",
        "/src on main\n>",
        "┌ /src\n└ $",
    ] {
        for left in [&["@ ls secret"][..], &["@ ls secret", list[0], list[1]]] {
            let told = of(prompt, &["no x", "no y"], left, OpenLine::Marked(None));
            assert_eq!(told, cut_at("no x\nno y"), "{prompt:?} {left:?}");
        }
    }
    // The line of the output that has no end precedes the prompt.
    let left = ["no y/src % ls secret", list[0]];
    let told = of("/src %", &["no x"], &left, OpenLine::Continued);
    assert_eq!(told, cut_at("no x"));
    // With such a prompt, it may be a line of the output, as of a text in Markdown or of diff.
    let told = of(">", &["a", "> b", "c"], &[], OpenLine::Marked(None));
    assert_eq!(told, cut_at("a\n> b\nc"));
    assert_eq!(
        of(">", &["a"], &["@ b"], OpenLine::Marked(None)),
        cut_at("a")
    );
    // Another row of the prompt is above its last one.
    let told = of(
        "/src on main\n>",
        &["a", "> b", "c"],
        &[],
        OpenLine::Marked(None),
    );
    assert_eq!(told, cut_at("a\n> b\nc"));
    // What follows the prompt is no line, or the command has it.
    let told = of(
        home,
        &["~/src is a directory", "$ x"],
        &[],
        OpenLine::Marked(None),
    );
    assert_eq!(told, ("~/src is a directory\n$ x".to_owned(), false));
}

#[test]
fn a_path_at_the_end_of_an_output_is_no_row_of_the_prompt() {
    for (path, is_partial) in [("/src", false), ("~/src", true)] {
        let rows = [
            "~/src",
            "❯ true",
            "~/src",
            "❯ pwd",
            path,
            "~/src",
            "❯ llm fix it",
        ];
        let told = last_after(&rows, &[("true", &[]), ("pwd", &[])]);
        assert_eq!(told, Some((path.to_owned(), is_partial)));
    }
}

#[test]
fn a_row_of_a_changed_prompt_is_told_as_doubtful() {
    let mut rows = session(
        "[me /src]\n# ",
        &[("true", ""), ("ls", "a.c"), ("ls x", "no x")],
    );
    let at = rows.len() - 2;
    assert_eq!(rows[at], "[me /src]");
    rows[at] = "me:/src (venv)".to_owned();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let known: [(&str, &[_]); 3] = [("true", &[]), ("ls", &[]), ("ls x", &[])];
    assert!(last_after(&rows, &known).unwrap().1);
    // A directory with a name of one letter is one too.
    assert_eq!(
        prompt::shape("[me ~/w]", "/home/w"),
        prompt::shape("[me ~/src]", "/home/src")
    );
}

#[test]
fn a_copy_of_the_screen_is_found_by_prompts_with_another_time() {
    let rows = [
        "[10:01] $ ls",
        "a.c",
        "[10:02] $ tmux cap",
        "[10:01] $ ls",
        "a.c",
        "[10:02] $ tmux cap",
        "[10:03] $ llm fix it",
    ];
    let known: [(&str, &[_]); 2] = [("ls", &[]), ("tmux cap", &[])];
    assert_eq!(last_after(&rows, &known), None);
}

#[test]
fn a_mark_that_may_belong_to_the_output_is_told_as_doubtful() {
    let of = |end: &str, tells_wraps| {
        let screen = Screen {
            tells_wraps,
            ..screen(40, &["$ printf x", end, "$ llm fix it"])
        };
        nth_after(&screen, &[("printf x", &[])], 1).unwrap()
    };
    assert_eq!(of("answer 42%", false), ("answer 42%".into(), true));
    assert_eq!(of("I like C%", false), ("I like C".into(), true));
    assert_eq!(of("I like C%", true), ("I like C%".into(), false));
    assert_eq!(
        of("I like C%                ", false),
        ("I like C".into(), false)
    );
}

#[test]
fn an_abandoned_line_behind_the_long_form_of_a_transient_prompt_is_no_output() {
    let rows = [
        "❯ true",
        "❯ ls x",
        "no x",
        "╭─ /src",
        "╰─❯ ls secret",
        "bin/",
        "╭─ /src",
        "╰─❯ llm fix it",
        "❯ llm fix it",
    ];
    let told = last_after(&rows, &[("true", &[]), ("ls x", &[])]);
    assert_eq!(told, Some(("no x".to_owned(), true)));
    // The line of the command is no longer on the screen.
    let rows = [&rows[2..], &[]].concat();
    let screen = Screen {
        is_cut: true,
        ..screen(40, &rows)
    };
    assert_eq!(nth_after(&screen, &[("ls x", &[])], 1), None);
}

#[test]
fn a_command_names_a_line_by_the_whole_of_it() {
    for (command, line, is_named) in [
        ("echo '$ ls'; echo end", "ls", true),
        ("echo '$ ls'", "ls", true),
        ("false", "ls", false),
        ("cat w.log", "w", false),
        ("ls -l; cat log", "ls", false),
        ("echo '$ ls-files'", "ls", false),
        ("echo '$ ls.c'", "ls", false),
    ] {
        assert_eq!(region::names(command, "me $ ", line), is_named, "{command}");
    }
    let rows = [
        "$ ls",
        "a.c",
        "$ false",
        "first",
        "$ ls",
        "old",
        "$ llm fix it",
    ];
    let known: [(&str, &[_]); 2] = [("ls", &[]), ("false", &[])];
    assert_eq!(last_after(&rows, &known), Some(("first".into(), true)));
}

#[test]
fn a_screen_full_of_the_text_of_a_command_is_searched_in_time() {
    // Each of the rows ends with what may be a right prompt, if a row has it behind many blanks.
    let rows: Vec<String> = (0..6000)
        .map(|row| {
            format!(
                "{row:06} [INFO] checking date of the file in the directory {}",
                "x".repeat(24)
            )
        })
        .collect();
    let mut shown = vec!["/src > date", "today", "/src > cat log"];
    shown.extend(rows.iter().map(String::as_str));
    shown.push("/src > llm fix it");
    let begun = std::time::Instant::now();
    let told = last_after(&shown, &[("date", &[]), ("cat log", &[])]).unwrap();
    assert_eq!((told.0.lines().count(), told.1), (6000, false));
    // Looking at all rows for each of them takes minutes in a test.
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
}

#[test]
fn a_search_that_is_cancelled_has_no_result() {
    let short = screen(80, &["$ make", "no rule", "$ llm fix it"]);
    let known = commands(&["make"]);
    let running = RunningLine {
        text: Some("llm fix it"),
        words: None,
        cwd: "/src",
    };
    assert!(super::cut(&short, &known, running, 1, &|| false).is_some());
    assert!(super::cut(&short, &known, running, 1, &|| true).is_none());
    // It ends while the rows are searched.
    let rows = vec!["some text of an output"; 10_000];
    let long = screen(80, &rows);
    let asked = std::cell::Cell::new(0);
    let is_cancelled = || asked.replace(asked.get() + 1) > 5;
    assert!(super::cut(&long, &known, running, 1, &is_cancelled).is_none());
    assert!(asked.get() < 100, "{}", asked.get());
}

#[test]
fn the_long_form_of_a_transient_prompt_above_an_abandoned_line_is_no_output() {
    let of = |above: &str| {
        let rows = ["❯ ls x", "no x", above, "❯ make", "❯ llm fix it"];
        last_after(&rows, &[("ls x", &[typed("make")])]).unwrap()
    };
    assert_eq!(of("/src on main"), ("no x".to_owned(), true));
    assert_eq!(of("/src"), ("no x\n/src".to_owned(), false));
}

#[test]
fn rows_that_may_belong_to_a_secret_are_told_as_missing() {
    let known: [(&str, &[_]); 1] = [("login [REDACTED:token]", &[])];
    let rows = ["$ login ghp_0123456789012345678", "denied", "$ llm fix it"];
    assert_eq!(last_after(&rows, &known), Some((String::new(), true)));
    let rows = ["$ login ghp_01234", "denied", "$ llm fix it"];
    assert_eq!(last_after(&rows, &known), Some(("denied".into(), false)));
    // A right prompt ends the line.
    let own = format!("$ login ghp_0123456789012345678{:>48}", "[12:00]");
    let rows = [own.as_str(), "denied", "$ llm fix it"];
    assert_eq!(last_after(&rows, &known), Some(("denied".into(), false)));
}

#[test]
fn a_prompt_that_was_broken_at_a_filler_is_no_output() {
    let prompt = "╭─ /src ──────────────── ✔ ─╮\n╰─❯ ";
    let mut rows = session(prompt, &[("true", ""), ("ls x", "no x")]);
    rows.insert(rows.len() - 2, "╭─ /src ──────".to_owned());
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let known: [(&str, &[_]); 2] = [("true", &[]), ("ls x", &[])];
    assert_eq!(last_after(&rows, &known), Some(("no x".into(), false)));
}

#[test]
fn a_prompt_without_a_line_may_end_with_a_letter() {
    // screen shows the low byte of `❯`.
    let screen = Screen {
        is_lossy: true,
        ..screen(40, &["o ls x", "no x", "o", "o llm fix it"])
    };
    let blank = [UnrecordedLine::Blank];
    let told = nth_after(&screen, &[("ls x", &blank)], 1);
    assert_eq!(told, Some(("no x".into(), false)));
}

#[test]
fn an_older_run_than_those_that_are_known_is_no_copy() {
    let runs: Vec<(&str, &str)> = [("true", "")]
        .into_iter()
        .chain([(": x", ""); 70])
        .chain([("true", ""); 3])
        .collect();
    let rows = session("/src\n$ ", &runs);
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let known: Vec<(&str, &[_])> = runs[10..]
        .iter()
        .map(|(text, _)| (*text, &[][..]))
        .collect();
    assert_eq!(last_after(&rows, &known), Some((String::new(), false)));
}

#[test]
fn the_rest_of_a_line_is_no_right_prompt() {
    let count = |rows: &[&str], text: &str| {
        let screen = screen(20, rows);
        let screen = SearchedScreen::new(&screen, &|| false);
        echoes(&screen, &Expected::new(&screen, text)).len()
    };
    assert_eq!(count(&["$ mk & wait        │"], "mk"), 0);
    let rows = ["$ true             │", "$ mk aaaaaaaaaaaaa │"];
    assert_eq!(count(&rows, "mk aaaaaaaaaaaaa"), 1);
    // All rows have one, of which the numbers differ, and those after the line count too.
    let clocks = [
        "$ mk aaaaaaaa 12:00",
        "$ ls        12:01",
        "$ w         12:02",
    ];
    assert_eq!(count(&clocks, "mk aaaaaaaa"), 1);
    assert_eq!(count(&["$ mk aaaaaaaa x2:00", clocks[1]], "mk aaaaaaaa"), 0);
}

#[test]
fn an_empty_line_behind_an_exit_code_is_found_without_its_text() {
    // The widget of Alt-f shows a message below it.
    let running = RunningLine {
        text: None,
        words: None,
        cwd: "/src",
    };
    let rows = ["$ make", "no rule", "2 $ ", "asking…"];
    let output = cut(&screen(40, &rows), &commands(&["make"]), running, 1);
    assert_eq!(output.unwrap().lines, ["no rule"]);
}

/// Cuts a command with an exit code: its output, and whether it is partial.
fn with_exit(rows: &[&str], known: &[(&str, i32)], wanted: usize) -> Option<(String, bool)> {
    let texts: Vec<&str> = known.iter().map(|(text, _)| *text).collect();
    let mut commands = commands(&texts);
    for (command, (_, exit)) in commands.iter_mut().zip(known) {
        command.exit = *exit;
    }
    let running = RunningLine {
        text: Some("llm fix it"),
        words: None,
        cwd: "/src",
    };
    let output = cut(&screen(80, rows), &commands, running, wanted)?;
    Some((output.lines.join("\n"), output.is_partial))
}

#[test]
fn a_row_that_the_prompt_has_at_times_is_told_as_doubtful() {
    let of = |row: &str, exit| {
        let end = ["~ % prog", "giving up", row, "~ % llm fix it"];
        let rows = [&["~ % echo one", "one", "~ % true"][..], &end].concat();
        let known = [("echo one", 0), ("true", 0), ("prog", exit)];
        with_exit(&rows, &known, 1).unwrap().1
    };
    for (row, exit, is_partial) in [
        ("exit 3", 3, true),
        ("✘ 3", 3, true),
        ("[3]", 3, true),
        ("took 0.3s", 0, true),
        ("⏱ 1m3s", 0, true),
        // The number is another one, or more is in the row.
        ("exit 3", 1, false),
        ("3 files", 0, false),
        ("make: *** Error 3", 3, false),
        ("real 0.3s", 0, false),
        ("one", 0, true),
        ("done", 0, false),
    ] {
        assert_eq!(of(row, exit), is_partial, "{row} {exit}");
    }
    // The same row is above the line of another program too.
    let rows = [
        "~ % cd data",
        "on main",
        "data % prog",
        "giving up",
        "on main",
        "data % llm fix it",
    ];
    let told = with_exit(&rows, &[("cd data", 0), ("prog", 1)], 1).unwrap();
    assert!(told.1, "{told:?}");
    // A bracket or a number proves nothing.
    for row in ["}", "42"] {
        let rows = [
            "~ % cat a",
            "x",
            row,
            "~ % head a",
            "y",
            row,
            "~ % llm fix it",
        ];
        let told = with_exit(&rows, &[("cat a", 0), ("head a", 0)], 1);
        assert_eq!(told, Some((format!("y\n{row}"), false)));
    }
}

#[test]
fn another_prompt_in_between_hides_no_row_of_the_prompt() {
    let before = ["/src", "❯ true", "/src", "❯ PROMPT='> '", "> echo np", "np"];
    let after = [
        "> PROMPT=$OLD",
        "/src",
        "❯ echo n1",
        "n1",
        "/src",
        "❯ echo n2",
        "n2",
        "/src",
        "❯ llm fix it",
    ];
    let rows = [&before[..], &after].concat();
    let known = [
        ("true", 0),
        ("PROMPT='> '", 0),
        ("echo np", 0),
        ("PROMPT=$OLD", 0),
        ("echo n1", 0),
        ("echo n2", 0),
    ];
    for (wanted, output) in [(1, "n2"), (2, "n1"), (3, ""), (4, "np"), (6, "")] {
        let told = with_exit(&rows, &known, wanted);
        assert_eq!(told, Some((output.to_owned(), false)), "{wanted}");
    }
    // A line without the row, and the same sign.
    let rows = [
        "$ true",
        "$ true",
        "/src",
        "$ ls",
        "a.c",
        "/src",
        "$ llm fix it",
    ];
    let known = [("true", 0), ("true", 0), ("ls", 0)];
    assert!(with_exit(&rows, &known, 1).unwrap().1);
}

#[test]
fn a_prompt_longer_than_the_window_is_no_output() {
    let of = |rows: &[&str]| {
        let rows = rows.iter().map(|text| ScreenRow {
            text: (*text).to_owned(),
            wrapped: text.chars().count() == 20,
        });
        let screen = Screen {
            rows: rows.collect(),
            ..screen(20, &[])
        };
        let cwd = "/home/me/a-long/directory-and-more";
        let mut known = commands(&["true", "make"]);
        known[1].cwd = cwd;
        let running = RunningLine {
            text: Some("llm fix"),
            words: None,
            cwd,
        };
        let output = cut(&screen, &known, running, 1).unwrap();
        (output.lines.join("\n"), output.is_partial)
    };
    let rows = [
        "me:/src # true",
        "me:~/a-long/director",
        "y-and-more # make",
        "no rule",
        "me:~/a-long/director",
        "y-and-more # llm fix",
    ];
    assert_eq!(of(&rows), ("no rule".to_owned(), true));
    let rows = [
        "me:/src",
        "❯ true",
        "me:~/a-long/director",
        "y-and-more",
        "❯ make",
        "no rule",
        "me:~/a-long/director",
        "y-and-more",
        "❯ llm fix",
    ];
    assert_eq!(of(&rows), ("no rule".to_owned(), true));
    // A line of the output that is as wide.
    let rows = [
        "❯ true",
        "❯ make",
        "no rule for the next",
        "one",
        "❯ llm fix",
    ];
    assert_eq!(of(&rows), ("no rule for the nextone".to_owned(), false));
}

#[test]
fn an_output_with_the_line_of_its_command_is_told_as_doubtful() {
    let rows = ["$ cat t", "$ cat t", "content", "$ llm fix it"];
    let told = with_exit(&rows, &[("cat t", 0)], 1);
    assert_eq!(told, Some(("content".to_owned(), true)));
    let rows = ["$ cat t", "$ cat t", "$ llm fix it"];
    assert_eq!(with_exit(&rows, &[("cat t", 0)], 1), None);
    // Each run prints it.
    let rows = [
        "$ sh s",
        "a",
        "$ sh s",
        "OLD",
        "$ sh s",
        "NEW1",
        "$ sh s",
        "NEW2",
        "$ llm fix it",
    ];
    let known = [("sh s", 0), ("sh s", 0)];
    assert!(with_exit(&rows, &known, 1).unwrap().1);
    assert!(with_exit(&rows, &known, 2).is_none_or(|told| told.1));
    // An earlier command has it in its text.
    let rows = [
        "me # print -rl y 'me # cat f' > f",
        "me # cat f",
        "y",
        "me # cat f",
        "me # llm fix it",
    ];
    let known = [("print -rl y 'me # cat f' > f", 0), ("cat f", 0)];
    assert_eq!(with_exit(&rows, &known, 2), Some((String::new(), true)));
    // It was entered as often as it is shown, or zle has drawn a long line again.
    let rows = ["$ make", "$ make", "$ make", "no", "$ llm fix it"];
    let known = [("make", 0), ("make", 0), ("make", 0)];
    assert_eq!(with_exit(&rows, &known, 1), Some(("no".to_owned(), false)));
    let rows = ["~ $ make", "$ make", "no", "$ ls", "$ llm fix it"];
    let known = [("make", 0), ("ls", 0)];
    assert_eq!(with_exit(&rows, &known, 2), Some(("no".to_owned(), false)));
    // So it does with a transient prompt.
    let rows = ["/src on main", "❯ make", "❯ make", "no", "❯ llm fix it"];
    let told = with_exit(&rows, &[("make", 0)], 1);
    assert_eq!(told, Some(("no".to_owned(), false)));
}

#[test]
fn a_last_row_like_a_short_prompt_is_told_as_doubtful() {
    let rows = ["$ cat f", "a", "$", "$ llm fix it"];
    let told = with_exit(&rows, &[("cat f", 0)], 1);
    assert_eq!(told, Some(("a".to_owned(), true)));
    let rows = [
        "/src",
        "❯ true",
        "/src",
        "❯ cat f",
        "a",
        "❯",
        "/src",
        "❯ llm fix it",
    ];
    assert!(with_exit(&rows, &[("true", 0), ("cat f", 0)], 1).unwrap().1);
    // The whole prompt was left behind, or one that no output has.
    let rows = [
        "/src",
        "❯ true",
        "/src",
        "❯ cat f",
        "a",
        "/src",
        "❯",
        "/src",
        "❯ llm fix it",
    ];
    let told = with_exit(&rows, &[("true", 0), ("cat f", 0)], 1);
    assert_eq!(told, Some(("a".to_owned(), false)));
    let rows = ["me:/src # cat f", "a", "me:/src #", "me:/src # llm fix it"];
    let told = with_exit(&rows, &[("cat f", 0)], 1);
    assert_eq!(told, Some(("a".to_owned(), false)));
}

#[test]
fn what_a_private_job_prints_behind_a_short_prompt_is_no_output() {
    let lines = [typed(" (sleep 1; echo private) &")];
    let rows = [
        "$ true",
        "$  (sleep 1; echo private) &",
        "[1] 4711",
        "$ echo x",
        "x",
        "$ private",
        "[1]  + done       ( sleep 1; echo private; )",
        "$ llm fix it",
    ];
    let known: [(&str, &[_]); 2] = [("true", &lines), ("echo x", &[])];
    assert_eq!(last_after(&rows, &known), Some(("x".to_owned(), true)));
    // It was entered before the first command that is known.
    let told = last_after(&rows[1..], &[("echo x", &[])]);
    assert_eq!(told, Some(("x".to_owned(), true)));
}

#[test]
fn the_long_form_of_a_transient_prompt_above_a_finished_job_is_no_output() {
    let long = "◆ ~                                     ✔ root@vm";
    let rows = [
        "❯ sleep 1 &",
        "[1] 4711",
        "❯ echo x",
        "x",
        "",
        long,
        "❯",
        "[1]  + done       sleep 1",
        "❯ llm fix it",
    ];
    let known: [(&str, &[_]); 2] = [("sleep 1 &", &[]), ("echo x", &[])];
    assert_eq!(last_after(&rows, &known), Some(("x".to_owned(), true)));
}

#[test]
fn a_line_of_an_older_run_whose_output_has_the_line_too_is_told_as_doubtful() {
    // What each run printed, after which other lines were entered.
    let runs: [&[&str]; 7] = [
        &["usage\nexample\nhost:~# cat f"],
        &["usage\nhost:~# cat f\ncontent\nmore"],
        &["host:~# cat f\ncontent\nmore"],
        &["host:~# cat f"],
        &["a\nhost:~# cat f\nb\nhost:~# cat f\nc"],
        &["usage\nhost:~# cat f\nx"; 3],
        &["usage\n    host:~# cat f\n    x"],
    ];
    let (one, two) = (
        "aish-helper output --json >~/o1",
        "aish-helper output --json --command 2 >~/o2",
    );
    let mut lines = vec![("echo", ""), (one, "")];
    for outputs in runs {
        lines.extend(outputs.iter().map(|output| ("cat f", *output)));
        lines.extend([(one, ""), (two, "")]);
    }
    // It is the second one that is asked for.
    lines.pop();
    let known: Vec<(&str, &[_])> = lines.iter().map(|(text, _)| (*text, &[][..])).collect();
    let rows = session("host:~# ", &lines);
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let screen = Screen {
        tells_wraps: true,
        is_confirmed: true,
        ..screen(80, &rows)
    };
    for wanted in 1..=known.len() {
        let told = nth_after(&screen, &known, wanted);
        let (text, output) = lines[lines.len() - wanted];
        let is_right = told.as_ref().is_none_or(|told| told.1 || told.0 == output);
        assert!(is_right, "{wanted} {text} {told:?}");
    }
}

#[test]
fn the_lines_of_older_runs_above_one_with_another_prompt_are_told_as_doubtful() {
    for last in ["[2] make", "✘ make", "me/x » make"] {
        let rows = [
            "me $ make",
            "1",
            "me $ make",
            "2",
            last,
            "3",
            "me $ llm fix it",
        ];
        let known = [("make", 0); 3];
        assert!(with_exit(&rows, &known, 1).unwrap().1, "{last}");
        assert_eq!(with_exit(&rows, &known, 2), Some(("1".to_owned(), true)));
    }
    // The lines of all runs were found, or the row is a message.
    let rows = ["$ ps", "10 pts/0 ps", "$ ps", "11 pts/0 ps", "$ llm fix it"];
    for (wanted, output) in [(1, "11 pts/0 ps"), (2, "10 pts/0 ps")] {
        let told = with_exit(&rows, &[("ps", 0); 2], wanted);
        assert_eq!(told, Some((output.to_owned(), false)));
    }
    let message = "zsh: command not found: make";
    let rows = ["$ make", message, "$ llm fix it"];
    let told = with_exit(&rows, &[("make", 0); 2], 1);
    assert_eq!(told, Some((message.to_owned(), false)));
}

#[test]
fn a_hidden_line_with_the_text_of_a_command_is_told_from_it_where_the_running_line_begins_with_a_blank_too()
 {
    let cut_as =
        |line: RunningLine<'_>, rows: &[&str], known: &[(&str, &[UnrecordedLine])], wanted| {
            let mut commands = commands(&known.iter().map(|(text, _)| *text).collect::<Vec<_>>());
            for (command, (_, after)) in commands.iter_mut().zip(known) {
                command.unrecorded_after = Some(after);
            }
            let screen = Screen {
                tells_wraps: true,
                is_confirmed: true,
                ..screen(80, rows)
            };
            cut(&screen, &commands, line, wanted).map(|output| output.lines.join("\n"))
        };
    let running = |text, words| RunningLine {
        text,
        words,
        cwd: "/src",
    };
    let hidden = [typed(" make")];
    let session = |prompt: &str, lines: &[&str], last: &str| -> Vec<String> {
        let line = |line: &&str| match line.strip_prefix("> ") {
            Some(line) => format!("{prompt}{line}"),
            None => (*line).to_owned(),
        };
        lines
            .iter()
            .map(line)
            .chain([format!("{prompt}{last}")])
            .collect()
    };
    let lines = [
        "> true", "> make", ">  make", "private", "> make", "> ls", "a.c",
    ];
    let known: [(&str, &[_]); 4] = [("true", &[]), ("make", &hidden), ("make", &[]), ("ls", &[])];
    for prompt in ["$ ", "/src\n╰─❯ ", "/src ❯  "] {
        let rows = session(prompt, &lines, " q 3").join("\n");
        let rows: Vec<&str> = rows.lines().collect();
        for words in [None, Some("output --command 1")] {
            let line = running(None, words);
            for (wanted, output) in [(1, "a.c"), (2, ""), (3, ""), (4, "")] {
                let told = cut_as(line, &rows, &known, wanted);
                assert_eq!(told.as_deref(), Some(output), "{prompt} {wanted}");
            }
        }
    }
    // Every text that is known was entered so too, or nobody knows that it was.
    let lines = ["> make", ">  make", "private", "> make"];
    for (lines, after) in [(&lines[..], &hidden[..]), (&lines[1..], &[])] {
        let rows = session("$ ", lines, " q 3").join("\n");
        let rows: Vec<&str> = rows.lines().collect();
        let known = [("make", after), ("make", &[])];
        for wanted in [1, 2] {
            let told = cut_as(running(None, None), &rows, &known, wanted);
            assert_eq!(told, None, "{lines:?} {wanted}");
        }
    }
    // The line of the command is no longer on the screen.
    let told = cut_as(
        running(None, None),
        &["$  make", "private", "$  q 3"],
        &[("make", &hidden)],
        1,
    );
    assert_eq!(told, None);
    // Lines with a leading space are recorded in some shells.
    let rows = ["$ make", "no", "$  make", "none", "$  llm fix it"];
    let known: [(&str, &[_]); 2] = [("make", &[]), (" make", &[])];
    for (wanted, output) in [(1, "none"), (2, "no")] {
        let told = cut_as(running(Some(" llm fix it"), None), &rows, &known, wanted);
        assert_eq!(told.as_deref(), Some(output));
    }
}

/// Returns a window of 80 columns as GNU screen tells it: without the rows that were wrapped, which full rows may be, and with the low
/// byte of each character.
fn in_screen(rows: &[String]) -> Screen {
    let lossy = Screen {
        is_lossy: true,
        ..screen(80, &[])
    };
    let row = |text: &String| ScreenRow {
        text: text::shown(&SearchedScreen::new(&lossy, &|| false), text),
        wrapped: text.ends_with(' ') || text.chars().count() == 80,
    };
    Screen {
        rows: rows.iter().map(row).collect(),
        is_lossy: true,
        ..screen(80, &[])
    }
}

/// Returns the outputs of commands in `/src/paper`, the last one first, and whether each is marked as incomplete.
fn outputs_in_screen(
    rows: &[String],
    known: &[(&str, i32, &[UnrecordedLine])],
) -> Vec<Option<(String, bool)>> {
    let texts: Vec<&str> = known.iter().map(|(text, ..)| *text).collect();
    let mut commands = commands(&texts);
    for (command, (_, exit, after)) in commands.iter_mut().zip(known) {
        (command.exit, command.unrecorded_after) = (*exit, Some(*after));
        command.cwd = "/src/paper";
    }
    let running = RunningLine {
        words: Some("output --command 1"),
        cwd: "/src/paper",
        ..RunningLine::default()
    };
    let screen = in_screen(rows);
    let told = (1..=known.len()).map(|wanted| {
        let output = cut(&screen, &commands, running, wanted)?;
        Some((output.lines.join("\n"), output.is_partial))
    });
    told.collect()
}

/// Returns the upper row of a prompt like powerlevel10k's.
fn upper_row(fill: usize, right: &str) -> String {
    format!("╭─ /src/paper  main {} {right}", "─".repeat(fill))
}

fn owned(rows: &[&str]) -> Vec<String> {
    rows.iter().map(|row| (*row).to_owned()).collect()
}

fn told(text: &str, is_partial: bool) -> Option<(String, bool)> {
    Some((text.to_owned(), is_partial))
}

#[test]
fn a_prompt_that_is_longer_than_the_window_after_a_failure_only_is_no_output() {
    // The upper row is as wide as the window allows, and longer with an exit code.
    let usual = |time: &str| upper_row(40, &format!("✔ took 1s {time} "));
    let failed = |code: &str, time: &str| upper_row(40, &format!("✘ {code} took 2s {time}"));
    let line = |rows: &mut Vec<String>, upper: &[String], lower: &[&str]| {
        rows.extend_from_slice(upper);
        rows.extend(owned(lower));
    };
    let mut rows = Vec::new();
    line(&mut rows, &[usual("11:16:45")], &["╰─❯ p a 1", "a row 1"]);
    line(&mut rows, &[usual("11:16:45")], &["╰─❯  private"]);
    let message = "zsh: command not found: nosuch";
    line(&mut rows, &[usual("11:16:45")], &["╰─❯ nosuch", message]);
    let upper = [failed("127", "11:16"), ":46".to_owned()];
    line(&mut rows, &upper, &["╰─❯ p b 1; false", "b row 1"]);
    let upper = [failed("1", "11:16:4"), "6".to_owned()];
    line(&mut rows, &upper, &["╰─❯ nosuch", message]);
    let upper = [failed("127", "11:16"), ":47".to_owned()];
    line(&mut rows, &upper, &["╰─❯  q 3 n61"]);
    let private = [typed(" private")];
    let known: [(&str, i32, &[_]); 4] = [
        ("p a 1", 0, &private),
        ("nosuch", 127, &[]),
        ("p b 1; false", 1, &[]),
        ("nosuch", 127, &[]),
    ];
    let outputs = [message, "b row 1", message, "a row 1"];
    let expected = outputs.map(|text| told(text, text != "a row 1"));
    assert_eq!(outputs_in_screen(&rows, &known), expected);
}

#[test]
fn a_longer_prompt_elsewhere_does_not_make_the_upper_row_of_a_prompt_a_part_of_the_output() {
    let usual = |time: &str| upper_row(40, &format!("✔ took 1s {time} "));
    let mut rows = vec![usual("11:16:04")];
    rows.extend(owned(&["╰─❯ p a 2; false", "a row 1", "a row 2"]));
    rows.extend([upper_row(40, "✘ 1 took 2s 11:16:0"), "5".to_owned()]);
    rows.extend(owned(&["╰─❯ p b 1", "b row 1"]));
    rows.extend([usual("11:16:05"), "╰─❯  private".to_owned()]);
    rows.push(usual("11:16:06"));
    rows.extend(owned(&["╰─❯ p c 2", "c row 1", "c row 2"]));
    for _ in 0..2 {
        rows.extend([usual("11:16:06"), "╰─❯".to_owned()]);
    }
    rows.push(usual("11:16:07"));
    rows.extend(owned(&["╰─❯ p d 1", "d row 1"]));
    rows.extend([usual("11:16:07"), "╰─❯".to_owned()]);
    rows.extend([usual("11:16:07"), "╰─❯  q 2 n37".to_owned()]);
    let blank = UnrecordedLine::Blank;
    let private = [typed(" private")];
    let known: [(&str, i32, &[_]); 4] = [
        ("p a 2; false", 1, &[]),
        ("p b 1", 0, &private),
        ("p c 2", 0, &[blank, blank]),
        ("p d 1", 0, &[blank]),
    ];
    let expected = [
        told("d row 1", false),
        told("c row 1\nc row 2", false),
        told("b row 1", false),
        told("a row 1\na row 2", true),
    ];
    assert_eq!(outputs_in_screen(&rows, &known), expected);
}

#[test]
fn a_prompt_that_was_drawn_again_in_a_window_of_another_width_is_no_output() {
    let usual = |time: &str| upper_row(40, &format!("✔ took 1s {time} "));
    let mut rows = vec![usual("11:16:14")];
    rows.extend(owned(&["╰─❯ p a 2", "a row 1", "a row 2"]));
    // 60 columns, and 80 again.
    rows.push(format!(
        "╭─ /src/paper  main {}╭─ /src/paper  main ",
        "─".repeat(40)
    ));
    rows.push(format!("{} ✔ took 1s 11:16:15", "─".repeat(40)));
    rows.extend(owned(&["╰─❯ p b 1", "b row 1"]));
    rows.extend([
        upper_row(20, "✔ took 1s 11:16:16"),
        "╰─❯  private".to_owned(),
    ]);
    rows.push(usual("11:16:16"));
    rows.extend(owned(&["╰─❯ p c 1", "c row 1"]));
    rows.push(usual("11:16:17"));
    rows.extend(owned(&["╰─❯ p d 2", "d row 1", "d row 2"]));
    // 100 columns, and 80 again.
    let first = format!("╭─ /src/paper  main {}", "─".repeat(60));
    rows.extend([first.clone(), first, " ✔ took 1s 11:16:17".to_owned()]);
    rows.extend(owned(&["╰─❯ p e 1", "e row 1"]));
    rows.extend([usual("11:16:18"), "╰─❯  q 3 n43".to_owned()]);
    let private = [typed(" private")];
    let known: [(&str, i32, &[_]); 5] = [
        ("p a 2", 0, &[]),
        ("p b 1", 0, &private),
        ("p c 1", 0, &[]),
        ("p d 2", 0, &[]),
        ("p e 1", 0, &[]),
    ];
    let expected = [
        told("e row 1", false),
        told("d row 1\nd row 2", true),
        told("c row 1", false),
        told("b row 1", false),
        told("a row 1\na row 2", true),
    ];
    assert_eq!(outputs_in_screen(&rows, &known), expected);
    // A line of the output that is as wide, or nearly, is above the prompt.
    for width in [79, 80] {
        let long = "main ".repeat(20)[..width].replace(' ', "-");
        let mut rows = vec![usual("11:16:14")];
        rows.extend(owned(&["╰─❯ p a 2", "a row 1", &long]));
        rows.push(usual("11:16:15"));
        rows.extend(owned(&["╰─❯ p b 1", "b row 1"]));
        rows.extend([usual("11:16:16"), "╰─❯  q 2 n44".to_owned()]);
        let known: [(&str, i32, &[_]); 2] = [("p a 2", 0, &[]), ("p b 1", 0, &[])];
        let outputs = outputs_in_screen(&rows, &known);
        let text = format!("a row 1\n{long}");
        assert_eq!(outputs[1].as_ref().map(|(text, _)| text), Some(&text));
    }
}

#[test]
fn a_line_as_wide_as_the_window_above_a_prompt_with_the_directory_is_output() {
    let wide = "exa12q".repeat(14)[..80].to_owned();
    let rows = [
        "/src/paper #  p a 1",
        "a row 1",
        "/src/paper #  print -r -- ${(l:80::exa12q:)}",
        &wide,
        "/src/paper #  p b 2",
        "b row 1",
        "b row 2",
        "/src/paper #   q 2 n12",
    ];
    let known: [(&str, i32, &[_]); 3] = [
        ("p a 1", 0, &[]),
        ("print -r -- ${(l:80::exa12q:)}", 0, &[]),
        ("p b 2", 0, &[]),
    ];
    let expected = [
        told("b row 1\nb row 2", false),
        told(&wide, true),
        told("a row 1", false),
    ];
    assert_eq!(outputs_in_screen(&owned(&rows), &known), expected);
}

#[test]
fn a_notice_of_a_job_ends_an_output_below_a_prompt_whose_sign_is_told_as_a_letter() {
    let rows = [
        "/src/paper ❯ sleep 0.6 &",
        "[1] 5200",
        "/src/paper ❯ p b 2",
        "b row 1",
        "b row 2",
        "/src/paper ❯",
        "[1]  + done       sleep 0.6",
        "/src/paper ❯ p c 2",
        "c row 1",
        "c row 2",
        "/src/paper ❯  q 3 n25",
    ];
    let known: [(&str, i32, &[_]); 3] = [
        ("sleep 0.6 &", 0, &[]),
        ("p b 2", 0, &[]),
        ("p c 2", 0, &[]),
    ];
    let outputs = outputs_in_screen(&owned(&rows), &known);
    let texts: Vec<Option<&str>> = (outputs.iter())
        .map(|output| output.as_ref().map(|(text, _)| text.as_str()))
        .collect();
    let expected = ["c row 1\nc row 2", "b row 1\nb row 2", "[1] 5200"];
    assert_eq!(texts, expected.map(Some));
}

#[test]
fn a_right_prompt_that_a_narrower_window_has_broken_off_is_no_output() {
    let right = |line: &str, time: &str| format!("{line:<71}{time}");
    let mut rows = vec![right("/src/paper # p a 1", "11:29:17")];
    rows.extend(owned(&["a row 1", "/src/paper # p b 2"]));
    rows.extend(owned(&["           11:29:18", "b row 1", "b row 2"]));
    rows.push(right("/src/paper # p c 1", "11:29:19 "));
    rows.push("c row 1".to_owned());
    rows.push(right("/src/paper #  q 3 n43", "11:29:19"));
    let known: [(&str, i32, &[_]); 3] = [("p a 1", 0, &[]), ("p b 2", 0, &[]), ("p c 1", 0, &[])];
    let expected = [
        told("c row 1", false),
        told("b row 1\nb row 2", true),
        told("a row 1", false),
    ];
    assert_eq!(outputs_in_screen(&rows, &known), expected);
    // An output that begins so, below a line with a right prompt.
    rows[2] = right("/src/paper # p b 2", "11:29:18");
    let outputs = outputs_in_screen(&rows, &known);
    assert_eq!(
        outputs[1],
        told("           11:29:18\nb row 1\nb row 2", false)
    );
}

#[test]
fn a_line_that_was_abandoned_with_the_text_of_the_command_above_ends_its_output() {
    let rows = [
        "/src ❯ p c 2",
        "c row 1",
        "/src ❯ rep 2 3",
        "run1 row 1",
        "/src ❯ rep 2 3",
        "/src ❯ rep 2 3",
        "run2 row 1",
        "run2 row 2",
        "/src ❯ rep 2 3",
        "/src ❯ llm fix it",
    ];
    let after = [typed("rep 2 3")];
    let mut known = commands(&["p c 2", "rep 2 3", "rep 2 3"]);
    for command in &mut known[1..] {
        command.unrecorded_after = Some(&after);
    }
    let cut_as = |rows: &[&str], wanted| {
        let running = RunningLine {
            text: Some("llm fix it"),
            words: None,
            cwd: "/src",
        };
        let screen = Screen {
            tells_wraps: true,
            is_confirmed: true,
            ..screen(80, rows)
        };
        let output = cut(&screen, &known, running, wanted)?;
        Some((output.lines.join("\n"), output.is_partial))
    };
    assert_eq!(cut_as(&rows, 1), told("run2 row 1\nrun2 row 2", false));
    assert_eq!(cut_as(&rows, 2), told("run1 row 1", false));
    assert_eq!(cut_as(&rows, 3), told("c row 1", false));
    // The second run follows a prompt that is unlike all others.
    let mut rows = rows;
    rows[5] = "NEW> rep 2 3";
    let output = cut_as(&rows, 1);
    assert!(output.is_none_or(|(_, is_partial)| is_partial));
}

#[test]
fn the_output_above_a_prompt_behind_which_a_job_has_printed_is_found() {
    let told_by = |rows: &[&str], running: RunningLine<'_>, is_confirmed, wanted| {
        let mut known = commands(&["rep 3 4", "(sleep 1; p bg 50) &", "rep 3 4"]);
        for command in &mut known {
            command.unrecorded_after = Some(&[]);
        }
        let screen = Screen {
            tells_wraps: is_confirmed,
            is_confirmed,
            ..screen(80, rows)
        };
        let output = cut(&screen, &known, running, wanted)?;
        Some((output.lines.join("\n"), output.is_partial))
    };
    let line = |text| RunningLine {
        text,
        words: None,
        cwd: "/src",
    };
    let above = [
        "vm# rep 3 4",
        "run1 row 1",
        "vm# (sleep 1; p bg 50) &",
        "[1] 5200",
        "vm# rep 3 4",
        "run2 row 1",
        "run2 row 2",
    ];
    let printed: Vec<String> = (2..=50).map(|row| format!("bg row {row}")).collect();
    let printed: Vec<&str> = printed.iter().map(String::as_str).collect();
    let of = |behind: &str, last: &[&str], running, is_confirmed, wanted| {
        let rows = [&above, &[behind][..], &printed, last].concat();
        told_by(&rows, running, is_confirmed, wanted)
    };
    let typed = line(Some("llm fix it"));
    for is_confirmed in [true, false] {
        let of = |wanted| of("vm# bg row 1", &["llm fix it"], typed, is_confirmed, wanted);
        assert_eq!(of(1), told("run2 row 1\nrun2 row 2", true));
        assert_eq!(of(2), told("[1] 5200", false));
        assert_eq!(of(3), told("run1 row 1", false));
    }
    let words = RunningLine {
        words: Some("output --command 1"),
        ..line(None)
    };
    let last = ["aish-helper output --command 1"];
    let output = of("vm# bg row 1", &last, words, true, 1);
    assert_eq!(output, told("run2 row 1\nrun2 row 2", true));
    // Without the line that runs now, an older line might be taken for it.
    let none = |behind: &str, last: &[&str]| of(behind, last, typed, true, 1).is_none();
    assert!(none("vm# bg row 1", &["something else"]));
    assert!(none("bg row 1", &["llm fix it"]));
    assert!(none("vm# bg row 1", &["llm fix it", "more"]));
    // The job prints the line of the command.
    assert!(none(
        "vm# bg row 1",
        &["vm# rep 3 4", "bg row 51", "llm fix it"]
    ));
    let below = [&["# rep 3 4"][..], &printed, &["llm fix it"]].concat();
    assert!(none("vm# bg row 1", &below));
}
