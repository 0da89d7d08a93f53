//! Masking of a server's secrets in its messages.

use std::sync::{Arc, Mutex, PoisonError};

use super::failure::ServerFault;
use crate::safety::redact::global_redactor;
use crate::secret::Secret;

/// Secrets of one server that are masked in its messages. Clones share the state.
#[derive(Debug, Clone)]
pub(super) struct SecretMask {
    fixed: Arc<[Secret]>,
    /// Current OAuth token, which may be renewed during a session, and its predecessor.
    tokens: Arc<Mutex<[Option<Secret>; 2]>>,
}

impl SecretMask {
    pub(super) fn new(fixed: Vec<Secret>) -> SecretMask {
        SecretMask {
            fixed: fixed.into(),
            tokens: Arc::default(),
        }
    }

    /// Sets the current OAuth token.
    pub(super) fn set_token(&self, token: &Secret) {
        global_redactor().add_secret("mcp-token", token.expose());
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens[0].as_ref() != Some(token) {
            let before = tokens[0].replace(token.clone());
            tokens[1] = before;
        }
    }

    /// Returns `text` with the secrets masked.
    pub(super) fn mask(&self, text: &str) -> String {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let all = self.fixed.iter().chain(tokens.iter().flatten());
        all.fold(text.to_owned(), |text, secret| secret.mask(&text))
    }

    /// Masks the secrets in the message of a fault.
    pub(super) fn mask_fault(&self, mut fault: ServerFault) -> ServerFault {
        fault.message = self.mask(&fault.message);
        fault
    }
}
