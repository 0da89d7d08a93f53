//! The table of programs: what each does, by subcommand and options. The table is in `programs.txt` and `families.txt`.

mod arguments;
mod toolchain;
mod uses;
mod verbs;

use std::collections::HashMap;
use std::sync::LazyLock;

use super::class::CommandClass;
use super::interpreters::code_options;
use super::word::UNKNOWN;
use toolchain::{TOOLCHAIN, is_architecture};
use uses::{SHELL_WORDS, UseRule};
use verbs::{grants, is_deleting_action, is_deletion, names_deletion, stops};

use arguments::is_path_like;
pub use arguments::{ArgumentList, find_option};
pub use uses::ArgumentUse;

/// Stands for the paths that a program such as `xargs` adds to the operands.
pub const FED_OPERAND: &str = "\u{1}/";

/// Programs whose operands are files or texts, not subcommands.
const TAKES_FILES: [&str; 64] = [
    "gdb", "cgdb", "mkdir", "touch", "ln", "install", "cp", "mv", "tee", "split", "patch", "gzip",
    "bzip2", "xz", "zstd", "zip", "tar", "bsdtar", "cd", "pushd", "exec", "export", "typeset",
    "declare", "local", "unset", "alias", "unalias", "vim", "vi", "nvim", "nano", "emacs", "code",
    "subl", "open", "xdg-open", "python", "python3", "node", "ruby", "perl", "php", "java", "gcc",
    "g++", "clang", "clang++", "cc", "rustc", "pytest", "black", "ruff", "chmod", "chown", "kill",
    "curl", "wget", "ssh", "scp", "rsync", "ping", "dig", "git",
];

/// Long options that delete, in any program that changes something.
const DELETING_OPTIONS: [&str; 7] = [
    "--delete",
    "--purge",
    "--wipe",
    "--destroy",
    "--erase",
    "--delete-all",
    "--remove-source-files",
];

static TABLE: LazyLock<HashMap<&'static str, ProgramEntry>> = LazyLock::new(|| {
    let mut table = HashMap::new();
    for line in include_str!("programs.txt")
        .lines()
        .chain(include_str!("families.txt").lines())
    {
        add_line(&mut table, line);
    }
    table
});

/// Entry of the table for a program.
#[derive(Debug, Default)]
pub struct ProgramEntry {
    /// Options that take a value in the next argument.
    takes: Vec<&'static str>,
    /// A single dash begins a long option: `-delete`.
    has_long_dash: bool,
    /// Options that neither write, run nor delete, though their names say so.
    harmless: Vec<&'static str>,
    /// Options with which it only prints its planned actions, whatever the subcommand. Other programs may ignore `--dry-run`.
    dry_runs: Vec<&'static str>,
    rules: Vec<ProgramRule>,
    uses: Vec<UseRule>,
}

#[derive(Debug)]
struct ProgramRule {
    /// The alternatives of each subcommand.
    path: Vec<Vec<&'static str>>,
    class: CommandClass,
    /// One of these must hold, if there are any.
    any: Vec<&'static str>,
    /// None of these may hold.
    none: Vec<&'static str>,
    reason: &'static str,
}

/// How a program uses its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramVerdict {
    /// The class.
    pub class: CommandClass,
    /// Why, for the user; empty if the class says it all.
    pub reason: String,
    /// Whether only the name of an operand or option says that it deletes.
    pub is_guess: bool,
}

/// Adds a line of a table.
fn add_line(table: &mut HashMap<&'static str, ProgramEntry>, line: &'static str) {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return;
    }
    // `reads: NAME NAME …` lists programs without subcommands.
    if let Some((class, names)) = line
        .split_once(": ")
        .filter(|(class, _)| CommandClass::from_name(class).is_some())
    {
        let Some(class) = CommandClass::from_name(class) else {
            return;
        };
        for name in names.split_whitespace() {
            table.entry(name).or_default().rules.push(ProgramRule {
                path: Vec::new(),
                class,
                any: Vec::new(),
                none: Vec::new(),
                reason: "",
            });
        }
        return;
    }
    let Some((subject, rest)) = line.split_once(" => ") else {
        add_options(table, line);
        return;
    };
    let (rest, reason) = rest.split_once("; ").unwrap_or((rest, ""));
    let (rest, none) = rest.split_once(" unless ").unwrap_or((rest, ""));
    let (class, any) = rest.split_once(" if ").unwrap_or((rest, ""));
    let (names, path) = split_subject(subject);
    let class = CommandClass::from_name(class.trim()).unwrap_or(CommandClass::Unknown);
    for name in names.split(',') {
        table.entry(name).or_default().rules.push(ProgramRule {
            path: path.clone(),
            class,
            any: any.split_whitespace().collect(),
            none: none.split_whitespace().collect(),
            reason,
        });
    }
}

/// Splits `NAME,NAME SUBCOMMAND,SUBCOMMAND …`.
fn split_subject(subject: &'static str) -> (&'static str, Vec<Vec<&'static str>>) {
    let mut subject = subject.split_whitespace();
    let names = subject.next().unwrap_or_default();
    (
        names,
        subject.map(|part| part.split(',').collect()).collect(),
    )
}

/// Adds a line that describes options.
fn add_options(table: &mut HashMap<&'static str, ProgramEntry>, line: &'static str) {
    if let Some(names) = line.strip_suffix(" has long options with one dash") {
        for name in names.split(',') {
            table.entry(name).or_default().has_long_dash = true;
        }
        return;
    }
    for word in [" takes ", " has harmless ", " has dry run "] {
        let Some((names, options)) = line.split_once(word) else {
            continue;
        };
        // The options of a subcommand count for all.
        let names = names.split(' ').next().unwrap_or_default();
        for name in names.split(',') {
            let entry = table.entry(name).or_default();
            let list = match word {
                " takes " => &mut entry.takes,
                " has harmless " => &mut entry.harmless,
                _ => &mut entry.dry_runs,
            };
            list.extend(options.split_whitespace());
        }
        return;
    }
    for (word, purpose) in ArgumentUse::WORDS {
        let Some((subject, arguments)) = line.split_once(word) else {
            continue;
        };
        let (arguments, none) = arguments.split_once(" unless ").unwrap_or((arguments, ""));
        let (arguments, any) = arguments.split_once(" if ").unwrap_or((arguments, ""));
        let (arguments, others) = arguments.split_once(" not ").unwrap_or((arguments, ""));
        let (names, path) = split_subject(subject);
        for name in names.split(',') {
            table.entry(name).or_default().uses.push(UseRule {
                path: path.clone(),
                purpose,
                arguments: arguments.split_whitespace().collect(),
                others: others.split_whitespace().collect(),
                any: any.split_whitespace().collect(),
                none: none.split_whitespace().collect(),
            });
        }
        return;
    }
}

/// Returns the entry of a program.
pub fn find(name: &str) -> Option<&'static ProgramEntry> {
    let exact = TABLE.get(name);
    // One that only says what options are for leaves the rest to the program without a version.
    let entry = exact.filter(|entry| entry.has_class());
    // Versions, as in python3.12 and gcc-13.
    let entry = entry.or_else(|| {
        let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
        TABLE.get(plain).filter(|_| plain.len() > 1)
    });
    let entry = entry.or(exact);
    entry.or_else(|| {
        // A script of a package, as kafka-topics.sh: one like test.sh is the user's own.
        let script = name.strip_suffix(".sh").filter(|name| name.contains('-'));
        let script = script.or(name.strip_suffix(".exe"));
        // Behind the target, which has two parts or more.
        let target = name
            .split_once('-')
            .filter(|(first, rest)| rest.contains('-') && is_architecture(first));
        let part = target.and_then(|(_, rest)| rest.rsplit('-').next());
        let part = part.filter(|part| TOOLCHAIN.contains(part));
        TABLE.get(script.or(part)?)
    })
}

impl ProgramEntry {
    /// Sorts the arguments of this program.
    pub fn arguments<'a>(&self, arguments: &'a [String]) -> ArgumentList<'a> {
        ArgumentList::new(arguments, &self.takes, self.has_long_dash)
    }

    /// The options that take a value.
    pub fn value_options(&self) -> &[&'static str] {
        &self.takes
    }

    /// Whether the table says what the program does, not only what its options are for.
    pub fn has_class(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Returns what the program does with these arguments.
    pub fn verdict(&self, name: &str, list: &ArgumentList<'_>) -> ProgramVerdict {
        if shows_help(name, list) {
            return ProgramVerdict {
                class: CommandClass::Reads,
                reason: String::new(),
                is_guess: false,
            };
        }
        let (mut verdict, mut is_general) = self.last_rule(name, list);
        // The word after an option that the table does not know may be its value, so that the subcommand comes later.
        for skipped in 1..=list.possible_values() {
            if !is_general {
                break;
            }
            let (other, other_is_general) = self.last_rule(name, &list.without(skipped));
            let is_unknown = verdict.class == CommandClass::Unknown;
            if !other_is_general && (other.class > verdict.class || is_unknown) {
                verdict = other;
                is_general = false;
            }
        }
        // The table has no line for each subcommand of each program.
        let may_delete =
            is_general && !TAKES_FILES.contains(&name) && names_deletion(name, list.subcommands());
        let changes = matches!(verdict.class, CommandClass::Writes | CommandClass::Network);
        let reads = verdict.class == CommandClass::Reads && !SHELL_WORDS.contains(&name);
        let mut options = DELETING_OPTIONS.iter();
        let has_option = (changes || reads)
            && options.any(|option| list.options.contains(option) && !self.knows(option));
        let is_surely_trial = list.is_dry_run(&self.dry_runs);
        let is_trial = is_surely_trial || list.is_dry_run(&["--dry-run", "--dryrun"]);
        if (changes && may_delete || has_option) && !is_trial {
            return ProgramVerdict {
                class: CommandClass::Destroys,
                reason: format!("{name} deletes something"),
                is_guess: true,
            };
        }
        match verdict.class == CommandClass::Destroys && is_surely_trial {
            true => ProgramVerdict {
                class: match self
                    .rules
                    .iter()
                    .any(|rule| rule.class == CommandClass::Network)
                {
                    true => CommandClass::Network,
                    false => CommandClass::Reads,
                },
                reason: String::new(),
                is_guess: false,
            },
            false => verdict,
        }
    }

    /// Whether a rule does not count the word that is not known where another rule names a subcommand that destroys.
    fn may_be_worse(&self, rule: &ProgramRule, list: &ArgumentList<'_>) -> bool {
        let own = list.own_operands();
        let is_unknown = |word: &&str| word.contains(UNKNOWN);
        let Some(at) = own
            .iter()
            .position(is_unknown)
            .filter(|at| *at >= rule.path.len())
        else {
            return false;
        };
        let fits = |name: &&str, word: &str| {
            // A word of the input need not be a path.
            let word = if word == FED_OPERAND { "\u{1}" } else { word };
            let start = word.split(UNKNOWN).next().unwrap_or_default();
            let end = word.rsplit(UNKNOWN).next().unwrap_or_default();
            let rest = name.strip_prefix(start);
            rest.is_some_and(|rest| rest.ends_with(end))
        };
        let begins = |path: &[Vec<&str>]| {
            let mut before = path.iter().zip(own).take(at);
            let here = path.get(at).zip(own.get(at));
            here.is_some_and(|(names, word)| names.iter().any(|name| fits(name, word)))
                && before.all(|(names, word)| names.contains(word))
        };
        let mut rules = self.rules.iter();
        rule.class < CommandClass::Unknown
            && rules.any(|other| other.class == CommandClass::Destroys && begins(&other.path))
    }

    /// Returns what the last rule that applies says, and whether it is only about the program in general. A rule that says less
    /// about the arguments than an earlier one replaces it only to raise the class.
    fn last_rule(&self, name: &str, list: &ArgumentList<'_>) -> (ProgramVerdict, bool) {
        let mut found: Option<&ProgramRule> = None;
        for rule in &self.rules {
            let lowers = found.is_some_and(|found| rule.class < found.class);
            let is_covered = found.is_some_and(|found| rule.is_covered(found));
            if !is_covered && rule.applies(list, lowers) {
                found = Some(rule);
            }
        }
        let found = found.filter(|rule| !self.may_be_worse(rule, list));
        let known =
            found.filter(|rule| rule.class != CommandClass::Unknown || !rule.reason.is_empty());
        let verdict = match known {
            Some(rule) => ProgramVerdict {
                class: rule.class,
                reason: match (rule.class, rule.reason) {
                    (CommandClass::Destroys, "") => format!("{name} deletes something"),
                    (_, reason) => reason.to_owned(),
                },
                is_guess: false,
            },
            None => ProgramVerdict {
                class: CommandClass::Unknown,
                reason: match list.operands.first() {
                    Some(sub) if !sub.contains(UNKNOWN) => {
                        format!("what `{name} {sub}` does is not known")
                    }
                    _ => format!("what {name} does with these arguments is not known"),
                },
                is_guess: false,
            },
        };
        (verdict, found.is_none_or(ProgramRule::is_general))
    }
}

impl ProgramRule {
    fn is_general(&self) -> bool {
        self.path.is_empty() && self.any.is_empty()
    }

    /// Whether a rule says less than one that was found before.
    fn is_covered(&self, found: &ProgramRule) -> bool {
        let detail = |rule: &ProgramRule| 2 * rule.path.len() + usize::from(!rule.any.is_empty());
        let lowers = self.class < found.class;
        // An option with which the program runs another one counts for each subcommand.
        let runs = found.class == CommandClass::Unknown
            && !found.any.is_empty()
            && found
                .any
                .iter()
                .all(|condition| !condition.starts_with('@'));
        self.is_general() && !found.is_general()
            || lowers && (detail(self) < detail(found) || runs && self.any.is_empty())
    }

    /// Whether the rule holds. An option that lowers the class must be an option for certain: `-onotify` has no `-n`.
    fn applies(&self, list: &ArgumentList<'_>, lowers: bool) -> bool {
        let (own, destroys) = (list.own_operands(), self.class == CommandClass::Destroys);
        let is_path = holds_path(&self.path, list) && (!destroys || self.path.len() <= own.len());
        let is_verb = |condition: &&str| matches!(*condition, "@deletes" | "@grants" | "@stops");
        let operands = match destroys {
            true if self.any.iter().any(is_verb) => list.subcommands(),
            // What the command does that it runs is said of that command.
            true => own,
            false => &list.operands,
        };
        let rest = operands.get(self.path.len()..).unwrap_or_default();
        let verbs = |most| list.subcommands().iter().take(most);
        let holds = |condition: &&str, for_certain: bool| match *condition {
            "@none" => rest.is_empty(),
            "@some" => !rest.is_empty(),
            "@two" => rest.len() > 1,
            "@many" => rest.len() > 2,
            "@bare" => list.options.is_empty() && rest.is_empty(),
            "@deletes" => verbs(4).any(|word| is_deletion(word) || is_deleting_action(word)),
            "@stops" => verbs(4).any(|word| stops(word)),
            "@grants" => verbs(4).any(|word| grants(word)),
            "@verb-deletes" => verbs(2).any(|word| is_deletion(word)),
            "@verb-stops" => verbs(2).any(|word| stops(word)),
            "@unknown" => list.operands.first().is_none_or(|o| o.contains(UNKNOWN)),
            "@fed" => list.operands.contains(&FED_OPERAND),
            "@device" => list.operands.iter().any(|o| o.starts_with("/dev/")),
            "@dashes" => list.has_dashes,
            "@sets" => list
                .options
                .iter()
                .chain(rest)
                .any(|word| word.contains('=')),
            "@digits" => rest
                .iter()
                .any(|o| o.starts_with(|c: char| c.is_ascii_digit())),
            "@path" => rest.iter().any(|operand| is_path_like(operand)),
            option if option.starts_with('-') && option.len() > 1 => match for_certain {
                true => list.has_surely(option),
                false => list.has(option),
            },
            word if word.starts_with("@last:") => {
                let start = word.trim_start_matches("@last:");
                rest.last().is_some_and(|last| last.starts_with(start))
            }
            word => match word.strip_suffix('*') {
                Some(part) if part.starts_with('*') => {
                    let mut all = list.operands.iter().chain(&list.options);
                    all.any(|argument| argument.contains(part.trim_start_matches('*')))
                }
                Some(start) => rest.iter().any(|operand| operand.starts_with(start)),
                None if word.starts_with('*') => {
                    let end = word.trim_start_matches('*');
                    rest.iter().any(|operand| operand.ends_with(end))
                }
                None => rest
                    .iter()
                    .any(|operand| operand.eq_ignore_ascii_case(word)),
            },
        };
        is_path
            && (self.any.is_empty() || self.any.iter().any(|option| holds(option, lowers)))
            && !self.none.iter().any(|option| holds(option, !lowers))
    }
}

/// Whether a program only prints its help or version. A value may follow `--version`, and a script of an interpreter gets what
/// follows it.
fn shows_help(name: &str, list: &ArgumentList<'_>) -> bool {
    // `aws s3 rm help`
    if name == "aws" && list.options.is_empty() && list.operands.last() == Some(&"help") {
        return list.operands.len() < 4;
    }
    let [option] = list.options.as_slice() else {
        return false;
    };
    let is_word = |operand: &&str| {
        let mut chars = operand.chars();
        chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | ':'))
    };
    let has_subcommands = name == "git" || !TAKES_FILES.contains(&name);
    let runs_operand =
        code_options(name).is_some() || matches!(name, "tsx" | "ts-node" | "kotlin" | "jbang");
    match *option {
        "--version" => list.operands.is_empty(),
        "-help" if list.has_long_dash => has_subcommands && list.operands.iter().all(is_word),
        "--help" if list.operands.is_empty() => true,
        "--help" => has_subcommands && !runs_operand && list.operands.iter().all(is_word),
        _ => false,
    }
}

/// Whether the first operands are these subcommands.
fn holds_path(path: &[Vec<&'static str>], list: &ArgumentList<'_>) -> bool {
    path.iter().enumerate().all(|(at, names)| {
        let operand = list.operands.get(at);
        operand.is_some_and(|operand| names.iter().any(|name| name == operand))
    })
}

#[cfg(test)]
mod tests;
