//! Downloads one file over HTTP, and continues an interrupted download.
//!
//! No key, cookie or referrer is sent. Redirects are followed here and not by the client, which sees neither the digest
//! in the answer of Hugging Face nor which hosts are allowed.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, IF_RANGE,
    LOCATION, RANGE,
};
use reqwest::{Client, Response, StatusCode, Url};

use super::free_space::{check_free_space, size};
use super::gguf;
use super::partial_file::{DownloadState, PartialFile};
use super::source::{check_url, shown_url};
use crate::address::is_loopback;
use crate::error::{Error, ErrorContext as _, Result};
use crate::http_client::{ProxyUse, client_builder};
use crate::safety::text::one_line;

/// How long a server may be silent.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 10;
/// How often the free space is checked, in bytes.
const SPACE_CHECK: u64 = 64 << 20;
/// Header of Hugging Face: the SHA-256 of the file that a redirect leads to.
const LINKED_ETAG: HeaderName = HeaderName::from_static("x-linked-etag");

const CONTINUE_HINT: &str =
    "run the same command again: the download continues where it was interrupted";
const AGAIN_HINT: &str = "run the same command again; the server names no version of the file (ETag), so that the \
                          download begins again";

/// A file to download.
#[derive(Debug)]
pub struct Download<'a> {
    /// Where it is.
    pub url: &'a Url,
    /// Directory for the unfinished download.
    pub dir: &'a Path,
    /// The digest that it must have, in hexadecimal.
    pub sha256: Option<&'a str>,
    /// How long the server may be silent.
    pub idle_timeout: Duration,
}

/// A server's answer: the file, and the digest that it names.
struct FileAnswer {
    response: Response,
    sha256: Option<String>,
}

/// What becomes of an answer.
enum NextStep {
    /// The bytes that follow are the file's.
    Copy,
    /// The kept part cannot be used.
    StartAgain,
}

impl Download<'_> {
    /// Downloads the file and reports the bytes that are there, and their final number.
    ///
    /// # Errors
    /// The server does not answer, refuses, stalls, or sends something other than the file; the disk is full.
    pub async fn run(&self, report: &mut dyn FnMut(u64, Option<u64>)) -> Result<PartialFile> {
        let url = self.url.as_str();
        let mut partial = PartialFile::open(self.dir, url).await?;
        let mut is_second = false;
        while !partial.is_complete() {
            let answer = self.request(&partial).await?;
            match self.accept(&answer, &mut partial)? {
                NextStep::Copy => self.copy(answer.response, &mut partial, report).await?,
                NextStep::StartAgain if is_second => {
                    return Err(self.error("the server answers a request for the file with a part"));
                }
                NextStep::StartAgain => {
                    partial.clear(url)?;
                    is_second = true;
                    continue;
                }
            }
            break;
        }
        report(partial.length(), Some(partial.length()));
        Ok(partial)
    }

    /// Asks for the file, or for the rest of it, and follows redirects.
    async fn request(&self, partial: &PartialFile) -> Result<FileAnswer> {
        let mut url = self.url.clone();
        let mut sha256 = None;
        for _ in 0..=MAX_REDIRECTS {
            let mut request = self.client(&url)?.get(url.clone());
            request = request.header(ACCEPT_ENCODING, "identity");
            if let Some(etag) = &partial.state().etag
                && partial.length() > 0
            {
                request = request
                    .header(RANGE, format!("bytes={}-", partial.length()))
                    .header(IF_RANGE, etag);
            }
            let answer = self.in_time(request.send()).await?;
            let response = answer.map_err(|e| {
                let reason = one_line(&root_cause(&e), 300);
                self.error(&format!("cannot reach {}: {reason}", host(&url)))
                    .hint("check the network, then run the same command again")
            })?;
            // A host that a redirect leads to does not speak for the one that was asked.
            if sha256.is_none() && url.origin() == self.url.origin() {
                sha256 = linked_digest(response.headers());
            }
            if !response.status().is_redirection() {
                return Ok(FileAnswer { response, sha256 });
            }
            let target = text(response.headers(), LOCATION)
                .and_then(|location| url.join(location).ok())
                .ok_or_else(|| self.error("the server redirects to nowhere"))?;
            // A server elsewhere must not reach the services of this machine.
            let inward = is_loopback(&target) && !is_loopback(&url);
            let checked = match inward {
                true => Err("this machine"),
                false => check_url(&target),
            };
            checked.map_err(|reason| {
                self.error(&format!(
                    "the server redirects to {}: {reason}",
                    shown_url(&target)
                ))
            })?;
            url = target;
        }
        Err(self.error(&format!("more than {MAX_REDIRECTS} redirects")))
    }

    /// Decides how an answer can be used, and records which file it is.
    fn accept(&self, answer: &FileAnswer, partial: &mut PartialFile) -> Result<NextStep> {
        let response = &answer.response;
        let headers = response.headers();
        let etag = text(headers, ETAG)
            .filter(|tag| tag.starts_with('"'))
            .map(str::to_owned);
        if text(headers, CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
            return Err(self.error("the server sends the file compressed, without being asked to"));
        }
        let old = partial.state();
        let (total, is_rest) = match response.status() {
            StatusCode::OK => (content_length(headers), false),
            StatusCode::PARTIAL_CONTENT => {
                let Some((start, end, total)) = content_range(headers) else {
                    return Ok(NextStep::StartAgain);
                };
                let is_same = start == partial.length()
                    && partial.length() > 0
                    && end.checked_add(1) == Some(total)
                    && old.total.is_none_or(|old| old == total)
                    && (etag.is_none() || etag == old.etag);
                if !is_same {
                    return Ok(NextStep::StartAgain);
                }
                (Some(total), true)
            }
            StatusCode::RANGE_NOT_SATISFIABLE if partial.length() > 0 => {
                return Ok(NextStep::StartAgain);
            }
            status => return Err(self.refused(status)),
        };
        // The file at the URL is another one now, even if its storage kept the tag.
        if is_rest && old.sha256.is_some() && answer.sha256.is_some() && old.sha256 != answer.sha256
        {
            return Ok(NextStep::StartAgain);
        }
        if let (Some(named), Some(wanted)) = (&answer.sha256, self.sha256)
            && named != wanted
        {
            return Err(self
                .error(&format!(
                    "not the expected file: the server reports the SHA-256 {named}, expected {wanted}"
                ))
                .hint("nothing was installed"));
        }
        if !is_rest {
            partial.clear(self.url.as_str())?;
        }
        let kept = partial.length();
        check_free_space(self.dir, total.unwrap_or_default().saturating_sub(kept))?;
        let state = DownloadState {
            url: self.url.as_str().to_owned(),
            etag: etag.or_else(|| partial.state().etag.clone()),
            total,
            sha256: answer
                .sha256
                .clone()
                .or_else(|| partial.state().sha256.clone()),
        };
        partial.describe(state)?;
        Ok(NextStep::Copy)
    }

    /// Appends the body of an answer.
    async fn copy(
        &self,
        mut response: Response,
        partial: &mut PartialFile,
        report: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<()> {
        let total = partial.state().total;
        let mut next_check = partial.length() + SPACE_CHECK;
        report(partial.length(), total);
        loop {
            let hint = match partial.state().etag {
                Some(_) => CONTINUE_HINT,
                None => AGAIN_HINT,
            };
            let chunk = self.in_time(response.chunk()).await;
            let chunk = chunk.map_err(|e| e.hint(hint))?;
            let progress = |partial: &PartialFile| match total {
                Some(total) => format!("{} of {}", size(partial.length()), size(total)),
                None => size(partial.length()),
            };
            let chunk = chunk.map_err(|e| {
                let reason = one_line(&root_cause(&e), 300);
                let done = progress(partial);
                self.error(&format!("the connection broke after {done}: {reason}"))
                    .hint(hint)
            })?;
            let Some(chunk) = chunk else {
                let is_short = total.is_some_and(|total| partial.length() < total);
                if is_short {
                    let done = progress(partial);
                    return Err(self
                        .error(&format!("the connection ended after {done}"))
                        .hint(hint));
                }
                return self.check_start(partial, true);
            };
            let length = partial.length() + chunk.len() as u64;
            if total.is_some_and(|total| length > total) {
                partial.clear(self.url.as_str())?;
                return Err(self.error("the server sent more than it announced"));
            }
            partial.append(&chunk)?;
            self.check_start(partial, false)?;
            if length >= next_check {
                next_check = length + SPACE_CHECK;
                check_free_space(self.dir, total.unwrap_or(length).saturating_sub(length))?;
            }
            report(length, total);
        }
    }

    /// Checks that the first bytes are those of a GGUF file, before the rest is downloaded.
    fn check_start(&self, partial: &mut PartialFile, is_end: bool) -> Result<()> {
        let head = partial.head();
        let known = head.len().min(gguf::MAGIC.len());
        let is_gguf = head.get(..known) == gguf::MAGIC.get(..known);
        if is_gguf && (!is_end || known == gguf::MAGIC.len()) {
            return Ok(());
        }
        let printable = head.iter().copied().take_while(u8::is_ascii_graphic);
        let start: String = printable.map(char::from).collect();
        let start = match start.as_str() {
            "" => "with other bytes".to_owned(),
            start => format!("with {}", one_line(start, 40)),
        };
        partial.clear(self.url.as_str())?;
        Err(self
            .error(&format!("not a GGUF file: it begins {start}"))
            .hint("give the URL of the file itself, not of a page about it"))
    }

    fn refused(&self, status: StatusCode) -> Error {
        let error = self.error(&format!("the server answers {status}"));
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => error
                .hint("check the name of the file; aish cannot download files that need a login"),
            _ => error.hint("run the same command again later"),
        }
    }

    fn client(&self, url: &Url) -> Result<Client> {
        let proxy = match is_loopback(url) {
            true => ProxyUse::Direct,
            false => ProxyUse::System,
        };
        client_builder(proxy, self.idle_timeout)
            .build()
            .context(|| "cannot start an HTTP client".into())
    }

    /// Waits for the server, but not longer than it may be silent.
    async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        tokio::time::timeout(self.idle_timeout, work)
            .await
            .map_err(|_| {
                let seconds = self.idle_timeout.as_secs();
                self.error(&format!("the server sent nothing for {seconds} s"))
                    .hint("run the same command again")
            })
    }

    fn error(&self, what: &str) -> Error {
        Error::runtime(format!("{}: {what}", shown_url(self.url)))
    }
}

/// Returns the innermost cause; the outer ones repeat the URL.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

fn host(url: &Url) -> String {
    one_line(url.host_str().unwrap_or_default(), 100)
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    text(headers, reqwest::header::CONTENT_LENGTH)?.parse().ok()
}

/// Reads `bytes START-END/TOTAL`.
fn content_range(headers: &HeaderMap) -> Option<(u64, u64, u64)> {
    let range = text(headers, CONTENT_RANGE)?.strip_prefix("bytes ")?;
    let (range, total) = range.split_once('/')?;
    let (start, end) = range.split_once('-')?;
    Some((start.parse().ok()?, end.parse().ok()?, total.parse().ok()?))
}

/// Returns the SHA-256 that the server names for the file, in lower case.
fn linked_digest(headers: &HeaderMap) -> Option<String> {
    let tag = text(headers, LINKED_ETAG)?;
    let digest = tag.strip_prefix('"')?.strip_suffix('"')?;
    let is_digest = digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit());
    is_digest.then(|| digest.to_ascii_lowercase())
}

#[cfg(test)]
mod tests;
