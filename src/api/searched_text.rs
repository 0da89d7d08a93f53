//! The texts of records as clients get them. A secret in one may be known only since it was recorded, so each is searched when it is
//! sent: once for all streams that send it at that time, and not for each piece.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::OnceCell;

use super::proposals::find_proposals;
use super::types::ProposalView;
use crate::history::record::{Call, Record, RecordBody};
use crate::safety::redact::global_redactor;
use crate::safety::utf8;
use crate::session::conversation::Session;

/// Maximum size of the text of one event, in bytes, so that a client that does not read holds little memory.
pub const MAX_TEXT: usize = 4096;

/// Size up to which each stream searches a text itself, in bytes.
const SMALL: usize = MAX_TEXT;

/// Size from which a text is searched on another thread, in bytes: other work must not wait for that.
const LARGE: usize = 64 << 10;

/// The text of a prompt, an answer or a tool result that a stream is about to send. Empty until it is searched.
#[derive(Debug, Default)]
pub struct SearchedText {
    /// Id of the record.
    record: String,
    /// Number of the secrets that were known.
    secrets: u64,
    found: OnceCell<FoundText>,
}

#[derive(Debug)]
struct FoundText {
    /// The text without secrets; `None` if it contains none.
    redacted: Option<String>,
    arguments: Vec<ShownArguments>,
    proposals: Vec<ProposalView>,
}

/// The beginning of the arguments of a call.
#[derive(Debug, Clone)]
pub struct ShownArguments {
    pub shown: String,
    /// Number of bytes that follow.
    pub omitted: usize,
}

/// A copy of what is searched, for another thread.
struct Unsearched {
    text: String,
    calls: Vec<Call>,
    /// Whether it is an answer, and if so, whether it is whole.
    answer: Option<bool>,
}

impl Unsearched {
    fn of(body: &RecordBody) -> Option<Unsearched> {
        let (text, calls) = text_of(body)?;
        let is_answer = matches!(body, RecordBody::Assistant { .. });
        Some(Unsearched {
            text: text.to_owned(),
            calls: calls.to_vec(),
            answer: is_answer.then(|| body.is_whole_answer()),
        })
    }

    fn search(self) -> FoundText {
        let shown = global_redactor().redact(&self.text);
        FoundText {
            arguments: self.calls.iter().map(shown_arguments).collect(),
            proposals: match self.answer {
                Some(is_whole) => find_proposals(&shown, is_whole),
                None => Vec::new(),
            },
            redacted: match shown {
                Cow::Owned(redacted) => Some(redacted),
                Cow::Borrowed(_) => None,
            },
        }
    }
}

/// Returns the text of a record that is sent in parts or cut, and its calls.
fn text_of(body: &RecordBody) -> Option<(&str, &[Call])> {
    match body {
        RecordBody::Assistant { text, calls, .. } => Some((text, calls)),
        RecordBody::User { text, .. } | RecordBody::Tool { text, .. } => Some((text, &[])),
        _ => None,
    }
}

/// Returns the arguments of a call as clients get them.
fn shown_arguments(call: &Call) -> ShownArguments {
    let arguments = global_redactor().redact_json(&call.arguments);
    let shown = utf8::prefix(&arguments, MAX_TEXT);
    ShownArguments {
        shown: shown.to_owned(),
        omitted: arguments.len() - shown.len(),
    }
}

impl SearchedText {
    /// Whether it is that of a record, or the record has none.
    pub fn is_of(&self, record: &Record) -> bool {
        self.record == record.id || text_of(&record.body).is_none()
    }

    fn found(&self, record: &Record) -> Option<&FoundText> {
        (self.record == record.id)
            .then(|| self.found.get())
            .flatten()
    }

    /// Returns the text of a record without secrets.
    pub fn text<'t>(&'t self, record: &Record, text: &'t str) -> Cow<'t, str> {
        match self.found(record) {
            Some(found) => found.redacted.as_deref().unwrap_or(text).into(),
            None => global_redactor().redact(text),
        }
    }

    /// Returns the beginning of the arguments of a call of a record.
    pub fn arguments(&self, record: &Record, number: usize, call: &Call) -> ShownArguments {
        let found = self
            .found(record)
            .and_then(|found| found.arguments.get(number));
        found.cloned().unwrap_or_else(|| shown_arguments(call))
    }

    /// Returns the proposals of a record with this text.
    pub fn proposals(&self, record: &Record, text: &str) -> Cow<'_, [ProposalView]> {
        match self.found(record) {
            Some(found) => Cow::Borrowed(&found.proposals),
            None => find_proposals(text, record.body.is_whole_answer()).into(),
        }
    }
}

/// The larger texts that streams hold now.
#[derive(Debug, Default)]
pub struct SearchedTexts(Mutex<Vec<Weak<SearchedText>>>);

impl SearchedTexts {
    /// Returns the text of a record of a session.
    pub async fn of(&self, session: &Session, number: usize) -> Arc<SearchedText> {
        let known = session.with_records(|records| {
            let record = records.get(number)?;
            let (text, calls) = text_of(&record.body)?;
            let arguments: usize = calls.iter().map(|call| call.arguments.len()).sum();
            Some((record.id.clone(), text.len() + arguments))
        });
        let Some((record, size)) = known else {
            return Arc::default();
        };
        let text = match size {
            ..=SMALL => Arc::new(new(record, global_redactor().value_count())),
            _ => self.shared(record),
        };
        let search = async || {
            let body = |records: &[Record]| Unsearched::of(&records.get(number)?.body);
            let unsearched = session.with_records(body).ok_or(())?;
            match size {
                ..=LARGE => Ok(unsearched.search()),
                // It panics only if the program has a fault; the text is then searched for each piece.
                _ => tokio::task::spawn_blocking(move || unsearched.search())
                    .await
                    .map_err(|_| ()),
            }
        };
        // The others wait; if the stream that searches is closed, the next one begins anew.
        let _: Result<&FoundText, ()> = text.found.get_or_try_init(search).await;
        text
    }

    fn shared(&self, record: String) -> Arc<SearchedText> {
        let secrets = global_redactor().value_count();
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|text| text.strong_count() > 0);
        let is_same = |text: &Arc<SearchedText>| text.record == record && text.secrets == secrets;
        if let Some(text) = held.iter().filter_map(Weak::upgrade).find(is_same) {
            return text;
        }
        let text = Arc::new(new(record, secrets));
        held.push(Arc::downgrade(&text));
        text
    }
}

fn new(record: String, secrets: u64) -> SearchedText {
    SearchedText {
        record,
        secrets,
        found: OnceCell::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::history::record::RecordIds;
    use serde_json::json;

    const VALUE: &str = "Vq7-nothing-known-of-it-yet-2931";

    fn session(text: &str) -> Arc<Session> {
        let session = Session::outside(Err(Error::runtime("no file")));
        let body = json!({ "type": "assistant", "text": text, "calls": [], "model": "m", "finish": "stop", "duration_ms": 0 });
        // The session has no file; the record is kept in memory.
        let _ = session.record(&RecordIds::default(), serde_json::from_value(body).unwrap());
        session
    }

    fn shown(searched: &SearchedText, session: &Session) -> String {
        session.with_records(|records| {
            let RecordBody::Assistant { text, .. } = &records[0].body else {
                panic!("{records:?}");
            };
            assert!(searched.found(&records[0]).is_some());
            searched.text(&records[0], text).into_owned()
        })
    }

    #[tokio::test]
    async fn streams_share_a_search_until_another_secret_is_known() {
        for size in [2 * SMALL, 2 * LARGE] {
            let value = format!("{VALUE}{size}");
            let session = session(&format!("{value}\n{}", "word ".repeat(size / 5)));
            let texts = SearchedTexts::default();
            let (one, two) = tokio::join!(texts.of(&session, 0), texts.of(&session, 0));
            assert!(Arc::ptr_eq(&one, &two));
            assert!(shown(&one, &session).starts_with(&value));
            global_redactor().add_secret("test", &value);
            let three = texts.of(&session, 0).await;
            assert!(!shown(&three, &session).contains(&value));
            drop((one, two, three));
            texts.of(&session, 0).await;
            assert_eq!(texts.0.lock().unwrap().len(), 1, "the others were dropped");
        }
    }

    #[tokio::test]
    async fn a_stream_that_is_closed_while_it_searches_leaves_the_search_to_the_next() {
        let session = session(&"word ".repeat(LARGE));
        let texts = SearchedTexts::default();
        let mut first = Box::pin(texts.of(&session, 0));
        let second = async {
            assert!(futures_util::poll!(&mut first).is_pending());
            let waiting = texts.of(&session, 0);
            drop(first);
            waiting.await
        };
        let second = second.await;
        assert_eq!(shown(&second, &session).len(), 5 * LARGE);
    }
}
