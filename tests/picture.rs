//! The picture of the README and the recording that `install.sh --try` plays show what aish really prints.

use std::path::Path;

use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;
use crate::support::pty::Zsh;

const RECORDING: &str = "docs/recording.txt";

fn project_file(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The lines of a run, with the prompt as `% ` and without the line of the model, whose numbers differ.
fn comparable(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| {
        let line = line.trim_end();
        match line.split_once("> llm ") {
            Some((start, words)) if start.starts_with('<') => format!("% llm {words}"),
            _ => line.to_owned(),
        }
    });
    lines.filter(|line| !line.contains(" in · ")).collect()
}

/// The same two prompts, with a scripted model and a scripted `du`.
fn run() -> Vec<String> {
    let helper = Helper::with(Provider::start([
        Script::tokens([
            "`du` adds up what each file takes, and `sort -rh` puts the largest first:\n\n",
            "CMD: du -ah . | sort -rh | head -4\n",
        ]),
        Script::tokens([
            "`panorama.tif` takes **about 70 percent** of the space. The two MP4 files are clips of the ",
            "same evening; the rest is small.",
        ]),
    ]));
    let sizes = "58M\t.\n8.6M\t./evening-1.mp4\n41M\t./panorama.tif\n6.7M\t./evening-2.mp4\n1.1M\t./map.png\n";
    helper
        .home
        .program("du", &format!("#!/bin/sh\nprintf '{sizes}'\n"));
    let mut zsh = Zsh::start(&helper.home);
    // The width of the picture.
    zsh.run("stty cols 88; COLUMNS=88; clear");
    let first = zsh.screen();
    assert!(first.lines().count() <= 1, "{first}");
    zsh.send("llm what takes the most space here\r");
    zsh.wait_text("head -4\n└ ");
    zsh.press_until("y", "6.7M");
    zsh.prompt();
    zsh.run("llm what does that mean");
    let screen = zsh.screen();
    let rows = comparable(&screen);
    rows[..rows.len() - 1].to_vec()
}

#[test]
fn the_recording_and_the_picture_show_a_true_run() {
    let run = run();
    let path = project_file(RECORDING);
    if std::env::var_os("AISH_UPDATE_DOCS").is_some() {
        let footers = [
            "qwen3:8b · 0.3 s · 412 in · 27 out",
            "qwen3:8b · 0.4 s · 548 in · 30 out",
        ];
        let mut text = String::new();
        for line in &run {
            // The model's line stands before the question, and at the end.
            if line.starts_with('┌') {
                text.push_str(&format!("{}\n", footers[0]));
            }
            text.push_str(&format!("{line}\n"));
        }
        std::fs::write(&path, format!("{text}{}\n", footers[1])).unwrap();
    }
    let recording = std::fs::read_to_string(path).unwrap();
    assert_eq!(
        comparable(&recording),
        run,
        "write it anew with AISH_UPDATE_DOCS=1"
    );
    let picture = std::fs::read_to_string(project_file("docs/picture.svg")).unwrap();
    let picture: String = picture
        .split('<')
        .filter_map(|part| Some(part.split_once('>')?.1))
        .collect::<String>()
        .replace("&#160;", "")
        .split_whitespace()
        .collect();
    // Every line, in order; blanks differ.
    let mut rest = picture.as_str();
    for line in recording.lines().filter(|line| !line.is_empty()) {
        let line: String = line.trim_start_matches("% ").split_whitespace().collect();
        let line = line.replace('&', "&amp;").replace('>', "&gt;");
        let Some(at) = rest.find(&line) else {
            panic!("the picture lacks {line:?}; after it: {rest}");
        };
        rest = &rest[at + line.len()..];
    }
}
