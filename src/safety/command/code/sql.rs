//! Queries: SQL, and commands of the shells of SQLite, PostgreSQL, Redis, MongoDB and memcached.

use super::mongo::member_names;

/// Effects of SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SqlEffect {
    /// It queries.
    Reads,
    /// It adds or changes.
    Writes,
    /// It runs a block of code.
    Unknown,
    /// It changes all rows of a table.
    ChangesAllRows,
    /// It changes users, rights, settings or files of the server.
    ChangesServer,
    /// It runs a program, or code that it loads.
    RunsProgram,
    /// It drops or deletes.
    Drops,
}

impl SqlEffect {
    /// Returns why the effect destroys something, if it does.
    pub fn destroys(self) -> Option<&'static str> {
        match self {
            SqlEffect::Reads | SqlEffect::Writes | SqlEffect::Unknown => None,
            SqlEffect::ChangesAllRows => Some("changes all rows of a table"),
            SqlEffect::ChangesServer => {
                Some("changes users, rights, sessions, settings or files of a database server")
            }
            SqlEffect::RunsProgram => Some("runs a program or code from a database"),
            SqlEffect::Drops => Some("drops or deletes in a database"),
        }
    }
}

/// Words that drop, delete, stop or take rights away.
const DESTROYING: &[&str] = &[
    "DROP",
    "TRUNCATE",
    "DELETE",
    "FLUSHALL",
    "FLUSHDB",
    "FLUSH_ALL",
    "DROPDATABASE",
    "DELETEMANY",
    "DELETEONE",
    "REMOVE",
    "DEL",
    "UNLINK",
    "DROPUSER",
    "FINDANDREMOVE",
    "PURGE",
    "FINDONEANDDELETE",
    "FINDONEANDREPLACE",
    "DROPINDEX",
    "DROPINDEXES",
    "DROPCOLLECTION",
    "DROPROLE",
    "RENAMECOLLECTION",
    "UPDATEMANY",
    "REPLACEONE",
    "BULKWRITE",
    "PG_DROP_REPLICATION_SLOT",
    "PG_FILE_UNLINK",
    "LO_UNLINK",
    "RESETSLAVE",
    "DETACH",
    "OVERWRITE",
];

/// Words that change users, rights, settings or files of a server.
const SERVER: &[&str] = &[
    "KILL",
    "KILLOP",
    "PG_TERMINATE_BACKEND",
    "SHUTDOWN",
    "SHUTDOWNSERVER",
    "REVOKE",
    "LO_EXPORT",
    "PG_FILE_WRITE",
    "SLAVEOF",
    "REPLICAOF",
];

/// Pairs of words that drop or replace together.
const DESTROYING_PAIRS: [(&str, &str); 3] = [
    ("REPLACE", "INTO"),
    ("RESTORE", "DATABASE"),
    ("LOAD", "DATA"),
];

/// Pairs of words that change a server together.
const SERVER_PAIRS: [(&str, &str); 10] = [
    ("ALTER", "LOGIN"),
    ("ALTER", "ROLE"),
    ("ALTER", "SYSTEM"),
    ("ALTER", "USER"),
    ("CREATE", "EXTENSION"),
    ("GRANT", "ALL"),
    ("REASSIGN", "OWNED"),
    ("RESET", "MASTER"),
    ("RESET", "SLAVE"),
    ("SET", "PASSWORD"),
];

/// Commands of Redis that delete, replace or stop something, in addition to the words above. They begin a line.
const REDIS: &[&str] = &[
    "HDEL",
    "SREM",
    "LREM",
    "ZREM",
    "ZREMRANGEBYRANK",
    "ZREMRANGEBYSCORE",
    "ZREMRANGEBYLEX",
    "ZPOPMIN",
    "ZPOPMAX",
    "SPOP",
    "LPOP",
    "RPOP",
    "BLPOP",
    "BRPOP",
    "LTRIM",
    "XTRIM",
    "XDEL",
    "GETDEL",
    "EXPIRE",
    "PEXPIRE",
    "EXPIREAT",
    "PEXPIREAT",
    "RENAME",
    "RESTORE",
    "MIGRATE",
    "SWAPDB",
    "DEBUG",
    "FAILOVER",
    "EVAL",
    "EVALSHA",
    "FCALL",
];

/// Subcommands of Redis that do so.
const REDIS_SUBCOMMANDS: [&str; 12] = [
    "FLUSH",
    "RESET",
    "RESETSTAT",
    "FORGET",
    "FAILOVER",
    "DELSLOTS",
    "FLUSHSLOTS",
    "DELUSER",
    "SETUSER",
    "DESTROY",
    "LOAD",
    "REWRITE",
];

/// Commands of clients that write a file.
const FILE_COMMANDS: [&str; 10] = [
    ".OUTPUT", ".ONCE", ".BACKUP", ".LOG", ".CLONE", ".SAVE", "\\O", "\\W", "\\G", "\\S",
];

fn words(upper: &str) -> Vec<&str> {
    let words = upper.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| !word.is_empty()).collect()
}

/// Returns the words of statements that may act: not those that only name an event or a right, and none of a statement that is
/// explained and not run.
fn acting_words(upper: &str) -> Vec<&str> {
    // What follows an event of a reference or a rule. Elsewhere `ON` may end a setting: `SET NOCOUNT ON DELETE FROM t`.
    const ACTIONS: [&str; 6] = ["CASCADE", "DO", "NO", "RESTRICT", "SET", "TO"];
    const EVENTS: [&str; 3] = ["DELETE", "TRUNCATE", "UPDATE"];
    let mut acting = Vec::new();
    for statement in upper.split(';') {
        let words = words(statement);
        let is_first = |names: &[&str]| words.first().is_some_and(|first| names.contains(first));
        // Clients know other ends of a statement: `\G`, `GO`, those of `DELIMITER`.
        let is_one = !statement.trim().contains(['\\', '\n']) && !upper.contains("DELIMITER");
        if is_first(&["EXPLAIN"]) && is_one && !statement.contains("ANALY") {
            continue;
        }
        let is_trigger = is_first(&["CREATE"]) && words.contains(&"TRIGGER");
        // The rights that are given or taken stand before `ON`.
        let rights = is_first(&["GRANT", "REVOKE"]).then_some(0);
        let on = words
            .iter()
            .position(|word| *word == "ON")
            .unwrap_or_default();
        for (at, word) in words.iter().enumerate() {
            let before = at.checked_sub(1).and_then(|at| words.get(at)).copied();
            let before = before.unwrap_or_default();
            let next = words.get(at + 1).copied().unwrap_or_default();
            let is_event = match before {
                "ON" => ACTIONS.contains(&next),
                "AFTER" | "BEFORE" | "OF" | "OR" => is_trigger,
                _ => false,
            };
            let is_right = rights.is_some_and(|rights| {
                let list = words.get(rights..at).unwrap_or_default();
                at < on && !list.is_empty() && !list.contains(&"TO") && !list.contains(&"FROM")
            });
            if !EVENTS.contains(word) || !is_event && !is_right {
                acting.push(*word);
            }
        }
    }
    acting
}

/// Judges SQL, or commands of the shell of a database.
pub fn sql_effect(sql: &str) -> SqlEffect {
    let upper = sql.to_ascii_uppercase();
    let plain = without_texts(&upper);
    let plain = plain.as_deref().unwrap_or(&upper);
    let all = words(plain);
    let has = |name: &str| all.contains(&name);
    let members = member_names(sql, &upper, words(&upper));
    let acting = members.unwrap_or_else(|| acting_words(plain));
    let updates_all = acting.contains(&"UPDATE") && has("SET") && !has("WHERE");
    let has_pair = |known: &[(&str, &str)]| {
        all.windows(2).any(|pair| {
            let mut pairs = known.iter();
            pairs.any(|(first, second)| pair == [*first, *second])
        })
    };
    let contains = |names: &[&str]| names.iter().any(|name| upper.contains(name));
    // `COPY … TO PROGRAM`, `.excel`, a function that loads a library. See `shell_texts` for commands of a shell.
    let runs = has("PROGRAM")
        || has("XP_CMDSHELL")
        || contains(&[".EXCEL", ".WWW", ".LOAD", "LOAD_EXTENSION", "EDIT("])
        || upper.trim_start().starts_with('.') && upper.contains('|')
        || meta_commands(&upper).any(|(name, rest)| name == "\\GEXEC" || rest.starts_with('|'));
    // Settings of Redis with which it writes files elsewhere, follows another server or loads code.
    let changes_server = has("CONFIG") && has("SET")
        || has("MODULE") && has("LOAD")
        || SERVER.iter().any(|name| has(name))
        || has_pair(&SERVER_PAIRS)
        || contains(&["INTO OUTFILE", "INTO DUMPFILE", "WRITEFILE("]);
    let is_redis = plain.split(['\n', ';']).any(|line| {
        let line = words(line);
        let first = line.first().copied().unwrap_or_default();
        let has_subcommands = [
            "SCRIPT", "FUNCTION", "CLUSTER", "ACL", "XGROUP", "CONFIG", "CLIENT",
        ];
        let second = line.get(1).copied().unwrap_or_default();
        REDIS.contains(&first)
            || has_subcommands.contains(&first) && REDIS_SUBCOMMANDS.contains(&second)
    });
    let drops = DESTROYING.iter().any(|name| acting.contains(name))
        || has_pair(&DESTROYING_PAIRS)
        || contains(&[".RESTORE"])
        || is_redis;
    let effects = [
        (drops, SqlEffect::Drops),
        (runs, SqlEffect::RunsProgram),
        (changes_server, SqlEffect::ChangesServer),
        (updates_all, SqlEffect::ChangesAllRows),
    ];
    if let Some((_, effect)) = effects.into_iter().find(|(holds, _)| *holds) {
        return effect;
    }
    if matches!(all.first(), Some(&("DO" | "EXECUTE"))) {
        return SqlEffect::Unknown;
    }
    const WRITING: [&str; 15] = [
        "INSERT",
        "UPDATE",
        "CREATE",
        "ALTER",
        "GRANT",
        "SET",
        "VACUUM",
        "REINDEX",
        "COPY",
        "INSERTONE",
        "INSERTMANY",
        "UPDATEONE",
        "LOAD",
        "ATTACH",
        "CALL",
    ];
    let writes_file = upper.contains(".IMPORT") || !files(sql).is_empty();
    match writes_file || WRITING.iter().any(|name| has(name)) {
        true => SqlEffect::Writes,
        false => SqlEffect::Reads,
    }
}

/// Returns a statement of SQL, in upper case, without its texts and comments. Returns `None` if it is something else, or
/// may run a text, or has a text whose end depends on the database.
fn without_texts(upper: &str) -> Option<String> {
    const STATEMENTS: [&str; 9] = [
        "SELECT", "INSERT", "WITH", "EXPLAIN", "SHOW", "VALUES", "UPDATE", "DESCRIBE", "COMMENT",
    ];
    const RUNNING: [&str; 15] = [
        "ADD_JOB",
        "CRON.",
        "RUN_COMMAND",
        "SCHEDULE",
        "EXEC",
        "PREPARE",
        "DBLINK",
        "_TO_XML",
        "CROSSTAB",
        "TS_STAT",
        "CONNECTBY",
        "OPENROWSET",
        "OPENQUERY",
        "EVAL",
        "CALL",
    ];
    let start = words(upper);
    let is_statement = match start.as_slice() {
        ["CREATE" | "ALTER", "TABLE", ..] => true,
        [first, ..] => STATEMENTS.contains(first),
        [] => false,
    };
    let runs = RUNNING.iter().any(|name| upper.contains(name));
    if !is_statement || runs || upper.contains(['\\', '`', '#']) {
        return None;
    }
    let mut plain = String::new();
    let mut rest = upper;
    while let Some(at) = rest.find(['\'', '"', '-', '/', '$']) {
        let (before, after) = rest.split_at(at);
        plain.push_str(before);
        let (skipped, end) = match after {
            text if text.starts_with('\'') => (1, "'"),
            text if text.starts_with('"') => (1, "\""),
            text if text.starts_with('$') => {
                rest = dollar_text(text)?;
                plain.push(' ');
                continue;
            }
            text if text.starts_with("-- ") => (2, "\n"),
            // A comment or not, by the database.
            text if text.starts_with("--") => return None,
            // MySQL and MariaDB run the text in `/*!` and `/*M!`.
            text if text.starts_with("/*!") || text.starts_with("/*M!") => return None,
            text if text.starts_with("/*") => (2, "*/"),
            text => {
                let (first, others) = text.split_at(1);
                plain.push_str(first);
                rest = others;
                continue;
            }
        };
        let text = after.get(skipped..)?;
        plain.push(' ');
        rest = match text.find(end) {
            // In some databases, comments are nested.
            Some(at) if end == "*/" && text.get(..at)?.contains("/*") => return None,
            Some(at) => {
                let behind = text.get(at + end.len()..)?;
                // The name of a function, too, perhaps with a comment behind it.
                if end == "\"" && behind.trim_start().starts_with(['(', '/', '-']) {
                    plain.push_str(text.get(..at)?);
                }
                behind
            }
            None if end == "\n" => "",
            None => return None,
        };
    }
    plain.push_str(rest);
    Some(plain)
}

/// Returns what follows a text of PostgreSQL between `$$` or `$TAG$`. A text that may be something else in another database, with a
/// statement of its own in it, is not known.
fn dollar_text(text: &str) -> Option<&str> {
    let tag = text.get(1..)?.split_once('$')?.0;
    let is_tag = tag.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !tag.starts_with(|c: char| c.is_ascii_digit());
    let delimiter = text.get(..tag.len() + 2).filter(|_| is_tag)?;
    let (body, rest) = text.get(delimiter.len()..)?.split_once(delimiter)?;
    (!body.contains(['\'', '"', ';'])).then_some(rest)
}

/// Returns the commands of a client that begin with a backslash, and what follows them.
fn meta_commands(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices('\\').map(|(at, _)| {
        let rest = text.get(at..).unwrap_or_default();
        let end = rest
            .char_indices()
            .skip(1)
            .find(|(_, c)| !c.is_ascii_alphabetic());
        let (name, rest) = rest.split_at(end.map_or(rest.len(), |(end, _)| end));
        (name, rest.trim_start())
    })
}

/// Returns the files that queries write: of commands of the client, and of `COPY … TO`.
pub fn files(sql: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in sql.split(['\n', ';']) {
        let plain: Vec<&str> = line.split_whitespace().collect();
        for pair in plain.windows(2) {
            let [name, path] = pair else { continue };
            if FILE_COMMANDS.contains(&name.to_ascii_uppercase().as_str()) {
                found.push(plain.last().copied().unwrap_or(path).to_owned());
            }
            let copies = plain.iter().any(|word| {
                let word = word.trim_start_matches('\\');
                word.eq_ignore_ascii_case("copy") || word.eq_ignore_ascii_case("export")
            });
            if copies && name.eq_ignore_ascii_case("to") {
                found.push((*path).to_owned());
            }
        }
    }
    let quotes = ['\'', '"', ')', ';'];
    let mut found: Vec<String> = found
        .iter()
        .map(|path| path.trim_matches(quotes).to_owned())
        .collect();
    found.retain(|path| !path.eq_ignore_ascii_case("stdout") && !path.eq_ignore_ascii_case("off"));
    found
}

/// Returns the commands of a shell among queries: `\!` of psql and mysql, `.shell` of sqlite3, `system` of mysql. Each takes the
/// rest of its line.
pub fn shell_texts(sql: &str) -> Vec<String> {
    const NAMES: [&str; 3] = ["\\!", ".shell ", ".system "];
    let texts = sql.lines().filter_map(|line| {
        let lower = line.to_ascii_lowercase();
        let starts = ["system ", "shell "];
        let named = starts
            .iter()
            .find(|name| lower.trim_start().starts_with(*name));
        let ends = NAMES.iter().chain(named);
        let ends = ends.filter_map(|name| Some(lower.find(name)? + name.len()));
        line.get(ends.min()?..)
    });
    texts.map(|text| text.trim().to_owned()).collect()
}

/// Returns the files of queries that queries run.
pub fn scripts(sql: &str) -> Vec<String> {
    let lines = sql.split(['\n', ';']).map(str::split_whitespace);
    let paths = lines.filter_map(|mut line| {
        let name = line.next()?.to_ascii_lowercase();
        let is_script = matches!(
            name.as_str(),
            ".read" | "\\i" | "\\ir" | "\\include" | "source" | "\\."
        );
        line.next().filter(|_| is_script)
    });
    paths
        .map(|path| path.trim_matches(['\'', '"']).to_owned())
        .collect()
}

/// Words with which clients of file servers delete or rename, or run a program here.
const FILE_SERVER: [&str; 22] = [
    "chmod", "chown", "dele", "del", "delete", "deltree", "erase", "expunge", "glob", "mdelete",
    "mirror", "mrm", "rd", "ren", "rename", "rm", "rmd", "rmdir", "rnfr", "rnto", "shell", "store",
];

/// Whether commands of `sftp`, `ftp` or a protocol of lines delete, replace or run something.
pub fn commands_change(text: &str) -> bool {
    let mut lines = text.split(['\n', '\r', ';']).map(str::trim_start);
    lines.any(|line| {
        let line = line.to_ascii_lowercase();
        let words: Vec<&str> = line.split_whitespace().collect();
        let word = |at: usize| words.get(at).copied().unwrap_or_default();
        let is_change =
            |word: &str| FILE_SERVER.contains(&word.trim_start_matches(['-', '*', '+']));
        let is_expunging = |word| matches!(word, "delete" | "expunge" | "store" | "rename");
        // A command of IMAP follows a tag, and perhaps `UID`; `SITE` of FTP has subcommands.
        let is_tag = word(0).len() < 5 && word(0).chars().all(|c| c.is_ascii_alphanumeric());
        let is_imap = is_tag && is_expunging(word(1)) || word(0) == "uid" && is_expunging(word(1));
        line.starts_with('!')
            || is_change(word(0))
            || is_imap
            || is_tag && word(1) == "uid" && is_expunging(word(2))
            || word(0).ends_with("site") && is_change(word(1))
    })
}
