//! Reads packs from their files.

use std::fs;
use std::path::{Path, PathBuf};

use super::{PACK_KEYS, PackDir, PackSource, PromptPack, disk, is_name};
use crate::config::file::ConfigProblem;
use crate::config::syntax_tree::{SyntaxValue, parse_toml};
use crate::config::value_checks::nearest_name;
use crate::secret::fingerprint;

/// Maximum size of a file of a pack, in bytes.
const MAX_BYTES: u64 = 64 * 1024;

/// Maximum number of entries of a directory that are considered.
const MAX_ENTRIES: usize = 1000;

/// The file of a pack's directory that holds short texts; each other text has a separate file.
const PACK_FILE: &str = "pack.toml";

type Texts = Vec<(&'static str, String)>;

/// Returns the names of packs in a directory, sorted.
pub(super) fn names(dir: &PackDir) -> Vec<String> {
    let entries = fs::read_dir(&dir.path).into_iter().flatten().flatten();
    let names = entries.take(MAX_ENTRIES).filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let name = match dir.source {
            PackSource::Skill => name,
            _ => name.strip_suffix(".toml").unwrap_or(&name).to_owned(),
        };
        is_name(&name).then_some(name)
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.dedup();
    names
}

/// Reads the pack of this name in a directory; `None` if there is none.
pub(super) fn pack(dir: &PackDir, name: &str) -> Result<Option<PromptPack>, ConfigProblem> {
    let folder = dir.path.join(name);
    let (path, texts) = match dir.source {
        PackSource::Skill => {
            let path = folder.join("SKILL.md");
            match disk::exists(&path)? {
                true => (path.clone(), skill(&path, &folder)?),
                false => return Ok(None),
            }
        }
        PackSource::User | PackSource::Project => {
            let file = dir.path.join(format!("{name}.toml"));
            match (disk::exists(&file)?, folder.is_dir()) {
                (true, true) => {
                    let message = format!("{} exists as well: remove one", folder.display());
                    return Err(problem(&file, message));
                }
                (true, false) => (file.clone(), toml_texts(dir, &file)?),
                (false, true) => (folder.clone(), folder_texts(dir, &folder)?),
                (false, false) => return Ok(None),
            }
        }
    };
    let parts = texts.iter().flat_map(|(key, text)| [*key, text.as_str()]);
    let sha256 = fingerprint(parts);
    Ok(Some(PromptPack {
        name: name.to_owned(),
        source: dir.source,
        path,
        texts,
        sha256,
    }))
}

fn problem(file: &Path, message: impl Into<String>) -> ConfigProblem {
    ConfigProblem {
        file: file.to_path_buf(),
        line: None,
        key: String::new(),
        message: message.into(),
    }
}

/// Reads a file of a pack. A link in a project could lead to a private file, whose text would then be sent.
fn read(source: PackSource, root: &Path, file: &Path) -> Result<String, ConfigProblem> {
    if source != PackSource::Project {
        return disk::read_trusted_text(file, MAX_BYTES);
    }
    let real = |path: &Path| {
        let real = fs::canonicalize(path);
        real.map_err(|e| problem(path, format!("cannot be opened: {e}")))
    };
    let real_file: PathBuf = real(file)?;
    if !real_file.starts_with(real(root)?) {
        return Err(problem(file, "is a link to a file outside of the packs"));
    }
    disk::read_untrusted(&real_file, MAX_BYTES)
}

fn toml_texts(dir: &PackDir, file: &Path) -> Result<Texts, ConfigProblem> {
    let text = read(dir.source, &dir.path, file)?;
    let at = |line, key: &str, message: String| ConfigProblem {
        line: Some(line),
        key: key.to_owned(),
        ..problem(file, message)
    };
    let root = parse_toml(&text).map_err(|e| at(e.line, "", e.message))?;
    let SyntaxValue::Table(entries) = root.value else {
        return Ok(Vec::new());
    };
    let mut texts = Vec::new();
    for entry in entries {
        let Some(key) = PACK_KEYS.into_iter().find(|key| *key == entry.key) else {
            let near = nearest_name(&entry.key, PACK_KEYS);
            let message = match near {
                Some(near) => format!("unknown key; did you mean {near}?"),
                None => format!("unknown key; a pack has {}", PACK_KEYS.join(", ")),
            };
            return Err(at(entry.line, &entry.key, message));
        };
        match entry.node.value {
            SyntaxValue::String(text) => add(&mut texts, key, &text),
            other => {
                let message = format!("must be a string, not {}", other.kind());
                return Err(at(entry.node.line, key, message));
            }
        }
    }
    Ok(sorted(texts))
}

fn folder_texts(dir: &PackDir, folder: &Path) -> Result<Texts, ConfigProblem> {
    let file = folder.join(PACK_FILE);
    let mut texts = match disk::exists(&file)? {
        true => toml_texts(dir, &file)?,
        false => Vec::new(),
    };
    for key in PACK_KEYS {
        let file = folder.join(format!("{key}.md"));
        if !disk::exists(&file)? {
            continue;
        }
        if texts.iter().any(|(k, _)| *k == key) {
            let message = format!("{PACK_FILE} sets {key} as well: remove one");
            return Err(problem(&file, message));
        }
        add(&mut texts, key, &read(dir.source, &dir.path, &file)?);
    }
    Ok(sorted(texts))
}

fn add(texts: &mut Texts, key: &'static str, text: &str) {
    let text = text.trim();
    if !text.is_empty() {
        texts.push((key, text.to_owned()));
    }
}

fn sorted(mut texts: Texts) -> Texts {
    texts.sort_by_key(|(key, _)| PACK_KEYS.iter().position(|k| k == key));
    texts
}

/// Reads a [skill](https://agentskills.io/specification): YAML between two lines `---`, then instructions in Markdown. Of the
/// YAML only the description counts; `allowed-tools` would allow tools, which only the policy does.
fn skill(file: &Path, folder: &Path) -> Result<Texts, ConfigProblem> {
    let text = read(PackSource::Skill, folder, file)?;
    let text = text.replace("\r\n", "\n");
    let (head, body) = match text.strip_prefix("---\n") {
        Some(rest) => match rest.split_once("\n---\n") {
            Some(parts) => parts,
            None => return Err(problem(file, "has no line --- after its first lines")),
        },
        None => ("", text.as_str()),
    };
    let mut texts = Vec::new();
    add(&mut texts, "description", &description(head));
    let body = body.trim();
    let place = format!(
        "The files that these instructions name are below {}.",
        folder.display()
    );
    add(&mut texts, "system_append", &format!("{body}\n{place}"));
    Ok(texts)
}

/// Returns the value of `description` in YAML: a plain or quoted scalar, or a block of indented lines.
fn description(yaml: &str) -> String {
    let mut lines = yaml.lines();
    let Some(first) = lines.find_map(|line| line.strip_prefix("description:")) else {
        return String::new();
    };
    let first = first.trim();
    let mut words: Vec<&str> = match first {
        ">" | "|" | ">-" | "|-" | ">+" | "|+" => Vec::new(),
        text => vec![text],
    };
    let indented = lines.take_while(|line| line.starts_with([' ', '\t']) || line.is_empty());
    words.extend(indented.map(str::trim).filter(|line| !line.is_empty()));
    let text = words.join(" ");
    let quoted = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    match (quoted('"'), quoted('\'')) {
        (Some(inner), _) => inner.replace("\\\"", "\""),
        (_, Some(inner)) => inner.replace("''", "'"),
        _ => text,
    }
}
