//! Starts and ends servers by their own pid. A server that is not installed is a loud skip here, and a failure in CI.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A server process; dropping it kills and reaps it.
pub struct Server {
    child: Child,
    pub url: String,
}

impl Server {
    /// `None` where the program is not installed.
    pub fn start(program: &str, args: impl Fn(u16) -> Vec<String>, port: Option<u16>) -> Option<Self> {
        let Some(path) = installed(program) else {
            assert!(std::env::var_os("CI").is_none(), "{program} is not installed, and CI must have it");
            eprintln!("SKIPPED: {program} is not installed");
            return None;
        };
        let port = port.unwrap_or_else(free_port);
        let quiet = |mut command: Command| command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut command = Command::new(path);
        command.args(args(port));
        Some(Self::listening(program, quiet(command), port))
    }

    /// A server that an npm package of ours is, run by the node that stands beside it or else by the machine's own. `None` where it is not
    /// installed: `.ci/run` puts such witnesses into one folder.
    pub fn of_npm(script: &str, args: impl Fn(u16) -> Vec<String>) -> Option<Self> {
        let folder = std::env::var_os("LEDGER_WITNESSES").map_or_else(|| "/opt/ledger-ci/witnesses".into(), PathBuf::from);
        let (script, own) = (folder.join("node_modules").join(script), folder.join("node_modules/node/bin/node"));
        if !script.is_file() {
            assert!(std::env::var_os("CI").is_none(), "{} is not installed, and CI must have it", script.display());
            eprintln!("SKIPPED: {} is not installed", script.display());
            return None;
        }
        let port = free_port();
        let mut command = Command::new(if own.is_file() { own } else { "node".into() });
        command.arg(&script).args(args(port)).stdout(Stdio::null()).stderr(Stdio::null());
        Some(Self::listening(&script.display().to_string(), command.spawn().unwrap(), port))
    }

    fn listening(program: &str, child: Child, port: u16) -> Self {
        let server = Self { child, url: format!("http://127.0.0.1:{port}") };
        let deadline = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "{program} does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    /// As by `kill -9`, in the middle of whatever it does.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/opt/s3venv/bin".into()]);
    folders.map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// One of our own servers, on a runtime that ends with the test.
pub struct Ours {
    pub url: String,
    pub port: u16,
    task: JoinHandle<()>,
}

impl Ours {
    pub async fn serve(router: axum::Router) -> Self {
        // At every address of this machine: a network namespace reaches it by another one than loopback.
        let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = format!("http://127.0.0.1:{port}");
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Self { url, port, task }
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.task.abort();
    }
}
