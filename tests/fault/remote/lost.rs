//! What the tests of lost runners stand on: a suite that tells what it does, the four kinds of sinks, and what is left in them.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use ci_ledger::core::chain::Chain;
use ci_ledger::core::ids::Seq;
use ci_ledger::core::marker::Marker;
use ci_ledger::core::moment::Wall;
use ci_ledger::sink::{Narrow, Variables, open_source};
use ci_ledger::store::{LedgerFolder, Reader};
use serde_json::Value;

use super::collector::{Collector, TOKEN};
use super::fake_github::FakeGithub;
use super::objects::{self, BUCKET, pass_on};
use super::servers::{Ours, Server};

pub const FILES: usize = 12;

/// How many of something a test does: few in the ordinary suite, as many as this variable says where a release is measured.
pub fn count(variable: &str, few: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(few)
}

/// The ledger under test: the one that was built beside the tests, or, where a release is measured, the one that `LEDGER_TEST_PROGRAM` names.
pub fn program() -> PathBuf {
    std::env::var_os("LEDGER_TEST_PROGRAM").map_or_else(|| env!("CARGO_BIN_EXE_ledger").into(), PathBuf::from)
}

/// Runs `one` for 1..=many in `LEDGER_TEST_LANES` lanes (1), each with random numbers of its own.
pub fn each(many: u64, one: impl Fn(u64, &mut Random) + Sync) {
    let seed = count("LEDGER_TEST_SEED", u64::from(std::process::id()));
    eprintln!("LEDGER_TEST_SEED={seed}");
    let next = AtomicU64::new(1);
    let lane = || {
        loop {
            let run = next.fetch_add(1, Ordering::SeqCst);
            if run > many {
                return;
            }
            one(run, &mut Random::of(seed, run));
        }
    };
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..count("LEDGER_TEST_LANES", 1)).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().for_each(|lane| lane.join().unwrap());
    });
}

/// Of a seed and a run, so that one run can be had again.
pub struct Random(u64);

impl Random {
    fn of(seed: u64, run: u64) -> Self {
        let mut random = Self(88_172_645_463_325_252 ^ (seed << 20) ^ run);
        random.below(2);
        random.below(2);
        random
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Store,
    Https,
    Github,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::File, Kind::Store, Kind::Https, Kind::Github];

    /// Which sinks the n-th run has: half have a folder, and each other kind a quarter, some of them two together.
    pub fn of_run(run: u64) -> &'static [Kind] {
        match run % 8 {
            1 => &[Kind::Store, Kind::Github],
            2 => &[Kind::File, Kind::Https],
            3 => &[Kind::Github],
            5 => &[Kind::Store],
            7 => &[Kind::Https],
            _ => &[Kind::File],
        }
    }

    pub fn keeps_events(self) -> bool {
        self != Kind::Github
    }
}

/// A segment of the store that it has answered for: when the writer heard of it, nothing may lose it any more.
type Answered = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// The four sinks, each a real server or folder.
pub struct Sinks {
    _store: Server,
    front: Ours,
    answered: Answered,
    pub github: FakeGithub,
    pub collector: Collector,
    folder: tempfile::TempDir,
}

#[derive(Clone)]
struct Recording {
    to: objects::Onward,
    answered: Answered,
}

async fn record(State(recording): State<Recording>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 26).await.unwrap();
    let path = parts.uri.path().to_owned();
    let writes = parts.method == axum::http::Method::PUT && path.ends_with(".ndjson");
    let answer = pass_on(&recording.to, parts, body.clone()).await;
    if writes && answer.status().is_success() {
        recording.answered.lock().unwrap().insert(path, body.to_vec());
    }
    answer
}

impl Sinks {
    /// `None`, and a loud skip, where there is no S3 server.
    pub async fn start() -> Option<Self> {
        let store = objects::moto()?;
        objects::make_bucket(&store.url).await;
        let answered = Answered::default();
        let recording = Recording { to: objects::Onward::to(&store.url), answered: Arc::clone(&answered) };
        let front = Ours::serve(Router::new().fallback(record).with_state(recording)).await;
        let (github, collector) = (FakeGithub::start().await, Collector::start().await);
        {
            let mut held = collector.held.lock().unwrap();
            (held.events_per_answer, held.legs_per_page) = (100, 100);
        }
        Some(Self { _store: store, front, answered, github, collector, folder: tempfile::tempdir().unwrap() })
    }

    pub fn url(&self, kind: Kind) -> String {
        match kind {
            Kind::File => url::Url::from_directory_path(self.folder.path()).unwrap().to_string(),
            Kind::Store => format!("s3://{BUCKET}/lost"),
            Kind::Https => self.collector.url(),
            Kind::Github => "github:".to_owned(),
        }
    }

    pub fn variables(&self) -> Variables {
        Variables::of(self.environment())
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let mut pairs = vec![("AWS_ENDPOINT_URL", self.front.url.clone()), ("LEDGER_HTTPS_TOKEN", TOKEN.to_owned())];
        pairs.extend(objects::KEYS.map(|(name, value)| (name, value.to_owned())));
        pairs.extend(FakeGithub::IDENTITY.map(|(name, value)| (name, value.to_owned())));
        pairs.push(("GITHUB_API_URL", self.github.url().to_owned()));
        pairs
    }

    /// ledger with these sinks' addresses and credentials, and nothing else of the environment.
    pub fn ledger(&self, folder: &Path) -> Command {
        let mut command = Command::new(program());
        command.current_dir(folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap()).envs(self.environment());
        command
    }

    /// What this run has left in a sink, read as any reader does, by epoch in order.
    pub fn left(&self, kind: Kind, run: u64) -> Vec<Left> {
        let variables = self.variables().with("GITHUB_SHA", commit(run));
        let narrow = Narrow { run_id: Some(run.to_string().as_str().into()), variables: variables.clone(), ..Narrow::default() };
        let reading = async {
            let source = open_source(&self.url(kind), &variables).unwrap();
            let mut all = Vec::new();
            for leg in source.legs(&narrow, wall_now()).await.unwrap() {
                let mut lines = Vec::new();
                for name in &leg.segments {
                    let text = String::from_utf8(source.segment(&leg, name).await.unwrap()).unwrap();
                    lines.extend(text.lines().map(str::to_owned));
                }
                let marker = leg.marker.as_ref().map(|marker| serde_json::from_slice(&marker.bytes).unwrap());
                all.push(Left { place: leg.place.clone(), marker, lines });
            }
            all.sort_by_key(|left| left.marker.as_ref().and_then(|marker: &Marker| marker.row.epoch.clone()));
            all
        };
        std::thread::scope(|scope| {
            let reader =
                scope.spawn(|| tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(reading));
            reader.join().unwrap()
        })
    }

    /// Nothing that the store had answered for by now is missing when it is looked at after now.
    pub fn keeps_what_it_answered_for(&self, run: u64, left: &Left) {
        let answered = self.answered(left);
        let after = self.left(Kind::Store, run).pop().unwrap();
        assert!(after.lines.len() >= answered.len(), "run {run}: {} of {} are here", after.lines.len(), answered.len());
        assert_eq!(answered[..], after.lines[..answered.len()], "run {run}");
    }

    /// Everything that the store has answered for in this epoch's folder, in order.
    fn answered(&self, left: &Left) -> Vec<String> {
        let answered = self.answered.lock().unwrap();
        let inside = answered.iter().filter(|(path, _)| path.replace("%2C", ",").contains(&left.place));
        inside.flat_map(|(_, body)| String::from_utf8_lossy(body).lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    pub fn store_url(&self) -> String {
        self.front.url.clone()
    }

    /// The file sink's own.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Whether anybody has written anything there.
    pub fn has_any(&self, kind: Kind) -> bool {
        match kind {
            Kind::File => std::fs::read_dir(self.folder.path()).unwrap().next().is_some(),
            Kind::Store => !self.answered.lock().unwrap().is_empty(),
            Kind::Https => !self.collector.held.lock().unwrap().epochs.is_empty(),
            Kind::Github => !self.github.held.lock().unwrap().checks.is_empty(),
        }
    }

    /// Where the store can be reached at any address of this machine.
    pub fn store_port(&self) -> u16 {
        self.front.port
    }

    pub fn start_run(&self, folder: &Path, run: u64, kinds: &[Kind], more: &[&str]) -> Running {
        let mut command = self.ledger(folder);
        self.run_args(&mut command, run, kinds, more);
        said_in(folder, command)
    }

    pub fn run_args(&self, command: &mut Command, run: u64, kinds: &[Kind], more: &[&str]) {
        command.env("GITHUB_SHA", commit(run));
        command.args(["run", "--platform", "p", "--target", "t", "--run-id", &run.to_string()]).args(more);
        for kind in kinds {
            command.args(["--sink", &self.url(*kind)]);
        }
        command.args(["*.sh", "--", "sh"]);
    }

    /// The leg as a reader with nothing but the sink sees it.
    pub fn report(&self, run: u64, kind: Kind, more: &[&str]) -> Value {
        self.report_of(&self.url(kind), run, more)
    }

    pub fn report_of(&self, url: &str, run: u64, more: &[&str]) -> Value {
        let elsewhere = tempfile::tempdir().unwrap();
        let mut command = self.ledger(elsewhere.path());
        command.env("GITHUB_SHA", commit(run)).args(["report", url, "--json", "--run-id", &run.to_string()]).args(more);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(summary["legs"].as_array().unwrap().len(), 1, "run {run}, {url}: {summary:#}");
        summary["legs"][0].clone()
    }

    /// Every epoch that a sink holds, as `ledger verify` sees it.
    pub fn verify(&self, kind: Kind) {
        let elsewhere = tempfile::tempdir().unwrap();
        let output = self.ledger(elsewhere.path()).args(["verify", &self.url(kind)]).output().unwrap();
        let broken =
            String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.contains("broken")).collect::<Vec<_>>().join("\n");
        assert_eq!(output.status.code(), Some(0), "{kind:?}: {broken}{}", String::from_utf8_lossy(&output.stderr));
    }

    /// From the sink alone: running as long as the lease lasts, lost after it, and in the right file.
    pub fn is_lost_after_its_lease(&self, run: u64, kind: Kind, may_be: &[Option<String>]) {
        let left = self.left(kind, run).pop().unwrap_or_else(|| panic!("run {run}, {kind:?}: nothing is left"));
        let marker = left.marker.unwrap();
        let lease = marker.row.lease_s.unwrap().millis() as i64;
        // Two seconds before, because services keep whole seconds; after, whatever the marker's way took.
        let before = ((marker.written_at.0 + lease) / 1000 - 2).to_string();
        let after = ((wall_now().0 + lease) / 1000 + 2).to_string();
        let early = self.report(run, kind, &["--now", &before]);
        // The blow came after its last word, and before its exit: nothing was lost, and nobody says so.
        if marker.closed {
            assert_eq!(early["terminal"], "complete", "run {run}, {kind:?}: {early:#}");
            return;
        }
        assert_eq!(early["terminal"], "running", "never before the lease: run {run}, {kind:?}: {early:#}");
        let lost = self.report(run, kind, &["--now", &after]);
        assert_eq!(
            (&lost["terminal"], &lost["conclusion"]),
            (&"runner-lost".into(), &"incomplete".into()),
            "run {run}, {kind:?}: {lost:#}"
        );
        let current = lost["current_file"].as_str().map(str::to_owned);
        assert!(may_be.contains(&current), "run {run}, {kind:?}: {current:?} is none of {may_be:?}");
    }
}

/// Each run has a commit of its own, as a check run wants it.
pub fn commit(run: u64) -> String {
    format!("sha{run}")
}

/// One epoch in a sink.
pub struct Left {
    pub place: String,
    pub marker: Option<Marker>,
    pub lines: Vec<String>,
}

impl Left {
    /// Its events are the ledger's own, from the first on without a gap.
    pub fn begins(&self, ledger: &[String], what: &str) {
        assert!(self.lines.len() <= ledger.len() && self.lines[..] == ledger[..self.lines.len()], "{what}: other events");
        let mut chain = Chain::default();
        self.lines.iter().for_each(|line| drop(chain.follow(line, None).unwrap_or_else(|error| panic!("{what}: {error}"))));
        let known = self.marker.as_ref().and_then(|marker| marker.row.head.clone()).map_or(Seq(0), |head| head.seq);
        assert!(known.0 <= self.lines.len() as u64, "{what}: the marker knows {known}, {} are here", self.lines.len());
    }

    /// Everything arrived, but for the very last word: at the end a store that is slower than a second is not waited for.
    pub fn is_whole(&self, ledger: &[String], what: &str) {
        self.begins(ledger, what);
        assert!(self.lines.len() + 1 >= ledger.len(), "{what}: {} of {} arrived", self.lines.len(), ledger.len());
    }

    /// The loop went on because the sink had answered: what it had answered for is here.
    pub fn holds_what_was_said(&self, said: &str, what: &str) {
        let holds = |kind: &str, name: &str| {
            let of_kind = format!("\"kind\":\"{kind}\"");
            self.lines.iter().any(|line| line.contains(&of_kind) && line.contains(&format!("\"{name}\"")))
        };
        let begun: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("begin ")).collect();
        for (at, name) in begun.iter().enumerate() {
            assert!(holds("file-started", name), "{what}: {name} began, and the sink does not know");
            assert!(
                at == 0 || holds("file-finished", begun[at - 1]),
                "{what}: {} ended, and the sink does not know",
                begun[at - 1]
            );
        }
    }
}

/// Files that write down when they begin and end.
pub fn suite() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for index in 1..=FILES {
        let name = format!("{index:02}.sh");
        let text = format!("echo \"begin {name}\" >> said.log\nsleep 0.05\necho \"end {name}\" >> said.log\n");
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

pub fn said(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("said.log")).unwrap_or_default()
}

/// ledger's own words go to `stderr.log` in its folder.
pub fn said_in(folder: &Path, mut command: Command) -> Running {
    let words = std::fs::File::create(folder.join("stderr.log")).unwrap();
    Running(command.stdout(Stdio::null()).stderr(words).spawn().unwrap())
}

/// A ledger that ends with its test, also where that has failed, and also where it stands still.
pub struct Running(Child);

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for a moment that is as likely in any file: so many files have ended, and some milliseconds more.
pub fn some_moment(folder: &Path, random: &mut Random) {
    let files = random.below(FILES as u64) as usize;
    let begun = Instant::now();
    while said(folder).lines().filter(|line| line.starts_with("end")).count() < files || said(folder).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it runs: {}", said(folder));
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_micros(random.below(120_000)));
}

/// A sink that was slower than the second which the loop waits may be behind, and the loop has said so.
pub fn was_degraded(folder: &Path) -> bool {
    std::fs::read_to_string(folder.join("stderr.log")).unwrap().contains("does not answer")
}

/// The files that may be the current one, by what the files themselves have said.
pub fn may_be_current(said: &str) -> Vec<Option<String>> {
    let next = |name: &str| {
        let index: usize = name.trim_end_matches(".sh").parse().unwrap();
        (index < FILES).then(|| format!("{:02}.sh", index + 1))
    };
    match said.lines().last().and_then(|line| line.split_once(' ')) {
        None => vec![None, Some("01.sh".to_owned())],
        Some(("begin", name)) => vec![Some(name.to_owned())],
        // Between two files: the marker already names the next, or the end of this one was not recorded any more.
        Some((_, name)) => vec![Some(name.to_owned()), next(name)],
    }
}

/// The local ledger's own lines.
pub fn local_lines(folder: &Path) -> Vec<String> {
    let databases = LedgerFolder::open(&folder.join(".ledger")).unwrap().databases().unwrap();
    assert_eq!(databases.len(), 1);
    let reader = Reader::open(&databases[0].path).unwrap();
    let lines = reader.lines_after(Seq(0)).map(|line| line.unwrap().stored().unwrap().line.to_string());
    lines.collect()
}

/// As far as it has got, also while it is written.
pub fn all_local_text(folder: &Path) -> String {
    let databases = LedgerFolder::open(&folder.join(".ledger")).and_then(|folder| folder.databases()).unwrap_or_default();
    let Some(reader) = databases.first().and_then(|database| Reader::open(&database.path).ok()) else { return String::new() };
    reader.lines_after(Seq(0)).flatten().filter_map(|line| line.line).collect()
}

/// The machine is gone, and its disk with it. The owner of its last file may still be writing there.
pub fn remove_ledger(folder: &Path) {
    let (from, begun): (PathBuf, _) = (folder.join(".ledger"), Instant::now());
    while std::fs::remove_dir_all(&from).is_err() && from.exists() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the ledger can be removed");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn wall_now() -> Wall {
    Wall(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64)
}

/// As by a machine that loses its power.
pub fn end_by_force(child: Running) {
    drop(child);
}
