//! The handle through which the work for a request reaches its client: progress, and variables of its environment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::error::{Error, Result};
use crate::history::record::RecordIds;
use crate::secret::Secret;
use crate::session::feed::TurnFeed;

/// How long a client may take to send variables of its environment.
const VARIABLES_DEADLINE: Duration = Duration::from_secs(10);

/// Variables of a client's environment: the requested ones that are set. If none of them is set, the names of all other
/// variables with empty values, for error messages.
pub type ClientVariables = BTreeMap<String, Secret>;

/// Names of variables, and where their values go.
pub type VariablesRequest = (Vec<String>, oneshot::Sender<ClientVariables>);

/// Through this the work for a request reports progress to its client and asks it for variables of its environment.
#[derive(Debug, Clone)]
pub struct ClientHandle {
    /// Reports progress to the client; cancelled by CANCEL, and by a hang-up unless the policy is `HangUpPolicy::Continue`.
    pub feed: Arc<TurnFeed>,
    /// The client only reads state: no server is started for it.
    pub is_read_only: bool,
    /// The ids of every record of this request.
    pub record_ids: RecordIds,
    variables: mpsc::Sender<VariablesRequest>,
}

impl ClientHandle {
    /// Returns a handle and the receiver of its requests for variables.
    pub fn new(
        feed: Arc<TurnFeed>,
        is_read_only: bool,
        record_ids: RecordIds,
    ) -> (ClientHandle, mpsc::Receiver<VariablesRequest>) {
        let (variables, requests) = mpsc::channel(1);
        let client = ClientHandle {
            feed,
            is_read_only,
            record_ids,
            variables,
        };
        (client, requests)
    }

    /// Asks the client for variables of its environment.
    ///
    /// # Errors
    /// The client has hung up.
    pub async fn variables(&self, names: Vec<String>) -> Result<ClientVariables> {
        let ask = async {
            let gone = || Error::runtime("the client hung up");
            let (reply, variables) = oneshot::channel();
            let sent = self.variables.send((names, reply)).await;
            sent.map_err(|_| gone())?;
            variables.await.map_err(|_| gone())
        };
        // A client that was stopped with Ctrl-Z must not delay the daemon's exit.
        let within = tokio::time::timeout(VARIABLES_DEADLINE, self.feed.unless_cancelled(ask));
        within
            .await
            .unwrap_or_else(|_| Err(Error::runtime("the client did not send its environment")))
    }

    /// Runs `work` until it completes or the client cancels.
    ///
    /// # Errors
    /// Those of `work`; [`crate::error::ErrorKind::Interrupted`] when the client cancels or hangs up.
    pub async fn unless_cancelled<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.feed.unless_cancelled(work).await
    }
}
