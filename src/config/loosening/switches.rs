//! Compares the settings that are on or off, the instructions, and the parts of the context that are sent.

use super::{ConfigChange, SeenConfig, changed, instructions, sent_parts};
use crate::config::settings::Config;

/// Takes back changes of switches with which aish would ask or warn less, and adds the lines.
pub(super) fn take_back(seen: &SeenConfig, now: &mut Config, lines: &mut Vec<ConfigChange>) {
    let new = &mut now.shell.confirm_cmd;
    if seen.confirm_cmd && !*new {
        changed(lines, "shell.confirm_cmd", "true", "false");
        *new = true;
    }
    let new = &mut now.intent_declaration.strict_server_validation;
    if seen.strict_server_validation && !*new {
        let key = "intent_declaration.strict_server_validation";
        changed(lines, key, "true", "false");
        *new = true;
    }
    let new = &mut now.history.sync;
    if seen.sync && !*new {
        changed(lines, "history.sync", "true", "false");
        *new = true;
    }
    instructions::take_back(seen, now, lines);
    sent_parts::take_back(seen, &mut now.context, lines);
    now.context.env.retain(|name| {
        let known = seen.context_env.contains(name);
        if !known {
            lines.push(('+', format!("context.env: {name}")));
        }
        known
    });
}
