//! The table of programs that run another command.

use super::options::{BWRAP_OPTIONS, EXEC_OPTIONS, PARALLEL_OPTIONS, RUN_OPTIONS};
use super::{CommandWrapper, WrappedForm};

pub(super) const NONE: &[&str] = &[];

pub(super) const fn wrapper(
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

pub(super) const fn inner(
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

pub(super) const fn text(
    names: &'static [&'static str],
    takes: &'static [&'static str],
    skip: usize,
) -> CommandWrapper {
    CommandWrapper {
        form: WrappedForm::Text,
        ..wrapper(names, takes, skip)
    }
}

pub(super) const fn after_dashes(
    names: &'static [&'static str],
    subcommands: &'static [&'static str],
) -> CommandWrapper {
    CommandWrapper {
        form: WrappedForm::AfterDashes,
        ..inner(names, subcommands, NONE, 0)
    }
}

pub(super) const CONTAINERS: &[&str] = &[
    "docker",
    "podman",
    "nerdctl",
    "docker-compose",
    "podman-compose",
];

const KUBECTL: &[&str] = &["kubectl", "oc", "k", "kubecolor"];

pub(super) static WRAPPERS: &[CommandWrapper] = &[
    wrapper(
        &["sudo", "gsudo", "sudo-rs"],
        &[
            "-u",
            "--user",
            "-g",
            "--group",
            "-h",
            "--host",
            "-p",
            "--prompt",
            "-C",
            "-r",
            "-t",
            "-T",
            "-U",
            "-D",
            "-R",
            "--close-from",
            "--chdir",
            "--chroot",
            "--role",
            "--type",
            "--command-timeout",
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
    wrapper(
        &["sem"],
        &[
            "-j",
            "--jobs",
            "--id",
            "--semaphorename",
            "--semaphoretimeout",
            "--st",
            "--delay",
        ],
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
    wrapper(
        &["stdbuf"],
        &["-i", "-o", "-e", "--input", "--output", "--error"],
        0,
    ),
    wrapper(&["chrt"], &["-T", "-P", "-D"], 1),
    wrapper(&["taskset"], NONE, 1),
    wrapper(
        &["numactl"],
        &[
            "-N",
            "-m",
            "-C",
            "-i",
            "-p",
            "--membind",
            "--cpunodebind",
            "--physcpubind",
            "--interleave",
            "--preferred",
        ],
        0,
    ),
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
            "--on-calendar",
            "--on-active",
            "--on-boot",
            "--on-startup",
            "--on-unit-active",
            "--on-unit-inactive",
            "--timer-property",
            "--path-property",
            "--socket-property",
            "--working-directory",
            "--uid",
            "--gid",
            "--nice",
            "--service-type",
            "--machine",
            "--host",
            "-H",
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
            "-S",
            "--process-slot-var",
            "--max-chars",
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
            "unshare", "nsenter", "firejail", "setpriv", "capsh", "runcon",
        ],
        &[
            "-t",
            "--target",
            "-S",
            "-G",
            "--reuid",
            "--regid",
            "--groups",
            "--inh-caps",
            "--ambient-caps",
            "--bounding-set",
            "--selinux-label",
            "--apparmor-profile",
        ],
        0,
    ),
    wrapper(&["bwrap"], BWRAP_OPTIONS, 0),
    wrapper(&["repeat"], NONE, 1),
    wrapper(&["dotenv", "dotenvx", "with-env"], &["-f", "-e", "-p"], 0),
    inner(
        &["doppler", "infisical", "dotenvx"],
        &["run"],
        &["-p", "--project", "-c", "--config", "--env", "--path", "-f"],
        0,
    ),
    wrapper(&["envchain"], NONE, 1),
    wrapper(&["cross-env"], NONE, 0),
    CommandWrapper {
        skip: 1,
        ..after_dashes(&["aws-vault", "chamber"], &["exec"])
    },
    wrapper(
        &[
            "ssh-agent",
            "dbus-run-session",
            "dbus-launch",
            "startx",
            "xinit",
        ],
        &["-a", "-t", "-s", "-n"],
        0,
    ),
    wrapper(
        &["xvfb-run"],
        &["-n", "-s", "-e", "-f", "-p", "-l", "--server-args"],
        0,
    ),
    wrapper(&["faketime", "logsave", "arch-chroot"], NONE, 1),
    wrapper(&["choom", "multitime"], &["-n", "-p"], 0),
    CommandWrapper {
        form: WrappedForm::AfterDashes,
        ..wrapper(&["runuser", "wsl", "fab"], NONE, 0)
    },
    inner(&["apptainer", "singularity"], &["exec"], &["-B"], 1),
    inner(&["pct"], &["exec"], NONE, 1),
    inner(&["sops"], &["exec-env", "exec-file"], NONE, 1),
    inner(&["composer"], &["exec"], NONE, 0),
    CommandWrapper {
        form: WrappedForm::Text,
        ..inner(&["adb", "minikube"], &["shell", "ssh"], &["-s", "-p"], 0)
    },
    wrapper(&["sshpass"], &["-p", "-f", "-d", "-P"], 0),
    wrapper(&["entr"], NONE, 0),
    text(
        &["watch", "gwatch", "viddy", "hwatch"],
        &["-n", "--interval", "-q", "--equexit"],
        0,
    ),
    text(
        &["parallel", "rush", "pssh", "pdsh", "clush"],
        PARALLEL_OPTIONS,
        0,
    ),
    wrapper(
        &["flock"],
        &["-w", "--wait", "--timeout", "-E", "--conflict-exit-code"],
        1,
    ),
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
    inner(CONTAINERS, &["exec"], EXEC_OPTIONS, 1),
    inner(CONTAINERS, &["run"], RUN_OPTIONS, 1),
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
    inner(&["machinectl"], &["shell"], &["-n", "--uid", "-E"], 1),
    CommandWrapper {
        takes: &["-n", "--namespace", "-c", "--container", "--context"],
        skip: 1,
        ..after_dashes(KUBECTL, &["exec"])
    },
    after_dashes(KUBECTL, &["run", "debug"]),
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
            "asdf", "devbox", "guix", "opam", "stack", "rbenv", "pyenv", "nodenv", "volta",
            "rustup",
        ],
        &["exec", "x"],
        NONE,
        0,
    ),
    after_dashes(&["mise", "rtx"], &["exec", "x"]),
    inner(&["rustup"], &["run"], NONE, 1),
    inner(&["git"], &["run"], NONE, 0),
    inner(
        &["gum"],
        &["spin"],
        &["-s", "--spinner", "--title", "--align", "-a", "--timeout"],
        0,
    ),
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
];
