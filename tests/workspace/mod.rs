//! Changes of files: edits, patches, commits, undo.

mod attributes;
mod commits;
mod interrupted;
mod patches;
mod real_edits;
mod undo;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use aish::workspace::changes::{FileSnapshot, PreparedChange};
use aish::workspace::edit::{EditRequest, edit};
use aish::workspace::failure::WorkspaceError;
use aish::workspace::text_file::TextFile;
use aish::workspace::{PathResult, ResolvedPath, Workspace};
use tempfile::TempDir;

/// A directory with files, as a workspace.
struct Project {
    _dir: Option<TempDir>,
    path: PathBuf,
    workspace: Workspace,
}

/// What is in a directory: bytes and mode of each file, `None` for a directory, the target of a symbolic link as bytes.
type Tree = BTreeMap<PathBuf, Option<(Vec<u8>, u32)>>;

impl Project {
    fn new() -> Project {
        let dir = TempDir::new().expect("a directory");
        let mut project = Project::at(&dir.path().canonicalize().expect("a path"));
        project._dir = Some(dir);
        project
    }

    fn at(path: &Path) -> Project {
        Project {
            _dir: None,
            path: path.to_owned(),
            workspace: Workspace::new(path, None, &[]).expect("a workspace"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, bytes).expect("a file");
        self
    }

    fn chmod(&self, name: &str, mode: u32) -> &Self {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).expect("a mode");
        self
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).expect("a file")
    }

    fn resolve(&self, name: &str) -> ResolvedPath {
        self.workspace.resolve(name).expect("a path")
    }

    fn resolver(&self) -> impl Fn(&Path) -> PathResult<ResolvedPath> + '_ {
        |path| self.workspace.resolve_path(path)
    }

    fn snapshot(&self, name: &str) -> Option<FileSnapshot> {
        FileSnapshot::read(&self.resolve(name)).expect("readable")
    }

    /// Prepares the writing of a file that exists or not.
    fn writing(&self, name: &str, bytes: impl AsRef<[u8]>) -> PreparedChange {
        PreparedChange::write(self.resolve(name), self.snapshot(name), bytes.as_ref())
            .expect("a change")
    }

    fn removing(&self, name: &str) -> PreparedChange {
        PreparedChange::remove(self.resolve(name), self.snapshot(name).expect("a file"))
    }

    /// Prepares an edit, from the bytes on disk to the change.
    fn editing(&self, name: &str, old: &str, new: &str) -> Result<PreparedChange, WorkspaceError> {
        let before = self.snapshot(name).expect("a file");
        let text = TextFile::parse(&before.bytes)?;
        let outcome = edit(
            &text,
            &before.bytes,
            EditRequest {
                old,
                new,
                replace_all: false,
            },
        )?;
        PreparedChange::write(self.resolve(name), Some(before), outcome.bytes)
    }

    fn tree(&self) -> Tree {
        tree(&self.path)
    }
}

fn tree(root: &Path) -> Tree {
    fn walk(root: &Path, dir: &Path, tree: &mut Tree) {
        for entry in fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(root).expect("below the root").to_owned();
            let found = path.symlink_metadata().expect("metadata");
            let mode = found.permissions().mode() & 0o7777;
            if found.is_dir() {
                tree.insert(name, None);
                walk(root, &path, tree);
            } else if found.is_symlink() {
                let target = fs::read_link(&path).expect("a link");
                tree.insert(
                    name,
                    Some((target.into_os_string().into_encoded_bytes(), 0)),
                );
            } else {
                tree.insert(name, Some((fs::read(&path).unwrap_or_default(), mode)));
            }
        }
    }
    let mut entries = Tree::new();
    walk(root, root, &mut entries);
    entries
}

/// Panics if a commit has left a file of its own behind.
#[track_caller]
fn assert_tidy(tree: &Tree) {
    let left: Vec<_> = tree
        .keys()
        .filter(|path| path.to_string_lossy().contains(".aish-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
