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
pub(super) const STOPPING: [&str; 19] = [
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
