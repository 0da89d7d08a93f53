//! Sharing: a session as one static page that leaks nothing.
//!
//! [`snapshot`] takes from the records what may be shown, once more without secrets and without the names of the user's home,
//! login and machine. [`page`] writes it as HTML without scripts. [`register`] knows every share, before it is published and
//! until it is verifiably gone. [`local`] keeps the pages of shares that the HTTP server serves.

pub mod local;
pub mod page;
pub mod register;
pub mod snapshot;
