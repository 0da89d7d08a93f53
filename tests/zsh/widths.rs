//! What aish prints at 50, 80 and 200 columns: no line is too long, and no word is broken.

use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;
use crate::support::pty::Zsh;

const ANSWER: &str = "A first sentence with a considerable number of unremarkable words, which together take more room \
than a narrow terminal offers. Another one, with `inline code that is long enough to wrap` and **bold words**.\n\n\
- an item whose text is longer than the line that it begins on, wherever that ends\n";

/// Runs a line on a cleared screen and returns the rows it printed.
fn printed(zsh: &mut Zsh<'_>, line: &str) -> Vec<String> {
    zsh.run("clear");
    zsh.run(line);
    let screen = zsh.screen();
    let rows: Vec<&str> = screen.lines().collect();
    // Without the command line, which may have scrolled away, and the next prompt.
    let typed = rows
        .iter()
        .position(|row| row.contains(&format!("> {line}")));
    let from = typed.map_or(0, |at| at + 1);
    rows[from..rows.len() - 1]
        .iter()
        .map(|r| r.trim_end().to_owned())
        .collect()
}

#[test]
fn every_width_gets_whole_words() {
    let helper = Helper::with(Provider::answering(|_| Script::tokens([ANSWER])));
    let mut zsh = Zsh::start(&helper.home);
    zsh.run("llm a question that is about as long as a person would type it, on a line of its own");
    let text = ANSWER.to_owned() + &zsh.eval("COLUMNS=999 llm :help; llm :mcp; llm :prompts");
    let text = text
        + "programs that can use the HTTP API can now put prompts on this command line and submit them; llm :tui off ends that";
    let known: std::collections::BTreeSet<String> = words(&text).collect();
    for columns in [50, 80, 110] {
        zsh.run(&format!("stty cols {columns}; COLUMNS={columns}"));
        for line in [
            "llm again",
            "llm :help",
            "llm :mcp",
            "llm :prompts",
            "llm :tui",
        ] {
            let rows = printed(&mut zsh, line);
            for row in &rows {
                assert!(row.chars().count() <= columns, "{columns}: {row}");
            }
            let footer = |row: &&String| !row.starts_with("fake-model-1 · ");
            for word in rows.iter().filter(footer).flat_map(|row| words(row)) {
                assert!(
                    known.contains(&word),
                    "{columns}, {line}: a broken word: {word}\n{rows:#?}"
                );
            }
        }
        for line in ["llm :activity", "llm :sessions", "llm :search question"] {
            let rows = printed(&mut zsh, line);
            assert!(rows.len() >= 2, "{rows:#?}");
            for row in &rows {
                assert!(row.chars().count() <= columns, "{columns}: {row}");
                // A row of a table is cut, not continued on the next line.
                assert!(
                    !row.starts_with(' ') || line.contains("search"),
                    "{columns}: {row}\n{rows:#?}"
                );
            }
        }
        let rows = printed(&mut zsh, "llm :status");
        let rows = rows.iter().filter(|row| !row.contains('/'));
        for row in rows {
            assert!(row.chars().count() <= columns, "{columns}: {row}");
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split_whitespace();
    let words = words.map(|w| w.trim_matches(|c: char| !c.is_alphanumeric()).to_owned());
    let words = words.filter(|w| !w.is_empty());
    words.collect::<Vec<_>>().into_iter()
}
