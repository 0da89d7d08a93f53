//! False positives: text without secrets that must not change.

use super::*;

fn silent(text: &str) {
    let found = Redactor::default().find(text);
    let shown: Vec<_> = found
        .iter()
        .map(|f| (&*f.kind, &text[f.range.clone()]))
        .collect();
    let near = found.first().map(|f| {
        let lossy = |r: Range<usize>| String::from_utf8_lossy(&text.as_bytes()[r]).into_owned();
        lossy(f.range.start.saturating_sub(60)..(f.range.end + 20).min(text.len()))
    });
    assert!(found.is_empty(), "{shown:?} in {near:?}");
}

#[test]
fn digests_ids_and_dumps_are_not_secrets() {
    let c = &mut TestRandom(11);
    for n in 0..2000 {
        let sha1 = c.of(HEX, 40);
        let sha256 = c.of(HEX, 64);
        let uuid = format!(
            "{}-{}-4{}-a{}-{}",
            c.of(HEX, 8),
            c.of(HEX, 4),
            c.of(HEX, 3),
            c.of(HEX, 3),
            c.of(HEX, 12)
        );
        let text = format!(
            "commit {sha1}\nMerge: {} {}\nindex {}..{} 100644\n{sha256}  file-{n}.tar.gz\nsha256:{sha256}\n\
             image@sha256:{sha256}\nid = {uuid}\n\"requestId\": \"{uuid}\"\n/objects/{}/{}\n\
             \"integrity\": \"sha512-{}==\",\n\"resolved\": \"https://registry.npmjs.org/x/-/x-1.{n}.tgz#{sha1}\"\n\
             checksum = \"{sha256}\"\nhttps://example.org/{uuid}?v={sha1}\n{}: {} {}  |{}|\nsession-{uuid}\n\
             etag: W/\"{}\"\nkey: {sha1}\nuser@{}\nh1:{}=\ntoken count: {n}\ncache-key-{}\n",
            &sha1[..7],
            &sha1[7..14],
            &sha1[..7],
            &sha1[8..15],
            &sha1[..2],
            &sha1[2..],
            c.of(BASE64, 86),
            c.of(HEX, 8),
            c.of(HEX, 4),
            c.of(HEX, 4),
            c.of(ALNUM, 8),
            c.of(HEX, 32),
            c.of(HEX, 32),
            c.of(BASE64, 43),
            c.of(HEX, 32),
        );
        silent(&text);
    }
}

#[test]
fn pictures() {
    let c = &mut TestRandom(13);
    silent(&format!(
        "data:image/png;base64,iVBORw0KGgo{}==",
        c.of(BASE64, 2_000_000)
    ));
    let lines: Vec<_> = (0..20_000).map(|_| c.of(BASE64, 76)).collect();
    silent(&lines.join("\n"));
    silent(&format!("{{\"blob\":\"{}\"}}", c.of(URL64, 500_000)));
}

#[test]
fn placeholders_are_not_secrets() {
    for text in [
        "password=changeme",
        "password: \"your-password-here\"",
        "PASSWORD=$DB_PASSWORD",
        "token=${TOKEN}",
        "api_key: <your api key>",
        "api_key=<API_KEY>",
        "token: xxxxxxxxxxxxxxxxxxxxxxxx",
        "SECRET=********************",
        "password = os.environ[\"PASSWORD\"]",
        "token = get_token(user1, 23)",
        "apiKey: process.env.API_KEY_2",
        "Authorization: Bearer $TOKEN",
        "Authorization: Bearer <token>",
        "Authorization: Bearer YOUR_TOKEN_HERE",
        "Authorization: Basic [REDACTED:basic-auth]",
        "https://user:password@example.org",
        "https://user:pass@host",
        "https://user:$PASS@host",
        "postgres://user:${DB_PASS}@db/x",
        "git@github.com:a/b.git",
        "ssh://git@github.com:22/x",
        "http://localhost:8080/@scope/x",
        "https://unpkg.com/react@18.2.0/x.js",
        "npm_config_cache_directory_is_here_and_long",
        "sk-fading-circle sk-cube-grid-animation-2",
        "helpdesk-admin-tool-configuration-for-the-whole-team",
        "task-proj-with-a-long-name-of-many-words-and-2-digits",
        "usb_secret_manager_configuration_and_more",
        "risk_test_integrationtestsofeverything",
        "ghp_...",
        "ghp_xxx",
        "AKIAIOSFODNN7EXAMPLE",
        "export GITHUB_TOKEN",
        "export OPENAI_API_KEY=your-key-here",
        "export OPENAI_API_KEY=sk-...",
        "export API_TOKEN=changeme1",
        "export API_TOKEN=$(pass show api/token1)",
        "export SSH_KEY=/home/bob/.ssh/id_ed25519",
        "export SECRET_NAME=database1-credentials",
        "export MAX_TOKENS=4096tokens",
        "export AISH_KEY=^[a1234567",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "the header -----BEGIN RSA PRIVATE KEY----- begins a key",
        "nextPageToken: \"CAUQAA1b2C3d4E5f6G7h8\"",
        "max_tokens=4096000000000000",
        "total_tokens: 1234567890123456",
        "\"token_type\": \"Bearer\"",
        "password_hash_algorithm: pbkdf2_sha256_v2",
        "bypass=A1b2C3d4E5f6",
        "compass: N45E23W12S9a",
        "secretName: my-app-5d4f8b9c7-x2x9z",
        "passwordField: 'input-24-a9f3'",
        "tokenizer: cl100k_base_v2_2024",
        "kubectl get secret my-secret-1 -o yaml",
        "the password is wrong 12 times",
        "the token is sha256-based and valid for 3600 seconds",
        "the password for host1.example-2024.com is in the vault",
        "the secret is stored in app/config/Secrets2024.production.yaml",
        "the api key is at https://example.com/keys/2024",
        "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef:\n      name: my-secret-2x9z7",
        "- name: DB_PASSWORD\n  value: $(VAULT_PASSWORD_2)",
        "<input name=\"password\" value=\"\">",
        "#define TOKEN_MAX 4096",
        "#define PASSWORD_FILE \"/etc/app/password2.conf\"",
        "| token | an opaque value of 32 characters |",
        "| password | string, 8-64 characters |",
        "set -x PASSWORD_STORE_DIR /home/bob/store2024",
        "sed 's/(a)(b)/$1$2$3/' and echo $1$5$6$2a$2b",
        "password: |\n  minLength: 12",
        "pass: 3 fail: 0 of 1203",
        "PASS: test_1_a2b3c4",
        "let token = self.tokens.next_token2;",
        "fn secret(key: &str) -> Secret2Value {",
        "token: CancellationToken,",
        "password: String,",
        "const secret: Option<Secret64> = None;",
        "if (password == other.password2) {",
        "--password-file /run/secrets/db1",
        "1/10:AAbc",
        "PWD=/home/user/projects/app2024",
        "OLDPWD=/tmp/x1y2z3a4b5c6",
        "public_token=\"a\"",
        "mfa.enabled",
        "a.b.c",
        "x.y_z12.longer_method_name_here_1",
        "password must have 8 characters, 1 digit",
        "Bearer authentication is described in RFC6750 section 2.1",
        "task-0123456789abcdef0123456789",
        "SKU: SK0001",
        "https://sentry.io/x@y",
        "please connect alice/bob@example.com with the others",
        "reconn user/abc12@x and the conn a/bcd@e",
    ] {
        silent(text);
    }
}
