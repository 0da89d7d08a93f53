//! The setting `continue` of `[shell]`.

use super::setting_types::word_setting;

/// When the output of an approved command goes back to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContinueSetting {
    /// At once if the user chooses so, otherwise with the next prompt.
    Ask,
    /// At once.
    Always,
    /// With the next prompt.
    Never,
}

impl ContinueSetting {
    /// Returns the value as written in the file.
    pub fn word(self) -> &'static str {
        match self {
            ContinueSetting::Ask => "ask",
            ContinueSetting::Always => "always",
            ContinueSetting::Never => "never",
        }
    }
}

word_setting!(
    ContinueSetting,
    [
        ContinueSetting::Ask,
        ContinueSetting::Always,
        ContinueSetting::Never
    ],
    ContinueSetting::word
);
