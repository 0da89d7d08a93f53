//! Decides whether and when a refused request is repeated. Pure.

use std::fmt;
use std::time::{Duration, SystemTime};

/// Maximum number of repetitions of one request.
pub const MAX_RETRIES: u32 = 3;

/// Longest wait before a repetition while a person waits at the prompt.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The value of a `Retry-After` header.
#[derive(Debug, Clone, PartialEq)]
pub enum RetryAfter {
    /// No such header.
    Absent,
    /// The time to wait.
    Wait(Duration),
    /// Neither a number of seconds nor a date.
    Unreadable,
}

/// Reads a `Retry-After` value: seconds or an HTTP date; a date in the past means now.
pub fn retry_after(value: Option<&str>, now: SystemTime) -> RetryAfter {
    let Some(value) = value.map(str::trim) else {
        return RetryAfter::Absent;
    };
    if let Ok(seconds) = value.parse::<f64>() {
        return match Duration::try_from_secs_f64(seconds) {
            Ok(wait) => RetryAfter::Wait(wait),
            // A number too large for any clock is a long wait.
            Err(_) if seconds > 0.0 && seconds.is_finite() => RetryAfter::Wait(Duration::MAX),
            Err(_) => RetryAfter::Unreadable,
        };
    }
    match httpdate::parse_http_date(value) {
        Ok(date) => RetryAfter::Wait(date.duration_since(now).unwrap_or_default()),
        Err(_) => RetryAfter::Unreadable,
    }
}

/// Reads the time to wait from the body of an error: Google sends `"retryDelay": "48s"`.
pub fn retry_delay(body: &str) -> RetryAfter {
    let value = body.split_once("\"retryDelay\"").map(|(_, after)| after);
    let value = value.and_then(|after| after.split('"').nth(1));
    let seconds = value.and_then(|value| value.strip_suffix('s')?.parse::<f64>().ok());
    let wait = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    wait.map_or(RetryAfter::Absent, RetryAfter::Wait)
}

/// Reaction to a rejected request.
#[derive(Debug, PartialEq)]
pub enum RetryDecision {
    /// Repeat the request after this time.
    Wait(Duration),
    /// Report the refusal.
    GiveUp(GiveUpReason),
}

/// Why a refused request is not repeated. Displayed after the status, if there is a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GiveUpReason {
    /// The same request would be refused again.
    Permanent,
    /// The server sent a `Retry-After` that cannot be read.
    UnreadableWait,
    /// The server requests a longer delay than a user would wait.
    LongWait(Duration),
    /// The request was refused this many times in a row.
    TooManyAttempts(u32),
}

impl fmt::Display for GiveUpReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GiveUpReason::Permanent => Ok(()),
            GiveUpReason::UnreadableWait => {
                f.write_str(" and sent a Retry-After that cannot be read")
            }
            GiveUpReason::LongWait(wait) => write!(f, " and asks to wait {}", readable(*wait)),
            GiveUpReason::TooManyAttempts(attempts) => write!(f, " {attempts} times in a row"),
        }
    }
}

/// Decides about a refusal with `status` after `done` repetitions. `first_pause` doubles with each repetition;
/// `jitter`, from 0 to 1, keeps many clients from returning at the same moment.
pub fn decide(
    status: u16,
    after: &RetryAfter,
    done: u32,
    first_pause: Duration,
    jitter: f64,
) -> RetryDecision {
    if !matches!(status, 408 | 429 | 500 | 502 | 503 | 504 | 529) {
        return RetryDecision::GiveUp(GiveUpReason::Permanent);
    }
    let pause = first_pause
        .saturating_mul(1 << done.min(8))
        .mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 2.0);
    match after {
        RetryAfter::Unreadable => RetryDecision::GiveUp(GiveUpReason::UnreadableWait),
        RetryAfter::Wait(wait) if *wait > MAX_WAIT => {
            RetryDecision::GiveUp(GiveUpReason::LongWait(*wait))
        }
        _ if done >= MAX_RETRIES => RetryDecision::GiveUp(GiveUpReason::TooManyAttempts(done + 1)),
        RetryAfter::Wait(wait) => RetryDecision::Wait((*wait).max(pause)),
        RetryAfter::Absent => RetryDecision::Wait(pause),
    }
}

/// Formats a duration in its largest fitting unit.
pub fn readable(duration: Duration) -> String {
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
    fn a_delay_is_found_in_the_body() {
        let body = r#"{"error":{"details":[{"@type":"x.RetryInfo","retryDelay":"48s"}]}}"#;
        assert_eq!(retry_delay(body), wait(48));
        let half = Duration::from_millis(500);
        assert_eq!(
            retry_delay(r#""retryDelay" : "0.5s""#),
            RetryAfter::Wait(half)
        );
        for body in [
            "",
            "\"retryDelay\"",
            "\"retryDelay\":\"s\"",
            "\"retryDelay\":\"-1s\"",
            "\"retryDelay\":48",
        ] {
            assert_eq!(retry_delay(body), RetryAfter::Absent, "{body}");
        }
    }

    #[test]
    fn retry_after_reads_seconds_and_dates() {
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
            ("-1", RetryAfter::Unreadable),
            ("NaN", RetryAfter::Unreadable),
            ("inf", RetryAfter::Unreadable),
            ("", RetryAfter::Unreadable),
            ("soon", RetryAfter::Unreadable),
            ("Fri, 31 Feb 2028 25:61:00 GMT", RetryAfter::Unreadable),
        ];
        for (text, expected) in cases {
            assert_eq!(retry_after(Some(text), now()), expected, "{text:?}");
        }
        assert_eq!(retry_after(Some(&date(9)), now()), wait(9));
        assert_eq!(retry_after(Some(&date(-9)), now()), wait(0));
        assert_eq!(retry_after(None, now()), RetryAfter::Absent);
    }

    #[test]
    fn pauses_double_and_attempts_end() {
        let pause = |done| decide(503, &RetryAfter::Absent, done, FIRST, 0.0);
        assert_eq!(pause(0), RetryDecision::Wait(FIRST));
        assert_eq!(pause(2), RetryDecision::Wait(FIRST * 4));
        assert_eq!(
            pause(3),
            RetryDecision::GiveUp(GiveUpReason::TooManyAttempts(4))
        );
        let jittered = decide(503, &RetryAfter::Absent, 0, FIRST, 1.0);
        assert_eq!(jittered, RetryDecision::Wait(FIRST / 2));
    }

    #[test]
    fn a_wait_up_to_the_limit_is_respected() {
        let after = |a| decide(429, &a, 0, FIRST, 0.0);
        assert_eq!(after(wait(0)), RetryDecision::Wait(FIRST));
        assert_eq!(after(wait(30)), RetryDecision::Wait(MAX_WAIT));
        for unusable in [wait(31), wait(u64::MAX), RetryAfter::Unreadable] {
            assert!(matches!(
                after(unusable),
                RetryDecision::GiveUp(GiveUpReason::LongWait(_) | GiveUpReason::UnreadableWait)
            ));
        }
    }

    #[test]
    fn a_wrong_request_is_not_repeated() {
        for status in [400, 401, 403, 404, 422, 301, 501] {
            assert_eq!(
                decide(status, &wait(1), 0, FIRST, 0.0),
                RetryDecision::GiveUp(GiveUpReason::Permanent),
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
            assert_eq!(readable(Duration::from_millis(ms)), text);
        }
    }
}
