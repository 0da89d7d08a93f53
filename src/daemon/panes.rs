//! Starts to record the panes of tmux in which shells with the plugin run, if the configuration says so.

use std::sync::Arc;
use std::time::Duration;

use crate::config::{ConfigOverrides, RecordedPanes};
use crate::error::{Error, ErrorContext, Result};
use crate::protocol::ShellId;
use crate::services::SharedServices;
use crate::session::shell_registry::ShellEvent;
use crate::terminal::{TerminalIdentity, tmux_pipe};
use crate::turn::background_notice;

/// Maximum time for tmux to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Starts to record the pane of a shell that greets the daemon, in a task of its own.
pub fn record(services: &Arc<SharedServices>, shell: &ShellId, event: &ShellEvent) {
    let ShellEvent::Hello { tty, terminal, .. } = event else {
        return;
    };
    if !terminal.contains_key("TMUX_PANE") {
        return;
    }
    let (services, shell) = (services.clone(), shell.clone());
    let identity = TerminalIdentity {
        tty: tty.clone(),
        variables: terminal.clone(),
    };
    tokio::spawn(async move {
        if let Err(e) = start(&services, &shell, &identity).await {
            tracing::warn!("the pane of a shell is not recorded: {}", e.message);
        }
    });
}

async fn start(
    services: &SharedServices,
    shell: &ShellId,
    identity: &TerminalIdentity,
) -> Result<()> {
    let config = services.models.config(&ConfigOverrides::default())?;
    if config.record.panes != RecordedPanes::Tmux {
        return Ok(());
    }
    let binary = std::env::current_exe().context(|| "cannot find aish-helper itself".into())?;
    let notice = background_notice::path(&services.paths, shell);
    // A process of its own, which tmux starts: it goes on when the daemon ends. Nothing here is secret.
    let options = [
        (
            "--recordings",
            services.paths.recordings().display().to_string(),
        ),
        ("--max-bytes", config.record.max_bytes.to_string()),
        ("--shell", shell.to_string()),
        ("--notice", notice.display().to_string()),
        ("--tty", identity.tty.clone()),
    ];
    let mut program = vec![binary.display().to_string(), "record-pane".to_owned()];
    for (name, value) in options {
        program.extend([name.to_owned(), value]);
    }
    program.push("--term".to_owned());
    let started = tmux_pipe::start(identity, &program, "#{default-terminal}");
    match tokio::time::timeout(PATIENCE, started).await {
        Ok(started) => started,
        Err(_) => Err(Error::runtime("tmux does not answer")),
    }
}
