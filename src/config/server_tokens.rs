//! The tokens of other aish servers, one file for each origin. A token is returned for its own origin only.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorContext, Result};
use crate::paths::{Paths, make_dir, read_own, replace_secret_file};
use crate::safety::redact::global_redactor;
use crate::secret::{Secret, fingerprint};

/// Maximum size of a token file.
const MAX_BYTES: u64 = 64 << 10;

/// The content of a token file.
#[derive(Serialize, Deserialize)]
struct TokenFile {
    /// The server. Compared when the file is read: a copied file can have any name.
    origin: String,
    token: String,
}

fn file_of(paths: &Paths, origin: &str) -> PathBuf {
    // An origin is public, and the digest makes it a file name.
    let name = fingerprint([origin]);
    paths.server_tokens().join(format!("{name}.json"))
}

/// Stores the token of a server, in place of an older one.
///
/// # Errors
/// The file cannot be written.
pub fn store(paths: &Paths, origin: &str, token: &Secret) -> Result<()> {
    global_redactor().add_secret("server-token", token.expose());
    let content = TokenFile {
        origin: origin.to_owned(),
        token: token.expose().to_owned(),
    };
    let content = serde_json::to_vec(&content).context(|| "cannot store the token".into())?;
    make_dir(&paths.server_tokens())?;
    replace_secret_file(&file_of(paths, origin), &content)
}

/// Returns the token of a server; `None` if none is stored.
///
/// # Errors
/// The file cannot be read, or is damaged.
pub fn load(paths: &Paths, origin: &str) -> Result<Option<Secret>> {
    let file = file_of(paths, origin);
    let stored = read(&file)?.filter(|stored| stored.origin == origin);
    Ok(stored.map(|stored| Secret::new(stored.token)))
}

/// Registers all tokens with the redactor. Otherwise a tool that reads a token file could put the token into a record.
pub fn register(paths: &Paths) {
    // A token is registered by reading it.
    let _ = all(paths);
}

/// Returns all tokens. A file that cannot be read is reported when its token is needed.
pub fn all(paths: &Paths) -> Vec<Secret> {
    let files = fs::read_dir(paths.server_tokens()).into_iter().flatten();
    let tokens = files.flatten().filter_map(|file| {
        let stored = read(&file.path()).ok()??;
        Some(Secret::new(stored.token))
    });
    tokens.collect()
}

fn read(path: &Path) -> Result<Option<TokenFile>> {
    let cannot = || format!("cannot read {}", path.display());
    let file = match read_own(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e).context(cannot),
    };
    let mut content = Vec::new();
    file.take(MAX_BYTES)
        .read_to_end(&mut content)
        .context(cannot)?;
    // The reason could quote the file.
    let stored: TokenFile = serde_json::from_slice(&content).map_err(|_| {
        Error::runtime(format!("{} is damaged", path.display()))
            .hint("remove it; aish attach asks for the token again")
    })?;
    global_redactor().add_secret("server-token", &stored.token);
    Ok(Some(stored))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_for_its_origin_only() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::under(dir.path(), 0).unwrap();
        let (own, other) = ("https://a.example", "https://a.example:4096");
        assert!(load(&paths, own).unwrap().is_none());
        store(&paths, own, &Secret::new("token-of-a")).unwrap();
        store(&paths, own, &Secret::new("second-token-of-a")).unwrap();
        let loaded = load(&paths, own).unwrap().unwrap();
        assert_eq!(loaded.expose(), "second-token-of-a");
        assert!(load(&paths, other).unwrap().is_none());
        let file = file_of(&paths, own);
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // Its name does not make it the file of another origin.
        fs::rename(&file, file_of(&paths, other)).unwrap();
        assert!(load(&paths, other).unwrap().is_none());
        fs::write(file_of(&paths, other), "{\"origin\":1, secret-text").unwrap();
        let error = load(&paths, other).unwrap_err().to_string();
        assert!(
            error.contains("damaged") && !error.contains("secret-text"),
            "{error}"
        );
    }
}
