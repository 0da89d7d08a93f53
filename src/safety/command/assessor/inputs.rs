//! What commands read from their standard input: of a pipeline, a redirection, or the text or function that they are in.

use std::ops::Range;
use std::rc::Rc;

use super::redirections::is_connection;
use super::secrets::sends_input;
use super::streams::{StreamContent, descriptor_of};
use super::{Assessor, CommandFacts, OutputRole, Redirection, ScriptFacts};
use crate::safety::command::class::CommandClass::Destroys;
use crate::safety::command::special::SENDS_SECRET;
use crate::safety::command::syntax::FunctionSyntax;
use crate::safety::command::word::UNKNOWN;

/// What a command reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InputStream {
    pub(super) content: StreamContent,
    pub(super) holds_secret: bool,
}

/// The input of a command; `None` if it is that of the shell.
pub(super) type CommandInput = Option<Rc<InputStream>>;

/// What gives an input to a range of commands. Where two have the same range, the later variant decides what the commands read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum InputSource {
    /// `>(…)`
    Fed,
    Pipeline,
    Redirection,
}

/// Functions that call one another whose inputs are followed.
const MAX_CALLS: usize = 4;

/// Whether a redirection opens the standard input.
fn is_standard(redirection: &Redirection) -> bool {
    let is_input = redirection.operator.starts_with('<') && redirection.operator != "<&-";
    is_input && redirection.descriptor.unwrap_or(0) == 0
}

impl ScriptFacts {
    /// Whether a command is a lone `exec`, whose redirections apply to all later commands.
    pub(super) fn is_exec(&self, commands: &Range<usize>) -> bool {
        let facts = self.facts.get(commands.clone()).unwrap_or_default();
        matches!(facts, [facts] if matches!(facts.values.as_slice(), [name] if name == "exec"))
    }

    /// Returns the commands that a redirection applies to.
    fn reach_of(&self, redirection: &Redirection) -> Range<usize> {
        let own = redirection.commands.clone();
        match self.is_exec(&own) {
            true => own.start..self.facts.len(),
            false => own,
        }
    }

    /// Returns the redirection that opens a descriptor: the last before a command, or else the last.
    pub(super) fn opened(&self, descriptor: u32, command: usize) -> Option<&Redirection> {
        let mut opening = self.all_openings(descriptor);
        let mut before = opening.clone().filter(|own| own.commands.start <= command);
        before.next_back().or(opening.next_back())
    }

    /// Returns the redirections that open a descriptor.
    fn all_openings(
        &self,
        descriptor: u32,
    ) -> impl DoubleEndedIterator<Item = &Redirection> + Clone {
        self.script.redirections.iter().filter(move |redirection| {
            redirection.descriptor == Some(descriptor)
                && !redirection.operator.ends_with(['&', '-'])
        })
    }

    /// Returns the redirections that may have opened a descriptor for a command: a function may be called after any of them.
    pub(super) fn openings(&self, descriptor: u32, command: usize) -> Vec<&Redirection> {
        match self.function_of(command) {
            Some(_) => self.all_openings(descriptor).collect(),
            None => self.opened(descriptor, command).into_iter().collect(),
        }
    }
}

impl Assessor<'_> {
    /// Notes what each command reads. A command that prints what it reads counts as one that downloads if its input is a download.
    pub(super) fn follow_inputs(&self, script: &mut ScriptFacts) {
        script.inputs = vec![self.outer_input.clone(); script.facts.len()];
        let has_none = script.script.pipelines.is_empty() && script.script.redirections.is_empty();
        if has_none && self.outer_input.is_none() {
            return;
        }
        let span = |stages: &[Range<usize>]| {
            let start = stages.first().map_or(0, |first| first.start);
            stages.last().map_or(0, |last| last.end) - start
        };
        let syntax = &script.script;
        let fed = syntax.fed.iter().map(|commands| commands.len());
        let pipelines = syntax.pipelines.iter().map(|stages| span(stages));
        let redirections = syntax.redirections.iter();
        let redirections = redirections.map(|redirection| script.reach_of(redirection).len());
        let numbered = |kind, (at, span)| (span, kind, at);
        let mut all: Vec<(usize, InputSource, usize)> = fed
            .enumerate()
            .map(|own| numbered(InputSource::Fed, own))
            .chain(
                pipelines
                    .enumerate()
                    .map(|own| numbered(InputSource::Pipeline, own)),
            )
            .chain(
                redirections
                    .enumerate()
                    .map(|own| numbered(InputSource::Redirection, own)),
            )
            .collect();
        // The inputs of what is inside of others follow those of the others.
        all.sort_by_key(|(span, source, _)| (std::cmp::Reverse(*span), *source));
        for (_, source, at) in all {
            match source {
                InputSource::Fed => self.follow_fed(script, at),
                InputSource::Pipeline => self.follow_pipeline(script, at),
                InputSource::Redirection => self.follow_redirection(script, at),
            }
        }
        self.follow_calls(script);
        let inputs = script.inputs.iter().zip(&mut script.facts);
        for (input, facts) in inputs {
            let downloads = |input: &Rc<InputStream>| input.content == StreamContent::Download;
            let is_outer = input.as_ref().is_some_and(downloads);
            if is_outer && matches!(facts.output, OutputRole::Passes { .. }) {
                facts.output = OutputRole::Downloads;
            }
        }
    }

    fn follow_fed(&self, script: &mut ScriptFacts, at: usize) {
        let Some(commands) = script.script.fed.get(at).cloned() else {
            return;
        };
        let content = match script.downloads(&(0..script.facts.len())) {
            true => StreamContent::Download,
            false => StreamContent::Local,
        };
        let input = Some(Rc::new(InputStream {
            content,
            holds_secret: false,
        }));
        script
            .inputs
            .get_mut(commands)
            .unwrap_or_default()
            .fill(input);
    }

    fn follow_pipeline(&self, script: &mut ScriptFacts, at: usize) {
        let stages = script.script.pipelines.get(at).cloned().unwrap_or_default();
        let Some(first) = stages.first() else {
            return;
        };
        let mut own = script.script.redirections.iter();
        let own = own.find(|input| is_standard(input) && input.commands == *first);
        let own = own.and_then(|input| self.redirected(script, input));
        let outer = || script.inputs.get(first.start).cloned().flatten();
        let outer = own.map(Rc::new).or_else(outer);
        let mut stream = outer.map_or(
            InputStream {
                content: StreamContent::Local,
                holds_secret: false,
            },
            |outer| (*outer).clone(),
        );
        for (number, stage) in stages.iter().enumerate() {
            if number > 0 {
                let inputs = script.inputs.get_mut(stage.clone());
                inputs
                    .unwrap_or_default()
                    .fill(Some(Rc::new(stream.clone())));
            }
            stream.holds_secret |= self.print_secret(script, stage);
            stream.content = self.output_of(script, stage, stream.content);
        }
    }

    /// Returns what a stage of a pipeline prints when it reads `input`.
    fn output_of(
        &self,
        script: &ScriptFacts,
        stage: &Range<usize>,
        input: StreamContent,
    ) -> StreamContent {
        let facts = script.facts.get(stage.clone()).unwrap_or_default();
        let single = match facts {
            [facts] => Some(&facts.output),
            _ => None,
        };
        match (single, input) {
            _ if script.downloads(stage) || self.prints_download(script, stage) => {
                StreamContent::Download
            }
            (Some(OutputRole::Constant(text)), _) => StreamContent::Text(text.clone()),
            // A file that is not a download is not judged where it is redirected, but where it is piped.
            (_, StreamContent::File(_)) => StreamContent::Local,
            (Some(OutputRole::Passes { changes: false }), input) => match input {
                StreamContent::Here(text) if text.contains(UNKNOWN) => StreamContent::Local,
                StreamContent::Here(text) => StreamContent::Text(text),
                input => input,
            },
            (_, StreamContent::Download) => StreamContent::Download,
            _ => StreamContent::Local,
        }
    }

    fn follow_redirection(&self, script: &mut ScriptFacts, at: usize) {
        let redirections = script.script.redirections.get(at);
        let Some(redirection) = redirections.filter(|own| is_standard(own)) else {
            return;
        };
        let Some(stream) = self.redirected(script, redirection) else {
            return;
        };
        let reach = script.reach_of(redirection);
        let process = redirection.target.substitutions().next();
        let process = process.map_or(0..0, |(commands, _)| commands);
        let stream = Some(Rc::new(stream));
        let inputs = script.inputs.iter_mut().enumerate();
        for (at, input) in inputs {
            if reach.contains(&at) && !process.contains(&at) {
                input.clone_from(&stream);
            }
        }
    }

    /// Returns what a redirection reads.
    pub(super) fn redirected(
        &self,
        script: &ScriptFacts,
        redirection: &Redirection,
    ) -> Option<InputStream> {
        let target = self.value(&redirection.target);
        let mut substitutions = redirection.target.substitutions();
        let process = substitutions.find(|(_, is_process)| *is_process);
        let downloads = || self.word_downloads(script, &redirection.target);
        let function = script.function_of(redirection.commands.start);
        let names_private = |name| self.names_private(function, name);
        let mut holds_secret = self.holds_secret(script, &redirection.target)
            || redirection.operator == "<" && redirection.target.variables().any(names_private);
        let content = match (redirection.operator.as_str(), process) {
            ("<<" | "<<-" | "<<<", _) => match downloads() {
                true => StreamContent::Download,
                false => StreamContent::Here(target),
            },
            ("<&", _) => {
                return self.redirected(
                    script,
                    script.opened(target.parse().ok()?, redirection.commands.start)?,
                );
            }
            (_, Some((process, _))) => {
                let facts = script.facts.get(process).unwrap_or_default();
                match facts {
                    _ if downloads() => StreamContent::Download,
                    [facts] => match &facts.output {
                        OutputRole::Constant(text) => StreamContent::Text(text.clone()),
                        _ => StreamContent::Local,
                    },
                    _ => StreamContent::Local,
                }
            }
            _ if is_connection(&target) || downloads() => StreamContent::Download,
            _ if target == "/dev/stdin" || descriptor_of(&target) == Some(0) => return None,
            _ => {
                holds_secret |= self.is_private_file(&target);
                StreamContent::File(target)
            }
        };
        Some(InputStream {
            content,
            holds_secret,
        })
    }

    /// Gives the commands of functions the inputs of their calls.
    fn follow_calls(&self, script: &mut ScriptFacts) {
        let functions = &script.script.functions;
        let inputs = &mut script.inputs;
        for _ in 0..functions.len().min(MAX_CALLS) {
            for FunctionSyntax { name, body, .. } in functions {
                let calls =
                    script.facts.iter().enumerate().filter(|(at, facts)| {
                        facts.values.first() == Some(name) && !body.contains(at)
                    });
                let mut calls = calls.filter_map(|(at, _)| inputs.get(at)?.clone());
                let (Some(first), rest) = (calls.next(), calls) else {
                    continue;
                };
                // The worst of several.
                let is_download =
                    |input: &Rc<InputStream>| input.content == StreamContent::Download;
                let input = rest.fold(first, |worst, input| match is_download(&worst) {
                    true => worst,
                    false if is_download(&input) || input.holds_secret => input,
                    false => worst,
                });
                for own in inputs.get_mut(body.clone()).unwrap_or_default() {
                    let is_outer = own.is_none() || *own == self.outer_input;
                    if is_outer {
                        *own = Some(input.clone());
                    }
                }
            }
        }
    }

    /// Judges what commands do with their inputs.
    pub(super) fn run_inputs(&mut self, script: &ScriptFacts) {
        self.input = None;
        for (facts, input) in script.facts.iter().zip(&script.inputs) {
            if let Some(input) = input {
                self.run_input(facts, input);
            }
        }
    }

    /// Judges what a command that another one runs does with the input of that one.
    pub(super) fn run_inner_input(&mut self, arguments: &[String]) {
        let Some(input) = self.input.take() else {
            return;
        };
        self.run_input(&CommandFacts::new(arguments.to_vec()), &input);
        self.input = Some(input);
    }

    fn run_input(&mut self, facts: &CommandFacts, input: &InputStream) {
        self.run_stream(facts, &input.content);
        if input.holds_secret && sends_input(facts) {
            self.findings.add_grave(Destroys, SENDS_SECRET);
        }
    }

    /// Sets the input of the command that is judged next.
    pub(super) fn set_input(&mut self, script: &ScriptFacts, command: usize) {
        self.input = script.inputs.get(command).cloned().flatten();
    }
}
