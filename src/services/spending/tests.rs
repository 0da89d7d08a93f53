use std::fs;

use proptest::prelude::*;

use super::*;
use crate::safety::budget::{ModelPrice, TokenRates};

fn price() -> ModelPrice {
    ModelPrice::flat(TokenRates {
        input: 1.0,
        output: 2.0,
        cache_read: None,
        cache_write: None,
    })
}

fn bound(price: &ModelPrice, answer_tokens: u64) -> RequestBound<'_> {
    RequestBound {
        price: Some(price),
        prompt_tokens: 1000,
        answer_tokens,
    }
}

const NONE: Amounts<Option<f64>> = [None; 4];

fn day(limit: f64) -> Amounts<Option<f64>> {
    [None, None, Some(limit), None]
}

#[test]
fn amounts_survive_a_restart_and_open_reservations_count() {
    let state = tempfile::tempdir().unwrap();
    let price = price();
    let spending = Spending::new(state.path());
    let first = spending
        .reserve(&day(1.0), "s", 0.0, bound(&price, 1024))
        .unwrap();
    assert!((spending.session("s") - 0.003_048).abs() < 1e-12);
    spending.settle(first, 0.002);
    assert_eq!(spending.session("s"), 0.002);
    let _killed = spending
        .reserve(&day(1.0), "s", 0.0, bound(&price, 1024))
        .unwrap();
    let without = spending
        .reserve(&NONE, "other", 0.0, bound(&price, 1024))
        .unwrap();
    assert_eq!(without.permit.max_tokens(), None);
    spending.settle(without, 0.5);
    assert_eq!(spending.session("other"), 0.5);
    drop(spending);

    let spending = Spending::new(state.path());
    assert!((spending.session("s") - 0.005_048).abs() < 1e-12);
    let refused = spending.reserve(&day(0.506), "s", 0.0, bound(&price, 1024));
    assert!(
        matches!(refused, Err(ReserveError::Refused(_))),
        "{refused:?}"
    );
    let _fits = spending
        .reserve(&day(0.509), "s", 0.0, bound(&price, 1024))
        .unwrap();
}

#[test]
fn requests_outside_of_sessions_share_only_day_and_month() {
    let state = tempfile::tempdir().unwrap();
    let price = price();
    let spending = Spending::new(state.path());
    let session = [None, Some(0.005), None, None];
    for _ in 0..5 {
        let reserved = spending
            .reserve(&session, "", 0.0, bound(&price, 1024))
            .unwrap();
        spending.settle(reserved, 0.003);
    }
    let reserved = spending
        .reserve(&session, "s", 0.0, bound(&price, 1024))
        .unwrap();
    spending.settle(reserved, 0.003);
    let refused = spending.reserve(&session, "s", 0.0, bound(&price, 1024));
    assert!(
        matches!(refused, Err(ReserveError::Refused(_))),
        "{refused:?}"
    );
    let refused = spending.reserve(&day(0.02), "", 0.0, bound(&price, 1024));
    assert!(
        matches!(refused, Err(ReserveError::Refused(_))),
        "{refused:?}"
    );
}

#[test]
fn a_long_file_is_replaced_by_its_sums() {
    let state = tempfile::tempdir().unwrap();
    let path = state.path().join(FILE);
    let today = Local::now().date_naive();
    let line = format!("{{\"day\":\"{today}\",\"session\":\"s\",\"usd\":0.25}}\n");
    let old = "{\"day\":\"2020-01-01\",\"session\":\"s\",\"usd\":9}\nnot JSON\n";
    let text = line.repeat(30_000) + old + "{\"cut";
    fs::write(&path, &text).unwrap();
    assert_eq!(Spending::new(state.path()).session("s"), 7500.0);
    assert!(fs::metadata(&path).unwrap().len() < 200);
    assert_eq!(Spending::new(state.path()).session("s"), 7500.0);
}

/// A file that cannot be replaced at the start is read once: its lines were added again at each request.
#[test]
fn a_long_file_that_cannot_be_replaced_counts_once() {
    let top = tempfile::tempdir().unwrap();
    // The path has no room for the longer one of a temporary file.
    let mut state = top.path().to_owned();
    while state.as_os_str().len() < 4060 {
        let room = 4068 - state.as_os_str().len();
        state.push("d".repeat(room.min(200)));
    }
    fs::create_dir_all(&state).unwrap();
    let path = state.join(FILE);
    let today = Local::now().date_naive();
    let line = format!("{{\"day\":\"{today}\",\"session\":\"s\",\"usd\":0.25}}\n");
    let text = line.repeat(30_000);
    fs::write(&path, &text).unwrap();
    let spending = Spending::new(&state);
    assert_eq!(spending.session("s"), 7500.0);
    assert_eq!(spending.session("s"), 7500.0);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn the_file_is_replaced_by_its_sums_while_the_daemon_runs() {
    let state = tempfile::tempdir().unwrap();
    let path = state.path().join(FILE);
    let today = Local::now().date_naive();
    let line = format!("{{\"day\":\"{today}\",\"session\":\"s\",\"usd\":0.25}}\n");
    let lines = MAX_BYTES as usize / line.len();
    fs::write(&path, line.repeat(lines)).unwrap();
    let spent = lines as f64 * 0.25;
    let price = price();
    let limits = day(spent + 1.0);
    let spending = Spending::new(state.path());
    let reserve = |session: &str| {
        let reserved = spending.reserve(&limits, session, 0.0, bound(&price, 1024));
        reserved.unwrap()
    };
    let length = || fs::metadata(&path).unwrap().len();
    let open = reserve("open");
    assert!(length() > MAX_BYTES);
    let settled = reserve("settled");
    assert!(length() < 1000);
    spending.settle(settled, 0.001);
    // Settles a reservation that was open when the file was replaced.
    spending.settle(open, 0.002);
    assert_eq!(spending.session("s"), spent);
    drop(spending);
    let spending = Spending::new(state.path());
    for (session, usd) in [("s", spent), ("open", 0.002), ("settled", 0.001)] {
        assert!((spending.session(session) - usd).abs() < 1e-9, "{session}");
    }
}

#[test]
fn a_line_that_was_written_in_part_is_cut_off() {
    let state = tempfile::tempdir().unwrap();
    let price = price();
    let spending = Spending::new(state.path());
    assert_eq!(spending.session("s"), 0.0);
    // The largest possible file, but for a few bytes, takes a part of a line, as a full disk does.
    let mut options = OpenOptions::new();
    let file = options
        .append(true)
        .create(true)
        .open(state.path().join("large"))
        .unwrap();
    let (mut possible, mut impossible) = (0, u64::MAX >> 1);
    while possible + 1 < impossible {
        let length = possible + (impossible - possible) / 2;
        match file.set_len(length) {
            Ok(()) => possible = length,
            Err(_) => impossible = length,
        }
    }
    let length = possible - 10;
    file.set_len(length).unwrap();
    {
        let mut ledger = lock(&spending.ledger);
        ledger.file = Some(file.try_clone().unwrap());
        ledger.compact_from = u64::MAX;
    }
    let reserved = spending.reserve(&day(1.0), "s", 0.0, bound(&price, 1024));
    assert!(
        matches!(reserved, Err(ReserveError::File(_))),
        "{reserved:?}"
    );
    assert_eq!(file.metadata().unwrap().len(), length);
    assert_eq!(spending.session("s"), 0.0);
}

#[test]
fn a_file_that_cannot_be_used_refuses_only_with_a_budget() {
    let state = tempfile::tempdir().unwrap();
    fs::create_dir(state.path().join(FILE)).unwrap();
    let spending = Spending::new(state.path());
    let price = price();
    let reserved = spending.reserve(&day(1.0), "s", 0.0, bound(&price, 1024));
    assert!(
        matches!(reserved, Err(ReserveError::File(_))),
        "{reserved:?}"
    );
    assert!(
        spending
            .reserve(&NONE, "s", 0.0, bound(&price, 1024))
            .is_ok()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("AISH_TEST_SCHEDULES").ok().and_then(|n| n.parse().ok()).unwrap_or(100)
    ))]

    /// Requests of several shells in any order, with daemons that are killed in between: what is settled never exceeds
    /// the limit, and nothing is reserved that does not fit.
    #[test]
    fn no_schedule_exceeds_the_limit(
        limit in 0.001..0.1f64,
        steps in proptest::collection::vec((0usize..8, 0u8..20, 0.0..1.0f64, 1u64..30_000), 1..60),
    ) {
        let state = tempfile::tempdir().unwrap();
        let price = price();
        let mut spending = Spending::new(state.path());
        let mut running: HashMap<usize, Reservation> = HashMap::new();
        // What the provider has charged, those of killed daemons at most included.
        let mut charged = 0.0;
        for (shell, action, part, answer) in steps {
            if action == 0 {
                charged += running.drain().map(|(_, r)| r.permit.reserved()).sum::<f64>();
                spending = Spending::new(state.path());
            } else if let Some(reservation) = running.remove(&shell) {
                let cost = reservation.permit.reserved() * part;
                charged += cost;
                spending.settle(reservation, cost);
            } else {
                let reserved: f64 = running.values().map(|r| r.permit.reserved()).sum();
                match spending.reserve(&day(limit), &shell.to_string(), 0.0, bound(&price, answer)) {
                    Ok(reservation) => {
                        prop_assert!(charged + reserved + reservation.permit.reserved() <= limit * (1.0 + 1e-12));
                        running.insert(shell, reservation);
                    }
                    Err(ReserveError::Refused(_)) => {
                        let least = 0.001 + answer.min(budget::MIN_ANSWER) as f64 * 2e-6;
                        prop_assert!(charged + reserved + least > limit * (1.0 - 1e-12));
                    }
                    Err(ReserveError::File(e)) => panic!("{e:?}"),
                }
            }
            prop_assert!(charged <= limit * (1.0 + 1e-12));
        }
    }
}

#[test]
fn nothing_is_appended_to_a_file_that_another_one_has_replaced() {
    let state = tempfile::tempdir().unwrap();
    let path = state.path().join(FILE);
    let price = price();
    let spending = Spending::new(state.path());
    assert_eq!(spending.session("s"), 0.0);
    let moved = state.path().join("moved");
    fs::rename(&path, &moved).unwrap();
    lock(&spending.ledger).is_replaced = true;
    let reserve = || spending.reserve(&day(1.0), "s", 0.0, bound(&price, 1024));
    assert!(matches!(reserve(), Err(ReserveError::File(_))));
    fs::write(&path, "").unwrap();
    let reserved = reserve().unwrap();
    spending.settle(reserved, 0.001);
    assert_eq!(fs::read(&moved).unwrap(), b"");
    drop(spending);
    assert!((Spending::new(state.path()).session("s") - 0.001).abs() < 1e-9);
}
