//! Serves one client: checks its version, reads its request and passes it to the module in charge.

use std::sync::Arc;
use std::time::Duration;

use interprocess::local_socket::tokio::Stream;
use interprocess::local_socket::traits::StreamCommon;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::client_link::{ClientLink, drive};
use super::frames::Connection;
use super::peer::Peer;
use super::pending_greetings::{ClientPeer, greet};
use super::request_link::{connect, end_frame, holding, reply};
use super::{
    Daemon, attach, changes, command_approval, http_server, policy, prompts, server_models,
};
use crate::error::{Error, Result};
use crate::history::record::RecordIds;
use crate::protocol::{
    AttachRequest, CommandChoice, Event, Request, RequestFailure, ShellId, kind,
};
use crate::requests::{self, manual_call, mcp, session_settings, share};
use crate::turn::rules_in_force::RequestContext;
use crate::turn::terminal_output::WantedOutput;
use crate::turn::{background_notice, terminal_output};

/// How long an output pump may take to send the captured output.
const CAPTURE_DEADLINE: Duration = Duration::from_secs(5);
/// Maximum number of clients at a time; a request to stop is served beyond it.
const MAX_CLIENTS: usize = 256;

/// Serves one client until it has its reply.
pub async fn serve(daemon: Arc<Daemon>, stream: Stream) {
    // The directory's mode keeps other users out; this check holds even if that mode was changed.
    let credentials = stream.peer_creds().ok();
    let uid = credentials.as_ref().and_then(|c| c.euid());
    if uid != Some(nix::unistd::geteuid().as_raw()) {
        tracing::warn!(?uid, "rejected a client of another user");
        return;
    }
    let record_ids = RecordIds {
        user: daemon.services.user.clone(),
        request: Some(uuid::Uuid::now_v7().to_string()),
        ..RecordIds::default()
    };
    let mut peer = ClientPeer {
        connection: Connection::new(stream),
        process: Peer::new(&daemon, credentials.and_then(|c| c.pid()), &record_ids),
        is_read_only: false,
        record_ids,
    };
    let greeting = daemon.greetings.admit();
    let greeted = tokio::select! {
        biased;
        greeted = greet(&daemon, &mut peer) => greeted,
        () = greeting.cancelled() => Err(Error::runtime("too many clients have sent no request")),
    };
    greeting.cancel();
    match greeted {
        Ok(Some(request)) => {
            // The daemon does not exit while this is held: it is dropped before anything waits for the client.
            let work = daemon.services.tasks.token();
            let is_full = daemon.connections.len() > MAX_CLIENTS;
            let served = match is_full && !matches!(request, Request::Stop { .. }) {
                true => Err(Error::runtime(format!(
                    "the daemon already serves {MAX_CLIENTS} clients"
                ))
                .hint("end some of them, or run: aish-helper stop --now")),
                false => dispatch(&daemon, &mut peer, request, work).await,
            };
            let sent = match served {
                Ok(Some(reply)) => peer.connection.writer.send(&reply).await,
                Ok(None) => Ok(()),
                Err(e) => {
                    let writer = &mut peer.connection.writer;
                    writer
                        .send_json(kind::FAILURE, &RequestFailure::from(&e))
                        .await
                }
            };
            if let Err(e) = sent {
                tracing::debug!("{}", e.message);
            }
        }
        Ok(None) => {}
        Err(e) => tracing::debug!("{}", e.message),
    }
}

/// Serves a request. Returns the frame of the reply, unless it was sent already.
async fn dispatch(
    daemon: &Arc<Daemon>,
    peer: &mut ClientPeer,
    request: Request,
    work: TaskTrackerToken,
) -> Result<Option<Vec<u8>>> {
    let record_ids = peer.record_ids.clone();
    // Answers to questions are checked when they come.
    peer.process.check_request(&request)?;
    daemon.services.models.refresh().await;
    let frame = match request {
        Request::Ask(request) => return prompts::ask(daemon, peer, *request, work).await,
        Request::Attach(request) => {
            drop(work);
            return watch(daemon, peer, request).await;
        }
        Request::Capture {
            shell,
            token,
            nonce,
        } => {
            drop(work);
            return capture(daemon, peer, &shell, &token, &nonce).await;
        }
        Request::Call(call) => {
            let (client, mut link) = connect(daemon, peer, None, call.tty.clone());
            let call = async { reply(&manual_call::call(&daemon.services, &client, *call).await?) };
            let call = holding(work, call);
            drive(&mut peer.connection, &mut link, call).await
        }
        Request::ServerModels { overrides } => {
            let (client, mut link) = connect(daemon, peer, None, None);
            let list =
                async { reply(&server_models::list(&daemon.services, &client, &overrides).await?) };
            drive(&mut peer.connection, &mut link, holding(work, list)).await
        }
        Request::Preview(request) => return prompts::preview(daemon, peer, *request, work).await,
        Request::Mcp { request, cwd, .. } => {
            let (client, mut link) = connect(daemon, peer, None, None);
            let served = holding(work, mcp::serve(&daemon.services, &client, request, &cwd));
            drive(&mut peer.connection, &mut link, served).await
        }
        Request::Policy {
            request,
            cwd,
            shell,
            overrides,
        } => {
            let (client, mut link) = connect(daemon, peer, shell.clone(), None);
            let context = RequestContext {
                cwd,
                shell,
                overrides,
                pack: None,
                surroundings: Default::default(),
                terminal: None,
                work: None,
            };
            let served = holding(
                work,
                policy::serve(&daemon.services, &client, request, context),
            );
            drive(&mut peer.connection, &mut link, served).await
        }
        Request::Status { shell, overrides } => {
            let (client, mut link) = connect(daemon, peer, shell.clone(), None);
            let status = async {
                let mut status =
                    requests::status(&daemon.services, &client, shell.as_ref(), &overrides).await?;
                let http = daemon.api.status();
                status.http = http.map(|http| http.url.unwrap_or(http.socket));
                reply(&status)
            };
            drive(&mut peer.connection, &mut link, holding(work, status)).await
        }
        Request::ExecDone {
            shell,
            token,
            nonce,
            exit,
        } => {
            let done =
                command_approval::exec_done(daemon, &record_ids, &shell, &token, &nonce, exit);
            let done = done.await;
            peer.process.recorded("a report about a command", done)?;
            Some(reply(&()))
        }
        Request::NextProposal {
            shell,
            cwd,
            overrides,
        } => {
            let next = command_approval::next(daemon, record_ids, &shell, &cwd, &overrides).await?;
            Some(reply(&next))
        }
        Request::CountProposals { shell } => {
            Some(reply(&daemon.services.sessions.count_waiting(&shell)))
        }
        Request::Decide {
            shell,
            token,
            choice,
            command,
            cwd,
            asked,
            continues,
            key,
            overrides,
        } => {
            let what = "a decision on a command";
            let terminal = match choice {
                CommandChoice::Run | CommandChoice::Insert => {
                    peer.process.check_person(what, Some(&shell))?
                }
                CommandChoice::No | CommandChoice::Quit | CommandChoice::Again => {
                    peer.process.check_origin(what)?;
                    None
                }
            };
            let decision = command_approval::ProposalDecision {
                choice,
                command,
                asked,
                continues,
                key,
                terminal,
                processes: peer.process.command_of(&shell),
                overrides,
            };
            let decided =
                command_approval::decide(daemon, record_ids, &shell, &token, &cwd, decision)
                    .await?;
            Some(reply(&decided))
        }
        Request::ConfirmConfig { digest, accept } => {
            peer.process
                .check_person("a change of the configuration", None)?;
            requests::decide_on_changes(&daemon.services, digest, accept).await?;
            Some(reply(&()))
        }
        Request::ApprovePack { sha256 } => {
            peer.process
                .check_person("the approval of a prompt pack", None)?;
            requests::approve_pack(&daemon.services, sha256).await?;
            Some(reply(&()))
        }
        Request::Share(request) => {
            let url = daemon.api.status().and_then(|status| status.url);
            let (client, mut link) = connect(daemon, peer, None, None);
            let served = async {
                let served = share::serve(&daemon.services, &client, request, url.as_deref());
                reply(&served.await?)
            };
            drive(&mut peer.connection, &mut link, holding(work, served)).await
        }
        Request::Server(request) => Some(reply(&http_server::serve(daemon, request).await?)),
        Request::Stop { now } => {
            let writer = &mut peer.connection.writer;
            writer.send_json(kind::REPLY, &()).await?;
            daemon.stop(now);
            None
        }
        Request::Sessions { limit, search } => Some(reply(
            &requests::sessions(&daemon.services, limit, search).await?,
        )),
        Request::ContinueSession { shell, session } => Some(reply(
            &requests::continue_session(&daemon.services, &shell, session, &record_ids).await?,
        )),
        Request::RenameSession {
            session,
            shell,
            title,
        } => {
            let services = &daemon.services;
            let renamed =
                requests::rename_session(services, session, shell.as_ref(), &title, &record_ids);
            Some(reply(&renamed.await?))
        }
        Request::DeleteSession { session } => {
            let (client, mut link) = connect(daemon, peer, None, None);
            let deleted = async {
                let source = share::CredentialSource::Client(&client);
                requests::delete_session(&daemon.services, source, &session).await?;
                reply(&())
            };
            drive(&mut peer.connection, &mut link, holding(work, deleted)).await
        }
        Request::Transcript {
            session,
            shell,
            limit,
            brief,
        } => {
            let transcript =
                requests::transcript(&daemon.services, session, shell, limit, brief).await?;
            Some(reply(&transcript))
        }
        Request::NewSession { shell } => Some(reply(
            &requests::new_session(&daemon.services, &shell, &record_ids).await,
        )),
        Request::UseModel { shell, model } => {
            requests::use_model(&daemon.services, &shell, model, &record_ids).await?;
            Some(reply(&()))
        }
        Request::SessionSettings(request) => Some(reply(
            &session_settings::serve(&daemon.services, request, &record_ids).await?,
        )),
        Request::Changes(request) => Some(reply(
            &changes::serve(&daemon.services, request, &record_ids).await?,
        )),
        Request::TerminalOutput {
            shell,
            tty,
            terminal,
            command,
            cwd,
            words,
        } => {
            let wanted = requests::wanted_output(&daemon.services, shell, tty)?;
            let wanted = WantedOutput {
                terminal,
                command,
                cwd,
                words,
                ..wanted
            };
            Some(reply(
                &terminal_output::read(&daemon.services, wanted).await?,
            ))
        }
        Request::Models { shell, overrides } => Some(reply(
            &requests::models(&daemon.services, shell.as_ref(), &overrides).await?,
        )),
    };
    frame.transpose()
}

/// Shows the running turn of a session, or its last answer.
async fn watch(
    daemon: &Daemon,
    peer: &mut ClientPeer,
    request: AttachRequest,
) -> Result<Option<Vec<u8>>> {
    let session = attach::session(&daemon.services, &request).await?;
    let shell = request.shell.clone();
    let is_of_aish = peer.process.is_of_aish();
    let notice_shown = |shell: &Option<ShellId>| {
        if let Some(shell) = shell.as_ref().filter(|_| !is_of_aish) {
            background_notice::shown(&daemon.services.paths, shell, &session.id);
        }
    };
    notice_shown(&shell);
    let Some(feed) = session.hub.running() else {
        let frames = attach::last_answer(&daemon.services, &session, shell.as_ref())?;
        // A client that reads nothing must not keep the session from being deleted.
        drop(session);
        peer.connection.writer.send_unbounded(&frames).await?;
        return Ok(None);
    };
    notice_shown(&feed.origin.shell);
    if let Some(shell) = &shell {
        daemon.services.sessions.show_waiting(shell, &session.id);
    }
    let attached = Event::Attached {
        session: session.id.clone(),
        prompt: feed.origin.prompt.clone(),
        running: true,
        started_ms: feed.origin.started_ms,
    };
    let writer = &mut peer.connection.writer;
    writer.send_json(kind::EVENT, &attached).await?;
    let can_answer = request.can_answer && !peer.is_read_only;
    let mut link = ClientLink::attach(&feed, peer.process.clone(), can_answer, request.tty);
    // The session stays open while it is watched.
    let end = async {
        let mut end = feed.finished().await;
        // Proposed commands are offered to the shell that started the turn.
        if let Ok(answer) = &mut end
            && shell != feed.origin.shell
        {
            answer.proposals = 0;
        }
        end
    };
    let Some(end) = drive(&mut peer.connection, &mut link, end).await else {
        return Ok(None);
    };
    // Before the reply: the client's shell prints its notices as soon as the client exits.
    notice_shown(&feed.origin.shell);
    let frame = end_frame(&end)?;
    let sent = peer.connection.writer.send_unbounded(&frame).await;
    if sent.is_err() {
        background_notice::turn_ended(&daemon.services, &feed, &end);
    }
    sent.map(|()| None)
}

/// Serves an output pump: waits until its command has ended, requests the output and records it.
async fn capture(
    daemon: &Daemon,
    peer: &mut ClientPeer,
    shell: &ShellId,
    token: &str,
    nonce: &str,
) -> Result<Option<Vec<u8>>> {
    let pump = command_approval::register_pump(daemon, shell, token, nonce);
    let (limit, finish) = peer.process.recorded("a capture of an output", pump)?;
    let Connection { reader, writer } = &mut peer.connection;
    writer.send_json(kind::REPLY, &limit).await?;
    let pass_on = async {
        // The sender is dropped if the shell dies with its command; then the output is not needed.
        let Ok(answer) = finish.await else {
            return Ok(());
        };
        writer.send_json(kind::EVENT, &Event::CaptureFinish).await?;
        let captured = tokio::time::timeout(CAPTURE_DEADLINE, reader.expect(kind::CAPTURED)).await;
        let captured =
            captured.map_err(|_| Error::runtime("the pump sent no output in time"))??;
        // Fails if the receiver timed out and has recorded the command without its output.
        let _ = answer.send(captured);
        Ok(())
    };
    tokio::select! {
        biased;
        passed = pass_on => passed.map(|()| None),
        // A command may run for days. Its output still reaches the terminal, but not the journal.
        () = daemon.services.leaving.cancelled() => Ok(None),
    }
}
