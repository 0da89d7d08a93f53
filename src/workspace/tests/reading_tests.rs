use super::*;
use crate::workspace::find::{find_files, list_files, search_files};
use crate::workspace::grep::{self, GrepRequest};
use crate::workspace::list::list_dir;
use crate::workspace::read::{FileContent, TextLines, read_file};
use crate::workspace::read_context::{ListedText, OutputLimits, PathFilter, ReadContext};

static NEVER: AtomicBool = AtomicBool::new(false);

fn context<'a>(f: &'a Fixture, variables: &'a [(OsString, OsString)]) -> ReadContext<'a> {
    ReadContext {
        workspace: &f.workspace,
        variables,
        limits: OutputLimits::default(),
        cancelled: &NEVER,
    }
}

/// Searches all files.
fn grep(context: &ReadContext<'_>, request: &GrepRequest) -> PathResult<ListedText> {
    grep::grep(context, request, &PathFilter::new(|_| false))
}

fn read(f: &Fixture, path: &str, first_line: u64) -> PathResult<TextLines> {
    let variables = variables();
    let path = f.workspace.resolve(path).unwrap();
    match read_file(&context(f, &variables), &path, first_line)? {
        FileContent::Text(lines) => Ok(lines),
        FileContent::Image { .. } => panic!("an image"),
    }
}

fn message<T: std::fmt::Debug>(result: PathResult<T>) -> String {
    let message = result.unwrap_err().message;
    assert!(!message.contains('\n'), "{message}");
    message
}

#[test]
fn text_is_numbered_and_bounded() {
    let f = fixture();
    let all: String = (1..=4500).map(|n| format!("line {n}\n")).collect();
    fs::write(f.inside.join("long"), &all).unwrap();
    let first = read(&f, "long", 1).unwrap();
    assert!(first.text.starts_with("1\tline 1\n2\tline 2\n"));
    assert!(first.text.ends_with(
        "2000\tline 2000\n[lines 1 to 2000 of 4,500 are shown; continue with offset 2001]\n"
    ));
    assert_eq!(
        (first.shown, first.total, first.next_line),
        (2000, Some(4500), Some(2001))
    );
    let last = read(&f, "long", 4499).unwrap();
    assert_eq!(last.text, "4499\tline 4499\n4500\tline 4500\n");
    assert_eq!((last.shown, last.next_line), (2, None));
    assert!(message(read(&f, "long", 4501)).ends_with("has only 4,500 lines"));
    use sha2::Digest;
    let digest: [u8; 32] = sha2::Sha256::digest(all.as_bytes()).into();
    assert_eq!(last.sha256, Some(digest));
    // 50 KB, and 2,000 characters of a line.
    fs::write(
        f.inside.join("wide"),
        format!("{}\n", "é".repeat(3000)).repeat(30),
    )
    .unwrap();
    let wide = read(&f, "wide", 1).unwrap();
    let line = format!("1\t{}… [line cut, 6,001 bytes]\n2\t", "é".repeat(2000));
    assert!(wide.text.starts_with(&line), "{}", &wide.text[..100]);
    assert!(wide.text.len() < 52 * 1024);
    assert_eq!(wide.next_line, Some(13));
    assert!(
        wide.text.contains(
            "[12 lines are cut at 2,000 characters; the tool shell, where it is offered, reads "
        ),
        "{}",
        wide.text.chars().rev().take(300).collect::<String>()
    );
    fs::write(f.inside.join("empty"), "").unwrap();
    assert_eq!(read(&f, "empty", 1).unwrap().text, "[the file is empty]\n");
    let cancelled = AtomicBool::new(true);
    let variables = variables();
    let stopped = ReadContext {
        cancelled: &cancelled,
        ..context(&f, &variables)
    };
    let path = f.workspace.resolve("long").unwrap();
    assert!(message(read_file(&stopped, &path, 1)).contains("cancelled"));
}

#[test]
fn encodings_and_line_ends_are_told() {
    let f = fixture();
    let utf16 = |bom: [u8; 2], order: fn(u16) -> [u8; 2]| {
        let units = "aé\r\nb\n".encode_utf16().flat_map(order);
        bom.into_iter().chain(units).collect::<Vec<u8>>()
    };
    let crlf = "[lines end with CRLF]\n";
    let one = "[1 of the shown lines end with CRLF]\n";
    for (bytes, expected) in [
        (b"a\r\nb\r\n".to_vec(), format!("1\ta\n2\tb\n{crlf}")),
        (b"a\r\nb\n".to_vec(), format!("1\ta\n2\tb\n{one}")),
        (
            b"a\nb".to_vec(),
            "1\ta\n2\tb\n[the last line has no newline]\n".into(),
        ),
        (
            b"\xef\xbb\xbfa\n".to_vec(),
            "1\ta\n[UTF-8 with a byte order mark]\n".into(),
        ),
        (
            utf16([0xff, 0xfe], u16::to_le_bytes),
            format!("1\taé\n2\tb\n[UTF-16 LE, converted]\n{one}"),
        ),
        (
            utf16([0xfe, 0xff], u16::to_be_bytes),
            format!("1\taé\n2\tb\n[UTF-16 BE, converted]\n{one}"),
        ),
        (
            b"caf\xe9 \xc3\xa9\n".to_vec(),
            "1\tcaf\\xe9 é\n[1 byte is not UTF-8 and is written as \\xNN]\n".into(),
        ),
    ] {
        fs::write(f.inside.join("t"), &bytes).unwrap();
        assert_eq!(read(&f, "t", 1).unwrap().text, expected, "{bytes:?}");
    }
    let late = [&b"a\n".repeat(5000)[..], b"b\0c\n"].concat();
    fs::write(f.inside.join("t"), late).unwrap();
    assert_eq!(
        read(&f, "t", 5001).unwrap().text,
        "5001\tb\\x00c\n[1 NUL byte is written as \\x00; the file may be binary]\n"
    );
}

#[test]
fn other_files_are_named_or_returned_as_images() {
    let f = fixture();
    for (bytes, what) in [
        (
            b"\x7fELF\x02\0\0\0".to_vec(),
            "ELF program or library, 8 bytes",
        ),
        (b"abc\0def".to_vec(), "binary data, 7 bytes"),
        (b"\x01\x02\x03\x04\x05\x06 text and more".to_vec(), "1\t"),
        (
            [b"\x01".repeat(40), b"text".repeat(20)].concat(),
            "binary data, 120 bytes",
        ),
        (b"PK\x03\x04\0".to_vec(), "ZIP archive"),
    ] {
        fs::write(f.inside.join("b"), &bytes).unwrap();
        match read(&f, "b", 1) {
            Ok(lines) => assert!(lines.text.starts_with(what)),
            Err(error) => assert!(error.message.contains(what), "{error}"),
        }
    }
    let variables = variables();
    for (magic, expected) in [
        (&b"\x89PNG\r\n\x1a\n"[..], "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
    ] {
        let bytes = [magic, &[7; 9000]].concat();
        fs::write(f.inside.join("i"), &bytes).unwrap();
        let path = f.workspace.resolve("i").unwrap();
        let found = read_file(&context(&f, &variables), &path, 1).unwrap();
        assert_eq!(
            found,
            FileContent::Image {
                media_type: expected,
                bytes
            }
        );
    }
    let big = [&b"GIF89a"[..], &vec![0; 6 << 20]].concat();
    fs::write(f.inside.join("i"), big).unwrap();
    let path = f.workspace.resolve("i").unwrap();
    assert!(message(read_file(&context(&f, &variables), &path, 1)).contains("the limit is 5 MB"));
    fs::write(f.inside.join("README.md"), "").unwrap();
    assert!(message(read(&f, "REDME.md", 1)).ends_with("; similar names: README.md"));
    let missing = f.workspace.resolve("REDME.md/x").unwrap();
    let searched = grep(&context(&f, &variables), &GrepRequest::new("x", missing));
    assert!(message(searched).ends_with("; similar names: README.md"));
    assert!(message(read(&f, "subs/x", 1)).ends_with("; similar names: sub"));
    assert!(message(read(&f, "zzz", 1)).ends_with("no such file or directory"));
    assert!(message(read(&f, "sub", 1)).ends_with("is a directory; list_dir lists it"));
}

#[test]
fn huge_file_is_read_only_as_far_as_needed() {
    let f = fixture();
    let file = fs::File::create(f.inside.join("huge")).unwrap();
    std::io::Write::write_all(&mut &file, "line\n".repeat(20_000).as_bytes()).unwrap();
    // A hole of 1 GB, which is one long line.
    file.set_len(1 << 30).unwrap();
    let start = Instant::now();
    let lines = read(&f, "huge", 10_000).unwrap();
    assert!(lines.text.starts_with("10000\tline\n"), "{}", lines.text);
    assert_eq!(
        (lines.total, lines.sha256, lines.next_line),
        (None, None, Some(12_000))
    );
    assert!(
        start.elapsed() < Duration::from_millis(500),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn pdf_text_comes_from_an_installed_program() {
    let f = fixture();
    let bin = f.outside.join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(f.inside.join("d.pdf"), "%PDF-1.4\nbody").unwrap();
    let path = f.workspace.resolve("d.pdf").unwrap();
    let run = |dir: &Path| {
        let variables = [
            ("PATH".into(), format!(".:{}", dir.display()).into()),
            ("KEPT".into(), "kept".into()),
        ];
        let context = context(&f, &variables);
        read_file(&context, &path, 1).map(|found| match found {
            FileContent::Text(lines) => lines.text,
            FileContent::Image { .. } => String::new(),
        })
    };
    assert!(message(run(&bin)).contains("needs pdftotext (package poppler-utils)"));
    // In the workspace a program of that name does not count.
    program(&f.inside.join("sub/pdftotext"), "echo evil");
    assert!(message(run(&f.inside.join("sub"))).contains("needs pdftotext"));
    let tool = bin.join("pdftotext");
    program(
        &tool,
        "printf '%s|%s|' \"$KEPT\" \"$HOME\"; /bin/cat; printf '\\f'",
    );
    assert_eq!(
        run(&bin).unwrap(),
        "1\tkept||%PDF-1.4\n2\tbody\n[text of a PDF document]\n[the last line has no newline]\n"
    );
    program(&tool, "echo 'bad xref' >&2; exit 1");
    assert!(message(run(&bin)).ends_with("pdftotext failed: bad xref"));
}

#[test]
fn grep_finds_what_is_not_ignored() {
    let f = fixture();
    let at = |path: &str| f.inside.join(path);
    for dir in [".git/info", "target", ".hidden", "vendor/.git"] {
        fs::create_dir_all(at(dir)).unwrap();
    }
    fs::write(at(".gitignore"), "/target\n*.log\n!keep.log\n").unwrap();
    fs::write(at(".git/info/exclude"), "private\n").unwrap();
    fs::write(at(".ignore"), "only-rg\n").unwrap();
    for path in [
        "x.log",
        "keep.log",
        "target/t",
        ".hidden/h",
        "private",
        "only-rg",
        ".git/c",
        "vendor/v.log",
    ] {
        fs::write(at(path), "one\nNeedle here\nthree\n").unwrap();
    }
    fs::write(at("binary"), b"\0needle\n").unwrap();
    symlink(f.outside.join("secret"), at("link")).unwrap();
    symlink(&f.outside, at("dir")).unwrap();
    fs::write(f.outside.join("secret"), "needle").unwrap();
    let variables = variables();
    let context = context(&f, &variables);
    let mut request = GrepRequest::new("needle", f.workspace.top());
    assert_eq!(grep(&context, &request).unwrap().text, "[no hits]\n");
    request.ignore_case = true;
    let found = grep(&context, &request).unwrap();
    let line = |path: &str| format!("{path}:2:Needle here\n");
    assert_eq!(
        found.text,
        [".hidden/h", "keep.log", "vendor/v.log"].map(line).concat()
    );
    assert_eq!((found.total, found.shown, found.files), (3, 3, 3));
    request.files_only = true;
    request.glob = Some("!vendor".to_owned());
    assert_eq!(
        grep(&context, &request).unwrap().text,
        ".hidden/h\nkeep.log\n"
    );
    request = GrepRequest::new("e.dl", f.workspace.resolve("keep.log").unwrap());
    request.context = 1;
    let expected = "keep.log-1-one\nkeep.log:2:Needle here\nkeep.log-3-three\n";
    assert_eq!(grep(&context, &request).unwrap().text, expected);
    request.fixed = true;
    assert_eq!(grep(&context, &request).unwrap().total, 0);
    let names = |found: Vec<(PathBuf, walk::EntryKind)>| {
        let name =
            |(path, _): (PathBuf, _)| path.strip_prefix(&f.inside).unwrap().display().to_string();
        found.into_iter().map(name).collect::<Vec<_>>()
    };
    // git's own list has the files that only ripgrep leaves out; `.git` here is not a repository that git takes.
    let listed = names(list_files(&context, &f.workspace.top()).unwrap());
    assert!(listed.contains(&"only-rg".to_owned()) && !listed.contains(&"x.log".to_owned()));
    assert!(
        !listed
            .iter()
            .any(|name| name.starts_with("dir/") || name.contains(".git/"))
    );
    let found = find_files(&context, "*.LOG", &f.workspace.top()).unwrap();
    assert_eq!(found.text, "[no files match]\n");
    assert_eq!(
        find_files(&context, "KEEP", &f.workspace.top())
            .unwrap()
            .text,
        "keep.log\n"
    );
    assert_eq!(
        find_files(&context, "sub/**", &f.workspace.top())
            .unwrap()
            .text,
        "sub/b.txt\n"
    );
    assert_eq!(
        search_files(&context, "sub xyzw b", &f.workspace.top())
            .unwrap()
            .total,
        0
    );
    assert_eq!(
        search_files(&context, "b sub", &f.workspace.top())
            .unwrap()
            .text,
        "sub/b.txt\n"
    );
    assert_eq!(
        search_files(&context, "vendr", &f.workspace.top())
            .unwrap()
            .text,
        "vendor/v.log\n"
    );
    let list = list_dir(&context, &f.workspace.top(), 2).unwrap().text;
    for line in [
        "target/  (ignored)\n",
        "  h  22\n",
        "x.log  22  (ignored)\n",
        ".git/\n",
        "link -> ",
    ] {
        assert!(list.contains(line), "{line:?} in {list}");
    }
    assert!(
        !list.contains("secret\n  ") && !list.contains("exclude"),
        "{list}"
    );
}

#[test]
fn grep_says_what_it_does_with_binary_files() {
    let f = fixture();
    let variables = variables();
    let context = context(&f, &variables);
    let late = [
        b"needle 1\n".to_vec(),
        b"x\n".repeat(100_000),
        b"\0\nneedle 2\n".to_vec(),
    ];
    fs::create_dir(f.inside.join("bin")).unwrap();
    fs::write(f.inside.join("bin/late"), late.concat()).unwrap();
    fs::write(f.inside.join("bin/early"), b"\0\nneedle\n").unwrap();
    let search = |path: &str, pattern: &str| {
        let request = GrepRequest::new(pattern, f.workspace.resolve(path).unwrap());
        grep(&context, &request).unwrap().text
    };
    let matches = "binary file matches (found a NUL byte around offset";
    assert_eq!(
        search("bin/early", "needle"),
        format!("bin/early: {matches} 0)\n")
    );
    assert_eq!(search("bin/early", "absent"), "[no hits]\n");
    assert_eq!(
        search("bin/late", "needle"),
        format!("bin/late:1:needle 1\nbin/late: {matches} 200,009)\n")
    );
    // In a directory, a binary file is left out from its first NUL byte on.
    assert_eq!(
        search("bin", "needle"),
        "bin/late:1:needle 1\nbin/late: the search of the binary file stopped after a match (found a NUL byte around offset 200,009)\n"
    );
    assert_eq!(search("bin", "needle 2"), "[no hits]\n");
}

#[test]
fn grep_shows_a_long_line_around_its_first_match() {
    let f = fixture();
    let variables = variables();
    let context = context(&f, &variables);
    let part = "é".repeat(1000);
    let line = format!("{part}needle{part}needle\n");
    fs::write(f.inside.join("long"), &line).unwrap();
    let search = |pattern: &str| {
        let request = GrepRequest::new(pattern, f.workspace.resolve("long").unwrap());
        grep(&context, &request).unwrap().text
    };
    let expected = format!(
        "long:1:…{}needle{}… [cut, 4,013 bytes]\n",
        "é".repeat(50),
        "é".repeat(444)
    );
    assert_eq!(search("needle"), expected);
    let beginning = format!("long:1:{}… [cut, 4,013 bytes]\n", "é".repeat(500));
    assert_eq!(search("é"), beginning);
}

#[test]
fn directories_that_cannot_be_read_are_counted() {
    let f = fixture();
    let variables = variables();
    let context = context(&f, &variables);
    // Longer than a path of the system.
    let name = "d".repeat(200);
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
    let mut at = nix::fcntl::open(&f.inside, flags, Mode::empty()).unwrap();
    for _ in 0..25 {
        nix::sys::stat::mkdirat(&at, name.as_str(), Mode::S_IRWXU).unwrap();
        at = nix::fcntl::openat(&at, name.as_str(), flags, Mode::empty()).unwrap();
    }
    let found = find_files(&context, "absent", &f.workspace.top()).unwrap();
    assert_eq!(
        found.text,
        "[no files match]\n[1 directory could not be read]\n"
    );
    let request = GrepRequest::new("absent", f.workspace.top());
    assert_eq!(
        grep(&context, &request).unwrap().text,
        "[no hits]\n[1 file or directory could not be read]\n"
    );
}

#[test]
fn hostile_patterns_and_trees_are_bounded() {
    let f = fixture();
    let variables = variables();
    let context = context(&f, &variables);
    let start = Instant::now();
    let search = |pattern: &str| grep(&context, &GrepRequest::new(pattern, f.workspace.top()));
    for (pattern, part) in [
        ("(a{1000}){1000}", "exceeds size limit"),
        (
            "(((((((((\\w{50}){50}){50}){50}){50}){50}){50}){50}))",
            "limit",
        ),
        (&"(".repeat(3000), "invalid pattern"),
        ("a\nb", "a pattern matches within one line"),
        ("[", "invalid pattern"),
        ("", "it is empty"),
        (&"a".repeat(5000), "longer than 4,096 bytes"),
    ] {
        let error = message(search(pattern));
        assert!(error.contains(part), "{error}");
        assert!(error.len() < 300, "{error}");
    }
    fs::write(f.inside.join("a.txt"), "a".repeat(300_000)).unwrap();
    assert_eq!(search("(a+)+(a+)+$").unwrap().total, 1);
    // Ignore files that would not end, or lead outside.
    nix::unistd::mkfifo(&f.inside.join(".gitignore"), Mode::S_IRWXU).unwrap();
    symlink("/dev/zero", f.inside.join(".ignore")).unwrap();
    symlink(f.inside.join("sub"), f.inside.join("sub/deep/loop")).unwrap();
    fs::create_dir(f.inside.join(".git")).unwrap();
    nix::unistd::mkfifo(&f.inside.join("fifo"), Mode::S_IRWXU).unwrap();
    let mut name = f.inside.clone();
    for _ in 0..200 {
        name.push("deeper");
    }
    fs::create_dir_all(&name).unwrap();
    fs::write(name.join("end"), "inside").unwrap();
    let found = search("inside").unwrap();
    assert_eq!(found.total, 2, "{}", found.text);
    let lines = "inside\n".repeat(5000);
    fs::write(f.inside.join("many"), lines).unwrap();
    let found = search("inside").unwrap();
    assert_eq!((found.total, found.shown), (5002, 2000));
    assert!(found.text.ends_with("[2,000 of 5,002 matching lines shown, of 3 files with hits; narrow the pattern, path or glob]\n"));
    let cancelled = AtomicBool::new(true);
    let stopped = ReadContext {
        cancelled: &cancelled,
        ..context
    };
    let found = grep(&stopped, &GrepRequest::new("inside", f.workspace.top())).unwrap();
    assert!(
        found.text.contains("cancelled before its end"),
        "{}",
        found.text
    );
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn search_does_not_leave_the_workspace_in_a_rename_race() {
    let f = fixture();
    let dir = f.inside.join("sub");
    let (kept, link) = (f.inside.join("kept"), f.inside.join("link"));
    fs::write(f.outside.join("only-outside"), "secret").unwrap();
    symlink(&f.outside, &link).unwrap();
    let variables = variables();
    let context = context(&f, &variables);
    let stop = AtomicBool::new(false);
    let mut leaked = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                fs::rename(&dir, &kept).unwrap();
                fs::rename(&link, &dir).unwrap();
                fs::rename(&dir, &link).unwrap();
                fs::rename(&kept, &dir).unwrap();
            }
        });
        let end = Instant::now() + Duration::from_secs(1);
        while Instant::now() < end {
            let found = grep(&context, &GrepRequest::new("secret", f.workspace.top()));
            leaked.extend(
                found
                    .ok()
                    .filter(|found| found.total > 0)
                    .map(|found| found.text),
            );
            let found = list_files(&context, &f.workspace.top()).unwrap_or_default();
            let outside = found
                .iter()
                .find(|(path, _)| path.ends_with("only-outside"));
            leaked.extend(outside.map(|(path, _)| path.display().to_string()));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(leaked.is_empty(), "{leaked:?}");
}

/// Compares with git under configurations of the user and of the repository.
#[test]
fn rules_of_the_configuration_are_those_of_git() {
    for (user, repository) in [
        ("", ""),
        ("[core]\n\texcludesFile = ~/rules\n", ""),
        ("[core] excludesFile = ~/rules # a comment\n", ""),
        ("[core]\nexcludesfile = \"~/rules\" ; a comment\n", ""),
        ("[include]\n\tpath = more\n", ""),
        ("[includeIf \"gitdir:~/project/\"]\n\tpath = more\n", ""),
        ("[includeIf \"gitdir:~/other/\"]\n\tpath = more\n", ""),
        (
            "[core]\nexcludesFile = ~/rules\n",
            "[core]\nexcludesFile = .others\n",
        ),
        (
            "[core]\nexcludesFile = ~/rules\n",
            "[core]\nexcludesFile =\n",
        ),
        ("", "[core]\nignoreCase = true\n"),
        (
            "[core]\nignoreCase = yes\nexcludesFile = ~/rules\n",
            "[core]\nignoreCase = false\n",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(dir.path()).unwrap();
        let top = home.join("project");
        fs::create_dir(&top).unwrap();
        let variables = vec![
            ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
            ("HOME".into(), home.clone().into_os_string()),
        ];
        let git = |words: &[&str]| {
            let mut git = std::process::Command::new("git");
            git.env_clear()
                .envs(variables.iter().map(|(n, v): &(OsString, OsString)| (n, v)));
            let output = git.args(words).current_dir(&top).output().unwrap();
            assert!(output.status.success(), "{words:?}: {output:?}");
            output.stdout
        };
        git(&["init", "-q"]);
        fs::create_dir_all(home.join(".config/git")).unwrap();
        for (path, text) in [
            (".gitconfig", user),
            ("more", "[core]\n\texcludesFile = ~/rules\n"),
            ("rules", "by-user\n"),
            ("project/.others", "by-repository\n"),
            (".config/git/ignore", "by-default\n"),
            (
                "project/.gitignore",
                "*.LOG\n{a,b}.txt\n[{]c\n\\{d\n[]{]e\n[!x]{y,z}\n",
            ),
            ("project/a.txt", ""),
            ("project/{a,b}.txt", ""),
            ("project/{c", ""),
            ("project/{d", ""),
            ("project/{e", ""),
            ("project/wy", ""),
            ("project/w{y,z}", ""),
            ("project/by-user", ""),
            ("project/by-repository", ""),
            ("project/by-default", ""),
            ("project/x.log", ""),
        ] {
            fs::write(home.join(path), text).unwrap();
        }
        let config = top.join(".git/config");
        let before = fs::read_to_string(&config).unwrap();
        fs::write(&config, before + repository).unwrap();
        let workspace = Workspace::new(&top, Some(&home), &[]).unwrap();
        let context = ReadContext {
            workspace: &workspace,
            variables: &variables,
            limits: OutputLimits::default(),
            cancelled: &NEVER,
        };
        let found = list_files(&context, &workspace.top()).unwrap();
        let found: Vec<PathBuf> = found.into_iter().map(|(path, _)| path).collect();
        let output = git(&["ls-files", "-z", "-co", "--exclude-standard"]);
        let names = output.split(|&b| b == 0).filter(|name| !name.is_empty());
        let mut wanted: Vec<PathBuf> = names
            .map(|name| top.join(OsStr::from_bytes(name)))
            .collect();
        wanted.sort();
        assert_eq!(found, wanted, "{user:?} {repository:?}");
    }
}

/// A repository can name any file as one of ignore rules: what is left out would reveal its lines.
#[test]
fn a_repository_names_no_rules_outside_of_the_workspace() {
    let f = fixture();
    fs::write(f.outside.join("rules"), "pin1234\n").unwrap();
    fs::write(f.inside.join("pin1234"), "").unwrap();
    let rules = f.outside.join("rules");
    for words in [
        ["init", "--quiet", "."],
        ["config", "core.excludesFile", rules.to_str().unwrap()],
    ] {
        let mut git = std::process::Command::new("git");
        let status = git.args(words).current_dir(&f.inside).status().unwrap();
        assert!(status.success());
    }
    let variables = variables();
    let found = list_files(&context(&f, &variables), &f.workspace.top()).unwrap();
    assert!(
        found.iter().any(|(path, _)| path.ends_with("pin1234")),
        "{found:?}"
    );
}

/// Compares with git in this project's repository, or in all in the directory `AISH_REPOSITORIES`.
#[test]
fn listed_files_are_those_of_git() {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let repositories: Vec<PathBuf> = match std::env::var_os("AISH_REPOSITORIES") {
        Some(directory) => fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect(),
        None => vec![own],
    };
    let mut compared = 0;
    for repository in repositories {
        let top = fs::canonicalize(repository).unwrap();
        if !top.join(".git").exists() {
            continue;
        }
        let workspace = Workspace::new(&top, None, &[]).unwrap();
        let variables = variables();
        let context = ReadContext {
            workspace: &workspace,
            variables: &variables,
            limits: OutputLimits::default(),
            cancelled: &NEVER,
        };
        let found = list_files(&context, &workspace.top()).unwrap();
        let found: std::collections::BTreeSet<_> =
            found.into_iter().map(|(path, _)| path).collect();
        let mut git = std::process::Command::new("git");
        git.args(["ls-files", "-z", "-co", "--exclude-standard"]);
        let output = git.current_dir(&top).output().unwrap().stdout;
        let names = output.split(|&b| b == 0).filter(|name| !name.is_empty());
        let wanted = names
            .map(|name| top.join(OsStr::from_bytes(name)))
            .collect();
        assert_eq!(found, wanted, "{}", top.display());
        compared += 1;
    }
    assert!(compared > 0);
}
