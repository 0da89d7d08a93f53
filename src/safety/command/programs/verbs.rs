//! Subcommands that delete or stop something, by their names.

/// Words of subcommands that delete, in any program that has subcommands.
pub(super) const DELETING: [&str; 25] = [
    "decommission",
    "del",
    "delete",
    "destroy",
    "expunge",
    "obliterate",
    "rmi",
    "undeploy",
    "unpublish",
    "unregister",
    "remove",
    "rm",
    "purge",
    "prune",
    "drop",
    "wipe",
    "erase",
    "terminate",
    "uninstall",
    "rb",
    "nuke",
    "deregister",
    "deprovision",
    "revoke",
    "teardown",
];

/// First parts of subcommands of clouds that stop, disable or give back something: `stop-logging`, `disassociate-address`.
const STOPPING: [&str; 19] = [
    "abort",
    "cancel",
    "close",
    "deactivate",
    "detach",
    "disable",
    "disassociate",
    "failover",
    "leave",
    "reboot",
    "reject",
    "release",
    "reset",
    "restart",
    "revoke",
    "shutdown",
    "stop",
    "suspend",
    "withdraw",
];

/// Whether a subcommand stops, disables or gives back something.
pub(super) fn stops(word: &str) -> bool {
    let verb = word.split('-').next().unwrap_or_default();
    STOPPING.contains(&verb)
}

/// Whether a subcommand deletes: `delete`, `user-del`, `doctrine:schema:drop`, `removeSnapshot`. What follows a name with another
/// separator is data, such as a path.
pub(super) fn is_deletion(word: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':');
    let is_camel = |verb: &str| {
        let rest = word.strip_prefix(verb);
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
    };
    word.chars().all(is_word)
        && (word
            .split(['-', '_', ':'])
            .any(|part| DELETING.contains(&part.to_ascii_lowercase().as_str()))
            || DELETING.iter().any(|verb| is_camel(verb)))
}

/// Subcommands behind which names follow that the user has chosen: of packages, tests, targets.
const NAMING: [&str; 11] = [
    "add", "bench", "get", "i", "info", "install", "nextest", "require", "show", "test", "view",
];

/// Programs whose `run` is followed by a name and not by a task.
const RUNNING: [&str; 4] = ["cargo", "dotnet", "go", "vitest"];

/// Whether the first operands of a program name a subcommand that deletes.
pub(super) fn names_deletion(program: &str, operands: &[&str]) -> bool {
    let is_naming = operands.first().is_some_and(|first| {
        NAMING.contains(first) || *first == "run" && RUNNING.contains(&program)
    });
    let is_test = |word: &str| {
        ["check", "lint", "test"]
            .iter()
            .any(|name| word.starts_with(name))
    };
    // The values of most options follow the service and its verb.
    let most = if program == "aws" { 2 } else { 3 };
    !is_naming
        && operands.iter().take(most).enumerate().any(|(at, word)| {
            let is_subcommand = at == 0 && !is_test(word) || at == 1;
            let mut parts = word.split(':');
            parts.any(|part| DELETING.contains(&part)) || is_subcommand && is_deletion(word)
        })
}
