//! Compares which servers other than the shell's model get words of the user: the models of `[jobs]`, and the server of web
//! searches.

use super::{ConfigChange, SeenConfig, changed};
use crate::config::settings::Config;

/// The key of the address of web searches.
pub(super) const SEARCH_URL: &str = "tools.search_url";

/// Takes back a changed server of web searches, and adds the line.
pub(super) fn take_back_search(seen: &SeenConfig, now: &mut Config, lines: &mut Vec<ConfigChange>) {
    let new = &now.tools.search_url;
    if new.is_none() || *new == seen.search_url {
        return;
    }
    let shown = |url: Option<&String>| url.map_or("unset".to_owned(), |url| format!("{url:?}"));
    let (old, new) = (shown(seen.search_url.as_ref()), shown(new.as_ref()));
    changed(lines, SEARCH_URL, &old, &new);
    now.tools.search_url.clone_from(&seen.search_url);
}

/// Takes back the model of a job that would send its words to another address, and adds the lines.
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
