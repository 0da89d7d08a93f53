//! Parses a command line with the grammar of bash and lists its commands in the order of the text. `tree_sitter` stays
//! inside.

mod close;
mod count;
mod expansion;
mod script;

use std::ops::{ControlFlow, Range};

use tree_sitter::{Node, ParseOptions, ParseState, Parser, Tree, TreeCursor};

use count::substitutions;
use expansion::{default_of, variable};

use super::word::{ShellWord, WordPart, decode_escapes, unescape, unescape_quoted};
use super::zsh_screen::ScreenedText;

pub use script::{FunctionSyntax, LoopSyntax, Redirection, ScriptSyntax, SimpleCommand};

/// Calls of the progress callback after which a parse is abandoned; each is made after a fixed number of steps of the parser.
const MAX_PROGRESS: usize = 300;

/// Parses a text that has passed the screen.
///
/// # Errors
/// The reason why the text cannot be analysed.
pub fn parse(screened: &ScreenedText) -> Result<ScriptSyntax, &'static str> {
    let tree = tree(&screened.text)?;
    if tree.root_node().has_error() {
        return Err("its syntax is not understood");
    }
    // A substitution that the grammar takes for text would run unseen.
    if substitutions(tree.root_node()) != screened.substitutions {
        return Err("it has a substitution in a place that is not understood");
    }
    build(&screened.text, &tree)
}

/// Returns the commands that are found in a text although it is not understood as a whole.
pub fn parse_parts(text: &str) -> Option<ScriptSyntax> {
    let tree = tree(text).ok()?;
    build(text, &tree).ok()
}

fn tree(text: &str) -> Result<Tree, &'static str> {
    let mut parser = Parser::new();
    if parser
        .set_language(&tree_sitter_bash::LANGUAGE.into())
        .is_err()
    {
        return Err("the parser does not start");
    }
    let mut calls = 0;
    let mut progress = |_: &ParseState| {
        calls += 1;
        calls > MAX_PROGRESS
    };
    let bytes = text.as_bytes();
    let mut read = |at: usize, _| bytes.get(at..).unwrap_or_default();
    let options = ParseOptions::new().progress_callback(&mut progress);
    let tree = parser.parse_with_options(&mut read, None, Some(options));
    tree.ok_or("it takes too long to parse")
}

fn build(text: &str, tree: &Tree) -> Result<ScriptSyntax, &'static str> {
    let mut builder = SyntaxBuilder {
        text,
        script: ScriptSyntax::default(),
        frames: Vec::new(),
    };
    match walk(&mut tree.walk(), &mut builder) {
        ControlFlow::Continue(()) => Ok(builder.script),
        ControlFlow::Break(reason) => Err(reason),
    }
}

/// Visits all nodes in the order of the text, without recursion.
fn walk<'t>(
    cursor: &mut TreeCursor<'t>,
    builder: &mut SyntaxBuilder<'_>,
) -> ControlFlow<&'static str> {
    loop {
        let descends = builder.enter(cursor.node())?;
        if descends && cursor.goto_first_child() {
            continue;
        }
        loop {
            builder.leave(cursor.node());
            if cursor.goto_next_sibling() {
                break;
            }
            if !cursor.goto_parent() {
                return ControlFlow::Continue(());
            }
        }
    }
}

/// An open node.
#[derive(Debug)]
enum SyntaxFrame {
    Command(usize),
    Assignment {
        name: String,
        command: usize,
        value: ShellWord,
    },
    /// A command with redirections: the first of its commands, and the end of them.
    Redirected {
        start: usize,
        end: usize,
    },
    Redirect {
        descriptor: Option<u32>,
        operator: String,
        targets: Vec<ShellWord>,
        commands: Range<usize>,
        is_text: bool,
    },
    Pipeline {
        /// The node, whose children are the stages.
        id: usize,
        stages: Vec<Range<usize>>,
        /// Start of the current stage.
        start: usize,
    },
    Substitution {
        start: usize,
        is_quoted: bool,
        is_process: bool,
    },
    Function {
        name: String,
        start: usize,
    },
    Word {
        word: ShellWord,
        /// Where the next literal part of a quoted text begins.
        quoted_at: Option<usize>,
    },
    /// A node whose literal text does not count.
    Opaque,
}

struct SyntaxBuilder<'t> {
    text: &'t str,
    script: ScriptSyntax,
    frames: Vec<SyntaxFrame>,
}

/// Nodes that are words or parts of words.
const WORDS: [&str; 14] = [
    "word",
    "string",
    "raw_string",
    "ansi_c_string",
    "translated_string",
    "concatenation",
    "simple_expansion",
    "expansion",
    "number",
    "brace_expression",
    "arithmetic_expansion",
    "command_substitution",
    "process_substitution",
    "extglob_pattern",
];

fn is_child_of(node: Node<'_>, parent: usize) -> bool {
    node.parent().is_some_and(|node| node.id() == parent)
}

impl SyntaxBuilder<'_> {
    fn slice(&self, node: Node<'_>) -> &str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }

    /// Opens a node. Returns whether its children are to be visited.
    fn enter(&mut self, node: Node<'_>) -> ControlFlow<&'static str, bool> {
        let kind = node.kind();
        let next = self.script.commands.len();
        if let Some(SyntaxFrame::Pipeline { id, start, .. }) = self.frames.last_mut()
            && is_child_of(node, *id)
        {
            *start = next;
        }
        if node.is_extra() && kind == "comment" {
            return ControlFlow::Break("it has a comment that zsh may not read as one");
        }
        let is_word = WORDS.contains(&kind) || self.is_declared_name(node);
        if is_word
            && !matches!(
                self.frames.last(),
                Some(SyntaxFrame::Word { .. } | SyntaxFrame::Opaque)
            )
        {
            self.frames.push(SyntaxFrame::Word {
                word: ShellWord::default(),
                quoted_at: None,
            });
        }
        let descends = match kind {
            "command" => {
                self.add_command();
                true
            }
            "declaration_command" | "unset_command" => {
                let keyword = node.child(0).map(|child| self.slice(child).to_owned());
                let index = self.add_command();
                let word = ShellWord::literal_of(&keyword.unwrap_or_default());
                self.push_word(index, word);
                true
            }
            "test_command" => {
                let index = self.add_command();
                self.push_word(index, ShellWord::literal_of("[["));
                self.frames.push(SyntaxFrame::Opaque);
                true
            }
            "variable_assignment" => {
                let name = node.child_by_field_name("name");
                let name = name.map(|name| self.slice(name).to_owned());
                let command = match self.frames.last() {
                    Some(SyntaxFrame::Command(index)) => *index,
                    _ => {
                        self.script.commands.push(SimpleCommand::default());
                        next
                    }
                };
                self.frames.push(SyntaxFrame::Assignment {
                    name: name.unwrap_or_default(),
                    command,
                    value: ShellWord::default(),
                });
                true
            }
            "redirected_statement" => {
                let has_body = node.child_by_field_name("body").is_some();
                if !has_body {
                    self.script.commands.push(SimpleCommand::default());
                }
                self.frames.push(SyntaxFrame::Redirected {
                    start: next,
                    end: self.script.commands.len(),
                });
                true
            }
            "file_redirect" | "herestring_redirect" | "heredoc_redirect" => {
                self.open_redirect(node);
                true
            }
            "pipeline" => {
                let stages = match self.frames.last() {
                    // The command before a here-document is the first stage of the pipeline after it.
                    Some(SyntaxFrame::Redirect {
                        is_text: true,
                        commands,
                        ..
                    }) => vec![commands.clone()],
                    _ => Vec::new(),
                };
                self.frames.push(SyntaxFrame::Pipeline {
                    id: node.id(),
                    stages,
                    start: next,
                });
                true
            }
            "command_substitution" | "process_substitution" => {
                let is_quoted = self.is_in_quotes();
                self.quoted_part(node);
                self.frames.push(SyntaxFrame::Substitution {
                    start: next,
                    is_quoted,
                    is_process: kind == "process_substitution",
                });
                true
            }
            "function_definition" => {
                let name = node.child_by_field_name("name");
                let name = name.map(|name| self.slice(name).to_owned());
                self.frames.push(SyntaxFrame::Function {
                    name: name.unwrap_or_default(),
                    start: next,
                });
                true
            }
            "for_statement" => {
                let variable = node.child_by_field_name("variable");
                let variable = variable.map(|name| self.slice(name).to_owned());
                self.script.loops.push(LoopSyntax {
                    id: node.id(),
                    variable: variable.unwrap_or_default(),
                    words: Vec::new(),
                    commands: next..next,
                });
                true
            }
            _ => self.enter_text(node),
        };
        ControlFlow::Continue(descends)
    }

    /// Whether a node is a name in a declaration, such as `x` in `typeset x`.
    fn is_declared_name(&self, node: Node<'_>) -> bool {
        node.kind() == "variable_name"
            && matches!(self.frames.last(), Some(SyntaxFrame::Command(_)))
    }

    /// Handles a part of a word.
    fn enter_text(&mut self, node: Node<'_>) -> bool {
        let text = self.slice(node).to_owned();
        let is_quoted = self.is_in_quotes();
        match node.kind() {
            "word" | "number" | "extglob_pattern" | "brace_expression" | "variable_name"
                if self.is_in_word() =>
            {
                self.push_text(unescape(&text), false);
                false
            }
            "raw_string" => {
                self.push_text(text.trim_matches('\'').to_owned(), true);
                false
            }
            "ansi_c_string" => {
                let text = text.strip_prefix("$'").and_then(|t| t.strip_suffix('\''));
                self.push_text(decode_escapes(text.unwrap_or_default()), true);
                false
            }
            "string" | "heredoc_body" => {
                let start = match node.kind() {
                    "string" => node.start_byte() + 1,
                    _ => node.start_byte(),
                };
                if let Some(SyntaxFrame::Word { quoted_at, word }) = self.frames.last_mut() {
                    *quoted_at = Some(start);
                    word.push(WordPart::Text {
                        text: String::new(),
                        is_quoted: true,
                    });
                } else if node.kind() == "heredoc_body" {
                    self.frames.push(SyntaxFrame::Word {
                        word: ShellWord::default(),
                        quoted_at: Some(start),
                    });
                }
                true
            }
            "string_content"
            | "heredoc_content"
            | "heredoc_start"
            | "heredoc_end"
            | "variable_name"
            | "special_variable_name" => false,
            "simple_expansion" => {
                self.quoted_part(node);
                self.push_part(WordPart::whole(text.trim_start_matches('$'), is_quoted));
                false
            }
            "expansion" | "arithmetic_expansion" => {
                self.quoted_part(node);
                let inner = text.strip_prefix("${").and_then(|t| t.strip_suffix('}'));
                let inner = inner.unwrap_or_default();
                self.push_part(match node.kind() {
                    "arithmetic_expansion" => WordPart::Number,
                    _ => variable(inner, is_quoted),
                });
                self.script.defaults.extend(default_of(inner));
                self.frames.push(SyntaxFrame::Opaque);
                true
            }
            "array" | "subscript" => {
                self.push_part(match text.strip_prefix('(') {
                    Some(elements) => WordPart::Array {
                        text: elements.trim_end_matches(')').to_owned(),
                    },
                    None => WordPart::whole("", is_quoted),
                });
                self.frames.push(SyntaxFrame::Opaque);
                true
            }
            "translated_string" | "concatenation" => true,
            // Characters of a concatenation that are tokens of their own.
            _ if node.child_count() == 0
                && self.is_in_word()
                && !is_quoted
                && node.parent().is_some_and(|p| p.kind() == "concatenation") =>
            {
                self.push_text(text, false);
                false
            }
            _ => true,
        }
    }

    fn add_command(&mut self) -> usize {
        let index = self.script.commands.len();
        self.script.commands.push(SimpleCommand::default());
        self.frames.push(SyntaxFrame::Command(index));
        index
    }

    fn push_word(&mut self, command: usize, word: ShellWord) {
        if let Some(command) = self.script.commands.get_mut(command) {
            command.words.push(word);
        }
    }

    fn is_in_word(&self) -> bool {
        matches!(self.frames.last(), Some(SyntaxFrame::Word { .. }))
    }

    fn is_in_quotes(&self) -> bool {
        matches!(
            self.frames.last(),
            Some(SyntaxFrame::Word {
                quoted_at: Some(_),
                ..
            })
        )
    }

    fn push_text(&mut self, text: String, is_quoted: bool) {
        self.push_part(WordPart::Text { text, is_quoted });
    }

    fn push_part(&mut self, part: WordPart) {
        match self.frames.last_mut() {
            Some(SyntaxFrame::Word { word, .. }) => word.push(part),
            Some(SyntaxFrame::Assignment { value, .. }) => value.push(part),
            _ => {}
        }
    }

    /// Adds the quoted text before a node.
    fn quoted_part(&mut self, node: Node<'_>) {
        let range = match self.frames.last_mut() {
            Some(SyntaxFrame::Word {
                quoted_at: Some(at),
                ..
            }) => std::mem::replace(at, node.end_byte())..node.start_byte(),
            _ => return,
        };
        let text = unescape_quoted(self.text.get(range).unwrap_or_default());
        self.push_text(text, true);
    }
}
