//! Programs that must work inside the sandbox, and the reports about it.

use std::collections::BTreeSet;
use std::fs::{self, FileTimes};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime};

use aish::sandbox::{Denial, SandboxLevel, SandboxPolicy, denials, support};

use nix::sys::signal::Signal;

use super::place::{Holder, Place, SANDBOXES, stderr, stdout};
use crate::support::helper::Helper;
use crate::support::home::helper;

/// Ordinary work. The identity of git comes from the environment, and the toolchain from the real home directory.
const WORK: &str = r#"
set -e
zsh -f -c 'x=$(mktemp); cat <<< here >$x; [[ $(<$x) == here ]]; cat <(print hi) >/dev/null; print a >/dev/stderr'
git init -q repo
cd repo; echo a >f; git add f; git commit -qm x; git checkout -q -b y; git gc -q; git log --oneline; cd ..
printf 'int main(){return 0;}' >h.c
cc h.c -o h; ./h
printf 'all: h2\nh2: h.c\n\tcc h.c -o h2\n' >Makefile
make -j2; ./h2
python3 -c 'import subprocess,tempfile; subprocess.check_call(["true"]); tempfile.mkdtemp()'
mkdir td; echo x >td/f; chmod 755 td/f; tar cf t.tar td; rm -r td; tar xf t.tar --no-same-owner; test -x td/f
touch -d 2001-01-01 n; test $(stat -c %Y n) -lt 1000000000; touch n; chmod 600 n; cp -p n n2; install -m 755 n n3; test -x n3
ln -s n n4; ln n n5; mv n5 n6; rm n6; mkfifo p; sleep 0 & wait
! command -v node >/dev/null || node -e 'require("child_process").execSync("true")'
! command -v cargo >/dev/null || {
  mkdir -p c/src; printf '[package]\nname="c"\nversion="0.1.0"\nedition="2021"\n[workspace]\n' >c/Cargo.toml
  echo 'fn main(){println!("hi")}' >c/src/main.rs; echo 'fn main(){}' >c/build.rs
  cd c; cargo run --offline -q
}
echo all done
"#;

#[test]
fn ordinary_work_is_done_inside() {
    for holder in SANDBOXES {
        let place = Place::new();
        let options = [
            "--env=GIT_AUTHOR_NAME=a",
            "--env=GIT_AUTHOR_EMAIL=a@b",
            "--env=GIT_COMMITTER_NAME=a",
            "--env=GIT_COMMITTER_EMAIL=a@b",
        ];
        let mut command = place.command(holder, &options, &["sh", "-c", WORK]);
        if let Some(home) = std::env::var_os("HOME") {
            command.env("HOME", home);
        }
        let output = command.output().unwrap();
        assert!(
            stdout(&output).ends_with("all done\n"),
            "{holder:?}: {output:?}"
        );
    }
}

#[test]
fn an_option_that_opens_nothing_is_told() {
    let place = Place::new();
    let words = ["cat", "../home/.ssh/id"];
    for holder in SANDBOXES {
        let option = format!("--read={}", place.path("home/.ssh").display());
        let output = place.run(holder, &[&option], &words);
        assert!(stdout(&output).is_empty());
        assert!(stderr(&output).contains(".ssh stays hidden"), "{output:?}");
        let option = format!("--read={}", place.path("outside").display());
        let output = place.run(holder, &[&option], &["cat", "../outside/file"]);
        assert_eq!(
            (stdout(&output).as_str(), stderr(&output).as_str()),
            ("outside", "")
        );
    }
}

#[test]
fn read_only_level_changes_nothing_but_its_temporary_directory() {
    for holder in SANDBOXES {
        let place = Place::new();
        let script = "cat file; echo x >$TMPDIR/a && echo wrote; echo y >file; rm file; mkdir new; chmod 600 file";
        place.set_mode("ws/file", 0o644);
        let output = place.run(holder, &["--level=read-only"], &["sh", "-c", script]);
        assert_eq!(stdout(&output), "insidewrote\n");
        assert_eq!(
            (place.read("ws/file").as_str(), place.mode("ws/file")),
            ("inside", 0o644)
        );
        assert!(!place.path("ws/late").exists());
    }
}

#[test]
fn more_directories_can_be_named() {
    for holder in SANDBOXES {
        let place = Place::new();
        let outside = place.path("outside");
        let outside = outside.to_str().unwrap();
        let read = format!("--read={outside}");
        let output = place.run(
            holder,
            &[&read],
            &["sh", "-c", "cat ../outside/secret; echo x >../outside/new"],
        );
        assert_eq!(stdout(&output), "a secret", "{output:?}");
        assert!(!place.path("outside/new").exists());
        let write = format!("--write={outside}");
        let output = place.run(
            holder,
            &[&write],
            &[
                "sh",
                "-c",
                "echo x >../outside/new && chmod 755 ../outside/new",
            ],
        );
        assert!(output.status.success(), "{output:?}");
        assert_eq!(
            (
                place.read("outside/new").as_str(),
                place.mode("outside/new")
            ),
            ("x\n", 0o755)
        );
    }
}

#[test]
fn hooks_and_configuration_are_kept_or_reported() {
    let script = "echo evil >.git/hooks/pre-commit; echo evil >>.git/config; mv .git old; mkdir -p .git/hooks; echo x >index";
    let place = Place::new();
    let output = place.run(Holder::Namespaces, &[], &["sh", "-c", script]);
    assert_eq!(place.read("ws/.git/config"), "[core]\n", "{output:?}");
    assert!(!place.path("ws/.git/hooks/pre-commit").exists());
    assert!(place.path("ws/.git/hooks/sample").exists() && !place.path("ws/old").exists());
    assert!(
        !stderr(&output).contains("the command changed"),
        "{output:?}"
    );

    let place = Place::new();
    let output = place.run(
        Holder::NoNamespaces,
        &[],
        &[
            "sh",
            "-c",
            "echo evil >.git/hooks/pre-commit; echo x >.git/index",
        ],
    );
    let hook = place.path("ws/.git/hooks/pre-commit");
    let notice = format!(
        "aish: the command changed {}, which other programs run",
        hook.display()
    );
    assert!(stderr(&output).starts_with(&notice), "{output:?}");
    assert_eq!(stderr(&output).lines().count(), 1, "{output:?}");

    let place = Place::new();
    fs::remove_dir_all(place.path("ws/.git")).unwrap();
    for holder in SANDBOXES {
        let output = place.run(
            holder,
            &[],
            &[
                "sh",
                "-c",
                "rm -rf .vscode; mkdir .vscode; echo x >.vscode/tasks.json",
            ],
        );
        assert!(
            stderr(&output).contains("tasks.json, which other programs run"),
            "{output:?}"
        );
        fs::remove_dir_all(place.path("ws/.vscode")).unwrap();
    }
}

#[test]
fn exit_codes_and_streams_are_those_of_the_command() {
    for holder in SANDBOXES {
        let place = Place::new();
        for (script, code) in [("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143)] {
            let output = place.run(holder, &[], &["sh", "-c", script]);
            assert_eq!(output.status.code(), Some(code), "{script}: {output:?}");
        }
        let output = place.run(holder, &[], &["no-such-program"]);
        assert_eq!(output.status.code(), Some(127));
        assert!(
            stderr(&output).starts_with("aish: cannot run no-such-program: "),
            "{output:?}"
        );
        let output = place.run(
            holder,
            &[],
            &[place.path("outside/program").to_str().unwrap()],
        );
        assert_eq!(output.status.code(), Some(126), "{output:?}");
    }
}

#[test]
fn home_directory_and_secrets_cannot_be_the_workspace() {
    let place = Place::new();
    for (dir, part) in [
        ("home", "it holds your home directory"),
        ("home/.ssh", "holds secrets"),
        ("", "it holds your home"),
        ("/", "cannot be the workspace"),
    ] {
        let dir = format!("--dir={}", place.path(dir).display());
        let output = place.run(Holder::Namespaces, &[&dir], &["true"]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(&output).contains(part), "{output:?}");
    }
}

#[test]
fn the_command_starts_where_the_supervisor_does() {
    for holder in SANDBOXES {
        let place = Place::new();
        std::fs::create_dir(place.path("ws/sub")).unwrap();
        std::os::unix::fs::symlink(place.path("ws/sub"), place.path("outside/link")).unwrap();
        let dir = format!("--dir={}", place.path("ws").display());
        for (start, expected) in [
            ("ws", "ws"),
            ("ws/sub", "ws/sub"),
            ("outside", "outside"),
            ("outside/link", "ws/sub"),
            ("home/.ssh", "home/.ssh"),
        ] {
            let script = "/bin/pwd; rm -f -- *; echo x >new";
            let mut command = place.command(holder, &[&dir], &["sh", "-c", script]);
            let output = command.current_dir(place.path(start)).output().unwrap();
            let expected = format!("{}\n", place.path(expected).display());
            assert_eq!(stdout(&output), expected, "{holder:?} {start}: {output:?}");
            let new = place.path(start).join("new");
            assert_eq!(new.exists(), expected.contains("/ws"), "{holder:?} {start}");
        }
        for name in ["outside/secret", "home/.ssh/id"] {
            assert_eq!(place.read(name), "a secret", "{holder:?}");
        }
        // A directory that is gone is not replaced by another one.
        let gone = place.path("gone");
        std::fs::create_dir(&gone).unwrap();
        let words = [
            "sh",
            "-c",
            "cd ../gone && rmdir ../gone && exec \"$@\"",
            "sh",
        ];
        let sandboxed = place.command(holder, &[&dir], &["sh", "-c", "echo x >late"]);
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(sandboxed.get_program());
        let output = command
            .args(sandboxed.get_args())
            .current_dir(place.path("ws"));
        let output = output.env("HOME", place.path("home")).output().unwrap();
        assert!(!output.status.success(), "{output:?}");
        assert!(
            stderr(&output).contains("cannot find the working directory"),
            "{output:?}"
        );
        assert!(!place.path("ws/late").exists());
    }
}

#[test]
fn denied_access_is_derived_from_the_output() {
    for holder in SANDBOXES {
        let place = Place::new();
        let mut policy = SandboxPolicy::new(SandboxLevel::Workspace, place.path("ws"));
        policy.home = Some(place.path("home"));
        for (script, access) in [
            ("cat ~/.ssh/id", "read of"),
            ("echo x >>~/.ssh/id", "write to"),
            ("touch ~/.ssh/id", "write to"),
            ("/usr/bin/python3 -c 'open(\"'$HOME'/.ssh/id\")'", "read of"),
            ("zsh -fc 'source ~/.ssh/id'", "read of"),
        ] {
            let output = place.run(holder, &[], &["bash", "-c", script]);
            let found = denials(&stderr(&output), &policy, &policy.dir, |_| true);
            let found: Vec<String> = found.iter().map(Denial::to_string).collect();
            let path = place.path("home/.ssh/id");
            // A shell that redirects does not say whether it reads or writes.
            let expected = ["read of", access].map(|access| format!("{access} {}", path.display()));
            assert_eq!(found.len(), 1, "{script}: {output:?}");
            assert!(
                expected.contains(&found[0]),
                "{script}: {found:?} {output:?}"
            );
        }
    }
}

#[test]
fn support_tells_what_the_sandbox_consists_of() {
    let support = support(helper().as_ref()).unwrap();
    assert!(support.landlock_abi >= 1 && support.seccomp, "{support:?}");
    let line = support.describe();
    assert!(
        line.starts_with(&format!("Landlock {}, seccomp, ", support.landlock_abi)),
        "{line}"
    );
    println!(
        "{line}; rules of Landlock and seccomp: {} µs",
        support.policy_us
    );
}

#[test]
fn network_is_ip_only() {
    for holder in SANDBOXES {
        let place = Place::new();
        for (name, reached) in [
            ("tcp", true),
            ("udp", true),
            ("unix_socket", false),
            ("abstract_socket", false),
            ("netlink", false),
            ("pair_of_datagrams", false),
        ] {
            let output = place.vector(holder, &["--network"], name).output().unwrap();
            assert_eq!(
                stdout(&output).contains("ESCAPED"),
                reached,
                "{holder:?} {name}: {output:?}"
            );
        }
    }
}

#[test]
fn a_daemon_removes_what_a_killed_sandbox_left() {
    let helper = Helper::saying("fine");
    let temporary = helper.path("../temporary");
    let workspace = helper.path("../workspace");
    fs::create_dir(&temporary).unwrap();
    fs::create_dir(&workspace).unwrap();
    let left = || -> BTreeSet<PathBuf> {
        let entries = fs::read_dir(&temporary).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    // The second one runs when the daemon starts.
    let mut sandboxes = Vec::new();
    for number in 1..=2 {
        let script = "echo x >$TMPDIR/file; echo ready; exec sleep 1000";
        let call = helper
            .program("aish-helper")
            .args(["sandbox", "--", "sh", "-c", script])
            .env("TMPDIR", &temporary)
            .dir(workspace.clone());
        let sandbox = call.start();
        sandbox.stdout.wait_text("ready");
        let made: Vec<_> = left().into_iter().collect();
        assert_eq!(made.len(), number, "{made:?}");
        sandboxes.push((sandbox, made));
    }
    let (killed, [abandoned]) = (&sandboxes[0].0, &sandboxes[0].1[..]) else {
        panic!("one directory");
    };
    killed.signal(Signal::SIGKILL);
    fs::write(temporary.join("aish-sandbox-notes"), "").unwrap();
    let before = left();
    for path in &before {
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        let times = FileTimes::new().set_modified(hour_ago);
        let file = fs::File::open(path).unwrap();
        file.set_times(times).unwrap();
    }
    let status = helper
        .call(["ask", "is it gone?"])
        .env("TMPDIR", &temporary);
    status.run().ok();
    helper.until("it is gone", || !abandoned.exists());
    let kept: BTreeSet<_> = before
        .into_iter()
        .filter(|path| path != abandoned)
        .collect();
    assert_eq!(left(), kept);
    assert!(sandboxes[1].0.runs());
}
