//! The tools that the person was shown, and the annotations that are in force, also of those that nobody was shown: kept
//! across daemons, a small file for each server. One that is lost or broken means that nothing was shown or said yet.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Daemon;
use crate::chat::{Annotations, Tool};
use crate::config::mcp::Server;
use crate::error::{Error, Result};
use crate::history::record;
use crate::mcp::Catalog;
use crate::paths;
use crate::safety::change::{self, Seen};
use crate::safety::redact::ours;
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
struct Tools {
    /// Those that were shown.
    shown: BTreeMap<String, Seen>,
    /// What it has said of the others: one that was never called may not forget that it destroys either.
    said: BTreeMap<String, Annotations>,
}

impl Tools {
    /// What is in force of a tool that says this now.
    fn in_force(&self, name: &str, now: Annotations) -> Annotations {
        let shown = self.shown.get(name).map(|seen| seen.annotations);
        let before = shown.or_else(|| self.said.get(name).copied());
        change::in_force(before.unwrap_or_default(), now)
    }

    /// Forgets names that are gone, where they are too many: first those that never destroyed.
    fn bound(&mut self, there: &BTreeSet<&str>) {
        let too_many = there.len() + GONE;
        if self.said.len() > too_many {
            let destroys = |says: &Annotations| says.destructive == Some(true);
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
pub struct Known {
    dir: PathBuf,
    /// What is in the files that were read, and what could not be written.
    servers: Mutex<HashMap<String, Arc<Tools>>>,
    /// The last catalog, and what became of it.
    catalog: Mutex<Option<(Catalog, Catalog)>>,
}

/// A file.
#[derive(Serialize, Deserialize)]
struct Kept {
    v: u32,
    /// For whoever reads it.
    alias: String,
    /// Without what may be secret.
    target: String,
    tools: BTreeMap<String, KeptTool>,
    /// Of tools that were not shown.
    #[serde(default)]
    said: BTreeMap<String, record::Annotations>,
}

#[derive(Serialize, Deserialize)]
struct KeptTool {
    description: String,
    schema: String,
    #[serde(default)]
    annotations: record::Annotations,
}

impl Known {
    /// What was shown by this daemon and earlier ones. The files are below `state`.
    pub fn new(state: &Path) -> Known {
        Known {
            dir: state.join("tools"),
            servers: Mutex::default(),
            catalog: Mutex::default(),
        }
    }

    /// What is known of the tools of a server.
    fn of(&self, server: &Server) -> Arc<Tools> {
        let key = key(server);
        let mut servers = lock(&self.servers);
        let read = || Arc::new(read(&self.dir.join(format!("{key}.json"))).unwrap_or_default());
        servers.entry(key.clone()).or_insert_with(read).clone()
    }

    /// Whether no tool of a server was shown.
    pub fn is_new(&self, server: &Server) -> bool {
        self.of(server).shown.is_empty()
    }

    /// Those of a server's tools that were not shown.
    pub fn unseen<'t>(
        &self,
        server: &Server,
        tools: impl IntoIterator<Item = &'t Tool>,
    ) -> Vec<&'t Tool> {
        let known = self.of(server);
        let new = |tool: &&Tool| !known.shown.contains_key(&tool.tool);
        tools.into_iter().filter(new).collect()
    }

    /// Whether a tool is another than was shown.
    pub fn changed(&self, server: &Server, tool: &Tool) -> bool {
        let known = self.of(server);
        let seen = known.shown.get(&tool.tool);
        seen.is_some_and(|seen| change::differs(seen, tool, ours()))
    }

    /// How a tool differs from what was shown; nothing where it does not.
    pub fn difference(&self, server: &Server, tool: &Tool) -> Vec<change::Line> {
        match self.of(server).shown.get(&tool.tool) {
            Some(seen) if change::differs(seen, tool, ours()) => {
                let deadline = Instant::now() + PATIENCE;
                change::difference(seen, tool, ours(), Some(deadline))
            }
            _ => Vec::new(),
        }
    }

    /// The person has seen these tools as they are. It is remembered as long as the daemon runs where it cannot be
    /// written.
    pub fn shown<'t>(&self, server: &Server, tools: impl IntoIterator<Item = &'t Tool>) {
        self.learn(server, |known| {
            for tool in tools {
                let seen = Seen {
                    annotations: known.in_force(&tool.tool, tool.annotations),
                    ..Seen::of(tool, ours())
                };
                known.said.remove(&tool.tool);
                known.shown.insert(tool.tool.clone(), seen);
            }
            true
        });
        *lock(&self.catalog) = None;
    }

    /// The server says this of its tools now; what is in force of each of them.
    fn said(&self, server: &Server, tools: &[&Tool]) -> Vec<Annotations> {
        let mut held = Vec::new();
        self.learn(server, |known| {
            let mut news = false;
            for tool in tools {
                let says = known.in_force(&tool.tool, tool.annotations);
                held.push(says);
                // Of one that says nothing there is nothing to forget.
                let none = known.shown.contains_key(&tool.tool) || says == Annotations::default();
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
    fn learn(&self, server: &Server, news: impl FnOnce(&mut Tools) -> bool) {
        // It is read where it was not yet.
        self.of(server);
        let key = key(server);
        let mut servers = lock(&self.servers);
        let mut known = servers
            .get(&key)
            .map(|k| Tools::clone(k))
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

    fn write(&self, server: &Server, key: &str, known: &Tools) -> Result<()> {
        let tool = |(name, seen): (&String, &Seen)| {
            let kept = KeptTool {
                description: seen.description.clone(),
                schema: seen.schema.clone(),
                annotations: kept(seen.annotations),
            };
            (name.clone(), kept)
        };
        let file = Kept {
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
    fn in_force(&self, catalog: Catalog, server: impl Fn(&str) -> Option<Server>) -> Catalog {
        let mut last = lock(&self.catalog);
        if let Some((said, held)) = &*last
            && Arc::ptr_eq(&said.tools, &catalog.tools)
        {
            return Catalog {
                without: catalog.without,
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
            let tools: Vec<&Tool> = places.iter().map(|at| &catalog.tools[*at]).collect();
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
pub async fn catalog(daemon: &Daemon, patience: Duration) -> Catalog {
    let catalog = daemon.mcp.catalog(patience).await;
    daemon
        .known
        .in_force(catalog, |alias| daemon.mcp.server(alias))
}

/// Names a server by its alias and where it is. No secret goes in: a short one could be guessed.
fn key(server: &Server) -> String {
    fingerprint([server.alias.as_str(), &server.target()])
}

fn read(path: &Path) -> Option<Tools> {
    let kept: Kept = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let seen = |(name, tool): (String, KeptTool)| {
        let seen = Seen {
            description: tool.description,
            schema: tool.schema,
            annotations: unkept(&tool.annotations),
        };
        (name, seen)
    };
    let said = kept.said.iter();
    (kept.v == VERSION).then(|| Tools {
        said: said
            .map(|(name, says)| (name.clone(), unkept(says)))
            .collect(),
        shown: kept.tools.into_iter().map(seen).collect(),
    })
}

fn unkept(kept: &record::Annotations) -> Annotations {
    Annotations {
        read_only: kept.read_only_hint,
        destructive: kept.destructive_hint,
        idempotent: kept.idempotent_hint,
        open_world: kept.open_world_hint,
    }
}

fn kept(says: Annotations) -> record::Annotations {
    record::Annotations {
        read_only_hint: says.read_only,
        destructive_hint: says.destructive,
        idempotent_hint: says.idempotent,
        open_world_hint: says.open_world,
    }
}

#[cfg(test)]
mod tests;
