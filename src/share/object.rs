//! The objects of a share: its page, and the recordings beside it.

/// An object of a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareObject {
    /// The page.
    Page,
    /// The recording of this number, from 1.
    Recording(usize),
}

impl ShareObject {
    /// Returns the type of its content.
    pub fn content_type(self) -> &'static str {
        match self {
            ShareObject::Page => "text/html; charset=utf-8",
            ShareObject::Recording(_) => "application/x-asciicast",
        }
    }

    /// Returns its name, beside those of the other shares.
    pub fn name(self, id: &str) -> String {
        match self {
            ShareObject::Page => format!("{id}.html"),
            ShareObject::Recording(number) => format!("{id}/{number}.cast"),
        }
    }
}
