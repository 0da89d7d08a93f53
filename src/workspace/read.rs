//! Reads a file for the model: numbered lines of a text, an image, or the text of a PDF document.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::fcntl::OFlag;
use sha2::{Digest, Sha256};

use super::file_kind::{FileKind, HEAD_BYTES, TextEncoding, file_kind};
use super::line_window::{LineWindow, MAX_LINE_CHARS, WindowText};
use super::path_error::{PathError, PathFault, PathResult, shown_name};
use super::program::{RunLimits, find_program, run, scrubbed};
use super::read_context::{ReadContext, grouped};
use super::root::ResolvedPath;
use super::walk::read_names;

/// Maximum size of a file that is read whole, which a digest needs. Larger files are read up to the last line that is shown.
pub const MAX_WHOLE_BYTES: u64 = 32 << 20;

/// Maximum size of an image.
const MAX_IMAGE_BYTES: u64 = 5 << 20;

/// Maximum size of the text of a PDF document.
const MAX_PDF_TEXT: usize = 16 << 20;

/// Maximum time for `pdftotext`.
const PDF_TIME: Duration = Duration::from_secs(20);

/// Number of similar names in the error about a missing file.
const NEAR_NAMES: usize = 3;

/// Minimum similarity of such a name.
const MIN_SIMILARITY: f64 = 0.6;

/// Maximum number of names that are compared.
const MAX_COMPARED: usize = 10_000;

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileContent {
    /// Lines of a text or of a PDF document.
    Text(TextLines),
    /// An image, for models that take it.
    Image {
        /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
        media_type: &'static str,
        /// The whole file.
        bytes: Vec<u8>,
    },
}

/// Numbered lines of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextLines {
    /// Each line as its number, a tab, and its text; then remarks in brackets.
    pub text: String,
    /// Number of lines that are shown.
    pub shown: u64,
    /// Number of lines of the file; `None` if it was not read to its end.
    pub total: Option<u64>,
    /// Number of the line to continue with; `None` at the end.
    pub next_line: Option<u64>,
    /// SHA-256 of the whole file; `None` for files over [`MAX_WHOLE_BYTES`] and for PDF documents.
    pub sha256: Option<[u8; 32]>,
}

/// Reads a file from the line with number `first_line` (from 1) on, or an image.
///
/// # Errors
/// One line: the file is missing (with similar names), not a regular file, binary, or cannot be read.
pub fn read_file(
    context: &ReadContext<'_>,
    path: &ResolvedPath,
    first_line: u64,
) -> PathResult<FileContent> {
    let mut file = path.open_file(OFlag::O_RDONLY).map_err(|mut error| {
        if error.fault == PathFault::WrongKind && error.message.ends_with("is a directory") {
            error.message.push_str("; list_dir lists it");
        }
        with_near_names(error, path)
    })?;
    let shown = &path.absolute;
    let system = |error: io::Error| PathError::io(shown, &error);
    let size = file.metadata().map_err(system)?.len();
    let mut head = Vec::new();
    (&mut file)
        .take(HEAD_BYTES as u64)
        .read_to_end(&mut head)
        .map_err(system)?;
    match file_kind(&head) {
        FileKind::Image(media_type) => image(file, head, size, media_type, shown),
        FileKind::Pdf => pdf(context, file, first_line, shown),
        FileKind::Binary(what) => Err(PathError::new(
            PathFault::WrongKind,
            shown,
            &format!("is not text: {what}, {} bytes", grouped(size)),
        )),
        FileKind::Text(encoding) => text(
            context,
            file,
            Head {
                bytes: head,
                size,
                encoding,
            },
            first_line,
            shown,
        )
        .map(FileContent::Text),
    }
}

fn image(
    file: File,
    mut bytes: Vec<u8>,
    size: u64,
    media_type: &'static str,
    path: &Path,
) -> PathResult<FileContent> {
    let rest = MAX_IMAGE_BYTES + 1 - (bytes.len() as u64).min(MAX_IMAGE_BYTES);
    file.take(rest)
        .read_to_end(&mut bytes)
        .map_err(|error| PathError::io(path, &error))?;
    if bytes.len() as u64 > MAX_IMAGE_BYTES {
        let size = grouped(size.max(bytes.len() as u64));
        let reason = format!("is an image ({media_type}) of {size} bytes; the limit is 5 MB");
        return Err(PathError::new(PathFault::WrongKind, path, &reason));
    }
    Ok(FileContent::Image { media_type, bytes })
}

fn pdf(
    context: &ReadContext<'_>,
    mut file: File,
    first_line: u64,
    path: &Path,
) -> PathResult<FileContent> {
    let wrong = |reason: &str| PathError::new(PathFault::WrongKind, path, reason);
    let Some(program) = find_program("pdftotext", context) else {
        return Err(wrong(
            "is a PDF document; reading its text needs pdftotext (package poppler-utils)",
        ));
    };
    // The program shares this offset.
    file.seek(SeekFrom::Start(0))
        .map_err(|error| PathError::io(path, &error))?;
    let mut command = scrubbed(&program, context.variables);
    command
        .args(["-layout", "-enc", "UTF-8", "-", "-"])
        .current_dir("/");
    command.stdin(Stdio::from(file));
    let limits = RunLimits {
        time: PDF_TIME,
        bytes: MAX_PDF_TEXT,
        cancelled: context.cancelled,
    };
    let output = run(command, limits)
        .map_err(|reason| wrong(&format!("is a PDF document, and pdftotext {reason}")))?;
    if !output.success {
        let errors = String::from_utf8_lossy(&output.stderr);
        let line = errors.lines().next().unwrap_or("no reason given");
        return Err(wrong(&format!(
            "is a PDF document, and pdftotext failed: {}",
            shown_name(OsStr::from_bytes(line.as_bytes()))
        )));
    }
    let mut window = LineWindow::new(first_line.max(1), context.limits);
    // A form feed ends each page.
    let text: Vec<u8> = output.stdout.into_iter().filter(|b| *b != 0x0c).collect();
    window.push(&text);
    let mut remarks = vec!["text of a PDF document".to_owned()];
    if text.iter().all(u8::is_ascii_whitespace) {
        remarks.push("it has no text, perhaps only pictures of pages".to_owned());
    }
    let found = window.finish();
    let lines = lines(found, first_line, true, None, remarks, path)?;
    Ok(FileContent::Text(lines))
}

/// The start of a text file.
struct Head {
    bytes: Vec<u8>,
    /// Size of the file when it was opened.
    size: u64,
    encoding: TextEncoding,
}

fn text(
    context: &ReadContext<'_>,
    file: File,
    head: Head,
    first_line: u64,
    path: &Path,
) -> PathResult<TextLines> {
    let Head {
        bytes: head,
        size,
        encoding,
    } = head;
    let system = |error: io::Error| PathError::io(path, &error);
    let mut window = LineWindow::new(first_line.max(1), context.limits);
    let mut remarks = Vec::new();
    let mut sha256 = None;
    let mut reached_end = true;
    let mut reader = PieceReader {
        file,
        cancelled: context.cancelled,
    };
    if size <= MAX_WHOLE_BYTES {
        let mut bytes = head;
        let mut limited = (&mut reader).take(MAX_WHOLE_BYTES + 1 - bytes.len() as u64);
        limited.read_to_end(&mut bytes).map_err(system)?;
        if bytes.len() as u64 > MAX_WHOLE_BYTES {
            return Err(PathError::new(
                PathFault::System,
                path,
                "grew while it was read",
            ));
        }
        sha256 = Some(Sha256::digest(&bytes).into());
        let (mut decoded, remark) = decode(&bytes, encoding);
        remarks.extend(remark.map(str::to_owned));
        // An edit takes each CR for a line end too.
        let is_cr_only = memchr::memchr(b'\n', &decoded).is_none();
        if is_cr_only && memchr::memchr(b'\r', &decoded).is_some() {
            let line_ends = decoded.to_mut().iter_mut().filter(|byte| **byte == b'\r');
            line_ends.for_each(|byte| *byte = b'\n');
            remarks.push("lines end with CR".to_owned());
        }
        window.push(&decoded);
    } else if matches!(encoding, TextEncoding::Utf16Le | TextEncoding::Utf16Be) {
        let reason = format!(
            "is UTF-16 text of {} bytes; the limit is 32 MB",
            grouped(size)
        );
        return Err(PathError::new(PathFault::WrongKind, path, &reason));
    } else {
        let (decoded, remark) = decode(&head, encoding);
        remarks.extend(remark.map(str::to_owned));
        window.push(&decoded);
        let mut piece = vec![0; 1 << 18];
        loop {
            if window.is_full() {
                reached_end = false;
                break;
            }
            match reader.read(&mut piece).map_err(system)? {
                0 => break,
                n => window.push(piece.get(..n).unwrap_or_default()),
            }
        }
        remarks.push(format!("the file has {} bytes", grouped(size)));
    }
    lines(
        window.finish(),
        first_line,
        reached_end,
        sha256,
        remarks,
        path,
    )
}

/// A file whose reading fails once the call is cancelled.
struct PieceReader<'a> {
    file: File,
    cancelled: &'a AtomicBool,
}

impl Read for PieceReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(io::Error::other("reading was cancelled"));
        }
        let limit = buffer.len().min(1 << 20);
        self.file.read(buffer.get_mut(..limit).unwrap_or_default())
    }
}

/// Returns the text as UTF-8 where its encoding is another one, and a remark.
fn decode(bytes: &[u8], encoding: TextEncoding) -> (Cow<'_, [u8]>, Option<&'static str>) {
    let utf16 = |order: fn([u8; 2]) -> u16| {
        let (units, _) = bytes.get(2..).unwrap_or_default().as_chunks::<2>();
        let units = units.iter().map(|pair| order(*pair));
        let text: String = char::decode_utf16(units)
            .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect();
        text.into_bytes().into()
    };
    match encoding {
        TextEncoding::Utf8 => (bytes.into(), None),
        TextEncoding::Utf8Bom => (
            bytes.get(3..).unwrap_or_default().into(),
            Some("UTF-8 with a byte order mark"),
        ),
        TextEncoding::Utf16Le => (utf16(u16::from_le_bytes), Some("UTF-16 LE, converted")),
        TextEncoding::Utf16Be => (utf16(u16::from_be_bytes), Some("UTF-16 BE, converted")),
    }
}

fn lines(
    found: WindowText,
    first_line: u64,
    reached_end: bool,
    sha256: Option<[u8; 32]>,
    mut remarks: Vec<String>,
    path: &Path,
) -> PathResult<TextLines> {
    let first = first_line.max(1);
    if first > 1 && first > found.lines {
        let reason = format!("has only {} lines", grouped(found.lines));
        return Err(PathError::new(PathFault::Missing, path, &reason));
    }
    let total = reached_end.then_some(found.lines);
    let next_line = found.has_more.then_some(first + found.shown);
    if found.lines == 0 {
        remarks.insert(0, "the file is empty".to_owned());
    }
    match found.crlf {
        0 => {}
        n if n == found.shown => remarks.push("lines end with CRLF".to_owned()),
        n => remarks.push(format!("{} of the shown lines end with CRLF", grouped(n))),
    }
    if found.invalid > 0 {
        let n = grouped(found.invalid);
        remarks.push(match found.invalid {
            1 => "1 byte is not UTF-8 and is written as \\xNN".to_owned(),
            _ => format!("{n} bytes are not UTF-8 and are written as \\xNN"),
        });
    }
    if found.nul > 0 {
        let n = grouped(found.nul);
        remarks.push(match found.nul {
            1 => "1 NUL byte is written as \\x00; the file may be binary".to_owned(),
            _ => format!("{n} NUL bytes are written as \\x00; the file may be binary"),
        });
    }
    if found.cut > 0 {
        let limit = grouped(MAX_LINE_CHARS as u64);
        let lines = match found.cut {
            1 => "1 line is".to_owned(),
            n => format!("{} lines are", grouped(n)),
        };
        remarks.push(format!(
            "{lines} cut at {limit} characters; the tool shell, where it is offered, reads the rest of a line: sed -n LINEp FILE | cut -c{}-{}",
            MAX_LINE_CHARS + 1,
            2 * MAX_LINE_CHARS,
        ));
    }
    if next_line.is_none() && !found.ends_in_newline && found.lines > 0 {
        remarks.push("the last line has no newline".to_owned());
    }
    if let Some(next) = next_line {
        let of = total.map_or(String::new(), |n| format!(" of {}", grouped(n)));
        let shown = format!("lines {first} to {}{of} are shown", next - 1);
        remarks.push(format!("{shown}; continue with offset {next}"));
    }
    let mut text = found.text;
    for remark in remarks {
        text.push_str(&format!("[{remark}]\n"));
    }
    Ok(TextLines {
        text,
        shown: found.shown,
        total,
        next_line,
        sha256,
    })
}

/// Adds similar names to the error about a missing path.
pub(super) fn with_near_names(mut error: PathError, path: &ResolvedPath) -> PathError {
    if error.fault == PathFault::Missing {
        error.message.push_str(&near_names(path));
    }
    error
}

/// Returns similar names in the directory of a missing file, to follow the error; empty if there are none. If the directory is
/// missing, too, they are those that are similar to its name.
pub fn near_names(path: &ResolvedPath) -> String {
    let mut missing = path.clone();
    while let Some(parent) = missing.parent()
        && parent
            .open_dir()
            .is_err_and(|error| error.fault == PathFault::Missing)
    {
        missing = parent;
    }
    let path = &missing;
    let Some(name) = path.relative().file_name() else {
        return String::new();
    };
    let wanted = name.to_string_lossy().to_lowercase();
    let dir = path.parent().and_then(|dir| dir.open_dir().ok());
    let names = dir.and_then(|fd| read_names(fd).ok()).unwrap_or_default();
    let mut near: Vec<(f64, String)> = names
        .iter()
        .take(MAX_COMPARED)
        .map(|(name, _)| {
            let lower = name.to_string_lossy().to_lowercase();
            let similarity = strsim::normalized_damerau_levenshtein(&wanted, &lower);
            (similarity, shown_name(name))
        })
        .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let near: Vec<String> = near
        .into_iter()
        .take(NEAR_NAMES)
        .map(|(_, name)| name)
        .collect();
    match near.as_slice() {
        [] => String::new(),
        near => format!("; similar names: {}", near.join(", ")),
    }
}
