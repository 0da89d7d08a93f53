//! `aish-helper model add`: guided on a terminal, and said on the command line.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;
use crate::support::home::{Home, helper};
use crate::support::pty::Zsh;

const KEY: &str = "k-0123456789abcdef";

/// A server with a key and more models than one list shows.
fn provider() -> Provider {
    let mut ids: Vec<String> = (1..=20).map(|n| format!("llama-{n}b")).collect();
    ids.extend(["text-embed-1", "qwen3:8b", "qwen3:32b", "a\u{1b}[2Jb"].map(str::to_owned));
    let list: Vec<_> = ids.iter().map(|id| json!({ "id": id })).collect();
    let provider = Provider::answering(|_| Script::tokens(["fine, ", "thanks"]));
    let list = Script::status(200, &json!({ "data": list }).to_string());
    provider.models(list).only_key(KEY)
}

/// Waits until `text` is on the screen `n` times.
fn wait_nth(zsh: &Zsh<'_>, text: &str, n: usize) {
    zsh.wait_for(&format!("{text:?} {n} times"), |screen| {
        screen.contents().matches(text).count() == n
    });
}

#[test]
fn a_server_is_asked_for_its_models_and_the_picked_one_answers() {
    let provider = provider();
    let home = Home::new();
    let mut zsh = Zsh::start(&home);
    zsh.send(format!("{} model add\r", helper()));
    zsh.wait_text("Servers on this machine: ollama");
    zsh.send("olama\r");
    zsh.wait_text("olama: is neither a known server nor an address");
    let bare = provider.base_url();
    let bare = bare.trim_end_matches("/v1");
    wait_nth(&zsh, "Which, or the base URL", 2);
    zsh.send(format!("{bare}\r"));
    zsh.wait_text("API key of the server");
    zsh.send("k-wrong\r");
    // The key alone is asked again.
    zsh.wait_text("refuses access (401)");
    wait_nth(&zsh, "API key of the server", 2);
    zsh.send(format!("{KEY}\r"));
    zsh.wait_text("Enter for llama-1b:");
    let screen = zsh.screen();
    assert!(
        screen.contains("15  llama-15b") && !screen.contains("llama-16b"),
        "{screen}"
    );
    assert!(screen.contains("… 8 more"), "{screen}");
    // A hidden entry has no number: 20 is a part of a name.
    zsh.send("20\r");
    zsh.wait_text("match 20: 1");
    zsh.send("2J\r");
    zsh.wait_text("match 2J: 1");
    zsh.wait_text("1  a‹\\x1b›[2Jb");
    wait_nth(&zsh, "Which? A number", 3);
    zsh.send("QWEN\r");
    zsh.wait_text("match QWEN: 2");
    zsh.send("2\r");
    zsh.wait_text("Enter for qwen3:32b:");
    zsh.send("a b\r");
    zsh.wait_text("a model's name has 1 to 64");
    wait_nth(&zsh, "Its name in aish?", 2);
    zsh.send("big\r");
    zsh.wait_text("added big, which is the default model now (qwen3:32b)");
    zsh.prompt();
    let screen = zsh.eval("print -r -- \"$(llm how are you)\"");
    assert!(screen.contains("fine, thanks"), "{screen}");
    let asked = provider.requests();
    let body = asked.last().unwrap().json.clone();
    assert_eq!(body["model"], "qwen3:32b");

    let shown = String::from_utf8_lossy(&zsh.raw()).into_owned();
    assert!(!shown.contains(KEY) && !shown.contains("k-wrong"));
    assert!(!shown.contains("a\u{1b}[2Jb"), "{shown}");
    let config = home.read("aish/config/config.toml");
    assert!(
        config.contains("default_model = \"big\"") && !config.contains(KEY),
        "{config}"
    );
    let key = home.path("aish/config/keys/big");
    assert_eq!(std::fs::read_to_string(&key).unwrap(), KEY);
    assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    // A second one asks for another name, and whether it is to be the default.
    zsh.run("clear");
    zsh.send(format!("{} model add {bare}\r", helper()));
    zsh.wait_text("API key of the server");
    zsh.send(format!("{KEY}\r"));
    zsh.wait_text("Enter for llama-1b:");
    zsh.send("\r");
    zsh.wait_text("Its name in aish? Enter for llama-1b:");
    zsh.send("big\r");
    zsh.wait_text("a model named big is configured already");
    wait_nth(&zsh, "Its name in aish?", 2);
    zsh.send("team/small\r");
    zsh.wait_text("Make team/small the default model, in place of big? [y/N]");
    zsh.send("\r");
    zsh.wait_text("added team/small (llama-1b)");
    zsh.prompt();
    assert!(home.path("aish/config/keys/team%2Fsmall").exists());
    let config = home.read("aish/config/config.toml");
    assert!(config.contains("default_model = \"big\""), "{config}");
    let screen = zsh.eval("print -r -- \"$(llm -m team/small hello)\"");
    assert!(screen.contains("fine, thanks"), "{screen}");
}

#[test]
fn a_key_is_sent_to_another_server_only_on_a_yes_and_leaving_adds_nothing() {
    let home = Home::new();
    let provider = provider();
    let mut zsh = Zsh::start(&home);
    let url = provider.base_url();
    zsh.send(format!("{} model add {url}\r", helper()));
    zsh.wait_text("API key of the server");
    zsh.send("sk-or-v1-0123456789abcdef\r");
    zsh.wait_text("That is a key of openrouter. Send it to 127.0.0.1? [y/N]");
    zsh.send("\r");
    wait_nth(&zsh, "API key of the server", 2);
    assert_eq!(provider.requests().len() + provider.connections(), 0);
    zsh.send("sk-or-v1-0123456789abcdef\r");
    wait_nth(&zsh, "Send it to 127.0.0.1? [y/N]", 2);
    zsh.send("y\r");
    zsh.wait_text("refuses access (401)");
    assert_eq!(provider.connections(), 1);
    wait_nth(&zsh, "API key of the server", 3);
    zsh.send("\u{3}");
    zsh.wait_text("interrupted");
    zsh.prompt();
    zsh.run("clear");
    zsh.send(format!("{} model add anthropic; print code $?\r", helper()));
    zsh.wait_text("API key of anthropic (hidden):");
    zsh.send("sk-or-v1-0123456789abcdef\r");
    zsh.wait_text("the key belongs to openrouter, and was not sent");
    wait_nth(&zsh, "API key of anthropic (hidden):", 2);
    zsh.send("\u{4}");
    zsh.wait_text("nothing was added");
    zsh.wait_text("code 130");
    zsh.prompt();
    assert!(!home.path("aish/config/config.toml").exists());
    assert!(!home.path("aish/config/keys").exists());
}

#[test]
fn without_a_terminal_everything_is_said() {
    let helper = Helper::with(provider());
    helper.config("");
    let base_url = helper.provider.base_url();
    let add = |words: &[&str]| {
        let call = helper.call(["model", "add"]).args(words);
        call.env("WORK_KEY", KEY).env_remove("OPENAI_API_KEY").run()
    };
    let error = add(&[]).fails(2);
    assert!(
        error.contains("no terminal to ask for the server"),
        "{error}"
    );
    let error = add(&[&base_url, "--key-env", "WORK_KEY"]).fails(2);
    assert!(error.contains("--model MODEL"), "{error}");
    let error = add(&["openai", "--model", "m"]).fails(2);
    assert!(error.contains("--key-env VARIABLE"), "{error}");
    // The key of another provider.
    let stray = |server: &str, model: &str| {
        let words = [
            "model",
            "add",
            server,
            "--model",
            model,
            "--key-env",
            "OPENAI_API_KEY",
        ];
        let call = helper
            .call(words)
            .env("OPENAI_API_KEY", "sk-proj-0123456789abcdef");
        call.run().fails(2)
    };
    for server in ["anthropic", base_url.as_str()] {
        let error = stray(server, "m");
        assert!(
            error.contains("the key belongs to openai, and was not sent"),
            "{error}"
        );
    }
    assert_eq!(helper.provider.connections(), 0);
    // With OPENAI_BASE_URL the key is for that server.
    let call = helper.call(["model", "add", "openai", "--model", "m"]);
    let call = call
        .env("OPENAI_API_KEY", "k-1234567")
        .env("OPENAI_BASE_URL", &base_url);
    let error = call.run().fails(2);
    assert!(error.contains("--key-env VARIABLE"), "{error}");
    let error = add(&["nowhere", "--model", "m"]).fails(2);
    assert!(error.contains("name one of openai"), "{error}");
    let error = add(&[&base_url, "--model", "m", "--name", "fake"]).fails(2);
    assert!(
        error.contains("a model named fake is configured already"),
        "{error}"
    );
    // A key in place of the name of a variable is not repeated.
    let error = add(&[&base_url, "--model", "m", "--key-env", KEY]).fails(2);
    assert!(!error.contains(KEY), "{error}");
    let error = add(&[&base_url, "--model", "m"]).fails(1);
    assert!(error.contains("refuses access (401)"), "{error}");
    let far = "http://llm.example/v1";
    let error = add(&[far, "--model", "m", "--key-env", "WORK_KEY"]).fails(3);
    assert!(error.contains("https"), "{error}");
    let before = std::fs::read_to_string(helper.path("config/config.toml")).unwrap();
    assert!(!before.contains("WORK_KEY"), "{before}");

    let words = [&base_url, "--model", "qwen3:8b", "--key-env", "WORK_KEY"];
    let added = add(&words).ok();
    assert!(added.starts_with("added qwen3:8b (qwen3:8b)"), "{added}");
    let config = std::fs::read_to_string(helper.path("config/config.toml")).unwrap();
    assert!(config.contains("key_env = \"WORK_KEY\""), "{config}");
    assert!(config.contains("default_model = \"fake\""), "{config}");
    assert!(added.contains("once you confirm it"), "{added}");
    let ask = helper.call(["ask", "-m", "qwen3:8b", "hello"]);
    let error = ask.env("WORK_KEY", KEY).run().fails(3);
    assert!(
        error.contains("to see and confirm them, run llm in a terminal"),
        "{error}"
    );
    // A name that is another server's is not taken unasked: `-m openai/x` would go there.
    let named = add(&[&base_url, "--model", "openai/gpt", "--key-env", "WORK_KEY"]).ok();
    assert!(named.starts_with("added 127.0.0.1/openai/gpt ("), "{named}");
    let words = [&words[..], &["--name", "again", "--default"]].concat();
    let added = add(&words).ok();
    assert!(
        added.starts_with("added again, which is the default model now"),
        "{added}"
    );
}

#[test]
fn a_local_server_that_wants_a_key_is_given_one_chance_to_ask() {
    // The port of a server on this machine is fixed, so that another program may have it.
    let Ok(listener) = std::net::TcpListener::bind("127.0.0.1:1234") else {
        return;
    };
    let requests = std::thread::spawn(move || {
        let mut seen = Vec::new();
        for stream in listener.incoming().take(2) {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") {
                std::io::Read::read_exact(&mut stream, &mut byte).unwrap();
                head.push(byte[0]);
            }
            seen.push(String::from_utf8(head).unwrap());
            let answer = "HTTP/1.1 401 X\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
            std::io::Write::write_all(&mut stream, answer.as_bytes()).unwrap();
        }
        seen
    });
    let home = Home::new();
    let mut zsh = Zsh::start(&home);
    zsh.send(format!("{} model add lmstudio\r", helper()));
    zsh.wait_text("refuses access (401)");
    zsh.wait_text("API key of the server");
    zsh.send(format!("{KEY}\r"));
    wait_nth(&zsh, "API key of the server", 2);
    zsh.send("\u{4}");
    zsh.wait_text("nothing was added");
    zsh.prompt();
    let seen = requests.join().unwrap();
    assert!(
        !seen[0].contains("authorization") && seen[1].contains(KEY),
        "{seen:?}"
    );
}
