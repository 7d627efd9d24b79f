//! What ledger costs per file, as whole programs: sixty files of `exit 0` by a bare loop, by `timeout`, by GNU parallel, as tests by cargo nextest, by ledger with
//! full evidence and a file sink; with 300 other processes on the host, and without.
//!
//! `cargo bench --bench overhead`. The constant part of each program is taken off: a run of one file is subtracted from one of 61.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a bench reads the clock itself and stops at the first surprise"
)]

mod row;

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use row::{Figures, row};

const FILES: usize = 60;
const ROUNDS: usize = 9;
const OTHERS: usize = 300;

fn main() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut suites = Suites::make(dir.path());
    suites.have_nextest = suites.build_crates();
    for others in [0, OTHERS] {
        let _crowd = Crowd::gather(others);
        measure(&suites, others);
    }
}

/// Folders of one file and of many; each is a crate of so many empty tests, too.
struct Suites {
    one: PathBuf,
    many: PathBuf,
    have_nextest: bool,
}

impl Suites {
    fn make(dir: &Path) -> Self {
        let suite = |name: &str, files: usize| {
            let folder = dir.join(name);
            std::fs::create_dir(&folder).unwrap();
            for number in 0..files {
                std::fs::write(folder.join(format!("{number:02}.sh")), "exit 0\n").unwrap();
            }
            let tests: String = (0..files).map(|number| format!("#[test] fn t{number:02}() {{}}\n")).collect();
            std::fs::create_dir(folder.join("tests")).unwrap();
            std::fs::write(folder.join("tests/empty.rs"), tests).unwrap();
            std::fs::create_dir(folder.join("src")).unwrap();
            std::fs::write(folder.join("src/lib.rs"), "").unwrap();
            std::fs::write(folder.join("Cargo.toml"), format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n[workspace]\n"))
                .unwrap();
            folder
        };
        Self { one: suite("one", 1), many: suite("many", FILES + 1), have_nextest: false }
    }

    /// Where there is `cargo nextest`: it builds what it runs, so that only the running is measured.
    fn build_crates(&self) -> bool {
        [&self.one, &self.many].into_iter().all(|folder| nextest(folder).output().is_ok_and(|output| output.status.success()))
    }
}

type Contestant = (&'static str, fn(&Path) -> Command);

fn measure(suites: &Suites, others: usize) {
    let contestants: [Contestant; 6] = [
        ("bare loop", |folder| looped(folder, "sh \"$f\"")),
        ("timeout", |folder| looped(folder, "timeout 60 sh \"$f\"")),
        ("GNU parallel", |folder| shell(folder, "parallel -j1 sh ::: *.sh")),
        ("cargo nextest, empty tests", |folder| nextest(folder)),
        ("ledger", |folder| ledger(folder, false)),
        ("ledger, file sink", |folder| ledger(folder, true)),
    ];
    let have_parallel = Command::new("parallel").arg("--version").output().is_ok();
    let mut times = vec![Vec::new(); contestants.len()];
    let mut flushes = Vec::new();
    for _ in 0..ROUNDS {
        for ((name, command), times) in contestants.iter().zip(&mut times) {
            let is_here = match *name {
                "GNU parallel" => have_parallel,
                "cargo nextest, empty tests" => suites.have_nextest,
                _ => true,
            };
            if is_here {
                let (one, many) = (timed(command, &suites.one), timed(command, &suites.many));
                times.push(many.saturating_sub(one) / u32::try_from(FILES).unwrap());
            }
        }
        flushes.extend(device_flushes(&suites.one));
    }
    let flush = Figures::ms(&flushes);
    let bare = Figures::ms(&times[0]);
    for (at, (name, _)) in contestants.iter().enumerate().skip(1).filter(|(at, _)| !times[*at].is_empty()) {
        // Round by round, so that a busy moment falls on both.
        let over: Vec<Duration> = times[at].iter().zip(&times[0]).map(|(it, bare)| it.saturating_sub(*bare)).collect();
        let what = format!("per file over a bare loop, {others} other processes: {name}");
        let most = 10.0 + 3.0 * flush.median();
        match *name {
            "ledger, file sink" => {
                let budget = format!("≤ 10 ms + 3 flushes of {} = {most:.2} ms", flush.words());
                row(&what, &Figures::ms(&over), Some(("a bare loop", &bare)), &budget, Some(most));
            }
            _ => row(&what, &Figures::ms(&over), Some(("a bare loop", &bare)), "", None),
        }
    }
}

fn looped(folder: &Path, body: &str) -> Command {
    shell(folder, &format!("for f in *.sh; do {body}; done"))
}

fn shell(folder: &Path, script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(folder);
    command
}

fn nextest(folder: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.args(["nextest", "run", "--offline", "-j1"]).current_dir(folder);
    command
}

fn ledger(folder: &Path, sink: bool) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ledger"));
    command.current_dir(folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap()).args(["run", "--cap", "60s"]);
    if sink {
        command.args(["--sink", &format!("file://{}/.sink", folder.display())]);
    }
    command.args(["*.sh", "--", "sh"]);
    command
}

fn timed(command: &fn(&Path) -> Command, folder: &Path) -> Duration {
    let began = Instant::now();
    let output = command(folder).stdin(Stdio::null()).output().unwrap();
    let took = began.elapsed();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for left in [".ledger", ".sink"] {
        let _ = std::fs::remove_dir_all(folder.join(left));
    }
    took
}

/// What the same disk takes for one append that is durable.
fn device_flushes(folder: &Path) -> Vec<Duration> {
    let path = folder.join("flush");
    let mut file = File::create(&path).unwrap();
    let mut times = Vec::new();
    for _ in 0..20 {
        file.write_all(&[7; 4096]).unwrap();
        let began = Instant::now();
        file.sync_data().unwrap();
        times.push(began.elapsed());
    }
    std::fs::remove_file(&path).unwrap();
    times
}

struct Crowd(Vec<Child>);

impl Crowd {
    fn gather(count: usize) -> Self {
        Self((0..count).map(|_| Command::new("sleep").arg("3600").spawn().unwrap()).collect())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
