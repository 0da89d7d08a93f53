use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::recording::player::Player;
use crate::recording::tests::TestRecording;

/// Forty commands with 120 kB of output each, every kind of screen in between.
fn session() -> TestRecording {
    let mut recording = TestRecording::new(60, 12);
    for number in 0..40 {
        let id = format!("1-a@{number}");
        recording
            .wait(1_000_000)
            .event(RecordingEvent::CommandStart {
                command_id: id.clone(),
                text: Some(format!("run {number}")),
            });
        for part in 0..15 {
            let line = format!(
                "\x1b[3{}mcommand {number} part {part} 日本\x1b[0m ",
                part % 8
            );
            recording.wait(10_000).output(line.repeat(200));
            // A character that is split over two writes.
            recording.output(b"\xe6\x97").wait(5).output(b"\xa5\r\n");
        }
        match number % 4 {
            0 => recording.event(RecordingEvent::Resize {
                cols: 50 + number,
                rows: 12,
            }),
            1 => recording.output("\x1b[?1049h\x1b[Hfull screen"),
            2 => recording.output("\x1b[?1049l\x1b[2;8r"),
            _ => recording.output("\x1b[r\x1b[H\x1b[2J"),
        };
        recording.event(RecordingEvent::CommandEnd {
            command_id: id,
            exit: i32::from(number),
        });
    }
    recording.event(RecordingEvent::End { exit: None });
    recording
}

fn wait(index: &ReplayIndex) {
    while !index.is_complete() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The screen at each of these times, by drawing everything before it.
fn screens(recording: &Arc<Recording>, times: &[u64]) -> Vec<String> {
    let index = Arc::new(ReplayIndex::default());
    let screen = |us: &u64| {
        let player = Player::new(Arc::clone(recording), Arc::clone(&index));
        let mut player = player.unwrap().unwrap();
        let far = Instant::now() + Duration::from_secs(600);
        assert!(player.advance(*us, far).unwrap());
        described(&player)
    };
    times.iter().map(screen).collect()
}

fn described(player: &Player) -> String {
    let terminal = player.screen().terminal();
    let lines = terminal.screen().visible_lines().map(|line| line.text());
    format!(
        "{:?} {:?} {:?}",
        terminal.size(),
        terminal.cursor(),
        lines.collect::<Vec<_>>()
    )
}

fn seek(player: &mut Player, us: u64) {
    let mut is_done = player.seek(us).unwrap();
    while !is_done {
        is_done = player
            .advance(us, Instant::now() + Duration::from_secs(9))
            .unwrap();
    }
}

#[test]
fn a_seek_shows_the_screen_that_playing_shows() {
    let session = session();
    let recording = Arc::new(session.open());
    let times = [
        0, 46_000_000, 7_123_456, 20_000_000, 19_999_999, 20_000_001, 1, 33_333_333, 33_400_000,
        99_000_000,
    ];
    let expected = screens(&recording, &times);
    let index = ReplayIndex::build(&recording);
    wait(&index);
    assert!(index.state().snapshots.len() > 2);
    let mut player = Player::new(Arc::clone(&recording), index).unwrap().unwrap();
    for (us, screen) in times.iter().zip(&expected) {
        seek(&mut player, *us);
        assert!(!player.is_guess());
        assert_eq!(described(&player), *screen, "{us}");
    }
    // The snapshots of a complete recording are kept, and are private.
    let file = recording.dir.join("snapshots");
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let text = fs::read(&file).unwrap();
    let index = ReplayIndex::build(&recording);
    wait(&index);
    assert_eq!(fs::read(&file).unwrap(), text);
    let mut player = Player::new(Arc::clone(&recording), index).unwrap().unwrap();
    for (us, screen) in times.iter().zip(&expected).rev() {
        seek(&mut player, *us);
        assert_eq!(described(&player), *screen, "{us}");
    }
    assert_eq!(fs::read_dir(&recording.dir).unwrap().count(), 3);
}

#[test]
fn snapshots_that_do_not_fit_are_made_anew() {
    let session = session();
    let recording = Arc::new(session.open());
    wait(&ReplayIndex::build(&recording));
    let file = recording.dir.join("snapshots");
    let good = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = good.lines().collect();
    let hostile = [
        String::new(),
        "{}\n".into(),
        good.replacen("\"version\":1", "\"version\":2", 1),
        good.replacen("\"events\":", "\"events\":1", 1),
        // Torn, and in another order.
        good[..good.len() / 2].into(),
        lines[..lines.len() - 1].join("\n") + "\n",
        [lines[0], lines[2], lines[1], lines[lines.len() - 1], ""].join("\n"),
    ];
    for text in hostile {
        fs::write(&file, &text).unwrap();
        let index = ReplayIndex::build(&recording);
        wait(&index);
        assert!(
            fs::read_to_string(&file).unwrap().lines().count() > 2,
            "{text:.80}"
        );
        let end = index.snapshot_before(u64::MAX).unwrap().0;
        assert!(end.position.offset <= recording.output_length());
    }
    // Numbers that lead nowhere do no harm.
    let lines = [
        lines[0],
        r#"{"line":99999999,"us":5,"offset":99999999,"cols":0,"rows":60000,"dump":"\u001b[9999b"}"#,
        r#"{"complete":true}"#,
        "",
    ];
    fs::write(&file, lines.join("\n")).unwrap();
    let index = ReplayIndex::build(&recording);
    wait(&index);
    let mut player = Player::new(Arc::clone(&recording), index).unwrap().unwrap();
    seek(&mut player, 50_000_000);
}

#[test]
fn snapshots_of_an_open_recording_are_not_kept() {
    let mut recording = TestRecording::new(80, 24);
    for _ in 0..40 {
        recording.wait(1000).output("x".repeat(60_000));
    }
    let fixture = recording;
    let recording = Arc::new(fixture.open());
    let index = ReplayIndex::build(&recording);
    wait(&index);
    assert!(index.snapshot_before(u64::MAX).is_some());
    assert_eq!(fs::read_dir(&recording.dir).unwrap().count(), 2);
}

#[test]
fn commands_are_found_by_time_and_number() {
    let session = session();
    let recording = Arc::new(session.open());
    let index = ReplayIndex::build(&recording);
    wait(&index);
    assert_eq!(index.command_count(), 40);
    assert_eq!(index.command_at(999_999), None);
    let (number, command) = index.command_at(1_000_000).unwrap();
    assert_eq!((number, command.text.as_deref()), (0, Some("run 0")));
    assert_eq!(index.command_at(u64::MAX).unwrap().1.exit, Some(39));
    assert_eq!(index.command(3).unwrap().id, "1-a@3");
    assert_eq!(index.command(40), None);
}

/// Before there are snapshots, a far seek shows what the output just before it shows.
#[test]
fn a_far_seek_without_snapshots_is_a_guess_that_gets_exact() {
    let mut recording = TestRecording::new(60, 12);
    for number in 0..1000 {
        let line = format!("{number} {}\r\n", "x".repeat(50));
        recording.wait(1000).output(line.repeat(150));
    }
    let fixture = recording;
    let recording = Arc::new(fixture.open());
    assert!(recording.output_length() > 7 << 20);
    let index = Arc::new(ReplayIndex::default());
    index.scan(&recording).unwrap();
    index.state().is_scanned = true;
    let mut player = Player::new(Arc::clone(&recording), Arc::clone(&index))
        .unwrap()
        .unwrap();
    seek(&mut player, 900_000);
    assert!(player.is_guess() && !player.can_be_exact());
    let guess = described(&player);
    assert_eq!(guess, screens(&recording, &[900_000])[0]);
    index.add_snapshots(&recording).unwrap();
    index.state().is_complete = true;
    assert!(player.can_be_exact());
    seek(&mut player, 900_000);
    assert!(!player.is_guess());
    assert_eq!(described(&player), guess);
}

#[test]
fn nothing_unfinished_is_left_behind() {
    let session = session();
    let recording = Arc::new(session.open());
    let leftover = recording.dir.join("snapshots.1.aish-new");
    fs::write(&leftover, "of a killed process").unwrap();
    let index = ReplayIndex::build(&recording);
    while index.state().file.is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!leftover.exists());
    index.stop();
    let names = fs::read_dir(&recording.dir).unwrap().flatten();
    let unfinished = names.filter(|entry| entry.file_name().to_string_lossy().ends_with("-new"));
    assert_eq!(unfinished.count(), 0);
}

#[test]
fn building_stops_when_the_replay_ends() {
    let session = session();
    let recording = Arc::new(session.open());
    let index = Arc::new(ReplayIndex::default());
    index.stop();
    index.scan(&recording).unwrap();
    index.add_snapshots(&recording).unwrap();
    assert_eq!(fs::read_dir(&recording.dir).unwrap().count(), 2);
}
