//! What decides which programs run later: it stays as it is where namespaces work, and what is new is reported.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::place::{Holder, Place, SANDBOXES, stderr};
use crate::support::home::helper;

/// A repository that git accepts.
fn repository(place: &Place, name: &str) {
    let path = place.path(name);
    let mut git = Command::new("git");
    git.args(["init", "-q", "--template="]).arg(&path);
    assert!(git.status().expect("git").success());
    fs::create_dir_all(path.join(".git/hooks")).expect("a directory");
    fs::write(path.join(".git/hooks/sample"), "").expect("a file");
}

fn sh(place: &Place, holder: Holder, script: &str) -> String {
    let output = place.run(holder, &[], &["sh", "-c", script]);
    stderr(&output)
}

/// A changed file is kept with namespaces, and named without them.
fn assert_kept_or_reported(place: &Place, holder: Holder, name: &str, before: &str, errors: &str) {
    let path = place.path(name);
    let report = format!("aish: the command changed {}, which", path.display());
    match holder {
        Holder::Namespaces => {
            assert_eq!(place.read(name), before, "{name}: {errors}");
            assert!(!errors.contains("the command changed"), "{name}: {errors}");
        }
        _ => assert!(errors.contains(&report), "{name}: {errors}"),
    }
}

#[test]
fn other_repositories_of_a_workspace_count_too() {
    for holder in SANDBOXES {
        let place = Place::new();
        repository(&place, "ws/group/main");
        repository(&place, "bare");
        fs::rename(place.path("bare/.git"), place.path("ws/bare")).expect("a directory");
        let module = place.path("ws/.git/modules/a/b");
        fs::create_dir_all(module.parent().expect("a parent")).expect("a directory");
        fs::rename(place.path("ws/bare"), &module).expect("a directory");
        for dir in ["group/main/.git", ".git/modules/a/b"] {
            let file = format!("ws/{dir}/config");
            let before = place.read(&file);
            let errors = sh(
                &place,
                holder,
                &format!("echo '[core] fsmonitor = evil' >>{dir}/config"),
            );
            assert_kept_or_reported(&place, holder, &file, &before, &errors);
            let hook = format!("ws/{dir}/hooks/pre-commit");
            let errors = sh(
                &place,
                holder,
                &format!("echo evil >{dir}/hooks/pre-commit"),
            );
            assert_kept_or_reported(&place, holder, &hook, "", &errors);
        }
        if holder == Holder::Namespaces {
            sh(&place, holder, "mv group/main/.git group/main/old");
            assert!(place.path("ws/group/main/.git/config").exists());
        }
    }
}

#[test]
fn a_git_directory_that_is_named_counts_too() {
    for holder in SANDBOXES {
        let place = Place::new();
        repository(&place, "other");
        let write = format!("--write={}", place.path("other/.git").display());
        let script = "echo '[core] fsmonitor = evil' >>../other/.git/config; echo x >../other/.git/COMMIT_EDITMSG";
        let before = place.read("other/.git/config");
        let output = place.run(holder, &[&write], &["sh", "-c", script]);
        assert_kept_or_reported(
            &place,
            holder,
            "other/.git/config",
            &before,
            &stderr(&output),
        );
        assert_eq!(place.read("other/.git/COMMIT_EDITMSG"), "x\n");
    }
}

#[test]
fn a_git_directory_cannot_be_led_to_another_one() {
    for holder in SANDBOXES {
        let place = Place::new();
        repository(&place, "ws/repo");
        let script = "git init -q repo/evil && echo evil/.git >repo/.git/commondir && mv repo/evil/.git repo/.git/evil && echo evil >repo/.git/commondir";
        let errors = sh(&place, holder, script);
        assert!(
            errors.contains("repo/.git/commondir, which the command made"),
            "{errors}"
        );
        assert!(!place.path("ws/repo/.git/commondir").exists());
        // A linked worktree has one.
        let identity =
            "GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a";
        let errors = sh(
            &place,
            holder,
            &format!(
                "cd repo && {identity} git commit -q --allow-empty -m x && git worktree add -q ../linked && cd ../linked && git status -s"
            ),
        );
        assert!(
            place
                .path("ws/repo/.git/worktrees/linked/commondir")
                .exists(),
            "{errors}"
        );
    }
}

#[test]
fn a_link_hides_no_change() {
    for holder in SANDBOXES {
        let place = Place::new();
        fs::create_dir(place.path("ws/editor")).expect("a directory");
        fs::write(place.path("ws/editor/tasks.json"), "{}").expect("a file");
        symlink("editor", place.path("ws/.vscode")).expect("a link");
        let errors = sh(&place, holder, "echo evil >.vscode/tasks.json");
        assert_kept_or_reported(&place, holder, "ws/editor/tasks.json", "{}", &errors);
        let errors = sh(
            &place,
            holder,
            "rm .vscode; mkdir other; echo evil >other/tasks.json; ln -s other .vscode",
        );
        assert!(errors.contains("ws/.vscode, which"), "{errors}");
        let errors = sh(&place, holder, "ln -s other .idea");
        assert!(errors.contains("ws/.idea, which"), "{errors}");
    }
}

#[test]
fn a_large_directory_hides_no_change() {
    for holder in SANDBOXES {
        let place = Place::new();
        fs::create_dir_all(place.path("ws/.idea/a")).expect("a directory");
        for n in 0..5000 {
            fs::write(place.path(&format!("ws/.idea/a/{n}")), "").expect("a file");
        }
        let errors = sh(&place, holder, "mkdir sub; echo '{}' >sub/.mcp.json");
        assert!(errors.contains("ws/sub/.mcp.json, which"), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

#[test]
fn a_new_repository_is_reported_in_one_line() {
    for holder in SANDBOXES {
        let place = Place::new();
        let errors = sh(
            &place,
            holder,
            "git init -q sub/new && git -C sub/new config core.fsmonitor evil",
        );
        let line = format!(
            "aish: the command changed {}, which other programs run or obey: review it\n",
            place.path("ws/sub/new/.git").display()
        );
        assert_eq!(errors, line);
    }
}

/// Settings of git that name programs.
const COMMANDS: &str = "[pager]\n\tlog = ./tools/pager\n[alias]\n\tx = !./tools/alias a\n[gpg \"ssh\"]\n\tdefaultKeyCommand = tools/key\n\
    [core]\n\taskPass = $PWD/tools/ask\n\teditor = (X=1 ./tools/edit)\n";

#[test]
fn hooks_in_the_work_tree_count_too() {
    for holder in SANDBOXES {
        let place = Place::new();
        repository(&place, "ws/repo");
        let config = place.path("ws/repo/.git/config");
        let text = fs::read_to_string(&config).expect("text");
        fs::write(
            &config,
            format!("{text}[core]\n\thooksPath = .husky\n[include]\n\tpath = ../settings.inc\n{COMMANDS}"),
        )
        .expect("a file");
        fs::create_dir(place.path("ws/repo/.husky")).expect("a directory");
        fs::create_dir(place.path("ws/repo/tools")).expect("a directory");
        for (name, text) in [
            ("ws/repo/tools/pager", "true\n"),
            ("ws/repo/tools/alias", "true\n"),
            ("ws/repo/tools/key", "true\n"),
            ("ws/repo/tools/ask", "true\n"),
            ("ws/repo/tools/edit", "true\n"),
            ("ws/repo/.husky/pre-commit", "true\n"),
            ("ws/repo/settings.inc", "[a]\n"),
        ] {
            fs::write(place.path(name), text).expect("a file");
            let inside = name.strip_prefix("ws/").expect("a name");
            let errors = sh(&place, holder, &format!("echo evil >>{inside}"));
            assert_kept_or_reported(&place, holder, name, text, &errors);
        }
    }
}

#[test]
fn the_plugin_and_the_program_stay_as_they_are() {
    for holder in SANDBOXES {
        let place = Place::new();
        fs::create_dir_all(place.path("ws/zsh/functions")).expect("a directory");
        for name in ["ws/zsh/aish.plugin.zsh", "ws/zsh/functions/llm"] {
            fs::write(place.path(name), "true\n").expect("a file");
        }
        let errors = sh(&place, holder, "echo evil >zsh/aish.plugin.zsh");
        assert_kept_or_reported(&place, holder, "ws/zsh/aish.plugin.zsh", "true\n", &errors);
        let errors = sh(&place, holder, "echo evil >zsh/functions/llm");
        assert_kept_or_reported(&place, holder, "ws/zsh/functions/llm", "true\n", &errors);
    }
}

#[test]
fn many_directories_hide_nothing_silently() {
    let place = Place::new();
    let script =
        "seq 1 20100 | xargs mkdir; mkdir -p a/b/c/.vscode; echo x >a/b/c/.vscode/tasks.json";
    let errors = sh(&place, Holder::Namespaces, script);
    assert!(errors.contains("too many: files that decide"), "{errors}");
    // What tools make does not count before the rest.
    let place = Place::new();
    let script = "mkdir target; cd target; seq 1 20100 | xargs mkdir; cd ..; mkdir -p z/b/.vscode; echo x >z/b/.vscode/tasks.json";
    let errors = sh(&place, Holder::Namespaces, script);
    assert!(errors.contains("z/b/.vscode/tasks.json, which"), "{errors}");
}

#[test]
fn a_link_to_another_repository_is_not_followed() {
    let place = Place::new();
    repository(&place, "ws/build/repo");
    repository(&place, "other");
    let worktree = place.path("other/.git/worktrees/w");
    fs::create_dir_all(&worktree).expect("a directory");
    fs::write(worktree.join("commondir"), "../..\n").expect("a file");
    let script = format!(
        "mv build/repo/.git build/repo/old && ln -s {} build/repo/.git",
        worktree.display()
    );
    for holder in SANDBOXES {
        let errors = sh(&place, holder, &script);
        assert!(worktree.join("commondir").exists(), "{errors}");
        assert!(!errors.contains("removed"), "{errors}");
    }
}

#[test]
fn a_linked_git_directory_can_be_committed_to() {
    let place = Place::new();
    repository(&place, "ws/repo");
    fs::rename(place.path("ws/repo/.git"), place.path("ws/store")).expect("a directory");
    symlink("../store", place.path("ws/repo/.git")).expect("a link");
    let config = place.read("ws/store/config");
    for holder in SANDBOXES {
        let script = "cd repo && echo x >>f && git add f && git -c user.name=a -c user.email=a commit -qm x && echo committed; echo '[core] fsmonitor = evil' >>.git/config";
        let output = place.run(holder, &[], &["sh", "-c", script]);
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("committed"),
            "{output:?}"
        );
        if holder == Holder::Namespaces {
            assert_eq!(place.read("ws/store/config"), config, "{output:?}");
        }
    }
}

#[test]
fn what_looks_like_a_git_directory_hides_nothing() {
    for holder in SANDBOXES {
        let place = Place::new();
        let script = "mkdir -p sub/objects sub/refs sub/x sub/.vscode; touch sub/HEAD; echo x >sub/.vscode/tasks.json; cd sub/x; git init -q .";
        let errors = sh(&place, holder, script);
        for name in ["sub/x/.git", "sub/.vscode/tasks.json"] {
            let report = format!("{}, which", place.path("ws").join(name).display());
            assert!(errors.contains(&report), "{name}: {errors}");
        }
    }
}

#[test]
fn a_new_place_of_many_files_is_named_as_a_whole() {
    let place = Place::new();
    let script = "mkdir -p .vscode/a .claude/skills/a/b/c; cd .vscode; seq 1 6000 | sed 's/^/a\\//' | xargs mkdir; echo x >tasks.json; echo x >../.claude/skills/a/b/c/run.sh";
    let errors = sh(&place, Holder::Namespaces, script);
    assert!(errors.contains("ws/.vscode, which"), "{errors}");
    assert!(errors.contains("skills/a/b/c/run.sh, which"), "{errors}");
    assert_eq!(errors.lines().count(), 2, "{errors}");
    let errors = sh(
        &place,
        Holder::Namespaces,
        "ln -s /usr .git/info/attributes || ln -s /usr/lib sub.mcp; ln -s /usr/lib .envrc",
    );
    assert!(errors.lines().count() <= 2, "{errors}");
}

#[test]
fn start_up_files_and_compiled_functions_count_too() {
    for holder in SANDBOXES {
        let place = Place::new();
        fs::create_dir_all(place.path("ws/zsh/functions")).expect("a directory");
        fs::write(place.path("ws/zsh/aish.plugin.zsh"), "true\n").expect("a file");
        fs::write(place.path("ws/.zshrc"), "true\n").expect("a file");
        let errors = sh(&place, holder, "echo evil >>.zshrc");
        assert_kept_or_reported(&place, holder, "ws/.zshrc", "true\n", &errors);
        let errors = sh(
            &place,
            holder,
            "echo x >zsh/aish.plugin.zsh.zwc; echo x >zsh/functions.zwc",
        );
        for name in ["aish.plugin.zsh.zwc", "functions.zwc"] {
            assert!(
                errors.contains(&format!("ws/zsh/{name}, which")),
                "{errors}"
            );
        }
    }
}

#[test]
fn settings_of_editors_cargo_and_mise_count_too() {
    for holder in SANDBOXES {
        let place = Place::new();
        for name in [
            "a.code-workspace",
            ".cargo/config.toml",
            "sub/.cargo/config",
            "mise.toml",
            "sub/.mise.local.toml",
            ".tool-versions",
        ] {
            let path = place.path("ws").join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(&path, "true\n").expect("a file");
            let errors = sh(&place, holder, &format!("echo evil >>{name}"));
            assert_kept_or_reported(&place, holder, &format!("ws/{name}"), "true\n", &errors);
        }
        let script = "mkdir -p new/.cargo; echo x >new/.cargo/config.toml; echo x >new/.cargo/other; echo x >new/b.code-workspace";
        let errors = sh(&place, holder, script);
        for name in ["new/.cargo/config.toml", "new/b.code-workspace"] {
            assert!(errors.contains(&format!("ws/{name}, which")), "{errors}");
        }
        assert_eq!(errors.lines().count(), 2, "{errors}");
        // A link leads to what is obeyed.
        let place = Place::new();
        fs::create_dir(place.path("ws/settings")).expect("a directory");
        fs::write(place.path("ws/settings/config.toml"), "true\n").expect("a file");
        symlink("settings", place.path("ws/.cargo")).expect("a link");
        let errors = sh(&place, holder, "echo evil >>settings/config.toml");
        assert_kept_or_reported(&place, holder, "ws/settings/config.toml", "true\n", &errors);
    }
}

#[test]
fn a_rebase_goes_on_but_its_commands_are_reported() {
    for holder in SANDBOXES {
        let place = Place::new();
        repository(&place, "ws/repo");
        let todo = "ws/repo/.git/rebase-merge/git-rebase-todo";
        // Stops before the last commit.
        let script = "git config user.name a; git config user.email a; for n in 1 2; do echo $n >$n; git add .; git commit -qm $n; done; GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i HEAD~1";
        let mut git = Command::new("sh");
        git.args(["-c", script]).current_dir(place.path("ws/repo"));
        git.env("HOME", place.path("home"));
        assert!(git.status().expect("git").success());
        assert!(place.path(todo).exists());
        let errors = sh(&place, holder, &format!("echo 'exec evil' >>../{todo}"));
        let report = format!(
            "aish: the command changed {}, which",
            place.path(todo).display()
        );
        assert!(errors.contains(&report), "{errors}");
        let errors = sh(
            &place,
            holder,
            "cd repo && sed -i /evil/d .git/rebase-merge/git-rebase-todo && git rebase --continue",
        );
        assert!(!place.path(todo).exists(), "{errors}");
        assert!(!errors.contains("the command changed"), "{errors}");
        let script = "mkdir repo/.git/rebase-merge; echo 'exec evil' >repo/.git/rebase-merge/git-rebase-todo";
        let errors = sh(&place, holder, script);
        assert!(errors.contains(&report), "{errors}");
    }
}

#[test]
fn what_the_git_configuration_of_the_user_names_counts_too() {
    for holder in SANDBOXES {
        let place = Place::new();
        repository(&place, "ws/sub/repo");
        let config = place.path("ws/sub/repo/.git/config");
        let text = fs::read_to_string(&config).expect("text");
        let own = "[core]\n\tattributesFile = ~/../ws/attributes\n[alias]\n[diff \"x\"]\n\ttextconv = $HOME/../ws/tools/convert --plain\n";
        fs::write(&config, format!("{text}{own}")).expect("a file");
        fs::write(
            place.path("home/.gitconfig"),
            "[core]\n\thooksPath = .githooks\n[include]\n\tpath = ~/../ws/settings.inc\n",
        )
        .expect("a file");
        let names = [
            "ws/sub/repo/.githooks/pre-commit",
            "ws/settings.inc",
            "ws/attributes",
            "ws/tools/convert",
        ];
        for name in names {
            let path = place.path(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, "[a]\n").expect("a file");
        }
        for name in names {
            let errors = sh(&place, holder, &format!("echo evil >>../{name}"));
            assert_kept_or_reported(&place, holder, name, "[a]\n", &errors);
        }
        // The directory of hooks need not exist before.
        let place = Place::new();
        repository(&place, "ws/repo");
        fs::create_dir_all(place.path("home/.config/git")).expect("a directory");
        fs::write(
            place.path("home/.config/git/config"),
            "[core]\n\thooksPath = .githooks\n",
        )
        .expect("a file");
        let script = "mkdir repo/.githooks && echo evil >repo/.githooks/pre-commit";
        let errors = sh(&place, holder, script);
        assert!(
            errors.contains("ws/repo/.githooks/pre-commit, which"),
            "{errors}"
        );
    }
}

#[test]
fn what_the_home_directory_has_run_later_counts_too() {
    for holder in SANDBOXES {
        let place = Place::new();
        let names = [
            ".config/autostart/x.desktop",
            ".config/environment.d/x.conf",
            ".config/git/config",
            ".config/systemd/user/x.service",
            ".config/zsh/aliases.zsh",
            ".local/bin/ls",
            ".oh-my-zsh/oh-my-zsh.sh",
        ];
        for name in names {
            let path = place.path("home").join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, "old\n").expect("a file");
        }
        for name in names {
            let (dir, inside) = name.split_once('/').expect("a directory");
            let dir = format!("--dir={}", place.path("home").join(dir).display());
            let script = format!("cd {}; echo evil >>{inside}", &dir["--dir=".len()..]);
            let output = place.run(holder, &[&dir], &["sh", "-c", &script]);
            let name = format!("home/{name}");
            assert_kept_or_reported(&place, holder, &name, "old\n", &stderr(&output));
        }
        // What is new in such a directory is kept or reported as well.
        let dir = place.path("home/.config");
        let script = "cd git && echo evil >attributes; mkdir ../fish && echo evil >../fish/x.fish";
        let mut command = place.command(holder, &[], &["sh", "-c", script]);
        let errors = stderr(&command.current_dir(dir).output().expect("a run"));
        let new = place.path("home/.config/git/attributes");
        let report = format!("aish: the command changed {}, which", new.display());
        assert_eq!(errors.contains(&report), new.exists(), "{errors}");
        let new = place.path("home/.config/fish/x.fish");
        let report = format!("aish: the command changed {}, which", new.display());
        assert_eq!(errors.contains(&report), new.exists(), "{errors}");
    }
}

#[test]
fn aish_itself_is_kept_or_is_not_in_a_workspace() {
    for holder in SANDBOXES {
        let place = Place::new();
        let own = place.path("ws/aish-helper");
        fs::copy(helper(), &own).expect("a copy");
        let command = place.command(holder, &[], &["sh", "-c", "echo evil >x; mv x aish-helper"]);
        let mut changed = Command::new(&own);
        changed
            .args(command.get_args())
            .current_dir(place.path("ws"));
        changed.env("HOME", place.path("home"));
        let output = changed.output().expect("a run");
        let length = |path: &std::path::Path| fs::metadata(path).expect("a file").len();
        assert_eq!(length(&own), length(helper().as_ref()), "{output:?}");
        let refused = stderr(&output).contains("is aish's own program");
        assert_eq!(refused, holder == Holder::NoNamespaces, "{output:?}");
    }
}
