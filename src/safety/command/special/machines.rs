//! Programs that run commands on other machines.

use super::{CallOutcome, Findings, InnerCommand, ProgramCall};
use crate::safety::command::class::CommandClass::{Network, Unknown};

/// Modules of ansible that only look.
const LOOKS: [&str; 12] = [
    "debug",
    "find",
    "gather_facts",
    "getent",
    "package_facts",
    "ping",
    "service_facts",
    "setup",
    "slurp",
    "stat",
    "wait_for",
    "win_ping",
];

/// Judges ansible and salt.
pub fn judge(call: &ProgramCall<'_>, findings: &mut Findings) -> CallOutcome {
    let list = call.list();
    findings.add(Network, "");
    let mut outcome = CallOutcome::complete();
    let is_harmless = match call.name {
        "ansible" => {
            let module = call
                .option_value(&["-m", "--module-name"])
                .unwrap_or("command");
            let module = module.rsplit('.').next().unwrap_or(module);
            let text = call.option_value(&["-a", "--args"]).unwrap_or_default();
            let runs = matches!(module, "command" | "shell" | "raw");
            if runs {
                outcome.inner.push(InnerCommand::Text(text.to_owned()));
            }
            runs || LOOKS.contains(&module) || list.has_any(&["--list-hosts", "--version"])
        }
        "salt" => list.operands.iter().any(|operand| {
            matches!(
                *operand,
                "test.ping" | "test.version" | "grains.items" | "grains.get"
            )
        }),
        _ => list.has_any(&[
            "--check",
            "-C",
            "--syntax-check",
            "--list-hosts",
            "--list-tasks",
            "--list-tags",
            "--version",
            "--help",
        ]),
    };
    if !is_harmless {
        let reason = format!("what {} runs on other machines is not known", call.name);
        findings.add(Unknown, reason);
    }
    outcome
}

/// Scripts and categories of scripts of nmap that only look.
const SCRIPTS: [&str; 14] = [
    "banner",
    "default",
    "discovery",
    "dns-nsid",
    "http-headers",
    "http-robots.txt",
    "http-server-header",
    "http-title",
    "safe",
    "ssh-hostkey",
    "ssh2-enum-algos",
    "ssl-cert",
    "ssl-enum-ciphers",
    "version",
];

/// Judges the scripts of nmap.
pub fn nmap(call: &ProgramCall<'_>, findings: &mut Findings) -> CallOutcome {
    let options = super::find_values(call, &["-script"], true);
    let mut scripts = options.iter().flat_map(|scripts| scripts.split(','));
    if !scripts.all(|script| SCRIPTS.contains(&script)) {
        findings.add(Unknown, "nmap runs scripts that are not known");
    }
    CallOutcome::default()
}
