//! Tool history: the tools that were shown to the user, and the annotations in force of all tools. Stored across daemons
//! in one small file per server. A lost or damaged file means that nothing of that server was shown yet.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::SharedServices;
use super::ordered_writes::OrderedWrites;
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

/// Version of the file format.
const VERSION: u32 = 1;

/// Time limit for finding the shortest difference of a tool.
const DIFF_TIMEOUT: Duration = Duration::from_millis(100);

/// Maximum number of removed tools of a server whose annotations are still remembered.
const MAX_REMOVED: usize = 2_000;

/// Tools of a server by name.
#[derive(Debug, Default, Clone)]
struct ServerTools {
    /// Tools that were shown to the user.
    shown: BTreeMap<String, ShownTool>,
    /// Annotations of tools that were not shown yet, so that a server cannot drop `destructiveHint` before the first call.
    annotations: BTreeMap<String, ToolAnnotations>,
}

impl ServerTools {
    /// Returns the annotations in force of a tool with the annotations `now`.
    fn in_force(&self, name: &str, now: ToolAnnotations) -> ToolAnnotations {
        let shown = self.shown.get(name).map(|seen| seen.annotations);
        let before = shown.or_else(|| self.annotations.get(name).copied());
        tool_diff::in_force(before.unwrap_or_default(), now)
    }

    /// Forgets removed tools if there are too many, those without `destructiveHint` first.
    fn bound(&mut self, current: &BTreeSet<&str>) {
        let too_many = current.len() + MAX_REMOVED;
        if self.annotations.len() > too_many {
            let destroys = |annotations: &ToolAnnotations| annotations.destructive == Some(true);
            self.annotations.retain(|name, annotations| {
                current.contains(name.as_str()) || destroys(annotations)
            });
        }
        let mut left = self.annotations.len().saturating_sub(too_many);
        self.annotations.retain(|name, _| {
            let goes = left > 0 && !current.contains(name.as_str());
            left -= usize::from(goes);
            !goes
        });
    }
}

/// The tool history of all servers.
#[derive(Debug)]
pub struct ToolHistory {
    dir: PathBuf,
    /// The current state of each server's file, whether it could be written or not.
    servers: Mutex<HashMap<String, Arc<ServerTools>>>,
    writes: OrderedWrites,
    /// The last catalog as the servers sent it, and the same catalog with the annotations in force.
    catalog: Mutex<Option<(ToolCatalog, ToolCatalog)>>,
}

/// Content of a file.
#[derive(Serialize, Deserialize)]
struct StoredHistory {
    v: u32,
    /// For readers of the file; not used.
    alias: String,
    /// URL or command line, without secrets.
    target: String,
    tools: BTreeMap<String, StoredTool>,
    /// Annotations of tools that were not shown.
    #[serde(default, rename = "said")]
    annotations: BTreeMap<String, record::RecordedAnnotations>,
}

#[derive(Serialize, Deserialize)]
struct StoredTool {
    #[serde(default)]
    title: Option<String>,
    description: String,
    schema: String,
    #[serde(default)]
    output_schema: Option<String>,
    #[serde(default)]
    annotations: record::RecordedAnnotations,
}

impl ToolHistory {
    /// Opens the history that this and earlier daemons stored below `state`.
    pub fn new(state: &Path) -> ToolHistory {
        ToolHistory {
            dir: state.join("tools"),
            servers: Mutex::default(),
            writes: OrderedWrites::default(),
            catalog: Mutex::default(),
        }
    }

    /// Returns the tools of a server, reading its file on first use.
    fn of(&self, server: &ServerSettings) -> Arc<ServerTools> {
        let key = key(server);
        let mut servers = lock(&self.servers);
        let read = || Arc::new(read(&self.dir.join(format!("{key}.json"))).unwrap_or_default());
        servers.entry(key.clone()).or_insert_with(read).clone()
    }

    /// Whether no tool of a server was shown yet.
    pub fn is_new(&self, server: &ServerSettings) -> bool {
        self.of(server).shown.is_empty()
    }

    /// Returns the tools in `tools` that were not shown yet.
    pub fn unseen<'t>(
        &self,
        server: &ServerSettings,
        tools: impl IntoIterator<Item = &'t ToolDefinition>,
    ) -> Vec<&'t ToolDefinition> {
        let known = self.of(server);
        let new = |tool: &&ToolDefinition| !known.shown.contains_key(&tool.tool);
        tools.into_iter().filter(new).collect()
    }

    /// Whether a tool differs from the version that was shown.
    pub fn changed(&self, server: &ServerSettings, tool: &ToolDefinition) -> bool {
        let known = self.of(server);
        let seen = known.shown.get(&tool.tool);
        seen.is_some_and(|seen| tool_diff::is_changed(seen, tool, global_redactor()))
    }

    /// Returns how a tool differs from the version that was shown; empty if it does not differ.
    pub fn difference(
        &self,
        server: &ServerSettings,
        tool: &ToolDefinition,
    ) -> Vec<tool_diff::DiffLine> {
        match self.of(server).shown.get(&tool.tool) {
            Some(seen) if tool_diff::is_changed(seen, tool, global_redactor()) => {
                let deadline = Instant::now() + DIFF_TIMEOUT;
                tool_diff::difference(seen, tool, global_redactor(), Some(deadline))
            }
            _ => Vec::new(),
        }
    }

    /// Records that the user has seen these tools as they are. If the file cannot be written, this is remembered until the
    /// daemon ends.
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
                known.annotations.remove(&tool.tool);
                known.shown.insert(tool.tool.clone(), seen);
            }
            true
        });
        *lock(&self.catalog) = None;
    }

    /// Records the annotations that a server sends now, and returns those in force of each tool.
    fn update_annotations(
        &self,
        server: &ServerSettings,
        tools: &[&ToolDefinition],
    ) -> Vec<ToolAnnotations> {
        let mut held = Vec::new();
        self.learn(server, |known| {
            let mut changed = false;
            for tool in tools {
                let annotations = known.in_force(&tool.tool, tool.annotations);
                held.push(annotations);
                // A tool without annotations has none to remember.
                let none = known.shown.contains_key(&tool.tool)
                    || annotations == ToolAnnotations::default();
                if !none && known.annotations.get(&tool.tool) != Some(&annotations) {
                    known.annotations.insert(tool.tool.clone(), annotations);
                    changed = true;
                }
            }
            if changed {
                known.bound(&tools.iter().map(|tool| tool.tool.as_str()).collect());
            }
            changed
        });
        held
    }

    /// Updates the tools of a server, and queues a write of its file if `update` returns `true`.
    fn learn(&self, server: &ServerSettings, update: impl FnOnce(&mut ServerTools) -> bool) {
        // Reads the file on first use.
        self.of(server);
        let key = key(server);
        let mut servers = lock(&self.servers);
        let mut known = servers
            .get(&key)
            .map(|k| ServerTools::clone(k))
            .unwrap_or_default();
        if !update(&mut known) {
            return;
        }
        let known = Arc::new(known);
        servers.insert(key.clone(), known.clone());
        // Queued under the lock, so that the newest state is written last; written without it, since an fsync may take
        // seconds and this is the runtime thread.
        let (alias, target) = (server.alias.clone(), server.target());
        let path = self.dir.join(format!("{key}.json"));
        self.writes.push(move || {
            if let Err(e) = write(&path, alias, target, &known) {
                tracing::warn!("tools will be shown again after a restart: {}", e.message);
            }
        });
    }

    /// Waits until all files are written: before the process ends.
    pub fn finish_writes(&self) {
        self.writes.finish();
    }

    /// Returns the catalog with the annotations in force: an annotation that a server no longer sends is not revoked.
    fn in_force(
        &self,
        catalog: ToolCatalog,
        server: impl Fn(&str) -> Option<ServerSettings>,
    ) -> ToolCatalog {
        let mut last = lock(&self.catalog);
        if let Some((sent, held)) = &*last
            && Arc::ptr_eq(&sent.tools, &catalog.tools)
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
            // The server was removed, and its tools cannot be called.
            let Some(server) = server(alias) else {
                continue;
            };
            let tools: Vec<&ToolDefinition> = places.iter().map(|at| &catalog.tools[*at]).collect();
            let held = self
                .update_annotations(&server, &tools)
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

/// Returns the current catalog with the annotations in force.
pub async fn catalog(services: &SharedServices, patience: Duration) -> ToolCatalog {
    let catalog = services.mcp.catalog(patience).await;
    services
        .tool_history
        .in_force(catalog, |alias| services.mcp.server(alias))
}

/// Returns the name of a server's file, from its alias and target. Secrets are not included: a short one could be guessed
/// from the hash.
fn key(server: &ServerSettings) -> String {
    fingerprint([server.alias.as_str(), &server.target()])
}

fn write(path: &Path, alias: String, target: String, known: &ServerTools) -> Result<()> {
    let tool = |(name, seen): (&String, &ShownTool)| {
        let stored = StoredTool {
            title: seen.title.clone(),
            description: seen.description.clone(),
            schema: seen.schema.clone(),
            output_schema: seen.output_schema.clone(),
            annotations: recorded(seen.annotations),
        };
        (name.clone(), stored)
    };
    let annotations = |(name, now): (&String, &ToolAnnotations)| (name.clone(), recorded(*now));
    let file = StoredHistory {
        v: VERSION,
        alias,
        target,
        tools: known.shown.iter().map(tool).collect(),
        annotations: known.annotations.iter().map(annotations).collect(),
    };
    let text = serde_json::to_vec(&file).map_err(|e| Error::runtime(e.to_string()))?;
    if let Some(dir) = path.parent() {
        paths::make_dir(dir)?;
    }
    paths::replace_file(path, &text)
}

fn read(path: &Path) -> Option<ServerTools> {
    let mut text = Vec::new();
    let mut file = paths::read_own(path).ok()?;
    file.read_to_end(&mut text).ok()?;
    let stored: StoredHistory = serde_json::from_slice(&text).ok()?;
    let seen = |(name, tool): (String, StoredTool)| {
        let seen = ShownTool {
            title: tool.title,
            description: tool.description,
            schema: tool.schema,
            output_schema: tool.output_schema,
            annotations: from_record(&tool.annotations),
        };
        (name, seen)
    };
    let annotations = stored.annotations.iter();
    (stored.v == VERSION).then(|| ServerTools {
        annotations: annotations
            .map(|(name, stored)| (name.clone(), from_record(stored)))
            .collect(),
        shown: stored.tools.into_iter().map(seen).collect(),
    })
}

fn from_record(stored: &record::RecordedAnnotations) -> ToolAnnotations {
    ToolAnnotations {
        read_only: stored.read_only_hint,
        destructive: stored.destructive_hint,
        idempotent: stored.idempotent_hint,
        open_world: stored.open_world_hint,
    }
}

fn recorded(says: ToolAnnotations) -> record::RecordedAnnotations {
    record::RecordedAnnotations {
        read_only_hint: says.read_only,
        destructive_hint: says.destructive,
        idempotent_hint: says.idempotent,
        open_world_hint: says.open_world,
    }
}

#[cfg(test)]
mod tests;
