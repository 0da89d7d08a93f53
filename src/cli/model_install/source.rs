//! What `aish-helper model install` was given: the name of a known model, a file on Hugging Face, or the URL of a file.

use reqwest::Url;

use super::known_models::{KNOWN_MODELS, KnownModel, known_model};
use crate::address::is_loopback;
use crate::config::{check_model_name, nearest_name};
use crate::error::{Error, Result};
use crate::paths;
use crate::safety::text::one_line;

/// The host of Hugging Face.
const HUGGING_FACE: &str = "https://huggingface.co";
/// Replaces the host of Hugging Face, as in its own tools.
const ENDPOINT_VARIABLE: &str = "HF_ENDPOINT";
/// Maximum length of a name that follows from a file.
const MAX_NAME: usize = 64;
/// Maximum number of characters shown of the typed source.
const SHOWN: usize = 200;

/// Directories of `models` that are not models of this kind.
const RESERVED: &[&str] = &["smollm2", "llama-cpp"];

/// A model to install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSource {
    /// Its name in aish, and of its directory.
    pub name: String,
    /// Where the file is.
    pub url: Url,
    /// Its entry in the table, for a known model.
    pub known: Option<&'static KnownModel>,
}

impl ModelSource {
    /// Parses the source that the user typed. `name` replaces the name that follows from it.
    ///
    /// # Errors
    /// `typed` is not the name of a known model, a file on Hugging Face or the URL of a file, or the model's name is invalid.
    pub fn parse(typed: &str, name: Option<&str>) -> Result<ModelSource> {
        let known = known_model(typed);
        let url = match known {
            Some(model) => file_url(model.repository, model.revision, model.file)?,
            None => match typed.strip_prefix("hf:") {
                Some(file) => hugging_face_file(typed, file)?,
                None if typed.contains("://") => web_file(typed)?,
                None => return Err(unknown(typed)),
            },
        };
        check_url(&url).map_err(|reason| Error::usage(format!("{}: {reason}", shown_url(&url))))?;
        let file = url.path_segments().and_then(|mut all| all.next_back());
        let file = file.unwrap_or_default();
        if is_part(file) {
            let message = format!("{} is one part of a model", one_line(file, SHOWN));
            return Err(Error::usage(message).hint("aish installs models of one file"));
        }
        let derived = known.map_or_else(|| name_of(file), |model| model.name.to_owned());
        let name = name.map_or(derived, str::to_owned);
        check_name(&name)
            .map_err(|reason| Error::usage(reason).hint("choose another name: --name NAME"))?;
        Ok(ModelSource { name, url, known })
    }
}

/// Checks that a file may be fetched from a URL: nobody between can change it, and it carries no password.
///
/// # Errors
/// The reason, phrased to follow the URL.
pub fn check_url(url: &Url) -> std::result::Result<(), &'static str> {
    match url.scheme() {
        "https" => {}
        "http" if is_loopback(url) => {}
        "http" => return Err("http:// is allowed only to this machine; use https://"),
        _ => return Err("not an https:// URL"),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the URL of a model must not contain a user name or a password");
    }
    Ok(())
}

/// Returns a URL for a message, without what may be secret in it.
pub fn shown_url(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    // Fails only for URLs that have neither.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    one_line(url.as_str(), SHOWN)
}

/// Checks a name that is also the name of a directory.
fn check_name(name: &str) -> std::result::Result<(), String> {
    let shown = one_line(name, SHOWN);
    check_model_name(name).map_err(|reason| format!("{shown}: {reason}"))?;
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && !name.contains(['/', ':'])
        && !name.ends_with(".download")
        && !name.ends_with(".partial");
    if !is_plain {
        return Err(format!(
            "{shown}: an installed model's name begins with a letter or a digit, has no / and no :, and does not end in \
             .download or .partial"
        ));
    }
    // A file system may not distinguish upper and lower case.
    match RESERVED.iter().any(|name| shown.eq_ignore_ascii_case(name)) {
        true => Err(format!("{shown}: aish uses this name itself")),
        false => Ok(()),
    }
}

/// Returns a name for the model in a file of this name.
fn name_of(file: &str) -> String {
    let lower = file.to_ascii_lowercase();
    let stem = lower.strip_suffix(".gguf").unwrap_or(&lower);
    let mut name = String::new();
    let mut chars = stem.chars();
    while let Some(c) = chars.next() {
        match c {
            // An escape in a URL, such as %20.
            '%' => {
                chars.nth(1);
                name.push('-');
            }
            c if c.is_ascii_alphanumeric() || "._-".contains(c) => name.push(c),
            _ => name.push('-'),
        }
    }
    name.truncate(MAX_NAME);
    name.trim_start_matches(['.', '-', '_']).to_owned()
}

/// Whether the file is one of several that make up a model, such as `x-00001-of-00003.gguf`.
fn is_part(file: &str) -> bool {
    let stem = file.strip_suffix(".gguf").unwrap_or(file);
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
    stem.rsplit_once("-of-").is_some_and(|(before, count)| {
        let number = before.rsplit_once('-').map(|(_, number)| number);
        is_number(count) && number.is_some_and(is_number)
    })
}

/// Reads `OWNER/REPO/FILE`.
fn hugging_face_file(typed: &str, file: &str) -> Result<Url> {
    let mut parts = file.splitn(3, '/');
    let (Some(owner), Some(repository), Some(file)) = (parts.next(), parts.next(), parts.next())
    else {
        return Err(not_a_file(typed));
    };
    let is_name = |part: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        !part.is_empty() && !part.starts_with('.') && part.chars().all(plain)
    };
    let is_path = file
        .split('/')
        .all(|part| !matches!(part, "" | "." | "..") && !part.chars().any(char::is_control));
    if !is_name(owner) || !is_name(repository) || !is_path {
        return Err(not_a_file(typed));
    }
    file_url(&format!("{owner}/{repository}"), "main", file)
}

/// Returns the URL of a file on Hugging Face.
fn file_url(repository: &str, revision: &str, file: &str) -> Result<Url> {
    let base = endpoint()?;
    let mut url = base.clone();
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty()
            .extend(repository.split('/'))
            .extend(["resolve", revision])
            .extend(file.split('/'));
    }
    Ok(url)
}

/// Returns the URL of Hugging Face, or of what replaces it.
fn endpoint() -> Result<Url> {
    let set = paths::variable(ENDPOINT_VARIABLE);
    let text = match &set {
        Some(value) => value.to_string_lossy().into_owned(),
        None => HUGGING_FACE.to_owned(),
    };
    let invalid = |reason: &str| Error::config(format!("{ENDPOINT_VARIABLE}: {reason}"));
    let url = Url::parse(&text).map_err(|_| invalid("not a URL"))?;
    check_url(&url).map_err(invalid)?;
    Ok(url)
}

/// Reads the URL of a file. The page of a file on Hugging Face is accepted for the file.
fn web_file(typed: &str) -> Result<Url> {
    let mut url = Url::parse(typed)
        .map_err(|e| Error::usage(format!("{}: not a URL: {e}", one_line(typed, SHOWN))))?;
    url.set_fragment(None);
    if url.host_str() == Some("huggingface.co") {
        let parts: Vec<String> = url
            .path_segments()
            .map(|parts| parts.map(str::to_owned).collect())
            .unwrap_or_default();
        if parts.get(2).is_some_and(|part| part == "blob") {
            url.set_path(&url.path().replacen("/blob/", "/resolve/", 1));
        }
    }
    Ok(url)
}

fn not_a_file(typed: &str) -> Error {
    Error::usage(format!(
        "{}: not a file on Hugging Face",
        one_line(typed, SHOWN)
    ))
    .hint("write hf:OWNER/REPO/FILE, for example hf:Qwen/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0.gguf")
}

fn unknown(typed: &str) -> Error {
    let names = KNOWN_MODELS.iter().map(|model| model.name);
    let names = std::iter::once("smollm2").chain(names);
    let near = match nearest_name(typed, names) {
        Some(name) => format!("; did you mean {name}?"),
        None => String::new(),
    };
    Error::usage(format!("unknown model {}{near}", one_line(typed, SHOWN))).hint(
        "list the models with: aish-helper model install; or give hf:OWNER/REPO/FILE or the URL of a GGUF file",
    )
}

#[cfg(test)]
mod tests;
