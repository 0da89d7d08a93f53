//! Quality of the tool search over real servers.

use super::{graded, tools};

/// The floors are slightly below the scores that the bench prints: an update of a server may change a few questions.
#[tokio::test]
#[ignore = "needs real MCP servers; ./test.sh runs it with AISH_TEST_TOOLS"]
async fn questions_find_the_tools_of_six_servers() {
    let tools = graded::catalog(&tools()).await;
    assert!(tools.len() > 70, "{} tools", tools.len());
    for (held_out, recall, mrr) in [(false, 0.87, 0.70), (true, 0.74, 0.62)] {
        let grades = graded::grade(&tools, held_out);
        assert_eq!(grades.questions, 60);
        assert!(grades.recall >= recall && grades.mrr >= mrr, "{grades:#?}");
    }
}
