//! The first run on a terminal when there is no model: a short guide, then the prompt is answered.

use crate::error::{Error, Result};
use crate::paths::Paths;

/// Guides the person to a model.
///
/// # Errors
/// The person has chosen none.
pub fn run(_paths: &Paths, nothing: Error) -> Result<()> {
    Err(nothing)
}
