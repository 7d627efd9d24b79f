//! Budgets of DESIGN §11 that concern processes: overhead per file, sweep of a clean file, end of a thousand that ignore TERM, one
//! sample. Run alone: `cargo bench --bench owner`; only the ends of many: `cargo bench --bench owner -- ends`.

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
    let only_ends = std::env::args().any(|arg| arg == "ends");
    for others in [0, 300, 3000].into_iter().filter(|_| !only_ends) {
        let crowd = Crowd::gather(&table, PROGRAMS, others).await;
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
    ends(&table).await;
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
    let token = uuid::Uuid::new_v4().simple().to_string();
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

/// From the end of the grace to the proof, and beside it, in turns, what the system itself takes: KILL to the group, and a wait for each.
async fn ends(table: &SharedTable) {
    let grace = Secs::from_millis(300);
    for (what, family, most) in [
        ("cap expiry → tree gone, 1,000 programs that ignore TERM, grace excluded", PROGRAMS, Some(250.0)),
        ("the same, 1,000 forks of one python", FORKS, None),
    ] {
        let (mut times, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..7 {
            bare.push(bare_end(family, 1000));
            times.push(end_of(table, family, 1000, StopOrder::ask(grace)).await.saturating_sub(grace.duration()));
        }
        let budget = most.map_or_else(String::new, |most| format!("≤ {most} ms"));
        row(what, &Figures::ms(&times), Some(("KILL and wait, bare", &Figures::ms(&bare))), &budget, most);
    }
    let (mut times, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        bare.push(bare_end(PROGRAMS, 2000));
        times.push(end_of(table, PROGRAMS, 2000, StopOrder::at_once()).await);
    }
    let bare = Figures::ms(&bare);
    row("2,000 programs, killed at once and verified gone", &Figures::ms(&times), Some(("KILL and wait, bare", &bare)), "", None);
}

async fn end_of(table: &SharedTable, family: Family, count: usize, order: StopOrder) -> Duration {
    let mut owner = Crowd::gather(table, family, count).await.0.unwrap();
    let began = Instant::now();
    let swept = sweep(&mut owner, order).await;
    let took = began.elapsed();
    assert_eq!(swept.cleanup, Cleanup::Clean);
    owner.close().await;
    took
}

fn bare_end(family: Family, count: usize) -> Duration {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/benches/bare_end.py");
    let output = std::process::Command::new("python3").args([script, family[0], &path_of(family), &count.to_string()]).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let seconds = said.trim().parse().unwrap_or_else(|_| panic!("{said}{}", String::from_utf8_lossy(&output.stderr)));
    Duration::from_secs_f64(seconds)
}

/// A program, and its script in tests/children that makes a number of processes.
type Family = [&'static str; 2];
const PROGRAMS: Family = ["sh", "family.sh"];
const FORKS: Family = ["python3", "family.py"];

fn path_of(family: Family) -> String {
    format!("{}/tests/children/{}", env!("CARGO_MANIFEST_DIR"), family[1])
}

/// Idle processes under an owner of their own.
struct Crowd(Option<Owner>);

impl Crowd {
    async fn gather(table: &SharedTable, family: Family, count: usize) -> Self {
        if count == 0 {
            return Self(None);
        }
        let mut owner = Owner::launch(&settings(table)).unwrap();
        owner.start(program(family[0], &[&path_of(family), &count.to_string()]));
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
