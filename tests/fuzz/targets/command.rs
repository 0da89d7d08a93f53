//! Extraction of commands from answers.

use aish::safety::command_extractor::{AnswerPiece, CommandExtractor};

use crate::fuzz::mutator::text_pieces;
use crate::fuzz::{Shape, Target};

pub const TARGET: Target = Target {
    name: "command",
    run,
    shape: Shape::Bytes,
    usual_size: 4 << 10,
    tokens: &[
        "CMD:",
        "CMD: ls\n",
        "\nCMD: ",
        "`CMD: ls`\n",
        "- CMD: ls\n",
        "* CMD:",
        "```\n",
        "```sh\n",
        "````\n",
        "~~~\n",
        "~~~~",
        "`",
        "<!--",
        "-->",
        "--",
        "<!-",
        "   ",
        "    CMD: ls\n",
        "\t",
        "\r\n",
        "\n",
        "\n\n",
        "$ ",
        "text\n",
        "for x in 1 2; do\n",
        "done\n",
        "<<EOF\n",
        "EOF\n",
        "\\\n",
        "'",
        "\"",
    ],
};

/// Maximum length of a command.
const LONGEST: usize = 64 << 10;

/// Returns the text, joined, and the commands.
fn extract(pieces: &[&str], is_cut_off: bool) -> (String, Vec<String>) {
    let (mut text, mut commands, mut all_taken) = (String::new(), Vec::new(), 0);
    let mut emit = |piece| match piece {
        AnswerPiece::Text(part) => text.push_str(&part),
        AnswerPiece::Command { text, taken } => {
            commands.push(text);
            all_taken += taken;
        }
    };
    let mut extractor = CommandExtractor::default();
    for piece in pieces {
        extractor.push(piece, &mut emit);
    }
    match is_cut_off {
        true => extractor.cut_off(&mut emit),
        false => extractor.finish(&mut emit),
    }
    let length: usize = pieces.iter().map(|piece| piece.len()).sum();
    assert_eq!(
        text.len() + all_taken,
        length,
        "every byte is text or taken"
    );
    (text, commands)
}

/// Whether `part` can be obtained from `whole` by removing characters.
fn is_within(part: &str, whole: &str) -> bool {
    let mut rest = whole.chars();
    part.chars().all(|c| rest.any(|other| other == c))
}

fn run(input: &[u8]) -> bool {
    let answer = String::from_utf8_lossy(input);
    let cut = text_pieces(&answer);
    let (text, commands) = extract(&[&answer], false);
    assert_eq!(extract(&cut, false), (text.clone(), commands.clone()));
    assert!(is_within(&text, &answer), "{text:?}");
    if commands.is_empty() {
        assert_eq!(text, answer, "an answer without commands is shown whole");
    }
    for command in &commands {
        assert!(!command.trim().is_empty() && command.len() <= LONGEST);
        assert!(
            command.lines().all(|line| answer.contains(line)),
            "{command:?}"
        );
    }
    // An answer that is cut off proposes nothing that the whole answer does not.
    let early = extract(&cut, true);
    assert_eq!(early, extract(&[&answer], true));
    assert!(
        commands.starts_with(&early.1) || early.1.is_empty(),
        "{:?}",
        early.1
    );
    assert!(is_within(&early.0, &answer));
    // In a comment and after other text in a fence, nothing is a proposal.
    let comment = format!("<!--\n{}", answer.replace("-->", "").replace("->", ""));
    assert_eq!(
        extract(&text_pieces(&comment), false),
        (comment, Vec::new())
    );
    let fence = format!("~~~~~~~~~\nx\n{}", answer.replace("~~~", ""));
    assert_eq!(extract(&text_pieces(&fence), false), (fence, Vec::new()));
    !commands.is_empty()
}
