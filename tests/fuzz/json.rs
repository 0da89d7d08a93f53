//! Mutations of JSON values, which keep the syntax and most of the structure.

use serde_json::{Map, Value};

use super::mutator::{CHARACTERS, NUMBERS, Random};

/// Number of array items and object members up to which a value grows.
const MAX_ITEMS: usize = 64;

/// The names and values that occur in a corpus.
pub struct Values {
    names: Vec<String>,
    values: Vec<Value>,
}

impl Values {
    pub fn new(corpus: &[Vec<u8>]) -> Values {
        let mut all = Values {
            names: vec![String::new(), "x".into()],
            values: vec![Value::Null, true.into(), 1e300.into(), "".into()],
        };
        for input in corpus {
            if let Ok(value) = serde_json::from_slice(input) {
                all.collect(&value);
            }
        }
        all
    }

    fn collect(&mut self, value: &Value) {
        self.values.push(value.clone());
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            Value::Object(members) => {
                for (name, member) in members {
                    self.names.push(name.clone());
                    self.collect(member);
                }
            }
            _ => {}
        }
    }

    /// Returns `input` with some changes; `None` if it is not JSON.
    pub fn mutate(&self, input: &[u8], steps: usize, random: &mut Random) -> Option<Vec<u8>> {
        let mut root: Value = serde_json::from_slice(input).ok()?;
        for _ in 0..steps {
            let mut at = random.below(count(&root));
            if let Some(node) = nth(&mut root, &mut at) {
                self.step(node, random);
            }
        }
        serde_json::to_vec(&root).ok()
    }

    fn step(&self, node: &mut Value, random: &mut Random) {
        match (random.below(20), &mut *node) {
            (0, _) => *node = random.pick(&self.values).clone(),
            (1, _) => *node = Value::Array(vec![node.take()]),
            (2, _) => {
                let name = random.pick(&self.names).clone();
                *node = Value::Object(Map::from_iter([(name, node.take())]));
            }
            (3, _) => *node = (*random.pick(NUMBERS)).into(),
            (_, Value::Object(members)) => self.change_members(members, random),
            (_, Value::Array(items)) => self.change_items(items, random),
            (_, Value::String(text)) => change_text(text, random),
            (_, Value::Number(number)) => {
                let n = number.as_f64().unwrap_or_default();
                *node = random
                    .pick(&[-n, n + 1.0, n / 3.0, n * 1e10])
                    .to_owned()
                    .into();
            }
            (_, Value::Bool(value)) => *value = !*value,
            (_, Value::Null) => *node = Value::String(random.pick(CHARACTERS).to_string()),
        }
    }

    fn change_members(&self, members: &mut Map<String, Value>, random: &mut Random) {
        let at = random.below(members.len());
        let name = members.keys().nth(at).cloned().unwrap_or_default();
        let other = random.pick(&self.names).clone();
        match random.below(4) {
            0 => drop(members.shift_remove(&name)),
            1 => {
                let member = members.shift_remove(&name);
                members.insert(other, member.unwrap_or_default());
            }
            2 => {
                let mut changed = name;
                change_text(&mut changed, random);
                members.insert(changed, random.pick(&self.values).clone());
            }
            _ if members.len() < MAX_ITEMS => {
                members.insert(other, random.pick(&self.values).clone());
            }
            _ => {}
        }
    }

    fn change_items(&self, items: &mut Vec<Value>, random: &mut Random) {
        let at = random.below(items.len());
        match random.below(4) {
            0 if !items.is_empty() => drop(items.remove(at)),
            1 if !items.is_empty() => {
                let to = random.below(items.len());
                items.swap(at, to);
            }
            2 if !items.is_empty() && items.len() < MAX_ITEMS => {
                let copies = vec![items[at].clone(); 1 + random.below(12)];
                items.splice(at..at, copies);
            }
            _ if items.len() < MAX_ITEMS => items.insert(at, random.pick(&self.values).clone()),
            _ => {}
        }
    }
}

fn change_text(text: &mut String, random: &mut Random) {
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let at = *random.pick(
        &places
            .iter()
            .copied()
            .chain([text.len()])
            .collect::<Vec<_>>(),
    );
    match random.below(5) {
        0 => text.truncate(at),
        1 => drop(text.drain(..at)),
        2 => text.insert_str(at, &random.pick(NUMBERS).to_string()),
        3 if text.len() < 2000 => {
            let times = 1 + random.below(40);
            text.insert_str(at, &text[at..].repeat(times));
        }
        _ => text.insert_str(at, random.pick::<&str>(CHARACTERS)),
    }
}

/// Number of values in `value`, itself included.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum::<usize>(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 0,
    }
}

/// Returns value number `at` in the order of the text; subtracts those passed.
fn nth<'v>(value: &'v mut Value, at: &mut usize) -> Option<&'v mut Value> {
    if *at == 0 {
        return Some(value);
    }
    *at -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, at)),
        Value::Object(members) => members.values_mut().find_map(|member| nth(member, at)),
        _ => None,
    }
}
