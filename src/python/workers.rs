//! The workers of all sessions: one for each session and environment, started at the first call and kept until it is idle.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Mutex as AsyncMutex, OnceCell, mpsc};
use tokio_util::sync::CancellationToken;

use super::call::{CallScope, HelperCall, HelperFault, HelperResult};
use super::catalog::{HelperCatalog, HelperFunction};
use super::command::{WorkerLimits, WorkerSpec};
use super::environment::{PythonInterpreter, find_interpreter};
use super::process::{Exchange, MAX_LINE, WorkerFault, WorkerProcess};
use crate::chat::ImageContent;
use crate::paths::variable;
use crate::safety::json_text;
use crate::sandbox::GuardedFiles;

/// Maximum time of a search for what decides which programs run later; a file system may hang.
const SEARCH_TIME: Duration = Duration::from_secs(10);

/// Which calls share a worker.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct WorkerKey {
    session: String,
    python: PathBuf,
    packages: Option<PathBuf>,
    /// Part of the sandbox, as the directory is.
    network: bool,
    writes: bool,
    directory: PathBuf,
}

/// A worker that waits for its next call, with the digests of the files that it has loaded.
#[derive(Debug)]
struct WarmWorker {
    process: WorkerProcess,
    loaded: HashMap<String, String>,
}

/// The place of a worker. It is empty while a call runs, so that a call that is dropped takes its worker along.
#[derive(Debug, Default)]
struct WorkerSlot {
    worker: Option<WarmWorker>,
    /// Number of calls so far: an idle timer of an earlier call ends nothing.
    calls: u64,
}

type SharedSlot = Arc<AsyncMutex<WorkerSlot>>;
type WorkerSlots = Arc<Mutex<HashMap<WorkerKey, SharedSlot>>>;

/// The workers.
#[derive(Debug, Default)]
pub struct HelperWorkers {
    limits: WorkerLimits,
    slots: WorkerSlots,
    interpreter: OnceCell<PythonInterpreter>,
}

impl HelperWorkers {
    /// Creates the workers; none runs yet.
    pub fn new(limits: WorkerLimits) -> HelperWorkers {
        HelperWorkers {
            limits,
            ..HelperWorkers::default()
        }
    }

    /// Calls a function. A second call of the same session and environment waits for the first.
    ///
    /// # Errors
    /// The call was cancelled, or the worker gave no answer; the next call gets a new worker.
    pub async fn call(
        &self,
        function: &HelperFunction,
        arguments: &str,
        scope: CallScope<'_>,
    ) -> Result<HelperResult, HelperFault> {
        let name = &function.record.name;
        let arguments = json_text::parse_object(arguments)
            .map_err(|_| HelperFault::Failed("the arguments are not a JSON object".into()))?;
        let file = &function.file;
        let (key, slot) = self.slot(function, &scope);
        let mut place = tokio::select! {
            () = scope.cancel.cancelled() => return Err(HelperFault::Interrupted),
            place = slot.lock() => place,
        };
        place.calls += 1;
        let number = place.calls;
        let mut worker = tokio::select! {
            () = scope.cancel.cancelled() => return Err(HelperFault::Interrupted),
            ready = self.ready_worker(place.worker.take(), &key, function) => ready?,
        };
        let mut request = json!({
            "call": name,
            "file": file.name,
            "arguments": arguments,
            "directory": text(scope.directory)?,
        });
        if let Some(fields) = request.as_object_mut()
            && !worker.loaded.contains_key(&file.name)
        {
            fields.insert("source".into(), file.source.clone().into());
            fields.insert("path".into(), text(&file.path)?.into());
        }
        if request.to_string().len() > MAX_LINE {
            place.worker = Some(worker);
            let most = MAX_LINE >> 20;
            return Err(HelperFault::Failed(format!(
                "the arguments of helper {name} are larger than {most} MB"
            )));
        }
        let exchange = Exchange {
            limit: scope.limit.unwrap_or(self.limits.call),
            progress: scope.progress,
            cancel: scope.cancel,
            calls: None,
        };
        let guarded = tokio::select! {
            () = scope.cancel.cancelled() => {
                worker.process.end(self.limits.grace).await;
                return Err(HelperFault::Interrupted);
            }
            guarded = GuardedWorkspace::read(&key) => guarded,
        };
        match worker.process.ask(request, &exchange).await {
            Ok(answer) => {
                let is_loaded = answer.message.get("loaded") == Some(&Value::Bool(true));
                let (mut result, ends) = result(answer.message, answer.printed, false);
                if is_loaded {
                    worker.loaded.insert(file.name.clone(), file.sha256.clone());
                }
                match ends {
                    true => worker.process.end(self.limits.grace).await,
                    false => {
                        place.worker = Some(worker);
                        self.end_when_idle(key, &slot, number);
                    }
                }
                result.notes.extend(guarded.changes().await);
                Ok(result)
            }
            Err(fault) => {
                worker.process.end(self.limits.grace).await;
                let subject = format!("the process of helper {name}");
                let changes = guarded.changes().await;
                Err(match fault_for_model(fault, &subject) {
                    HelperFault::Failed(why) => {
                        HelperFault::Failed([vec![why], changes].concat().join("; "))
                    }
                    HelperFault::Interrupted => {
                        for line in changes {
                            // A slow watcher loses lines.
                            let _ = scope.progress.try_send(line);
                        }
                        HelperFault::Interrupted
                    }
                })
            }
        }
    }

    /// Starts the worker of a function, so that a call that follows finds it ready. No code of a helper runs. Can be called while
    /// the person reads the question.
    ///
    /// # Errors
    /// The worker cannot be started.
    pub async fn prepare(
        &self,
        function: &HelperFunction,
        scope: CallScope<'_>,
    ) -> Result<(), HelperFault> {
        let (key, slot) = self.slot(function, &scope);
        let mut place = slot.lock().await;
        let worker = self.ready_worker(place.worker.take(), &key, function);
        place.worker = Some(worker.await?);
        place.calls += 1;
        self.end_when_idle(key, &slot, place.calls);
        Ok(())
    }

    /// Returns the place of the worker of a call.
    fn slot(&self, function: &HelperFunction, scope: &CallScope<'_>) -> (WorkerKey, SharedSlot) {
        let key = WorkerKey {
            session: scope.session.to_owned(),
            python: function.file.python.clone(),
            packages: function.file.packages.clone(),
            network: function.record.network,
            writes: !function.record.read_only,
            directory: scope.workspace.to_owned(),
        };
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = Arc::clone(slots.entry(key.clone()).or_default());
        (key, slot)
    }

    /// Returns the waiting worker if the function can run in it, or a new one.
    async fn ready_worker(
        &self,
        waiting: Option<WarmWorker>,
        key: &WorkerKey,
        function: &HelperFunction,
    ) -> Result<WarmWorker, HelperFault> {
        let file = &function.file;
        if let Some(mut worker) = waiting {
            let loaded = worker.loaded.get(&file.name);
            let is_current = loaded.is_none_or(|sha256| *sha256 == file.sha256);
            if is_current && !worker.process.is_spent() {
                return Ok(worker);
            }
            worker.process.end(self.limits.grace).await;
        }
        let spec = WorkerSpec {
            python: &key.python,
            packages: key.packages.as_deref(),
            directory: &key.directory,
            network: key.network,
            writes: key.writes,
            limits: &self.limits,
        };
        match WorkerProcess::start(&spec).await {
            Ok(process) => Ok(WarmWorker {
                process,
                loaded: HashMap::new(),
            }),
            Err(fault) => {
                let name = &function.record.name;
                Err(fault_for_model(
                    fault,
                    &format!("the process of helper {name}"),
                ))
            }
        }
    }

    /// Runs a block of code, which can call the functions of the catalog by their names. Each block has its own process, so
    /// that nothing of an earlier block changes what the shown text means, and code cannot change a helper. The time in which
    /// a call waits for its reply does not count.
    ///
    /// # Errors
    /// The code was cancelled, or its process gave no answer.
    pub async fn run_code(
        &self,
        catalog: &HelperCatalog,
        code: &str,
        scope: CallScope<'_>,
        calls: mpsc::Sender<HelperCall>,
    ) -> Result<HelperResult, HelperFault> {
        let interpreter = tokio::select! {
            () = scope.cancel.cancelled() => return Err(HelperFault::Interrupted),
            found = self.interpreter() => found?,
        };
        let spec = WorkerSpec {
            python: &interpreter.path,
            packages: None,
            directory: scope.workspace,
            network: false,
            writes: false,
            limits: &self.limits,
        };
        let subject = "the process of the code";
        let started = tokio::select! {
            () = scope.cancel.cancelled() => return Err(HelperFault::Interrupted),
            started = WorkerProcess::start(&spec) => started,
        };
        let mut process = started.map_err(|fault| fault_for_model(fault, subject))?;
        let helpers: serde_json::Map<String, Value> = catalog
            .functions()
            .iter()
            .map(|function| {
                let record = &function.record;
                let decodes = !record.returns_text;
                let described = json!({"parameters": record.parameters, "decode": decodes});
                (record.name.clone(), described)
            })
            .collect();
        let request = json!({
            "code": code,
            "helpers": helpers,
            "directory": text(scope.directory)?,
        });
        let exchange = Exchange {
            limit: scope.limit.unwrap_or(self.limits.call),
            progress: scope.progress,
            cancel: scope.cancel,
            calls: Some(&calls),
        };
        let answered = process.ask(request, &exchange).await;
        process.end(self.limits.grace).await;
        match answered {
            Ok(answer) => Ok(result(answer.message, answer.printed, true).0),
            Err(fault) => Err(fault_for_model(fault, subject)),
        }
    }

    async fn interpreter(&self) -> Result<&PythonInterpreter, HelperFault> {
        let find = || async {
            let found = tokio::task::spawn_blocking(|| find_interpreter(None)).await;
            match found {
                Ok(Ok(interpreter)) => Ok(interpreter),
                Ok(Err(e)) => Err(HelperFault::Failed(e.message)),
                Err(e) => Err(HelperFault::Failed(format!("cannot look for Python: {e}"))),
            }
        };
        self.interpreter.get_or_try_init(find).await
    }

    /// Ends the worker of a slot if no further call has come after the idle time.
    fn end_when_idle(&self, key: WorkerKey, slot: &SharedSlot, number: u64) {
        let (slots, limits) = (Arc::clone(&self.slots), self.limits.clone());
        let slot = Arc::downgrade(slot);
        tokio::spawn(async move {
            tokio::time::sleep(limits.idle).await;
            let Some(slot) = slot.upgrade() else {
                return;
            };
            let mut place = slot.lock().await;
            if place.calls != number {
                return;
            }
            if let Some(worker) = place.worker.take() {
                worker.process.end(limits.grace).await;
            }
            drop(place);
            let mut slots = slots.lock().unwrap_or_else(PoisonError::into_inner);
            // Only the map and this task have it: no call waits for it.
            if Arc::strong_count(&slot) == 2 {
                slots.remove(&key);
            }
        });
    }

    /// Ends the workers of a session that has ended.
    pub async fn end_session(&self, session: &str) {
        self.end_where(|key| key.session == session).await;
    }

    /// Ends all workers.
    pub async fn end_all(&self) {
        self.end_where(|_| true).await;
    }

    async fn end_where(&self, ends: impl Fn(&WorkerKey) -> bool) {
        let removed: Vec<SharedSlot> = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            let keys: Vec<WorkerKey> = slots.keys().filter(|key| ends(key)).cloned().collect();
            keys.iter().filter_map(|key| slots.remove(key)).collect()
        };
        for slot in removed {
            let worker = slot.lock().await.worker.take();
            if let Some(worker) = worker {
                worker.process.end(self.limits.grace).await;
            }
        }
    }

    /// Returns the number of workers that wait for a call.
    pub fn waiting(&self) -> usize {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let has_worker = |slot: &&SharedSlot| slot.try_lock().is_ok_and(|p| p.worker.is_some());
        slots.values().filter(has_worker).count()
    }
}

/// Files that other programs later run or obey, in the workspace of a helper that changes files. The supervisor of the sandbox
/// reports changes only at the end of the worker, when nobody reads the report.
struct GuardedWorkspace(Option<GuardedFiles>);

impl GuardedWorkspace {
    async fn read(key: &WorkerKey) -> GuardedWorkspace {
        if !key.writes {
            return GuardedWorkspace(None);
        }
        let dir = key.directory.clone();
        let programs = variable("PATH").unwrap_or_default();
        let read = move || {
            GuardedFiles::read(
                dir.canonicalize().into_iter().collect(),
                std::env::home_dir(),
                std::env::split_paths(&programs).collect(),
            )
        };
        let reading = tokio::time::timeout(SEARCH_TIME, tokio::task::spawn_blocking(read));
        GuardedWorkspace(reading.await.ok().and_then(|read| read.ok()))
    }

    /// Names the changes, one line each.
    async fn changes(self) -> Vec<String> {
        let Some(files) = self.0 else {
            return Vec::new();
        };
        let changes = tokio::task::spawn_blocking(move || files.changes());
        let changes = tokio::time::timeout(SEARCH_TIME, changes).await;
        changes
            .ok()
            .and_then(|changes| changes.ok())
            .unwrap_or_default()
    }
}

/// Describes the functions of a file: runs the file in a separate worker.
///
/// # Errors
/// The worker gave no answer; one line.
pub(super) async fn describe_file(
    spec: &WorkerSpec<'_>,
    name: &str,
    path: &Path,
    source: &str,
    progress: &mpsc::Sender<String>,
    cancel: &CancellationToken,
) -> Result<Value, HelperFault> {
    let subject = format!("the process that imports {name}");
    let started = WorkerProcess::start(spec).await;
    let mut process = started.map_err(|fault| fault_for_model(fault, &subject))?;
    let request = json!({
        "describe": name,
        "file": name,
        "path": text(path)?,
        "source": source,
    });
    let exchange = Exchange {
        limit: spec.limits.call,
        progress,
        cancel,
        calls: None,
    };
    let answered = process.ask(request, &exchange).await;
    process.end(spec.limits.grace).await;
    match answered {
        Ok(answer) => Ok(answer.message),
        Err(fault) => Err(fault_for_model(fault, &subject)),
    }
}

fn fault_for_model(fault: WorkerFault, subject: &str) -> HelperFault {
    match fault {
        WorkerFault::Cancelled => HelperFault::Interrupted,
        WorkerFault::Broken(what) => HelperFault::Failed(format!("{subject} {what}")),
    }
}

fn text(path: &Path) -> Result<&str, HelperFault> {
    path.to_str().ok_or_else(|| {
        let path = path.display();
        HelperFault::Failed(format!("the path {path} is not UTF-8, which helpers need"))
    })
}

/// Reads the answer to a call. Returns also whether the worker must be ended.
fn result(mut message: Value, printed: String, is_code: bool) -> (HelperResult, bool) {
    let mut field = |name: &str| message.get_mut(name).map(Value::take);
    let is_true = |value: Option<Value>| value.is_some_and(|value| value == Value::Bool(true));
    let string = |value: Option<Value>| match value {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let is_error = is_true(field("is_error"));
    let text = string(field("text"));
    let text = match (is_code, text) {
        (true, Some(text)) if printed.is_empty() => text,
        (true, Some(text)) => format!("{}\n{text}", printed.trim_end_matches('\n')),
        (false, Some(text)) => text,
        (_, None) => printed,
    };
    let mut images = Vec::new();
    if let Some(Value::Array(list)) = field("images") {
        for mut image in list {
            let mime = string(image.get_mut("mime").map(Value::take));
            let data = string(image.get_mut("data").map(Value::take));
            if let (Some(mime), Some(data)) = (mime, data) {
                let data = data.into();
                images.push(ImageContent { mime, data });
            }
        }
    }
    let left = string(field("left"));
    let notes = left.map(|what| format!("the helper left {what} running, which was killed"));
    let ends = is_true(field("end"));
    let result = HelperResult {
        text,
        is_error,
        images,
        notes: notes.into_iter().collect(),
    };
    (result, ends)
}
