//! The plugin in a real zsh in a real terminal.

mod environment;
mod exit_codes;
mod fix;
mod history;
mod hooks;
mod mcp;
mod offer;
mod options;
mod plugins;
mod prose;
mod sessions;
mod settings;
mod suggest;
mod syntax;
mod tui;
mod widths;
mod words;
