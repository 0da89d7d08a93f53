//! Rewrites what only zsh knows to what the grammar of bash parses with the same effects, and rejects what runs code in a
//! way that the grammar does not show.
//!
//! A rewritten text is only parsed, never run. Expansions that cannot run code become a placeholder.

mod code;
mod heredoc;
mod literal;
mod loops;
mod redirections;

/// Stands for a glob qualifier or a pattern in parentheses, which selects files and runs nothing.
const PATTERN_PLACEHOLDER: char = '_';

/// Nesting of quotes, substitutions and parentheses beyond which a text is rejected.
const MAX_NESTING: usize = 60;

/// Separators of commands beyond which a text is rejected: the parser takes half a second for a list of thousands.
const MAX_SEPARATORS: usize = 800;

/// Construct that is open at a point of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Commands, up to the closing character, if any.
    Commands(Option<char>),
    /// The elements of an array.
    Elements,
    /// `[[ … ]]`
    Condition,
    /// The list of `for NAME (…)`.
    ForList,
    /// `"…"`
    Quoted,
    /// `${…}`
    Parameter,
    /// `((…))` and `$((…))`; the number of open parentheses.
    Arithmetic(usize),
}

/// What the parser sees in place of a character that is not ASCII: part of a word.
const OTHER_CHARACTER: char = '_';

/// A text for the parser.
#[derive(Debug)]
pub struct ScreenedText {
    /// The text.
    pub text: String,
    /// Number of its substitutions of commands: the parser must find as many.
    pub substitutions: usize,
    /// Facts from its words.
    pub traits: TextTraits,
}

/// Facts in the words of a text about values that zsh expands or computes later.
#[derive(Debug, Default, Clone, Copy)]
pub struct TextTraits {
    /// A literal text has a substitution of a command.
    pub has_substitution: bool,
    /// A literal text has one in a subscript, which runs when arithmetic evaluates it: `'a[$(rm y)]'`.
    pub has_subscript: bool,
    /// Arithmetic, or the subscript of a variable.
    pub has_arithmetic: bool,
    /// A literal text has a glob qualifier that runs code.
    pub has_qualifier: bool,
    /// The value of a variable is a pattern: `${~x}`.
    pub expands_patterns: bool,
    /// There are comments.
    pub has_comment: bool,
    /// One of them would run something if it were words.
    pub has_risky_comment: bool,
}

/// Returns the text for the parser, without its comments.
///
/// # Errors
/// The reason why the text cannot be analysed.
pub fn screen(text: &str) -> Result<ScreenedText, &'static str> {
    screen_all(text, false)
}

/// Returns the text for the parser as zsh reads it at a prompt without the option `interactive_comments`: comments are words.
///
/// # Errors
/// The reason why the text cannot be analysed.
pub fn screen_words(text: &str) -> Result<ScreenedText, &'static str> {
    screen_all(text, true)
}

fn screen_all(text: &str, has_comment_words: bool) -> Result<ScreenedText, &'static str> {
    const STRANGE: &str = "it has control characters or spaces that are not ASCII";
    if text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t')) {
        return Err(STRANGE);
    }
    if ["['$(", "[\"$(", "['`", "[\"`"]
        .iter()
        .any(|start| text.contains(start))
    {
        return Err("it has a subscript that runs a command when it is evaluated");
    }
    let mut screen = ZshScreen {
        chars: text.chars().collect(),
        at: 0,
        out: String::with_capacity(text.len() + 32),
        scopes: vec![Scope::Commands(None)],
        word: WordState::default(),
        saved: Vec::new(),
        heredocs: Vec::new(),
        braces: Vec::new(),
        opens_anonymous: false,
        cases: 0,
        substitutions: 0,
        has_comment_words,
        literal: String::new(),
        traits: TextTraits::default(),
    };
    let mut separators = 0;
    while screen.at < screen.chars.len() {
        let (start, scope) = (screen.at, screen.scope());
        screen.step()?;
        let read = screen.chars.get(start..screen.at).unwrap_or_default();
        let separates = matches!(read, [';' | '&' | '|' | '\n', ..]);
        separators += usize::from(separates && matches!(scope, Scope::Commands(_)));
        if separators > MAX_SEPARATORS {
            return Err("it has too many commands");
        }
        let is_quoted = scope == Scope::Quoted || read.first() == Some(&'\'');
        if !is_quoted && read.iter().any(|c| c.is_whitespace() && !c.is_ascii()) {
            return Err(STRANGE);
        }
        screen.note_literal(start, scope);
        if screen.scopes.len() > MAX_NESTING {
            return Err("it is nested too deeply");
        }
    }
    screen.end_word()?;
    Ok(ScreenedText {
        text: ascii(&screen.out),
        substitutions: screen.substitutions,
        traits: screen.traits(),
    })
}

/// Returns a text for the parser: the scanner of the grammar looks characters up in tables of C's `isalpha`, beyond whose end
/// a large one leads.
pub fn ascii(text: &str) -> String {
    let ascii = |c: char| if c.is_ascii() { c } else { OTHER_CHARACTER };
    text.chars().map(ascii).collect()
}

/// The state of the words of a command.
#[derive(Debug, Default, Clone)]
struct WordState {
    /// The unquoted characters of the current word.
    text: String,
    is_started: bool,
    has_quotes: bool,
    /// The next word is not a command.
    is_argument: bool,
    /// The next word is the target of a redirection.
    is_target: bool,
    /// Where the first redirection of the command begins in the output.
    redirected_at: Option<usize>,
    /// Where a here-string begins whose text is the current word.
    here_string_at: Option<usize>,
    /// The arithmetic of `for ((…))` is open.
    is_loop: bool,
    /// `for NAME in …`, before its body.
    is_for_header: bool,
    /// `case`, `select` or `function` was the last word.
    takes_name: bool,
    /// `typeset`, whose arguments may be arrays.
    is_declaration: bool,
    /// `case WORD in`, before its first pattern.
    is_case_header: bool,
    /// The last word of a condition compares with a pattern.
    takes_pattern: bool,
    /// The last word was `}`.
    is_after_brace: bool,
}

/// A here-document whose body follows.
struct HereDocument {
    delimiter: String,
    /// Leading tabs are removed.
    has_tabs: bool,
    /// The body has no expansions.
    is_quoted: bool,
}

struct ZshScreen {
    chars: Vec<char>,
    at: usize,
    out: String,
    scopes: Vec<Scope>,
    word: WordState,
    /// The words around the open substitutions.
    saved: Vec<WordState>,
    heredocs: Vec<HereDocument>,
    /// Open `{ … }`; whether each is the body of a function without a name.
    braces: Vec<bool>,
    /// The next `{` begins the body of a function without a name.
    opens_anonymous: bool,
    /// Open `case … esac`.
    cases: usize,
    /// Number of substitutions of commands so far.
    substitutions: usize,
    /// Comments are words.
    has_comment_words: bool,
    /// The text without its quotes, and with [`UNKNOWN`](super::word::UNKNOWN) before each variable and in place of each substitution.
    literal: String,
    traits: TextTraits,
}

impl ZshScreen {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn copy(&mut self, count: usize) {
        for _ in 0..count {
            self.out.extend(self.peek(0));
            self.at += 1;
        }
    }

    fn scope(&self) -> Scope {
        self.scopes.last().copied().unwrap_or(Scope::Commands(None))
    }

    fn open(&mut self, scope: Scope) {
        if !matches!(
            scope,
            Scope::Quoted | Scope::Parameter | Scope::Arithmetic(_)
        ) {
            self.saved.push(std::mem::take(&mut self.word));
        }
        self.scopes.push(scope);
    }

    fn open_substitution(&mut self, end: char) {
        self.substitutions += 1;
        self.open(Scope::Commands(Some(end)));
    }

    fn close(&mut self) {
        if self.scopes.len() < 2 {
            return;
        }
        let scope = self.scopes.pop();
        if !matches!(
            scope,
            Some(Scope::Quoted | Scope::Parameter | Scope::Arithmetic(_))
        ) {
            self.word = self.saved.pop().unwrap_or_default();
        }
    }

    fn step(&mut self) -> Result<(), &'static str> {
        let Some(c) = self.peek(0) else {
            return Ok(());
        };
        if c == '\\' {
            // Text quoted in backticks is read once more.
            if matches!(self.peek(1), Some('`' | '$'))
                && self.scopes.contains(&Scope::Commands(Some('`')))
            {
                return Err("it has a quoted substitution in backticks");
            }
            if self.peek(1) == Some('\n') {
                self.at += 2;
            } else {
                self.quote();
                self.copy(2);
            }
            return Ok(());
        }
        if c == '$' {
            return self.dollar();
        }
        if c == '`' {
            if self.scope() == Scope::Commands(Some('`')) {
                self.end_word()?;
                self.close();
            } else {
                // The grammar does not see these.
                if self.scopes.contains(&Scope::Parameter) {
                    return Err("it has backticks in `${…}`");
                }
                self.quote();
                self.open_substitution('`');
            }
            self.copy(1);
            return Ok(());
        }
        match self.scope() {
            Scope::Quoted => {
                if c == '"' {
                    self.close();
                }
                self.copy(1);
                Ok(())
            }
            Scope::Parameter => {
                match c {
                    '(' if self
                        .at
                        .checked_sub(1)
                        .is_some_and(|at| matches!(self.chars.get(at), Some('=' | '<' | '>'))) =>
                    {
                        return Err("it has a process substitution in `${…}`");
                    }
                    '}' => self.close(),
                    '"' => self.open(Scope::Quoted),
                    _ => {}
                }
                self.copy(1);
                Ok(())
            }
            Scope::Arithmetic(open) => {
                let open = match c {
                    '(' => open + 1,
                    ')' => open - 1,
                    _ => open,
                };
                self.scopes.pop();
                self.copy(1);
                if open > 0 {
                    self.scopes.push(Scope::Arithmetic(open));
                } else if std::mem::take(&mut self.word.is_loop) {
                    self.for_body();
                } else {
                    self.word.is_started = true;
                    self.word.is_argument = true;
                }
                Ok(())
            }
            scope => self.code(c, scope),
        }
    }

    fn quote(&mut self) {
        self.word.is_started = true;
        self.word.has_quotes = true;
    }

    /// Handles a `$`.
    fn dollar(&mut self) -> Result<(), &'static str> {
        self.quote();
        match self.peek(1) {
            Some('\'') if !matches!(self.scope(), Scope::Quoted | Scope::Parameter) => {
                self.copy(2);
                self.copy_quoted(true)
            }
            Some('(') if self.peek(2) == Some('(') => {
                self.copy(3);
                self.scopes.push(Scope::Arithmetic(2));
                Ok(())
            }
            Some('(') => {
                self.copy(2);
                self.open_substitution(')');
                Ok(())
            }
            Some('{') => self.parameter(),
            Some('[') => Err("it has arithmetic in `$[…]`"),
            Some('+') if self.peek(2).is_some_and(is_name) => {
                self.at += 2;
                self.skip_name_and_subscript()?;
                self.out.push('1');
                Ok(())
            }
            Some(flag @ ('#' | '~' | '=' | '^')) if self.peek(2).is_some_and(is_name) => {
                self.traits.expands_patterns |= flag == '~';
                self.copy(1);
                self.at += 1;
                Ok(())
            }
            _ => {
                self.copy(1);
                Ok(())
            }
        }
    }

    /// Skips a name and a subscript that runs nothing.
    fn skip_name_and_subscript(&mut self) -> Result<(), &'static str> {
        while self.peek(0).is_some_and(is_name) {
            self.at += 1;
        }
        if self.peek(0) == Some('[') {
            while let Some(c) = self.peek(0) {
                if matches!(c, '$' | '`' | '\n') {
                    return Err("it has a subscript that is not plain");
                }
                self.at += 1;
                if c == ']' {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Handles `${`: removes the flags of zsh and its modifiers.
    fn parameter(&mut self) -> Result<(), &'static str> {
        self.copy(2);
        if self.peek(0) == Some('(') {
            let rest = self.chars.get(self.at + 1..).unwrap_or_default();
            let flags: String = rest.iter().take_while(|c| **c != ')').collect();
            let ahead = flags.chars().count() + 1;
            let is_odd = |c: char| matches!(c, '$' | '`' | '\'' | '"' | '\n');
            if flags.contains(is_odd) || flags.starts_with(|c| !is_flag(c)) {
                return Err("it has flags of an expansion that are not plain");
            }
            let is_prompt = flags.contains('%') && self.is_plain_default(ahead + 1);
            if flags.contains(['e', 'P']) || flags.contains('%') && !is_prompt {
                return Err("it expands the value of a variable once more");
            }
            self.at += ahead + 1;
        }
        // The grammar wants a name before `:-`.
        if self.peek(0) == Some(':') {
            self.out.push('_');
        }
        if self.peek(0) == Some('!') {
            return Err("zsh does not expand `${!…}`");
        }
        while matches!(self.peek(0), Some('^' | '=' | '~' | '+' | '#'))
            && self
                .peek(1)
                .is_some_and(|c| is_name(c) || c == '$' || c == '{')
        {
            self.traits.expands_patterns |= self.peek(0) == Some('~');
            self.at += 1;
        }
        self.scopes.push(Scope::Parameter);
        if matches!(self.peek(0), Some('"' | '$')) {
            // What is expanded is not a variable; `${_:-…}` has the same parts.
            self.out.push_str("_:-");
            return Ok(());
        }
        while self.peek(0).is_some_and(is_name) {
            self.copy(1);
        }
        // `${array[(r)pattern]}` searches the array.
        if self.peek(0) == Some('[') && self.peek(1) == Some('(') {
            self.skip_name_and_subscript()?;
        }
        let is_modifier = match (self.peek(0), self.peek(1)) {
            (Some(':'), Some(c)) => c.is_ascii_alphabetic() || c == '#',
            _ => false,
        };
        if is_modifier {
            while let Some(c) = self.peek(0) {
                match c {
                    '}' => break,
                    '$' | '`' | '\'' | '"' | '{' | '\n' => {
                        return Err("it has a modifier that is not plain");
                    }
                    _ => self.at += 1,
                }
            }
        }
        Ok(())
    }

    /// Whether a parameter continues with `:-` and a text without expansions, ahead of this point.
    fn is_plain_default(&self, ahead: usize) -> bool {
        let rest = self.chars.get(self.at + ahead..).unwrap_or_default();
        let text: String = rest.iter().take_while(|c| **c != '}').collect();
        let text = text.strip_prefix(":-");
        text.is_some_and(|text| !text.contains(['$', '`', '\\', '\'', '"', '{', '(']))
    }
}

/// Whether a character can be a flag of an expansion.
fn is_flag(c: char) -> bool {
    c.is_ascii_alphabetic() || "#%@~0_".contains(c)
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_assignable(name: &str) -> bool {
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = name.split('[').next().unwrap_or_default();
    !name.is_empty() && name.chars().all(is_name)
}
