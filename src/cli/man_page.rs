//! The man page, rendered from the description in `args`.

use clap::CommandFactory;

use super::args::Cli;
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
\fBVISUAL\fR, \fBEDITOR\fR
editor for the arguments of a tool call
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
\fI~/.local/state/aish/daemon.log\fR
log of the daemon
.TP
\fI.aish.toml\fR
settings of a project, in its directory
"#;

/// Renders one page with a section for each command.
///
/// # Errors
/// Never in practice, because the page is written to memory.
pub fn render() -> Result<String> {
    let mut out = Vec::new();
    let mut command = Cli::command();
    command.build();
    let failed = || "cannot write the man page".to_string();
    let page = clap_mangen::Man::new(command.clone());
    page.render_title(&mut out).context(failed)?;
    page.render_name_section(&mut out).context(failed)?;
    page.render_synopsis_section(&mut out).context(failed)?;
    page.render_description_section(&mut out).context(failed)?;
    render_commands(&command, &mut out).context(failed)?;
    out.extend_from_slice(REFERENCE_SECTIONS.as_bytes());
    page.render_version_section(&mut out).context(failed)?;
    Ok(String::from_utf8_lossy(&out).into_owned())
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
        man.render_synopsis_section(&mut part)?;
        man.render_description_section(&mut part)?;
        man.render_options_section(&mut part)?;
        out.extend_from_slice(format!(".SH \"{}\"\n", name.to_uppercase()).as_bytes());
        let text = String::from_utf8_lossy(&part).replace(".SH ", ".SS ");
        out.extend_from_slice(text.as_bytes());
    }
    Ok(())
}
