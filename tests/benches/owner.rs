//! Budgets of DESIGN §11 that concern processes: overhead per file, sweep of a clean file, end of a thousand that ignore TERM, one
//! sample. Run alone: `cargo bench --bench owner`.

#![expect(clippy::unwrap_used, reason = "a measurement stops at the first thing that is not as it should be")]
#![expect(clippy::disallowed_methods, reason = "a measurement reads the finest clock there is")]

mod row;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use ci_ledger::core::ids::Token;
use ci_ledger::core::moment::Secs;
use ci_ledger::core::outcome::Cleanup;
use ci_ledger::core::process::Swept;
use ci_ledger::core::stop::StopOrder;
use ci_ledger::host::owner::{Owner, OwnerSettings, Report, SpawnSpec};
use ci_ledger::host::sampler::{Sampler, Watched};
use ci_ledger::host::table::{Depth, SharedTable};
use ci_ledger::host::{clock, identity};
use row::{Figures, row};
use tokio::io::AsyncReadExt as _;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(measure());
}

async fn measure() {
    let table = SharedTable::default();
    for others in [0, 300, 3000] {
        let crowd = Crowd::gather(&table, others).await;
        println!("{others} more processes on the host");
        let cold = Instant::now();
        table.lock().refresh(Depth::Thorough).unwrap();
        println!("  {:<44} {:>9.2?}", "first refresh of the table", cold.elapsed());
        timed("table, as for a sample", 50, || table.lock().refresh(Depth::Usual).unwrap());
        timed("table, as for a sweep", 50, || table.lock().refresh(Depth::Thorough).unwrap());
        let mut sampler =
            Sampler::new(table.clone(), vec![("work".to_owned(), ".".into()), ("temp".to_owned(), std::env::temp_dir())]);
        sampler.watch(Watched::Owner(identity::own_id()));
        timed("sample", 50, || drop(sampler.sample(clock::now())));
        files(&table, others).await;
        crowd.disperse().await;
    }
    a_thousand_that_ignore_term(&table).await;
}

fn timed(what: &str, rounds: usize, mut act: impl FnMut()) {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let began = Instant::now();
        act();
        times.push(began.elapsed());
    }
    print(what, times);
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!("  {what:<44} median {:>9.2?}  p90 {:>9.2?}", at(0.5), at(0.9));
}

fn settings(table: &SharedTable) -> OwnerSettings {
    let token = format!("{:016x}{:016x}", std::process::id(), clock::now().mono_ms);
    OwnerSettings {
        program: Some(PathBuf::from(env!("CARGO_BIN_EXE_ledger"))),
        table: table.clone(),
        ..OwnerSettings::new(Token(token))
    }
}

fn program(program: &str, args: &[&str]) -> SpawnSpec {
    SpawnSpec { program: program.into(), args: args.iter().map(|&arg| arg.into()).collect(), cwd: None, env: Vec::new() }
}

/// `true` under an owner that was launched before, as the loop does it.
async fn files(table: &SharedTable, others: usize) {
    let (mut bare, mut launches, mut lives, mut sweeps, mut scans) = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..50 {
        scans.push(one_scan());
        let began = Instant::now();
        std::process::Command::new("true").status().unwrap();
        bare.push(began.elapsed());
        let began = Instant::now();
        let mut owner = Owner::launch(&settings(table)).unwrap();
        owner.ready().await;
        launches.push(began.elapsed());
        let began = Instant::now();
        owner.start(program("true", &[]));
        until_exit(&mut owner).await;
        lives.push(began.elapsed());
        let began = Instant::now();
        let swept = sweep(&mut owner, StopOrder::ask(Secs::from_secs(5))).await;
        sweeps.push(began.elapsed());
        assert_eq!(swept.cleanup, Cleanup::Clean);
        owner.close().await;
    }
    print("`true`, bare", bare);
    print("owner, from launch to readiness", launches);
    print("`true`, from start to its reported end", lives);
    let most = match others {
        300 => Some(5.0),
        3000 => Some(25.0),
        _ => None,
    };
    let budget = most.map_or_else(String::new, |most| format!("≤ {most} ms"));
    let scan = Figures::ms(&scans);
    row(
        &format!("sweep of a clean file, {others} other processes"),
        &Figures::ms(&sweeps),
        Some(("reading /proc/*/stat once", &scan)),
        &budget,
        most,
    );
}

/// What any look at all processes costs: the names in /proc, and one file of each.
fn one_scan() -> Duration {
    let began = Instant::now();
    let mut read = 0;
    for entry in std::fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().is_some_and(|name| name.as_encoded_bytes()[0].is_ascii_digit()) {
            // A process may have ended since.
            read += std::fs::read(path.join("stat")).map_or(0, |text| text.len());
        }
    }
    assert!(read > 0);
    began.elapsed()
}

async fn until_exit(owner: &mut Owner) {
    loop {
        match owner.next().await {
            Report::LeaderExited { .. } => return,
            Report::Started { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

async fn sweep(owner: &mut Owner, order: StopOrder) -> Swept {
    owner.sweep(order);
    loop {
        if let Report::Swept(swept, _) = owner.next().await {
            return swept;
        }
    }
}

async fn a_thousand_that_ignore_term(table: &SharedTable) {
    let grace = Secs::from_millis(300);
    let mut times = Vec::new();
    for _ in 0..5 {
        let mut crowd = Crowd::gather(table, 1000).await;
        let began = Instant::now();
        let swept = sweep(crowd.0.as_mut().unwrap(), StopOrder::ask(grace)).await;
        times.push(began.elapsed().saturating_sub(grace.duration()));
        assert_eq!(swept.cleanup, Cleanup::Clean);
        crowd.0.take().unwrap().close().await;
    }
    let what = "cap expiry → tree gone, 1,000 processes that ignore TERM, grace excluded";
    row(what, &Figures::ms(&times), None, "≤ 250 ms", Some(250.0));
    let mut times = Vec::new();
    for _ in 0..3 {
        let mut crowd = Crowd::gather(table, 2000).await;
        let began = Instant::now();
        let swept = sweep(crowd.0.as_mut().unwrap(), StopOrder::at_once()).await;
        times.push(began.elapsed());
        assert_eq!(swept.cleanup, Cleanup::Clean);
        crowd.0.take().unwrap().close().await;
    }
    row("2,000 processes, killed at once and verified gone", &Figures::ms(&times), None, "", None);
}

/// Idle processes under an owner of their own.
struct Crowd(Option<Owner>);

impl Crowd {
    async fn gather(table: &SharedTable, count: usize) -> Self {
        if count == 0 {
            return Self(None);
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/children/family.py");
        let mut owner = Owner::launch(&settings(table)).unwrap();
        owner.start(program("python3", &[script, &count.to_string()]));
        let mut output = owner.stdout.take().unwrap();
        let mut ready = [0_u8; 6];
        output.read_exact(&mut ready).await.unwrap();
        Self(Some(owner))
    }

    async fn disperse(self) {
        if let Some(mut owner) = self.0 {
            sweep(&mut owner, StopOrder::at_once()).await;
            owner.close().await;
        }
    }
}
