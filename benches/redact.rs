//! Time of scanning a megabyte without secrets for secrets, which every prompt needs.
//!
//! `cargo bench --bench redact`

use std::hint::black_box;
use std::time::{Duration, Instant};

use aish::safety::redact::Redactor;

const MEGABYTE: usize = 1 << 20;

fn best(mut work: impl FnMut()) -> Duration {
    let once = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..30).map(once).min().unwrap_or_default()
}

fn main() {
    let start = Instant::now();
    Redactor::prebuild();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!("rules built in {:.2} ms", ms(start.elapsed()));
    let formats = Redactor::default();
    let values = Redactor::default();
    for n in 0..10 {
        values.add_secret("key", &format!("value-{n}-of-some-length-that-is-known"));
    }
    println!(
        "{:<8}{:>16}{:>24}",
        "ms/MB", "formats alone", "and 10 known values"
    );
    for (name, text) in [
        ("prose", include_str!("../ARCHITECTURE.md")),
        ("code", include_str!("../src/history/journal.rs")),
        ("lock", include_str!("../Cargo.lock")),
    ] {
        let text = text.repeat(MEGABYTE / text.len() + 1);
        let per = text.len() as f64 / MEGABYTE as f64;
        let of = |redactor: &Redactor| {
            ms(best(|| {
                black_box(redactor.find(black_box(&text)));
            })) / per
        };
        println!("{name:<8}{:>16.2}{:>24.2}", of(&formats), of(&values));
    }
}
