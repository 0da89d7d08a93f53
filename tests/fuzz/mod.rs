//! Fuzz targets: functions that take arbitrary bytes and assert what must hold for every input. The test suite runs each
//! with its corpus and a few thousand mutations; `cargo bench --bench fuzz` runs millions.

mod json;
pub mod mutator;
mod targets;

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use mutator::Mutator;

/// A fuzz target.
pub struct Target {
    /// Name, which is also the directory of its corpus.
    pub name: &'static str,
    /// Panics if an invariant does not hold. Returns whether the input passed the outermost check, such as the syntax of
    /// a file; the mutator prefers such inputs.
    pub run: fn(&[u8]) -> bool,
    /// What is mutated.
    pub shape: Shape,
    /// Size of most inputs, in bytes. One in a thousand is up to 32 times as long.
    pub usual_size: usize,
    /// Pieces that inputs consist of.
    pub tokens: &'static [&'static str],
}

/// What the mutator changes.
#[derive(Clone, Copy, PartialEq)]
pub enum Shape {
    Bytes,
    /// JSON values, and for a quarter of the inputs the bytes of their text.
    Json,
}

/// All targets.
pub const TARGETS: [Target; 9] = [
    targets::socket::TARGET,
    targets::fifo::TARGET,
    targets::config::TARGET,
    targets::sse::TARGET,
    targets::mcp::TARGET,
    targets::redact::TARGET,
    targets::sink::TARGET,
    targets::command::TARGET,
    targets::assessment::TARGET,
];

impl Target {
    /// Returns the inputs in `tests/fixtures/fuzz/NAME`, sorted by path.
    pub fn corpus(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/fuzz");
        let files = std::fs::read_dir(dir.join(self.name)).expect("a corpus");
        let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        paths.sort();
        let read = |path: PathBuf| {
            let bytes = std::fs::read(&path).unwrap();
            (path, bytes)
        };
        paths.into_iter().map(read).collect()
    }

    /// Returns a mutator of the corpus.
    pub fn mutator(&self, seed: u64) -> Mutator {
        let corpus = self.corpus().into_iter().map(|(_, bytes)| bytes);
        Mutator::new(seed, corpus.collect(), self)
    }

    /// Runs one input. Returns `None` if the target panics.
    pub fn try_run(&self, input: &[u8]) -> Option<bool> {
        catch_unwind(|| (self.run)(input)).ok()
    }

    /// Removes parts of an input that makes the target panic, as long as it still does.
    pub fn shrink(&self, mut input: Vec<u8>) -> Vec<u8> {
        std::panic::set_hook(Box::new(|_| {}));
        let mut size = input.len() / 2;
        while size > 0 {
            let mut at = 0;
            while at < input.len() {
                let mut less = input.clone();
                less.drain(at..(at + size).min(less.len()));
                if self.try_run(&less).is_none() {
                    input = less;
                } else {
                    at += size;
                }
            }
            size /= 2;
        }
        let _ = std::panic::take_hook();
        input
    }
}
