//! Text helpers for lists and frames on a terminal: cutting to a width, durations, grouped digits.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Formats a duration: `12 ms`, `1.2 s`, `1 min 5 s`.
pub fn time(ms: u64) -> String {
    match ms / 1000 {
        0 => format!("{ms} ms"),
        s @ 60.. => format!("{} min {} s", s / 60, s % 60),
        s => format!("{s}.{} s", ms % 1000 / 100),
    }
}

/// Cuts `line` to `width` columns, with `…` at the end if anything was cut.
pub fn cut(line: &str, width: usize) -> String {
    if line.width() <= width {
        return line.to_string();
    }
    let mut out = String::new();
    let mut column = 1;
    for cluster in line.graphemes(true) {
        column += cluster.width();
        if column > width {
            break;
        }
        out.push_str(cluster);
    }
    out + "…"
}

/// Returns the last eight characters of a session id, which differ even if two sessions start at the same time.
pub fn short_id(id: &str) -> &str {
    id.len()
        .checked_sub(8)
        .and_then(|at| id.get(at..))
        .unwrap_or(id)
}

/// Replaces tabs by spaces up to the next multiple of eight columns.
pub fn untabbed(line: &str) -> String {
    let mut out = String::new();
    for (n, part) in line.split('\t').enumerate() {
        if n > 0 {
            out.push_str(&" ".repeat(8 - out.width() % 8));
        }
        out.push_str(part);
    }
    out
}

/// Formats a number with a comma between thousands: `1,204`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a number of tokens: `640`, `12.4k`, `1.2M`.
pub fn short_count(count: u64) -> String {
    match count {
        0..1000 => count.to_string(),
        1000..999_950 => format!("{:.1}k", count as f64 / 1e3),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit_that_fits() {
        assert_eq!([time(0), time(12), time(1000)], ["0 ms", "12 ms", "1.0 s"]);
        assert_eq!(time(65_000), "1 min 5 s");
    }
}
