mod git_tests;
mod reading_tests;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

use super::*;

/// A workspace with a file, and a directory outside of it with a secret.
struct Fixture {
    _dir: tempfile::TempDir,
    inside: PathBuf,
    outside: PathBuf,
    workspace: Workspace,
}

fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let base = fs::canonicalize(dir.path()).unwrap();
    let (inside, outside) = (base.join("in"), base.join("out"));
    fs::create_dir_all(inside.join("sub/deep")).unwrap();
    fs::create_dir_all(&outside).unwrap();
    fs::write(inside.join("a.txt"), "inside").unwrap();
    fs::write(inside.join("sub/b.txt"), "inside").unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    fs::write(outside.join("b.txt"), "secret").unwrap();
    Fixture {
        _dir: dir,
        workspace: Workspace::new(&inside, Some(&base), &[]).unwrap(),
        inside,
        outside,
    }
}

/// Environment for programs.
fn variables() -> Vec<(OsString, OsString)> {
    vec![
        ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
        ("HOME".into(), "/nonexistent".into()),
    ]
}

/// Writes an executable shell script.
fn program(path: &Path, script: &str) {
    use std::os::unix::fs::PermissionsExt;

    let writing = path.with_extension("new");
    fs::write(&writing, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&writing, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&writing, path).unwrap();
}

fn content(path: &ResolvedPath) -> PathResult<String> {
    let mut text = String::new();
    path.open_file(OFlag::O_RDONLY)?
        .read_to_string(&mut text)
        .unwrap();
    Ok(text)
}

fn fault<T>(result: PathResult<T>) -> PathFault {
    let error = result.err().unwrap();
    assert!(!error.message.contains('\n'), "{error}");
    error.fault
}

/// Both ways of opening.
fn both(workspace: &Workspace) -> [Workspace; 2] {
    [workspace.clone(), workspace.clone().without_openat2()]
}

#[test]
fn paths_that_lead_outside_are_resolved_to_where_they_lead() {
    let f = fixture();
    symlink(&f.outside, f.inside.join("dirlink")).unwrap();
    symlink("../out/secret", f.inside.join("filelink")).unwrap();
    symlink("dirlink", f.inside.join("twice")).unwrap();
    symlink(f.outside.join("new"), f.inside.join("dangling")).unwrap();
    symlink("/", f.inside.join("top")).unwrap();
    symlink("../..", f.inside.join("sub/up")).unwrap();
    let secret = f.outside.join("secret");
    let absolute = secret.to_str().unwrap();
    let below = absolute.trim_start_matches('/');
    for path in [
        absolute,
        &format!("/{absolute}"),
        &format!("///{absolute}"),
        &format!("/./{absolute}"),
        &format!("/proc/../{absolute}"),
        "../out/secret",
        "./../out/secret",
        "sub/../../out/secret",
        "sub/deep/../../../out/./secret",
        "..//out///secret",
        "dirlink/secret",
        "./dirlink/./secret",
        "sub/../dirlink/secret",
        "filelink",
        "twice/secret",
        "twice/../out/secret",
        "dirlink/../out/secret",
        "sub/up/out/secret",
        &format!("top/{below}"),
        &format!("top/../{below}"),
        "~/out/secret",
        "~//out/secret",
        "~/in/../out/secret",
        "~/in/filelink",
    ] {
        for workspace in both(&f.workspace) {
            let found = workspace.resolve(path).unwrap();
            assert_eq!(found.absolute, secret, "{path}");
            assert_eq!(found.workspace, None, "{path}");
            assert_eq!(content(&found).unwrap(), "secret", "{path}");
        }
    }
    let new = f.workspace.resolve("dangling").unwrap();
    assert_eq!((new.absolute, new.workspace), (f.outside.join("new"), None));
    let new = f.workspace.resolve("dirlink/x/y").unwrap();
    assert_eq!(new.absolute, f.outside.join("x/y"));
    // A path behind which the kernel expects a directory.
    symlink("a.txt/", f.inside.join("slash")).unwrap();
    symlink("a.txt/.", f.inside.join("dot")).unwrap();
    for path in ["a.txt/", "a.txt/.", "a.txt/./", "a.txt/..", "slash", "dot"] {
        assert!(fs::metadata(f.inside.join(path)).is_err(), "{path}");
        assert_eq!(
            fault(f.workspace.resolve(path)),
            PathFault::WrongKind,
            "{path}"
        );
    }
    assert!(f.workspace.resolve("sub/.").is_ok());
    // The same shapes that stay inside.
    for path in [
        "a.txt",
        "./sub/../a.txt",
        "sub//..//a.txt",
        "~/in/a.txt",
        "sub/up/in/a.txt",
    ] {
        for workspace in both(&f.workspace) {
            let found = workspace.resolve(path).unwrap();
            assert_eq!(found.workspace.as_deref(), Some(f.inside.as_path()));
            assert_eq!(content(&found).unwrap(), "inside");
        }
    }
}

#[test]
fn links_that_appear_after_the_decision_are_refused() {
    let f = fixture();
    for workspace in both(&f.workspace) {
        let _ = fs::remove_dir_all(f.inside.join("d"));
        fs::create_dir_all(f.inside.join("d/e")).unwrap();
        for file in ["d/secret", "d/e/secret"] {
            fs::write(f.inside.join(file), "inside").unwrap();
        }
        let file = workspace.resolve("d/secret").unwrap();
        let deep = workspace.resolve("d/e/secret").unwrap();
        let dir = workspace.resolve("d").unwrap();
        let new = workspace.resolve("d/new").unwrap();
        assert_eq!(content(&deep).unwrap(), "inside");
        fs::remove_file(f.inside.join("d/secret")).unwrap();
        symlink(f.outside.join("secret"), f.inside.join("d/secret")).unwrap();
        assert_eq!(fault(content(&file)), PathFault::Changed);
        assert_eq!(fault(file.status()), PathFault::Changed);
        fs::rename(f.inside.join("d"), f.inside.join("old")).unwrap();
        for target in [
            f.outside.as_path(),
            Path::new("old"),
            Path::new("/proc/self/root"),
        ] {
            symlink(target, f.inside.join("d")).unwrap();
            assert_eq!(fault(content(&file)), PathFault::Changed);
            assert_eq!(fault(content(&deep)), PathFault::Changed);
            assert_eq!(fault(dir.open_dir()), PathFault::Changed);
            assert_eq!(fault(new.open_parent()), PathFault::Changed);
            let create = OFlag::O_WRONLY | OFlag::O_CREAT;
            assert_eq!(fault(new.open_file(create)), PathFault::Changed);
            fs::remove_file(f.inside.join("d")).unwrap();
        }
        assert!(!f.outside.join("new").exists());
        assert_eq!(fault(content(&file)), PathFault::Missing);
        fs::write(f.inside.join("d"), "").unwrap();
        assert_eq!(fault(content(&deep)), PathFault::WrongKind);
        fs::remove_file(f.inside.join("d")).unwrap();
        fs::remove_dir_all(f.inside.join("old")).unwrap();
    }
}

#[test]
fn rename_race_never_leads_outside() {
    let seconds = std::env::var("AISH_RACE_SECONDS");
    let seconds = seconds.map_or(2, |s| s.parse().unwrap());
    let f = fixture();
    let dir = f.inside.join("sub");
    let (kept, link) = (f.inside.join("kept"), f.inside.join("link"));
    symlink(&f.outside, &link).unwrap();
    let paths: Vec<ResolvedPath> = both(&f.workspace)
        .iter()
        .flat_map(|w| {
            [
                w.resolve("sub/b.txt").unwrap(),
                w.resolve("sub/deep/../b.txt").unwrap(),
            ]
        })
        .collect();
    let stop = AtomicBool::new(false);
    let (read, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                fs::rename(&dir, &kept).unwrap();
                fs::rename(&link, &dir).unwrap();
                std::thread::yield_now();
                fs::rename(&dir, &link).unwrap();
                fs::rename(&kept, &dir).unwrap();
                std::thread::yield_now();
            }
        });
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut wrong = Vec::new();
        while Instant::now() < end {
            for path in &paths {
                match content(path) {
                    Ok(text) if text == "inside" => read.fetch_add(1, Ordering::Relaxed),
                    Ok(text) => {
                        wrong.push(format!("escaped: {text}"));
                        0
                    }
                    Err(error) => {
                        if !matches!(error.fault, PathFault::Changed | PathFault::Missing) {
                            wrong.push(error.message);
                        }
                        refused.fetch_add(1, Ordering::Relaxed)
                    }
                };
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(wrong.is_empty(), "{} of them: {}", wrong.len(), wrong[0]);
    });
    // Both sides of the race were met.
    assert!(read.into_inner() > 0);
    assert!(refused.into_inner() > 0);
}

#[test]
fn texts_that_are_not_paths_have_one_clear_line() {
    let f = fixture();
    symlink("loop2", f.inside.join("loop1")).unwrap();
    symlink("loop1", f.inside.join("loop2")).unwrap();
    for (path, message) in [
        ("", "the path is empty"),
        ("a\0b", "NUL byte"),
        (&"x/".repeat(3000), "the limit is 4095"),
        (&"x".repeat(300), "the limit is 255"),
        ("~root/x", "only ~ and ~/ are expanded"),
        ("a.txt/", "is not a directory"),
        ("a.txt/b", "is not a directory"),
        ("a.txt/..", "is not a directory"),
        ("no/../a.txt", "does not exist"),
        ("loop1", "too many symbolic links"),
        ("loop1/x", "too many symbolic links"),
    ] {
        let error = f.workspace.resolve(path).unwrap_err();
        assert!(error.message.contains(message), "{path:?}: {error}");
        assert!(!error.message.contains(['\n', '\0']), "{error}");
        assert!(error.message.len() < 400, "{error}");
    }
    let odd = f.inside.join(OsStr::from_bytes(b"\xff\n\x1b"));
    fs::write(&odd, "inside").unwrap();
    let found = f.workspace.resolve_path(&odd).unwrap();
    assert_eq!(content(&found).unwrap(), "inside");
    assert!(shown_path(&odd).ends_with("in/\\xff\\n\\u{1b}"));
    assert_eq!(fault(f.workspace.top().open_parent()), PathFault::WrongKind);
    assert_eq!(fault(content(&f.workspace.top())), PathFault::WrongKind);
    let new = f.workspace.resolve("new/er/file").unwrap();
    assert_eq!(new.absolute, f.inside.join("new/er/file"));
    assert_eq!(fault(content(&new)), PathFault::Missing);
}

#[cfg(target_os = "linux")]
#[test]
fn links_of_processes_are_not_followed() {
    let f = fixture();
    let secret = f.outside.join("secret");
    let file = fs::File::open(&secret).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&file);
    let pid = std::process::id();
    symlink(format!("/proc/{pid}/root"), f.inside.join("root")).unwrap();
    for path in [
        format!("/proc/self/root{}", secret.display()),
        format!("/proc/{pid}/root{}", secret.display()),
        format!("/proc/self/fd/{number}"),
        format!("/proc/{pid}/fd/{number}"),
        format!("/proc/thread-self/fd/{number}"),
        format!("/dev/fd/{number}"),
        "/dev/stdin".to_owned(),
        "/proc/self/cwd/a.txt".to_owned(),
        "/proc/self/environ".to_owned(),
        format!("/proc/{pid}/environ"),
        format!("/proc/{pid}/mem"),
        format!("root{}", secret.display()),
    ] {
        assert_eq!(
            fault(f.workspace.resolve(&path)),
            PathFault::Special,
            "{path}"
        );
    }
}

#[test]
fn special_files_are_refused_at_once() {
    let f = fixture();
    nix::unistd::mkfifo(&f.inside.join("fifo"), Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(f.inside.join("socket")).unwrap();
    symlink("fifo", f.inside.join("link")).unwrap();
    let start = Instant::now();
    for workspace in both(&f.workspace) {
        for (path, message) in [
            ("fifo", "is a FIFO"),
            ("link", "is a FIFO"),
            ("socket", "is a socket"),
            ("/dev/null", "is a device"),
            ("/dev/zero", "is a device"),
            ("/dev/tty", "is a device"),
            ("sub", "is a directory"),
        ] {
            for flags in [
                OFlag::O_RDONLY,
                OFlag::O_WRONLY,
                OFlag::O_RDWR | OFlag::O_CREAT,
            ] {
                let path = workspace.resolve(path).unwrap();
                let error = path.open_file(flags).unwrap_err();
                assert!(error.message.contains(message), "{error}");
            }
        }
    }
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn root_is_the_repository_of_the_user() {
    let dir = tempfile::tempdir().unwrap();
    let base = fs::canonicalize(dir.path()).unwrap();
    let sub = base.join("home/project/sub");
    fs::create_dir_all(&sub).unwrap();
    fs::create_dir_all(base.join("other")).unwrap();
    let home = base.join("home");
    let top = |cwd: &Path, added: &[PathBuf]| {
        let workspace = Workspace::new(cwd, Some(&home), added).unwrap();
        workspace.roots().map(Path::to_path_buf).collect::<Vec<_>>()
    };
    assert_eq!(top(&sub, &[]), [sub.as_path()]);
    fs::create_dir(home.join(".git")).unwrap();
    // The home directory counts only if the shell is there.
    assert_eq!(top(&sub, &[]), [sub.as_path()]);
    assert_eq!(top(&home, &[]), [home.as_path()]);
    fs::write(home.join("project/.git"), "gitdir: x").unwrap();
    let project = home.join("project");
    assert_eq!(top(&sub, &[]), [project.as_path()]);
    let added = ["../../../other".into(), sub.clone(), base.join("other")];
    assert_eq!(
        top(&sub, &added),
        [project, base.join("other"), sub.clone()]
    );
    let error = Workspace::new(&sub, None, &["no".into()]).unwrap_err();
    assert!(
        error.message.ends_with("sub/no: no such file or directory"),
        "{error}"
    );
    let root = Workspace::new(Path::new("/"), None, &[]).unwrap();
    assert_eq!(root.roots().next(), Some(Path::new("/")));
    assert!(root.resolve("etc/passwd").unwrap().workspace.is_some());
}
