//! The headers of every response, also of those that are made outside of the routes.

use std::sync::LazyLock;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

/// Who may load the response.
pub const CORP: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// The headers that every response has, unless its handler has set another value.
pub static OWN_HEADERS: LazyLock<HeaderMap> = LazyLock::new(|| {
    let values = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (CORP, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; frame-ancestors 'none'",
        ),
    ];
    // With room for those of the handler: the table is copied as it is.
    let mut headers = HeaderMap::with_capacity(12);
    headers.extend(values.map(|(name, value)| (name, HeaderValue::from_static(value))));
    headers
});
