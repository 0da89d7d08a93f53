//! Files, images and directories that are attached to a prompt.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::chat::ImageContent;
use crate::client::output::print_notice;
use crate::client::text_format::grouped;
use crate::error::{Error, Result};
use crate::paths;
use crate::protocol::Attachment;

/// Most bytes of a prompt with its attachments.
const MAX_BYTES: u64 = 24 << 20;
/// Most bytes of an image; several providers refuse larger ones.
const MAX_IMAGE: usize = 5 << 20;
/// Most bytes and most files taken of a directory.
const MAX_DIRECTORY: (u64, usize) = (1 << 20, 200);
/// Maximum number of entries of a directory that are examined.
const MAX_ENTRIES: usize = 20_000;
/// Bytes at the start of a file that show whether it is text.
const TEXT_PREFIX: usize = 8192;

/// The attachments of a prompt.
#[derive(Debug)]
pub struct PromptAttachments {
    /// Texts.
    pub texts: Vec<Attachment>,
    /// Images, as `(MIME type, base64)`.
    pub images: Vec<(String, Arc<str>)>,
    /// Bytes that may still be attached.
    left: u64,
}

impl Default for PromptAttachments {
    fn default() -> PromptAttachments {
        PromptAttachments::new()
    }
}

impl PromptAttachments {
    /// Creates an empty list.
    pub fn new() -> PromptAttachments {
        PromptAttachments {
            texts: Vec::new(),
            images: Vec::new(),
            left: MAX_BYTES,
        }
    }

    /// Attaches a file, an image, or the text files of a directory. Images and directories are announced on stderr.
    ///
    /// # Errors
    /// The file cannot be read, is too large, or is neither text nor an image.
    pub fn add(&mut self, path: &Path) -> Result<()> {
        let name = path.display().to_string();
        if path.is_dir() {
            return self.add_directory(path, &name);
        }
        let bytes = self.read(open(path)?, &name)?;
        match ImageContent::mime_of(&bytes) {
            Some(mime) => {
                if bytes.len() > MAX_IMAGE {
                    return Err(Error::usage(format!(
                        "{name} is too large: an image may have at most {} MB",
                        MAX_IMAGE >> 20
                    ))
                    .hint("attach a smaller version of it"));
                }
                announce(&format!("{name} ({mime}, {})", size(bytes.len())));
                self.images
                    .push((mime.to_owned(), STANDARD.encode(&bytes).into()));
            }
            None => self.push_text(name, bytes)?,
        }
        Ok(())
    }

    /// Attaches a file that the line names without an option, and announces it on stderr.
    ///
    /// # Errors
    /// As for [`PromptAttachments::add`].
    pub fn add_mentioned(&mut self, path: &Path) -> Result<()> {
        let before = self.texts.len();
        self.add(path)?;
        if let ([text], false) = (&self.texts[before..], path.is_dir()) {
            announce(&format!("{} ({})", text.name, size(text.text.len())));
        }
        Ok(())
    }

    /// Reads text, which counts towards the limit.
    ///
    /// # Errors
    /// The text cannot be read, is too large, or is not text.
    pub fn read_text(&mut self, reader: impl Read, name: &str) -> Result<String> {
        let bytes = self.read(reader, name)?;
        decoded(bytes).map_err(|_| not_text(name))
    }

    fn push_text(&mut self, name: String, bytes: Vec<u8>) -> Result<()> {
        let text = decoded(bytes).map_err(|_| not_text(&name))?;
        self.texts.push(Attachment { name, text });
        Ok(())
    }

    fn read(&mut self, reader: impl Read, name: &str) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        reader
            .take(self.left + 1)
            .read_to_end(&mut bytes)
            .map_err(|e| Error::usage(format!("cannot read {name}: {e}")))?;
        if bytes.len() as u64 > self.left {
            return Err(Error::usage(format!(
                "{name} is too large: a prompt may have at most {} MB",
                MAX_BYTES >> 20
            ))
            .hint("attach the part that matters, for example with head or grep"));
        }
        self.left -= bytes.len() as u64;
        Ok(bytes)
    }

    /// Attaches the text files of a directory.
    fn add_directory(&mut self, dir: &Path, name: &str) -> Result<()> {
        let whole_path = dir.canonicalize().unwrap_or_default();
        let home = paths::variable("HOME").map(PathBuf::from);
        if whole_path.parent().is_none()
            || home.is_some_and(|home| home.canonicalize().ok() == Some(whole_path))
        {
            return Err(Error::usage(format!(
                "{name} is too large to attach: it is the root or your home directory"
            ))
            .hint("attach the directory or the files that matter"));
        }
        let (max_bytes, max_files) = MAX_DIRECTORY;
        let (mut files, mut bytes, mut binary, mut more) = (0, 0, 0, 0);
        for path in visible_files(dir) {
            // Symbolic links are not followed: one could lead out of the directory. Opening a FIFO would wait.
            let Some(metadata) = path.symlink_metadata().ok().filter(|m| m.is_file()) else {
                continue;
            };
            let length = metadata.len();
            if files == max_files || bytes + length > max_bytes {
                more += 1;
                continue;
            }
            let Ok(file) = File::open(&path) else {
                more += 1;
                continue;
            };
            let content = self.read(file.take(max_bytes), name)?;
            let length = content.len() as u64;
            match decoded(content) {
                Ok(text) => {
                    (files, bytes) = (files + 1, bytes + length);
                    let name = path.display().to_string();
                    self.texts.push(Attachment { name, text });
                }
                Err(_) => binary += 1,
            }
        }
        if files == 0 {
            return Err(Error::usage(format!("{name} contains no text files to attach"))
                .hint("hidden files and those that git ignores are left out; attach a file by its name"));
        }
        let left_out: Vec<String> = [(binary, "binary"), (more, "beyond 1 MB or 200 files")]
            .into_iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| format!("{n} {what}"))
            .collect();
        let left_out = match left_out.is_empty() {
            true => String::new(),
            false => format!("; left out: {}", left_out.join(", ")),
        };
        let plural = if files == 1 { "" } else { "s" };
        announce(&format!(
            "{name} ({files} text file{plural}, {}{left_out})",
            size(usize::try_from(bytes).unwrap_or(usize::MAX))
        ));
        Ok(())
    }
}

/// Returns the files below a directory in order of their names, without hidden ones; in a git repository also without those
/// that it ignores.
fn visible_files(dir: &Path) -> Vec<PathBuf> {
    let mut files = files_of_git(dir).unwrap_or_else(|| {
        let (mut files, mut seen, mut dirs) = (Vec::new(), 0, vec![dir.to_path_buf()]);
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                seen += 1;
                if seen > MAX_ENTRIES {
                    return files;
                }
                match entry.file_type() {
                    _ if entry.file_name().as_bytes().starts_with(b".") => {}
                    Ok(kind) if kind.is_dir() => dirs.push(entry.path()),
                    _ => files.push(entry.path()),
                }
            }
        }
        files
    });
    files.sort();
    files
}

/// Lists the files of a git repository; `None` without git or a repository.
fn files_of_git(dir: &Path) -> Option<Vec<PathBuf>> {
    let listed = Command::new("git")
        // A repository may name a program as its file monitor.
        .args(["-c", "core.fsmonitor=false", "-C"])
        .arg(dir)
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let names = listed
        .stdout
        .split(|b| *b == 0)
        .filter(|name| !name.is_empty());
    let is_visible = |name: &&[u8]| {
        !name
            .split(|b| *b == b'/')
            .any(|part| part.starts_with(b"."))
    };
    let names = names.filter(is_visible).take(MAX_ENTRIES);
    Some(
        names
            .map(|name| dir.join(OsStr::from_bytes(name)))
            .collect(),
    )
}

/// Returns the existing files that the words name as `@FILE`, and directories as `@DIRECTORY/`. Punctuation after the name is
/// not part of it, and a backslash takes the next character literally, as completion writes it.
pub fn mentioned_files(words: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut rest = words.chars().peekable();
    let mut at_start = true;
    while let Some(c) = rest.next() {
        if c != '@' || !at_start {
            at_start = c.is_whitespace() || "([{\"'".contains(c);
            continue;
        }
        at_start = false;
        let mut name = String::new();
        while let Some(c) = rest.next_if(|c| !c.is_whitespace()) {
            name.extend(match c {
                '\\' => rest.next(),
                c => Some(c),
            });
        }
        at_start = at_start || rest.peek().is_some_and(|c| c.is_whitespace());
        let trimmed = name.trim_end_matches(|c: char| ".,;:!?)]}\"'".contains(c));
        for name in [name.as_str(), trimmed] {
            let path = expand_home(name);
            if path.is_file() || name.ends_with('/') && path.is_dir() {
                if !found.contains(&path) {
                    found.push(path);
                }
                break;
            }
        }
    }
    found
}

/// Replaces a leading `~/` by the home directory.
fn expand_home(name: &str) -> PathBuf {
    match (name.strip_prefix("~/"), paths::variable("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(name),
    }
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|e| Error::usage(format!("cannot read {}: {e}", path.display())))
}

fn not_text(name: &str) -> Error {
    Error::usage(format!("{name} is not text"))
        .hint("attach a text file, or an image (PNG, JPEG, GIF, WebP)")
}

/// Returns the text without escape sequences; bytes that are not UTF-8 are U+FFFD. Fails for binary content, which has NUL near its
/// start.
fn decoded(bytes: Vec<u8>) -> std::result::Result<String, ()> {
    match bytes.iter().take(TEXT_PREFIX).any(|b| *b == 0) {
        true => Err(()),
        false => {
            let bytes = without_escapes(bytes);
            Ok(String::from_utf8(bytes)
                .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
        }
    }
}

/// Returns a text without the escape sequences of terminals: a colour between a name and its value hides a secret from redaction.
fn without_escapes(bytes: Vec<u8>) -> Vec<u8> {
    const ESCAPE: u8 = 0x1b;
    let Some(first) = memchr::memchr(ESCAPE, &bytes) else {
        return bytes;
    };
    let mut out = bytes[..first].to_vec();
    let mut rest = &bytes[first..];
    while let Some(sequence) = rest.strip_prefix(&[ESCAPE]) {
        let count = |from: usize, is_part: fn(&u8) -> bool| {
            sequence[from..].iter().take_while(|b| is_part(b)).count()
        };
        let length = match sequence.first() {
            Some(b'[') => {
                let parameters = 1 + count(1, |b| matches!(b, 0x20..=0x3f));
                let is_whole = matches!(sequence.get(parameters), Some(0x40..=0x7e));
                parameters + usize::from(is_whole)
            }
            // A title or a link, up to BEL or `ESC \\`.
            Some(b']' | b'P' | b'X' | b'^' | b'_') => {
                let content = 1 + count(1, |b| !matches!(b, 0x07 | 0x1b | b'\n'));
                let end = &sequence[content..];
                let is_string = end.starts_with(&[ESCAPE, b'\\']);
                content
                    + if is_string {
                        2
                    } else {
                        usize::from(end.starts_with(b"\x07"))
                    }
            }
            Some(b'(' | b')' | b'#' | b'%') => sequence.len().min(2),
            Some(b'0'..=b'~') => 1,
            _ => 0,
        };
        let behind = &sequence[length..];
        let text = memchr::memchr(ESCAPE, behind).unwrap_or(behind.len());
        out.extend_from_slice(&behind[..text]);
        rest = &behind[text..];
    }
    out
}

fn size(bytes: usize) -> String {
    match bytes {
        0..1000 => format!("{bytes} bytes"),
        _ => format!("{} kB", grouped(bytes.div_ceil(1000) as u64)),
    }
}

/// Says on stderr what is attached.
fn announce(what: &str) {
    print_notice(&format!("attached: {what}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_links_and_titles_hide_nothing_from_redaction() {
        let coloured = "\x1b[32mGREETING\x1b[0m=\x1b[38;5;81mHello\x1b[K!\x1b[m\n\ttab é\x1b(B\x1b]8;;https://a.example\x1b\\link\
                        \x1b]8;;\x07\x1b]0;a title\x07\x1b7\x1b=.\x1b[\x1b";
        let text = decoded(coloured.into()).unwrap();
        assert_eq!(text, "GREETING=Hello!\n\ttab élink.");
        // Sequences that have no end.
        for unit in ["\x1b]", "\x1b[", "\x1b[1", "\x1bP\x1b"] {
            let hostile = unit.repeat(500_000);
            assert!(decoded(hostile.into()).unwrap().len() <= 2, "{unit:?}");
        }
        assert_eq!(decoded("plain [32m\r\n".into()).unwrap(), "plain [32m\r\n");
    }

    #[test]
    fn only_words_that_name_a_file_are_mentions() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        for name in ["a.txt", "b c", "d."] {
            std::fs::write(path(name), "").unwrap();
        }
        let found = |text: String| {
            let names = mentioned_files(&text).into_iter();
            let names = names.map(|p| p.file_name().unwrap().to_str().unwrap().to_owned());
            names.collect::<Vec<_>>()
        };
        let (a, d) = (path("a.txt"), path("d."));
        assert_eq!(
            found(format!("what is @{a}? and (@{a}), @{d}")),
            ["a.txt", "d."]
        );
        assert_eq!(found(format!("@{}", path("b\\ c"))), ["b c"]);
        assert_eq!(found(format!("me@{a} @{} @", path("none"))), [""; 0]);
        let directory = dir.path().display();
        assert_eq!(found(format!("@{directory}")), [""; 0]);
        assert_eq!(found(format!("@{directory}/")).len(), 1);
    }
}
