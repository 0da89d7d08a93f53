//! Programs that search files: the commands that they run with the paths found, and which paths these may be.

use super::files::CHANGES_OWNERS;
use super::{CallOutcome, CommandPlace, Findings, InnerCommand, ProgramCall};
use crate::safety::command::class::CommandClass::{Destroys, Reads};
use crate::safety::command::programs::{self, find_option};
use crate::safety::command::targets::{PathReach, is_sink, written};
use crate::safety::command::word::UNKNOWN;
use crate::safety::command::word::program_name;

/// Returns the paths where `find` starts, after the options that precede them.
fn start_paths(arguments: &[String]) -> Vec<&str> {
    let mut rest = arguments.iter().map(String::as_str).peekable();
    while let Some(option) = rest.next_if(|argument| {
        matches!(*argument, "-H" | "-L" | "-P" | "-D") || argument.starts_with("-O")
    }) {
        if option == "-D" {
            rest.next();
        }
    }
    rest.take_while(|argument| !argument.starts_with(['-', '(', '!']))
        .collect()
}

/// Returns paths that `find` may find: each place where it starts, with each name that it looks for.
fn found_paths(arguments: &[String]) -> Vec<String> {
    let is_name = |pair: &&[String]| {
        let test = pair.first().map(String::as_str);
        matches!(test, Some("-name" | "-iname"))
    };
    let names = arguments.windows(2).filter(is_name);
    let mut names: Vec<&str> = names
        .filter_map(|pair| Some(pair.get(1)?.as_str()))
        .collect();
    let any = UNKNOWN.to_string();
    if names.is_empty() {
        names.push(&any);
    }
    let mut paths = Vec::new();
    for start in start_paths(arguments) {
        paths.extend(names.iter().map(|name| format!("{start}/{name}")));
        paths.push(start.to_owned());
    }
    paths
}

/// Returns paths and what may be below them, without some operands at the beginning.
fn below(operands: &[&str], skipped: usize) -> Vec<String> {
    let paths = operands.iter().skip(skipped);
    paths
        .flat_map(|path| [(*path).to_owned(), format!("{path}/{UNKNOWN}")])
        .collect()
}

/// Returns paths that a command may print for another one, as far as its arguments name them.
pub fn printed_paths(command: &[String]) -> Vec<String> {
    let Some((name, arguments)) = command.split_first() else {
        return Vec::new();
    };
    let name = program_name(name);
    let Some(entry) = programs::find(name) else {
        return Vec::new();
    };
    let list = entry.arguments(arguments);
    match name {
        "find" | "gfind" | "bfs" => found_paths(arguments),
        "fd" | "fdfind" => below(&list.operands, 1),
        "grep" | "egrep" | "fgrep" | "rg" | "ag" | "ack" => {
            let has_pattern = list.has_any(&["-e", "-f", "--regexp", "--files"]);
            below(&list.operands, usize::from(!has_pattern))
        }
        "ls" | "echo" | "print" | "printf" | "realpath" | "readlink" => below(&list.operands, 0),
        _ => Vec::new(),
    }
}

/// Judges `find`: `-delete`, and the commands of `-exec`.
pub fn find(
    call: &ProgramCall<'_>,
    place: &CommandPlace<'_>,
    findings: &mut Findings,
) -> CallOutcome {
    let mut outcome = CallOutcome::complete();
    let starts = start_paths(call.arguments);
    let starts = match starts.is_empty() {
        true => vec!["."],
        false => starts,
    };
    let reaches = starts.iter().map(|path| call.reach(path, place));
    let reach = reaches.max().unwrap_or(PathReach::Inside);
    let is_outside = matches!(reach, PathReach::Outside | PathReach::Everything);
    findings.add(Reads, "");
    let mut at = 0;
    while let Some(argument) = call.arguments.get(at) {
        at += 1;
        match argument.as_str() {
            "-delete" if is_outside => {
                findings.add_grave(Destroys, "deletes files recursively outside this directory")
            }
            "-delete" if reach == PathReach::Unknown => findings.add_grave(
                Destroys,
                "deletes files recursively at a place that is not known in advance",
            ),
            "-delete" => findings.add(Destroys, "deletes files recursively"),
            "-fprint" | "-fprint0" | "-fprintf" | "-fls" => {
                let path = call.arguments.get(at).filter(|path| !is_sink(path));
                if let Some(path) = path {
                    findings.add(Destroys, "overwrites a file");
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
                let opens = inner.first().is_some_and(|name| {
                    matches!(name.rsplit('/').next(), Some("chmod" | "chown" | "chgrp"))
                });
                if opens && reach == PathReach::Everything {
                    findings.add_grave(Destroys, CHANGES_OWNERS);
                }
                outcome.inner.push(InnerCommand::FedArguments(inner));
                outcome.fed_paths = found_paths(call.arguments);
            }
            _ => {}
        }
    }
    outcome
}

/// Judges `fd`: the commands of `--exec`.
pub fn fd(call: &ProgramCall<'_>) -> CallOutcome {
    let mut outcome = CallOutcome::default();
    let options = ["-x", "-X", "--exec", "--exec-batch"];
    let takes = ["-d", "-t", "-e", "-E", "-S", "-o", "-j", "-c"];
    for option in options {
        for found in find_option(call.arguments, option, &takes, false) {
            let rest = call.arguments.get(found.at + 1..).unwrap_or_default();
            let mut inner = vec![found.value(call.arguments).to_owned()];
            let is_next = rest.first() == inner.first();
            let rest = rest.iter().skip(usize::from(is_next));
            inner.extend(rest.take_while(|argument| *argument != ";").cloned());
            outcome.inner.push(InnerCommand::FedArguments(inner));
            outcome.fed_paths = below(&call.list().operands, 1);
        }
    }
    outcome
}
