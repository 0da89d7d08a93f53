//! The files of the page, which are part of the program, and the readable form of the API's document.

use std::fmt::Write;
use std::sync::LazyLock;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::problem::Problem;

/// Policy of the page: nothing from elsewhere, nothing inline, and no text that becomes markup.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; frame-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

/// Policy of the frame that plays recordings: one file, which can load nothing. Its origin is opaque, so that it cannot use the
/// API either, whatever a recording makes of the player.
static REPLAY_POLICY: LazyLock<String> = LazyLock::new(|| {
    let script = include_str!("../../web/dist/replay.sha256").trim_end();
    format!(
        "default-src 'none'; script-src '{script}' 'wasm-unsafe-eval'; style-src 'unsafe-inline'; img-src data:; font-src data:; \
         frame-ancestors 'self'; base-uri 'none'; form-action 'none'; sandbox allow-scripts"
    )
});

/// A file of the page, compressed with gzip.
struct PageFile {
    path: &'static str,
    kind: &'static str,
    gzip: &'static [u8],
}

/// Path of the frame that plays recordings.
const REPLAY: &str = "/replay";

const INDEX: PageFile = PageFile {
    path: "/",
    kind: "text/html; charset=utf-8",
    gzip: include_bytes!("../../web/dist/index.html.gz"),
};

const FILES: &[PageFile] = &[
    PageFile {
        path: "/app.js",
        kind: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../../web/dist/app.js.gz"),
    },
    PageFile {
        path: "/app.css",
        kind: "text/css; charset=utf-8",
        gzip: include_bytes!("../../web/dist/app.css.gz"),
    },
    PageFile {
        path: "/icon.svg",
        kind: "image/svg+xml",
        gzip: include_bytes!("../../web/dist/icon.svg.gz"),
    },
    PageFile {
        path: REPLAY,
        kind: "text/html; charset=utf-8",
        gzip: include_bytes!("../../web/dist/replay.html.gz"),
    },
];

/// The query with which the entry names the other files: another one for other contents.
const VERSION: &str = include_str!("../../web/dist/version.txt");

/// Serves a file of the page; what the page itself makes of a path, its entry.
pub async fn serve(request: Request) -> Response {
    let path = request.uri().path();
    // `*`, and the target of CONNECT, which is not a path.
    if !path.starts_with('/') || *request.method() == Method::CONNECT {
        return Problem::method_not_allowed("GET, HEAD, POST, PATCH, DELETE").into_response();
    }
    let is_route = matches!(path, "/" | "/activity" | "/shares") || path.starts_with("/s/");
    let file = FILES.iter().find(|file| file.path == path);
    let Some(file) = file.or(is_route.then_some(&INDEX)) else {
        if is_navigation(&request) && takes_gzip(request.headers()) {
            // The page says that there is nothing, with a link to an existing page.
            let mut response = respond(&INDEX, request.headers(), false);
            *response.status_mut() = StatusCode::NOT_FOUND;
            return response;
        }
        return Problem::not_found("there is no such path", "/doc lists the paths").into_response();
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Problem::method_not_allowed("GET, HEAD").into_response();
    }
    let is_versioned = request.uri().query() == Some(VERSION.trim_end());
    respond(file, request.headers(), is_versioned)
}

/// Whether a browser asks for a page to show. Paths of the API are for programs, whatever they accept.
fn is_navigation(request: &Request) -> bool {
    takes_html(request.headers())
        && matches!(*request.method(), Method::GET | Method::HEAD)
        && !request.uri().path().starts_with("/v1")
}

/// Whether a client names HTML as what it takes: a browser does, and programs accept anything.
pub fn takes_html(headers: &HeaderMap) -> bool {
    let mut accepted = weighted(headers, header::ACCEPT);
    accepted.any(|(kind, is_wanted)| kind == "text/html" && is_wanted)
}

/// Whether a client takes gzip ([RFC 9110, section 12.5.3](https://www.rfc-editor.org/rfc/rfc9110#section-12.5.3)).
fn takes_gzip(headers: &HeaderMap) -> bool {
    // Without the header, any encoding is accepted.
    if !headers.contains_key(header::ACCEPT_ENCODING) {
        return true;
    }
    let mut any = false;
    for (coding, is_wanted) in weighted(headers, header::ACCEPT_ENCODING) {
        match &*coding {
            "gzip" | "x-gzip" => return is_wanted,
            "*" => any = is_wanted,
            _ => {}
        }
    }
    any
}

/// Returns what a header with weights lists, in lower case, each with whether its weight is more than 0
/// ([RFC 9110, section 12.4.2](https://www.rfc-editor.org/rfc/rfc9110#section-12.4.2)).
fn weighted(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = (String, bool)> {
    let values = headers.get_all(name).into_iter();
    let items = values.flat_map(|value| value.to_str().unwrap_or_default().split(','));
    items.map(|item| {
        let mut parts = item.split(';').map(str::trim);
        let listed = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        let is_wanted = weight.is_none_or(|q| q.parse::<f32>().is_ok_and(|q| q > 0.0));
        (listed, is_wanted)
    })
}

fn respond(file: &PageFile, headers: &HeaderMap, is_versioned: bool) -> Response {
    if !takes_gzip(headers) {
        let message = "this file is sent only with Content-Encoding: gzip";
        let hint = "send the header Accept-Encoding: gzip";
        return Problem::new(StatusCode::NOT_ACCEPTABLE, "usage", message, hint).into_response();
    }
    let mut response = file.gzip.into_response();
    let headers = response.headers_mut();
    let caching = match is_versioned && file.path.starts_with("/app.") {
        true => "private, max-age=31536000, immutable",
        // The next version of the program has other files under the same names.
        false => "no-cache",
    };
    let values = [
        (header::CONTENT_TYPE, file.kind),
        (header::CONTENT_ENCODING, "gzip"),
        (header::CACHE_CONTROL, caching),
        (header::CONTENT_SECURITY_POLICY, PAGE_POLICY),
    ];
    for (name, value) in values {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if file.path == REPLAY
        && let Ok(policy) = HeaderValue::from_str(&REPLAY_POLICY)
    {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// Returns the document of the API as a page.
pub fn document(value: &serde_json::Value) -> Response {
    let mut html = String::from(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>aish: HTTP API</title>\
         <link rel=\"stylesheet\" href=\"/app.css\"><main class=\"document\"><h1>HTTP API of aish</h1>\
         <p>OpenAPI: <a href=\"/openapi.json\">/openapi.json</a></p>",
    );
    for (path, operations) in value["paths"].as_object().into_iter().flatten() {
        for (method, operation) in operations.as_object().into_iter().flatten() {
            // Writing to a String cannot fail.
            let _ = write_operation(&mut html, method, path, operation, &value["components"]);
        }
    }
    html.push_str("</main></html>");
    with_policy(html.into_response(), PAGE_POLICY)
}

/// Declares a response as HTML under this policy.
pub fn with_policy(mut response: Response, policy: &'static str) -> Response {
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(policy),
    );
    response
}

fn write_operation(
    html: &mut String,
    method: &str,
    path: &str,
    operation: &serde_json::Value,
    components: &serde_json::Value,
) -> std::fmt::Result {
    let text = |value: &serde_json::Value| escape(value.as_str().unwrap_or_default());
    write!(
        html,
        "<section><h2><code>{} {}</code></h2><p>{}</p>",
        escape(&method.to_uppercase()),
        escape(path),
        text(&operation["summary"])
    )?;
    if operation["description"].is_string() {
        write!(html, "<p>{}</p>", text(&operation["description"]))?;
    }
    let parameters = operation["parameters"].as_array();
    if let Some(parameters) = parameters.filter(|list| !list.is_empty()) {
        html.push_str("<h3>Parameters</h3><dl>");
        for parameter in parameters {
            write!(
                html,
                "<dt><code>{}</code> ({})</dt><dd>{}</dd>",
                text(&parameter["name"]),
                text(&parameter["in"]),
                text(&parameter["description"])
            )?;
        }
        html.push_str("</dl>");
    }
    html.push_str("<h3>Answers</h3><dl>");
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        let name = response["$ref"]
            .as_str()
            .and_then(|path| path.rsplit('/').next());
        let response = name.map_or(response, |name| &components["responses"][name]);
        write!(
            html,
            "<dt>{}</dt><dd>{}</dd>",
            escape(status),
            text(&response["description"])
        )?;
    }
    html.push_str("</dl></section>");
    Ok(())
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}
