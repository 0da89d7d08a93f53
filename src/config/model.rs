//! `[models.NAME]`: the models and how to reach them.

use std::fmt;
use std::time::Duration;

use super::masking::{mask_command, mask_header};
use super::section::section;
use super::setting_types::word_setting;
use super::table_reader::TableReader;
use super::value_checks::{
    base_url, check_header, check_model_url, check_variable_name, is_public_header, nearest_name,
};
use crate::address;

/// The API of a model's server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProviderKind {
    /// Chat completions (`/chat/completions`), as served by most providers and local servers.
    #[default]
    Chat,
    /// The Responses API of OpenAI (`/responses`).
    OpenAi,
    /// The Messages API of Anthropic (`/messages`).
    Anthropic,
    /// The Gemini API of Google (`/models/MODEL:streamGenerateContent`).
    Gemini,
    /// Chat completions with the rules of Mistral.
    Mistral,
}

impl ProviderKind {
    /// Returns the value as written in the file.
    pub(super) fn word(self) -> &'static str {
        match self {
            ProviderKind::Chat => "chat",
            ProviderKind::OpenAi => "openai",
            ProviderKind::Anthropic => "anthropic",
            ProviderKind::Gemini => "gemini",
            ProviderKind::Mistral => "mistral",
        }
    }
}

word_setting!(
    ProviderKind,
    [
        ProviderKind::OpenAi,
        ProviderKind::Chat,
        ProviderKind::Anthropic,
        ProviderKind::Gemini,
        ProviderKind::Mistral
    ],
    ProviderKind::word
);

/// Where a model's key comes from.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum KeySource {
    /// No key.
    #[default]
    None,
    /// This environment variable.
    Env(String),
    /// The output of this command, run by `/bin/sh -c`.
    Cmd(String),
}

impl fmt::Debug for KeySource {
    /// Without the command, which may hold the key itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySource::None => f.write_str("None"),
            KeySource::Env(name) => write!(f, "Env({name})"),
            KeySource::Cmd(_) => f.write_str("Cmd"),
        }
    }
}

section! {
    /// A model. Its name is what `llm -m NAME`, `AISH_MODEL` and `default_model` use.
    #[derive(Clone, PartialEq)]
    pub struct ModelSettings in "models.NAME" {
        /// The API of the server. Unset, `api.openai.com` is `"openai"` (`/responses`), `api.anthropic.com` is `"anthropic"`
        /// (`/messages`), `generativelanguage.googleapis.com` is `"gemini"`, `api.mistral.ai` is `"mistral"`, and every other
        /// server is `"chat"` (both `/chat/completions`).
        provider: Option<ProviderKind> = None, example("\"anthropic\"");
        /// The address of the API, to which its path is added, such as `/chat/completions`. It must begin with `https://` where a key or a
        /// secret header is sent, unless the server is on this machine or has a numeric private address.
        base_url: String = String::new(), required("\"http://127.0.0.1:11434/v1\""), check(check_model_url);
        /// The name of the model on that server.
        model: String = String::new(), required("\"qwen3:8b\"");
        /// Additional headers of every request. Values of headers other than well-known harmless ones are masked.
        headers: Vec<(String, String)> = Vec::new(), check_entry(check_header), mask_entry(mask_header),
            example("X-Title = \"aish\"");
        /// The sampling temperature. Sent only if set.
        temperature: Option<f64> = None, range(0, 2), example("0.2");
        /// The maximum length of an answer, in tokens.
        max_tokens: Option<u32> = None, range(1, 10_000_000), example("4096");
        /// The size of the model's context window, in tokens.
        context_window: Option<u32> = None, range(256, 100_000_000), example("32768");
        /// The price of the model. Prices of many models are built in; this one replaces them.
        price: Option<PriceSettings> = None;
        /// The models that answer in this order if this one cannot be reached, is rate-limited for longer than 30
        /// seconds, or fails before any part of its answer has arrived.
        fallback: Vec<String> = Vec::new(), example("[\"local\"]");
        /// Send the results of tools in messages with the role `tool`. Set it to `false` for a model whose chat
        /// template rejects this role.
        use_tool_role: bool = true;
        /// Send images to the model: those attached with `-f`, and those that tools return.
        images: bool = false;
        /// A server on this machine, which aish starts when the model is used and stops when it is idle.
        serve: Option<LocalServer> = None;
        /// How long the server may be silent before the request fails, in seconds.
        idle_timeout: Duration = Duration::from_secs(120), key("timeout"), in_seconds(), range(1, 86_400);
    }
    derived {
        /// The name of the `[models.NAME]` table.
        name: String = String::new();
        /// Where the key comes from.
        key: KeySource = KeySource::None;
        /// Whether the model is another aish server, which has this name.
        is_aish_server: bool = false;
        /// The line of the table in the file; 0 if the model is not from the file.
        line: usize = 0;
        /// The line of `key_env` or `key_cmd` in the file; 0 if there is none.
        key_line: usize = 0;
    }
    finish finish_model, inputs KeySettings {
        /// The name of the environment variable that holds the key.
        key_env: Option<String> = None, check(check_variable_name), example("\"OPENAI_API_KEY\"");
        /// A command that prints the key, run by `/bin/sh -c`. Cannot be combined with `key_env`.
        key_cmd: Option<String> = None, mask(mask_command), alternative("\"pass show openai\"");
    };
}

impl fmt::Debug for ModelSettings {
    /// Without headers and commands: they may hold secrets, and this output is logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelSettings")
            .field("name", &self.name)
            .field("base_url", &self.base_url)
            .field("model", &self.model)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

section! {
    /// The price of a model, in US dollars per million tokens.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct PriceSettings in "models.NAME.price" {
        /// Dollars per million tokens of the request.
        input: f64 = 0.0, range(0, 100_000), required("0.40");
        /// Dollars per million tokens of the answer.
        output: f64 = 0.0, range(0, 100_000), required("1.60");
        /// Dollars per million tokens of the request that are read from the provider's cache, if that differs.
        cache_read: Option<f64> = None, range(0, 100_000), example("0.10");
        /// Dollars per million tokens of the request that are written to the provider's cache, if that differs.
        cache_write: Option<f64> = None, range(0, 100_000), example("0.50");
    }
}

section! {
    /// A server on this machine that aish starts when it is needed.
    #[derive(Clone, PartialEq)]
    pub struct LocalServer in "models.NAME.serve" {
        /// The program and its arguments. `{port}` stands for the port that aish chooses.
        command: Vec<String> = Vec::new(), mask(mask_command),
            required("[\"llama-server\", \"-m\", \"/path/model.gguf\", \"--port\", \"{port}\"]");
        /// How long the server may be unused before it is stopped, in seconds.
        idle: Duration = Duration::from_secs(600), in_seconds(), range(1, 604_800);
    }
    finish finish_serve;
}

impl fmt::Debug for LocalServer {
    /// Without the arguments, which may hold a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalServer({:?})", self.command.first())
    }
}

fn finish_serve(serve: &mut LocalServer, reader: &TableReader<'_>) {
    let has_port = serve.command.iter().any(|word| word.contains("{port}"));
    if serve.command.is_empty() {
        // The list is also empty if one of its items is invalid, which is reported separately.
        reader.fault_at("command", "must not be empty");
    } else if !has_port {
        let message = "must contain {port}, which stands for the port that aish chooses";
        reader.fault_at("command", message);
    }
}

fn finish_model(model: &mut ModelSettings, reader: &TableReader<'_>, keys: KeySettings) {
    let line = |key| reader.entry(key).map_or(0, |entry| entry.line);
    if keys.key_env.is_some() && keys.key_cmd.is_some() {
        reader.fault_at("key_cmd", "give key_env or key_cmd, not both");
    }
    (model.key, model.key_line) = match (keys.key_env, keys.key_cmd) {
        (Some(name), _) => (KeySource::Env(name), line("key_env")),
        (None, Some(command)) => (KeySource::Cmd(command), line("key_cmd")),
        (None, None) => (KeySource::None, 0),
    };
    model.name = reader.name().to_owned();
    model.line = reader.line();

    let has_key = model.key != KeySource::None;
    if has_key && let Some(headers) = reader.table("headers") {
        for (name, _) in &model.headers {
            if name.eq_ignore_ascii_case("authorization") {
                headers.fault_at(name, "the key is sent in this header already");
            }
        }
    }
    let Ok(url) = base_url(&model.base_url) else {
        return;
    };
    let has_secret = has_key || model.headers.iter().any(|(n, _)| !is_public_header(n));
    if has_secret && let Err(message) = address::check_key_transport(&url) {
        reader.fault_at("base_url", message);
    }
    if model.serve.is_some() && !address::is_loopback(&url) {
        reader.fault_at(
            "base_url",
            "must be on this machine (http://127.0.0.1:PORT/v1), where serve starts the server",
        );
    }
}

/// Returns the error message for a model that does not exist; it suggests the most similar name.
pub(super) fn no_such_model<'n>(
    name: &str,
    names: impl IntoIterator<Item = &'n str> + Clone,
) -> String {
    let shown = format!("{name:?}");
    match nearest_name(name, names.clone()) {
        Some(near) => format!("no model named {shown}; did you mean {near}?"),
        None => {
            let all: Vec<&str> = names.into_iter().collect();
            if all.is_empty() {
                format!("no model named {shown}: no model is configured")
            } else {
                format!("no model named {shown}; configured: {}", all.join(", "))
            }
        }
    }
}
