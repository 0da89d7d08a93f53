//! OAuth authorization server, and an MCP server that requires its tokens: real HTTP/1.1 on loopback, with threads.
//!
//! The authorization server checks PKCE, redirect URI, resource, client authentication and the single use of codes and
//! refresh tokens; violations fail the test when the server is dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use reqwest::Url;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// A received request.
#[derive(Debug, Clone)]
pub struct WebRequest {
    pub method: String,
    pub path: String,
    pub query: BTreeMap<String, String>,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl WebRequest {
    /// Value of a header; `name` is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(n, _)| n == name)?;
        Some(value)
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    fn form(&self) -> BTreeMap<String, String> {
        let body = String::from_utf8_lossy(&self.body);
        pairs(&format!("http://form/?{body}"))
    }
}

/// Query parameters of a URL.
pub fn pairs(url: &str) -> BTreeMap<String, String> {
    let url = Url::parse(url).expect("a URL");
    url.query_pairs().into_owned().collect()
}

/// Response to a request.
#[derive(Debug, Clone)]
pub struct WebResponse {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

impl WebResponse {
    pub fn json(status: u16, body: &Value) -> WebResponse {
        WebResponse {
            status,
            headers: vec![("content-type", "application/json".into())],
            body: body.to_string(),
        }
    }

    fn empty(status: u16) -> WebResponse {
        WebResponse {
            status,
            headers: Vec::new(),
            body: String::new(),
        }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> WebResponse {
        self.headers.push((name, value.into()));
        self
    }
}

type Handler = Arc<dyn Fn(&WebRequest) -> WebResponse + Send + Sync>;

/// Web server; stops when dropped.
pub struct WebServer {
    addr: SocketAddr,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    handler: Option<Handler>,
    requests: Vec<WebRequest>,
    connections: Vec<TcpStream>,
    stopped: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WebServer {
    /// Starts a server that answers 404 until a handler is set.
    pub fn start() -> WebServer {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let addr = listener.local_addr().expect("its address");
        let shared = Arc::new(Mutex::new(Shared::default()));
        let accept = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut state = lock(&accept);
                if state.stopped {
                    break;
                }
                state.connections.push(stream.try_clone().expect("a copy"));
                let shared = Arc::clone(&accept);
                thread::spawn(move || serve(&shared, &stream));
            }
        });
        WebServer { addr, shared }
    }

    pub fn handle(&self, handler: impl Fn(&WebRequest) -> WebResponse + Send + Sync + 'static) {
        lock(&self.shared).handler = Some(Arc::new(handler));
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// URL of `path` with a host name instead of an address.
    pub fn by_name(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.addr.port())
    }

    /// All requests so far, in order.
    pub fn requests(&self) -> Vec<WebRequest> {
        lock(&self.shared).requests.clone()
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        let mut state = lock(&self.shared);
        state.stopped = true;
        for connection in &state.connections {
            // Fails if the connection is closed already.
            let _ = connection.shutdown(Shutdown::Both);
        }
        state.handler = None;
        drop(state);
        // Wakes the accepting thread so that it ends.
        let _ = TcpStream::connect(self.addr);
    }
}

fn serve(shared: &Mutex<Shared>, stream: &TcpStream) {
    let mut reader = BufReader::new(stream);
    while let Some((method, target, headers, body)) = read_head(&mut reader) {
        let request = WebRequest {
            method,
            path: target.split('?').next().unwrap_or_default().to_owned(),
            query: pairs(&format!("http://query{target}")),
            headers,
            body,
        };
        let handler = {
            let mut state = lock(shared);
            state.requests.push(request.clone());
            state.handler.clone()
        };
        let response = handler.map_or(WebResponse::empty(404), |h| h(&request));
        let mut text = format!(
            "HTTP/1.1 {} Fake\r\ncontent-length: {}\r\n",
            response.status,
            response.body.len()
        );
        for (name, value) in &response.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("\r\n{}", response.body));
        let mut writer = stream;
        if writer.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

type Head = (String, String, Vec<(String, String)>, Vec<u8>);

/// Reads a message: the first two words of its first line, headers, body.
fn read_head(reader: &mut impl BufRead) -> Option<Head> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (first, second) = (words.next()?, words.next()?);
    let mut headers: Vec<(String, String)> = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(n, _)| n == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, l)| l.parse().expect("a length"))];
    reader.read_exact(&mut body).ok()?;
    Some((first, second, headers, body))
}

/// Requests a page like a browser, without following redirects. Returns status, `Location` and body.
pub fn get(url: &str) -> (u16, Option<String>, String) {
    let url = Url::parse(url).expect("a URL");
    let host = url.host_str().expect("a host");
    let port = url.port().expect("a port");
    let mut stream = TcpStream::connect((host, port)).expect("a server");
    let (path, query) = (url.path(), url.query().unwrap_or_default());
    write!(
        stream,
        "GET {path}?{query} HTTP/1.1\r\nhost: {host}\r\n\r\n"
    )
    .expect("sent");
    let (_, status, headers, body) = read_head(&mut BufReader::new(stream)).expect("an answer");
    let location = headers.into_iter().find(|(n, _)| n == "location");
    (
        status.parse().expect("a status"),
        location.map(|(_, v)| v),
        String::from_utf8_lossy(&body).into_owned(),
    )
}

/// Outcome of the login page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginOutcome {
    Yes,
    /// The person denies access.
    No,
    /// The response has the `state` of another request.
    OtherState,
    /// The response names another issuer.
    OtherIssuer,
}

/// Data bound to a code or a refresh token.
#[derive(Debug, Clone, Default)]
struct TokenGrant {
    client: String,
    redirect: String,
    challenge: String,
    scope: String,
    resource: String,
}

#[derive(Default)]
struct IssuedTokens {
    clients: BTreeMap<String, Vec<String>>,
    codes: BTreeMap<String, TokenGrant>,
    /// Removed when used; a second use is a violation.
    refresh: BTreeMap<String, TokenGrant>,
    spent: BTreeSet<String>,
    access: BTreeSet<String>,
    count: usize,
    violations: Vec<String>,
    refreshes: usize,
}

/// Settings of the authorization server.
#[derive(Clone)]
pub struct AuthoritySettings {
    pub consent: LoginOutcome,
    /// `expires_in` of access tokens, in seconds.
    pub expires_in: Option<u64>,
    /// Whether refresh tokens are issued.
    pub refresh: bool,
    /// Client secret issued at registration.
    pub secret: Option<String>,
    /// `token_endpoint_auth_methods_supported`.
    pub methods: Vec<&'static str>,
    /// Error response for refresh requests.
    pub refuses: Option<(u16, Value)>,
    /// Replaces parts of the metadata.
    pub metadata: Value,
}

impl Default for AuthoritySettings {
    fn default() -> AuthoritySettings {
        AuthoritySettings {
            consent: LoginOutcome::Yes,
            expires_in: Some(3600),
            refresh: true,
            secret: None,
            methods: vec!["none", "client_secret_basic", "client_secret_post"],
            refuses: None,
            metadata: json!({}),
        }
    }
}

struct AuthorityState {
    manner: Mutex<AuthoritySettings>,
    issued: Mutex<IssuedTokens>,
    issuer: String,
    resources: Mutex<BTreeSet<String>>,
}

/// Authorization server.
pub struct AuthorizationServer {
    pub web: WebServer,
    inner: Arc<AuthorityState>,
}

impl AuthorizationServer {
    pub fn start() -> AuthorizationServer {
        let web = WebServer::start();
        let inner = Arc::new(AuthorityState {
            manner: Mutex::default(),
            issued: Mutex::default(),
            issuer: web.url(""),
            resources: Mutex::default(),
        });
        let handler = Arc::clone(&inner);
        web.handle(move |request| handler.answer(request));
        AuthorizationServer { web, inner }
    }

    /// Changes the settings.
    pub fn manner(&self, change: impl FnOnce(&mut AuthoritySettings)) {
        change(&mut lock(&self.inner.manner));
    }

    /// Whether this access token is valid.
    pub fn takes(&self, token: &str) -> bool {
        lock(&self.inner.issued).access.contains(token)
    }

    /// Revokes all access tokens.
    pub fn revoke(&self) {
        lock(&self.inner.issued).access.clear();
    }

    /// Number of refresh requests granted.
    pub fn refreshes(&self) -> usize {
        lock(&self.inner.issued).refreshes
    }

    /// Registers a client with a fixed id.
    pub fn knows(&self, client: &str, redirect: &str) {
        let mut issued = lock(&self.inner.issued);
        issued.clients.insert(client.into(), vec![redirect.into()]);
    }

    /// Number of registered clients.
    pub fn clients(&self) -> usize {
        lock(&self.inner.issued).clients.len()
    }

    /// Distinct paths requested so far.
    pub fn paths(&self) -> BTreeSet<String> {
        self.web.requests().into_iter().map(|r| r.path).collect()
    }
}

impl Drop for AuthorizationServer {
    fn drop(&mut self) {
        let violations = std::mem::take(&mut lock(&self.inner.issued).violations);
        if !thread::panicking() {
            assert!(violations.is_empty(), "wrong requests: {violations:#?}");
        }
    }
}

impl AuthorityState {
    fn answer(&self, request: &WebRequest) -> WebResponse {
        let manner = lock(&self.manner).clone();
        let mut issued = lock(&self.issued);
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/.well-known/oauth-authorization-server") => {
                WebResponse::json(200, &self.metadata(&manner))
            }
            ("POST", "/register") => register(&mut issued, &manner, &request.json()),
            ("GET", "/authorize") => self.authorize(&mut issued, &manner, &request.query),
            ("POST", "/token") => self.token(&mut issued, &manner, request),
            _ => WebResponse::empty(404),
        }
    }

    fn metadata(&self, manner: &AuthoritySettings) -> Value {
        let at = |path: &str| format!("{}{path}", self.issuer);
        let mut metadata = json!({
            "issuer": self.issuer,
            "authorization_endpoint": at("/authorize"),
            "token_endpoint": at("/token"),
            "registration_endpoint": at("/register"),
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": manner.methods,
            "authorization_response_iss_parameter_supported": true,
        });
        for (key, value) in manner.metadata.as_object().expect("an object") {
            metadata[key] = value.clone();
        }
        metadata
    }

    fn authorize(
        &self,
        issued: &mut IssuedTokens,
        manner: &AuthoritySettings,
        query: &BTreeMap<String, String>,
    ) -> WebResponse {
        let of = |name: &str| query.get(name).cloned().unwrap_or_default();
        let (client, redirect, state) = (of("client_id"), of("redirect_uri"), of("state"));
        let resource = of("resource");
        let known = issued.clients.get(&client);
        for (right, what) in [
            (of("response_type") == "code", "response_type"),
            (
                of("code_challenge_method") == "S256",
                "code_challenge_method",
            ),
            (of("code_challenge").len() == 43, "code_challenge"),
            (state.len() >= 16, "state"),
            (lock(&self.resources).contains(&resource), "resource"),
            (
                known.is_some_and(|uris| uris.contains(&redirect)),
                "redirect_uri",
            ),
        ] {
            if !right {
                issued
                    .violations
                    .push(format!("authorize: {what}: {query:?}"));
            }
        }
        issued.count += 1;
        let code = format!("code-{}", issued.count);
        let mut to = Url::parse(&redirect).expect("a redirect");
        let mut answer = vec![("state", state.as_str()), ("code", &code)];
        match manner.consent {
            LoginOutcome::Yes => answer.push(("iss", &self.issuer)),
            LoginOutcome::No => {
                answer[1] = ("error", "access_denied");
                answer.push(("error_description", "the \u{1b}[31mperson said no"));
            }
            LoginOutcome::OtherState => answer[0].1 = "another-questions-state",
            LoginOutcome::OtherIssuer => answer.push(("iss", "https://evil.example.com")),
        }
        to.query_pairs_mut().extend_pairs(answer);
        let grant = TokenGrant {
            client,
            redirect,
            challenge: of("code_challenge"),
            scope: of("scope"),
            resource,
        };
        issued.codes.insert(code, grant);
        WebResponse::empty(302).with("location", to)
    }

    fn token(
        &self,
        issued: &mut IssuedTokens,
        manner: &AuthoritySettings,
        request: &WebRequest,
    ) -> WebResponse {
        let form = request.form();
        let of = |name: &str| form.get(name).cloned().unwrap_or_default();
        let client = self.client(issued, manner, request, &form);
        let grant = match of("grant_type").as_str() {
            "authorization_code" => {
                let Some(grant) = issued.codes.remove(&of("code")) else {
                    issued.violations.push(format!("token: code: {form:?}"));
                    return refusal("invalid_grant");
                };
                let digest = Sha256::digest(of("code_verifier").as_bytes());
                for (right, what) in [
                    (base64(&digest, b"-_") == grant.challenge, "code_verifier"),
                    (of("redirect_uri") == grant.redirect, "redirect_uri"),
                    (client == grant.client, "client_id"),
                ] {
                    if !right {
                        issued.violations.push(format!("token: {what}: {form:?}"));
                    }
                }
                grant
            }
            "refresh_token" => {
                let token = of("refresh_token");
                if let Some((status, body)) = &manner.refuses {
                    return WebResponse::json(*status, body);
                }
                let Some(grant) = issued.refresh.remove(&token) else {
                    if issued.spent.contains(&token) {
                        issued.violations.push(format!("{token} was used twice"));
                    }
                    return refusal("invalid_grant");
                };
                if client != grant.client {
                    issued.violations.push(format!("refresh: client: {form:?}"));
                }
                issued.spent.insert(token);
                issued.refreshes += 1;
                grant
            }
            other => {
                issued
                    .violations
                    .push(format!("token: grant_type: {other}"));
                return refusal("unsupported_grant_type");
            }
        };
        if of("resource") != grant.resource {
            issued.violations.push(format!("token: resource: {form:?}"));
        }
        issued.count += 1;
        let access = format!("at-{}", issued.count);
        let mut answer = json!({ "access_token": access, "token_type": "Bearer" });
        if let Some(seconds) = manner.expires_in {
            answer["expires_in"] = json!(seconds);
        }
        if !grant.scope.is_empty() {
            answer["scope"] = json!(grant.scope);
        }
        issued.access.insert(access);
        if manner.refresh {
            let refresh = format!("rt-{}", issued.count);
            answer["refresh_token"] = json!(refresh);
            issued.refresh.insert(refresh, grant);
        }
        WebResponse::json(200, &answer)
    }

    /// Authenticates the client at the token endpoint.
    fn client(
        &self,
        issued: &mut IssuedTokens,
        manner: &AuthoritySettings,
        request: &WebRequest,
        form: &BTreeMap<String, String>,
    ) -> String {
        let basic = request.header("authorization").map(str::to_owned);
        let in_body = form.get("client_id").cloned();
        let Some(secret) = &manner.secret else {
            if basic.is_some() || form.contains_key("client_secret") {
                issued
                    .violations
                    .push("a public client has no secret".into());
            }
            return in_body.unwrap_or_default();
        };
        if manner.methods.contains(&"client_secret_basic") {
            let found = issued.clients.keys().find(|id| {
                let proof = base64(format!("{id}:{secret}").as_bytes(), b"+/");
                let padding = "=".repeat((4 - proof.len() % 4) % 4);
                basic == Some(format!("Basic {proof}{padding}"))
            });
            let found = found.cloned();
            if found.is_none() {
                issued.violations.push(format!("no basic proof: {basic:?}"));
            }
            return found.unwrap_or_default();
        }
        if form.get("client_secret") != Some(secret) || basic.is_some() {
            issued
                .violations
                .push(format!("no secret in the body: {form:?}"));
        }
        in_body.unwrap_or_default()
    }
}

fn register(issued: &mut IssuedTokens, manner: &AuthoritySettings, client: &Value) -> WebResponse {
    let redirects: Vec<String> = client["redirect_uris"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|v| v.as_str().map(str::to_owned))
        .collect();
    let local = |uri: &String| uri.starts_with("http://127.0.0.1:") && uri.ends_with("/callback");
    for (right, what) in [
        (client["client_name"] == "aish", "client_name"),
        (
            redirects.len() == 1 && redirects.iter().all(local),
            "redirect_uris",
        ),
        (
            client["grant_types"] == json!(["authorization_code", "refresh_token"]),
            "grant_types",
        ),
        (
            client["response_types"] == json!(["code"]),
            "response_types",
        ),
        (client["application_type"] == "native", "application_type"),
    ] {
        if !right {
            issued
                .violations
                .push(format!("register: {what}: {client}"));
        }
    }
    let id = format!("client-{}", issued.clients.len() + 1);
    issued.clients.insert(id.clone(), redirects.clone());
    let mut answer = json!({ "client_id": id, "redirect_uris": redirects });
    if let Some(secret) = &manner.secret {
        answer["client_secret"] = json!(secret);
    }
    WebResponse::json(201, &answer)
}

fn refusal(error: &str) -> WebResponse {
    WebResponse::json(400, &json!({ "error": error }))
}

/// Base64 without padding; `last` contains the two letters in which the alphabets differ.
fn base64(bytes: &[u8], last: &[u8; 2]) -> String {
    let mut letters: Vec<u8> = (b'A'..=b'Z')
        .chain(b'a'..=b'z')
        .chain(b'0'..=b'9')
        .collect();
    letters.extend_from_slice(last);
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits =
            three.iter().fold(0u32, |bits, b| bits << 8 | u32::from(*b)) << (8 * (3 - three.len()));
        for at in 0..=three.len() {
            let six = bits >> (18 - 6 * at) & 63;
            text.push(char::from(letters[usize::try_from(six).expect("six bits")]));
        }
    }
    text
}

/// MCP server that requires tokens of an [`AuthorizationServer`]: Streamable HTTP with JSON responses, and one tool.
pub struct ProtectedServer {
    pub web: WebServer,
    rules: Arc<Mutex<Rules>>,
}

/// Settings of a protected server.
#[derive(Default)]
struct Rules {
    /// `resource_metadata` of the 401.
    at: String,
    /// Further parameters of the 401's challenge.
    challenge: String,
    refuses: bool,
    forbids: Option<&'static str>,
}

impl ProtectedServer {
    /// Starts a server that accepts the tokens of this authority.
    pub fn start(authority: &AuthorizationServer) -> ProtectedServer {
        let issuer = authority.inner.issuer.clone();
        ProtectedServer::naming(
            authority,
            move |resource| json!({ "resource": resource, "authorization_servers": [issuer] }),
        )
    }

    /// Starts a server whose metadata is computed from its URL by `metadata`.
    pub fn naming(
        authority: &AuthorizationServer,
        metadata: impl Fn(&str) -> Value + Send + Sync + 'static,
    ) -> ProtectedServer {
        let web = WebServer::start();
        let url = web.url("/mcp");
        lock(&authority.inner.resources).insert(url.clone());
        let inner = Arc::clone(&authority.inner);
        let rules = Arc::new(Mutex::new(Rules {
            at: web.url("/.well-known/oauth-protected-resource/mcp"),
            ..Rules::default()
        }));
        let ruled = Arc::clone(&rules);
        web.handle(move |request| {
            if request.path == "/.well-known/oauth-protected-resource/mcp" {
                return WebResponse::json(200, &metadata(&url));
            }
            if request.path != "/mcp" {
                return WebResponse::empty(404);
            }
            let rules = lock(&ruled);
            let token = request
                .header("authorization")
                .and_then(|v| v.strip_prefix("Bearer "));
            let known = token.is_some_and(|t| lock(&inner.issued).access.contains(t));
            if rules.refuses || !known {
                let (at, more) = (&rules.at, &rules.challenge);
                let challenge = format!("Bearer resource_metadata=\"{at}\"{more}");
                return WebResponse::empty(401).with("www-authenticate", challenge);
            }
            match rules.forbids {
                Some(scope) if request.json()["method"] == "tools/call" => {
                    let challenge =
                        format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
                    WebResponse::empty(403).with("www-authenticate", challenge)
                }
                _ => mcp(request),
            }
        });
        ProtectedServer { web, rules }
    }

    /// Adds parameters to the 401's challenge.
    pub fn challenge(&self, more: &str) {
        lock(&self.rules).challenge = more.to_owned();
    }

    /// Refuses all tokens from now on.
    pub fn refuse(&self) {
        lock(&self.rules).refuses = true;
    }

    /// Requires a scope that no token has, for all tool calls.
    pub fn forbid(&self, scope: &'static str) {
        lock(&self.rules).forbids = Some(scope);
    }

    /// Sets `resource_metadata` of the 401.
    pub fn moved(&self, to: &str) {
        lock(&self.rules).at = to.to_owned();
    }

    /// URL of the MCP endpoint.
    pub fn url(&self) -> String {
        self.web.url("/mcp")
    }

    /// Tokens received, in order, without consecutive repetitions.
    pub fn tokens(&self) -> Vec<String> {
        let mut tokens: Vec<String> = self
            .web
            .requests()
            .iter()
            .filter_map(|r| {
                r.header("authorization")?
                    .strip_prefix("Bearer ")
                    .map(str::to_owned)
            })
            .collect();
        tokens.dedup();
        tokens
    }
}

/// Handler of a server that is its own authority: metadata and 401.
pub fn both(request: &WebRequest, base: &str, metadata: &Value) -> WebResponse {
    match request.path.as_str() {
        "/.well-known/oauth-protected-resource/mcp" => {
            let resource = format!("{base}/mcp");
            WebResponse::json(
                200,
                &json!({ "resource": resource, "authorization_servers": [base] }),
            )
        }
        "/.well-known/oauth-authorization-server" => WebResponse::json(200, metadata),
        "/mcp" => WebResponse::empty(401).with("www-authenticate", "Bearer"),
        _ => WebResponse::empty(404),
    }
}

fn mcp(request: &WebRequest) -> WebResponse {
    if request.method != "POST" {
        return WebResponse::empty(405);
    }
    let call = request.json();
    let id = &call["id"];
    let result = match call["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-06-18",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "protected", "version": "1.0" },
        }),
        "tools/list" => json!({ "tools": [{
            "name": "whoami",
            "description": "Says who is logged in.",
            "inputSchema": { "type": "object" },
        }] }),
        "tools/call" if call["params"]["arguments"]["leak"] == true => {
            let token = request.header("authorization").unwrap_or_default();
            let error = json!({ "code": -32000, "message": format!("I do not like {token}") });
            return WebResponse::json(200, &json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        }
        "tools/call" => json!({ "content": [{ "type": "text", "text": "you" }] }),
        method if method.starts_with("notifications/") => return WebResponse::empty(202),
        method => {
            let error = json!({ "code": -32601, "message": format!("no method {method}") });
            return WebResponse::json(200, &json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        }
    };
    WebResponse::json(
        200,
        &json!({ "jsonrpc": "2.0", "id": id, "result": result }),
    )
}
