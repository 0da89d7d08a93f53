//! The setting `sandbox` of `[tools]`.

use super::setting_types::word_setting;

/// How far a command of the tool `shell` reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SandboxSetting {
    /// It writes in a temporary directory only.
    ReadOnly,
    /// It writes in the workspace too.
    Workspace,
    /// There is no sandbox.
    Off,
}

impl SandboxSetting {
    /// All values, the strictest first.
    pub const ALL: [SandboxSetting; 3] = [
        SandboxSetting::ReadOnly,
        SandboxSetting::Workspace,
        SandboxSetting::Off,
    ];

    /// Returns the value as written in the file.
    pub fn word(self) -> &'static str {
        match self {
            SandboxSetting::ReadOnly => "read-only",
            SandboxSetting::Workspace => "workspace",
            SandboxSetting::Off => "off",
        }
    }
}

word_setting!(SandboxSetting, SandboxSetting::ALL, SandboxSetting::word);
