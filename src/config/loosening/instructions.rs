//! Compares the instructions for the model.

use super::{ConfigChange, SeenConfig, changed};
use crate::config::settings::Config;

/// Keeps instructions that a person has not seen, and says so. The built-in ones need no confirmation.
pub(super) fn take_back(seen: &SeenConfig, now: &mut Config, lines: &mut Vec<ConfigChange>) {
    let settings = [
        (
            "system_prompt",
            "the built-in one",
            &seen.system_prompt,
            &mut now.system_prompt,
        ),
        (
            "system_append",
            "unset",
            &seen.system_append,
            &mut now.system_append,
        ),
        (
            "default_prompt",
            "unset",
            &seen.default_prompt,
            &mut now.default_prompt,
        ),
    ];
    for (name, unset, seen, now) in settings {
        if now.is_some() && now != seen {
            let shown = |text: &Option<String>| match text {
                Some(text) => format!("{text:?}"),
                None => unset.to_owned(),
            };
            changed(lines, name, &shown(seen), &shown(now));
            now.clone_from(seen);
        }
    }
}
