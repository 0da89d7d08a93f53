use super::*;

#[test]
fn a_digest_is_written_and_read_as_hexadecimal_digits() {
    let digest = FileDigest::of(b"abc");
    let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(digest.to_string(), text);
    assert_eq!(FileDigest::from_hex(text), Some(digest));
    assert_eq!(
        serde_json::from_str::<FileDigest>(&format!("\"{text}\"")).unwrap(),
        digest
    );
    for wrong in [
        "",
        "ba",
        &text[1..],
        &text.replace('b', "g"),
        &format!("{text}00"),
    ] {
        assert_eq!(FileDigest::from_hex(wrong), None, "{wrong}");
    }
}
