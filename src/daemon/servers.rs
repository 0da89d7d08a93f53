//! The configured MCP servers: started when a prompt needs them, with what the asking shell has.

use super::Daemon;
use super::connection::Connection;
use crate::config::Config;
use crate::error::Result;
use crate::mcp::Credentials;

/// Starts the servers that are new or have changed.
///
/// # Errors
/// The client has gone.
pub async fn refresh(daemon: &Daemon, _connection: &mut Connection, config: &Config) -> Result<()> {
    for server in daemon.mcp.wanting(&config.mcp.servers) {
        daemon
            .mcp
            .start(server, true, async { Ok(Credentials::default()) });
    }
    Ok(())
}
