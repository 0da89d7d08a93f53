use super::*;
use proptest::prelude::*;
use std::num::NonZero;

/// Renders pieces in sequence and returns the bytes.
fn render_pieces<'a>(
    pieces: impl IntoIterator<Item = &'a str>,
    width: usize,
    color: bool,
) -> Vec<u8> {
    let mut renderer = MarkdownRenderer::new(RenderOptions { width, color });
    let mut all = Vec::new();
    for piece in pieces {
        let mut out = Vec::new();
        renderer.push(piece, &mut out);
        all.append(&mut out);
    }
    let mut out = Vec::new();
    renderer.finish(&mut out);
    all.append(&mut out);
    all
}

/// Returns the bytes as a terminal driver would pass them on.
fn terminal(bytes: &[u8], width: usize) -> vt100::Parser {
    let rows = bytes.iter().filter(|b| **b == b'\n').count() + bytes.len() / width + 2;
    let size = |n: usize| NonZero::new(u16::try_from(n.min(5000)).unwrap()).unwrap();
    let mut parser = vt100::Parser::new(size(rows), size(width), 0);
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        parser.process(line);
        if line.ends_with(b"\n") {
            parser.process(b"\r");
        }
    }
    parser
}

/// Returns every screen cell with its attributes.
fn cells(bytes: &[u8], width: usize) -> String {
    terminal(bytes, width).screen().contents_formatted()
}

/// Returns the visible text. Without colour, an erased word leaves spaces behind.
fn rendered(bytes: &[u8], width: usize, color: bool) -> String {
    if color {
        return cells(bytes, width);
    }
    let parser = terminal(bytes, width);
    let rows = parser.screen().rows(0, u16::try_from(width).unwrap());
    rows.map(|row| row.trim_end().to_owned() + "\n")
        .collect::<String>()
        .trim_end()
        .to_owned()
}

fn screen(markdown: &str, width: usize) -> String {
    let bytes = render_pieces([markdown], width, true);
    let parser = terminal(&bytes, width);
    let rows: Vec<String> = parser
        .screen()
        .rows(0, u16::try_from(width).unwrap())
        .collect();
    rows.join("\n").trim_end().to_owned()
}

/// Returns the output with colour.
fn colored(markdown: &str) -> String {
    String::from_utf8(render_pieces([markdown], 80, true)).unwrap()
}

/// Returns the output without colour.
fn plain(markdown: &str) -> String {
    String::from_utf8(render_pieces([markdown], 80, false)).unwrap()
}

/// Renders frame by frame and returns the output of each.
fn frames(frames: &[&str], width: usize) -> Vec<String> {
    let mut renderer = MarkdownRenderer::new(RenderOptions { width, color: true });
    let mut render = |frame: &&str| {
        let mut out = Vec::new();
        renderer.push(frame, &mut out);
        String::from_utf8(out).unwrap()
    };
    frames.iter().map(&mut render).collect()
}

const SAMPLE: &str = include_str!("tests/sample.md");

mod golden {
    use super::*;

    #[test]
    fn sample_at_80() {
        assert_eq!(
            screen(SAMPLE, 80),
            include_str!("tests/sample.80.txt").trim_end()
        );
    }

    #[test]
    fn sample_at_20() {
        assert_eq!(
            screen(SAMPLE, 20),
            include_str!("tests/sample.20.txt").trim_end()
        );
    }

    #[test]
    fn width_of_one_column_shows_every_letter() {
        let one = |markdown: &str| screen(markdown, 1).replace('\n', "");
        assert_eq!(one("Hello *you*"), "Helloyou");
        assert_eq!(one("- ab\n- c\n\n1. d"), "•ab•c1.d");
        assert_eq!(one("> quote"), "quote");
        assert_eq!(one("```sh\nab\n```"), "─── shab───");
        assert_eq!(one("| a | b |\n|---|---|\n| 1 | 2 |"), "a:1b:2");
    }

    #[test]
    fn headings() {
        assert_eq!(colored("# One\ntext"), "\x1b[0;1;4;35mOne\x1b[0m\ntext\n");
        assert_eq!(colored("### Three ###"), "\x1b[0;1;35mThree\x1b[0m\n");
        assert_eq!(plain("## Two #"), "## Two\n");
        assert_eq!(plain("# C# is a language"), "# C# is a language\n");
        assert_eq!(
            plain("#hashtag\n\n####### seven"),
            "#hashtag\n\n####### seven\n"
        );
    }

    #[test]
    fn emphasis() {
        let short = |markdown| colored(markdown).replace("\x1b[0", "[");
        assert_eq!(
            short("*a* **b** ***c*** ~~d~~ __e__ _f_"),
            "[;3ma [;1mb [;1;3mc [;9md[;1m e [;3mf[m\n"
        );
        assert_eq!(short("**a *b* c**"), "[;1ma [;1;3mb [;1mc[m\n");
        assert_eq!(short("un**frigging**real"), "un[;1mfrigging[mreal\n");
        assert_eq!(short("**「你」**好"), "[;1m「你」[m好\n");
        assert_eq!(short("*a\nb*"), "[;3ma b[m\n");
    }

    #[test]
    fn unmatched_markers_are_text() {
        for text in [
            "2 * 3 * 4",
            "snake_case_name",
            "a ** b",
            "the *args of f",
            "5*3",
            "f(**kw)",
            "2**10 bytes",
            "x *****",
            "~5 ~ 6",
            "a lone ` tick",
            "[brackets] and [more](",
            "[a](b c)",
            "a < b > c",
            "AT&T &unknown; &#27;",
            "wow!",
            "\\n and \\",
            "<hr> <b>x</b>",
        ] {
            assert_eq!(colored(text), format!("{text}\n"));
        }
    }

    #[test]
    fn code_spans_keep_markers_and_spaces() {
        assert_eq!(
            colored("a `**b**  _c_` d"),
            "a \x1b[0;36m**b**  _c_ \x1b[0md\n"
        );
        assert_eq!(colored("`` a`b ``"), "\x1b[0;36ma`b\x1b[0m\n");
        assert_eq!(
            plain("run `ls -l` ~~not~~ *now*"),
            "run `ls -l` ~~not~~ now\n"
        );
    }

    #[test]
    fn code_spans_longer_than_the_window() {
        let long = "x ".repeat(400);
        let long = long.trim_end();
        let shown = render_pieces([format!("`{long}` end").as_str()], 2000, true);
        assert_eq!(
            String::from_utf8(shown).unwrap(),
            format!("\x1b[0;36m{long} \x1b[0mend\n")
        );
    }

    #[test]
    fn links() {
        assert_eq!(
            plain("[a *b*](http://x/y_(z)) end"),
            "a b (http://x/y_(z)) end\n"
        );
        assert_eq!(plain("[a](<b c> 'title')"), "a (b c)\n");
        assert_eq!(
            plain("[http://x](http://x) <http://y> <mailto:me@x>"),
            "http://x http://y mailto:me@x\n"
        );
        assert_eq!(
            plain("[![img](i.png)](http://x)"),
            "img (i.png) (http://x)\n"
        );
        assert_eq!(colored("[a](b)"), "\x1b[0;4ma\x1b[0;2m (b)\x1b[0m\n");
    }

    #[test]
    fn escapes_entities_and_breaks() {
        assert_eq!(
            plain("\\*a\\* &lt;b&gt; &#x4e2d;\\\nc  \nd"),
            "*a* <b> 中\nc\nd\n"
        );
        assert_eq!(plain("one\ntwo\n\n\n\nthree"), "one two\n\nthree\n");
    }

    #[test]
    fn lists() {
        assert_eq!(
            plain("- a\n- b\n  c\n\n  d\n- [X] e"),
            "• a\n• b c\n\n  d\n• [x] e\n"
        );
        assert_eq!(plain("1. a\n1. b\n7) c\n8. d"), "1. a\n2. b\n7) c\n8. d\n");
        assert_eq!(
            plain("* a\n    * b\n        * c\n* d"),
            "• a\n  ◦ b\n    • c\n• d\n"
        );
        assert_eq!(plain("- - a\n-\n- b"), "• ◦ a\n• \n• b\n");
        assert_eq!(
            plain("In\n2. is no list\n1. is one"),
            "In 2. is no list\n1. is one\n"
        );
        assert_eq!(plain("- a\nlazy\n\nafter"), "• a lazy\n\nafter\n");
        assert_eq!(plain("-no\n1.no\n+1"), "-no 1.no +1\n");
    }

    #[test]
    fn quotes() {
        assert_eq!(plain("> a\nb\n> > c\n\nd"), "│ a b\n│ │ c\n\nd\n");
        assert_eq!(plain("> - a\n>\n>   b"), "│ • a\n│\n│   b\n");
        assert_eq!(
            plain("> ```\n> code\nafter"),
            "│ ───\n│ code\n│ ───\nafter\n"
        );
    }

    #[test]
    fn rules_and_underlines() {
        let rule = "─".repeat(80);
        assert_eq!(
            plain("a\n\n---\n* * *\n___"),
            format!("a\n\n{rule}\n{rule}\n{rule}\n")
        );
        assert_eq!(plain("a\n==="), format!("a\n{}\n", "═".repeat(80)));
        assert_eq!(plain("--\n\n**"), "--\n\n**\n");
    }

    #[test]
    fn code_blocks() {
        assert_eq!(
            plain("```sh -x\nls\n\n\tx\n```\nafter"),
            "─── sh\nls\n\n    x\n───\nafter\n"
        );
        assert_eq!(plain("~~~~\n```\n~~~\n~~~~"), "───\n```\n~~~\n───\n");
        assert_eq!(
            plain("- a\n  ```\n  in\nunder\n  ```\n- b"),
            "• a\n  ───\n  in\n  under\n  ───\n• b\n"
        );
        assert_eq!(plain("```\nopen"), "───\nopen\n───\n");
        assert_eq!(plain("```a`b```"), "`a`b`\n");
        assert_eq!(
            plain("a\n\n    b\n      c\n\nd"),
            "a\n\n    b\n      c\n\nd\n"
        );
    }

    #[test]
    fn code_is_coloured() {
        let body = |lang: &str, code: &str| {
            let all = colored(&format!("```{lang}\n{code}\n```"));
            let lines: Vec<&str> = all.lines().collect();
            lines[1..lines.len() - 1].join("\n").replace("\x1b[0", "[")
        };
        assert_eq!(
            body("rust", "let c = '\"'; // x"),
            "[;35mlet[m c = [;32m'\"'[m; [;2m// x[m"
        );
        assert_eq!(
            body("py", "s = '''a\nb''' + 1.5"),
            "s = [;32m'''a[m\n[;32mb'''[m + [;36m1.5[m"
        );
        assert_eq!(
            body("sh", "echo \"$#\" a#b # c"),
            "[;35mecho[m [;32m\"$#\"[m a#b [;2m# c[m"
        );
        assert_eq!(
            body("sql", "SELECT 'it' -- x"),
            "[;35mSELECT[m [;32m'it'[m [;2m-- x[m"
        );
        assert_eq!(
            body("diff", "+a\n-b\n@@ c\n d"),
            "[;32m+a[m\n[;31m-b[m\n[;36m@@ c[m\n d"
        );
        assert_eq!(body("C", "a /* b\nc */ d"), "a [;2m/* b[m\n[;2mc */[m d");
        assert_eq!(
            body("json", "{\"a\\\"b\": true}"),
            "{[;32m\"a\\\"b\"[m: [;35mtrue[m}"
        );
        assert_eq!(body("nosuch", "let x"), "let x");
    }

    #[test]
    fn tables() {
        assert_eq!(
            plain("| a | bb |\n|--:|:--|\n| 1 | 2 |\n| `x\\|y` |\n\nend"),
            "    a │ bb\n──────┼────\n    1 │ 2\n`x|y` │ \n\nend\n"
        );
        assert_eq!(plain("| a | b |\n|---|\n"), "| a | b | |---|\n");
        assert_eq!(
            plain("text\n| a |\n|---|\n| b |\nmore"),
            "text\na\n───\nb\nmore\n"
        );
    }

    #[test]
    fn long_table_is_shown_row_by_row() {
        let mut renderer = MarkdownRenderer::new(RenderOptions {
            width: 80,
            color: false,
        });
        let mut out = Vec::new();
        renderer.push("| a | b |\n|---|---|\n", &mut out);
        for n in 0..100_000 {
            renderer.push(&format!("| {n} | x |\n"), &mut out);
        }
        let before = out.len();
        renderer.push("| last | row |\n", &mut out);
        assert_eq!(&out[before..], "las │ row\nt   │ \n".as_bytes());
    }
}

mod streaming {
    use super::*;

    #[test]
    fn text_is_written_in_the_frame_it_arrives_in() {
        assert_eq!(
            frames(&["Hel", "lo wor", "ld, it", " is"], 80),
            ["Hel", "lo wor", "ld, it", " is"]
        );
        assert_eq!(frames(&["**Im", "portant"], 80), ["\x1b[0;1mIm", "portant"]);
        assert_eq!(frames(&["- It", "em"], 80), ["• It", "em"]);
        assert_eq!(frames(&["## He", "ad"], 80), ["\x1b[0;1;35mHe", "ad"]);
        assert_eq!(
            frames(&["```\nco", "de"], 80),
            ["\x1b[0;2m───\x1b[0m\nco", "de"]
        );
    }

    #[test]
    fn word_past_the_margin_moves_to_the_next_line() {
        assert_eq!(
            frames(&["aaa b", "bbb cc"], 6),
            ["aaa b", "\x08\x08\x1b[K\nbbbb\ncc"]
        );
        assert_eq!(
            frames(&["aaa bb", "bb"], 6),
            ["aaa bb", "\r\x1b[3C\x1b[K\nbbbb"]
        );
        assert_eq!(
            frames(&["> aa b", "bb"], 7)[1],
            "\x08\x08\x1b[K\n\x1b[0;2m│\x1b[0m bbb"
        );
        assert_eq!(
            frames(&["aa **b", "b**b"], 5),
            [
                "aa \x1b[0;1mb",
                "\x1b[0m\x08\x08\x1b[K\n\x1b[0;1mbb\x1b[0mb"
            ]
        );
        // Within one frame nothing has to be erased.
        assert_eq!(
            frames(&["aa b**b**b"], 5),
            ["aa"].map(|s| format!("{s}\nb\x1b[0;1mb\x1b[0mb"))
        );
    }

    #[test]
    fn sample_renders_the_same_for_every_split() {
        for width in [80, 20, 5, 1] {
            let whole = cells(&render_pieces([SAMPLE], width, true), width);
            for (at, _) in SAMPLE.char_indices() {
                let (a, b) = SAMPLE.split_at(at);
                let split = cells(&render_pieces([a, b], width, true), width);
                assert!(split == whole, "width {width}, split after {a:?}");
            }
        }
    }

    #[test]
    fn undecided_text_waits_only_until_decided() {
        assert_eq!(
            frames(&["a *", "b", "*", " c"], 80),
            ["a", "", "", " \x1b[0;3mb \x1b[0mc"]
        );
        assert_eq!(frames(&["a [b", "](", "c)"], 80)[..2], ["a", ""]);
        assert_eq!(frames(&["a [b", "] c"], 80), ["a", " [b] c"]);
        assert_eq!(frames(&["| a", " |\n", "x"], 80), ["", "", "| a | x"]);
        // A marker that is never closed waits no longer than its window.
        let long = "x".repeat(300);
        assert!(frames(&["a *b ", &long], 80)[1].contains("xxx"));
        let long = "x".repeat(1100);
        assert!(frames(&["a [b ", &long], 80)[1].contains("[b\nxxx"));
    }

    #[test]
    fn grapheme_clusters_are_never_split() {
        for cluster in ["👩‍💻", "🇨🇭", "❤️", "👍🏽", "e\u{301}", "1️⃣", "각", "न्दी"]
        {
            assert_eq!(
                width::display_width(cluster),
                cluster_columns(cluster),
                "{cluster}"
            );
            for width in 1..8 {
                let text = format!("> ab {cluster}{cluster}c{cluster} {cluster}");
                let shown =
                    String::from_utf8(render_pieces([text.as_str()], width, false)).unwrap();
                let pieces: Vec<String> = text.chars().map(String::from).collect();
                let cut = render_pieces(pieces.iter().map(String::as_str), width, false);
                let cut = String::from_utf8(cut).unwrap();
                for shown in [&shown, &cut] {
                    assert!(shown.matches(cluster).count() >= 4, "{shown:?} at {width}");
                }
                if width >= 5 && !shown.contains('\x08') {
                    assert!(
                        shown
                            .lines()
                            .all(|line| width::display_width(line) <= width),
                        "{shown:?} at {width}"
                    );
                }
            }
        }
    }

    fn cluster_columns(cluster: &str) -> usize {
        if matches!(cluster, "e\u{301}") { 1 } else { 2 }
    }

    #[test]
    fn resize_applies_from_the_next_line() {
        let mut renderer = MarkdownRenderer::new(RenderOptions {
            width: 20,
            color: false,
        });
        let mut out = Vec::new();
        renderer.push("- aaaa bbbb ccc", &mut out);
        renderer.resize(8);
        renderer.push("c dddd eeee ffff", &mut out);
        renderer.resize(1);
        renderer.push(" g hh", &mut out);
        renderer.finish(&mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "• aaaa bbbb cccc\n  dddd\n  eeee\n  ffff\ng\nhh\n"
        );
    }

    #[test]
    fn finish_ends_the_line_and_resets() {
        let mut renderer = MarkdownRenderer::new(RenderOptions {
            width: 20,
            color: true,
        });
        let mut out = Vec::new();
        renderer.finish(&mut out);
        assert!(out.is_empty() && renderer.at_line_start());
        renderer.push("> - **a", &mut out);
        assert!(!renderer.at_line_start());
        renderer.finish(&mut out);
        assert!(renderer.at_line_start());
        assert!(
            out.ends_with(b"\x1b[0m\n"),
            "{:?}",
            String::from_utf8_lossy(&out)
        );
        out.clear();
        renderer.push("b", &mut out);
        renderer.finish(&mut out);
        assert_eq!(out, b"b\n");
    }

    #[test]
    fn memory_is_bounded() {
        for piece in [
            "x",
            "x ",
            "*",
            "`",
            "[",
            "> ",
            "- ",
            "|",
            "| a |\n| - |\n",
            "#",
            " ",
            "\u{301}",
            "👩\u{200d}",
            "```\nx",
            "&",
            "\\",
            "<http://",
            "1. ",
            "~~~ x",
            "=\n",
        ] {
            let mut renderer = MarkdownRenderer::new(RenderOptions {
                width: 80,
                color: true,
            });
            let text = piece.repeat(1 << 15 >> piece.len().ilog2());
            let mut out = Vec::new();
            for _ in 0..4 {
                out.clear();
                renderer.push(&text, &mut out);
                assert!(
                    renderer.pending.capacity() < text.len() + MAX_ROW_BYTES * 2,
                    "{piece:?}"
                );
                assert!(
                    renderer.pending.len() <= MAX_ROW_BYTES,
                    "{piece:?} holds {}",
                    renderer.pending.len()
                );
                assert!(renderer.stack.len() <= 32, "{piece:?}");
            }
            renderer.finish(&mut out);
        }
    }

    /// Fragments of documents, and text that may change meaning next to them.
    fn document() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "word",
            "a",
            " ",
            "  ",
            "\n",
            "\n\n",
            "*",
            "**",
            "***",
            "_",
            "__",
            "~~",
            "`",
            "``",
            "```",
            "```rust\n",
            "~~~\n",
            "[",
            "](",
            ")",
            "![",
            "<",
            "<http://x>",
            "&amp;",
            "&",
            "\\",
            "#",
            "# ",
            "- ",
            "-",
            "---\n",
            "1. ",
            "23",
            "> ",
            ">",
            "|",
            "| a | b |\n",
            "|---|:-:|\n",
            "    ",
            "\t",
            "中文",
            "。",
            "é",
            "e\u{301}",
            "verylongwordthatwillnotfit",
            "let s = \"x",
            "/* c",
            "// d",
            "===\n",
            "[ ] ",
            "+ ",
        ]);
        prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_split_renders_the_same(text in document(), width in 1usize..60, color: bool, cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).filter(|cut| text.is_char_boundary(*cut)).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut last = 0;
            for cut in cuts {
                pieces.push(&text[last..cut]);
                last = cut;
            }
            pieces.push(&text[last..]);
            let whole = render_pieces([text.as_str()], width, color);
            let split = render_pieces(pieces.iter().copied(), width, color);
            prop_assert_eq!(rendered(&whole, width, color), rendered(&split, width, color));
            let chars: Vec<String> = text.chars().map(String::from).collect();
            let single = render_pieces(chars.iter().map(String::as_str), width, color);
            prop_assert_eq!(rendered(&whole, width, color), rendered(&single, width, color));
        }

        #[test]
        fn never_panics_and_emits_no_control_bytes(text in any::<String>(), doc in document(), width in 0usize..=120, color: bool) {
            for text in [format!("{text}{doc}"), format!("{doc}{text}")] {
                let chars: Vec<String> = text.chars().map(String::from).collect();
                for bytes in [render_pieces([text.as_str()], width, color), render_pieces(chars.iter().map(String::as_str), width, color)] {
                    let shown = String::from_utf8(bytes).unwrap();
                    prop_assert!(has_only_documented_sequences(&shown), "{:?}", shown);
                    prop_assert!(shown.is_empty() || shown.ends_with('\n'));
                    prop_assert!(color || !shown.contains(['\x1b', '\r']));
                }
            }
        }

        #[test]
        fn the_first_word_never_waits(word in "[A-Za-z]{1,12}", before in "(para\n\n|# h\n|- i\n|> q\n\n)?") {
            let mut renderer = MarkdownRenderer::new(RenderOptions { width: 80, color: true });
            renderer.push(&before, &mut Vec::new());
            let mut out = Vec::new();
            renderer.push(&word, &mut out);
            prop_assert!(String::from_utf8(out).unwrap().ends_with(&word));
        }
    }

    /// Whether the output contains only text, LF and the documented sequences.
    fn has_only_documented_sequences(shown: &str) -> bool {
        let mut rest = shown;
        while let Some(at) = rest.find(|c: char| c.is_control() && c != '\n') {
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix(['\x08', '\r']) {
                rest = after;
                continue;
            }
            let Some(body) = rest.strip_prefix("\x1b[") else {
                return false;
            };
            let len = body
                .find(|c: char| !c.is_ascii_digit() && c != ';')
                .unwrap_or(body.len());
            if !body[len..].starts_with(['m', 'K', 'C']) {
                return false;
            }
            rest = &body[len + 1..];
        }
        true
    }
}

#[test]
fn formulas_stay_as_they_are() {
    for text in [
        r"Euler: \(e^{i*\pi} + a_b*c_d = 0\).",
        r"so \[ x_1 * y_2 \, * z \] holds",
        r"$$\sum_{i=1}^n *i* = `x`$$",
    ] {
        assert_eq!(shown(text), text);
    }
    assert_eq!(shown("$$\n\\sum *i*\n$$\nnext"), "$$\n\\sum *i*\n$$ next");
    // Not formulas: escapes, process ids, money.
    assert_eq!(shown(r"\[x\](y) and \(a"), r"\[x\](y) and (a");
    assert_eq!(shown("echo $$ and $5 *for* $6$"), "echo $$ and $5 for $6$");
}

#[test]
fn footnotes_line_breaks_and_keys_are_shown_as_meant() {
    assert_eq!(
        shown("a[^1] b[^n]\n\n[^1]: *One*\n[^n]: two\n"),
        "a[^1] b[^n]\n\n[^1]: One\n[^n]: two"
    );
    assert_eq!(shown("a<br>b<br/>c<br />d<brx>"), "a\nb\nc\nd<brx>");
    assert_eq!(
        shown("press <kbd>Ctrl</kbd>+<kbd>*</kbd> <kbd>"),
        "press `Ctrl`+`*` <kbd>"
    );
    assert_eq!(
        shown("| a | b |\n|---|---|\n| x<br>y | `<br>` |\n"),
        "a   │ b\n────┼───────\nx y │ `<br>`"
    );
    assert_eq!(shown("H<sub>2</sub>O"), "H<sub>2</sub>O");
}

/// Returns the output without colour and without the line end.
fn shown(markdown: &str) -> String {
    plain(markdown).trim_end().to_owned()
}
