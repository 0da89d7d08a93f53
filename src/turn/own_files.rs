//! The files that decide what aish may do, or what a shell runs when it starts, as they are on this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use crate::config::PLACE_VARIABLES;
use crate::paths::{self, Paths};
use crate::safety::protected_paths::{
    FILE_NAMES, HOME_DIRS, NAMES, PathRelation, ProtectedPaths, SYSTEM_PLACES, Variables,
    is_process_link,
};
use crate::workspace::read_context::PathFilter;

/// Maximum number of symlinks in a path, as in Linux.
const MAX_LINKS: usize = 40;

/// Maximum number of own files whose other names are recognized.
const MAX_OWN_FILES: usize = 5_000;

/// The own files, by their paths and by what they are.
#[derive(Debug)]
pub struct OwnFiles {
    /// The paths, also of those that do not exist.
    pub paths: ProtectedPaths,
    /// Variables that a path in a text may begin with.
    pub variables: Variables,
    /// The files and directories whose content may have other names.
    files: Vec<PathBuf>,
    /// Device and inode of what is there.
    inodes: OnceLock<BTreeSet<(u64, u64)>>,
}

impl OwnFiles {
    /// Collects the files; `shell` holds variables of the shell, of which [`PLACE_VARIABLES`] count.
    pub fn new(own: &Paths, shell: &BTreeMap<String, String>) -> OwnFiles {
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
        OwnFiles {
            paths: protected,
            files,
            inodes: OnceLock::new(),
            variables,
        }
    }

    /// Whether a file with more than one name is one of these.
    pub fn has_other_name(&self, file: &Metadata) -> bool {
        file.is_file()
            && file.nlink() > 1
            && self
                .inodes
                .get_or_init(|| self.read_inodes())
                .contains(&(file.dev(), file.ino()))
    }

    /// Returns the device and inode of the files.
    fn read_inodes(&self) -> BTreeSet<(u64, u64)> {
        let (mut todo, mut inodes) = (self.files.clone(), BTreeSet::new());
        while let Some(path) = todo.pop().filter(|_| inodes.len() < MAX_OWN_FILES) {
            let is_link = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_symlink());
            match fs::metadata(&path) {
                Ok(meta) if meta.is_file() => {
                    inodes.insert((meta.dev(), meta.ino()));
                }
                Ok(meta) if meta.is_dir() && (!is_link || self.files.contains(&path)) => {
                    let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                    todo.extend(entries.map(|entry| entry.path()));
                }
                _ => {}
            }
        }
        inodes
    }
}

/// Returns what one search leaves out: files and directories that may not be read without a question.
pub fn search_filter(paths: &Paths, shell: &BTreeMap<String, String>) -> PathFilter {
    let (paths, shell) = (paths.clone(), shell.clone());
    let own = OnceLock::new();
    PathFilter::new(move |path| {
        // Reads files, so it belongs to the thread of the search.
        let own: &OwnFiles = own.get_or_init(|| OwnFiles::new(&paths, &shell));
        matches!(own.paths.find_real(path), Some((_, PathRelation::Inside)))
            || fs::symlink_metadata(path).is_ok_and(|file| own.has_other_name(&file))
    })
}

/// Follows the symlinks of a path, also of one whose end does not exist. `None` if there are too many.
pub fn resolved(path: &Path) -> Option<PathBuf> {
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
