//! The helpers that can be called now, as tools. Python is not started for it: everything comes from the registry.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::ALIAS;
use super::environment;
use super::registry::{
    FileRecord, FunctionRecord, HelperRegistry, data_dir, helpers_dir, read_source, sha256,
};
use crate::chat::{ToolAnnotations, ToolDefinition};
use crate::paths::Paths;
use crate::safety::policy::HELPER_IDENTITY;

/// The registered helpers whose files are unchanged.
#[derive(Debug, Clone, Default)]
pub struct HelperCatalog {
    functions: Vec<Arc<HelperFunction>>,
    problems: Vec<String>,
}

/// A function that can be called.
#[derive(Debug, Clone, PartialEq)]
pub struct HelperFunction {
    /// The result of its registration.
    pub record: FunctionRecord,
    /// The file that defines it.
    pub file: Arc<HelperFile>,
}

/// A file with helpers, with the content that was shown to the person.
#[derive(Debug, Clone, PartialEq)]
pub struct HelperFile {
    /// Name of the file.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// SHA-256 of the content.
    pub sha256: String,
    /// The content.
    pub source: String,
    /// The interpreter to start.
    pub python: PathBuf,
    /// The directory of its packages, if it has dependencies.
    pub packages: Option<PathBuf>,
}

impl HelperCatalog {
    /// Reads the registry, and compares the files with what was added. The functions of a file that was changed are left out.
    pub fn load(paths: &Paths) -> HelperCatalog {
        let mut catalog = HelperCatalog::default();
        let registry = match HelperRegistry::load(paths) {
            Ok(registry) => registry,
            Err(e) => {
                catalog.problems.push(e.message);
                return catalog;
            }
        };
        let dir = helpers_dir(paths);
        let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
        for record in &registry.files {
            let file = match usable_file(paths, &dir, record) {
                Ok(file) => Arc::new(file),
                Err(problem) => {
                    catalog.problems.push(problem);
                    continue;
                }
            };
            catalog.problems.extend(record.problems.iter().cloned());
            for function in &record.functions {
                if let Some(owner) = owners.get(function.name.as_str()) {
                    let (name, file) = (&function.name, &record.file);
                    catalog.problems.push(format!(
                        "{file}: function {name} is left out, because {owner} has one of that name; rename one of them"
                    ));
                    continue;
                }
                owners.insert(&function.name, &record.file);
                catalog.functions.push(Arc::new(HelperFunction {
                    record: function.clone(),
                    file: Arc::clone(&file),
                }));
            }
        }
        catalog.problems.extend(unregistered(&dir, &registry));
        catalog
    }

    /// Returns the tools.
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        self.functions.iter().map(|f| definition(f)).collect()
    }

    /// Returns the catalog with only the functions whose names pass.
    pub fn selected(&self, is_selected: impl Fn(&str) -> bool) -> HelperCatalog {
        let functions = self.functions.iter();
        HelperCatalog {
            functions: functions
                .filter(|function| is_selected(&function.record.name))
                .cloned()
                .collect(),
            problems: self.problems.clone(),
        }
    }

    /// Returns a line for each file and function that is left out.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Returns the functions.
    pub fn functions(&self) -> &[Arc<HelperFunction>] {
        &self.functions
    }

    /// Returns the function with this name, with or without `helper.` before it.
    pub fn find(&self, name: &str) -> Option<&Arc<HelperFunction>> {
        let prefix = format!("{ALIAS}.");
        let name = name.strip_prefix(&prefix).unwrap_or(name);
        self.functions.iter().find(|f| f.record.name == name)
    }
}

/// Returns a file if it is unchanged since it was added, and one line otherwise.
fn usable_file(
    paths: &Paths,
    dir: &Path,
    record: &FileRecord,
) -> std::result::Result<HelperFile, String> {
    let (name, path) = (&record.file, dir.join(&record.file));
    let add = format!("aish-helper helper add {}", path.display());
    if !path.exists() {
        return Err(format!(
            "{name} was deleted and is not used; forget it with: aish-helper helper remove {name}"
        ));
    }
    let source = read_source(&path).map_err(|e| format!("{name} is not used: {}", e.message))?;
    if sha256(source.as_bytes()) != record.sha256 {
        return Err(format!(
            "{name} was changed after it was added and is not used; add it again: {add}"
        ));
    }
    let (python, packages) = match &record.environment {
        None => (record.python.clone(), None),
        Some(environment) => {
            let place = environment::place(&data_dir(paths), environment);
            (place.python, Some(place.packages))
        }
    };
    if !python.exists() || packages.as_ref().is_some_and(|dir| !dir.is_dir()) {
        return Err(format!(
            "{name} is not used: its Python ({}) is gone; add it again: {add}",
            python.display()
        ));
    }
    Ok(HelperFile {
        name: name.clone(),
        path,
        sha256: record.sha256.clone(),
        source,
        python,
        packages,
    })
}

/// Returns a line for each Python file in the directory that was not added.
fn unregistered(dir: &Path, registry: &HelperRegistry) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_known = |name: &str| registry.files.iter().any(|record| record.file == name);
    let mut lines: Vec<String> = names
        .filter(|name| name.ends_with(".py") && !name.starts_with('.') && !is_known(name))
        .map(|name| {
            let path = dir.join(&name);
            format!(
                "{name} was not added and is not used: aish-helper helper add {}",
                path.display()
            )
        })
        .collect();
    lines.sort();
    lines
}

fn definition(function: &HelperFunction) -> ToolDefinition {
    let record = &function.record;
    let name = format!("{ALIAS}.{}", record.name);
    let schema = record.schema.to_string();
    let environment = function.file.packages.as_deref().map(Path::display);
    let environment = environment.map_or_else(String::new, |dir| dir.to_string());
    let mut identity = String::new();
    for part in [
        &name,
        &function.file.sha256,
        &record.description,
        &schema,
        &environment,
    ] {
        identity.push_str(&format!("{}:{part}", part.len()));
    }
    ToolDefinition {
        name,
        server: ALIAS.to_owned(),
        tool: record.name.clone(),
        title: None,
        description: record.description.clone(),
        schema,
        output_schema: None,
        annotations: ToolAnnotations {
            read_only: Some(record.read_only),
            destructive: Some(record.destructive),
            idempotent: None,
            open_world: Some(record.network),
        },
        // The person was shown the file that declares them.
        trusted: true,
        identity: format!("{HELPER_IDENTITY}{}", sha256(identity.as_bytes())),
    }
}
