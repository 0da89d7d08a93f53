//! What a line starts with: the bars of quotes, the markers of list items, or the columns they take.

use super::block::{Container, Marker};
use super::style::Style;

/// The start of a line.
#[derive(Default)]
pub(super) struct Prefix {
    pub(super) bytes: Vec<u8>,
    pub(super) cols: usize,
    /// Markers that found no room and are written like text.
    pub(super) late: String,
}

impl Prefix {
    /// The start of a line within these containers, with the markers of those from `fresh` on. It takes half of the
    /// width at most; what is nested deeper is not indented further.
    pub(super) fn new(stack: &[Container], fresh: usize, width: usize, color: bool) -> Self {
        let mut prefix = Self::default();
        let (mut full, mut bullets) = (false, 0);
        for (n, container) in stack.iter().enumerate() {
            let Container::Item { marker, task, .. } = container else {
                full |= prefix.cols + 2 > width / 2;
                if !full {
                    prefix.bar(color);
                }
                continue;
            };
            let mut text = match marker {
                Marker::Bullet => ["• ", "◦ "][bullets % 2].to_owned(),
                Marker::Ordered(number, delimiter) => format!("{number}{delimiter} "),
            };
            bullets += usize::from(*marker == Marker::Bullet);
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
            Style::DIM.write(&mut self.bytes);
        }
        self.bytes.extend_from_slice("│".as_bytes());
        if color {
            Style::PLAIN.write(&mut self.bytes);
        }
        self.bytes.push(b' ');
        self.cols += 2;
    }
}
