//! The plugin in a real zsh in a real terminal.

mod hooks;
mod mcp;
mod offer;
mod options;
mod plugins;
mod sessions;
mod settings;
mod suggest;
mod widths;
mod words;
