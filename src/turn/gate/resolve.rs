//! Resolves a call of the model to a tool: directly by name, or through `call_tool_read`, `call_tool_write` and
//! `call_tool_destructive`, whose arguments name the tool and declare an intent.

use crate::chat::{CallIntent, OperationClass, ToolAnnotations, ToolCall, ToolDefinition};
use crate::config::nearest_name;
use crate::history::record;
use crate::mcp::ToolCatalog;
use crate::safety::intent::{self, IntentCheck};
use crate::safety::json_text;
use crate::safety::policy::{BUILTIN_SERVER, HELPER_SERVER, is_own_tool};
use crate::tools::builtin::PreparedCall;
use crate::tools::{builtin, split};
use crate::turn::call_context::ToolExposure;
use crate::turn::outcome::{CallEnd, CallSummary};

/// A call, resolved to its tool.
#[derive(Debug)]
pub struct ResolvedCall<'a> {
    /// The tool.
    pub tool: &'a ToolDefinition,
    /// The canonical text of the arguments.
    pub arguments: String,
    /// The `call_tool_*` variant that was used; `None` for a direct call.
    pub variant: Option<OperationClass>,
    /// The declared intent.
    pub intent: Option<CallIntent>,
    /// A contradiction between intent and annotations that does not reject the call.
    pub warning: Option<String>,
    /// Why the call must be asked about, as in [`crate::safety::policy::CallRequest::protected`].
    pub protected: Option<String>,
    /// The prepared work of a built-in tool.
    pub prepared: Option<Box<PreparedCall>>,
    /// Whether the user has edited the arguments of a prepared call.
    pub edited: bool,
}

impl<'a> ResolvedCall<'a> {
    /// A call of `tool` by its own name, without a declared intent.
    pub fn direct(tool: &'a ToolDefinition, arguments: String) -> ResolvedCall<'a> {
        ResolvedCall {
            tool,
            arguments,
            variant: None,
            intent: None,
            warning: None,
            protected: None,
            prepared: None,
            edited: false,
        }
    }

    /// Whether the tool is built in, or a Python helper, rather than a tool of an MCP server.
    pub fn is_builtin(&self) -> bool {
        is_own_tool(&self.tool.identity)
    }

    /// Whether the call is of a built-in tool that only reads data of the session. Such calls need no rule, and their approval
    /// no record.
    pub fn is_builtin_read(&self) -> bool {
        self.is_builtin()
            && self.tool.server == BUILTIN_SERVER
            && self.tool.annotations.reads_only()
            && !self.is_work()
    }

    /// Whether the call is of a built-in tool that works on files, commands or pages, or of a Python helper.
    pub fn is_work(&self) -> bool {
        let is_helper = self.tool.server == HELPER_SERVER;
        self.is_builtin() && (is_helper || builtin::tool_group(&self.tool.name).is_some())
    }

    /// Whether the call reads the output of the user's commands.
    pub fn is_terminal_output(&self) -> bool {
        self.is_builtin() && self.tool.name == builtin::TERMINAL_OUTPUT
    }
}

/// A call that cannot be made, with the reason for the model.
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
    /// Refuses a call with an error that the model can correct.
    pub fn unread(account: CallSummary, why: String) -> RefusedCall {
        RefusedCall {
            account,
            why: RefusalReason::Unread(why),
        }
    }

    /// Returns how the call ends.
    pub fn outcome(&self) -> CallEnd {
        match &self.why {
            RefusalReason::NoSuchTool => CallEnd::NoSuchTool,
            RefusalReason::Unread(text) => CallEnd::Unread(text.clone()),
            RefusalReason::Rejected(text) => CallEnd::Rejected(text.clone()),
        }
    }

    /// Returns the facts about the call for its record.
    pub fn account(&self) -> &CallSummary {
        &self.account
    }
}

/// Result of resolving a call.
#[derive(Debug)]
pub enum CallResolution<'a> {
    /// A call of a tool that the model was offered.
    Call(Box<ResolvedCall<'a>>),
    /// A call that cannot be made.
    RefusedCall(Box<RefusedCall>),
}

impl<'a> CallResolution<'a> {
    /// Returns the resolved call, or `None` if the call cannot be made.
    pub fn call(&self) -> Option<&ResolvedCall<'a>> {
        match self {
            CallResolution::Call(resolved) => Some(resolved),
            CallResolution::RefusedCall(_) => None,
        }
    }
}

/// Resolves a call whose arguments are canonical JSON (see [`crate::safety::policy::canonical_arguments`]). `reads_terminal` says
/// whether `terminal_output` is offered, and `work` has the built-in tools that work on files, commands and pages.
pub fn resolve<'a>(
    call: &ToolCall,
    catalog: &'a ToolCatalog,
    exposure: ToolExposure,
    reads_terminal: bool,
    work: &'a [ToolDefinition],
) -> CallResolution<'a> {
    // Rules and selections write `aish.NAME`, which models repeat.
    let own_name = call.name.strip_prefix("aish.").unwrap_or(&call.name);
    if let Some(tool) = work
        .iter()
        .find(|tool| tool.name == own_name || tool.name == call.name)
    {
        return CallResolution::Call(Box::new(ResolvedCall::direct(tool, call.arguments.clone())));
    }
    let offered = match exposure {
        _ if call.name == builtin::TERMINAL_OUTPUT => reads_terminal,
        ToolExposure::Split { .. } => true,
        ToolExposure::Direct { reads_on } => reads_on && call.name == builtin::READ_RESULT,
    };
    if let Some(tool) = builtin::find_builtin(&call.name).filter(|_| offered) {
        return CallResolution::Call(Box::new(ResolvedCall::direct(tool, call.arguments.clone())));
    }
    let resolved = match (exposure, OperationClass::from_call_tool_name(&call.name)) {
        (ToolExposure::Split { strict }, Some(variant)) => {
            through(variant, call, catalog, strict, work)
        }
        (ToolExposure::Split { .. }, None) => {
            let mut text = intent::unknown_tool_error(&call.name);
            if let Some(near) = nearest_tool(&call.name, work) {
                text.push_str(&format!(" Did you mean {near}?"));
            }
            Err(Box::new(RefusedCall::unread(of(call), text)))
        }
        (ToolExposure::Direct { .. }, _) => match catalog.find(&call.name) {
            Some(tool) => Ok(ResolvedCall::direct(tool, call.arguments.clone())),
            None => Err(Box::new(RefusedCall {
                account: of(call),
                why: match nearest_tool(&call.name, work.iter().chain(&*catalog.tools)) {
                    Some(near) => RefusalReason::Unread(format!(
                        "[not called: there is no tool named {}; did you mean {near}?]",
                        call.name
                    )),
                    None => RefusalReason::NoSuchTool,
                },
            })),
        },
    };
    match resolved {
        Ok(resolved) => CallResolution::Call(Box::new(resolved)),
        Err(refused) => CallResolution::RefusedCall(refused),
    }
}

/// Returns the tool whose own name, without that of its server, is the nearest to that of an unknown tool.
fn nearest_tool<'t>(
    name: &str,
    tools: impl IntoIterator<Item = &'t ToolDefinition>,
) -> Option<&'t str> {
    let tail = name.rsplit('.').next().unwrap_or(name);
    let tools: Vec<&ToolDefinition> = tools.into_iter().collect();
    let near = nearest_name(tail, tools.iter().map(|tool| tool.tool.as_str()))?;
    let near = tools.iter().find(|tool| tool.tool == near)?;
    Some(&near.name)
}

/// Returns the summary of a call without a known tool.
fn of(call: &ToolCall) -> CallSummary {
    CallSummary {
        arguments: Some(call.arguments.clone()),
        ..CallSummary::default()
    }
}

/// Resolves a call through a `call_tool_*` variant. Checks the declared intent before the target, but resolves the target
/// first, so that the record of a rejected call names it.
fn through<'a>(
    variant: OperationClass,
    call: &ToolCall,
    catalog: &'a ToolCatalog,
    strict: bool,
    work: &'a [ToolDefinition],
) -> Result<ResolvedCall<'a>, Box<RefusedCall>> {
    let arguments = json_text::parse_object(&call.arguments).unwrap_or_default();
    let declared = intent::parse_intent(variant, &arguments);
    let target = split::parse_call_target(variant, &arguments);
    let name = |t: &split::CallTarget| format!("{}.{}", t.server, t.tool);
    let find = |t: &split::CallTarget| match t.server.as_str() {
        BUILTIN_SERVER | HELPER_SERVER => {
            let mut work = work.iter();
            work.find(|tool| tool.server == t.server && tool.tool == t.tool)
        }
        _ => catalog.find(&name(t)),
    };
    let tool: Option<&'a ToolDefinition> = target.as_ref().ok().and_then(find);
    let refused = |why: RefusalReason| {
        let operation = declared.as_ref().map_or(variant, |i| i.operation);
        let annotations = tool.map_or(ToolAnnotations::default(), |t| t.annotations);
        let target = target.as_ref().ok();
        let account = CallSummary {
            name: target.map(name),
            act: Some(record::RecordedCall {
                server: target.map(|t| t.server.clone()).unwrap_or_default(),
                tool: target.map(|t| t.tool.clone()).unwrap_or_default(),
                variant: Some(variant.call_tool_name().to_owned()),
                operation,
                intent: declared.as_ref().ok().map(intent_record),
                annotations: annotations_record(annotations),
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
    let wanted = match &target {
        Ok(target) => target,
        Err(text) => return Err(refused(RefusalReason::Unread(text.clone()))),
    };
    let shown = format!("{}:{}", wanted.server, wanted.tool);
    let Some(tool) = tool else {
        return Err(refused(RefusalReason::Unread(missing(
            wanted, &shown, catalog,
        ))));
    };
    let annotations = (tool.annotations, tool.server == BUILTIN_SERVER);
    let warning = match intent::check_intent(variant, &intent, &shown, annotations, strict) {
        IntentCheck::Consistent => None,
        IntentCheck::Warned(text) => Some(text),
        IntentCheck::Rejected(text) => return Err(refused(RefusalReason::Rejected(text))),
    };
    Ok(ResolvedCall {
        tool,
        arguments: wanted.arguments.clone(),
        variant: Some(variant),
        intent: Some(intent),
        warning,
        protected: None,
        prepared: None,
        edited: false,
    })
}

/// Returns the error for the model about an unknown tool or an unavailable server.
fn missing(target: &split::CallTarget, shown: &str, catalog: &ToolCatalog) -> String {
    let without = catalog
        .unavailable
        .iter()
        .find(|(a, _)| *a == target.server);
    match without {
        // Only the user may see why the server failed: the text comes from the server.
        Some(_) => format!("Tool '{shown}' is unavailable: its server cannot be used now"),
        None => format!(
            "Tool '{shown}' not found. Find its name with {}.",
            builtin::RETRIEVE_TOOLS
        ),
    }
}

/// Returns the declared intent as it is recorded.
pub fn intent_record(intent: &CallIntent) -> record::RecordedIntent {
    record::RecordedIntent {
        operation_type: intent.operation,
        data_sensitivity: intent.sensitivity,
        reason: intent.reason.clone(),
    }
}

/// Returns the annotations of a tool as they are recorded.
pub fn annotations_record(says: ToolAnnotations) -> record::RecordedAnnotations {
    record::RecordedAnnotations {
        read_only_hint: says.read_only,
        destructive_hint: says.destructive,
        idempotent_hint: says.idempotent,
        open_world_hint: says.open_world,
    }
}
