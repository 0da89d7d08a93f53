//! One turn as a pure state machine: what came from the model in, what is to
//! be done about it out. The driver does it.

use crate::chat::{Chunk, Finish, Usage};
use crate::error::{Error, Kind, Result};
use crate::history::record::Body;
use crate::protocol::{Answer, Event};

use super::proposals::{Filter, Piece};

/// What happened.
#[derive(Debug)]
pub enum Input {
    /// A part of the answer came.
    Chunk(Chunk),
    /// The request has ended, well or not; the person's Ctrl-C is [`Kind::Interrupted`].
    Ended(Result<Finish>),
}

/// What is to be done, in this order.
#[derive(Debug)]
pub enum Effect {
    /// Send text to the client.
    Text(String),
    /// Send an event to the client.
    Event(Event),
    /// Write the answer to the journal, before the client is told that the turn is over.
    Record(Body),
    /// The turn is over: offer these commands and send the reply.
    Reply(Answer, Vec<String>),
    /// The turn has failed: send the failure.
    Fail(Error),
}

/// What a turn is told at its start.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The session's id.
    pub session: String,
    /// The model's name in the config.
    pub model_name: String,
    /// The model's name at the provider.
    pub model: String,
    /// US dollars per million tokens in and out.
    pub price: Option<(f64, f64)>,
}

/// The state of a turn.
#[derive(Debug)]
pub struct Turn {
    setting: Setting,
    filter: Filter,
    text: String,
    proposals: Vec<String>,
    usage: Option<Usage>,
}

impl Turn {
    /// A turn whose request is about to be sent.
    pub fn new(setting: Setting) -> Turn {
        Turn {
            setting,
            filter: Filter::default(),
            text: String::new(),
            proposals: Vec::new(),
            usage: None,
        }
    }

    /// Takes one input; `ms` is the time since the turn began.
    pub fn handle(&mut self, input: Input, ms: u64) -> Vec<Effect> {
        match input {
            Input::Chunk(Chunk::Text(text)) => {
                self.text.push_str(&text);
                let mut effects = Vec::new();
                self.filter.push(&text, &mut |piece| {
                    effects.push(effect(piece, &mut self.proposals))
                });
                effects
            }
            Input::Chunk(Chunk::Usage(usage)) => {
                self.usage = Some(usage);
                Vec::new()
            }
            Input::Chunk(Chunk::Model(model)) => {
                self.setting.model = model;
                Vec::new()
            }
            Input::Chunk(Chunk::Notice(text)) => vec![Effect::Event(Event::Notice { text })],
            Input::Chunk(_) => Vec::new(),
            Input::Ended(result) => self.end(result, ms),
        }
    }

    fn end(&mut self, result: Result<Finish>, ms: u64) -> Vec<Effect> {
        let mut effects = Vec::new();
        let proposals = &mut self.proposals;
        let mut take = |piece| effects.push(effect(piece, proposals));
        // Only an answer that the model ended itself may offer its last line as a command.
        match &result {
            Ok(Finish::Stop) => self.filter.finish(&mut take),
            _ => self.filter.cut_off(&mut take),
        }
        let (finish, failure) = match result {
            Ok(finish) => (finish.as_str(), None),
            Err(e) if e.kind == Kind::Interrupted => (Finish::Interrupted.as_str(), None),
            Err(e) => ("error", Some(e)),
        };
        effects.push(Effect::Record(Body::Assistant {
            text: std::mem::take(&mut self.text),
            calls: Vec::new(),
            model: self.setting.model_name.clone(),
            finish: finish.to_string(),
            error: failure.as_ref().map(|e| e.message.clone()),
            prompt_tokens: self.usage.map(|u| u.prompt_tokens),
            completion_tokens: self.usage.map(|u| u.completion_tokens),
            ms,
        }));
        effects.push(match failure {
            Some(e) => Effect::Fail(e),
            None => {
                let proposals = std::mem::take(&mut self.proposals);
                Effect::Reply(self.answer(finish, ms, proposals.len()), proposals)
            }
        });
        effects
    }

    fn answer(&self, finish: &str, ms: u64, proposals: usize) -> Answer {
        let cost = self
            .usage
            .zip(self.setting.price)
            .map(|(u, (input, output))| {
                (u.prompt_tokens as f64 * input + u.completion_tokens as f64 * output) / 1e6
            });
        Answer {
            session: self.setting.session.clone(),
            model: self.setting.model.clone(),
            finish: finish.to_string(),
            prompt_tokens: self.usage.map(|u| u.prompt_tokens),
            completion_tokens: self.usage.map(|u| u.completion_tokens),
            seconds: ms as f64 / 1000.0,
            cost,
            proposals,
        }
    }
}

fn effect(piece: Piece, proposals: &mut Vec<String>) -> Effect {
    match piece {
        Piece::Text(text) => Effect::Text(text),
        Piece::Command(command) => {
            proposals.push(command.clone());
            Effect::Event(Event::Proposal { command })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn() -> Turn {
        Turn::new(Setting {
            session: "s".into(),
            model_name: "tiny".into(),
            model: "tiny-1".into(),
            price: Some((1.0, 2.0)),
        })
    }

    fn text(s: &str) -> Input {
        Input::Chunk(Chunk::Text(s.into()))
    }

    #[test]
    fn an_answer_is_shown_recorded_and_replied_to() {
        let mut turn = turn();
        assert!(
            matches!(&turn.handle(text("Hi\nCMD: l"), 1)[..], [Effect::Text(t)] if t == "Hi\n")
        );
        assert!(
            matches!(&turn.handle(text("s\n"), 2)[..], [Effect::Event(Event::Proposal { command })] if command == "ls")
        );
        let usage = Usage {
            prompt_tokens: 1_000_000,
            completion_tokens: 500_000,
        };
        assert!(turn.handle(Input::Chunk(Chunk::Usage(usage)), 3).is_empty());
        let effects = turn.handle(Input::Ended(Ok(Finish::Stop)), 1500);
        let [
            Effect::Record(Body::Assistant { text, finish, .. }),
            Effect::Reply(answer, proposals),
        ] = &effects[..]
        else {
            panic!("{effects:?}")
        };
        assert_eq!((text.as_str(), finish.as_str()), ("Hi\nCMD: ls\n", "stop"));
        assert_eq!(proposals, &["ls"]);
        assert_eq!(
            (answer.cost, answer.seconds, answer.proposals),
            (Some(2.0), 1.5, 1)
        );
    }

    #[test]
    fn an_interrupted_answer_is_kept_and_offers_no_half_command() {
        let mut turn = turn();
        turn.handle(text("ok\nCMD: rm -rf /"), 1);
        let effects = turn.handle(
            Input::Ended(Err(Error::new(Kind::Interrupted, "stopped"))),
            9,
        );
        let [
            Effect::Text(rest),
            Effect::Record(Body::Assistant { text, finish, .. }),
            Effect::Reply(answer, proposals),
        ] = &effects[..]
        else {
            panic!("{effects:?}")
        };
        assert_eq!(rest, "CMD: rm -rf /");
        assert_eq!(
            (text.as_str(), finish.as_str()),
            ("ok\nCMD: rm -rf /", "interrupted")
        );
        assert!(proposals.is_empty());
        assert_eq!(answer.finish, "interrupted");
    }

    #[test]
    fn a_failure_is_recorded_before_it_is_told() {
        let mut turn = turn();
        turn.handle(text("half"), 1);
        let effects = turn.handle(Input::Ended(Err(Error::runtime("cut off"))), 9);
        let [
            Effect::Record(Body::Assistant { error, finish, .. }),
            Effect::Fail(e),
        ] = &effects[..]
        else {
            panic!("{effects:?}")
        };
        assert_eq!(
            (error.as_deref(), finish.as_str()),
            (Some("cut off"), "error")
        );
        assert_eq!(e.message, "cut off");
    }
}
