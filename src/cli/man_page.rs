//! The man page, rendered from the description in `args`.

use clap::{Args, CommandFactory};

use super::args::{AskArgs, Cli, Launcher, ManPage};
use crate::error::{ErrorContext, Result};

/// Sections that clap does not know.
const REFERENCE_SECTIONS: &str = r#".SH "EXIT STATUS"
.TP
\fB0\fR
answered or done
.TP
\fB1\fR
the model, the connection or a command failed
.TP
\fB2\fR
invalid usage
.TP
\fB3\fR
invalid configuration
.TP
\fB4\fR
an approval was needed and there was no terminal to ask on
.TP
\fB130\fR
interrupted
.SH ENVIRONMENT
.TP
\fBAISH_HOME\fR
directory for all files of aish, instead of those below
.TP
\fBAISH_MODEL\fR, \fBAISH_BASE_URL\fR, \fBAISH_KEY_ENV\fR
override the model, its address, and the name of the variable that holds its key
.TP
\fBAISH_SERVER\fR
the other aish server that answers; \fBaish attach\fR sets it
.TP
\fBHF_ENDPOINT\fR
server that \fBmodel install\fR uses instead of https://huggingface.co
.TP
\fBVISUAL\fR, \fBEDITOR\fR
editor for prompts and the arguments of a tool call
.TP
\fBNO_COLOR\fR
if set, print no colours
.SH FILES
.TP
\fI~/.config/aish/config.toml\fR
configuration
.TP
\fI~/.config/aish/keys/\fR
API keys and logins
.TP
\fI~/.local/share/aish/journal/\fR
record of sessions, commands and tool calls
.TP
\fI~/.local/share/aish/recordings/\fR
recordings of terminals
.TP
\fI~/.local/state/aish/daemon.log\fR
log of the daemon
.TP
\fI.aish.toml\fR
settings of a project, in its directory
"#;

/// Commands of the zsh function, with their arguments.
const META_COMMANDS: &[(&str, &str)] = &[
    (":help", "list options and commands"),
    (
        ":model [NAME]",
        "list the models, or use NAME or SERVER/MODEL in this shell; --save makes it the default, --filter WORD lists some",
    ),
    (":last", "show the last answer with complete tool results"),
    (":copy", "copy the last answer to the clipboard"),
    (":edit [WORDS]", "write the prompt in the editor"),
    (
        ":fix",
        "explain why the last command failed, and put a corrected one on the command line; a mistyped name needs no model",
    ),
    (
        ":undo",
        "undo the file changes that tools made for the last prompt that changed any",
    ),
    (":diff", "show what :undo would undo"),
    (
        ":tui [off]",
        "let programs put prompts on the command line of this shell over HTTP",
    ),
    (":new", "start a new session"),
    (
        ":compact [ID]",
        "replace the older part of the session by a summary, in what is sent from now on",
    ),
    (":sessions", "list the sessions"),
    (":search WORDS", "list the sessions that contain the words"),
    (
        ":continue [ID]",
        "continue a session in this shell; without ID, choose it from a list",
    ),
    (
        ":history [ID]",
        "show the session of this shell, or another one",
    ),
    (
        ":attach [ID]",
        "follow a running answer, or show the last one",
    ),
    (":rename TITLE", "give the session of this shell a title"),
    (
        ":share [ID]",
        "share a session as a page on this machine, after a preview and confirmation; --with-output adds output, --recordings adds recordings",
    ),
    (":unshare [ID]", "remove the page of a session"),
    (":delete [ID]", "delete a session, after a question"),
    (
        ":mcp [COMMAND]",
        "list MCP servers and what they offer; see aish-helper mcp",
    ),
    (
        ":set [KEY=VALUE]",
        "show the settings of the session, or change prompt, tools and model; an empty value removes one",
    ),
    (":prompts [@NAME]", "list the prompt packs, or show one"),
    (
        ":stats",
        "show what the models were used for and what they cost",
    ),
    (
        ":activity [COMMAND]",
        "list what was done; see aish-helper activity",
    ),
    (
        ":policy [COMMAND]",
        "list the rules and grants; see aish-helper policy",
    ),
    (":status", "show the daemon, the model and the shells"),
];

/// Examples for the zsh function.
const EXAMPLES: &str = r#".SH EXAMPLES
.nf
llm why is the sky blue
llm why did that fail
git diff | llm review this
llm what does @Cargo.toml need
.fi
"#;

/// Description of the launcher.
const LAUNCHER_DESCRIPTION: &str = "aish starts the daemon and a zsh with the plugin, whatever .zshrc says, in a tmux session \
     that goes on when the terminal is closed or the connection is lost. A detached session that was started in this directory is \
     attached again; in the home directory, the one that was used last. The user's own start-up files are read as without aish. \
     Inside tmux, screen or zellij, zsh starts in the present window. Whatever fails, the user gets a zsh, with one line that says \
     why. As a login shell, aish starts a login shell, and aish -c COMMAND runs COMMAND in zsh.";

/// Sections of the launcher's page that clap does not know.
const LAUNCHER_SECTIONS: &str = r#".SH "EXIT STATUS"
That of zsh or tmux; 1 if neither could be started, 2 for invalid usage or without a terminal.
.SH FILES
.TP
\fI~/.config/aish/config.toml\fR
configuration: \fBsession_prefix\fR and \fBattach_on_start\fR in \fB[tmux]\fR
.SH "SEE ALSO"
.BR aish-helper (1),
.BR llm (1),
.BR tmux (1),
.BR zsh (1)
"#;

/// Renders a page.
///
/// # Errors
/// Never in practice, because the page is written to memory.
pub fn render(page: ManPage) -> Result<String> {
    match page {
        ManPage::AishHelper => render_helper(),
        ManPage::Llm => render_function(),
        ManPage::Aish => render_launcher(),
    }
}

/// Renders the page of the zsh function from the options of `ask`.
fn render_function() -> Result<String> {
    let failed = || "cannot write the man page".to_string();
    let command = AskArgs::augment_args(clap::Command::new("llm"))
        .about("ask a language model in zsh")
        .long_about(
            "llm sends a prompt to the model and prints its answer. Commands that the model proposes are offered one by one, and \
             run in the current shell after an approval. llm is a function of the zsh plugin of aish; in scripts, use \
             aish-helper ask, which takes the same options.",
        )
        .version(env!("CARGO_PKG_VERSION"))
        // The function would print the command without offering it.
        .mut_arg("command", |option| option.hide(true));
    let page = clap_mangen::Man::new(command.clone());
    let mut out = Vec::new();
    page.render_title(&mut out).context(failed)?;
    page.render_name_section(&mut out).context(failed)?;
    render_synopsis(&page, &command, &mut out).context(failed)?;
    page.render_description_section(&mut out).context(failed)?;
    page.render_options_section(&mut out).context(failed)?;
    let mut out = text(&out);
    out.push_str(".SH COMMANDS\n");
    for (usage, meaning) in META_COMMANDS {
        out.push_str(&format!(".TP\n\\fBllm {usage}\\fR\n{meaning}\n"));
    }
    out.push_str(EXAMPLES);
    out.push_str(REFERENCE_SECTIONS);
    out.push_str(".SH \"SEE ALSO\"\n.BR aish-helper (1)\n");
    Ok(out)
}

/// Renders the page of the launcher.
fn render_launcher() -> Result<String> {
    let failed = || "cannot write the man page".to_string();
    let command = Launcher::command()
        .about("start zsh with aish in a tmux session")
        .long_about(LAUNCHER_DESCRIPTION);
    let page = clap_mangen::Man::new(command.clone());
    let mut out = Vec::new();
    page.render_title(&mut out).context(failed)?;
    page.render_name_section(&mut out).context(failed)?;
    render_synopsis(&page, &command, &mut out).context(failed)?;
    page.render_description_section(&mut out).context(failed)?;
    page.render_options_section(&mut out).context(failed)?;
    let mut command = Launcher::command();
    command.build();
    render_commands(&command, &mut out).context(failed)?;
    let mut out = text(&out);
    out.push_str(LAUNCHER_SECTIONS);
    Ok(out)
}

/// Renders one page with a section for each command of `aish-helper`.
fn render_helper() -> Result<String> {
    let mut out = Vec::new();
    let mut command = Cli::command();
    command.build();
    let failed = || "cannot write the man page".to_string();
    let page = clap_mangen::Man::new(command.clone());
    page.render_title(&mut out).context(failed)?;
    page.render_name_section(&mut out).context(failed)?;
    render_synopsis(&page, &command, &mut out).context(failed)?;
    page.render_description_section(&mut out).context(failed)?;
    render_commands(&command, &mut out).context(failed)?;
    out.extend_from_slice(REFERENCE_SECTIONS.as_bytes());
    page.render_version_section(&mut out).context(failed)?;
    Ok(text(&out))
}

/// Renders the synopsis of a command, with the values of its options, which the generator leaves out.
fn render_synopsis(
    page: &clap_mangen::Man,
    command: &clap::Command,
    out: &mut Vec<u8>,
) -> std::io::Result<()> {
    let mut part = Vec::new();
    page.render_synopsis_section(&mut part)?;
    let mut part = String::from_utf8_lossy(&part).into_owned();
    let options = command.get_opts();
    for option in options.filter(|option| option.get_action().takes_values()) {
        let value = option.get_value_names().and_then(|names| names.first());
        if let (Some(long), Some(value)) = (option.get_long(), value) {
            let name = format!("\\fB\\-\\-{}\\fR", long.replace('-', "\\-"));
            let value = value.as_str().replace('-', "\\-");
            part = part.replace(&format!("{name}]"), &format!("{name} \\fI{value}\\fR]"));
        }
    }
    out.extend_from_slice(part.as_bytes());
    Ok(())
}

/// Returns the page as text, without what clap adds to --help for its own output.
fn text(page: &[u8]) -> String {
    String::from_utf8_lossy(page).replace(" (see a summary with \\*(Aq\\-h\\*(Aq)", "")
}

/// Renders the visible subcommands of `command`, each with its synopsis and options.
fn render_commands(command: &clap::Command, out: &mut Vec<u8>) -> std::io::Result<()> {
    for sub in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        if sub.has_subcommands() {
            render_commands(sub, out)?;
            continue;
        }
        let name = sub
            .get_bin_name()
            .unwrap_or_else(|| sub.get_name())
            .to_string();
        let man = clap_mangen::Man::new(sub.clone().display_name(name.clone()));
        let mut part = Vec::new();
        render_synopsis(&man, sub, &mut part)?;
        man.render_description_section(&mut part)?;
        man.render_options_section(&mut part)?;
        out.extend_from_slice(format!(".SH \"{}\"\n", name.to_uppercase()).as_bytes());
        let text = String::from_utf8_lossy(&part).replace(".SH ", ".SS ");
        out.extend_from_slice(text.as_bytes());
    }
    Ok(())
}
