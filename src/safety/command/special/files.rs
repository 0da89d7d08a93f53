//! Programs that delete, copy or write files.

use super::{CallOutcome, CommandPlace, Findings, ProgramCall};
use crate::safety::command::class::CommandClass::{Destroys, Reads, Writes};
use crate::safety::command::targets::{PathReach, is_device, is_secret, is_sink, written};

pub(super) const CHANGES_OWNERS: &str =
    "changes the permissions or owners of the system or the home directory";

/// Judges programs that delete files.
pub fn delete(
    call: &ProgramCall<'_>,
    place: &CommandPlace<'_>,
    findings: &mut Findings,
) -> CallOutcome {
    let list = call.list();
    if list.has_any(&["--help", "--version"]) && list.operands.is_empty() {
        return CallOutcome::default();
    }
    let is_recursive = list.has_any(&["-r", "-R", "--recursive"]);
    let reaches = list.operands.iter().map(|path| call.reach(path, place));
    let mut reach = reaches.max();
    if call.is_fed {
        reach = reach.max(Some(PathReach::Unknown));
    }
    let verb = match call.name {
        "shred" | "srm" | "wipe" => "overwrites",
        _ => "deletes",
    };
    let what = match (call.name, is_recursive) {
        ("rmdir", _) => "directories",
        (_, true) => "files recursively",
        (_, false) => "files",
    };
    let device = list.operands.iter().any(|path| is_device(path));
    match reach {
        _ if device => findings.add_grave(Destroys, format!("{verb} a device")),
        Some(PathReach::Everything) => findings.add_grave(
            Destroys,
            format!(
                "{verb} {what} of the system, the home directory or a parent of this directory"
            ),
        ),
        Some(PathReach::Unknown) => findings.add_grave(
            Destroys,
            format!("{verb} {what} at a place that is not known in advance"),
        ),
        Some(PathReach::Whole) if is_recursive || call.name == "rmdir" => {
            findings.add_grave(Destroys, format!("{verb} all of this directory"))
        }
        Some(PathReach::Whole) => {
            findings.add_grave(Destroys, format!("{verb} all files of this directory"))
        }
        Some(PathReach::Outside) => {
            findings.add_grave(Destroys, format!("{verb} {what} outside this directory"))
        }
        Some(PathReach::Inside) | None => findings.add(Destroys, format!("{verb} {what}")),
    }
    CallOutcome::complete()
}

/// Judges `cp`, `mv`, `ln` and `install`.
pub fn copy(
    call: &ProgramCall<'_>,
    place: &CommandPlace<'_>,
    findings: &mut Findings,
) -> CallOutcome {
    let list = call.list();
    let directory = call.option_value(&["-t", "--target-directory"]);
    let (sources, target) = match (directory, list.operands.split_last()) {
        (Some(directory), _) => (list.operands.as_slice(), directory),
        (None, Some((target, sources))) => (sources, *target),
        (None, None) => return CallOutcome::default(),
    };
    if list.has("--remove-destination") {
        findings.add(Destroys, "deletes files before it copies");
    }
    let mode = call.option_value(&["-m", "--mode"]);
    if call.name == "install" && mode.is_some_and(sets_id) {
        findings.add(Destroys, "makes a program run with the rights of its owner");
    }
    let moves = call.name.ends_with("mv");
    let is_null = target == "/dev/null";
    if moves && is_null {
        findings.add_grave(Destroys, "moves files to /dev/null, which deletes them");
    } else if moves
        && sources
            .iter()
            .any(|path| call.reach(path, place) == PathReach::Everything)
    {
        findings.add_grave(
            Destroys,
            "moves the system, the home directory or a parent of this directory",
        );
    } else if !moves && sources.contains(&"/dev/null") {
        findings.add(Destroys, "empties a file");
    } else if !moves && call.name != "ln" && sources.iter().any(|path| is_endless(path)) {
        findings.add(Destroys, "overwrites a file with meaningless data");
    }
    if moves {
        for path in sources {
            if place
                .protected(path)
                .is_some_and(|reason| reason == "changes files of the system")
            {
                findings.add_grave(Destroys, "changes files of the system");
            }
        }
    }
    if !is_null {
        written(target, place, findings);
        let into = sources.iter().filter_map(|path| path.rsplit('/').next());
        let last = target.rsplit('/').next().unwrap_or_default();
        // A copy into a directory keeps the name; `a.bak` is a copy of `a`, not a directory.
        for name in into.filter(|name| name.is_empty() || !last.starts_with(name)) {
            written(&format!("{target}/{name}"), place, findings);
        }
    }
    CallOutcome::default()
}

/// Whether a device gives data without end that mean nothing.
fn is_endless(path: &str) -> bool {
    matches!(
        path,
        "/dev/zero" | "/dev/full" | "/dev/random" | "/dev/urandom"
    )
}

/// Judges `tee` and other programs that write to their operands.
pub fn write(
    call: &ProgramCall<'_>,
    place: &CommandPlace<'_>,
    findings: &mut Findings,
) -> CallOutcome {
    let list = call.list();
    if call.is_fed && matches!(call.name, "tee" | "sponge") && !list.has_any(&["-a", "--append"]) {
        findings.add(Destroys, "overwrites files that are not known in advance");
    }
    for path in list.operands {
        written(path, place, findings);
    }
    CallOutcome::default()
}

/// Judges `mkdir`: only a directory of the system is more than a place for files.
pub fn make_directory(
    call: &ProgramCall<'_>,
    place: &CommandPlace<'_>,
    findings: &mut Findings,
) -> CallOutcome {
    let reasons = call.list().operands.into_iter();
    let mut reasons = reasons.filter_map(|path| place.protected(path));
    if reasons.any(|reason| reason == "changes files of the system") {
        findings.add_grave(Destroys, "changes files of the system");
    }
    CallOutcome::default()
}

/// Judges `dd`.
pub fn dd(
    call: &ProgramCall<'_>,
    place: &CommandPlace<'_>,
    findings: &mut Findings,
) -> CallOutcome {
    let target = call
        .arguments
        .iter()
        .find_map(|argument| argument.strip_prefix("of="));
    match target {
        Some(path) if path.contains(super::super::word::UNKNOWN) => {
            findings.add_grave(Destroys, "writes to a place that is not known in advance")
        }
        Some(path) => {
            let empties = ["if=/dev/null", "count=0"];
            // With an offset, count=0 makes a sparse file longer.
            let is_longer = call.arguments.iter().any(|a| a.starts_with("seek="));
            let is_empty =
                !is_longer && call.arguments.iter().any(|a| empties.contains(&a.as_str()));
            if is_empty && !is_sink(path) {
                findings.add(Destroys, "empties a file");
            }
            let mut settings = call
                .arguments
                .iter()
                .filter_map(|a| a.strip_prefix("conv="));
            let keeps_rest = settings.any(|setting| setting.split(',').any(|s| s == "notrunc"));
            if keeps_rest && !is_sink(path) && !is_device(path) {
                findings.add(Destroys, "overwrites a part of a file");
            }
            written(path, place, findings);
        }
        None => findings.add(Reads, ""),
    }
    CallOutcome::complete()
}

/// Judges `truncate`, which only makes files longer with `+`.
pub fn truncate(call: &ProgramCall<'_>, findings: &mut Findings) -> CallOutcome {
    let grows = call
        .option_value(&["-s", "--size"])
        .is_some_and(|size| size.starts_with('+'));
    match grows {
        true => findings.add(Writes, ""),
        false => findings.add(Destroys, "cuts files off"),
    }
    CallOutcome::complete()
}

/// Judges `chmod` and `chown`.
pub fn permissions(
    call: &ProgramCall<'_>,
    place: &CommandPlace<'_>,
    findings: &mut Findings,
) -> CallOutcome {
    let list = call.list();
    let is_recursive = list.has_any(&["-R", "--recursive"]);
    // `chmod -x FILE`
    let is_mode = |option: &&&str| {
        let letters = option.trim_start_matches('-');
        letters.chars().all(|c| "rwxXst".contains(c))
    };
    let removed = list.options.iter().find(is_mode);
    let removed = removed.filter(|_| call.name == "chmod").copied();
    let mode = removed.or(list.operands.first().copied());
    let mode = mode.unwrap_or_default();
    if call.name == "chmod" && sets_id(mode) {
        findings.add(Destroys, "makes a program run with the rights of its owner");
    }
    let modes = usize::from(removed.is_none());
    let paths = list.operands.get(modes..).unwrap_or_default();
    let reach = paths.iter().map(|path| call.reach(path, place)).max();
    let here = paths.iter().map(|path| place.reach(path)).max();
    if is_recursive && reach > Some(PathReach::Whole) {
        findings.add_grave(Destroys, CHANGES_OWNERS);
    }
    let mut reasons = paths.iter().filter_map(|path| place.protected(path));
    let is_system = reasons.any(|reason| reason == "changes files of the system");
    if is_system {
        findings.add_grave(Destroys, "changes files of the system");
    }
    let opens = |path: &&&str| opens(mode, is_secret(path)) && place.protected(path).is_some();
    if call.name == "chmod" && !is_system && paths.iter().any(|path| opens(&path)) {
        findings.add_grave(
            Destroys,
            "lets others change or read a file that runs later or that holds keys",
        );
    }
    // As `-R` does, for the files of a search.
    let is_open = |bits: u32| bits & 0o002 != 0;
    if call.is_fed && call.name == "chmod" && u32::from_str_radix(mode, 8).is_ok_and(is_open) {
        findings.add(Destroys, "lets others change all files that it is given");
    }
    // What a mode adds, and the owner below a directory of the project, can be changed back.
    let adds = mode.split(',').all(|part| {
        let (who, added) = part.split_once('+').unwrap_or((part, "-"));
        let is_open = who.is_empty() || who.contains(['o', 'a']);
        who.chars().all(|c| "ugoa".contains(c))
            && added
                .chars()
                .all(|c| matches!(c, 'r' | 'x' | 'X') || c == 'w' && !is_open)
    });
    // Subshells are not told apart: `(cd a; ls); chmod …`.
    let is_inside = reach == Some(PathReach::Inside) && here == reach;
    if is_recursive && is_inside && !call.is_fed && !is_system && (call.name != "chmod" || adds) {
        findings.add(Writes, "");
        return CallOutcome::complete();
    }
    CallOutcome::default()
}

/// Whether a mode lets others change a file, or read one that is secret.
fn opens(mode: &str, is_secret: bool) -> bool {
    match u32::from_str_radix(mode, 8) {
        Ok(bits) => bits & if is_secret { 0o077 } else { 0o022 } != 0,
        Err(_) => mode.split(',').any(|part| {
            let added = part.split_once(['+', '=']);
            added.is_some_and(|(who, added)| {
                let others = who.contains(['g', 'o', 'a']);
                others && (added.contains('w') || is_secret && added.contains('r'))
            })
        }),
    }
}

/// Whether a mode makes a program run with the rights of its owner or group.
fn sets_id(mode: &str) -> bool {
    match mode.chars().all(|c| c.is_digit(8)) {
        true => {
            let special = u32::from_str_radix(mode, 8).unwrap_or_default() >> 9;
            special & 0o6 != 0
        }
        false => mode.split(',').any(|part| {
            let added = part.split_once(['+', '=']).map(|(_, added)| added);
            added.is_some_and(|added| added.contains('s'))
        }),
    }
}

/// Judges `kill`.
pub fn kill(call: &ProgramCall<'_>, findings: &mut Findings) -> CallOutcome {
    let arguments: Vec<String> = call
        .arguments
        .iter()
        .map(|argument| argument.to_ascii_uppercase())
        .collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let signal = arguments.first().map(String::as_str).unwrap_or_default();
    let is_listing = signal.starts_with("-L") || signal == "-0" || has("--LIST");
    let kills = ["-9", "-KILL", "-SIGKILL", "KILL", "SIGKILL"]
        .iter()
        .any(|name| has(name))
        || has("-S") && has("9")
        || has("-N") && has("9");
    // The process -1 means all of them, and 1 the first.
    let processes = arguments.iter().skip(usize::from(signal.starts_with('-')));
    let mut all = processes.filter(|argument| matches!(argument.as_str(), "-1" | "1" | "0"));
    let sent = signal.strip_prefix('-').unwrap_or_default();
    let sent = sent.strip_prefix("SIG").unwrap_or(sent);
    let is_notice = [
        "HUP", "USR1", "USR2", "WINCH", "STOP", "CONT", "TSTP", "1", "10", "12",
    ]
    .contains(&sent);
    let all = all.next().map(String::as_str);
    match (is_listing, all, kills) {
        (true, ..) => findings.add(Reads, ""),
        _ if is_notice && all != Some("-1") => findings.add(Writes, ""),
        (_, Some(_), _) => findings.add_grave(Destroys, "ends all processes"),
        (_, _, true) => findings.add(Destroys, "kills processes, which lose what is not saved"),
        _ if call.is_fed => findings.add(Destroys, "ends processes that are not known in advance"),
        _ => findings.add(Writes, ""),
    }
    CallOutcome::complete()
}
