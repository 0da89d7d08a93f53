//! What a call of the model's means: the tool itself where it was offered that, or the one that it names to
//! `call_tool_read` and its like, with what it declares.

use serde_json::{Map, Value};

use super::super::call_context::ToolExposure;
use crate::chat::{CallIntent, OperationClass, ToolAnnotations, ToolCall, ToolDefinition};
use crate::history::record;
use crate::mcp::ToolCatalog;
use crate::safety::intent::{self, IntentCheck};
use crate::tools::{builtin, split};
use crate::turn::outcome::{CallEnd, CallSummary};

/// A call as it is meant.
#[derive(Debug)]
pub struct ResolvedCall<'a> {
    /// What it calls.
    pub tool: &'a ToolDefinition,
    /// The one text of the arguments.
    pub arguments: String,
    /// Through which tool it was called.
    pub variant: Option<OperationClass>,
    /// What it declares.
    pub intent: Option<CallIntent>,
    /// What speaks against that, where it is no reason to reject it.
    pub warning: Option<String>,
}

/// A call that cannot be made, and why: what the model is told.
#[derive(Debug)]
pub struct RefusedCall {
    account: CallSummary,
    why: RefusalReason,
}

#[derive(Debug)]
enum RefusalReason {
    NoSuchTool,
    Unread(String),
    Rejected(String),
}

impl RefusedCall {
    /// How it ends.
    pub fn outcome(&self) -> CallEnd {
        match &self.why {
            RefusalReason::NoSuchTool => CallEnd::NoSuchTool,
            RefusalReason::Unread(text) => CallEnd::Unread(text.clone()),
            RefusalReason::Rejected(text) => CallEnd::Rejected(text.clone()),
        }
    }

    /// What is known of it.
    pub fn account(&self) -> &CallSummary {
        &self.account
    }
}

/// What a call comes to.
#[derive(Debug)]
pub enum CallResolution<'a> {
    /// A tool of a server.
    Call(ResolvedCall<'a>),
    /// A tool of our own.
    Own,
    /// It cannot be made.
    RefusedCall(Box<RefusedCall>),
}

impl<'a> CallResolution<'a> {
    /// The call of a server's tool.
    pub fn call(&self) -> Option<&ResolvedCall<'a>> {
        match self {
            CallResolution::Call(meant) => Some(meant),
            CallResolution::Own | CallResolution::RefusedCall(_) => None,
        }
    }
}

/// What a call means, whose arguments are a whole JSON object in its one text.
pub fn resolve<'a>(
    call: &ToolCall,
    catalog: &'a ToolCatalog,
    exposure: ToolExposure,
) -> CallResolution<'a> {
    let own = match exposure {
        ToolExposure::Split { .. } => builtin::is_builtin(&call.name),
        ToolExposure::Direct { reads_on } => reads_on && call.name == builtin::READ_RESULT,
    };
    if own {
        return CallResolution::Own;
    }
    let meant = match (exposure, OperationClass::from_call_tool_name(&call.name)) {
        (ToolExposure::Split { strict }, Some(variant)) => through(variant, call, catalog, strict),
        (ToolExposure::Split { .. }, None) => Err(Box::new(RefusedCall {
            account: of(call),
            why: RefusalReason::Unread(intent::unknown_tool_error(&call.name)),
        })),
        (ToolExposure::Direct { .. }, _) => match catalog.find(&call.name) {
            Some(tool) => Ok(ResolvedCall {
                tool,
                arguments: call.arguments.clone(),
                variant: None,
                intent: None,
                warning: None,
            }),
            None => Err(Box::new(RefusedCall {
                account: of(call),
                why: RefusalReason::NoSuchTool,
            })),
        },
    };
    match meant {
        Ok(meant) => CallResolution::Call(meant),
        Err(refused) => CallResolution::RefusedCall(refused),
    }
}

/// What is known of a call that names nothing.
fn of(call: &ToolCall) -> CallSummary {
    CallSummary {
        arguments: Some(call.arguments.clone()),
        ..CallSummary::default()
    }
}

/// A call through one of the variants. What it declares is looked at first, and what it names is known for the record.
fn through<'a>(
    variant: OperationClass,
    call: &ToolCall,
    catalog: &'a ToolCatalog,
    strict: bool,
) -> Result<ResolvedCall<'a>, Box<RefusedCall>> {
    let arguments: Map<String, Value> = serde_json::from_str(&call.arguments).unwrap_or_default();
    let declared = intent::parse_intent(variant, &arguments);
    let target = split::parse_call_target(variant, &arguments);
    let name = |t: &split::CallTarget| format!("{}.{}", t.server, t.tool);
    let tool = target.as_ref().ok().and_then(|t| catalog.find(&name(t)));
    let refused = |why: RefusalReason| {
        let operation = declared.as_ref().map_or(variant, |i| i.operation);
        let said = tool.map_or(ToolAnnotations::default(), |t| t.annotations);
        let target = target.as_ref().ok();
        let account = CallSummary {
            name: target.map(name),
            act: Some(record::RecordedCall {
                server: target.map(|t| t.server.clone()).unwrap_or_default(),
                tool: target.map(|t| t.tool.clone()).unwrap_or_default(),
                variant: Some(variant.call_tool_name().to_owned()),
                operation: operation.as_str().to_owned(),
                intent: declared.as_ref().ok().map(intent_record),
                annotations: annotations_record(said),
            }),
            arguments: target.map(|t| t.arguments.clone()).or(of(call).arguments),
            ..CallSummary::default()
        };
        Box::new(RefusedCall { account, why })
    };
    let intent = match &declared {
        Ok(intent) => intent.clone(),
        Err(text) => return Err(refused(RefusalReason::Rejected(text.clone()))),
    };
    let meant = match &target {
        Ok(target) => target,
        Err(text) => return Err(refused(RefusalReason::Unread(text.clone()))),
    };
    let shown = format!("{}:{}", meant.server, meant.tool);
    let Some(tool) = tool else {
        return Err(refused(RefusalReason::Unread(missing(
            meant, &shown, catalog,
        ))));
    };
    let warning = match intent::check_intent(variant, &intent, &shown, tool.annotations, strict) {
        IntentCheck::Consistent => None,
        IntentCheck::Warned(text) => Some(text),
        IntentCheck::Rejected(text) => return Err(refused(RefusalReason::Rejected(text))),
    };
    Ok(ResolvedCall {
        tool,
        arguments: meant.arguments.clone(),
        variant: Some(variant),
        intent: Some(intent),
        warning,
    })
}

/// What to say of a tool that is not there: its server may not be there either.
fn missing(target: &split::CallTarget, shown: &str, catalog: &ToolCatalog) -> String {
    let without = catalog
        .unavailable
        .iter()
        .find(|(a, _)| *a == target.server);
    match without {
        // The reason of the failure is for the person only.
        Some(_) => format!("Tool '{shown}' is not there now: its server cannot be used"),
        None => format!(
            "Tool '{shown}' not found. Find its name with {}.",
            builtin::RETRIEVE_TOOLS
        ),
    }
}

/// What is declared, for the record.
pub fn intent_record(intent: &CallIntent) -> record::RecordedIntent {
    record::RecordedIntent {
        operation_type: intent.operation.as_str().to_owned(),
        data_sensitivity: intent.sensitivity.map(|s| s.as_str().to_owned()),
        reason: intent.reason.clone(),
    }
}

/// What a server says, for the record.
pub fn annotations_record(says: ToolAnnotations) -> record::RecordedAnnotations {
    record::RecordedAnnotations {
        read_only_hint: says.read_only,
        destructive_hint: says.destructive,
        idempotent_hint: says.idempotent,
        open_world_hint: says.open_world,
    }
}
