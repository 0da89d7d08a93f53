//! Compares numbers.

use super::{ConfigChange, SeenConfig, changed};
use crate::config::SandboxSetting;
use crate::config::settings::{Config, RecordedPanes};

pub(super) const COMMANDS: &str = "context.commands";
pub(super) const SENT_OUTPUT: &str = "context.output_bytes";
pub(super) const OUTPUT_BYTES: &str = "shell.output_bytes";
pub(super) const TOOL_DEPTH: &str = "mcp.max_tool_depth";
pub(super) const RESULT_BYTES: &str = "mcp.max_result_bytes";
pub(super) const DAYS: &str = "history.max_days";
pub(super) const RECORDS: &str = "history.max_records";
pub(super) const BYTES: &str = "history.max_bytes";
/// 0 for no panes.
pub(super) const PANES: &str = "record.panes";

/// How far commands reach, from 0 for `read-only`.
pub(super) const SANDBOX: &str = "tools.sandbox";

/// Returns the reach of commands, as a number.
pub(super) fn reach(sandbox: SandboxSetting) -> u64 {
    let before = SandboxSetting::ALL.iter().filter(|one| **one < sandbox);
    before.count() as u64
}

fn sandbox(reach: u64) -> SandboxSetting {
    let at = usize::try_from(reach).unwrap_or(usize::MAX);
    let known = SandboxSetting::ALL.get(at).copied();
    known.unwrap_or(SandboxSetting::ReadOnly)
}

/// Takes back limits that were stricter when a person saw them, and adds the lines.
pub(super) fn take_back(seen: &SeenConfig, now: &mut Config, lines: &mut Vec<ConfigChange>) {
    // The type of a limit, which had room for the value that was seen.
    fn set<N: TryFrom<u64>>(limit: &mut N, value: u64) {
        if let Ok(value) = N::try_from(value) {
            *limit = value;
        }
    }
    let SeenConfig { most, least, .. } = SeenConfig::of(now);
    let larger = most
        .iter()
        .map(|(key, new)| (key, new, seen.most.get(key), true));
    let smaller = least
        .iter()
        .map(|(key, new)| (key, new, seen.least.get(key), false));
    for (key, new, old, is_most) in larger.chain(smaller) {
        let Some(old) = old.filter(|old| if is_most { new > *old } else { new < *old }) else {
            continue;
        };
        let (shown_old, shown_new) = match key.as_str() {
            PANES => (
                RecordedPanes::Off.word().to_owned(),
                now.record.panes.word().to_owned(),
            ),
            SANDBOX => (
                sandbox(*old).word().to_owned(),
                now.tools.sandbox.word().to_owned(),
            ),
            _ => (old.to_string(), new.to_string()),
        };
        changed(lines, key, &shown_old, &shown_new);
        match key.as_str() {
            COMMANDS => set(&mut now.context.commands, *old),
            SENT_OUTPUT => set(&mut now.context.output_bytes, *old),
            OUTPUT_BYTES => set(&mut now.shell.output_bytes, *old),
            TOOL_DEPTH => set(&mut now.mcp.max_tool_depth, *old),
            RESULT_BYTES => set(&mut now.mcp.max_result_bytes, *old),
            DAYS => set(&mut now.history.max_days, *old),
            RECORDS => set(&mut now.history.max_records, *old),
            PANES => now.record.panes = RecordedPanes::Off,
            SANDBOX => now.tools.sandbox = sandbox(*old),
            BYTES => set(&mut now.history.max_bytes, *old),
            // `SeenConfig::of` names no other key.
            _ => {}
        }
    }
}
