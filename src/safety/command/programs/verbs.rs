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

/// Returns the verb at the beginning of an action: `stop` of `stop-logging`, `terminate` of `TerminateInstances`.
fn first_verb(word: &str) -> String {
    let mut chars = word.char_indices();
    let end = chars.find(|(at, c)| *c == '-' || *at > 0 && c.is_ascii_uppercase());
    let verb = word.get(..end.map_or(word.len(), |(at, _)| at));
    verb.unwrap_or_default().to_ascii_lowercase()
}

/// Whether a subcommand stops, disables or gives back something.
pub(super) fn stops(word: &str) -> bool {
    STOPPING.contains(&first_verb(word).as_str())
}

/// Whether the name of an action, whose words begin with capitals, says that it deletes.
pub(super) fn is_deleting_action(word: &str) -> bool {
    let is_action = word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.contains(|c: char| c.is_ascii_lowercase())
        && word.chars().all(|c| c.is_ascii_alphanumeric());
    is_action && DELETING.contains(&first_verb(word).as_str())
}

/// Whether a subcommand gives others rights or access: `attach-user-policy`, `add-iam-policy-binding`, `create-access-key`. A policy
/// can also be about something else, as `put-scaling-policy`.
pub(super) fn grants(word: &str) -> bool {
    const VERBS: [&str; 9] = [
        "add",
        "assign",
        "attach",
        "authorize",
        "create",
        "grant",
        "put",
        "set",
        "update",
    ];
    const RIGHTS: [&str; 19] = [
        "access-key",
        "access-policy",
        "acl",
        "assume-role-policy",
        "clusterrolebinding",
        "group-policy",
        "iam-policy",
        "iam-policy-binding",
        "key-policy",
        "login-profile",
        "permission",
        "principal",
        "repository-policy",
        "resource-policy",
        "role-policy",
        "rolebinding",
        "security-group-ingress",
        "user-policy",
        "user-to-group",
    ];
    let Some((verb, rest)) = word.split_once('-') else {
        return false;
    };
    let ends = |right: &&str| {
        let before = rest.strip_suffix(*right);
        before.is_some_and(|before| before.is_empty() || before.ends_with('-'))
    };
    VERBS.contains(&verb) && RIGHTS.iter().any(ends)
}

/// Whether what follows a subcommand selects what it shows, and is not a subcommand.
pub(super) fn selects(word: &str) -> bool {
    matches!(
        word,
        "describe" | "get" | "list" | "read" | "search" | "show"
    )
}

/// Whether a subcommand deletes: `delete`, `user-del`, `doctrine:schema:drop`, `removeSnapshot`. What follows a name with another
/// separator is data, such as a path.
pub(super) fn is_deletion(word: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':');
    let is_camel = |verb: &str| {
        let mut parts = word.split(':').filter_map(|part| part.strip_prefix(verb));
        parts.any(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
    };
    word.chars().all(is_word)
        && (word
            .split(['-', '_', ':'])
            .any(|part| DELETING.contains(&part.to_ascii_lowercase().as_str()))
            || DELETING.iter().any(|verb| is_camel(verb)))
}

/// Subcommands that are followed by names that the user has chosen: of packages, tests, targets.
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
