//! Containers of blocks: entering and leaving them, and starting lines inside them.

use super::MarkdownRenderer;
use super::block::{BlockContainer, LineStart, ListMarker};
use super::prefix::LinePrefix;

impl MarkdownRenderer {
    /// Closes blocks that end here and enters the containers of a new block.
    pub(super) fn enter(&mut self, start: LineStart, out: &mut Vec<u8>) {
        self.close(out);
        let before = self.stack.get(start.matched).copied();
        self.leave(start.matched, out);
        for (n, mut container) in start.fresh.into_iter().enumerate() {
            // Models often write `1. 1. 1.`; like browsers, number such items consecutively.
            if let BlockContainer::Item {
                marker: ListMarker::Ordered(number, delimiter),
                ..
            } = &mut container
                && let Some(BlockContainer::Item {
                    marker: ListMarker::Ordered(last, same),
                    ..
                }) = before
                && n == 0
                && same == *delimiter
                && *number <= last
            {
                *number = last.saturating_add(1);
            }
            self.stack.push(container);
        }
        self.set_prefix();
    }

    /// Leaves the containers from `depth` on. An item without text so far is shown empty.
    pub(super) fn leave(&mut self, depth: usize, out: &mut Vec<u8>) {
        let bare = self
            .stack
            .iter()
            .skip(self.fresh.max(depth))
            .any(|c| matches!(c, BlockContainer::Item { .. }));
        if bare {
            self.open_line(out);
            self.wrap.end_line(out);
        }
        self.stack.truncate(depth);
        self.fresh = self.fresh.min(depth);
    }

    /// Number of columns left beside the prefix.
    pub(super) fn available_columns(&self) -> usize {
        self.wrap
            .next_width()
            .saturating_sub(self.prefix(self.stack.len(), self.stack.len()).cols)
            .max(1)
    }

    pub(super) fn prefix(&self, depth: usize, fresh: usize) -> LinePrefix {
        LinePrefix::new(
            &self.stack[..depth],
            fresh,
            self.wrap.next_width(),
            self.wrap.color(),
        )
    }

    pub(super) fn set_prefix(&mut self) {
        let prefix = self.prefix(self.stack.len(), self.stack.len());
        self.wrap.set_prefix(prefix.bytes, prefix.cols);
    }

    /// Starts a line of a block: a pending blank line, then bars, indentation and markers.
    pub(super) fn open_line(&mut self, out: &mut Vec<u8>) {
        if let Some(depth) = self.pending_blank.take()
            && self.has_output
        {
            let depth = depth.min(self.fresh);
            let bars = self.stack[..depth]
                .iter()
                .rposition(|c| *c == BlockContainer::Quote)
                .map_or(0, |at| at + 1);
            let prefix = self.prefix(bars, bars);
            self.wrap.raw_line(prefix.bytes.trim_ascii_end(), out);
        }
        self.has_output = true;
        let first = self.prefix(self.stack.len(), self.fresh);
        self.fresh = self.stack.len();
        self.wrap.open_line(&first.bytes, first.cols, out);
        if !first.late.is_empty() {
            self.wrap.text(&first.late, false, out);
            self.wrap.space(false);
        }
    }
}
