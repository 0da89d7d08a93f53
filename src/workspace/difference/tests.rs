use super::*;

fn shown(old: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Vec<String> {
    let difference = difference(old.as_ref(), new.as_ref());
    difference.lines.iter().map(ToString::to_string).collect()
}

#[test]
fn changed_lines_are_shown_with_their_numbers_and_surroundings() {
    let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
    let difference = difference(
        old.as_bytes(),
        old.replace("5\n", "five\nmore\n").as_bytes(),
    );
    let lines: Vec<_> = difference
        .lines
        .iter()
        .map(|line| {
            (
                line.sign.as_char(),
                line.old_number,
                line.new_number,
                line.text.as_str(),
            )
        })
        .collect();
    let expected = [
        ('⋮', None, None, " 1 unchanged line"),
        (' ', Some(2), Some(2), "2"),
        (' ', Some(3), Some(3), "3"),
        (' ', Some(4), Some(4), "4"),
        ('-', Some(5), None, "5"),
        ('+', None, Some(5), "five"),
        ('+', None, Some(6), "more"),
        (' ', Some(6), Some(7), "6"),
        (' ', Some(7), Some(8), "7"),
        (' ', Some(8), Some(9), "8"),
        ('⋮', None, None, " 1 unchanged line"),
    ];
    assert_eq!(lines, expected);
    assert_eq!((difference.added, difference.removed), (2, 1));
}

#[test]
fn what_the_text_does_not_show_is_written_out() {
    assert_eq!(
        shown("a\r\nb\n", "a\nb\n"),
        ["-a  [CRLF]", "+a  [LF]", " b"]
    );
    assert_eq!(shown("a\n", "a \n"), ["-a", "+a   [ends with space]"]);
    assert_eq!(
        shown("a\t \n", "a\n"),
        ["-a\t   [ends with tab space]", "+a"]
    );
    assert_eq!(shown("a\n", "a"), ["-a", "+a  [no newline at end of file]"]);
    assert_eq!(
        shown("a\n", "\u{FEFF}a\n"),
        ["-a", "+\u{FEFF}a  [byte order mark]"]
    );
    assert_eq!(shown(b"caf\xE9\n", b"tea\n"), ["-caf\\xe9", "+tea"]);
    assert_eq!(shown("a\rb\r", "a\rc\r"), [" a", "-b  [CR]", "+c  [CR]"]);
    // A line end that only an added line has, and ends that two lines exchange.
    assert_eq!(shown("a\n", "a\nb\r\n"), [" a", "+b  [CRLF]"]);
    assert_eq!(
        shown("a\r\nb\n", "a\nb\r\n"),
        ["-a  [CRLF]", "-b  [LF]", "+a  [LF]", "+b  [CRLF]"]
    );
    // An unchanged end is not worth a note.
    assert_eq!(shown("a\r\n", "b\r\n"), ["-a", "+b"]);
    assert_eq!(shown("a\nb", "a\nc"), [" a", "-b", "+c"]);
    assert_eq!(
        shown("a\nb", "a\nb\nc"),
        [
            " a",
            "-b  [no newline at end of file]",
            "+b",
            "+c  [no newline at end of file]"
        ]
    );
}

#[test]
fn added_and_removed_files_are_shown_whole() {
    assert_eq!(shown("", "a\nb"), ["+a", "+b  [no newline at end of file]"]);
    assert_eq!(shown("a\n", ""), ["-a"]);
    assert!(shown("a\n", "a\n").is_empty());
}

#[test]
fn utf_16_is_decoded() {
    let utf16 =
        |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    assert_eq!(
        shown(utf16("\u{FEFF}a\nä\n"), utf16("\u{FEFF}a\nö\n")),
        [" \u{FEFF}a", "-ä", "+ö"]
    );
}

#[test]
fn every_change_of_a_huge_file_is_shown() {
    let old: String = (0..60_000).map(|n| format!("line {n}\n")).collect();
    let new = old
        .replace("line 7\n", "")
        .replace("line 59990\n", "line 59990 changed\n");
    let difference = difference(old.as_bytes(), new.as_bytes());
    let has = |sign: LineSign, text: &str| {
        difference
            .lines
            .iter()
            .any(|line| line.sign == sign && line.text == text)
    };
    assert!(has(LineSign::Removed, "line 7") && has(LineSign::Added, "line 59990 changed"));
    // A change in one place is compared exactly.
    let new = old.replace("line 30000\n", "other\n");
    assert_eq!(super::difference(old.as_bytes(), new.as_bytes()).added, 1);
}

#[test]
fn the_lines_give_back_both_versions() {
    let (old, new) = ("a\nb\nc\nd\ne\nf\ng\n", "a\nB\nc\nd\ne\nG\n");
    let difference = difference(old.as_bytes(), new.as_bytes());
    let version = |left_out: LineSign| -> String {
        let lines = difference
            .lines
            .iter()
            .filter(|line| line.sign != left_out && line.sign != LineSign::Gap);
        lines.map(|line| format!("{}\n", line.text)).collect()
    };
    assert_eq!(version(LineSign::Added), old);
    assert_eq!(version(LineSign::Removed), new);
}

#[test]
fn a_long_unchanged_line_is_left_out() {
    let long = "x".repeat(MAX_CONTEXT_BYTES + 1);
    let shown = shown(format!("{long}\na\n"), format!("{long}\nb\n"));
    assert_eq!(shown, ["⋮ 1 unchanged line", "-a", "+b"]);
}
