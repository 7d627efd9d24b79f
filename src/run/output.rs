//! What one file prints: passed on byte for byte, kept bounded in its log, scanned for what speaks to ledger, its tail as evidence.
//!
//! Nothing in here waits for the end of a pipe: a held pipe never holds the loop. What was read of one until then counts all the same.

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
use crate::core::redact::{RedactStream, Redactor, Refused};
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
    /// One for each stream.
    scans: Vec<Arc<Mutex<Scan>>>,
}

/// What is looked for in the output.
#[derive(Clone)]
pub struct Wanted {
    pub classify: Rules,
    pub min_evidence: Option<Rules>,
}

struct Shared {
    redactor: Arc<Mutex<Redactor>>,
    /// Of what both streams printed, in the order in which it came out of their redaction.
    tail: Tail,
    log: LogFile,
    bytes: u64,
    /// Masks that could not be taken.
    refused: Vec<String>,
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
        let shared = Shared {
            redactor,
            tail: Tail::default(),
            log: LogFile::create(log),
            bytes: 0,
            refused: Vec::new(),
            components: Vec::new(),
            rule: None,
            evidence_of_tests: wanted.min_evidence.as_ref().map(|_| false),
            held_back: 0,
            unshown: 0,
        };
        Self { shared: Arc::new(Mutex::new(shared)), pumps: Vec::new(), shown: watch::Sender::new(true), scans: Vec::new() }
    }

    /// Begins to read one of the file's streams.
    pub fn read<R: AsyncRead + Unpin + Send + 'static>(&mut self, stream: Stream, pipe: R, console: Console, wanted: &Wanted) {
        let redact = lock(&lock(&self.shared).redactor).stream();
        let scan = Arc::new(Mutex::new(Scan {
            lines: LineScanner::default(),
            rules: wanted.classify.matcher(),
            evidence: wanted.min_evidence.as_ref().map(Rules::matcher),
            redact,
        }));
        self.scans.push(Arc::clone(&scan));
        self.pumps.push(tokio::spawn(pump(Arc::clone(&self.shared), scan, self.shown.subscribe(), stream, pipe, console)));
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
            for pump in &mut self.pumps {
                pump.abort();
                // One that is at work on a piece finishes it first, which waits for nobody.
                let _ = pump.await;
            }
            notes.push("something still holds its output; what was read until then is kept".to_owned());
        }
        let mut shared = lock(&self.shared);
        // Also of a pipe that is still held: what it said until now is all that it says.
        self.scans.iter().for_each(|scan| lock(scan).end(&mut shared));
        notes.append(&mut shared.refused);
        if let Err(error) = shared.log.finish() {
            notes.push(format!("the log is incomplete: {error}"));
        }
        let redactor = lock(&shared.redactor).clone();
        Printed {
            bytes: shared.bytes,
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

/// What is looked for in one stream, and hidden of it.
struct Scan {
    lines: LineScanner,
    rules: RuleMatcher,
    evidence: Option<RuleMatcher>,
    redact: RedactStream,
}

async fn pump<R: AsyncRead + Unpin>(
    shared: Arc<Mutex<Shared>>,
    scan: Arc<Mutex<Scan>>,
    mut shown: watch::Receiver<bool>,
    stream: Stream,
    mut pipe: R,
    console: Console,
) {
    let mut piece = vec![0; PIECE];
    // A read that fails is the end of this stream: a terminal whose last holder has gone answers with an error.
    while let Ok(length @ 1..) = pipe.read(&mut piece).await {
        for refused in lock(&scan).take(&piece[..length], &mut lock(&shared)) {
            console.say(format!("ledger: warning: {refused}"));
        }
        lock(&shared).held_back += 1;
        let is_shown = tokio::select! {
            biased;
            () = console.bytes(stream, piece[..length].to_vec()) => true,
            // Its sender lives as long as anybody waits for this pump.
            _ = shown.wait_for(|shown| !shown) => false,
        };
        let mut shared = lock(&shared);
        shared.held_back -= 1;
        shared.unshown += if is_shown { 0 } else { length };
    }
}

impl Scan {
    /// The answer is what could not be hidden of it.
    fn take(&mut self, bytes: &[u8], shared: &mut Shared) -> Vec<Refused> {
        let found = self.lines.push(bytes);
        self.rules.push(bytes);
        if let Some(evidence) = &mut self.evidence {
            evidence.push(bytes);
        }
        let refused = shared.found(found);
        shared.bytes += bytes.len() as u64;
        let mut out = Vec::with_capacity(bytes.len());
        // The other stream, or another file, may have announced a mask meanwhile.
        self.redact.adopt(&lock(&shared.redactor));
        self.redact.push(bytes, &mut out);
        shared.keep(&out);
        refused
    }

    fn end(&mut self, shared: &mut Shared) {
        shared.found(self.lines.finish());
        if let Some((outcome, pattern)) = self.rules.finish() {
            shared.rule.get_or_insert_with(|| (outcome, pattern.to_owned()));
        }
        if self.evidence.as_mut().is_some_and(|evidence| evidence.finish().is_some()) {
            shared.evidence_of_tests = Some(true);
        }
        let mut out = Vec::new();
        self.redact.adopt(&lock(&shared.redactor));
        self.redact.finish(&mut out);
        shared.keep(&out);
    }
}

impl Shared {
    fn found(&mut self, found: impl IntoIterator<Item = Found>) -> Vec<Refused> {
        let mut masks = Vec::new();
        for found in found {
            match found {
                Found::Component(component) => self.components.push(component),
                Found::Mask(value) => masks.push(value),
            }
        }
        if masks.is_empty() {
            return Vec::new();
        }
        let refused = lock(&self.redactor).add(masks);
        self.refused.extend(refused.iter().map(ToString::to_string));
        refused
    }

    /// Takes what one stream's redaction lets out.
    fn keep(&mut self, redacted: &[u8]) {
        let redactor = lock(&self.redactor).clone();
        self.tail.push(redacted, &redactor);
        self.log.write(redacted);
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
