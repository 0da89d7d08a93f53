//! Files of the home directory that hold secrets, or settings by which programs run code. Other files count too if a link in the home
//! directory leads to them. The file tools ask about each of these, in whatever workspace.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, OnceLock};

use nix::unistd::{Uid, User};

use super::links;
use super::path_rules::{is_profile, secrets_of};
use super::planned_files::PlannedFiles;
use crate::safety::command::{is_run_later_at_home, run_later_places};
use crate::safety::protected_paths::NAMES as STARTUP_FILES;

/// How deep links are followed from a directory of the home directory.
pub(super) const LINK_DEPTH: usize = 3;

/// Directories of shells in which start-up files are.
const SHELLS: [&str; 2] = ["fish", "zsh"];

/// Why a change of a file is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HomeFile {
    /// It holds secrets.
    Secret,
    /// Programs of the user run or obey it.
    Startup,
    /// Its name, or that of a directory above it, begins with a dot in a home directory that is the workspace or in it: no list of
    /// start-up files is complete.
    Hidden,
}

/// The home directories whose files are asked about: that of `HOME`, and that of the user database.
#[derive(Debug)]
pub struct HomeFiles {
    roots: Vec<PathBuf>,
    /// Made for the first call of a tool: a lookup in the user database may take long.
    lists: LazyLock<HomeLists, Box<dyn FnOnce() -> HomeLists + Send>>,
    /// Files and directories in the workspace to which links in the place of secrets lead.
    linked: OnceLock<BTreeSet<PathBuf>>,
}

#[derive(Debug)]
struct HomeLists {
    homes: Vec<PathBuf>,
    /// Paths below a home directory that hold secrets; lower case below a name that begins with a dot.
    secrets: BTreeSet<PathBuf>,
}

impl HomeFiles {
    /// Returns the files of the home directory `home`. `roots` are the real paths of the workspace.
    pub fn new(home: &Path, roots: Vec<PathBuf>) -> HomeFiles {
        let home = home.to_owned();
        HomeFiles::of(roots, || {
            let of_user = User::from_uid(Uid::current()).ok().flatten();
            [home].into_iter().chain(of_user.map(|u| u.dir)).collect()
        })
    }

    fn of(roots: Vec<PathBuf>, homes: impl FnOnce() -> Vec<PathBuf> + Send + 'static) -> HomeFiles {
        let lists = move || {
            let homes = homes().into_iter().filter(|home| home.parent().is_some());
            let homes: BTreeSet<PathBuf> =
                homes.filter_map(|home| home.canonicalize().ok()).collect();
            let secrets = secrets_of(Path::new(""));
            HomeLists {
                homes: homes.into_iter().collect(),
                secrets: secrets.iter().map(|path| comparable(path)).collect(),
            }
        };
        HomeFiles {
            roots,
            lists: LazyLock::new(Box::new(lists)),
            linked: OnceLock::new(),
        }
    }

    /// Whether a file or directory holds secrets. `path` is its real path.
    pub fn is_secret(&self, path: &Path) -> bool {
        let linked = || {
            self.linked
                .get_or_init(|| self.secret_links(&Default::default()))
        };
        self.is_listed(path) || is_in(path, linked())
    }

    /// Whether a directory holds a home directory.
    pub fn is_above_home(&self, dir: &Path) -> bool {
        self.lists.homes.iter().any(|home| home.starts_with(dir))
    }

    /// Returns the first of these files whose change is asked about. The files need not exist; `files` are real paths.
    pub fn of_change(&self, files: &[&Path]) -> Option<(PathBuf, HomeFile)> {
        let planned = PlannedFiles::new(files.iter().map(|file| (*file).to_owned()));
        let secrets = self.secret_links(&planned);
        let startup = self.startup_links(&planned);
        let reason = |file: &Path| {
            if self.is_listed(file) || is_in(file, &secrets) {
                return Some(HomeFile::Secret);
            }
            let below = self
                .lists
                .homes
                .iter()
                .find_map(|home| file.strip_prefix(home).ok());
            let below = below.map(|below| below.to_string_lossy().to_lowercase());
            if is_in(file, &startup) || below.as_deref().is_some_and(is_run_later_at_home) {
                return Some(HomeFile::Startup);
            }
            let root = self.roots.iter().find(|root| file.starts_with(root))?;
            let is_hidden = self.is_above_home(root) && below?.starts_with('.');
            is_hidden.then_some(HomeFile::Hidden)
        };
        let found = files.iter().find_map(|file| Some((file, reason(file)?)));
        found.map(|(file, reason)| (file.to_path_buf(), reason))
    }

    /// Whether a path is below one of the list.
    fn is_listed(&self, path: &Path) -> bool {
        let mut below = self
            .lists
            .homes
            .iter()
            .filter_map(|home| path.strip_prefix(home).ok());
        below.any(|below| {
            let first = below.iter().next().and_then(|name| name.to_str());
            // Of the other paths there are many.
            if !first.is_some_and(|name| name.starts_with('.') || name == "Library") {
                return false;
            }
            let below = comparable(below);
            let mut names = below.iter().map(|name| name.to_string_lossy());
            let is_config = names.next().is_some_and(|name| name == ".config");
            is_config && names.next().is_some_and(|name| is_profile(&name))
                || is_in(&below, &self.lists.secrets)
        })
    }

    /// Returns where links in the place of secrets lead, as if the planned files existed. Start-up files of shells are left out: among
    /// dotfiles that are worked on they are guarded and not hidden.
    fn secret_links(&self, planned: &PlannedFiles) -> BTreeSet<PathBuf> {
        let secrets = |home: &PathBuf| {
            let secrets = secrets_of(home).into_iter();
            let secrets =
                secrets.filter(|path| path.strip_prefix(home).is_ok_and(|path| !is_of_shell(path)));
            secrets.collect::<Vec<_>>()
        };
        self.links(planned, secrets, |real| !is_helper(real))
    }

    /// Returns where links in the place of start-up files lead. A directory that is linked into one of them is a project of which
    /// little is run. The source of a helper of aish is shown again before it runs.
    fn startup_links(&self, planned: &PlannedFiles) -> BTreeSet<PathBuf> {
        let names = run_later_places().filter(|name| *name != ".config/aish");
        let names: Vec<&str> = names.collect();
        let places = |home: &PathBuf| names.iter().map(|name| home.join(name)).collect();
        self.links(planned, places, |real| !real.is_dir())
    }

    /// Returns where the links at the places of the home directories lead, and the links in them to targets that count. Only targets in
    /// the workspace count, and none that contains a home directory.
    fn links(
        &self,
        planned: &PlannedFiles,
        places: impl Fn(&PathBuf) -> Vec<PathBuf>,
        counts: impl Fn(&Path) -> bool,
    ) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        for place in self.lists.homes.iter().flat_map(places) {
            if place.symlink_metadata().is_err() {
                continue;
            }
            found.extend(planned.real_path(&place).filter(|real| *real != place));
            let linked = links::planned_targets(&place, LINK_DEPTH, planned).into_iter();
            found.extend(linked.filter(|real| counts(real)));
        }
        found.retain(|real| {
            let is_below = |root: &PathBuf| real != root && real.starts_with(root);
            self.roots.iter().any(is_below) && !self.is_above_home(real)
        });
        found
    }
}

/// Whether a path below the home directory is that of a start-up file of a shell, or of a directory of shells.
pub(super) fn is_of_shell(below: &Path) -> bool {
    let mut parts = below.iter().map(|part| part.to_str().unwrap_or_default());
    parts.any(|part| SHELLS.contains(&part) || STARTUP_FILES.contains(&part))
}

/// Whether a file may be the source of a Python helper, which is not a secret.
pub(super) fn is_helper(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "py")
}

/// Returns a path below the home directory as it is compared: on some file systems `.SSH` is the same directory.
fn comparable(below: &Path) -> PathBuf {
    let text = below.to_string_lossy();
    match text.starts_with('.') {
        true => text.to_lowercase().into(),
        false => below.to_owned(),
    }
}

fn is_in(path: &Path, places: &BTreeSet<PathBuf>) -> bool {
    !places.is_empty() && path.ancestors().any(|dir| places.contains(dir))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A home directory with these files and links.
    fn home(files: &[&str], links: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().canonicalize().unwrap();
        let with_dir = |name: &str| {
            let path = home.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        for name in files {
            fs::write(with_dir(name), "").unwrap();
        }
        for (from, to) in links {
            symlink(home.join(to), with_dir(from)).unwrap();
        }
        (temp, home)
    }

    /// The files of a home directory, with this root of the workspace.
    fn of_home(home: &Path, root: &str) -> HomeFiles {
        let homes = vec![home.to_owned()];
        HomeFiles::of(vec![home.join(root)], || homes)
    }

    /// Returns why the change of each file is asked about, with this root of the workspace.
    fn changed(home: &Path, root: &str, names: &[&str]) -> Vec<Option<HomeFile>> {
        let files = of_home(home, root);
        let of = |name: &&str| {
            let found = files.of_change(&[&home.join(name)]);
            found.map(|(_, reason)| reason)
        };
        names.iter().map(of).collect()
    }

    #[test]
    fn secrets_of_the_home_directory_are_found_in_every_workspace() {
        let (_temp, home) = home(&[], &[]);
        for root in ["", ".ssh", ".config", "project"] {
            let files = of_home(&home, root);
            for name in [
                ".ssh",
                ".ssh/id_rsa",
                ".ssh/authorized_keys",
                ".SSH/id_rsa",
                ".netrc",
                ".aws/config",
                ".config/gh/hosts.yml",
                ".config/Code - Insiders/User/settings.json",
                ".bash_history",
                "Library/Keychains/x",
            ] {
                assert!(files.is_secret(&home.join(name)), "{name}");
                assert_eq!(
                    changed(&home, root, &[name]),
                    [Some(HomeFile::Secret)],
                    "{name}"
                );
            }
            for name in [
                "",
                ".sshd/config",
                ".config",
                ".config/nvim/init.lua",
                ".tmux.conf",
                "library/a",
                "project/.ssh/id_rsa",
                "project/.aws/config",
                "notes.md",
            ] {
                assert!(!files.is_secret(&home.join(name)), "{name}");
            }
        }
    }

    #[test]
    fn start_up_files_and_hidden_files_of_the_home_directory_are_asked_about() {
        use HomeFile::{Hidden, Startup};
        let (_temp, home) = home(&[], &[]);
        let names = [
            ".tmux.conf",
            ".emacs",
            ".gdbinit",
            ".config/nvim/init.lua",
            ".config/direnv/direnvrc",
            ".emacs.d/init.el",
            ".vim/plugin/x.vim",
        ];
        assert_eq!(changed(&home, "", &names), [Some(Startup); 7]);
        assert_eq!(changed(&home, ".config", &names[3..5]), [Some(Startup); 2]);
        // No list is complete where every program has its settings.
        let others = [
            ".crontab",
            ".config/new/rc",
            ".local/lib/x.py",
            "src/a.rs",
            "src/.env",
        ];
        let expected = [Some(Hidden), Some(Hidden), Some(Hidden), None, None];
        assert_eq!(changed(&home, "", &others), expected);
        let elsewhere = ["dot/x.lua", "dot/.tmux.conf", "dot/.config/new/rc"];
        assert_eq!(changed(&home, "dot", &elsewhere), [None; 3]);
        assert_eq!(
            changed(&home, ".dotfiles", &[".dotfiles/a", ".dotfiles/.x"]),
            [None; 2]
        );
    }

    #[test]
    fn what_a_link_of_the_home_directory_leads_to_counts_as_what_is_there() {
        use HomeFile::{Secret, Startup};
        let (_temp, home) = home(
            &[
                "dot/ssh",
                "dot/aws/config",
                "dot/tmux",
                "dot/nvim/init.lua",
                "dot/zshrc",
                "dot/a",
                "src/x/a.lua",
            ],
            &[
                (".ssh/config", "dot/ssh"),
                (".ssh/new", "dot/new"),
                (".ssh/above", "dot"),
                (".aws", "dot/aws"),
                (".netrc", "dot/netrc"),
                (".tmux.conf", "dot/tmux"),
                (".config/nvim", "dot/nvim"),
                (".config/mpv/scripts", "src/x"),
                (".config/aish/helpers/h.py", "dot/h.py"),
                (".zshrc", "dot/zshrc"),
            ],
        );
        let names = [
            "dot/ssh",
            "dot/new",
            "dot/aws/config",
            "dot/netrc",
            "dot/tmux",
            "dot/nvim/init.lua",
        ];
        let expected = [
            Some(Secret),
            Some(Secret),
            Some(Secret),
            Some(Secret),
            Some(Startup),
            Some(Startup),
        ];
        assert_eq!(changed(&home, "dot", &names), expected);
        assert_eq!(
            changed(&home, "dot", &["dot/a", "dot/zshrc", "dot/h.py"]),
            [None; 3]
        );
        assert_eq!(changed(&home, "src/x", &["src/x/a.lua"]), [None]);
        let files = of_home(&home, "dot");
        let read = |name: &str| files.is_secret(&home.join(name));
        assert!(read("dot/ssh") && read("dot/aws/config"));
        assert!(!read("dot/tmux") && !read("dot/a") && !read("dot/zshrc"));
    }
}
