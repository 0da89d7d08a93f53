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
