//! What every request must pass before it reaches a handler.
//!
//! A page of another site must reach nothing: `Host` must be the address that the server listens on (against DNS rebinding),
//! `Origin` and `Sec-Fetch-Site` must say that the request comes from the server's own page, and over TCP there is always a
//! token. Only the files of the page, `/health` and `/version` are served without one.

use std::convert::Infallible;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;

use super::ApiState;
use super::credentials::{Access, Credentials, GuessResult};
use super::problem::{Answer, Problem};

/// How a request has arrived.
#[derive(Debug, Clone)]
pub enum Transport {
    /// Over TCP.
    Tcp(Arc<OwnNames>),
    /// Over the unix socket, from a process of the user.
    Unix,
}

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
/// Maximum number of headers.
const MAX_HEADERS: usize = 64;
/// The exchange of a ticket, which is itself the proof.
const TICKET: &str = "/v1/tickets";
/// The same for the ticket of a pairing; a browser that waits for the person's decision asks for it there.
const PAIRING: &str = "/v1/pairing";

/// The routes, behind the checks.
#[derive(Clone)]
pub struct GuardedRoutes {
    state: ApiState,
    router: TowerToHyperService<Router>,
}

impl GuardedRoutes {
    /// Puts the checks before `router`.
    pub fn new(state: ApiState, router: Router) -> GuardedRoutes {
        let router = TowerToHyperService::new(router);
        GuardedRoutes { state, router }
    }

    /// Checks a request and passes it on. Calls `proved` if the request has proved who sends it.
    ///
    /// # Errors
    /// Never: the service of hyper needs a `Result`.
    pub async fn call(
        &self,
        transport: &Transport,
        proved: impl FnOnce(),
        request: Request<Incoming>,
    ) -> Result<Response, Infallible> {
        let (mut parts, body) = request.into_parts();
        let (origin, access) = match check(&self.state, transport, &parts) {
            Ok(checked) => checked,
            Err(problem) => return Ok(finish(problem.into_response(), None)),
        };
        if origin.is_some() && parts.method == Method::OPTIONS {
            return Ok(finish(preflight(), origin));
        }
        if let Some(access) = access {
            proved();
            parts.extensions.insert(access);
        }
        let response = self.router.call(Request::from_parts(parts, body)).await?;
        Ok(finish(response, origin))
    }
}

/// Returns the origin that may read the answer, if it is another one, and what the request has proved, if it must.
fn check(
    state: &ApiState,
    transport: &Transport,
    parts: &Parts,
) -> Answer<(Option<HeaderValue>, Option<Access>)> {
    // The parser of hyper has a limit too, which is slower for every request when it is set.
    if parts.headers.len() > MAX_HEADERS {
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        let message = format!("the request has more than {MAX_HEADERS} headers");
        return Err(Problem::new(status, "limit", message));
    }
    let names = match transport {
        Transport::Unix => return Ok((None, Some(Access::Token))),
        Transport::Tcp(names) => names,
    };
    let path = parts.uri.path();
    let headers = CheckedHeaders::read(&parts.headers)?;
    host(&headers, names)?;
    let foreign = origin(&headers, names, &state.cors)?;
    let own_read = matches!(parts.method, Method::GET | Method::HEAD) && is_page(path);
    fetch_site(&headers, foreign.is_some(), own_read)?;
    let is_preflight = foreign.is_some() && parts.method == Method::OPTIONS;
    if is_preflight || needs_no_token(&parts.method, path) {
        return Ok((foreign, None));
    }
    let access = authorization(&headers, &state.credentials)?;
    Ok((foreign, Some(confirmed(access, path)?)))
}

/// Whether a path belongs to the page: everything that is not the API. What is not a file of the page is its entry.
pub fn is_page(path: &str) -> bool {
    let is_api = path
        .strip_prefix("/v1")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    !is_api && !PUBLIC.contains(&path) && path != "/openapi.json"
}

fn needs_no_token(method: &Method, path: &str) -> bool {
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    is_read && (is_page(path) || PUBLIC.contains(&path) || path == "/openapi.json")
        || *method == Method::POST && (path == TICKET || path == PAIRING)
}

/// The headers that the checks read.
#[derive(Default)]
struct CheckedHeaders<'h> {
    host: Option<&'h str>,
    origin: Option<&'h str>,
    fetch_site: Option<&'h str>,
    fetch_mode: Option<&'h str>,
    authorization: Option<&'h str>,
}

impl<'h> CheckedHeaders<'h> {
    /// Reads them in one pass. Each may be given once: servers and proxies disagree on which of two counts.
    fn read(headers: &'h HeaderMap) -> Answer<CheckedHeaders<'h>> {
        let mut read = CheckedHeaders::default();
        for (name, value) in headers {
            let place = match name.as_str() {
                "host" => &mut read.host,
                "origin" => &mut read.origin,
                "authorization" => &mut read.authorization,
                "sec-fetch-site" => &mut read.fetch_site,
                "sec-fetch-mode" => &mut read.fetch_mode,
                _ => continue,
            };
            let Ok(value) = value.to_str() else {
                let message = format!("the header {name} is not ASCII");
                return Err(Problem::bad_request(message));
            };
            if place.replace(value).is_some() {
                let message = format!("the header {name} is given twice");
                return Err(Problem::bad_request(message));
            }
        }
        Ok(read)
    }
}

fn refused(message: String) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "origin", message)
}

fn host(headers: &CheckedHeaders<'_>, names: &OwnNames) -> Answer<()> {
    let is_own = |host: &str| names.hosts.iter().any(|own| own.eq_ignore_ascii_case(host));
    match headers.host {
        Some(host) if is_own(host) => Ok(()),
        Some(_) => Err(Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "origin",
            "the header Host names another server",
        )
        .hint(format!(
            "use {}://{}; a forwarded port must have the same number on both machines",
            names.scheme,
            names.hosts.first().map_or("127.0.0.1", |h| h)
        ))),
        None => Err(Problem::bad_request("the header Host is missing")),
    }
}

fn origin(
    headers: &CheckedHeaders<'_>,
    names: &OwnNames,
    cors: &[String],
) -> Answer<Option<HeaderValue>> {
    let Some(origin) = headers.origin else {
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
        return Ok(HeaderValue::from_str(origin).ok());
    }
    Err(
        refused("pages of another origin may not use this server".to_owned())
            .hint("a page of your own: add its origin to cors in [server] of the configuration"),
    )
}

fn fetch_site(
    headers: &CheckedHeaders<'_>,
    is_allowed_origin: bool,
    is_own_read: bool,
) -> Answer<()> {
    let is_refused = match headers.fetch_site {
        None | Some("same-origin" | "none") => false,
        // A link to the page is followed; its files hold no data.
        Some(_) => !(is_allowed_origin || is_own_read && headers.fetch_mode == Some("navigate")),
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

fn authorization(headers: &CheckedHeaders<'_>, credentials: &Credentials) -> Answer<Access> {
    let unauthorized = |message: &str| {
        Problem::new(StatusCode::UNAUTHORIZED, "authentication", message).hint(
            "send the header Authorization: Bearer TOKEN; aish-helper serve token show prints it",
        )
    };
    let Some(value) = headers.authorization else {
        return Err(unauthorized("the request has no token"));
    };
    let (scheme, value) = value.split_once(' ').unwrap_or((value, ""));
    let access = if scheme.eq_ignore_ascii_case("bearer") {
        credentials.bearer(value)
    } else if scheme.eq_ignore_ascii_case("basic") {
        if !credentials.has_password() {
            return Err(unauthorized("this server has no password"));
        }
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
            Some(GuessResult::Wrong) => return Err(unauthorized("the password is not right")),
            None => {
                let message = "the header Authorization: Basic has no name and password";
                return Err(unauthorized(message));
            }
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

const CORP: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// The headers that every answer has, unless its handler has set another value.
static OWN_HEADERS: LazyLock<HeaderMap> = LazyLock::new(|| {
    let values = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (CORP, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; frame-ancestors 'none'",
        ),
    ];
    // With room for those of the handler: the table is copied as it is.
    let mut headers = HeaderMap::with_capacity(12);
    headers.extend(values.map(|(name, value)| (name, HeaderValue::from_static(value))));
    headers
});

/// Adds the headers that every answer has.
fn finish(mut response: Response, origin: Option<HeaderValue>) -> Response {
    // A copy of the table is cheaper than to add each header.
    let mut headers = OWN_HEADERS.clone();
    headers.extend(std::mem::take(response.headers_mut()));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::VARY, HeaderValue::from_static("Origin"));
        headers.insert(CORP, HeaderValue::from_static("cross-origin"));
    }
    *response.headers_mut() = headers;
    response
}
