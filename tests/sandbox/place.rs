//! A home directory, a workspace and what is outside it, with processes and sockets that a command must not reach.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use nix::sys::stat::Mode;
use tempfile::TempDir;

use crate::support::home::helper;

/// Where a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// Without a sandbox.
    Nothing,
    Namespaces,
    NoNamespaces,
}

pub const SANDBOXES: [Holder; 2] = [Holder::Namespaces, Holder::NoNamespaces];

pub struct Place {
    dir: TempDir,
    victim: Child,
    tcp: TcpListener,
    _listeners: (UnixListener, UnixListener, UnixDatagram),
}

impl Place {
    pub fn new() -> Place {
        let dir = TempDir::new().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let file = |name: &str, text: &str| {
            let path = base.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        };
        file("outside/secret", "a secret");
        file("outside/file", "outside");
        file("ws/file", "inside");
        file("ws/.git/hooks/sample", "#!/bin/sh\n");
        file("ws/.git/config", "[core]\n");
        fs::create_dir(base.join("ws/mount")).unwrap();
        for name in [
            ".ssh/id",
            ".cargo/credentials.toml",
            ".zsh_history",
            "aish/config/keys/k",
        ] {
            file(&format!("home/{name}"), "a secret");
        }
        file("home/.zshrc", "");
        file("home/.cargo/bin/tool", "#!/bin/sh\n");
        fs::create_dir_all(base.join("home/aish/run")).unwrap();
        for fifo in ["home/aish/run/events", "ws/fifo"] {
            nix::unistd::mkfifo(&base.join(fifo), Mode::S_IRWXU).unwrap();
        }
        fs::copy("/bin/cat", base.join("outside/program")).unwrap();
        let victim = Command::new("sleep")
            .arg("1000")
            .env("KEY", "a secret")
            .spawn()
            .unwrap();
        let name = format!("aish-sandbox-test-{}", victim.id());
        fs::write(format!("/dev/shm/{name}"), "").unwrap();
        let name = SocketAddr::from_abstract_name(name).unwrap();
        Place {
            _listeners: (
                UnixListener::bind(base.join("outside/socket")).unwrap(),
                UnixListener::bind_addr(&name).unwrap(),
                UnixDatagram::bind(base.join("outside/datagrams")).unwrap(),
            ),
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            victim,
            dir,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Permissions of a file; 0 if there is none.
    pub fn mode(&self, name: &str) -> u32 {
        let meta = fs::metadata(self.path(name));
        meta.map_or(0, |meta| meta.permissions().mode() & 0o7777)
    }

    pub fn set_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), Permissions::from_mode(mode)).unwrap();
    }

    /// A command in the workspace. `options` are those of the sandbox.
    pub fn command(&self, holder: Holder, options: &[&str], words: &[&str]) -> Command {
        let mut command = match holder {
            Holder::Nothing => Command::new(words[0]),
            _ => Command::new(helper()),
        };
        if holder == Holder::Nothing {
            command.args(&words[1..]);
        } else {
            command.arg("sandbox").args(options);
            if holder == Holder::NoNamespaces {
                command.arg("--no-namespaces");
            }
            command.arg("--").args(words);
        }
        command
            .current_dir(self.path("ws"))
            .env("HOME", self.path("home"))
            .env("AISH_HOME", self.path("home/aish"))
            .env("SSH_AUTH_SOCK", "/secret")
            .env("A_KEY", "a secret")
            .stdin(Stdio::null());
        command
    }

    /// Runs a command and returns its output.
    pub fn run(&self, holder: Holder, options: &[&str], words: &[&str]) -> Output {
        self.command(holder, options, words).output().unwrap()
    }

    /// The command that tries a way out.
    pub fn vector(&self, holder: Holder, options: &[&str], name: &str) -> Command {
        let script = self.path("ws/vectors.py");
        fs::write(&script, include_str!("vectors.py")).unwrap();
        let (base, victim) = (self.path(""), self.victim.id().to_string());
        let port = self.tcp.local_addr().unwrap().port().to_string();
        let base = base.to_str().unwrap().trim_end_matches('/');
        let words = [
            "/usr/bin/python3",
            "-I",
            script.to_str().unwrap(),
            name,
            base,
            &victim,
            &port,
        ];
        self.command(holder, options, &words)
    }

    /// Compiles the program with the system calls that Python has no way to make.
    pub fn compile_native(&self) {
        let source = self.path("ws/native.c");
        fs::write(&source, include_str!("native.c")).unwrap();
        let program = self.path("ws/native");
        let status = Command::new("cc")
            .arg(source)
            .arg("-o")
            .arg(program)
            .status();
        assert!(status.unwrap().success(), "cc failed");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_file(format!("/dev/shm/aish-sandbox-test-{}", self.victim.id()));
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
