//! Compares which data is shared without a question, and where.

use serde::{Deserialize, Serialize};

use super::{ConfigChange, SeenConfig, changed};
use crate::config::settings::Config;
use crate::config::share_settings::{ShareMode, ShareSettings, ShareTarget};

/// The key of the place of the pages.
pub(super) const TARGET: &str = "share.target";

/// The settings of `[share]` that a person saw last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SeenShare {
    is_automatic: bool,
    /// The place of the pages, if that is a bucket: it also gets the credentials that are named.
    bucket: Option<String>,
}

impl SeenShare {
    pub(super) fn of(settings: &ShareSettings) -> SeenShare {
        let ShareSettings {
            mode,
            target,
            endpoint,
            bucket,
            prefix,
            region,
            path_style,
            public_url,
            access_key_env,
            secret_key_env,
            session_token_env,
        } = settings;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let style = if *path_style { "" } else { ", host style" };
        let bucket = format!(
            "s3, bucket {}, prefix {:?}, at {} ({region}{style}), read at {:?}, credentials from {access_key_env}, {secret_key_env} {}",
            text(bucket),
            text(prefix),
            text(endpoint),
            text(public_url),
            text(session_token_env),
        );
        SeenShare {
            is_automatic: *mode == ShareMode::Auto,
            bucket: (*target == ShareTarget::S3).then(|| bucket.trim_end().to_owned()),
        }
    }
}

/// Takes back automatic sharing and a new place of the pages, and adds the lines.
pub(super) fn take_back(seen: &SeenConfig, now: &mut Config, lines: &mut Vec<ConfigChange>) {
    let (old, new) = (&seen.share, SeenShare::of(&now.share));
    if new.is_automatic && !old.is_automatic {
        changed(lines, "share.mode", "manual", "auto");
        now.share.mode = ShareMode::Manual;
    }
    if let Some(bucket) = new.bucket.as_ref().filter(|_| new.bucket != old.bucket) {
        let old = old.bucket.as_deref().unwrap_or("local");
        changed(lines, TARGET, old, bucket);
        now.share.target = ShareTarget::Local;
        // Without a bucket, a session would be shared elsewhere than the user has said.
        if now.share.mode == ShareMode::Auto {
            now.share.mode = ShareMode::Manual;
        }
    }
}
