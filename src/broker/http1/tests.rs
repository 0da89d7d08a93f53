use super::*;

fn head(text: &str) -> Result<Option<ResponseHead>, HttpViolation> {
    parse_head(&mut text.as_bytes().to_vec())
}

#[test]
fn a_complete_head_is_removed_from_the_buffer() {
    let text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: a\r\nContent-Length: 3\r\n\r\n";
    for i in 0..text.len() {
        assert!(head(&text[..i]).unwrap().is_none(), "at {i}");
    }
    let mut buffer = format!("{text}abc").into_bytes();
    let head = parse_head(&mut buffer).unwrap().unwrap();
    assert_eq!((head.status, head.keep), (200, true));
    assert_eq!(head.headers[0], ("content-type".to_owned(), b"a".to_vec()));
    assert!(matches!(head.body, BodyFraming::Sized(3)));
    assert_eq!(buffer, b"abc");
}

#[test]
fn framing_and_reuse_follow_from_the_head() {
    let of = |version: &str, lines: &str| {
        let head = head(&format!("HTTP/{version} 200 OK\r\n{lines}\r\n"))
            .unwrap()
            .unwrap();
        (
            format!("{:?}", head.body)
                .chars()
                .take(5)
                .collect::<String>(),
            head.keep,
        )
    };
    let is = |body: &str, keep| (body.to_owned(), keep);
    assert_eq!(
        of("1.1", "Transfer-Encoding: Chunked\r\n"),
        is("Chunk", true)
    );
    assert_eq!(
        of("1.1", "content-length: 0\r\nconnection: x, Close\r\n"),
        is("Sized", false)
    );
    assert_eq!(of("1.0", "content-length: 1\r\n"), is("Sized", false));
    assert_eq!(of("1.1", ""), is("Until", false));
    let empty = head("HTTP/1.1 204 No Content\r\n\r\n").unwrap().unwrap();
    assert!(matches!(empty.body, BodyFraming::Done));
}

#[test]
fn an_ambiguous_head_is_refused() {
    for lines in [
        "content-length: 1\r\ntransfer-encoding: chunked\r\n",
        "content-length: 1\r\ncontent-length: 2\r\n",
        "content-length: +1\r\n",
        "content-length: \r\n",
        "content-length: 99999999999999999999\r\n",
        "transfer-encoding: gzip, chunked\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
    ] {
        assert!(
            head(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n")).is_err(),
            "{lines:?}"
        );
    }
    for other in ["SSH-2.0-x\r\n", "HTTP/1.1 101 Switching\r\n\r\n", "\0"] {
        assert!(head(other).is_err(), "{other:?}");
    }
}

#[test]
fn a_request_as_it_is_encoded() {
    let url = Url::parse("http://localhost:1/v1/a b?c=d").unwrap();
    let mut headers = HeaderMap::new();
    headers.insert("x-y", "z".parse().unwrap());
    let request = encoded(&Method::POST, &url, "localhost:1", &headers, b"{}");
    let expected =
        "POST /v1/a%20b?c=d HTTP/1.1\r\nhost: localhost:1\r\nx-y: z\r\ncontent-length: 2\r\n\r\n{}";
    assert_eq!(String::from_utf8(request).unwrap(), expected);
    assert_eq!(host(&Url::parse("http://[::1]:2/").unwrap()), "::1");
}

#[tokio::test]
async fn connections_to_a_stopped_server_are_removed() {
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let here = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = async |server: &tokio::net::TcpListener| {
        let stream = TcpStream::connect(server.local_addr().unwrap())
            .await
            .unwrap();
        (stream, server.accept().await.unwrap().0)
    };
    let pool = ConnectionPool::default();
    let (stream, its_end) = to(&gone).await;
    pool.give_back("gone", stream);
    let (stream, _kept) = to(&here).await;
    pool.give_back("here", stream);
    assert_eq!(pool.idle.lock().unwrap().len(), 2);
    drop(its_end);
    let readable = std::future::poll_fn(|cx| {
        let idle = pool.idle.lock().unwrap();
        idle["gone"][0].0.poll_read_ready(cx)
    });
    readable.await.unwrap();
    let (stream, _kept_too) = to(&here).await;
    pool.give_back("here", stream);
    let idle = pool.idle.lock().unwrap();
    assert!(!idle.contains_key("gone"));
    assert_eq!(idle["here"].len(), 2);
}
