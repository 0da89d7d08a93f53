//! Signs within a password and around it, that end other values.

use super::*;

/// Returns what is left of a text.
fn left(text: &str) -> String {
    let redactor = Redactor::default();
    let out = redactor.redact(text).into_owned();
    let whole = streamed(&redactor, text.as_bytes(), &[]);
    let bytewise: Vec<usize> = (0..text.len()).collect();
    assert_eq!(streamed(&redactor, text.as_bytes(), &bytewise), whole);
    out
}

/// Checks that no part of the value, which stands for `{}`, remains, and that nothing else is removed.
fn check(form: &str, value: &str) {
    let text = form.replace("{}", value);
    let out = left(&text);
    let kept: Vec<_> = form.split("{}").collect();
    let is_whole = out.starts_with(kept[0]) && out.ends_with(kept[1]);
    assert!(is_whole && out.contains("[REDACTED:"), "{text}\n{out}");
    for part in [&value[..8], &value[value.len() - 8..]] {
        assert!(!out.contains(part), "{text}\n{out}");
    }
}

#[test]
fn a_password_may_contain_any_sign() {
    for sign in "!@#$%^&*()-_=+[]{}|;:,.<>?/~".chars() {
        let value = format!("Xk9mQv2TrWa{sign}Zp4nBd7HsYeq");
        for form in [
            "DB_PASSWORD={}\nX=1\n",
            "DB_PASSWORD='{}'\n",
            "db:\n  password: {}\n  user: x\n",
            "db:\n  password: \"{}\"\n",
            "{\"user\":\"x\",\"password\":\"{}\"}",
            "{\"m\":\"{\\\"password\\\":\\\"{}\\\"}\"}",
            "[db]\npassword = {}\nport = 1\n",
            "db.password={}\n",
            "connect(user='x', password='{}')",
            "level=info password={} ip=1.2.3.4\n",
            "Password: {}\n",
            "tool --password '{}' go\n",
        ] {
            check(form, &value);
        }
        check("SECRET_KEY={}\nX=1\n", &value);
    }
    for (sign, form) in [
        ("'", "{\"password\":\"{}\"}"),
        ("\\\"", "{\"password\":\"{}\"}"),
        ("`", "{\"password\":\"{}\"}"),
        ("\"", "password='{}'"),
        ("\\\\", "password=\"{}\""),
        ("''", "password = '{}'"),
        (" ", "DB_PASSWORD=\"{}\"\n"),
        ("'", "password: {}\n"),
        ("\"", "password = {}\n"),
    ] {
        check(form, &format!("Xk9mQv2TrWa{sign}Zp4nBd7HsYeq"));
    }
    for sign in ["(", ")", "[", "{", "|", "<", ">", "?", "/", "&"] {
        check(
            "postgres://x:{}@db/app\n",
            &format!("Xk9mQv2TrWa{sign}Zp4nBd7HsYeq"),
        );
    }
}

#[test]
fn a_password_may_begin_with_any_sign_of_a_reference_or_an_option() {
    for sign in ["-", ":", "%", "&", "@", "*", "$", "/", "<", "(", "[", "{"] {
        for rest in ["Hw9hG0AsB7aZ", "kX3mQz8TbW", "aB3xK9.mP2-vQ"] {
            for form in [
                "password: {}\nx: 1\n",
                "password: \"{}\"\n",
                "{\"password\": \"{}\"}",
                "export DB_PASSWORD='{}'\n",
                "password = {}\n",
                "password = \"{}\"\n",
                "name,value\nDB_PASSWORD,{}\na,b\n",
                "{\"name\":\"DB_PASSWORD\",\"value\":\"{}\"}",
                "mysql --password={} x\n",
            ] {
                // What opens before a value in quotes does not belong to a word without them.
                let text = form.replace("{}", &format!("{sign}{rest}"));
                let out = left(&text);
                assert!(!out.contains(&rest[..5]), "{text}\n{out}");
            }
        }
    }
    // What Terraform makes.
    let letters = concat!(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
        "0123456789!@#$%&*()-_=+[]{}<>:?"
    );
    let c = &mut TestRandom(53);
    let mut missed = Vec::new();
    for _ in 0..500 {
        let value = c.of(letters, 16);
        let text = format!("{{\"user\": \"bob\", \"password\": \"{value}\"}}");
        if left(&text).contains(&value) {
            missed.push(value);
        }
    }
    assert!(missed.len() <= 5, "{missed:?}");
}

#[test]
fn references_and_options_are_not_passwords() {
    for value in [
        "$VAR",
        "${VAR}",
        "${DB_PASS2:-x}",
        "$DB_PASSWORD_2",
        "$env:DB_PASS2",
        "$dbPass1",
        "%VAR%",
        "%DB_PASS2%",
        "%DbPass2%",
        "*anchor",
        "*dbPass2",
        "&anchor",
        "&dbPass2",
        "@file",
        "@/run/secrets/db2",
        "/run/secrets/x",
        "/run/secrets/db_password2",
        "/etc/ssl/Private2/key.pem",
        "/api/v2/UserToken",
        "--next-option",
        "--nextOption2",
        "-pSecret1",
        "-DfooBar=Baz2",
        ":symbol",
        ":dbPass2",
        "::Type2",
        "<password>",
        "<yourPass2>",
        "{{vault_db_pass2}}",
        "{db_password2}",
        "#{password2}",
        "[a-zA-Z0-9]{8,16}",
        "List<String>",
        "Map<String,String2>",
    ] {
        for form in [
            "\"password\": \"{}\"",
            "password = \"{}\"",
            "{\"name\":\"DB_PASSWORD\",\"value\":\"{}\"}",
            "\"client_secret\": \"{}\"",
            "JWT_SECRET: {}\n",
        ] {
            let text = form.replace("{}", value);
            assert_eq!(left(&text), text);
        }
    }
}

#[test]
fn a_chosen_secret_is_found_in_every_syntax() {
    for form in [
        "JWT_SECRET={}\n",
        "JWT_SECRET: {}\n",
        "client_secret: {}\n",
        "SECRET_KEY: \"{}\"\n",
        "{\"name\":\"JWT_SECRET\",\"value\":\"{}\"}",
        "- name: client_secret\n  value: {}\n",
        "Name         Value\nSECRET_KEY   {}\n",
        "| Name | Value |\n|---|---|\n| JWT_SECRET | {} |\n",
        "name,value\nclient_secret,{}\n",
        "<add key=\"JWT_SECRET\" value=\"{}\"/>",
        "INSERT INTO s (name, value) VALUES ('JWT_SECRET', '{}');\n",
    ] {
        check(form, "Walnut6892!");
        check(form, "Tr0ub4dor&3");
    }
    for text in [
        "secret: AppConfig2\n",
        "client_secret: MyAppSecret2\n",
        "secret: Schlüssel!\n",
        "secret = Foo2.bar()\n",
        "{\"name\":\"secret\",\"value\":\"Geheimnis2\"}",
    ] {
        assert_eq!(left(text), text);
    }
}

#[test]
fn a_sign_that_belongs_to_the_text_ends_a_password() {
    for form in [
        "connect(user=x, password={})",
        "connect(password={}, user=x)",
        "{user: x, password: {}}",
        "[password={}] done",
        "<password>{}</password>",
        "the password: {}<br>x",
        "\"https://a.example/?password={}\", next",
        "{\"m\":\"password={}\",\"n\":1}",
        "{\"m\":\"password={}\\nx\"}",
        "Password={};Encrypt=True",
        "password={}&user=x",
    ] {
        check(form, "Xk9mQv2TrWaZp4nBd7");
    }
}

#[test]
fn a_token_in_place_of_a_user_is_removed_with_what_stands_for_the_password() {
    let c = &mut TestRandom(41);
    for _ in 0..20 {
        let (github, hex) = (format!("ghp_{}", c.of(ALNUM, 36)), c.of(HEX, 32));
        for user in [&github, &hex] {
            for form in [
                "https://{}:x-oauth-basic@github.com/a/b\n",
                "https://{}:x@a.example/\n",
                "curl -u {}:x-oauth-basic https://a.example\n",
                "curl -u {}: https://a.example\n",
                "smbclient -U {}%x //h/s\n",
            ] {
                let out = left(&form.replace("{}", user));
                assert!(!out.contains(&user[8..]), "{form}: {out}");
            }
        }
    }
    let stays = "https://0123456789abcdef0123456789abcdef@o1.ingest.sentry.io/2";
    assert_eq!(left(stays), stays);
}

#[test]
fn chosen_passwords_are_found_in_files_without_quotes_and_in_what_makes_a_value() {
    for form in [
        "[pypi]\nusername = ana\npassword = {}\n",
        "DB_PASSWORD = {}\n",
        "'password': ['{}']",
        "password: Some(\"{}\")",
        "let password = String::from(\"{}\");",
        "password = []byte(\"{}\")",
        "\"password\":{\"S\":\"{}\"}",
        "\"{\\u0022password\\u0022:\\u0022{}\\u0022}\"",
        "\\x22password\\x22:\\x22{}\\x22",
    ] {
        for value in ["Midnight2023$", "P@ssw0rd77", "Tr0ub4dor&3"] {
            check(form, value);
        }
    }
}

#[test]
fn words_of_other_languages_are_not_passwords() {
    for word in [
        "Contraseña",
        "Schlüssel",
        "Sessão",
        "Hasło",
        "Größe",
        "Sécurité",
        "parolă",
        "Şifre",
        "oublié",
    ] {
        for form in [
            "password: {}\n",
            "\"password\": \"{}\"",
            "<string name=\"password\">{}</string>",
            "password = {}\n",
            "secret: {}\n",
            "{\"key\":\"password\",\"value\":\"{}\"}",
            "'password' => '{}',",
            "name,value\npassword,{}\nx,y\n",
        ] {
            let text = form.replace("{}", word);
            assert_eq!(left(&text), text);
        }
    }
    check("password: {}\n", "abcdGröße2024!");
}

#[test]
fn expressions_types_and_dates_are_not_secrets() {
    for text in [
        "password: getPassword(user, 12)",
        "password = hash(req.body.password2)",
        "password = self.form[0].value2\n",
        "password: Option<Secret64>,",
        "token: Vec<[u8; 32]>,",
        "private_key: ed25519.Ed25519PrivateKey",
        "api_key: ApiGatewayApiKey",
        "token = SyntaxKind.EndOfFile;",
        "b\"RSA PRIVATE KEY\" => Self::RsaPrivateKey,",
        "\"PasswordLastUsed\": \"2016-09-08T21:47:36Z\"",
        "password_last_changed: 2016-09-08T21:47:36Z",
        "license_key: AGPL-3.0-or-later",
        "'password' => 'required|string|min:8|confirmed',",
        "token: \"--color-primary-500\"",
        "token: 0xdAC17F958D2ee523a2206206994597C13D831ec7",
        "image \"ghcr.io/shop/token:87f7bf9b85b2d6ac071891163498bbcf90eff448\"",
        "\"hashed_secret\": \"357b0b48d24315ee76b99f3762c8b03ea68cf3cc\"",
        "arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db-aB1cD2",
        "openssl req -x509 -newkey rsa:4096 -keyout key.pem -nodes",
        "/// Authorization\n/// Enable HTTP bearer authentication.",
        "CLIENT_AUTH = (130, \"clientAuth\", \"TLS Web Client Authentication\")",
        "http://a.example:8080/x?y=1&z=@scope2",
        "case \"password\" -> \"login_form2\"",
        "Map(\"secret\" -> \"SecretType2\", \"password\" -> \"Passwort1\")",
        "System.Data, Version=4.0.0.0, PublicKeyToken=b77a5c561934e089",
        "The public key token of this assembly is `b77a5c561934e089`.",
        "SECRETS_DIR=/run/secrets2",
        "Win32_System_PasswordManagement = [\"Win32_System\"]",
        "apt\tpasswd\t1:4.13+dfsg1-1\n",
    ] {
        assert_eq!(left(text), text);
    }
}

#[test]
fn formats_that_are_read_backwards_are_found_behind_a_colour() {
    let c = &mut TestRandom(43);
    for secret in [
        format!("{}-us12", c.of(HEX, 32)),
        format!("key-{}", c.of(HEX, 32)),
        format!("{}.atlasv1.{}", c.of(ALNUM, 14), c.of(ALNUM, 67)),
    ] {
        assert_eq!(
            left(&format!("\x1b[33m{secret}\x1b[0m\n")).find("[REDACTED:"),
            Some(5)
        );
    }
}

#[test]
fn a_slash_may_be_written_as_in_php() {
    for (form, value) in [
        (
            "{\"aws_secret_access_key\": \"{}\"}",
            "wJalrXUtnFEMI\\/K7MDENG\\/bPxRfiCYzkWkLQtEYq",
        ),
        (
            "{\"token\":\"{}\"}",
            "1\\/\\/0eABC2defGHI4jklMNO6pqrSTU8vwx",
        ),
        ("{\"password\":\"{}\"}", "Ab12\\/cdEF34gh"),
    ] {
        check(form, value);
    }
}
