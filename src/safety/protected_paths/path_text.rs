//! A text that may be a path, with its variables expanded.

use std::collections::BTreeSet;

use super::{ANY, FILE_NAMES, NAMES, is_meta};

/// More possible paths in one call than this are not checked; the call is asked about then.
const MAX_CANDIDATES: usize = 2_000;

/// The same for words that are paths only in a directory that contains protected files.
const MAX_BARE: usize = 20_000;

/// Variables that may occur in a path, with their values.
#[derive(Debug, Clone, Default)]
pub struct Variables {
    /// The home directory, for `~`.
    pub home: String,
    /// The login name, for `~name`.
    pub user: String,
    /// Other variables.
    pub values: Vec<(String, String)>,
}

/// The use of a text that may be a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathUse {
    /// It occurs in a text.
    Mention,
    /// A word without a slash, which is a path only in a directory that the call enters.
    Bare,
    /// A directory that the call enters, or the value of a variable.
    Directory,
    /// An argument that consists of this path alone.
    Whole,
    /// An operand of a program that may write.
    Operand,
    /// Both [`PathUse::Bare`] and [`PathUse::Operand`].
    BareOperand,
}

/// A text that may be a path. It is absolute, or relative to an unknown directory; it may be a pattern.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathCandidate {
    /// The path.
    pub path: String,
    /// Its use.
    pub usage: PathUse,
}

/// The possible paths of a call.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// The paths.
    pub all: BTreeSet<PathCandidate>,
    bare: usize,
    /// Why not everything is in `all`.
    pub unchecked: Option<Unchecked>,
}

/// Why the paths of a call cannot be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unchecked {
    /// There are too many.
    TooMuch,
    /// A command runs a text that it does not contain.
    UnknownText,
    /// It runs aish's own program, which can change the configuration and the record.
    OwnProgram,
}

impl Candidates {
    /// Adds an expanded path, unless there are too many.
    pub fn add(&mut self, path: &str, usage: PathUse) {
        let is_relative = !path.starts_with('/');
        // Without a name: `*`, `.`, an unknown text.
        let is_any = |part: &str| match part {
            "" | "." => true,
            part => !part.starts_with('.') && part.chars().all(|c| is_meta(c) || c == '.'),
        };
        let is_open = match usage {
            PathUse::Directory => false,
            PathUse::BareOperand => path.contains(ANY),
            _ => path.contains(is_meta) && is_relative || path.contains(ANY),
        };
        let says_nothing = is_open && path.split('/').all(is_any);
        if path.is_empty() || path.contains('\0') || says_nothing || self.is_full() {
            return;
        }
        let is_new = self.all.insert(PathCandidate {
            path: path.to_owned(),
            usage,
        });
        if is_new && matches!(usage, PathUse::Bare | PathUse::BareOperand) {
            self.bare += 1;
        }
        if self.is_full() {
            self.stop(Unchecked::TooMuch);
        }
    }

    fn is_full(&self) -> bool {
        self.bare > MAX_BARE || self.all.len() - self.bare > MAX_CANDIDATES
    }

    /// Marks that something is not checked.
    pub fn stop(&mut self, why: Unchecked) {
        self.unchecked.get_or_insert(why);
    }
}

/// Whether a word is checked as a path, rather than as a word of a text.
pub(super) fn is_path_like(word: &str) -> bool {
    word.contains('/')
        || word.starts_with(['~', '$', ANY])
        || word.starts_with('.') && word.len() > 1
        || NAMES.contains(&word)
        || FILE_NAMES.contains(&word)
}

/// Replaces `~` at the beginning and variables everywhere. Unknown parts become [`ANY`].
pub(super) fn expand(text: &str, variables: &Variables) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    if let Some(after) = text.strip_prefix('~') {
        let end = after.find('/').unwrap_or(after.len());
        let (name, path) = after.split_at(end);
        if name.is_empty() || name == variables.user {
            out.push_str(&variables.home);
            rest = path;
        } else if !path.is_empty() {
            // Another user, a directory of the stack, or one that the shell has a name for.
            out.push('/');
            out.push(ANY);
            rest = path;
        }
    }
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, is_changed, after) = match rest.strip_prefix('{') {
            Some(braced) => {
                let end = braced.find('}').unwrap_or(braced.len());
                let inner = &braced[..end];
                let name = inner.split(|c| !is_name(c)).next().unwrap_or_default();
                let after = braced.get(end + 1..).unwrap_or_default();
                (name, name != inner, after)
            }
            None => {
                let (name, after) = rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
                (name, false, after)
            }
        };
        if name.is_empty() && !is_changed {
            out.push('$');
            continue;
        }
        let mut values = variables.values.iter();
        let known = match values.find(|(n, _)| n == name) {
            Some((_, value)) => Some(value.as_str()),
            None if name == "HOME" => Some(variables.home.as_str()),
            None if matches!(name, "USER" | "LOGNAME") => Some(variables.user.as_str()),
            None => None,
        };
        match known {
            Some(value) if !is_changed => out.push_str(value),
            _ => {
                // At the beginning it may be an absolute path.
                if out.is_empty() {
                    out.push('/');
                }
                out.push(ANY);
            }
        }
        rest = after;
    }
    out.push_str(rest);
    if out.starts_with(ANY) {
        out.insert(0, '/');
    }
    out
}
