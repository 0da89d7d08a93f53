//! The notice about prompts that later requests leave out. Pure.

use crate::context;
use crate::history::record::{Record, RecordBody};

/// Added where an older message may be the cause.
const IF_AGAIN: &str = "; if they are refused too, start a new session with `llm --new`";

/// Returns the notice after the request of the last prompt was refused, if prompts are left out for it.
pub fn left_out_notice(records: &[Record]) -> Option<String> {
    let is_prompt = |at: &usize| matches!(records[*at].body, RecordBody::User { .. });
    let mut newest = (0..records.len()).rev().filter(is_prompt);
    let (last, previous) = (newest.next()?, newest.next());
    let left_out = context::left_out(records);
    if left_out.contains(&last) {
        let more = match previous {
            Some(at) if left_out.contains(&at) => IF_AGAIN,
            _ => "",
        };
        let context = context_of(&records[last]);
        return Some(format!(
            "later requests leave this prompt out{context}{more}"
        ));
    }
    let before = context::left_out(&records[..last]);
    let mut new = left_out.difference(&before);
    let prompts = match (new.next(), new.next()) {
        (None, _) => return None,
        (at, None) if at == previous.as_ref() => "the prompt before this one",
        _ => "earlier prompts that were not answered",
    };
    Some(format!("later requests leave out {prompts}{IF_AGAIN}"))
}

/// Says what was sent with a prompt.
fn context_of(record: &Record) -> String {
    let RecordBody::User {
        text,
        content,
        images,
        ..
    } = &record.body
    else {
        return String::new();
    };
    let context = content.strip_suffix(text.as_str()).unwrap_or_default();
    let has = |tag: &str| context.lines().any(|line| line.starts_with(tag));
    let parts = [
        (has("<output "), "output"),
        (has("<file "), "input"),
        (!images.is_empty(), "image"),
    ];
    let parts = parts.into_iter().filter(|(is_sent, _)| *is_sent);
    let parts: Vec<&str> = parts.map(|(_, name)| name).collect();
    match parts.as_slice() {
        [] => String::new(),
        _ => format!(", and the {} that came with it", parts.join(" and ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(fields: &str) -> Record {
        let text = format!("{{\"v\":2,\"id\":\"x\",\"timestamp_ms\":1,{fields}}}");
        serde_json::from_str(&text).unwrap()
    }

    fn prompt(content: &str, more: &str) -> Record {
        record(&format!(
            r#""type":"user","prompt":"a","rendered":"{content}a","shell":null,"cwd":"/"{more}"#
        ))
    }

    fn failed(more: &str) -> Record {
        record(&format!(
            r#""type":"assistant","model":"m","duration_ms":1,"text":"","finish":"error"{more}"#
        ))
    }

    #[test]
    fn the_notice_names_what_is_left_out() {
        let this = "later requests leave this prompt out";
        let refused = failed(r#","refused":true"#);
        let image = r#","images":[["image/png","AA"]]"#;
        for (content, more, expected) in [
            ("", "", ""),
            ("<commands>\\n</commands>\\n\\n", "", ""),
            (
                "<output command=\\\"ls\\\">\\nx\\n</output>\\n\\n",
                "",
                ", and the output that came with it",
            ),
            (
                "<file name=\\\"stdin\\\">\\nx\\n</file>\\n\\n",
                "",
                ", and the input that came with it",
            ),
            (
                "<file name=\\\"x\\\">\\nx\\n</file>\\n\\n",
                image,
                ", and the input and image that came with it",
            ),
        ] {
            let records = [prompt(content, more), refused.clone()];
            let notice = left_out_notice(&records).unwrap();
            assert_eq!(notice, format!("{this}{expected}"));
        }

        let rejected = failed(r#","rejected":true"#);
        let plain = || prompt("", "");
        assert_eq!(left_out_notice(&[plain(), rejected.clone()]), None);
        let again = [plain(), rejected.clone(), plain(), rejected.clone()];
        let before = format!("later requests leave out the prompt before this one{IF_AGAIN}");
        assert_eq!(left_out_notice(&again), Some(before));
        let later = [
            plain(),
            rejected.clone(),
            plain(),
            failed(""),
            plain(),
            rejected,
        ];
        let earlier =
            format!("later requests leave out earlier prompts that were not answered{IF_AGAIN}");
        assert_eq!(left_out_notice(&later), Some(earlier));
        let twice = [plain(), refused.clone(), plain(), refused];
        let this = format!("{this}{IF_AGAIN}");
        assert_eq!(left_out_notice(&twice), Some(this));
    }
}
