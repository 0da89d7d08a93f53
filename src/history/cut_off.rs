//! Turns that were cut off: records that a killed daemon could not write.

use super::record::{
    ApprovalDecision, Call, DecidedBy, INTERRUPTED, Record, RecordBody, RecordIds,
};
use crate::chat::{CallStatus, FinishReason};

/// Cause in the record of a call without a result.
const DAEMON_ENDED: &str = "the daemon ended before the call had a result";

/// Returns the records that are missing behind the last answer of a session, because its daemon was killed during the tool calls of
/// that answer: for each call without a result the record that a stopped turn has, then an empty answer that says that the
/// turn was cut off. Empty if all results are there, or if another prompt followed.
pub(super) fn missing_records(records: &[Record]) -> Vec<(RecordIds, RecordBody)> {
    let mut newest = records.iter().enumerate().rev();
    let last = newest.find(|(_, record)| {
        matches!(
            record.body,
            RecordBody::User { .. } | RecordBody::Compaction { .. } | RecordBody::Assistant { .. }
        )
    });
    let Some((at, answer)) = last else {
        return Vec::new();
    };
    let RecordBody::Assistant { calls, model, .. } = &answer.body else {
        return Vec::new();
    };
    let after = &records[at + 1..];
    let results = after.iter().filter_map(|record| match &record.body {
        RecordBody::Tool { call, .. } => Some(call),
        _ => None,
    });
    let mut results: Vec<&String> = results.collect();
    // Two calls of an answer can have the same id.
    let has_no_result = |call: &&Call| match results.iter().position(|id| **id == call.id) {
        Some(result) => {
            results.swap_remove(result);
            false
        }
        None => true,
    };
    let open: Vec<&Call> = calls.iter().filter(has_no_result).collect();
    if open.is_empty() {
        return Vec::new();
    }
    let mut missing: Vec<(RecordIds, RecordBody)> = open
        .into_iter()
        .map(|call| (answer.ids.clone(), interrupted(call, after)))
        .collect();
    missing.push(unsent_round(&answer.ids, model.clone()));
    missing
}

/// Returns an empty answer that was cut off before its request was sent, in a round that follows the one with these ids.
pub(super) fn unsent_round(ids: &RecordIds, model: String) -> (RecordIds, RecordBody) {
    let ids = RecordIds {
        turn: Some(uuid::Uuid::now_v7().to_string()),
        ..ids.clone()
    };
    (ids, cut_off_answer(String::new(), model, Some(0.0), 0))
}

/// Returns an answer that was cut off when the daemon was killed.
pub(super) fn cut_off_answer(
    text: String,
    model: String,
    cost: Option<f64>,
    ms: u64,
) -> RecordBody {
    RecordBody::Assistant {
        text,
        calls: Vec::new(),
        native: None,
        model,
        finish: FinishReason::CutOff,
        error: None,
        omitted: 0,
        prompt_tokens: None,
        completion_tokens: None,
        cache_read_tokens: 0,
        cache_write_tokens: 0,
        reasoning_tokens: 0,
        provider: None,
        cost,
        cost_estimated: false,
        refused: false,
        rejected: false,
        ms,
    }
}

/// Returns the record of a call without a result, with what the decision on the call says, if there is one `after` the answer.
fn interrupted(call: &Call, after: &[Record]) -> RecordBody {
    let decided = after.iter().rev().find_map(|record| match &record.body {
        RecordBody::Approval {
            call: id,
            name,
            decision,
            why,
            arguments,
            act,
            ..
        } if *id == call.id => Some((name, decided_by(*decision), why, arguments, act)),
        _ => None,
    });
    let (name, by, why, arguments, act) = match decided {
        Some((name, by, why, arguments, act)) => {
            let why = why.clone().filter(|_| by.is_some());
            (name, by, why, arguments, act.clone())
        }
        None => (&call.name, None, None, &call.arguments, None),
    };
    RecordBody::Tool {
        call: call.id.clone(),
        name: name.clone(),
        status: CallStatus::Interrupted,
        text: INTERRUPTED.to_owned(),
        images: Vec::new(),
        error: Some(DAEMON_ENDED.to_owned()),
        bytes: 0,
        ms: 0,
        act,
        arguments: Some(arguments.clone()),
        by,
        why,
        digest: None,
        files: Vec::new(),
    }
}

/// Returns who allowed a call; `None` if nobody did.
fn decided_by(decision: ApprovalDecision) -> Option<DecidedBy> {
    match decision {
        ApprovalDecision::Once
        | ApprovalDecision::Tool
        | ApprovalDecision::Reads
        | ApprovalDecision::Server
        | ApprovalDecision::Always => Some(DecidedBy::Person),
        ApprovalDecision::Rule => Some(DecidedBy::Rule),
        ApprovalDecision::No
        | ApprovalDecision::Stop
        | ApprovalDecision::NoTerminal
        | ApprovalDecision::TimedOut
        | ApprovalDecision::Cancelled
        | ApprovalDecision::Denied
        | ApprovalDecision::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(turn: &str, fields: &str) -> Record {
        let text = format!(
            r#"{{"v":2,"id":"x","timestamp_ms":1,{fields},"ids":{{"prompt":"p","turn":"{turn}"}}}}"#
        );
        serde_json::from_str(&text).expect("a record")
    }

    fn prompt() -> Record {
        record(
            "",
            r#""type":"user","prompt":"a","rendered":"a","shell":null,"cwd":"/""#,
        )
    }

    fn answer(turn: &str, calls: &[&str]) -> Record {
        let call = |id: &&str| format!(r#"{{"id":"{id}","name":"t","arguments":"{{}}"}}"#);
        let calls: Vec<String> = calls.iter().map(call).collect();
        let calls = calls.join(",");
        record(
            turn,
            &format!(
                r#""type":"assistant","text":"A","calls":[{calls}],"model":"m","finish":"stop","duration_ms":1"#
            ),
        )
    }

    fn result(call: &str) -> Record {
        let fields = format!(
            r#""type":"tool","call":"{call}","name":"t","status":"success","text":"","bytes":0,"duration_ms":1"#
        );
        record("t", &fields)
    }

    /// The missing records in a few words.
    fn missing(records: &[Record]) -> Vec<String> {
        let words = |(ids, body): &(RecordIds, RecordBody)| match body {
            RecordBody::Tool {
                call, status, text, ..
            } => {
                assert_eq!(ids, &record("t", r#""type":"title","title":"""#).ids);
                format!("{call} {} {text}", status.as_str())
            }
            RecordBody::Assistant { text, finish, .. } => {
                assert_eq!((ids.prompt.as_deref(), text.as_str()), (Some("p"), ""));
                assert_ne!(ids.turn.as_deref(), Some("t"));
                finish.as_str().to_owned()
            }
            other => format!("{other:?}"),
        };
        missing_records(records).iter().map(words).collect()
    }

    #[test]
    fn calls_without_a_result_are_interrupted_and_the_turn_is_cut_off() {
        let interrupted = |call: &str| format!("{call} interrupted {INTERRUPTED}");
        let end = || "cut_off".to_owned();
        let waiting = record("", r#""type":"waiting_prompt","prompt":"next""#);
        for (records, expected) in [
            (
                vec![prompt(), answer("t", &["a", "b"])],
                vec![interrupted("a"), interrupted("b"), end()],
            ),
            (
                vec![
                    prompt(),
                    answer("t", &["a", "b", "a"]),
                    result("a"),
                    waiting,
                ],
                vec![interrupted("b"), interrupted("a"), end()],
            ),
            // An earlier round had a call with the same id.
            (
                vec![
                    prompt(),
                    answer("s", &["a"]),
                    result("a"),
                    answer("t", &["a"]),
                ],
                vec![interrupted("a"), end()],
            ),
            // Nothing is missing, or it is too late.
            (vec![prompt(), answer("t", &["a"]), result("a")], vec![]),
            (vec![prompt(), answer("t", &[])], vec![]),
            (vec![prompt(), answer("t", &["a"]), prompt()], vec![]),
            (vec![prompt()], vec![]),
            (vec![], vec![]),
        ] {
            assert_eq!(missing(&records), expected);
        }
    }

    #[test]
    fn a_decision_says_what_was_called_and_who_allowed_it() {
        for (decision, expected) in [
            ("once", Some(DecidedBy::Person)),
            ("rule", Some(DecidedBy::Rule)),
            ("cancelled", None),
        ] {
            let approval = format!(
                r#""type":"approval","call":"a","name":"s.t","decision":"{decision}","arguments":"[]""#
            );
            let records = [prompt(), answer("t", &["a"]), record("t", &approval)];
            let missing = missing_records(&records);
            let RecordBody::Tool {
                name,
                by,
                arguments,
                error,
                ..
            } = &missing[0].1
            else {
                panic!("{missing:?}")
            };
            assert_eq!((name.as_str(), *by), ("s.t", expected));
            assert_eq!(arguments.as_deref(), Some("[]"));
            assert!(error.is_some());
        }
    }
}
