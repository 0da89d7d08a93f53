//! Archives: where they are unpacked, and the files that they replace there.

use super::{CallOutcome, CommandPlace, Findings, ProgramCall};
use crate::safety::command::class::CommandClass::{Destroys, Reads, Unknown, Writes};
use crate::safety::command::targets::{normalize, written};
use crate::safety::command::word::UNKNOWN;

/// Operation of an archiver on its archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArchiveMode {
    Lists,
    Packs,
    Unpacks,
}

/// Returns what `tar` does. Of several modes, the one that does most counts.
fn tar_mode(arguments: &[String]) -> ArchiveMode {
    let mut lists = false;
    let mut packs = false;
    for (at, argument) in arguments.iter().enumerate() {
        if let Some(name) = argument.strip_prefix("--") {
            let name = name.split('=').next().unwrap_or_default();
            let is = |long: &str| name.len() > 2 && long.starts_with(name);
            if is("extract") || is("get") {
                return ArchiveMode::Unpacks;
            }
            lists |= is("list") || is("diff") || is("compare") || is("test-label");
            packs |= ["create", "append", "update", "catenate", "concatenate"]
                .iter()
                .any(|long| is(long));
            continue;
        }
        let letters = match argument.strip_prefix('-') {
            Some(letters) => letters,
            // The first argument needs no dash.
            None if at == 0 => argument,
            None => continue,
        };
        // The text after a letter with a value is that value, except in the first argument without a dash.
        let is_bundle = !argument.starts_with('-');
        let takes_value = |c: &char| !is_bundle && "fCTXbgHLKNVIF".contains(*c);
        let mut has_value = false;
        for letter in letters.chars() {
            match letter {
                _ if has_value => {}
                'x' => return ArchiveMode::Unpacks,
                't' | 'd' => lists = true,
                'c' | 'r' | 'u' | 'A' => packs = true,
                _ => {}
            }
            has_value |= takes_value(&letter);
        }
    }
    match (packs, lists) {
        (true, _) => ArchiveMode::Packs,
        (false, true) => ArchiveMode::Lists,
        (false, false) => ArchiveMode::Unpacks,
    }
}

/// Judges the directory that an archive is unpacked into.
fn unpacked(path: &str, call: &ProgramCall<'_>, place: &CommandPlace<'_>, findings: &mut Findings) {
    if path.starts_with(UNKNOWN) {
        findings.add(Unknown, "unpacks into a directory that is not known");
        return;
    }
    let Some(directory) = call.directory else {
        findings.add(Unknown, "unpacks into a directory that is not known");
        return;
    };
    let full = normalize(path, directory);
    // An archive in a directory of programs replaces some of them.
    let reason = place.protected(&full);
    let reason = reason.or_else(|| place.protected(&format!("{full}/ls")));
    if let Some(reason) = reason {
        findings.add_grave(Destroys, reason);
    } else if place.holds_own(&full) && !place.is_own(&full) {
        findings.add_grave(
            Destroys,
            "unpacks over the home directory or a parent of this directory",
        );
    }
}

/// Judges `tar` and `unzip`.
pub fn archive(
    call: &ProgramCall<'_>,
    place: &CommandPlace<'_>,
    findings: &mut Findings,
) -> CallOutcome {
    let has = |names: &[&str]| {
        let name =
            |argument: &String| names.contains(&argument.split('=').next().unwrap_or(argument));
        call.arguments.iter().any(name)
    };
    let removes = |option: &String| {
        let is_short = option.len() > "--remo".len();
        is_short
            && ["--remove-files", "--recursive-unlink"]
                .iter()
                .any(|name| name.starts_with(option.as_str()))
    };
    if call.arguments.iter().any(removes) {
        findings.add(Destroys, "deletes the files that it has packed");
    }
    if call.name == "unzip" {
        let list = call.list();
        if !list.has_any(&["-l", "-t", "-p", "-v", "-Z"]) {
            let directories = call.option_values(&["-d"]);
            targets(directories, ".", call, place, findings);
        }
        return CallOutcome::default();
    }
    if has(&["--delete"]) {
        findings.add(Destroys, "deletes files of an archive");
    }
    match tar_mode(call.arguments) {
        ArchiveMode::Lists => findings.add(Reads, ""),
        ArchiveMode::Packs => {
            let first = call
                .arguments
                .first()
                .filter(|first| !first.starts_with('-'));
            let attached = first.filter(|first| first.ends_with('f'));
            let attached = attached
                .and_then(|_| call.arguments.get(1))
                .map(String::as_str);
            let named = call.option_values(&["-f", "--file"]);
            for path in named.into_iter().chain(attached) {
                written(path, place, findings);
            }
            findings.add(Writes, "");
        }
        ArchiveMode::Unpacks => {
            findings.add(Writes, "");
            let names = ["-C", "--directory", "--cd", "--one-top-level"];
            targets(call.option_values(&names), ".", call, place, findings);
            let takes = ["-f", "-C", "-T", "-X"];
            let is_absolute = ["-P", "--absolute-names"].iter().any(|option| {
                !super::find_option(call.arguments, option, &takes, false).is_empty()
            });
            if is_absolute {
                findings.add(Unknown, "unpacks files to any place that the archive names");
            }
            if has(&["--overwrite", "--unlink-first", "--overwrite-dir"]) {
                findings.add(Destroys, "overwrites files");
            }
        }
    }
    CallOutcome::complete()
}

/// Judges each directory of several, or the default if there is none.
fn targets(
    directories: Vec<&str>,
    default: &str,
    call: &ProgramCall<'_>,
    place: &CommandPlace<'_>,
    findings: &mut Findings,
) {
    let default = directories.is_empty().then_some(default);
    for directory in directories.into_iter().chain(default) {
        unpacked(directory, call, place, findings);
    }
}

/// Judges other programs that unpack archives.
pub fn other(
    call: &ProgramCall<'_>,
    place: &CommandPlace<'_>,
    findings: &mut Findings,
) -> CallOutcome {
    let list = call.list();
    let first = list.operands.first().copied().unwrap_or_default();
    let last = list.operands.last().copied().unwrap_or_default();
    let attached = |start: &'static str| {
        let values = call.arguments.iter();
        values.filter_map(move |argument| argument.strip_prefix(start))
    };
    match call.name {
        "7z" | "7za" | "7zz" if matches!(first, "x" | "e") => {
            targets(attached("-o").collect(), ".", call, place, findings);
        }
        "unrar" | "rar" if matches!(first, "x" | "e") => {
            let directory = Some(last).filter(|last| last.ends_with('/') || last.starts_with('/'));
            targets(directory.into_iter().collect(), ".", call, place, findings);
        }
        "cpio" if list.has_any(&["-i", "-p", "--extract", "--pass-through"]) => {
            let directories = call.option_values(&["-D", "--directory"]);
            targets(directories, ".", call, place, findings);
            if list.has_any(&["-u", "--unconditional"]) {
                findings.add(Destroys, "overwrites files");
            }
        }
        "dpkg" | "dpkg-deb"
            if list.has_any(&["-x", "-X", "-R", "--extract", "--vextract", "--raw-extract"]) =>
        {
            findings.add(Writes, "");
            targets(vec![last], ".", call, place, findings);
        }
        "pax" if list.has("-r") => targets(Vec::new(), ".", call, place, findings),
        _ => {}
    }
    CallOutcome::default()
}
