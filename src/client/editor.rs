//! Editing text in the user's editor: arguments of a tool call, or a prompt.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::client::terminal::{ControllingTty, wait_for_program};
use crate::error::{Error, ErrorContext, Result};

/// Most bytes read back from the editor.
const MAX_BYTES: u64 = 16 << 20;

/// A private file in a separate directory; both are removed when dropped.
struct ScratchFile {
    dir: PathBuf,
    /// Its extension gives the editor the kind of text.
    name: &'static str,
}

impl ScratchFile {
    fn new(run_dir: &Path, name: &'static str, text: &str) -> Result<ScratchFile> {
        let dir = run_dir.join(format!("edit-{}", std::process::id()));
        // Left over by an earlier process with this id; everything in the run directory is ours.
        let _ = fs::remove_dir_all(&dir);
        DirBuilder::new()
            .mode(0o700)
            .create(&dir)
            .context(|| format!("cannot create {}", dir.display()))?;
        let scratch = ScratchFile { dir, name };
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
        self.dir.join(self.name)
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        // A file left behind stays private.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Opens `text` as a file called `name` in `editor`, a command line, and returns the edited text.
///
/// # Errors
/// The editor cannot be started or fails, or leaves a file that is not UTF-8.
pub fn edit(
    tty: &ControllingTty,
    run_dir: &Path,
    editor: &OsStr,
    name: &'static str,
    text: &str,
) -> Result<String> {
    let scratch = ScratchFile::new(run_dir, name, text)?;
    let terminal = || -> Result<Stdio> {
        let file = tty.file.try_clone();
        Ok(file
            .context(|| "cannot give the terminal to the editor".into())?
            .into())
    };
    // Through a shell, as the command may have options: EDITOR='code --wait'.
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
    match wait_for_program(&child)? {
        0 => {}
        code => return Err(Error::runtime(format!("the editor failed with {code}"))),
    }
    let mut edited = String::new();
    fs::File::open(scratch.file())
        .and_then(|file| file.take(MAX_BYTES).read_to_string(&mut edited))
        .map_err(|e| Error::runtime(format!("cannot read the edited text: {e}")))?;
    Ok(edited)
}
