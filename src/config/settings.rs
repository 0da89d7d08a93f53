//! The settings of the program, one declaration each, except for those of models (`model`) and MCP servers (`mcp`).
//!
//! To add a setting, add its declaration to a section here and use its field; `docs/dev/how-to/setting.md` has the
//! steps.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use super::continue_setting::ContinueSetting;
use super::http_settings::HttpSettings;
use super::mcp::ServerSettings;
use super::model::{ModelSettings, no_such_model};
use super::policy_rules::{AutoApprovals, PolicyRules};
use super::sandbox_setting::SandboxSetting;
use super::section::section;
use super::setting_types::word_setting;
use super::share_settings::ShareSettings;
use super::table_reader::TableReader;
use super::toolsets::{ToolSelection, Toolsets};
use super::value_checks::{
    check_context_variable, check_model_name, check_program_name, check_search_url,
    check_server_alias, check_session_prefix,
};
use crate::error::{Error, Result};
use crate::safety::budget::Amounts;
use crate::safety::policy::{DefaultRule, RuleEffect, RuleSet};

section! {
    /// The configuration in force.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config in "" {
        /// The model to use unless `llm -m NAME` or `AISH_MODEL` says otherwise. With a single model it need not be set.
        default_model: Option<String> = None, example("\"local\"");
        /// Instructions for the model, in place of the built-in ones. This also replaces the part that explains `CMD:`
        /// lines, so the model proposes no commands unless your text asks for it.
        system_prompt: Option<String> = None, variable("AISH_SYSTEM_PROMPT"), example("\"Answer in one sentence.\"");
        /// Instructions for the model that follow the built-in ones.
        system_append: Option<String> = None, example("\"Prefer ripgrep to grep.\"");
        /// The [prompt pack](prompts.md) that is used unless `--prompt` or the session says otherwise.
        default_prompt: Option<String> = None, example("\"@coding\"");
        /// The tools that are offered unless `--tools` or the session says otherwise: server aliases, tools, patterns and
        /// `@toolsets` with commas between them, or `none`. Unset, all tools are offered.
        default_tools: Option<String> = None, example("\"@minimal,tracker\"");
        /// The models, by the names that you choose.
        models: BTreeMap<String, ModelSettings> = BTreeMap::new(), check(check_model_name), example("local");
        /// Proposed commands.
        shell: ShellSettings = ShellSettings::default();
        /// The context of a prompt.
        context: ContextSettings = ContextSettings::default();
        /// The journal.
        history: HistorySettings = HistorySettings::default();
        /// Recordings.
        record: RecordSettings = RecordSettings::default();
        /// MCP.
        mcp: McpSettings = McpSettings::default();
        /// Tools.
        tools: ToolSettings = ToolSettings::default();
        /// Named selections of tools, used as `llm --tools @NAME`: patterns of `alias.tool`, in which `*` stands for any
        /// characters. A selection narrows what is offered and allows nothing.
        toolsets: Toolsets = Toolsets::default(), example("minimal = [\"files.read_*\", \"git.*\"]");
        /// Intents that the model declares for its calls.
        intent_declaration: IntentSettings = IntentSettings::default();
        /// Models for certain jobs.
        jobs: JobSettings = JobSettings::default();
        /// What requests to models may cost.
        budget: BudgetSettings = BudgetSettings::default();
        /// What is shown.
        ui: UiSettings = UiSettings::default();
        /// The HTTP API and the page.
        server: HttpSettings = HttpSettings::default();
        /// Sharing.
        share: ShareSettings = ShareSettings::default(), in_project();
        /// The launcher `aish`.
        tmux: TmuxSettings = TmuxSettings::default();
        /// Permissions.
        approvals: PolicySettings = PolicySettings::default(), key("policy"), in_project();
    }
    derived {
        /// The rules of `[policy]` and `[mcp.auto_approve]`; for a prompt, those of its projects too.
        policy: RuleSet = RuleSet::default();
        /// The file that was read.
        file: Option<PathBuf> = None;
        /// Names of models that are left out because a change of theirs waits for a confirmation.
        unconfirmed_models: BTreeSet<String> = BTreeSet::new();
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
        /// Ask before a proposed command runs. Commands of a background answer are always asked about.
        confirm_cmd: bool = true, variable("AISH_CONFIRM_CMD");
        /// Whether the output of a command goes back to the model as soon as the command has ended, so that it proposes the next
        /// one: `ask` offers that with the key c, with `always` the key y does the same, and with `never` the output waits for the
        /// next prompt. You are still asked about each command, and after `max_tool_depth` commands aish waits for your next prompt.
        continuation: ContinueSetting = ContinueSetting::Ask, key("continue");
        /// How much of a command's output is kept, in bytes: the beginning and the end.
        output_bytes: usize = 16_384, range(256, 1_048_576);
        /// More programs that need the terminal itself, so that their output is not captured. Common editors, pagers and
        /// monitors are built in; `config show` lists them together with yours.
        terminal_programs: Vec<String> = owned(TERMINAL_PROGRAMS), added_to_default(), check(check_program_name);
    }
}

section! {
    /// Information about the shell that is sent with each prompt.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ContextSettings in "context" {
        /// The number of recent commands that are sent with each prompt. `0` sends none.
        commands: usize = 10, range(0, 100), variable("AISH_CONTEXT_COMMANDS");
        /// The maximum size of the output of the last command that is sent with a prompt, in bytes: half of it from the
        /// beginning, half from the end. It is sent if the command failed or the prompt is about it. `0` sends none.
        output_bytes: usize = 4096, range(0, 262_144);
        /// The environment variables whose values are sent with each prompt.
        env: Vec<String> = owned(CONTEXT_VARIABLES), check(check_context_variable);
        /// Send the operating system, its distribution and the name of the shell.
        system: bool = true;
        /// Send the date.
        date: bool = true;
        /// Send the branch of the git repository of the current directory, and how many files are changed and untracked.
        git: bool = true;
        /// Send `AGENTS.md` or `CLAUDE.md`: the nearest one in the current directory and above it in the git repository, up to
        /// 16 KiB, as information about the project.
        project_file: bool = true;
    }
}

section! {
    /// The journal of sessions, commands and tool calls. Whole sessions are deleted, the oldest first, once one
    /// of the limits is exceeded.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct HistorySettings in "history" {
        /// Sync every record to the disk. With `false`, only the records that must be on disk before a call or command
        /// runs are synced.
        sync: bool = true;
        /// The maximum age of a record, in days.
        max_days: u32 = 90, range(1, 36_500);
        /// The maximum number of records.
        max_records: u64 = 100_000, range(1, 4_000_000_000);
        /// The maximum size of the journal, in bytes.
        // The minimum keeps a number that was meant as megabytes from deleting everything.
        max_bytes: u64 = 268_435_456, range(1_048_576, 4_000_000_000);
    }
}

section! {
    /// Recordings of what shells print. They stay on this machine. The oldest are deleted once one of the limits is exceeded.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RecordSettings in "record" {
        /// `"tmux"` records the panes of tmux in which a shell with the plugin runs, `"off"` only what `aish-helper record`
        /// and `aish --no-tmux` run. A pane whose output you pipe somewhere yourself is never recorded.
        panes: RecordedPanes = RecordedPanes::Off;
        /// The maximum age of a recording, in days.
        max_days: u32 = 30, range(1, 36_500);
        /// The maximum size of all recordings, in bytes. A single recording also stops at this size.
        // The minimum keeps a number that was meant as megabytes from deleting everything.
        max_bytes: u64 = 1_073_741_824, range(1_048_576, 1_000_000_000_000);
    }
}

/// Which terminals are recorded without being asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedPanes {
    /// None.
    Off,
    /// The panes of tmux.
    Tmux,
}

impl RecordedPanes {
    /// Returns the value as written in the file.
    pub fn word(self) -> &'static str {
        match self {
            RecordedPanes::Off => "off",
            RecordedPanes::Tmux => "tmux",
        }
    }
}

word_setting!(
    RecordedPanes,
    [RecordedPanes::Off, RecordedPanes::Tmux],
    RecordedPanes::word
);

section! {
    /// Limits of tool calls, and the MCP servers.
    #[derive(Debug, Clone, PartialEq)]
    pub struct McpSettings in "mcp" {
        /// The maximum number of rounds of tool calls for one prompt, and of commands run in a row with the key c.
        max_tool_depth: u32 = 8, range(1, 100);
        /// The maximum size of a tool result that is sent to the model, in bytes.
        max_result_bytes: usize = 65_536, range(1_024, 16_777_216);
        /// The MCP servers, by the aliases that you choose: 1 to 20 of the characters `a-z 0-9 -`.
        servers: BTreeMap<String, ServerSettings> = BTreeMap::new(), check(check_server_alias), example("tracker");
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
        exposure: ExposureSetting = ExposureSetting::Auto;
        /// With `"auto"`, the number of tools from which `"split"` is used.
        split_threshold: usize = 40, range(1, 10_000);
        /// Offer the built-in tools, which work on files, run commands, and read git repositories and web pages. What they may
        /// do without a question is decided by `[policy.rules]`.
        builtin: bool = true;
        /// What commands of the tool `shell` can change: `"workspace"` lets commands write in the workspace, `"read-only"` only in a
        /// temporary directory of their own. With `"off"` commands run without a sandbox, and each is asked about.
        sandbox: SandboxSetting = SandboxSetting::Workspace;
        /// The address of a SearXNG server, with which the tool `search` searches the web. Its JSON format must be switched on.
        search_url: Option<String> = None, check(check_search_url), example("\"http://127.0.0.1:8888\"");
    }
}

impl ToolSettings {
    /// Returns whether this number of tools is offered in split mode.
    pub fn splits(&self, tools: usize) -> bool {
        match self.exposure {
            ExposureSetting::Direct => false,
            ExposureSetting::Split => tools > 0,
            ExposureSetting::Auto => tools >= self.split_threshold,
        }
    }
}

/// How a model sees the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExposureSetting {
    /// Each tool with its schema.
    Direct,
    /// A few tools through which the model finds and calls the others.
    Split,
    /// Direct or split, depending on the number of tools.
    Auto,
}

impl ExposureSetting {
    /// Returns the value as written in the file.
    pub fn word(self) -> &'static str {
        match self {
            ExposureSetting::Direct => "direct",
            ExposureSetting::Split => "split",
            ExposureSetting::Auto => "auto",
        }
    }
}

word_setting!(
    ExposureSetting,
    [
        ExposureSetting::Direct,
        ExposureSetting::Split,
        ExposureSetting::Auto
    ],
    ExposureSetting::word
);

section! {
    /// Models for jobs other than prompts.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct JobSettings in "jobs" {
        /// The model that turns the words on the command line into a command (Alt-a) and corrects a command (`llm :fix`), by
        /// its name. Unset, it is the model of the shell.
        command: Option<String> = None, example("\"local\"");
    }
}

section! {
    /// Limits of what requests to models may cost, in US dollars. A request that could exceed a limit is not sent, and near a limit the
    /// length of its answer is restricted. With a limit, the price of the model must be known.
    #[derive(Debug, Clone, PartialEq)]
    pub struct BudgetSettings in "budget" {
        /// The limit of one prompt, with all its tool calls.
        prompt: Option<f64> = None, range(0, 1_000_000), example("0.50");
        /// The limit of one session.
        session: Option<f64> = None, range(0, 1_000_000), example("2");
        /// The limit of one day, in local time.
        day: Option<f64> = None, range(0, 1_000_000), example("5");
        /// The limit of one calendar month, in local time.
        month: Option<f64> = None, range(0, 1_000_000), example("50");
    }
}

impl BudgetSettings {
    /// The limits in the order of [`crate::safety::budget::BudgetPeriod::ALL`].
    pub fn limits(&self) -> Amounts<Option<f64>> {
        [self.prompt, self.session, self.day, self.month]
    }
}

section! {
    /// What is shown on the terminal.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct UiSettings in "ui" {
        /// The cost line after an answer: `"auto"` shows it on a terminal unless the answer is free, `"always"` also for free
        /// answers and when the output is redirected, `"never"` not at all.
        cost: CostSetting = CostSetting::Auto;
    }
}

section! {
    /// The tmux sessions of [`aish`](launcher.md).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TmuxSettings in "tmux" {
        /// The name of a session that `aish` starts; outside the home directory, the name of the directory is appended.
        session_prefix: String = "aish".to_owned(), check(check_session_prefix);
        /// Attach a detached session that was started in this directory; in the home directory, the one that was used last.
        /// With `false`, `aish` always starts a new session.
        attach_on_start: bool = true;
    }
}

/// When the cost of an answer is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CostSetting {
    /// On a terminal, unless the answer is free.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl CostSetting {
    /// Returns the value as written in the file.
    pub fn word(self) -> &'static str {
        match self {
            CostSetting::Auto => "auto",
            CostSetting::Always => "always",
            CostSetting::Never => "never",
        }
    }
}

word_setting!(
    CostSetting,
    [CostSetting::Auto, CostSetting::Always, CostSetting::Never],
    CostSetting::word
);

section! {
    /// Intents that the model declares for its calls.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct IntentSettings in "intent_declaration" {
        /// Reject a call whose server annotations are more severe than the operation that the model declares. With `false`
        /// the user gets a warning instead.
        strict_server_validation: bool = true;
    }
}

section! {
    /// Permissions. `"deny"` takes precedence over `"ask"`, and `"ask"` over `"allow"`, in whatever order the rules are
    /// written. A project's `.aish.toml` can have `default` and `rules` too; there they only add `"ask"` and `"deny"`.
    #[derive(Debug, Clone, PartialEq)]
    pub struct PolicySettings in "policy" {
        /// The decision for a call that no rule matches.
        default: RuleEffect = RuleEffect::Ask, in_project();
        /// How long a question waits while no attached terminal can answer it (a question of a background turn, or one for a paired browser). After that, the call is denied.
        wait: Duration = Duration::from_secs(600), range(1, 604_800);
        /// Rules, by subject. A rule never allows a call to a server that was connected by hand. The subjects:
        /// - `"alias.tool"`: a tool;
        /// - `"alias.*"`: all tools of a server;
        /// - `"op:read"`, `"op:write"`, `"op:destructive"`: calls by their operation;
        /// - `"sensitivity:private"` and the like: calls by the data they declare (`"ask"` or `"deny"`);
        /// - `shell`: proposed commands and the tool `shell`;
        /// - `"fs.read"`, `"fs.write"`: reading and changing files by the built-in tools, and writing to this file;
        /// - `network`: reading web pages, and connecting to servers that are not in this file;
        /// - `"aish.NAME"`, `"helper.NAME"`: a built-in tool, a Python helper;
        /// - `"shell.output"`: sending the output of a command to the model. `"deny"` also keeps back what would go along with a prompt, and the output of approved commands, unless `llm --output` sends it.
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
    if let Some(text) = &config.default_tools
        && let Err(e) = ToolSelection::parse(text, &config.toolsets)
    {
        reader.fault_at("default_tools", e.message);
    }
    let names = || config.models.keys().map(String::as_str);
    if let Some(name) = &config.jobs.command
        && !config.models.contains_key(name)
        && let Some(jobs) = reader.table("jobs")
    {
        jobs.fault_at("command", no_such_model(name, names()));
    }
    let tables = reader.table("models");
    for (name, model) in &config.models {
        let table = tables.as_ref().and_then(|models| models.table(name));
        let unknown = |fallback: &&String| !config.models.contains_key(*fallback);
        if let (Some(table), Some(fallback)) = (table, model.fallback.iter().find(unknown)) {
            table.fault_at("fallback", no_such_model(fallback, names()));
        }
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

impl Config {
    /// Returns the model of that name.
    ///
    /// # Errors
    /// The model does not exist; the message has the most similar name.
    pub fn model(&self, name: &str) -> Result<&ModelSettings> {
        self.models
            .get(name)
            .ok_or_else(|| self.missing_model(name))
    }

    /// Returns the error for a model that is not there, or is not in force.
    pub fn missing_model(&self, name: &str) -> Error {
        match self.unconfirmed_models.contains(name) {
            true => Error::config(format!(
                "the configuration of model {name} waits for a confirmation"
            ))
            .hint("to see and confirm it, run llm in a terminal"),
            false => {
                let names = self.models.keys().map(String::as_str);
                let list = "see them with: aish-helper model list";
                let hint = match &self.default_model {
                    Some(server) if !name.contains('/') => {
                        format!("{list}; another model of the server of {server}: {server}/{name}")
                    }
                    _ => list.to_owned(),
                };
                Error::config(no_such_model(name, names)).hint(hint)
            }
        }
    }

    /// Returns the model for a request that names none, or `None` if no model is configured.
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
