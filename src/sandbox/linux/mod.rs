//! The sandbox of Linux: supervisor and inner stages.
//!
//! With namespaces, the supervisor starts the stage `namespaces`, which starts `first`, the first process of the process
//! namespace; that starts the command. The kernel ends all processes of the namespace together with `first`. Without
//! namespaces, the supervisor starts the stage `plain`, which becomes the command, and traces it.

mod descriptors;
mod landlock_rules;
mod limits;
mod metadata_calls;
mod mount_table;
mod namespaces;
mod private_tmp;
mod stages;
mod supervision;
mod syscall_filter;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::fcntl::OFlag;
use nix::unistd::{Uid, User, close, pipe2};

use self::private_tmp::PrivateTmp;
use self::supervision::{Supervision, SupervisionEnd};
use super::guarded_files::GuardedFiles;
use super::home_files::{LINK_DEPTH, is_helper, is_of_shell};
use super::links;
use super::path_rules::PathRules;
use super::policy::{SandboxLevel, SandboxPolicy};
use super::secret_places::{is_profile, secrets_of};
use super::{SandboxInvocation, SandboxOutcome, SandboxStage, SandboxSupport};
use crate::error::{Error, ErrorContext, Result};

/// This program, also after its file was replaced.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// What the kernel shows of itself and of other processes; no project is there.
const SYSTEM_VIEWS: &[&str] = &["/dev", "/proc", "/sys"];

/// Runs the supervisor or an inner stage.
///
/// # Errors
/// The sandbox cannot be built; the command has not run.
pub(super) fn run(invocation: SandboxInvocation) -> Result<SandboxOutcome> {
    match invocation.stage {
        Some(stage) => stages::run(stage, invocation),
        None => Supervisor::prepare(invocation)?.run(),
    }
}

/// Removes private directories whose sandbox was killed before it could remove them.
pub(super) fn remove_abandoned() {
    private_tmp::remove_abandoned(&std::env::temp_dir());
}

/// The process outside the sandbox.
struct Supervisor {
    invocation: SandboxInvocation,
    working_directory: PathBuf,
    tmp: PrivateTmp,
    guarded: GuardedFiles,
}

impl Supervisor {
    fn prepare(mut invocation: SandboxInvocation) -> Result<Supervisor> {
        descriptors::close_inherited(invocation.policy.keep_fd)?;
        descriptors::refuse_unsafe()?;
        let policy = &mut invocation.policy;
        resolve_paths(policy)?;
        let rules = PathRules::new(policy);
        // A directory of programs is readable, unless something below it is not.
        let programs = invocation.programs.iter();
        let programs: Vec<PathBuf> = programs
            .filter_map(|dir| dir.canonicalize().ok())
            .filter(|dir| !rules.may_read(dir) && !rules.hides_below(dir))
            .filter(|dir| {
                policy
                    .home
                    .as_ref()
                    .is_none_or(|home| !home.starts_with(dir))
            })
            .collect();
        policy.read.extend(programs);
        check_workspace(policy)?;
        let tmp = PrivateTmp::create()?;
        policy.private_tmp = Some(tmp.path().to_owned());
        let guarded = match policy.level {
            SandboxLevel::Workspace => {
                let programs = invocation.programs.clone();
                GuardedFiles::read(writable_dirs(policy), policy.home.clone(), programs)
            }
            SandboxLevel::ReadOnly => GuardedFiles::default(),
        };
        policy.guarded = guarded.to_guard();
        policy.guarded.extend(own_program());
        // Never another one: relative paths of the command would mean other files. What the policy does not open there is denied.
        let working_directory =
            std::env::current_dir().context(|| "cannot find the working directory".into())?;
        Ok(Supervisor {
            invocation,
            working_directory,
            tmp,
            guarded,
        })
    }

    fn run(self) -> Result<SandboxOutcome> {
        let policy = &self.invocation.policy;
        let wanted = match policy.namespaces {
            true => namespaces::disabled_reason(),
            false => Some(Error::runtime("turned off")),
        };
        let (end, without_namespaces) = match wanted {
            None => match self.supervise(SandboxStage::Namespaces)? {
                Ok(end) => (end, None),
                Err(reason) => (self.supervise_plain()?, Some(reason.message)),
            },
            Some(reason) => (self.supervise_plain()?, Some(reason.message)),
        };
        let mut notices = end.notices;
        notices.extend(self.guarded.changes());
        Ok(SandboxOutcome {
            code: end.code,
            notices,
            support: SandboxSupport {
                landlock_abi: end.landlock_abi,
                seccomp: true,
                policy_us: end.policy_us,
                namespaces: without_namespaces.is_none(),
                without_namespaces,
            },
        })
    }

    /// Runs the command without namespaces: no mount protects aish's own program, which hooks of shells run meanwhile, from being
    /// replaced.
    fn supervise_plain(&self) -> Result<SupervisionEnd> {
        let dirs = writable_dirs(&self.invocation.policy);
        let own = own_program().filter(|own| dirs.iter().any(|dir| own.starts_with(dir)));
        match own {
            Some(own) => Err(Error::usage(format!(
                "{} is aish's own program, which cannot be protected in a workspace without namespaces",
                own.display()
            ))
            .hint("use another directory as the workspace, or move the program out of it")),
            None => self.supervise(SandboxStage::Plain)?,
        }
    }

    /// Starts a stage and waits for its end. The inner error is what the stage reports instead of a sandbox.
    fn supervise(&self, stage: SandboxStage) -> Result<Result<SupervisionEnd>> {
        let (status, child_end) =
            pipe2(OFlag::O_CLOEXEC).context(|| "cannot create a pipe".into())?;
        let mut command = stage_command(&self.invocation, stage, child_end.as_raw_fd());
        descriptors::inherit(&child_end)?;
        command.current_dir(&self.working_directory);
        command.env_clear().envs(self.environment());
        if stage == SandboxStage::Namespaces {
            // Ctrl-C must reach the command once, through this process.
            command.process_group(0);
        }
        let mut supervision = Supervision::start(&mut command, Some(File::from(status)))?;
        drop(child_end);
        if stage == SandboxStage::Plain {
            supervision.watch(&self.tmp, &self.invocation.policy);
        }
        // With namespaces the kernel ends the tree, but not before the stage is gone that was killed.
        supervision.run(true)
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut environment = self.invocation.environment.clone();
        let tmp = self.tmp.path();
        environment.extend([
            ("TMPDIR".into(), tmp.into()),
            // zsh writes here-documents there.
            ("TMPPREFIX".into(), tmp.join("zsh").into()),
            ("XDG_CACHE_HOME".into(), tmp.join("cache").into()),
        ]);
        // The variables of the policy are for the command alone: LD_PRELOAD would run code in a stage that is not restricted yet.
        environment
    }
}

/// Returns the file of this program, which runs again outside of the sandbox.
fn own_program() -> Option<PathBuf> {
    std::env::current_exe().ok()?.canonicalize().ok()
}

/// Returns the directories that the command may change.
fn writable_dirs(policy: &SandboxPolicy) -> Vec<PathBuf> {
    match policy.level {
        SandboxLevel::ReadOnly => Vec::new(),
        SandboxLevel::Workspace => policy.write.iter().chain([&policy.dir]).cloned().collect(),
    }
}

/// Makes every path absolute and free of symlinks.
fn resolve_paths(policy: &mut SandboxPolicy) -> Result<()> {
    let resolve = |path: &Path| {
        path.canonicalize()
            .context(|| format!("cannot open {}", path.display()))
    };
    policy.dir = resolve(&policy.dir)?;
    let opened = policy.write.iter_mut().chain(&mut policy.read);
    for path in opened.chain(&mut policy.shown) {
        *path = resolve(path)?;
    }
    let of_user = User::from_uid(Uid::current()).ok().flatten();
    let of_user = of_user.map(|user| user.dir.canonicalize().unwrap_or(user.dir));
    let home = policy.home.take();
    let home = home.map(|home| home.canonicalize().unwrap_or(home));
    policy.home = home.or_else(|| of_user.clone());
    // What may be elsewhere: the real home directory if HOME names another one, and profiles with other names.
    let real_home = of_user.filter(|dir| policy.home.as_ref() != Some(dir));
    let mut secrets: Vec<PathBuf> = real_home.iter().flat_map(|dir| secrets_of(dir)).collect();
    for home in real_home.iter().chain(&policy.home) {
        let entries = fs::read_dir(home.join(".config")).into_iter().flatten();
        let profiles = entries.flatten().map(|entry| entry.path());
        secrets.extend(profiles.filter(|path| {
            let name = path.file_name().map(|name| name.to_string_lossy());
            name.is_some_and(|name| is_profile(&name))
        }));
    }
    secrets.retain(|path| path.symlink_metadata().is_ok());
    policy.hidden.extend(secrets);
    // Go itself may be unpacked there; otherwise it holds the user's projects.
    let go = policy.home.as_deref().map(|home| home.join("go"));
    if let Some(go) = go.filter(|go| go.join("VERSION").is_file()) {
        policy.read.push(go);
    }
    let linked = linked_secrets(policy, real_home.as_ref());
    policy.hidden.extend(linked);
    Ok(())
}

/// Returns the paths that exist. Most of what is hidden does not, and following each of its directories would take longer.
fn existing<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> impl Iterator<Item = &'a PathBuf> {
    let paths = paths.into_iter();
    paths.filter(|path| path.symlink_metadata().is_ok())
}

/// Returns the targets of symlinks in the place of secrets, and of symlinks in their directories that lead into opened paths.
fn linked_secrets(policy: &SandboxPolicy, real_home: Option<&PathBuf>) -> BTreeSet<PathBuf> {
    let writable = writable_dirs(policy);
    let own = [&policy.dir].into_iter().chain(&policy.write);
    let opened: Vec<&PathBuf> = own.chain(&policy.read).collect();
    let mut found = BTreeSet::new();
    for path in existing(&PathRules::new(policy).hidden) {
        // That of HOME, or of the user database.
        let mut homes = policy.home.iter().chain(real_home);
        let below = homes.find_map(|home| path.strip_prefix(home).ok());
        let is_startup = is_of_shell(below.unwrap_or(path));
        let real = path.canonicalize().ok().filter(|real| real != path);
        // Among dotfiles that are worked on, start-up files are guarded and not hidden: a directory of which something is hidden
        // gets no new files.
        let is_worked_on =
            |real: &PathBuf| is_startup && writable.iter().any(|dir| real.starts_with(dir));
        found.extend(real.filter(|real| !is_worked_on(real)));
        let linked = links::targets(path, LINK_DEPTH).into_iter();
        found.extend(linked.filter(|real| {
            let is_below = |dir: &&PathBuf| real != *dir && real.starts_with(dir);
            opened.iter().any(is_below) && !is_helper(real) && !is_worked_on(real)
        }));
    }
    found
}

/// Refuses workspaces that a sandbox cannot protect.
fn check_workspace(policy: &SandboxPolicy) -> Result<()> {
    let rules = PathRules::new(policy);
    for dir in policy.write.iter().chain([&policy.dir]) {
        if rules.is_hidden(dir) {
            return Err(Error::usage(format!(
                "{} holds secrets and is not readable in the sandbox",
                dir.display()
            )));
        }
        if dir.parent().is_none() || SYSTEM_VIEWS.iter().any(|view| dir.starts_with(view)) {
            return Err(Error::usage(format!(
                "{} cannot be the workspace of a sandbox",
                dir.display()
            ))
            .hint("use the directory of a project: start there, or name it with --dir"));
        }
        let is_above_home = policy
            .home
            .as_ref()
            .is_some_and(|home| home.starts_with(dir));
        if policy.level == SandboxLevel::Workspace && is_above_home {
            return Err(Error::usage(format!(
                "{} cannot be writable in the sandbox: it holds your home directory",
                dir.display()
            ))
            .hint("use a directory below it: start there, or name it with --dir; --level read-only reads all of it"));
        }
        if !dir.is_dir() {
            return Err(Error::usage(format!(
                "{} is not a directory",
                dir.display()
            )));
        }
    }
    Ok(())
}

/// Returns the path of this program, if its file was not replaced.
fn unchanged_program() -> Option<PathBuf> {
    let path = own_program()?;
    let own = fs::metadata(OWN_PROGRAM).ok()?;
    let file = fs::metadata(&path).ok()?;
    ((own.dev(), own.ino()) == (file.dev(), file.ino())).then_some(path)
}

/// Returns the command that runs an inner stage.
fn stage_command(invocation: &SandboxInvocation, stage: SandboxStage, status_fd: i32) -> Command {
    // By its path: the file is then that of the mounts of this process, where it is read-only. `/proc/PID/exe` leads there.
    let program = unchanged_program().unwrap_or_else(|| OWN_PROGRAM.into());
    let mut command = Command::new(program);
    command
        .arg0("aish-helper")
        .arg("sandbox")
        .args(invocation.policy.options())
        .arg(format!("--stage={}", stage.as_str()))
        .arg(format!("--status-fd={status_fd}"));
    if invocation.command.is_empty() {
        command.arg("--trial");
    } else {
        command.arg("--").args(&invocation.command);
    }
    command
}

/// Closes a descriptor that only the command uses.
fn close_kept(policy: &SandboxPolicy) {
    if let Some(fd) = policy.keep_fd {
        // It may not have been open.
        let _ = close(fd);
    }
}
