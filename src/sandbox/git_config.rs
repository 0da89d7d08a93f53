//! Git configuration: the files and directories that its values name.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Maximum number of bytes that are read of a git configuration.
const MAX_CONFIG_BYTES: u64 = 64 * 1024;

/// Keys of a git configuration whose value is a path of a file that git obeys, see [git-config](https://git-scm.com/docs/git-config).
const PATH_KEYS: [&str; 4] = ["attributesfile", "hookspath", "path", "templatedir"];

/// Keys whose value is a command that git runs.
const COMMAND_KEYS: [&str; 30] = [
    "alternaterefscommand",
    "askpass",
    "cccmd",
    "clean",
    "cmd",
    "command",
    "defaultkeycommand",
    "difffilter",
    "driver",
    "editor",
    "external",
    "fsmonitor",
    "gitproxy",
    "headercmd",
    "helper",
    "packobjectshook",
    "pager",
    "process",
    "program",
    "receivepack",
    "recentobjectshook",
    "sendmailcmd",
    "smtpserver",
    "smudge",
    "sshcommand",
    "textconv",
    "tocmd",
    "tunnel",
    "update",
    "uploadpack",
];

/// Includes that are followed.
const MAX_INCLUDES: usize = 3;

/// Configuration of git of one user and of all, which counts in each repository. The paths are below the home directory.
const USER_CONFIGS: [&str; 2] = [".gitconfig", ".config/git/config"];

/// Configuration of git of all users.
const SYSTEM_CONFIG: &str = "/etc/gitconfig";

/// Returns the text of a small file; `None` of anything else. A FIFO would wait for a writer.
pub(super) fn small_text(path: &Path) -> Option<String> {
    if !path.metadata().is_ok_and(|meta| meta.is_file()) {
        return None;
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).ok()?;
    file.take(MAX_CONFIG_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the path in a file of git that names another one: `.git`, `commondir`, `gitdir`.
pub(super) fn linked_path(file: &Path) -> Option<PathBuf> {
    let text = small_text(file)?;
    let name = text.trim();
    let name = name.strip_prefix("gitdir:").unwrap_or(name).trim();
    file.parent()?.join(name).canonicalize().ok()
}

/// Directories from which relative names in a configuration may start.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConfigBase<'a> {
    /// The work trees of the repository.
    pub trees: &'a [PathBuf],
    /// The home directory, which `~/` means.
    pub home: Option<&'a Path>,
}

impl ConfigBase<'_> {
    /// Returns the files and directories that the configuration of a repository names, as far as they exist.
    pub(super) fn named_by(&self, config: &Path) -> Vec<PathBuf> {
        let mut obeyed = Vec::new();
        self.add_values(config, MAX_INCLUDES, &mut obeyed);
        obeyed
    }

    /// Returns what the configuration of the user and of the system names.
    pub(super) fn named_by_user(&self) -> Vec<PathBuf> {
        let home = self.home.into_iter();
        let user = home.flat_map(|home| USER_CONFIGS.iter().map(|name| home.join(name)));
        let configs = user.chain([PathBuf::from(SYSTEM_CONFIG)]);
        configs.flat_map(|config| self.named_by(&config)).collect()
    }

    fn add_values(&self, config: &Path, includes: usize, obeyed: &mut Vec<PathBuf>) {
        let Some(text) = small_text(config) else {
            return;
        };
        let beside = config.parent().unwrap_or(config);
        // A backslash continues the line.
        for (key, value) in values(&text.replace("\\\n", "")) {
            let is_path = PATH_KEYS.contains(&key.as_str());
            let names = match is_path {
                true => vec![value],
                false => command_words(&value),
            };
            for name in names.into_iter().filter(|name| !name.is_empty()) {
                for path in self.paths_of(&name, beside) {
                    if key == "path" && includes > 0 && !obeyed.contains(&path) {
                        self.add_values(&path, includes - 1, obeyed);
                    }
                    if is_path || path.is_file() {
                        obeyed.push(path);
                    }
                }
            }
        }
    }

    /// Returns the existing paths that a name may mean.
    fn paths_of(&self, name: &str, beside: &Path) -> Vec<PathBuf> {
        // Git expands `~/` in paths, its shell also the others in commands.
        let below_home = ["~/", "$HOME/", "${HOME}/"]
            .iter()
            .find_map(|start| name.strip_prefix(start));
        let candidates: Vec<PathBuf> = match below_home {
            Some(rest) => self.home.iter().map(|home| home.join(rest)).collect(),
            None => {
                let trees = self.trees.iter().map(PathBuf::as_path);
                trees.chain([beside]).map(|base| base.join(name)).collect()
            }
        };
        let existing = candidates.iter();
        existing
            .filter_map(|path| path.canonicalize().ok())
            .collect()
    }
}

/// Returns the words of a command that may name files, and their parts, because a word may hold a command of its own. Whether a word does
/// is not known: one that is not a file does no harm.
fn command_words(command: &str) -> Vec<String> {
    // Git runs commands at the top of the work tree.
    const HERE: [&str; 7] = [
        "$(git rev-parse --show-toplevel)/",
        "`git rev-parse --show-toplevel`/",
        "$(pwd)/",
        "`pwd`/",
        "${PWD}/",
        "$PWD/",
        "${GIT_PREFIX:-.}/",
    ];
    let bare = command.replace(['"', '\''], "");
    let texts = [command.to_owned(), bare].map(|text| {
        let text = HERE
            .iter()
            .fold(text, |text, here| text.replace(here, "./"));
        ["${GIT_PREFIX}", "$GIT_PREFIX"]
            .iter()
            .fold(text, |text, prefix| text.replace(prefix, "./"))
    });
    let signs = [
        ' ', '\t', '\n', '!', ';', '&', '|', '(', ')', '=', '<', '>', '`', '{', '}',
    ];
    let mut words = Vec::new();
    for text in texts {
        let quoted = text.split(['"', '\'']).map(str::to_owned);
        let plain = text
            .split(|c| signs.contains(&c) || matches!(c, '"' | '\''))
            .map(str::to_owned);
        words.extend(plain.chain(quoted));
    }
    words.retain(|word| !word.is_empty() && word != "." && !word.starts_with('-'));
    words.sort_unstable();
    words.dedup();
    words
}

/// Returns the keys, in lower case, and values of a git configuration that name files which git obeys.
fn values(config: &str) -> Vec<(String, String)> {
    values_where(config, |section, key, value| {
        PATH_KEYS.contains(&key)
            || COMMAND_KEYS.contains(&key)
            // `pager.COMMAND`, and an alias that runs a command.
            || section == "pager"
            || section == "alias" && value.starts_with('!')
    })
}

/// Returns the values of a key, which is in lower case.
pub(super) fn values_of(config: &str, key: &str) -> Vec<String> {
    let found = values_where(config, |_, found, _| found == key);
    found.into_iter().map(|(_, value)| value).collect()
}

/// Returns the keys, in lower case, and values that are wanted, by section, key and value.
fn values_where(
    config: &str,
    is_wanted: impl Fn(&str, &str, &str) -> bool,
) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut section = String::new();
    for line in config.lines() {
        let line = line.trim_start();
        // A key may follow its section on one line.
        let line = match line.starts_with('[') {
            true => {
                let name = line.trim_start_matches(['[', ' ']);
                let end = name.find(|c: char| !c.is_alphanumeric() && c != '-');
                section = name
                    .get(..end.unwrap_or(name.len()))
                    .unwrap_or_default()
                    .to_lowercase();
                line.split_once(']').map_or("", |(_, after)| after)
            }
            false => line,
        };
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let key = key.trim().to_lowercase();
        let value = unquoted(value);
        if is_wanted(&section, &key, &value) {
            found.push((key, value));
        }
    }
    found
}

/// Returns a value without quotes, escapes and comment.
fn unquoted(value: &str) -> String {
    let (mut text, mut in_quotes) = (String::new(), false);
    let mut chars = value.trim().chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => in_quotes = !in_quotes,
            '\\' => text.extend(chars.next()),
            '#' | ';' if !in_quotes => break,
            _ => text.push(c),
        }
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_command_are_found() {
        for (command, word) in [
            ("sh pg2.sh", "pg2.sh"),
            ("node m.js %A", "m.js"),
            ("!sh my.sh", "my.sh"),
            ("ssh -F sshcfg", "sshcfg"),
            ("!\"./t t.sh\"", "./t t.sh"),
            ("!'./t t.sh' \"$@\"", "./t t.sh"),
            (
                "!$(git rev-parse --show-toplevel)/scripts/rr.sh",
                "./scripts/rr.sh",
            ),
            (
                "!\"$(git rev-parse --show-toplevel)\"/scripts/rr.sh",
                "./scripts/rr.sh",
            ),
            ("!cd \"$GIT_PREFIX\" && sh x.sh", "x.sh"),
        ] {
            let words = command_words(command);
            assert!(
                words.iter().any(|found| found == word),
                "{command}: {words:?}"
            );
        }
    }

    #[test]
    fn values_that_name_files_are_found() {
        let config = "[core]\n\thooksPath = my hooks ; comment\n\tbare = false\n[include] path = \"../x #1.inc\"\n[filter \"a]\"]\n\tclean = python tools/clean.py %f\n[remote \"origin\"]\n\turl = ../other\n[alias]\n\tco = checkout\n\tx = !tools/x\n[core]\n\tpager =\n[Pager]\n\tlog = ./tools/x\n";
        let values = values(config);
        let values: Vec<(&str, &str)> = values
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        let expected = [
            ("hookspath", "my hooks"),
            ("path", "../x #1.inc"),
            ("clean", "python tools/clean.py %f"),
            ("x", "!tools/x"),
            ("pager", ""),
            ("log", "./tools/x"),
        ];
        assert_eq!(values, expected);
    }
}
