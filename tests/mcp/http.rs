//! Streamable HTTP as it should be, and the traps of the crate that speaks it.

use serde_json::json;

use super::*;
use crate::fakes::lmcp;
use crate::fakes::mcp_http::{Answer, McpHttp, Part, text, tool};

#[tokio::test]
async fn lmcp_is_listed_called_and_left_alone() {
    let server = lmcp::start(TOKEN);
    let bench = Bench::with(Server::at("lmcp", server.url())).await;
    let catalog = bench.pool.catalog(PATIENCE).await;
    assert_eq!(names(&catalog), ["lmcp.greet", "lmcp.fail"]);
    let state = bench.state("lmcp");
    assert_eq!(state.version.as_deref(), Some("lmcp 0.9"));
    assert_eq!(state.protocol.as_deref(), Some("2025-03-26"));
    assert_eq!((state.tools, state.status), (2, Status::Ready));

    let greeted = bench.call("lmcp", "greet", r#"{"name":"you"}"#).await;
    assert_eq!(greeted.unwrap().text, "hello, you");
    let failed = bench.call("lmcp", "fail", "{}").await.unwrap();
    assert!(failed.is_error);
    assert_eq!(failed.text, "the handler failed");
    bench.end().await;
}

/// The crate reopens a stream that ends cleanly every second, for ever.
#[tokio::test]
async fn a_stream_that_ends_at_once_is_not_opened_again() {
    let server = lmcp::start(TOKEN);
    let bench = Bench::with(Server::at("lmcp", server.url())).await;
    server.asked("GET", 1).await;
    // The first reopening would come after a second.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(server.count("GET"), 1);
    bench.end().await;
}

#[tokio::test]
async fn connections_are_kept_warm() {
    let server = McpHttp::start().bearer(TOKEN);
    let bench = Bench::with(legacy("a", server.url())).await;
    for _ in 0..20 {
        let called = bench.call("a", "echo", r#"{"x":1}"#).await.unwrap();
        assert_eq!(called.text, r#"{"x":1}"#);
    }
    assert_eq!(server.connections(), 1);
    bench.end().await;
}
