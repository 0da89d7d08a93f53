//! Counts nodes of a tree.

use tree_sitter::Node;

/// Returns the number of substitutions of commands, those in other substitutions included.
pub(super) fn substitutions(root: Node<'_>) -> usize {
    let mut cursor = root.walk();
    let mut count = 0;
    loop {
        let kind = cursor.node().kind();
        count += usize::from(matches!(
            kind,
            "command_substitution" | "process_substitution"
        ));
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return count;
            }
        }
    }
}
