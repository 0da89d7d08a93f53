//! Completions and man page, from the description in `args`.

use clap::{Arg, Command, CommandFactory, ValueHint};

use super::args::Cli;
use crate::error::{Context, Result};

/// The zsh completions of `aish-helper`.
pub fn completions() -> String {
    let mut out = Vec::new();
    clap_complete::generate(
        clap_complete::Shell::Zsh,
        &mut shown(&Cli::command()),
        "aish-helper",
        &mut out,
    );
    String::from_utf8_lossy(&out)
        .lines()
        .map(|line| format!("{}\n", argument(line)))
        .collect()
}

/// What can stand for an argument: a name that the running daemon knows, or nothing.
fn argument(line: &str) -> String {
    let known = [
        ("alias -- Which", "list"),
        ("alias -- Of this server alone", "list"),
        ("name -- Its name, ALIAS.TOOL", "tools"),
        ("name -- Its name, ALIAS.PROMPT", "prompts"),
        ("[The tool]:SERVER\\:TOOL", "tools"),
        ("or shell, fs.write or network", "tools"),
    ];
    let spec = line.strip_suffix(":' \\").unwrap_or_default();
    match known.iter().find(|(what, _)| spec.ends_with(what)) {
        Some((_, of)) => format!(
            "{spec}:{{compadd -- ${{(f)\"$(_call_program names aish-helper mcp {of} --names)\"}}}}' \\"
        ),
        None => without_message(line),
    }
}

/// A positional argument with nothing to offer shows a message, and zsh then inserts no option
/// either, though only one fits: `ask --mod` stays as it is. An empty list has no message.
fn without_message(line: &str) -> String {
    match line.strip_suffix(":' \\") {
        Some(spec) if spec.contains(" -- ") => format!("{spec}:( )' \\"),
        _ => line.to_string(),
    }
}

/// `command` without what is hidden, which the generator of completions would offer.
fn shown(command: &Command) -> Command {
    let args = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set())
        .map(|arg| shown_arg(command, arg));
    let subcommands = command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set())
        .map(shown);
    let mut new = Command::new(forever(command.get_name()))
        .args(args)
        .subcommands(subcommands)
        .disable_help_subcommand(true);
    if let Some(about) = command.get_about() {
        new = new.about(about.clone());
    }
    if let Some(version) = command.get_version() {
        new = new.version(forever(version));
    }
    new
}

/// clap takes names that last as long as the program, which ends when these are printed.
fn forever(name: &str) -> &'static str {
    name.to_string().leak()
}

/// An argument made anew: what it says of hidden ones cannot be taken out of it.
fn shown_arg(command: &Command, arg: &Arg) -> Arg {
    let others = command.get_arg_conflicts_with(arg);
    let others = others.iter().filter(|a| !a.is_hide_set());
    // A name or a number is no file, and nothing else is known of it here.
    let hint = match arg.get_value_hint() {
        ValueHint::Unknown => ValueHint::Other,
        hint => hint,
    };
    let mut new = Arg::new(arg.get_id().clone())
        .action(arg.get_action().clone())
        .required(arg.is_required_set())
        .value_parser(arg.get_value_parser().clone())
        .trailing_var_arg(arg.is_trailing_var_arg_set())
        .conflicts_with_all(others.map(|a| a.get_id().clone()));
    if let Some(long) = arg.get_long() {
        new = new.long(forever(long));
    }
    if let Some(short) = arg.get_short() {
        new = new.short(short);
    }
    if let Some(help) = arg.get_help() {
        new = new.help(help.clone());
    }
    if arg.get_action().takes_values() {
        new = new.value_hint(hint);
    }
    if let Some(names) = arg.get_value_names() {
        // zsh would run what stands behind a second colon.
        new = new.value_names(names.iter().map(|name| forever(&name.replace(':', "\\:"))));
    }
    if let Some(count) = arg.get_num_args() {
        new = new.num_args(count);
    }
    new
}
/// The man page: the commands one after the other.
///
/// # Errors
/// None in practice: it is written to memory.
pub fn man() -> Result<String> {
    let mut out = Vec::new();
    let mut command = Cli::command();
    command.build();
    let what = || "cannot write the man page".to_string();
    let page = clap_mangen::Man::new(command.clone());
    page.render_title(&mut out).context(what)?;
    page.render_name_section(&mut out).context(what)?;
    page.render_synopsis_section(&mut out).context(what)?;
    page.render_description_section(&mut out).context(what)?;
    section(&command, &mut out).context(what)?;
    page.render_extra_section(&mut out).context(what)?;
    page.render_version_section(&mut out).context(what)?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// The commands below `command`, each with its synopsis and options.
fn section(command: &clap::Command, out: &mut Vec<u8>) -> std::io::Result<()> {
    for sub in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        if sub.has_subcommands() {
            section(sub, out)?;
            continue;
        }
        let name = sub
            .get_bin_name()
            .unwrap_or_else(|| sub.get_name())
            .to_string();
        let man = clap_mangen::Man::new(sub.clone().display_name(name.clone()));
        let mut part = Vec::new();
        man.render_synopsis_section(&mut part)?;
        man.render_description_section(&mut part)?;
        man.render_options_section(&mut part)?;
        out.extend_from_slice(format!(".SH \"{}\"\n", name.to_uppercase()).as_bytes());
        let text = String::from_utf8_lossy(&part).replace(".SH ", ".SS ");
        out.extend_from_slice(text.as_bytes());
    }
    Ok(())
}
