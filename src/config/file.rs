//! Parses a configuration file into its settings, or into all its faults.

use std::fmt;
use std::path::{Path, PathBuf};

use super::origin::SettingLog;
use super::setting::SectionType;
use super::settings::Config;
use super::syntax_tree::{self, SyntaxError, SyntaxNode, SyntaxValue};
use super::table_reader::{FileContext, FileScope, TableFault, TableReader};

/// A configuration file that was read without a fault.
#[derive(Debug, Clone)]
pub struct ConfigFile {
    /// The path, or `None` if there is no file.
    pub path: Option<PathBuf>,
    /// The settings of the file, and the defaults of the others.
    pub(super) config: Config,
    /// The same with their origins.
    pub(super) values: SettingLog,
}

impl Default for ConfigFile {
    /// A file that sets nothing.
    fn default() -> ConfigFile {
        let root = SyntaxNode {
            value: SyntaxValue::Table(Vec::new()),
            line: 1,
        };
        let (config, values, _) = read_user(&root);
        ConfigFile {
            path: None,
            config,
            values,
        }
    }
}

/// A fault in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1; `None` if the fault concerns the file as a whole.
    pub line: Option<usize>,
    /// The key with all its tables, such as `models.gpt.base_url`; empty if the fault is not in a key.
    pub key: String,
    /// The problem and how to correct it.
    pub message: String,
}

impl fmt::Display for ConfigProblem {
    /// Formats one line: `/path/config.toml:12: models.gpt.base_urll: unknown key; did you mean base_url?`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl ConfigProblem {
    /// A fault on a line.
    pub(super) fn at(file: &Path, fault: TableFault) -> ConfigProblem {
        ConfigProblem {
            file: file.to_path_buf(),
            line: Some(fault.line),
            key: fault.key,
            message: fault.message,
        }
    }
}

/// The syntax of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileFormat {
    Toml,
    Json,
}

/// Parses the user's configuration; on failure returns every fault, sorted by line.
pub(super) fn parse(
    text: &str,
    format: FileFormat,
    path: &Path,
) -> Result<ConfigFile, Vec<ConfigProblem>> {
    let root = parse_syntax(text, format).map_err(|fault| vec![ConfigProblem::at(path, fault)])?;
    let (mut config, values, faults) = read_user(&root);
    if !faults.is_empty() {
        let problems = faults
            .into_iter()
            .map(|fault| ConfigProblem::at(path, fault));
        return Err(problems.collect());
    }
    config.file = Some(path.to_path_buf());
    Ok(ConfigFile {
        path: Some(path.to_path_buf()),
        config,
        values,
    })
}

/// The settings of a file, their origins, and the faults sorted by line.
pub(super) type ParsedSettings = (Config, SettingLog, Vec<TableFault>);

/// Parses a project's `.aish.toml`. Where there are faults, the settings that are right are returned too. `aliases` are
/// the servers of the user's configuration.
///
/// # Errors
/// The syntax is wrong, so that nothing can be read.
pub(super) fn parse_project(
    text: &str,
    aliases: Vec<String>,
) -> Result<ParsedSettings, TableFault> {
    let root = parse_syntax(text, FileFormat::Toml)?;
    Ok(read(&root, FileContext::new(FileScope::Project, aliases)))
}

fn parse_syntax(text: &str, format: FileFormat) -> Result<SyntaxNode, TableFault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let root = match format {
        FileFormat::Toml => syntax_tree::parse_toml(text),
        FileFormat::Json => syntax_tree::parse_json(text),
    };
    root.map_err(|SyntaxError { line, message }| TableFault {
        line,
        key: String::new(),
        message,
    })
}

fn read_user(root: &SyntaxNode) -> ParsedSettings {
    read(root, FileContext::new(FileScope::User, aliases(root)))
}

fn read(root: &SyntaxNode, context: FileContext) -> ParsedSettings {
    let config = TableReader::root(root, &context).map(|root| Config::read_table(&root));
    let mut faults = context.faults.into_inner();
    faults.sort_by_key(|fault| fault.line);
    (
        config.unwrap_or_default(),
        context.values.into_inner(),
        faults,
    )
}

/// Returns the keys of `[mcp.servers]`. Rules that mention a server can precede it.
fn aliases(root: &SyntaxNode) -> Vec<String> {
    fn table<'t>(node: &'t SyntaxNode, key: &str) -> Option<&'t SyntaxNode> {
        match &node.value {
            SyntaxValue::Table(entries) => entries
                .iter()
                .find(|e| e.key == key)
                .map(|entry| &entry.node),
            _ => None,
        }
    }
    let servers = table(root, "mcp").and_then(|mcp| table(mcp, "servers"));
    match servers.map(|node| &node.value) {
        Some(SyntaxValue::Table(entries)) => entries.iter().map(|e| e.key.clone()).collect(),
        _ => Vec::new(),
    }
}
