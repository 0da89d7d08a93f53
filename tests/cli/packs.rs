//! Prompt packs: what is sent, what is recorded, and the approval of a project's packs.

use serde_json::json;

use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;
use crate::support::pty::Zsh;

fn helper() -> Helper {
    let helper = Helper::with(Provider::answering(|_| Script::tokens(["ok"])));
    helper.home.zshrc("");
    helper
}

fn write(helper: &Helper, name: &str, text: &str) {
    let path = helper.home.path(name);
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
    std::fs::write(path, text).expect("a pack");
}

/// Asks with these options, and returns the system prompt that was sent.
fn system<'a>(helper: &Helper, options: impl IntoIterator<Item = &'a str>) -> String {
    let words = ["ask"].into_iter().chain(options).chain(["--", "hi"]);
    helper.call(words).run().ok();
    let last = helper.provider.requests().len() - 1;
    let (role, text) = helper.messages(last).swap_remove(0);
    assert_eq!(role, "system");
    text
}

#[test]
fn pack_is_sent_and_recorded() {
    let helper = helper();
    write(
        &helper,
        "aish/config/prompts/coding.toml",
        "version = \"3\"\nsystem = \"You write code.\"\ntools = \"Use few tools.\"\nformat = \"No tables.\"\nsafety = \"Keep files.\"\n",
    );
    write(
        &helper,
        "aish/config/prompts/more/system_append.md",
        "Be kind.",
    );
    write(
        &helper,
        ".claude/skills/pdf/SKILL.md",
        "---\ndescription: d\n---\nUse pdftotext.",
    );
    let built_in = system(&helper, []);
    assert_eq!(
        system(&helper, ["--prompt", "@coding"]),
        "You write code.\nNo tables.\nKeep files.",
        "without tools, nothing about them"
    );
    assert_eq!(
        system(&helper, ["--prompt=more"]),
        format!("{built_in}\nBe kind.")
    );
    let skill = system(&helper, ["--prompt", "@pdf"]);
    assert!(
        skill.starts_with(&format!("{built_in}\nUse pdftotext.\nThe files that")),
        "{skill}"
    );
    helper.config("");
    let path = helper.path("config/config.toml");
    let text = std::fs::read_to_string(path).expect("a configuration");
    helper.config_file(&format!(
        "default_prompt = \"@more\"\nsystem_append = \"Prefer rg.\"\n{text}"
    ));
    let default = system(&helper, []);
    assert_eq!(default, format!("{built_in}\nPrefer rg.\nBe kind."));
    assert_eq!(
        system(&helper, ["--prompt", "none"]),
        format!("{built_in}\nPrefer rg.")
    );

    let users = helper.records_of("user");
    let packs: Vec<_> = users.iter().map(|user| user.get("pack").cloned()).collect();
    let shown = helper
        .call(["prompt", "show", "@coding", "--json"])
        .run()
        .json();
    assert_eq!(packs[0], None);
    assert_eq!(
        packs[1],
        Some(json!({ "name": "coding", "version": "3", "sha256": shown["sha256"] }))
    );
    assert_eq!(packs[2].as_ref().expect("a pack")["name"], "more");
    assert_eq!(packs[5], None);
    let stats = helper
        .call(["stats", "--by", "pack", "--json"])
        .run()
        .json();
    let names = stats.to_string();
    assert!(
        names.contains("\"coding\"") && names.contains("\"pdf\""),
        "{names}"
    );

    let message = helper
        .call(["ask", "--prompt", "@codng", "--", "hi"])
        .run()
        .fails(2);
    assert!(message.contains("did you mean @coding?"), "{message}");
    let command = helper.call(["ask", "--command", "--prompt", "@gone", "--", "list"]);
    command.run().ok();
}

#[test]
fn packs_are_listed_and_shown() {
    let helper = helper();
    let text = helper.call(["prompt", "list"]).run().ok();
    assert!(text.starts_with("no prompt packs; write one: "), "{text}");
    write(
        &helper,
        "aish/config/prompts/coding.toml",
        "description = \"Code\\u001b[2J\"\nsystem = \"One.\\nTwo.\\u0007\"\n",
    );
    write(&helper, ".aish/prompts/style.toml", "format = \"Tabs.\"\n");
    write(&helper, ".aish/prompts/wrong.toml", "frmat = \"Tabs.\"\n");
    let text = helper.call(["prompt", "list"]).run().ok();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("@coding  user"), "{text}");
    assert!(
        lines[1].starts_with("@style   project, not approved"),
        "{text}"
    );
    assert!(
        lines[2].starts_with("! ") && lines[2].contains("did you mean format?"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'));
    let text = helper.call(["prompt", "show", "coding"]).run().ok();
    assert!(text.contains("\nsystem:\n  One.\n  Two.‹"), "{text}");
}

#[test]
fn pack_of_a_project_is_used_after_an_approval_of_its_text() {
    let helper = helper();
    let pack = ".aish/prompts/style.toml";
    write(
        &helper,
        pack,
        "version = \"1\"\nsystem_append = \"Use tabs.\\u001b[2J\"\n",
    );
    let built_in = system(&helper, []);
    let sent = || helper.provider.requests().len();

    // Without a terminal nothing is sent, and a pack that is not named is not used.
    let refused = helper.call(["ask", "--prompt", "@style", "--", "hi"]).run();
    let message = refused.fails(4);
    assert!(
        message.contains("@style of this project is not approved"),
        "{message}"
    );
    assert_eq!(sent(), 1);

    let mut zsh = Zsh::start(&helper.home);
    let ask = |zsh: &mut Zsh<'_>| {
        zsh.run("clear");
        zsh.send("aish-helper ask --prompt @style -- hi; print code=$?\r");
        zsh.wait_text("[n] do not");
        let screen = zsh.screen();
        assert!(
            screen.contains("this project has instructions for the model: @style"),
            "{screen}"
        );
        screen
    };
    let screen = ask(&mut zsh);
    assert!(
        screen.contains("system_append") && screen.contains("Use tabs.‹"),
        "{screen}"
    );
    zsh.press_until("n", "code=4");
    zsh.prompt();
    assert_eq!(sent(), 1);
    ask(&mut zsh);
    // Keys of the answer before are discarded for a while.
    zsh.press_until("y", "code=0");
    zsh.prompt();
    assert_eq!(sent(), 2);
    let system_prompt = system(&helper, ["--prompt", "@style"]);
    assert_eq!(
        system_prompt,
        format!("{built_in}\nUse tabs.\u{1b}[2J"),
        "not asked again"
    );
    let list = helper.call(["prompt", "list"]).run().ok();
    assert!(list.starts_with("@style  project\n"), "{list}");

    write(&helper, pack, "system_append = \"Use spaces.\"\n");
    zsh.run("clear");
    zsh.send("aish-helper ask --dry-run --prompt @style -- hi; print code=$?\r");
    zsh.wait_text("[n] do not");
    zsh.press_until("n", "code=4");
    zsh.prompt();

    let changed = helper.call(["ask", "--prompt", "@style", "--", "hi"]).run();
    changed.fails(4);
    let screen = ask(&mut zsh);
    assert!(screen.contains("Use spaces."), "{screen}");
    zsh.press_until("\u{3}", "nothing was sent");
    assert_eq!(sent(), 3);
}
