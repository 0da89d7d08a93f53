//! Descriptors that the command must not inherit.

use std::fs::{self, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::socket::{SockType, SockaddrStorage, getpeername, getsockopt, sockopt};
use nix::unistd::{Uid, close, dup2_stderr, dup2_stdin, dup2_stdout};

use crate::error::{Error, ErrorContext, Result};

/// Closes every descriptor but stdin, stdout, stderr and `keep`. Must run before this process opens anything.
///
/// # Errors
/// The descriptors cannot be listed.
pub(super) fn close_inherited(keep: Option<i32>) -> Result<()> {
    let entries = fs::read_dir("/proc/self/fd").context(|| "cannot list open files".into())?;
    let numbers: Vec<i32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    for number in numbers {
        if number > 2 && Some(number) != keep {
            // The directory that was just read is closed already.
            let _ = close(number);
        }
    }
    Ok(())
}

/// Refuses a directory as stdin, stdout or stderr: through it, the command would reach files without the restrictions of the mounts.
/// Also refuses a socket without a fixed peer: through it, the command would reach other programs.
///
/// # Errors
/// One of them is a directory or such a socket.
pub(super) fn refuse_unsafe() -> Result<()> {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let standard = [
        (stdin.as_fd(), "stdin"),
        (stdout.as_fd(), "stdout"),
        (stderr.as_fd(), "stderr"),
    ];
    for (number, (descriptor, name)) in standard.into_iter().enumerate() {
        let refused = |what: &str| {
            Err(Error::usage(format!("{name} is {what}"))
                .hint("the sandbox accepts files, pipes, terminals and connected stream sockets"))
        };
        let kind = fs::metadata(format!("/proc/self/fd/{number}")).map(|meta| meta.file_type());
        if kind.as_ref().is_ok_and(fs::FileType::is_dir) {
            return refused("a directory");
        }
        if !kind.is_ok_and(|kind| kind.is_socket()) {
            continue;
        }
        let keeps_peer = matches!(
            getsockopt(&descriptor, sockopt::SockType),
            Ok(SockType::Stream | SockType::SeqPacket)
        );
        let peer = getpeername::<SockaddrStorage>(descriptor.as_raw_fd());
        if !keeps_peer || peer == Err(Errno::ENOTCONN) {
            return refused("an unconnected socket, or a datagram socket");
        }
    }
    Ok(())
}

/// Reopens a file through the mounts of this process, if stdin, stdout or stderr reads it: its mode, owner and times could be
/// changed through a descriptor of the mounts outside, where nothing is read-only. A file that is open for writing can be changed
/// anyway.
///
/// # Errors
/// A file of this user cannot be opened.
pub(super) fn reopen_standard() -> Result<()> {
    for number in 0..=2 {
        let own = format!("/proc/self/fd/{number}");
        let Ok(before) = fs::metadata(&own) else {
            continue;
        };
        // A file without a name is nobody else's.
        let counts = before.is_file() && before.nlink() > 0;
        let Some(open) = open_state(number).filter(|open| counts && open.is_read_only()) else {
            continue;
        };
        let reopened = fs::read_link(&own)
            .and_then(|path| {
                let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
                let mut options = OpenOptions::new();
                options.read(true).custom_flags(flags.bits()).open(path)
            })
            .and_then(|mut file| {
                let now = file.metadata()?;
                if (now.dev(), now.ino()) != (before.dev(), before.ino()) {
                    return Err(io::ErrorKind::NotFound.into());
                }
                file.seek(SeekFrom::Start(open.position))?;
                match number {
                    0 => dup2_stdin(&file)?,
                    1 => dup2_stdout(&file)?,
                    _ => dup2_stderr(&file)?,
                }
                Ok(())
            });
        // Only its owner can change these.
        if before.uid() == Uid::effective().as_raw() {
            let name = ["stdin", "stdout", "stderr"]
                .get(usize::from(number))
                .unwrap_or(&"a file");
            reopened.map_err(|e| {
                Error::usage(format!("cannot open {name} again: {e}"))
                    .hint("give the file by its name or through a pipe")
            })?;
        }
    }
    Ok(())
}

/// How a descriptor is open.
pub(super) struct OpenState {
    flags: OFlag,
    position: u64,
}

impl OpenState {
    /// Returns the access mode; `None` if the descriptor gives no access to the content.
    pub(super) fn access_mode(&self) -> Option<OFlag> {
        let is_path = self.flags.contains(OFlag::O_PATH);
        (!is_path).then_some(self.flags & OFlag::O_ACCMODE)
    }

    fn is_read_only(&self) -> bool {
        self.access_mode() == Some(OFlag::O_RDONLY)
    }
}

/// Returns how a descriptor of this process is open.
pub(super) fn open_state(number: u8) -> Option<OpenState> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
    let value = |name: &str| {
        Some(
            info.lines()
                .find_map(|line| line.strip_prefix(name))?
                .trim(),
        )
    };
    let flags = i32::from_str_radix(value("flags:")?, 8).ok()?;
    Some(OpenState {
        flags: OFlag::from_bits_truncate(flags),
        position: value("pos:")?.parse().ok()?,
    })
}

/// Lets the next program inherit a descriptor.
///
/// # Errors
/// The kernel refuses it.
pub(super) fn inherit(descriptor: impl std::os::fd::AsFd) -> Result<()> {
    fcntl(&descriptor, FcntlArg::F_SETFD(FdFlag::empty()))
        .context(|| "cannot pass on a file descriptor".into())
        .map(|_| ())
}
