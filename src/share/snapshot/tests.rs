use super::*;
use crate::history::journal::new_record;
use crate::history::record::RecordIds;

fn names() -> OwnNames {
    OwnNames::new("/home/anna", "anna", "lab")
}

fn record(json: serde_json::Value) -> Record {
    let body: RecordBody = serde_json::from_value(json).unwrap();
    new_record(RecordIds::default(), body)
}

fn records() -> Vec<Record> {
    vec![
        record(serde_json::json!({
            "type": "user", "prompt": "what is in /home/anna/x on lab, anna?", "rendered": "cwd: /home/anna, secret context",
            "shell": null, "cwd": "/home/anna", "images": [["image/png", "iVBORw0KGgo="]],
        })),
        record(serde_json::json!({
            "type": "assistant", "text": "Label `annabel` and ghp_0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX", "model": "local",
            "finish": "stop", "duration_ms": 5,
        })),
        record(serde_json::json!({
            "type": "tool", "call": "a", "name": "fs.read", "status": "success", "text": "root:x:0", "bytes": 8, "duration_ms": 1,
        })),
        record(serde_json::json!({ "type": "title", "title": "x" })),
    ]
}

#[test]
fn secrets_names_context_images_and_outputs_stay_out() {
    let redactor = Redactor::default();
    let mut recordings = SharedRecordings::default();
    recordings.secrets = 2;
    let snapshot = Snapshot::new(
        "of anna",
        &records(),
        ShareOptions::default(),
        recordings,
        &names(),
        &redactor,
    );
    assert_eq!(snapshot.title, "of user");
    let texts: Vec<&str> = snapshot.messages.iter().map(|m| &*m.text).collect();
    assert_eq!(
        texts,
        [
            "what is in ~/x on host, user?",
            "<p>Label <code>annabel</code> and [REDACTED:github-token]</p>\n",
            "(the output is not shared)",
        ]
    );
    let expected = RemovedCounts {
        secrets: 1,
        recorded_secrets: 2,
        own_names: 4,
        outputs: 1,
        images: 1,
        recordings: 0,
        other: 1,
    };
    assert_eq!(snapshot.removed, expected);
    assert_eq!(
        expected.words(),
        [
            "1 secret",
            "2 different secrets in recordings",
            "4 names of yours",
            "1 output",
            "1 image",
            "1 other record (an approval, context or a setting)"
        ]
    );
}

#[test]
fn a_prompt_that_nobody_typed_is_not_shown_as_one() {
    let prompt = record(serde_json::json!({
        "type": "user", "prompt": CONTINUED, "rendered": CONTINUED, "cwd": "/",
    }));
    let snapshot = Snapshot::new(
        "t",
        &[prompt],
        ShareOptions::default(),
        SharedRecordings::default(),
        &names(),
        &Redactor::default(),
    );
    let [message] = &snapshot.messages[..] else {
        panic!("{:?}", snapshot.messages)
    };
    assert_eq!(
        (message.role, &*message.text),
        (SharedRole::Command, "Continued with the output")
    );
}

fn shared_answer(text: &str) -> Snapshot {
    let answer = record(serde_json::json!({
        "type": "assistant", "text": text, "model": "m", "finish": "stop", "duration_ms": 1,
    }));
    Snapshot::new(
        "t",
        &[answer],
        ShareOptions::default(),
        SharedRecordings::default(),
        &OwnNames::new("/home/j_doe", "j_doe", "lab_7"),
        &Redactor::default(),
    )
}

#[test]
fn markdown_hides_no_secret_and_no_name() {
    let [a, b, key] = [
        "ghp_0aB1cD2eF3gH4iJ5",
        "kL6mN7oP8qR9sT0uV1wX",
        "ghp_0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX",
    ];
    let escaped = key.replace('_', "\\_");
    for (text, secrets, names) in [
        (format!("{key} at /home/j_doe/x"), 1, 1),
        (
            format!("{escaped} at /home/j\\_doe/x, \\/home\\/j_doe"),
            1,
            2,
        ),
        (format!("&#103;{} at /home/&#106;_doe/x", &key[1..]), 1, 1),
        (format!("{} j&lowbar;doe", key.replace('_', "&#95;")), 1, 1),
        (format!("**{a}**{b} and /home/j_d**oe**"), 1, 1),
        (format!("{a}`{b}` and j_d~~oe~~"), 1, 1),
        (format!("{a}[{b}](http://x) and [j_](http://y)doe"), 1, 1),
        (format!("![{a}](http://x){b}"), 1, 0),
        (format!("{a}\\\n{b}  \n/home/j_\ndoe"), 1, 1),
        (format!("{a}\n{b}, lab_\n7"), 1, 1),
        (format!("{a}\u{200b}{b} {a}&shy;{b}"), 2, 0),
        (format!("| a |\n| - |\n| {escaped} j\\_doe |\n"), 1, 1),
        (format!("# {escaped}\n\n- j\\_doe\n"), 1, 1),
        (
            format!("[a](http://x/{escaped}) [b](http://x/?p=j&#95;doe)"),
            1,
            1,
        ),
        (format!("CMD: echo {key} /home/j_doe\n"), 1, 1),
        (format!("<https://j_doe:{}@x.example/>", &a[4..]), 1, 1),
        (format!("```\n{key}\n```\n    j_doe\n"), 1, 1),
    ] {
        let snapshot = shared_answer(&text);
        let removed = snapshot.removed;
        let html = &snapshot.messages[0].text;
        assert_eq!(
            (removed.secrets, removed.own_names),
            (secrets, names),
            "{text}: {html}"
        );
        // As a reader sees it, and as one who copies a word.
        let mut seen = String::new();
        let mut is_tag = false;
        for c in html.chars() {
            match c {
                '<' => is_tag = true,
                '>' => is_tag = false,
                c if !is_tag => seen.push(c),
                _ => {}
            }
        }
        for hidden in [key, "j_doe"] {
            assert!(!html.contains(hidden), "{text}: {html}");
            for seen in [
                seen.replace(['\n', '\u{ad}'], ""),
                seen.replace("⟨U+200B⟩", ""),
            ] {
                assert!(!seen.contains(hidden), "{text}: {seen}");
            }
        }
    }
}

/// Returns a key as a form with `start` has it, in two parts.
fn key_parts(start: &str) -> [String; 2] {
    let first = "AbCdEf3GhIjKlM7nOpQrSt";
    let second = "UvWx1Yz0123456789AbCdEf7GhIjKlMnOpQrStUvWxYz01AbCdEf7GhIjKlMnOpQrStUvWxYz01ab";
    [format!("{start}{first}"), second.to_owned()]
}

#[test]
fn broken_keys_are_removed_whole_and_nothing_else() {
    let github = ["ghp_0aB1cD2eF3gH4iJ5", "kL6mN7oP8qR9sT0uV1wX"].map(str::to_owned);
    let jwt = [
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZ",
        "SI6IkpvaG4iLCJpYXQiOjE1MTYyMzkwMjJ9.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
    ]
    .map(str::to_owned);
    let google = ["AIzaSyDaGmWKa4JsXZ-HjGw7IS", "LkKJ_8XUvW3xA"].map(str::to_owned);
    for [a, b] in [
        github,
        jwt,
        google,
        key_parts("sk-proj-"),
        key_parts("sk-ant-api03-"),
    ] {
        let encoded: String = a.bytes().map(|b| format!("%{b:02X}")).collect();
        let twice = encoded.replace('%', "%25");
        let (row, rest) = b.split_at(b.len() / 2);
        // A sign within a key, of those that may have one.
        let sign = if a.starts_with("sk-") { "\\_" } else { "" };
        for text in [
            format!("the token {a}{sign}{b} and it works"),
            format!("the token {a}`{sign}{b}` and it works"),
            format!("the token\n{a}\n{b}\nand it works"),
            format!("the token\n{a}\n{row}\n{rest}\nand it works"),
            format!("the token\\\n{a}  \n{b}\\\nand it works"),
            format!("the token\n{a}&#10;{b}\nand it works"),
            format!("the token\n{a}\u{200b}{b}\nand it works"),
            format!("the token\n{a}\u{200d}{b}\u{fe0f}\nand it works"),
            format!("the token\n{a}\u{fe0f}{row}\u{34f}{rest} and it works"),
            format!("the token\n{a}\u{3164}{row}\u{301}{rest} and it works"),
            format!("the token **{a}**{b} and it works"),
            format!("the token {a}<br>{b} and it works"),
            format!("| a |\n| - |\n| the token {a}<wbr>{b} and it works |"),
            format!("<p>the token {a}<!-- x -->{b}</p>\nand it works"),
            format!("the token `{a}\n{b}`\nand it works"),
            format!("CMD: the token {a}\\\n{b}\n\nand it works"),
            format!("<div>the token\n{a}\n{b}\nand it works\n</div>"),
            format!("```\nthe token\n{a}\n{b}\nand it works\n```"),
            format!("- the token\n\n      {a}\n        {b}\n\n  and it works"),
            format!("the token [x](https://h.example/?t={a}&Tab;{b}) and it works"),
            format!("the token [x](<https://h.example/?t={a}&#10;{b}>) and it works"),
            format!("the token [x](https://h.example/?t={encoded}{b}) and it works"),
            format!("the token [x](https://h.example/?t={twice}{b}) and it works"),
        ] {
            // As it is, and as the record has it.
            for text in [Redactor::default().redact(&text).into_owned(), text.clone()] {
                let snapshot = shared_answer(&text);
                let html = &snapshot.messages[0].text;
                assert_eq!(snapshot.removed.secrets, 1, "{text}: {html}");
                for hidden in [&*a, row, rest, &encoded, &twice] {
                    assert!(!html.contains(hidden), "{text}: {html}");
                }
                for kept in ["the token", "and it works"] {
                    assert!(html.contains(kept), "{text}: {html}");
                }
            }
        }
    }
}

#[test]
fn broken_keys_are_found_in_prompts_and_titles() {
    let [a, b] = ["ghp_0aB1cD2eF3gH4iJ5", "kL6mN7oP8qR9sT0uV1wX"];
    for broken in ["\n", "\r\n    ", "\u{200d}", "\u{e0100}", "\u{180b}"] {
        let text = format!("use\n{a}{broken}{b}\nplease");
        let prompt = record(serde_json::json!({
            "type": "user", "prompt": text, "rendered": "", "shell": null, "cwd": "/", "images": [],
        }));
        let snapshot = Snapshot::new(
            &text,
            &[prompt],
            ShareOptions::default(),
            SharedRecordings::default(),
            &names(),
            &Redactor::default(),
        );
        let shown = (&*snapshot.title, &*snapshot.messages[0].text);
        let expected = "use\n[REDACTED:github-token]\nplease";
        assert_eq!(shown, (&*expected.replace('\n', " "), expected), "{text:?}");
        assert_eq!(snapshot.removed.secrets, 1, "{text:?}");
    }
}

#[test]
fn a_long_title_is_cut_behind_what_is_replaced() {
    let redactor = Redactor::default();
    let title = format!("{} /home/anna/project", "x".repeat(190));
    let none = SharedRecordings::default();
    let snapshot = Snapshot::new(
        &title,
        &[],
        ShareOptions::default(),
        none,
        &names(),
        &redactor,
    );
    assert_eq!(
        snapshot.title,
        format!("{} ~/project", "x".repeat(190)).get(..200).unwrap()
    );
}

#[test]
fn a_title_ends_before_a_mark_that_does_not_fit_in_and_counts_what_it_shows() {
    let redactor = Redactor::default();
    let key = "ghp_0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX";
    let filler = "x".repeat(180);
    for (title, expected, secrets, own_names) in [
        (format!("{filler} {key} /home/anna/x"), filler.clone(), 0, 0),
        (
            format!("{filler}  anna\n{key}"),
            format!("{filler} user"),
            0,
            1,
        ),
        (
            format!("a {key}  anna"),
            "a [REDACTED:github-token] user".to_owned(),
            1,
            1,
        ),
        // A broken key at the end of what is searched.
        (
            format!("{}ab\u{200b}{}", " ".repeat(TITLE_BYTES - 20), key),
            String::new(),
            0,
            0,
        ),
    ] {
        let snapshot = Snapshot::new(
            &title,
            &[],
            ShareOptions::default(),
            SharedRecordings::default(),
            &names(),
            &redactor,
        );
        assert_eq!(snapshot.title, expected);
        let removed = (snapshot.removed.secrets, snapshot.removed.own_names);
        assert_eq!(removed, (secrets, own_names), "{title}");
    }
}

#[test]
fn secrets_of_a_title_are_counted_where_it_is_not_the_first_prompt() {
    let key = "ghp_0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX";
    let long = format!("{} {}", "x".repeat(300), [key; 10].join(" "));
    let filler = "word ".repeat(4000);
    for (prompt, title, secrets) in [
        (&*long, &*long, 10),
        (&long, "a title", 10),
        (key, key, 1),
        (key, &*format!("of {key}"), 2),
        (key, &long, 1),
        (key, &*format!("{filler}{key}"), 1),
    ] {
        let record = record(serde_json::json!({
            "type": "user", "prompt": prompt, "rendered": "", "shell": null, "cwd": "/", "images": [],
        }));
        let snapshot = Snapshot::new(
            title,
            &[record],
            ShareOptions::default(),
            SharedRecordings::default(),
            &names(),
            &Redactor::default(),
        );
        assert_eq!(snapshot.removed.secrets, secrets, "{title}");
        assert!(snapshot.title.chars().count() <= MAX_TITLE);
    }
}

#[test]
fn a_value_may_stand_in_the_line_behind_its_name() {
    for text in [
        "password:\nhunter2Xyz9Qq77",
        "password=\nhunter2Xyz9Qq77",
        "pass\u{200b}word: hunter2Xyz9Qq77",
    ] {
        let redactor = Redactor::default();
        let own_names = names();
        let mut cleaner = Cleaner::new(&own_names, &redactor);
        assert!(!cleaner.clean(text).contains("hunter2"), "{text:?}");
        let answer = super::answer_html(text, true, &mut cleaner);
        assert!(!answer.contains("hunter2"), "{answer}");
    }
}

#[test]
fn lines_behind_a_secret_stay() {
    let names = [
        "and it works",
        "DATABASE_CONNECTION_LIMIT=5",
        "FLAG_OF_A_LONG_NAME_2=x1Yz0123456789AbCd",
        "internationalization",
        "/usr/lib/python3.12/site-packages",
        "crate::share::cleaner::Cleaner",
        "2026-11-25T19:31:48.328Z",
        "--max-old-space-size=4096",
    ];
    for line in names {
        let key = "ghp_0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX";
        let other = key.replace("0aB1", "9zY8");
        for text in [
            format!("```\n{key}\n{line}\n{key}\n{other}\n```"),
            format!("```\nTOKEN={key}\n{line}\n{key}\n{other}\n```"),
        ] {
            let snapshot = shared_answer(&text);
            let html = &snapshot.messages[0].text;
            assert_eq!(snapshot.removed.secrets, 3, "{html}");
            assert!(html.contains(line), "{html}");
        }
    }
}

#[test]
fn a_name_is_not_taken_from_two_words() {
    let text = "the user an\nna wrote more than\nnatural words";
    let answer = record(serde_json::json!({
        "type": "assistant", "text": text, "model": "m", "finish": "stop", "duration_ms": 1,
    }));
    let snapshot = Snapshot::new(
        "t",
        &[answer],
        ShareOptions::default(),
        SharedRecordings::default(),
        &names(),
        &Redactor::default(),
    );
    let expected = "<p>the user user\n wrote more than\nnatural words</p>\n";
    assert_eq!(snapshot.messages[0].text, expected);
}

#[test]
fn lines_and_blocks_stay_apart() {
    let snapshot = shared_answer(
        "/home/j_doe\nis here\n\nlab_\n\n7 ghp_0aB1cD2eF3gH4iJ5\n\nkL6mN7oP8qR9sT0uV1wX",
    );
    assert_eq!(
        snapshot.messages[0].text,
        "<p>~\nis here</p>\n<p>lab_</p>\n<p>7 ghp_0aB1cD2eF3gH4iJ5</p>\n<p>kL6mN7oP8qR9sT0uV1wX</p>\n"
    );
}

#[test]
fn what_is_replaced_is_not_markdown() {
    let text = "PATH is /home/j_doe/bin:/home/j_doe/b, copy (/home/j_doe/a) to lab_7:/home/j_doe/c";
    let snapshot = shared_answer(text);
    assert_eq!(
        snapshot.messages[0].text,
        "<p>PATH is ~/bin:~/b, copy (~/a) to host:~/c</p>\n"
    );
}

#[test]
fn outputs_are_shown_only_where_asked_for_and_change_the_digest() {
    let redactor = Redactor::default();
    let with = |with_output| {
        Snapshot::new(
            "t",
            &records(),
            ShareOptions {
                with_output,
                ..ShareOptions::default()
            },
            SharedRecordings::default(),
            &names(),
            &redactor,
        )
    };
    assert_eq!(with(true).messages[2].text, "root:x:0");
    assert_ne!(with(true).digest(), with(false).digest());
    assert_eq!(with(true).digest(), with(true).digest());
    // A secret that was learned later is removed too.
    redactor.add_secret("password", "what is in");
    assert!(
        with(true).messages[0]
            .text
            .starts_with("[REDACTED:password]")
    );
}
