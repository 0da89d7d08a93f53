//! Client for the MCP conformance suite: aish's server pool and OAuth login, with a simulated person.
//!
//! The suite passes the server's URL as the last argument and the scenario in the environment. The client calls all tools
//! of the server, with the arguments given by the suite or the minimal ones that the schemas allow; it answers
//! elicitations and follows login pages. Exit code 0: everything succeeded. 1: something was refused or failed, as
//! some scenarios require. `tests/real/conformance.rs` runs the suite.

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use aish::chat::ToolDefinition;
use aish::client::elicit::form_field::form_fields;
use aish::config::mcp::ServerSettings;
use aish::error::{Error, ErrorContext as _};
use aish::mcp::auth::{ClientIdentity, NetworkZone, OAuthLogin, TokenStore};
use aish::mcp::{
    CallEvent, ConnectionStatus, ElicitationRequest, ElicitationResponse, ServerCredentials,
    ServerPool, ServerState,
};
use aish::safety::policy::{self, ApprovalScope, CallRequest, ExactCall, GrantSet};
use aish::secret::Secret;
use reqwest::Url;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const ALIAS: &str = "suite";

/// Redirect URI. Nothing listens there: the answer is read from the redirect.
const REDIRECT: &str = "http://127.0.0.1:49152/callback";

/// URL of the client metadata document that the suite accepts.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// Maximum number of logins.
const LOGINS: usize = 3;

/// Time limit of each step; the suite waits 30 seconds for the whole run.
const PATIENCE: Duration = Duration::from_secs(20);

/// Error message of a call that needs further permissions.
const BEYOND: &str = "the login lacks permissions";

type Outcome<T = ()> = Result<T, String>;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let run = || runtime.map_err(|e| e.to_string())?.block_on(run());
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("mcp-conformance: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Outcome {
    let url = std::env::args().next_back().ok_or("no URL")?;
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").map_err(|e| e.to_string())?;
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_else(|_| "{}".to_owned());
    let context = serde_json::from_str(&context).map_err(|e| e.to_string())?;
    let state = tempfile::tempdir().map_err(|e| e.to_string())?;
    let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
    let mut session = Session {
        pool: ServerPool::new(state.path().to_owned(), tasks.clone(), cancel.clone()),
        tokens: TokenStore::new(state.path().to_owned()),
        server: ServerSettings::with_url(ALIAS, &url),
        url,
        context,
        logins: 0,
    };
    let outcome = session.run_scenario(&scenario).await;
    session.pool.shutdown().await;
    cancel.cancel();
    tasks.close();
    tasks.wait().await;
    outcome
}

struct Session {
    pool: ServerPool,
    tokens: TokenStore,
    server: ServerSettings,
    url: String,
    context: Value,
    logins: usize,
}

impl Session {
    async fn run_scenario(&mut self, scenario: &str) -> Outcome {
        self.connect().await?;
        let tools = self.pool.catalog(Duration::ZERO).await.tools;
        // This server supports only the tool list.
        if scenario == "json-schema-ref-no-deref" {
            return Ok(());
        }
        for (tool, arguments) in self.calls(&tools)? {
            self.call_or_log_in(tool, &arguments).await?;
        }
        if scenario == "http-standard-headers" {
            self.read().await?;
        }
        Ok(())
    }

    /// Connects to the server, with a login if required.
    async fn connect(&mut self) -> Outcome {
        loop {
            let patience = Instant::now() + PATIENCE;
            let credentials = async { Ok(ServerCredentials::default()) };
            self.pool.start(self.server.clone(), true, credentials);
            self.pool.catalog(PATIENCE).await;
            loop {
                let state = self.state()?;
                match state.status {
                    ConnectionStatus::Ready => return Ok(()),
                    ConnectionStatus::LoginRequired => break self.log_in().await?,
                    // The pool retries: the suite starts all clients at once.
                    _ if Instant::now() < patience => sleep(Duration::from_millis(50)).await,
                    _ => {
                        return Err(state
                            .error
                            .unwrap_or_else(|| "the server does not start".into()));
                    }
                }
            }
        }
    }

    fn state(&self) -> Outcome<ServerState> {
        let states = self.pool.states();
        states.into_iter().next().ok_or("no server".to_owned())
    }

    async fn log_in(&mut self) -> Outcome {
        if self.logins == LOGINS {
            return Err(format!("{LOGINS} logins were not enough"));
        }
        self.logins += 1;
        let server = Url::parse(&self.url).map_err(|e| e.to_string())?;
        let text = |key: &str| self.context[key].as_str();
        let given = text("client_id").map(|id| (id.to_owned(), text("client_secret")));
        let login = OAuthLogin {
            tokens: &self.tokens,
            from: NetworkZone::named(&server),
            server,
            challenge: None,
            identity: ClientIdentity {
                given: given.map(|(id, secret)| (id, secret.map(Secret::new))),
                document: Some(DOCUMENT.to_owned()),
            },
            redirect: REDIRECT,
        };
        login.run(visit).await.map_err(|e| e.message)
    }

    /// Calls to make: those given by the suite, or each tool once.
    fn calls<'a>(&self, tools: &'a [ToolDefinition]) -> Outcome<Vec<(&'a ToolDefinition, Value)>> {
        // One tool whose schema is passed to the other.
        if let [seen, echo] = tools
            && echo.tool == "json_schema_echo"
        {
            let schema: Value = serde_json::from_str(&seen.schema).map_err(|e| e.to_string())?;
            return Ok(vec![(echo, json!({ "schema": schema }))]);
        }
        let Some(named) = self.context["toolCalls"].as_array() else {
            return Ok(tools.iter().map(|t| (t, minimal_arguments(t))).collect());
        };
        let find = |call: &Value| {
            let tool = tools.iter().find(|t| call["name"] == *t.tool);
            let tool = tool.ok_or_else(|| format!("there is no tool for {call}"))?;
            Ok((tool, call["arguments"].clone()))
        };
        named.iter().map(find).collect()
    }

    /// Calls a tool; if the server requires a login for it, logs in and calls again.
    async fn call_or_log_in(&mut self, tool: &ToolDefinition, arguments: &Value) -> Outcome {
        loop {
            let outcome = self.call(tool, arguments).await;
            let Err(why) = &outcome else {
                return outcome;
            };
            // A missing permission does not change the server's status.
            let login =
                self.state()?.status == ConnectionStatus::LoginRequired || why.contains(BEYOND);
            if !login {
                return outcome;
            }
            self.log_in().await?;
            self.connect().await?;
        }
    }

    async fn call(&self, tool: &ToolDefinition, arguments: &Value) -> Outcome {
        let arguments = arguments.to_string();
        let call = ExactCall {
            server: &tool.server,
            tool: &tool.tool,
            identity: &tool.identity,
            arguments: &arguments,
        };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_err(|e| e.to_string())?.as_millis();
        let now = u64::try_from(now).map_err(|e| e.to_string())?;
        let approved = policy::approve(
            &CallRequest::new(call),
            ApprovalScope::Once,
            [],
            &mut GrantSet::default(),
            now,
            "",
        );
        let (events, mut seen) = mpsc::channel(16);
        let cancel = CancellationToken::new();
        let calling = async {
            let result = self
                .pool
                .call(approved, &call, now, 1 << 20, &events, &cancel);
            let result = result.await;
            drop(events);
            result
        };
        let answering = async {
            while let Some(event) = seen.recv().await {
                if let CallEvent::Elicit(elicit, reply) = event {
                    let _ = reply.send(default_answer(&elicit));
                }
            }
        };
        let (result, ()) = tokio::join!(calling, answering);
        let result = result.map_err(|e| format!("{}: {e}", tool.name))?;
        if result.is_error {
            return Err(format!("{} failed: {}", tool.name, result.text));
        }
        Ok(())
    }

    /// Reads all resources and prompts.
    async fn read(&self) -> Outcome {
        let cancel = CancellationToken::new();
        let lists = async {
            let resources = self.pool.resources(Some(ALIAS), &cancel).await?;
            Ok((resources, self.pool.prompts(Some(ALIAS), &cancel).await?))
        };
        let (resources, prompts) = lists.await.map_err(|e: aish::error::Error| e.message)?;
        for resource in resources.iter().filter(|r| !r.template) {
            // The result does not matter: only the request headers are checked.
            let _ = self
                .pool
                .resource(ALIAS, &resource.uri, 1 << 20, &cancel)
                .await;
        }
        for prompt in prompts {
            let name = prompt.name.strip_prefix("suite.").unwrap_or_default();
            let _ = self.pool.prompt(ALIAS, name, &[], &cancel).await;
        }
        Ok(())
    }
}

/// Opens the login page, which the suite grants at once, and returns the redirect.
async fn visit(page: Url) -> aish::error::Result<Url> {
    let browser = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .context(|| "no browser".to_owned())?;
    let answer = browser.get(page.clone()).send().await;
    let answer = answer.context(|| format!("{page} does not answer"))?;
    let to = answer.headers().get("location");
    let to = to.and_then(|v| page.join(v.to_str().ok()?).ok());
    to.ok_or_else(|| Error::runtime(format!("{page} does not redirect")))
}

/// Answers a form with the default of each field; declines if a field has none.
fn default_answer(elicit: &ElicitationRequest) -> ElicitationResponse {
    let Some(schema) = &elicit.schema else {
        return ElicitationResponse::Decline;
    };
    let entered = || -> Outcome<Map<_, _>> {
        let mut content = Map::new();
        for field in form_fields(schema)? {
            content.extend(field.take("")?.map(|value| (field.name, value)));
        }
        Ok(content)
    };
    match entered() {
        Ok(content) => ElicitationResponse::Accept(Some(content.into())),
        Err(_) => ElicitationResponse::Decline,
    }
}

/// Minimal arguments that a tool's schema allows.
fn minimal_arguments(tool: &ToolDefinition) -> Value {
    let schema: Value = serde_json::from_str(&tool.schema).unwrap_or_default();
    let required = schema["required"].as_array().into_iter().flatten();
    let value = |name: &str| match schema["properties"][name]["type"].as_str() {
        Some("number" | "integer") => json!(2),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("text"),
    };
    let arguments: Map<_, _> = required
        .filter_map(Value::as_str)
        .map(|name| (name.to_owned(), value(name)))
        .collect();
    arguments.into()
}
