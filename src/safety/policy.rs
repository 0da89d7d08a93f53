//! Who may call a tool: the only room that makes an [`Approved`], without which no call compiles.
//!
//! Pure: the caller brings the time, and writes the record before the act.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

/// How long an approval holds: the call must begin before, so that a yes from before a nap does nothing after it.
pub const LIFE_MS: u64 = 60_000;

/// A call as it would be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call<'a> {
    /// The server's alias.
    pub server: &'a str,
    /// The tool's name at its server.
    pub tool: &'a str,
    /// Which tool that is: another server or another description is another identity.
    pub identity: &'a str,
    /// The exact arguments: the text of a JSON object, as it is shown and sent.
    pub arguments: &'a str,
}

impl Call<'_> {
    /// SHA-256 over server, tool and arguments, with their lengths so that no two calls share one.
    fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for part in [self.server, self.tool, self.arguments] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        hash.finalize().into()
    }
}

/// The one text of a call's arguments, which is shown, approved and sent.
///
/// # Errors
/// They are no JSON object.
pub fn canonical(arguments: &str) -> serde_json::Result<String> {
    let map: serde_json::Map<String, serde_json::Value> = serde_json::from_str(arguments)?;
    serde_json::to_string(&map)
}

/// The right to make one call, once and soon. It is used up by [`Approved::covers`].
#[derive(Debug, PartialEq, Eq)]
pub struct Approved {
    digest: [u8; 32],
    /// Beside the digest, which is kept: an identity is made of secrets too.
    identity: String,
    until_ms: u64,
}

impl Approved {
    fn new(call: &Call<'_>, now_ms: u64) -> Approved {
        Approved {
            digest: call.digest(),
            identity: call.identity.to_owned(),
            until_ms: now_ms.saturating_add(LIFE_MS),
        }
    }

    /// Whether exactly this call was approved, and not too long ago.
    pub fn covers(self, call: &Call<'_>, now_ms: u64) -> bool {
        self.digest == call.digest() && self.identity == call.identity && now_ms < self.until_ms
    }

    /// The digest in hexadecimal, for the record.
    pub fn digest(&self) -> String {
        self.digest.iter().map(|b| format!("{b:02x}")).collect()
    }
}

/// What the configuration allows without a question (`[mcp.auto_approve]`): by `alias.tool`, or `alias.*`.
pub type AutoApprove = BTreeMap<String, bool>;

/// What a person has allowed in a session, by the tools' identities: one that has changed since, or that
/// came later, was not allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// One by one.
    tools: BTreeSet<String>,
    /// With all others that their server had.
    servers: BTreeSet<String>,
}

impl Grants {
    /// Whether nothing is allowed.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty() && self.servers.is_empty()
    }
}

/// What a person said to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// This call.
    Once,
    /// This tool, for the session.
    Tool,
    /// All tools that this server has now, for the session.
    Server,
}

/// What the rules say to a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may be made; by which rule.
    Allow(Approved, String),
    /// A person must be asked.
    Ask,
}

/// Decides by rule: the exact name, then `alias.*`, then the session's grants; else ask. `auto` is `None` where
/// the server is not the one that the configuration has under that alias: a rule names no other.
pub fn decide(
    call: &Call<'_>,
    auto: Option<&AutoApprove>,
    grants: &Grants,
    now_ms: u64,
) -> Decision {
    // The alias has no dot, so that the first one parts it from the tool and no two pairs make one name.
    let exact = format!("{}.{}", call.server, call.tool);
    let all = format!("{}.*", call.server);
    let says = |name: &str| auto.and_then(|rules| rules.get(name));
    let rule = match (says(&exact), says(&all)) {
        (Some(true), _) => Some(format!("mcp.auto_approve.\"{exact}\"")),
        (None, Some(true)) => Some(format!("mcp.auto_approve.\"{all}\"")),
        // `false` takes one tool out of an `alias.*`; what a person allows for the session still counts.
        (Some(false), _) | (None, Some(false) | None) => None,
    };
    let granted = || {
        if grants.tools.contains(call.identity) {
            Some(format!("you, for this session: {exact}"))
        } else if grants.servers.contains(call.identity) {
            Some(format!("you, for this session: {all}"))
        } else {
            None
        }
    };
    match rule.or_else(granted) {
        Some(rule) => Decision::Allow(Approved::new(call, now_ms), rule),
        None => Decision::Ask,
    }
}

/// A person has said yes to the call that was shown. `of_server` are the identities of all tools that its server
/// had then.
pub fn consent<'t>(
    call: &Call<'_>,
    said: Consent,
    of_server: impl IntoIterator<Item = &'t str>,
    grants: &mut Grants,
    now_ms: u64,
) -> Approved {
    match said {
        Consent::Once => {}
        Consent::Tool => {
            grants.tools.insert(call.identity.to_owned());
        }
        Consent::Server => grants
            .servers
            .extend(of_server.into_iter().map(str::to_owned)),
    }
    Approved::new(call, now_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Call<'_> = Call {
        server: "fs",
        tool: "write",
        identity: "fs.write as it is",
        arguments: "{}",
    };

    const READ: Call<'_> = Call {
        tool: "read",
        identity: "fs.read as it is",
        ..CALL
    };

    fn auto(rules: &[(&str, bool)]) -> AutoApprove {
        rules.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect()
    }

    fn asks(call: &Call<'_>, rules: &[(&str, bool)], grants: &Grants) -> bool {
        decide(call, Some(&auto(rules)), grants, 0) == Decision::Ask
    }

    fn say(call: &Call<'_>, said: Consent, grants: &mut Grants) -> Approved {
        consent(call, said, [CALL.identity, READ.identity], grants, 1000)
    }

    #[test]
    fn everything_is_asked_unless_a_rule_names_it() {
        let none = Grants::default();
        assert!(asks(&CALL, &[], &none));
        assert!(asks(
            &CALL,
            &[("fs.read", true), ("f.*", true), ("*", true)],
            &none
        ));
        assert!(!asks(&CALL, &[("fs.write", true)], &none));
        assert!(!asks(&CALL, &[("fs.*", true)], &none));
        assert!(asks(&CALL, &[("fs.*", true), ("fs.write", false)], &none));
        assert!(!asks(&CALL, &[("fs.*", false), ("fs.write", true)], &none));
    }

    #[test]
    fn a_rule_counts_for_the_server_of_the_configuration_alone() {
        let decision = decide(&CALL, None, &Grants::default(), 0);
        assert_eq!(decision, Decision::Ask);
    }

    #[test]
    fn a_grant_holds_for_its_tool_or_for_those_that_the_server_had() {
        let mut grants = Grants::default();
        say(&CALL, Consent::Once, &mut grants);
        assert!(asks(&CALL, &[], &grants) && grants.is_empty());
        say(&CALL, Consent::Tool, &mut grants);
        assert!(!asks(&CALL, &[], &grants));
        assert!(!asks(&CALL, &[("fs.write", false)], &grants));
        assert!(asks(&READ, &[], &grants));
        say(&CALL, Consent::Server, &mut grants);
        assert!(!asks(&READ, &[], &grants));
        let later = Call {
            tool: "later",
            identity: "fs.later as it is",
            ..CALL
        };
        assert!(asks(&later, &[], &grants));
    }

    #[test]
    fn a_tool_that_has_changed_was_not_allowed() {
        let changed = Call {
            identity: "fs.write as it is now",
            ..CALL
        };
        for said in [Consent::Tool, Consent::Server] {
            let mut grants = Grants::default();
            let approved = say(&CALL, said, &mut grants);
            assert!(asks(&changed, &[], &grants), "{said:?}");
            assert!(!approved.covers(&changed, 1000), "{said:?}");
        }
    }

    #[test]
    fn arguments_have_one_text_or_none() {
        let text = |s| canonical(s).ok();
        assert_eq!(text(" { \"a\" : 1 } ").as_deref(), Some("{\"a\":1}"));
        assert_eq!(text("{\"a\":1,\"a\":2}").as_deref(), Some("{\"a\":2}"));
        for broken in [
            "",
            "{",
            "{\"a\":1",
            "[]",
            "null",
            "\"{}\"",
            "{} {}",
            "{\"a\":1e999}",
        ] {
            assert!(canonical(broken).is_err(), "{broken}");
        }
        let once = text("{\"é\":[1.50,\"\\u0000\"]}").unwrap();
        assert_eq!(text(&once), Some(once.clone()));
    }

    #[test]
    fn an_approval_covers_the_exact_call_for_a_while() {
        let mint = || say(&CALL, Consent::Once, &mut Grants::default());
        assert!(mint().covers(&CALL, 1000 + LIFE_MS - 1));
        assert!(!mint().covers(&CALL, 1000 + LIFE_MS));
        let other = Call {
            arguments: "{ }",
            ..CALL
        };
        assert!(!mint().covers(&other, 1000));
        assert_eq!(mint().digest().len(), 64);
    }

    #[test]
    fn a_dot_in_a_name_makes_no_two_calls_one() {
        let split = |server, tool| Call {
            server,
            tool,
            identity: "",
            arguments: "{}",
        };
        assert_ne!(split("fs", "x.y").digest(), split("fs.x", "y").digest());
        assert_ne!(split("fs", "x{}").digest(), split("fs", "x").digest());
    }
}
