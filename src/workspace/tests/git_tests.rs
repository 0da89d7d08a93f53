use std::collections::BTreeSet;
use std::process::Command;

use super::*;
use crate::workspace::git::{GitCommand, GitRequest, GitText, git};
use crate::workspace::git_repository::settings;
use crate::workspace::read_context::{OutputLimits, ReadContext};

fn run_git(dir: &Path, args: &[&str]) {
    let mut git = Command::new("git");
    git.args([
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b.c",
        "-c",
        "protocol.file.allow=always",
    ]);
    let output = git.args(args).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
}

fn ask(workspace: &Workspace, request: &GitRequest) -> PathResult<GitText> {
    let never = AtomicBool::new(false);
    let mut variables = variables();
    variables.push(("GIT_EXTERNAL_DIFF".into(), "/bin/false".into()));
    let context = ReadContext {
        workspace,
        variables: &variables,
        limits: OutputLimits::default(),
        cancelled: &never,
    };
    git(&context, request)
}

/// All questions about the file `a.txt`.
fn questions(workspace: &Workspace) -> Vec<GitRequest> {
    let with = |command, revision: Option<&str>, staged| GitRequest {
        revision: revision.map(str::to_owned),
        staged,
        path: (command == GitCommand::Blame).then(|| workspace.resolve("a.txt").unwrap()),
        ..GitRequest::new(command)
    };
    vec![
        with(GitCommand::Status, None, false),
        with(GitCommand::Diff, None, false),
        with(GitCommand::Diff, None, true),
        with(GitCommand::Diff, Some("HEAD"), false),
        with(GitCommand::Diff, Some("HEAD~1 HEAD"), false),
        with(GitCommand::Log, None, false),
        with(GitCommand::Show, None, false),
        with(GitCommand::Show, Some("HEAD:a.txt"), false),
        with(GitCommand::Blame, None, false),
        with(GitCommand::Blame, Some("HEAD"), false),
    ]
}

fn repository(f: &Fixture) -> Workspace {
    let at = &f.inside;
    run_git(at, &["init", "--quiet", "--initial-branch=main"]);
    run_git(at, &["add", "a.txt"]);
    run_git(at, &["commit", "--quiet", "-m", "first"]);
    fs::write(at.join("a.txt"), "inside\ntwo\n").unwrap();
    run_git(at, &["commit", "--quiet", "-am", "second"]);
    fs::write(at.join("a.txt"), "inside\nthree\n").unwrap();
    Workspace::new(at, None, &[]).unwrap()
}

#[test]
fn questions_are_answered() {
    let f = fixture();
    let workspace = repository(&f);
    let parts = [
        " M a.txt\n",
        "+three\n",
        "[git shows nothing]",
        "-two\n",
        "+two\n",
        "    first\n",
        "    second\n",
        "inside\ntwo\n",
        "three\n",
        "two\n",
    ];
    for (request, part) in questions(&workspace).iter().zip(parts) {
        let found = ask(&workspace, request).unwrap();
        assert!(found.text.contains(part), "{request:?}: {}", found.text);
    }
    for (revision, message) in [
        ("--output=x", "not a revision"),
        ("-x", "not a revision"),
        ("HEAD --output=x", "not a revision"),
        ("a\nb", "not a revision"),
        ("", "not a revision"),
        ("nowhere", "it has no revision nowhere"),
    ] {
        let request = GitRequest {
            revision: Some(revision.to_owned()),
            ..GitRequest::new(GitCommand::Diff)
        };
        let error = ask(&workspace, &request).unwrap_err();
        assert!(error.message.contains(message), "{revision}: {error}");
    }
    assert!(!f.inside.join("x").exists());
    let other = Workspace::new(&f.outside, None, &[]).unwrap();
    let error = ask(&other, &GitRequest::new(GitCommand::Log)).unwrap_err();
    assert!(
        error.message.ends_with("not in a git repository"),
        "{error}"
    );
}

#[test]
fn no_program_of_the_repository_runs() {
    let f = fixture();
    let workspace = repository(&f);
    let at = &f.inside;
    let ran = f.outside.join("ran");
    let script = f.outside.join("evil");
    program(
        &script,
        &format!("echo \"$0 $*\" >> {}; cat", ran.display()),
    );
    let script = script.to_str().unwrap();
    fs::create_dir(at.join("hooks")).unwrap();
    for hook in [
        "post-index-change",
        "pre-commit",
        "reference-transaction",
        "fsmonitor-watchman",
    ] {
        program(
            &at.join("hooks").join(hook),
            &format!("echo hook >> {}", ran.display()),
        );
    }
    // A submodule with its own programs.
    let module = f.outside.join("module");
    fs::create_dir(&module).unwrap();
    run_git(&module, &["init", "--quiet"]);
    fs::write(module.join("a.txt"), "x").unwrap();
    run_git(&module, &["add", "."]);
    run_git(&module, &["commit", "--quiet", "-m", "x"]);
    run_git(
        at,
        &[
            "submodule",
            "--quiet",
            "add",
            module.to_str().unwrap(),
            "module",
        ],
    );
    run_git(at, &["commit", "--quiet", "-m", "module"]);
    fs::write(at.join("module/a.txt"), "changed").unwrap();
    run_git(&at.join("module"), &["config", "core.fsmonitor", script]);
    run_git(&at.join("module"), &["config", "filter.x.clean", script]);
    fs::write(
        at.join(".gitattributes"),
        "*.txt filter=x diff=x\n*.a=b filter=a=b\n",
    )
    .unwrap();
    fs::write(at.join("module/.gitattributes"), "*.txt filter=x\n").unwrap();
    let hooks = at.join("hooks");
    let remote = format!("ext::{script} %S");
    for (key, value) in [
        ("core.fsmonitor", script),
        ("core.hooksPath", hooks.to_str().unwrap()),
        ("core.pager", script),
        ("pager.log", script),
        ("pager.diff", script),
        ("core.editor", script),
        ("core.sshCommand", script),
        ("core.askPass", script),
        ("core.gitProxy", script),
        ("core.alternateRefsCommand", script),
        ("credential.helper", script),
        ("diff.external", script),
        ("diff.x.command", script),
        ("diff.x.textconv", script),
        ("diff.submodule", "diff"),
        ("status.submoduleSummary", "true"),
        ("filter.x.clean", script),
        ("filter.x.smudge", script),
        ("filter.x.process", script),
        ("filter.x.required", "true"),
        ("filter.a=b.clean", script),
        ("gpg.program", script),
        ("gpg.ssh.program", script),
        ("log.showSignature", "true"),
        ("interactive.diffFilter", script),
        ("alias.status", &format!("!{script}")),
        ("alias.log", &format!("!{script}")),
        ("protocol.allow", "always"),
        ("protocol.ext.allow", "always"),
        ("remote.origin.url", &remote),
        ("remote.origin.promisor", "true"),
        ("remote.origin.uploadpack", script),
        ("extensions.partialClone", "origin"),
    ] {
        run_git_config(at, key, value);
    }
    let touch = || fs::write(at.join("a.txt"), "inside\nfour\n").unwrap();
    for request in questions(&workspace) {
        touch();
        let found = ask(&workspace, &request);
        assert!(found.is_ok(), "{request:?}: {found:?}");
        assert!(
            !ran.exists(),
            "{request:?}: {}",
            fs::read_to_string(&ran).unwrap()
        );
    }
    // A missing object is not fetched.
    let request = GitRequest {
        revision: Some("1234567890123456789012345678901234567890".to_owned()),
        ..GitRequest::new(GitCommand::Show)
    };
    assert!(ask(&workspace, &request).is_err());
    assert!(!ran.exists(), "{}", fs::read_to_string(&ran).unwrap());
    // The same configuration does run programs where nothing prevents it.
    let _ = Command::new("git")
        .arg("diff")
        .current_dir(at)
        .output()
        .unwrap();
    assert!(ran.exists());
}

/// Appends to the file, so that git itself does not read what it has so far.
fn run_git_config(dir: &Path, key: &str, value: &str) {
    let file = dir.join(".git/config");
    run_git(
        Path::new("/"),
        &["config", "--file", file.to_str().unwrap(), key, value],
    );
}

#[test]
fn files_outside_are_not_shown() {
    let f = fixture();
    let workspace = repository(&f);
    let at = &f.inside;
    // The work tree that the configuration names.
    fs::create_dir(f.outside.join("tree")).unwrap();
    fs::write(f.outside.join("tree/a.txt"), "secret").unwrap();
    run_git_config(
        at,
        "core.worktree",
        f.outside.join("tree").to_str().unwrap(),
    );
    for request in questions(&workspace) {
        let found = ask(&workspace, &request).unwrap();
        assert!(!found.text.contains("secret"), "{request:?}: {found:?}");
    }
    // Files that git reads: it fails with a line of the first one in its message.
    fs::write(f.outside.join("secret"), "secret line\n").unwrap();
    let secret = f.outside.join("secret");
    for key in [
        "blame.ignoreRevsFile",
        "diff.orderFile",
        "mailmap.file",
        "core.attributesFile",
    ] {
        run_git_config(at, key, secret.to_str().unwrap());
    }
    for request in questions(&workspace) {
        let shown = match ask(&workspace, &request) {
            Ok(found) => found.text,
            Err(error) => error.message,
        };
        assert!(!shown.contains("secret"), "{request:?}: {shown}");
    }
    // Lines of a file in an error.
    fs::remove_file(at.join(".git/index")).unwrap();
    symlink(&secret, at.join(".git/packed-refs")).unwrap();
    let error = ask(&workspace, &GitRequest::new(GitCommand::Log)).unwrap_err();
    assert!(
        error
            .message
            .contains("packed-refs: is a link that leads outside"),
        "{error}"
    );
    fs::remove_file(at.join(".git/packed-refs")).unwrap();
    fs::write(at.join(".git/packed-refs"), "secret line\n").unwrap();
    let error = ask(&workspace, &GitRequest::new(GitCommand::Log)).unwrap_err();
    assert!(!error.message.contains("secret"), "{error}");
}

/// A repository can name any file in its configuration: answers that depend on the file would reveal its lines.
#[test]
fn settings_of_a_repository_name_no_files_outside() {
    let f = fixture();
    let workspace = repository(&f);
    let at = &f.inside;
    run_git(at, &["config", "user.name", "a"]);
    let config = at.join(".git/config");
    let plain = fs::read_to_string(&config).unwrap();
    fs::write(at.join("pin1234"), "").unwrap();
    let commit = Command::new("git")
        .args(["rev-parse", "HEAD"])
        .current_dir(at)
        .output()
        .unwrap();
    for (name, text) in [
        ("ignored", "pin1234\n"),
        ("attributes", "a.txt -diff\n"),
        ("revisions", &String::from_utf8(commit.stdout).unwrap()),
    ] {
        fs::write(f.outside.join(name), text).unwrap();
        fs::write(at.join("sub").join(name), text).unwrap();
    }
    symlink(f.outside.join("ignored"), at.join("link")).unwrap();
    let answers = || -> Vec<String> {
        let asked = questions(&workspace);
        let asked = asked.iter().map(|request| ask(&workspace, request));
        asked
            .map(|found| found.map_or_else(|error| error.message, |found| found.text))
            .collect()
    };
    let usual = answers();
    assert!(usual.concat().contains("?? pin1234"), "{usual:?}");
    assert!(!usual.concat().contains("not listed"), "{usual:?}");
    let outside = |name: &str| f.outside.join(name).display().to_string();
    let mut refused = BTreeSet::new();
    for (key, name) in [
        ("core.excludesFile", "ignored"),
        ("core.attributesFile", "attributes"),
        ("blame.ignoreRevsFile", "revisions"),
    ] {
        for value in [
            outside(name),
            format!("../out/{name}"),
            format!("~nobody/{name}"),
            format!(":(optional)../out/{name}"),
            "/proc/self/cwd/a.txt".to_owned(),
            "missing".to_owned(),
            "link".to_owned(),
            String::new(),
        ] {
            fs::write(&config, &plain).unwrap();
            run_git_config(at, key, &value);
            let mut found = answers();
            if name == "revisions" && !value.is_empty() {
                // Git reads each of these files, whatever is set after it.
                refused.extend(found.drain(8..));
            }
            assert_eq!(found, usual[..found.len()], "{key} {value:?}");
        }
        // Files of the workspace count.
        run_git_config(at, key, &format!("sub/{name}"));
        assert_ne!(answers(), usual, "{key}");
        fs::write(&config, &plain).unwrap();
    }
    assert_eq!(refused.len(), 1, "{refused:?}");
    let refused = refused.pop_first().unwrap();
    assert!(
        refused.contains("blame.ignoreRevsFile is missing or outside"),
        "{refused}"
    );
    // What `git show` writes is not the repository's to decide.
    for (key, value) in [
        ("format.pretty", "%G? %GS"),
        ("color.ui", "always"),
        ("color.status", "always"),
    ] {
        run_git_config(at, key, value);
        assert_eq!(answers(), usual, "{key}");
    }
}

#[test]
fn a_repository_includes_no_configuration_from_outside() {
    let f = fixture();
    let workspace = repository(&f);
    let at = &f.inside;
    let config = at.join(".git/config");
    let plain = fs::read_to_string(&config).unwrap();
    let setting =
        "[diff]\nsrcPrefix = x\n[branch \"main\"]\nremote = .\nmerge = refs/heads/included\n";
    fs::write(f.outside.join("config"), setting).unwrap();
    fs::write(f.outside.join("text"), "no configuration").unwrap();
    fs::write(at.join("sub/config"), setting).unwrap();
    symlink(f.outside.join("config"), at.join("link")).unwrap();
    let outside = |name: &str| f.outside.join(name).display().to_string();
    let (other, text, missing) = (outside("config"), outside("text"), outside("missing"));
    let nested = format!("[include]\npath = {other}\n");
    fs::write(at.join("sub/nested"), nested).unwrap();
    fs::write(at.join("sub/worktree"), "[include]\npath = config\n").unwrap();
    let ask_all = || -> Vec<PathResult<GitText>> {
        let asked = questions(&workspace);
        asked
            .iter()
            .map(|request| ask(&workspace, request))
            .collect()
    };
    let mut errors = BTreeSet::new();
    for key in [
        "include",
        "includeIf \"onbranch:other\"",
        "includeIf \"gitdir:/\"",
    ] {
        for value in [
            other.as_str(),
            &text,
            &missing,
            "../../out/config",
            "../link",
            "../missing",
            "~nobody/config",
            "/proc/self/cwd/sub/config",
            "../sub/nested",
        ] {
            fs::write(&config, format!("{plain}[{key}]\npath = {value}\n")).unwrap();
            let refused = ask_all()
                .into_iter()
                .map(|found| found.unwrap_err().message);
            errors.extend(refused);
        }
    }
    // One message, whatever the file is.
    assert_eq!(errors.len(), 1, "{errors:?}");
    let error = errors.pop_first().unwrap();
    assert!(
        error.contains("missing or outside of the workspace"),
        "{error}"
    );
    let variables = variables();
    let context = ReadContext {
        workspace: &workspace,
        variables: &variables,
        limits: OutputLimits::default(),
        cancelled: &AtomicBool::new(false),
    };
    let keys = r"^branch\.";
    assert!(settings(&context, &workspace.top(), keys).is_none());
    // References in another place, which newer versions of git read.
    let storage = format!("[extensions]\nrefStorage = files://{other}\n");
    fs::write(&config, plain.clone() + &storage).unwrap();
    assert!(settings(&context, &workspace.top(), keys).is_none());
    // One of the workspace counts, also where that includes another one.
    for name in ["config", "worktree"] {
        fs::write(&config, format!("{plain}[include]\npath = ../sub/{name}\n")).unwrap();
        let status = ask(&workspace, &GitRequest::new(GitCommand::Status)).unwrap();
        assert!(status.text.contains("...included"), "{status:?}");
        let (mut found, _) = settings(&context, &workspace.top(), keys).unwrap();
        found.retain(|setting| setting.key.starts_with(b"branch."));
        assert_eq!(found.len(), 2, "{found:?}");
    }
}

#[test]
fn repository_elsewhere_must_know_this_work_tree() {
    let f = fixture();
    let _ = repository(&f);
    // A work tree of the repository, outside of it.
    let tree = f.outside.join("tree");
    run_git(
        &f.inside,
        &["worktree", "add", "--quiet", tree.to_str().unwrap()],
    );
    let workspace = Workspace::new(&tree, None, &[]).unwrap();
    let log = GitRequest::new(GitCommand::Log);
    assert!(ask(&workspace, &log).unwrap().text.contains("second"));
    // Another directory that only claims it.
    let thief = f.outside.join("thief");
    fs::create_dir(&thief).unwrap();
    for link in [
        fs::read_to_string(tree.join(".git")).unwrap(),
        format!("gitdir: {}/.git\n", f.inside.display()),
    ] {
        fs::write(thief.join(".git"), link).unwrap();
        let workspace = Workspace::new(&thief, None, &[]).unwrap();
        let error = ask(&workspace, &log).unwrap_err();
        assert!(
            error.message.contains("outside of the workspace"),
            "{error}"
        );
    }
    // A separate directory with the objects of the other.
    fs::remove_file(thief.join(".git")).unwrap();
    fs::create_dir(thief.join(".git")).unwrap();
    fs::write(thief.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(
        thief.join(".git/commondir"),
        f.inside.join(".git").to_str().unwrap(),
    )
    .unwrap();
    fs::write(
        thief.join(".git/gitdir"),
        thief.join(".git").to_str().unwrap(),
    )
    .unwrap();
    let workspace = Workspace::new(&thief, None, &[]).unwrap();
    let error = ask(&workspace, &log).unwrap_err();
    assert!(
        error.message.contains("outside of the workspace"),
        "{error}"
    );
}

#[test]
fn objects_of_another_repository_are_not_read() {
    let f = fixture();
    let workspace = repository(&f);
    let private = f.outside.join("private");
    fs::create_dir(&private).unwrap();
    run_git(&private, &["init", "--quiet", "--initial-branch=main"]);
    fs::write(private.join("secret.txt"), "secret").unwrap();
    run_git(&private, &["add", "."]);
    run_git(&private, &["commit", "--quiet", "-m", "secret"]);
    let (git, objects) = (f.inside.join(".git"), private.join(".git/objects"));
    // Another repository of the workspace, which names the private one.
    let chain = f.inside.join("chain/objects");
    fs::create_dir_all(chain.join("info")).unwrap();
    fs::write(
        chain.join("info/alternates"),
        format!("{}\n", objects.display()),
    )
    .unwrap();
    let linked = f.inside.join("linked");
    fs::create_dir(&linked).unwrap();
    symlink(objects.join("pack"), linked.join("pack")).unwrap();
    fs::write(
        f.inside.join("common"),
        private.join(".git").to_str().unwrap(),
    )
    .unwrap();
    let alternates = git.join("objects/info/alternates");
    let name = |dir: &Path| fs::write(&alternates, format!("{}\n", dir.display())).unwrap();
    let link = |to: &Path, name: &str| {
        let link = git.join(name);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(to, link).unwrap();
    };
    // Git does not read lines as they are: these name a directory in the workspace only as text.
    let dirs = f.inside.join("dirs");
    for name in ["c\r", "d", "other/deep", "other/objects"] {
        fs::create_dir_all(dirs.join(name)).unwrap();
    }
    for name in ["objects/\"..", "objects/dirs/objects\""] {
        fs::create_dir_all(git.join(name)).unwrap();
    }
    symlink("other/deep", dirs.join("deep")).unwrap();
    symlink(&objects, dirs.join("objects")).unwrap();
    for name in ["c", "d\ne"] {
        symlink(private.join(".git"), dirs.join(name)).unwrap();
    }
    let write = |path: &str, text: &str| fs::write(git.join(path), text).unwrap();
    // Git takes the way through its own directory, where this path leads to the private repository.
    let own = |path: &Path| Path::new("/proc/self/cwd").join(path.strip_prefix("/").unwrap());
    let mirror = |path: &Path| {
        let mirror = f.inside.join(path.strip_prefix("/").unwrap());
        fs::create_dir_all(mirror.parent().unwrap()).unwrap();
        symlink(&objects, mirror).unwrap();
    };
    mirror(&f.inside.join("dirs/mirror"));
    fs::create_dir(dirs.join("mirror")).unwrap();
    fs::create_dir(dirs.join("pack")).unwrap();
    symlink(objects.join("pack"), dirs.join("pack/0")).unwrap();
    let steps: [(&str, &dyn Fn()); 15] = [
        ("objects/info/alternates", &|| {
            name(&own(&dirs.join("mirror")))
        }),
        ("refs/foo", &|| {
            link(&own(Path::new("/dirs/objects")), "refs/foo")
        }),
        ("objects/linked", &|| {
            link(&dirs.join("pack"), "objects/linked")
        }),
        ("objects/info/alternates", &|| {
            write("objects/info/alternates", "\"../../dirs/objects\"\n");
        }),
        ("objects/info/alternates", &|| {
            write("objects/info/alternates", "../../dirs/deep/../objects\n");
        }),
        ("commondir", &|| write("commondir", "../dirs/c\r\n")),
        ("commondir", &|| write("commondir", "../dirs/d\ne\n")),
        ("objects/info/alternates", &|| name(&objects)),
        ("objects/info/alternates", &|| name(&chain)),
        ("objects/info/alternates", &|| name(&linked)),
        ("objects/info/alternates", &|| {
            link(&chain.join("info/alternates"), "objects/info/alternates");
        }),
        ("refs/heads/leak", &|| {
            link(&private.join(".git/refs/heads/main"), "refs/heads/leak");
        }),
        ("objects/zz", &|| link(&objects, "objects/zz")),
        ("logs/refs/leak", &|| {
            link(&private.join(".git/logs/HEAD"), "logs/refs/leak");
        }),
        ("commondir", &|| link(&f.inside.join("common"), "commondir")),
    ];
    let log = GitRequest::new(GitCommand::Log);
    for (path, make) in steps {
        make();
        let error = ask(&workspace, &log).unwrap_err();
        assert!(
            [
                "outside of the workspace",
                "cannot be read",
                "quotation marks"
            ]
            .iter()
            .any(|part| error.message.contains(part)),
            "{path}: {error}"
        );
        fs::remove_file(git.join(path)).unwrap();
        assert!(ask(&workspace, &log).is_ok(), "{path}");
    }
    // What the user has added is part of the workspace.
    name(&objects);
    let added = Workspace::new(&f.inside, None, std::slice::from_ref(&private)).unwrap();
    assert!(ask(&added, &log).is_ok());
    let error = ask(&workspace, &log).unwrap_err();
    assert!(
        error
            .message
            .contains("objects/info/alternates: names objects"),
        "{error}"
    );
}

#[test]
fn harmless_links_in_a_git_directory_are_left_alone() {
    let f = fixture();
    let workspace = repository(&f);
    let git = f.inside.join(".git");
    fs::write(f.outside.join("text"), "new.txt\n").unwrap();
    fs::write(f.inside.join("new.txt"), "").unwrap();
    let shown = |command| ask(&workspace, &GitRequest::new(command)).unwrap().text;
    for (path, to) in [
        // The lock of Emacs, which leads nowhere.
        (".#COMMIT_EDITMSG", Path::new("user@host.1:1")),
        ("ORIG_HEAD", Path::new("nowhere")),
        ("description", &f.outside.join("text")),
        ("hooks", &f.outside),
        ("lfs", &f.outside),
        ("info/attributes", &f.outside.join("text")),
        // An old form of HEAD.
        ("HEAD", Path::new("refs/heads/main")),
    ] {
        let path = git.join(path);
        let _ = fs::remove_dir_all(&path);
        let _ = fs::remove_file(&path);
        symlink(to, &path).unwrap();
        assert!(shown(GitCommand::Log).contains("second"), "{path:?}");
        assert!(shown(GitCommand::Status).contains("?? new.txt"), "{path:?}");
    }
    // A linked list of ignored files hides its lines, and so would reveal what they are.
    let exclude = git.join("info/exclude");
    let _ = fs::remove_file(&exclude);
    symlink(f.outside.join("text"), &exclude).unwrap();
    assert!(shown(GitCommand::Log).contains("second"));
    fs::write(f.inside.join("other.txt"), "").unwrap();
    let status = shown(GitCommand::Status);
    assert!(status.contains(" M a.txt"), "{status}");
    assert!(
        status.contains("untracked files are not listed"),
        "{status}"
    );
    assert!(!status.contains("other.txt"), "{status}");
    // What git reads must belong to the repository.
    for path in ["info/grafts", "shallow", "FETCH_HEAD", "logs", "leak"] {
        let path = git.join(path);
        let _ = fs::remove_dir_all(&path);
        symlink(f.outside.join("text"), &path).unwrap();
        let error = ask(&workspace, &GitRequest::new(GitCommand::Log));
        let error = error.unwrap_err();
        assert!(error.message.contains("leads outside"), "{error}");
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn blame_says_that_a_file_is_not_committed() {
    let f = fixture();
    let workspace = repository(&f);
    fs::write(f.inside.join("new.txt"), "new\n").unwrap();
    let request = GitRequest {
        path: Some(workspace.resolve("new.txt").unwrap()),
        ..GitRequest::new(GitCommand::Blame)
    };
    let error = ask(&workspace, &request).unwrap_err();
    assert!(
        error.message.contains("the path is not in HEAD"),
        "{error:?}"
    );
}
