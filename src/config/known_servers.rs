//! Servers that need no section of their own: `openai/gpt-5.4-mini` names a model on one of them.

use super::model::{KeySource, ModelSettings};
use super::settings::Config;

/// A server that is known by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownServer {
    /// Its name.
    pub name: &'static str,
    /// Its base URL.
    pub base_url: &'static str,
    /// The variable with its key; a server on this machine has none.
    pub key_env: Option<&'static str>,
    /// Another variable for the same key, which counts if the first is not set.
    pub other_key_env: Option<&'static str>,
    /// The model that its name alone selects; what a server on this machine has is unknown.
    pub model: Option<&'static str>,
    /// Whether its current models take images.
    pub images: bool,
}

impl KnownServer {
    /// Returns the variables that may hold its key.
    pub fn key_variables(&self) -> impl Iterator<Item = &'static str> {
        self.key_env.into_iter().chain(self.other_key_env)
    }

    /// Returns the settings of a model on this server, with the name `SERVER/MODEL`.
    pub fn on_server(&self, id: &str) -> ModelSettings {
        ModelSettings {
            name: format!("{}/{id}", self.name),
            base_url: self.base_url.to_owned(),
            model: id.to_owned(),
            key: match self.key_env {
                Some(variable) => KeySource::Env(variable.to_owned()),
                None => KeySource::None,
            },
            images: self.images,
            ..ModelSettings::default()
        }
    }
}

const fn hosted(
    name: &'static str,
    base_url: &'static str,
    key_env: &'static str,
    model: &'static str,
) -> KnownServer {
    KnownServer {
        name,
        base_url,
        key_env: Some(key_env),
        other_key_env: None,
        model: Some(model),
        images: false,
    }
}

const fn local(name: &'static str, base_url: &'static str) -> KnownServer {
    KnownServer {
        name,
        base_url,
        key_env: None,
        other_key_env: None,
        model: None,
        images: false,
    }
}

/// The known servers. A test compares them with those that are found at the first run.
pub const KNOWN_SERVERS: [KnownServer; 13] = [
    KnownServer {
        images: true,
        ..hosted(
            "openai",
            "https://api.openai.com/v1",
            "OPENAI_API_KEY",
            "gpt-6-luna",
        )
    },
    KnownServer {
        images: true,
        ..hosted(
            "anthropic",
            "https://api.anthropic.com/v1",
            "ANTHROPIC_API_KEY",
            "claude-haiku-4-5",
        )
    },
    KnownServer {
        images: true,
        other_key_env: Some("GOOGLE_API_KEY"),
        ..hosted(
            "gemini",
            "https://generativelanguage.googleapis.com/v1beta",
            "GEMINI_API_KEY",
            "gemini-flash-latest",
        )
    },
    hosted(
        "openrouter",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        "openrouter/auto",
    ),
    hosted(
        "mistral",
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        "mistral-small-latest",
    ),
    hosted(
        "groq",
        "https://api.groq.com/openai/v1",
        "GROQ_API_KEY",
        "openai/gpt-oss-120b",
    ),
    hosted(
        "deepseek",
        "https://api.deepseek.com/v1",
        "DEEPSEEK_API_KEY",
        "deepseek-flash",
    ),
    hosted(
        "together",
        "https://api.together.xyz/v1",
        "TOGETHER_API_KEY",
        "openai/gpt-oss-120b",
    ),
    hosted("xai", "https://api.x.ai/v1", "XAI_API_KEY", "grok-4.3"),
    hosted(
        "cerebras",
        "https://api.cerebras.ai/v1",
        "CEREBRAS_API_KEY",
        "gpt-oss-120b",
    ),
    local("ollama", "http://127.0.0.1:11434/v1"),
    local("llama.cpp", "http://127.0.0.1:8080/v1"),
    local("lmstudio", "http://127.0.0.1:1234/v1"),
];

/// Returns the model that `SERVER/MODEL` names, where SERVER is a configured model, whose address and key are used, or a known
/// server. The name of a known server alone selects its usual model.
pub fn model_on_server(config: &Config, name: &str) -> Option<ModelSettings> {
    let Some((server, id)) = name.split_once('/').filter(|(_, id)| !id.is_empty()) else {
        let known = KNOWN_SERVERS.iter().find(|known| known.name == name)?;
        let model = known.on_server(known.model?);
        return Some(ModelSettings {
            name: name.to_owned(),
            ..model
        });
    };
    if let Some(configured) = config.models.get(server) {
        // What belongs to the model, not to its server.
        return configured.serve.is_none().then(|| ModelSettings {
            name: name.to_owned(),
            model: id.to_owned(),
            temperature: None,
            max_tokens: None,
            context_window: None,
            price: None,
            fallback: Vec::new(),
            images: KNOWN_SERVERS
                .iter()
                .any(|known| known.images && known.base_url == configured.base_url),
            ..configured.clone()
        });
    }
    let known = KNOWN_SERVERS.iter().find(|known| known.name == server)?;
    Some(known.on_server(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file::{FileFormat, parse};

    #[test]
    fn a_model_on_a_server_has_its_address_and_key_and_nothing_of_another_model() {
        let text = "[models.work]\nbase_url = \"https://llm.example/v1\"\nmodel = \"big\"\nkey_env = \"WORK_KEY\"\n\
                    max_tokens = 5\nprice = { input = 1, output = 2 }\nheaders = { X-Team = \"a\" }\n";
        let file = parse(text, FileFormat::Toml, std::path::Path::new("/c")).unwrap();
        let model = model_on_server(&file.config, "work/qwen3:8b").unwrap();
        assert_eq!(
            (
                model.name.as_str(),
                model.model.as_str(),
                model.base_url.as_str()
            ),
            ("work/qwen3:8b", "qwen3:8b", "https://llm.example/v1")
        );
        assert_eq!(model.key, KeySource::Env("WORK_KEY".into()));
        assert_eq!(model.headers.len(), 1);
        assert_eq!((model.max_tokens, model.price.is_some()), (None, false));
        let known = model_on_server(&file.config, "openrouter/openai/gpt-oss-120b").unwrap();
        assert_eq!(known.model, "openai/gpt-oss-120b");
        assert_eq!(known.key, KeySource::Env("OPENROUTER_API_KEY".into()));
        let usual = model_on_server(&file.config, "mistral").unwrap();
        assert_eq!(usual.model, "mistral-small-latest");
        assert_eq!(usual.name, "mistral");
        for name in ["ollama", "work", "work/", "elsewhere/m", "/m"] {
            assert!(model_on_server(&file.config, name).is_none(), "{name}");
        }
    }
}
