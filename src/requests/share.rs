//! Sharing sessions: preview, publish, remove, list.

use std::path::Path;
use std::sync::Arc;

use crate::config::{ConfigOverrides, ShareMode};
use crate::error::{Error, ErrorKind, Result};
use crate::history::journal::now_ms;
use crate::history::session_list::MAX_TITLE;
use crate::paths;
use crate::protocol::{SharePreview, ShareReply, ShareRequest, ShareSession, SharedPage};
use crate::safety::redact::global_redactor;
use crate::services::SharedServices;
use crate::share::local::LocalShares;
use crate::share::register::Share;
use crate::share::snapshot::{OwnNames, ShareOptions, Snapshot};

/// Names that tell nothing about the user, and stand in many texts.
const COMMON_NAMES: [&str; 2] = ["root", "localhost"];

/// Serves one request. `base` is the address of the HTTP server, if it runs.
///
/// # Errors
/// There is no such session, sharing is disabled, or the session has changed since the preview.
pub async fn serve(
    services: &Arc<SharedServices>,
    request: ShareRequest,
    base: Option<&str>,
) -> Result<ShareReply> {
    let mut reply = ShareReply::default();
    match request {
        ShareRequest::Preview {
            session,
            with_output,
        } => {
            let session = wanted(services, session)?;
            reply.preview = Some(preview(services, &session, with_output).await?);
        }
        ShareRequest::Publish {
            session,
            with_output,
            digest,
        } => {
            let session = wanted(services, session)?;
            let share = publish(services, &session, with_output, &digest).await?;
            reply.shares = vec![shown(share, base)];
        }
        ShareRequest::Unshare { session } => {
            let session = wanted(services, session)?;
            reply.removed = unshare(services, &session).await?;
        }
        ShareRequest::List => {
            let shares = list(services).await?;
            reply.shares = shares.into_iter().map(|share| shown(share, base)).collect();
        }
    }
    Ok(reply)
}

fn wanted(services: &SharedServices, session: ShareSession) -> Result<String> {
    let ShareSession { id, shell } = session;
    let of_shell = || services.sessions.session_for_shell(&shell?);
    id.or_else(of_shell)
        .ok_or_else(|| Error::usage("this shell has no session yet").hint("name one by its id"))
}

fn shown(share: Share, base: Option<&str>) -> SharedPage {
    SharedPage {
        url: base.map(|base| format!("{base}/share/{}", share.id)),
        id: share.id,
        session: share.session,
        title: share.title,
        created_ms: share.created_ms,
        phase: share.phase,
    }
}

/// Returns what a share would show, and what would be left out.
///
/// # Errors
/// As for [`serve`].
pub async fn preview(
    services: &Arc<SharedServices>,
    session: &str,
    with_output: bool,
) -> Result<SharePreview> {
    let snapshot = snapshot(services, session, with_output).await?;
    Ok(SharePreview {
        digest: snapshot.digest(),
        title: snapshot.title.clone(),
        messages: snapshot.messages.len(),
        removed: snapshot.removed.words(),
    })
}

/// Publishes what a preview has shown.
///
/// # Errors
/// As for [`serve`].
pub async fn publish(
    services: &Arc<SharedServices>,
    session: &str,
    with_output: bool,
    digest: &str,
) -> Result<Share> {
    let id = services.sessions.find(session).await?;
    let snapshot = snapshot(services, &id, with_output).await?;
    if snapshot.digest() != digest {
        return Err(Error::new(
            ErrorKind::Interrupted,
            "the session has changed since the preview",
        )
        .hint("look at the preview again"));
    }
    let shares = LocalShares::new(&services.paths);
    super::blocking(move || shares.publish(&id, &snapshot, now_ms())).await
}

/// Removes the shares of a session.
///
/// # Errors
/// There is no such session, or a page cannot be removed.
pub async fn unshare(services: &Arc<SharedServices>, session: &str) -> Result<usize> {
    let shares = LocalShares::new(&services.paths);
    let wanted = session.to_owned();
    let listed = super::blocking({
        let shares = shares.clone();
        move || shares.list()
    });
    let mut fits: Vec<String> = listed
        .await?
        .into_iter()
        .map(|share| share.session)
        .collect();
    fits.retain(|session| !wanted.is_empty() && session.contains(&wanted));
    fits.dedup();
    let id = match &fits[..] {
        // The session itself may be gone.
        [session] => session.clone(),
        _ => services.sessions.find(session).await?,
    };
    super::blocking(move || shares.unshare(&id)).await
}

/// Returns all shares, oldest first.
///
/// # Errors
/// The register cannot be read.
pub async fn list(services: &SharedServices) -> Result<Vec<Share>> {
    let shares = LocalShares::new(&services.paths);
    super::blocking(move || shares.list()).await
}

async fn snapshot(
    services: &Arc<SharedServices>,
    session: &str,
    with_output: bool,
) -> Result<Snapshot> {
    let config = services.models.config(&ConfigOverrides::default())?;
    if config.share.mode == ShareMode::Disabled {
        return Err(Error::new(ErrorKind::Approval, "sharing is disabled")
            .hint("the setting is mode in [share] of the configuration"));
    }
    let id = services.sessions.find(session).await?;
    let info = super::session_info(services, &id).await?;
    let session = services.sessions.get(&id).await?;
    let user = services.user.clone();
    super::blocking(move || {
        let title: String = info.title.chars().take(MAX_TITLE).collect();
        let records = session.with_records(<[_]>::to_vec);
        let names = own_names(user);
        let options = ShareOptions { with_output };
        Ok(Snapshot::new(
            &title,
            &records,
            options,
            &names,
            global_redactor(),
        ))
    })
    .await
}

fn own_names(user: Option<String>) -> OwnNames {
    let home = paths::variable("HOME").map(|home| home.to_string_lossy().into_owned());
    let host = std::fs::read_to_string(Path::new("/proc/sys/kernel/hostname"))
        .or_else(|_| std::fs::read_to_string("/etc/hostname"));
    let known = |name: String| match COMMON_NAMES.contains(&&*name) {
        true => String::new(),
        false => name,
    };
    OwnNames {
        home: home.unwrap_or_default().trim_end_matches('/').to_owned(),
        user: known(user.unwrap_or_default()),
        host: known(host.unwrap_or_default().trim().to_owned()),
    }
}
