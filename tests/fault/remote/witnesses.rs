//! Emulators that somebody else wrote: whether our picture of a service is more than our own.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine as _;
use ci_ledger::sink::Variables;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::fake_github::FakeGithub;
use super::lost::{end_by_force, program, said_in};
use super::objects::{BUCKET, a_store_keeps_a_leg};
use super::servers::Server;

/// The key that every copy of this emulator has.
const AZURITE: (&str, &str) =
    ("devstoreaccount1", "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==");

fn hmac_sha256(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut block = [0_u8; 64];
    block[..key.len()].copy_from_slice(key);
    let pad = |byte: u8| block.map(|one| one ^ byte);
    let inner = Sha256::digest([&pad(0x36)[..], text].concat());
    Sha256::digest([&pad(0x5c)[..], &inner[..]].concat()).to_vec()
}

/// The client makes no containers.
async fn make_container(endpoint: &str) {
    let (account, key) = AZURITE;
    let date = chrono::Utc::now().format("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let version = "2021-08-06";
    let signed =
        format!("PUT{}x-ms-date:{date}\nx-ms-version:{version}\n/{account}/{account}/{BUCKET}\nrestype:container", "\n".repeat(12));
    let base64 = base64::engine::general_purpose::STANDARD;
    let signature = base64.encode(hmac_sha256(&base64.decode(key).unwrap(), signed.as_bytes()));
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client
        .put(format!("{endpoint}/{account}/{BUCKET}?restype=container"))
        .header("x-ms-date", date)
        .header("x-ms-version", version)
        .header("authorization", format!("SharedKey {account}:{signature}"))
        .header("content-length", "0");
    let answer = request.send().await.unwrap();
    assert!(answer.status().is_success(), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn azurite_keeps_a_leg() {
    let args = |port: u16| {
        let flags = "--silent --disableTelemetry --skipApiVersionCheck --inMemoryPersistence --blobHost 127.0.0.1 --blobPort";
        flags.split(' ').map(str::to_owned).chain([port.to_string()]).collect()
    };
    let Some(server) = Server::of_npm("azurite/dist/src/blob/main.js", args) else { return };
    // The TLS provider of the process, which the first client of ledger's own installs.
    let _ = rustls::crypto::ring::default_provider().install_default();
    make_container(&server.url).await;
    let variables = Variables::of([
        ("AZURE_STORAGE_ACCOUNT_NAME", AZURITE.0.to_owned()),
        ("AZURE_STORAGE_ACCOUNT_KEY", AZURITE.1.to_owned()),
        ("AZURE_STORAGE_ENDPOINT", format!("{}/{}", server.url, AZURITE.0)),
    ]);
    a_store_keeps_a_leg("az", &variables).await;
}

const SEED: &str = "tokens:\n  ghs_0123456789abcdef:\n    login: owner\n    scopes: [repo, user]\ngithub:\n  users:\n    - login: owner\n      \
     name: The Owner\n      email: owner@example.com\n  repos:\n    - owner: owner\n      name: repo\n      auto_init: true\n";

fn ledger(folder: &Path, api: &str, sha: &str) -> Command {
    let mut command = Command::new(program());
    command.current_dir(folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.envs(FakeGithub::IDENTITY).env("GITHUB_API_URL", api).env("GITHUB_SHA", sha);
    command
}

/// Made, found again, changed, closed; lost, told, finalised twice; every check run as the other one's picture of the service has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn emulate_sees_the_same_check_runs() {
    let seed = tempfile::tempdir().unwrap();
    let path = seed.path().join("seed.yaml");
    std::fs::write(&path, SEED).unwrap();
    let args = |port: u16| {
        let port = port.to_string();
        ["start", "-s", "github", "-p", &port, "--seed", &path.display().to_string()].map(str::to_owned).to_vec()
    };
    let Some(server) = Server::of_npm("emulate/dist/index.js", args) else { return };
    let client = {
        let _ = rustls::crypto::ring::default_provider().install_default();
        reqwest::Client::builder().no_proxy().build().unwrap()
    };
    let ask = async |path: String| -> Value {
        let request = client.get(format!("{}/repos/owner/repo/{path}", server.url));
        let request = request.header("authorization", "Bearer ghs_0123456789abcdef").header("user-agent", "test");
        serde_json::from_slice(&request.send().await.unwrap().bytes().await.unwrap()).unwrap()
    };
    let sha = ask("commits".into()).await[0]["sha"].as_str().unwrap().to_owned();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("1.sh"), "exit 0").unwrap();
    std::fs::write(folder.path().join("2.sh"), "echo > began; sleep 1000").unwrap();
    let run = |run: &str, attempt: &str, sink: &str, file: &str| {
        let mut command = ledger(folder.path(), &server.url, &sha);
        command.args(["run", "--platform", "p", "--target", "t", "--run-id", run, "--attempt", attempt, "--sink", sink, file]);
        command.args(["--", "sh"]);
        said_in(folder.path(), command)
    };
    tokio::task::block_in_place(|| {
        assert!(run("77", "1", "github:", "1.sh").wait().unwrap().success());
        assert!(run("77", "2", "github:", "1.sh").wait().unwrap().success());
        let lost = run("78", "1", "github:?state=in-progress", "2.sh");
        let begun = Instant::now();
        while !folder.path().join("began").exists() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the file begins");
            std::thread::sleep(Duration::from_millis(10));
        }
        end_by_force(lost);
    });
    let texts = async || {
        let all = ask(format!("commits/{sha}/check-runs?filter=all")).await["check_runs"].clone();
        let told = |run: &Value| {
            let word = |name: &str| run[name].as_str().unwrap_or("-").to_owned();
            (word("external_id"), word("status"), word("conclusion"), run["output"]["text"].clone())
        };
        let mut told: Vec<_> = all.as_array().unwrap().iter().map(told).collect();
        told.sort_by(|a, b| a.0.cmp(&b.0));
        told
    };
    let before = texts().await;
    let ends: Vec<_> = before.iter().map(|(id, status, end, _)| [id.as_str(), status, end]).collect();
    assert_eq!(
        ends,
        [["77/1/p/t", "completed", "success"], ["77/2/p/t", "completed", "success"], ["78/1/p/t", "in_progress", "-"]]
    );
    for _ in 0..2 {
        let mut command = ledger(folder.path(), &server.url, &sha);
        command.args(["report", "github:", "--run-id", "78", "--now", "4102444800", "--finalize", "--json"]);
        let output = tokio::task::block_in_place(|| command.output().unwrap());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        let leg = &summary["legs"][0];
        assert_eq!((&leg["terminal"], &leg["current_file"]), (&"runner-lost".into(), &"2.sh".into()), "{summary:#}");
        let after = texts().await;
        assert_eq!((after[2].1.as_str(), after[2].2.as_str(), &after[2].3), ("completed", "neutral", &before[2].3));
        assert_eq!(after[..2], before[..2]);
    }
}
