//! The built-in tools that work on files and commands, end to end: a real daemon, a scripted model and a scripted client.

mod changes;
mod coding;
mod escapes;
mod python;
mod reads;
mod shell;

use std::fs;
use std::path::PathBuf;

use aish::protocol::tools::{ApprovalRequest, ApprovalVerdict};
use aish::protocol::{AskRequest, Request};
use serde_json::Value;

use crate::fakes::provider::Script;
use crate::support::helper::Helper;
use crate::support::shell_id;
use crate::tools::Client;

/// A home with a project, which is a git repository, and a model with a script.
pub struct Work {
    pub helper: Helper,
}

impl Work {
    /// Starts with these answers of the model, and `more` appended to the configuration.
    pub fn new(script: impl IntoIterator<Item = Script>, more: &str) -> Work {
        Work::with(Helper::new(script), more)
    }

    /// Starts with the provider of this helper.
    pub fn with(helper: Helper, more: &str) -> Work {
        helper.config(&format!("[tools]\nbuiltin = true\n{more}"));
        let work = Work { helper };
        fs::create_dir_all(work.path(".git")).expect("a project");
        fs::write(work.path(".git/HEAD"), "ref: refs/heads/main\n").expect("a file");
        work.helper.call(["start"]).run().ok();
        work
    }

    /// A model that makes one call of each list per answer, and then says "done".
    pub fn calling(calls: &[(&str, Value)], more: &str) -> Work {
        let mut script: Vec<Script> = Vec::new();
        for (n, (tool, arguments)) in calls.iter().enumerate() {
            let id = format!("c{n}");
            script.push(Script::calls("", &[(&id, tool, &arguments.to_string())]));
        }
        script.push(Script::tokens(["done"]));
        Work::new(script, more)
    }

    /// A path in the project.
    pub fn path(&self, name: &str) -> PathBuf {
        let project = self.helper.home.path("project");
        let project = match project.exists() {
            true => project.canonicalize().expect("a path"),
            false => project,
        };
        project.join(name)
    }

    /// Writes a file of the project.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("a file")
    }

    /// Sends a prompt of the shell `s1` in the project.
    pub fn ask(&self, words: &str) -> Client {
        self.ask_as(AskRequest {
            text: words.to_owned(),
            can_answer: true,
            ..AskRequest::default()
        })
    }

    pub fn ask_as(&self, ask: AskRequest) -> Client {
        let path = std::env::var("PATH").unwrap_or_default();
        let ask = AskRequest {
            shell: Some(shell_id("s1")),
            cwd: match ask.cwd.as_str() {
                "" => self
                    .path("")
                    .display()
                    .to_string()
                    .trim_end_matches('/')
                    .to_owned(),
                cwd => cwd.to_owned(),
            },
            work_env: [("PATH".to_owned(), path)].into(),
            ..ask
        };
        Client::request(&self.helper, &Request::Ask(Box::new(ask)))
    }

    /// The results that the model got, in the last request.
    pub fn results(&self) -> Vec<String> {
        let requests = self.helper.provider.requests();
        let messages = requests.last().expect("a request").json["messages"].as_array();
        messages
            .expect("messages")
            .iter()
            .filter(|m| m["role"] == "tool")
            .map(|m| m["content"].as_str().expect("text").to_owned())
            .collect()
    }

    /// The names of the tools in a request.
    pub fn offered(&self, request: usize) -> Vec<String> {
        let requests = self.helper.provider.requests();
        let tools = requests[request].json["tools"].as_array().cloned();
        let tools = tools.unwrap_or_default();
        let name = |tool: &Value| {
            tool["function"]["name"]
                .as_str()
                .expect("a name")
                .to_owned()
        };
        tools.iter().map(name).collect()
    }
}

/// Answers every question with this verdict until the turn ends; returns the questions.
pub fn answer_all(client: &mut Client, verdict: &ApprovalVerdict) -> Vec<ApprovalRequest> {
    let mut questions = Vec::new();
    while let Some(question) = client.next_question() {
        client.say(&question, verdict.clone());
        questions.push(question);
    }
    questions
}

/// The difference of a question as lines of a unified diff.
pub fn difference(question: &ApprovalRequest) -> Vec<String> {
    let lines = question.effect.difference.iter();
    lines
        .map(|line| format!("{}{}", line.sign, line.text))
        .collect()
}
