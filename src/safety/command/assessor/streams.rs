//! What a standard input, or another descriptor, holds.

/// Data that a command reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StreamContent {
    Download,
    /// The constant output of a command.
    Text(String),
    /// The text of a here-document or here-string, of which parts may not be known.
    Here(String),
    File(String),
    Local,
}

/// Returns the number of a descriptor in the name of a file.
pub(super) fn descriptor_of(file: &str) -> Option<u32> {
    let number = ["/dev/fd/", "/proc/self/fd/"].iter();
    let mut number = number.filter_map(|start| file.strip_prefix(start));
    number.next()?.parse().ok()
}
