//! Ways out of the sandbox, each tried without a sandbox first, where that does no harm, to see that it leads out.

use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Command, Stdio};

use nix::pty::openpty;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use nix::unistd::{Pid, Uid, User};

use super::place::{Holder, Place, SANDBOXES, stderr, stdout};

/// Ways that lead out without a sandbox.
const OPEN: &[&str] = &[
    "symlink_read",
    "symlink_write",
    "symlinked_directory",
    "dot_dot",
    "proc_self_root",
    "proc_self_cwd",
    "proc_parent_root",
    "proc_victim_root",
    "proc_victim_environ",
    "proc_victim_cmdline",
    "proc_victim_mem",
    "program_outside",
    "memfd_program",
    "hard_link_in",
    "hard_link_out",
    "rename_out",
    "rename_in",
    "delete_outside",
    "truncate_outside",
    "truncate_by_open",
    "make_directory_outside",
    "unix_socket",
    "abstract_socket",
    "pair_of_datagrams",
    "pair_of_raw",
    "udp",
    "tcp",
    "tcp_server",
    "netlink",
    "trace",
    "read_memory",
    "write_memory",
    "send_signal",
    "send_thread_signal",
    "send_pidfd_signal",
    "steal_descriptor",
    "limit_victim",
    "renice_victim",
    "keep_privileges",
    "shared_memory_file",
    "chmod_outside",
    "chmod_by_descriptor",
    "chmod_through_symlink",
    "chmod_through_proc",
    "chmod_hooks",
    "times_outside",
    "times_by_descriptor",
    "filter_listener",
    "open_without_access",
    "lease_of_readable_file",
    "chown_outside",
    "set_user_id",
    "set_user_id_at_creation",
    "start_up_file",
    "ssh_key",
    "cargo_credentials",
    "shell_history",
    "own_configuration",
    "own_events",
    "toolchain_write",
    "other_project",
    "environment",
    "symlink_race",
    "large_file",
];

/// Ways that depend on the kernel or on root, or that tests must not go. As root of a machine with `/dev/mem`, they lead out.
const GUARDED: &[&str] = &[
    "loader",
    "exchange",
    "packet_socket",
    "vsock",
    "trace_parent",
    "renice_user",
    "idle_class_of_user",
    "io_uring",
    "mount",
    "open_tree",
    "change_root",
    "set_namespace",
    "change_user",
    "kernel_log",
    "kernel_memory",
    "make_device",
    "core_pattern",
    "sysctl",
    "sysrq",
    "cgroup",
    "key_ring",
    "bpf",
    "performance_events",
    "user_faults",
    "open_by_handle",
    "attribute_outside",
    "inode_flags",
    "inode_version",
    "set_user_id_without_a_name",
    "untraced_child",
    "chmod_device",
    "chmod_own_program",
    "shadow_passwords",
    "core_dump",
    "native_unshare",
    "native_unshare_mounts",
    "native_clone",
    "native_clone3",
    "native_i386",
    "native_x32",
];

fn options(name: &str) -> &'static [&'static str] {
    match name {
        "large_file" => &["--max-file=16"],
        _ => &[],
    }
}

/// Runs an escape attempt in a separate place. Returns whether it succeeded, and what it printed.
fn escapes(holder: Holder, name: &str) -> (bool, String) {
    let place = Place::new();
    if name.starts_with("native_") {
        place.compile_native();
    }
    let outside = (place.read("outside/file"), place.mode("outside/file"));
    let output = place.vector(holder, options(name), name).output().unwrap();
    let text = stdout(&output) + &stderr(&output);
    // Python prints why it was held; a filter may also kill it.
    let ran =
        text.contains("ESCAPED") || text.contains("held:") || output.status.code() == Some(159);
    assert!(ran, "{name} did not run: {output:?}");
    let unchanged = outside == (place.read("outside/file"), place.mode("outside/file"));
    (text.contains("ESCAPED") || !unchanged, text)
}

fn check(holder: Holder, names: &[&str]) {
    let out: Vec<_> = names
        .iter()
        .map(|name| (name, escapes(holder, name)))
        .filter(|(_, (escaped, _))| *escaped)
        .collect();
    assert!(out.is_empty(), "{holder:?}: {out:#?}");
}

#[test]
fn ways_out_lead_out_without_a_sandbox() {
    let held: Vec<_> = OPEN
        .iter()
        .map(|name| (name, escapes(Holder::Nothing, name)))
        .filter(|(_, (escaped, _))| !*escaped)
        .collect();
    assert!(held.is_empty(), "{held:#?}");
}

#[test]
fn nothing_gets_out_with_namespaces() {
    check(Holder::Namespaces, OPEN);
    check(Holder::Namespaces, GUARDED);
}

#[test]
fn nothing_gets_out_without_namespaces() {
    check(Holder::NoNamespaces, OPEN);
    check(Holder::NoNamespaces, GUARDED);
}

#[test]
fn terminal_of_the_caller_cannot_be_typed_into_or_taken() {
    for name in [
        "type_into_terminal",
        "type_with_high_bits",
        "take_terminal",
        "line_discipline",
        "resize_terminal",
        "open_own_terminal",
    ] {
        for holder in SANDBOXES {
            let place = Place::new();
            let pty = openpty(None, None).unwrap();
            let mut command = place.vector(holder, &[], name);
            let output = command.stdin(Stdio::from(pty.slave)).output().unwrap();
            let text = stdout(&output);
            assert!(text.contains("held:"), "{holder:?} {name}: {output:?}");
            // Where the terminal was there to be reached: not "no such device" for another reason.
            if name.starts_with("type") {
                assert!(text.contains("Operation not permitted"), "{text}");
            }
        }
    }
}

#[test]
fn inherited_descriptor_is_closed_unless_it_is_named() {
    for holder in SANDBOXES {
        for (option, wrote) in [("--level=workspace", false), ("--keep-fd=9", true)] {
            let place = Place::new();
            let file = place.path("outside/file");
            let command = place.vector(holder, &[option], "inherited_descriptor");
            // The shell opens what Rust would close at exec.
            let mut shell = Command::new("sh");
            shell
                .arg("-c")
                .arg(format!("exec \"$@\" 9>>'{}'", file.display()))
                .arg("sh")
                .arg(command.get_program())
                .args(command.get_args())
                .current_dir(place.path("ws"));
            let output = shell.output().unwrap();
            assert_eq!(stdout(&output).contains("ESCAPED"), wrote, "{output:?}");
            assert_eq!(place.read("outside/file") == "outsidex", wrote);
        }
    }
}

#[test]
fn variables_are_for_the_command_alone() {
    for holder in SANDBOXES {
        let place = Place::new();
        let file = place.path("outside/file");
        let source = format!(
            "#include <stdio.h>\n__attribute__((constructor)) static void out(void) {{ FILE *f = fopen(\"{}\", \"w\"); if (f) fclose(f); puts(\"loaded\"); }}\n",
            file.display()
        );
        fs::write(place.path("ws/out.c"), source).unwrap();
        let library = place.path("ws/out.so");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-o"]).arg(&library);
        assert!(cc.arg(place.path("ws/out.c")).status().unwrap().success());
        let preload = format!("--env=LD_PRELOAD={}", library.display());
        let output = place.run(holder, &[&preload], &["true"]);
        assert_eq!(stdout(&output), "loaded\n", "{output:?}");
        assert_eq!(place.read("outside/file"), "outside");
    }
}

#[test]
fn secrets_of_a_linked_toolchain_stay_hidden() {
    for holder in SANDBOXES {
        let place = Place::new();
        fs::rename(place.path("home/.cargo"), place.path("outside/cargo")).unwrap();
        symlink(place.path("outside/cargo"), place.path("home/.cargo")).unwrap();
        let read = |name: &str| {
            let path = place.path(name);
            place.run(holder, &[], &["cat", path.to_str().unwrap()])
        };
        let output = read("home/.cargo/credentials.toml");
        assert!(!output.status.success(), "{output:?}");
        let output = read("home/.cargo/bin/tool");
        assert_eq!(stdout(&output), "#!/bin/sh\n", "{output:?}");
    }
}

#[test]
fn a_directory_as_standard_input_is_refused() {
    for holder in SANDBOXES {
        let place = Place::new();
        let mut command = place.command(holder, &[], &["true"]);
        command.stdin(fs::File::open(place.path("outside")).unwrap());
        let output = command.output().unwrap();
        assert!(!output.status.success());
        assert!(
            stderr(&output).contains("stdin is a directory"),
            "{output:?}"
        );
    }
}

#[test]
fn a_file_on_standard_input_is_only_read() {
    for holder in [&[Holder::Nothing][..], &SANDBOXES].concat() {
        let place = Place::new();
        let state = |name: &str| {
            let meta = fs::metadata(place.path(name)).unwrap();
            (meta.mode(), meta.mtime())
        };
        place.set_mode("outside/secret", 0o640);
        let before = state("outside/secret");
        let mut file = fs::File::open(place.path("outside/secret")).unwrap();
        file.seek(SeekFrom::Start(2)).unwrap();
        let mut command = place.vector(holder, &[], "change_standard_input");
        let output = command.stdin(file).output().unwrap();
        let unchanged = state("outside/secret") == before;
        assert_eq!(
            unchanged,
            holder != Holder::Nothing,
            "{holder:?} {output:?}"
        );
        // In the workspace, the mode of a file can be changed.
        let mut command = place.command(holder, &[], &["chmod", "600", "/dev/stdin"]);
        place.set_mode("ws/file", 0o644);
        let file = fs::File::open(place.path("ws/file")).unwrap();
        let output = command.stdin(file).output().unwrap();
        assert_eq!(place.mode("ws/file"), 0o600, "{holder:?} {output:?}");
    }
}

#[test]
fn a_file_on_standard_input_without_its_name_is_refused() {
    let place = Place::new();
    let (first, second) = (place.path("ws/first"), place.path("ws/second"));
    fs::write(&first, "text").unwrap();
    fs::hard_link(&first, &second).unwrap();
    let file = fs::File::open(&first).unwrap();
    fs::remove_file(&first).unwrap();
    let mut command = place.command(Holder::Namespaces, &[], &["cat"]);
    let output = command.stdin(file).output().unwrap();
    // Not without namespaces, which the user would not notice.
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    for part in ["cannot open stdin again", "by its name or through a pipe"] {
        assert!(stderr(&output).contains(part), "{output:?}");
    }
}

#[test]
fn a_socket_without_a_peer_as_standard_input_is_refused() {
    let run = |holder, socket: OwnedFd| {
        let place = Place::new();
        let mut command = place.vector(holder, &[], "standard_input_to_others");
        command.stdin(Stdio::from(socket)).output().unwrap()
    };
    let datagram = || OwnedFd::from(UnixDatagram::unbound().unwrap());
    let flags = SockFlag::empty();
    let stream = || socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap();
    for socket in [&datagram as &dyn Fn() -> OwnedFd, &stream] {
        let output = run(Holder::Nothing, socket());
        assert!(stdout(&output).contains("ESCAPED"), "{output:?}");
        for holder in SANDBOXES {
            let output = run(holder, socket());
            assert_eq!(output.status.code(), Some(2), "{output:?}");
            assert!(
                stderr(&output).contains("stdin is an unconnected socket"),
                "{output:?}"
            );
        }
    }
    // A connected one is like a pipe.
    for holder in SANDBOXES {
        let place = Place::new();
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(b"text").unwrap();
        drop(ours);
        let mut command = place.command(holder, &[], &["cat"]);
        let output = command.stdin(OwnedFd::from(theirs)).output().unwrap();
        assert_eq!(stdout(&output), "text", "{output:?}");
    }
}

#[test]
fn secrets_that_are_linked_into_the_workspace_stay_hidden() {
    for holder in SANDBOXES {
        let link = |place: &Place, name: &str, target: &str| {
            let (link, target) = (place.path("home").join(name), place.path("ws").join(target));
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::write(&target, "a secret").unwrap();
            symlink(&target, &link).unwrap();
        };
        let secrets = [
            (".ssh/linked", "ssh/id"),
            (".aws/credentials", "aws/credentials"),
            (".config/gcloud/configurations/default", "gcloud/default"),
            (".netrc", "other/netrc"),
        ];
        let place = Place::new();
        for (name, target) in secrets {
            link(&place, name, target);
            let output = place.run(holder, &[], &["cat", target]);
            assert_eq!(stdout(&output), "", "{target}: {output:?}");
        }
        // A start-up file among dotfiles that are worked on can be read, and new files made beside it.
        let place = Place::new();
        link(&place, ".bashrc", "bashrc");
        link(&place, ".config/fish/conf.d/x.fish", "x.fish");
        let script = "cat bashrc x.fish; echo x >new; echo evil >>bashrc; echo evil >>x.fish";
        let output = place.run(holder, &[], &["sh", "-c", script]);
        assert_eq!(stdout(&output), "a secreta secret", "{output:?}");
        assert_eq!(place.read("ws/new"), "x\n", "{output:?}");
        for name in ["bashrc", "x.fish"] {
            let is_kept = place.read(&format!("ws/{name}")) == "a secret";
            let is_reported = stderr(&output).contains(&format!("ws/{name}, which"));
            assert_eq!(is_kept, holder == Holder::Namespaces, "{name}: {output:?}");
            assert_eq!(is_reported, !is_kept, "{name}: {output:?}");
        }
    }
}

#[test]
fn of_the_home_directory_only_what_is_known_can_be_read() {
    for holder in SANDBOXES {
        let place = Place::new();
        let file = |name: &str, text: &str| {
            let path = place.path("home").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let secrets = [
            ".config/doctl/config.yaml",
            ".config/google-chrome-beta/Cookies",
            ".config/unheard-of/token",
            ".bashrc",
            ".unheard-of",
        ];
        for name in secrets {
            file(name, "a secret");
        }
        let shown = [
            ".cargo/config.toml",
            ".config/git/config",
            ".local/share/uv/x",
            "notes",
        ];
        for name in shown {
            file(name, name);
        }
        let home = place.path("home");
        let dir = format!("--dir={}", home.display());
        let options = ["--level=read-only", &dir];
        let read = |name: &str| {
            let path = home.join(name);
            place.run(holder, &options, &["cat", path.to_str().unwrap()])
        };
        for name in secrets {
            let output = read(name);
            assert_eq!(stdout(&output), "", "{name}: {output:?}");
        }
        for name in shown {
            let output = read(name);
            assert_eq!(stdout(&output), name, "{output:?}");
        }
        // By its name it is opened, but for what is always hidden.
        let read = |name: &str| format!("--read={}", home.join(name).display());
        let (file, rc) = (read(".unheard-of"), read(".bashrc"));
        let words = ["cat", "../home/.unheard-of", "../home/.bashrc"];
        let output = place.run(holder, &["--level=read-only", &dir, &file, &rc], &words);
        assert_eq!(stdout(&output), "a secret", "{output:?}");
        assert!(
            stderr(&output).contains(".bashrc stays hidden"),
            "{output:?}"
        );
        // The profile of a browser stays hidden also if its directory is the workspace.
        let workspace = format!("--dir={}", home.join(".config").display());
        let path = home.join(".config/google-chrome-beta/Cookies");
        let output = place.run(holder, &[&workspace], &["cat", path.to_str().unwrap()]);
        assert_eq!(stdout(&output), "", "{output:?}");
    }
}

#[test]
fn secrets_of_the_real_home_directory_are_hidden_too() {
    // The home directory of the user database cannot be another one in a test, so this looks for a secret that is there.
    let user = User::from_uid(Uid::current()).unwrap().unwrap();
    let names = [".bashrc", ".profile", ".zshrc", ".bash_history"];
    let mut found = names.iter().map(|name| user.dir.join(name));
    let Some(file) = found.find(|path| path.is_file()) else {
        return;
    };
    let parent = format!("--dir={}", user.dir.display());
    for holder in SANDBOXES {
        let place = Place::new();
        let options = ["--level=read-only", &parent];
        let output = place.run(holder, &options, &["cat", file.to_str().unwrap()]);
        assert_eq!(stdout(&output), "", "{output:?}");
    }
}

#[test]
fn modes_of_files_of_others_stay() {
    if !nix::unistd::Uid::effective().is_root() {
        return;
    }
    for holder in SANDBOXES {
        let place = Place::new();
        place.set_mode("ws/file", 0o600);
        std::os::unix::fs::chown(place.path("ws/file"), Some(1234), None).unwrap();
        let output = place.run(holder, &[], &["chmod", "666", "file"]);
        assert!(!output.status.success(), "{output:?}");
        assert_eq!(place.mode("ws/file"), 0o600);
    }
}

#[test]
fn secrets_that_appear_later_stay_hidden() {
    for holder in SANDBOXES {
        let place = Place::new();
        let mut command = place.vector(holder, &[], "late_path");
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        // Opens as soon as the command reads, so that the sandbox is in force.
        let mut gate = fs::OpenOptions::new()
            .write(true)
            .open(place.path("ws/fifo"))
            .unwrap();
        fs::create_dir(place.path("home/.aws")).unwrap();
        fs::write(place.path("home/.aws/credentials"), "a secret").unwrap();
        gate.write_all(b"go").unwrap();
        drop(gate);
        let text = stdout(&child.wait_with_output().unwrap());
        assert!(text.contains("held: PermissionError"), "{text}");
    }
}

#[test]
fn objects_of_other_processes_cannot_be_reached() {
    let place = Place::new();
    let reaches = |holder, name: &str| {
        let output = place.vector(holder, &[], name).output().unwrap();
        let text = stdout(&output);
        assert!(
            text.contains("ESCAPED") || text.contains("held:"),
            "{output:?}"
        );
        text.contains("ESCAPED")
    };
    assert!(reaches(Holder::Nothing, "make_objects"));
    for name in ["shared_memory", "semaphore", "message_queue"] {
        assert!(reaches(Holder::Nothing, name), "{name}");
        for holder in SANDBOXES {
            assert!(!reaches(holder, name), "{holder:?} {name}");
        }
    }
    assert!(reaches(Holder::Nothing, "remove_objects"));
}

#[test]
fn resources_are_bounded() {
    for holder in SANDBOXES {
        for (name, option) in [
            ("many_processes", "--max-processes=100"),
            ("much_memory", "--max-memory=64"),
            ("full_temporary_directory", "--max-temporary=8"),
        ] {
            let place = Place::new();
            let output = place.vector(holder, &[option], name).output().unwrap();
            assert!(!output.status.success(), "{holder:?} {name}: {output:?}");
            assert!(!stdout(&output).contains("ESCAPED"), "{holder:?} {name}");
            let ended = stderr(&output).contains("the command was killed: it ");
            let by_supervisor = holder == Holder::NoNamespaces && name != "much_memory";
            assert_eq!(ended, by_supervisor, "{name}: {output:?}");
        }
    }
}

#[test]
fn a_temporary_directory_that_cannot_be_measured_ends_the_command() {
    // With namespaces, the file system has the limit.
    let place = Place::new();
    let mut command = place.vector(Holder::NoNamespaces, &[], "deep_temporary_directory");
    let output = command.output().unwrap();
    assert!(!stdout(&output).contains("ESCAPED"), "{output:?}");
    assert!(stderr(&output).contains("cannot be measured"), "{output:?}");
}

#[test]
fn background_children_end_with_the_command() {
    for holder in SANDBOXES {
        let place = Place::new();
        // Both hold the pipe of stdout: it would not end before they do.
        let script = "setsid sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1000' &) ; echo done";
        let output = place.run(holder, &[], &["sh", "-c", script]);
        assert_eq!(stdout(&output), "done\n");
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn everything_ends_with_the_supervisor() {
    for holder in SANDBOXES {
        let place = Place::new();
        let script = "setsid sleep 1000 & echo started; sleep 1000";
        let mut command = place.command(holder, &[], &["sh", "-c", script]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut pipe = child.stdout.take().unwrap();
        let mut start = [0; 8];
        pipe.read_exact(&mut start).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        // Ends when nobody holds the pipe.
        let mut rest = Vec::new();
        pipe.read_to_end(&mut rest).unwrap();
    }
}

#[test]
fn signals_reach_the_command() {
    for holder in SANDBOXES {
        let place = Place::new();
        let script = "trap 'echo got; exit 3' TERM; echo started; while :; do sleep 0.05; done";
        let mut command = place.command(holder, &[], &["sh", "-c", script]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut pipe = child.stdout.take().unwrap();
        let mut start = [0; 8];
        pipe.read_exact(&mut start).unwrap();
        kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
        let mut rest = String::new();
        pipe.read_to_string(&mut rest).unwrap();
        assert_eq!(
            (rest.as_str(), child.wait().unwrap().code()),
            ("got\n", Some(3))
        );
    }
}

#[test]
fn an_end_by_signal_is_a_whole_end() {
    for holder in SANDBOXES {
        let place = Place::new();
        std::fs::create_dir_all(place.path("ws/.git/evil")).unwrap();
        std::fs::write(place.path("ws/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
        // Nothing of it listens to the polite signals.
        let script = "trap '' TERM INT HUP; echo evil >.git/commondir; echo \"$TMPDIR\"; (setsid sleep 1000 &); sleep 1000";
        let mut command = place.command(holder, &[], &["sh", "-c", script]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut tmp = String::new();
        lines.read_line(&mut tmp).unwrap();
        let pid = Pid::from_raw(child.id() as i32);
        kill(pid, Signal::SIGTERM).unwrap();
        kill(pid, aish::sandbox::END_SIGNAL).unwrap();
        // Both end when nobody holds the pipes.
        let (mut rest, mut errors) = (String::new(), String::new());
        lines.read_to_string(&mut rest).unwrap();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut errors)
            .unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(137), "{errors}");
        assert!(
            errors.contains(".git/commondir, which the command made"),
            "{errors}"
        );
        assert!(!place.path("ws/.git/commondir").exists());
        assert!(!std::path::Path::new(tmp.trim_end()).exists(), "{tmp}");
    }
}
