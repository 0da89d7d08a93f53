//! Starts to record the panes of tmux in which shells with the plugin run, if the configuration says so.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::config::{Config, ConfigOverrides, ConfigStamp, RecordSettings, RecordedPanes};
use crate::error::{Error, ErrorContext, Result};
use crate::protocol::ShellId;
use crate::services::SharedServices;
use crate::session::lock;
use crate::terminal::{TerminalIdentity, tmux_pipe};
use crate::turn::background_notice;

/// Maximum time for tmux to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The configuration by which panes were last recorded, and the state of its file: a recorder may have ended while the file said so
/// for a moment.
#[derive(Debug, Default)]
pub struct PaneRecordings {
    applied: Mutex<Option<(ConfigStamp, RecordSettings)>>,
}

impl PaneRecordings {
    /// Starts to record the pane of a shell that greets the daemon, and those of the last shells of all terminals if the
    /// configuration has changed, in a separate task. A pane that is recorded stays so: its recorder ends by itself when the configuration says so.
    pub fn update(&self, services: &Arc<SharedServices>, greeted: Option<ShellId>) {
        // A request reports a configuration that cannot be read.
        let Ok(config) = services.models.config(&ConfigOverrides::default()) else {
            return;
        };
        let now = (ConfigStamp::of(&services.paths), config.record.clone());
        let is_same = lock(&self.applied).replace(now.clone()) == Some(now);
        if config.record.panes != RecordedPanes::Tmux {
            return;
        }
        let shells: Vec<ShellId> = match is_same {
            true => greeted.into_iter().collect(),
            false => lock(&services.shells).last_greeted(),
        };
        // No task for each event of a shell.
        if shells.is_empty() {
            return;
        }
        let services = services.clone();
        tokio::spawn(async move {
            for shell in shells {
                if let Err(e) = start(&services, &config, &shell).await {
                    tracing::warn!("the pane of a shell is not recorded: {}", e.message);
                }
            }
        });
    }
}

/// Starts to record the pane of a shell, unless the shell is in none.
async fn start(services: &SharedServices, config: &Config, shell: &ShellId) -> Result<()> {
    let Some(shown) = lock(&services.shells).on_screen(shell) else {
        return Ok(());
    };
    let identity = TerminalIdentity {
        tty: shown.tty,
        variables: shown.terminal.unwrap_or_default(),
    };
    if identity.variable("TMUX_PANE").is_none() {
        return Ok(());
    }
    let binary = std::env::current_exe().context(|| "cannot find aish-helper itself".into())?;
    let notice = background_notice::path(&services.paths, shell);
    // A separate process, which tmux starts: it continues when the daemon ends. Nothing here is secret.
    let options = [
        (
            "--recordings",
            services.paths.recordings().display().to_string(),
        ),
        ("--config", services.paths.config.display().to_string()),
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
    let started = tmux_pipe::start(&identity, &program, "#{default-terminal}");
    match tokio::time::timeout(PATIENCE, started).await {
        Ok(started) => started,
        Err(_) => Err(Error::runtime("tmux does not answer")),
    }
}
