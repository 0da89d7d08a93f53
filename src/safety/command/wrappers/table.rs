//! The table of programs that run another command.

use super::{CommandWrapper, WrappedForm};

const NONE: &[&str] = &[];

const fn wrapper(
    names: &'static [&'static str],
    takes: &'static [&'static str],
    skip: usize,
) -> CommandWrapper {
    CommandWrapper {
        names,
        subcommands: NONE,
        takes,
        skip,
        form: WrappedForm::Arguments,
    }
}

const fn inner(
    names: &'static [&'static str],
    subcommands: &'static [&'static str],
    takes: &'static [&'static str],
    skip: usize,
) -> CommandWrapper {
    CommandWrapper {
        subcommands,
        ..wrapper(names, takes, skip)
    }
}

const fn text(
    names: &'static [&'static str],
    takes: &'static [&'static str],
    skip: usize,
) -> CommandWrapper {
    CommandWrapper {
        form: WrappedForm::Text,
        ..wrapper(names, takes, skip)
    }
}

const fn after_dashes(
    names: &'static [&'static str],
    subcommands: &'static [&'static str],
) -> CommandWrapper {
    CommandWrapper {
        form: WrappedForm::AfterDashes,
        ..inner(names, subcommands, NONE, 0)
    }
}

const RUN_OPTIONS: &[&str] = &[
    "-v",
    "--volume",
    "-p",
    "--publish",
    "-e",
    "--env",
    "--name",
    "-w",
    "--workdir",
    "-u",
    "--user",
    "--network",
    "--net",
    "--mount",
    "--entrypoint",
    "-l",
    "--label",
    "-h",
    "--hostname",
    "--env-file",
    "-m",
    "--memory",
    "--cpus",
    "--gpus",
    "--platform",
    "--pull",
    "--restart",
    "--add-host",
    "--device",
    "--cap-add",
    "--cap-drop",
    "--security-opt",
    "--ulimit",
    "--dns",
    "--ip",
    "--link",
    "--log-driver",
    "--log-opt",
    "--shm-size",
    "--tmpfs",
    "--volumes-from",
    "--pid",
    "--ipc",
    "--index",
    "--detach-keys",
    "--scale",
    "-f",
    "--file",
    "--project-name",
];

pub(super) static WRAPPERS: &[CommandWrapper] = &[
    wrapper(
        &["sudo", "gsudo", "sudo-rs"],
        &[
            "-u", "--user", "-g", "--group", "-h", "--host", "-p", "--prompt", "-C", "-r", "-t",
            "-T", "-U", "-D", "-R",
        ],
        0,
    ),
    wrapper(&["doas"], &["-u", "-C", "-a"], 0),
    wrapper(&["pkexec", "run0", "calife"], &["--user", "-u"], 0),
    wrapper(&["nice"], &["-n", "--adjustment"], 0),
    wrapper(
        &["ionice"],
        &["-c", "-n", "-p", "--class", "--classdata"],
        0,
    ),
    wrapper(
        &[
            "nohup",
            "setsid",
            "noglob",
            "nocorrect",
            "-",
            "builtin",
            "unbuffer",
            "rlwrap",
            "catchsegv",
            "fakeroot",
            "torsocks",
            "torify",
            "proxychains",
            "proxychains4",
            "eatmydata",
            "coproc",
            "busybox",
            "toybox",
            "winpty",
            "sem",
            "chronic",
            "gnomon",
            "grc",
            "prime-run",
            "gamemoderun",
            "tsocks",
            "cpulimit",
        ],
        &["-l", "--limit"],
        0,
    ),
    wrapper(&["command"], NONE, 0),
    wrapper(&["exec"], &["-a"], 0),
    wrapper(&["time", "gtime"], &["-f", "--format", "-o", "--output"], 0),
    wrapper(
        &["timeout", "gtimeout"],
        &["-k", "--kill-after", "-s", "--signal"],
        1,
    ),
    wrapper(&["stdbuf"], &["-i", "-o", "-e"], 0),
    wrapper(&["chrt"], &["-T", "-P", "-D"], 1),
    wrapper(&["taskset"], &["-c"], 1),
    wrapper(&["numactl"], &["-N", "-m", "-C"], 0),
    wrapper(&["caffeinate"], &["-t", "-w"], 0),
    wrapper(
        &["systemd-inhibit"],
        &["--what", "--who", "--why", "--mode"],
        0,
    ),
    wrapper(
        &["systemd-run"],
        &[
            "-u",
            "--unit",
            "-p",
            "--property",
            "-M",
            "-E",
            "--setenv",
            "--slice",
            "--description",
        ],
        0,
    ),
    wrapper(
        &["xargs", "gxargs"],
        &[
            "-I",
            "-n",
            "--max-args",
            "-P",
            "--max-procs",
            "-L",
            "--max-lines",
            "-d",
            "--delimiter",
            "-s",
            "-E",
            "-a",
            "--arg-file",
            "-J",
            "-R",
        ],
        0,
    ),
    wrapper(
        &["strace", "ltrace"],
        &[
            "-e", "-o", "-p", "-s", "-E", "-u", "-S", "-a", "-P", "-I", "-X", "-b", "-O",
        ],
        0,
    ),
    wrapper(
        &[
            "valgrind",
            "heaptrack",
            "rr",
            "catchsegv",
            "py-spy",
            "memray",
        ],
        NONE,
        0,
    ),
    inner(
        &["perf"],
        &["stat", "record", "trace"],
        &["-e", "-o", "-r", "-p", "-F", "-c"],
        0,
    ),
    inner(&["rr"], &["record"], NONE, 0),
    wrapper(&["chroot"], &["--userspec", "--groups"], 1),
    wrapper(
        &[
            "unshare", "nsenter", "bwrap", "firejail", "setpriv", "capsh", "runcon", "faketime",
        ],
        &[
            "-t",
            "--target",
            "-S",
            "-G",
            "--bind",
            "--ro-bind",
            "--dev-bind",
        ],
        0,
    ),
    wrapper(&["repeat"], NONE, 1),
    wrapper(
        &[
            "dotenv",
            "dotenvx",
            "with-env",
            "envchain",
            "chamber",
            "aws-vault",
            "doppler",
            "infisical",
        ],
        &["-f", "-e", "-p"],
        0,
    ),
    wrapper(
        &[
            "ssh-agent",
            "dbus-run-session",
            "dbus-launch",
            "xvfb-run",
            "startx",
            "xinit",
        ],
        &["-a", "-t", "-s", "-n"],
        0,
    ),
    wrapper(&["sshpass"], &["-p", "-f", "-d", "-P"], 0),
    wrapper(&["entr"], NONE, 0),
    text(
        &["watch", "gwatch", "viddy", "hwatch"],
        &["-n", "--interval", "-q", "--equexit"],
        0,
    ),
    text(
        &["parallel", "rush", "pssh", "pdsh", "clush"],
        &[
            "-j", "--jobs", "-I", "-a", "--colsep", "-N", "-L", "-n", "-w", "-h", "-H", "-P",
        ],
        0,
    ),
    wrapper(&["flock"], &["-w", "--timeout", "-E"], 1),
    text(
        &["ssh", "mosh", "slogin", "dbclient"],
        &[
            "-i", "-p", "-l", "-o", "-F", "-J", "-L", "-R", "-D", "-b", "-c", "-e", "-E", "-I",
            "-m", "-O", "-Q", "-S", "-w", "-W", "-B", "--ssh",
        ],
        1,
    ),
    text(
        &["autossh"],
        &["-i", "-p", "-l", "-o", "-F", "-J", "-L", "-R", "-D", "-M"],
        1,
    ),
    inner(
        &[
            "docker",
            "podman",
            "nerdctl",
            "docker-compose",
            "podman-compose",
        ],
        &["exec", "run"],
        RUN_OPTIONS,
        1,
    ),
    inner(
        &["docker", "podman", "nerdctl"],
        &["create"],
        RUN_OPTIONS,
        1,
    ),
    inner(
        &["lxc", "incus"],
        &["exec"],
        &["--env", "--cwd", "--user"],
        1,
    ),
    inner(&["lxc-attach", "machinectl"], &["shell"], &["-n"], 1),
    after_dashes(
        &["kubectl", "oc", "k", "kubecolor"],
        &["exec", "run", "debug"],
    ),
    after_dashes(&["npm"], &["exec", "x"]),
    inner(
        &[
            "bundle", "bundler", "poetry", "pipenv", "pdm", "rye", "hatch",
        ],
        &["exec", "run"],
        NONE,
        0,
    ),
    inner(
        &["uv"],
        &["run"],
        &[
            "--with",
            "--python",
            "-p",
            "--env-file",
            "--group",
            "--extra",
            "--directory",
            "--project",
            "--with-requirements",
        ],
        0,
    ),
    inner(&["pnpm", "yarn"], &["exec"], NONE, 0),
    inner(
        &["conda", "mamba", "micromamba"],
        &["run"],
        &["-n", "--name", "-p", "--prefix", "--cwd"],
        0,
    ),
    inner(&["direnv"], &["exec"], NONE, 1),
    inner(
        &[
            "mise", "rtx", "asdf", "nix", "devbox", "guix", "opam", "stack", "rbenv", "pyenv",
            "nodenv", "volta", "rustup",
        ],
        &["exec", "x"],
        NONE,
        0,
    ),
    inner(&["rustup"], &["run"], NONE, 1),
    inner(&["git"], &["run"], NONE, 0),
    inner(&["op"], &["run"], &["--env-file"], 0),
    inner(&["ip"], &["netns"], NONE, 2),
    inner(
        &["zellij"],
        &["run", "r"],
        &["--cwd", "-d", "--direction", "-n", "--name"],
        0,
    ),
    after_dashes(&["wezterm"], &["start"]),
    text(
        &["watchexec"],
        &[
            "-e",
            "--exts",
            "-w",
            "--watch",
            "-i",
            "--ignore",
            "-f",
            "--filter",
            "-d",
            "--debounce",
            "-s",
            "--signal",
            "--stop-signal",
            "--shell",
            "-E",
            "--env",
            "-o",
            "--on-busy-update",
        ],
        0,
    ),
    inner(
        &["heroku", "fly", "flyctl", "railway", "dokku"],
        &["run"],
        &["--app", "-a", "-s"],
        0,
    ),
];
