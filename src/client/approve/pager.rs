//! Reads a long text on the terminal, a page at a time. What was shown stays in the scrollback: nothing is
//! painted over, so that nothing of it can be painted over.

use crate::client::asking::{Answered, Asking, Happened, Key, Over};
use crate::client::frame::Line;

/// Shows what `lines` makes for a width, from its beginning; whether its end was shown.
///
/// # Errors
/// The question is over.
pub fn read(asking: &mut Asking<'_>, lines: &dyn Fn(usize) -> Vec<Line>) -> Answered<bool> {
    'anew: loop {
        let lines = lines(asking.width());
        let page = asking.size.1.saturating_sub(3).max(1);
        let mut top = 0;
        let mut all = false;
        loop {
            let end = if all {
                lines.len()
            } else {
                (top + page).min(lines.len())
            };
            for line in &lines[top..end] {
                asking.line("│", line)?;
            }
            if end == lines.len() {
                return Ok(true);
            }
            let keys = format!(
                "{} more lines: [space] read on  [k] back  [G] to the end  [q]uit reading ",
                lines.len() - end
            );
            let keys = match keys.len() + 2 < asking.size.0 {
                true => keys,
                false => format!("{} more: [space] [k] [G] [q] ", lines.len() - end),
            };
            asking.say(&format!("{} {keys}", asking.dim("└")))?;
            loop {
                match asking.key()? {
                    Happened::Changed => {
                        asking.say("\n")?;
                        continue 'anew;
                    }
                    Happened::Key(Key::Down | Key::Byte(b' ' | b'j' | b'f')) => {
                        top = end;
                        break;
                    }
                    // All the rest, so that nothing is passed over.
                    Happened::Key(Key::End | Key::Byte(b'G')) => {
                        (top, all) = (end, true);
                        break;
                    }
                    Happened::Key(Key::Up | Key::Byte(b'k' | b'b')) => {
                        top = top.saturating_sub(page);
                        break;
                    }
                    Happened::Key(Key::Byte(b'q' | b'Q' | b'n' | b'\r' | b'\n' | 4)) => {
                        asking.say("\n")?;
                        return Ok(false);
                    }
                    Happened::Key(_) => {}
                }
            }
            // Our own line of keys gives way to the text.
            asking.say("\r\x1b[K")?;
        }
    }
}

/// Nothing more is asked: how that is said below the question.
pub fn ended(asking: &Asking<'_>, over: &Over) {
    let word = match over {
        Over::Stop => "stopped",
        Over::Gone => "the daemon has gone: denied",
        Over::Withdrawn => "no answer is wanted any more",
        // It has gone, or is another's.
        Over::NoTerminal(_) => return,
    };
    // A terminal that has gone shows nothing.
    let _ = asking.say(&format!("{word}\n"));
}
