//! Limits of resources, for this process and its children.

use std::fs;

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};

use crate::error::{ErrorContext, Result};
use crate::sandbox::policy::SandboxLimits;

/// Maximum number of open files.
const OPEN_FILES: rlim_t = 8192;

/// How much more readily the kernel ends the command than other processes when memory runs out, of 1000.
const OOM_SCORE: &str = "500";

const MIB: u64 = 1 << 20;

/// Sets the limits; a lower one that is in force stays.
///
/// # Errors
/// The kernel refuses a limit.
pub(super) fn apply(limits: &SandboxLimits, namespaces: bool) -> Result<()> {
    let processes = match namespaces {
        true => Some(limits.processes),
        false => machine_processes().map(|others| others.saturating_add(limits.processes)),
    };
    let memory = limits.memory_mib.map(|mib| mib.saturating_mul(MIB));
    let numbers = [
        (Resource::RLIMIT_CORE, Some(0)),
        (Resource::RLIMIT_NOFILE, Some(OPEN_FILES)),
        (Resource::RLIMIT_NPROC, processes),
        (
            Resource::RLIMIT_FSIZE,
            Some(limits.file_mib.saturating_mul(MIB)),
        ),
        // Not the address space, of which node, go and Java reserve more than there is.
        (Resource::RLIMIT_DATA, memory.or_else(most_of_memory)),
        (Resource::RLIMIT_CPU, limits.cpu_seconds),
        (Resource::RLIMIT_MSGQUEUE, Some(819_200)),
    ];
    for (resource, number) in numbers {
        let Some(number) = number else { continue };
        let what = || "cannot limit the command's resources".to_owned();
        let (_, hard) = getrlimit(resource).context(what)?;
        let number = number.min(hard);
        setrlimit(resource, number, number).context(what)?;
    }
    // A hint to the kernel; without it the command runs as well.
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    Ok(())
}

/// Three quarters of the machine's memory.
fn most_of_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(1024) / 4 * 3)
}

/// Threads of the machine. Without namespaces, those of the user outside the sandbox count towards the limit.
fn machine_processes() -> Option<u64> {
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    // "0.10 0.20 0.30 RUNNING/TOTAL LAST"
    load.split_whitespace()
        .nth(3)?
        .split('/')
        .nth(1)?
        .parse()
        .ok()
}
