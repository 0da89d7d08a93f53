use std::fs;
use std::sync::mpsc::channel;

use super::*;
use crate::history::journal::Journal;
use crate::history::record::{RecordBody, RecordIds};

fn model(name: &str) -> RecordBody {
    RecordBody::Model { model: name.into() }
}

#[test]
fn records_are_written_in_order_and_a_stopped_disk_stops_no_caller() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::new(dir.path().to_path_buf());
    let log = journal.create("s").unwrap();
    let (open_gate, gate) = channel::<()>();
    // Stands for a disk that does not answer.
    let file = Arc::new(LogFile::new(PathBuf::from("/nowhere"), None, |_| {
        Err(Error::runtime("none"))
    }));
    log.writer
        .report(&file, move |_| gate.recv().unwrap_or_default())
        .unwrap();
    for n in 0..100 {
        log.append(RecordIds::default(), model(&n.to_string()))
            .unwrap();
    }
    assert_eq!(fs::read(dir.path().join("s.jsonl")).unwrap(), b"");
    open_gate.send(()).unwrap();
    log.flush().unwrap();
    let (_, records) = journal.open("s").unwrap();
    let names: Vec<RecordBody> = records.into_iter().map(|r| r.body).collect();
    let wanted: Vec<RecordBody> = (0..100).map(|n| model(&n.to_string())).collect();
    assert_eq!(names, wanted);
}

#[test]
fn a_file_that_could_not_be_opened_is_opened_when_it_can_be() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    // In the way of the directory.
    fs::write(&path, "").unwrap();
    let journal = Journal::new(path.clone());
    let (log, records) = journal.open_shells().unwrap();
    assert_eq!(records, []);
    log.append(RecordIds::default(), model("lost")).unwrap();
    assert!(log.sync().is_err(), "what was not written is not synced");
    fs::remove_file(&path).unwrap();
    log.append(RecordIds::default(), model("kept")).unwrap();
    log.sync().unwrap();
    let text = fs::read_to_string(path.join("shells.jsonl")).unwrap();
    assert!(text.contains("kept") && !text.contains("lost"), "{text}");
}

#[test]
fn every_record_is_synced_where_that_is_wanted_and_nobody_waits() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::new(dir.path().to_path_buf());
    let log = journal.create("s").unwrap();
    // A pipe takes writes and no syncs, so that a failure shows that one was made.
    nix::unistd::mkfifo(
        &dir.path().join("pipe"),
        nix::sys::stat::Mode::from_bits_truncate(0o600),
    )
    .unwrap();
    let pipe = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(dir.path().join("pipe"))
        .unwrap();
    log.file.replace(pipe);
    log.append(RecordIds::default(), model("one")).unwrap();
    journal.drain();
    assert!(log.flush().is_ok());
    journal.sync_every_record(true);
    log.append(RecordIds::default(), model("two")).unwrap();
    // The sync happens later: ask until it has.
    let started = Instant::now();
    while log.flush().is_ok() {
        assert!(started.elapsed() < Duration::from_secs(20));
        std::thread::yield_now();
    }
}

#[test]
fn close_syncs_the_last_records_if_every_record_is_synced() {
    let writer = JournalWriter::default();
    writer.sync_all(true);
    // A pipe can be written but not synced: the failure shows that a sync was made.
    let (_reader, pipe) = std::io::pipe().unwrap();
    let pipe = File::from(std::os::fd::OwnedFd::from(pipe));
    let log = Arc::new(LogFile::new(PathBuf::from("/nowhere"), Some(pipe), |_| {
        Err(Error::runtime("none"))
    }));
    let (open_gate, gate) = channel::<()>();
    let closing = writer.clone();
    writer
        .report(&log, move |_| gate.recv().unwrap_or_default())
        .unwrap();
    writer.append(&log, b"record\n".to_vec()).unwrap();
    let (send, checked) = channel();
    // Queued behind `close`, so that the queue is not empty before the sync.
    let closed = std::thread::spawn(move || closing.close());
    open_gate.send(()).unwrap();
    closed.join().unwrap();
    writer
        .report(&log, move |result| send.send(result).unwrap())
        .unwrap();
    assert!(checked.recv().unwrap().is_err());
}
