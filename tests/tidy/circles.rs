//! Finds import circles: files of one module that import each other, directly or through others.
//!
//! At each level of the module tree, a file counts as one with all files below it. Imports between a module and what is
//! below it are not considered: a module re-exports its children, and a child may use the types of its parent. A re-export
//! counts as an import of the file that has the item.

use std::collections::{BTreeMap, BTreeSet};

use super::source;

/// A source file: its module path and its code without comments, texts and tests.
pub type SourceFile = (Vec<String>, String);

/// The imports between the children of one module: importing child, imported child, and an example.
type SiblingImports = BTreeMap<(String, String), String>;

/// Returns the circles inside modules, a line each: the module, the files of the circle, and the imports between them.
/// Each circle is returned with its top-level module.
pub fn circles(files: &[SourceFile]) -> Vec<(String, String)> {
    let exports = re_exports(files);
    let modules: BTreeSet<&[String]> = files.iter().map(|(module, _)| &module[..]).collect();
    let mut levels: BTreeMap<Vec<String>, SiblingImports> = BTreeMap::new();
    for (module, code) in files {
        for path in source::imports(code, module) {
            let path = resolve(path, &exports);
            let Some(target) = (0..=path.len())
                .rev()
                .map(|n| &path[..n])
                .find(|prefix| modules.contains(prefix))
            else {
                continue;
            };
            let shared = module
                .iter()
                .zip(target)
                .take_while(|(a, b)| a == b)
                .count();
            // Imports between top-level modules are checked by AREAS.
            if shared == 0 || shared == module.len() || shared == target.len() {
                continue;
            }
            let edge = (module[shared].clone(), target[shared].clone());
            let example = format!("{} imports {}", module.join("::"), path.join("::"));
            let level = levels.entry(module[..shared].to_vec()).or_default();
            level.entry(edge).or_insert(example);
        }
    }
    let mut found = Vec::new();
    for (module, imports) in levels {
        for circle in strongly_connected(&imports) {
            let examples = imports
                .iter()
                .filter(|((from, to), _)| circle.contains(from) && circle.contains(to))
                .map(|(_, example)| format!("\n    {example}"));
            let names: Vec<&str> = circle.iter().map(String::as_str).collect();
            let text = format!(
                "{}: these files import each other in a circle: {}{}",
                module.join("::"),
                names.join(", "),
                examples.collect::<String>()
            );
            found.push((module[0].clone(), text));
        }
    }
    found
}

/// The items that modules re-export, with the full paths of the items.
fn re_exports(files: &[SourceFile]) -> BTreeMap<Vec<String>, Vec<String>> {
    let mut exports = BTreeMap::new();
    for (module, code) in files {
        for (name, path) in source::re_exports(code) {
            let item = [module.clone(), vec![name]].concat();
            let target = match path.first().map(String::as_str) {
                Some("crate" | "super") => source::absolute(&path, module),
                Some("self") => [&module[..], &path[1..]].concat(),
                _ => [&module[..], &path[..]].concat(),
            };
            exports.insert(item, target);
        }
    }
    exports
}

/// Replaces the path of a re-export by that of the item.
fn resolve(path: Vec<String>, exports: &BTreeMap<Vec<String>, Vec<String>>) -> Vec<String> {
    let mut path = path;
    // A chain of re-exports is at most as long as the path is deep.
    for _ in 0..8 {
        let found = (1..=path.len()).find_map(|n| Some((n, exports.get(&path[..n])?)));
        match found {
            Some((n, target)) if target[..] != path[..n] => {
                path = [target, &path[n..]].concat();
            }
            _ => break,
        }
    }
    path
}

/// Returns the groups of more than one file that reach each other.
fn strongly_connected(imports: &SiblingImports) -> Vec<BTreeSet<String>> {
    let reachable = |start: &String| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![start.clone()]);
        while let Some(name) = open.pop() {
            for (from, to) in imports.keys() {
                if *from == name && seen.insert(to.clone()) {
                    open.push(to.clone());
                }
            }
        }
        seen
    };
    let names: BTreeSet<&String> = imports.keys().flat_map(|(from, to)| [from, to]).collect();
    let reached: BTreeMap<&String, _> = names.iter().map(|name| (*name, reachable(name))).collect();
    let mut groups: Vec<BTreeSet<String>> = Vec::new();
    for (name, reaches) in &reached {
        let is_mutual = |other: &&String| reached[*other].contains(*name);
        let group: BTreeSet<String> = reaches.iter().filter(is_mutual).cloned().collect();
        if group.len() > 1 && !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

#[test]
fn circles_are_found_at_every_level_and_through_re_exports() {
    let found = |files: &[(&str, &str)]| -> Vec<String> {
        let split = |path: &str| path.split("::").map(str::to_owned).collect();
        let files: Vec<SourceFile> = files
            .iter()
            .map(|(module, code)| (split(module), (*code).to_owned()))
            .collect();
        let circles = circles(&files).into_iter();
        let first = |text: String| text.lines().next().unwrap().to_owned();
        circles.map(|(_, text)| first(text)).collect()
    };
    let circle = |module: &str, names: &str| {
        vec![format!(
            "{module}: these files import each other in a circle: {names}"
        )]
    };
    assert_eq!(
        found(&[
            ("m::a", "use super::b::B;"),
            ("m::b", "use crate::m::a::A;")
        ]),
        circle("m", "a, b")
    );
    // Three files, one of them with a file below it.
    assert_eq!(
        found(&[
            ("m::a", "use super::b::B;"),
            ("m::b", "fn f(c: super::c::C) {}"),
            ("m::c", ""),
            ("m::c::d", "use crate::m::a;"),
        ]),
        circle("m", "a, b, c")
    );
    assert_eq!(
        found(&[
            ("m", "pub use a::A; pub(crate) use b::{B, C as D};"),
            ("m::a", "use super::D;"),
            ("m::b", "use super::A;"),
        ]),
        circle("m", "a, b")
    );
    assert_eq!(
        found(&[
            ("m::n::a", "use super::b::B;"),
            ("m::n::b", "use super::a::A;"),
        ]),
        circle("m::n", "a, b")
    );
    // A module and its child, and an order without a circle.
    let none: [&[(&str, &str)]; 2] = [
        &[("m", "use a::A;"), ("m::a", "use super::M;")],
        &[
            ("m::a", "use super::{b, c};"),
            ("m::b", "use super::c::C;"),
            ("m::c", ""),
        ],
    ];
    for files in none {
        assert_eq!(found(files), [""; 0]);
    }
}
