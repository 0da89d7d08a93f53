use proptest::prelude::*;

use super::*;

/// A value of a header, with its type.
enum Entry {
    Bytes(u32, Vec<u8>),
    Text(&'static str),
}

fn text(text: &str) -> Vec<u8> {
    let mut out = (text.len() as u64).to_le_bytes().to_vec();
    out.extend(text.as_bytes());
    out
}

fn header(version: u32, entries: &[(&str, Entry)]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend(version.to_le_bytes());
    out.extend(0u64.to_le_bytes());
    out.extend((entries.len() as u64).to_le_bytes());
    for (key, entry) in entries {
        out.extend(text(key));
        let (kind, bytes) = match entry {
            Entry::Bytes(kind, bytes) => (*kind, bytes.clone()),
            Entry::Text(value) => (8, text(value)),
        };
        out.extend(kind.to_le_bytes());
        out.extend(bytes);
    }
    out
}

fn array(kind: u32, count: u64, bytes: &[u8]) -> Entry {
    let mut out = kind.to_le_bytes().to_vec();
    out.extend(count.to_le_bytes());
    out.extend(bytes);
    Entry::Bytes(9, out)
}

fn read(bytes: &[u8]) -> Result<GgufHeader, String> {
    read_header(bytes)
}

/// A header with a value of each kind.
fn whole() -> Vec<u8> {
    let words = [text("<s>"), text(""), text("hello")].concat();
    header(
        3,
        &[
            ("bert.context_length", Entry::Bytes(4, vec![1, 0, 0, 0])),
            ("general.architecture", Entry::Text("qwen3")),
            (
                "general.name",
                Entry::Text(concat!(
                    "A name that is longer than that of any architecture, ",
                    "so that it is not kept"
                )),
            ),
            ("general.flag", Entry::Bytes(7, vec![1])),
            ("tokenizer.ggml.tokens", array(8, 3, &words)),
            ("tokenizer.ggml.scores", array(6, 2, &[0; 8])),
            (
                "nested",
                array(9, 1, &[0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 7, 7]),
            ),
            (
                "qwen3.context_length",
                Entry::Bytes(4, 40_960u32.to_le_bytes().to_vec()),
            ),
            ("qwen3.rope.freq_base", Entry::Bytes(6, vec![0; 4])),
            ("big", Entry::Bytes(12, vec![0; 8])),
            ("small", Entry::Bytes(3, vec![0; 2])),
        ],
    )
}

#[test]
fn architecture_and_context_length_are_read() {
    let header = read(&whole()).expect("a header");
    assert_eq!(header.architecture, "qwen3");
    assert_eq!(header.context_length, Some(40_960));
    assert_eq!(header.parts, 1);
}

/// A header with two tensors, whose data begins at the offsets.
fn with_tensors(alignment: Option<u32>, offsets: [u64; 2]) -> Vec<u8> {
    let mut entries = vec![("general.architecture", Entry::Text("a"))];
    if let Some(n) = alignment {
        entries.push((
            "general.alignment",
            Entry::Bytes(4, n.to_le_bytes().to_vec()),
        ));
    }
    let mut out = header(3, &entries);
    out[8..16].copy_from_slice(&2u64.to_le_bytes());
    for offset in offsets {
        out.extend(text("blk.0.weight"));
        out.extend(2u32.to_le_bytes());
        out.extend([0; 20]);
        out.extend(offset.to_le_bytes());
    }
    out
}

#[test]
fn the_start_of_the_last_tensor_is_known() {
    let last = |alignment, offsets| {
        let bytes = with_tensors(alignment, offsets);
        (
            bytes.len() as u64,
            read(&bytes).expect("a header").last_tensor,
        )
    };
    let (length, last_tensor) = last(None, [0, 4096]);
    assert_eq!(last_tensor, length.next_multiple_of(32) + 4096);
    let (length, last_tensor) = last(Some(128), [8192, 0]);
    assert_eq!(last_tensor, length.next_multiple_of(128) + 8192);
    assert_eq!(last(Some(0), [0, u64::MAX]).1, u64::MAX);
    assert_eq!(last(Some(u32::MAX), [u64::MAX; 2]).1, u64::MAX);
    let whole = with_tensors(None, [0, 1]);
    for length in 0..whole.len() {
        assert!(read(&whole[..length]).is_err(), "{length}");
    }
}

#[test]
fn a_header_that_ends_early_is_an_error_everywhere() {
    let whole = whole();
    for length in 0..whole.len() {
        let e = read(&whole[..length]).expect_err("not whole");
        assert_eq!(e, "has a header that does not end", "{length}");
    }
    assert!(read(&whole).is_ok());
}

#[test]
fn numbers_of_other_types_count_and_negative_ones_do_not() {
    let length = |kind, bytes: &[u8]| {
        let entries = [
            ("general.architecture", Entry::Text("a")),
            ("a.context_length", Entry::Bytes(kind, bytes.to_vec())),
            ("split.count", Entry::Bytes(2, vec![3, 0])),
        ];
        let header = read(&header(2, &entries)).expect("a header");
        assert_eq!(header.parts, 3);
        header.context_length
    };
    assert_eq!(length(10, &4096u64.to_le_bytes()), Some(4096));
    assert_eq!(length(5, &4096i32.to_le_bytes()), Some(4096));
    assert_eq!(length(5, &(-1i32).to_le_bytes()), None);
    assert_eq!(length(11, &i64::MIN.to_le_bytes()), None);
    assert_eq!(length(4, &[0; 4]), None);
    assert_eq!(length(10, &u64::MAX.to_le_bytes()), Some(u64::MAX));
}

#[test]
fn hostile_headers_are_refused_at_once() {
    let reason = |bytes: &[u8]| read(bytes).expect_err("hostile");
    assert_eq!(reason(b"<!DOCTYPE html>"), "is not a GGUF file");
    assert!(reason(&header(1, &[])).contains("version 1 "));
    assert!(reason(&header(0x0300_0000, &[])).contains("version 50331648 "));
    assert_eq!(reason(&header(3, &[])), "does not name its architecture");
    let mut many = header(3, &[]);
    many[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(reason(&many).contains("values"));
    many[16..24].copy_from_slice(&1u64.to_le_bytes());
    many.extend(u64::MAX.to_le_bytes());
    assert!(reason(&many).contains("a name of"));

    let mut tensors = header(3, &[("general.architecture", Entry::Text("a"))]);
    tensors[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(reason(&tensors).contains("tensors"));
    tensors[8..16].copy_from_slice(&1u64.to_le_bytes());
    tensors.extend(text("x"));
    tensors.extend(u32::MAX.to_le_bytes());
    assert!(reason(&tensors).contains("dimensions"));

    let with = |entry| reason(&header(3, &[("x", entry)]));
    let ends = "has a header that does not end";
    assert_eq!(with(Entry::Bytes(8, u64::MAX.to_le_bytes().to_vec())), ends);
    assert_eq!(with(array(8, u64::MAX, &[])), ends);
    assert_eq!(with(array(12, u64::MAX, &[])), ends);
    assert_eq!(with(array(0, u64::MAX, &[])), ends);
    assert!(with(array(99, 1, &[])).contains("type 99"));
    assert!(with(Entry::Bytes(13, vec![])).contains("type 13"));
    // Arrays in arrays in arrays.
    let level = [9u8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    let deep = level.repeat(1_000_000);
    assert!(with(Entry::Bytes(9, deep)).contains("arrays in arrays"));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), version in 0u32..5) {
        let mut whole = MAGIC.to_vec();
        whole.extend(version.to_le_bytes());
        whole.extend(&bytes);
        let _ = read(&bytes);
        let _ = read(&whole);
    }

    #[test]
    fn no_changed_byte_makes_it_panic(at in 0usize..1000, byte in any::<u8>()) {
        let mut bytes = whole();
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = read(&bytes);
    }
}
