//! Effects of a call of a built-in tool, as far as aish itself determines them before the decision.

use super::BuiltinAction;
use crate::chat::OperationClass;

/// Effects of a call of a built-in tool. Empty for the tools of MCP servers, of which only the annotations are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallEffects<'a> {
    /// The action that rules can name: `fs.read`, `fs.write`, `shell` or `network`.
    pub action: Option<BuiltinAction>,
    /// A second action. A rule about either restricts the call; a rule about one of them allows nothing.
    pub second_action: Option<BuiltinAction>,
    /// The directory of the workspace in which the call stays. A grant covers calls in the same directory only.
    pub workspace: Option<&'a str>,
    /// The operation class of this call, from its arguments. It can only raise the class of the tool.
    pub operation: Option<OperationClass>,
}
