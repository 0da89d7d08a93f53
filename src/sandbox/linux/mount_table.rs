//! Parses `/proc/self/mountinfo`. Pure.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use nix::mount::MsFlags;

/// A mount: where it is, and the flags that a remount must keep.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MountEntry {
    /// The mount point.
    pub point: PathBuf,
    /// Its flags.
    pub flags: MsFlags,
}

/// Returns the mounts; lines that cannot be parsed are skipped.
pub(super) fn parse(table: &[u8]) -> Vec<MountEntry> {
    table
        .split(|byte| *byte == b'\n')
        .filter_map(parse_line)
        .collect()
}

fn parse_line(line: &[u8]) -> Option<MountEntry> {
    // ID PARENT MAJOR:MINOR ROOT POINT OPTIONS …
    let mut words = line.split(|byte| *byte == b' ').skip(4);
    let point = PathBuf::from(OsString::from_vec(unescape(words.next()?)));
    let options = std::str::from_utf8(words.next()?).ok()?;
    let flags = options.split(',').map(|option| match option {
        "ro" => MsFlags::MS_RDONLY,
        "nosuid" => MsFlags::MS_NOSUID,
        "nodev" => MsFlags::MS_NODEV,
        "noexec" => MsFlags::MS_NOEXEC,
        "noatime" => MsFlags::MS_NOATIME,
        "nodiratime" => MsFlags::MS_NODIRATIME,
        "relatime" => MsFlags::MS_RELATIME,
        _ => MsFlags::empty(),
    });
    let mut flags = flags.fold(MsFlags::empty(), |all, flag| all | flag);
    if !flags.intersects(MsFlags::MS_NOATIME | MsFlags::MS_RELATIME) {
        flags |= MsFlags::MS_STRICTATIME;
    }
    Some(MountEntry { point, flags })
}

/// Returns the flags of the file system that holds `path`.
pub(super) fn flags_at(table: &[MountEntry], path: &Path) -> MsFlags {
    // Of mounts at one point, the last one counts.
    let holding = table.iter().filter(|entry| path.starts_with(&entry.point));
    let nearest = holding.max_by_key(|entry| entry.point.as_os_str().len());
    nearest.map_or(MsFlags::empty(), |entry| entry.flags)
}

/// Decodes `\ooo`, which encodes space, tab, newline and backslash.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((byte, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| *byte == b'\\');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(decoded) => {
                out.push(decoded);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                out.push(*byte);
                rest = after;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_escaped_points_are_read() {
        let table = b"27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
            28 27 0:25 / /a\\040b\\134 ro,nosuid,nodev,noexec shared:1 - tmpfs x rw\ngarbage\n\n";
        assert_eq!(
            parse(table),
            [
                MountEntry {
                    point: "/".into(),
                    flags: MsFlags::MS_RELATIME
                },
                MountEntry {
                    point: "/a b\\".into(),
                    flags: MsFlags::MS_RDONLY
                        | MsFlags::MS_NOSUID
                        | MsFlags::MS_NODEV
                        | MsFlags::MS_NOEXEC
                        | MsFlags::MS_STRICTATIME
                },
            ]
        );
        let table = parse(table);
        assert_eq!(flags_at(&table, Path::new("/a b\\/x")), table[1].flags);
        assert_eq!(flags_at(&table, Path::new("/a")), MsFlags::MS_RELATIME);
    }
}
