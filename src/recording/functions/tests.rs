use super::*;
use avt::Terminal;
use proptest::prelude::*;

fn rewritten(pieces: &[&[u8]]) -> String {
    let (mut parser, mut out, mut at) = (FunctionParser::new(), String::new(), 0);
    for piece in pieces {
        parser.push(piece, at, &mut |_, function| {
            write_function(&function, &mut out)
        });
        at += piece.len() as u64;
    }
    out
}

fn screen(output: &str) -> String {
    let mut terminal = Terminal::new(12, 6).unwrap();
    terminal.feed(output);
    terminal.dump()
}

#[test]
fn places_are_those_of_the_first_byte() {
    let mut parser = FunctionParser::new();
    let mut found = Vec::new();
    let output = "a日\x1b[31m\u{e9}".as_bytes();
    for (at, byte) in output.iter().enumerate() {
        parser.push(&[*byte], at as u64 + 100, &mut |place, function| {
            if let Function::Print(c) = function {
                found.push((place, c));
            }
        });
    }
    assert_eq!(found, [(100, 'a'), (101, '日'), (109, 'é')]);
    let mut parser = FunctionParser::new();
    let mut found = Vec::new();
    for (at, piece) in [(0, &b"x\xe6\x97"[..]), (3, b"\xffy")] {
        parser.push(piece, at, &mut |place, function| {
            found.push((place, function))
        });
    }
    let marks = char::REPLACEMENT_CHARACTER;
    let expected =
        [(0, 'x'), (1, marks), (3, marks), (4, 'y')].map(|(at, c)| (at, Function::Print(c)));
    assert_eq!(found, expected);
}

#[test]
fn only_what_draws_is_left() {
    for hidden in [
        "\x1b]0;title\x07",
        "\x1b]2;title\x1b\\",
        "\x1b]7;file:///home\x07",
        "\x1b]52;c;eA==\x07",
        "\x1b]1337;File=:AA\x07",
        "\x1b]8;;http://x\x07",
        "\x1b]133;A\x07",
        "\x1b]7717;0;x\x1b\\",
        "\x1bPq#0\x1b\\",
        "\x1b_Gx\x1b\\",
        "\x1b^x\x1b\\",
        "\x1b[c",
        "\x1b[>c",
        "\x1b[6n",
        "\x1b[21t",
        "\x1b[8;50;100t",
        "\x1b[?1000h",
        "\x1b[?2004h",
        "\x1b[>4;1m",
        "\x07",
        "\x7f",
        "\u{9d}0;c1\u{9c}",
        "\u{90}q\u{9c}",
    ] {
        let found = rewritten(&[b"a", hidden.as_bytes(), b"b"]);
        assert_eq!(found, "ab", "{hidden:?}");
    }
    assert_eq!(rewritten(&[b"\x1b[?25;2004h"]), "\x1b[?25h");
}

proptest! {
    #[test]
    fn rewritten_output_has_the_same_effect(
        parts in prop::collection::vec(prop_oneof![
            "[a-z日é ]{1,5}",
            "\x1b\\[[0-9;]{0,6}[@A-Zbdefgmrsu]",
            "\x1b\\[\\?(1|6|7|25|47|1047|1048|1049)[hl]",
            "\x1b\\[(4|20)[hl]",
            "\x1b\\[(38;5;[0-9]{1,3}|48;2;1;2;3|[0-9]{1,3})m",
            "\x1b[78DEHMc]",
            "\x1b[()][0B]",
            "[\r\n\t\x08\x0e\x0f]",
            "\x1b#8|\x1b\\[!p",
        ], 0..25),
    ) {
        let output = parts.concat();
        prop_assert_eq!(screen(&rewritten(&[output.as_bytes()])), screen(&output));
    }

    #[test]
    fn nothing_that_acts_on_a_terminal_is_left(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let found = rewritten(&[&bytes]);
        for forbidden in ['\u{7}', '\u{7f}', '\u{90}', '\u{9b}', '\u{9d}', '\u{9e}', '\u{9f}', '\u{98}'] {
            prop_assert!(!found.contains(forbidden));
        }
        for forbidden in ["\x1b]", "\x1bP", "\x1b_", "\x1b^", "\x1bX"] {
            prop_assert!(!found.contains(forbidden));
        }
    }
}
