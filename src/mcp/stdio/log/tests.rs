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
async fn lines_are_added_to_a_private_file_and_the_last_is_known() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let path = dir.path().join("log");
    let log = Log::open(&path, &[]);
    assert_eq!(log.last_words(), None);
    copy(&b"one\r\ntwo\n\n  \n"[..], &log).await;
    assert_eq!(log.last_words().as_deref(), Some("two"));
    let again = Log::open(&path, &[]);
    copy(&b"\x1b[31mthree\x1b[0m\xe2\x80\xae \xff"[..], &again).await;
    assert_eq!(
        again.last_words().as_deref(),
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
async fn the_file_is_bounded_and_keeps_the_end_and_so_are_lines() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let path = dir.path().join("log");
    let log = Log::open(&path, &[]);
    copy(b"line\n".repeat(250_000).as_slice(), &log).await;
    let log = Log::open(&path, &[]);
    copy(vec![b'x'; 3 << 20].as_slice(), &log).await;
    copy(&b"the end\n"[..], &log).await;
    let kept = read(&path);
    assert!(kept.len() as u64 <= MAX_FILE + 2 * MAX_LINE as u64);
    assert!(kept.ends_with("the end\n"));
    assert!(kept.lines().all(|l| l.len() <= MAX_LINE));
    log.line(&[b'y'; 5000]);
    assert_eq!(
        log.last_words().expect("words").chars().count(),
        WORDS,
        "an error is one line"
    );
}

#[test]
fn last_words_are_what_went_wrong() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let words = |lines: &[&str]| {
        let log = Log::open(&dir.path().join("log"), &[]);
        lines.iter().for_each(|l| log.line(l.as_bytes()));
        log.last_words().expect("words")
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
    old.extend(["fine"; LAST]);
    assert_eq!(words(&old), "fine");
}

#[test]
fn what_the_environment_hides_does_not_come_to_light() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let path = dir.path().join("log");
    let env = env(&[
        ("TOKEN", "sk-12345678"),
        ("HOME", "/home/someone"),
        ("DEBUG", "1"),
    ]);
    let log = Log::open(&path, &env);
    log.line(b"no such token: sk-12345678 (1 in /home/someone)");
    let masked = "no such token: [REDACTED] (1 in /home/someone)";
    assert_eq!(log.last_words().as_deref(), Some(masked));
    assert_eq!(read(&path), format!("{masked}\n"));
}

#[test]
fn without_a_file_the_last_line_is_still_known() {
    let log = Log::open(Path::new("/nonexistent/log"), &[]);
    log.line(b"all is well");
    assert_eq!(log.last_words().as_deref(), Some("all is well"));
}
