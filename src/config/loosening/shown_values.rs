//! Which values of changed settings are shown where nobody asks for a confirmation, as in reports that are passed on.

use super::instructions::INSTRUCTIONS;
use super::jobs::SEARCH_URL;
use super::share::TARGET;

/// Returns key, old and new value of the two lines of a changed value, unless a value of that setting may hold a secret.
pub(in crate::config) fn changed_values<'l>(
    old: (char, &'l str),
    new: Option<(char, &'l str)>,
) -> Option<(&'l str, &'l str, &'l str)> {
    let (('-', old), Some(('+', new))) = (old, new) else {
        return None;
    };
    let (key, old) = old.split_once(" = ")?;
    let (same, new) = new.split_once(" = ")?;
    let may_hold_secret = INSTRUCTIONS.contains(&key) || [SEARCH_URL, TARGET].contains(&key);
    (same == key && !may_hold_secret).then_some((key, old, new))
}
