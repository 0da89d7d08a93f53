//! The table of vendors whose keys have a distinctive prefix, continued.

use super::FormatPattern::{AtLeast, Custom, Exactly, HighEntropy};
use super::FormatRule;
use super::byte_classes::{
    alnum, base64, both64, dash, django, dot, dot_pad, hex, upper, uuid, word,
};
use super::table::{GITLAB, GITLEAKS, SHOPIFY, STRIPE, VENDOR, rule};
use super::urls::zapier_hook;
use super::vendor_formats::{asana, azure_signed, harness, maxmind, resend};

pub(super) const TRUFFLEHOG: &str =
    "the shape that github.com/trufflesecurity/trufflehog, pkg/detectors, looks for, August 2026";
const BIP32: &str = "github.com/bitcoin/bips: BIP 32; SLIP 132 for the other letters";
const HASHCAT: &str = "hashcat.net/wiki: example hashes";

/// `A-Z0-9-`
fn upper_dash(b: u8) -> bool {
    upper(b) || b == b'-'
}

/// `A-Za-z0-9$`
fn parts(b: u8) -> bool {
    alnum(b) || b == b'$'
}

/// A ticket of Kerberos or an answer of a network logon, with the names of the account and the realm.
fn ticket(b: u8) -> bool {
    dot(b) || b"$*/:@~\\".contains(&b)
}

pub(super) const VENDORS: &[FormatRule] = &[
    rule("vercel-token", "vcp_", AtLeast(24, alnum), VENDOR),
    rule("vercel-token", "vca_", AtLeast(24, alnum), VENDOR),
    rule("vercel-token", "vci_", AtLeast(24, alnum), VENDOR),
    rule("vercel-token", "vcr_", AtLeast(24, alnum), VENDOR),
    rule("vercel-token", "vck_", AtLeast(24, alnum), VENDOR),
    rule("netlify-token", "nfp_", AtLeast(36, word), TRUFFLEHOG),
    rule("hubspot-token", "pat-na1-", AtLeast(36, uuid), TRUFFLEHOG),
    rule("hubspot-token", "pat-eu1-", AtLeast(36, uuid), TRUFFLEHOG),
    rule("pinecone-key", "pcsk_", AtLeast(60, word), TRUFFLEHOG),
    rule(
        "resend-key",
        "re_",
        Custom(resend),
        "resend.com/docs: API keys; 8 and 24 characters as issued",
    ),
    rule("artifactory-key", "AKCp", AtLeast(69, alnum), GITLEAKS),
    rule("artifactory-token", "cmVmd", Exactly(59, alnum), GITLEAKS),
    rule("datadog-token", "ddp_", AtLeast(36, alnum), TRUFFLEHOG),
    rule("datadog-token", "ddw_", AtLeast(36, alnum), TRUFFLEHOG),
    rule(
        "braintree-token",
        "access_token$production$",
        AtLeast(49, parts),
        "github.com/trufflesecurity/truffleHogRegexes: PayPal Braintree",
    ),
    rule(
        "braintree-token",
        "access_token$sandbox$",
        AtLeast(49, parts),
        "github.com/trufflesecurity/truffleHogRegexes: PayPal Braintree",
    ),
    rule("asana-token", "1/", Custom(asana), TRUFFLEHOG),
    rule("asana-token", "2/", Custom(asana), TRUFFLEHOG),
    rule(
        "onepassword-key",
        "A3-",
        HighEntropy(36, upper_dash),
        GITLEAKS,
    ),
    rule(
        "azure-signed-key",
        "JQQJ9",
        Custom(azure_signed),
        "learn.microsoft.com/purview: Azure DevOps personal access token; keys of other services have the same form",
    ),
    rule(
        "zapier-webhook",
        "hooks.zapier.com/hooks/catch/",
        Custom(zapier_hook),
        TRUFFLEHOG,
    ),
    rule(
        "ionic-token",
        "ion_",
        AtLeast(42, alnum),
        "docs.gitlab.com: secret detection, Ionic personal access token",
    ),
    rule("infracost-key", "ico-", Exactly(32, alnum), GITLEAKS),
    rule("frameio-token", "fio-u-", AtLeast(64, dot_pad), GITLEAKS),
    rule(
        "docker-swarm-key",
        "SWMKEY-1-",
        AtLeast(40, base64),
        "docs.docker.com/engine/swarm: locked swarms and join tokens",
    ),
    rule(
        "docker-swarm-token",
        "SWMTKN-1-",
        AtLeast(60, dash),
        "docs.docker.com/engine/swarm: locked swarms and join tokens",
    ),
    rule("adobe-secret", "p8e-", Exactly(32, alnum), GITLEAKS),
    rule("alibaba-key", "LTAI", Exactly(20, alnum), GITLEAKS),
    rule(
        "atlassian-token",
        "ATCTT3",
        AtLeast(150, both64),
        TRUFFLEHOG,
    ),
    rule("bitbucket-token", "ATBB", Exactly(32, alnum), TRUFFLEHOG),
    rule("harness-key", "pat.", Custom(harness), GITLEAKS),
    rule("harness-key", "sat.", Custom(harness), GITLEAKS),
    rule("maxmind-key", "_mmk", Custom(maxmind), GITLEAKS),
    rule(
        "aws-bedrock-key",
        "bedrock-api-key-",
        AtLeast(100, both64),
        GITLEAKS,
    ),
    rule("clickhouse-key", "4b1d", Exactly(38, alnum), GITLEAKS),
    rule("cloudflare-key", "cfk_", AtLeast(48, alnum), TRUFFLEHOG),
    rule("cloudflare-token", "cfut_", AtLeast(48, alnum), TRUFFLEHOG),
    rule("cloudflare-token", "cfat_", AtLeast(48, alnum), TRUFFLEHOG),
    rule(
        "defined-networking-key",
        "dnkey-",
        HighEntropy(50, dash),
        GITLEAKS,
    ),
    rule("easypost-token", "EZTK", AtLeast(54, alnum), GITLEAKS),
    rule(
        "django-key",
        "django-insecure-",
        AtLeast(40, django),
        "docs.djangoproject.com: the setting SECRET_KEY of a new project",
    ),
    rule("facebook-token", "EAAM", AtLeast(100, alnum), GITLEAKS),
    rule("figma-token", "figp_", AtLeast(40, dot_pad), TRUFFLEHOG),
    rule(
        "flutterwave-key",
        "FLWSECK_TEST-",
        AtLeast(12, dash),
        GITLEAKS,
    ),
    rule("flutterwave-key", "FLWSECK-", AtLeast(32, dash), TRUFFLEHOG),
    rule("fly-token", "fm1r_", AtLeast(80, base64), GITLEAKS),
    rule("fly-token", "fm1a_", AtLeast(80, base64), GITLEAKS),
    rule("intra42-secret", "s-s4t2ud-", AtLeast(64, hex), GITLEAKS),
    rule("intra42-secret", "s-s4t2af-", AtLeast(64, hex), GITLEAKS),
    rule(
        "gitlab-token",
        "_gitlab_session=",
        Exactly(32, alnum),
        GITLEAKS,
    ),
    rule("gitlab-token", "glwt-", AtLeast(20, dash), GITLAB),
    rule("octopus-key", "API-", Exactly(26, upper), GITLEAKS),
    rule("newrelic-key", "NRII-", AtLeast(25, dash), TRUFFLEHOG),
    rule("newrelic-key", "NRIQ-", AtLeast(25, dash), TRUFFLEHOG),
    rule("newrelic-key", "NRBR-", AtLeast(19, hex), TRUFFLEHOG),
    rule("razorpay-key", "rzp_live_", Exactly(14, alnum), TRUFFLEHOG),
    rule("rootly-token", "rootly_", Exactly(64, hex), TRUFFLEHOG),
    rule("apify-token", "apify_api_", AtLeast(36, alnum), TRUFFLEHOG),
    rule(
        "saladcloud-key",
        "salad_cloud_",
        HighEntropy(24, word),
        TRUFFLEHOG,
    ),
    rule("ramp-secret", "ramp_sec_", Exactly(48, alnum), TRUFFLEHOG),
    rule("scalingo-token", "tk-us-", HighEntropy(48, dash), GITLEAKS),
    rule("settlemint-token", "sm_aat_", Exactly(16, alnum), GITLEAKS),
    rule("settlemint-token", "sm_pat_", Exactly(16, alnum), GITLEAKS),
    rule("settlemint-token", "sm_sat_", Exactly(16, alnum), GITLEAKS),
    rule("shopify-token", "shltm_", AtLeast(40, dash), SHOPIFY),
    rule("sonar-token", "squ_", Exactly(40, hex), GITLEAKS),
    rule("sonar-token", "sqp_", Exactly(40, hex), GITLEAKS),
    rule("sonar-token", "sqa_", Exactly(40, hex), GITLEAKS),
    rule("square-token", "sq0isp-", AtLeast(22, dash), TRUFFLEHOG),
    rule("stripe-key", "sk_prod_", AtLeast(16, alnum), STRIPE),
    rule("stripe-key", "rk_prod_", AtLeast(16, alnum), STRIPE),
    rule("yandex-key", "AQVN", HighEntropy(35, dash), GITLEAKS),
    rule("bitcoin-key", "xprv", AtLeast(100, alnum), BIP32),
    rule("bitcoin-key", "yprv", AtLeast(100, alnum), BIP32),
    rule("bitcoin-key", "zprv", AtLeast(100, alnum), BIP32),
    rule("bitcoin-key", "tprv", AtLeast(100, alnum), BIP32),
    rule("password-hash", "$krb5tgs$", AtLeast(80, ticket), HASHCAT),
    rule("password-hash", "$krb5asrep$", AtLeast(80, ticket), HASHCAT),
    rule("password-hash", "$krb5pa$", AtLeast(60, ticket), HASHCAT),
    rule(
        "password-hash",
        "$DCC2$",
        AtLeast(34, |b| ticket(b) || b == b'#'),
        HASHCAT,
    ),
];
