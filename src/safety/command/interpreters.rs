//! Shells and interpreters.

/// Whether a program is a shell that runs text.
pub fn is_shell(name: &str) -> bool {
    matches!(
        name,
        "sh" | "bash"
            | "zsh"
            | "dash"
            | "ksh"
            | "mksh"
            | "ash"
            | "fish"
            | "csh"
            | "tcsh"
            | "rbash"
            | "yash"
            | "nu"
            | "pwsh"
            | "elvish"
            | "xonsh"
    )
}

/// Whether the code of an interpreter is in a language whose words are judged one by one.
pub fn has_other_language(name: &str) -> bool {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    !matches!(
        plain,
        "python"
            | "pypy"
            | "ipython"
            | "perl"
            | "ruby"
            | "jruby"
            | "node"
            | "nodejs"
            | "deno"
            | "bun"
            | "tsx"
            | "ts-node"
            | "php"
    )
}

/// The options of an interpreter, without a version in its name, whose value is the next argument. Those that load or run
/// something are judged before.
pub fn value_options(plain: &str) -> &'static [&'static str] {
    match plain {
        "python" | "pypy" => &["-W", "-X", "-Q", "--check-hash-based-pycs"],
        "node" | "nodejs" | "bun" | "tsx" => &[
            "-C",
            "--conditions",
            "--env-file",
            "--experimental-loader",
            "--import",
            "--input-type",
            "--loader",
            "--preload",
            "-r",
            "--require",
            "--title",
        ],
        "perl" => &["-I"],
        "ruby" | "jruby" => &["-I", "-r", "-C", "-E"],
        "php" => &["-c", "-d", "-t", "-z"],
        "lua" | "luajit" => &["-l"],
        _ => &[],
    }
}

/// The options with which an interpreter takes code, or `None` if a program is not an interpreter.
pub fn code_options(name: &str) -> Option<&'static [&'static str]> {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    Some(match plain {
        "python" | "pypy" | "ipython" => &["-c"],
        "perl" | "raku" => &["-e", "-E"],
        "ruby" | "jruby" => &["-e"],
        "node" | "nodejs" | "tsx" | "ts-node" => &["-e", "--eval", "-p", "--print"],
        "deno" => &["eval"],
        "bun" => &["-e", "--eval", "-p", "--print"],
        "php" => &["-r", "-R", "-B", "-E"],
        "lua" | "luajit" | "osascript" | "Rscript" | "R" | "elixir" | "julia" | "ghc"
        | "groovy" | "scala" => &["-e", "-E"],
        "tclsh" | "wish" | "expect" | "guile" | "racket" => &["-c", "-e"],
        _ => return None,
    })
}

/// Whether a file is a script of a project that has subcommands: `python manage.py migrate`.
pub fn is_project_script(file: &str) -> bool {
    matches!(file, "artisan" | "console" | "manage.py" | "spark")
}
