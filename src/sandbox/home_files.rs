//! Files of the home directory that hold secrets, or settings by which programs run code. Other files count too if a link in the home
//! directory leads to them. The file tools ask about each of these, in whatever workspace.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, OnceLock};

use nix::unistd::{Uid, User};

use super::links;
use super::path_rules::OpenHome;
use super::planned_files::PlannedFiles;
use super::secret_places::{SYSTEM_SECRETS, is_profile, secret_names};
use crate::safety::command::{is_run_later_at_home, run_later_places};
use crate::safety::protected_paths::NAMES as STARTUP_FILES;

/// How deep links are followed from a directory of the home directory.
pub(super) const LINK_DEPTH: usize = 3;

/// Directories of shells in which start-up files are.
const SHELLS: [&str; 2] = ["fish", "zsh"];

/// The directory below a home directory that has the profiles of programs.
const CONFIG: &str = ".config";

/// Why a call that reads or changes a file is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HomeFile {
    /// It is in a place of secrets.
    Secret,
    /// Programs of the user run or obey it. Only for changes.
    Startup,
    /// Its name, or that of a directory above it, begins with a dot in a home directory that is the workspace or in it: no list of
    /// secrets or of start-up files is complete. Directories of toolchains may be read, as in the sandbox.
    Hidden,
}

/// The home directories whose files are asked about: those of the shell and of the daemon, and that of the user database.
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
    bases: Vec<HomeBase>,
    /// The home directories that the workspace holds.
    open: Vec<OpenHome>,
    /// Places of secrets below a home directory in lower case, by their first name.
    secrets: BTreeMap<String, Vec<String>>,
}

/// A directory that the home directory has, or that a variable names instead.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct HomeBase {
    dir: PathBuf,
    /// What it stands for below the home directory: nothing for a home directory, or such as `.config`.
    place: &'static str,
}

impl HomeBase {
    /// Returns the path below the home directory that a real path stands for.
    fn below<'a>(&self, path: &'a Path) -> Option<Cow<'a, str>> {
        // Compared as bytes: a search asks about each file.
        let dir = self.dir.as_os_str().as_bytes();
        let below = match path.as_os_str().as_bytes().strip_prefix(dir)? {
            [b'/', below @ ..] => String::from_utf8_lossy(below),
            [] => Cow::Borrowed(""),
            _ => return None,
        };
        Some(match (self.place, below.is_empty()) {
            ("", _) => below,
            (place, true) => Cow::Borrowed(place),
            (place, false) => format!("{place}/{below}").into(),
        })
    }

    /// Returns the paths that exist at these places, which are in lower case, in whatever case their names are.
    fn existing(&self, places: &BTreeSet<&str>, with_profiles: bool) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut waiting = vec![(self.dir.clone(), self.place.to_owned())];
        while let Some((dir, above)) = waiting.pop() {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().to_lowercase();
                let is_profile = with_profiles && above == CONFIG && is_profile(&name);
                let below = match above.as_str() {
                    "" => name,
                    above => format!("{above}/{name}"),
                };
                if is_profile || places.contains(below.as_str()) {
                    found.push(entry.path());
                }
                let first = format!("{below}/");
                let next = places.range(first.as_str()..).next();
                if next.is_some_and(|place| place.starts_with(&first)) {
                    waiting.push((entry.path(), below));
                }
            }
        }
        found
    }
}

impl HomeLists {
    fn new(homes: Vec<PathBuf>, moved: Vec<(PathBuf, &'static str)>, roots: &[PathBuf]) -> Self {
        let homes = homes.into_iter().map(|home| (home, ""));
        let bases = homes.chain(moved).filter_map(|(dir, place)| {
            let dir = dir.canonicalize().ok()?;
            dir.parent().is_some().then_some(HomeBase { dir, place })
        });
        let bases: BTreeSet<HomeBase> = bases.collect();
        let opened = || roots.iter().map(PathBuf::as_path);
        let homes = bases.iter().filter(|base| base.place.is_empty());
        let open = homes.filter_map(|home| OpenHome::of(&home.dir, opened()));
        let mut secrets: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for place in secret_names().map(str::to_lowercase) {
            let first = place.split('/').next().unwrap_or_default();
            secrets.entry(first.to_owned()).or_default().push(place);
        }
        HomeLists {
            open: open.collect(),
            bases: bases.into_iter().collect(),
            secrets,
        }
    }

    /// Whether a path below a home directory is in a place of secrets.
    fn is_secret(&self, below: &str) -> bool {
        // Of the other paths there are many.
        let first = below.split('/').next().unwrap_or_default();
        let Some(places) = self.secrets.get(&*lower(first)) else {
            return false;
        };
        let below = lower(below);
        let mut names = below.split('/');
        let is_config = names.next() == Some(CONFIG);
        is_config && names.next().is_some_and(is_profile)
            || places.iter().any(|place| is_at(&below, place))
    }

    /// Whether a directory below a home directory is above a place of secrets.
    fn is_above_secret(&self, below: &str) -> bool {
        let below = lower(below);
        let mut places = self.secrets.values().flatten();
        places.any(|place| below.is_empty() || place != &*below && is_at(place, &below))
    }
}

impl HomeFiles {
    /// Returns the files of these home directories and of that in the user database. `moved` are directories that variables name instead
    /// of one below the home directory, such as `.config`; `roots` are the real paths of the workspace.
    pub fn new(
        homes: Vec<PathBuf>,
        moved: Vec<(PathBuf, &'static str)>,
        roots: Vec<PathBuf>,
    ) -> HomeFiles {
        HomeFiles::of(roots, || {
            let of_user = User::from_uid(Uid::current()).ok().flatten();
            let homes = homes.into_iter().chain(of_user.map(|user| user.dir));
            (homes.collect(), moved)
        })
    }

    fn of(
        roots: Vec<PathBuf>,
        bases: impl FnOnce() -> (Vec<PathBuf>, Vec<(PathBuf, &'static str)>) + Send + 'static,
    ) -> HomeFiles {
        let opened = roots.clone();
        let lists = move || {
            let (homes, moved) = bases();
            HomeLists::new(homes, moved, &opened)
        };
        HomeFiles {
            roots,
            lists: LazyLock::new(Box::new(lists)),
            linked: OnceLock::new(),
        }
    }

    /// Returns why a call that reads a file or directory is asked about. `path` is its real path.
    pub fn of_read(&self, path: &Path) -> Option<HomeFile> {
        if self.is_listed(path) || is_in(path, self.linked_secrets()) {
            return Some(HomeFile::Secret);
        }
        let is_hidden = self.lists.open.iter().any(|home| home.hides(path));
        is_hidden.then_some(HomeFile::Hidden)
    }

    /// Whether the history of a repository in this directory may have text of a file that is asked about.
    pub fn may_be_below(&self, dir: &Path) -> bool {
        let is_above = |base: &HomeBase| {
            let below = base.below(dir);
            below.is_some_and(|below| self.lists.is_above_secret(&below))
                || base.dir.starts_with(dir)
                    && (base.place.is_empty() || !self.secrets_in(base).is_empty())
        };
        self.of_read(dir).is_some()
            || self.lists.bases.iter().any(is_above)
            || self
                .linked_secrets()
                .iter()
                .any(|real| real.starts_with(dir))
    }

    /// Returns the places of secrets that exist in directories that variables name, for the sandbox.
    pub fn moved_secrets(&self) -> Vec<PathBuf> {
        let bases = self.lists.bases.iter();
        let moved = bases.filter(|base| !base.place.is_empty());
        moved.flat_map(|base| self.secrets_in(base)).collect()
    }

    fn secrets_in(&self, base: &HomeBase) -> Vec<PathBuf> {
        let places = self.lists.secrets.values().flatten().map(String::as_str);
        base.existing(&places.collect(), true)
    }

    /// Whether a directory holds a home directory.
    fn is_above_home(&self, dir: &Path) -> bool {
        let mut bases = self.lists.bases.iter();
        bases.any(|base| base.place.is_empty() && base.dir.starts_with(dir))
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
            let mut below = self.lists.bases.iter().filter_map(|base| base.below(file));
            if is_in(file, &startup) || below.any(|below| is_run_later_at_home(&lower(&below))) {
                return Some(HomeFile::Startup);
            }
            let root = self.roots.iter().find(|root| file.starts_with(root))?;
            let homes = self.lists.bases.iter().filter(|base| base.place.is_empty());
            let mut below = homes.filter_map(|home| home.below(file));
            let is_hidden = self.is_above_home(root) && below.any(|below| below.starts_with('.'));
            is_hidden.then_some(HomeFile::Hidden)
        };
        let found = files.iter().find_map(|file| Some((file, reason(file)?)));
        found.map(|(file, reason)| (file.to_path_buf(), reason))
    }

    /// Whether a path is in a place of the lists.
    fn is_listed(&self, path: &Path) -> bool {
        let is_secret = |base: &HomeBase| {
            let below = base.below(path);
            below.is_some_and(|below| self.lists.is_secret(&below))
        };
        let is_of_system = || {
            let mut places = SYSTEM_SECRETS.iter();
            path.starts_with("/etc") && places.any(|place| path.starts_with(place))
        };
        self.lists.bases.iter().any(is_secret) || is_of_system()
    }

    fn linked_secrets(&self) -> &BTreeSet<PathBuf> {
        self.linked
            .get_or_init(|| self.secret_links(&Default::default()))
    }

    /// Returns where links in the place of secrets lead, as if the planned files existed. Start-up files of shells are left out: among
    /// dotfiles that are worked on they are guarded and not hidden.
    fn secret_links(&self, planned: &PlannedFiles) -> BTreeSet<PathBuf> {
        let listed = self.lists.secrets.values().flatten().map(String::as_str);
        let places = listed.filter(|name| !is_startup(name)).collect();
        self.links(planned, &places, true, |real| !is_helper(real))
    }

    /// Returns where links in the place of start-up files lead. A directory that is linked into one of them is a project of which
    /// little is run. The source of a helper of aish is shown again before it runs.
    fn startup_links(&self, planned: &PlannedFiles) -> BTreeSet<PathBuf> {
        let places = run_later_places().filter(|name| *name != ".config/aish");
        self.links(planned, &places.collect(), false, |real| !real.is_dir())
    }

    /// Returns where the links at the places of the home directories lead, and the links in them to targets that count. Only targets in
    /// the workspace count, and none that contains a home directory.
    fn links(
        &self,
        planned: &PlannedFiles,
        places: &BTreeSet<&str>,
        with_profiles: bool,
        counts: impl Fn(&Path) -> bool,
    ) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        let bases = self.lists.bases.iter();
        for place in bases.flat_map(|base| base.existing(places, with_profiles)) {
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
    // Shells keep data there, such as histories.
    let is_data = below.starts_with(".local");
    let mut parts = below.iter().map(|part| part.to_str().unwrap_or_default());
    parts.any(|part| STARTUP_FILES.contains(&part) || !is_data && SHELLS.contains(&part))
}

/// Whether a place of secrets is that of a start-up file that people write, and not one in which a shell keeps what was typed.
fn is_startup(place: &str) -> bool {
    let is_data = place.ends_with("history") || place.ends_with("/fish_variables");
    is_of_shell(Path::new(place)) && !is_data
}

/// Whether a file may be the source of a Python helper, which is not a secret.
pub(super) fn is_helper(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "py")
}

/// Returns a path below the home directory as it is compared: on some file systems `.SSH` is the same directory.
fn lower(below: &str) -> Cow<'_, str> {
    let is_lower = |byte: u8| byte.is_ascii() && !byte.is_ascii_uppercase();
    match below.bytes().all(is_lower) {
        true => Cow::Borrowed(below),
        false => Cow::Owned(below.to_lowercase()),
    }
}

/// Whether a path is a place, or below it.
fn is_at(path: &str, place: &str) -> bool {
    let rest = path.strip_prefix(place);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
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
        of_bases(home, root, Vec::new())
    }

    fn of_bases(home: &Path, root: &str, moved: Vec<(PathBuf, &'static str)>) -> HomeFiles {
        let homes = vec![home.to_owned()];
        let root = home.join(root).components().collect();
        HomeFiles::of(vec![root], || (homes, moved))
    }

    /// Returns why the reading of each file is asked about, with this root of the workspace.
    fn read(home: &Path, root: &str, names: &[&str]) -> Vec<Option<HomeFile>> {
        let files = of_home(home, root);
        let of = |name: &&str| files.of_read(&home.join(name));
        names.iter().map(of).collect()
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
                "snap/firefox/common/.mozilla/firefox/p/key4.db",
            ] {
                assert_eq!(
                    read(&home, root, &[name]),
                    [Some(HomeFile::Secret)],
                    "{name}"
                );
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
                ".config/codespellrc",
                ".config/coder/x",
                ".config/operator.toml",
                "library/a",
                "Library/project/a.rs",
                "Library/Mobile Documents/x/a.rs",
                "project/.ssh/id_rsa",
                "project/.aws/config",
                "snap/project/snapcraft.yaml",
                "notes.md",
            ] {
                let found = read(&home, root, &[name]);
                assert_ne!(found, [Some(HomeFile::Secret)], "{name}");
            }
        }
    }

    #[test]
    fn hidden_files_of_a_home_directory_are_asked_about_where_the_workspace_holds_it() {
        use HomeFile::Hidden;
        let (_temp, home) = home(&[], &[]);
        let hidden = [
            ".env",
            ".sentryclirc",
            ".config/netlify/config.json",
            ".config/new",
            ".local/share/com.vercel.cli/auth.json",
            ".minikube/p/client.key",
        ];
        // Toolchains are those that the sandbox shows.
        let others = [
            "",
            ".config",
            ".local/share",
            ".cargo/config.toml",
            ".gitconfig",
            ".local/bin/x",
            "notes.md",
            "project/.env",
            "project/.github/x.yml",
        ];
        assert_eq!(read(&home, "", &hidden), [Some(Hidden); 6]);
        assert_eq!(read(&home, "", &others), [None; 9]);
        let above = home.parent().unwrap().to_owned();
        let homes = vec![home.clone()];
        let files = HomeFiles::of(vec![above], || (homes, Vec::new()));
        assert_eq!(files.of_read(&home.join(".env")), Some(Hidden));
        // Another workspace is what the user has chosen.
        for root in ["project", ".config", ".config/nvim", ".dotfiles", ".local"] {
            assert_eq!(read(&home, root, &hidden), [None; 6], "{root}");
        }
        // A directory that is added is opened by name.
        let roots = vec![home.clone(), home.join(".config/new")];
        let homes = vec![home.clone()];
        let files = HomeFiles::of(roots, || (homes, Vec::new()));
        assert_eq!(files.of_read(&home.join(".config/new/a")), None);
        assert_eq!(files.of_read(&home.join(".config/x")), Some(Hidden));
    }

    #[test]
    fn directories_that_variables_name_have_the_same_secrets() {
        let (_temp, home) = home(&["cfg/gh/hosts.yml", "empty/x", "project/cfg/x"], &[]);
        let moved = vec![
            (home.join("cfg"), ".config"),
            (home.join("empty"), ".config"),
        ];
        let files = of_bases(&home, "", moved);
        for name in ["cfg/gh/hosts.yml", "cfg/Code/User/x", "empty/gh"] {
            let found = files.of_read(&home.join(name));
            assert_eq!(found, Some(HomeFile::Secret), "{name}");
        }
        assert_eq!(files.of_read(&home.join("cfg/nvim/init.lua")), None);
        let change = home.join("cfg/nvim/init.lua");
        let found = files.of_change(&[&change]);
        assert_eq!(found, Some((change.clone(), HomeFile::Startup)));
        assert!(files.may_be_below(&home.join("cfg")));
        let hidden = files.moved_secrets();
        assert!(hidden.contains(&home.join("cfg/gh")), "{hidden:?}");
        assert!(!hidden.contains(&home.join(".ssh")), "{hidden:?}");
        let moved = vec![(home.join("project/cfg"), ".config")];
        assert!(!of_bases(&home, "project", moved).may_be_below(&home.join("project")));
    }

    #[test]
    fn a_repository_with_a_place_of_secrets_may_show_them() {
        let (_temp, home) = home(&["dot/ssh/id_rsa", "dot/a"], &[(".ssh", "dot/ssh")]);
        for (root, dir, expected) in [
            ("", "", true),
            (".config", ".config", true),
            (".config", ".config/gh", true),
            (".config", ".config/nvim", false),
            (".config/nvim", ".config/nvim", false),
            (".local/share/chezmoi", ".local/share/chezmoi", false),
            ("dot", "dot", true),
            ("dot", "dot/ssh", true),
            ("dot", "dot/ssh/id_rsa", true),
            ("dot", "dot/a", false),
            ("project", "project", false),
        ] {
            let found = of_home(&home, root).may_be_below(&home.join(dir));
            assert_eq!(found, expected, "{root}: {dir}");
        }
    }

    #[test]
    fn files_of_the_system_with_secrets_are_found() {
        let (_temp, home) = home(&[], &[]);
        let files = of_home(&home, "");
        for (name, expected) in [
            ("/etc/shadow", Some(HomeFile::Secret)),
            ("/etc/ssl/private/a.key", Some(HomeFile::Secret)),
            ("/etc/ssh/ssh_host_rsa_key.pub", None),
            ("/etc/hosts", None),
            ("/etcetera/shadow", None),
        ] {
            assert_eq!(files.of_read(Path::new(name)), expected, "{name}");
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
        let secrets = ["dot/ssh", "dot/aws/config"];
        assert_eq!(read(&home, "dot", &secrets), [Some(Secret); 2]);
        let others = ["dot/tmux", "dot/a", "dot/zshrc"];
        assert_eq!(read(&home, "dot", &others), [None; 3]);
    }

    #[test]
    fn links_are_followed_from_every_place_that_is_protected_where_it_is() {
        use HomeFile::{Secret, Startup};
        let names = [
            "rprofile",
            "xresources",
            "vimrc",
            "envrc",
            "tool-versions",
            "claude/settings.json",
            "xmonad.hs",
            "vsc/keybindings.json",
            "insiders/x",
            "chrome/Cookies",
            "vscodium.json",
            "fishdata/fish_history",
            "fish/fish_variables",
            "fish/config.fish",
            "zsh/.zsh_history",
            "zsh/.zshrc",
            "readme",
        ];
        let files: Vec<String> = names.iter().map(|name| format!("dot/{name}")).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let (_temp, home) = home(
            &files,
            &[
                (".Rprofile", "dot/rprofile"),
                (".Xresources", "dot/xresources"),
                (".vimrc", "dot/vimrc"),
                (".envrc", "dot/envrc"),
                (".tool-versions", "dot/tool-versions"),
                (".claude", "dot/claude"),
                (".xmonad/xmonad.hs", "dot/xmonad.hs"),
                (".config/Code/User", "dot/vsc"),
                (".config/Code - Insiders", "dot/insiders"),
                (".config/google-chrome-beta", "dot/chrome"),
                (".config/VSCodium/User/settings.json", "dot/vscodium.json"),
                (".local/share/fish", "dot/fishdata"),
                (".config/fish", "dot/fish"),
                (".config/zsh", "dot/zsh"),
            ],
        );
        let (startup, rest) = files.split_at(7);
        assert_eq!(changed(&home, "dot", startup), [Some(Startup); 7]);
        assert_eq!(read(&home, "dot", startup), [None; 7]);
        for (name, reason) in rest.iter().zip([
            Some(Secret),
            Some(Secret),
            Some(Secret),
            Some(Secret),
            Some(Secret),
            Some(Secret),
            None,
            Some(Secret),
            None,
            None,
        ]) {
            assert_eq!(read(&home, "dot", &[name]), [reason], "{name}");
        }
    }
}
