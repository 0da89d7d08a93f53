//! Made-up secrets of each kind. `tests/terminal` includes this file, so it uses nothing of the crate.

/// Deterministic pseudo-random generator.
#[derive(Debug)]
pub struct TestRandom(pub u64);

impl TestRandom {
    /// Returns the next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Returns `n` of the letters.
    pub fn of(&mut self, letters: &str, n: usize) -> String {
        let letters = letters.as_bytes();
        let one = |_| char::from(letters[self.below(letters.len())]);
        (0..n).map(one).collect()
    }
}

pub const HEX: &str = "0123456789abcdef";
pub const ALNUM: &str = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
pub const URL64: &str = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
pub const BASE64: &str = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+/";

/// A private key as a tool writes it.
pub fn pem(chance: &mut TestRandom, lines: usize) -> String {
    let body: Vec<_> = (0..lines).map(|_| chance.of(BASE64, 64)).collect();
    format!(
        "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
        body.join("\n")
    )
}

fn jwt(chance: &mut TestRandom) -> String {
    format!(
        "eyJhbGciOiJIUzI1NiJ9.eyJ{}.{}",
        chance.of(URL64, 80),
        chance.of(URL64, 43)
    )
}

/// Returns the kind of each secret, a text with the secret in it, and the secret.
pub fn samples_of(seed: u64) -> Vec<(&'static str, String, String)> {
    let c = &mut TestRandom(seed);
    let upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let digits = "0123456789";
    let mut all: Vec<(&'static str, String)> = Vec::new();
    let mut plain = |kind, secret: String| all.push((kind, secret));
    plain("private-key", pem(c, 25));
    plain(
        "private-key",
        pem(c, 25).replace("RSA ", "").replace('\n', "\\n"),
    );
    plain("private-key", pem(c, 6).replace("RSA", "OPENSSH"));
    plain(
        "age-secret-key",
        format!(
            "AGE-SECRET-KEY-1{}",
            c.of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58)
        ),
    );
    plain("jwt", jwt(c));
    plain("aws-key", format!("AKIA{}", c.of(upper, 16)));
    plain("aws-key", format!("ASIA{}", c.of(upper, 16)));
    plain("aws-bedrock-key", format!("ABSK{}", c.of(BASE64, 120)));
    plain("gcp-api-key", format!("AIza{}", c.of(URL64, 35)));
    plain("gcp-oauth-secret", format!("GOCSPX-{}", c.of(URL64, 28)));
    plain("gcp-access-token", format!("ya29.{}", c.of(URL64, 120)));
    plain("gcp-refresh-token", format!("1//0{}", c.of(URL64, 60)));
    plain(
        "azure-client-secret",
        format!("{}8Q~{}", c.of(ALNUM, 3), c.of(URL64, 34)),
    );
    for prefix in ["ghp_", "gho_", "ghu_", "ghs_", "ghr_"] {
        plain("github-token", format!("{prefix}{}", c.of(ALNUM, 36)));
    }
    plain(
        "github-token",
        format!("github_pat_{}_{}", c.of(ALNUM, 22), c.of(ALNUM, 59)),
    );
    plain("gitlab-token", format!("glpat-{}", c.of(URL64, 20)));
    plain(
        "gitlab-token",
        format!("glrt-t1_{}.01.{}", c.of(URL64, 27), c.of(HEX, 9)),
    );
    plain(
        "slack-token",
        format!(
            "xoxb-{}-{}-{}",
            c.of(digits, 12),
            c.of(digits, 13),
            c.of(ALNUM, 24)
        ),
    );
    plain(
        "slack-token",
        format!(
            "xoxp-{}-{}-{}-{}",
            c.of(digits, 12),
            c.of(digits, 12),
            c.of(digits, 13),
            c.of(HEX, 32)
        ),
    );
    plain(
        "slack-token",
        format!(
            "xapp-1-A{}-{}-{}",
            c.of(upper, 10),
            c.of(digits, 13),
            c.of(HEX, 64)
        ),
    );
    plain("stripe-key", format!("sk_live_{}", c.of(ALNUM, 24)));
    plain("stripe-key", format!("rk_test_{}", c.of(ALNUM, 99)));
    plain(
        "stripe-webhook-secret",
        format!("whsec_{}", c.of(ALNUM, 32)),
    );
    plain(
        "openai-key",
        format!("sk-{}T3BlbkFJ{}", c.of(ALNUM, 20), c.of(ALNUM, 20)),
    );
    plain(
        "openai-key",
        format!("sk-proj-{}T3BlbkFJ{}", c.of(URL64, 74), c.of(URL64, 74)),
    );
    plain("openai-key", format!("sk-{}", c.of(HEX, 32)));
    plain(
        "anthropic-key",
        format!("sk-ant-api03-{}AA", c.of(URL64, 93)),
    );
    plain("openrouter-key", format!("sk-or-v1-{}", c.of(HEX, 64)));
    plain("cerebras-key", format!("csk-{}", c.of(ALNUM, 48)));
    plain("together-key", format!("tgp_v1_{}", c.of(URL64, 43)));
    plain("groq-key", format!("gsk_{}", c.of(ALNUM, 52)));
    plain("perplexity-key", format!("pplx-{}", c.of(ALNUM, 48)));
    plain(
        "huggingface-token",
        format!(
            "hf_{}",
            c.of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", 34)
        ),
    );
    plain("npm-token", format!("npm_{}", c.of(ALNUM, 36)));
    plain(
        "pypi-token",
        format!("pypi-AgEIcHlwaS5vcmc{}", c.of(URL64, 140)),
    );
    plain("docker-token", format!("dckr_pat_{}", c.of(URL64, 27)));
    plain("digitalocean-token", format!("dop_v1_{}", c.of(HEX, 64)));
    plain(
        "sendgrid-key",
        format!("SG.{}.{}", c.of(URL64, 22), c.of(URL64, 43)),
    );
    plain("twilio-key", format!("SK{}", c.of(HEX, 32)));
    plain(
        "telegram-token",
        format!("{}:AA{}", c.of("123456789", 10), c.of(URL64, 33)),
    );
    plain(
        "discord-token",
        format!(
            "MT{}.{}.{}",
            c.of(ALNUM, 22),
            c.of(ALNUM, 6),
            c.of(URL64, 38)
        ),
    );
    plain("shopify-token", format!("shpat_{}", c.of(HEX, 32)));
    plain("square-token", format!("sq0atp-{}", c.of(URL64, 22)));
    plain("square-token", format!("EAAA{}", c.of(URL64, 60)));
    plain("mailgun-key", format!("key-{}", c.of(HEX, 32)));
    plain("mailchimp-key", format!("{}-us12", c.of(HEX, 32)));
    plain("databricks-token", format!("dapi{}", c.of(HEX, 32)));
    plain(
        "grafana-token",
        format!("glsa_{}_{}", c.of(ALNUM, 32), c.of(HEX, 8)),
    );
    plain("grafana-key", format!("eyJrIjoi{}=", c.of(ALNUM, 80)));
    plain("vault-token", format!("hvs.{}", c.of(URL64, 95)));
    plain(
        "terraform-token",
        format!("{}.atlasv1.{}", c.of(ALNUM, 14), c.of(URL64, 67)),
    );
    plain(
        "airtable-token",
        format!("pat{}.{}", c.of(ALNUM, 14), c.of(HEX, 64)),
    );
    let mut samples: Vec<_> = all
        .into_iter()
        .map(|(kind, s)| (kind, format!("a {s}, b"), s))
        .collect();
    let mut within = |kind, before: &str, secret: String, after: &str| {
        samples.push((kind, format!("{before}{secret}{after}"), secret));
    };
    within(
        "aws-secret-key",
        "AWS_SECRET_ACCESS_KEY=",
        c.of(BASE64, 40),
        "\n",
    );
    within(
        "aws-secret-key",
        "aws_secret_access_key = ",
        c.of(BASE64, 40),
        "\n",
    );
    within(
        "aws-secret-key",
        "\"SecretAccessKey\": \"",
        c.of(BASE64, 40),
        "\",",
    );
    within(
        "azure-storage-key",
        "AccountName=x;AccountKey=",
        format!("{}==", c.of(BASE64, 86)),
        ";EndpointSuffix",
    );
    within(
        "azure-shared-key",
        "Endpoint=sb://x/;SharedAccessKey=",
        format!("{}=", c.of(BASE64, 43)),
        "\n",
    );
    within(
        "azure-sas",
        "https://x/y?sv=2020&sig=",
        format!("{}%3D", c.of(ALNUM, 43)),
        "&se=1",
    );
    within(
        "slack-webhook",
        "https://hooks.slack.com/",
        format!(
            "services/T{}/B{}/{}",
            c.of(upper, 8),
            c.of(upper, 8),
            c.of(ALNUM, 24)
        ),
        "'",
    );
    within(
        "discord-webhook",
        "https://discord.com/api/webhooks/",
        format!("{}/{}", c.of(digits, 18), c.of(URL64, 68)),
        " ",
    );
    within(
        "url-password",
        "postgres://admin:",
        c.of(ALNUM, 10),
        "@db:5432/x",
    );
    within("url-password", "redis://:", "p4ss:w0rt".into(), "@cache");
    within(
        "bearer-token",
        "Authorization: Bearer ",
        c.of(ALNUM, 12),
        "\r\n",
    );
    within(
        "bearer-token",
        "-H 'authorization: bearer ",
        c.of(URL64, 40),
        "'",
    );
    within("bearer-token", "send Bearer ", c.of(URL64, 40), " now");
    within(
        "basic-auth",
        "Authorization: Basic ",
        format!("{}==", c.of(BASE64, 22)),
        "\r\n",
    );
    within(
        "authorization",
        "Authorization: token ",
        c.of(HEX, 40),
        "\n",
    );
    within(
        "authorization",
        "\"Authorization\": \"ApiKey ",
        c.of(ALNUM, 30),
        "\"",
    );
    within("password", "DB_PASSWORD=", "Zx81-ab!9".into(), "\n");
    within("password", "password: ", "tr0ub4dor3".into(), "\n");
    within(
        "password",
        "{\"password\":\"",
        "it's".replace('\'', "7X") + "N0tThat",
        "\"}",
    );
    within("password", "{\\\"passwd\\\":\\\"", c.of(ALNUM, 12), "\\\"}");
    within("password", "<password>", c.of(ALNUM, 12), "</password>");
    within("token", "export MY_TOKEN=\"", c.of(ALNUM, 32), "\"");
    within("token", "--token ", c.of(ALNUM, 32), " run");
    within("token", "accessToken: '", c.of(URL64, 40), "'");
    within("api-key", "X-Api-Key: ", c.of(HEX, 32), "\n");
    within("api-key", "?api_key=", c.of(ALNUM, 20), "&x=1");
    within("api-key", "apiKey = \"", c.of(ALNUM, 24), "\";");
    within("secret", "client_secret=", c.of(ALNUM, 32), "\n");
    samples
}
