//! Programs that download, upload, or run what they download.

use super::{CallOutcome, CommandPlace, Findings, ProgramCall};
use crate::safety::command::class::CommandClass::{
    Destroys, Network, RunsDownloadedCode, Unknown, Writes,
};
use crate::safety::command::programs::ArgumentList;

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

/// Judges `curl`, `wget` and their kind.
pub fn download(
    call: &ProgramCall<'_>,
    place: &CommandPlace<'_>,
    findings: &mut Findings,
) -> CallOutcome {
    let mut outcome = CallOutcome::default();
    let method = call
        .option_value(&["-X", "--request", "--method"])
        .unwrap_or_default();
    let is_delete =
        method.eq_ignore_ascii_case("DELETE") || call.arguments.iter().any(|a| a == "DELETE");
    if is_delete {
        findings.add(Destroys, "sends a request that deletes");
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
        "http" | "https" | "xh" => false,
        _ => targets.is_empty(),
    };
    if keeps_name {
        let urls = call
            .arguments
            .iter()
            .filter(|argument| !argument.starts_with('-'));
        let names = urls.filter_map(|url| url.split(['?', '#']).next()?.rsplit('/').next());
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
        || call
            .arguments
            .iter()
            .any(|a| a.starts_with("--post-file=/etc") || a == "--engine")
    {
        findings.add(Unknown, format!("{} runs a program", call.name));
    }
    outcome.downloads = targets;
    outcome
}

/// Judges `nc` and `socat`, which can connect a shell to the network.
pub fn netcat(call: &ProgramCall<'_>, findings: &mut Findings) -> CallOutcome {
    let list = call.list();
    let runs = match call.name {
        "socat" => call.arguments.iter().any(|a| {
            let a = a.to_ascii_uppercase();
            a.starts_with("EXEC:") || a.starts_with("SYSTEM:") || a.starts_with("SHELL:")
        }),
        _ => list.has_any(&["-e", "-c", "--exec", "--sh-exec"]),
    };
    if runs {
        findings.add_grave(RunsDownloadedCode, "runs commands from the network");
    }
    CallOutcome::default()
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
        {
            findings.add(Unknown, format!("{} runs a program", call.name));
        }
    }
    let operands = call.list().operands;
    if call.name != "ssh"
        && operands
            .iter()
            .any(|path| crate::safety::command::targets::is_secret(path))
    {
        findings.add_grave(
            Destroys,
            "sends a file with keys or passwords over the network",
        );
    }
    if let Some(target) = operands
        .last()
        .filter(|target| call.name != "ssh" && !target.contains(':'))
        && let Some(reason) = place.protected(target)
    {
        findings.add_grave(Destroys, reason);
    }
    outcome
}

/// Judges package runners, which download a package and run it.
pub fn package(call: &ProgramCall<'_>, findings: &mut Findings) -> CallOutcome {
    let takes = &[
        "-p",
        "--package",
        "--from",
        "--with",
        "--python",
        "--spec",
        "-c",
        "--call",
    ];
    let list = ArgumentList::new(call.arguments, takes, false);
    let first = list.operands.first().copied().unwrap_or_default();
    let second = list.operands.get(1).copied().unwrap_or_default();
    let named = call.option_value(&["-p", "--package", "--from", "--spec"]);
    let (package, asks) = match (call.name, first) {
        ("npx", _) => (first, !list.has_any(&["-y", "--yes"])),
        ("bunx" | "pnpx" | "uvx", _) => (first, false),
        ("pipx", "run") | ("pnpm" | "yarn", "dlx") | ("bun", "x") => (second, false),
        ("npm", "exec" | "x") => (second, !list.has_any(&["-y", "--yes"])),
        ("uv", "tool") if second == "run" => {
            (list.operands.get(2).copied().unwrap_or_default(), false)
        }
        ("deno", "run") => return deno(&list, findings),
        ("go", "run") => (if second.contains('@') { second } else { "" }, false),
        ("pip" | "pip3" | "uv", _) => {
            let is_url = list
                .operands
                .iter()
                .any(|operand| operand.starts_with("http://") || operand.starts_with("https://"));
            if is_url && list.operands.contains(&"install") {
                findings.add(
                    RunsDownloadedCode,
                    "installs a download, which runs its code",
                );
            }
            return CallOutcome::default();
        }
        _ => return CallOutcome::default(),
    };
    if package.is_empty() {
        return match matches!(call.name, "npx" | "bunx" | "pnpx" | "uvx") {
            true => {
                findings.add(Network, "");
                CallOutcome::complete()
            }
            false => CallOutcome::default(),
        };
    }
    let name = named.unwrap_or(package);
    let plain = name.trim_start_matches('@');
    let plain = plain.split('@').next().unwrap_or(plain);
    let is_known = KNOWN_PACKAGES.contains(&plain)
        || plain.starts_with("create-")
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
    match is_known || asks {
        true => findings.add(Network, format!("may download and run the package {name}")),
        false => findings.add(
            RunsDownloadedCode,
            format!("downloads and runs the package {name}"),
        ),
    }
    let deletes = matches!(plain, "rimraf" | "del-cli" | "npkill" | "trash-cli");
    if deletes {
        findings.add(Destroys, "deletes files recursively");
    }
    CallOutcome {
        is_complete: true,
        ..CallOutcome::default()
    }
}

fn deno(list: &ArgumentList<'_>, findings: &mut Findings) -> CallOutcome {
    let script = list.operands.get(1).copied().unwrap_or_default();
    if script.contains("://") || script.starts_with("npm:") || script.starts_with("jsr:") {
        findings.add(RunsDownloadedCode, "runs a download");
    }
    findings.add(Writes, "");
    CallOutcome::complete()
}

/// Judges containers: `compose` is a program of its own, and a container may get the files of this machine.
pub fn container(call: &ProgramCall<'_>, findings: &mut Findings) -> CallOutcome {
    let mut outcome = CallOutcome::default();
    let at = call
        .arguments
        .iter()
        .position(|argument| !argument.starts_with('-'));
    let rest = at
        .and_then(|at| call.arguments.get(at..))
        .unwrap_or_default();
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
        findings.add_grave(Destroys, "gives a container the files of this machine");
    }
    outcome
}
