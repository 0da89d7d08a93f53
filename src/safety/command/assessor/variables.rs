//! Variables that change what later commands do.

use super::shell::ShellCall;
use super::{Assessor, ScriptFacts};
use crate::safety::command::class::CommandClass::{
    Destroys, Reads, RunsDownloadedCode, Unknown, Writes,
};
use crate::safety::command::interpreters;
use crate::safety::command::special;
use crate::safety::command::syntax::SimpleCommand;
use crate::safety::command::word::program_name;
use crate::safety::command::word::{ShellWord, UNKNOWN};

/// Variables that name places with code or settings.
const PLACES: [&str; 22] = [
    "ANSIBLE_CONFIG",
    "CARGO_HOME",
    "CLASSPATH",
    "DYLD_FRAMEWORK_PATH",
    "DYLD_LIBRARY_PATH",
    "GEM_HOME",
    "GEM_PATH",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "JULIA_LOAD_PATH",
    "KUBECONFIG",
    "LD_LIBRARY_PATH",
    "LUA_CPATH",
    "LUA_PATH",
    "NODE_PATH",
    "PERL5LIB",
    "PYTHONPATH",
    "PYTHONUSERBASE",
    "RUBYLIB",
    "R_LIBS",
    "TCLLIBPATH",
];

/// Whether a variable names a place where a program installs packages from.
fn is_registry(variable: &str) -> bool {
    const NAMES: [&str; 17] = [
        "BUNDLE_MIRROR__ALL",
        "GOPROXY",
        "HOMEBREW_API_DOMAIN",
        "HOMEBREW_ARTIFACT_DOMAIN",
        "HOMEBREW_BOTTLE_DOMAIN",
        "HOMEBREW_BREW_GIT_REMOTE",
        "HOMEBREW_CORE_GIT_REMOTE",
        "NPM_CONFIG_REGISTRY",
        "PIP_EXTRA_INDEX_URL",
        "PIP_FIND_LINKS",
        "PIP_INDEX_URL",
        "RUBYGEMS_HOST",
        "UV_DEFAULT_INDEX",
        "UV_EXTRA_INDEX_URL",
        "UV_INDEX",
        "UV_INDEX_URL",
        "YARN_NPM_REGISTRY_SERVER",
    ];
    let variable = variable.to_ascii_uppercase();
    let is_cargo = variable.starts_with("CARGO_REGISTRIES_") && variable.ends_with("_INDEX");
    is_cargo || NAMES.contains(&variable.as_str())
}

impl Assessor<'_> {
    /// Judges variables that change what later commands do.
    pub(super) fn assignments(&mut self, script: &ScriptFacts, command: &SimpleCommand) {
        for (name, word) in &command.assignments {
            let value = self.value(word);
            if self.word_downloads(script, word) {
                self.downloaded_variables.insert(name.clone());
            }
            if command.words.is_empty() || !value.is_empty() {
                self.findings.add(
                    if command.words.is_empty() {
                        Writes
                    } else {
                        Reads
                    },
                    "",
                );
            }
            let is_open = match word.elements().filter(|_| command.words.is_empty()) {
                Some(elements) => elements.iter().any(|element| element.contains('$')),
                None => value.contains(UNKNOWN),
            };
            self.has_unknown_value |= is_open;
            let replaces = command.is_certain && script.script.functions.is_empty();
            self.note_value(script, (name, word), replaces);
            self.variable(script, name, &value, Some(word));
        }
    }

    /// Judges the variables that a builtin assigns to, whose names are arguments. `path` is left out where scripts of other shells
    /// use the name for a variable of their own.
    pub(super) fn assigned_names(&mut self, script: &ScriptFacts, call: &ShellCall<'_>) {
        let behind = |option: &str| {
            let at = call
                .arguments
                .iter()
                .position(|argument| argument == option);
            at.and_then(|at| call.arguments.get(at + 1..at + 2))
        };
        let names = match call.name {
            "read" => call.arguments,
            "getopts" => call.arguments.get(1..2).unwrap_or_default(),
            "set" => behind("-A").unwrap_or_default(),
            "print" | "printf" => behind("-v").unwrap_or_default(),
            _ => return,
        };
        for name in names
            .iter()
            .filter(|name| call.name == "set" || *name != "path")
        {
            self.variable(script, name, "", None);
        }
    }

    /// Judges a variable, which an assignment or a program such as `env` sets.
    pub(super) fn variable(
        &mut self,
        script: &ScriptFacts,
        name: &str,
        value: &str,
        word: Option<&ShellWord>,
    ) {
        let plain = name.split('[').next().unwrap_or_default();
        match plain {
            "PS1" | "PS2" | "PS3" | "RPS1" | "PROMPT" | "PROMPT2" | "RPROMPT" | "SPROMPT"
                if value.contains("$(") || value.contains('`') =>
            {
                self.findings
                    .add_text("its prompt may run a command", value);
            }
            "PATH" | "path" | "fpath" | "FPATH" | "module_path" | "MODULE_PATH" => {
                let elements = word.and_then(ShellWord::elements).unwrap_or_default();
                let keeps = value.contains(UNKNOWN);
                let parts = value.split(':').chain(elements.iter().map(String::as_str));
                let is_odd = parts.into_iter().any(|part| {
                    part.is_empty() && !value.is_empty()
                        || part == "."
                        || self.place.is_shared(part)
                        || part.contains("/..")
                        || part.starts_with("./")
                });
                match (keeps, is_odd) {
                    (true, false) => self.findings.add(
                        Writes,
                        format!("changes {name}, which decides where programs are found"),
                    ),
                    _ => self.findings.add(
                        Unknown,
                        format!("it sets {name}, so that other programs may run"),
                    ),
                }
            }
            _ if is_registry(plain) && special::is_url(value) && !special::is_official(value) => {
                self.findings.add(
                    Unknown,
                    format!("it sets {name}, which decides where packages come from"),
                );
            }
            "LESS" | "MANOPT" | "LESSKEY_CONTENT" if value.contains(['!', '|', '+', 'P']) => {
                self.findings.add(
                    Unknown,
                    format!("it sets {name}, so that other code may run"),
                );
            }
            "MAKEFLAGS" | "MFLAGS" | "GNUMAKEFLAGS"
                if value.contains("eval") || value.contains("-f") =>
            {
                let reason = format!("it sets {name}, which adds options to a command");
                self.findings
                    .add_text(reason, value.replace([':', ';'], "\n"));
            }
            name if name.starts_with("TF_CLI_ARGS") => self.findings.add(
                Unknown,
                format!("it sets {name}, which adds options to a command"),
            ),
            "BASH_ENV" | "ENV" | "ZDOTDIR" | "LD_PRELOAD" | "PYTHONSTARTUP"
                if word.is_some_and(|word| self.word_downloads(script, word)) =>
            {
                self.findings
                    .add_grave(RunsDownloadedCode, "runs a download");
            }
            "RIPGREP_CONFIG_PATH"
            | "TAR_OPTIONS"
            | "LESSKEY"
            | "LESSKEYIN"
            | "LESSKEY_SYSTEM"
            | "LD_PRELOAD"
            | "LD_AUDIT"
            | "DYLD_INSERT_LIBRARIES"
            | "BASH_ENV"
            | "ENV"
            | "ZDOTDIR"
            | "PROMPT_COMMAND"
            | "PERL5OPT"
            | "PERL5DB"
            | "PYTHONSTARTUP"
            | "RUBYOPT"
            | "JAVA_TOOL_OPTIONS"
            | "GIT_EXEC_PATH"
            | "GIT_CONFIG_GLOBAL"
            | "GIT_CONFIG_SYSTEM"
            | "GIT_CONFIG_COUNT"
            | "GIT_CONFIG_PARAMETERS"
            | "GIT_CONFIG"
            | "GIT_TEMPLATE_DIR"
            | "HOME"
            | "XDG_CONFIG_HOME"
            | "XDG_CONFIG_DIRS"
            | "OPENSSL_CONF"
            | "RUSTC"
            | "RUSTDOC"
            | "RUSTC_WORKSPACE_WRAPPER"
            | "MAKEFILES"
            | "VIMINIT"
            | "EXINIT"
            | "PYTHONHOME"
            | "PERLLIB"
            | "GCONV_PATH"
            | "BASH_FUNC_x"
            | "PS4"
            | "NULLCMD"
            | "READNULLCMD"
            | "commands"
            | "aliases"
            | "functions"
            | "galiases"
            | "saliases" => {
                self.findings
                    .add_text(format!("it sets {name}, so that other code may run"), value);
            }
            "NODE_OPTIONS"
                if [
                    "--require",
                    "-r ",
                    "--import",
                    "--loader",
                    "--experimental-loader",
                ]
                .iter()
                .any(|option| value.contains(option)) =>
            {
                self.findings.add(
                    Unknown,
                    format!("it sets {name}, so that other code may run"),
                );
            }
            "PAGER"
            | "EDITOR"
            | "VISUAL"
            | "BROWSER"
            | "GIT_PAGER"
            | "GIT_EDITOR"
            | "GIT_SEQUENCE_EDITOR"
            | "GIT_SSH_COMMAND"
            | "GIT_SSH"
            | "GIT_EXTERNAL_DIFF"
            | "GIT_ASKPASS"
            | "SSH_ASKPASS"
            | "LESSOPEN"
            | "LESSCLOSE"
            | "MANPAGER"
            | "SUDO_ASKPASS"
            | "GIT_PROXY_COMMAND"
            | "RSYNC_RSH"
            | "BAT_PAGER"
            | "DELTA_PAGER"
            | "GH_PAGER"
            | "PSQL_PAGER"
            | "SYSTEMD_PAGER"
            | "KUBE_EDITOR"
            | "RUSTC_WRAPPER"
            | "FZF_DEFAULT_COMMAND"
            | "CC"
            | "CXX"
            | "MAKEFLAGS_" => match word.is_some_and(|word| self.word_downloads(script, word)) {
                true => self.findings.add(RunsDownloadedCode, "runs a download"),
                false if value.is_empty() => {}
                false => {
                    let first = value
                        .split_whitespace()
                        .next()
                        .map(program_name)
                        .unwrap_or_default();
                    // The value that the manual of bat gives; the text is judged below.
                    let is_usual = name == "MANPAGER" && value.starts_with("sh -c 'col -b");
                    let is_interpreter = interpreters::is_shell(first)
                        || interpreters::code_options(first).is_some();
                    if is_interpreter && !is_usual {
                        self.findings.add(
                            Unknown,
                            format!("it sets {name}, so that other code may run"),
                        );
                    }
                    self.shell_text(value);
                }
            },
            "mapfile" => self.findings.add(Destroys, "overwrites files"),
            name if is_hook_list(name) => self
                .findings
                .add(Unknown, "it makes the shell run a function later"),
            name if runs_cargo(name) => self.findings.add(
                Unknown,
                format!("it sets {name}, so that other code may run"),
            ),
            name if PLACES.contains(&name) => self.place_variable(name, value),
            _ => {}
        }
    }

    /// Judges a variable that names places: those of the workspace hold code of the project.
    fn place_variable(&mut self, name: &str, value: &str) {
        let is_git = name.starts_with("GIT_");
        let own_value = UNKNOWN.to_string();
        let parts = value.split(':').filter(|part| *part != own_value);
        let mut elsewhere = parts.filter(|part| {
            let in_home = part
                .strip_prefix(self.place.home)
                .is_some_and(|rest| rest.starts_with('/') && !rest.contains("/../"));
            let is_library = name.ends_with("LIBRARY_PATH") && is_installed(part);
            part.contains(UNKNOWN) || !(self.is_own(part) || in_home && !is_git || is_library)
        });
        match elsewhere.next() {
            Some(_) => self.findings.add(
                Unknown,
                format!("it sets {name}, so that other code may run"),
            ),
            None if is_git => {}
            None => self.findings.add(
                Writes,
                format!("it sets {name}, so that other code may run"),
            ),
        }
    }

    /// Judges the arguments of a program that runs another one, up to the index where that begins.
    pub(super) fn wrapper_arguments(
        &mut self,
        script: &ScriptFacts,
        name: &str,
        arguments: &[String],
        at: usize,
    ) {
        let own = arguments.get(1..at).unwrap_or_default();
        if matches!(name, "env" | "sudo" | "doas") {
            for (name, value) in own.iter().filter_map(|argument| argument.split_once('=')) {
                if !name.starts_with('-') {
                    self.note_constant(name, value);
                    self.variable(script, name, value, None);
                }
            }
        }
        self.single_uses(name, own);
    }
}

/// Whether a directory is absolute and not one in which anybody may write.
fn is_installed(directory: &str) -> bool {
    let shared = ["/tmp", "/var/tmp", "/dev/shm"];
    directory.starts_with('/')
        && !directory.contains("/..")
        && !shared.iter().any(|shared| directory.starts_with(shared))
}

/// Whether a variable lists functions that zsh calls: `precmd_functions`.
fn is_hook_list(name: &str) -> bool {
    let hook = name.strip_suffix("_functions");
    hook.is_some_and(|hook| super::HOOKS.contains(&hook))
}

/// Whether a variable of cargo names a program that it runs.
fn runs_cargo(name: &str) -> bool {
    let ends = ["_RUNNER", "_LINKER", "_WRAPPER", "_RUSTC"];
    name.starts_with("CARGO_") && ends.iter().any(|end| name.ends_with(end))
        || name.eq_ignore_ascii_case("npm_config_script_shell")
}
