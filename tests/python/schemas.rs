//! Schemas from signatures and docstrings, and the arguments that they become.

use serde_json::{Value, json};

use super::{HelperHome, TestSession};

const TYPES: &str = r#"
from __future__ import annotations
import dataclasses, enum
from pathlib import Path
from typing import *

class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"

@dataclasses.dataclass
class Point:
    x: int
    y: float = 2.0
    tags: list[str] = dataclasses.field(default_factory=list)

class Options(TypedDict, total=False):
    size: Required[int] if "Required" in globals() else int
    name: str

def act(
    text: str, count: int, ratio: float, flag: bool, path: Path, color: Color, point: Point, options: Options,
    names: list[str], table: dict[str, int], both: int | str, pair: tuple[float, ...], anything: Any,
    several: set[int], mode: Literal["a", "b"] = "a", maybe: Optional[int] = None, size: Annotated[int, "in bytes"] = 7,
) -> dict:
    """Acts."""
    assert type(ratio) is float and isinstance(path, Path) and type(pair) is tuple and type(several) is set
    assert isinstance(point, Point) and color in Color
    return {name: value for name, value in locals().items()}
"#;

fn properties() -> Value {
    json!({
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "path": {"type": "string"},
        "color": {"type": "string", "enum": ["red", "blue"]},
        "point": {
            "type": "object",
            "properties": {
                "x": {"type": "integer"},
                "y": {"type": "number", "default": 2.0},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["x"],
            "additionalProperties": false,
        },
        "options": {
            "type": "object",
            "properties": {"size": {"type": "integer"}, "name": {"type": "string"}},
            "required": ["size"],
            "additionalProperties": false,
        },
        "names": {"type": "array", "items": {"type": "string"}},
        "table": {"type": "object", "additionalProperties": {"type": "integer"}},
        "both": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "pair": {"type": "array", "items": {"type": "number"}},
        "anything": {},
        "several": {"type": "array", "items": {"type": "integer"}, "uniqueItems": true},
        "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": null},
        "size": {"type": "integer", "description": "in bytes", "default": 7},
    })
}

fn arguments() -> Value {
    json!({
        "text": "t", "count": 3.0, "ratio": 1, "flag": true, "path": "a/b", "color": "blue",
        "point": {"x": 1}, "options": {"size": 2}, "names": ["n"], "table": {"k": 1}, "both": "s",
        "pair": [1, 2.5], "anything": [null], "several": [1, 1],
    })
}

#[tokio::test]
async fn each_supported_type_has_a_schema_and_gets_its_value() {
    // `Required` exists since Python 3.11.
    let types = TYPES.replace(
        "Required[int] if \"Required\" in globals() else int",
        "Required[int]",
    );
    let session = TestSession::with(&types).await;
    let tools = session.home.catalog().definitions();
    assert_eq!(tools.len(), 1, "{tools:#?}");
    let schema: Value = serde_json::from_str(&tools[0].schema).unwrap();
    assert_eq!(schema["properties"], properties());
    let required = [
        "text", "count", "ratio", "flag", "path", "color", "point", "options", "names", "table",
        "both", "pair", "anything", "several",
    ];
    assert_eq!(schema["required"], json!(required));
    assert_eq!(
        (tools[0].name.as_str(), tools[0].server.as_str()),
        ("helper.act", "helper")
    );

    let text = session.text("act", &arguments().to_string()).await;
    let result: Value = serde_json::from_str(&text).unwrap();
    let mut expected = arguments();
    for (name, value) in [
        ("count", json!(3)),
        ("ratio", json!(1.0)),
        ("point", json!({"x": 1, "y": 2.0, "tags": []})),
        ("pair", json!([1.0, 2.5])),
        ("several", json!([1])),
        ("mode", json!("a")),
        ("maybe", json!(null)),
        ("size", json!(7)),
    ] {
        expected[name] = value;
    }
    assert_eq!(result, expected);
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_refused_by_name() {
    let types = TYPES.replace(
        "Required[int] if \"Required\" in globals() else int",
        "Required[int]",
    );
    let session = TestSession::with(&types).await;
    for (name, value, reason) in [
        ("count", json!(1.5), "count must be of the type integer"),
        ("count", json!(true), "count must be of the type integer"),
        ("ratio", json!("1"), "ratio must be of the type number"),
        (
            "color",
            json!("green"),
            "color must be one of 'red', 'blue'",
        ),
        ("point", json!({}), "point x is missing"),
        ("point", json!({"x": 1, "z": 1}), "point z is not known"),
        (
            "options",
            json!({"size": "1"}),
            "options size must be of the type integer",
        ),
        (
            "names",
            json!(["a", 1]),
            "names 1 must be of the type string",
        ),
        (
            "both",
            json!([]),
            "both must be of the type integer or must be of the type string",
        ),
        ("other", json!(1), "other is not known; the names are text"),
    ] {
        let mut arguments = arguments();
        arguments[name] = value;
        let result = session.call("act", &arguments.to_string()).await.unwrap();
        assert!(
            result.is_error && result.text.contains(reason),
            "{name}: {result:?}"
        );
    }
    let result = session.call("act", "{}").await.unwrap();
    assert!(result.text.contains("text is missing"), "{result:?}");
}

#[tokio::test]
async fn function_without_a_schema_is_left_out_with_one_line() {
    let home = HelperHome::new();
    let record = home
        .add(
            "mixed.py",
            r#"
import socket, asyncio, dataclasses
def good(x: int) -> int:
    "Adds one."
    return x + 1
def no_hint(x):
    "Does."
def no_doc(x: int): pass
def star(*parts: int):
    "Does."
def stars(**parts: int):
    "Does."
def odd_type(s: socket.socket):
    "Does."
def unknown(s: "Nowhere"):
    "Does."
def keys(s: dict[int, str]):
    "Does."
async def later(x: int):
    "Does."
def many(x: int):
    "Does."
    yield x
@dataclasses.dataclass
class Inner:
    x: int
@dataclasses.dataclass
class Outer:
    inner: Inner
def nested(o: Outer):
    "Does."
def _private(x): pass
not_a_function = 3
from os.path import join
__aish__ = {"good": {"read_only": True}, "gone": {}, "nested": {"color": True}}
"#,
        )
        .await;
    assert_eq!(record.functions.len(), 1, "{record:#?}");
    let expected = [
        (
            "no_hint",
            "parameter x has no type hint; add one, such as x: str",
        ),
        ("no_doc", "it has no docstring"),
        (
            "star",
            "parameter *parts has no fixed names; name each parameter",
        ),
        ("stars", "parameter **parts has no fixed names"),
        (
            "odd_type",
            "parameter s: the type socket has no JSON Schema; use str, int",
        ),
        (
            "unknown",
            "a type hint cannot be evaluated (name 'Nowhere' is not defined)",
        ),
        (
            "keys",
            "parameter s: a dict whose keys are not str has no JSON Schema",
        ),
        ("later", "it is async"),
        ("many", "it is a generator; return a list"),
        (
            "nested",
            "parameter o: field inner of Outer: Inner inside another class",
        ),
    ];
    for (function, reason) in expected {
        let begin = format!("mixed.py: function {function}: ");
        let lines: Vec<&String> = record
            .problems
            .iter()
            .filter(|line| line.starts_with(&begin))
            .collect();
        assert_eq!(lines.len(), 1, "{function}: {:#?}", record.problems);
        assert!(
            lines[0].contains(reason) && !lines[0].contains('\n'),
            "{}",
            lines[0]
        );
    }
    let others = ["__aish__ names gone", "__aish__['nested'] is not a dict of"];
    for other in others {
        assert!(
            record.problems.iter().any(|line| line.contains(other)),
            "{other}"
        );
    }
    assert_eq!(record.problems.len(), expected.len() + others.len());
    let catalog = home.catalog();
    assert_eq!(catalog.problems(), record.problems);
    let tools = catalog.definitions();
    assert!(tools[0].annotations.reads_only() && tools[0].trusted);
}

#[tokio::test]
async fn docstrings_of_three_styles_describe_parameters() {
    let home = HelperHome::new();
    home.add(
        "styles.py",
        r#"
def google(a: int, b: str = ""):
    """Does it.

    Twice.

    Args:
        a (int): The first
            of two.
        b: The second: last.

    Returns:
        Nothing.
    """
def numpy(a: int, b: str = ""):
    """Does it.

    Parameters
    ----------
    a : int
        The first
        of two.
    b : str, optional
        The second: last.

    Returns
    -------
    nothing
    """
def sphinx(a: int, b: str = ""):
    """Does it.

    :param a: The first
        of two.
    :param str b: The second: last.
    :returns: nothing
    """
"#,
    )
    .await;
    let tools = home.catalog().definitions();
    let names: Vec<&str> = tools.iter().map(|tool| tool.tool.as_str()).collect();
    assert_eq!(names, ["google", "numpy", "sphinx"]);
    for tool in &tools {
        let schema: Value = serde_json::from_str(&tool.schema).unwrap();
        let text = |name: &str| schema["properties"][name]["description"].clone();
        assert_eq!(text("a"), "The first of two.", "{}", tool.name);
        assert_eq!(text("b"), "The second: last.", "{}", tool.name);
        assert!(tool.description.starts_with("Does it."), "{tool:?}");
        assert!(!tool.description.contains("of two"), "{tool:?}");
        // Without a declaration, a helper counts as writing.
        assert_eq!(tool.annotations.read_only, Some(false));
    }
    assert!(tools[0].description.contains("Twice.\n\nReturns:"));
}

#[tokio::test]
async fn file_that_cannot_be_imported_is_refused_and_changes_nothing() {
    let home = HelperHome::new();
    for (source, reason) in [
        (
            "import nonexistent_module_x\n",
            "ModuleNotFoundError: No module named 'nonexistent_module_x'; add the package to the dependencies",
        ),
        ("def f(:\n", "SyntaxError"),
        ("import sys\nsys.exit(3)\n", "it calls sys.exit"),
        ("import os\nos._exit(3)\n", "exited with code 3"),
        ("raise ValueError('a\\nb')\n", "ValueError: a b"),
        (
            "x = 1\n",
            "it defines no function without a leading underscore",
        ),
        ("def f(x): pass\n", "function f: it has no docstring"),
    ] {
        let e = home.try_add("bad.py", source).await.expect_err(source);
        assert!(
            e.message.contains("bad.py") && e.message.contains(reason),
            "{source}: {e}"
        );
        assert!(!e.message.contains('\n'), "{e}");
        let catalog = home.catalog();
        assert!(catalog.functions().is_empty() && catalog.problems().is_empty());
        assert!(!home.paths.config.join("helpers/bad.py").exists());
    }
}

#[tokio::test]
async fn names_and_contents_of_files_are_checked() {
    let home = HelperHome::new();
    for name in ["x.txt", ".py", "a b.py", ".hidden.py"] {
        let e = home.try_add(name, "x = 1\n").await.expect_err(name);
        assert!(e.message.contains("not the name of a helper file"), "{e}");
    }
    let path = home.write("latin.py", "");
    std::fs::write(&path, b"x = '\xff'\n").unwrap();
    let e = home.try_add_file(&path).await.unwrap_err();
    assert!(e.message.contains("not UTF-8"), "{e}");
    std::fs::write(&path, " ".repeat((1 << 20) + 1)).unwrap();
    let e = home.try_add_file(&path).await.unwrap_err();
    assert!(e.message.contains("larger than 1 MB"), "{e}");
    let fifo = home.dir.path().join("fifo.py");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let e = home.try_add_file(&fifo).await.unwrap_err();
    assert!(e.message.contains("not a regular file"), "{e}");
    let e = home
        .try_add(
            "old.py",
            "# /// script\n# requires-python = \">=9\"\n# ///\n",
        )
        .await
        .unwrap_err();
    assert!(e.message.contains("needs Python >=9; found: 3."), "{e}");
}

const HELLO: &str = "def hello() -> str:\n    \"Greets.\"\n    return 'one'\n";

#[tokio::test]
async fn a_function_that_hides_one_of_python_is_told() {
    let session = TestSession::with(&HELLO.replace("hello", "print")).await;
    let lines = session.home.catalog().problems().to_vec();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with("tools.py: function print hides"),
        "{lines:?}"
    );
    assert_eq!(session.text("print", "{}").await, "one");
}

#[tokio::test]
async fn changed_file_is_not_used_until_it_is_added_again() {
    let session = TestSession::with(HELLO).await;
    let home = &session.home;
    assert_eq!(session.text("hello", "{}").await, "one");
    let before = home.catalog().definitions();
    let path = home.paths.config.join("helpers/tools.py");
    std::fs::write(&path, HELLO.replace("one", "two")).unwrap();
    let catalog = home.catalog();
    assert!(catalog.functions().is_empty());
    let lines = catalog.problems();
    assert_eq!(lines.len(), 1);
    assert!(
        lines[0].starts_with("tools.py was changed after it was added and is not used; add it again: aish-helper helper add /"),
        "{lines:?}"
    );
    home.try_add_file(&path).await.unwrap();
    // The worker that has the old module is replaced.
    assert_eq!(session.text("hello", "{}").await, "two");
    assert_ne!(home.catalog().definitions()[0].identity, before[0].identity);

    std::fs::remove_file(&path).unwrap();
    let lines = home.catalog().problems().to_vec();
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("tools.py was deleted"), "{lines:?}");
}

#[tokio::test]
async fn later_function_of_the_same_name_is_left_out() {
    let home = HelperHome::new();
    home.add("first.py", HELLO).await;
    let more = format!("{HELLO}def more() -> str:\n    \"More.\"\n");
    home.add("second.py", &more).await;
    let helpers = home.paths.config.join("helpers");
    std::fs::write(helpers.join("unseen.py"), HELLO).unwrap();
    let catalog = home.catalog();
    let owners: Vec<(&str, &str)> = catalog
        .functions()
        .iter()
        .map(|f| (f.record.name.as_str(), f.file.name.as_str()))
        .collect();
    assert_eq!(owners, [("hello", "first.py"), ("more", "second.py")]);
    let lines = catalog.problems();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(
        lines[0],
        "second.py: function hello is left out, because first.py has one of that name; rename one of them"
    );
    assert!(lines[1].starts_with("unseen.py was not added and is not used: "));
}

#[test]
fn damaged_registry_is_told_and_stops_nothing() {
    let home = HelperHome::new();
    let dir = home.paths.data.join("helpers");
    std::fs::create_dir_all(&dir).unwrap();
    for text in ["{", "{\"version\": 2, \"files\": []}", "[]"] {
        std::fs::write(dir.join("registry.json"), text).unwrap();
        let catalog = home.catalog();
        assert!(catalog.functions().is_empty());
        assert_eq!(catalog.problems().len(), 1, "{text}");
        assert!(catalog.problems()[0].contains("registry.json"), "{text}");
    }
}
