//! TLS, and addresses that other machines can reach.

use std::fs;
use std::io::{BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::{Response, free_port};
use crate::support::PATIENCE;
use crate::support::helper::Helper;

/// Writes a certificate and its key, and returns the certificate.
fn certificate(helper: &Helper, name: &str) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).expect("a certificate");
    fs::write(helper.path("cert.pem"), made.cert.pem()).unwrap();
    let key = helper.path("key.pem");
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    made.cert.der().clone()
}

fn settings(helper: &Helper) -> String {
    let path = |name: &str| helper.path(name).display().to_string();
    format!(
        "certificate = {:?}\ncertificate_key = {:?}\n",
        path("cert.pem"),
        path("key.pem")
    )
}

/// Sends a request as a client that trusts only this certificate.
fn https(
    address: (IpAddr, u16),
    name: &str,
    trusted: &CertificateDer<'static>,
    request: &str,
) -> std::io::Result<Response> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("TLS");
    let socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut stream = StreamOwned::new(connection, socket);
    stream.write_all(request.as_bytes())?;
    Ok(Response::read(&mut BufReader::new(stream)))
}

#[test]
fn with_a_certificate_the_port_takes_tls_only() {
    let helper = Helper::saying("yes");
    let trusted = certificate(&helper, "localhost");
    helper.config(&format!("[server]\n{}", settings(&helper)));
    let port = free_port();
    let said = helper
        .call([
            "serve",
            "--hostname",
            "localhost",
            "--port",
            &port.to_string(),
        ])
        .run()
        .ok();
    assert!(
        said.contains(&format!("https://localhost:{port}")),
        "{said}"
    );
    let token = helper.call(["serve", "token", "show"]).run().ok();
    let address = (IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let get = |host: &str, more: &str| {
        let request =
            format!("GET /v1/sessions HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{more}\r\n");
        https(address, "localhost", &trusted, &request).expect("a response")
    };
    let bearer = format!("authorization: Bearer {}\r\n", token.trim());
    get(&format!("localhost:{port}"), &bearer).json(200);
    get(&format!("localhost:{port}"), "").problem(401);
    get(&format!("evil.example:{port}"), &bearer).problem(421);
    // A page that came without TLS may have been changed on the way.
    let insecure = format!("{bearer}origin: http://localhost:{port}\r\n");
    get(&format!("localhost:{port}"), &insecure).problem(403);
    let secure = format!("{bearer}origin: https://localhost:{port}\r\n");
    get(&format!("localhost:{port}"), &secure).json(200);
    // A client that trusts another certificate does not send its request.
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let other = other.cert.der().clone();
    https(address, "localhost", &other, "GET / HTTP/1.1\r\n\r\n").expect_err("not trusted");
    // Without TLS there is no answer.
    let mut plain = TcpStream::connect(address).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET /health HTTP/1.1\r\nhost: localhost:{port}\r\n\r\n");
    plain.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = std::io::Read::read_to_end(&mut plain, &mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    let url = helper.call(["web", "--print"]).run().ok();
    assert!(
        url.starts_with(&format!("https://localhost:{port}/#t=")),
        "{url}"
    );
}

/// An address of this machine that others could reach, if it has a network.
fn public_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // Nothing is sent: this only chooses a route.
    socket.connect(("192.0.2.1", 9)).ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_loopback()).then_some(ip)
}

#[test]
fn other_machines_are_served_only_with_tls_and_a_password() {
    let Some(ip) = public_address() else {
        eprintln!("this machine has no network");
        return;
    };
    let name = ip.to_string();
    let password = "password = \"correct horse battery\"\n";
    // A configuration that is changed later would be asked about first.
    let with = |more: &dyn Fn(&Helper) -> String| {
        let helper = Helper::saying("yes");
        let trusted = certificate(&helper, &name);
        helper.config(&format!("[server]\n{}", more(&helper)));
        (helper, trusted)
    };
    let port = free_port();
    let start = |helper: &Helper| {
        helper
            .call(["serve", "--hostname", &name, "--port", &port.to_string()])
            .run()
    };
    for more in [
        &(|_: &Helper| String::new()) as &dyn Fn(&Helper) -> String,
        &settings,
        &|_: &Helper| password.to_owned(),
    ] {
        let error = start(&with(more).0).fails(3);
        assert!(
            error.contains("TLS") && error.contains("password"),
            "{error}"
        );
    }
    let (helper, trusted) = with(&|helper| password.to_owned() + &settings(helper));
    let said = start(&helper).ok();
    assert!(said.contains(&format!("https://{name}:{port}")), "{said}");
    let token = helper.call(["serve", "token", "show"]).run().ok();
    let request = format!(
        "GET /v1/sessions HTTP/1.1\r\nhost: {name}:{port}\r\nconnection: close\r\nauthorization: Bearer {}\r\n\r\n",
        token.trim()
    );
    https((ip, port), &name, &trusted, &request)
        .expect("a response")
        .json(200);
    let local = (IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    TcpStream::connect(local).expect_err("only the address that was named");
}

#[test]
fn a_certificate_that_does_not_fit_is_named() {
    let helper = Helper::saying("yes");
    certificate(&helper, "localhost");
    helper.config(&format!("[server]\n{}", settings(&helper)));
    let start = || {
        let port = free_port().to_string();
        helper.call(["serve", "--port", &port]).run().fails(3)
    };
    let key = helper.path("key.pem");
    let good = fs::read(&key).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(start().contains("other users"));
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(
        &key,
        "-----BEGIN PRIVATE KEY-----\nc2VjcmV0IHRleHQ=\n-----END PRIVATE KEY-----\n",
    )
    .unwrap();
    let error = start();
    assert!(
        error.contains("key.pem") && !error.contains("c2VjcmV0"),
        "{error}"
    );
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(&key, other.signing_key.serialize_pem()).unwrap();
    assert!(start().contains("does not match the certificate"));
    fs::write(&key, good).unwrap();
    fs::write(helper.path("cert.pem"), "nothing").unwrap();
    assert!(start().contains("no certificate"));
}
