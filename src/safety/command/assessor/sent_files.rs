//! Private files that a program sends, and copies of them.

use super::downloads::{file_name, is_remote};
use super::{Assessor, Redirection, ScriptFacts};
use crate::safety::command::class::CommandClass::Destroys;
use crate::safety::command::special::SENDS_SECRET;
use crate::safety::command::targets::is_private;

/// Programs that put a copy of a file into the one that they name last.
const COPYING: [&str; 6] = ["cp", "mv", "install", "ln", "gcp", "gmv"];

/// Programs that put files into the one that they name before them, or in an option.
const PACKING: [&str; 12] = [
    "7z", "7za", "7zz", "age", "bsdtar", "gpg", "gpg2", "gtar", "openssl", "rar", "tar", "zip",
];

/// Whether code has the name of a private file and a word of code that connects to the network.
pub(super) fn code_sends_private(code: &str) -> bool {
    const CONNECTING: [&str; 14] = [
        "aiohttp", "axios", "boto3", "curl", "fetch", "ftplib", "http", "httpx", "https", "LWP",
        "requests", "smtplib", "socket", "urllib",
    ];
    let mut words = code.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.any(|word| CONNECTING.contains(&word)) && code.split(['"', '\'']).any(is_private)
}

impl Assessor<'_> {
    /// Judges files that a program sends. Those of another machine do not count.
    pub(super) fn sent_files(&mut self, files: &[String]) {
        let mut own = files.iter().filter(|file| !is_remote(file));
        if own.any(|file| self.is_private_file(file)) {
            self.findings.add_grave(Destroys, SENDS_SECRET);
        }
    }

    /// Whether nobody else should get a file, or one that is copied into it.
    pub(super) fn is_private_file(&self, path: &str) -> bool {
        is_private(path) || self.is_copy(path)
    }

    fn is_copy(&self, path: &str) -> bool {
        let name = file_name(path);
        !matches!(name, "" | "." | "..") && self.private_copies.contains(name)
    }

    /// Notes the files to which a program copies private ones.
    pub(super) fn note_copies(&mut self, name: &str, arguments: &[String]) {
        let (copies, packs) = (COPYING.contains(&name), PACKING.contains(&name));
        if !copies && !packs {
            return;
        }
        let is_own = |path: &String| self.is_private_file(path);
        let Some(at) = arguments.iter().position(is_own) else {
            return;
        };
        let targets = match copies {
            true => arguments
                .get(at + 1..)
                .and_then(<[String]>::last)
                .into_iter(),
            false => None.into_iter(),
        };
        let packed = arguments.get(..at).filter(|_| packs).unwrap_or_default();
        let targets = targets.chain(packed.iter().filter(|path| !path.starts_with('-')));
        let names: Vec<String> = targets.map(|path| file_name(path).to_owned()).collect();
        self.private_copies.extend(names);
    }

    /// Notes a file into which commands print a secret.
    pub(super) fn note_printed_copy(
        &mut self,
        script: &ScriptFacts,
        redirection: &Redirection,
        path: &str,
    ) {
        if self.print_secret(script, &redirection.commands) {
            self.private_copies.insert(file_name(path).to_owned());
        }
    }
}
