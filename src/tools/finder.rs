//! Caches the search index of the current tool list: built on first use, rebuilt when the list has changed.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Mutex;

use super::search::{RetrieveRequest, ToolIndex, retrieve};
use crate::chat::ToolDefinition;
use crate::error::{Error, Result};

/// Searches tools with a cached index.
#[derive(Debug, Default)]
pub struct ToolFinder {
    /// Held while the index is built, so that concurrent searches wait for it instead of building another.
    cached: Mutex<Option<CachedIndex>>,
}

/// The indexed list and its index.
type CachedIndex = (Arc<[ToolDefinition]>, Arc<ToolIndex>);

impl ToolFinder {
    /// Returns the answer of `retrieve_tools` for these tools. Indexing and search run on the blocking thread pool.
    ///
    /// # Errors
    /// The index could not be built.
    pub async fn retrieve(
        &self,
        tools: &Arc<[ToolDefinition]>,
        wanted: RetrieveRequest,
    ) -> Result<Value> {
        let index = self.index(tools).await?;
        let tools = tools.clone();
        run_blocking(move || retrieve(&tools, &index, &wanted)).await
    }

    /// Returns the tools that match a query, best first, as position and score.
    ///
    /// # Errors
    /// The index could not be built.
    pub async fn search(
        &self,
        tools: &Arc<[ToolDefinition]>,
        query: String,
        limit: usize,
    ) -> Result<Vec<(usize, f32)>> {
        let index = self.index(tools).await?;
        run_blocking(move || index.search(&query, limit)).await
    }

    /// Builds the index of these tools in advance. A failure is reported by the next search.
    pub async fn prepare(&self, tools: &Arc<[ToolDefinition]>) {
        let _ = self.index(tools).await;
    }

    async fn index(&self, tools: &Arc<[ToolDefinition]>) -> Result<Arc<ToolIndex>> {
        let mut cached = self.cached.lock().await;
        if let Some((of, index)) = &*cached
            && Arc::ptr_eq(of, tools)
        {
            return Ok(index.clone());
        }
        let read = tools.clone();
        let index = Arc::new(run_blocking(move || ToolIndex::new(&read)).await?);
        *cached = Some((tools.clone(), index.clone()));
        Ok(index)
    }
}

async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|e| Error::runtime(format!("cannot search the tools: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Arc<[ToolDefinition]> {
        let tool = ToolDefinition {
            tool: name.to_owned(),
            ..ToolDefinition::default()
        };
        Arc::new([tool])
    }

    #[tokio::test]
    async fn the_index_is_built_once_per_tool_list() {
        let finder = ToolFinder::default();
        let tools = named("one");
        finder.prepare(&tools).await;
        assert!(finder.cached.lock().await.is_some());
        let (a, b) = tokio::join!(finder.index(&tools), finder.index(&tools));
        assert!(Arc::ptr_eq(&a.unwrap(), &b.unwrap()));
        let found = |tools, query: &str| {
            let asked = finder.search(tools, query.to_owned(), 5);
            async { asked.await.unwrap().len() }
        };
        assert_eq!(found(&tools, "one").await, 1);
        let next = named("two");
        assert_eq!(found(&next, "one").await, 0);
        assert_eq!(found(&next, "two").await, 1);
    }
}
