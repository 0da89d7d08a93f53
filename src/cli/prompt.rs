//! `aish-helper prompt`: lists and shows prompt packs.

use serde_json::{Map, Value, json};

use super::args::PromptCommand;
use super::table::table;
use super::{columns, print, print_json, print_wrapped};
use crate::client::text_format::cut;
use crate::config::packs::{self, PACK_KEYS, PackSource, PromptPack};
use crate::error::{ErrorContext, Result};
use crate::paths::Paths;
use crate::safety::text::{one_line, strict};

/// Maximum number of characters shown of a description.
const MAX_DESCRIPTION: usize = 200;

/// Runs a `prompt` subcommand.
///
/// # Errors
/// There is no such pack, or it is invalid.
pub fn run(paths: &Paths, command: PromptCommand) -> Result<()> {
    let cwd = std::env::current_dir().context(|| "cannot find the current directory".into())?;
    match command {
        PromptCommand::List(args) => {
            let all = packs::list(paths, &cwd);
            match args.json {
                true => print_json(
                    &all.iter()
                        .flatten()
                        .map(|pack| info(paths, pack))
                        .collect::<Vec<_>>(),
                ),
                false => print_wrapped(&list(paths, &all)),
            }
        }
        PromptCommand::Show { name, json } => {
            let pack = packs::find(paths, &cwd, &name)?;
            match json {
                true => {
                    let mut shown = info(paths, &pack);
                    for key in PACK_KEYS {
                        shown.insert(key.into(), pack.text(key).into());
                    }
                    print_json(&shown)
                }
                false => print(&show(paths, &pack)),
            }
        }
    }
}

fn list(paths: &Paths, all: &[std::result::Result<PromptPack, packs::ConfigProblem>]) -> String {
    if all.is_empty() {
        let place = paths.config.join("prompts").join("NAME.toml");
        return format!("no prompt packs; write one: {}\n", place.display());
    }
    let rows: Vec<[String; 3]> = all
        .iter()
        .flatten()
        .map(|pack| {
            let about = pack.text("description").unwrap_or_default();
            [
                format!("@{}", pack.name),
                state(paths, pack).to_owned(),
                one_line(about, MAX_DESCRIPTION),
            ]
        })
        .collect();
    let mut text = table(rows.iter(), columns(), cut).concat();
    for problem in all.iter().filter_map(|pack| pack.as_ref().err()) {
        text.push_str(&format!("! {}\n", one_line(&problem.to_string(), 1000)));
    }
    text
}

/// Where the pack comes from, and whether it can be used.
fn state(paths: &Paths, pack: &PromptPack) -> &'static str {
    match pack.source {
        PackSource::Project if !packs::is_approved(paths, &pack.sha256) => "project, not approved",
        source => source.as_str(),
    }
}

fn show(paths: &Paths, pack: &PromptPack) -> String {
    let mut text = format!(
        "@{} ({})\n{}\nsha256 {}\n",
        pack.name,
        state(paths, pack),
        one_line(&pack.path.display().to_string(), 4096),
        pack.sha256
    );
    for (key, value) in &pack.texts {
        text.push_str(&format!("\n{key}:\n"));
        for line in value.lines() {
            text.push_str(&format!("  {}\n", strict(line)));
        }
    }
    text
}

fn info(paths: &Paths, pack: &PromptPack) -> Map<String, Value> {
    let approved = pack.source != PackSource::Project || packs::is_approved(paths, &pack.sha256);
    let fields = [
        ("name", json!(pack.name)),
        ("source", json!(pack.source.as_str())),
        ("path", json!(pack.path)),
        ("sha256", json!(pack.sha256)),
        ("version", json!(pack.text("version"))),
        ("description", json!(pack.text("description"))),
        ("approved", json!(approved)),
    ];
    fields
        .map(|(key, value)| (key.to_owned(), value))
        .into_iter()
        .collect()
}
