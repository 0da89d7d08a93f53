//! Descriptors that the command must not inherit.

use std::fs;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::unistd::close;

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
///
/// # Errors
/// One of them is a directory.
pub(super) fn refuse_directories() -> Result<()> {
    for (number, name) in ["stdin", "stdout", "stderr"].into_iter().enumerate() {
        if fs::metadata(format!("/proc/self/fd/{number}")).is_ok_and(|meta| meta.is_dir()) {
            return Err(Error::usage(format!("{name} is a directory"))
                .hint("the sandbox takes files, pipes and terminals"));
        }
    }
    Ok(())
}

/// Lets the next program inherit a descriptor.
///
/// # Errors
/// The kernel refuses it.
pub(super) fn inherit(descriptor: impl std::os::fd::AsFd) -> Result<()> {
    fcntl(&descriptor, FcntlArg::F_SETFD(FdFlag::empty()))
        .context(|| "cannot pass a descriptor on".into())
        .map(|_| ())
}
