//! Code on a command line: `python -c`, `perl -e`, SQL. Code counts as harmless only if it is trivially readable.

mod languages;
mod literals;
mod mongo;
mod named;
mod readable;
mod sql;
mod started;

pub use languages::{CodeLanguage, acts as code_acts};
pub use named::named_effects;
pub use sql::{
    SqlEffect, commands_change, files as query_files, scripts as query_scripts, shell_texts,
    sql_effect,
};
pub use started::started_commands;

/// Effects of code on a command line, as far as its words show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeEffect {
    /// It only computes and prints.
    Harmless,
    /// It deletes or starts programs.
    Destroys,
    /// It runs what it downloads.
    RunsDownload,
    /// Not known.
    Unknown,
}

/// Words of code that deletes, ends or replaces something, in any language.
const DESTROYING: [&str; 42] = [
    "os.execute",
    "shell_exec",
    "passthru",
    "proc_open",
    "spawnSync",
    "rmtree",
    "unlink",
    "rmdir",
    "rm_rf",
    "rm_r",
    "remove_dir_all",
    "rmSync",
    "rmdirSync",
    "unlinkSync",
    "removedirs",
    "truncate",
    "delete_all",
    "destroy_all",
    "dropDatabase",
    "deleteMany",
    "remove_entry_secure",
    "remove_tree",
    "FileUtils",
    "shutil.move",
    "os.remove",
    "os.kill",
    "os.system",
    "os.popen",
    "subprocess",
    "child_process",
    "execSync",
    "spawn",
    "fork",
    "Deno.remove",
    "File.delete",
    "Dir.delete",
    "kill",
    "syscall",
    "rename",
    "chmod",
    "chown",
    "drop_database",
];

/// Words of code that may do anything.
const OPAQUE: [&str; 45] = [
    "execute",
    "execFile",
    "exec",
    "eval",
    "system",
    "popen",
    "compile",
    "__import__",
    "getattr",
    "setattr",
    "globals",
    "import_module",
    "runpy",
    "ctypes",
    "pickle",
    "marshal",
    "base64",
    "b64decode",
    "decode",
    "fromhex",
    "chr",
    "urllib",
    "requests",
    "socket",
    "http",
    "fetch",
    "net",
    "open",
    "write",
    "writeFile",
    "writeFileSync",
    "fs",
    "qx",
    "IO",
    "Process",
    "Kernel",
    "require",
    "builtins",
    "breakpoint",
    "input",
    "load",
    "loads",
    "do",
    "pty",
    "dl",
];

/// Modules that only compute.
const COMPUTING: [&str; 48] = [
    "matplotlib",
    "scipy",
    "seaborn",
    "sklearn",
    "ast",
    "bisect",
    "dataclasses",
    "difflib",
    "enum",
    "heapq",
    "tokenize",
    "toml",
    "tomllib",
    "typing",
    "sys",
    "json",
    "math",
    "re",
    "datetime",
    "time",
    "collections",
    "itertools",
    "random",
    "string",
    "platform",
    "hashlib",
    "uuid",
    "secrets",
    "statistics",
    "pprint",
    "textwrap",
    "decimal",
    "fractions",
    "calendar",
    "operator",
    "functools",
    "numpy",
    "torch",
    "tensorflow",
    "pandas",
    "site",
    "sysconfig",
    "this",
    "locale",
    "os",
    "importlib.metadata",
    "yaml",
    "antigravity",
];

/// Judges code in Python, Perl, Ruby, JavaScript, PHP or Lua. Words in its texts and expressions count unless they are surely
/// data and the rest only computes.
pub fn code_effect(code: &str, language: Option<CodeLanguage>) -> CodeEffect {
    let effect = effect_of(code, code, language);
    if effect == CodeEffect::Harmless {
        return effect;
    }
    let plain = language.and_then(|language| literals::without_literals(code, language));
    match plain.map(|plain| effect_of(&plain, code, language)) {
        Some(CodeEffect::Harmless) => return CodeEffect::Harmless,
        _ if language != Some(CodeLanguage::Python) || effect != CodeEffect::Unknown => {}
        _ => {
            let named = started::with_module_names(code);
            if effect_of(&named, &named, language) == CodeEffect::Destroys {
                return CodeEffect::Destroys;
            }
        }
    }
    effect
}

/// Judges code by the words of `plain`, which is the code or the code without its literals.
fn effect_of(plain: &str, code: &str, language: Option<CodeLanguage>) -> CodeEffect {
    let words: Vec<&str> = plain
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
        .collect();
    let has = |name: &&str| match name.contains('.') {
        true => plain.contains(*name),
        false => words.contains(name),
    };
    let downloads = [
        "urllib",
        "urlopen",
        "requests",
        "http",
        "https",
        "fetch",
        "curl",
        "LWP",
        "socket",
        "urlretrieve",
    ]
    .iter()
    .any(&has);
    let runs = [
        "exec",
        "eval",
        "system",
        "os.execute",
        "popen",
        "subprocess",
        "child_process",
        "execSync",
        "compile",
    ]
    .iter()
    .any(&has);
    if downloads && runs {
        return CodeEffect::RunsDownload;
    }
    if DESTROYING.iter().any(&has) {
        return CodeEffect::Destroys;
    }
    let imports = imported(code);
    let computes = imports.iter().all(|name| {
        COMPUTING.contains(name)
            || name
                .split('.')
                .next()
                .is_some_and(|top| top != "os" && COMPUTING.contains(&top))
            || language == Some(CodeLanguage::Python) && readable::is_side_effect_free(code, name)
    });
    // Loading JSON from the input is the usual harmless use of a few of the opaque words.
    let opaque = OPAQUE.iter().filter(|name| has(name));
    let mut opaque = opaque.filter(|name| match **name {
        "load" | "loads" => !["json.load", "toml.load", "tomllib.load"]
            .iter()
            .any(|call| code.contains(call)),
        "decode" => !code.contains("json"),
        "fs" if language == Some(CodeLanguage::Script) => !readable::reads_files(code),
        "require" => !requires_data(code),
        // Data for the code, unless it computes a name with it.
        "base64" if language == Some(CodeLanguage::Script) => code.contains('['),
        // Elixir and Ruby print with it.
        "IO" => !readable::prints(code),
        word if language == Some(CodeLanguage::Python)
            && readable::is_word_side_effect_free(code, word) =>
        {
            false
        }
        "open" if matches!(language, Some(CodeLanguage::Python | CodeLanguage::Perl)) => false,
        "open" => {
            code.contains("'w")
                || code.contains("\"w")
                || code.contains("'a")
                || code.contains("\"a")
                || code.contains("'x")
        }
        "do" => !words.contains(&"end") && words.contains(&"file"),
        _ => true,
    });
    if language == Some(CodeLanguage::Python) && readable::is_help(code) {
        return CodeEffect::Harmless;
    }
    let acts = language.is_some() && languages::acts(plain, language);
    match computes && opaque.next().is_none() && !code.contains('`') && !acts {
        true => CodeEffect::Harmless,
        false => CodeEffect::Unknown,
    }
}

/// Whether `require` only loads data or a module that reads.
fn requires_data(code: &str) -> bool {
    let mut calls = code.match_indices("require").map(|(at, found)| {
        let rest = code.get(at + found.len()..).unwrap_or_default();
        rest.trim_start_matches(['(', ' ', '\'', '"'])
    });
    calls.all(|name| {
        let end = name.find(['\'', '"']).unwrap_or_default();
        name.get(..end).is_some_and(|name| name.ends_with(".json"))
            || name.starts_with("os")
            || name.starts_with("json")
            || name.starts_with("path")
            || name.starts_with("crypto")
            || name.starts_with("util")
            // Their uses are judged by the word `fs`.
            || name.starts_with("fs\"")
            || name.starts_with("fs'")
            || name.starts_with("node:fs\"")
            || name.starts_with("node:fs'")
    })
}

/// Returns the modules that Python code imports.
fn imported(code: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for statement in code.split(['\n', ';']) {
        let mut words = statement
            .trim()
            .split([' ', ','])
            .filter(|word| !word.is_empty());
        match words.next() {
            Some("import") => {
                let mut is_alias = false;
                for word in words {
                    match word {
                        "as" => is_alias = true,
                        _ if is_alias => is_alias = false,
                        word => names.push(word),
                    }
                }
            }
            Some("from") => names.extend(words.next()),
            _ => {}
        }
    }
    names
}

/// Words of code in other languages that may change something.
const CHANGING: &[&str] = &[
    "cd",
    "clear",
    "cmd",
    "copy",
    "cp",
    "delete",
    "duplicate",
    "empty",
    "erase",
    "file",
    "keystroke",
    "key",
    "mv",
    "move",
    "perform",
    "process",
    "quit",
    "remove",
    "restart",
    "rm",
    "run",
    "save",
    "script",
    "send",
    "set",
    "shell",
    "shutdown",
    "sink",
    "source",
    "system2",
    "trash",
    "writeLines",
    "pipe",
    "output",
    "install",
    "install_github",
    "Pkg",
    "download",
    "dofile",
    "loadfile",
    "loadstring",
    "callCommand",
    "createProcess",
    "createTempFile",
    "deleteDir",
    "deleteFile",
    "deleteOnExit",
    "destroy",
    "destroy_all",
    "esyscmd",
    "include",
    "kill",
    "readProcess",
    "removeDirectory",
    "removeDirectoryRecursive",
    "removeFile",
    "removePathForcibly",
    "renameFile",
    "rename_file",
    "renameTo",
    "Runtime",
    "ProcessBuilder",
    "Sys",
    "Unix",
    "System",
    "File",
    "syscmd",
    "sysval",
    "undivert",
    "update_all",
    "withWriter",
    "writeFile",
    "appendFile",
    "rm_rf",
    "Port",
];

/// Whether a line begins with what starts a program: `!` of `dc` and `gdb`, `:!` of `ghci`.
fn escapes(code: &str) -> bool {
    let mut lines = code.lines().map(str::trim_start);
    lines.any(|line| line.starts_with('!') || line.starts_with(":!") || line.starts_with('%'))
}

/// Judges code in another language, such as AppleScript, R or Tcl, by its words alone.
pub fn other_code_effect(code: &str) -> CodeEffect {
    let mut words = code.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    match code_effect(code, None) {
        CodeEffect::Harmless if words.any(|word| CHANGING.contains(&word)) || escapes(code) => {
            CodeEffect::Unknown
        }
        effect => effect,
    }
}
