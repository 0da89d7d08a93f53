//! Compares which parts of the context are sent.

use super::{ConfigChange, SeenConfig, changed};
use crate::config::settings::ContextSettings;

/// The switches and their keys. Destructures the section, so that a new setting must be decided on here.
fn switches(context: &mut ContextSettings) -> [(&'static str, &mut bool); 4] {
    let ContextSettings {
        // Compared elsewhere.
        commands: _,
        env: _,
        output_bytes: _,
        system,
        date,
        git,
        project_file,
    } = context;
    [
        ("context.system", system),
        ("context.date", date),
        ("context.git", git),
        ("context.project_file", project_file),
    ]
}

/// Returns the keys of the parts that are not sent.
pub(super) fn off(context: &ContextSettings) -> Vec<String> {
    let mut context = context.clone();
    let off = switches(&mut context).into_iter().filter(|(_, on)| !**on);
    off.map(|(key, _)| key.to_owned()).collect()
}

/// Takes back a part that was off when a person saw it.
pub(super) fn take_back(
    seen: &SeenConfig,
    now: &mut ContextSettings,
    lines: &mut Vec<ConfigChange>,
) {
    for (key, on) in switches(now) {
        if *on && seen.context_off.iter().any(|off| off == key) {
            changed(lines, key, "false", "true");
            *on = false;
        }
    }
}
