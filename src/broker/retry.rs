//! Whether a refused request is worth another try, and when. Pure.

use std::time::{Duration, SystemTime};

/// How many times a request is repeated.
pub const RETRIES: u32 = 3;

/// The longest wait that a person at a prompt is asked for.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// What `Retry-After` says.
#[derive(Debug, Clone, PartialEq)]
pub enum RetryAfter {
    /// Nothing.
    Absent,
    /// To wait this long.
    Wait(Duration),
    /// Something that is neither a number of seconds nor a date.
    Nonsense,
}

/// Reads a `Retry-After` value: seconds or an HTTP date; a date in the past means now.
pub fn retry_after(value: Option<&str>, now: SystemTime) -> RetryAfter {
    let Some(value) = value.map(str::trim) else {
        return RetryAfter::Absent;
    };
    if let Ok(seconds) = value.parse::<f64>() {
        return match Duration::try_from_secs_f64(seconds) {
            Ok(wait) => RetryAfter::Wait(wait),
            // A number too large for any clock is a long wait, not nonsense.
            Err(_) if seconds > 0.0 && seconds.is_finite() => RetryAfter::Wait(Duration::MAX),
            Err(_) => RetryAfter::Nonsense,
        };
    }
    match httpdate::parse_http_date(value) {
        Ok(date) => RetryAfter::Wait(date.duration_since(now).unwrap_or_default()),
        Err(_) => RetryAfter::Nonsense,
    }
}

/// What to do about a refused request.
#[derive(Debug, PartialEq)]
pub enum Plan {
    /// Ask again after this long.
    Wait(Duration),
    /// Report it, with what the server said about waiting.
    GiveUp(Option<String>),
}

/// Decides about a refusal with `status` after `done` repetitions. `first` is the first pause;
/// it doubles each time. `jitter`, from 0 to 1, keeps many clients from returning in step.
pub fn plan(status: u16, after: &RetryAfter, done: u32, first: Duration, jitter: f64) -> Plan {
    if !matches!(status, 408 | 429 | 500 | 502 | 503 | 504 | 529) {
        return Plan::GiveUp(None);
    }
    let pause = first
        .saturating_mul(1 << done.min(8))
        .mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 2.0);
    match after {
        RetryAfter::Nonsense => Plan::GiveUp(Some(
            "and what it says about when to try again makes no sense".to_owned(),
        )),
        RetryAfter::Wait(wait) if *wait > MAX_WAIT => {
            Plan::GiveUp(Some(format!("and asks to wait {}", spoken(*wait))))
        }
        _ if done >= RETRIES => Plan::GiveUp(Some(format!("{} times in a row", done + 1))),
        RetryAfter::Wait(wait) => Plan::Wait((*wait).max(pause)),
        RetryAfter::Absent => Plan::Wait(pause),
    }
}

/// A duration as one would say it.
pub fn spoken(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..=9 if duration.subsec_millis() >= 50 => format!("{:.1} s", duration.as_secs_f64()),
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} minutes", seconds / 60),
        7_200..=172_799 => format!("{} hours", seconds / 3_600),
        172_800..=63_071_999 => format!("{} days", seconds / 86_400),
        _ => "more than a year".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_millis(500);

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    fn wait(seconds: u64) -> RetryAfter {
        RetryAfter::Wait(Duration::from_secs(seconds))
    }

    #[test]
    fn seconds_dates_and_nonsense() {
        let date = |s: i64| {
            let at = 1_800_000_000_i64 + s;
            httpdate::fmt_http_date(
                SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(at).unwrap()),
            )
        };
        let cases = [
            ("0", wait(0)),
            (" 7 ", wait(7)),
            ("1.5", RetryAfter::Wait(Duration::from_millis(1500))),
            ("99999999999", wait(99_999_999_999)),
            ("1e300", RetryAfter::Wait(Duration::MAX)),
            ("-1", RetryAfter::Nonsense),
            ("NaN", RetryAfter::Nonsense),
            ("inf", RetryAfter::Nonsense),
            ("", RetryAfter::Nonsense),
            ("soon", RetryAfter::Nonsense),
            ("Fri, 31 Feb 2028 25:61:00 GMT", RetryAfter::Nonsense),
        ];
        for (text, expected) in cases {
            assert_eq!(retry_after(Some(text), now()), expected, "{text:?}");
        }
        assert_eq!(retry_after(Some(&date(9)), now()), wait(9));
        assert_eq!(retry_after(Some(&date(-9)), now()), wait(0));
        assert_eq!(retry_after(None, now()), RetryAfter::Absent);
    }

    #[test]
    fn pauses_double_and_end() {
        let pause = |done| plan(503, &RetryAfter::Absent, done, FIRST, 0.0);
        assert_eq!(pause(0), Plan::Wait(FIRST));
        assert_eq!(pause(2), Plan::Wait(FIRST * 4));
        assert_eq!(pause(3), Plan::GiveUp(Some("4 times in a row".to_owned())));
        let jittered = plan(503, &RetryAfter::Absent, 0, FIRST, 1.0);
        assert_eq!(jittered, Plan::Wait(FIRST / 2));
    }

    #[test]
    fn what_the_server_asks_for_is_waited_for_within_reason() {
        let after = |a| plan(429, &a, 0, FIRST, 0.0);
        assert_eq!(after(wait(0)), Plan::Wait(FIRST));
        assert_eq!(after(wait(30)), Plan::Wait(MAX_WAIT));
        for absurd in [wait(31), wait(u64::MAX), RetryAfter::Nonsense] {
            assert!(matches!(after(absurd), Plan::GiveUp(Some(_))));
        }
    }

    #[test]
    fn a_request_that_is_wrong_is_not_repeated() {
        for status in [400, 401, 403, 404, 422, 301, 501] {
            assert_eq!(
                plan(status, &wait(1), 0, FIRST, 0.0),
                Plan::GiveUp(None),
                "{status}"
            );
        }
    }

    #[test]
    fn durations_are_readable() {
        for (ms, text) in [
            (400, "0.4 s"),
            (2_000, "2 s"),
            (30_000, "30 s"),
            (600_000, "10 minutes"),
            (u64::MAX, "more than a year"),
        ] {
            assert_eq!(spoken(Duration::from_millis(ms)), text);
        }
    }
}
