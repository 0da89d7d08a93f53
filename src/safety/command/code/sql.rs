//! Queries: SQL, and commands of the shells of SQLite, PostgreSQL, Redis, MongoDB and memcached.

/// What SQL does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SqlEffect {
    /// It queries.
    Reads,
    /// It adds or changes.
    Writes,
    /// It runs a block of code.
    Unknown,
    /// It drops or deletes.
    Destroys,
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
    "SHUTDOWN",
    "DEL",
    "UNLINK",
    "DROPUSER",
    "FINDANDREMOVE",
    "PURGE",
    "KILL",
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
    "SHUTDOWNSERVER",
    "KILLOP",
    "PG_TERMINATE_BACKEND",
    "PG_DROP_REPLICATION_SLOT",
    "PG_FILE_UNLINK",
    "PG_FILE_WRITE",
    "LO_UNLINK",
    "LO_EXPORT",
    "XP_CMDSHELL",
    "RESETSLAVE",
    "REVOKE",
    "DETACH",
    "OVERWRITE",
];

/// Pairs of words that do so together.
const DESTROYING_PAIRS: [(&str, &str); 9] = [
    ("REPLACE", "INTO"),
    ("ALTER", "SYSTEM"),
    ("RESET", "MASTER"),
    ("RESET", "SLAVE"),
    ("RESTORE", "DATABASE"),
    ("CREATE", "EXTENSION"),
    ("REASSIGN", "OWNED"),
    ("SET", "PASSWORD"),
    ("LOAD", "DATA"),
];

/// Commands of Redis that delete, replace or stop something, besides the words above. They begin a line.
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

/// Judges SQL, or commands of the shell of a database.
pub fn sql_effect(sql: &str) -> SqlEffect {
    let upper = sql.to_ascii_uppercase();
    let all = words(&upper);
    let has = |name: &str| all.contains(&name);
    let updates_all = has("UPDATE") && has("SET") && !has("WHERE");
    let has_pair = all.windows(2).any(|pair| {
        let mut pairs = DESTROYING_PAIRS.iter();
        pairs.any(|(first, second)| pair == [*first, *second])
    });
    // A program of the shell: `\!` of psql and mysql, `.shell` of sqlite3, `COPY … TO PROGRAM`.
    let runs = sql.contains("\\!")
        || has("PROGRAM")
        || matches!(all.first(), Some(&("SYSTEM" | "SHELL")))
        || [
            ".SHELL",
            ".SYSTEM",
            ".EXCEL",
            ".WWW",
            ".LOAD",
            ".RESTORE",
            "INTO OUTFILE",
            "INTO DUMPFILE",
            "LOAD_EXTENSION",
            "WRITEFILE(",
            "EDIT(",
        ]
        .iter()
        .any(|name| upper.contains(name))
        || upper.trim_start().starts_with('.') && upper.contains('|')
        || meta_commands(&upper).any(|(_, rest)| rest.starts_with('|'));
    // Settings of Redis with which it writes files elsewhere, follows another server or loads code.
    let reconfigures = has("CONFIG") && has("SET")
        || has("SLAVEOF")
        || has("REPLICAOF")
        || has("MODULE") && has("LOAD");
    let is_redis = upper.split(['\n', ';']).any(|line| {
        let line = words(line);
        let first = line.first().copied().unwrap_or_default();
        let has_subcommands = [
            "SCRIPT", "FUNCTION", "CLUSTER", "ACL", "XGROUP", "CONFIG", "CLIENT",
        ];
        let second = line.get(1).copied().unwrap_or_default();
        REDIS.contains(&first)
            || has_subcommands.contains(&first) && REDIS_SUBCOMMANDS.contains(&second)
    });
    if DESTROYING.iter().any(|name| has(name))
        || updates_all
        || has_pair
        || runs
        || reconfigures
        || is_redis
    {
        return SqlEffect::Destroys;
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
const FILE_SERVER: [&str; 12] = [
    "rm", "rmdir", "mrm", "delete", "mdelete", "rename", "ren", "mirror", "chmod", "chown",
    "shell", "glob",
];

/// Whether commands of `sftp`, `ftp` or a protocol of lines delete, replace or run something.
pub fn commands_change(text: &str) -> bool {
    let mut lines = text.split(['\n', '\r', ';']).map(str::trim_start);
    lines.any(|line| {
        let first = line.split_whitespace().next().unwrap_or_default();
        line.starts_with('!') || FILE_SERVER.contains(&first.trim_start_matches('-'))
    })
}
