//! An authorization server and an MCP server that wants its tokens: real HTTP/1.1 on loopback, in threads.
//!
//! The authorization server is a strict one: it checks PKCE, redirect, resource, client and the single use of
//! codes and refresh tokens, and what it finds wrong fails the test when it is dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use reqwest::Url;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub query: BTreeMap<String, String>,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    /// The value of a header, by its lower-case name.
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

/// The parameters of a URL.
pub fn pairs(url: &str) -> BTreeMap<String, String> {
    let url = Url::parse(url).expect("a URL");
    url.query_pairs().into_owned().collect()
}

/// What is answered.
#[derive(Debug, Clone)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

impl Response {
    pub fn json(status: u16, body: &Value) -> Response {
        Response {
            status,
            headers: vec![("content-type", "application/json".into())],
            body: body.to_string(),
        }
    }

    fn empty(status: u16) -> Response {
        Response {
            status,
            headers: Vec::new(),
            body: String::new(),
        }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Response {
        self.headers.push((name, value.into()));
        self
    }
}

type Handler = Arc<dyn Fn(&Request) -> Response + Send + Sync>;

/// A web server, for as long as this value lives.
pub struct Web {
    addr: SocketAddr,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    handler: Option<Handler>,
    requests: Vec<Request>,
    connections: Vec<TcpStream>,
    stopped: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Web {
    /// One that answers 404 until it is told more.
    pub fn start() -> Web {
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
        Web { addr, shared }
    }

    pub fn handle(&self, handler: impl Fn(&Request) -> Response + Send + Sync + 'static) {
        lock(&self.shared).handler = Some(Arc::new(handler));
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// The same by a name.
    pub fn by_name(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.addr.port())
    }

    /// Everything that was asked so far, in order.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.shared).requests.clone()
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let mut state = lock(&self.shared);
        state.stopped = true;
        for connection in &state.connections {
            // Closed already is as good.
            let _ = connection.shutdown(Shutdown::Both);
        }
        state.handler = None;
        drop(state);
        // Wakes the accepting thread, which then ends.
        let _ = TcpStream::connect(self.addr);
    }
}

fn serve(shared: &Mutex<Shared>, stream: &TcpStream) {
    let mut reader = BufReader::new(stream);
    while let Some((method, target, headers, body)) = read_head(&mut reader) {
        let request = Request {
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
        let response = handler.map_or(Response::empty(404), |h| h(&request));
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

/// The first two words of a head, its headers, and the body.
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

/// What a browser does with one address: asks for it. Status, where it is sent on to, page.
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

/// How the person, or the authorization server, answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    Yes,
    /// The person says no.
    No,
    /// With the state of another question.
    OtherState,
    /// In the name of another authorization server.
    OtherIssuer,
}

/// What is known of a code or a refresh token.
#[derive(Debug, Clone, Default)]
struct Grant {
    client: String,
    redirect: String,
    challenge: String,
    scope: String,
    resource: String,
}

#[derive(Default)]
struct Issued {
    clients: BTreeMap<String, Vec<String>>,
    codes: BTreeMap<String, Grant>,
    /// Taken out when used: the second use of one is a violation.
    refresh: BTreeMap<String, Grant>,
    spent: BTreeSet<String>,
    access: BTreeSet<String>,
    count: usize,
    violations: Vec<String>,
    refreshes: usize,
}

/// What a test may want otherwise.
#[derive(Clone)]
pub struct Manner {
    pub consent: Consent,
    /// Seconds that an access token lasts, as the answer says it.
    pub expires_in: Option<u64>,
    /// Whether there are refresh tokens.
    pub refresh: bool,
    /// What clients get when they register.
    pub secret: Option<String>,
    /// How they prove who they are: `token_endpoint_auth_methods_supported`.
    pub methods: Vec<&'static str>,
    /// What refreshing is answered with, where it is not granted.
    pub refuses: Option<(u16, Value)>,
    /// Replaces parts of the metadata.
    pub metadata: Value,
}

impl Default for Manner {
    fn default() -> Manner {
        Manner {
            consent: Consent::Yes,
            expires_in: Some(3600),
            refresh: true,
            secret: None,
            methods: vec!["none", "client_secret_basic", "client_secret_post"],
            refuses: None,
            metadata: json!({}),
        }
    }
}

struct Inner {
    manner: Mutex<Manner>,
    issued: Mutex<Issued>,
    issuer: String,
    resources: Mutex<BTreeSet<String>>,
}

/// The authorization server.
pub struct Authority {
    pub web: Web,
    inner: Arc<Inner>,
}

impl Authority {
    pub fn start() -> Authority {
        let web = Web::start();
        let inner = Arc::new(Inner {
            manner: Mutex::default(),
            issued: Mutex::default(),
            issuer: web.url(""),
            resources: Mutex::default(),
        });
        let handler = Arc::clone(&inner);
        web.handle(move |request| handler.answer(request));
        Authority { web, inner }
    }

    /// Changes how it answers from now on.
    pub fn manner(&self, change: impl FnOnce(&mut Manner)) {
        change(&mut lock(&self.inner.manner));
    }

    /// Whether it has given this access token and takes it yet.
    pub fn takes(&self, token: &str) -> bool {
        lock(&self.inner.issued).access.contains(token)
    }

    /// Takes back every access token.
    pub fn revoke(&self) {
        lock(&self.inner.issued).access.clear();
    }

    /// How often a refresh token was traded in.
    pub fn refreshes(&self) -> usize {
        lock(&self.inner.issued).refreshes
    }

    /// Makes a client known, as its owner would.
    pub fn knows(&self, client: &str, redirect: &str) {
        let mut issued = lock(&self.inner.issued);
        issued.clients.insert(client.into(), vec![redirect.into()]);
    }

    /// How many clients have registered.
    pub fn clients(&self) -> usize {
        lock(&self.inner.issued).clients.len()
    }

    /// The paths that were asked for, each once.
    pub fn paths(&self) -> BTreeSet<String> {
        self.web.requests().into_iter().map(|r| r.path).collect()
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let violations = std::mem::take(&mut lock(&self.inner.issued).violations);
        if !thread::panicking() {
            assert!(violations.is_empty(), "wrong requests: {violations:#?}");
        }
    }
}

impl Inner {
    fn answer(&self, request: &Request) -> Response {
        let manner = lock(&self.manner).clone();
        let mut issued = lock(&self.issued);
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/.well-known/oauth-authorization-server") => {
                Response::json(200, &self.metadata(&manner))
            }
            ("POST", "/register") => register(&mut issued, &manner, &request.json()),
            ("GET", "/authorize") => self.authorize(&mut issued, &manner, &request.query),
            ("POST", "/token") => self.token(&mut issued, &manner, request),
            _ => Response::empty(404),
        }
    }

    fn metadata(&self, manner: &Manner) -> Value {
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
        issued: &mut Issued,
        manner: &Manner,
        query: &BTreeMap<String, String>,
    ) -> Response {
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
            Consent::Yes => answer.push(("iss", &self.issuer)),
            Consent::No => {
                answer[1] = ("error", "access_denied");
                answer.push(("error_description", "the \u{1b}[31mperson said no"));
            }
            Consent::OtherState => answer[0].1 = "another-questions-state",
            Consent::OtherIssuer => answer.push(("iss", "https://evil.example.com")),
        }
        to.query_pairs_mut().extend_pairs(answer);
        let grant = Grant {
            client,
            redirect,
            challenge: of("code_challenge"),
            scope: of("scope"),
            resource,
        };
        issued.codes.insert(code, grant);
        Response::empty(302).with("location", to)
    }

    fn token(&self, issued: &mut Issued, manner: &Manner, request: &Request) -> Response {
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
                    return Response::json(*status, body);
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
        Response::json(200, &answer)
    }

    /// Who asks at the token endpoint, by the proof that its metadata demand.
    fn client(
        &self,
        issued: &mut Issued,
        manner: &Manner,
        request: &Request,
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

fn register(issued: &mut Issued, manner: &Manner, client: &Value) -> Response {
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
    Response::json(201, &answer)
}

fn refusal(error: &str) -> Response {
    Response::json(400, &json!({ "error": error }))
}

/// Without padding; `last` has the two letters in which the alphabets differ.
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

/// An MCP server behind an [`Authority`]: legacy Streamable HTTP with plain JSON, and one tool.
pub struct Protected {
    pub web: Web,
    rules: Arc<Mutex<Rules>>,
}

/// How a protected server answers.
#[derive(Default)]
struct Rules {
    /// Where its metadata is, as its 401 says.
    at: String,
    /// What its 401 says beside that.
    challenge: String,
    refuses: bool,
    forbids: Option<&'static str>,
}

impl Protected {
    /// One that takes the tokens of this authority.
    pub fn start(authority: &Authority) -> Protected {
        let issuer = authority.inner.issuer.clone();
        Protected::naming(
            authority,
            move |resource| json!({ "resource": resource, "authorization_servers": [issuer] }),
        )
    }

    /// One with metadata of the test's own, made of its URL.
    pub fn naming(
        authority: &Authority,
        metadata: impl Fn(&str) -> Value + Send + Sync + 'static,
    ) -> Protected {
        let web = Web::start();
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
                return Response::json(200, &metadata(&url));
            }
            if request.path != "/mcp" {
                return Response::empty(404);
            }
            let rules = lock(&ruled);
            let token = request
                .header("authorization")
                .and_then(|v| v.strip_prefix("Bearer "));
            let known = token.is_some_and(|t| lock(&inner.issued).access.contains(t));
            if rules.refuses || !known {
                let (at, more) = (&rules.at, &rules.challenge);
                let challenge = format!("Bearer resource_metadata=\"{at}\"{more}");
                return Response::empty(401).with("www-authenticate", challenge);
            }
            match rules.forbids {
                Some(scope) if request.json()["method"] == "tools/call" => {
                    let challenge =
                        format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
                    Response::empty(403).with("www-authenticate", challenge)
                }
                _ => mcp(request),
            }
        });
        Protected { web, rules }
    }

    /// Adds this to what the 401 says.
    pub fn challenge(&self, more: &str) {
        lock(&self.rules).challenge = more.to_owned();
    }

    /// Takes no token any more.
    pub fn refuse(&self) {
        lock(&self.rules).refuses = true;
    }

    /// Wants this scope beyond what any token has, for every call of a tool.
    pub fn forbid(&self, scope: &'static str) {
        lock(&self.rules).forbids = Some(scope);
    }

    /// Lets the 401 say that the metadata is there.
    pub fn moved(&self, to: &str) {
        lock(&self.rules).at = to.to_owned();
    }

    /// Its URL.
    pub fn url(&self) -> String {
        self.web.url("/mcp")
    }

    /// The tokens that were sent to it, in order, without those that came again.
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

/// What a server answers that is its own authority, up to the metadata.
pub fn both(request: &Request, base: &str, metadata: &Value) -> Response {
    match request.path.as_str() {
        "/.well-known/oauth-protected-resource/mcp" => {
            let resource = format!("{base}/mcp");
            Response::json(
                200,
                &json!({ "resource": resource, "authorization_servers": [base] }),
            )
        }
        "/.well-known/oauth-authorization-server" => Response::json(200, metadata),
        "/mcp" => Response::empty(401).with("www-authenticate", "Bearer"),
        _ => Response::empty(404),
    }
}

fn mcp(request: &Request) -> Response {
    if request.method != "POST" {
        return Response::empty(405);
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
            return Response::json(200, &json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        }
        "tools/call" => json!({ "content": [{ "type": "text", "text": "you" }] }),
        method if method.starts_with("notifications/") => return Response::empty(202),
        method => {
            let error = json!({ "code": -32601, "message": format!("no method {method}") });
            return Response::json(200, &json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        }
    };
    Response::json(
        200,
        &json!({ "jsonrpc": "2.0", "id": id, "result": result }),
    )
}
