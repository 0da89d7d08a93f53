//! The keys of an approval: which are offered, their meaning, and why some are not offered.

use crate::chat::ApprovalScope;
use crate::client::operation::{is_read_only, reads_output, word};
use crate::client::terminal_prompt::{TerminalPrompt, broken, end_column};
use crate::protocol::tools::{ApprovalRequest, ApprovalVerdict};
use crate::safety::confusables;
use crate::safety::policy::{CHANGED, DEFAULT_RULE, GRANT_TTL_MS, UNCONFIGURED};
use crate::safety::text::one_line;

/// Columns for the answer in the last row, such as `always`.
const ANSWER_COLUMNS: usize = 8;

/// Line of keys below the effect of a lasting approval.
pub const CONFIRM_ALWAYS: &str = "[A] again: always allow   any other key: back ";

/// Returns the labels of the offered keys, in full or for a narrow terminal.
fn labels(question: &ApprovalRequest, is_narrow: bool) -> Vec<String> {
    let server = confusables::marked_name(&question.tool.server);
    let what = match question.effect.is_second_run {
        true => "run again outside of the sandbox?",
        false => "run?",
    };
    let wide = [
        (
            None,
            match question.effect.typed_yes {
                true => format!("{what} [yes] "),
                false => format!("{what} [y] yes "),
            },
        ),
        (None, "[n] no ".to_owned()),
        (
            Some(ApprovalScope::Tool),
            "[t] always allow this tool, this session ".to_owned(),
        ),
        (
            Some(ApprovalScope::Reads),
            match &question.effect.workspace {
                Some(dir) => format!("[r] all reads in {}, this session ", one_line(dir, 60)),
                None if reads_output(&question.tool) => {
                    "[r] output of your commands, this session ".to_owned()
                }
                None => format!("[r] all reads of {server}, this session "),
            },
        ),
        (Some(ApprovalScope::Always), "[A] always ".to_owned()),
        (None, "[e] edit ".to_owned()),
        (None, "[d] deny and say why ".to_owned()),
        (None, "[?] help".to_owned()),
    ];
    let short = |offer: Option<ApprovalScope>, label: String| match offer {
        Some(ApprovalScope::Tool) => "[t] tool, session ".to_owned(),
        Some(ApprovalScope::Reads) => match &question.effect.workspace {
            Some(dir) => format!("[r] reads in {}, session ", one_line(dir, 50)),
            None => "[r] reads, session ".to_owned(),
        },
        None if label.starts_with("[d]") => "[d] deny, say why ".to_owned(),
        None if label.starts_with("[?]") => "[?]".to_owned(),
        _ => label,
    };
    wide.into_iter()
        .filter(|(offer, _)| offer.is_none_or(|offer| offers(question, offer)))
        .map(|(offer, label)| match is_narrow {
            true => short(offer, label),
            false => label,
        })
        .collect()
}

/// Returns the line of keys, broken where the terminal is narrow.
pub fn line(prompt: &TerminalPrompt<'_>, question: &ApprovalRequest) -> String {
    let width = prompt.size.0;
    let wide = broken(&labels(question, false), width);
    let keys = match wide.matches('\n').count() > 1 {
        true => broken(&labels(question, true), width),
        false => wide,
    };
    let line = format!("{}{keys}", prompt.dim("└"));
    let has_room = end_column(&line) + ANSWER_COLUMNS <= width;
    let line = line
        .strip_suffix(" help")
        .filter(|_| !has_room)
        .unwrap_or(&line);
    format!("{line} ")
}

/// Returns whether `question` offers this approval scope.
pub fn offers(question: &ApprovalRequest, offer: ApprovalScope) -> bool {
    question.offers.contains(&offer)
}

/// Returns the verdict of a key that approves more than this one call, and the words to echo.
///
/// # Errors
/// Why the key is not offered.
pub fn lasting_verdict(
    byte: u8,
    question: &ApprovalRequest,
) -> Result<(ApprovalVerdict, String), String> {
    let (offer, verdict, words) = match byte {
        b't' | b'T' => (
            ApprovalScope::Tool,
            ApprovalVerdict::Tool,
            "this tool for this session".to_string(),
        ),
        b'r' | b'R' => {
            let words = format!("reads for this session: {}", reading_tools(question));
            (ApprovalScope::Reads, ApprovalVerdict::Reads, words)
        }
        _ => (
            ApprovalScope::Always,
            ApprovalVerdict::Always,
            "always".to_string(),
        ),
    };
    if !offers(question, offer) {
        return Err(reason_not_offered(question, offer));
    }
    // Earlier versions used [a] for the session only.
    if byte == b'a' {
        return Err(match offers(question, ApprovalScope::Tool) {
            true => "always is [A], with Shift; for this session alone it is [t]".to_string(),
            false => "always is [A], with Shift".to_string(),
        });
    }
    Ok((verdict, words))
}

/// Returns why an answer would have no effect.
fn reason_not_offered(question: &ApprovalRequest, offer: ApprovalScope) -> String {
    let server = confusables::marked_name(&question.tool.server);
    if offer == ApprovalScope::Reads && is_read_only(&question.tool) {
        return format!(
            "[r] would not cover this call, whose class is: {}",
            word(question.operation)
        );
    }
    if offer == ApprovalScope::Reads {
        return format!("server {server} does not declare this tool read-only");
    }
    // A session grant is possible, so only the rule is not.
    if offer == ApprovalScope::Always
        && offers(question, ApprovalScope::Tool)
        && question.why != UNCONFIGURED
    {
        return format!(
            "no rule can be saved: server {server} was connected by hand, or aish may not write the configuration"
        );
    }
    match question.why.as_str() {
        why if why.starts_with(DEFAULT_RULE) || why == CHANGED => {
            "this call can be allowed only once at a time".to_string()
        }
        UNCONFIGURED if offer == ApprovalScope::Always => {
            format!("server {server} was connected by hand: rules cannot allow its tools")
        }
        UNCONFIGURED => "this call can be allowed only once at a time".to_string(),
        rule => format!("{} asks every time", one_line(rule, 200)),
    }
}

/// Describes the tools that the answer `reads` would allow.
pub fn reading_tools(question: &ApprovalRequest) -> String {
    if let Some(dir) = &question.effect.workspace {
        return format!("the built-in tools that read, in {}", one_line(dir, 200));
    }
    if reads_output(&question.tool) {
        return "the output of your commands".to_owned();
    }
    let (total, writing) = question.server_tools;
    let trust_note = match question.tool.trusted {
        true => "",
        false => " (as declared by the server, not trusted)",
    };
    let server = confusables::marked_name(&question.tool.server);
    let reading = total.saturating_sub(writing);
    format!("the {reading} read-only tools of {server}, of {total}{trust_note}")
}

/// Describes the effect of a lasting approval.
pub fn always_effect(question: &ApprovalRequest) -> String {
    format!(
        "always: adds a rule to config.toml that allows {} with any arguments, in every session",
        confusables::marked_name(&question.tool.name)
    )
}

/// Returns each offered key with its effect.
pub fn explained(question: &ApprovalRequest) -> Vec<(&'static str, String)> {
    let hours = GRANT_TTL_MS / 3_600_000;
    let session = format!("for this session, until the daemon stops or {hours} hours have passed");
    let yes = match question.effect.typed_yes {
        true => "yes",
        false => "y",
    };
    let mut keys = vec![
        (yes, "yes, this once, with these arguments".to_string()),
        ("n, Enter", "no".to_string()),
    ];
    let beyond = [
        (
            "t",
            ApprovalScope::Tool,
            format!("allow this tool {session}, with any arguments"),
        ),
        (
            "r",
            ApprovalScope::Reads,
            format!("allow {} {session}", reading_tools(question)),
        ),
        (
            "A",
            ApprovalScope::Always,
            "always allow this tool (adds a rule to config.toml; press A twice)".to_string(),
        ),
    ];
    for (key, offer, does) in beyond {
        if offers(question, offer) {
            keys.push((key, does));
        }
    }
    for (key, does) in [
        (
            "e",
            "edit the arguments; the edited call is asked about again",
        ),
        ("d", "no, and send the model a reason"),
        ("↓", "show all arguments"),
        ("Ctrl-C", "deny and stop the answer"),
    ] {
        keys.push((key, does.to_string()));
    }
    keys
}
