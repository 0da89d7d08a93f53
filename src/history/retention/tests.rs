use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use super::*;
use crate::history::record::{Record, RecordBody, RecordIds};

const ALL: RetentionLimits = RetentionLimits {
    since_ms: 0,
    records: u64::MAX,
    bytes: u64::MAX,
};

/// Returns a record with this time.
fn record(at_ms: u64, model: &str) -> Record {
    let model = model.to_string();
    Record::new(
        uuid::Uuid::now_v7(),
        at_ms,
        RecordIds::default(),
        RecordBody::Model { model },
    )
}

/// A journal in which every record has the same length.
struct TestJournal {
    dir: tempfile::TempDir,
    journal: Journal,
    logs: Vec<Arc<JournalLog>>,
    retention: Retention,
}

impl TestJournal {
    /// Creates a journal with `sessions`, each with two records and the time of its last write, and with shell records at
    /// the given times.
    fn new(sessions: &[(&str, u64)], shells: &[u64]) -> TestJournal {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::new(dir.path().to_path_buf());
        let (log, _) = journal.open_shells().unwrap();
        let records: Vec<Record> = shells.iter().map(|at| record(*at, "m")).collect();
        log.write(&records).unwrap();
        log.flush().unwrap();
        let fixture = TestJournal {
            journal,
            logs: vec![Arc::new(log)],
            retention: Retention::default(),
            dir,
        };
        for (id, at_ms) in sessions {
            let log = fixture.journal.create(id).unwrap();
            log.write(&[record(at_ms - 1, "m"), record(*at_ms, "m")])
                .unwrap();
            log.flush().unwrap();
            fixture.touch(id, *at_ms);
        }
        fixture
    }

    fn touch(&self, id: &str, at_ms: u64) {
        let file = File::open(self.journal.path(id)).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_millis(at_ms))
            .unwrap();
    }

    fn apply(&mut self, limits: RetentionLimits, in_use: &[&str]) -> DroppedCounts {
        let in_use: HashSet<String> = in_use.iter().map(|id| id.to_string()).collect();
        let journal = self.journal.clone();
        self.retention
            .apply(&self.journal, limits, &in_use, &self.logs, |id, at| {
                journal.remove(id, at)
            })
            .unwrap()
    }

    /// Returns the remaining sessions, and the times of the remaining shell records.
    fn left(&self) -> (Vec<String>, Vec<u64>) {
        let mut ids: Vec<String> = self
            .journal
            .sessions()
            .unwrap()
            .into_iter()
            .map(|s| s.id)
            .collect();
        ids.sort();
        let text = fs::read_to_string(self.dir.path().join("shells.jsonl")).unwrap();
        let times = text
            .lines()
            .map(|l| serde_json::from_str::<Record>(l).unwrap().timestamp_ms);
        (ids, times.collect())
    }
}

fn dropped(sessions: usize, records: u64) -> DroppedCounts {
    DroppedCounts { sessions, records }
}

#[test]
fn what_is_too_old_goes_and_nothing_else() {
    let mut fixture = TestJournal::new(&[("a", 100), ("b", 200), ("c", 300)], &[50, 150, 250, 350]);
    assert_eq!(fixture.apply(ALL, &[]), dropped(0, 0));
    let limits = RetentionLimits {
        since_ms: 200,
        ..ALL
    };
    assert_eq!(fixture.apply(limits, &[]), dropped(1, 2));
    assert_eq!(
        fixture.left(),
        (vec!["b".into(), "c".into()], vec![250, 350])
    );
    assert_eq!(fixture.apply(limits, &[]), dropped(0, 0));
}

#[test]
fn of_too_many_records_the_oldest_go_whatever_file_they_are_in() {
    let mut fixture = TestJournal::new(&[("a", 100), ("b", 200), ("c", 300)], &[50, 150, 250, 350]);
    let limits = RetentionLimits { records: 10, ..ALL };
    assert_eq!(fixture.apply(limits, &[]), dropped(0, 0));
    let limits = RetentionLimits { records: 6, ..ALL };
    assert_eq!(fixture.apply(limits, &[]), dropped(1, 2));
    assert_eq!(
        fixture.left(),
        (vec!["b".into(), "c".into()], vec![250, 350])
    );
    // Beyond the limit, a sixteenth more is deleted, so that the next deletion is not due at once.
    let mut fixture = TestJournal::new(&[], &(1..=100).collect::<Vec<_>>());
    assert_eq!(
        fixture.apply(RetentionLimits { records: 96, ..ALL }, &[]),
        dropped(0, 10)
    );
    assert_eq!(fixture.left().1, (11..=100).collect::<Vec<_>>());
}

#[test]
fn of_too_many_bytes_the_oldest_go() {
    let mut fixture = TestJournal::new(&[("a", 1000), ("b", 2000), ("c", 3000)], &[1500, 2500]);
    let one = serde_json::to_vec(&record(1000, "m")).unwrap().len() as u64 + 1;
    assert_eq!(
        fixture.apply(
            RetentionLimits {
                bytes: 8 * one,
                ..ALL
            },
            &[]
        ),
        dropped(0, 0)
    );
    assert_eq!(
        fixture.apply(
            RetentionLimits {
                bytes: 7 * one,
                ..ALL
            },
            &[]
        ),
        dropped(1, 0)
    );
    assert_eq!(
        fixture.apply(
            RetentionLimits {
                bytes: 4 * one,
                ..ALL
            },
            &[]
        ),
        dropped(1, 1)
    );
    assert_eq!(fixture.left(), (vec!["c".into()], vec![2500]));
    assert_eq!(
        fixture.apply(RetentionLimits { bytes: 0, ..ALL }, &[]),
        dropped(1, 1)
    );
    assert_eq!(fixture.left(), (Vec::new(), Vec::new()));
}

#[test]
fn what_is_open_stays_and_does_not_count() {
    let none = RetentionLimits {
        since_ms: u64::MAX,
        records: 0,
        bytes: 0,
    };
    let mut fixture = TestJournal::new(&[("a", 100), ("b", 200)], &[150]);
    assert_eq!(fixture.apply(none, &["a"]), dropped(1, 1));
    assert_eq!(fixture.left(), (vec!["a".into()], Vec::new()));
    let mut fixture = TestJournal::new(&[("a", 100), ("b", 200)], &[150]);
    assert_eq!(
        fixture.apply(RetentionLimits { records: 3, ..ALL }, &["a"]),
        dropped(0, 0)
    );
}

#[test]
fn what_was_written_since_it_was_counted_is_counted_again() {
    let mut fixture = TestJournal::new(&[("a", 100), ("b", 200)], &[150]);
    let limits = RetentionLimits { records: 7, ..ALL };
    assert_eq!(fixture.apply(limits, &[]), dropped(0, 0));
    let (log, _) = fixture.journal.open("b").unwrap();
    log.write(&[1, 2, 3].map(|at| record(at, "m"))).unwrap();
    log.flush().unwrap();
    fixture.touch("b", 400);
    assert_eq!(fixture.apply(limits, &[]), dropped(1, 0));
    assert_eq!(fixture.left().0, ["b"]);
    // A session that is written to between the selection and the deletion stays.
    assert!(!fixture.journal.remove("b", 399).unwrap());
    assert_eq!(fixture.left().0, ["b"]);
}

#[test]
fn a_clock_that_was_set_back_lets_no_younger_record_go_first() {
    let mut fixture = TestJournal::new(&[], &[500, 100, 600]);
    assert_eq!(
        fixture.apply(
            RetentionLimits {
                since_ms: 200,
                ..ALL
            },
            &[]
        ),
        dropped(0, 0)
    );
    assert_eq!(
        fixture.apply(
            RetentionLimits {
                since_ms: 501,
                ..ALL
            },
            &[]
        ),
        dropped(0, 2)
    );
    assert_eq!(fixture.left().1, [600]);
}

#[test]
fn what_is_appended_while_a_file_is_shortened_is_not_lost() {
    let fixture = TestJournal::new(&[], &[]);
    let log = &fixture.logs[0];
    let (total, cuts) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            // Records are appended between and during deletions, however the two threads are scheduled. A writer that
            // does not wait would grow the file faster than it can be shortened.
            for _ in 0..30 {
                let seen = cuts.load(Ordering::SeqCst);
                for _ in 0..50 {
                    let n = total.fetch_add(1, Ordering::SeqCst);
                    log.write(&[record(n, "appended meanwhile")]).unwrap();
                }
                while cuts.load(Ordering::SeqCst) == seen {
                    std::thread::yield_now();
                }
            }
        });
        while !writer.is_finished() {
            let mut first = 0;
            each_record(log, |_, _, end| {
                first = end;
                false
            })
            .unwrap();
            log.drop_before(first).unwrap();
            cuts.fetch_add(1, Ordering::SeqCst);
        }
    });
    let total = total.into_inner();
    // The oldest records were deleted, and no record between the first remaining one and the last is missing.
    let (_, times) = fixture.left();
    assert!(
        !times.is_empty() && times.windows(2).all(|w| w[0] + 1 == w[1]),
        "{times:?}"
    );
    assert_eq!(times.last(), Some(&(total - 1)));
    assert_eq!(
        fs::read_dir(fixture.dir.path()).unwrap().count(),
        1,
        "no temporary file is left"
    );
}

#[test]
fn a_file_that_cannot_be_replaced_stays_as_it_was() {
    let mut fixture = TestJournal::new(&[("a", 100)], &[50, 150]);
    let before = fs::read(fixture.dir.path().join("shells.jsonl")).unwrap();
    // A directory in place of the temporary file, which cannot be removed like a leftover file.
    fs::create_dir(fixture.dir.path().join("shells.new")).unwrap();
    let limits = RetentionLimits {
        since_ms: 120,
        ..ALL
    };
    let in_use = HashSet::new();
    let e = fixture
        .retention
        .apply(&fixture.journal, limits, &in_use, &fixture.logs, |_, _| {
            Ok(true)
        })
        .unwrap_err();
    assert!(e.message.contains("cannot shorten"), "{e}");
    assert_eq!(
        fs::read(fixture.dir.path().join("shells.jsonl")).unwrap(),
        before
    );
    fs::remove_dir(fixture.dir.path().join("shells.new")).unwrap();
    // A temporary file left by a killed daemon is replaced.
    fs::write(fixture.dir.path().join("shells.new"), "half").unwrap();
    let (log, _) = fixture.journal.open_shells().unwrap();
    fixture.logs = vec![Arc::new(log)];
    assert_eq!(fixture.apply(limits, &[]), dropped(1, 1));
    assert_eq!(fixture.left().1, [150]);
}
