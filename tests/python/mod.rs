//! Python helpers with a real python3: registration, schemas, calls, workers that misbehave, code that calls helpers.

mod calls;
mod code;
mod environments;
mod examples;
mod misbehave;
mod schemas;

use std::path::{Path, PathBuf};
use std::time::Duration;

use aish::error::Result;
use aish::paths::Paths;
use aish::python::WorkerLimits;
use aish::python::call::{CallScope, HelperFault, HelperResult};
use aish::python::catalog::HelperCatalog;
use aish::python::registration::{read_candidate, register};
use aish::python::registry::FileRecord;
use aish::python::workers::HelperWorkers;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Directories of aish, and a directory to work in.
struct HelperHome {
    dir: tempfile::TempDir,
    paths: Paths,
}

impl HelperHome {
    fn new() -> HelperHome {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("aish");
        let paths = Paths::under(&home, nix::unistd::getuid().as_raw()).unwrap();
        std::fs::create_dir_all(dir.path().join("work")).unwrap();
        HelperHome { dir, paths }
    }

    /// The working directory of the calls.
    fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// Writes a file outside of the directory of the helpers.
    fn write(&self, name: &str, source: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, source).unwrap();
        path
    }

    /// Registers a file, as a person who accepts it does.
    async fn try_add(&self, name: &str, source: &str) -> Result<FileRecord> {
        self.try_add_file(&self.write(name, source)).await
    }

    async fn try_add_file(&self, path: &Path) -> Result<FileRecord> {
        let candidate = read_candidate(&self.paths, path)?;
        let limits = WorkerLimits::default();
        let cancel = CancellationToken::new();
        register(&self.paths, candidate, &limits, &cancel, &mut |_| {}).await
    }

    async fn add(&self, name: &str, source: &str) -> FileRecord {
        self.try_add(name, source).await.unwrap()
    }

    fn catalog(&self) -> HelperCatalog {
        HelperCatalog::load(&self.paths)
    }
}

/// Workers with a home, and what one session needs for its calls.
struct TestSession {
    home: HelperHome,
    workers: HelperWorkers,
    progress: mpsc::Sender<String>,
    printed: mpsc::Receiver<String>,
    cancel: CancellationToken,
}

impl TestSession {
    async fn with(source: &str) -> TestSession {
        TestSession::limited(source, WorkerLimits::default()).await
    }

    async fn limited(source: &str, limits: WorkerLimits) -> TestSession {
        let home = HelperHome::new();
        home.add("tools.py", source).await;
        let (progress, printed) = mpsc::channel(4096);
        TestSession {
            home,
            workers: HelperWorkers::new(limits),
            progress,
            printed,
            cancel: CancellationToken::new(),
        }
    }

    async fn call(
        &self,
        name: &str,
        arguments: &str,
    ) -> std::result::Result<HelperResult, HelperFault> {
        self.call_in("s1", name, arguments, None).await
    }

    async fn call_in(
        &self,
        session: &str,
        name: &str,
        arguments: &str,
        limit: Option<Duration>,
    ) -> std::result::Result<HelperResult, HelperFault> {
        let catalog = self.home.catalog();
        let function = catalog.find(name).expect("the function");
        let directory = self.home.work();
        let scope = CallScope {
            limit,
            ..self.scope(session, &directory)
        };
        self.workers.call(function, arguments, scope).await
    }

    /// The scope of a call in a directory, with the default limit.
    fn scope<'a>(&'a self, session: &'a str, directory: &'a Path) -> CallScope<'a> {
        CallScope {
            session,
            directory,
            workspace: directory,
            limit: None,
            progress: &self.progress,
            cancel: &self.cancel,
        }
    }

    /// The text of a result that is not an error.
    async fn text(&self, name: &str, arguments: &str) -> String {
        let result = self.call(name, arguments).await.unwrap();
        assert!(!result.is_error, "{result:?}");
        result.text
    }

    /// What was printed so far.
    fn printed(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Ok(line) = self.printed.try_recv() {
            lines.push(line);
        }
        lines
    }
}

/// Whether a process exists and is not a zombie.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    state.is_some_and(|state| !state.starts_with(['Z', 'X']))
}

/// Polls until `holds`, for conditions without an event.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + crate::support::PATIENCE;
    while !holds() {
        assert!(
            std::time::Instant::now() < deadline,
            "time limit reached while waiting until {what}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
