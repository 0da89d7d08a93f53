//! Chooses the line of each command among those with its text.

use super::Found;
use super::prompt::Similarity;

/// Maximum number of lines that are considered for a command, the last ones.
const MAX_LINES: usize = 200;
/// What a command costs whose line is not found, against the weights of prompts.
const MISSED: i64 = 15;

/// Score of the best choice for a command and all before it, and the command and the candidate that come next in it.
type Choice = (i64, Option<(usize, usize)>);

/// Chooses for each command, newest first, the line that is its own: in order, with the best prompts, and as low as possible.
/// A line too low is one that the command itself printed; what follows it is still the command's output.
pub fn assign<'a>(current: &Found<'a>, candidates: Vec<Vec<Found<'a>>>) -> Vec<Option<Found<'a>>> {
    let is_likely = |found: &Found<'_>| {
        found.echo.last_row < current.echo.first_row && weight(current, found).is_some()
    };
    let candidates: Vec<Vec<Found<'a>>> = candidates
        .into_iter()
        .map(|mut lines| {
            lines.retain(is_likely);
            lines.drain(..lines.len().saturating_sub(MAX_LINES));
            lines
        })
        .collect();
    // best[i][k]: the best choice for the commands from number i on, if the line of i is its candidate k.
    let mut best: Vec<Vec<Option<Choice>>> = vec![Vec::new(); candidates.len()];
    for (i, lines) in candidates.iter().enumerate().rev() {
        let choices = lines
            .iter()
            .map(|found| choice(current, found, i, &candidates, &best))
            .collect();
        if let Some(slot) = best.get_mut(i) {
            *slot = choices;
        }
    }
    let mut start: Option<(i64, usize, usize)> = None;
    for (i, scores) in best.iter().enumerate() {
        for (k, score) in scores.iter().enumerate() {
            let Some((score, _)) = score else {
                continue;
            };
            let total = score - missed(i);
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
    current: &Found<'_>,
    found: &Found<'_>,
    i: usize,
    candidates: &[Vec<Found<'_>>],
    best: &[Vec<Option<Choice>>],
) -> Option<Choice> {
    let own = weight(current, found)?;
    let mut choice: Choice = (own, None);
    let older = candidates.iter().zip(best).enumerate().skip(i + 1);
    for (j, (lines, scores)) in older {
        let cost = missed(j - i - 1);
        for (l, (other, score)) in lines.iter().zip(scores).enumerate() {
            let Some((score, _)) = score else {
                continue;
            };
            let total = own + score - cost;
            // In doubt the lower line, which stands later in the list.
            if other.echo.last_row < found.echo.first_row && total >= choice.0 {
                choice = (total, Some((j, l)));
            }
        }
    }
    Some(choice)
}

/// Returns how much a prompt speaks for a line.
fn weight(current: &Found<'_>, found: &Found<'_>) -> Option<i64> {
    match found.prompt.similarity(&current.prompt) {
        Similarity::Same => Some(40),
        Similarity::SameShape => Some(30),
        Similarity::Alike => Some(10),
        Similarity::Different => None,
    }
}

/// Returns the cost of commands whose lines are not found.
fn missed(count: usize) -> i64 {
    i64::try_from(count)
        .unwrap_or(i64::MAX / 100)
        .saturating_mul(MISSED)
}
