//! Finds the paths that the arguments of a call may mean, and compares them with the protected files: those that decide
//! what aish may do without a question, and what a shell runs when it starts.
//!
//! Pure: the caller resolves symlinks. A text that could mean a protected file counts as one, because the cost is only a
//! question. A program that computes a path is not recognized.

mod candidates;
mod commands;
mod path_text;
mod programs;
mod project_places;
mod reach;
mod shell_words;
mod unknown_text;

pub use candidates::{command_paths, path_candidates};
pub use path_text::{PathCandidate, PathUse, Unchecked, Variables};
pub use project_places::{
    GIT_SETTINGS, GIT_STATE, HOME_PLACES, PROJECT_PLACES, is_project_place, is_user_program,
    project_place,
};
pub use reach::{FileSystem, ReachSearch};

use std::path::{Component, Path};

pub use shell_words::without_braces;

/// Names that are protected in every directory: the rules of a project, start-up files of shells and of the login session, and the plugin.
pub const NAMES: &[&str] = &[
    ".aish.toml",
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".cshrc",
    ".inputrc",
    ".kshrc",
    ".mkshrc",
    ".pam_environment",
    ".profile",
    ".tcshrc",
    ".xinitrc",
    ".xprofile",
    ".xserverrc",
    ".xsession",
    ".xsessionrc",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    "aish.plugin.zsh",
];

/// Names of the configuration, which are protected in the directory of aish only.
pub const FILE_NAMES: [&str; 2] = ["aish.json", "config.toml"];

/// Directories in the home directory from which shells read at their start.
pub const HOME_DIRS: &[&str] = &[
    ".config/fish",
    ".config/zsh",
    ".oh-my-zsh",
    ".zsh",
    ".zshrc.d",
];

/// The start-up files of all users.
pub const SYSTEM_PLACES: &[&str] = &[
    "/etc/bash.bashrc",
    "/etc/bashrc",
    "/etc/fish",
    "/etc/inputrc",
    "/etc/profile",
    "/etc/profile.d",
    "/etc/zlogin",
    "/etc/zlogout",
    "/etc/zprofile",
    "/etc/zsh",
    "/etc/zshenv",
    "/etc/zshrc",
];

/// Files and directories of the system by which programs of all users run, in addition to [`SYSTEM_PLACES`].
pub const SYSTEM_SETTINGS: &[&str] = &[
    "/etc/cron.d",
    "/etc/cron.daily",
    "/etc/cron.hourly",
    "/etc/cron.monthly",
    "/etc/cron.weekly",
    "/etc/crontab",
    "/etc/environment",
    "/etc/gitconfig",
    "/etc/init.d",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/pam.d",
    "/etc/rc.local",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/systemd",
    "/etc/udev",
    "/etc/xdg/autostart",
];

/// Stands in a path for a text that is not known, slashes included.
pub const ANY: char = '\u{1}';

/// How a path is related to a protected one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathRelation {
    /// A directory that contains it.
    Above,
    /// The same path, or one inside it.
    Inside,
}

/// Protected files and directories, as absolute paths.
#[derive(Debug, Clone, Default)]
pub struct ProtectedPaths(Vec<ProtectedPath>);

#[derive(Debug, Clone)]
struct ProtectedPath {
    shown: String,
    parts: Vec<String>,
    /// The directories above it are related to it.
    with_parents: bool,
}

impl ProtectedPaths {
    /// Adds a file, or a directory with everything in it. `with_parents` is whether [`ProtectedPaths::find`] reports the
    /// directories above it.
    pub fn add(&mut self, path: &Path, with_parents: bool) {
        let parts = components(path);
        let known = self.0.iter().any(|known| known.parts == parts);
        // The root would protect every path.
        if !known && !parts.is_empty() {
            self.0.push(ProtectedPath {
                shown: path.display().to_string(),
                parts,
                with_parents,
            });
        }
    }

    /// Returns the protected path that an absolute path, with symlinks resolved, is related to most closely. The path may
    /// be a pattern.
    pub fn find(&self, path: &Path) -> Option<(String, PathRelation)> {
        let of_place = |parts: &[&str], place: &ProtectedPath| {
            let place: Vec<&str> = place.parts.iter().map(String::as_str).collect();
            relation(parts, &place)
        };
        self.find_by(path, of_place, may_be_named)
    }

    /// Returns the protected path that the path of an existing file is related to most closely: no character of it is a wildcard.
    pub fn find_real(&self, path: &Path) -> Option<(String, PathRelation)> {
        let of_place = |parts: &[&str], place: &ProtectedPath| {
            let is_same = place.parts.iter().zip(parts).all(|(a, b)| a == b);
            is_same.then_some(match parts.len() < place.parts.len() {
                true => PathRelation::Above,
                false => PathRelation::Inside,
            })
        };
        self.find_by(path, of_place, |name, protected| name == protected)
    }

    fn find_by(
        &self,
        path: &Path,
        relation: impl Fn(&[&str], &ProtectedPath) -> Option<PathRelation>,
        is_name: impl Fn(&str, &str) -> bool,
    ) -> Option<(String, PathRelation)> {
        let parts = components(path);
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        if leads_through_proc(&parts) {
            return Some(("/proc".to_owned(), PathRelation::Inside));
        }
        let related = self.0.iter().filter_map(|place| {
            let found = relation(&parts, place)?;
            let counts = found == PathRelation::Inside || place.with_parents;
            counts.then_some((&place.shown, found))
        });
        let closest = related.max_by_key(|(_, relation)| *relation);
        if let Some((shown, PathRelation::Inside)) = closest {
            return Some((shown.clone(), PathRelation::Inside));
        }
        let name = parts.last().copied().unwrap_or_default();
        // zsh prefers the compiled file.
        let name = name.strip_suffix(".zwc").unwrap_or(name);
        if let Some(protected) = NAMES.iter().find(|protected| is_name(name, protected)) {
            return Some(((*protected).to_owned(), PathRelation::Inside));
        }
        closest.map(|(shown, relation)| (shown.clone(), relation))
    }

    /// Returns the protected path whose text occurs in `text`, for paths with spaces and in the middle of words.
    pub fn find_in_text(&self, text: &str) -> Option<String> {
        let text = text.to_lowercase();
        let occurs = |place: &&ProtectedPath| {
            let place = place.shown.to_lowercase();
            text.match_indices(&place).any(|(at, _)| {
                let next = text.get(at + place.len()..).and_then(|t| t.chars().next());
                next.is_none_or(|c| !(c.is_alphanumeric() || matches!(c, '-' | '_')))
            })
        };
        let mut places = self.0.iter();
        places.find(occurs).map(|place| place.shown.clone())
    }
}

/// Returns the normal components in lower case: on some file systems `.ZSHRC` is the same file, and a link to one of these
/// may lead there.
fn components(path: &Path) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => parts.push(name.to_string_lossy().to_lowercase()),
            // The directories above an unknown directory are unknown.
            Component::ParentDir if parts.last().is_some_and(|part| part.ends_with(ANY)) => {}
            Component::ParentDir if is_process_link_of(&parts) => {}
            Component::ParentDir => {
                parts.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    parts
}

/// Whether a path means another one for every process that opens it: `/proc/self/cwd`, `/dev/fd/3`.
fn leads_through_proc(parts: &[&str]) -> bool {
    const LINKS: [&str; 6] = ["cwd", "exe", "fd", "map_files", "root", "task"];
    match parts {
        ["dev", "fd", _, ..] => true,
        ["proc", _, rest @ ..] => rest
            .iter()
            .any(|p| LINKS.contains(p) || p.contains(is_meta)),
        _ => false,
    }
}

/// Whether a path is a link of `/proc` that leads elsewhere for each process. Not those of the standard streams.
pub fn is_process_link(path: &Path) -> bool {
    is_process_link_of(&components(path))
}

fn is_process_link_of(parts: &[String]) -> bool {
    let [proc, _, rest @ ..] = parts else {
        return false;
    };
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    match rest.as_slice() {
        _ if proc != "proc" => false,
        [.., "fd", name] => !matches!(*name, "0" | "1" | "2"),
        [.., last] => matches!(*last, "cwd" | "exe" | "root"),
        [] => false,
    }
}

/// Whether a path contains wildcards, so that it matches several.
pub fn is_pattern(path: &str) -> bool {
    path.contains(is_meta)
}

/// Whether a file name in lower case may match a pattern in lower case.
pub fn pattern_matches(pattern: &str, name: &str) -> bool {
    part_matches(pattern, name)
}

/// Compares a pattern with a protected path; `**` matches any number of components. From the ends of both, so that the
/// time is bounded by the product of their lengths.
fn relation(pattern: &[&str], place: &[&str]) -> Option<PathRelation> {
    // Relations of the rest of the pattern to each rest of the place; first those of the empty pattern.
    let mut rests: Vec<Option<PathRelation>> = vec![Some(PathRelation::Above); place.len()];
    rests.push(Some(PathRelation::Inside));
    for (at, part) in pattern.iter().enumerate().rev() {
        let after = &pattern[at + 1..];
        let mut next = vec![Some(PathRelation::Inside); place.len() + 1];
        for of in (0..place.len()).rev() {
            next[of] = match (*part, after.last()) {
                ("**", None) => Some(PathRelation::Inside),
                // Files of any directory: only the configuration counts, so that `**/*.rs` is not asked about.
                ("**", Some(last)) if of + 1 == place.len() => {
                    let config = FILE_NAMES.iter().any(|name| part_matches(last, name));
                    rests[of].max(config.then_some(PathRelation::Inside))
                }
                ("**", Some(_)) => rests[of].max(next[of + 1]),
                (part, last) if part.contains(ANY) => {
                    unknown_relation(part, last.copied(), &place[of..], &rests[of..])
                }
                _ if part_matches(part, place[of]) => rests[of + 1],
                _ => None,
            };
        }
        rests = next;
    }
    rests.first().copied().flatten()
}

/// Compares a component that contains [`ANY`], and what follows it, with the rest of a place. `rests` are the relations of
/// what follows it, of which `last` is the end, to each rest of that.
fn unknown_relation(
    part: &str,
    last: Option<&str>,
    place: &[&str],
    rests: &[Option<PathRelation>],
) -> Option<PathRelation> {
    let start = part.split(is_meta).next().unwrap_or_default();
    let end = part.rsplit(is_meta).next().unwrap_or_default();
    let is_all = start.is_empty() && end.is_empty();
    let mut best = rests.first().copied().flatten().filter(|_| is_all);
    let Some(first) = place.first().filter(|first| first.starts_with(start)) else {
        return best;
    };
    for (at, name) in place.iter().enumerate() {
        let text = || place[..=at].join("/");
        let fits = name.ends_with(end) && (at > 0 || first.len() >= start.len() + end.len());
        if !fits || !holds_literals(part, &text()) {
            continue;
        }
        let found = match last {
            // A file of any directory, as for `**`.
            Some(last) if is_all && at + 1 == place.len() => {
                let is_named = last.contains(|c: char| c.is_alphanumeric());
                let config = FILE_NAMES.iter().any(|name| part_matches(last, name));
                (is_named && config).then_some(PathRelation::Inside)
            }
            _ => rests.get(at + 1).copied().flatten(),
        };
        best = best.max(found);
    }
    best
}

/// Whether a text has all literal parts of a pattern without lists.
fn holds_literals(pattern: &str, text: &str) -> bool {
    let has_braces = pattern.contains('{') && (pattern.contains(',') || pattern.contains(".."));
    let has_list = has_braces || pattern.contains(['[', '(', '^', '#']);
    has_list || pattern.split(is_meta).all(|run| text.contains(run))
}

/// Whether the last component of a pattern could be one of [`NAMES`].
fn may_be_named(name: &str, protected: &str) -> bool {
    // `*` alone means every file of any directory.
    // The rest of a name that begins with anything must say something.
    let literal = match name.starts_with(['*', '?']) || name.contains(ANY) {
        true => {
            let end = name.rsplit(is_meta).next().unwrap_or_default();
            name.starts_with('.') || end.len() > 1
        }
        false => name.chars().any(|c| !is_meta(c)),
    };
    literal && part_matches(name, protected)
}

/// Whether a component with wildcards could match a name: by what precedes its first wildcard and what follows its last.
fn part_matches(part: &str, name: &str) -> bool {
    let words = part.contains('{').then(|| without_braces(part, false));
    if let Some(Some(words)) = words
        && words.iter().any(|word| word != part)
    {
        return words.iter().any(|word| part_matches(word, name));
    }
    // Braces without alternatives are part of the name.
    if !part.contains(|c| is_meta(c) && !matches!(c, '{' | '}')) || !holds_literals(part, name) {
        return part == name;
    }
    let (Some(first), Some(last)) = (part.find(is_meta), part.rfind(is_meta)) else {
        return part == name;
    };
    // As in a shell, `*` alone matches no hidden file.
    if !part.contains(ANY) && name.starts_with('.') && !part.contains(|c| !is_meta(c)) {
        return false;
    }
    // All of these are ASCII. In zsh, `^` excludes what follows it.
    let end = match part.contains('^') {
        true => "",
        false => &part[last + 1..],
    };
    let start = &part[..first];
    name.len() >= start.len().max(end.len()) && name.starts_with(start) && name.ends_with(end)
}

fn is_meta(c: char) -> bool {
    matches!(
        c,
        ANY | '*' | '?' | '[' | ']' | '{' | '}' | '(' | ')' | '^' | '#'
    )
}

#[cfg(test)]
mod tests;
