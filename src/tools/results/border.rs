//! Where a text may be cut: between the elements of its array, else between lines, else between characters. Pure.

/// How a text is made of records.
#[derive(Debug, PartialEq, Eq)]
pub enum Shape {
    /// It is JSON, and most of it one array: where each element but the first begins, behind the comma.
    Array(Vec<usize>),
    /// Lines: JSON Lines, CSV, prose. Perhaps a single one.
    Lines,
}

impl Shape {
    /// Looks through the whole text once.
    pub fn of(text: &str) -> Shape {
        match largest_array(text) {
            Some((size, commas)) if size >= text.len() / 2 => Shape::Array(commas),
            _ => Shape::Lines,
        }
    }

    /// Where a part ends that begins at `start` (where a character does) and has at most `most` bytes, but one
    /// character at least. It ends with a record, unless that would make it a quarter of what it may be.
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
            Shape::Array(commas) => {
                let before = commas.partition_point(|comma| *comma <= end);
                before.checked_sub(1).map(|at| commas[at])
            }
            Shape::Lines => text[start..end].rfind('\n').map(|at| start + at + 1),
        };
        match border {
            Some(border) if border >= start + most / 4 && border > start => border,
            _ => end,
        }
    }

    /// How many records there are behind `end`, in words; nothing where that is in the middle of one.
    pub fn left(&self, text: &str, end: usize) -> String {
        let (left, all, what) = match self {
            Shape::Array(commas) => match commas.binary_search(&end) {
                Ok(at) => (commas.len() - at, commas.len() + 1, "records"),
                Err(_) => return String::new(),
            },
            Shape::Lines if text[..end].ends_with('\n') => {
                (text[end..].lines().count(), text.lines().count(), "lines")
            }
            Shape::Lines => return String::new(),
        };
        format!(", {left} of {all} {what}")
    }
}

/// The array of a JSON text that takes most of it, if there is one with two elements: its size, and where its commas
/// end. Whether all else is JSON is not looked at: a wrong guess cuts at a comma.
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
            // A second value: JSON Lines.
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
