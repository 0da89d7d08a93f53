//! Parses, runs, prints one error, exits.

use std::process::ExitCode;

use aish::cli;

fn main() -> ExitCode {
    match cli::parse().and_then(cli::run) {
        Ok(code) => ExitCode::from(code),
        Err(e) => {
            cli::report(&e);
            ExitCode::from(e.kind.exit_code())
        }
    }
}
