//! The index of the tools that there are now, made when somebody first asks and anew when they have changed.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Mutex;

use super::search::{Index, Wanted, retrieve};
use crate::chat::Tool;
use crate::error::{Error, Result};

/// Finds tools.
#[derive(Debug, Default)]
pub struct Finder {
    /// Who comes while one is made waits for it.
    made: Mutex<Option<Made>>,
}

/// The list that was read last, and its index.
type Made = (Arc<[Tool]>, Arc<Index>);

impl Finder {
    /// The answer of `retrieve_tools` for these tools. Read and searched elsewhere: no thread that serves others waits.
    ///
    /// # Errors
    /// The index could not be made.
    pub async fn retrieve(&self, tools: &Arc<[Tool]>, wanted: Wanted) -> Result<Value> {
        let index = self.index(tools).await?;
        let tools = tools.clone();
        elsewhere(move || retrieve(&tools, &index, &wanted)).await
    }

    /// The tools that fit a question, best first, each with its score.
    ///
    /// # Errors
    /// The index could not be made.
    pub async fn search(
        &self,
        tools: &Arc<[Tool]>,
        query: String,
        limit: usize,
    ) -> Result<Vec<(usize, f32)>> {
        let index = self.index(tools).await?;
        elsewhere(move || index.search(&query, limit)).await
    }

    /// Makes the index of these tools. Where that fails, whoever asks is told.
    pub async fn prepare(&self, tools: &Arc<[Tool]>) {
        let _ = self.index(tools).await;
    }

    async fn index(&self, tools: &Arc<[Tool]>) -> Result<Arc<Index>> {
        let mut made = self.made.lock().await;
        if let Some((of, index)) = &*made
            && Arc::ptr_eq(of, tools)
        {
            return Ok(index.clone());
        }
        let read = tools.clone();
        let index = Arc::new(elsewhere(move || Index::new(&read)).await?);
        *made = Some((tools.clone(), index.clone()));
        Ok(index)
    }
}

async fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|e| Error::runtime(format!("cannot search the tools: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Arc<[Tool]> {
        let tool = Tool {
            tool: name.to_owned(),
            ..Tool::default()
        };
        Arc::new([tool])
    }

    #[tokio::test]
    async fn the_index_is_made_once_for_a_list_and_anew_for_the_next() {
        let finder = Finder::default();
        let tools = named("one");
        finder.prepare(&tools).await;
        assert!(finder.made.lock().await.is_some());
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
