//! The files that a command of a git setting may run or read.
//!
//! A word that may name a file counts as one, however it is written: one that is not a file does no harm, and a file that is guarded without
//! need can be changed with a question.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::implied_files::ImpliedFiles;
use super::planned_files::PlannedFiles;
use crate::safety::protected_paths::{ANY, PathUse, Variables, command_paths};

/// Maximum number of directories among the words of a command from which other words may start.
const MAX_BASES: usize = 16;

/// Maximum number of entries of a directory that are compared with a pattern.
const MAX_ENTRIES: usize = 20_000;

/// Signs that are hardly in the name of a script, but in a text with more than a name.
const NOT_IN_NAMES: [char; 10] = ['"', '\'', '$', ';', '|', '&', '<', '>', '%', '\n'];

/// What the words of a command may name. `*`, `?`, lists of characters and [`ANY`] stand for texts that are not known.
#[derive(Debug, Default)]
pub(super) struct CommandNames {
    /// Absolute paths, and those from a directory in which the command may run.
    paths: BTreeSet<String>,
    /// Directories from which other words may start, behind a beginning that is not known.
    directories: BTreeSet<String>,
    /// Directories of which a program runs every file.
    run_directories: BTreeSet<String>,
    /// Ends of paths whose beginning is not known.
    pub ends: BTreeSet<String>,
}

impl CommandNames {
    pub(super) fn of(command: &str, home: Option<&Path>) -> CommandNames {
        let home = home.map(|home| home.display().to_string());
        let variables = Variables {
            home: home.unwrap_or_else(|| format!("/{ANY}")),
            ..Variables::default()
        };
        let candidates = command_paths(command.trim_start_matches('!'), &variables);
        let is_entered = candidates
            .iter()
            .any(|one| one.usage == PathUse::Directory && one.path.contains(ANY));
        let mut names = CommandNames::default();
        let words = candidates.into_iter().map(|one| one.path);
        for word in words.chain(pieces(command)) {
            names.add(&word, is_entered);
        }
        let implied = ImpliedFiles::of(command);
        for word in &implied.paths {
            names.add(word, is_entered);
        }
        names.run_directories = implied.directories;
        names
    }

    /// Adds a word. `is_entered` is whether the command enters a directory that is not known.
    fn add(&mut self, word: &str, is_entered: bool) {
        let parts = plain_parts(word);
        let unknown = parts.iter().rposition(|part| part.contains(ANY));
        // Names without a dot are mostly those of programs.
        let is_name = word.contains('.') || parts.len() > 1;
        let is_relative = !word.starts_with('/');
        let end = match unknown {
            Some(at) if at + 1 < parts.len() => parts.get(at + 1..),
            None if is_entered && is_relative && is_name => Some(parts.as_slice()),
            _ => None,
        };
        let end = end.map(without_parents).unwrap_or_default();
        match end.as_slice() {
            [] => {}
            // All files with one ending would be too many.
            [name] if is_pattern(name) => drop(self.paths.insert((*name).to_owned())),
            end if end.iter().any(|part| part.contains(NOT_IN_NAMES)) => {}
            end => drop(self.ends.insert(end.join("/"))),
        }
        let says_something = |part: &&str| part.chars().any(|c| !is_meta(c) && c != '.');
        if unknown.is_none_or(|at| at + 1 == parts.len()) && parts.iter().any(says_something) {
            let start = if is_relative || unknown == Some(0) {
                ""
            } else {
                "/"
            };
            self.paths.insert(format!("{start}{}", parts.join("/")));
        }
        // The unknown beginning of `$PWD/tools/$1` is mostly the directory in which the command runs.
        if let [first, next, others @ ..] = parts.as_slice() {
            let is_unknown = first.chars().all(|c| c == ANY) && !is_pattern(next);
            let rest = || without_parents(parts.get(1..).unwrap_or_default()).join("/");
            if is_unknown && !others.is_empty() && unknown == Some(parts.len() - 1) {
                self.paths.insert(rest());
            } else if is_unknown
                && unknown == Some(0)
                && !others.iter().any(|part| is_pattern(part))
            {
                self.directories.insert(rest());
            }
        }
    }

    /// Returns the files that the words name from these directories, and from those among the words, and the directories of which a
    /// program runs every file.
    pub(super) fn files(&self, bases: &[&Path], planned: &PlannedFiles) -> Vec<PathBuf> {
        let mut bases: Vec<PathBuf> = bases.iter().map(|base| (*base).to_owned()).collect();
        let (mut found, mut at) = (Vec::new(), 0);
        let limit = bases.len() + MAX_BASES;
        while let Some(base) = bases.get(at).cloned() {
            at += 1;
            for name in &self.paths {
                if is_pattern(name) {
                    found.extend(files_at(&base, name, planned));
                    continue;
                }
                let path = base.join(name);
                match planned.real_path(&path) {
                    Some(real) if planned.is_file(&real) => found.push(real),
                    Some(_) if bases.len() < limit && !bases.contains(&path) => {
                        bases.push(path);
                    }
                    _ => {}
                }
            }
            for name in &self.directories {
                let path = base.join(name);
                let real = planned
                    .real_path(&path)
                    .filter(|real| !planned.is_file(real));
                if real.is_some() && bases.len() < limit && !bases.contains(&path) {
                    bases.push(path);
                }
            }
            let dirs = self.run_directories.iter().map(|name| base.join(name));
            let dirs = dirs.filter_map(|dir| planned.real_path(&dir));
            found.extend(dirs.filter(|dir| !planned.is_file(dir) && !base.starts_with(dir)));
        }
        found
    }
}

/// Returns the real paths of the files that a name means from a directory, if any.
pub(super) fn files_at(base: &Path, name: &str, planned: &PlannedFiles) -> Vec<PathBuf> {
    let mut found = vec![match name.starts_with('/') {
        true => PathBuf::from("/"),
        false => base.to_owned(),
    }];
    for part in plain_parts(name) {
        let matches = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default();
            may_match(part, &name.to_string_lossy())
        };
        let entries = |dir: &PathBuf| {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).take(MAX_ENTRIES)
        };
        found = match is_pattern(part) {
            true => {
                // No limit leaves out the files that are about to be written.
                let new = found.iter().flat_map(|dir| planned.entries(dir));
                let new: BTreeSet<PathBuf> = new.filter(matches).collect();
                let others = found.iter().flat_map(entries).filter(matches);
                new.into_iter().chain(others.take(MAX_ENTRIES)).collect()
            }
            false => found.iter().map(|dir| dir.join(part)).collect(),
        };
    }
    let real = found.iter().filter_map(|path| planned.real_path(path));
    real.filter(|path| planned.is_file(path)).collect()
}

/// Whether a path ends like this.
pub(super) fn has_end(path: &Path, end: &str) -> bool {
    let mut names = path.iter().rev().map(|name| name.to_string_lossy());
    plain_parts(end).iter().rev().all(|part| {
        let name = names.next();
        name.is_some_and(|name| *name == **part || is_pattern(part) && may_match(part, &name))
    })
}

/// Returns the components of a path from an unknown directory without `..`.
fn without_parents<'a>(parts: &[&'a str]) -> Vec<&'a str> {
    let mut plain = Vec::new();
    for part in parts {
        match *part {
            ".." => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// Returns the components of a path without those that mean the same directory.
fn plain_parts(path: &str) -> Vec<&str> {
    path.split('/')
        .filter(|part| !matches!(*part, "" | "."))
        .collect()
}

/// Returns the parts of a text between signs that may surround a name, because a word may hold a command or a text of its own.
fn pieces(command: &str) -> Vec<String> {
    let signs = " \t\n!;&|()=<>`{}:,@$";
    let plain = command.split(|c| signs.contains(c) || "\"'".contains(c));
    let quoted = command.split(['"', '\'']);
    let bare = command.replace(['"', '\''], "");
    let bare = bare.split(|c| signs.contains(c));
    let pieces = plain.chain(quoted).chain(bare);
    // The value of an option may follow its letter.
    let pieces = pieces.flat_map(|piece| {
        let value = piece.strip_prefix('-').map(|option| option.get(1..));
        value.unwrap_or(Some(piece))
    });
    pieces.map(str::to_owned).collect()
}

fn is_meta(c: char) -> bool {
    matches!(c, ANY | '*' | '?' | '[' | ']')
}

fn is_pattern(name: &str) -> bool {
    name.contains(is_meta)
}

/// Whether a pattern may match a name: its beginning and its end do.
fn may_match(pattern: &str, name: &str) -> bool {
    let start = pattern.split(is_meta).next().unwrap_or_default();
    let end = pattern.rsplit(is_meta).next().unwrap_or_default();
    let fits = name.len() >= start.len().max(end.len());
    pattern == name || fits && name.starts_with(start) && name.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::places::Places;

    /// Returns what is guarded in a workspace with these files and settings of git, without the settings themselves.
    fn guarded(config: &str, files: &[&str]) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for name in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::write(root.join(".git/config"), config).unwrap();
        let dirs = [root.clone()];
        let places = Places::find(&dirs, None, &[]).to_guard(&dirs);
        let names = places.iter().map(|path| path.strip_prefix(&root).unwrap());
        let mut names: Vec<String> = names.map(|name| name.display().to_string()).collect();
        names.retain(|name| name != ".git/config");
        names.sort();
        names
    }

    #[test]
    fn a_file_is_guarded_however_a_setting_names_it() {
        for (setting, expected) in [
            (r"a = !./t\\ t.sh", "t t.sh"),
            (r#"a = "!\"./t t.sh\"""#, "t t.sh"),
            (r#"a = "!sh $(git rev-parse --git-dir)/../b.sh""#, "b.sh"),
            (r#"a = "!sh ${PWD%/}/b.sh""#, "b.sh"),
            (r#"a = "!sh `pwd`/b.sh""#, "b.sh"),
            (r#"a = "!sh $GIT_PREFIX/b.sh""#, "b.sh"),
            (r#"a = "!sh \"$root\"/b.sh""#, "deep/b.sh"),
            (
                r#"a = "!sh $(git rev-parse --show-toplevel)/deep/b.sh""#,
                "deep/b.sh",
            ),
            (
                r#"a = "!sh \"$(git rev-parse --show-toplevel)\"/deep/b.sh""#,
                "deep/b.sh",
            ),
            (r#"a = "!cd \"$GIT_PREFIX\" && sh b.sh""#, "deep/b.sh"),
            (r#"a = "!cd deep && sh b.sh""#, "deep/b.sh"),
            (r#"a = "!sh -c 'd=deep; . \"$d/b.sh\"'""#, "deep/b.sh"),
            (r#"a = "!bash -c \"sh 't t.sh'\"""#, "t t.sh"),
            (r#"a = "!python -c 'exec(open(\"b.sh\").read())'""#, "b.sh"),
            (r#"a = "!for f in deep/*.sh; do sh $f; done""#, "deep/b.sh"),
            (r#"a = "!sh deep/$1.sh""#, "deep/b.sh"),
            (r#"a = "!sh deep/{a,b}.sh""#, "deep/b.sh"),
            (r#"a = "!echo\nsh b.sh""#, "b.sh"),
            (r"a = !ssh -Fb.sh host", "b.sh"),
            (r"a = -c core.pager=deep/b.sh log", "deep/b.sh"),
            (r"a = difftool --extcmd=deep/b.sh", "deep/b.sh"),
        ] {
            let files = ["b.sh", "deep/b.sh", "t t.sh", "other.py"];
            let names = guarded(&format!("[alias]\n\t{setting}\n"), &files);
            let is_found = names.iter().any(|name| name == expected);
            assert!(is_found, "{setting}: {names:?}");
            assert!(
                !names.contains(&"other.py".to_owned()),
                "{setting}: {names:?}"
            );
        }
    }

    #[test]
    fn what_a_program_runs_without_its_name_is_guarded() {
        for (setting, expected) in [
            ("make -s clean", &["Makefile"][..]),
            ("make -C sub", &["Makefile", "sub/Makefile"]),
            ("make -C $PWD/sub", &["Makefile", "sub/Makefile"]),
            (
                "make -C \\\"$(git rev-parse --show-toplevel)/sub\\\"",
                &["Makefile", "sub/Makefile"],
            ),
            (
                "cd \\\"$(git rev-parse --show-toplevel)/sub\\\" && make",
                &["Makefile", "sub/Makefile"],
            ),
            ("cd \\\"$PWD/sub\\\" && make", &["Makefile", "sub/Makefile"]),
            ("/usr/bin/env make", &["Makefile"]),
            ("env -i -u X A=b make", &["Makefile"]),
            ("timeout -k 3 5 make", &["Makefile"]),
            ("nice -n 5 make", &["Makefile"]),
            ("sudo -E -u me make", &["Makefile"]),
            ("time -p make", &["Makefile"]),
            ("stdbuf -oL make", &["Makefile"]),
            ("sh -ec make", &["Makefile"]),
            ("bash -o pipefail -c 'npm test'", &["package.json"]),
            ("eval make", &["Makefile"]),
            ("watch -n 2 make", &["Makefile"]),
            ("direnv exec . make", &["Makefile"]),
            ("xargs -n 1 timeout 5 make", &["Makefile"]),
            ("x $(timeout 5 make)", &["Makefile"]),
            ("if nice make; then :; fi", &["Makefile"]),
            ("timeout 5 cat make", &[]),
            ("sudo -u make true", &[]),
            ("ssh host make", &[]),
            ("sh -c 'exec make clean'", &["Makefile"]),
            ("X=1 npm run f", &["package.json"]),
            ("python3 -m m", &["m/__main__.py"]),
            ("python3 -mm", &["m/__main__.py"]),
            ("python3 m", &["m/__main__.py"]),
            (
                "python3 \\\"$(git rev-parse --show-toplevel)/m\\\"",
                &["m/__main__.py"],
            ),
            ("node sub", &["sub/index.js"]),
            ("node \\\"$PWD/sub\\\"", &["sub/index.js"]),
            ("node m/a", &["m/a.js"]),
            ("PERL5LIB=lib perl -MA::B=c -e 1", &["lib/A/B.pm"]),
            ("RUBYLIB=lib ruby -ra -e 1", &["lib/a.rb"]),
            (
                "git --exec-path=\\\"$PWD/bin\\\" tool",
                &["bin/git-tool", "bin/tool"],
            ),
            ("GIT_EXEC_PATH=bin git tool", &["bin/git-tool", "bin/tool"]),
            ("git -c core.hooksPath=sub commit", &["sub"]),
            ("git -c \\\"core.hooksPath=$PWD/sub\\\" commit", &["sub"]),
            ("git -c core.hooksPath=. commit", &[]),
            ("bundle exec make", &["Makefile"]),
            ("PATH=$PWD/bin:$PATH tool", &["bin/tool"]),
            ("export PATH='${PWD}/bin:$PATH'; tool x", &["bin/tool"]),
            ("env PATH=./bin:$PATH tool", &["bin/tool"]),
            (
                "PATH=$PATH:$(git rev-parse --show-toplevel)/bin tool",
                &["bin/tool"],
            ),
            ("PATH=$PATH:/opt/bin tool", &[]),
            ("run-parts sub", &["sub"]),
            ("run-parts \\\"$PWD/sub\\\"", &["sub"]),
            ("cd sub && run-parts parts", &["sub/parts"]),
            ("git commit -m make", &[]),
            ("black sub", &[]),
        ] {
            let files = [
                "Makefile",
                "bin/git-tool",
                "bin/other",
                "bin/tool",
                "lib/A/B.pm",
                "lib/a.rb",
                "m/a.js",
                "m/__main__.py",
                "m/other.py",
                "package.json",
                "sub/Makefile",
                "sub/index.js",
                "sub/parts/a",
            ];
            let config = format!("[filter \"f\"]\n\tclean = \"{setting}\"\n");
            assert_eq!(guarded(&config, &files), expected, "{setting}");
        }
        // Packages are not kept unchanged, so that they can be installed, but changes are reported.
        let implied = ImpliedFiles::of("npx --no p");
        assert!(implied.paths.contains("node_modules/.bin/p"));
    }

    #[test]
    fn a_program_that_gets_an_unknown_name_guards_nothing() {
        for setting in [
            r#"a = "!node \"$1\"""#,
            r#"a = "!python3 $x -m $(cat y)""#,
            r#"a = "!run-parts \"$PWD\"""#,
            r#"a = "!git -c core.hooksPath=$PWD commit""#,
            r#"a = "!cd \"$root\" && git log src""#,
        ] {
            let files = ["__main__.py", "m/__main__.py", "n.js", "src/index.js"];
            let names = guarded(&format!("[alias]\n\t{setting}\n"), &files);
            assert_eq!(names, Vec::<String>::new(), "{setting}");
        }
    }

    #[test]
    fn settings_that_name_no_file_guard_none() {
        let config = r#"
[alias]
    amend = commit --amend --no-edit
    co = checkout
    edit = "!$EDITOR $(git diff --name-only)"
    e = !vim .git/COMMIT_EDITMSG
    gone = "!git branch --merged | grep -v '\\*\\|main' | xargs -n 1 git branch -d"
    last = log -1 HEAD
    lg = log --graph --pretty=format:'%C(auto)%h %s %d' --abbrev-commit
    new = "!git checkout -b \"$1\" origin/main && :"
    of = "!f() { git log -S\"$1\" -- \"${2:-.}\"; }; f"
    pub = "!git push -u origin $(git branch --show-current)"
    refs = for-each-ref --format='%(refname:short)' 'refs/heads/*'
    root = !git rev-parse --show-toplevel
    marks = "!git grep -n NOTE -- '*.rs'"
    undo = !git reset HEAD^
    unstage = reset HEAD --
    up = "!cd ${GIT_PREFIX:-.} && git pull --rebase && git submodule update"
    x = "!cat $(git rev-parse --git-dir)/HEAD"
[core]
    editor = code --wait
    pager = delta --side-by-side
[credential]
    helper = cache --timeout=3600
[filter "lfs"]
    clean = git-lfs clean -- %f
    process = git-lfs filter-process
[mergetool "meld"]
    cmd = meld "$LOCAL" "$BASE" "$REMOTE" --output "$MERGED"
[diff "pdf"]
    textconv = pdftotext -layout
"#;
        let files = [
            ".git/COMMIT_EDITMSG",
            ".git/HEAD",
            ".git/index",
            ".git/refs/heads/main",
            "Makefile",
            "README.md",
            "docs/index.md",
            "headers.h",
            "main/lib.rs",
            "src/main.rs",
        ];
        assert_eq!(guarded(config, &files), Vec::<String>::new());
    }
}
