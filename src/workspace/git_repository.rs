//! A git repository and its configuration, and the installed git that reads it.
//!
//! The repository's own configuration can name files anywhere: git would read them, and its answers would reveal their lines. So git is
//! first asked for the configuration without its includes, which reads no file that the repository names.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::git_dir::GitPlace;
use super::path_error::{PathError, PathFault, PathResult};
use super::program::{ProgramOutput, RunLimits, find_program, run, scrubbed};
use super::read_context::ReadContext;
use super::root::ResolvedPath;

/// Maximum time for git.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// Maximum time for git to read its configuration.
const CONFIG_TIME: Duration = Duration::from_secs(2);

/// Maximum size of the list of settings.
const MAX_CONFIG: usize = 4 << 20;

/// Maximum number of filters; each takes four variables of the environment.
const MAX_FILTERS: usize = 200;

/// Maximum number of files that the repository's own configuration includes.
const MAX_INCLUDES: usize = 20;

/// Settings that name a file which the commands that run here read: the key, and the name of the user's file in git's directory of
/// configuration that counts where the setting is absent. Others of this kind are in [`CONFIG`], or only for other commands.
const FILE_SETTINGS: &[(&str, &str)] = &[
    ("core.excludesfile", "ignore"),
    ("core.attributesfile", "attributes"),
];

/// Such a setting with a list of files, all of which git reads: no other value ends the list.
const REVISIONS: &[u8] = b"blame.ignorerevsfile";

/// Keys of the settings that decide how git is run.
const KEYS: &str = r"^filter\.|^core\.(excludesfile|attributesfile)$|^blame\.ignorerevsfile$";

/// Keys of the settings that make git read further configuration, or references, from somewhere else.
const REDIRECTIONS: &str = r"^include(if)?\.|^extensions\.refstorage$";

/// Configuration of every call.
const CONFIG: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.askPass", ""),
    ("core.sshCommand", "false"),
    ("core.quotePath", "false"),
    ("color.ui", "false"),
    ("color.status", "false"),
    ("credential.helper", ""),
    ("protocol.allow", "never"),
    ("log.showSignature", "false"),
    ("gpg.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.x509.program", "false"),
    ("submodule.recurse", "false"),
    ("status.submoduleSummary", "false"),
    ("diff.ignoreSubmodules", "all"),
    ("diff.orderFile", "/dev/null"),
    ("mailmap.file", "/dev/null"),
];

/// Environment of every call.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    // Counts more than `protocol.*` of the repository.
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_LITERAL_PATHSPECS", "1"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "false"),
    ("GIT_ASKPASS", "false"),
    ("GIT_SSH_COMMAND", "false"),
    ("LC_ALL", "C.UTF-8"),
];

/// A setting in git's configuration.
#[derive(Debug)]
pub(super) struct Setting {
    /// `local` and `worktree` are those of the repository itself.
    scope: Vec<u8>,
    /// The key, in lower case but for the middle part.
    pub key: Vec<u8>,
    /// `None` for a key without a value, which means true.
    pub value: Option<Vec<u8>>,
}

impl Setting {
    fn new([scope, entry]: &[&[u8]; 2]) -> Setting {
        let mut parts = entry.splitn(2, |&b| b == b'\n').map(<[u8]>::to_vec);
        Setting {
            scope: scope.to_vec(),
            key: parts.next().unwrap_or_default(),
            value: parts.next(),
        }
    }

    fn is_own(&self) -> bool {
        matches!(self.scope.as_slice(), b"local" | b"worktree")
    }

    fn is_include(&self) -> bool {
        self.key.starts_with(b"include") && self.key.ends_with(b".path")
    }

    /// Returns the value as a path.
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.value.as_deref().unwrap_or_default()))
    }

    /// Returns `NAME` of the key `filter.NAME.clean`.
    fn filter_name(&self) -> Option<&[u8]> {
        let rest = self.key.strip_prefix(b"filter.")?;
        let end = rest.iter().rposition(|&b| b == b'.')?;
        rest.get(..end)
    }
}

/// Returns the settings of git whose keys match a regular expression, in the repository around a directory, and the top of the work tree.
/// Files that the repository's own configuration names outside of the workspace are left out. `None` outside of a repository, or where
/// git fails.
pub(super) fn settings(
    context: &ReadContext<'_>,
    dir: &ResolvedPath,
    keys: &str,
) -> Option<(Vec<Setting>, PathBuf)> {
    let repository =
        Repository::unread(context, GitPlace::around(context, Some(dir)).ok()?).ok()?;
    let mut found = repository.settings(keys, CONFIG_TIME).ok()?;
    found.retain(|setting| repository.may_count(setting));
    Some((found, repository.place.top))
}

/// Returns the file with a name in the user's directory of git's configuration.
pub(super) fn users_file(context: &ReadContext<'_>, name: &str) -> Option<PathBuf> {
    let in_home = || Some(context.variable("HOME")?.join(".config"));
    let config = context.variable("XDG_CONFIG_HOME").or_else(in_home);
    Some(config?.join("git").join(name))
}

/// A repository whose configuration is known, and the program that reads it.
pub(super) struct Repository<'a> {
    context: &'a ReadContext<'a>,
    /// Where it is.
    pub place: GitPlace,
    program: PathBuf,
    /// Settings that replace those of the configuration, besides [`CONFIG`].
    overrides: Vec<(OsString, OsString)>,
    /// `blame.ignoreRevsFile` names a file that git must not read.
    has_foreign_revisions: bool,
}

impl<'a> Repository<'a> {
    /// Reads the configuration of a repository.
    ///
    /// # Errors
    /// git is not installed or failed, or its configuration includes a file outside of the workspace.
    pub fn open(context: &'a ReadContext<'a>, place: GitPlace) -> PathResult<Repository<'a>> {
        let mut repository = Repository::unread(context, place)?;
        let found = repository.settings(KEYS, TIME_LIMIT)?;
        let filters: BTreeSet<&[u8]> = found.iter().filter_map(Setting::filter_name).collect();
        if filters.len() > MAX_FILTERS {
            let reason = format!("more than {MAX_FILTERS} filters are configured");
            return Err(repository.error(reason));
        }
        let without_filters = filters.iter().flat_map(|name| {
            [
                ("clean", ""),
                ("smudge", ""),
                ("process", ""),
                ("required", "false"),
            ]
            .map(|(what, value)| {
                let mut key = OsString::from("filter.");
                key.push(OsStr::from_bytes(name));
                key.push(".");
                key.push(what);
                (key, value.into())
            })
        });
        let files = FILE_SETTINGS.iter();
        let files = files.flat_map(|(key, default)| repository.files(&found, key, default));
        repository.overrides = without_filters.chain(files).collect();
        let is_foreign =
            |setting: &Setting| setting.key == REVISIONS && !repository.may_count(setting);
        repository.has_foreign_revisions = found.iter().any(is_foreign);
        Ok(repository)
    }

    fn unread(context: &'a ReadContext<'a>, place: GitPlace) -> PathResult<Repository<'a>> {
        let program = find_program("git", context)
            .ok_or_else(|| git_error(&place.top, "git is not installed".to_owned()))?;
        Ok(Repository {
            context,
            place,
            program,
            overrides: Vec::new(),
            has_foreign_revisions: false,
        })
    }

    /// Returns an error about this repository.
    pub fn error(&self, reason: String) -> PathError {
        git_error(&self.place.top, reason)
    }

    /// Returns the value of a setting that names a file without those that must not count, if there are any: the last of the others.
    fn files(&self, found: &[Setting], key: &str, default: &str) -> Option<(OsString, OsString)> {
        let found = found.iter().filter(|found| found.key == key.as_bytes());
        let (kept, refused): (Vec<&Setting>, Vec<&Setting>) =
            found.partition(|setting| self.may_count(setting));
        if refused.is_empty() {
            return None;
        }
        let value = match kept.last() {
            Some(setting) => setting.path().to_owned(),
            None => users_file(self.context, default).unwrap_or_default(),
        };
        Some((OsString::from(key), value.into_os_string()))
    }

    /// Whether a setting names no file, or one that git may read: any that the user names, else one of the workspace or the repository.
    fn may_count(&self, setting: &Setting) -> bool {
        let is_file = |(key, _): &(&str, _)| setting.key == key.as_bytes();
        let names_file = setting.key == REVISIONS || FILE_SETTINGS.iter().any(is_file);
        let value = setting.value.as_deref().unwrap_or_default();
        if value.is_empty() || !names_file {
            return true;
        }
        // A relative path of the user leads into the work tree too, where it can be a link.
        let is_absolute = matches!(value.first(), Some(b'/' | b'~' | b'%'));
        !setting.is_own() && is_absolute || self.belongs(&self.place.top, setting)
    }

    /// Whether the file that a setting names, relative to a directory, exists in the workspace or the repository.
    fn belongs(&self, dir: &Path, setting: &Setting) -> bool {
        // `~`, `%(prefix)` and `:(optional)` are replaced by git.
        let has_prefix = matches!(
            setting.value.as_deref(),
            None | Some([] | [b'~' | b'%' | b':', ..])
        );
        let path = dir.join(setting.path());
        !has_prefix && self.place.has_file(self.context.workspace, &path)
    }

    /// Returns the settings whose keys match a regular expression.
    fn settings(&self, keys: &str, time: Duration) -> PathResult<Vec<Setting>> {
        let keys = format!("{REDIRECTIONS}|{keys}");
        let found = self.listed(&["--no-includes"], &keys, time)?;
        let is_elsewhere = |setting: &&Setting| {
            setting.key == b"extensions.refstorage"
                && setting.path().as_os_str().as_bytes().contains(&b':')
        };
        if found.iter().any(|setting| is_elsewhere(&setting)) {
            return Err(self.refused("keeps references in another place, which is not read"));
        }
        if !found.iter().any(Setting::is_include) {
            return Ok(found);
        }
        self.refuse_includes_out(found, time)?;
        self.listed(&["--includes"], &keys, time)
    }

    /// Refuses `git blame` if it would read a file of revisions outside of the workspace.
    pub fn check_revisions(&self) -> PathResult<()> {
        match self.has_foreign_revisions {
            true => Err(self.refused(
                "blame.ignoreRevsFile is missing or outside of the workspace, so git blame is not run; the user can remove that setting",
            )),
            false => Ok(()),
        }
    }

    fn refused(&self, reason: &str) -> PathError {
        let config = self.place.common_dir.join("config");
        PathError::new(PathFault::Invalid, &config, reason)
    }

    /// Refuses a configuration of the repository that includes a file outside of the workspace, also in a file that it includes. Whether the
    /// file exists makes no difference.
    fn refuse_includes_out(&self, found: Vec<Setting>, time: Duration) -> PathResult<()> {
        let mut waiting: Vec<(PathBuf, Setting)> = found
            .into_iter()
            .filter(|setting| setting.is_own() && setting.is_include())
            .map(|setting| match setting.scope.as_slice() {
                b"worktree" => (self.place.git_dir.clone(), setting),
                _ => (self.place.common_dir.clone(), setting),
            })
            .collect();
        let mut seen = BTreeSet::new();
        while let Some((dir, setting)) = waiting.pop() {
            let file = dir.join(setting.path());
            if seen.len() >= MAX_INCLUDES {
                return Err(self.refused("includes too many files, so git is not run"));
            }
            if !self.belongs(&dir, &setting) {
                return Err(self.refused(
                    "includes a file that is missing or outside of the workspace, so git is not run; the user can copy that file's settings into this one and remove include.path",
                ));
            }
            let dir = file.parent().map(Path::to_owned).unwrap_or_default();
            if seen.insert(file.clone()) {
                let file = [
                    "--no-includes".as_ref(),
                    "--file".as_ref(),
                    file.as_os_str(),
                ];
                let nested = self.listed(&file, REDIRECTIONS, time)?;
                let nested = nested.into_iter().filter(Setting::is_include);
                waiting.extend(nested.map(|setting| (dir.clone(), setting)));
            }
        }
        Ok(())
    }

    fn listed(
        &self,
        options: &[impl AsRef<OsStr>],
        keys: &str,
        time: Duration,
    ) -> PathResult<Vec<Setting>> {
        let mut args: Vec<OsString> = ["config", "-z", "--show-scope"].map(OsString::from).into();
        args.extend(options.iter().map(OsString::from));
        args.extend(["--get-regexp", keys].map(OsString::from));
        let output = self.run_within(&args, MAX_CONFIG, time)?;
        // Without a matching key, the exit status is 1, and nothing is written.
        let is_answered = output.success || output.stdout.is_empty() && output.stderr.is_empty();
        if !is_answered || output.is_cut {
            return Err(self.error("git cannot read its configuration".to_owned()));
        }
        let words: Vec<&[u8]> = output.stdout.split(|&b| b == 0).collect();
        let (pairs, _) = words.as_chunks();
        Ok(pairs.iter().map(Setting::new).collect())
    }

    /// Runs git. `bytes` is the maximum size of its output.
    pub fn run(&self, args: &[OsString], bytes: usize) -> PathResult<ProgramOutput> {
        self.run_within(args, bytes, TIME_LIMIT)
    }

    fn run_within(
        &self,
        args: &[OsString],
        bytes: usize,
        time: Duration,
    ) -> PathResult<ProgramOutput> {
        let mut command = scrubbed(&self.program, self.context.variables);
        let is_foreign = |name: &OsStr| name.as_bytes().starts_with(b"GIT_");
        for (name, _) in self.context.variables {
            if is_foreign(name) {
                command.env_remove(name);
            }
        }
        command
            .args(["--no-pager", "--no-optional-locks"])
            .args(args)
            .envs(ENVIRONMENT.iter().copied())
            // `core.worktree` could name any directory, and git would go on to a repository above an invalid one.
            .env("GIT_DIR", &self.place.git_dir)
            .env("GIT_COMMON_DIR", &self.place.common_dir)
            .env("GIT_WORK_TREE", &self.place.top)
            .current_dir(&self.place.top);
        self.set_config(&mut command);
        let limits = RunLimits {
            time,
            bytes,
            cancelled: self.context.cancelled,
        };
        run(command, limits).map_err(|reason| self.error(format!("git {reason}")))
    }

    /// Passes the configuration in variables: unlike `-c`, they take any name of a filter.
    fn set_config(&self, command: &mut Command) {
        let plain = CONFIG
            .iter()
            .map(|(key, value)| (OsStr::new(key), OsStr::new(value)));
        let overrides = self.overrides.iter();
        let overrides = overrides.map(|(key, value)| (key.as_os_str(), value.as_os_str()));
        let mut count = 0;
        for (key, value) in plain.chain(overrides) {
            command.env(format!("GIT_CONFIG_KEY_{count}"), key);
            command.env(format!("GIT_CONFIG_VALUE_{count}"), value);
            count += 1;
        }
        command.env("GIT_CONFIG_COUNT", count.to_string());
    }
}

fn git_error(top: &Path, reason: String) -> PathError {
    PathError::new(PathFault::System, top, &reason)
}
