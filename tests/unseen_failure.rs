//! After a failed command whose output the terminal does not report, `llm` says so once.

use crate::fakes::provider::{MODEL, Provider, Script};
use crate::support::helper::Helper;
use crate::support::home::{Home, helper};
use crate::support::pty::Zsh;

#[test]
fn a_question_of_a_shell_that_the_daemon_does_not_know_says_so() {
    let helper = Helper::saying("answer");
    let told = |words: &[&str]| {
        let asked = helper.call(["ask", "--shell", "77-abc", "--"]).args(words);
        asked.run().stderr
    };
    let notice = "[aish] the last command and its output are not known";
    assert!(told(&["fix", "it"]).starts_with(notice));
    assert_eq!(told(&["write", "a", "haiku"]), "");
}

#[test]
fn an_unseen_failure_is_mentioned_once() {
    let answers = (0..6).map(|n| Script::tokens([format!("answer {n}")]));
    let provider = Provider::start(answers);
    let home = Home::new();
    let table = format!(
        "[models.fake]\nbase_url = \"{}\"\nmodel = \"{MODEL}\"\n",
        provider.base_url()
    );
    std::fs::create_dir(home.path("aish/config")).unwrap();
    std::fs::write(home.path("aish/config/config.toml"), table).unwrap();
    let mut zsh = Zsh::start(&home);
    // After this answer the daemon runs, and the hook of the next prompt reports the shell to it.
    zsh.run("llm hello");
    let notice_count = |zsh: &Zsh<'_>| {
        zsh.screen()
            .matches("does not let aish read its output")
            .count()
    };

    zsh.run("sh -c 'exit 5'");
    zsh.run("llm write a haiku");
    assert!(zsh.screen().contains("answer 1"), "{}", zsh.screen());
    assert_eq!(notice_count(&zsh), 0, "another question");

    zsh.run("sh -c 'exit 3'");
    zsh.send("llm why did that fail\r");
    zsh.wait_text("run it again, for its output?");
    zsh.press_until("n", "no\r\n");
    zsh.prompt();
    assert!(zsh.screen().contains("answer 2"), "{}", zsh.screen());
    assert!(
        zsh.screen().contains("sh -c 'exit 3' exited with 3;"),
        "{}",
        zsh.screen()
    );
    assert_eq!(notice_count(&zsh), 1);
    assert!(!zsh.screen().contains("2>&1"), "no advice to run it again");
    zsh.run("llm why now");
    assert_eq!(notice_count(&zsh), 1, "reported once");

    // Nobody reads what the hook of this command reports.
    let stopped = std::process::Command::new(helper())
        .arg("stop")
        .env_clear()
        .envs(home.env())
        .status();
    assert!(stopped.expect("aish-helper").success());
    zsh.run("sh -c 'exit 4'");
    zsh.send("llm why did that fail\r");
    zsh.wait_text("sh -c 'exit 4' exited with 4;");
    zsh.wait_text("run it again, for its output?");
    zsh.press_until("n", "no\r\n");
    zsh.prompt();
    assert!(zsh.screen().contains("answer 4"), "{}", zsh.screen());
    let seen = notice_count(&zsh);

    zsh.run("false");
    zsh.run("print boom | llm why did that fail");
    assert!(zsh.screen().contains("answer 5"), "{}", zsh.screen());
    assert_eq!(notice_count(&zsh), seen, "not reported with attached input");
}
