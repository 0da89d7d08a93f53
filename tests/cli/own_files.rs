//! Files and directories that another user could have prepared.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use crate::support::helper::Helper;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn directory_that_others_can_write_to_is_refused() {
    let helper = Helper::saying("ok");
    set_mode(&helper.path(""), 0o777);
    let error = helper.call(["ask", "--shell", "s1", "x"]).run().fails(1);
    assert!(error.contains("may be written by other users"), "{error}");
    assert!(error.contains("chmod go-w"), "{error}");
    assert!(helper.listener().is_none());
    set_mode(&helper.path(""), 0o755);
    helper.ask("x");
}

#[test]
fn prepared_files_are_made_private_and_symlinks_are_not_written_through() {
    let helper = Helper::saying("ok");
    helper.config("[mcp.auto_approve]\n\"fs.read\" = true\n");
    let journal = helper.path("data/journal");
    fs::create_dir_all(&journal).unwrap();
    set_mode(&helper.path("data"), 0o777);
    let (shells, audit) = (journal.join("shells.jsonl"), journal.join("audit.jsonl"));
    fs::write(&shells, "").unwrap();
    set_mode(&shells, 0o666);
    let outside = helper.home.path("outside");
    fs::write(&outside, "mine\n").unwrap();
    symlink(&outside, &audit).unwrap();
    helper.ask("x");
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    assert_eq!([mode(&helper.path("data")), mode(&shells)], [0o700, 0o600]);
    helper.until("the refusal is in the log", || {
        let log = helper.home.read("aish/state/daemon.log");
        log.contains("audit.jsonl") && log.contains("is a symbolic link")
    });
    assert_eq!(fs::read_to_string(&outside).unwrap(), "mine\n");
}
