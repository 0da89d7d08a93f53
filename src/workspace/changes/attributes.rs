//! Owner, mode and extended attributes of a new version.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use nix::sys::stat::{Mode, fchmod, fstat};
use nix::unistd::{Gid, Uid, fchown};
use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fsetxattr};

/// Maximum size of the names and of each value of extended attributes, as in Linux.
const ATTRIBUTE_BYTES: usize = 64 << 10;

/// Gives `new` the owner, the extended attributes (with the access control list) and the mode of `old`.
///
/// # Errors
/// The process may not set one of them: then the file has to be written in place.
pub(super) fn copy(old: &File, owner: (u32, u32), mode: u32, new: &File) -> io::Result<()> {
    let found = fstat(new)?;
    if (found.st_uid, found.st_gid) != owner {
        let (uid, gid) = (Uid::from_raw(owner.0), Gid::from_raw(owner.1));
        fchown(new, Some(uid), Some(gid))?;
    }
    copy_extended(old, new)?;
    // After the owner, because a change of owner clears setuid.
    set_mode(new, mode)
}

/// Sets the permission bits.
pub(super) fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    // The type of the bits differs between systems.
    #[allow(clippy::useless_conversion, reason = "it is u16 on macOS")]
    let bits = mode.try_into().unwrap_or_default();
    Ok(fchmod(file.as_fd(), Mode::from_bits_truncate(bits))?)
}

fn copy_extended(old: &File, new: &File) -> io::Result<()> {
    let mut names = vec![0; ATTRIBUTE_BYTES];
    let length = match flistxattr(old, &mut names) {
        Ok(length) => length,
        // A file system without extended attributes.
        Err(rustix::io::Errno::NOTSUP) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    names.truncate(length);
    let mut value = vec![0; ATTRIBUTE_BYTES];
    let mut own = vec![0; ATTRIBUTE_BYTES];
    for name in names
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
    {
        let length = fgetxattr(old, name, &mut value)?;
        let bytes = value.get(..length).unwrap_or_default();
        // Most processes may not set the security label, which the kernel has usually set by the same rule.
        let is_same =
            fgetxattr(new, name, &mut own).is_ok_and(|length| own.get(..length) == Some(bytes));
        if !is_same {
            fsetxattr(new, name, bytes, XattrFlags::empty())?;
        }
    }
    Ok(())
}
