//! Arguments of a program: options in each of their forms, and operands.

use super::verbs::selects;

/// An option in a list of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundOption<'a> {
    /// The index of its argument.
    pub at: usize,
    /// The value in the same argument.
    pub(super) attached: Option<&'a str>,
}

impl<'a> FoundOption<'a> {
    /// Returns the value, in the same argument or in the next one.
    pub fn value(&self, arguments: &'a [String]) -> &'a str {
        let next = || arguments.get(self.at + 1).map(String::as_str);
        self.attached.or_else(next).unwrap_or_default()
    }
}

/// Finds an option in each of its forms: `-o V`, `-oV`, `-xo V`, `--output V`, `--output=V`, `--outp V`.
///
/// Letters among `others` take a value, so that what follows one of them in a cluster is that value; long names among them
/// are options, not abbreviations. An argument that is the value of another option counts as well: an error there would hide
/// an option.
pub fn find_option<'a>(
    arguments: &'a [String],
    option: &str,
    others: &[&str],
    has_long_dash: bool,
) -> Vec<FoundOption<'a>> {
    let find = |argument: &'a String| -> Option<Option<&'a str>> {
        let plain = argument.strip_prefix('-')?;
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (argument.as_str(), None),
        };
        if has_long_dash {
            let is_same = name.trim_start_matches('-') == option.trim_start_matches('-');
            return is_same.then_some(value);
        }
        if option.starts_with("--") {
            let is_name = name.len() > 2 && option.starts_with(name);
            let is_other = name != option && others.contains(&name);
            return (is_name && !is_other).then_some(value);
        }
        if option.len() > 2 || plain.starts_with('-') {
            return (name == option).then_some(value);
        }
        let letter = option.chars().nth(1)?;
        let at = plain.find(letter)?;
        let (before, rest) = plain.split_at(at);
        let is_value = |c: char| others.iter().any(|other| is_letter(other, c));
        if before
            .chars()
            .any(|c| !c.is_ascii_alphanumeric() || is_value(c))
        {
            return None;
        }
        let rest = rest
            .get(letter.len_utf8()..)
            .filter(|rest| !rest.is_empty());
        Some(rest.map(|rest| rest.strip_prefix('=').unwrap_or(rest)))
    };
    let options = arguments.iter().take_while(|argument| *argument != "--");
    let found = options.enumerate().filter_map(|(at, argument)| {
        let attached = find(argument)?;
        Some(FoundOption { at, attached })
    });
    found.collect()
}

fn is_letter(option: &str, letter: char) -> bool {
    let mut chars = option.chars();
    (chars.next(), chars.next(), chars.next()) == (Some('-'), Some(letter), None)
}

/// The arguments of a program, sorted.
#[derive(Debug, Default, Clone)]
pub struct ArgumentList<'a> {
    /// Options, in order, without their values in other arguments.
    pub options: Vec<&'a str>,
    /// The other arguments.
    pub operands: Vec<&'a str>,
    /// Whether some of them follow `--`.
    pub(super) has_dashes: bool,
    /// Whether a single dash begins a long option.
    pub(super) has_long_dash: bool,
    /// Letters of options that take a value.
    value_letters: Vec<char>,
    /// How many operands at the beginning each follow an option.
    possible_values: usize,
    /// How many operands stand before the command that the program runs, if it runs one.
    own_operands: Option<usize>,
}

impl<'a> ArgumentList<'a> {
    /// Sorts arguments; an option in `takes` consumes the next one.
    pub fn new(arguments: &'a [String], takes: &[&str], has_long_dash: bool) -> ArgumentList<'a> {
        let mut after_option = false;
        let mut list = ArgumentList {
            has_long_dash,
            value_letters: takes
                .iter()
                .filter(|option| option.len() == 2)
                .filter_map(|option| option.chars().nth(1))
                .collect(),
            ..ArgumentList::default()
        };
        let mut at = 0;
        while let Some(argument) = arguments.get(at) {
            at += 1;
            if argument == "--" {
                list.has_dashes = at < arguments.len();
                list.operands
                    .extend(arguments.iter().skip(at).map(String::as_str));
                break;
            }
            if !argument.starts_with('-') || argument == "-" {
                let is_leading = list.possible_values == list.operands.len();
                list.possible_values += usize::from(is_leading && after_option);
                after_option = false;
                list.operands.push(argument);
                continue;
            }
            list.options.push(argument);
            let is_long = argument.starts_with("--") || has_long_dash;
            let last = argument.char_indices().next_back().map_or(0, |(at, _)| at);
            let takes_next = takes
                .iter()
                .any(|option| match is_long || option.len() > 2 {
                    true if has_long_dash => {
                        argument.trim_start_matches('-') == option.trim_start_matches('-')
                    }
                    true => argument == option,
                    // The last letter of a cluster.
                    false => argument.get(last..) == option.get(1..),
                });
            if takes_next {
                at += 1;
            }
            after_option = !takes_next && !argument.contains('=');
        }
        list
    }

    /// How many operands at the beginning may be values of options that the table does not know.
    pub fn possible_values(&self) -> usize {
        self.possible_values.min(self.operands.len())
    }

    /// Returns the list without some operands at its beginning.
    pub fn without(&self, operands: usize) -> ArgumentList<'a> {
        ArgumentList {
            operands: self.operands.get(operands..).unwrap_or_default().to_vec(),
            own_operands: self.own_operands.map(|own| own.saturating_sub(operands)),
            ..self.clone()
        }
    }

    /// Notes that the operands of another list are its own, and that the others belong to a command that it runs.
    pub fn set_own(&mut self, own: &ArgumentList<'_>) {
        self.own_operands = Some(own.operands.len());
    }

    /// Returns the operands that are not part of a command that the program runs.
    pub fn own_operands(&self) -> &[&'a str] {
        let own = self.own_operands.unwrap_or(self.operands.len());
        self.operands.get(..own).unwrap_or(&self.operands)
    }

    /// Returns the operands that may be subcommands of the program: none of the command that it runs, and none behind a verb with
    /// which it only shows something.
    pub fn subcommands(&self) -> &[&'a str] {
        let own = self.own_operands();
        let mut verbs = own.iter().enumerate().skip(self.possible_values());
        // The first word can be the name of a group: `az search service delete`.
        let is_group = |at: usize, word: &str| at == 0 && matches!(word, "list" | "search");
        let shows = verbs.find(|(at, word)| selects(word) && !is_group(*at, word));
        own.get(..shows.map_or(own.len(), |(at, _)| at))
            .unwrap_or(own)
    }

    /// Whether one of these options says that nothing is changed: not `--dry-run=none`.
    pub fn is_dry_run(&self, names: &[&str]) -> bool {
        names.iter().any(|name| match name.starts_with("--") {
            true => self.options.iter().any(|option| {
                let (given, value) = option.split_once('=').unwrap_or((option, "true"));
                let is_off = matches!(value, "none" | "false" | "no" | "off" | "0" | "");
                given == *name && !is_off
            }),
            false => self.options.contains(name) || self.is_in_flags(name),
        })
    }

    /// Whether the letter of an option is in a cluster of usual flags: anything else may be the value of an option.
    fn is_in_flags(&self, option: &str) -> bool {
        const FLAGS: &str = "Radfinpqrsvy";
        let is_flag = |c: char| FLAGS.contains(c) || option.ends_with(c);
        let clusters = self
            .options
            .iter()
            .filter_map(|given| given.strip_prefix('-'));
        let of_flags = clusters.filter(|letters| letters.len() < 5 && letters.chars().all(is_flag));
        option.len() == 2 && self.has_surely(option) && of_flags.count() > 0
    }

    /// Whether an option is given: as a letter of a cluster, as a long option with or without a value, or abbreviated.
    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|given| {
            if *given == option || option.contains('=') {
                return *given == option;
            }
            if self.has_long_dash && option.starts_with('-') {
                let name = given.split('=').next().unwrap_or(given);
                if name.trim_start_matches('-') == option.trim_start_matches('-') {
                    return true;
                }
            }
            if given.starts_with("--") {
                let name = given.split('=').next().unwrap_or(given);
                return option.starts_with("--") && name.len() > 3 && option.starts_with(name);
            }
            match option.strip_prefix('-') {
                Some(letter) if letter.chars().count() == 1 && !self.has_long_dash => {
                    given.trim_start_matches('-').contains(letter)
                }
                _ => given.split('=').next() == Some(option),
            }
        })
    }

    /// The same, but a letter counts only where it cannot be part of the value of another option.
    pub fn has_surely(&self, option: &str) -> bool {
        let mut letters = option.chars().skip(1);
        let (Some(letter), None) = (letters.next(), letters.next()) else {
            return self.has(option);
        };
        self.options.iter().any(|given| {
            let is_cluster = !given.starts_with("--")
                && given.chars().skip(1).all(|c| c.is_ascii_alphanumeric())
                && !self.has_long_dash;
            let mut flags = given.chars().skip(1);
            let first = flags.find(|c| *c == letter || self.value_letters.contains(c));
            *given == option || is_cluster && first == Some(letter)
        })
    }

    /// Whether one of several options is given.
    pub fn has_any(&self, options: &[&str]) -> bool {
        options.iter().any(|option| self.has(option))
    }
}

/// Whether an argument of `git checkout` is a path rather than a branch: `.`, or a file name with an extension.
pub(super) fn is_path_like(operand: &str) -> bool {
    let name = operand.rsplit('/').next().unwrap_or_default();
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    let is_extension = extension.is_some_and(|e| {
        let is_word = !e.is_empty() && e.len() < 6 && e.chars().all(|c| c.is_ascii_alphanumeric());
        is_word && e.chars().any(|c| c.is_ascii_alphabetic())
    });
    matches!(
        operand,
        "." | "*" | "Makefile" | "Dockerfile" | "Gemfile" | "Rakefile" | "LICENSE" | "README"
    ) || operand.starts_with("./")
        || operand.starts_with(":/")
        || operand.starts_with(":(")
        || operand.ends_with('/')
        || operand.contains('*')
        || is_extension
}
