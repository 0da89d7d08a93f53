use super::*;

fn try_edit(file: &[u8], old: &str, new: &str) -> Result<EditOutcome, WorkspaceError> {
    let text = TextFile::parse(file)?;
    edit(
        &text,
        file,
        EditRequest {
            old,
            new,
            replace_all: false,
        },
    )
}

#[track_caller]
fn edited(file: impl AsRef<[u8]>, old: &str, new: &str) -> (String, MatchStage) {
    let outcome = try_edit(file.as_ref(), old, new).unwrap();
    (String::from_utf8(outcome.bytes).unwrap(), outcome.stage)
}

#[track_caller]
fn refused(file: impl AsRef<[u8]>, old: &str, new: &str) -> WorkspaceError {
    try_edit(file.as_ref(), old, new).unwrap_err()
}

use MatchStage::{Exact, Indentation, Punctuation, TrailingSpace};

#[test]
fn a_unique_text_is_replaced_also_within_a_line() {
    assert_eq!(
        edited("a foo b\nc\n", "foo", "bar"),
        ("a bar b\nc\n".into(), Exact)
    );
    assert_eq!(edited("a\nb\nc\n", "b\n", ""), ("a\nc\n".into(), Exact));
    assert_eq!(edited("a\nb\nc", "b\nc", "x"), ("a\nx".into(), Exact));
    assert_eq!(
        edited("one\ntwo\nthree\n", "ne\ntwo\nth", "X\nY"),
        ("oX\nYree\n".into(), Exact)
    );
}

#[test]
fn line_ends_of_the_file_are_kept_whatever_the_model_writes() {
    assert_eq!(
        edited("a\r\nb\r\nc\r\n", "a\nb", "a\nx\ny").0,
        "a\r\nx\r\ny\r\nc\r\n"
    );
    assert_eq!(
        edited("a\nb\nc\n", "a\r\nb", "a\r\nx\r\ny").0,
        "a\nx\ny\nc\n"
    );
    // Mixed: a changed line keeps its end, a new one gets the most frequent.
    assert_eq!(
        edited("a\nb\r\nc\nd\n", "a\nb\nc", "a\nB\nnew\nc").0,
        "a\nB\r\nnew\nc\nd\n"
    );
    assert_eq!(edited("a\rb\rc", "b", "x\ny").0, "a\rx\ry\rc");
    // A lone CR inside of a line of text is one.
    assert_eq!(
        edited("10%\r20%\nend\n", "20%", "30%\r40%").0,
        "10%\r30%\r40%\nend\n"
    );
}

#[test]
fn byte_order_mark_encoding_and_missing_newline_are_kept() {
    assert_eq!(
        edited("\u{FEFF}a\nb", "\u{FEFF}a\nb", "c\nd").0,
        "\u{FEFF}c\nd"
    );
    assert_eq!(edited("\u{FEFF}a\n", "a", "\u{FEFF}b").0, "\u{FEFF}b\n");
    let file: Vec<u8> = "\u{FEFF}grün\r\nblau"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let new: Vec<u8> = "\u{FEFF}grün\r\n😀\r\nrot"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    assert_eq!(try_edit(&file, "blau", "😀\nrot").unwrap().bytes, new);
    // The model takes it for granted that a file ends with a newline.
    assert_eq!(
        edited("a\nb  \nc", "b\nc\n", "b\nd\n"),
        ("a\nb  \nd".into(), TrailingSpace)
    );
}

#[test]
fn a_newline_that_only_the_old_text_has_is_removed_at_each_stage() {
    for (file, old, stage) in [
        ("  b\nc\n", "  b\n", Exact),
        ("  b\t\nc\n", "  b\n", TrailingSpace),
        ("  b\nc\n", "    b\n", Indentation),
    ] {
        let new = old.replace('b', "x").trim_end().to_owned();
        assert_eq!(edited(file, old, &new), ("  xc\n".into(), stage));
        assert_eq!(edited(file, old, &format!("{new}\n")).0, "  x\nc\n");
    }
}

#[test]
fn lines_that_are_removed_leave_no_indentation_behind() {
    for (file, old, left) in [
        ("  a()\n  b()\n", "a()\n  b()\n", ""),
        ("x\n\ta()\n\tb()\ny\n", "a()\n\tb()\n", "x\ny\n"),
        // A part of a line is removed as it is.
        ("x a()\n  b()\n", "a()\n  b()\n", "x "),
    ] {
        assert_eq!(edited(file, old, "").0, left, "{file:?}");
    }
    // Lines that are replaced keep it.
    assert_eq!(
        edited("  a()\n  b()\n", "a()\n  b()\n", "c()\n").0,
        "  c()\n"
    );
}

#[test]
fn bytes_that_are_not_utf8_survive_around_the_edit() {
    let outcome = try_edit(b"caf\xE9 old\n\xFF\xFE\n", "old", "new").unwrap();
    assert_eq!(outcome.bytes, b"caf\xE9 new\n\xFF\xFE\n");
    assert!(
        refused(b"caf\xE9 old\n", "old", "né")
            .message
            .contains("only ASCII")
    );
}

#[test]
fn an_empty_or_ineffective_edit_is_refused_with_the_reason() {
    assert_eq!(
        refused("a\n", "", "b").message,
        "the text to replace is empty"
    );
    assert_eq!(
        refused("a\n", "\u{FEFF}", "b").message,
        "the text to replace is empty"
    );
    assert!(
        refused("a\n", "a", "a")
            .message
            .contains("the old and the new text are the same")
    );
    assert!(
        refused("a\r\nb\n", "a\r\nb", "a\nb")
            .message
            .contains("changes nothing")
    );
}

#[test]
fn a_text_in_several_places_is_refused_with_their_lines() {
    let error = refused("x\na\nx\nb\nx\n", "x", "y");
    assert_eq!(
        error.message,
        "the text to replace is not unique: it begins at lines 1, 3, 5"
    );
    let overlapping = refused("x-x-x\n", "x-x", "y");
    assert_eq!(
        overlapping.message,
        "the text to replace is not unique: it begins at several places of line 1"
    );
    assert!(error.hint.unwrap().contains("replace_all"));
    // Places that overlap count, too.
    assert!(refused("aaa\n", "aa", "b").message.contains("not unique"));
    // A looser stage is not asked where a stricter one finds several.
    assert!(
        refused("  x\nx \nx \n", "x \n", "y\n")
            .message
            .contains("lines 2, 3")
    );
    let many = "x\n".repeat(30);
    assert!(refused(&many, "x", "y").message.ends_with("10 and 20 more"));
}

#[test]
fn an_absent_text_is_refused_with_the_nearest_lines() {
    let file = "fn one() {\n    first();\n}\n\nfn two() {\n    second();\n    third();\n}\n";
    let error = refused(file, "fn two() {\n    second();\n    fourth();\n", "");
    assert_eq!(error.message, "the text to replace is not in the file");
    let excerpt = error.excerpt.unwrap();
    assert!(
        excerpt.contains("     5\tfn two() {\n     6\t    second();\n     7\t    third();\n"),
        "{excerpt}"
    );
    // No line is equal: the most similar one.
    let excerpt = refused(file, "    secondly();", "").excerpt.unwrap();
    assert!(excerpt.contains("     6\t    second();"), "{excerpt}");
    assert_eq!(refused(file, "completely different", "").excerpt, None);
    assert_eq!(refused("", "a", "b").excerpt, None);
}

#[test]
fn a_stale_edit_is_told_that_the_new_text_is_there() {
    let error = refused("a\nnew line\n", "old line\n", "new line\n");
    assert_eq!(
        error.hint.unwrap(),
        "the new text is in the file already, at line 2: read the file again"
    );
}

#[test]
fn lines_with_the_numbers_of_read_file_are_named_as_such() {
    let error = refused(
        "a\n    x = 1\n",
        "     2\t    x = 1\n",
        "     2\t    x = 2\n",
    );
    assert!(
        error
            .hint
            .unwrap()
            .starts_with("leave out the line numbers")
    );
    assert!(
        refused("a\n", "2 x\n", "y\n")
            .hint
            .unwrap()
            .starts_with("read the file")
    );
}

#[test]
fn a_deletion_is_not_taken_for_one_that_was_made_already() {
    for (file, old, new, expected) in [
        (
            "a();\nb();\nc(); \n",
            "a();\nb();\nc();\n",
            "a();\nb();\n",
            "a();\nb();\n",
        ),
        (
            "  a();\n  b();\n  c();\nd\n",
            "a();\n  b();\n  c();",
            "a();\n  b();",
            "  a();\n  b();\nd\n",
        ),
        (
            "if x:\n        a()\n    b()\n",
            "if x:\n    a()\nb()\n",
            "if x:\n",
            "",
        ),
        ("“a”\nb\nc\n", "\"a\"\nb\nc", "b\nc", "b\nc\n"),
    ] {
        match expected {
            "" => _ = refused(file, old, new),
            _ => assert_eq!(edited(file, old, new).0, expected, "{old:?}"),
        }
    }
    // A part of the old text that is in the file says nothing.
    let hint = refused("a();\nb();\n", "a();\nb();\nq();\n", "a();\nb();\n")
        .hint
        .unwrap();
    assert!(hint.starts_with("read the file again"), "{hint}");
    // The deletion was made, and the other place is similar.
    let file = "  a();\n  b();\n\n    a();\n    b();\n    c();\n";
    let error = refused(file, "  a();\n  b();\n  c();\n", "  a();\n  b();\n");
    assert_eq!(error.message, "the text to replace is not in the file");
}

#[test]
fn an_edit_that_was_made_already_is_not_made_in_a_similar_place() {
    let file = "  a();\n  c();\n\n    a();\n    b();\n";
    let error = refused(file, "  a();\n  b();\n", "  a();\n  c();\n");
    assert!(error.hint.unwrap().contains("already, at line 1"));
}

#[test]
fn a_single_line_that_was_changed_already_is_not_changed_in_a_similar_place() {
    let file = "def f():\n    return 1\n\nclass A:\n    def f(self):\n        return 2\n";
    let error = refused(file, "        return 1\n", "        return 2\n");
    assert!(error.hint.unwrap().contains("already, at line 6"));
    // A line as this one is everywhere.
    assert_eq!(
        edited("{\n\t}\n    a;\n}\n", "\ta;\n", "}\n").0,
        "{\n\t}\n}\n}\n"
    );
}

#[test]
fn a_text_without_its_indentation_is_replaced_as_it_is() {
    let file = "def f():\n    if x:\n        a()\n    z()\n";
    for (old, new, expected) in [
        (
            "a()",
            "a()\n    else:\n        c()",
            "def f():\n    if x:\n        a()\n    else:\n        c()\n    z()\n",
        ),
        (
            "z()\n",
            "z()\n\n\ndef g():\n    pass\n",
            "def f():\n    if x:\n        a()\n    z()\n\n\ndef g():\n    pass\n",
        ),
        (
            "a()\n    z()",
            "b()\n    y()",
            "def f():\n    if x:\n        b()\n    y()\n",
        ),
        ("a()\n", "", "def f():\n    if x:\n    z()\n"),
    ] {
        assert_eq!(edited(file, old, new).0, expected, "{old:?} {new:?}");
    }
}

#[test]
fn a_place_that_is_not_exact_is_the_only_one_that_is_similar() {
    for (file, old) in [
        (
            "def a():\n    x = “q”\n\ndef b():\n        x = \"q\"\n",
            "    x = \"q\"\n",
        ),
        ("    a(x) \n\n\n  a(x)\n", "    a(x)\t\n"),
        ("a – “b” \n\n\n  a - \"b\"\n", "a - “b”"),
    ] {
        let message = refused(file, old, "y\n").message;
        let last = file.lines().count();
        let (first, last) = (last - 3, last);
        assert!(
            message.ends_with(&format!("lines {first}, {last}")),
            "{message}"
        );
    }
}

#[test]
fn a_match_within_the_indentation_is_a_match_of_whole_lines() {
    let file = "def f():\n        a()\n        c()\n";
    let with_b = "def f():\n        a()\n        b()\n        c()\n";
    for (old, new, expected) in [
        ("    a()\n", "    a()\n    b()\n", with_b),
        ("    a()", "    a()\n    b()", with_b),
        // Only the first line is given without its indentation, which is exact.
        ("a()", "a()\n        b()", with_b),
        ("a()\n        c()", "a()\n        b()\n        c()", with_b),
        ("    a()\n", "", "def f():\n        c()\n"),
        ("a()\n", "", "def f():\n        c()\n"),
        // A part of a line.
        ("a()", "b()", "def f():\n        b()\n        c()\n"),
        ("    a(", "    b(", "def f():\n        b()\n        c()\n"),
    ] {
        assert_eq!(edited(file, old, new).0, expected, "{old:?} {new:?}");
    }
    let tabs = edited("f {\n\t\ta()\n}\n", "\ta()\n", "\ta()\n\tb()\n");
    assert_eq!(tabs, ("f {\n\t\ta()\n\t\tb()\n}\n".into(), Indentation));
    let two = "def g():\n        a()\n\ndef f():\n    a()\n";
    for end in ["", "\n"] {
        let message = refused(two, &format!("      a(){end}"), &format!("      b(){end}")).message;
        assert!(message.contains("lines 2, 5"), "{message}");
    }
}

#[test]
fn trailing_space_may_differ_and_unchanged_lines_keep_theirs() {
    let file = "keep  \nchange me\t\nend\n";
    assert_eq!(
        edited(file, "keep\nchange me\n", "keep\nchanged\n"),
        ("keep  \nchanged\nend\n".into(), TrailingSpace)
    );
    // The model adds spaces that the file has not: new lines get none.
    assert_eq!(
        edited("a\nb\nc\n", "a  \nb  \n", "a  \nx  \n").0,
        "a\nx\nc\n"
    );
    // New lines keep their own trailing space, without what the model adds everywhere.
    assert_eq!(
        edited("a\nb \nc\n", "a  \nb   \n", "a  \nx   \n").0,
        "a\nx \nc\n"
    );
    // Blank lines of spaces.
    assert_eq!(edited("a\n    \nb\n", "a\n\nb", "a\n\nc").0, "a\n    \nc\n");
}

#[test]
fn indentation_may_differ_uniformly_and_the_replacement_gets_that_of_the_file() {
    let file = "class A:\n    def f(self):\n        return 1\n";
    let expected =
        "class A:\n    def f(self):\n        if x:\n            return 2\n        return 1\n";
    let less = edited(
        file,
        "def f(self):\n    return 1\n",
        "def f(self):\n    if x:\n        return 2\n    return 1\n",
    );
    assert_eq!(less, (expected.into(), Indentation));
    let more = edited(
        file,
        "        def f(self):\n            return 1\n",
        "        def f(self):\n            if x:\n                return 2\n            return 1\n",
    );
    assert_eq!(more, (expected.into(), Indentation));
}

#[test]
fn tabs_and_spaces_are_exchanged() {
    let tabs = "func f() {\n\tif x {\n\t\ty()\n\t}\n}\n";
    let edit = edited(
        tabs,
        "    if x {\n        y()\n",
        "    if x {\n        if z {\n            y()\n        }\n",
    );
    assert_eq!(
        edit,
        (
            "func f() {\n\tif x {\n\t\tif z {\n\t\t\ty()\n\t\t}\n\t}\n}\n".into(),
            Indentation
        )
    );
    let two = edited(
        tabs,
        "  if x {\n    y()\n",
        "  if x {\n    z()\n      y()\n",
    );
    assert_eq!(two.0, "func f() {\n\tif x {\n\t\tz()\n\t\t\ty()\n\t}\n}\n");
    let spaces = "a:\n  b:\n    c\n  d:\n    e\n";
    assert_eq!(
        edited(spaces, "\tb:\n\t\tc\n", "\tb:\n\t\tc\n\t\t\tx\n").0,
        "a:\n  b:\n    c\n      x\n  d:\n    e\n"
    );
    // A file that mixes both: the columns decide.
    let mixed = "\tif (a &&\n\t    b)\n\t\tc();\n";
    let edit = edited(
        mixed,
        "    if (a &&\n        b)\n        c();\n",
        "    if (a &&\n        b)\n        c();\n    d();\n",
    );
    assert_eq!(edit.0, "\tif (a &&\n\t    b)\n\t\tc();\n\td();\n");
    // Alignment after the indentation stays.
    let aligned = "\tcall(a,\n\t     b)\n";
    assert_eq!(
        edited(
            aligned,
            "    call(a,\n         b)\n",
            "    call(a,\n         c)\n"
        )
        .0,
        "\tcall(a,\n\t     c)\n"
    );
}

#[test]
fn indentation_that_differs_from_line_to_line_is_refused() {
    let file = "    a\n  b\n";
    assert_eq!(
        refused(file, "a\nb\n", "a\nc\n").message,
        "the text to replace is not in the file"
    );
    // A new line that is indented less than the rule allows.
    let error = refused("  a\n  b\n", "      a\n      b\n", "  a\n      c\n");
    assert!(
        error.message.contains("another indentation"),
        "{}",
        error.message
    );
    // Equal lines at two depths: neither is taken.
    assert!(
        refused("if x:\n  y\nif z:\n    y\n", "\ty\n", "\tz\n")
            .message
            .contains("lines 2, 4")
    );
}

#[test]
fn punctuation_may_differ_and_stays_that_of_the_file() {
    let file = "say(\"hi\") - it's\nnext\n";
    let edit = edited(file, "say(“hi”) – it’s", "say(“hello”) – it’s");
    assert_eq!(edit, ("say(\"hello\") - it's\nnext\n".into(), Punctuation));
    // The other way round: only what the model leaves alone is known.
    let edit = edited("“Hi” – a\u{A0}b\n", "\"Hi\" - a b", "\"Ho\" - a b - \"c\"");
    assert_eq!(edit, ("“Ho” – a\u{A0}b - \"c\"\n".into(), Punctuation));
    let edit = edited("wait… “x”\n", "wait... \"x\"", "wait... \"y\"");
    assert_eq!(edit.1, Punctuation);
    // With other indentation and trailing space.
    let edit = edited(
        "\tprint(\"a\")  \n\tprint(\"b\")\n",
        "print(“a”)\nprint(“b”)",
        "print(“a”)\nprint(“c”)",
    );
    assert_eq!(
        edit,
        ("\tprint(\"a\")  \n\tprint(\"c\")\n".into(), Punctuation)
    );
    assert!(
        refused("\"a\"\n“a”\n", "”a”", "b")
            .message
            .contains("lines 1, 2")
    );
}

#[test]
fn all_occurrences_are_replaced_on_request() {
    let all = |file: &str, old: &str, new: &str| {
        let text = TextFile::parse(file.as_bytes()).unwrap();
        edit(
            &text,
            file.as_bytes(),
            EditRequest {
                old,
                new,
                replace_all: true,
            },
        )
    };
    let outcome = all("a b a\r\nc\r\na\r\n", "a", "x\ny").unwrap();
    assert_eq!(outcome.bytes, b"x\r\ny b x\r\ny\r\nc\r\nx\r\ny\r\n");
    assert_eq!(outcome.places, [1, 1, 3]);
    assert_eq!(
        all("a\n", "b", "c").unwrap_err().message,
        "the text to replace is not in the file"
    );
    assert!(
        all("aaa\n", "aa", "b")
            .unwrap_err()
            .hint
            .unwrap()
            .contains("overlap")
    );
    assert_eq!(all("a\na\na\n", "a\n", "").unwrap().bytes, b"");
    assert_eq!(all("\ta\n  a\nb\n", "a\n", "").unwrap().bytes, b"b\n");
}

#[test]
fn text_that_is_only_space_is_never_matched_loosely() {
    assert_eq!(
        refused("a\n\nb\n", "   \n", "x\n").message,
        "the text to replace is not in the file"
    );
    assert_eq!(edited("a\n   \nb\n", "   \n", "x\n").1, Exact);
}

#[test]
fn an_added_empty_line_gets_no_indentation() {
    let (text, _) = edited(
        "class A:\n    def g(self):\n        return 2\n",
        "def g(self):\n    return 2",
        "def g(self):\n    return 2\n\ndef h(self):\n    return 3",
    );
    assert_eq!(
        text,
        "class A:\n    def g(self):\n        return 2\n\n    def h(self):\n        return 3\n"
    );
    assert_eq!(edited("\ta\n\tb\n", "a\nb", "a\n\nc").0, "\ta\n\n\tc\n");
}

#[test]
fn an_ellipsis_counts_as_three_dots() {
    assert_eq!(
        edited(
            "“wait… here” — x\n",
            "\"wait... here\" - x",
            "\"wait... there\" - x"
        )
        .0,
        "“wait… there” — x\n"
    );
    assert_eq!(
        edited("say \"a...\" b\n", "say “a…” b", "say “a…” c").0,
        "say \"a...\" c\n"
    );
}
