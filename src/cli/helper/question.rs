//! The question before a file becomes a helper: all of its text, its packages, and their sources.

use crate::client::signals::SignalPipes;
use crate::client::styled_line::{SpanStyle, StyledLine, fold, span};
use crate::client::terminal_prompt::{PromptEnd, PromptKey, PromptResult, TerminalPrompt, pager};
use crate::client::text_format::untabbed;
use crate::error::{Error, ErrorKind, Result};
use crate::python::metadata::PackageRequirement;
use crate::python::registration::HelperCandidate;
use crate::safety::text::prose;

/// Asks whether to add the file. With `yes` there is no question, but there must still be a terminal: a program without
/// one cannot add helpers for the person. Packages from outside of the package index are asked about in any case.
///
/// # Errors
/// The answer is no, or there is no terminal to ask on.
pub(super) fn confirm(candidate: &HelperCandidate, yes: bool) -> Result<()> {
    let signals = SignalPipes::catch()?;
    let answer = TerminalPrompt::open(&signals, None).and_then(|mut prompt| {
        if !yes {
            show(&mut prompt, candidate)?;
        }
        let direct = candidate.metadata.dependencies.iter();
        for requirement in direct.filter(|requirement| requirement.direct.is_some()) {
            if !ask_direct(&mut prompt, requirement)? {
                return Ok(false);
            }
        }
        match yes {
            true => Ok(true),
            false => ask(&mut prompt, candidate),
        }
    });
    match answer {
        Ok(true) => Ok(()),
        Ok(false) | Err(PromptEnd::Interrupted) => Err(Error::new(
            ErrorKind::Interrupted,
            "nothing was added or installed",
        )),
        Err(PromptEnd::NoTerminal(reason)) => Err(Error::new(
            ErrorKind::Approval,
            format!("a helper can only be added in a terminal, and {reason}"),
        )
        .hint("run aish-helper helper add in a terminal; with --yes it does not ask there")),
        Err(_) => Err(Error::runtime("the question ended without an answer")),
    }
}

/// Lays out lines that passed the text sink.
fn laid_out(text: &str, style: SpanStyle, width: usize) -> Vec<StyledLine> {
    let text = prose(text);
    let lines = text
        .lines()
        .flat_map(|line| fold(&[span(untabbed(line), style)], width, 4));
    lines.collect()
}

/// Shows the text of the file to its end.
fn show(prompt: &mut TerminalPrompt<'_>, candidate: &HelperCandidate) -> PromptResult<()> {
    let lines = candidate.source.lines().count();
    let what = match candidate.replaces {
        true => "replaces what was added under this name",
        false => "is new",
    };
    let head = format!(
        "helper file {} {what}; {lines} lines; adding it runs its code",
        candidate.name
    );
    for line in laid_out(&head, SpanStyle::Bold, prompt.width()) {
        prompt.frame_line("┌", &line)?;
    }
    let text = |width| laid_out(&candidate.source, SpanStyle::Plain, width);
    match pager::read(prompt, &text)? {
        true => Ok(()),
        // Code that was not read is not accepted.
        false => Err(PromptEnd::Interrupted),
    }
}

fn ask(prompt: &mut TerminalPrompt<'_>, candidate: &HelperCandidate) -> PromptResult<bool> {
    loop {
        let mut facts = Vec::new();
        if let Some(requires) = &candidate.metadata.requires_python {
            facts.push(format!("Python {requires}"));
        }
        match candidate.metadata.dependencies.is_empty() {
            true => facts.push("no packages".to_owned()),
            false => facts.push("installs, with everything that they need:".to_owned()),
        }
        let packages = candidate.metadata.dependencies.iter();
        facts.extend(packages.map(|package| format!("  {}", package.text)));
        for fact in facts {
            for line in laid_out(&fact, SpanStyle::Plain, prompt.width()) {
                prompt.frame_line("│", &line)?;
            }
        }
        if let Some(accept) = prompt.choose("[y] add it  [n] do not ", &answer)? {
            return Ok(accept);
        }
    }
}

/// Asks about a package that does not come from the package index.
fn ask_direct(
    prompt: &mut TerminalPrompt<'_>,
    requirement: &PackageRequirement,
) -> PromptResult<bool> {
    loop {
        let from = requirement.direct.as_deref().unwrap_or_default();
        let text = format!(
            "package {} does not come from the package index, but from {from}",
            requirement.name
        );
        for line in laid_out(&text, SpanStyle::Bold, prompt.width()) {
            prompt.frame_line("│", &line)?;
        }
        if let Some(accept) = prompt.choose("[y] install it from there  [n] do not ", &answer)? {
            return Ok(accept);
        }
    }
}

fn answer(key: PromptKey) -> Option<(bool, &'static str)> {
    match key {
        PromptKey::Byte(b'y' | b'Y') => Some((true, "yes")),
        PromptKey::Byte(b'n' | b'N' | b'\n' | b'\r') => Some((false, "no")),
        _ => None,
    }
}
