//! Blocks of code: one call of the tool `python`, whose calls of helpers go back to the daemon.

use std::time::Duration;

use aish::python::call::{CallScope, HelperCall, HelperFault, HelperResult};
use tokio::sync::mpsc;

use super::TestSession;

const TOOLS: &str = r#"
from typing import Optional
def total(prices: list[float], tax: float = 0.0) -> float:
    "Sums."
    return sum(prices) * (1 + tax)
def name(id: int) -> str:
    "Names."
    return str(id)
"#;

/// Runs code whose calls `answer` decides about. Returns the calls too.
async fn run(
    session: &TestSession,
    code: &str,
    limit: Option<Duration>,
    answer: impl Fn(&HelperCall) -> Option<Result<String, String>>,
) -> (Result<HelperResult, HelperFault>, Vec<(String, String)>) {
    let catalog = session.home.catalog();
    let directory = session.home.work();
    let (send, mut calls) = mpsc::channel::<HelperCall>(1);
    let scope = CallScope {
        session: "s1",
        directory: &directory,
        workspace: &directory,
        limit,
        progress: &session.progress,
        cancel: &session.cancel,
    };
    let answering = async {
        let mut seen = Vec::new();
        while let Some(call) = calls.recv().await {
            seen.push((call.name.clone(), call.arguments.clone()));
            let reply = answer(&call);
            if let Some(delay) = limit {
                // Longer than the limit of the code.
                tokio::time::sleep(delay + delay / 2).await;
            }
            if let Some(reply) = reply {
                let _ = call.reply.send(reply);
            }
        }
        seen
    };
    let running = session.workers.run_code(&catalog, code, scope, send);
    tokio::join!(running, answering)
}

async fn plain(session: &TestSession, code: &str) -> HelperResult {
    run(session, code, None, |_| None).await.0.unwrap()
}

#[tokio::test]
async fn code_prints_and_returns_its_last_expression() {
    let mut session = TestSession::with(TOOLS).await;
    for (code, text) in [
        ("1 + 1", "2"),
        ("print('a')\nx = 3\nx * 2", "a\n6"),
        ("print('a')", "a\n"),
        ("x = 1", ""),
        ("None", ""),
        ("'é\\n'", "'é\\n'"),
        ("import sys; sys.stdout.write('x' * 3000)", "EXACT"),
        ("def f():\n    return 5\nf()", "5"),
        (
            "import subprocess; subprocess.run(['echo', 'sub']).returncode",
            "sub\n0",
        ),
        ("__name__", "'__main__'"),
    ] {
        let result = plain(&session, code).await;
        assert!(!result.is_error, "{code}: {result:?}");
        match text {
            "EXACT" => assert_eq!(result.text, format!("{}\n3000", "x".repeat(3000))),
            text => assert_eq!(result.text, text, "{code}"),
        }
    }
    assert!(session.printed().contains(&"a".to_owned()));
    // Nothing of a block is there in the next one.
    plain(&session, "kept = 1\nimport math\nmath.pi = 3").await;
    let text = plain(&session, "import math\nmath.pi > 3").await.text;
    assert_eq!(text, "True");
    let result = plain(&session, "kept").await;
    assert_eq!(
        (result.is_error, result.text.as_str()),
        (true, "NameError: name 'kept' is not defined (line 1)")
    );
}

#[tokio::test]
async fn errors_of_code_are_one_line() {
    let session = TestSession::with(TOOLS).await;
    for (code, text) in [
        (
            "x = 1\n1 / 0",
            "ZeroDivisionError: division by zero (line 2)",
        ),
        ("1 +", "SyntaxError: invalid syntax (code, line 1)"),
        ("import sys\nsys.exit()", "it called sys.exit() (line 2)"),
        ("input()", "EOFError: EOF when reading a line (line 1)"),
        (
            "total([1], 2, 3)",
            "TypeError: total() takes 2 arguments, but 3 were given (line 1)",
        ),
        (
            "total([1], rate=2)",
            "TypeError: total() has no parameter 'rate' (line 1)",
        ),
        (
            "total([1], prices=2)",
            "TypeError: total() got two values for 'prices' (line 1)",
        ),
    ] {
        let result = plain(&session, code).await;
        assert_eq!((result.is_error, result.text.as_str()), (true, text));
    }
    let result = plain(&session, "print('before')\n1 / 0").await;
    assert_eq!(
        result.text,
        "before\nZeroDivisionError: division by zero (line 2)"
    );
    let (ended, _) = run(&session, "import os; os._exit(1)", None, |_| None).await;
    let expected = "the process of the code exited with code 1 before it had a result".to_owned();
    assert_eq!(ended, Err(HelperFault::Failed(expected)));
}

#[tokio::test]
async fn helpers_are_called_through_the_channel() {
    let session = TestSession::with(TOOLS).await;
    let code =
        "a = total([1, 2.5], tax=0.5)\nb = helper.name(1 << 64)\nprint(type(b).__name__)\na + 1";
    let (result, calls) = run(&session, code, None, |call| {
        Some(Ok(match call.name.as_str() {
            "total" => "5.25".to_owned(),
            _ => "7".to_owned(),
        }))
    })
    .await;
    assert_eq!(result.unwrap().text, "str\n6.25");
    let expected = [
        ("total", r#"{"prices":[1,2.5],"tax":0.5}"#),
        ("name", r#"{"id":18446744073709551616}"#),
    ]
    .map(|(name, arguments)| (name.to_owned(), arguments.to_owned()));
    assert_eq!(calls, expected);
}

#[tokio::test]
async fn denied_call_raises_in_the_code() {
    let session = TestSession::with(TOOLS).await;
    let denied = |_: &HelperCall| Some(Err("the user denied the call".to_owned()));
    let code = "try:\n    name(1)\nexcept HelperError as e:\n    print('caught', e)\nname(2)";
    let (result, calls) = run(&session, code, None, denied).await;
    let result = result.unwrap();
    assert!(result.is_error);
    assert_eq!(
        result.text,
        "caught the user denied the call\nHelperError: the user denied the call (line 5)"
    );
    assert_eq!(calls.len(), 2);
    // A gate that goes away answers nothing.
    let (result, _) = run(&session, "name(1)", None, |_| None).await;
    assert_eq!(
        result.unwrap().text,
        "HelperError: the call was not made (line 1)"
    );
}

#[tokio::test]
async fn time_at_a_question_does_not_count() {
    let session = TestSession::with(TOOLS).await;
    let limit = Some(Duration::from_millis(600));
    let (result, _) = run(&session, "name(1)\n'done'", limit, |_| {
        Some(Ok("x".to_owned()))
    })
    .await;
    assert_eq!(result.unwrap().text, "'done'");
    let (result, _) = run(&session, "while True: pass", limit, |_| None).await;
    let expected = "the process of the code was killed after 0.6 s without a result".to_owned();
    assert_eq!(result, Err(HelperFault::Failed(expected)));
}

#[tokio::test]
async fn threads_of_code_may_call_helpers() {
    let session = TestSession::with(TOOLS).await;
    let code = "from concurrent.futures import ThreadPoolExecutor\n\
                with ThreadPoolExecutor(4) as pool:\n    found = list(pool.map(name, range(8)))\nfound";
    let (result, calls) = run(&session, code, None, |call| {
        let id = call.arguments.trim_matches(|c: char| !c.is_ascii_digit());
        Some(Ok(id.to_owned()))
    })
    .await;
    let expected: Vec<String> = (0..8).map(|n| format!("'{n}'")).collect();
    assert_eq!(result.unwrap().text, format!("[{}]", expected.join(", ")));
    assert_eq!(calls.len(), 8);
}

#[tokio::test]
async fn code_is_cancelled_at_a_question() {
    let session = TestSession::with(TOOLS).await;
    let cancel = session.cancel.clone();
    let (result, _) = run(&session, "name(1)", None, |_| {
        cancel.cancel();
        None
    })
    .await;
    // The reply is dropped at the same time; either may be seen first, and both end the code.
    match result {
        Err(HelperFault::Interrupted) => {}
        Ok(result) => assert!(result.is_error, "{result:?}"),
        other => panic!("{other:?}"),
    }
}
