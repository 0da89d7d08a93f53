//! Parses, runs, prints one error, exits.

use std::process::ExitCode;

use aish::cli;

fn main() -> ExitCode {
    match cli::run(cli::parse()) {
        Ok(code) => ExitCode::from(code),
        Err(e) => {
            cli::report(&e);
            ExitCode::from(e.kind.exit_code())
        }
    }
}
