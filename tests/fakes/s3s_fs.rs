//! The server of the crate `s3s-fs`, which checks signatures with code that is not ours.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivatePkcs8KeyDer;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::SimpleAuth;
use s3s::host::SingleDomain;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{S3Result, s3_error};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

use super::s3::{ACCESS_KEY, BUCKET, SECRET_KEY};

/// The server, with one bucket; its thread ends with the test.
pub struct S3sFs {
    addr: SocketAddr,
    dir: TempDir,
    scheme: &'static str,
}

impl S3sFs {
    pub fn start() -> S3sFs {
        S3sFs::start_with(None)
    }

    /// Starts the server with TLS. Returns its certificate too, for `localhost` and the name of the bucket below.
    pub fn start_tls() -> (S3sFs, String) {
        let names = ["localhost".to_owned(), format!("{BUCKET}.localhost")];
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let config = ServerConfig::builder_with_provider(default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into());
        let tls = TlsAcceptor::from(Arc::new(config.expect("a certificate")));
        (S3sFs::start_with(Some(tls)), made.cert.pem())
    }

    fn start_with(tls: Option<TlsAcceptor>) -> S3sFs {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join(BUCKET)).expect("the bucket");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let addr = listener.local_addr().expect("its address");
        let files = s3s_fs::FileSystem::new(dir.path()).expect("the objects");
        let mut service = S3ServiceBuilder::new(files);
        service.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        service.set_access(Policy {
            root: dir.path().to_owned(),
        });
        let domain = SingleDomain::new(&format!("localhost:{}", addr.port()));
        service.set_host(domain.expect("a domain"));
        let service = service.build();
        let scheme = if tls.is_some() { "https" } else { "http" };
        thread::spawn(move || serve(listener, service, tls));
        S3sFs { addr, dir, scheme }
    }

    pub fn scheme(&self) -> &'static str {
        self.scheme
    }

    /// Name and port, as `HOST:PORT`; the names of the buckets are below.
    pub fn host(&self) -> String {
        format!("localhost:{}", self.addr.port())
    }

    /// The settings of `[share]` for this server, followed by `more`.
    pub fn settings(&self, more: &str) -> String {
        format!(
            "[share]\ntarget = \"s3\"\nendpoint = \"{}://{}\"\nbucket = \"{BUCKET}\"\naccess_key_env = \"TEST_ACCESS\"\nsecret_key_env = \"TEST_SECRET\"\n{more}",
            self.scheme,
            self.host()
        )
    }

    /// Reads an address as a browser does, without a signature. Returns head and body.
    pub fn read(&self, url: &str) -> (String, String) {
        let address = url.strip_prefix("http://").expect("http");
        let (host, path) = address.split_once('/').expect("a path");
        let mut stream = TcpStream::connect(self.addr).expect("the server");
        // The older version has no chunks.
        write!(stream, "GET /{path} HTTP/1.0\r\nhost: {host}\r\n\r\n").expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (head.to_ascii_lowercase(), body.to_owned())
    }

    /// Creates or removes the bucket, whatever is in it.
    pub fn set_bucket(&self, exists: bool) {
        let bucket = self.dir.path().join(BUCKET);
        match exists {
            true => fs::create_dir(bucket).expect("no bucket"),
            false => fs::remove_dir_all(bucket).expect("a bucket"),
        }
    }
}

/// Lets everyone read objects, as the policy of a bucket for pages does; all else needs a signature. Refuses buckets that do not
/// exist, which the server would create.
struct Policy {
    root: PathBuf,
}

#[async_trait::async_trait]
impl S3Access for Policy {
    async fn check(&self, request: &mut S3AccessContext<'_>) -> S3Result<()> {
        if request.credentials().is_none() && request.s3_op().name() != "GetObject" {
            return Err(s3_error!(AccessDenied));
        }
        match request.s3_path().get_bucket_name() {
            Some(name) if !self.root.join(name).exists() => Err(s3_error!(NoSuchBucket)),
            _ => Ok(()),
        }
    }
}

fn serve(listener: TcpListener, service: S3Service, tls: Option<TlsAcceptor>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        listener.set_nonblocking(true).expect("a socket");
        let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
        while let Ok((stream, _)) = listener.accept().await {
            let (service, tls) = (service.clone(), tls.clone());
            tokio::spawn(async move {
                // Both fail if the client has gone.
                let Some(tls) = tls else {
                    return connection(stream, service).await;
                };
                if let Ok(stream) = tls.accept(stream).await {
                    connection(stream, service).await;
                }
            });
        }
    });
}

async fn connection<S>(stream: S, service: S3Service)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    drop(
        http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .await,
    );
}
