//! Programs that delete, copy, write or search files.

use super::{CallOutcome, CommandPlace, Findings, InnerCommand, ProgramCall};
use crate::safety::command::class::CommandClass::{Destroys, Reads, Unknown, Writes};
use crate::safety::command::programs::ArgumentList;
use crate::safety::command::targets::{PathReach, build_file, is_device};

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
    let mut reach = list.operands.iter().map(|path| place.reach(path)).max();
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
                "{verb} {what} of the system, the home directory or what contains this directory"
            ),
        ),
        Some(PathReach::Unknown) => findings.add_grave(
            Destroys,
            format!("{verb} {what} at a place that is not known before it runs"),
        ),
        Some(PathReach::Whole) => {
            findings.add_grave(Destroys, format!("{verb} all of this directory"))
        }
        Some(PathReach::Outside) => {
            findings.add_grave(Destroys, format!("{verb} {what} outside this directory"))
        }
        Some(PathReach::Inside) | None => findings.add(Destroys, format!("{verb} {what}")),
    }
    CallOutcome::complete()
}

/// Adds a finding for a file that is written.
fn written(path: &str, place: &CommandPlace<'_>, findings: &mut Findings) {
    match (place.protected(path), build_file(path)) {
        (Some(reason), _) => findings.add_grave(Destroys, reason),
        (None, Some(name)) => findings.add(Writes, format!("writes {name}, which tools run later")),
        (None, None) => findings.add(Writes, ""),
    }
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
    let moves = call.name.ends_with("mv");
    let is_null = target == "/dev/null";
    if moves && is_null {
        findings.add_grave(Destroys, "moves files to /dev/null, which deletes them");
    } else if moves
        && sources
            .iter()
            .any(|path| place.reach(path) == PathReach::Everything)
    {
        findings.add_grave(
            Destroys,
            "moves the system, the home directory or what contains this directory",
        );
    } else if !moves && sources.contains(&"/dev/null") {
        findings.add(Destroys, "empties a file");
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
        for name in into {
            // A copy into a directory keeps the name.
            written(&format!("{target}/{name}"), place, findings);
        }
    }
    CallOutcome::default()
}

/// Judges `tee` and other programs that write to their operands.
pub fn write(
    call: &ProgramCall<'_>,
    place: &CommandPlace<'_>,
    findings: &mut Findings,
) -> CallOutcome {
    for path in call.list().operands {
        written(path, place, findings);
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
        Some(path) if path.contains(super::super::word::UNKNOWN) => findings.add_grave(
            Destroys,
            "writes to a place that is not known before it runs",
        ),
        Some(path) => written(path, place, findings),
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
    let paths = list.operands.get(1..).unwrap_or_default();
    let reach = paths.iter().map(|path| place.reach(path)).max();
    if is_recursive && reach > Some(PathReach::Whole) {
        findings.add_grave(
            Destroys,
            "changes the permissions or owners of the system or the home directory",
        );
    }
    if paths
        .iter()
        .any(|path| place.protected(path) == Some("changes files of the system"))
    {
        findings.add_grave(Destroys, "changes files of the system");
    }
    CallOutcome::default()
}

/// Judges `find`: `-delete`, and the commands of `-exec`.
pub fn find(
    call: &ProgramCall<'_>,
    place: &CommandPlace<'_>,
    findings: &mut Findings,
) -> CallOutcome {
    let mut outcome = CallOutcome::complete();
    let starts: Vec<&String> = call
        .arguments
        .iter()
        .take_while(|argument| !argument.starts_with(['-', '(', '!']))
        .collect();
    let is_outside = starts.iter().any(|path| {
        place.reach(path) > PathReach::Whole || place.reach(path) == PathReach::Outside
    });
    findings.add(Reads, "");
    let mut at = 0;
    while let Some(argument) = call.arguments.get(at) {
        at += 1;
        match argument.as_str() {
            "-delete" if is_outside => {
                findings.add_grave(Destroys, "deletes files recursively outside this directory")
            }
            "-delete" => findings.add(Destroys, "deletes files recursively"),
            "-fprint" | "-fprint0" | "-fprintf" | "-fls" => {
                if let Some(path) = call.arguments.get(at) {
                    written(path, place, findings);
                }
            }
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                let rest = call.arguments.get(at..).unwrap_or_default();
                let end = rest
                    .iter()
                    .position(|argument| argument == ";" || argument == "+");
                let inner = rest
                    .get(..end.unwrap_or(rest.len()))
                    .unwrap_or_default()
                    .to_vec();
                at += inner.len();
                let deletes = inner.first().is_some_and(|name| {
                    matches!(name.rsplit('/').next(), Some("rm" | "unlink" | "shred"))
                });
                if deletes && is_outside {
                    findings
                        .add_grave(Destroys, "deletes files recursively outside this directory");
                }
                outcome.inner.push(InnerCommand::Arguments(inner));
            }
            _ => {}
        }
    }
    outcome
}

/// Judges `fd`: the commands of `--exec`.
pub fn fd(call: &ProgramCall<'_>) -> CallOutcome {
    let mut outcome = CallOutcome::default();
    let at = call.arguments.iter().position(|argument| {
        let is_cluster = argument.starts_with('-')
            && !argument.starts_with("--")
            && argument.ends_with(['x', 'X']);
        is_cluster || matches!(argument.as_str(), "--exec" | "--exec-batch")
    });
    if let Some(at) = at {
        let inner = call.arguments.get(at + 1..).unwrap_or_default();
        let inner = inner.iter().take_while(|argument| *argument != ";");
        outcome
            .inner
            .push(InnerCommand::Arguments(inner.cloned().collect()));
    }
    outcome
}

/// Judges programs that change files in place, and the commands that `sed` itself can run.
pub fn in_place(
    call: &ProgramCall<'_>,
    place: &CommandPlace<'_>,
    findings: &mut Findings,
) -> CallOutcome {
    let list = ArgumentList::new(call.arguments, &["-e", "-f"], false);
    if call.name == "sort" {
        if let Some(path) = call.option_value(&["-o", "--output"]) {
            written(path, place, findings);
        }
        if call.option_value(&["--compress-program"]).is_some() {
            findings.add(Unknown, "sort runs a program");
        }
        return CallOutcome::default();
    }
    let in_place = list.options.iter().any(|option| {
        option.starts_with("--in-place")
            || option.starts_with("-i")
            || !option.starts_with("--")
                && option.contains('i')
                && option.len() < 6
                && !option.contains('I')
    });
    if !in_place && call.name.ends_with("sed") {
        findings.add(Reads, "");
    }
    if in_place {
        for path in &list.operands {
            if let Some(reason) = place.protected(path) {
                findings.add_grave(Destroys, reason);
            }
        }
        findings.add(Writes, "changes files in place");
    }
    if !call.name.ends_with("sed") {
        return CallOutcome::default();
    }
    let has_script = list.has_any(&["-e", "--expression", "-f", "--file"]);
    let mut scripts = call.option_values(&["-e", "--expression"]);
    if !has_script {
        scripts.extend(list.operands.first());
    }
    for script in scripts {
        if sed_runs(script) {
            findings.add(Unknown, "sed runs a command");
        }
        let writes = script.rsplit_once("w ").map(|(_, path)| path.trim());
        if let Some(path) = writes.filter(|path| path.starts_with('/')) {
            written(path, place, findings);
        }
    }
    CallOutcome {
        is_complete: true,
        ..CallOutcome::default()
    }
}

/// Whether a script of `sed` may run a command: `e`, or the flag `e` of a substitution.
fn sed_runs(script: &str) -> bool {
    script.split([';', '\n', '{', '}']).any(|command| {
        let command = command.trim();
        let verb = command
            .trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ',' | '$' | '!' | ' '));
        let is_exec = verb == "e" || verb.starts_with("e ");
        let mut chars = verb.chars();
        let flags = match (chars.next(), chars.next()) {
            (Some('s'), Some(delimiter)) => verb.rsplit(delimiter).next().unwrap_or_default(),
            _ => "",
        };
        is_exec || flags.len() < 6 && flags.contains('e')
    })
}

/// Judges `awk`, which can run commands and write files.
pub fn awk(call: &ProgramCall<'_>, findings: &mut Findings) -> CallOutcome {
    let list = ArgumentList::new(
        call.arguments,
        &[
            "-F",
            "-v",
            "-f",
            "-i",
            "-l",
            "--assign",
            "--field-separator",
            "--file",
        ],
        false,
    );
    if call.option_value(&["-f", "--file"]).is_some() {
        findings.add(Writes, "");
        return CallOutcome::complete();
    }
    let code = list.operands.first().copied().unwrap_or_default();
    let compact: String = code.chars().filter(|c| !c.is_whitespace()).collect();
    if compact.contains("system(")
        || compact.contains("|getline")
        || compact.contains("|\"")
        || compact.contains("|&")
    {
        findings.add(Unknown, "awk runs a command");
    }
    let writes =
        compact.contains(">\"") || compact.contains("print>") || list.has_any(&["-i", "--include"]);
    findings.add(if writes { Writes } else { Reads }, "");
    CallOutcome::complete()
}

/// Judges archives: where they are unpacked, and what they run.
pub fn archive(
    call: &ProgramCall<'_>,
    place: &CommandPlace<'_>,
    findings: &mut Findings,
) -> CallOutcome {
    let runs = call.arguments.iter().any(|argument| {
        argument.starts_with("--to-command")
            || argument.starts_with("--checkpoint-action")
            || argument.starts_with("--rmt-command")
            || argument.starts_with("--new-volume-script")
            || argument.starts_with("--info-script")
    });
    if runs {
        findings.add(Unknown, "tar runs a command");
    }
    if call
        .arguments
        .iter()
        .any(|argument| argument == "--remove-files" || argument == "--recursive-unlink")
    {
        findings.add(Destroys, "deletes the files that it has packed");
    }
    let mode = call
        .arguments
        .first()
        .map(String::as_str)
        .unwrap_or_default();
    let is_packing = mode.trim_start_matches('-').starts_with('c')
        || mode == "--create"
        || mode.contains('t') && !mode.contains('x');
    for directory in call.option_values(&["-C", "--directory", "-d"]) {
        if let Some(reason) = place.protected(directory).filter(|_| !is_packing) {
            findings.add_grave(Destroys, reason);
        }
    }
    if call.name != "unzip" {
        let lists = mode.starts_with("--list")
            || !mode.starts_with("--") && mode.contains('t') && !mode.contains(['x', 'c', 'r']);
        findings.add(if lists { Reads } else { Writes }, "");
        return CallOutcome::complete();
    }
    CallOutcome::default()
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
    // The process -1 stands for all of them, and 1 for the first.
    let all = arguments
        .iter()
        .skip(1)
        .any(|argument| matches!(argument.as_str(), "-1" | "1" | "0"));
    match (is_listing, all, kills) {
        (true, ..) => findings.add(Reads, ""),
        (_, true, _) => findings.add_grave(Destroys, "ends all processes"),
        (_, _, true) => findings.add(Destroys, "kills processes, which lose what is not saved"),
        _ => findings.add(Writes, ""),
    }
    CallOutcome::complete()
}
