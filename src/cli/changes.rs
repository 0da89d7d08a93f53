//! `aish-helper changes`: shows and undoes the changes that tools made to files.

use super::args::{ChangesCommand, ChangesPlace};
use super::{print, print_json, print_styled};
use crate::client::approve::layout::difference_lines;
use crate::client::connect;
use crate::error::{Error, ErrorKind, Result};
use crate::paths::Paths;
use crate::protocol::{
    ChangedFile, ChangesAction, ChangesReply, ChangesRequest, FileOutcome, Request,
};
use crate::safety::text::one_line;

/// Longest path in a line, in columns.
const PATH_COLUMNS: usize = 300;

/// The line about what cannot be undone.
const COMMANDS_RAN: &str =
    "commands of this prompt may have changed files too; their changes are not kept\n";

/// The line about files that were skipped twice.
const GIVEN_UP: &str = "these files stay as they are; their kept copies were dropped\n";

/// Runs the command and returns the exit code.
///
/// # Errors
/// Nothing was changed, or a file cannot be restored.
pub fn run(paths: &Paths, command: ChangesCommand) -> Result<u8> {
    match command {
        ChangesCommand::Undo(args) => {
            let skip = args.skip;
            let reply = ask(paths, args.place, ChangesAction::Undo { skip })?;
            if args.json {
                print_json(&reply)?;
            } else {
                for file in &reply.files {
                    print(&format!("{}\n", line(file, reply.is_done)))?;
                }
                if reply.ran_commands {
                    print(COMMANDS_RAN)?;
                }
                if reply.is_done && reply.was_skipped && is_kept(&reply) {
                    print(GIVEN_UP)?;
                }
            }
            match reply.is_done {
                true => Ok(0),
                false if skip => Err(Error::runtime(
                    "nothing was undone: none of the files can be restored",
                )
                .hint("their changes stay undoable: llm :undo and llm :diff come back to them after the other prompts")),
                false if reply.was_skipped => Err(Error::runtime(
                    "nothing was undone: only files that --skip has kept are left, and one cannot be restored",
                )
                .hint("--skip restores the others; if there are none, it drops the kept copies of these files")),
                false => Err(Error::new(
                    ErrorKind::Runtime,
                    "nothing was undone: a file cannot be restored",
                )
                .hint("with --skip such files stay as they are and the others are restored")),
            }
        }
        ChangesCommand::Diff(args) => {
            let reply = ask(paths, args.place, ChangesAction::Diff)?;
            match args.json {
                true => print_json(&reply)?,
                false => print_styled(&difference_lines(&reply.difference))?,
            }
            Ok(0)
        }
    }
}

/// Whether the undo has kept files and changed none.
fn is_kept(reply: &ChangesReply) -> bool {
    let has = |is_one: fn(&FileOutcome) -> bool| {
        let mut files = reply.files.iter();
        files.any(|file| is_one(&file.outcome))
    };
    has(|one| matches!(one, FileOutcome::Changed(_)))
        && !has(|one| matches!(one, FileOutcome::Restored | FileOutcome::Removed))
}

fn ask(paths: &Paths, place: ChangesPlace, action: ChangesAction) -> Result<ChangesReply> {
    let request = ChangesRequest {
        session: place.session,
        shell: place.shell,
        cwd: super::call::current_directory(),
        action,
    };
    connect::request(paths, &Request::Changes(request))
}

fn line(file: &ChangedFile, is_done: bool) -> String {
    let path = one_line(&file.path, PATH_COLUMNS);
    match &file.outcome {
        FileOutcome::Restored if is_done => format!("restored  {path}"),
        FileOutcome::Restored => format!("would be restored  {path}"),
        FileOutcome::Removed if is_done => format!("removed  {path}"),
        FileOutcome::Removed => format!("would be removed  {path}"),
        FileOutcome::Same => format!("as before  {path}"),
        FileOutcome::Changed(reason) => format!("kept  {path}: {}", one_line(reason, 200)),
    }
}
