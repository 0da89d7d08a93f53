use super::*;

fn user(text: &str) -> RecordBody {
    RecordBody::User {
        text: text.into(),
        content: text.into(),
        shell: None,
        cwd: "/".into(),
        images: Vec::new(),
        pack: None,
        output: None,
    }
}

#[test]
fn a_tail_torn_at_any_byte_is_cut_off_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::new(dir.path().join("j"));
    let log = journal.create("s").unwrap();
    log.append(RecordIds::default(), user("one")).unwrap();
    log.append(RecordIds::default(), user("zwei ✓")).unwrap();
    log.flush().unwrap();
    let whole = fs::read(journal.path("s")).unwrap();
    let first = whole.iter().position(|b| *b == b'\n').unwrap() + 1;
    for cut in first..whole.len() {
        fs::write(journal.path("s"), &whole[..cut]).unwrap();
        let (log, records) = journal.open("s").unwrap();
        assert_eq!(records.len(), 1, "cut at {cut}");
        log.append(RecordIds::default(), user("three")).unwrap();
        let (_, records) = journal.open("s").unwrap();
        assert_eq!(records.len(), 2);
        assert_eq!(records[1].body, user("three"));
    }
}

#[test]
fn a_session_whose_daemon_was_killed_during_a_call_is_repaired_once() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::new(dir.path().to_path_buf());
    let answer = concat!(
        r#"{"v":2,"id":"x","timestamp_ms":1,"type":"assistant","text":"","model":"m","finish":"stop","#,
        r#""duration_ms":1,"calls":[{"id":"c","name":"t","arguments":"{}"}]}"#,
        "\n"
    );
    fs::write(journal.path("s"), answer).unwrap();
    let (_, repaired) = journal.open("s").unwrap();
    assert_eq!(repaired.len(), 3);
    let (_, again) = journal.open("s").unwrap();
    assert_eq!(again, repaired);
}

#[test]
fn id_and_time_of_a_record_are_the_same_millisecond() {
    // The clock ticks many times meanwhile, also between any two steps of the making of a record.
    let make = || {
        for _ in 0..20_000 {
            let record = new_record(RecordIds::default(), user(""));
            let id = Uuid::try_parse(&record.id).unwrap();
            let (seconds, nanos) = id.get_timestamp().unwrap().to_unix();
            let of_id = seconds * 1000 + u64::from(nanos) / 1_000_000;
            assert_eq!(of_id, record.timestamp_ms);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(make);
        make();
    });
}

#[test]
fn records_of_a_later_version_are_kept_and_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::new(dir.path().to_path_buf());
    let line = "{\"v\":9,\"id\":\"x\",\"at_ms\":1,\"type\":\"hologram\",\"depth\":3}\n";
    fs::write(journal.path("s"), line).unwrap();
    let (log, records) = journal.open("s").unwrap();
    assert_eq!(records[0].body, RecordBody::Unknown);
    log.append(RecordIds::default(), user("one")).unwrap();
    log.flush().unwrap();
    assert!(
        fs::read_to_string(journal.path("s"))
            .unwrap()
            .starts_with(line)
    );
}

#[test]
fn prompts_are_counted_by_type_and_not_by_text() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::new(dir.path().to_path_buf());
    let log = journal.create("s").unwrap();
    let summary = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        journal.summary("s", &words).unwrap()
    };
    // An empty file is not a session that a list shows.
    assert!(summary(&[]).is_none());
    log.append(
        RecordIds::default(),
        RecordBody::Model {
            model: "\"type\":\"user\"".into(),
        },
    )
    .unwrap();
    log.append(RecordIds::default(), user("first \"type\":\"user\""))
        .unwrap();
    log.append(RecordIds::default(), user("second")).unwrap();
    let found = summary(&[]).unwrap();
    assert_eq!(
        (found.prompts, found.title.as_str()),
        (2, "first \"type\":\"user\"")
    );
    let title = RecordBody::Title {
        title: "Überschrift".into(),
    };
    log.append(RecordIds::default(), title).unwrap();
    assert_eq!(summary(&[]).unwrap().title, "Überschrift");
    // All words in one record, in any case.
    let found = summary(&["cond", "se"]).unwrap();
    assert_eq!(found.excerpt, "second");
    let (_, records) = journal.open("s").unwrap();
    assert_eq!(found.found_record, Some(records[2].id.clone()));
    // The log of a session does not show its title.
    let found = summary(&["über"]).unwrap();
    assert_eq!(found.excerpt, "Überschrift");
    assert_eq!(found.found_record, None);
    assert_eq!(summary(&["first", "second"]), None);
    assert_eq!(summary(&["v"]), None, "names of fields are no text");
    // As JSON these texts have other characters.
    for (text, word) in [
        ("say \"Stop\"", "\"stop\""),
        ("C:\\Temp\\New", "\\temp\\"),
        ("two\nLines", "lines"),
        ("a\u{1}b", "a\u{1}b"),
        ("300 \u{212a}", "k"),
        ("ÄRGER", "ärger"),
    ] {
        log.append(RecordIds::default(), user(text)).unwrap();
        assert!(summary(&[word]).is_some(), "{word:?}");
    }
}

#[test]
fn a_search_prefers_the_phrase_then_the_newest_record_and_shows_no_escapes() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::new(dir.path().to_path_buf());
    let log = journal.create("s").unwrap();
    let texts = [
        "the red fox, at first",
        "a fox and its den, red",
        "the red\n  fox, again",
        "\u{1b}[31mred\u{1b}[0m\tand a fox at last",
        "foxred",
    ];
    for text in texts {
        log.append(RecordIds::default(), user(text)).unwrap();
    }
    let (_, records) = journal.open("s").unwrap();
    for (words, excerpt, record) in [
        (&["red", "fox"][..], "the red fox, again", 2),
        (&["fox", "red"], "foxred", 4),
        (&["red", "and"], "red and a fox at last", 3),
        (&["first"], "the red fox, at first", 0),
        (&["den"], "a fox and its den, red", 1),
    ] {
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        let found = journal.summary("s", &words).unwrap().unwrap();
        assert_eq!(found.excerpt, excerpt, "{words:?}");
        assert_eq!(found.found_record, Some(records[record].id.clone()));
    }
}

#[test]
fn a_shell_history_that_cannot_be_opened_is_opened_by_a_later_command() {
    let dir = tempfile::tempdir().unwrap();
    // A file in place of the directory simulates a disk that is full at the start.
    let path = dir.path().join("journal");
    fs::write(&path, "").unwrap();
    let (log, records) = Journal::new(path.clone()).open_shells().unwrap();
    assert_eq!(records, []);
    log.append(RecordIds::default(), user("lost")).unwrap();
    log.flush().unwrap_err();
    fs::remove_file(&path).unwrap();
    log.append(RecordIds::default(), user("kept")).unwrap();
    log.flush().unwrap();
    let (_, records) = Journal::new(path).open_shells().unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].body, user("kept"));
}

#[test]
fn a_full_disk_is_an_error_that_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::new(dir.path().to_path_buf());
    std::os::unix::fs::symlink("/dev/full", journal.path("s")).unwrap();
    let file = OpenOptions::new()
        .append(true)
        .open(journal.path("s"))
        .unwrap();
    let log = journal.log(journal.path("s"), Some(file));
    log.append(RecordIds::default(), user("one")).unwrap();
    let e = log.flush().unwrap_err();
    assert!(log.flush().is_ok(), "a failure is reported once");
    assert!(e.message.contains("s.jsonl"), "{e}");
    assert!(e.message.contains("No space left"), "{e}");
}

#[test]
fn a_session_is_found_by_a_unique_part() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::new(dir.path().to_path_buf());
    for id in ["abc-1", "abd-2"] {
        journal.create(id).unwrap();
    }
    assert_eq!(journal.find("d-2").unwrap(), "abd-2");
    assert!(
        journal
            .find("ab")
            .unwrap_err()
            .message
            .contains("several sessions")
    );
    assert!(journal.find("").is_err());
    assert!(
        journal
            .find("zzz")
            .unwrap_err()
            .message
            .contains("no session")
    );
    assert_eq!(journal.sessions().unwrap().len(), 2);
}
