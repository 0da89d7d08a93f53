//! Parses, runs, prints one error, exits.

use std::process::ExitCode;

use aish::cli::{self, args::Cli};
use clap::Parser;

fn main() -> ExitCode {
    match cli::run(Cli::parse()) {
        Ok(code) => ExitCode::from(code),
        Err(e) => {
            cli::report(&e);
            ExitCode::from(e.kind.exit_code())
        }
    }
}
