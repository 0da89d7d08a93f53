//! The settings of sharing, section `[share]`.

use super::section::section;
use super::setting_types::word_setting;

section! {
    /// [Sharing](share.md) sessions as pages.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ShareSettings in "share" {
        /// `"manual"` shares a session only when you say so, after a preview; `"disabled"` shares none.
        mode: ShareMode = ShareMode::Manual;
    }
}

/// Whether sessions can be shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareMode {
    /// When the user says so.
    Manual,
    /// Never.
    Disabled,
}

impl ShareMode {
    /// Returns the value as written in the file.
    pub fn word(self) -> &'static str {
        match self {
            ShareMode::Manual => "manual",
            ShareMode::Disabled => "disabled",
        }
    }
}

word_setting!(
    ShareMode,
    [ShareMode::Manual, ShareMode::Disabled],
    ShareMode::word
);
