//! Options of Perl and Ruby: code, libraries, and files that Perl opens as commands.

use super::shell::ShellCall;
use super::{Assessor, ScriptFacts};
use crate::safety::command::class::CommandClass::{Destroys, Unknown, Writes};
use crate::safety::command::special::empties_lines;

/// Modules of Perl and libraries of Ruby that only compute.
const COMPUTING: &[&str] = &[
    "bigdecimal",
    "bigint",
    "bignum",
    "csv",
    "date",
    "diagnostics",
    "digest",
    "erb",
    "feature",
    "integer",
    "json",
    "matrix",
    "open",
    "pp",
    "prime",
    "securerandom",
    "set",
    "shellwords",
    "strict",
    "strscan",
    "time",
    "uri",
    "utf8",
    "warnings",
    "yaml",
    "Data::Dumper",
    "Digest::MD5",
    "Digest::SHA",
    "Encode",
    "JSON",
    "JSON::PP",
    "List::Util",
    "MIME::Base64",
    "POSIX",
    "Scalar::Util",
    "Text::ParseWords",
    "Text::Wrap",
    "Time::HiRes",
    "Time::Local",
    "Time::Piece",
    "Config",
    "Cwd",
    "English",
    "File::Basename",
    "File::Spec",
    "bytes",
    "constant",
    "open",
    "benchmark",
    "digest/md5",
    "digest/sha2",
    "English",
    "etc",
    "forwardable",
    "ostruct",
    "rational",
    "rbconfig",
    "stringio",
    "zlib",
    "URI::Escape",
    "Unicode::Normalize",
];

/// The code of an option.
enum OptionCode {
    /// In the same argument.
    Attached(String),
    /// The argument at this index.
    At(usize),
}

/// Meaning of the options of a call.
#[derive(Default)]
struct ScriptOptions {
    codes: Vec<OptionCode>,
    libraries: Vec<String>,
    directories: Vec<String>,
    /// Text that becomes part of the code.
    patterns: Vec<String>,
    has_debugger: bool,
    /// Lines are printed only by the code: `-n`.
    is_quiet: bool,
    /// The suffix of the copies that it keeps of files that it changes in place.
    in_place: Option<String>,
    /// The index of the first operand.
    end: usize,
}

impl ScriptOptions {
    fn read(is_perl: bool, arguments: &[String]) -> ScriptOptions {
        let mut options = ScriptOptions::default();
        let mut at = 0;
        while let Some(argument) = arguments.get(at) {
            if !argument.starts_with('-') || argument == "-" {
                break;
            }
            at += 1;
            if argument == "--" {
                break;
            }
            let mut letters = argument.char_indices().skip(1);
            while let Some((place, letter)) = letters.next() {
                let rest = argument
                    .get(place + letter.len_utf8()..)
                    .unwrap_or_default();
                let value = |at: &mut usize| match rest.is_empty() {
                    true => {
                        *at += 1;
                        arguments.get(*at - 1).cloned().unwrap_or_default()
                    }
                    false => rest.to_owned(),
                };
                match letter {
                    'e' | 'E' if letter == 'e' || is_perl => {
                        options.codes.push(match rest.is_empty() {
                            true => OptionCode::At(at),
                            false => OptionCode::Attached(rest.to_owned()),
                        });
                        at += usize::from(rest.is_empty());
                        break;
                    }
                    'M' | 'm' if is_perl => {
                        let module = rest.trim_start_matches('-');
                        let plain =
                            |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ',' | ':');
                        let name = match module.split_once('=') {
                            Some((name, names)) if names.chars().all(plain) => name,
                            _ => module,
                        };
                        options.libraries.push(name.to_owned());
                        break;
                    }
                    'r' if !is_perl => {
                        options.libraries.push(value(&mut at));
                        break;
                    }
                    'I' => {
                        options.directories.push(value(&mut at));
                        break;
                    }
                    'd' if is_perl => {
                        options.has_debugger = true;
                        break;
                    }
                    'F' => {
                        options.patterns.push(rest.to_owned());
                        break;
                    }
                    'E' | 'K' => {
                        drop(value(&mut at));
                        break;
                    }
                    'n' => options.is_quiet = true,
                    'i' => {
                        options.in_place = Some(rest.to_owned());
                        break;
                    }
                    // The next word is a directory or flags.
                    'x' | 'D' | 'V' | '-' => break,
                    'C' if !is_perl => {
                        drop(value(&mut at));
                        break;
                    }
                    'C' => {
                        let flags = rest
                            .chars()
                            .take_while(|c| c.is_ascii_digit() || "IOEioADLSa".contains(*c));
                        for _ in 0..flags.count() {
                            letters.next();
                        }
                    }
                    _ => {}
                }
            }
        }
        options.end = at;
        options
    }
}

impl Assessor<'_> {
    /// Judges the options of Perl or Ruby. Returns the index of the first operand, and whether there is code.
    pub(super) fn script_options(
        &mut self,
        script: &ScriptFacts,
        call: &ShellCall<'_>,
    ) -> (usize, bool) {
        let is_perl = call.name.starts_with("perl");
        let options = ScriptOptions::read(is_perl, call.arguments);
        let mut codes = Vec::new();
        for code in &options.codes {
            match code {
                OptionCode::At(at) => {
                    codes.extend(call.arguments.get(*at).map(String::as_str));
                    self.run_argument(script, call, *at, true);
                }
                OptionCode::Attached(text) => {
                    codes.push(text);
                    self.code_of(call.name, text);
                }
            }
        }
        for text in options.patterns {
            self.code_of(call.name, &text);
        }
        for library in options.libraries {
            if library.starts_with(['.', '/']) {
                self.file_of_commands(&library);
            } else if !COMPUTING.contains(&library.as_str()) {
                let reason = format!("what the library {library} does is not known");
                self.findings.add(Unknown, reason);
            }
        }
        for directory in options.directories {
            self.file_of_commands(&directory);
        }
        if options.has_debugger {
            self.findings.add(Unknown, "it runs a debugger");
        }
        let operands = call.arguments.get(options.end..).unwrap_or_default();
        if let Some(suffix) = &options.in_place {
            self.changed_in_place(
                operands,
                suffix.is_empty() && deletes_lines(&codes, options.is_quiet),
            );
        }
        // Perl opens `COMMAND |` and `> FILE` among the files that it reads.
        let opens = |operand: &String| {
            let operand = operand.trim();
            operand.starts_with(['|', '>', '+']) || operand.ends_with('|')
        };
        if is_perl && operands.iter().any(opens) {
            self.findings
                .add(Unknown, "perl runs or writes a file that it is given");
        }
        (options.end, !options.codes.is_empty())
    }

    /// Judges files that code changes in place.
    fn changed_in_place(&mut self, files: &[String], deletes: bool) {
        self.findings.add(Writes, "changes files in place");
        if deletes {
            self.findings
                .add(Destroys, "deletes lines of files in place");
        }
        for reason in files.iter().filter_map(|file| self.place.protected(file)) {
            self.findings.add_grave(Destroys, reason);
        }
    }
}

/// Whether code that runs for each line only deletes some, or empties them: `print if /x/`, `$_ = "" if /x/`, and with `-n` all
/// that prints nothing.
fn deletes_lines(codes: &[&str], is_quiet: bool) -> bool {
    const PRINTING: [&str; 8] = ["print", "printf", "say", "puts", "putc", "p", "pp", "write"];
    let mut words = codes
        .iter()
        .flat_map(|code| code.split(|c: char| !c.is_alphanumeric()));
    let is_silent = is_quiet && !words.any(|word| PRINTING.contains(&word));
    let only_deletes = |code: &&str| {
        let code: String = code.split_whitespace().collect();
        let code = code.trim_end_matches(';');
        // A line that is not printed, or that is emptied, is lost; losing blank ones does not matter.
        let rest = ["print", "puts$_"]
            .iter()
            .find_map(|start| code.strip_prefix(start));
        let is_condition = |rest: &str| rest.starts_with("if") || rest.starts_with("unless");
        let selects = rest.is_some_and(is_condition) && !code.ends_with("if/\\S/");
        let chains = ["orprint", "||print", "&&print", "andprint"].iter();
        let is_chain = is_quiet && !code.contains([';', '{']);
        let selects = selects || is_chain && chains.into_iter().any(|end| code.ends_with(end));
        let empties = ["$_=\"\"", "$_=''", "undef$_", "$_=nil"];
        let replaces = code.strip_prefix('s').is_some_and(empties_lines);
        selects || replaces || empties.iter().any(|start| code.starts_with(start))
    };
    !codes.is_empty() && (is_silent || codes.iter().all(only_deletes))
}
