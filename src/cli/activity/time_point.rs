//! Parses points in time: dates, times and spans before now.

use chrono::{DateTime, Days, Duration, NaiveDate, NaiveDateTime, TimeZone};

use crate::error::{Error, Result};

/// Parses a date, a time or a span before `now` to milliseconds since 1970. A date as the `end` of a range includes
/// that day.
///
/// # Errors
/// The text has none of these forms.
pub fn parse<Z: TimeZone>(text: &str, now: &DateTime<Z>, end: bool) -> Result<u64> {
    let text = text.trim();
    let zone = now.timezone();
    let ms = parse_span(text)
        .and_then(|ms| now.timestamp_millis().checked_sub(ms))
        .or_else(|| {
            let exact = DateTime::parse_from_rfc3339(text).ok()?;
            Some(exact.timestamp_millis())
        })
        .or_else(|| {
            let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
            let day = match end {
                true => day.checked_add_days(Days::new(1))?,
                false => day,
            };
            in_zone(day.and_hms_opt(0, 0, 0)?, &zone)
        })
        .or_else(|| {
            let formats = [
                "%Y-%m-%dT%H:%M",
                "%Y-%m-%dT%H:%M:%S",
                "%Y-%m-%d %H:%M",
                "%Y-%m-%d %H:%M:%S",
            ];
            let parsed = |f: &&str| NaiveDateTime::parse_from_str(text, f).ok();
            in_zone(formats.iter().find_map(parsed)?, &zone)
        });
    match ms {
        Some(ms) => Ok(u64::try_from(ms).unwrap_or(0)),
        None => Err(Error::usage(format!("'{text}' is not a date or time span")).hint(
            "write a date (2026-11-01), a time (2026-11-01T12:30, or with a zone 2026-11-01T12:30:00Z), \
             or a span before now (30m, 2h, 7d, 4w)",
        )),
    }
}

/// Converts local time to milliseconds; a time skipped by a clock change counts as one hour later.
fn in_zone<Z: TimeZone>(at: NaiveDateTime, zone: &Z) -> Option<i64> {
    let later = at.checked_add_signed(Duration::hours(1));
    let found = zone.from_local_datetime(&at).earliest();
    let found = found.or_else(|| zone.from_local_datetime(&later?).earliest());
    Some(found?.timestamp_millis())
}

/// Parses `90s`, `30m`, `2h`, `7d` or `4w` to milliseconds.
fn parse_span(text: &str) -> Option<i64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return None,
    };
    if !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    number.parse::<i64>().ok()?.checked_mul(seconds * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::FixedOffset;

    #[test]
    fn times_are_parsed_in_the_local_zone() {
        let zone = FixedOffset::east_opt(2 * 3600).unwrap();
        let now = zone.with_ymd_and_hms(2026, 11, 22, 12, 0, 0).unwrap();
        let at = |text: &str| {
            DateTime::parse_from_rfc3339(text)
                .unwrap()
                .timestamp_millis()
        };
        for (text, end, wanted) in [
            ("2026-11-01", false, "2026-11-01T00:00:00+02:00"),
            ("2026-11-01", true, "2026-11-02T00:00:00+02:00"),
            ("2026-11-01T12:30", true, "2026-11-01T12:30:00+02:00"),
            ("2026-11-01 12:30:05", false, "2026-11-01T12:30:05+02:00"),
            ("2026-11-01T12:30:00Z", false, "2026-11-01T12:30:00Z"),
            (
                "2026-11-01T12:30:00-05:00",
                false,
                "2026-11-01T12:30:00-05:00",
            ),
            ("2h", false, "2026-11-22T10:00:00+02:00"),
            ("7d", true, "2026-11-15T12:00:00+02:00"),
            (" 90s ", false, "2026-11-22T11:58:30+02:00"),
            ("1w", false, "2026-11-15T12:00:00+02:00"),
        ] {
            let ms = parse(text, &now, end).unwrap();
            assert_eq!(i64::try_from(ms).unwrap(), at(wanted), "{text}");
        }
        for text in [
            "",
            "h",
            "2y",
            "-2h",
            "yesterday",
            "2026-13-01",
            "2026-02-30",
            "99999999999999999d",
            "２h",
            "é",
        ] {
            let e = parse(text, &now, false).unwrap_err();
            assert!(e.hint.unwrap().contains("7d"), "{text}");
        }
        // Times before 1970 count as 1970.
        assert_eq!(parse("99999w", &now, false).unwrap(), 0);
    }
}
