//! Forms in which a name and its value are written: in settings, programs, tables and prose.

use super::*;

/// A value that a machine made, and passwords that people chose.
const VALUE: &str = concat!("q7Rk2ZpL9v", "XwT4mN8sYb");
const CHOSEN: &[&str] = &["Sommer2024!", "hunter2x", "Tr0ub4dor&3"];

/// Checks that no part of the value, which stands for `{}`, remains.
fn check(form: &str, value: &str) {
    let text = form.replace("{}", value);
    let redactor = Redactor::default();
    let out = redactor.redact(&text);
    for part in value.split('&') {
        assert!(!out.contains(part), "{text}\n{out}");
    }
    assert!(out.contains("[REDACTED:"), "{out}");
    assert_eq!(redactor.redact(&out), out, "twice");
    let whole = streamed(&redactor, text.as_bytes(), &[]);
    let bytewise: Vec<usize> = (0..text.len()).collect();
    assert_eq!(streamed(&redactor, text.as_bytes(), &bytewise), whole);
}

#[test]
fn the_words_of_harmless_tokens_hide_no_other_secret() {
    for name in [
        "SPLUNK_PASSWORD",
        "RSYNC_PASSWORD",
        "CURSOR_API_KEY",
        "STATUSPAGE_API_KEY",
        "ETHERPAD_PASSWORD",
        "LAUNCHPAD_TOKEN",
        "METAMASK_PASSWORD",
        "IMAX_PASSWORD",
        "splunk_token",
        "NEXT_SECRET",
        "CSRF_SECRET_KEY",
        "X_PUBLIC_PASSWORD",
        "SSH_KEY",
        "HMAC_KEY",
        "DEPLOY_KEY",
        "LICENSE_KEY",
        "DB_PW",
        "ADMIN_PW",
        "pgpass",
        "dbpass",
        "REDIS_AUTH",
        "GITHUB_PAT",
        "ALGOLIA_ADMIN_KEY",
        "CLOUDFLARE_GLOBAL_KEY",
        "802-11-wireless-security.psk",
        "Key Content",
        "Unseal Key 1",
        "WIF",
        "X-Auth-Key",
        "Fastly-Key",
    ] {
        check(&format!("{name}={{}}\n"), VALUE);
        check(&format!("{name}: {{}}\n"), VALUE);
    }
}

#[test]
fn a_chosen_password_is_found_in_every_form_of_a_setting() {
    for form in [
        "- name: DB_PASSWORD\n  value: {}",
        "- name: DB_PASSWORD\r\n  value: {}\r\n",
        "\"name\":\"DB_PASSWORD\",\"value\":\"{}\"",
        "define('DB_PASSWORD', '{}');",
        "define( 'DB_PASSWORD', '{}' );",
        "define( \"DB_PASSWORD\", \"{}\" );",
        "setenv(\"DB_PASSWORD\", \"{}\", 1);",
        "| DB_PASSWORD | {} |",
        "| `DB_PASSWORD` | `{}` |",
        "#define PASSWORD \"{}\"",
        "setx DB_PASSWORD {}",
        "set -gx DB_PASSWORD {}",
        "public string Password { get; set; } = \"{}\";",
        "val password: String = \"{}\"",
        "ENV DB_PASS {}",
        "password: |\n  {}",
        "password: >-\n  {}",
        "**Password:** {}",
        "**Password**: `{}`",
        "DB_PW={}\n",
        "export FTP_PW={}",
        "$env:ADMIN_PW = \"{}\"",
        "MYSQL_ROOT_PW: {}",
        "REDIS_AUTH={}",
        "string ConnPwd = @\"{}\";",
        "stringData:\n  pgpass: \"{}\"",
        "802-11-wireless-security.psk:           {}",
        "    Key Content            : {}",
        // SQL.
        "ALTER ROLE app ENCRYPTED PASSWORD '{}' VALID UNTIL 'infinity'",
        "CREATE LOGIN app WITH PASSWORD = N'{}', CHECK_POLICY = OFF",
        "ALTER USER 'x'@'y' IDENTIFIED WITH mysql_native_password BY '{}'",
        "create user x identified by '{}'",
        "-[ RECORD 1 ]--\nid       | 1\npassword | {}",
        "sqlplus scott/{}@//db:1521/ORCL",
        "sqlplus -S \"scott/{}@db\"",
        "SQL> connect system/{}@prod as sysdba",
        // Terraform.
        "      ~ password             = \"{}\" -> (known after apply)",
        "      ~ password = \"short\" -> \"{}\"",
        "  \"db_password\": {\n    \"sensitive\": true,\n    \"type\": \"string\",\n    \"value\": \"{}\"\n  }",
        "{\"db_password\":{\"value\":\"{}\",\"type\":\"string\"}}",
        // Programs.
        "ConvertTo-SecureString \"{}\" -AsPlainText -Force",
        "ConvertTo-SecureString -AsPlainText -Force '{}'",
        "New-Object System.Net.NetworkCredential(\"bob\", \"{}\")",
        "requests.get(url, auth=(\"bob\", \"{}\"))",
        "HTTPBasicAuth('bob', '{}')",
        "builder.password(\"{}\")",
        "config.setPassword(\"{}\");",
        "process.env.DB_PASSWORD || \"{}\"",
        "process.env.DB_PASSWORD ?? '{}'",
        "${DB_PASSWORD:-{}}",
        "app:{}@tcp(db)/shop?parseTime=true",
        "DSN=app:{}@tcp(db)/shop",
        // Networks.
        "snmpwalk -v2c -c {} 10.0.0.1",
        "rocommunity {} 10.0.0.0/8",
        "snmp-server community {} RO",
        "username admin privilege 15 password 0 {}",
        "enable secret 0 {}",
        "net use \\\\h\\s /user:bob {}",
        "net use Z: \\\\h\\s {} /user:bob",
        // Prose.
        "the root password has been set to \"{}\"",
    ] {
        for password in CHOSEN {
            check(form, password);
        }
    }
}

#[test]
fn a_key_is_found_in_every_form() {
    for form in [
        // As models write it.
        "**Password:** {}",
        "**Password:** `{}`",
        "- **API key**: `{}`",
        "**password**: {}",
        "__API key:__ {}",
        "* Password: **{}**",
        "| `DB_PASSWORD` | `{}` |",
        "| **Password** | {} |",
        "My wifi password is {}",
        "env: the password is {}",
        "Secret Key: {}",
        "Private key: {}",
        "Auth key: {}",
        "Encryption key: {}",
        "Pass phrase: {}",
        // YAML.
        "password: |\r\n  {}",
        "password: |2\n  {}",
        "password: |4\n    {}",
        "password: >- # folded\n  {}",
        "password: |\n\n  {}",
        "password: |\n\t{}",
        "password:\t{}",
        "password: &anchor {}",
        "password: !!str {}",
        "password: !!str &anchor {}",
        // Programs.
        "const API_KEY: &str = \"{}\";",
        "const API_KEY: &'static str = \"{}\";",
        "const apiKey: string = \"{}\"",
        "val password: String = \"{}\"",
        "API_KEY: str = '{}'",
        "var apiKey string = \"{}\"",
        "os.Setenv(\"API_KEY\", \"{}\")",
        "setenv(\"DB_PASSWORD\", \"{}\", 1)",
        "os.getenv(\"API_KEY\", \"{}\")",
        "headers.set(\"X-Api-Key\", \"{}\")",
        "ENV API_TOKEN {}",
        "ENV DB_PASS {}",
        // Encoded.
        "Password\\u003d{}",
        "\"conn\":\"Server\\u003dx;Password\\u003d{};\"",
        "?q=password%3D{}&y=1",
        "//registry.example/:_auth={}",
        "Authorization: SharedKey account:{}",
        "Authorization: SSWS {}",
        "Authorization: Digest username=\"b\", nonce=\"abc\", uri=\"/\", response=\"{}\"",
        "Authorization: AWS4-HMAC-SHA256 Credential=x/s3/aws4_request, SignedHeaders=host, Signature={}",
        "process.env.SECRET_KEY || \"{}\"",
        "Unseal Key 1: {}",
        "Please use the following password to proceed to installation:\n\n{}\n\nThis may also",
        "Password for the elastic user (reset with `bin/elasticsearch-reset-password`):\n  {}",
        "ngrok config add-authtoken {}",
        // Commands and addresses.
        "curl -sSu admin:{} https://x",
        "curl -s -H 'A: b' -fLu 'admin:{}' https://x",
        "jdbc:oracle:thin:scott/{}@//h:1521/x",
    ] {
        check(form, VALUE);
    }
}

#[test]
fn a_value_goes_on_behind_a_sign_in_a_code_of_json() {
    let c = &mut TestRandom(23);
    for _ in 0..50 {
        let (first, second) = (c.of(ALNUM, 40), c.of(ALNUM, 43));
        let text = format!("AccountKey={first}\\u002B{second}\\u003D\\u003D;x");
        let out = Redactor::default().redact(&text).into_owned();
        assert_eq!(out, "AccountKey=[REDACTED:azure-storage-key];x", "{text}");
    }
}

#[test]
fn keys_of_several_lines_are_removed_whole_whatever_stands_before_the_lines() {
    let c = &mut TestRandom(31);
    let key = format!("LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0t{}=", c.of(BASE64, 603));
    let rows: Vec<&str> = (0..key.len())
        .step_by(76)
        .map(|at| &key[at..key.len().min(at + 76)])
        .collect();
    let line = |n: usize| {
        [
            String::new(),
            "> ".into(),
            format!("{:6}\t", n + 1),
            format!("key.b64:{n}:"),
        ]
    };
    for prefix in 0..4 {
        let lines = rows.iter().enumerate();
        let lines: Vec<String> = lines
            .map(|(n, row)| format!("{}{row}", line(n)[prefix]))
            .collect();
        let text = format!("{}\n{}and go on\n", lines.join("\n"), line(99)[prefix]);
        let out = Redactor::default().redact(&text).into_owned();
        let expected = format!(
            "{}[REDACTED:private-key]\n{}and go on\n",
            line(0)[prefix],
            line(99)[prefix]
        );
        assert_eq!(out, expected);
    }
    let rows: Vec<String> = (0..8).map(|_| c.of(BASE64, 64)).collect();
    let body = rows.join("\n");
    for (text, expected) in [
        (
            format!("Private-Lines: 8\n{body}\nPrivate-MAC: 12ab\n"),
            "Private-Lines: 8\n[REDACTED:private-key]\nPrivate-MAC: 12ab\n",
        ),
        (
            format!(
                "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nComment: \"x\"\n{body}\n---- END SSH2 ENCRYPTED PRIVATE KEY ----\nnext\n"
            ),
            "[REDACTED:private-key]\nnext\n",
        ),
    ] {
        assert_eq!(Redactor::default().redact(&text), expected, "{text}");
    }
}

#[test]
fn other_values_in_these_forms_stay() {
    let redactor = Redactor::default();
    for text in [
        "| password | char(41) | NO |",
        "| Password | Description | Other1Column2Name3Xy |",
        "| Password | at least 8 | min:8 |",
        "<input type=\"password\" name=\"pw1a2b\" class=\"form-control-2x\">",
        "input(\"password\", \"col-md-6\")",
        "validate(\"password\", \"min:8|max32\")",
        "#define TOKEN_TYPE_A1B2 0x1F2E3D4C5B6A7988",
        "the api key is sha256:9f86d081884c7d659a2feaa0c55ad015",
        "the token is Base64Encoded2String",
        "password: *anchor",
        "password: &anchor\n  user: bob2",
        "password: |\n  minLength: 12",
        "password: !!null\n",
        "csrf_token: a1B2c3D4e5F6g7H8",
        "nextToken=a1B2c3D4e5F6g7H8",
        "x_page_token: a1B2c3D4e5F6g7H8",
        "password * 12 ** token_2",
        "ssh-key: ssh-ed25519",
        "SSH_KEY=/home/bob/.ssh/id_ed25519",
        "ssh_key: ~/.ssh/id_ed25519",
        "*SECRET*|PASS|CREDENTIAL|COOKIE2|PAT",
        "curl -sSf https://x.example:8080/a",
        "let token: Option<&str> = None;",
        "{\"d\": \"3d\", \"e\": 4}",
        "user.signingkey=9F3B2C5D7E8A1B4C6D0E3F5A7B9C1D2E4F6A8B0C",
        "--- PASS: TestHTTP2Server (0.00s)",
        "ssh_key: \"AAAAC3NzaC1lZDI1NTE5AAAAIG1vZGVybmtleTEyMzQ1Njc4OTAxMjM0NTY3ODkw\"",
        "masterKey: \"arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab\"",
        "#password_encryption = scram-sha-256",
    ] {
        assert_eq!(redactor.redact(text), text);
    }
}

#[test]
fn secrets_are_found_by_the_form_of_their_file() {
    check(
        "# Netscape HTTP Cookie File\n.example.com\tTRUE\t/\tFALSE\t1893456000\tlang\tde\n\
         #HttpOnly_www.example.com\tFALSE\t/app\tTRUE\t0\tsid\t{}\n",
        VALUE,
    );
    check(
        ".example.com    TRUE    /       TRUE    1893456000      sessionid       {}",
        VALUE,
    );
    check("WIFI:T:WPA;S:My\\;Home;P:{};H:false;;", "correct horse");
    check("WIFI:S:Home;P:{};;", VALUE);
    for password in CHOSEN {
        check(
            "variable \"db_password\" {\n  description = \"Of the database\"\n  type        = string\n  default     = \"{}\"\n}\n",
            password,
        );
        check(
            "variable \"api_token\" {\n  default = \"{}\"\n}\n",
            password,
        );
    }
    let harmless = [
        "variable \"region\" {\n  default = \"eu-central-1\"\n}\nvariable \"db_password\" {}\n",
        "variable \"db_password\" {\n}\nvariable \"zone\" {\n  default = \"Sommer2024\"\n}\n",
        "wifi: the password is printed on the box",
        "WIFI:T:nopass;S:Guests;;",
        ".example.com\tTRUE\t/\tFALSE\t1893456000\tlang\tde\n",
        "is it true / false",
    ];
    for text in harmless {
        assert_eq!(Redactor::default().redact(text), text);
    }
}

#[test]
fn secrets_are_found_by_their_form_alone() {
    let c = &mut TestRandom(43);
    let hash = c.of(HEX, 32);
    for (form, value) in [
        (
            "Administrator:500:aad3b435b51404eeaad3b435b51404ee:{}:::",
            &*hash,
        ),
        ("enable password 7 {}", "4E904E9048D999AE9B995B"),
        ("Secret ID    = {}", &hash),
        ("SecretID:         {}", &hash),
        (
            "Mnemonic: {}",
            "abandon grit lunar velvet orbit cabin sketch hazard velvet tilt rocket pony",
        ),
        (
            "seed phrase: \"{}\"",
            "legal winner thank year wave sausage worth useful legal winner thank yellow",
        ),
        (
            "https://x.example/c/b?sp=r&sig={}%3D",
            "gsF03e745nYJgIzB3MjctS3f4cpxTI-1UGkJ2cR8Ay0",
        ),
    ] {
        check(form, value);
    }
}

#[test]
fn similar_forms_of_other_values_stay() {
    let redactor = Redactor::default();
    for text in [
        "sk-ssh-ed25519-cert-v01@openssh.com,sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
        "HEX_PAT = \"[0-9A-Fa-f]{1,4}\"",
        "pub pat: nl80211_pattern_support2,",
        "JAVA_PATH=/usr/lib/x86_64-linux-gnu/jvm2",
        "TLS_PSK_WITH_AES_128_CBC_SHA256: 0x00AE",
        "pattern: ^[a-z0-9]{8}$, path=A1b2C3d4E5f6g7",
        "compat: A1b2C3d4E5f6g7h8i9",
        "secret_id: prod/database-2024-x2x9",
        "IDENTIFIED BY the team of 2024",
        "getPassword(\"db2.prod.example1\")",
        "find_by_token(\"A1b2C3d4E5f6g7h8\")",
        "process.env.DB_PASSWORD || \"\"",
        "${DB_PASSWORD:-}",
        "${DB_PASSWORD:-${OTHER_PASSWORD2}}",
        "      ~ instance_type = \"t3.micro2\" -> \"t3.large4\"",
        "{\"password_policy\": {\"value\": \"min8chars1\"}}",
        "{\"password\": {\"type\": \"string\"}}, {\"value\": \"Sommer2024!\"}",
        "password 8 characters long",
        "snmpwalk -v2c -c public 10.0.0.1",
        "rocommunity public",
        "net use",
        "net use \\\\h\\s /user:bob *",
        "Mnemonic: the first letters of all the words that come with the names and numbers",
        "mnemonic: short words only here",
        "root:x:0:0::: end",
        "connect to the host/user2@x for more",
        "sqlplus / as sysdba",
        "auth=(user, password2)",
        "dial @tcp(host)",
        "10:30@tcp(",
        "session_0123456789abcdef0123456789abcdef0123456789",
        "re_compile_2024_pattern_with_many_words_v2",
        "1/2 of 2/3 and 1/12/2024: 5",
        "Please set a password:\n\nand confirm it below",
        "secrets:\n  name2: x1y2z3\n",
        "response=\"0123456789abcdef01234567\"",
        "bash -c 'echo A1b2C3d4'",
        "passphrase 4 words",
    ] {
        assert_eq!(redactor.redact(text), text);
    }
}
