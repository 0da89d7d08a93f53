use super::recall::samples_with_end;
use super::samples::samples_of;
use super::*;

/// Pushes a text in pieces, and returns the text settled after each, together with the text emitted before.
fn shown_early(redactor: &Redactor, text: &str, size: usize) -> Vec<Vec<u8>> {
    let mut stream = redactor.stream();
    let mut emitted = Vec::new();
    let mut shown = Vec::new();
    for piece in text.as_bytes().chunks(size) {
        stream.push(piece, &mut emitted);
        let mut early = emitted.clone();
        stream.peek(&mut early);
        shown.push(early);
    }
    shown
}

/// Checks that everything that is shown early is the beginning of the redacted text.
pub(super) fn check(redactor: &Redactor, text: &str, size: usize) {
    let whole = redactor.redact(text);
    let mut longest = 0;
    for early in shown_early(redactor, text, size) {
        let early = String::from_utf8_lossy(&early);
        // A piece may end within a character.
        let early = early.trim_end_matches('\u{fffd}');
        assert!(
            whole.starts_with(early),
            "of {text:?}\n  shown {early:?}\n  whole {whole:?}"
        );
        longest = longest.max(early.len());
    }
}

const PROSE: &str = "The token is sent with each request, and the password stays in the file. Use `-p 8080:80` to publish a port; \
    see https://user@example.com/path?key=value for the rest.\n\nThe secret of a good key: it is long.\n";

#[test]
fn what_is_settled_is_the_beginning_of_the_redacted_text() {
    let redactor = Redactor::default();
    redactor.add_secret("known", "sesame-open-4711-kZ83");
    for (_, sample, _) in samples_of(7).into_iter().chain(samples_with_end(7)) {
        let text = format!("Set it: {sample}\n{PROSE}open sesame-open-4711-kZ83 now, {sample}");
        for size in [1, 64] {
            check(&redactor, &text, size);
        }
    }
}

#[test]
fn secrets_that_are_recognised_late_are_held_back() {
    let redactor = Redactor::default();
    let long =
        "Zk38QhTq0vPz91LmXc7RtYbN4wEd6UaKj2HsZk38QhTq0vPz91LmXc7RtYbN4wEd6UaKj2HsZk38QhTq0vPz91";
    let mut chance = TestRandom(11);
    let key = pem(&mut chance, 12);
    for text in [
        format!("Connect to mongodb://acct:{long}==@acct.mongo.example:10255/?ssl=true and more of it."),
        format!("Clone https://{long}@git.example/x.git now, then go on with the rest of the work."),
        "Run: echo Tr0ub4dor9x7Zq | ssh -o StrictHostKeyChecking=no host.example.org sudo -S id\nthen go on.".to_owned(),
        format!("Here:\n{key}\nand more text behind it."),
        format!("Here:\n{}\nand more text behind it.", key.replace('\n', " \n")),
    ] {
        for size in [1, 7] {
            check(&redactor, &text, size);
        }
    }
}

/// Shows text in pieces of this many bytes. Returns how many bytes at most were held back.
fn most_held_back(text: &str, size: usize) -> usize {
    let redactor = Redactor::default();
    redactor.add_secret("known", &"sesame-open-4711".repeat(20));
    let shown = shown_early(&redactor, text, size).into_iter().enumerate();
    let received = |at: usize| text.len().min((at + 1) * size);
    let held = shown.map(|(at, early)| received(at) - early.len());
    held.fold(0, usize::max)
}

#[test]
fn prose_is_settled_word_by_word() {
    let text = "All cats are grey in the dark. Most of them like to be left alone, by dogs for example; see chapter 4.2 (page 7).\n\n\
        * `ls -la` lists files\n* `cd ..` goes up\n"
        .repeat(20);
    let word = text.split_ascii_whitespace().map(str::len).max();
    let most = most_held_back(&text, 1);
    // The blank before it may begin an option.
    assert!(
        Some(most) <= word.map(|n| n + 2),
        "{most} bytes are held back"
    );
}

#[test]
fn a_sign_that_ends_a_phrase_settles_the_word_before_it() {
    for text in ["page (7)", "[one]", "first,", "x;", "{a}"] {
        let mut stream = Redactor::default().stream();
        let mut out = Vec::new();
        stream.push(text.as_bytes(), &mut out);
        stream.peek(&mut out);
        assert_eq!(String::from_utf8_lossy(&out), text);
    }
}

#[test]
fn words_that_begin_a_header_hold_back_nothing_but_one() {
    for text in [
        "Sign in with OAuth 2.0 to get a token for the other service of the account. All of it is described in the next chapter, \
            and in the one after it too. Basic access is off.\n",
        "A cookie is stored by the browser; the browser sends it with each of the following requests to the same host again.\n",
        "The cookie: it is stored. The auth: see below. An \"auth\" field and a \"cookie\" field may stay empty for a while.\n",
    ] {
        let most = most_held_back(&text.repeat(3), 4);
        assert!(most <= 160, "{most} bytes of {text:?} are held back");
    }
}

#[test]
fn words_that_name_secrets_hold_back_what_follows_for_a_while() {
    let most = most_held_back(&PROSE.repeat(5), 4);
    assert!(most <= 150, "{most} bytes are held back");
}

/// Texts of pieces of keywords, of secrets and of the text around them, in any order: text shown early stays.
#[test]
fn nothing_that_follows_changes_what_is_settled() {
    let redactor = Redactor::default();
    redactor.add_secret("known", "sesame-open-4711-kZ83");
    let mut pieces: Vec<String> = [
        " ", "\n", "\t", ".", ",", ":", "=", "\"", "'", "-", "--", "|", ";", "&", "(", ")", "@",
        "/", "?", "word", "echo ", "M", "x4", "é",
    ]
    .map(str::to_owned)
    .to_vec();
    for rule in crate::safety::redact::rules::all_rules() {
        pieces.push(rule.key.to_owned());
        let half = (0..=rule.key.len() / 2).rfind(|at| rule.key.is_char_boundary(*at));
        pieces.push(rule.key[..half.unwrap_or(0)].to_owned());
    }
    for (_, sample, _) in samples_of(3) {
        let half = (0..=sample.len() / 2).rfind(|at| sample.is_char_boundary(*at));
        let (first, second) = sample.split_at(half.unwrap_or(0));
        pieces.extend([first.to_owned(), second.to_owned(), sample.clone()]);
    }
    let mut chance = TestRandom(29);
    for _ in 0..500 {
        let number = 2 + chance.below(12);
        let text: String = (0..number)
            .map(|_| pieces[chance.below(pieces.len())].as_str())
            .collect();
        check(&redactor, &text, 1 + chance.below(3));
    }
}
