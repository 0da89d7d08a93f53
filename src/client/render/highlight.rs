//! Syntax highlighting of code blocks: one small lexer, driven by a table of languages.
//!
//! Recognises comments, strings, numbers and keywords. Full grammars were measured and rejected: syntect 5.3 with its
//! default set and fancy-regex takes 0.5 ms and 1.1 MB to load, but 15 ms for the first line of a language (compiling the
//! expressions of the grammar), 0.2 ms for each further line, and 7 MB of resident memory for Rust, 13 MB for Rust and
//! Python: more than the whole client may use.

use super::style::TextStyle;

const COMMENT: TextStyle = TextStyle::DIM;
const STRING: TextStyle = TextStyle::GREEN;
const NUMBER: TextStyle = TextStyle::CYAN;
const KEYWORD: TextStyle = TextStyle::MAGENTA;

/// Lexical syntax of a language.
struct LanguageSyntax {
    /// Names in info strings, separated by spaces.
    names: &'static str,
    /// Prefixes of line comments.
    line: &'static [&'static str],
    /// Delimiters of block comments.
    block: &'static [(&'static str, &'static str)],
    /// Delimiters of strings; whether a backslash escapes, and whether the string may span lines. Longest first.
    strings: &'static [(&'static str, &'static str, bool, bool)],
    keywords: &'static str,
    /// Word characters in addition to alphanumerics and `_`.
    letters: &'static str,
    /// Whether keywords are case-insensitive.
    fold: bool,
}

const DOUBLE: (&str, &str, bool, bool) = ("\"", "\"", true, false);
const SINGLE: (&str, &str, bool, bool) = ("'", "'", true, false);
const C_BLOCK: &[(&str, &str)] = &[("/*", "*/")];
const PLAIN: LanguageSyntax = LanguageSyntax {
    names: "",
    line: &[],
    block: &[],
    strings: &[DOUBLE, SINGLE],
    keywords: "",
    letters: "",
    fold: false,
};

static LANGUAGES: &[LanguageSyntax] = &[
    LanguageSyntax {
        names: "sh bash zsh shell fish ksh",
        line: &["#"],
        strings: &[("\"", "\"", true, true), ("'", "'", false, true)],
        keywords: "if then elif else fi for while until do done case esac in function select time return exit break \
                   continue local export readonly declare typeset unset shift source alias set trap eval exec echo \
                   printf read cd test sudo",
        letters: "-./",
        ..PLAIN
    },
    LanguageSyntax {
        names: "python py python3 ipython starlark",
        line: &["#"],
        strings: &[
            ("\"\"\"", "\"\"\"", true, true),
            ("'''", "'''", true, true),
            DOUBLE,
            SINGLE,
        ],
        keywords: "False None True and as assert async await break class continue def del elif else except finally \
                   for from global if import in is lambda match case nonlocal not or pass raise return try while \
                   with yield self",
        ..PLAIN
    },
    LanguageSyntax {
        names: "rust rs",
        line: &["//"],
        block: C_BLOCK,
        // A quote is not treated as a string delimiter: it also starts lifetimes.
        strings: &[
            ("'\"", "'", false, false),
            ("r#\"", "\"#", false, true),
            ("\"", "\"", true, true),
        ],
        keywords: "as async await break const continue crate dyn else enum extern false fn for if impl in let loop \
                   match mod move mut pub ref return self Self static struct super trait true type union unsafe use \
                   where while bool char str u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64",
        ..PLAIN
    },
    LanguageSyntax {
        names: "c h cpp c++ cc cxx hpp objc",
        line: &["//"],
        block: C_BLOCK,
        keywords: "alignas alignof auto bool break case catch char class const constexpr continue decltype default \
                   delete do double else enum explicit extern false float for friend goto if inline int long \
                   namespace new noexcept nullptr operator override private protected public register return short \
                   signed sizeof static struct switch template this throw true try typedef typename union unsigned \
                   using virtual void volatile while #include #define #if #ifdef #ifndef #else #endif #pragma",
        letters: "#",
        ..PLAIN
    },
    LanguageSyntax {
        names: "go golang",
        line: &["//"],
        block: C_BLOCK,
        strings: &[DOUBLE, SINGLE, ("`", "`", false, true)],
        keywords: "break case chan const continue default defer else fallthrough for func go goto if import interface \
                   map package range return select struct switch type var true false nil bool byte error float64 int \
                   int64 rune string uint any",
        ..PLAIN
    },
    LanguageSyntax {
        names: "java kotlin kt c# cs csharp scala swift dart groovy php",
        line: &["//"],
        block: C_BLOCK,
        strings: &[("\"\"\"", "\"\"\"", true, true), DOUBLE, SINGLE],
        keywords: "abstract as async await base bool boolean break byte case catch char class const continue data def \
                   default defer do double else enum extends extension false final finally float for foreach func \
                   fun function guard if implements import in instanceof int interface internal is let long \
                   namespace native new nil null object open out override package private protected public readonly \
                   record ref return sealed short static string String struct super suspend switch this throw throws \
                   trait true try typeof using val var virtual void volatile when where while with yield echo",
        ..PLAIN
    },
    LanguageSyntax {
        names: "javascript js jsx typescript ts tsx mjs node css scss",
        line: &["//"],
        block: C_BLOCK,
        strings: &[DOUBLE, SINGLE, ("`", "`", true, true)],
        keywords: "abstract any as async await boolean break case catch class const continue debugger declare default \
                   delete do else enum export extends false finally for from function get if implements import in \
                   instanceof interface keyof let namespace new null number object of private protected public \
                   readonly return set static string super switch this throw true try type typeof undefined var void \
                   while with yield",
        letters: "$",
        ..PLAIN
    },
    LanguageSyntax {
        names: "json jsonc json5 jsonl",
        line: &["//"],
        block: C_BLOCK,
        keywords: "true false null",
        ..PLAIN
    },
    LanguageSyntax {
        names: "yaml yml toml ini conf cfg properties nix hcl terraform tf",
        line: &["#"],
        strings: &[
            ("\"\"\"", "\"\"\"", true, true),
            ("'''", "'''", false, true),
            DOUBLE,
            ("'", "'", false, false),
        ],
        keywords: "true false null yes no on off resource variable output module provider let in with",
        letters: "-",
        ..PLAIN
    },
    LanguageSyntax {
        names: "sql sqlite postgres postgresql mysql plsql",
        line: &["--"],
        block: C_BLOCK,
        strings: &[("'", "'", false, true), ("\"", "\"", false, false)],
        keywords: "add all alter and as asc begin between by case check column commit constraint create cross default \
                   delete desc distinct drop else end exists explain foreign from full group having if in index inner \
                   insert into is join key left like limit not null offset on or order outer primary references \
                   right rollback select set table then transaction truncate union unique update using values view \
                   when where with int integer bigint text varchar boolean timestamp date numeric",
        fold: true,
        ..PLAIN
    },
    LanguageSyntax {
        names: "html xml svg vue xhtml",
        block: &[("<!--", "-->")],
        strings: &[DOUBLE],
        ..PLAIN
    },
    LanguageSyntax {
        names: "make makefile dockerfile docker containerfile cmake just",
        line: &["#"],
        keywords: "FROM RUN CMD LABEL EXPOSE ENV ADD COPY ENTRYPOINT VOLUME USER WORKDIR ARG ONBUILD STOPSIGNAL \
                   HEALTHCHECK SHELL AS ifeq ifneq ifdef ifndef else endif include define endef export if endif set \
                   function endfunction foreach endforeach project add_executable add_library",
        ..PLAIN
    },
    LanguageSyntax {
        names: "lua",
        line: &["--"],
        block: &[("--[[", "]]")],
        strings: &[("[[", "]]", false, true), DOUBLE, SINGLE],
        keywords: "and break do else elseif end false for function goto if in local nil not or repeat return then true \
                   until while",
        ..PLAIN
    },
    LanguageSyntax {
        names: "ruby rb perl pl elixir ex r julia jl",
        line: &["#"],
        block: &[("=begin", "=end")],
        keywords: "alias and begin break case class def defined do else elsif end ensure false for if in module my next \
                   nil not or our redo rescue retry return self sub super then true undef unless until use when while \
                   yield require include attr_accessor attr_reader private public function using import",
        ..PLAIN
    },
    LanguageSyntax {
        names: "diff patch udiff",
        ..PLAIN
    },
];

/// Lexer of one code block. An open comment or string continues on the next line.
pub(super) struct CodeLexer {
    language: &'static LanguageSyntax,
    diff: bool,
    /// Closing delimiter of the open comment or string, whether a backslash escapes in it, and its style.
    open: Option<(&'static str, bool, TextStyle)>,
}

impl CodeLexer {
    /// Creates the lexer for an info string; `None` if the language is unknown.
    pub(super) fn new(info: &str) -> Option<Self> {
        let name = info
            .split([' ', ',', '{', '\t'])
            .next()
            .filter(|name| !name.is_empty())?;
        let known = |language: &&LanguageSyntax| {
            language
                .names
                .split(' ')
                .any(|n| n.eq_ignore_ascii_case(name))
        };
        let language = LANGUAGES.iter().find(known)?;
        Some(Self {
            language,
            diff: language.names.starts_with("diff"),
            open: None,
        })
    }

    /// Splits a line into pieces of one style each and passes them to `emit`.
    pub(super) fn line(&mut self, line: &str, mut emit: impl FnMut(TextStyle, &str)) {
        if self.diff {
            let style = match line.as_bytes() {
                [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => TextStyle::BOLD,
                [b'+', ..] => TextStyle::GREEN,
                [b'-', ..] => TextStyle::RED,
                [b'@', b'@', ..] => TextStyle::CYAN,
                _ => TextStyle::PLAIN,
            };
            return emit(style, line);
        }
        let language = self.language;
        let mut rest = line;
        // Text before `rest` without its own style, not emitted yet.
        let mut plain = 0;
        let mut start = line;
        while !rest.is_empty() || plain > 0 {
            let (len, style) = match self.open {
                Some((close, escapes, style)) => (self.inside(rest, close, escapes), style),
                None => self.token(
                    language,
                    rest,
                    plain == 0 || !word_ends(&start[..plain], language),
                ),
            };
            if style == TextStyle::PLAIN && len > 0 {
                plain += len;
                rest = &rest[len..];
                continue;
            }
            if plain > 0 {
                emit(TextStyle::PLAIN, &start[..plain]);
                plain = 0;
            }
            if len > 0 {
                emit(style, &rest[..len]);
            }
            rest = &rest[len..];
            start = rest;
        }
        // An unterminated single-line string ends with the line.
        if self
            .open
            .is_some_and(|(close, _, style)| style == STRING && !self.spans(close))
        {
            self.open = None;
        }
    }

    fn spans(&self, close: &str) -> bool {
        self.language
            .strings
            .iter()
            .any(|(_, end, _, spans)| *end == close && *spans)
    }

    /// Length of the open comment or string in `rest`, including its closing delimiter.
    fn inside(&mut self, rest: &str, close: &str, escapes: bool) -> usize {
        let mut at = 0;
        while at < rest.len() {
            if escapes && rest.as_bytes()[at] == b'\\' {
                at += 1 + rest[at + 1..].chars().next().map_or(0, char::len_utf8);
            } else if rest[at..].starts_with(close) {
                self.open = None;
                return at + close.len();
            } else {
                at += rest[at..].chars().next().map_or(1, char::len_utf8);
            }
        }
        at
    }

    /// Returns length and style of the token at the start of `rest`.
    fn token(
        &mut self,
        language: &'static LanguageSyntax,
        rest: &str,
        fresh: bool,
    ) -> (usize, TextStyle) {
        let Some(first) = rest.chars().next() else {
            return (0, TextStyle::PLAIN);
        };
        if let Some((open, close)) = language
            .block
            .iter()
            .find(|(open, _)| rest.starts_with(open))
        {
            self.open = Some((close, false, COMMENT));
            let len = self.inside(&rest[open.len()..], close, false);
            return (open.len() + len, COMMENT);
        }
        // `#` starts a comment only at the start of a word: not in `$#` or `a#b`.
        if language
            .line
            .iter()
            .any(|mark| rest.starts_with(mark) && (fresh || *mark != "#"))
        {
            return (rest.len(), COMMENT);
        }
        if let Some((open, close, escapes, _)) = language
            .strings
            .iter()
            .find(|(open, ..)| rest.starts_with(open))
        {
            self.open = Some((close, *escapes, STRING));
            let len = self.inside(&rest[open.len()..], close, *escapes);
            return (open.len() + len, STRING);
        }
        if !is_letter(first, language) {
            return (first.len_utf8(), TextStyle::PLAIN);
        }
        let len = rest.find(|c| !is_letter(c, language)).unwrap_or(rest.len());
        let word = &rest[..len];
        if first.is_ascii_digit() {
            // A decimal point belongs to the number.
            let len = rest
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.')
                .unwrap_or(rest.len());
            return (len, NUMBER);
        }
        let mut keywords = language.keywords.split(' ');
        let known = keywords.any(|k| {
            if language.fold {
                k.eq_ignore_ascii_case(word)
            } else {
                k == word
            }
        });
        (len, if known { KEYWORD } else { TextStyle::PLAIN })
    }
}

fn is_letter(c: char, language: &LanguageSyntax) -> bool {
    c.is_alphanumeric() || c == '_' || language.letters.contains(c)
}

/// Whether `text` ends in a character that a following `#` or word would continue.
fn word_ends(text: &str, language: &LanguageSyntax) -> bool {
    text.ends_with(|c| is_letter(c, language) || c == '$' || c == '{')
}
