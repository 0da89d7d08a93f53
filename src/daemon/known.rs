//! The tools that the person was shown, and the annotations that are in force: kept across daemons, a small file for each
//! server. One that is lost or broken means that nothing was shown yet.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Daemon;
use super::session::lock;
use crate::chat::{Annotations, Tool};
use crate::config::mcp::Server;
use crate::error::{Context, Error, Result};
use crate::history::record;
use crate::mcp::Catalog;
use crate::paths;
use crate::safety::change::{self, Seen};
use crate::secret::fingerprint;

/// The version of the files.
const VERSION: u32 = 1;

/// The tools of a server that were shown, by their names there.
type Shown = BTreeMap<String, Seen>;

/// All that was shown.
#[derive(Debug)]
pub struct Known {
    dir: PathBuf,
    /// What is in the files that were read, and what could not be written.
    servers: Mutex<HashMap<String, Arc<Shown>>>,
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

    /// The tools of a server that were shown.
    fn of(&self, server: &Server) -> Arc<Shown> {
        let key = key(server);
        let mut servers = lock(&self.servers);
        let read = || Arc::new(read(&self.dir.join(format!("{key}.json"))).unwrap_or_default());
        servers.entry(key.clone()).or_insert_with(read).clone()
    }

    /// Whether no tool of a server was shown.
    pub fn is_new(&self, server: &Server) -> bool {
        self.of(server).is_empty()
    }

    /// Those of a server's tools that were not shown.
    pub fn unseen<'t>(
        &self,
        server: &Server,
        tools: impl IntoIterator<Item = &'t Tool>,
    ) -> Vec<&'t Tool> {
        let shown = self.of(server);
        let new = |tool: &&Tool| !shown.contains_key(&tool.tool);
        tools.into_iter().filter(new).collect()
    }

    /// Whether a tool is another than was shown.
    pub fn changed(&self, server: &Server, tool: &Tool) -> bool {
        let shown = self.of(server);
        let seen = shown.get(&tool.tool);
        seen.is_some_and(|seen| change::differs(seen, tool))
    }

    /// How a tool differs from what was shown; nothing where it does not.
    pub fn difference(&self, server: &Server, tool: &Tool) -> Vec<change::Line> {
        match self.of(server).get(&tool.tool) {
            Some(seen) if change::differs(seen, tool) => change::difference(seen, tool),
            _ => Vec::new(),
        }
    }

    /// The person has seen these tools as they are. It is remembered as long as the daemon runs where it cannot be
    /// written.
    pub fn shown<'t>(&self, server: &Server, tools: impl IntoIterator<Item = &'t Tool>) {
        let mut shown = Shown::clone(&self.of(server));
        for tool in tools {
            let before = shown.get(&tool.tool).map(|seen| seen.annotations);
            let seen = Seen {
                annotations: change::in_force(before.unwrap_or_default(), tool.annotations),
                ..Seen::of(tool)
            };
            shown.insert(tool.tool.clone(), seen);
        }
        let key = key(server);
        let mut servers = lock(&self.servers);
        // Under the lock: whoever writes later knows more.
        if let Err(e) = self.write(server, &key, &shown) {
            tracing::warn!("tools will be shown again after a restart: {}", e.message);
        }
        servers.insert(key, Arc::new(shown));
        drop(servers);
        *lock(&self.catalog) = None;
    }

    fn write(&self, server: &Server, key: &str, shown: &Shown) -> Result<()> {
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
            tools: shown.iter().map(tool).collect(),
        };
        let text = serde_json::to_vec(&file).map_err(|e| Error::runtime(e.to_string()))?;
        paths::make_dir(&self.dir)?;
        let path = self.dir.join(format!("{key}.json"));
        let temporary = path.with_extension("new");
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options
            .open(&temporary)
            .and_then(|mut file| file.write_all(&text))
            .and_then(|()| fs::rename(&temporary, &path))
            .context(|| format!("cannot write {}", path.display()))
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
        let mut shown: BTreeMap<&str, Arc<Shown>> = BTreeMap::new();
        let mut forgotten = Vec::new();
        for (at, tool) in catalog.tools.iter().enumerate() {
            let shown = shown.entry(&tool.server).or_insert_with(|| {
                let server = server(&tool.server);
                server.map_or_else(Arc::default, |server| self.of(&server))
            });
            let seen = shown.get(&tool.tool).map(|seen| seen.annotations);
            let held = change::in_force(seen.unwrap_or_default(), tool.annotations);
            if held != tool.annotations {
                forgotten.push((at, held));
            }
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

fn read(path: &Path) -> Option<Shown> {
    let kept: Kept = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let seen = |(name, tool): (String, KeptTool)| {
        let seen = Seen {
            description: tool.description,
            schema: tool.schema,
            annotations: Annotations {
                read_only: tool.annotations.read_only_hint,
                destructive: tool.annotations.destructive_hint,
                idempotent: tool.annotations.idempotent_hint,
                open_world: tool.annotations.open_world_hint,
            },
        };
        (name, seen)
    };
    (kept.v == VERSION).then(|| kept.tools.into_iter().map(seen).collect())
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
