//! Separates this process from the machine with namespaces: users, mounts, processes, IPC and network.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::existing;
use super::mount_table::{self, MountEntry};
use crate::error::{Error, ErrorContext, Result};

/// First kernel in which the maximum process id belongs to a namespace.
const PID_MAX_PER_NAMESPACE: (u32, u32) = (6, 14);

/// The smallest maximum that the kernel accepts.
const PID_MAX_FLOOR: u64 = 512;

const NONE: Option<&Path> = None;

/// The file systems that the namespaces show.
pub(super) struct NamespacePlan<'a> {
    /// Directories that stay writable; canonical paths.
    pub writable: &'a [PathBuf],
    /// Paths that the command may not read, nor change inside the writable directories.
    pub hidden: &'a BTreeSet<PathBuf>,
    /// Paths that must not change inside the writable directories.
    pub guarded: &'a [PathBuf],
    /// The private temporary directory, and its size in MiB.
    pub private_tmp: (&'a Path, u64),
    /// The network of the machine stays.
    pub network: bool,
}

/// Enters new namespaces, in which every file system but those of the plan is read-only. The next child of this process is the
/// first one of the new process namespace.
///
/// # Errors
/// The kernel or a security module refuses one of the steps. The process must then end.
pub(super) fn enter(plan: &NamespacePlan<'_>) -> Result<()> {
    let (uid, gid) = (Uid::effective(), Gid::effective());
    let mut flags = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC;
    if !plan.network {
        flags |= CloneFlags::CLONE_NEWNET;
    }
    unshare(flags).context(|| "cannot create namespaces".into())?;
    // The ids stay the same, so that files look the same. An unprivileged process must give up setgroups first.
    write_own("setgroups", "deny")?;
    write_own("uid_map", &format!("{uid} {uid} 1"))?;
    write_own("gid_map", &format!("{gid} {gid} 1"))?;
    mount_all(plan)?;
    keep_mount_capability()
}

fn write_own(name: &str, text: &str) -> Result<()> {
    let path = format!("/proc/self/{name}");
    fs::write(&path, text).context(|| format!("cannot write {path}"))
}

fn mount_all(plan: &NamespacePlan<'_>) -> Result<()> {
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(NONE, "/", NONE, private, NONE).context(|| "cannot make mounts private".into())?;
    let table = fs::read("/proc/self/mountinfo").context(|| "cannot list mounts".into())?;
    let table = mount_table::parse(&table);
    for dir in plan.writable {
        bind(dir)?;
        let flags = mount_table::flags_at(&table, dir) - MsFlags::MS_RDONLY;
        // A mount point cannot be renamed: nobody can put another git directory in its place.
        let own = dir.join(".git");
        let git_dirs = plan.guarded.iter().filter_map(|path| path.parent());
        let git_dirs: BTreeSet<&Path> = git_dirs
            .filter(|parent| parent.starts_with(dir) && *parent != dir)
            .filter(|parent| parent.join("HEAD").symlink_metadata().is_ok())
            .chain(Some(own.as_path()).filter(|own| own.is_dir()))
            .collect();
        // In the order of paths, an outer one comes before an inner one.
        git_dirs
            .into_iter()
            .filter(|path| is_inside(path, dir))
            .try_for_each(bind)?;
        // Programs obey the target of a symlink.
        existing(plan.guarded.iter().chain(plan.hidden))
            .filter_map(|path| path.canonicalize().ok())
            .filter(|path| path.starts_with(dir) && path != dir)
            .try_for_each(|path| bind(&path).and_then(|()| read_only(&path, flags)))?;
    }
    let (tmp, size) = plan.private_tmp;
    mount_tmpfs(tmp, MsFlags::empty(), size)?;
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() {
        mount_tmpfs(shared_memory, MsFlags::MS_NOEXEC, size)?;
    }
    for MountEntry { point, flags } in table {
        let is_ours = |dir: &Path| point.starts_with(dir);
        if plan.writable.iter().any(|dir| is_ours(dir)) || is_ours(tmp) || is_ours(shared_memory) {
            continue;
        }
        match read_only(&point, flags) {
            // A file that this user cannot reach cannot be changed either.
            Err(_) if fs::symlink_metadata(&point).is_err() => {}
            done => done?,
        }
    }
    Ok(())
}

/// Whether a guarded path is really below its directory, and not behind a symlink.
fn is_inside(path: &Path, dir: &Path) -> bool {
    fs::canonicalize(path).is_ok_and(|real| real == path && real.starts_with(dir))
}

/// Mounts a directory or file over itself, with the mounts below it.
fn bind(path: &Path) -> Result<()> {
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    mount(Some(path), path, NONE, flags, NONE)
        .context(|| format!("cannot mount {}", path.display()))
}

fn read_only(path: &Path, flags: MsFlags) -> Result<()> {
    let flags = flags | MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
    mount(NONE, path, NONE, flags, NONE)
        .context(|| format!("cannot make {} read-only", path.display()))
}

fn mount_tmpfs(dir: &Path, flags: MsFlags, size_mib: u64) -> Result<()> {
    let options = format!("mode=0700,size={size_mib}m");
    let flags = flags | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), dir, Some("tmpfs"), flags, Some(&*options))
        .context(|| format!("cannot mount {}", dir.display()))
}

/// Lets the first process of the namespace mount `/proc`; the others have no capability.
fn keep_mount_capability() -> Result<()> {
    let what = || "cannot pass on a capability".to_owned();
    let mut sets = rustix::thread::capabilities(None).context(what)?;
    sets.inheritable |= CapabilitySet::SYS_ADMIN;
    rustix::thread::set_capabilities(None, sets).context(what)?;
    rustix::thread::configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true)
        .context(what)
}

/// Mounts the `/proc` of the new process namespace, and limits its number of processes.
///
/// # Errors
/// The kernel refuses it, as it does in a container that hides parts of `/proc`.
pub(super) fn mount_proc(processes: u64) -> Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, NONE)
        .context(|| "cannot mount /proc".into())?;
    // RLIMIT_NPROC does not count the processes of root. On an older kernel the file would be that of the machine.
    if kernel_version().is_some_and(|version| version >= PID_MAX_PER_NAMESPACE) {
        let maximum = processes.max(PID_MAX_FLOOR);
        // The limit of resources remains where this fails.
        let _ = fs::write("/proc/sys/kernel/pid_max", maximum.to_string());
    }
    Ok(())
}

fn kernel_version() -> Option<(u32, u32)> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Gives up every capability for this process and its children, also those that root has.
///
/// # Errors
/// The kernel refuses it.
pub(super) fn drop_capabilities() -> Result<()> {
    let what = || "cannot give up capabilities".to_owned();
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_no_new_privs(true).context(what)?;
    rustix::thread::clear_ambient_capability_set().context(what)?;
    rustix::thread::set_capabilities(None, none).context(what)
}

/// Returns why namespaces cannot be used, as far as the settings of the kernel show.
pub(super) fn disabled_reason() -> Option<Error> {
    let setting = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned());
    let is = |path: &str, value: &str| setting(path).is_ok_and(|text| text == value);
    let reason = if is("/proc/sys/user/max_user_namespaces", "0") {
        "user.max_user_namespaces is 0"
    } else if Uid::effective().is_root() {
        return None;
    } else if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        "kernel.unprivileged_userns_clone is 0"
    } else if is(
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
    ) {
        "kernel.apparmor_restrict_unprivileged_userns is 1"
    } else {
        return None;
    };
    Some(Error::runtime(reason))
}
