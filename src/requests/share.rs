//! Sharing sessions: preview, publish, remove, list, and refresh after an answer.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use super::recordings::{in_disabled_project, shared_recordings};
use super::share_place::{HERE, address, bucket_words, here_words, place_words, reaches_others};
use crate::config::{Config, ConfigOverrides, ShareMode, ShareSettings, ShareTarget};
use crate::error::{Error, ErrorKind, Result};
use crate::history::journal::now_ms;
use crate::history::record::{Record, RecordBody};
use crate::paths;
use crate::protocol::{
    ShareOptions, SharePreview, ShareReply, ShareRequest, ShareSession, SharedPage,
};
use crate::safety::own_names::{OwnNames, is_common_name};
use crate::safety::redact::global_redactor;
use crate::services::client_handle::{ClientHandle, ClientVariables};
use crate::services::{AnsweredTurn, SharedServices};
use crate::share::object::ShareObject;
use crate::share::page::duration_words;
use crate::share::publisher::{
    self, HeldSession, Publication, ShareKeys, ShareTargetPlace, Shares,
};
use crate::share::register::{Share, SharePlace};
use crate::share::replay::SharedRecordings;
use crate::share::s3::{CredentialVariables, S3Place};
use crate::share::snapshot::Snapshot;
use crate::turn::background_notice;

/// Where the credentials of buckets come from.
#[derive(Debug, Clone, Copy)]
pub enum CredentialSource<'a> {
    /// The shell of the client.
    Client(&'a ClientHandle),
    /// The variables that shells have sent with their last prompts.
    Kept,
}

/// The result of a removal.
#[derive(Debug, Clone, Copy)]
pub struct RemovedShares {
    /// Number of pages.
    pub count: usize,
    /// The session would have been shared after its next answer, and no longer is.
    pub is_stopped: bool,
}

/// Serves one request. `base` is the address of the HTTP server, if it runs.
///
/// # Errors
/// There is no such session, sharing is disabled, or the session has changed since the preview.
pub async fn serve(
    services: &Arc<SharedServices>,
    client: &ClientHandle,
    request: ShareRequest,
    base: Option<&str>,
) -> Result<ShareReply> {
    let source = CredentialSource::Client(client);
    let mut reply = ShareReply::default();
    match request {
        ShareRequest::Preview { session, options } => {
            let session = wanted(services, session)?;
            reply.preview = Some(preview(services, &session, options, base).await?);
        }
        ShareRequest::Publish {
            session,
            options,
            digest,
        } => {
            let session = wanted(services, session)?;
            let (_, share) = publish(services, source, &session, options, &digest).await?;
            reply.shares = vec![shown(share, base)];
        }
        ShareRequest::Unshare { session } => {
            let session = wanted(services, session)?;
            let removed = unshare(services, source, &session).await?;
            (reply.removed, reply.is_stopped) = (removed.count, removed.is_stopped);
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
        url: address(&share, base),
        place: place_words(&share.place, base),
        is_public: share.place != SharePlace::Local || reaches_others(base),
        id: share.id,
        session: share.session,
        title: share.title,
        created_ms: share.created_ms,
        phase: share.phase,
        is_automatic: share.is_automatic,
    }
}

/// Returns what a share would show, and what would be left out. `base` is the address of the HTTP server, if it runs and the reply names
/// its network.
///
/// # Errors
/// Same as [`serve`].
pub async fn preview(
    services: &Arc<SharedServices>,
    session: &str,
    options: ShareOptions,
    base: Option<&str>,
) -> Result<SharePreview> {
    let (config, snapshot) = snapshot(services, session, options).await?;
    Ok(preview_of(&config, &snapshot, options, base))
}

fn preview_of(
    config: &Config,
    snapshot: &Snapshot,
    options: ShareOptions,
    base: Option<&str>,
) -> SharePreview {
    SharePreview {
        digest: snapshot.digest(),
        title: snapshot.title.clone(),
        messages: snapshot.messages.len(),
        recordings: options.recordings.then(|| recording_words(snapshot)),
        recording_count: snapshot.recordings.len(),
        recording_ms: recording_ms(snapshot),
        removed: snapshot.removed.words(),
        place: bucket(&config.share).map_or_else(|| here_words(base), |place| bucket_words(&place)),
    }
}

fn recording_ms(snapshot: &Snapshot) -> u64 {
    let recordings = snapshot.recordings.iter();
    recordings.map(|recording| recording.duration_ms).sum()
}

fn recording_words(snapshot: &Snapshot) -> String {
    let duration = duration_words(recording_ms(snapshot));
    match snapshot.recordings.len() {
        0 => "no recordings".to_owned(),
        1 => format!("1 recording ({duration})"),
        n => format!("{n} recordings ({duration})"),
    }
}

/// Publishes the session as a preview has shown it.
///
/// # Errors
/// Same as [`serve`].
pub async fn publish(
    services: &Arc<SharedServices>,
    source: CredentialSource<'_>,
    session: &str,
    options: ShareOptions,
    digest: &str,
) -> Result<(SharePreview, Share)> {
    let id = services.sessions.find(session).await?;
    // Before the session is read, so that it is not deleted meanwhile.
    let held = hold(&id).await;
    let (config, snapshot) = snapshot(services, &id, options).await?;
    let preview = preview_of(&config, &snapshot, options, None);
    if preview.digest != digest {
        return Err(Error::new(
            ErrorKind::Interrupted,
            "the session has changed since the preview",
        )
        .hint("look at the preview again"));
    }
    let shares = Shares::new(&services.paths);
    let listed = shares.of_session(&id).await?;
    let keys = keys(services, source, &config.share, &listed).await?;
    let publication = publication(&config, snapshot);
    let published = async move { shares.publish(&held, publication, &keys).await };
    Ok((preview, complete(services, published).await?))
}

/// Waits until no other request changes the shares of the session of this id.
pub async fn hold(id: &str) -> HeldSession {
    publisher::hold(id).await
}

fn publication(config: &Config, snapshot: Snapshot) -> Publication {
    let settings = &config.share;
    let target = match bucket(settings) {
        None => ShareTargetPlace::Local,
        Some(bucket) => ShareTargetPlace::S3 {
            bucket: Box::new(bucket),
            prefix: settings.prefix.clone().unwrap_or_default(),
            public_url: settings.public_url.clone(),
        },
    };
    Publication {
        snapshot,
        target,
        now_ms: now_ms(),
    }
}

/// Returns the bucket of the configuration, if pages go there.
fn bucket(settings: &ShareSettings) -> Option<S3Place> {
    if settings.target == ShareTarget::Local {
        return None;
    }
    // The configuration has checked that both are there.
    let (endpoint, bucket) = (settings.endpoint.clone()?, settings.bucket.clone()?);
    Some(S3Place {
        endpoint,
        bucket,
        region: settings.region.clone(),
        path_style: settings.path_style,
        key: String::new(),
        url: String::new(),
        variables: CredentialVariables {
            access_key: settings.access_key_env.clone(),
            secret_key: settings.secret_key_env.clone(),
            session_token: settings.session_token_env.clone(),
        },
    })
}

/// Collects the credentials that these shares and a new one can need.
async fn keys(
    services: &SharedServices,
    source: CredentialSource<'_>,
    settings: &ShareSettings,
    shares: &[Share],
) -> Result<ShareKeys> {
    let current = bucket(settings);
    let names = ShareKeys::names(current.as_ref(), shares);
    let values = match (names.is_empty(), source) {
        (true, _) => ClientVariables::new(),
        (false, CredentialSource::Client(client)) => client.variables(names).await?,
        (false, CredentialSource::Kept) => services.last_variables.get(&names),
    };
    Ok(ShareKeys {
        values,
        current: current.map(Box::new),
        is_kept: matches!(source, CredentialSource::Kept),
    })
}

/// Completes the work even if the client hangs up, unless the daemon must end immediately.
pub(super) async fn complete<T: Send + 'static>(
    services: &SharedServices,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let ending = services.ending.clone();
    let done = services.tasks.spawn(async move {
        tokio::select! {
            biased;
            done = work => done,
            () = ending.cancelled() => Err(Error::runtime(
                "the daemon has ended before the request was complete",
            )
            .hint("see what is left: aish-helper session list, aish-helper session shares")),
        }
    });
    done.await
        .unwrap_or_else(|e| Err(Error::runtime(format!("the background task failed: {e}"))))
}

/// Publishes a session again after an answer, if that is wanted, and notifies its shell the first time.
/// `base` is the address of the HTTP server, if it runs.
///
/// # Errors
/// The configuration is wrong, or the page cannot be written.
pub async fn refresh(
    services: &Arc<SharedServices>,
    turn: &AnsweredTurn,
    base: Option<&str>,
) -> Result<()> {
    let config = services.models.config(&ConfigOverrides::default())?;
    if config.share.mode != ShareMode::Auto {
        return Ok(());
    }
    let held = hold(&turn.session).await;
    let options = ShareOptions::default();
    let (config, snapshot) = match snapshot(services, &turn.session, options).await {
        Ok(snapshot) => snapshot,
        // The project does not want it.
        Err(e) if e.kind == ErrorKind::Approval => return Ok(()),
        Err(e) => return Err(e),
    };
    let shares = Shares::new(&services.paths);
    let listed = shares.of_session(&turn.session).await?;
    let keys = keys(services, CredentialSource::Kept, &config.share, &listed).await?;
    let publication = publication(&config, snapshot);
    let new = shares.refresh(&held, publication, &keys).await?;
    if let (Some(share), Some(shell)) = (new, &turn.shell) {
        let place = match address(&share, base) {
            Some(url) => url,
            None => format!("{HERE}; aish-helper serve shows the page"),
        };
        background_notice::shared(&services.paths, shell, &turn.session, &place);
    }
    Ok(())
}

/// Removes the shares of a session.
///
/// # Errors
/// There is no such session, or a page cannot be removed.
pub async fn unshare(
    services: &Arc<SharedServices>,
    source: CredentialSource<'_>,
    session: &str,
) -> Result<RemovedShares> {
    let mut fits: Vec<String> = list(services)
        .await?
        .into_iter()
        .map(|share| share.session)
        .collect();
    fits.retain(|known| !session.is_empty() && known.contains(session));
    fits.dedup();
    let id = match &fits[..] {
        // The session itself may be gone.
        [session] => session.clone(),
        _ => services.sessions.find(session).await?,
    };
    unshare_id(services, source, &id).await
}

/// Removes the shares of the session of this id, if it has any.
///
/// # Errors
/// A page cannot be removed.
pub async fn unshare_id(
    services: &Arc<SharedServices>,
    source: CredentialSource<'_>,
    id: &str,
) -> Result<RemovedShares> {
    remove(services, source, &hold(id).await).await
}

/// Removes the shares of a session, which is not shared automatically again.
///
/// # Errors
/// A page cannot be removed.
pub async fn remove(
    services: &Arc<SharedServices>,
    source: CredentialSource<'_>,
    held: &HeldSession,
) -> Result<RemovedShares> {
    let shares = Shares::new(&services.paths);
    let listed = shares.of_session(held.session()).await?;
    // A page can be removed whatever is wrong with the configuration.
    let config = services.models.config(&ConfigOverrides::default());
    let settings = config.map(|config| config.share.clone());
    let settings = settings.unwrap_or_default();
    let stops = settings.mode == ShareMode::Auto || listed.iter().any(|share| share.is_automatic);
    // The credentials of a bucket without one of these pages are not requested.
    let source_settings = match listed.iter().any(|share| share.place != SharePlace::Local) {
        true => settings,
        false => ShareSettings::default(),
    };
    let keys = keys(services, source, &source_settings, &listed).await?;
    let held = held.clone();
    let removed = async move {
        let count = shares.unshare(&held, &keys, stops).await?;
        // The page of this session may be one of them.
        shares.remove_unlisted().await?;
        Ok(count)
    };
    let count = complete(services, removed).await?;
    Ok(RemovedShares {
        count,
        is_stopped: stops,
    })
}

/// Removes the pages on this machine that are not in the register.
///
/// # Errors
/// The register cannot be read, or a page cannot be removed.
pub async fn remove_unlisted(services: &SharedServices) -> Result<()> {
    Shares::new(&services.paths).remove_unlisted().await
}

/// Forgets the state of a deleted session besides its shares.
pub async fn forget(services: &SharedServices, held: &HeldSession) {
    let shares = Shares::new(&services.paths);
    if let Err(e) = shares.forget_session(held.session()).await {
        tracing::warn!("{}", e.message);
    }
}

/// Returns all shares, oldest first.
///
/// # Errors
/// The register cannot be read.
pub async fn list(services: &SharedServices) -> Result<Vec<Share>> {
    Shares::new(&services.paths).list().await
}

/// Opens an object of a published share on this machine.
///
/// # Errors
/// The register or the file cannot be read.
pub async fn open(
    services: &SharedServices,
    id: &str,
    object: ShareObject,
) -> Result<Option<File>> {
    Shares::new(&services.paths).open(id, object).await
}

async fn snapshot(
    services: &Arc<SharedServices>,
    session: &str,
    options: ShareOptions,
) -> Result<(Arc<Config>, Snapshot)> {
    let config = services.models.config(&ConfigOverrides::default())?;
    let disabled = |message: String, hint: &str| {
        Err(Error::new(ErrorKind::Approval, message).hint(hint.to_owned()))
    };
    if config.share.mode == ShareMode::Disabled {
        return disabled(
            "sharing is disabled".to_owned(),
            "the setting is mode in [share] of the configuration",
        );
    }
    let id = services.sessions.find(session).await?;
    let info = super::session_info(services, &id).await?;
    let session = services.sessions.get(&id).await?;
    let (user, paths) = (services.user.clone(), services.paths.clone());
    let journal = services.sessions.journal.clone();
    super::blocking(move || {
        let records = session.with_records(<[_]>::to_vec);
        // Reading recordings may take long, and a session that is held cannot be deleted.
        drop(session);
        if let Some(source) = disabled_by_project(&config, &records) {
            return disabled(
                format!("sharing is disabled: {source}"),
                "a session with a prompt from this project is not shared",
            );
        }
        let names = own_names(user);
        let recordings = match options.recordings {
            true => shared_recordings(&config, (&paths, &journal), &records, &names)?,
            false => SharedRecordings::default(),
        };
        let redactor = global_redactor();
        // That of the list is cut.
        let title = whole_title(&records).unwrap_or(&info.title);
        let snapshot = Snapshot::new(title, &records, options, recordings, &names, redactor);
        Ok((config, snapshot))
    })
    .await
}

/// Returns the place where a project of one of the prompts says that nothing is shared.
fn disabled_by_project(config: &Config, records: &[Record]) -> Option<String> {
    let directories = records.iter().filter_map(|record| match &record.body {
        RecordBody::User { cwd, .. } => Some(cwd.as_str()),
        _ => None,
    });
    in_disabled_project(config, directories.collect())
}

fn own_names(user: Option<String>) -> OwnNames {
    let home = paths::variable("HOME").map(|home| home.to_string_lossy().into_owned());
    let host = std::fs::read_to_string(Path::new("/proc/sys/kernel/hostname"))
        .or_else(|_| std::fs::read_to_string("/etc/hostname"));
    let known = |name: String| match is_common_name(&name) {
        true => String::new(),
        false => name,
    };
    OwnNames::new(
        home.unwrap_or_default().trim_end_matches('/'),
        &known(user.unwrap_or_default()),
        &known(host.unwrap_or_default().trim().to_owned()),
    )
}

/// Returns the title that the records give the session, not cut.
fn whole_title(records: &[Record]) -> Option<&str> {
    let given = records.iter().rev().find_map(|record| match &record.body {
        RecordBody::Title { title } => Some(title.as_str()),
        _ => None,
    });
    let first = || {
        records.iter().find_map(|record| match &record.body {
            RecordBody::User { text, .. } => Some(text.as_str()),
            _ => None,
        })
    };
    given.or_else(first)
}
