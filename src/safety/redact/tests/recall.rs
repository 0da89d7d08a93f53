//! Made-up secrets of each kind, all of which must be found.

use super::samples::samples_of;
use super::*;

/// Kind, a text with a secret in it, and the secret.
pub(super) fn samples() -> Vec<(&'static str, String, String)> {
    let mut samples = samples_of(7);
    samples.extend(samples_apart(7));
    samples.extend(samples_with_end(7));
    samples
}

/// The same in forms that end with a sign, before which a text may break off.
pub(super) fn samples_with_end(seed: u64) -> Vec<(&'static str, String, String)> {
    let c = &mut TestRandom(seed);
    let mut samples = Vec::new();
    for length in [14, 150, 400] {
        for (kind, before, after) in [
            ("password", "new NetworkCredential(\"bob\", \"", "\")"),
            ("password", "auth=('bob', '", "')"),
            (
                "secret",
                "variable \"db_password\" {\n  default = \"",
                "\"\n}",
            ),
            ("secret", "~ password = \"changeme\" -> \"", "\""),
            ("wifi-password", "WIFI:T:WPA;S:home;P:", ";;"),
            ("password", "jdbc:oracle:thin:scott/", "@//db/x"),
            ("password", "\"password\": \"", "\""),
            ("url-password", "amqp://bob:", "@host/x"),
            ("cookie", "Set-Cookie: session=", "; Path=/"),
        ] {
            let value = c.of(ALNUM, length);
            let secret = match kind {
                "cookie" => format!("session={value}{after}"),
                _ => value.clone(),
            };
            let begin = before.strip_suffix("session=").unwrap_or(before);
            let end = if kind == "cookie" { "\n" } else { after };
            samples.push((kind, format!("{begin}{secret}{end}"), secret));
        }
    }
    let key = c.of(URL64, 342);
    let text = format!("{{\"kty\":\"RSA\",\"e\":\"AQAB\",\"d\":\"{key}\"}}");
    samples.push(("jwk", text, key));
    samples
}

/// The same of secrets that are apart from their name, and of hashes of passwords. On a screen with marks and wrapped rows, the
/// name of most cannot be found.
fn samples_apart(seed: u64) -> Vec<(&'static str, String, String)> {
    let c = &mut TestRandom(seed);
    let mut samples = Vec::new();
    let mut within = |kind, before: &str, secret: String, after: &str| {
        samples.push((kind, format!("{before}{secret}{after}"), secret));
    };
    for (kind, before, after) in [
        ("password", "- name: DB_PASSWORD\n  value: ", "\n"),
        (
            "password",
            "{\"name\": \"DB_PASSWORD\",\n \"value\": \"",
            "\"}",
        ),
        ("api-key", "<add key=\"ApiKey\" value=\"", "\"/>"),
        ("api-key", "#define API_KEY \"", "\"\n"),
        ("password", "define('DB_PASSWORD', '", "');"),
        ("token", "set -x API_TOKEN ", "\n"),
        ("password", "setx DB_PASSWORD ", "\n"),
        ("password", "string Password { get; set; } = \"", "\";"),
        ("password", "the password is ", ".\n"),
        ("password", "my password for the db is `", "`"),
        ("token", "Your token is: ", "\n"),
        ("api-key", "API key: ", "\n"),
        ("password", "| password | ", " |"),
        ("password", "password: >-\n  ", "\n"),
        ("secret", "COOKIE_KEY=", "\n"),
        ("secret", "\"stripeKey\": \"", "\""),
        ("secret", "{\"value\": \"", "\", \"name\": \"DB_PASSWORD\"}"),
        ("password", "mysqli_connect('db', 'bob', '", "');"),
        ("password", "127.0.0.1:6379> AUTH ", "\n"),
        ("basic-auth", "BASIC_AUTH=bob:", "\n"),
    ] {
        within(kind, before, c.of(ALNUM, 24), after);
    }
    for (start, length) in [
        ("$6$x8Yz2b/k$", 86),
        ("$apr1$k3Jd92ls$", 22),
        ("$2b$12$", 53),
        ("$y$j9T$", 43),
        ("$argon2id$v=19$m=65536,t=3,p=4$", 60),
        ("$7$CU..../....", 60),
        ("$scrypt$ln=17,r=8,p=1$", 60),
        ("pbkdf2_sha256$600000$", 60),
        ("{SHA}", 28),
        ("{SSHA}", 40),
        ("{SSHA512}", 100),
    ] {
        let hash = format!("{start}{}", c.of(ALNUM, length));
        within("password-hash", "root:", hash, ":19000:");
    }
    let scram = format!(
        "SCRAM-SHA-256$4096:{}==${}=:{}=",
        c.of(BASE64, 22),
        c.of(BASE64, 43),
        c.of(BASE64, 43)
    );
    within("password-hash", "'", scram, "'");
    for (before, after) in [("IDENTIFIED BY PASSWORD '", "'"), ("| bob | ", " |")] {
        let hash = format!("*{}", c.of("0123456789ABCDEF", 40));
        within("mysql-hash", before, hash, after);
    }
    const UPPER: &str = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    for (kind, start, letters, length) in [
        ("nvidia-key", "nvapi-", URL64, 64),
        ("planetscale-token", "pscale_tkn_", URL64, 43),
        ("planetscale-token", "pscale_pw_", URL64, 43),
        ("figma-token", "figd_", URL64, 40),
        ("contentful-token", "CFPAT-", URL64, 43),
        ("brevo-key", "xkeysib-", HEX, 64),
        ("sourcegraph-token", "sgp_", HEX, 40),
        ("circleci-token", "CCIPAT_", ALNUM, 63),
        ("buildkite-token", "bkua_", HEX, 40),
        ("shippo-token", "shippo_live_", HEX, 40),
        ("openshift-token", "sha256~", URL64, 43),
        ("vercel-token", "vercel_blob_rw_", ALNUM, 40),
        ("posthog-key", "phx_", ALNUM, 43),
        ("readme-key", "rdme_", HEX, 70),
        ("clojars-token", "CLOJARS_", HEX, 60),
        ("adafruit-key", "aio_", ALNUM, 28),
        ("typeform-token", "tfp_", URL64, 59),
        ("prefect-token", "pnu_", ALNUM, 36),
        ("mapbox-token", "sk.eyJ1Ijoi", ALNUM, 80),
        ("easypost-token", "EZAK", ALNUM, 54),
        ("duffel-token", "duffel_live_", URL64, 43),
        ("facebook-token", "EAAC", ALNUM, 170),
        ("vercel-token", "vcp_", ALNUM, 56),
        ("netlify-token", "nfp_", ALNUM, 36),
        ("pinecone-key", "pcsk_5cXyz_", ALNUM, 63),
        ("artifactory-key", "AKCp", ALNUM, 69),
        ("artifactory-token", "cmVmd", ALNUM, 59),
        ("datadog-token", "ddp_", ALNUM, 36),
        ("ionic-token", "ion_", ALNUM, 42),
        ("infracost-key", "ico-", ALNUM, 32),
        ("frameio-token", "fio-u-", URL64, 64),
        ("docker-swarm-key", "SWMKEY-1-", ALNUM, 43),
        ("docker-swarm-token", "SWMTKN-1-", HEX, 75),
        ("adobe-secret", "p8e-", ALNUM, 32),
        ("alibaba-key", "LTAI", ALNUM, 20),
        ("bitbucket-token", "ATBB", ALNUM, 32),
        ("clickhouse-key", "4b1d", ALNUM, 38),
        ("cloudflare-key", "cfk_", ALNUM, 48),
        ("cloudflare-token", "cfut_", ALNUM, 48),
        ("defined-networking-key", "dnkey-", URL64, 79),
        ("flutterwave-key", "FLWSECK-", HEX, 32),
        ("intra42-secret", "s-s4t2ud-", HEX, 64),
        ("gitlab-token", "_gitlab_session=", HEX, 32),
        ("octopus-key", "API-", UPPER, 26),
        ("newrelic-key", "NRII-", URL64, 32),
        ("razorpay-key", "rzp_live_", ALNUM, 14),
        ("rootly-token", "rootly_", HEX, 64),
        ("apify-token", "apify_api_", ALNUM, 36),
        ("saladcloud-key", "salad_cloud_", ALNUM, 40),
        ("ramp-secret", "ramp_sec_", ALNUM, 48),
        ("scalingo-token", "tk-us-", URL64, 48),
        ("settlemint-token", "sm_pat_", ALNUM, 16),
        ("sonar-token", "squ_", HEX, 40),
        ("yandex-key", "AQVN", ALNUM, 36),
        ("bitcoin-key", "xprv9s21ZrQH143K", ALNUM, 95),
    ] {
        within(
            kind,
            "a ",
            format!("{start}{}", c.of(letters, length)),
            ", b",
        );
    }
    let resend = format!("re_{}_{}", c.of(ALNUM, 8), c.of(ALNUM, 24));
    within("resend-key", "a ", resend, ", b");
    let uuid = format!(
        "{}-{}-{}",
        c.of(HEX, 8),
        c.of("0123456789abcdef-", 14),
        c.of(HEX, 12)
    );
    within("hubspot-token", "a ", format!("pat-na1-{uuid}"), ", b");
    let braintree = format!(
        "access_token$production${}${}",
        c.of(HEX, 16),
        c.of(HEX, 32)
    );
    within("braintree-token", "a ", braintree, ", b");
    let asana = format!("1/{}:{}", c.of("123456789", 16), c.of(HEX, 32));
    within("asana-token", "a ", asana, ", b");
    let signed = format!("{}JQQJ99{}", c.of(ALNUM, 52), c.of(ALNUM, 26));
    within("azure-signed-key", "a ", signed, ", b");
    let harness = format!(
        "pat.{}.{}.{}",
        c.of(ALNUM, 22),
        c.of(HEX, 24),
        c.of(ALNUM, 20)
    );
    within("harness-key", "a ", harness, ", b");
    let maxmind = format!("{}_{}_mmk", c.of(ALNUM, 6), c.of(ALNUM, 29));
    within("maxmind-key", "a ", maxmind, ", b");
    let onepassword: Vec<String> = [6, 11, 5, 5, 5].iter().map(|n| c.of(UPPER, *n)).collect();
    within(
        "onepassword-key",
        "a ",
        format!("A3-{}", onepassword.join("-")),
        ", b",
    );
    let hook = format!("{}/{}", c.of("123456789", 7), c.of(HEX, 7));
    within(
        "zapier-webhook",
        "https://hooks.zapier.com/hooks/catch/",
        hook,
        " ",
    );
    let ticket = format!(
        "$krb5tgs$23$*svc$X.ORG$svc*${}${}",
        c.of(HEX, 32),
        c.of(HEX, 400)
    );
    within("password-hash", "", ticket, "\n");
    within(
        "oracle-password",
        "connect system/",
        c.of(ALNUM, 12),
        "@prod",
    );
    for after in ["\",\"x\":\"1\"}", "\", \"kty\": \"EC\"}"] {
        within("jwk", "{\"d\":\"", c.of(URL64, 43), after);
    }
    within(
        "jwk",
        "{\"kty\":\"RSA\", \"d\": \"",
        c.of(URL64, 342),
        "\"}",
    );
    samples
}

#[test]
fn every_sample_is_found_with_its_kind() {
    let redactor = Redactor::default();
    for (kind, text, secret) in samples() {
        let found = redactor.find(&text);
        let shown: Vec<_> = found
            .iter()
            .map(|f| (&*f.kind, &text[f.range.clone()]))
            .collect();
        assert_eq!(shown, [(kind, &*secret)], "{text}");
        let out = redactor.redact(&text).into_owned();
        assert_eq!(out, text.replace(&secret, &format!("[REDACTED:{kind}]")));
        assert_eq!(redactor.redact(&out), out, "twice");
    }
}

#[test]
fn samples_are_found_within_other_text() {
    let redactor = Redactor::default();
    for (_, text, secret) in samples() {
        for around in [
            ("\\n", "\\n"),
            ("=", ";"),
            ("\"", "\""),
            ("\x1b[31m", "\x1b[0m"),
            ("%3D", "&"),
            ("(", ")"),
            ("x:", "\r\n"),
        ] {
            let text = format!("{}{text}{}", around.0, around.1);
            let out = redactor.redact(&text);
            assert!(!out.contains(&secret), "{text}");
        }
    }
}

#[test]
fn keys_with_a_distinctive_beginning_are_found_behind_a_letter_or_digit() {
    let redactor = Redactor::default();
    let begins = ["ghp_", "gho_", "glpat-", "sk-ant-", "xoxb-", "AKIA", "npm_"];
    let mut found = 0;
    for (_, _, secret) in samples() {
        if begins.iter().any(|key| secret.starts_with(key)) {
            found += 1;
            for before in ["000", "x"] {
                let text = format!("{before}{secret} end");
                assert!(!redactor.redact(&text).contains(&secret), "{text}");
            }
        }
    }
    assert!(found >= 5, "{found}");
    // Not random, but of the right form and length.
    let plain = concat!("ghp_", "abcdefghijklmnopqrstuvwxyz0123456789");
    let text = format!("{}{plain}", "0".repeat(70));
    let out = redactor.redact(&text);
    assert!(!out.contains("abcdef"), "{out}");
}

#[test]
fn every_kind_has_a_sample_and_a_source() {
    let must = [
        "private-key",
        "jwt",
        "aws-key",
        "aws-secret-key",
        "gcp-api-key",
        "azure-storage-key",
        "azure-client-secret",
        "github-token",
        "gitlab-token",
        "slack-token",
        "slack-webhook",
        "stripe-key",
        "openai-key",
        "anthropic-key",
        "huggingface-token",
        "npm-token",
        "pypi-token",
        "docker-token",
        "digitalocean-token",
        "sendgrid-key",
        "twilio-key",
        "telegram-token",
        "discord-token",
        "shopify-token",
        "square-token",
        "mailgun-key",
        "databricks-token",
        "grafana-token",
        "vault-token",
        "age-secret-key",
        "openrouter-key",
        "groq-key",
        "perplexity-key",
        "url-password",
        "bearer-token",
        "basic-auth",
        "password",
        "token",
        "secret",
        "api-key",
    ];
    let samples = samples();
    for kind in must {
        assert!(
            all_rules().iter().any(|r| r.kind == kind),
            "{kind} is in no line"
        );
        assert!(samples.iter().any(|s| s.0 == kind), "{kind} has no sample");
    }
    for rule in all_rules() {
        assert!(
            !rule.source.is_empty() && !rule.key.is_empty(),
            "{}",
            rule.key
        );
        assert!(rule.key.len() < BACK);
    }
    assert!(FormatRules::new().may_match(b"ghp_"), "the finder is built");
}

/// Returns how many in a hundred random values of an alphabet stay in a form.
fn remaining(form: &str, letters: &str, length: usize) -> usize {
    let (redactor, c) = (Redactor::default(), &mut TestRandom(61));
    let stays = |_: &usize| {
        let value = c.of(letters, length);
        redactor
            .redact(&form.replace("{}", &value))
            .contains(&value)
    };
    (0..200).filter(stays).count() / 2
}

#[test]
fn values_without_words_are_found_behind_the_name_of_a_secret() {
    const LETTERS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    for form in [
        "API_TOKEN={}",
        "X-Api-Key: {}",
        "  api_token: {}",
        "\"client_secret\": \"{}\"",
        "\"password\": \"{}\",",
        "my_token = \"{}\"",
        "app --token {} x",
        "the password is {}",
    ] {
        for (letters, length, most) in [
            (ALNUM, 12, 15),
            (ALNUM, 16, 3),
            (LETTERS, 20, 5),
            (LETTERS, 32, 3),
        ] {
            let stay = remaining(form, letters, length);
            assert!(stay <= most, "{form}: {stay} % of {length}");
        }
    }
    let base32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let code = "otpauth://totp/Example:bob?secret={}&issuer=Example";
    assert_eq!(remaining(code, base32, 16), 0);
}

#[test]
fn words_stay_behind_the_name_of_a_secret() {
    let redactor = Redactor::default();
    for word in [
        "CancellationToken",
        "K8sServiceAccount",
        "applicationDefault",
        "kubernetes-dashboard-token",
        "httpOnlySameSiteCookie",
        "blahblahblah",
        "LitKind::Str",
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        "qualityAssurance2",
    ] {
        for form in ["API_TOKEN={}", "token: {}", "\"api_key\": \"{}\""] {
            let text = form.replace("{}", word);
            assert_eq!(redactor.redact(&text), text);
        }
    }
}
