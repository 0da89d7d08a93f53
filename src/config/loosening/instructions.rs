//! Compares the instructions for the model.

use super::{ConfigChange, SeenConfig, changed};
use crate::config::settings::Config;

/// The keys of the instructions.
pub(super) const INSTRUCTIONS: [&str; 3] = ["system_prompt", "system_append", "default_prompt"];

/// Takes back instructions that a person has not seen, and adds the lines. The built-in ones need no confirmation.
pub(super) fn take_back(seen: &SeenConfig, now: &mut Config, lines: &mut Vec<ConfigChange>) {
    let [prompt, append, default] = INSTRUCTIONS;
    let settings = [
        (
            prompt,
            "the built-in one",
            &seen.system_prompt,
            &mut now.system_prompt,
        ),
        (append, "unset", &seen.system_append, &mut now.system_append),
        (
            default,
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
