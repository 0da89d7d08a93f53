//! `pause_turn` of Anthropic: a paused answer is sent back as it came, and continues.

use crate::fakes::provider::anthropic::{self, Block};
use crate::fakes::provider::{Provider, Request};
use crate::support::helper::Helper;

const BEGUN: &[Block<'static>] = &[
    Block::Thinking("Look it up."),
    Block::Text("I look. CM"),
    Block::ServerTool("srvtoolu_1"),
];

/// Answers with `paused` parts that pause, and then with `Found.`; a later prompt gets `Fine.`
fn helper(paused: usize) -> Helper {
    let mut n = 0;
    let answer = move |request: &Request| {
        n += 1;
        match n {
            n if n <= paused => anthropic::answer(request, BEGUN, "pause_turn"),
            n if n == paused + 1 => {
                anthropic::answer(request, &[Block::Text("Found.")], "end_turn")
            }
            _ => anthropic::answer(request, &[Block::Text("Fine.")], "end_turn"),
        }
    };
    let helper = Helper::with(Provider::answering(answer));
    let base_url = helper.provider.base_url();
    helper.config_file(&format!(
        "[models.sonnet]\nprovider = \"anthropic\"\nbase_url = \"{base_url}\"\nmodel = \"claude-sonnet-5\"\n"
    ));
    helper
}

#[test]
fn a_paused_answer_goes_on_and_is_one_answer() {
    let helper = helper(2);
    let run = helper.call(["ask", "--shell", "s1", "--json", "x"]).run();
    let last = run.stdout.lines().last().map(str::to_owned);
    let end: serde_json::Value = serde_json::from_str(&last.expect("a line")).expect("JSON");
    assert_eq!(end["finish"], "stop", "{run:?}");
    // The usage of all three parts.
    assert_eq!(end["completion_tokens"], 120, "{run:?}");
    let requests = helper.provider.requests();
    assert_eq!(requests.len(), 3);
    // The fake checks roles and signatures; what was sent stays as it was.
    for (earlier, later) in requests.iter().zip(&requests[1..]) {
        let sent = |request: &Request| request.json["messages"].as_array().cloned();
        let (earlier, later) = (sent(earlier).expect("a list"), sent(later).expect("a list"));
        assert_eq!(later[..earlier.len()], earlier);
        assert_eq!(later.len(), earlier.len() + 1);
        let part = &later[earlier.len()];
        assert_eq!(part["role"], "assistant");
        assert_eq!(part["content"][2]["id"], "srvtoolu_1");
    }
    let finish: Vec<_> = helper
        .records_of("assistant")
        .iter()
        .map(|r| r["finish"].clone())
        .collect();
    assert_eq!(finish, ["paused", "paused", "stop"]);
    // A new daemon sends the same.
    helper.kill_daemon();
    assert_eq!(helper.ask("y"), "Fine.\n");
    let requests = helper.provider.requests();
    let (third, fourth) = (&requests[2].json["messages"], &requests[3].json["messages"]);
    let (third, fourth) = (
        third.as_array().expect("a list"),
        fourth.as_array().expect("a list"),
    );
    assert_eq!(fourth[..third.len()], third[..]);
    assert_eq!(fourth.len(), third.len() + 2);
}

#[test]
fn the_sixth_pause_ends_the_answer() {
    let five = helper(5);
    let run = five.call(["ask", "--shell", "s1", "x"]).run();
    assert!(!run.stderr.contains("paused"), "{run:?}");
    assert!(run.ok().ends_with("Found.\n"));
    assert_eq!(five.provider.requests().len(), 6);
    let six = helper(6);
    let run = six.call(["ask", "--shell", "s1", "x"]).run();
    assert!(
        run.stderr.contains("paused the answer a sixth time"),
        "{run:?}"
    );
    run.ok();
    assert_eq!(six.provider.requests().len(), 6);
}
