//! The completions and the man page cover every command and option of `--help`.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::support::helper::Helper;
use crate::support::home::{Home, helper, source_plugin};
use crate::support::pty::Zsh;

type Names = BTreeSet<String>;

/// Sources a completion function with the completion builtins replaced by functions that print their arguments,
/// so that zsh itself parses quotes and braces. The words name the command whose options are printed.
const PRINT_SPECS: &str = r#"
file=$1; shift
typeset -a want=( "$@" ) words line
typeset state='' CURRENT=1
integer depth=0
compdef() { }
_describe() { local each; for each in "${(@P)4}"; do print -rN -- "sub ${each%%:*}"; done }
_arguments() {
  local spec
  (( ++depth ))
  state= line=( $want[depth,-1] )
  for spec; do
    if (( depth > $#want )); then
      print -rN -- "spec $spec"
      [[ $spec != *:_*_commands ]] || ${spec##*:}
    elif [[ $spec == *'->'* ]]; then
      state=${spec##*->}
    fi
  done
  return 1
}
source $file
(( depth )) || ${file:t}
"#;

/// Returns the options and subcommands that a completion offers for a command.
fn completed(file: &str, path: &[&str]) -> (Names, Names) {
    let file = format!("{}/completions/{file}", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("zsh")
        .args(["-f", "-c", PRINT_SPECS, "zsh", &file])
        .args(path)
        .output()
        .unwrap();
    assert!(output.stderr.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut options = Names::new();
    let mut subcommands = Names::new();
    for line in text.split_terminator('\0') {
        if let Some(name) = line.strip_prefix("sub ") {
            subcommands.insert(name.to_owned());
        } else if let Some(spec) = line.strip_prefix("spec ") {
            let Some(name) = option_name(spec) else {
                continue;
            };
            // A value has a name and an action; zsh would run the text after a third colon.
            let (_, value) = spec.split_once(']').unwrap();
            let parts = value.replace("\\:", "").split(':').count();
            assert!(parts == 1 || parts == 3, "{file}: {spec}");
            options.insert(name.to_owned());
        }
    }
    (options, subcommands)
}

/// Returns the option of a spec: `--model` for `(-m)*--model=[use this]:model:_models`.
fn option_name(spec: &str) -> Option<&str> {
    let spec = match spec.strip_prefix('(') {
        Some(rest) => rest.split_once(')')?.1,
        None => spec,
    };
    let spec = spec.trim_start_matches('*');
    let end = spec.find(['[', '=', '+', ':'])?;
    // Flags of _arguments itself, such as `-C`, have no description.
    (spec.starts_with('-') && spec.contains('[')).then(|| &spec[..end])
}

fn run(args: &[&str]) -> String {
    run_as("aish-helper", args)
}

/// Runs the binary by this name.
fn run_as(name: &str, args: &[&str]) -> String {
    let output = Command::new(helper())
        .arg0(name)
        .args(args)
        .env_clear()
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the options and subcommands that `--help` lists.
fn listed_in_help(path: &[&str]) -> (Names, Names) {
    listed_in_help_of("aish-helper", path)
}

fn listed_in_help_of(program: &str, path: &[&str]) -> (Names, Names) {
    let text = run_as(program, &[path, &["--help"]].concat());
    let mut options = Names::new();
    let mut subcommands = Names::new();
    let mut section = "";
    for line in text.lines() {
        if line.ends_with(':') && !line.starts_with(' ') {
            section = line;
        }
        let Some(entry) = line.strip_prefix("  ") else {
            continue;
        };
        let names = entry.trim_start().split("  ").next().unwrap_or_default();
        match section {
            "Options:" => options.extend(
                names
                    .split(", ")
                    // `- jsonl: …` describes a possible value.
                    .filter(|n| n.starts_with('-') && !n.starts_with("- "))
                    .filter_map(|n| n.split_whitespace().next())
                    .map(str::to_owned),
            ),
            "Commands:" => subcommands.extend(names.split_whitespace().next().map(str::to_owned)),
            _ => {}
        }
    }
    assert!(options.contains("--help"), "{text}");
    (options, subcommands)
}

/// Calls `check` for every visible command and returns their number.
fn for_every_command(path: &[&str], check: &mut dyn FnMut(&[&str])) -> usize {
    check(path);
    let (_, subcommands) = listed_in_help(path);
    let below: usize = subcommands
        .iter()
        .map(|sub| for_every_command(&[path, &[sub.as_str()]].concat(), check))
        .sum();
    1 + below
}

#[test]
fn the_committed_completions_are_current() {
    for program in ["aish-helper", "aish"] {
        assert!(
            project_file(&format!("completions/_{program}")) == run(&["completions", program]),
            "outdated; run: aish-helper completions {program} > completions/_{program}"
        );
    }
}

#[test]
fn the_launcher_completes_its_options_and_has_them_in_its_page() {
    let page = run(&["man", "aish"]).replace("\\-", "-");
    assert!(page.contains("\naish - "), "{page}");
    for path in [&[][..], &["record"]] {
        let listed = listed_in_help_of("aish", path);
        assert_eq!(completed("_aish", path), listed, "{path:?}");
        for name in &listed.0 {
            assert!(page.contains(name.as_str()), "{name}: {page}");
        }
    }
    assert!(listed_in_help_of("aish", &[]).0.contains("--no-tmux"));
    assert!(!page.contains("--pane"));
}

#[test]
fn every_command_completes_the_options_of_its_help() {
    let count = for_every_command(&[], &mut |path| {
        assert_eq!(
            completed("_aish-helper", path),
            listed_in_help(path),
            "{path:?}"
        );
    });
    assert!(count > 15, "{count} commands");
}

#[test]
fn names_that_a_command_lists_complete_from_it() {
    let text = run(&["completions"]);
    let count = |list: &str| {
        text.matches(&format!(
            "_call_program names aish-helper mcp {list} --names"
        ))
        .count()
    };
    // The ids of recordings, without the daemon: show, export, delete, replay.
    let recordings = "_call_program names aish-helper recording list --names";
    assert_eq!(text.matches(recordings).count(), 4);
    // Aliases: tools, resources, prompts, disconnect, login, logout. Tools: mcp tool, three calls, policy explain.
    assert_eq!((count("list"), count("tools"), count("prompts")), (6, 5, 1));
}

#[test]
fn llm_completes_the_options_of_ask() {
    let (mut wanted, _) = listed_in_help(&["ask"]);
    // Only for the key binding: the function llm would print the command without offering it.
    assert!(wanted.remove("--command"));
    assert_eq!(completed("_llm", &[]).0, wanted);
}

fn project_file(path: &str) -> String {
    std::fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Names of the commands that begin with a colon.
fn meta_commands() -> Names {
    let load = project_file("zsh/functions/_aish_load");
    let (_, known) = load.split_once("  commands '").unwrap();
    let (known, _) = known.split_once('\'').unwrap();
    known.split(' ').map(str::to_owned).collect()
}

#[test]
fn llm_completes_every_meta_command() {
    let known = meta_commands();
    let completion = project_file("completions/_llm");
    let offered: Names = completion
        .lines()
        .filter_map(|line| line.trim().strip_prefix("':"))
        .filter_map(|entry| Some(entry.split_once(':')?.0.to_owned()))
        .collect();
    assert_eq!(offered, known);
    assert!(known.len() > 5);
}

#[test]
fn tab_completes_in_a_real_zsh() {
    let home = Home::new();
    home.zshrc(&format!(
        "fpath=({}/completions $fpath)\nautoload -Uz compinit\ncompinit -u -D\n{}",
        env!("CARGO_MANIFEST_DIR"),
        source_plugin()
    ));
    let mut zsh = Zsh::start(&home);
    zsh.send("aish-helper \t");
    zsh.wait_text("Check everything that aish needs");
    zsh.wait_text("List, search and change sessions");
    assert!(
        !zsh.screen().contains("exec-done"),
        "hidden commands must not be offered"
    );
    zsh.send("\x15aish-helper doc\t--js\t");
    zsh.wait_text("aish-helper doctor --json");
    zsh.send("\x15aish-helper session sho\t--li\t");
    zsh.wait_text("aish-helper session show --limit");
    zsh.send("\x15llm --no-t\t");
    zsh.wait_text("llm --no-tools");
    let recordings = home.path("aish/data/recordings");
    for id in [
        "0193a000-0000-7000-8000-0000a1b2c3d4",
        "0193a000-0000-7000-8000-0000e5f60718",
    ] {
        std::fs::create_dir_all(recordings.join(id)).unwrap();
        // Without it the daemon would remove the directory.
        std::fs::write(recordings.join(id).join("events.jsonl"), "").unwrap();
    }
    for command in [
        "recording show",
        "recording export",
        "recording delete",
        "replay",
    ] {
        zsh.send(format!("\x15aish-helper {command} e\t"));
        zsh.wait_text(&format!("aish-helper {command} e5f60718"));
    }
    zsh.send("\x15");
    zsh.run("true");
}

#[test]
fn sessions_and_models_complete_from_what_there_is() {
    let helper = Helper::saying("fine");
    helper.home.zshrc(&format!(
        "fpath=({}/completions $fpath)\nautoload -Uz compinit\ncompinit -u -D\nunsetopt automenu\n{}",
        env!("CARGO_MANIFEST_DIR"),
        source_plugin()
    ));
    helper.ask("a title");
    let id = helper.call(["session", "list", "--names"]).run().ok();
    let (id, title) = id.trim_end().split_once(':').unwrap();
    assert_eq!(title, "a title");
    let mut zsh = Zsh::start(&helper.home);
    for (typed, completed) in [
        ("aish-helper session show ", id),
        ("aish-helper session rename --session ", id),
        ("aish-helper model use ", "fake"),
        ("llm :history ", id),
        ("llm :share ", id),
        ("llm :stats --session ", id),
        ("llm :model ", "fake"),
        ("llm :share --with", "-output"),
        ("llm :stats --si", "nce"),
        ("llm :stats --by m", "odel"),
    ] {
        zsh.send(format!("\x15{typed}\t"));
        zsh.wait_text(&format!("{typed}{completed}"));
    }
    // Each session has its row, last used first, also where the titles are the same.
    helper.call(["ask", "--new", "a title"]).run().ok();
    let names = helper.call(["session", "list", "--names"]).run().ok();
    let rows: String = names.replace(':', "  ");
    assert_eq!(rows.lines().count(), 2, "{rows}");
    for typed in ["llm :history ", "aish-helper session show "] {
        zsh.send("\x15");
        zsh.run("clear");
        // The first may complete what the names of both begin with.
        zsh.send(format!("{typed}\t\t"));
        zsh.wait_text(rows.trim_end());
    }
    zsh.send("\x15");
    zsh.run("clear");
    let actions = helper.call(["activity", "list", "--names"]).run().ok();
    let prompt = actions.lines().find(|line| line.contains("  prompt  "));
    zsh.send("aish-helper activity show \t");
    zsh.wait_text(&prompt.expect("a prompt").replacen(':', "  ", 1));
    zsh.send("\x15");
    zsh.run("true");
}

/// Returns the man page without roff escapes.
fn man() -> String {
    run(&["man"])
        .replace("\\-", "-")
        .replace("\\fB", "")
        .replace("\\fR", "")
        .replace("\\fI", "")
}

#[test]
fn the_man_page_has_every_command_and_option() {
    let page = man();
    for_every_command(&[], &mut |path| {
        let (options, subcommands) = listed_in_help(path);
        let title = [&["AISH-HELPER"], path].concat().join(" ").to_uppercase();
        let section = if path.is_empty() {
            page.as_str()
        } else {
            let start = page.find(&format!(".SH \"{title}\"\n"));
            let Some((_, rest)) = start.and_then(|at| page[at..].split_once('\n')) else {
                assert!(!subcommands.is_empty(), "no section {title}");
                return;
            };
            rest.split("\n.SH ").next().unwrap()
        };
        for name in options {
            assert!(section.contains(&name), "{title}: {name}");
        }
    });
    for section in ["\"EXIT STATUS\"", "ENVIRONMENT", "FILES"] {
        assert!(page.contains(&format!(".SH {section}\n")), "{section}");
    }
    assert!(page.contains("\n0\nanswered or done\n"), "{page}");
    assert!(!page.contains(".SH EXTRA") && !page.contains("see a summary"));
    assert!(!page.contains("exec-done") && !page.contains("--offer"));
}

#[test]
fn the_man_page_of_llm_has_every_option_and_command() {
    let page = run(&["man", "llm"]).replace("\\-", "-");
    assert!(
        page.contains("\nllm - ask a language model in zsh\n"),
        "{page}"
    );
    let (options, _) = listed_in_help(&["ask"]);
    assert!(page.contains("\\fB--model\\fR \\fINAME\\fR]"), "{page}");
    assert!(page.contains("[\\fB--new\\fR]"), "{page}");
    for name in options.iter().filter(|name| *name != "--command") {
        assert!(page.contains(name.as_str()), "{name}: {page}");
    }
    for name in meta_commands() {
        assert!(page.contains(&format!("\\fBllm :{name}")), "{name}");
    }
    assert!(!page.contains("--offer") && !page.contains("--literal"));
}

#[test]
fn llm_has_a_version() {
    let home = Home::new();
    let mut zsh = Zsh::start(&home);
    let version = format!("aish {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(zsh.eval("llm --version; llm -V"), version.repeat(2));
}

#[test]
fn the_man_pages_render_without_warnings() {
    for name in ["aish-helper", "llm", "aish"] {
        renders_without_warnings(name);
    }
}

fn renders_without_warnings(name: &str) {
    let mut groff = Command::new("groff")
        .args(["-man", "-ww", "-Tutf8", "-z"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("groff is installed by test.sh");
    groff
        .stdin
        .take()
        .unwrap()
        .write_all(run(&["man", name]).as_bytes())
        .unwrap();
    let output = groff.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
