//! The text sink and the Markdown renderer: what reaches the terminal.

use aish::client::render::{MarkdownRenderer, RenderOptions};
use aish::safety::confusables::{marked_name, marked_text};
use aish::safety::text::{
    OwnedPiece, SafePiece, SinkMode, TextSink, one_line, prose, strict, strict_pieces,
};
use aish::safety::utf8::Utf8Stream;

use crate::fuzz::mutator::{Random, pieces, text_pieces};
use crate::fuzz::{Shape, Target};

pub const TARGET: Target = Target {
    name: "sink",
    run,
    shape: Shape::Bytes,
    usual_size: 512,
    tokens: &[
        "\x1b[2J",
        "\x1b]0;t\x07",
        "\x1b]8;;http://x\x1b\\",
        "\x1bP",
        "\x1b\\",
        "\u{90}",
        "\u{9d}",
        "\u{115f}",
        "\u{3164}",
        "\u{2800}",
        "\u{1161}",
        "\u{11a8}",
        "\u{94d}",
        "\u{200c}",
        "\u{180b}",
        "\u{e0100}",
        "\u{e007f}",
        "\u{20e3}",
        "1\u{fe0f}\u{20e3}",
        "\u{1f3fb}",
        "🇩🇪",
        "می‌خ",
        "क्‍ष",
        "‹",
        "›",
        "**",
        "__",
        "*",
        "`",
        "```sh\n",
        "\n```\n",
        "~~~",
        "# ",
        "> ",
        "- ",
        "1. ",
        "| a | b |\n|---|---|\n",
        "[t](http://x)",
        "![i](x)",
        "<b>",
        "&amp;",
        "&#27;",
        "\\",
        "---\n",
        "    ",
        "~~",
        "<!--",
        "-->",
    ],
};

fn sink(mode: SinkMode, pieces: &[&str]) -> String {
    let (mut sink, mut out) = (TextSink::new(mode), String::new());
    for piece in pieces {
        sink.push(piece, &mut out);
    }
    sink.finish(&mut out);
    out
}

/// Whether a terminal acts on a character, or shows nothing for it anywhere.
fn is_forbidden(c: char) -> bool {
    matches!(u32::from(c),
        0..=0x1f | 0x7f..=0x9f | 0xad | 0x34f | 0x61c | 0x115f | 0x1160 | 0x17b4 | 0x17b5 | 0x200b | 0x200e | 0x200f
        | 0x2028..=0x202e | 0x2060..=0x206f | 0x3164 | 0xfdd0..=0xfdef | 0xfeff | 0xffa0 | 0xfff0..=0xfffb
        | 0xe0000..=0xe00ff | 0xe01f0..=0xe0fff)
}

fn decoded(pieces: &[&[u8]]) -> String {
    let (mut stream, mut text) = (Utf8Stream::new(), String::new());
    for piece in pieces {
        stream.push(piece, &mut text);
    }
    stream.finish(&mut text);
    text
}

fn render(pieces: &[&str], options: RenderOptions) -> String {
    let (mut renderer, mut out) = (MarkdownRenderer::new(options), Vec::new());
    for piece in pieces {
        renderer.push(piece, &mut out);
    }
    renderer.finish(&mut out);
    String::from_utf8(out).expect("UTF-8")
}

/// Checks that the only control characters are LF, backspace, CR, and the sequences of the renderer.
fn check_terminal(shown: &str, color: bool, is_forbidden: fn(char) -> bool) {
    let mut rest = shown;
    while let Some(at) = rest.find(|c| is_forbidden(c) && !matches!(c, '\n' | '\x08' | '\r')) {
        rest = &rest[at..];
        let sequence = rest.strip_prefix("\x1b[").filter(|_| color);
        let sequence =
            sequence.map(|s| s.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';'));
        let after = sequence.and_then(|s| s.strip_prefix(['m', 'K', 'C']));
        rest = after.unwrap_or_else(|| panic!("{:?} in {shown:?}", rest.chars().next()));
    }
    assert!(color || !shown.contains('\r'), "{shown:?}");
}

fn run(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    assert_eq!(decoded(&pieces(input)), text);
    let shown = prose(&text);
    let line = strict(&text);
    let cut = text_pieces(&text);
    assert_eq!(sink(SinkMode::Prose, &cut), shown);
    assert_eq!(sink(SinkMode::Strict, &cut), line);
    assert_eq!(prose(&shown), shown, "prose is idempotent");
    assert!(
        !shown.contains(|c| is_forbidden(c) && !matches!(c, '\n' | '\t')),
        "{shown:?}"
    );
    assert!(
        !line.contains(is_forbidden) && !line.contains("   "),
        "{line:?}"
    );
    // A stand-in is enclosed in signs that no text has, and without stand-ins strict text stays as it is.
    let mut texts = String::new();
    let mut whole = String::new();
    for piece in strict_pieces(&text) {
        match piece {
            OwnedPiece::Text(part) => {
                assert!(!part.contains(['‹', '›']), "{part:?}");
                texts.push_str(&part);
                whole.push_str(&part);
            }
            OwnedPiece::Mark(mark) => {
                assert!(mark.starts_with('‹') && mark.ends_with('›'), "{mark:?}");
                whole.push_str(&mark);
            }
        }
    }
    assert_eq!(whole, line);
    if whole == text {
        assert_eq!(strict(&line), line);
    }
    let max = Random::of(input).below(80);
    let short = one_line(&text, max);
    assert!(short.chars().count() <= max, "{short:?}");
    let kept = short.strip_suffix('…').unwrap_or(&short);
    assert!(line.starts_with(kept), "{short:?} of {line:?}");
    for marked in [marked_text(&text), marked_name(&text)] {
        assert!(!marked.contains(is_forbidden), "{marked:?}");
    }
    // What the client does with an answer: each piece through the sink, and from there to the renderer.
    let mut safe = TextSink::new(SinkMode::Prose);
    let mut parts = Vec::new();
    let mut add = |piece: SafePiece<'_>| {
        let (SafePiece::Text(part) | SafePiece::Mark(part)) = piece;
        parts.push(part.to_owned());
    };
    for piece in &cut {
        safe.push_with(piece, &mut add);
    }
    safe.finish_with(&mut add);
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let mut random = Random::of(input);
    let (width, color) = (1 + random.below(100), random.below(2) == 0);
    let options = RenderOptions { width, color };
    check_terminal(&render(&parts, options), color, is_forbidden);
    // The renderer itself passes no control character on.
    check_terminal(&render(&cut, options), color, char::is_control);
    shown != text
}
