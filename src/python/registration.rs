//! Registration: a file becomes a helper when the person has seen it. Its packages are installed and its functions described.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::call::HelperFault;
use super::command::{WorkerLimits, WorkerSpec};
use super::environment::{self, find_interpreter};
use super::metadata::{self, ScriptMetadata};
use super::registry::{
    FileRecord, FunctionRecord, HelperRegistry, data_dir, helpers_dir, read_source, sha256,
};
use super::workers::describe_file;
use crate::error::{Error, ErrorContext, ErrorKind, Result};
use crate::paths::{Paths, lock_file, make_dir, replace_file};

/// Maximum number of functions of a file.
const MAX_FUNCTIONS: usize = 100;
/// Maximum number of characters of a description for the model, and of a docstring.
const MAX_DESCRIPTION: usize = 4000;
const MAX_DOCSTRING: usize = 20_000;

/// A file that may be added, as it is shown to the person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelperCandidate {
    /// Name of the file in the directory of the helpers.
    pub name: String,
    /// The content.
    pub source: String,
    /// Declaration of the file about its interpreter and packages.
    pub metadata: ScriptMetadata,
    /// A file of this name with another content is there, or was added before.
    pub replaces: bool,
}

/// What `remove` has removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedHelper {
    /// The file.
    pub file: String,
    /// Number of environments that no other helper used.
    pub environments: usize,
}

/// Reads a file that may be added.
///
/// # Errors
/// The file cannot be read, its name is not one of a Python file, or its metadata is invalid.
pub fn read_candidate(paths: &Paths, file: &Path) -> Result<HelperCandidate> {
    let name = file.file_name().and_then(|name| name.to_str());
    let name = name.unwrap_or_default().to_owned();
    let stem = name.strip_suffix(".py").unwrap_or_default();
    let is_valid = !stem.is_empty()
        && stem.len() <= 60
        && stem
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if !is_valid {
        return Err(Error::usage(format!(
            "{} is not the name of a helper file",
            file.display()
        ))
        .hint("name it NAME.py, with letters, digits, - and _ in NAME"));
    }
    let source = read_source(file)?;
    let metadata = metadata::parse(&source).map_err(|fault| {
        Error::usage(format!("{}: {fault}", file.display()))
            .hint("see: docs/helpers.md, dependencies")
    })?;
    let digest = sha256(source.as_bytes());
    let old = fs::read(helpers_dir(paths).join(&name));
    let was_added = |record: &FileRecord| record.file == name && record.sha256 != digest;
    let replaces = old.is_ok_and(|old| old != source.as_bytes())
        || HelperRegistry::load(paths)?.files.iter().any(was_added);
    Ok(HelperCandidate {
        name,
        source,
        metadata,
        replaces,
    })
}

/// Registers a file that the person has accepted: installs its packages, describes its functions in a worker, copies the
/// file and writes the registry. Blocks while packages are installed, so it is for the command line only.
///
/// # Errors
/// No interpreter fits, a package cannot be installed, or no function can be a tool; nothing is changed then.
pub async fn register(
    paths: &Paths,
    candidate: HelperCandidate,
    limits: &WorkerLimits,
    cancel: &CancellationToken,
    progress: &mut dyn FnMut(&str),
) -> Result<FileRecord> {
    let data = data_dir(paths);
    make_dir(&data)?;
    // Two registrations would write the same registry.
    let _lock = lock_file(&data.join("lock"))?;
    let mut registry = HelperRegistry::load(paths)?;
    let registered = described(paths, &candidate, limits, cancel, progress).await;
    if let Ok(record) = &registered {
        let dir = helpers_dir(paths);
        make_dir(&dir)?;
        replace_file(&dir.join(&candidate.name), candidate.source.as_bytes())?;
        registry.insert(record.clone());
        registry.save(paths)?;
    }
    remove_unused(&data, &registry)?;
    registered
}

/// Makes the record of a file.
async fn described(
    paths: &Paths,
    candidate: &HelperCandidate,
    limits: &WorkerLimits,
    cancel: &CancellationToken,
    progress: &mut dyn FnMut(&str),
) -> Result<FileRecord> {
    let (name, metadata) = (&candidate.name, &candidate.metadata);
    let interpreter = find_interpreter(metadata.requires_python.as_deref())?;
    let data = data_dir(paths);
    let prepared = environment::prepare(&data, metadata, &interpreter, progress)?;
    let place = prepared
        .as_ref()
        .map(|prepared| environment::place(&data, &prepared.name));
    let spec = WorkerSpec {
        python: place.as_ref().map_or(&interpreter.path, |p| &p.python),
        packages: place.as_ref().map(|p| p.packages.as_path()),
        // The file is imported, not called: it needs no workspace.
        directory: Path::new("/usr"),
        network: false,
        writes: false,
        limits,
    };
    let path = helpers_dir(paths).join(name);
    let (send, mut printed) = mpsc::channel(64);
    let answer = describe_file(&spec, name, &path, &candidate.source, &send, cancel).await;
    drop(send);
    while let Ok(line) = printed.try_recv() {
        progress(&format!("{name} prints: {line}"));
    }
    let mut answer = answer.map_err(|fault| match fault {
        HelperFault::Interrupted => Error::new(ErrorKind::Interrupted, "interrupted"),
        HelperFault::Failed(reason) => Error::runtime(reason),
    })?;
    let mut take = |field: &str| answer.get_mut(field).map(Value::take).unwrap_or_default();
    let unreadable = || format!("cannot read the description of {name}");
    let functions: Vec<FunctionRecord> =
        serde_json::from_value(take("functions")).context(unreadable)?;
    let mut problems: Vec<String> = serde_json::from_value(take("problems")).context(unreadable)?;
    let functions = checked(functions);
    let hides = functions.iter().map(|function| function.name.as_str());
    problems.extend(hides.filter(|name| PYTHON_FUNCTIONS.contains(name)).map(|function| {
        format!("{name}: function {function} hides Python's own function of that name in code of the tool python; rename it")
    }));
    if functions.is_empty() {
        let reason = match problems.is_empty() {
            true => "it defines no function without a leading underscore".to_owned(),
            false => problems.join("; "),
        };
        return Err(Error::usage(format!(
            "{name} has no function that can be a tool: {reason}"
        ))
        .hint("a helper is a function with type hints and a docstring; see: docs/helpers.md"));
    }
    let (environment, locked) = prepared.map_or((None, Vec::new()), |prepared| {
        (Some(prepared.name), prepared.locked)
    });
    Ok(FileRecord {
        file: name.clone(),
        sha256: sha256(candidate.source.as_bytes()),
        python: interpreter.path.clone(),
        python_version: interpreter.version_text(),
        environment,
        requires_python: metadata.requires_python.clone(),
        dependencies: metadata
            .dependencies
            .iter()
            .map(|d| d.text.clone())
            .collect(),
        locked,
        functions,
        problems,
    })
}

/// Names of functions and types that Python code uses without an import.
const PYTHON_FUNCTIONS: [&str; 63] = [
    "abs",
    "aiter",
    "all",
    "anext",
    "any",
    "ascii",
    "bin",
    "bool",
    "breakpoint",
    "bytearray",
    "bytes",
    "callable",
    "chr",
    "classmethod",
    "compile",
    "complex",
    "delattr",
    "dict",
    "dir",
    "divmod",
    "enumerate",
    "eval",
    "exec",
    "filter",
    "float",
    "format",
    "frozenset",
    "getattr",
    "globals",
    "hasattr",
    "hash",
    "hex",
    "id",
    "input",
    "int",
    "isinstance",
    "issubclass",
    "iter",
    "len",
    "list",
    "locals",
    "map",
    "max",
    "memoryview",
    "min",
    "next",
    "object",
    "open",
    "ord",
    "pow",
    "print",
    "property",
    "range",
    "repr",
    "reversed",
    "round",
    "set",
    "sorted",
    "str",
    "sum",
    "tuple",
    "type",
    "zip",
];

/// Bounds the texts that the code of the file declares about itself.
fn checked(functions: Vec<FunctionRecord>) -> Vec<FunctionRecord> {
    let cut = |text: String, most: usize| match text.char_indices().nth(most) {
        Some((at, _)) => text.get(..at).map(str::to_owned).unwrap_or_default(),
        None => text,
    };
    let is_name = |name: &str| {
        let starts = name.starts_with(|c: char| c.is_ascii_alphabetic());
        starts && name.len() <= 48 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let mut names = BTreeSet::new();
    let valid = functions.into_iter().filter(|function| {
        is_name(&function.name)
            && function.schema.is_object()
            && names.insert(function.name.clone())
    });
    valid
        .take(MAX_FUNCTIONS)
        .map(|function| FunctionRecord {
            description: cut(function.description, MAX_DESCRIPTION),
            docstring: cut(function.docstring, MAX_DOCSTRING),
            signature: cut(function.signature, MAX_DESCRIPTION),
            ..function
        })
        .collect()
}

/// Removes a helper file and the environments that no other one uses.
///
/// # Errors
/// No such file was added, or it cannot be deleted.
pub fn remove(paths: &Paths, name: &str) -> Result<RemovedHelper> {
    let data = data_dir(paths);
    make_dir(&data)?;
    let _lock = lock_file(&data.join("lock"))?;
    let mut registry = HelperRegistry::load(paths)?;
    let file = find_record(&registry, name)?.file.clone();
    registry.files.retain(|record| record.file != file);
    let path = helpers_dir(paths).join(&file);
    match fs::remove_file(&path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            return Err(e).context(|| format!("cannot delete {}", path.display()));
        }
        _ => {}
    }
    registry.save(paths)?;
    let environments = remove_unused(&data, &registry)?;
    Ok(RemovedHelper { file, environments })
}

/// Returns the record of a file, by its name with or without `.py`.
///
/// # Errors
/// No such file was added.
pub fn find_record<'r>(registry: &'r HelperRegistry, name: &str) -> Result<&'r FileRecord> {
    let with_suffix = format!("{name}.py");
    let found = registry
        .files
        .iter()
        .find(|record| record.file == name || record.file == with_suffix);
    found.ok_or_else(|| {
        Error::usage(format!("no helper file {name} was added"))
            .hint("see: aish-helper helper list")
    })
}

/// Removes the environments that no file needs, and returns their number.
fn remove_unused(data: &Path, registry: &HelperRegistry) -> Result<usize> {
    let used = registry.environments();
    let mut removed = 0;
    for entry in fs::read_dir(data).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let is_environment = name.len() == 16 && name.chars().all(|c| c.is_ascii_hexdigit());
        if is_environment && !used.contains(name) {
            environment::remove(&entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}
