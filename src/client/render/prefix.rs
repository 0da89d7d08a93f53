//! Line prefixes: bars of quotes, list markers, and indentation.

use super::block::{BlockContainer, ListMarker};
use super::style::TextStyle;

/// Prefix of a line.
#[derive(Default)]
pub(super) struct LinePrefix {
    pub(super) bytes: Vec<u8>,
    pub(super) cols: usize,
    /// Markers that do not fit in the prefix and are written as text.
    pub(super) late: String,
}

impl LinePrefix {
    /// Builds the prefix for lines within `stack`, with markers from the container `fresh` on. The prefix takes at most half
    /// of the width; deeper containers are not indented further.
    pub(super) fn new(stack: &[BlockContainer], fresh: usize, width: usize, color: bool) -> Self {
        let mut prefix = Self::default();
        let (mut full, mut bullets) = (false, 0);
        for (n, container) in stack.iter().enumerate() {
            let BlockContainer::Item { marker, task, .. } = container else {
                full |= prefix.cols + 2 > width / 2;
                if !full {
                    prefix.bar(color);
                }
                continue;
            };
            let mut text = match marker {
                ListMarker::Bullet => ["• ", "◦ "][bullets % 2].to_owned(),
                ListMarker::Ordered(number, delimiter) => format!("{number}{delimiter} "),
            };
            bullets += usize::from(*marker == ListMarker::Bullet);
            text.push_str(task.map_or("", |done| if done { "[x] " } else { "[ ] " }));
            let cols = text.chars().count();
            full |= prefix.cols + cols > width / 2;
            match (full, n >= fresh) {
                (true, true) => prefix.late.push_str(&text),
                (true, false) => {}
                (false, true) => prefix.bytes.extend_from_slice(text.as_bytes()),
                (false, false) => prefix.bytes.resize(prefix.bytes.len() + cols, b' '),
            }
            if !full {
                prefix.cols += cols;
            }
        }
        prefix
    }

    fn bar(&mut self, color: bool) {
        if color {
            TextStyle::DIM.write(&mut self.bytes);
        }
        self.bytes.extend_from_slice("│".as_bytes());
        if color {
            TextStyle::PLAIN.write(&mut self.bytes);
        }
        self.bytes.push(b' ');
        self.cols += 2;
    }
}
