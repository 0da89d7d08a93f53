//! Secrets from every source of text: none is written to disk or sent to a model.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use aish::client::connect;
use aish::paths::Paths;
use aish::protocol::{
    self, CapturedOutput, CapturedText, CommandChoice, DecisionReply, FrameDecoder, Hello,
    Proposal, Request, kind,
};
use serde_json::json;

use crate::fakes::mcp_http::{self, FakeMcpServer};
use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;
use crate::support::shell_id;
use crate::support::terminal;

/// Plain words, which no pattern matches: redacted because the daemon uses it as a key.
const KEY: &str = "correct-horse-battery-of-the-model";
const VARIABLE: &str = "staple-horse-variable-of-the-server";
const PROMPT: &str = "glpat-q7Rk2ZpL9vXw3TbN5mHs";
const FILE: &str = "npm_Vq3ZkT8rWb5LxP2nYc7JdM4hGs9Fa6Ue1KoR";
const CALL: &str = "ghp_q7Rk2ZpL9vXw3TbN5mHs8YdJ4cFg6aQe1uVo";
const STREAM: &str = "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";
const OUTPUT: &str = "sk-ant-api03-Vq3ZkT8rWb5LxP2nYc7JdM4hGs9Fa6Ue1KoR";
const FACT: &str = "sk_live_Zp4Xk9Rw2Tb7Nm5Hs8Yd";
const LOGGED: &str = "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";
const ERROR: &str = "dop_v1_4f8a1c9e7b3d5026a8c4e1f9b7d3605248ac1e9f7b3d5068a2c4e6f8b1d3a507";

const ALL: [&str; 10] = [
    KEY, VARIABLE, PROMPT, FILE, CALL, STREAM, OUTPUT, FACT, LOGGED, ERROR,
];

/// Asserts that the bytes contain no secret and no half of a secret.
fn assert_no_secret(what: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for secret in ALL {
        for part in [
            &secret[..secret.len() / 2 + 4],
            &secret[secret.len() / 2 - 4..],
        ] {
            if let Some(at) = text.find(part) {
                let before: String = text[..at].chars().rev().take(200).collect();
                let before: String = before.chars().rev().collect();
                panic!("{what} has {part} after {before}");
            }
        }
    }
}

/// Checks all files of a directory. Returns the number of files that are not empty.
fn assert_no_secret_in_dir(dir: &Path) -> usize {
    let mut read = 0;
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        let kind = entry.file_type().expect("a type");
        if kind.is_dir() {
            read += assert_no_secret_in_dir(&path);
        } else if kind.is_file() {
            let bytes = fs::read(&path).expect("a file");
            assert_no_secret(&path.display().to_string(), &bytes);
            read += usize::from(!bytes.is_empty());
        }
    }
    read
}

fn paths(helper: &Helper) -> Paths {
    Paths::under(&helper.path(""), nix::unistd::getuid().as_raw()).expect("paths")
}

/// Runs the proposed command with this output, as the plugin does.
fn run_proposed(helper: &Helper, head: &str, tail: &str) -> String {
    let paths = paths(helper);
    let next = Request::NextProposal {
        shell: shell_id("s1"),
        cwd: "/".into(),
        overrides: Default::default(),
    };
    let proposal: Option<Proposal> = connect::request(&paths, &next).expect("an answer");
    let Proposal { token, command, .. } = proposal.expect("a proposal");
    let decide = Request::Decide {
        shell: shell_id("s1"),
        token: token.clone(),
        choice: CommandChoice::Run,
        command: command.clone(),
        cwd: "/".into(),
        asked: true,
        continues: false,
        key: None,
        overrides: Default::default(),
    };
    let decided: DecisionReply = terminal::request(&paths.socket(), &decide).expect("it may run");
    let mut pump = UnixStream::connect(helper.path("run/sock")).expect("the daemon listens");
    let capture = Request::Capture {
        shell: shell_id("s1"),
        token: token.clone(),
        nonce: decided.nonce.clone(),
    };
    for frame in [
        protocol::json_frame(kind::HELLO, &Hello::current()),
        protocol::json_frame(kind::REQUEST, &capture),
    ] {
        pump.write_all(&frame.expect("a frame")).expect("sent");
    }
    let mut decoder = FrameDecoder::default();
    let mut until = move |pump: &mut UnixStream, wanted: u8| {
        let mut buffer = [0; 4096];
        loop {
            match decoder.next_frame().expect("frames") {
                Some((kind, _)) if kind == wanted => return,
                Some(_) => {}
                None => {
                    let n = pump.read(&mut buffer).expect("more");
                    assert!(n > 0, "the daemon hung up");
                    decoder.push(&buffer[..n]);
                }
            }
        }
    };
    until(&mut pump, kind::REPLY);
    let text = CapturedText {
        head: head.into(),
        tail: tail.into(),
        omitted: 10,
    };
    let output = CapturedOutput {
        stderr: Some(text.clone()),
        text,
    };
    let pump = std::thread::spawn(move || {
        until(&mut pump, kind::EVENT);
        let frame = protocol::json_frame(kind::CAPTURED, &output).expect("a frame");
        pump.write_all(&frame).expect("sent");
    });
    let request = Request::ExecDone {
        shell: shell_id("s1"),
        token,
        nonce: decided.nonce,
        exit: 0,
    };
    let () = connect::request(&paths, &request).expect("recorded");
    pump.join().expect("the pump");
    command
}

/// Reports a command as the plugin does, and waits until it is recorded.
fn report_command(helper: &Helper, command: &str) {
    let end = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock")
        .as_secs_f64();
    let pid = std::process::id();
    let data = format!(
        "cmd\0{pid}\0/dev/pts/9\0{end:.9}\0{end:.9}\0{}\0/src\0\0{command}",
        0
    );
    let mut fifo = fs::OpenOptions::new();
    let fifo = fifo.write(true).custom_flags(nix::libc::O_NONBLOCK);
    let mut fifo = fifo
        .open(helper.path("run/events"))
        .expect("the daemon reads the FIFO");
    let chunk = format!("aish1 s1 1 1 1 {}\n{data}", data.len());
    fifo.write_all(chunk.as_bytes()).expect("room");
    let file = helper.path("data/journal/shells.jsonl");
    helper.until("the command is recorded", || {
        fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n'))
    });
}

#[test]
fn no_secret_is_written_or_sent_to_a_model() {
    let mut answers = vec![
        Script::calls(
            "",
            &[("c1", "fs.read", &json!({ "path": CALL }).to_string())],
        ),
        // Byte by byte.
        Script::tokens(
            format!("It is {STREAM}.\nCMD: print {STREAM}")
                .chars()
                .map(String::from),
        ),
        Script::status(
            400,
            &json!({ "error": { "message": format!("no {ERROR} for {KEY}") } }).to_string(),
        ),
        Script::tokens(["Fine."]),
        Script::tokens(["print it"]),
    ]
    .into_iter();
    let provider = Provider::answering(move |_| answers.next().expect("an answer")).key(KEY);
    let helper = Helper::with(provider);
    let server = FakeMcpServer::start();
    server.set_tools(json!([mcp_http::tool("read")]));
    let outside = helper.home.path("secrets");
    fs::write(&outside, format!("starting with {LOGGED}\n")).expect("a file");
    let attached = helper.home.path("npmrc");
    fs::write(&attached, format!("//registry/:_authToken={FILE}\n")).expect("a file");
    helper.config(&format!(
        "key_env = \"FAKE_KEY\"\n[mcp.servers.fs]\nurl = \"{}\"\n[mcp.servers.loud]\ncommand = \"/bin/sh\"\n\
         args = [\"-c\", \"cat {}; echo for $LOUD_KEY; exit 3\"]\nenv = {{ LOUD_KEY = \"$LOUD_KEY\" }}\n\
         [mcp.auto_approve]\n\"fs.*\" = true\n",
        server.url(),
        outside.display()
    ).replace("; exit 3", " >&2; exit 3").replace("; echo", " >&2; echo"));
    let ask = |words: &[&str]| {
        let call = helper.call([&["ask", "--shell", "s1"], words].concat());
        call.env("FAKE_KEY", KEY).env("LOUD_KEY", VARIABLE).run()
    };
    let file = attached.display().to_string();
    let seen = ask(&["-f", &file, "--", &format!("what is {PROMPT}? I use {KEY}")]).ok();
    assert!(
        seen.contains(STREAM),
        "the user sees the unredacted answer: {seen}"
    );
    let called = server.requests();
    let called = called
        .iter()
        .find(|r| r.method() == "tools/call")
        .expect("a call");
    assert_eq!(
        called.json["params"]["arguments"]["path"], CALL,
        "the call is sent unredacted"
    );
    let cut = OUTPUT.len() - 9;
    let command = run_proposed(
        &helper,
        &format!("{OUTPUT}\n{}", &OUTPUT[..cut]),
        &format!("{}\n{KEY}", &KEY[12..]),
    );
    assert_eq!(
        command,
        format!("print {STREAM}"),
        "the command is not redacted"
    );
    report_command(&helper, &format!("export STRIPE_KEY={FACT}"));
    ask(&["--", "and now?"]).fails(1);
    ask(&["--", "once more"]).ok();
    ask(&["--command", "--", &format!("show {PROMPT} and {KEY}")]).ok();
    helper.until("the output of the server is logged", || {
        fs::read_to_string(helper.path("state/mcp-loud.log")).is_ok_and(|log| log.contains("for "))
    });
    let shown = helper.call(["session", "show", "--json"]).run();
    assert_no_secret("session show", shown.stdout.as_bytes());
    helper.call(["stop"]).run().ok();

    assert!(
        assert_no_secret_in_dir(&helper.path("")) >= 5,
        "journals, logs and the config"
    );
    let requests = helper.provider.requests();
    assert_eq!(requests.len(), 5);
    for (n, request) in requests.iter().enumerate() {
        assert_no_secret(&format!("request {n}"), request.json.to_string().as_bytes());
    }
    // The output came with the prompt that was refused, and does not come again.
    let told: String = (requests[2..4].iter())
        .map(|request| request.json.to_string())
        .collect();
    for mark in [
        "gitlab-token",
        "npm-token",
        "github-token",
        "huggingface-token",
        "stripe-key",
        "anthropic-key",
        "model-key",
    ] {
        assert!(
            told.contains(&format!("[REDACTED:{mark}]")),
            "{mark} in {told}"
        );
    }
    let log = fs::read_to_string(helper.path("state/mcp-loud.log")).expect("the log");
    assert!(
        log.contains("starting with [REDACTED:perplexity-key]"),
        "{log}"
    );
}
