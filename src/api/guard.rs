//! What every request must pass before it reaches a handler.
//!
//! A page of another site must reach nothing: `Host` must be the address that the server listens on (against DNS rebinding),
//! `Origin` and `Sec-Fetch-Site` must say that the request comes from the server's own page, and over TCP there is always a
//! token. Only the files of the page, `/health` and `/version` are served without one.

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::ApiState;
use super::credentials::{Access, Credentials, GuessResult};
use super::problem::{Answer, Problem};

/// How a request has arrived.
#[derive(Debug, Clone)]
pub enum Transport {
    /// Over TCP.
    Tcp(std::sync::Arc<OwnNames>),
    /// Over the unix socket, from a process of the user.
    Unix,
}

/// Called once a request of a connection has proved who sends it: the connection keeps its place then.
#[derive(Clone)]
pub struct KeepPlace(pub std::sync::Arc<dyn Fn() + Send + Sync>);

/// What the server is called by those who reach it over TCP.
#[derive(Debug)]
pub struct OwnNames {
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The values of `Host` that are accepted.
    pub hosts: Vec<String>,
}

/// Paths that need no token: they tell nothing about the user.
const PUBLIC: [&str; 2] = ["/health", "/version"];
/// The exchange of a ticket, which is itself the proof.
const TICKET: &str = "/v1/tickets";
/// The same for the ticket of a pairing; a browser that waits for the person's decision asks for it there.
const PAIRING: &str = "/v1/pairing";
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Checks a request and passes it on.
pub async fn guard(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let origin = match check(&state, &mut parts) {
        Ok(origin) => origin,
        Err(problem) => return finish(problem.into_response(), None),
    };
    if let (Some(origin), &Method::OPTIONS) = (&origin, &parts.method) {
        return finish(preflight(), Some(origin));
    }
    if parts.extensions.get::<Access>().is_some()
        && let Some(keep) = parts.extensions.get::<KeepPlace>()
    {
        keep.0();
    }
    let response = next.run(Request::from_parts(parts, body)).await;
    finish(response, origin.as_ref())
}

/// Returns the origin that may read the answer, if it is another one.
fn check(state: &ApiState, parts: &mut Parts) -> Answer<Option<HeaderValue>> {
    let transport = parts.extensions.get::<Transport>().cloned();
    let is_page = is_page(parts.uri.path());
    let mut foreign = None;
    let access = match transport {
        Some(Transport::Unix) => Some(Access::Token),
        Some(Transport::Tcp(names)) => {
            host(&parts.headers, &names)?;
            foreign = origin(&parts.headers, &names, &state.cors)?;
            let own_read = matches!(parts.method, Method::GET | Method::HEAD) && is_page;
            fetch_site(&parts.headers, foreign.is_some(), own_read)?;
            let is_preflight = foreign.is_some() && parts.method == Method::OPTIONS;
            match is_preflight || needs_no_token(&parts.method, parts.uri.path()) {
                true => None,
                false => Some(authorization(&parts.headers, &state.credentials)?),
            }
            .map(|access| confirmed(access, parts.uri.path()))
            .transpose()?
        }
        None => {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "origin",
                "the connection of this request is unknown",
            ));
        }
    };
    if let Some(access) = access {
        parts.extensions.insert(access);
    }
    Ok(foreign)
}

/// Whether a path belongs to the page: everything that is not the API. What is not a file of the page is its entry.
pub fn is_page(path: &str) -> bool {
    let under = |prefix: &str| path == prefix || path.starts_with(&format!("{prefix}/"));
    !under("/v1") && !PUBLIC.contains(&path) && path != "/openapi.json"
}

fn needs_no_token(method: &Method, path: &str) -> bool {
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    is_read && (is_page(path) || PUBLIC.contains(&path) || path == "/openapi.json")
        || *method == Method::POST && (path == TICKET || path == PAIRING)
}

fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Answer<Option<&'h str>> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(Problem::bad_request(format!(
            "the header {name} is given twice"
        )));
    }
    let Some(value) = first else { return Ok(None) };
    match value.to_str() {
        Ok(value) => Ok(Some(value)),
        Err(_) => Err(Problem::bad_request(format!(
            "the header {name} is not ASCII"
        ))),
    }
}

fn refused(message: String) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "origin", message)
}

fn host(headers: &HeaderMap, names: &OwnNames) -> Answer<()> {
    let host = only(headers, &header::HOST)?;
    let is_own = |host: &str| names.hosts.iter().any(|own| own.eq_ignore_ascii_case(host));
    match host {
        Some(host) if is_own(host) => Ok(()),
        Some(_) => Err(Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "origin",
            "the header Host names another server",
        )
        .hint(format!(
            "use {}://{}",
            names.scheme,
            names.hosts.first().map_or("127.0.0.1", |h| h)
        ))),
        None => Err(Problem::bad_request("the header Host is missing")),
    }
}

fn origin(headers: &HeaderMap, names: &OwnNames, cors: &[String]) -> Answer<Option<HeaderValue>> {
    let Some(origin) = only(headers, &header::ORIGIN)? else {
        return Ok(None);
    };
    let own = origin.strip_prefix(names.scheme);
    let own = own.and_then(|rest| rest.strip_prefix("://"));
    if own.is_some_and(|own| {
        names
            .hosts
            .iter()
            .any(|host| host.eq_ignore_ascii_case(own))
    }) {
        return Ok(None);
    }
    if cors.iter().any(|allowed| allowed == origin) {
        return Ok(headers.get(header::ORIGIN).cloned());
    }
    Err(
        refused("pages of another origin may not use this server".to_owned())
            .hint("a page of your own: add its origin to cors in [server] of the configuration"),
    )
}

fn fetch_site(headers: &HeaderMap, is_allowed_origin: bool, is_own_read: bool) -> Answer<()> {
    let site = only(headers, &SEC_FETCH_SITE)?;
    let mode = only(headers, &SEC_FETCH_MODE)?;
    let is_refused = match site {
        None | Some("same-origin" | "none") => false,
        // A link to the page is followed; its files hold no data.
        Some(_) => !(is_allowed_origin || is_own_read && mode == Some("navigate")),
    };
    match is_refused {
        true => Err(refused(
            "requests from pages of other sites are refused".to_owned(),
        )),
        false => Ok(()),
    }
}

/// Refuses a browser whose pairing was not confirmed, except where it asks for the decision.
fn confirmed(access: Access, path: &str) -> Answer<Access> {
    match access {
        Access::Unconfirmed(_) if path != PAIRING => Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "authentication",
            "the pairing of this browser was not confirmed",
        )
        .hint("confirm it in the terminal that shows the code")),
        access => Ok(access),
    }
}

fn authorization(headers: &HeaderMap, credentials: &Credentials) -> Answer<Access> {
    let unauthorized = |message: &str| {
        Problem::new(StatusCode::UNAUTHORIZED, "authentication", message).hint(
            "send the header Authorization: Bearer TOKEN; aish-helper serve token show prints it",
        )
    };
    let Some(value) = only(headers, &header::AUTHORIZATION)? else {
        return Err(unauthorized("the request has no token"));
    };
    let (scheme, value) = value.split_once(' ').unwrap_or((value, ""));
    let access = if scheme.eq_ignore_ascii_case("bearer") {
        credentials.bearer(value)
    } else if scheme.eq_ignore_ascii_case("basic") && credentials.has_password() {
        // The user name does not matter.
        let pair = BASE64_STANDARD.decode(value).ok();
        let pair = pair.and_then(|pair| String::from_utf8(pair).ok());
        let password = pair.as_ref().and_then(|pair| pair.split_once(':'));
        match password.map(|(_, password)| credentials.password(password)) {
            Some(GuessResult::Right) => Some(Access::Token),
            Some(GuessResult::TooMany) => {
                let message = "too many wrong passwords were sent";
                return Err(
                    Problem::new(StatusCode::TOO_MANY_REQUESTS, "limit", message)
                        .hint("wait a minute, or send the token"),
                );
            }
            Some(GuessResult::Wrong) | None => None,
        }
    } else {
        return Err(unauthorized("this kind of authorization is not accepted"));
    };
    access.ok_or_else(|| unauthorized("the token is not valid"))
}

fn preflight() -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    let values = [
        (
            header::ACCESS_CONTROL_ALLOW_METHODS,
            "GET, POST, PATCH, DELETE",
        ),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "authorization, content-type, last-event-id, range",
        ),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    for (name, value) in values {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Adds the headers that every answer has.
fn finish(mut response: Response, origin: Option<&HeaderValue>) -> Response {
    let headers = response.headers_mut();
    let values = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in values {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static(
            "default-src 'none'; frame-ancestors 'none'",
        ));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(header::VARY, HeaderValue::from_static("Origin"));
        headers.insert(
            HeaderName::from_static("cross-origin-resource-policy"),
            HeaderValue::from_static("cross-origin"),
        );
    }
    response
}
