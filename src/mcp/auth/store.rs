//! Storage of OAuth tokens, one file per server, so that a slow login or a damaged file affects only one server.
//!
//! Tokens are stored by the URL they were issued for, not by alias: if an alias later points to another server, that server
//! does not receive them.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::fcntl::Flock;
use reqwest::Url;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::config::mcp::shown_url;
use crate::error::{Error, ErrorContext, Result};
use crate::paths::{lock_file, make_dir, replace_secret_file};
use crate::safety::redact::global_redactor;

/// Maximum size of a token file; real ones have a few kilobytes.
const MAX_BYTES: u64 = 1 << 20;

/// The OAuth tokens of a user, in files below the state directory.
#[derive(Debug, Clone)]
pub struct TokenStore {
    dir: PathBuf,
    /// Content of the files, since every request needs a token.
    cache: Arc<Mutex<TokenCache>>,
}

/// Content of each token file with the stamp that the file had when it was read.
type TokenCache = HashMap<PathBuf, (TokenFileStamp, Option<TokenRecord>)>;

/// Metadata that changes whenever a token file is replaced or edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TokenFileStamp {
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

impl TokenFileStamp {
    fn of(path: &Path) -> Option<TokenFileStamp> {
        let meta = fs::symlink_metadata(path).ok()?;
        Some(TokenFileStamp {
            inode: meta.ino(),
            length: meta.len(),
            // Unlike mtime, ctime also covers changes of the owner and the permissions.
            changed: (meta.ctime(), meta.ctime_nsec()),
        })
    }
}

/// How the client authenticates at the token endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ClientAuthMethod {
    /// Client id only.
    None,
    /// Client secret in the request body.
    Post,
    /// Client secret in the `Authorization` header.
    Basic,
}

/// Result of a login: the tokens, and the data needed to renew them.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct TokenRecord {
    /// URL of the server, normalised by [`server_key`]. Compared when the file is read, because a copied file can have
    /// any name.
    pub(super) server: String,
    pub(super) access_token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refresh_token: Option<String>,
    /// Expiry of the access token, in seconds since 1970; `None` if the server did not give one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<u64>,
    pub(super) scopes: Vec<String>,
    /// Scopes that the server has asked for since the login; the next login requests them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) wanted: Vec<String>,
    /// Authorization server that issued the tokens. The refresh token is sent to no other server.
    pub(super) issuer: String,
    pub(super) token_endpoint: String,
    pub(super) resource: String,
    pub(super) client_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) client_secret: Option<String>,
    pub(super) proof: ClientAuthMethod,
}

impl fmt::Debug for TokenRecord {
    /// Omits the tokens and the client secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenRecord({}, issued by {})", self.server, self.issuer)
    }
}

impl TokenRecord {
    /// Returns whether the token stays valid for at least this many seconds.
    pub(super) fn is_valid_for(&self, seconds: u64) -> bool {
        self.expires_at
            .is_none_or(|at| at > unix_seconds() + seconds)
    }
}

/// Returns the current time in seconds since 1970.
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs())
}

/// Returns the key under which the tokens of a server are stored: origin and path of its URL. Credentials, query and
/// fragment do not identify a server.
///
/// # Errors
/// The URL is not an HTTP URL.
pub(super) fn server_key(url: &str) -> Result<String> {
    let mut url = Url::parse(url)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https"))
        .ok_or_else(|| Error::config(format!("{} is not a web address", shown_url(url))))?;
    // These cannot fail for an HTTP URL.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    Ok(url.into())
}

/// Exclusive lock on the tokens of one server, held while they are changed.
pub(super) struct TokenLock {
    path: PathBuf,
    server: String,
    _lock: Flock<File>,
}

impl TokenStore {
    /// Creates the store below this state directory.
    pub fn new(state: PathBuf) -> TokenStore {
        TokenStore {
            dir: state.join("mcp-tokens"),
            cache: Arc::default(),
        }
    }

    /// Deletes the tokens of a server. Returns whether there were any.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub async fn forget(&self, url: &str) -> Result<bool> {
        let server = server_key(url)?;
        if fs::symlink_metadata(self.path(&server)).is_err() {
            return Ok(false);
        }
        let lock = self.lock(&server).await?;
        lock.remove()
    }

    /// Returns the path of a server's file. The host name is for people who look into the directory; the digest makes the
    /// name unique.
    fn path(&self, server: &str) -> PathBuf {
        let host = Url::parse(server).ok();
        let host: String = host
            .iter()
            .filter_map(Url::host_str)
            .flat_map(str::chars)
            .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'))
            .take(64)
            .collect();
        let digest = Sha256::digest(server.as_bytes());
        let digest: String = digest.iter().take(8).map(|b| format!("{b:02x}")).collect();
        self.dir.join(format!("{host}-{digest}.json"))
    }

    /// Returns the stored tokens of a server.
    pub(super) fn read(&self, server: &str) -> Result<Option<TokenRecord>> {
        let path = self.path(server);
        let Some(stamp) = TokenFileStamp::of(&path) else {
            return Ok(None);
        };
        let cache = || self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((cached_stamp, record)) = cache().get(&path)
            && *cached_stamp == stamp
        {
            return Ok(record.clone());
        }
        let record = read_file(&path, server)?;
        // If the file was replaced after the stamp was taken, the next call sees another stamp and reads it again.
        cache().insert(path, (stamp, record.clone()));
        Ok(record)
    }

    /// Locks the tokens of a server, also against other processes.
    pub(super) async fn lock(&self, server: &str) -> Result<TokenLock> {
        let (dir, path) = (self.dir.clone(), self.path(server));
        let lock = path.with_extension("lock");
        let lock = tokio::task::spawn_blocking(move || {
            make_dir(&dir)?;
            lock_file(&lock)
        });
        Ok(TokenLock {
            path,
            server: server.to_owned(),
            _lock: lock.await.context(|| "cannot wait for a lock".into())??,
        })
    }
}

impl TokenLock {
    /// Returns the stored tokens, as another process may have changed them before the lock was acquired.
    pub(super) fn read(&self) -> Result<Option<TokenRecord>> {
        read_file(&self.path, &self.server)
    }

    /// Replaces the stored tokens atomically.
    pub(super) async fn write(&self, record: &TokenRecord) -> Result<()> {
        add_to_redactor(record);
        let path = self.path.clone();
        let text = serde_json::to_vec(record)
            .map_err(|e| Error::runtime(format!("cannot write {}: {e}", path.display())))?;
        // Two fsyncs, which must not block the runtime.
        let written = tokio::task::spawn_blocking(move || replace_secret_file(&path, &text));
        written
            .await
            .map_err(|e| Error::runtime(format!("cannot write {}: {e}", self.path.display())))?
    }

    fn remove(&self) -> Result<bool> {
        match fs::remove_file(&self.path) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e).context(|| format!("cannot remove {}", self.path.display())),
        }
    }
}

/// Reads a token file; `None` if it does not exist or belongs to another server.
fn read_file(path: &Path, server: &str) -> Result<Option<TokenRecord>> {
    let open = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NOFOLLOW)
        .open(path);
    let file = match open {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e).context(|| format!("cannot read {}", path.display())),
    };
    let cannot = || format!("cannot read {}", path.display());
    let meta = file.metadata().context(cannot)?;
    if !meta.is_file() || meta.uid() != nix::unistd::getuid().as_raw() || meta.mode() & 0o077 != 0 {
        return Err(Error::runtime(format!(
            "{} is not a regular file that only you can access",
            path.display()
        ))
        .hint("remove it and log in again: aish-helper mcp login ALIAS"));
    }
    let mut text = Vec::new();
    file.take(MAX_BYTES)
        .read_to_end(&mut text)
        .context(cannot)?;
    // The parser's own error may quote a token.
    let record: TokenRecord = serde_json::from_slice(&text).map_err(|_| {
        Error::runtime(format!("{} is damaged", path.display()))
            .hint("log in again: aish-helper mcp login ALIAS")
    })?;
    add_to_redactor(&record);
    Ok(Some(record).filter(|r| r.server == server))
}

/// Makes the redactor remove these tokens from everything that is stored, sent or shown. A renewed token replaces its
/// predecessor there.
fn add_to_redactor(record: &TokenRecord) {
    let secrets = [
        ("access token", Some(&record.access_token)),
        ("refresh token", record.refresh_token.as_ref()),
        ("client secret", record.client_secret.as_ref()),
    ];
    for (name, secret) in secrets {
        if let Some(secret) = secret {
            let slot = format!("{name} of {}", record.server);
            global_redactor().replace_secret(&slot, "mcp-token", secret);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn record(server: &str) -> TokenRecord {
        TokenRecord {
            server: server.into(),
            access_token: "at-1".into(),
            refresh_token: Some("rt-1".into()),
            expires_at: Some(unix_seconds() + 100),
            scopes: vec!["a".into()],
            wanted: Vec::new(),
            issuer: "https://auth.example.com".into(),
            token_endpoint: "https://auth.example.com/token".into(),
            resource: server.into(),
            client_id: "c".into(),
            client_secret: Some("cs-1".into()),
            proof: ClientAuthMethod::Basic,
        }
    }

    #[test]
    fn tokens_are_kept_by_origin_and_path() {
        assert_eq!(
            server_key("HTTPS://u:p@Example.com:443/mcp?x=1#y").unwrap(),
            "https://example.com/mcp"
        );
        assert!(server_key("ftp://example.com").is_err());
        assert!(server_key("mcp").is_err());
    }

    #[tokio::test]
    async fn one_server_does_not_find_the_tokens_of_another() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = TokenStore::new(dir.path().join("state"));
        let server = "https://example.com/mcp";
        let lock = tokens.lock(server).await.unwrap();
        // Once: it has the current time.
        let written = record(server);
        lock.write(&written).await.unwrap();
        assert_eq!(tokens.read(server).unwrap(), Some(written));
        for other in [
            "https://example.com/",
            "https://example.com/mcp/",
            "https://example.com:8443/mcp",
            "http://example.com/mcp",
            "https://evil.com/mcp",
        ] {
            assert_eq!(tokens.read(other).unwrap(), None, "{other}");
            // Not even if the file is copied to the other server's name.
            fs::copy(tokens.path(server), tokens.path(other)).unwrap();
            assert_eq!(tokens.read(other).unwrap(), None, "{other}");
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&tokens.path(server)), 0o600);
        assert_eq!(mode(&tokens.dir), 0o700);
        drop(lock);
        assert!(tokens.forget(server).await.unwrap());
        assert!(!tokens.forget(server).await.unwrap());
        assert_eq!(tokens.read(server).unwrap(), None);
    }

    #[tokio::test]
    async fn a_file_that_others_can_read_or_that_is_damaged_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = TokenStore::new(dir.path().to_path_buf());
        let server = "https://example.com/mcp";
        tokens
            .lock(server)
            .await
            .unwrap()
            .write(&record(server))
            .await
            .unwrap();
        let path = tokens.path(server);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let message = tokens.read(server).unwrap_err().message;
        assert!(message.contains("only you can access"), "{message}");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        assert!(tokens.read(server).is_err());
        fs::remove_file(&path).unwrap();
        let mut file = OpenOptions::new();
        let mut file = file
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .unwrap();
        file.write_all(br#"{"access_token": "at-1", "server": 3}"#)
            .unwrap();
        let message = format!("{:?}", tokens.read(server).unwrap_err());
        assert!(
            message.contains("is damaged") && !message.contains("at-1"),
            "{message}"
        );
    }

    #[test]
    fn debug_shows_no_token() {
        let shown = format!("{:?}", record("https://example.com/mcp"));
        assert!(!shown.contains("-1"), "{shown}");
    }
}
