use super::*;

#[test]
fn a_dump_restores_the_screen() {
    let mut screen = ScreenEmulator::new(30, 6).unwrap();
    screen.feed("one\r\n\x1b[31mred \x1b[2;4r\x1b[?1049haltern\x1b[5".as_bytes());
    let mut restored = ScreenEmulator::restored(30, 6, &screen.dump().unwrap()).unwrap();
    for screen in [&mut screen, &mut restored] {
        screen.feed(b"Ax\xe6\x97");
        assert_eq!(screen.dump(), None, "within a character");
        screen.feed(b"\xa5\x1b[?1049l!\r\n\n\n\nlast");
    }
    let lines = |screen: &ScreenEmulator| -> Vec<_> {
        let lines = screen.terminal().screen().visible_lines();
        lines.map(|line| line.cells().to_vec()).collect()
    };
    assert_eq!(lines(&screen), lines(&restored));
    assert_eq!(screen.dump(), restored.dump());
}

#[test]
fn all_ways_to_clear_the_screen_are_alike() {
    let lines = |cleared: ClearedLines, output: &str| {
        let mut screen = ScreenEmulator::new(10, 4).unwrap();
        let mut collector = LineCollector::new(cleared);
        screen.feed_observed(output.as_bytes(), &mut collector);
        collector.finish(&screen)
    };
    let long = "0123456789".repeat(5);
    for clear in ["\x1b[H\x1b[2J", "\x1b[H\x1b[J", "\x1bc"] {
        let short = format!("one\r\ntwo\r\n{clear}three");
        let wrapped = format!("one\r\n{long}{clear}three");
        let both = [short.as_str(), &wrapped];
        assert_eq!(
            both.map(|output| lines(ClearedLines::Keep, output)),
            [vec!["one", "two", "three"], vec!["one", &long, "three"]],
            "{clear:?}"
        );
        assert_eq!(
            both.map(|output| lines(ClearedLines::Drop, output)),
            [vec!["three"], vec!["one", "three"]],
            "{clear:?}"
        );
    }
    // The alternate screen, and a prompt in the first row that is drawn anew.
    for output in [
        "one\x1b[?1049h\x1b[H\x1b[Jvi\x1b[?1049l",
        "on\r\x1b[Jone",
        "\x1b[Hon\r\x1b[Jone",
    ] {
        assert_eq!(lines(ClearedLines::Keep, output), ["one"], "{output:?}");
    }
}
