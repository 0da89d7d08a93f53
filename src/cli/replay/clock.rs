//! The clock of a replay: which time of the recording is shown when.

use std::time::{Duration, Instant};

/// Speeds that the keys choose from.
const SPEEDS: [f64; 11] = [0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 4.0, 8.0, 16.0, 50.0, 100.0];

/// Maps the time of the person to the time of the recording.
#[derive(Debug)]
pub struct ReplayClock {
    /// The recording was at `us` at this time.
    since: Instant,
    us: u64,
    /// How many times as fast.
    pub speed: f64,
    /// Whether the clock is paused.
    is_paused: bool,
    /// Longest pause between two events, in microseconds of the recording.
    idle_us: Option<u64>,
}

impl ReplayClock {
    /// A clock that runs from the start of the recording.
    pub fn new(speed: f64, idle: Duration) -> ReplayClock {
        ReplayClock {
            since: Instant::now(),
            us: 0,
            speed,
            is_paused: false,
            idle_us: Some(micros(idle)).filter(|us| *us > 0),
        }
    }

    /// Returns the time of the recording now.
    pub fn us(&self, now: Instant) -> u64 {
        match self.is_paused {
            true => self.us,
            false => {
                let passed = now.saturating_duration_since(self.since);
                // Saturates, as conversions of floating point numbers do.
                self.us
                    .saturating_add((passed.as_micros() as f64 * self.speed) as u64)
            }
        }
    }

    /// Sets the time of the recording.
    pub fn set(&mut self, us: u64, now: Instant) {
        (self.us, self.since) = (us, now);
    }

    /// Returns whether the clock is paused.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Stops the clock, or lets it run.
    pub fn pause(&mut self, is_paused: bool, now: Instant) {
        self.set(self.us(now), now);
        self.is_paused = is_paused;
    }

    /// Chooses the next higher or lower speed.
    pub fn change_speed(&mut self, is_faster: bool, now: Instant) {
        self.set(self.us(now), now);
        let chosen = match is_faster {
            true => SPEEDS.iter().find(|speed| **speed > self.speed),
            false => SPEEDS.iter().rev().find(|speed| **speed < self.speed),
        };
        self.speed = chosen.copied().unwrap_or(self.speed);
    }

    /// Returns when the event at `next` is due, if nothing has happened since `last`. A longer pause than allowed is cut by
    /// setting the clock forward when it has lasted long enough.
    pub fn due(&mut self, last: u64, next: u64, now: Instant) -> Duration {
        let us = self.us(now);
        let end = match self.idle_us {
            Some(idle) => next.min(last.saturating_add(idle)),
            None => next,
        };
        if us >= end {
            if us < next {
                self.set(next, now);
            }
            return Duration::ZERO;
        }
        Duration::from_secs_f64((end - us) as f64 / 1e6 / self.speed.max(0.01))
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_pauses_are_cut_and_short_ones_kept() {
        let mut clock = ReplayClock::new(2.0, Duration::from_secs(2));
        let start = Instant::now();
        clock.set(0, start);
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(clock.due(0, 1_000_000, start), Duration::from_millis(500));
        assert_eq!(clock.due(0, 1_000_000, at(500)), Duration::ZERO);
        // Ten seconds become two, at twice the speed one.
        assert_eq!(
            clock.due(1_000_000, 11_000_000, at(500)),
            Duration::from_secs(1)
        );
        assert_eq!(clock.due(1_000_000, 11_000_000, at(1500)), Duration::ZERO);
        assert_eq!(clock.us(at(1500)), 11_000_000);
        assert_eq!(clock.us(at(2000)), 12_000_000);
        let mut clock = ReplayClock::new(1.0, Duration::ZERO);
        clock.set(0, start);
        assert_eq!(clock.due(0, 60_000_000, start), Duration::from_secs(60));
    }

    #[test]
    fn a_paused_clock_stands() {
        let mut clock = ReplayClock::new(1.0, Duration::from_secs(2));
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        clock.set(5, start);
        clock.pause(true, at(10));
        assert_eq!(clock.us(at(5000)), 10_005);
        clock.pause(false, at(6000));
        clock.change_speed(true, at(6000));
        assert_eq!(clock.speed, 1.5);
        assert_eq!(clock.us(at(6002)), 13_005);
        for _ in 0..20 {
            clock.change_speed(false, at(6002));
        }
        assert_eq!(clock.speed, 0.1);
    }
}
