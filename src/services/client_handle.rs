//! The handle through which the work for a request reaches its client: progress, and variables of its environment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::error::{Error, Result};
use crate::history::record::RecordIds;
use crate::secret::Secret;
use crate::session::feed::TurnFeed;
use crate::session::lock;

/// How long a client may take to send variables of its environment.
const VARIABLES_DEADLINE: Duration = Duration::from_secs(10);

/// Variables of a client's environment: the requested ones that are set. If none of them is set, the names of all other
/// variables with empty values, for error messages.
pub type ClientVariables = BTreeMap<String, Secret>;

/// Names of variables, and where their values go.
pub type VariablesRequest = (Vec<String>, oneshot::Sender<ClientVariables>);

/// The values that shells have sent last, for requests that come from no shell. In memory only.
#[derive(Debug, Default)]
pub struct LastVariables(Mutex<ClientVariables>);

impl LastVariables {
    /// Keeps the variables that a shell has sent. A variable that the shell no longer has is forgotten.
    fn keep(&self, names: &[String], sent: &ClientVariables) {
        let mut kept = lock(&self.0);
        for name in names {
            match sent.get(name) {
                Some(value) => kept.insert(name.clone(), value.clone()),
                None => kept.remove(name),
            };
        }
    }

    /// Returns those of these names that were sent.
    pub fn get(&self, names: &[String]) -> ClientVariables {
        let kept = lock(&self.0);
        let found = names.iter().filter_map(|name| kept.get_key_value(name));
        found
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }
}

/// Where the variables of a client come from.
#[derive(Debug, Clone)]
enum VariablesSource {
    /// Its connection. Variables that a shell of the user sends are kept.
    Client {
        requests: mpsc::Sender<VariablesRequest>,
        kept: Option<Arc<LastVariables>>,
    },
    /// The variables that shells have sent before.
    Kept(Arc<LastVariables>),
}

/// Through this the work for a request reports progress to its client and asks it for variables of its environment.
#[derive(Debug, Clone)]
pub struct ClientHandle {
    /// Reports progress to the client; cancelled by CANCEL, and by a hang-up unless the policy is `HangUpPolicy::Continue`.
    pub feed: Arc<TurnFeed>,
    /// The client only reads state: no server is started for it.
    pub is_read_only: bool,
    /// The ids of every record of this request.
    pub record_ids: RecordIds,
    variables: VariablesSource,
}

impl ClientHandle {
    /// Returns a handle and the receiver of its requests for variables. `kept` gets the variables that the client sends.
    pub fn new(
        feed: Arc<TurnFeed>,
        is_read_only: bool,
        record_ids: RecordIds,
        kept: Option<Arc<LastVariables>>,
    ) -> (ClientHandle, mpsc::Receiver<VariablesRequest>) {
        let (sender, requests) = mpsc::channel(1);
        let client = ClientHandle {
            feed,
            is_read_only,
            record_ids,
            variables: VariablesSource::Client {
                requests: sender,
                kept,
            },
        };
        (client, requests)
    }

    /// Returns the handle of a client without a shell, which gets the variables that shells have sent last.
    pub fn without_shell(
        feed: Arc<TurnFeed>,
        record_ids: RecordIds,
        kept: Arc<LastVariables>,
    ) -> ClientHandle {
        ClientHandle {
            feed,
            is_read_only: false,
            record_ids,
            variables: VariablesSource::Kept(kept),
        }
    }

    /// Asks the client for variables of its environment.
    ///
    /// # Errors
    /// The client has hung up.
    pub async fn variables(&self, names: Vec<String>) -> Result<ClientVariables> {
        let (requests, kept) = match &self.variables {
            VariablesSource::Client { requests, kept } => (requests, kept),
            VariablesSource::Kept(kept) => return Ok(kept.get(&names)),
        };
        let asked = names.clone();
        let ask = async {
            let gone = || Error::runtime("the client hung up");
            let (reply, variables) = oneshot::channel();
            let sent = requests.send((names, reply)).await;
            sent.map_err(|_| gone())?;
            variables.await.map_err(|_| gone())
        };
        // A client that was stopped with Ctrl-Z must not delay the daemon's exit.
        let within = tokio::time::timeout(VARIABLES_DEADLINE, self.feed.unless_cancelled(ask));
        let sent = within
            .await
            .unwrap_or_else(|_| Err(Error::runtime("the client did not send its environment")))?;
        if let Some(kept) = kept {
            kept.keep(&asked, &sent);
        }
        Ok(sent)
    }

    /// Runs `work` until it completes or the client cancels.
    ///
    /// # Errors
    /// Those of `work`; [`crate::error::ErrorKind::Interrupted`] when the client cancels or hangs up.
    pub async fn unless_cancelled<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.feed.unless_cancelled(work).await
    }
}
