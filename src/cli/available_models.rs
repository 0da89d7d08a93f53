//! The models that servers offer: refreshed on request, and kept in the state directory for lists and completion.

use serde::{Deserialize, Serialize};

use super::table::model_facts;
use super::{print, print_json};
use crate::client::connect;
use crate::client::text_format::grouped;
use crate::config::env_overrides;
use crate::error::{Error, Result};
use crate::paths::{Paths, make_dir, read_own, replace_unsynced};
use crate::protocol::{AvailableModel, Request, ServerModels};
use crate::safety::text::one_line;

/// Number of models of a server that are listed without a filter.
const LISTED: usize = 10;

/// Maximum number of characters shown of a name or an error.
const MAX_NAME: usize = 80;

/// Models that the servers offered.
#[derive(Debug, Default, Serialize, Deserialize)]
struct KeptLists {
    servers: Vec<ServerModels>,
}

fn read(paths: &Paths) -> KeptLists {
    let text = read_own(&file(paths)).and_then(std::io::read_to_string);
    serde_json::from_str(&text.unwrap_or_default()).unwrap_or_default()
}

fn file(paths: &Paths) -> std::path::PathBuf {
    paths.state.join("server-models.json")
}

/// Asks the servers for their models and keeps their lists. The list of a server that does not answer is kept as it was.
///
/// # Errors
/// The configuration is invalid, or the lists cannot be kept.
pub fn refresh(paths: &Paths, json: bool) -> Result<()> {
    let request = Request::ServerModels {
        overrides: env_overrides()?,
    };
    let answered: Vec<ServerModels> = connect::request(paths, &request)?;
    let mut kept = read(paths).servers;
    kept.retain(|old| {
        let now = answered.iter().find(|now| now.server == old.server);
        now.is_some_and(|now| now.error.is_some() && now.base_url == old.base_url)
    });
    kept.extend(answered.iter().filter(|now| now.error.is_none()).cloned());
    let text = serde_json::to_string(&KeptLists { servers: kept })
        .map_err(|e| Error::runtime(format!("cannot keep the lists of models: {e}")))?;
    make_dir(&paths.state)?;
    replace_unsynced(&file(paths), text.as_bytes())?;
    if json {
        return print_json(&answered);
    }
    if answered.is_empty() {
        return print(
            "no server is configured, none was found on this machine, and no key is in the environment\n",
        );
    }
    let mut out = String::new();
    for server in &answered {
        let name = one_line(&server.server, MAX_NAME);
        out.push_str(&match &server.error {
            Some(error) => format!("! {name}: {}\n", one_line(error, 1000)),
            None => format!("{name}: {} models\n", grouped(server.models.len() as u64)),
        });
    }
    out.push_str(
        "see them with: llm :model --filter WORD; use one with: llm :model SERVER/MODEL\n",
    );
    print(&out)
}

/// Returns the kept models whose name contains the word, in any case.
pub fn matching(paths: &Paths, word: &str) -> Vec<AvailableModel> {
    let word = word.to_lowercase();
    let all = read(paths)
        .servers
        .into_iter()
        .flat_map(|server| server.models);
    all.filter(|model| model.name.to_lowercase().contains(&word))
        .collect()
}

/// Formats the kept models, those of each server below its name.
pub fn list(paths: &Paths, filter: Option<&str>) -> String {
    let word = filter.unwrap_or_default().to_lowercase();
    let mut out = String::new();
    for server in read(paths).servers {
        let matches = |model: &&AvailableModel| model.name.to_lowercase().contains(&word);
        let models: Vec<&AvailableModel> = server.models.iter().filter(matches).collect();
        if models.is_empty() {
            continue;
        }
        let address = one_line(&server.base_url, MAX_NAME);
        out.push_str(&format!(
            "\n{} ({address})\n",
            one_line(&server.server, MAX_NAME)
        ));
        let limit = match filter {
            Some(_) => usize::MAX,
            None => LISTED,
        };
        for model in models.iter().take(limit) {
            let name = one_line(&model.name, MAX_NAME);
            let facts = model_facts(
                model.context_window,
                model.input_price.zip(model.output_price),
            );
            out.push_str(&format!("  {name}{facts}\n"));
        }
        if let more @ 1.. = models.len().saturating_sub(limit) {
            out.push_str(&format!("  … {more} more; see them with --filter WORD\n"));
        }
    }
    out
}
