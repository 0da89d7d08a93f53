use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

/// A configuration directory, and a directory of a project in which a person works.
struct Places {
    dir: tempfile::TempDir,
    paths: Paths,
}

impl Places {
    fn new() -> Places {
        let dir = tempfile::tempdir().unwrap();
        let uid = nix::unistd::getuid().as_raw();
        let paths = Paths::under(&dir.path().join("home"), uid).unwrap();
        fs::create_dir_all(dir.path().join("project/sub")).unwrap();
        Places { dir, paths }
    }

    fn cwd(&self) -> PathBuf {
        self.dir.path().join("project/sub")
    }

    /// Writes a file of the user.
    fn own(&self, name: &str, text: &str) -> PathBuf {
        write(self.paths.config.join(name), text)
    }

    /// Writes a file of the project.
    fn project(&self, name: &str, text: &str) -> PathBuf {
        write(
            self.dir.path().join("project/.aish/prompts").join(name),
            text,
        )
    }

    fn find(&self, name: &str) -> Result<PromptPack> {
        find(&self.paths, &self.cwd(), name)
    }

    fn fault(&self, name: &str) -> String {
        self.find(name).unwrap_err().message
    }
}

fn write(path: PathBuf, text: &str) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

#[test]
fn a_pack_is_a_file_or_a_directory() {
    let places = Places::new();
    places.own(
        "prompts/coding.toml",
        "version = \"2\"\nformat = \"No tables.\"\nsystem = '''\nYou write code.\n'''\n",
    );
    places.own("prompts/review/pack.toml", "description = \"Reviews.\"\n");
    places.own("prompts/review/system_append.md", "Find faults.\n");
    let coding = places.find("@coding").unwrap();
    let expected = [
        ("version", "2"),
        ("system", "You write code."),
        ("format", "No tables."),
    ];
    assert_eq!(
        coding.texts,
        expected.map(|(key, text)| (key, text.to_owned()))
    );
    assert_eq!(coding.source, PackSource::User);
    let review = places.find("review").unwrap();
    assert_eq!(review.text("system_append"), Some("Find faults."));
    assert_eq!(review.text("description"), Some("Reviews."));
    assert_eq!(review.text("system"), None);
    assert_ne!(coding.sha256, review.sha256);
    places.own("prompts/coding.toml", "system = \"You write code!\"");
    assert_ne!(places.find("coding").unwrap().sha256, coding.sha256);
}

#[test]
fn a_skill_gives_its_instructions_and_no_permissions() {
    let places = Places::new();
    let file = places.own(
        "skills/pdf/SKILL.md",
        "---\nname: pdf\ndescription: >-\n  Reads\n  PDF files.\nallowed-tools: Bash(*)\n---\n\n# PDF\n\nUse pdftotext.\n",
    );
    let pack = places.find("@pdf").unwrap();
    assert_eq!(pack.source, PackSource::Skill);
    assert_eq!(pack.text("description"), Some("Reads PDF files."));
    let folder = file.parent().unwrap().display();
    assert_eq!(
        pack.text("system_append"),
        Some(format!("# PDF\n\nUse pdftotext.\nThe files that these instructions name are below {folder}.").as_str())
    );
    assert!(!format!("{pack:?}").contains("Bash"));
    for (head, expected) in [
        ("description: \"A \\\"b\\\"\"", "A \"b\""),
        ("description: 'it''s'", "it's"),
        ("name: x", ""),
        ("description: a\nother: b", "a"),
    ] {
        places.own("skills/pdf/SKILL.md", &format!("---\n{head}\n---\nx"));
        let pack = places.find("pdf").unwrap();
        assert_eq!(
            pack.text("description").unwrap_or_default(),
            expected,
            "{head}"
        );
    }
}

#[test]
fn faults_name_the_file_and_the_line() {
    let places = Places::new();
    let file = places.own("prompts/a.toml", "version = \"1\"\nsytem = \"x\"\n");
    assert_eq!(
        places.fault("a"),
        format!(
            "{}:2: sytem: unknown key; did you mean system?",
            file.display()
        )
    );
    places.own("prompts/a.toml", "system = 1\n");
    assert!(places.fault("a").contains("must be a string, not a number"));
    places.own("prompts/a.toml", "system = \"x\"\n");
    places.own("prompts/a/pack.toml", "");
    assert!(places.fault("a").ends_with("exists as well: remove one"));
    places.own("prompts/b/pack.toml", "system = \"x\"\n");
    places.own("prompts/b/system.md", "y");
    assert!(
        places
            .fault("b")
            .ends_with("sets system as well: remove one")
    );
    places.own(
        "prompts/c.toml",
        &format!("system = \"{}\"", "x".repeat(70_000)),
    );
    assert!(places.fault("c").contains("larger than 64 KiB"));
    let open = places.own("prompts/d.toml", "");
    fs::set_permissions(open, fs::Permissions::from_mode(0o646)).unwrap();
    assert!(places.fault("d").contains("may be written by other users"));
    places.own("skills/e/SKILL.md", "---\nname: e\n");
    assert!(places.fault("e").contains("has no line ---"));
    let problems = list(&places.paths, &places.cwd());
    assert_eq!(problems.iter().filter(|pack| pack.is_err()).count(), 5);
}

#[test]
fn an_unknown_name_suggests_one() {
    let places = Places::new();
    let error = places.find("@coding").unwrap_err();
    assert_eq!(error.message, "no prompt pack named \"coding\"");
    assert!(error.hint.unwrap().contains("prompts/NAME.toml"));
    places.own("prompts/coding.toml", "");
    assert_eq!(
        places.fault("@codng"),
        "no prompt pack named \"codng\"; did you mean @coding?"
    );
    for name in ["", "@", "../x", "a/b", "none", "a.b"] {
        assert!(
            places.fault(name).starts_with("no prompt pack named"),
            "{name}"
        );
    }
}

#[test]
fn packs_of_a_project_come_last_and_need_an_approval() {
    let places = Places::new();
    let file = places.project("style.toml", "system_append = \"Use tabs.\"\n");
    let pack = places.find("style").unwrap();
    assert_eq!(pack.source, PackSource::Project, "of the parent directory");
    assert_eq!(pack.path, file);
    assert!(!is_approved(&places.paths, &pack.sha256));
    approve(&places.paths, &pack.sha256).unwrap();
    assert!(is_approved(&places.paths, &pack.sha256));
    places.project("style.toml", "system_append = \"Use tabs!\"\n");
    let changed = places.find("style").unwrap();
    assert!(!is_approved(&places.paths, &changed.sha256));
    assert!(
        is_approved(&places.paths, &pack.sha256),
        "the other one still is"
    );
    places.own("prompts/style.toml", "system = \"mine\"\n");
    assert_eq!(places.find("style").unwrap().source, PackSource::User);
    let all = list(&places.paths, &places.cwd());
    let names: Vec<_> = all.iter().flatten().map(|pack| &pack.name).collect();
    assert_eq!(names, ["style"]);
}

#[test]
fn a_link_in_a_project_does_not_lead_out_of_it() {
    let places = Places::new();
    let secret = write(places.dir.path().join("secret"), "the key\n");
    places.project("ok.toml", "system = \"x\"\n");
    let dir = places.dir.path().join("project/.aish/prompts");
    fs::create_dir(dir.join("leak")).unwrap();
    symlink(&secret, dir.join("leak/system.md")).unwrap();
    symlink(&secret, dir.join("other.toml")).unwrap();
    fs::create_dir(places.dir.path().join("outside")).unwrap();
    write(places.dir.path().join("outside/system.md"), "the key\n");
    symlink(places.dir.path().join("outside"), dir.join("folder")).unwrap();
    for name in ["leak", "other", "folder"] {
        let fault = places.fault(name);
        assert!(fault.contains("outside of the packs"), "{name}: {fault}");
    }
    assert!(places.find("ok").is_ok());
}
