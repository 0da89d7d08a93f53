//! Classes of command lines.

/// Class of a command line, in order of the possible damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommandClass {
    /// It reads or prints.
    Reads,
    /// It changes files, processes or settings, or runs code of the user.
    Writes,
    /// It sends or receives data over the network.
    Network,
    /// Its effect is not known.
    Unknown,
    /// It deletes, overwrites or stops what cannot be restored, or changes what runs later without a question.
    Destroys,
    /// It runs code that it downloads or that comes from the network.
    RunsDownloadedCode,
}

impl CommandClass {
    /// All classes, the least first.
    pub const ALL: [CommandClass; 6] = [
        CommandClass::Reads,
        CommandClass::Writes,
        CommandClass::Network,
        CommandClass::Unknown,
        CommandClass::Destroys,
        CommandClass::RunsDownloadedCode,
    ];

    /// Returns the name for the user and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            CommandClass::Reads => "reads",
            CommandClass::Writes => "writes",
            CommandClass::Network => "network",
            CommandClass::Unknown => "unknown",
            CommandClass::Destroys => "destroys",
            CommandClass::RunsDownloadedCode => "runs downloaded code",
        }
    }

    /// Returns the class of a name.
    pub fn from_name(name: &str) -> Option<CommandClass> {
        CommandClass::ALL
            .into_iter()
            .find(|class| class.as_str() == name)
    }
}
