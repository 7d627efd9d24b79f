//! What check runs cost the service, counted there: legs of 12 files in 30 minutes, 1, 15 and 60 of them at once.
//!
//! The ordinary suite runs the real flusher and the real HTTP code against the fake at many times the speed: every time that a leg has
//! (files, heartbeats, the sink's interval) is divided by the same number. A release is measured in real time with the real program:
//! `LEDGER_TEST_LEG_S=1800` takes half an hour.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::Method;
use ci_ledger::core::chain::Stored;
use ci_ledger::core::ids::{Digest, Epoch, Seq};
use ci_ledger::core::moment::Secs;
use ci_ledger::sink::{self, Backend, Backlog, Batch, Capabilities, Flusher, FlusherOptions, Patience, SinkError};

use super::fake_github::FakeGithub;
use super::lost::{Running, count, program, said_in};
use super::{context, marker};

/// A repository has a thousand requests an hour, and some other jobs.
const HOUR: usize = 1000;

/// The real sink in a world that goes faster.
struct Faster {
    inner: Box<dyn Backend>,
    speed: u64,
}

#[async_trait]
impl Backend for Faster {
    fn url(&self) -> &str {
        self.inner.url()
    }

    fn capabilities(&self) -> Capabilities {
        let inner = self.inner.capabilities();
        Capabilities { interval: Secs::from_millis(inner.interval.millis() / self.speed), ..inner }
    }

    async fn position(&mut self) -> Result<Seq, SinkError> {
        self.inner.position().await
    }

    async fn put_plan(&mut self, plan: &[u8]) -> Result<(), SinkError> {
        self.inner.put_plan(plan).await
    }

    async fn send(&mut self, batch: &Batch) -> Result<(), SinkError> {
        self.inner.send(batch).await
    }
}

struct Nothing;

impl Backlog for Nothing {
    fn read_after(&self, _: Seq, _: usize, _: usize) -> Result<Vec<Stored>, String> {
        Ok(Vec::new())
    }
}

/// One leg: a boundary every 150 s, a heartbeat every 30 s of its own time.
async fn leg(fake: &FakeGithub, number: u32, legs: u32, speed: u64) {
    let mut made = context(&fake.variables());
    made.legs = legs;
    made.leg.target = format!("t{number}").as_str().into();
    made.epoch = Epoch::parse(format!("e{number}")).unwrap();
    let inner = sink::open("github:", &made).unwrap();
    let drawn = made.clone();
    let render = Arc::new(move |_, budget: usize| marker(&drawn, 1, false).render(budget));
    let options = FlusherOptions { backlog: Arc::new(Nothing), render, heartbeat: Secs::from_millis(30_000 / speed) };
    let (flusher, _news) = Flusher::start(vec![Box::new(Faster { inner, speed })], options).unwrap();
    let stored = |seq: u64, progress: bool| {
        let line = format!("{{\"seq\":{seq}}}");
        [Stored { seq: Seq(seq), digest: Digest::of(line.as_bytes()), line: line.as_str().into(), progress }]
    };
    let mut ticks = tokio::time::interval(Duration::from_millis(30_000) / u32::try_from(speed).unwrap());
    // Legs of one run do not begin at the same moment.
    tokio::time::sleep(Duration::from_millis(u64::from(number) * 7)).await;
    for tick in 0..=60u64 {
        ticks.tick().await;
        let is_boundary = tick % 5 == 0;
        flusher.offer(&stored(tick + 1, is_boundary));
        if is_boundary {
            flusher.barrier(Seq(tick + 1), Duration::from_secs(1)).await;
        }
    }
    flusher.finish(Patience::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn legs_at_once_stay_inside_the_hour_of_a_repository() {
    let speed = count("LEDGER_TEST_SPEED", 300);
    for (legs, most_per_leg) in [(1u32, 70), (15, 20), (60, 12)] {
        let fake = FakeGithub::start().await;
        let running = (0..legs).map(|number| leg(&fake, number, legs, speed));
        futures_util::future::join_all(running).await;
        let [gets, posts, patches] = [Method::GET, Method::POST, Method::PATCH].map(|method| fake.count(&method));
        let all = gets + posts + patches;
        eprintln!(
            "{legs} legs: {all} requests ({gets} reads, {posts} made, {patches} changed), {:.1} a leg",
            all as f64 / f64::from(legs)
        );
        assert_eq!(fake.held.lock().unwrap().checks.len(), legs as usize);
        assert!(all <= HOUR && all <= most_per_leg * legs as usize, "{legs} legs: {all}");
        // Every boundary of a single leg is there: what is saved is not saved on those.
        assert!(legs > 15 || posts + patches >= 13 * legs as usize, "{legs} legs: {posts} + {patches}");
    }
}

/// The real program in real time. In the ordinary suite one short leg.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_legs_cost_what_is_counted() {
    let leg_s = count("LEDGER_TEST_LEG_S", 2);
    let crowds: &[u32] = if leg_s >= 60 { &[1, 15, 60] } else { &[1] };
    let one_crowd = async |legs: u32| {
        let fake = FakeGithub::start().await;
        let folders: Vec<tempfile::TempDir> = (0..legs).map(|_| tempfile::tempdir().unwrap()).collect();
        let start = |(number, folder): (usize, &tempfile::TempDir)| -> Running {
            for file in 1..=12 {
                let text = format!("sleep {}", leg_s as f64 / 12.0);
                std::fs::write(folder.path().join(format!("{file:02}.sh")), text).unwrap();
            }
            let mut command = std::process::Command::new(program());
            command.current_dir(folder.path()).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
            command.envs(FakeGithub::IDENTITY).env("GITHUB_API_URL", fake.url());
            command.args(["run", "--run-id", "1", "--platform", "p", "--target", &format!("t{number}"), "--sink", "github:"]);
            command.args(["--legs", &legs.to_string(), "*.sh", "--", "sh"]);
            said_in(folder.path(), command)
        };
        let running: Vec<Running> = folders.iter().enumerate().map(start).collect();
        for mut child in running {
            let status = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
            assert!(status.success(), "{legs} legs: {}", std::fs::read_to_string(folders[0].path().join("stderr.log")).unwrap());
        }
        let [gets, posts, patches] = [Method::GET, Method::POST, Method::PATCH].map(|method| fake.count(&method));
        let all = gets + posts + patches;
        eprintln!(
            "{legs} real legs of {leg_s} s: {all} requests ({gets} reads, {posts} made, {patches} changed), {:.1} a leg",
            all as f64 / f64::from(legs)
        );
        assert!(all <= HOUR, "{legs} legs: {all}");
        // The last word of each leg is there, however spent the budget was.
        let held = fake.held.lock().unwrap();
        assert_eq!(held.checks.len(), legs as usize);
        assert!(held.checks.iter().all(|check| check["conclusion"] == "success"), "{legs} legs");
    };
    futures_util::future::join_all(crowds.iter().map(|legs| one_crowd(*legs))).await;
}
