use super::*;

#[test]
fn the_name_of_a_program_may_contain_anything() {
    let text = "42 (a) 1 (b) R 7 8 9 34816 10 0 0 0 0 0 0 0 0 0 20 0 1 0 777 0 0";
    let stat = ProcessStat {
        parent: 7,
        group: 8,
        session: 9,
        terminal: 34816,
        foreground: 10,
        start: 777,
    };
    assert_eq!(ProcessStat::parse(text), Some(stat));
    assert_eq!(ProcessStat::parse("42 (a"), None);
    assert_eq!(ProcessStat::parse("42 (a) R 1"), None);
}

#[test]
#[cfg(target_os = "linux")]
fn ancestors_lead_from_a_process_to_the_first() {
    let own = i32::try_from(std::process::id()).unwrap();
    let process = PeerProcess::new(Some(own)).unwrap();
    let ancestors = process.ancestors(ProcessStat::of).unwrap();
    assert_eq!(ancestors[0].pid, own);
    assert_eq!(ancestors[1].pid, nix::unistd::getppid().as_raw());
    // The test is the daemon here.
    assert!(process.check_origin().is_err());
    let later = PeerProcess {
        start: 1,
        ..process
    };
    assert!(later.stat().is_err());
}

/// A process that started at its pid times 10.
fn child_of(parent: i32, pid: i32) -> ProcessStat {
    ProcessStat {
        parent,
        group: pid,
        session: pid,
        terminal: 0,
        foreground: 0,
        start: u64::try_from(pid * 10).unwrap(),
    }
}

fn pids(processes: Result<Vec<PeerProcess>>) -> Vec<i32> {
    processes
        .unwrap()
        .iter()
        .map(|process| process.pid)
        .collect()
}

#[test]
fn what_a_command_leaves_behind_is_found() {
    // The shell 10 decided through 20. 11 is an older job, 21 a new one; 30 has lost its parent, 40 its session too.
    let all: HashMap<i32, ProcessStat> = [
        (10, 1, 10),
        (11, 10, 10),
        (22, 11, 11),
        (21, 10, 10),
        (23, 21, 23),
        (30, 1, 10),
        (40, 1, 40),
    ]
    .map(|(pid, parent, session)| {
        let stat = child_of(parent, pid);
        (pid, ProcessStat { session, ..stat })
    })
    .into();
    let process = |pid: i32| PeerProcess {
        pid,
        start: child_of(1, pid).start,
    };
    let command = CommandProcesses {
        shell: Some(10),
        leader: Some(process(10)),
        decider: Some(process(20)),
    };
    let mut left = pids(Ok(command.among(&all)));
    left.sort_unstable();
    assert_eq!(left, [21, 23, 30]);
    let unknown = CommandProcesses {
        decider: None,
        ..command
    };
    assert!(unknown.among(&all).is_empty());
}

#[test]
fn a_parent_that_started_after_its_child_is_another_process() {
    let process = PeerProcess { pid: 3, start: 30 };
    let lookup = |reused: i32| {
        move |pid: i32| {
            let stat = child_of(pid - 1, pid);
            let start = if pid == reused { 99 } else { stat.start };
            Some(ProcessStat { start, ..stat })
        }
    };
    assert_eq!(pids(process.ancestors(lookup(0))), [3, 2, 1]);
    for reused in [1, 2, 3] {
        assert!(process.ancestors(lookup(reused)).is_err(), "{reused}");
    }
}

#[test]
fn a_parent_that_changes_during_the_walk_is_noticed() {
    let process = PeerProcess { pid: 9, start: 90 };
    let readings = std::cell::Cell::new(0);
    // The parent 7 ends after the first reading of 9, and 2 adopts it.
    let adopted = |pid: i32| match pid {
        9 => {
            readings.set(readings.get() + 1);
            Some(child_of(if readings.get() == 1 { 7 } else { 2 }, 9))
        }
        7 => Some(child_of(1, 7)),
        pid => Some(child_of(pid - 1, pid)),
    };
    assert_eq!(pids(process.ancestors(adopted)), [9, 2, 1]);
    let restless = |pid: i32| match pid {
        9 => {
            readings.set(readings.get() + 1);
            Some(child_of(2 + readings.get() % 2, 9))
        }
        pid => Some(child_of(pid - 1, pid)),
    };
    assert!(process.ancestors(restless).is_err());
}

#[test]
fn refusals_are_counted_within_a_minute() {
    let limit = RefusalLimit::default();
    let start = Instant::now();
    assert_eq!([limit.count(start), limit.count(start)], [1, 2]);
    assert_eq!(limit.count(start + REFUSAL_WINDOW / 2), 3);
    assert_eq!(limit.count(start + REFUSAL_WINDOW), 1);
}
