use super::*;

fn screen(output: &str) -> ScreenEmulator {
    let mut screen = ScreenEmulator::new(20, 5).unwrap();
    screen.feed(output.as_bytes());
    screen
}

/// What a terminal of this size shows after the frames.
fn shown(size: (u16, u16), frames: &[String]) -> vt100::Parser {
    let n = |n| std::num::NonZeroU16::new(n).unwrap();
    let mut parser = vt100::Parser::new(n(size.1), n(size.0), 0);
    for frame in frames {
        parser.process(frame.as_bytes());
    }
    parser
}

/// The text of a screen, without the spaces at the ends of its rows.
fn text(parser: &vt100::Parser) -> String {
    let text = parser.screen().contents();
    let rows: Vec<_> = text.lines().map(str::trim_end).collect();
    rows.join("\n")
}

#[test]
fn a_frame_draws_the_screen_and_the_status() {
    let mut view = FrameView::new((20, 6), true);
    let frame = view.frame(
        &screen("\x1b[1;31mred\x1b[0m 日本 e\u{301}\r\n  x"),
        " status",
    );
    let parser = shown((20, 6), &[frame]);
    let found = parser.screen();
    assert_eq!(text(&parser), "red 日本 e\u{301}\n  x\n\n\n\n status");
    let cell = found.cell(0, 0).unwrap();
    assert!(cell.bold() && cell.fgcolor() == vt100::Color::Idx(1));
    assert!(found.cell(5, 1).unwrap().inverse());
    assert_eq!(
        (found.cursor_position(), found.hide_cursor()),
        ((1, 3), false)
    );
}

#[test]
fn only_changed_rows_are_drawn_again() {
    let mut view = FrameView::new((20, 6), true);
    let mut screen = screen("one\r\ntwo\r\n");
    let first = view.frame(&screen, "s");
    screen.feed(b"three\x1b[?25l");
    let second = view.frame(&screen, "s");
    assert!(second.contains("three") && !second.contains("two"));
    let parser = shown((20, 6), &[first, second]);
    assert_eq!(text(&parser), "one\ntwo\nthree\n\n\ns");
    assert!(parser.screen().hide_cursor());
    view.reset((20, 6));
    assert!(view.frame(&screen, "s").contains("two"));
}

#[test]
fn characters_that_act_or_hide_have_a_stand_in() {
    let mut view = FrameView::new((20, 6), true);
    let frame = view.frame(
        &screen("a\u{202e}b\u{200b}c\u{ad}d\u{e0041}e\u{2066}\u{7f}"),
        "",
    );
    for hidden in [
        '\u{202e}',
        '\u{200b}',
        '\u{e0041}',
        '\u{2066}',
        '\u{7f}',
        '\u{ad}',
    ] {
        assert!(!frame.contains(hidden), "{hidden:?} in {frame:?}");
    }
    for kept in ['a', 'b', 'c', 'd', 'e'] {
        assert!(frame.contains(kept));
    }
}

#[test]
fn small_terminals_get_a_part_of_the_screen() {
    let screen = screen("1 abcdefghijklmnopqr\r\n2\r\n3\r\n4 日本日本日本\r\n5");
    for (size, expected) in [
        ((20, 4), "3\n4 日本日本日本\n5\ns"),
        ((7, 4), "3\n4 日本\n5\ns"),
        // Half a character is left out.
        ((6, 4), "3\n4 日本\n5\ns"),
        ((5, 4), "3\n4 日\n5\ns"),
        ((20, 2), "4 日本日本日本\n5"),
        ((1, 1), "5"),
    ] {
        let mut view = FrameView::new((usize::from(size.0), usize::from(size.1)), true);
        let parser = shown(size, &[view.frame(&screen, "s")]);
        assert_eq!(text(&parser), expected, "{size:?}");
    }
}

#[test]
fn colors_are_optional() {
    let mut view = FrameView::new((20, 6), false);
    let frame = view.frame(&screen("\x1b[4;31;48;5;200mx"), "");
    assert!(frame.contains("\x1b[0;4mx"), "{frame:?}");
}
