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
    until_ms: u64,
}

impl Approved {
    fn new(call: &Call<'_>, now_ms: u64) -> Approved {
        Approved {
            digest: call.digest(),
            until_ms: now_ms.saturating_add(LIFE_MS),
        }
    }

    /// Whether exactly this call was approved, and not too long ago.
    pub fn covers(self, call: &Call<'_>, now_ms: u64) -> bool {
        self.digest == call.digest() && now_ms < self.until_ms
    }

    /// The digest in hexadecimal, for the record.
    pub fn digest(&self) -> String {
        self.digest.iter().map(|b| format!("{b:02x}")).collect()
    }
}

/// What the configuration allows without a question (`[mcp.auto_approve]`): by `alias.tool`, or `alias.*`.
pub type AutoApprove = BTreeMap<String, bool>;

/// What a person has allowed in a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    tools: BTreeSet<(String, String)>,
    servers: BTreeSet<String>,
    /// The digest of where each server was when it was met last: an address may hold a secret.
    places: BTreeMap<String, [u8; 32]>,
}

impl Grants {
    /// The server is there now: its URL or its command. What was allowed of one of its name elsewhere
    /// is allowed no more.
    pub fn meet(&mut self, server: &str, place: &str) {
        let place: [u8; 32] = Sha256::digest(place).into();
        if self.places.get(server).is_some_and(|was| *was != place) {
            self.revoke(server);
        }
        self.places.insert(server.to_owned(), place);
    }

    /// Whether nothing is allowed.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty() && self.servers.is_empty()
    }

    /// No tool of this server is allowed any more: it has gone, or is another one now.
    pub fn revoke(&mut self, server: &str) {
        self.servers.remove(server);
        self.tools.retain(|(s, _)| s != server);
    }
}

/// What a person said to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// This call.
    Once,
    /// This tool, for the session.
    Tool,
    /// All tools of this server, for the session.
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

/// Decides by rule: the exact name, then `alias.*`, then the session's grants; else ask.
pub fn decide(call: &Call<'_>, auto: &AutoApprove, grants: &Grants, now_ms: u64) -> Decision {
    // The alias has no dot, so that the first one parts it from the tool and no two pairs make one name.
    let exact = format!("{}.{}", call.server, call.tool);
    let all = format!("{}.*", call.server);
    let rule = match (auto.get(&exact), auto.get(&all)) {
        (Some(true), _) => Some(format!("mcp.auto_approve.\"{exact}\"")),
        (None, Some(true)) => Some(format!("mcp.auto_approve.\"{all}\"")),
        // `false` takes one tool out of an `alias.*`; what a person allows for the session still counts.
        (Some(false), _) | (None, Some(false) | None) => None,
    };
    let granted = || {
        let tool = (call.server.to_owned(), call.tool.to_owned());
        if grants.tools.contains(&tool) {
            Some(format!("you, for this session: {exact}"))
        } else if grants.servers.contains(call.server) {
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

/// A person has said yes to the call that was shown.
pub fn consent(call: &Call<'_>, said: Consent, grants: &mut Grants, now_ms: u64) -> Approved {
    match said {
        Consent::Once => {}
        Consent::Tool => {
            let tool = (call.server.to_owned(), call.tool.to_owned());
            grants.tools.insert(tool);
        }
        Consent::Server => {
            grants.servers.insert(call.server.to_owned());
        }
    }
    Approved::new(call, now_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Call<'_> = Call {
        server: "fs",
        tool: "write",
        arguments: "{}",
    };

    fn auto(rules: &[(&str, bool)]) -> AutoApprove {
        rules.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect()
    }

    fn asks(call: &Call<'_>, rules: &[(&str, bool)], grants: &Grants) -> bool {
        decide(call, &auto(rules), grants, 0) == Decision::Ask
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
    fn a_grant_holds_for_its_tool_or_server_and_can_be_taken_back() {
        let mut grants = Grants::default();
        consent(&CALL, Consent::Once, &mut grants, 0);
        assert!(asks(&CALL, &[], &grants));
        consent(&CALL, Consent::Tool, &mut grants, 0);
        assert!(!asks(&CALL, &[], &grants));
        assert!(!asks(&CALL, &[("fs.write", false)], &grants));
        let read = Call {
            tool: "read",
            ..CALL
        };
        assert!(asks(&read, &[], &grants));
        consent(&read, Consent::Server, &mut grants, 0);
        assert!(!asks(&Call { tool: "x", ..CALL }, &[], &grants));
        grants.revoke("fs");
        assert_eq!(grants, Grants::default());
    }

    #[test]
    fn a_grant_stays_with_the_place_it_was_given_to() {
        let mut grants = Grants::default();
        grants.meet("fs", "http://a/mcp");
        consent(&CALL, Consent::Server, &mut grants, 0);
        grants.meet("other", "http://b/mcp");
        grants.meet("fs", "http://a/mcp");
        assert!(!asks(&CALL, &[], &grants));
        grants.meet("fs", "http://b/mcp");
        assert!(asks(&CALL, &[], &grants) && grants.is_empty());
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
        let mint = || consent(&CALL, Consent::Once, &mut Grants::default(), 1000);
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
            arguments: "{}",
        };
        assert_ne!(split("fs", "x.y").digest(), split("fs.x", "y").digest());
        assert_ne!(split("fs", "x{}").digest(), split("fs", "x").digest());
    }
}
