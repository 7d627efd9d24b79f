//! What black-box tests stand on: a folder of their own, ledger with a clean environment, and waiting on conditions with deadlines.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::{is_alive, signal};
#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::is_alive;

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Nothing here takes longer unless it is broken, also on a machine that is busy.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A folder with a suite in it.
pub struct World {
    folder: tempfile::TempDir,
}

/// A ledger that has ended.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl World {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// With files of these names and contents.
    pub fn with(files: &[(&str, &str)]) -> Self {
        let world = Self::new();
        files.iter().for_each(|(name, text)| world.write(name, text));
        world
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    pub fn write(&self, name: impl AsRef<Path>, text: &str) {
        let path = self.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.join(name)).unwrap_or_default()).into_owned()
    }

    /// The URL of this folder's own sink.
    pub fn sink(&self) -> String {
        url::Url::from_file_path(self.path().join("sink")).unwrap().into()
    }

    /// ledger in this folder, with nothing of the CI service that may run this test in its environment.
    pub fn ledger<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, args: I) -> Command {
        self.program(env!("CARGO_BIN_EXE_ledger"), args)
    }

    /// Another program here, with the same environment.
    pub fn program<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, program: &str, args: I) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path()).args(args).stdin(Stdio::null());
        without_the_service(&mut command);
        command
    }

    /// Runs it to its end.
    pub fn run<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, args: I) -> Ran {
        self.finish(self.ledger(args))
    }

    pub fn finish(&self, command: Command) -> Ran {
        self.start(command).end()
    }

    /// Starts it; its output goes to files, so that nothing here can hold it up.
    pub fn start(&self, mut command: Command) -> Started {
        let place = tempfile::tempdir().unwrap();
        let file = |name: &str| File::create(place.path().join(name)).unwrap();
        let child = command.stdout(file("stdout")).stderr(file("stderr")).spawn().unwrap();
        Started { child, place }
    }

    /// `ledger report --json` of these sources.
    pub fn report<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, more: I) -> Value {
        let mut command = self.ledger(["report", "--json"]);
        command.args(more);
        let ran = self.finish(command);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        serde_json::from_slice(&ran.stdout).unwrap()
    }

    /// The only leg of the ledger folder.
    pub fn leg(&self) -> Value {
        self.only_leg::<[&str; 0], &str>([])
    }

    pub fn only_leg<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, more: I) -> Value {
        let report = self.report(more);
        let legs = report["legs"].as_array().unwrap();
        assert_eq!(legs.len(), 1, "{report:#}");
        legs[0].clone()
    }

    /// Waits until a file is there and has a whole line in it.
    pub fn line_of(&self, name: &str) -> String {
        until(&format!("'{name}' is written"), || self.read(name).ends_with('\n'));
        self.read(name).trim().to_owned()
    }

    /// Process numbers that a script wrote into a file.
    pub fn pids(&self, name: &str) -> Vec<u32> {
        self.line_of(name).split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    }
}

/// A ledger that runs.
pub struct Started {
    child: Child,
    place: tempfile::TempDir,
}

impl Started {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    #[cfg(unix)]
    pub fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Ends it without a word, as a machine's death would.
    #[cfg(windows)]
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.place.path().join("stderr")).unwrap()).into_owned()
    }

    pub fn status(&mut self) -> ExitStatus {
        self.status_within(LIMIT)
    }

    fn status_within(&mut self, limit: Duration) -> ExitStatus {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            if Instant::now() > deadline {
                self.child.kill().unwrap();
                panic!("ledger did not end: {}", self.stderr());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn end(self) -> Ran {
        self.end_within(LIMIT)
    }

    pub fn end_within(mut self, limit: Duration) -> Ran {
        let status = self.status_within(limit);
        Ran { code: status.code(), stdout: std::fs::read(self.place.path().join("stdout")).unwrap(), stderr: self.stderr() }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // A test that failed leaves no ledger; its owner ends the tree.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ran {
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub fn expect(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.out(), self.stderr);
        self
    }

    /// Its error is one line, and these words are in it.
    pub fn one_error(&self, words: &str) {
        let errors: Vec<&str> = self.stderr.lines().filter(|line| line.contains("error: ")).collect();
        assert_eq!(errors.len(), 1, "{}", self.stderr);
        assert!(errors[0].contains(words), "{words:?} is not in {:?}", errors[0]);
    }
}

/// Waits until it is so.
pub fn until(what: &str, so: impl FnMut() -> bool) {
    within(what, LIMIT, so);
}

/// Waits until it is so, at most this long, and says how long it took.
pub fn within(what: &str, bound: Duration, mut so: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < bound, "not within {bound:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    began.elapsed()
}

/// Whether a program is installed. Where it is not, the test is skipped loudly, and under CI it fails.
pub fn has(program: &str) -> bool {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|folder| folder.join(program).is_file());
    if !found {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{program} is not installed, and CI needs it");
        eprintln!("SKIPPED: {program} is not installed");
    }
    found
}

/// Takes away what the CI service that may run this test has put into the environment.
fn without_the_service(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("GITHUB_") || text.starts_with("LEDGER_") || matches!(&*text, "CI" | "PLATFORM_ID") {
            command.env_remove(&name);
        }
    }
}

/// The files below a folder whose names end so, sorted; none where there is no folder.
pub fn files_below(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let below = |path: PathBuf| match path.is_dir() {
        true => files_below(&path, extension),
        false => Vec::from_iter(Some(path).filter(|path| path.extension().is_some_and(|end| end == extension))),
    };
    let mut found: Vec<PathBuf> = entries.flat_map(|entry| below(entry.unwrap().path())).collect();
    found.sort();
    found
}

/// The files of a leg as (name, outcome).
pub fn outcomes(leg: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or("null").to_owned();
    leg["files"].as_array().unwrap().iter().map(|file| (text(&file["file"]), text(&file["outcome"]))).collect()
}

/// The row of one file.
pub fn file<'a>(leg: &'a Value, name: &str) -> &'a Value {
    leg["files"].as_array().unwrap().iter().find(|file| file["file"] == name).unwrap_or_else(|| panic!("no {name} in {leg:#}"))
}
