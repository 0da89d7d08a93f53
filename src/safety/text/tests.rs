use super::*;
use crate::safety::utf8::Utf8Stream;
use proptest::prelude::*;
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};
use unicode_width::UnicodeWidthChar;

/// Texts that attack a terminal or its reader, and harmless texts that resemble them.
const CORPUS: &[&str] = &[
    "",
    "plain text, nothing else",
    "two\nlines\tand a tab",
    "dos\r\nline\r\nends\r\r\n and a lone\rreturn\r",
    "\x1b]52;c;cm0gLXJmIH4=\x07 writes the clipboard",
    "\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "\x1b[2J\x1b[H\x1b[31mred\x1b[8mhidden\x1b[0m",
    "\x1bP+q544e\x1b\\ \x1b_Gf=100;AAAA\x1b\\ \x1b^pm\x1b\\ \x1bXsos\x1b\\ \x1bc",
    "\u{9b}31m \u{90}q\u{9c} \u{9d}0;title\u{9c} \u{85}nel \u{84}\u{8d}",
    "bell\x07 back\x08\x08space \x0e shifted \x0f del\x7f nul\0 ff\x0c vt\x0b",
    "access = \"user\u{202e} \u{2066}// if admin\u{2069} \u{2066}\"",
    "\u{200e}\u{200f}\u{61c}\u{202a}\u{202b}\u{202c}\u{202d}\u{2067}\u{2068}",
    "tags \u{e0001}\u{e0069}\u{e0067}\u{e006e}\u{e006f}\u{e0072}\u{e0065}\u{e007f}",
    "fillers \u{115f}\u{1160}\u{3164}\u{ffa0} soft\u{ad}hyphen cgj\u{34f}x",
    "pass\u{200b}word p\u{200c}a\u{200d}s\u{2060}s\u{feff}w\u{180e}o\u{2061}rd",
    "x\u{2028}y\u{2029}z\u{fff9}a\u{fffa}b\u{fffb}c\u{ffff}\u{fdd0}\u{10ffff}\u{378}",
    "😀\u{e0158}\u{e0155}\u{e015c}\u{e015c} smuggles 🦀\u{fe00}\u{fe05}\u{fe0f}\u{fe0f}\u{fe0f}",
    "a\u{fe0f}b1\u{fe0f}2#\u{fe0f}\u{fe0f}\u{20e3}",
    "Z\u{300}\u{301}\u{302}\u{303}\u{304}\u{305}\u{306}\u{307}\u{308}\u{309}\u{30a}\u{30b}lgo",
    "\u{301}at the start\n\u{301}of a line\t\u{338}after \u{20dd} and \x1b\u{338}",
    "rm\u{94d} -rf\u{e3a} /\u{1039}",
    "\u{1161}a\u{1161}\u{11a8}",
    "ls                    ; rm -rf ~   \u{a0}\u{2003}\u{3000}\u{202f}x  y z ",
    "‹\\x1b› and \\x1b and \\u{202e} and ›‹ as text \\",
    "\u{e0b0}\u{f31b}\u{f0001} private \u{2800}\u{28ff} braille \u{1d159}\u{16fe4}\u{13430}",
    "👩‍💻 🏳️‍🌈 1️⃣ #️⃣ ❤️ ☎︎ 👨‍👩‍👧‍👦 👩🏽‍🚀 🇩🇪 ❤️‍🔥 👁️‍🗨️ 🏴‍☠️ ©️",
    "👩‍ 💻‍👩‍‍💻 a‍💻 👩‍a 🇩‍🇪 1‍💻 👩\u{200c}💻 ❤️️",
    "می‌خواهم کتاب‌ها ۲۰‌ساله PDF‌ها ه‍ سَلامٌ می‌‌خواهم ‌می می‌ ",
    "क्‍ष क्‌ष ශ්‍රී ක‍්ෂ ന്‍ ন্‍ র‍্য ಕ್‌ಕ ক\u{200c}\u{200d}",
    "葛\u{e0100}城市 辻\u{e0101}\u{e0101} ∩\u{fe00} 侮\u{fe00} \u{182d}\u{180b}\u{1820}\u{180e}\u{1820}\u{180b}",
    "e\u{301} が\u{3099} \u{1112}\u{1161}\u{11ab} Việt Nam ภาษาไทยน้ำ שָׁלוֹם ཧྐྵྨླྺྼྻྂ \u{600}١٢",
    "日本語、中文，한국어\u{3000}Ελληνικά Русский ½ → ∀x ░▒▓│└─ ﬁ",
];

/// Output of a sink for a text in these chunks.
fn run<'a>(mode: SinkMode, parts: impl IntoIterator<Item = &'a str>) -> String {
    let (mut sink, mut out) = (TextSink::new(mode), String::new());
    for part in parts {
        sink.push(part, &mut out);
    }
    sink.finish(&mut out);
    out
}

fn check(s: &str) {
    check_splits(s);
    check_prose(&prose(s));
    check_strict(s, &strict(s));
    for shown in [prose(s), strict(s)] {
        assert!(shown.len() <= 10 * s.len(), "{s:?} grows to {shown:?}");
    }
}

fn check_splits(s: &str) {
    for (mode, whole) in [(SinkMode::Prose, prose(s)), (SinkMode::Strict, strict(s))] {
        for (cut, _) in s.char_indices() {
            let (left, right) = s.split_at(cut);
            assert_eq!(
                run(mode, [left, "", right]),
                whole,
                "{mode:?} {s:?} cut at {cut}"
            );
        }
        let single = s.split_inclusive(|_| true);
        assert_eq!(run(mode, single), whole, "{mode:?} {s:?} char by char");
    }
}

/// Characters that are invisible or move other characters, in any position.
fn never_seen(c: char) -> bool {
    matches!(u32::from(c),
        0..=8 | 0xb..=0x1f | 0x7f..=0x9f | 0xad | 0x34f | 0x61c | 0x115f | 0x1160 | 0x17b4 | 0x17b5
        | 0x200b | 0x200e | 0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0x3164 | 0xfdd0..=0xfdef
        | 0xfe03..=0xfe0d | 0xfeff | 0xffa0 | 0xfff0..=0xfffb | 0x1bca0..=0x1bca3
        | 0x1d173..=0x1d17a | 0xe0000..=0xe00ff | 0xe0120..=0xe0fff)
        || u32::from(c) & 0xfffe == 0xfffe
}

/// Zero-width characters that prose may need.
fn in_place_only(c: char) -> bool {
    matches!(u32::from(c),
        0x200c | 0x200d | 0x180b..=0x180f | 0xfe00..=0xfe02 | 0xfe0e | 0xfe0f | 0xe0100..=0xe011f)
}

fn is_mark(c: char) -> bool {
    c.general_category_group() == GeneralCategoryGroup::Mark
}

fn check_prose(shown: &str) {
    let (mut last, mut marks) = ('\n', 0);
    let mut chars = shown.chars().peekable();
    while let Some(c) = chars.next() {
        assert!(!never_seen(c), "{c:?} in {shown:?}");
        if in_place_only(c) {
            let emoji = last == '\u{fe0f}' && c == '\u{200d}';
            assert!(
                emoji || !in_place_only(last),
                "{c:?} after {last:?} in {shown:?}"
            );
            let ascii_next = chars.peek().is_none_or(char::is_ascii);
            let keycap = c == '\u{fe0f}' && chars.peek() == Some(&'\u{20e3}');
            assert!(
                keycap || !last.is_ascii() || !ascii_next,
                "{c:?} in ASCII in {shown:?}"
            );
        } else if is_mark(c) {
            marks += 1;
            assert!(
                marks <= 8 && !matches!(last, '\n' | '\t'),
                "{c:?} in {shown:?}"
            );
        } else {
            marks = 0;
        }
        last = c;
    }
}

fn check_strict(s: &str, shown: &str) {
    let mut last = ' ';
    for c in shown.chars() {
        assert!(!never_seen(c) && !in_place_only(c), "{c:?} in {shown:?}");
        assert!(c == ' ' || !c.is_whitespace(), "{c:?} in {shown:?}");
        let jamo = matches!(c, '\u{1161}'..='\u{11ff}' | '\u{d7b0}'..='\u{d7fb}');
        assert!(
            c.width().is_some_and(|w| w > 0) || is_mark(c) || jamo,
            "{c:?} in {shown:?}"
        );
        assert!(
            !is_mark(c) || !matches!(last, ' ' | '›'),
            "{c:?} in {shown:?}"
        );
        last = c;
    }
    assert!(!shown.contains("   "), "{shown:?}");
    assert_eq!(read_back(shown), s, "{shown:?}");
    let pieces = strict_pieces(s);
    let joined: String = pieces
        .iter()
        .map(|(OwnedPiece::Text(text) | OwnedPiece::Mark(text))| text.as_str())
        .collect();
    assert_eq!(joined, shown);
    assert!(pieces.iter().all(|piece| match piece {
        OwnedPiece::Text(text) => !text.is_empty() && !text.contains(['‹', '›']),
        OwnedPiece::Mark(mark) => mark.starts_with('‹') && mark.ends_with('›'),
    }));
}

/// Restores the input from strict output, which proves that nothing is lost or ambiguous.
fn read_back(shown: &str) -> String {
    let mut out = String::new();
    let mut rest = shown;
    while let Some((text, after)) = rest.split_once('‹') {
        let (mark, after) = after.split_once('›').expect("a stand-in ends");
        out.push_str(text);
        rest = after;
        if let Some(count) = mark.strip_suffix(" spaces") {
            out.push_str(&" ".repeat(count.parse().unwrap()));
            continue;
        }
        out.push(match mark {
            "\\n" => '\n',
            "\\r" => '\r',
            "\\t" => '\t',
            _ => {
                let hex = mark.strip_prefix("\\x").or_else(|| {
                    mark.strip_prefix("\\u{")
                        .and_then(|hex| hex.strip_suffix('}'))
                });
                char::from_u32(u32::from_str_radix(hex.unwrap(), 16).unwrap()).unwrap()
            }
        });
    }
    out + rest
}

#[test]
fn the_corpus_is_safe_at_every_split() {
    for s in CORPUS {
        check(s);
    }
    check(&CORPUS.concat());
}

#[test]
fn the_output_does_not_depend_on_where_bytes_are_split() {
    for bytes in CORPUS
        .iter()
        .map(|s| s.as_bytes())
        .chain([&b"\x9b31m \xe2\x80 \xff\xc2"[..]])
    {
        for (mode, whole) in [SinkMode::Prose, SinkMode::Strict]
            .map(|mode| (mode, sink_all(&String::from_utf8_lossy(bytes), mode)))
        {
            for cut in 0..=bytes.len() {
                let (mut stream, mut sink) = (Utf8Stream::new(), TextSink::new(mode));
                let (mut text, mut out) = (String::new(), String::new());
                for part in [&bytes[..cut], &bytes[cut..]] {
                    text.clear();
                    stream.push(part, &mut text);
                    sink.push(&text, &mut out);
                }
                text.clear();
                stream.finish(&mut text);
                sink.push(&text, &mut out);
                sink.finish(&mut out);
                assert_eq!(out, whole, "{bytes:x?} cut at {cut}");
            }
        }
    }
}

#[test]
fn every_character_is_safe_alone_and_next_to_letters() {
    // The planes with assigned characters, and the ends of the others.
    let planes = (0..0x2_0010).chain(0xd_ffff..0xe_1001);
    for c in planes
        .chain(0xf_fff0..0x10_0010)
        .chain(0x10_fff0..=0x10_ffff)
        .filter_map(char::from_u32)
    {
        for s in [format!("a{c}b"), c.to_string()] {
            check_prose(&prose(&s));
            check_strict(&s, &strict(&s));
        }
    }
}

#[test]
fn prose_shows() {
    for (text, shown) in [
        ("\x1b]52;c;AA==\x07", "\\x1b]52;c;AA==\\x07"),
        ("\u{9b}31m\u{85}\x7f\0", "\\u{9b}31m\\u{85}\\x7f\\x00"),
        ("\u{202e}evil\u{2066}", "\\u{202e}evil\\u{2066}"),
        (
            "pass\u{200b}wo\u{200d}rd\u{200c}",
            "pass\\u{200b}wo\\u{200d}rd\\u{200c}",
        ),
        (
            "a\u{2028}b\u{e0041}\u{ad}\u{feff}",
            "a\\u{2028}b\\u{e0041}\\u{ad}\\u{feff}",
        ),
        ("a\r\nb\rc\r\r\nd\r", "a\nb\\rc\\r\nd\\r"),
        (
            "1\u{fe0f} 1\u{fe0e}\u{20e3}",
            "1\\u{fe0f} 1\\u{fe0e}\\u{20e3}",
        ),
        ("😀\u{e0101}\u{e0102}", "😀\\u{e0101}\\u{e0102}"),
        ("❤\u{fe0f}\u{fe0f}", "❤\u{fe0f}\\u{fe0f}"),
        ("👩\u{200d}\u{200d}💻", "👩\\u{200d}\\u{200d}💻"),
        ("می\u{200c}\u{200c}خ", "می\\u{200c}\\u{200c}خ"),
        ("क्\u{200d}\u{200c}ष", "क्\u{200d}\\u{200c}ष"),
        ("ه\u{200d}\u{200c}ه", "ه\u{200d}\\u{200c}ه"),
        (
            "葛\u{e0100}\u{e0100}\u{e0130}",
            "葛\u{e0100}\\u{e0100}\\u{e0130}",
        ),
        ("a\u{94d}b \u{94d}", "a\\u{94d}b \u{94d}"),
        ("می\u{200c}. می\u{200c} ", "می\\u{200c}. می\\u{200c} "),
        ("a\u{301}\u{200d}b", "a\u{301}\\u{200d}b"),
        ("é\u{fe00}+\u{fe00}", "é\\u{fe00}+\\u{fe00}"),
        ("\u{301}\n\u{301}", "\\u{301}\n\\u{301}"),
        ("\x1b\u{338}", "\\x1b\\u{338}"),
    ] {
        assert_eq!(prose(text), shown);
    }
}

#[test]
fn prose_keeps_legitimate_text_unchanged() {
    for text in [
        "👩‍💻 🏳️‍🌈 1️⃣ #️⃣ ❤️ ☎︎ 👨‍👩‍👧‍👦 👩🏽‍🚀 🇩🇪 ❤️‍🔥 👁️‍🗨️ 🏴‍☠️ ©️ 🧑🏿‍❤️‍💋‍🧑🏻",
        "می‌خواهم کتاب‌ها ۲۰‌ساله PDF‌ها ه‍ سَلامٌ",
        "क्‍ष क्‌ष ශ්‍රී ක‍්ෂ ന്‍ ন্‍ র‍্য ಕ್‌ಕ क्‌",
        "葛\u{e0100}城市 侮\u{fe00} ∩\u{fe00} \u{182d}\u{180b}\u{1820} ᠬᠠᠭ\u{180e}ᠠ",
        "e\u{301} か\u{3099} \u{1112}\u{1161}\u{11ab} Việt Nam ภาษาไทยน้ำ שָׁלוֹם ཧྐྵྨླྺྼྻྂ \u{600}١٢",
        "日本語、中文，한국어\u{3000}Ελληνικά Русский ½ → ∀x ░▒▓│└─ ﬁ \u{202f}% \u{e0b0} ⣿\u{2800}",
        "line\n\tcode \\x1b ‹quoted›    aligned",
    ] {
        assert_eq!(prose(text), text);
    }
}

#[test]
fn strict_shows() {
    for (text, shown) in [
        ("ls -la  ~/x\\ y", "ls -la  ~/x\\ y"),
        ("ls   \x1b[8m", "ls‹3 spaces›‹\\x1b›[8m"),
        ("a\nb\tc\r\n", "a‹\\n›b‹\\t›c‹\\r›‹\\n›"),
        (
            "printf '\\x1b\\n' ‹\\n›",
            "printf '\\x1b\\n' ‹\\u{2039}›\\n‹\\u{203a}›",
        ),
        ("👩‍💻❤️", "👩‹\\u{200d}›💻❤‹\\u{fe0f}›"),
        ("می‌خواهم", "می‹\\u{200c}›خواهم"),
        (
            "a\u{a0}b\u{3000}\u{2800}\u{e000}",
            "a‹\\u{a0}›b‹\\u{3000}›‹\\u{2800}›‹\\u{e000}›",
        ),
        ("cafe\u{301} \u{301}", "cafe\u{301} ‹\\u{301}›"),
        ("rm\u{94d}\u{e3a}", "rm‹\\u{94d}›‹\\u{e3a}›"),
        (
            "\u{1112}\u{1161}\u{11ab}\u{1160}",
            "\u{1112}\u{1161}\u{11ab}‹\\u{1160}›",
        ),
    ] {
        assert_eq!(strict(text), shown);
    }
    let long = " ".repeat(1 << 20);
    assert_eq!(
        run(SinkMode::Strict, [&long[..], "x", &long, &long]),
        "‹1048576 spaces›x‹2097152 spaces›"
    );
}

#[test]
fn marks_are_limited_on_one_base() {
    let zalgo = format!("a{}b", "\u{300}".repeat(100));
    let shown = format!("a{}{}b", "\u{300}".repeat(8), "\\u{300}".repeat(92));
    assert_eq!(prose(&zalgo), shown);
    assert_eq!(run(SinkMode::Prose, zalgo.split_inclusive(|_| true)), shown);
    // A joiner has no effect before a mark that is one too many.
    let eight = format!("क{}", "\u{902}".repeat(8));
    let shown = format!("{eight}\\u{{200d}}\\u{{902}}");
    assert_eq!(prose(&format!("{eight}\u{200d}\u{902}")), shown);
}

#[test]
fn pieces_distinguish_text_from_stand_ins() {
    let pieces = strict_pieces("a\x1bb  ");
    let expected = [
        OwnedPiece::Text("a".into()),
        OwnedPiece::Mark("‹\\x1b›".into()),
        OwnedPiece::Text("b  ".into()),
    ];
    assert_eq!(pieces, expected);
}

#[test]
fn a_run_of_plain_text_is_one_piece() {
    for (mode, text) in [
        (SinkMode::Prose, "plain ASCII, 漢字, más\n\tand 👩‍💻 می‌خواهم"),
        (SinkMode::Strict, "cp -a  x y && ls 漢字 cafe\u{301}"),
    ] {
        let text = text.repeat(50);
        let mut pieces = 0;
        TextSink::new(mode).push_with(&text, &mut |piece| {
            assert_eq!(piece, SafePiece::Text(&text));
            pieces += 1;
        });
        assert_eq!(pieces, 1);
    }
}

#[test]
fn only_undecided_characters_are_held_back() {
    let (mut sink, mut out) = (TextSink::new(SinkMode::Prose), String::new());
    for (text, shown) in [
        ("wor", "wor"),
        ("d ❤", "d ❤"),
        ("\u{fe0f}", "\u{fe0f}"),
        ("\u{200d}", ""),
        ("🔥\r", "\u{200d}🔥"),
        ("\n", "\n"),
    ] {
        out.clear();
        sink.push(text, &mut out);
        assert_eq!(out, shown);
    }
    sink.finish(&mut out);
    assert_eq!(out, "\n");
}

#[test]
fn finish_resets_the_sink() {
    for mode in [SinkMode::Prose, SinkMode::Strict] {
        let (mut sink, mut out) = (TextSink::new(mode), String::new());
        for s in CORPUS {
            out.clear();
            sink.push(s, &mut out);
            sink.finish(&mut out);
            assert_eq!(out, sink_all(s, mode));
        }
    }
}

#[test]
fn one_line_cuts_between_pieces() {
    for (text, max, shown) in [
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("a\nb", 6, "a‹\\n›b"),
        ("a\nbc", 6, "a‹\\n›…"),
        ("a\nb", 5, "a…"),
        ("a\n", 5, "a‹\\n›"),
        ("ab\n", 5, "ab…"),
        ("日本語", 2, "日…"),
        ("x", 0, ""),
        ("", 0, ""),
        ("a         ", 4, "a…"),
    ] {
        assert_eq!(one_line(text, max), shown, "{text:?} {max}");
    }
    assert_eq!(one_line(&"\x1b".repeat(1 << 24), 7), "‹\\x1b›…");
}

fn nasty() -> impl Strategy<Value = String> {
    let chars = CORPUS.concat().chars().collect::<Vec<_>>();
    let one = prop_oneof![3 => prop::sample::select(chars), 1 => any::<char>(), 1 => Just(' ')];
    prop::collection::vec(one, 0..40).prop_map(String::from_iter)
}

proptest! {
    #[test]
    fn random_text_is_safe_at_every_split(s in nasty()) {
        check(&s);
    }

    #[test]
    fn three_chunks_give_the_same_output_as_one(parts in prop::collection::vec(nasty(), 3)) {
        for mode in [SinkMode::Prose, SinkMode::Strict] {
            let parts = parts.iter().map(String::as_str);
            prop_assert_eq!(run(mode, parts.clone()), sink_all(&parts.collect::<String>(), mode));
        }
    }

    #[test]
    fn one_line_respects_the_maximum(s in nasty(), max in 0usize..60) {
        let (line, full) = (one_line(&s, max), strict(&s));
        prop_assert!(line.chars().count() <= max);
        if full.chars().count() <= max {
            prop_assert_eq!(line, full);
        } else if max > 0 {
            prop_assert!(full.starts_with(line.strip_suffix('…').unwrap()));
        }
    }
}
