//! Commands that code starts and names in plain texts, so that they are judged as what they are.

use super::CodeLanguage;

/// What code starts.
#[derive(Debug, Default)]
pub struct StartedCommands {
    /// The code with another word in place of those that start something. Its texts are still there, so that a text that was taken
    /// for a command hides nothing.
    pub rest: String,
    /// The commands, as texts for a shell.
    pub commands: Vec<String>,
}

/// Words that show that a command gets more than the code says: text to run, another program, other variables.
const FEEDING: [&str; 9] = [
    "communicate",
    "env",
    "executable",
    "input",
    "mode",
    "preexec_fn",
    "stdin",
    "write",
    "writelines",
];

/// Functions of a language that start a command. A name with a dot is one of a module.
fn starters(language: CodeLanguage) -> &'static [&'static str] {
    match language {
        CodeLanguage::Python => &[
            "os.system",
            "os.popen",
            "subprocess.run",
            "subprocess.call",
            "subprocess.check_call",
            "subprocess.check_output",
            "subprocess.getoutput",
            "subprocess.getstatusoutput",
            "subprocess.Popen",
        ],
        CodeLanguage::Script => &[
            "require('child_process').execSync",
            "require('child_process').exec",
            "require('node:child_process').execSync",
        ],
        CodeLanguage::Perl | CodeLanguage::Ruby => &["system", "exec"],
        CodeLanguage::Php => &["shell_exec", "passthru", "system", "exec"],
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Splits a text without escapes and without values of variables off the beginning of code.
fn literal(code: &str) -> Option<(&str, &str)> {
    let quote = code.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let (text, rest) = code.get(1..)?.split_once(quote)?;
    (!text.contains(['\\', '\n', '$', '@', '`']) && !text.contains("#{")).then_some((text, rest))
}

/// Splits several texts with commas between them off the beginning of code.
fn literals(code: &str) -> Option<(Vec<&str>, &str)> {
    let (first, mut rest) = literal(code)?;
    let mut texts = vec![first];
    while let Some(next) = rest.trim_start().strip_prefix(',') {
        let Some((text, behind)) = literal(next.trim_start()) else {
            break;
        };
        texts.push(text);
        rest = behind;
    }
    Some((texts, rest.trim_start()))
}

/// Returns a program and its arguments as a text for a shell.
fn quoted(words: &[&str]) -> String {
    let words = words
        .iter()
        .map(|word| format!("'{}'", word.replace('\'', "'\\''")));
    words.collect::<Vec<_>>().join(" ")
}

/// Reads the command behind a function that starts one. Returns nothing unless it is plain texts only.
fn command(code: &str, language: CodeLanguage) -> Option<String> {
    let code = code.trim_start_matches(' ');
    let inner = code.strip_prefix('(').map(str::trim_start);
    let is_list = inner.is_some_and(|inner| inner.starts_with('['));
    let (texts, rest) = match (language, inner) {
        (CodeLanguage::Perl | CodeLanguage::Ruby, None) => literals(code)?,
        (CodeLanguage::Python, Some(inner)) if is_list => {
            let (texts, rest) = literals(inner.get(1..)?.trim_start())?;
            (texts, rest.strip_prefix(']')?.trim_start())
        }
        (_, Some(inner)) => literals(inner)?,
        _ => return None,
    };
    let ends = match inner {
        // Behind a comma, settings as `check=True` or `{encoding: "utf8"}`.
        Some(_) => rest.starts_with([')', ',']),
        None => rest.is_empty() || rest.starts_with([';', '}', '\n', ')']),
    };
    let is_option = rest.strip_prefix(',').is_none_or(|rest| {
        let rest = rest.trim_start();
        match language {
            CodeLanguage::Python => rest
                .split_once('=')
                .is_some_and(|(name, _)| name.trim_end().chars().all(is_word)),
            CodeLanguage::Script => rest.starts_with('{'),
            _ => false,
        }
    });
    let has_many = texts.len() > 1 && matches!(language, CodeLanguage::Perl | CodeLanguage::Ruby);
    match texts.as_slice() {
        _ if !ends || !is_option => None,
        texts if is_list || has_many => Some(quoted(texts)),
        [text] => Some((*text).to_owned()),
        _ => None,
    }
}

/// Returns the commands between backticks, if the code has an even number of them.
fn in_backticks(code: &str) -> Option<Vec<String>> {
    let parts: Vec<&str> = code.split('`').collect();
    let texts = parts.iter().skip(1).step_by(2);
    let is_plain = |text: &&&str| !text.contains(['\\', '$', '@', '\n']) && !text.contains("#{");
    (parts.len() % 2 == 1 && texts.clone().all(|text| is_plain(&text)))
        .then(|| texts.map(|text| (*text).to_owned()).collect())
}

/// Replaces what stands for a module by its name: `__import__('os')`, and `s` behind `import subprocess as s`.
pub fn with_module_names(code: &str) -> String {
    let mut plain = code.to_owned();
    for module in ["os", "shutil", "subprocess", "pathlib"] {
        for start in ["__import__", "importlib.import_module"] {
            for quote in ['\'', '"'] {
                plain = plain.replace(&format!("{start}({quote}{module}{quote})"), module);
            }
        }
        let import = format!("import {module} as ");
        let Some((_, rest)) = plain.split_once(&import) else {
            continue;
        };
        let alias: String = rest.chars().take_while(|c| is_word(*c)).collect();
        if !alias.is_empty() {
            let import = format!("{import}{alias}");
            plain = plain.replace(&import, &format!("import {module}"));
            plain = plain
                .split_inclusive(&format!("{alias}."))
                .map(|part| {
                    let before = part.strip_suffix(&format!("{alias}."));
                    match before.filter(|before| !before.ends_with(|c| is_word(c) || c == '.')) {
                        Some(before) => format!("{before}{module}."),
                        None => part.to_owned(),
                    }
                })
                .collect();
        }
    }
    plain
}

/// Returns the commands that code starts, or `None` if it starts none or one that is not named by plain texts.
pub fn started_commands(code: &str, language: CodeLanguage) -> Option<StartedCommands> {
    let words = code.split(|c| !is_word(c));
    if words.clone().any(|word| FEEDING.contains(&word)) {
        return None;
    }
    // The shell that runs the text can be chosen, and of a list the first text is that of a shell.
    let has_shell = words.clone().any(|word| word == "shell");
    if has_shell && language == CodeLanguage::Script {
        return None;
    }
    let mut started = StartedCommands::default();
    let code = match language {
        CodeLanguage::Python => with_module_names(code),
        CodeLanguage::Script => code.replace("(\"child_process\")", "('child_process')"),
        CodeLanguage::Perl | CodeLanguage::Ruby | CodeLanguage::Php => {
            started.commands = in_backticks(code)?;
            code.replace('`', "\"")
        }
    };
    let mut rest = code.as_str();
    while let Some(next) = rest.chars().next() {
        let is_start = !started
            .rest
            .ends_with(|c| is_word(c) || matches!(c, '.' | '$' | '@' | '>'));
        let names = starters(language).iter().filter(|_| is_start);
        let found = names.filter_map(|name| rest.strip_prefix(name));
        let mut found = found.filter(|behind| !behind.starts_with(is_word));
        match found.next() {
            Some(behind) => {
                let arguments = behind.trim_start().strip_prefix('(').unwrap_or_default();
                if has_shell && arguments.trim_start().starts_with(['[', '(']) {
                    return None;
                }
                started.commands.push(command(behind, language)?);
                started.rest.push_str("print");
                rest = behind;
            }
            None => {
                started.rest.push(next);
                rest = rest.get(next.len_utf8()..)?;
            }
        }
    }
    if language == CodeLanguage::Python {
        for name in ["PIPE", "DEVNULL", "STDOUT"] {
            started.rest = started.rest.replace(&format!("subprocess.{name}"), "0");
        }
        let imports = started.rest.split_inclusive([';', '\n']).map(|statement| {
            match statement.trim_start().starts_with("import ") {
                true => statement.replace("subprocess", "json"),
                false => statement.to_owned(),
            }
        });
        started.rest = imports.collect();
    }
    (!started.commands.is_empty()).then_some(started)
}
