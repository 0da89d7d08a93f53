//! Changes of modes and times that the supervisor makes for a traced command.
//!
//! Landlock does not restrict them, and seccomp sees no paths. The supervisor resolves the path as the command would, checks the
//! place of the file that it opened, changes that file, and lets the command skip its own call. If the command swaps the path
//! meanwhile, that has no effect: the file is open.

use crate::sandbox::path_rules::PathRules;

#[cfg(not(target_arch = "x86_64"))]
pub(super) const SUPPORTED: bool = false;

/// Whether calls can be traced on this processor.
#[cfg(target_arch = "x86_64")]
pub(super) const SUPPORTED: bool = true;

/// Does nothing: calls are not traced on this processor.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn perform(_: nix::unistd::Pid, _: &PathRules) {}

#[cfg(target_arch = "x86_64")]
pub(super) use self::x86_64::perform;

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::ffi::OsString;
    use std::fs::File;
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::fs::FileExt;
    use std::path::{Path, PathBuf};

    use nix::errno::Errno;
    use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, open, openat2};
    use nix::libc;
    use nix::sys::ptrace;
    use nix::sys::stat::{FchmodatFlags, Mode, UtimensatFlags, fchmodat, fstat, utimensat};
    use nix::sys::time::TimeSpec;
    use nix::unistd::{Pid, Uid};

    use super::PathRules;

    /// Maximum length of a path.
    const PATH_MAX: usize = 4096;

    /// The change that a system call requests.
    struct MetadataCall {
        directory: i32,
        /// Address of the path; 0 if the descriptor itself is meant.
        path: u64,
        flags: i32,
        change: MetadataChange,
    }

    enum MetadataChange {
        Mode(u64),
        /// Address of two `timespec`, `timeval` or `time_t`, with the length of each part.
        Times(u64, TimeFormat),
    }

    #[derive(Clone, Copy, PartialEq, Eq)]
    enum TimeFormat {
        Timespec,
        Timeval,
        Seconds,
    }

    /// Makes the change that a process asks for, if it may, and sets the result of its system call.
    pub(in crate::sandbox::linux) fn perform(pid: Pid, rules: &PathRules) {
        // It was killed meanwhile.
        let Ok(mut registers) = ptrace::getregs(pid) else {
            return;
        };
        let result = read_call(&registers)
            .ok_or(Errno::ENOSYS)
            .and_then(|call| change(pid, &call, rules));
        // No system call has this number: the kernel makes none, and returns the result that is set here.
        registers.orig_rax = u64::MAX;
        registers.rax = match result {
            Ok(()) => 0,
            Err(e) => (-i64::from(e as i32)).cast_unsigned(),
        };
        if ptrace::setregs(pid, registers).is_err() {
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        }
    }

    fn read_call(registers: &libc::user_regs_struct) -> Option<MetadataCall> {
        let (a, b, c, d) = (registers.rdi, registers.rsi, registers.rdx, registers.r10);
        // Descriptors and flags are ints: the upper half means nothing.
        let int = |value: u64| i32::from_ne_bytes((value as u32).to_ne_bytes());
        let call = |directory, path, flags, change| {
            Some(MetadataCall {
                directory,
                path,
                flags,
                change,
            })
        };
        let here = libc::AT_FDCWD;
        let times = MetadataChange::Times;
        match i64::try_from(registers.orig_rax).ok()? {
            libc::SYS_chmod => call(here, a, 0, MetadataChange::Mode(b)),
            libc::SYS_fchmod => call(int(a), 0, 0, MetadataChange::Mode(b)),
            libc::SYS_fchmodat => call(int(a), b, 0, MetadataChange::Mode(c)),
            libc::SYS_fchmodat2 => call(int(a), b, int(d), MetadataChange::Mode(c)),
            libc::SYS_utimensat => call(int(a), b, int(d), times(c, TimeFormat::Timespec)),
            libc::SYS_futimesat => call(int(a), b, 0, times(c, TimeFormat::Timeval)),
            libc::SYS_utimes => call(here, a, 0, times(b, TimeFormat::Timeval)),
            libc::SYS_utime => call(here, a, 0, times(b, TimeFormat::Seconds)),
            _ => None,
        }
    }

    fn change(pid: Pid, call: &MetadataCall, rules: &PathRules) -> Result<(), Errno> {
        let file = open_target(pid, call)?;
        // The name of the open file, whatever the path says by now. A deleted file has no name that is allowed.
        let own = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let place = std::fs::read_link(&own).map_err(|_| Errno::EPERM)?;
        if !rules.may_write(&place) || rules.is_device(&place) {
            return Err(Errno::EPERM);
        }
        // The command has no capabilities, which this process may have.
        let owner = fstat(&file)?.st_uid;
        if Uid::effective().is_root() && owner != Uid::effective().as_raw() {
            return Err(Errno::EPERM);
        }
        match call.change {
            MetadataChange::Mode(mode) => {
                let mode = Mode::from_bits_truncate((mode & 0o1777) as libc::mode_t);
                fchmodat(AT_FDCWD, &own, mode, FchmodatFlags::FollowSymlink)
            }
            MetadataChange::Times(address, format) => {
                let (accessed, modified) = read_times(pid, address, format)?;
                let follow = UtimensatFlags::FollowSymlink;
                utimensat(AT_FDCWD, &own, &accessed, &modified, follow)
            }
        }
    }

    /// Opens the file that the command means, without access to its content.
    fn open_target(pid: Pid, call: &MetadataCall) -> Result<OwnedFd, Errno> {
        let proc = |name: &str| PathBuf::from(format!("/proc/{pid}/{name}"));
        let link = match call.directory {
            libc::AT_FDCWD => proc("cwd"),
            number => proc(&format!("fd/{number}")),
        };
        let base = || {
            open(&link, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()).map_err(|e| match e {
                Errno::ENOENT => Errno::EBADF,
                e => e,
            })
        };
        let path = match call.path {
            0 => PathBuf::new(),
            address => read_path(pid, address)?,
        };
        if path.as_os_str().is_empty() {
            let is_descriptor = call.path == 0 || call.flags & libc::AT_EMPTY_PATH != 0;
            return match is_descriptor {
                true => base(),
                false => Err(Errno::ENOENT),
            };
        }
        if let Some(target) = own_descriptor(pid, &path) {
            return open(&target, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty());
        }
        let mut flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
        if call.flags & libc::AT_SYMLINK_NOFOLLOW != 0 {
            flags |= OFlag::O_NOFOLLOW;
        }
        // Links of /proc lead to files that this process has open.
        let how = OpenHow::new()
            .flags(flags)
            .resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS);
        match path.is_absolute() {
            true => openat2(AT_FDCWD, &path, how),
            false => openat2(base()?, &path, how),
        }
    }

    /// Translates `/proc/self/fd/N`, by which glibc changes the mode of a descriptor, and the names of `/dev` that lead there.
    fn own_descriptor(pid: Pid, path: &Path) -> Option<PathBuf> {
        let standard = ["/dev/stdin", "/dev/stdout", "/dev/stderr"];
        let number = match standard.iter().position(|name| path == Path::new(name)) {
            Some(number) => number,
            None => ["/proc/self/fd", "/proc/thread-self/fd", "/dev/fd"]
                .iter()
                .find_map(|dir| path.strip_prefix(dir).ok()?.to_str()?.parse().ok())?,
        };
        Some(PathBuf::from(format!("/proc/{pid}/fd/{number}")))
    }

    fn memory(pid: Pid) -> Result<File, Errno> {
        File::open(format!("/proc/{pid}/mem")).map_err(|_| Errno::EFAULT)
    }

    fn read_path(pid: Pid, address: u64) -> Result<PathBuf, Errno> {
        let memory = memory(pid)?;
        let mut path = Vec::new();
        let mut buffer = [0; 256];
        while path.len() < PATH_MAX {
            let at = address.wrapping_add(path.len() as u64);
            // Not past the page, of which the next may not exist.
            let left = 4096 - usize::try_from(at % 4096).unwrap_or_default();
            let part = buffer.get_mut(..left.min(256)).unwrap_or_default();
            let count = memory.read_at(part, at).map_err(|_| Errno::EFAULT)?;
            let part = part.get(..count).unwrap_or_default();
            if let Some(end) = part.iter().position(|byte| *byte == 0) {
                path.extend(part.iter().take(end));
                return Ok(PathBuf::from(OsString::from_vec(path)));
            }
            if count == 0 {
                return Err(Errno::EFAULT);
            }
            path.extend(part);
        }
        Err(Errno::ENAMETOOLONG)
    }

    fn read_times(
        pid: Pid,
        address: u64,
        format: TimeFormat,
    ) -> Result<(TimeSpec, TimeSpec), Errno> {
        if address == 0 {
            return Ok((TimeSpec::UTIME_NOW, TimeSpec::UTIME_NOW));
        }
        let mut bytes = [0; 32];
        let length = if format == TimeFormat::Seconds {
            16
        } else {
            32
        };
        let part = bytes.get_mut(..length).ok_or(Errno::EFAULT)?;
        memory(pid)?
            .read_exact_at(part, address)
            .map_err(|_| Errno::EFAULT)?;
        let numbers: Vec<i64> = part
            .chunks_exact(8)
            .map(|word| word.try_into().map(i64::from_ne_bytes).unwrap_or_default())
            .collect();
        let micro = |value: i64| match value {
            0..1_000_000 => Ok(value * 1000),
            _ => Err(Errno::EINVAL),
        };
        match (format, numbers.as_slice()) {
            (TimeFormat::Timespec, [a, b, c, d]) => {
                Ok((TimeSpec::new(*a, *b), TimeSpec::new(*c, *d)))
            }
            (TimeFormat::Timeval, [a, b, c, d]) => {
                Ok((TimeSpec::new(*a, micro(*b)?), TimeSpec::new(*c, micro(*d)?)))
            }
            (TimeFormat::Seconds, [a, b]) => Ok((TimeSpec::new(*a, 0), TimeSpec::new(*b, 0))),
            _ => Err(Errno::EFAULT),
        }
    }
}
