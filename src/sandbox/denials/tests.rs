use super::*;
use crate::sandbox::policy::SandboxLevel;

fn found(output: &str) -> Vec<String> {
    let mut policy = SandboxPolicy::new(SandboxLevel::Workspace, "/home/u/w");
    policy.home = Some("/home/u".into());
    let denials = denials(output, &policy, &policy.dir, |_| true);
    denials.iter().map(Denial::to_string).collect()
}

#[test]
fn common_programs_are_understood() {
    for (output, denial) in [
        // coreutils
        (
            "cat: /home/u/.ssh/id_rsa: Permission denied",
            "read of /home/u/.ssh/id_rsa",
        ),
        (
            "touch: cannot touch '/home/u/x y': Permission denied",
            "write to /home/u/x y",
        ),
        (
            "mkdir: cannot create directory ‘/usr/x’: Read-only file system",
            "write to /usr/x",
        ),
        (
            "rm: cannot remove '../other/a': Permission denied",
            "write to /home/u/other/a",
        ),
        (
            "ls: cannot open directory '/home/u/.aws': Permission denied",
            "read of /home/u/.aws",
        ),
        (
            "chmod: changing permissions of '/etc/hosts': Operation not permitted",
            "write to /etc/hosts",
        ),
        (
            "cp: cannot create regular file '/opt/a': Permission denied",
            "write to /opt/a",
        ),
        // shells
        (
            "zsh:1: permission denied: /home/u/.zshrc",
            "read of /home/u/.zshrc",
        ),
        ("zsh: read-only file system: /usr/a", "write to /usr/a"),
        (
            "zsh:1: permission denied: /home/u/sp ace.txt",
            "read of /home/u/sp ace.txt",
        ),
        (
            "bash: line 1: /home/u/a b: Permission denied",
            "read of /home/u/a b",
        ),
        (
            "bash: line 1: /home/u/.bashrc: Permission denied",
            "read of /home/u/.bashrc",
        ),
        (
            "sh: 1: cannot create /usr/x: Read-only file system",
            "write to /usr/x",
        ),
        (
            "bash: connect: Operation not permitted\nbash: line 1: /dev/tcp/127.0.0.1/80: Operation not permitted",
            "network",
        ),
        (
            "error connecting to /tmp/tmux-0/default (Permission denied)",
            "connection to /tmp/tmux-0/default",
        ),
        // git
        (
            "fatal: Unable to create '/home/u/other/.git/index.lock': Permission denied",
            "write to /home/u/other/.git/index.lock",
        ),
        (
            "error: could not write config file .git/config: Device or resource busy",
            "write to /home/u/w/.git/config",
        ),
        (
            "warning: unable to access '/home/u/.config/gh/x': Permission denied",
            "read of /home/u/.config/gh/x",
        ),
        // cargo and rustc
        (
            "error: failed to create directory `/home/u/.cache/x`\n\nCaused by:\n  Permission denied (os error 13)",
            "write to /home/u/.cache/x",
        ),
        (
            "error: failed to open: /home/u/.cargo/registry/x\n\nCaused by:\n  Read-only file system (os error 30)",
            "write to /home/u/.cargo/registry/x",
        ),
        // python and node
        (
            "PermissionError: [Errno 13] Permission denied: '/home/u/.netrc'",
            "read of /home/u/.netrc",
        ),
        (
            "OSError: [Errno 30] Read-only file system: '/usr/lib/x'",
            "write to /usr/lib/x",
        ),
        (
            "Error: EACCES: permission denied, open '/home/u/.npmrc'",
            "read of /home/u/.npmrc",
        ),
        (
            "Error: EROFS: read-only file system, mkdir '/usr/x'",
            "write to /usr/x",
        ),
        // network
        ("curl: (6) Could not resolve host: example.com", "network"),
        ("ssh: socket: Operation not permitted", "network"),
        (
            "fatal: unable to access 'https://x/': Could not resolve host: x",
            "network",
        ),
        ("Error: getaddrinfo EAI_AGAIN example.com", "network"),
        (
            "socket.gaierror: [Errno -3] Temporary failure in name resolution",
            "network",
        ),
        (
            "  File \"/usr/lib/python3.11/socket.py\", line 232, in __init__\n    _socket.socket.__init__(self, family, type, proto, fileno)\nPermissionError: [Errno 1] Operation not permitted",
            "network",
        ),
        (
            "  File \"/usr/lib/python3.13/socket.py\", line 233, in __init__\n    _socket.socket.__init__(self, family, type, proto, fileno)\n    ~~~^^^\nPermissionError: [Errno 1] Operation not permitted",
            "network",
        ),
        (
            "Error: connect EPERM 127.0.0.1:80 - Local (undefined:undefined)",
            "network",
        ),
        (
            "Error: listen EPERM: operation not permitted 0.0.0.0:3000",
            "network",
        ),
        (
            "IO::Socket::INET: Operation not permitted at /usr/share/perl5/LWP/Simple.pm line 23.",
            "network",
        ),
        (
            "/usr/lib/ruby/3.1.0/socket.rb:1214:in `initialize': Operation not permitted - socket(2) - tcp (Errno::EPERM)",
            "network",
        ),
        (
            "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('<HTTPSConnection object>: Failed to establish a new connection: [Errno 1] Operation not permitted')': /simple/x/\nERROR: No matching distribution found for x (from versions: none)",
            "network",
        ),
        (
            "curl: (7) Failed to connect to 10.0.0.1 port 80 after 0 ms: Could not connect to server",
            "network",
        ),
        ("curl: (7) Couldn't connect to server", "network"),
        (
            "<urlopen error [Errno 1] Operation not permitted>",
            "network",
        ),
        ("Error: connect EACCES 127.0.0.1:80", "network"),
        (
            "dial tcp 127.0.0.1:80: socket: operation not permitted",
            "network",
        ),
        (
            "error: tcp connect error: Operation not permitted (os error 1)",
            "network",
        ),
        (
            "error sending request for url (http://127.0.0.1/): Operation not permitted (os error 1)",
            "network",
        ),
        (
            "Connecting to 127.0.0.1:80... failed: Operation not permitted.",
            "network",
        ),
        // A path says more than a bare name in the same line, unless it is the program that reports.
        (
            "failed to write 'foo' to '/usr/lib/x': Permission denied",
            "write to /usr/lib/x",
        ),
        (
            "failed to write 'foo' to /usr/lib/x: Permission denied",
            "write to /usr/lib/x",
        ),
        (
            "/usr/bin/touch: 'x': Read-only file system",
            "write to /home/u/w/x",
        ),
        // A frame is not a path that was accessed.
        (
            "  File \"/usr/lib/python3.11/shutil.py\", line 1, in copy\n    open(dst)\nPermissionError: [Errno 1] Operation not permitted: '/opt/a'",
            "write to /opt/a",
        ),
    ] {
        assert_eq!(found(output), [denial], "{output}");
    }
}

#[test]
fn failures_that_the_policy_does_not_explain_are_left_out() {
    for output in [
        "cat: /home/u/w/secret: Permission denied",
        "./run.sh: Permission denied",
        "kill: (1): Operation not permitted",
        "test result: FAILED. 1 passed",
        "cat: /nowhere: No such file or directory",
        "Permission denied (publickey).",
        "  File \"/usr/lib/python3.11/os.py\", line 1, in kill\n    os.kill(1, 9)\nPermissionError: [Errno 1] Operation not permitted",
        "    at kill (/usr/lib/node_modules/x/y.js:1:2)\nError: kill EPERM operation not permitted",
        "Failed to connect to bus: No such file or directory",
        "error: Operation not permitted (os error 1)",
        "Operation not permitted at /usr/share/perl5/x.pm line 3.",
        "",
    ] {
        assert!(found(output).is_empty(), "{output}: {:?}", found(output));
    }
}

#[test]
fn names_are_longer_in_lower_case_without_harm() {
    let name = "İ".repeat(100);
    let policy = SandboxPolicy::new(SandboxLevel::ReadOnly, "/w");
    let denials = denials(
        &format!("zsh:1: permission denied: {name}"),
        &policy,
        Path::new("/w/sub"),
        |_| true,
    );
    let told: Vec<String> = denials.iter().map(Denial::to_string).collect();
    assert_eq!(told, [format!("write to /w/sub/{name}")]);
}

#[test]
fn with_network_a_missing_host_is_no_denial() {
    let policy = SandboxPolicy::new(SandboxLevel::ReadOnly, "/w");
    for output in [
        ".\n..\n.config\ntouch: cannot touch 'x': Read-only file system",
        "/etc/hosts\nzsh:1: read-only file system: x",
        "can't say 'this'\nPermissionError: [Errno 13] Permission denied: 'x'",
    ] {
        let denials = denials(output, &policy, &policy.dir, |_| true);
        let told: Vec<String> = denials.iter().map(Denial::to_string).collect();
        assert_eq!(told, ["write to /w/x"], "{output}");
    }
    let mut policy = SandboxPolicy::new(SandboxLevel::ReadOnly, "/w");
    policy.network = true;
    for output in [
        "curl: (6) Could not resolve host: x",
        "curl: (7) Failed to connect to 127.0.0.1 port 1 after 0 ms: Couldn't connect to server",
        "<urlopen error [Errno 1] Operation not permitted>",
    ] {
        assert!(
            denials(output, &policy, &policy.dir, |_| true).is_empty(),
            "{output}"
        );
    }
}

#[test]
fn a_denial_is_told_once_and_their_number_is_bounded() {
    let line = "cat: /home/u/.netrc: Permission denied\n".repeat(3);
    assert_eq!(found(&line).len(), 1);
    let many: String = (0..100)
        .map(|n| format!("cat: /srv/{n}: Permission denied\n"))
        .collect();
    assert_eq!(found(&many).len(), MAX_DENIALS);
}

#[test]
fn what_would_fail_without_the_sandbox_is_no_denial() {
    let output = "find: '/srv/a': Permission denied\nfind: '/srv/b': Permission denied";
    let policy = SandboxPolicy::new(SandboxLevel::Workspace, "/w");
    let left = denials(output, &policy, &policy.dir, |denial| {
        denial.path.as_deref() == Some(Path::new("/srv/b"))
    });
    let left: Vec<String> = left.iter().map(Denial::to_string).collect();
    assert_eq!(left, ["read of /srv/b"]);
}
