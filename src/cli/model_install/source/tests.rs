use super::*;

fn name(typed: &str) -> String {
    ModelSource::parse(typed, None).expect("a source").name
}

#[test]
fn urls_and_names_follow_from_what_was_typed() {
    let source = ModelSource::parse("hf:Qwen/Qwen3-4B-GGUF/sub/Qwen3-4B-Q4_K_M.gguf", None);
    let source = source.expect("a source");
    assert_eq!(
        source.url.as_str(),
        "https://huggingface.co/Qwen/Qwen3-4B-GGUF/resolve/main/sub/Qwen3-4B-Q4_K_M.gguf"
    );
    assert_eq!(source.name, "qwen3-4b-q4_k_m");
    assert_eq!(
        name("https://h.example/a/Big%20One.gguf?token=1#x"),
        "big-one"
    );
    assert_eq!(name("https://h.example/a/.._x"), "x");
    let page = ModelSource::parse("https://huggingface.co/o/r/blob/main/blob/x.gguf", None);
    assert_eq!(
        page.expect("a source").url.as_str(),
        "https://huggingface.co/o/r/resolve/main/blob/x.gguf"
    );
    for known in KNOWN_MODELS {
        let source = ModelSource::parse(known.name, None).expect("a source");
        assert_eq!(source.name, known.name);
        assert_eq!(source.known, Some(known));
        assert!(source.url.path().ends_with(&format!("/{}", known.file)));
        assert!(known.sha256.len() == 64 && known.revision.len() == 40);
    }
    let long = format!("https://h.example/{}.gguf", "x".repeat(300));
    assert_eq!(name(&long).len(), 64);
}

#[test]
fn what_cannot_be_a_model_is_a_usage_error() {
    for typed in [
        "",
        "nothing",
        "hf:",
        "hf:a",
        "hf:a/b",
        "hf:a/b/",
        "hf:a/b/../c",
        "hf:a/b//c",
        "hf:../b/c",
        "hf:a b/c/d",
        "hf:a/b/c\u{1b}d",
        "ftp://h.example/x.gguf",
        "file:///etc/passwd",
        "http://h.example/x.gguf",
        "http://localhost.example/x.gguf",
        "https://user@h.example/x.gguf",
        "https://h.example/",
        "https://h.example/x-00002-of-00003.gguf",
        "https://",
    ] {
        let e = ModelSource::parse(typed, None).expect_err(typed);
        assert_eq!(e.kind.exit_code(), 2, "{typed}: {e}");
    }
    for typed in [
        "http://127.0.0.1:1/x.gguf",
        "http://localhost/x.gguf",
        "http://[::1]/x.gguf",
    ] {
        assert_eq!(name(typed), "x");
    }
}

#[test]
fn a_shown_url_has_no_secret() {
    let url = Url::parse("https://me:secret@h.example/x.gguf?token=secret").expect("a URL");
    assert!(!shown_url(&url).contains("secret"));
}
