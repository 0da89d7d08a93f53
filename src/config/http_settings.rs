//! The settings of the HTTP API, section `[server]`.

use serde_json::{Value as Json, json};

use super::section::section;
use super::setting::{SettingSpec, SettingType, ValueKind};
use super::syntax_tree::SyntaxValue;
use super::value_checks::{check_absolute, check_origin};
use crate::secret::{REDACTED, Secret};

section! {
    /// The [HTTP API and the page](api.md). Both always require a token, and only this machine can connect unless an address,
    /// a certificate and a password are set.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct HttpSettings in "server" {
        /// Start the server with the daemon. With `false` it starts with `aish-helper serve` or `aish-helper web`.
        enabled: bool = false;
        /// The address to listen on: `127.0.0.1`, `::1` or `localhost`. An address by which other machines can reach this one, or a name that
        /// resolves to it, also needs `certificate` and `password`.
        hostname: String = "127.0.0.1".to_owned();
        /// The port. `0` serves only the socket `api.sock`, which needs no token.
        port: u32 = 4096, range(0, 65535);
        /// A password that is accepted in place of the token, for clients that can send only a name and a password.
        password: Option<ServerPassword> = None, example("\"a-long-password\"");
        /// The absolute path of a PEM file with the certificate for `hostname` and its chain. With a certificate, the port accepts only TLS.
        certificate: Option<String> = None, check(check_absolute), example("\"/etc/ssl/private/laptop.pem\"");
        /// A PEM file with the key of the certificate, which only its owner and its group may be able to read.
        certificate_key: Option<String> = None, check(check_absolute), example("\"/etc/ssl/private/laptop.key\"");
        /// Origins of other pages that may use the API, exactly as browsers send them.
        cors: Vec<String> = Vec::new(), check(check_origin), example("[\"http://localhost:5173\"]");
    }
}

/// Minimum length, in characters: any program of the machine can try passwords.
const MIN_LENGTH: usize = 12;

/// A password, which is never shown. An empty text is not a password.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerPassword(pub Secret);

impl SettingType for ServerPassword {
    const KIND: ValueKind = ValueKind::Text;

    fn parse(value: &SyntaxValue, spec: &SettingSpec) -> Result<ServerPassword, String> {
        let text = String::parse(value, spec)?;
        match text.chars().count() < MIN_LENGTH {
            true => Err(format!("must have at least {MIN_LENGTH} characters")),
            false => Ok(ServerPassword(Secret::new(text))),
        }
    }

    fn to_json(&self, _: &SettingSpec) -> Option<Json> {
        Some(json!(REDACTED))
    }
}
