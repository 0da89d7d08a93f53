//! Denies system calls with seccomp that Landlock does not cover.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, sock_filter,
};

use crate::error::{ErrorContext, Result};

/// How changes of modes and times are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetadataCalls {
    /// Allowed: outside the workspace, all file systems are read-only.
    Allowed,
    /// Made by the supervisor, which traces the command.
    Traced,
    /// Denied.
    Denied,
}

/// The conditions that the filter depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct FilterScope {
    /// IP sockets are allowed.
    pub network: bool,
    /// Namespaces separate processes and IPC objects from those outside.
    pub namespaces: bool,
    /// Landlock or a namespace keeps signals from processes outside.
    pub signals_are_scoped: bool,
    /// How changes of modes and times are handled.
    pub metadata: MetadataCalls,
}

/// The last system call that this filter knows. Later ones do not exist for the command.
const LAST_KNOWN: u32 = 462;

/// Bit in the number of a system call of the x32 ABI, which other filters do not look for.
#[cfg(target_arch = "x86_64")]
const X32_BIT: u32 = 0x4000_0000;

/// Set-user-id and set-group-id bits of a mode.
const SET_ID_BITS: [u64; 2] = [0o4000, 0o2000];

type RuleMap = BTreeMap<i64, Vec<SeccompRule>>;

/// Applies the filters to this thread and its children.
///
/// # Errors
/// The kernel refuses a filter.
pub(super) fn apply(scope: FilterScope) -> Result<()> {
    let what = || "cannot restrict the command with seccomp".to_owned();
    for program in programs(scope)? {
        apply_filter(&program).context(what)?;
    }
    Ok(())
}

/// Returns the programs, of which the kernel takes the strictest answer.
fn programs(scope: FilterScope) -> Result<Vec<BpfProgram>> {
    let mut programs = vec![number_program()];
    let errno = |number: i32| SeccompAction::Errno(number.unsigned_abs());
    let mut filters = vec![
        (denied(scope)?, errno(libc::EPERM)),
        (missing(), errno(libc::ENOSYS)),
        (unsupported(), errno(libc::EOPNOTSUPP)),
    ];
    if scope.metadata == MetadataCalls::Traced {
        filters.push((unconditional(METADATA), SeccompAction::Trace(1)));
    }
    for (rules, action) in filters {
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, target()?);
        let filter = filter.context(|| "cannot build the seccomp filter".into())?;
        programs.push(
            filter
                .try_into()
                .context(|| "cannot build the seccomp filter".into())?,
        );
    }
    Ok(programs)
}

fn target() -> Result<TargetArch> {
    TargetArch::try_from(std::env::consts::ARCH)
        .context(|| "the sandbox does not support this processor".into())
}

/// Ends processes that use the x32 ABI, and hides system calls that are newer than this filter.
fn number_program() -> BpfProgram {
    let statement = |code: u32, k: u32| sock_filter {
        code: u16::try_from(code).unwrap_or_default(),
        jt: 0,
        jf: 0,
        k,
    };
    let jump = |code: u32, k: u32, jt: u8, jf: u8| sock_filter {
        jt,
        jf,
        ..statement(code, k)
    };
    let at_least = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
    let ret = libc::BPF_RET | libc::BPF_K;
    let missing = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    let mut program = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    #[cfg(target_arch = "x86_64")]
    program.extend([
        jump(at_least, X32_BIT, 0, 1),
        statement(ret, libc::SECCOMP_RET_KILL_PROCESS),
    ]);
    program.extend([
        jump(at_least, LAST_KNOWN + 1, 0, 1),
        statement(ret, missing),
        statement(ret, libc::SECCOMP_RET_ALLOW),
    ]);
    program
}

/// Never needed by ordinary programs: other processes, mounts, namespaces, the kernel, the clock.
const DENIED: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_migrate_pages,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_move_pages,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// IPC objects that programs outside can reach; denied where no namespace separates them.
const SHARED_IPC: &[i64] = &[
    libc::SYS_mq_getsetattr,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_msgctl,
    libc::SYS_msgget,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_semctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_shmget,
];

/// Changes of modes and times.
pub(super) const METADATA: &[i64] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_utimensat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
];

/// Changes of owners.
const OWNERS: &[i64] = &[
    libc::SYS_fchown,
    libc::SYS_fchownat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
];

/// Functions of terminals that have an effect outside: input typed into a terminal, consoles, line disciplines, the controlling
/// terminal, the size, which signals the programs outside, exclusive use and stopped output.
const IOCTLS: &[u64] = &[
    libc::TIOCSTI,
    libc::TIOCLINUX,
    libc::TIOCSETD,
    libc::TIOCSCTTY,
    libc::TIOCCONS,
    libc::TIOCSWINSZ,
    libc::TIOCEXCL,
    libc::TCXONC,
];

/// Groups of functions of file systems, by the second byte of the number, and which of their functions only read, or copy between
/// files that are open for it. The others change inodes, also through a descriptor that cannot write.
const FILE_SYSTEM_IOCTLS: &[(u64, &[u64])] = &[
    // ext4 and others: FS_IOC_GETFLAGS, FS_IOC32_GETFLAGS, FS_IOC_FIEMAP.
    (0x66, &[0x8008_6601, 0x8004_6601, 0xc020_660b]),
    // FS_IOC_GETVERSION, FS_IOC32_GETVERSION.
    (0x76, &[0x8008_7601, 0x8004_7601]),
    // FS_IOC_FSGETXATTR.
    (0x58, &[0x801c_581f]),
    // Btrfs: FICLONE, FICLONERANGE, FIDEDUPERANGE.
    (0x94, &[0x4004_9409, 0x4020_940d, 0xc018_9436]),
];

/// Flag of `clone` that keeps a child from being traced.
const CLONE_UNTRACED: u64 = 0x0080_0000;

/// Flag of `open` that makes a file without a name.
const O_TMPFILE: u64 = 0o2000_0000;

/// Access mode of `open` for neither reading nor writing, which Landlock allows for files that may not be read.
const NO_ACCESS: u64 = 3;

/// Flags of `clone` that make namespaces.
const NAMESPACE_FLAGS: &[i32] = &[
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

fn unconditional(calls: &[i64]) -> RuleMap {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

/// System calls that fail with EPERM.
fn denied(scope: FilterScope) -> Result<RuleMap> {
    let mut rules = unconditional(DENIED);
    for ioctl in IOCTLS {
        // The kernel looks at 32 bits of the number, so the filter must too (CVE-2019-7303).
        let function = condition(1, SeccompCmpOp::Eq, *ioctl)?;
        add(&mut rules, libc::SYS_ioctl, vec![function])?;
    }
    for (group, harmless) in FILE_SYSTEM_IOCTLS {
        let others = SeccompCmpOp::MaskedEq(0xff00);
        let mut conditions = vec![condition(1, others, group << 8)?];
        for ioctl in *harmless {
            conditions.push(condition(1, SeccompCmpOp::Ne, *ioctl)?);
        }
        add(&mut rules, libc::SYS_ioctl, conditions)?;
    }
    let namespaces = NAMESPACE_FLAGS.iter();
    let namespaces = namespaces.map(|flag| u64::from(flag.unsigned_abs()));
    for flag in namespaces.chain([CLONE_UNTRACED]) {
        let condition = condition(0, SeccompCmpOp::MaskedEq(flag), flag)?;
        add(&mut rules, libc::SYS_clone, vec![condition])?;
    }
    special_files(&mut rules)?;
    // Leases delay programs outside that open a file which the command may only read.
    let lease = u64::from(libc::F_SETLEASE.unsigned_abs());
    let lease = condition(1, SeccompCmpOp::Eq, lease)?;
    add(&mut rules, libc::SYS_fcntl, vec![lease])?;
    // The answer of a listener counts more than the tracer of this filter, which would not see the calls that it lets continue.
    let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let listener = condition(1, SeccompCmpOp::MaskedEq(listener), listener)?;
    add(&mut rules, libc::SYS_seccomp, vec![listener])?;
    sockets(&mut rules, scope.network)?;
    if !scope.namespaces {
        rules.extend(unconditional(SHARED_IPC));
        rules.extend(unconditional(OWNERS));
        other_processes(&mut rules)?;
    }
    if scope.metadata == MetadataCalls::Denied {
        rules.extend(unconditional(METADATA));
    }
    if !scope.signals_are_scoped {
        let others = condition(0, SeccompCmpOp::Ne, 0)?;
        add(&mut rules, libc::SYS_kill, vec![others])?;
        rules.extend(unconditional(&[
            libc::SYS_pidfd_send_signal,
            libc::SYS_rt_sigqueueinfo,
            libc::SYS_rt_tgsigqueueinfo,
            libc::SYS_tkill,
        ]));
    }
    Ok(rules)
}

/// Programs with set-user-id or set-group-id, as which another user could run them, and files that are opened without access.
fn special_files(rules: &mut RuleMap) -> Result<()> {
    let create = u64::from(libc::O_CREAT.unsigned_abs());
    let mut mode_arguments = vec![
        (libc::SYS_fchmod, 1, None),
        (libc::SYS_fchmodat, 2, None),
        (libc::SYS_fchmodat2, 2, None),
        (libc::SYS_mknodat, 2, None),
        (libc::SYS_openat, 3, Some(2)),
    ];
    #[cfg(target_arch = "x86_64")]
    mode_arguments.extend([
        (libc::SYS_chmod, 1, None),
        (libc::SYS_creat, 1, None),
        (libc::SYS_mknod, 1, None),
        (libc::SYS_open, 2, Some(1)),
    ]);
    for (call, mode, flags) in mode_arguments {
        if let Some(flags) = flags {
            let mode = SeccompCmpOp::MaskedEq(NO_ACCESS);
            add(rules, call, vec![condition(flags, mode, NO_ACCESS)?])?;
        }
        for bit in SET_ID_BITS {
            let has_bit = condition(mode, SeccompCmpOp::MaskedEq(bit), bit)?;
            let Some(flags) = flags else {
                add(rules, call, vec![has_bit])?;
                continue;
            };
            for flag in [create, O_TMPFILE] {
                let makes = condition(flags, SeccompCmpOp::MaskedEq(flag), flag)?;
                add(rules, call, vec![has_bit.clone(), makes])?;
            }
        }
    }
    Ok(())
}

/// Sockets: none, or those of IP. Unix sockets reach the daemon, ssh-agent, docker and tmux; pairs reach nothing, but those of
/// datagrams can be sent anywhere.
fn sockets(rules: &mut RuleMap, network: bool) -> Result<()> {
    let domain = |value: i32| condition(0, SeccompCmpOp::Ne, u64::from(value.unsigned_abs()));
    if network {
        let others = vec![domain(libc::AF_INET)?, domain(libc::AF_INET6)?];
        add(rules, libc::SYS_socket, others)?;
    } else {
        rules.insert(libc::SYS_socket, Vec::new());
    }
    add(rules, libc::SYS_socketpair, vec![domain(libc::AF_UNIX)?])?;
    for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
        let kind = u64::from(kind.unsigned_abs());
        let datagrams = condition(1, SeccompCmpOp::MaskedEq(0xf), kind)?;
        add(rules, libc::SYS_socketpair, vec![datagrams])?;
    }
    Ok(())
}

/// Limits and priorities of other processes, by their id. For a process and for a group, 0 is the caller's own; for a user, it
/// means all processes of the caller's user.
fn other_processes(rules: &mut RuleMap) -> Result<()> {
    const IOPRIO_WHO_USER: u64 = 3;

    for (call, user) in [
        (libc::SYS_setpriority, u64::from(libc::PRIO_USER)),
        (libc::SYS_ioprio_set, IOPRIO_WHO_USER),
    ] {
        add(rules, call, vec![condition(0, SeccompCmpOp::Eq, user)?])?;
    }
    for (call, argument) in [
        (libc::SYS_prlimit64, 0),
        (libc::SYS_setpriority, 1),
        (libc::SYS_ioprio_set, 1),
        (libc::SYS_sched_setaffinity, 0),
        (libc::SYS_sched_setattr, 0),
        (libc::SYS_sched_setparam, 0),
        (libc::SYS_sched_setscheduler, 0),
    ] {
        let others = condition(argument, SeccompCmpOp::Ne, 0)?;
        add(rules, call, vec![others])?;
    }
    Ok(())
}

/// System calls that programs can do without: their arguments are in memory, where a filter cannot look, or they have effects
/// that filters do not see.
fn missing() -> RuleMap {
    unconditional(&[
        libc::SYS_clone3,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_io_uring_setup,
        libc::SYS_openat2,
    ])
}

/// Extended attributes.
fn unsupported() -> RuleMap {
    unconditional(&[
        libc::SYS_fremovexattr,
        libc::SYS_fsetxattr,
        libc::SYS_lremovexattr,
        libc::SYS_lsetxattr,
        libc::SYS_removexattr,
        libc::SYS_setxattr,
    ])
}

fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
        .context(|| "cannot build the seccomp filter".into())
}

/// Adds a rule: the call is denied if all conditions hold.
fn add(rules: &mut RuleMap, call: i64, conditions: Vec<SeccompCondition>) -> Result<()> {
    let rule = SeccompRule::new(conditions).context(|| "cannot build the seccomp filter".into())?;
    let conditional = rules.entry(call).or_default();
    conditional.push(rule);
    Ok(())
}
