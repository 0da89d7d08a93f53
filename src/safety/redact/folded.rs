//! Secrets that a program has written over several rows.

use std::borrow::Cow;
use std::ops::Range;

use unicode_width::UnicodeWidthStr;

use super::{FoundSecret, Redactor, mark};

impl Redactor {
    /// Replaces the secrets that go on in the next line because a program has broken the line at the edge of a terminal with
    /// `columns` columns; [`Redactor::redact`] does not find them, since it takes the line end for the end of a word. Returns the
    /// text, in which the lines of such a secret are one, and the number of secrets that were replaced.
    pub fn redact_folded<'t>(&self, text: &'t str, columns: usize) -> (Cow<'t, str>, usize) {
        // The text between a line that was broken at the edge and the next one: nothing, or the blank in the last column, which
        // terminals do not report.
        let between = |line: &str| -> Option<&'static str> {
            match columns.checked_sub(1) {
                Some(short) if line.len() >= short => match line.width() {
                    width if width == columns => Some(""),
                    width if width == short && width > 0 => Some(" "),
                    _ => None,
                },
                _ => None,
            }
        };
        if !text.split('\n').any(|line| between(line).is_some()) {
            return (Cow::Borrowed(text), 0);
        }
        // The text without the line ends at the edge, and the places of its lines in it.
        let mut joined = String::with_capacity(text.len());
        let mut lines: Vec<Range<usize>> = Vec::new();
        let mut folds = Vec::new();
        for line in text.split('\n') {
            if let Some(last) = lines.last().and_then(|last| joined.get(last.clone())) {
                let separator = between(last);
                folds.extend(separator.map(|_| joined.len()));
                joined.push_str(separator.unwrap_or("\n"));
            }
            let start = joined.len();
            joined.push_str(line);
            lines.push(start..joined.len());
        }
        let mut folds = folds.into_iter();
        // Both are in order.
        let mut fold = folds.next();
        let mut secrets = self.find(&joined);
        secrets.retain(|secret| {
            while fold.is_some_and(|at| at <= secret.range.start) {
                fold = folds.next();
            }
            fold.is_some_and(|at| at < secret.range.end)
        });
        if secrets.is_empty() {
            return (Cow::Borrowed(text), 0);
        }
        // A full line may be a whole one, and the apparent rest of its secret may be the word that names one in the next.
        let mut starts = Vec::with_capacity(lines.len());
        let mut start = 0;
        for line in &lines {
            starts.push(start);
            start += line.len() + 1;
        }
        let place = |at: usize| {
            let line = starts
                .partition_point(|start| *start <= at)
                .checked_sub(1)?;
            Some(lines.get(line)?.start + (at - starts.get(line)?))
        };
        secrets.extend(self.find(text).into_iter().filter_map(|secret| {
            let end = secret.range.end.checked_sub(1)?;
            Some(FoundSecret {
                range: place(secret.range.start)?..place(end)? + 1,
                kind: secret.kind,
            })
        }));
        secrets.sort_by_key(|secret| secret.range.start);
        secrets.dedup_by(|next, secret| {
            let overlaps = next.range.start < secret.range.end;
            if overlaps {
                secret.range.end = secret.range.end.max(next.range.end);
            }
            overlaps
        });
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        let mut left = secrets.iter().peekable();
        let last = lines.len();
        for (number, line) in lines.into_iter().enumerate() {
            // A line in which a secret ends continues after its mark.
            at = at.max(line.start);
            while let Some(secret) = left.next_if(|secret| secret.range.start < line.end) {
                out.push_str(joined.get(at..secret.range.start).unwrap_or_default());
                out.push_str(&mark(&secret.kind));
                at = secret.range.end;
            }
            if at <= line.end {
                out.push_str(joined.get(at..line.end).unwrap_or_default());
                at = line.end;
                out.extend((number + 1 < last).then_some('\n'));
            }
        }
        (Cow::Owned(out), secrets.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    const MARK: &str = "[REDACTED:github-token]";

    fn redacted(text: &str, columns: usize) -> (String, usize) {
        let (text, count) = Redactor::default().redact_folded(text, columns);
        (text.into_owned(), count)
    }

    /// Breaks a text at the edge of a terminal.
    fn folded(text: &str, columns: usize) -> String {
        let mut out = String::new();
        for (n, c) in text.chars().enumerate() {
            if n > 0 && n % columns == 0 {
                out.push('\n');
            }
            out.push(c);
        }
        out
    }

    #[test]
    fn a_secret_is_found_wherever_it_is_broken() {
        for columns in 3..60 {
            let text = format!(
                "first line\n{}\nlast line",
                folded(&format!("ä x {TOKEN}, y"), columns)
            );
            let (shown, count) = redacted(&text, columns);
            let is_broken = !text.contains(TOKEN);
            assert_eq!(count, usize::from(is_broken), "{columns}: {shown}");
            assert_eq!(shown.matches(MARK).count(), count, "{columns}: {shown}");
            // Every other character is where it was.
            assert!(shown.starts_with("first line\n") && shown.ends_with("\nlast line"));
            let kept = shown.replace(MARK, TOKEN).replace('\n', "");
            assert_eq!(kept, text.replace('\n', ""), "{columns}");
        }
    }

    #[test]
    fn several_secrets_and_their_neighbours_keep_their_lines() {
        let text = format!(
            "{}\n{}\nrest",
            folded(&format!("a {TOKEN} {TOKEN}"), 30),
            "z".repeat(30)
        );
        let wanted = format!("a {MARK} {MARK}\n{}\nrest", "z".repeat(30));
        assert_eq!(redacted(&text, 30), (wanted, 2));
    }

    #[test]
    fn lines_that_are_not_full_stay() {
        let text = format!("{}\nshort\n{}", folded(TOKEN, 20), "x".repeat(21));
        for columns in [0, 19, 23] {
            assert_eq!(redacted(&text, columns), (text.clone(), 0), "{columns}");
        }
    }

    #[test]
    fn a_full_line_with_a_secret_does_not_hide_that_of_the_next_one() {
        let full = format!("SECRET_KEY_BASE={}", "0f1e2d3c4b5a6978".repeat(4));
        for next in [
            "curl -u admin:0emnux".to_owned() + "lD5RVWfpz8ID https://x",
            "DB_PASSWORD=Qm3xTz81".to_owned() + "LpVbn4",
            format!("password: {TOKEN}"),
        ] {
            let text = format!("{full}\n{next}\nlast");
            let shown = Redactor::default()
                .redact(&redacted(&text, full.len()).0)
                .into_owned();
            assert!(
                !shown.contains("lD5RVW") && !shown.contains("LpVbn4"),
                "{shown}"
            );
            assert!(
                !shown.contains(TOKEN) && shown.ends_with("\nlast"),
                "{shown}"
            );
        }
    }

    #[test]
    fn a_blank_at_the_edge_is_lost() {
        let body = format!("{}\n", "MIIEpAIBAAKCAQEA".repeat(4)).repeat(3);
        let key = format!("PRIVATE KEY-----\n{body}-----END RSA PRIVATE KEY-----");
        let text = format!("a key: -----BEGIN RSA\n{key}\nlast line");
        let wanted = "a key: [REDACTED:private-key]\nlast line".to_owned();
        assert_eq!(redacted(&text, 22), (wanted, 1));
    }

    #[test]
    fn a_private_key_whose_first_line_is_broken_is_removed_to_its_end() {
        let first = folded("a key: -----BEGIN RSA PRIVATE KEY-----", 30);
        let body = format!("{}\n", "MIIEpAIBAAKCAQEA".repeat(4)).repeat(3);
        let text = format!("{first}\n{body}-----END RSA PRIVATE KEY-----, rest\nlast line");
        let wanted = "a key: [REDACTED:private-key], rest\nlast line".to_owned();
        assert_eq!(redacted(&text, 30), (wanted, 1));
    }
}
