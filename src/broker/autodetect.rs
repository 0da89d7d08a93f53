//! Finds a model without any configuration, for the first run.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::Url;

use super::model_list::is_chat_model;
use super::{Broker, ModelEndpoint};
use crate::address::check_key_transport;
use crate::broker::provider::is_mistral;
use crate::chat::Dialect;
use crate::error::{Error, Result};
use crate::secret::Secret;

/// Maximum time for all local servers together to answer.
const LOCAL_TIMEOUT: Duration = Duration::from_millis(300);

/// Maximum time for a provider to list its models; after that its default model is used.
const HOSTED_TIMEOUT: Duration = Duration::from_millis(1500);

/// Maximum silence of a detected server during an answer.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// Variable with the base URL of a server that replaces the OpenAI endpoint.
pub const BASE_URL_VARIABLE: &str = "OPENAI_BASE_URL";

/// A hosted provider that is detected by the environment variable of its key.
#[derive(Debug)]
pub struct HostedProvider {
    pub(super) variable: &'static str,
    /// Another variable for the same key, which counts if the first is not set.
    pub(super) other_variable: Option<&'static str>,
    /// The name of the provider, and of its model in aish.
    pub name: &'static str,
    /// Base URL of the provider.
    pub base_url: &'static str,
    /// Preferred models, best first. The first one in the provider's list is used, since providers retire models.
    pub(super) models: &'static [&'static str],
    /// Whether its current models take images.
    pub(super) images: bool,
    /// A path that is served only with a valid key, for a provider whose list of models is public.
    pub(super) private: Option<&'static str>,
}

impl HostedProvider {
    /// Returns the variables that may hold its key, best first.
    pub fn variables(&self) -> impl Iterator<Item = &'static str> {
        [Some(self.variable), self.other_variable]
            .into_iter()
            .flatten()
    }
}

/// The known hosted providers, in the order in which they are tried.
pub static HOSTED_PROVIDERS: [HostedProvider; 10] = [
    HostedProvider {
        variable: "OPENAI_API_KEY",
        other_variable: None,
        name: "openai",
        base_url: "https://api.openai.com/v1",
        models: &["gpt-6-luna", "gpt-6.1-terra", "gpt-5.4-mini"],
        images: true,
        private: None,
    },
    HostedProvider {
        variable: "ANTHROPIC_API_KEY",
        other_variable: None,
        name: "anthropic",
        base_url: "https://api.anthropic.com/v1",
        models: &["claude-haiku-4-5", "claude-sonnet-4-5"],
        images: true,
        private: None,
    },
    HostedProvider {
        variable: "GEMINI_API_KEY",
        other_variable: Some("GOOGLE_API_KEY"),
        name: "gemini",
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        models: &["gemini-flash-latest", "gemini-2.5-flash"],
        images: true,
        private: None,
    },
    HostedProvider {
        variable: "OPENROUTER_API_KEY",
        other_variable: None,
        name: "openrouter",
        base_url: "https://openrouter.ai/api/v1",
        models: &["openrouter/auto"],
        images: false,
        private: Some("key"),
    },
    HostedProvider {
        variable: "MISTRAL_API_KEY",
        other_variable: None,
        name: "mistral",
        base_url: "https://api.mistral.ai/v1",
        models: &["mistral-small-latest"],
        images: false,
        private: None,
    },
    HostedProvider {
        variable: "GROQ_API_KEY",
        other_variable: None,
        name: "groq",
        base_url: "https://api.groq.com/openai/v1",
        models: &["openai/gpt-oss-120b", "openai/gpt-oss-20b"],
        images: false,
        private: None,
    },
    HostedProvider {
        variable: "DEEPSEEK_API_KEY",
        other_variable: None,
        name: "deepseek",
        base_url: "https://api.deepseek.com/v1",
        models: &["deepseek-flash", "deepseek-v4-flash"],
        images: false,
        private: None,
    },
    HostedProvider {
        variable: "TOGETHER_API_KEY",
        other_variable: None,
        name: "together",
        base_url: "https://api.together.xyz/v1",
        models: &["openai/gpt-oss-120b"],
        images: false,
        private: None,
    },
    HostedProvider {
        variable: "XAI_API_KEY",
        other_variable: None,
        name: "xai",
        base_url: "https://api.x.ai/v1",
        models: &["grok-4.3", "grok-4.5"],
        images: false,
        private: None,
    },
    HostedProvider {
        variable: "CEREBRAS_API_KEY",
        other_variable: None,
        name: "cerebras",
        base_url: "https://api.cerebras.ai/v1",
        models: &["gpt-oss-120b"],
        images: false,
        private: None,
    },
];

/// A model server that users run on their own machine.
#[derive(Debug, Clone, Copy)]
pub struct KnownLocalServer {
    /// The name of the server, and of its model in aish.
    pub name: &'static str,
    /// The default port.
    pub port: u16,
}

/// The local servers that are tried, best first.
pub const LOCAL_SERVERS: [KnownLocalServer; 3] = [
    KnownLocalServer {
        name: "ollama",
        port: 11434,
    },
    KnownLocalServer {
        name: "llama.cpp",
        port: 8080,
    },
    KnownLocalServer {
        name: "lmstudio",
        port: 1234,
    },
];

/// Returns the environment variables that [`detect`] reads.
pub fn variables() -> impl Iterator<Item = &'static str> {
    HOSTED_PROVIDERS
        .iter()
        .flat_map(HostedProvider::variables)
        .chain([BASE_URL_VARIABLE])
}

/// A model that was found without any configuration.
#[derive(Debug, Clone)]
pub struct DetectedModel {
    /// How the model was found: `OPENAI_API_KEY in the environment`.
    pub found_by: String,
    /// The name of the model in aish.
    pub name: String,
    /// The model's endpoint.
    pub endpoint: ModelEndpoint,
}

/// Looks for a key in `environment`, then for one of the servers `locals`.
///
/// # Errors
/// The address in the environment would send the key in clear over a foreign network.
pub async fn detect(
    broker: &Broker,
    environment: &BTreeMap<String, String>,
    locals: &[KnownLocalServer],
) -> Result<Option<DetectedModel>> {
    Ok(match from_environment(environment)? {
        Some((found, models)) => Some(with_listed_model(broker, found, models).await),
        None => find_local(broker, locals).await,
    })
}

/// Returns the first provider whose key is set, with the provider's preferred models.
fn from_environment(
    environment: &BTreeMap<String, String>,
) -> Result<Option<(DetectedModel, &'static [&'static str])>> {
    let value = |variable: &str| {
        let value = environment.get(variable)?.trim();
        (!value.is_empty()).then_some(value)
    };
    let first = HOSTED_PROVIDERS
        .iter()
        .flat_map(|hosted| hosted.variables().map(move |variable| (hosted, variable)))
        .find_map(|(hosted, variable)| Some((hosted, variable, value(variable)?)));
    let Some((hosted, variable, key)) = first else {
        return Ok(None);
    };
    // With this variable the key is for that server and must not go to OpenAI.
    let elsewhere = (hosted.name == "openai")
        .then(|| value(BASE_URL_VARIABLE))
        .flatten();
    // An invalid address fails with the first request, whose error message is better.
    if let Some(Ok(url)) = elsewhere.map(Url::parse) {
        check_key_transport(&url).map_err(|reason| {
            Error::config(format!(
                "the environment variable {BASE_URL_VARIABLE}: {reason}"
            ))
            .hint(format!(
                "correct it, or remove {variable} from the environment"
            ))
        })?;
    }
    let variable_note = elsewhere.map_or("", |_| " and OPENAI_BASE_URL");
    let others = HOSTED_PROVIDERS
        .iter()
        .filter(|other| other.name != hosted.name);
    let others = others.filter_map(|other| {
        let set = other.variables().find(|name| value(name).is_some())?;
        Some(format!("{set} (llm :model {})", other.name))
    });
    let others: Vec<String> = others.collect();
    let also = match others.is_empty() {
        true => String::new(),
        false => format!("; also set: {}", others.join(", ")),
    };
    let found = DetectedModel {
        found_by: format!("{variable}{variable_note} in the environment{also}"),
        name: hosted.name.to_owned(),
        endpoint: ModelEndpoint {
            key: Some(Secret::new(key)),
            key_name: Some(variable.to_owned()),
            // Of another server nothing is known.
            images: hosted.images && elsewhere.is_none(),
            ..endpoint(
                elsewhere.unwrap_or(hosted.base_url),
                hosted.models.first().copied().unwrap_or_default(),
            )
        },
    };
    Ok(Some((found, hosted.models)))
}

/// Selects the best model in the provider's list. If the provider does not answer or refuses the key, the model stays the
/// default one, and the request itself reports the error.
async fn with_listed_model(
    broker: &Broker,
    mut found: DetectedModel,
    models: &[&str],
) -> DetectedModel {
    let Ok(report) = broker.probe_within(&found.endpoint, HOSTED_TIMEOUT).await else {
        return found;
    };
    let wanted = models
        .iter()
        .find(|m| report.models.iter().any(|listed| listed == *m))
        .map(|m| (*m).to_owned());
    if let Some(model) = wanted.or_else(|| report.models.into_iter().find(|m| is_chat_model(m))) {
        found.endpoint.model = model;
    }
    found
}

/// Returns the first of `locals` that lists a chat model. All are queried concurrently.
async fn find_local(broker: &Broker, locals: &[KnownLocalServer]) -> Option<DetectedModel> {
    let mut requests: Vec<_> = locals
        .iter()
        .map(|l| Box::pin(ask_local(broker, *l)))
        .collect();
    let mut answers: Vec<Option<Option<DetectedModel>>> = requests.iter().map(|_| None).collect();
    // Each request has its own time-out. The loop ends once the best responding server is determined.
    std::future::poll_fn(|cx| {
        for (request, answer) in requests.iter_mut().zip(&mut answers) {
            if answer.is_none()
                && let std::task::Poll::Ready(found) = request.as_mut().poll(cx)
            {
                *answer = Some(found);
            }
        }
        for answer in &mut answers {
            match answer {
                None => return std::task::Poll::Pending,
                Some(None) => {}
                Some(found) => return std::task::Poll::Ready(found.take()),
            }
        }
        std::task::Poll::Ready(None)
    })
    .await
}

async fn ask_local(broker: &Broker, local: KnownLocalServer) -> Option<DetectedModel> {
    let mut endpoint = endpoint(&format!("http://127.0.0.1:{}/v1", local.port), "");
    let report = broker.probe_within(&endpoint, LOCAL_TIMEOUT).await.ok()?;
    endpoint.model = report.models.into_iter().find(|m| is_chat_model(m))?;
    Some(DetectedModel {
        found_by: format!("{} on 127.0.0.1:{}", local.name, local.port),
        name: local.name.to_owned(),
        endpoint,
    })
}

pub(super) fn endpoint(base_url: &str, model: &str) -> ModelEndpoint {
    ModelEndpoint {
        dialect: Dialect::of_host(base_url),
        is_mistral: is_mistral(base_url),
        base_url: base_url.to_owned(),
        model: model.to_owned(),
        key: None,
        headers: Vec::new(),
        temperature: None,
        max_tokens: None,
        idle_timeout: IDLE_TIMEOUT,
        thinks: false,
        use_tool_role: true,
        images: false,
        key_name: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{KNOWN_SERVERS, KnownServer};

    fn found(variables: &[(&str, &str)]) -> Option<DetectedModel> {
        let map = variables
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        from_environment(&map).unwrap().map(|(found, _)| found)
    }

    #[test]
    fn known_servers_of_the_configuration_are_the_same() {
        let hosted = HOSTED_PROVIDERS.iter().map(|provider| KnownServer {
            name: provider.name,
            base_url: provider.base_url,
            key_env: Some(provider.variable),
            other_key_env: provider.other_variable,
            model: provider.models.first().copied(),
            images: provider.images,
        });
        let known: Vec<KnownServer> = hosted.collect();
        let (with_key, local) = KNOWN_SERVERS.split_at(known.len());
        assert_eq!(with_key, known);
        for (server, known) in LOCAL_SERVERS.iter().zip(local) {
            let base_url = format!("http://127.0.0.1:{}/v1", server.port);
            assert_eq!(
                (known.name, known.base_url),
                (server.name, base_url.as_str())
            );
        }
        assert_eq!(local.len(), LOCAL_SERVERS.len());
    }

    #[test]
    fn every_provider_has_https_and_a_model() {
        for hosted in &HOSTED_PROVIDERS {
            assert!(hosted.base_url.starts_with("https://"), "{}", hosted.name);
            assert!(!hosted.models.is_empty(), "{}", hosted.name);
            let found = found(&[(hosted.variable, "k")]).unwrap();
            assert_eq!(found.endpoint.base_url, hosted.base_url);
            assert_eq!(
                found.found_by,
                format!("{} in the environment", hosted.variable)
            );
        }
    }

    #[test]
    fn the_first_key_that_holds_something_wins() {
        let found = found(&[
            ("OPENAI_API_KEY", "  "),
            ("GROQ_API_KEY", "g"),
            ("MISTRAL_API_KEY", " m\n"),
            ("PATH", "/bin"),
        ])
        .unwrap();
        assert_eq!(found.name, "mistral");
        assert_eq!(
            found.found_by,
            "MISTRAL_API_KEY in the environment; also set: GROQ_API_KEY (llm :model groq)"
        );
        assert_eq!(found.endpoint.key, Some(Secret::new("m")));
        assert!(super::tests::found(&[("PATH", "/bin")]).is_none());
    }

    #[test]
    fn a_key_for_another_server_goes_there() {
        let found = found(&[
            ("OPENAI_API_KEY", "k"),
            ("OPENAI_BASE_URL", "http://10.0.0.1/v1"),
        ])
        .unwrap();
        assert_eq!(found.endpoint.base_url, "http://10.0.0.1/v1");
        assert_eq!(
            found.found_by,
            "OPENAI_API_KEY and OPENAI_BASE_URL in the environment"
        );
    }

    #[test]
    fn a_key_does_not_cross_the_network_in_clear() {
        let map = [
            ("OPENAI_API_KEY", "sk-1"),
            (BASE_URL_VARIABLE, " http://remote:8000 "),
        ]
        .map(|(k, v)| (k.to_owned(), v.to_owned()));
        let error = from_environment(&map.into()).unwrap_err();
        assert_eq!(error.kind, crate::error::ErrorKind::Config);
        assert!(error.message.contains(BASE_URL_VARIABLE) && error.message.contains("in clear"));
        assert!(!error.to_string().contains("sk-1"));
    }
}
