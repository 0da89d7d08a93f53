//! The sandbox of macOS: `sandbox-exec` with a profile. Untested: written from its documentation, without a Mac at hand.
//!
//! The process becomes `sandbox-exec`, without a supervisor. So it sets no limits, closes no descriptors, and reports no changed
//! files.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::path_rules::PathRules;
use super::places::Places;
use super::{SandboxInvocation, SandboxLevel, SandboxOutcome, SandboxSupport, not_run};
use crate::error::{ErrorContext, Result};
use crate::safety::protected_paths::{GIT_SETTINGS, PROJECT_PLACES};

/// Part of macOS; deprecated there, but without a successor for programs of others.
const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";

/// Runs the command.
///
/// # Errors
/// A directory of the policy cannot be opened.
pub(super) fn run(mut invocation: SandboxInvocation) -> Result<SandboxOutcome> {
    let policy = &mut invocation.policy;
    let resolve = |path: &Path| {
        path.canonicalize()
            .context(|| format!("cannot open {}", path.display()))
    };
    policy.dir = resolve(&policy.dir)?;
    for path in policy.write.iter_mut().chain(&mut policy.read) {
        *path = resolve(path)?;
    }
    if invocation.command.is_empty() {
        return Ok(outcome(0, Vec::new()));
    }
    let tmp = std::env::temp_dir().join(format!("aish-sandbox-{}", std::process::id()));
    std::fs::create_dir(&tmp).context(|| format!("cannot create {}", tmp.display()))?;
    policy.private_tmp = Some(resolve(&tmp)?);
    policy.read.extend(invocation.programs.iter().cloned());
    if policy.level == SandboxLevel::Workspace {
        let dirs: Vec<PathBuf> = policy.write.iter().chain([&policy.dir]).cloned().collect();
        let places = Places::find(&dirs, policy.home.as_deref(), &invocation.programs);
        policy.guarded = places.to_guard(&dirs);
    }
    let mut command = Command::new(SANDBOX_EXEC);
    command
        .arg("-p")
        .arg(profile(&PathRules::new(policy), policy.network))
        .args(&invocation.command)
        .env_clear()
        .envs(invocation.environment.iter().cloned())
        .env("TMPDIR", &tmp)
        .envs(policy.variables.iter().cloned());
    // Returns only if it fails.
    let e = command.exec();
    let (code, notice) = not_run(&invocation.command, &e);
    Ok(outcome(code, vec![notice]))
}

fn outcome(code: u8, notices: Vec<String>) -> SandboxOutcome {
    SandboxOutcome {
        code,
        notices,
        support: SandboxSupport::default(),
    }
}

/// Returns the profile: the last rule that matches counts.
fn profile(rules: &PathRules, network: bool) -> String {
    let mut profile = String::from(
        "(version 1)\n(deny default)\n(import \"system.sb\")\n(allow process-exec process-fork)\n(allow signal (target same-sandbox))\n\
         (allow sysctl-read)\n(allow file-read-metadata)\n",
    );
    let mut rule = |verb: &str, path: &Path| {
        profile.push_str(&format!("({verb} (subpath {}))\n", quoted(path)));
    };
    for path in &rules.read {
        rule("allow file-read*", path);
    }
    for path in ["/System", "/Library", "/private/etc"] {
        rule("allow file-read*", Path::new(path));
    }
    for path in rules.write.iter().chain(&rules.devices) {
        rule("allow file-read* file-write*", path);
    }
    for dir in &rules.write {
        let settings = GIT_SETTINGS.iter().map(|name| dir.join(".git").join(name));
        let cargo_and_mise = [
            ".cargo/config",
            ".cargo/config.toml",
            "mise.toml",
            ".mise.toml",
        ];
        for path in PROJECT_PLACES
            .iter()
            .chain(&cargo_and_mise)
            .map(|name| dir.join(name))
            .chain(settings)
        {
            rule("deny file-write*", &path);
        }
    }
    for path in &rules.guarded {
        rule("deny file-write*", path);
    }
    for path in &rules.hidden {
        rule("deny file-read* file-write*", path);
    }
    for path in &rules.shown {
        rule("allow file-read*", path);
    }
    if network {
        profile
            .push_str("(allow network-outbound (remote ip))\n(allow network-inbound (local ip))\n");
    }
    profile
}

fn quoted(path: &Path) -> String {
    let text = path
        .to_string_lossy()
        .replace('\\', "\\\\")
        .replace('"', "\\\"");
    format!("\"{text}\"")
}
