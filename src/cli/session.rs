//! `aish-helper session`: list, show, search, continue, rename and delete sessions.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::args::SessionCommand;
use super::record_view::{self, DetailLevel};
use super::table::count;
use super::{
    ask, clipboard, columns, last_answer, print, print_json, session_config, session_picker, share,
};
use crate::chat::{CONTINUED, CONTINUED_SHOWN};
use crate::client::connect;
use crate::client::output::print_notice;
use crate::client::text_format::{cut, short_id};
use crate::error::{Error, Result};
use crate::paths::Paths;
use crate::protocol::{Request, SessionInfo, ShareOptions, ShareSession, ShellId, Transcript};
use crate::safety::text::one_line;

/// Maximum number of characters shown of a title.
const MAX_TITLE: usize = 60;
/// Maximum number of characters shown of the text that a search found.
const MAX_EXCERPT: usize = 200;
/// Number of sessions to choose from.
const PICKER_LIMIT: usize = 200;
/// Width of the lines of a tool call if stdout is not a terminal.
const DEFAULT_COLUMNS: usize = 100;

/// Runs a `session` subcommand.
///
/// # Errors
/// There is no such session, or the daemon cannot be reached.
pub fn run(paths: &Paths, command: SessionCommand) -> Result<()> {
    match command {
        SessionCommand::List {
            limit, names: true, ..
        } => names(paths, limit),
        SessionCommand::List { limit, json, .. } => list(paths, limit, None, json),
        SessionCommand::Search { words, limit, json } => {
            list(paths, limit, Some(words.join(" ")), json)
        }
        SessionCommand::Show {
            id,
            limit,
            shell,
            json,
        } => {
            let request = Request::Transcript {
                session: id,
                shell,
                limit,
                brief: !json,
            };
            show(paths, &request, json)
        }
        SessionCommand::Last { shell, json } => last_answer::show_last(paths, shell, json),
        SessionCommand::Copy { shell } => clipboard::copy_last(paths, shell),
        SessionCommand::Compact {
            id,
            model,
            shell,
            json,
        } => ask::compact(paths, id, model, shell, json),
        SessionCommand::New { shell, json } => {
            let session: SessionInfo = connect::request(paths, &Request::NewSession { shell })?;
            match json {
                true => print_json(&session),
                false => print(&format!("new session {}\n", short_id(&session.id))),
            }
        }
        SessionCommand::Continue { id, shell, json } => resume(paths, id, shell, json),
        SessionCommand::Rename {
            title,
            session,
            shell,
            json,
        } => {
            let request = Request::RenameSession {
                session,
                shell,
                title: title.join(" "),
            };
            let session: SessionInfo = connect::request(paths, &request)?;
            match json {
                true => print_json(&session),
                false => print(&format!("session {}\n", described(&session))),
            }
        }
        SessionCommand::Config(command) => session_config::run(paths, command),
        SessionCommand::Share {
            id,
            with_output,
            recordings,
            yes,
            shell,
        } => {
            let options = ShareOptions {
                with_output,
                recordings,
            };
            share::share(paths, ShareSession { id, shell }, options, yes)
        }
        SessionCommand::Unshare { id, shell } => share::unshare(paths, ShareSession { id, shell }),
        SessionCommand::Shares { json } => share::list(paths, json),
        SessionCommand::Delete { id, yes } => delete(paths, id, yes),
    }
}

/// Requests the list of sessions, last used first.
fn fetch(paths: &Paths, limit: usize, search: Option<String>) -> Result<Vec<SessionInfo>> {
    connect::request(paths, &Request::Sessions { limit, search })
}

fn list(paths: &Paths, limit: usize, search: Option<String>, json: bool) -> Result<()> {
    let searched = search.is_some();
    let mut sessions = fetch(paths, limit.saturating_add(1), search)?;
    let has_more = sessions.len() > limit;
    sessions.truncate(limit);
    if json {
        return print_json(&sessions);
    }
    if sessions.is_empty() {
        return print(match searched {
            true => "no session contains these words\n",
            false => "no sessions yet\n",
        });
    }
    let width = columns().unwrap_or(usize::MAX);
    let mut out = cut(&heading(), width) + "\n";
    for session in &sessions {
        out.push_str(&cut(&list_line(session), width));
        out.push('\n');
        if !session.excerpt.is_empty() {
            let excerpt = format!("          {}", one_line(&session.excerpt, MAX_EXCERPT));
            out.push_str(&cut(&excerpt, width));
            out.push('\n');
        }
    }
    print(&out)?;
    if has_more {
        let more = limit.saturating_mul(2);
        print_notice(&format!(
            "there are more sessions: --limit {more} shows older ones too"
        ));
    }
    Ok(())
}

/// Prints `ID:TITLE` of each session, for the completion.
fn names(paths: &Paths, limit: usize) -> Result<()> {
    let sessions = fetch(paths, limit, None)?;
    let name = |session: &SessionInfo| {
        let title = one_line(&words(&session.title), MAX_TITLE);
        format!("{}:{title}\n", short_id(&session.id))
    };
    print(&sessions.iter().map(name).collect::<String>())
}

fn heading() -> String {
    format!("{:<9} {:>10} {:>8}  title", "id", "last used", "prompts")
}

/// Formats a session as one line that is safe to show. Its first word is the id.
fn list_line(session: &SessionInfo) -> String {
    let id = short_id(&session.id);
    let title = one_line(&words(&session.title), MAX_TITLE);
    format!(
        "{id:<9} {:>10} {:>8}  {title}",
        age(session),
        session.prompts
    )
}

/// Formats a session for a message: id, title, number of prompts and last use.
fn described(session: &SessionInfo) -> String {
    let title = match &*session.title {
        "" => String::new(),
        title => format!(" “{}”", one_line(&words(title), MAX_TITLE)),
    };
    let prompts = count(session.prompts, "prompt");
    format!(
        "{}{title}: {prompts}, last used {}",
        short_id(&session.id),
        age(session)
    )
}

/// Joins the lines of a title.
fn words(title: &str) -> String {
    title.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn age(session: &SessionInfo) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX));
    format!(
        "{} ago",
        duration_text(now.saturating_sub(session.updated_ms))
    )
}

/// Makes a session the shell's own. Without an id the user chooses one; without a terminal it is the one last used.
fn resume(paths: &Paths, id: Option<String>, shell: ShellId, json: bool) -> Result<()> {
    let session = match id {
        None if !json && session_picker::possible() => {
            let sessions = fetch(paths, PICKER_LIMIT, None)?;
            match pick(&sessions, "continue")? {
                Some(session) => Some(session.id.clone()),
                None => return Ok(()),
            }
        }
        id => id,
    };
    let session: SessionInfo =
        connect::request(paths, &Request::ContinueSession { shell, session })?;
    match json {
        true => print_json(&session),
        false => print(&format!("session {}\n", described(&session))),
    }
}

/// Lets the user choose one of these sessions. `None` if he chose none.
fn pick<'s>(sessions: &'s [SessionInfo], action: &str) -> Result<Option<&'s SessionInfo>> {
    if sessions.is_empty() {
        print("no sessions yet\n")?;
        return Ok(None);
    }
    let lines: Vec<String> = sessions.iter().map(list_line).collect();
    let chosen = session_picker::pick(&heading(), &lines, action)?;
    Ok(chosen.and_then(|at| sessions.get(at)))
}

fn delete(paths: &Paths, id: Option<String>, yes: bool) -> Result<()> {
    let sessions = fetch(paths, usize::MAX, None)?;
    let session = match &id {
        Some(id) => {
            let mut found = sessions.iter().filter(|s| s.id.contains(id.as_str()));
            match (found.next(), found.next()) {
                (Some(session), None) if !id.is_empty() => session,
                (Some(_), Some(_)) => {
                    return Err(
                        Error::usage(format!("several sessions have '{id}' in their id"))
                            .hint("give more of the id; see: aish-helper session list"),
                    );
                }
                _ => {
                    return Err(Error::usage(format!("no session has '{id}' in its id"))
                        .hint("see: aish-helper session list"));
                }
            }
        }
        None if session_picker::possible() => match pick(&sessions, "delete")? {
            Some(session) => session,
            None => return Ok(()),
        },
        None => return Err(Error::usage("no session given").hint("see: aish-helper session list")),
    };
    let what = described(session);
    if !yes {
        let question = format!("session {what}\nDelete it for good?");
        if !session_picker::confirms(&question)? {
            return print("nothing was deleted\n");
        }
    }
    let request = Request::DeleteSession {
        session: session.id.clone(),
    };
    connect::request::<()>(paths, &request)?;
    print(&format!("deleted session {}\n", short_id(&session.id)))
}

/// Formats a time span with one unit: `5 min`.
pub(super) fn duration_text(ms: u64) -> String {
    match ms / 1000 {
        s @ 0..60 => format!("{s} s"),
        s @ 60..3600 => format!("{} min", s / 60),
        s @ 3600..86_400 => format!("{} h", s / 3600),
        s => format!("{} d", s / 86_400),
    }
}

/// Whether the turn of a waiting prompt has recorded it.
fn has_begun(records: &[Value], waiting: &Value) -> bool {
    let prompt = |record: &Value| record["ids"]["prompt"].clone();
    let is_prompt = |record: &Value| record["type"] == "user" && prompt(record) == prompt(waiting);
    records.iter().any(is_prompt)
}

/// Shows the records of a session.
fn show(paths: &Paths, request: &Request, json: bool) -> Result<()> {
    let transcript: Transcript = connect::request(paths, request)?;
    if json {
        return transcript.records.iter().try_for_each(print_json);
    }
    let columns = columns().unwrap_or(DEFAULT_COLUMNS);
    let mut out = format!("session {}\n", transcript.session);
    for record in &transcript.records {
        let text = |key: &str| record[key].as_str().unwrap_or("");
        match text("type") {
            "user" if text("prompt") == CONTINUED => {
                out.push_str(&format!("\n({CONTINUED_SHOWN})\n"));
            }
            "user" => out.push_str(&format!("\n> {}\n", text("prompt"))),
            "waiting_prompt" if !has_begun(&transcript.records, record) => {
                out.push_str(&format!("\n> {}\n[not answered]\n", text("prompt")));
            }
            "assistant" => {
                let answer = text("text").trim_end();
                // An answer with only tool calls has no text.
                if !answer.is_empty() || record["calls"].is_null() {
                    out.push_str(&format!("{answer}\n"));
                }
                if let Some(bytes) = record["omitted"].as_u64() {
                    out.push_str(&format!("[the rest was not recorded: {bytes} bytes]\n"));
                }
                out.push_str(&record_view::calls(record, DetailLevel::Excerpt(columns)));
                match text("finish") {
                    "stop" => {}
                    "error" => out.push_str(&format!("[{}]\n", text("error"))),
                    "cut_off" => out.push_str("[cut off: the daemon was killed]\n"),
                    other => out.push_str(&format!("[{other}]\n")),
                }
            }
            "approval" => out.push_str(&record_view::approval(
                record,
                DetailLevel::Excerpt(columns),
            )),
            "tool" => out.push_str(&record_view::tool(record, DetailLevel::Excerpt(columns))),
            "policy" => out.push_str(&record_view::policy(record)),
            "server" => out.push_str(&record_view::server(record)),
            "command_approval" => {
                out.push_str(&format!("[{}] $ {}\n", text("choice"), text("command")))
            }
            "command_result" => {
                out.push_str(&format!(
                    "[exit {}] $ {}\n",
                    record["exit"],
                    text("command")
                ));
                for part in ["head", "tail"] {
                    let part = record["output"][part].as_str().unwrap_or("").trim_end();
                    if !part.is_empty() {
                        out.push_str(&format!("{part}\n"));
                    }
                }
            }
            "compaction" => {
                out.push_str(&format!("\n[summary of {} prompts]\n", record["prompts"]))
            }
            "title" => out.push_str(&format!("[title {}]\n", text("title"))),
            "model" => out.push_str(&format!("[model {}]\n", text("model"))),
            _ => {}
        }
    }
    print(&out)
}
