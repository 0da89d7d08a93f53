//! The Python helpers: which there are now, and the processes that run them.

use std::sync::Arc;

use crate::error::Result;
use crate::paths::Paths;
use crate::python::WorkerLimits;
use crate::python::catalog::HelperCatalog;
use crate::python::workers::HelperWorkers;

/// The Python helpers of all sessions.
#[derive(Debug)]
pub struct PythonHelpers {
    /// The processes, one for each session and environment.
    pub workers: Arc<HelperWorkers>,
}

impl PythonHelpers {
    /// Prepares the helpers; no process is started.
    ///
    /// # Errors
    /// The program of aish, which sets up the sandbox, is not found.
    pub fn new(paths: &Paths) -> Result<PythonHelpers> {
        let limits = WorkerLimits::sandboxed(paths)?;
        Ok(PythonHelpers {
            workers: Arc::new(HelperWorkers::new(limits)),
        })
    }

    /// Reads which helpers can be called. The files are compared each time with what was added, on another thread.
    pub async fn catalog(&self, paths: &Paths) -> HelperCatalog {
        let paths = paths.clone();
        let loading = tokio::task::spawn_blocking(move || HelperCatalog::load(&paths));
        let catalog = loading.await.unwrap_or_default();
        for problem in catalog.problems() {
            tracing::info!("{problem}");
        }
        catalog
    }
}
