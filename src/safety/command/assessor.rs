//! Walks through the commands of a text, and through the texts that they run in turn.

mod arithmetic;
mod builtins;
mod calls;
mod candidates;
mod carried;
mod certain;
mod changing;
mod directories;
mod downloads;
mod embedded;
mod emptied;
mod fed;
mod flows;
mod inputs;
mod modules;
mod parameters;
mod possible;
mod power_shell;
mod redirections;
mod script_options;
mod secrets;
mod sent_files;
mod shell;
mod streams;
mod uses;
mod variables;

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::rc::Rc;

use super::class::CommandClass::{Destroys, Network, RunsDownloadedCode, Unknown, Writes};
use super::findings::Findings;
use super::roles::{InputRole, OutputRole, input_role, output_role};
use super::special::SENDS_SECRET;
use super::syntax::{self, FunctionSyntax, Redirection, ScriptSyntax, SimpleCommand};
use super::targets::CommandPlace;
use super::zsh_screen::{self, TextTraits};
use candidates::PossibleText;
use certain::NameCounts;
use downloads::runs_once;
use inputs::{CommandInput, InputStream};

/// Texts that are analysed for one command line, those in `sh -c '…'` included.
const MAX_TEXTS: usize = 24;

/// Total length of these texts, in bytes.
const MAX_TOTAL: usize = 32 << 10;

/// Longest text whose parts are judged although it is not understood: a deep tree takes time.
const MAX_PARTS: usize = 1 << 10;

/// Commands in one text.
const MAX_COMMANDS: usize = 400;

/// Functions that zsh calls by their name.
const HOOKS: [&str; 9] = [
    "precmd",
    "preexec",
    "chpwd",
    "periodic",
    "zshexit",
    "zshaddhistory",
    "command_not_found_handler",
    "command_not_found_handle",
    "zsh_directory_name",
];

/// Known facts about a command before it is judged.
struct CommandFacts {
    /// The values of its words.
    values: Vec<String>,
    output: OutputRole,
    input: InputRole,
}

impl CommandFacts {
    fn new(values: Vec<String>) -> CommandFacts {
        CommandFacts {
            output: output_role(&values),
            input: input_role(&values),
            values,
        }
    }

    fn runs_input(&self) -> bool {
        !matches!(
            self.input,
            InputRole::Data
                | InputRole::Query
                | InputRole::Answers
                | InputRole::Installs
                | InputRole::Lines
                | InputRole::Server
        )
    }
}

/// A parsed text with the facts of its commands.
struct ScriptFacts {
    script: ScriptSyntax,
    facts: Vec<CommandFacts>,
    /// What each command reads.
    inputs: Vec<CommandInput>,
    /// What the text says about its names.
    names: OnceCell<NameCounts>,
    /// Commands that read a file which was downloaded.
    carriers: BTreeSet<usize>,
}

impl ScriptFacts {
    /// Whether a command among these brings data from the network.
    fn downloads(&self, commands: &Range<usize>) -> bool {
        let facts = self.facts.get(commands.clone()).unwrap_or_default();
        facts
            .iter()
            .any(|facts| facts.output == OutputRole::Downloads)
    }

    /// Returns the program that `$(which NAME)` and `$(command -v NAME)` evaluate to.
    fn found_program(&self, word: &super::word::ShellWord) -> Option<&str> {
        let mut substitutions = word.substitutions();
        let (commands, is_process) = substitutions.next()?;
        let is_whole = word.value("", "").text.chars().eq([super::word::UNKNOWN]);
        let [facts] = self.facts.get(commands)? else {
            return None;
        };
        let values: Vec<&str> = facts.values.iter().map(String::as_str).collect();
        match values.as_slice() {
            ["which", name] | ["command", "-v", name] | ["whence", "-p", name]
                if is_whole && !is_process =>
            {
                Some(name)
            }
            _ => None,
        }
    }

    /// Returns the commands in the order in which they run: those in the words of a command run before it.
    fn order(&self) -> Vec<usize> {
        let commands = self.script.commands.iter().enumerate();
        let ends = commands.map(|(index, command)| {
            let values = command.assignments.iter().map(|(_, word)| word);
            let words = command.words.iter().chain(values);
            let inner = words.flat_map(|word| word.substitutions());
            let end = inner.map(|(commands, _)| commands.end).max();
            (end.unwrap_or_default().max(index + 1), index)
        });
        let mut order: Vec<(usize, usize)> = ends.collect();
        order.sort_by_key(|(end, index)| (*end, std::cmp::Reverse(*index)));
        order.into_iter().map(|(_, index)| index).collect()
    }

    /// Whether a function is defined before a command. A function may call one that is defined later.
    fn may_define(&self, name: &str, command: usize) -> bool {
        let functions = &self.script.functions;
        let in_function = functions.iter().any(|own| own.body.contains(&command));
        let mut own = functions.iter().filter(|own| own.name == name).peekable();
        in_function || own.peek().is_none() || own.any(|own| own.body.start <= command)
    }
}

/// A text to analyse, where it runs if that is not here, and what it reads.
type QueuedText = (String, Option<&'static str>, Option<Rc<InputStream>>);

/// Assesses one command line.
pub struct Assessor<'p> {
    place: &'p CommandPlace<'p>,
    /// The findings.
    pub findings: Findings,
    /// Texts to analyse.
    queue: VecDeque<QueuedText>,
    /// What the text being judged reads, if its input is not that of the shell.
    outer_input: Option<Rc<InputStream>>,
    /// What the command being judged reads, if its input is not that of the shell.
    input: Option<Rc<InputStream>>,
    /// Where the command being judged runs, if that is not this machine: see [`super::wrappers::elsewhere`].
    elsewhere: Option<&'static str>,
    texts: usize,
    total: usize,
    functions: HashSet<String>,
    /// Where the next command runs; `None` if that is not known.
    directory: Option<String>,
    /// How often the directory changes, which is a separate effect.
    moves: usize,
    /// Whether a command may run in a directory of the system, or in one whose files run later.
    in_protected: bool,
    /// Names of files that the command line downloads.
    downloaded: Vec<String>,
    /// Files that it runs.
    run_files: Vec<String>,
    /// Files that get a constant text, with it.
    texts_of_files: Vec<(String, String)>,
    /// Names of variables whose values it downloads.
    downloaded_variables: HashSet<String>,
    /// Names of variables that have the output of a command which prints a secret.
    secret_variables: HashSet<String>,
    /// Names of variables that may name a private file.
    private_variables: HashSet<String>,
    /// Names of files that get a copy of a private file.
    private_copies: HashSet<String>,
    /// An archive that was downloaded is unpacked.
    has_unpacked: bool,
    /// A repository is cloned.
    has_cloned: bool,
    /// Arguments of the command being judged are the output of one that downloads.
    argument_downloads: bool,
    reads_secret: bool,
    has_added_secret: bool,
    /// A literal text has a substitution, which runs if it is expanded once more.
    has_substitution: bool,
    /// A variable gets a value that is not known.
    has_unknown_value: bool,
    /// Texts that variables may have.
    values: HashMap<String, Vec<PossibleText>>,
    /// Arrays with constant elements, positional parameters among them.
    lists: HashMap<String, Vec<Vec<String>>>,
    /// How many more calls with possible values are judged.
    possible_calls_left: usize,
    /// How many more bytes of possible values are tried.
    possible_bytes_left: Cell<usize>,
    /// Whether a limit has left out a possible value.
    is_cut: Cell<bool>,
    /// The function in which the command being judged is.
    scope: Option<String>,
    /// The text being judged.
    text: String,
    /// Paths that the command being judged may add to the arguments of one that it runs.
    fed_paths: Vec<String>,
    /// Constant words that it may add.
    fed_words: Vec<String>,
    /// Whether the text may not be a command line, and only names what is worse than not known.
    is_guess: bool,
}

/// Returns a text without the carriage returns at the ends of its lines, as a terminal pastes it, unless they decide where a line
/// or a here-document ends.
fn without_returns(text: &str) -> Cow<'_, str> {
    let is_plain = text.contains('\r') && !text.contains("<<") && !text.contains("\\\r");
    match is_plain {
        true => Cow::Owned(text.replace("\r\n", "\n").trim_end_matches('\r').to_owned()),
        false => Cow::Borrowed(text),
    }
}

impl<'p> Assessor<'p> {
    /// Makes an assessor.
    pub fn new(place: &'p CommandPlace<'p>) -> Assessor<'p> {
        Assessor {
            place,
            findings: Findings::default(),
            queue: VecDeque::new(),
            outer_input: None,
            input: None,
            elsewhere: None,
            texts: 0,
            total: 0,
            functions: HashSet::new(),
            directory: Some(place.cwd.to_owned()),
            moves: 0,
            in_protected: false,
            downloaded: Vec::new(),
            run_files: Vec::new(),
            texts_of_files: Vec::new(),
            downloaded_variables: HashSet::new(),
            secret_variables: HashSet::new(),
            private_variables: HashSet::new(),
            private_copies: HashSet::new(),
            has_unpacked: false,
            has_cloned: false,
            argument_downloads: false,
            reads_secret: false,
            has_added_secret: false,
            has_substitution: false,
            has_unknown_value: false,
            values: HashMap::new(),
            lists: HashMap::new(),
            possible_calls_left: possible::MAX_CALLS,
            possible_bytes_left: Cell::new(possible::MAX_BYTES),
            is_cut: Cell::new(false),
            scope: None,
            text: String::new(),
            fed_paths: Vec::new(),
            fed_words: Vec::new(),
            is_guess: false,
        }
    }

    /// Returns how many calls with possible values were judged.
    #[cfg(test)]
    pub fn calls_tried(&self) -> usize {
        possible::MAX_CALLS - self.possible_calls_left
    }

    /// Analyses a text and all that it runs.
    pub fn run(&mut self, text: &str) {
        self.enqueue(&without_returns(text));
        while let Some((text, elsewhere, input)) = self.queue.pop_front() {
            self.set_elsewhere(elsewhere);
            self.outer_input = input;
            let here = self.directory.clone();
            if elsewhere.is_some() {
                self.directory = Some(self.place.cwd.to_owned());
            }
            self.texts += 1;
            self.total += text.len();
            if self.texts > MAX_TEXTS || self.total > MAX_TOTAL {
                self.findings
                    .add(Unknown, "it runs too much text of its own");
                return;
            }
            let directory = self.directory.clone();
            let screened = zsh_screen::screen(&text);
            let traits = screened
                .as_ref()
                .map_or_else(|_| TextTraits::default(), |s| s.traits);
            let mut is_straight = false;
            match screened.and_then(|screened| syntax::parse(&screened)) {
                Ok(script) => {
                    is_straight = script.functions.is_empty() && runs_once(&text);
                    self.parsed(script, &text, traits);
                }
                Err(reason) => {
                    self.findings.add(Unknown, reason);
                    self.parts(&text);
                }
            }
            if self.texts == 1 && is_straight {
                // What the text downloads after it has run a file of that name is not what it runs.
                let mut run_files = std::mem::take(&mut self.run_files);
                run_files.retain(|file| !self.is_downloaded(file));
                self.run_files = run_files;
            }
            if traits.has_comment {
                let after = std::mem::replace(&mut self.directory, directory);
                self.comment_words(&text, traits);
                self.directory = after;
            }
            if elsewhere.is_some() {
                self.directory = here;
            }
        }
        self.set_elsewhere(None);
        // A text that another one runs is analysed after it, and may have downloaded what it runs.
        let run_files = std::mem::take(&mut self.run_files);
        if run_files.iter().any(|file| self.is_downloaded(file)) {
            self.findings
                .add_grave(RunsDownloadedCode, "runs a download");
        }
        // Paths are compared from the working directory, wherever `cd` leads.
        if self.in_protected && self.findings.changes() > self.moves {
            self.findings.add(
                Unknown,
                "may change files of the system, or files that run later",
            );
        }
        if self.is_cut.get() {
            let reason = "it has too many possible values to try them all";
            self.findings.add(Unknown, reason);
        }
        self.name_worse();
        if self.reads_secret && self.findings.classes().contains(&Network) {
            self.findings.add_grave(Destroys, SENDS_SECRET);
        }
    }

    /// Judges a text that was parsed.
    fn parsed(&mut self, script: ScriptSyntax, text: &str, traits: TextTraits) {
        if script.commands.len() > MAX_COMMANDS {
            return self.findings.add(Unknown, "it has too many commands");
        }
        if traits.has_subscript && (traits.has_arithmetic || !self.only_prints(&script)) {
            let reason = "it has a subscript that runs a command when it is evaluated";
            self.findings.add_text(reason, text);
        }
        self.has_substitution |= traits.has_substitution;
        text.clone_into(&mut self.text);
        self.script(script);
        if traits.expands_patterns && (traits.has_qualifier || self.has_unknown_value) {
            let reason = "the value of a variable may be a pattern that runs code";
            self.findings.add_text(reason, text);
        }
    }

    /// Judges a text as zsh reads it at a prompt without the option `interactive_comments`. One that is not understood then is
    /// an error in zsh too, unless a comment has what runs something.
    fn comment_words(&mut self, text: &str, traits: TextTraits) {
        let screened = zsh_screen::screen_words(text);
        let words = screened
            .as_ref()
            .map_or_else(|_| traits, |screened| screened.traits);
        match screened.and_then(|screened| syntax::parse(&screened)) {
            Ok(script) => self.parsed(script, text, words),
            Err(_) if traits.has_risky_comment => self
                .findings
                .add(Unknown, "it has a comment that zsh may not read as one"),
            Err(_) => {}
        }
    }

    /// Judges what can be read of a text that is not understood, so that its worst part is named.
    fn parts(&mut self, text: &str) {
        let script = (text.len() <= MAX_PARTS).then(|| zsh_screen::ascii(text));
        let script = script.and_then(|text| syntax::parse_parts(&text));
        if let Some(script) = script.filter(|script| script.commands.len() <= MAX_COMMANDS) {
            self.findings.hides_unknown = true;
            self.script(script);
            self.findings.hides_unknown = false;
        }
    }

    fn value(&self, word: &super::word::ShellWord) -> String {
        word.value(self.place.home, self.place.cwd).text
    }

    fn script(&mut self, script: ScriptSyntax) {
        let facts = |command: &SimpleCommand| {
            CommandFacts::new(command.words.iter().map(|word| self.value(word)).collect())
        };
        let facts: Vec<CommandFacts> = script.commands.iter().map(facts).collect();
        let mut script = ScriptFacts {
            script,
            facts,
            inputs: Vec::new(),
            names: OnceCell::new(),
            carriers: BTreeSet::new(),
        };
        script.follow_names(|word| self.value(word));
        self.secret_values(&script);
        self.downloaded_values(&script);
        self.follow_inputs(&mut script);
        self.functions(&script);
        self.note_early_values(&script);
        for redirection in &script.script.redirections {
            self.redirection(&script, redirection);
        }
        self.piped_downloads(&script);
        self.texts_of_tee(&script);
        for index in script.order() {
            self.command(&script, index);
            self.pass_download_on(&mut script, index);
        }
        // What is read from a file or a variable is known only now.
        if !script.carriers.is_empty()
            || !self.downloaded_variables.is_empty()
            || !self.private_copies.is_empty()
        {
            self.follow_inputs(&mut script);
        }
        self.possible_targets(&script);
        for stages in &script.script.pipelines {
            self.pipeline(&script, stages);
        }
        self.run_inputs(&script);
    }

    /// Judges functions: their bodies count as commands, whether they are called or not.
    fn functions(&mut self, script: &ScriptFacts) {
        for FunctionSyntax { name, body, .. } in &script.script.functions {
            let facts = script.facts.get(body.clone()).unwrap_or_default();
            let calls = facts
                .iter()
                .filter(|facts| facts.values.first() == Some(name))
                .count();
            let mut pipelines = script.script.pipelines.iter().flatten();
            let in_pipeline =
                pipelines.any(|stage| stage.start >= body.start && stage.end <= body.end);
            if calls > 1 || calls > 0 && in_pipeline {
                self.findings
                    .add_grave(Destroys, "starts processes without end");
            }
            if HOOKS.contains(&name.as_str())
                || name.starts_with("TRAP")
                || name.starts_with("zle-")
            {
                self.findings
                    .add(Unknown, format!("the shell runs the function {name} later"));
            }
            self.functions.insert(name.clone());
        }
        if !script.script.functions.is_empty() {
            self.functions.insert("aish_anonymous".to_owned());
            self.findings.add(Writes, "");
        }
    }
}
