//! Checks whether a call or a command reaches files that decide what aish may do, or what a shell runs when it starts. No
//! rule and no grant covers these.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};

use crate::config::PLACE_VARIABLES;
use crate::config::mcp::{ServerSettings, ServerTransport};
use crate::paths::{self, Paths};
use crate::safety::json_text;
use crate::safety::protected_paths::{
    FILE_NAMES, FileSystem, HOME_DIRS, NAMES, PathCandidate, PathRelation, ProtectedPaths,
    ReachSearch, SYSTEM_PLACES, Unchecked, Variables, is_pattern, is_process_link, path_candidates,
    pattern_matches,
};
use crate::tools::builtin::PreparedCall;
use crate::workspace::read_context::PathFilter;

/// Time limit of the check. A file system may hang.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// Maximum number of symlinks in a path, as in Linux.
const MAX_LINKS: usize = 40;

/// Maximum number of directory entries that the patterns of a call are compared with.
const MAX_ENTRIES: usize = 20_000;

/// Maximum number of files in a directory in which a single word may be a link.
const MAX_DIRECTORY: usize = 200_000;

/// Maximum number of own files whose other names are recognized.
const MAX_OWN_FILES: usize = 5_000;

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
    /// `None` if they are not a JSON object.
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
            arguments: json_text::parse_object(arguments).ok().map(Value::Object),
            reads,
            bases,
        }
    }

    /// A prepared call of a built-in tool, of which the files and the command line are known.
    pub fn of_prepared(prepared: &PreparedCall, cwd: &str) -> ProtectionCheck {
        let files = prepared.files.iter();
        let texts = files.map(|file| file.to_string_lossy().into_owned());
        let files = texts.map(Value::String).collect::<Vec<_>>();
        // By its key the command is read as one.
        let arguments = json!({"files": files, "command": prepared.command});
        ProtectionCheck {
            arguments: Some(arguments),
            reads: prepared.reads_files(),
            bases: vec![prepared.directory().unwrap_or(Path::new(cwd)).to_owned()],
        }
    }

    /// A command line for a shell in `cwd`.
    pub fn of_command(command: &str, cwd: &str) -> ProtectionCheck {
        ProtectionCheck {
            arguments: Some(Value::String(command.to_owned())),
            reads: false,
            bases: vec![PathBuf::from(cwd)],
        }
    }
}

/// Returns for each check why its call must be asked about, or `None`. `shell` holds variables of the shell, of which
/// [`PLACE_VARIABLES`] count.
pub async fn protection_reasons(
    paths: &Paths,
    shell: &BTreeMap<String, String>,
    checks: Vec<ProtectionCheck>,
) -> Vec<Option<String>> {
    let (count, paths, shell) = (checks.len(), paths.clone(), shell.clone());
    // On another thread: a hanging file system delays only this turn.
    let work = tokio::task::spawn_blocking(move || {
        let protected = ProtectedFiles::new(&paths, &shell);
        let reasons = checks.iter().map(|check| protected.reason(check));
        reasons.collect::<Vec<_>>()
    });
    match tokio::time::timeout(TIME_LIMIT, work).await {
        Ok(Ok(reasons)) => reasons,
        Ok(Err(_)) | Err(_) => vec![Some(TOO_SLOW.to_owned()); count],
    }
}

/// Returns the files and directories that a search leaves out: those that it may not read without a question.
pub fn unsearched(paths: &Paths, shell: &BTreeMap<String, String>) -> PathFilter {
    let (paths, shell) = (paths.clone(), shell.clone());
    let (own, inodes) = (OnceLock::new(), OnceLock::new());
    PathFilter::new(move |path| {
        let files = || ProtectedFiles::new(&paths, &shell);
        let own: &ProtectedPaths = own.get_or_init(|| files().paths);
        if matches!(own.find(path), Some((_, PathRelation::Inside))) {
            return true;
        }
        let meta = fs::symlink_metadata(path).ok();
        meta.filter(|meta| meta.is_file() && meta.nlink() > 1)
            .is_some_and(|meta| {
                let inodes: &BTreeSet<(u64, u64)> = inodes.get_or_init(|| files().inodes());
                inodes.contains(&(meta.dev(), meta.ino()))
            })
    })
}

/// The names in a directory that are links to own files, with these files. `None` if the directory is too large.
type Links = Option<Vec<(String, PathBuf)>>;

/// The names in a directory, and whether each is a regular file.
type Names = Rc<[(String, bool)]>;

struct ProtectedFiles {
    paths: ProtectedPaths,
    /// The files and directories whose content may have other names.
    own: Vec<PathBuf>,
    /// Device and inode of these files.
    inodes: OnceCell<BTreeSet<(u64, u64)>>,
    /// The directories that were read for patterns.
    listed: RefCell<BTreeMap<PathBuf, Names>>,
    /// The links in the directories of single words.
    links: RefCell<BTreeMap<PathBuf, Links>>,
    /// Number of their entries, and of those that matched.
    entries: Cell<usize>,
    variables: Variables,
}

impl ProtectedFiles {
    fn new(own: &Paths, shell: &BTreeMap<String, String>) -> ProtectedFiles {
        let text = |name: &str| {
            let value = paths::variable(name)?;
            Some(value.to_string_lossy().into_owned())
        };
        let home = text("HOME").unwrap_or_default();
        // The variables of the shell may differ from those of the shell that started the daemon: both count.
        let of_shell = PLACE_VARIABLES
            .iter()
            .filter_map(|name| Some((*name, shell.get(*name)?)));
        let of_shell: Vec<(String, String)> = of_shell
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .collect();
        let names = PLACE_VARIABLES.iter().chain(&["AISH_HOME"]);
        let of_daemon = names.filter_map(|name| Some(((*name).to_owned(), text(name)?)));
        let values: Vec<(String, String)> = of_shell.into_iter().chain(of_daemon).collect();
        let variables = Variables {
            user: text("USER").or_else(|| text("LOGNAME")).unwrap_or_default(),
            values,
            home,
        };
        let mut shared: Vec<PathBuf> = SYSTEM_PLACES.iter().map(PathBuf::from).collect();
        shared.extend([own.run.clone(), own.socket_dir.clone()]);
        let mut files = vec![own.config.clone(), own.data.clone(), own.state.clone()];
        for (name, dir) in &variables.values {
            let dir = Path::new(dir);
            match name.as_str() {
                _ if !dir.is_absolute() || dir == Path::new(&variables.home) => {}
                "AISH_HOME" | "ZDOTDIR" => files.push(dir.to_path_buf()),
                "XDG_CONFIG_HOME" => {
                    files.extend(["aish", "fish", "zsh"].map(|name| dir.join(name)));
                }
                _ => files.push(dir.join("aish")),
            }
        }
        // The program itself, and the plugin that was installed with it.
        if let Ok(program) = std::env::current_exe() {
            let prefix = program.parent().and_then(Path::parent);
            files.extend(prefix.map(|prefix| prefix.join("share/aish")));
            files.push(program);
        }
        let mut linked = FILE_NAMES.map(|name| own.config.join(name)).to_vec();
        if !variables.home.is_empty() {
            let home = Path::new(&variables.home);
            linked.extend(NAMES.iter().map(|name| home.join(name)));
            files.extend(HOME_DIRS.iter().map(|name| home.join(name)));
        }
        let mut protected = ProtectedPaths::default();
        let private = files.iter().chain(&linked).map(|file| (file, true));
        // `/tmp` holds the sockets, and a write to it is common.
        let shared = shared.iter().map(|file| (file, false));
        for (file, with_parents) in private.chain(shared) {
            protected.add(file, with_parents);
            // A configuration may be a link into a directory of dotfiles.
            if let Some(real) = resolved(file) {
                protected.add(&real, with_parents);
            }
        }
        files.extend(linked);
        ProtectedFiles {
            paths: protected,
            own: files,
            inodes: OnceCell::new(),
            listed: RefCell::default(),
            links: RefCell::default(),
            entries: Cell::new(0),
            variables,
        }
    }

    fn reason(&self, check: &ProtectionCheck) -> Option<String> {
        let Some(arguments) = &check.arguments else {
            return Some(UNREADABLE.to_owned());
        };
        let mut variables = self.variables.clone();
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
        if let Some(place) = texts.iter().find_map(|t| self.paths.find_in_text(t)) {
            return Some(reaches(&place));
        }
        self.listed.borrow_mut().clear();
        self.links.borrow_mut().clear();
        self.entries.set(0);
        let search = ReachSearch::new(&self.paths, self, check.reads, &check.bases);
        match search.find(&candidates) {
            Ok(found) => found.map(|place| reaches(&place)),
            Err(why) => Some(unchecked(why)),
        }
    }

    /// Returns the device and inode of the own files.
    fn inodes(&self) -> BTreeSet<(u64, u64)> {
        let (mut todo, mut inodes) = (self.own.clone(), BTreeSet::new());
        while let Some(path) = todo.pop().filter(|_| inodes.len() < MAX_OWN_FILES) {
            let is_link = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_symlink());
            match fs::metadata(&path) {
                Ok(meta) if meta.is_file() => {
                    inodes.insert((meta.dev(), meta.ino()));
                }
                Ok(meta) if meta.is_dir() && (!is_link || self.own.contains(&path)) => {
                    let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                    todo.extend(entries.map(|entry| entry.path()));
                }
                _ => {}
            }
        }
        inodes
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
            let is_own = |meta: &fs::Metadata| meta.is_file() && self.paths.find(&path).is_some();
            let counts =
                |meta: &fs::Metadata| meta.is_symlink() || meta.nlink() > 1 || is_own(meta);
            if !entry.metadata().is_ok_and(|meta| counts(&meta)) {
                continue;
            }
            let path = resolved(&path).unwrap_or(path);
            if self.paths.find(&path).is_some() || self.same_file(&path).is_some() {
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
        let meta = fs::metadata(path).ok();
        if let Some(meta) = meta
            && meta.nlink() > 1
            && meta.is_file()
            && self
                .inodes
                .get_or_init(|| self.inodes())
                .contains(&(meta.dev(), meta.ino()))
        {
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

/// Follows the symlinks of a path, also of one whose end does not exist. `None` if there are too many.
fn resolved(path: &Path) -> Option<PathBuf> {
    let parts = |path: &Path| -> Vec<PathBuf> {
        let mut parts: Vec<_> = path
            .components()
            .map(|c| PathBuf::from(c.as_os_str()))
            .collect();
        parts.reverse();
        parts
    };
    let (mut done, mut todo) = (PathBuf::from("/"), parts(path));
    let (mut links, mut exists) = (0, true);
    while let Some(part) = todo.pop() {
        match part.components().next() {
            Some(Component::ParentDir) => {
                done.pop();
            }
            Some(Component::Normal(name)) => {
                let next = done.join(name);
                if is_process_link(&next) {
                    // Another path for each process: it stays as it is.
                    return Some(todo.iter().rev().fold(next, |path, part| path.join(part)));
                }
                let link = match exists {
                    true => fs::read_link(&next),
                    false => Err(ErrorKind::NotFound.into()),
                };
                match link {
                    Ok(target) => {
                        links += 1;
                        if links > MAX_LINKS {
                            return None;
                        }
                        if target.is_absolute() {
                            done = PathBuf::from("/");
                        }
                        todo.extend(parts(&target));
                    }
                    Err(e) => {
                        exists &= e.kind() != ErrorKind::NotFound;
                        done = next;
                    }
                }
            }
            _ => {}
        }
    }
    Some(done)
}
