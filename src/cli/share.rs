//! `aish-helper session share`, `unshare` and `shares`.

use super::session_picker;
use super::{print_json, print_wrapped};
use crate::client::config_question::waiting_settings;
use crate::client::connect;
use crate::client::output::print_notice;
use crate::client::text_format::short_id;
use crate::error::{Error, ErrorKind, Result};
use crate::paths::Paths;
use crate::protocol::{
    Request, ShareOptions, SharePhase, SharePreview, ShareReply, ShareRequest, ShareSession,
    SharedPage,
};
use crate::safety::text::one_line;

/// Maximum number of characters shown of a title.
const MAX_TITLE: usize = 60;
/// Maximum number of characters shown of a place.
const MAX_PLACE: usize = 2000;

/// Shares a session, after a preview and a question.
///
/// # Errors
/// There is no such session, sharing is disabled, or there is no terminal to ask on.
pub fn share(paths: &Paths, session: ShareSession, options: ShareOptions, yes: bool) -> Result<()> {
    let preview = request(
        paths,
        ShareRequest::Preview {
            session: session.clone(),
            options,
        },
    )?;
    let preview = preview.preview.ok_or_else(no_reply)?;
    if let Some(line) = waiting_settings(paths, "share") {
        print_notice(&line);
    }
    if !yes {
        let question = format!("{}Share it?", shown_preview(&preview));
        if !session_picker::confirms(&question)? {
            return print_wrapped("nothing was shared\n");
        }
    }
    let published = request(
        paths,
        ShareRequest::Publish {
            session,
            options,
            digest: preview.digest,
        },
    )?;
    let share = published.shares.first().ok_or_else(no_reply)?;
    match &share.url {
        Some(url) => print_wrapped(&format!("shared {}: {}\n", words(&share.place), words(url))),
        None => print_wrapped("shared; to see the page, start the server: aish-helper serve\n"),
    }
}

fn shown_preview(preview: &SharePreview) -> String {
    let removed = match preview.removed.is_empty() {
        true => "nothing".to_owned(),
        false => preview.removed.join(", "),
    };
    let recordings = match &preview.recordings {
        Some(recordings) => format!(", {}", words(recordings)),
        None => String::new(),
    };
    format!(
        "“{}”: {} messages{recordings}, as a page {}\nleft out or replaced: {removed}\n",
        one_line(&preview.title, MAX_TITLE),
        preview.messages,
        words(&preview.place)
    )
}

/// Returns text of the configuration for the terminal.
fn words(text: &str) -> String {
    one_line(text, MAX_PLACE)
}

fn no_reply() -> Error {
    Error::new(
        ErrorKind::Runtime,
        "the daemon has sent an incomplete reply",
    )
    .hint("try again; if it happens again: aish-helper restart")
}

fn request(paths: &Paths, share: ShareRequest) -> Result<ShareReply> {
    connect::request(paths, &Request::Share(share))
}

/// Removes the shares of a session.
///
/// # Errors
/// There is no such session, or a page cannot be removed.
pub fn unshare(paths: &Paths, session: ShareSession) -> Result<()> {
    let reply = request(paths, ShareRequest::Unshare { session })?;
    print_wrapped(match (reply.removed, reply.is_stopped) {
        (0, false) => "the session was not shared\n",
        (_, false) => "the page is removed\n",
        (0, true) => "the session was not shared, and will not be shared after its answers\n",
        (_, true) => "the page is removed, and the session is not shared again after its answers\n",
    })
}

/// Lists the shares.
///
/// # Errors
/// The register cannot be read.
pub fn list(paths: &Paths, json: bool) -> Result<()> {
    let shares = request(paths, ShareRequest::List)?.shares;
    if json {
        return print_json(&shares);
    }
    if shares.is_empty() {
        return print_wrapped("nothing is shared\n");
    }
    print_wrapped(&shares.iter().map(line).collect::<String>())
}

fn line(share: &SharedPage) -> String {
    let place = match (share.phase, &share.url) {
        (SharePhase::Published, Some(url)) => words(url),
        (SharePhase::Published, None) => {
            "to see the page, start the server: aish-helper serve".to_owned()
        }
        (SharePhase::Publishing | SharePhase::Removing, _) => {
            let session = short_id(&share.session);
            let url = share.url.as_ref().map(|url| format!(": {}", words(url)));
            let place = words(&share.place) + &url.unwrap_or_default();
            format!("interrupted, {place}; remove it: aish-helper session unshare {session}")
        }
    };
    let title = one_line(&share.title, MAX_TITLE);
    let automatic = match share.is_automatic {
        true => " (after each answer)",
        false => "",
    };
    format!(
        "{:<9} {title}{automatic}\n          {place}\n",
        short_id(&share.session)
    )
}
