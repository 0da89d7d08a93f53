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
            ];
            assert_eq!(asked(config, &files), expected, "{config}");
        }
    }

    #[test]
    fn where_a_hook_leads_is_found() {
        let files = ["linked.sh", "+new-linked.sh", "other.sh", "+new-other.sh"];
        assert_eq!(asked("", &files), ["linked.sh", "+new-linked.sh"]);
    }
}
