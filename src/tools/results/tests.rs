use proptest::prelude::*;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

use super::*;

fn results() -> (TempDir, ResultStore) {
    let dir = TempDir::new().unwrap();
    let results = ResultStore::new(dir.path().join("results"));
    (dir, results)
}

fn at(key: &str, offset: usize, limit: usize) -> ReadRequest {
    ReadRequest {
        key: key.to_owned(),
        offset,
        limit,
    }
}

/// Reads the parts of a cut text as a model would: with the key and offsets from the text.
fn read_on(results: &ResultStore, shown: &str, max: usize) -> String {
    let (mut whole, note) = {
        let (head, note) = shown.rsplit_once("\n[… ").unwrap();
        (head.to_owned(), note)
    };
    let word_after = |text: &str, what: &str| {
        let (_, after) = text.split_once(what)?;
        let end = after
            .find(|c: char| !c.is_alphanumeric())
            .unwrap_or(after.len());
        Some(after[..end].to_owned())
    };
    let key = word_after(note, "key ").unwrap();
    let mut offset: usize = word_after(note, "offset ").unwrap().parse().unwrap();
    loop {
        let arguments = serde_json::json!({"key": key, "offset": offset});
        let reading = ReadRequest::parse(arguments.as_object().unwrap(), max).unwrap();
        let answer = results.read("s", &reading, 0).unwrap();
        assert!(answer.len() <= max, "{} of {max}", answer.len());
        let (header, part) = answer.split_once('\n').unwrap();
        whole.push_str(part);
        match word_after(header, "next offset: ") {
            Some(next) => offset = next.parse().unwrap(),
            None => {
                assert!(header.ends_with("end of the result]"), "{header}");
                return whole;
            }
        }
    }
}

#[test]
fn a_short_result_is_unchanged() {
    let (dir, results) = results();
    assert_eq!(results.fit("s", "short".into(), 5, 0), "short");
    assert!(!dir.path().join("results").exists());
}

#[test]
fn a_long_array_is_cut_between_its_elements() {
    let (_dir, results) = results();
    let element =
        |n: usize| serde_json::json!({"n": n, "text": "a, ]b\\\"[ \u{1f642}", "list": [1, 2, 3]});
    let array: Vec<Value> = (0..200).map(element).collect();
    let texts = [
        serde_json::to_string(&array).unwrap(),
        serde_json::to_string_pretty(&array).unwrap(),
        serde_json::json!({"total": 200, "few": [1, 2], "page": {"items": array}}).to_string(),
    ];
    for text in texts {
        let shown = results.fit("s", text.clone(), 4000, 0);
        assert!(shown.len() <= 4000);
        let head = shown.rsplit_once("\n[… ").unwrap().0;
        assert!(head.ends_with("},"), "{head}");
        let whole = head.matches("\"list\"").count();
        let left = format!(
            "left out, {} of 200 records; read_result with key ",
            200 - whole
        );
        assert!(shown.contains(&left), "{shown}");
        assert_eq!(read_on(&results, &shown, 4000), text);
    }
}

#[test]
fn lines_are_cut_between_lines_and_a_long_one_between_characters() {
    let (_dir, results) = results();
    let line = "{\"a\": [1, 2, 3], \"b\": \"\u{e4}\u{1f642}\"}\n";
    let text = line.repeat(300);
    let shown = results.fit("s", text.clone(), 1024, 0);
    let head = shown.rsplit_once("\n[… ").unwrap().0;
    assert!(
        head.ends_with("}\n") && shown.contains("300 lines; read_result"),
        "{shown}"
    );
    assert_eq!(read_on(&results, &shown, 1024), text);
    let text = "\u{1f642}".repeat(2000);
    let shown = results.fit("s", text.clone(), 1026, 0);
    assert!(
        !shown.contains("lines") && !shown.contains("records"),
        "{shown}"
    );
    assert_eq!(read_on(&results, &shown, 1026), text);
}

#[test]
fn a_record_boundary_never_makes_a_part_small() {
    let long = "x".repeat(5000);
    for text in [
        format!("[1, \"{long}\", 2]"),
        format!("{{\"tags\": [\"a\", \"b\"], \"text\": \"{long}\"}}"),
        format!("title\n{long}"),
        // Not JSON, although it begins like it.
        format!("[1, 2}}{long}"),
        format!("[1, 2] {long}"),
        format!("[\"1, {long}"),
    ] {
        let shown = truncate(&text, 2000, None);
        assert!(shown.len() > 1700 && shown.len() <= 2000, "{}", shown.len());
        assert!(shown.ends_with("not stored: request less]"), "{shown}");
    }
}

#[test]
fn a_key_is_valid_in_its_conversation_for_two_hours() {
    let (_dir, results) = results();
    let key = results.store("s", "some text", 1000).unwrap();
    assert_eq!(key.len(), 32);
    assert_ne!(key, results.store("s", "some text", 1000).unwrap());
    let read = |session, key: &str, offset, now| results.read(session, &at(key, offset, 100), now);
    assert_eq!(
        read("s", &key, 5, 1000).unwrap(),
        "[bytes 5 to 9 of 9; end of the result]\ntext"
    );
    assert_eq!(
        read("s", &key, 9, 1000).unwrap_err(),
        "The result ends at byte 9."
    );
    let none = read("s", "0", 0, 1000).unwrap_err();
    assert_eq!(read("other", &key, 0, 1000).unwrap_err(), none);
    assert_eq!(read("s", "../results/0", 0, 1000).unwrap_err(), none);
    assert!(read("s", &key, 0, 1000 + RESULT_TTL_MS - 1).is_ok());
    assert_eq!(read("s", &key, 0, 1000 + RESULT_TTL_MS).unwrap_err(), none);
    assert!(results.lock().by_key.is_empty() && results.lock().bytes == 0);
}

#[test]
fn expired_results_are_removed_without_a_request() {
    let (dir, results) = results();
    let place = dir.path().join("results");
    let files = || fs::read_dir(&place).unwrap().count();
    results.store("s", "older", 1000).unwrap();
    let key = results.store("s", "younger", 2000).unwrap();
    results.expire(1000 + RESULT_TTL_MS - 1);
    assert_eq!(files(), 2);
    results.expire(1000 + RESULT_TTL_MS);
    assert_eq!(files(), 1);
    assert!(results.read("s", &at(&key, 0, 9), 2000).is_ok());
    results.expire(2000 + RESULT_TTL_MS);
    assert_eq!(files(), 0);
    assert_eq!(results.lock().bytes, 0);
}

#[test]
fn concurrent_results_are_all_stored_and_counted() {
    let (_dir, results) = results();
    let keep = |n: usize| results.store(&format!("s{n}"), &"x".repeat(1000 + n), 0);
    let keys: Vec<String> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|n| scope.spawn(move || keep(n))).collect();
        all.into_iter()
            .map(|one| one.join().unwrap().unwrap())
            .collect()
    });
    for (n, key) in keys.iter().enumerate() {
        let shown = results.read(&format!("s{n}"), &at(key, 0, 1), 0).unwrap();
        let of = format!(" of {};", 1000 + n);
        assert!(shown.contains(&of), "{shown}");
    }
    assert_eq!(results.lock().bytes, 8 * 1000 + 28);
}

#[test]
fn stored_results_are_bounded_and_private_to_the_user() {
    let (dir, results) = results();
    let place = dir.path().join("results");
    let text = "x".repeat(MAX_RESULT_BYTES);
    let keys: Vec<String> = (0..6)
        .map(|n| results.store("s", &text, n).unwrap())
        .collect();
    let sizes = || -> Vec<u64> {
        let files = fs::read_dir(&place).unwrap();
        files
            .map(|f| f.unwrap().metadata().unwrap().len())
            .collect()
    };
    assert_eq!(sizes(), [MAX_RESULT_BYTES as u64; 4]);
    let is_stored = |key: &String| results.read("s", &at(key, 0, 1), 6).is_ok();
    let stored: Vec<bool> = keys.iter().map(is_stored).collect();
    assert_eq!(
        stored,
        [false, false, true, true, true, true],
        "oldest out first"
    );
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place), 0o700);
    let file = fs::read_dir(&place)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    assert_eq!(mode(&file), 0o600);
    let name = file.file_name().unwrap().len();
    assert_eq!(name, 1, "a key is no name");
    // The next daemon does not know any of it.
    drop(results);
    let next = ResultStore::new(place.clone());
    assert!(!place.exists());
    next.store("s", "text", 0).unwrap();
    next.clear();
    assert!(!place.exists());
}

#[test]
fn a_result_that_cannot_be_stored_is_cut_with_a_note() {
    let dir = TempDir::new().unwrap();
    let results = ResultStore::new(dir.path().join("results"));
    fs::write(dir.path().join("results"), "in the way").unwrap();
    let shown = results.fit("s", "x".repeat(5000), 1024, 0);
    assert!(
        shown.len() <= 1024 && shown.ends_with("not stored: request less]"),
        "{shown}"
    );
    assert_eq!(results.lock().bytes, 0);
}

#[test]
fn invalid_arguments_of_read_result_are_reported() {
    let read = |arguments: Value| ReadRequest::parse(arguments.as_object().unwrap(), 1024);
    assert!(
        read(serde_json::json!({}))
            .unwrap_err()
            .starts_with("key is required")
    );
    for wrong in [
        serde_json::json!({"key": "k", "offset": -1}),
        serde_json::json!({"key": "k", "offset": "5"}),
    ] {
        let message = "offset must be a whole number of bytes, 0 or more";
        assert_eq!(read(wrong).unwrap_err(), message);
    }
    let reading = read(serde_json::json!({"key": " k\n", "limit": 999_999})).unwrap();
    assert_eq!(reading, at("k", 0, 1024 - NOTE_BYTES));
}

proptest! {
    #[test]
    fn parts_concatenate_to_the_text(text in "[\\[\\]{},:\"\\\\ \n1aä🙂]{0,400}", max in 1_usize..80) {
        let shape = RecordLayout::of(&text);
        let (mut start, mut whole) = (0, String::new());
        while start < text.len() {
            let end = shape.end(&text, start, max);
            prop_assert!(end > start && text.is_char_boundary(end));
            prop_assert!(end - start <= max.max(4));
            whole.push_str(&text[start..end]);
            start = end;
        }
        prop_assert_eq!(whole, text);
    }
}
