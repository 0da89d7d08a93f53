//! Formats of vendors, URLs and files: each is found, and similar texts stay.

use super::settled::check as check_settled;
use super::*;

const LOWER: &str = "0123456789abcdefghijklmnopqrstuvwxyz";
const UPPER: &str = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const BASE32: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const BASE58: &str = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// Kind, beginning, alphabet and length of keys that a beginning identifies.
const KEYS: &[(&str, &str, &str, usize)] = &[
    ("brevo-key", "xsmtpsib-", HEX, 64),
    ("nuget-key", "oy2", LOWER, 43),
    ("lob-key", "live_", HEX, 35),
    ("pagarme-key", "ak_live_", ALNUM, 30),
    ("render-key", "rnd_", ALNUM, 28),
    ("inngest-key", "signkey-prod-", HEX, 64),
    ("trigger-key", "tr_prod_", ALNUM, 24),
    ("onesignal-key", "os_v2_app_", LOWER, 104),
    ("dbt-token", "dbtc_", ALNUM, 38),
    ("n8n-key", "n8n_api_", HEX, 80),
    ("calcom-key", "cal_live_", HEX, 32),
    ("ubidots-key", "BBFF-", ALNUM, 30),
    ("fireworks-key", "fw_", ALNUM, 24),
    ("jina-key", "jina_", ALNUM, 60),
    ("firecrawl-key", "fc-", HEX, 32),
    ("e2b-key", "e2b_", HEX, 40),
    ("browserbase-key", "bb_live_", URL64, 27),
    ("elevenlabs-key", "sk_", HEX, 48),
    ("runpod-key", "rpa_", UPPER, 46),
    ("honeycomb-key", "hcxik_01", LOWER, 56),
    ("honeycomb-key", "hcaik_01", LOWER, 56),
    ("logfire-token", "pylf_v1_us_", ALNUM, 43),
    ("statsig-key", "secret-", ALNUM, 43),
    ("neon-key", "napi_", LOWER, 64),
    ("atlas-secret", "mdb_sa_sk_", URL64, 40),
    ("aiven-password", "AVNS_", ALNUM, 19),
    ("xata-key", "xau_", ALNUM, 43),
    ("bitbucket-token", "BBDC-", ALNUM, 44),
    ("yandex-token", "y0_AgAAAA", URL64, 50),
    ("dropbox-token", "sl.B", URL64, 135),
    ("twitch-token", "oauth:", LOWER, 30),
    ("facebook-token", "EAAGx", ALNUM, 170),
    ("bitcoin-key", "5J", BASE58, 49),
    ("bitcoin-key", "Kx", BASE58, 50),
    ("bitcoin-key", "L4", BASE58, 50),
    ("nostr-key", "nsec1", LOWER, 58),
    ("paseto", "v4.local.", URL64, 130),
    ("paseto", "v2.public.", URL64, 120),
    ("macaroon", "MDAxY2xvY2F0aW9u", ALNUM, 120),
    ("linear-key", "lin_oauth_", HEX, 64),
    ("netlify-token", "nfc_", ALNUM, 36),
    ("figma-token", "figo_", ALNUM, 40),
    ("posthog-key", "phs_", URL64, 43),
    ("posthog-key", "phx_", URL64, 47),
    ("buildkite-token", "bkct_", ALNUM, 40),
    ("wandb-key", "wandb_v1_", ALNUM, 77),
    ("sentry-token", "sntrya_", HEX, 64),
    ("supabase-key", "sbp_oauth_", HEX, 40),
    ("django-key", "django-insecure-", LOWER, 50),
    ("nats-seed", "SUA", BASE32, 55),
    ("porkbun-secret", "sk1_", HEX, 64),
    ("backblaze-key", "K00", BASE64, 28),
    ("docker-config", "eyJhdXRocyI6", BASE64, 80),
    ("minisign-key", "RWRTY0Iy", BASE64, 204),
    ("signify-key", "RWRCSwAA", BASE64, 130),
    ("otp-secret", "otpauth-migration://offline?data=", ALNUM, 80),
];

fn uuid(c: &mut TestRandom) -> String {
    let mut part = |n| c.of(HEX, n);
    format!(
        "{}-{}-4{}-a{}-{}",
        part(8),
        part(4),
        part(3),
        part(3),
        part(12)
    )
}

/// Kind, what stands before a secret, the secret, and what follows it.
fn samples(c: &mut TestRandom) -> Vec<(&'static str, String, String, &'static str)> {
    let mut samples = Vec::new();
    for &(kind, start, letters, length) in KEYS {
        let key = format!("{start}{}", c.of(letters, length));
        samples.push((kind, "a ".to_owned(), key, ", b"));
    }
    let mut alone = |kind, secret: String| samples.push((kind, "a ".to_owned(), secret, ", b"));
    for (mark, before, padding) in [
        ("AzFu", 44, "A=="),
        ("AzSeB", 42, ""),
        ("+ACRB", 42, ""),
        ("+ASbA", 33, "="),
    ] {
        let behind = 10 - mark.len() - usize::from(padding.len() == 3);
        let key = format!(
            "{}{mark}{}{padding}",
            c.of(ALNUM, before),
            c.of(ALNUM, behind)
        );
        alone("azure-signed-key", key);
    }
    alone("plaid-token", format!("access-production-{}", uuid(c)));
    alone("axiom-token", format!("xaat-{}", uuid(c)));
    alone("opsgenie-key", format!("GenieKey {}", uuid(c)));
    for start in ["sdk-", "api-", "mob-"] {
        alone("launchdarkly-key", format!("{start}{}", uuid(c)));
    }
    alone("voyage-key", format!("pa-{}x4Z", c.of(ALNUM, 40)));
    alone("modal-token", format!("as-{}x4Z", c.of(ALNUM, 19)));
    alone("neon-password", format!("npg_{}x4Z", c.of(ALNUM, 9)));
    let digits = "0123456789";
    let mercado = format!(
        "{}-{}-{}-{}",
        c.of(digits, 16),
        c.of(digits, 6),
        c.of(HEX, 32),
        c.of(digits, 9)
    );
    alone("mercadopago-token", format!("APP_USR-{mercado}"));
    alone(
        "infisical-token",
        format!("st.{}.{}.{}", c.of(HEX, 24), c.of(HEX, 32), c.of(HEX, 32)),
    );
    alone(
        "stackhawk-key",
        format!("hawk.{}.{}", c.of(ALNUM, 20), c.of(ALNUM, 20)),
    );
    alone("newrelic-key", format!("{}FFFFNRAL", c.of(HEX, 32)));
    alone(
        "snyk-token",
        format!("snyk_uat.{}.{}", c.of(HEX, 8), c.of(URL64, 120)),
    );
    alone(
        "cockroach-key",
        format!("CCDB1_{}_{}", c.of(ALNUM, 22), c.of(ALNUM, 40)),
    );
    alone(
        "clickup-token",
        format!("pk_{}_{}", c.of(digits, 8), c.of(UPPER, 32)),
    );
    alone(
        "salesforce-token",
        format!("00D{}!AQ{}", c.of(ALNUM, 12), c.of(ALNUM, 94)),
    );
    alone(
        "telnyx-key",
        format!("KEY{}_{}", c.of("0123456789ABCDEF", 32), c.of(ALNUM, 22)),
    );
    alone(
        "zoho-token",
        format!("1000.{}.{}", c.of(HEX, 32), c.of(HEX, 32)),
    );
    let twitter = format!(
        "{}%2F{}%3D{}",
        c.of(ALNUM, 25),
        c.of(ALNUM, 30),
        c.of(ALNUM, 40)
    );
    alone("twitter-token", format!("{}{twitter}", "A".repeat(21)));
    alone(
        "dynatrace-token",
        format!("dt0s16.{}.{}", c.of(UPPER, 8), c.of(UPPER, 64)),
    );
    alone(
        "circleci-token",
        format!("CCIPRJ_{}_{}", c.of(ALNUM, 22), c.of(HEX, 40)),
    );
    alone(
        "k3s-token",
        format!("K10{}::server:{}", c.of(HEX, 64), c.of(HEX, 32)),
    );
    alone(
        "ceph-key",
        format!("AQ{}AA{}==", c.of(ALNUM, 12), c.of(ALNUM, 22)),
    );
    let mut within = |kind, before: &str, secret: String, after| {
        samples.push((kind, before.to_owned(), secret, after));
    };
    within(
        "nix-key",
        "cache.example.org-1:",
        format!("{}==", c.of(BASE64, 86)),
        "\n",
    );
    within(
        "url-key",
        "https://eth-mainnet.g.alchemy.com/v2/",
        c.of(URL64, 32),
        " ",
    );
    within(
        "url-key",
        "https://mainnet.infura.io/v3/",
        c.of(HEX, 32),
        " ",
    );
    within("url-key", "https://a-b.quiknode.pro/", c.of(HEX, 40), "'");
    within(
        "url-key",
        "https://api.example.org/w?q=x&appid=",
        c.of(HEX, 32),
        "\"",
    );
    within(
        "webhook",
        "https://hook.eu1.make.com/",
        c.of(LOWER, 32),
        "\n",
    );
    within(
        "webhook",
        "https://maker.ifttt.com/trigger/x/with/key/",
        c.of(ALNUM, 43),
        "\n",
    );
    within(
        "webhook",
        "https://x.tines.com/webhook/",
        format!("{}/{}", c.of(HEX, 32), c.of(HEX, 32)),
        "\n",
    );
    within(
        "webhook",
        "https://events.pagerduty.com/integration/",
        format!("{}/enqueue", c.of(HEX, 32)),
        "\n",
    );
    within(
        "webhook",
        "https://e.sumologic.com/receiver/v1/http/",
        c.of(ALNUM, 88),
        "\n",
    );
    within("webhook", "https://n8n.example.com/webhook/", uuid(c), "\n");
    within(
        "url-signature",
        "https://d1.cloudfront.net/v?Policy=x&Signature=",
        format!("{}~{}__", c.of(ALNUM, 90), c.of(ALNUM, 90)),
        "&Key-Pair-Id=K1",
    );
    within(
        "url-signature",
        "https://b.s3.amazonaws.com/k?Expires=1&Signature=",
        format!("{}%2F{}%3D", c.of(ALNUM, 10), c.of(ALNUM, 16)),
        "\n",
    );
    within(
        "kubernetes-secret",
        "kind: Secret\ndata:\n  config: ",
        c.of(BASE64, 24),
        "\n",
    );
    within(
        "kubernetes-secret",
        "apiVersion: v1\ndata:\n  config: ",
        c.of(BASE64, 200),
        "\nkind: Secret\nmetadata:\n",
    );
    within(
        "kubernetes-secret",
        "{\"apiVersion\":\"v1\",\"data\":{\"conn\":\"",
        c.of(BASE64, 24),
        "\"},\"kind\":\"Secret\"}",
    );
    within(
        "private-scalar",
        "Private Keys\n====\n(0) 0x",
        c.of(HEX, 64),
        "\n",
    );
    within("private-scalar", "DEPLOYER_PK=0x", c.of(HEX, 64), "\n");
    within(
        "recovery-key",
        "BitLocker Recovery Key: ",
        format!("{}-{}", c.of("1234", 6), ["135790"; 7].join("-")),
        "\n",
    );
    within(
        "recovery-code",
        "Recovery codes\n",
        format!("{}-{}\n{}-{}", 48102, "9a1b2", 73015, "bb21c"),
        "\nKeep them.\n",
    );
    within(
        "recovery-code",
        "Backup codes:\n1. ",
        "6934 2170\n2. 4398 1033\n3. 2491 8710".into(),
        "\n",
    );
    samples
}

#[test]
fn every_sample_is_found_with_its_kind() {
    let redactor = Redactor::default();
    for seed in [7, 8, 9] {
        for (kind, before, secret, after) in samples(&mut TestRandom(seed)) {
            let text = format!("{before}{secret}{after}");
            let out = redactor.redact(&text).into_owned();
            assert_eq!(out, format!("{before}[REDACTED:{kind}]{after}"), "{text}");
            assert_eq!(redactor.redact(&out), out, "twice");
        }
    }
}

#[test]
fn what_is_shown_early_of_the_samples_stays() {
    let redactor = Redactor::default();
    for (_, before, secret, after) in samples(&mut TestRandom(7)) {
        let text =
            format!("It says {before}{secret}{after} and then it goes on with other words.\n");
        check_settled(&redactor, &text, 3);
    }
}

#[test]
fn similar_texts_stay() {
    let redactor = Redactor::default();
    let c = &mut TestRandom(3);
    let (id, digest) = (uuid(c), c.of(HEX, 64));
    let signature = format!("{}==", c.of(BASE64, 86));
    for text in [
        "checksum/secret: {digest}",
        "SENTRY_DSN=https://0123456789abcdef0a1b2c3d4e5f6789@o1.ingest.sentry.io/6",
        "pods/rest-api-{id} and https://api-{id}.example.org/x",
        "pub:\n    04:aa:bb:cc:dd:ee:ff:00:11:22:33:44:55:66:77:88:99\n",
        "(0) 0x52908400098527886E0F7030069857D2E4169EE7",
        "block (tx) 0x{digest}",
        "kind: ConfigMap\ndata:\n  mode: fast\n  name: abcdefgh\n",
        "data:\n  level: info\nkind: ConfigMap\n",
        "{\"data\":{\"name\":\"abcd\"},\"kind\":\"List\"}",
        "{\"value\": \"Zx81ab9q\", \"name\": \"region\"}",
        "{\"name\": \"region\", \"value\": \"Zx81ab9q\"}",
        "\"result\": \"A1b2C3d4E5f6\"",
        "<th>Name</th><td>A1b2C3d4E5f6</td>",
        "<th>Password</th><td>required</td>",
        "cargo login to crates.io",
        "run cargo login with your token",
        "net user experience is fine",
        "gh secret set NAME --env prod < key2.txt",
        "ssh-keygen -t ed25519 -f key2 -C a2@example.org",
        "fly secrets set LOG_LEVEL=debug",
        "kubectl create configmap c --from-literal=mode=A1b2C3d4E5",
        "the secret \"sauce\" of 2024",
        "the password to GitHub2.example.org is known",
        "I set the password to something new",
        "resenha: Sommer2024",
        "API key created: yes",
        "PASS all 12 tests\n",
        "AUTH PLAIN LOGIN CRAM-MD5",
        "Recovery codes\nare shown once.\nKeep them in 2 places.\n",
        "mnemonic is the art of memory and it helps with the names of all things that we learn",
        "napi_create_string_utf8(env, value)",
        "nfc_llcp_send_symm_and_more_words_in_a_name",
        "v2.local.example.org",
        "st.one.two.three",
        "hawk.some.long.package.of.words.that.goes.on.and.on",
        "rnd_something_of_many_words_that_goes_on",
        "as-if and ak-47 and pa-mm, fc-match",
        "pk_live_is_public and pk_12345678_short",
        "https://g.alchemy.com/v2/docs and /webhook/github",
        "www.make.com/en/help and hook.eu1.make.com/settings",
        "?Signature=short&appid=wx1234567890abcdef",
        "0 1 2 3:-1: x-1:80",
        "StorePath: /nix/store/abc-hello\nSig: cache.nixos.org-1:{signature}\n",
        "/nix/store/abc-hello\tultimate\tcache.nixos.org-1:{signature}\n",
        "\"signatures\": [\n  \"cache.nixos.org-1:{signature}\",\n  \"b-1:{signature}\"\n]",
        "ssh-keygen -t ed25519 -N '' -f ~/.ssh/id_ed25519",
        "ssh-keygen -p -P '' -N \"\" -f key2",
        "security unlock-keychain -p \"\" login2.keychain",
        "htpasswd -b users bob '' # comment2",
        "gh pr create -b 'Fixes A1b2C3d4' -t x",
        "(\"cargo login \", Argument1(0)), (\"secrets set \", Assigned2),",
        "heroku config:set S3_BUCKET=my-bucket-2024",
        "kubectl create secret generic x --from-literal=HOST=db-1.internal",
        "token created: 2024-01-02T03:04:05Z",
        "API key created: 2024-01-02T03:04:05.123456Z",
        "密码：至少8个字符，包含A1!",
        "<tr><td>Password</td>\n<td>at least 12 characters</td></tr>",
        "openssl req -x509 -newkey rsa:4096 -keyout key2.pem -out cert.pem",
        "arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db-aB1cD2",
        "\"PasswordLastUsed\": \"2016-09-08T21:47:36Z\"",
        "\"hashed_secret\": \"357b0b48d24315ee76b99f3762c8b03ea68cf3cc\"",
        "signing_key: 3AA5C34371567BD2",
        "password_hash_algo = argon2id-v13",
        "token: 0xdAC17F958D2ee523a2206206994597C13D831ec7",
        "[`PrivateKey2`]: https://docs.rs/x1/latest/x2/enum.PrivateKeyDer.html",
        "sk_test_xxxxxxxxxxxxxxxxxxxx",
        "user bob\nand then he said:\npassword Reset2024",
    ] {
        let text = text.replace("{id}", &id).replace("{digest}", &digest);
        let text = text.replace("{signature}", &signature);
        assert_eq!(redactor.redact(&text), text);
    }
    let zeros = "A".repeat(4000);
    assert_eq!(redactor.redact(&zeros), zeros);
    // A sign of base64 does not begin a key in a long run of it.
    for key in ["EAAAoBUAA", "oy2", "K00"] {
        for n in [25, 40, 120] {
            let blob = format!("\"{}/{key}{}\"", c.of(BASE64, 120), c.of(ALNUM, n));
            assert_eq!(redactor.redact(&blob), blob);
        }
    }
}

#[test]
fn the_automaton_of_all_keywords_stays_small() {
    /// Every process that redacts has it.
    const MAX_BYTES: usize = 800_000;
    let bytes = RULES.memory_usage();
    assert!(bytes < MAX_BYTES, "{bytes}");
}
