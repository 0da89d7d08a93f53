//! Display width of characters and grapheme clusters, and line break opportunities without a space.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Maximum length in bytes of a cluster kept in memory; longer clusters are still written.
const MAX_CLUSTER: usize = 64;
/// Characters that may not begin a line in scripts that break between any two letters.
const NO_START: &str = "。，、．：；？！）」』】〉》］｝〕…‥—ー～々ゝゞぁぃぅぇぉっゃゅょァィゥェォッャュョ”’％.,;:!?)]}%";
/// Characters that may not end a line there.
const NO_END: &str = "（「『【〈《［｛〔“‘([{";

/// Columns of a character. Half a flag counts as a whole one, and its other half as none.
pub(super) fn char_width(c: char) -> usize {
    match c {
        ' '..='~' => 1,
        '\u{1f1e6}'..='\u{1f1ff}' => 2,
        c => c.width().unwrap_or(0).min(2),
    }
}

/// Columns of one grapheme cluster.
pub(super) fn cluster_width(cluster: &str) -> usize {
    let first = cluster.chars().next().map_or(0, char_width);
    cluster.width().max(first).min(2)
}

/// Fast path: whether a character never belongs to the preceding cluster. Covers only the most frequent characters.
fn never_joins_previous(c: char) -> bool {
    matches!(c, '\u{a0}'..='\u{ac}' | '\u{ae}'..='\u{2ff}' | '\u{370}'..='\u{482}' | '\u{2010}'..='\u{2027}'
        | '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' | '\u{3400}'..='\u{9fff}' | '\u{ff01}'..='\u{ff60}')
}

/// Appends a character to a cluster if it belongs to it.
pub(super) fn join(cluster: &mut String, c: char) -> bool {
    if never_joins_previous(c) {
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

/// Whether a character is a narrow symbol that a variation selector can make wide.
pub(super) fn is_narrow_symbol(c: char) -> bool {
    matches!(
        c,
        '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2190}'..='\u{2bff}'
    )
}

/// Whether a line may break between a cluster and a character, at least one of which is wide.
pub(super) fn may_break(cluster: &str, c: char) -> bool {
    !NO_START.contains(c) && !cluster.ends_with(|last| NO_END.contains(last))
}

/// Columns of a text, not counting colour sequences.
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
