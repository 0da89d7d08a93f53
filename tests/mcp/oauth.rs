//! OAuth logins at a strict authorization server.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use aish::config::mcp::ServerSettings;
use aish::error::{Error, Result};
use aish::mcp::auth::{ClientIdentity, NetworkZone, OAuthLogin, TokenStore};
use aish::mcp::{ConnectionStatus, ServerCredentials, ServerPool};
use aish::safety::policy::ExactCall;
use aish::secret::Secret;
use nix::sys::signal::Signal;
use reqwest::Url;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Called, PATIENCE, approve};
use crate::fakes::oauth::{
    AuthorizationServer, LoginOutcome, ProtectedServer, WebServer, both, get, pairs,
};
use crate::support::helper::{Helper, RunningProgram};

/// Redirect URI without a listener: the test acts as the browser and reads the answer from the redirect.
const REDIRECT: &str = "http://127.0.0.1:9/callback";

/// A token store in its own directory.
struct TestTokenStore {
    dir: TempDir,
    tokens: TokenStore,
}

impl TestTokenStore {
    fn new() -> TestTokenStore {
        let dir = TempDir::new().unwrap();
        let tokens = TokenStore::new(dir.path().join("state"));
        TestTokenStore { dir, tokens }
    }

    /// All its files.
    fn files(&self) -> Vec<PathBuf> {
        files(&self.dir.path().join("state"))
    }

    /// Its token files.
    fn kept(&self) -> Vec<PathBuf> {
        let mut files = self.files();
        files.retain(|f| f.extension().is_some_and(|e| e == "json"));
        files
    }

    async fn login(&self, url: &str) -> Result<()> {
        self.login_from(url, NetworkZone::Here).await
    }

    async fn login_from(&self, url: &str, from: NetworkZone) -> Result<()> {
        self.login_as(url, from, ClientIdentity::default()).await
    }

    async fn login_as(&self, url: &str, from: NetworkZone, identity: ClientIdentity) -> Result<()> {
        let login = OAuthLogin {
            tokens: &self.tokens,
            server: Url::parse(url).unwrap(),
            from,
            challenge: None,
            identity,
            redirect: REDIRECT,
        };
        login
            .run(async |page| {
                let (status, to, _) = get(page.as_str());
                assert_eq!(status, 302, "{page}");
                Ok(Url::parse(&to.unwrap()).unwrap())
            })
            .await
    }

    async fn bearer(&self, url: &str) -> Option<String> {
        let bearer = self.tokens.access_token(url).await.unwrap();
        bearer.map(|b| b.expose().to_owned())
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Returns the message, which must be one short line.
fn line(e: &Error) -> &str {
    assert!(!e.message.contains('\n'), "{e}");
    assert!(e.message.len() < 500, "{e}");
    &e.message
}

#[tokio::test]
async fn tokens_belong_to_one_server() {
    let authority = AuthorizationServer::start();
    let server = ProtectedServer::start(&authority);
    let store = TestTokenStore::new();
    store.login(&server.url()).await.unwrap();

    let kept = store.kept();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(mode(&kept[0]), 0o600);
    assert_eq!(mode(kept[0].parent().unwrap()), 0o700);
    let token = store.bearer(&server.url()).await.unwrap();
    assert!(authority.takes(&token));
    assert_eq!(authority.clients(), 1);

    // Another server of the same authority, another path of the server, the server by another name.
    let other = ProtectedServer::start(&authority);
    for url in [
        other.url(),
        server.web.url("/other"),
        server.web.url("/mcp/"),
        server.web.by_name("/mcp"),
    ] {
        assert_eq!(store.bearer(&url).await, None, "{url}");
        let old = Secret::new(&*token);
        let new = store.tokens.replace_refused(&url, &old).await.unwrap();
        assert_eq!(new, None, "{url}");
    }
    // No token was sent to any server, and no refresh token was used.
    assert!(server.tokens().is_empty() && other.tokens().is_empty());
    assert_eq!(authority.refreshes(), 0);

    assert!(store.tokens.forget(&server.url()).await.unwrap());
    assert_eq!(store.bearer(&server.url()).await, None);
    assert!(store.kept().is_empty());
}

#[tokio::test]
async fn expired_token_is_renewed_once_for_concurrent_requests() {
    let authority = AuthorizationServer::start();
    authority.manner(|m| m.expires_in = Some(5));
    let server = ProtectedServer::start(&authority);
    let store = TestTokenStore::new();
    store.login(&server.url()).await.unwrap();
    authority.manner(|m| m.expires_in = Some(3600));

    let url = server.url();
    // Like separate processes: each has its own lock handle, and there is one refresh token.
    let asked: Vec<_> = (0..8)
        .map(|_| {
            let (tokens, url) = (TokenStore::new(store.dir.path().join("state")), url.clone());
            tokio::spawn(async move { tokens.access_token(&url).await.unwrap().unwrap() })
        })
        .collect();
    let mut got = Vec::new();
    for one in asked {
        got.push(one.await.unwrap().expose().to_owned());
    }
    got.dedup();
    assert_eq!(got.len(), 1, "{got:?}");
    assert!(authority.takes(&got[0]));
    assert_eq!(authority.refreshes(), 1);
    assert_eq!(mode(&store.kept()[0]), 0o600);
}

#[tokio::test]
async fn refused_token_is_renewed_once() {
    let authority = AuthorizationServer::start();
    let server = ProtectedServer::start(&authority);
    let store = TestTokenStore::new();
    store.login(&server.url()).await.unwrap();
    let url = server.url();
    let first = Secret::new(store.bearer(&url).await.unwrap());
    authority.revoke();

    let second = store
        .tokens
        .replace_refused(&url, &first)
        .await
        .unwrap()
        .unwrap();
    assert!(authority.takes(second.expose()));
    // A late request with the old token gets the new one, without using a refresh token.
    let late = store.tokens.replace_refused(&url, &first).await.unwrap();
    assert_eq!(late.as_ref(), Some(&second));
    assert_eq!(authority.refreshes(), 1);
}

#[tokio::test]
async fn login_is_required_when_renewal_is_impossible() {
    let authority = AuthorizationServer::start();
    authority.manner(|m| m.expires_in = Some(0));
    let server = ProtectedServer::start(&authority);
    let store = TestTokenStore::new();
    let url = server.url();

    // The refresh token has expired.
    store.login(&url).await.unwrap();
    authority.manner(|m| m.refuses = Some((400, json!({ "error": "invalid_grant" }))));
    assert_eq!(store.bearer(&url).await, None);
    // The renewal is not retried.
    let asked = authority.web.requests().len();
    assert_eq!(store.bearer(&url).await, None);
    assert_eq!(authority.web.requests().len(), asked);

    // There is no refresh token.
    authority.manner(|m| {
        m.refuses = None;
        m.refresh = false;
    });
    store.login(&url).await.unwrap();
    assert_eq!(store.bearer(&url).await, None);
    assert_eq!(authority.refreshes(), 0);
}

#[tokio::test]
async fn failed_renewal_keeps_the_login() {
    let authority = AuthorizationServer::start();
    authority.manner(|m| m.expires_in = Some(0));
    let server = ProtectedServer::start(&authority);
    let store = TestTokenStore::new();
    let url = server.url();
    store.login(&url).await.unwrap();
    for (status, body, why) in [
        (503, json!("busy"), "HTTP 503"),
        (
            500,
            json!({ "error": "server_error", "error_description": "a \u{1b}[31mred\nday" }),
            "server_error: a",
        ),
        (200, json!({ "token_type": "Bearer" }), "HTTP 200"),
        (200, json!({ "access_token": "a\r\nb: c" }), "HTTP 200"),
    ] {
        authority.manner(|m| m.refuses = Some((status, body.clone())));
        let e = store.tokens.access_token(&url).await.unwrap_err();
        assert!(line(&e).contains(why), "{e}");
    }
    authority.manner(|m| {
        m.refuses = None;
        m.expires_in = Some(3600);
    });
    assert!(store.bearer(&url).await.is_some());
}

#[tokio::test]
async fn client_authenticates_with_the_supported_method() {
    for methods in [
        vec!["client_secret_basic"],
        vec!["client_secret_post"],
        vec!["client_secret_post", "client_secret_basic"],
    ] {
        let authority = AuthorizationServer::start();
        authority.manner(|m| {
            m.methods = methods.clone();
            m.secret = Some("s3cret".into());
            m.expires_in = Some(0);
        });
        let server = ProtectedServer::start(&authority);
        let store = TestTokenStore::new();
        store.login(&server.url()).await.unwrap();
        authority.manner(|m| m.expires_in = None);
        assert!(store.bearer(&server.url()).await.is_some(), "{methods:?}");
        assert_eq!(authority.refreshes(), 1, "{methods:?}");
    }
}

#[tokio::test]
async fn wrong_or_denied_authorization_responses_are_refused() {
    for (consent, why) in [
        (
            LoginOutcome::OtherState,
            "answered a different login request",
        ),
        (LoginOutcome::OtherIssuer, "https://evil.example.com"),
        (LoginOutcome::No, "the login was denied (access_denied: "),
    ] {
        let authority = AuthorizationServer::start();
        authority.manner(|m| m.consent = consent);
        let server = ProtectedServer::start(&authority);
        let store = TestTokenStore::new();
        let e = store.login(&server.url()).await.unwrap_err();
        assert!(line(&e).contains(why), "{e}");
        assert!(!authority.paths().contains("/token"), "{consent:?}");
        assert_eq!(store.files(), Vec::<PathBuf>::new(), "{consent:?}");
    }
}

#[tokio::test]
async fn private_endpoints_of_a_public_server_are_refused() {
    for (endpoint, what) in [
        ("authorization_endpoint", "login page"),
        ("token_endpoint", "token endpoint"),
        ("registration_endpoint", "registration endpoint"),
    ] {
        for inward in [
            "https://127.0.0.1:1/x",
            "https://[::1]:1/x",
            "https://10.0.0.1/x",
            "https://192.168.1.1/x",
            "https://169.254.169.254/latest/meta-data",
            "https://[fd00::1]/x",
            "https://[::ffff:10.0.0.1]/x",
            "https://localhost:1/x",
            "http://auth.example.com/x",
            "file:///etc/passwd",
            "javascript:alert(1)",
        ] {
            // The server is its own authority: it may always name its own origin.
            let server = WebServer::start();
            let base = server.url("");
            server.handle(move |request| {
                let mut metadata = json!({
                    "issuer": base,
                    "authorization_endpoint": format!("{base}/authorize"),
                    "token_endpoint": format!("{base}/token"),
                    "registration_endpoint": format!("{base}/register"),
                    "response_types_supported": ["code"],
                    "code_challenge_methods_supported": ["S256"],
                });
                metadata[endpoint] = json!(inward);
                both(request, &base, &metadata)
            });
            let store = TestTokenStore::new();
            // Treated like a server on the internet.
            let e = store
                .login_from(&server.url("/mcp"), NetworkZone::Outside)
                .await
                .unwrap_err();
            let output = line(&e);
            assert!(
                output.contains(&format!("as its {what}, which is refused")),
                "{output}"
            );
            assert_eq!(store.files(), Vec::<PathBuf>::new());
        }
    }
}

#[tokio::test]
async fn private_authority_of_a_public_server_gets_no_request() {
    let authority = AuthorizationServer::start();
    // By a host name, which only the resolver can check.
    let named = authority.web.by_name("");
    let server = ProtectedServer::naming(
        &authority,
        move |resource| json!({ "resource": resource, "authorization_servers": [named] }),
    );
    let store = TestTokenStore::new();
    let e = store
        .login_from(&server.url(), NetworkZone::Outside)
        .await
        .unwrap_err();
    assert!(line(&e).contains("which is refused: it "), "{e}");
    assert!(
        e.message.contains("127.0.0.1, which is this machine"),
        "{e}"
    );
    assert!(authority.web.requests().is_empty());

    // Metadata URL named by the challenge.
    let server = ProtectedServer::start(&authority);
    let web = WebServer::start();
    server.moved(&web.by_name("/metadata"));
    let e = store
        .login_from(&server.url(), NetworkZone::Outside)
        .await
        .unwrap_err();
    assert!(
        line(&e).contains("as its OAuth metadata, which is refused"),
        "{e}"
    );
    assert!(web.requests().is_empty());
    assert!(authority.web.requests().is_empty());
    assert_eq!(store.files(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn metadata_of_another_server_is_refused() {
    let authority = AuthorizationServer::start();
    let issuer = authority.web.url("");
    let server = ProtectedServer::naming(
        &authority,
        move |_| json!({ "resource": "https://evil.example.com/mcp", "authorization_servers": [issuer] }),
    );
    let store = TestTokenStore::new();
    let e = store.login(&server.url()).await.unwrap_err();
    assert!(
        line(&e).contains("belongs to another server, https://evil.example.com/mcp"),
        "{e}"
    );
    assert!(authority.web.requests().is_empty());
}

#[tokio::test]
async fn missing_scopes_are_requested_at_the_next_login() {
    let authority = AuthorizationServer::start();
    let server = ProtectedServer::start(&authority);
    server.challenge(", scope=\"read\"");
    let store = TestTokenStore::new();
    let url = server.url();
    store.login(&url).await.unwrap();

    let tokens = &store.tokens;
    let wants = async |challenge: &str| tokens.request_scopes(&url, challenge).await.unwrap();
    assert!(!wants("Bearer error=\"invalid_token\", scope=\"write\"").await);
    assert!(!wants("Bearer error=\"insufficient_scope\", scope=\"read\"").await);
    assert!(!wants("Bearer error=\"insufficient_scope\"").await);
    assert!(wants("Bearer error=\"insufficient_scope\", scope=\"write\"").await);
    store.login(&url).await.unwrap();
    let asked: Vec<String> = authority
        .web
        .requests()
        .iter()
        .filter(|r| r.path == "/authorize")
        .map(|r| r.query["scope"].clone())
        .collect();
    assert_eq!(asked, ["read", "read write"]);
    // All scopes are granted now: another login would not help.
    assert!(!wants("Bearer error=\"insufficient_scope\", scope=\"write\"").await);
}

#[tokio::test]
async fn server_without_a_login() {
    let web = WebServer::start();
    let store = TestTokenStore::new();
    let e = store.login(&web.url("/mcp")).await.unwrap_err();
    assert!(line(&e).ends_with("does not require a login"), "{e}");
    let e = store.login("http://example.com/mcp").await.unwrap_err();
    assert!(line(&e).contains("in clear"), "{e}");
    assert_eq!(store.files(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn configured_client_id_or_metadata_document_is_used() {
    let document = "https://aish.example.com/client.json";
    for (identity, supported) in [
        (
            ClientIdentity {
                given: Some(("given".into(), None)),
                document: Some(document.into()),
            },
            true,
        ),
        (
            ClientIdentity {
                given: None,
                document: Some(document.into()),
            },
            true,
        ),
        (
            ClientIdentity {
                given: None,
                document: Some(document.into()),
            },
            false,
        ),
    ] {
        let authority = AuthorizationServer::start();
        authority.manner(|m| {
            m.metadata = json!({ "client_id_metadata_document_supported": supported });
        });
        authority.knows("given", REDIRECT);
        authority.knows(document, REDIRECT);
        let server = ProtectedServer::start(&authority);
        let store = TestTokenStore::new();
        store
            .login_as(&server.url(), NetworkZone::Here, identity.clone())
            .await
            .unwrap();
        let requests = authority.web.requests();
        let page = requests.iter().find(|r| r.path == "/authorize").unwrap();
        let expected = match (&identity.given, supported) {
            (Some((id, _)), _) => id,
            (None, true) => document,
            (None, false) => "client-3",
        };
        assert_eq!(page.query["client_id"], expected);
    }
}

/// A pool that uses the tokens of this store, with the server `guarded`.
async fn pool(store: &TestTokenStore, url: String) -> (ServerPool, TaskTracker) {
    let tasks = TaskTracker::new();
    let state = store.dir.path().join("state");
    let pool = ServerPool::new(state, tasks.clone(), CancellationToken::new());
    pool.start(ServerSettings::with_url("guarded", url), true, async {
        Ok(ServerCredentials::default())
    });
    pool.catalog(PATIENCE).await;
    (pool, tasks)
}

async fn call(pool: &ServerPool) -> Called {
    call_with(pool, "{}").await
}

async fn call_with(pool: &ServerPool, arguments: &str) -> Called {
    let tools = pool.tools();
    let call = ExactCall {
        server: "guarded",
        tool: "whoami",
        identity: tools.first().map_or("", |t| &t.identity),
        arguments,
    };
    let (events, _kept) = mpsc::channel(8);
    let cancel = CancellationToken::new();
    pool.call(approve(&call), &call, 0, 1 << 20, &events, &cancel)
        .await
}

async fn end((pool, tasks): (ServerPool, TaskTracker)) {
    pool.shutdown().await;
    tasks.close();
    tokio::time::timeout(PATIENCE, tasks.wait()).await.unwrap();
}

#[tokio::test]
async fn pool_sends_the_token_and_renews_it_during_a_session() {
    let authority = AuthorizationServer::start();
    let server = ProtectedServer::start(&authority);
    let store = TestTokenStore::new();

    let before = pool(&store, server.url()).await;
    assert_eq!(before.0.states()[0].status, ConnectionStatus::LoginRequired);
    assert!(server.tokens().is_empty());
    end(before).await;

    store.login(&server.url()).await.unwrap();
    let first = store.bearer(&server.url()).await.unwrap();
    let pool = pool(&store, server.url()).await;
    assert_eq!(pool.0.states()[0].status, ConnectionStatus::Ready);
    assert_eq!(call(&pool.0).await.unwrap().text, "you");
    assert_eq!(server.tokens(), [&*first]);

    // The server refuses the token: one renewal, then the call succeeds.
    authority.revoke();
    assert_eq!(call(&pool.0).await.unwrap().text, "you");
    let second = store.bearer(&server.url()).await.unwrap();
    assert_eq!(server.tokens(), [&*first, &*second]);
    assert_eq!(authority.refreshes(), 1);
    // The new token is masked as well.
    let e = call_with(&pool.0, "{\"leak\":true}")
        .await
        .unwrap_err()
        .to_string();
    assert!(e.starts_with("I do not like Bearer [REDACTED]"), "{e}");

    // The server refuses the new token as well: one more renewal and request, then a login is required.
    server.refuse();
    let e = call(&pool.0).await.unwrap_err().to_string();
    assert!(e.contains("login"), "{e}");
    assert_eq!(authority.refreshes(), 2);
    assert_eq!(server.tokens().len(), 3, "{:?}", server.tokens());
    end(pool).await;
}

#[tokio::test]
async fn insufficient_scope_is_recorded_for_the_next_login() {
    let authority = AuthorizationServer::start();
    let server = ProtectedServer::start(&authority);
    server.challenge(", scope=\"read\"");
    let store = TestTokenStore::new();
    store.login(&server.url()).await.unwrap();
    let pool = pool(&store, server.url()).await;
    server.forbid("write");
    let e = call(&pool.0).await.unwrap_err().to_string();
    assert!(e.contains("requires a login"), "{e}");
    end(pool).await;
    assert_eq!(authority.refreshes(), 0);

    store.login(&server.url()).await.unwrap();
    let requests = authority.web.requests();
    let page = requests.iter().rfind(|r| r.path == "/authorize").unwrap();
    assert_eq!(page.query["scope"], "read write");

    // All scopes are granted: no further login is suggested.
    let pool = self::pool(&store, server.url()).await;
    let e = call(&pool.0).await.unwrap_err().to_string();
    assert!(e.contains("a new login would not help"), "{e}");
    assert_eq!(pool.0.states()[0].status, ConnectionStatus::Ready);
    end(pool).await;
}

/// A home with the MCP server `guarded` at `url`.
fn home(url: &str, more: &str) -> Helper {
    let helper = Helper::new([]);
    point(&helper, url, more);
    helper
}

/// Configures the alias `guarded` for `url`.
fn point(helper: &Helper, url: &str, more: &str) {
    helper.config(&format!("[mcp.servers.guarded]\nurl = \"{url}\"\n{more}"));
}

/// Waits until a login waits for the browser, and returns the URL of the login page.
fn page(login: &RunningProgram) -> String {
    login.stdout.wait_text("waiting for the browser");
    let output = login.stdout.so_far();
    let page = output.lines().find(|l| l.starts_with("http://"));
    page.expect("a page").to_owned()
}

/// Token files and their locks.
fn kept(helper: &Helper) -> Vec<PathBuf> {
    files(&helper.path("state/mcp-tokens"))
}

#[test]
fn running_daemon_connects_after_a_login() {
    let authority = AuthorizationServer::start();
    let server = ProtectedServer::start(&authority);
    let helper = home(&server.url(), "");
    let list = || helper.call(["mcp", "list", "--json"]).run().json();
    assert_eq!(list()[0]["status"], "login");

    let login = helper.call(["mcp", "login", "guarded"]).start();
    let page = page(&login);
    let (status, to, _) = get(&page);
    assert_eq!(status, 302);
    let to = to.unwrap();
    // Browsers open unused connections and request other paths as well.
    let address = Url::parse(&to).unwrap();
    let idle = std::net::TcpStream::connect(("127.0.0.1", address.port().unwrap())).unwrap();
    assert_eq!(get(address.join("/favicon.ico").unwrap().as_str()).0, 404);
    // A forged answer is refused and does not end the login.
    let state = &pairs(&page)["state"];
    let forged = to.replace(state, "another-questions-state");
    let (status, _, text) = get(&forged);
    assert_eq!(status, 400, "{text}");
    let (status, _, text) = get(&to);
    assert_eq!(status, 200);
    assert!(text.contains("return to the terminal"), "{text}");
    drop(idle);

    let output = login.finish().ok();
    assert!(output.contains("logged in to guarded\n"), "{output}");
    assert!(output.ends_with("guarded: ready, 1 tool\n"), "{output}");
    let tokens = server.tokens();
    assert_eq!(tokens.len(), 1, "{tokens:?}");
    assert_eq!(list()[0]["status"], "ready");
    let tools = helper.call(["mcp", "tools", "--json"]).run().json();
    assert_eq!(tools[0]["name"], "guarded.whoami");

    let json: Vec<PathBuf> = kept(&helper)
        .into_iter()
        .filter(|f| f.extension().is_some_and(|e| e == "json"))
        .collect();
    assert_eq!(json.len(), 1, "{json:?}");
    assert_eq!(mode(&json[0]), 0o600);
    assert_eq!(mode(json[0].parent().unwrap()), 0o700);
    let log = std::fs::read_to_string(helper.path("state/daemon.log")).unwrap();
    for secret in [&*tokens[0], "rt-", "code-"] {
        assert!(!log.contains(secret), "{log}");
        assert!(!output.contains(secret), "{output}");
    }

    // The alias now leads to another server of the same authority, which must not receive the token.
    let other = ProtectedServer::start(&authority);
    point(&helper, &other.url(), "");
    assert_eq!(list()[0]["status"], "login");
    assert!(!other.web.requests().is_empty());
    assert!(other.tokens().is_empty());

    point(&helper, &server.url(), "");
    let output = helper.call(["mcp", "logout", "guarded"]).run().ok();
    assert!(output.starts_with("logged out of guarded\n"), "{output}");
    assert!(kept(&helper).iter().all(|f| !json.contains(f)));
    assert_eq!(list()[0]["status"], "login");
    let output = helper.call(["mcp", "logout", "guarded"]).run().ok();
    assert_eq!(output, "not logged in to guarded\n");
}

#[test]
fn aborted_login_leaves_no_files() {
    let authority = AuthorizationServer::start();
    let server = ProtectedServer::start(&authority);
    let helper = home(&server.url(), "");

    // The person presses Ctrl-C.
    let login = helper.call(["mcp", "login", "guarded"]).start();
    page(&login);
    login.signal(Signal::SIGINT);
    let run = login.finish();
    assert_eq!(run.code, 130, "{run:?}");
    assert_eq!(run.stderr, "[aish] interrupted; not logged in\n");
    assert_eq!(kept(&helper), Vec::<PathBuf>::new());

    // The person denies access.
    authority.manner(|m| m.consent = LoginOutcome::No);
    let login = helper.call(["mcp", "login", "guarded"]).start();
    let (_, to, _) = get(&page(&login));
    assert_eq!(get(&to.unwrap()).0, 200);
    let output = login.finish().fails(1);
    assert!(output.contains("the login was denied"), "{output}");
    assert!(!output.contains('\u{1b}'), "{output}");
    assert_eq!(kept(&helper), Vec::<PathBuf>::new());
    // No daemon was started.
    assert_eq!(helper.listener(), None);
}

#[test]
fn login_is_refused_where_it_is_not_used() {
    let authority = AuthorizationServer::start();
    let server = ProtectedServer::start(&authority);
    let helper = home(&server.url(), "auth_env = \"TOKEN\"\n");
    let login = |alias: &str, code: i32| helper.call(["mcp", "login", alias]).run().fails(code);
    assert!(login("guarded", 3).contains("auth_env, which takes precedence over a login"));
    assert!(login("nobody", 2).contains("no MCP server is called nobody"));
    point(
        &helper,
        &server.url(),
        "headers = { authorization = \"x\" }\n",
    );
    assert!(login("guarded", 3).contains("authorization, which takes precedence over a login"));
    helper.config("[mcp.servers.files]\ncommand = \"cat\"\n");
    assert!(login("files", 2).contains("files is a program"));
    assert!(server.web.requests().is_empty());
}

#[test]
fn login_at_a_manually_connected_server() {
    let authority = AuthorizationServer::start();
    let server = ProtectedServer::start(&authority);
    let helper = Helper::new([]);
    let run = helper
        .call(["mcp", "connect", &server.url(), "guarded"])
        .run();
    assert_eq!(run.code, 1, "{run:?}");
    let login = helper.call(["mcp", "login", "guarded"]).start();
    let (_, to, _) = get(&page(&login));
    assert_eq!(get(&to.unwrap()).0, 200);
    let output = login.finish().ok();
    assert!(output.ends_with("guarded: ready, 1 tool\n"), "{output}");
}
