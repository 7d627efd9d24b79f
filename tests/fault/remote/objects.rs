//! Object stores, the real servers that people run: CASES 34, 36, 37, and a server killed in mid-write.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use ci_ledger::core::ids::{Epoch, Seq};
use ci_ledger::core::moment::{Secs, Wall};
use ci_ledger::sink::{self, Narrow, Trouble, Variables};

use super::servers::{Ours, Server, free_port};
use super::{batch, context, event};

pub const BUCKET: &str = "evidence";

pub const KEYS: [(&str, &str); 3] =
    [("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "secret-0123456789"), ("AWS_REGION", "us-east-1")];

pub fn variables(endpoint: &str) -> Variables {
    Variables::of(KEYS).with("AWS_ENDPOINT_URL", endpoint)
}

pub fn moto() -> Option<Server> {
    Server::start("moto_server", |port| ["-H", "127.0.0.1", "-p", &port.to_string()].map(str::to_owned).to_vec(), None)
}

/// A port whose neighbour, ten thousand higher, is free too: that is where this server puts its second one.
fn low_port() -> u16 {
    std::iter::repeat_with(free_port)
        .map(|port| 20_000 + port % 10_000)
        .find(|port| [*port, port + 10_000].iter().all(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok()))
        .unwrap()
}

fn weed(folder: &std::path::Path, ports: [u16; 4]) -> Option<Server> {
    let args = |_| {
        let [s3, master, volume, filer] = ports;
        vec![
            "server".to_owned(),
            format!("-dir={}", folder.display()),
            "-ip=127.0.0.1".to_owned(),
            "-ip.bind=127.0.0.1".to_owned(),
            "-s3".to_owned(),
            format!("-s3.port={s3}"),
            "-s3.port.iceberg=0".to_owned(),
            "-s3.port.lance=0".to_owned(),
            "-master.telemetry=false".to_owned(),
            format!("-master.port={master}"),
            format!("-volume.port={volume}"),
            format!("-filer.port={filer}"),
            "-master.volumeSizeLimitMB=64".to_owned(),
        ]
    };
    Server::start("weed", args, Some(ports[0]))
}

pub async fn make_bucket(endpoint: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let client = plain_client();
    loop {
        let answer = client.put(format!("{endpoint}/{BUCKET}")).send().await;
        if answer.is_ok_and(|answer| answer.status().is_success()) {
            return;
        }
        assert!(Instant::now() < deadline, "{endpoint} makes no bucket");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn plain_client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// What every store must do.
pub async fn a_store_keeps_a_leg(scheme: &str, variables: &Variables) {
    let url = format!("{scheme}://{BUCKET}/some/prefix");
    let made = context(variables);
    let mut first = sink::open(&url, &made).unwrap();
    assert_eq!(first.position().await.unwrap(), Seq(0));
    first.put_plan(b"plan").await.unwrap();
    first.put_plan(b"plan").await.unwrap();
    assert_eq!(first.put_plan(b"another").await.unwrap_err().trouble, Trouble::Fenced);
    for seq in 1..=3 {
        first.send(&batch(&made, seq..=seq)).await.unwrap();
    }
    // The same again is a success, more of the same is a write of ours that arrived late, something else is another writer.
    let mut second = sink::open(&url, &made).unwrap();
    assert_eq!(second.position().await.unwrap(), Seq(3));
    second.send(&batch(&made, 3..=3)).await.unwrap();
    let late = second.send(&batch(&made, 3..=4)).await.unwrap_err();
    assert!(matches!(late.trouble, Trouble::Retryable { .. }), "{late}");
    let mut foreign = batch(&made, 3..=4);
    foreign.events[0].line = "{\"seq\":3,\"other\":1}".into();
    assert_eq!(second.send(&foreign).await.unwrap_err().trouble, Trouble::Fenced);
    first.send(&batch(&made, 4..=9)).await.unwrap();
    let mut other = made.clone();
    other.epoch = Epoch::parse("another").unwrap();
    let mut beside = sink::open(&url, &other).unwrap();
    assert_eq!(beside.position().await.unwrap(), Seq(0));
    beside.send(&batch(&other, 1..=1)).await.unwrap();

    let source = sink::open_source(&url, variables).unwrap();
    let found = source.legs(&Narrow::default(), Wall(0)).await.unwrap();
    assert_eq!(found.len(), 2);
    let ours = found.iter().find(|leg| leg.segments.len() == 4).unwrap();
    let marker = ours.marker.as_ref().unwrap();
    assert_eq!(marker.bytes, batch(&made, 9..=9).marker);
    assert!(marker.age < Secs::from_secs(30), "{:?}", marker.age);
    let mut text = Vec::new();
    for name in &ours.segments {
        text.extend(source.segment(ours, name).await.unwrap());
    }
    let expected: String = (1..=9).map(|seq| format!("{}\n", event(seq).line)).collect();
    assert_eq!(String::from_utf8(text).unwrap(), expected);
    let set = Narrow { run_id: Some("77".into()), set_clock: Some(Wall(4_102_444_800_000)), ..Narrow::default() };
    let found = source.legs(&set, Wall(0)).await.unwrap();
    assert!(found[0].marker.as_ref().unwrap().age > Secs::from_secs(1_000_000), "the reader's clock was set by hand");
    let none = Narrow { run_id: Some("7".into()), ..Narrow::default() };
    assert!(source.legs(&none, Wall(0)).await.unwrap().is_empty(), "a run is no prefix of another");

    let mut check = made.clone();
    check.leg = sink::check_leg("ledger-check-9");
    assert_eq!(sink::check(&url, &check, Wall(0)).await.unwrap().removed, Ok(sink::Removed::Gone));
    let error =
        sink::open(&format!("{scheme}://no-such-bucket-{}/x", free_port()), &made).unwrap().put_plan(b"x").await.unwrap_err();
    // Some servers say that it is not there, others that it is not permitted.
    let words = ["no such bucket", "not permitted"];
    assert!(error.trouble == Trouble::Refused && words.iter().any(|word| error.detail.contains(word)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moto_keeps_a_leg_and_lists_it_in_pages() {
    let Some(server) = moto() else { return };
    make_bucket(&server.url).await;
    a_store_keeps_a_leg("s3", &variables(&server.url)).await;
    // A page of a listing has 1,000 objects.
    let made = context(&variables(&server.url));
    let url = format!("s3://{BUCKET}/long");
    let mut sink = sink::open(&url, &made).unwrap();
    sink.send(&batch(&made, 1..=1)).await.unwrap();
    let found = sink::open_source(&url, &made.variables).unwrap().legs(&Narrow::default(), Wall(0)).await.unwrap();
    let (client, place) = (plain_client(), found[0].place.replace(',', "%2C").replace('~', "%7E"));
    for seq in 2..=1010 {
        let to = format!("{}/{BUCKET}/{place}/{seq:012}.ndjson", server.url);
        let answer = client.put(to).body(format!("{}\n", event(seq).line)).send().await.unwrap();
        assert!(answer.status().is_success(), "{answer:?}");
    }
    let mut again = sink::open(&url, &made).unwrap();
    assert_eq!(again.position().await.unwrap(), Seq(1010));
    let found = sink::open_source(&url, &made.variables).unwrap().legs(&Narrow::default(), Wall(0)).await.unwrap();
    assert_eq!(found[0].segments.len(), 1010);
}

/// The server is gone in the middle of a write, and comes back: everything that was answered is there, and the rest goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn weed_keeps_a_leg_and_what_it_answered_through_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let ports = [low_port(), low_port(), low_port(), low_port()];
    let Some(mut server) = weed(folder.path(), ports) else { return };
    make_bucket(&server.url).await;
    a_store_keeps_a_leg("s3", &variables(&server.url)).await;
    let made = context(&variables(&server.url));
    let url = format!("s3://{BUCKET}/killed");
    let mut sink = sink::open(&url, &made).unwrap();
    let writing = made.clone();
    let answered = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&answered);
    let writer = tokio::spawn(async move {
        for seq in 1..=10_000 {
            if sink.send(&batch(&writing, seq..=seq)).await.is_err() {
                return;
            }
            counted.store(seq as usize, Ordering::SeqCst);
        }
    });
    let deadline = Instant::now() + Duration::from_secs(60);
    while answered.load(Ordering::SeqCst) < 50 {
        assert!(Instant::now() < deadline, "it writes");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.kill();
    writer.await.unwrap();
    let answered = answered.load(Ordering::SeqCst) as u64;
    drop(server);
    let server = weed(folder.path(), ports).unwrap();
    make_bucket_again(&server.url).await;
    let mut sink = sink::open(&url, &made).unwrap();
    let position = patiently(&mut *sink).await;
    assert!(position.0 >= answered, "{position} is there, {answered} were answered");
    sink.send(&batch(&made, position.0 + 1..=position.0 + 1)).await.unwrap();
}

async fn make_bucket_again(endpoint: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !plain_client().get(format!("{endpoint}/{BUCKET}")).send().await.is_ok_and(|answer| answer.status().is_success()) {
        assert!(Instant::now() < deadline, "{endpoint} does not come back");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn patiently(sink: &mut dyn sink::Backend) -> Seq {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match sink.position().await {
            Ok(seq) => return seq,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Where requests are sent on to.
#[derive(Clone)]
pub struct Onward {
    to: String,
    client: reqwest::Client,
}

impl Onward {
    pub fn to(url: &str) -> Self {
        Self { to: url.to_owned(), client: plain_client() }
    }
}

/// Sends a request on to a store as it was signed. A store that is gone is a bad gateway.
pub async fn pass_on(onward: &Onward, parts: axum::http::request::Parts, body: Bytes) -> Response {
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let method = reqwest::Method::from_bytes(parts.method.as_str().as_bytes()).unwrap();
    let mut request = onward.client.request(method, format!("{}{path}", onward.to)).body(body);
    for (name, value) in &parts.headers {
        request = request.header(name.as_str(), value.as_bytes());
    }
    let Ok(answer) = request.send().await else { return Response::builder().status(502).body(Body::empty()).unwrap() };
    let mut response = Response::builder().status(answer.status().as_u16());
    for (name, value) in answer.headers().iter().filter(|(name, _)| !["transfer-encoding", "connection"].contains(&name.as_str())) {
        response = response.header(name.as_str(), value.as_bytes());
    }
    let bytes = answer.bytes().await.unwrap_or_default();
    response.body(Body::from(bytes)).unwrap()
}

/// Every n-th write is stored, and its answer cut off.
#[derive(Clone)]
struct Cutting {
    onward: Onward,
    writes: Arc<AtomicUsize>,
    every: usize,
}

async fn cut_some(State(cutting): State<Cutting>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 26).await.unwrap();
    let is_write = parts.method == axum::http::Method::PUT;
    let answer = pass_on(&cutting.onward, parts, body).await;
    if is_write && cutting.writes.fetch_add(1, Ordering::SeqCst) % cutting.every == cutting.every - 1 {
        let cut: [Result<Bytes, std::io::Error>; 1] = [Err(std::io::Error::other("cut"))];
        return Response::builder().status(500).body(Body::from_stream(futures_util::stream::iter(cut))).unwrap();
    }
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_answer_is_cut_off_is_a_success_when_it_is_compared() {
    let Some(server) = moto() else { return };
    make_bucket(&server.url).await;
    let cutting = Cutting { onward: Onward::to(&server.url), writes: Arc::default(), every: 2 };
    let ours = Ours::serve(Router::new().fallback(cut_some).with_state(cutting)).await;
    let made = context(&variables(&ours.url));
    let url = format!("s3://{BUCKET}/cut");
    let mut sink = sink::open(&url, &made).unwrap();
    sink.position().await.unwrap();
    sink.put_plan(b"plan").await.unwrap();
    for seq in 1..=10 {
        sink.send(&batch(&made, seq..=seq)).await.unwrap();
    }
    assert_eq!(sink.position().await.unwrap(), Seq(10));
}

#[tokio::test]
async fn an_identity_token_is_fetched_and_written_before_it_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let tokens = axum::routing::get(move |headers: axum::http::HeaderMap| async move {
        assert_eq!(headers["authorization"], "Bearer request-token-1");
        format!("{{\"value\":\"identity-{}\"}}", counted.fetch_add(1, Ordering::SeqCst))
    });
    let sts = axum::routing::post(|request: Request| async move {
        let asked = request.uri().to_string()
            + &String::from_utf8_lossy(&axum::body::to_bytes(request.into_body(), 1 << 16).await.unwrap());
        assert!(asked.contains("identity-0"), "{asked}");
        "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>a</AccessKeyId>\
         <SecretAccessKey>b</SecretAccessKey><SessionToken>c</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>\
         </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
    });
    let list = "<ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>";
    let router = Router::new().route("/token", tokens).route("/sts", sts).fallback(move |request: Request| async move {
        assert!(request.headers()["authorization"].to_str().unwrap().contains("Credential=a/"));
        list
    });
    let ours = Ours::serve(router).await;
    let variables = Variables::of([
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/x".to_owned()),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", file.display().to_string()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ENDPOINT_URL", ours.url.clone()),
        ("AWS_ENDPOINT_URL_STS", format!("{}/sts", ours.url)),
        ("ACTIONS_ID_TOKEN_REQUEST_URL", format!("{}/token?x=1", ours.url)),
        ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "request-token-1".to_owned()),
    ]);
    let mut sink = sink::open("s3://evidence/x", &context(&variables)).unwrap();
    assert_eq!(sink.position().await.unwrap(), Seq(0));
    sink.position().await.unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "identity-0");
    assert_eq!(asked.load(Ordering::SeqCst), 1, "once in some minutes");
}

#[tokio::test]
async fn refusals_say_which_permission_or_variable_is_missing() {
    for (status, body, word) in [
        (403, "<Error><Code>AccessDenied</Code><Message>no secret-0123456789</Message></Error>", "s3:ListBucket"),
        (403, "<Error><Code>InvalidAccessKeyId</Code></Error>", "InvalidAccessKeyId"),
        (401, "", "credentials are refused"),
        (404, "<Error><Code>NoSuchBucket</Code></Error>", "no such bucket"),
        (301, "<Error><Code>PermanentRedirect</Code></Error>", "AWS_REGION"),
        (503, "<Error><Code>SlowDown</Code></Error>", "SlowDown"),
    ] {
        let answer = move || async move { Response::builder().status(status).body(Body::from(body)).unwrap() };
        let ours = Ours::serve(Router::new().fallback(answer)).await;
        let mut sink = sink::open("s3://evidence/x", &context(&variables(&ours.url))).unwrap();
        let error = sink.position().await.unwrap_err();
        assert!(error.detail.contains(word), "{status}: {error:?}");
        assert!(!error.detail.contains("secret-0123456789"), "{error:?}");
        assert_eq!(matches!(error.trouble, Trouble::Retryable { .. }), status == 503, "{error:?}");
    }
    // A fork's job: its secrets are empty.
    for (id, secret) in [("", ""), ("", "secret-0123456789"), ("id", "")] {
        let variables = variables("http://127.0.0.1:9").with("AWS_ACCESS_KEY_ID", id).with("AWS_SECRET_ACCESS_KEY", secret);
        let mut sink = sink::open("s3://evidence/x", &context(&variables)).unwrap();
        if id.is_empty() != secret.is_empty() {
            let error = sink.position().await.unwrap_err();
            assert!(error.detail.contains("set AWS_ACCESS_KEY_ID") && !error.detail.contains("secret-0"), "{error:?}");
        }
    }
    let plain = sink::open("s3://evidence/x", &context(&variables("http://minio.example:9000"))).map(|_| ()).unwrap_err();
    assert!(plain.detail.contains("in the clear"), "{plain}");
}
