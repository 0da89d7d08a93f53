//! Chooses the line of each command among those with its text.

use std::collections::{BTreeMap, BTreeSet};

use super::Found;
use super::prompt::{Similarity, blanks};

/// Maximum number of lines that are considered for a command, the last ones.
const MAX_LINES: usize = 200;
/// Cost of an entered line that is not found, against the weights of prompts.
const MISSED: i64 = 15;
/// Cost of a row that shows an entered line after a prompt and is chosen for none. It is more than the weights of such prompts differ
/// (40, 38 and [`ALIKE`]), or a prompt that changes would make older runs of the same commands a better choice. Rows after a prompt of
/// weight 20 are unlike the current one and never unexplained.
const UNEXPLAINED: i64 = 15;
/// Weight of a prompt that is like the current one.
const ALIKE: i64 = 32;
/// Maximum number of unexplained rows that count between two lines: an output can show any number of them.
const MAX_UNEXPLAINED: usize = 3;

/// Score of the best choice for a command and all before it, and the command and the candidate that come next in it.
type Choice = (i64, Option<(usize, usize)>);

/// The prompts after which lines of known commands are looked for.
pub struct Prompts {
    /// Shapes unlike the prompt of the line that runs now, after which several known commands are: a prompt can show an exit code
    /// or the mode of the line editor by its sign.
    others: BTreeSet<String>,
}

impl Prompts {
    /// Finds the prompts on the screen.
    pub fn new(current: &Found<'_>, candidates: &[Vec<Found<'_>>]) -> Prompts {
        let mut commands: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        let end = blanks(current.prompt.text);
        for found in candidates.iter().flatten() {
            if blanks(found.prompt.text) == end
                && found.prompt.similarity(&current.prompt) == Similarity::Different
            {
                let shape = found.prompt.shape().to_owned();
                commands.entry(shape).or_default().insert(found.command);
            }
        }
        commands.retain(|_, commands| commands.len() > 1);
        Prompts {
            others: commands.into_keys().collect(),
        }
    }

    /// Returns how much a prompt speaks for a line; `None` for one that is none.
    fn weight(&self, current: &Found<'_>, found: &Found<'_>) -> Option<i64> {
        let prompt = &found.prompt;
        match prompt.similarity(&current.prompt) {
            Similarity::Same => Some(40),
            Similarity::SameShape => Some(38),
            _ if self.is_other(found, current) => Some(20),
            Similarity::Alike => Some(ALIKE),
            Similarity::Different => None,
        }
    }

    fn is_other(&self, found: &Found<'_>, current: &Found<'_>) -> bool {
        !self.others.is_empty()
            && blanks(found.prompt.text) == blanks(current.prompt.text)
            && (self.others).contains(found.prompt.shape())
    }

    /// Whether a line follows a prompt that is known to be one.
    pub fn has(&self, current: &Found<'_>, found: &Found<'_>) -> bool {
        self.weight(current, found)
            .is_some_and(|weight| weight != ALIKE)
    }
}

/// Whether a line follows a prompt like the current one. Another one may be the beginning of messages about commands.
pub fn follows_prompt(current: &Found<'_>, found: &Found<'_>) -> bool {
    found.prompt.similarity(&current.prompt) >= Similarity::Alike
}

/// Chooses for each entered line, newest first, the one on the screen that is its own: in order, with the best prompts, with as few
/// unexplained rows as possible, and as low as possible. A line too low is one that the command itself printed; what follows it is
/// still the command's output.
pub fn assign<'a>(
    current: &Found<'a>,
    prompts: &Prompts,
    candidates: Vec<Vec<Found<'a>>>,
) -> Vec<Option<Found<'a>>> {
    let weight = |found: &Found<'_>| prompts.weight(current, found);
    let is_likely =
        |found: &Found<'_>| found.echo.last_row < current.echo.first_row && weight(found).is_some();
    let candidates: Vec<Vec<Found<'a>>> = candidates
        .into_iter()
        .map(|mut lines| {
            lines.retain(is_likely);
            lines.drain(..lines.len().saturating_sub(MAX_LINES));
            lines
        })
        .collect();
    let rows: BTreeSet<usize> = (candidates.iter().flatten())
        .filter(|found| follows_prompt(current, found))
        .map(|found| found.echo.first_row)
        .collect();
    let rows: Vec<usize> = rows.into_iter().collect();
    let unexplained = |above: &Found<'_>, below: &Found<'_>| {
        let until = |end: usize| rows.partition_point(|row| *row < end);
        let count = until(below.echo.first_row).saturating_sub(until(above.echo.last_row + 1));
        cost(count.min(MAX_UNEXPLAINED), UNEXPLAINED)
    };
    // best[i][k]: the best choice for the lines from number i on, if the line of i is its candidate k.
    let mut best: Vec<Vec<Option<Choice>>> = vec![Vec::new(); candidates.len()];
    for (i, lines) in candidates.iter().enumerate().rev() {
        let choices = lines
            .iter()
            .map(|found| choice(weight(found)?, found, i, &candidates, &best, &unexplained))
            .collect();
        if let Some(slot) = best.get_mut(i) {
            *slot = choices;
        }
    }
    let mut start: Option<(i64, usize, usize)> = None;
    for (i, (scores, lines)) in best.iter().zip(&candidates).enumerate() {
        for (k, (score, found)) in scores.iter().zip(lines).enumerate() {
            let Some((score, _)) = score else {
                continue;
            };
            let total = score - cost(i, MISSED) - unexplained(found, current);
            let is_better = start.is_none_or(|(so_far, command, _)| {
                total > so_far || (total == so_far && command == i)
            });
            if is_better {
                start = Some((total, i, k));
            }
        }
    }
    let mut chosen: Vec<Option<usize>> = vec![None; candidates.len()];
    let mut at = start.map(|(_, i, k)| (i, k));
    while let Some((i, k)) = at {
        if let Some(slot) = chosen.get_mut(i) {
            *slot = Some(k);
        }
        let choice = best
            .get(i)
            .and_then(|scores| scores.get(k).copied().flatten());
        at = choice.and_then(|(_, next)| next);
    }
    let lists = candidates.into_iter().zip(chosen);
    lists
        .map(|(list, k)| k.and_then(|k| list.into_iter().nth(k)))
        .collect()
}

fn choice(
    own: i64,
    found: &Found<'_>,
    i: usize,
    candidates: &[Vec<Found<'_>>],
    best: &[Vec<Option<Choice>>],
    unexplained: &impl Fn(&Found<'_>, &Found<'_>) -> i64,
) -> Option<Choice> {
    let mut choice: Choice = (own, None);
    let older = candidates.iter().zip(best).enumerate().skip(i + 1);
    for (j, (lines, scores)) in older {
        let missed = cost(j - i - 1, MISSED);
        for (l, (other, score)) in lines.iter().zip(scores).enumerate() {
            let Some((score, _)) = score else {
                continue;
            };
            if other.echo.last_row >= found.echo.first_row {
                continue;
            }
            let total = own + score - missed - unexplained(other, found);
            // In doubt the lower line, which comes later in the list.
            if total >= choice.0 {
                choice = (total, Some((j, l)));
            }
        }
    }
    Some(choice)
}

fn cost(count: usize, each: i64) -> i64 {
    i64::try_from(count)
        .unwrap_or(i64::MAX / 100)
        .saturating_mul(each)
}
