//! `[policy]`, `[mcp.auto_approve]`, `[tools]` and `[intent_declaration]`: nothing of it comes from the environment, which must not loosen what the file says.

use super::{Origin, Picker, usize_of};
use crate::config::file::File;
use crate::config::policy::WrittenRule;
use crate::config::table::{At, shown_key};
use crate::config::{Exposure, IntentDeclaration, Tools};
use crate::safety::policy::{Fallback, Rule, Rules, Subject, Word};

/// The rules of the file.
pub(super) fn resolve(p: &mut Picker, file: &File) -> Rules {
    let default = Rules::default().default;
    let written = file.policy.default.clone();
    let word = written.as_ref().map_or(default.word, |at| at.value);
    let shown = written.map(|at| at.map(|word| word.as_str().to_string()));
    p.pick(&default.source, None, &shown, word.as_str().to_string());
    let mut list = Vec::new();
    for (name, at) in &file.mcp.auto_approve {
        let source = format!("mcp.auto_approve.{}", shown_key(name));
        p.note(&source, at.value, Origin::File(at.line));
        list.extend(approved(name, at.value, source));
    }
    for WrittenRule { key, subject, word } in &file.policy.rules {
        p.note(key, word.value.as_str(), Origin::File(word.line));
        list.push(Rule {
            subject: subject.clone(),
            word: word.value,
            source: key.clone(),
        });
    }
    Rules {
        default: Fallback { word, ..default },
        list,
        project: Vec::new(),
    }
}

/// What `[mcp.auto_approve]` says: `true` allows, `false` asks. It is about tools alone: `fs.write` is one there.
fn approved(name: &str, yes: bool, source: String) -> Option<Rule> {
    Some(Rule {
        subject: Subject::of_tools(name)?,
        word: match yes {
            true => Word::Allow,
            false => Word::Ask,
        },
        source,
    })
}

pub(super) fn tools(p: &mut Picker, file: &File) -> Tools {
    let default = Tools::default();
    let word = |at: &At<Exposure>| at.clone().map(|e| e.word().to_string());
    let written = file.exposure.as_ref().map(word);
    p.pick(
        "tools.exposure",
        None,
        &written,
        default.exposure.word().to_string(),
    );
    Tools {
        exposure: file
            .exposure
            .as_ref()
            .map_or(default.exposure, |at| at.value),
        split_threshold: usize_of(p.pick(
            "tools.split_threshold",
            None,
            &file.split_threshold,
            u32::try_from(default.split_threshold).unwrap_or(u32::MAX),
        )),
    }
}

pub(super) fn intent_declaration(p: &mut Picker, file: &File) -> IntentDeclaration {
    IntentDeclaration {
        strict_server_validation: p.pick(
            "intent_declaration.strict_server_validation",
            None,
            &file.strict_server_validation,
            IntentDeclaration::default().strict_server_validation,
        ),
    }
}
