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
