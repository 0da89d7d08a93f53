//! Restricts this process with Landlock to what [`PathRules`] allow.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus,
    PathBeneath, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;

use super::descriptors;
use crate::error::{Error, ErrorContext, Result};
use crate::sandbox::path_rules::{PROC, PathRules};

/// The newest version whose rights are used. Older kernels handle fewer.
const ABI_USED: ABI = ABI::V6;

/// Directories nested deeper below one that hides something are not opened.
const MAX_DEPTH: usize = 6;

/// Options of [`restrict`] other than the paths.
pub(super) struct LandlockScope {
    /// IP sockets are allowed.
    pub network: bool,
    /// `/proc` shows only processes of the sandbox, and `/dev/shm` is its own.
    pub namespaces: bool,
}

/// Restricts this process and its children. Returns the version of Landlock that the kernel has.
///
/// # Errors
/// The kernel has no Landlock, or it is disabled.
pub(super) fn restrict(rules: &PathRules, scope: &LandlockScope) -> Result<i32> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI_USED))
        .context(what)?
        .scope(Scope::from_all(ABI_USED))
        .context(what)?;
    if !scope.network {
        ruleset = ruleset
            .handle_access(AccessNet::from_all(ABI_USED))
            .context(what)?;
    }
    let mut grants = Grants {
        rules,
        ruleset: ruleset.create().context(what)?,
    };
    grants.add_all(scope)?;
    let status = grants.ruleset.restrict_self().context(what)?;
    match status.landlock {
        LandlockStatus::Available {
            effective_abi,
            kernel_abi,
        } if status.ruleset != RulesetStatus::NotEnforced => {
            Ok(kernel_abi.unwrap_or(effective_abi as i32))
        }
        LandlockStatus::NotEnabled => Err(unavailable("is disabled at boot")),
        _ => Err(unavailable("is not part of this kernel")),
    }
}

fn what() -> String {
    "cannot restrict the command with Landlock".into()
}

fn unavailable(why: &str) -> Error {
    Error::config(format!("the sandbox is unavailable: Landlock {why}"))
        .hint("use Linux 5.13 or later with landlock in the lsm= list, or set sandbox = \"off\" to run commands without it")
}

fn read_rights() -> BitFlags<AccessFs> {
    AccessFs::from_read(ABI_USED)
}

fn write_rights() -> BitFlags<AccessFs> {
    let devices = AccessFs::MakeBlock | AccessFs::MakeChar | AccessFs::IoctlDev;
    AccessFs::from_all(ABI_USED) & !devices
}

/// Kind of an opened path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PathKind {
    Directory,
    File,
}

/// The rules as they are added.
struct Grants<'a> {
    rules: &'a PathRules,
    ruleset: RulesetCreated,
}

impl Grants<'_> {
    fn add_all(&mut self, scope: &LandlockScope) -> Result<()> {
        let rules = self.rules;
        let mut done: Vec<PathBuf> = Vec::new();
        for path in &rules.write {
            // A workspace that cannot be opened is an error: the command would fail in ways that are hard to read. Nor is
            // a symlink followed, which a command of another sandbox could have put in its place.
            let file = open_exactly(path)
                .context(|| format!("cannot open the directory {}", path.display()))?;
            self.allow_opened(path, &file, write_rights(), 0)?;
            done.push(path.clone());
        }
        for path in &rules.read {
            let opened = open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty());
            let Ok(file) = opened.map(File::from) else {
                continue;
            };
            // The target of a symlink counts.
            let Ok(path) = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())) else {
                continue;
            };
            if !done.iter().any(|dir| path.starts_with(dir)) {
                self.allow_opened(&path, &file, read_rights(), 0)?;
                done.push(path);
            }
        }
        for path in &rules.devices {
            self.add(
                path,
                AccessFs::ReadFile | AccessFs::WriteFile,
                PathKind::File,
            )?;
        }
        let whole = |grants: &mut Self, path: &str, rights| {
            grants.add(Path::new(path), rights, PathKind::Directory)
        };
        if scope.namespaces {
            whole(self, "/proc", read_rights())?;
            whole(self, "/dev/shm", write_rights())?;
        } else {
            for path in PROC {
                let kind = match *path {
                    "/proc/sys" => PathKind::Directory,
                    _ => PathKind::File,
                };
                self.add(Path::new(path), read_rights(), kind)?;
            }
            whole(
                self,
                &format!("/proc/{}", std::process::id()),
                read_rights(),
            )?;
        }
        (0..=2).try_for_each(|number| self.add_standard(number))
    }

    /// Allows everything beneath an open path, except hidden paths.
    fn allow_opened(
        &mut self,
        path: &Path,
        file: &File,
        rights: BitFlags<AccessFs>,
        depth: usize,
    ) -> Result<()> {
        if self.rules.is_hidden(path) || depth > MAX_DEPTH {
            return Ok(());
        }
        if !self.rules.hides_below(path) {
            let is_dir = file.metadata().is_ok_and(|meta| meta.is_dir());
            let kind = if is_dir {
                PathKind::Directory
            } else {
                PathKind::File
            };
            return self.add_opened(file, rights, kind);
        }
        // Landlock only allows: the entries beside the hidden ones are allowed one by one. Names may be listed.
        self.add_opened(file, AccessFs::ReadDir.into(), PathKind::Directory)?;
        let Ok(entries) = fs::read_dir(path) else {
            return Ok(());
        };
        for entry in entries.flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_symlink() => {}
                Ok(kind) if kind.is_dir() && self.rules.hides_below(&path) => {
                    if let Ok(file) = open_exactly(&path) {
                        self.allow_opened(&path, &file, rights, depth + 1)?;
                    }
                }
                Ok(kind) if !self.rules.is_hidden(&path) => {
                    let kind = if kind.is_dir() {
                        PathKind::Directory
                    } else {
                        PathKind::File
                    };
                    self.add(&path, rights, kind)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds one rule. A path that is missing or a symlink adds nothing.
    fn add(&mut self, path: &Path, rights: BitFlags<AccessFs>, kind: PathKind) -> Result<()> {
        match open_exactly(path) {
            Ok(file) => self.add_opened(&file, rights, kind),
            Err(_) => Ok(()),
        }
    }

    /// Adds what a standard descriptor leads to, so that `/dev/stdout` and the name of the terminal work.
    fn add_standard(&mut self, number: u8) -> Result<()> {
        let path = format!("/proc/self/fd/{number}");
        let Ok(file) = open(
            path.as_str(),
            OFlag::O_PATH | OFlag::O_CLOEXEC,
            Mode::empty(),
        ) else {
            return Ok(());
        };
        let file = File::from(file);
        let kind = file.metadata().map(|meta| meta.file_type());
        if !kind.is_ok_and(|kind| kind.is_file() || kind.is_char_device()) {
            return Ok(());
        }
        let open = descriptors::open_state(number);
        let rights = match open.and_then(|open| open.access_mode()) {
            Some(OFlag::O_RDONLY) => AccessFs::ReadFile.into(),
            Some(OFlag::O_WRONLY) => AccessFs::WriteFile.into(),
            Some(_) => AccessFs::ReadFile | AccessFs::WriteFile,
            None => return Ok(()),
        };
        self.add_opened(&file, rights, PathKind::File)
    }

    fn add_opened(
        &mut self,
        file: &File,
        rights: BitFlags<AccessFs>,
        kind: PathKind,
    ) -> Result<()> {
        let rights = match kind {
            PathKind::Directory => rights,
            PathKind::File => rights & AccessFs::from_file(ABI_USED),
        };
        if rights.is_empty() {
            return Ok(());
        }
        let rule = PathBeneath::new(file, rights);
        (&mut self.ruleset).add_rule(rule).context(what)?;
        Ok(())
    }
}

/// Opens a path without access to its content, and without following symlinks anywhere in it.
fn open_exactly(path: &Path) -> nix::Result<File> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    openat2(AT_FDCWD, path, how).map(File::from)
}
