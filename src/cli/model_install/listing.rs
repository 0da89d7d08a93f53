//! `aish-helper model install` without a model: lists the models that can be installed.

use std::fs;

use super::free_space::size;
use super::gguf_model::installed_file;
use super::install_lock::models_dir;
use super::known_models::{KNOWN_MODELS, known_model};
use super::{CONTEXT_WINDOW, MODEL_NAME, find_installed};
use crate::paths::Paths;
use crate::safety::text::one_line;

/// A model that can be installed by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogModel {
    /// Its name.
    pub name: &'static str,
    /// Size of its file.
    pub size: String,
    /// Its licence.
    pub license: &'static str,
    /// Context window in tokens.
    pub context_window: u32,
    /// Purpose of the model.
    pub purpose: &'static str,
}

/// Returns the models that can be installed by name.
pub fn catalog() -> impl Iterator<Item = CatalogModel> {
    let tiny = CatalogModel {
        name: MODEL_NAME,
        size: "98 MB".to_owned(),
        license: "Apache-2.0",
        context_window: CONTEXT_WINDOW,
        purpose: "trying aish out: tiny and often wrong",
    };
    let known = KNOWN_MODELS.iter().map(|model| CatalogModel {
        name: model.name,
        size: size(model.size),
        license: model.license,
        context_window: model.context_window,
        purpose: model.purpose,
    });
    std::iter::once(tiny).chain(known)
}

/// Returns the models that can be installed by name, and which models are installed.
pub fn listing(paths: &Paths) -> String {
    let models = models_dir(paths);
    let mut out = String::from("  name          size     licence     window  for\n");
    for model in catalog() {
        let is_installed = match known_model(model.name) {
            None => find_installed(paths).is_some(),
            Some(known) => installed_file(&models.join(known.name))
                .is_some_and(|file| file.sha256 == known.sha256),
        };
        out.push_str(&format!(
            "{} {:<12}  {:<7}  {:<10}  {:<6}  {}\n",
            if is_installed { '*' } else { ' ' },
            model.name,
            model.size,
            model.license,
            model.context_window,
            model.purpose
        ));
    }
    let mut others: Vec<String> = Vec::new();
    for entry in fs::read_dir(&models).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let installed = installed_file(&entry.path()).filter(|installed| {
            !name.ends_with(".download")
                && known_model(&name).is_none_or(|known| known.sha256 != installed.sha256)
        });
        if let Some(installed) = installed {
            others.push(format!(
                "* {:<12}  {:<7}  {}\n",
                one_line(&name, 64),
                size(installed.size),
                one_line(&installed.url, 200)
            ));
        }
    }
    others.sort();
    out.extend(others);
    out.push_str(
        "\n* is installed. Install one with: aish-helper model install NAME\n  \
         Other models: aish-helper model install hf:OWNER/REPO/FILE, or the https:// URL of a GGUF file\n",
    );
    out
}
