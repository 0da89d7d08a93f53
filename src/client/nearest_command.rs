//! The name that a mistyped command probably means. Pure, and without a model.

use std::collections::HashMap;

use strsim::osa_distance;

/// Longest name that is considered; the distance takes quadratic time.
const MAX_NAME: usize = 60;

/// Returns the name nearest to `word`, by the number of letters that were left out, added, exchanged or swapped with their
/// neighbour. Among equally near names, the one that was used most counts; `used` has the commands of the history.
pub fn nearest_command<'n>(
    word: &str,
    names: impl IntoIterator<Item = &'n str>,
    used: &[&str],
) -> Option<&'n str> {
    let length = word.chars().count();
    if !(2..=MAX_NAME).contains(&length) {
        return None;
    }
    // Two changes in a short name are another name.
    let limit = match length {
        ..=4 => 1,
        5..=8 => 2,
        _ => 3,
    };
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for name in used {
        *counts.entry(name).or_default() += 1;
    }
    let mut best: Option<(Rank<'n>, &'n str)> = None;
    for name in names {
        if name == word || !is_plain(name) || name.len().abs_diff(word.len()) > limit {
            continue;
        }
        let distance = osa_distance(word, name);
        if distance > limit || distance >= name.chars().count() {
            continue;
        }
        let rank = Rank {
            distance,
            unused: usize::MAX - counts.get(name).copied().unwrap_or(0),
            is_other_letters: letters(word) != letters(name),
            is_other_start: word.chars().next() != name.chars().next(),
            name,
        };
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
            ("got", Some("git")),
            ("gitt", Some("git")),
            ("sl", Some("ls")),
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
    fn the_history_decides_between_equally_near_names() {
        assert_eq!(nearest("mab", &[]), Some("man"));
        assert_eq!(nearest("mab", &["map", "ls", "map", "man"]), Some("map"));
        // A nearer name wins whatever was used.
        assert_eq!(nearest("pythn", &["python3", "python3"]), Some("python"));
    }
}
