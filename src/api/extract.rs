//! Extractors that refuse a request with a problem document.

use axum::body::HttpBody;
use axum::extract::path::ErrorKind;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde::de::DeserializeOwned;

use super::exact_json::BodyFault;
use super::problem::{Answer, Problem};
use super::request_body::{self, SMALL_BODY, too_large};
use crate::error::Error;
use crate::safety::redact::global_redactor;

/// Size from which a body is parsed on another thread, in bytes: other requests must not wait for that.
const LARGE: usize = 64 << 10;

/// A JSON body of at most `MAX` bytes.
#[derive(Debug)]
pub struct JsonBody<T, const MAX: usize = SMALL_BODY>(pub T);

impl<S: Send + Sync, T: DeserializeOwned, const MAX: usize> FromRequest<S> for JsonBody<T, MAX> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        // Before the body is read: a client that waits for `100 Continue` need not send it.
        if request.body().size_hint().lower() > MAX as u64 {
            return Err(too_large(MAX));
        }
        let mut codings = request.headers().get_all(header::CONTENT_ENCODING).iter();
        if codings.any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "usage",
                "the body has a content coding",
                "send it without Content-Encoding",
            )
            .header(header::ACCEPT_ENCODING, "identity"));
        }
        if !is_json(single(request.headers(), &header::CONTENT_TYPE)?) {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "usage",
                "the body is not declared as JSON in UTF-8",
                "send JSON with the header Content-Type: application/json",
            ));
        }
        let body = request_body::read(request.into_body(), MAX).await?;
        let invalid = |message: &str| Problem::invalid(one_line(message), BODY_HINT);
        let parsed = match body.len() > LARGE {
            true => {
                let parsed = tokio::task::spawn_blocking(move || body.parse());
                parsed.await.map_err(|e| {
                    Problem::from(Error::runtime(format!("the body cannot be parsed: {e}")))
                })?
            }
            false => body.parse(),
        };
        let body = parsed.map_err(|fault| match fault {
            BodyFault::Syntax(message) => {
                let message = one_line(&format!("the body is not JSON: {message}"));
                Problem::bad_request(message, BODY_HINT)
            }
            BodyFault::Inexact(message) => invalid(&message),
        })?;
        // The fields in order, as an array, would be accepted too.
        if !body.is_object() {
            return Err(invalid("the body is not a JSON object"));
        }
        serde_path_to_error::deserialize(body)
            .map(JsonBody)
            .map_err(|e| invalid(&typed_fault(&e)))
    }
}

/// Says which field has a wrong value.
fn typed_fault(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let (path, message) = (error.path().to_string(), plain_type(error.inner()));
    // The name of a field that is unknown is in the message.
    match path == "." || message.starts_with("unknown field") {
        true => message,
        false => format!("{path}: {message}"),
    }
}

/// Returns what is wrong with a value, without the name of a type of Rust.
fn plain_type(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let Some((value, expected)) = message.rsplit_once(", expected ") else {
        return message;
    };
    let number = expected.strip_prefix(['u', 'i']).unwrap_or_default();
    let is_number = number == "size" || number.parse::<u8>().is_ok();
    let expected = match expected {
        _ if is_number => "a whole number that fits",
        "f32" | "f64" => "a number",
        _ if expected.starts_with("struct ") => "an object",
        _ => return message,
    };
    format!("{value}, expected {expected}")
}

/// How axum begins the text about parameters that do not fit.
const QUERY_PREFIX: &str = "deserialize query string: ";

const BODY_HINT: &str = "/doc describes the body";

/// Whether the body is declared as JSON, or as a format that is written in it, in UTF-8.
fn is_json(declared: Option<&HeaderValue>) -> bool {
    let declared = declared.and_then(|declared| declared.to_str().ok());
    let declared = declared.unwrap_or_default().to_ascii_lowercase();
    let mut parts = declared.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    let subtype = essence.strip_prefix("application/").unwrap_or_default();
    let mut charsets = parts.filter_map(|parameter| parameter.strip_prefix("charset="));
    let is_utf8 = charsets.all(|name| ["utf-8", "utf8"].contains(&name.trim_matches('"')));
    is_utf8 && (subtype == "json" || subtype.ends_with("+json"))
}

/// Returns a header that may be given once: servers and proxies disagree on which of two counts.
pub fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Answer<Option<&'h HeaderValue>> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => Err(given_twice(name)),
    }
}

/// Refuses a header that is given twice.
pub fn given_twice(name: &HeaderName) -> Problem {
    Problem::bad_request(format!("the header {name} is given twice"), "send it once")
}

/// The parameters in the path.
#[derive(Debug)]
pub struct InPath<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for InPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(parameters)) => Ok(InPath(parameters)),
            Err(rejection) => Err(path_problem(rejection)),
        }
    }
}

fn path_problem(rejection: PathRejection) -> Problem {
    let kind = match rejection {
        PathRejection::FailedToDeserializePathParams(fault) => Some(fault.into_kind()),
        _ => None,
    };
    let hint = "the path is percent-encoded UTF-8; /doc describes its parameters";
    Problem::bad_request(path_fault(kind), hint)
}

fn path_fault(kind: Option<ErrorKind>) -> String {
    match kind {
        Some(ErrorKind::InvalidUtf8InPathParam { key }) => {
            format!("the parameter {key} in the path is not UTF-8")
        }
        _ => "a parameter in the path is not valid".to_owned(),
    }
}

/// The parameters after `?`.
#[derive(Debug)]
pub struct Parameters<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Parameters<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        if !is_utf8(parts.uri.query().unwrap_or_default()) {
            let hint = "the parameters are percent-encoded UTF-8";
            return Err(Problem::bad_request("a parameter is not UTF-8", hint));
        }
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(parameters)) => Ok(Parameters(parameters)),
            Err(rejection) => Err(query_problem(&rejection)),
        }
    }
}

/// Whether percent-encoded text is UTF-8. The parser would replace what is not.
fn is_utf8(encoded: &str) -> bool {
    let mut parts = encoded.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let digits = part
            .get(..2)
            .filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend_from_slice(&part.as_bytes()[2..]);
            }
            // Not a code: the sign is text.
            None => bytes.extend_from_slice(part.as_bytes()),
        }
    }
    String::from_utf8(bytes).is_ok()
}

fn query_problem(rejection: &QueryRejection) -> Problem {
    let hint = "/doc describes the parameters";
    let text = rejection.body_text();
    // The words of the library before the parameter and its fault.
    let fault = text
        .split_once(QUERY_PREFIX)
        .map_or(&*text, |(_, fault)| fault);
    let fault = plain_fault(fault);
    Problem::bad_request(
        one_line(&format!("the parameters are not valid: {fault}")),
        hint,
    )
}

/// What the standard library and serde say about parameters, and what is said instead.
const FAULTS: [(&str, &str); 7] = [
    ("invalid digit found in string", NOT_A_NUMBER),
    ("cannot parse integer from empty string", NOT_A_NUMBER),
    (
        "number too large to fit in target type",
        "the number is too large",
    ),
    (
        "provided string was not `true` or `false`",
        "neither true nor false",
    ),
    ("unknown field", "unknown parameter"),
    ("duplicate field", "given twice:"),
    ("missing field", "missing:"),
];

const NOT_A_NUMBER: &str = "not a whole number of at least 0";

/// Returns the fault of a parameter, behind the parameter's name where the fault has it, without words of a library.
fn plain_fault(fault: &str) -> String {
    let (name, words) = match fault.split_once(": ") {
        Some((name, words)) if !name.contains(' ') => (Some(name), words),
        _ => (None, fault),
    };
    let known = FAULTS
        .iter()
        .find_map(|(library, plain)| Some((words.strip_prefix(library)?, plain)));
    let words = known.map_or_else(
        || words.to_owned(),
        |(rest, plain)| format!("{plain}{rest}"),
    );
    match name {
        // The fault names it.
        Some(name) if !words.contains(&format!("`{name}`")) => format!("{name}: {words}"),
        _ => words,
    }
}

/// The text of a rejection quotes the request: one line, without control characters.
fn one_line(text: &str) -> String {
    let text = global_redactor().redact(text);
    let visible = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    visible.take(300).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::{Context, Waker};

    use axum::body::Body;
    use serde_json::Value;

    use super::*;

    #[test]
    fn wrong_parameters_are_named_without_words_of_a_library() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Filter {
            #[serde(rename = "limit")]
            _limit: Option<usize>,
            #[serde(rename = "follow")]
            _follow: Option<bool>,
        }
        let number = "limit: not a whole number of at least 0";
        for (query, fault) in [
            ("limit=x", number),
            ("limit=-1", number),
            ("limit=", number),
            (
                "limit=99999999999999999999",
                "limit: the number is too large",
            ),
            ("follow=1", "follow: neither true nor false"),
            (
                "limits=1",
                "unknown parameter `limits`, expected `limit` or `follow`",
            ),
            ("limit=1&limit=2", "given twice: `limit`"),
        ] {
            let request = Request::builder().uri(format!("/?{query}"));
            let (mut parts, ()) = request.body(()).expect("a request").into_parts();
            let read = Parameters::<Filter>::from_request_parts(&mut parts, &());
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            let problem = runtime.expect("a runtime").block_on(read).expect_err(query);
            let document = problem.document();
            let document: Value = serde_json::from_slice(&document).expect("JSON");
            let detail = document["detail"].as_str().expect("text");
            assert_eq!(detail, format!("the parameters are not valid: {fault}"));
        }
    }

    #[test]
    fn a_value_of_another_type_is_refused_without_the_name_of_a_type() {
        #[derive(Debug, serde::Deserialize)]
        struct Inner {
            #[serde(rename = "limit")]
            _limit: usize,
        }
        #[derive(Debug, serde::Deserialize)]
        struct Body {
            #[serde(rename = "inner")]
            _inner: Inner,
        }
        for (body, fault) in [
            (
                r#"{"inner":{"limit":"x"}}"#,
                "inner.limit: invalid type: string \"x\", expected a whole number that fits",
            ),
            (
                r#"{"inner":1}"#,
                "inner: invalid type: integer `1`, expected an object",
            ),
            (r#"{"inner":{}}"#, "inner: missing field `limit`"),
        ] {
            let body: Value = serde_json::from_str(body).expect("JSON");
            let error = serde_path_to_error::deserialize::<_, Body>(body).expect_err("a fault");
            assert_eq!(typed_fault(&error), fault);
        }
    }

    #[test]
    fn a_path_that_is_not_utf8_is_refused_with_the_name_of_the_parameter() {
        let key = "session_id".to_owned();
        let fault = path_fault(Some(ErrorKind::InvalidUtf8InPathParam { key }));
        assert_eq!(fault, "the parameter session_id in the path is not UTF-8");
        let other = ErrorKind::UnsupportedType { name: "a::Type" };
        assert!(!path_fault(Some(other)).contains("Type"));
    }

    #[test]
    fn a_large_body_keeps_its_space_until_it_is_parsed_though_its_client_is_gone() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().max_blocking_threads(1).build();
        let runtime = runtime.expect("a runtime");
        let _entered = runtime.enter();
        // The only thread that parses is busy.
        let (release, is_released) = mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || is_released.recv());
        let body = format!("{{\"text\":\"{}\"}}", "x".repeat(3 << 20));
        let request = Request::builder().header(header::CONTENT_TYPE, "application/json");
        let request = request.body(Body::from(body)).expect("a request");
        let free = request_body::free_space();
        let mut reading = Box::pin(JsonBody::<Value, { 8 << 20 }>::from_request(request, &()));
        let pending = reading
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        assert!(pending.is_pending());
        drop(reading);
        assert_eq!(request_body::free_space(), free - 4, "before it is parsed");
        drop(release);
        let _ = runtime.block_on(busy);
        // Its turn comes after the parsing.
        let after = runtime.block_on(tokio::task::spawn_blocking(request_body::free_space));
        assert_eq!(after.expect("it ran"), free);
    }
}
