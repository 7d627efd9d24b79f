//! What one file prints: passed on byte for byte, kept bounded in its log, scanned for what speaks to ledger, its tail as evidence.
//!
//! Nothing in here waits for the end of a pipe: a held pipe never holds the loop.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::console::{Console, Stream};
use super::logfile::LogFile;
use crate::core::event::Component;
use crate::core::outcome::Outcome;
use crate::core::redact::Redactor;
use crate::core::scan::{Found, LineScanner, RuleMatcher, Rules};
use crate::core::tail::Tail;
use crate::core::watch::Printed;

/// How much is read at once.
const PIECE: usize = 64 * 1024;
/// How long the pipes of an ended tree may still be held (DESIGN §5), the second part without whoever reads ledger's own output.
const DRAIN: Duration = Duration::from_millis(1_500);
const DRAIN_UNSHOWN: Duration = Duration::from_millis(500);

/// Reading the output of one file.
pub struct Output {
    shared: Arc<Mutex<Shared>>,
    pumps: Vec<JoinHandle<()>>,
    /// Whether what is read is shown too.
    shown: watch::Sender<bool>,
}

/// What is looked for in the output.
#[derive(Clone)]
pub struct Wanted {
    pub classify: Rules,
    pub min_evidence: Option<Rules>,
}

struct Shared {
    redactor: Arc<Mutex<Redactor>>,
    tail: Tail,
    log: LogFile,
    components: Vec<Component>,
    rule: Option<(Outcome, String)>,
    evidence_of_tests: Option<bool>,
    /// Pumps that wait for whoever reads ledger's own output.
    held_back: usize,
    /// Bytes that are in the log and were not shown.
    unshown: usize,
}

impl Output {
    /// `redactor` is the run's own: a mask that one file announces holds for all that follow.
    pub fn new(log: &Path, redactor: Arc<Mutex<Redactor>>, wanted: &Wanted) -> Self {
        let stream = lock(&redactor).stream();
        let shared = Shared {
            redactor,
            tail: Tail::default(),
            log: LogFile::create(log, stream),
            components: Vec::new(),
            rule: None,
            evidence_of_tests: wanted.min_evidence.as_ref().map(|_| false),
            held_back: 0,
            unshown: 0,
        };
        Self { shared: Arc::new(Mutex::new(shared)), pumps: Vec::new(), shown: watch::Sender::new(true) }
    }

    /// Begins to read one of the file's streams.
    pub fn read<R: AsyncRead + Unpin + Send + 'static>(&mut self, stream: Stream, pipe: R, console: Console, wanted: &Wanted) {
        let pump = Pump {
            shared: Arc::clone(&self.shared),
            lines: LineScanner::default(),
            rules: wanted.classify.matcher(),
            evidence: wanted.min_evidence.as_ref().map(Rules::matcher),
            shown: self.shown.subscribe(),
        };
        self.pumps.push(tokio::spawn(pump.run(stream, pipe, console)));
    }

    /// The newest lines, for a heartbeat.
    pub fn last_lines(&self) -> Option<String> {
        let shared = lock(&self.shared);
        let redactor = lock(&shared.redactor).clone();
        shared.tail.so_far(&redactor)
    }

    /// Reads what is left, bounded, and gives the whole account.
    pub async fn drain(mut self) -> Printed {
        let mut notes = Vec::new();
        let mut drained = self.all_read_within(DRAIN).await;
        if !drained {
            let held_back = lock(&self.shared).held_back > 0;
            self.shown.send_replace(!held_back);
            drained = self.all_read_within(DRAIN_UNSHOWN).await;
            let unshown = lock(&self.shared).unshown;
            notes.extend(held_back.then(|| {
                format!(
                    "nobody reads ledger's own output, which held this file back; {unshown} bytes were not shown, its log has them"
                )
            }));
        }
        if !drained {
            self.pumps.iter().for_each(JoinHandle::abort);
            notes.push("something still holds its output; what was read until then is kept".to_owned());
        }
        let mut shared = lock(&self.shared);
        if let Err(error) = shared.log.finish() {
            notes.push(format!("the log is incomplete: {error}"));
        }
        let redactor = lock(&shared.redactor).clone();
        Printed {
            bytes: shared.tail.total(),
            last_output: shared.tail.at_end(&redactor),
            components: std::mem::take(&mut shared.components),
            rule: shared.rule.take(),
            evidence_of_tests: shared.evidence_of_tests,
            notes,
        }
    }

    async fn all_read_within(&mut self, bound: Duration) -> bool {
        let all = async {
            while let Some(pump) = self.pumps.last_mut() {
                let _ = pump.await;
                self.pumps.pop();
            }
        };
        tokio::time::timeout(bound, all).await.is_ok()
    }
}

struct Pump {
    shared: Arc<Mutex<Shared>>,
    lines: LineScanner,
    rules: RuleMatcher,
    evidence: Option<RuleMatcher>,
    shown: watch::Receiver<bool>,
}

impl Pump {
    async fn run<R: AsyncRead + Unpin>(mut self, stream: Stream, mut pipe: R, console: Console) {
        let mut piece = vec![0; PIECE];
        // A read that fails is the end of this stream: a terminal whose last holder has gone answers with an error.
        while let Ok(length @ 1..) = pipe.read(&mut piece).await {
            self.take(&piece[..length]);
            lock(&self.shared).held_back += 1;
            let is_shown = tokio::select! {
                biased;
                () = console.bytes(stream, piece[..length].to_vec()) => true,
                // Its sender lives as long as anybody waits for this pump.
                _ = self.shown.wait_for(|shown| !shown) => false,
            };
            let mut shared = lock(&self.shared);
            shared.held_back -= 1;
            shared.unshown += if is_shown { 0 } else { length };
        }
        self.end();
    }

    fn take(&mut self, bytes: &[u8]) {
        let found = self.lines.push(bytes);
        self.rules.push(bytes);
        if let Some(evidence) = &mut self.evidence {
            evidence.push(bytes);
        }
        let mut shared = lock(&self.shared);
        found.into_iter().for_each(|found| shared.found(found));
        let redactor = lock(&shared.redactor).clone();
        shared.tail.push(bytes, &redactor);
        shared.log.write(bytes);
    }

    fn end(&mut self) {
        let mut shared = lock(&self.shared);
        if let Some(found) = self.lines.finish() {
            shared.found(found);
        }
        if let Some((outcome, pattern)) = self.rules.finish() {
            shared.rule.get_or_insert_with(|| (outcome, pattern.to_owned()));
        }
        if self.evidence.as_mut().is_some_and(|evidence| evidence.finish().is_some()) {
            shared.evidence_of_tests = Some(true);
        }
    }
}

impl Shared {
    fn found(&mut self, found: Found) {
        match found {
            Found::Component(component) => self.components.push(component),
            Found::Mask(value) => {
                let mut redactor = lock(&self.redactor);
                if redactor.add(&value) {
                    self.log.adopt(&redactor);
                }
            }
        }
    }
}

/// A panic while a lock was held cannot leave these in a state worse than a lost piece of output.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the log of a file goes: a name that says which file it was and cannot leave the folder.
pub fn log_path(folder: &Path, round: u32, index: u32, base_name: &str) -> PathBuf {
    let harmless = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' };
    let name: String = base_name.chars().take(80).map(harmless).collect();
    let round = if round > 1 { format!("r{round:04}-") } else { String::new() };
    folder.join(format!("{round}{index:04}-{name}.log"))
}
