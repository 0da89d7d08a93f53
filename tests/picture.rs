//! The picture of the README and the recording that `install.sh --try` plays show what aish really prints.

use std::path::Path;

use vt100::Cell;

use crate::fakes::provider::{MODEL, Script};
use crate::support::helper::Helper;
use crate::support::home::source_plugin;
use crate::support::multiplexer::Multiplexer;
use crate::support::pty::Zsh;
use crate::support::svg;

const TITLE: &str = "A terminal session: cargo build fails, llm fix it gets its output, the model proposes the repair and then \
                     the build, each is approved with one key, and the build is green";
const COLS: u16 = 100;
const FIX: &str = "sed -i.bak 's/\"7\"/7/' src/main.rs";

/// A `cargo` whose words do not depend on the version of the compiler.
const CARGO: &str = r#"#!/bin/sh
bold=$(printf '\033[1m') red=$(printf '\033[1;91m') green=$(printf '\033[1;92m') blue=$(printf '\033[1;94m') off=$(printf '\033[0m')
echo "$green   Compiling$off parcel v0.1.0"
if ! grep -q '"7"' src/main.rs; then
  echo "$green    Finished$off \`dev\` profile [unoptimized + debuginfo] target(s) in 0.42s"
  exit
fi
cat <<END
${red}error[E0308]$off$bold: mismatched types$off
 $blue-->$off src/main.rs:2:23
  $blue|$off
${blue}2 |$off     let weight: u32 = "7";
  $blue|$off                 $blue---$off   $red^^^ expected \`u32\`, found \`&str\`$off

${red}error$off$bold: could not compile \`parcel\` due to 1 previous error$off
END
exit 101
"#;

fn prompts(screen: &vt100::Screen) -> usize {
    let text = screen.contents();
    let starts = text.lines().filter(|line| line.starts_with('❯'));
    let is_idle = text
        .lines()
        .last()
        .is_some_and(|line| line.trim_end() == "❯");
    if is_idle { starts.count() } else { 0 }
}

/// Lets a scripted `cargo build` fail, and follows a scripted model to a green build.
fn run(zsh: &Zsh<'_>) -> Vec<Vec<Cell>> {
    zsh.wait_for("a prompt", |screen| prompts(screen) == 1);
    zsh.resize(50, COLS);
    zsh.send("while [[ $(stty size) != '50 100' ]] { }; aish-helper start; cd parcel; clear\r");
    zsh.wait_for("a clear screen", |screen| {
        prompts(screen) == 1 && screen.contents().starts_with("~/parcel")
    });
    zsh.send("cargo build\r");
    zsh.wait_for("a prompt", |screen| prompts(screen) == 2);
    zsh.send("llm fix it\r");
    zsh.wait_text(&format!("│ {FIX}"));
    zsh.answer("c", |screen| screen.contents().contains("│ cargo build"));
    zsh.answer("c", |screen| prompts(screen) == 3);
    let mut rows = zsh.rows();
    // The last prompt has two lines.
    rows.truncate(rows.len() - 2);
    rows
}

fn text_of(row: &[Cell]) -> String {
    let cells = row.iter().map(|cell| match cell.contents() {
        "" => " ",
        text => text,
    });
    cells.collect::<String>().trim_end().to_owned()
}

/// Replaces the line of the model, whose numbers differ from run to run.
fn with_footers(rows: &mut [Vec<Cell>]) {
    let mut footers = [
        "qwen3:8b · 0.3 s · 612 in · 41 out",
        "qwen3:8b · 0.2 s · 681 in · 14 out",
        "qwen3:8b · 0.2 s · 744 in · 12 out",
    ]
    .iter();
    for row in rows.iter_mut() {
        if text_of(row).starts_with(MODEL) {
            let footer = footers.next().expect("three answers");
            let mut terminal =
                vt100::Parser::new(1.try_into().unwrap(), COLS.try_into().unwrap(), 0);
            terminal.process(format!("\x1b[2m{footer}").as_bytes());
            let cell = |col| terminal.screen().cell(0, col).cloned();
            *row = (0..COLS).filter_map(cell).collect();
        }
    }
    assert_eq!(footers.next(), None);
}

fn compare(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    if std::env::var_os("AISH_UPDATE_DOCS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap();
    assert_eq!(kept, text, "write {name} anew with AISH_UPDATE_DOCS=1");
}

#[test]
fn the_recording_and_the_picture_show_a_true_run() {
    let helper = Helper::new([
        Script::tokens([format!(
            "`weight` is a number, but `\"7\"` is text. Without the quotes it fits:\n\nCMD: {FIX}\n"
        )]),
        Script::tokens(["Now build again:\n\nCMD: cargo build\n"]),
        Script::tokens(["The build is **green**: a number was in quotes."]),
    ]);
    let home = &helper.home;
    home.program("cargo", CARGO);
    std::fs::create_dir_all(home.path("parcel/src")).unwrap();
    std::fs::write(
        home.path("parcel/src/main.rs"),
        "let weight: u32 = \"7\";\n",
    )
    .unwrap();
    home.zshrc(&source_plugin());
    let prompt = "PS1=$'%F{blue}%~%f on %F{magenta}main%f\\n%F{green}❯%f '\n";
    std::fs::write(home.path(".zshrc"), home.read(".zshrc") + prompt).unwrap();
    let (_tmux, zsh) = Multiplexer::tmux(&helper);
    let mut rows = run(&zsh);
    with_footers(&mut rows);
    compare("docs/picture.svg", &svg::draw(TITLE, &rows, COLS));
    let lines = rows.iter().map(|row| text_of(row));
    // One line for a prompt.
    let lines = lines.filter(|line| !line.starts_with("~/parcel"));
    let recording: String = lines
        .map(|line| line.replacen("❯ ", "% ", 1) + "\n")
        .collect();
    compare("docs/recording.txt", &recording);
}
