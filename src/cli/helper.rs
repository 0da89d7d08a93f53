//! `aish-helper helper`: adds, lists, removes and tries Python helpers.

mod question;

use std::io::Write;
use std::path::Path;

use serde::Serialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::args::HelperCommand;
use super::call::read_arguments;
use super::table::{count, table};
use super::{columns, print, print_json, session_picker};
use crate::client::text_format::cut;
use crate::error::{Error, ErrorContext, ErrorKind, Result};
use crate::paths::Paths;
use crate::python::WorkerLimits;
use crate::python::call::{CallScope, HelperFault, HelperResult};
use crate::python::catalog::{HelperCatalog, HelperFunction};
use crate::python::registration;
use crate::python::registry::{FileRecord, HelperRegistry, helpers_dir};
use crate::python::workers::HelperWorkers;
use crate::safety::text::one_line;

/// Maximum number of characters of a line about a helper.
const MAX_LINE: usize = 400;

/// Runs a `helper` subcommand and returns the exit code.
///
/// # Errors
/// The file or function is unknown or invalid, the person said no, or an installation or a call failed.
pub fn run(paths: &Paths, command: HelperCommand) -> Result<u8> {
    match command {
        HelperCommand::List { json } => list(paths, json)?,
        HelperCommand::Add { file, yes } => add(paths, &file, yes)?,
        HelperCommand::Remove { file, yes } => remove(paths, &file, yes)?,
        HelperCommand::Test {
            name,
            json_args,
            json,
        } => return test(paths, &name, json_args, json),
        HelperCommand::Doc { name } => doc(paths, name.as_deref())?,
    }
    Ok(0)
}

/// A file as `--json` prints it.
#[derive(Debug, Serialize)]
struct FileView<'a> {
    file: &'a str,
    tools: Vec<&'a str>,
    python: &'a str,
    dependencies: &'a [String],
    locked: &'a [String],
    sha256: &'a str,
}

/// What `list --json` prints.
#[derive(Debug, Serialize)]
struct ListView<'a> {
    directory: String,
    files: Vec<FileView<'a>>,
    problems: &'a [String],
}

fn list(paths: &Paths, json: bool) -> Result<()> {
    let catalog = HelperCatalog::load(paths);
    // An unreadable registry is one of the problems of the catalog.
    let registry = HelperRegistry::load(paths).unwrap_or_default();
    let tools_of = |file: &str| -> Vec<&str> {
        let functions = catalog.functions().iter().filter(|f| f.file.name == file);
        functions.map(|f| f.record.name.as_str()).collect()
    };
    if json {
        let files = registry.files.iter().map(|record| FileView {
            file: &record.file,
            tools: tools_of(&record.file),
            python: &record.python_version,
            dependencies: &record.dependencies,
            locked: &record.locked,
            sha256: &record.sha256,
        });
        return print_json(&ListView {
            directory: helpers_dir(paths).display().to_string(),
            files: files.collect(),
            problems: catalog.problems(),
        });
    }
    if registry.files.is_empty() && catalog.problems().is_empty() {
        return print("no helpers yet; add a Python file with: aish-helper helper add FILE\n");
    }
    let rows: Vec<[String; 3]> = registry
        .files
        .iter()
        .map(|record| {
            let tools = tools_of(&record.file);
            let packages = match record.dependencies.len() {
                0 => String::new(),
                _ => count(record.locked.len(), "package"),
            };
            let tools = match tools.is_empty() {
                true => "not used".to_owned(),
                false => one_line(&tools.join(", "), MAX_LINE),
            };
            [one_line(&record.file, MAX_LINE), packages, tools]
        })
        .collect();
    let mut out = table(rows.iter(), columns(), cut).concat();
    for problem in catalog.problems() {
        out.push_str(&format!("{}\n", one_line(problem, MAX_LINE)));
    }
    print(&out)
}

fn add(paths: &Paths, file: &Path, yes: bool) -> Result<()> {
    let candidate = registration::read_candidate(paths, file)?;
    question::confirm(&candidate, yes)?;
    let limits = WorkerLimits::sandboxed(paths)?;
    let registered = cancellable(async |cancel| {
        let mut progress = |line: &str| note(line);
        registration::register(paths, candidate, &limits, cancel, &mut progress).await
    })??;
    let names: Vec<String> = registered
        .functions
        .iter()
        .map(|function| format!("helper.{}", function.name))
        .collect();
    let mut out = format!(
        "added {}: {}: {}\n",
        registered.file,
        count(names.len(), "tool"),
        names.join(", ")
    );
    if !registered.locked.is_empty() {
        let packages: Vec<&str> = registered
            .locked
            .iter()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        out.push_str(&format!("packages: {}\n", packages.join(", ")));
    }
    print(&out)?;
    let catalog = HelperCatalog::load(paths);
    let begin = format!("{}: ", registered.file);
    let problems = catalog.problems().iter().filter(|l| l.starts_with(&begin));
    problems.for_each(|problem| note(problem));
    Ok(())
}

fn remove(paths: &Paths, name: &str, yes: bool) -> Result<()> {
    let registry = HelperRegistry::load(paths)?;
    let record = registration::find_record(&registry, name)?;
    if !yes {
        let path = helpers_dir(paths).join(&record.file);
        let path = one_line(&path.display().to_string(), MAX_LINE);
        let what = count(record.functions.len(), "tool");
        let question = format!("{path}: {what}\nDelete it for good?");
        if !session_picker::confirms(&question)? {
            return print("nothing was deleted\n");
        }
    }
    let removed = registration::remove(paths, name)?;
    let mut out = format!("removed {}", removed.file);
    if removed.environments > 0 {
        out.push_str(&format!(
            " and {}",
            count(removed.environments, "environment")
        ));
    }
    print(&format!("{out}\n"))
}

/// What `test --json` prints.
#[derive(Debug, Serialize)]
struct ResultView<'a> {
    text: &'a str,
    is_error: bool,
    images: Vec<ImageView<'a>>,
    notes: &'a [String],
}

#[derive(Debug, Serialize)]
struct ImageView<'a> {
    mime: &'a str,
    data: &'a str,
}

fn test(paths: &Paths, name: &str, json_args: String, json: bool) -> Result<u8> {
    let arguments = read_arguments(json_args)?;
    let catalog = HelperCatalog::load(paths);
    let function = find(paths, &catalog, name)?;
    let directory =
        std::env::current_dir().context(|| "cannot find the working directory".into())?;
    let limits = WorkerLimits::sandboxed(paths)?;
    let called = cancellable(async |cancel| {
        let workers = HelperWorkers::new(limits);
        let (progress, mut lines) = mpsc::channel(4096);
        let scope = CallScope {
            session: "test",
            directory: &directory,
            workspace: &directory,
            limit: None,
            progress: &progress,
            cancel,
        };
        let call = workers.call(function, &arguments, scope);
        tokio::pin!(call);
        let called = loop {
            tokio::select! {
                biased;
                Some(line) = lines.recv() => note(&line),
                called = &mut call => break called,
            }
        };
        while let Ok(line) = lines.try_recv() {
            note(&line);
        }
        workers.end_all().await;
        called
    })?;
    let result: HelperResult = called.map_err(|fault| match fault {
        HelperFault::Interrupted => Error::new(ErrorKind::Interrupted, "interrupted"),
        HelperFault::Failed(reason) => Error::runtime(reason),
    })?;
    if json {
        let images = result.images.iter().map(|image| ImageView {
            mime: &image.mime,
            data: &image.data,
        });
        print_json(&ResultView {
            text: &result.text,
            is_error: result.is_error,
            images: images.collect(),
            notes: &result.notes,
        })?;
    } else {
        print(&format!("{}\n", result.text.trim_end_matches('\n')))?;
        result.notes.iter().for_each(|line| note(line));
    }
    Ok(match result.is_error {
        true => ErrorKind::Runtime.exit_code(),
        false => 0,
    })
}

fn doc(paths: &Paths, name: Option<&str>) -> Result<()> {
    let catalog = HelperCatalog::load(paths);
    let functions: Vec<&HelperFunction> = match name {
        Some(name) => vec![find(paths, &catalog, name)?],
        None => catalog.functions().iter().map(|f| &**f).collect(),
    };
    if functions.is_empty() {
        return print("no helpers yet; add a Python file with: aish-helper helper add FILE\n");
    }
    let pages: Vec<String> = functions.into_iter().map(page).collect();
    print(&pages.join("\n"))
}

/// Formats everything that is known about a function.
fn page(function: &HelperFunction) -> String {
    let record = &function.record;
    let mut traits = vec![match (record.destructive, record.read_only) {
        (true, _) => "destructive",
        (_, true) => "reads only",
        _ => "writes",
    }];
    if record.network {
        traits.push("needs the network");
    }
    let mut out = format!(
        "helper.{} ({}; {})\n  {}\n\n",
        record.name,
        function.file.name,
        traits.join(", "),
        one_line(&record.signature, MAX_LINE)
    );
    for line in record.docstring.lines() {
        out.push_str(format!("  {line}").trim_end());
        out.push('\n');
    }
    // Values of JSON always have a text.
    let schema = serde_json::to_string_pretty(&record.schema).unwrap_or_default();
    out.push('\n');
    for line in schema.lines() {
        out.push_str(&format!("  {line}\n"));
    }
    out
}

fn find<'c>(paths: &Paths, catalog: &'c HelperCatalog, name: &str) -> Result<&'c HelperFunction> {
    if let Some(function) = catalog.find(name) {
        return Ok(function);
    }
    let error = Error::usage(format!("no helper is called {name}"));
    // The file of the helper may have changed since it was added.
    let registry = HelperRegistry::load(paths).unwrap_or_default();
    let name = name.strip_prefix("helper.").unwrap_or(name);
    let has_function = |record: &&FileRecord| record.functions.iter().any(|f| f.name == name);
    let mut files = registry.files.iter().filter(has_function);
    let problem = files.find_map(|record| {
        let mut problems = catalog.problems().iter();
        problems.find(|line| line.starts_with(&record.file))
    });
    Err(match problem {
        Some(problem) => error.hint(problem.clone()),
        None => error.hint("see: aish-helper helper list"),
    })
}

/// Prints a line of progress on stderr.
fn note(line: &str) {
    // A closed stderr cannot be reported anywhere.
    let _ = writeln!(std::io::stderr(), "{}", one_line(line, MAX_LINE));
}

/// Runs something until it ends; Ctrl-C cancels it.
fn cancellable<T>(work: impl AsyncFnOnce(&CancellationToken) -> T) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::runtime(format!("cannot start the runtime: {e}")))?;
    Ok(runtime.block_on(async {
        let cancel = CancellationToken::new();
        let interrupted = cancel.clone();
        let watching = tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                interrupted.cancel();
            }
        });
        let result = work(&cancel).await;
        watching.abort();
        result
    }))
}
