//! Short one-line forms of text from servers, for error messages.

/// Maximum length of a message in characters.
const MAX_MESSAGE_CHARS: usize = 300;

/// Collapses whitespace to single spaces and truncates to 300 characters. Does not remove control characters:
/// the terminal sink does.
pub(super) fn excerpt(text: &str) -> String {
    let mut line = String::new();
    let mut left = MAX_MESSAGE_CHARS;
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        for c in word.chars() {
            if left == 0 {
                line.push('…');
                return line;
            }
            left -= 1;
            line.push(c);
        }
    }
    line
}
