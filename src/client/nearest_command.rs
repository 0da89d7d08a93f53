//! The name that a mistyped command probably means. Pure, and without a model.

use std::collections::HashMap;

use strsim::osa_distance;

/// Longest name that is considered; the distance takes quadratic time.
const MAX_NAME: usize = 60;
/// Most changes of a letter between what was typed and what was meant.
const MAX_DISTANCE: usize = 3;

/// Returns the name nearest to `word`, by the number of letters that were left out, added, exchanged or swapped with their
/// neighbour. Among equally near names, the one that was used most counts; `used` has the commands of the history.
///
/// A short name is near many others, and may be that of a program that is not installed: `rg` is not `rm`. So one that was never
/// used must be nearer than one that was.
pub fn nearest_command<'n>(
    word: &str,
    names: impl IntoIterator<Item = &'n str>,
    used: &[&str],
) -> Option<&'n str> {
    let length = word.chars().count();
    if !(2..=MAX_NAME).contains(&length) {
        return None;
    }
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for name in used {
        *counts.entry(name).or_default() += 1;
    }
    let mut best: Option<(Rank<'n>, &'n str)> = None;
    for name in names {
        if name == word || !is_plain(name) || name.len().abs_diff(word.len()) > MAX_DISTANCE {
            continue;
        }
        let count = counts.get(name).copied().unwrap_or(0);
        let rank = Rank {
            distance: osa_distance(word, name),
            unused: usize::MAX - count,
            is_other_letters: letters(word) != letters(name),
            is_other_start: word.chars().next() != name.chars().next(),
            name,
        };
        if !rank.is_likely(word, count > 0) {
            continue;
        }
        if best.as_ref().is_none_or(|(known, _)| rank < *known) {
            best = Some((rank, name));
        }
    }
    best.map(|(_, name)| name)
}

/// What makes a name likelier, in this order: less is better.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'n> {
    distance: usize,
    unused: usize,
    /// The fingers hit the right keys in a wrong order.
    is_other_letters: bool,
    is_other_start: bool,
    /// So that the answer is always the same.
    name: &'n str,
}

impl Rank<'_> {
    /// Whether the name is near enough for one that was used before, or was not.
    fn is_likely(&self, word: &str, was_used: bool) -> bool {
        let length = word.chars().count();
        if self.distance >= self.name.chars().count() {
            return false;
        }
        let limit = match length {
            ..=2 => usize::from(was_used && !self.is_other_letters),
            _ if was_used && self.is_other_start && self.is_other_letters => {
                usize::from(length > 4)
            }
            ..=4 if was_used || !self.is_other_letters || repeats_letter(word, self.name) => 1,
            5..=8 if was_used || !self.is_other_letters => 2,
            _ if self.is_other_start && self.is_other_letters => 0,
            3..=4 => 0,
            5..=6 => 1,
            7..=8 => 2,
            _ => MAX_DISTANCE,
        };
        self.distance <= limit
    }
}

/// Whether the word is the name with one letter twice in place of once.
fn repeats_letter(word: &str, name: &str) -> bool {
    let letters: Vec<char> = word.chars().collect();
    let without = |at: usize| letters.iter().enumerate().filter(move |(i, _)| *i != at);
    (1..letters.len())
        .filter(|at| letters[*at] == letters[at - 1])
        .any(|at| without(at).map(|(_, c)| *c).eq(name.chars()))
}

fn letters(word: &str) -> Vec<char> {
    let mut letters: Vec<char> = word.chars().collect();
    letters.sort_unstable();
    letters
}

/// Returns whether the name can be typed as it is, and is not internal to a script.
fn is_plain(name: &str) -> bool {
    name.len() <= MAX_NAME
        && !name.starts_with(['_', '-', '.'])
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || "._+-".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &[&str] = &[
        "git",
        "gtf",
        "gio",
        "ls",
        "cat",
        "python3",
        "python",
        "docker",
        "make",
        "cargo",
        "kubectl",
        "_git",
        "cd",
        "grep",
        "egrep",
        "systemctl",
        "a;b",
        "tar",
        "man",
        "map",
    ];

    fn nearest(word: &str, used: &[&str]) -> Option<&'static str> {
        nearest_command(word, NAMES.iter().copied(), used)
    }

    #[test]
    fn typical_mistakes_are_found() {
        for (typed, meant) in [
            ("gti", Some("git")),
            ("gitt", Some("git")),
            ("pyhton", Some("python")),
            ("pyton3", Some("python3")),
            ("dokcer", Some("docker")),
            ("dcoker", Some("docker")),
            ("maek", Some("make")),
            ("cagro", Some("cargo")),
            ("kubeclt", Some("kubectl")),
            ("sytemclt", Some("systemctl")),
            ("gerp", Some("grep")),
            ("nosuchcommand", None),
            ("terraform", None),
            ("x", None),
            ("", None),
            ("a;c", None),
        ] {
            assert_eq!(nearest(typed, &[]), meant, "{typed}");
        }
    }

    #[test]
    fn a_name_that_was_never_used_must_be_nearer() {
        for (typed, meant) in [
            ("got", "git"),
            ("sl", "ls"),
            ("ca", "cat"),
            ("mgrep", "egrep"),
        ] {
            let found = nearest(typed, &[meant]);
            assert_eq!(found, Some(meant).filter(|_| typed != "ca"), "{typed}");
            assert_eq!(nearest(typed, &[]), None, "{typed}");
        }
        // Programs that are not installed.
        for typed in [
            "rg", "mc", "lsd", "zig", "tree", "telnet", "rsync", "rake", "ls-la",
        ] {
            let names = [
                "rm", "mv", "ls", "zic", "tee", "telinit", "sync", "make", "lsblk",
            ];
            assert_eq!(nearest_command(typed, names, &["ssh"]), None, "{typed}");
        }
    }

    #[test]
    fn the_history_decides_between_equally_near_names() {
        assert_eq!(nearest("mab", &["map", "ls", "map", "man"]), Some("map"));
        assert_eq!(nearest("mab", &["man", "ls", "map", "man"]), Some("man"));
        // A nearer name wins whatever was used.
        assert_eq!(nearest("pythn", &["python3", "python3"]), Some("python"));
    }
}
