//! Questions about tools on a real terminal, with a fake daemon that the test controls, so that events can come in any
//! order.

mod attach;
mod elicit;
mod frames;
mod keys;
mod layout;
mod whole;

use std::time::{Duration, Instant};

use aish::chat::{ApprovalScope, CallStatus, DataSensitivity, OperationClass};
use aish::protocol::Event;
use aish::protocol::tools::{ApprovalRequest, ApprovalVerdict, Reaction, ToolInfo};
use serde_json::json;

use crate::fakes::daemon::{Daemon, Prompt};
use crate::support::PATIENCE;
use crate::support::home::Home;
use crate::support::pty::Zsh;

/// End of the line of keys.
pub const KEYS: &str = "[?]";

/// A home whose shell has no plugin, and the fake daemon in it.
fn home() -> (Home, Daemon) {
    let home = Home::new();
    home.zshrc("");
    let daemon = Daemon::listen(&home);
    (home, daemon)
}

/// A question about `github.create_issue`.
fn question(arguments: &str) -> ApprovalRequest {
    ApprovalRequest {
        id: "q1".into(),
        tool: ToolInfo {
            name: "github.create_issue".into(),
            server: "github".into(),
            title: Some("Create an issue".into()),
            description: "Files an issue.\nIn a repository.".into(),
            read_only: Some(false),
            destructive: Some(false),
            idempotent: None,
            open_world: Some(true),
            trusted: true,
            operation: OperationClass::Write,
            schema: json!({"type": "object", "properties": {"title": {"type": "string"}}}),
        },
        target: "https://mcp.example/github".into(),
        arguments: arguments.into(),
        number: 1,
        of: 1,
        server_tools: (14, 4),
        operation: OperationClass::Write,
        intent: None,
        why: "policy.default".into(),
        warning: None,
        changes: Vec::new(),
        preview: None,
        effect: Default::default(),
        unseen: None,
        offers: vec![
            ApprovalScope::Tool,
            ApprovalScope::Reads,
            ApprovalScope::Always,
        ],
        digest: String::new(),
    }
}

/// Types a command line that asks, and sends it a question.
fn asked(zsh: &Zsh<'_>, daemon: &Daemon, line: &str, question: &ApprovalRequest) -> Prompt {
    zsh.send(format!("clear; {line}\r"));
    let mut prompt = daemon.prompt();
    // The question before may still be on the screen.
    zsh.wait_for("a clear screen", |screen| !screen.contents().contains(KEYS));
    prompt.event(&Event::ApprovalRequested(Box::new(question.clone())));
    prompt
}

/// Presses a key until the client reacts; keys pressed too early are discarded.
fn press(zsh: &Zsh<'_>, prompt: &mut Prompt, key: &str) -> Reaction {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        zsh.send(key);
        if let Some(reaction) = prompt.reaction_within(Duration::from_millis(900)) {
            return reaction;
        }
    }
    panic!("{key:?} is never taken: {}", zsh.screen());
}

/// Holds a key down for a while and checks that the client does not react.
fn held(zsh: &Zsh<'_>, prompt: &mut Prompt, key: &str) {
    for _ in 0..30 {
        zsh.send(key);
        let answer = prompt.reaction_within(Duration::from_millis(20));
        assert_eq!(answer, None, "{}", zsh.screen());
    }
}

/// The verdict and the arguments of a reaction to `q1`.
fn verdict(reaction: Reaction) -> (ApprovalVerdict, String) {
    match reaction {
        Reaction::Call {
            id,
            verdict,
            arguments,
            ..
        } => {
            assert_eq!(id, "q1");
            (verdict, arguments)
        }
        other => panic!("{other:?}"),
    }
}
