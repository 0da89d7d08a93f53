//! Time of indexing and querying a journal of a million records. Each query is a separate process, as on the command
//! line, and takes turns with `aish-helper --version`; medians are compared.
//!
//! Exits with 1 if a filtered list or the statistics of usage exceed their limit.
//!
//! `cargo bench --bench activity`

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on has failed"
)]

#[expect(dead_code, reason = "each bench uses its part")]
mod support;

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use aish::history::record::{
    Call, CommandOutput, Record, RecordBody, RecordIds, RecordedAnnotations, RecordedCall,
    RecordedIntent, VERSION,
};
use support::{FigureReport, Home, Samples, row};
use uuid::Uuid;

/// Number of conversations, and the time that they span.
const SESSIONS: u64 = 10_000;
const DAYS: u64 = 90;
/// Number of records; those outside conversations make up the rest.
const RECORDS: u64 = 1_000_000;
const IN_SESSIONS: u64 = 900_000;
const COMMANDS: u64 = 90_000;
/// Runs of each query.
const ROUNDS: usize = 30;
/// Time limit of a filtered list, in milliseconds.
const BAR: f64 = 50.0;
/// Time limit of the statistics of usage and cost, in milliseconds.
const STATS_BAR: f64 = 150.0;

const SERVERS: [&str; 8] = [
    "github", "files", "git", "memory", "jira", "postgres", "slack", "browser",
];
const TOOLS: [(&str, &str); 12] = [
    ("get_issue", "read"),
    ("list_issues", "read"),
    ("search_code", "read"),
    ("read_file", "read"),
    ("list_directory", "read"),
    ("query", "read"),
    ("create_issue", "write"),
    ("write_file", "write"),
    ("add_comment", "write"),
    ("update_page", "write"),
    ("delete_file", "destructive"),
    ("drop_table", "destructive"),
];

/// Sample texts of prompts, answers and tool results.
const TEXT: &str = "The build fails because the linker cannot find the symbol that the last change has renamed; \
    the other crate still asks for the old one. Look at the two places below, rename both, and run the tests of \
    that crate alone before all others. If they pass, the rest will too, as nothing else depends on it. ";

/// Deterministic random numbers.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[usize::try_from(self.below(list.len() as u64)).unwrap()]
    }

    fn id(&mut self, at_ms: u64) -> Uuid {
        let (high, low) = (self.next().to_le_bytes(), self.next().to_le_bytes());
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&high);
        bytes[8..].copy_from_slice(&low[..2]);
        uuid::Builder::from_unix_timestamp_millis(at_ms, &bytes).into_uuid()
    }

    fn text(&mut self, most: u64) -> String {
        let length = usize::try_from(40 + self.below(most)).unwrap();
        TEXT.chars().cycle().take(length).collect()
    }
}

/// A journal file being written.
struct Writer {
    file: BufWriter<File>,
    at_ms: u64,
    written: u64,
}

impl Writer {
    fn new(path: &Path, at_ms: u64) -> Writer {
        let file = BufWriter::with_capacity(256 << 10, File::create(path).unwrap());
        Writer {
            file,
            at_ms,
            written: 0,
        }
    }

    fn put(&mut self, chance: &mut Chance, record_ids: &RecordIds, body: RecordBody) -> String {
        let id = chance.id(self.at_ms).to_string();
        let record = Record {
            v: VERSION,
            id: id.clone(),
            timestamp_ms: self.at_ms,
            body,
            ids: record_ids.clone(),
        };
        serde_json::to_writer(&mut self.file, &record).unwrap();
        self.file.write_all(b"\n").unwrap();
        self.written += 1;
        id
    }
}

/// Returns the value with this name.
fn named<T: serde::de::DeserializeOwned>(name: &str) -> T {
    serde_json::from_value(name.into()).unwrap()
}

/// Outcome of a call, and how it was approved.
fn end(chance: &mut Chance) -> (&'static str, &'static str, &'static str) {
    match chance.below(100) {
        0..90 => ("success", "rule", "rule"),
        90..95 => ("tool_error", "person", "once"),
        95..97 => ("denied", "person", "no"),
        _ => ("blocked", "rule", "denied"),
    }
}

/// A conversation of this number of records: prompts, each with some calls and sometimes a command.
fn session(dir: &Path, chance: &mut Chance, start_ms: u64, records: u64) -> String {
    let name = chance.id(start_ms).to_string();
    let mut out = Writer::new(&dir.join(format!("{name}.jsonl")), start_ms);
    let shell = format!("{}-{}", 1000 + chance.below(30_000), start_ms / 1000);
    let mut record_ids = RecordIds {
        user: Some("ada".into()),
        session: Some(name.clone()),
        shell: Some(shell.clone()),
        ..RecordIds::default()
    };
    let body = RecordBody::Session {
        session: name.clone(),
        shell: Some(shell.clone()),
    };
    out.put(chance, &record_ids, body);
    while out.written < records {
        out.at_ms += 30_000 + chance.below(300_000);
        record_ids.request = Some(chance.id(out.at_ms).to_string());
        record_ids.command = Some(format!("{shell}@{}", out.at_ms));
        let text = chance.text(100);
        let body = RecordBody::User {
            content: format!("[cwd /home/ada/work]\n{text}"),
            text,
            shell: Some(shell.clone()),
            cwd: "/home/ada/work".into(),
            images: Vec::new(),
            pack: None,
            output: None,
        };
        (record_ids.prompt, record_ids.turn) = (None, None);
        record_ids.prompt = Some(out.put(chance, &record_ids, body));
        for _ in 0..chance.below(4) {
            call(&mut out, chance, &mut record_ids);
        }
        out.at_ms += 900 + chance.below(4000);
        record_ids.turn = Some(chance.id(out.at_ms).to_string());
        let said = answer(chance, Vec::new());
        out.put(chance, &record_ids, said);
        if chance.below(3) == 0 {
            command(&mut out, chance, &record_ids);
        }
    }
    // The last prompt may have exceeded the number.
    out.file.flush().unwrap();
    name
}

fn answer(chance: &mut Chance, calls: Vec<Call>) -> RecordBody {
    RecordBody::Assistant {
        text: match calls.is_empty() {
            true => chance.text(900),
            false => String::new(),
        },
        calls,
        omitted: 0,
        native: None,
        model: chance.of(&["large", "small", "local"]).into(),
        finish: named("stop"),
        error: None,
        prompt_tokens: Some(4_000 + chance.below(9_000)),
        completion_tokens: Some(chance.below(900)),
        cache_read_tokens: chance.below(4_000),
        cache_write_tokens: 0,
        reasoning_tokens: 0,
        provider: Some(chance.of(&["api.openai.com", "127.0.0.1"]).into()),
        cost: Some(0.0123),
        cost_estimated: false,
        refused: false,
        rejected: false,
        ms: 700 + chance.below(9_000),
    }
}

fn call(out: &mut Writer, chance: &mut Chance, record_ids: &mut RecordIds) {
    let (server, (tool, operation)) = (chance.of(&SERVERS), chance.of(&TOOLS));
    let name = format!("{server}.{tool}");
    let call = format!("call_{:016x}", chance.next());
    let arguments = format!("{{\"path\":\"src/{}.rs\",\"limit\":50}}", chance.below(900));
    out.at_ms += 800 + chance.below(3_000);
    record_ids.turn = Some(chance.id(out.at_ms).to_string());
    let calls = vec![Call {
        id: call.clone(),
        name: name.clone(),
        arguments: arguments.clone(),
        extra: None,
    }];
    let asks = answer(chance, calls);
    out.put(chance, record_ids, asks);
    let act = RecordedCall {
        server: server.into(),
        tool: tool.into(),
        variant: Some(format!("call_tool_{operation}")),
        operation: named(operation),
        intent: Some(RecordedIntent {
            operation_type: named(operation),
            data_sensitivity: Some(named("internal")),
            reason: Some(chance.text(60)),
        }),
        annotations: RecordedAnnotations {
            read_only_hint: Some(operation == "read"),
            destructive_hint: Some(operation == "destructive"),
            ..RecordedAnnotations::default()
        },
    };
    let (status, by, decision) = end(chance);
    let digest = format!("{:064x}", chance.next());
    let body = RecordBody::Approval {
        call: call.clone(),
        name: name.clone(),
        decision: named(decision),
        why: Some(format!("rule '{server}.*' of config.toml:12")),
        terminal: None,
        browser: None,
        arguments: arguments.clone(),
        digest: Some(digest.clone()),
        act: Some(act.clone()),
    };
    out.at_ms += 4;
    out.put(chance, record_ids, body);
    let text = chance.text(1200);
    let ms = 20 + chance.below(2_000);
    out.at_ms += ms;
    let body = RecordBody::Tool {
        call,
        name,
        status: named(status),
        bytes: text.len() as u64,
        text,
        images: Vec::new(),
        error: None,
        ms,
        act: Some(act),
        arguments: Some(arguments),
        by: Some(named(by)),
        why: Some(format!("rule '{server}.*' of config.toml:12")),
        digest: Some(digest),
        files: Vec::new(),
    };
    out.put(chance, record_ids, body);
}

fn command(out: &mut Writer, chance: &mut Chance, record_ids: &RecordIds) {
    let token = format!("{:016x}", chance.next());
    let command = format!("cargo test -p part-{}", chance.below(40));
    out.at_ms += 2_000;
    let body = RecordBody::CommandApproval {
        terminal: None,
        cwd: None,
        token: token.clone(),
        choice: named(chance.of(&["run", "run", "run", "insert", "no"])),
        proposed: command.clone(),
        command: command.clone(),
        why: None,
    };
    out.put(chance, record_ids, body);
    out.at_ms += 3_000;
    let body = RecordBody::CommandResult {
        token,
        command,
        exit: i32::from(chance.below(5) == 0),
        ms: Some(3_000),
        output: Some(CommandOutput {
            head: chance.text(600),
            tail: String::new(),
            omitted: 0,
        }),
        stderr: None,
    };
    out.put(chance, record_ids, body);
}

/// Writes a journal of three months. Returns the number of its records and one of its sessions.
fn journal(dir: &Path, now_ms: u64) -> (u64, String) {
    let mut chance = Chance(1);
    let (span, mut records) = (DAYS * 86_400_000, 0);
    let from = now_ms - span;
    let mut middle = String::new();
    for n in 0..SESSIONS {
        let left = (IN_SESSIONS - records) / (SESSIONS - n);
        let start = from + span / SESSIONS * n;
        let file = session(dir, &mut chance, start, left);
        let path = dir.join(format!("{file}.jsonl"));
        records += lines(&path);
        if n == SESSIONS / 2 {
            middle = file;
        }
    }
    let mut shells = Writer::new(&dir.join("shells.jsonl"), from);
    for n in 0..COMMANDS {
        shells.at_ms = from + span / COMMANDS * n;
        let body = RecordBody::ShellCommand {
            shell: format!("{}-{}", 1000 + n % 400, from / 1000),
            command: format!("git log --oneline -n {} -- src", n % 100),
            cwd: "/home/ada/work".into(),
            tty: "/dev/pts/4".into(),
            start_ms: shells.at_ms,
            duration_ms: chance.below(4_000),
            exit: i32::from(chance.below(12) == 0),
            session: None,
            env: Vec::new(),
            size: None,
        };
        shells.put(&mut chance, &RecordIds::default(), body);
    }
    shells.file.flush().unwrap();
    records += shells.written;
    let mut acts = Writer::new(&dir.join("audit.jsonl"), from);
    let rest = RECORDS - records;
    for n in 0..rest {
        acts.at_ms = from + span / rest * n;
        let alias = chance.of(&SERVERS);
        let body = RecordBody::Server {
            alias: alias.into(),
            event: named(chance.of(&["connected", "disconnected", "failed"])),
            target: format!("npx -y @example/server-{alias}"),
            version: Some("example 1.4.2".into()),
            tools: TOOLS.len(),
            error: None,
        };
        acts.put(&mut chance, &RecordIds::default(), body);
    }
    acts.file.flush().unwrap();
    (records + acts.written, middle)
}

fn lines(path: &Path) -> u64 {
    let text = fs::read(path).unwrap();
    text.iter().filter(|b| **b == b'\n').count() as u64
}

/// Runs a query. Returns the time and the output.
fn ask(home: &Home, args: &[&str]) -> (Duration, String) {
    let mut command = home.helper(args);
    command.stderr(Stdio::inherit());
    let start = Instant::now();
    let output = command.output().unwrap();
    let took = start.elapsed();
    assert!(output.status.success(), "{args:?}");
    (took, String::from_utf8(output.stdout).unwrap())
}

fn main() -> ExitCode {
    let home = Home::under(Path::new(env!("CARGO_TARGET_TMPDIR")), "http://127.0.0.1:9");
    let dir = home.path().join("data/journal");
    fs::create_dir_all(&dir).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_ms = u64::try_from(now.unwrap().as_millis()).unwrap();
    let (records, session) = journal(&dir, now_ms);
    assert_eq!(records, RECORDS);
    let sizes = fs::read_dir(&dir).unwrap();
    let journal: u64 = sizes.map(|e| e.unwrap().metadata().unwrap().len()).sum();

    let index = home.path().join("state/activity.sqlite");
    let (made, text) = ask(&home, &["activity", "stats", "--json"]);
    let stats: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(stats["all"]["count"], RECORDS);
    let size = fs::metadata(&index).unwrap().len();

    let part = &session[session.len() - 12..];
    let (_, text) = ask(&home, &["activity", "list", "--type", "tool", "--json"]);
    let list: serde_json::Value = serde_json::from_str(&text).unwrap();
    let id = list[0]["id"].as_str().unwrap();
    let questions: Vec<(Vec<&str>, Option<f64>)> = vec![
        (vec!["activity", "list", "--limit", "50"], Some(BAR)),
        (
            vec!["activity", "list", "--status", "blocked", "--limit", "50"],
            Some(BAR),
        ),
        (
            vec!["activity", "list", "--tool", "github.create_issue"],
            Some(BAR),
        ),
        (
            vec!["activity", "list", "--server", "jira", "--type", "tool"],
            Some(BAR),
        ),
        (
            vec!["activity", "list", "--intent-type", "destructive"],
            Some(BAR),
        ),
        (vec!["activity", "list", "--session", part], Some(BAR)),
        (vec!["activity", "list", "--since", "7d"], Some(BAR)),
        (
            vec![
                "activity",
                "list",
                "--since",
                "40d",
                "--until",
                "39d",
                "--status",
                "error,denied",
            ],
            Some(BAR),
        ),
        (vec!["activity", "show", id], None),
        (vec!["activity", "stats", "--since", "7d"], None),
        (vec!["activity", "stats"], None),
        (vec!["stats"], Some(STATS_BAR)),
        (vec!["stats", "--since", "100d"], Some(STATS_BAR)),
    ];
    let mut times: Vec<(Samples, Samples)> = questions.iter().map(|_| Default::default()).collect();
    let mut grown: (Samples, Samples) = Default::default();
    for _ in 0..ROUNDS {
        for ((question, _), (version, asked)) in questions.iter().zip(&mut times) {
            version.time(ask(&home, &["--version"]).0);
            let (took, text) = ask(&home, question);
            assert!(text.lines().count() > 3, "{question:?}");
            asked.time(took);
        }
        // A record has been added since the last run.
        let body = RecordBody::Attached {
            shell: "another".into(),
        };
        let mut chance = Chance(grown.0.len() as u64);
        let record_ids = RecordIds::default();
        let file = OpenOptions::new()
            .append(true)
            .open(dir.join(format!("{session}.jsonl")));
        let mut writer = Writer {
            file: BufWriter::new(file.unwrap()),
            at_ms: now_ms,
            written: 0,
        };
        let id = writer.put(&mut chance, &record_ids, body);
        writer.file.flush().unwrap();
        grown.0.time(ask(&home, &["--version"]).0);
        let (took, text) = ask(&home, &["activity", "list", "--type", "session", "--json"]);
        assert!(text.contains(&id));
        grown.1.time(took);
    }

    let mut report = FigureReport::new("activity");
    let mb = |bytes: u64| format!("{:.0} MB", bytes as f64 / 1e6);
    report.table(&[
        row(["what", "figure"]),
        row(["records", &RECORDS.to_string()]),
        row(["files", &(SESSIONS + 2).to_string()]),
        row(["journal", &mb(journal)]),
        row(["index", &mb(size)]),
        row(["made in", &format!("{:.1} s", made.as_secs_f64())]),
    ]);
    report.text("Medians (least–most) in milliseconds; each query starts `aish-helper`.");
    let mut rows = vec![row(["aish-helper", "--version", "ms", "ratio", "bar"])];
    let mut put = |what: &str, (version, asked): &(Samples, Samples), bar: Option<f64>| {
        if let Some(bar) = bar {
            report.at_most(what, asked.median(), bar);
        }
        rows.push(row([
            what,
            &version.shown(),
            &asked.shown(),
            &format!("{:.1}", asked.median() / version.median()),
            &bar.map_or(String::new(), |bar| format!("< {bar} ms")),
        ]));
    };
    for ((question, bar), times) in questions.iter().zip(&times) {
        let shown = question.join(" ").replace(part, "ID").replace(id, "ID");
        put(&shown, times, *bar);
    }
    put(
        "activity list --type session, a record since",
        &grown,
        Some(BAR),
    );
    report.table(&rows);
    report.finish()
}
