//! Free space on the disk.

use std::path::Path;

use crate::error::{Error, ErrorContext as _, Result};

/// Space that a download leaves free.
const MARGIN: u64 = 256 << 20;

/// Checks that a file system has space for `needed` more bytes.
///
/// # Errors
/// It has not; the message says how much is free and needed.
pub fn check_free_space(dir: &Path, needed: u64) -> Result<()> {
    let found = nix::sys::statvfs::statvfs(dir)
        .context(|| format!("cannot read the free space of {}", dir.display()))?;
    #[allow(
        clippy::unnecessary_cast,
        reason = "the types of the fields differ between systems"
    )]
    let free = (found.blocks_available() as u64).saturating_mul(found.fragment_size() as u64);
    check(free, needed).map_err(|reason| {
        Error::runtime(format!("{}: {reason}", dir.display()))
            .hint("free some space, then run the same command again; what was downloaded is kept")
    })
}

/// Checks `free` bytes against `needed` bytes and the margin.
fn check(free: u64, needed: u64) -> std::result::Result<(), String> {
    let wanted = needed.saturating_add(MARGIN);
    if free >= wanted {
        return Ok(());
    }
    Err(format!(
        "not enough space on the disk: {} are free, {} are needed",
        size(free),
        size(wanted)
    ))
}

/// Formats a number of bytes: `98 MB`, `1.8 GB`.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        1_000_000..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => {
            let tenths = (bytes / 10_000_000).saturating_add(5) / 10;
            format!("{}.{} GB", tenths / 10, tenths % 10)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MARGIN, check, size};

    #[test]
    fn a_full_disk_is_reported_in_numbers() {
        assert_eq!(check(MARGIN + 1000, 1000), Ok(()));
        let reason = check(MARGIN + 1_500_000_000, 2_497_280_256).expect_err("no space");
        assert_eq!(
            reason,
            "not enough space on the disk: 1.8 GB are free, 2.8 GB are needed"
        );
        assert!(check(u64::MAX - 1, u64::MAX).is_err());
    }

    #[test]
    fn sizes_are_short() {
        let sizes = [0, 999, 98_000, 639_446_688, 1_834_426_016].map(size);
        assert_eq!(sizes, ["0 B", "999 B", "98 kB", "639 MB", "1.8 GB"]);
    }
}
