//! What an edit of a file must keep: mode, owner, links, attributes, line ends, byte order mark, last newline.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use aish::workspace::changes::{ReplaceMethod, commit};

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
