//! Programs that download or upload.

use super::{CallOutcome, CommandPlace, Findings, ProgramCall};
use crate::safety::command::class::CommandClass::{Destroys, Unknown, Writes};
use crate::safety::command::code::commands_change;
use crate::safety::command::targets::{PathReach, is_secret, written};
use crate::safety::command::word::UNKNOWN;

/// The reason of what sends something that nobody else should get.
pub const SENDS_SECRET: &str = "sends keys or passwords over the network";

/// Options whose value is the body of a request.
const BODIES: [&str; 8] = [
    "-d",
    "--data",
    "--data-raw",
    "--data-binary",
    "--data-urlencode",
    "--json",
    "--post-data",
    "--body-data",
];

/// Whether a part of a URL says that a request deletes or stops something: `purge`, `doDelete`, `removeUser`.
fn is_deleting_part(part: &str) -> bool {
    const WHOLE: [&str; 7] = [
        "delete",
        "destroy",
        "purge",
        "flush",
        "shutdown",
        "terminate",
        "wipe",
    ];
    const VERBS: [&str; 6] = ["delete", "destroy", "remove", "purge", "wipe", "drop"];
    let verb = part.strip_prefix("do").unwrap_or(part);
    let starts = |name: &&str| {
        let rest = verb
            .get(..name.len())
            .filter(|start| start.eq_ignore_ascii_case(name))
            .and_then(|_| verb.get(name.len()..));
        rest.is_some_and(|rest| {
            let is_capital = rest.starts_with(|c: char| c.is_ascii_uppercase());
            is_capital || rest.is_empty() && verb.len() < part.len()
        })
    };
    WHOLE.contains(&part) || VERBS.iter().any(starts)
}

/// Whether the body of a request asks a service to delete: a mutation of GraphQL, an action or a query in JSON, XML or SQL.
fn body_deletes(body: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut words = body.split(|c| !is_word(c));
    let mutates = body.contains("mutation")
        && words.any(|word| is_deleting_part(word) || word.split('_').any(is_deleting_part));
    let compact: String = body.chars().filter(|c| !c.is_whitespace()).collect();
    let acts = [
        "action",
        "method",
        "command",
        "cmd",
        "op",
        "operation",
        "type",
    ]
    .iter()
    .any(|key| {
        let start = format!("\"{key}\":\"");
        let value = compact.split(start.as_str()).nth(1).unwrap_or_default();
        let value = value.split('"').next().unwrap_or_default();
        value.split(['.', '_', '-', '/', ':']).any(is_deleting_part)
    });
    mutates
        || acts
        || compact.contains("\"delete\":{")
        || body.to_ascii_uppercase().contains("<DELETE>")
        || query_deletes(body)
}

/// Whether a body is a query that drops or deletes, or has one under a key for queries.
fn query_deletes(body: &str) -> bool {
    const KEYS: [&str; 7] = [
        "q",
        "query",
        "sql",
        "stmt",
        "statement",
        "statements",
        "command",
    ];
    const DROPS: [&str; 6] = [
        "DROP TABLE",
        "DROP DATABASE",
        "DROP MEASUREMENT",
        "DROP SERIES",
        "DELETE FROM",
        "TRUNCATE TABLE",
    ];
    let upper = |text: &str| {
        text.replace('+', " ")
            .replace("%20", " ")
            .to_ascii_uppercase()
    };
    let fields = body.split('&').filter_map(|field| field.split_once('='));
    let fields = fields.map(|(key, value)| (key.trim(), value));
    // `"query": "…"` of JSON
    let members = body.split('"').collect::<Vec<_>>();
    let members = members.windows(3).filter(|three| {
        three.get(1).is_some_and(|colon| {
            let colon = colon.trim();
            colon == ":" || colon.starts_with(':') && colon.ends_with(['[', '{'])
        })
    });
    let members = members.filter_map(|three| Some((*three.first()?, *three.last()?)));
    let is_query = |(key, _): &(&str, &str)| KEYS.contains(key);
    let has_drop = |(_, value): (&str, &str)| {
        let value = upper(value);
        DROPS.iter().any(|drop| value.contains(drop))
    };
    let start = upper(body.trim_start());
    DROPS.iter().any(|drop| start.starts_with(drop))
        || fields.filter(is_query).any(has_drop)
        || members.filter(is_query).any(has_drop)
}

/// Options whose value names a file that is sent.
const UPLOADS: [&str; 4] = ["-T", "--upload-file", "--post-file", "--body-file"];

/// Options whose value names such a file after `@` or `<`.
const FORMS: [&str; 9] = [
    "-d",
    "--data",
    "--data-ascii",
    "--data-binary",
    "--data-urlencode",
    "--json",
    "-F",
    "--form",
    "--url-query",
];

/// Returns the files that a request sends; `-` is the input.
fn sent_files<'a>(name: &'a str, arguments: &'a [String]) -> Vec<&'a str> {
    let call = ProgramCall {
        name,
        arguments,
        is_fed: false,
        directory: None,
    };
    let (mut files, forms) = match name {
        "http" | "https" | "xh" => (Vec::new(), call.list().operands),
        _ => (call.option_values(&UPLOADS), call.option_values(&FORMS)),
    };
    files.extend(forms.iter().filter_map(|value| {
        let (_, file) = value.split_once(['@', '<'])?;
        file.split(';').next()
    }));
    files
}

/// Judges `gh`: the files that `gist create` publishes, and requests of `api` that let others see or change a repository.
pub fn published(call: &ProgramCall<'_>, findings: &mut Findings) -> CallOutcome {
    let operands = call.list().operands;
    let is_gist = matches!(operands.as_slice(), ["gist", "create" | "new" | "edit", ..]);
    let sent = operands.iter().filter(|_| is_gist);
    let sends = sent.map(|path| (*path).to_owned()).collect();
    let is_api = operands.first() == Some(&"api");
    let fields = call.option_values(&["-f", "--raw-field", "-F", "--field"]);
    let method = call.option_value(&["-X", "--method"]);
    let changes = match method {
        Some(method) => !method.eq_ignore_ascii_case("GET"),
        None => !fields.is_empty(),
    };
    let opens = fields
        .iter()
        .any(|field| matches!(*field, "private=false" | "visibility=public"));
    const RIGHTS: [&str; 4] = ["collaborators", "memberships", "keys", "hooks"];
    let mut parts = operands.iter().flat_map(|path| path.split('/'));
    if is_api && changes && (opens || parts.any(|part| RIGHTS.contains(&part))) {
        findings.add(
            Destroys,
            "changes who may see or change something on GitHub",
        );
    }
    CallOutcome {
        sends,
        ..CallOutcome::default()
    }
}

/// Judges `curl`, `wget` and their kind.
pub fn download(
    call: &ProgramCall<'_>,
    place: &CommandPlace<'_>,
    findings: &mut Findings,
) -> CallOutcome {
    let mut outcome = CallOutcome::default();
    // Several come from `-X{GET,DELETE}`.
    let methods = call.option_values(&["-X", "--request", "--method"]);
    let has_method = |names: &[&str]| {
        let mut names = names.iter();
        names.any(|name| methods.iter().any(|own| own.eq_ignore_ascii_case(name)))
    };
    let is_short = matches!(call.name, "http" | "https" | "xh");
    let is_delete = has_method(&["DELETE", "PURGE"])
        || call
            .arguments
            .iter()
            .any(|a| a == "DELETE" || is_short && a == "delete");
    let bodies = call.option_values(&BODIES);
    let is_get = call.name == "curl" && call.list().has_any(&["-G", "--get"]);
    let sent = sent_files(call.name, call.arguments).into_iter();
    outcome.sends = sent.map(str::to_owned).collect();
    let sends = has_method(&["POST", "PUT", "PATCH"])
        || call
            .arguments
            .iter()
            .any(|a| matches!(a.as_str(), "POST" | "PUT" | "PATCH"))
        || !is_get && !bodies.is_empty();
    // Services that delete by a path: `_delete_by_query` of Elasticsearch.
    let is_delete = is_delete
        || sends
            && call.arguments.iter().any(|url| {
                let is_url = !url.starts_with(['-', '{', '[', '@']) && !url.contains(['"', ' ']);
                let mut parts = url.split(['/', '_', '-', '?', '&', '=', '.', ':']).skip(1);
                is_url && parts.any(is_deleting_part)
            })
        || bodies.iter().any(|body| match is_get {
            true => sends && query_deletes(body),
            false => body_deletes(body),
        })
        || call.arguments.iter().any(|argument| {
            let queries = argument.split_once('?').filter(|(url, _)| !url.contains([' ', '{']));
            let header = argument.to_ascii_lowercase();
            sends && queries.is_some_and(|(_, queries)| query_deletes(queries))
                || header.contains("method-override") && header.ends_with("delete")
        })
        // A command of FTP, POP3 or IMAP.
        || methods.iter().any(|method| commands_change(method));
    if is_delete {
        findings.add(Destroys, "sends a request that deletes");
    }
    if methods.iter().any(|method| method.starts_with(UNKNOWN)) {
        let reason = format!("which request {} sends is not known in advance", call.name);
        findings.add(Unknown, reason);
    }
    let names: &[&str] = match call.name {
        "wget" | "wget2" => &["-O", "--output-document"],
        _ => &["-o", "--output", "--out"],
    };
    let mut targets: Vec<String> = call
        .option_values(names)
        .into_iter()
        .map(str::to_owned)
        .collect();
    let keeps_name = match call.name {
        "curl" => call.arguments.iter().any(|a| {
            a == "--remote-name"
                || a == "--remote-name-all"
                || a.starts_with('-') && !a.starts_with("--") && a.contains('O')
        }),
        "http" | "https" | "xh" => call.list().has_any(&["-d", "--download"]),
        _ => targets.is_empty(),
    };
    if keeps_name {
        let urls = call
            .arguments
            .iter()
            .filter(|argument| !argument.starts_with('-'));
        // The name of `wget` has the query, that of `curl` has not.
        let names = urls.flat_map(|url| {
            let plain = url.split(['?', '#']).next().unwrap_or_default();
            let query = url.get(plain.rfind('/').map_or(0, |at| at + 1)..);
            [
                plain.rsplit('/').next().unwrap_or_default(),
                query.unwrap_or_default(),
            ]
        });
        targets.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
    }
    let directory = call.option_value(&["--output-dir", "-P", "--directory-prefix"]);
    for target in &targets {
        let target = match directory.filter(|_| call.name == "curl" || call.name == "wget") {
            Some(directory) => format!("{directory}/{target}"),
            None => target.clone(),
        };
        if let Some(reason) = place.protected(&target) {
            findings.add_grave(Destroys, reason);
        }
    }
    if !targets.is_empty() {
        findings.add(Writes, "");
    }
    let settings = call.option_values(&["--execute"]).into_iter();
    let settings = settings.chain(match call.name {
        "wget" | "wget2" => call.option_values(&["-e"]),
        _ => Vec::new(),
    });
    let mut settings = settings.map(|setting| setting.to_ascii_lowercase());
    if settings.any(|setting| setting.contains("askpass") || setting.contains("output"))
        || call.arguments.iter().any(|a| a == "--engine")
    {
        findings.add(Unknown, format!("{} runs a program", call.name));
    }
    outcome.brings_tree = call.name.starts_with("wget")
        && call
            .list()
            .has_any(&["-r", "--recursive", "-m", "--mirror", "-i", "--input-file"]);
    outcome.downloads = targets;
    outcome
}

/// Judges the file of `ssh-keygen`: a key among the others is usual, a file of settings is not.
pub fn key(
    call: &ProgramCall<'_>,
    place: &CommandPlace<'_>,
    findings: &mut Findings,
) -> CallOutcome {
    let is_setting = |path: &&str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        matches!(name, "authorized_keys" | "config" | "environment" | "rc")
    };
    for path in call.option_values(&["-f"]).into_iter().filter(is_setting) {
        written(path, place, findings);
    }
    CallOutcome::default()
}

/// Returns the path of `HOST:PATH`.
fn remote_path(value: &str) -> Option<&str> {
    let (host, path) = value.split_once(':')?;
    (!host.contains('/') && !path.starts_with("//")).then_some(path)
}

/// Returns a path; one on another machine is taken for one of this machine, where its home directory is.
fn there(target: &str, place: &CommandPlace<'_>) -> String {
    match remote_path(target) {
        Some(path) => match path.strip_prefix("~/").unwrap_or(path) {
            path if path.starts_with('/') => path.to_owned(),
            path => format!("{}/{path}", place.home),
        },
        None => target.to_owned(),
    }
}

/// Whether `rsync` deletes files of this machine outside of the directory.
fn deletes_there(call: &ProgramCall<'_>, operands: &[&str], place: &CommandPlace<'_>) -> bool {
    let mut options = call.arguments.iter();
    let deletes = options.any(|option| option == "--del" || option.starts_with("--delete"));
    let target = operands.last().filter(|path| !path.contains(':'));
    let is_trial = call.list().has_any(&["-n", "--dry-run"]);
    deletes && !is_trial && target.is_some_and(|path| call.reach(path, place) > PathReach::Inside)
}

/// Judges `ssh`, `scp` and `rsync`.
pub fn remote(
    call: &ProgramCall<'_>,
    place: &CommandPlace<'_>,
    findings: &mut Findings,
) -> CallOutcome {
    let outcome = CallOutcome::default();
    for option in call.option_values(&["-o"]) {
        let option = option.to_ascii_lowercase();
        if option.starts_with("proxycommand")
            || option.starts_with("localcommand")
            || option.starts_with("knownhostscommand")
            || option.starts_with("pkcs11provider")
            || option.starts_with("securitykeyprovider")
            || option.starts_with("include")
            || option.starts_with("match")
            || option.starts_with("xauthlocation")
            || option.starts_with("ssh_command")
            || option.starts_with("sftp_server")
            || option.starts_with("directport")
        {
            findings.add_text(format!("{} runs a program", call.name), option);
        }
    }
    let operands = call.list().operands;
    if call.name != "ssh" && operands.iter().any(|path| is_secret(path)) {
        findings.add_grave(Destroys, SENDS_SECRET);
    }
    if call.name == "rsync" && deletes_there(call, &operands, place) {
        findings.add_grave(Destroys, "deletes files outside this directory");
    }
    if let Some(target) = operands
        .last()
        .filter(|target| call.name != "ssh" && !target.contains("::"))
        && let Some(reason) = place.protected(&there(target, place))
    {
        findings.add_grave(Destroys, reason);
    }
    outcome
}

/// Judges containers: `compose` is a separate program, and a container may get the files of this machine.
pub fn container(call: &ProgramCall<'_>, findings: &mut Findings) -> CallOutcome {
    let mut outcome = CallOutcome::default();
    let rest = call.behind_options();
    if rest.first().is_some_and(|sub| sub == "compose") {
        outcome.rewritten = Some(("docker-compose", rest.get(1..).unwrap_or_default().to_vec()));
        return outcome;
    }
    let mounts = call.option_values(&["-v", "--volume", "--mount"]);
    let is_host = mounts.iter().any(|mount| {
        let root =
            mount.starts_with("/:") || mount.contains("source=/,") || mount.contains("src=/,");
        root || mount.contains("docker.sock") || mount.starts_with("/etc:")
    });
    if is_host
        && rest
            .first()
            .is_some_and(|sub| matches!(sub.as_str(), "run" | "create" | "container"))
    {
        findings.add_grave(
            Destroys,
            "gives a container access to files of this machine",
        );
    }
    outcome
}
