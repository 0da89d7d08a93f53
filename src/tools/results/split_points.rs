//! Split points: where a text may be cut. Between the elements of its array, otherwise between lines, otherwise between
//! characters. Pure.

/// How a text is divided into records.
#[derive(Debug, PartialEq, Eq)]
pub enum RecordLayout {
    /// JSON that consists mostly of one array: the position after each comma between its elements.
    Array(Vec<usize>),
    /// Lines: JSON Lines, CSV, prose; possibly a single one.
    Lines,
}

impl RecordLayout {
    /// Determines the record structure in one pass over the text.
    pub fn of(text: &str) -> RecordLayout {
        match largest_array(text) {
            Some((size, commas)) if size >= text.len() / 2 => RecordLayout::Array(commas),
            _ => RecordLayout::Lines,
        }
    }

    /// Returns the end of a part that begins at `start`, a character boundary, with at most `most` bytes but at least
    /// one character. Ends at a record boundary unless that would leave less than a quarter of `most`.
    pub fn end(&self, text: &str, start: usize, most: usize) -> usize {
        if text.len() - start <= most {
            return text.len();
        }
        let mut end = start + most;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        if end == start {
            end += text[start..].chars().next().map_or(0, char::len_utf8);
        }
        let border = match self {
            RecordLayout::Array(commas) => {
                let before = commas.partition_point(|comma| *comma <= end);
                before.checked_sub(1).map(|at| commas[at])
            }
            RecordLayout::Lines => text[start..end].rfind('\n').map(|at| start + at + 1),
        };
        match border {
            Some(border) if border >= start + most / 4 && border > start => border,
            _ => end,
        }
    }

    /// Returns how many records follow `end`, as text; empty if `end` is within a record.
    pub fn remaining(&self, text: &str, end: usize) -> String {
        let (left, all, what) = match self {
            RecordLayout::Array(commas) => match commas.binary_search(&end) {
                Ok(at) => (commas.len() - at, commas.len() + 1, "records"),
                Err(_) => return String::new(),
            },
            RecordLayout::Lines if text[..end].ends_with('\n') => {
                (text[end..].lines().count(), text.lines().count(), "lines")
            }
            RecordLayout::Lines => return String::new(),
        };
        format!(", {left} of {all} {what}")
    }
}

/// Returns the largest array with at least two elements in a JSON text: its size and the positions after its commas.
/// The rest of the text is not validated: a wrong guess merely cuts at a comma.
fn largest_array(text: &str) -> Option<(usize, Vec<usize>)> {
    if !text.trim_start().starts_with(['[', '{']) {
        return None;
    }
    let mut open: Vec<(u8, usize, Vec<usize>)> = Vec::new();
    let mut best: Option<(usize, Vec<usize>)> = None;
    let mut over = false;
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {}
            // A second top-level value: JSON Lines.
            _ if over => return None,
            b'"' => loop {
                match bytes.next()?.1 {
                    b'\\' => {
                        bytes.next();
                    }
                    b'"' => break,
                    _ => {}
                }
            },
            b'[' => open.push((b']', at, Vec::new())),
            b'{' => open.push((b'}', at, Vec::new())),
            b',' => match open.last_mut() {
                Some((b']', _, commas)) => commas.push(at + 1),
                Some(_) => {}
                None => return None,
            },
            b']' | b'}' => {
                let (close, start, commas) = open.pop()?;
                if close != byte {
                    return None;
                }
                let size = at - start;
                if !commas.is_empty() && best.as_ref().is_none_or(|(most, _)| size > *most) {
                    best = Some((size, commas));
                }
                over = open.is_empty();
            }
            _ => {}
        }
    }
    best.filter(|_| over)
}
