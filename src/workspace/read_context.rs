//! Context in which the reading tools are called, and the writing of results within their limits.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::path_error::shown_path;
use super::root::Workspace;

/// How much of a result is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimits {
    /// Maximum number of lines.
    pub lines: usize,
    /// Maximum number of bytes.
    pub bytes: usize,
}

impl Default for OutputLimits {
    fn default() -> OutputLimits {
        OutputLimits {
            lines: 2000,
            bytes: 50 * 1024,
        }
    }
}

/// Context in which every reading tool is called.
#[derive(Debug, Clone, Copy)]
pub struct ReadContext<'a> {
    /// The directories that count as the project.
    pub workspace: &'a Workspace,
    /// Environment of programs that are run: at least `PATH` and `HOME`, nothing secret.
    pub variables: &'a [(OsString, OsString)],
    /// How much is returned.
    pub limits: OutputLimits,
    /// Ends the call early when set.
    pub cancelled: &'a AtomicBool,
}

impl ReadContext<'_> {
    /// Returns a variable that holds a path; `None` if it is empty.
    pub fn variable(&self, wanted: &str) -> Option<PathBuf> {
        let mut variables = self.variables.iter();
        let found = variables.find(|(name, value)| name == wanted && !value.is_empty());
        found.map(|(_, value)| PathBuf::from(value))
    }
}

/// Says which paths a search leaves out.
#[derive(Clone)]
pub struct PathFilter(Arc<dyn Fn(&Path) -> bool + Send + Sync>);

impl PathFilter {
    /// Creates a filter that leaves out the paths for which `matches` is true, with everything in them.
    pub fn new(matches: impl Fn(&Path) -> bool + Send + Sync + 'static) -> PathFilter {
        PathFilter(Arc::new(matches))
    }

    /// Whether a path is left out.
    pub fn matches(&self, path: &Path) -> bool {
        (self.0)(path)
    }
}

impl std::fmt::Debug for PathFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PathFilter")
    }
}

/// The result of a search or listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedText {
    /// The lines within the limits, and a last line in brackets about the omitted part.
    pub text: String,
    /// Number of hits or names in all.
    pub total: u64,
    /// Number of hits or names in `text`.
    pub shown: u64,
    /// Number of files with hits; for names the same as `total`.
    pub files: u64,
}

/// Text that grows line by line up to its limits.
#[derive(Debug)]
pub(super) struct LimitedText {
    text: String,
    lines: usize,
    limits: OutputLimits,
}

impl LimitedText {
    pub fn new(limits: OutputLimits) -> LimitedText {
        LimitedText {
            text: String::new(),
            lines: 0,
            limits,
        }
    }

    /// Adds a line without its end; `false` if there is no space for it. Nothing fits after that.
    pub fn push(&mut self, line: &str) -> bool {
        if self.lines >= self.limits.lines || self.text.len() + line.len() >= self.limits.bytes {
            self.lines = self.limits.lines;
            return false;
        }
        self.lines += 1;
        self.text.push_str(line);
        self.text.push('\n');
        true
    }

    /// Adds a remark, which does not count.
    pub fn remark(&mut self, remark: &str) {
        self.text.push_str(&format!("[{remark}]\n"));
    }

    pub fn finish(self) -> String {
        self.text
    }
}

/// Writes a path relative to `cwd` where it is below it.
pub(super) fn path_from(cwd: &Path, path: &Path) -> String {
    match path.strip_prefix(cwd) {
        Ok(below) if below.as_os_str().is_empty() => ".".to_owned(),
        Ok(below) => shown_path(below),
        Err(_) => shown_path(path),
    }
}

/// Returns at most `limit` characters of a line, and how many it has if it was cut.
pub(super) fn cut_line(line: &str, limit: usize) -> (&str, Option<usize>) {
    match line.char_indices().nth(limit) {
        Some((at, _)) => (line.get(..at).unwrap_or(line), Some(line.chars().count())),
        None => (line, None),
    }
}

/// Writes a number with a comma after each group of three digits.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
