//! The data of Secrets of Kubernetes.

use super::settled::check as check_settled;
use super::*;

/// Base64 of text, whose length is a multiple of four.
fn value(c: &mut TestRandom, length: usize) -> String {
    c.of(ALNUM, length.next_multiple_of(4))
}

/// Three forms of an object with these values: as `kubectl get -o yaml` prints it, with the kind first, and in JSON.
fn objects(entries: &[(&str, String)], kind: &str) -> [String; 3] {
    let quoted = |value: &str| match value {
        "" => "\"\"".to_owned(),
        _ => value.to_owned(),
    };
    let rows: String = entries
        .iter()
        .map(|(name, value)| format!("  {name}: {}\n", quoted(value)))
        .collect();
    let fields: Vec<_> = entries
        .iter()
        .map(|(name, value)| format!("        \"{name}\": \"{value}\""))
        .collect();
    let fields = fields.join(",\n");
    [
        format!("apiVersion: v1\ndata:\n{rows}kind: {kind}\nmetadata:\n  name: app\n"),
        format!("apiVersion: v1\nkind: {kind}\ndata:\n{rows}type: Opaque\n"),
        format!(
            "{{\n    \"apiVersion\": \"v1\",\n    \"data\": {{\n{fields}\n    }},\n    \"kind\": \"{kind}\"\n}}\n"
        ),
    ]
}

#[test]
fn all_values_of_a_secret_are_found_whatever_their_lengths() {
    let redactor = Redactor::default();
    let c = &mut TestRandom(23);
    // An empty value, a certificate, and data longer than the rule reads.
    for lengths in [
        &[24][..],
        &[0, 24],
        &[24, 0],
        &[4, 0, 24],
        &[1500, 24],
        &[24, 1500],
        &[15_000, 24],
        &[24, 15_000],
        &[24, 17_000],
        &[9000, 9000, 9000, 24],
        &[100; 250],
    ] {
        let entries: Vec<_> = lengths
            .iter()
            .map(|length| ("a.b", value(c, *length)))
            .collect();
        for text in objects(&entries, "Secret") {
            let out = redactor.redact(&text);
            for (_, value) in entries.iter().filter(|(_, value)| value.len() > 4) {
                assert!(
                    !out.contains(&value[value.len() - 16..]),
                    "{lengths:?}\n{out}"
                );
            }
            let ends: Vec<_> = (0..text.len()).step_by(700).collect();
            let (streamed, _) = streamed(&redactor, text.as_bytes(), &ends);
            assert_eq!(String::from_utf8_lossy(&streamed), out);
            if text.len() < 2000 {
                check_settled(&redactor, &format!("{text}\nand then it goes on.\n"), 7);
            }
        }
        for text in objects(&entries, "SecretStore") {
            if text.len() < 16 << 10 {
                assert_eq!(redactor.redact(&text), text);
            }
        }
    }
}

#[test]
fn the_kind_is_that_of_the_object_with_the_data() {
    let redactor = Redactor::default();
    for text in [
        "kind: Secret\nmetadata:\n  name: a\n---\nkind: ConfigMap\ndata:\n  MODE: prod\n",
        "kind: Secret\nmetadata:\n  name: a\n---\ndata:\n  MODE: prod\nkind: ConfigMap\n",
        "kind: SecretStore\ndata:\n  MODE: prod\n",
        "data:\n  MODE: prod\nkind: SecretStore\n",
        "data:\n  MODE: prod\n---\nkind: Secret\n",
        "items:\n- kind: Secret\n  metadata:\n    name: x\n- data:\n    MODE: prod\n  kind: ConfigMap\n",
        "{\"items\":[{\"data\":{},\"kind\":\"Secret\"},{\"data\":{\"MODE\":\"prod\"},\"kind\":\"ConfigMap\"}]}",
        "{\"items\":[{\"data\":{\"MODE\":\"prod\"},\"kind\":\"ConfigMap\"},{\"kind\":\"Secret\"}]}",
    ] {
        assert_eq!(redactor.redact(text), text);
        check_settled(&redactor, text, 1);
    }
}

#[test]
fn other_forms_of_the_data_are_read() {
    let redactor = Redactor::default();
    let (first, second) = ("cG9zdGdyZXMtYXBw", "cHJvZHVjdGlvbi05");
    for text in [
        format!(
            "items:\n- apiVersion: v1\n  data:\n    a: {first}\n    b: '{second}'\n  kind: Secret\n"
        ),
        format!("kind: Secret\ndata:\n  a: |\n    {first}\n    {second}\n"),
        format!(
            "kind: Secret\ndata:\n  # comment\n  a: {first}\n\n  b: {{{{ .Values.b }}}}\n  c: {second}\n"
        ),
        format!(
            "kind: Secret\nmetadata:\n  ownerReferences:\n  - kind: Other\ndata:\n  a: {first}\n  b: {second}\n"
        ),
        format!("kind: Secret\nstringData:\n  a: {first}\n  user: bob\n  b: {second}\n"),
        format!(
            "{{\"text\":\"apiVersion: v1\\ndata:\\n  a: {first}\\n  b: {second}\\nkind: Secret\\n\"}}"
        ),
        format!(
            "{{\"kind\":\"Secret\",\"metadata\":{{\"kind\":\"x\"}},\"data\":{{\"a\":\"{first}\",\"b\":\"{second}\"}}}}"
        ),
    ] {
        let out = redactor.redact(&text);
        assert!(!out.contains(first) && !out.contains(second), "{out}");
        check_settled(
            &redactor,
            &format!("{text}\nand more of it follows here.\n"),
            1,
        );
    }
}
