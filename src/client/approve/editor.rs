//! Arguments in the person's own editor.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::client::terminal::{Tty, attend};
use crate::error::{Context, Error, Result};

/// No arguments are longer.
const MAX: u64 = 16 << 20;

/// A file that only its owner can read, in a directory of its own; both go with it.
struct Scratch {
    dir: PathBuf,
}

impl Scratch {
    fn new(run: &Path, text: &str) -> Result<Scratch> {
        let dir = run.join(format!("edit-{}", std::process::id()));
        // What an earlier process of this number has left. Whatever it is, it is in a directory of ours.
        let _ = fs::remove_dir_all(&dir);
        DirBuilder::new()
            .mode(0o700)
            .create(&dir)
            .context(|| format!("cannot make {}", dir.display()))?;
        let scratch = Scratch { dir };
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(scratch.file())
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .context(|| format!("cannot write {}", scratch.file().display()))?;
        Ok(scratch)
    }

    fn file(&self) -> PathBuf {
        self.dir.join("arguments.json")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It is private all the same.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Lets the person edit `text` with `editor`, a command line; what stands in the file then.
///
/// # Errors
/// The editor cannot be started or fails, or what it leaves is no text.
pub fn edit(tty: &Tty, run: &Path, editor: &OsStr, text: &str) -> Result<String> {
    let scratch = Scratch::new(run, text)?;
    let terminal = || -> Result<Stdio> {
        let file = tty.file.try_clone();
        Ok(file.context(|| "cannot lend the terminal".into())?.into())
    };
    // Through a shell, as it may have options: EDITOR='code --wait'.
    let mut line = editor.to_os_string();
    line.push(" \"$1\"");
    let child = Command::new("/bin/sh")
        .arg("-c")
        .arg(line)
        .arg("sh")
        .arg(scratch.file())
        .stdin(terminal()?)
        .stdout(terminal()?)
        .stderr(terminal()?)
        .spawn()
        .context(|| "cannot start the editor".into())?;
    match attend(&child)? {
        0 => {}
        code => return Err(Error::runtime(format!("the editor failed with {code}"))),
    }
    let mut edited = String::new();
    fs::File::open(scratch.file())
        .and_then(|file| file.take(MAX).read_to_string(&mut edited))
        .map_err(|e| Error::runtime(format!("cannot read what was edited: {e}")))?;
    Ok(edited)
}
