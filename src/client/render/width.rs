//! Columns of characters and grapheme clusters, and where lines break without a space.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// A grapheme cluster longer than this only gets longer on the screen, not in memory.
const MAX_CLUSTER: usize = 64;
/// What may not begin a line, in scripts that break between any two letters.
const NO_START: &str = "。，、．：；？！）」』】〉》］｝〕…‥—ー～々ゝゞぁぃぅぇぉっゃゅょァィゥェォッャュョ”’％.,;:!?)]}%";
/// What may not end a line there.
const NO_END: &str = "（「『【〈《［｛〔“‘([{";

/// The columns that a character takes. Half a flag counts as a whole one, for the other half takes no more.
pub(super) fn char_width(c: char) -> usize {
    match c {
        ' '..='~' => 1,
        '\u{1f1e6}'..='\u{1f1ff}' => 2,
        c => c.width().unwrap_or(0).min(2),
    }
}

/// The columns that one grapheme cluster takes.
pub(super) fn cluster_width(cluster: &str) -> usize {
    let first = cluster.chars().next().map_or(0, char_width);
    cluster.width().max(first).min(2)
}

/// Whether a character never belongs to the cluster before it. Only the most frequent ones, to save a closer look.
fn stands_alone(c: char) -> bool {
    matches!(c, '\u{a0}'..='\u{ac}' | '\u{ae}'..='\u{2ff}' | '\u{370}'..='\u{482}' | '\u{2010}'..='\u{2027}'
        | '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' | '\u{3400}'..='\u{9fff}' | '\u{ff01}'..='\u{ff60}')
}

/// Adds a character to a cluster if it belongs to it.
pub(super) fn join(cluster: &mut String, c: char) -> bool {
    if stands_alone(c) {
        return false;
    }
    if cluster.len() > MAX_CLUSTER {
        return char_width(c) == 0;
    }
    let len = cluster.len();
    cluster.push(c);
    if cluster.graphemes(true).nth(1).is_some() {
        cluster.truncate(len);
        return false;
    }
    true
}

/// Writes a character.
pub(super) fn push(c: char, out: &mut Vec<u8>) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Whether a character is a narrow symbol that a selector after it can make wide.
pub(super) fn symbol(c: char) -> bool {
    matches!(
        c,
        '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2190}'..='\u{2bff}'
    )
}

/// Whether a line may break between a cluster and a character, one of which is wide.
pub(super) fn may_break(cluster: &str, c: char) -> bool {
    !NO_START.contains(c) && !cluster.ends_with(|last| NO_END.contains(last))
}

/// The columns that a text takes, not counting colour sequences.
pub(super) fn display_width(text: &str) -> usize {
    let mut cols = 0;
    for (n, part) in text.split('\x1b').enumerate() {
        let part = if n == 0 {
            part
        } else {
            part.split_once('m').map_or("", |(_, rest)| rest)
        };
        if part.is_ascii() {
            cols += part.len();
            continue;
        }
        cols += part.graphemes(true).map(cluster_width).sum::<usize>();
    }
    cols
}
