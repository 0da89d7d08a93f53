//! Owner, mode and extended attributes of a new version.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use nix::sys::stat::{Mode, fchmod, fstat};
use nix::unistd::{Gid, Uid, fchown};
use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::PERMISSIONS;

/// The extended attribute with the access control list, on Linux.
const ACCESS_LIST: &[u8] = b"system.posix_acl_access";

/// Size of a buffer that is usually enough for the names, or for a value, of extended attributes.
const USUAL_BYTES: usize = 1 << 10;

/// Maximum size of the names and of each value, as in Linux.
const MAX_BYTES: usize = 64 << 10;

/// Bits of a mode that set the user or the group of a program.
const SET_ID: u32 = 0o6000;

/// Owner, mode and extended attributes of a file, with its access control list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileAttributes {
    mode: u32,
    /// User and group; `None` keeps those of the file that is replaced.
    owner: Option<(u32, u32)>,
    /// Names and values; `None` keeps those of the file that is replaced.
    extended: Option<Vec<(Vec<u8>, Vec<u8>)>>,
}

impl FileAttributes {
    /// Creates attributes of which only the permission bits are given.
    pub fn of_mode(mode: u32) -> FileAttributes {
        FileAttributes {
            mode,
            owner: None,
            extended: None,
        }
    }

    /// Returns the permission bits.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// Reads the attributes of an open file.
    pub(super) fn read(file: &File, found: &Metadata) -> io::Result<FileAttributes> {
        Ok(FileAttributes {
            mode: found.mode() & PERMISSIONS,
            owner: Some((found.uid(), found.gid())),
            extended: Some(read_extended(file)?),
        })
    }

    /// Takes missing attributes from the file that is replaced.
    pub(super) fn completed(&self, replaced: &FileAttributes) -> FileAttributes {
        FileAttributes {
            mode: self.mode,
            owner: self.owner.or(replaced.owner),
            extended: self.extended.clone().or(replaced.extended.clone()),
        }
    }

    /// Whether nothing but the mode differs.
    pub(super) fn differs_in_mode_only(&self, other: &FileAttributes) -> bool {
        self.owner == other.owner && self.extended == other.extended
    }

    /// Returns the permission bits for a file without the access control list. With the list, the bits of the group are its
    /// mask, which may allow more than the group itself is allowed.
    pub(super) fn mode_without_list(&self) -> u32 {
        let extended = self.extended.iter().flatten();
        let mut lists = extended.filter(|(name, _)| name == ACCESS_LIST);
        match lists.next() {
            Some((_, list)) => {
                // A list that cannot be read allows the group what it allows all others.
                let group = group_rights(list).unwrap_or(self.mode & 0o7);
                self.mode & !0o070 | self.mode & (group << 3)
            }
            None => self.mode,
        }
    }

    /// Gives a file these attributes; only what differs is set.
    ///
    /// # Errors
    /// The process may not set one of them: then the old file has to be overwritten.
    pub(super) fn apply(&self, file: &File) -> io::Result<()> {
        if let Some(owner) = self.owner {
            set_owner(file, owner)?;
        }
        if let Some(extended) = &self.extended {
            drop_inherited_list(file, extended);
            extended
                .iter()
                .try_for_each(|(name, value)| set_extended(file, name, value))?;
        }
        // After the owner, because a change of owner clears setuid.
        set_mode(file, self.mode)
    }

    /// Gives a file these attributes, as far as the process may set them. What is missing never widens who may use the file.
    ///
    /// # Errors
    /// The mode cannot be set.
    pub(super) fn apply_allowed(&self, file: &File) -> io::Result<()> {
        let mut mode = self.mode;
        if let Some(owner) = self.owner
            && set_owner(file, owner).is_err()
        {
            mode &= !SET_ID;
            if fchown(file, None, Some(Gid::from_raw(owner.1))).is_err() {
                // The bits were meant for another group.
                mode &= !0o070 | (mode & 0o007) << 3;
            }
        }
        if let Some(extended) = &self.extended {
            drop_inherited_list(file, extended);
            for (name, value) in extended {
                if set_extended(file, name, value).is_err() && name == ACCESS_LIST {
                    mode &= self.mode_without_list() | SET_ID;
                }
            }
        }
        set_mode(file, mode)
    }
}

/// Returns the rights of the file's group in an access control list: those that the mask leaves. `None` for another format.
fn group_rights(list: &[u8]) -> Option<u32> {
    const VERSION: [u8; 4] = [2, 0, 0, 0];
    const GROUP: u16 = 0x04;
    const MASK: u16 = 0x10;

    let (entries, []) = list.strip_prefix(&VERSION)?.as_chunks::<8>() else {
        return None;
    };
    let rights = |wanted: u16| {
        let mut found = entries.iter().filter_map(|[tag, tag_high, low, high, ..]| {
            let tag = u16::from_le_bytes([*tag, *tag_high]);
            (tag == wanted).then(|| u32::from(u16::from_le_bytes([*low, *high])) & 0o7)
        });
        found.next()
    };
    Some(rights(GROUP)? & rights(MASK).unwrap_or(0o7))
}

fn set_owner(file: &File, owner: (u32, u32)) -> io::Result<()> {
    let found = fstat(file)?;
    if (found.st_uid, found.st_gid) != owner {
        let (uid, gid) = (Uid::from_raw(owner.0), Gid::from_raw(owner.1));
        fchown(file, Some(uid), Some(gid))?;
    }
    Ok(())
}

/// Sets the permission bits, if they are others: only the owner of a file may set them.
pub(super) fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    if file.metadata()?.mode() & PERMISSIONS == mode {
        return Ok(());
    }
    // The type of the bits differs between systems.
    #[allow(clippy::useless_conversion, reason = "it is u16 on macOS")]
    let bits = mode.try_into().unwrap_or_default();
    Ok(fchmod(file.as_fd(), Mode::from_bits_truncate(bits))?)
}

/// Removes the access control list that a new file has from its directory, if the file is to have none.
fn drop_inherited_list(file: &File, extended: &[(Vec<u8>, Vec<u8>)]) {
    if extended.iter().all(|(name, _)| name != ACCESS_LIST) {
        // Most files have none.
        let _ = fremovexattr(file, ACCESS_LIST);
    }
}

fn set_extended(file: &File, name: &[u8], value: &[u8]) -> io::Result<()> {
    // Most processes may not set the security label, which the kernel has usually set by the same rule.
    if read_value(file, name).is_ok_and(|own| own == value) {
        return Ok(());
    }
    Ok(fsetxattr(file, name, value, XattrFlags::empty())?)
}

fn read_extended(file: &File) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let names = match grown(|buffer| flistxattr(file, buffer)) {
        Ok(names) => names,
        // A file system, or a system, without extended attributes.
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let names = names
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty());
    let read = names.filter_map(|name| match read_value(file, name) {
        Ok(value) => Some((name.to_vec(), value)),
        // Removed meanwhile.
        Err(Errno::NODATA) => None,
        // It cannot be set on another file either, so that the file is changed in its place.
        Err(_) => Some((name.to_vec(), Vec::new())),
    });
    Ok(read.collect())
}

fn read_value(file: &File, name: &[u8]) -> rustix::io::Result<Vec<u8>> {
    grown(|buffer| fgetxattr(file, name, buffer))
}

/// Calls a function with a buffer that is large enough for it.
fn grown(
    mut read: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>,
) -> rustix::io::Result<Vec<u8>> {
    let mut bytes = vec![0; USUAL_BYTES];
    loop {
        match read(&mut bytes) {
            Ok(length) => {
                bytes.truncate(length);
                return Ok(bytes);
            }
            Err(Errno::RANGE) if bytes.len() < MAX_BYTES => bytes.resize(MAX_BYTES, 0),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An access control list as the kernel stores it.
    fn list(entries: &[(u16, u16)]) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0];
        for (tag, rights) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(rights.to_le_bytes());
            bytes.extend(u32::MAX.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn a_mode_without_its_list_allows_the_group_what_the_list_does() {
        let with = |mode: u32, bytes: Vec<u8>| FileAttributes {
            mode,
            owner: None,
            extended: Some(vec![(ACCESS_LIST.to_vec(), bytes)]),
        };
        let named = |group, mask| list(&[(1, 7), (2, 6), (4, group), (0x10, mask), (0x20, 4)]);
        for (mode, bytes, expected) in [
            (0o664, named(4, 6), 0o644),
            (0o660, named(0, 6), 0o600),
            (0o640, named(6, 4), 0o640),
            (0o664, list(&[(1, 6), (4, 6), (0x20, 4)]), 0o664),
            (0o664, b"unknown".to_vec(), 0o644),
            (0o660, Vec::new(), 0o600),
        ] {
            assert_eq!(
                with(mode, bytes.clone()).mode_without_list(),
                expected,
                "{mode:o} {bytes:?}"
            );
        }
        assert_eq!(FileAttributes::of_mode(0o660).mode_without_list(), 0o660);
    }
}
