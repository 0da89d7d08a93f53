//! The line of keys below a question, broken where the terminal is narrow.

use unicode_width::UnicodeWidthStr;

use super::PromptKey;

/// Joins labels, each ending with a blank, and breaks the line where the next one does not fit. A label that is wider than the
/// terminal is broken between its words.
pub fn broken(labels: &[String], width: usize) -> String {
    let mut out = String::new();
    let mut column = 1;
    for label in labels {
        let room = width.saturating_sub(2);
        if column > 2 && column + 1 + label.trim_end().width() > room {
            out.push_str("\n ");
            column = 1;
        }
        out.push(' ');
        column += 1;
        for word in label.split_inclusive(' ') {
            if column > 2 && column + word.trim_end().width() > width {
                out.push_str("\n  ");
                column = 2;
            }
            out.push_str(word);
            column += word.width();
        }
    }
    out
}

/// Says why a key has no effect at a question with help. `is_typed` says that the answer is the word "yes".
pub fn key_fault(key: PromptKey, is_typed: bool) -> &'static str {
    match key {
        PromptKey::Pasted if is_typed => "type yes, it must not be pasted",
        _ => "not one of the keys; press ? for help",
    }
}

/// Returns the column where the last line of the keys ends.
pub fn end_column(line: &str) -> usize {
    let last = line.rsplit('\n').next().unwrap_or_default();
    match last.rsplit_once('└') {
        Some((_, keys)) => 1 + keys.trim_start_matches("\x1b[0m").width(),
        None => last.width(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_keys_is_broken_between_keys_and_long_keys_between_words() {
        let labels = ["[y] yes ", "[r] output of your commands ", "[n] no "].map(str::to_owned);
        assert_eq!(
            broken(&labels, 60),
            " [y] yes  [r] output of your commands  [n] no "
        );
        assert_eq!(
            broken(&labels, 32),
            " [y] yes \n  [r] output of your commands \n  [n] no "
        );
        let narrow = broken(&labels, 20);
        assert_eq!(
            narrow,
            " [y] yes \n  [r] output of your \n  commands  [n] no "
        );
        assert!(narrow.lines().all(|line| line.trim_end().width() <= 20));
    }
}
