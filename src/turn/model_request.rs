//! The request of one round: to the provider of the model, or to another aish server.

use tokio::sync::mpsc::Sender;
use tokio_util::sync::CancellationToken;

use super::outbound_redaction;
use crate::broker::aish_server::ServerPrompt;
use crate::chat::tokens::message_tokens;
use crate::chat::{ChatMessage, FinishReason, StreamItem, ToolDefinition};
use crate::context::{Conversation, FittedMessages};
use crate::error::Result;
use crate::history::record::{RecordBody, RecordIds};
use crate::history::session_list::stored_title;
use crate::safety::budget::SpendingPermit;
use crate::safety::redact::global_redactor;
use crate::services::SharedServices;
use crate::services::model::ChosenModel;
use crate::session::conversation::Session;

/// The setting of a session that names the session of another server in which its prompts are answered: the origin of the
/// server, a space, and the id.
const SERVER_SESSION: &str = "server_session";

/// The messages and the tools of a request.
pub(super) type Request<'a> = (&'a [ChatMessage], &'a [ToolDefinition]);

/// Sends a request, without secrets, and its answer to `sender`.
///
/// # Errors
/// The request failed.
pub(super) async fn send(
    services: &SharedServices,
    chosen: &ChosenModel,
    session: &Session,
    (messages, tools): Request<'_>,
    permit: &SpendingPermit,
    cancel: &CancellationToken,
    sender: Sender<StreamItem>,
) -> Result<FinishReason> {
    let messages = outbound_redaction::messages(messages);
    let (broker, endpoint) = (&services.broker, &chosen.endpoint);
    let result = match chosen.is_aish_server {
        true => {
            let known = server_session(session, chosen);
            let title = server_title(session, &messages);
            let prompt = ServerPrompt {
                title: title.as_deref(),
                ..server_prompt(chosen, known.as_deref(), &messages)
            };
            broker.ask_server(prompt, permit, cancel, &sender).await
        }
        false => {
            let tools = outbound_redaction::tools(tools);
            broker
                .stream(endpoint, &messages, &tools, permit, cancel, &sender)
                .await
        }
    };
    if let Err(e) = &result {
        services.models.failed(chosen, e);
    }
    result
}

/// Returns the address and the body of the request that [`send`] would send.
///
/// # Errors
/// The address of the model is invalid.
pub(super) fn preview(
    services: &SharedServices,
    chosen: &ChosenModel,
    session: &Session,
    (messages, tools): Request<'_>,
    permit: &SpendingPermit,
) -> Result<(String, Vec<u8>)> {
    let messages = outbound_redaction::messages(messages);
    if chosen.is_aish_server {
        let known = server_session(session, chosen);
        return server_prompt(chosen, known.as_deref(), &messages).preview();
    }
    let tools = outbound_redaction::tools(tools);
    let (broker, endpoint) = (&services.broker, &chosen.endpoint);
    broker.preview(endpoint, &messages, &tools, permit)
}

/// Returns the part of a conversation for another server: the prompt. That server has the earlier part in a separate session.
pub(super) fn for_server(mut conversation: Conversation) -> FittedMessages {
    let messages: Vec<ChatMessage> = conversation.messages.pop().into_iter().collect();
    FittedMessages {
        estimate: messages.iter().map(message_tokens).sum(),
        messages,
        dropped: 0,
    }
}

fn server_prompt<'a>(
    chosen: &'a ChosenModel,
    session: Option<&'a str>,
    messages: &'a [ChatMessage],
) -> ServerPrompt<'a> {
    ServerPrompt {
        endpoint: &chosen.endpoint,
        session,
        text: messages.last().map(ChatMessage::text).unwrap_or_default(),
        title: None,
    }
}

/// Returns the title of a new session of another server: the typed text, if attachments or output precede it. That server sees
/// one text only, and would make the title of its beginning.
fn server_title(session: &Session, messages: &[ChatMessage]) -> Option<String> {
    let sent = messages.last().map(ChatMessage::text).unwrap_or_default();
    let typed = session.with_records(|records| {
        records.iter().rev().find_map(|record| match &record.body {
            RecordBody::User { text, .. } => Some(global_redactor().redact(text).into_owned()),
            _ => None,
        })
    })?;
    stored_title(&typed).filter(|_| typed != sent)
}

/// Returns the session of the server in which the prompts of this one are answered.
fn server_session(session: &Session, chosen: &ChosenModel) -> Option<String> {
    session.with_records(|records| {
        records.iter().rev().find_map(|record| match &record.body {
            RecordBody::SessionSetting {
                setting,
                value: Some(value),
            } if setting == SERVER_SESSION => {
                let (origin, id) = value.split_once(' ')?;
                (origin == chosen.name).then(|| id.to_owned())
            }
            _ => None,
        })
    })
}

/// Records the session of the server, so that the next prompt continues it.
///
/// # Errors
/// The session has no file.
pub(super) fn remember_session(
    session: &Session,
    ids: &RecordIds,
    chosen: &ChosenModel,
    id: &str,
) -> Result<()> {
    let body = RecordBody::SessionSetting {
        setting: SERVER_SESSION.to_owned(),
        value: Some(format!("{} {id}", chosen.name)),
    };
    session.record(ids, body)
}
