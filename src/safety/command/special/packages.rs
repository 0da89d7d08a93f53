//! Programs that install packages, or download one and run it.

use super::{CallOutcome, Findings, InnerCommand, ProgramCall};
use crate::safety::command::class::CommandClass::{
    Destroys, Network, RunsDownloadedCode, Unknown, Writes,
};
use crate::safety::command::programs::{self, ArgumentList};
use crate::safety::command::roles::wrapped;

/// Packages with which `npm create` makes projects.
const CREATORS: [&str; 14] = [
    "app",
    "astro",
    "expo",
    "expo-app",
    "hono",
    "next-app",
    "nuxt",
    "react-app",
    "react-router",
    "remix",
    "solid",
    "svelte",
    "vite",
    "vue",
];

/// Packages that are tools of nearly every project, so that `npx` and `uvx` usually run an installed or well-known one.
const KNOWN_PACKAGES: [&str; 60] = [
    "eslint",
    "prettier",
    "tsc",
    "typescript",
    "jest",
    "vitest",
    "mocha",
    "playwright",
    "cypress",
    "prisma",
    "next",
    "vite",
    "webpack",
    "rollup",
    "esbuild",
    "tsx",
    "ts-node",
    "nodemon",
    "serve",
    "http-server",
    "rimraf",
    "husky",
    "lint-staged",
    "turbo",
    "nx",
    "lerna",
    "changeset",
    "storybook",
    "sb",
    "tailwindcss",
    "postcss",
    "stylelint",
    "babel",
    "expo",
    "react-native",
    "ng",
    "nuxi",
    "astro",
    "svelte-kit",
    "vue",
    "gatsby",
    "wrangler",
    "vercel",
    "netlify",
    "firebase",
    "degit",
    "npm-check-updates",
    "depcheck",
    "concurrently",
    "cross-env",
    "json-server",
    "biome",
    "ruff",
    "black",
    "mypy",
    "pytest",
    "pre-commit",
    "isort",
    "flake8",
    "cookiecutter",
];

/// Judges package runners, which download a package and run it.
pub fn package(call: &ProgramCall<'_>, findings: &mut Findings) -> CallOutcome {
    let mut takes = vec![
        "-p",
        "--package",
        "--from",
        "--with",
        "--python",
        "--spec",
        "-c",
        "--call",
    ];
    takes.extend(programs::find(call.name).map_or(&[][..], |entry| entry.value_options()));
    let list = ArgumentList::new(call.arguments, &takes, false);
    let first = list.operands.first().copied().unwrap_or_default();
    let second = list.operands.get(1).copied().unwrap_or_default();
    let created: String;
    let named = call.option_value(&["-p", "--package", "--from", "--spec"]);
    let (package, asks) = match (call.name, first) {
        ("npx", _) => (first, !list.has_any(&["-y", "--yes"])),
        ("bunx" | "pnpx" | "uvx", _) => (first, false),
        ("pipx", "install" | "inject") => {
            install(call, &list, findings);
            return CallOutcome::default();
        }
        ("pipx", "run") | ("pnpm" | "yarn", "dlx") | ("bun", "x") => (second, false),
        ("npm", "exec" | "x") => (second, !list.has_any(&["-y", "--yes"])),
        // The packages of `--with` are installed and can be loaded by the script.
        ("uv", "run") => match call.option_value(&["--with"]) {
            Some(package) => (package, false),
            None => {
                install(call, &list, findings);
                return CallOutcome::default();
            }
        },
        ("uv", "tool") if second == "run" => {
            (list.operands.get(2).copied().unwrap_or_default(), false)
        }
        ("deno", _) => return deno(&list, findings),
        ("yarn", "workspace" | "workspaces") => {
            return CallOutcome {
                inner: in_workspace(call, second),
                ..CallOutcome::default()
            };
        }
        // A program of the project that is installed.
        ("pnpm" | "yarn" | "bun", tool) if KNOWN_PACKAGES.contains(&tool) => {
            return CallOutcome {
                inner: run_tool(call, tool, tool),
                ..CallOutcome::default()
            };
        }
        ("npm" | "pnpm" | "yarn" | "bun", "create" | "init" | "innit") if !second.is_empty() => {
            created = format!("create-{second}");
            (created.as_str(), CREATORS.contains(&plain_name(second)))
        }
        ("npm" | "pnpm" | "yarn" | "bun", "install" | "i" | "add" | "in" | "isntall") => {
            install(call, &list, findings);
            return CallOutcome::default();
        }
        ("npm" | "pnpm", "pkg") if second == "set" => {
            let scripts = list
                .operands
                .iter()
                .filter_map(|setting| setting.strip_prefix("scripts."));
            let texts = scripts.filter_map(|script| Some(script.split_once('=')?.1.to_owned()));
            return CallOutcome {
                inner: texts.map(InnerCommand::Text).collect(),
                ..CallOutcome::default()
            };
        }
        ("go", "run") => (if second.contains('@') { second } else { "" }, false),
        ("pip" | "pip3" | "uv", _) => {
            let installs = ["install", "add", "sync", "download", "wheel", "run"];
            if list
                .operands
                .iter()
                .any(|operand| installs.contains(operand))
            {
                install(call, &list, findings);
            }
            return CallOutcome::default();
        }
        _ => return CallOutcome::default(),
    };
    let texts = match call.name {
        "npx" | "npm" | "pnpx" => call.option_values(&["-c", "--call"]),
        _ => Vec::new(),
    };
    let texts = texts
        .into_iter()
        .map(|text| InnerCommand::Text(text.to_owned()));
    if package.is_empty() {
        return match matches!(call.name, "npx" | "bunx" | "pnpx" | "uvx") {
            true => {
                findings.add(Network, "");
                CallOutcome {
                    inner: texts.collect(),
                    ..CallOutcome::complete()
                }
            }
            false => CallOutcome::default(),
        };
    }
    let name = named.unwrap_or(package);
    let plain = plain_name(name);
    // A repository or an archive is not a package of the registry.
    let is_place =
        is_url(name) || name.contains(':') || name.contains('/') && !name.starts_with('@');
    let is_known = KNOWN_PACKAGES.contains(&plain)
        || plain.starts_with("create-")
            && (asks || CREATORS.contains(&plain.trim_start_matches("create-")))
        || [
            "angular/",
            "vue/",
            "nestjs/",
            "playwright/",
            "biomejs/",
            "tailwindcss/",
            "storybook/",
            "changesets/",
            "svelte",
            "sveltejs/",
        ]
        .iter()
        .any(|scope| plain.starts_with(scope));
    match (is_known || asks) && !is_place {
        true => findings.add(Network, format!("may download and run the package {name}")),
        false => findings.add(
            RunsDownloadedCode,
            format!("downloads and runs the package {name}"),
        ),
    }
    match plain {
        "rimraf" | "del-cli" | "npkill" => findings.add(Destroys, "deletes files recursively"),
        "trash-cli" => findings.add(Destroys, "moves files to the trash"),
        _ => {}
    }
    CallOutcome {
        inner: texts
            .chain(run_tool(call, package, plain_name(package)))
            .collect(),
        ..CallOutcome::complete()
    }
}

/// Returns the command that `yarn workspace NAME` and `yarn workspaces foreach` run as one of yarn.
fn in_workspace(call: &ProgramCall<'_>, named: &str) -> Vec<InnerCommand> {
    let rest = call
        .arguments
        .iter()
        .skip_while(|argument| *argument != named)
        .skip(1);
    let options = [
        "--from",
        "--include",
        "--exclude",
        "-j",
        "--jobs",
        "--since",
    ];
    let mut rest = rest.cloned().peekable();
    while let Some(option) = rest.next_if(|argument| argument.starts_with('-')) {
        if options.contains(&option.as_str()) {
            rest.next();
        }
    }
    // The commands of the registry are those of npm.
    let is_registry = rest.next_if(|argument| argument == "npm").is_some();
    let name = if is_registry { "npm" } else { "yarn" };
    match rest.peek() {
        Some(_) => vec![InnerCommand::Arguments(
            std::iter::once(name.to_owned()).chain(rest).collect(),
        )],
        None => Vec::new(),
    }
}

/// Returns the command that a package runner runs: a tool that is known, with the arguments after its name.
fn run_tool(call: &ProgramCall<'_>, operand: &str, tool: &str) -> Vec<InnerCommand> {
    let at = call
        .arguments
        .iter()
        .position(|argument| argument == operand);
    let rest = at
        .and_then(|at| call.arguments.get(at + 1..))
        .unwrap_or_default();
    if tool == "concurrently" {
        let texts = ArgumentList::new(rest, &["-n", "--names", "-c", "--prefix-colors"], false);
        let run = |text: &&str| match text.strip_prefix("npm:") {
            Some(script) => format!("npm run {script}"),
            None => (*text).to_owned(),
        };
        return texts
            .operands
            .iter()
            .map(run)
            .map(InnerCommand::Text)
            .collect();
    }
    let rest = rest
        .iter()
        .skip_while(|argument| *argument == "--")
        .cloned();
    // The commands of a shell for Windows.
    let name = Some(tool.to_owned()).filter(|tool| tool != "shx");
    let arguments: Vec<String> = name.into_iter().chain(rest).collect();
    let tool = arguments.first().map_or(tool, String::as_str);
    let is_known = programs::find(tool).is_some() || wrapped(tool, &arguments).is_some();
    match is_known {
        true => vec![InnerCommand::Arguments(arguments)],
        false => Vec::new(),
    }
}

fn deno(list: &ArgumentList<'_>, findings: &mut Findings) -> CallOutcome {
    let is_remote = |operand: &&str| {
        operand.contains("://") || operand.starts_with("npm:") || operand.starts_with("jsr:")
    };
    let first = list.operands.first().copied().unwrap_or_default();
    let runs = matches!(
        first,
        "run" | "serve" | "install" | "i" | "x" | "test" | "bench" | "eval" | "compile"
    ) || first.contains("://");
    if runs && list.operands.iter().any(is_remote) {
        findings.add(RunsDownloadedCode, "runs a download");
    }
    findings.add(Writes, "");
    match first == "run" {
        true => CallOutcome::complete(),
        false => CallOutcome::default(),
    }
}

/// Returns the name of a package without `@` and version.
fn plain_name(name: &str) -> &str {
    let plain = name.trim_start_matches('@');
    plain.split('@').next().unwrap_or(plain)
}

/// Whether an operand names a place instead of a package of the registry.
pub fn is_url(operand: &str) -> bool {
    const FORGES: [&str; 5] = ["git@", "github:", "gitlab:", "sourcehut:", "github.com/"];
    let is_scheme = |start: &str| {
        let known = ["", "oci", "file", "docker"];
        !known.contains(&start) && start.chars().all(|c| c.is_ascii_alphanumeric() || c == '+')
    };
    let mut places = operand
        .split(" @ ")
        .filter_map(|place| place.split_once("://")?.0.rsplit("::").next());
    places.any(is_scheme)
        || operand.contains("git+")
        || FORGES.iter().any(|forge| operand.starts_with(forge))
}

/// Whether all addresses of a list are usual sources of packages: `https://proxy.golang.org,direct`.
pub fn is_official(sources: &str) -> bool {
    const HOSTS: [&str; 9] = [
        "files.pythonhosted.org",
        "formulae.brew.sh",
        "index.crates.io",
        "proxy.golang.org",
        "pypi.org",
        "pypi.python.org",
        "registry.npmjs.org",
        "registry.yarnpkg.com",
        "rubygems.org",
    ];
    let mut parts = sources.split([',', '|', ' ', '\t', '\n']);
    parts.all(|part| {
        let address = part.trim_start_matches("sparse+").strip_prefix("https://");
        let host = address.and_then(|address| address.split(['/', '?', '#', '\\']).next());
        // The words of `GOPROXY`.
        matches!(part, "" | "direct" | "off") || host.is_some_and(|host| HOSTS.contains(&host))
    })
}

/// Judges the source of an installation: an archive or a repository runs its code without any review.
fn install(call: &ProgramCall<'_>, list: &ArgumentList<'_>, findings: &mut Findings) {
    let is_script = matches!(call.name, "npm" | "pnpm" | "yarn" | "bun");
    let is_place = |operand: &&str| {
        let is_short = is_script
            && !operand.starts_with(['@', '.', '/', '~'])
            && (operand.contains('/') || operand.contains(':'))
            && !["npm:", "workspace:", "file:", "link:", "portal:"]
                .iter()
                .any(|scheme| operand.contains(scheme));
        is_url(operand) || is_short
    };
    let sources = [
        "-i",
        "--index-url",
        "--extra-index-url",
        "--index",
        "--default-index",
        "-f",
        "--find-links",
        "--registry",
        "-e",
        "--editable",
        "-r",
        "--requirement",
    ];
    let sources: &[&str] = match is_script {
        true => &["--registry"],
        false => &sources,
    };
    let is_official = |source: &&str| !is_url(source) || is_official(source);
    let known = call.option_values(sources).iter().all(is_official);
    let mut operands = list
        .operands
        .iter()
        .filter(|operand| !is_official(operand) || !is_url(operand));
    if !known || operands.any(is_place) {
        findings.add(
            RunsDownloadedCode,
            "installs or runs a download, which runs its code",
        );
    }
}

/// Judges other programs that install packages, from a place that is named.
pub fn other(call: &ProgramCall<'_>, findings: &mut Findings) -> CallOutcome {
    let is_plugin = matches!(call.name, "asdf" | "mise");
    let mut arguments = call.arguments.iter();
    let names_place = arguments.any(|argument| {
        let value = argument
            .split_once('=')
            .map_or(argument.as_str(), |(_, value)| value);
        is_url(value)
    });
    let adds = call
        .arguments
        .iter()
        .any(|argument| argument.starts_with("plugin"))
        && call
            .arguments
            .iter()
            .any(|argument| matches!(argument.as_str(), "add" | "install" | "i" | "update"));
    if names_place && (!is_plugin || adds) {
        findings.add(
            RunsDownloadedCode,
            "installs or runs a download, which runs its code",
        );
    } else if call.name == "brew" && installs_of_tap(&call.list().operands) {
        findings.add(Unknown, "installs a package of a source that is not known");
    } else if is_plugin && adds {
        findings.add(Unknown, "installs a plugin, which runs its code");
    }
    CallOutcome::default()
}

/// Whether Homebrew installs a package of a source that it adds: `USER/SOURCE/NAME`.
fn installs_of_tap(operands: &[&str]) -> bool {
    let Some(("install" | "reinstall" | "upgrade", names)) =
        operands.split_first().map(|(first, names)| (*first, names))
    else {
        return false;
    };
    names.iter().any(|name| {
        let is_path = name.starts_with(['.', '/', '~']);
        !is_path && !name.starts_with("homebrew/") && name.matches('/').count() == 2
    })
}

/// Judges nix: packages and shells of a flake.
pub fn nix(call: &ProgramCall<'_>, findings: &mut Findings) -> CallOutcome {
    let mut own = call.arguments.split(|a| a == "-c" || a == "--command");
    let own = ProgramCall {
        arguments: own.next().unwrap_or_default(),
        ..*call
    };
    let list = own.list();
    let (first, second) = (
        list.operands.first().copied().unwrap_or_default(),
        list.operands.get(1).copied().unwrap_or_default(),
    );
    let is_local = second.is_empty() || second.starts_with(['.', '/', '#']);
    match first {
        "run" if is_local => findings.add(Unknown, "downloads, builds and runs a package"),
        "run" => findings.add(RunsDownloadedCode, "downloads and runs a package"),
        "develop" | "print-dev-env" if !is_local => {
            findings.add(RunsDownloadedCode, "runs the settings of a download")
        }
        _ => {}
    }
    // The table is not asked about the command behind `-c`.
    CallOutcome {
        rewritten: Some(("nix", own.arguments.to_vec())),
        ..CallOutcome::default()
    }
}

/// Judges `java`: an archive that is a program of the table gets the arguments of that program.
pub fn java(call: &ProgramCall<'_>) -> CallOutcome {
    let mut arguments = call.arguments.iter();
    let archive = arguments
        .find(|argument| *argument == "-jar")
        .and_then(|_| arguments.next());
    let name = archive.and_then(|path| path.rsplit('/').next()?.strip_suffix(".jar"));
    let Some(name) = name.filter(|name| programs::find(name).is_some()) else {
        return CallOutcome::default();
    };
    let program = std::iter::once(name.to_owned()).chain(arguments.cloned());
    CallOutcome {
        inner: vec![InnerCommand::Arguments(program.collect())],
        ..CallOutcome::default()
    }
}
