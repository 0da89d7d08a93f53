//! The tmux session: which one is attached, and how a new one is made.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::stat::Mode;

use super::NoTmux;
use super::pane::{Handover, PaneProgram};
use super::relay;
use super::shell::Shell;
use super::tmux::Tmux;
use crate::client::terminal;
use crate::config::TmuxSettings;
use crate::paths::{Paths, variable};

/// Fields of a session, with a character between them that no name contains; the path is last.
const FIELDS: &str = "#{session_id}:#{session_attached}:#{@aish}:#{session_activity}:#{session_name}:#{session_path}";

/// Variables that are not secret and decide which files aish and zsh use. Windows that are opened later get them from the
/// session; all others they get from tmux, as every window does.
const SESSION_VARIABLES: &[&str] = &[
    "AISH_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "ZDOTDIR",
];

/// How many names are tried before giving up.
const MAX_NAMES: usize = 1000;

/// A session of the tmux server.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Session {
    id: String,
    is_attached: bool,
    /// It was made by the launcher.
    is_own: bool,
    last_used: u64,
    name: String,
    /// The directory that it was started in.
    path: PathBuf,
}

/// Prepares a session and returns the command that attaches it, which replaces this process.
///
/// # Errors
/// There is no tmux for this terminal.
pub(super) fn attach(
    paths: &Paths,
    settings: &TmuxSettings,
    shell: &Shell,
    mask: Mode,
    is_new: bool,
) -> Result<Command, NoTmux> {
    // A relay that records the pane of tmux gives the shell another terminal.
    let relay_tty = relay::recorded_here(paths).map(|recording| recording.relay_tty);
    let tmux = Tmux::find(relay_tty.as_deref())?;
    let sessions = sessions(&tmux);
    let cwd = std::env::current_dir().unwrap_or_default();
    let home = variable("HOME").map(PathBuf::from);
    let home = home.map(|home| home.canonicalize().unwrap_or(home));
    let is_home = home.as_ref() == Some(&cwd);
    if settings.attach_on_start
        && !is_new
        && let Some(session) = attachable(&sessions, &cwd, is_home)
    {
        let line = format!("aish: session {}; aish --new starts another", session.name);
        return Ok(tmux.command([
            "attach-session",
            "-t",
            &session.id,
            ";",
            "display-message",
            &line.replace('#', "##"),
        ]));
    }
    let base = base_name(&settings.session_prefix, &cwd, is_home);
    let id = create(&tmux, paths, shell, mask, &base, &sessions).map_err(NoTmux::Failed)?;
    Ok(tmux.command(["attach-session", "-t", &id]))
}

/// Returns the sessions of the server; none if it does not run.
fn sessions(tmux: &Tmux) -> Vec<Session> {
    let listed = tmux.query(["list-sessions", "-F", FIELDS]);
    listed
        .unwrap_or_default()
        .lines()
        .filter_map(parse)
        .collect()
}

fn parse(line: &str) -> Option<Session> {
    let mut fields = line.splitn(6, ':');
    let mut next = || fields.next();
    let (id, attached, own, used) = (next()?, next()?, next()?, next()?);
    let (name, path) = (next()?, next()?);
    Some(Session {
        id: id.to_owned(),
        is_attached: attached != "0",
        is_own: !own.is_empty(),
        last_used: used.parse().unwrap_or(0),
        name: name.to_owned(),
        path: Path::new(path)
            .canonicalize()
            .unwrap_or_else(|_| path.into()),
    })
}

/// Returns the session to attach: a detached one that was started in this directory; in the home directory, where a login
/// begins, the one that was used last.
fn attachable<'s>(sessions: &'s [Session], cwd: &Path, is_home: bool) -> Option<&'s Session> {
    sessions
        .iter()
        .filter(|s| s.is_own && !s.is_attached && (is_home || s.path == cwd))
        .max_by_key(|s| s.last_used)
}

/// Returns the name of a session for this directory: the prefix, and outside of the home directory the directory's name.
fn base_name(prefix: &str, cwd: &Path, is_home: bool) -> String {
    let name = cwd.file_name().map(|name| name.to_string_lossy());
    let name: String = name
        .unwrap_or_default()
        .chars()
        // tmux gives `.` and `:` a meaning, and other characters are not the same in every locale.
        .map(|c| {
            if c.is_ascii_alphanumeric() || "_-".contains(c) {
                c
            } else {
                '_'
            }
        })
        .take(40)
        .collect();
    match name.trim_matches('_') {
        "" => prefix.to_owned(),
        _ if is_home => prefix.to_owned(),
        name => format!("{prefix}-{name}"),
    }
}

/// Returns names for a new session, in the order in which they are tried.
fn free_names(base: &str, sessions: &[Session]) -> impl Iterator<Item = String> {
    (1..=MAX_NAMES)
        .map(move |number| match number {
            1 => base.to_owned(),
            _ => format!("{base}-{number}"),
        })
        .filter(|name| sessions.iter().all(|s| s.name != *name))
}

/// Creates a detached session and returns its id.
fn create(
    tmux: &Tmux,
    paths: &Paths,
    shell: &Shell,
    mask: Mode,
    base: &str,
    sessions: &[Session],
) -> Result<String, String> {
    let handover = Handover::prepare(paths, mask).map_err(|e| e.message)?;
    let pane = PaneProgram::find().map_err(|e| e.message)?;
    let mut failure = "tmux has no free name for a session".to_owned();
    // Another launcher may take the name first.
    for name in free_names(base, sessions).take(3) {
        match tmux.query(new_session(&name, shell, &pane, &handover)) {
            Ok(id) => {
                handover.send();
                return Ok(id.trim().to_owned());
            }
            Err(e) => failure = e,
        }
        if !failure.contains("duplicate session") {
            break;
        }
    }
    Err(failure)
}

/// Returns the words that create a session. The directory is that of the client.
fn new_session(
    name: &str,
    shell: &Shell,
    pane: &PaneProgram,
    handover: &Handover,
) -> Vec<OsString> {
    let (columns, rows) = terminal::size(&std::io::stdout());
    let mut words: Vec<OsString> = Vec::new();
    let mut add = |list: &[&str]| words.extend(list.iter().map(OsString::from));
    add(&["new-session", "-d", "-P", "-F", "#{session_id}", "-s", name]);
    add(&["-x", &columns.to_string(), "-y", &rows.to_string(), "--"]);
    words.extend(pane.words(shell, handover));
    let target = format!("={name}:");
    let mut then = |list: &[&str]| {
        words.push(";".into());
        words.extend(list.iter().map(OsString::from));
    };
    then(&["set-option", "-t", &target, "@aish", "1"]);
    // Otherwise the server could end the session before it is attached, and at every disconnect.
    then(&["set-option", "-t", &target, "destroy-unattached", "off"]);
    then(&[
        "set-option",
        "-t",
        &target,
        "default-command",
        &pane.line(shell),
    ]);
    for name in SESSION_VARIABLES {
        if let Some(value) = variable(name) {
            let value = value.to_string_lossy();
            then(&["set-environment", "-t", &target, name, &escaped(&value)]);
        }
    }
    words
}

/// Escapes a final semicolon, at which tmux would end the command.
fn escaped(word: &str) -> String {
    match word.strip_suffix(';') {
        Some(rest) => format!("{rest}\\;"),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(line: &str) -> Session {
        parse(line).expect("a session")
    }

    #[test]
    fn the_detached_session_of_this_directory_is_attached() {
        let list = [
            session("$0:0::90:aish-notes:/nowhere/a"),
            session("$1:1:1:80:aish-a:/nowhere/a"),
            session("$2:0:1:70:aish-a-2:/nowhere/a"),
            session("$3:0:1:60:b c:/nowhere/b:c"),
        ];
        let id =
            |cwd: &str, is_home| attachable(&list, Path::new(cwd), is_home).map(|s| s.id.as_str());
        assert_eq!(id("/nowhere/a", false), Some("$2"));
        assert_eq!(id("/nowhere/b:c", false), Some("$3"));
        assert_eq!(id("/nowhere", false), None);
        assert_eq!(id("/home", true), Some("$2"));
        assert_eq!(parse("no server running"), None);
    }

    #[test]
    fn names_are_safe_and_free() {
        let name = |cwd: &str| base_name("aish", Path::new(cwd), false);
        assert_eq!(name("/src/web.site"), "aish-web_site");
        assert_eq!(name("/"), "aish");
        assert_eq!(name("/src/文档"), "aish");
        assert_eq!(name("/a b;"), "aish-a_b");
        assert_eq!(base_name("x", Path::new("/home/me"), true), "x");
        let taken = [session("$0:0::1:aish-a:/"), session("$1:0::1:aish-a-2:/")];
        assert_eq!(
            free_names("aish-a", &taken).next().as_deref(),
            Some("aish-a-3")
        );
        assert_eq!(escaped("a;"), "a\\;");
    }
}
