//! One client's connection: who it is, its frames, and which request it makes.

use std::sync::Arc;
use std::time::Duration;

use interprocess::local_socket::tokio::Stream;
use interprocess::local_socket::traits::StreamCommon;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

use super::{Daemon, approval, by_hand, driver, mcp, policy, queries};
use crate::error::{Context, Error, Kind, Result};
use crate::history::record::Links;
use crate::protocol::{self, Decoder, Failure, Hello, PROTOCOL, Request, kind};

/// A client that says nothing is let go after this time.
const HELLO_DEADLINE: Duration = Duration::from_secs(10);
/// So long a client may take to read, once the daemon was told to end now.
const LAST_WORD: Duration = Duration::from_millis(200);

/// The socket and what was read of the next frame.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    decoder: Decoder,
    /// The daemon ends now, and waits no more for a client that does not read.
    end: CancellationToken,
    /// A frame was cut off: what would follow it makes no sense.
    cut_off: bool,
    /// The client only reads state: nothing is started for its request.
    read_only: bool,
    /// Whose request it is, for the record.
    links: Links,
}

impl Connection {
    /// Returns whether the client only reads state ([`Hello::read_only`]).
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// What is recorded of every act of this request; more is known as it goes on.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// The next whole frame; `None` when the client has hung up. May be dropped while it waits.
    ///
    /// # Errors
    /// The socket failed, or the client speaks another language.
    pub async fn read(&mut self) -> Result<Option<(u8, Vec<u8>)>> {
        let mut buffer = [0; 16 << 10];
        loop {
            if let Some((kind, body)) = self.decoder.next_frame()? {
                return Ok(Some((kind, body.to_vec())));
            }
            let read = tokio::select! {
                biased;
                read = self.stream.read(&mut buffer) => read,
                () = self.end.cancelled() => {
                    return Err(Error::new(Kind::Interrupted, "the daemon was stopped"));
                }
            };
            let length = read.context(|| "cannot read from the client".into())?;
            if length == 0 {
                return Ok(None);
            }
            self.decoder.push(&buffer[..length]);
        }
    }

    /// Waits for something else, unless the client has enough of it first. Whatever it says now, it
    /// does not want to wait.
    ///
    /// # Errors
    /// Those of `work`; [`Kind::Interrupted`] when the client cancels or leaves.
    pub async fn unless_cancelled<T>(
        &mut self,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        tokio::select! {
            biased;
            done = work => done,
            _ = self.read() => Err(Error::new(Kind::Interrupted, "interrupted")),
        }
    }

    /// The same for work with a token, which is cancelled then: a moment is left to tell whoever works.
    ///
    /// # Errors
    /// Those of [`Connection::unless_cancelled`].
    pub async fn cancelling<T>(
        &mut self,
        cancel: &CancellationToken,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let mut work = std::pin::pin!(work);
        tokio::select! {
            biased;
            done = work.as_mut() => return done,
            _ = self.read() => cancel.cancel(),
        }
        // What it comes to does not matter any more.
        let _ = tokio::time::timeout(LAST_WORD, work).await;
        Err(Error::new(Kind::Interrupted, "interrupted"))
    }

    /// Waits for a frame of one kind and reads its body.
    ///
    /// # Errors
    /// Another frame or the end came.
    pub async fn expect<T: DeserializeOwned>(&mut self, wanted: u8) -> Result<T> {
        match self.read().await? {
            Some((kind, body)) if kind == wanted => protocol::parse(&body),
            Some((kind::CANCEL, _)) => Err(Error::new(Kind::Interrupted, "interrupted")),
            Some(_) => Err(Error::runtime(
                "the client sent another frame than it was asked for",
            )),
            None => Err(Error::runtime("the client hung up")),
        }
    }

    /// Sends a whole frame.
    ///
    /// # Errors
    /// The client has gone.
    pub async fn send(&mut self, frame: &[u8]) -> Result<()> {
        let gone = || Error::runtime("the client does not read");
        if self.cut_off {
            return Err(gone());
        }
        let too_slow = async {
            self.end.cancelled().await;
            tokio::time::sleep(LAST_WORD).await;
        };
        tokio::select! {
            biased;
            sent = self.stream.write_all(frame) => sent.context(|| "cannot write to the client".into()),
            () = too_slow => {
                self.cut_off = true;
                Err(gone())
            }
        }
    }

    /// Sends a frame with a JSON body.
    ///
    /// # Errors
    /// The client has gone, or the body is too large.
    pub async fn send_json<T: Serialize>(&mut self, kind: u8, body: &T) -> Result<()> {
        self.send(&protocol::json_frame(kind, body)?).await
    }
}

/// Serves one client until it has its reply.
pub async fn serve(daemon: Arc<Daemon>, stream: Stream) {
    let mut connection = Connection {
        stream,
        decoder: Decoder::default(),
        end: daemon.cancel.clone(),
        cut_off: false,
        read_only: false,
        links: Links {
            user: daemon.user.clone(),
            request: Some(uuid::Uuid::now_v7().to_string()),
            ..Links::default()
        },
    };
    match greet(&daemon, &mut connection).await {
        Ok(Some(request)) => {
            if let Err(e) = dispatch(&daemon, &mut connection, request).await {
                // The client may be gone, which is no news then.
                let _ = connection
                    .send_json(kind::FAILURE, &Failure::from(&e))
                    .await;
            }
        }
        Ok(None) => {}
        Err(e) => tracing::debug!("{}", e.message),
    }
}

/// Checks who the client is and reads its request; `None` when it is not to be served.
async fn greet(daemon: &Daemon, connection: &mut Connection) -> Result<Option<Request>> {
    // The directory keeps others out already; this holds where it was opened by hand.
    let uid = connection.stream.peer_creds().ok().and_then(|c| c.euid());
    if uid != Some(nix::unistd::geteuid().as_raw()) {
        tracing::warn!(?uid, "turned away another user's client");
        return Ok(None);
    }
    let first = tokio::time::timeout(HELLO_DEADLINE, connection.expect::<Hello>(kind::HELLO));
    let hello = first
        .await
        .map_err(|_| Error::runtime("a client said nothing"))??;
    connection.read_only = hello.read_only;
    let mut ours = Hello::ours();
    let replaced = !hello.read_only && hello.is_newer(&ours.version);
    ours.leaving = replaced || daemon.leaving.is_cancelled();
    connection.send_json(kind::HELLO, &ours).await?;
    if ours.leaving {
        daemon.leaving.cancel();
        // It serves nobody any more, but may be told to hurry.
        let request = tokio::time::timeout(HELLO_DEADLINE, connection.expect(kind::REQUEST)).await;
        if let Ok(Ok(Request::Stop { now: true })) = request {
            daemon.stop(true);
        }
        return Ok(None);
    }
    if hello.protocol != PROTOCOL {
        let e = Error::runtime(format!(
            "this aish-helper ({}) and the daemon ({}) speak different languages",
            hello.version, ours.version
        ))
        .hint("use the newer one, or run: aish-helper restart");
        connection
            .send_json(kind::FAILURE, &Failure::from(&e))
            .await?;
        return Ok(None);
    }
    let request = tokio::time::timeout(HELLO_DEADLINE, connection.expect(kind::REQUEST));
    match request.await {
        Ok(Ok(request)) => Ok(Some(request)),
        Ok(Err(e)) => {
            // A malformed request: the client is told why.
            connection
                .send_json(kind::FAILURE, &Failure::from(&e))
                .await?;
            Ok(None)
        }
        Err(_) => Err(Error::runtime("the client sent no request in time")),
    }
}

async fn dispatch(
    daemon: &Arc<Daemon>,
    connection: &mut Connection,
    request: Request,
) -> Result<()> {
    match request {
        Request::Ask(ask) => driver::ask(daemon, connection, *ask).await,
        Request::Attach(_) => Err(Error::usage("this daemon cannot show a running turn yet")),
        Request::Capture { shell, token } => {
            approval::capture(daemon, connection, &shell, &token).await
        }
        Request::Call(call) => by_hand::call(daemon, connection, *call).await,
        Request::Mcp { request, cwd, .. } => mcp::serve(daemon, connection, request, &cwd).await,
        Request::Policy {
            request,
            cwd,
            shell,
            overrides,
        } => {
            let asks = policy::Asks {
                cwd,
                shell,
                overrides,
            };
            policy::serve(daemon, connection, request, asks).await
        }
        Request::ExecDone { shell, token, exit } => {
            approval::exec_done(daemon, connection.links(), &shell, &token, exit).await?;
            reply(connection, &()).await
        }
        Request::NextProposal {
            shell,
            cwd,
            overrides,
        } => {
            let links = connection.links().clone();
            let next = approval::next(daemon, links, &shell, &cwd, &overrides).await?;
            reply(connection, &next).await
        }
        Request::Decide {
            shell,
            token,
            choice,
            command,
            cwd,
            asked,
            overrides,
        } => {
            let word = approval::Word {
                choice,
                command,
                asked,
                overrides,
            };
            let links = connection.links().clone();
            let decided = approval::decide(daemon, links, &shell, &token, &cwd, word).await?;
            reply(connection, &decided).await
        }
        Request::Status { shell, overrides } => {
            let status = queries::status(daemon, connection, shell.as_ref(), &overrides).await?;
            reply(connection, &status).await
        }
        Request::Stop { now } => {
            reply(connection, &()).await?;
            daemon.stop(now);
            Ok(())
        }
        Request::Sessions { limit } => {
            reply(connection, &queries::sessions(daemon, limit).await?).await
        }
        Request::Transcript {
            session,
            shell,
            limit,
            brief,
        } => {
            let transcript = queries::transcript(daemon, session, shell, limit, brief).await?;
            reply(connection, &transcript).await
        }
        Request::NewSession { shell } => {
            let links = connection.links().clone();
            reply(connection, &queries::new_session(daemon, &shell, &links)).await
        }
        Request::UseModel { shell, model } => {
            queries::use_model(daemon, &shell, model, connection.links()).await?;
            reply(connection, &()).await
        }
        Request::Models { shell, overrides } => {
            reply(
                connection,
                &queries::models(daemon, shell.as_ref(), &overrides).await?,
            )
            .await
        }
    }
}

async fn reply<T: Serialize>(connection: &mut Connection, body: &T) -> Result<()> {
    connection.send_json(kind::REPLY, body).await
}
