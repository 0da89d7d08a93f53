//! Checks of the terminal that shows the answers.

use super::CheckResult;
use crate::client::terminal::{ControllingTty, size};
use crate::config::preferences::wants_colors;
use crate::paths::variable;

/// Properties of the terminal that matter to aish.
#[derive(Debug, Clone)]
pub(super) struct TerminalFacts {
    /// Columns and rows; `None` without a terminal.
    size: Option<(usize, usize)>,
    /// `TERM`.
    term: String,
    /// Locale that determines the character set: `LC_ALL`, else `LC_CTYPE`, else `LANG`.
    locale: String,
    colors: bool,
}

impl TerminalFacts {
    /// Reads the properties from the environment of this process.
    pub(super) fn current() -> TerminalFacts {
        let text = |name: &str| variable(name).map(|value| value.to_string_lossy().into_owned());
        TerminalFacts {
            size: ControllingTty::open().ok().map(|tty| size(&tty.file)),
            term: text("TERM").unwrap_or_default(),
            locale: ["LC_ALL", "LC_CTYPE", "LANG"]
                .into_iter()
                .find_map(text)
                .unwrap_or_default(),
            colors: wants_colors(),
        }
    }
}

/// Checks that the terminal can show answers and ask questions.
pub(super) fn check_terminal(facts: &TerminalFacts) -> CheckResult {
    let Some((columns, rows)) = facts.size else {
        return CheckResult::warn(
            "terminal",
            "no terminal, so proposed commands cannot be approved",
            "run aish in a terminal",
        );
    };
    if matches!(facts.term.as_str(), "" | "dumb") {
        return CheckResult::warn(
            "terminal",
            format!("TERM is {:?}: answers are plain text", facts.term),
            "set TERM to the type of your terminal, for example xterm-256color",
        );
    }
    let charset = facts.locale.to_ascii_lowercase();
    if !charset.contains("utf-8") && !charset.contains("utf8") {
        return CheckResult::warn(
            "terminal",
            format!(
                "the locale {:?} is not UTF-8: zsh counts columns wrongly",
                facts.locale
            ),
            "run: export LC_ALL=C.UTF-8 (or another locale from: locale -a | grep -i utf)",
        );
    }
    let colors = if facts.colors {
        "colours"
    } else {
        "no colours (NO_COLOR is set)"
    };
    CheckResult::ok(
        "terminal",
        format!(
            "{}, {columns} × {rows}, {}, {colors}",
            facts.term, facts.locale
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::CheckState;
    use super::*;

    #[test]
    fn each_limitation_is_a_warning() {
        let good = TerminalFacts {
            size: Some((80, 24)),
            term: "xterm-256color".into(),
            locale: "en_US.UTF-8".into(),
            colors: true,
        };
        assert_eq!(check_terminal(&good).state, CheckState::Ok);
        let bad = [
            TerminalFacts {
                size: None,
                ..good.clone()
            },
            TerminalFacts {
                term: "dumb".into(),
                ..good.clone()
            },
            TerminalFacts {
                term: String::new(),
                ..good.clone()
            },
            TerminalFacts {
                locale: "C".into(),
                ..good.clone()
            },
        ];
        for facts in bad {
            let check = check_terminal(&facts);
            assert_eq!(check.state, CheckState::Warn, "{facts:?}");
            assert!(check.remedy.is_some());
        }
        assert_eq!(
            check_terminal(&TerminalFacts {
                locale: "C.utf8".into(),
                ..good
            })
            .state,
            CheckState::Ok
        );
    }
}
