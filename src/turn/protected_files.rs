//! Checks whether a call or a command reaches files that decide what aish may do, or what a shell runs when it starts. No
//! rule and no grant covers these.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};

use super::own_files::{OwnFiles, resolved};
use crate::config::mcp::{ServerSettings, ServerTransport};
use crate::paths::{self, Paths};
use crate::safety::json_text;
use crate::safety::protected_paths::{
    FileSystem, PathCandidate, PathRelation, ReachSearch, Unchecked, is_pattern, path_candidates,
    pattern_matches,
};
use crate::tools::builtin::PreparedCall;

/// Time limit of the check. A file system may hang.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// Maximum number of directory entries that the patterns of a call are compared with.
const MAX_ENTRIES: usize = 20_000;

/// Maximum number of files in a directory in which a single word may be a link.
const MAX_DIRECTORY: usize = 200_000;

const TOO_MUCH: &str = "the arguments hold more paths than can be checked for aish's own files";
/// Maximum length of a path that is checked, in bytes.
const MAX_PATH: usize = 4096;
const UNKNOWN_TEXT: &str =
    "it runs text that it does not show, which no rule and no earlier answer covers";
const OWN_PROGRAM: &str = "it changes aish itself, which no rule and no earlier answer covers";
const UNREADABLE: &str = "the arguments cannot be checked for aish's own files";
const TOO_SLOW: &str = "its paths could not be checked for aish's own files in time";

/// An object of the check.
#[derive(Debug)]
pub struct ProtectionCheck {
    /// The files, as the paths that are opened.
    files: Vec<PathBuf>,
    /// What may hold paths and commands; `None` if it is not a JSON object.
    arguments: Option<Value>,
    /// The call only reads, according to a trusted server.
    reads: bool,
    /// Directories to which a relative path may belong; the first is that of the shell.
    bases: Vec<PathBuf>,
}

impl ProtectionCheck {
    /// A call with these arguments from a shell in `cwd`.
    pub fn of_call(
        arguments: &str,
        reads: bool,
        cwd: &str,
        server: Option<&ServerSettings>,
    ) -> ProtectionCheck {
        let mut bases = vec![PathBuf::from(cwd)];
        bases.extend(paths::variable("HOME").map(PathBuf::from));
        if let Some(ServerTransport::Stdio { args, env, .. }) = server.map(|s| &s.transport) {
            // A server often gets its working directory or its root as an argument.
            bases.extend(args.iter().map(PathBuf::from));
            bases.extend(env.iter().map(|(_, value)| PathBuf::from(value)));
        }
        ProtectionCheck {
            files: Vec::new(),
            arguments: json_text::parse_object(arguments).ok().map(Value::Object),
            reads,
            bases,
        }
    }

    /// A prepared call of a built-in tool, of which the files and the command line are known.
    pub fn of_prepared(prepared: &PreparedCall, cwd: &str) -> ProtectionCheck {
        ProtectionCheck {
            files: prepared.files.clone(),
            // By its key the command is read as one.
            arguments: Some(json!({"command": prepared.command})),
            reads: prepared.reads_files(),
            bases: vec![prepared.directory().unwrap_or(Path::new(cwd)).to_owned()],
        }
    }

    /// A command line for a shell in `cwd`.
    pub fn of_command(command: &str, cwd: &str) -> ProtectionCheck {
        ProtectionCheck {
            files: Vec::new(),
            arguments: Some(Value::String(command.to_owned())),
            reads: false,
            bases: vec![PathBuf::from(cwd)],
        }
    }
}

/// Returns for each check why its call must be asked about, or `None`. `shell` holds variables of the shell, of which
/// [`PLACE_VARIABLES`](crate::config::PLACE_VARIABLES) count.
pub async fn protection_reasons(
    paths: &Paths,
    shell: &BTreeMap<String, String>,
    checks: Vec<ProtectionCheck>,
) -> Vec<Option<String>> {
    let (count, paths, shell) = (checks.len(), paths.clone(), shell.clone());
    // On another thread: a hanging file system delays only this turn.
    let work = tokio::task::spawn_blocking(move || {
        let protected = ProtectedFiles::new(OwnFiles::new(&paths, &shell));
        let reasons = checks.iter().map(|check| protected.reason(check));
        reasons.collect::<Vec<_>>()
    });
    match tokio::time::timeout(TIME_LIMIT, work).await {
        Ok(Ok(reasons)) => reasons,
        Ok(Err(_)) | Err(_) => vec![Some(TOO_SLOW.to_owned()); count],
    }
}

/// The names in a directory that are links to own files, with these files. `None` if the directory is too large.
type Links = Option<Vec<(String, PathBuf)>>;

/// The names in a directory, and whether each is a regular file.
type Names = Rc<[(String, bool)]>;

struct ProtectedFiles {
    own: OwnFiles,
    /// The directories that were read for patterns.
    listed: RefCell<BTreeMap<PathBuf, Names>>,
    /// The links in the directories of single words.
    links: RefCell<BTreeMap<PathBuf, Links>>,
    /// Number of their entries, and of those that matched.
    entries: Cell<usize>,
}

impl ProtectedFiles {
    fn new(own: OwnFiles) -> ProtectedFiles {
        ProtectedFiles {
            own,
            listed: RefCell::default(),
            links: RefCell::default(),
            entries: Cell::new(0),
        }
    }

    fn reason(&self, check: &ProtectionCheck) -> Option<String> {
        let Some(arguments) = &check.arguments else {
            return Some(UNREADABLE.to_owned());
        };
        let mut files = check.files.iter();
        if let Some(place) = files.find_map(|file| self.reached(file, check.reads)) {
            return Some(reaches(&place));
        }
        let mut variables = self.own.variables.clone();
        let cwd = check.bases.first().map(|cwd| cwd.display().to_string());
        let pwd = cwd.map(|cwd| ("PWD".to_owned(), cwd));
        variables.values.extend(pwd);
        let (mut candidates, texts) = match path_candidates(arguments, &variables) {
            Ok(found) => found,
            Err(why) => return Some(unchecked(why)),
        };
        // No system opens a longer path, and it would take long to check. A pattern may be longer; a text is not a path.
        let is_long = |one: &PathCandidate| one.path.len() > MAX_PATH;
        if candidates
            .iter()
            .any(|one| is_long(one) && !one.path.contains(char::is_whitespace))
        {
            return Some(TOO_MUCH.to_owned());
        }
        candidates.retain(|one| !is_long(one));
        if let Some(place) = texts.iter().find_map(|t| self.own.paths.find_in_text(t)) {
            return Some(reaches(&place));
        }
        self.listed.borrow_mut().clear();
        self.links.borrow_mut().clear();
        self.entries.set(0);
        let search = ReachSearch::new(&self.own.paths, self, check.reads, &check.bases);
        match search.find(&candidates) {
            Ok(found) => found.map(|place| reaches(&place)),
            Err(why) => Some(unchecked(why)),
        }
    }

    /// Returns the protected path that a file leads to, or that a change of the file would move or remove.
    fn reached(&self, file: &Path, reads: bool) -> Option<String> {
        let real = resolved(file);
        let mut paths = [file].into_iter().chain(real.as_deref());
        paths.find_map(|path| match self.own.paths.find_real(path) {
            Some((place, PathRelation::Inside)) => Some(place),
            Some((place, PathRelation::Above)) if !reads => Some(place),
            _ => self.same_file(path),
        })
    }

    /// Returns the names in a directory, and whether each is a regular file.
    fn listed(&self, dir: &Path) -> Names {
        let read = || {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            let entries = entries.take(MAX_ENTRIES + 1).map(|entry| {
                let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
                (entry.file_name().to_string_lossy().into_owned(), is_file)
            });
            let entries: Names = entries.collect();
            self.entries.set(self.entries.get() + entries.len());
            entries
        };
        let mut listed = self.listed.borrow_mut();
        listed.entry(dir.to_path_buf()).or_insert_with(read).clone()
    }

    /// Returns the links in a directory that lead to own files. `None` if it is too large.
    fn read_links(&self, dir: &Path) -> Links {
        let mut links = Vec::new();
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        for (count, entry) in entries.enumerate() {
            if count > MAX_DIRECTORY {
                return None;
            }
            let path = entry.path();
            // An own file may be a link from elsewhere to this very file.
            let is_own =
                |meta: &fs::Metadata| meta.is_file() && self.own.paths.find_real(&path).is_some();
            let counts =
                |meta: &fs::Metadata| meta.is_symlink() || meta.nlink() > 1 || is_own(meta);
            if !entry.metadata().is_ok_and(|meta| counts(&meta)) {
                continue;
            }
            let path = resolved(&path).unwrap_or(path);
            if self.own.paths.find_real(&path).is_some() || self.same_file(&path).is_some() {
                let name = entry.file_name().to_string_lossy().into_owned();
                links.push((name, path));
            }
        }
        Some(links)
    }

    /// Returns the paths that match a pattern. `None` if there are too many.
    fn matching(&self, path: &Path) -> Option<Vec<PathBuf>> {
        let mut found = vec![PathBuf::from("/")];
        let mut parts = path.components().peekable();
        while let Some(part) = parts.next() {
            let name = match part {
                Component::Normal(name) => name.to_string_lossy().into_owned(),
                Component::ParentDir => "..".to_owned(),
                _ => continue,
            };
            if !is_pattern(&name) {
                found.iter_mut().for_each(|path| path.push(&name));
                continue;
            }
            let name = name.to_lowercase();
            let is_last = parts.peek().is_none();
            let mut next = Vec::new();
            for dir in &found {
                for (entry, is_file) in self.listed(dir).iter() {
                    if (is_last || !*is_file) && pattern_matches(&name, &entry.to_lowercase()) {
                        next.push(dir.join(entry));
                    }
                }
            }
            self.entries.set(self.entries.get() + next.len());
            if self.entries.get() > MAX_ENTRIES {
                return None;
            }
            found = next;
        }
        Some(found)
    }
}

impl FileSystem for ProtectedFiles {
    fn links(&self, dir: &Path) -> Option<Vec<(String, PathBuf)>> {
        let mut links = self.links.borrow_mut();
        let read = || self.read_links(dir);
        links.entry(dir.to_path_buf()).or_insert_with(read).clone()
    }

    fn real_paths(&self, path: &Path) -> Option<Vec<PathBuf>> {
        let paths = match is_pattern(&path.to_string_lossy()) {
            true => self.matching(path)?,
            false => vec![path.to_path_buf()],
        };
        Some(paths.iter().filter_map(|path| resolved(path)).collect())
    }

    fn is_dir(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn same_file(&self, path: &Path) -> Option<String> {
        if fs::metadata(path).is_ok_and(|meta| self.own.has_other_name(&meta)) {
            return Some(path.display().to_string());
        }
        let dirs = path.ancestors().skip(1).take(2);
        let plugin = dirs.map(|dir| dir.join("aish.plugin.zsh"));
        let mut plugin = plugin.filter(|file| fs::symlink_metadata(file).is_ok());
        plugin.next().map(|file| file.display().to_string())
    }
}

/// Returns the reason for a question, in one line.
fn reaches(place: &str) -> String {
    format!("it reaches {place}, which no rule and no earlier answer covers")
}

fn unchecked(why: Unchecked) -> String {
    let text = match why {
        Unchecked::TooMuch => TOO_MUCH,
        Unchecked::UnknownText => UNKNOWN_TEXT,
        Unchecked::OwnProgram => OWN_PROGRAM,
    };
    text.to_owned()
}
