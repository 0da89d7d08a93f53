//! Words of single languages with which code writes files, runs something or hides its effects.

/// A language whose words are judged one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeLanguage {
    /// Python.
    Python,
    /// Perl.
    Perl,
    /// Ruby.
    Ruby,
    /// JavaScript.
    Script,
    /// PHP.
    Php,
}

impl CodeLanguage {
    const ALL: [CodeLanguage; 5] = [
        CodeLanguage::Python,
        CodeLanguage::Perl,
        CodeLanguage::Ruby,
        CodeLanguage::Script,
        CodeLanguage::Php,
    ];

    /// Returns the language of an interpreter.
    pub fn of(interpreter: &str) -> Option<CodeLanguage> {
        let plain = interpreter.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        Some(match plain {
            "python" | "pypy" | "ipython" => CodeLanguage::Python,
            "perl" => CodeLanguage::Perl,
            "ruby" | "jruby" => CodeLanguage::Ruby,
            "node" | "nodejs" | "deno" | "bun" | "tsx" | "ts-node" => CodeLanguage::Script,
            "php" => CodeLanguage::Php,
            _ => return None,
        })
    }

    /// Words with which code acts, anywhere in the code.
    fn words(self) -> &'static [&'static str] {
        match self {
            CodeLanguage::Python => &[
                "addsitedir",
                "delattr",
                "dump_session",
                "exec_module",
                "full_load",
                "hub",
                "locals",
                "memmap",
                "modules",
                "read_pickle",
                "save",
                "savefig",
                "savetxt",
                "savez",
                "savez_compressed",
                "setprofile",
                "settrace",
                "to_csv",
                "to_excel",
                "to_feather",
                "to_hdf",
                "to_html",
                "to_json",
                "to_parquet",
                "to_pickle",
                "to_sql",
                "tofile",
                "unsafe_load",
                "vars",
                "write_bytes",
                "write_text",
            ],
            CodeLanguage::Perl => &[
                "CORE",
                "chdir",
                "chroot",
                "creat",
                "dbmopen",
                "evalbytes",
                "fcntl",
                "ioctl",
                "mkdir",
                "mkfifo",
                "readpipe",
                "symlink",
                "sysopen",
                "syswrite",
                "utime",
            ],
            CodeLanguage::Ruby => &[
                "Fiddle",
                "Gem",
                "Marshal",
                "ObjectSpace",
                "Open3",
                "PTY",
                "__send__",
                "autoload",
                "binwrite",
                "class_eval",
                "const_get",
                "define_method",
                "instance_eval",
                "instance_exec",
                "mkdir",
                "mkpath",
                "module_eval",
                "public_send",
                "reopen",
                "require_relative",
                "symlink",
                "syswrite",
            ],
            CodeLanguage::Script => &[
                "Bun",
                "Function",
                "WebAssembly",
                "appendFile",
                "appendFileSync",
                "binding",
                "constructor",
                "createRequire",
                "dlopen",
                "mainModule",
                "_load",
            ],
            CodeLanguage::Php => &[
                "assert",
                "call_user_func",
                "call_user_func_array",
                "copy",
                "create_function",
                "curl_exec",
                "file_put_contents",
                "fopen",
                "fputs",
                "fwrite",
                "include",
                "include_once",
                "link",
                "mail",
                "mkdir",
                "move_uploaded_file",
                "pcntl_exec",
                "putenv",
                "require_once",
                "symlink",
                "tempnam",
                "touch",
                "ReflectionFunction",
                "SplFileObject",
            ],
        }
    }

    /// Whether code in this language may write a file or run something.
    fn acts(self, code: &str) -> bool {
        let mut words = words(code);
        let has_word = words.any(|(_, word)| self.words().contains(&word));
        has_word
            || match self {
                CodeLanguage::Python => python_acts(code),
                CodeLanguage::Perl => perl_acts(code),
                CodeLanguage::Ruby => {
                    let opens = calls(code, "open").any(|rest| !opens_to_read(rest));
                    opens
                        || code.contains("%x")
                        || code.contains("File.new")
                        || ["send", "method", "link", "cp", "mv", "touch"]
                            .iter()
                            .any(|name| calls(code, name).next().is_some())
                }
                CodeLanguage::Script => {
                    let mut imports = after_word(code, "import");
                    let reads = ["version", "args", "cwd", "env", "readTextFile", "build"];
                    imports.any(|rest| rest.trim_start().starts_with('('))
                        || after_word(code, "Deno").any(|rest| {
                            let name = rest.strip_prefix('.').unwrap_or_default();
                            !reads.iter().any(|read| name.starts_with(read))
                        })
                }
                CodeLanguage::Php => false,
            }
    }
}

/// Whether code may write a file or run something; in any language if its own is not known.
pub fn acts(code: &str, language: Option<CodeLanguage>) -> bool {
    match language {
        Some(language) => language.acts(code),
        None => CodeLanguage::ALL.iter().any(|language| language.acts(code)),
    }
}

/// Returns the words of code with their places.
fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let words = code.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    let words = words.filter(|word| !word.is_empty());
    words.map(|word| (word.as_ptr() as usize - code.as_ptr() as usize, word))
}

/// Returns what follows each occurrence of a word.
fn after_word<'a>(code: &'a str, name: &'static str) -> impl Iterator<Item = &'a str> {
    let found = words(code).filter(move |(_, word)| *word == name);
    found.map(|(at, word)| code.get(at + word.len()..).unwrap_or_default())
}

/// Returns what follows each occurrence of a word that looks like a call, without the parenthesis: in a text or an expression,
/// another word or a delimiter follows.
fn calls<'a>(code: &'a str, name: &'static str) -> impl Iterator<Item = &'a str> {
    after_word(code, name).filter_map(|rest| {
        let plain = rest.trim_start();
        let has_space = plain.len() < rest.len();
        let begins = plain.starts_with(['(', '$', '"', '\'', '*', '{', '\\', '+', '<', ':'])
            || has_space
                && (plain.starts_with(|c: char| c.is_ascii_uppercase())
                    || ["my ", "my(", "our ", "local "]
                        .iter()
                        .any(|word| plain.starts_with(word)));
        begins.then(|| plain.strip_prefix('(').unwrap_or(plain).trim_start())
    })
}

/// Whether the arguments of `open` in Python or Ruby open a file to read it.
fn opens_to_read(arguments: &str) -> bool {
    let mut depth = 0;
    let mut parts = vec![String::new()];
    for c in arguments.chars() {
        match c {
            ')' | ']' | '}' if depth == 0 => break,
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            ';' | '\n' if depth == 0 => break,
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    let mut parts = parts.iter().map(|part| part.trim());
    let first = parts.next().unwrap_or_default();
    let is_command = first.trim_start_matches(['"', '\'']).starts_with('|');
    let reads = |part: &str| {
        let part = part.strip_prefix("mode=").unwrap_or(part);
        let mode = part.trim_matches(['"', '\'']);
        let is_literal = mode.len() + 2 == part.len();
        let is_other = ["encoding=", "errors=", "newline="]
            .iter()
            .any(|name| part.starts_with(name));
        is_other || is_literal && mode.chars().all(|c| matches!(c, 'r' | 'b' | 't' | 'U'))
    };
    !is_command && !first.is_empty() && parts.all(reads)
}

/// Members of the module `os` of Python that change nothing.
const OS_READS: [&str; 29] = [
    "access",
    "cpu_count",
    "curdir",
    "environ",
    "fspath",
    "get_terminal_size",
    "getcwd",
    "getegid",
    "getenv",
    "geteuid",
    "getgid",
    "getloadavg",
    "getlogin",
    "getpid",
    "getppid",
    "getuid",
    "linesep",
    "listdir",
    "lstat",
    "name",
    "path",
    "pathsep",
    "readlink",
    "scandir",
    "sep",
    "stat",
    "statvfs",
    "uname",
    "walk",
];

fn python_acts(code: &str) -> bool {
    let is_hidden = |word: &str| {
        let known = ["__name__", "__version__", "__file__", "__doc__", "__len__"];
        word.starts_with("__") && word.ends_with("__") && !known.contains(&word)
    };
    let first_word = |text: &str| words(text).next().map_or("", |(_, word)| word).to_owned();
    let is_os = |rest: &str| match rest.strip_prefix('.') {
        Some(member) => OS_READS.contains(&first_word(member).as_str()),
        None => {
            let rest = rest.trim_start_matches(' ');
            match rest.strip_prefix("import ") {
                // `from os import …`
                Some(names) => {
                    let end = names.find([';', '\n']).unwrap_or(names.len());
                    let names = names.get(..end).unwrap_or_default();
                    let names = names.trim_matches(['(', ')', ' ']).split(',');
                    names.map(str::trim).all(|name| OS_READS.contains(&name))
                }
                None => rest.is_empty() || rest.starts_with([',', ';', '\n']),
            }
        }
    };
    words(code).any(|(_, word)| is_hidden(word))
        || !after_word(code, "os").all(is_os)
        || after_word(code, "open").any(|rest| match rest.trim_start().strip_prefix('(') {
            Some(arguments) => !opens_to_read(arguments),
            None => true,
        })
}

fn perl_acts(code: &str) -> bool {
    let calls_one = ["open", "link", "send", "bind", "connect", "pipe"]
        .iter()
        .any(|name| calls(code, name).next().is_some());
    // `do FILE` runs a file, unlike a block.
    let does_file = after_word(code, "do").any(|rest| {
        rest.trim_start()
            .starts_with(['"', '\'', '$', '(', '.', '/', '<', 'q'])
    });
    let uses = code.split([';', '{', '}', '\n']).any(|statement| {
        let mut parts = statement.split_whitespace();
        let is_use = matches!(parts.next(), Some("use" | "no"));
        let module = parts.next().unwrap_or_default();
        let is_known = module.starts_with(|c: char| c.is_ascii_digit())
            || module.starts_with('v')
            || [
                "strict", "warnings", "utf8", "feature", "integer", "bigint", "POSIX",
            ]
            .contains(&module)
            || [
                "List::Util",
                "Scalar::Util",
                "Data::Dumper",
                "JSON::PP",
                "Time::Local",
            ]
            .contains(&module);
        is_use && !is_known
    });
    // Files that `<>` opens.
    let sets_files = after_word(code, "ARGV").any(|rest| {
        let rest = rest.trim_start_matches([' ', '\t']);
        let rest = match rest.starts_with('[') {
            true => rest
                .split_once(']')
                .map_or("", |(_, rest)| rest)
                .trim_start(),
            false => rest,
        };
        rest.starts_with('=') && !rest.starts_with("==") && !rest.starts_with("=~")
            || rest.starts_with(',')
    });
    calls_one || does_file || uses || sets_files || evaluates_twice(code)
}

/// Whether an expression has the modifiers `ee`: its replacement computes code that is run.
fn evaluates_twice(code: &str) -> bool {
    words(code).any(|(at, word)| {
        let is_modifiers = word.chars().all(|c| "msixpodualngcer".contains(c));
        let before = code.get(..at).and_then(|before| before.chars().next_back());
        let next = code
            .get(at + word.len()..)
            .and_then(|rest| rest.chars().next());
        is_modifiers
            && word.matches('e').count() > 1
            && before.is_some_and(|c| !c.is_whitespace() && !matches!(c, '$' | '@' | '%' | '&'))
            && next.is_none_or(|c| matches!(c, ';' | ' ' | '}' | ')' | '\n'))
    })
}
