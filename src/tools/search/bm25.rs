//! Okapi BM25 over an inverted index that is held in memory. Pure.
//!
//! The parameters and the inverse document frequency are those of Lucene: `k1` = 1.2, `b` = 0.75,
//! `idf` = ln(1 + (N - n + 0.5) / (n + 0.5)) for N documents, n of which contain the term.

use std::collections::HashMap;

/// How quickly repetitions of a term stop counting.
const K1: f32 = 1.2;
/// How much long documents are penalised.
const B: f32 = 0.75;

/// One document that contains a term.
#[derive(Debug, Clone, Copy)]
struct Posting {
    document: u32,
    /// The number of occurrences until [`Bm25Index::new`] has read all documents, then the saturated weight.
    weight: f32,
}

/// An inverted index: for each term, the documents that contain it.
#[derive(Debug, Default)]
pub struct Bm25Index {
    postings: HashMap<String, Vec<Posting>>,
    documents: usize,
}

impl Bm25Index {
    /// Indexes documents, each given as its terms. A document's number is its position.
    pub fn new(documents: impl IntoIterator<Item = Vec<String>>) -> Bm25Index {
        let mut postings: HashMap<String, Vec<Posting>> = HashMap::new();
        let mut lengths: Vec<f32> = Vec::new();
        for (document, terms) in (0_u32..).zip(documents) {
            lengths.push(terms.len() as f32);
            for term in terms {
                let list = postings.entry(term).or_default();
                match list.last_mut() {
                    Some(last) if last.document == document => last.weight += 1.0,
                    _ => list.push(Posting {
                        document,
                        weight: 1.0,
                    }),
                }
            }
        }
        let average = lengths.iter().sum::<f32>() / lengths.len().max(1) as f32;
        for list in postings.values_mut() {
            list.shrink_to_fit();
            for posting in list {
                let length = lengths
                    .get(posting.document as usize)
                    .map_or(1.0, |length| length / average);
                let count = posting.weight;
                posting.weight = count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length));
            }
        }
        Bm25Index {
            postings,
            documents: lengths.len(),
        }
    }

    /// Returns the documents that contain a query term as `(document, score)`, best first, at most `limit`.
    /// A term that occurs twice in the query counts twice. Equal scores keep the order of the documents.
    pub fn search(&self, query: &[String], limit: usize) -> Vec<(usize, f32)> {
        // One slot per document: cheaper than a map once a term is common, and a common term is what costs.
        let mut scores = vec![0.0_f32; self.documents];
        for term in query {
            let Some(list) = self.postings.get(term) else {
                continue;
            };
            let containing = list.len() as f32;
            let others = self.documents as f32 - containing;
            let idf = libm::logf(1.0 + (others + 0.5) / (containing + 0.5));
            for posting in list {
                if let Some(score) = scores.get_mut(posting.document as usize) {
                    *score += idf * posting.weight;
                }
            }
        }
        // Every inverse document frequency is positive, so a score of zero means no common term.
        let mut hits: Vec<(usize, f32)> = scores
            .into_iter()
            .enumerate()
            .filter(|(_, score)| *score > 0.0)
            .collect();
        let order = |a: &(usize, f32), b: &(usize, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if (1..hits.len()).contains(&limit) {
            hits.select_nth_unstable_by(limit - 1, order);
        }
        hits.truncate(limit);
        hits.sort_unstable_by(order);
        hits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn search(documents: &[&str], query: &str, limit: usize) -> Vec<(usize, f32)> {
        let index = Bm25Index::new(documents.iter().map(|text| terms(text)));
        index.search(&terms(query), limit)
    }

    #[test]
    fn scores_follow_the_formula() {
        let hits = search(&["cat cat dog", "dog", "bird fish"], "cat dog", 5);
        // N = 3, average length 2. Document 0: cat (n = 1, count 2) and dog (n = 2, count 1).
        let weight =
            |count: f32, length: f32| count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / 2.0));
        let idf = |containing: f32| (1.0 + (3.5 - containing) / (containing + 0.5)).ln();
        let both = idf(1.0) * weight(2.0, 3.0) + idf(2.0) * weight(1.0, 3.0);
        let dog = idf(2.0) * weight(1.0, 1.0);
        let near = |a: f32, b: f32| (a - b).abs() < 1e-5;
        assert_eq!(hits.len(), 2, "{hits:?}");
        assert!(hits[0].0 == 0 && near(hits[0].1, both), "{hits:?} {both}");
        assert!(hits[1].0 == 1 && near(hits[1].1, dog), "{hits:?} {dog}");
    }

    #[test]
    fn a_repeated_query_term_counts_each_time() {
        let once = search(&["cat", "dog"], "cat", 5)[0].1;
        let twice = search(&["cat", "dog"], "cat cat", 5)[0].1;
        assert!((twice - 2.0 * once).abs() < 1e-6);
    }

    #[test]
    fn the_limit_takes_the_best_and_ties_keep_their_order() {
        let documents = ["x y", "x y", "x", "x y", "z"];
        let numbers = |limit| {
            let hits = search(&documents, "x", limit);
            hits.iter().map(|hit| hit.0).collect::<Vec<_>>()
        };
        assert_eq!(numbers(9), [2, 0, 1, 3]);
        assert_eq!(numbers(3), [2, 0, 1]);
        assert_eq!(numbers(4), [2, 0, 1, 3]);
        assert!(numbers(0).is_empty());
        assert!(search(&[], "x", 3).is_empty());
        assert!(search(&["", ""], "x", 3).is_empty());
    }
}
