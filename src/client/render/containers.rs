//! The containers that blocks stand in: entering and leaving them, and starting lines inside.

use super::Renderer;
use super::block::{Container, Marker, Start};
use super::prefix::Prefix;

impl Renderer {
    /// Ends what is open and goes into the containers of a new block.
    pub(super) fn enter(&mut self, start: Start, out: &mut Vec<u8>) {
        self.close(out);
        let before = self.stack.get(start.matched).copied();
        self.leave(start.matched, out);
        for (n, mut container) in start.fresh.into_iter().enumerate() {
            // Many lists are written `1. 1. 1.`: count on, as a browser would.
            if let Container::Item {
                marker: Marker::Ordered(number, delimiter),
                ..
            } = &mut container
                && let Some(Container::Item {
                    marker: Marker::Ordered(last, same),
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

    /// Leaves containers; an item that had no text yet is shown as it is.
    pub(super) fn leave(&mut self, depth: usize, out: &mut Vec<u8>) {
        let bare = self
            .stack
            .iter()
            .skip(self.fresh.max(depth))
            .any(|c| matches!(c, Container::Item { .. }));
        if bare {
            self.open_line(out);
            self.wrap.end_line(out);
        }
        self.stack.truncate(depth);
        self.fresh = self.fresh.min(depth);
    }

    /// The columns that are left of the prefix.
    pub(super) fn room(&self) -> usize {
        self.wrap
            .next_width()
            .saturating_sub(self.prefix(self.stack.len(), self.stack.len()).cols)
            .max(1)
    }

    pub(super) fn prefix(&self, depth: usize, fresh: usize) -> Prefix {
        Prefix::new(
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

    /// Starts a line of a block: the blank line before it, if any, then bars, indentation and markers.
    pub(super) fn open_line(&mut self, out: &mut Vec<u8>) {
        if let Some(depth) = self.blank.take()
            && self.shown
        {
            let depth = depth.min(self.fresh);
            let bars = self.stack[..depth]
                .iter()
                .rposition(|c| *c == Container::Quote)
                .map_or(0, |at| at + 1);
            let prefix = self.prefix(bars, bars);
            self.wrap.raw_line(prefix.bytes.trim_ascii_end(), out);
        }
        self.shown = true;
        let first = self.prefix(self.stack.len(), self.fresh);
        self.fresh = self.stack.len();
        self.wrap.open_line(&first.bytes, first.cols, out);
        if !first.late.is_empty() {
            self.wrap.text(&first.late, false, out);
            self.wrap.space(false);
        }
    }
}
