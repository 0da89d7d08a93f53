//! `cargo build` fails, `llm fix it` knows the compiler's error, and `[c]` leads to a green build: with a real compiler in a
//! real tmux, in screen, in a recorded shell and in a plain terminal.

use std::path::Path;

use serde_json::Value;

use crate::fakes::provider::Script;
use crate::support::helper::Helper;
use crate::support::home::source_plugin;
use crate::support::multiplexer::{Multiplexer, use_tmux35};
use crate::support::pty::Zsh;

const BUILD: &str = "cargo build --offline";
const FIX: &str = "sed -i.bak 's/\"7\"/7/' src/main.rs";
const DONE: &str = "The build is green.";

/// A helper in whose home is a crate with an error, and a model that knows how to repair it in three answers.
fn broken_crate(answers: usize) -> Helper {
    let script = [
        Script::tokens([format!("A number is wanted, not a text:\nCMD: {FIX}\n")]),
        Script::tokens([format!("Now build it again:\nCMD: {BUILD}\n")]),
        Script::tokens([DONE]),
    ];
    let helper = Helper::new(script.into_iter().take(answers));
    let home = &helper.home;
    std::fs::create_dir_all(home.path("adder/src")).expect("a directory");
    let manifest = "[package]\nname = \"adder\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
    std::fs::write(home.path("adder/Cargo.toml"), manifest).expect("a manifest");
    let program = "fn main() {\n    let seven: u32 = \"7\";\n    println!(\"{}\", seven + 1);\n}\n";
    std::fs::write(home.path("adder/src/main.rs"), program).expect("a program");
    // The cargo that builds these tests, and its rustc.
    let tools = Path::new(env!("CARGO")).parent().expect("a directory");
    home.zshrc(&format!(
        "path=({tools:?} $path)\nexport CARGO_TARGET_DIR=$HOME/target\n{}",
        source_plugin()
    ));
    let two_lines = "PS1=$'%F{blue}%~%f on main\\n<$prompts> '\n";
    std::fs::write(home.path(".zshrc"), home.read(".zshrc") + two_lines).expect(".zshrc");
    helper
}

/// Lets the build fail in a shell that the daemon knows.
fn fail(zsh: &mut Zsh<'_>) {
    zsh.run("aish-helper start");
    zsh.run("cd adder");
    zsh.run(BUILD);
    zsh.wait_text("could not compile `adder`");
}

/// Asks for the fix after a failed build and follows the model to the green one.
fn repair(helper: &Helper, zsh: &mut Zsh<'_>) {
    fail(zsh);
    zsh.send("llm fix it\r");
    zsh.wait_text(&format!("│ {FIX}"));
    let screen = zsh.screen();
    let (_, line) = screen
        .split_once(&format!("with the output of {BUILD} ("))
        .expect(&screen);
    let lines = line.split(' ').next().and_then(|n| n.parse().ok());
    zsh.answer("c", |screen| {
        screen.contents().contains(&format!("│ {BUILD}"))
    });
    let finished = |screen: &vt100::Screen| screen.contents().contains(DONE);
    zsh.answer("c", finished);
    zsh.prompt();

    assert_eq!(helper.provider.requests().len(), 3);
    let prompt = &helper.messages(0)[1].1;
    let (_, output) = prompt.split_once("<output").expect(prompt);
    let (attributes, output) = output.split_once(">\n").expect(prompt);
    let (output, words) = output.split_once("\n</output>").expect(prompt);
    assert!(words.ends_with("fix it"), "{prompt}");
    assert!(!attributes.contains("part"), "{prompt}");
    for text in [
        "error[E0308]: mismatched types",
        " --> src/main.rs:2:22",
        "2 |     let seven: u32 = \"7\";",
        "expected `u32`, found `&str`",
    ] {
        assert!(output.contains(text), "{text} in {prompt}");
    }
    assert!(
        output.trim_start().starts_with("Compiling adder v0.1.0"),
        "{output:?}"
    );
    assert!(output.ends_with("due to 1 previous error"), "{output:?}");
    assert_eq!(Some(output.lines().count()), lines, "{screen}\n{output}");
    // The second request knows what became of the fix, the third one the green build.
    assert!(
        helper
            .messages(1)
            .pop()
            .expect("a message")
            .1
            .contains("sed -i.bak")
    );
    let last = helper.messages(2).pop().expect("a message").1;
    assert!(last.contains("Finished `dev` profile"), "{last}");
    let green = format!("<output command={BUILD:?} exit=\"0\">\n");
    assert!(last.contains(&green), "{last}");
    assert!(helper.home.path("target/debug/adder").exists());
}

#[test]
fn in_tmux_a_failed_build_is_repaired() {
    let helper = broken_crate(3);
    let (_tmux, mut zsh) = Multiplexer::tmux(&helper);
    zsh.prompt();
    repair(&helper, &mut zsh);
}

#[test]
fn the_output_of_a_command_with_a_secret_goes_along_with_fix() {
    let helper = Helper::saying("It fails.");
    let (_tmux, mut zsh) = Multiplexer::tmux(&helper);
    zsh.prompt();
    let token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    zsh.run("llm hello");
    zsh.run(&format!("sh -c 'echo the ''cause; exit 3' {token} end"));
    zsh.run("llm :fix");
    let sent = helper.content();
    assert!(sent.contains("the cause"), "{sent}\n{}", zsh.screen());
    assert!(!sent.contains(token), "{sent}");
}

#[test]
fn an_approved_line_that_is_typed_again_is_told_with_both_outputs() {
    let helper = Helper::new([
        Script::tokens(["CMD: cat no-such-file\n"]),
        Script::tokens(["Sunny."]),
    ]);
    let (_tmux, mut zsh) = Multiplexer::tmux(&helper);
    zsh.prompt();
    zsh.run("aish-helper start");
    zsh.send("llm --no-output do it\r");
    zsh.wait_text("[y]");
    zsh.answer("y", |screen| screen.contents().contains("exit 1"));
    zsh.prompt();
    zsh.run("cat no-such-file");
    zsh.run("llm fix it");
    let sent = helper.content();
    let outputs = sent.matches("<output command=\"cat no-such-file\" exit=\"1\">\ncat: ");
    assert_eq!(outputs.count(), 2, "{sent}");
}

#[test]
fn an_output_that_a_rule_denies_does_not_go_along_with_fix() {
    let helper = Helper::saying("It fails.");
    helper.config("[policy.rules]\n\"shell.output\" = \"deny\"\n");
    let (_tmux, mut zsh) = Multiplexer::tmux(&helper);
    zsh.prompt();
    zsh.run("llm hello");
    zsh.run("sh -c 'echo the ''cause; exit 3'");
    zsh.run("llm :fix");
    let sent = helper.content();
    assert!(sent.ends_with("output not captured]"), "{sent}");
    assert!(!zsh.screen().contains("was not read"), "{}", zsh.screen());
}

#[test]
#[ignore = "needs tmux 3.5; ./test.sh runs it with AISH_TEST_TMUX35"]
fn in_tmux_35_a_failed_build_is_repaired() {
    let helper = broken_crate(3);
    if !use_tmux35(&helper) {
        return;
    }
    let (_tmux, mut zsh) = Multiplexer::tmux(&helper);
    zsh.prompt();
    repair(&helper, &mut zsh);
}

#[test]
fn in_screen_a_failed_build_is_repaired() {
    let helper = broken_crate(3);
    let run = [
        "screen",
        "-U",
        "-c",
        "/dev/null",
        "-S",
        "fix",
        "zsh",
        "-d",
        "-i",
    ];
    let quit = &["screen", "-S", "fix", "-X", "quit"];
    let (_screen, mut zsh) = Multiplexer::start(&helper, &run, quit);
    zsh.prompt();
    repair(&helper, &mut zsh);
}

#[test]
fn the_output_of_a_plain_terminal_is_refused_with_what_to_do() {
    let helper = Helper::saying("fine");
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("llm hello");
    zsh.run("print one");
    let refused = zsh.eval("aish-helper output");
    let advice = "use tmux (`aish` starts it), or record the shell with: aish-helper record\n";
    assert!(
        refused.contains("cannot be read") && refused.ends_with(advice),
        "{refused}"
    );
}

#[test]
fn a_plain_terminal_says_what_to_do() {
    let helper = broken_crate(1);
    let mut zsh = Zsh::start(&helper.home);
    fail(&mut zsh);
    zsh.send("llm fix it\r");
    zsh.wait_text("[q] quit");
    // Folded at the width of the terminal.
    let screen = zsh.screen().replace('\n', " ");
    let advice = "does not let aish read its output: use tmux, record the shell (aish-helper record), or let the question after the answer run it again";
    assert!(
        screen.contains(&format!("{BUILD} exited with 101; ")),
        "{screen}"
    );
    assert!(screen.contains(advice), "{screen}");
    assert!(
        screen.contains("[r] first run cargo build --offli… again"),
        "{screen}"
    );
    let prompt = &helper.messages(0)[1].1;
    assert!(!prompt.contains("mismatched types"), "{prompt}");
    assert!(prompt.contains(BUILD), "{prompt}");
}

/// Reads an asciicast of version 3 as a player does. Returns what the terminal shows in the end, and the markers.
fn play(cast: &str) -> (String, Vec<String>) {
    let mut lines = cast
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect(line));
    let header = lines.next().expect("a header");
    assert_eq!(header["version"], 3);
    let size = |name: &str| {
        let size = header["term"][name]
            .as_u64()
            .and_then(|n| u16::try_from(n).ok());
        std::num::NonZeroU16::new(size.expect("a size")).expect("a size")
    };
    let mut terminal = vt100::Parser::new(size("rows"), size("cols"), 0);
    let mut markers = Vec::new();
    for event in lines {
        let (interval, code, data) = (event[0].as_f64(), event[1].as_str(), event[2].as_str());
        assert!(event.as_array().is_some_and(|e| e.len() == 3), "{event}");
        assert!(
            interval.is_some_and(|seconds| (0.0..60.0).contains(&seconds)),
            "{event}"
        );
        let data = data.expect("a text");
        match code {
            Some("o") => terminal.process(data.as_bytes()),
            Some("m") => markers.push(data.to_owned()),
            Some("x") => assert_eq!(data, "0"),
            _ => panic!("{event}"),
        }
    }
    (terminal.screen().contents(), markers)
}

#[test]
fn in_a_recorded_shell_a_failed_build_is_repaired_and_played_again() {
    let helper = broken_crate(3);
    let mut zsh = Zsh::record(&helper.home);
    repair(&helper, &mut zsh);
    let command = "sh -c 'echo last; exit 3'";
    zsh.run(command);
    let output: Value = serde_json::from_str(&zsh.eval("aish-helper output --json")).expect("JSON");
    assert_eq!(output["source"], "recording", "{output}");
    assert_eq!(output["command"], command, "{output}");
    // Without the line that the recorder prints first.
    let shown = zsh.screen();
    let is_own = |line: &&str| line.contains("is recorded in ");
    let shown: Vec<&str> = shown.lines().skip_while(is_own).collect();
    let shown = shown.join("\n");
    zsh.exit();

    let list = helper.call(["recording", "list", "--json"]).run().json();
    let id = list.pointer("/recordings/0/id").or(list.pointer("/0/id"));
    let id = id.and_then(Value::as_str).expect("a recording");
    let cast = helper
        .call(["recording", "export", id, "--format", "cast"])
        .run()
        .ok();
    let (played, markers) = play(&cast);
    assert!(
        played.starts_with(shown.trim_end()),
        "{played}\n---\n{shown}"
    );
    assert!(markers.iter().any(|marker| marker == BUILD), "{markers:?}");

    let zsh = Zsh::start(&helper.home);
    zsh.send(format!(
        "aish-helper replay {id} --speed 100 --idle 100ms\r"
    ));
    zsh.wait_text("▶ 0:0");
    // The prompt after the last command of the recording, as the replay leaves it behind.
    zsh.wait_text("<7> exit");
    for text in ["error[E0308]: mismatched types", DONE] {
        assert!(zsh.screen().contains(text), "{text}");
    }
}
