//! Reads a text as a shell would: simple commands, their words without quotes, and the texts that are commands of their own.
//! A text that is not a command gives words without meaning, which cost nothing.

use super::ANY;

/// Stands for a glob flag such as `(#a1)`, with which the rest of a word matches other names.
pub(super) const GLOB_FLAG: &str = "(#)";

/// A command up to the next separator.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SimpleCommand {
    /// Its words. Variables are `${NAME}`; what a substitution or a group of alternatives would give is [`ANY`].
    pub words: Vec<String>,
    /// The commands of its substitutions.
    pub substitutions: Vec<String>,
    /// Quoted texts of several words, which a program may run.
    pub quoted: Vec<String>,
    /// The words among them to which output is redirected.
    pub targets: Vec<String>,
    /// Its input is the output of the command before it.
    pub is_piped: bool,
}

impl SimpleCommand {
    fn is_empty(&self) -> bool {
        self.words.is_empty() && self.substitutions.is_empty() && self.quoted.is_empty()
    }
}

/// Splits a text into simple commands.
pub(super) fn simple_commands(text: &str) -> Vec<SimpleCommand> {
    let chars: Vec<char> = text.chars().collect();
    let mut lexer = Lexer {
        ends: closing(&chars),
        chars: &chars,
        at: 0,
        word: None,
        is_target: false,
        current: SimpleCommand::default(),
        done: Vec::new(),
        documents: Vec::new(),
    };
    while let Some(c) = lexer.next() {
        lexer.unquoted(c);
    }
    lexer.end_command();
    lexer.done
}

/// Returns for each opening bracket the position of the one that closes it.
fn closing(chars: &[char]) -> Vec<Option<usize>> {
    let mut ends = vec![None; chars.len()];
    let (mut round, mut curly, mut escaped) = (Vec::new(), Vec::new(), false);
    for (at, c) in chars.iter().enumerate() {
        let is_escaped = escaped;
        escaped = *c == '\\' && !is_escaped;
        let open = match c {
            _ if is_escaped => None,
            '(' => {
                round.push(at);
                None
            }
            '{' => {
                curly.push(at);
                None
            }
            ')' => round.pop(),
            '}' => curly.pop(),
            _ => None,
        };
        if let Some(end) = open.and_then(|open: usize| ends.get_mut(open)) {
            *end = Some(at);
        }
    }
    ends
}

struct Lexer<'t> {
    chars: &'t [char],
    ends: Vec<Option<usize>>,
    at: usize,
    word: Option<String>,
    /// The next word follows `>`.
    is_target: bool,
    current: SimpleCommand,
    done: Vec<SimpleCommand>,
    /// Delimiters of the here-documents that begin with the next line.
    documents: Vec<String>,
}

impl Lexer<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if std::mem::take(&mut self.is_target) {
            self.current.targets.push(word.clone());
        }
        self.current.words.push(word);
    }

    fn end_command(&mut self) {
        self.end_word();
        self.is_target = false;
        // The first command of a group reads the text that is piped into the group.
        if !self.current.is_empty() {
            self.done.push(std::mem::take(&mut self.current));
        }
    }

    fn operator(&mut self, c: char) {
        self.end_command();
        let is_pipe = c == '|' && self.next_if("|").is_none();
        self.current.is_piped = is_pipe;
        if is_pipe {
            self.next_if("&");
        }
    }

    fn text(&self, from: usize, to: usize) -> String {
        self.chars
            .get(from..to)
            .unwrap_or_default()
            .iter()
            .collect()
    }

    /// The position of the next `end` that no backslash precedes.
    fn find(&self, end: char, has_escapes: bool) -> Option<usize> {
        let mut at = self.at;
        while let Some(c) = self.chars.get(at) {
            match c {
                '\\' if has_escapes => at += 2,
                c if *c == end => return Some(at),
                _ => at += 1,
            }
        }
        None
    }

    fn unquoted(&mut self, c: char) {
        match c {
            '\\' => match self.next() {
                Some('\n') | None => {}
                Some(c) => self.push(c),
            },
            '\'' => {
                // An apostrophe of prose quotes nothing.
                if let Some(end) = self.find('\'', false) {
                    let text = self.text(self.at, end);
                    self.at = end + 1;
                    self.quote(text);
                }
            }
            '"' => self.double_quoted(),
            '`' => self.backquoted(),
            '$' => self.dollar(false),
            '\n' => {
                self.end_command();
                self.here_documents();
            }
            ';' | '|' | '&' => self.operator(c),
            '<' | '>' => {
                self.end_word();
                self.is_target = c == '>';
                let from = self.at;
                match self.peek() {
                    Some('(') => self.substitution(),
                    _ => while self.next_if("<>&|!").is_some() {},
                }
                if c == '<' && self.text(from, self.at) == "<" {
                    self.delimiter();
                }
            }
            '(' => self.parenthesis(),
            ')' => self.end_command(),
            c if c.is_whitespace() || c == '\0' => self.end_word(),
            c => self.push(c),
        }
    }

    fn delimiter(&mut self) {
        self.next_if("-");
        while self.next_if(" \t").is_some() {}
        let mut name = String::new();
        while let Some(c) = self
            .peek()
            .filter(|c| !c.is_whitespace() && !";|&<>()".contains(*c))
        {
            self.at += 1;
            if !"'\"\\".contains(c) {
                name.push(c);
            }
        }
        self.documents.push(name);
    }

    /// Takes the here-documents as quoted texts of the command before them.
    fn here_documents(&mut self) {
        for name in std::mem::take(&mut self.documents) {
            let mut lines = Vec::new();
            while self.at < self.chars.len() {
                let end = self.find('\n', false).unwrap_or(self.chars.len());
                let line = self.text(self.at, end);
                self.at = end + 1;
                if line.trim_start_matches('\t') == name {
                    break;
                }
                lines.push(line);
            }
            if let Some(command) = self.done.last_mut() {
                command.quoted.push(lines.join("\n"));
            }
        }
    }

    fn next_if(&mut self, set: &str) -> Option<char> {
        self.peek().filter(|c| set.contains(*c))?;
        self.next()
    }

    fn quote(&mut self, text: String) {
        self.word.get_or_insert_default().push_str(&text);
        if text.contains(char::is_whitespace) || text.contains('(') {
            self.current.quoted.push(text);
        }
    }

    fn double_quoted(&mut self) {
        if self.find('"', true).is_none() {
            return;
        }
        let outer = self.word.take().unwrap_or_default();
        while let Some(c) = self.next() {
            match c {
                '"' => break,
                '\\' => match self.next() {
                    Some('\n') | None => {}
                    Some(c) => {
                        if !"$`\"\\".contains(c) {
                            self.push('\\');
                        }
                        self.push(c);
                    }
                },
                '`' => self.backquoted(),
                '$' => self.dollar(true),
                c => self.push(c),
            }
        }
        let text = self.word.take().unwrap_or_default();
        self.word = Some(outer);
        self.quote(text);
    }

    fn backquoted(&mut self) {
        if let Some(end) = self.find('`', true) {
            let text = self.text(self.at, end);
            self.current.substitutions.push(text);
            self.at = end + 1;
            self.push(ANY);
        }
    }

    /// Handles `(…)` after `$`, `<` or `>`.
    fn substitution(&mut self) {
        let end = self.ends.get(self.at).copied().flatten();
        self.at += 1;
        self.push(ANY);
        if let Some(end) = end {
            let text = self.text(self.at, end);
            self.current.substitutions.push(text);
            self.at = end + 1;
        }
    }

    fn dollar(&mut self, in_double: bool) {
        let is_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
        match self.peek() {
            Some('(') => self.substitution(),
            Some('{') => {
                let end = self.ends.get(self.at).copied().flatten();
                let text = end.map(|end| self.text(self.at + 1, end));
                match (end, text) {
                    (Some(end), Some(text)) => {
                        self.at = end + 1;
                        if text.chars().all(|c| is_name(&c)) {
                            let word = self.word.get_or_insert_default();
                            word.push_str(&format!("${{{text}}}"));
                        } else {
                            self.push(ANY);
                            self.current.quoted.push(text);
                        }
                    }
                    _ => self.push('$'),
                }
            }
            Some('\'') if !in_double => {
                self.at += 1;
                let end = self.find('\'', true).unwrap_or(self.chars.len());
                let text = self.text(self.at, end);
                self.at = end + 1;
                let text = unescaped(&text).unwrap_or(text);
                self.quote(text);
            }
            Some('"') if !in_double => {}
            Some('@' | '*' | '?' | '!' | '#' | '-' | '$') => {
                self.at += 1;
                self.push(ANY);
            }
            Some(c) if is_name(&c) => {
                let rest = self.chars.get(self.at..).unwrap_or_default();
                let length = rest.iter().take_while(|c| is_name(c)).count();
                let name = self.text(self.at, self.at + length);
                self.at += length;
                let modifiers = self.modifiers();
                let word = self.word.get_or_insert_default();
                word.push_str(&format!("${{{name}{modifiers}}}"));
            }
            _ => self.push('$'),
        }
    }

    /// Takes the history modifiers after a variable, such as `:h`.
    fn modifiers(&mut self) -> String {
        let from = self.at;
        while self.peek() == Some(':') {
            let letter = self.chars.get(self.at + 1);
            if !letter.is_some_and(|c| "aAcefFghlLpPqQrstuwWx&".contains(*c)) {
                break;
            }
            self.at += 2;
            while self.peek().is_some_and(|c| c.is_ascii_digit()) {
                self.at += 1;
            }
        }
        self.text(from, self.at)
    }

    /// Handles a subshell, a group of alternatives in a pattern, qualifiers, or an array.
    fn parenthesis(&mut self) {
        let end = self.ends.get(self.at - 1).copied().flatten();
        let word = self.word.as_deref().unwrap_or_default();
        let is_word = |c: &char| !c.is_whitespace() && !";|&<>)(".contains(*c);
        let goes_on = || {
            end.and_then(|end| self.chars.get(end + 1))
                .is_some_and(is_word)
        };
        match end {
            Some(end) if end == self.at => {
                self.at = end + 1;
                self.end_command();
            }
            Some(end) if !word.ends_with('=') && (!word.is_empty() || goes_on()) => {
                let text = self.text(self.at, end);
                let is_flag = text.starts_with('#');
                self.current.quoted.push(text);
                self.at = end + 1;
                match is_flag {
                    true => self.word.get_or_insert_default().push_str(GLOB_FLAG),
                    false => self.push(ANY),
                }
            }
            _ if word.ends_with('=') => self.end_word(),
            _ => self.end_command(),
        }
    }
}

/// Decodes the escapes of JSON and of `$'…'`. `None` if there are none.
pub(super) fn unescaped(text: &str) -> Option<String> {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    let mut decoded = false;
    while let Some(at) = rest.find('\\') {
        let (plain, escape) = rest.split_at(at);
        out.push_str(plain);
        let escape = &escape[1..];
        let Some(c) = escape.chars().next() else {
            rest = "\\";
            break;
        };
        rest = &escape[c.len_utf8()..];
        let digits = |text: &str, radix: u32, most: usize| {
            text.chars()
                .take(most)
                .take_while(|c| c.is_digit(radix))
                .count()
        };
        let (code, used) = match c {
            'u' | 'U' | 'x' => {
                let braced = rest.strip_prefix('{');
                let most = match c {
                    'x' if braced.is_none() => 2,
                    'u' if braced.is_none() => 4,
                    _ => 8,
                };
                let start = rest.len() - braced.unwrap_or(rest).len();
                let count = digits(&rest[start..], 16, most);
                let code = u32::from_str_radix(&rest[start..start + count], 16).ok();
                (code, start * 2 + count)
            }
            '0'..='7' => {
                let count = digits(escape, 8, 4 - usize::from(c != '0'));
                let code = u32::from_str_radix(&escape[..count], 8).ok();
                (code, count - 1)
            }
            'n' => (Some(10), 0),
            't' => (Some(9), 0),
            'r' => (Some(13), 0),
            'a' | 'b' | 'e' | 'E' | 'f' | 'v' => (Some(1), 0),
            c => (Some(u32::from(c)), 0),
        };
        match code.and_then(char::from_u32) {
            Some(c) => {
                out.push(c);
                decoded = true;
                rest = rest.get(used..).unwrap_or_default();
            }
            None => {
                out.push('\\');
                out.push(c);
            }
        }
    }
    out.push_str(rest);
    decoded.then_some(out)
}

/// Expands braces, in a command also those of one name. `None` if they give too many words.
pub fn without_braces(word: &str, is_command: bool) -> Option<Vec<String>> {
    const MOST: usize = 64;
    // Each opening brace is searched for its end.
    if word.matches('{').count() > MOST {
        return None;
    }
    let (mut todo, mut done) = (vec![word.to_owned()], Vec::new());
    while let Some(word) = todo.pop() {
        if todo.len() + done.len() > MOST {
            return None;
        }
        match alternatives(&word, is_command) {
            Some(words) => todo.extend(words),
            None => done.push(word),
        }
    }
    done.reverse();
    Some(done)
}

/// The words of the first list in braces.
fn alternatives(word: &str, is_command: bool) -> Option<Vec<String>> {
    for (open, _) in word.match_indices('{') {
        if word[..open].ends_with('$') {
            continue;
        }
        let (mut depth, mut cuts) = (0_usize, vec![open]);
        let mut end = None;
        for (at, c) in word[open..].char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => cuts.push(open + at),
                _ => {}
            }
            if depth == 0 {
                end = Some(open + at);
                break;
            }
        }
        let Some(end) = end else { continue };
        let (before, after) = (&word[..open], &word[end + 1..]);
        if cuts.len() == 1 {
            match &word[open + 1..end] {
                range if range.contains("..") => {
                    return Some(vec![format!("{before}{ANY}{after}")]);
                }
                set if !is_command || set.is_empty() || set.contains([' ', '$', '/']) => continue,
                // With `braceccl` any of the characters.
                _ => return Some(vec![format!("{before}?{after}")]),
            }
        }
        cuts.push(end);
        let pairs = cuts.windows(2);
        let parts = pairs.filter_map(|pair| word.get(pair.first()? + 1..*pair.last()?));
        return Some(parts.map(|part| format!("{before}{part}{after}")).collect());
    }
    None
}
