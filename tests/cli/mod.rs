//! End-to-end tests of `aish-helper` and its daemon, with real signals, files and processes.

mod activity;
mod attach;
#[cfg(target_os = "linux")]
mod bounds;
mod compact;
mod config;
mod cost;
mod daemon;
mod dry_run;
mod durable;
mod failures;
mod fallback;
mod fix_it;
mod follow;
mod helper;
mod launcher;
mod mcp;
mod model_add;
mod model_install;
mod models;
mod multiline;
mod own_files;
mod packs;
mod paused;
mod policy;
mod prompt;
mod propose;
mod redact;
mod seen;
mod session_settings;
mod sessions;
mod shell;
mod stderr_apart;
mod surroundings;
mod terminal;
mod think;
