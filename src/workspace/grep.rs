//! Searches file contents with ripgrep's engine.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch,
};
use ignore::overrides::{Override, OverrideBuilder};
use nix::fcntl::OFlag;

use super::beneath::{file_type, open_listed};
use super::ignore_rules::{IgnoreRules, UserRules};
use super::path_error::{PathError, PathFault, PathResult};
use super::read::with_near_names;
use super::read_context::{
    LimitedText, ListedText, OutputLimits, PathFilter, ReadContext, cut_line, grouped, path_from,
};
use super::root::ResolvedPath;
use super::walk::{EntryKind, Unvisited, WalkEntry, WalkOptions, walk};

/// Maximum length of a pattern or glob in bytes.
const MAX_PATTERN_BYTES: usize = 4096;

/// Maximum memory of a compiled pattern in bytes; `(a{1000}){1000}` would take far more. Searching is linear in any case.
const MAX_REGEX_BYTES: usize = 10 << 20;

/// Maximum memory for one line of a file in bytes.
const MAX_LINE_BYTES: usize = 64 << 20;

/// Maximum number of characters of a line in the result.
const MAX_LINE_CHARS: usize = 500;

/// Number of bytes shown before the first match of a line whose beginning is left out.
const BYTES_BEFORE_MATCH: usize = 100;

/// Maximum number of bytes of hits that are kept to be sorted; later hits are only counted.
const MAX_KEPT_BYTES: usize = 32 << 20;

/// Maximum number of files and directories that are named as not searched.
const MAX_LEFT_OUT: usize = 10;

/// Maximum number of context lines.
const MAX_CONTEXT: usize = 20;

/// Pattern and place of a search.
#[derive(Debug, Clone)]
pub struct GrepRequest {
    /// A regular expression of the Rust crate `regex`, or plain text if `fixed`.
    pub pattern: String,
    /// A directory, or one file.
    pub path: ResolvedPath,
    /// Only files that match, as ripgrep's `--glob`, relative to `path`; `!GLOB` leaves files out.
    pub glob: Option<String>,
    /// Ignores case.
    pub ignore_case: bool,
    /// The pattern is plain text.
    pub fixed: bool,
    /// Number of lines shown before and after each hit.
    pub context: usize,
    /// Returns only the names of files with hits.
    pub files_only: bool,
}

impl GrepRequest {
    /// Creates a request for a regular expression with all other options off.
    pub fn new(pattern: impl Into<String>, path: ResolvedPath) -> GrepRequest {
        GrepRequest {
            pattern: pattern.into(),
            path,
            glob: None,
            ignore_case: false,
            fixed: false,
            context: 0,
            files_only: false,
        }
    }
}

/// The hits in one file.
struct FileHits {
    path: PathBuf,
    /// Lines with `NUMBER:TEXT` or, for context, `NUMBER-TEXT`; `None` between groups.
    lines: Vec<Option<HitLine>>,
    hits: u64,
    /// Hits that were only counted.
    is_cut: bool,
    /// Message of ripgrep about a binary file.
    remark: Option<String>,
}

struct HitLine {
    text: String,
    is_hit: bool,
}

/// Searches as `rg --hidden --glob '!.git'` does, without following links: files that ignore rules leave out are skipped, and
/// binary files from their first NUL byte on. Of one that is named, it is said whether it matches. Lines are `PATH:NUMBER:TEXT`, those of the context `PATH-NUMBER-TEXT`, sorted by path.
///
/// What `left_out` matches is not searched, unless the path of the request is in it.
///
/// # Errors
/// The pattern or the glob is invalid, or the path cannot be opened.
pub fn grep(
    context: &ReadContext<'_>,
    request: &GrepRequest,
    left_out: &PathFilter,
) -> PathResult<ListedText> {
    let cancelled = context.cancelled;
    let matcher = compile(request)?;
    let globs = match &request.glob {
        Some(glob) => Some(compile_glob(&request.path.absolute, glob)?),
        None => None,
    };
    let collector = Collector {
        matcher: &matcher,
        request,
        cancelled,
        kept: AtomicUsize::new(0),
        failed: AtomicUsize::new(0),
        found: Mutex::new(Vec::new()),
    };
    let found = request.path.status();
    let found = found.map_err(|error| with_near_names(error, &request.path))?;
    let unvisited = match file_type(&found) == nix::sys::stat::SFlag::S_IFDIR {
        true => {
            let options = WalkOptions {
                dir: &request.path,
                rules: UserRules::read(IgnoreRules::Ripgrep, context, &request.path),
                globs: globs.as_ref(),
                left_out: Some(left_out).filter(|filter| !filter.matches(&request.path.absolute)),
                cancelled,
            };
            walk(&options, || collector.visitor())?
        }
        false => {
            let file = request.path.open_file(OFlag::O_RDONLY)?;
            let mut searcher = collector.searcher(BinaryDetection::convert(0));
            collector.search(&mut searcher, file, &request.path.absolute);
            Unvisited::default()
        }
    };
    let unread = unvisited.unreadable + collector.failed.into_inner();
    let found = collector
        .found
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let mut listed = written(context.workspace.cwd(), request, found, context.limits);
    match unread {
        0 => {}
        1 => (listed.text).push_str("[1 file or directory could not be read]\n"),
        many => listed.text.push_str(&format!(
            "[{} files or directories could not be read]\n",
            grouped(many as u64)
        )),
    }
    if let Some(remark) = left_out_remark(context.workspace.cwd(), unvisited.left_out) {
        listed.text.push_str(&remark);
    }
    if cancelled.load(Ordering::Relaxed) {
        listed
            .text
            .push_str("[the search was cancelled before its end]\n");
    }
    Ok(listed)
}

/// Returns the remark about files that were not searched.
fn left_out_remark(cwd: &Path, mut paths: Vec<PathBuf>) -> Option<String> {
    paths.sort();
    let named = paths.iter().take(MAX_LEFT_OUT);
    let mut names: Vec<String> = named.map(|path| path_from(cwd, path)).collect();
    if let Some(more) = paths
        .len()
        .checked_sub(MAX_LEFT_OUT)
        .filter(|&more| more > 0)
    {
        names.push(format!("{} more", grouped(more as u64)));
    }
    let names = names.join(", ");
    let remark = format!("[not searched: {names}; the user is asked about each read there]\n");
    (!paths.is_empty()).then_some(remark)
}

/// Compiles a glob that chooses files below `dir`.
pub(super) fn compile_glob(dir: &Path, glob: &str) -> PathResult<Override> {
    let invalid = |reason: &str| PathError::invalid(format!("invalid glob: {reason}"));
    if glob.len() > MAX_PATTERN_BYTES {
        return Err(invalid("it is longer than 4,096 bytes"));
    }
    let mut builder = OverrideBuilder::new(dir);
    builder
        .add(glob)
        .map_err(|error| invalid(&one_line(&error.to_string())))?;
    builder
        .build()
        .map_err(|error| invalid(&one_line(&error.to_string())))
}

fn compile(request: &GrepRequest) -> PathResult<RegexMatcher> {
    let invalid = |reason: &str| PathError::invalid(format!("invalid pattern: {reason}"));
    if request.pattern.is_empty() {
        return Err(invalid("it is empty"));
    }
    if request.pattern.len() > MAX_PATTERN_BYTES {
        return Err(invalid("it is longer than 4,096 bytes"));
    }
    RegexMatcherBuilder::new()
        .multi_line(true)
        .case_insensitive(request.ignore_case)
        .fixed_strings(request.fixed)
        .line_terminator(Some(b'\n'))
        .size_limit(MAX_REGEX_BYTES)
        .dfa_size_limit(MAX_REGEX_BYTES)
        .build(&request.pattern)
        .map_err(|error| {
            let reason = one_line(&error.to_string());
            // The crate names the line end as it is written.
            match reason.contains(r"\n") {
                true => invalid(&format!(
                    "{reason}; a pattern matches within one line: search for one line, and use context for those around it"
                )),
                false => invalid(&reason),
            }
        })
}

/// The last line of an error of the crate `regex`, which draws the pattern in the lines before it.
fn one_line(message: &str) -> String {
    let last = message.lines().rev().find(|line| !line.trim().is_empty());
    let last = last.unwrap_or(message).trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

/// Where the threads of a search put their hits.
struct Collector<'a> {
    matcher: &'a RegexMatcher,
    request: &'a GrepRequest,
    cancelled: &'a AtomicBool,
    kept: AtomicUsize,
    failed: AtomicUsize,
    found: Mutex<Vec<FileHits>>,
}

impl Collector<'_> {
    fn searcher(&self, binary: BinaryDetection) -> Searcher {
        let context = self.request.context.min(MAX_CONTEXT);
        SearcherBuilder::new()
            .line_number(true)
            .binary_detection(binary)
            .before_context(context)
            .after_context(context)
            .heap_limit(Some(MAX_LINE_BYTES))
            .build()
    }

    fn visitor(&self) -> impl FnMut(&WalkEntry<'_>) {
        let mut searcher = self.searcher(BinaryDetection::quit(0));
        move |entry| {
            if entry.kind != EntryKind::File {
                return;
            }
            match open_listed(entry.dir.as_fd(), entry.name, &entry.path) {
                Ok(file) => self.search(&mut searcher, file, &entry.path),
                // Removed or replaced while the search ran.
                Err(error) if matches!(error.fault, PathFault::Missing | PathFault::Changed) => {}
                Err(_) => {
                    self.failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    fn search(&self, searcher: &mut Searcher, file: File, path: &Path) {
        let mut sink = HitSink {
            collector: self,
            lines: Vec::new(),
            hits: 0,
            is_cut: false,
            nul: None,
            remark: None,
        };
        let reader = CancelReader {
            file,
            cancelled: self.cancelled,
        };
        if searcher
            .search_reader(self.matcher, reader, &mut sink)
            .is_err()
        {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        if sink.hits > 0 || sink.remark.is_some() {
            let hits = FileHits {
                path: path.to_path_buf(),
                lines: sink.lines,
                hits: sink.hits,
                is_cut: sink.is_cut,
                remark: sink.remark,
            };
            let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
            found.push(hits);
        }
    }
}

/// A file whose reading ends when the search is cancelled.
struct CancelReader<'a> {
    file: File,
    cancelled: &'a AtomicBool,
}

impl Read for CancelReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.cancelled.load(Ordering::Relaxed) {
            true => Ok(0),
            false => self.file.read(buffer),
        }
    }
}

struct HitSink<'a, 'b> {
    collector: &'a Collector<'b>,
    lines: Vec<Option<HitLine>>,
    hits: u64,
    is_cut: bool,
    /// Offset of the first NUL byte.
    nul: Option<u64>,
    remark: Option<String>,
}

impl HitSink<'_, '_> {
    /// Returns where the shown part of a line with a hit begins, so that the first match is in it.
    fn shown_from(&self, bytes: &[u8]) -> usize {
        if bytes.len() <= MAX_LINE_CHARS {
            return 0;
        }
        let found = self.collector.matcher.find(bytes).ok().flatten();
        let Some(found) = found.filter(|found| found.end() > MAX_LINE_CHARS) else {
            return 0;
        };
        let is_inside_char = |at: &usize| bytes.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
        let from = found.start().saturating_sub(BYTES_BEFORE_MATCH);
        (from..found.start())
            .find(|at| !is_inside_char(at))
            .unwrap_or(from)
    }

    fn keep(&mut self, number: Option<u64>, bytes: &[u8], is_hit: bool) {
        let kept = &self.collector.kept;
        if self.is_cut || kept.load(Ordering::Relaxed) > MAX_KEPT_BYTES {
            self.is_cut = true;
            return;
        }
        // A line can be longer than its shown part by any factor.
        let from = if is_hit { self.shown_from(bytes) } else { 0 };
        let rest = bytes.get(from..).unwrap_or_default();
        let head = rest.get(..MAX_LINE_CHARS * 4 + 4);
        let head = head.unwrap_or(rest);
        let line = String::from_utf8_lossy(head);
        let line = line.trim_end_matches(['\n', '\r']);
        let (shown, _) = cut_line(line, MAX_LINE_CHARS);
        let separator = if is_hit { ':' } else { '-' };
        let left_out = if from > 0 { "…" } else { "" };
        let mut text = format!("{}{separator}{left_out}{shown}", number.unwrap_or(0));
        if shown.len() < line.len() || head.len() < bytes.len() {
            text.push_str(&format!("… [cut, {} bytes]", grouped(bytes.len() as u64)));
        }
        kept.fetch_add(text.len() + size_of::<HitLine>(), Ordering::Relaxed);
        self.lines.push(Some(HitLine { text, is_hit }));
    }
}

impl Sink for HitSink<'_, '_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        // Lines of a named file are searched beyond a NUL byte, too, but are not shown as text.
        if let (Some(offset), false) = (self.nul, self.collector.request.files_only) {
            self.remark = Some(binary("binary file matches", offset));
            return Ok(false);
        }
        self.hits += 1;
        if self.collector.request.files_only {
            return Ok(false);
        }
        self.keep(found.line_number(), found.bytes(), true);
        Ok(!self.collector.cancelled.load(Ordering::Relaxed))
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> io::Result<bool> {
        if !self.collector.request.files_only {
            self.keep(found.line_number(), found.bytes(), false);
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        if !self.is_cut {
            self.lines.push(None);
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, offset: u64) -> io::Result<bool> {
        self.nul = Some(offset);
        Ok(true)
    }

    fn finish(&mut self, searcher: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        let has_stopped = searcher.binary_detection().quit_byte().is_some();
        if let (Some(offset), true) = (finish.binary_byte_offset(), has_stopped)
            && !self.lines.is_empty()
        {
            let what = "the search of the binary file stopped after a match";
            self.remark = Some(binary(what, offset));
        }
        Ok(())
    }
}

fn binary(what: &str, offset: u64) -> String {
    let offset = grouped(offset);
    format!("{what} (found a NUL byte around offset {offset})")
}

fn written(
    cwd: &Path,
    request: &GrepRequest,
    mut found: Vec<FileHits>,
    limits: OutputLimits,
) -> ListedText {
    found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    let total: u64 = match request.files_only {
        true => found.len() as u64,
        false => found.iter().map(|file| file.hits).sum(),
    };
    let (mut shown, mut full, mut is_first) = (0, false, true);
    let mut text = LimitedText::new(limits);
    for file in &found {
        let path = path_from(cwd, &file.path);
        if request.files_only {
            full = full || !text.push(&path);
            shown += u64::from(!full);
            continue;
        }
        if request.context > 0 && !is_first && !full {
            full = !text.push("--");
        }
        is_first = false;
        for line in &file.lines {
            let pushed = match line {
                _ if full => break,
                None => text.push("--"),
                Some(line) => {
                    let separator = if line.is_hit { ':' } else { '-' };
                    let pushed = text.push(&format!("{path}{separator}{}", line.text));
                    shown += u64::from(pushed && line.is_hit);
                    pushed
                }
            };
            full = !pushed;
        }
        if let (Some(remark), false) = (&file.remark, full) {
            full = !text.push(&format!("{path}: {remark}"));
        }
        full = full || file.is_cut;
    }
    if found.is_empty() {
        text.remark("no hits");
    } else if shown < total {
        let what = if request.files_only {
            "files"
        } else {
            "matching lines"
        };
        text.remark(&format!(
            "{} of {} {what} shown, of {} {} with hits; narrow the pattern, path or glob",
            grouped(shown),
            grouped(total),
            grouped(found.len() as u64),
            if found.len() == 1 { "file" } else { "files" }
        ));
    }
    ListedText {
        text: text.finish(),
        total,
        shown,
        files: found.len() as u64,
    }
}
