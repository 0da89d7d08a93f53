//! The settings of sharing, section `[share]`.

use reqwest::Url;

use super::section::section;
use super::setting_types::word_setting;
use super::table_reader::TableReader;
use super::value_checks::{check_variable_name, web_address};
use crate::address;

section! {
    /// [Sharing](share.md) sessions as pages. A project's `.aish.toml` can only have `mode = "disabled"`, which counts for
    /// sessions with a prompt from its directories.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ShareSettings in "share" {
        /// `"manual"` shares a session only when you say so, after a preview. `"auto"` also shares each session after its answers,
        /// without a preview, until `llm :unshare`. `"disabled"` shares none.
        mode: ShareMode = ShareMode::Manual, in_project();
        /// Where the pages are: `"local"` on this machine, where the HTTP server serves them, `"s3"` in the bucket below.
        target: ShareTarget = ShareTarget::Local;
        /// The address of the S3 server, with `https://` unless it is on this machine.
        endpoint: Option<String> = None, check(check_endpoint), example("\"https://s3.eu-central-1.amazonaws.com\"");
        /// The bucket. Its own policy decides whether others can read its objects: aish sets no access rights.
        bucket: Option<String> = None, check(check_bucket), example("\"my-pages\"");
        /// The beginning of the names of the objects.
        prefix: Option<String> = None, check(check_prefix), example("\"shares/\"");
        /// The region of the bucket, which is part of each signature.
        region: String = "us-east-1".to_owned(), check(check_region);
        /// Address objects as `endpoint/bucket/object`. With `false`, the bucket is a part of the host name.
        path_style: bool = true;
        /// The address at which others read the objects, if it is not that of the endpoint.
        public_url: Option<String> = None, check(check_public_url), example("\"https://pages.example.com\"");
        /// The name of the environment variable that holds the id of the access key.
        access_key_env: String = "AWS_ACCESS_KEY_ID".to_owned(), check(check_variable_name);
        /// The name of the environment variable that holds the secret key.
        secret_key_env: String = "AWS_SECRET_ACCESS_KEY".to_owned(), check(check_variable_name);
        /// The name of the environment variable that holds the session token of temporary credentials.
        session_token_env: Option<String> = None, check(check_variable_name), example("\"AWS_SESSION_TOKEN\"");
    }
    finish finish_share;
}

impl ShareSettings {
    /// Returns the names of the variables that hold the credentials of the bucket; none for pages on this machine.
    pub fn credential_variables(&self) -> Vec<String> {
        if self.target == ShareTarget::Local {
            return Vec::new();
        }
        let names = [&self.access_key_env, &self.secret_key_env];
        let names = names.into_iter().chain(&self.session_token_env);
        names.cloned().collect()
    }
}

/// Whether sessions can be shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareMode {
    /// When the user says so.
    Manual,
    /// After each answer too.
    Auto,
    /// Never.
    Disabled,
}

impl ShareMode {
    /// Returns the value as written in the file.
    pub fn word(self) -> &'static str {
        match self {
            ShareMode::Manual => "manual",
            ShareMode::Auto => "auto",
            ShareMode::Disabled => "disabled",
        }
    }
}

word_setting!(
    ShareMode,
    [ShareMode::Manual, ShareMode::Auto, ShareMode::Disabled],
    ShareMode::word
);

/// Where shared pages are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareTarget {
    /// On this machine.
    Local,
    /// In a bucket.
    S3,
}

impl ShareTarget {
    /// Returns the value as written in the file.
    pub fn word(self) -> &'static str {
        match self {
            ShareTarget::Local => "local",
            ShareTarget::S3 => "s3",
        }
    }
}

word_setting!(
    ShareTarget,
    [ShareTarget::Local, ShareTarget::S3],
    ShareTarget::word
);

fn finish_share(share: &mut ShareSettings, reader: &TableReader<'_>) {
    let has_place = share.endpoint.is_some() && share.bucket.is_some();
    if share.target == ShareTarget::S3 && !has_place {
        reader.fault_at("target", "needs endpoint and bucket");
    }
}

fn check_endpoint(text: &str) -> Result<(), String> {
    let example = "https://s3.eu-central-1.amazonaws.com";
    let url = web_address(text, example, "use access_key_env and secret_key_env")?;
    check_no_query(&url)?;
    match url.scheme() == "https" || address::is_loopback(&url) {
        true => Ok(()),
        false => Err("must begin with https:// unless the server is on this machine".into()),
    }
}

fn check_public_url(text: &str) -> Result<(), String> {
    check_no_query(&web_address(
        text,
        "https://pages.example.com",
        "it takes none",
    )?)
}

/// Refuses a query, because the name of an object is appended to the URL.
fn check_no_query(url: &Url) -> Result<(), String> {
    match url.query() {
        None => Ok(()),
        Some(_) => Err("must not contain ?".into()),
    }
}

fn check_bucket(name: &str) -> Result<(), String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_name = (3..=255).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(is_allowed);
    match is_name {
        true => Ok(()),
        false => Err("is not the name of a bucket: 3 to 63 of a-z 0-9 - .".into()),
    }
}

fn check_prefix(text: &str) -> Result<(), String> {
    // Servers and proxies resolve parts of dots, and some take a backslash for a slash.
    let is_refused = |c: char| c.is_control() || c == '\\';
    let is_part = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(is_refused);
    let path = text.strip_suffix('/').unwrap_or(text);
    match text.len() <= 512 && path.split('/').all(is_part) {
        true => Ok(()),
        false => Err("must be names with / between them, such as shares/aish".into()),
    }
}

fn check_region(text: &str) -> Result<(), String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    match text.len() <= 64 && text.chars().all(is_allowed) {
        true => Ok(()),
        false => Err("must be the name of a region, such as eu-central-1".into()),
    }
}
