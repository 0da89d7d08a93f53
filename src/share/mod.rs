//! Sharing: a session as one static page that leaks nothing.
//!
//! [`snapshot`] takes from the records what may be shown, once more without secrets and without the names of the user's home,
//! login and machine, which [`cleaner`] looks for in the text that a reader sees or copies ([`segments`]): [`answer`] makes HTML of the Markdown of answers
//! first. [`replay`] does the same with recordings of terminals. [`page`] writes it as HTML without scripts. [`register`] knows every share, before it is published and
//! until it is verifiably gone. [`local`] keeps the pages that the HTTP server serves, with their recordings, [`s3`] those in buckets, and
//! [`publisher`] publishes and removes them in the right order.

pub mod answer;
pub mod cleaner;
pub mod local;
pub mod object;
pub mod page;
pub mod publisher;
pub mod register;
pub mod replay;
pub mod s3;
pub mod segments;
pub mod snapshot;
