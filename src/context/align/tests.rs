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
