//! Private environments: packages are installed at registration only, and removed with their last helper.

use std::path::{Path, PathBuf};
use std::process::Command;

use aish::python::registration::remove;

use super::{HelperHome, TestSession};

/// Writes a wheel of a package `tinypkg`, whose module returns `value`.
fn wheel(dir: &Path, version: &str, value: &str) -> PathBuf {
    const WRITE: &str = r#"
import sys, zipfile
path, version, value = sys.argv[1:4]
info = f"tinypkg-{version}.dist-info"
files = {
    "tinypkg.py": f"VALUE = {value!r}\n",
    f"{info}/METADATA": f"Metadata-Version: 2.1\nName: tinypkg\nVersion: {version}\n",
    f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
record = "".join(f"{name},,\n" for name in files) + f"{info}/RECORD,,\n"
with zipfile.ZipFile(path, "w") as archive:
    for name, text in {**files, f"{info}/RECORD": record}.items():
        archive.writestr(name, text)
"#;
    let path = dir.join(format!("tinypkg-{version}-py3-none-any.whl"));
    let status = Command::new("python3")
        .args(["-I", "-c", WRITE])
        .arg(&path)
        .args([version, value])
        .status();
    assert!(status.unwrap().success());
    path
}

fn source(wheel: &Path, name: &str) -> String {
    format!(
        "# /// script\n# dependencies = [\"tinypkg @ file://{}\"]\n# ///\nimport tinypkg\n\
         def {name}() -> str:\n    \"Tells.\"\n    return tinypkg.VALUE\n",
        wheel.display()
    )
}

fn environments(home: &HelperHome) -> Vec<String> {
    let entries = std::fs::read_dir(home.paths.data.join("helpers")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.len() == 16).collect();
    names.sort();
    names
}

#[tokio::test]
async fn packages_are_installed_pinned_shared_and_removed() {
    let session = TestSession::with("def f() -> str:\n    \"F.\"\n    return 'f'\n").await;
    let home = &session.home;
    let wheel = wheel(home.dir.path(), "1.2.3", "from the wheel");
    let record = home.add("one.py", &source(&wheel, "one")).await;
    assert_eq!(environments(home), [record.environment.clone().unwrap()]);
    assert_eq!(record.locked.len(), 1);
    let hash = record.locked[0]
        .strip_prefix("tinypkg==1.2.3")
        .expect("a version");
    // uv does not report the hashes of what it has installed.
    match aish::paths::on_path("uv").is_empty() {
        true => assert_eq!(hash.len(), " --hash=sha256:".len() + 64, "{hash}"),
        false => assert_eq!(hash, ""),
    }
    assert_eq!(session.text("one", "{}").await, "from the wheel");
    // A helper with the same packages shares the environment.
    let second = home.add("two.py", &source(&wheel, "two")).await;
    assert_eq!(second.environment, record.environment);
    assert_eq!(second.locked, record.locked);

    let removed = remove(&home.paths, "one").unwrap();
    assert_eq!((removed.file.as_str(), removed.environments), ("one.py", 0));
    assert_eq!(session.text("two", "{}").await, "from the wheel");
    let removed = remove(&home.paths, "two.py").unwrap();
    assert_eq!(removed.environments, 1);
    assert!(environments(home).is_empty());
    assert!(!home.paths.config.join("helpers/two.py").exists());
    let e = remove(&home.paths, "two").unwrap_err();
    assert_eq!(e.message, "no helper file two was added");
    assert_eq!(session.text("f", "{}").await, "f");
}

#[tokio::test]
async fn failed_installation_leaves_nothing() {
    let home = HelperHome::new();
    let missing = home.dir.path().join("gone-1.0-py3-none-any.whl");
    let e = home
        .try_add("one.py", &source(&missing, "one"))
        .await
        .unwrap_err();
    assert!(
        e.message
            .starts_with("the dependencies cannot be installed: "),
        "{e}"
    );
    assert!(environments(&home).is_empty());
    // Neither does a file that cannot be imported with its packages.
    let wheel = wheel(home.dir.path(), "1.0", "x");
    let source = source(&wheel, "one").replace("import tinypkg", "import tinypkg.nothing");
    home.try_add("one.py", &source).await.unwrap_err();
    assert!(environments(&home).is_empty());
    assert!(home.catalog().problems().is_empty());
}

#[tokio::test]
async fn environment_that_is_gone_is_told() {
    let home = HelperHome::new();
    let wheel = wheel(home.dir.path(), "1.0", "x");
    let record = home.add("one.py", &source(&wheel, "one")).await;
    let dir = home
        .paths
        .data
        .join("helpers")
        .join(record.environment.unwrap());
    std::fs::remove_dir_all(&dir).unwrap();
    let catalog = home.catalog();
    assert!(catalog.functions().is_empty());
    let line = &catalog.problems()[0];
    assert!(
        line.starts_with("one.py is not used: its Python (") && line.contains("add it again"),
        "{line}"
    );
    home.add("one.py", &source(&wheel, "one")).await;
    assert_eq!(home.catalog().functions().len(), 1);
}
