//! The settings of the program, one declaration each, except for those of models (`model`) and MCP servers (`mcp`).
//!
//! To add a setting, add its declaration to a section here and use its field; `docs/dev/how-to/setting.md` has the
//! steps.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::mcp::ServerSettings;
use super::model::ModelSettings;
use super::policy_rules::{AutoApprovals, PolicyRules};
use super::section::section;
use super::setting_types::word_setting;
use super::table_reader::{TableReader, shown_key};
use super::value_checks::{
    check_alias, check_context_variable, check_model_name, check_program_name, nearest_name,
};
use crate::error::{Error, Result};
use crate::safety::policy::{DefaultRule, RuleEffect, RuleSet};

section! {
    /// The configuration in force.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config in "" {
        /// The model to use unless `llm -m NAME` or `AISH_MODEL` says otherwise. With a single model it need not be set.
        default_model: Option<String> = None, example("\"local\"");
        /// Instructions for the model, in place of the built-in ones, the part about `CMD:` lines included.
        system_prompt: Option<String> = None, variable("AISH_SYSTEM_PROMPT"), example("\"Answer in one sentence.\"");
        /// The models, by the names that you choose.
        models: BTreeMap<String, ModelSettings> = BTreeMap::new(), check(check_model_name), example("local");
        /// Proposed commands.
        shell: ShellSettings = ShellSettings::default();
        /// The context of a prompt.
        context: ContextSettings = ContextSettings::default();
        /// The journal.
        history: HistorySettings = HistorySettings::default();
        /// MCP.
        mcp: McpSettings = McpSettings::default();
        /// Tools.
        tools: ToolSettings = ToolSettings::default();
        /// Declarations of calls.
        intent_declaration: IntentSettings = IntentSettings::default();
        /// Permissions.
        approvals: PolicySettings = PolicySettings::default(), key("policy"), in_project();
    }
    derived {
        /// The rules of `[policy]` and `[mcp.auto_approve]`; for a prompt, those of its projects too.
        policy: RuleSet = RuleSet::default();
        /// The file that was read.
        file: Option<PathBuf> = None;
    }
    finish finish_config;
}

/// Programs that draw on the terminal or read from it, so that their output cannot be captured.
const TERMINAL_PROGRAMS: &[&str] = &[
    "btop", "emacs", "fzf", "gdb", "helix", "htop", "hx", "info", "ipython", "kak", "lazygit",
    "less", "lldb", "lynx", "man", "mc", "micro", "more", "most", "mutt", "mysql", "nano", "ncdu",
    "neomutt", "nnn", "nvim", "psql", "ranger", "screen", "sqlite3", "ssh", "telnet", "tig",
    "tmux", "top", "vi", "view", "vim", "vimdiff", "watch", "w3m", "yazi", "zellij",
];

/// Variables that explain why a command works in one shell and fails in another. None holds a secret.
const CONTEXT_VARIABLES: &[&str] = &[
    "VIRTUAL_ENV",
    "CONDA_DEFAULT_ENV",
    "AWS_PROFILE",
    "KUBECONFIG",
    "DOCKER_CONTEXT",
    "NODE_ENV",
    "LANG",
];

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

section! {
    /// Commands that the model proposes, and their output.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ShellSettings in "shell" {
        /// Ask before a proposed command runs.
        confirm_cmd: bool = true, variable("AISH_CONFIRM_CMD");
        /// How much of a command's output is kept, in bytes: the beginning and the end.
        output_bytes: usize = 16_384, range(256, 1_048_576);
        /// More programs that need the terminal itself, so that their output is not captured. Editors, pagers and the
        /// like are built in.
        terminal_programs: Vec<String> = owned(TERMINAL_PROGRAMS), added_to_default(), check(check_program_name);
    }
}

section! {
    /// What the model is told about the shell.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ContextSettings in "context" {
        /// How many of the last commands the model is told. 0 is none.
        commands: usize = 10, range(0, 100), variable("AISH_CONTEXT_COMMANDS");
        /// The environment variables whose values the model is told.
        env: Vec<String> = owned(CONTEXT_VARIABLES), check(check_context_variable);
    }
}

section! {
    /// The journal of conversations, commands and tool calls. Whole conversations are deleted, the oldest first, once one
    /// of the limits is exceeded.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct HistorySettings in "history" {
        /// Sync every record to the disk. With `false`, only the records that must exist before an act are synced.
        sync: bool = true;
        /// The greatest age of a record, in days.
        max_days: u32 = 90, range(1, 36_500);
        /// The greatest number of records.
        max_records: u64 = 100_000, range(1, 4_000_000_000);
        /// The greatest size of the journal, in bytes.
        // The least value keeps a number that was meant as megabytes from deleting everything.
        max_bytes: u64 = 268_435_456, range(1_048_576, 4_000_000_000);
    }
}

section! {
    /// Limits of tool calls, and the MCP servers.
    #[derive(Debug, Clone, PartialEq)]
    pub struct McpSettings in "mcp" {
        /// How many rounds of tool calls one prompt may take.
        max_tool_depth: u32 = 8, range(1, 100);
        /// How much of one tool result the model gets, in bytes.
        max_result_bytes: usize = 65_536, range(1_024, 16_777_216);
        /// The MCP servers, by the aliases that you choose: 1 to 20 of the characters `a-z 0-9 -`.
        servers: BTreeMap<String, ServerSettings> = BTreeMap::new(), check(check_alias), example("tracker");
        /// Rules for tools in a shorter form: `true` allows, `false` asks. The names are those of `policy.rules`.
        auto_approve: AutoApprovals = AutoApprovals::default(), example("\"tracker.get_issue\" = true");
    }
}

section! {
    /// How tools are offered to models.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ToolSettings in "tools" {
        /// `"direct"` offers every tool with its schema, `"split"` offers a few tools through which the model finds and
        /// calls the others, `"auto"` decides by `split_threshold`.
        exposure: ToolExposure = ToolExposure::Auto;
        /// With `"auto"`, the number of tools from which on they are split.
        split_threshold: usize = 40, range(1, 10_000);
    }
}

impl ToolSettings {
    /// Returns whether this number of tools is offered through a few.
    pub fn splits(&self, tools: usize) -> bool {
        match self.exposure {
            ToolExposure::Direct => false,
            ToolExposure::Split => tools > 0,
            ToolExposure::Auto => tools >= self.split_threshold,
        }
    }
}

/// How a model sees the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolExposure {
    /// Each tool with its schema.
    Direct,
    /// A few tools, through which the model finds and calls the others.
    Split,
    /// By the number of tools.
    Auto,
}

impl ToolExposure {
    /// The word in the file.
    pub fn word(self) -> &'static str {
        match self {
            ToolExposure::Direct => "direct",
            ToolExposure::Split => "split",
            ToolExposure::Auto => "auto",
        }
    }
}

word_setting!(
    ToolExposure,
    [
        ToolExposure::Direct,
        ToolExposure::Split,
        ToolExposure::Auto
    ],
    ToolExposure::word
);

section! {
    /// What a model declares about its calls.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct IntentSettings in "intent_declaration" {
        /// Reject a call that its server rates as more harmful than the model declares. With `false` there is a warning.
        strict_server_validation: bool = true;
    }
}

section! {
    /// Permissions. `"deny"` takes precedence over `"ask"`, and `"ask"` over `"allow"`, in whatever order the rules are
    /// written. A project's `.aish.toml` can have `default` and `rules` too; there they only add `"ask"` and `"deny"`.
    #[derive(Debug, Clone, PartialEq)]
    pub struct PolicySettings in "policy" {
        /// What happens to a call for which there is no rule.
        default: RuleEffect = RuleEffect::Ask, in_project();
        /// How long a question of a background turn waits for an answer. Then it is denied.
        wait: Duration = Duration::from_secs(600), range(1, 604_800);
        /// Rules by what they are about: a tool `"alias.tool"`, all tools of a server `"alias.*"`, calls by their effect
        /// `"op:read"`, `"op:write"`, `"op:destructive"`, calls that declare data `"sensitivity:private"` (never
        /// `"allow"`), proposed commands `shell`, writing to this file `"fs.write"` (`"deny"` only), and connecting to
        /// servers that are not in this file `network` (`"deny"` only). Nothing is allowed by rule to a server that was
        /// connected by hand.
        rules: PolicyRules = PolicyRules::default(), in_project(),
            example("\"op:destructive\" = \"ask\"\n\"tracker.search\" = \"allow\"\nshell = \"ask\"\n\"fs.write\" = \"deny\"\nnetwork = \"deny\"");
    }
}

fn finish_config(config: &mut Config, reader: &TableReader<'_>) {
    if let Some(name) = &config.default_model
        && !config.models.contains_key(name)
    {
        let names = config.models.keys().map(String::as_str);
        reader.fault_at("default_model", no_such_model(name, names));
    }
    let mut list = std::mem::take(&mut config.mcp.auto_approve).0;
    list.extend(std::mem::take(&mut config.approvals.rules).0);
    config.policy = RuleSet {
        default: DefaultRule {
            effect: config.approvals.default,
            ..RuleSet::default().default
        },
        list,
        project: Vec::new(),
    };
}

/// The message for a model that does not exist, with the most similar name.
pub(super) fn no_such_model<'n>(
    name: &str,
    names: impl IntoIterator<Item = &'n str> + Clone,
) -> String {
    let shown = shown_key(name);
    match nearest_name(name, names.clone()) {
        Some(near) => format!("no model is named {shown}; did you mean {near}?"),
        None => {
            let all: Vec<&str> = names.into_iter().collect();
            if all.is_empty() {
                format!("no model is named {shown}: no model is configured")
            } else {
                format!(
                    "no model is named {shown}; the models are {}",
                    all.join(", ")
                )
            }
        }
    }
}

impl Config {
    /// Returns the model of that name.
    ///
    /// # Errors
    /// The model does not exist; the message has the most similar name.
    pub fn model(&self, name: &str) -> Result<&ModelSettings> {
        self.models.get(name).ok_or_else(|| {
            let names = self.models.keys().map(String::as_str);
            Error::config(no_such_model(name, names)).hint("see them with: aish-helper model list")
        })
    }

    /// Returns the model to use where the request names none, or `None` if no model is configured.
    ///
    /// # Errors
    /// There are several models and none is the default.
    pub fn current(&self) -> Result<Option<&ModelSettings>> {
        match &self.default_model {
            Some(name) => self.model(name).map(Some),
            None if self.models.len() <= 1 => Ok(self.models.values().next()),
            None => {
                let names: Vec<&str> = self.models.keys().map(String::as_str).collect();
                Err(Error::config(format!(
                    "several models are configured and none is the default: {}",
                    names.join(", ")
                ))
                .hint("choose one with: aish-helper model use NAME"))
            }
        }
    }
}
