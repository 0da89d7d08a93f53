//! Decides whether text that is still to come can change what a keyword identifies.

use super::super::BACK;
use super::calls::{CALL_KEYWORDS, may_be_call};
use super::commands::{may_be_cookie, may_be_login};
use super::fields::{FIELD_VALUE, may_be_named};
use super::logins::{LAST_WORDS, RESP_AUTH};
use super::objects::may_be_secret_data;
use super::phrases::may_be_phrase;
use super::random_keys::{RANDOM_KEY, ends_key_name};
use super::urls::is_open_authority;
use super::{FormatPattern, FormatRule, KeywordMatch, is_context_kind, rows, run_length, window};

impl FormatRule {
    /// Whether nothing that follows the text can change what the keyword at `at` identifies.
    pub(super) fn is_settled(&self, text: &[u8], at: usize) -> bool {
        /// A secret that is named by a word before it begins within this many bytes.
        const CONTEXT: usize = 128;
        /// The same in the next line, behind what a program prints before it.
        const FAR: usize = 256;
        /// Kinds that no blank interrupts, from their beginning to their end.
        const WITHIN_WORD: &[&str] = &[
            "airtable-token",
            "asana-token",
            "azure-client-secret",
            "azure-sas",
            "azure-signed-key",
            "clickup-token",
            "discord-token",
            "discord-webhook",
            "harness-key",
            "launchdarkly-key",
            "mailchimp-key",
            "mailgun-key",
            "maxmind-key",
            "modal-token",
            "mysql-hash",
            "nix-key",
            "oracle-password",
            "resend-key",
            "salesforce-token",
            "slack-webhook",
            "teams-webhook",
            "telegram-token",
            "telnyx-key",
            "terraform-token",
            "url-key",
            "voyage-key",
            "webhook",
            "zapier-webhook",
        ];
        let end = at + self.key.len();
        let behind = &text[end..];
        let class = match self.pattern {
            FormatPattern::AtLeast(_, class)
            | FormatPattern::HighEntropy(_, class)
            | FormatPattern::Exactly(_, class) => class,
            FormatPattern::Custom(find) => {
                if behind.len() >= window(self.kind) {
                    return true;
                }
                // Recognised by what ends it, which may be a kilobyte further on.
                if self.key.ends_with("://") && is_open_authority(text, end) {
                    return false;
                }
                if self.kind == "private-key" {
                    return false;
                }
                // The name of no secret, such as `author` and `path`.
                let is_lower = |b: &u8| b.is_ascii_lowercase() && *b != b's';
                if behind.first().is_some_and(is_lower) && self.is_name() {
                    return true;
                }
                let from = at.saturating_sub(BACK);
                if self.key == RANDOM_KEY
                    && !behind.is_empty()
                    && !ends_key_name(text, from, at, end)
                {
                    return true;
                }
                let place = KeywordMatch {
                    text,
                    from,
                    at,
                    end,
                };
                return match (find(&place), self.kind) {
                    (_, "kubernetes-secret") => !may_be_secret_data(&place),
                    // A row may follow.
                    (Some(secret), _) if rows::has_line_end(&text[end..secret.end.max(end)]) => {
                        let rest = text.get(secret.end..).unwrap_or_default();
                        rows::has_line(rest) || rest.len() >= CONTEXT
                    }
                    // A further word may follow.
                    (Some(secret), _)
                        if may_be_phrase(self.key) || LAST_WORDS.contains(&self.key) =>
                    {
                        let rest = text.get(secret.end..).unwrap_or_default();
                        rows::has_line_end(rest) || rest.len() >= CONTEXT
                    }
                    // A second word makes the first one the user.
                    (Some(secret), _) if self.key == RESP_AUTH => {
                        let rest = text.get(secret.end..).unwrap_or_default();
                        let is_last = rest.len() > 2 && !rest.starts_with(b"\r\n$");
                        is_last || rest.len() >= CONTEXT
                    }
                    (Some(secret), _) => {
                        let more = secret
                            .more
                            .map_or(0, |class| run_length(text, secret.end, class));
                        // An apparent end may be a sign within it.
                        let rest = text.get(secret.end + more..).unwrap_or_default();
                        rest.iter().any(u8::is_ascii_whitespace) || rest.len() >= CONTEXT
                    }
                    // It ends before a slash or a blank, and one has come.
                    (None, "url-password") => true,
                    // Recognised by their last part.
                    (None, "jwt") => {
                        let is_part = |b: u8| b.is_ascii_alphanumeric() || b"-_.=".contains(&b);
                        run_length(text, end, is_part) < behind.len()
                    }
                    (None, "cookie") => !may_be_cookie(text, end),
                    (None, _) if CALL_KEYWORDS.contains(&self.key) => !may_be_call(&place),
                    (None, _) if self.key == FIELD_VALUE => !may_be_named(&place),
                    (None, "basic-auth") => !may_be_login(&place),
                    // A list of words or codes, each in a line of its own.
                    (None, "seed-phrase" | "recovery-code") => behind.len() >= FAR,
                    (None, kind) if WITHIN_WORD.contains(&kind) => {
                        behind.iter().any(u8::is_ascii_whitespace)
                    }
                    (None, _) => {
                        // A value may stand behind an empty line, or be the third field of an object.
                        let lines = behind.iter().filter(|&&b| b == b'\n').count();
                        let is_far = rows::ends_soon(behind);
                        // What ends a long word may say that it is one.
                        let word = behind.iter().rposition(u8::is_ascii_whitespace);
                        let read = word.map_or(0, |at| at + 1);
                        lines > 3 || read >= if is_far { FAR } else { CONTEXT }
                    }
                };
            }
        };
        run_length(text, end, class) < behind.len()
    }

    /// Whether the keyword is a word that names a secret.
    pub(super) fn is_name(&self) -> bool {
        let key = self.key.as_bytes();
        let is_word = key[0].is_ascii_lowercase() && key[key.len() - 1].is_ascii_lowercase();
        is_word && is_context_kind(self.kind)
    }
}
