//! The chain of an activity: the command line, the prompts and everything that came of them.

use rusqlite::OptionalExtension;
use rusqlite::types::Value as Sql;

use super::row::ActivityKey;
use super::{Index, IndexResult};

impl Index {
    /// Returns the keys of an activity's chain.
    pub(super) fn chain(&self, key: &ActivityKey) -> IndexResult<Vec<ActivityKey>> {
        let column = |sql: &str, of: &Sql| -> IndexResult<Vec<ActivityKey>> {
            let mut select = self.db.prepare_cached(sql)?;
            let keys = select.query_map([of], |row| row.get(0))?;
            Ok(keys.collect::<rusqlite::Result<_>>()?)
        };
        let record_ids = |key: &ActivityKey| -> IndexResult<[Sql; 3]> {
            let mut select = self
                .db
                .prepare_cached("SELECT chain, command, output_of FROM act WHERE id = ?")?;
            let found = select.query_row([key], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]));
            Ok(found
                .optional()?
                .unwrap_or([Sql::Null, Sql::Null, Sql::Null]))
        };
        let members = "SELECT id FROM act WHERE chain = ?";
        let of_command = "SELECT id FROM act WHERE command = ?";
        let command_line = "SELECT act.id FROM act JOIN kind ON kind.id = act.kind
             WHERE act.command = ? AND kind.type = 'shell_command'";
        let [chain, command, _] = record_ids(key)?;
        let mut keys = column(members, &chain)?;
        keys.push(*key);
        // The prompts that took the output of this command line.
        if column(command_line, &command)?.contains(key) {
            for prompt in column("SELECT id FROM act WHERE output_of = ?", &command)? {
                let [chain, ..] = record_ids(&prompt)?;
                keys.push(prompt);
                keys.extend(column(members, &chain)?);
            }
        }
        // Only the first activity of a chain has the command line, which may have started other chains.
        let mut commands = vec![command];
        for key in keys.clone() {
            let [_, command, output_of] = record_ids(&key)?;
            commands.push(command);
            keys.extend(column(command_line, &output_of)?);
        }
        for command in commands.iter().filter(|c| **c != Sql::Null) {
            for key in column(of_command, command)? {
                keys.push(key);
                let [chain, ..] = record_ids(&key)?;
                keys.extend(column(members, &chain)?);
            }
        }
        keys.sort_unstable();
        keys.dedup();
        // A command line is recorded when it ends, but shown before everything it started.
        let mut select = self.db.prepare_cached(
            "SELECT kind.type = 'shell_command' FROM act JOIN kind ON kind.id = act.kind WHERE act.id = ?",
        )?;
        let mut is_command = |key: &ActivityKey| select.query_row([key], |row| row.get(0));
        let (mut first, mut rest) = (Vec::new(), Vec::new());
        for key in keys {
            match is_command(&key)? {
                true => first.push(key),
                false => rest.push(key),
            }
        }
        first.extend(rest);
        Ok(first)
    }
}
