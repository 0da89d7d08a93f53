//! Compares the models of `[jobs]`.

use super::{ConfigChange, SeenConfig, changed};
use crate::config::settings::Config;

/// Keeps the model of a job that would send its words to another address, and says so.
pub(super) fn take_back(seen: &SeenConfig, now: &mut Config, lines: &mut Vec<ConfigChange>) {
    let Some(new) = &now.jobs.command else {
        return;
    };
    let address = |name: &String| seen.models.get(name).map(|model| &model.address);
    let before = seen.job_command.as_ref().or(seen.current());
    if seen.job_command.as_ref() == Some(new) || before.and_then(address) == address(new) {
        return;
    }
    let shown = |name: Option<&String>| name.map_or("unset".to_owned(), |name| format!("{name:?}"));
    let (old, new) = (shown(seen.job_command.as_ref()), shown(Some(new)));
    changed(lines, "jobs.command", &old, &new);
    now.jobs.command.clone_from(&seen.job_command);
}
