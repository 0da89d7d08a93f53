//! `aish-helper helper`.

use std::path::PathBuf;

use clap::Subcommand;

/// `aish-helper helper`
#[derive(Debug, Subcommand)]
pub enum HelperCommand {
    /// List the helper files, their tools, and what is left out
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Add a Python file with helpers, or add it again after a change
    ///
    /// The file is shown, with the packages that it needs. Once you confirm, it is copied to the helper directory, its packages
    /// are installed into an environment of their own, and its functions with type hints and a docstring become tools.
    Add {
        /// The Python file
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Do not ask; still requires a terminal
        #[arg(long)]
        yes: bool,
    },
    /// Delete a helper file and the packages that only it needs, after confirmation
    Remove {
        /// Name of the file
        #[arg(value_name = "FILE")]
        file: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Call a helper yourself, in this directory
    Test {
        /// Name of the function
        name: String,
        /// Arguments, a JSON object; - reads them from stdin
        #[arg(
            long = "json_args",
            alias = "json-args",
            value_name = "JSON",
            default_value = "{}"
        )]
        json_args: String,
        /// Print text, images and notes as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the signature, docstring and JSON Schema of a helper
    Doc {
        /// Name of the function; all by default
        name: Option<String>,
    },
}
