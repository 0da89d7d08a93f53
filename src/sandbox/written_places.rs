//! Finds out whether a file that a tool writes is one that the sandbox protects from commands.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::links;
use super::places::Places;
use super::planned_files::PlannedFiles;

/// Maximum time of the search. What the repository around a file names is found first.
const SEARCH_TIME: Duration = Duration::from_secs(2);

/// How deep links are followed from a directory of hooks or settings.
const LINK_DEPTH: usize = 2;

/// Returns the first of these files that other programs run or obey: as the sandbox protects it, or because a link of a protected
/// place leads to it. The files need not exist. `files` and `roots` are real paths; `programs` are the directories of `PATH`. Searches
/// the workspace, so it does not belong on a runtime thread.
pub fn place_of_write(
    files: &[PathBuf],
    roots: &[PathBuf],
    home: &Path,
    programs: &[PathBuf],
) -> Option<PathBuf> {
    let planned = PlannedFiles::new(files.iter().cloned());
    let end = Instant::now() + SEARCH_TIME;
    let places = Places::find_planned(roots, Some(home), programs, &planned, Some(end));
    let mut guarded = BTreeSet::new();
    for place in &places.files {
        if places.reported.contains(place) {
            continue;
        }
        let linked = place.is_symlink().then(|| planned.real_path(place));
        let mut targets = links::planned_targets(place, LINK_DEPTH, &planned);
        targets.extend(linked.flatten());
        // A link to a directory above says nothing of the files there.
        let is_above = |target: &PathBuf| {
            place.starts_with(target) || roots.iter().any(|root| root.starts_with(target))
        };
        guarded.extend(targets.into_iter().filter(|target| !is_above(target)));
        guarded.insert(place.clone());
    }
    let is_guarded = |file: &&PathBuf| file.ancestors().any(|path| guarded.contains(path));
    files.iter().find(is_guarded).cloned()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Returns those of the files that are asked about, each written alone, in a repository with these settings. A file that
    /// begins with `+` does not exist before.
    fn asked(config: &str, files: &[&'static str]) -> Vec<&'static str> {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap().join("project");
        fs::create_dir_all(root.join(".git/hooks")).unwrap();
        fs::write(root.join(".git/config"), config).unwrap();
        symlink("../../linked.sh", root.join(".git/hooks/pre-commit")).unwrap();
        symlink("../../new-linked.sh", root.join(".git/hooks/pre-push")).unwrap();
        fs::create_dir(root.join(".vscode")).unwrap();
        symlink("..", root.join(".vscode/root")).unwrap();
        for name in files.iter().filter(|name| !name.starts_with('+')) {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let mut found = Vec::new();
        for name in files {
            let path = root.join(name.trim_start_matches('+'));
            let roots = [root.clone()];
            if place_of_write(&[path], &roots, temp.path(), &[]).is_some() {
                found.push(*name);
            }
        }
        found
    }

    #[test]
    fn what_a_setting_of_git_names_is_found_before_it_exists() {
        for (config, expected) in [
            (
                "[core]\nhooksPath = hk\n",
                &["hk/pre-commit", "+hk/post-checkout"][..],
            ),
            (
                "[core]\nhooksPath = new\n",
                &["+new/deep/x", "+new/deep/late.sh"],
            ),
            ("[include]\npath = ../inc\n", &["inc"]),
            ("[include]\npath = ../+inc\n", &[]),
            ("[include]\npath = ../ninc\n", &["+ninc"]),
            ("[core]\nfsmonitor = scripts/h.sh\n", &["scripts/h.sh"]),
            ("[core]\nfsmonitor = ./notyet\n", &["+notyet"]),
            (
                "[core]\npager = sh \"$x/late.sh\"\n",
                &["+new/deep/late.sh"],
            ),
            ("[core]\nattributesFile = at\n", &["at"]),
            ("[alias]\nx = !scripts/h.sh\n", &["scripts/h.sh"]),
            (
                "[alias]\nx = !cat scripts/*.sh | sh\n",
                &["scripts/h.sh", "+scripts/new.sh"],
            ),
            (
                "[filter \"f\"]\nclean = sh scripts/h.sh\n",
                &["scripts/h.sh"],
            ),
            (
                "[filter \"f\"]\nclean = run-parts scripts\n",
                &["scripts/h.sh", "+scripts/new.sh"],
            ),
            // The unknown beginning may be any directory, also the top one.
            (
                "[alias]\nx = !sh $PWD/tools/z\n",
                &["tools/z", "deep/tools/z"],
            ),
            (
                "[alias]\nx = \"!f() { \\\"$(git rev-parse --show-toplevel)/deep/tools/z\\\"; }; f\"\n",
                &["deep/tools/z"],
            ),
            (
                "[alias]\nx = \"!r=$(pwd); sh \\\"$r/deep/tools/new.sh\\\"\"\n",
                &["+deep/tools/new.sh"],
            ),
            ("[core]\neditor = ${PWD}/tools/$x\n", &["tools/z"]),
            // Of the top directory, only what git looks for there counts.
            ("[core]\nhooksPath = .\n", &["pre-push", "+post-merge"]),
            (
                "[core]\nhooksPath = scripts/..\n",
                &["pre-push", "+post-merge"],
            ),
            (
                "[core]\nhooksPath = ../project\n",
                &["pre-push", "+post-merge"],
            ),
            ("[init]\ntemplateDir = .\n", &["config"]),
            ("", &[]),
        ] {
            let files = [
                "hk/pre-commit",
                "+hk/post-checkout",
                "+new/deep/x",
                "+new/deep/late.sh",
                "inc",
                "+ninc",
                "scripts/h.sh",
                "+scripts/new.sh",
                "+notyet",
                "at",
                "src/main.rs",
                "+src/new.rs",
                "config",
                "+HEAD",
                "tools/z",
                "deep/tools/z",
                "+deep/tools/new.sh",
                "pre-push",
                "+post-merge",
            ];
            assert_eq!(asked(config, &files), expected, "{config}");
        }
    }

    #[test]
    fn where_a_hook_leads_is_found() {
        let files = ["linked.sh", "+new-linked.sh", "other.sh", "+new-other.sh"];
        assert_eq!(asked("", &files), ["linked.sh", "+new-linked.sh"]);
    }

    #[test]
    fn no_number_of_entries_or_settings_hides_a_file() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        for dir in [".git", "tools"] {
            fs::create_dir(root.join(dir)).unwrap();
        }
        for n in 0..20_010 {
            fs::write(root.join(format!("tools/{n}.md")), "").unwrap();
        }
        let aliases = (100..300).map(|n| format!("a{n} = !sh $x/{n}/f.sh\n"));
        let aliases: String = aliases.collect();
        let config = format!("[alias]\nx = !sh tools/$1\n{aliases}");
        fs::write(root.join(".git/config"), config).unwrap();
        let roots = [root.clone()];
        for (name, is_asked) in [
            ("tools/20009.md", true),
            ("tools/new.sh", true),
            ("deep/299/f.sh", true),
            ("deep/f.sh", false),
        ] {
            let found = place_of_write(&[root.join(name)], &roots, temp.path(), &[]);
            assert_eq!(found.is_some(), is_asked, "{name}");
        }
    }

    #[test]
    fn what_the_directory_of_a_commondir_holds_is_found() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        for dir in ["e", "f/objects", "f/refs", "g"] {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        for (name, text) in [
            ("e/HEAD", "ref: refs/heads/m\n"),
            ("e/commondir", "../f\n"),
            ("build/e/HEAD", "ref: refs/heads/m\n"),
            ("build/e/commondir", "../../new\n"),
        ] {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), text).unwrap();
        }
        let roots = [root.clone()];
        for (name, is_asked) in [
            ("f/config", true),
            ("f/hooks/post-checkout", true),
            ("f/config.txt", false),
            ("g/config", false),
        ] {
            let found = place_of_write(&[root.join(name)], &roots, temp.path(), &[]);
            assert_eq!(found.is_some(), is_asked, "{name}");
        }
        fs::write(root.join("f/config"), "").unwrap();
        let places = Places::find(&roots, None, &[]).to_guard(&roots);
        assert!(places.contains(&root.join("f/config")), "{places:?}");
    }

    #[test]
    fn places_of_the_home_directory_are_found_before_they_exist() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().canonicalize().unwrap();
        for dir in [
            ".config/fish",
            ".config/systemd/user",
            ".zshrc.d",
            "project",
        ] {
            fs::create_dir_all(home.join(dir)).unwrap();
        }
        for (link, target) in [
            (".config/fish/config.fish", "project/f.fish"),
            (".config/systemd/user/y.service", "project/units/y.service"),
            (".profile", "project/profile"),
            (".zshrc.d/linked", "project"),
        ] {
            symlink(home.join(target), home.join(link)).unwrap();
        }
        let asked = |root: &str, file: &str| {
            let roots = [home.join(root)];
            place_of_write(&[home.join(file)], &roots, &home, &[]).is_some()
        };
        for (root, file, is_asked) in [
            ("", ".local/share/systemd/user/x.service", true),
            (".local", ".local/share/systemd/user/x.service", true),
            ("", ".local/share/dbus-1/services/a", true),
            (
                ".config/systemd/user",
                ".config/systemd/user/x.service",
                true,
            ),
            ("", ".local/share/x", false),
            ("", "project/f.fish", true),
            ("project", "project/f.fish", true),
            ("project", "project/units/y.service", true),
            ("project", "project/profile", true),
            ("project", "project/new.zsh", true),
            ("project", "project/functions/new", true),
            ("project", "project/src/new", false),
            ("project", "project/main.c", false),
        ] {
            assert_eq!(asked(root, file), is_asked, "{root}: {file}");
        }
    }
}
