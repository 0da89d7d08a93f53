//! Programs that may change files in place: `sed`, `awk`, `sort`, `uniq`.

use super::awk::awk_effects;
use super::sed::sed_effects;
use super::{CallOutcome, CommandPlace, Findings, InnerCommand, ProgramCall};
use crate::safety::command::class::CommandClass::{Destroys, Reads, Unknown, Writes};
use crate::safety::command::programs::{ArgumentList, find_option};
use crate::safety::command::targets::{is_sink, written};

/// Returns the suffix of the copies that `sed` keeps, if an option makes it change files in place: `-i`, `-i.bak`, `-ni.bak`. What
/// follows a letter with a value is that value.
fn in_place_suffix(option: &str) -> Option<&str> {
    if let Some(long) = option.strip_prefix("--") {
        let (name, suffix) = long.split_once('=').unwrap_or((long, ""));
        return (name.len() > 1 && "in-place".starts_with(name)).then_some(suffix);
    }
    let letters = option.strip_prefix('-')?;
    let at = letters.find(['i', 'I', 'e', 'f', 'l'])?;
    letters.get(at..)?.strip_prefix(['i', 'I'])
}

/// Judges `sed`: files that it changes in place, and its script.
pub fn sed(
    call: &ProgramCall<'_>,
    place: &CommandPlace<'_>,
    findings: &mut Findings,
) -> CallOutcome {
    let list = ArgumentList::new(call.arguments, &["-e", "-f", "-l"], false);
    let suffix = list
        .options
        .iter()
        .find_map(|option| in_place_suffix(option));
    let in_place = suffix.is_some();
    match in_place {
        true => {
            for path in &list.operands {
                if let Some(reason) = place.protected(path) {
                    findings.add_grave(Destroys, reason);
                }
            }
            findings.add(Writes, "changes files in place");
        }
        false => findings.add(Reads, ""),
    }
    let others = ["-e", "-f", "-i", "-l"];
    let mut scripts = Vec::new();
    for option in ["-e", "--expression"] {
        let found = find_option(call.arguments, option, &others, false);
        scripts.extend(found.iter().map(|found| found.value(call.arguments)));
    }
    let files = ["-f", "--file"].map(|option| find_option(call.arguments, option, &others, false));
    if scripts.is_empty() && files.iter().all(Vec::is_empty) {
        // The suffix of `-i` is a separate argument in the sed of BSD.
        let mut operands = list.operands.iter();
        scripts.extend(operands.find(|operand| !in_place || !operand.is_empty()));
    }
    if scripts.is_empty() {
        return CallOutcome::complete();
    }
    match sed_effects(&scripts.join("\n")) {
        Some(effects) => {
            if effects.runs {
                findings.add(Unknown, "sed runs a command");
                effects
                    .commands
                    .iter()
                    .for_each(|command| findings.guess(command));
            }
            let is_quiet = list.has_any(&["-n", "--quiet", "--silent"]);
            if suffix.is_some_and(str::is_empty) && effects.only_deletes(is_quiet) {
                findings.add(Destroys, "deletes lines of files in place");
            }
            for path in effects.writes.iter().filter(|path| !is_sink(path)) {
                written(path, place, findings);
            }
        }
        None => findings.add(Unknown, "the script of sed was not understood"),
    }
    CallOutcome::complete()
}

/// Judges programs whose output may be the file that they read, if they keep only parts of it.
pub fn filter(call: &ProgramCall<'_>, findings: &mut Findings) -> CallOutcome {
    let list = call.list();
    let drops = match call.name {
        "sort" => {
            let outputs = call.option_values(&["-o", "--output"]);
            let mut outputs = outputs.iter();
            let is_empty = matches!(list.operands.as_slice(), ["/dev/null"]);
            is_empty && !outputs.as_slice().is_empty()
                || list.has_any(&["-u", "--unique"])
                    && outputs.any(|path| list.operands.contains(path))
        }
        "yq" => {
            let deletes = |text: &&str| text.contains("del(") || text.contains("delpaths(");
            list.has_any(&["-i", "--inplace", "--in-place"]) && list.operands.iter().any(deletes)
        }
        // It empties the file before it reads it.
        _ => matches!(list.operands.as_slice(), [input, output] if input == output),
    };
    if drops {
        findings.add(Destroys, "deletes parts of a file in place");
    }
    CallOutcome::default()
}

/// Judges `awk`, which can run commands and write files.
pub fn awk(
    call: &ProgramCall<'_>,
    place: &CommandPlace<'_>,
    findings: &mut Findings,
) -> CallOutcome {
    let mut outcome = CallOutcome::complete();
    findings.add(Reads, "");
    let list = call.list();
    let others = ["-F", "-v", "-f", "-i", "-l", "-e", "-E"];
    let find = |option: &str| find_option(call.arguments, option, &others, false);
    let mut programs: Vec<&str> = Vec::new();
    for option in ["-e", "--source"] {
        programs.extend(find(option).iter().map(|found| found.value(call.arguments)));
    }
    let files = ["-f", "--file", "-E", "--exec"];
    if programs.is_empty() && files.iter().all(|option| find(option).is_empty()) {
        programs.extend(list.operands.first());
    }
    for program in &programs {
        let plain: String = program.split_whitespace().collect();
        if plain.contains("printf\"\">\"") || plain.contains("printf(\"\")>\"") {
            findings.add(Destroys, "empties a file");
        }
        let effects = awk_effects(program);
        if effects.runs {
            findings.add(Unknown, "awk runs a command");
            effects.texts.iter().for_each(|text| findings.guess(text));
        }
        outcome
            .inner
            .extend(effects.commands.into_iter().map(InnerCommand::Fed));
        for path in &effects.writes {
            match path.is_empty() || !is_sink(path) {
                true => written(path, place, findings),
                false => findings.add(Reads, ""),
            }
        }
    }
    for option in ["-i", "--include"] {
        for found in find(option) {
            match found.value(call.arguments) == "inplace" {
                true => {
                    findings.add(Writes, "changes files in place");
                    if !programs.is_empty() && programs.iter().all(|program| only_selects(program))
                    {
                        findings.add(Destroys, "deletes lines of files in place");
                    }
                    for path in &list.operands {
                        written(path, place, findings);
                    }
                }
                false => findings.add(Unknown, "awk loads code that is not known"),
            }
        }
    }
    outcome
}

/// Whether a program of `awk` only selects lines: a condition without an action, or with `print`.
fn only_selects(program: &str) -> bool {
    let program = program.trim();
    // Without an action that prints, nothing is left.
    if program.is_empty() || program.contains('{') && !program.contains("print") {
        return true;
    }
    let (condition, action) = match program.split_once('{') {
        Some((condition, action)) => (condition, action.trim().trim_end_matches('}').trim()),
        None => (program, "print"),
    };
    let is_whole = matches!(action, "print" | "print;" | "print $0" | "next");
    // A statement that only prints some fields keeps nothing else.
    let fields = action.strip_prefix("print ").unwrap_or_default();
    let is_part = !fields.is_empty()
        && fields
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '$' | ',' | ' ' | 'N' | 'F' | '"' | ';'))
        && fields.trim_end_matches(';') != "$0";
    is_part || !condition.trim().is_empty() && is_whole
}
