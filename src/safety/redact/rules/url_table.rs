//! The table of URLs that are secret as a whole, and of secrets in their query.

use super::FormatPattern::Custom;
use super::FormatRule;
use super::table::rule;
use super::urls::{query_key, query_signature, secret_path, webhook_id};

// No keyword begins with a dot, which all rules of that beginning would be compared with at each dot.
pub(super) const URLS: &[FormatRule] = &[
    rule(
        "url-key",
        "g.alchemy.com/v2/",
        Custom(secret_path),
        "docs.alchemy.com: endpoints",
    ),
    rule(
        "url-key",
        "g.alchemy.com/v3/",
        Custom(secret_path),
        "docs.alchemy.com: endpoints",
    ),
    rule(
        "url-key",
        "g.alchemy.com/nft/v2/",
        Custom(secret_path),
        "docs.alchemy.com: endpoints",
    ),
    rule(
        "url-key",
        "g.alchemy.com/nft/v3/",
        Custom(secret_path),
        "docs.alchemy.com: endpoints",
    ),
    rule(
        "url-key",
        "infura.io/v3/",
        Custom(secret_path),
        "docs.metamask.io/services: endpoints",
    ),
    rule(
        "url-key",
        "infura.io/ws/v3/",
        Custom(secret_path),
        "docs.metamask.io/services: endpoints",
    ),
    rule(
        "url-key",
        "conda.anaconda.org/t/",
        Custom(secret_path),
        "docs.anaconda.com: tokens of channels",
    ),
    rule(
        "url-key",
        "quiknode.pro/",
        Custom(secret_path),
        "quicknode.com/docs: endpoints",
    ),
    rule(
        "webhook",
        "make.com/",
        Custom(secret_path),
        "help.make.com: webhooks",
    ),
    rule(
        "webhook",
        "/with/key/",
        Custom(secret_path),
        "help.ifttt.com: webhooks",
    ),
    rule(
        "webhook",
        "tines.com/webhook/",
        Custom(secret_path),
        "tines.com/docs: webhook actions",
    ),
    rule(
        "webhook",
        "duty.com/integration/",
        Custom(secret_path),
        "developer.pagerduty.com: events",
    ),
    rule(
        "webhook",
        "/receiver/v1/http/",
        Custom(secret_path),
        "help.sumologic.com: HTTP sources",
    ),
    rule(
        "webhook",
        "/webhook/",
        Custom(webhook_id),
        "docs.n8n.io: the webhook node",
    ),
    rule(
        "url-signature",
        "Signature=",
        Custom(query_signature),
        "docs.aws.amazon.com: signed URLs of S3 and CloudFront",
    ),
    rule(
        "url-key",
        "appid=",
        Custom(query_key),
        "openweathermap.org/api: appid",
    ),
];
