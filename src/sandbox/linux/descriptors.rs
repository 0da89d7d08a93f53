//! Descriptors that the command must not inherit.

use std::fs;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::unistd::close;

use crate::error::{ErrorContext, Result};

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

/// Lets the next program inherit a descriptor.
///
/// # Errors
/// The kernel refuses it.
pub(super) fn inherit(descriptor: impl std::os::fd::AsFd) -> Result<()> {
    fcntl(&descriptor, FcntlArg::F_SETFD(FdFlag::empty()))
        .context(|| "cannot pass a descriptor on".into())
        .map(|_| ())
}
