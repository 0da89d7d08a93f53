//! Checks whether a call or a command reaches files that decide what aish may do, or what a shell runs when it starts. No
//! rule and no grant covers these.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::config::mcp::{ServerSettings, ServerTransport};
use crate::paths::{self, Paths};
use crate::safety::json_text;
use crate::safety::protected_paths::{
    FILE_NAMES, HOME_DIRS, NAMES, PathCandidate, PathRelation, ProtectedPaths, SYSTEM_PLACES,
    Variables, path_candidates,
};

/// Time limit of the check. A file system may hang.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// Maximum number of symlinks in a path, as in Linux.
const MAX_LINKS: usize = 40;

/// Maximum number of directories to which a relative path may belong.
const MAX_BASES: usize = 12;

const TOO_MUCH: &str = "the arguments hold more paths than can be checked for aish's own files";
/// Maximum length of a path that is checked, in bytes.
const MAX_PATH: usize = 4096;
const UNREADABLE: &str = "the arguments cannot be checked for aish's own files";
const TOO_SLOW: &str = "its paths could not be checked for aish's own files in time";

/// What to check.
#[derive(Debug)]
pub struct ProtectionCheck {
    /// `None` if they are not a JSON object.
    arguments: Option<Value>,
    /// The call only reads, according to a trusted server.
    reads: bool,
    /// Directories to which a relative path may belong.
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
        if let Some(ServerTransport::Stdio { args, env, .. }) = server.map(|s| &s.transport) {
            // A server often gets its working directory or its root as an argument.
            bases.extend(args.iter().map(PathBuf::from));
            bases.extend(env.iter().map(|(_, value)| PathBuf::from(value)));
        }
        bases.retain(|base| base.is_absolute());
        ProtectionCheck {
            arguments: json_text::parse_object(arguments).ok().map(Value::Object),
            reads,
            bases,
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

/// Returns for each check why its call must be asked about, or `None`.
pub async fn protection_reasons(
    paths: &Paths,
    checks: Vec<ProtectionCheck>,
) -> Vec<Option<String>> {
    let (count, paths) = (checks.len(), paths.clone());
    // On another thread: a hanging file system delays only this turn.
    let work = tokio::task::spawn_blocking(move || {
        let protected = ProtectedFiles::new(&paths);
        let reasons = checks.iter().map(|check| protected.reason(check));
        reasons.collect::<Vec<_>>()
    });
    match tokio::time::timeout(TIME_LIMIT, work).await {
        Ok(Ok(reasons)) => reasons,
        Ok(Err(_)) | Err(_) => vec![Some(TOO_SLOW.to_owned()); count],
    }
}

struct ProtectedFiles {
    paths: ProtectedPaths,
    /// Device and inode of the files, which may have other names.
    inodes: BTreeSet<(u64, u64)>,
    variables: Variables,
}

impl ProtectedFiles {
    fn new(own: &Paths) -> ProtectedFiles {
        let text = |name: &str| {
            let value = paths::variable(name)?;
            Some(value.to_string_lossy().into_owned())
        };
        let home = text("HOME").unwrap_or_default();
        let names = ["AISH_HOME", "PWD", "XDG_CONFIG_HOME", "XDG_DATA_HOME"];
        let names = names.into_iter().chain(["XDG_STATE_HOME", "ZDOTDIR"]);
        let values = names.filter_map(|name| Some((name.to_owned(), text(name)?)));
        let variables = Variables {
            user: text("USER").or_else(|| text("LOGNAME")).unwrap_or_default(),
            values: values.collect(),
            home,
        };
        let mut shared: Vec<PathBuf> = SYSTEM_PLACES.iter().map(PathBuf::from).collect();
        shared.extend([own.run.clone(), own.socket_dir.clone()]);
        let mut files = vec![own.config.clone(), own.data.clone(), own.state.clone()];
        for name in ["AISH_HOME", "ZDOTDIR"] {
            let dir = text(name).filter(|dir| *dir != variables.home);
            files.extend(dir.map(PathBuf::from));
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
        let mut inodes = BTreeSet::new();
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
        for file in linked {
            if let Ok(meta) = fs::metadata(&file) {
                inodes.insert((meta.dev(), meta.ino()));
            }
        }
        ProtectedFiles {
            paths: protected,
            inodes,
            variables,
        }
    }

    fn reason(&self, check: &ProtectionCheck) -> Option<String> {
        let Some(arguments) = &check.arguments else {
            return Some(UNREADABLE.to_owned());
        };
        let Some((mut candidates, texts)) = path_candidates(arguments, &self.variables) else {
            return Some(TOO_MUCH.to_owned());
        };
        // No system opens a longer path, and it would take long to check. A pattern may be longer; a text is no path.
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
        let mut bases = check.bases.clone();
        bases.push(PathBuf::from(&self.variables.home));
        // Another argument may be the directory.
        let whole = candidates.iter().filter(|one| one.whole);
        bases.extend(whole.map(|one| PathBuf::from(&one.path)));
        bases.retain(|base| base.is_absolute());
        bases.dedup();
        bases.truncate(MAX_BASES);
        let found = candidates
            .iter()
            .find_map(|one| self.reached(one, check.reads, &bases));
        found.map(|place| reaches(&place))
    }

    /// Returns the protected path that a candidate leads to.
    fn reached(&self, one: &PathCandidate, reads: bool, bases: &[PathBuf]) -> Option<String> {
        let path = Path::new(&one.path);
        let absolute: Vec<PathBuf> = match path.is_absolute() {
            true => vec![path.to_path_buf()],
            false => bases.iter().map(|base| base.join(path)).collect(),
        };
        for path in absolute {
            // A program may drop `..` from the text before it follows links.
            for reading in [path.clone(), without_parents(&path)] {
                // `/proc/self/cwd` is another directory for each process.
                let before = self.paths.find(&reading);
                let real = resolved(&reading).or_else(|| Some(reading.clone()));
                let after = real.as_deref().and_then(|real| self.paths.find(real));
                for (place, relation) in before.into_iter().chain(after) {
                    let counts = match relation {
                        PathRelation::Inside => true,
                        // A write to a directory as a whole: it may be moved or removed.
                        PathRelation::Above => one.whole && !reads,
                    };
                    if counts {
                        return Some(place);
                    }
                }
                if let Some(place) = real.as_deref().and_then(|real| self.same_file(real)) {
                    return Some(place);
                }
            }
        }
        None
    }

    /// Returns the name of a protected file that a path is another name of, or of the plugin that it belongs to.
    fn same_file(&self, path: &Path) -> Option<String> {
        let meta = fs::metadata(path).ok();
        if let Some(meta) = meta
            && meta.nlink() > 1
            && self.inodes.contains(&(meta.dev(), meta.ino()))
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

/// Removes `..` together with the component before it.
fn without_parents(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}
