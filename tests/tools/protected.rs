//! Calls and commands that reach aish's own files or the start-up files of a shell are asked about, whatever allows them.

use aish::protocol::Request;
use aish::protocol::tools::ApprovalVerdict;
use serde_json::json;

use super::{Client, Tools};
use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;
use crate::support::shell_id;

const ALLOWED: &str = "[policy.rules]\n\"fs.*\" = \"allow\"\nshell = \"allow\"\n";

/// A model that calls `fs.write` with the prompt as arguments, and answers after the result.
fn obedient() -> Helper {
    Helper::with(Provider::answering(|request| {
        let messages = request.json["messages"].as_array().expect("messages");
        let last = messages.last().expect("a message");
        if last["role"] == "tool" {
            return Script::tokens(["done"]);
        }
        let text = last["content"].as_str().expect("a prompt");
        let mut lines = text.lines().rev();
        let arguments = lines.find(|line| line.starts_with('{'));
        let arguments = arguments.expect("arguments");
        Script::calls("", &[("c", "fs.write", arguments)])
    }))
}

#[test]
fn every_spelling_of_a_protected_path_is_asked_about() {
    let tools = Tools::with(obedient(), ALLOWED);
    let home = tools.helper.home.path("");
    let home = home.to_str().expect("text").trim_end_matches('/');
    let project = tools.helper.home.path("project");
    std::fs::create_dir(&project).expect("a directory");
    let link = |name: &str, target: String| {
        std::os::unix::fs::symlink(target, project.join(name)).expect("a symlink");
    };
    link("inner", format!("{home}/aish/config"));
    link("relative", "../aish/config/config.toml".to_owned());
    link("dangling", format!("{home}/aish/state/new"));
    link("chain", "inner".to_owned());
    std::fs::hard_link(home.to_owned() + "/.zshrc", project.join("hard")).expect("a hard link");
    link("root", "/proc/self/root".to_owned());
    std::fs::create_dir_all(tools.helper.path("data/journal")).expect("a directory");
    let audit = tools.helper.path("data/journal/own.jsonl");
    std::fs::write(&audit, "").expect("a file");
    std::fs::hard_link(audit, project.join("hard-journal")).expect("a hard link");
    let many: Vec<String> = (0..40).map(|n| format!("{home}/project/d{n}")).collect();
    let mut spellings = vec![
        json!({ "path": "p*/in*/config.toml" }),
        json!({ "path": "~/project/rel*" }),
        json!({ "path": "project/ha*" }),
        json!({ "path": "project/hard-journal" }),
        json!({ "path": format!("project/root{home}/x") }),
        json!({ "dir": "project", "name": "inner/config.toml" }),
        json!({ "others": many, "dir": project, "name": "inner/config.toml" }),
        json!({ "command": "cd project && echo x >> inner/config.toml" }),
        json!({ "command": "cd ~/aish && rm -r config" }),
        json!({ "cwd": "~", "command": "mv aish x" }),
        json!({ "json": "{\"path\":\"~\\u002faish\\/config\"}" }),
        json!({ "path": "~/aish/config/config.toml" }),
        json!({ "path": "$HOME/aish/config/config.toml" }),
        json!({ "path": "${AISH_HOME}/config/config.toml" }),
        json!({ "path": "aish/config/config.toml" }),
        json!({ "path": "./project/../aish/config/config.toml" }),
        json!({ "path": "project/missing/../../aish/data/journal/audit.jsonl" }),
        json!({ "path": "project/inner/config.toml" }),
        json!({ "path": "project/chain/new.toml" }),
        json!({ "path": "project/relative" }),
        json!({ "path": "project/dangling" }),
        json!({ "path": "project/hard" }),
        json!({ "path": "project/inner/" }),
        json!({ "path": "a*/config/*" }),
        json!({ "path": "/proc/self/cwd/config.toml" }),
        json!({ "path": "/proc/self/root/x" }),
        json!({ "k": { "project/relative": "x" } }),
        json!({ "paths": ["x", ["~/.zshrc"]] }),
        json!({ "dir": project, "name": "inner/config.toml" }),
        json!({ "path": "any/where/.aish.toml" }),
        json!({ "path": ".bashrc" }),
        json!({ "command": "echo x >> ~/aish/config/config.toml" }),
        json!({ "command": "sed -i s/a/b/ project/relative;ls" }),
    ];
    for text in [
        "",
        "file://",
        "file://localhost",
        "/.",
        "//",
        "/proc/self/root",
    ] {
        let path = format!("{text}{home}/aish/config/config.toml");
        spellings.push(json!({ "path": path }));
    }
    let encoded = home.replace('/', "%2F");
    spellings.push(json!({ "uri": format!("file://{encoded}%2Faish%2Fconfig%2Fconfig.toml") }));
    spellings.push(json!({ "path": format!("{home}/aish/config/config.toml\0.txt") }));
    spellings.push(json!({ "path": home }));
    let mut spellings: Vec<String> = spellings.iter().map(ToString::to_string).collect();
    // An integer that not every parser reads.
    let number = format!("1{}", "0".repeat(310));
    spellings.push(format!("{{\"n\":{number},\"path\":\"~/.zshrc\"}}"));
    for arguments in spellings {
        let mut client = tools.ask(&arguments);
        let question = client.question();
        assert!(
            question.why.starts_with("it reaches "),
            "{arguments}: {}",
            question.why
        );
        assert_eq!(question.offers, [], "nothing would pass it: {arguments}");
        client.say(&question, ApprovalVerdict::Tool);
        client.end();
    }
    let called = tools.called().len();
    // The grants that were asked for cover nothing, and other paths are not asked about.
    for arguments in [
        json!({ "path": "project/x", "text": "a/b, ~ and $5" }),
        json!({ "path": "/tmp/aish-x" }),
        json!({ "pattern": "**/*.rs", "n": 1 }),
    ] {
        tools.ask(&arguments.to_string()).end();
    }
    assert_eq!(tools.called().len(), called + 3);
}

#[test]
fn protected_path_without_a_terminal_is_denied_and_deny_stays_deny() {
    let tools = Tools::with(obedient(), ALLOWED);
    let arguments = json!({ "path": "~/.zshrc" }).to_string();
    tools
        .helper
        .call(["ask", "--shell", "s1", "--", &arguments])
        .run();
    assert_eq!(tools.called(), []);
    assert_eq!(
        tools.helper.records_of("approval")[0]["decision"],
        "no_terminal"
    );
    tools.config("[policy.rules]\n\"fs.*\" = \"deny\"\n");
    let seen = tools.ask(&arguments).end();
    let calls = seen.calls();
    assert!(calls[0].ends_with(" blocked"), "{calls:?}");
}

#[test]
fn symlink_made_by_an_earlier_call_is_followed() {
    let call = |id: &'static str| (id, "fs.write", "{\"path\":\"project/x\"}");
    let answers = [
        Script::calls("", &[call("a"), call("b")]),
        Script::tokens(["done"]),
    ];
    let tools = Tools::new(answers, ALLOWED);
    let project = tools.helper.home.path("project");
    std::fs::create_dir(&project).expect("a directory");
    let target = tools.helper.path("config/config.toml");
    tools.behave(move |_| {
        // Only the first call makes it.
        let _ = std::os::unix::fs::symlink(&target, project.join("x"));
        None
    });
    let mut client = tools.ask("x");
    let question = client.question();
    assert_eq!(question.number, 2);
    client.say(&question, ApprovalVerdict::No { words: None });
    client.end();
    assert_eq!(tools.called().len(), 1);
}

#[test]
fn command_is_decided_by_the_rules_at_the_start_of_its_turn_and_by_stricter_ones() {
    let answers = [
        Script::calls("", &[("a", "fs.read", "{}")]),
        Script::tokens(["CMD: touch proof\n"]),
    ];
    let tools = Tools::new(answers, "[policy.rules]\n\"fs.*\" = \"allow\"\n");
    let config = tools.helper.path("config/config.toml");
    tools.behave(move |_| {
        let mut text = std::fs::read_to_string(&config).expect("the config");
        text.push_str("shell = \"allow\"\n");
        std::fs::write(&config, text).expect("the config");
        None
    });
    assert_eq!(tools.ask("x").end().answer.proposals, 1);
    assert!(next(&tools.helper).confirm);
}

#[test]
fn command_that_reaches_a_protected_file_is_asked_about() {
    for (command, confirm) in [
        ("echo x >> ~/.zshrc", true),
        ("cp x ${HOME}/aish/config/config.toml", true),
        ("cat project/.aish.toml", true),
        ("cd aish; echo x >> config/config.toml", true),
        ("mv aish x", true),
        ("rm -r $UNKNOWN/aish", true),
        ("echo x >> $'\\x7e'/aish/config/config.toml", true),
        ("ln -s ~/aish d && echo x >> d/config/config.toml", true),
        ("eval \"$(echo ZWNobyB4 | base64 -d)\"", true),
        ("ls -l; echo a/b", false),
        ("cd project && make && ls ~", false),
    ] {
        let helper = Helper::saying(Box::leak(format!("CMD: {command}\n").into_boxed_str()));
        let tools = Tools::with(helper, ALLOWED);
        tools.ask("x").end();
        assert_eq!(next(&tools.helper).confirm, confirm, "{command}");
    }
}

#[test]
fn single_word_that_is_a_link_to_a_protected_file_is_asked_about() {
    for (command, confirm) in [
        ("echo x >> hard", true),
        ("tee -a {soft,y}", true),
        ("sed -i s/a/b/ h?rd", true),
        ("cp -r x dir", true),
        ("echo x >> other", false),
        ("cat plain && touch y", false),
        ("cd .. && ls", false),
        ("awk '{print $1}' a.txt | sort | uniq -c", false),
    ] {
        let helper = Helper::saying(Box::leak(format!("CMD: {command}\n").into_boxed_str()));
        let tools = Tools::with(helper, ALLOWED);
        let config = tools.helper.path("config/config.toml");
        let here = |name: &str| tools.helper.home.path(name);
        std::fs::hard_link(&config, here("hard")).expect("a link");
        std::fs::write(here("plain"), "").expect("a file");
        let links = [
            ("soft", config),
            ("dir", here("aish")),
            ("other", here("plain")),
        ];
        for (name, target) in links {
            std::os::unix::fs::symlink(target, here(name)).expect("a link");
        }
        tools.ask("x").end();
        assert_eq!(next(&tools.helper).confirm, confirm, "{command}");
    }
}

#[test]
fn start_up_files_are_those_of_the_shell_that_asks() {
    let tools = Tools::with(Helper::saying("CMD: echo x >> dots/extra\n"), ALLOWED);
    tools.ask("x").end();
    assert!(!next(&tools.helper).confirm);
    let dots = tools.helper.home.path("dots").display().to_string();
    for name in ["ZDOTDIR", "XDG_CONFIG_HOME"] {
        let place = match name {
            "ZDOTDIR" => dots.clone(),
            _ => tools.helper.home.path("").display().to_string(),
        };
        let proposal = next_with(&tools.helper, [(name.to_owned(), place)].into());
        assert_eq!(proposal.confirm, name == "ZDOTDIR", "{name}");
    }
}

/// Returns the command that waits.
fn next(helper: &Helper) -> aish::protocol::Proposal {
    next_with(helper, Default::default())
}

fn next_with(
    helper: &Helper,
    overrides: std::collections::BTreeMap<String, String>,
) -> aish::protocol::Proposal {
    let request = Request::NextProposal {
        shell: shell_id("s1"),
        cwd: helper.home.path("").display().to_string(),
        overrides,
    };
    Client::request(helper, &request).reply()
}
