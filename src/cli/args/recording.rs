//! `aish-helper recording` and `replay`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

/// `aish-helper recording`
#[derive(Debug, Subcommand)]
pub enum RecordingCommand {
    /// List the recordings, oldest first
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Print short ids with time, terminal and first command, one per line, for the completion
        #[arg(long, hide = true, conflicts_with = "json")]
        names: bool,
    },
    /// Show a recording and its commands
    Show {
        /// Id of the recording, or a unique part of it
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a recording in another format, without secrets
    ///
    /// Secrets are replaced in cast and text, as far as aish finds them; raw is exactly what the terminal got. Window
    /// titles, clipboard writes, images and queries are left out of cast and text.
    Export {
        /// Id of the recording, or a unique part of it
        id: String,
        /// Output format
        #[arg(long, value_enum)]
        format: RecordingFormat,
        /// Write to this file instead of stdout
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Overwrite FILE if it exists
        #[arg(long, requires = "output")]
        force: bool,
    },
    /// Delete recordings, after confirmation
    Delete {
        /// Ids of the recordings, or unique parts of them
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

/// Formats of an exported recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RecordingFormat {
    /// asciicast version 3, for asciinema
    Cast,
    /// The lines on the screen, without the alternate screen
    Text,
    /// The bytes that the terminal got, with all secrets
    Raw,
}

/// `aish-helper replay`
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Id of the recording, or a unique part of it
    pub id: String,
    /// Play N times as fast
    #[arg(long, value_name = "N", default_value = "1", value_parser = speed)]
    pub speed: f64,
    /// Shorten pauses to this time: 500ms, 2s; 0 keeps them
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time_span)]
    pub idle: Duration,
    /// Begin at the N-th command
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub command: Option<u32>,
}

/// Reads a speed.
fn speed(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix(['x', '×']).unwrap_or(text).parse::<f64>();
    match number {
        Ok(speed) if (0.1..=100.0).contains(&speed) => Ok(speed),
        _ => Err("a number from 0.1 to 100 is needed".into()),
    }
}

/// Reads a time span: `500ms`, `1.5s`, `2`.
fn time_span(text: &str) -> Result<Duration, String> {
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1e-3),
        (None, Some(number)) => (number, 1.0),
        (None, None) => (text, 1.0),
    };
    let seconds = number.parse::<f64>().map(|number| number * unit);
    match seconds {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("a time such as 500ms or 2s is needed".into()),
    }
}
