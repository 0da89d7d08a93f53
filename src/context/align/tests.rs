use super::*;

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
        unrecorded_after: Some(0),
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
        unrecorded_after: Some(0),
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
