//! The tools that the person was shown, and the annotations that are in force, also of those that nobody was shown: kept
//! across daemons, a small file for each server. One that is lost or broken means that nothing was shown or said yet.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Daemon;
use crate::chat::{ToolAnnotations, ToolDefinition};
use crate::config::mcp::ServerSettings;
use crate::error::{Error, Result};
use crate::history::record;
use crate::mcp::ToolCatalog;
use crate::paths;
use crate::safety::redact::global_redactor;
use crate::safety::tool_diff::{self, ShownTool};
use crate::secret::fingerprint;
use crate::session::lock;

/// The version of the files.
const VERSION: u32 = 1;

/// The longest that the shortest difference of a tool is looked for.
const PATIENCE: Duration = Duration::from_millis(100);

/// So many names that a server has no more are remembered for what it said of them.
const GONE: usize = 2_000;

/// The tools of a server, by their names there.
#[derive(Debug, Default, Clone)]
struct ServerTools {
    /// Those that were shown.
    shown: BTreeMap<String, ShownTool>,
    /// What it has said of the others: one that was never called may not forget that it destroys either.
    said: BTreeMap<String, ToolAnnotations>,
}

impl ServerTools {
    /// What is in force of a tool that says this now.
    fn in_force(&self, name: &str, now: ToolAnnotations) -> ToolAnnotations {
        let shown = self.shown.get(name).map(|seen| seen.annotations);
        let before = shown.or_else(|| self.said.get(name).copied());
        tool_diff::in_force(before.unwrap_or_default(), now)
    }

    /// Forgets names that are gone, where they are too many: first those that never destroyed.
    fn bound(&mut self, there: &BTreeSet<&str>) {
        let too_many = there.len() + GONE;
        if self.said.len() > too_many {
            let destroys = |says: &ToolAnnotations| says.destructive == Some(true);
            self.said
                .retain(|name, says| there.contains(name.as_str()) || destroys(says));
        }
        let mut left = self.said.len().saturating_sub(too_many);
        self.said.retain(|name, _| {
            let goes = left > 0 && !there.contains(name.as_str());
            left -= usize::from(goes);
            !goes
        });
    }
}

/// All that was shown and said.
#[derive(Debug)]
pub struct ToolHistory {
    dir: PathBuf,
    /// What is in the files that were read, and what could not be written.
    servers: Mutex<HashMap<String, Arc<ServerTools>>>,
    /// The last catalog, and what became of it.
    catalog: Mutex<Option<(ToolCatalog, ToolCatalog)>>,
}

/// A file.
#[derive(Serialize, Deserialize)]
struct StoredHistory {
    v: u32,
    /// For whoever reads it.
    alias: String,
    /// Without what may be secret.
    target: String,
    tools: BTreeMap<String, KeptTool>,
    /// Of tools that were not shown.
    #[serde(default)]
    said: BTreeMap<String, record::RecordedAnnotations>,
}

#[derive(Serialize, Deserialize)]
struct KeptTool {
    description: String,
    schema: String,
    #[serde(default)]
    annotations: record::RecordedAnnotations,
}

impl ToolHistory {
    /// What was shown by this daemon and earlier ones. The files are below `state`.
    pub fn new(state: &Path) -> ToolHistory {
        ToolHistory {
            dir: state.join("tools"),
            servers: Mutex::default(),
            catalog: Mutex::default(),
        }
    }

    /// What is known of the tools of a server.
    fn of(&self, server: &ServerSettings) -> Arc<ServerTools> {
        let key = key(server);
        let mut servers = lock(&self.servers);
        let read = || Arc::new(read(&self.dir.join(format!("{key}.json"))).unwrap_or_default());
        servers.entry(key.clone()).or_insert_with(read).clone()
    }

    /// Whether no tool of a server was shown.
    pub fn is_new(&self, server: &ServerSettings) -> bool {
        self.of(server).shown.is_empty()
    }

    /// Those of a server's tools that were not shown.
    pub fn unseen<'t>(
        &self,
        server: &ServerSettings,
        tools: impl IntoIterator<Item = &'t ToolDefinition>,
    ) -> Vec<&'t ToolDefinition> {
        let known = self.of(server);
        let new = |tool: &&ToolDefinition| !known.shown.contains_key(&tool.tool);
        tools.into_iter().filter(new).collect()
    }

    /// Whether a tool is another than was shown.
    pub fn changed(&self, server: &ServerSettings, tool: &ToolDefinition) -> bool {
        let known = self.of(server);
        let seen = known.shown.get(&tool.tool);
        seen.is_some_and(|seen| tool_diff::is_changed(seen, tool, global_redactor()))
    }

    /// How a tool differs from what was shown; nothing where it does not.
    pub fn difference(
        &self,
        server: &ServerSettings,
        tool: &ToolDefinition,
    ) -> Vec<tool_diff::DiffLine> {
        match self.of(server).shown.get(&tool.tool) {
            Some(seen) if tool_diff::is_changed(seen, tool, global_redactor()) => {
                let deadline = Instant::now() + PATIENCE;
                tool_diff::difference(seen, tool, global_redactor(), Some(deadline))
            }
            _ => Vec::new(),
        }
    }

    /// The person has seen these tools as they are. It is remembered as long as the daemon runs where it cannot be
    /// written.
    pub fn shown<'t>(
        &self,
        server: &ServerSettings,
        tools: impl IntoIterator<Item = &'t ToolDefinition>,
    ) {
        self.learn(server, |known| {
            for tool in tools {
                let seen = ShownTool {
                    annotations: known.in_force(&tool.tool, tool.annotations),
                    ..ShownTool::of(tool, global_redactor())
                };
                known.said.remove(&tool.tool);
                known.shown.insert(tool.tool.clone(), seen);
            }
            true
        });
        *lock(&self.catalog) = None;
    }

    /// The server says this of its tools now; what is in force of each of them.
    fn said(&self, server: &ServerSettings, tools: &[&ToolDefinition]) -> Vec<ToolAnnotations> {
        let mut held = Vec::new();
        self.learn(server, |known| {
            let mut news = false;
            for tool in tools {
                let says = known.in_force(&tool.tool, tool.annotations);
                held.push(says);
                // Of one that says nothing there is nothing to forget.
                let none =
                    known.shown.contains_key(&tool.tool) || says == ToolAnnotations::default();
                if !none && known.said.get(&tool.tool) != Some(&says) {
                    known.said.insert(tool.tool.clone(), says);
                    news = true;
                }
            }
            if news {
                known.bound(&tools.iter().map(|tool| tool.tool.as_str()).collect());
            }
            news
        });
        held
    }

    /// Takes in what is new of a server's tools, if anything is, and writes it.
    fn learn(&self, server: &ServerSettings, news: impl FnOnce(&mut ServerTools) -> bool) {
        // It is read where it was not yet.
        self.of(server);
        let key = key(server);
        let mut servers = lock(&self.servers);
        let mut known = servers
            .get(&key)
            .map(|k| ServerTools::clone(k))
            .unwrap_or_default();
        if !news(&mut known) {
            return;
        }
        // Under the lock: whoever writes later knows more.
        if let Err(e) = self.write(server, &key, &known) {
            tracing::warn!("tools will be shown again after a restart: {}", e.message);
        }
        servers.insert(key, Arc::new(known));
    }

    fn write(&self, server: &ServerSettings, key: &str, known: &ServerTools) -> Result<()> {
        let tool = |(name, seen): (&String, &ShownTool)| {
            let kept = KeptTool {
                description: seen.description.clone(),
                schema: seen.schema.clone(),
                annotations: kept(seen.annotations),
            };
            (name.clone(), kept)
        };
        let file = StoredHistory {
            v: VERSION,
            alias: server.alias.clone(),
            target: server.target(),
            tools: known.shown.iter().map(tool).collect(),
            said: known
                .said
                .iter()
                .map(|(name, says)| (name.clone(), kept(*says)))
                .collect(),
        };
        let text = serde_json::to_vec(&file).map_err(|e| Error::runtime(e.to_string()))?;
        paths::make_dir(&self.dir)?;
        let path = self.dir.join(format!("{key}.json"));
        paths::replace_file(&path, &text)
    }

    /// The catalog with the annotations that are in force: what a server says no more, it has not taken back.
    fn in_force(
        &self,
        catalog: ToolCatalog,
        server: impl Fn(&str) -> Option<ServerSettings>,
    ) -> ToolCatalog {
        let mut last = lock(&self.catalog);
        if let Some((said, held)) = &*last
            && Arc::ptr_eq(&said.tools, &catalog.tools)
        {
            return ToolCatalog {
                unavailable: catalog.unavailable,
                ..held.clone()
            };
        }
        let mut of_servers: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, tool) in catalog.tools.iter().enumerate() {
            of_servers.entry(&tool.server).or_default().push(at);
        }
        let mut forgotten = Vec::new();
        for (alias, places) in of_servers {
            // It has gone, and nothing of it will be called.
            let Some(server) = server(alias) else {
                continue;
            };
            let tools: Vec<&ToolDefinition> = places.iter().map(|at| &catalog.tools[*at]).collect();
            let held = self
                .said(&server, &tools)
                .into_iter()
                .zip(&tools)
                .zip(places);
            let another = held.filter(|((held, tool), _)| *held != tool.annotations);
            forgotten.extend(another.map(|((held, _), at)| (at, held)));
        }
        let mut held = catalog.clone();
        if !forgotten.is_empty() {
            let mut tools = catalog.tools.to_vec();
            for (at, annotations) in forgotten {
                tools[at].annotations = annotations;
            }
            held.tools = tools.into();
        }
        *last = Some((catalog, held.clone()));
        held
    }
}

/// The tools that there are, with the annotations that are in force.
pub async fn catalog(daemon: &Daemon, patience: Duration) -> ToolCatalog {
    let catalog = daemon.mcp.catalog(patience).await;
    daemon
        .known
        .in_force(catalog, |alias| daemon.mcp.server(alias))
}

/// Names a server by its alias and where it is. No secret goes in: a short one could be guessed.
fn key(server: &ServerSettings) -> String {
    fingerprint([server.alias.as_str(), &server.target()])
}

fn read(path: &Path) -> Option<ServerTools> {
    let kept: StoredHistory = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let seen = |(name, tool): (String, KeptTool)| {
        let seen = ShownTool {
            description: tool.description,
            schema: tool.schema,
            annotations: unkept(&tool.annotations),
        };
        (name, seen)
    };
    let said = kept.said.iter();
    (kept.v == VERSION).then(|| ServerTools {
        said: said
            .map(|(name, says)| (name.clone(), unkept(says)))
            .collect(),
        shown: kept.tools.into_iter().map(seen).collect(),
    })
}

fn unkept(kept: &record::RecordedAnnotations) -> ToolAnnotations {
    ToolAnnotations {
        read_only: kept.read_only_hint,
        destructive: kept.destructive_hint,
        idempotent: kept.idempotent_hint,
        open_world: kept.open_world_hint,
    }
}

fn kept(says: ToolAnnotations) -> record::RecordedAnnotations {
    record::RecordedAnnotations {
        read_only_hint: says.read_only,
        destructive_hint: says.destructive,
        idempotent_hint: says.idempotent,
        open_world_hint: says.open_world,
    }
}

#[cfg(test)]
mod tests;
