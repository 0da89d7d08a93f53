//! What a value must be like, beyond its type. Pure checks, each with the
//! words for the user; none quotes a value that may hold a secret.

use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};

/// The known name nearest to what was written, if one is near enough to be meant.
pub fn nearest<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let word = word.to_lowercase();
    names
        .into_iter()
        .filter_map(|name| {
            let other = name.to_lowercase();
            let score = strsim::jaro_winkler(&word, &other);
            // Two letters swapped weigh too much in a short word.
            let swapped = word.len() > 2 && strsim::osa_distance(&word, &other) == 1;
            (score >= 0.8 || swapped).then_some((score, name))
        })
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// A model's name: short, visible, safe in a status line and a file name of a log.
pub(super) fn model_name(name: &str) -> Result<(), String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || "._:/-".contains(c);
    if (1..=64).contains(&name.len()) && name.chars().all(fine) {
        Ok(())
    } else {
        Err("a model's name has 1 to 64 of the characters A-Z a-z 0-9 . _ : / -".into())
    }
}

/// The name of an environment variable.
pub(super) fn variable_name(name: &str) -> Result<(), String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.len() <= 128
        && name.chars().all(fine)
        && !name.starts_with(|c: char| c.is_ascii_digit())
    {
        Ok(())
    } else {
        // Not quoted: people paste the key itself here.
        Err("must be the name of an environment variable, such as OPENAI_API_KEY".into())
    }
}

/// A variable whose value the model may see.
pub(super) fn told_variable(name: &str) -> Result<(), String> {
    variable_name(name)?;
    if is_secret_name(name) {
        Err("looks like a secret by its name, and would be sent to the model".into())
    } else {
        Ok(())
    }
}

/// Would something of this name hold a secret?
pub(super) fn is_secret_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let parts = ["token", "secret", "passw", "credential", "apikey"];
    let words = ["auth", "code", "key", "pass", "pwd", "sig", "signature"];
    parts.iter().any(|part| lower.contains(part))
        || lower
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| words.contains(&word))
}

/// What a server is called here: in front of the dot of each of its tools.
pub(super) fn alias(name: &str) -> Result<(), String> {
    if super::mcp::is_alias(name) {
        Ok(())
    } else {
        Err("an alias has 1 to 20 of the characters a-z 0-9 -, and does not begin with -".into())
    }
}

/// The value of a variable of a server's: a text, or `$NAME` for the variable of the shell that first uses it.
pub(super) fn server_variable(value: &str) -> Result<(), String> {
    match value.strip_prefix("${") {
        Some(_) => {
            Err("write $NAME for a variable of the shell; nothing can stand beside it".into())
        }
        None => Ok(()),
    }
}

/// The variable that was written where a token belongs.
pub(super) fn token_variable(token: &str) -> Option<&str> {
    let name = token.trim().strip_prefix('$')?;
    let name = name
        .strip_prefix('{')
        .and_then(|n| n.strip_suffix('}'))
        .unwrap_or(name);
    (!name.is_empty() && variable_name(name).is_ok()).then_some(name)
}

/// A header for an MCP server.
pub(super) fn server_header(name: &str, value: &str) -> Result<(), String> {
    if matches!(
        name.to_ascii_lowercase().as_str(),
        "accept" | "last-event-id" | "mcp-protocol-version" | "mcp-session-id"
    ) {
        return Err("this header is set by aish itself".into());
    }
    header(name, value)
}

/// A header's name and value as HTTP has them: no line breaks, nothing invisible.
pub(super) fn header(name: &str, value: &str) -> Result<(), String> {
    HeaderName::from_bytes(name.as_bytes()).map_err(|_| "not a valid header name".to_string())?;
    if HeaderValue::from_str(value).is_err() {
        return Err("a header's value is one line of visible characters".into());
    }
    if matches!(
        name.to_ascii_lowercase().as_str(),
        "connection" | "content-length" | "content-type" | "host" | "transfer-encoding"
    ) {
        return Err("this header is set by aish itself".into());
    }
    Ok(())
}

/// May this header's value be shown? Only what is known to be harmless is: a header can carry a
/// secret under any name.
pub(super) fn is_public_header(name: &str) -> bool {
    matches!(
        name.to_ascii_lowercase().as_str(),
        "accept"
            | "accept-language"
            | "http-referer"
            | "openai-beta"
            | "referer"
            | "user-agent"
            | "x-title"
    )
}

/// The address of an API, read by the very parser that will connect to it.
pub(super) fn base_url(text: &str) -> Result<Url, String> {
    let example = "https://api.openai.com/v1";
    web_address(text, example, "use key_env, key_cmd or headers")
}

/// The address of an MCP server.
pub(super) fn server_url(text: &str) -> Result<Url, String> {
    let example = "https://mcp.example.com/mcp";
    web_address(text, example, "use auth_env, auth_cmd or headers")
}

fn web_address(text: &str, example: &str, instead: &str) -> Result<Url, String> {
    let wanted = format!("must be an address such as {example}");
    let url = Url::parse(text).map_err(|e| format!("{wanted} ({e})"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("must begin with http:// or https://".into());
    }
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(format!("{wanted}, without spaces"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!("must not hold a user name or password: {instead}"));
    }
    if url.fragment().is_some() {
        return Err("must not hold #".into());
    }
    // Some services want their version there; a key would show up wherever the address does.
    if url.query_pairs().any(|(name, _)| is_secret_name(&name)) {
        return Err(format!("must not hold a key: {instead}"));
    }
    Ok(url)
}
