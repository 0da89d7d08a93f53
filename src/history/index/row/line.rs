//! The fields of a line of the journal that the index needs.

use std::borrow::Cow;

use serde::Deserialize;

/// The fields of all types that the index needs. Texts without escapes are borrowed, since a whole journal may be read at
/// once.
#[derive(Debug, Deserialize)]
pub(super) struct IndexedLine<'a> {
    #[serde(borrow)]
    pub(super) id: Cow<'a, str>,
    #[serde(rename = "timestamp_ms", alias = "at_ms")]
    pub(super) at_ms: u64,
    #[serde(borrow, rename = "type")]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, default, alias = "prompt")]
    pub(super) text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) calls: Vec<Named<'a>>,
    #[serde(borrow, default)]
    pub(super) finish: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) error: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) decision: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) status: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "decided_by", alias = "by")]
    pub(super) by: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "action", alias = "act")]
    pub(super) act: Option<IndexedAction<'a>>,
    #[serde(borrow, default)]
    pub(super) model: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) change: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "rule", alias = "what")]
    pub(super) what: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) alias: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) event: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) target: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) choice: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) command: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) exit: Option<i64>,
    #[serde(default, alias = "ms")]
    pub(super) duration_ms: Option<u64>,
    #[serde(default)]
    pub(super) start_ms: Option<u64>,
    #[serde(borrow, default)]
    pub(super) session: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) shell: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) pack: Option<Named<'a>>,
    #[serde(borrow, default)]
    pub(super) provider: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) prompt_tokens: Option<u64>,
    #[serde(default)]
    pub(super) completion_tokens: Option<u64>,
    #[serde(default)]
    pub(super) cache_read_tokens: u64,
    #[serde(default)]
    pub(super) cache_write_tokens: u64,
    #[serde(default)]
    pub(super) reasoning_tokens: u64,
    #[serde(default)]
    pub(super) cost: Option<f64>,
    #[serde(default)]
    pub(super) cost_estimated: bool,
    #[serde(default)]
    pub(super) output: Option<IndexedOutput>,
    #[serde(borrow, default, rename = "ids", alias = "links")]
    pub(super) links: IndexedIds<'a>,
}

/// The output that was sent with a prompt.
#[derive(Debug, Deserialize)]
pub(super) struct IndexedOutput {
    #[serde(default)]
    pub(super) started_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Named<'a> {
    #[serde(borrow)]
    pub(super) name: Cow<'a, str>,
}

#[derive(Debug, Deserialize)]
pub(super) struct IndexedAction<'a> {
    #[serde(borrow)]
    pub(super) server: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) tool: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) operation: Cow<'a, str>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct IndexedIds<'a> {
    #[serde(borrow, default)]
    pub(super) session: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) request: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) command: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) prompt: Option<Cow<'a, str>>,
}

/// What a line of any later version has, too.
#[derive(Debug, Deserialize)]
pub(super) struct Bare<'a> {
    #[serde(borrow)]
    pub(super) id: Cow<'a, str>,
    #[serde(rename = "timestamp_ms", alias = "at_ms")]
    pub(super) at_ms: u64,
    #[serde(borrow, rename = "type")]
    pub(super) kind: Cow<'a, str>,
}
