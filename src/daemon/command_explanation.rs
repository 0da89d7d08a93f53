//! Explains what a command line does, for requests about the policy.

use super::command_approval;
use crate::chat::OperationClass;
use crate::config::Config;
use crate::paths::Paths;
use crate::protocol::policy::CommandExplanation;
use crate::turn::rules_in_force::{self, RequestContext};

/// Explains what a command line does, and the decision on it if a model proposed it now.
pub(super) async fn explain_command(
    command: &str,
    config: &Config,
    paths: &Paths,
    request_context: &RequestContext,
) -> CommandExplanation {
    let (cwd, overrides) = (&request_context.cwd, &request_context.overrides);
    let assessment = command_approval::assess(command, cwd).await;
    let decided = rules_in_force::classified_effect(config, assessment.operation());
    let (decision, decided_by) =
        command_approval::with_protection(paths, command, cwd, overrides, decided).await;
    CommandExplanation {
        class: assessment.class.as_str().to_owned(),
        reasons: assessment.reasons,
        decision,
        decided_by,
        notices: Vec::new(),
    }
}

/// Returns the class of the command in the arguments of the tool `shell` with its reasons, if it decides the operation class.
pub(super) async fn command_reason(
    arguments: &str,
    operation: OperationClass,
    cwd: &str,
) -> Option<String> {
    let arguments: serde_json::Value = serde_json::from_str(arguments).ok()?;
    let assessment = command_approval::assess(arguments.get("command")?.as_str()?, cwd).await;
    let (class, reasons) = (assessment.class.as_str(), assessment.reasons.join("; "));
    let reason = format!("the class of its command is `{class}`: {reasons}");
    (assessment.operation() == operation).then(|| reason.trim_end_matches(": ").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_class_of_a_command_is_the_reason_for_that_of_the_tool() {
        let reason =
            |arguments, operation| command_reason(arguments, operation, "/home/me/project");
        assert_eq!(
            reason(
                r#"{"command": "rm -rf build"}"#,
                OperationClass::Destructive
            )
            .await
            .as_deref(),
            Some("the class of its command is `destroys`: deletes files recursively")
        );
        // The caller declared more.
        assert_eq!(
            reason(r#"{"command": "ls"}"#, OperationClass::Destructive).await,
            None
        );
        assert_eq!(reason("{}", OperationClass::Write).await, None);
    }
}
