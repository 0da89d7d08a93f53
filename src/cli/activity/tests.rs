use super::*;

#[test]
fn words_are_colored_in_place() {
    let line = "11-22 10:00:00  !  tool  denied  x\n";
    let (mark, status) = ("!".to_string(), "denied".to_string());
    assert_eq!(
        colored(line, &[(16, &mark), (25, &status)]),
        "11-22 10:00:00  \x1b[31m!\x1b[0m  tool  \x1b[35mdenied\x1b[0m  x\n"
    );
    let (none, fine) = (String::new(), "success".to_string());
    assert_eq!(
        colored("a  success\n", &[(1, &none), (3, &fine)]),
        "a  success\n"
    );
    // A line that was cut before the word.
    assert_eq!(
        colored("11-22…\n", &[(16, &mark), (25, &status)]),
        "11-22…\n"
    );
}

#[test]
fn an_unknown_name_lists_the_recorded_ones() {
    let names: Vec<String> = ["fs.read", "git.log"].map(String::from).to_vec();
    let e = unknown_name("tool", "fs.raed", &names);
    assert_eq!(e.kind, crate::error::ErrorKind::Usage);
    assert_eq!(
        e.hint.unwrap(),
        "did you mean fs.read? recorded are: fs.read, git.log"
    );
    let e = unknown_name("tool", "lag", &names);
    assert!(e.hint.unwrap().starts_with("did you mean log?"));
    let many: Vec<String> = (0..30).map(|n| format!("s{n:02}")).collect();
    assert!(
        unknown_name("server", "zzz", &many)
            .hint
            .unwrap()
            .ends_with("s19 and 10 more")
    );
    assert!(
        unknown_name("server", "x", &[])
            .hint
            .unwrap()
            .contains("leave out --server")
    );
}
