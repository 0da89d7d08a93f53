//! Buckets of a server, and a client, that are not ours: `s3s-fs` and `s3cmd`.

use std::collections::BTreeMap;
use std::fs;

use super::recordings::recording_of;
use super::{assert_no_secret, listed, pages, session, with_keys};
use crate::fakes::s3::{ACCESS_KEY, BUCKET, SECRET_KEY};
use crate::fakes::s3s_fs::S3sFs;
use crate::support::helper::{Helper, ProgramResult};

/// Characters that must be encoded for the address, and for the signature.
const UNUSUAL: &str = "my pages/a+b %41 %2F ü~(1)&=#;:@!$,'";
/// More of them, which s3cmd takes for a pattern.
const WILDCARDS: &str = "a?b/*";

/// A helper with one session, and the server of its bucket.
fn world(more: &str) -> (Helper, S3sFs, String) {
    let helper = Helper::saying("**grey** ü");
    let server = S3sFs::start();
    helper.config(&server.settings(more));
    // The daemon must not send what is for this machine to a proxy.
    let ask = with_keys(&helper, ["ask", "--shell", "s1", "--", "cats"]);
    ask.env("http_proxy", "http://127.0.0.1:1").run().ok();
    let session = session(&helper);
    (helper, server, session)
}

/// Shares the session, and returns the address of the page.
fn share(helper: &Helper, session: &str) -> String {
    let shared = with_keys(helper, ["session", "share", session, "--yes"]);
    let shared = shared.run().ok();
    let (_, url) = shared.trim().rsplit_once(": ").expect("an address");
    url.to_owned()
}

fn unshare(helper: &Helper, session: &str) -> ProgramResult {
    with_keys(helper, ["session", "unshare", session]).run()
}

/// The client, with the bucket and the key of the server.
struct S3cmd<'a>(&'a Helper);

impl<'a> S3cmd<'a> {
    fn new(helper: &'a Helper, server: &S3sFs) -> S3cmd<'a> {
        let (host, is_https) = (server.host(), server.scheme() == "https");
        let config = format!(
            "[default]\naccess_key = {ACCESS_KEY}\nsecret_key = {SECRET_KEY}\nhost_base = {host}\nhost_bucket = {host}\nuse_https = {is_https}\ncheck_ssl_certificate = False\nencoding = UTF-8\n"
        );
        fs::write(helper.home.path("s3cfg"), config).expect("its configuration");
        S3cmd(helper)
    }

    fn run<const N: usize>(&self, words: [&str; N]) -> String {
        let call = self.0.program("s3cmd").args(["--config", "s3cfg"]);
        call.args(words).run().ok()
    }

    /// Stores an object that no share has.
    fn put(&self, key: &str, text: &str) {
        fs::write(self.0.home.path("upload"), text).expect("a file");
        self.run(["put", "upload", &address(key)]);
    }

    /// Returns the names of all objects, with type and content.
    fn objects(&self) -> BTreeMap<String, (String, String)> {
        let list = self.run(["ls", "--recursive", &address("")]);
        let keys = list.lines().map(|line| {
            let (_, key) = line.split_once(&address("")).expect(line);
            key.to_owned()
        });
        let object = |key: String| {
            let info = self.run(["info", &address(&key)]);
            let (_, kind) = info.split_once("MIME type:").expect("a type");
            let kind = kind.lines().next().expect("a line").trim().to_owned();
            let text = self.run(["get", "--quiet", &address(&key), "-"]);
            (key, (kind, text))
        };
        keys.map(object).collect()
    }
}

fn address(key: &str) -> String {
    format!("s3://{BUCKET}/{key}")
}

#[test]
fn s3cmd_finds_the_objects_of_a_share_and_keeps_its_own() {
    let (helper, server, session) = world(&format!("prefix = \"{UNUSUAL}\"\n"));
    recording_of(&helper).save(&helper.path("."));
    let s3cmd = S3cmd::new(&helper, &server);
    s3cmd.put("other.html", "other");
    s3cmd.put(&format!("{UNUSUAL}/beside.html"), "beside");
    let words = ["session", "share", &session, "--recordings", "--yes"];
    let shared = with_keys(&helper, words).run().ok();
    let (_, url) = shared.trim().rsplit_once(": ").unwrap();
    let (folder, name) = url.rsplit_once('/').unwrap();
    let id = name.strip_suffix(".html").unwrap().to_owned();
    // Neither the folder of the recordings nor its other content belongs to the share.
    s3cmd.put(&format!("{UNUSUAL}/{id}/2.cast"), "mine");
    let mut objects = s3cmd.objects();
    let mut take = |name: &str| objects.remove(&format!("{UNUSUAL}/{name}"));
    let (kind, page) = take(&format!("{id}.html")).expect("the page");
    assert_eq!(kind, "text/html; charset=utf-8");
    let (kind, cast) = take(&format!("{id}/1.cast")).expect("the recording");
    assert_eq!(kind, "application/x-asciicast");
    let own = [
        ("other.html".to_owned(), "other"),
        (format!("{UNUSUAL}/beside.html"), "beside"),
        (format!("{UNUSUAL}/{id}/2.cast"), "mine"),
    ];
    let own_of = |objects: &BTreeMap<String, (String, String)>| -> Vec<(String, String)> {
        let texts = objects.iter().map(|(key, (_, text))| (key, text));
        texts
            .map(|(key, text)| (key.clone(), text.clone()))
            .collect()
    };
    let mut expected = own.map(|(key, text)| (key, text.to_owned()));
    expected.sort();
    assert_eq!(own_of(&objects), expected);
    // The addresses lead to the same objects.
    let (head, body) = server.read(url);
    assert!(
        head.contains("content-type: text/html; charset=utf-8"),
        "{head}"
    );
    assert_eq!(body, page);
    let cast_url = format!("{folder}/{id}/1.cast");
    assert_eq!(server.read(&cast_url).1, cast);
    let play = format!("<pre>asciinema play {cast_url}</pre>");
    assert!(page.contains(&play), "{page}");

    assert_eq!(unshare(&helper, &session).ok(), "the page is removed\n");
    assert_eq!(own_of(&s3cmd.objects()), expected);
    assert!(listed(&helper).is_empty());
    for url in [url, &cast_url] {
        let (head, _) = server.read(url);
        assert!(head.starts_with("http/1.0 404"), "{head}");
    }
    assert_no_secret(&helper);

    // On this machine, the same is written.
    helper.config("");
    with_keys(&helper, words).run().ok();
    let names = pages(&helper);
    assert_eq!(names.len(), 2, "{names:?}");
    for name in names {
        let local = fs::read_to_string(helper.path("data/shares").join(&name)).unwrap();
        let own_id = name.get(..id.len()).expect("an id");
        match name.ends_with(".cast") {
            true => assert!(local == cast, "{local}\n{cast}"),
            false => assert_eq!(local.replace(own_id, &id), page.replace(&play, "")),
        }
    }
}

#[test]
fn each_style_of_addresses_works_with_unusual_names() {
    for (path_style, prefix, more) in [
        (true, "", ""),
        (false, "", ""),
        (true, UNUSUAL, "region = \"eu-test-1\"\n"),
        (false, UNUSUAL, "region = \"eu-test-1\"\n"),
        (true, WILDCARDS, ""),
        (false, "a.b/c/", "public_url = \"http://HOST/BUCKET\"\n"),
        (true, UNUSUAL, "public_url = \"http://BUCKET.HOST/\"\n"),
    ] {
        let (helper, server, session) = world("");
        let mut more = more
            .replace("HOST", &server.host())
            .replace("BUCKET", BUCKET);
        more.push_str(&format!("path_style = {path_style}\n"));
        if !prefix.is_empty() {
            more.push_str(&format!("prefix = \"{prefix}\"\n"));
        }
        helper.config(&server.settings(&more));
        let url = share(&helper, &session);
        let is_path = url.starts_with(&format!("http://{}/{BUCKET}/", server.host()));
        assert_eq!(is_path, path_style != more.contains("public_url"), "{url}");
        assert_eq!(listed(&helper)[0]["url"], url);
        let (head, body) = server.read(&url);
        assert!(head.starts_with("http/1.0 200"), "{url}: {head}");
        assert!(body.contains("<strong>grey</strong> ü"), "{body}");
        unshare(&helper, &session).ok();
        let (head, _) = server.read(&url);
        assert!(head.starts_with("http/1.0 404"), "{url}: {head}");
        assert!(listed(&helper).is_empty());
    }
}

#[test]
fn over_https_the_certificate_must_be_trusted() {
    let (server, certificate) = S3sFs::start_tls();
    for path_style in [true, false] {
        for is_trusted in [true, false] {
            let helper = Helper::saying("grey");
            let settings = server.settings(&format!("path_style = {path_style}\n"));
            helper.config(&settings);
            let file = helper.home.path("certificate.pem");
            fs::write(&file, &certificate).unwrap();
            let mut ask = with_keys(&helper, ["ask", "--shell", "s1", "--", "cats"]);
            if is_trusted {
                ask = ask.env("SSL_CERT_FILE", &file);
            }
            ask.run().ok();
            let session = session(&helper);
            let s3cmd = S3cmd::new(&helper, &server);
            let words = ["session", "share", &session, "--yes"];
            let shared = with_keys(&helper, words).run();
            match is_trusted {
                true => {
                    shared.ok();
                    assert_eq!(s3cmd.objects().len(), 1);
                    unshare(&helper, &session).ok();
                }
                false => {
                    let error = shared.fails(1);
                    for part in [
                        "certificate is not trusted",
                        "SSL_CERT_FILE",
                        "stays listed",
                    ] {
                        assert!(error.contains(part), "{part}: {error}");
                    }
                }
            }
            assert!(s3cmd.objects().is_empty());
        }
    }
    let helper = Helper::saying("grey");
    let settings = S3sFs::start().settings("").replace("http://", "https://");
    helper.config(&settings);
    helper.ask("cats");
    let session = session(&helper);
    let words = ["session", "share", &session, "--yes"];
    let error = with_keys(&helper, words).run().fails(1);
    assert!(error.contains("localhost does not speak TLS"), "{error}");
}

#[test]
fn a_refused_share_stays_listed_until_it_can_be_removed() {
    let (helper, server, session) = world("prefix = \"shares\"\n");
    let words = ["session", "share", &session, "--yes"];
    let wrong = "wrong".repeat(8);
    for (variable, expected) in [
        ("TEST_SECRET", "HTTP 403: SignatureDoesNotMatch"),
        ("TEST_ACCESS", "HTTP 403: NotSignedUp"),
    ] {
        let call = with_keys(&helper, words).env(variable, &wrong);
        let error = call.run().fails(1);
        for part in [expected, variable, "stays listed"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(
            !error.contains(&wrong) && !error.contains("X-Amz-"),
            "{error}"
        );
        assert_eq!(listed(&helper)[0]["phase"], "publishing");
        let call = with_keys(&helper, ["session", "unshare", &session]);
        let error = call.env(variable, &wrong).run().fails(1);
        assert!(error.contains(expected), "{error}");
        assert_eq!(listed(&helper).len(), 1);
        unshare(&helper, &session).ok();
        assert!(listed(&helper).is_empty());
    }
    server.set_bucket(false);
    let error = with_keys(&helper, words).run().fails(1);
    for part in [
        "HTTP 404: NoSuchBucket",
        "check endpoint and bucket",
        "stays listed",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    unshare(&helper, &session).ok();
    assert!(listed(&helper).is_empty());
    // A page that has gone with its bucket, or that another client has deleted, can be forgotten.
    server.set_bucket(true);
    share(&helper, &session);
    server.set_bucket(false);
    unshare(&helper, &session).ok();
    server.set_bucket(true);
    share(&helper, &session);
    let s3cmd = S3cmd::new(&helper, &server);
    let objects = s3cmd.objects();
    let (key, _) = objects.first_key_value().expect("the page");
    s3cmd.run(["del", &address(key)]);
    unshare(&helper, &session).ok();
    assert!(listed(&helper).is_empty());
}
