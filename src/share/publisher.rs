//! Publishes and removes shares. Each step is in the register first, so that a page that may exist is listed after a crash.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sha2::{Digest, Sha256};
use tokio::sync::OwnedMutexGuard;

use super::local::{LocalPages, MAX_PAGE};
use super::object::ShareObject;
use super::page;
use super::register::{Share, SharePlace, ShareRegister};
use super::s3::{CredentialVariables, S3Credentials, S3Place};
use super::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::paths::Paths;
use crate::protocol::SharePhase;
use crate::secret::Secret;

/// Locks of the sessions whose shares are being changed.
static SESSIONS: Mutex<BTreeMap<String, Weak<tokio::sync::Mutex<()>>>> =
    Mutex::new(BTreeMap::new());

/// The shares of the user.
#[derive(Debug, Clone)]
pub struct Shares {
    register: ShareRegister,
    pages: LocalPages,
}

/// Where new pages go.
#[derive(Debug, Clone)]
pub enum ShareTargetPlace {
    /// On this machine.
    Local,
    /// In a bucket.
    S3 {
        /// The bucket; its key is not used.
        bucket: Box<S3Place>,
        /// The beginning of the names of the objects.
        prefix: String,
        /// The address at which others read them.
        public_url: Option<String>,
    },
}

impl ShareTargetPlace {
    fn place(&self, id: &str) -> Result<SharePlace> {
        match self {
            ShareTargetPlace::Local => Ok(SharePlace::Local),
            ShareTargetPlace::S3 {
                bucket,
                prefix,
                public_url,
            } => {
                let name = ShareObject::Page.name(id);
                let key = match prefix.trim_end_matches('/') {
                    "" => name,
                    prefix => format!("{prefix}/{name}"),
                };
                let place = bucket.as_ref().clone();
                let place = place.with_key(key, public_url.as_deref())?;
                Ok(SharePlace::S3(Box::new(place)))
            }
        }
    }
}

/// The values of the variables that hold credentials.
#[derive(Debug, Clone, Default)]
pub struct ShareKeys {
    /// The values.
    pub values: BTreeMap<String, Secret>,
    /// The bucket of the configuration, whose variables may have other names by now.
    pub current: Option<Box<S3Place>>,
    /// The values are those that shells have sent with their last prompts.
    pub is_kept: bool,
}

impl ShareKeys {
    /// Returns the variables whose values can be needed for the shares.
    pub fn names(current: Option<&S3Place>, shares: &[Share]) -> Vec<String> {
        let recorded = shares.iter().filter_map(|share| match &share.place {
            SharePlace::Local => None,
            SharePlace::S3(place) => Some(&place.variables),
        });
        let current = current.map(|place| &place.variables);
        let all = current.into_iter().chain(recorded);
        let mut names: Vec<String> = all.flat_map(CredentialVariables::names).cloned().collect();
        names.sort();
        names.dedup();
        names
    }

    fn credentials(&self, place: &S3Place) -> Result<S3Credentials> {
        let current = self.current.as_ref();
        if let Some(current) = current.filter(|current| current.is_same_bucket(place))
            && let Ok(credentials) = current.variables.credentials(&self.values)
        {
            return Ok(credentials);
        }
        let credentials = place.variables.credentials(&self.values);
        credentials.map_err(|error| match self.is_kept {
            true => error.hint("send a prompt from a shell that has the variable, then try again"),
            false => error,
        })
    }
}

/// The published content.
#[derive(Debug)]
pub struct Publication {
    /// The shown parts of the session.
    pub snapshot: Snapshot,
    /// Where its page goes.
    pub target: ShareTargetPlace,
    /// The time, milliseconds since 1970.
    pub now_ms: u64,
}

impl Shares {
    /// Returns the shares of the user.
    pub fn new(paths: &Paths) -> Shares {
        Shares {
            register: ShareRegister::new(paths),
            pages: LocalPages::new(paths),
        }
    }

    /// Returns all shares, oldest first.
    ///
    /// # Errors
    /// The register cannot be read.
    pub async fn list(&self) -> Result<Vec<Share>> {
        self.in_register(|register| register.list()).await
    }

    /// Returns the shares of a session, oldest first.
    ///
    /// # Errors
    /// The register cannot be read.
    pub async fn of_session(&self, session: &str) -> Result<Vec<Share>> {
        let session = session.to_owned();
        self.in_register(move |register| register.of_session(&session))
            .await
    }

    /// Opens an object of a published share on this machine.
    ///
    /// # Errors
    /// The register or the file cannot be read.
    pub async fn open(&self, id: &str, object: ShareObject) -> Result<Option<File>> {
        let (shares, id) = (self.clone(), id.to_owned());
        blocking(move || {
            let is_served = |share: &Share| {
                share.id == id
                    && share.phase == SharePhase::Published
                    && share.place == SharePlace::Local
                    && share.objects().any(|known| known == object)
            };
            match shares.register.list()?.iter().any(is_served) {
                true => shares.pages.open(&id, object),
                false => Ok(None),
            }
        })
        .await
    }

    /// Publishes a snapshot of a session at a new address, and removes the earlier shares of the session then.
    ///
    /// # Errors
    /// The register or the page cannot be written, or an earlier page cannot be removed.
    pub async fn publish(
        &self,
        held: &HeldSession,
        publication: Publication,
        keys: &ShareKeys,
    ) -> Result<Share> {
        self.replace(held, publication, keys, false).await
    }

    async fn replace(
        &self,
        held: &HeldSession,
        publication: Publication,
        keys: &ShareKeys,
        is_automatic: bool,
    ) -> Result<Share> {
        let id = random_id();
        let Publication {
            snapshot,
            target,
            now_ms,
        } = publication;
        let mut share = Share {
            place: target.place(&id)?,
            id,
            session: held.session.clone(),
            title: snapshot.title.clone(),
            created_ms: now_ms,
            digest: snapshot.digest(),
            phase: SharePhase::Publishing,
            is_automatic,
            recordings: snapshot.recordings.len(),
        };
        if let SharePlace::S3(place) = &share.place {
            // Nothing is listed that could not have been sent.
            keys.credentials(place)?;
        }
        let earlier = self.of_session(&share.session).await?;
        self.put(&share).await?;
        self.write(&share, snapshot, keys)
            .await
            .map_err(|e| stays_listed(e, &share.session))?;
        share.phase = SharePhase::Published;
        self.put(&share).await?;
        for old in &earlier {
            if let Err(e) = self.remove(old, keys).await {
                let message = format!(
                    "the page is published, but an earlier one is still there: {}",
                    e.message
                );
                return Err(Error { message, ..e });
            }
        }
        Ok(share)
    }

    /// Publishes the present state of a session without a question, at the address that it has. Returns the share if it is
    /// new. A session that was shared manually, or unshared, is left as it is.
    ///
    /// # Errors
    /// As for [`Shares::publish`].
    pub async fn refresh(
        &self,
        held: &HeldSession,
        publication: Publication,
        keys: &ShareKeys,
    ) -> Result<Option<Share>> {
        let session = held.session.clone();
        let is_stopped = self.in_register(move |register| register.is_stopped(&session));
        let shares = self.of_session(&held.session).await?;
        let by_hand = |share: &Share| !share.is_automatic || share.phase == SharePhase::Removing;
        if is_stopped.await? || shares.iter().any(by_hand) {
            return Ok(None);
        }
        let [share] = &shares[..] else {
            return self.replace(held, publication, keys, true).await.map(Some);
        };
        let is_same_place = share.place.is_same_target(&publication.target.place("")?);
        if !is_same_place || share.recordings != publication.snapshot.recordings.len() {
            return self.replace(held, publication, keys, true).await.map(Some);
        }
        let was_published = share.phase == SharePhase::Published;
        let digest = publication.snapshot.digest();
        if was_published && share.digest == digest {
            return Ok(None);
        }
        let share = Share {
            title: publication.snapshot.title.clone(),
            digest,
            phase: SharePhase::Published,
            ..share.clone()
        };
        // The page is replaced as a whole: until then the old one is valid.
        self.write(&share, publication.snapshot, keys).await?;
        self.put(&share).await?;
        Ok((!was_published).then_some(share))
    }

    /// Removes the shares of a session, and verifies that their pages are gone. Returns how many there were. With `stops`, the
    /// session is not shared automatically again.
    ///
    /// # Errors
    /// The register cannot be read or written, or a page cannot be removed; the share stays listed then.
    pub async fn unshare(
        &self,
        held: &HeldSession,
        keys: &ShareKeys,
        stops: bool,
    ) -> Result<usize> {
        let session = &held.session;
        if stops {
            let stopped = session.clone();
            self.in_register(move |register| register.stop(&stopped))
                .await?;
        }
        let shares = self.of_session(session).await?;
        let mut failed = None;
        for share in &shares {
            if let Err(e) = self.remove(share, keys).await {
                failed.get_or_insert(e);
            }
        }
        match failed {
            Some(e) => Err(stays_listed(e, session)),
            None => Ok(shares.len()),
        }
    }

    /// Removes the pages on this machine that no share has, and their recordings: a register that was moved aside does not list them.
    ///
    /// # Errors
    /// The register or the directory cannot be read, or a file cannot be removed.
    pub async fn remove_unlisted(&self) -> Result<()> {
        let shares = self.clone();
        blocking(move || {
            // Before the register is read, where each share is listed as long as one of its objects may be there.
            let mut unlisted = shares.pages.ids()?;
            if unlisted.is_empty() {
                return Ok(());
            }
            for share in shares.register.list()? {
                unlisted.remove(&share.id);
            }
            for id in &unlisted {
                shares.pages.remove_all(id)?;
                tracing::info!("removed a page that is not in the register of shares");
            }
            Ok(())
        })
        .await
    }

    /// Forgets that a session is not shared automatically: it is deleted.
    ///
    /// # Errors
    /// The register cannot be read or written.
    pub async fn forget_session(&self, session: &str) -> Result<()> {
        let session = session.to_owned();
        self.in_register(move |register| register.forget_session(&session))
            .await
    }

    async fn write(&self, share: &Share, snapshot: Snapshot, keys: &ShareKeys) -> Result<()> {
        let (id, place) = (share.id.clone(), share.place.clone());
        let rendered = blocking(move || {
            let mut snapshot = snapshot;
            let folder = match &place {
                SharePlace::Local => None,
                SharePlace::S3(page) => page.url.strip_suffix(&ShareObject::Page.name(&id)),
            };
            let page = page::render(&snapshot, &id, folder).into_bytes();
            if page.len() > MAX_PAGE {
                return Err(Error::runtime("the page is larger than 64 MiB"));
            }
            let recordings = std::mem::take(&mut snapshot.recordings);
            let casts = recordings.into_iter().map(|recording| recording.cast);
            Ok(casts.chain([page]).collect::<Vec<_>>())
        });
        for (object, bytes) in share.objects().zip(rendered.await?) {
            match &share.place {
                SharePlace::Local => {
                    let (pages, id) = (self.pages.clone(), share.id.clone());
                    blocking(move || pages.write(&id, object, &bytes)).await?;
                }
                SharePlace::S3(place) => {
                    let credentials = keys.credentials(place)?;
                    let place = place.beside(&share.id, object);
                    place
                        .put(&credentials, object.content_type(), bytes)
                        .await?;
                }
            }
        }
        Ok(())
    }

    async fn remove(&self, share: &Share, keys: &ShareKeys) -> Result<()> {
        let credentials = match &share.place {
            SharePlace::Local => None,
            SharePlace::S3(place) => Some((place, keys.credentials(place)?)),
        };
        self.put(&Share {
            phase: SharePhase::Removing,
            ..share.clone()
        })
        .await?;
        for object in share.objects() {
            match &credentials {
                None => {
                    let (pages, id) = (self.pages.clone(), share.id.clone());
                    blocking(move || pages.remove(&id, object)).await?;
                }
                Some((place, credentials)) => {
                    place.beside(&share.id, object).remove(credentials).await?;
                }
            }
        }
        let id = share.id.clone();
        self.in_register(move |register| register.remove(&id)).await
    }

    async fn put(&self, share: &Share) -> Result<()> {
        let share = share.clone();
        self.in_register(move |register| register.put(&share)).await
    }

    async fn in_register<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ShareRegister) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let register = self.register.clone();
        blocking(move || work(&register)).await
    }
}

/// The right to change the shares of a session. Publishing and deleting a session both need it, so a session that is being deleted is
/// not published.
#[derive(Debug, Clone)]
pub struct HeldSession {
    session: String,
    _guard: Arc<OwnedMutexGuard<()>>,
}

impl HeldSession {
    /// Returns the id of the session.
    pub fn session(&self) -> &str {
        &self.session
    }
}

/// Waits until no other request changes the shares of the session.
pub async fn hold(session: &str) -> HeldSession {
    let lock = {
        let mut all = SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, lock| lock.strong_count() > 0);
        let lock = all.get(session).and_then(Weak::upgrade).unwrap_or_default();
        all.insert(session.to_owned(), Arc::downgrade(&lock));
        lock
    };
    HeldSession {
        session: session.to_owned(),
        _guard: Arc::new(lock.lock_owned().await),
    }
}

/// Returns 128 random bits as text: a UUID alone has 122.
fn random_id() -> String {
    let mut hash = Sha256::new();
    for _ in 0..2 {
        hash.update(uuid::Uuid::new_v4().as_bytes());
    }
    hash.finalize()
        .iter()
        .take(16)
        .map(|b| format!("{b:02x}"))
        .collect()
}

/// Says that the share is not forgotten, and how to remove it.
fn stays_listed(error: Error, session: &str) -> Error {
    let again = format!("the share stays listed: aish-helper session unshare {session}");
    let hint = match &error.hint {
        Some(hint) => format!("{hint}; {again}"),
        None => again,
    };
    error.hint(hint)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|e| Err(Error::runtime(format!("the background task failed: {e}"))))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn share(id: &str) -> Share {
        Share {
            id: id.to_owned(),
            session: "s".to_owned(),
            title: String::new(),
            created_ms: 1,
            digest: String::new(),
            phase: SharePhase::Published,
            place: SharePlace::Local,
            is_automatic: false,
            recordings: 1,
        }
    }

    #[tokio::test]
    async fn pages_that_no_register_lists_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(home.path(), 1).unwrap();
        let shares = Shares::new(&paths);
        let (listed, lost) = (random_id(), random_id());
        for id in [&listed, &lost] {
            for object in share(id).objects() {
                shares.pages.write(id, object, b"page").unwrap();
            }
        }
        // Not pages of aish.
        let dir = paths.shares();
        fs::write(dir.join("notes.html"), "x").unwrap();
        fs::write(dir.join(format!("{lost}.txt")), "x").unwrap();
        // A register that cannot be read may list them.
        let register = paths.data.join("shares.json");
        fs::write(&register, "").unwrap();
        let error = shares.remove_unlisted().await.unwrap_err();
        assert!(error.message.contains("is damaged"), "{}", error.message);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 6);
        fs::rename(&register, paths.data.join("shares.json.damaged")).unwrap();
        shares.put(&share(&listed)).await.unwrap();
        shares.remove_unlisted().await.unwrap();
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 4);
        for object in share(&listed).objects() {
            let file = shares.open(&listed, object).await.unwrap();
            assert!(file.is_some(), "{object:?}");
        }
    }

    #[test]
    fn a_damaged_register_is_named_without_words_of_a_library() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(home.path(), 1).unwrap();
        let register = ShareRegister::new(&paths);
        let file = paths.data.join("shares.json");
        fs::create_dir_all(&paths.data).unwrap();
        for text in ["", "{}", "[{", "[1]", "{\"shares\":1}"] {
            fs::write(&file, text).unwrap();
            let error = register.list().unwrap_err();
            let expected = format!("{} is damaged at line", file.display());
            assert!(error.message.starts_with(&expected), "{}", error.message);
            assert!(error.hint.is_some_and(|hint| hint.contains(".damaged")));
        }
        // As it was at first.
        fs::write(&file, "[]").unwrap();
        assert_eq!(register.list().unwrap(), []);
    }
}
