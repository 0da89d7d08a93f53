use super::*;
use crate::safety::redact::tests::INSPECTED;
use crate::safety::redact::tests::samples::{ALNUM, BASE64, HEX, TestRandom, URL64};

/// Returns a text without its secrets, and their number: as it is, and as the record of the session has it.
fn cleaned(text: &str) -> [(String, usize); 2] {
    let (names, redactor) = (OwnNames::new("", "", ""), Redactor::default());
    let clean = |text: &str| {
        let mut cleaner = Cleaner::new(&names, &redactor);
        (cleaner.clean(text), cleaner.secrets)
    };
    [clean(text), clean(&redactor.redact(text))]
}

/// Checks that secrets in a text are replaced by these marks.
fn check(text: &str, expected: &str) {
    let count = expected.matches(MARK_START).count();
    for found in cleaned(text) {
        assert_eq!(found, (expected.to_owned(), count), "{text:?}");
    }
}

#[test]
fn twice_the_text_is_twice_the_work() {
    let c = &mut TestRandom(3);
    let (run, rows) = (c.of(ALNUM, 40), c.of(ALNUM, 64));
    let lines = [
        format!("zz1Y2z3W4q5ghp_{}\u{200b}{}\n", &run[..18], &run[18..38]),
        format!("ghp_{run}"),
        "ghp_".to_owned(),
        format!("ghp_{run}\u{200b}"),
        "password:".to_owned(),
        "password:\n".to_owned(),
        format!("password: {run}\n"),
        "\u{200b}".to_owned(),
        "a\u{200b}".to_owned(),
        "\u{1b}[31m".to_owned(),
        "%67".to_owned(),
        "%67%68%70%5F%25".to_owned(),
        "%2567 ".to_owned(),
        format!("{rows}\n"),
        rows,
        "[REDACTED:github-token]".to_owned(),
        "[REDACTED:".to_owned(),
        format!("[REDACTED:password]\n{}\n", &run[..12]),
        "-----BEGIN PRIVATE KEY-----\n".to_owned(),
        "the password is ".to_owned(),
        "name: DB_PASSWORD\n".to_owned(),
        "$6$".to_owned(),
    ];
    let work = |text: &str| {
        INSPECTED.set(0);
        cleaned(text);
        INSPECTED.get()
    };
    for line in lines {
        // Each of their lines is the name of a value in many joined texts.
        let length = match &*line {
            "password:" | "password:\n" => 2_000,
            line if line.starts_with("[REDACTED:p") => 4_000,
            _ => 6_000,
        };
        let text = line.repeat(length / line.len());
        let (once, twice) = (work(&text), work(&text.repeat(2)));
        assert!(twice * 10 <= once * 24, "{line:?}: {once}, {twice}");
    }
}

#[test]
fn names_in_the_line_behind_a_secret_stay() {
    let c = &mut TestRandom(5);
    let names = [
        "host1.example-2024.com",
        "ip-10-0-3-17.eu-central-1.compute.internal",
        "user@host1.example-2024.com",
        "src/components/Button2D.test.tsx",
        "Button2D",
        "x86_64-unknown-linux-gnu",
        "aish-helper-1.2.3-linux-x86_64.tar.gz",
        "550e8400-e29b-41d4-a716-446655440000",
        "python3.12-venv-2024 installed",
        "ghcr.io/owner/app2024:latest",
        "0123456789abcdef0123456789abcdef01234567 refs/heads/main",
        "kubectl",
        "PORT=8080",
        "node18",
        "20241127T103000Z",
        "/usr/lib/x86_64-linux-gnu/libc.so.6",
    ];
    for name in names {
        for (before, kind, secret) in [
            (
                "docker login -p ",
                "password",
                format!("ghp_{}", c.of(ALNUM, 36)),
            ),
            ("password: ", "password", format!("q7K{}", c.of(ALNUM, 17))),
            ("TOKEN=", "token", c.of(ALNUM, 32)),
            ("AWS_SECRET_ACCESS_KEY=", "aws-secret-key", c.of(BASE64, 40)),
        ] {
            check(
                &format!("{before}{secret}\n{name}\n"),
                &format!("{before}[REDACTED:{kind}]\n{name}\n"),
            );
        }
    }
}

/// Breaks a text into rows of this length.
fn rows(text: &str, length: usize) -> String {
    let rows: Vec<&str> = (0..text.len())
        .step_by(length)
        .map(|at| &text[at..text.len().min(at + length)])
        .collect();
    rows.join("\n")
}

#[test]
fn a_key_in_rows_is_removed_to_its_last_row() {
    let c = &mut TestRandom(8);
    let mut left = 0;
    const ROUNDS: usize = 50;
    for _ in 0..ROUNDS {
        let aws = c.of(BASE64, 40);
        let slashes = format!("{}/a/b/{}", c.of(BASE64, 18), c.of(BASE64, 17));
        for (before, kind, secret) in [
            ("AWS_SECRET_ACCESS_KEY=", "aws-secret-key", rows(&aws, 14)),
            ("AWS_SECRET_ACCESS_KEY=", "aws-secret-key", rows(&aws, 30)),
            ("aws_secret_access_key = ", "aws-secret-key", rows(&aws, 20)),
            (
                "aws_secret_access_key = ",
                "aws-secret-key",
                rows(&slashes, 16),
            ),
            ("password = ", "password", rows(&c.of(ALNUM, 24), 12)),
            ("MASTER_KEY=", "secret", rows(&c.of(HEX, 64), 32)),
            (
                "key ",
                "anthropic-key",
                rows(&format!("sk-ant-api03-{}", c.of(URL64, 93)), 20),
            ),
        ] {
            let names = OwnNames::new("", "", "");
            let redactor = Redactor::default();
            let text = format!("{before}{secret}\nafter words\n");
            let clean = Cleaner::new(&names, &redactor).clean(&text);
            if !kind.starts_with("secret") && redactor.find(&text).is_empty() {
                continue;
            }
            assert!(clean.ends_with("\nafter words\n"), "{text}: {clean}");
            let rest = clean.strip_suffix("\nafter words\n").unwrap();
            left += usize::from(rest.contains('\n'));
        }
    }
    assert!(left * 50 <= ROUNDS * 7, "{left}");
}

#[test]
fn the_end_of_a_line_is_a_blank_behind_a_name_only() {
    for (text, expected) in [
        (
            "machine a.example login me password tZeUJDgVJhYk\nmachine b.example login you password tZeUJDgVJhYq\nmachine c",
            "machine a.example login me password [REDACTED:password]\nmachine b.example login you password [REDACTED:password]\nmachine c",
        ),
        (
            "<password>tZeUJDgVJhYk</password>\nPORT=8080\n",
            "<password>[REDACTED:password]</password>\nPORT=8080\n",
        ),
        (
            "ALTER ROLE a WITH password tZeUJDgVJhYk\nkubectl2get\n",
            "ALTER ROLE a WITH password [REDACTED:password]\nkubectl2get\n",
        ),
        (
            "password:\n  tZeUJDgVJhYk\nx",
            "password:\n  [REDACTED:password]\nx",
        ),
        (
            "password =\ntZ3UJ7gV9hYk",
            "password =\n[REDACTED:password]",
        ),
        (
            "password: [REDACTED:password]\ntoken:\nname2get3all4x",
            "password: [REDACTED:password]\ntoken:\n[REDACTED:token]",
        ),
        (
            "api_key:\nq7Rk2ZpL9vXwT4mN8sYbq7Rk2ZpL==\nx",
            "api_key:\n[REDACTED:api-key]\nx",
        ),
    ] {
        check(text, expected);
    }
    // The next line is not the value of a name without one.
    for text in [
        "DB_PASSWORD=\nDB_PORT=5432\nDB_PASSWORD=\nDB_PORT=",
        "password:\n  user2name: bob",
        "db_password:\n  s3_token:\n  x4_y5:",
        "Password:\nanna@web1:~$ ls",
        "Enter password:\nLogin2 incorrect",
        "pass => $bool,\n  name => $name,\n  k2 => 3",
    ] {
        check(text, text);
    }
}

#[test]
fn names_of_capitalised_words_behind_a_mark_stay() {
    for name in [
        "iPhone15Pro",
        "K8sDeploymentV2",
        "MyApp2FooBar",
        "getUser2ByName",
        "S3BucketName",
        "ProductId12345AB",
    ] {
        for kind in ["github-token", "password", "jwt"] {
            let text = format!("use [REDACTED:{kind}]\n{name}\nthen");
            check(&text, &text);
        }
    }
    // A key of a certain length has no rest.
    let text = "use [REDACTED:aws-key]\nx7Rk2ZpL9vXw\nthen";
    check(text, text);
    check(
        "use [REDACTED:password]\nx7Rk2ZpL9vXw\nthen",
        "use [REDACTED:password]\nthen",
    );
}

#[test]
fn nothing_is_the_rest_of_a_whole_private_key() {
    let c = &mut TestRandom(9);
    let key = format!(
        "-----BEGIN PRIVATE KEY-----\n{}\n{}\n-----END PRIVATE KEY-----",
        c.of(BASE64, 64),
        c.of(BASE64, 64)
    );
    for next in ["deadbeefcafe1234", "OK2", "fooBar2Baz", "eth0"] {
        check(
            &format!("{key}\n{next}\nthen"),
            &format!("[REDACTED:private-key]\n{next}\nthen"),
        );
    }
}

#[test]
fn percent_codes_hide_no_secret() {
    let key = "ghp_0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX";
    let encoded: String = key.bytes().map(|b| format!("%{b:02X}")).collect();
    let twice = encoded.replace('%', "%25");
    let mark = "[REDACTED:github-token]";
    for hidden in [
        encoded.clone(),
        twice,
        format!("%67{}", &key[1..]),
        encoded.replace("%5F", "%\u{200b}5F"),
    ] {
        check(
            &format!("see https://a.example/?t={hidden}&x=100%25 of %FF%C3%B6"),
            &format!("see https://a.example/?t={mark}&x=100%25 of %FF%C3%B6"),
        );
    }
    check(
        "see https://a.example/?q=password%3Dq7Rk2ZpL9vXw&y=1",
        "see https://a.example/?q=password%3D[REDACTED:password]&y=1",
    );
    let json = format!("{{\"a\": \"\\u0067{}\"}}", key.get(1..).unwrap());
    check(&json, &format!("{{\"a\": \"{mark}\"}}"));
    check(
        "{\"dsn\":\"postgres:\\/\\/app:Xk29fLq8Zp@db.example.org\\/x\"}",
        "{\"dsn\":\"postgres:\\/\\/app:[REDACTED:url-password]@db.example.org\\/x\"}",
    );
    check("C:\\u00zz\\u0e9 \\u00e9", "C:\\u00zz\\u0e9 \\u00e9");
}

#[test]
fn colours_within_a_key_hide_it_not() {
    let [a, b] = ["ghp_0aB1cD2eF3gH4iJ5", "kL6mN7oP8qR9sT0uV1wX"];
    for code in [
        "\u{1b}[0m",
        "\u{1b}[38;5;12m",
        "\u{1b}[K\u{1b}[1m",
        "\u{1b}(B\u{1b}[m",
        "\u{9b}31m",
        "\u{1b}]8;;https://x.example\u{1b}\\",
        "\u{1b}]8;;\u{7}",
        "\u{1b}=",
    ] {
        // A control character of two bytes looks like a letter of the value.
        if !code.starts_with('\u{9b}') {
            check(
                &format!("password={code}q7Rk2ZpL9vXw z"),
                &format!("password={code}[REDACTED:password] z"),
            );
        }
        check(
            &format!("a \u{1b}[31m{a}{code}{b}\u{1b}[0m z"),
            "a \u{1b}[31m[REDACTED:github-token]\u{1b}[0m z",
        );
    }
    for text in ["\u{1b}[0m text \u{1b}[", "\u{1b}]0;title\nnext"] {
        check(text, text);
    }
}
