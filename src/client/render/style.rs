//! Text attributes and the 16 ANSI colours, which are readable on light and dark backgrounds.

use std::ops::BitOr;

/// A set of attributes with at most one foreground colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct TextStyle(u16);

impl TextStyle {
    pub(super) const PLAIN: Self = Self(0);
    pub(super) const BOLD: Self = Self(1);
    pub(super) const DIM: Self = Self(1 << 1);
    pub(super) const ITALIC: Self = Self(1 << 2);
    pub(super) const UNDERLINE: Self = Self(1 << 3);
    pub(super) const STRIKE: Self = Self(1 << 4);
    pub(super) const RED: Self = Self(31 << 8);
    pub(super) const GREEN: Self = Self(32 << 8);
    pub(super) const MAGENTA: Self = Self(35 << 8);
    pub(super) const CYAN: Self = Self(36 << 8);

    /// SGR number of each attribute bit.
    const CODES: [(u16, u8); 5] = [(1, b'1'), (2, b'2'), (4, b'3'), (8, b'4'), (16, b'9')];

    /// Whether a space in this style is visible.
    pub(super) fn marks_spaces(self) -> bool {
        self.0 & (Self::UNDERLINE.0 | Self::STRIKE.0) != 0
    }

    /// Writes the sequence that sets exactly this style, whatever was set before.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\x1b[0");
        for (bit, code) in Self::CODES {
            if self.0 & bit != 0 {
                out.extend_from_slice(&[b';', code]);
            }
        }
        let colour = self.0 >> 8;
        if colour != 0 {
            // The colours above are 31 to 36.
            out.extend_from_slice(&[b';', b'3', b'0' + (colour % 10) as u8]);
        }
        out.push(b'm');
    }
}

impl BitOr for TextStyle {
    type Output = Self;

    /// Joins attributes; the colour of the right side wins.
    fn bitor(self, other: Self) -> Self {
        if other.0 >> 8 == 0 {
            Self(self.0 | other.0)
        } else {
            Self((self.0 & 0xff) | other.0)
        }
    }
}
