//! An S3 server with one bucket. It computes the signature of each request itself and refuses others, and does what a test wants
//! of a server that fails.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use sha2::{Digest, Sha256};

use super::request_head::RequestHead;

/// The id of the key that the server knows.
pub const ACCESS_KEY: &str = "AKTESTTESTTESTTEST00";
/// Its secret.
pub const SECRET_KEY: &str = "q7Rn/2tV9xKp+4wLmZs8yBcD1eFgHjUo3iAvT6Xk";
/// The region of the bucket.
pub const REGION: &str = "eu-test-1";
/// Its name.
pub const BUCKET: &str = "test-pages";

/// What the server does with the requests of a method.
#[derive(Debug, Clone, Default)]
pub enum Fault {
    /// What it should.
    #[default]
    None,
    /// Answers with this status line, these header lines and this body.
    Answer(&'static str, String, Vec<u8>),
    /// Answers with this status line and a body without an end.
    Endless(&'static str),
    /// Claims to have done it.
    Lie,
    /// Does not answer, and does nothing.
    HoldBefore,
    /// Does it, but does not answer.
    HoldAfter,
    /// Does it once the test lets it.
    Slow,
}

/// A request.
#[derive(Debug, Clone)]
pub struct S3Request {
    pub method: String,
    pub target: String,
    pub headers: HashMap<String, String>,
}

/// A stored object.
#[derive(Debug, Clone, PartialEq)]
pub struct S3Object {
    pub content_type: String,
    pub body: String,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, S3Object>,
    requests: Vec<S3Request>,
    /// What happens to the requests of a method after this many that are served correctly.
    faults: HashMap<&'static str, (usize, Fault)>,
    token: Option<String>,
    held: usize,
}

/// The server; its threads end with the test.
pub struct S3Server {
    addr: SocketAddr,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl S3Server {
    pub fn start() -> S3Server {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let addr = listener.local_addr().expect("its address");
        let state = Arc::<(Mutex<State>, Condvar)>::default();
        let served = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = served.clone();
                // Fails if the client has gone.
                thread::spawn(move || drop(serve(&state, stream)));
            }
        });
        S3Server { addr, state }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The settings of `[share]` for this server, followed by `more`.
    pub fn settings(&self, more: &str) -> String {
        format!(
            "[share]\ntarget = \"s3\"\nendpoint = \"{}\"\nbucket = \"{BUCKET}\"\nregion = \"{REGION}\"\nprefix = \"shares\"\naccess_key_env = \"TEST_ACCESS\"\nsecret_key_env = \"TEST_SECRET\"\n{more}",
            self.url()
        )
    }

    pub fn fault(&self, method: &'static str, fault: Fault) {
        self.fault_behind(method, 0, fault);
    }

    /// Serves this many requests of the method first.
    pub fn fault_behind(&self, method: &'static str, served: usize, fault: Fault) {
        lock(&self.state.0).faults.insert(method, (served, fault));
        // A slow response continues if the fault has changed.
        self.state.1.notify_all();
    }

    /// Requires this session token.
    pub fn require_token(&self, token: &str) {
        lock(&self.state.0).token = Some(token.to_owned());
    }

    pub fn objects(&self) -> BTreeMap<String, S3Object> {
        lock(&self.state.0).objects.clone()
    }

    pub fn take_requests(&self) -> Vec<S3Request> {
        std::mem::take(&mut lock(&self.state.0).requests)
    }

    /// Waits until this many requests are held.
    pub fn until_held(&self, count: usize) {
        let (state, changed) = &*self.state;
        let state = lock(state);
        let wait =
            changed.wait_timeout_while(state, crate::support::PATIENCE, |state| state.held < count);
        assert!(!wait.expect("a lock").1.timed_out(), "no request is held");
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(state: &(Mutex<State>, Condvar), mut stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let RequestHead {
        method,
        target,
        headers,
    } = RequestHead::read(&mut reader)?;
    let length = headers.get("content-length").map(|text| text.parse());
    let mut body = vec![0; length.map_or(0, |length| length.expect("a length"))];
    reader.read_exact(&mut body)?;
    let request = S3Request {
        method: method.clone(),
        target: target.clone(),
        headers,
    };
    let (fault, token) = {
        let mut state = lock(&state.0);
        state.requests.push(request.clone());
        let fault = match state.faults.get_mut(method.as_str()) {
            Some((0, fault)) => fault.clone(),
            Some((served, _)) => {
                *served -= 1;
                Fault::None
            }
            None => Fault::None,
        };
        (fault, state.token.clone())
    };
    match &fault {
        Fault::Answer(status, headers, body) => {
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
            )?;
            return stream.write_all(body);
        }
        Fault::Endless(status) => {
            write!(stream, "HTTP/1.1 {status}\r\nconnection: close\r\n\r\n")?;
            loop {
                stream.write_all(&[b'x'; 65536])?;
            }
        }
        Fault::HoldBefore => return hold(state, &stream),
        Fault::Slow => {
            let (held, changed) = state;
            let mut held = lock(held);
            held.held += 1;
            changed.notify_all();
            let is_slow = |state: &mut State| {
                let fault = state.faults.get(method.as_str());
                matches!(fault, Some((_, Fault::Slow)))
            };
            drop(changed.wait_while(held, is_slow).expect("a lock"));
        }
        Fault::None | Fault::Lie | Fault::HoldAfter => {}
    }
    let (status, answer) = match check(&request, token.as_deref()) {
        Err(code) => (
            "403 Forbidden",
            format!(
                "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>refused</Message></Error>"
            ),
        ),
        Ok(_) if matches!(fault, Fault::Lie) => ("204 No Content", String::new()),
        Ok(key) => {
            let mut state = lock(&state.0);
            match method.as_str() {
                "PUT" => {
                    let content_type = request.headers.get("content-type").cloned();
                    let object = S3Object {
                        content_type: content_type.unwrap_or_default(),
                        body: String::from_utf8(body).expect("UTF-8"),
                    };
                    state.objects.insert(key, object);
                    ("200 OK", String::new())
                }
                "DELETE" => {
                    state.objects.remove(&key);
                    ("204 No Content", String::new())
                }
                "HEAD" if state.objects.contains_key(&key) => ("200 OK", String::new()),
                "HEAD" => ("404 Not Found", String::new()),
                _ => ("405 Method Not Allowed", String::new()),
            }
        }
    };
    if matches!(fault, Fault::HoldAfter) {
        return hold(state, &stream);
    }
    write!(
        stream,
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{answer}",
        answer.len()
    )
}

/// Keeps a request until its client goes.
fn hold(state: &(Mutex<State>, Condvar), mut stream: &TcpStream) -> std::io::Result<()> {
    lock(&state.0).held += 1;
    state.1.notify_all();
    stream.read(&mut [0]).map(drop)
}

/// Checks the signature of a request, and returns the name of its object.
fn check(request: &S3Request, token: Option<&str>) -> Result<String, &'static str> {
    let (path, query) = request
        .target
        .split_once('?')
        .ok_or("MissingSecurityHeader")?;
    let key = path
        .strip_prefix(&format!("/{BUCKET}/"))
        .filter(|key| !key.is_empty())
        .ok_or("NoSuchBucket")?;
    let mut parameters: Vec<(&str, &str)> = query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .collect();
    let value = |name: &str| {
        let found = parameters.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| decoded(value))
    };
    let signature = value("X-Amz-Signature").ok_or("AccessDenied")?;
    let date = value("X-Amz-Date").ok_or("AccessDenied")?;
    let credential = value("X-Amz-Credential").ok_or("AccessDenied")?;
    let signed = value("X-Amz-SignedHeaders").ok_or("AccessDenied")?;
    let expires = value("X-Amz-Expires").and_then(|text| text.parse::<u32>().ok());
    if expires.is_none_or(|seconds| seconds > 3600) {
        return Err("AuthorizationQueryParametersError");
    }
    if value("X-Amz-Security-Token").as_deref() != token {
        return Err("InvalidToken");
    }
    let day = date.get(..8).ok_or("AccessDenied")?;
    let scope = format!("{day}/{REGION}/s3/aws4_request");
    if credential != format!("{ACCESS_KEY}/{scope}") {
        return Err("InvalidAccessKeyId");
    }
    // Headers that change who may read an object, or what it is, must be signed.
    for name in request.headers.keys() {
        let must = name.starts_with("x-amz-") || name == "content-type" || name == "host";
        if must && !signed.split(';').any(|known| known == name) {
            return Err("AccessDenied");
        }
    }
    parameters.retain(|(name, _)| *name != "X-Amz-Signature");
    parameters.sort_unstable();
    let query: Vec<String> = parameters
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let mut canonical = format!("{}\n{path}\n{}\n", request.method, query.join("&"));
    for name in signed.split(';') {
        let value = request.headers.get(name).ok_or("SignatureDoesNotMatch")?;
        canonical.push_str(&format!("{name}:{value}\n"));
    }
    canonical.push_str(&format!("\n{signed}\nUNSIGNED-PAYLOAD"));
    let digest = hex(&Sha256::digest(canonical.as_bytes()));
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{digest}");
    let mut key_bytes = format!("AWS4{SECRET_KEY}").into_bytes();
    for part in [day, REGION, "s3", "aws4_request", text.as_str()] {
        key_bytes = hmac(&key_bytes, part.as_bytes());
    }
    match hex(&key_bytes) == signature {
        true => Ok(key.to_owned()),
        false => Err("SignatureDoesNotMatch"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// HMAC-SHA256, by RFC 2104. No key here is longer than a block.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let pad = |with: u8| -> Vec<u8> {
        let key = key.iter().copied().chain(std::iter::repeat(0));
        key.take(64).map(|b| b ^ with).collect()
    };
    let inner = Sha256::digest([&pad(0x36), message].concat());
    Sha256::digest([&pad(0x5c)[..], &inner].concat()).to_vec()
}

fn decoded(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        match byte {
            b'%' => {
                let (high, low) = (digit().expect("a digit"), digit().expect("a digit"));
                out.push(u8::try_from(high * 16 + low).expect("a byte"));
            }
            byte => out.push(byte),
        }
    }
    String::from_utf8(out).expect("UTF-8")
}

/// Test case 2 of RFC 4231.
#[test]
fn the_hmac_is_that_of_the_standard() {
    let digest = hmac(b"Jefe", b"what do ya want for nothing?");
    assert_eq!(
        hex(&digest),
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    );
}
