//! The places of the proposed commands in the text of an answer.

use super::types::ProposalView;
use crate::history::record::RecordBody;
use crate::safety::command_extractor::{AnswerPiece, ProposalLimit, pieces};

/// Returns the lines of a recorded answer that propose commands, in their order. `answer` is its text as clients get it. If the
/// answer was cut off, its last command may be incomplete and is left out.
pub fn proposals(body: &RecordBody, answer: &str) -> Vec<ProposalView> {
    match body {
        RecordBody::Assistant { .. } => find_proposals(answer, body.is_whole_answer()),
        _ => Vec::new(),
    }
}

/// Same as [`proposals`], for an answer that is whole or not.
pub fn find_proposals(answer: &str, is_whole: bool) -> Vec<ProposalView> {
    let mut found: Vec<ProposalView> = Vec::new();
    let (mut at, mut line) = (0, 0);
    // Pieces hold the bytes of the answer in their order.
    let mut lines_of = |bytes: usize| {
        let part = answer.get(at..at + bytes).unwrap_or_default();
        let first_line = line;
        at += bytes;
        line += part.matches('\n').count();
        (first_line, part.split_inclusive('\n').count())
    };
    // The terminal offers no more than these.
    let mut limit = ProposalLimit::default();
    let mut block = (0, 0);
    let mut is_beyond = false;
    pieces(answer, is_whole, |piece| match piece {
        AnswerPiece::Text(text) => {
            lines_of(text.len());
        }
        AnswerPiece::Command { text, taken } => {
            if taken > 0 {
                block = lines_of(taken);
                is_beyond = false;
            }
            is_beyond |= !limit.admits(&text);
            if is_beyond {
                // A block of which some are not offered stays text: its lines would hide them.
                found.pop_if(|last| last.first_line == block.0);
                return;
            }
            match found.last_mut() {
                Some(last) if taken == 0 && last.first_line == block.0 => last.commands.push(text),
                _ => found.push(ProposalView {
                    first_line: block.0,
                    lines: block.1,
                    commands: vec![text],
                }),
            }
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safety::command_extractor::MAX_PROPOSALS;

    /// The lines and the commands of each proposal.
    fn found(answer: &str, is_whole: bool) -> Vec<(String, Vec<String>)> {
        let lines: Vec<_> = answer.split_inclusive('\n').collect();
        let proposals = find_proposals(answer, is_whole).into_iter();
        proposals
            .map(|p| (lines[p.first_line..][..p.lines].concat(), p.commands))
            .collect()
    }

    #[test]
    fn proposals_have_their_lines_and_commands() {
        for (answer, expected) in [
            ("no command\n", vec![]),
            (
                "größe\nCMD: ls -l\nb\n\n- CMD: `id`",
                vec![("CMD: ls -l\n", vec!["ls -l"]), ("- CMD: `id`", vec!["id"])],
            ),
            (
                "a\n```sh\nCMD: a\n\nCMD: b\n```\nCMD: c\n",
                vec![
                    ("```sh\nCMD: a\n\nCMD: b\n```\n", vec!["a", "b"]),
                    ("CMD: c\n", vec!["c"]),
                ],
            ),
            (
                "CMD:\n```\nls\n\npwd\n```",
                vec![("CMD:\n```\nls\n\npwd\n```", vec!["ls\n\npwd"])],
            ),
            (
                "CMD: for i in 1; do\n  ls\ndone\nx\n",
                vec![(
                    "CMD: for i in 1; do\n  ls\ndone\n",
                    vec!["for i in 1; do\n  ls\ndone"],
                )],
            ),
            // Never complete: the first line alone, and the lines below it again.
            (
                "CMD: echo 'a\nb\nCMD: ls\n",
                vec![
                    ("CMD: echo 'a\n", vec!["echo 'a"]),
                    ("CMD: ls\n", vec!["ls"]),
                ],
            ),
            (
                "```\nx\nCMD: a\n```\nCMD: b\r\n",
                vec![("CMD: b\r\n", vec!["b"])],
            ),
        ] {
            let expected: Vec<(String, Vec<String>)> = expected
                .into_iter()
                .map(|(lines, commands)| {
                    (
                        lines.to_owned(),
                        commands.into_iter().map(str::to_owned).collect(),
                    )
                })
                .collect();
            assert_eq!(found(answer, true), expected, "{answer:?}");
        }
    }

    #[test]
    fn no_more_is_proposed_than_the_terminal_offers() {
        let answer: String = (0..60).map(|n| format!("CMD: echo {n}\n")).collect();
        let proposals = found(&answer, true);
        assert_eq!(proposals.len(), MAX_PROPOSALS);
        assert_eq!(proposals[49].1, ["echo 49"]);
        // A block stays text if not all of it fits; a command that does not fit leaves its room to a shorter one.
        let block = format!("CMD: first\n```\n{answer}```\n");
        let proposals = found(&block, true);
        assert_eq!(
            proposals,
            [("CMD: first\n".to_owned(), vec!["first".to_owned()])]
        );
        let long = format!("CMD: echo {}\n", "x".repeat(60 << 10));
        let answer = format!("{}CMD: id\n", long.repeat(6));
        let proposals = found(&answer, true);
        assert_eq!(proposals.len(), 5);
        assert_eq!(proposals[4].1, ["id"]);
    }

    #[test]
    fn an_answer_that_is_not_whole_has_only_commands_that_are() {
        let expected = [("CMD: a\n".to_owned(), vec!["a".to_owned()])];
        assert_eq!(found("CMD: a\nCMD: b", false), expected);
        assert_eq!(found("CMD: a\n```\nCMD: b\n", false), expected);
    }
}
