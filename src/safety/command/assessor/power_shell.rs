//! PowerShell, whose language is not that of other shells: commands are judged by their verbs.

use super::Assessor;
use super::shell::ShellCall;
use crate::safety::command::class::CommandClass::{
    Destroys, Reads, RunsDownloadedCode, Unknown, Writes,
};

/// Verbs of commands that look or compute.
const LOOKING: [&str; 17] = [
    "compare",
    "convertfrom",
    "convertto",
    "find",
    "format",
    "get",
    "group",
    "join",
    "measure",
    "resolve",
    "select",
    "show",
    "sort",
    "split",
    "test",
    "where",
    "write",
];

/// Verbs and short names of commands that delete or stop.
const DESTROYING: [&str; 15] = [
    "clear",
    "del",
    "disable",
    "erase",
    "rd",
    "remove",
    "reset",
    "restart",
    "ri",
    "rm",
    "rmdir",
    "stop",
    "suspend",
    "uninstall",
    "unregister",
];

/// Words with which a text fetches something.
const FETCHING: [&str; 6] = [
    "invoke-webrequest",
    "invoke-restmethod",
    "iwr",
    "irm",
    "curl",
    "downloadstring",
];

/// Options of the program with a value, and their short names.
const VALUED: [&str; 12] = [
    "configurationfile",
    "configurationname",
    "custompipename",
    "ep",
    "ex",
    "executionpolicy",
    "inputformat",
    "outputformat",
    "settingsfile",
    "version",
    "windowstyle",
    "workingdirectory",
];

/// Returns the value of an assignment, or the whole statement.
fn assigned(statement: &str) -> &str {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.');
    let rest = statement.trim().strip_prefix('$').unwrap_or_default();
    let rest = rest.trim_start_matches(is_name).trim_start();
    let value = rest.trim_start_matches(['+', '-']).strip_prefix('=');
    value.unwrap_or(statement).trim()
}

/// Returns a text with a number in place of each text in quotes.
fn without_texts(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['\'', '"']) {
        let (before, quoted) = rest.split_at(at);
        let end = quoted.char_indices().skip(1);
        let mut end = end.filter(|(_, c)| quoted.starts_with(*c));
        let Some((end, _)) = end.next() else {
            break;
        };
        plain.push_str(before);
        plain.push_str(" 0 ");
        rest = quoted.get(end + 1..).unwrap_or_default();
    }
    plain.push_str(rest);
    plain
}

/// Whether a statement only has variables and numbers, with operators between them.
fn is_expression(statement: &str) -> bool {
    let is_value = |word: &str| {
        let name = word.trim_end_matches(',').trim_start_matches('$');
        let is_number = name.starts_with(|c: char| c.is_ascii_digit());
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.');
        (is_number || word.starts_with('$')) && name.chars().all(is_plain)
    };
    let is_operator = |word: &str| {
        let name = word.strip_prefix('-').unwrap_or_default();
        matches!(word, "+" | "-" | "*" | "%")
            || !name.is_empty() && name.chars().all(char::is_alphabetic)
    };
    let mut words = statement.split_whitespace().enumerate();
    words.all(|(at, word)| is_value(word) || at > 0 && is_operator(word))
}

impl Assessor<'_> {
    /// Judges a call of PowerShell.
    pub(super) fn power_shell(&mut self, call: &ShellCall<'_>) {
        let is = |argument: &str, name: &str| {
            let option = argument.trim_start_matches(['-', '/']).to_ascii_lowercase();
            argument.starts_with(['-', '/']) && !option.is_empty() && name.starts_with(&option)
        };
        let mut arguments = call.arguments.iter();
        if arguments.any(|argument| is(argument, "encodedcommand")) {
            let reason = "it runs text that is not known in advance";
            return self.findings.add(Unknown, reason);
        }
        let named = call
            .arguments
            .iter()
            .position(|argument| is(argument, "command"));
        let is_value = |at: usize| {
            let before = at.checked_sub(1).and_then(|at| call.arguments.get(at));
            before.is_some_and(|option| VALUED.iter().any(|name| is(option, name)))
        };
        let first = call.arguments.iter().enumerate();
        let mut first = first.filter(|(at, argument)| !argument.starts_with('-') && !is_value(*at));
        match named.or(first.next().map(|(at, _)| at)) {
            Some(at) => {
                let rest = call.arguments.get(at..).unwrap_or_default();
                let is_file = call.arguments.iter().take(at).any(|a| is(a, "file"));
                let is_script = rest.first().is_some_and(|word| word.ends_with(".ps1"));
                let is_named = usize::from(named.is_some());
                let text = rest.get(is_named..).unwrap_or_default().join(" ");
                match named.is_none() && (is_file || is_script) {
                    true => self.findings.add(Writes, ""),
                    false => self.power_shell_text(&text),
                }
            }
            None => self.findings.add(Writes, ""),
        }
    }

    fn power_shell_text(&mut self, text: &str) {
        let text = text.to_ascii_lowercase();
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '$');
        let words: Vec<&str> = text
            .split(|c| !is_word(c))
            .filter(|word| !word.is_empty())
            .collect();
        let verb = |word: &str| word.split('-').next().unwrap_or_default().to_owned();
        let runs = ["iex", "invoke-expression"]
            .iter()
            .any(|run| words.contains(run));
        if runs && FETCHING.iter().any(|fetch| words.contains(fetch)) {
            return self
                .findings
                .add_grave(RunsDownloadedCode, "runs a download");
        }
        let deletes = |word: &&str| {
            let is_format = matches!(*word, "format-volume" | "format-disk");
            is_format || DESTROYING.contains(&verb(word).as_str())
        };
        if words.iter().any(deletes) {
            return self
                .findings
                .add(Destroys, "deletes or stops with PowerShell");
        }
        let is_looking = |statement: &str| {
            let statement = assigned(statement);
            let first = statement.split_whitespace().next().unwrap_or_default();
            let (verb, noun) = first.split_once('-').unwrap_or_default();
            // `get-foo.exe` is a program.
            let is_noun = !noun.is_empty() && noun.chars().all(|c| c.is_ascii_alphanumeric());
            LOOKING.contains(&verb) && is_noun || is_expression(statement)
        };
        let mut commands = words
            .iter()
            .filter(|word| word.contains('-') && !word.starts_with('-'));
        let is_harmless = without_texts(&text)
            .split(['|', ';', '\n', '{', '}'])
            .all(is_looking)
            && commands.all(|word| LOOKING.contains(&verb(word).as_str()))
            && !text.contains(['>', '&', '[', '`', '(']);
        match is_harmless {
            true => self.findings.add(Reads, ""),
            false => self
                .findings
                .add(Unknown, "it runs code that is too complex to analyse"),
        }
    }
}
