//! Finds out which lines of a replacement are unchanged, so that they keep their bytes and ends.

use similar::{Algorithm, DiffOp, capture_diff_slices};

use crate::workspace::failure::WorkspaceError;
use crate::workspace::text_file::{EndRule, LineContent, LineEnd, ModelLine, OutputLine};

/// Maximum number of changed lines that are compared; the time grows with their square. Larger replacements are taken as new
/// text throughout.
const COMPARED_LINES: usize = 4_000;

/// Returns the lines that replace the lines `first..first + old.len()` of a file.
///
/// `old` is what the model believes to be there. `render` returns the text of a line that is not in `old`; it gets the line
/// and the index in `old` of the line that it replaces, if it replaces one. A changed line keeps its line end; an added one
/// gets the most frequent one of the file.
pub(super) fn aligned(
    first: usize,
    old: &[&[u8]],
    new: &[ModelLine<'_>],
    mut render: impl FnMut(&[u8], Option<usize>) -> Result<Vec<u8>, WorkspaceError>,
) -> Result<Vec<OutputLine>, WorkspaceError> {
    let contents: Vec<&[u8]> = new.iter().map(|line| line.content).collect();
    let mut lines = Vec::with_capacity(new.len());
    for operation in operations(old, &contents) {
        let (replaced, added) = (operation.old_range(), operation.new_range());
        for (offset, index) in added.enumerate() {
            let counterpart = replaced.clone().nth(offset);
            let Some(line) = new.get(index) else { continue };
            let (content, end) = match (&operation, counterpart) {
                (DiffOp::Equal { .. }, Some(old)) => {
                    (LineContent::Kept(first + old), EndRule::Of(first + old))
                }
                (_, old) => {
                    let end = match old {
                        Some(old) => EndRule::Of(first + old),
                        None => EndRule::FileStyle,
                    };
                    (LineContent::New(render(line.content, old)?), end)
                }
            };
            let is_kept = matches!(content, LineContent::Kept(_));
            let end = if line.is_cr && !is_kept {
                EndRule::Exactly(LineEnd::Cr)
            } else {
                end
            };
            lines.push(OutputLine { content, end });
        }
    }
    if let Some(last) = lines.last_mut() {
        last.end = EndRule::Of((first + old.len()).saturating_sub(1));
    }
    Ok(lines)
}

fn operations(old: &[&[u8]], new: &[&[u8]]) -> Vec<DiffOp> {
    let prefix = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (
        old.get(prefix..).unwrap_or_default(),
        new.get(prefix..).unwrap_or_default(),
    );
    let suffix = old_rest
        .iter()
        .rev()
        .zip(new_rest.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let old_middle = old_rest.get(..old_rest.len() - suffix).unwrap_or_default();
    let new_middle = new_rest.get(..new_rest.len() - suffix).unwrap_or_default();
    let mut operations = vec![DiffOp::Equal {
        old_index: 0,
        new_index: 0,
        len: prefix,
    }];
    if old_middle.len() + new_middle.len() > COMPARED_LINES {
        operations.push(DiffOp::Replace {
            old_index: prefix,
            old_len: old_middle.len(),
            new_index: prefix,
            new_len: new_middle.len(),
        });
    } else {
        let middle = capture_diff_slices(Algorithm::Myers, old_middle, new_middle);
        operations.extend(
            middle
                .into_iter()
                .map(|operation| shifted(operation, prefix)),
        );
    }
    operations.push(DiffOp::Equal {
        old_index: prefix + old_middle.len(),
        new_index: prefix + new_middle.len(),
        len: suffix,
    });
    operations
}

fn shifted(operation: DiffOp, by: usize) -> DiffOp {
    let (old, new) = (operation.old_range(), operation.new_range());
    match operation {
        DiffOp::Equal { len, .. } => DiffOp::Equal {
            old_index: old.start + by,
            new_index: new.start + by,
            len,
        },
        _ => DiffOp::Replace {
            old_index: old.start + by,
            old_len: old.len(),
            new_index: new.start + by,
            new_len: new.len(),
        },
    }
}
