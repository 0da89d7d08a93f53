//! Tables and counts as the admin commands print them.

use unicode_width::UnicodeWidthStr;

use crate::client::text_format::cut;

/// Widest padding of a column; a longer cell shifts the rest of its own row only.
const MAX_COLUMN_WIDTH: usize = 36;

/// Formats rows as lines with aligned columns. The last column is unbounded, or shortened to the remaining
/// columns of `width` by `fit`.
pub fn table<'r, const N: usize>(
    rows: impl Iterator<Item = &'r [String; N]>,
    width: Option<usize>,
    fit: fn(&str, usize) -> String,
) -> Vec<String> {
    let rows: Vec<&[String; N]> = rows.collect();
    let widest = |column: usize| {
        let lengths = rows.iter().map(|r| r[column].chars().count());
        lengths
            .filter(|n| *n <= MAX_COLUMN_WIDTH)
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..N).map(widest).collect();
    let line = |row: &[String; N]| {
        let mut line: String = row[..N - 1]
            .iter()
            .zip(&widths)
            .map(|(c, w)| format!("{c:<w$}  "))
            .collect();
        match width {
            None => line.push_str(&row[N - 1]),
            Some(width) => {
                line.push_str(&fit(&row[N - 1], width.saturating_sub(line.width())));
                line = cut(&line, width);
            }
        }
        format!("{}\n", line.trim_end())
    };
    rows.into_iter().map(line).collect()
}

/// Formats the window and the prices, where they are known: ` · 400k · $1.25 in, $10 out per million`.
pub fn model_facts(context_window: Option<u32>, price: Option<(f64, f64)>) -> String {
    let mut out = String::new();
    match context_window {
        Some(window @ 1_000_000..) => {
            out.push_str(&format!(" · {}M", f64::from(window / 10_000) / 100.0));
        }
        Some(window @ 1000..) => out.push_str(&format!(" · {}k", window / 1000)),
        Some(window) => out.push_str(&format!(" · {window}")),
        None => {}
    }
    match price {
        Some((input, output)) if input + output == 0.0 => out.push_str(" · free"),
        Some((input, output)) => {
            out.push_str(&format!(" · ${input} in, ${output} out per million"));
        }
        None => {}
    }
    out
}

/// Shortens a command line to `available` columns by removing leading directories: the end of a path identifies the server.
pub fn shorten_paths(target: &str, available: usize) -> String {
    let mut words: Vec<String> = target.split(' ').map(String::from).collect();
    let width = |words: &[String]| words.iter().map(|w| w.width() + 1).sum::<usize>();
    // Removes one leading directory: `/a/b/c` becomes `…/b/c`, which becomes `…/c`.
    let shorter = |word: &str| {
        let path = word.strip_prefix("…").unwrap_or(word).strip_prefix('/')?;
        let (_, rest) = path.split_once('/')?;
        Some(format!("…/{rest}"))
    };
    while width(&words) > available + 1 {
        let paths = words.iter_mut().filter_map(|w| Some((shorter(w)?, w)));
        match paths.max_by_key(|(_, w)| w.width()) {
            Some((short, word)) => *word = short,
            None => break,
        }
    }
    cut(&words.join(" "), available)
}

/// Wraps `text` at word boundaries, indented below a table row.
pub fn wrap_indented(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else {
        return format!("  {text}\n");
    };
    let mut out = String::new();
    let mut line = " ".to_string();
    for word in text.split(' ') {
        if line.width() + 1 + word.width() > width && !line.trim().is_empty() {
            out.push_str(&format!("{line}\n"));
            line = "   ".to_string();
        }
        line.push_str(&format!(" {word}"));
    }
    format!("{out}{line}\n")
}

/// Formats a count with its noun: `1 tool`, `2 tools`.
pub fn count(n: usize, noun: &str) -> String {
    match n {
        1 => format!("1 {noun}"),
        n => format!("{n} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortened_commands_keep_the_end_of_paths() {
        let target = "node /home/me/node_modules/server-filesystem/dist/index.js /tmp";
        for (available, shown) in [
            (80, target),
            (44, "node …/server-filesystem/dist/index.js /tmp"),
            (26, "node …/dist/index.js /tmp"),
            (20, "node …/index.js /tmp"),
            (12, "node …/inde…"),
        ] {
            assert_eq!(shorten_paths(target, available), shown);
        }
        assert_eq!(
            shorten_paths("https://mcp.example/a/b", 14),
            "https://mcp.e…"
        );
    }

    #[test]
    fn long_text_wraps_at_word_boundaries() {
        assert_eq!(
            wrap_indented("cannot connect to x: refused", Some(20)),
            "  cannot connect to\n    x: refused\n"
        );
        assert_eq!(wrap_indented("a b", None), "  a b\n");
    }

    #[test]
    fn columns_are_aligned() {
        let row = |a: &str, b: &str| [a.to_string(), b.to_string()];
        let long = "x".repeat(MAX_COLUMN_WIDTH + 1);
        let rows = [row("a", "1"), row("bbb", "2"), row(&long, "3")];
        assert_eq!(
            table(rows.iter(), None, cut),
            ["a    1\n", "bbb  2\n", &format!("{long}  3\n")]
        );
        let rows = [row("a", "one two three"), row("bbb", "日本語日本語")];
        assert_eq!(
            table(rows.iter(), Some(12), cut),
            ["a    one tw…\n", "bbb  日本語…\n"]
        );
    }
}
