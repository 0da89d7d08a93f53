//! GNU screen: `hardcopy -h`, see screen(1).

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use super::{MAX_BYTES, TerminalIdentity, columns, plain_rows, run};
use crate::context::align::Screen;
use crate::error::{Error, ErrorContext, Result};

/// A directory that is removed when it is no longer used.
struct PrivateDir(PathBuf);

impl PrivateDir {
    fn new() -> Result<PrivateDir> {
        let name = format!("aish-screen-{}", uuid::Uuid::new_v4().simple());
        let path = std::env::temp_dir().join(name);
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.context(|| "cannot make a directory for screen's text".into())?;
        Ok(PrivateDir(path))
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Lets screen write the window's text to a file and reads it. screen answers the question that follows after it has written.
///
/// # Errors
/// screen fails, or the file cannot be read.
pub async fn read(identity: &TerminalIdentity) -> Result<Screen> {
    let session = identity.variable("STY").unwrap_or_default();
    let window = identity.variable("WINDOW").unwrap_or("0");
    let dir = PrivateDir::new()?;
    let file = dir.0.join("text");
    let name = file.display().to_string();
    let window_args = ["-S", session, "-p", window];
    let copy = [&window_args[..], &["-X", "hardcopy", "-h", &name]].concat();
    run::output(identity, "screen", &copy).await?;
    let ask = [&window_args[..], &["-Q", "info"]].concat();
    let info = run::output(identity, "screen", &ask).await?;
    let meta = fs::metadata(&file).context(|| "screen wrote no text".into())?;
    if meta.len() > MAX_BYTES as u64 {
        return Err(Error::runtime("screen wrote too much"));
    }
    let bytes = fs::read(&file).context(|| "cannot read screen's text".into())?;
    let text = String::from_utf8_lossy(&bytes);
    let size = Size::parse(&info);
    let width = size
        .as_ref()
        .map_or_else(|| columns(&identity.tty), |size| size.columns);
    let rows = plain_rows(&text, width);
    Ok(Screen {
        is_cut: size.is_none_or(|size| rows.len() >= size.rows + size.scrollback),
        rows,
        columns: width,
    })
}

/// The size of a window.
struct Size {
    columns: usize,
    rows: usize,
    scrollback: usize,
}

impl Size {
    /// Parses `(1,24)/(80,24)+100 …`: the cursor, the size, the number of lines of the scrollback.
    fn parse(info: &str) -> Option<Size> {
        let (_, size) = info.split_once(")/(")?;
        let (size, rest) = size.split_once(')')?;
        let (columns, rows) = size.split_once(',')?;
        let scrollback: String = rest
            .strip_prefix('+')?
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        Some(Size {
            columns: columns.parse().ok()?,
            rows: rows.parse().ok()?,
            scrollback: scrollback.parse().ok()?,
        })
    }
}
