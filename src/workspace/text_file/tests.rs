use super::*;

fn parsed(bytes: &[u8]) -> TextFile {
    TextFile::parse(bytes).unwrap()
}

fn unchanged(file: &TextFile) -> Vec<u8> {
    let lines: Vec<OutputLine> = (0..file.line_count()).map(OutputLine::kept).collect();
    file.with_lines(&lines)
}

#[test]
fn a_file_whose_lines_are_kept_stays_the_same_bytes() {
    let utf16: Vec<u8> = "\u{FEFF}a\r\n😀\n"
        .encode_utf16()
        .flat_map(u16::to_be_bytes)
        .collect();
    let files: [&[u8]; 12] = [
        b"",
        b"\n",
        b"a",
        b"a\n",
        b"a\r\nb\nc\rd",
        b"\r\r\n\n\r",
        b"\xEF\xBB\xBFa\n",
        b"\xEF\xBB\xBF",
        b"caf\xE9\r\n\xFF\n",
        b"\xEF\xBB\xBFcaf\xE9\n",
        b"\xFF\xFEa\0\r\0\n\0",
        &utf16,
    ];
    for bytes in files {
        assert_eq!(unchanged(&parsed(bytes)), bytes, "{bytes:?}");
    }
}

#[test]
fn the_encoding_is_recognized() {
    let encoding = |bytes: &[u8]| parsed(bytes).encoding();
    assert_eq!(encoding("naïve".as_bytes()), TextEncoding::Utf8);
    assert_eq!(encoding(b"\xEF\xBB\xBFa"), TextEncoding::Utf8Bom);
    assert_eq!(encoding(b"\xFF\xFEa\0"), TextEncoding::Utf16Le);
    assert_eq!(encoding(b"\xFE\xFF\0a"), TextEncoding::Utf16Be);
    assert_eq!(encoding(b"caf\xE9"), TextEncoding::Unknown);
}

#[test]
fn what_cannot_be_written_back_is_refused_with_the_reason() {
    let refusal = |bytes: &[u8]| TextFile::parse(bytes).unwrap_err().message;
    assert_eq!(
        refusal(b"a\0b"),
        "the file is binary: it contains NUL bytes"
    );
    assert_eq!(
        refusal(b"\xFF\xFE\0\0a\0\0\0"),
        "UTF-32 files cannot be edited"
    );
    let damaged = "the file has a UTF-16 byte order mark, but is not valid UTF-16";
    assert_eq!(refusal(b"\xFF\xFEa"), damaged);
    assert_eq!(refusal(b"\xFF\xFE\x00\xD8a\0"), damaged);
}

#[test]
fn the_most_frequent_line_end_is_the_style_and_the_first_of_equals() {
    assert_eq!(parsed(b"a").line_end(), LineEnd::Lf);
    assert_eq!(parsed(b"a\nb\r\nc\r\n").line_end(), LineEnd::CrLf);
    assert_eq!(parsed(b"a\r\nb\n").line_end(), LineEnd::CrLf);
    assert_eq!(parsed(b"a\nb\r\n").line_end(), LineEnd::Lf);
    assert_eq!(parsed(b"a\rb\rc").line_end(), LineEnd::Cr);
}

#[test]
fn a_rewritten_file_keeps_mark_encoding_and_uniform_line_ends() {
    let rewritten = |bytes: &[u8], text: &str| parsed(bytes).rewritten(text).unwrap();
    assert_eq!(
        rewritten(b"\xEF\xBB\xBFa\r\n", "b\nc\n"),
        b"\xEF\xBB\xBFb\r\nc\r\n"
    );
    assert_eq!(rewritten(b"\xEF\xBB\xBFa", "\u{FEFF}b"), b"\xEF\xBB\xBFb");
    assert_eq!(rewritten(b"a\r\nb\n", "b\nc\n"), b"b\nc\n");
    assert_eq!(rewritten(b"a\r\n", "b\r\nc\n"), b"b\r\nc\n");
    assert_eq!(rewritten(b"\xFF\xFEa\0", "b\n"), b"\xFF\xFEb\0\n\0");
    assert_eq!(rewritten(b"caf\xE9", "café"), "café".as_bytes());
    assert!(parsed(b"a").rewritten("a\0").is_err());
}

#[test]
fn a_file_of_unknown_encoding_takes_ascii_only() {
    let file = parsed(b"caf\xE9\n");
    assert!(file.check_new("tea").is_ok());
    assert!(
        file.check_new("café")
            .unwrap_err()
            .message
            .contains("only ASCII")
    );
    // One damaged byte in a UTF-8 file.
    assert!(
        parsed(b"caf\xC3\xA9 th\xC3\xA9 \xFF\n")
            .check_new("café")
            .is_ok()
    );
}
