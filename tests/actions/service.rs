//! The CI service, as one small HTTP server: the job list, and check runs where the token may write them, which a fork's may not.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::runner::TOKEN;

/// So few that a run has more than one page.
const JOBS_PER_PAGE: usize = 2;

#[derive(Debug, Default)]
struct State {
    jobs: Mutex<Vec<Value>>,
    checks: Mutex<Vec<Value>>,
    may_write: AtomicBool,
    refused: AtomicUsize,
    over: AtomicBool,
}

#[derive(Debug)]
pub struct Service {
    pub url: String,
    state: Arc<State>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Service {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State::default());
        let (theirs, base) = (state.clone(), url.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if theirs.over.load(Ordering::SeqCst) {
                    return;
                }
                // A client that goes away is its own affair.
                let _ = answer(stream.unwrap(), &theirs, &base);
            }
        });
        Self { url, state, thread: Some(thread) }
    }

    pub fn list(&self, mut job: Value) {
        let mut jobs = self.state.jobs.lock().unwrap();
        job["id"] = json!(jobs.len() + 1);
        jobs.push(job);
    }

    /// From now on the token may write check runs.
    pub fn allow_check_runs(&self) {
        self.state.may_write.store(true, Ordering::SeqCst);
    }

    pub fn check_runs(&self) -> Vec<Value> {
        self.state.checks.lock().unwrap().clone()
    }

    pub fn refused(&self) -> usize {
        self.state.refused.load(Ordering::SeqCst)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.url.trim_start_matches("http://"));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(stream: TcpStream, state: &State, base: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut head = Vec::new();
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        head.push(std::mem::take(&mut line).trim_end().to_owned());
    }
    let header = |name: &str| head.iter().find_map(|line| line.to_lowercase().strip_prefix(name).map(str::trim).map(str::to_owned));
    let length: u64 = header("content-length:").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut sent = Vec::new();
    reader.by_ref().take(length).read_to_end(&mut sent)?;
    let mut words = head.first().map(String::as_str).unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let token = header("authorization:").unwrap_or_default();
    let (status, link, body) = if !token.eq_ignore_ascii_case(&format!("bearer {TOKEN}")) {
        ("401 Unauthorized", String::new(), json!({"message": "Bad credentials"}))
    } else if target.contains("/actions/runs/") {
        let run = target.split("/actions/runs/").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
        let mut jobs = state.jobs.lock().unwrap().clone();
        jobs.retain(|job| job["run_id"].as_u64() == run.parse().ok());
        let page: usize = target.rsplit("page=").next().and_then(|page| page.parse().ok()).unwrap_or(1);
        let shown: Vec<&Value> = jobs.iter().skip((page - 1) * JOBS_PER_PAGE).take(JOBS_PER_PAGE).collect();
        let more = jobs.len() > page * JOBS_PER_PAGE;
        let link = if more { format!("Link: <{base}/next>; rel=\"next\"\r\n") } else { String::new() };
        ("200 OK", link, json!({"total_count": jobs.len(), "jobs": shown}))
    } else if !state.may_write.load(Ordering::SeqCst) {
        state.refused.fetch_add(1, Ordering::SeqCst);
        ("403 Forbidden", String::new(), json!({"message": "Resource not accessible by integration"}))
    } else {
        ("200 OK", String::new(), check_run(method, target, &sent, state))
    };
    let body = body.to_string();
    let mut stream = stream;
    write!(stream, "HTTP/1.1 {status}\r\n{link}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

/// Makes, changes or lists check runs; of a changed one, each part that was sent is replaced whole.
fn check_run(method: &str, target: &str, sent: &[u8], state: &State) -> Value {
    let mut checks = state.checks.lock().unwrap();
    let path = target.split('?').next().unwrap_or_default();
    let id = path.rsplit("/check-runs/").next().and_then(|id| id.parse::<usize>().ok());
    match (method, id) {
        ("GET", None) => json!({"total_count": checks.len(), "check_runs": *checks}),
        ("GET", Some(id)) => checks[id - 1].clone(),
        (_, None) => {
            let mut check: Value = serde_json::from_slice(sent).unwrap();
            check["id"] = json!(checks.len() + 1);
            checks.push(check.clone());
            check
        }
        (_, Some(id)) => {
            let change: Value = serde_json::from_slice(sent).unwrap();
            for (key, value) in change.as_object().unwrap() {
                checks[id - 1][key] = value.clone();
            }
            checks[id - 1].clone()
        }
    }
}
