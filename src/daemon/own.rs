//! The tools of our own that a model is offered beside those of servers: they look at what is here, so that nobody is
//! asked about them.

use std::time::Instant;

use serde_json::{Map, Value};

use super::calls::{self, elapsed};
use super::connection::Connection;
use super::gate::Round;
use super::outcome::{Account, Outcome, Used};
use crate::chat::{Operation, ToolCall};
use crate::error::{Error, Result};
use crate::history::journal::now_ms;
use crate::protocol::Event;
use crate::protocol::kind;
use crate::protocol::tools::{Begin, End};
use crate::tools::results::Reading;
use crate::tools::search::Wanted;
use crate::tools::split;

/// Whether a tool is one of them.
pub fn is_own(name: &str) -> bool {
    matches!(name, split::RETRIEVE | split::READ_RESULT)
}

/// Makes a call of one of them.
pub async fn call(round: &Round<'_>, connection: &mut Connection, call: &ToolCall) -> Used {
    let begun = Instant::now();
    let begin = Begin {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
        rule: None,
        operation: Operation::Read,
        warning: None,
    };
    calls::tell(connection, round.cancel, &Event::ToolCallStarted(begin)).await;
    let outcome = unless_cancelled(round, connection, answer(round, call)).await;
    let ms = elapsed(begun);
    let bytes = match &outcome {
        Outcome::Said { bytes, .. } => *bytes,
        _ => 0,
    };
    let end = End {
        id: call.id.clone(),
        name: call.name.clone(),
        status: outcome.status(),
        ms,
        bytes,
        head: String::new(),
        more: 0,
        notes: Vec::new(),
    };
    calls::tell(connection, round.cancel, &Event::ToolCallFinished(end)).await;
    Used {
        id: call.id.clone(),
        outcome,
        ms,
        account: Account {
            arguments: Some(call.arguments.clone()),
            ..Account::default()
        },
    }
}

/// What the tool says; what is wrong with the call, it says too.
async fn answer(round: &Round<'_>, call: &ToolCall) -> Outcome {
    let arguments: Map<String, Value> = serde_json::from_str(&call.arguments).unwrap_or_default();
    let said = match call.name.as_str() {
        split::RETRIEVE => match Wanted::read(&arguments) {
            Ok(wanted) => retrieve(round, wanted).await.map(Ok),
            Err(why) => Ok(Err(why)),
        },
        _ => match Reading::read(&arguments, round.config.mcp.max_result_bytes) {
            Ok(reading) => read_on(round, reading).await,
            Err(why) => Ok(Err(why)),
        },
    };
    let (text, is_error) = match said {
        Ok(Ok(text)) => (text, false),
        Ok(Err(why)) => (why, true),
        Err(e) => return Outcome::Failed(e.message),
    };
    Outcome::Said {
        is_error,
        images: Vec::new(),
        bytes: text.len() as u64,
        digest: calls::digest(&text),
        edited: None,
        text,
    }
}

/// The tools that fit; cut like any result, since each brings its schema.
async fn retrieve(round: &Round<'_>, wanted: Wanted) -> Result<String> {
    let finder = &round.daemon.finder;
    let found = finder.retrieve(&round.catalog.tools, wanted).await?;
    Ok(calls::fit(round, found.to_string()).await?.0)
}

async fn read_on(
    round: &Round<'_>,
    reading: Reading,
) -> Result<std::result::Result<String, String>> {
    let (results, session) = (round.daemon.results.clone(), round.session.id.clone());
    let read = move || results.read(&session, &reading, now_ms());
    let read = tokio::task::spawn_blocking(read).await;
    read.map_err(|e| Error::runtime(format!("cannot read the result: {e}")))
}

/// Waits for the outcome, unless the person's Ctrl-C or the end of all comes first.
async fn unless_cancelled(
    round: &Round<'_>,
    connection: &mut Connection,
    work: impl Future<Output = Outcome>,
) -> Outcome {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            outcome = work.as_mut() => return outcome,
            () = round.cancel.cancelled() => return Outcome::Interrupted,
            frame = connection.read() => match frame {
                // To a question that has lapsed.
                Ok(Some((kind::REACTION, _))) => {}
                _ => round.cancel.cancel(),
            },
        }
    }
}
