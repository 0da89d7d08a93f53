//! How a program uses single arguments: files that it writes, command lines that it runs.

use super::arguments::FoundOption;
use super::{ArgumentList, ProgramEntry, find_option, holds_path};

/// Programs that print or compare their arguments: these have no options.
pub(super) const SHELL_WORDS: [&str; 8] =
    ["echo", "print", "printf", "test", "[", "[[", "expr", ":"];

/// Options with which a program that reads usually writes a file instead. The table names those that do not.
const WRITING_OPTIONS: [&str; 12] = [
    "--output",
    "--output-file",
    "--output-dir",
    "--output-directory",
    "--outfile",
    "--outdir",
    "--out",
    "--in-place",
    "--inplace",
    "--write",
    "--overwrite",
    "--fix",
];

/// Options with which a program that reads usually runs another one.
const RUNNING_OPTIONS: [&str; 10] = [
    "--exec",
    "--execute",
    "--exec-batch",
    "--cmd",
    "--command",
    "--pager",
    "--pre",
    "--preprocessor",
    "--compress-program",
    "--use-compress-program",
];

/// How a program uses the value of an option, or an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentUse {
    /// It names a file that is written.
    Writes,
    /// It is a command line.
    Runs,
    /// It is a command line that gets files or input that are not known.
    Feeds,
    /// It names a script of the project or the user.
    Interprets,
    /// It names or is code that is not analysed.
    Loads,
    /// It names a directory or a file in one, whose files decide what the program runs.
    Enters,
    /// It names something whose code is installed or run: a package, a file, a place.
    Installs,
    /// It names a file that is downloaded, or where it is downloaded from.
    Fetches,
    /// It is a text for a database.
    Queries,
    /// It is code in a language of which single words are known.
    Evaluates,
    /// It is commands of a protocol or of a file server.
    Sends,
    /// It names a file that is sent.
    Uploads,
    /// Nothing: with such arguments, the program prints secrets.
    PrintsSecrets,
}

impl ArgumentUse {
    /// The words of the table.
    pub(super) const WORDS: [(&'static str, ArgumentUse); 13] = [
        (" writes to ", ArgumentUse::Writes),
        (" runs ", ArgumentUse::Runs),
        (" feeds ", ArgumentUse::Feeds),
        (" interprets ", ArgumentUse::Interprets),
        (" loads ", ArgumentUse::Loads),
        (" enters ", ArgumentUse::Enters),
        (" installs ", ArgumentUse::Installs),
        (" fetches ", ArgumentUse::Fetches),
        (" queries ", ArgumentUse::Queries),
        (" evaluates ", ArgumentUse::Evaluates),
        (" sends ", ArgumentUse::Sends),
        (" uploads ", ArgumentUse::Uploads),
        (" prints secrets", ArgumentUse::PrintsSecrets),
    ];
}

/// A line of the table that says what some arguments are used for.
#[derive(Debug)]
pub(super) struct UseRule {
    pub(super) path: Vec<Vec<&'static str>>,
    pub(super) purpose: ArgumentUse,
    /// Options and operands: `-o`, `--output`, `@2`.
    pub(super) arguments: Vec<&'static str>,
    /// Other options that look like these: see [`find_option`].
    pub(super) others: Vec<&'static str>,
    /// One of these options must be given, if there are any.
    pub(super) any: Vec<&'static str>,
    /// None of these options may be given.
    pub(super) none: Vec<&'static str>,
}

impl UseRule {
    fn holds(&self, list: &ArgumentList<'_>) -> bool {
        let is_given = |condition: &&str, for_certain: bool| match *condition {
            "@bare" => list.options.is_empty() && list.operands.len() == self.path.len(),
            option if option.starts_with('-') && for_certain => list.has_surely(option),
            option if option.starts_with('-') => list.has(option),
            word => list.operands.get(self.path.len()) == Some(&word),
        };
        holds_path(&self.path, list)
            && (self.any.is_empty() || self.any.iter().any(|given| is_given(given, false)))
            && !self.none.iter().any(|given| is_given(given, true))
    }
}

/// Whether the name of a long option says that its value is a command: `--password-command`, `--on-download-complete`.
fn runs_by_name(option: &str) -> bool {
    let Some(name) = option.strip_prefix("--") else {
        return false;
    };
    ["-command", "-cmd", "-cmd-prefix", "-program", "-launcher"]
        .iter()
        .any(|end| name.ends_with(end))
        || name.starts_with("exec-")
        || name.starts_with("on-") && name.contains('-')
}

impl ProgramEntry {
    /// Whether the table knows a subcommand of the program.
    pub fn has_subcommand(&self, name: &str) -> bool {
        let mut names = self.rules.iter().filter_map(|rule| rule.path.first());
        names.any(|names| names.contains(&name))
    }

    /// Returns how the program uses single arguments, other than those that it installs.
    pub fn uses(
        &self,
        arguments: &[String],
        list: &ArgumentList<'_>,
    ) -> Vec<(ArgumentUse, String)> {
        let mut found = self.all_uses(arguments, list);
        found.retain(|(purpose, _)| *purpose != ArgumentUse::Installs);
        found
    }

    /// Returns what the program installs or runs, if it does so at all.
    pub fn installs(
        &self,
        arguments: &[String],
        list: &ArgumentList<'_>,
    ) -> Vec<(ArgumentUse, String)> {
        let mut found = self.all_uses(arguments, list);
        found.retain(|(purpose, _)| *purpose == ArgumentUse::Installs);
        found
    }

    fn all_uses(
        &self,
        arguments: &[String],
        list: &ArgumentList<'_>,
    ) -> Vec<(ArgumentUse, String)> {
        let mut found = Vec::new();
        for rule in self.uses.iter().filter(|rule| rule.holds(list)) {
            let operands = list.operands.get(rule.path.len()..).unwrap_or_default();
            let others = match rule.others.is_empty() {
                true => &self.takes,
                false => &rule.others,
            };
            for argument in &rule.arguments {
                let values: Vec<String> = match *argument {
                    "@all" => operands.iter().map(|value| (*value).to_owned()).collect(),
                    // Names that are not known.
                    "@tree" => vec![String::new()],
                    "@rest" => vec![operands.join(" ")],
                    "@last" => operands
                        .iter()
                        .skip(1)
                        .last()
                        .map(|v| (*v).to_owned())
                        .into_iter()
                        .collect(),
                    "@1" => operands
                        .first()
                        .map(|v| (*v).to_owned())
                        .into_iter()
                        .collect(),
                    "@2" => operands
                        .get(1)
                        .map(|v| (*v).to_owned())
                        .into_iter()
                        .collect(),
                    option => {
                        let name = option.trim_end_matches(['?', '*']);
                        let places = find_option(arguments, name, others, self.has_long_dash);
                        let value = |place: &FoundOption<'_>| match option.chars().next_back() {
                            Some('?') => place.attached.unwrap_or_default().to_owned(),
                            Some('*') if place.attached.is_none() => {
                                arguments.get(place.at + 1..).unwrap_or_default().join(" ")
                            }
                            _ => place.value(arguments).to_owned(),
                        };
                        places.iter().map(value).collect()
                    }
                };
                found.extend(values.into_iter().map(|value| (rule.purpose, value)));
            }
        }
        found
    }

    /// Whether the program prints secrets.
    pub fn prints_secrets(&self, list: &ArgumentList<'_>) -> bool {
        let mut uses = self.uses.iter();
        uses.any(|rule| rule.purpose == ArgumentUse::PrintsSecrets && rule.holds(list))
    }

    /// Whether the files of the directory where the program runs decide which programs it runs.
    pub fn obeys_directory(&self) -> bool {
        let mut uses = self.uses.iter();
        uses.any(|rule| rule.purpose == ArgumentUse::Enters)
    }

    /// Returns what a program that `reads`, or that uses the network, does with options whose names say that they write or run
    /// something.
    pub fn suspect_uses(
        &self,
        name: &str,
        arguments: &[String],
        reads: bool,
    ) -> Vec<(ArgumentUse, String)> {
        let mut found = Vec::new();
        if SHELL_WORDS.contains(&name) {
            return found;
        }
        for (at, argument) in arguments.iter().enumerate() {
            let option = argument.split('=').next().unwrap_or(argument);
            if runs_by_name(option) && !self.knows(&option) {
                let place = FoundOption {
                    at,
                    attached: argument.split_once('=').map(|(_, value)| value),
                };
                found.push((ArgumentUse::Feeds, place.value(arguments).to_owned()));
            }
        }
        let lists = [
            (&WRITING_OPTIONS[..], ArgumentUse::Writes),
            (&RUNNING_OPTIONS[..], ArgumentUse::Feeds),
        ];
        for (options, purpose) in lists.into_iter().skip(usize::from(!reads)) {
            for option in options.iter().filter(|option| !self.knows(option)) {
                let named = |argument: &&String| argument.split('=').next() == Some(*option);
                if arguments.iter().any(|argument| named(&argument)) {
                    let places = find_option(arguments, option, &[], false);
                    found.extend(
                        places
                            .iter()
                            .map(|place| (purpose, place.value(arguments).to_owned())),
                    );
                }
            }
        }
        found
    }

    /// Whether the table says what an option is for.
    pub(super) fn knows(&self, option: &&str) -> bool {
        self.harmless.contains(option)
            || self.uses.iter().any(|rule| rule.arguments.contains(option))
            || self.rules.iter().any(|rule| rule.any.contains(option))
    }
}
