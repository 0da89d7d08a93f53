//! Compares who reaches the HTTP API.

use serde::{Deserialize, Serialize};

use super::{ConfigChange, SeenConfig, changed};
use crate::config::http_settings::HttpSettings;
use crate::config::settings::Config;
use crate::secret::fingerprint;

/// What a person has seen of `[server]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SeenHttp {
    enabled: bool,
    /// Fingerprint of the password, if there is one.
    password: Option<String>,
    cors: Vec<String>,
}

impl SeenHttp {
    pub(super) fn of(settings: &HttpSettings) -> SeenHttp {
        let HttpSettings {
            enabled,
            password,
            cors,
            // Only addresses of this machine itself are possible.
            hostname: _,
            port: _,
        } = settings;
        let password = password.as_ref().map(|p| fingerprint([p.0.expose()]));
        SeenHttp {
            enabled: *enabled,
            password,
            cors: cors.clone(),
        }
    }
}

/// Keeps the server off, and what lets others in out, and says so.
pub(super) fn take_back(seen: &SeenConfig, now: &mut Config, lines: &mut Vec<ConfigChange>) {
    let (old, new) = (&seen.server, SeenHttp::of(&now.server));
    if new.enabled && !old.enabled {
        changed(lines, "server.enabled", "false", "true");
        now.server.enabled = false;
    }
    if new.password.is_some() && new.password != old.password {
        lines.push(('+', "server.password".to_owned()));
        now.server.password = None;
    }
    now.server.cors.retain(|origin| {
        let known = old.cors.contains(origin);
        if !known {
            lines.push(('+', format!("server.cors: {origin}")));
        }
        known
    });
}
