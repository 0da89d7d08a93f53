//! A program on its way through the wrappers, and the arguments that `xargs`, `parallel` and `find` add to it.

use super::candidates::{MAX_VALUES, split};
use super::streams::StreamContent;
use super::{Assessor, ScriptFacts};
use crate::safety::command::class::CommandClass::{RunsDownloadedCode, Unknown};
use crate::safety::command::interpreters;
use crate::safety::command::programs::{self, find_option};
use crate::safety::command::roles::wrapped;
use crate::safety::command::shell_options::ShellOptions;
use crate::safety::command::word::{ShellWord, UNKNOWN, program_name};
use crate::safety::command::wrappers::WrappedCommand;

/// Words of its input that a wrapper may take before the command: the image of `docker run`, the time of `timeout`.
const MAX_OPERANDS: usize = 3;

/// Most calls of `xargs` with constant words that are judged instead of one with words that are not known.
const MAX_CERTAIN: usize = 8;

/// Placeholder that programs which feed others replace by an argument, unless they are told otherwise.
pub(super) const PLACEHOLDER: &str = "{}";

/// A program with its arguments, on its way through the wrappers.
#[derive(Default)]
pub struct UnwrappedCall {
    /// The name and the arguments.
    pub(super) arguments: Vec<String>,
    /// The words that the arguments come from; empty for a command inside of an argument.
    pub(super) words: Vec<ShellWord>,
    /// Placeholder for the arguments that are added when it runs, as by `xargs`.
    pub(super) placeholder: Option<String>,
    /// Whether these arguments come from the network.
    pub(super) feeds_download: bool,
    /// The index of the command, if the name may be the one of a function.
    pub(super) function_at: Option<usize>,
}

impl UnwrappedCall {
    /// Returns the call with words in place of the arguments that are added when it runs.
    pub(super) fn fed(&self, words: &[String]) -> UnwrappedCall {
        let placeholder = self.placeholder.as_deref().unwrap_or(PLACEHOLDER);
        let added = words.join(" ");
        let replace = |argument: &String| argument.replace(placeholder, &added);
        let mut arguments: Vec<String> = self.arguments.iter().map(replace).collect();
        if arguments == self.arguments {
            arguments.extend(words.iter().cloned());
        }
        UnwrappedCall {
            arguments,
            ..UnwrappedCall::default()
        }
    }

    /// Whether the arguments that are added when a wrapper runs name its command: `xargs env`, `xargs timeout 5`.
    pub(super) fn is_named_by_input(&self, name: &str) -> bool {
        if self.placeholder.is_none() {
            return false;
        }
        let added = std::iter::repeat_n(programs::FED_OPERAND.to_owned(), MAX_OPERANDS);
        let arguments: Vec<String> = self.arguments.iter().cloned().chain(added).collect();
        wrapped(name, &arguments).is_some_and(|inner| inner != WrappedCommand::Nothing)
    }

    /// Returns the arguments without the name; those that are added when it runs are paths that are not known.
    pub(super) fn all_arguments(&self) -> Vec<String> {
        let arguments = self.arguments.get(1..).unwrap_or_default();
        let Some(placeholder) = self.placeholder.as_deref() else {
            return arguments.to_vec();
        };
        let path = programs::FED_OPERAND.to_owned();
        let is_replaced = |argument: &String| argument.contains(placeholder);
        // The first may be the value of an option.
        let ends_open = arguments.last().is_some_and(|last| last.starts_with('-'));
        let added = match arguments.iter().any(is_replaced) {
            true => 0,
            false => 1 + usize::from(ends_open),
        };
        let given = arguments
            .iter()
            .map(|argument| match argument == placeholder {
                true => path.clone(),
                false => argument.replace(placeholder, &UNKNOWN.to_string()),
            });
        let added = std::iter::repeat_n(path.clone(), added);
        given.chain(added).collect()
    }
}

/// Placeholder of `entr`.
pub(super) const ENTR_FILE: &str = "/_";

/// Returns what `xargs` puts arguments in place of; its command begins at an index.
pub(super) fn placeholder(arguments: &[String], at: usize) -> String {
    if arguments
        .first()
        .is_some_and(|name| program_name(name) == "entr")
    {
        return ENTR_FILE.to_owned();
    }
    let own = arguments.get(1..at).unwrap_or_default();
    let others = ["-n", "-P", "-L", "-d", "-s", "-E", "-a", "-R", "-S"];
    let mut found = ["-I", "-J", "--replace"]
        .into_iter()
        .flat_map(|option| find_option(own, option, &others, false));
    let value = found.next().map(|found| found.value(own).to_owned());
    value
        .filter(|value| !value.is_empty())
        .unwrap_or_else(|| PLACEHOLDER.to_owned())
}

/// Returns the arguments that `parallel` adds to a command: one of each list, the last list first.
pub(super) fn combinations(lists: &[String]) -> impl Iterator<Item = Vec<String>> {
    let lists = lists.split(|word| word.starts_with(":::"));
    let lists: Vec<&[String]> = lists.filter(|list| !list.is_empty()).collect();
    let nth = move |number: usize| {
        let mut rest = number;
        let mut words: Vec<String> = Vec::with_capacity(lists.len());
        for list in lists.iter().rev() {
            words.extend(list.get(rest % list.len()).cloned());
            rest /= list.len();
        }
        words.reverse();
        (rest == 0).then_some(words)
    };
    (0..).map_while(nth)
}

/// Options of `xargs` that decide how its words are spread over calls.
#[derive(Default)]
struct WordSpread {
    /// Most words of a call.
    most: Option<usize>,
    /// Whether each line takes the place of the placeholder.
    replaces: bool,
}

impl WordSpread {
    /// Reads the options, or returns `None` if there is one that changes where the words come from or where they end.
    fn read(options: &[String]) -> Option<WordSpread> {
        let mut spread = WordSpread::default();
        let mut options = options.iter().map(String::as_str);
        while let Some(option) = options.next() {
            match option {
                "-r" | "-t" | "--no-run-if-empty" | "--verbose" | "--" => {}
                "-P" | "-I" | "-n" => {
                    let value = options.next()?;
                    spread.set(option, value)?;
                }
                _ => {
                    let (name, value) = option.split_at_checked(2)?;
                    spread.set(name, value)?;
                }
            }
        }
        Some(spread)
    }

    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "-n" => self.most = Some(value.parse().ok().filter(|most| *most > 0)?),
            "-I" => self.replaces = !value.is_empty(),
            "-P" => {}
            _ => return None,
        }
        Some(())
    }
}

/// Returns a word for a shell that stands for itself.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

impl ScriptFacts {
    /// Whether a command reads what one `echo` or `printf` before it prints, or one here-document or here-string, and nothing else.
    /// Zsh joins several inputs, and a condition may leave out what is printed.
    fn has_constant_input(&self, text: &str, index: usize) -> bool {
        const COMPOUND: [&str; 11] = [
            "((", "{ ", "case ", "for ", "foreach ", "if ", "repeat ", "select ", "until ",
            "while ", "always",
        ];
        let own = index..index + 1;
        let mut piped = self.script.pipelines.iter().filter(|stages| {
            let mut behind = stages.iter().skip(1);
            behind.any(|stage| stage.contains(&index))
        });
        let (first, others) = (piped.next(), piped.next());
        let is_printed = first.is_some_and(|stages| match stages.as_slice() {
            [before, stage, ..] => {
                let facts = self.facts.get(before.clone()).unwrap_or_default();
                let names: Vec<_> = facts.iter().map(|own| own.values.first()).collect();
                *stage == own
                    && matches!(&*names, [Some(name)] if matches!(name.as_str(), "echo" | "printf"))
            }
            _ => false,
        });
        let (mut inputs, mut is_plain) = (0, true);
        for redirection in &self.script.redirections {
            let is_input = redirection.operator.starts_with('<');
            inputs += usize::from(is_input);
            is_plain &= redirection.commands == own || redirection.descriptor == Some(2);
        }
        let is_single = match first {
            Some(_) => is_printed && inputs == 0,
            None => inputs == 1,
        };
        is_plain
            && is_single
            && others.is_none()
            && !COMPOUND.iter().any(|word| text.contains(word))
    }
}

impl Assessor<'_> {
    /// Returns the calls that `xargs` makes, if all words of its input are constant. Its command begins at an index.
    pub(super) fn certain_operands(
        &self,
        script: &ScriptFacts,
        call: &UnwrappedCall,
        at: usize,
    ) -> Option<Vec<UnwrappedCall>> {
        let text = match self.input.as_ref().map(|input| &input.content) {
            Some(StreamContent::Text(text) | StreamContent::Here(text)) => text,
            _ => return None,
        };
        let defines = ["echo", "printf", "xargs"];
        // The shell replaces patterns, braces and a leading `=`, `xargs` reads quotes, and zsh drops a first `-`.
        let signs = [
            UNKNOWN, '\'', '"', '\\', '*', '?', '[', '{', '~', '^', '#', '$', '`', '(', '<',
        ];
        let mut words = text.split_whitespace();
        let is_certain = !text.contains(signs)
            && !words.any(|word| word == "-" || word.starts_with('='))
            && !self.findings.hides_unknown
            && !defines.iter().any(|name| self.functions.contains(*name))
            && script.has_constant_input(&self.text, call.function_at?);
        let spread = WordSpread::read(call.arguments.get(1..at)?).filter(|_| is_certain)?;
        let command = call.arguments.get(at..)?;
        let placeholder = call.placeholder.as_deref()?;
        let called = |arguments: Vec<String>| UnwrappedCall {
            arguments,
            ..UnwrappedCall::default()
        };
        let calls: Vec<UnwrappedCall> = match spread.replaces {
            true => {
                let is_replaced = |argument: &String| argument.contains(placeholder);
                if !command.iter().any(is_replaced) {
                    return None;
                }
                let lines = text.lines().map(str::trim_start);
                let lines = lines.filter(|line| !line.is_empty()).map(|line| {
                    let replace = |argument: &String| argument.replace(placeholder, line);
                    called(command.iter().map(replace).collect())
                });
                lines.take(MAX_CERTAIN + 1).collect()
            }
            false => {
                let words = split(text);
                let most = spread.most.unwrap_or(words.len()).max(1);
                let mut parts: Vec<&[String]> = words.chunks(most).take(MAX_CERTAIN + 1).collect();
                if parts.is_empty() {
                    parts.push(&[]);
                }
                let parts = parts.into_iter();
                parts
                    .map(|words| called([command, words].concat()))
                    .collect()
            }
        };
        let mut arguments = calls.iter().flat_map(|call| &call.arguments);
        let has_room = calls.len() <= MAX_CERTAIN && arguments.all(|word| self.has_room(word));
        has_room.then_some(calls)
    }

    /// Returns words that `echo`, `printf` or a here-string gives to a command, with the last known values of its variables.
    pub(super) fn printed_words(&self, script: &ScriptFacts, index: usize) -> Vec<String> {
        let syntax = &script.script;
        let printed = syntax.pipelines.iter().find_map(|stages| {
            let at = stages.iter().position(|stage| stage.contains(&index))?;
            let before = stages.get(at.checked_sub(1)?)?.clone();
            let name = script.facts.get(before.start)?.values.first()?;
            let prints = before.len() == 1 && matches!(name.as_str(), "echo" | "print" | "printf");
            syntax.commands.get(before.start).filter(|_| prints)
        });
        let printed = printed
            .and_then(|own| own.words.get(1..))
            .unwrap_or_default();
        let inputs = syntax.redirections.iter();
        let inputs = inputs.filter(|own| own.operator == "<<<" && own.commands.contains(&index));
        let words = printed.iter().chain(inputs.map(|own| &own.target));
        let text = |word: &ShellWord| match self.value(word) {
            value if value.contains(UNKNOWN) => self.possible_values(script, word).pop(),
            value => Some(value).filter(|value| !value.contains('%')),
        };
        words
            .filter_map(text)
            .flat_map(|text| split(&text))
            .collect()
    }

    /// Returns the text of `parallel` with each combination of the words behind `:::` in it, one a line. The words of a file are not
    /// known.
    pub(super) fn text_with_lists(&self, text: String, arguments: &[String]) -> String {
        let at = arguments.iter().position(|word| word.starts_with(":::"));
        let lists = at.and_then(|at| arguments.get(at..)).unwrap_or_default();
        if lists.is_empty() || lists.iter().any(|word| word.starts_with("::::")) {
            return text;
        }
        let mut texts = Vec::new();
        for (at, words) in combinations(lists).enumerate() {
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            let all = words.join(" ");
            let mut filled = text.replace("{}", &all);
            for (at, word) in words.iter().enumerate() {
                filled = filled.replace(&format!("{{{}}}", at + 1), word);
            }
            if filled == text {
                filled = format!("{text} {all}");
            }
            if at == MAX_VALUES || !self.has_room(&filled) {
                self.note_cut();
                break;
            }
            texts.push(filled);
        }
        texts.join("\n")
    }

    /// Judges a shell whose text has a placeholder, or is itself added: what follows the text is a value.
    pub(super) fn fed_shell(&mut self, call: &UnwrappedCall) {
        let Some(placeholder) = call.placeholder.as_deref() else {
            return;
        };
        let name = call.arguments.first().map(|name| program_name(name));
        let options = call.arguments.get(1..).unwrap_or_default();
        let text = ShellOptions::read(options).operand + 2;
        let mut arguments = call.arguments.iter().take(text);
        if name.is_some_and(interpreters::is_shell)
            && (call.arguments.len() < 3 || arguments.any(|own| own.contains(placeholder)))
        {
            self.fed_text_runs(call, "it runs text that is not known in advance");
        }
    }

    /// Judges a call that runs what is added to it.
    pub(super) fn fed_text_runs(&mut self, call: &UnwrappedCall, reason: &str) {
        match call.feeds_download {
            true => self
                .findings
                .add_grave(RunsDownloadedCode, "runs a download"),
            false => self.findings.add(Unknown, reason),
        }
    }
}
