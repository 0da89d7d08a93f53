//! Tools as the model sees them: sources of tools, the search that replaces long tool lists, the tools to call what it
//! finds, and the store of long results.

pub mod builtin;
pub mod finder;
pub mod results;
pub mod search;
pub mod source;
pub mod split;
