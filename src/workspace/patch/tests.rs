use std::collections::BTreeMap;

use super::*;
use crate::workspace::failure::WorkspaceError;

type Files = BTreeMap<String, Vec<u8>>;

fn files(list: &[(&str, &str)]) -> Files {
    list.iter()
        .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()))
        .collect()
}

/// Applies a patch to files in memory, all or none.
fn try_patch(mut files: Files, body: &str) -> Result<Files, WorkspaceError> {
    let operations = parse_patch(&format!("*** Begin Patch\n{body}*** End Patch\n"))?;
    let before = files.clone();
    let mut read = |path: &str, _| Ok(before.get(path).cloned());
    for patched in plan_patch(&operations, &mut read, &|| Ok(()))? {
        match patched.bytes {
            Some(bytes) => files.insert(patched.path, bytes),
            None => files.remove(&patched.path),
        };
    }
    Ok(files)
}

#[track_caller]
fn patched(text: &str, hunks: &str) -> String {
    let result = try_patch(
        files(&[("f", text)]),
        &format!("*** Update File: f\n{hunks}"),
    )
    .unwrap();
    String::from_utf8(result["f"].clone()).unwrap()
}

#[track_caller]
fn refused(text: &str, hunks: &str) -> WorkspaceError {
    try_patch(
        files(&[("f", text)]),
        &format!("*** Update File: f\n{hunks}"),
    )
    .unwrap_err()
}

#[test]
fn adds_deletes_updates_and_moves_files() {
    let before = files(&[
        ("edit", "a\nb\n"),
        ("gone", "x\n"),
        ("old/name", "from\n"),
        ("target", "replaced\n"),
    ]);
    let body = "*** Add File: new/file\n+one\n+\n+three\n\
                *** Delete File: gone\n\
                *** Update File: edit\n@@\n-b\n+B\n\
                *** Update File: old/name\n*** Move to: target\n@@\n-from\n+to\n";
    let after = files(&[
        ("edit", "a\nB\n"),
        ("new/file", "one\n\nthree\n"),
        ("target", "to\n"),
    ]);
    assert_eq!(try_patch(before, body).unwrap(), after);
}

#[test]
fn a_move_says_where_it_came_from_and_may_change_nothing() {
    let operations =
        parse_patch("*** Begin Patch\n*** Update File: a\n*** Move to: b/c\n*** End Patch")
            .unwrap();
    let mut read = |path: &str, _| Ok((path == "a").then(|| b"\xFF\0".to_vec()));
    let planned = plan_patch(&operations, &mut read, &|| Ok(())).unwrap();
    assert_eq!(planned[0].bytes, None);
    assert_eq!(
        (planned[1].path.as_str(), planned[1].moved_from.as_deref()),
        ("b/c", Some("a"))
    );
    // Not a text, but nothing in it is changed.
    assert_eq!(planned[1].bytes.as_deref(), Some(&b"\xFF\0"[..]));
}

#[test]
fn several_hunks_and_hunks_without_header() {
    assert_eq!(
        patched("1\n2\n3\n4\n", "@@\n-2\n+two\n@@\n-4\n+four\n"),
        "1\ntwo\n3\nfour\n"
    );
    assert_eq!(
        patched("import a\nx\n", " import a\n+import b\n"),
        "import a\nimport b\nx\n"
    );
    assert_eq!(
        patched("a\nb\nc\nd\n", "@@\n a\n-b\n+B\n c\n-d\n+D\n"),
        "a\nB\nc\nD\n"
    );
    assert_eq!(patched("a\nb\nc\n", "@@\n a\n-b\n c\n"), "a\nc\n");
    assert_eq!(patched("x\ny\n", "@@\n-x\n-y\n+y\n+y\n+x\n"), "y\ny\nx\n");
}

#[test]
fn added_lines_go_to_the_end_or_below_their_header() {
    assert_eq!(patched("a\nb\n", "@@\n+c\n+d\n"), "a\nb\nc\nd\n");
    assert_eq!(patched("a\nb", "@@\n+c\n"), "a\nb\nc\n");
    assert_eq!(patched("", "@@\n+c\n"), "c\n");
    assert_eq!(patched("a\nb\n", "@@ a\n+below a\n"), "a\nbelow a\nb\n");
    // They do not move on the place from which later hunks are looked for.
    assert_eq!(
        patched(
            "line1\nline2\nline3\n",
            "@@\n+after-context\n+second-line\n@@\n line1\n-line2\n-line3\n+line2-replacement\n"
        ),
        "line1\nline2-replacement\nafter-context\nsecond-line\n"
    );
    assert_eq!(
        patched("a\nb", "@@\n+c\n@@\n-b\n+B\n@@\n+d\n"),
        "a\nB\nc\nd\n"
    );
    assert_eq!(patched("a\nb", "@@\n-b\n@@\n+c\n"), "a\nc\n");
}

#[test]
fn headers_narrow_the_place_down() {
    let file =
        "class A:\n  def f():\n    pass\n  def g():\n    pass\nclass B:\n  def f():\n    pass\n";
    let changed = "class A:\n  def f():\n    pass\n  def g():\n    pass\nclass B:\n  def f():\n    return 1\n";
    assert_eq!(
        patched(
            file,
            "@@ class B:\n@@   def f():\n-    pass\n+    return 1\n"
        ),
        changed
    );
    // The header once more as the first line.
    assert_eq!(
        patched(
            file,
            "@@ class B:\n class B:\n   def f():\n-    pass\n+    return 1\n"
        ),
        changed
    );
    // Without its indentation, and with the numbers of a unified diff.
    assert_eq!(
        patched(
            file,
            "@@ -6,3 +6,3 @@ class B:\n   def f():\n-    pass\n+    return 1\n"
        ),
        changed
    );
    assert_eq!(
        patched(file, "@@ def g():\n-    pass\n+    return 2\n")
            .matches("return 2")
            .count(),
        1
    );
    assert!(
        refused(file, "@@   def f():\n-    pass\n+    x\n")
            .message
            .contains("not unique: it begins at lines 3, 8")
    );
    assert!(
        refused(file, "@@ class C:\n-    pass\n+    x\n")
            .message
            .contains("the line behind @@ is not in the file: class C:")
    );
}

const METHOD_FIRST: &str =
    "class A:\n    def f(self):\n        return 1\n\n\ndef f(self):\n    return 1\n";
const FUNCTION_FIRST: &str =
    "def f(self):\n    return 1\n\n\nclass A:\n    def f(self):\n        return 1\n";
const TWO_CLASSES: &str = "class A:\n    def f(self):\n        return 1\n\nclass B:\n    def g(self):\n        return 1\n";

#[test]
fn a_hunk_is_in_the_block_of_its_header() {
    let change = "-        return 1\n+        return 2\n";
    let changed = |text: &str, header: &str, expected: &str| {
        assert_eq!(
            patched(text, &format!("{header}{change}")),
            expected,
            "{header}"
        );
    };
    let method = METHOD_FIRST.replacen("return 1", "return 2", 1);
    changed(METHOD_FIRST, "@@ class A:\n@@ def f(self):\n", &method);
    changed(
        METHOD_FIRST,
        "@@ class A:\n@@ def f(self):\n     def f(self):\n",
        &method,
    );
    // The function is more like the header, but the method has exactly the removed line.
    let method = FUNCTION_FIRST.replace("        return 1", "        return 2");
    changed(FUNCTION_FIRST, "@@ def f(self):\n", &method);
    // The lines of the block fit less than those of another one.
    assert_eq!(
        patched(
            "func a() {\n\treturn nil\n}\n\nfunc b() {\n    return nil\n}\n",
            "@@ func a() {\n-    return nil\n+    return err\n"
        ),
        "func a() {\n\treturn err\n}\n\nfunc b() {\n    return nil\n}\n"
    );
    // The hunk begins with the next block, as those of git may.
    assert_eq!(
        patched(
            "def f():\n    x\n\ndef g():\n    y\n",
            "@@ def f():\n def g():\n-    y\n+    z\n"
        ),
        "def f():\n    x\n\ndef g():\n    z\n"
    );
    for (text, header, refusal) in [
        (
            TWO_CLASSES,
            "@@ class A:\n@@     def g(self):\n",
            "not in the block of the @@ line before it: def g(self):",
        ),
        (
            TWO_CLASSES,
            "@@ class C:\n",
            "the line behind @@ is not in the file: class C:",
        ),
        (
            "def f():\n    x\n\ndef g():\n        return 1\n",
            "@@ def f():\n",
            "are not in the block of its @@ line",
        ),
        (METHOD_FIRST, "@@ def f(self):\n", "lines 3, 7"),
    ] {
        let message = refused(text, &format!("{header}{change}")).message;
        assert!(message.contains(refusal), "{header:?}: {message}");
    }
}

#[test]
fn what_is_indented_less_need_not_end_a_block() {
    let texts = [
        "int f(int a)\n{\n    if (a)\n        goto out;\n#ifdef X\n    b();\n#endif\nout:\n    x();\n}\n",
        "class F {\npublic:\n    int a;\nprivate:\n    x();\n};\n",
        "fn f(\n    a: A,\n) -> B\nwhere\n    A: C,\n{\n    x();\n}\n",
        "switch a {\ncase 1:\n    b()\ndefault:\n    x();\n}\n",
        "def f():\n    a = \"\"\"\ntext\n  \"\"\"\n    x();\n",
        "if a:\n    b\n# comment\nelse:\n    x();\n",
        "jobs:\n- a: 1\n  b:\n- c: 2\n    x();\n",
    ];
    for text in texts {
        let header = text.lines().next().unwrap();
        // Another place, which is not in the block.
        let text = format!("{text}other()\n{{\n    x();\n}}\n");
        let expected = text.replacen("x()", "y()", 1);
        let hunk = format!("@@ {header}\n-    x();\n+    y();\n");
        assert_eq!(patched(&text, &hunk), expected);
    }
}

#[test]
fn the_first_line_of_the_next_block_may_have_no_words() {
    for (text, hunk) in [
        (
            "def a():\n    \"\"\"\n    One.\n    \"\"\"\n    return 2\n\n\ndef b():\n    \"\"\"\n    Two.\n    \"\"\"\n    return 1\n",
            "@@ def a():\n-    return 1\n+    return 3\n",
        ),
        (
            "def a():\n    '''One.\n    '''\n    return 2\n\ndef b():\n    '''\n    Two.'''\n    return 1\n",
            "@@ def a():\n-    return 1\n+    return 3\n",
        ),
        (
            "def a():\n    x()\n\ndef b():\n    ...\n    return 1\n",
            "@@ def a():\n-    return 1\n+    return 3\n",
        ),
        (
            "a:\n  - x\n\nb:\n  -\n    y: 1\n",
            "@@ a:\n-    y: 1\n+    y: 2\n",
        ),
        ("[a]\nx = 1\n\n[b]\ny = 2\n", "@@ [a]\n-y = 2\n+y = 3\n"),
        (
            "if a {\n  x();\n} else {\n  y();\n} else {\n  z();\n}\n",
            "@@ } else {\n@@   y();\n-  z();\n+  x();\n",
        ),
    ] {
        let message = refused(text, hunk).message;
        assert!(
            message.contains("not in the block of its @@ line"),
            "{hunk}: {message}"
        );
    }
    assert_eq!(
        patched(
            "[a]\nx = 1\n\n[b]\ny = 1\nx = 1\n",
            "@@ [b]\n@@ y = 1\n-x = 1\n+x = 2\n"
        ),
        "[a]\nx = 1\n\n[b]\ny = 1\nx = 2\n"
    );
    // Attributes, not sections.
    assert_eq!(
        patched("[A]\n[B]\nx\n\n[A]\ny\n", "@@ [A]\n-x\n+z\n"),
        "[A]\n[B]\nz\n\n[A]\ny\n"
    );
}

#[test]
fn a_header_may_be_repeated_while_its_block_is_open() {
    let text =
        "class X:\n    a = 1\n    def f():\n        b = 2\n        c = 3\n\nclass Y:\n    b = 2\n";
    let first = "@@ class X:\n-    a = 1\n+    a = 9\n";
    let patched = |hunk: &str| patched(text, &format!("{first}{hunk}"));
    let b = text
        .replacen("a = 1", "a = 9", 1)
        .replacen("b = 2", "b = 3", 1);
    assert_eq!(patched("@@ class X:\n-        b = 2\n+        b = 3\n"), b);
    assert_eq!(
        patched("@@ class X:\n@@     def f():\n-        b = 2\n+        b = 3\n"),
        b
    );
}

#[test]
fn a_header_above_the_hunk_before_is_named_as_such() {
    let text = "class X:\n    a = 1\n    b = 2\n\nclass Y:\n    c = 3\n    d = 4\n";
    let hunk = |class: &str, old: &str| format!("@@ class {class}:\n-    {old}\n+    x = 5\n");
    for (first, second) in [
        // The block has ended, or the hunk does not tell where in it the lines belong.
        (hunk("Y", "c = 3"), hunk("X", "a = 1")),
        (hunk("Y", "c = 3"), hunk("X", "d = 4")),
        (hunk("X", "a = 1"), "@@ class X:\n+    x = 5\n".to_owned()),
    ] {
        let error = refused(text, &format!("{first}{second}"));
        assert!(
            error
                .message
                .ends_with("the line behind @@ is above the hunk before: class X:"),
            "{error}"
        );
        assert!(error.hint.unwrap().starts_with("leave the @@ line out"));
    }
    // One that is in the file several times may be another one.
    let twice = "class X:\n    a = 1\n\nclass X:\n    b = 2\n    c = 3\n";
    let hunks = hunk("X", "b = 2") + &hunk("X", "c = 3");
    assert!(
        refused(twice, &hunks)
            .message
            .contains("above the hunk before")
    );
}

#[test]
fn lines_with_the_numbers_of_read_file_are_named_as_such() {
    let error = refused("a\nb\n", "@@\n      2\tb\n+     3\tc\n");
    assert!(
        error
            .hint
            .unwrap()
            .starts_with("leave out the line numbers")
    );
}

#[test]
fn several_places_in_the_block_of_a_header_are_refused() {
    let text = "def f(self):\n    a()\n    x = 1\n    b()\n    x = 1\n    c()\n\ndef g(self):\n    x = 1\n";
    for (text, hunk, lines) in [
        (
            METHOD_FIRST,
            "@@ def f(self):\n-\t\treturn 1\n+\t\treturn 2\n",
            "lines 3, 7",
        ),
        (
            text,
            "@@ def f(self):\n-    x = 1\n+    x = 2\n",
            "lines 3, 5",
        ),
        (
            text,
            "@@ def f(self):\n     x = 1\n+    y = 1\n",
            "lines 3, 5",
        ),
        (text, "@@ def f(self):\n-  x = 1\n+  x = 2\n", "lines 3, 5"),
        ("f:\n  }\n  }\n", "@@ f:\n     }\n+    x\n", "lines 2, 3"),
        (
            "int f()\n{\n  x;\n  y;\n  x;\n}\n",
            "@@ int f()\n-  x;\n+  z;\n",
            "lines 3, 5",
        ),
        (
            "def f():\n  if x:\n    a\n  if x:\n    a\n",
            "@@ def f():\n@@   if x:\n-    a\n+    b\n",
            "lines 3, 5",
        ),
    ] {
        let message = refused(text, hunk).message;
        assert!(message.contains(lines), "{hunk:?}: {message}");
    }
    // Where no block can be told, the first place below counts.
    assert_eq!(
        patched("# A\nx\n# B\nx\ny\nx\n", "@@ # B\n-x\n+z\n"),
        "# A\nx\n# B\nz\ny\nx\n"
    );
}

#[test]
fn a_change_that_was_made_already_is_not_made_in_a_similar_place() {
    let text = "def f():\n    x = 1\n    return 1\n\nclass A:\n    def f(self):\n        x = 2\n        return 2\n";
    for hunk in [
        "@@\n-        x = 1\n-        return 1\n+        x = 2\n+        return 2\n",
        "@@\n-        x = 1\n+        x = 2\n",
        "@@\n-        x = 1 \n+        x = 2\n",
        "@@ class A:\n-        x = 1\n+        x = 2\n",
    ] {
        let error = refused(text, hunk);
        assert!(error.hint.unwrap().contains("already, at line 7"), "{hunk}");
    }
    // Those of another function count for nothing.
    let text = "def f():\n\tx = 1\n\ndef g():\n    x = 2\n";
    assert_eq!(
        patched(text, "@@ def f():\n-    x = 1\n+    x = 2\n"),
        text.replace("\tx = 1", "\tx = 2")
    );
}

#[test]
fn a_hunk_that_fits_several_places_or_none_is_refused() {
    let error = refused("a\nx\nb\nx\n", "@@\n-x\n+y\n");
    assert_eq!(
        error.message,
        "f: hunk at line 3 of the patch: the text to replace is not unique: it begins at lines 2, 4"
    );
    let error = refused("alpha\nbeta\n", "@@\n alpha\n-gamma\n+delta\n");
    assert!(error.message.contains("are not in the file"));
    assert!(
        error
            .excerpt
            .unwrap()
            .contains("     1\talpha\n     2\tbeta\n")
    );
    // Hunks are in the order of the file.
    assert!(
        refused("a\nb\n", "@@\n-b\n+B\n@@\n-a\n+A\n")
            .message
            .starts_with("f: hunk at line 6")
    );
}

#[test]
fn a_loose_match_below_is_not_taken_for_a_stricter_one_above() {
    for (text, hunks) in [
        (
            "a = 1\nb = 2\nif x:\n    a = 1\n",
            "@@\n-b = 2\n+b = 3\n@@\n-a = 1\n+a = 9\n",
        ),
        (
            "a = 1\nb = 2\na = 1 \n",
            "@@\n-b = 2\n+b = 3\n@@\n-a = 1\n+a = 9\n",
        ),
        (
            "class A:\n  a = 1\n  b = 2\nclass B:\n  class A:\n    b = 2\n",
            "@@ class A:\n-  a = 1\n+  a = 3\n@@ class A:\n-  b = 2\n+  b = 3\n",
        ),
    ] {
        let message = refused(text, hunks).message;
        assert!(
            message.starts_with("f: hunk at line "),
            "{hunks:?}: {message}"
        );
    }
    // The one above is that of another hunk.
    assert_eq!(
        patched(
            "a = 1\nif x:\n    a = 1\n",
            "@@\n-a = 1\n+a = 2\n@@\n-a = 1\n+a = 3\n"
        ),
        "a = 2\nif x:\n    a = 3\n"
    );
}

#[test]
fn blank_lines_of_the_patch_choose_no_place() {
    // Before the first hunk, and after the end of the file.
    for hunks in ["\n@@\n-a\n+b\n", "\n\n-a\n+b\n", "@@\n-a\n+b\n\n"] {
        assert_eq!(patched("a\n\nif x:\n  a\n", hunks), "b\n\nif x:\n  a\n");
    }
    assert_eq!(
        patched("a\nb\n", "@@\n-b\n+c\n*** End of File\n\n@@\n+d\n"),
        "a\nc\nd\n"
    );
    for (indent, name) in [("", "g"), ("  ", "g")] {
        let body =
            format!("{indent}*** Update File: f\n\n{indent}*** Move to: {name}\n\n@@\n-a\n+b\n");
        let moved = try_patch(files(&[("f", "a\n")]), &body);
        assert_eq!(moved.unwrap(), files(&[(name, "b\n")]));
    }
    // A line of the file.
    assert_eq!(
        patched("*** Move to: q\nx\n", " *** Move to: q\n-x\n+y\n"),
        "*** Move to: q\ny\n"
    );
    // With its marker, it is a line of the file, also at the end.
    assert_eq!(patched("a\nx\n\na\n", " \n-a\n+b\n"), "a\nx\n\nb\n");
    for end in ["", "\n", "*** Add File: g\n"] {
        let body = format!("*** Update File: f\n@@\n-a\n+b\n \n{end}");
        let result = try_patch(files(&[("f", "a\nx\na\n\nq\n")]), &body).unwrap();
        assert_eq!(result["f"], b"a\nx\nb\n\nq\n", "{end:?}");
    }
    // Between two hunks: it may be one of the file or not, and both are possible.
    let text = "def f():\n    x = 1\n    y = 2\ndef g():\n    if a:\n        x = 1\n\n        z\n";
    let hunks = "@@\n-    x = 1\n+    x = 2\n\n@@\n-        z\n+        zz\n";
    let message = refused(text, hunks).message;
    assert!(message.contains("lines 2, 6"), "{message}");
    // Elsewhere, there is no blank line.
    let other = text.replace("x = 1\n\n", "x = 1\n");
    let expected = other.replacen("x = 1", "x = 2", 1).replace("z\n", "zz\n");
    assert_eq!(patched(&other, hunks), expected);
    // Behind lines that are only added.
    for blank in ["", "\n", "\n\n"] {
        let hunks = format!("@@\n+new\n{blank}@@\n-c\n+C\n");
        assert_eq!(patched("a\nb\nc\n", &hunks), "a\nb\nC\nnew\n");
    }
}

#[test]
fn many_blank_lines_take_no_time_of_their_own() {
    let blank = "\n".repeat(200_000);
    let start = std::time::Instant::now();
    let hunks = format!("@@\n-a\n+b\n{blank}");
    assert_eq!(patched("a\n", &hunks), "b\n");
    // A search of the file for each of them would take hours.
    let refusal = refused("a\n", &format!("@@\n-a\n{blank}@@\n-c\n"));
    assert!(
        refusal.message.contains("not in the file"),
        "{}",
        refusal.message
    );
    let elapsed = start.elapsed();
    assert!(elapsed < std::time::Duration::from_secs(60), "{elapsed:?}");
}

#[test]
fn a_file_that_the_patch_has_made_is_not_lost() {
    let before = || files(&[("a", "a\n"), ("b", "b\n"), ("x", "x\n")]);
    for (body, message) in [
        (
            "*** Add File: d\n+1\n*** Add File: d\n+2\n",
            "brings two files to this path",
        ),
        (
            "*** Add File: d\n+1\n*** Add File: ./d\n+2\n",
            "brings two files to this path",
        ),
        (
            "*** Update File: a\n*** Move to: c\n*** Update File: b\n*** Move to: c\n",
            "brings two files to this path",
        ),
        (
            "*** Add File: d\n+1\n*** Add File: d/e\n+2\n",
            "one of them would be a directory",
        ),
        (
            "*** Add File: d/e\n+1\n*** Update File: a\n*** Move to: d\n",
            "one of them would be a directory",
        ),
        (
            "*** Update File: a\n*** Move to: b\n*** Update File: b\n*** Move to: c\n",
            "before it moves this one away",
        ),
        (
            "*** Update File: a\n*** Move to: b\n*** Update File: ./b\n*** Move to: a\n",
            "before it moves this one away",
        ),
    ] {
        let error = try_patch(before(), body).unwrap_err();
        assert!(error.message.ends_with(message), "{body}: {error:?}");
    }
    for body in [
        "*** Add File: d\n+1\n*** Delete File: d\n*** Add File: d\n+2\n",
        "*** Update File: a\n*** Move to: c\n*** Update File: b\n*** Move to: a\n",
        "*** Update File: x\n@@\n-x\n+y\n*** Add File: x\n+z\n",
        "*** Add File: d\n+1\n*** Add File: d2\n+2\n",
        "*** Update File: a\n@@\n-a\n+b\n*** Update File: ./a\n@@\n-b\n+c\n",
        "*** Update File: a\n*** Move to: c\n*** Update File: c\n*** Move to: d\n",
        "*** Update File: b\n*** Move to: c\n*** Update File: a\n*** Move to: b\n",
    ] {
        try_patch(before(), body).unwrap_or_else(|error| panic!("{body}: {error:?}"));
    }
}

#[test]
fn a_place_that_is_not_exact_is_the_only_one_that_is_similar() {
    let text = "def a():\n    x = “q”\n\ndef b():\n        x = \"q\"\n";
    let error = refused(text, "@@\n-    x = \"q\"\n+    x = 1\n");
    assert!(error.message.ends_with("lines 2, 5"), "{error:?}");
    let result = patched(text, "@@ def a():\n-    x = \"q\"\n+    x = 1\n");
    assert_eq!(result, text.replace("“q”", "1"));
}

#[test]
fn a_patch_of_many_files_takes_little_time_and_can_be_ended() {
    let count = 4000;
    let body: String = (0..count)
        .map(|n| format!("*** Add File: d{}/./f{n}\n+x\n", n % 7))
        .chain((0..count).map(|n| format!("*** Update File: m{n}\n*** Move to: to/m{n}\n")))
        .collect();
    let operations = parse_patch(&format!("*** Begin Patch\n{body}*** End Patch\n")).unwrap();
    let mut read = |path: &str, _| Ok(path.starts_with('m').then(|| b"1\n".to_vec()));
    let start = std::time::Instant::now();
    let planned = plan_patch(&operations, &mut read, &|| Ok(())).unwrap();
    let time = start.elapsed();
    assert_eq!(planned.len(), 3 * count);
    // With a search of all files for each, half a minute.
    assert!(time.as_secs() < 5, "{time:?}");
    let calls = std::cell::Cell::new(0);
    let check = || {
        calls.set(calls.get() + 1);
        match calls.get() {
            3 => Err(WorkspaceError::new("enough")),
            _ => Ok(()),
        }
    };
    let ended = plan_patch(&operations, &mut read, &check).unwrap_err();
    assert_eq!((ended.message.as_str(), calls.get()), ("enough", 3));
}

#[test]
fn a_file_that_moves_twice_comes_from_its_first_place() {
    let before = files(&[("a", "1\n"), ("b", "2\n")]);
    let body = "*** Update File: a\n*** Move to: t\n\
                *** Update File: b\n*** Move to: a\n\
                *** Update File: t\n*** Move to: b\n";
    let operations = parse_patch(&format!("*** Begin Patch\n{body}*** End Patch\n")).unwrap();
    let mut read = |path: &str, _| Ok(before.get(path).cloned());
    let planned = plan_patch(&operations, &mut read, &|| Ok(()));
    let sources: BTreeMap<_, _> = planned
        .unwrap()
        .into_iter()
        .map(|file| (file.path, file.moved_from))
        .collect();
    let source = |path: &str| sources[path].as_deref();
    assert_eq!(
        (source("a"), source("b"), source("t")),
        (Some("b"), Some("a"), None)
    );
}

#[test]
fn the_end_of_the_file_selects_the_last_place() {
    assert_eq!(
        patched("x\ny\nx\n", "@@\n-x\n+z\n*** End of File\n"),
        "x\ny\nz\n"
    );
    assert_eq!(
        patched(
            "first\nsecond\n",
            "@@\n first\n-second\n+2nd\n*** End of File\n"
        ),
        "first\n2nd\n"
    );
    assert_eq!(
        patched("x\nm\n\n \n", "@@\n x\n-m\n+M\n*** End of File\n"),
        "x\nM\n\n \n"
    );
    assert!(
        refused("x\ny\n", "@@\n-x\n+z\n*** End of File\n")
            .message
            .contains("are not in the file")
    );
}

#[test]
fn line_ends_mark_and_last_newline_survive() {
    assert_eq!(
        patched("a\r\nb\r\n", "@@\n-a\n+A\n b\n+c\n"),
        "A\r\nb\r\nc\r\n"
    );
    assert_eq!(
        patched(
            "one\r\ntwo\nthree\r\nfour\n",
            "@@\n two\n-three\n+3\n four\n"
        ),
        "one\r\ntwo\n3\r\nfour\n"
    );
    assert_eq!(
        patched("one\r\ntwo\rthree\n", "@@\n two\n-three\n+3\n"),
        "one\r\ntwo\r3\n"
    );
    // A changed line keeps its end, an added one gets the most frequent end.
    assert_eq!(
        patched("one\r\ntwo\nthree\r\n", "@@\n one\n-two\n+2\n+2a\n three\n"),
        "one\r\n2\n2a\r\nthree\r\n"
    );
    assert_eq!(patched("same\r\nsame\n", "@@\n-same\n same\n"), "same\n");
    assert_eq!(patched("\u{FEFF}a\n", "@@\n-a\n+b\n"), "\u{FEFF}b\n");
    assert_eq!(
        patched("\u{FEFF}a\n", "@@\n-\u{FEFF}a\n+\u{FEFF}b\n"),
        "\u{FEFF}b\n"
    );
    let unified = "@@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n";
    assert_eq!(patched("a", unified), "b");
    // Changed in place: still without a newline. Lines after it: they get one.
    assert_eq!(patched("a\nb", "@@\n-b\n+c\n"), "a\nc");
    assert_eq!(patched("a\nb", "@@\n-a\n+c\n"), "c\nb");
    assert_eq!(patched("a", "@@\n-a\n+one\n+two\n"), "one\ntwo\n");
    assert_eq!(patched("a\nb", "@@\n b\n+c\n"), "a\nb\nc\n");
    assert_eq!(patched("a\nb", "@@\n a\n-b\n"), "a\n");
    assert_eq!(patched("a\r\nb", "@@\n-b\n+c\n+d\n"), "a\r\nc\r\nd\r\n");
}

#[test]
fn loose_matches_keep_unchanged_lines_and_the_indentation_of_the_file() {
    assert_eq!(patched("a  \nb\nc\n", "@@\n a\n-b\n+B\n"), "a  \nB\nc\n");
    let indented = "def f():\n    if x:\n        pass\n";
    assert_eq!(
        patched(indented, "@@\n if x:\n-    pass\n+    return\n"),
        "def f():\n    if x:\n        return\n"
    );
    assert_eq!(
        patched("\tx()\n\ty()\n", "@@\n     x()\n-    y()\n+    z()\n"),
        "\tx()\n\tz()\n"
    );
    assert_eq!(
        patched("a – b\n“c”\n", "@@\n a - b\n-\"c\"\n+\"d\"\n"),
        "a – b\n“d”\n"
    );
}

#[test]
fn a_hunk_that_does_not_tell_its_style_takes_that_of_the_others() {
    // The second hunk has no indentation, the third no old lines.
    assert_eq!(
        patched(
            "f {\n\ta;\n\tb {\n\t\tc;\n\t}\n}\n\nend\n",
            "@@\n     a;\n     b {\n-        c;\n+        d;\n@@\n end\n+g {\n+    x;\n@@\n+        y;\n"
        ),
        "f {\n\ta;\n\tb {\n\t\td;\n\t}\n}\n\nend\ng {\n\tx;\n\t\ty;\n"
    );
    assert_eq!(
        patched(
            "say \"a\"\nx\n",
            "@@\n-say “a”\n+say “b”\n@@\n x\n+say “c”\n"
        ),
        "say \"b\"\nx\nsay \"c\"\n"
    );
    // One that shows another style keeps it.
    assert_eq!(
        patched(
            "\ta;\nb {\n    c;\n}\n",
            "@@\n-    a;\n+    x;\n@@\n b {\n     c;\n+    d;\n"
        ),
        "\tx;\nb {\n    c;\n    d;\n}\n"
    );
}

#[test]
fn a_hunk_that_tells_its_style_keeps_it_whatever_the_others_do() {
    let python = "import os\n\ndef f():\n    if x:\n        a()\n        b()\n        z()\n";
    let loose = "@@\n a()\n-b()\n+c()\n";
    let make = "all:\n\nifeq ($(X),1)\n    CFLAGS := -g\n    LD := x\nendif\n";
    for (text, hunks, expected) in [
        (
            python,
            format!("@@ import os\n+import sys\n{loose}"),
            "import os\nimport sys\n\ndef f():\n    if x:\n        a()\n        c()\n        z()\n",
        ),
        (
            python,
            format!("{loose}@@\n+\n+def g():\n+    pass\n"),
            "import os\n\ndef f():\n    if x:\n        a()\n        c()\n        z()\n\ndef g():\n    pass\n",
        ),
        (
            "class A:\n    x = 1\n\n\nif y:\n    if z:\n        a()\n",
            "@@ class A:\n+    y = 2\n@@\n \n+Z = 1\n if y:\n@@\n-a()\n+b()\n".to_owned(),
            "class A:\n    y = 2\n    x = 1\n\n\nZ = 1\nif y:\n    if z:\n        b()\n",
        ),
        (
            make,
            "@@\n all:\n+\tcc -o x x.c\n@@\n ifeq ($(X),1)\n-\tCFLAGS := -g\n+\tCFLAGS := -O2\n"
                .to_owned(),
            "all:\n\tcc -o x x.c\n\nifeq ($(X),1)\n    CFLAGS := -O2\n    LD := x\nendif\n",
        ),
        // Two rules, and a third one that would explain both.
        (
            "f:\n    g:\n        a = 1\n        b = 2\n    h:\n        c = 3\n        d = 4\n",
            "@@\n-    a = 1\n+    a = 2\n@@\n \t\td = 4\n+\t\t\tr = 4\n".to_owned(),
            "f:\n    g:\n        a = 2\n        b = 2\n    h:\n        c = 3\n        d = 4\n            r = 4\n",
        ),
        // Quotes that matched as they are.
        (
            "say \"a\"\nsay \"b\"\n",
            "@@\n-say “a”\n+say “c”\n@@\n-say \"b\"\n+say \"“b”\"\n".to_owned(),
            "say \"c\"\nsay \"“b”\"\n",
        ),
    ] {
        assert_eq!(patched(text, &hunks), expected, "{hunks}");
    }
}

#[test]
fn a_header_in_many_places_takes_no_search_of_the_file_each() {
    let start = std::time::Instant::now();
    for (block, header) in [("} else {\n  y();\n", "} else {"), ("x:\n{\n  y\n", "x:")] {
        let text = format!("if a {{\n{}}}\nz\n", block.repeat(20_000));
        let result = try_patch(
            files(&[("f", &text)]),
            &format!("*** Update File: f\n@@ {header}\n-z\n+zz\n"),
        );
        match result {
            Ok(result) => assert!(result["f"].ends_with(b"}\nzz\n")),
            Err(error) => assert!(
                error.message.ends_with("in too many places of the file"),
                "{error}"
            ),
        }
    }
    // The removed line is in 10,000 places, but in one of each block.
    let text: String = (0..10_000)
        .map(|n| format!("line {n}\n  x\n}}\n"))
        .collect();
    let hunks = (0..2_000).map(|n| format!("@@ line {}\n-   x\n+   y\n", n * 5));
    let result = patched(&text, &hunks.collect::<String>());
    assert_eq!(result.matches("  y\n").count(), 2_000);
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}

#[test]
fn many_loose_hunks_take_no_search_of_the_file_each() {
    let count = 2_000;
    let text: String = (0..4 * count).map(|n| format!("say “{n}”\n")).collect();
    let hunks = (0..count).map(|n| format!("@@\n-say \"{0}\"\n+say \"{0}!\"\n", 4 * n));
    let start = std::time::Instant::now();
    let result = patched(&text, &hunks.collect::<String>());
    assert!(result.contains("say “4!”\nsay “5”\n"), "{result}");
    // With a search for each hunk and rule, it takes minutes.
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

#[test]
fn blank_lines_of_a_sloppy_model_are_tolerated() {
    assert_eq!(patched("a\n\nb\n", "@@\n a\n\n-b\n+c\n\n"), "a\n\nc\n");
    assert_eq!(patched("a\nb\n", "@@\n-a\n+A\n\n@@\n-b\n+B\n"), "A\nB\n");
    let result = try_patch(
        files(&[("f", "a\n")]),
        "\n*** Add File: g\n+x\n\n*** Update File: f\n@@\n-a\n+b\n\n",
    )
    .unwrap();
    assert_eq!(result, files(&[("f", "b\n"), ("g", "x\n")]));
}

#[test]
fn wrappers_and_padded_markers_are_accepted() {
    let body = "*** Begin Patch\n*** Delete File: f\n*** End Patch";
    for text in [
        format!("<<'EOF'\n{body}\nEOF\n"),
        format!("<<\"PATCH\"\n{body}\nPATCH"),
        format!("apply_patch <<EOF\n{body}\nEOF"),
        format!("<<-EOF\n{body}\nEOF"),
        format!("```bash\napply_patch <<'EOF'\n{body}\nEOF\n```"),
        format!("\u{FEFF}{body}"),
        format!("{body}\n*** End Patch"),
        format!("```diff\n{body}\n```\n"),
        "  *** Begin Patch \n  *** Delete File: f  \n *** End Patch".to_owned(),
        body.replace('\n', "\r\n"),
    ] {
        assert_eq!(
            parse_patch(&text).unwrap(),
            [PatchOperation::Delete { path: "f".into() }],
            "{text}"
        );
    }
}

#[test]
fn malformed_patches_are_refused_with_the_line() {
    let refusal = |text: &str| parse_patch(text).unwrap_err().message;
    assert_eq!(
        refusal("hello"),
        "the first line of the patch is not *** Begin Patch"
    );
    assert_eq!(refusal(" \n"), "the patch is empty");
    assert_eq!(
        refusal("*** Begin Patch\n*** Delete File: f\n"),
        "the last line of the patch is not *** End Patch"
    );
    assert_eq!(
        refusal("*** Begin Patch\n*** End Patch"),
        "the patch changes no file"
    );
    let inside = |body: &str| refusal(&format!("*** Begin Patch\n{body}*** End Patch"));
    assert!(inside("*** Frobnicate File: f\n").starts_with("line 2 of the patch: expected"));
    assert_eq!(
        inside("*** Delete File: \n"),
        "line 2 of the patch: the path is missing"
    );
    assert_eq!(
        inside("*** Update File: f\n"),
        "line 2 of the patch: the update has no hunks"
    );
    assert_eq!(
        inside("*** Update File: f\n@@\n"),
        "line 3 of the patch: the hunk has no lines"
    );
    assert_eq!(
        inside("*** Update File: f\n@@\n*** End of File\n"),
        "line 4 of the patch: the hunk has no lines"
    );
    assert!(
        inside("*** Update File: f\n@@\nx\n")
            .starts_with("line 4 of the patch: each line of a hunk")
    );
    assert!(
        inside("*** Add File: f\nx\n").starts_with("line 3 of the patch: each line of an added")
    );
}

#[test]
fn one_file_that_fails_refuses_all() {
    let missing = try_patch(
        files(&[]),
        "*** Add File: new\n+x\n*** Update File: missing\n@@\n-a\n+b\n",
    );
    assert_eq!(
        missing.unwrap_err().message,
        "missing: the file to update does not exist"
    );
    let missing = try_patch(files(&[]), "*** Delete File: missing\n");
    assert_eq!(
        missing.unwrap_err().message,
        "missing: the file to delete does not exist"
    );
}

#[test]
fn operations_on_one_file_are_applied_in_order() {
    let body = "*** Update File: f\n@@\n-a\n+b\n*** Update File: f\n@@\n-b\n+c\n";
    assert_eq!(
        try_patch(files(&[("f", "a\n")]), body).unwrap(),
        files(&[("f", "c\n")])
    );
    let body = "*** Delete File: f\n*** Add File: f\n+new\n";
    assert_eq!(
        try_patch(files(&[("f", "a\n")]), body).unwrap(),
        files(&[("f", "new\n")])
    );
    let body = "*** Delete File: f\n*** Update File: f\n@@\n-a\n+b\n";
    assert!(
        try_patch(files(&[("f", "a\n")]), body)
            .unwrap_err()
            .message
            .contains("does not exist")
    );
    // A file that is replaced keeps its line ends and its mark.
    let body = "*** Add File: f\n+new\n+text\n";
    assert_eq!(
        try_patch(files(&[("f", "\u{FEFF}a\r\n")]), body).unwrap(),
        files(&[("f", "\u{FEFF}new\r\ntext\r\n")])
    );
}
