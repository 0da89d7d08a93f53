//! The zsh completions, generated from the description in `args`.

use clap::{Arg, Command, CommandFactory, ValueHint};

use super::args::{Cli, CompletedProgram, Launcher};

/// Arguments that complete to the names which a command of `aish-helper` prints with `--names`: command, argument, that command.
/// Those of `mcp` are known to the running daemon.
const LISTED_NAMES: &[(&str, &str, &str)] = &[
    ("mcp tools", "alias", "mcp list"),
    ("mcp resources", "alias", "mcp list"),
    ("mcp prompts", "alias", "mcp list"),
    ("mcp disconnect", "alias", "mcp list"),
    ("mcp login", "alias", "mcp list"),
    ("mcp logout", "alias", "mcp list"),
    ("mcp tool", "name", "mcp tools"),
    ("mcp prompt", "name", "mcp prompts"),
    ("call tool-read", "tool_name", "mcp tools"),
    ("call tool-write", "tool_name", "mcp tools"),
    ("call tool-destructive", "tool_name", "mcp tools"),
    ("policy explain", "name", "mcp tools"),
    ("recording show", "id", "recording list"),
    ("recording export", "id", "recording list"),
    ("recording delete", "ids", "recording list"),
    ("replay", "id", "recording list"),
    ("model use", "name", "model list"),
    ("activity show", "id", "activity list"),
    ("attach", "id", "session list"),
    ("session show", "id", "session list"),
    ("session compact", "id", "session list"),
    ("session continue", "id", "session list"),
    ("session rename", "session", "session list"),
    ("session share", "id", "session list"),
    ("session unshare", "id", "session list"),
    ("session delete", "id", "session list"),
];

/// Precedes the command in the help of an argument of [`LISTED_NAMES`], until the generated line is completed.
const LIST_MARK: char = '⟦';

/// Generates the zsh completions of a program.
pub fn zsh_completions(program: CompletedProgram) -> String {
    let (name, command) = match program {
        CompletedProgram::AishHelper => ("aish-helper", Cli::command()),
        CompletedProgram::Aish => ("aish", Launcher::command()),
    };
    let mut out = Vec::new();
    clap_complete::generate(
        clap_complete::Shell::Zsh,
        &mut visible_command(&command, ""),
        name,
        &mut out,
    );
    String::from_utf8_lossy(&out)
        .lines()
        .map(|line| format!("{}\n", complete_values(line)))
        .collect()
}

/// Replaces the marked command of a generated line with a call of it.
fn complete_values(line: &str) -> String {
    let Some((before, marked)) = line.split_once(LIST_MARK) else {
        return without_message(line);
    };
    let end = marked
        .find(|c: char| !c.is_ascii_lowercase() && c != ' ')
        .unwrap_or(marked.len());
    let (list, after) = marked.split_at(end);
    let after = after.strip_suffix(":' \\").unwrap_or(after);
    let names = format!("${{(f)\"$(_call_program names aish-helper {list} --names)\"}}");
    match list {
        // Ids with descriptions, newest first. _describe would merge ids with the same description into one row.
        // In an action of an option, a colon would end it.
        "session list" | "activity list" | "recording list" => format!(
            "{before}{after}:{{local -a each=( ${{{names}/[^0-9a-f]/  }} ); compadd -V id -l -d each -- ${{each%% *}}}}' \\"
        ),
        _ => format!("{before}{after}:{{compadd -- {names}}}' \\"),
    }
}

/// Gives a positional argument without candidates an empty list. A message in its place keeps zsh from completing an
/// unambiguous option: `ask --mod` would stay as it is.
fn without_message(line: &str) -> String {
    match line.strip_suffix(":' \\") {
        Some(spec) if spec.contains(" -- ") => format!("{spec}:( )' \\"),
        _ => line.to_string(),
    }
}

/// Copies `command` without hidden commands and arguments, which the generator would offer. `path` names the commands
/// above the children.
fn visible_command(command: &Command, path: &str) -> Command {
    let args = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set())
        .map(|arg| visible_arg(command, arg, path));
    let subcommands = command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set())
        .map(|sub| visible_command(sub, format!("{path} {}", sub.get_name()).trim_start()));
    let mut copy = Command::new(leaked(command.get_name()))
        .args(args)
        .subcommands(subcommands)
        .disable_help_subcommand(true);
    if let Some(about) = command.get_about() {
        copy = copy.about(about.clone());
    }
    if let Some(version) = command.get_version() {
        copy = copy.version(leaked(version));
    }
    copy
}

/// Makes a name `'static`, as clap requires; the process exits after printing the completions.
fn leaked(name: &str) -> &'static str {
    name.to_string().leak()
}

/// Copies an argument, because its references to hidden arguments cannot be removed.
fn visible_arg(command: &Command, arg: &Arg, path: &str) -> Arg {
    let others = command.get_arg_conflicts_with(arg);
    let others = others.iter().filter(|a| !a.is_hide_set());
    // A value without a hint is a name or a number, never a file.
    let hint = match arg.get_value_hint() {
        ValueHint::Unknown => ValueHint::Other,
        hint => hint,
    };
    let mut copy = Arg::new(arg.get_id().clone())
        .action(arg.get_action().clone())
        .required(arg.is_required_set())
        .value_parser(arg.get_value_parser().clone())
        .trailing_var_arg(arg.is_trailing_var_arg_set())
        .last(arg.is_last_set())
        .conflicts_with_all(others.map(|a| a.get_id().clone()));
    if let Some(long) = arg.get_long() {
        copy = copy.long(leaked(long));
    }
    if let Some(short) = arg.get_short() {
        copy = copy.short(short);
    }
    if let Some(help) = arg.get_help() {
        let list = LISTED_NAMES
            .iter()
            .find(|(of, id, _)| *of == path && arg.get_id() == *id);
        copy = copy.help(match list {
            Some((_, _, list)) => format!("{help}{LIST_MARK}{list}").into(),
            None => help.clone(),
        });
    }
    if arg.get_action().takes_values() {
        copy = copy.value_hint(hint);
    }
    if let Some(names) = arg.get_value_names() {
        // zsh runs the text after a second colon.
        copy = copy.value_names(names.iter().map(|name| leaked(&name.replace(':', "\\:"))));
    }
    if let Some(count) = arg.get_num_args() {
        copy = copy.num_args(count);
    }
    copy
}
