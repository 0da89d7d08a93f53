//! Programs that change file systems and the kernel.

use super::{CallOutcome, CommandPlace, Findings, ProgramCall};
use crate::safety::command::class::CommandClass::{Destroys, Reads, Writes};
use crate::safety::command::targets::normalize;
use crate::safety::command::word::UNKNOWN;

/// Judges `mount`.
pub fn mount(
    call: &ProgramCall<'_>,
    place: &CommandPlace<'_>,
    findings: &mut Findings,
) -> CallOutcome {
    let list = call.list();
    let changes = [
        "-a",
        "--all",
        "-B",
        "--bind",
        "-R",
        "--rbind",
        "-M",
        "--move",
        "--make-shared",
        "--make-slave",
        "--make-private",
        "--make-unbindable",
        "--make-rshared",
        "--make-rslave",
        "--make-rprivate",
        "--make-runbindable",
    ];
    let settings = call.option_values(&["-o", "--options"]);
    let mut settings = settings.iter().flat_map(|settings| settings.split(','));
    let remounts = settings.any(|setting| {
        let name = setting.split('=').next().unwrap_or_default();
        matches!(
            name,
            "remount" | "bind" | "rbind" | "move" | "suid" | "dev" | "helper" | "upperdir"
        )
    });
    let target = list.operands.last().copied();
    let hides = target.is_some_and(|target| {
        let full = normalize(target, place.cwd);
        let is_homes = matches!(full.as_str(), "/home" | "/Users" | "/var" | "/opt" | "/srv");
        is_homes
            || target.contains(UNKNOWN)
            || place.protected(target).is_some()
            || place.holds_own(&full)
    });
    let only_prints = list.operands.is_empty() && !list.has_any(&["-a", "--all"]);
    match (only_prints, remounts || list.has_any(&changes) || hides) {
        (true, _) => findings.add(Reads, ""),
        (false, true) => findings.add_grave(
            Destroys,
            "changes how file systems are mounted, or hides files of the system",
        ),
        (false, false) => findings.add(Writes, ""),
    }
    CallOutcome::complete()
}

/// Judges `nft`, whose commands may be in one argument.
pub fn nft(call: &ProgramCall<'_>) -> CallOutcome {
    let words = call
        .arguments
        .iter()
        .flat_map(|argument| argument.split([' ', ';', '\n']))
        .filter(|word| !word.is_empty());
    CallOutcome {
        rewritten: Some(("nft", words.map(str::to_owned).collect())),
        ..CallOutcome::default()
    }
}

/// Judges `ldd`, which may run the programs that it looks at.
pub fn ldd(call: &ProgramCall<'_>) -> CallOutcome {
    let programs = call.list().operands.into_iter().map(|path| {
        let path = match path.contains('/') || path.starts_with(UNKNOWN) {
            true => path.to_owned(),
            false => format!("./{path}"),
        };
        super::InnerCommand::Arguments(vec![path])
    });
    CallOutcome {
        inner: programs.collect(),
        ..CallOutcome::default()
    }
}
