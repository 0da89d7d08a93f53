use super::*;
use std::os::unix::fs::PermissionsExt as _;

fn env(vars: &[(&str, &str)]) -> Vec<(String, Secret)> {
    vars.iter()
        .map(|(name, value)| ((*name).to_owned(), Secret::new(*value)))
        .collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("a log")
}

#[tokio::test]
async fn lines_are_appended_to_a_private_file() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let path = dir.path().join("log");
    let log = ServerLog::open(&path, &[]);
    assert_eq!(log.last_error_line(), None);
    copy_lines(&b"one\r\ntwo\n\n  \n"[..], &log).await;
    assert_eq!(log.last_error_line().as_deref(), Some("two"));
    let again = ServerLog::open(&path, &[]);
    copy_lines(&b"\x1b[31mthree\x1b[0m\xe2\x80\xae \xff"[..], &again).await;
    assert_eq!(
        again.last_error_line().as_deref(),
        Some("three\u{202e} \u{fffd}")
    );
    assert_eq!(
        read(&path),
        "one\ntwo\n  \n\x1b[31mthree\x1b[0m\u{202e} \u{fffd}\n"
    );
    let mode = std::fs::metadata(&path)
        .expect("a log")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn file_and_line_sizes_are_bounded() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let path = dir.path().join("log");
    let log = ServerLog::open(&path, &[]);
    copy_lines(b"line\n".repeat(250_000).as_slice(), &log).await;
    let log = ServerLog::open(&path, &[]);
    copy_lines(vec![b'x'; 3 << 20].as_slice(), &log).await;
    copy_lines(&b"the end\n"[..], &log).await;
    let state = read(&path);
    assert!(state.len() as u64 <= MAX_FILE_BYTES + 2 * MAX_LINE_BYTES as u64);
    assert!(state.ends_with("the end\n"));
    assert!(state.lines().all(|l| l.len() <= MAX_LINE_BYTES));
    log.append_line(&[b'y'; 5000]);
    assert_eq!(
        log.last_error_line().expect("words").chars().count(),
        MAX_KEPT_CHARS,
        "an error is one line"
    );
}

#[test]
fn last_error_line_is_preferred_over_later_output() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let words = |lines: &[&str]| {
        let log = ServerLog::open(&dir.path().join("log"), &[]);
        lines.iter().for_each(|l| log.append_line(l.as_bytes()));
        log.last_error_line().expect("words")
    };
    assert_eq!(words(&["ready", "  bye"]), "bye");
    let npm = [
        "npm warn old",
        "npm error code E404",
        "npm error A complete log of this run can be found in: /x",
    ];
    assert_eq!(words(&npm), "npm error code E404");
    let node = [
        "node:internal/modules/cjs/loader:1228",
        "  throw err;",
        "\x1b[31mError: Cannot find module '/x'\x1b[0m",
        "    at Module.error (node:internal)",
        "Node.js v20.20.2",
    ];
    assert_eq!(words(&node), "Error: Cannot find module '/x'");
    let python = [
        "Traceback (most recent call last):",
        "    raise ValueError(1)",
        "ValueError: 1",
    ];
    assert_eq!(words(&python), "ValueError: 1");
    let mut old = vec!["error: long ago"];
    old.extend(["fine"; KEPT_LINES]);
    assert_eq!(words(&old), "fine");
}

#[test]
fn environment_values_are_masked() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let path = dir.path().join("log");
    let env = env(&[
        ("TOKEN", "sk-12345678"),
        ("HOME", "/home/someone"),
        ("DEBUG", "1"),
    ]);
    let log = ServerLog::open(&path, &env);
    log.append_line(b"no such token: sk-12345678 (1 in /home/someone)");
    let masked = "no such token: [REDACTED] (1 in /home/someone)";
    assert_eq!(log.last_error_line().as_deref(), Some(masked));
    assert_eq!(read(&path), format!("{masked}\n"));
}

#[test]
fn last_line_is_kept_without_a_file() {
    let log = ServerLog::open(Path::new("/nonexistent/log"), &[]);
    log.append_line(b"all is well");
    assert_eq!(log.last_error_line().as_deref(), Some("all is well"));
}
