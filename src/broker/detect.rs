//! The first run: which model can be used when nothing is configured.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::Url;

use super::probe::chats;
use super::{Broker, Endpoint};
use crate::address::clear_text;
use crate::error::{Error, Result};
use crate::secret::Secret;

/// How long all local servers together may take to answer.
const LOCAL_PATIENCE: Duration = Duration::from_millis(300);

/// How long a provider may take to list its models, before its usual one is taken unseen.
const HOSTED_PATIENCE: Duration = Duration::from_millis(1500);

/// How long a found server may be silent while it answers.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// The variable with the address of another server than OpenAI's, for OpenAI's key.
const BASE_URL: &str = "OPENAI_BASE_URL";

/// A provider that is known by the variable that its key is kept in.
#[derive(Debug)]
pub struct Hosted {
    pub(super) variable: &'static str,
    /// Its name, which its model gets here as well.
    pub name: &'static str,
    /// Where it is.
    pub base_url: &'static str,
    /// The models to take, best first. Providers retire models, so they are compared with what it lists.
    pub(super) models: &'static [&'static str],
    /// What only a good key can see, where the list of models is for everybody.
    pub(super) private: Option<&'static str>,
}

/// The known providers, in the order in which they are tried.
pub static HOSTED: [Hosted; 8] = [
    Hosted {
        variable: "OPENAI_API_KEY",
        name: "openai",
        base_url: "https://api.openai.com/v1",
        models: &["gpt-6-luna", "gpt-6.1-terra", "gpt-5.4-mini"],
        private: None,
    },
    Hosted {
        variable: "OPENROUTER_API_KEY",
        name: "openrouter",
        base_url: "https://openrouter.ai/api/v1",
        models: &["openrouter/auto"],
        private: Some("key"),
    },
    Hosted {
        variable: "MISTRAL_API_KEY",
        name: "mistral",
        base_url: "https://api.mistral.ai/v1",
        models: &["mistral-small-latest"],
        private: None,
    },
    Hosted {
        variable: "GROQ_API_KEY",
        name: "groq",
        base_url: "https://api.groq.com/openai/v1",
        models: &["openai/gpt-oss-120b", "openai/gpt-oss-20b"],
        private: None,
    },
    Hosted {
        variable: "DEEPSEEK_API_KEY",
        name: "deepseek",
        base_url: "https://api.deepseek.com/v1",
        models: &["deepseek-flash", "deepseek-v4-flash"],
        private: None,
    },
    Hosted {
        variable: "TOGETHER_API_KEY",
        name: "together",
        base_url: "https://api.together.xyz/v1",
        models: &["openai/gpt-oss-120b"],
        private: None,
    },
    Hosted {
        variable: "XAI_API_KEY",
        name: "xai",
        base_url: "https://api.x.ai/v1",
        models: &["grok-4.3", "grok-4.5"],
        private: None,
    },
    Hosted {
        variable: "CEREBRAS_API_KEY",
        name: "cerebras",
        base_url: "https://api.cerebras.ai/v1",
        models: &["gpt-oss-120b"],
        private: None,
    },
];

/// A server that people run on their own machine.
#[derive(Debug, Clone, Copy)]
pub struct Local {
    /// Its name, which its model gets here as well.
    pub name: &'static str,
    /// Where it listens unless told otherwise.
    pub port: u16,
}

/// The local servers that are looked for, best first.
pub const LOCALS: [Local; 3] = [
    Local {
        name: "ollama",
        port: 11434,
    },
    Local {
        name: "llama.cpp",
        port: 8080,
    },
    Local {
        name: "lmstudio",
        port: 1234,
    },
];

/// The variables that [`detect`] looks at.
pub fn variables() -> impl Iterator<Item = &'static str> {
    HOSTED.iter().map(|h| h.variable).chain([BASE_URL])
}

/// A model that can be used without any configuration.
#[derive(Debug, Clone)]
pub struct Found {
    /// How it was found: `OPENAI_API_KEY in the environment`.
    pub how: String,
    /// What to call it.
    pub name: String,
    /// Where it is.
    pub endpoint: Endpoint,
}

/// Looks for a key in `environment`, then for one of `locals`.
///
/// # Errors
/// The environment sends the key where others could read it on its way.
pub async fn detect(
    broker: &Broker,
    environment: &BTreeMap<String, String>,
    locals: &[Local],
) -> Result<Option<Found>> {
    Ok(match from_environment(environment)? {
        Some((found, models)) => Some(with_listed_model(broker, found, models).await),
        None => local(broker, locals).await,
    })
}

/// The first provider whose key is there, with its models, best first.
fn from_environment(
    environment: &BTreeMap<String, String>,
) -> Result<Option<(Found, &'static [&'static str])>> {
    let value = |variable: &str| {
        let value = environment.get(variable)?.trim();
        (!value.is_empty()).then_some(value)
    };
    let first = HOSTED
        .iter()
        .find_map(|hosted| Some((hosted, value(hosted.variable)?)));
    let Some((hosted, key)) = first else {
        return Ok(None);
    };
    // Whoever sets this has a key for that server, which must not go to another.
    let elsewhere = (hosted.name == "openai").then(|| value(BASE_URL)).flatten();
    // What is no address fails with the first request, whose words are better.
    if let Some(Ok(url)) = elsewhere.map(Url::parse) {
        clear_text(&url).map_err(|why| {
            Error::config(format!("the environment variable {BASE_URL}: {why}")).hint(format!(
                "correct it, or take {} out of the environment",
                hosted.variable
            ))
        })?;
    }
    let also = elsewhere.map_or("", |_| " and OPENAI_BASE_URL");
    let found = Found {
        how: format!("{}{also} in the environment", hosted.variable),
        name: hosted.name.to_owned(),
        endpoint: Endpoint {
            key: Some(Secret::new(key)),
            key_name: Some(hosted.variable.to_owned()),
            ..endpoint(
                elsewhere.unwrap_or(hosted.base_url),
                hosted.models.first().copied().unwrap_or_default(),
            )
        },
    };
    Ok(Some((found, hosted.models)))
}

/// Takes the best model that the provider lists. Where it does not answer, or refuses the key, the
/// model stays as it is, and the request itself will say what is wrong.
async fn with_listed_model(broker: &Broker, mut found: Found, models: &[&str]) -> Found {
    let Ok(report) = broker.probe_within(&found.endpoint, HOSTED_PATIENCE).await else {
        return found;
    };
    let wanted = models
        .iter()
        .find(|m| report.models.iter().any(|listed| listed == *m))
        .map(|m| (*m).to_owned());
    if let Some(model) = wanted.or_else(|| report.models.into_iter().find(|m| chats(m))) {
        found.endpoint.model = model;
    }
    found
}

/// The first of `locals` that lists a model to talk to. All are asked at once.
async fn local(broker: &Broker, locals: &[Local]) -> Option<Found> {
    let mut asked: Vec<_> = locals.iter().map(|l| Box::pin(ask(broker, *l))).collect();
    let mut answers: Vec<Option<Option<Found>>> = asked.iter().map(|_| None).collect();
    // Each ends in time by itself. A worse server is not waited for once a better one has answered.
    std::future::poll_fn(|cx| {
        for (ask, answer) in asked.iter_mut().zip(&mut answers) {
            if answer.is_none()
                && let std::task::Poll::Ready(found) = ask.as_mut().poll(cx)
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

async fn ask(broker: &Broker, local: Local) -> Option<Found> {
    let mut endpoint = endpoint(&format!("http://127.0.0.1:{}/v1", local.port), "");
    let report = broker.probe_within(&endpoint, LOCAL_PATIENCE).await.ok()?;
    endpoint.model = report.models.into_iter().find(|m| chats(m))?;
    Some(Found {
        how: format!("{} on 127.0.0.1:{}", local.name, local.port),
        name: local.name.to_owned(),
        endpoint,
    })
}

pub(super) fn endpoint(base_url: &str, model: &str) -> Endpoint {
    Endpoint {
        base_url: base_url.to_owned(),
        model: model.to_owned(),
        key: None,
        headers: Vec::new(),
        temperature: None,
        max_tokens: None,
        idle_timeout: IDLE_TIMEOUT,
        use_tool_role: true,
        images: false,
        key_name: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Option<Found> {
        let map = variables
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        from_environment(&map).unwrap().map(|(found, _)| found)
    }

    #[test]
    fn every_provider_has_https_and_a_model() {
        for hosted in &HOSTED {
            assert!(hosted.base_url.starts_with("https://"), "{}", hosted.name);
            assert!(!hosted.models.is_empty(), "{}", hosted.name);
            let found = found(&[(hosted.variable, "k")]).unwrap();
            assert_eq!(found.endpoint.base_url, hosted.base_url);
            assert_eq!(found.how, format!("{} in the environment", hosted.variable));
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
            found.how,
            "OPENAI_API_KEY and OPENAI_BASE_URL in the environment"
        );
    }

    #[test]
    fn a_key_does_not_cross_the_network_in_clear() {
        let map = [
            ("OPENAI_API_KEY", "sk-1"),
            (BASE_URL, " http://remote:8000 "),
        ]
        .map(|(k, v)| (k.to_owned(), v.to_owned()));
        let error = from_environment(&map.into()).unwrap_err();
        assert_eq!(error.kind, crate::error::Kind::Config);
        assert!(error.message.contains(BASE_URL) && error.message.contains("in clear"));
        assert!(!error.to_string().contains("sk-1"));
    }
}
