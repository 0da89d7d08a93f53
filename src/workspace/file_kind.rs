//! Kind of content of a file, by its first bytes.

use crate::chat::ImageContent;

/// Number of bytes that are examined.
pub(super) const HEAD_BYTES: usize = 4096;

/// Maximum share of control characters in a text, in percent.
const MAX_CONTROL_PERCENT: usize = 30;

/// Number of bytes from which the share counts.
const MIN_SAMPLE: usize = 16;

/// The kind of a file, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    /// Text, perhaps with bytes that are not UTF-8.
    Text(TextEncoding),
    /// An image that models take, with its media type.
    Image(&'static str),
    /// A PDF document.
    Pdf,
    /// Anything else, with its description.
    Binary(&'static str),
}

/// Encoding of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextEncoding {
    /// UTF-8, or bytes that are close to it.
    Utf8,
    /// UTF-8 with a byte order mark.
    Utf8Bom,
    /// UTF-16 with a byte order mark, low byte first.
    Utf16Le,
    /// UTF-16 with a byte order mark, high byte first.
    Utf16Be,
}

/// First bytes of formats that are not text.
const MAGIC: &[(&[u8], &str)] = &[
    (b"\x7fELF", "ELF program or library"),
    (b"PK\x03\x04", "ZIP archive, or a document in one"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"7z\xbc\xaf\x27\x1c", "7z archive"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"\0asm", "WebAssembly module"),
    (b"\xca\xfe\xba\xbe", "Java class or Mach-O program"),
    (b"\xcf\xfa\xed\xfe", "Mach-O program"),
    (b"MZ", "Windows program"),
    (b"!<arch>\n", "archive of object files"),
    (b"OggS", "Ogg media"),
    (b"ID3", "MP3 audio"),
    (b"fLaC", "FLAC audio"),
    (b"BM", "BMP image"),
    (b"wOFF", "font"),
    (b"\0\x01\0\0", "font"),
    (b"OTTO", "font"),
];

/// Returns the kind of a file that begins with `head`, its first [`HEAD_BYTES`].
pub(super) fn file_kind(head: &[u8]) -> FileKind {
    match (ImageContent::mime_of(head), head) {
        (Some(media_type), _) => return FileKind::Image(media_type),
        (None, [b'%', b'P', b'D', b'F', b'-', ..]) => return FileKind::Pdf,
        (None, [0xff, 0xfe, 0, 0, ..]) => return FileKind::Binary("UTF-32 text"),
        (None, [0xff, 0xfe, ..]) => return FileKind::Text(TextEncoding::Utf16Le),
        (None, [0xfe, 0xff, ..]) => return FileKind::Text(TextEncoding::Utf16Be),
        (None, [0xef, 0xbb, 0xbf, rest @ ..]) if is_text(rest) => {
            return FileKind::Text(TextEncoding::Utf8Bom);
        }
        _ => {}
    }
    if is_text(head) {
        return FileKind::Text(TextEncoding::Utf8);
    }
    let known = MAGIC.iter().find(|(magic, _)| head.starts_with(magic));
    FileKind::Binary(known.map_or("binary data", |(_, name)| name))
}

fn is_text(head: &[u8]) -> bool {
    let is_control = |b: u8| (b < 0x20 && !matches!(b, 0x08..=0x0d | 0x1b)) || b == 0x7f;
    let control = head.iter().filter(|b| is_control(**b)).count();
    !head.contains(&0)
        && (head.len() < MIN_SAMPLE || control * 100 <= head.len() * MAX_CONTROL_PERCENT)
}
