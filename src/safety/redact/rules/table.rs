//! The table of formats that a keyword identifies by itself. For entries with the same prefix, the longer keyword comes first.

use super::FormatPattern::{AtLeast, Custom, Exactly, HighEntropy};
use super::FormatRule;
use super::context::long_url;
use super::custom_formats::{
    airtable, azure_client, discord, jwt, mailchimp, mailgun, pem, signature, telegram, terraform,
};

const fn rule(
    kind: &'static str,
    key: &'static str,
    tail: super::FormatPattern,
    source: &'static str,
) -> FormatRule {
    FormatRule {
        kind,
        key,
        pattern: tail,
        source,
    }
}

/// `A-Za-z0-9`
fn alnum(b: u8) -> bool {
    b.is_ascii_alphanumeric()
}

/// `A-Za-z0-9_`
fn word(b: u8) -> bool {
    alnum(b) || b == b'_'
}

/// `A-Za-z0-9_-`
fn dash(b: u8) -> bool {
    word(b) || b == b'-'
}

/// `A-Za-z0-9_-.`
fn dot(b: u8) -> bool {
    dash(b) || b == b'.'
}

/// `A-Za-z0-9+/=`
fn base64(b: u8) -> bool {
    alnum(b) || matches!(b, b'+' | b'/' | b'=')
}

/// `A-Za-z0-9+/=_-`
fn both64(b: u8) -> bool {
    base64(b) || dash(b)
}

/// The cost, the salt and the hash of a password.
fn crypt(b: u8) -> bool {
    alnum(b) || matches!(b, b'.' | b'/' | b'$' | b'=')
}

/// `0-9a-f`
fn hex(b: u8) -> bool {
    b.is_ascii_digit() || matches!(b, b'a'..=b'f')
}

/// `0-9a-fA-F`
fn xdigit(b: u8) -> bool {
    b.is_ascii_hexdigit()
}

/// `A-Z0-9`
fn upper(b: u8) -> bool {
    b.is_ascii_digit() || b.is_ascii_uppercase()
}

/// `A-Z2-7`
fn base32(b: u8) -> bool {
    b.is_ascii_uppercase() || matches!(b, b'2'..=b'7')
}

const CRYPT: &str = "man 5 crypt";
const GITLEAKS: &str = "github.com/gitleaks/gitleaks, config/gitleaks.toml (MIT), July 2026";
const GITHUB: &str = "docs.github.com: about authentication to GitHub, token formats";
const GITLAB: &str = "docs.gitlab.com/security/tokens: token prefixes";
const SLACK: &str = "docs.slack.dev/authentication/tokens";
const STRIPE: &str = "docs.stripe.com/keys";
const SHOPIFY: &str = "shopify.dev: access tokens; lengths from gitleaks (MIT)";
const OCEAN: &str = "docs.digitalocean.com: token prefixes";
const VAULT: &str = "developer.hashicorp.com/vault/docs/concepts/tokens";
const AWS: &str = "docs.aws.amazon.com/IAM: unique identifiers";
const AZURE: &str = "learn.microsoft.com/purview: sensitive information types, Azure keys";

pub(super) const FORMATS: &[FormatRule] = &[
    rule(
        "private-key",
        "-----BEGIN ",
        Custom(pem),
        "RFC 7468; RFC 9580 for PGP",
    ),
    rule(
        "age-secret-key",
        "AGE-SECRET-KEY-1",
        AtLeast(50, upper),
        "age-encryption.org/v1",
    ),
    rule(
        "age-secret-key",
        "AGE-SECRET-KEY-PQ-1",
        AtLeast(50, upper),
        "age-encryption.org/v1",
    ),
    rule("grafana-key", "eyJrIjoi", AtLeast(50, base64), GITLEAKS),
    rule(
        "jwt",
        "eyJ",
        Custom(jwt),
        "RFC 7515: a header is {\" in base64url",
    ),
    rule("aws-key", "AKIA", Exactly(16, base32), AWS),
    rule("aws-key", "ASIA", Exactly(16, base32), AWS),
    rule("aws-key", "ABIA", Exactly(16, base32), AWS),
    rule("aws-key", "ACCA", Exactly(16, base32), AWS),
    rule("aws-bedrock-key", "ABSK", AtLeast(100, base64), GITLEAKS),
    rule(
        "gcp-api-key",
        "AIza",
        AtLeast(33, dash),
        "cloud.google.com/docs/authentication/api-keys; length from gitleaks (MIT)",
    ),
    rule(
        "gcp-oauth-secret",
        "GOCSPX-",
        AtLeast(24, dash),
        "the secret in a client_secret.json that Google issues",
    ),
    rule(
        "gcp-access-token",
        "ya29.",
        AtLeast(30, dash),
        "developers.google.com/identity/protocols/oauth2",
    ),
    rule(
        "gcp-refresh-token",
        "1//0",
        AtLeast(35, dash),
        "developers.google.com/identity/protocols/oauth2",
    ),
    rule("azure-sas", "sig=", Custom(signature), AZURE),
    rule("azure-client-secret", "Q~", Custom(azure_client), GITLEAKS),
    rule("github-token", "ghp_", AtLeast(30, alnum), GITHUB),
    rule("github-token", "gho_", AtLeast(30, alnum), GITHUB),
    rule("github-token", "ghu_", AtLeast(30, alnum), GITHUB),
    rule("github-token", "ghs_", AtLeast(30, dot), GITHUB),
    rule("github-token", "ghr_", AtLeast(30, alnum), GITHUB),
    rule("github-token", "github_pat_", AtLeast(50, word), GITHUB),
    rule("gitlab-token", "glpat-", AtLeast(20, dot), GITLAB),
    rule("gitlab-token", "gldt-", AtLeast(20, dash), GITLAB),
    rule("gitlab-token", "glrt-", AtLeast(20, dot), GITLAB),
    rule("gitlab-token", "glrtr-", AtLeast(20, dot), GITLAB),
    rule("gitlab-token", "glptt-", AtLeast(20, dash), GITLAB),
    rule("gitlab-token", "glcbt-", AtLeast(20, dash), GITLAB),
    rule("gitlab-token", "gloas-", AtLeast(40, dash), GITLAB),
    rule("gitlab-token", "glft-", AtLeast(20, dash), GITLAB),
    rule("gitlab-token", "glimt-", AtLeast(20, dash), GITLAB),
    rule("gitlab-token", "glagent-", AtLeast(40, dash), GITLAB),
    rule("gitlab-token", "glsoat-", AtLeast(20, dash), GITLAB),
    rule("gitlab-token", "glffct-", AtLeast(20, dash), GITLAB),
    rule("gitlab-token", "GR1348941", AtLeast(20, dash), GITLAB),
    rule("slack-token", "xoxb-", HighEntropy(20, dash), SLACK),
    rule("slack-token", "xoxp-", HighEntropy(20, dash), SLACK),
    rule("slack-token", "xoxa-", HighEntropy(16, dash), SLACK),
    rule("slack-token", "xoxr-", HighEntropy(16, dash), SLACK),
    rule("slack-token", "xoxs-", HighEntropy(16, dash), SLACK),
    rule("slack-token", "xoxo-", HighEntropy(16, dash), SLACK),
    rule("slack-token", "xoxc-", HighEntropy(16, dash), SLACK),
    rule(
        "slack-token",
        "xoxd-",
        AtLeast(40, |b| dash(b) || b"%+/=".contains(&b)),
        SLACK,
    ),
    rule("slack-token", "xoxe.xox", AtLeast(40, dash), SLACK),
    rule("slack-token", "xoxe-", AtLeast(40, dash), SLACK),
    rule("slack-token", "xapp-", AtLeast(30, dash), SLACK),
    rule(
        "slack-webhook",
        "hooks.slack.com/",
        Custom(long_url),
        "docs.slack.dev: incoming webhooks",
    ),
    rule("stripe-key", "sk_live_", AtLeast(16, alnum), STRIPE),
    rule("stripe-key", "sk_test_", AtLeast(16, alnum), STRIPE),
    rule("stripe-key", "rk_live_", AtLeast(16, alnum), STRIPE),
    rule("stripe-key", "rk_test_", AtLeast(16, alnum), STRIPE),
    rule(
        "stripe-webhook-secret",
        "whsec_",
        AtLeast(24, base64),
        STRIPE,
    ),
    rule(
        "anthropic-key",
        "sk-ant-",
        AtLeast(24, dash),
        "docs.claude.com/en/api; lengths from gitleaks (MIT)",
    ),
    rule(
        "openrouter-key",
        "sk-or-",
        HighEntropy(32, dash),
        "openrouter.ai/docs: authentication",
    ),
    rule(
        "openai-key",
        "sk-proj-",
        AtLeast(32, dash),
        "platform.openai.com/docs; lengths from gitleaks (MIT)",
    ),
    rule(
        "openai-key",
        "sk-svcacct-",
        AtLeast(32, dash),
        "platform.openai.com/docs; lengths from gitleaks (MIT)",
    ),
    rule(
        "openai-key",
        "sk-admin-",
        AtLeast(32, dash),
        "platform.openai.com/docs; lengths from gitleaks (MIT)",
    ),
    rule(
        "openai-key",
        "sk-",
        HighEntropy(20, dash),
        "platform.openai.com/docs; the form that compatible providers took over",
    ),
    rule(
        "huggingface-token",
        "hf_",
        AtLeast(30, alnum),
        "huggingface.co/docs/hub/security-tokens; length from gitleaks (MIT)",
    ),
    rule(
        "huggingface-token",
        "api_org_",
        AtLeast(30, alnum),
        GITLEAKS,
    ),
    rule(
        "groq-key",
        "gsk_",
        AtLeast(40, alnum),
        "console.groq.com/docs; 52 characters as issued",
    ),
    rule("perplexity-key", "pplx-", AtLeast(40, alnum), GITLEAKS),
    rule(
        "cerebras-key",
        "csk-",
        HighEntropy(32, alnum),
        "inference-docs.cerebras.ai; 48 characters as issued",
    ),
    rule(
        "together-key",
        "tgp_",
        HighEntropy(32, dash),
        "docs.together.ai; `v1_` and 43 characters as issued",
    ),
    rule(
        "xai-key",
        "xai-",
        AtLeast(60, alnum),
        "docs.x.ai; 80 characters as issued",
    ),
    rule(
        "replicate-token",
        "r8_",
        AtLeast(37, alnum),
        "replicate.com/docs/topics/security/api-tokens",
    ),
    rule(
        "npm-token",
        "npm_",
        AtLeast(36, alnum),
        "docs.npmjs.com: about access tokens",
    ),
    rule(
        "pypi-token",
        "pypi-",
        AtLeast(50, dash),
        "pypi.org/help: API tokens; length from gitleaks (MIT)",
    ),
    rule(
        "crates-io-token",
        "cio",
        Exactly(32, alnum),
        "github.com/rust-lang/crates.io: token prefix",
    ),
    rule("rubygems-key", "rubygems_", Exactly(48, hex), GITLEAKS),
    rule(
        "docker-token",
        "dckr_pat_",
        AtLeast(24, dash),
        "docs.docker.com/security/access-tokens",
    ),
    rule(
        "docker-token",
        "dckr_oat_",
        AtLeast(24, dash),
        "docs.docker.com/security/access-tokens",
    ),
    rule("digitalocean-token", "dop_v1_", AtLeast(60, hex), OCEAN),
    rule("digitalocean-token", "doo_v1_", AtLeast(60, hex), OCEAN),
    rule("digitalocean-token", "dor_v1_", AtLeast(60, hex), OCEAN),
    rule(
        "sendgrid-key",
        "SG.",
        HighEntropy(60, dot),
        "twilio.com/docs/sendgrid: API keys; length from gitleaks (MIT)",
    ),
    rule(
        "twilio-key",
        "SK",
        Exactly(32, xdigit),
        "twilio.com/docs/iam/api-keys",
    ),
    rule(
        "telegram-token",
        ":AA",
        Custom(telegram),
        "core.telegram.org/bots/api: authorizing your bot",
    ),
    rule(
        "discord-token",
        ".",
        Custom(discord),
        "docs.discord.com/developers/reference: an id in base64, a time, a signature",
    ),
    rule(
        "discord-token",
        "mfa.",
        AtLeast(80, dash),
        "docs.discord.com/developers/reference",
    ),
    rule(
        "discord-webhook",
        "discord.com/api/webhooks/",
        Custom(long_url),
        "docs.discord.com/developers: webhooks",
    ),
    rule(
        "discord-webhook",
        "discordapp.com/api/webhooks/",
        Custom(long_url),
        "docs.discord.com/developers: webhooks",
    ),
    rule(
        "teams-webhook",
        "webhook.office.com/webhookb2/",
        Custom(long_url),
        "learn.microsoft.com/microsoftteams: incoming webhooks",
    ),
    rule("shopify-token", "shpat_", AtLeast(32, xdigit), SHOPIFY),
    rule("shopify-token", "shpca_", AtLeast(32, xdigit), SHOPIFY),
    rule("shopify-token", "shppa_", AtLeast(32, xdigit), SHOPIFY),
    rule("shopify-token", "shpss_", AtLeast(32, xdigit), SHOPIFY),
    rule("shopify-token", "shpua_", AtLeast(32, xdigit), SHOPIFY),
    rule("square-token", "EAAA", Exactly(60, dash), GITLEAKS),
    rule("square-token", "sq0atp-", AtLeast(22, dash), GITLEAKS),
    rule(
        "square-token",
        "sq0csp-",
        AtLeast(40, dash),
        "developer.squareup.com: OAuth application secret",
    ),
    rule("mailgun-key", "key-", Custom(mailgun), GITLEAKS),
    rule(
        "mailchimp-key",
        "-us",
        Custom(mailchimp),
        "mailchimp.com/developer: 32 hex digits and a data centre",
    ),
    rule("databricks-token", "dapi", Exactly(32, hex), GITLEAKS),
    rule(
        "databricks-token",
        "dose",
        Exactly(32, hex),
        "docs.databricks.com: OAuth secrets",
    ),
    rule(
        "grafana-token",
        "glsa_",
        AtLeast(32, word),
        "grafana.com/docs: service accounts; length from gitleaks (MIT)",
    ),
    rule("grafana-token", "glc_", AtLeast(32, base64), GITLEAKS),
    rule("vault-token", "hvs.", AtLeast(24, dash), VAULT),
    rule("vault-token", "hvb.", AtLeast(60, dash), VAULT),
    rule("vault-token", "hvr.", AtLeast(24, dash), VAULT),
    rule("terraform-token", ".atlasv1.", Custom(terraform), GITLEAKS),
    rule("linear-key", "lin_api_", AtLeast(36, alnum), GITLEAKS),
    rule("notion-token", "ntn_", AtLeast(40, alnum), GITLEAKS),
    rule(
        "notion-token",
        "secret_",
        Exactly(43, alnum),
        "developers.notion.com: the form before 2024",
    ),
    rule("doppler-token", "dp.", HighEntropy(40, dot), GITLEAKS),
    rule("fly-token", "fm2_", AtLeast(80, base64), GITLEAKS),
    rule("fly-token", "fo1_", AtLeast(40, dash), GITLEAKS),
    rule("heroku-key", "HRKU-", HighEntropy(32, dash), GITLEAKS),
    rule("atlassian-token", "ATATT3", AtLeast(150, both64), GITLEAKS),
    rule("airtable-token", "pat", Custom(airtable), GITLEAKS),
    rule("postman-key", "PMAK-", AtLeast(50, dash), GITLEAKS),
    rule("pulumi-token", "pul-", Exactly(40, hex), GITLEAKS),
    rule("newrelic-key", "NRAK-", Exactly(27, upper), GITLEAKS),
    rule("sentry-token", "sntrys_", AtLeast(60, both64), GITLEAKS),
    rule("sentry-token", "sntryu_", AtLeast(60, hex), GITLEAKS),
    rule(
        "onepassword-token",
        "ops_eyJ",
        AtLeast(100, both64),
        GITLEAKS,
    ),
    rule(
        "cloudflare-key",
        "v1.0-",
        Exactly(171, |b| hex(b) || b == b'-'),
        GITLEAKS,
    ),
    rule(
        "supabase-key",
        "sb_secret_",
        AtLeast(20, dash),
        "supabase.com/docs: API keys",
    ),
    rule(
        "supabase-key",
        "sbp_",
        Exactly(40, hex),
        "supabase.com/docs: access tokens",
    ),
    rule(
        "tailscale-key",
        "tskey-",
        HighEntropy(20, dash),
        "tailscale.com/kb: key prefixes",
    ),
    rule(
        "dynatrace-token",
        "dt0c01.",
        HighEntropy(60, dot),
        "docs.dynatrace.com: token format",
    ),
    rule(
        "langsmith-key",
        "lsv2_",
        HighEntropy(40, word),
        "docs.langchain.com: LangSmith API keys",
    ),
    rule(
        "tavily-key",
        "tvly-",
        HighEntropy(24, dash),
        "docs.tavily.com",
    ),
    rule(
        "aws-signature",
        "X-Amz-Signature=",
        AtLeast(64, hex),
        "docs.aws.amazon.com: Signature Version 4",
    ),
    rule("password-hash", "$1$", HighEntropy(30, crypt), CRYPT),
    rule("password-hash", "$5$", HighEntropy(45, crypt), CRYPT),
    rule("password-hash", "$6$", HighEntropy(60, crypt), CRYPT),
    rule("password-hash", "$y$", HighEntropy(45, crypt), CRYPT),
    rule("password-hash", "$2a$", HighEntropy(50, crypt), CRYPT),
    rule("password-hash", "$2b$", HighEntropy(50, crypt), CRYPT),
    rule("password-hash", "$2y$", HighEntropy(50, crypt), CRYPT),
    rule("password-hash", "$apr1$", HighEntropy(26, crypt), CRYPT),
];
