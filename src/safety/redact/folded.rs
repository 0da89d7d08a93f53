//! Secrets that a program has written over several rows.

use std::borrow::Cow;

use unicode_width::UnicodeWidthStr;

use super::{FoundSecret, Redactor, mark};

impl Redactor {
    /// Replaces the secrets that go on in the next line, or whose name is in the line before, because a program has broken the line at
    /// the edge of a terminal with `columns` columns; [`Redactor::redact`] does not find them, since it takes the line end for the end of
    /// a word. Returns the text, in which the lines of such a secret are one, and the number of secrets that were replaced; if there is
    /// such a secret, all others are replaced too.
    pub fn redact_folded<'t>(&self, text: &'t str, columns: usize) -> (Cow<'t, str>, usize) {
        // The text between a line that was broken at the edge and the next one: nothing, or the blank in the last column, which
        // terminals do not report. A program that breaks lines at blanks leaves out the blank behind a full line.
        let between = |line: &str, is_at_blank: bool| -> Option<&'static str> {
            let short = columns.checked_sub(1)?;
            let is_full = match line.len() >= short {
                true => line.width(),
                false => 0,
            };
            match is_full {
                0 => None,
                width if width == columns => Some(if is_at_blank { " " } else { "" }),
                width if width == short => Some(if is_at_blank { "" } else { " " }),
                _ => None,
            }
        };
        if !text.split('\n').any(|line| between(line, false).is_some()) {
            return (Cow::Borrowed(text), 0);
        }
        let whole = self.find(text);
        let mut secrets = Vec::new();
        for is_at_blank in [false, true] {
            let joined = JoinedLines::new(text, |line| between(line, is_at_blank));
            let found = self.find(&joined.text).into_iter();
            let found = found.filter_map(|secret| {
                Some(FoundSecret {
                    range: joined.place(secret.range.start)?
                        ..joined.place(secret.range.end.checked_sub(1)?)? + 1,
                    kind: secret.kind,
                })
            });
            let is_known = |new: &FoundSecret| {
                let next = whole.partition_point(|known| known.range.start <= new.range.start);
                let known = next.checked_sub(1).and_then(|known| whole.get(known));
                known.is_some_and(|known| new.range.end <= known.range.end)
            };
            secrets.extend(found.filter(|new| !is_known(new)));
        }
        if secrets.is_empty() {
            return (Cow::Borrowed(text), 0);
        }
        secrets.extend(whole);
        // A full line may be a whole one, and the apparent rest of its secret may be the word that names one in the next.
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
        for secret in &secrets {
            out.push_str(text.get(at..secret.range.start).unwrap_or_default());
            out.push_str(&mark(&secret.kind));
            at = secret.range.end;
        }
        out.push_str(text.get(at..).unwrap_or_default());
        (Cow::Owned(out), secrets.len())
    }
}

/// A text without the line ends at the edge.
struct JoinedLines {
    text: String,
    /// Where each line begins in it and in the original text, with what was put before it.
    lines: Vec<(usize, usize)>,
}

impl JoinedLines {
    fn new(text: &str, between: impl Fn(&str) -> Option<&'static str>) -> JoinedLines {
        let mut joined = JoinedLines {
            text: String::with_capacity(text.len()),
            lines: Vec::new(),
        };
        let mut start = 0;
        let mut separator = "";
        for line in text.split('\n') {
            joined.text.push_str(separator);
            joined.lines.push((joined.text.len(), start));
            joined.text.push_str(line);
            start += line.len() + 1;
            separator = between(line).unwrap_or("\n");
        }
        joined
    }

    /// Returns where the byte at `at` is in the original text. A blank that was put between two lines is where the line end was that it
    /// replaces.
    fn place(&self, at: usize) -> Option<usize> {
        let next = self.lines.partition_point(|(start, _)| *start <= at);
        let (start, original) = self.lines.get(next.checked_sub(1)?)?;
        let place = original + (at - start);
        let end = self.lines.get(next).map(|(_, original)| original - 1);
        Some(end.map_or(place, |end| place.min(end)))
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
    fn a_secret_is_found_where_the_line_is_broken_before_it() {
        for (form, value) in [
            ("the command curl -u admin:{} https://x", "lD5RVWfpz8ID"),
            ("DB_PASSWORD={} ./run", "Qm3xTz81LpVbn4"),
            ("{\"password\": \"{}\"} in it", "hunter2x!A"),
            ("Authorization: Bearer {}", "Zk38QhTq0vPz91LmXc7RtYbN"),
            ("machine h login bob password {}", "q7Rk2Zp!9vXw3"),
            ("use postgres://app:{}@db/x", "S3cretPassw0rdXyZ12"),
        ] {
            let line = format!("{} and more", form.replace("{}", value));
            for columns in 8..line.len() {
                // Terminals leave out blanks at the end of a line; programs that break lines at blanks leave out one behind it.
                let rows = folded(&line, columns);
                let rows: Vec<_> = rows.split('\n').map(|row| row.trim_end()).collect();
                let text = rows.join("\n");
                let shown = redacted(&text, columns).0;
                let shown = Redactor::default().redact(&shown).replace('\n', "");
                for part in value.as_bytes().windows(5) {
                    let part = String::from_utf8_lossy(part);
                    assert!(!shown.contains(&*part), "{columns}: {text}\n{shown}");
                }
            }
        }
        let text = "the output of curl -u\nadmin:lD5RVWfpz8ID https://x";
        assert_eq!(redacted(text, 21).1, 1);
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
