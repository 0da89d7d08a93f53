//! Effects of programs on the paths that they are given.

/// Programs that only read the paths that they are given.
pub(super) const READERS: &[&str] = &[
    "[",
    "[[",
    "ack",
    "ag",
    "bat",
    "cat",
    "cmp",
    "df",
    "diff",
    "dirname",
    "basename",
    "du",
    "dust",
    "echo",
    "egrep",
    "exa",
    "eza",
    "false",
    "fgrep",
    "file",
    "grep",
    "head",
    "l",
    "la",
    "less",
    "ll",
    "ls",
    "lsd",
    "md5sum",
    "mkdir",
    "more",
    "ncdu",
    "print",
    "printf",
    "pwd",
    "readlink",
    "realpath",
    "rg",
    "sha256sum",
    "stat",
    "tail",
    "test",
    "touch",
    "tree",
    "true",
    "type",
    "wc",
    "which",
];

/// Programs and words after which paths are relative to another directory, or are in a variable.
pub(super) const CHANGERS: &[&str] = &[
    "alias", "cd", "chdir", "declare", "export", "for", "foreach", "hash", "local", "popd",
    "pushd", "readonly", "select", "typeset", "z",
];

/// Programs that are known to write, also in a text that may be something other than a command.
pub(super) const WRITERS: &[&str] = &[
    "chmod", "chown", "cp", "ln", "mount", "mv", "rm", "rmdir", "rsync", "shred", "tar", "unlink",
];

/// Programs that write to the current directory what an archive or a patch names.
pub(super) const UNPACKERS: &[&str] = &["7z", "bsdtar", "cpio", "pax", "patch", "tar", "unzip"];

/// Programs whose quoted arguments are not commands.
pub(super) const TEXT_PROGRAMS: &[&str] = &[
    "awk", "cargo", "cat", "echo", "gh", "git", "grep", "jq", "llm", "print", "printf", "rg",
    "sed", "tee",
];

/// Programs whose quoted arguments and input are command lines.
pub(super) const SHELLS: &[&str] = &[
    ".", "bash", "csh", "dash", "eval", "fish", "ksh", "parallel", "sh", "source", "ssh", "su",
    "tcsh", "trap", "watch", "xargs", "zsh",
];

/// Programs that print a text which they are given, decode or fetch. The names of the interpreters belong to them.
pub(super) const TEXT_MAKERS: &[&str] = &[
    "awk", "base32", "base64", "basenc", "bunzip2", "bzcat", "bzip2", "cat", "curl", "cut", "dd",
    "echo", "fold", "gpg", "gunzip", "gzip", "head", "jq", "nc", "od", "openssl", "print",
    "printf", "rev", "sed", "tac", "tail", "tr", "uudecode", "wget", "xxd", "xz", "xzcat", "zcat",
    "zstd", "zstdcat",
];

/// Programs whose quoted arguments are programs in another language.
pub(super) const INTERPRETERS: &[&str] = &[
    "bun",
    "deno",
    "lua",
    "node",
    "osascript",
    "perl",
    "php",
    "python",
    "python2",
    "python3",
    "ruby",
];

/// Programs that run the rest of their words as a command, and reserved words before a command.
pub(super) const PREFIXES: &[&str] = &[
    "!",
    "-",
    "builtin",
    "command",
    "do",
    "doas",
    "elif",
    "else",
    "env",
    "exec",
    "if",
    "ionice",
    "nice",
    "nocorrect",
    "noglob",
    "nohup",
    "setsid",
    "stdbuf",
    "sudo",
    "then",
    "time",
    "timeout",
    "until",
    "while",
    "{",
    "}",
];

/// Commands of git that only read.
pub(super) const GIT_READS: &[&str] = &[
    "blame",
    "branch",
    "describe",
    "diff",
    "grep",
    "log",
    "ls-files",
    "remote",
    "rev-parse",
    "show",
    "status",
];

/// Commands of git that write files to the work tree.
pub(super) const GIT_UNPACKS: &[&str] = &[
    "am", "apply", "checkout", "clean", "merge", "pull", "reset", "restore", "stash", "switch",
];

/// Options with which `find` and `fd` write or run a program.
pub(super) const FIND_WRITES: &[&str] = &[
    "-delete",
    "-exec",
    "-execdir",
    "-ok",
    "-okdir",
    "-fprint",
    "-fprint0",
    "-fprintf",
    "-fls",
    "-x",
    "-X",
    "--exec",
    "--exec-batch",
];

/// Options with a directory in which a program works.
pub(super) const DIRECTORY_OPTIONS: &[&str] = &[
    "-C",
    "--chdir",
    "--cwd",
    "--directory",
    "--git-dir",
    "--prefix",
    "--work-tree",
];

/// Commands of aish's own program that change nothing, and second words of the others that do not.
pub(super) const OWN_READS: &[&str] = &[
    "--help",
    "--version",
    "-V",
    "-h",
    "activity",
    "check",
    "completions",
    "doctor",
    "explain",
    "help",
    "list",
    "man",
    "path",
    "prompts",
    "redact",
    "resources",
    "search",
    "show",
    "status",
    "tool",
    "tools",
];
