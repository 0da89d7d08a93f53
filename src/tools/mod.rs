//! The tools that a model is offered in place of hundreds: how it finds the one it needs, how it calls that, and how it
//! reads on in what one has said.

pub mod finder;
pub mod results;
pub mod search;
pub mod split;
