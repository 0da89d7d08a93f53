//! The terminal that answers are shown on.

use super::Check;
use crate::client::terminal::{Tty, size};
use crate::config::source::wants_colors;
use crate::paths::variable;

/// What counts about a terminal.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    /// Columns and rows; none without a terminal.
    size: Option<(usize, usize)>,
    /// `TERM`.
    term: String,
    /// What names the character set: `LC_ALL`, else `LC_CTYPE`, else `LANG`.
    locale: String,
    colors: bool,
}

impl Facts {
    /// Those of this process.
    pub(super) fn here() -> Facts {
        let text = |name: &str| variable(name).map(|value| value.to_string_lossy().into_owned());
        Facts {
            size: Tty::open().ok().map(|tty| size(&tty.file)),
            term: text("TERM").unwrap_or_default(),
            locale: ["LC_ALL", "LC_CTYPE", "LANG"]
                .into_iter()
                .find_map(text)
                .unwrap_or_default(),
            colors: wants_colors(),
        }
    }
}

/// Can answers be shown on it, and questions be asked?
pub(super) fn check(facts: &Facts) -> Check {
    let Some((columns, rows)) = facts.size else {
        return Check::warn(
            "terminal",
            "there is none here, so no proposed command can be approved",
            "run it in a terminal",
        );
    };
    if matches!(facts.term.as_str(), "" | "dumb") {
        return Check::warn(
            "terminal",
            format!("TERM is {:?}: answers are plain text", facts.term),
            "use a terminal that can do more, or set TERM to what it is, for example xterm-256color",
        );
    }
    let charset = facts.locale.to_ascii_lowercase();
    if !charset.contains("utf-8") && !charset.contains("utf8") {
        return Check::warn(
            "terminal",
            format!(
                "the locale {:?} is not UTF-8: zsh counts columns wrongly",
                facts.locale
            ),
            "export LC_ALL=C.UTF-8, or another of: locale -a | grep -i utf",
        );
    }
    let colors = if facts.colors {
        "colours"
    } else {
        "no colours (NO_COLOR is set)"
    };
    Check::ok(
        "terminal",
        format!(
            "{}, {columns} × {rows}, {}, {colors}",
            facts.term, facts.locale
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn each_lack_is_told() {
        let good = Facts {
            size: Some((80, 24)),
            term: "xterm-256color".into(),
            locale: "en_US.UTF-8".into(),
            colors: true,
        };
        assert_eq!(check(&good).state, State::Ok);
        let bad = [
            Facts {
                size: None,
                ..good.clone()
            },
            Facts {
                term: "dumb".into(),
                ..good.clone()
            },
            Facts {
                term: String::new(),
                ..good.clone()
            },
            Facts {
                locale: "C".into(),
                ..good.clone()
            },
        ];
        for facts in bad {
            let check = check(&facts);
            assert_eq!(check.state, State::Warn, "{facts:?}");
            assert!(check.remedy.is_some());
        }
        assert_eq!(
            check(&Facts {
                locale: "C.utf8".into(),
                ..good
            })
            .state,
            State::Ok
        );
    }
}
