//! TLS on both sides: certificates, authorities, reload, and which HTTP is spoken.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; what fails is the test"
)]

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::Full;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use tempfile::TempDir;
use whippletree::config;
use whippletree::server::{self, Handler, HeadFault, Listener, Peer, Running, Upload};
use whippletree::tls::ServerTls;
use whippletree::upstream::{Call, Kind, Phase, Pool, Sent, UpstreamError};

/// An authority, and a folder for what it issues.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a certificate for `localhost` and its key.
    fn issue(&self, name: &str, purpose: ExtendedKeyUsagePurpose) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        fs::write(self.path(&format!("{name}.pem")), certificate.pem()).unwrap();
        fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    fn files(&self, name: &str) -> config::Tls {
        self.issue(name, ExtendedKeyUsagePurpose::ServerAuth);
        config::Tls {
            cert: self.path(&format!("{name}.pem")),
            key: self.path(&format!("{name}.key")),
            client_ca: None,
        }
    }
}

/// Says how it was asked.
#[derive(Clone)]
struct Echo;

impl Handler for Echo {
    type Body = Full<Bytes>;

    async fn handle(self, request: Request<Upload>, peer: Peer) -> Response<Full<Bytes>> {
        let text = format!("{:?} {:?}", request.version(), peer.encryption);
        Response::new(Full::from(text))
    }

    fn refuse(&self, fault: HeadFault) -> Response<Full<Bytes>> {
        Response::new(Full::from(format!("{fault:?}")))
    }
}

fn serve(tls: &Arc<ServerTls>) -> (Running, SocketAddr) {
    let settings = config::Server {
        listen: "127.0.0.1:0".parse().unwrap(),
        workers: 2,
        max_body: 1 << 20,
        max_inflight_bytes: 1 << 30,
        header_timeout: Duration::from_secs(10),
        body_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_mins(1),
        max_head: 65_536,
        max_headers: 100,
        max_connections: 1000,
        drain_timeout: Duration::from_secs(10),
        tls: None,
    };
    let listener = Listener::bind(settings.listen, 1000).unwrap();
    let address = listener.local_address().unwrap();
    let running = server::start(&[listener], settings, Some(Arc::clone(tls)), &Echo).unwrap();
    (running, address)
}

#[derive(Clone, Copy)]
enum Speak {
    Http1,
    Http2,
}

fn pool(address: SocketAddr, ca: Option<PathBuf>, speak: Speak) -> Pool {
    let provider = config::Provider {
        id: "vendor".into(),
        kind: "openai",
        base_url: format!("https://localhost:{}", address.port())
            .parse()
            .unwrap(),
        keys: Vec::new(),
        timeouts: TIMEOUTS,
        pool: config::PoolSettings {
            max_connections: 4,
            warm: 0,
            http2: matches!(speak, Speak::Http2),
            wait: Duration::from_secs(5),
            idle_timeout: Duration::from_mins(1),
            max_lifetime: Duration::from_mins(10),
        },
        apis: Vec::new(),
        error_classes: std::collections::BTreeMap::new(),
        ca,
    };
    Pool::new(&provider, 0).unwrap()
}

const TIMEOUTS: config::Timeouts = config::Timeouts {
    connect: Duration::from_secs(5),
    first_byte: Duration::from_secs(5),
    idle: Duration::from_secs(5),
    total: Duration::from_secs(20),
};

async fn ask(pool: &Pool) -> Result<String, UpstreamError> {
    let call = Call {
        method: Method::POST,
        path_and_query: "/".parse().unwrap(),
        headers: HeaderMap::new(),
        body: Bytes::from_static(b"ping").into(),
        timeouts: TIMEOUTS,
        give_up_at: None,
    };
    let body = pool.send(call).await?.body.collect(1000).await?;
    Ok(String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn both_versions_of_http_are_spoken_over_tls() {
    let authority = Authority::new();
    let tls = Arc::new(ServerTls::new(authority.files("server")).unwrap());
    let (_running, address) = serve(&tls);
    let ca = Some(authority.path("ca.pem"));
    let http1 = pool(address, ca.clone(), Speak::Http1);
    for _ in 0..3 {
        assert_eq!(ask(&http1).await.unwrap(), "HTTP/1.1 Tls");
    }
    assert_eq!(http1.counts().created, 1);
    let http2 = pool(address, ca, Speak::Http2);
    for _ in 0..3 {
        assert_eq!(ask(&http2).await.unwrap(), "HTTP/2.0 Tls");
    }
    assert_eq!(http2.counts().created, 1);
}

#[tokio::test]
async fn a_vendor_that_chooses_http1_is_spoken_to_in_http1() {
    let authority = Authority::new();
    let files = authority.files("server");
    let certificate = rustls_pem(&files);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(certificate));
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let stream = acceptor.accept(stream).await.unwrap();
            let service = hyper::service::service_fn(|request: Request<_>| async move {
                let text = format!("{:?}", Request::<hyper::body::Incoming>::version(&request));
                Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::from(text)))
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(hyper_util::rt::TokioIo::new(stream), service),
            );
        }
    });
    let pool = pool(address, Some(authority.path("ca.pem")), Speak::Http2);
    for _ in 0..3 {
        assert_eq!(ask(&pool).await.unwrap(), "HTTP/1.1");
    }
    assert_eq!(pool.counts().created, 1);
}

/// A server's configuration that knows no ALPN.
fn rustls_pem(files: &config::Tls) -> rustls::ServerConfig {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    whippletree::tls::install_provider();
    rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_file(&files.cert).unwrap()],
            PrivateKeyDer::from_pem_file(&files.key).unwrap(),
        )
        .unwrap()
}

#[tokio::test]
async fn an_unknown_authority_is_a_failure_of_the_handshake() {
    let authority = Authority::new();
    let tls = Arc::new(ServerTls::new(authority.files("server")).unwrap());
    let (_running, address) = serve(&tls);
    for speak in [Speak::Http1, Speak::Http2] {
        let error = ask(&pool(address, None, speak)).await.unwrap_err();
        let what = (error.phase, error.kind, error.sent);
        assert_eq!(what, (Phase::Tls, Kind::Tls, Sent::Nothing));
    }
}

#[tokio::test]
async fn a_new_certificate_is_shown_without_a_restart_and_a_broken_one_is_not() {
    let first = Authority::new();
    let files = first.files("server");
    let tls = Arc::new(ServerTls::new(files.clone()).unwrap());
    let (_running, address) = serve(&tls);
    let kept = pool(address, Some(first.path("ca.pem")), Speak::Http1);
    ask(&kept).await.unwrap();
    assert!(!tls.reload_if_changed().unwrap());

    fs::write(&files.cert, "not a certificate").unwrap();
    assert!(tls.reload_if_changed().is_err());
    let after_fault = pool(address, Some(first.path("ca.pem")), Speak::Http1);
    ask(&after_fault).await.unwrap();

    let second = Authority::new();
    second.issue("server", ExtendedKeyUsagePurpose::ServerAuth);
    fs::copy(second.path("server.pem"), &files.cert).unwrap();
    fs::copy(second.path("server.key"), &files.key).unwrap();
    assert!(tls.reload_if_changed().unwrap());
    ask(&pool(address, Some(second.path("ca.pem")), Speak::Http1))
        .await
        .unwrap();
    ask(&kept).await.unwrap();
    assert_eq!(kept.counts().created, 1);
}

#[tokio::test]
async fn a_client_must_show_a_certificate_where_one_is_asked_for() {
    let authority = Authority::new();
    let mut files = authority.files("server");
    files.client_ca = Some(authority.path("ca.pem"));
    let tls = Arc::new(ServerTls::new(files).unwrap());
    let (_running, address) = serve(&tls);
    let without = pool(address, Some(authority.path("ca.pem")), Speak::Http1);
    ask(&without).await.unwrap_err();

    authority.issue("client", ExtendedKeyUsagePurpose::ClientAuth);
    assert_eq!(ask_with_certificate(&authority, address).await, "MutualTls");
}

async fn ask_with_certificate(authority: &Authority, address: SocketAddr) -> String {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    whippletree::tls::install_provider();
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(authority.path("ca.pem")).unwrap())
        .unwrap();
    let config = rustls::ClientConfig::builder()
        .with_root_certificates(roots)
        .with_client_auth_cert(
            vec![CertificateDer::from_pem_file(authority.path("client.pem")).unwrap()],
            PrivateKeyDer::from_pem_file(authority.path("client.key")).unwrap(),
        )
        .unwrap();
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let mut stream = tokio_rustls::TlsConnector::from(Arc::new(config))
        .connect("localhost".try_into().unwrap(), stream)
        .await
        .unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    body.strip_prefix("HTTP/1.1 ").unwrap().to_owned()
}

#[tokio::test]
async fn a_handshake_that_does_not_end_is_cut_off() {
    let authority = Authority::new();
    let tls = Arc::new(ServerTls::new(authority.files("server")).unwrap());
    let settings = config::Server {
        listen: "127.0.0.1:0".parse().unwrap(),
        workers: 1,
        max_body: 1 << 20,
        max_inflight_bytes: 1 << 30,
        header_timeout: Duration::from_millis(100),
        body_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_mins(1),
        max_head: 65_536,
        max_headers: 100,
        max_connections: 1000,
        drain_timeout: Duration::from_secs(10),
        tls: None,
    };
    let listener = Listener::bind(settings.listen, 1000).unwrap();
    let address = listener.local_address().unwrap();
    let _running = server::start(&[listener], settings, Some(tls), &Echo).unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let read = tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 10]).await;
    assert_eq!(read.unwrap(), 0);
}

#[test]
fn files_that_do_not_fit_are_named() {
    let authority = Authority::new();
    let mut files = authority.files("one");
    files.key = authority.files("two").key;
    let error = ServerTls::new(files).unwrap_err();
    assert!(error.to_string().contains("one.pem"), "{error}");
    let mut files = authority.files("one");
    files.cert = authority.path("absent.pem");
    let error = ServerTls::new(files).unwrap_err();
    assert!(error.to_string().contains("absent.pem"), "{error}");
}
