use std::cell::RefCell;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::rc::Rc;

use serde_json::{Value, json};

use super::row::{OPERATIONS, STATUSES, TYPES};
use super::*;

/// A scratch journal with its index.
struct Home {
    dir: tempfile::TempDir,
    /// Progress reported by the index.
    steps: Rc<RefCell<Vec<IndexProgress>>>,
}

/// Returns the id of a record at `at_ms`; `n` distinguishes records of the same millisecond.
fn id(at_ms: u64, n: u64) -> String {
    let mut key = row::first_of(at_ms);
    key[6] = 0x70;
    key[8] = 0x80;
    key[12..].copy_from_slice(&u32::try_from(n).unwrap().to_be_bytes());
    row::id_of(&key)
}

const S1: &str = "01930000-0000-7000-8000-000000000001";
const S2: &str = "01930000-0000-7000-8000-000000000002";

impl Home {
    fn new() -> Home {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("journal")).unwrap();
        Home {
            dir,
            steps: Rc::default(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("journal").join(name)
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("state").join(FILE)
    }

    fn append(&self, name: &str, text: &str) {
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).open(self.path(name));
        file.unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn write(&self, name: &str, records: &[Value]) {
        let lines: String = records.iter().map(|r| format!("{r}\n")).collect();
        self.append(name, &lines);
    }

    fn open(&self) -> Index {
        let steps = Rc::clone(&self.steps);
        let watch = Box::new(move |step| steps.borrow_mut().push(step));
        let state = self.dir.path().join("state");
        Index::open(&self.dir.path().join("journal"), &state, watch).unwrap()
    }

    /// Returns the progress reported since the last call.
    fn take_progress(&self) -> Vec<IndexProgress> {
        std::mem::take(&mut self.steps.borrow_mut())
    }

    fn list(&self, filter: &ActivityFilter) -> Vec<ActivityEntry> {
        self.open().list(filter, 1000).unwrap()
    }

    /// Returns the texts of all actions, oldest first.
    fn what(&self) -> Vec<String> {
        let all = self.list(&ActivityFilter::default());
        all.into_iter().rev().map(|e| e.what).collect()
    }

    fn delete(&self) {
        fs::remove_file(self.file()).unwrap();
    }
}

fn prompt(at: u64, text: &str) -> Value {
    json!({"v": 1, "id": id(at, 0), "at_ms": at, "type": "user", "text": text, "content": "", "shell": null, "cwd": "/"})
}

/// A tool call with all fields.
fn tool(at: u64, server: &str, name: &str, operation: &str, status: &str, ms: u64) -> Value {
    json!({"v": 1, "id": id(at, 1), "at_ms": at, "type": "tool", "call": "c", "name": format!("{server}.{name}"),
        "status": status, "text": "x", "bytes": 1, "ms": ms, "by": "rule", "arguments": "{\"a\":1}",
        "act": {"server": server, "tool": name, "operation": operation, "annotations": {}},
        "links": {"session": S1, "prompt": id(1, 0), "request": id(1, 9)}})
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

/// A journal with records of several types.
fn filled() -> Home {
    let home = Home::new();
    home.write(
        &format!("{S1}.jsonl"),
        &[
            json!({"v": 1, "id": id(500, 0), "at_ms": 500, "type": "session", "session": S1, "shell": "s"}),
            prompt(1000, "first"),
            tool(2000, "git", "log", "read", "success", 10),
            tool(3000, "git", "push", "destructive", "denied", 0),
            tool(4000, "fs", "read", "read", "error", 30),
            tool(5000, "fs", "write", "write", "blocked", 0),
        ],
    );
    home.write(
        &format!("{S2}.jsonl"),
        &[
            prompt(1500, "second"),
            tool(2500, "git", "log", "read", "interrupted", 20),
        ],
    );
    home.write(
        "shells.jsonl",
        &[json!({"v": 1, "id": id(9000, 0), "at_ms": 9000, "type": "command", "shell": "s", "command": "ls",
            "cwd": "/", "tty": "", "start_ms": 8000, "duration_ms": 1000, "exit": 1, "session": S2})],
    );
    home
}

#[test]
fn every_filter_chooses() {
    let home = filled();
    let times = |filter: ActivityFilter| -> Vec<u64> {
        let list = home.list(&filter);
        list.iter().map(|e| e.at_ms).collect()
    };
    let all = ActivityFilter::default;
    assert_eq!(
        times(all()),
        [9000, 5000, 4000, 3000, 2500, 2000, 1500, 1000, 500]
    );
    let types = words(&["tool"]);
    assert_eq!(
        times(ActivityFilter { types, ..all() }),
        [5000, 4000, 3000, 2500, 2000]
    );
    let types = words(&["prompt", "shell_command"]);
    assert_eq!(times(ActivityFilter { types, ..all() }), [9000, 1500, 1000]);
    for (operation, at) in [
        ("read", &[4000, 2500, 2000][..]),
        ("write", &[5000]),
        ("destructive", &[3000]),
    ] {
        let operations = words(&[operation]);
        assert_eq!(
            times(ActivityFilter {
                operations,
                ..all()
            }),
            at
        );
    }
    for (status, at) in [
        ("success", &[2000, 1500, 1000, 500][..]),
        ("error", &[9000, 4000]),
        ("interrupted", &[2500]),
        ("denied", &[3000]),
        ("blocked", &[5000]),
    ] {
        let statuses = words(&[status]);
        assert_eq!(times(ActivityFilter { statuses, ..all() }), at);
    }
    let servers = words(&["fs"]);
    assert_eq!(times(ActivityFilter { servers, ..all() }), [5000, 4000]);
    for tools in [&["log"][..], &["git.log"], &["git:log", "fs.log"]] {
        let tools = words(tools);
        assert_eq!(times(ActivityFilter { tools, ..all() }), [2500, 2000]);
    }
    let session = Some(S2.to_string());
    // The tool record in this session's file has the ids of another session, which called the tool.
    assert_eq!(times(ActivityFilter { session, ..all() }), [9000, 1500]);
    let (since_ms, until_ms) = (Some(2000), Some(4000));
    let span = ActivityFilter {
        since_ms,
        until_ms,
        ..all()
    };
    assert_eq!(times(span.clone()), [3000, 2500, 2000]);
    let servers = words(&["git"]);
    assert_eq!(
        times(ActivityFilter {
            servers,
            statuses: words(&["error", "interrupted", "success"]),
            ..span
        }),
        [2500, 2000]
    );
    let both = ActivityFilter {
        servers: words(&["fs"]),
        statuses: words(&["denied"]),
        ..all()
    };
    assert!(times(both).is_empty());
    let mut index = home.open();
    let two = index.list(&ActivityFilter::default(), 2).unwrap();
    assert_eq!(
        two.iter().map(|e| e.at_ms).collect::<Vec<_>>(),
        [9000, 5000]
    );
    let reads = ActivityFilter {
        operations: words(&["read"]),
        ..all()
    };
    let one = index.list(&reads, 1).unwrap();
    assert_eq!(one.len(), 1);
    assert_eq!(one[0].at_ms, 4000);
    assert_eq!(index.keys(&reads, usize::MAX).unwrap().len(), 3);
    assert_eq!(
        index.names().unwrap(),
        (
            words(&["fs", "git"]),
            words(&["fs.read", "fs.write", "git.log", "git.push"])
        )
    );
}

#[test]
fn index_is_private_and_can_be_deleted() {
    let home = filled();
    let before = home.list(&ActivityFilter::default());
    assert_eq!(
        fs::metadata(home.file()).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(
        matches!(home.take_progress()[..], [IndexProgress::Read(0, all), .., IndexProgress::Read(a, b)] if a == all && b == all)
    );
    // Nothing is written if the journal has no new records.
    let written = fs::metadata(home.file()).unwrap().modified().unwrap();
    assert_eq!(home.list(&ActivityFilter::default()), before);
    assert_eq!(home.take_progress(), []);
    assert_eq!(
        fs::metadata(home.file()).unwrap().modified().unwrap(),
        written
    );
    home.delete();
    assert_eq!(home.list(&ActivityFilter::default()), before);
    let names: Vec<_> = fs::read_dir(home.file().parent().unwrap())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(
        names.len(),
        2,
        "only the index and its lock file: {names:?}"
    );
}

#[test]
fn only_new_records_are_read() {
    let home = filled();
    let all = home.what().len();
    home.take_progress();
    let file = format!("{S1}.jsonl");
    let record = format!("{}\n", prompt(9500, "new"));
    let (half, rest) = record.split_at(30);
    // An incomplete line is not a record yet.
    home.append(&file, half);
    assert_eq!(home.what().len(), all);
    home.append(&file, rest);
    home.take_progress();
    assert_eq!(home.what().last().unwrap(), "new");
    let bytes = u64::try_from(record.len()).unwrap();
    assert_eq!(
        home.take_progress().last(),
        Some(&IndexProgress::Read(bytes, bytes))
    );
    // The daemon truncates an incomplete line and appends: the index continues and does not read the file again.
    home.append(&file, "{\"v\":1,\"id\":\"0193");
    assert_eq!(home.what().len(), all + 1);
    let length = fs::metadata(home.path(&file)).unwrap().len() - 17;
    let journal = OpenOptions::new()
        .write(true)
        .open(home.path(&file))
        .unwrap();
    journal.set_len(length).unwrap();
    home.write(&file, &[prompt(9600, "newer")]);
    home.take_progress();
    let what = home.what();
    assert_eq!(what[what.len() - 2..], ["new", "newer"]);
    assert!(
        !home
            .take_progress()
            .contains(&IndexProgress::Read(0, length))
    );
}

#[test]
fn records_deleted_from_the_journal_are_deleted_from_the_index() {
    let home = filled();
    home.what();
    fs::remove_file(home.path(&format!("{S1}.jsonl"))).unwrap();
    assert_eq!(home.what(), ["second", "{\"a\":1}", "ls"]);
    // Names that no longer occur are deleted too.
    assert_eq!(
        home.open().names().unwrap(),
        (words(&["git"]), words(&["git.log"]))
    );
    // Replaced by rename, so the inode differs.
    let fresh = home.path("shells.new");
    let records = [command(9100, "pwd"), command(9200, "id")];
    let lines: String = records.iter().map(|r| format!("{r}\n")).collect();
    fs::write(&fresh, &lines).unwrap();
    fs::rename(&fresh, home.path("shells.jsonl")).unwrap();
    assert_eq!(home.what()[2..], ["pwd", "id"]);
    // Overwritten in place: longer, with the same inode.
    let longer = [
        command(9300, "a longer one"),
        command(9400, "b"),
        command(9500, "c"),
    ];
    let lines: String = longer.iter().map(|r| format!("{r}\n")).collect();
    fs::write(home.path("shells.jsonl"), lines).unwrap();
    assert_eq!(home.what()[2..], ["a longer one", "b", "c"]);
    // Shorter.
    fs::write(home.path("shells.jsonl"), "").unwrap();
    assert_eq!(home.what().len(), 2);
    let before = home.list(&ActivityFilter::default());
    home.delete();
    assert_eq!(home.list(&ActivityFilter::default()), before);
    fs::remove_dir_all(home.path("")).unwrap();
    assert!(home.what().is_empty());
}

fn command(at: u64, text: &str) -> Value {
    json!({"v": 1, "id": id(at, 0), "at_ms": at, "type": "command", "shell": "s", "command": text,
        "cwd": "/", "tty": "", "start_ms": at - 10, "duration_ms": 10, "exit": 0, "session": null})
}

#[test]
fn unusable_index_is_rebuilt() {
    let home = filled();
    let before = home.list(&ActivityFilter::default());
    let whole = fs::read(home.file()).unwrap();
    home.take_progress();
    let again = |why| {
        assert_eq!(home.list(&ActivityFilter::default()), before);
        assert_eq!(home.take_progress()[0], IndexProgress::Anew(why));
    };
    fs::write(
        home.file(),
        "no database at all, and long enough to be one".repeat(100),
    )
    .unwrap();
    again("is damaged");
    fs::write(home.file(), &whole[..whole.len() / 2]).unwrap();
    again("is damaged");
    let foreign = |sql: &str| {
        let db = Connection::open(home.file()).unwrap();
        db.execute_batch(sql).unwrap();
    };
    foreign("PRAGMA user_version = 99");
    again("is of another version");
    foreign("PRAGMA application_id = 7");
    again("is of another version");
    foreign("DROP TABLE act");
    again("is damaged");
    home.delete();
    foreign("CREATE TABLE act (x)");
    again("is damaged");
    // Damaged pages in the middle are noticed only when a query reads them.
    let mut index = home.open();
    let mut bytes = fs::read(home.file()).unwrap();
    let page = 4096;
    for at in (page..bytes.len()).step_by(page) {
        bytes[at..at + 100].fill(0xa5);
    }
    fs::write(home.file(), bytes).unwrap();
    assert_eq!(
        index.list(&ActivityFilter::default(), 1000).unwrap(),
        before
    );
    assert_eq!(home.take_progress()[0], IndexProgress::Anew("is damaged"));
    assert_nothing_to_read(&home);
}

fn assert_nothing_to_read(home: &Home) {
    home.take_progress();
    home.what();
    assert_eq!(home.take_progress(), []);
}

#[test]
fn concurrent_processes_get_the_same_result() {
    let home = Home::new();
    let file = format!("{S1}.jsonl");
    let prompts: Vec<Value> = (0..3000)
        .map(|n| prompt(1000 + n, &format!("p{n}")))
        .collect();
    home.write(&file, &prompts);
    let (journal, state) = (home.path(""), home.dir.path().join("state"));
    let ask = || {
        let mut index = Index::open(&journal, &state, Box::new(|_| {})).unwrap();
        index
            .keys(&ActivityFilter::default(), usize::MAX)
            .unwrap()
            .len()
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        for reader in readers {
            assert_eq!(reader.join().unwrap(), 3000);
        }
    });
    // While other processes rebuild the index.
    std::thread::scope(|scope| {
        let rebuilder = scope.spawn(|| {
            for _ in 0..5 {
                let mut index = Index::open(&journal, &state, Box::new(|_| {})).unwrap();
                let damaged = || Err(IndexFault::Sql(rusqlite::Error::InvalidQuery));
                let tried = std::cell::Cell::new(0);
                let ask = |_: &Index| match tried.replace(tried.get() + 1) {
                    0 | 1 => damaged(),
                    _ => Ok(()),
                };
                index.ask(ask).unwrap();
            }
        });
        let readers: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        for reader in readers {
            assert_eq!(reader.join().unwrap(), 3000);
        }
        rebuilder.join().unwrap();
    });
    assert_eq!(ask(), 3000);
}

#[test]
fn a_chain_is_told_from_the_command_line_on() {
    let home = Home::new();
    let (p, request) = (id(1000, 0), id(900, 0));
    let links = json!({"session": S1, "request": request, "prompt": p, "command": "s@800"});
    let with = |mut record: Value| {
        record["links"] = links.clone();
        record
    };
    let file = format!("{S1}.jsonl");
    home.write(
        &file,
        &[
            with(prompt(1000, "do it")),
            with(json!({"v": 1, "id": id(1100, 0), "at_ms": 1100, "type": "assistant", "text": "", "model": "m",
                "calls": [{"id": "c", "name": "fs.read", "arguments": "{}"}], "finish": "stop", "ms": 100})),
            with(tool(1200, "fs", "read", "read", "success", 5)),
        ],
    );
    home.write(&file, &[prompt(5000, "another")]);
    home.write(
        "shells.jsonl",
        &[
            command(700, "cd"),
            json!({"v": 1, "id": id(1300, 0), "at_ms": 1300, "type": "command", "shell": "s", "command": "llm do it",
            "cwd": "/", "tty": "", "start_ms": 800, "duration_ms": 500, "exit": 0, "session": S1,
            "links": {"shell": "s", "command": "s@800"}}),
        ],
    );
    let mut index = home.open();
    for at in [(1000, 0), (1100, 0), (1200, 1), (1300, 0)] {
        let id = id(at.0, at.1);
        let (act, chain) = index.show(&id).unwrap();
        assert_eq!(act.id, id);
        let what: Vec<&str> = chain.iter().map(|e| &*e.what).collect();
        assert_eq!(what, ["llm do it", "do it", "calls fs.read", "{\"a\":1}"]);
        assert_eq!(index.record(&act).unwrap()["id"], *id);
    }
    let (_, chain) = index.show(&id(5000, 0)).unwrap();
    assert_eq!(chain.len(), 1);
    let e = index.show("zzz").unwrap_err();
    assert!(e.message.contains("no record has 'zzz'"), "{e}");
    assert!(index.show("").is_err());
    let e = index.show("0000").unwrap_err();
    assert!(e.message.contains("more than one record"), "{e}");
    // The end of the id is enough, with or without the hyphen.
    let part = &id(1200, 1)[26..];
    assert!(index.show("80000000000").is_err());
    assert_eq!(part.len(), 10);
    let (act, _) = index.show(&id(1200, 1)[2..]).unwrap();
    assert_eq!(act.at_ms, 1200);
}

#[test]
fn records_of_before_there_were_links_have_their_chains_too() {
    let home = Home::new();
    let file = format!("{S1}.jsonl");
    let old = |at: u64, kind: &str, more: Value| {
        let mut record = json!({"v": 1, "id": id(at, 0), "at_ms": at, "type": kind});
        for (key, value) in more.as_object().unwrap() {
            record[key] = value.clone();
        }
        record
    };
    home.write(
        &file,
        &[
            old(1, "session", json!({"session": S1, "shell": null})),
            prompt(10, "one"),
            old(11, "assistant", json!({"text": "CMD: ls", "model": "m", "finish": "stop", "ms": 5})),
            old(12, "approval", json!({"call": "c", "name": "fs.read_file", "decision": "server", "arguments": "{}"})),
        ],
    );
    // The chain of a prompt continues with records that are added after the index was built.
    assert_eq!(home.what().len(), 4);
    home.write(
        &file,
        &[
            old(13, "tool", json!({"call": "c", "name": "fs.read_file", "status": "denied", "text": "", "bytes": 0, "ms": 0})),
            old(14, "decision", json!({"token": "t", "choice": "no", "proposed": "ls", "command": "ls"})),
            prompt(20, "two"),
            old(21, "assistant", json!({"text": "x", "model": "m", "finish": "error", "error": "gone", "ms": 5})),
        ],
    );
    let mut index = home.open();
    let (act, chain) = index.show(&id(13, 0)).unwrap();
    assert_eq!(act.kind.server.as_deref(), Some("fs"));
    assert_eq!(act.kind.tool.as_deref(), Some("read_file"));
    assert_eq!(
        (act.kind.operation.as_deref(), act.by.as_deref()),
        (None, Some("person"))
    );
    let times: Vec<u64> = chain.iter().map(|e| e.at_ms).collect();
    assert_eq!(times, [10, 11, 12, 13, 14]);
    let (_, chain) = index.show(&id(21, 0)).unwrap();
    assert_eq!(chain.iter().map(|e| e.at_ms).collect::<Vec<_>>(), [20, 21]);
    let session = Some(index.session("0001").unwrap());
    assert_eq!(
        index
            .list(
                &ActivityFilter {
                    session,
                    ..ActivityFilter::default()
                },
                100
            )
            .unwrap()
            .len(),
        8
    );
}

#[test]
fn lines_that_are_no_record_do_no_harm() {
    let home = filled();
    let all = home.what().len();
    home.append("shells.jsonl", "no record\n\n{}\n[1]\n{\"v\":9,\"id\":\"x\",\"at_ms\":7,\"type\":\"hologram\",\"text\":{}}\n\u{0}\n");
    home.write(
        "acts.jsonl",
        &[json!({"v": 1, "id": "y", "at_ms": 8, "type": "tool", "name": 7})],
    );
    home.write(
        "acts.jsonl",
        &[json!({"v": 1, "id": "y", "at_ms": 8, "type": "prompt"})],
    );
    fs::create_dir(home.path("dir.jsonl")).unwrap();
    fs::write(home.path("notes.txt"), "x").unwrap();
    let others = ActivityFilter {
        types: words(&["other"]),
        ..ActivityFilter::default()
    };
    let list = home.list(&others);
    let what: Vec<&str> = list.iter().map(|e| &*e.what).collect();
    assert_eq!(what.len(), 3, "{what:?}");
    assert_eq!(home.what().len(), all + 3);
    let mut index = home.open();
    for entry in &list {
        let record = index.record(entry).unwrap();
        let time = record.get("timestamp_ms").or(record.get("at_ms"));
        assert_eq!(time, Some(&entry.at_ms.into()));
    }
    home.delete();
    assert_eq!(home.list(&others), list);
}

#[test]
fn stats_count_the_filtered_activities() {
    let home = filled();
    let mut index = home.open();
    let stats = index.stats(&ActivityFilter::default()).unwrap();
    assert_eq!(stats.all.count, 9);
    assert_eq!(stats.all.ended, [4, 2, 1, 1, 1]);
    assert_eq!(stats.types["tool"].ended, [1, 1, 1, 1, 1]);
    // A call that was not made took no time.
    assert_eq!(stats.types["tool"].took, [10, 20, 30]);
    assert_eq!(stats.types["tool"].percentile(50), Some(20));
    assert_eq!(stats.types["tool"].percentile(95), Some(30));
    assert_eq!(stats.types["prompt"].percentile(50), None);
    assert_eq!(stats.operations["read"].count, 3);
    assert_eq!(stats.tools["git.log"].took, [10, 20]);
    let session = Some(S2.to_string());
    let of_session = ActivityFilter {
        session,
        types: words(&["shell_command"]),
        ..ActivityFilter::default()
    };
    let stats = index.stats(&of_session).unwrap();
    assert_eq!((stats.all.count, stats.types.len()), (1, 1));
    assert_eq!(stats.types["shell_command"].took, [1000]);
}

#[test]
fn a_journal_that_changes_under_a_reader_is_no_other_record() {
    let home = filled();
    let mut index = home.open();
    let list = index.list(&ActivityFilter::default(), 1).unwrap();
    fs::write(home.path("shells.jsonl"), format!("{}\n", "x".repeat(1000))).unwrap();
    let e = index.record(&list[0]).unwrap_err();
    assert!(e.message.contains("was changed"), "{e}");
}

#[test]
fn the_words_are_those_of_the_tables() {
    let home = filled();
    for entry in home.list(&ActivityFilter::default()) {
        assert!(TYPES.contains(&&*entry.kind.kind));
        assert!(STATUSES.contains(&&*entry.kind.status));
        let operation = entry.kind.operation.as_deref();
        assert!(operation.is_none_or(|o| OPERATIONS.contains(&o)));
    }
}
