//! Checks of values beyond their type. Each returns the message for the user;
//! no message quotes a value that may be a secret.

use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};

use crate::safety::policy::{BUILTIN_SERVER, HELPER_SERVER};

/// Returns the most similar of `names`, if one is similar enough to be a likely typo.
pub fn nearest_name<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let word = word.to_lowercase();
    names
        .into_iter()
        .filter_map(|name| {
            let other = name.to_lowercase();
            let score = strsim::jaro_winkler(&word, &other);
            // Jaro-Winkler rates swapped letters in a short word too low.
            let swapped = word.len() > 2 && strsim::osa_distance(&word, &other) == 1;
            (score >= 0.8 || swapped).then_some((score, name))
        })
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// Checks a model's name, which appears in status lines and in file names.
///
/// # Errors
/// A message for the user.
pub fn check_model_name(name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._:/-".contains(c);
    if (1..=64).contains(&name.len()) && name.chars().all(allowed) {
        Ok(())
    } else {
        Err("a model's name has 1 to 64 of the characters A-Z a-z 0-9 . _ : / -".into())
    }
}

/// Checks the name of an environment variable.
pub(super) fn check_variable_name(name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.len() <= 128
        && name.chars().all(allowed)
        && !name.starts_with(|c: char| c.is_ascii_digit())
    {
        Ok(())
    } else {
        // The value is not quoted: a common mistake is to paste the key itself here.
        Err("must be the name of an environment variable, such as OPENAI_API_KEY".into())
    }
}

/// Checks a variable whose value is sent to the model.
pub(super) fn check_context_variable(name: &str) -> Result<(), String> {
    check_variable_name(name)?;
    if is_secret_name(name) {
        Err("looks like a secret by its name, and would be sent to the model".into())
    } else {
        Ok(())
    }
}

/// Returns whether a value of this name is likely to be a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let parts = ["token", "secret", "passw", "credential", "apikey"];
    let words = ["auth", "code", "key", "pass", "pwd", "sig", "signature"];
    parts.iter().any(|part| lower.contains(part))
        || lower
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| words.contains(&word))
}

/// Maximum length of an alias, in characters.
pub(super) const ALIAS_MAX: usize = 20;

/// Returns whether `text` is a valid server alias: `[a-z0-9][a-z0-9-]{0,19}`.
pub fn is_alias(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=ALIAS_MAX).contains(&text.len()) && text.chars().all(allowed) && !text.starts_with('-')
}

/// Whether an alias is that of aish's own tools, which no server may have: their rules and names would be the same.
pub fn is_reserved_alias(alias: &str) -> bool {
    [BUILTIN_SERVER, HELPER_SERVER].contains(&alias)
}

/// Checks the alias of a configured server.
pub(super) fn check_server_alias(name: &str) -> Result<(), String> {
    match is_reserved_alias(name) {
        true => Err(format!(
            "the alias {name} is reserved for the tools of aish itself; choose another one"
        )),
        false => check_alias(name),
    }
}

/// Checks the alias of a server, which precedes the dot in the names of its tools.
pub(super) fn check_alias(name: &str) -> Result<(), String> {
    if is_alias(name) {
        Ok(())
    } else {
        Err("an alias has 1 to 20 of the characters a-z 0-9 -, and does not begin with -".into())
    }
}

/// Returns the variable that a value of `env` refers to, if it is `$NAME`.
pub fn variable_reference(value: &str) -> Option<&str> {
    let name = value.strip_prefix('$')?;
    (!name.is_empty() && check_variable_name(name).is_ok()).then_some(name)
}

/// Checks one entry of a server's `env`: a text, or `$NAME` for a variable of the shell that first uses the server.
pub(super) fn check_server_variable(name: &str, value: &str) -> Result<(), String> {
    check_variable_name(name)?;
    match value.strip_prefix("${") {
        Some(_) => Err("write $NAME for a variable of the shell, without other text".into()),
        None => Ok(()),
    }
}

/// Returns the variable name, if one was written where the token itself belongs.
fn variable_in_token(token: &str) -> Option<&str> {
    let name = token.trim().strip_prefix('$')?;
    let name = name
        .strip_prefix('{')
        .and_then(|n| n.strip_suffix('}'))
        .unwrap_or(name);
    (!name.is_empty() && check_variable_name(name).is_ok()).then_some(name)
}

/// Checks a header for an MCP server.
pub(super) fn check_server_header(name: &str, value: &str) -> Result<(), String> {
    if matches!(
        name.to_ascii_lowercase().as_str(),
        "accept" | "last-event-id" | "mcp-protocol-version" | "mcp-session-id"
    ) {
        return Err("this header is set by aish itself".into());
    }
    check_header(name, value)
}

/// Checks that a header's name and value are valid in HTTP: no line breaks, nothing invisible.
pub(super) fn check_header(name: &str, value: &str) -> Result<(), String> {
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

/// Returns whether this header's value can be shown. Only known harmless headers qualify, because a header can carry
/// a secret under any name.
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

/// Parses the address of an API, with the parser that is used to connect to it.
pub(super) fn base_url(text: &str) -> Result<Url, String> {
    let example = "https://api.openai.com/v1";
    let url = web_address(text, example, "use key_env, key_cmd or headers")?;
    let path = url.path().trim_end_matches('/');
    let mut added = ["/chat/completions", "/responses", "/messages"].iter();
    match added.find(|end| path.ends_with(**end)) {
        Some(end) => Err(format!("must end before {end}, which aish adds")),
        None => Ok(url),
    }
}

/// Parses the address of an MCP server.
pub(super) fn server_url(text: &str) -> Result<Url, String> {
    let example = "https://mcp.example.com/mcp";
    web_address(text, example, "use auth_env, auth_cmd or headers")
}

/// Checks `base_url` of a model.
pub(super) fn check_model_url(text: &str) -> Result<(), String> {
    base_url(text).map(drop)
}

/// Checks the path of a file that the daemon reads, whatever directory it was started in.
pub(super) fn check_absolute(path: &str) -> Result<(), String> {
    match path.starts_with('/') {
        true => Ok(()),
        false => Err("must be an absolute path, which begins with /".into()),
    }
}

/// Checks `url` of an MCP server.
///
/// # Errors
/// A message that follows the address.
pub fn check_url(text: &str) -> Result<(), String> {
    server_url(text).map(drop)
}

/// Checks the address of a SearXNG server.
pub(super) fn check_search_url(text: &str) -> Result<(), String> {
    web_address(text, "http://127.0.0.1:8888", "it takes none").map(drop)
}

/// Checks a bearer token that is written in the file.
pub(super) fn check_token(token: &str) -> Result<(), String> {
    match variable_in_token(token) {
        Some(name) => Err(format!(
            "auth_token holds the token itself; for a variable write auth_env = \"{name}\""
        )),
        None => checked_key(token.as_bytes())
            .map(drop)
            .map_err(str::to_string),
    }
}

/// Checks the name of a program, without directory or options.
pub(super) fn check_program_name(name: &str) -> Result<(), String> {
    if name.contains('/') || name.chars().any(char::is_whitespace) {
        Err("a program's name alone, without its directory or options".into())
    } else {
        Ok(())
    }
}

/// Checks the beginning of the names of tmux sessions.
pub(super) fn check_session_prefix(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if (1..=32).contains(&name.len()) && name.chars().all(is_plain) && !name.starts_with('-') {
        Ok(())
    } else {
        Err("1 to 32 of the characters a-z A-Z 0-9 _ -, not beginning with -".into())
    }
}

/// Maximum length of a key, in bytes; longer output of a `key_cmd` is not a key.
pub(super) const KEY_MAX: usize = 16 * 1024;

/// Returns the key in `bytes`, without surrounding white space: visible ASCII characters only, as required in a header.
///
/// # Errors
/// The text is not a key; the message is to be appended to the name of the source.
pub fn checked_key(bytes: &[u8]) -> Result<String, &'static str> {
    if bytes.len() > KEY_MAX {
        return Err("is longer than 16 KiB");
    }
    let key = bytes.trim_ascii();
    if key.is_empty() {
        return Err("is empty");
    }
    match std::str::from_utf8(key) {
        Ok(text) if key.iter().all(u8::is_ascii_graphic) => Ok(text.to_string()),
        _ => Err("is not a key: it has spaces, line breaks or other unusual characters"),
    }
}

pub(super) fn web_address(text: &str, example: &str, instead: &str) -> Result<Url, String> {
    let expected = format!("must be an address such as {example}");
    // Checked before parsing: the parser calls `127.0.0.1:8080` a "relative URL without a base".
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    let is_web = |scheme: &str| {
        ["http", "https"]
            .iter()
            .any(|web| web.eq_ignore_ascii_case(scheme))
    };
    if !scheme.is_some_and(is_web) {
        return Err("must begin with http:// or https://".into());
    }
    let url = Url::parse(text).map_err(|e| format!("{expected} ({e})"))?;
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(format!("{expected}, without spaces"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!(
            "must not contain a user name or password: {instead}"
        ));
    }
    if url.fragment().is_some() {
        return Err("must not contain #".into());
    }
    // Some services take their version in the query; a key would appear wherever the address is shown.
    if url.query_pairs().any(|(name, _)| is_secret_name(&name)) {
        return Err(format!("must not contain a key: {instead}"));
    }
    Ok(url)
}

/// Checks an origin of a page: scheme and host, with a port where it is not the usual one.
///
/// # Errors
/// It is not an origin: the reason, with an example.
pub fn check_origin(text: &str) -> Result<(), String> {
    let host = text
        .strip_prefix("http://")
        .or_else(|| text.strip_prefix("https://"));
    let is_host = |host: &str| {
        !host.is_empty()
            && host
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || ".-:[]".contains(c))
    };
    if !host.is_some_and(is_host) {
        return Err(format!(
            "{text} is not an origin: write scheme, host and port, as in http://localhost:5173"
        ));
    }
    // https://html.spec.whatwg.org/multipage/browsers.html#ascii-serialisation-of-an-origin
    let sent = match text.split_once("://") {
        Some(("http", _)) => text.strip_suffix(":80"),
        _ => text.strip_suffix(":443"),
    };
    let sent = sent.unwrap_or(text).to_ascii_lowercase();
    match sent == text {
        true => Ok(()),
        false => Err(format!(
            "browsers send the origin {text} as {sent}: write that"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::check_origin;

    #[test]
    fn an_origin_is_written_as_browsers_send_it() {
        for origin in [
            "http://localhost:5173",
            "https://a.example",
            "http://a.example:443",
            "http://[::1]:8080",
        ] {
            assert_eq!(check_origin(origin), Ok(()));
        }
        for (origin, sent) in [
            ("https://a.example:443", "https://a.example"),
            ("http://[::1]:80", "http://[::1]"),
            ("https://A.example", "https://a.example"),
        ] {
            let message = check_origin(origin).unwrap_err();
            assert!(
                message.ends_with(&format!(" as {sent}: write that")),
                "{message}"
            );
        }
        assert!(check_origin("https://a.example/").is_err());
    }
}
