//! Effects of the words of a command line on directories that contain protected files.

use super::path_text::{Candidates, PathUse, Unchecked, Variables, expand, is_path_like};
use super::programs::{
    CHANGERS, DIRECTORY_OPTIONS, FIND_WRITES, GIT_READS, GIT_UNPACKS, INTERPRETERS, OWN_READS,
    PREFIXES, READERS, SHELLS, TEXT_PROGRAMS, UNPACKERS, WRITERS,
};
use super::shell_words::{GLOB_FLAG, SimpleCommand, simple_commands, without_braces};
use super::unknown_text::runs_unknown_text;
use super::{ANY, is_meta};

/// How deep commands in commands are followed.
const MAX_DEPTH: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Reads,
    Changes,
    Writes,
}

/// How a text is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    /// It is a command, so that every program that is not known to read may write. Otherwise only known ones write.
    pub is_command: bool,
    /// Its output becomes the operands of a program that writes.
    pub feeds_writer: bool,
    pub depth: usize,
}

impl Reading {
    /// A command line.
    pub(super) const COMMAND: Reading = Reading {
        is_command: true,
        feeds_writer: false,
        depth: 0,
    };
}

/// The name of the program and the position after it, after assignments and prefixes.
fn program(command: &SimpleCommand) -> (&str, usize) {
    let mut has_prefix = false;
    for (at, word) in command.words.iter().enumerate() {
        let name = word.rsplit('/').next().unwrap_or(word);
        let is_number = word.chars().next().is_some_and(|c| c.is_ascii_digit());
        match () {
            () if PREFIXES.contains(&name) => has_prefix = true,
            () if assignment(word).is_some() => {}
            () if has_prefix && (word.starts_with('-') || is_number) => {}
            () => return (name, at + 1),
        }
    }
    ("", command.words.len())
}

fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(is_name)).then_some((name, value))
}

fn effect(command: &SimpleCommand, reading: Reading) -> Effect {
    let (program, at) = program(command);
    let words = command.words.get(at..).unwrap_or_default();
    let has = |set: &[&str]| words.iter().any(|word| set.contains(&word.as_str()));
    match program {
        "" => Effect::Changes,
        name if CHANGERS.contains(&name) => Effect::Changes,
        name if READERS.contains(&name) => Effect::Reads,
        // A directory as a command is entered.
        name if name.starts_with(['~', '.']) || name.is_empty() => Effect::Changes,
        "find" | "fd" | "fdfind" => {
            let runs = words
                .iter()
                .position(|word| FIND_WRITES.contains(&word.as_str()));
            let run = runs.and_then(|at| words.get(at + 1));
            match runs {
                Some(_) if !run.is_some_and(|run| READERS.contains(&run.as_str())) => {
                    Effect::Writes
                }
                _ => Effect::Reads,
            }
        }
        "git" if has(GIT_READS) && !has(GIT_UNPACKS) => Effect::Reads,
        name if reading.is_command || WRITERS.contains(&name) => Effect::Writes,
        _ => Effect::Reads,
    }
}

/// Whether a command takes operands from elsewhere and may write to them.
fn takes_unknown(command: &SimpleCommand, reading: Reading, variables: &Variables) -> bool {
    let (name, at) = program(command);
    let words = command.words.get(at..).unwrap_or_default();
    if matches!(name, "xargs" | "parallel") {
        let run = words
            .iter()
            .find(|word| !word.starts_with('-') && !is_number(word));
        return run.is_some_and(|run| !READERS.contains(&run.as_str()));
    }
    let is_unknown = |word: &String| expand(word, variables).contains(ANY);
    let is_any = |word: &String| expand(word, variables).starts_with(&format!("/{ANY}"));
    effect(command, reading) == Effect::Writes && words.iter().any(is_unknown)
        || reading.is_command && command.targets.iter().any(is_any)
}

/// Replaces what `xargs`, `parallel` and `find` replace by names that are not known.
fn replace_unknown(command: &mut SimpleCommand) {
    let (name, at) = program(command);
    let words = command.words.get(at..).unwrap_or_default();
    let mark = match name {
        "xargs" => words
            .iter()
            .zip(words.iter().skip(1).chain([&String::new()]))
            .find_map(|(word, next)| {
                let long = word
                    .strip_prefix("--replace")
                    .map(|mark| mark.trim_start_matches('='));
                let short = word.strip_prefix("-I").or_else(|| word.strip_prefix("-J"));
                let short = short.map(|mark| if mark.is_empty() { next } else { mark });
                let mark = short.or(long).or_else(|| word.strip_prefix("-i"))?;
                Some(if mark.is_empty() {
                    "{}".to_owned()
                } else {
                    mark.to_owned()
                })
            }),
        "find" | "parallel" => Some("{}".to_owned()),
        _ => None,
    };
    // A name that is a separate word is an operand from elsewhere.
    let Some(mark) = mark else { return };
    for text in command.words.iter_mut().skip(at).chain(&mut command.quoted) {
        if *text != mark && !text.starts_with('-') {
            *text = text.replace(&mark, &ANY.to_string());
        }
    }
}

fn is_number(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_digit())
}

/// Adds the words of a text as paths.
pub(super) fn add(text: &str, reading: Reading, outer: &Variables, found: &mut Candidates) {
    let mut commands = simple_commands(text);
    commands.iter_mut().for_each(replace_unknown);
    let variables = with_assignments(outer, &commands);
    let feeds = reading.feeds_writer
        || commands
            .iter()
            .any(|one| takes_unknown(one, reading, &variables));
    let reading = Reading {
        feeds_writer: feeds,
        ..reading
    };
    let is_changed = |one: &SimpleCommand| {
        matches!(program(one).0, "cd" | "chdir" | "pushd" | "popd")
            || one
                .words
                .iter()
                .any(|word| DIRECTORY_OPTIONS.contains(&word.as_str()))
    };
    let is_moved = commands.iter().any(is_changed);
    let goes_home = |one: &SimpleCommand| {
        let (name, at) = program(one);
        let mut words = one.words.iter().skip(at);
        matches!(name, "cd" | "chdir" | "pushd") && words.all(|word| word.starts_with('-'))
    };
    if commands.iter().any(goes_home) {
        found.add(&variables.home, PathUse::Directory);
    }
    let scan = Scan {
        reading,
        variables: &variables,
        has_bare_words: reading.is_command || is_moved,
    };
    for command in &commands {
        scan.add(command, found);
    }
}

/// Returns the variables with those that the text assigns.
fn with_assignments(outer: &Variables, commands: &[SimpleCommand]) -> Variables {
    let mut variables = outer.clone();
    for word in commands.iter().flat_map(|command| &command.words) {
        let Some((name, value)) = assignment(word) else {
            continue;
        };
        let value = expand(value, &variables);
        let known = variables
            .values
            .iter()
            .any(|(n, v)| n == name && *v != value);
        variables.values.retain(|(n, _)| n != name);
        // With several values it means any of them.
        if !known && !value.contains(ANY) {
            variables.values.push((name.to_owned(), value));
        }
    }
    variables
}

struct Scan<'a> {
    reading: Reading,
    variables: &'a Variables,
    /// Words without a slash may be paths too.
    has_bare_words: bool,
}

impl Scan<'_> {
    fn add(&self, command: &SimpleCommand, found: &mut Candidates) {
        let (name, start) = program(command);
        let mut effect = effect(command, self.reading);
        if effect == Effect::Reads && self.reading.feeds_writer {
            effect = Effect::Writes;
        }
        let words = command.words.get(start..).unwrap_or_default();
        if self.reading.is_command && runs_unknown_text(command, name, words) {
            found.stop(Unchecked::UnknownText);
        }
        let mut own = words.iter().take(2).map(String::as_str);
        if name == "aish-helper" && !own.any(|word| OWN_READS.contains(&word)) {
            found.stop(Unchecked::OwnProgram);
        }
        let unpacks = UNPACKERS.contains(&name)
            || name == "git"
                && words
                    .iter()
                    .any(|word| GIT_UNPACKS.contains(&word.as_str()));
        if unpacks {
            found.add(".", PathUse::BareOperand);
        }
        let is_cd = matches!(name, "cd" | "chdir" | "pushd" | "popd");
        if name == "popd" {
            found.add(&format!("/{ANY}"), PathUse::Directory);
        }
        let into = destination(name, words);
        for (at, word) in command.words.iter().enumerate() {
            let follows = |set: &[&str]| {
                let before = at.checked_sub(1).and_then(|at| command.words.get(at));
                before.is_some_and(|before| set.contains(&before.as_str()))
            };
            let is_operand = at >= start && effect == Effect::Writes;
            let is_into = into.is_some_and(|into| at == start + into);
            if is_operand && !is_into {
                self.word(word, PathUse::Operand, found);
            }
            let is_program = at < start && assignment(word).is_none();
            let is_directory = effect == Effect::Changes && !(is_program && word.contains('$'))
                || assignment(word).is_some()
                || follows(DIRECTORY_OPTIONS)
                || DIRECTORY_OPTIONS
                    .iter()
                    .any(|option| word.starts_with(option));
            let usage = match is_directory {
                true => PathUse::Directory,
                false => PathUse::Mention,
            };
            self.word(word, usage, found);
            // The one before, or with two words a part of the name replaced.
            if is_cd && (at >= start && word == "-" || at > start && !words[0].starts_with('-')) {
                found.add(&format!("/{ANY}"), PathUse::Directory);
            }
            // With `cdablevars` the name of a variable is its value.
            let first = word.split('/').next().unwrap_or_default();
            let is_variable =
                || first == "HOME" || self.variables.values.iter().any(|(n, _)| n == first);
            if is_cd && at >= start && is_variable() {
                self.word(&format!("${word}"), PathUse::Directory, found);
            }
        }
        if let Some(directory) = into.and_then(|at| words.get(at)) {
            for word in words
                .iter()
                .filter(|word| !word.starts_with('-') && *word != directory)
            {
                let name = word
                    .trim_end_matches('/')
                    .rsplit('/')
                    .next()
                    .unwrap_or_default();
                self.word(&format!("{directory}/{name}"), PathUse::Operand, found);
            }
        }
        for text in &command.substitutions {
            let feeds_writer = self.reading.feeds_writer || effect == Effect::Writes;
            self.nested(text, self.reading.is_command, feeds_writer, found);
        }
        for text in &command.quoted {
            if INTERPRETERS.contains(&name) {
                self.source(text, found);
            } else if !TEXT_PROGRAMS.contains(&name) {
                let is_command = self.reading.is_command && SHELLS.contains(&name);
                self.nested(text, is_command, self.reading.feeds_writer, found);
            }
        }
    }

    fn nested(&self, text: &str, is_command: bool, feeds_writer: bool, found: &mut Candidates) {
        if self.reading.depth >= MAX_DEPTH {
            found.stop(Unchecked::TooMuch);
            return;
        }
        let reading = Reading {
            is_command,
            feeds_writer,
            depth: self.reading.depth + 1,
        };
        add(text, reading, self.variables, found);
    }

    /// Adds the paths in the source text of another language.
    fn source(&self, text: &str, found: &mut Candidates) {
        for piece in text.split(|c: char| c.is_whitespace() || "'\"`(),;=[]".contains(c)) {
            if piece.len() > 1 && piece.starts_with(['/', '~', '$']) {
                self.word(piece, PathUse::Operand, found);
            }
        }
    }

    fn word(&self, word: &str, usage: PathUse, found: &mut Candidates) {
        let Some(words) = without_braces(word, self.reading.is_command) else {
            // Not a list of names but a text with braces, which the other readings cover.
            if self.reading.is_command {
                found.stop(Unchecked::TooMuch);
            }
            return;
        };
        for word in &words {
            if let Some(flags) = word.find(GLOB_FLAG) {
                let (before, after) =
                    word.split_at(word[..flags].rfind('/').map_or(0, |at| at + 1));
                let any = vec![ANY.to_string(); after.split('/').count()];
                self.part(&format!("{before}{}", any.join("/")), usage, found);
            }
            // The operand of an option without a space, the value of an assignment, the first of a pair.
            let attached = match word.starts_with('-') {
                true => word
                    .find(['~', '/', '$', '.'])
                    .and_then(|at| word.get(at..)),
                false => None,
            };
            let value = word.split_once('=').map(|(_, value)| value);
            let first = word.split_once(':').map(|(first, _)| first);
            for part in [Some(word.as_str()), attached, value, first]
                .into_iter()
                .flatten()
            {
                self.part(part, usage, found);
            }
        }
    }

    fn part(&self, part: &str, usage: PathUse, found: &mut Candidates) {
        let is_pattern = !part.contains(|c| !is_meta(c) && c != '/');
        let path = expand(part, self.variables);
        let is_unknown = path.contains(ANY);
        match usage {
            // Nothing is known of the name.
            PathUse::Directory if is_unknown => {
                let is_any = |part: &str| part.chars().all(|c| is_meta(c) || c == '.');
                match path.split('/').all(is_any) {
                    true => found.add(&format!("/{ANY}"), PathUse::Directory),
                    false => found.add(&path, PathUse::Directory),
                }
            }
            // The current directory may be any; it counts if the command enters it.
            PathUse::Operand if matches!(part, "." | "./") => {
                found.add(&path, PathUse::BareOperand)
            }
            _ if is_path_like(part) && part != "." || part == "." && usage != PathUse::Mention => {
                found.add(&path, usage);
            }
            _ if is_pattern && usage != PathUse::Operand => {}
            PathUse::Operand if self.has_bare_words => found.add(&path, PathUse::BareOperand),
            PathUse::Directory => found.add(&path, PathUse::Directory),
            _ if self.has_bare_words => found.add(&path, PathUse::Bare),
            _ => {}
        }
    }
}

/// The position of the directory into which `cp` and the like write the files of their other words under their own names.
fn destination(program: &str, words: &[String]) -> Option<usize> {
    if !matches!(program, "cp" | "install" | "ln" | "mv" | "scp") {
        return None;
    }
    let is_option = |word: &&String| word.starts_with('-') && word.len() > 1;
    if words
        .iter()
        .filter(is_option)
        .any(|word| word.contains(['T', 't']))
    {
        return None;
    }
    let last = words.iter().rposition(|word| !is_option(&word))?;
    let has_name = |word: &String| {
        let name = word.rsplit('/').next().unwrap_or_default();
        !name.is_empty() && name != "." && name != ".." && !name.contains(is_meta)
    };
    let mut others = words.iter().take(last).filter(|word| !is_option(word));
    let is_last = words.iter().rposition(|_| true) == Some(last);
    (is_last && last > 0 && others.all(has_name)).then_some(last)
}
