//! Checks that every request must pass before it reaches a handler.
//!
//! A page of another site must reach nothing: `Host` must be the address that the server listens on (against DNS rebinding),
//! `Origin` and `Sec-Fetch-Site` must say that the request comes from the server's own page, and over TCP there is always a
//! token. Without one are served: the files of the page, [`PUBLIC`], the pages of shares, and the exchange of a ticket.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;

use super::ApiState;
use super::credentials::{Access, Credentials, GuessResult};
use super::extract::given_twice;
use super::own_headers::{CORP, OWN_HEADERS};
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

/// Paths of the API that need no token: they reveal nothing about the user.
const PUBLIC: [&str; 3] = ["/health", "/version", "/openapi.json"];
/// Maximum number of headers.
const MAX_HEADERS: usize = 64;
/// The exchange of a ticket, which is itself the proof.
const TICKET: &str = "/v1/tickets";
/// The same for the ticket of a pairing; a browser that waits for the person's decision asks for it there.
const PAIRING: &str = "/v1/pairing";

/// The routes, with the checks before them.
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
        let mut origin = None;
        let access = match check(&self.state, transport, &parts, &mut origin) {
            Ok(access) => access,
            Err(problem) => {
                let problem = self.with_password(problem, &parts.headers);
                // A page that may use the server may also read why it was refused.
                return Ok(finish(problem.into_response(), origin));
            }
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

    /// Adds that a password is accepted too.
    fn with_password(&self, problem: Problem, headers: &HeaderMap) -> Problem {
        // For a request of a page, the browser would show its own dialog.
        let is_of_page = headers
            .get("sec-fetch-mode")
            .is_some_and(|mode| mode != "navigate");
        let is_unauthorized = problem.status == StatusCode::UNAUTHORIZED;
        match is_unauthorized && self.state.credentials.has_password() && !is_of_page {
            true => problem.header(header::WWW_AUTHENTICATE, "Basic realm=\"aish\""),
            false => problem,
        }
    }
}

/// Returns what the request has proved, if it must. `origin` becomes the origin that may read the answer, if it is another one.
fn check(
    state: &ApiState,
    transport: &Transport,
    parts: &Parts,
    origin: &mut Option<HeaderValue>,
) -> Answer<Option<Access>> {
    if matches!(transport, Transport::Tcp(_)) {
        // First, so that also these refusals can be read.
        *origin = configured_origin(&parts.headers, &state.cors);
    }
    // The parser of hyper has a limit too, which is slower for every request when it is set.
    if parts.headers.len() > MAX_HEADERS {
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        let message = format!("the request has more than {MAX_HEADERS} headers");
        return Err(Problem::new(status, "limit", message, "send fewer headers"));
    }
    transfer_coding(&parts.headers)?;
    let names = match transport {
        Transport::Unix => return Ok(Some(Access::Token)),
        Transport::Tcp(names) => names,
    };
    let path = parts.uri.path();
    let headers = CheckedHeaders::read(&parts.headers)?;
    host(&headers, &parts.uri, names)?;
    *origin = foreign_origin(&headers, names, origin.clone())?;
    let is_foreign = origin.is_some();
    let is_read = matches!(parts.method, Method::GET | Method::HEAD);
    fetch_site(&headers, is_foreign, is_read && is_outside_api(path))?;
    let is_preflight = is_foreign && parts.method == Method::OPTIONS;
    if is_preflight || needs_no_token(&parts.method, path) {
        return Ok(None);
    }
    let access = authorization(&headers, &state.credentials)?;
    Ok(Some(confirmed(access, path)?))
}

/// Whether a path does not belong to the API: the page, and the pages of shares.
fn is_outside_api(path: &str) -> bool {
    let is_versioned = path
        .strip_prefix("/v1")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    !is_versioned && !PUBLIC.contains(&path)
}

fn needs_no_token(method: &Method, path: &str) -> bool {
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    is_read && (is_outside_api(path) || PUBLIC.contains(&path))
        || *method == Method::POST && (path == TICKET || path == PAIRING)
}

/// Refuses codings of the message that nobody would decode, and `chunked` twice: servers and proxies disagree on where such a
/// body ends.
fn transfer_coding(headers: &HeaderMap) -> Answer<()> {
    let values = headers.get_all(header::TRANSFER_ENCODING).iter();
    let mut codings = values
        .flat_map(|value| value.as_bytes().split(|&b| b == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|coding| !coding.is_empty());
    let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
    let Some(first) = codings.next() else {
        return Ok(());
    };
    let hint = "send the body with Content-Length, or with Transfer-Encoding: chunked";
    if !is_chunked(first) {
        let message = "this transfer coding is not supported";
        let status = StatusCode::NOT_IMPLEMENTED;
        return Err(Problem::new(status, "usage", message, hint));
    }
    match codings.next() {
        None => Ok(()),
        Some(_) => {
            let message = "chunked is not the only transfer coding";
            Err(Problem::bad_request(message, hint))
        }
    }
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
                return Err(Problem::bad_request(
                    message,
                    "send visible ASCII characters",
                ));
            };
            if place.replace(value).is_some() {
                return Err(given_twice(name));
            }
        }
        Ok(read)
    }
}

fn host(headers: &CheckedHeaders<'_>, target: &Uri, names: &OwnNames) -> Answer<()> {
    let own = names.hosts.first().map_or("127.0.0.1", |h| h);
    let Some(host) = headers.host else {
        let hint = format!("send the header Host: {own}");
        return Err(Problem::bad_request("the header Host is missing", hint));
    };
    // The target counts if it names a server (RFC 9112, section 3.2.2).
    let (place, host) = match target.authority() {
        Some(authority) => ("the address of the request", authority.as_str()),
        None => ("the header Host", host),
    };
    let is_own_scheme = target
        .scheme_str()
        .is_none_or(|scheme| scheme == names.scheme);
    if is_own_scheme && names.hosts.iter().any(|own| own.eq_ignore_ascii_case(host)) {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::MISDIRECTED_REQUEST,
        "origin",
        format!("{place} names another server"),
        format!(
            "use {}://{own}; a forwarded port must have the same number on both machines",
            names.scheme
        ),
    ))
}

/// Returns the origin of a request, if the configuration allows it.
fn configured_origin(headers: &HeaderMap, cors: &[String]) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    let is_allowed = cors.iter().any(|allowed| origin == allowed.as_str());
    is_allowed.then(|| origin.clone())
}

fn foreign_origin(
    headers: &CheckedHeaders<'_>,
    names: &OwnNames,
    allowed: Option<HeaderValue>,
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
    if allowed.is_some() {
        return Ok(allowed);
    }
    Err(Problem::new(
        StatusCode::FORBIDDEN,
        "origin",
        "pages of another origin may not use this server",
        "a page of your own: add its origin to cors in [server] of the configuration",
    ))
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
        true => Err(Problem::new(
            StatusCode::FORBIDDEN,
            "origin",
            "requests from pages of other sites are refused",
            "open the page with aish-helper web, or add the origin to cors in [server] of the configuration",
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
            "confirm it in the terminal that shows the code",
        )),
        access => Ok(access),
    }
}

fn authorization(headers: &CheckedHeaders<'_>, credentials: &Credentials) -> Answer<Access> {
    let unauthorized = |message: &str| {
        Problem::new(
            StatusCode::UNAUTHORIZED,
            "authentication",
            message,
            "send the header Authorization: Bearer TOKEN; aish-helper serve token show prints it",
        )
    };
    let Some(value) = headers.authorization else {
        return Err(unauthorized("the request has no token"));
    };
    let (scheme, value) = value.split_once(' ').unwrap_or((value, ""));
    let value = value.trim_start_matches(' ');
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
                return Err(Problem::new(
                    StatusCode::TOO_MANY_REQUESTS,
                    "limit",
                    "too many wrong passwords were sent",
                    "wait a minute, or send the token",
                ));
            }
            Some(GuessResult::Wrong) => return Err(unauthorized("the password is wrong")),
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
            "authorization, content-type, if-match, if-none-match, if-range, last-event-id, range",
        ),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    for (name, value) in values {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The headers of answers that a page of another origin may read in addition to those that any page may.
const EXPOSED: &str =
    "accept-ranges, allow, content-disposition, content-range, etag, location, www-authenticate";

/// Adds the headers that every answer has.
fn finish(mut response: Response, origin: Option<HeaderValue>) -> Response {
    // A copy of the table is cheaper than to add each header.
    let mut headers = OWN_HEADERS.clone();
    headers.extend(std::mem::take(response.headers_mut()));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::VARY, HeaderValue::from_static("Origin"));
        headers.insert(CORP, HeaderValue::from_static("cross-origin"));
        headers.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static(EXPOSED),
        );
    }
    *response.headers_mut() = headers;
    response
}
