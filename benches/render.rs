//! The speed of the Markdown renderer with frames of a few tokens, as from a fast model.
//!
//! `cargo bench --bench render` prints megabytes a second, and the time for an answer of about 20,000 tokens.

use aish::client::render::{MarkdownRenderer, RenderOptions};
use std::hint::black_box;
use std::time::{Duration, Instant};

const PROSE: &str = "The sky is blue because the molecules of the air scatter light of short waves more than light of \
                     long ones, and so some of it reaches us from every side.\n\n";
const MIXED: &str = "## Steps\n\nFirst *look* at the **whole** [page](https://example.com/a), then run `make`:\n\n\
                     - one item of text\n  - nested &amp; *more*\n\n1. first\n2. second\n\n> a quote of some words\n\n";
const CODE: &str = "```rust\nfn main() {\n    let text = \"a string\"; // and a comment\n    return 42;\n}\n```\n\n";
const TABLE: &str = "| name | value | note |\n|---|--:|---|\n| one | 1 | first `x` |\n| two | 22 | **second** |\n\n";
const WIDE: &str = "天空是蓝色的，因为空气分子散射短波光多于长波光。👩‍💻 Небо голубое, потому что воздух рассеивает свет.\n\n";

/// Returns the size of about 100 KB of `document` and the best time of several runs, in frames of `frame` bytes.
fn run(document: &str, frame: usize) -> (usize, Duration) {
    let text = document.repeat(100_000 / document.len() + 1);
    let mut frames = Vec::new();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let mut ends = frame.min(rest.len())..=rest.len();
        let end = ends
            .find(|end| rest.is_char_boundary(*end))
            .unwrap_or(rest.len());
        let (now, later) = rest.split_at(end);
        frames.push(now);
        rest = later;
    }
    let best = (0..20).map(|_| once(&frames)).min().unwrap_or_default();
    (text.len(), best)
}

fn once(frames: &[&str]) -> Duration {
    let start = Instant::now();
    let mut renderer = MarkdownRenderer::new(RenderOptions {
        width: 100,
        color: true,
    });
    let mut out = Vec::new();
    for frame in frames {
        out.clear();
        renderer.push(frame, &mut out);
        black_box(&out);
    }
    renderer.finish(&mut out);
    start.elapsed()
}

fn main() {
    println!(
        "{:<8}{:>14}{:>14}{:>14}",
        "MB/s", "5-byte frames", "100-byte", "4 KB"
    );
    let all = [PROSE, MIXED, CODE, TABLE].concat();
    let documents = [
        ("prose", PROSE),
        ("mixed", MIXED),
        ("code", CODE),
        ("table", TABLE),
        ("wide", WIDE),
        ("all", &all),
    ];
    for (name, document) in documents {
        print!("{name:<8}");
        for frame in [5, 100, 4096] {
            let (bytes, time) = run(document, frame);
            print!("{:>14.0}", bytes as f64 / time.as_secs_f64() / 1e6);
        }
        println!();
    }
    let (bytes, time) = run(&all, 100);
    println!(
        "{bytes} bytes of everything in 100-byte frames: {:.2} ms",
        time.as_secs_f64() * 1e3
    );
}
