//! Where shared pages are: their addresses, and the place in words.

use reqwest::Url;

use crate::address::is_loopback;
use crate::share::register::{Share, SharePlace};
use crate::share::s3::S3Place;

/// Where pages on this machine are, in words.
pub const HERE: &str = "on this machine";

/// Says where pages on this machine are, and whether other machines reach them. `base` is the address of the HTTP server.
pub fn here_words(base: Option<&str>) -> String {
    match reaches_others(base) {
        true => format!("{HERE}, for everybody on the network who knows its address"),
        false => HERE.to_owned(),
    }
}

/// Whether other machines reach the HTTP server at this address.
pub fn reaches_others(base: Option<&str>) -> bool {
    let url = base.and_then(|base| base.parse::<Url>().ok());
    url.is_some_and(|url| !is_loopback(&url))
}

/// Returns the address of a page. `base` is that of the HTTP server, if it runs.
pub fn address(share: &Share, base: Option<&str>) -> Option<String> {
    match &share.place {
        SharePlace::Local => base.map(|base| format!("{base}/share/{}", share.id)),
        SharePlace::S3(place) => Some(place.url.clone()),
    }
}

/// Says where a page is. `base` is the address of the HTTP server.
pub fn place_words(place: &SharePlace, base: Option<&str>) -> String {
    match place {
        SharePlace::Local => here_words(base),
        SharePlace::S3(place) => bucket_words(place),
    }
}

/// Says in which bucket pages are.
pub fn bucket_words(place: &S3Place) -> String {
    format!("in the bucket {} at {}", place.bucket, place.host())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_a_server_that_others_reach_is_not_said_to_be_for_this_machine_only() {
        for (base, reaches) in [
            (None, false),
            (Some("http://127.0.0.1:4096"), false),
            (Some("http://[::1]:4096"), false),
            (Some("http://localhost:4096"), false),
            (Some("https://laptop.example:4096"), true),
            (Some("https://192.0.2.1:4096"), true),
        ] {
            let words = here_words(base);
            assert_eq!(words.contains("network"), reaches, "{base:?}: {words}");
            assert!(words.starts_with(HERE));
        }
    }
}
