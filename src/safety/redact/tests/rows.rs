//! Secrets in several lines, and lines behind what programs print before them.

use super::*;

/// What programs print before a line, behind it, and where it is quoted.
fn wrapped(text: &str) -> Vec<(&'static str, String)> {
    let lines = |wrap: &dyn Fn(usize, &str) -> String| {
        let lines = text.lines().enumerate();
        lines
            .map(|(n, line)| wrap(n + 1, line))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let json = |text: &str| serde_json::json!({ "output": text, "code": 0 }).to_string();
    vec![
        ("plain", text.to_owned()),
        ("cat -n", lines(&|n, line| format!("{n:6}\t{line}"))),
        (
            "grep -n",
            lines(&|n, line| format!("conf/app.yaml:{n}:{line}")),
        ),
        ("diff +", lines(&|_, line| format!("+{line}"))),
        ("diff -", lines(&|_, line| format!("-{line}"))),
        ("compose", lines(&|_, line| format!("web-1  | {line}"))),
        (
            "log",
            lines(&|_, line| format!("2026-11-27T10:00:00.000Z app[12]: {line}")),
        ),
        (
            "date",
            lines(&|_, line| format!("2026-11-27 10:00:00,123 {line}")),
        ),
        (
            "syslog",
            lines(&|_, line| format!("Nov  7 10:00:00 host app[12]: {line}")),
        ),
        ("pod", lines(&|_, line| format!("[pod/api-7d/app] {line}"))),
        (
            "job",
            lines(&|_, line| format!("build\tRun tests\t2026-11-27T10:00:00.1234567Z {line}")),
        ),
        ("BOM", format!("\u{feff}{text}")),
        ("quote", lines(&|_, line| format!("> {line}"))),
        ("indented", lines(&|_, line| format!("        {line}"))),
        ("comment", lines(&|_, line| format!("# {line}"))),
        ("slashes", lines(&|_, line| format!("// {line}"))),
        ("table", lines(&|n, line| format!("| {n} | `{line}` |"))),
        ("box", lines(&|_, line| format!("│ {line:70} │"))),
        ("CR", text.replace('\n', "\r\n")),
        ("JSON", json(text)),
        ("JSON in JSON", json(&json(text))),
    ]
}

/// Checks that nothing of these secrets remains in any wrapping, however the text arrives.
fn check(text: &str, secrets: &[String]) {
    let redactor = Redactor::default();
    for (name, text) in wrapped(text) {
        let out = redactor.redact(&text);
        for secret in secrets {
            assert!(!out.contains(secret.as_str()), "{name}: {text}\n{out}");
        }
        let bytewise: Vec<usize> = (0..text.len()).collect();
        let whole = streamed(&redactor, text.as_bytes(), &[]);
        assert_eq!(streamed(&redactor, text.as_bytes(), &bytewise), whole);
        if text.len() < 700 {
            settled::check(&redactor, &text, 1);
        }
    }
}

/// Cuts a text into rows.
fn rows(text: &str, width: usize) -> Vec<String> {
    let chunks = text.as_bytes().chunks(width);
    chunks
        .map(|row| String::from_utf8_lossy(row).into_owned())
        .collect()
}

#[test]
fn private_keys_are_removed_from_all_lines() {
    let c = &mut TestRandom(41);
    for width in [64, 70] {
        let body = rows(&c.of(BASE64, 7 * width + 24), width);
        let lines = body.join("\n");
        for (before, after) in [
            (
                "key:\n-----BEGIN OPENSSH PRIVATE KEY-----\n",
                "\n-----END OPENSSH PRIVATE KEY-----\nnext: 1",
            ),
            (
                "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n",
                "\n-----END PGP PRIVATE KEY BLOCK-----",
            ),
            // The end is missing.
            ("-----BEGIN RSA PRIVATE KEY-----\n", ""),
            ("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n", ""),
            (
                "PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 8\n",
                "\nPrivate-MAC: 12ab",
            ),
        ] {
            check(&format!("{before}{lines}{after}"), &body);
        }
    }
}

#[test]
fn a_private_key_whose_end_is_cut_is_removed_whatever_its_line_ends_are() {
    let c = &mut TestRandom(43);
    let redactor = Redactor::default();
    let start = "MIIEpAIBAAKCAQEA";
    let body = rows(&format!("{start}{}", c.of(BASE64, 150)), 64);
    for headers in [
        "",
        "Proc-Type: 4,ENCRYPTED DEK-Info: AES-128-CBC,0123456789ABCDEF ",
    ] {
        for end in [" ", "  ", "\n"] {
            let lines = body.join(end);
            let begin = format!("T -----BEGIN RSA PRIVATE KEY-----{end}{headers}");
            let text = format!("{begin}{lines}{end}-----END RSA PRIVATE KEY-----");
            let least = match headers.is_empty() {
                true => 8,
                false => 24,
            };
            for cut in begin.len() + least..text.len() {
                let out = redactor.redact(&text[..cut]);
                assert!(!out.contains("MIIEpA"), "{out}");
                let last = body.last().map_or("", |row| &row[..8]);
                assert!(!out.contains(&body[1][..8]) && !out.contains(last), "{out}");
                let bytewise: Vec<usize> = (0..cut).collect();
                let shown = streamed(&redactor, &text.as_bytes()[..cut], &bytewise).0;
                assert_eq!(String::from_utf8_lossy(&shown), out);
            }
        }
    }
    for text in [
        "-----BEGIN RSA PRIVATE KEY----- is the first line of a key, not the last one",
        "-----BEGIN PRIVATE KEY----- Something",
    ] {
        assert_eq!(redactor.redact(text), text);
    }
}

#[test]
fn a_private_key_in_base64_is_removed_from_all_rows() {
    let c = &mut TestRandom(43);
    let key = format!("LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0t{}=", c.of(BASE64, 603));
    let body = rows(&key, 76);
    for name in ["client-key-data", "private_key", "secret_key", "tls.key"] {
        for sign in ["|", ">-"] {
            let lines = body.join("\n    ");
            let text = format!("users:\n  {name}: {sign}\n    {lines}\n  other: value");
            check(&text, &body);
        }
        check(&format!("{{\"{name}\": \"{}\"}}", body.join("\\n")), &body);
    }
}

#[test]
fn a_value_in_rows_is_removed_to_its_last_row() {
    let c = &mut TestRandom(47);
    for name in ["password", "secret_key", "api_token"] {
        let body: Vec<String> = [40, 40, 23].map(|n| c.of(ALNUM, n)).into();
        for sign in ["|", ">-", "|2-", "> # folded"] {
            let lines = body.join("\n    ");
            let text = format!("a:\n  {name}: {sign}\n    {lines}\n  other: value\nnext: 1");
            check(&text, &body);
            let out = Redactor::default().redact(&text).into_owned();
            let start = format!("a:\n  {name}: {sign}\n    [REDACTED:");
            assert!(
                out.starts_with(&start) && out.ends_with("]\n  other: value\nnext: 1"),
                "{out}"
            );
        }
        let text = format!("{{\"{name}\": \"{}\", \"x\": 1}}", body.join("\\n"));
        check(&text, &body);
        assert!(
            Redactor::default()
                .redact(&text)
                .ends_with("]\", \"x\": 1}")
        );
    }
}

#[test]
fn a_value_in_the_next_line_or_of_a_whole_line_is_found_in_every_wrapping() {
    let value = "q7Rk2Zp!9vXw3";
    for form in [
        "env:\n  - name: DB_PASSWORD\n    value: {}",
        "env:\n- name: \"DB_PASSWORD\"\n  value: \"{}\"",
        "password: >-\n  {}\nuser: bob",
        "[box]\ntype = webdav\npass = {}",
        "<dict>\n  <key>DbPassword</key>\n  <string>{}</string>\n</dict>",
        "machine example.com\n  login bob\n  password {}",
        "machine example.com login bob password {}",
        "db.example.com:5432:app:bob:{}",
        "[sudo] password for bob: {}\nok",
        "-[ RECORD 1 ]------\nlogin    | bob\npassword | {}\nemail    | a@b.c",
    ] {
        check(&form.replace("{}", value), &[value.to_owned()]);
    }
    // In JSON, their backslashes are another escape.
    let redactor = Redactor::default();
    for form in [
        "keystore.password \\\n  = {}",
        "keystore.password = \\\n  {}",
        "mysql --password \\\n    {} db",
    ] {
        for (name, text) in wrapped(&form.replace("{}", value)) {
            let out = redactor.redact(&text);
            assert!(
                !out.contains(value) || name.starts_with("JSON"),
                "{text}\n{out}"
            );
        }
    }
}

#[test]
fn a_form_of_a_whole_line_is_found_in_quotes() {
    let value = "q7Rk2Zp!9vXw3";
    for form in [
        "setenv VNC_PASSWD {}",
        "ENV DB_PASS {}",
        "machine h login bob password {}",
        "db.example.com:5432:app:bob:{}",
        "pwd = {}",
    ] {
        let line = form.replace("{}", value);
        for text in [
            format!("The line is `{line}` ok"),
            format!("ssh host '{line}'"),
            format!("echo \"{line}\" >> .env"),
            format!("bob@host:~$ {line}"),
            format!("x\\n{line}\\ny"),
        ] {
            let out = Redactor::default().redact(&text);
            assert!(!out.contains(value), "{text}\n{out}");
        }
    }
}

#[test]
fn a_value_is_found_in_pasted_text_and_in_the_source_of_a_page() {
    let redactor = Redactor::default();
    for form in [
        "password: {}",
        "DB_PASSWORD = \"{}\"",
        "X-Api-Key: {}",
        "{\"user\": \"bob\", \"password\": \"{}\"}",
        "Authorization: Token {}",
    ] {
        let text = form.replace("{}", "q7Rk2Zp9vXw3TbN4");
        let spaced = text
            .replace(": ", ":\u{a0}")
            .replace(" = ", "\u{a0}=\u{a0}");
        let mut texts = vec![spaced];
        if text.contains('"') {
            for entity in ["&quot;", "&#x27;", "&#39;"] {
                texts.push(text.replace('"', entity));
            }
        }
        for text in texts {
            let out = redactor.redact(&text);
            let end = text.rsplit("3TbN4").next().unwrap_or_default();
            assert!(
                !out.contains("q7Rk2Z") && out.ends_with(&format!("]{end}")),
                "{text}\n{out}"
            );
            settled::check(&redactor, &text, 1);
        }
    }
}

#[test]
fn a_password_behind_a_prompt_is_found() {
    let redactor = Redactor::default();
    for prompt in [
        "[sudo] password for bob: ",
        "Enter passphrase for key '/home/bob/.ssh/id_ed25519': ",
        "Enter pass phrase for server.key.pem: ",
        "Password for user postgres: ",
        "Password for 'https://bob@github.com': ",
        "Password for bob@EXAMPLE.ORG: ",
        "2026-11-27T10:00:00Z 6 [Note] A temporary password is generated for root@localhost: ",
    ] {
        let text = format!("{prompt}Summer2026!x\nnext line");
        let out = redactor.redact(&text);
        assert_eq!(out, format!("{prompt}[REDACTED:password]\nnext line"));
        settled::check(&redactor, &text, 1);
    }
}

#[test]
fn keys_in_lists_and_in_strings_of_json_are_found() {
    let c = &mut TestRandom(53);
    let (key, secret) = (c.of(URL64, 43), c.of(BASE64, 40));
    for text in [
        format!("{{\"kty\":\"oct\",\"k\":\"{key}\"}}"),
        format!("{{\"alg\":\"HS256\", \"k\": \"{key}\", \"kty\": \"oct\"}}"),
        format!("{{\"kty\":\"EC\",\"crv\":\"P-256\",\"d\":\"{key}\"}}"),
        format!("Access key ID,Secret access key\nAKIAQ2XYZABCDEFGHIJK,{secret}\n"),
        format!("AKIAQ2XYZABCDEFGHIJK\t2026-01-01\t{secret}\tActive"),
        format!("[db]\npassphrase = \"\"\"{key}\"\"\""),
    ] {
        let secrets = [key.clone(), secret.clone()];
        let in_json = serde_json::json!({ "content": text }).to_string();
        let in_json_twice = serde_json::json!({ "result": in_json }).to_string();
        let texts = match text.contains('\t') {
            true => vec![text],
            false => vec![text, in_json, in_json_twice],
        };
        for text in texts {
            let out = Redactor::default().redact(&text);
            for secret in &secrets {
                assert!(!out.contains(secret.as_str()), "{text}\n{out}");
            }
            settled::check(&Redactor::default(), &text, 1);
        }
    }
}

#[test]
fn harmless_text_in_these_forms_stays() {
    let redactor = Redactor::default();
    for text in [
        "password: |\n  minLength: 12\n  maxLength: 64\nuser: bob2",
        "token: >-\n  the token of the second cluster\nregion: eu2",
        "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef:\n      name: my-secret-2x9z7",
        "- name: DB_PASSWORD\n- name: PORT2\n  value: eu-central-1",
        "<key>PasswordPolicy</key>\n<string>minLength8</string>",
        "<key>APIPassword</key>\n<true/>",
        "[sudo] password for bob: \n[sudo] password for bob: Sorry, try again.",
        "Changing password for user bob.\npasswd: all tokens updated",
        "the password for host1: see app/config/Secrets2024.yaml",
        "Password for step 2: see-docs-v2",
        "password for the database: read from vault/prod/db2",
        "Enter passphrase for key '/home/bob/.ssh/id_ed25519': ",
        "run `env` before the password prompt2go",
        "set `ENV` and 'env', the token stays in conf2env",
        "ports: \"127.0.0.1:5432:5432\"",
        "arn:aws:logs:eu-west-1:*:log-group:name1",
        "{\"k\": \"q7Rk2ZpL9vXwT4mN8sYbq7Rk2ZpL9vXw\", \"v\": 1}",
        "{\"d\": \"3d\", \"k\": 4, \"kty\": \"oct\"}",
        "AKIAIOSFODNN7EXAMPLE,wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "Private-Lines: the number of lines\nthat follow in base64EncodedForm1",
        "the token \\\n  = of the second kind",
        "pass \\\n  through2the1next",
        "------BEGIN CERTIFICATE-----\n-MIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBa\n------END CERTIFICATE-----",
        "web-1  | password: changeme\nweb-1  | ready in 1203ms",
        "2026-11-27T10:00:00.000Z app[12]: token: \n2026-11-27T10:00:00.000Z app[12]: started pid2201",
    ] {
        for (name, text) in wrapped(text) {
            assert_eq!(redactor.redact(&text), text, "{name}");
        }
    }
}

#[test]
fn the_search_for_rows_takes_time_in_proportion_to_the_text() {
    for unit in [
        "password: |\n  q7Rk2ZpL9vXw3TbN\n",
        "  q7Rk2ZpL9vXw3TbN\n",
        "name: password\n",
        "-----BEGIN RSA PRIVATE KEY-----\n-q7Rk\n",
        "Private-Lines: 400\nq7Rk2ZpL\n",
        "password \\\n",
        "password for ",
        "\\\\\\\\\\\\\\\\",
        "\"k\":\"q7Rk\"",
        " -p| ",
    ] {
        let inspected = |size: usize| {
            INSPECTED.set(0);
            let text = format!("password: |\n  a1\n{}", unit.repeat(size / unit.len()));
            Redactor::default().redact(&text);
            INSPECTED.get()
        };
        let (short, long) = (inspected(40_000), inspected(160_000));
        assert!(long < 6 * short, "{unit:?}: {short} {long}");
        assert!(long < 600 * 160_000, "{unit:?}: {long}");
    }
}

/// Texts of pieces of these forms in any order: text shown early stays, and the chunks do not matter.
#[test]
fn nothing_that_follows_changes_rows_that_are_settled() {
    let key = format!("LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0t{}", "q7Rk".repeat(9));
    let pieces = [
        "\n",
        "\n",
        "\\n",
        "\\\\n",
        "\r\n",
        "  ",
        "    ",
        "\t",
        " ",
        "password: |",
        "secret_key: >-",
        "\"api_token\": \"",
        "- name: API_KEY",
        "value: ",
        "[sudo] password for bob: ",
        "password for ",
        "<key>Password</key>",
        "<string>",
        "password \\",
        "= ",
        "machine h",
        "login bob",
        "q7Rk2ZpL9vXw3TbN4mYs8",
        "hunter2x!A",
        "two words",
        &key,
        "Private-Lines: 3",
        "-----BEGIN RSA PRIVATE KEY-----",
        "AKIAQ2XYZABCDEFGHIJK",
        ",",
        "\"k\":\"",
        "\"kty\":\"oct\"",
        "db.example.com:5432:app:bob:",
        "│ ",
        " │",
        "`",
        "\"",
        "| ",
        "-",
        "+",
        "web-1  | ",
        "app.env:12:",
        "2026-11-27T10:00:00.000Z ",
    ];
    let redactor = Redactor::default();
    let mut chance = TestRandom(59);
    for _ in 0..400 {
        let number = 2 + chance.below(14);
        let text: String = (0..number)
            .map(|_| pieces[chance.below(pieces.len())])
            .collect();
        settled::check(&redactor, &text, 1 + chance.below(3));
        let bytewise: Vec<usize> = (0..text.len()).collect();
        let whole = streamed(&redactor, text.as_bytes(), &[]);
        assert_eq!(streamed(&redactor, text.as_bytes(), &bytewise), whole);
    }
}
