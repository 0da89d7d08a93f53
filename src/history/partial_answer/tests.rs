use super::*;
use crate::history::record::Record;

const TOKEN: &str = concat!("ghp_", "q7Rk2ZpL9vXw3TbN5mHs8YdJ4cFg6aQe1uVo");

/// A journal with one session and one prompt, and the directory of its partial answers.
struct Fixture {
    dir: tempfile::TempDir,
    journal: Journal,
    ids: RecordIds,
}

impl Fixture {
    fn new() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::new(dir.path().join("journal"));
        let ids = RecordIds {
            session: Some("s".into()),
            shell: Some("1-2".into()),
            prompt: Some("p".into()),
            turn: Some("t".into()),
            ..RecordIds::default()
        };
        let log = journal.create("s").unwrap();
        let user = RecordBody::User {
            text: "hi".into(),
            content: "hi".into(),
            shell: None,
            cwd: "/".into(),
            images: Vec::new(),
            pack: None,
            output: None,
        };
        log.append(ids.clone(), user).unwrap();
        log.flush().unwrap();
        Fixture { dir, journal, ids }
    }

    fn partial(&self) -> PathBuf {
        self.dir.path().join("partial")
    }

    fn begin(&self) -> PartialAnswer {
        self.begin_in(false)
    }

    fn begin_in(&self, background: bool) -> PartialAnswer {
        PartialAnswer::create(&self.partial(), "s", &self.ids, "m", background)
    }

    /// The text that would be recovered now.
    fn text(&self, answer: &PartialAnswer) -> String {
        let text = fs::read_to_string(&answer.file.as_ref().unwrap().path).unwrap();
        text.split_once('\n').unwrap().1.to_owned()
    }

    fn recover(&self) -> (usize, Vec<Record>) {
        let recovered = recover(&self.journal, &self.partial()).unwrap().len();
        assert_eq!(fs::read_dir(self.partial()).unwrap().count(), 0);
        (recovered, self.journal.open("s").unwrap().1)
    }
}

#[test]
fn what_was_shown_before_a_kill_is_recovered_and_marked() {
    let fixture = Fixture::new();
    let mut answer = fixture.begin();
    for token in ["Two ", "words", " ✓"] {
        answer.append(token);
    }
    assert_eq!(fixture.text(&answer), "Two words ✓");
    drop(answer);
    let (recovered, records) = fixture.recover();
    assert_eq!(recovered, 1);
    let last = records.last().unwrap();
    assert_eq!(last.ids, fixture.ids);
    let RecordBody::Assistant { text, finish, .. } = &last.body else {
        panic!("{last:?}")
    };
    assert_eq!((text.as_str(), finish.as_str()), ("Two words ✓", "cut_off"));
    // Once.
    let (recovered, again) = fixture.recover();
    assert_eq!((recovered, again), (0, records));
}

/// Adds an answer with a tool call, and the call's result, to the session of the fixture.
fn add_answer(fixture: &Fixture, has_call: bool, has_result: bool) {
    let call = r#"[{"id":"c","name":"t","arguments":"{}"}]"#;
    let answer = format!(
        r#"{{"type":"assistant","text":"Look.","calls":{},"model":"m","finish":"stop","duration_ms":1}}"#,
        if has_call { call } else { "[]" }
    );
    let result = r#"{"type":"tool","call":"c","name":"t","status":"success","text":"","bytes":0,"duration_ms":1}"#;
    let (log, _) = fixture.journal.open("s").unwrap();
    for body in [Some(&*answer), has_result.then_some(result)]
        .into_iter()
        .flatten()
    {
        let body = serde_json::from_str(body).unwrap();
        log.append(fixture.ids.clone(), body).unwrap();
    }
    log.flush().unwrap();
}

#[test]
fn a_turn_that_was_killed_during_or_after_its_tool_calls_is_cut_off() {
    // Whether the answer had a call, and the call a result, and whether the next answer had begun.
    for (has_call, has_result, next, expected) in [
        (true, false, None, "tool assistant"),
        (true, true, None, "assistant"),
        (true, true, Some(""), "assistant"),
        (true, true, Some("text"), "assistant"),
        (false, false, None, ""),
    ] {
        let mut fixture = Fixture::new();
        let mut answer = fixture.begin_in(true);
        answer.append("Look.");
        add_answer(&fixture, has_call, has_result);
        if let Some(text) = next {
            fixture.ids.turn = Some("next".into());
            let next = fixture.begin_in(true);
            std::mem::replace(&mut answer, next).finish();
            answer.append(text);
        }
        drop(answer);
        let before = 2 + usize::from(has_result);
        let (recovered, records) = fixture.recover();
        let added: Vec<&str> = records[before..]
            .iter()
            .map(|record| match &record.body {
                RecordBody::Tool { status, .. } => {
                    assert_eq!(status.as_str(), "interrupted");
                    "tool"
                }
                RecordBody::Assistant { text, finish, .. } => {
                    assert_eq!(
                        (text.as_str(), finish.as_str()),
                        (next.unwrap_or(""), "cut_off")
                    );
                    assert_ne!(record.ids.turn.as_deref(), Some("t"));
                    "assistant"
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(added.join(" "), expected);
        assert_eq!(recovered, usize::from(!expected.is_empty()));
        assert_eq!(fixture.recover(), (0, records));
    }
}

#[test]
fn a_background_answer_is_reported_even_without_text() {
    let fixture = Fixture::new();
    drop(fixture.begin_in(true));
    drop(fixture.begin_in(false));
    let mut answer = fixture.begin_in(false);
    answer.append("text");
    drop(answer);
    let answer = |background| RecoveredAnswer {
        session: "s".into(),
        shell: Some("1-2".into()),
        background,
    };
    let recovered = recover(&fixture.journal, &fixture.partial()).unwrap();
    assert_eq!(recovered, [answer(true), answer(false)]);
    assert_eq!(fixture.journal.open("s").unwrap().1.len(), 2);
}

#[test]
fn only_the_exact_id_of_a_session_is_accepted() {
    let fixture = Fixture::new();
    fixture.journal.create("session").unwrap();
    for session in ["sess", "../s", ""] {
        let ids = RecordIds {
            session: Some(session.into()),
            ..fixture.ids.clone()
        };
        let mut file = PartialFile::create(&fixture.partial(), ids, "m", true).unwrap();
        file.append(b"text", b"").unwrap();
    }
    assert_eq!(fixture.recover().0, 0);
}

#[test]
fn a_finished_an_empty_and_a_recorded_answer_leave_no_record() {
    let fixture = Fixture::new();
    let mut finished = fixture.begin();
    finished.append("x");
    finished.finish();
    drop(fixture.begin());
    assert_eq!(fixture.recover().0, 0);
    // Killed between the record and the removal.
    let mut answer = fixture.begin();
    answer.append("all of it");
    let (log, before) = fixture.journal.open("s").unwrap();
    let body = RecordBody::Assistant {
        text: "all of it".into(),
        calls: Vec::new(),
        native: None,
        model: "m".into(),
        finish: crate::chat::FinishReason::Stop,
        error: None,
        omitted: 0,
        prompt_tokens: None,
        completion_tokens: None,
        cache_read_tokens: 0,
        cache_write_tokens: 0,
        reasoning_tokens: 0,
        provider: None,
        cost: None,
        cost_estimated: false,
        refused: false,
        rejected: false,
        ms: 1,
    };
    log.append(fixture.ids.clone(), body).unwrap();
    drop(answer);
    let (recovered, records) = fixture.recover();
    assert_eq!((recovered, records.len()), (0, before.len() + 1));
    // A session that was deleted, and a file that is something else.
    let mut answer = fixture.begin();
    answer.append("x");
    drop(answer);
    fs::write(fixture.partial().join("a.partial"), "no header").unwrap();
    fs::remove_file(fixture.journal.path("s")).unwrap();
    assert_eq!(recover(&fixture.journal, &fixture.partial()).unwrap(), []);
    assert_eq!(fs::read_dir(fixture.partial()).unwrap().count(), 0);
}

#[test]
fn files_that_are_not_regular_or_of_another_version_are_left_alone() {
    let fixture = Fixture::new();
    drop(fixture.begin());
    let dir = fixture.partial();
    let own = fs::read_dir(&dir).unwrap().next().unwrap().unwrap().path();
    let later = fs::read_to_string(&own)
        .unwrap()
        .replace("\"v\":1", "\"v\":2");
    fs::write(dir.join("later.partial"), later + "text").unwrap();
    fs::write(dir.join("other.partial"), "not a header\ntext").unwrap();
    fs::write(dir.join("torn.partial"), "{\"v\":1").unwrap();
    nix::unistd::mkfifo(
        &dir.join("fifo.partial"),
        nix::sys::stat::Mode::from_bits_truncate(0o600),
    )
    .unwrap();
    std::os::unix::fs::symlink("/dev/zero", dir.join("link.partial")).unwrap();
    assert_eq!(recover(&fixture.journal, &dir).unwrap(), []);
    let entries = fs::read_dir(&dir).unwrap();
    let mut left: Vec<_> = entries.map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(
        left,
        [
            "fifo.partial",
            "later.partial",
            "link.partial",
            "other.partial"
        ]
    );
}

#[test]
fn a_file_that_cannot_be_written_is_removed() {
    let fixture = Fixture::new();
    let mut answer = fixture.begin();
    // Every write to this descriptor fails as on a full disk.
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    answer.file.as_mut().unwrap().file = full;
    answer.append("text");
    assert!(answer.file.is_none());
    assert_eq!(fs::read_dir(fixture.partial()).unwrap().count(), 0);
}

#[test]
fn an_unfinished_url_password_of_an_older_file_is_not_recovered() {
    let fixture = Fixture::new();
    let answer = fixture.begin();
    let path = answer.file.as_ref().unwrap().path.clone();
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(b"use postgres://bob:hunter2").unwrap();
    drop(answer);
    let (_, records) = fixture.recover();
    let RecordBody::Assistant { text, .. } = &records.last().unwrap().body else {
        panic!("{records:?}")
    };
    assert_eq!(text, "use postgres://bob:[REDACTED:cut]");
}

#[test]
fn at_no_moment_is_a_secret_or_the_start_of_a_known_one_on_the_disk() {
    let value = "vK3-unheard-of-value-9sQ";
    global_redactor().add_secret("partial-test", value);
    let whole = format!("before {TOKEN} between {value} and postgres://bob:hunter2@db after");
    for size in [1, 3, 7] {
        let fixture = Fixture::new();
        let mut answer = fixture.begin();
        let bytes: Vec<char> = whole.chars().collect();
        let mut shown = String::new();
        for piece in bytes.chunks(size) {
            let piece: String = piece.iter().collect();
            answer.append(&piece);
            shown.push_str(&piece);
            let text = fixture.text(&answer);
            assert!(
                !text.contains(TOKEN) && !text.contains(&value[..6]) && !text.contains("bob:h"),
                "{text}"
            );
            assert!(text.starts_with("before "[..shown.len().min(7)].trim_end()));
        }
        assert_eq!(
            fixture.text(&answer),
            "before [REDACTED:github-token] between [REDACTED:partial-test] and \
             postgres://bob:[REDACTED:url-password]@db after"
        );
    }
}

/// Prints the cost of an append: run with `--release` and `--no-capture` for a figure that counts.
#[test]
fn an_append_costs_one_small_write() {
    let fixture = Fixture::new();
    let mut answer = fixture.begin();
    let tokens: Vec<String> = (0..20_000).map(|n| format!(" word{n}")).collect();
    let start = std::time::Instant::now();
    for token in &tokens {
        answer.append(token);
    }
    let each = start.elapsed() / 20_000;
    println!("{each:?} for an append");
    assert_eq!(fixture.text(&answer), tokens.concat());
    // Two bounded buffers, however long the answer.
    let (file, text) = (answer.file.unwrap(), answer.text.unwrap());
    let capacity = file.buffer.capacity() + text.certain.capacity() + text.tail.capacity();
    assert!(capacity < 64 << 10);
}
