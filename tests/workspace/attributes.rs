//! What an edit of a file must keep: mode, owner, links, attributes, line ends, byte order mark, last newline.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use aish::workspace::changes::{FileSnapshot, PreparedChange, ReplaceMethod, commit};
use aish::workspace::undo::{ConflictChoice, UndoStore};

use super::{Project, assert_tidy};

/// Replaces `old` by `new` in the file `f`, and returns how it was written.
#[track_caller]
fn edited(project: &Project) -> ReplaceMethod {
    let change = project.editing("f", "old", "new").expect("an edit");
    let summary = commit(vec![change], None).expect("a commit");
    assert_tidy(&project.tree());
    summary.files[0].method
}

fn mode(project: &Project, name: &str) -> u32 {
    fs::metadata(project.path(name))
        .expect("metadata")
        .permissions()
        .mode()
        & 0o7777
}

#[test]
fn the_mode_survives() {
    for bits in [
        0o644, 0o755, 0o600, 0o640, 0o777, 0o4755, 0o2755, 0o1644, 0o200,
    ] {
        let project = Project::new();
        project.write("f", "old\n").chmod("f", bits);
        if bits == 0o200 && !nix::unistd::geteuid().is_root() {
            continue;
        }
        edited(&project);
        assert_eq!(mode(&project, "f"), bits, "{bits:o}");
        assert_eq!(project.read("f"), b"new\n");
    }
}

/// Without the right to keep them, writing clears setuid and setgid, as for every user but root.
#[cfg(target_os = "linux")]
#[test]
fn the_mode_survives_where_writing_clears_a_part_of_it() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let run = std::process::Command::new("setpriv")
        .args(["--bounding-set=-fsetid", "--"])
        .arg(std::env::current_exe().expect("a program"))
        .args(["--exact", "workspace::attributes::the_mode_survives"])
        .args(["workspace::attributes::the_mode_of_a_linked_file_survives"])
        .output()
        .expect("setpriv of util-linux");
    let told = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && told.contains("2 passed"), "{run:?}");
}

#[test]
fn the_mode_of_a_linked_file_survives() {
    let project = Project::new();
    project.write("f", "old\n").chmod("f", 0o4755);
    fs::hard_link(project.path("f"), project.path("second")).expect("a link");
    let change = project.editing("f", "old", "new").expect("an edit");
    let summary = commit(vec![change], None).expect("a commit");
    assert_eq!(summary.files[0].method, ReplaceMethod::InPlace);
    assert_eq!(mode(&project, "second"), 0o4755);
    assert_eq!(project.read("second"), b"new\n");
}

#[test]
fn a_new_file_in_a_directory_that_may_not_be_written_is_refused_early() {
    const AGAIN: &str = "AISH_TEST_WITHOUT_OVERRIDE";
    if nix::unistd::geteuid().is_root() && std::env::var_os(AGAIN).is_none() {
        // Root may write there.
        let run = std::process::Command::new("setpriv")
            .args(["--bounding-set=-dac_override", "--"])
            .arg(std::env::current_exe().expect("a program"))
            .args(["--exact", "workspace::attributes::a_new_file_in_a_directory_that_may_not_be_written_is_refused_early"])
            .env(AGAIN, "1")
            .output()
            .expect("setpriv of util-linux");
        let told = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && told.contains("1 passed"), "{run:?}");
        return;
    }
    let project = Project::new();
    project.write("locked/old", "").chmod("locked", 0o555);
    for (path, what) in [
        ("locked/new", "its directory"),
        ("locked/a/b/new", "a directory above it"),
    ] {
        let refused = project.writing(path, "text").check_access();
        let message = refused.expect_err("no right to write").message;
        assert!(
            message.contains(&format!("{what} may not be written")),
            "{message}"
        );
    }
    assert!(project.writing("a/b/new", "text").check_access().is_ok());
    project.chmod("locked", 0o755);
}

#[test]
fn a_new_file_has_the_mode_of_the_umask() {
    let project = Project::new();
    project.write("reference", "");
    commit(vec![project.writing("f", "text")], None).expect("a commit");
    assert_eq!(mode(&project, "f"), mode(&project, "reference"));
}

#[test]
fn owner_and_group_survive() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    for (uid, gid) in [(1234, 0), (0, 4321), (1234, 4321)] {
        let project = Project::new();
        project.write("f", "old\n");
        std::os::unix::fs::chown(project.path("f"), Some(uid), Some(gid)).expect("root may");
        project.chmod("f", 0o4750);
        edited(&project);
        let found = fs::metadata(project.path("f")).expect("metadata");
        assert_eq!((found.uid(), found.gid()), (uid, gid));
        assert_eq!(mode(&project, "f"), 0o4750);
    }
}

#[test]
fn extended_attributes_survive() {
    let project = Project::new();
    project.write("f", "old\n");
    let path = project.path("f");
    let flags = rustix::fs::XattrFlags::empty();
    if rustix::fs::setxattr(&path, "user.note", b"kept", flags).is_err() {
        eprintln!("skipped: no extended attributes here");
        return;
    }
    assert_eq!(edited(&project), ReplaceMethod::Rename);
    let mut value = [0; 16];
    let length = rustix::fs::getxattr(&path, "user.note", &mut value).expect("the attribute");
    assert_eq!(&value[..length], b"kept");
}

/// An access control list for the owner, user 1234, the group, the mask and all others.
fn access_list(named: u16, group: u16, mask: u16) -> Vec<u8> {
    let mut list = vec![2, 0, 0, 0];
    for (tag, rights, id) in [
        (0x01_u16, 6, u32::MAX),
        (0x02, named, 1234),
        (0x04, group, u32::MAX),
        (0x10, mask, u32::MAX),
        (0x20, 0, u32::MAX),
    ] {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

const ACCESS_LIST: &str = "system.posix_acl_access";

fn attribute(project: &Project, file: &str, name: &str) -> Option<Vec<u8>> {
    let mut value = [0; 256];
    let length = rustix::fs::getxattr(project.path(file), name, &mut value).ok()?;
    Some(value[..length].to_vec())
}

#[test]
fn a_moved_file_and_one_that_is_back_have_their_attributes() {
    let project = Project::new();
    let flags = rustix::fs::XattrFlags::empty();
    let set = |file: &str, name: &str, value: &[u8]| {
        rustix::fs::setxattr(project.path(file), name, value, flags).is_ok()
    };
    let list = access_list(6, 0, 6);
    project
        .write("f", "text")
        .write("plain", "text")
        .chmod("plain", 0o640);
    if !set("f", "user.note", b"kept") || !set("f", ACCESS_LIST, &list) {
        eprintln!("skipped: no extended attributes here");
        return;
    }
    if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(project.path("f"), Some(1234), Some(4321)).expect("root may");
    }
    let owner = |file: &str| {
        let found = fs::metadata(project.path(file)).expect("metadata");
        (found.uid(), found.gid(), found.mode())
    };
    let before = owner("f");
    assert_eq!(
        before.2 & 0o777,
        0o660,
        "the mask is in the place of the group"
    );
    // A list that new files inherit widens no file that had none.
    fs::create_dir(project.path("dir")).expect("a directory");
    assert!(set(
        "dir",
        "system.posix_acl_default",
        &access_list(7, 7, 7)
    ));

    let source = project.snapshot("f").expect("a file");
    let move_to = |name: &str, source: &FileSnapshot| {
        let attributes = Some(source.attributes().clone());
        let target = project.resolve(name);
        PreparedChange::with_attributes(target, None, source.bytes.clone(), attributes)
            .expect("a change")
    };
    let plain = project.snapshot("plain").expect("a file");
    let changes = vec![
        project.removing("f"),
        project.removing("plain"),
        move_to("dir/f", &source),
        move_to("dir/plain", &plain),
    ];
    let data = tempfile::TempDir::new().expect("a directory");
    let store = UndoStore::new(data.path().join("undo"));
    let mut keeper = store.turn("s", "1").expect("a turn");
    commit(changes, Some(&mut keeper)).expect("a commit");
    assert_eq!(owner("dir/f"), before);
    assert_eq!(
        attribute(&project, "dir/f", "user.note").as_deref(),
        Some(&b"kept"[..])
    );
    assert_eq!(
        attribute(&project, "dir/f", ACCESS_LIST),
        Some(list.clone())
    );
    assert_eq!(attribute(&project, "dir/plain", ACCESS_LIST), None);
    assert_eq!(mode(&project, "dir/plain"), 0o640);

    let choice = ConflictChoice::Refuse;
    let report = store.undo("s", "1", &project.resolver(), choice);
    assert!(report.expect("an undo").is_done);
    assert_eq!(owner("f"), before);
    assert_eq!(
        attribute(&project, "f", "user.note").as_deref(),
        Some(&b"kept"[..])
    );
    assert_eq!(attribute(&project, "f", ACCESS_LIST), Some(list));
}

#[test]
fn a_symbolic_link_stays_and_its_target_is_written() {
    let project = Project::new();
    project.write("dir/target", "old\n");
    symlink("dir/target", project.path("f")).expect("a link");
    edited(&project);
    assert_eq!(
        fs::read_link(project.path("f")).expect("a link").to_str(),
        Some("dir/target")
    );
    assert_eq!(project.read("dir/target"), b"new\n");
}

#[test]
fn a_link_in_the_path_stays() {
    let project = Project::new();
    project.write("real/f", "old\n");
    symlink("real", project.path("link")).expect("a link");
    let change = project.editing("link/f", "old", "new").expect("an edit");
    commit(vec![change], None).expect("a commit");
    assert!(project.path("link").is_symlink());
    assert_eq!(project.read("real/f"), b"new\n");
}

#[test]
fn hard_links_stay_together() {
    for new in [
        "new",
        "much longer than before, so that the file grows",
        "n",
    ] {
        let project = Project::new();
        project.write("f", "old\n").chmod("f", 0o640);
        fs::hard_link(project.path("f"), project.path("second")).expect("a link");
        let change = project.editing("f", "old", new).expect("an edit");
        let summary = commit(vec![change], None).expect("a commit");
        assert_eq!(summary.files[0].method, ReplaceMethod::InPlace);
        assert_eq!(project.read("second"), format!("{new}\n").as_bytes());
        assert_eq!(
            fs::metadata(project.path("f")).expect("metadata").nlink(),
            2
        );
        assert_eq!(mode(&project, "f"), 0o640);
        assert_tidy(&project.tree());
    }
}

#[test]
fn line_ends_mark_and_last_newline_survive() {
    let utf16 =
        |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    let cases: Vec<(Vec<u8>, Vec<u8>)> = [
        ("a\nold\n", "a\nnew\n"),
        ("a\r\nold\r\n", "a\r\nnew\r\n"),
        ("a\rold\r", "a\rnew\r"),
        ("a\r\nold\nb\rc\n", "a\r\nnew\nb\rc\n"),
        ("old", "new"),
        ("a\r\nold", "a\r\nnew"),
        ("old\n\n\n", "new\n\n\n"),
        ("\u{FEFF}old\n", "\u{FEFF}new\n"),
        ("\u{FEFF}a\r\nold", "\u{FEFF}a\r\nnew"),
        ("a  \n\told\t\n", "a  \n\tnew\t\n"),
    ]
    .iter()
    .map(|(old, new)| (old.as_bytes().to_vec(), new.as_bytes().to_vec()))
    .chain([
        (utf16("\u{FEFF}ä\r\nold"), utf16("\u{FEFF}ä\r\nnew")),
        (b"caf\xE9 old\r\n".to_vec(), b"caf\xE9 new\r\n".to_vec()),
    ])
    .collect();
    for (old, new) in cases {
        let project = Project::new();
        project.write("f", &old).chmod("f", 0o751);
        edited(&project);
        assert_eq!(
            project.read("f"),
            new,
            "{:?}",
            String::from_utf8_lossy(&old)
        );
        assert_eq!(mode(&project, "f"), 0o751);
    }
}
