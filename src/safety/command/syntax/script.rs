//! The commands of a text.

use std::ops::Range;

use crate::safety::command::word::ShellWord;

/// A command with its words, without what runs inside of them.
#[derive(Debug, Default)]
pub struct SimpleCommand {
    /// Assignments before the words, and those of `export` and `typeset`.
    pub assignments: Vec<(String, ShellWord)>,
    /// The name and the arguments. Empty for a bare assignment or redirection.
    pub words: Vec<ShellWord>,
    /// Whether its assignments hold for all commands behind it.
    pub is_certain: bool,
}

/// A function.
#[derive(Debug)]
pub struct FunctionSyntax {
    /// Its name.
    pub name: String,
    /// The commands of its body.
    pub body: Range<usize>,
    /// Whether it is defined for all commands behind it.
    pub is_certain: bool,
}

/// A loop over words.
#[derive(Debug)]
pub struct LoopSyntax {
    /// The node.
    pub(super) id: usize,
    /// The name of its variable.
    pub variable: String,
    /// The words of its list.
    pub words: Vec<ShellWord>,
    /// Its commands.
    pub commands: Range<usize>,
}

/// A redirection of one or several commands.
#[derive(Debug)]
pub struct Redirection {
    /// The number before the operator, if there is one.
    pub descriptor: Option<u32>,
    /// `>`, `<<`, `<<<`, …
    pub operator: String,
    /// The file, or the text.
    pub target: ShellWord,
    /// The commands that it applies to.
    pub commands: Range<usize>,
}

/// A parsed command line.
#[derive(Debug, Default)]
pub struct ScriptSyntax {
    /// All commands, also those in substitutions, loops and functions.
    pub commands: Vec<SimpleCommand>,
    /// The stages of each pipeline as ranges of commands.
    pub pipelines: Vec<Vec<Range<usize>>>,
    /// The redirections.
    pub redirections: Vec<Redirection>,
    /// The commands of each `>(…)`, which get an input.
    pub fed: Vec<Range<usize>>,
    /// Functions.
    pub functions: Vec<FunctionSyntax>,
    /// Loops over words.
    pub loops: Vec<LoopSyntax>,
    /// Variables and the texts that `${NAME:=TEXT}` gives to them.
    pub defaults: Vec<(String, String)>,
}
