//! Names of programs.

/// Programs that Homebrew and the BSDs install with a `g` before their name.
const GNU_NAMES: &[&str] = &[
    "base64",
    "basename",
    "cat",
    "chgrp",
    "chmod",
    "chown",
    "cksum",
    "comm",
    "cp",
    "cut",
    "date",
    "dd",
    "df",
    "dirname",
    "du",
    "echo",
    "env",
    "expr",
    "fmt",
    "fold",
    "grep",
    "head",
    "install",
    "join",
    "ln",
    "ls",
    "md5sum",
    "mkdir",
    "mktemp",
    "mv",
    "nl",
    "nproc",
    "numfmt",
    "paste",
    "printf",
    "readlink",
    "realpath",
    "rm",
    "rmdir",
    "seq",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "shred",
    "shuf",
    "sleep",
    "sort",
    "stat",
    "tac",
    "tail",
    "tee",
    "touch",
    "tr",
    "truncate",
    "uname",
    "uniq",
    "unlink",
    "wc",
    "yes",
];

/// Returns the name of a program without a directory in which programs are installed.
pub fn program_name(path: &str) -> &str {
    const PLACES: [&str; 12] = [
        "/bin",
        "/usr/bin",
        "/usr/local/bin",
        "/sbin",
        "/usr/sbin",
        "/usr/local/sbin",
        "/opt/homebrew/bin",
        "/.local/bin",
        "/.cargo/bin",
        "node_modules/.bin",
        "venv/bin",
        "/vendor/bin",
    ];
    let name = match path.rsplit_once('/') {
        Some((directory, name))
            if PLACES.iter().any(|place| {
                directory == *place
                    || !place.starts_with("/bin")
                        && !place.starts_with("/sbin")
                        && directory.ends_with(place)
            }) =>
        {
            name
        }
        _ => path,
    };
    // The module `zsh/files` has builtins of the names of these programs.
    match name.strip_prefix("zf_").or(name.strip_prefix('g')) {
        Some(plain) if GNU_NAMES.contains(&plain) => plain,
        _ => name,
    }
}
