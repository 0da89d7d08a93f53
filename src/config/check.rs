//! Faults of a valid file that only this machine shows: names without an object. They do not keep the file from being used.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::disk;
use super::file::{ConfigFile, ConfigProblem};
use super::key;
use super::mcp::variable_reference;
use super::mcp::{ServerSettings, ServerTransport};
use super::settings::Config;
use super::table_reader;
use super::value_checks::{is_reserved_alias, nearest_name};
use crate::paths::{self, Paths};
use crate::safety::policy::{RuleSubject, TERMINAL_OUTPUT_RULE};

/// Returns every fault of the file, including names of variables that this process does not have, and [`mistakes`].
pub fn file_problems(paths: &Paths) -> Vec<ConfigProblem> {
    let file = match disk::read(paths) {
        Ok(file) => file,
        Err(problems) => return problems,
    };
    let mut problems = located(&file, unset_variables(&file.config));
    problems.extend(mistakes(&file));
    problems.sort_by_key(|problem| problem.line);
    problems
}

/// Returns the names of programs and servers in a file that lead nowhere.
pub fn mistakes(file: &ConfigFile) -> Vec<ConfigProblem> {
    let servers = file.config.mcp.servers.values().filter(|s| !s.disabled);
    let mut found: Vec<_> = servers.flat_map(program_faults).collect();
    found.extend(unknown_servers(&file.config));
    located(file, found)
}

/// Adds the place in the file to messages about settings.
fn located(file: &ConfigFile, found: Vec<(String, String)>) -> Vec<ConfigProblem> {
    let problem = |(key, message): (String, String)| {
        Some(ConfigProblem {
            file: file.path.clone()?,
            line: file.values.line(&key),
            key,
            message,
        })
    };
    found.into_iter().filter_map(problem).collect()
}

/// Returns the settings that name an unset variable, each with the message.
fn unset_variables(config: &Config) -> Vec<(String, String)> {
    let names = key::variable_names();
    let models = config.models.values().filter_map(|model| {
        let is_set = key::key_variables(model).any(|name| names.iter().any(|set| set == name));
        let variable = key::key_variables(model).next().filter(|_| !is_set)?;
        let name = table_reader::shown_key(&model.name);
        Some((format!("models.{name}.key_env"), variable.to_owned()))
    });
    let servers = config.mcp.servers.values().filter(|s| !s.disabled);
    let servers = servers.flat_map(|server| {
        let variables = server.variable_settings().into_iter();
        variables.map(|(key, name)| (format!("mcp.servers.{}.{key}", server.alias), name))
    });
    let unset = models.chain(servers).filter(|(_, v)| !names.contains(v));
    unset
        .map(|(key, variable)| {
            let message = key::unset(&variable, names.iter().map(String::as_str));
            (key, message)
        })
        .collect()
}

/// Returns what keeps the program of a server from being started as meant.
fn program_faults(server: &ServerSettings) -> Vec<(String, String)> {
    let ServerTransport::Stdio { command, args, .. } = &server.transport else {
        return Vec::new();
    };
    let key = |name: &str| format!("mcp.servers.{}.{name}", server.alias);
    let mut faults = Vec::new();
    let mut words = command.split_whitespace();
    if let (Some(program), true) = (words.next(), command.trim().contains(char::is_whitespace))
        && !is_program(command)
    {
        let words: Vec<String> = words.map(|word| format!("{word:?}")).collect();
        let message = format!(
            "no program has this name; put the words after it into args: command = {program:?}, args = [{}]",
            words.join(", ")
        );
        faults.push((key("command"), message));
    }
    let reference = |arg: &&String| {
        let braced = arg.strip_prefix("${").and_then(|a| a.strip_suffix('}'));
        variable_reference(arg).is_some() || braced.is_some()
    };
    faults.extend(args.iter().find(reference).map(|arg| {
        let message = format!("{arg} is passed as written: variables are expanded in env only");
        (key("args"), message)
    }));
    faults
}

/// Whether this machine has a program of this name or path.
pub fn is_program(command: &str) -> bool {
    if !command.contains('/') {
        return !paths::on_path(command).is_empty();
    }
    let meta = std::fs::metadata(Path::new(command));
    meta.is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Returns the rules that name a server which is not configured.
fn unknown_servers(config: &Config) -> Vec<(String, String)> {
    let servers = &config.mcp.servers;
    let unknown = config.policy.list.iter().filter_map(|rule| {
        let alias = match &rule.subject {
            RuleSubject::Tool(server, tool) if (&**server, &**tool) == TERMINAL_OUTPUT_RULE => {
                return None;
            }
            RuleSubject::Tool(alias, _) | RuleSubject::Server(alias) => alias,
            _ => return None,
        };
        let is_known = servers.contains_key(alias) || is_reserved_alias(alias);
        (!is_known).then(|| {
            let near = nearest_name(alias, servers.keys().map(String::as_str));
            let near = near.map(|near| format!("; did you mean {near}?"));
            let message = format!(
                "no server {alias} is configured{}",
                near.unwrap_or_default()
            );
            (rule.source.clone(), message)
        })
    });
    unknown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let home = tempfile::tempdir().expect("a directory");
        let paths = Paths::under(home.path(), 1).expect("paths");
        std::fs::create_dir(&paths.config).expect("a directory");
        std::fs::write(paths.config.join("config.toml"), text).expect("a file");
        let problems = file_problems(&paths).into_iter();
        problems
            .map(|p| format!("{}: {}: {}", p.line.unwrap_or(0), p.key, p.message))
            .collect()
    }

    #[test]
    fn a_program_is_an_executable_file() {
        assert!(is_program("/bin/sh") && is_program("sh") && !is_program("/bin"));
    }

    #[test]
    fn names_without_an_object_are_reported() {
        let text = "[mcp.servers.notes]\ncommand = \"npx -y notes\"\nargs = [\"$AISH_NO_SUCH\"]\n\
                    env = { KEY = \"$AISH_NO_SUCH\" }\n\
                    [mcp.servers.shell]\ncommand = \"sh\"\n\
                    [policy.rules]\n\"note.read\" = \"allow\"\n\"far.*\" = \"deny\"\n\"notes.read\" = \"ask\"\nshell = \"ask\"\n\
                    \"helper.table\" = \"allow\"\n\"aish.grep\" = \"allow\"\n";
        let found = problems(text);
        let wanted = [
            "2: mcp.servers.notes.command: no program has this name; put the words after it into args: command = \"npx\", args = [\"-y\", \"notes\"]",
            "3: mcp.servers.notes.args: $AISH_NO_SUCH is passed as written: variables are expanded in env only",
            "4: mcp.servers.notes.env.KEY: the variable AISH_NO_SUCH is not set",
            "8: policy.rules.\"note.read\": no server note is configured; did you mean notes?",
            "9: policy.rules.\"far.*\": no server far is configured",
        ];
        assert_eq!(found, wanted);
        // No server is meant.
        assert_eq!(
            problems("[policy.rules]\n\"shell.output\" = \"ask\"\n"),
            [""; 0]
        );
    }
}
