//! The table of programs that run a command in another place, as another user or later.

use super::table::{NONE, after_dashes, inner, wrapper};
use super::{CommandWrapper, WrappedForm};

pub(super) static RUNNERS: &[CommandWrapper] = &[
    // The other machine has a shell.
    CommandWrapper {
        form: WrappedForm::Text,
        ..inner(
            &["heroku", "fly", "flyctl", "railway", "dokku"],
            &["run"],
            &["--app", "-a", "-s"],
            0,
        )
    },
    wrapper(&["gosu", "su-exec", "setuidgid", "setlock"], NONE, 1),
    wrapper(
        &["chpst", "cgexec"],
        &["-u", "-U", "-g", "-e", "-m", "-/"],
        0,
    ),
    wrapper(
        &["mpirun", "mpiexec", "orterun", "srun", "salloc"],
        &[
            "-n",
            "-np",
            "-N",
            "--hostfile",
            "-H",
            "-host",
            "--host",
            "-x",
            "-p",
            "--partition",
            "-t",
            "--time",
            "-c",
            "-A",
            "-w",
        ],
        0,
    ),
    wrapper(
        &[
            "flatpak-spawn",
            "nq",
            "tsp",
            "daemonize",
            "dumb-init",
            "tini",
            "proot",
            "fakechroot",
            "uftrace",
            "lima",
        ],
        &["-s", "-b", "-w", "-r", "-o", "-p"],
        0,
    ),
    wrapper(
        &["systemd-nspawn"],
        &["-D", "--directory", "-M", "--machine", "-u", "--user"],
        0,
    ),
    after_dashes(&["schroot", "distrobox-enter"], NONE),
    after_dashes(&["distrobox"], &["enter"]),
    after_dashes(&["dapr"], &["run"]),
    inner(
        &["limactl", "multipass", "docker-machine", "tsh", "tailscale"],
        &["shell", "exec", "ssh"],
        &["-l", "--workdir"],
        1,
    ),
    inner(&["colima", "pueue"], &["ssh", "add"], &["-p", "-g"], 0),
    inner(
        &["toolbox", "foreman", "honcho"],
        &["run"],
        &["-c", "-e", "-f", "--env", "--container"],
        0,
    ),
    inner(&["oc"], &["rsh"], &["-n", "-c", "--shell"], 1),
    inner(&["nomad"], &["alloc"], &["-task", "-job"], 2),
    inner(&["cabal"], &["exec"], NONE, 0),
];
