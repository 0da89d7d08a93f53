//! Compares who reaches the HTTP API.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{ConfigChange, SeenConfig, changed};
use crate::config::http_settings::HttpSettings;
use crate::config::settings::Config;
use crate::secret::fingerprint;

/// The settings of `[server]` that a person saw last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SeenHttp {
    enabled: bool,
    /// Fingerprint of the password, if there is one.
    password: Option<String>,
    cors: Vec<String>,
    /// The address to listen on, unless it is a loopback address.
    #[serde(default)]
    public_hostname: Option<String>,
}

/// Returns an address that others could reach. The addresses of a name are not known here.
fn public(hostname: &str) -> Option<String> {
    let ip = hostname.parse::<IpAddr>();
    let is_own = hostname == "localhost" || ip.is_ok_and(|ip| ip.is_loopback());
    (!is_own).then(|| hostname.to_owned())
}

impl SeenHttp {
    pub(super) fn of(settings: &HttpSettings) -> SeenHttp {
        let HttpSettings {
            enabled,
            password,
            cors,
            hostname,
            port: _,
            // They only add TLS.
            certificate: _,
            certificate_key: _,
        } = settings;
        let password = password.as_ref().map(|p| fingerprint([p.0.expose()]));
        SeenHttp {
            enabled: *enabled,
            password,
            cors: cors.clone(),
            public_hostname: public(hostname),
        }
    }
}

/// Takes back what starts the server or lets others in, and adds the lines.
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
    if new.public_hostname.is_some() && new.public_hostname != old.public_hostname {
        let before = old.public_hostname.clone();
        let before = before.unwrap_or_else(|| HttpSettings::default().hostname);
        changed(lines, "server.hostname", &before, &now.server.hostname);
        now.server.hostname = before;
    }
    now.server.cors.retain(|origin| {
        let known = old.cors.contains(origin);
        if !known {
            lines.push(('+', format!("server.cors: {origin}")));
        }
        known
    });
}
