//! Harmless uses of modules and words that could do anything.

/// Returns what follows each occurrence of a word, and the text before it.
fn after<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    code.match_indices(word).filter_map(move |(at, found)| {
        let before = code.get(..at)?;
        let rest = code.get(at + found.len()..)?;
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let is_whole = !before.ends_with(is_part) && !rest.starts_with(is_part);
        is_whole.then_some((before, rest))
    })
}

/// Whether a word is only imported, or followed by one of these members.
fn has_only(code: &str, word: &str, members: &[&str]) -> bool {
    after(code, word).all(|(before, rest)| {
        let before = before.trim_end();
        let is_import = ["import", "from", ","]
            .iter()
            .any(|end| before.ends_with(end))
            && (rest.is_empty() || rest.starts_with([';', '\n', ',']));
        let member = rest.strip_prefix('.').unwrap_or_default();
        let end = member.find(|c: char| !(c.is_alphanumeric() || c == '_'));
        let member = member
            .get(..end.unwrap_or(member.len()))
            .unwrap_or_default();
        is_import || members.contains(&member)
    })
}

/// Packages whose version is often looked up.
const PACKAGES: [&str; 16] = [
    "django",
    "fastapi",
    "flask",
    "jax",
    "matplotlib",
    "numpy",
    "pandas",
    "polars",
    "pydantic",
    "pytest",
    "requests",
    "scipy",
    "sklearn",
    "tensorflow",
    "torch",
    "transformers",
];

/// Members of `socket`, `inspect` and others that have no side effects.
const SIDE_EFFECT_FREE: [(&str, &[&str]); 5] = [
    (
        "shutil",
        &[
            "disk_usage",
            "get_archive_formats",
            "get_terminal_size",
            "which",
        ],
    ),
    ("socket", &["gethostname", "AF_INET", "AF_INET6"]),
    ("urllib", &["parse"]),
    (
        "inspect",
        &[
            "getsource",
            "getsourcefile",
            "getfile",
            "getdoc",
            "signature",
            "isclass",
            "isfunction",
        ],
    ),
    (
        "ssl",
        &[
            "OPENSSL_VERSION",
            "OPENSSL_VERSION_INFO",
            "get_default_verify_paths",
        ],
    ),
];

/// Members that give the version or the location of any module.
const VERSIONS: [&str; 6] = [
    "__version__",
    "VERSION",
    "version",
    "__file__",
    "__doc__",
    "__path__",
];

/// Whether Python code uses only members of a module that have no side effects.
pub fn is_side_effect_free(code: &str, module: &str) -> bool {
    let top = module.split('.').next().unwrap_or(module);
    let known = SIDE_EFFECT_FREE.iter().find(|(name, _)| *name == top);
    if let Some((_, members)) = known
        && has_only(code, top, members)
    {
        return true;
    }
    match top {
        "base64" | "csv" | "glob" => true,
        // Paths can also be written, moved and deleted.
        "pathlib" => {
            let acts = [
                "mkdir",
                "touch",
                "symlink_to",
                "hardlink_to",
                "link_to",
                "replace",
                "open",
                "lchmod",
            ];
            acts.iter().all(|word| after(code, word).next().is_none())
        }
        // Any other name may import a file of the working directory.
        _ => {
            let is_used = after(code, top).any(|(_, rest)| rest.starts_with('.'));
            PACKAGES.contains(&module) && is_used && has_only(code, top, &VERSIONS)
        }
    }
}

/// Whether Python code only prints the help of something.
pub fn is_help(code: &str) -> bool {
    let topic = code
        .trim()
        .strip_prefix("help(")
        .and_then(|rest| rest.strip_suffix(')'));
    topic.is_some_and(|topic| {
        topic
            .chars()
            .all(|c| c.is_alphanumeric() || "._'\"".contains(c))
    })
}

/// Whether a word of Python code that may do anything is used without side effects.
pub fn is_word_side_effect_free(code: &str, word: &str) -> bool {
    match word {
        "write" => after(code, word)
            .all(|(before, _)| before.ends_with("sys.stdout.") || before.ends_with("sys.stderr.")),
        "b64decode" | "decode" => true,
        "base64" | "socket" | "urllib" | "requests" => is_side_effect_free(code, word),
        _ => false,
    }
}

/// Whether code uses `IO` only to print.
pub fn prints(code: &str) -> bool {
    after(code, "IO").all(|(_, rest)| rest.starts_with(".puts") || rest.starts_with(".inspect"))
}

/// Whether JavaScript uses the module `fs` only to read.
pub fn reads_files(code: &str) -> bool {
    const READS: [&str; 8] = [
        "readFileSync",
        "existsSync",
        "statSync",
        "lstatSync",
        "readdirSync",
        "realpathSync",
        "accessSync",
        "readlinkSync",
    ];
    let is_read = |rest: &str| {
        let member = rest.strip_prefix('.').unwrap_or_default();
        READS.iter().any(|name| {
            member
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('('))
        })
    };
    after(code, "fs").all(|(before, rest)| {
        let quoted = rest
            .strip_prefix(['"', '\''])
            .and_then(|rest| rest.strip_prefix(')'));
        match quoted {
            // `const fs = require("fs")`, `require("fs").readFileSync`
            Some(rest) => {
                let start = before.rsplit("require(").nth(1).unwrap_or_default();
                let start = start.trim_end();
                let is_named = start.strip_suffix('=').is_some_and(|start| {
                    let start = start.trim_end();
                    ["const fs", "let fs", "var fs"]
                        .iter()
                        .any(|name| start.ends_with(name))
                });
                is_read(rest) || is_named && rest.trim_start().starts_with([';', '\n', ','])
            }
            None => {
                is_read(rest)
                    || rest.trim_start().starts_with("=require(")
                    || rest.trim_start().starts_with("= require(")
            }
        }
    })
}
