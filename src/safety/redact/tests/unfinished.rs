//! Texts that break off.

use super::recall::samples_with_end;
use super::samples::samples_of;
use super::*;

#[test]
fn no_beginning_of_a_secret_remains_wherever_a_text_breaks_off() {
    let redactor = Redactor::default();
    redactor.add_secret("known", "sesame-open-4711-kZ83");
    for (text, secret) in [
        (
            "Connect to postgres://app:S3cretPassw0rdXyZ12@db/x",
            "S3cretPassw0rdXyZ12",
        ),
        ("password=hunter2\n", "hunter2"),
        ("DB_PASSWORD='Tr0ub4dor9x'", "Tr0ub4dor9x"),
        ("curl -u admin:Zx81ab9q https://x", "Zx81ab9q"),
        ("echo Tr0ub4dor9x | sudo -S ls", "Tr0ub4dor9x"),
        ("machine x login bob password Zk38QhTq", "Zk38QhTq"),
        ("localhost:5432:db:bob:Zx81ab9q", "Zx81ab9q"),
        ("the value sesame-open-4711-kZ83", "sesame-open-4711-kZ83"),
    ] {
        let start = text.find(secret).unwrap_or_default();
        // Less of a known value may be any word.
        let least = if secret.starts_with("sesame") { 8 } else { 3 };
        for end in start + least..=text.len() {
            let shown = redactor.redact_unfinished(&text[..end]);
            let part = &secret[..secret.len().min(end - start)];
            assert!(!shown.contains(&part[..3]), "{:?}\n{shown}", &text[..end]);
        }
    }
    let mut shown_kinds = std::collections::BTreeSet::new();
    for (kind, text, secret) in samples_of(7) {
        let Some(start) = text.find(&secret) else {
            continue;
        };
        // The first characters of a key name its vendor.
        for end in start + secret.len() * 3 / 4..start + secret.len() {
            if text.is_char_boundary(end) {
                let shown = redactor.redact_unfinished(&text[..end]);
                if shown.contains(&text[start..end]) {
                    shown_kinds.insert(kind);
                }
            }
        }
    }
    assert_eq!(shown_kinds, [].into());
}

#[test]
fn a_secret_that_its_end_identifies_is_removed_where_the_text_ends_within_it() {
    let redactor = Redactor::default();
    for (kind, text, secret) in samples_with_end(7) {
        let start = text.find(&secret).unwrap_or_default();
        let named = usize::from(kind == "cookie") * "session=".len();
        // Each end of a short one, some 100 of a long one.
        for end in (start + named + 4..=start + secret.len()).step_by(1 + secret.len() / 100) {
            let part = &text[start + named..end];
            let shown = redactor.redact_unfinished(&text[..end]);
            assert!(!shown.contains(&part[..4]), "{:?}\n{shown}", &text[..end]);
            // An answer may end here by itself.
            if part.len() >= 40
                && !["url-password", "jwk"].contains(&kind)
                && !text.contains("jdbc")
            {
                let shown = redactor.redact(&text[..end]);
                assert!(!shown.contains(part), "{:?}\n{shown}", &text[..end]);
            }
        }
    }
}

#[test]
fn what_is_shown_early_stays_when_a_text_breaks_off() {
    let redactor = Redactor::default();
    for (_, sample, _) in samples_of(5) {
        let text = format!("Set it: {sample}\nand then go on");
        let mut stream = redactor.stream();
        let mut emitted = Vec::new();
        for (at, c) in text.char_indices() {
            stream.push(c.to_string().as_bytes(), &mut emitted);
            let mut early = emitted.clone();
            stream.peek(&mut early);
            let early = String::from_utf8_lossy(&early);
            let shown = redactor.redact_unfinished(&text[..at + c.len_utf8()]);
            assert!(shown.starts_with(&*early), "{early:?}\n{shown:?}");
        }
    }
}

#[test]
fn prose_that_breaks_off_stays() {
    let redactor = Redactor::default();
    let prose = "The token goes along, and the password stays in the file. Use `-p 8080:80` to publish a port; \
        see https://example.com/path?key=value and run `git log --oneline | head -3`: the commit 4f9a1c2e is the last.";
    for end in 0..=prose.len() {
        assert_eq!(redactor.redact_unfinished(&prose[..end]), prose[..end]);
    }
}

#[test]
fn the_beginning_of_a_text_has_no_half_secret() {
    let redactor = Redactor::default();
    let token = format!("ghp_{}", "0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX");
    for max in 0..80 {
        let shown = redactor.redact_beginning(&format!("the token {token} and more"), max);
        assert!(!shown.contains("ghp_0"), "{shown}");
    }
    assert_eq!(
        redactor.redact_beginning("a short text", 80),
        "a short text"
    );
}
