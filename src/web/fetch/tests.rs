use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::web::searxng::searxng;

/// A server that answers each path with a fixed response.
struct WebServer {
    base: String,
    asked: Arc<Mutex<Vec<String>>>,
}

async fn server(pages: &[(&str, String)]) -> WebServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let pages: HashMap<String, String> = pages
        .iter()
        .map(|(path, response)| ((*path).to_owned(), response.replace("BASE", &base)))
        .collect();
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let log = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            let mut piece = [0; 1024];
            while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut piece).await {
                    Ok(n) if n > 0 => head.extend_from_slice(&piece[..n]),
                    _ => break,
                }
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            log.lock().unwrap().push(path.clone());
            let missing = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned();
            let response = pages.get(&path).unwrap_or(&missing);
            let _ = stream.write_all(response.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    WebServer { base, asked }
}

fn page(content_type: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nConnection: close\r\n\r\n{body}")
}

fn compressed(encoding: &str) -> String {
    page("text/plain", "x").replace(
        "\r\n\r\n",
        &format!("\r\nContent-Encoding: {encoding}\r\n\r\n"),
    )
}

fn redirect(to: &str) -> String {
    format!(
        "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
}

async fn fetch(server: &WebServer, path: &str) -> Result<FetchedPage> {
    fetch_url(&format!("{}{path}", server.base), PrivateHost::Refuse).await
}

#[tokio::test]
async fn page_is_fetched_as_readable_text() {
    let server = server(&[
        ("/", redirect("/a")),
        (
            "/a",
            page(
                "text/html; charset=ISO-8859-1",
                "<h1>T</h1><a href=b>x &amp; y</a>",
            ),
        ),
        ("/json", page("application/json", "{\"a\": 1}")),
        ("/none", page("", "<!DOCTYPE html><p>x")),
        ("/bare", page("", "\u{FEFF} <!-- x -->\n<P class=a>x é")),
        ("/unknown", page("", "<x> no HTML")),
        (
            "/scripts",
            page("text/html", "<body><div></div><script>x()</script>"),
        ),
        (
            "/empty",
            "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n".to_owned(),
        ),
        ("/big", page("text/plain", &"x".repeat(3 << 20))),
        (
            "/meta",
            page("text/html", "<meta charset='utf-8'><p>\u{e9}</p>"),
        ),
    ])
    .await;
    let found = fetch(&server, "/").await.unwrap();
    assert_eq!(found.text, format!("# T\n\n[x & y]({}/b)", server.base));
    assert_eq!(found.url, format!("{}/a", server.base));
    assert_eq!(fetch(&server, "/json").await.unwrap().text, "{\"a\": 1}");
    assert_eq!(fetch(&server, "/none").await.unwrap().text, "x");
    for (path, kind) in [("/scripts", "text/html"), ("/empty", "no content type")] {
        let told = fetch(&server, path).await.unwrap().for_model();
        let expected = format!("[{}{path} ({kind})]\n[the page has no text]", server.base);
        assert_eq!(told, expected);
    }
    let bare = fetch(&server, "/bare").await.unwrap();
    assert_eq!(
        (bare.text.as_str(), bare.content_type.as_str()),
        ("x é", "text/html")
    );
    let unknown = fetch(&server, "/unknown").await.unwrap();
    assert_eq!(
        (unknown.text.as_str(), unknown.content_type.as_str()),
        ("<x> no HTML", "no content type")
    );
    assert_eq!(fetch(&server, "/meta").await.unwrap().text, "\u{e9}");
    let big = fetch(&server, "/big").await.unwrap();
    assert!(big.is_cut);
    assert_eq!(big.text.len(), 2 << 20);
}

#[tokio::test]
async fn failures_have_one_clear_line() {
    let server = server(&[
        ("/image", page("image/png", "x")),
        ("/zero", page("", "a\0b")),
        ("/gzip", compressed("gzip")),
        ("/br", compressed("br")),
        ("/loop", redirect("/loop")),
        ("/file", redirect("file:///etc/passwd")),
        ("/user", redirect("https://a:b@example.com/")),
        (
            "/nowhere",
            "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
        ),
        ("/metadata", redirect("http://169.254.169.254/latest")),
        ("/other", redirect("http://127.0.0.1:9/")),
        ("/name", redirect("http://localhost:9/")),
        ("/lan", redirect("http://10.0.0.1/")),
        ("/six", redirect("http://[::ffff:10.0.0.1]/")),
    ])
    .await;
    for (path, message) in [
        ("/missing", "HTTP 404 Not Found"),
        ("/image", "is not text, but image/png"),
        ("/zero", "is not text"),
        (
            "/gzip",
            "is sent compressed (gzip), although compression was not requested",
        ),
        (
            "/br",
            "is sent compressed (br), although compression was not requested",
        ),
        ("/loop", "more than 5 redirects"),
        ("/file", "it is not a web address"),
        ("/user", "it is not a web address"),
        ("/nowhere", "without a valid address"),
        ("/metadata", "leads to a private address"),
        ("/other", "leads to a private address"),
        ("/name", "leads to a private address"),
        ("/lan", "leads to a private address"),
        ("/six", "leads to a private address"),
    ] {
        let error = fetch(&server, path).await.unwrap_err();
        assert!(error.message.contains(message), "{path}: {error}");
        assert!(!error.message.contains('\n'), "{error}");
    }
    let asked = server.asked.lock().unwrap().len();
    // 13 paths once, and the loop six times.
    assert_eq!(asked, 13 + 6);
    for (url, message) in [
        ("file:///etc/passwd", "only http and https"),
        ("x", "invalid URL"),
        ("example.com/a", "must begin with https://"),
        ("http://a@127.0.0.1/", "user name"),
    ] {
        let error = fetch_url(url, PrivateHost::Refuse).await.unwrap_err();
        assert!(error.message.contains(message), "{error}");
    }
}

#[tokio::test]
async fn name_that_resolves_to_a_private_address_needs_permission() {
    // A resolver that calls itself public: `localhost` represents any name that its owner points at this machine.
    let named = Url::parse("http://example.com/").unwrap();
    let client = WebClient::new(&named, Vec::new()).unwrap();
    let local = Url::parse("http://localhost:9/").unwrap();
    let error = client.get(&local, ACCEPT).await.unwrap_err();
    assert!(error.message.contains("it resolves to"), "{error}");
    let client = WebClient::new(&named, vec!["localhost".to_owned()]).unwrap();
    let error = client.get(&local, ACCEPT).await.unwrap_err();
    assert!(!error.message.contains("refused:"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn work_that_takes_too_long_ends() {
    let url = Url::parse("http://example.com/").unwrap();
    let forever = std::future::pending::<Result<()>>();
    let error = within_limit(&url, TIME_LIMIT, forever).await.unwrap_err();
    assert_eq!(error.message, "http://example.com/ took longer than 20 s");
}

#[tokio::test]
async fn search_returns_bounded_hits() {
    let results: Vec<String> = (0..30)
        .map(|n| {
            format!(
                r#"{{"title":"T\n {n}\u001b","url":"https://e.example/{n}","content":"{}"}}"#,
                "w ".repeat(900)
            )
        })
        .chain([r#"{"title":"x","url":"javascript:x"}"#.to_owned()])
        .rev()
        .collect();
    let body = format!(r#"{{"query":"x","results":[{}]}}"#, results.join(","));
    let server = server(&[
        (
            "/search?q=a+%26b&format=json",
            page("application/json", &body),
        ),
        ("/search?q=html&format=json", page("text/html", "<p>")),
        (
            "/search?q=off&format=json",
            "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n".to_owned(),
        ),
    ])
    .await;
    let hits = searxng(&server.base, " a &b ").await.unwrap();
    assert_eq!(hits.len(), 20);
    assert_eq!(
        (hits[0].title.as_str(), hits[0].url.as_str()),
        ("T 29", "https://e.example/29")
    );
    assert_eq!(hits[0].snippet.chars().count(), 500);
    let error = searxng(&server.base, "html").await.unwrap_err();
    assert!(
        error.message.ends_with("the answer is not SearXNG's JSON"),
        "{error}"
    );
    let error = searxng(&server.base, "off").await.unwrap_err();
    assert!(error.to_string().contains("enable json"), "{error}");
    assert!(searxng("ftp://x", "a").await.is_err());
    assert!(searxng(&server.base, " ").await.is_err());
}
