//! Python helpers: functions in the user's own files that are tools, and the code blocks that call them.
//!
//! A file counts only after `aish-helper helper add` has shown it ([`registration`]). Registration installs the packages of the
//! file ([`environment`]), runs the file in a worker to describe its functions, and writes everything to a registry
//! ([`registry`]), from which [`catalog`] makes tools without starting Python. A call goes to a worker ([`workers`]): a process
//! of the session that gets the source of the file over its channel, so that it runs exactly the bytes that were shown.
//!
//! The worker runs `runtime.py`; `schema.py` is the part of it that knows types and docstrings. Nothing here decides about
//! calls: the gate does, also for calls that code makes ([`call::HelperCall`]).

pub mod call;
pub mod catalog;
mod command;
pub mod environment;
pub mod metadata;
mod output;
mod process;
pub mod registration;
pub mod registry;
pub mod workers;

use crate::safety::policy::HELPER_SERVER;

pub use self::command::{WorkerLimits, WorkerSandbox};

/// The alias of the helpers as a source of tools: they are named `helper.NAME`.
pub const ALIAS: &str = HELPER_SERVER;
